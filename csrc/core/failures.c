/* failures.c: whether matrices failed, by their info, or by results that are not finite. */
#include "core.h"

/* Whether any of `count` numbers, so many bytes apart, is not 0. */
static inline bool any_nonzero(const char *x, intptr_t step, intptr_t count) {
    int32_t any = 0;
    for (intptr_t q = 0; q < count; q++) any |= *(const int32_t *)(x + q * step);
    return any;
}

bool smm_any_failed(const smm_call *call, intptr_t first, intptr_t last) {
    if (smm_roles_of[call->op].info < 0 || !smm_info(call)->data) return false;
    const char *info = smm_at(smm_info(call), first, 0, 0);
    const intptr_t step = smm_info(call)->batch, item = sizeof(int32_t);
    /* The constant step is for the compiler, which then looks at vectors. */
    return step == item ? any_nonzero(info, item, last - first) : any_nonzero(info, step, last - first);
}

/* The first output of real numbers, or else the first: NaN reaches its first row from anywhere. */
static int witness_of(smm_op op) {
    int witness = -1;
    for (int i = smm_operations[op].count - 1; i >= 0; i--)
        if (smm_operations[op].operand[i].direction & SMM_WRITTEN) {
            const bool is_real = smm_operations[op].operand[i].element == SMM_REAL;
            if (is_real || witness < 0 || smm_operations[op].operand[witness].element != SMM_REAL) witness = i;
        }
    return witness;
}

static bool are_numbers_finite(const char *x, intptr_t step, intptr_t count, smm_dtype real) {
    bool finite = true;
    if (real == SMM_F32)
        for (intptr_t q = 0; q < count; q++) finite &= isfinite(*(const float *)(x + q * step));
    else
        for (intptr_t q = 0; q < count; q++) finite &= isfinite(*(const double *)(x + q * step));
    return finite;
}

bool smm_are_finite(const smm_call *call, intptr_t first, intptr_t last) {
    const int w = witness_of(call->op);
    const smm_operand *x = &call->operand[w];
    const smm_dtype dtype = smm_type_of(call->op, call->dtype, w), real = smm_dtypes[dtype].real;
    intptr_t rows, cols;
    smm_sizes_of(call->op, w, call->m, call->n, call->k, &rows, &cols);
    if (call->op == SMM_OP_INV) cols = 1; /* one solution tells of A */
    bool finite = true;
    for (intptr_t j = 0; j < cols && rows && x->data; j++)
        for (intptr_t part = 0; part < smm_size(dtype); part += smm_size(real))
            finite &= are_numbers_finite((const char *)smm_at(x, first, 0, j) + part, x->batch, last - first, real);
    return finite;
}
