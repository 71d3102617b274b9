/* kernel.h: what kernels and the core know of each other: calls, and the tables of kernels. Not installed. */
#ifndef SMM_KERNEL_H
#define SMM_KERNEL_H

#include <stddef.h>

#include "operations.h"

enum { SMM_LINE = 64 };

/* Cache lines of earlier results, still to be streamed around the caches; and the address of an A to prefetch, if it
 * does not follow the A's of the call as in a dense stack. */
typedef struct smm_prefetch {
    const char *from;
    char *to;
    intptr_t lines;
    const void *next_a;
} smm_prefetch;

/* A kernel runs matrices first .. last-1 of a call, and ignores a product's alpha and beta. It allocates nothing and
 * cannot fail. cold is NULL if the operands are in a cache. Otherwise they come from memory and prefetching pays; the
 * kernel may also stream the lines in `cold` in between, to keep memory busy. The caller streams the rest. Threads may
 * have small stacks: a kernel uses up to 96 KB of it. Anything larger lies in its thread's workspace. */
typedef void smm_kernel_fn(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold);

/* The transpose of each matrix. */
static inline smm_operand smm_transposed(smm_operand x) { return (smm_operand){x.data, x.batch, x.col, x.row}; }

/* Operands that must be packed before a kernel can use them; or the kernel cannot run the call, or could but a later
 * one of the list is faster. */
enum { SMM_PACK_A = 1, SMM_PACK_B = 2, SMM_STAGE_C = 4, SMM_UNFIT = 8, SMM_SLOWER = 16 };

/* Bytes of operands beyond which most of them miss a core's own caches, and beyond which they come from memory.
 * Below the first, prefetching costs up to 10 % at n <= 8. The second is less than the last cache: of 32 MiB that a
 * machine shares, products without prefetching took two to four times as long from 18 MiB on, and streaming the output
 * pays from 20 to 28 (AMD Zen 5 with 1 MiB of L2 and 32 MiB of L3 for two cores, November 2026). */
#define SMM_BEYOND_L2 (1.5 * (1 << 20))
#define SMM_MEMORY (24.0 * (1 << 20))

/* The usual group: small, so that streaming its results overlaps the next group's reads. */
#define SMM_GROUP 1024

/* One row of an operation's kernel list. The first row that fits a call is its kernel. */
typedef struct smm_kernel {
    const char *name;
    int16_t m, k, n; /* the shape it is compiled for; 0: any */
    smm_kernel_fn *run;
    unsigned (*needs)(const smm_call *call); /* SMM_PACK_A | ...: what must be packed for this call */
    double cold;                             /* bytes of a call's operands from which prefetching them pays */
    intptr_t group; /* bytes of matrices that share a buffer, where something is staged; 0: whole vectors of matrices */
    intptr_t (*workspace)(
        const smm_call *call); /* bytes that it takes of its thread's workspace; NULL: SMM_KERNEL_WORKSPACE */
} smm_kernel;

/* Numbers evenly spaced in each of three directions, innermost first: their counts, and the distances in bytes. */
typedef struct smm_grid {
    void *data;
    intptr_t extent[3], step[3];
} smm_grid;

/* A tridiagonal system that is solved in parts (parts.c): one that a call is about, or one of separators. Row i of it
 * is row 1 + i apart of the whole system, counted from 1. Row i of each line lies i `row` behind its data; dl begins
 * with row 1. x may be b. */
typedef struct smm_level {
    smm_dtype dtype;
    intptr_t n, k, apart;
    smm_operand dl, d, du, b, x;
} smm_level;

/* Work on parts first .. last-1 of a level, of SMM_PART rows. It is given the level of its separators, too, which has
 * no rows if this is the last. Returns the least row of the whole system whose pivot is zero, or SMM_NO_ROW. */
typedef int32_t smm_level_fn(const smm_level *x, const smm_level *separators, intptr_t first, intptr_t last);
enum { SMM_NO_ROW = INT32_MAX };

typedef struct smm_parts_kernels {
    const char *name;
    smm_level_fn *reduce;     /* rows of the separators' level */
    smm_level_fn *substitute; /* x of the level from that of the separators */
} smm_parts_kernels;

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
    /* x[0] = function(x[1], ...) of so many elements, which lie step[i] bytes apart, in so many rows, next[i] apart. */
    void (*map)(smm_function function, char *const x[], const intptr_t step[], intptr_t count, const intptr_t next[],
                intptr_t rows);
    smm_parts_kernels parts;
    /* For each type that is only stored and is computed in this one: conversion to dense numbers of this type, and
     * back, streamed around the caches or not. */
    struct {
        void (*widen)(void *dense, const smm_grid *from);
        void (*narrow)(const smm_grid *to, const void *dense, bool streamed);
    } stored[SMM_STORED_TYPES];
} smm_kernels;

/* workspace.c: memory of the calling thread for the kernel that it runs: that many bytes, or as many as the kernel's
 * row says, aligned to cache lines. */
enum { SMM_KERNEL_WORKSPACE = 4608 * 1024 };
void *smm_kernel_workspace(void);

/* workspace.c: whether to go on. Kernels of diagonals, which may work on one vector of matrices for long, ask before
 * right-hand sides from k on of systems of order n; if not, they return, and what they leave is never looked at. It is
 * always true where little was done since it was asked. */
bool smm_kernel_should_continue(intptr_t n, intptr_t k);

/* run.c: run a call of a few matrices from within a kernel, in this thread. What it calls uses SMM_KERNEL_WORKSPACE
 * bytes of the workspace; the caller's own lies behind. */
void smm_run_nested(const smm_call *call);

/* info of an operation that has it. */
static inline const smm_operand *smm_info(const smm_call *call) { return &call->operand[smm_roles_of[call->op].info]; }

/* Kernels of INV set info to these where a matrix may be singular, or where a pivot overflowed (then its inverse is
 * wrong). */
enum { SMM_SUSPECT = -1, SMM_OVERFLOW = -2 };

static inline intptr_t min_of(intptr_t x, intptr_t y) { return x < y ? x : y; }

#endif
