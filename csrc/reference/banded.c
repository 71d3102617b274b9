/* banded.c: solves with matrices of few diagonals, of any order: LAPACK's gttrf, gbtf2, pbtf2 (Golub and Van Loan,
 * Matrix Computations, section 4.3), and what solves by them. */
#include <stdlib.h>
#include <string.h>

#include "reference.h"

/* As many numbers as asked for; NULL: there is no memory for them, and every result is NaN. */
static double *numbers(intptr_t count) { return calloc((size_t)count + 1, sizeof(double)); }

static void swap(double *x, double *y) {
    const double was = *x;
    *x = *y;
    *y = was;
}

/* w: dl, d, du, du2, x of n each. Returns info. */
static intptr_t tridiagonal(const smm_call *call, intptr_t q, double *w) {
    const smm_dtype dtype = call->dtype;
    const intptr_t n = call->n;
    const smm_solve_tridiagonal_operands *o = &call->solve_tridiagonal;
    double *dl = w, *d = w + n, *du = w + 2 * n, *du2 = w + 3 * n, *x = w + 4 * n;
    for (intptr_t k = 0; k < (call->k ? call->k : 1); k++) {
        intptr_t info = 0;
        memset(w, 0, sizeof(double) * 4 * (size_t)n);
        for (intptr_t i = 0; i < n; i++) {
            d[i] = get(&o->d, dtype, q, i, 0);
            x[i] = call->k ? get(&o->b, dtype, q, i, k) : 0;
            if (i + 1 < n) dl[i] = get(&o->dl, dtype, q, i, 0), du[i] = get(&o->du, dtype, q, i, 0);
        }
        for (intptr_t i = 0; i + 1 < n; i++) {
            const bool swaps = !(call->form & SMM_UNPIVOTED) && fabs(dl[i]) > fabs(d[i]);
            if (swaps) {
                swap(&d[i], &dl[i]);
                swap(&du[i], &d[i + 1]);
                swap(&x[i], &x[i + 1]);
                du2[i] = i + 2 < n ? du[i + 1] : 0;
            }
            if (is_useless(d[i]) && !info) info = i + 1;
            const double l = round_in(dtype, dl[i] / d[i]);
            d[i + 1] = fma_in(dtype, -l, du[i], d[i + 1]);
            if (swaps && i + 2 < n) du[i + 1] = fma_in(dtype, -l, du2[i], 0);
            x[i + 1] = fma_in(dtype, -l, x[i], x[i + 1]);
        }
        if (is_useless(d[n - 1]) && !info) info = n;
        for (intptr_t i = n - 1; i >= 0; i--) {
            if (i + 1 < n) x[i] = fma_in(dtype, -du[i], x[i + 1], x[i]);
            if (i + 2 < n && !(call->form & SMM_UNPIVOTED)) x[i] = fma_in(dtype, -du2[i], x[i + 2], x[i]);
            x[i] = round_in(dtype, x[i] / d[i]);
        }
        for (intptr_t i = 0; i < n && call->k; i++) put(&o->x, dtype, q, i, k, info ? NAN : x[i]);
        if (info || k + 1 >= call->k) {
            for (k++; k < call->k; k++)
                for (intptr_t i = 0; i < n; i++) put(&o->x, dtype, q, i, k, NAN);
            return info;
        }
    }
    return 0;
}

/* Element (i, j) of a matrix of `lower` diagonals below the main one and `all` on either side of it at most. */
static double *element(double *w, intptr_t n, intptr_t all, intptr_t i, intptr_t j) {
    return w + (all + i - j) * n + j;
}

static intptr_t banded(const smm_call *call, intptr_t q, double *w) {
    const smm_dtype dtype = call->dtype;
    const intptr_t n = call->n, m = call->m, all = m - 1;
    const smm_solve_banded_operands *o = &call->solve_banded;
    const intptr_t lower = smm_lower_of(call, q);
    double *x = w + 2 * m * n;
    intptr_t info = lower < 0 ? -1 : 0;
    for (intptr_t k = 0; k < (call->k ? call->k : 1) && !info; k++) {
        memset(w, 0, sizeof(double) * (size_t)(2 * m * n));
        for (intptr_t r = 0; r < m; r++)
            for (intptr_t j = 0; j < n; j++) w[(lower + r) * n + j] = get(&o->ab, dtype, q, r, j);
        for (intptr_t i = 0; i < n; i++) x[i] = call->k ? get(&o->b, dtype, q, i, k) : 0;
        for (intptr_t j = 0; j < n; j++) {
            const intptr_t bottom = least(j + lower, n - 1), right = least(j + all, n - 1);
            intptr_t p = j;
            for (intptr_t i = j + 1; i <= bottom; i++)
                if (fabs(*element(w, n, all, i, j)) > fabs(*element(w, n, all, p, j))) p = i;
            for (intptr_t c = j; c <= right && p > j; c++) swap(element(w, n, all, j, c), element(w, n, all, p, c));
            swap(&x[j], &x[p]);
            const double pivot = *element(w, n, all, j, j);
            if (is_useless(pivot) && !info) info = j + 1;
            for (intptr_t i = j + 1; i <= bottom; i++) {
                const double l = quotient(dtype, *element(w, n, all, i, j), pivot);
                for (intptr_t c = j + 1; c <= right; c++) {
                    double *a = element(w, n, all, i, c);
                    *a = fma_in(dtype, -l, *element(w, n, all, j, c), *a);
                }
                x[i] = fma_in(dtype, -l, x[j], x[i]);
            }
        }
        for (intptr_t j = n - 1; j >= 0; j--) {
            x[j] = quotient(dtype, x[j], *element(w, n, all, j, j));
            for (intptr_t i = j - 1; i >= 0 && i >= j - all; i--)
                x[i] = fma_in(dtype, -*element(w, n, all, i, j), x[j], x[i]);
        }
        for (intptr_t i = 0; i < n && call->k; i++) put(&o->x, dtype, q, i, k, x[i]);
    }
    for (intptr_t i = 0; i < n && info; i++)
        for (intptr_t k = 0; k < call->k; k++) put(&o->x, dtype, q, i, k, NAN);
    return info;
}

/* w[(i - j) * n + j]: the lower triangle. */
static intptr_t definite(const smm_call *call, intptr_t q, double *w) {
    const smm_dtype dtype = call->dtype;
    const intptr_t n = call->n, m = call->m;
    const smm_solveh_banded_operands *o = &call->solveh_banded;
    double *r = w + m * n, *x = r + n;
    intptr_t info = 0;
    for (intptr_t j = 0; j < n; j++)
        for (intptr_t t = 0; t < m && j + t < n; t++)
            w[t * n + j] =
                call->form & SMM_UPPER ? get(&o->ab, dtype, q, m - 1 - t, j + t) : get(&o->ab, dtype, q, t, j);
    for (intptr_t j = 0; j < n && !info; j++) {
        if (!(w[j] > 0)) info = j + 1;
        r[j] = round_in(dtype, 1 / round_in(dtype, sqrt(w[j])));
        const intptr_t below = least(m - 1, n - 1 - j);
        for (intptr_t t = 1; t <= below; t++) w[t * n + j] = round_in(dtype, w[t * n + j] * r[j]);
        for (intptr_t s = 1; s <= below; s++)
            for (intptr_t t = s; t <= below; t++) {
                double *a = &w[(t - s) * n + j + s];
                *a = fma_in(dtype, -w[t * n + j], w[s * n + j], *a);
            }
    }
    for (intptr_t k = 0; k < call->k; k++) {
        for (intptr_t i = 0; i < n; i++) x[i] = get(&o->b, dtype, q, i, k);
        for (intptr_t j = 0; j < n; j++) {
            x[j] = round_in(dtype, x[j] * r[j]);
            for (intptr_t t = 1; t < m && j + t < n; t++) x[j + t] = fma_in(dtype, -w[t * n + j], x[j], x[j + t]);
        }
        for (intptr_t j = n - 1; j >= 0; j--) {
            for (intptr_t t = least(m - 1, n - 1 - j); t >= 1; t--) x[j] = fma_in(dtype, -w[t * n + j], x[j + t], x[j]);
            x[j] = round_in(dtype, x[j] * r[j]);
        }
        for (intptr_t i = 0; i < n; i++) put(&o->x, dtype, q, i, k, info ? NAN : x[i]);
    }
    return info;
}

void smm_reference_banded(const smm_call *call) {
    const intptr_t n = call->n;
    const bool three = call->op == SMM_OP_SOLVE_TRIDIAGONAL, any = call->op == SMM_OP_SOLVE_BANDED;
    double *w = numbers(n * (three ? 8 : 2 * call->m + 10));
    for (intptr_t q = 0; q < call->batch; q++) {
        intptr_t info = 0;
        if (n && w) info = (three ? tridiagonal : any ? banded : definite)(call, q, w);
        put_int(smm_info(call), q, 0, info);
    }
    free(w);
}
