/* parts.c: long tridiagonal systems without row exchanges, in parts, so that lanes and threads share one. H. H. Wang,
 * "A parallel method for tridiagonal equations", ACM Trans. Math. Software 7, 1981; E. Polizzi, A. Sameh, "A parallel
 * hybrid banded system solver: the SPIKE algorithm", Parallel Computing 32, 2006. It consists of calls that the host
 * and devices have, so results have the same bits on both.
 *
 * Rows 0, m, 2m, ... are separators, m = SMM_PART. Part p is the m - 1 rows behind separator p; there may be fewer
 * behind the last. With A_p and b_p of these rows alone, and s the unknowns of the separators,
 *
 *     x_p = y - v s_p - w s_(p+1),  A_p y = b_p,  A_p v = dl[pm] e_first,  A_p w = du[pm + m - 1] e_last.
 *
 * Put into the rows of the separators, that leaves a tridiagonal system for s. Its matrix is a Schur complement of A,
 * and dominated by its diagonal if A is. It is solved the same way, or in one piece if it is short. */
#include <stdlib.h>
#include <string.h>

#include "core.h"

enum { INNER = SMM_PART - 1, LEAST_REDUCED = 1024 };
enum { MOST_COLUMNS = 64 }; /* of products of complex matrices on a device */
enum { PLACE_OF_C = offsetof(smm_matmul_operands, c) / sizeof(smm_operand) };

bool smm_is_in_parts(const smm_call *call) {
    return call->op == SMM_OP_SOLVE_TRIDIAGONAL && call->form & SMM_UNPIVOTED && call->n >= SMM_LEAST_IN_PARTS &&
           !smm_is_stored(call->dtype);
}

/* Systems of one order. The stride `batch` of each operand leads from one to the next. `spikes` are v and w of all
 * parts, row by row; `reduced` has the diagonals of the separators' system in its columns. */
typedef struct systems {
    intptr_t count, n, k;
    smm_operand dl, d, du, b, x, info, spikes, reduced;
    intptr_t apart; /* a row is that far from the next in the systems that the call is about */
} systems;

/* What threads share. */
typedef struct work {
    const smm_parts_way *way;
    smm_dtype dtype;
    int status;
} work;

/* Matrices of a system: the first begins at that row and column, the others so many rows apart. */
typedef struct stack {
    smm_operand x;
    intptr_t step; /* bytes between them */
} stack;

typedef const stack operands[SMM_MOST_OPERANDS];

static stack from(const smm_operand *x, intptr_t row, intptr_t col, intptr_t apart) {
    stack s = {*x, apart * x->row};
    s.x.data = (char *)x->data + row * x->row + col * x->col;
    return s;
}

static stack column(stack s, intptr_t j) {
    s.x.data = (char *)s.x.data + j * s.x.col;
    return s;
}

static smm_operand every(const smm_operand *x, intptr_t rows) {
    return (smm_operand){x->data, x->batch, rows * x->row, x->col};
}

/* --- calls, after one of which has failed nothing is done --- */

static bool goes_on(const work *x) { return !__atomic_load_n(&x->status, __ATOMIC_RELAXED); }
static void end(work *x, int status) {
    if (status) __atomic_store_n(&x->status, status, __ATOMIC_RELAXED);
}

/* Do a call of `count` matrices in each system. */
static void run(work *x, const systems *s, smm_call call, intptr_t count, operands operand, const smm_pivots *pivots) {
    smm_outer outer = {.dims = 1, .extent = {s->count}};
    if (!goes_on(x) || !count) return;
    call.dtype = x->dtype;
    call.batch = count > 1 ? count : s->count;
    call.outer = count > 1 && s->count > 1 ? &outer : NULL;
    for (int i = 0; i < smm_operations[call.op].count; i++) {
        call.operand[i] = operand[i].x;
        outer.stride[0][i] = operand[i].x.batch;
        if (count > 1) call.operand[i].batch = operand[i].step;
    }
    end(x, x->way->run(x->way->context, &call, pivots));
}

/* C = C - A B, of m x k and k x n matrices. */
static void subtract(work *x, const systems *s, intptr_t count, const intptr_t sizes[3], stack c, stack a, stack b) {
    for (intptr_t j = 0; j < sizes[2]; j += MOST_COLUMNS) {
        const smm_call call = {
            .op = SMM_OP_MATMUL, .m = sizes[0], .k = sizes[1], .n = least(MOST_COLUMNS, sizes[2] - j)};
        run(x, s, call, count, (operands){a, column(b, j), [PLACE_OF_C] = column(c, j)}, NULL);
    }
}

/* Rows of k numbers, as a system of order 1 whose diagonal is 1 and not read. */
static void copy(work *x, const systems *s, intptr_t count, intptr_t k, stack to, stack b) {
    const smm_call call = {.op = SMM_OP_SOLVE_TRIANGULAR, .form = SMM_UNIT, .m = 1, .n = 1, .k = k};
    if (k && to.x.data != b.x.data) run(x, s, call, count, (operands){b, b, to}, NULL);
}

static void solve(work *x, const systems *s, intptr_t count, intptr_t n, intptr_t k, operands operand,
                  const smm_pivots *pivots) {
    const smm_call call = {.op = SMM_OP_SOLVE_TRIDIAGONAL, .form = SMM_UNPIVOTED, .m = n - 1, .n = n, .k = k};
    run(x, s, call, count, operand, pivots);
}

static intptr_t parts_of(intptr_t n) { return (n - 1) / SMM_PART; }

/* --- parts, from one on; `rows` of each. Behind the last separator there is no w --- */

static bool is_between(const systems *s, intptr_t part) { return part < parts_of(s->n); }

/* y into x, and the spikes. */
static void solve_parts(work *x, const systems *s, intptr_t part, intptr_t count, intptr_t rows) {
    const intptr_t m = SMM_PART, before = part * m, first = before + 1, spike = part * INNER;
    const smm_pivots pivots = {1 + before * s->apart, count > 1 ? m * s->apart : 0, s->apart};
    const stack dl = from(&s->dl, first, 0, m), d = from(&s->d, first, 0, m), du = from(&s->du, first, 0, m);
    const stack vw = from(&s->spikes, spike, 0, INNER);
    solve(x, s, count, rows, s->k,
          (operands){dl, d, du, from(&s->b, first, 0, m), from(&s->x, first, 0, m), {s->info, 0}}, &pivots);
    copy(x, s, count, 1, vw, from(&s->dl, before, 0, m));
    if (is_between(s, part))
        copy(x, s, count, 1, from(&s->spikes, spike + rows - 1, 1, INNER), from(&s->du, before + rows, 0, m));
    solve(x, s, count, rows, is_between(s, part) ? 2 : 1, (operands){dl, d, du, vw, vw}, NULL);
}

/* What they change in the rows of the separators. */
static void reduce(work *x, const systems *s, intptr_t part, intptr_t count, intptr_t rows) {
    const intptr_t m = SMM_PART, before = part * m, first = before + 1, last = before + rows, spike = part * INNER;
    const stack up = from(&s->du, before, 0, m), down = from(&s->dl, last, 0, m);
    const intptr_t row[] = {1, 1, s->k}, spikes[] = {1, 1, is_between(s, part) ? 2 : 1};
    subtract(x, s, count, spikes, from(&s->reduced, part, 1, 1), up, from(&s->spikes, spike, 0, INNER));
    subtract(x, s, count, row, from(&s->x, before, 0, m), up, from(&s->x, first, 0, m));
    if (!is_between(s, part)) return;
    subtract(x, s, count, spikes, from(&s->reduced, part + 1, 0, 1), down,
             from(&s->spikes, spike + rows - 1, 0, INNER));
    subtract(x, s, count, row, from(&s->x, last + 1, 0, m), down, from(&s->x, last, 0, m));
}

/* From the separators' unknowns those of parts between two. */
static void substitute(work *x, const systems *s, intptr_t part, intptr_t count, intptr_t rows) {
    const intptr_t m = SMM_PART, sizes[] = {rows, 2, s->k};
    const smm_operand at = every(&s->x, m);
    subtract(x, s, count, sizes, from(&s->x, part * m + 1, 0, m), from(&s->spikes, part * INNER, 0, INNER),
             from(&at, part, 0, 1));
}

/* And of those behind the last, row by row: any number of them is one kernel of a device. */
static void substitute_rest(work *x, const systems *s, intptr_t part, intptr_t rows) {
    const intptr_t m = SMM_PART, sizes[] = {1, 1, s->k};
    subtract(x, s, rows, sizes, from(&s->x, part * m + 1, 0, 1), from(&s->spikes, part * INNER, 0, 1),
             from(&s->x, part * m, 0, 0));
}

/* --- all parts between separators: at once, or shared by threads, which take blocks that stay in a cache --- */

typedef void phase(work *, const systems *, intptr_t part, intptr_t count, intptr_t rows);
enum { BLOCK = 64 };

typedef struct job {
    work *work;
    const systems *all;
    phase *phase;
} job;

static bool do_blocks(void *context, intptr_t first, intptr_t last) {
    const job *x = context;
    const intptr_t parts = parts_of(x->all->n), blocks = smm_pieces(parts, BLOCK);
    for (intptr_t i = first; i < last && goes_on(x->work); i++) {
        const intptr_t part = i % blocks * BLOCK;
        systems one = *x->all;
        smm_operand *const operand[] = {&one.dl, &one.d, &one.du, &one.b, &one.x, &one.info, &one.spikes, &one.reduced};
        for (size_t o = 0; o < sizeof operand / sizeof *operand; o++)
            operand[o]->data = (char *)operand[o]->data + i / blocks * operand[o]->batch;
        one.count = 1;
        x->phase(x->work, &one, part, least(BLOCK, parts - part), INNER);
    }
    return goes_on(x->work);
}

static void do_parts(work *x, const systems *s, phase *phase) {
    const intptr_t parts = parts_of(s->n);
    job all = {x, s, phase};
    if (!x->way->is_host) {
        phase(x, s, 0, parts, INNER);
        return;
    }
    const double flops = 4.0 * (double)(s->count * s->n) * (6 + 5 * ((double)s->k + 2)); /* weighted, as plan.c does */
    smm_parallel_for(s->count * smm_pieces(parts, BLOCK), 1, smm_threads_for(flops, 0, smm_get_num_threads()),
                     do_blocks, &all, NULL);
}

/* --- systems --- */

/* Bytes of the spikes and of the reduced matrix of a system. */
static intptr_t bytes_of_spikes(intptr_t n, intptr_t size) { return 2 * (n - parts_of(n) - 1) * size; }
static intptr_t bytes_of_level(intptr_t n, intptr_t size) {
    return bytes_of_spikes(n, size) + 3 * (parts_of(n) + 1) * size;
}

static void solve_in_parts(work *x, systems *s, char *room) {
    const intptr_t m = SMM_PART, size = smm_size(x->dtype), parts = parts_of(s->n), rest = s->n - 1 - parts * m;
    const intptr_t bytes = bytes_of_spikes(s->n, size), separators = parts + 1;
    s->spikes = (smm_operand){room, bytes, 2 * size, size};
    s->reduced = (smm_operand){room + s->count * bytes, 3 * separators * size, 3 * size, size};
    end(x, x->way->clear(x->way->context, room, s->count * bytes_of_level(s->n, size)));
    room += s->count * bytes_of_level(s->n, size);
    copy(x, s, separators, 1, from(&s->reduced, 0, 1, 1), from(&s->d, 0, 0, m));
    copy(x, s, separators, s->k, from(&s->x, 0, 0, m), from(&s->b, 0, 0, m));
    do_parts(x, s, solve_parts);
    reduce(x, s, 0, parts, INNER);
    if (rest) {
        solve_parts(x, s, parts, 1, rest);
        reduce(x, s, parts, 1, rest);
    }

    const smm_operand at = every(&s->x, m); /* the separators' */
    systems next = {.count = s->count, .n = separators, .k = s->k, .b = at, .x = at, .info = s->info};
    next.dl = from(&s->reduced, 1, 0, 0).x;
    next.d = from(&s->reduced, 0, 1, 0).x;
    next.du = from(&s->reduced, 0, 2, 0).x;
    next.apart = m * s->apart;
    operands whole = {{next.dl, 0}, {next.d, 0}, {next.du, 0}, {at, 0}, {at, 0}, {s->info, 0}};
    if (separators >= LEAST_REDUCED)
        solve_in_parts(x, &next, room);
    else
        solve(x, s, 1, separators, s->k, whole, &(const smm_pivots){1 - next.apart, 0, next.apart});
    do_parts(x, s, substitute);
    substitute_rest(x, s, parts, rest);
}

intptr_t smm_room_of_parts(const smm_call *call) {
    intptr_t bytes = 0;
    for (intptr_t n = call->n; n >= (bytes ? LEAST_REDUCED : 1); n = parts_of(n) + 1)
        bytes += bytes_of_level(n, smm_size(call->dtype));
    return bytes;
}

smm_call smm_some_of(const smm_call *call, intptr_t r, intptr_t q, intptr_t count) {
    smm_call some = smm_run_of(call, r);
    some.batch = least(count, call->batch - q);
    for (int i = 0; i < smm_operations[call->op].count; i++)
        if (some.operand[i].data) some.operand[i].data = (char *)some.operand[i].data + q * some.operand[i].batch;
    return some;
}

int smm_solve_in_parts(const smm_call *call, void *room, const smm_parts_way *way) {
    const smm_solve_tridiagonal_operands *o = &call->solve_tridiagonal;
    systems all = {.count = call->batch, .n = call->n, .k = call->k, .apart = 1};
    all.dl = o->dl, all.d = o->d, all.du = o->du, all.b = o->b, all.x = o->x, all.info = o->info;
    work x = {way, call->dtype, 0};
    solve_in_parts(&x, &all, room);
    return x.status;
}

/* The stack of parts is the first call of which pivots are asked for; nothing runs, and no address is used. */
static int take_parts(void *context, const smm_call *call, const smm_pivots *pivots) {
    smm_parts *const x = context;
    if (!pivots) return 0;
    x->call = *call;
    if (!call->outer) return 1;
    x->outer = *call->outer;
    x->call.outer = &x->outer;
    return 1;
}

static int clear_nothing(void *context, void *data, intptr_t bytes) { return (void)context, (void)data, bytes < 0; }

void smm_parts_of(const smm_call *call, smm_parts *parts) {
    smm_solve_in_parts(call, (void *)SMM_LINE, &(const smm_parts_way){parts, take_parts, clear_nothing, false});
}

/* --- on the host --- */

typedef struct host {
    smm_run_fn *run;
    smm_watch watch;
    double minus_one[2], one[2]; /* room for numbers of any type */
} host;

/* The least of those that are not 0. */
static void note(int32_t *info, int32_t row) {
    int32_t was = __atomic_load_n(info, __ATOMIC_RELAXED);
    while ((!was || row < was) &&
           !__atomic_compare_exchange_n(info, &was, row, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}

static int run_on_host(void *context, const smm_call *given, const smm_pivots *pivots) {
    host *const x = context;
    int32_t each[BLOCK];
    smm_call call = *given;
    if (pthread_equal(pthread_self(), x->watch.caller) && !smm_goes_on(&x->watch)) return x->watch.status;
    if (call.op == SMM_OP_MATMUL) {
        call.matmul.alpha.data = x->minus_one;
        call.matmul.beta.data = x->one;
    }
    if (pivots) call.solve_tridiagonal.info = (smm_operand){.data = each, .batch = sizeof *each};
    const smm_status status = x->run(&call);
    for (intptr_t q = 0; pivots && !status && q < call.batch; q++) {
        const smm_operand *const info = &given->solve_tridiagonal.info;
        const intptr_t row = pivots->first + q * pivots->part + each[q] * pivots->row;
        if (each[q]) note((int32_t *)((char *)info->data + q * info->batch), (int32_t)row);
    }
    return status;
}

static int clear_on_host(void *context, void *data, intptr_t bytes) {
    (void)context;
    memset(data, 0, (size_t)bytes);
    return SMM_OK;
}

smm_status smm_run_in_parts(const smm_call *call, smm_run_fn *run) {
    enum { MOST_BYTES = 2 << 20 }; /* of systems at once, which then stay in a cache */
    host x = {.run = run, .watch = {.caller = pthread_self()}};
    const smm_parts_way way = {&x, run_on_host, clear_on_host, true};
    const intptr_t bytes = smm_room_of_parts(call);
    const intptr_t at_once = least(call->batch, least(1 + MOST_BYTES / bytes, BLOCK));
    smm_status status = SMM_OK;
    smm_put(x.minus_one, call->dtype, -1);
    smm_put(x.one, call->dtype, 1);
    char *const room = malloc((size_t)(at_once * bytes));
    if (!room) return SMM_ERR_MEMORY;
    for (intptr_t r = 0; r < smm_runs(call) && !status; r++) {
        for (intptr_t q = 0; q < call->batch && !status; q += at_once) {
            int32_t infos[BLOCK] = {0};
            smm_call some = smm_some_of(call, r, q, at_once);
            const smm_operand info = some.solve_tridiagonal.info;
            some.solve_tridiagonal.info = (smm_operand){.data = infos, .batch = sizeof *infos};
            status = smm_solve_in_parts(&some, room, &way);
            for (intptr_t s = 0; s < some.batch && !status; s++) {
                if (info.data) *(int32_t *)((char *)info.data + s * info.batch) = infos[s];
                if (infos[s] && call->failed) *call->failed = true;
            }
        }
    }
    free(room);
    return status;
}
