/* smallmm.h: the public C interface of smallmm.
 *
 * Batched operations on stacks of tiny matrices. A call is data: fill an `smm_call`, hand it to
 * `smm_run`. Nothing here depends on Python; nothing prints, exits or aborts.
 *
 * Matrices are addressed by byte strides (batch, row, column), so row-major, column-major,
 * sliced, reversed and broadcast (stride 0) stacks are all described, never copied, by the caller.
 */
#ifndef SMALLMM_H
#define SMALLMM_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SMM_VERSION "0.1.0"

/* Factorizations and solves take matrices of m x n with min(m, n) <= SMM_MOST_ORDER and m n <= SMM_MOST_ORDER
 * squared; MATMUL takes any. */
enum { SMM_MOST_ORDER = 32 };

/* Sums of more products than SMM_DEEP are added up in chunks of SMM_CHUNK, in the order of reference/matmul.c. */
enum { SMM_DEEP = 1024, SMM_CHUNK = 256 };

typedef enum smm_status {
    SMM_OK = 0,
    SMM_ERR_ARGUMENT, /* a null pointer, a negative size or one that does not fit, a stride that splits an element */
    SMM_ERR_ORDER,    /* a matrix too large for the kernels of a factorization: see SMM_MOST_ORDER, SMM_RECTANGULAR */
    SMM_ERR_ISA,      /* SMALLMM_ISA names an instruction set that is unknown or not available here */
    SMM_ERR_THREADS,  /* SMALLMM_NUM_THREADS is not an integer of at least 1 */
    SMM_ERR_MEMORY,   /* no memory for the buffers of a thread; outputs are undefined */
    SMM_ERR_STOPPED,  /* by what smm_set_interrupt was given; outputs are undefined */
} smm_status;

typedef enum smm_dtype { SMM_F32, SMM_F64 } smm_dtype;

/* What each computes, and the shapes of its operands, are the rows of ops.def. */
typedef enum smm_op {
#define SMM_OP(name, ...) SMM_OP_##name,
#include "ops.def"
#undef SMM_OP
    SMM_OPS
} smm_op;

/* Which form of a an operation takes; the sum of those that apply. */
enum {
    SMM_UPPER = 1,      /* a's upper triangle instead of its lower; CHOLESKY gives the upper factor */
    SMM_UNIT = 2,       /* a's diagonal is taken to be 1 and not read */
    SMM_TRANSPOSED = 4, /* LU_SOLVE: the factored matrix is transposed */
    SMM_RECTANGULAR = 8 /* LU: of m x n matrices, for which there is no kernel yet: SMM_ERR_ORDER */
};

/* A stack of matrices: matrix q, row i, column j lies at data + q*batch + i*row + j*col bytes.
 * Data and strides are multiples of the element size. */
typedef struct smm_operand {
    void *data;
    intptr_t batch, row, col;
} smm_operand;

/* One batched operation. Operands that an operation does not have stay zero. Outputs must not overlap inputs.
 *
 * alpha and beta point at one scalar of the call's dtype per matrix, `batch` bytes apart (0: the same
 * for all; row and col are not used). MATMUL: C = alpha A B + beta C; data == NULL means alpha = 1 and beta = 0,
 * and beta = 0 never reads C. LSTSQ: alpha is rtol.
 *
 * pivots and info hold int32. Pivots are 0-based: row i was exchanged with row pivots[i]. info is 0 or says what
 * is wrong with a matrix, as in LAPACK: k > 0 means that pivot k (1-based) is zero or that the leading minor of
 * order k is not positive definite, or, of EIGH and EIGVALSH, that k elements beside the diagonal did not converge to
 * zero. -k, of LU_SOLVE: pivot k (1-based) is not one of k-1 .. n-1, the rows that step may exchange; this counts
 * before a zero. The other outputs of such a matrix are NaN, but its pivots, and the answers of DET and SLOGDET: 0; 0
 * and -inf. `failed`, unless NULL, becomes true if info is not 0 for some matrix: each thread looks at its own, which
 * is sooner done than looking at all of them afterwards. It needs info, but for LU_SOLVE and INV. */
typedef struct smm_call {
    smm_op op;
    smm_dtype dtype;
    unsigned form;
    intptr_t batch, m, n, k;
    smm_operand a, b, c, d;
    smm_operand pivots, info;
    smm_operand alpha, beta;
    bool *failed;
    /* The whole is `runs` such batches (0 or 1: just one), and operands lie so many bytes further in each. */
    intptr_t runs;
    struct {
        intptr_t a, b, c, d, pivots, info, alpha, beta;
    } run;
} smm_call;

/* What `smm_run` would do with a call: a pure look-up, for people and for tests. */
typedef struct smm_plan_info {
    const char *kernel;  /* e.g. "smm_matmul_rows_f64_avx512" */
    const char *isa;     /* e.g. "avx512" */
    bool swapped;        /* computed as C^T = B^T A^T, because C is column-major */
    bool pack_a, pack_b; /* copied tile by tile, of deep sums chunk by chunk, into a form the kernel reads */
    bool stage_c;        /* C passes through a buffer in L1 (strided, scaled or streamed output, deep sums) */
    bool nontemporal;    /* C is written around the caches */
    int threads;         /* threads that take part */
    intptr_t group;      /* matrices, of deep sums chunks, per tile when packing or staging */
    double flops, bytes; /* work and compulsory traffic of the whole call */
} smm_plan_info;

/* Run a call. Returns once C is written; safe to call from several threads at once. */
smm_status smm_run(const smm_call *call);

/* Describe how a call would run. SMM_ERR_ORDER: by no kernel; the rest is described. */
smm_status smm_explain(const smm_call *call, smm_plan_info *plan);

/* Calls that take long ask about every 50 ms whether to go on: smm_run calls `interrupted` in the thread that called
 * it, and if that returns true, soon returns SMM_ERR_STOPPED. `interrupted` may itself call smm_run. NULL: nobody is
 * asked. */
void smm_set_interrupt(bool (*interrupted)(void));

/* The number of threads a call may use: SMALLMM_NUM_THREADS, else OMP_NUM_THREADS, else the CPUs that
 * affinity and the cgroup allow. smm_set_num_threads(0) restores that default. Where SMALLMM_NUM_THREADS is
 * wrong it is 0, and every call fails with SMM_ERR_THREADS. */
int smm_get_num_threads(void);
smm_status smm_set_num_threads(int threads);

/* The instruction set in use; the names of those this build and machine offer, best last, NULL-ended;
 * a way to force one (NULL: SMALLMM_ISA if set, else the best). All but
 * `portable`, which rounds multiply and add separately, give the same bits. */
const char *smm_isa(void);
const char *const *smm_isas_available(void);
smm_status smm_select_isa(const char *name);

/* A sentence for a status. */
const char *smm_status_text(smm_status status);

#ifdef __cplusplus
}
#endif
#endif
