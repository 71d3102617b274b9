/* core.h: the interfaces between the parts of the C core. Not installed. */
#ifndef SMM_CORE_H
#define SMM_CORE_H

#include <pthread.h>

#include "kernel.h"
#include "../threads/numa.h"

#define SMM_KERNELS(isa, NAME, name, ...) extern const smm_kernels smm_kernels_##isa##_##name;
#define SMM_ISA(isa, needs) SMM_COMPUTED(SMM_KERNELS, isa)
#include "../defs/isa.def"
#undef SMM_ISA
#undef SMM_KERNELS

/* dispatch.c: the kernels in use, chosen once. */
smm_status smm_kernels_of(smm_dtype dtype, const smm_kernels **kernels);
/* Whether an operation is for numbers of such a type. */
bool smm_takes(smm_op op, smm_dtype dtype);
/* Whether a kernel is forced by name, and whether it is this one. */
bool smm_is_kernel_forced(void);
bool smm_is_forced(const smm_kernel *kernel, smm_dtype dtype);

/* Changes whenever an instruction set or a kernel is chosen. Kept plans of programs are valid for one value of it. */
unsigned smm_choice(void);

/* plan.c */
typedef struct smm_plan {
    const smm_kernels *kernels;
    const smm_kernel *kernel;
    unsigned staged;  /* SMM_PACK_A | SMM_PACK_B | SMM_STAGE_C */
    bool swapped;     /* C^T = B^T A^T is computed */
    bool scaled;      /* by alpha or beta */
    bool deep;        /* a product that is summed in chunks */
    bool empty;       /* A or, of a product, C has no element */
    bool no_terms;    /* a product of nothing, so zero */
    bool nothing;     /* no output has an element */
    bool cold;        /* the operands are prefetched */
    bool nontemporal; /* C is streamed around the caches */
    int threads;
    intptr_t group;      /* when something is staged: the matrices that share a buffer, */
    intptr_t rows, cols; /* or, if one is larger than the buffer or deep, the block of C that is computed at a time */
    intptr_t parts;      /* in which each matrix of a product is computed where there are few: a block of C, */
    intptr_t span;       /* of deep sums so many chunks of it */
    intptr_t chunk;      /* matrices, or parts, a thread claims at least, */
    intptr_t piece;      /* and computes at most before it looks whether the call goes on */
    double flops, bytes; /* work and compulsory traffic, */
    double per_matrix;   /* bytes of all operands of a matrix */
    int largest;         /* the operand whose memory decides which node computes what; -1: none is large enough */
    intptr_t runs;       /* how often the call's batch is repeated by its outer dimensions */
    smm_call call;       /* normalised: swapped if C is column-major, strides of length-1 axes made dense; */
    smm_outer outer;     /* its outer dimensions; undefined where it has none */
} smm_plan;

/* Plans of calls of a type that is only stored have no kernel; the plans of their tiles do. */
smm_status smm_plan_call(const smm_call *call, smm_plan *plan);

/* How a call of a type that is only stored is computed: in tiles of `batch` matrices, each a call of the computed type.
 * Converted operands lie densely in a thread's buffer, whose address is not known yet: the plan assumes SMM_LINE. The
 * other operands are the caller's. */
typedef struct smm_tiles {
    smm_plan plan;                   /* of a tile */
    char *address[SMM_MAX_OPERANDS]; /* of the caller's operands, in the buffer; NULL: not converted */
    intptr_t batch, bytes;           /* matrices of a tile; bytes of the buffer */
} smm_tiles;

smm_status smm_plan_tiles(const smm_plan *whole, smm_tiles *tiles);

static inline intptr_t max_of(intptr_t x, intptr_t y) { return x > y ? x : y; }
static inline intptr_t smm_abs(intptr_t x) { return x < 0 ? -x : x; }

/* Whether a matrix is read and written column by column. */
static inline bool smm_is_column_major(const smm_operand *x, intptr_t rows, intptr_t cols) {
    return rows > 1 && cols > 1 && smm_abs(x->row) < smm_abs(x->col);
}

static inline bool smm_is_stored(smm_dtype dtype) { return smm_dtypes[dtype].computed != dtype; }

/* Bytes of a thread's buffers for A, B and C: of a group of small matrices, all three stay in L1 together. C has room
 * for a matrix of the greatest order in each lane of the widest vector. */
enum { SMM_BUFFER = 32768, SMM_C_BUFFER = 65536 };

/* And of those for the partial sums of a deep product's block of C, which stay in L2. */
enum { SMM_SUMS = 512 << 10 };

/* threads.c: run body(context, first, last) over 0 .. count-1, in pieces of one or more chunks, on up to `threads`
 * threads, of which the caller is one. Returns when all is done or, once a body has returned false, when what was begun
 * is done. With several nodes, each begins with what lies in its memory, if `home` says where that is. */
typedef bool smm_body_fn(void *context, intptr_t first, intptr_t last);
void smm_parallel_for(intptr_t count, intptr_t chunk, int threads, smm_body_fn *body, void *context,
                      const smm_home *home);
int64_t smm_now_ns(void);

/* threads.c: the next job gets a pool of its own. For forked children, and for tests. */
void smm_forget_pool(void);

/* threads.c: the number of threads a call may use, unless smm_set_num_threads set it; 0 if SMALLMM_NUM_THREADS is not a
 * number. */
int smm_default_threads(void);

/* Bytes of a call to the end of the last operand that its operation has. Setting or copying those that it does not have
 * would take 1 % of a single small product. */
static inline size_t smm_bytes_of_call(smm_op op) {
    return offsetof(smm_call, operand) + (size_t)smm_operations[op].count * sizeof(smm_operand);
}

/* The most matrices of all repetitions: their number, and what is computed with it, does not overflow. */
#define SMM_MAX_MATRICES 0x1p62

/* call.c: how often a call is repeated by its outer dimensions, and repetition r of it, which has none. */
intptr_t smm_runs(const smm_call *call);
smm_call smm_run_of(const smm_call *call, intptr_t r);
/* The bytes from operand i of the first repetition to that of repetition r, counted over the dimensions from `first`
 * on. */
static inline intptr_t smm_offset_of(const smm_outer *x, int first, int i, intptr_t r) {
    intptr_t offset = 0;
    for (int d = first; d < x->dims; d++) {
        offset += r % x->extent[d] * x->stride[d][i];
        r /= x->extent[d];
    }
    return offset;
}

/* call.c: add a dimension outside those that a call has. It merges with the last if every operand steps evenly through
 * both. False: there are too many. */
bool smm_add_dimension(smm_outer *to, intptr_t extent, const intptr_t stride[SMM_MAX_OPERANDS]);
/* One dimension becomes the batch of the call, the others its outer ones. On a CPU the longest becomes the batch if the
 * innermost is short, because each repetition starts a kernel. */
void smm_take_batch(smm_call *call, smm_outer *from, int own);
int smm_longest_dimension(const smm_outer *x);
/* call.c: a call of a real and a complex matrix of one precision is one of real numbers, as a product is or a system
 * with complex right-hand sides. The operands that are complex where A has numbers of type a and B of type b, a bit for
 * each by place; 0: this is no such call. */
unsigned smm_pairs_of(smm_op op, smm_dtype a, smm_dtype b);
/* Make it one: complex operands are seen as real matrices of twice the rows or columns; or, where parts and neighbours
 * are not evenly spaced, as twice as many matrices. False: there are too many dimensions. */
bool smm_as_interleaved_real(smm_call *call, smm_outer *outer, unsigned pairs);

/* call.c: whether an output shares memory with another operand. In place means that each matrix of the RESULT occupies
 * the memory of one of A or B. */
typedef enum smm_overlap { SMM_APART, SMM_IN_PLACE, SMM_OVERLAPPING } smm_overlap;
smm_overlap smm_overlap_of(const smm_call *call);

/* A part of memory: the address of its first byte and of the one after its last; equal if it is empty. */
typedef struct smm_span {
    intptr_t low, high;
} smm_span;
/* The span of one element grows to that of `extent` elements, `stride` bytes apart. */
static inline void smm_reach(smm_span *x, intptr_t extent, intptr_t stride) {
    const intptr_t bytes = (extent - 1) * stride;
    *(bytes < 0 ? &x->low : &x->high) += bytes;
}
static inline bool smm_do_spans_meet(const smm_span *x, const smm_span *y) {
    return x->low < y->high && y->low < x->high && x->low < x->high && y->low < y->high;
}
/* call.c: the span of operand i of a call that has matrices. */
smm_span smm_span_of(const smm_call *call, int i);

/* call.c: element (i, j) of matrix q of an operand, NULL of one that is not there. */
static inline void *smm_at(const smm_operand *x, intptr_t q, intptr_t i, intptr_t j) {
    return x->data ? (char *)x->data + q * x->batch + i * x->row + j * x->col : NULL;
}
/* The chunks of a deep product's matrix q: a stack of products, all with its alpha, beta and C. */
smm_call smm_chunks_of(const smm_call *call, intptr_t q);
/* Matrix x of all runs of a call, as a call of its own. */
smm_call smm_matrix_of(const smm_call *call, intptr_t x);

/* failures.c, of matrices first .. last-1 of a call without outer dimensions: whether the info of some, if the call has
 * info, is not 0; whether the first rows of the first output are finite. */
bool smm_any_failed(const smm_call *call, intptr_t first, intptr_t last);
bool smm_are_finite(const smm_call *call, intptr_t first, intptr_t last);

/* singular.c: replace the marks in info of suspect matrices first .. last-1 by the info of LU; inverses of singular
 * matrices become NaN. `run` is smm_run, which calls this. The call has no outer dimensions. */
void smm_confirm_singular(const smm_call *call, intptr_t first, intptr_t last, smm_status (*run)(const smm_call *));

/* workspace.c: what the threads of a job share: its status, and when its caller was last asked whether to go on (0: not
 * yet). Each thread asks between pieces of its work. */
typedef struct smm_cancel_token {
    smm_status status;
    pthread_t caller;
    int64_t asked;
} smm_cancel_token;
bool smm_should_continue(smm_cancel_token *x);
void smm_stop(smm_cancel_token *x, smm_status why);

/* run.c: smm_run, of SOLVE, INV, DET, SLOGDET, EIGH, EIGVALSH, EIG, EIGVALS, SCHUR, SVD, SVD_FULL or SVDVALS
 * of float32 or float64 or complex numbers of these. *not_finite becomes true if for some matrix the first row of the
 * output of real numbers, or of the first output where there is none, has an element that is Inf or NaN. A NaN in A
 * that is read reaches that row unless it gives info. */
smm_status smm_run_and_tell(const smm_call *call, bool *not_finite);

/* run.c: all of a planned call in this thread, which has its workspace. The call is the plan's, but for addresses and
 * the size of the batch. */
void smm_run_serial(const smm_plan *plan, const smm_call *call, smm_cancel_token *watch);

/* program.c: find the steps of a loop that need not run where no output is written. carried: of each value, whether it
 * is an output that is carried, at first; then those are marked, too, that such outputs depend on. */
void smm_find_steps_for_outputs(const smm_program *program, int carried[], bool for_outputs[]);

/* plan.c: the number of threads that pays for so much work. */
int smm_threads_for(double flops, double bytes, int threads);
/* The work of a call. Waking a thread pays for 1 of it. */
double smm_work_of(const smm_plan *plan);

/* convolution.c
 *
 * Filters times columns of the im2col matrix, which is never whole: a thread gathers a tile of it in its buffer. The
 * sum is over channels, then rows, then columns of a filter; the bits are those of MATMUL. */

/* Rows or columns: how many an image, a result and a filter have; steps between outputs and between the elements of a
 * filter; zeros before the first. Outputs beyond the last element meet zeros, too. */
typedef struct smm_axis {
    intptr_t inputs, outputs, kernel, stride, dilation, before;
} smm_axis;

typedef struct smm_image_stride {
    intptr_t image, group, channel, row, column;
} smm_image_stride;

/* Filters and channels are those of a group. x and y hold numbers of the dtype, w those in which it is computed.
 * Strides are in bytes, and multiples of the size of an element; those of the terms of a sum, which follow each other
 * as the channels, rows and columns of a filter, are one. y overlaps neither x nor w. The batch, if any, has a stride
 * of x, of w and of y in each dimension, in this order. */
typedef struct smm_convolution {
    smm_dtype dtype;
    intptr_t images, groups, filters, channels;
    smm_axis rows, columns;
    const void *x, *w;
    void *y;
    smm_image_stride x_stride, y_stride; /* y: channel stands for filter */
    struct {
        intptr_t group, filter, term;
    } w_stride;
    const smm_outer *batch;
} smm_convolution;

/* SMM_ERR_ARGUMENT also if a size is negative, or a kernel, stride or dilation is less than 1. */
smm_status smm_convolve(const smm_convolution *convolution);

/* How it would run: `group` is the outputs of a tile, `parts` the tiles of all, and the kernel that of a tile. */
smm_status smm_explain_convolution(const smm_convolution *convolution, smm_plan_info *plan);

/* The most partial sums that exist at a time when so many chunks are added up: one for each power of two in a number of
 * chunks below `chunks`, and the next chunk. */
static inline intptr_t smm_partial_sums(intptr_t chunks) {
    intptr_t most = 1;
    for (intptr_t x = chunks - 1; x > 0; x /= 2) most++;
    return most;
}

/* run.c: sums of the chunks of a deep product, in the order of reference/matmul.c. Of a stack of partial sums that ends
 * at `end`, so many elements each, chunk `number`, which lies at or above the end, becomes a part: equal sums are
 * added. The new end. Once all are taken up, what is left is added to the first, at `sums`. */
char *smm_tree_push(const smm_kernels *kernels, char *end, char *chunk, intptr_t number, intptr_t elements,
                    intptr_t bytes);
void smm_tree_sum(const smm_kernels *kernels, char *sums, char *end, intptr_t elements, intptr_t bytes);

/* The number of pieces of that length in a whole, rounded up. */
static inline intptr_t smm_pieces(intptr_t whole, intptr_t length) { return (whole + length - 1) / length; }

/* parts.c: systems of SOLVE_TRIDIAGONAL without row exchanges, of SMM_MIN_IN_PARTS rows or more, are solved in parts.
 * The order alone decides that, so that a system has the same bits in every batch and everywhere; but types that are
 * only stored are not, whose numbers would be rounded in between. */
bool smm_is_in_parts(const smm_call *call);

/* Solve the systems of a call that is in parts, by these kernels. */
smm_status smm_run_in_parts(const smm_call *call, const smm_parts_kernels *kernels);
/* The orders of a system's levels, the first of which is the system; how many there are. */
enum { SMM_MAX_LEVELS = 7 };
int smm_levels_of(intptr_t n, intptr_t orders[SMM_MAX_LEVELS]);

/* reference/: the oracle of the tests, and what runs where a matrix has no element. */
void smm_reference(const smm_call *call);

#endif
