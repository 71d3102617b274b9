/* run.c: a planned call, run: split over threads, then tile by tile through pack -> kernel -> unpack. */
#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core.h"

/* Where matrix q, row i, column j of x lies. */
static void *at(const smm_operand *x, intptr_t q, intptr_t i, intptr_t j) {
    return x->data ? (char *)x->data + q * x->batch + i * x->row + j * x->col : NULL;
}

/* The packed form of a rows x cols operand; a broadcast operand (batch stride 0) stays one matrix. */
static smm_operand packed(void *buffer, smm_operand x, intptr_t rows, intptr_t cols, intptr_t size) {
    return (smm_operand){buffer, x.batch ? rows * cols * size : 0, cols * size, size};
}

/* A thread's room: for one tile's packed operands, C having one line more for what streaming carries over, and for its
 * kernel. Too large for the stacks that some threads have, it is allocated when a thread first needs it, and freed when
 * the thread ends. */
typedef struct buffers {
    alignas(SMM_LINE) char a[SMM_BUFFER], b[SMM_BUFFER], c[SMM_C_BUFFER + SMM_LINE], kernel[SMM_KERNEL_ROOM];
    alignas(SMM_LINE) char program[SMM_PROGRAM_ROOM];
} buffers;

static pthread_key_t room_key;
static bool has_key;

__attribute__((constructor)) static void create_key(void) { has_key = !pthread_key_create(&room_key, free); }

/* The calling thread's room, or NULL if there is no memory for it. */
static buffers *room_of_thread(void) {
    buffers *room = has_key ? pthread_getspecific(room_key) : NULL;
    if (room || !has_key) return room;
    room = aligned_alloc(SMM_LINE, sizeof *room);
    if (!room || !pthread_setspecific(room_key, room)) return room;
    free(room);
    return NULL;
}

/* There is one, or no kernel would run. */
void *smm_kernel_room(void) { return ((buffers *)pthread_getspecific(room_key))->kernel; }

void *smm_program_room(void) {
    buffers *const room = room_of_thread();
    return room ? room->program : NULL;
}

/* One tile on its way: the part of the call it is, and that part as the kernel sees it, with packed operands. Both are
 * copied from the call once and then only pointed elsewhere: copying them for each tile would take as long as a few
 * small matrices. */
typedef struct tile {
    smm_call part, fed;
} tile;

/* Make it matrices q .. q+count-1 of the call. */
static void move_to(tile *t, const smm_call *call, intptr_t q, intptr_t count) {
    t->fed.batch = t->part.batch = count;
    for (int i = 0; i < smm_operations[call->op].count; i++)
        t->fed.operand[i].data = t->part.operand[i].data = at(&call->operand[i], q, 0, 0);
}

/* The same of a product, of which it is the block of C from (i, j) on; A and B packed where the kernel wants them so.
 */
static void move_to_block(tile *t, const smm_plan *plan, const smm_call *call, intptr_t q, intptr_t count, intptr_t i,
                          intptr_t j, buffers *room) {
    smm_matmul_operands *const part = &t->part.matmul, *const fed = &t->fed.matmul;
    const smm_matmul_operands *const whole = &call->matmul;
    const intptr_t size = smm_size(call->dtype);
    t->fed.batch = t->part.batch = count;
    t->fed.m = t->part.m = least(plan->rows, call->m - i);
    t->fed.n = t->part.n = least(plan->cols, call->n - j);
    fed->a.data = part->a.data = at(&whole->a, q, i, 0);
    fed->b.data = part->b.data = at(&whole->b, q, 0, j);
    fed->c.data = part->c.data = at(&whole->c, q, i, j);
    part->alpha.data = at(&whole->alpha, q, 0, 0);
    part->beta.data = at(&whole->beta, q, 0, 0);
    if (plan->staged & SMM_PACK_A) {
        fed->a = packed(room->a, part->a, t->part.m, t->part.k, size);
        plan->kernels->pack(room->a, &part->a, t->part.m, t->part.k, part->a.batch ? count : 1, plan->cold);
    }
    if (plan->staged & SMM_PACK_B) {
        fed->b = packed(room->b, part->b, t->part.k, t->part.n, size);
        plan->kernels->pack(room->b, &part->b, t->part.k, t->part.n, part->b.batch ? count : 1, plan->cold);
    }
}

/* Run the tile, C through a buffer where it is to be staged. */
static void run_tile(tile *t, const smm_plan *plan, buffers *room) {
    smm_call *fed = &t->fed;
    const intptr_t size = smm_size(fed->dtype);
    const bool staged = plan->staged & SMM_STAGE_C;
    if (staged) fed->matmul.c = (smm_operand){room->c, fed->m * fed->n * size, fed->n * size, size};
    plan->kernel->run(fed, 0, fed->batch, plan->cold ? &(smm_behind){0} : NULL);
    if (staged) plan->kernels->unpack(&t->part, room->c);
}

/* A buffer that mirrors the cache lines of packed C on its way around the caches. */
typedef struct mirror {
    char *buffer;  /* SMM_C_BUFFER bytes and a line; a line of C per line */
    char *to;      /* where the buffer's first line belongs */
    intptr_t skip; /* leading bytes of the first line of all, which are not ours to write */
    intptr_t done; /* bytes of whole lines already streamed */
    intptr_t held; /* bytes filled */
} mirror;

/* The whole lines that are not streamed yet, which now count as done. */
static smm_behind take_lines(mirror *x) {
    const intptr_t end = x->held & -SMM_LINE;
    if (x->skip && end > x->done) {
        memcpy(x->to + x->skip, x->buffer + x->skip, SMM_LINE - x->skip);
        x->done = SMM_LINE;
        x->skip = 0;
    }
    const smm_behind behind = {
        .from = x->buffer + x->done, .to = x->to + x->done, .lines = end > x->done ? (end - x->done) / SMM_LINE : 0};
    x->done += behind.lines * SMM_LINE;
    return behind;
}

static void stream(smm_behind *x, const smm_kernels *kernels) {
    kernels->stream(x->to, x->from, x->lines * SMM_LINE);
    x->lines = 0;
}

/* The RESULT, packed, streamed. The lines of one group are streamed while the next group is computed, or after that: by
 * then they have left the store queue, and their way to memory overlaps the next group's reads. */
static void run_streamed(const smm_plan *plan, const smm_call *call, intptr_t first, intptr_t last, buffers *room) {
    const int which = smm_roles_of[call->op].result;
    const smm_operand *const result = &call->operand[which];
    char *c = at(result, first, 0, 0);
    const intptr_t skip = (intptr_t)((uintptr_t)c % SMM_LINE);
    mirror x = {room->c, c - skip, skip, 0, skip};
    const intptr_t most = plan->group * result->batch > SMM_BUFFER ? SMM_C_BUFFER : SMM_BUFFER; /* in L1 if possible */
    tile t = {*call, *call};
    for (intptr_t q = first; q < last; q += plan->group) {
        const intptr_t count = least(plan->group, last - q), bytes = count * result->batch;
        smm_behind behind = take_lines(&x);
        if (x.held + bytes > most + SMM_LINE) { /* start again at the front, with the begun line */
            const intptr_t whole = x.held & -SMM_LINE;
            if (behind.from < x.buffer + SMM_LINE + bytes) stream(&behind, plan->kernels);
            memcpy(x.buffer, x.buffer + whole, x.held - whole);
            x = (mirror){x.buffer, x.to + whole, x.skip, 0, x.held - whole};
        }
        if (call->op == SMM_OP_MATMUL)
            move_to_block(&t, plan, call, q, count, 0, 0, room);
        else
            move_to(&t, call, q, count);
        t.fed.operand[which].data = x.buffer + x.held;
        plan->kernel->run(&t.fed, 0, count, &behind);
        if (plan->scaled) plan->kernels->scale(&t.part, t.fed.operand[which].data);
        stream(&behind, plan->kernels);
        x.held += bytes;
    }
    smm_behind behind = take_lines(&x);
    stream(&behind, plan->kernels);
    const intptr_t from = x.skip ? x.skip : x.done;
    memcpy(x.to + from, x.buffer + from, x.held - from);
}

/* What the threads of a call share. */
typedef struct job {
    const smm_plan *plan;
    smm_watch *watch;
} job;

void smm_end(smm_watch *x, smm_status why) { __atomic_store_n(&x->status, why, __ATOMIC_RELAXED); }

enum { ASK_NS = 50000000 };
static bool (*_Atomic to_ask)(void);

void smm_set_interrupt(bool (*interrupted)(void)) { atomic_store(&to_ask, interrupted); }

/* Ask, this thread's room put aside: who is asked may have a call of its own run. */
static bool is_interrupted(bool (*interrupted)(void)) {
    buffers *const room = pthread_getspecific(room_key);
    pthread_setspecific(room_key, NULL);
    const bool answer = interrupted();
    free(pthread_getspecific(room_key));
    pthread_setspecific(room_key, room);
    return answer;
}

bool smm_goes_on(smm_watch *x) {
    bool (*const interrupted)(void) = atomic_load_explicit(&to_ask, memory_order_relaxed);
    if (interrupted && pthread_equal(pthread_self(), x->caller)) {
        const int64_t now = smm_now_ns();
        if (!x->asked) x->asked = now;
        if (now - x->asked > ASK_NS) {
            if (is_interrupted(interrupted)) smm_end(x, SMM_ERR_STOPPED);
            x->asked = now;
        }
    }
    return __atomic_load_n(&x->status, __ATOMIC_RELAXED) == SMM_OK;
}

smm_call smm_chunks_of(const smm_call *call, intptr_t q) {
    smm_call chunks = *call;
    chunks.batch = (call->k - 1) / SMM_CHUNK + 1;
    chunks.k = SMM_CHUNK;
    const smm_matmul_operands *x = &call->matmul;
    chunks.matmul = (smm_matmul_operands){
        .a = {at(&x->a, q, 0, 0), SMM_CHUNK * x->a.col, x->a.row, x->a.col},
        .b = {at(&x->b, q, 0, 0), SMM_CHUNK * x->b.row, x->b.row, x->b.col},
        .alpha = {.data = at(&x->alpha, q, 0, 0)},
        .beta = {.data = at(&x->beta, q, 0, 0)},
        .c = {at(&x->c, q, 0, 0), 0, x->c.row, x->c.col},
    };
    return chunks;
}

/* The block of C from (i, j) on of a deep product of k terms, by the order of reference/matmul.c: a stack of partial
 * sums, of each size at most one and the smaller ones above, takes up one chunk after the other, and equal ones are
 * added. */
static void run_deep_block(tile *t, job *shared, const smm_call *chunks, intptr_t k, intptr_t i, intptr_t j,
                           buffers *room) {
    const smm_plan *plan = shared->plan;
    const intptr_t size = smm_size(chunks->dtype), whole = k / SMM_CHUNK;
    const intptr_t m = least(plan->rows, chunks->m - i), n = least(plan->cols, chunks->n - j), bytes = m * n * size;
    const bool cold = plan->cold && !j;
    const intptr_t each = 1 + 10000000 / (SMM_CHUNK * m * n); /* chunks, a few milliseconds' work */
    intptr_t look = 0;                                        /* at which chunk, whether to go on */
    char *end = room->c;                                      /* of the stack */
    t->part.k = t->fed.k = SMM_CHUNK;
    for (intptr_t done = 0, count; done < chunks->batch; done += count) {
        count = done < whole ? least(plan->group, whole - done) : 1;
        if (done >= look) {
            if (done && !smm_goes_on(shared->watch)) return;
            look = done + each;
        }
        if (done == whole) t->part.k = t->fed.k = k - whole * SMM_CHUNK;
        move_to_block(t, plan, chunks, done, count, i, j, room);
        t->fed.matmul.c = (smm_operand){end, bytes, n * size, size};
        smm_behind behind = {0};
        if (cold) /* as much of the next matrix of a dense stack as this is of its own */
            behind.next_a = at(&chunks->a, done * m, chunks->m + i, 0);
        plan->kernel->run(&t->fed, 0, count, cold ? &behind : NULL);
        char *sum = end;
        for (intptr_t l = 0; l < count; l++, sum = (char *)t->fed.matmul.c.data + l * bytes) {
            for (intptr_t equals = done + l; equals & 1; equals /= 2, sum = end)
                plan->kernels->add(end -= bytes, sum, m * n);
            if (sum != end) memcpy(end, sum, bytes);
            end += bytes;
        }
    }
    for (; end - bytes > room->c; end -= bytes) plan->kernels->add(end - 2 * bytes, end - bytes, m * n);
    t->part.batch = 1;
    plan->kernels->unpack(&t->part, room->c);
}

static void run_deep(job *shared, const smm_call *call, intptr_t first, intptr_t last, buffers *room) {
    const smm_plan *plan = shared->plan;
    smm_call chunks = smm_chunks_of(call, first);
    tile t = {chunks, chunks};
    for (intptr_t q = first; q < last; q++) {
        for (int i = 0; i < smm_operations[call->op].count; i++)
            chunks.operand[i].data = at(&call->operand[i], q, 0, 0);
        for (intptr_t i = 0; i < call->m; i += plan->rows)
            for (intptr_t j = 0; j < call->n; j += plan->cols) {
                if (i + j && !smm_goes_on(shared->watch)) return;
                run_deep_block(&t, shared, &chunks, call->k, i, j, room);
            }
    }
}

/* Matrices first .. last-1 of a call of one run. */
static void run_matrices(job *shared, const smm_call *call, intptr_t first, intptr_t last, buffers *room) {
    const smm_plan *plan = shared->plan;
    if (plan->empty) { /* no elements, so nothing to hurry for; but there is info, or a determinant, to say so */
        tile t = {*call, *call};
        move_to(&t, call, first, last - first);
        smm_reference(&t.fed);
        return;
    }
    if (plan->deep) {
        run_deep(shared, call, first, last, room);
        return;
    }
    if (!plan->staged && plan->rows == call->m && plan->cols == call->n) {
        plan->kernel->run(call, first, last, plan->cold ? &(smm_behind){0} : NULL);
        return;
    }
    if (plan->nontemporal) {
        run_streamed(plan, call, first, last, room);
        return;
    }
    tile t = {*call, *call};
    for (intptr_t q = first; q < last; q += plan->group)
        for (intptr_t i = 0; i < call->m; i += plan->rows)
            for (intptr_t j = 0; j < call->n; j += plan->cols) {
                if (i + j && !smm_goes_on(shared->watch)) return;
                move_to_block(&t, plan, call, q, least(plan->group, last - q), i, j, room);
                run_tile(&t, plan, room);
            }
}

/* Whether any of `count` numbers, so many bytes apart, is not 0. */
static inline bool any_nonzero(const char *x, intptr_t step, intptr_t count) {
    int32_t any = 0;
    for (intptr_t q = 0; q < count; q++) any |= *(const int32_t *)(x + q * step);
    return any;
}

static bool has_info(const smm_call *call) { return smm_roles_of[call->op].info >= 0 && smm_info(call)->data; }

static bool any_failed(const smm_call *call, intptr_t first, intptr_t last) {
    const char *info = at(smm_info(call), first, 0, 0);
    const intptr_t step = smm_info(call)->batch, item = sizeof(int32_t);
    /* The constant step is for the compiler, which then looks at vectors. */
    return step == item ? any_nonzero(info, item, last - first) : any_nonzero(info, step, last - first);
}

/* Look for failures among matrices first .. last-1 of a call of one run, while their info is in this thread's cache. */
static void look_for_failures(const smm_call *call, intptr_t first, intptr_t last) {
    const bool doubts = call->op == SMM_OP_INV;
    if (!(call->failed || doubts) || !has_info(call) || !any_failed(call, first, last)) return;
    if (doubts) smm_settle(call, first, last);
    if (call->failed && (!doubts || any_failed(call, first, last)))
        __atomic_store_n(call->failed, true, __ATOMIC_RELAXED);
}

static bool run_range(void *context, intptr_t first, intptr_t last) {
    job *const shared = context;
    const smm_plan *plan = shared->plan;
    const intptr_t batch = plan->call.batch;
    buffers *const room = room_of_thread();
    if (!room) {
        smm_end(shared->watch, SMM_ERR_MEMORY);
        return false;
    }
    intptr_t look = first ? first : plan->piece; /* here, whether to go on */
    for (intptr_t q = first, count; q < last; q += count) {
        if (q >= look) {
            if (!smm_goes_on(shared->watch)) return false;
            look = q + plan->piece;
        }
        const intptr_t r = plan->runs > 1 ? q / batch : 0, from = q - r * batch;
        smm_call run;
        if (plan->runs > 1) run = smm_run_of(&plan->call, r);
        const smm_call *call = plan->runs > 1 ? &run : &plan->call;
        count = least(least(plan->piece, last - q), batch - from);
        run_matrices(shared, call, from, from + count, room);
        look_for_failures(call, from, from + count);
    }
    return true;
}

/* Inverses of which nobody wants info, which they cannot do without: some at a time. */
static smm_status run_with_info(const smm_call *call) {
    int32_t info[1024];
    smm_status status = SMM_OK;
    for (intptr_t r = 0; r < smm_runs(call); r++)
        for (intptr_t q = 0; q < call->batch && !status; q += 1024) {
            smm_call part = smm_run_of(call, r);
            part.batch = least(1024, call->batch - q);
            part.inv.a.data = at(&part.inv.a, q, 0, 0);
            part.inv.inverse.data = at(&part.inv.inverse, q, 0, 0);
            part.inv.info = (smm_operand){info, sizeof *info, 0, 0};
            status = smm_run(&part);
        }
    return status;
}

smm_status smm_run(const smm_call *call) {
    smm_plan plan;
    const smm_status status = smm_plan_call(call, &plan);
    if (status || plan.nothing) return status;
    if (call->op == SMM_OP_INV && !call->inv.info.data) return run_with_info(call);
    smm_watch watch = {.caller = pthread_self()};
    job shared = {&plan, &watch};
    smm_parallel_for(plan.runs * plan.call.batch, plan.chunk, plan.threads, run_range, &shared);
    return watch.status;
}

void smm_run_here(const smm_plan *plan, const smm_call *call, smm_watch *watch) {
    buffers *const room = room_of_thread();
    job own = {plan, watch};
    for (intptr_t r = 0; r < plan->runs; r++) {
        smm_call run;
        if (plan->runs > 1) run = smm_run_of(call, r);
        const smm_call *part = plan->runs > 1 ? &run : call;
        run_matrices(&own, part, 0, part->batch, room);
        look_for_failures(part, 0, part->batch);
    }
}

smm_status smm_explain(const smm_call *call, smm_plan_info *info) {
    smm_plan plan;
    const smm_status status = smm_plan_call(call, &plan);
    if (status && status != SMM_ERR_ORDER) return status;
    *info = (smm_plan_info){
        .kernel = plan.kernel ? plan.kernel->name : NULL,
        .isa = smm_isa(),
        .swapped = plan.swapped,
        .pack_a = plan.staged & SMM_PACK_A,
        .pack_b = plan.staged & SMM_PACK_B,
        .stage_c = plan.staged & SMM_STAGE_C,
        .nontemporal = plan.nontemporal,
        .threads = plan.threads,
        .group = plan.group,
        .flops = plan.flops,
        .bytes = plan.bytes,
    };
    return status;
}

const char *smm_status_text(smm_status status) {
    switch (status) {
    case SMM_OK: return "success";
    case SMM_ERR_ARGUMENT:
        return "an operand is null, a size is negative or does not fit, or a stride splits an element";
    case SMM_ERR_ORDER: return "a matrix is too large: factorizations take m x n with min(m, n) <= 32 and m n <= 1024";
    case SMM_ERR_ISA: return "SMALLMM_ISA names an instruction set that is unknown or not available here";
    case SMM_ERR_KERNEL: return "SMALLMM_KERNEL names a kernel that this build does not have";
    case SMM_ERR_THREADS: return "SMALLMM_NUM_THREADS is not an integer of at least 1";
    case SMM_ERR_MEMORY: return "no memory for the buffers of a thread";
    case SMM_ERR_STOPPED: return "the call was interrupted";
    }
    return "unknown status";
}
