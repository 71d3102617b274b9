/* args.h: the arguments of every CUDA kernel. The C compiler and NVRTC both read it, so it includes nothing but
 * ops.def. */
#ifndef SMM_CUDA_ARGS_H
#define SMM_CUDA_ARGS_H

/* The place of each operation's operands, in the order of ops.def: SMM_LU_pivots, for example. Kernels that serve
 * several operations are given SMM_B, SMM_C and SMM_INFO: the places of the right-hand side or second factor, of the
 * RESULT, and of info; SMM_ABSENT if there is none. An operand that a call leaves out has no data. */
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
    long long ahead; /* distance in matrices to those of the block that begins when this one ends */
    long long k;     /* columns of B and C of a solve; a kernel takes SMM_K of them at a time */
    int dims;
    long long extent[SMM_CUDA_DIMS];
    smm_cuda_operand operand[SMM_CUDA_OPERANDS];
    double number[SMM_CUDA_OPERANDS];    /* the value of an operand without data: one number for all matrices */
    double imaginary[SMM_CUDA_OPERANDS]; /* of complex matrices its imaginary part */
} smm_cuda_args;

/* How the matrices of an operand follow each other: without gaps; all the same; in any other way. */
enum { SMM_SOURCE_FLAT, SMM_SOURCE_ONE, SMM_SOURCE_STRIDED };

/* Which index is contiguous within a matrix: that of the column (C order) or of the row (Fortran order). */
enum { SMM_ORDER_ROW, SMM_ORDER_COL };

#endif
