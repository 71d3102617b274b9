/* args.h: the arguments of every CUDA kernel. The C compiler and NVRTC both read it, so it includes nothing but
 * ops.def. */
#ifndef SMM_CUDA_ARGS_H
#define SMM_CUDA_ARGS_H

/* The place of each operation's operands, in the order of ops.def: SMM_LU_pivots, for example. Kernels that serve
 * several operations are given SMM_B, SMM_C and SMM_INFO: the places of the right-hand side or second factor, of the
 * RESULT, and of info; SMM_ABSENT if there is none. An operand that a call leaves out has no data. */
#define SMM_OPERAND(OP, name, ...) SMM_##OP##_##name,
#define SMM_OPERATION(OP, op, what, flops, operands) enum { operands };
#include "../defs/ops.def"
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

/* B of a product that is a convolution: the im2col matrix of images, which no memory holds. Its column is an output,
 * its row one element of a filter, counted through channels, rows and columns. Pairs are of rows and columns. */
typedef struct smm_cuda_images {
    long long channel, row, column; /* strides of the images, in elements */
    int kernel[2], dilation[2], inputs[2];
    int first[2]; /* where the filter of the first output begins, in an image: in its padding, if less than 0 */
    struct {      /* outputs are numbered by these, the first innermost: */
        int extent;
        int step[2];    /* so many rows and columns on in an image, */
        long long x, y; /* and so many elements in the images and in C */
    } digit[3];
} smm_cuda_images;

/* How a product of any size is shared. Its blocks each compute the sums of up to `span` chunks for every slice of their
 * threads, in some tiles of C. If one block does not compute whole sums, there are `parts` of them: those of each tile
 * are written to `sums`, and a second launch (`groups` > 0) adds them up, so many threads to an element. */
typedef struct smm_cuda_tiles {
    long long m, n;
    long long first, count; /* tiles of this launch: rows and columns of tiles of one matrix after the other */
    long long parts;
    int span, groups;
    void *sums; /* part, tile, element of the tile */
} smm_cuda_tiles;

/* What a launch does for long systems in parts (banded_parts.cuh): from `level` on, 0 being the systems themselves, so
 * many levels are reduced, and then so many substituted, the last one first. `blocks` share a column of a system. */
enum { SMM_CUDA_NO_ROW = 0x7fffffff }; /* no pivot is zero */
typedef struct smm_cuda_parts {
    int level, reduced, substituted;
    unsigned blocks;
    long long first;          /* system */
    long long infos, numbers; /* bytes of all infos in the workspace; numbers of a column's levels, which lie behind */
} smm_cuda_parts;

/* Matrix q of the call is (q % extent[0], q / extent[0] % extent[1], ...): the innermost dimension comes first. */
typedef struct smm_cuda_args {
    long long batch;
    long long ahead; /* distance in matrices to those of the block that begins when this one ends */
    long long k;    /* of a product its terms; columns of B and C of a solve, of which a kernel takes SMM_K at a time */
    long long m, n; /* of matrices of diagonals, for whose sizes no kernel is compiled: how many there are, the order */
    void *workspace; /* memory of the device for the matrices under way, if the kernel needs any */
    int dims;
    int share; /* matrices of a block at a time that make all blocks which stay take about as many */
    long long extent[SMM_CUDA_DIMS];
    smm_cuda_operand operand[SMM_CUDA_OPERANDS];
    double number[SMM_CUDA_OPERANDS];    /* the value of an operand without data: one number for all matrices */
    double imaginary[SMM_CUDA_OPERANDS]; /* of complex matrices its imaginary part */
    smm_cuda_parts parts;
    smm_cuda_tiles tiles;
    smm_cuda_images images;
} smm_cuda_args;

/* How the matrices of an operand follow each other: without gaps; all the same; in any other way; or those of images.
 */
enum { SMM_SOURCE_FLAT, SMM_SOURCE_ONE, SMM_SOURCE_STRIDED, SMM_SOURCE_IMAGES };

/* Which index is contiguous within a matrix: that of the column (C order) or of the row (Fortran order). */
enum { SMM_ORDER_ROW, SMM_ORDER_COL };

#endif
