/* ldl.c: L D L^T of symmetric matrices with the pivoting of Bunch and Kaufman (1977), and solves by it. */
#include "../ldl_pivots.h"
#include "reference.h"

static void swap(double *x, double *y) {
    const double was = *x;
    *x = *y;
    *y = was;
}

/* Element (i, j) or (j, i), whichever is in the lower triangle. */
static double *beside(matrix a, intptr_t i, intptr_t j) { return i > j ? &a[i][j] : &a[j][i]; }

/* The largest magnitude in column r of the matrix that is left at step k, without the diagonal, and its row. */
static double largest(matrix a, intptr_t n, intptr_t k, intptr_t r, intptr_t *row) {
    double most = 0;
    for (intptr_t i = k; i < n; i++)
        if (i != r && fabs(*beside(a, i, r)) > most) most = fabs(*beside(a, i, r)), *row = i;
    return most;
}

/* The lower triangle becomes L and D; returns info. Step k exchanges the last row of its block with that of pivots[k],
 * from 1 (Golub and Van Loan, Matrix Computations, section 4.4; LAPACK's sytf2). */
static intptr_t factor(smm_dtype dtype, matrix a, intptr_t n, int32_t *pivots) {
    const double alpha = round_in(dtype, (1 + 4.1231056256176605498) / 8); /* the square root of 17 */
    intptr_t info = 0;
    for (intptr_t k = 0, order; k < n; k += order) {
        intptr_t r = k, p = k, other;
        const double own = fabs(a[k][k]), most = largest(a, n, k, k, &r), bound = round_in(dtype, alpha * most);
        const bool none = !(own > 0 || most > 0) || isnan(own);
        order = 1;
        if (!none && !(own >= bound)) {
            const double of_r = largest(a, n, k, r, &other);
            if (!(own >= round_in(dtype, bound * round_in(dtype, most / of_r)))) {
                p = r;
                order = fabs(a[r][r]) >= round_in(dtype, alpha * of_r) ? 1 : 2;
            }
        }
        const intptr_t last = k + order - 1;
        for (intptr_t i = k; i < n && p != last; i++)
            if (i != last && i != p) swap(beside(a, i, last), beside(a, i, p));
        swap(&a[last][last], &a[p][p]);
        pivots[k] = pivots[last] = (int32_t)(order == 1 ? p + 1 : -(p + 1));
        if (none) {
            info = info ? info : k + 1;
        } else if (order == 1) {
            double l[SMM_MOST_ORDER];
            for (intptr_t i = k + 1; i < n; i++) l[i] = round_in(dtype, a[i][k] / a[k][k]);
            for (intptr_t i = k + 1; i < n; i++)
                for (intptr_t j = k + 1; j <= i; j++) a[i][j] = fma_in(dtype, -a[i][k], l[j], a[i][j]);
            for (intptr_t i = k + 1; i < n; i++) a[i][k] = l[i];
        } else { /* the inverse of the block, scaled by the element beside its diagonal */
            double l[2][SMM_MOST_ORDER];
            const double e = a[k + 1][k], d0 = round_in(dtype, a[k][k] / e), d1 = round_in(dtype, a[k + 1][k + 1] / e);
            const double scale = round_in(dtype, reciprocal(dtype, fma_in(dtype, d1, d0, -1)) / e);
            for (intptr_t i = k + 2; i < n; i++) {
                l[0][i] = round_in(dtype, scale * fma_in(dtype, d1, a[i][k], -a[i][k + 1]));
                l[1][i] = round_in(dtype, scale * fma_in(dtype, d0, a[i][k + 1], -a[i][k]));
            }
            for (intptr_t i = k + 2; i < n; i++)
                for (intptr_t j = k + 2; j <= i; j++)
                    for (intptr_t s = 0; s < 2; s++) a[i][j] = fma_in(dtype, -a[i][k + s], l[s][j], a[i][j]);
            for (intptr_t i = k + 2; i < n; i++) a[i][k] = l[0][i], a[i][k + 1] = l[1][i];
        }
    }
    return info;
}

/* x becomes the solution (LAPACK's sytrs). */
static void solve(smm_dtype dtype, matrix a, const int32_t *pivots, intptr_t n, double *x) {
    for (intptr_t k = 0, order; k < n; k += order) {
        order = smm_ldl_order(pivots[k]);
        swap(&x[k + order - 1], &x[smm_ldl_row(pivots[k])]);
        for (intptr_t i = k + order; i < n; i++)
            for (intptr_t s = 0; s < order; s++) x[i] = fma_in(dtype, -a[i][k + s], x[k + s], x[i]);
        if (order == 1) {
            x[k] = round_in(dtype, x[k] / a[k][k]);
        } else {
            const double e = a[k + 1][k], d0 = round_in(dtype, a[k][k] / e), d1 = round_in(dtype, a[k + 1][k + 1] / e);
            const double det = fma_in(dtype, d0, d1, -1);
            const double y0 = round_in(dtype, x[k] / e), y1 = round_in(dtype, x[k + 1] / e);
            x[k] = round_in(dtype, fma_in(dtype, d1, y0, -y1) / det);
            x[k + 1] = round_in(dtype, fma_in(dtype, d0, y1, -y0) / det);
        }
    }
    for (intptr_t end = n, order; end > 0; end -= order) {
        order = smm_ldl_order(pivots[end - 1]);
        for (intptr_t j = end - order; j < end; j++)
            for (intptr_t i = end; i < n; i++) x[j] = fma_in(dtype, -a[i][j], x[i], x[j]);
        swap(&x[end - 1], &x[smm_ldl_row(pivots[end - 1])]);
    }
}

static void get_lower(const smm_call *call, intptr_t q, matrix a) {
    for (intptr_t i = 0; i < call->n; i++)
        for (intptr_t j = 0; j <= i; j++)
            a[i][j] = get(&call->a, call->dtype, q, smm_ldl_turned(call, i), smm_ldl_turned(call, j));
}

static void factor_one(const smm_call *call, intptr_t q) {
    const intptr_t n = call->n;
    matrix a;
    int32_t pivots[SMM_MOST_ORDER];
    get_lower(call, q, a);
    const intptr_t info = factor(call->dtype, a, n, pivots);
    for (intptr_t i = 0; i < n; i++) {
        for (intptr_t j = 0; j < n; j++)
            put(&call->ldl.ld, call->dtype, q, smm_ldl_turned(call, i), smm_ldl_turned(call, j),
                info     ? NAN
                : j <= i ? a[i][j]
                         : 0);
        put_int(&call->ldl.pivots, q, smm_ldl_turned(call, i), smm_ldl_pivot(call, pivots[i]));
    }
    put_int(&call->ldl.info, q, 0, info ? smm_ldl_turned(call, info - 1) + 1 : 0);
}

/* X; NaN if there is none. */
static void solve_all(const smm_call *call, const smm_operand *b, const smm_operand *to, intptr_t q, matrix a,
                      const int32_t *pivots, bool none) {
    for (intptr_t k = 0; k < call->k; k++) {
        double x[SMM_MOST_ORDER];
        for (intptr_t i = 0; i < call->n; i++) x[i] = get(b, call->dtype, q, smm_ldl_turned(call, i), k);
        if (!none) solve(call->dtype, a, pivots, call->n, x);
        for (intptr_t i = 0; i < call->n; i++) put(to, call->dtype, q, smm_ldl_turned(call, i), k, none ? NAN : x[i]);
    }
}

static void solve_one(const smm_call *call, intptr_t q) {
    const smm_operand *from = &call->ldl_solve.pivots;
    matrix a;
    int32_t pivots[SMM_MOST_ORDER];
    get_lower(call, q, a);
    for (intptr_t i = 0; i < call->n; i++)
        pivots[i] = smm_ldl_pivot(
            call, *(const int32_t *)((const char *)from->data + q * from->batch + smm_ldl_turned(call, i) * from->row));
    const intptr_t wrong = smm_ldl_wrong_pivot(call, pivots);
    solve_all(call, &call->ldl_solve.b, &call->ldl_solve.x, q, a, pivots, wrong);
    put_int(&call->ldl_solve.info, q, 0, -wrong);
}

static void factor_and_solve_one(const smm_call *call, intptr_t q) {
    matrix a;
    int32_t pivots[SMM_MOST_ORDER];
    get_lower(call, q, a);
    const intptr_t info = factor(call->dtype, a, call->n, pivots);
    solve_all(call, &call->solve_sym.b, &call->solve_sym.x, q, a, pivots, info);
    put_int(&call->solve_sym.info, q, 0, info ? smm_ldl_turned(call, info - 1) + 1 : 0);
}

void smm_reference_ldl(const smm_call *call) {
    for (intptr_t q = 0; q < call->batch; q++)
        (call->op == SMM_OP_LDL         ? factor_one
         : call->op == SMM_OP_SOLVE_SYM ? factor_and_solve_one
                                        : solve_one)(call, q);
}
