/* cholesky.c: the Cholesky factorization (Golub and Van Loan, Matrix Computations, section 4.2) and the solution of
 * triangular systems, by which it solves. */
#include "reference.h"

/* The lower triangle of A becomes L of A = L L^H; or the step (from 1) whose pivot is not positive is returned. */
static intptr_t factor(smm_dtype t, numbers a, intptr_t n) {
    for (intptr_t j = 0; j < n; j++) {
        if (!(a[j][j].re > 0)) return j + 1;
        a[j][j] = (number){round_in(t, sqrt(a[j][j].re)), 0};
        const double r = reciprocal(t, a[j][j].re);
        for (intptr_t i = j + 1; i < n; i++) a[i][j] = scaled(t, a[i][j], r);
        for (intptr_t k = j + 1; k < n; k++)
            for (intptr_t i = k; i < n; i++) a[i][k] = subtract_product(t, a[i][j], conjugate(a[k][j]), a[i][k]);
    }
    return 0;
}

/* x becomes the solution of A x = x, A lower or upper triangular. */
static void solve(smm_dtype t, numbers a, intptr_t n, bool upper, bool unit, number *x) {
    for (intptr_t step = 0; step < n; step++) {
        const intptr_t j = upper ? n - 1 - step : step;
        if (!unit) x[j] = quotient_of(t, x[j], a[j][j]);
        for (intptr_t i = upper ? 0 : j + 1; i < (upper ? j : n); i++) x[i] = subtract_product(t, a[i][j], x[j], x[i]);
    }
}

/* The first zero of the diagonal, from 1; or 0. */
static intptr_t zero_of(numbers a, intptr_t n) {
    for (intptr_t j = 0; j < n; j++)
        if (is_zero(a[j][j])) return j + 1;
    return 0;
}

/* U of A = U^H U is the transpose of L of A^T = L L^H. */
static void factor_one(const smm_call *call, intptr_t q) {
    const bool upper = call->form & SMM_UPPER;
    numbers a;
    for (intptr_t i = 0; i < call->n; i++)
        for (intptr_t j = 0; j <= i; j++) a[i][j] = get_number(&call->a, call->dtype, q, upper ? j : i, upper ? i : j);
    const intptr_t info = factor(call->dtype, a, call->n);
    for (intptr_t i = 0; i < call->n; i++)
        for (intptr_t j = 0; j < call->n; j++)
            put_number(&call->cholesky.l, call->dtype, q, upper ? j : i, upper ? i : j,
                       info     ? not_a_number
                       : i >= j ? a[i][j]
                                : zero);
    put_int(smm_info(call), q, 0, info);
}

/* By SOLVE_POS, CHO_SOLVE or SOLVE_TRIANGULAR, whose operands are the same: triangular_lanes.h asserts that. */
static void solve_one(const smm_call *call, intptr_t q) {
    const smm_dtype t = call->dtype;
    const intptr_t n = call->n;
    const bool upper = call->form & SMM_UPPER, unit = call->form & SMM_UNIT, both = call->op != SMM_OP_SOLVE_TRIANGULAR;
    numbers l, u;
    for (intptr_t i = 0; i < n; i++)
        for (intptr_t j = 0; j < n; j++) {
            const number x = get_number(&call->a, t, q, i, j);
            *(upper ? &l[j][i] : &l[i][j]) = upper ? conjugate(x) : x;
        }
    const intptr_t info = call->op == SMM_OP_SOLVE_POS ? factor(t, l, n) : unit ? 0 : zero_of(l, n);
    for (intptr_t i = 0; i < n; i++)
        for (intptr_t j = 0; j <= i; j++) u[j][i] = conjugate(l[i][j]);
    for (intptr_t k = 0; k < call->k; k++) {
        number x[SMM_MAX_ORDER];
        for (intptr_t i = 0; i < n; i++) x[i] = get_number(&call->solve_triangular.b, t, q, i, k);
        if (both || !upper) solve(t, l, n, false, unit, x);
        if (both || upper) solve(t, u, n, true, unit, x);
        for (intptr_t i = 0; i < n; i++) put_number(&call->solve_triangular.x, t, q, i, k, info ? not_a_number : x[i]);
    }
    put_int(smm_info(call), q, 0, info);
}

void smm_reference_cholesky(const smm_call *call) {
    for (intptr_t q = 0; q < call->batch; q++) (call->op == SMM_OP_CHOLESKY ? factor_one : solve_one)(call, q);
}
