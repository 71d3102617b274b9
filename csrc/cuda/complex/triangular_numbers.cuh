/* triangular_numbers.cuh: X of A X = B with complex triangular A (SOLVE_TRIANGULAR), with the factors of Cholesky
 * (CHO_SOLVE): L L^H X = B, in the form UPPER U^H U X = B; or with positive definite A, which is factored first
 * (SOLVE_POS).
 *
 * The results are those of kernels/triangular_numbers.h and of kernels/cholesky_numbers.h.
 *
 * Grid: one block per MATRICES matrices; LANES threads to a matrix.
 * Shared memory: see own.cuh. COLUMNS right-hand sides at a time.
 * Operands: any that args.h can describe. May overwrite A or B in place, matrix by matrix. */
#include "common.cuh"
#include "lanes.cuh"

constexpr int N = SMM_N, MATRICES = SMM_MATRICES, THREADS = SMM_THREADS, COLUMNS = SMM_K;
constexpr bool UPPER = SMM_FORM & 1, UNIT = SMM_FORM & 2, DEFINITE = SMM_OP == SMM_OP_SOLVE_POS;
#include "own.cuh"

__device__ inline void solve(const Own &o) {
    if constexpr (SMM_OP == SMM_OP_CHO_SOLVE || DEFINITE) {
        constexpr bool OF_U = UPPER && !DEFINITE;
        solve_triangle<OF_U ? ADJOINT : PLAIN, false, false>(o);
        solve_triangle<OF_U ? PLAIN : ADJOINT, true, false>(o);
    } else {
        solve_triangle<PLAIN, UPPER, UNIT>(o);
    }
}

/* The first zero on the diagonal, from 1, by which it would divide; or 0. */
__device__ inline int first_zero(const Own &o) {
    for (int j = 0; j < N && !UNIT; j++)
        if (is_zero(o.a(j, j))) return j + 1;
    return 0;
}

__device__ inline void load_adjoints(const smm_cuda_args &args, T *shared, long long first, int count) {
    for_numbers<THREADS, SMM_SOURCE_A, SMM_ORDER_A, N * N, N, N>(
        args, SMM_A, first, count, 0, 0,
        [&](const Number *from, int q, int i, int j) { Own(shared, q).a(j, i) = conjugate(*from); });
}

extern "C" __global__ void __launch_bounds__(THREADS) SMM_NAME(const __grid_constant__ smm_cuda_args args) {
    extern __shared__ __align__(16) T shared[];
    __shared__ int infos[MATRICES];
    const long long first = static_cast<long long>(blockIdx.x) * MATRICES, left = args.batch - first;
    const int count = left < MATRICES ? static_cast<int>(left) : MATRICES, own = threadIdx.x / LANES;
    const Own o(shared, own);
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
