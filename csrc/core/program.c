/* program.c: programs, which are lists of steps. All steps run on a tile of matrices before the next tile begins.
 *
 * A step is a call whose operands point into values. It is planned once, like any call. A thread that runs a tile moves
 * the pointers of all steps to the tile's matrices and calls the kernels. Temporaries lie in a buffer of the thread,
 * where those that are no longer needed make room for others. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "workspace.h"

/* The size of a tile in bytes: some kernels read its values several times, so they should stay in L1, beside what is
 * streamed through. And the least number of matrices of a tile, which share the cost of starting a kernel. Tiles of 16
 * to 64 KB differ by less than a tenth (Kalman step of 4 states, AMD Zen 4, November 2026). */
enum { TILE_BYTES = 32 * 1024, LEAST_TILE = 16, MOST_TILE = 1024 };

/* Of a flop of any step, beside one of a product. */
enum { WEIGHT = 4 };

/* Work after which a thread looks between tiles whether the run goes on: some 40 us. */
static const double PIECE_WORK = 1e6;

/* Elements of an element-wise step after which a thread looks whether the run goes on, also within a tile: those of the
 * slowest function take a hundredth of a second. */
enum { PIECE = 1 << 16 };

/* How long an element takes, real or complex, of the functions that take longer than WEIGHT: in flops as
 * smm_threads_for() weighs them, of which 25 take 1 ns (one thread of an Intel Xeon with AVX-512, November 2026;
 * powers, sin and cos as they are beside tanh on an AMD Zen 5). */
static const short times[SMM_FUNCTIONS][2] = {
    [SMM_FN_SQRT] = {10, 250}, [SMM_FN_EXP] = {25, 130},   [SMM_FN_EXPM1] = {30, 0},    [SMM_FN_LOG] = {30, 1400},
    [SMM_FN_LOG1P] = {35, 0},  [SMM_FN_SIN] = {35, 1600},  [SMM_FN_COS] = {35, 1600},   [SMM_FN_TANH] = {60, 0},
    [SMM_FN_ERF] = {60, 0},    [SMM_FN_ERFC] = {60, 0},    [SMM_FN_NDTR] = {60, 0},     [SMM_FN_DIVIDE] = {10, 80},
    [SMM_FN_POWER] = {50, 0},  [SMM_FN_ARCTAN2] = {70, 0}, [SMM_FN_MULTIPLY] = {4, 30},
};

typedef struct planned_step {
    smm_step step;
    smm_outer outer;
    smm_plan plan; /* of a call */
    const smm_kernels *kernels;
    int operands;
    int place[SMM_MOST_OPERANDS]; /* the place of each of the step's operands in the planned call */
} planned_step;

struct smm_planned {
    int values, steps;
    intptr_t tile, workspace; /* bytes of all temporaries of a tile */
    size_t most_of_kernels;   /* bytes of workspace of the largest kernel; a thread's workspace moves when it grows */
    double work, bytes;       /* of a matrix: in flops, as smm_threads_for() weighs them */
    smm_value *value;
    intptr_t *slot; /* of a temporary: its offset in the buffer */
    planned_step *step;
};

static int operands_of(const smm_step *step) {
    static const int8_t arguments[SMM_FUNCTIONS] = {
#define SMM_FUNCTION(NAME, name, arguments, ...) arguments,
#include "../defs/functions.def"
#undef SMM_FUNCTION
    };
    if (step->kind == SMM_STEP_CALL) return smm_operations[step->call.op].count;
    if (step->kind == SMM_STEP_UNLESS) return 1;
    return step->kind == SMM_STEP_MAP ? 1 + arguments[step->function] : 2;
}

/* --- Plan ------------------------------------------------------------------------------------------- */

/* Whether an element-wise step has a function of its type. */
static bool has_function(const smm_step *step) {
    static const bool of_complex[SMM_FUNCTIONS] = {
#define SMM_FUNCTION(NAME, ...) [SMM_FN_##NAME] = true,
#define SMM_FUNCTION_OF_PARTS SMM_FUNCTION
#include "../defs/functions_complex.def"
#undef SMM_FUNCTION
#undef SMM_FUNCTION_OF_PARTS
    };
    return step->function < SMM_FUNCTIONS && (!smm_is_complex(step->call.dtype) || of_complex[step->function]);
}

/* Complex elements are converted part by part. */
static bool is_converted(int type) {
    return type >= 0 && type < SMM_TYPES && (type >= SMM_DTYPE_COUNT || !smm_is_complex((smm_dtype)type));
}

static bool is_valid(const smm_program *program) {
    if (!program || program->values < 0 || program->steps < 0) return false;
    for (int s = 0; s < program->steps; s++) {
        const smm_step *step = &program->step[s];
        if (step->kind > SMM_STEP_UNLESS || (int)step->call.dtype >= SMM_COMPUTED_TYPES) return false;
        if (step->kind == SMM_STEP_CALL && step->call.op >= SMM_OPS) return false;
        if (step->kind == SMM_STEP_MAP && !has_function(step)) return false;
        if (step->kind == SMM_STEP_CONVERT && !(is_converted(step->to) && is_converted(step->from))) return false;
        if (step->kind == SMM_STEP_UNLESS && (step->skips < 0 || step->skips >= program->steps - s)) return false;
        if (step->kind == SMM_STEP_UNLESS && smm_is_complex(step->call.dtype)) return false;
        const int most = SMM_MOST_DIMS - (step->kind == SMM_STEP_CALL ? 0 : 3); /* rows, columns and the tile */
        if (step->call.outer && (step->call.outer->dims < 0 || step->call.outer->dims > most)) return false;
        for (int i = 0; i < operands_of(step); i++) {
            if (step->value[i] < -1 || step->value[i] >= program->values) return false;
            if (step->value[i] < 0 && step->kind != SMM_STEP_CALL) return false;
        }
        if (step->kind == SMM_STEP_CALL && step->call.op == SMM_OP_INV &&
            step->value[smm_roles_of[SMM_OP_INV].info] < 0)
            return false;
    }
    return true;
}

/* Assign offsets to temporaries, in bytes per matrix; returns the size of the buffer. A temporary lives from the step
 * that first uses it to the last, and takes the first gap that is free for that long. */
static intptr_t place_temporaries(const smm_program *program, intptr_t slot[], int first[], int last[]) {
    intptr_t workspace = 0;
    for (int v = 0; v < program->values; v++) first[v] = last[v] = -1;
    for (int s = 0; s < program->steps; s++)
        for (int i = 0; i < operands_of(&program->step[s]); i++) {
            const int v = program->step[s].value[i];
            if (v < 0) continue;
            if (first[v] < 0) first[v] = s;
            last[v] = s;
        }
    for (int v = 0; v < program->values; v++) {
        const intptr_t bytes = (program->value[v].batch + 7) & -8;
        if (program->value[v].kind != SMM_TEMPORARY || first[v] < 0) continue;
        slot[v] = 0;
        for (int w = 0; w < v; w++) { /* move past the one that it overlaps, then check all again */
            if (program->value[w].kind != SMM_TEMPORARY || first[w] < 0) continue;
            if (first[w] > last[v] || last[w] < first[v]) continue;
            const intptr_t end = slot[w] + ((program->value[w].batch + 7) & -8);
            if (slot[v] >= end || slot[v] + bytes <= slot[w]) continue;
            slot[v] = end;
            w = -1;
        }
        if (slot[v] + bytes > workspace) workspace = slot[v] + bytes;
    }
    return workspace;
}

/* Addresses of a step's operands while it is planned: no two values share one. */
static void placeholder_addresses(const smm_program *program, smm_step *step, intptr_t tile) {
    for (int i = 0; i < SMM_MOST_OPERANDS; i++) {
        const bool missing = i >= operands_of(step) || step->value[i] < 0;
        const intptr_t page = (intptr_t)1 << 40;
        step->call.operand[i].data = missing ? NULL : (void *)(page * (1 + step->value[i]) + step->offset[i]);
        step->call.operand[i].batch = missing ? 0 : program->value[step->value[i]].batch;
    }
    step->call.batch = tile;
    step->call.failed = NULL;
}

/* Operands of a planned call. If C is column-major, its factors have changed places. */
static void find_places(planned_step *x) {
    for (int i = 0; i < SMM_MOST_OPERANDS; i++) x->place[i] = i;
    const int b = smm_roles_of[SMM_OP_MATMUL].b;
    if (x->plan.swapped) x->place[0] = b, x->place[b] = 0;
}

static smm_status plan_step(const smm_program *program, planned_step *x, const smm_step *step, intptr_t tile) {
    x->step = *step;
    x->operands = operands_of(step);
    if (step->call.outer) {
        x->outer = *step->call.outer;
        x->step.call.outer = &x->outer;
    }
    placeholder_addresses(program, &x->step, tile);
    if (step->kind == SMM_STEP_CALL) {
        if (smm_is_in_parts(&step->call)) return SMM_ERR_ORDER;
        const smm_status status = smm_plan_call(&x->step.call, &x->plan);
        if (status) return status;
        find_places(x);
        return SMM_OK;
    }
    return smm_kernels_of(step->kind == SMM_STEP_CONVERT ? SMM_F32 : step->call.dtype, &x->kernels);
}

static intptr_t tile_of(double bytes) {
    const intptr_t tile = (intptr_t)(TILE_BYTES / (bytes + 1)) & -LEAST_TILE;
    return tile < LEAST_TILE ? LEAST_TILE : least(tile, MOST_TILE);
}

/* Elements of a matrix that an element-wise step computes. */
static double elements_of(const smm_call *call) {
    double count = (double)call->m * (double)call->n;
    for (int d = 0; call->outer && d < call->outer->dims; d++) count *= (double)call->outer->extent[d];
    return count;
}

/* Work and traffic per matrix. Separate calls would write and read every temporary at least once. */
static void count_work(const smm_program *program, smm_planned *x, smm_program_info *info) {
    for (int s = 0; s < x->steps; s++) {
        const planned_step *step = &x->step[s];
        const smm_call *call = &step->step.call;
        const bool is_call = step->step.kind == SMM_STEP_CALL, is_map = step->step.kind == SMM_STEP_MAP;
        if (step->step.kind == SMM_STEP_UNLESS) continue;
        const double flops = is_call ? step->plan.flops / (double)x->tile : elements_of(call);
        const int time = is_map ? times[step->step.function][smm_is_complex(call->dtype)] : 0;
        info->flops += flops;
        x->work += (time > WEIGHT ? time : WEIGHT) * flops;
    }
    for (int v = 0; v < x->values; v++) {
        const double bytes = fabs((double)program->value[v].batch);
        if (program->value[v].kind == SMM_TEMPORARY) info->saved += 2 * bytes;
        if (program->value[v].kind <= SMM_OUTPUT) info->bytes += bytes;
    }
}

const char *smm_kernel_of_step(const smm_planned *x, int step) {
    const planned_step *s = &x->step[step];
    return s->step.kind == SMM_STEP_CALL && s->plan.kernel ? s->plan.kernel->name : NULL;
}

void smm_free_program(smm_planned *x) {
    if (!x) return;
    free(x->value);
    free(x->slot);
    free(x->step);
    free(x);
}

smm_status smm_plan_program(const smm_program *program, smm_planned **planned, smm_program_info *info) {
    *planned = NULL;
    if (!is_valid(program)) return SMM_ERR_ARGUMENT;
    const size_t values = (size_t)program->values, steps = (size_t)program->steps;
    smm_planned *x = calloc(1, sizeof *x);
    int *lives = calloc(2 * values + 1, sizeof *lives);
    if (x) {
        *x = (smm_planned){.values = program->values, .steps = program->steps};
        x->value = calloc(values + 1, sizeof *x->value);
        x->slot = calloc(values + 1, sizeof *x->slot);
        x->step = calloc(steps + 1, sizeof *x->step);
    }
    if (!lives || !x || !x->value || !x->slot || !x->step) {
        free(lives);
        smm_free_program(x);
        return SMM_ERR_MEMORY;
    }
    for (size_t v = 0; v < values; v++) {
        x->value[v] = program->value[v];
        if (program->value[v].kind == SMM_CONSTANT) x->value[v].batch = 0;
    }
    const smm_program own = {program->values, program->steps, x->value, program->step};
    smm_program_info all = {.temporaries = place_temporaries(&own, x->slot, lives, lives + values)};
    free(lives);
    double through = 0; /* bytes per matrix that are read or written */
    for (size_t v = 0; v < values; v++)
        if (x->value[v].kind <= SMM_OUTPUT) through += fabs((double)x->value[v].batch);
    x->tile = tile_of((double)all.temporaries + through);
    smm_status status = SMM_OK;
    for (size_t s = 0; s < steps && !status; s++) status = plan_step(&own, &x->step[s], &program->step[s], x->tile);
    if (status) {
        smm_free_program(x);
        return status;
    }
    for (size_t s = 0; s < steps; s++)
        if (x->step[s].step.kind == SMM_STEP_CALL && smm_workspace_size(&x->step[s].plan) > x->most_of_kernels)
            x->most_of_kernels = smm_workspace_size(&x->step[s].plan);
    for (size_t v = 0; v < values; v++) x->slot[v] *= x->tile;
    x->workspace = all.temporaries * x->tile;
    all.tile = x->tile;
    count_work(&own, x, &all);
    x->bytes = all.bytes;
    if (info) *info = all;
    *planned = x;
    return SMM_OK;
}

/* --- Run -------------------------------------------------------------------------------------------- */

/* What the threads of a run share. */
typedef struct run {
    const smm_planned *planned;
    intptr_t batch;
    void *const *data;
    const smm_repeats *outer;
    bool *failed;
    smm_cancel_token watch;
    int largest; /* the value whose memory decides which node computes what; -1: none is large enough */
} run;

/* Elements of a row, `step` bytes apart, in double precision, which holds all but some integers of 64 bits. */
static void read_row(double *to, const char *x, int type, intptr_t step, intptr_t count) {
    switch (type) {
#define ROW(_, NAME, name, in_memory, ...) \
    case SMM_TYPE_##NAME: \
        for (intptr_t i = 0; i < count; i++) to[i] = (double)*(const in_memory *)(const void *)(x + i * step); \
        break;
        SMM_INTEGERS(ROW, _)
#undef ROW
    case SMM_TYPE_BOOL:
        for (intptr_t i = 0; i < count; i++) to[i] = *(const uint8_t *)(x + i * step) != 0;
        break;
    default:
        for (intptr_t i = 0; i < count; i++) to[i] = smm_get(x + i * step, (smm_dtype)type);
    }
}

static void write_row(char *to, const double *x, int type, intptr_t step, intptr_t count) {
    switch (type) {
#define ROW(_, NAME, name, in_memory, ...) \
    case SMM_TYPE_##NAME: \
        for (intptr_t i = 0; i < count; i++) *(in_memory *)(void *)(to + i * step) = (in_memory)x[i]; \
        break;
        SMM_INTEGERS(ROW, _)
#undef ROW
    case SMM_TYPE_BOOL:
        for (intptr_t i = 0; i < count; i++) *(uint8_t *)(to + i * step) = x[i] != 0;
        break;
    default:
        for (intptr_t i = 0; i < count; i++) smm_put(to + i * step, (smm_dtype)type, x[i]);
    }
}

/* Whether a type is only stored, as float16: its conversion from and to float32 has a kernel. */
static bool is_stored(int type) { return type >= SMM_COMPUTED_TYPES && type < SMM_DTYPE_COUNT; }

static bool is_of_64_bits(int type) { return type == SMM_TYPE_INT64 || type == SMM_TYPE_UINT64; }

/* Dimensions of an element-wise step, innermost first. The kernel loops over the first two. */
typedef struct grid {
    smm_outer dims;
    intptr_t repeats; /* of the first two */
} grid;

static void exchange(smm_outer *x, int i, int j) {
    intptr_t stride[SMM_MOST_OPERANDS];
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
    intptr_t stride[SMM_MOST_OPERANDS] = {0};
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
            some = least(PART, count - first);
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

/* An element-wise step on `count` matrices. Between pieces it looks whether to go on. */
static void run_elements(const planned_step *x, const smm_call *call, intptr_t count, smm_cancel_token *watch) {
    const grid g = grid_of(x, call, count);
    const intptr_t *const extent = g.dims.extent;
    if (!extent[0] || !extent[1]) return;
    const intptr_t columns = least(extent[0], PIECE), rows = least(extent[1], PIECE / columns);
    intptr_t done = 0;
    for (intptr_t r = 0; r < g.repeats; r++) {
        char *at[SMM_MOST_OPERANDS];
        for (int i = 0; i < x->operands; i++) {
            at[i] = call->operand[i].data;
            intptr_t rest = r;
            for (int d = 2; d < g.dims.dims; d++) {
                at[i] += rest % g.dims.extent[d] * g.dims.stride[d][i];
                rest /= g.dims.extent[d];
            }
        }
        for (intptr_t i = 0; i < extent[1]; i += rows)
            for (intptr_t j = 0; j < extent[0]; j += columns, done += rows * columns) {
                char *from[SMM_MOST_OPERANDS];
                if (done > PIECE && !smm_should_continue(watch)) return;
                if (done > PIECE) done = 0;
                for (int o = 0; o < x->operands; o++)
                    from[o] = at[o] + i * g.dims.stride[1][o] + j * g.dims.stride[0][o];
                run_block(x, from, &g, least(rows, extent[1] - i), least(columns, extent[0] - j));
            }
    }
}

/* Whether no element of operand 0 is 0. */
static bool has_no_zero(const planned_step *x, const smm_call *call, intptr_t count) {
    const grid g = grid_of(x, call, count);
    const bool is_double = call->dtype == SMM_F64;
    for (intptr_t r = 0; r < g.repeats * g.dims.extent[1]; r++) {
        const char *at = call->operand[0].data;
        intptr_t rest = r;
        for (int d = 1; d < g.dims.dims; d++) {
            at += rest % g.dims.extent[d] * g.dims.stride[d][0];
            rest /= g.dims.extent[d];
        }
        bool any = false;
        for (intptr_t i = 0; i < g.dims.extent[0]; i++, at += g.dims.stride[0][0])
            any |= is_double ? *(const double *)(const void *)at == 0 : *(const float *)(const void *)at == 0;
        if (any) return false;
    }
    return true;
}

/* All steps on matrices 0 .. count-1 of the values that begin at these addresses. */
static void run_tile(run *shared, smm_call calls[], char *const base[], intptr_t count) {
    const smm_planned *planned = shared->planned;
    for (int s = 0; s < planned->steps; s++) {
        const planned_step *x = &planned->step[s];
        smm_call *call = &calls[s];
        const bool is_call = x->step.kind == SMM_STEP_CALL;
        for (int i = 0; i < x->operands; i++)
            if (x->step.value[i] >= 0)
                call->operand[is_call ? x->place[i] : i].data = base[x->step.value[i]] + x->step.offset[i];
        call->batch = count;
        if (x->step.kind == SMM_STEP_UNLESS)
            s += has_no_zero(x, call, count) ? x->step.skips : 0;
        else if (!is_call)
            run_elements(x, call, count, &shared->watch);
        else if (!x->plan.nothing)
            smm_run_serial(&x->plan, call, &shared->watch);
    }
}

/* The steps' calls with the strides of all tiles, and the addresses of values, in a thread's workspace or in memory of
 * its own. */
typedef struct run_memory {
    smm_call *calls;
    char **base;
    char *temporaries;
} run_memory;

static size_t bytes_of(const smm_planned *x) {
    return (size_t)x->steps * sizeof(smm_call) + (size_t)x->values * sizeof(char *) + (size_t)x->workspace +
           2 * SMM_LINE;
}

static run_memory lay_out(const run *shared, char *workspace) {
    const smm_planned *x = shared->planned;
    run_memory w = {(smm_call *)(void *)workspace, (char **)(void *)(workspace + (size_t)x->steps * sizeof(smm_call)),
                    NULL};
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

/* The address of matrix q of repetition r of an input or output. */
static char *place_of(const run *shared, int v, intptr_t r, intptr_t q) {
    const smm_planned *x = shared->planned;
    char *at = (char *)shared->data[v] + q * x->value[v].batch;
    for (int d = 0; shared->outer && d < shared->outer->dims; d++) {
        at += r % shared->outer->extent[d] * shared->outer->stride[d * x->values + v];
        r /= shared->outer->extent[d];
    }
    return at;
}

static bool run_range(void *context, intptr_t first, intptr_t last) {
    run *const shared = context;
    const smm_planned *x = shared->planned;
    const size_t bytes = bytes_of(x);
    char *const own =
        bytes > SMM_PROGRAM_WORKSPACE ? aligned_alloc(SMM_LINE, (bytes + SMM_LINE) & -(size_t)SMM_LINE) : NULL;
    smm_workspace *const workspace = smm_workspace_of_thread(x->most_of_kernels);
    if (!workspace || (bytes > SMM_PROGRAM_WORKSPACE && !own)) {
        free(own);
        smm_stop(&shared->watch, SMM_ERR_MEMORY);
        return false;
    }
    const run_memory w = lay_out(shared, own ? own : workspace->program);
    const intptr_t piece = (intptr_t)(PIECE_WORK / (1 + x->work));
    bool goes_on = true;
    intptr_t look = first ? first : piece; /* here, whether to go on */
    for (intptr_t q = first, count; q < last; q += count) {
        if (q && q >= look) {
            goes_on = smm_should_continue(&shared->watch);
            look = q + piece;
        }
        if (!goes_on) break;
        const intptr_t r = q / shared->batch, from = q % shared->batch;
        count = least(least(x->tile, last - q), shared->batch - from);
        for (int v = 0; v < x->values; v++)
            if (x->value[v].kind <= SMM_OUTPUT) w.base[v] = place_of(shared, v, r, from);
        run_tile(shared, w.calls, w.base, count);
    }
    free(own);
    return goes_on;
}

/* The address of matrix x of the largest input or output. */
static const void *address_of(const void *context, intptr_t x) {
    const run *shared = context;
    return place_of(shared, shared->largest, x / shared->batch, x % shared->batch);
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
                           bool *failed) {
    if (!planned || batch < 0) return SMM_ERR_ARGUMENT;
    double matrices = (double)batch;
    for (int d = 0; outer && d < outer->dims; d++) matrices *= (double)outer->extent[d];
    if (matrices > SMM_MOST_MATRICES) return SMM_ERR_ARGUMENT;
    intptr_t total = matrices > 0 ? batch : 0;
    for (int d = 0; total && outer && d < outer->dims; d++) total *= outer->extent[d];
    if (!total) return SMM_OK;
    const int threads = smm_get_num_threads();
    if (!threads) return SMM_ERR_THREADS;
    run shared = {planned, batch, data, outer, failed, {.caller = pthread_self()}, largest_of(planned, total)};
    const int wanted = smm_threads_for((double)total * planned->work, (double)total * planned->bytes, threads);
    const smm_home home = {shared.largest < 0 ? NULL : address_of, &shared};
    smm_parallel_for(total, planned->tile, wanted, run_range, &shared, &home);
    return shared.watch.status;
}
