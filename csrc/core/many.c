/* many.c: many calls as one job: prefix sums of their work say which matrices of which calls a thread's range of the
 * job stands for. */
#include <pthread.h>
#include <stdlib.h>

#include "run.h"

/* Work is counted in units of about 10 ns, of which starting a call takes some, and a thread claims so many at least.
 * After so many it looks whether the job goes on. */
enum { UNITS_OF_A_THREAD = 1000, UNITS_TO_START = 10, UNITS_OF_A_CLAIM = 64, UNITS_OF_A_PIECE = 100000 };

/* A call of many, which is divided in blocks: parts of its matrices, or as many matrices as are claimed at least. */
typedef struct share {
    smm_job job;
    smm_plan plan;
    intptr_t blocks;
} share;

typedef struct many {
    size_t count;    /* calls that have something to do; */
    share *share;    /* each, */
    intptr_t *start; /* and its first unit of work; that of call `count` is the end */
    smm_tiles *tiles;
    smm_cancel_token watch;
    bool is_large; /* so that it is worth asking where operands lie */
} many;

/* Blocks of a call whose work begins before unit x of the job. Any rule does that is the same for all threads and never
 * decreases. */
static intptr_t blocks_before(const many *x, size_t i, intptr_t unit) {
    if (unit >= x->start[i + 1]) return x->share[i].blocks;
    const double portion = (double)(unit - x->start[i]) / (double)(x->start[i + 1] - x->start[i]);
    return portion <= 0 ? 0 : min_of(x->share[i].blocks, (intptr_t)(portion * (double)x->share[i].blocks));
}

/* The call to which a unit of work belongs. */
static size_t share_at(const many *x, intptr_t unit) {
    size_t low = 0, high = x->count;
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        *(x->start[middle] <= unit ? &low : &high) = middle;
    }
    return low;
}

static bool run_blocks(share *x, intptr_t first, intptr_t last) {
    if (x->plan.parts > 1) return smm_run_parts(&x->job, first, last);
    const intptr_t matrices = x->plan.runs * x->plan.call.batch;
    return smm_run_range(&x->job, first * x->plan.chunk, min_of(matrices, last * x->plan.chunk));
}

static bool run_units(void *context, intptr_t first, intptr_t last) {
    many *const x = context;
    intptr_t look = first ? first : UNITS_OF_A_PIECE;
    for (size_t i = share_at(x, first); i < x->count && x->start[i] < last; i++) {
        if (x->start[i] >= look) {
            if (!smm_should_continue(&x->watch)) return false;
            look = x->start[i] + UNITS_OF_A_PIECE;
        }
        const intptr_t from = blocks_before(x, i, first), to = blocks_before(x, i, last);
        if (from < to && !run_blocks(&x->share[i], from, to)) return false;
    }
    return true;
}

/* Where the matrix lies whose work is unit x. */
static const void *address_of_unit(const void *context, intptr_t unit) {
    const many *x = context;
    const size_t i = share_at(x, unit);
    const smm_plan *plan = &x->share[i].plan;
    const intptr_t each = plan->parts > 1 ? plan->parts : 1, chunk = plan->parts > 1 ? 1 : plan->chunk;
    const intptr_t matrix = blocks_before(x, i, unit) / each * chunk;
    if (plan->largest >= 0) return smm_address_of(plan, min_of(matrix, plan->runs * plan->call.batch - 1));
    return plan->call.a.data;
}

static void release(many *x) {
    for (size_t i = 0; i < x->count; i++) free(x->share[i].job.sums);
    free(x->share);
    free(x->start);
    free(x->tiles);
}

/* Plan call number `which` as the next of a job. */
static smm_status add_call(many *x, const smm_call *call, size_t which, size_t count) {
    share *const next = &x->share[x->count];
    smm_status status = smm_plan_job(call, &next->job, &next->plan, &x->watch);
    if (status || next->plan.nothing) return status;
    if (smm_is_stored(call->dtype)) {
        if (!x->tiles) x->tiles = malloc(count * sizeof *x->tiles);
        status = x->tiles ? smm_plan_tiles_of(&next->job, &x->tiles[which]) : SMM_ERR_MEMORY;
    }
    if (status) return status;
    const intptr_t matrices = next->plan.runs * next->plan.call.batch;
    next->blocks = next->plan.parts > 1 ? matrices * next->plan.parts : smm_pieces(matrices, next->plan.chunk);
    x->is_large |= next->plan.largest >= 0;
    const double units = smm_work_of(&next->plan) * UNITS_OF_A_THREAD;
    x->start[x->count + 1] = x->start[x->count] + UNITS_TO_START + (intptr_t)(units < 1e12 ? units : 1e12);
    x->count++;
    return SMM_OK;
}

/* Plan all calls, but those that are several themselves. *first: the first status of one that is refused. */
static smm_status add_calls(many *x, const smm_call *calls, size_t count, smm_status *each, smm_status *first) {
    x->share = count < SIZE_MAX / sizeof *x->share ? malloc(count * sizeof *x->share) : NULL;
    x->start = x->share ? malloc((count + 1) * sizeof *x->start) : NULL;
    if (!x->start) return SMM_ERR_MEMORY;
    x->start[0] = 0;
    for (size_t i = 0; i < count; i++) {
        const smm_status status = smm_is_in_parts(&calls[i]) ? SMM_OK : add_call(x, &calls[i], i, count);
        if (status == SMM_ERR_MEMORY) return status;
        if (each) each[i] = status;
        if (!*first) *first = status;
    }
    return SMM_OK;
}

static int threads_of(const many *x, int threads) {
    return (int)min_of(threads, 1 + x->start[x->count] / UNITS_OF_A_THREAD);
}

static smm_home home_of_many(const many *x) { return (smm_home){x->is_large ? address_of_unit : NULL, x}; }

smm_status smm_run_many(const smm_call *calls, size_t count, smm_status *each) {
    if (!count) return SMM_OK;
    if (!calls) return SMM_ERR_ARGUMENT;
    const int threads = smm_get_num_threads();
    if (!threads) return SMM_ERR_THREADS;
    many x = {.watch = {.caller = pthread_self()}};
    smm_status first = SMM_OK, status = add_calls(&x, calls, count, each, &first);
    for (size_t i = 0; i < x.count && !status; i++)
        if (x.share[i].plan.parts > 1) status = smm_make_workspace_for_sums(&x.share[i].job);
    if (!status && x.count) {
        const smm_home home = home_of_many(&x);
        smm_parallel_for(x.start[x.count], UNITS_OF_A_CLAIM, threads_of(&x, threads), run_units, &x, &home);
        status = x.watch.status;
    }
    for (size_t i = 0; i < x.count && !status; i++)
        if (x.share[i].job.sums) smm_add_spans(&x.share[i].job);
    release(&x);
    for (size_t i = 0; i < count && !status; i++) {
        if (!smm_is_in_parts(&calls[i])) continue;
        const smm_status its = smm_run(&calls[i]);
        if (its == SMM_ERR_MEMORY || its == SMM_ERR_STOPPED) status = its;
        if (each) each[i] = its;
        if (!first) first = its;
    }
    return status ? status : first;
}

smm_status smm_explain_many(const smm_call *calls, size_t count, smm_plan_info *info) {
    *info = (smm_plan_info){.isa = smm_isa(), .threads = 1, .parts = 1};
    if (!count) return SMM_OK;
    if (!calls) return SMM_ERR_ARGUMENT;
    many x = {0};
    smm_status first = SMM_OK, status = add_calls(&x, calls, count, NULL, &first);
    for (size_t i = 0; i < count && !status; i++)
        if (smm_explain(&calls[i], info) == SMM_OK) break;
    info->flops = info->bytes = 0;
    for (size_t i = 0; i < x.count && !status; i++) {
        info->flops += x.share[i].plan.flops;
        info->bytes += x.share[i].plan.bytes;
    }
    for (size_t i = 0; i < count && !status; i++) {
        smm_plan_info own;
        if (!smm_is_in_parts(&calls[i]) || smm_explain(&calls[i], &own)) continue;
        info->flops += own.flops;
        info->bytes += own.bytes;
    }
    info->nodes = 0;
    if (!status && x.count) {
        const smm_home home = home_of_many(&x);
        info->threads = threads_of(&x, smm_get_num_threads());
        if (info->threads > 1) smm_explain_shares(x.start[x.count], &home, info);
    }
    release(&x);
    return status ? status : first;
}
