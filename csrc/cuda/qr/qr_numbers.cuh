/* qr_numbers.cuh: qr_of_numbers.cuh of the matrices of a call: Q and R (QR), R alone (QR_R), or R above the reflectors
 * and their tau (QR_RAW).
 *
 * Grid: one block per MATRICES matrices; LANES threads to a matrix.
 * Shared memory: of each matrix M rows of N numbers and of LANES columns of Q, rows an odd number of numbers apart, and
 * min(M, N) tau.
 * Operands: any that args.h can describe. May overwrite A in place, matrix by matrix. */
#include "common.cuh"
#include "lanes.cuh"
#include "householder.cuh"
#include "element.cuh"
#include "qr_of_numbers.cuh"
#include "operand_numbers.cuh"

constexpr int MATRICES = SMM_MATRICES, THREADS = SMM_THREADS;
static_assert(SMM_SHARED == MATRICES * NUMBERS * sizeof(Number), "the plan counts otherwise");

__device__ inline Own own_of(T *shared, int matrix) { return {reinterpret_cast<Number *>(shared) + matrix * NUMBERS}; }

extern "C" __global__ void __launch_bounds__(THREADS) SMM_NAME(const __grid_constant__ smm_cuda_args args) {
    extern __shared__ __align__(16) T shared[];
    const long long first = static_cast<long long>(blockIdx.x) * MATRICES, left = args.batch - first;
    const int count = left < MATRICES ? static_cast<int>(left) : MATRICES, own = threadIdx.x / LANES;
    const Own o = own_of(shared, own);
    for_numbers<THREADS, SMM_SOURCE_A, SMM_ORDER_A, M * N, M, N>(
        args, SMM_A, first, count, 0, 0,
        [&](const Number *from, int q, int i, int j) { own_of(shared, q).a(i, j) = *from; });
    __syncthreads();
    factor_safely(o, own < count, [&](int i, int j) {
        const smm_cuda_operand &a = args.operand[SMM_A];
        const long long at = offset_of(args, a, own < count ? first + own : 0) + i * a.row + j * a.col;
        return static_cast<const Number *>(a.data)[at];
    });
    __syncthreads();
    if (own < count && !lane() && args.operand[SMM_INFO].data) *beside<int>(args, SMM_INFO, first + own, 1) = 0;
    if constexpr (SMM_OP == SMM_OP_QR_RAW) {
        for_numbers<THREADS, SMM_SOURCE_C, SMM_ORDER_C, M * N, M, N>(
            args, SMM_C, first, count, 0, 0, [&](Number *to, int q, int i, int j) { *to = own_of(shared, q).a(i, j); });
        const long long step = REST_FLAT ? 1 : args.operand[SMM_QR_RAW_tau].row;
        for (int e = threadIdx.x; e < count * STEPS; e += THREADS)
            beside<Number>(args, SMM_QR_RAW_tau, first + e / STEPS, STEPS)[e % STEPS * step] =
                own_of(shared, e / STEPS).tau(e % STEPS);
    } else {
        constexpr int R = FORMS_Q ? int(SMM_QR_r) : int(SMM_QR_R_r);
        for_numbers<THREADS, SMM_SOURCE_REST, SMM_ORDER_ROW, K * N, K, N>(
            args, R, first, count, 0, 0, [&](Number *to, int q, int i, int j) {
                *to = i < STEPS && i <= j ? own_of(shared, q).a(i, j) : Number{0, 0};
            });
    }
    if constexpr (FORMS_Q) {
#pragma unroll 1
        for (int column = 0; column < K; column += LANES) {
            form_own_column(o, column);
            __syncthreads();
            for_numbers<THREADS, SMM_SOURCE_C, SMM_ORDER_C, M * K, M, LANES>(args, SMM_C, first, count, 0, column,
                                                                             [&](Number *to, int q, int i, int c) {
                                                                                 if (column + c < K)
                                                                                     *to = own_of(shared, q).q(i, c);
                                                                             });
            __syncthreads();
        }
    }
}
