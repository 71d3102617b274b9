/* panels.cuh: a matrix in panels of PANEL columns, on which all threads of a block work.
 *
 * One warp has a panel, the columns from `first` on, in registers: a lane has rows of it, and exchanges give these
 * other places. What a panel subtracts from the rest of the matrix comes a tile of HEIGHT rows to a warp and a column
 * of it to a lane, so that an element is read and written once in a panel; the first warp takes the next panel's
 * columns, and goes on with that panel meanwhile. An element takes its products in the order of the columns. */

constexpr int ROWS = ceil_div(M, 32), OTHER_WARPS = LANES / 32 - 1, HEIGHT = 8, VECTORS = PANEL / WIDEST;
constexpr int NO_POSITION = 255;
static_assert(M < NO_POSITION && 32 % PANEL == 0 && PANEL % WIDEST == 0,
              "panels are whole vectors, and end with warps");

/* --- a panel in registers --- */

__device__ inline T of_thread(T x, int thread) { return __shfl_sync(WARP, x, thread); }
__device__ inline Complex of_thread(Complex x, int thread) {
    return {of_thread(x.re, thread), of_thread(x.im, thread)};
}

__device__ inline unsigned largest_of_warp(unsigned x) { return __reduce_max_sync(WARP, x); }
__device__ inline unsigned long long largest_of_warp(unsigned long long x) {
    const unsigned high = __reduce_max_sync(WARP, static_cast<unsigned>(x >> 32));
    const unsigned low = __reduce_max_sync(WARP, x >> 32 == high ? static_cast<unsigned>(x) : 0u);
    return static_cast<unsigned long long>(high) << 32 | low;
}

struct Panel {
    Element x[ROWS][PANEL];
    int place[ROWS]; /* of a row in the matrix; -1: it takes no part */

    /* Rows from `from` on. */
    __device__ void fetch(const MatrixWorkspace &o, int first, int from) {
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const int i = threadIdx.x + 32 * r;
            place[r] = i < from || i >= M ? -1 : i;
#pragma unroll
            for (int v = 0; v < VECTORS; v++) {
                Vector<WIDEST, Element> y = {};
                if (place[r] >= 0 && first + v * WIDEST < N) y = load<WIDEST>(o.row(i) + first + v * WIDEST);
#pragma unroll
                for (int e = 0; e < WIDEST; e++) x[r][v * WIDEST + e] = y.x[e];
            }
        }
        __syncwarp();
    }
    /* Elements y of its rows, which begin at `to` with the first place, so many apart. */
    __device__ void put(const Element (&y)[ROWS][PANEL], Element *to, int pitch, int columns) const {
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
            for (int v = 0; v < VECTORS; v++) {
                Vector<WIDEST, Element> z;
#pragma unroll
                for (int e = 0; e < WIDEST; e++) z.x[e] = y[r][v * WIDEST + e];
                if (place[r] >= 0 && v * WIDEST < columns) store<WIDEST>(to + place[r] * pitch + v * WIDEST, z);
            }
    }
    __device__ void put(const MatrixWorkspace &o, int first) const { put(x, o.elements + first, PITCH, N - first); }

    /* x_c -= l_0 u_0c + l_1 u_1c + ..., in this order, of rows that take part and are not left out. line(place) is
     * where those l of a row lie; u(v) fills vector v of them for each column. */
    template <class LeftOut, class Line, class U> __device__ void subtract(LeftOut left_out, Line line, U u) {
#pragma unroll
        for (int v = 0; v < VECTORS; v++) {
            Element z[WIDEST][PANEL];
            u(v, z);
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                if (place[r] < 0 || left_out(place[r])) continue;
                const auto l = load<WIDEST>(line(place[r]) + v * WIDEST);
#pragma unroll
                for (int e = 0; e < WIDEST; e++)
#pragma unroll
                    for (int c = 0; c < PANEL; c++) x[r][c] = multiply_subtract(l.x[e], z[e][c], x[r][c]);
            }
        }
    }

    /* The place, k or after it, of the largest element of column t, of equals the first; nothing is larger than a NaN
     * in place k. */
    __device__ int find(int t, int k) const {
        decltype(magnitude(T(0))) most = 0;
        int at = NO_POSITION;
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const T size = size_of(x[r][t]), infinity = static_cast<T>(__longlong_as_double(0x7ff0000000000000));
            const auto key = !isnan(size) ? magnitude(size) : place[r] == k ? magnitude(infinity) : 0;
            if (place[r] >= k && (at == NO_POSITION || key > most || (key == most && place[r] < at)))
                most = key, at = place[r];
        }
        const auto largest = largest_of_warp(most);
        return NO_POSITION - __reduce_max_sync(WARP, most == largest ? unsigned(NO_POSITION - at) : 0u);
    }

    /* The row in place p comes to all lanes, and exchanges its place with that in k. */
    __device__ void take_row(Element (&u)[PANEL], int p, int k) {
        bool mine = false;
#pragma unroll
        for (int s = 0; s < PANEL; s++) u[s] = x[0][s];
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            if (place[r] == p) {
                mine = true;
#pragma unroll
                for (int s = 0; s < PANEL; s++) u[s] = x[r][s];
            }
            place[r] = place[r] == p ? k : place[r] == k ? p : place[r];
        }
        const int owner = __ffs(__ballot_sync(WARP, mine)) - 1;
#pragma unroll
        for (int s = 0; s < PANEL; s++) u[s] = of_thread(u[s], owner);
    }
};

/* --- what a panel does to other columns and rows --- */

/* The panel's row t of what is so many elements apart. */
__device__ inline void load_line(Element (&to)[PANEL], const Element *line) {
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
        const auto y = load<WIDEST>(line + v * WIDEST);
#pragma unroll
        for (int e = 0; e < WIDEST; e++) to[v * WIDEST + e] = y.x[e];
    }
}

/* each(j) of every column beside the panel. */
template <class Each> __device__ inline void for_columns_beside(int first, Each each) {
    const int right = max_of(N - PANEL - first, 0);
    for (int j = lane(); j < first + right; j += LANES) each(j < first ? j : j + PANEL);
}

/* The elements of column j in the panel's rows, once these are exchanged. */
__device__ inline void exchange_in_column(const MatrixWorkspace &o, int first, int j, Element (&x)[PANEL]) {
#pragma unroll
    for (int t = 0; t < PANEL; t++) x[t] = first + t < M ? o.a(first + t, j) : element_of(0);
#pragma unroll
    for (int t = 0; t < PANEL; t++) {
        if (first + t >= STEPS) break;
        const int p = o.pivot(first + t);
        if (p >= first + PANEL) {
            swap(x[t], o.a(p, j));
        } else {
#pragma unroll
            for (int s = t + 1; s < PANEL; s++)
                if (first + s == p) swap(x[t], x[s]);
        }
    }
}
__device__ inline void put_in_column(const MatrixWorkspace &o, int first, int j, const Element (&x)[PANEL]) {
#pragma unroll
    for (int t = 0; t < PANEL; t++)
        if (first + t < M) o.a(first + t, j) = x[t];
}

/* a_ij -= l_i0 u_0j + l_i1 u_1j + ..., in this order, for `height` rows and `width` columns, rows numbered by row(),
 * and columns by column(); line(i) is where those l of a row lie, u(v, j) fills vector v of them for a column. Tiles
 * that are `left_out` are. By all warps but the first. */
template <class Row, class Column, class Line, class U, class LeftOut>
__device__ inline void subtract(const MatrixWorkspace &o, int height, int width, Row row, Column column, Line line, U u,
                                LeftOut left_out) {
    const int across = ceil_div(width, 32), tiles = ceil_div(height, HEIGHT) * across;
#pragma unroll 1
    for (int tile = threadIdx.x / 32 - 1; tile < tiles; tile += OTHER_WARPS) {
        const int i = tile / across * HEIGHT, own = tile % across * 32 + threadIdx.x % 32;
        if (own >= width || left_out(i + HEIGHT - 1, tile % across * 32)) continue;
        const int j = column(own);
        Element y[HEIGHT];
#pragma unroll
        for (int r = 0; r < HEIGHT; r++) y[r] = o.a(row(min_of(i + r, height - 1)), j);
#pragma unroll
        for (int v = 0; v < VECTORS; v++) {
            Element z[WIDEST];
            u(v, j, z);
#pragma unroll
            for (int r = 0; r < HEIGHT; r++) {
                const auto l = load<WIDEST>(line(row(min_of(i + r, height - 1))) + v * WIDEST);
#pragma unroll
                for (int e = 0; e < WIDEST; e++) y[r] = multiply_subtract(l.x[e], z[e], y[r]);
            }
        }
#pragma unroll
        for (int r = 0; r < HEIGHT; r++)
            if (i + r < height) o.a(row(i + r), j) = y[r];
    }
}

/* --- places --- */

/* Where the exchanges of all steps bring a row. */
__device__ inline int position_of_row(const MatrixWorkspace &o, int row) {
#pragma unroll 8
    for (int k = 0; k < N; k++) {
        const int p = o.pivot(k);
        row = row == k ? p : row == p ? k : row;
    }
    return row;
}
__device__ inline void find_positions(const MatrixWorkspace &o) {
    for (int i = lane(); i < N; i += LANES) o.integers[N + i] = position_of_row(o, i);
    sync_lanes();
}
