/* program.c: plans of programs, which are lists of steps.
 *
 * A step is a call whose operands point into values. It is planned once, like any call. Temporaries lie in a buffer of
 * the thread, where those that are no longer needed make room for others, and so does what a loop carries from one time
 * to the next. */
#include "program.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "workspace.h"

/* The size of a tile in bytes: some kernels read its values several times, so they should stay in L1, beside what is
 * streamed through. And the least number of matrices of a tile, which share the cost of starting a kernel. Tiles of 16
 * to 64 KB differ by less than a tenth (Kalman step of 4 states, AMD Zen 4, November 2026). */
enum { TILE_BYTES = 32 * 1024, MIN_TILE = 16, MAX_TILE = 1024 };

/* Of a flop of any step, beside one of a product. */
enum { WEIGHT = 4 };

/* How long an element takes, real or complex, of the functions that take longer than WEIGHT: in flops as
 * smm_threads_for() weighs them, of which 25 take 1 ns (one thread of an Intel Xeon with AVX-512, November 2026;
 * powers, sin and cos as they are beside tanh on an AMD Zen 5). */
static const short times[SMM_FUNCTIONS][2] = {
    [SMM_FN_SQRT] = {10, 250}, [SMM_FN_EXP] = {25, 130},   [SMM_FN_EXPM1] = {30, 0},    [SMM_FN_LOG] = {30, 1400},
    [SMM_FN_LOG1P] = {35, 0},  [SMM_FN_SIN] = {35, 1600},  [SMM_FN_COS] = {35, 1600},   [SMM_FN_TANH] = {60, 0},
    [SMM_FN_ERF] = {60, 0},    [SMM_FN_ERFC] = {60, 0},    [SMM_FN_NDTR] = {60, 0},     [SMM_FN_DIVIDE] = {10, 80},
    [SMM_FN_POWER] = {50, 0},  [SMM_FN_ARCTAN2] = {70, 0}, [SMM_FN_MULTIPLY] = {4, 30},
};

int smm_operands_of(const smm_step *step) {
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

static bool is_value_of(const smm_program *program, int v, int kind) {
    return v >= 0 && v < program->values && (int)program->value[v].kind == kind;
}

static bool is_valid_loop(const smm_program *program, const smm_loop *loop) {
    for (int c = 0; c < loop->carries; c++) {
        const smm_carry *x = &loop->carry[c];
        if (!is_value_of(program, x->from, SMM_OUTPUT) || !is_value_of(program, x->to, SMM_INPUT) || x->bytes < 0)
            return false;
    }
    return loop->carries >= 0 && (loop->info < 0 || is_value_of(program, loop->info, SMM_OUTPUT));
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
        const int most = SMM_MAX_DIMS - (step->kind == SMM_STEP_CALL ? 0 : 3); /* rows, columns and the tile */
        if (step->call.outer && (step->call.outer->dims < 0 || step->call.outer->dims > most)) return false;
        for (int i = 0; i < smm_operands_of(step); i++) {
            if (step->value[i] < -1 || step->value[i] >= program->values) return false;
            if (step->value[i] < 0 && step->kind != SMM_STEP_CALL) return false;
        }
        if (step->kind == SMM_STEP_CALL && step->call.op == SMM_OP_INV &&
            step->value[smm_roles_of[SMM_OP_INV].info] < 0)
            return false;
    }
    return !program->loop || is_valid_loop(program, program->loop);
}

/* Assign offsets to temporaries, in bytes per matrix; returns the size of the buffer. A temporary lives from the step
 * that first uses it to the last, and takes the first gap that is free for that long. */
static intptr_t place_temporaries(const smm_program *program, intptr_t slot[], int first[], int last[]) {
    intptr_t workspace = 0;
    for (int v = 0; v < program->values; v++) first[v] = last[v] = -1;
    for (int s = 0; s < program->steps; s++)
        for (int i = 0; i < smm_operands_of(&program->step[s]); i++) {
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
    for (int i = 0; i < SMM_MAX_OPERANDS; i++) {
        const bool missing = i >= smm_operands_of(step) || step->value[i] < 0;
        const intptr_t page = (intptr_t)1 << 40;
        step->call.operand[i].data = missing ? NULL : (void *)(page * (1 + step->value[i]) + step->offset[i]);
        step->call.operand[i].batch = missing ? 0 : program->value[step->value[i]].batch;
    }
    step->call.batch = tile;
    step->call.failed = NULL;
}

/* Operands of a planned call. If C is column-major, its factors have changed places. */
static void find_positions(planned_step *x) {
    for (int i = 0; i < SMM_MAX_OPERANDS; i++) x->position[i] = i;
    const int b = smm_roles_of[SMM_OP_MATMUL].b;
    if (x->plan.swapped) x->position[0] = b, x->position[b] = 0;
}

static smm_status plan_step(const smm_program *program, planned_step *x, const smm_step *step, intptr_t tile) {
    x->step = *step;
    x->operands = smm_operands_of(step);
    if (step->call.outer) {
        x->outer = *step->call.outer;
        x->step.call.outer = &x->outer;
    }
    placeholder_addresses(program, &x->step, tile);
    if (step->kind == SMM_STEP_CALL) {
        if (smm_is_in_parts(&step->call)) return SMM_ERR_ORDER;
        const smm_status status = smm_plan_call(&x->step.call, &x->plan);
        if (status) return status;
        find_positions(x);
        return SMM_OK;
    }
    return smm_kernels_of(step->kind == SMM_STEP_CONVERT ? SMM_F32 : step->call.dtype, &x->kernels);
}

static intptr_t tile_of(double bytes) {
    const intptr_t tile = (intptr_t)(TILE_BYTES / (bytes + 1) + MIN_TILE / 2) & -MIN_TILE;
    return tile < MIN_TILE ? MIN_TILE : min_of(tile, MAX_TILE);
}

/* Elements of a matrix that an element-wise step computes. */
static double elements_of(const smm_call *call) {
    double count = (double)call->m * (double)call->n;
    for (int d = 0; call->outer && d < call->outer->dims; d++) count *= (double)call->outer->extent[d];
    return count;
}

/* Bytes per matrix that are read or written, at each time of a loop. */
static double bytes_through(const smm_planned *x) {
    double bytes = 0;
    for (int v = 0; v < x->values; v++)
        if (x->value[v].kind <= SMM_OUTPUT && v != x->info) bytes += fabs((double)x->value[v].batch);
    for (int c = 0; c < x->carries; c++) bytes -= 2 * (double)x->carry[c].carry.bytes;
    return bytes;
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
    }
    info->bytes = bytes_through(x);
    for (int c = 0; c < x->carries; c++) info->saved += 2 * (double)x->carry[c].carry.bytes;
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
    free(x->carry);
    free(x->for_outputs);
    free(x);
}

/* --- Loops ------------------------------------------------------------------------------------------ */

/* What is carried, and info, become values as they are in their slots, which are part of the buffer. */
static intptr_t enter_slots(const smm_loop *loop, smm_planned *x) {
    intptr_t bytes = 0;
    for (int c = 0; c < x->carries; c++) {
        planned_carry *carry = &x->carry[c];
        carry->carry = loop->carry[c];
        smm_value *from = &x->value[carry->carry.from], *to = &x->value[carry->carry.to];
        carry->last = from->batch;
        carry->first = to->batch;
        from->batch = to->batch = carry->carry.bytes;
        bytes += 2 * carry->carry.bytes;
    }
    if (x->carries < 0 || loop->info < 0) return bytes;
    x->info = loop->info;
    x->columns = loop->columns;
    x->info_stride = x->value[x->info].batch;
    x->value[x->info].batch = (intptr_t)sizeof(int32_t) * x->columns;
    return bytes + x->value[x->info].batch;
}

static intptr_t place_slot(smm_planned *x, intptr_t bytes) {
    const intptr_t at = x->workspace;
    x->workspace += (bytes * x->tile + SMM_LINE - 1) & -(intptr_t)SMM_LINE;
    return at;
}

static void place_slots(smm_planned *x) {
    for (int c = 0; c < x->carries; c++)
        for (int i = 0; i < 2; i++) x->carry[c].slot[i] = place_slot(x, x->carry[c].carry.bytes);
    if (x->info >= 0) x->info_slot = place_slot(x, x->value[x->info].batch);
}

static bool writes(const smm_step *step, int i) {
    return step->kind == SMM_STEP_CALL ? smm_operations[step->call.op].operand[i].direction & SMM_WRITTEN : i == 0;
}

void smm_find_steps_for_outputs(const smm_program *program, int carried[], bool for_outputs[]) {
    for (int s = 0; s < program->steps; s++)
        if (program->step[s].kind == SMM_STEP_UNLESS) return; /* it counts the steps that it leaves out */
    for (int s = program->steps - 1; s >= 0; s--) {
        const smm_step *step = &program->step[s];
        const int operands = smm_operands_of(step);
        for_outputs[s] = true;
        for (int i = 0; i < operands; i++)
            if (step->value[i] >= 0 && writes(step, i) && carried[step->value[i]]) for_outputs[s] = false;
        for (int i = 0; i < operands && !for_outputs[s]; i++)
            if (step->value[i] >= 0) carried[step->value[i]] = true;
    }
}

/* --- All together ----------------------------------------------------------------------------------- */

smm_status smm_plan_program(const smm_program *program, smm_planned **planned, smm_program_info *info) {
    *planned = NULL;
    if (!is_valid(program)) return SMM_ERR_ARGUMENT;
    const size_t values = (size_t)program->values, steps = (size_t)program->steps;
    const int carries = program->loop ? program->loop->carries : -1;
    smm_planned *x = calloc(1, sizeof *x);
    int *of_values = calloc(3 * values + 1, sizeof *of_values); /* when they are first and last used; whether carried */
    if (x) {
        *x = (smm_planned){.values = program->values, .steps = program->steps, .carries = carries, .info = -1};
        x->value = calloc(values + 1, sizeof *x->value);
        x->slot = calloc(values + 1, sizeof *x->slot);
        x->step = calloc(steps + 1, sizeof *x->step);
        x->carry = calloc((size_t)carries + 1, sizeof *x->carry);
        x->for_outputs = calloc(steps + 1, sizeof *x->for_outputs);
    }
    if (!of_values || !x || !x->value || !x->slot || !x->step || !x->carry || !x->for_outputs) {
        free(of_values);
        smm_free_program(x);
        return SMM_ERR_MEMORY;
    }
    for (size_t v = 0; v < values; v++) {
        x->value[v] = program->value[v];
        if (program->value[v].kind == SMM_CONSTANT) x->value[v].batch = 0;
    }
    const smm_program own = {program->values, program->steps, x->value, program->step, NULL};
    smm_program_info all = {.temporaries = place_temporaries(&own, x->slot, of_values, of_values + values)};
    const intptr_t slots = enter_slots(program->loop, x);
    x->tile = tile_of((double)(all.temporaries + slots) + bytes_through(x));
    smm_status status = SMM_OK;
    for (size_t s = 0; s < steps && !status; s++) status = plan_step(&own, &x->step[s], &program->step[s], x->tile);
    int *carried = of_values + 2 * values;
    for (int c = 0; c < carries; c++) carried[x->carry[c].carry.from] = true;
    if (!status && carries >= 0) smm_find_steps_for_outputs(&own, carried, x->for_outputs);
    free(of_values);
    if (status) {
        smm_free_program(x);
        return status;
    }
    for (size_t s = 0; s < steps; s++)
        if (x->step[s].step.kind == SMM_STEP_CALL && smm_workspace_size(&x->step[s].plan) > x->max_kernel_workspace)
            x->max_kernel_workspace = smm_workspace_size(&x->step[s].plan);
    for (size_t v = 0; v < values; v++) x->slot[v] *= x->tile;
    x->workspace = (all.temporaries * x->tile + SMM_LINE - 1) & -(intptr_t)SMM_LINE;
    place_slots(x);
    all.tile = x->tile;
    all.temporaries += slots;
    count_work(&own, x, &all);
    x->bytes = all.bytes;
    if (info) *info = all;
    *planned = x;
    return SMM_OK;
}
