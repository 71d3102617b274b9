/* own_operands.cuh: where in a block's shared memory each matrix has its own (own.cuh), and what comes there from
 * operands and goes back. The texts define MATRICES and THREADS first. */
#include "operand_numbers.cuh"

static_assert(SMM_SHARED == MATRICES * (NUMBERS * sizeof(Number) + N * sizeof(int)), "the plan counts otherwise");

__device__ inline Own own_of(T *shared, int matrix) {
    Number *const numbers = reinterpret_cast<Number *>(shared);
    return {numbers + matrix * NUMBERS, reinterpret_cast<int *>(numbers + MATRICES * NUMBERS) + matrix * N};
}

/* Columns of right-hand sides from `column` on, of which there may be fewer than COLUMNS: the rest is zero. */
__device__ inline void load_columns(const smm_cuda_args &args, T *shared, long long first, int count,
                                    long long column) {
    for_numbers<THREADS, SMM_SOURCE_B, SMM_ORDER_B, N * COLUMNS, N, COLUMNS>(
        args, SMM_B, first, count, 0, column, [&](const Number *from, int q, int i, int j) {
            own_of(shared, q).x(i, j) = column + j < args.k ? *from : Number{0, 0};
        });
}
/* infos: of each matrix of the block, in place of its pivots. */
__device__ inline void store_columns(const smm_cuda_args &args, T *shared, long long first, int count, long long column,
                                     long long columns, const int *infos) {
    for_numbers<THREADS, SMM_SOURCE_C, SMM_ORDER_C, SMM_OP == SMM_OP_INV ? N * N : N * COLUMNS, N, COLUMNS>(
        args, SMM_C, first, count, 0, column, [&](Number *to, int q, int i, int j) {
            if (column + j < columns) *to = infos[q] ? not_a_complex_number() : own_of(shared, q).x(i, j);
        });
}
__device__ inline void load_matrices(const smm_cuda_args &args, T *shared, long long first, int count) {
    for_numbers<THREADS, SMM_SOURCE_A, SMM_ORDER_A, N * N, N, N>(
        args, SMM_A, first, count, 0, 0,
        [&](const Number *from, int q, int i, int j) { own_of(shared, q).a(i, j) = *from; });
}
