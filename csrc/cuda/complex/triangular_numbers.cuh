/* triangular_numbers.cuh: triangular_of_numbers.cuh of the matrices of a call.
 *
 * Grid: one block per MATRICES matrices; LANES threads to a matrix.
 * Shared memory: see own.cuh. COLUMNS right-hand sides at a time.
 * Operands: any that args.h can describe. May overwrite B in place, matrix by matrix. */
#include "common.cuh"
#include "lanes.cuh"
#include "number.cuh"

constexpr int MATRICES = SMM_MATRICES, THREADS = SMM_THREADS;
#include "triangular_of_numbers.cuh"
#include "own_operands.cuh"

__device__ inline void load_adjoints(const smm_cuda_args &args, T *shared, long long first, int count) {
    for_numbers<THREADS, SMM_SOURCE_A, SMM_ORDER_A, N * N, N, N>(
        args, SMM_A, first, count, 0, 0,
        [&](const Number *from, int q, int i, int j) { own_of(shared, q).a(j, i) = conjugate(*from); });
}

extern "C" __global__ void __launch_bounds__(THREADS) SMM_NAME(const __grid_constant__ smm_cuda_args args) {
    extern __shared__ __align__(16) T shared[];
    __shared__ int infos[MATRICES];
    const long long first = static_cast<long long>(blockIdx.x) * MATRICES, left = args.batch - first;
    const int count = left < MATRICES ? static_cast<int>(left) : MATRICES, own = threadIdx.x / LANES;
    const Own o = own_of(shared, own);
    if (DEFINITE && UPPER)
        load_adjoints(args, shared, first, count);
    else
        load_matrices(args, shared, first, count);
    __syncthreads();
    const int info = DEFINITE ? factor_definite(o) : first_zero(o);
    if (!lane()) {
        infos[own] = info;
        if (own < count && args.operand[SMM_INFO].data) *beside<int>(args, SMM_INFO, first + own, 1) = info;
    }
#pragma unroll 1
    for (long long column = 0; column < args.k; column += COLUMNS) {
        __syncthreads();
        load_columns(args, shared, first, count, column);
        __syncthreads();
        solve(o);
        __syncthreads();
        store_columns(args, shared, first, count, column, args.k, infos);
    }
}
