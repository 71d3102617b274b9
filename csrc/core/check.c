/* check.c: mistakes that smm_run does not look for. */
#include "operations.h"

/* The bytes of an operand: those of its first matrix, and from the first to the last of all matrices. */
typedef struct span {
    intptr_t matrix, bytes, first, end;
} span;

static void extend(span *s, intptr_t count, intptr_t stride) {
    const intptr_t last = (count - 1) * stride;
    *(last < 0 ? &s->first : &s->end) += last;
}

static span span_of(const smm_call *c, int i, intptr_t rows, intptr_t cols) {
    const smm_operand *x = &c->operand[i];
    span s = {.first = (intptr_t)x->data, .end = (intptr_t)x->data + smm_size_of(c->op, c->dtype, i)};
    extend(&s, rows, x->row);
    extend(&s, cols, x->col);
    s.matrix = s.first;
    s.bytes = s.end - s.first;
    extend(&s, c->batch, x->batch);
    for (int d = 0; c->outer && d < c->outer->dims; d++) extend(&s, c->outer->extent[d], c->outer->stride[d][i]);
    return s;
}

/* Matrices that lie in turn, as those of an array of structs, do not overlap. */
static bool lie_in_turn(const smm_call *c, const span *a, const span *b, intptr_t step, intptr_t other) {
    if (c->outer || step != other || !step) return false;
    const intptr_t period = step < 0 ? -step : step, rest = (b->matrix - a->matrix) % period;
    const intptr_t apart = rest < 0 ? rest + period : rest;
    return apart >= a->bytes && period - apart >= b->bytes;
}

smm_status smm_check(const smm_call *call) {
    smm_plan_info plan;
    const smm_status status = smm_explain(call, &plan);
    if (status) return status;
    if (!call->batch) return SMM_ERR_EMPTY;
    for (int d = 0; call->outer && d < call->outer->dims; d++)
        if (!call->outer->extent[d]) return SMM_ERR_EMPTY;
    const smm_operation *operation = &smm_operations[call->op];
    span spans[SMM_MOST_OPERANDS];
    for (int i = 0; i < operation->count; i++) {
        intptr_t rows, cols;
        smm_sizes_of(call->op, i, call->m, call->n, call->k, &rows, &cols);
        if (!rows || !cols) return SMM_ERR_EMPTY;
        spans[i] = span_of(call, i, rows, cols);
    }
    for (int i = 0; i < operation->count; i++)
        for (int j = 0; j < operation->count; j++) {
            const smm_operand *x = &call->operand[i], *y = &call->operand[j];
            if (i == j || !x->data || !y->data || !(operation->operand[i].direction & SMM_WRITTEN)) continue;
            const bool apart = spans[i].end <= spans[j].first || spans[j].end <= spans[i].first;
            if (!apart && !lie_in_turn(call, &spans[i], &spans[j], x->batch, y->batch)) return SMM_ERR_OVERLAP;
        }
    return SMM_OK;
}
