/* cholesky_numbers.cuh: cholesky_of_numbers.cuh of the matrices of a call.
 *
 * Grid: one block per MATRICES matrices; LANES threads to a matrix.
 * Shared memory: see own.cuh, without right-hand sides.
 * Operands: any that args.h can describe. May overwrite A in place, matrix by matrix. */
#include "common.cuh"
#include "lanes.cuh"
#include "number.cuh"

constexpr int MATRICES = SMM_MATRICES, THREADS = SMM_THREADS;
#include "cholesky_of_numbers.cuh"
#include "own_operands.cuh"

extern "C" __global__ void __launch_bounds__(THREADS) SMM_NAME(const __grid_constant__ smm_cuda_args args) {
    extern __shared__ __align__(16) T shared[];
    __shared__ int infos[MATRICES];
    const long long first = static_cast<long long>(blockIdx.x) * MATRICES, left = args.batch - first;
    const int count = left < MATRICES ? static_cast<int>(left) : MATRICES, own = threadIdx.x / LANES;
    load_matrices(args, shared, first, count);
    __syncthreads();
    const int info = factor(own_of(shared, own));
    if (!lane()) {
        infos[own] = info;
        if (own < count && args.operand[SMM_INFO].data) *beside<int>(args, SMM_INFO, first + own, 1) = info;
    }
    __syncthreads();
    for_numbers<THREADS, SMM_SOURCE_C, SMM_ORDER_C, N * N, N, N>(
        args, SMM_C, first, count, 0, 0, [&](Number *to, int q, int i, int j) {
            *to = infos[q] ? not_a_complex_number() : i >= j ? own_of(shared, q).a(i, j) : Number{0, 0};
        });
}
