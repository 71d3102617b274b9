/* args.h: what every CUDA kernel is given. Read by the C compiler and by NVRTC alike, so it includes nothing. */
#ifndef SMM_CUDA_ARGS_H
#define SMM_CUDA_ARGS_H

/* Inputs, outputs (several: factors, pivots, info) and per-matrix scalars; batch dimensions that do not merge. */
enum { SMM_CUDA_OPERANDS = 6, SMM_CUDA_DIMS = 8 };

/* Element (i, j) of matrix (q0, q1, ...) lies at data + q0 batch[0] + q1 batch[1] + ... + i row + j col elements. */
typedef struct smm_cuda_operand {
    void *data;
    long long row, col;
    long long batch[SMM_CUDA_DIMS];
} smm_cuda_operand;

/* Matrix q of the call is (q % extent[0], q / extent[0] % extent[1], ...): the innermost dimension comes first. */
typedef struct smm_cuda_args {
    long long batch;
    int dims;
    long long extent[SMM_CUDA_DIMS];
    double alpha, beta; /* where the operands of that name have no data */
    smm_cuda_operand operand[SMM_CUDA_OPERANDS];
} smm_cuda_args;

/* How the matrices of an operand follow each other: one after the other without gaps; all the same; anyhow. */
enum { SMM_SOURCE_FLAT, SMM_SOURCE_ONE, SMM_SOURCE_STRIDED };

/* Which index is contiguous within a matrix: the column's (C order) or the row's (Fortran's). */
enum { SMM_ORDER_ROW, SMM_ORDER_COL };

#endif
