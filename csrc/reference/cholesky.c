/* cholesky.c: the Cholesky factorization (Golub and Van Loan, Matrix Computations, section 4.2) and the solution of
 * triangular systems, by which it solves. */
#include "reference.h"

/* The lower triangle of A becomes L; or the step (from 1) whose pivot is not positive is returned. */
static intptr_t factor(smm_dtype dtype, matrix a, intptr_t n) {
    for (intptr_t j = 0; j < n; j++) {
        if (!(a[j][j] > 0)) return j + 1;
        a[j][j] = round_in(dtype, sqrt(a[j][j]));
        const double r = round_in(dtype, 1 / a[j][j]);
        for (intptr_t i = j + 1; i < n; i++) a[i][j] = round_in(dtype, a[i][j] * r);
        for (intptr_t k = j + 1; k < n; k++)
            for (intptr_t i = k; i < n; i++) a[i][k] = fma_in(dtype, -a[i][j], a[k][j], a[i][k]);
    }
    return 0;
}

/* x becomes the solution of A x = x, A lower or upper triangular. */
static void solve(smm_dtype dtype, matrix a, intptr_t n, bool upper, bool unit, double *x) {
    for (intptr_t step = 0; step < n; step++) {
        const intptr_t j = upper ? n - 1 - step : step;
        if (!unit) x[j] = quotient(dtype, x[j], a[j][j]);
        for (intptr_t i = upper ? 0 : j + 1; i < (upper ? j : n); i++) x[i] = fma_in(dtype, -a[i][j], x[j], x[i]);
    }
}

/* The first zero of the diagonal, from 1; or 0. */
static intptr_t zero_of(matrix a, intptr_t n) {
    for (intptr_t j = 0; j < n; j++)
        if (a[j][j] == 0) return j + 1;
    return 0;
}

/* The triangle of A that counts, zeros elsewhere; or its transpose. */
static void get_triangle(const smm_call *call, intptr_t q, bool transposed, matrix a) {
    const bool upper = call->form & SMM_UPPER;
    for (intptr_t i = 0; i < call->n; i++)
        for (intptr_t j = 0; j < call->n; j++) {
            const double x = (upper ? i <= j : i >= j) ? get(&call->a, call->dtype, q, i, j) : 0;
            *(transposed ? &a[j][i] : &a[i][j]) = x;
        }
}

static void factor_one(const smm_call *call, intptr_t q) {
    const bool upper = call->form & SMM_UPPER;
    matrix a;
    get_triangle(call, q, upper, a);
    const intptr_t info = factor(call->dtype, a, call->n);
    for (intptr_t i = 0; i < call->n; i++)
        for (intptr_t j = 0; j < call->n; j++)
            put(&call->cholesky.l, call->dtype, q, upper ? j : i, upper ? i : j, info ? NAN : i >= j ? a[i][j] : 0);
    put_int(smm_info(call), q, 0, info);
}

static void solve_one(const smm_call *call, intptr_t q) {
    const intptr_t n = call->n;
    const bool upper = call->form & SMM_UPPER, unit = call->form & SMM_UNIT;
    const bool factored = call->op == SMM_OP_CHO_SOLVE;
    const smm_operand *b = factored ? &call->cho_solve.b : &call->solve_triangular.b;
    const smm_operand *to = factored ? &call->cho_solve.x : &call->solve_triangular.x;
    matrix a, transposed;
    get_triangle(call, q, false, a);
    get_triangle(call, q, true, transposed);
    const intptr_t info = unit ? 0 : zero_of(a, n);
    for (intptr_t k = 0; k < call->k; k++) {
        double x[SMM_MOST_ORDER];
        for (intptr_t i = 0; i < n; i++) x[i] = get(b, call->dtype, q, i, k);
        if (factored) {
            solve(call->dtype, upper ? transposed : a, n, false, false, x);
            solve(call->dtype, upper ? a : transposed, n, true, false, x);
        } else {
            solve(call->dtype, a, n, upper, unit, x);
        }
        for (intptr_t i = 0; i < n; i++) put(to, call->dtype, q, i, k, info ? NAN : x[i]);
    }
    put_int(smm_info(call), q, 0, info);
}

static void factor_and_solve_one(const smm_call *call, intptr_t q) {
    const intptr_t n = call->n;
    matrix a, transposed;
    get_triangle(call, q, call->form & SMM_UPPER, a);
    const intptr_t info = factor(call->dtype, a, n);
    for (intptr_t i = 0; i < n; i++)
        for (intptr_t j = 0; j < n; j++) transposed[j][i] = a[i][j];
    for (intptr_t k = 0; k < call->k; k++) {
        double x[SMM_MOST_ORDER];
        for (intptr_t i = 0; i < n; i++) x[i] = get(&call->solve_pos.b, call->dtype, q, i, k);
        if (!info) {
            solve(call->dtype, a, n, false, false, x);
            solve(call->dtype, transposed, n, true, false, x);
        }
        for (intptr_t i = 0; i < n; i++) put(&call->solve_pos.x, call->dtype, q, i, k, info ? NAN : x[i]);
    }
    put_int(smm_info(call), q, 0, info);
}

void smm_reference_cholesky(const smm_call *call) {
    for (intptr_t q = 0; q < call->batch; q++)
        (call->op == SMM_OP_CHOLESKY    ? factor_one
         : call->op == SMM_OP_SOLVE_POS ? factor_and_solve_one
                                        : solve_one)(call, q);
}
