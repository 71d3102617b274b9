/* lu.c: right-looking LU with partial pivoting, in place (Golub and Van Loan, Matrix Computations, algorithm 3.4.1),
 * and what follows from it: solutions, determinants, and inverses of complex matrices. */
#include "../math/functions.h"
#include "reference.h"

static number at(const smm_lu_factors *f, intptr_t i, intptr_t j) { return f->lu[i * f->n + j]; }
static number *place(smm_lu_factors *f, intptr_t i, intptr_t j) { return &f->lu[i * f->n + j]; }

/* The row i >= k of the largest |a_ik|, the first of equals. Nothing is larger than a NaN at row k. */
static intptr_t pivot_row(const smm_lu_factors *f, intptr_t k) {
    intptr_t p = k;
    for (intptr_t i = k + 1; i < f->m; i++)
        if (size_of(f->dtype, at(f, i, k)) > size_of(f->dtype, at(f, p, k))) p = i;
    return p;
}

/* Continue after a useless pivot; the result is overwritten with NaN. */
static void factor(smm_lu_factors *f) {
    const smm_dtype t = f->dtype;
    const intptr_t m = f->m, n = f->n;
    f->info = 0;
    f->singular = false;
    for (intptr_t k = 0; k < m && k < n; k++) {
        const intptr_t p = f->pivots[k] = pivot_row(f, k);
        number *const u = place(f, k, 0);
        for (intptr_t j = 0; j < n && p != k; j++) swap(&u[j], place(f, p, j));
        if (!f->info && is_useless(u[k])) {
            f->info = k + 1;
            f->singular = is_zero(u[k]);
        }
        for (intptr_t i = k + 1; i < m; i++) {
            number *const a = place(f, i, 0);
            a[k] = quotient_of(t, a[k], u[k]);
            for (intptr_t j = k + 1; j < n; j++) a[j] = subtract_product(t, a[k], u[j], a[j]);
        }
    }
}

static void solve(const smm_lu_factors *f, number *x) {
    const intptr_t n = f->n;
    for (intptr_t i = 0; i < n; i++) swap(&x[i], &x[f->pivots[i]]);
    for (intptr_t j = 0; j < n; j++)
        for (intptr_t i = j + 1; i < n; i++) x[i] = subtract_product(f->dtype, at(f, i, j), x[j], x[i]);
    for (intptr_t j = n - 1; j >= 0; j--) {
        x[j] = quotient_of(f->dtype, x[j], at(f, j, j));
        for (intptr_t i = 0; i < j; i++) x[i] = subtract_product(f->dtype, at(f, i, j), x[j], x[i]);
    }
}

static void solve_transposed(const smm_lu_factors *f, number *x) {
    const intptr_t n = f->n;
    for (intptr_t j = 0; j < n; j++) {
        x[j] = quotient_of(f->dtype, x[j], at(f, j, j));
        for (intptr_t i = j + 1; i < n; i++) x[i] = subtract_product(f->dtype, at(f, j, i), x[j], x[i]);
    }
    for (intptr_t j = n - 1; j >= 0; j--)
        for (intptr_t i = 0; i < j; i++) x[i] = subtract_product(f->dtype, at(f, j, i), x[j], x[i]);
    for (intptr_t i = n - 1; i >= 0; i--) swap(&x[i], &x[f->pivots[i]]);
}

void smm_lu_apply(const smm_lu_factors *f, number *x, bool transposed) {
    (transposed ? solve_transposed : solve)(f, x);
}

/* Each right-hand side of matrix q, solved with its factors; b NULL: the identity. */
static void solve_all(const smm_call *call, const smm_lu_factors *f, intptr_t q, const smm_operand *b,
                      const smm_operand *to, intptr_t nrhs) {
    for (intptr_t j = 0; j < nrhs; j++) {
        number x[SMM_MAX_ORDER];
        for (intptr_t i = 0; i < f->n; i++) x[i] = b ? get_number(b, f->dtype, q, i, j) : i == j ? one : zero;
        smm_lu_apply(f, x, call->form & SMM_TRANSPOSED);
        for (intptr_t i = 0; i < f->n; i++) put_number(to, f->dtype, q, i, j, f->info ? not_a_number : x[i]);
    }
}

static void get_matrix(const smm_operand *a, smm_lu_factors *f, intptr_t q) {
    for (intptr_t i = 0; i < f->m; i++)
        for (intptr_t j = 0; j < f->n; j++) *place(f, i, j) = get_number(a, f->dtype, q, i, j);
}

/* A pivot that is no row, or one above, is a failure and exchanges nothing. */
void smm_lu_given(const smm_operand *lu, const smm_operand *pivots, smm_lu_factors *f, intptr_t q) {
    intptr_t wrong = 0;
    f->info = 0;
    f->m = f->n;
    get_matrix(lu, f, q);
    for (intptr_t i = f->n - 1; i >= 0; i--) {
        const intptr_t p = *(const int32_t *)((const char *)pivots->data + q * pivots->batch + i * pivots->row);
        const bool is_row = p >= i && p < f->n;
        f->pivots[i] = is_row ? p : i;
        if (!is_row) wrong = -(i + 1);
        if (is_zero(at(f, i, i))) f->info = i + 1;
    }
    if (wrong) f->info = wrong;
}

static int exponent_of(number x) {
    const double size = fmax(fabs(x.re), fabs(x.im));
    int e = 0;
    if (size > 0 && size < INFINITY) frexp(size, &e);
    return e;
}
static number shifted(smm_dtype t, number x, intptr_t e) {
    return (number){round_in(t, ldexp(x.re, (int)e)), round_in(t, ldexp(x.im, (int)e))};
}

/* The product of the diagonal of U, negated for an odd number of exchanges: the result times two to the exponent, which
 * can neither over- nor underflow. That of real numbers is the plain product where nothing of it over- or underflows,
 * or a factor is not finite. */
static number product_of_pivots(const smm_lu_factors *f, intptr_t *exponent) {
    const smm_dtype t = f->dtype;
    const bool is_complex = smm_is_complex(t);
    number p = one, plain = one;
    bool safe = true, finite = true;
    *exponent = 0;
    for (intptr_t i = 0; i < f->n; i++)
        if (f->pivots[i] != i) p.re = plain.re = -p.re;
    for (intptr_t i = 0; i < f->n; i++) {
        const number u = at(f, i, i);
        const int e = exponent_of(u);
        p = product(t, p, shifted(t, u, -e));
        const int g = is_complex ? exponent_of(p) : fabs(p.re) < 0x1p-64 ? -64 : 0;
        p = shifted(t, p, -g);
        *exponent += e + g;
        plain = product(t, plain, u);
        safe &= isfinite(plain.re) && fabs(plain.re) >= smallest_normal(t);
        finite &= is_finite(u);
    }
    if (is_complex || !(safe || !finite)) return p;
    *exponent = 0;
    return plain;
}

static void put_determinant(const smm_call *call, const smm_lu_factors *f, intptr_t q) {
    const smm_dtype t = f->dtype, real = smm_dtypes[t].real;
    intptr_t exponent;
    const number p = product_of_pivots(f, &exponent);
    if (call->op == SMM_OP_DET) {
        put_number(&call->det.det, t, q, 0, 0, f->singular ? zero : shifted(t, p, exponent));
        return;
    }
    const double size = magnitude(t, p), log_size = round_in(t, smm_log(size) + (double)exponent * M_LN2);
    const bool is_sign = !smm_is_complex(t) && !isnan(p.re); /* also of an infinite p */
    const number sign = is_sign ? (number){copysign(1, p.re), 0} : divided(t, p, size);
    put_number(&call->slogdet.sign, t, q, 0, 0, f->singular ? zero : sign);
    put(&call->slogdet.logabsdet, real, q, 0, 0, f->singular ? -INFINITY : log_size); /* float64's, rounded */
}

intptr_t smm_reference_singular(const smm_call *call, intptr_t q) {
    smm_lu_factors f;
    f.dtype = call->dtype, f.m = f.n = call->n;
    get_matrix(&call->a, &f, q);
    factor(&f);
    return f.info;
}

void smm_reference_lu(const smm_call *call) {
    smm_lu_factors f = {.dtype = call->dtype, .m = call->op == SMM_OP_LU ? call->m : call->n, .n = call->n};
    for (intptr_t q = 0; q < call->batch; q++) {
        if (call->op == SMM_OP_LU_SOLVE) {
            smm_lu_given(&call->a, &call->lu_solve.pivots, &f, q);
        } else {
            get_matrix(&call->a, &f, q);
            factor(&f);
        }
        put_int(smm_info(call), q, 0, f.info);
        switch (call->op) {
        case SMM_OP_LU:
            for (intptr_t i = 0; i < call->k; i++)
                put_int(&call->lu.pivots, q, i, f.info && i + 1 >= f.info ? i : f.pivots[i]);
            for (intptr_t i = 0; i < f.m; i++)
                for (intptr_t j = 0; j < f.n; j++)
                    put_number(&call->lu.lu, f.dtype, q, i, j, f.info ? not_a_number : at(&f, i, j));
            break;
        case SMM_OP_DET:
        case SMM_OP_SLOGDET: put_determinant(call, &f, q); break;
        case SMM_OP_INV: solve_all(call, &f, q, NULL, &call->inv.inverse, f.n); break;
        case SMM_OP_SOLVE: solve_all(call, &f, q, &call->solve.b, &call->solve.x, call->k); break;
        default: solve_all(call, &f, q, &call->lu_solve.b, &call->lu_solve.x, call->k);
        }
    }
}
