/* ldl_scalars.h: L D L^T with the pivoting of Bunch and Kaufman, and solves by it, one matrix after the other: which
 * rows a step exchanges and how large its block is differs from matrix to matrix. The lower triangle lies by columns:
 * what a step does to a column is a loop over neighbours. */

#include "../ldl_pivots.h"

INLINE T ldl_size(T x) { return x < 0 ? -x : x; }

INLINE void ldl_swap(T *x, T *y) {
    const T was = *x;
    *x = *y;
    *y = was;
}

/* y -= l x, from element `from` on. */
INLINE void ldl_subtract(T *restrict y, T l, const T *restrict x, intptr_t from, intptr_t n) {
    for (intptr_t i = from; i < n; i++) y[i] = scalar_fma(-x[i], l, y[i]);
}

/* The largest magnitude in row and column r of what is left at step k, without the diagonal. */
INLINE T ldl_largest_beside(const T *a, intptr_t n, intptr_t k, intptr_t r) {
    T most = 0;
    for (intptr_t j = k; j < r; j++) most = ldl_size(a[j * n + r]) > most ? ldl_size(a[j * n + r]) : most;
    for (intptr_t i = r + 1; i < n; i++) most = ldl_size(a[r * n + i]) > most ? ldl_size(a[r * n + i]) : most;
    return most;
}

/* The order of the block at step k, 1 or 2, and the row p that comes to its end; 0: the pivot is zero or NaN. */
INLINE intptr_t ldl_choose(const T *a, intptr_t n, intptr_t k, intptr_t *p) {
    const T alpha = (T)((1 + 4.1231056256176605498) / 8); /* the square root of 17 */
    const T *const column = a + k * n;
    intptr_t far = k;
    T most = 0;
    for (intptr_t i = k + 1; i < n; i++)
        if (ldl_size(column[i]) > most) most = ldl_size(column[i]), far = i;
    const T own = ldl_size(column[k]), bound = alpha * most;
    *p = k;
    if (!(own > 0 || most > 0) || own != own) return 0;
    if (own >= bound) return 1;
    const T row = ldl_largest_beside(a, n, k, far);
    if (own >= bound * (most / row)) return 1;
    *p = far;
    return ldl_size(a[far * n + far]) >= alpha * row ? 1 : 2;
}

/* Exchanges rows and columns `last` and p > last of what is left at step k. */
INLINE void ldl_exchange(T *a, intptr_t n, intptr_t k, intptr_t last, intptr_t p) {
    for (intptr_t i = p + 1; i < n; i++) ldl_swap(&a[last * n + i], &a[p * n + i]);
    for (intptr_t j = last + 1; j < p; j++) ldl_swap(&a[last * n + j], &a[j * n + p]);
    ldl_swap(&a[last * n + last], &a[p * n + p]);
    if (last > k) ldl_swap(&a[k * n + last], &a[k * n + p]);
}

/* The triangle becomes L and D; returns info. Step k exchanges the last row of its block with that of pivots[k], from 1
 * (Golub and Van Loan, Matrix Computations, section 4.4; LAPACK's sytf2). */
INLINE intptr_t ldl_factor(T *restrict a, intptr_t n, int32_t *pivots) {
    intptr_t info = 0;
    for (intptr_t k = 0, order; k < n; k += order) {
        T *const x = a + k * n, *const y = x + n;
        intptr_t p;
        const intptr_t chosen = ldl_choose(a, n, k, &p);
        order = chosen == 2 ? 2 : 1;
        if (p != k + order - 1) ldl_exchange(a, n, k, k + order - 1, p);
        if (order == 1) {
            pivots[k] = (int32_t)(p + 1);
            if (!chosen) {
                info = info ? info : k + 1;
                continue;
            }
            for (intptr_t j = k + 1; j < n; j++) { /* x is of L above row j */
                const T l = x[j] / x[k];
                ldl_subtract(a + j * n, l, x, j, n);
                x[j] = l;
            }
        } else {
            pivots[k] = pivots[k + 1] = -(int32_t)(p + 1);
            const T e = x[k + 1], d1 = y[k + 1] / e, d0 = x[k] / e, scale = 1 / scalar_fma(d1, d0, -1) / e;
            for (intptr_t j = k + 2; j < n; j++) {
                const T l0 = scale * scalar_fma(d1, x[j], -y[j]), l1 = scale * scalar_fma(d0, y[j], -x[j]);
                ldl_subtract(a + j * n, l0, x, j, n);
                ldl_subtract(a + j * n, l1, y, j, n);
                x[j] = l0;
                y[j] = l1;
            }
        }
    }
    return info;
}

/* x becomes the solution (LAPACK's sytrs). */
INLINE void ldl_solve(const T *a, const int32_t *pivots, intptr_t n, T *x) {
    for (intptr_t k = 0, order; k < n; k += order) {
        const T *const column = a + k * n;
        order = smm_ldl_order(pivots[k]);
        ldl_swap(&x[k + order - 1], &x[smm_ldl_row(pivots[k])]);
        ldl_subtract(x, x[k], column, k + order, n);
        if (order == 1) {
            x[k] /= column[k];
            continue;
        }
        ldl_subtract(x, x[k + 1], column + n, k + order, n);
        const T e = column[k + 1], d0 = column[k] / e, d1 = column[n + k + 1] / e;
        const T det = scalar_fma(d0, d1, -1), y0 = x[k] / e, y1 = x[k + 1] / e;
        x[k] = scalar_fma(d1, y0, -y1) / det;
        x[k + 1] = scalar_fma(d0, y1, -y0) / det;
    }
    for (intptr_t end = n, order; end > 0; end -= order) {
        order = smm_ldl_order(pivots[end - 1]);
        for (intptr_t j = end - order; j < end; j++)
            for (intptr_t i = end; i < n; i++) x[j] = scalar_fma(-a[j * n + i], x[i], x[j]);
        ldl_swap(&x[end - 1], &x[smm_ldl_row(pivots[end - 1])]);
    }
}

/* Row i of the lower triangle, or of a vector. */
INLINE char *ldl_place(const smm_call *call, const smm_operand *x, intptr_t q, intptr_t i) {
    return (char *)x->data + q * x->batch + smm_ldl_turned(call, i) * x->row;
}

INLINE T *ldl_element(const smm_call *call, const smm_operand *x, intptr_t q, intptr_t i, intptr_t j) {
    return (T *)(ldl_place(call, x, q, i) + smm_ldl_turned(call, j) * x->col);
}

INLINE void ldl_load(const smm_call *call, intptr_t q, T *a) {
    const intptr_t n = call->n;
    for (intptr_t i = 0; i < n; i++)
        for (intptr_t j = 0; j <= i; j++) a[j * n + i] = *ldl_element(call, &call->a, q, i, j);
}

/* X of matrix q; NaN if it has none. */
INLINE void ldl_solve_all(const smm_call *call, const smm_operand *b, const smm_operand *to, intptr_t q, const T *a,
                          const int32_t *pivots, bool none) {
    const intptr_t n = call->n;
    for (intptr_t k = 0; k < call->k; k++) {
        T x[SMM_MOST_ORDER];
        for (intptr_t i = 0; i < n; i++) x[i] = *(const T *)(ldl_place(call, b, q, i) + k * b->col);
        if (!none) ldl_solve(a, pivots, n, x);
        for (intptr_t i = 0; i < n; i++) *(T *)(ldl_place(call, to, q, i) + k * to->col) = none ? NAN : x[i];
    }
}

INLINE void ldl_store_info(const smm_operand *to, intptr_t q, intptr_t info) {
    if (to->data) *(int32_t *)((char *)to->data + q * to->batch) = (int32_t)info;
}

/* A step, from 1, as A's row, from 1. */
INLINE intptr_t ldl_info(const smm_call *call, intptr_t step) { return step ? smm_ldl_turned(call, step - 1) + 1 : 0; }

static void KERNEL(ldl_scalars)(const smm_call *call, intptr_t first, intptr_t last, smm_behind *cold) {
    (void)cold;
    const intptr_t n = call->n;
    const smm_ldl_operands *o = &call->ldl;
    for (intptr_t q = first; q < last; q++) {
        T a[SMM_MOST_ORDER * SMM_MOST_ORDER];
        int32_t pivots[SMM_MOST_ORDER];
        ldl_load(call, q, a);
        const intptr_t info = ldl_factor(a, n, pivots);
        for (intptr_t i = 0; i < n; i++) {
            for (intptr_t j = 0; j < n; j++)
                *ldl_element(call, &o->ld, q, i, j) = info ? NAN : j <= i ? a[j * n + i] : 0;
            *(int32_t *)ldl_place(call, &o->pivots, q, i) = smm_ldl_pivot(call, pivots[i]);
        }
        ldl_store_info(&o->info, q, ldl_info(call, info));
    }
}

static void KERNEL(ldl_solve_scalars)(const smm_call *call, intptr_t first, intptr_t last, smm_behind *cold) {
    (void)cold;
    const smm_ldl_solve_operands *o = &call->ldl_solve;
    for (intptr_t q = first; q < last; q++) {
        T a[SMM_MOST_ORDER * SMM_MOST_ORDER];
        int32_t pivots[SMM_MOST_ORDER];
        ldl_load(call, q, a);
        for (intptr_t i = 0; i < call->n; i++)
            pivots[i] = smm_ldl_pivot(call, *(const int32_t *)ldl_place(call, &o->pivots, q, i));
        const intptr_t wrong = smm_ldl_wrong_pivot(call, pivots);
        ldl_solve_all(call, &o->b, &o->x, q, a, pivots, wrong);
        ldl_store_info(&o->info, q, -wrong);
    }
}

static void KERNEL(solve_sym_scalars)(const smm_call *call, intptr_t first, intptr_t last, smm_behind *cold) {
    (void)cold;
    const smm_solve_sym_operands *o = &call->solve_sym;
    for (intptr_t q = first; q < last; q++) {
        T a[SMM_MOST_ORDER * SMM_MOST_ORDER];
        int32_t pivots[SMM_MOST_ORDER];
        ldl_load(call, q, a);
        const intptr_t info = ldl_factor(a, call->n, pivots);
        ldl_solve_all(call, &o->b, &o->x, q, a, pivots, info);
        ldl_store_info(&o->info, q, ldl_info(call, info));
    }
}
