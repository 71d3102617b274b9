/* complex.c: the operations on complex matrices: products, LU and what follows from it, Cholesky and triangular
 * systems, QR. As for reals, but that pivots are compared by |re| + |im|, that the inverse is the solution of A X = I,
 * and that determinants are products whose exponents are apart. */
#include "number.h"

static const number not_a_number = {NAN, NAN}, zero = {0, 0}, one = {1, 0};

/* --- Products --- */

static number in_a_row(const smm_call *call, intptr_t q, intptr_t i, intptr_t j, intptr_t first, intptr_t last) {
    number s = zero;
    for (intptr_t k = first; k < last; k++) {
        const number a = get_number(&call->matmul.a, call->dtype, q, i, k);
        const number b = get_number(&call->matmul.b, call->dtype, q, k, j);
        s = k > first ? add_product(call->dtype, a, b, s) : product(call->dtype, a, b);
    }
    return s;
}

/* As in matmul.c. */
static number of_chunks(const smm_call *call, intptr_t q, intptr_t i, intptr_t j, intptr_t first, intptr_t count) {
    if (count == 1) return in_a_row(call, q, i, j, first * SMM_CHUNK, least(call->k, (first + 1) * SMM_CHUNK));
    intptr_t half = 1;
    while (2 * half < count) half *= 2;
    return sum(call->dtype, of_chunks(call, q, i, j, first, half),
               of_chunks(call, q, i, j, first + half, count - half));
}

static void multiply(const smm_call *call, intptr_t q) {
    const smm_dtype t = call->dtype;
    const smm_matmul_operands *x = &call->matmul;
    const number alpha = x->alpha.data ? get_number(&x->alpha, t, q, 0, 0) : one;
    const number beta = x->beta.data ? get_number(&x->beta, t, q, 0, 0) : zero;
    for (intptr_t i = 0; i < call->m; i++)
        for (intptr_t j = 0; j < call->n; j++) {
            number c = call->k > SMM_DEEP ? of_chunks(call, q, i, j, 0, (call->k - 1) / SMM_CHUNK + 1)
                                          : in_a_row(call, q, i, j, 0, call->k);
            if (!is_zero(beta))
                c = add_product(t, alpha, c, product(t, beta, get_number(&x->c, t, q, i, j)));
            else if (x->alpha.data)
                c = product(t, alpha, c);
            put_number(&x->c, t, q, i, j, c);
        }
}

/* --- LU --- */

typedef smm_number_factors factors;

static void exchange(number *x, number *y) {
    const number z = *x;
    *x = *y;
    *y = z;
}

/* After a useless pivot it goes on: nothing that comes of it is kept. */
static void factor(factors *f) {
    const smm_dtype t = f->dtype;
    const intptr_t n = f->n;
    f->info = 0;
    f->singular = false;
    for (intptr_t k = 0; k < n; k++) {
        intptr_t p = k;
        for (intptr_t i = k + 1; i < n; i++)
            if (size_of(t, f->lu[i][k]) > size_of(t, f->lu[p][k])) p = i;
        const number pivot = f->lu[p][k];
        if (!f->info && is_useless_number(pivot)) {
            f->info = k + 1;
            f->singular = is_zero(pivot);
        }
        f->pivots[k] = p;
        for (intptr_t j = 0; j < n; j++) exchange(&f->lu[k][j], &f->lu[p][j]);
        for (intptr_t i = k + 1; i < n; i++) {
            f->lu[i][k] = quotient_of(t, f->lu[i][k], f->lu[k][k]);
            for (intptr_t j = k + 1; j < n; j++)
                f->lu[i][j] = subtract_product(t, f->lu[i][k], f->lu[k][j], f->lu[i][j]);
        }
    }
}

static void solve(const factors *f, number *x) {
    const smm_dtype t = f->dtype;
    const intptr_t n = f->n;
    for (intptr_t i = 0; i < n; i++) exchange(&x[i], &x[f->pivots[i]]);
    for (intptr_t j = 0; j < n; j++)
        for (intptr_t i = j + 1; i < n; i++) x[i] = subtract_product(t, f->lu[i][j], x[j], x[i]);
    for (intptr_t j = n - 1; j >= 0; j--) {
        x[j] = quotient_of(t, x[j], f->lu[j][j]);
        for (intptr_t i = 0; i < j; i++) x[i] = subtract_product(t, f->lu[i][j], x[j], x[i]);
    }
}
static void solve_transposed(const factors *f, number *x) {
    const smm_dtype t = f->dtype;
    const intptr_t n = f->n;
    for (intptr_t j = 0; j < n; j++) {
        x[j] = quotient_of(t, x[j], f->lu[j][j]);
        for (intptr_t i = j + 1; i < n; i++) x[i] = subtract_product(t, f->lu[j][i], x[j], x[i]);
    }
    for (intptr_t j = n - 1; j >= 0; j--)
        for (intptr_t i = 0; i < j; i++) x[i] = subtract_product(t, f->lu[j][i], x[j], x[i]);
    for (intptr_t i = n - 1; i >= 0; i--) exchange(&x[i], &x[f->pivots[i]]);
}

void smm_apply_numbers(const factors *f, number *x, bool transposed) { (transposed ? solve_transposed : solve)(f, x); }

/* b == NULL: the identity. */
static void solve_all(const smm_call *call, const factors *f, intptr_t q, const smm_operand *b, const smm_operand *to,
                      intptr_t sides) {
    for (intptr_t j = 0; j < sides; j++) {
        number x[SMM_MOST_ORDER];
        for (intptr_t i = 0; i < f->n; i++) x[i] = b ? get_number(b, f->dtype, q, i, j) : i == j ? one : zero;
        smm_apply_numbers(f, x, call->form & SMM_TRANSPOSED);
        for (intptr_t i = 0; i < f->n; i++) put_number(to, f->dtype, q, i, j, f->info ? not_a_number : x[i]);
    }
}

static void get_matrix(const smm_operand *a, factors *f, intptr_t q) {
    for (intptr_t i = 0; i < f->n; i++)
        for (intptr_t j = 0; j < f->n; j++) f->lu[i][j] = get_number(a, f->dtype, q, i, j);
}

/* As in lu.c. */
void smm_given_numbers(const smm_operand *lu, const smm_operand *pivots, factors *f, intptr_t q) {
    intptr_t wrong = 0;
    get_matrix(lu, f, q);
    f->info = 0;
    for (intptr_t i = f->n - 1; i >= 0; i--) {
        const intptr_t p = *(const int32_t *)((const char *)pivots->data + q * pivots->batch + i * pivots->row);
        const bool is_row = p >= i && p < f->n;
        f->pivots[i] = is_row ? p : i;
        if (!is_row) wrong = -(i + 1);
        if (is_zero(f->lu[i][i])) f->info = i + 1;
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

/* The product of the diagonal of U, negated for an odd number of exchanges: the result times two to the exponent. */
static number product_of_pivots(const factors *f, intptr_t *exponent) {
    number p = one;
    *exponent = 0;
    for (intptr_t i = 0; i < f->n; i++)
        if (f->pivots[i] != i) p.re = -p.re;
    for (intptr_t i = 0; i < f->n; i++) {
        const int e = exponent_of(f->lu[i][i]);
        p = product(f->dtype, p, shifted(f->dtype, f->lu[i][i], -e));
        const int g = exponent_of(p);
        p = shifted(f->dtype, p, -g);
        *exponent += e + g;
    }
    return p;
}

static void put_determinant(const smm_call *call, const factors *f, intptr_t q) {
    const smm_dtype t = f->dtype;
    intptr_t exponent;
    number p = product_of_pivots(f, &exponent);
    if (call->op == SMM_OP_DET) {
        put_number(&call->det.det, t, q, 0, 0, f->singular ? zero : shifted(t, p, exponent));
        return;
    }
    const double size = round_in(t, sqrt(fma_in(t, p.im, p.im, round_in(t, p.re * p.re))));
    const double log_size = round_in(t, log(size) + (double)exponent * M_LN2);
    p = (number){round_in(t, p.re / size), round_in(t, p.im / size)};
    put_number(&call->slogdet.sign, t, q, 0, 0, f->singular ? zero : p);
    put(&call->slogdet.logabsdet, smm_dtypes[t].real, q, 0, 0, f->singular ? -INFINITY : log_size);
}

static void by_lu(const smm_call *call, intptr_t q) {
    factors f = {.dtype = call->dtype, .n = call->n};
    if (call->op == SMM_OP_LU_SOLVE) {
        smm_given_numbers(&call->a, &call->lu_solve.pivots, &f, q);
    } else {
        get_matrix(&call->a, &f, q);
        factor(&f);
    }
    put_int(smm_info(call), q, 0, f.info);
    switch (call->op) {
    case SMM_OP_LU:
        for (intptr_t i = 0; i < f.n; i++) put_int(&call->lu.pivots, q, i, f.info && i + 1 >= f.info ? i : f.pivots[i]);
        for (intptr_t i = 0; i < f.n; i++)
            for (intptr_t j = 0; j < f.n; j++)
                put_number(&call->lu.lu, f.dtype, q, i, j, f.info ? not_a_number : f.lu[i][j]);
        break;
    case SMM_OP_DET:
    case SMM_OP_SLOGDET: put_determinant(call, &f, q); break;
    case SMM_OP_INV: solve_all(call, &f, q, NULL, &call->inv.inverse, f.n); break;
    case SMM_OP_SOLVE: solve_all(call, &f, q, &call->solve.b, &call->solve.x, call->k); break;
    default: solve_all(call, &f, q, &call->lu_solve.b, &call->lu_solve.x, call->k);
    }
}

/* --- Cholesky, triangular systems --- */

/* Matrix q of A or, conjugated and transposed, of the other triangle. */
static void get_triangle(const smm_call *call, intptr_t q, bool conjugated, numbers a) {
    for (intptr_t i = 0; i < call->n; i++)
        for (intptr_t j = 0; j < call->n; j++) {
            const number x = get_number(&call->a, call->dtype, q, i, j);
            *(conjugated ? &a[j][i] : &a[i][j]) = conjugated ? conjugate(x) : x;
        }
}

/* The lower triangle becomes L of A = L L^H; returns info. */
static intptr_t cholesky(smm_dtype t, numbers a, intptr_t n) {
    intptr_t info = 0;
    for (intptr_t j = 0; j < n && !info; j++) {
        if (!(a[j][j].re > 0)) info = j + 1;
        a[j][j] = (number){round_in(t, sqrt(a[j][j].re)), 0};
        const double r = round_in(t, 1 / a[j][j].re);
        for (intptr_t i = j + 1; i < n; i++) a[i][j] = scaled(t, a[i][j], r);
        for (intptr_t k = j + 1; k < n; k++)
            for (intptr_t i = k; i < n; i++) a[i][k] = subtract_product(t, a[i][j], conjugate(a[k][j]), a[i][k]);
    }
    return info;
}

/* U of A = U^H U is the transpose of L of A^T = L L^H. */
static void by_cholesky(const smm_call *call, intptr_t q) {
    const smm_dtype t = call->dtype;
    const intptr_t n = call->n;
    const bool upper = call->form & SMM_UPPER;
    numbers a;
    for (intptr_t i = 0; i < n; i++)
        for (intptr_t j = 0; j <= i; j++) a[i][j] = get_number(&call->a, t, q, upper ? j : i, upper ? i : j);
    const intptr_t info = cholesky(t, a, n);
    for (intptr_t i = 0; i < n; i++)
        for (intptr_t j = 0; j < n; j++) {
            const number l = i > j ? a[i][j] : i == j ? (number){a[i][i].re, 0} : zero;
            put_number(&call->cholesky.l, t, q, upper ? j : i, upper ? i : j, info ? not_a_number : l);
        }
    put_int(smm_info(call), q, 0, info);
}

static void solve_triangle(smm_dtype t, numbers a, intptr_t n, bool upper, bool unit, number *x) {
    for (intptr_t step = 0; step < n; step++) {
        const intptr_t j = upper ? n - 1 - step : step;
        if (!unit) x[j] = quotient_of(t, x[j], a[j][j]);
        for (intptr_t i = upper ? 0 : j + 1; i < (upper ? j : n); i++) x[i] = subtract_product(t, a[i][j], x[j], x[i]);
    }
}

static void by_factor(const smm_call *call, intptr_t q) {
    const smm_dtype t = call->dtype;
    const intptr_t n = call->n;
    numbers a, other;
    get_triangle(call, q, call->form & SMM_UPPER, a);
    const intptr_t info = cholesky(t, a, n);
    for (intptr_t i = 0; i < n; i++)
        for (intptr_t j = 0; j <= i; j++) other[j][i] = conjugate(a[i][j]);
    for (intptr_t k = 0; k < call->k; k++) {
        number x[SMM_MOST_ORDER];
        for (intptr_t i = 0; i < n; i++) x[i] = get_number(&call->solve_pos.b, t, q, i, k);
        solve_triangle(t, a, n, false, false, x);
        solve_triangle(t, other, n, true, false, x);
        for (intptr_t i = 0; i < n; i++) put_number(&call->solve_pos.x, t, q, i, k, info ? not_a_number : x[i]);
    }
    put_int(smm_info(call), q, 0, info);
}

static void by_triangles(const smm_call *call, intptr_t q) {
    const smm_dtype t = call->dtype;
    const intptr_t n = call->n;
    const bool upper = call->form & SMM_UPPER, unit = call->form & SMM_UNIT, factored = call->op == SMM_OP_CHO_SOLVE;
    const smm_operand *b = factored ? &call->cho_solve.b : &call->solve_triangular.b;
    const smm_operand *to = factored ? &call->cho_solve.x : &call->solve_triangular.x;
    numbers a, other;
    intptr_t info = 0;
    get_triangle(call, q, false, a);
    get_triangle(call, q, true, other);
    for (intptr_t j = n - 1; j >= 0 && !unit; j--)
        if (is_zero(a[j][j])) info = j + 1;
    for (intptr_t k = 0; k < call->k; k++) {
        number x[SMM_MOST_ORDER];
        for (intptr_t i = 0; i < n; i++) x[i] = get_number(b, t, q, i, k);
        if (factored) {
            solve_triangle(t, upper ? other : a, n, false, false, x);
            solve_triangle(t, upper ? a : other, n, true, false, x);
        } else {
            solve_triangle(t, a, n, upper, unit, x);
        }
        for (intptr_t i = 0; i < n; i++) put_number(to, t, q, i, k, info ? not_a_number : x[i]);
    }
    put_int(smm_info(call), q, 0, info);
}

/* --- QR --- */

typedef smm_reflectors reflectors;

/* The sum of the squares of real parts and that of imaginary parts, and those of x_0. */
static double sum_of_squares(smm_dtype t, const number *x, intptr_t step, intptr_t count) {
    double re = 0, im = 0;
    for (intptr_t i = 1; i < count; i++) {
        re = fma_in(t, x[i * step].re, x[i * step].re, re);
        im = fma_in(t, x[i * step].im, x[i * step].im, im);
    }
    return fma_in(t, x[0].im, x[0].im, fma_in(t, x[0].re, x[0].re, round_in(t, re + im)));
}

/* As LAPACK's larfg. */
number smm_reflector_of_numbers(smm_dtype t, number *x, intptr_t step, intptr_t count) {
    bool nothing = x[0].im == 0;
    for (intptr_t i = 1; i < count; i++) nothing &= is_zero(x[i * step]);
    if (nothing) return zero;
    double squares = sum_of_squares(t, x, step, count), back = 1;
    const smm_squares limit = smm_squares_of(t);
    if (squares < limit.low || squares > limit.high) {
        const double scale = squares < limit.low ? limit.up : limit.down;
        for (intptr_t i = 0; i < count; i++) x[i * step] = scaled(t, x[i * step], scale);
        squares = sum_of_squares(t, x, step, count);
        back = 1 / scale;
    }
    const double norm = round_in(t, sqrt(squares)), beta = x[0].re < 0 ? norm : -norm;
    const number tau = {round_in(t, round_in(t, beta - x[0].re) / beta), round_in(t, -x[0].im / beta)};
    const number r = reciprocal_of(t, (number){round_in(t, x[0].re - beta), x[0].im});
    for (intptr_t i = 1; i < count; i++) x[i * step] = product(t, x[i * step], r);
    x[0] = (number){round_in(t, beta * back), 0};
    return tau;
}

void smm_reflect_numbers(smm_dtype t, const number *v, intptr_t step_v, number factor, number *x, intptr_t step,
                         intptr_t count) {
    number w = x[0];
    for (intptr_t i = 1; i < count; i++) w = add_product(t, conjugate(v[i * step_v]), x[i * step], w);
    w = product(t, factor, w);
    x[0] = sum(t, x[0], (number){-w.re, -w.im});
    for (intptr_t i = 1; i < count; i++) x[i * step] = subtract_product(t, v[i * step_v], w, x[i * step]);
}

void smm_factor_numbers(reflectors *f) {
    const intptr_t m = f->m, n = f->n;
    for (intptr_t k = 0; k < least(m, n); k++) {
        number *x = f->a + k * n + k;
        f->tau[k] = smm_reflector_of_numbers(f->dtype, x, n, m - k);
        for (intptr_t j = 1; j < n - k; j++) smm_reflect_numbers(f->dtype, x, n, conjugate(f->tau[k]), x + j, n, m - k);
    }
}

void smm_column_of_numbers(const reflectors *f, intptr_t j, number *x) {
    const intptr_t m = f->m, n = f->n;
    for (intptr_t i = 0; i < m; i++) x[i] = i == j ? one : zero;
    for (intptr_t k = least(j, least(m, n) - 1); k >= 0; k--)
        smm_reflect_numbers(f->dtype, f->a + k * n + k, n, f->tau[k], x + k, 1, m - k);
}

double smm_length_of_numbers(smm_dtype t, const number *x, intptr_t count) {
    const smm_squares limit = smm_squares_of(t);
    const double squares = sum_of_squares(t, x, 1, count);
    if (!(squares < limit.low)) return round_in(t, sqrt(squares));
    number y[SMM_MOST_ORDER];
    for (intptr_t i = 0; i < count; i++) y[i] = scaled(t, x[i], limit.up);
    return round_in(t, round_in(t, sqrt(sum_of_squares(t, y, 1, count))) * limit.down);
}

static void factor_scaled(const smm_call *call, intptr_t q, double scale, reflectors *f) {
    const intptr_t m = f->m, n = f->n;
    for (intptr_t i = 0; i < m; i++)
        for (intptr_t j = 0; j < n; j++)
            f->a[i * n + j] = scaled(f->dtype, get_number(&call->a, f->dtype, q, i, j), scale);
    smm_factor_numbers(f);
}

/* As in qr.c. */
static bool is_finite(const reflectors *f) {
    const intptr_t n = f->n, p = least(f->m, n);
    for (intptr_t k = 0; k < p; k++)
        if (!isfinite(size_of(f->dtype, f->a[k * n + k]))) return false;
    for (intptr_t j = p; p && j < n; j++)
        if (!isfinite(size_of(f->dtype, f->a[(p - 1) * n + j]))) return false;
    return true;
}

static void by_reflectors(const smm_call *call, intptr_t q) {
    const intptr_t m = call->m, n = call->n, p = least(m, n);
    const smm_dtype t = call->dtype;
    reflectors f = {.dtype = t, .m = m, .n = n};
    factor_scaled(call, q, 1, &f);
    if (!is_finite(&f)) {
        factor_scaled(call, q, 0x1p-8, &f);
        for (intptr_t i = 0; i < p; i++)
            for (intptr_t j = i; j < n; j++) f.a[i * n + j] = scaled(t, f.a[i * n + j], 0x1p8);
    }
    put_int(smm_info(call), q, 0, 0);
    if (call->op == SMM_OP_QR_RAW) {
        for (intptr_t i = 0; i < m; i++)
            for (intptr_t j = 0; j < n; j++) put_number(&call->qr_raw.h, t, q, i, j, f.a[i * n + j]);
        for (intptr_t i = 0; i < p; i++) put_number(&call->qr_raw.tau, t, q, i, 0, f.tau[i]);
        return;
    }
    const smm_operand *r = call->op == SMM_OP_QR ? &call->qr.r : &call->qr_r.r;
    for (intptr_t i = 0; i < call->k; i++)
        for (intptr_t j = 0; j < n; j++) put_number(r, t, q, i, j, i < p && i <= j ? f.a[i * n + j] : zero);
    for (intptr_t j = 0; j < call->k && call->op == SMM_OP_QR; j++) {
        number x[SMM_MOST_ORDER * SMM_MOST_ORDER];
        smm_column_of_numbers(&f, j, x);
        for (intptr_t i = 0; i < m; i++) put_number(&call->qr.q, t, q, i, j, x[i]);
    }
}

void smm_reference_complex(const smm_call *call) {
    for (intptr_t q = 0; q < call->batch; q++) switch (call->op) {
        case SMM_OP_MATMUL: multiply(call, q); break;
        case SMM_OP_LU:
        case SMM_OP_LU_SOLVE:
        case SMM_OP_SOLVE:
        case SMM_OP_DET:
        case SMM_OP_SLOGDET:
        case SMM_OP_INV: by_lu(call, q); break;
        case SMM_OP_CHOLESKY: by_cholesky(call, q); break;
        case SMM_OP_SOLVE_POS: by_factor(call, q); break;
        case SMM_OP_LDL:
        case SMM_OP_LDL_SOLVE:
        case SMM_OP_SOLVE_SYM: smm_reference_ldl(call, q); break;
        case SMM_OP_SOLVE_TRIDIAGONAL:
        case SMM_OP_SOLVE_BANDED:
        case SMM_OP_SOLVEH_BANDED: smm_reference_banded_numbers(call, q); break;
        case SMM_OP_CHO_SOLVE:
        case SMM_OP_SOLVE_TRIANGULAR: by_triangles(call, q); break;
        case SMM_OP_QR:
        case SMM_OP_QR_R:
        case SMM_OP_QR_RAW: by_reflectors(call, q); break;
        case SMM_OP_LSTSQ: smm_reference_squares(call, q); break;
        case SMM_OP_EIGH:
        case SMM_OP_EIGVALSH: smm_reference_hermitian(call, q); break;
        case SMM_OP_EIG:
        case SMM_OP_EIGVALS: smm_reference_eig(call, q); break;
        case SMM_OP_EXPM: smm_reference_expm(call, q); break;
        case SMM_OP_SVD:
        case SMM_OP_SVD_FULL:
        case SMM_OP_SVDVALS: smm_reference_svd_numbers(call, q); break;
        case SMM_OP_LU_RCOND:
        case SMM_OP_BACKWARD_ERROR:
        case SMM_OP_REFINE: smm_reference_refinement_of_numbers(call, q); break;
        default: break; /* no operation on complex matrices */
        }
}
