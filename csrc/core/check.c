/* check.c: mistakes that smm_run does not look for. */
#include "core.h"

/* Matrices that lie in turn, as those of an array of structs, do not overlap. */
static bool lie_in_turn(const smm_call *call, int i, int j) {
    const intptr_t step = call->operand[i].batch, period = smm_abs(step);
    if (call->outer || step != call->operand[j].batch || !step) return false;
    smm_call one = *call;
    one.batch = 1;
    const smm_span a = smm_span_of(&one, i), b = smm_span_of(&one, j);
    const intptr_t rest = (b.low - a.low) % period, apart = rest < 0 ? rest + period : rest;
    return apart >= a.high - a.low && period - apart >= b.high - b.low;
}

smm_status smm_check(const smm_call *call) {
    smm_plan_info plan;
    const smm_status status = smm_explain(call, &plan);
    if (status) return status;
    if (!call->batch) return SMM_ERR_EMPTY;
    for (int d = 0; call->outer && d < call->outer->dims; d++)
        if (!call->outer->extent[d]) return SMM_ERR_EMPTY;
    const smm_operation *operation = &smm_operations[call->op];
    smm_span spans[SMM_MAX_OPERANDS];
    for (int i = 0; i < operation->count; i++) {
        intptr_t rows, cols;
        smm_sizes_of(call->op, i, call->m, call->n, call->k, &rows, &cols);
        if (!rows || !cols) return SMM_ERR_EMPTY;
        spans[i] = smm_span_of(call, i);
    }
    for (int i = 0; i < operation->count; i++)
        for (int j = 0; j < operation->count; j++) {
            const smm_operand *x = &call->operand[i], *y = &call->operand[j];
            if (i == j || !x->data || !y->data || !(operation->operand[i].direction & SMM_WRITTEN)) continue;
            if (smm_do_spans_meet(&spans[i], &spans[j]) && !lie_in_turn(call, i, j)) return SMM_ERR_OVERLAP;
        }
    return SMM_OK;
}
