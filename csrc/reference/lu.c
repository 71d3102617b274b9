/* lu.c: right-looking LU with partial pivoting, in place (Golub and Van Loan, Matrix Computations, algorithm 3.4.1),
 * and what follows from it: solutions and determinants. */
#include <float.h>

#include "reference.h"

/* P A = L U: L below the diagonal of lu, U the rest; row k was exchanged with row pivots[k]. */
typedef struct factors {
    smm_dtype dtype;
    intptr_t n;
    matrix lu;
    intptr_t pivots[SMM_MOST_ORDER];
    intptr_t info; /* the first step, from 1, whose pivot is zero or infinite; negative: which exchanges no row left */
    bool singular; /* a pivot is zero, all before are finite */
} factors;

static void exchange_rows(matrix a, intptr_t cols, intptr_t i, intptr_t p) {
    for (intptr_t j = 0; j < cols && p != i; j++) {
        const double x = a[i][j];
        a[i][j] = a[p][j];
        a[p][j] = x;
    }
}

/* Factor f->lu. A zero pivot ends it. An infinite one is as bad: what overflowed is divided by it and finite again. */
static void factor(factors *f) {
    const intptr_t n = f->n;
    double (*a)[SMM_MOST_ORDER] = f->lu;
    bool zero = false, finite = true;
    f->info = 0;
    for (intptr_t k = 0; k < n; k++) {
        f->pivots[k] = zero ? k : pivot_row(a, n, k);
        const double pivot = a[f->pivots[k]][k];
        zero |= pivot == 0;
        if (!f->info && (zero || isinf(pivot))) f->info = k + 1;
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
static void solve(const factors *f, double *x) {
    const intptr_t n = f->n;
    for (intptr_t j = 0; j < n; j++)
        for (intptr_t i = j + 1; i < n; i++) x[i] = fma_in(f->dtype, -f->lu[i][j], x[j], x[i]);
    for (intptr_t j = n - 1; j >= 0; j--) {
        x[j] = quotient(f->dtype, x[j], f->lu[j][j]);
        for (intptr_t i = 0; i < j; i++) x[i] = fma_in(f->dtype, -f->lu[i][j], x[j], x[i]);
    }
}

/* x becomes P y of A^T y = x. */
static void solve_transposed(const factors *f, double *x) {
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

/* Every right-hand side of matrix q, solved with its factors. */
static void solve_all(const smm_call *call, const factors *f, intptr_t q) {
    const bool transposed = call->form & SMM_TRANSPOSED, factored = call->op == SMM_OP_LU_SOLVE;
    const smm_operand *b = factored ? &call->lu_solve.b : &call->solve.b;
    const smm_operand *to = factored ? &call->lu_solve.x : &call->solve.x;
    for (intptr_t j = 0; j < call->k; j++) {
        double x[SMM_MOST_ORDER];
        for (intptr_t i = 0; i < f->n; i++) x[i] = get(b, f->dtype, q, i, j);
        for (intptr_t i = 0; i < f->n && !transposed; i++) exchange(x, i, f->pivots[i]);
        (transposed ? solve_transposed : solve)(f, x);
        for (intptr_t i = f->n - 1; i >= 0 && transposed; i--) exchange(x, i, f->pivots[i]);
        for (intptr_t i = 0; i < f->n; i++) put(to, f->dtype, q, i, j, f->info ? NAN : x[i]);
    }
}

/* The factors that LU gave. A pivot that is no row, or one above, is a failure and exchanges nothing. */
static void get_factors(const smm_call *call, factors *f, intptr_t q) {
    const smm_operand *pivots = &call->lu_solve.pivots;
    intptr_t wrong = 0;
    f->info = 0;
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

static product product_of(const factors *f) {
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

static double determinant(const factors *f) {
    const product p = product_of(f);
    return f->singular ? 0 : p.safe ? p.plain : ldexp(p.mantissa, p.exponent);
}

/* log |det A| and its sign; the logarithm is float64's, rounded. */
static double log_determinant(const factors *f, double *sign) {
    const product p = product_of(f);
    const double x = p.safe ? p.plain : p.mantissa, log_x = log(fabs(x));
    *sign = f->singular ? 0 : isnan(x) ? x : copysign(1, x);
    return f->singular ? -INFINITY : round_in(f->dtype, p.safe ? log_x : log_x + p.exponent * M_LN2);
}

static void get_matrix(const smm_call *call, factors *f, intptr_t q) {
    for (intptr_t i = 0; i < f->n; i++)
        for (intptr_t j = 0; j < f->n; j++) f->lu[i][j] = get(&call->a, f->dtype, q, i, j);
}

intptr_t smm_reference_singular(const smm_call *call, intptr_t q) {
    factors f = {.dtype = call->dtype, .n = call->n};
    get_matrix(call, &f, q);
    factor(&f);
    return f.info;
}

void smm_reference_lu(const smm_call *call) {
    factors f = {.dtype = call->dtype, .n = call->n};
    const intptr_t n = f.n;
    for (intptr_t q = 0; q < call->batch; q++) {
        get_matrix(call, &f, q);
        if (call->op == SMM_OP_LU_SOLVE)
            get_factors(call, &f, q);
        else
            factor(&f);
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
