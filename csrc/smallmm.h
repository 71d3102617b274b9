/* smallmm.h: the public C interface of smallmm.
 *
 * Batched operations on stacks of tiny matrices. A call is data: fill an `smm_call` and pass it to `smm_run`. Nothing
 * here depends on Python. Nothing exits or aborts, and nothing prints, unless SMALLMM_VERBOSE=1 asks for a line on
 * stderr per planned call.
 *
 * Matrices are addressed by byte strides (batch, row, column). So row-major, column-major, sliced, reversed and
 * broadcast (stride 0) stacks are described, and the caller never copies them. */
#ifndef SMALLMM_H
#define SMALLMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "defs/dtypes.def"

#ifdef __cplusplus
extern "C" {
#endif
#ifdef SMM_SHARED /* while libsmallmm.so is compiled, which has no other names than these */
#pragma GCC visibility push(default)
#endif

#define SMM_VERSION "0.1.0"

/* Factorizations and solves take matrices of m x n with min(m, n) <= SMM_MAX_ORDER and m n <= SMM_MAX_ORDER squared.
 * MATMUL takes any size. Solves with DIAGONALS take orders up to SMM_LONGEST, because info is counted in float32. */
enum { SMM_MAX_ORDER = 128, SMM_LONGEST = 1 << 24 };

/* From this order on, systems of SOLVE_TRIDIAGONAL with SMM_UNPIVOTED, but of float16 and bfloat16, are solved in parts
 * of so many rows, which lanes and threads share. info then is the least row whose pivot is zero or infinite;
 * elimination begins at both ends of every part. */
enum { SMM_MIN_IN_PARTS = 1 << 13, SMM_PART = 16 };

/* Sums of more products than SMM_DEEP are added in chunks of SMM_CHUNK, in the order of reference/matmul.c. */
enum { SMM_DEEP = 1024, SMM_CHUNK = 256 };
/* Symmetric matrices up to this order, and matrices of at most so many rows or columns, have their eigenvalues and
 * singular values by Jacobi's methods, which are as fast there, and more accurate: reference/eigh.c and svd.c. */
enum { SMM_JACOBI_MAX = 4 };

typedef enum smm_status {
    SMM_OK = 0,
    SMM_ERR_ARGUMENT,  /* a null pointer, a negative size or one that does not fit, a stride that splits an element */
    SMM_ERR_ORDER,     /* a matrix too large for the kernels of a factorization: see SMM_MAX_ORDER */
    SMM_ERR_DTYPE,     /* the operation is not for numbers of this element type */
    SMM_ERR_ISA,       /* SMALLMM_ISA names an instruction set that is unknown or not available here */
    SMM_ERR_KERNEL,    /* SMALLMM_KERNEL names a kernel that this build does not have */
    SMM_ERR_THREADS,   /* SMALLMM_NUM_THREADS is not an integer of at least 1 */
    SMM_ERR_MEMORY,    /* no memory for the buffers of a thread; outputs are undefined */
    SMM_ERR_STOPPED,   /* by the function given to smm_set_interrupt; outputs are undefined */
    SMM_ERR_OPERATION, /* op is none of ops.def, or dtype none of dtypes.def */
    SMM_ERR_EMPTY,     /* of smm_check alone: the batch or an operand has no elements */
    SMM_ERR_OVERLAP,   /* of smm_check alone: an output overlaps another operand */
} smm_status;

/* Element types: SMM_F32, SMM_F64, SMM_C64, SMM_C128, SMM_F16, SMM_BF16, the rows of dtypes.def. Operands of the last
 * two hold 16 bits; they are computed as float32, and results are rounded once, to nearest, ties to even. */
typedef enum smm_dtype {
#define SMM_DTYPE(x, NAME, ...) SMM_##NAME,
    SMM_DTYPES(SMM_DTYPE, _)
#undef SMM_DTYPE
        SMM_DTYPE_COUNT
} smm_dtype;

/* What each computes, and its operands with their shapes, are the rows of ops.def. */
typedef enum smm_op {
#define SMM_OPERATION(NAME, ...) SMM_OP_##NAME,
#include "defs/ops.def"
#undef SMM_OPERATION
    SMM_OPS
} smm_op;

/* The form of the operand a, or a variant of the operation; the sum of those that apply. */
enum {
    SMM_UPPER = 1,       /* a's upper triangle is read instead of its lower; CHOLESKY gives the upper factor */
    SMM_UNIT = 2,        /* a's diagonal is taken to be 1 and not read */
    SMM_TRANSPOSED = 4,  /* LU_SOLVE, LU_RCOND: the factored matrix is transposed */
    SMM_UNPIVOTED = 16,  /* SOLVE_TRIDIAGONAL: rows are not exchanged */
    SMM_NORMWISE = 32,   /* BACKWARD_ERROR: in norms, not component by component */
    SMM_EXTRA = 64,      /* REFINE, BACKWARD_ERROR: residuals in twice the precision */
    SMM_POSITIVE = 128,  /* SOLVE_MIXED: of positive definite matrices, of which both triangles are read */
    SMM_SYMMETRIC = 256, /* LDL, LDL_SOLVE, SOLVE_SYM: complex matrices are symmetric; else Hermitian, as elsewhere */
    SMM_TENSOR = 512,    /* MATMUL of float16 and bfloat16: a device may sum by its tensor cores */
    SMM_LAPACK = 1024    /* LU, LU_SOLVE: pivots from 1, LU passes zero pivots; on the host SMM_ERR_ORDER */
};

/* A stack of matrices: matrix q, row i, column j lies at data + q*batch + i*row + j*col bytes.
 * Data and strides are multiples of the element size; of complex numbers, of the size of their parts. */
typedef struct smm_operand {
    void *data;
    intptr_t batch, row, col;
} smm_operand;

/* A dense stack: rows x cols elements of so many bytes, row after row, matrix after matrix. For a stack whose columns
 * follow each other, exchange row and col; for one matrix that serves all, set batch to 0. */
static inline smm_operand smm_stack(void *data, size_t bytes, intptr_t rows, intptr_t cols) {
    const intptr_t col = (intptr_t)bytes;
    const smm_operand stack = {data, rows * cols * col, cols * col, col};
    return stack;
}

enum { SMM_MAX_OPERANDS = 10 };

/* The operands of each operation by name, in the order of ops.def: smm_solve_operands {a, b, x, info}, for example. */
#define SMM_OPERAND(OP, name, ...) smm_operand name;
#define SMM_OPERATION(OP, op, what, flops, operands) \
    typedef struct smm_##op##_operands { \
        operands \
    } smm_##op##_operands;
#include "defs/ops.def"
#undef SMM_OPERATION
#undef SMM_OPERAND

/* Batch dimensions beyond the first, innermost first. The whole call is repeated extent[0] extent[1] ... times, and
 * operand i moves by stride[d][i] bytes at the next index of dimension d. */
enum { SMM_MAX_DIMS = 8 };
typedef struct smm_outer {
    int dims;
    intptr_t extent[SMM_MAX_DIMS];
    intptr_t stride[SMM_MAX_DIMS][SMM_MAX_OPERANDS];
} smm_outer;

/* One batched operation. Outputs must not overlap inputs.
 *
 * Its operands are the member named like the operation (call.solve.x for SMM_OP_SOLVE), or call.operand[i] in the order
 * of ops.def. An optional operand is left out by data = NULL. Optional are:
 *
 * alpha, beta (MATMUL: C = alpha A B + beta C), rtol (LSTSQ) and lower (SOLVE_BANDED; int32): one number per matrix,
 * `batch` bytes apart (0: the same for all). Defaults are alpha = 1, beta = 0, rtol = 0, lower = 0. If beta = 0, C is
 * not read.
 *
 * info: 0, or what is wrong with a matrix, as in LAPACK. k > 0 means that pivot k (1-based) is zero or infinite, or
 * that the leading minor of order k is not positive definite; for INV, n may also mean that the inverse overflows. For
 * EIGH and EIGVALSH it means that k elements beside the diagonal did not converge to zero; for SVD, SVD_FULL and
 * SVDVALS, that k pairs of rows did not become orthogonal. -k, for LU_SOLVE, LU_RCOND and REFINE, means that pivot k
 * (1-based) is not one of k-1 .. n-1, the rows that step may exchange; this takes precedence over a zero pivot. All
 * other outputs of such a matrix are NaN, with two exceptions: its pivots, and, where a pivot is zero, the results of
 * DET, SLOGDET and LU_RCOND, which are 0, (0, -inf) and 0.
 *
 * For LDL_SOLVE, -k means that pivot k (1-based) is not one that LDL gives. LDL's pivots count from 1; two equal
 * negative ones mark a block of order 2 of D (LAPACK's sytrf; of Hermitian matrices, hetrf). For SOLVE_BANDED, -1
 * means that `lower` is none of 0 .. m-1.
 *
 * SOLVE_MIXED is of SMM_F64 alone. Its iterations are the steps of refinement, or say why a matrix was solved by SOLVE
 * or SOLVE_POS, of which info then is: -2, an element overflows float32; -3, the factors in float32 are singular or not
 * those of a positive definite matrix; -31, a right-hand side has not converged after 30 steps.
 *
 * iterations, pivots, rank and info hold int32. Pivots are 0-based: row i was exchanged with row pivots[i].
 *
 * `failed`, unless NULL, becomes true if info is not 0 for some matrix. Each thread checks its own matrices, which is
 * faster than checking all of them afterwards. The call may lack info then.
 * One without right-hand sides, or of systems in parts, says nothing without info. */
typedef struct smm_call {
    smm_op op;
    smm_dtype dtype;
    unsigned form;
    intptr_t batch, m, n, k;
    const smm_outer *outer; /* NULL: no more batch dimensions */
    bool *failed;
    union {
        smm_operand operand[SMM_MAX_OPERANDS];
        smm_operand a; /* the first of every operation */
#define SMM_OPERATION(OP, op, ...) smm_##op##_operands op;
#include "defs/ops.def"
#undef SMM_OPERATION
    };
} smm_call;

/* If there are more nodes of memory and CPUs, all are taken for one. */
enum { SMM_MAX_NODES = 64 };

/* How `smm_run` would run a call: a pure look-up, for people and for tests. */
typedef struct smm_plan_info {
    const char *kernel;   /* e.g. "smm_matmul_rows_f64_avx512" */
    const char *isa;      /* e.g. "avx512" */
    const char *computed; /* "f32": the type in which operands are computed; NULL: their own */
    bool swapped;         /* computed as C^T = B^T A^T, because C is column-major */
    bool pack_a, pack_b;  /* copied tile by tile (deep sums: chunk by chunk) into a form that the kernel reads */
    bool stage_c;         /* C passes through a buffer in L1 (strided, scaled or streamed output, deep sums) */
    bool nontemporal;     /* C is written around the caches */
    int threads;          /* threads that take part */
    int nodes;            /* of memory and CPUs that these belong to: their ids, in the order of their parts */
    int node[SMM_MAX_NODES];
    double share[SMM_MAX_NODES]; /* share of the matrices that each node computes */
    intptr_t parts;      /* of each matrix that threads share, where there are few: blocks of C, spans of deep sums; */
    intptr_t rows;       /* or of so many rows, of a long system (SMM_MIN_IN_PARTS), whose kernel has them; else 0 */
    intptr_t group;      /* matrices (deep sums: chunks) per tile when packing, staging or converting */
    double flops, bytes; /* work and compulsory traffic of the whole call */
} smm_plan_info;

/* Run a call. Returns once C is written; safe to call from several threads at once. */
smm_status smm_run(const smm_call *call);

/* Run many calls, of any operations, types and sizes, as one job: threads share the matrices of all of them, so that
 * many small calls use them as one large call does. Results are those of `smm_run` on each. No call may write what
 * another reads or writes. A call that is refused does not keep others from running: each[i], unless each is NULL, says
 * so, and the first of these statuses is returned. SMM_ERR_MEMORY and SMM_ERR_STOPPED: all outputs are undefined. */
smm_status smm_run_many(const smm_call *calls, size_t count, smm_status *each);

/* Describe how a call would run. SMM_ERR_ORDER: by no kernel; the rest is described. */
smm_status smm_explain(const smm_call *call, smm_plan_info *plan);

/* What smm_run says before it computes anything, or what it does not look for because that takes time, or because it
 * may be meant: SMM_ERR_EMPTY, nothing to compute, as where m was forgotten; SMM_ERR_OVERLAP, an output that shares
 * bytes with another operand. Of stacks that lie in each other the matrices are compared if their batch strides are
 * equal and the call has no outer dimensions; else such stacks count as overlapping. */
smm_status smm_check(const smm_call *call);

/* The plan of the first of many calls that is not refused; threads, nodes, work and traffic are those of all. */
smm_status smm_explain_many(const smm_call *calls, size_t count, smm_plan_info *plan);

/* --- Programs ---------------------------------------------------------------------------------------
 *
 * A program is a list of steps over values. It runs all steps on a tile of matrices before it goes on to the next, so
 * that what is between the steps stays in the caches. The results have the bits of the separate calls. */

/* Element-wise functions: the rows of functions.def. */
typedef enum smm_function {
#define SMM_FUNCTION(NAME, ...) SMM_FN_##NAME,
#include "defs/functions.def"
#undef SMM_FUNCTION
    SMM_FUNCTIONS
} smm_function;

/* What an element in memory may be: an element type, or an integer or truth, which are only converted. */
enum {
    SMM_TYPES_BEFORE_INTEGERS = SMM_DTYPE_COUNT - 1,
#define ROW(x, NAME, ...) SMM_TYPE_##NAME,
    SMM_INTEGERS(ROW, _)
#undef ROW
        SMM_TYPE_BOOL,
    SMM_TYPES
};

/* A value: a stack that steps read or write. The data of a constant, and of a run's inputs and outputs, is aligned to
 * its elements. */
typedef struct smm_value {
    enum { SMM_INPUT, SMM_OUTPUT, SMM_CONSTANT, SMM_TEMPORARY } kind;
    intptr_t batch; /* bytes from one matrix to the next; for a temporary, the bytes of a matrix */
    void *data;     /* of a constant, the same for all matrices */
} smm_value;

/* A step. Its operands point into values: operand i begins `offset[i]` bytes after its matrix of value[i], or is
 * missing if value[i] is -1. Rows, columns and outer dimensions of the call are used as they are; addresses and batch
 * are not.
 *
 * SMM_STEP_CALL: the call. INV must have its info.
 * SMM_STEP_MAP: operand 0 = function(operand 1, ...), element by element, of m x n matrices of the call's dtype. An
 * argument is broadcast by strides of 0. Complex dtypes have the functions of functions_complex.def.
 * SMM_STEP_CONVERT: operand 0, whose elements are `to`, becomes operand 1, whose elements are `from`. Not complex.
 * Integers of 64 bits become float64 first.
 * SMM_STEP_UNLESS: the next `skips` steps are left out where no element of operand 0 is 0 in a whole tile. A later step
 * may read what they write, but its results must not depend on it where operand 0 is not 0. */
typedef struct smm_step {
    enum { SMM_STEP_CALL, SMM_STEP_MAP, SMM_STEP_CONVERT, SMM_STEP_UNLESS } kind;
    smm_function function;
    int skips;
    int to, from;
    smm_call call;
    int value[SMM_MAX_OPERANDS];
    intptr_t offset[SMM_MAX_OPERANDS];
} smm_step;

/* A program may be a loop, as recurrences in time are: all steps run again and again. What output `from` was is input
 * `to` of the next time. Matrices of both are dense, of `bytes` bytes; between the first and the last time they are in
 * the caches alone. Value `info`, which steps write, of `columns` numbers (int32) of a matrix, is an output of three
 * (int32): of each matrix's first failure the number, the time from 1 on (0: none), and the column. */
typedef struct smm_carry {
    int from, to;
    intptr_t bytes;
} smm_carry;
typedef struct smm_loop {
    int carries;
    const smm_carry *carry;
    int info, columns; /* info: -1 if there is none */
} smm_loop;

/* Each value is written, in part or as a whole, by steps before those that read it. Outputs overlap nothing. */
typedef struct smm_program {
    int values, steps;
    const smm_value *value;
    const smm_step *step;
    const smm_loop *loop; /* NULL: the steps run once */
} smm_program;

typedef struct smm_program_info {
    intptr_t tile;        /* matrices that go through all steps together */
    intptr_t temporaries; /* bytes of temporaries per matrix; those no longer needed make room for others */
    double flops;         /* of a matrix */
    double bytes, saved;  /* compulsory traffic of the program, and traffic of its temporaries in separate calls */
} smm_program_info;

/* Plan a program once, and run it as often as its inputs and outputs have these strides. A plan refers to the data of
 * constants, but not to the program. SMM_ERR_ORDER: a step has no kernel. */
typedef struct smm_planned smm_planned;
smm_status smm_plan_program(const smm_program *program, smm_planned **planned, smm_program_info *info);
void smm_free_program(smm_planned *planned);

/* The kernel of a step; NULL if it is element-wise or has nothing to do. */
const char *smm_kernel_of_step(const smm_planned *planned, int step);

/* Run it: data[v] is the address of value v, for inputs and outputs; `outer` is the number of dimensions beyond the
 * batch, with stride[d * values + v] for each of them. failed[s], unless NULL, becomes true if info of step s is not 0
 * for some matrix; of a loop it is NULL, since info says more.
 *
 * `times`, of a loop: how often the steps run, and stride[v], the bytes from one time to the next of an input, or from
 * one that is written to the next of an output. Outputs that are no carries are written at the last time, and every so
 * many times before it. */
typedef struct smm_repeats {
    int dims;
    const intptr_t *extent, *stride;
} smm_repeats;
typedef struct smm_times {
    intptr_t length, every;
    const intptr_t *stride;
} smm_times;
smm_status smm_run_program(const smm_planned *planned, intptr_t batch, void *const *data, const smm_repeats *outer,
                           const smm_times *times, bool *failed);

/* Long calls ask about every 20 ms whether to go on: smm_run calls `interrupted` in the thread that called it, and if
 * that returns true, smm_run soon returns SMM_ERR_STOPPED. `interrupted` may itself call smm_run. NULL: never ask. */
void smm_set_interrupt(bool (*interrupted)(void));

/* The number of threads a call may use: SMALLMM_NUM_THREADS, else OMP_NUM_THREADS, else the CPUs that affinity and the
 * cgroup allow. smm_set_num_threads(0) restores that default. If SMALLMM_NUM_THREADS is invalid the number is 0, and
 * every call fails with SMM_ERR_THREADS.
 *
 * On Linux with several NUMA nodes a thread of the pool stays on one node, and first computes what lies in its memory.
 * SMALLMM_NUMA=0 takes all nodes for one. */
int smm_get_num_threads(void);
smm_status smm_set_num_threads(int threads);

/* The instruction set in use; the names of those that this build and machine offer, best last, NULL-ended; and a way to
 * force one (NULL: SMALLMM_ISA if set, else the best). All give the same bits but `portable`, which rounds products and
 * sums separately. */
const char *smm_isa(void);
const char *const *smm_isas_available(void);
smm_status smm_select_isa(const char *name);

/* Force a kernel by operation and strategy ("inv_panels") wherever it can run; other calls choose as usual. Bits do not
 * change, except for inv_panels at orders up to 3. NULL: SMALLMM_KERNEL if set, else none. */
smm_status smm_select_kernel(const char *name);

/* A sentence for a status. */
const char *smm_status_text(smm_status status);

#ifdef SMM_SHARED
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
