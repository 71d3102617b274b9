/* run.c: a planned call, run: split over threads, then tile by tile through pack -> kernel -> unpack. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "workspace.h"
#include "run.h"

/* The packed form of a rows x cols operand; a broadcast operand (batch stride 0) stays one matrix. */
static smm_operand packed(void *buffer, smm_operand x, intptr_t rows, intptr_t cols, intptr_t size) {
    return (smm_operand){buffer, x.batch ? rows * cols * size : 0, cols * size, size};
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
        t->fed.operand[i].data = t->part.operand[i].data = smm_at(&call->operand[i], q, 0, 0);
}

/* The same of a product, of which it is the block of C from (i, j) on; A and B packed where the kernel wants them so.
 */
static void move_to_block(tile *t, const smm_plan *plan, const smm_call *call, intptr_t q, intptr_t count, intptr_t i,
                          intptr_t j, smm_workspace *workspace) {
    smm_matmul_operands *const part = &t->part.matmul, *const fed = &t->fed.matmul;
    const smm_matmul_operands *const whole = &call->matmul;
    const intptr_t size = smm_size(call->dtype);
    t->fed.batch = t->part.batch = count;
    t->fed.m = t->part.m = min_of(plan->rows, call->m - i);
    t->fed.n = t->part.n = min_of(plan->cols, call->n - j);
    fed->a.data = part->a.data = smm_at(&whole->a, q, i, 0);
    fed->b.data = part->b.data = smm_at(&whole->b, q, 0, j);
    fed->c.data = part->c.data = smm_at(&whole->c, q, i, j);
    part->alpha.data = smm_at(&whole->alpha, q, 0, 0);
    part->beta.data = smm_at(&whole->beta, q, 0, 0);
    if (plan->staged & SMM_PACK_A) {
        fed->a = packed(workspace->a, part->a, t->part.m, t->part.k, size);
        plan->kernels->pack(workspace->a, &part->a, t->part.m, t->part.k, part->a.batch ? count : 1, plan->cold);
    }
    if (plan->staged & SMM_PACK_B) {
        fed->b = packed(workspace->b, part->b, t->part.k, t->part.n, size);
        plan->kernels->pack(workspace->b, &part->b, t->part.k, t->part.n, part->b.batch ? count : 1, plan->cold);
    }
}

/* Run the tile, C through a buffer where it is to be staged. */
static void run_tile(tile *t, const smm_plan *plan, smm_workspace *workspace) {
    smm_call *fed = &t->fed;
    const intptr_t size = smm_size(fed->dtype);
    const bool staged = plan->staged & SMM_STAGE_C;
    if (staged) fed->matmul.c = (smm_operand){workspace->c, fed->m * fed->n * size, fed->n * size, size};
    plan->kernel->run(fed, 0, fed->batch, plan->cold ? &(smm_prefetch){0} : NULL);
    if (staged) plan->kernels->unpack(&t->part, workspace->c);
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
static smm_prefetch take_lines(mirror *x) {
    const intptr_t end = x->held & -SMM_LINE;
    if (x->skip && end > x->done) {
        memcpy(x->to + x->skip, x->buffer + x->skip, SMM_LINE - x->skip);
        x->done = SMM_LINE;
        x->skip = 0;
    }
    const smm_prefetch behind = {
        .from = x->buffer + x->done, .to = x->to + x->done, .lines = end > x->done ? (end - x->done) / SMM_LINE : 0};
    x->done += behind.lines * SMM_LINE;
    return behind;
}

static void stream(smm_prefetch *x, const smm_kernels *kernels) {
    kernels->stream(x->to, x->from, x->lines * SMM_LINE);
    x->lines = 0;
}

/* The RESULT, packed, streamed. The lines of one group are streamed while the next group is computed, or after that: by
 * then they have left the store queue, and their way to memory overlaps the next group's reads. */
static void run_streamed(const smm_plan *plan, const smm_call *call, intptr_t first, intptr_t last,
                         smm_workspace *workspace) {
    const int which = smm_roles_of[call->op].result;
    const smm_operand *const result = &call->operand[which];
    char *c = smm_at(result, first, 0, 0);
    const intptr_t skip = (intptr_t)((uintptr_t)c % SMM_LINE);
    mirror x = {workspace->c, c - skip, skip, 0, skip};
    const intptr_t most = plan->group * result->batch > SMM_BUFFER ? SMM_C_BUFFER : SMM_BUFFER; /* in L1 if possible */
    tile t = {*call, *call};
    for (intptr_t q = first; q < last; q += plan->group) {
        const intptr_t count = min_of(plan->group, last - q), bytes = count * result->batch;
        smm_prefetch behind = take_lines(&x);
        if (x.held + bytes > most + SMM_LINE) { /* start again at the front, with the begun line */
            const intptr_t whole = x.held & -SMM_LINE;
            if (behind.from < x.buffer + SMM_LINE + bytes) stream(&behind, plan->kernels);
            memcpy(x.buffer, x.buffer + whole, x.held - whole);
            x = (mirror){x.buffer, x.to + whole, x.skip, 0, x.held - whole};
        }
        if (call->op == SMM_OP_MATMUL)
            move_to_block(&t, plan, call, q, count, 0, 0, workspace);
        else
            move_to(&t, call, q, count);
        t.fed.operand[which].data = x.buffer + x.held;
        plan->kernel->run(&t.fed, 0, count, &behind);
        if (plan->scaled) plan->kernels->scale(&t.part, t.fed.operand[which].data);
        stream(&behind, plan->kernels);
        x.held += bytes;
    }
    smm_prefetch behind = take_lines(&x);
    stream(&behind, plan->kernels);
    const intptr_t from = x.skip ? x.skip : x.done;
    memcpy(x.to + from, x.buffer + from, x.held - from);
}

char *smm_tree_push(const smm_kernels *kernels, char *end, char *chunk, intptr_t number, intptr_t elements,
                    intptr_t bytes) {
    for (; number & 1; number /= 2, chunk = end) kernels->add(end -= bytes, chunk, elements);
    if (chunk != end) memcpy(end, chunk, bytes);
    return end + bytes;
}

void smm_tree_sum(const smm_kernels *kernels, char *sums, char *end, intptr_t elements, intptr_t bytes) {
    for (; end - bytes > sums; end -= bytes) kernels->add(end - 2 * bytes, end - bytes, elements);
}

/* Which chunks of a deep product of k terms are added up. */
typedef struct span {
    intptr_t k, first, last;
} span;

/* The sum of some chunks, for the block of C from (i, j) on, at the front of the thread's workspace for sums. By the
 * order of reference/matmul.c: a stack of partial sums, of each size at most one and the smaller ones above, takes up
 * one chunk after the other, and equal ones are added. False: the call does not go on. */
static bool sum_chunks(tile *t, smm_job *shared, const smm_call *chunks, span x, intptr_t i, intptr_t j,
                       smm_workspace *workspace) {
    const smm_plan *plan = shared->plan;
    const intptr_t size = smm_size(chunks->dtype), whole = x.k / SMM_CHUNK;
    const intptr_t m = min_of(plan->rows, chunks->m - i), n = min_of(plan->cols, chunks->n - j), bytes = m * n * size;
    const bool cold = plan->cold && !j;
    const intptr_t each = 1 + 10000000 / (SMM_CHUNK * m * n); /* chunks, a few milliseconds' work */
    intptr_t look = x.first + each;                           /* at which chunk, whether to go on */
    char *end = workspace->sums;                              /* of the stack */
    t->part.k = t->fed.k = SMM_CHUNK;
    for (intptr_t done = x.first, count; done < x.last; done += count) {
        count = done < whole ? min_of(plan->group, min_of(whole, x.last) - done) : 1;
        if (done >= look) {
            if (!smm_should_continue(shared->watch)) return false;
            look = done + each;
        }
        if (done == whole) t->part.k = t->fed.k = x.k - whole * SMM_CHUNK;
        move_to_block(t, plan, chunks, done, count, i, j, workspace);
        t->fed.matmul.c = (smm_operand){end, bytes, n * size, size};
        smm_prefetch behind = {0};
        if (cold) /* as much of the next matrix of a dense stack as this is of its own */
            behind.next_a = smm_at(&chunks->a, done * m, chunks->m + i, 0);
        plan->kernel->run(&t->fed, 0, count, cold ? &behind : NULL);
        char *sum = end;
        for (intptr_t l = 0; l < count; l++, sum += bytes)
            end = smm_tree_push(plan->kernels, end, sum, done - x.first + l, m * n, bytes);
    }
    smm_tree_sum(plan->kernels, workspace->sums, end, m * n, bytes);
    t->part.batch = 1;
    return true;
}

static void run_deep(smm_job *shared, const smm_call *call, intptr_t first, intptr_t last, smm_workspace *workspace) {
    const smm_plan *plan = shared->plan;
    smm_call chunks = smm_chunks_of(call, first);
    tile t = {chunks, chunks};
    for (intptr_t q = first; q < last; q++) {
        for (int i = 0; i < smm_operations[call->op].count; i++)
            chunks.operand[i].data = smm_at(&call->operand[i], q, 0, 0);
        for (intptr_t i = 0; i < call->m; i += plan->rows)
            for (intptr_t j = 0; j < call->n; j += plan->cols) {
                if (i + j && !smm_should_continue(shared->watch)) return;
                if (!sum_chunks(&t, shared, &chunks, (span){call->k, 0, chunks.batch}, i, j, workspace)) return;
                plan->kernels->unpack(&t.part, workspace->sums);
            }
    }
}

/* Matrices first .. last-1 of a call of one run. */
static void run_matrices(smm_job *shared, const smm_call *call, intptr_t first, intptr_t last,
                         smm_workspace *workspace) {
    const smm_plan *plan = shared->plan;
    if (plan->empty) { /* no elements, so nothing to hurry for; but there is info, or a determinant, to say so */
        tile t = {*call, *call};
        move_to(&t, call, first, last - first);
        smm_reference(&t.fed);
        return;
    }
    if (plan->deep) {
        run_deep(shared, call, first, last, workspace);
        return;
    }
    if (!plan->staged && plan->rows == call->m && plan->cols == call->n) {
        plan->kernel->run(call, first, last, plan->cold ? &(smm_prefetch){0} : NULL);
        return;
    }
    if (plan->nontemporal) {
        run_streamed(plan, call, first, last, workspace);
        return;
    }
    tile t = {*call, *call};
    for (intptr_t q = first; q < last; q += plan->group)
        for (intptr_t i = 0; i < call->m; i += plan->rows)
            for (intptr_t j = 0; j < call->n; j += plan->cols) {
                if (i + j && !smm_should_continue(shared->watch)) return;
                move_to_block(&t, plan, call, q, min_of(plan->group, last - q), i, j, workspace);
                run_tile(&t, plan, workspace);
            }
}

/* Look for failures among matrices first .. last-1 of a call of one run, while their info is in this thread's cache. */
static void check_info(const smm_call *call, intptr_t first, intptr_t last) {
    const bool inverts = call->op == SMM_OP_INV;
    if (!(call->failed || inverts) || !smm_any_failed(call, first, last)) return;
    if (inverts) smm_confirm_singular(call, first, last, smm_run);
    if (call->failed && (!inverts || smm_any_failed(call, first, last)))
        __atomic_store_n(call->failed, true, __ATOMIC_RELAXED);
}

/* --- Types that are only stored ---------------------------------------------------------------------- */

/* `count` matrices of x from number q on, in the order in which they lie in a tile: dimensions that step evenly into
 * each other are one. */
static smm_grid grid_of(const smm_operand *x, intptr_t q, intptr_t rows, intptr_t cols, intptr_t count) {
    const bool column_major = smm_is_column_major(x, rows, cols);
    const intptr_t extent[3] = {column_major ? rows : cols, column_major ? cols : rows, x->batch ? count : 1};
    const intptr_t step[3] = {column_major ? x->row : x->col, column_major ? x->col : x->row, x->batch};
    smm_grid grid = {smm_at(x, q, 0, 0), {1, 1, 1}, {0}};
    int last = -1;
    for (int d = 0; d < 3; d++) {
        if (extent[d] == 1) continue;
        if (last >= 0 && step[d] == grid.step[last] * grid.extent[last]) {
            grid.extent[last] *= extent[d];
        } else {
            grid.extent[++last] = extent[d];
            grid.step[last] = step[d];
        }
    }
    return grid;
}

/* What of the next tile lies in one piece is fetched while this one is computed. */
static void prefetch_matrices(const smm_call *call, int i, intptr_t q, intptr_t count) {
    intptr_t rows, cols;
    smm_sizes_of(call->op, i, call->m, call->n, call->k, &rows, &cols);
    const intptr_t size = smm_size_of(call->op, call->dtype, i);
    const smm_grid grid = grid_of(&call->operand[i], q, rows, cols, count);
    if (grid.extent[1] != 1 || grid.step[0] != size) return;
    for (intptr_t j = 0; j < grid.extent[0] * size; j += SMM_LINE) __builtin_prefetch((const char *)grid.data + j);
}

/* Operand i of matrices q .. q+count-1, converted to where it lies in the buffer, or back. */
static void convert(const smm_job *shared, const smm_call *call, int i, intptr_t q, intptr_t count, char *buffer,
                    bool back) {
    char *const dense = buffer + (shared->tiles->address[i] - (char *)SMM_LINE);
    const int stored = call->dtype - SMM_COMPUTED_TYPES;
    const smm_kernels *kernels = shared->plan->kernels;
    intptr_t rows, cols;
    smm_sizes_of(call->op, i, call->m, call->n, call->k, &rows, &cols);
    const smm_grid grid = grid_of(&call->operand[i], q, rows, cols, count);
    if (back)
        kernels->stored[stored].narrow(&grid, dense, shared->whole->nontemporal);
    else
        kernels->stored[stored].widen(dense, &grid);
}

/* Matrices first .. last-1 of a call of one run, a tile at a time: inputs are converted, and of a product with beta C,
 * too; the tile is run as any other call, and its outputs are rounded. What all matrices share is converted once. */
static void run_tiles(smm_job *shared, const smm_call *call, intptr_t first, intptr_t last, char *buffer,
                      smm_workspace *workspace) {
    const smm_operation *operation = &smm_operations[call->op];
    const smm_tiles *tiles = shared->tiles;
    const bool updates = call->op == SMM_OP_MATMUL && call->matmul.beta.data;
    smm_call tile = tiles->plan.call;
    tile.failed = call->failed;
    for (int i = 0; i < operation->count; i++)
        if (tiles->address[i]) tile.operand[i].data = buffer + ((char *)tile.operand[i].data - (char *)SMM_LINE);
    for (intptr_t q = first; q < last; q += tiles->batch) {
        const intptr_t count = tile.batch = min_of(tiles->batch, last - q);
        for (int i = 0; i < operation->count; i++) {
            const smm_operand *x = &call->operand[i];
            const bool is_read = operation->operand[i].direction & SMM_READ || (updates && x == &call->matmul.c);
            if (!smm_is_converted(call->op, call->dtype, i))
                tile.operand[i].data = smm_at(x, q, 0, 0);
            else if (is_read && tiles->address[i] && (x->batch || q == first))
                convert(shared, call, i, q, count, buffer, false);
        }
        const intptr_t next = min_of(tiles->batch, last - q - count);
        for (int i = 0; i < operation->count && next > 0 && shared->whole->cold; i++)
            if (operation->operand[i].direction == SMM_IN && call->operand[i].batch)
                prefetch_matrices(call, i, q + count, next);
        run_matrices(shared, &tile, 0, count, workspace);
        check_info(&tile, 0, count);
        for (int i = 0; i < operation->count; i++)
            if (operation->operand[i].direction & SMM_WRITTEN && tiles->address[i])
                convert(shared, call, i, q, count, buffer, true);
    }
}

/* The same in a buffer that is large enough. False: there is no memory for it. */
static bool run_stored(smm_job *shared, const smm_call *call, intptr_t first, intptr_t last, smm_workspace *workspace) {
    const intptr_t bytes = shared->tiles->bytes;
    char *const own = bytes > SMM_CONVERTED ? aligned_alloc(SMM_LINE, bytes) : NULL;
    if (bytes > SMM_CONVERTED && !own) return false;
    run_tiles(shared, call, first, last, own ? own : workspace->converted, workspace);
    free(own);
    return true;
}

/* --- Few matrices, each in parts --------------------------------------------------------------------- */

/* Where the sums of one span of a matrix's chunks lie, a matrix like C, but dense. */
static char *sums_of(const smm_job *x, intptr_t matrix, intptr_t span) {
    const smm_call *c = &x->plan->call;
    const intptr_t blocks = smm_pieces(c->m, x->plan->rows) * smm_pieces(c->n, x->plan->cols);
    return x->sums + (matrix * (x->plan->parts / blocks) + span) * c->m * c->n * smm_size(c->dtype);
}

static void put_aside(const smm_job *shared, const smm_workspace *workspace, intptr_t matrix, intptr_t span, intptr_t i,
                      intptr_t j) {
    const smm_plan *plan = shared->plan;
    const smm_call *c = &plan->call;
    const intptr_t size = smm_size(c->dtype);
    const intptr_t m = min_of(plan->rows, c->m - i), n = min_of(plan->cols, c->n - j);
    char *to = sums_of(shared, matrix, span) + (i * c->n + j) * size;
    for (intptr_t l = 0; l < m; l++) memcpy(to + l * c->n * size, workspace->sums + l * n * size, n * size);
}

static bool run_part(smm_job *shared, const smm_call *call, intptr_t matrix, intptr_t part, smm_workspace *workspace) {
    const smm_plan *plan = shared->plan;
    const intptr_t by_cols = smm_pieces(call->n, plan->cols), blocks = smm_pieces(call->m, plan->rows) * by_cols;
    const intptr_t block = part % blocks, i = block / by_cols * plan->rows, j = block % by_cols * plan->cols;
    if (!plan->deep) {
        tile t = {*call, *call};
        move_to_block(&t, plan, call, 0, 1, i, j, workspace);
        run_tile(&t, plan, workspace);
        return true;
    }
    const smm_call chunks = smm_chunks_of(call, 0);
    const intptr_t first = part / blocks * plan->span, last = min_of(chunks.batch, first + plan->span);
    tile t = {chunks, chunks};
    if (!sum_chunks(&t, shared, &chunks, (span){call->k, first, last}, i, j, workspace)) return false;
    if (shared->sums)
        put_aside(shared, workspace, matrix, part / blocks, i, j);
    else
        plan->kernels->unpack(&t.part, workspace->sums);
    return true;
}

/* This thread's workspace, while it works for a job. NULL: there is no memory for it. */
static smm_workspace *workspace_of_job(const smm_job *shared) {
    smm_workspace *const workspace = smm_workspace_of_thread(smm_workspace_size(shared->plan));
    if (workspace)
        workspace->watch = shared->watch;
    else
        smm_stop(shared->watch, SMM_ERR_MEMORY);
    return workspace;
}

bool smm_run_parts(void *context, intptr_t first, intptr_t last) {
    smm_job *const shared = context;
    const smm_plan *plan = shared->plan;
    smm_workspace *const workspace = workspace_of_job(shared);
    if (!workspace) return false;
    for (intptr_t x = first; x < last; x++) {
        const smm_call one = smm_matrix_of(&plan->call, x / plan->parts);
        if (!smm_should_continue(shared->watch) || !run_part(shared, &one, x / plan->parts, x % plan->parts, workspace))
            return false;
    }
    return true;
}

/* In how many spans the chunks of each matrix are added up. */
static intptr_t spans_of(const smm_plan *plan) {
    return plan->deep ? smm_pieces(smm_pieces(plan->call.k, SMM_CHUNK), plan->span) : 1;
}

smm_status smm_make_workspace_for_sums(smm_job *x) {
    const smm_call *c = &x->plan->call;
    const intptr_t spans = spans_of(x->plan);
    if (spans > 1) x->sums = malloc(x->plan->runs * c->batch * spans * c->m * c->n * smm_size(c->dtype));
    return spans > 1 && !x->sums ? SMM_ERR_MEMORY : SMM_OK;
}

/* Add the sums of all spans, level by level neighbours, as the chunks within them were. */
void smm_add_spans(const smm_job *shared) {
    const smm_plan *plan = shared->plan;
    const intptr_t matrices = plan->runs * plan->call.batch, spans = spans_of(plan);
    for (intptr_t q = 0; q < matrices; q++) {
        for (intptr_t step = 1; step < spans; step *= 2)
            for (intptr_t s = 0; s + step < spans; s += 2 * step)
                plan->kernels->add(sums_of(shared, q, s), sums_of(shared, q, s + step), plan->call.m * plan->call.n);
        const smm_call one = smm_matrix_of(&plan->call, q);
        plan->kernels->unpack(&one, sums_of(shared, q, 0));
    }
}

static smm_status run_in_parts(smm_job *shared) {
    const smm_plan *plan = shared->plan;
    const smm_status status = smm_make_workspace_for_sums(shared);
    if (status) return status;
    smm_parallel_for(plan->runs * plan->call.batch * plan->parts, plan->chunk, plan->threads, smm_run_parts, shared,
                     NULL);
    if (shared->sums && shared->watch->status == SMM_OK) smm_add_spans(shared);
    free(shared->sums);
    return shared->watch->status;
}

/* --- Any call ---------------------------------------------------------------------------------------- */

/* Matrices whose info lies on the stack where nobody wants it. */
enum { UNASKED = 1024 };

/* Matrices q .. q+count-1 of a call of one run. False: there is no memory for it. */
static bool run_piece(smm_job *shared, const smm_call *call, intptr_t q, intptr_t count, smm_workspace *workspace) {
    if (shared->tiles) return run_stored(shared, call, q, q + count, workspace);
    run_matrices(shared, call, q, q + count, workspace);
    check_info(call, q, q + count);
    if (shared->not_finite && !smm_are_finite(call, q, q + count))
        __atomic_store_n(shared->not_finite, true, __ATOMIC_RELAXED);
    return true;
}

static bool run_unasked(smm_job *shared, const smm_call *call, intptr_t q, intptr_t count, smm_workspace *workspace) {
    int32_t info[UNASKED];
    smm_call part = *call;
    for (int i = 0; i < smm_operations[call->op].count; i++) part.operand[i].data = smm_at(&call->operand[i], q, 0, 0);
    part.operand[smm_roles_of[call->op].info].data = info;
    return run_piece(shared, &part, 0, count, workspace);
}

bool smm_run_range(void *context, intptr_t first, intptr_t last) {
    smm_job *const shared = context;
    const smm_plan *plan = shared->whole;
    const intptr_t batch = plan->call.batch;
    smm_workspace *const workspace = workspace_of_job(shared);
    if (!workspace) return false;
    intptr_t look = first ? first : plan->piece; /* here, whether to go on */
    for (intptr_t q = first, count; q < last; q += count) {
        if (q >= look) {
            if (!smm_should_continue(shared->watch)) return false;
            look = q + plan->piece;
        }
        const intptr_t r = plan->runs > 1 ? q / batch : 0, from = q - r * batch;
        smm_call run;
        if (plan->runs > 1) run = smm_run_of(&plan->call, r);
        const smm_call *call = plan->runs > 1 ? &run : &plan->call;
        count = min_of(min_of(plan->piece, last - q), batch - from);
        if (shared->scratch_info) count = min_of(count, UNASKED);
        if (!(shared->scratch_info ? run_unasked : run_piece)(shared, call, from, count, workspace)) {
            smm_stop(shared->watch, SMM_ERR_MEMORY);
            return false;
        }
    }
    return true;
}

/* Where matrix x of a plan's largest operand lies. */
const void *smm_address_of(const void *context, intptr_t x) {
    const smm_plan *plan = context;
    const smm_call run = smm_run_of(&plan->call, x / plan->call.batch);
    return smm_at(&run.operand[plan->largest], x % plan->call.batch, 0, 0);
}

smm_home smm_home_of(const smm_plan *plan) { return (smm_home){plan->largest < 0 ? NULL : smm_address_of, plan}; }

/* Whether a call that lacks info needs it: INV does, and who asks whether some matrix failed. Kernels of the factors of
 * LU say so themselves, and of systems in parts nothing does. */
static bool lacks_info(const smm_call *call) {
    const int info = call && call->op < SMM_OPS ? smm_roles_of[call->op].info : -1;
    if (info < 0 || call->operand[info].data || smm_is_in_parts(call)) return false;
    switch (call->op) {
    case SMM_OP_INV: return true;
    case SMM_OP_LU_SOLVE:
    case SMM_OP_LU_RCOND:
    case SMM_OP_REFINE: return false;
    default: return call->failed;
    }
}

/* Plan a call; its tiles are planned later. */
smm_status smm_plan_job(const smm_call *call, smm_job *x, smm_plan *plan, smm_cancel_token *watch) {
    *x = (smm_job){.whole = plan, .plan = plan, .watch = watch, .scratch_info = lacks_info(call)};
    const smm_status status = smm_plan_call(call, plan);
    if (status || plan->nothing || !x->scratch_info)
        return status; /* with info there would always be something to do */
    smm_call with_info = *call;
    with_info.operand[smm_roles_of[call->op].info] =
        (smm_operand){(void *)SMM_LINE, sizeof(int32_t), 0, 0}; /* no kernel sees this address */
    return smm_plan_call(&with_info, plan);
}

smm_status smm_plan_tiles_of(smm_job *x, smm_tiles *tiles) {
    x->plan = &tiles->plan;
    x->tiles = tiles;
    return smm_plan_tiles(x->whole, tiles);
}

smm_status smm_run(const smm_call *call) { return smm_run_and_tell(call, NULL); }

smm_status smm_run_and_tell(const smm_call *call, bool *not_finite) {
    smm_plan plan;
    smm_tiles tiles;
    smm_cancel_token watch = {.caller = pthread_self()};
    smm_job shared;
    smm_status status = smm_plan_job(call, &shared, &plan, &watch);
    if (status || plan.nothing) return status;
    shared.not_finite = not_finite;
    if (smm_is_in_parts(call)) return smm_run_in_parts(&plan.call, &plan.kernels->parts);
    if (smm_is_stored(call->dtype)) status = smm_plan_tiles_of(&shared, &tiles);
    if (status) return status;
    if (plan.parts > 1) return run_in_parts(&shared);
    const smm_home home = smm_home_of(&plan);
    smm_parallel_for(plan.runs * plan.call.batch, plan.chunk, plan.threads, smm_run_range, &shared, &home);
    return watch.status;
}

void smm_run_serial(const smm_plan *plan, const smm_call *call, smm_cancel_token *watch) {
    smm_job own = {.whole = plan, .plan = plan, .watch = watch};
    smm_workspace *const workspace = workspace_of_job(&own);
    for (intptr_t r = 0; r < plan->runs && workspace; r++) {
        if (r && !smm_should_continue(watch)) return;
        smm_call run;
        if (plan->runs > 1) run = smm_run_of(call, r);
        const smm_call *part = plan->runs > 1 ? &run : call;
        run_matrices(&own, part, 0, part->batch, workspace);
        check_info(part, 0, part->batch);
    }
}

void smm_run_nested(const smm_call *call) {
    smm_plan plan;
    if (smm_plan_call(call, &plan) == SMM_OK && !plan.nothing)
        smm_run_serial(&plan, &plan.call, smm_workspace_of_thread(0)->watch);
}
