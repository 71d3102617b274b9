/* args.h: what every CUDA kernel is given. Read by the C compiler and by NVRTC alike, so it includes nothing but
 * ops.def.
 */
#ifndef SMM_CUDA_ARGS_H
#define SMM_CUDA_ARGS_H

/* The places of each operation's operands, in the order of ops.def: SMM_LU_pivots, for example. Kernels that serve
 * several operations are given SMM_B, SMM_C and SMM_INFO: where theirs has its right-hand side or second factor, its
 * RESULT and its info, SMM_ABSENT if it has none. Operands that a call lacks have no data. */
#define SMM_OPERAND(OP, name, ...) SMM_##OP##_##name,
#define SMM_OPERATION(OP, op, what, flops, operands) enum { operands };
#include "../ops.def"
#undef SMM_OPERATION
#undef SMM_OPERAND
enum { SMM_A, SMM_ABSENT = 10, SMM_CUDA_OPERANDS };
enum { SMM_CUDA_DIMS = 8 }; /* batch dimensions, at most */

/* Element (i, j) of matrix (q0, q1, ...) lies at data + q0 batch[0] + q1 batch[1] + ... + i row + j col elements, which
 * are of the type that ops.def says. */
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
    smm_cuda_operand operand[SMM_CUDA_OPERANDS];
    double number[SMM_CUDA_OPERANDS]; /* what an operand is that is one number for all matrices, and so has no data */
} smm_cuda_args;

/* How the matrices of an operand follow each other: one after the other without gaps; all the same; anyhow. */
enum { SMM_SOURCE_FLAT, SMM_SOURCE_ONE, SMM_SOURCE_STRIDED };

/* Which index is contiguous within a matrix: the column's (C order) or the row's (Fortran's). */
enum { SMM_ORDER_ROW, SMM_ORDER_COL };

#endif
