/* singular.c: decides which suspect matrices are singular, and which overflow.
 *
 * The inverse eliminates the transpose of A, so it does not see the pivots of LU. Where these may be zero the kernel
 * marks the matrix as suspect, and LU decides. So all functions agree on which matrices are singular. A matrix of
 * which LU does not say so, and whose inverse overflows, has info n. */
#include "core.h"

static int32_t *info_of(const smm_call *call, intptr_t q) {
    return (int32_t *)((char *)call->inv.info.data + q * call->inv.info.batch);
}

/* Whether some element of matrix q is of a kind. */
static bool some(const smm_call *call, const smm_operand *x, intptr_t q, bool (*is)(double)) {
    for (intptr_t i = 0; i < call->n; i++)
        for (intptr_t j = 0; j < call->n; j++)
            if (is(smm_get((const char *)x->data + q * x->batch + i * x->row + j * x->col, call->dtype))) return true;
    return false;
}
static bool is_nan(double x) { return isnan(x); }
static bool is_infinite_or_nan(double x) { return !isfinite(x); }

/* Matrices q .. q+count-1, all suspect. */
enum { TOGETHER = 64 };
static void confirm(const smm_call *call, intptr_t q, intptr_t count, smm_status (*run)(const smm_call *)) {
    double det[TOGETHER];
    int32_t info[TOGETHER] = {0};
    const intptr_t size = smm_size(call->dtype);
    smm_call lu = {.op = SMM_OP_DET, .dtype = call->dtype, .batch = count, .n = call->n};
    lu.det = (smm_det_operands){
        .a = call->a, .det = {det, size, size, size}, .info = {info, sizeof *info, sizeof *info, sizeof *info}};
    lu.a.data = (char *)call->a.data + q * call->a.batch;
    run(&lu);
    for (intptr_t i = 0; i < count; i++) {
        int32_t *const its = info_of(call, q + i);
        const bool overflows = *its == SMM_OVERFLOW || some(call, &call->inv.inverse, q + i, is_nan);
        if (!info[i] && overflows && !some(call, &call->a, q + i, is_infinite_or_nan)) info[i] = (int32_t)call->n;
        if (info[i] || *its == SMM_OVERFLOW) smm_fill_nan(&call->inv.inverse, q + i, call->dtype, call->n, call->n);
        *its = info[i];
    }
}

void smm_confirm_singular(const smm_call *call, intptr_t first, intptr_t last, smm_status (*run)(const smm_call *)) {
    for (intptr_t q = first; q < last;) {
        intptr_t count = 0;
        while (q + count < last && count < TOGETHER && *info_of(call, q + count) < 0) count++;
        if (count) confirm(call, q, count, run);
        q += count ? count : 1;
    }
}
