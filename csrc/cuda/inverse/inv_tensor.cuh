/* inv_tensor.cuh: C = inverse of A, of doubles, by Gauss-Jordan elimination in place with partial pivoting, tiles in
 * registers, updated by tensor cores.
 *
 * Higham, Accuracy and Stability of Numerical Algorithms, section 14.4, a panel of 4 columns at a time. The threads of
 * a quad exchange, until each has a whole row of the panel, eliminate, and exchange back: what they have then are the
 * factors of the update. The pivot rows pass through shared memory, where a thread for each column finds what the panel
 * does to them. Every element still goes through the steps one by one, so the bits are the plain order's. No row
 * changes its place: rows and columns are exchanged as the inverse is written. What is called A and C are their
 * transposes (inverse.h).
 *
 * Tensor cores round each product and sum as fma does, in the order of k: the bits of the plain loop (measured on sm_90
 * with all kinds of numbers; NaN differ in sign only). A block of C is 8 x 8, of A 8 x 4, of B 4 x 8. Thread 4 i + j
 * has elements (i, 2 j) and (i, 2 j + 1) of C, (i, j) of A, (j, i) of B. The columns of the matrix are dealt out so
 * that four neighbouring ones, a panel, are one column of each thread of a quad.
 *
 * What limits this is the bandwidth of shared memory, through which shuffles go as well.
 *
 * Grid: one block per MATRICES matrices, a warp to each. Warps have nothing to do with each other.
 * Shared memory: for each warp pivot rows of a panel, then the image of C; a list.
 * Operands: any that args.h can describe. May be in place: a warp has read its matrix before it writes.
 * Limits: 8 < n <= 32; doubles; LANES 32; MATRICES * LANES = THREADS; sm_90 to be fast. */
#include "common.cuh"
#include "lanes.cuh"
#include "pivots.cuh"

constexpr int N = SMM_N, MATRICES = SMM_MATRICES, THREADS = SMM_THREADS;
constexpr int BLOCKS = ceil_div(N, 8); /* down, and across */
constexpr int PANEL = 4;               /* columns; two panels to a block */
constexpr int SIZE = sizeof(T);

/* A thread's place: quad() is its row of each block, and of() its number in the quad. */
__device__ inline int quad() { return threadIdx.x % 32 / 4; }
__device__ inline int of() { return threadIdx.x % 4; }

/* The panel of column k has a step s: the last one may be short. */
__device__ constexpr bool has_step(int k, int s) { return k + s < N; }

/* --- products of blocks --- */

/* C += A B */
__device__ inline void add_block_product(double (&c)[2], double a, double b) {
#if __CUDA_ARCH__ >= 900
    add_by_tensor_cores(c, a, b);
#else
#pragma unroll
    for (int k = 0; k < 4; k++) {
        const double a_ik = __shfl_sync(WARP, a, 4 * quad() + k);
#pragma unroll
        for (int j = 0; j < 2; j++) c[j] = multiply_add(a_ik, __shfl_sync(WARP, b, 4 * (2 * of() + j) + k), c[j]);
    }
#endif
}
/* The same for two neighbouring blocks of A and C at once. */
__device__ inline void add_block_products(double (&c0)[2], double (&c1)[2], double a0, double a1, double b) {
#if __CUDA_ARCH__ >= 900
    add_by_tensor_cores(c0, c1, a0, a1, b);
#else
    add_block_product(c0, a0, b);
    add_block_product(c1, a1, b);
#endif
}

/* --- places in shared memory --- */

/* Rows in the order of a block of C, so far apart that what tensor cores take of four lies in different banks. */
constexpr int PITCH = (8 * BLOCKS + 4) * SIZE;
__device__ constexpr int place_of_col(int col) { return (col / 8 * 8 + col % 4 * 2 + col / 4 % 2) * SIZE; }

#include "inv_singularity.cuh"

/* Shared memory of a warp: a panel's pivot rows as they are at their steps, and in the end; and the panel's own columns
 * of them, of which the diagonal are the pivots' reciprocals, left and right of it the multipliers. Later on the image
 * of C, in the order of A's rows. The pivot row of each step. */
constexpr int IN_THE_END = PANEL * PITCH, OWN = 2 * PANEL * PITCH, OWN_PITCH = PANEL * SIZE;
/* From row to row of the image: an odd number of blocks, so that neighbouring quads write to different banks; or, where
 * threads then read down a column, of pairs. */
constexpr int IMAGE_PITCH = (C_BY_COLUMNS ? 8 * BLOCKS + 2 : 8 * (BLOCKS | 1)) * SIZE;
constexpr int LIST = max_of(OWN + PANEL * OWN_PITCH, N *IMAGE_PITCH), OF_WARP_SHARED = LIST + 32;
static_assert(SMM_SHARED == THREADS / 32 * OF_WARP_SHARED, "the plan counts otherwise");

/* --- a panel as rows: a thread has row quad() + 8 of() --- */

__device__ inline int row() { return quad() + 8 * of(); }
__device__ inline bool is_row() { return row() < N; }

#include "search.cuh"

/* Thread c of a quad has what the others have for it: x[i] becomes what the thread i had as x[c]. */
__device__ inline void exchange_in_quad(T (&x)[4]) {
#pragma unroll
    for (int bit = 1; bit < 4; bit *= 2) {
        const bool upper = threadIdx.x & bit;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (i & bit) continue;
            const T got = __shfl_xor_sync(WARP, upper ? x[i] : x[i | bit], bit);
            x[i] = upper ? got : x[i], x[i | bit] = upper ? x[i | bit] : got;
        }
    }
}

/* A number below 16 of its row, as all threads of the quad know it: four bits for each block of rows. */
__device__ inline unsigned pack_in_quad(unsigned x) {
    unsigned all = x << 4 * of();
    all |= __shfl_xor_sync(WARP, all, 1);
    return all | __shfl_xor_sync(WARP, all, 2);
}
__device__ inline unsigned unpacked(unsigned all, int block) { return all >> 4 * block & 15; }

/* --- a thread's elements --- */

struct Tile {
    T x[BLOCKS][BLOCKS][2];

    /* The thread's column of the panel of column K. */
    template <int K> __device__ T &of_panel(int r) { return x[r][K / 8][K / PANEL % 2]; }

    /* The panel of column K as rows. */
    template <int K> __device__ void give(T (&f)[PANEL]) {
#pragma unroll
        for (int r = 0; r < 4; r++) f[r] = r < BLOCKS ? of_panel<K>(min_of(r, BLOCKS - 1)) : T(0);
        exchange_in_quad(f);
    }
    /* Blocks down column c of them, less the rows' factors times the panel's pivot rows: of these, thread 4 i + j has
     * column i at step j. */
    __device__ void update(int c, const T (&factor)[PANEL], T pivot_row) {
#pragma unroll
        for (int r = 0; r + 1 < BLOCKS; r += 2)
            add_block_products(x[r][c], x[r + 1][c], factor[r], factor[r + 1], -pivot_row);
        if (BLOCKS % 2) add_block_product(x[BLOCKS - 1][c], factor[BLOCKS - 1], -pivot_row);
    }
};

/* --- a panel --- */

/* Steps k .. k + PANEL of its columns. The step at which the row became a pivot row, from 1: it is one of the panel's
 * own columns then. */
template <bool BY_ALL_BITS>
__device__ inline unsigned eliminate(Pivots &pivots, Row *pivot_rows, T (&f)[PANEL], int k) {
    unsigned found_at = 0;
    pivots.begin_panel();
    if (BY_ALL_BITS) pivots.list(pivot_rows);
#pragma unroll
    for (int s = 0; s < PANEL; s++) {
        if (!has_step(k, s)) continue;
        if (BY_ALL_BITS)
            pivots.choose_by_all_bits(f[s], k + s, pivot_rows);
        else
            pivots.choose(f[s]);
        if (pivots.found) found_at = s + 1;
        const T inverse = from_lane(pivots.inverse, pivots.thread), l = product(f[s], inverse);
#pragma unroll
        for (int j = s + 1; j < PANEL; j++) {
            const T u = from_lane(f[j], pivots.thread), less = multiply_add(-l, u, f[j]);
            f[j] = pivots.found ? product(u, inverse) : less;
        }
        f[s] = pivots.found ? inverse : l;
    }
    return found_at;
}

/* The same where leading bits do not tell the pivot rows: rare, so it stays out of the panels' text. */
struct Careful {
    T f[PANEL];
    int step;
    SingularityTest test;
    unsigned found_at;
};
__device__ __noinline__ void eliminate_carefully(Row *pivot_rows, Careful &x, int k) {
    Pivots pivots;
    pivots.test = x.test, pivots.step = x.step;
    x.found_at = eliminate<true>(pivots, pivot_rows, x.f, k);
    x.test = pivots.test;
}

/* The rows of the panel of column K after its steps, and what eliminate() returns. */
template <int K> __device__ inline unsigned rows_of_panel(Tile &tile, Pivots &pivots, Row *pivot_rows, T (&f)[PANEL]) {
    const SingularityTest before = pivots.test;
    tile.give<K>(f);
    unsigned found_at = eliminate<false>(pivots, pivot_rows, f, K);
    if (__builtin_expect(pivots.unsure(), 0)) {
        Careful careful;
        tile.give<K>(careful.f);
        careful.test = before, careful.step = pivots.step;
        eliminate_carefully(pivot_rows, careful, K);
        pivots.test = careful.test, found_at = careful.found_at;
#pragma unroll
        for (int j = 0; j < PANEL; j++) f[j] = careful.f[j];
    }
    if (found_at) pivots.step = K + found_at - 1;
    return found_at;
}

/* The pivot rows: as each is at its step, and in the end. In the place of column c of the panel is that of the
 * identity, which step c is the first to change. */
template <int K> __device__ inline void finish(unsigned shared) {
    const int p = threadIdx.x % 32;
    if (p >= 8 * BLOCKS) return;
    const unsigned at = shared + p * SIZE;
    const int first = p / 8 == K / 8 && p % 2 == K / PANEL % 2 ? p % 8 / 2 : 0;
    T x[PANEL], own[PANEL][PANEL];
#pragma unroll
    for (int s = 0; s < PANEL; s++) {
        if (!has_step(K, s)) continue;
        x[s] = get(at + s * PITCH);
#pragma unroll
        for (int t = 0; t < PANEL; t += 2) {
            T v[2];
            get(shared + OWN + s * OWN_PITCH + t * SIZE, v);
            own[s][t] = v[0], own[s][t + 1] = v[1];
        }
    }
#pragma unroll
    for (int s = 1; s < PANEL; s++) {
        if (!has_step(K, s)) continue;
#pragma unroll
        for (int t = 0; t < s; t++)
            if (t >= first) x[s] = multiply_add(-own[s][t], x[t], x[s]);
        put(at + s * PITCH, x[s]);
    }
#pragma unroll
    for (int s = 0; s < PANEL; s++) {
        if (!has_step(K, s)) continue;
        if (s >= first) x[s] = product(x[s], own[s][s]);
#pragma unroll
        for (int t = s + 1; t < PANEL; t++)
            if (has_step(K, t) && t >= first) x[s] = multiply_add(-own[s][t], x[t], x[s]);
        put(at + IN_THE_END + s * PITCH, x[s]);
    }
}

/* What tensor cores multiply by zero: rows that are no pivot rows, in the column of() of the panel of column k, where
 * only steps from of() on count. The factors are those of all columns of the panel, in the threads of the quad. */
__device__ __noinline__ T plain_sum(unsigned right, T factor, int k) {
    T x = 0;
    for (int s = 0; s < PANEL && has_step(k, s); s++) {
        const T f = __shfl_sync(WARP, factor, 4 * quad() + s), u = get(right + s * PITCH);
        if (s >= of()) x = multiply_add(-f, u, x);
    }
    return x;
}

/* Steps K .. K + PANEL. */
template <int K> __device__ inline void take_panel(Tile &tile, unsigned shared, Row *pivot_rows, Pivots &pivots) {
    T f[PANEL];
    const unsigned found_at = rows_of_panel<K>(tile, pivots, pivot_rows, f);
    const unsigned own = shared + OWN + (found_at - 1) * OWN_PITCH;
#pragma unroll
    for (int j = 0; j < PANEL; j += 2) put_if(found_at, own + j * SIZE, {f[j], f[j + 1]});
    const unsigned found = pack_in_quad(found_at), before = shared + 2 * of() * SIZE - PITCH;
    exchange_in_quad(f);
#pragma unroll
    for (int r = 0; r < BLOCKS; r++) {
        const unsigned step = unpacked(found, r);
        tile.of_panel<K>(r) = step == of() + 1;
#pragma unroll
        for (int c = 0; c < BLOCKS; c++) put_if(step, before + step * PITCH + 8 * c * SIZE, tile.x[r][c]);
    }
    __syncwarp();
    finish<K>(shared);
    __syncwarp();

    /* A step that is missing adds -0. The pivot rows have zeros where a step leaves the panel's own column alone: no
     * different, unless a factor is not finite; it shows. */
    const bool is_step = has_step(K, of());
    bool nan = false;
    T factor[PANEL];
#pragma unroll
    for (int r = 0; r < BLOCKS; r++) factor[r] = is_step ? f[r] : T(0);
#pragma unroll
    for (int c = 0; c < BLOCKS; c++)
        tile.update(c, factor, is_step ? get(shared + of() * PITCH + (8 * c + quad()) * SIZE) : T(0));
#pragma unroll
    for (int r = 0; r < BLOCKS; r++) nan |= isnan(tile.of_panel<K>(r));
    if (__builtin_expect(__any_sync(WARP, nan), 0))
#pragma unroll
        for (int r = 0; r < BLOCKS; r++)
            tile.of_panel<K>(r) = plain_sum(shared + place_of_col(K) + 2 * of() * SIZE, f[r], K);
#pragma unroll
    for (int r = 0; r < BLOCKS; r++) {
        const unsigned step = unpacked(found, r);
#pragma unroll
        for (int c = 0; c < BLOCKS; c++) get_if(step, before + IN_THE_END + step * PITCH + 8 * c * SIZE, tile.x[r][c]);
    }
    __syncwarp();
}

/* All panels from column K on, each in a text of its own. */
template <int K> __device__ inline void eliminate_all(Tile &tile, unsigned shared, Row *pivot_rows, Pivots &pivots) {
    if constexpr (K < N) {
        take_panel<K>(tile, shared, pivot_rows, pivots);
        eliminate_all<K + PANEL>(tile, shared, pivot_rows, pivots);
    }
}

/* --- the kernel --- */

/* Of that matrix. */
__device__ inline Tile read_tile(const smm_cuda_args &args, long long matrix) {
    constexpr bool FLAT = SMM_SOURCE_A == SMM_SOURCE_FLAT;
    constexpr int ROW = A_BY_COLUMNS ? 1 : N, COL = A_BY_COLUMNS ? N : 1;
    const smm_cuda_operand &a = args.operand[SMM_A];
    const T *from = static_cast<const T *>(a.data) + (FLAT ? matrix * (N * N) : offset_of(args, a, matrix));
    from += FLAT ? quad() * ROW + of() * COL : quad() * a.col + of() * a.row;
    Tile tile;
#pragma unroll
    for (int r = 0; r < BLOCKS; r++)
#pragma unroll
        for (int j = 0; j < 2 * BLOCKS; j++) {
            const bool in = (8 * (r + 1) <= N || quad() + 8 * r < N) && (PANEL * (j + 1) <= N || of() + PANEL * j < N);
            const T *at = from + (FLAT ? 8 * r * ROW + PANEL * j * COL : 8 * r * a.col + PANEL * j * a.row);
            tile.x[r][j / 2][j % 2] = in ? *at : T(0);
        }
    return tile;
}

/* The image becomes C. Row i of the inverse is the pivot row of step i; what step j made is its column of the number of
 * that step's pivot row. Neighbouring threads write along the lines of C. */
__device__ inline void write(const smm_cuda_args &args, unsigned shared, const Row *rows, bool is_nan,
                             long long matrix) {
    constexpr bool FLAT = SMM_SOURCE_C == SMM_SOURCE_FLAT;
    constexpr int SPAN = power_of_two(N), TOGETHER = 32 / SPAN;
    const smm_cuda_operand &c = args.operand[SMM_C];
    const int place = threadIdx.x % SPAN, begin = threadIdx.x % 32 / SPAN;
    if (place >= N) return;
    T *to = static_cast<T *>(c.data) + (FLAT ? matrix * (N * N) : offset_of(args, c, matrix));
    const long long row = C_BY_COLUMNS ? 1 : FLAT ? N : c.col, col = C_BY_COLUMNS ? N : FLAT ? 1 : c.row;
#pragma unroll
    for (int line = begin; line < N; line += TOGETHER) {
        const int i = C_BY_COLUMNS ? place : line, j = C_BY_COLUMNS ? line : place;
        const T x = get(shared + place_of_col(j) + rows[i] * IMAGE_PITCH);
        to[i * row + rows[j] * col] = is_nan ? not_a_number() : x;
    }
}

extern "C" __global__ void BOUNDS SMM_NAME(const __grid_constant__ smm_cuda_args args) {
    extern __shared__ __align__(16) char memory[];
    const long long matrix = static_cast<long long>(blockIdx.x) * MATRICES + threadIdx.x / 32;
    if (matrix >= args.batch) return;
    char *const of_warp = memory + threadIdx.x / 32 * OF_WARP_SHARED;
    Row *const pivot_rows = reinterpret_cast<Row *>(of_warp + LIST);
    const unsigned shared = opaque(shared_address(of_warp));

    Tile tile = read_tile(args, matrix);
    Pivots pivots;
    eliminate_all<0>(tile, shared, pivot_rows, pivots);
    fetch_ahead<SMM_SOURCE_A, 1, N * N>(args, args.operand[SMM_A], matrix);
    pivots.list(pivot_rows);
#pragma unroll
    for (int r = 0; r < BLOCKS; r++)
#pragma unroll
        for (int b = 0; b < BLOCKS; b++) {
            put_if(quad() + 8 * r < N, shared + (quad() + 8 * r) * IMAGE_PITCH + (8 * b + 2 * of()) * SIZE,
                   tile.x[r][b]);
#pragma unroll
            for (int e = 0; e < 2; e++) { /* what lies beyond the matrix may be NaN where that has none */
                const bool in = quad() + 8 * r < N && 8 * b + PANEL * e + of() < N;
                pivots.test.add(in ? tile.x[r][b][e] : T(0));
            }
        }
    pivots.combine();
    const bool bad = confirm_singular(args, matrix, 1, 0, threadIdx.x % 32 == 0, pivots.test);
    __syncwarp(); /* for the image, of which each lane has put a part */
    write(args, shared, pivot_rows, bad, matrix);
}
