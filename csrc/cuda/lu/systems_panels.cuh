/* systems_panels.cuh: factors and solutions of systems.cuh by all threads of a block, panel by panel.
 *
 * One warp factors a panel, the PANEL columns from `first` on, in registers: a lane has rows of it, and exchanges give
 * these other places. Then each thread takes columns beside the panel: it exchanges their rows, and of U computes
 * those of the panel. What the panel subtracts from the rest comes at last, a tile of HEIGHT rows to a warp and a
 * column of it to a lane, so that an element is read and written once in a panel. It takes its products in the order of
 * the columns, as everywhere. */

constexpr int ROWS = ceil_div(N, 32), WARPS = LANES / 32, HEIGHT = 8, VECTORS = PANEL / WIDEST;
constexpr int NO_PLACE = 255;
static_assert(N < NO_PLACE && 32 % PANEL == 0 && PANEL % WIDEST == 0, "panels are whole vectors, and end with warps");

/* --- division --- */

__device__ __noinline__ Element rare_quotient(Element x, Element p) { return slow_quotient(x, p); }

/* x / p for many x. */
struct Pivot {
    Element p, inverse;
    bool exact;
    __device__ Pivot(Element p, Element inverse) : p(p), inverse(inverse), exact(is_exact(inverse)) {}
    __device__ explicit Pivot(Element p) : Pivot(p, inverse_of(p)) {}
    __device__ Element divide(Element x) const { return exact ? product(x, inverse) : rare_quotient(x, p); }
};

/* --- a panel in registers --- */

__device__ inline T of_thread(T x, int thread) { return __shfl_sync(WARP, x, thread); }
__device__ inline Number of_thread(Number x, int thread) { return {of_thread(x.re, thread), of_thread(x.im, thread)}; }

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
    __device__ void fetch(const Own &o, int first, int from) {
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const int i = threadIdx.x + 32 * r;
            place[r] = i < from || i >= N ? -1 : i;
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
    __device__ void put(const Own &o, int first) const { put(x, o.elements + first, PITCH, N - first); }

    /* The place, k or after it, of the largest element of column t, of equals the first; nothing is larger than a NaN
     * in place k. */
    __device__ int find(int t, int k) const {
        decltype(magnitude(T(0))) most = 0;
        int at = NO_PLACE;
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const T size = size_of(x[r][t]), infinity = static_cast<T>(__longlong_as_double(0x7ff0000000000000));
            const auto key = !isnan(size) ? magnitude(size) : place[r] == k ? magnitude(infinity) : 0;
            if (place[r] >= k && (at == NO_PLACE || key > most || (key == most && place[r] < at)))
                most = key, at = place[r];
        }
        const auto largest = largest_of_warp(most);
        return NO_PLACE - __reduce_max_sync(WARP, most == largest ? unsigned(NO_PLACE - at) : 0u);
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
    const int right = most(N - PANEL - first, 0);
    for (int j = lane(); j < first + right; j += LANES) each(j < first ? j : j + PANEL);
}

__device__ inline void exchange_in_column(const Own &o, int first, int j) {
#pragma unroll
    for (int t = 0; t < PANEL; t++) {
        if (first + t >= N) break;
        const int p = o.pivot(first + t);
        if (p != first + t) swap(o.a(first + t, j), o.a(p, j));
    }
}

/* a_ij -= l_i0 u_0j + l_i1 u_1j + ..., in this order, for `height` rows and `width` columns, rows numbered by row(),
 * and columns by column(); line(i) is l_i, u(s, e, j) gives the elements u_sj from s on. Tiles that are `left_out` are.
 */
template <class Row, class Column, class Line, class U, class LeftOut>
__device__ inline void subtract(const Own &o, int height, int width, Row row, Column column, Line line, U u,
                                LeftOut left_out) {
    const int across = ceil_div(width, 32), tiles = ceil_div(height, HEIGHT) * across;
#pragma unroll 1
    for (int tile = threadIdx.x / 32; tile < tiles; tile += WARPS) {
        const int i = tile / across * HEIGHT, own = tile % across * 32 + threadIdx.x % 32;
        if (own >= width || left_out(i + HEIGHT - 1, tile % across * 32)) continue;
        const int j = column(own);
        Element y[HEIGHT];
#pragma unroll
        for (int r = 0; r < HEIGHT; r++) y[r] = o.a(row(least(i + r, height - 1)), j);
#pragma unroll
        for (int v = 0; v < VECTORS; v++) {
            Element z[WIDEST];
            u(v, j, z);
#pragma unroll
            for (int r = 0; r < HEIGHT; r++) {
                const auto l = load<WIDEST>(line(row(least(i + r, height - 1))) + v * WIDEST);
#pragma unroll
                for (int e = 0; e < WIDEST; e++) y[r] = multiply_subtract(l.x[e], z[e], y[r]);
            }
        }
#pragma unroll
        for (int r = 0; r < HEIGHT; r++)
            if (i + r < height) o.a(row(i + r), j) = y[r];
    }
}

/* --- factors --- */

/* The columns of a panel become those of L and U. After a pivot that is of no use it goes on: nothing that comes of it
 * is kept. */
__device__ inline void factor_panel(const Own &o, int first, Outcome &outcome) {
    Panel panel;
    panel.fetch(o, first, first);
#pragma unroll
    for (int t = 0; t < PANEL; t++) {
        const int k = first + t;
        if (k >= N) break;
        Element u[PANEL];
        const int p = panel.find(t, k);
        panel.take_row(u, p, k);
        if (!outcome.info && is_useless(u[t])) outcome = {k + 1, is_zero(u[t])};
        if (threadIdx.x == 0) o.pivot(k) = p;
        const Pivot pivot(u[t]);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            if (panel.place[r] <= k) continue;
            const Element l = panel.x[r][t] = pivot.divide(panel.x[r][t]);
#pragma unroll
            for (int s = t + 1; s < PANEL; s++) panel.x[r][s] = multiply_subtract(l, u[s], panel.x[r][s]);
        }
    }
    panel.put(o, first);
}

/* A becomes L and U. The outcome is known to the first warp. */
__device__ inline Outcome factor(const Own &o) {
    Outcome outcome;
#pragma unroll 1
    for (int first = 0; first < N; first += PANEL) {
        if (threadIdx.x < 32) factor_panel(o, first, outcome);
        wait();
        for_columns_beside(first, [&](int j) {
            exchange_in_column(o, first, j);
            if (j < first) return;
            Element x[PANEL];
#pragma unroll
            for (int t = 0; t < PANEL; t++) {
                Element l[PANEL], y = o.a(first + t, j);
                load_line(l, o.row(first + t) + first);
#pragma unroll
                for (int s = 0; s < t; s++) y = multiply_subtract(l[s], x[s], y);
                o.a(first + t, j) = x[t] = y;
            }
        });
        wait();
        const int rest = first + PANEL;
        const auto after = [=](int i) { return rest + i; };
        if (rest < N)
            subtract(
                o, N - rest, N - rest, after, after, [&](int i) { return o.row(i) + first; },
                [&](int v, int j, Element(&u)[WIDEST]) {
#pragma unroll
                    for (int e = 0; e < WIDEST; e++) u[e] = o.a(first + v * WIDEST + e, j);
                },
                [](int, int) { return false; });
        wait();
    }
    return outcome;
}

/* The lower triangle of Hermitian A becomes L of A = L L^H. Returns the first step, from 1, whose pivot is not
 * positive; or 0: to the first warp. */
__device__ inline int factor_definite(const Own &o) {
    int info = 0;
#pragma unroll 1
    for (int first = 0; first < N; first += PANEL) {
        if (threadIdx.x < 32) {
            Panel panel;
            panel.fetch(o, first, first);
#pragma unroll
            for (int t = 0; t < PANEL; t++) {
                const int k = first + t;
                if (k >= N) break;
                /* Column t of the panel's own rows, which the lanes from `first` on have. */
                Element own = panel.x[0][t];
#pragma unroll
                for (int r = 1; r < ROWS; r++) own = select(r == first / 32, panel.x[r][t], own);
                const T pivot = of_thread(real_of(own), k % 32);
                if (!info && !(pivot > 0)) info = k + 1;
                const T length = root(pivot), inverse = reciprocal(length);
                own = scaled(own, inverse);
                Element u[PANEL];
#pragma unroll
                for (int s = t + 1; s < PANEL; s++) u[s] = conjugate(of_thread(own, (first + s) % 32));
#pragma unroll
                for (int r = 0; r < ROWS; r++) {
                    const Element l = scaled(panel.x[r][t], inverse);
                    panel.x[r][t] = panel.place[r] == k ? element_of(length) : l;
#pragma unroll
                    for (int s = t + 1; s < PANEL; s++) panel.x[r][s] = multiply_subtract(l, u[s], panel.x[r][s]);
                }
            }
            panel.put(o, first);
        }
        wait();
        const int rest = first + PANEL;
        const auto after = [=](int i) { return rest + i; };
        if (rest < N)
            subtract(
                o, N - rest, N - rest, after, after, [&](int i) { return o.row(i) + first; },
                [&](int v, int j, Element(&u)[WIDEST]) {
                    const auto l = load<WIDEST>(o.row(j) + first + v * WIDEST);
#pragma unroll
                    for (int e = 0; e < WIDEST; e++) u[e] = conjugate(l.x[e]);
                },
                [](int last_row, int first_column) { return last_row < first_column; });
        wait();
    }
    return info;
}

/* --- solutions --- */

/* Threads stand side by side along rows of X. */
constexpr int SIDE_BY_SIDE = power_of_two(most(COLUMNS, 1)), ROWS_AT_ONCE = LANES / SIDE_BY_SIDE;
constexpr int TURNS = ceil_div(N, ROWS_AT_ONCE);

/* X becomes the solution of a triangular system. All lanes have arrived, and have when it ends. */
template <Way WAY, bool UPPER, bool UNIT> __device__ inline void solve_triangle(const Own &o) {
    Element *const inverses = o.beside;
    const int c = lane() % SIDE_BY_SIDE, down = lane() / SIDE_BY_SIDE;
    if constexpr (!UNIT) {
        for (int j = lane(); j < N; j += LANES) inverses[j] = inverse_of(o.a(j, j));
        wait();
    }
#pragma unroll 1
    for (int step = 0; step < N; step += PANEL) {
        const int first = UPPER ? (N - 1 - step) / PANEL * PANEL : step, rest = first + PANEL;
        if (down == 0 && c < COLUMNS) {
            Element x[PANEL];
#pragma unroll
            for (int step = 0; step < PANEL; step++) {
                const int t = UPPER ? PANEL - 1 - step : step, j = first + t;
                if (j >= N) continue;
                Element y = o.x(j, c);
#pragma unroll
                for (int before = 0; before < step; before++) {
                    const int s = UPPER ? PANEL - 1 - before : before;
                    if (first + s < N) y = multiply_subtract(element<WAY>(o, j, first + s), x[s], y);
                }
                if constexpr (!UNIT) {
                    const Element inverse = WAY == ADJOINT ? conjugate(inverses[j]) : inverses[j];
                    y = Pivot(element<WAY>(o, j, j), inverse).divide(y);
                }
                o.x(j, c) = x[t] = y;
            }
        }
        wait();
        Element x[PANEL];
#pragma unroll
        for (int t = 0; t < PANEL; t++) x[t] = c < COLUMNS && first + t < N ? o.x(first + t, c) : element_of(0);
        const int begin = UPPER ? 0 : rest, end = UPPER ? first : N;
#pragma unroll 1
        for (int i = begin + down; i < end; i += ROWS_AT_ONCE) {
            if (c >= COLUMNS) continue;
            Element y = o.x(i, c);
#pragma unroll
            for (int step = 0; step < PANEL; step++) {
                const int t = UPPER ? PANEL - 1 - step : step;
                if (first + t < N) y = multiply_subtract(element<WAY>(o, i, first + t), x[t], y);
            }
            o.x(i, c) = y;
        }
        wait();
    }
}

/* Where the exchanges of all steps bring a row. */
__device__ inline int place_of_row(const Own &o, int row) {
#pragma unroll 8
    for (int k = 0; k < N; k++) {
        const int p = o.pivot(k);
        row = row == k ? p : row == p ? k : row;
    }
    return row;
}
__device__ inline void find_places(const Own &o) {
    for (int i = lane(); i < N; i += LANES) o.integers[N + i] = place_of_row(o, i);
    wait();
}

/* Rows of X come to their places, or return from there. */
template <bool BACKWARDS> __device__ inline void exchange_rows(const Own &o) {
    const int c = least(lane() % SIDE_BY_SIDE, most(COLUMNS, 1) - 1), down = lane() / SIDE_BY_SIDE;
    const bool mine = lane() % SIDE_BY_SIDE < COLUMNS;
    Element x[TURNS];
    find_places(o);
#pragma unroll
    for (int turn = 0; turn < TURNS; turn++) {
        const int i = least(down + turn * ROWS_AT_ONCE, N - 1);
        x[turn] = o.x(BACKWARDS ? o.integers[N + i] : i, c);
    }
    wait();
#pragma unroll
    for (int turn = 0; turn < TURNS; turn++) {
        const int i = down + turn * ROWS_AT_ONCE;
        if (mine && i < N) o.x(BACKWARDS ? i : o.integers[N + i], c) = x[turn];
    }
    wait();
}
