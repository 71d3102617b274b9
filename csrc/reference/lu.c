/* lu.c: right-looking LU with partial pivoting, in place (Golub and Van Loan, Matrix Computations, algorithm 3.4.1),
 * and what follows from it: solutions and determinants. */
#include <float.h>

#include "reference.h"

static void exchange_rows(matrix a, intptr_t cols, intptr_t i, intptr_t p) {
    for (intptr_t j = 0; j < cols && p != i; j++) {
        const double x = a[i][j];
        a[i][j] = a[p][j];
        a[p][j] = x;
    }
}

/* Factor f->lu. A zero pivot ends it; an infinite one is as bad. */
static void factor(smm_lu_factors *f) {
    const intptr_t n = f->n;
    double (*a)[SMM_MOST_ORDER] = f->lu;
    bool zero = false, finite = true;
    f->info = 0;
    for (intptr_t k = 0; k < n; k++) {
        f->pivots[k] = zero ? k : pivot_row(a, n, k);
        const double pivot = a[f->pivots[k]][k];
        zero |= pivot == 0;
        if (!f->info && (zero || is_useless(pivot))) f->info = k + 1;
        finite &= zero || isfinite(pivot);
        if (zero) continue;
        exchange_rows(a, n, k, f->pivots[k]);
        for (intptr_t i = k + 1; i < n; i++) {
            a[i][k] = quotient(f->dtype, a[i][k], a[k][k]);
            for (intptr_t j = k + 1; j < n; j++) a[i][j] = fma_in(f->dtype, -a[i][k], a[k][j], a[i][j]);
        }
    }
    f->singular = zero && finite;
}

/* x becomes the solution of A x = x. */
static void solve(const smm_lu_factors *f, double *x) {
    const intptr_t n = f->n;
    for (intptr_t j = 0; j < n; j++)
        for (intptr_t i = j + 1; i < n; i++) x[i] = fma_in(f->dtype, -f->lu[i][j], x[j], x[i]);
    for (intptr_t j = n - 1; j >= 0; j--) {
        x[j] = quotient(f->dtype, x[j], f->lu[j][j]);
        for (intptr_t i = 0; i < j; i++) x[i] = fma_in(f->dtype, -f->lu[i][j], x[j], x[i]);
    }
}

/* x becomes P y of A^T y = x. */
static void solve_transposed(const smm_lu_factors *f, double *x) {
    const intptr_t n = f->n;
    for (intptr_t j = 0; j < n; j++) {
        x[j] = quotient(f->dtype, x[j], f->lu[j][j]);
        for (intptr_t i = j + 1; i < n; i++) x[i] = fma_in(f->dtype, -f->lu[j][i], x[j], x[i]);
    }
    for (intptr_t j = n - 1; j >= 0; j--)
        for (intptr_t i = 0; i < j; i++) x[i] = fma_in(f->dtype, -f->lu[j][i], x[j], x[i]);
}

static void exchange(double *x, intptr_t i, intptr_t p) {
    const double y = x[i];
    x[i] = x[p];
    x[p] = y;
}

void smm_lu_apply(const smm_lu_factors *f, double *x, bool transposed) {
    for (intptr_t i = 0; i < f->n && !transposed; i++) exchange(x, i, f->pivots[i]);
    (transposed ? solve_transposed : solve)(f, x);
    for (intptr_t i = f->n - 1; i >= 0 && transposed; i--) exchange(x, i, f->pivots[i]);
}

/* Every right-hand side of matrix q, solved with its factors. */
static void solve_all(const smm_call *call, const smm_lu_factors *f, intptr_t q) {
    const bool transposed = call->form & SMM_TRANSPOSED, factored = call->op == SMM_OP_LU_SOLVE;
    const smm_operand *b = factored ? &call->lu_solve.b : &call->solve.b;
    const smm_operand *to = factored ? &call->lu_solve.x : &call->solve.x;
    for (intptr_t j = 0; j < call->k; j++) {
        double x[SMM_MOST_ORDER];
        for (intptr_t i = 0; i < f->n; i++) x[i] = get(b, f->dtype, q, i, j);
        smm_lu_apply(f, x, transposed);
        for (intptr_t i = 0; i < f->n; i++) put(to, f->dtype, q, i, j, f->info ? NAN : x[i]);
    }
}

static void get_matrix(const smm_operand *a, smm_lu_factors *f, intptr_t q) {
    for (intptr_t i = 0; i < f->n; i++)
        for (intptr_t j = 0; j < f->n; j++) f->lu[i][j] = get(a, f->dtype, q, i, j);
}

/* A pivot that is no row, or one above, is a failure and exchanges nothing. */
void smm_lu_given(const smm_operand *lu, const smm_operand *pivots, smm_lu_factors *f, intptr_t q) {
    intptr_t wrong = 0;
    f->info = 0;
    get_matrix(lu, f, q);
    for (intptr_t i = f->n - 1; i >= 0; i--) {
        const intptr_t p = *(const int32_t *)((const char *)pivots->data + q * pivots->batch + i * pivots->row);
        const bool is_row = p >= i && p < f->n;
        f->pivots[i] = is_row ? p : i;
        if (!is_row) wrong = -(i + 1);
        if (f->lu[i][i] == 0) f->info = i + 1;
    }
    if (wrong) f->info = wrong;
}

/* The product of the diagonal of U, negated for an odd number of exchanges: `plain`, and mantissa 2^exponent, which can
 * neither over- nor underflow and otherwise has the same bits. */
typedef struct product {
    double plain, mantissa;
    int exponent;
    bool safe; /* nothing of the plain product over- or underflows, or a factor is not finite */
} product;

static product product_of(const smm_lu_factors *f) {
    product p = {1, 1, 0, true};
    const double least = least_normal(f->dtype);
    bool finite = true;
    for (intptr_t i = 0; i < f->n; i++) {
        const double u = f->pivots[i] == i ? f->lu[i][i] : -f->lu[i][i];
        int exponent = 0;
        p.plain = round_in(f->dtype, p.plain * u);
        p.mantissa = round_in(f->dtype, p.mantissa * frexp(u, &exponent));
        p.exponent += exponent;
        p.safe &= isfinite(p.plain) && fabs(p.plain) >= least;
        finite &= (bool)isfinite(u);
    }
    p.safe |= !finite;
    return p;
}

static double determinant(const smm_lu_factors *f) {
    const product p = product_of(f);
    return f->singular ? 0 : p.safe ? p.plain : ldexp(p.mantissa, p.exponent);
}

/* log |det A| and its sign; the logarithm is float64's, rounded. */
static double log_determinant(const smm_lu_factors *f, double *sign) {
    const product p = product_of(f);
    const double x = p.safe ? p.plain : p.mantissa, log_x = log(fabs(x));
    *sign = f->singular ? 0 : isnan(x) ? x : copysign(1, x);
    return f->singular ? -INFINITY : round_in(f->dtype, p.safe ? log_x : log_x + p.exponent * M_LN2);
}

intptr_t smm_reference_singular(const smm_call *call, intptr_t q) {
    smm_lu_factors f = {.dtype = call->dtype, .n = call->n};
    get_matrix(&call->a, &f, q);
    factor(&f);
    return f.info;
}

void smm_reference_lu(const smm_call *call) {
    smm_lu_factors f = {.dtype = call->dtype, .n = call->n};
    const intptr_t n = f.n;
    for (intptr_t q = 0; q < call->batch; q++) {
        if (call->op == SMM_OP_LU_SOLVE) {
            smm_lu_given(&call->a, &call->lu_solve.pivots, &f, q);
        } else {
            get_matrix(&call->a, &f, q);
            factor(&f);
        }
        put_int(smm_info(call), q, 0, f.info);
        double sign = 0;
        switch (call->op) {
        case SMM_OP_LU:
            for (intptr_t i = 0; i < n; i++)
                put_int(&call->lu.pivots, q, i, f.info && i + 1 >= f.info ? i : f.pivots[i]);
            for (intptr_t i = 0; i < n; i++)
                for (intptr_t j = 0; j < n; j++) put(&call->lu.lu, f.dtype, q, i, j, f.info ? NAN : f.lu[i][j]);
            break;
        case SMM_OP_DET: put(&call->det.det, f.dtype, q, 0, 0, determinant(&f)); break;
        case SMM_OP_SLOGDET:
            put(&call->slogdet.logabsdet, f.dtype, q, 0, 0, log_determinant(&f, &sign));
            put(&call->slogdet.sign, f.dtype, q, 0, 0, sign);
            break;
        default: solve_all(call, &f, q);
        }
    }
}
