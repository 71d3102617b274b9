/* systems_numbers.cuh: systems.cuh of the matrices of a call.
 *
 * Grid: one block per MATRICES matrices; LANES threads to a matrix.
 * Shared memory: the numbers of all matrices, then their integers; COLUMNS right-hand sides at a time.
 * Operands: any that args.h can describe. May overwrite A or B in place, matrix by matrix. */
#include "common.cuh"
#include "lanes.cuh"
#include "number.cuh"
#include "operand_numbers.cuh"
#include "systems.cuh"

constexpr int MATRICES = SMM_MATRICES, THREADS = SMM_THREADS;
static_assert(SMM_SHARED == MATRICES * (NUMBERS * sizeof(Number) + N * sizeof(int)), "the plan counts otherwise");

__device__ inline Own own_of(T *shared, int matrix) {
    Number *const numbers = reinterpret_cast<Number *>(shared);
    return {numbers + matrix * NUMBERS, reinterpret_cast<int *>(numbers + MATRICES * NUMBERS) + matrix * N};
}

/* Columns of right-hand sides from `column` on, of which there may be fewer than COLUMNS: the rest is zero. */
__device__ inline void load_columns(const smm_cuda_args &args, T *shared, long long first, int count,
                                    long long column) {
    if constexpr (INVERTS)
        for (int e = threadIdx.x; e < MATRICES * N * COLUMNS; e += THREADS)
            own_of(shared, e / (N * COLUMNS)).x(e / COLUMNS % N, e % COLUMNS) =
                Number{static_cast<T>(e / COLUMNS % N == column + e % COLUMNS), 0};
    else
        for_numbers<THREADS, SMM_SOURCE_B, SMM_ORDER_B, N * COLUMNS, N, COLUMNS>(
            args, SMM_B, first, count, 0, column, [&](const Number *from, int q, int i, int j) {
                own_of(shared, q).x(i, j) = column + j < args.k ? *from : Number{0, 0};
            });
}

extern "C" __global__ void __launch_bounds__(THREADS) SMM_NAME(const __grid_constant__ smm_cuda_args args) {
    extern __shared__ __align__(16) T shared[];
    __shared__ int infos[MATRICES];
    const long long first = static_cast<long long>(blockIdx.x) * MATRICES, left = args.batch - first;
    const int count = left < MATRICES ? static_cast<int>(left) : MATRICES, own = threadIdx.x / LANES;
    const Own o = own_of(shared, own);
    for_numbers<THREADS, SMM_SOURCE_A, SMM_ORDER_A, N * N, N, N>(args, SMM_A, first, count, 0, 0,
                                                                 [&](const Number *from, int q, int i, int j) {
                                                                     if constexpr (OF_ADJOINT)
                                                                         own_of(shared, q).a(j, i) = conjugate(*from);
                                                                     else
                                                                         own_of(shared, q).a(i, j) = *from;
                                                                 });
    if constexpr (SMM_OP == SMM_OP_LU_SOLVE)
        for (int e = threadIdx.x; e < count * N; e += THREADS)
            own_of(shared, e / N).pivots[e % N] =
                beside<const int>(args, SMM_LU_SOLVE_pivots, first + e / N,
                                  N)[e % N * (REST_FLAT ? 1 : args.operand[SMM_LU_SOLVE_pivots].row)];
    __syncthreads();
    /* The threads of matrices that the last block lacks work, too, on what is there; nobody stores it. */
    const Outcome outcome = prepare(o);
    if (!lane()) {
        infos[own] = outcome.info;
        if (own < count && args.operand[SMM_INFO].data) *beside<int>(args, SMM_INFO, first + own, 1) = outcome.info;
    }
    if constexpr (SOLVES) {
        const long long columns = INVERTS ? N : args.k;
#pragma unroll 1
        for (long long column = 0; column < columns; column += COLUMNS) {
            __syncthreads();
            load_columns(args, shared, first, count, column);
            __syncthreads();
            solve(o);
            __syncthreads();
            for_numbers<THREADS, SMM_SOURCE_C, SMM_ORDER_C, INVERTS ? N * N : N * COLUMNS, N, COLUMNS>(
                args, SMM_C, first, count, 0, column, [&](Number *to, int q, int i, int j) {
                    if (column + j < columns) *to = infos[q] ? not_a_complex_number() : own_of(shared, q).x(i, j);
                });
        }
    } else if constexpr (FACTORS) {
        __syncthreads();
        for_numbers<THREADS, SMM_SOURCE_C, SMM_ORDER_C, N * N, N, N>(
            args, SMM_C, first, count, 0, 0, [&](Number *to, int q, int i, int j) {
                *to = infos[q] ? not_a_complex_number() : own_of(shared, q).factor(i, j);
            });
        for (int e = threadIdx.x; SMM_OP == SMM_OP_LU && e < count * N; e += THREADS) {
            const int q = e / N, i = e % N, info = infos[q];
            beside<int>(args, SMM_LU_pivots, first + q, N)[i * (REST_FLAT ? 1 : args.operand[SMM_LU_pivots].row)] =
                info && i + 1 >= info ? i : own_of(shared, q).pivots[i];
        }
    } else if (own < count && !lane()) {
        const long long q = first + own;
        const long long at = SMM_SOURCE_C == SMM_SOURCE_FLAT ? q : offset_of(args, args.operand[SMM_C], q);
        give_determinant(
            o, outcome.singular, [&](Number x) { static_cast<Number *>(args.operand[SMM_C].data)[at] = x; },
            [&](T x) { *beside<T>(args, SMM_SLOGDET_logabsdet, q, 1) = x; });
    }
}
