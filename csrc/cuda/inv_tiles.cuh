/* inv_tiles.cuh: C = inverse of A, by Gauss-Jordan elimination in place with partial pivoting, tiles in registers.
 *
 * Higham, Accuracy and Stability of Numerical Algorithms, section 14.4, a panel of columns at a time. The threads of a
 * warp share a matrix, PANEL of them across, to which columns are dealt out in turn. So a panel is one column of each
 * thread's tile; the others move up after it: a loop whose body is one panel. Its columns go through shared memory to
 * threads that have whole rows of it, and are eliminated there; then a thread for each column finds what that does to
 * the pivot rows, and each thread updates its tile. Every element still goes through the steps one by one, so the bits
 * are the plain order's. No row changes its place: rows and columns are exchanged as the inverse is written.
 *
 * What limits this is the number of instructions. For doubles tensor cores take fewer: inv_tensor.
 *
 * Grid: one block per MATRICES matrices; a warp to each. Warps have nothing to do with each other.
 * Shared memory: for each warp its image, of A first, then of C, between these its Work; then an Arrival and a list.
 * Operands: any that args.h can describe. May be in place: a warp has read its matrix before it writes.
 * Limits: 8 < n <= 32; LANES 32; MATRICES * LANES = THREADS. */
#include "common.cuh"
#include "lanes.cuh"
#include "pivots.cuh"

constexpr int N = SMM_N, MATRICES = SMM_MATRICES, THREADS = SMM_THREADS;
constexpr int OF_WARP = 1; /* matrices */
constexpr int PANEL = 4;   /* columns; as many threads across */

/* The panel of column k has a step s: the last one may be short. */
__device__ inline bool has_step(int k, int s) { return N % PANEL == 0 || s < N % PANEL || k + s < N; }

/* A thread's tile. Shared memory serves two halves of a warp at once if all threads whose numbers differ in the lowest
 * bit, or all in the second lowest, ask for the same: so the lowest says something of down, the second of across. */
constexpr int DOWN = LANES / PANEL, TILE_ROWS = ceil_div(N, DOWN), TILE_COLS = ceil_div(N, PANEL);
__device__ inline int across() { return lane() >> 1 & 3; }
__device__ inline int down() { return (lane() & 1) | (lane() >> 2 & 6); }
__device__ inline int tile_row(int r) { return down() + DOWN * r; }
__device__ inline int tile_col(int j) { return across() + PANEL * j; }
__device__ inline bool in_tile(int r, int j) {
    return (N % DOWN == 0 || r < TILE_ROWS - 1 || tile_row(r) < N) &&
           (N % PANEL == 0 || j < TILE_COLS - 1 || tile_col(j) < N);
}

/* A thread's row of a panel. */
__device__ inline int row() { return lane(); }
__device__ inline bool is_row() { return row() < N; }

#include "search.cuh"

/* --- shared memory --- */

/* Rows of an image begin an odd number of times four elements apart, which leaves the banks of a tile's row free. */
constexpr int PITCH = N % VECTOR || N % 8 == 4 ? N : N + 8 - (N + 4) % 8, MATRIX = N * PITCH;

#include "inv_image.cuh"

/* The columns of a panel: a vector of every row, then the next. */
struct Columns {
    static constexpr int EACH = (LANES + 4) * VECTOR; /* half of the banks further */
    T x[PANEL / VECTOR * EACH];
    __device__ T *at(int row, int col) { return x + col / VECTOR * EACH + row * VECTOR + col % VECTOR; }
};

/* The pivot rows of a panel: a vector of each thread across, then the next. */
struct PivotRows {
    static constexpr int LENGTH = ceil_div(TILE_COLS, VECTOR) * PANEL * VECTOR;
    T x[PANEL][LENGTH];
    __device__ static int place(int col, int across) { return (col / VECTOR * PANEL + across) * VECTOR + col % VECTOR; }
    __device__ T *at(int s, int col) { return x[s] + place(col, across()); }
};

struct alignas(16) Work {
    Columns columns, multipliers;
    PivotRows at_steps, in_the_end;
    T published[2][PANEL];
    int begin[DOWN][ceil_div(TILE_ROWS, 4) * 4]; /* of a row of a tile in PivotRows; or -1 */
};

constexpr int IMAGE = most(ceil_div(MATRIX, VECTOR) * VECTOR, sizeof(Work) / sizeof(T)); /* elements */
constexpr int OF_WARP_SHARED = IMAGE + VECTOR + ceil_div(N, 16) * VECTOR;

template <int COUNT> __device__ inline void load_vectors(T (&to)[COUNT], const T *from, int distance) {
#pragma unroll
    for (int j = 0; j < COUNT; j += VECTOR) {
        const Vector<VECTOR> v = load<VECTOR>(from + j / VECTOR * distance);
#pragma unroll
        for (int e = 0; e < VECTOR && j + e < COUNT; e++) to[j + e] = v.x[e];
    }
}
template <int COUNT> __device__ inline void store_vectors(T *to, const T (&from)[COUNT], int distance) {
#pragma unroll
    for (int j = 0; j < COUNT; j += VECTOR) {
        Vector<VECTOR> v;
#pragma unroll
        for (int e = 0; e < VECTOR; e++) v.x[e] = from[least(j + e, COUNT - 1)];
        store<VECTOR>(to + j / VECTOR * distance, v);
    }
}

/* --- a panel --- */

/* Its pivot rows, as every thread knows them: the pivots' reciprocals, left and right of them the multipliers. */
typedef T Own[PANEL][PANEL];

/* Steps k .. k + PANEL of its columns. False, and nothing has changed, if leading bits do not do. */
template <bool BY_ALL_BITS>
__device__ inline bool eliminate(Work &work, Pivots &pivots, Row *pivot_rows, int k, Own &own) {
    T f[PANEL];
    int found_at = PANEL;
    pivots.begin_panel();
    if (BY_ALL_BITS) pivots.list(pivot_rows);
    load_vectors<PANEL>(f, work.columns.at(row(), 0), Columns::EACH);
#pragma unroll
    for (int s = 0; s < PANEL; s++) {
        if (!has_step(k, s)) continue;
        T *published = work.published[s % 2];
        if (BY_ALL_BITS)
            pivots.choose_by_all_bits(f[s], k + s, pivot_rows);
        else
            pivots.choose(f[s]);
        if (pivots.found) {
            T y[PANEL];
#pragma unroll
            for (int j = 0; j < PANEL; j++) y[j] = j == s ? pivots.inverse : f[j];
            store_vectors<PANEL>(published, y, VECTOR);
            found_at = s;
        }
        __syncwarp();
        load_vectors<PANEL>(own[s], published, VECTOR);
#pragma unroll
        for (int t = 0; t < s; t++) own[t][s] = product(own[t][s], own[s][s]);
        f[s] = product(f[s], own[s][s]);
#pragma unroll
        for (int j = s + 1; j < PANEL; j++) {
#pragma unroll
            for (int t = 0; t < s; t++) own[t][j] = multiply_add(-own[t][s], own[s][j], own[t][j]);
            f[j] = multiply_add(-f[s], own[s][j], f[j]);
            own[s][j] = product(own[s][j], own[s][s]);
        }
    }
    if (!BY_ALL_BITS && pivots.unsure()) return false;
    const bool pivot = found_at < PANEL;
    if (pivot) pivots.step = k + found_at;
    work.begin[row() % DOWN][row() / DOWN] = pivot ? found_at * PivotRows::LENGTH : -1;
    store_vectors<PANEL>(work.multipliers.at(row(), 0), f, Columns::EACH);
    return true;
}

/* The pivot rows: as each is at its step, and in the end, when columns have moved up. In the place of column c of the
 * panel is that of the identity, which step c is the first to change. */
__device__ inline void finish(Work &work, const Own &own, int k) {
#pragma unroll
    for (int begin = 0; begin < PivotRows::LENGTH; begin += LANES) {
        const int p = begin + lane(), col = p / (PANEL * VECTOR) * VECTOR + p % VECTOR, c = p / VECTOR % PANEL;
        if (col >= TILE_COLS) continue;
        const int first = col ? 0 : c, moved = PivotRows::place(col ? col - 1 : TILE_COLS - 1, c);
        T x[PANEL];
#pragma unroll
        for (int s = 0; s < PANEL; s++) {
            x[s] = work.at_steps.x[s][p];
#pragma unroll
            for (int t = 0; t < s; t++)
                if (t >= first && has_step(k, t)) x[s] = multiply_add(-own[s][t], x[t], x[s]);
            work.at_steps.x[s][p] = x[s];
        }
#pragma unroll
        for (int s = 0; s < PANEL; s++) {
            if (s >= first) x[s] = product(x[s], own[s][s]);
#pragma unroll
            for (int t = s + 1; t < PANEL; t++)
                if (t >= first && has_step(k, t)) x[s] = multiply_add(-own[s][t], x[t], x[s]);
            work.in_the_end.x[s][moved] = x[s];
        }
    }
}

/* A thread's tile; before the panel of column k, its column j is tile_col(j + k / PANEL), modulo all. */
struct Tile {
    T x[TILE_ROWS][TILE_COLS];

    __device__ Tile(const T *a, int pitch) {
#pragma unroll
        for (int r = 0; r < TILE_ROWS; r++)
#pragma unroll
            for (int j = 0; j < TILE_COLS; j++) x[r][j] = in_tile(r, j) ? a[tile_row(r) * pitch + tile_col(j)] : T(0);
    }

    /* Steps k .. k + PANEL. */
    __device__ void take_panel(Work &work, Pivots &pivots, Row *pivot_rows, int k) {
        Own own;
        int begin[TILE_ROWS];
#pragma unroll
        for (int r = 0; r < TILE_ROWS; r++) *work.columns.at(tile_row(r), across()) = x[r][0];
        __syncwarp();
        if (__builtin_expect(!eliminate<false>(work, pivots, pivot_rows, k, own), 0))
            eliminate<true>(work, pivots, pivot_rows, k, own);
        __syncwarp();
#pragma unroll
        for (int r = 0; r < TILE_ROWS; r++) {
            begin[r] = work.begin[down()][r];
            x[r][0] = begin[r] == across() * PivotRows::LENGTH;
            if (begin[r] >= 0) store_vectors<TILE_COLS>(work.at_steps.at(0, 0) + begin[r], x[r], PANEL * VECTOR);
        }
        __syncwarp();
        finish(work, own, k);
        __syncwarp();
        if (has_step(k, PANEL - 1))
            update<PANEL>(work);
        else
            update<most(N % PANEL, 1)>(work);
#pragma unroll
        for (int r = 0; r < TILE_ROWS; r++)
            if (begin[r] >= 0) load_vectors<TILE_COLS>(x[r], work.in_the_end.at(0, 0) + begin[r], PANEL * VECTOR);
    }

    __device__ void write(T *image, int info) const {
#pragma unroll
        for (int r = 0; r < TILE_ROWS; r++)
#pragma unroll
            for (int j = 0; j < TILE_COLS; j++)
                if (in_tile(r, j)) image[tile_row(r) * PITCH + tile_col(j)] = info ? not_a_number() : x[r][j];
    }

  private:
    /* All rows as if they were none of the pivot rows; as many steps at a time as a vector has multipliers, which
     * leaves the others out of the registers. The panel's own columns, in front, come to the end. */
    template <int STEPS> __device__ void update(Work &work) {
#pragma unroll
        for (int begin = 0; begin < STEPS; begin += VECTOR) {
            Vector<VECTOR> f[TILE_ROWS];
            T panel[TILE_ROWS];
#pragma unroll
            for (int r = 0; r < TILE_ROWS; r++) {
                f[r] = load<VECTOR>(work.multipliers.at(tile_row(r), begin));
                panel[r] = x[r][begin ? TILE_COLS - 1 : 0];
            }
#pragma unroll
            for (int col = 0; col < TILE_COLS; col += VECTOR) {
                Vector<VECTOR> u[VECTOR];
#pragma unroll
                for (int s = begin; s < least(begin + VECTOR, STEPS); s++)
                    u[s - begin] = load<VECTOR>(work.at_steps.at(s, col));
#pragma unroll
                for (int r = 0; r < TILE_ROWS; r++)
#pragma unroll
                    for (int j = col; j < least(col + VECTOR, TILE_COLS); j++) {
                        T y = j == 0 ? panel[r] : x[r][j - (begin > 0)];
#pragma unroll
                        for (int s = begin; s < least(begin + VECTOR, STEPS); s++)
                            if (j > 0 || s >= across())
                                y = multiply_add(-f[r].x[s - begin], u[s - begin].x[j - col], y);
                        (j == 0 ? panel[r] : x[r][j - 1]) = y;
                    }
            }
#pragma unroll
            for (int r = 0; r < TILE_ROWS; r++) x[r][TILE_COLS - 1] = panel[r];
        }
    }
};

/* --- the kernel --- */

__device__ inline Vector<VECTOR> load_global(const T *from) {
    union {
        float4 all;
        Vector<VECTOR> x;
    } v = {__ldg(reinterpret_cast<const float4 *>(from))};
    return v.x;
}

/* A flat matrix whose rows are padded in the image: through registers, in whole vectors. */
__device__ inline void read_padded(T *image, const T *from) {
    constexpr int TURNS = ceil_div(N * N / VECTOR, 32);
    Vector<VECTOR> x[TURNS];
#pragma unroll
    for (int t = 0; t < TURNS; t++) {
        const int e = (t * 32 + lane()) * VECTOR;
        if (e < N * N) x[t] = load_global(from + e);
    }
#pragma unroll
    for (int t = 0; t < TURNS; t++) {
        const int e = (t * 32 + lane()) * VECTOR;
        if (e < N * N) store<VECTOR>(image + e / N * PITCH + e % N, x[t]);
    }
    __syncwarp();
}

/* A thread's tile of A. A flat matrix whose rows are no whole vectors is read where it lies. */
__device__ inline Tile read_tile(T *image, Arrival *arrival, const smm_cuda_args &args, long long matrix) {
    constexpr bool FLAT = SMM_SOURCE_A == SMM_SOURCE_FLAT && SMM_ORDER_A == SMM_ORDER_ROW;
    const T *from = static_cast<const T *>(args.operand[SMM_A].data) + matrix * (N * N);
    if constexpr (FLAT && (N % VECTOR > 0 || !ALIGNED)) return Tile(from, N);
    if constexpr (FLAT && PITCH > N)
        read_padded(image, from);
    else
        read(image, args, matrix, 1, arrival);
    return Tile(image, PITCH);
}

/* The image becomes C. Row i of the inverse is the pivot row of step i; what step j made is its column of the number of
 * that step's pivot row. */
__device__ inline void write(const T *image, const Row *rows, const smm_cuda_args &args, long long matrix) {
    const smm_cuda_operand &x = args.operand[SMM_C];
    constexpr bool FLAT = SMM_SOURCE_C == SMM_SOURCE_FLAT && SMM_ORDER_C == SMM_ORDER_ROW;
    constexpr int SPAN = FLAT ? power_of_two(N) : 32, TOGETHER = 32 / SPAN;
    const int j = lane() % SPAN, begin = lane() / SPAN;
    if (j >= N) return;
    T *to = static_cast<T *>(x.data) + (FLAT ? matrix * (N * N) : offset_of(args, x, matrix));
    to += rows[j] * (FLAT ? 1 : x.col);
#pragma unroll
    for (int i = begin; i < N; i += TOGETHER) to[i * (FLAT ? N : x.row)] = image[rows[i] * PITCH + j];
}

extern "C" __global__ void BOUNDS SMM_NAME(const __grid_constant__ smm_cuda_args args) {
    extern __shared__ __align__(16) T shared[];
    const long long matrix = static_cast<long long>(blockIdx.x) * MATRICES + threadIdx.x / 32;
    if (matrix >= args.batch) return;
    T *image = shared + threadIdx.x / 32 * OF_WARP_SHARED;
    Work &work = reinterpret_cast<Work &>(*image);
    Arrival *arrival = reinterpret_cast<Arrival *>(image + IMAGE);
    Row *pivot_rows = reinterpret_cast<Row *>(image + IMAGE + VECTOR);

    Tile tile = read_tile(image, arrival, args, matrix);
    Pivots pivots;
    __syncwarp();
#pragma unroll 1
    for (int k = 0; k < N; k += PANEL) tile.take_panel(work, pivots, pivot_rows, k);

    fetch_ahead<SMM_SOURCE_A, 1, N * N>(args, args.operand[SMM_A], matrix);
    if (lane() == 0 && args.operand[SMM_INFO].data) *beside<int>(args, SMM_INFO, matrix, 1) = pivots.info;
    pivots.list(pivot_rows);
    tile.write(image, pivots.info);
    __syncwarp();
    write(image, pivot_rows, args, matrix);
}
