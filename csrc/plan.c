/* plan.c: from a call to how it runs: a pure look-up, no search and no timing.
 * The search for better rows of the lists it reads happens off line. */
#include <string.h>

#include "core.h"

/* The output of calls larger than this goes around the caches: beyond the last cache streaming wins 1.2-2.2
 * times, within it it loses 1.3-2.1 times (AMD Zen 5 with 32 MiB of L3, November 2026). */
static const double STREAM_BYTES = SMM_MEMORY;

/* A thread must have this much to do before waking another one pays (about 10 us of either). */
static const double THREAD_BYTES = 512.0 * 1024, THREAD_FLOPS = 1e6;

/* Threads claim work in pieces of about this many bytes: long enough to hide the claim, short enough
 * to even out cores of unequal speed. */
static const double CHUNK_BYTES = 128.0 * 1024;

/* What a group of matrices takes of a buffer: little, so that its streaming overlaps the next group's reads. */
enum { GROUP_BYTES = 2048 };

static bool splits_element(const smm_operand *x, intptr_t size) {
    return (x->batch | x->row | x->col | (intptr_t)x->data) & (size - 1);
}

static bool is_valid(const smm_call *c) {
    if (!c || c->batch < 0 || c->m < 0 || c->n < 0 || c->k < 0) return false;
    if (c->op != SMM_OP_MATMUL || (c->dtype != SMM_F32 && c->dtype != SMM_F64)) return false;
    const intptr_t size = smm_size(c->dtype);
    if (splits_element(&c->a, size) || splits_element(&c->b, size) || splits_element(&c->c, size)) return false;
    const bool empty = !c->batch || !c->m || !c->n;
    return empty || (c->c.data && (!c->k || (c->a.data && c->b.data)));
}

/* The stride of an axis of length 1 is never used: make it the one kernels like best. */
static void normalise(smm_operand *x, intptr_t rows, intptr_t cols, intptr_t size) {
    if (cols == 1) x->col = size;
    if (rows == 1) x->row = cols * size;
}

static smm_operand transposed(smm_operand x) { return (smm_operand){x.data, x.batch, x.col, x.row}; }

/* C^T = B^T A^T: the same sums in the same order, so the same bits. */
static void swap(smm_call *c) {
    const smm_operand a = c->a;
    const intptr_t m = c->m;
    c->a = transposed(c->b);
    c->b = transposed(a);
    c->c = transposed(c->c);
    c->m = c->n;
    c->n = m;
}

/* Whether C^T = B^T A^T suits the kernels better: they want rows of C, and of B, contiguous. A C of one row or
 * column is both ways, so the larger operand decides. */
static bool by_columns(const smm_call *c, intptr_t size) {
    if (c->n == 1) return c->a.row == size && c->a.col != size;
    if (c->m == 1) return c->b.row == size && c->b.col != size;
    return c->c.row == size && c->c.col != size;
}

static intptr_t greatest(intptr_t x, intptr_t y) { return x > y ? x : y; }

/* Size the tile: `group` whole matrices, or one matrix in blocks of rows x cols (k stays whole) when a
 * staged operand is larger than its buffer. False if not even a block of one cache line of columns fits. */
static bool tile(smm_plan *plan, intptr_t size) {
    const smm_call *c = &plan->call;
    plan->rows = c->m;
    plan->cols = c->n;
    plan->group = 1;
    intptr_t elements = 1;
    if (plan->staged & SMM_PACK_A) elements = greatest(elements, c->m * c->k);
    if (plan->staged & SMM_PACK_B) elements = greatest(elements, c->k * c->n);
    if (plan->staged & SMM_STAGE_C) elements = greatest(elements, c->m * c->n);
    if (elements * size <= SMM_BUFFER) {
        const intptr_t bytes = greatest(1, elements) * size;
        plan->group = least(SMM_BUFFER / bytes, (GROUP_BYTES + bytes - 1) / bytes);
        return true;
    }
    if (plan->staged & SMM_PACK_A) return false;
    if (plan->staged & SMM_PACK_B) plan->cols = least(c->n, SMM_BUFFER / (c->k * size));
    if (plan->staged & SMM_STAGE_C) plan->cols = least(plan->cols, 64);
    if (plan->cols < least(c->n, 64 / size)) return false;
    plan->rows = least(c->m, SMM_BUFFER / (plan->cols * size));
    return true;
}

static bool fits(const smm_kernel *kernel, const smm_call *c) {
    return kernel->op == c->op && (!kernel->m || kernel->m == c->m) && (!kernel->k || kernel->k == c->k) &&
           (!kernel->n || kernel->n == c->n);
}

/* Bytes that a stack touches: all of it, one matrix if it is broadcast, or less where matrices overlap. */
static double distinct_bytes(const smm_operand *x, intptr_t batch, intptr_t elements, intptr_t size) {
    const intptr_t matrix = elements * size, step = x->batch < 0 ? -x->batch : x->batch;
    return (double)least(step, matrix) * (double)greatest(batch - 1, 0) + (double)matrix;
}

smm_status smm_plan_call(const smm_call *call, smm_plan *plan) {
    if (!is_valid(call)) return SMM_ERR_ARGUMENT;
    memset(plan, 0, sizeof *plan);
    smm_status status = smm_kernels_of(call->dtype, &plan->kernels);
    if (status) return status;

    smm_call *c = &plan->call;
    *c = *call;
    const intptr_t size = smm_size(c->dtype);
    normalise(&c->a, c->m, c->k, size);
    normalise(&c->b, c->k, c->n, size);
    normalise(&c->c, c->m, c->n, size);
    if (by_columns(c, size)) {
        swap(c);
        plan->swapped = true;
    }

    const bool gram = c->a.data == c->b.data && c->a.batch == c->b.batch; /* as in A^T A: one stack, read twice */
    plan->bytes = distinct_bytes(&c->a, c->batch, c->m * c->k, size) +
                  (gram ? 0 : distinct_bytes(&c->b, c->batch, c->k * c->n, size)) +
                  distinct_bytes(&c->c, c->batch, c->m * c->n, size);
    plan->flops = 2.0 * (double)c->batch * (double)c->m * (double)c->n * (double)c->k;
    const bool scaled = c->alpha.data || c->beta.data;
    const bool packed_c = c->c.col == size && c->c.row == c->n * size && c->c.batch == c->m * c->n * size;
    plan->nontemporal = plan->bytes > STREAM_BYTES && packed_c && !c->beta.data && c->m * c->n * size <= SMM_BUFFER;

    /* The first kernel of the list that can be fed. The last of every list takes any operands as they are; where
     * there is nothing to sum or to write, no other needs to know how. */
    const bool empty = !c->batch || !c->m || !c->n || !c->k;
    for (size_t i = empty ? plan->kernels->count - 1 : 0; i < plan->kernels->count; i++) {
        plan->kernel = &plan->kernels->list[i];
        if (!fits(plan->kernel, c)) continue;
        plan->staged = plan->kernel->needs(c) | (scaled || plan->nontemporal ? SMM_STAGE_C : 0u);
        if (!(plan->staged & SMM_UNFIT) && tile(plan, size)) break;
    }
    plan->cold = plan->bytes > plan->kernel->cold;

    const double per_matrix = greatest(1, (c->m * c->k + c->k * c->n + c->m * c->n) * size);
    plan->chunk = greatest(16, (intptr_t)(CHUNK_BYTES / per_matrix) & -16);
    const double share = plan->bytes / THREAD_BYTES + plan->flops / THREAD_FLOPS;
    plan->threads = (int)greatest(1, least(smm_get_num_threads(), share < 1e6 ? (intptr_t)share : 1000000));
    return SMM_OK;
}
