/* tensor.cuh: a matrix of doubles in the registers of a warp, in the blocks of tensor cores, and in shared memory.
 *
 * Tensor cores round each product and sum as fma does, in the order of k: the bits of the plain loop (measured on sm_90
 * with all kinds of numbers; NaN differ in sign only). A block of C is 8 x 8, of A 8 x 4, of B 4 x 8. Thread 4 i + j
 * has elements (i, 2 j) and (i, 2 j + 1) of C, (i, j) of A, (j, i) of B. The columns of the matrix are dealt out so
 * that four neighbouring ones, a panel, are one column of each thread of a quad.
 *
 * Whoever includes this has defined N, up to 32, and defines eliminate(). */

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
__device__ inline unsigned tell_quad(unsigned x) {
    unsigned all = x << 4 * of();
    all |= __shfl_xor_sync(WARP, all, 1);
    return all | __shfl_xor_sync(WARP, all, 2);
}
__device__ inline unsigned told(unsigned all, int block) { return all >> 4 * block & 15; }

/* --- a thread's elements --- */

struct Tile {
    T x[BLOCKS][BLOCKS][2];

    /* The thread's column of the panel of column K. */
    template <int K> __device__ T &of_panel(int r) { return x[r][K / 8][K / PANEL % 2]; }

    /* The panel of column K as rows. */
    template <int K> __device__ void give(T (&f)[PANEL]) {
#pragma unroll
        for (int r = 0; r < 4; r++) f[r] = r < BLOCKS ? of_panel<K>(least(r, BLOCKS - 1)) : T(0);
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

/* Steps k .. k + PANEL of a panel's rows. Returns the step at which the thread's row became a pivot row, from 1. */
template <bool BY_ALL_BITS> __device__ inline unsigned eliminate(Pivots &pivots, Row *pivot_rows, T (&f)[PANEL], int k);

/* The same where leading bits do not tell the pivot rows: rare, so it stays out of the panels' text. */
struct Careful {
    T f[PANEL];
    int step, info;
    unsigned found_at;
};
__device__ __noinline__ void eliminate_carefully(Row *pivot_rows, Careful &x, int k) {
    Pivots pivots;
    pivots.info = x.info, pivots.step = x.step;
    x.found_at = eliminate<true>(pivots, pivot_rows, x.f, k);
    x.info = pivots.info;
}

/* The rows of the panel of column K after its steps, and what eliminate() returns. */
template <int K> __device__ inline unsigned rows_of_panel(Tile &tile, Pivots &pivots, Row *pivot_rows, T (&f)[PANEL]) {
    tile.give<K>(f);
    unsigned found_at = eliminate<false>(pivots, pivot_rows, f, K);
    if (__builtin_expect(pivots.unsure(), 0)) {
        Careful careful;
        tile.give<K>(careful.f);
        careful.info = pivots.info, careful.step = pivots.step;
        eliminate_carefully(pivot_rows, careful, K);
        pivots.info = careful.info, found_at = careful.found_at;
#pragma unroll
        for (int j = 0; j < PANEL; j++) f[j] = careful.f[j];
    }
    if (found_at) pivots.step = K + found_at - 1;
    return found_at;
}

/* Of that matrix. */
__device__ inline Tile read_tile(const smm_cuda_args &args, long long matrix) {
    constexpr bool FLAT = SMM_SOURCE_A == SMM_SOURCE_FLAT && SMM_ORDER_A == SMM_ORDER_ROW;
    const smm_cuda_operand &a = args.operand[SMM_A];
    const T *from = static_cast<const T *>(a.data) + (FLAT ? matrix * (N * N) : offset_of(args, a, matrix));
    from += FLAT ? quad() * N + of() : quad() * a.row + of() * a.col;
    Tile tile;
#pragma unroll
    for (int r = 0; r < BLOCKS; r++)
#pragma unroll
        for (int j = 0; j < 2 * BLOCKS; j++) {
            const bool in = (8 * (r + 1) <= N || quad() + 8 * r < N) && (PANEL * (j + 1) <= N || of() + PANEL * j < N);
            const T *at = from + (FLAT ? 8 * r * N + PANEL * j : 8 * r * a.row + PANEL * j * a.col);
            tile.x[r][j / 2][j % 2] = in ? *at : T(0);
        }
    return tile;
}
