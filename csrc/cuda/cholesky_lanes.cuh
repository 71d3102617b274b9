/* cholesky_lanes.cuh: A = L L^T, L written with zeros above its diagonal; of A only the lower triangle counts.
 *
 * Right-looking Cholesky (Golub and Van Loan, Matrix Computations, section 4.2.5), the rows of a matrix spread over
 * LANES lanes and kept in registers: once column j is final, l_kj goes to all lanes, and every row takes its product.
 *
 * Grid: one block per MATRICES matrices; LANES threads to a matrix.
 * Shared memory: the image of A, later that of L in its place; the offsets of matrices that lie anyhow.
 * Operands: any that args.h can describe. May overwrite A in place, matrix by matrix.
 * Limits: ROWS x N elements must fit a lane's registers. */
#include "common.cuh"
#include "image.cuh"
#include "lanes.cuh"

constexpr int N = SMM_N, MATRICES = SMM_MATRICES, THREADS = SMM_THREADS, ROWS = ceil_div(N, LANES);
constexpr bool A_BY_ROWS = SMM_ORDER_A == SMM_ORDER_ROW;
constexpr bool C_BY_ROWS = SMM_ORDER_C == SMM_ORDER_ROW || SMM_SOURCE_C == SMM_SOURCE_STRIDED;
typedef Image<N, N, SMM_SOURCE_A, MATRICES, SMM_PAD> ImageA;
typedef Image<N, N, SMM_SOURCE_C, MATRICES, SMM_PAD> ImageC;

__device__ inline int row_of(int r) { return lane() + LANES * r; }

/* The step, from 1, whose pivot is not positive; or 0. What is right of the diagonal is never read. */
__device__ inline int factor(T (&x)[ROWS][N]) {
    int info = 0;
#pragma unroll
    for (int j = 0; j < N; j++) {
        const T pivot = from_lane(x[j / LANES][j], j % LANES);
        if (!(pivot > 0) && !info) info = j + 1;
        const T diagonal = root(pivot), r = reciprocal(diagonal);
#pragma unroll
        for (int i = j / LANES; i < ROWS; i++) x[i][j] = row_of(i) == j ? diagonal : product(x[i][j], r);
#pragma unroll
        for (int k = j + 1; k < N; k++) {
            const T l = from_lane(x[k / LANES][j], k % LANES);
#pragma unroll
            for (int i = k / LANES; i < ROWS; i++) x[i][k] = multiply_add(-x[i][j], l, x[i][k]);
        }
    }
    return info;
}

#if SMM_BLOCKS > 0
#define BOUNDS __launch_bounds__(THREADS, SMM_BLOCKS)
#else
#define BOUNDS __launch_bounds__(THREADS)
#endif

extern "C" __global__ void BOUNDS SMM_NAME(const __grid_constant__ smm_cuda_args args) {
    extern __shared__ __align__(16) T shared[];
    constexpr bool LIE_ANYHOW = SMM_SOURCE_A == SMM_SOURCE_STRIDED || SMM_SOURCE_C == SMM_SOURCE_STRIDED;
    __shared__ long long where[2][LIE_ANYHOW ? MATRICES : 1];
    const smm_cuda_operand &a = args.operand[SMM_A], &c = args.operand[SMM_C], &to = args.operand[SMM_INFO];
    const long long first = static_cast<long long>(blockIdx.x) * MATRICES;
    const int count = static_cast<int>(args.batch - first < MATRICES ? args.batch - first : MATRICES);
    if (LIE_ANYHOW) {
        for (int q = threadIdx.x; q < count; q += THREADS) {
            where[0][q] = offset_of(args, a, first + q);
            where[1][q] = offset_of(args, c, first + q);
        }
        __syncthreads();
    }
    const int shift = stage<ImageA, THREADS, SMM_ASYNC>(shared, a, first, count, where[0], A_BY_ROWS ? a.row : a.col,
                                                        A_BY_ROWS ? a.col : a.row);
    copies_done();
    __syncthreads();

    const int q = threadIdx.x / LANES;
    T x[ROWS][N];
    const T *image = shared + shift + (SMM_SOURCE_A == SMM_SOURCE_ONE ? 0 : q * ImageA::MATRIX);
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int j = 0; j < least(N, LANES * (r + 1)); j++) {
            const int i = row_of(r);
            x[r][j] =
                q < count && j <= i && i < N ? image[A_BY_ROWS ? i * ImageA::PITCH + j : j * ImageA::PITCH + i] : T(0);
        }
    const int info = factor(x);
    if (q < count && lane() == 0 && to.data)
        static_cast<int *>(to.data)[SMM_SOURCE_REST == SMM_SOURCE_FLAT ? first + q : offset_of(args, to, first + q)] =
            info;

    T *image_c = shared;
    if (SMM_SOURCE_C == SMM_SOURCE_FLAT) image_c += ImageC::shift_of(static_cast<const T *>(c.data) + first * (N * N));
    __syncthreads();
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int j = 0; j < N; j++) {
            const int i = row_of(r);
            if (i >= N || q >= count) continue;
            image_c[q * ImageC::MATRIX + (C_BY_ROWS ? i * ImageC::PITCH + j : j * ImageC::PITCH + i)] =
                info                            ? not_a_number()
                : j < LANES * (r + 1) && j <= i ? x[r][j]
                                                : T(0);
        }
    __syncthreads();
    unstage<ImageC, THREADS>(SMM_SOURCE_C == SMM_SOURCE_FLAT ? shared : image_c, c, first, count, where[1]);
}
