/* parts.c: long tridiagonal systems without row exchanges, in parts, so that lanes and threads share one. H. H. Wang,
 * "A parallel method for tridiagonal equations", ACM Trans. Math. Software 7, 1981. Here are the levels and what
 * threads do; reference/levels.c has the order of operations, kernels/banded/parts_lanes.h the kernels,
 * cuda/banded/banded_parts.cuh those of a GPU.
 *
 * Rows 0, m, 2m, ... are separators, m = SMM_PART. A part is a separator and the m - 1 rows behind it; rows that the
 * last part lacks are those of the identity, and so are those of a part before the first. Elimination goes down the
 * rows before a separator and up those behind it. What is left in its row is one of a tridiagonal system of the
 * separators. Its matrix is a Schur complement of A, and dominated by its diagonal if A is. It is solved the same way,
 * until all rows fit a part without its separator. Then substitution goes back: between two separators that are known,
 * the rows of a part are a system by itself. It is eliminated once more, because noting all of that takes more memory.
 */
#include <stdlib.h>

#include "core.h"

bool smm_is_in_parts(const smm_call *call) {
    return call->op == SMM_OP_SOLVE_TRIDIAGONAL && call->form & SMM_UNPIVOTED && call->n >= SMM_MIN_IN_PARTS &&
           !smm_is_stored(call->dtype);
}

int smm_levels_of(intptr_t n, intptr_t orders[SMM_MAX_LEVELS]) {
    int count = 0;
    for (orders[count++] = n; n >= SMM_PART; orders[count++] = n) n = smm_pieces(n, SMM_PART);
    return count;
}

/* --- one system --- */

/* Those of a system, and behind them one without rows. */
typedef struct levels {
    smm_level level[SMM_MAX_LEVELS + 1];
    int count;
} levels;

/* How it is solved, by up to so many threads. */
typedef struct way {
    const smm_parts_kernels *kernels;
    smm_cancel_token *watch;
    int threads;
} way;

static smm_operand line_at(char **workspace, intptr_t n, intptr_t cols, intptr_t size) {
    const smm_operand line = {*workspace, 0, size, n * size};
    *workspace += n * cols * size;
    return line;
}

static intptr_t workspace_of(const smm_call *call) {
    intptr_t orders[SMM_MAX_LEVELS], bytes = 0;
    for (int i = smm_levels_of(call->n, orders) - 1; i > 0; i--)
        bytes += orders[i] * (3 + call->k) * smm_size(call->dtype);
    return bytes;
}

static levels levels_of(const smm_call *one, char *workspace) {
    const intptr_t size = smm_size(one->dtype);
    const smm_solve_tridiagonal_operands *o = &one->solve_tridiagonal;
    levels s = {.level[0] = {one->dtype, one->n, one->k, 1, o->dl, o->d, o->du, o->b, o->x}};
    s.level[0].dl.data = (char *)o->dl.data - o->dl.row;
    intptr_t orders[SMM_MAX_LEVELS];
    s.count = smm_levels_of(one->n, orders);
    for (int i = 1; i < s.count; i++) {
        smm_level *const x = &s.level[i];
        *x = (smm_level){.dtype = one->dtype, .n = orders[i], .k = one->k, .apart = SMM_PART * s.level[i - 1].apart};
        x->dl = line_at(&workspace, x->n, 1, size);
        x->d = line_at(&workspace, x->n, 1, size);
        x->du = line_at(&workspace, x->n, 1, size);
        x->x = x->b = line_at(&workspace, x->n, x->k, size);
    }
    return s;
}

enum { BLOCK = 256 }; /* parts */

typedef struct job {
    const way *way;
    smm_level_fn *work;
    const smm_level *level;
    int32_t row; /* the least of those found */
} job;

static bool do_blocks(void *context, intptr_t first, intptr_t last) {
    job *const x = context;
    const intptr_t parts = smm_pieces(x->level->n, SMM_PART);
    for (intptr_t i = first; i < last && smm_should_continue(x->way->watch); i++) {
        const int32_t row = x->work(x->level, x->level + 1, i * BLOCK, min_of(parts, (i + 1) * BLOCK));
        int32_t was = __atomic_load_n(&x->row, __ATOMIC_RELAXED);
        while (row < was && !__atomic_compare_exchange_n(&x->row, &was, row, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    }
    return smm_should_continue(x->way->watch);
}

/* Returns the least row whose pivot is zero. */
static int32_t do_level(const way *way, smm_level_fn *work, const smm_level *level) {
    job x = {way, work, level, SMM_NO_ROW};
    const double flops = 4.0 * (double)level->n * (double)(6 + 5 * level->k); /* weighted, as plan.c does */
    smm_parallel_for(smm_pieces(level->n, (intptr_t)SMM_PART * BLOCK), 1, smm_threads_for(flops, 0, way->threads),
                     do_blocks, &x, NULL);
    return x.row;
}

/* False: the job does not go on. */
static bool solve(const smm_call *one, const way *way, char *workspace) {
    const levels s = levels_of(one, workspace);
    int32_t *const info = one->solve_tridiagonal.info.data;
    int32_t row = SMM_NO_ROW;
    for (int i = 0; i + 1 < s.count; i++) row = (int32_t)min_of(row, do_level(way, way->kernels->reduce, &s.level[i]));
    for (int i = s.count - 1; i >= 0; i--)
        row = (int32_t)min_of(row, do_level(way, way->kernels->substitute, &s.level[i]));
    const bool bad = row != SMM_NO_ROW;
    if (!smm_should_continue(way->watch)) return false;
    if (bad) smm_fill_nan(&s.level[0].x, 0, s.level[0].dtype, s.level[0].n, s.level[0].k);
    if (info) *info = bad ? row : 0;
    if (info && bad && one->failed) __atomic_store_n(one->failed, true, __ATOMIC_RELAXED); /* as others, by info */
    return true;
}

/* --- many systems: at least one for each thread, or one after the other --- */

typedef struct all {
    const smm_call *call;
    way way;
} all;

static bool solve_some(void *context, intptr_t first, intptr_t last) {
    const all *x = context;
    char *const workspace = malloc((size_t)workspace_of(x->call));
    bool running = workspace;
    if (!workspace) smm_stop(x->way.watch, SMM_ERR_MEMORY);
    for (intptr_t q = first; q < last && running; q++) {
        const smm_call one = smm_matrix_of(x->call, q);
        running = solve(&one, &x->way, workspace);
    }
    free(workspace);
    return running;
}

smm_status smm_run_in_parts(const smm_call *call, const smm_parts_kernels *kernels) {
    const intptr_t systems = smm_runs(call) * call->batch;
    const int threads = smm_get_num_threads();
    smm_cancel_token watch = {.caller = pthread_self()};
    const bool few = systems < threads;
    all x = {call, {kernels, &watch, few ? threads : 1}};
    smm_parallel_for(systems, 1, few ? 1 : threads, solve_some, &x, NULL);
    return watch.status;
}
