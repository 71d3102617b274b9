/* ldl_pivots.h: the pivots of LDL^T, which the reference and the kernels read alike. They are LAPACK's (sytrf):
 * positive for a block of order 1, twice the same negative number for one of order 2; the number is a row, from 1. An
 * upper triangle is read as a lower one whose rows and columns are in reverse order. */
#ifndef SMM_LDL_PIVOTS_H
#define SMM_LDL_PIVOTS_H

#include "../smallmm.h"

static inline intptr_t smm_ldl_order(int32_t pivot) { return pivot > 0 ? 1 : 2; }
static inline intptr_t smm_ldl_row(int32_t pivot) { return (pivot > 0 ? pivot : -(intptr_t)pivot) - 1; }

/* Which row or column of A is number k of the lower triangle. */
static inline intptr_t smm_ldl_reversed(const smm_call *call, intptr_t k) {
    return call->form & SMM_UPPER ? call->n - 1 - k : k;
}

/* A pivot, counted from the other end where the order is reversed. 0, which is none, if it is no row. */
static inline int32_t smm_ldl_pivot(const smm_call *call, int32_t p) {
    const int32_t n = (int32_t)call->n;
    if (p > n || p < -n || !p) return 0;
    return !(call->form & SMM_UPPER) ? p : p > 0 ? n + 1 - p : -(n + 1) - p;
}

/* 0, or the first step, from 1 in A's order, whose pivot LDL does not give. */
static inline intptr_t smm_ldl_wrong_pivot(const smm_call *call, const int32_t *pivots) {
    const intptr_t n = call->n;
    for (intptr_t k = 0, order; k < n; k += order) {
        order = smm_ldl_order(pivots[k]);
        const intptr_t row = smm_ldl_row(pivots[k]);
        if (row < k + order - 1 || row >= n || k + order > n || pivots[k + order - 1] != pivots[k])
            return smm_ldl_reversed(call, k) + 1;
    }
    return 0;
}

#endif
