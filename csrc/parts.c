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
    intptr_t n, k;
    smm_operand dl, d, du, b, x, spikes, reduced;
    intptr_t apart; /* a row is that far from the next in the systems that the call is about */
} systems;

typedef struct work {
    const smm_parts_way *way;
    smm_dtype dtype;
    intptr_t systems;
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

/* Do a call of `count` matrices in each system. */
static void run(work *x, smm_call call, intptr_t count, operands operand, const smm_pivots *pivots) {
    smm_outer outer = {.dims = 1, .extent = {x->systems}};
    if (x->status || !count) return;
    call.dtype = x->dtype;
    call.batch = count > 1 ? count : x->systems;
    call.outer = count > 1 && x->systems > 1 ? &outer : NULL;
    for (int i = 0; i < smm_operations[call.op].count; i++) {
        call.operand[i] = operand[i].x;
        outer.stride[0][i] = operand[i].x.batch;
        if (count > 1) call.operand[i].batch = operand[i].step;
    }
    x->status = x->way->run(x->way->context, &call, pivots);
}

/* C = C - A B, of m x k and k x n matrices. */
static void subtract(work *x, intptr_t count, intptr_t m, intptr_t k, intptr_t n, stack c, stack a, stack b) {
    for (intptr_t j = 0; j < n; j += MOST_COLUMNS) {
        const smm_call call = {.op = SMM_OP_MATMUL, .m = m, .k = k, .n = least(MOST_COLUMNS, n - j)};
        run(x, call, count, (operands){a, column(b, j), [PLACE_OF_C] = column(c, j)}, NULL);
    }
}

/* Rows of k numbers, as a system of order 1 whose diagonal is 1 and not read. */
static void copy(work *x, intptr_t count, intptr_t k, stack to, stack b) {
    const smm_call call = {.op = SMM_OP_SOLVE_TRIANGULAR, .form = SMM_UNIT, .m = 1, .n = 1, .k = k};
    if (to.x.data != b.x.data) run(x, call, count, (operands){b, b, to}, NULL);
}

static void solve(work *x, intptr_t count, intptr_t n, intptr_t k, operands operand, const smm_pivots *pivots) {
    const smm_call call = {.op = SMM_OP_SOLVE_TRIDIAGONAL, .form = SMM_UNPIVOTED, .m = n - 1, .n = n, .k = k};
    run(x, call, count, operand, pivots);
}

/* `count` parts of so many rows, from one on: y into x, the spikes, and what they change in the separators' system.
 * Behind the last separator there is no w. */
static void eliminate(work *x, const systems *s, intptr_t part, intptr_t count, intptr_t rows) {
    const intptr_t m = SMM_PART, before = part * m, first = before + 1, last = before + rows, spike = part * INNER;
    const bool between = last + 1 < s->n;
    const intptr_t spikes = between ? 2 : 1;
    const smm_pivots pivots = {1 + before * s->apart, count > 1 ? m * s->apart : 0, s->apart};
    const stack dl = from(&s->dl, first, 0, m), d = from(&s->d, first, 0, m), du = from(&s->du, first, 0, m);
    const stack top = from(&s->dl, before, 0, m), bottom = from(&s->du, last, 0, m); /* what couples it to separators */
    const stack vw = from(&s->spikes, spike, 0, INNER), end = from(&s->spikes, spike + rows - 1, 0, INNER);
    solve(x, count, rows, s->k, (operands){dl, d, du, from(&s->b, first, 0, m), from(&s->x, first, 0, m)}, &pivots);
    copy(x, count, 1, vw, top);
    if (between) copy(x, count, 1, from(&s->spikes, spike + rows - 1, 1, INNER), bottom);
    solve(x, count, rows, spikes, (operands){dl, d, du, vw, vw}, NULL);

    const stack up = from(&s->du, before, 0, m), down = from(&s->dl, last, 0, m); /* what couples separators to it */
    subtract(x, count, 1, 1, spikes, from(&s->reduced, part, 1, 1), up, vw);
    subtract(x, count, 1, 1, s->k, from(&s->x, before, 0, m), up, from(&s->x, first, 0, m));
    if (!between) return;
    subtract(x, count, 1, 1, 2, from(&s->reduced, part + 1, 0, 1), down, end);
    subtract(x, count, 1, 1, s->k, from(&s->x, last + 1, 0, m), down, from(&s->x, last, 0, m));
}

static intptr_t parts_of(intptr_t n) { return (n - 1) / SMM_PART; }

/* Bytes of the spikes and of the reduced matrix of a system. */
static intptr_t bytes_of_spikes(intptr_t n, intptr_t size) { return 2 * (n - parts_of(n) - 1) * size; }
static intptr_t bytes_of_level(intptr_t n, intptr_t size) {
    return bytes_of_spikes(n, size) + 3 * (parts_of(n) + 1) * size;
}

static void solve_in_parts(work *x, systems *s, char *room) {
    const intptr_t m = SMM_PART, size = smm_size(x->dtype), parts = parts_of(s->n), rest = s->n - 1 - parts * m;
    const intptr_t bytes = bytes_of_spikes(s->n, size), separators = parts + 1;
    s->spikes = (smm_operand){room, bytes, 2 * size, size};
    s->reduced = (smm_operand){room + x->systems * bytes, 3 * separators * size, 3 * size, size};
    room += x->systems * bytes_of_level(s->n, size);
    if (!x->status) x->status = x->way->clear(x->way->context, s->spikes.data, room - (char *)s->spikes.data);
    copy(x, separators, 1, from(&s->reduced, 0, 1, 1), from(&s->d, 0, 0, m));
    copy(x, separators, s->k, from(&s->x, 0, 0, m), from(&s->b, 0, 0, m));
    eliminate(x, s, 0, parts, INNER);
    if (rest) eliminate(x, s, parts, 1, rest);

    const smm_operand at = every(&s->x, m); /* the separators' */
    systems next = {.n = separators, .k = s->k, .b = at, .x = at, .apart = m * s->apart};
    next.dl = from(&s->reduced, 1, 0, 0).x;
    next.d = from(&s->reduced, 0, 1, 0).x;
    next.du = from(&s->reduced, 0, 2, 0).x;
    operands whole = {{next.dl, 0}, {next.d, 0}, {next.du, 0}, {at, 0}, {at, 0}};
    if (separators >= LEAST_REDUCED)
        solve_in_parts(x, &next, room);
    else
        solve(x, 1, separators, s->k, whole, &(const smm_pivots){1 - next.apart, 0, next.apart});

    const stack spikes = from(&s->spikes, 0, 0, INNER);
    subtract(x, parts, INNER, 2, s->k, from(&s->x, 1, 0, m), spikes, (stack){at, m * s->x.row});
    subtract(x, rest, 1, 1, s->k, from(&s->x, s->n - rest, 0, 1), from(&s->spikes, parts * INNER, 0, 1),
             from(&s->x, parts * m, 0, 0)); /* row by row: any number of them is one kernel of a device */
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
    systems all = {.n = call->n, .k = call->k, .dl = o->dl, .d = o->d, .du = o->du, .b = o->b, .x = o->x, .apart = 1};
    work x = {way, call->dtype, call->batch, 0};
    solve_in_parts(&x, &all, room);
    return x.status;
}

/* The stack of parts is the first call of which pivots are asked for. */
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
    smm_solve_in_parts(call, NULL, &(const smm_parts_way){parts, take_parts, clear_nothing});
}

/* --- on the host --- */

typedef struct host {
    smm_run_fn *run;
    smm_watch watch;
    double minus_one[2], one[2]; /* room for numbers of any type */
    int32_t *info, *each;        /* of the systems; and of the matrices of a call */
} host;

static int run_on_host(void *context, const smm_call *given, const smm_pivots *pivots) {
    host *const x = context;
    smm_call call = *given;
    smm_outer outer = {0};
    if (!smm_goes_on(&x->watch)) return x->watch.status;
    if (call.op == SMM_OP_MATMUL) {
        call.matmul.alpha.data = x->minus_one;
        call.matmul.beta.data = x->one;
    }
    if (pivots) {
        call.solve_tridiagonal.info = (smm_operand){.data = x->each, .batch = sizeof *x->each};
        if (call.outer) {
            outer = *call.outer;
            outer.stride[0][smm_roles_of[call.op].info] = call.batch * (intptr_t)sizeof *x->each;
            call.outer = &outer;
        }
    }
    const smm_status status = x->run(&call);
    for (intptr_t q = 0; pivots && q < call.batch * smm_runs(&call); q++) {
        int32_t *const info = &x->info[pivots->part ? q / call.batch : q];
        const intptr_t row = pivots->first + q % call.batch * pivots->part + x->each[q] * pivots->row;
        if (x->each[q] && (!*info || row < *info)) *info = (int32_t)row;
    }
    return status;
}

static int clear_on_host(void *context, void *data, intptr_t bytes) {
    (void)context;
    memset(data, 0, (size_t)bytes);
    return SMM_OK;
}

smm_status smm_run_in_parts(const smm_call *call, smm_run_fn *run) {
    enum { MOST_BYTES = 4 << 20 }; /* of systems at once, which then stay in a cache */
    host x = {.run = run, .watch = {.caller = pthread_self()}};
    const smm_parts_way way = {&x, run_on_host, clear_on_host};
    const intptr_t bytes = smm_room_of_parts(call);
    const intptr_t at_once = least(call->batch, 1 + MOST_BYTES / bytes);
    const smm_operand *const info = &call->solve_tridiagonal.info;
    smm_status status = SMM_OK;
    smm_put(x.minus_one, call->dtype, -1);
    smm_put(x.one, call->dtype, 1);
    char *const room = malloc((size_t)(at_once * bytes));
    x.info = malloc((size_t)at_once * (size_t)(1 + parts_of(call->n)) * sizeof *x.info);
    x.each = x.info + at_once;
    if (!room || !x.info) status = SMM_ERR_MEMORY;
    for (intptr_t r = 0; r < smm_runs(call) && !status; r++) {
        for (intptr_t q = 0; q < call->batch && !status; q += at_once) {
            const smm_call some = smm_some_of(call, r, q, at_once);
            memset(x.info, 0, (size_t)some.batch * sizeof *x.info);
            status = smm_solve_in_parts(&some, room, &way);
            for (intptr_t s = 0; s < some.batch && !status; s++) {
                if (info->data) *(int32_t *)((char *)some.solve_tridiagonal.info.data + s * info->batch) = x.info[s];
                if (x.info[s] && call->failed) *call->failed = true;
            }
        }
    }
    free(room);
    free(x.info);
    return status;
}
