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

/* Matrix q of A, or A^H. */
static void get_matrix(const smm_call *call, intptr_t q, bool adjoint, numbers a) {
    for (intptr_t i = 0; i < call->n; i++)
        for (intptr_t j = 0; j < call->n; j++) {
            const number x = get_number(&call->a, call->dtype, q, i, j);
            *(adjoint ? &a[j][i] : &a[i][j]) = adjoint ? conjugate(x) : x;
        }
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

static void factor_and_solve_one(const smm_call *call, intptr_t q) {
    const smm_dtype t = call->dtype;
    const intptr_t n = call->n;
    numbers a, adjoint;
    get_matrix(call, q, call->form & SMM_UPPER, a);
    const intptr_t info = factor(t, a, n);
    for (intptr_t i = 0; i < n; i++)
        for (intptr_t j = 0; j <= i; j++) adjoint[j][i] = conjugate(a[i][j]);
    for (intptr_t k = 0; k < call->k; k++) {
        number x[SMM_MAX_ORDER];
        for (intptr_t i = 0; i < n; i++) x[i] = get_number(&call->solve_pos.b, t, q, i, k);
        if (!info) {
            solve(t, a, n, false, false, x);
            solve(t, adjoint, n, true, false, x);
        }
        for (intptr_t i = 0; i < n; i++) put_number(&call->solve_pos.x, t, q, i, k, info ? not_a_number : x[i]);
    }
    put_int(smm_info(call), q, 0, info);
}

static void solve_one(const smm_call *call, intptr_t q) {
    const smm_dtype t = call->dtype;
    const intptr_t n = call->n;
    const bool upper = call->form & SMM_UPPER, unit = call->form & SMM_UNIT, factored = call->op == SMM_OP_CHO_SOLVE;
    const smm_operand *b = factored ? &call->cho_solve.b : &call->solve_triangular.b;
    const smm_operand *to = factored ? &call->cho_solve.x : &call->solve_triangular.x;
    numbers a, adjoint;
    get_matrix(call, q, false, a);
    get_matrix(call, q, true, adjoint);
    const intptr_t info = unit ? 0 : zero_of(a, n);
    for (intptr_t k = 0; k < call->k; k++) {
        number x[SMM_MAX_ORDER];
        for (intptr_t i = 0; i < n; i++) x[i] = get_number(b, t, q, i, k);
        if (factored) {
            solve(t, upper ? adjoint : a, n, false, false, x);
            solve(t, upper ? a : adjoint, n, true, false, x);
        } else {
            solve(t, a, n, upper, unit, x);
        }
        for (intptr_t i = 0; i < n; i++) put_number(to, t, q, i, k, info ? not_a_number : x[i]);
    }
    put_int(smm_info(call), q, 0, info);
}

void smm_reference_cholesky(const smm_call *call) {
    for (intptr_t q = 0; q < call->batch; q++)
        (call->op == SMM_OP_CHOLESKY    ? factor_one
         : call->op == SMM_OP_SOLVE_POS ? factor_and_solve_one
                                        : solve_one)(call, q);
}
