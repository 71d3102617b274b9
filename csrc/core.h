/* core.h: what the parts of the C core know of each other. Not installed. */
#ifndef SMM_CORE_H
#define SMM_CORE_H

#include <stddef.h>

#include "smallmm.h"

enum { SMM_LINE = 64 };

/* Cache lines of results computed before, to be streamed around the caches. And where an A to prefetch begins, if that
 * does not follow the A's of the call, as in a dense stack. */
typedef struct smm_behind {
    const char *from;
    char *to;
    intptr_t lines;
    const void *next_a;
} smm_behind;

/* A kernel runs matrices first .. last-1 of a call, ignoring a product's alpha and beta. It allocates nothing and
 * cannot fail. cold: NULL, or the operands come from memory rather than from a cache, so that prefetching pays; what is
 * behind may then be streamed in between, so that memory has something to do all the time. The caller streams the rest.
 * Threads may have small stacks: a kernel takes up to 24 KB of it, and what is larger lies in its thread's room. */
typedef void smm_kernel_fn(const smm_call *call, intptr_t first, intptr_t last, smm_behind *cold);

/* Operands that must pass through a packed buffer before a kernel can use them; or it cannot run the call. */
enum { SMM_PACK_A = 1, SMM_PACK_B = 2, SMM_STAGE_C = 4, SMM_UNFIT = 8 };

/* Bytes of operands beyond which most of them miss a core's own caches, and beyond which they come from memory.
 * Below the first, prefetching costs up to 10 % at n <= 8. The second is less than the last cache: of 32 MiB that a
 * machine shares, products without prefetching took two to four times as long from 18 MiB on, and streaming the output
 * pays from 20 to 28 (AMD Zen 5 with 1 MiB of L2 and 32 MiB of L3 for two cores, November 2026). */
#define SMM_BEYOND_L2 (1.5 * (1 << 20))
#define SMM_MEMORY (24.0 * (1 << 20))

/* The usual group: little, so that streaming its results overlaps the next group's reads. */
#define SMM_GROUP 1024

/* One row of an operation's kernel list. The first row that fits a call is its kernel. */
typedef struct smm_kernel {
    const char *name;
    int16_t m, k, n; /* the shape it is compiled for; 0: any */
    smm_kernel_fn *run;
    unsigned (*needs)(const smm_call *call); /* SMM_PACK_A | ...: what must be packed for this call */
    double cold;                             /* bytes of a call's operands from which prefetching them pays */
    intptr_t group; /* bytes of matrices that share a buffer, where something is staged; 0: whole vectors of matrices */
} smm_kernel;

/* The kernels of one instruction set and dtype, and the conversions around them. Packed means dense
 * row-major matrices, one right after the other. */
typedef struct smm_kernels {
    struct {
        const smm_kernel *rows;
        size_t count;
    } lists[SMM_OPS];
    intptr_t lanes; /* elements of a vector */
    /* Copy `count` matrices of x (rows x cols) to packed; cold: x comes from memory. */
    void (*pack)(void *packed, const smm_operand *x, intptr_t rows, intptr_t cols, intptr_t count, bool cold);
    /* C = alpha packed + beta C for the whole call; clobbers packed. */
    void (*unpack)(const smm_call *call, void *packed);
    /* packed = alpha packed for the whole call. */
    void (*scale)(const smm_call *call, void *packed);
    /* sum += x, of so many elements. */
    void (*add)(void *sum, const void *x, intptr_t count);
    /* Copy whole cache lines, both sides aligned to them, around the caches. */
    void (*stream)(void *to, const void *from, size_t bytes);
} smm_kernels;

#define SMM_ISA(name, needs) extern const smm_kernels smm_kernels_##name##_f32, smm_kernels_##name##_f64;
#include "isa.def"
#undef SMM_ISA

/* dispatch.c: the kernels in use, chosen once. */
smm_status smm_kernels_of(smm_dtype dtype, const smm_kernels **kernels);

/* plan.c */
typedef struct smm_plan {
    smm_call call; /* the call, normalised: swapped if C is column-major, strides of length-1 axes made dense */
    const smm_kernels *kernels;
    const smm_kernel *kernel;
    unsigned staged;  /* SMM_PACK_A | SMM_PACK_B | SMM_STAGE_C */
    bool swapped;     /* C^T = B^T A^T is computed */
    bool scaled;      /* by alpha or beta */
    bool deep;        /* a product that is summed in chunks */
    bool empty;       /* A or, of a product, C has no element */
    bool nothing;     /* no output has an element */
    bool cold;        /* the operands are prefetched */
    bool nontemporal; /* C is streamed around the caches */
    int threads;
    intptr_t group;      /* when something is staged: the matrices that share a buffer, */
    intptr_t rows, cols; /* or, if one is larger than the buffer or deep, the block of C that is computed at a time */
    intptr_t chunk;      /* matrices a thread claims at least, */
    intptr_t piece;      /* and computes at most before it looks whether the call goes on */
    double flops, bytes; /* work and compulsory traffic */
} smm_plan;

smm_status smm_plan_call(const smm_call *call, smm_plan *plan);

/* Bytes of a thread's buffers for A, B and C: of a group of small matrices, all three stay in L1 together. C has room
 * for a matrix of the greatest order in each lane of the widest vector. */
enum { SMM_BUFFER = 32768, SMM_C_BUFFER = 65536 };

/* run.c: that many bytes of the calling thread, aligned to cache lines, for the kernel that it runs. */
enum { SMM_KERNEL_ROOM = 200 * 1024 };
void *smm_kernel_room(void);

/* threads.c: run body(context, first, last) over the whole of 0 .. count-1, in pieces of one or more chunks, on up to
 * `threads` threads, the caller among them. Returns when all is done, or what was begun when a body returned false. */
typedef bool smm_body_fn(void *context, intptr_t first, intptr_t last);
void smm_parallel_for(intptr_t count, intptr_t chunk, int threads, smm_body_fn *body, void *context);
int64_t smm_now_ns(void);

/* threads.c: as many threads as a call may use unless smm_set_num_threads said; 0: SMALLMM_NUM_THREADS is no such
 * number. */
int smm_default_threads(void);

/* run.c: run r of a call's several. */
smm_call smm_run_of(const smm_call *call, intptr_t r);

/* settle.c: kernels of INV put these in the place of info where a matrix may be singular, or a pivot overflowed (then
 * its inverse is wrong). Of matrices first .. last-1 of a call of one run, info becomes that of LU; bad inverses NaN.
 */
enum { SMM_DOUBT = -1, SMM_OVERFLOW = -2 };
void smm_settle(const smm_call *call, intptr_t first, intptr_t last);
/* run.c: the chunks of a deep product's matrix q: a stack of products, all with its alpha, beta and C. */
smm_call smm_chunks_of(const smm_call *call, intptr_t q);

/* The most partial sums that exist at a time when so many chunks are added up: one for each power of two in a number of
 * chunks below `chunks`, and the next chunk. */
static inline intptr_t smm_partial_sums(intptr_t chunks) {
    intptr_t most = 1;
    for (intptr_t x = chunks - 1; x > 0; x /= 2) most++;
    return most;
}

/* reference/: the oracle of the tests, and what runs where a matrix has no element. */
void smm_reference(const smm_call *call);

static inline intptr_t least(intptr_t x, intptr_t y) { return x < y ? x : y; }

static inline intptr_t smm_size(smm_dtype dtype) { return dtype == SMM_F32 ? 4 : 8; }

#endif
