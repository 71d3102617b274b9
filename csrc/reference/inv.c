/* inv.c: the inverse, by Gauss-Jordan elimination in place with partial pivoting (Higham, Accuracy and Stability of
 * Numerical Algorithms, section 14.4). */
#include "reference.h"

static void exchange(double *x, double *y) {
    const double z = *x;
    *x = *y;
    *y = z;
}

/* Step k, a_kk being the pivot. Column k of the identity takes the place of column k of A, which is eliminated with the
 * multipliers of LU, so that the pivots are LU's: f_i = a_ik / a_kk, a_ik = 0 or 1; a_ij = a_ij - f_i a_kj for i != k;
 * at last a_kj = a_kj / a_kk. */
static void eliminate(smm_dtype dtype, matrix a, intptr_t n, intptr_t k) {
    const double r = round_in(dtype, 1 / a[k][k]);
    double f[SMM_MOST_ORDER];
    for (intptr_t i = 0; i < n; i++) {
        f[i] = round_in(dtype, a[i][k] * r);
        a[i][k] = i == k;
    }
    for (intptr_t i = 0; i < n; i++)
        for (intptr_t j = 0; i != k && j < n; j++) a[i][j] = fma_in(dtype, -f[i], a[k][j], a[i][j]);
    for (intptr_t j = 0; j < n; j++) a[k][j] = round_in(dtype, a[k][j] * r);
}

/* A becomes its inverse; or the step (from 1) whose pivot is zero is returned. */
static intptr_t invert(smm_dtype dtype, matrix a, intptr_t n) {
    intptr_t pivots[SMM_MOST_ORDER];
    for (intptr_t k = 0; k < n; k++) {
        const intptr_t p = pivots[k] = pivot_row(a, n, k);
        if (a[p][k] == 0) return k + 1;
        for (intptr_t j = 0; j < n && p != k; j++) exchange(&a[k][j], &a[p][j]);
        eliminate(dtype, a, n, k);
    }
    /* This is the inverse of P A, P the product of the exchanges: the inverse of A has its columns exchanged. */
    for (intptr_t k = n - 1; k >= 0; k--)
        for (intptr_t i = 0; i < n && pivots[k] != k; i++) exchange(&a[i][k], &a[i][pivots[k]]);
    return 0;
}

void smm_reference_inv(const smm_call *call) {
    const intptr_t n = call->n;
    for (intptr_t q = 0; q < call->batch; q++) {
        matrix a;
        for (intptr_t i = 0; i < n; i++)
            for (intptr_t j = 0; j < n; j++) a[i][j] = get(&call->a, call->dtype, q, i, j);
        const intptr_t info = invert(call->dtype, a, n);
        for (intptr_t i = 0; i < n; i++)
            for (intptr_t j = 0; j < n; j++) put(&call->c, call->dtype, q, i, j, info ? NAN : a[i][j]);
        put_int(&call->info, q, 0, info);
    }
}
