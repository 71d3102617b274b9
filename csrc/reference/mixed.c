/* mixed.c: LAPACK's dsgesv and dsposv: factors and corrections in float32, residuals and solutions in float64.
 *
 * A. Buttari, J. Dongarra, J. Langou, J. Langou, P. Luszczek, J. Kurzak, "Mixed precision iterative refinement
 * techniques for the solution of dense linear systems", Int. J. High Perform. Comput. Appl. 21, 2007. A residual is
 * divided by its largest element before it is narrowed, which LAPACK does not do. */
#include "reference.h"

enum { STEPS = 30, OVERFLOWED = -2, SINGULAR = -3, NOT_CONVERGED = -STEPS - 1 };

/* A matrix narrowed, and its factors. */
typedef struct narrow {
    bool positive;
    intptr_t n;
    float a[SMM_MAX_ORDER * SMM_MAX_ORDER], factors[SMM_MAX_ORDER * SMM_MAX_ORDER];
    int32_t pivots[SMM_MAX_ORDER], info;
} narrow;

static smm_operand of_floats(float *x, intptr_t cols) {
    return (smm_operand){x, 0, cols * (intptr_t)sizeof *x, sizeof *x};
}
static smm_operand of_ints(int32_t *x) { return (smm_operand){x, 0, sizeof *x, 0}; }

static void factor(narrow *t) {
    smm_call call = {.op = SMM_OP_LU, .dtype = SMM_F32, .batch = 1, .m = t->n, .n = t->n, .k = t->n};
    call.lu =
        (smm_lu_operands){of_floats(t->a, t->n), of_floats(t->factors, t->n), of_ints(t->pivots), of_ints(&t->info)};
    if (t->positive) {
        call.op = SMM_OP_CHOLESKY;
        call.cholesky = (smm_cholesky_operands){of_floats(t->a, t->n), of_floats(t->factors, t->n), of_ints(&t->info)};
    }
    (t->positive ? smm_reference_cholesky : smm_reference_lu)(&call);
}

static void solve(narrow *t, float *b, float *x) {
    smm_call call = {.op = SMM_OP_LU_SOLVE, .dtype = SMM_F32, .batch = 1, .m = t->n, .n = t->n, .k = 1};
    call.lu_solve = (smm_lu_solve_operands){
        .a = of_floats(t->factors, t->n), .pivots = of_ints(t->pivots), .b = of_floats(b, 1), .x = of_floats(x, 1)};
    if (t->positive) {
        call.op = SMM_OP_CHO_SOLVE;
        call.cho_solve =
            (smm_cho_solve_operands){.a = of_floats(t->factors, t->n), .b = of_floats(b, 1), .x = of_floats(x, 1)};
    }
    (t->positive ? smm_reference_cholesky : smm_reference_lu)(&call);
}

/* The largest magnitude, NaN if one is. */
static double largest(const double *x, intptr_t n) {
    double most = 0;
    for (intptr_t i = 0; i < n; i++)
        if (!(fabs(x[i]) <= most)) most = isnan(most) ? most : fabs(x[i]);
    return most;
}

/* Column j; the steps that it takes. */
static int refine(const smm_call *call, intptr_t q, intptr_t j, double a[][SMM_MAX_ORDER], narrow *t, double bound) {
    const intptr_t n = call->n;
    double x[SMM_MAX_ORDER] = {0}, r[SMM_MAX_ORDER];
    for (intptr_t i = 0; i < n; i++) r[i] = get(&call->solve_mixed.b, SMM_F64, q, i, j);
    for (int step = 0; step <= STEPS; step++) {
        float right[SMM_MAX_ORDER], d[SMM_MAX_ORDER];
        double size = largest(r, n);
        if (!(size > 0 && size < INFINITY)) size = 1;
        for (intptr_t i = 0; i < n; i++) right[i] = (float)(r[i] / size);
        solve(t, right, d);
        for (intptr_t i = 0; i < n; i++) x[i] += (double)d[i] * size;
        for (intptr_t i = 0; i < n; i++) {
            double sum = 0;
            for (intptr_t k = 0; k < n; k++) sum = fma_in(SMM_F64, a[i][k], x[k], sum);
            r[i] = get(&call->solve_mixed.b, SMM_F64, q, i, j) - sum;
        }
        const double left = largest(r, n);
        const bool done = left <= largest(x, n) * bound;
        if (!done && !isfinite(left)) break;
        if (!done) continue;
        for (intptr_t i = 0; i < n; i++) put(&call->solve_mixed.x, SMM_F64, q, i, j, x[i]);
        return step;
    }
    return NOT_CONVERGED;
}

static void fall_back(const smm_call *call, intptr_t q) {
    smm_call one = *call;
    one.op = call->form & SMM_POSITIVE ? SMM_OP_SOLVE_POS : SMM_OP_SOLVE;
    one.form = 0;
    one.batch = 1;
    one.solve =
        (smm_solve_operands){call->solve_mixed.a, call->solve_mixed.b, call->solve_mixed.x, call->solve_mixed.info};
    for (int i = 0; i < smm_operations[one.op].count; i++)
        if (one.operand[i].data) one.operand[i].data = (char *)one.operand[i].data + q * one.operand[i].batch;
    (call->form & SMM_POSITIVE ? smm_reference_cholesky : smm_reference_lu)(&one);
}

static void mixed(const smm_call *call, intptr_t q) {
    narrow t = {.positive = call->form & SMM_POSITIVE, .n = call->n};
    const intptr_t n = call->n;
    double a[SMM_MAX_ORDER][SMM_MAX_ORDER];
    double most = 0, norm = 0;
    bool overflowed = false;
    for (intptr_t i = 0; i < n; i++) {
        double sum = 0;
        for (intptr_t j = 0; j < n; j++) {
            a[i][j] = get(&call->a, SMM_F64, q, i, j);
            t.a[i * n + j] = (float)a[i][j];
            sum += fabs(a[i][j]);
            overflowed |= isinf(t.a[i * n + j]);
        }
        if (!(sum <= norm)) norm = isnan(norm) ? norm : sum;
        const double of_row = largest(a[i], n);
        if (!(of_row <= most)) most = isnan(most) ? most : of_row;
    }
    if (n && call->k) factor(&t); /* without right-hand sides there is nothing to solve, so nothing fails */
    int code = overflowed && most < INFINITY && call->k ? OVERFLOWED : t.info ? SINGULAR : 0;
    for (intptr_t j = 0; j < call->k && n && code >= 0; j++) {
        const int steps = refine(call, q, j, a, &t, norm * (0x1p-53 * sqrt((double)n)));
        code = steps < 0 || steps > code ? steps : code;
    }
    put_int(&call->solve_mixed.iterations, q, 0, code);
    put_int(&call->solve_mixed.info, q, 0, 0);
    if (code < 0) fall_back(call, q);
}

void smm_reference_mixed(const smm_call *call) {
    for (intptr_t q = 0; q < call->batch; q++) mixed(call, q);
}
