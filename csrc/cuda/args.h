/* args.h: what every CUDA kernel is given. Read by the C compiler and by NVRTC alike, so it includes nothing. */
#ifndef SMM_CUDA_ARGS_H
#define SMM_CUDA_ARGS_H

/* Operands by the names of ops.def, and per-matrix scalars. Those that a call lacks have no data. */
enum { SMM_A, SMM_B, SMM_C, SMM_D, SMM_PIVOTS, SMM_INFO, SMM_ALPHA, SMM_BETA, SMM_CUDA_OPERANDS };
enum { SMM_CUDA_DIMS = 8 }; /* batch dimensions, at most */

/* Element (i, j) of matrix (q0, q1, ...) lies at data + q0 batch[0] + q1 batch[1] + ... + i row + j col elements, which
 * are int32 for pivots and info. */
typedef struct smm_cuda_operand {
    void *data;
    long long row, col;
    long long batch[SMM_CUDA_DIMS];
} smm_cuda_operand;

/* Matrix q of the call is (q % extent[0], q / extent[0] % extent[1], ...): the innermost dimension comes first. */
typedef struct smm_cuda_args {
    long long batch;
    long long ahead; /* how many matrices further those are of the block that begins when this one ends */
    long long k;     /* columns of B and C of a solve, of which a kernel takes SMM_K at a time */
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
