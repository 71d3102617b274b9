/* program_run.c: planned programs run. All steps run on a tile of matrices before the next tile begins; a loop's tile
 * runs all times. A thread moves the pointers of all steps to the tile's matrices and calls the kernels. */
#include "program.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "workspace.h"

/* Work after which a thread looks between tiles whether the run goes on: some 40 us. */
static const double PIECE_WORK = 1e6;

/* Elements of an element-wise step after which a thread looks whether the run goes on, also within a tile: those of the
 * slowest function take a hundredth of a second. */
enum { PIECE = 1 << 16 };

/* What the threads of a run share. */
typedef struct run {
    const smm_planned *planned;
    intptr_t batch;
    void *const *data;
    const smm_repeats *outer;
    const smm_times *times; /* of a loop */
    bool *failed;
    smm_cancel_token watch;
    int largest; /* the value whose memory decides which node computes what; -1: none is large enough */
} run;

/* Elements of a row, `step` bytes apart, in double precision, which holds all but some integers of 64 bits. */
#define ROW(move, NAME, name, in_memory, ...) \
    case SMM_TYPE_##NAME: \
        for (intptr_t i = 0; i < count; i++) move(in_memory); \
        break;
static void read_row(double *to, const char *x, int type, intptr_t step, intptr_t count) {
#define READ(in_memory) to[i] = (double)*(const in_memory *)(const void *)(x + i * step)
    switch (type) {
        SMM_INTEGERS(ROW, READ)
    case SMM_TYPE_BOOL:
        for (intptr_t i = 0; i < count; i++) to[i] = *(const uint8_t *)(x + i * step) != 0;
        break;
    default:
        for (intptr_t i = 0; i < count; i++) to[i] = smm_get(x + i * step, (smm_dtype)type);
    }
#undef READ
}

static void write_row(char *to, const double *x, int type, intptr_t step, intptr_t count) {
#define WRITE(in_memory) *(in_memory *)(void *)(to + i * step) = (in_memory)x[i]
    switch (type) {
        SMM_INTEGERS(ROW, WRITE)
        ROW(WRITE, BOOL, bool, bool)
    default:
        for (intptr_t i = 0; i < count; i++) smm_put(to + i * step, (smm_dtype)type, x[i]);
    }
#undef WRITE
}
#undef ROW

/* Whether a type is only stored, as float16: its conversion from and to float32 has a kernel. */
static bool is_stored(int type) { return type >= SMM_COMPUTED_TYPES && type < SMM_DTYPE_COUNT; }

static bool is_of_64_bits(int type) { return type == SMM_TYPE_INT64 || type == SMM_TYPE_UINT64; }

/* Dimensions of an element-wise step, innermost first. The kernel loops over the first two. */
typedef struct grid {
    smm_outer dims;
    intptr_t repeats; /* of the first two */
} grid;

static void exchange(smm_outer *x, int i, int j) {
    intptr_t stride[SMM_MAX_OPERANDS];
    const intptr_t extent = x->extent[i];
    x->extent[i] = x->extent[j];
    x->extent[j] = extent;
    memcpy(stride, x->stride[i], sizeof stride);
    memcpy(x->stride[i], x->stride[j], sizeof stride);
    memcpy(x->stride[j], stride, sizeof stride);
}

/* Merge dimensions where possible. If rows are shorter than a vector and another dimension is longer, they change
 * places. */
static grid grid_of(const planned_step *x, const smm_call *call, intptr_t count) {
    enum { SHORT = 4 };
    grid g = {.repeats = 1};
    intptr_t stride[SMM_MAX_OPERANDS] = {0};
    for (int i = 0; i < x->operands; i++) stride[i] = call->operand[i].col;
    smm_add_dimension(&g.dims, call->n, stride);
    for (int i = 0; i < x->operands; i++) stride[i] = call->operand[i].row;
    smm_add_dimension(&g.dims, call->m, stride);
    for (int d = 0; call->outer && d < call->outer->dims; d++)
        smm_add_dimension(&g.dims, call->outer->extent[d], call->outer->stride[d]);
    for (int i = 0; i < x->operands; i++) stride[i] = call->operand[i].batch;
    smm_add_dimension(&g.dims, count, stride);
    while (g.dims.dims < 2) {
        memset(g.dims.stride[g.dims.dims], 0, sizeof g.dims.stride[0]);
        g.dims.extent[g.dims.dims++] = 1;
    }
    for (int inner = 0; inner < 2; inner++)
        for (int d = inner + 1; d < g.dims.dims; d++)
            if ((inner || g.dims.extent[0] < SHORT) && g.dims.extent[d] > g.dims.extent[inner])
                exchange(&g.dims, inner, d);
    for (int d = 2; d < g.dims.dims; d++) g.repeats *= g.dims.extent[d];
    return g;
}

/* A row: its numbers pass through a buffer, but for those that a kernel converts, and copies that it would change. */
static void convert_row(const planned_step *x, char *to, const char *from, intptr_t to_step, intptr_t from_step,
                        intptr_t count) {
    enum { PART = 256 };
    const smm_step *step = &x->step;
    const intptr_t dense = sizeof(float);
    if (is_stored(step->from) && step->to == SMM_F32 && to_step == dense) {
        const smm_grid row = {(char *)from, {count, 1, 1}, {from_step, 0, 0}};
        x->kernels->stored[step->from - SMM_COMPUTED_TYPES].widen(to, &row);
    } else if (is_stored(step->to) && step->from == SMM_F32 && from_step == dense) {
        const smm_grid row = {to, {count, 1, 1}, {to_step, 0, 0}};
        x->kernels->stored[step->to - SMM_COMPUTED_TYPES].narrow(&row, from, false);
    } else if (is_of_64_bits(step->to) && step->to == step->from) {
        for (intptr_t i = 0; i < count; i++) memcpy(to + i * to_step, from + i * from_step, sizeof(int64_t));
    } else {
        double numbers[PART];
        for (intptr_t first = 0, some; first < count; first += some) {
            some = min_of(PART, count - first);
            read_row(numbers, from + first * from_step, step->from, from_step, some);
            write_row(to + first * to_step, numbers, step->to, to_step, some);
        }
    }
}

/* Rows and columns of an element-wise step, of which the first has these addresses. */
static void run_block(const planned_step *x, char *const at[], const grid *g, intptr_t rows, intptr_t columns) {
    const intptr_t *const step = g->dims.stride[0], *const next = g->dims.stride[1];
    if (x->step.kind == SMM_STEP_MAP)
        x->kernels->map(x->step.function, at, step, columns, next, rows);
    else
        for (intptr_t r = 0; r < rows; r++)
            convert_row(x, at[0] + r * next[0], at[1] + r * next[1], step[0], step[1], columns);
}

/* An element-wise step. Between pieces it looks whether to go on. */
static void run_elements(const planned_step *x, const smm_call *call, const grid *its, smm_cancel_token *watch) {
    const grid g = *its;
    const intptr_t *const extent = g.dims.extent;
    if (!extent[0] || !extent[1]) return;
    const intptr_t columns = min_of(extent[0], PIECE), rows = min_of(extent[1], PIECE / columns);
    intptr_t done = 0;
    for (intptr_t r = 0; r < g.repeats; r++) {
        char *at[SMM_MAX_OPERANDS];
        for (int i = 0; i < x->operands; i++) at[i] = (char *)call->operand[i].data + smm_offset_of(&g.dims, 2, i, r);
        for (intptr_t i = 0; i < extent[1]; i += rows)
            for (intptr_t j = 0; j < extent[0]; j += columns, done += rows * columns) {
                char *from[SMM_MAX_OPERANDS];
                if (done > PIECE && !smm_should_continue(watch)) return;
                if (done > PIECE) done = 0;
                for (int o = 0; o < x->operands; o++)
                    from[o] = at[o] + i * g.dims.stride[1][o] + j * g.dims.stride[0][o];
                run_block(x, from, &g, min_of(rows, extent[1] - i), min_of(columns, extent[0] - j));
            }
    }
}

/* Whether no element of operand 0 is 0. */
static bool has_no_zero(const smm_call *call, const grid *its) {
    const grid g = *its;
    const bool is_double = call->dtype == SMM_F64;
    for (intptr_t r = 0; r < g.repeats * g.dims.extent[1]; r++) {
        const char *at = (const char *)call->operand[0].data + smm_offset_of(&g.dims, 1, 0, r);
        bool any = false;
        for (intptr_t i = 0; i < g.dims.extent[0]; i++, at += g.dims.stride[0][0])
            any |= is_double ? *(const double *)(const void *)at == 0 : *(const float *)(const void *)at == 0;
        if (any) return false;
    }
    return true;
}

/* The steps' calls with the strides of all tiles, the grids of element-wise ones for tiles of so many matrices, and the
 * addresses of values, in a thread's workspace or in memory of its own. */
typedef struct run_memory {
    smm_call *calls;
    grid *grids;
    intptr_t count;
    char **base;
    char *temporaries;
} run_memory;

static size_t bytes_of(const smm_planned *x) {
    return (size_t)x->steps * (sizeof(smm_call) + sizeof(grid)) + (size_t)x->values * sizeof(char *) +
           (size_t)x->workspace + 2 * SMM_LINE;
}

static run_memory lay_out(const run *shared, char *workspace) {
    const smm_planned *x = shared->planned;
    run_memory w = {.calls = (smm_call *)(void *)workspace, .count = -1};
    w.grids = (grid *)(void *)(w.calls + x->steps);
    w.base = (char **)(void *)(w.grids + x->steps);
    const uintptr_t end = (uintptr_t)(w.base + x->values);
    w.temporaries = (char *)((end + SMM_LINE - 1) & -(uintptr_t)SMM_LINE);
    for (int s = 0; s < x->steps; s++) {
        w.calls[s] = x->step[s].step.kind == SMM_STEP_CALL ? x->step[s].plan.call : x->step[s].step.call;
        w.calls[s].failed = shared->failed ? &shared->failed[s] : NULL;
    }
    for (int v = 0; v < x->values; v++)
        w.base[v] = x->value[v].kind == SMM_TEMPORARY ? w.temporaries + x->slot[v] : x->value[v].data;
    return w;
}

/* All steps on matrices 0 .. count-1 of the values that begin at these addresses; without outputs those that what is
 * carried depends on. */
static void run_tile(run *shared, run_memory *w, intptr_t count, bool outputs) {
    const smm_planned *planned = shared->planned;
    char *const *const base = w->base;
    for (int s = 0; s < planned->steps && w->count != count; s++)
        if (planned->step[s].step.kind != SMM_STEP_CALL) w->grids[s] = grid_of(&planned->step[s], &w->calls[s], count);
    w->count = count;
    for (int s = 0; s < planned->steps; s++) {
        const planned_step *x = &planned->step[s];
        if (planned->for_outputs[s] && !outputs) continue;
        smm_call *call = &w->calls[s];
        const bool is_call = x->step.kind == SMM_STEP_CALL;
        for (int i = 0; i < x->operands; i++)
            if (x->step.value[i] >= 0)
                call->operand[is_call ? x->position[i] : i].data = base[x->step.value[i]] + x->step.offset[i];
        call->batch = count;
        if (x->step.kind == SMM_STEP_UNLESS)
            s += has_no_zero(call, &w->grids[s]) ? x->step.skips : 0;
        else if (!is_call)
            run_elements(x, call, &w->grids[s], &shared->watch);
        else if (!x->plan.nothing)
            smm_run_serial(&x->plan, call, &shared->watch);
    }
}

/* The address of matrix q of repetition r of an input or output whose matrices are `stride` bytes apart. */
static char *place_of(const run *shared, int v, intptr_t stride, intptr_t r, intptr_t q) {
    const smm_planned *x = shared->planned;
    char *at = (char *)shared->data[v] + q * stride;
    for (int d = 0; shared->outer && d < shared->outer->dims; d++) {
        at += r % shared->outer->extent[d] * shared->outer->stride[d * x->values + v];
        r /= shared->outer->extent[d];
    }
    return at;
}

/* A run of matrices, of which a thread does a tile after the other. */
typedef struct range {
    run *shared;
    run_memory w;
    bool running, has_failed;
    double done; /* work since it was asked whether to go on */
} range;

static bool goes_on_after(range *x, double work) {
    x->done += work;
    if (x->done > PIECE_WORK) {
        x->running = smm_should_continue(&x->shared->watch);
        x->done = 0;
    }
    return x->running;
}

static void move_matrices(char *to, intptr_t to_stride, const char *from, intptr_t from_stride, intptr_t bytes,
                          intptr_t count) {
    if (to_stride == bytes && from_stride == bytes) {
        memcpy(to, from, (size_t)(bytes * count));
        return;
    }
    for (intptr_t q = 0; q < count; q++) memcpy(to + q * to_stride, from + q * from_stride, (size_t)bytes);
}

/* Bring what is read of the next time: it lies too far away for the processor to guess it. */
static void prefetch_next(const run *shared, char *const base[], intptr_t count) {
    const smm_planned *x = shared->planned;
    for (int v = 0; v < x->values; v++) {
        const intptr_t stride = shared->times->stride[v];
        if (x->value[v].kind != SMM_INPUT || !stride) continue;
        const intptr_t bytes = count * x->value[v].batch;
        for (intptr_t at = 0; at < bytes; at += SMM_LINE) __builtin_prefetch(base[v] + stride + at);
    }
}

/* Note each matrix's first failure. The columns of steps that did not run hold what was noted before. */
static void note_failures(const smm_planned *x, const char *codes, char *to, intptr_t time, intptr_t count) {
    for (intptr_t q = 0; q < count; q++, to += x->info_stride) {
        const int32_t *code = (const int32_t *)(const void *)codes + q * x->columns;
        int32_t *first = (int32_t *)(void *)to;
        for (int c = 0; c < x->columns && !first[1]; c++)
            if (code[c]) first[0] = code[c], first[1] = (int32_t)time + 1, first[2] = c;
    }
}

/* All times of matrices from .. from+count-1 of repetition r. */
static void run_times(range *own, intptr_t r, intptr_t from, intptr_t count) {
    run *const shared = own->shared;
    const smm_planned *x = shared->planned;
    const smm_times *times = shared->times;
    char **base = own->w.base, *const buffer = own->w.temporaries;
    char *info = NULL;
    for (int c = 0; c < x->carries; c++) {
        const planned_carry *y = &x->carry[c];
        move_matrices(buffer + y->slot[0], y->carry.bytes, place_of(shared, y->carry.to, y->first, r, from), y->first,
                      y->carry.bytes, count);
    }
    if (x->info >= 0) {
        info = place_of(shared, x->info, x->info_stride, r, from);
        base[x->info] = buffer + x->info_slot;
        memset(base[x->info], 0, (size_t)(count * x->value[x->info].batch));
        for (intptr_t q = 0; q < count; q++) memset(info + q * x->info_stride, 0, 3 * sizeof(int32_t));
    }
    intptr_t until_written = (times->length - 1) % times->every;
    for (intptr_t t = 0; t < times->length; t++) {
        for (int c = 0; c < x->carries; c++) {
            base[x->carry[c].carry.to] = buffer + x->carry[c].slot[t % 2];
            base[x->carry[c].carry.from] = buffer + x->carry[c].slot[(t + 1) % 2];
        }
        if (t + 1 < times->length) prefetch_next(shared, base, count);
        run_tile(shared, &own->w, count, !until_written);
        if (own->has_failed) note_failures(x, base[x->info], info, t, count);
        own->has_failed = false;
        for (int v = 0; v < x->values; v++)
            if (x->value[v].kind == SMM_INPUT || (x->value[v].kind == SMM_OUTPUT && !until_written))
                base[v] += times->stride[v];
        until_written = until_written ? until_written - 1 : times->every - 1;
        if (!goes_on_after(own, (double)count * (1 + x->work))) return;
    }
    for (int c = 0; c < x->carries; c++) {
        const planned_carry *y = &x->carry[c];
        move_matrices(place_of(shared, y->carry.from, y->last, r, from), y->last, buffer + y->slot[times->length % 2],
                      y->carry.bytes, y->carry.bytes, count);
    }
}

static bool run_range(void *context, intptr_t first, intptr_t last) {
    run *const shared = context;
    const smm_planned *x = shared->planned;
    const size_t bytes = bytes_of(x);
    char *const own =
        bytes > SMM_PROGRAM_WORKSPACE ? aligned_alloc(SMM_LINE, (bytes + SMM_LINE) & -(size_t)SMM_LINE) : NULL;
    smm_workspace *const workspace = smm_workspace_of_thread(x->max_kernel_workspace);
    if (!workspace || (bytes > SMM_PROGRAM_WORKSPACE && !own)) {
        free(own);
        smm_stop(&shared->watch, SMM_ERR_MEMORY);
        return false;
    }
    range part = {shared, lay_out(shared, own ? own : workspace->program), true, false, first ? 2 * PIECE_WORK : 0};
    if (shared->times)
        for (int s = 0; s < x->steps; s++) part.w.calls[s].failed = &part.has_failed;
    for (intptr_t q = first, count; q < last && goes_on_after(&part, 0); q += count) {
        const intptr_t r = q / shared->batch, from = q % shared->batch;
        count = min_of(min_of(x->tile, last - q), shared->batch - from);
        for (int v = 0; v < x->values; v++)
            if (x->value[v].kind <= SMM_OUTPUT) part.w.base[v] = place_of(shared, v, x->value[v].batch, r, from);
        if (shared->times)
            run_times(&part, r, from, count);
        else
            run_tile(shared, &part.w, count, true), part.done += (double)count * (1 + x->work);
    }
    free(own);
    return part.running;
}

/* The address of matrix x of the largest input or output. */
static const void *address_of(const void *context, intptr_t x) {
    const run *shared = context;
    const intptr_t stride = shared->planned->value[shared->largest].batch;
    return place_of(shared, shared->largest, stride, x / shared->batch, x % shared->batch);
}

/* The value whose matrices are largest, if there are enough of them to ask where they lie; else -1. */
static int largest_of(const smm_planned *x, intptr_t total) {
    double most = (double)SMM_ASK_BYTES / (double)total;
    int largest = -1;
    for (int v = 0; v < x->values; v++) {
        const double bytes = fabs((double)x->value[v].batch);
        if (x->value[v].kind <= SMM_OUTPUT && bytes > most) most = bytes, largest = v;
    }
    return largest;
}

smm_status smm_run_program(const smm_planned *planned, intptr_t batch, void *const *data, const smm_repeats *outer,
                           const smm_times *times, bool *failed) {
    if (!planned || batch < 0 || (planned->carries >= 0) != (times != NULL)) return SMM_ERR_ARGUMENT;
    if (times && (times->length < 0 || times->length >= INT32_MAX || times->every < 1)) return SMM_ERR_ARGUMENT;
    double matrices = (double)batch;
    for (int d = 0; outer && d < outer->dims; d++) matrices *= (double)outer->extent[d];
    if (matrices > SMM_MAX_MATRICES) return SMM_ERR_ARGUMENT;
    intptr_t total = matrices > 0 ? batch : 0;
    for (int d = 0; total && outer && d < outer->dims; d++) total *= outer->extent[d];
    if (!total) return SMM_OK;
    const int threads = smm_get_num_threads();
    if (!threads) return SMM_ERR_THREADS;
    run shared = {planned, batch, data, outer, times, failed, {.caller = pthread_self()}, largest_of(planned, total)};
    const double repeats = (double)total * (times ? (double)times->length : 1);
    const int wanted = smm_threads_for(repeats * planned->work, repeats * planned->bytes, threads);
    const smm_home home = {shared.largest < 0 ? NULL : address_of, &shared};
    smm_parallel_for(total, planned->tile, wanted, run_range, &shared, &home);
    return shared.watch.status;
}
