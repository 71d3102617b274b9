/* stored.c: calls of a type that is only stored: the operands as numbers of the type that it is computed in, dense, one
 * matrix at a time, and the outputs back, rounded once. */
#include <stdlib.h>

#include "reference.h"

/* Operand i of matrix q to x, or back. */
static void copy(const smm_call *call, int i, intptr_t q, const smm_operand *x, bool back) {
    const smm_dtype stored = call->dtype, computed = smm_dtypes[stored].computed;
    intptr_t rows, cols;
    smm_sizes_of(call->op, i, call->m, call->n, call->k, &rows, &cols);
    for (intptr_t r = 0; r < rows; r++)
        for (intptr_t c = 0; c < cols; c++)
            if (back)
                put(&call->operand[i], stored, q, r, c, get(x, computed, 0, r, c));
            else
                put(x, computed, 0, r, c, get(&call->operand[i], stored, q, r, c));
}

static void run_one(const smm_call *call, intptr_t q) {
    const smm_operation *operation = &smm_operations[call->op];
    smm_call one = *call;
    bool has_memory = true;
    one.batch = 1;
    one.dtype = smm_dtypes[call->dtype].computed;
    for (int i = 0; i < operation->count; i++) {
        const smm_operand *x = &call->operand[i];
        const intptr_t size = smm_size_of(call->op, one.dtype, i);
        intptr_t rows, cols;
        if (!x->data) continue;
        smm_sizes_of(call->op, i, call->m, call->n, call->k, &rows, &cols);
        if (!smm_is_converted(call->op, call->dtype, i)) {
            one.operand[i].data = (char *)x->data + q * x->batch;
            continue;
        }
        one.operand[i] = (smm_operand){malloc((size_t)(rows * cols * size + 1)), 0, cols * size, size};
        has_memory = has_memory && one.operand[i].data;
        if (has_memory) copy(call, i, q, &one.operand[i], false);
    }
    if (has_memory) smm_reference_whole(&one);
    for (int i = 0; i < operation->count; i++) {
        if (!call->operand[i].data || !smm_is_converted(call->op, call->dtype, i)) continue;
        if (operation->operand[i].direction & SMM_WRITTEN && has_memory) copy(call, i, q, &one.operand[i], true);
        free(one.operand[i].data);
    }
}

void smm_reference_stored(const smm_call *call) {
    for (intptr_t q = 0; q < call->batch; q++) run_one(call, q);
}
