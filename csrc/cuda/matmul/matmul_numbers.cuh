/* matmul_numbers.cuh: C = alpha A B + beta C of complex matrices, whatever memory they need.
 *
 * The results are those of kernels/matmul_pairs.h. A thread has a tile of C in registers, whose rows and columns are
 * spread. Pieces of A and B of DEPTH columns and rows come to shared memory, one after the other.
 *
 * Grid: one block per MATRICES matrices, TILES threads to each; the last threads of a block may have none.
 * Shared memory: of each matrix M rows of DEPTH numbers of A and DEPTH rows of N numbers of B, rows an odd number of
 * numbers apart.
 * Operands: any that args.h can describe. May overwrite A or B in place, matrix by matrix. */
#include "common.cuh"
#include "matmul_elements.cuh"
#include "operand_elements.cuh"

constexpr int ROWS = SMM_ROWS, COLS = SMM_COLS;
constexpr int MATRICES = SMM_MATRICES, THREADS = SMM_THREADS;
constexpr int DOWN = ceil_div(M, ROWS), ACROSS = ceil_div(N, COLS), TILES = DOWN * ACROSS;
constexpr int DEPTH = min_of(max_of(K, 1), 32), PITCH_A = pitch_of(DEPTH), PITCH_B = pitch_of(N);
constexpr int NUMBERS_A = M * PITCH_A, NUMBERS_B = DEPTH * PITCH_B;
static_assert(SMM_SHARED == MATRICES * (NUMBERS_A + NUMBERS_B) * sizeof(Complex), "the plan counts otherwise");

extern "C" __global__ void __launch_bounds__(THREADS) SMM_NAME(const __grid_constant__ smm_cuda_args args) {
    extern __shared__ __align__(16) T shared[];
    Complex *const a = reinterpret_cast<Complex *>(shared), *const b = a + MATRICES * NUMBERS_A;
    const long long first = static_cast<long long>(blockIdx.x) * MATRICES, left = args.batch - first;
    const int count = left < MATRICES ? static_cast<int>(left) : MATRICES;
    const int own = threadIdx.x / TILES, tile = threadIdx.x % TILES, down = tile / ACROSS, side = tile % ACROSS;
    Complex c[ROWS][COLS];
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLS; j++) c[i][j] = {0, 0};
#pragma unroll 1
    for (int begin = 0; begin < K; begin += DEPTH) {
        const int depth = min_of(DEPTH, K - begin);
        for_elements<THREADS, SMM_SOURCE_A, SMM_ORDER_A, M * K, M, DEPTH>(
            args, SMM_A, first, count, 0, begin, [&](const Complex *from, int q, int i, int j) {
                if (j < depth) a[q * NUMBERS_A + i * PITCH_A + j] = *from;
            });
        for_elements<THREADS, SMM_SOURCE_B, SMM_ORDER_B, K * N, DEPTH, N>(
            args, SMM_B, first, count, begin, 0, [&](const Complex *from, int q, int i, int j) {
                if (i < depth) b[q * NUMBERS_B + i * PITCH_B + j] = *from;
            });
        __syncthreads();
        if (own < count) {
#pragma unroll 4
            for (int k = 0; k < depth; k++) {
                Complex x[ROWS], y[COLS];
                for (int i = 0; i < ROWS; i++) x[i] = a[own * NUMBERS_A + min_of(down + i * DOWN, M - 1) * PITCH_A + k];
                for (int j = 0; j < COLS; j++)
                    y[j] = b[own * NUMBERS_B + k * PITCH_B + min_of(side + j * ACROSS, N - 1)];
                for (int i = 0; i < ROWS; i++)
                    for (int j = 0; j < COLS; j++)
                        c[i][j] = begin + k ? add_term(x[i], y[j], c[i][j]) : term(x[i], y[j]);
            }
        }
        __syncthreads();
    }
    if (own >= count) return;
    const long long q = first + own;
    const smm_cuda_operand &to = args.operand[SMM_C];
    Complex *const out =
        static_cast<Complex *>(to.data) + (SMM_SOURCE_C == SMM_SOURCE_FLAT ? q * (M * N) : offset_of(args, to, q));
    Complex alpha = {1, 0}, beta = {0, 0};
    if constexpr (SMM_SCALED) {
        alpha = coefficient(args, SMM_MATMUL_alpha, q);
        beta = coefficient(args, SMM_MATMUL_beta, q);
    }
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLS; j++) {
            const int row = down + i * DOWN, col = side + j * ACROSS;
            if (row >= M || col >= N) continue;
            Complex *const at = out + row * to.row + col * to.col;
            if constexpr (!SMM_SCALED)
                *at = c[i][j];
            else if (is_zero(beta))
                *at = product(alpha, c[i][j]);
            else
                *at = multiply_add(alpha, c[i][j], product(beta, *at));
        }
}
