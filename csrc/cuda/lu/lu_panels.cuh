/* lu_panels.cuh: the blocked factorization of one matrix in its image, by LANES lanes.
 *
 * Whoever includes this has defined N, K and PANEL, all_images, whether one right-hand side is IN_PANELS, whether it
 * KEEPS L, and LISTS the pivots. */
#include "pivots.cuh"
#include "as_lapack.cuh"

constexpr int WIDE = 2;                  /* vectors of columns that are updated together */
constexpr int ROWS = ceil_div(N, LANES); /* of a lane: k + lane() + LANES r, where k is the panel's first */
constexpr int PER_WARP = 32 / LANES;     /* matrices */

/* Rows are an odd number of vectors long, so that equal columns of 8 rows lie in different banks; so are matrices, so
 * that equal elements of 8 matrices do. */
__host__ __device__ constexpr int odd_vectors(int elements) { return (elements / VECTOR | 1) * VECTOR; }
constexpr int RIGHT = ceil_div(N, VECTOR) * VECTOR; /* column of the image where B begins */
constexpr int COLS = RIGHT + (IN_PANELS ? 0 : ceil_div(K, VECTOR) * VECTOR), PITCH = odd_vectors(COLS);
constexpr int BESIDE = 3 * VECTOR; /* elements: the Exchanges */
/* The column of B that goes with the panels lies in the padding of the rows, or, where there is none, after the
 * exchanges; floats always do: in the padding they would share banks. */
constexpr bool B_LAST = IN_PANELS && (COLS == PITCH || VECTOR == 4);
constexpr int B = B_LAST ? N * PITCH + BESIDE : RIGHT, B_PITCH = B_LAST ? 1 : PITCH;
constexpr int MATRIX = odd_vectors(N * PITCH + BESIDE + (B_LAST ? RIGHT : 0)); /* elements */

/* What a lane knows of a panel of columns: its rows, which are those of index lane() + LANES r, counted from the
 * panel's first; and of all rows, which were pivot rows. */
struct Panel {
    T x[ROWS][PANEL + IN_PANELS];
    unsigned index[ROWS];
    unsigned mask[ROWS];    /* of the bits to compare; of a pivot row its step; of no row ROW_BITS */
    unsigned found[2] = {}; /* byte j: the pivot row of step j, by index */

    __device__ Panel() {
#pragma unroll
        for (int r = 0; r < ROWS; r++) index[r] = from_lane(lane() + LANES * r, lane()); /* is not computed anew */
    }
    __device__ bool waits(int r) const { return mask[r] > ROW_BITS; }
};

/* Beside the image of a matrix. */
struct Exchanges {
    alignas(16) unsigned char to[8];      /* where a panel's row of index i goes; i if it became a pivot row */
    alignas(16) unsigned char pivots[32]; /* step k exchanged rows k and pivots[k] */
};

/* Which of the warp's matrices this lane works on. Of few lanes to a matrix, 8 neighbours have matrices that are LANES
 * apart, and their rows lie in different banks. */
__device__ inline int matrix_of_lane() {
    constexpr int NEAR = max_of(8 / LANES, 1); /* matrices of 8 lanes */
    const int group = threadIdx.x % 32 / LANES;
    return group % NEAR * LANES + group / NEAR % LANES + group / 8 * 8;
}
__device__ inline T *images_of_warp() { return all_images + threadIdx.x / 32 * PER_WARP * MATRIX; }

/* The maximum over the lanes of a matrix. */
__device__ inline unsigned maximum(unsigned x) {
    if constexpr (PER_WARP <= 2) { /* the whole warp's, of each in turn */
        unsigned most = 0;
#pragma unroll
        for (int g = 0; g < PER_WARP; g++) {
            const bool mine = threadIdx.x % 32 / LANES == g;
            const unsigned of_group = __reduce_max_sync(WARP, mine ? x : 0);
            if (mine) most = of_group;
        }
        return most;
    } else {
#pragma unroll
        for (int bits = LANES / 2; bits > 0; bits /= 2) x = max(x, shuffle_xor(x, bits));
        return x;
    }
}

/* Of step j, by index. */
__device__ inline unsigned pivot_row(const unsigned (&found)[2], unsigned j) {
    return __byte_perm(found[0], found[1], j) & 255;
}
__device__ inline void add_pivot_row(unsigned (&found)[2], int j, unsigned row) {
    unsigned &bytes = found[j / 4];
    const int digit = j % 4 * 4;
    bytes = __byte_perm(bytes, row, (0x3210 & ~(15 << digit)) | 4 << digit);
}

/* A lane's part of a step that needs care. In: its elements of the column; out: the multipliers, and which row is the
 * pivot row, by index. */
struct CarefulStep {
    T x[ROWS];
    unsigned mask[ROWS], found[2], row;
};

/* Step k + j where leading bits do not tell the pivot row, or are special: the plain search in the order of places, for
 * the first of the largest magnitudes, and the plain quotients. Rarely needed, so it stays out of the steps' text,
 * which has to fit the instruction cache. */
__device__ __noinline__ void take_careful_step(CarefulStep &step, int k, int j) {
    T *column = images_of_warp() + matrix_of_lane() * MATRIX + k * (PITCH + 1) + j;
    int place[ROWS];
    __syncwarp();
    for (int r = 0; r < ROWS; r++) {
        place[r] = -1;
        if (step.mask[r] <= ROW_BITS) continue;
        place[r] = position_of(lane() + LANES * r, j, [&](int t) { return pivot_row(step.found, t); });
        column[place[r] * PITCH] = step.x[r];
    }
    __syncwarp();
    T pivot = column[j * PITCH];
    int from = j;
#pragma unroll 4
    for (int i = j + 1; i < N - k; i++) {
        const T x = column[i * PITCH];
        if (fabs(x) > fabs(pivot)) pivot = x, from = i;
    }
    __syncwarp();
    const Divisor divisor(divisor_of(pivot));
    unsigned mine = 0;
    for (int r = 0; r < ROWS; r++) {
        if (place[r] == from) mine = lane() + LANES * r;
        step.x[r] = divisor.divide(step.x[r]);
    }
    step.row = maximum(mine);
}

/* Steps k .. k + WIDTH of the factorization on these columns of rows k .. N, which then go to their new places: that of
 * index i is taken by the row of index from[i]. */
template <int WIDTH> __device__ inline void factor_panel(Panel &panel, T *a, int k, unsigned (&from)[WIDTH]) {
    constexpr int WHOLE = ceil_div(WIDTH, VECTOR) * VECTOR;
    const bool ends = k + WIDTH == N;        /* the last row is in its place */
    unsigned last = WIDTH * (WIDTH - 1) / 2; /* its index: all that there are, less the others */
    __syncwarp();
#pragma unroll
    for (int r = 0; r < ROWS; r++) panel.mask[r] = k + lane() + LANES * r < N ? MAGNITUDE_BITS : ROW_BITS;
#pragma unroll
    for (int j = 0; j < WIDTH - ends; j++) {
        unsigned key[ROWS], best = 0;
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            if (k + LANES * r >= N) continue;
            key[r] = (leading_bits(panel.x[r][j]) & panel.mask[r]) | panel.index[r];
            best = max(best, key[r]);
        }
        const unsigned chosen = maximum(best), below = opaque(chosen - 1);
        bool unsure = is_special(chosen);
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            if (k + LANES * r < N) unsure |= below - key[r] < ROW_BITS;
        from[j] = chosen & ROW_BITS;
        /* An element of the pivot row, if that is the lane's. */
        const auto of_row = [&](int jj) {
            T x = panel.x[0][jj];
#pragma unroll
            for (int r = 1; r < ROWS; r++)
                if (k + LANES * r < N && panel.index[r] == from[j]) x = panel.x[r][jj];
            return x;
        };
        T inverse = from_lane(quick_reciprocal(of_row(j)), from[j]);
        if (__any_sync(WARP, unsure)) {
            CarefulStep step;
            step.found[0] = panel.found[0], step.found[1] = panel.found[1];
#pragma unroll
            for (int r = 0; r < ROWS; r++) step.x[r] = panel.x[r][j], step.mask[r] = panel.mask[r];
            take_careful_step(step, k, j);
            from[j] = step.row, inverse = 1;
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                if (panel.waits(r) && panel.index[r] != from[j]) panel.x[r][j] = step.x[r];
        }
        T u[PANEL + IN_PANELS];
#pragma unroll
        for (int jj = j + 1; jj < PANEL + IN_PANELS; jj++)
            if (jj < WIDTH || jj == PANEL) u[jj] = from_lane(of_row(jj), from[j]);
        last -= from[j];
        add_pivot_row(panel.found, j, from[j]);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            if (k + LANES * r >= N) continue;
            if (panel.index[r] == from[j]) panel.mask[r] = j;
            if (!panel.waits(r)) continue;
            panel.x[r][j] = product(panel.x[r][j], inverse);
#pragma unroll
            for (int jj = j + 1; jj < PANEL + IN_PANELS; jj++)
                if (jj < WIDTH || jj == PANEL) panel.x[r][jj] = multiply_add(-panel.x[r][j], u[jj], panel.x[r][jj]);
        }
    }
    if (ends) from[WIDTH - 1] = last, add_pivot_row(panel.found, WIDTH - 1, last);
    Exchanges *exchanges = reinterpret_cast<Exchanges *>(a + N * PITCH);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const unsigned i = panel.index[r];
        if (k + LANES * r >= N) continue;
        unsigned place = i;
        if (LANES * r < WIDTH && i < WIDTH) {
            /* Exchange i puts the row in place i where its pivot row comes from, as position_of() says. */
            place = pivot_row(panel.found, i);
            if (LISTS) {
#pragma unroll
                for (int t = 1; t < WIDTH; t++)
                    if (place < i) place = pivot_row(panel.found, place);
                exchanges->pivots[k + i] = k + place;
            }
#pragma unroll
            for (int t = 1; t < WIDTH; t++)
                if (place < WIDTH) place = pivot_row(panel.found, place);
            if (ends) place = WIDTH - 1;
            exchanges->to[i] = panel.waits(r) ? place : i;
        }
        if (!panel.waits(r)) place = panel.mask[r];
        if (k + i >= N) continue;
        store_row<WHOLE, VECTOR>(a + (k + place) * PITCH + k, panel.x[r]);
        if (IN_PANELS) a[B + (k + place) * B_PITCH] = panel.x[r][PANEL];
    }
    __syncwarp();
}

/* Apply the panel's exchanges to the columns beside it, and its triangle to those on the right: each lane takes
 * columns, WIDTH of whose elements become rows k .. k + WIDTH of U (of L^-1 P B). */
template <int WIDTH> __device__ inline void exchange_and_solve(T *a, int k, int first, const unsigned (&from)[WIDTH]) {
    const Exchanges &memory = *reinterpret_cast<const Exchanges *>(a + N * PITCH);
    const uint2 to = *reinterpret_cast<const uint2 *>(memory.to);
    const int left = KEEPS ? k / VECTOR : 0, right = first / VECTOR;
    const int turns = ceil_div(left + COLS / VECTOR - right, LANES);
#pragma unroll
    for (int turn = 0; turn < turns; turn++) {
        int v = turn * LANES + lane();
        if (v >= left) v += right - left;
        if (v >= COLS / VECTOR) continue;
        T *column = a + k * PITCH + v * VECTOR;
        Vector<VECTOR> u[WIDTH], displaced[WIDTH];
#pragma unroll
        for (int i = 0; i < WIDTH; i++) {
            u[i] = load<VECTOR>(column + from[i] * PITCH);
            if (k + WIDTH < N) displaced[i] = load<VECTOR>(column + i * PITCH);
        }
#pragma unroll
        for (int i = 0; i < WIDTH && k + WIDTH < N; i++)
            store<VECTOR>(column + ((i < 4 ? to.x : to.y) >> i % 4 * 8 & 255) * PITCH, displaced[i]);
        if (v >= left) {
#pragma unroll
            for (int i = 1; i < WIDTH; i++) {
                T l[WIDTH + VECTOR];
#pragma unroll
                for (int j = 0; j < i; j += VECTOR) load_row<VECTOR, VECTOR>(l + j, a + (k + i) * PITCH + k + j);
#pragma unroll
                for (int j = 0; j < i; j++)
#pragma unroll
                    for (int e = 0; e < VECTOR; e++) u[i].x[e] = multiply_add(-l[j], u[j].x[e], u[i].x[e]);
            }
        }
#pragma unroll
        for (int i = 0; i < WIDTH; i++) store<VECTOR>(column + i * PITCH, u[i]);
    }
    __syncwarp();
}

/* Rows k .. N of some vectors of columns, less the PANEL products of the panel that ended at row k. */
template <int WIDE> struct Columns {
    Vector<VECTOR> x[ROWS][WIDE];
    __device__ Columns(const T *a, int k, int col, const T (&l)[ROWS][PANEL]) {
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
            for (int w = 0; w < WIDE; w++)
                if (k + lane() + LANES * r < N)
                    x[r][w] = load<VECTOR>(a + (k + lane() + LANES * r) * PITCH + col + w * VECTOR);
#pragma unroll
        for (int j = 0; j < PANEL; j++) {
#pragma unroll
            for (int w = 0; w < WIDE; w++) {
                const Vector<VECTOR> u = load<VECTOR>(a + (k - PANEL + j) * PITCH + col + w * VECTOR);
#pragma unroll
                for (int r = 0; r < ROWS; r++) {
                    if (k + LANES * r >= N) continue;
#pragma unroll
                    for (int e = 0; e < VECTOR; e++) x[r][w].x[e] = multiply_add(-l[r][j], u.x[e], x[r][w].x[e]);
                }
            }
        }
    }
    __device__ void write(T *a, int k, int col) const {
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
            for (int w = 0; w < WIDE; w++)
                if (k + lane() + LANES * r < N)
                    store<VECTOR>(a + (k + lane() + LANES * r) * PITCH + col + w * VECTOR, x[r][w]);
    }
};

/* A22 -= L21 U12, for rows k .. N and the columns from k on. The next panel's stay in registers. */
__device__ inline void update(Panel &panel, T *a, int k) {
    T l[ROWS][PANEL];
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const int row = k + lane() + LANES * r;
        if (row >= N) continue;
        load_row<PANEL, VECTOR>(l[r], a + row * PITCH + k - PANEL);
        if (IN_PANELS) panel.x[r][PANEL] = a[B + row * B_PITCH];
    }
#pragma unroll
    for (int j = 0; j < PANEL; j += VECTOR) {
        if (k + j >= RIGHT) continue;
        const Columns<1> columns(a, k, k + j, l);
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
            for (int e = 0; e < VECTOR; e++) panel.x[r][j + e] = columns.x[r][0].x[e];
    }
    int col = min_of(k + PANEL, RIGHT);
#pragma unroll
    for (; col + WIDE * VECTOR <= COLS; col += WIDE * VECTOR) Columns<WIDE>(a, k, col, l).write(a, k, col);
#pragma unroll
    for (; col < COLS; col += VECTOR) Columns<1>(a, k, col, l).write(a, k, col);
}

/* One panel of the blocked factorization, and what it does to the rest. */
template <int WIDTH> __device__ inline void eliminate(Panel &panel, T *a, int k) {
    unsigned from[WIDTH];
    factor_panel<WIDTH>(panel, a, k, from);
    const int next = k + WIDTH < N ? k + WIDTH : RIGHT;
    if (KEEPS || next < COLS) exchange_and_solve<WIDTH>(a, k, next, from);
    if (next < N) update(panel, a, next);
}

/* A last panel of one column: the last row is in its place. */
__device__ inline void take_last_row(const Panel &panel, T *a) {
    constexpr int k = N - 1;
    if (lane() == 0) {
        a[k * (PITCH + 1)] = panel.x[0][0];
        if (IN_PANELS) a[B + k * B_PITCH] = panel.x[0][PANEL];
        if (LISTS) reinterpret_cast<Exchanges *>(a + N * PITCH)->pivots[k] = k;
    }
    __syncwarp();
}

/* All whole panels from column K on, each in a text of its own. */
template <int K> __device__ inline void eliminate_all(Panel &panel, T *a) {
    if constexpr (K + PANEL <= N) {
        eliminate<PANEL>(panel, a, K);
        eliminate_all<K + PANEL>(panel, a);
    }
}

__device__ inline void factor(T *a) {
    Panel panel;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const int row = lane() + LANES * r;
        if (row >= N) continue;
        load_row<min_of(PANEL, RIGHT), VECTOR>(panel.x[r], a + row * PITCH);
        if (IN_PANELS) panel.x[r][PANEL] = a[B + row * B_PITCH];
    }
    eliminate_all<0>(panel, a);
    if constexpr (N % PANEL == 1)
        take_last_row(panel, a);
    else if constexpr (N % PANEL)
        eliminate<N % PANEL>(panel, a, N - N % PANEL);
}
