/* qr.c: Householder QR in place (LAPACK's geqrf and orgqr; Golub and Van Loan, Matrix Computations, algorithm 5.2.1),
 * and least squares by QR with column pivoting and a complete orthogonal factorization (LAPACK's gelsy). The diagonals
 * of R are real. */
#include "reference.h"

typedef smm_factors factors;

/* Sums of squares outside of low .. high have lost digits to underflow, or may overflow; then x is scaled by a power of
 * two, which loses none. */
typedef struct squares_limit {
    double low, high, up, down;
} squares_limit;
static squares_limit limit_of(smm_dtype t) {
    static const squares_limit of[SMM_DTYPE_COUNT] = {[SMM_F32] = {0x1p-100, 0x1p120, 0x1p100, 0x1p-100},
                                                      [SMM_F64] = {0x1p-900, 0x1p1000, 0x1p600, 0x1p-600}};
    return of[smm_dtypes[t].real];
}

/* Of real numbers the sum of squares of x_1 .. x_count-1 in four parts, of complex ones that of real parts and that of
 * imaginary parts; then that of x_0. */
static double sum_of_squares(smm_dtype t, const number *x, intptr_t step, intptr_t count) {
    double s[4] = {0, 0, 0, 0};
    const bool is_complex = smm_is_complex(t);
    for (intptr_t i = 1; i < count; i++) {
        const number y = x[i * step];
        double *const re = &s[is_complex ? 0 : (i - 1) % 4];
        *re = fma_in(t, y.re, y.re, *re);
        if (is_complex) s[1] = fma_in(t, y.im, y.im, s[1]);
    }
    double all = round_in(t, s[0] + s[1]);
    if (!is_complex) all = round_in(t, all + round_in(t, s[2] + s[3]));
    all = fma_in(t, x[0].re, x[0].re, all);
    return is_complex ? fma_in(t, x[0].im, x[0].im, all) : all;
}

number smm_reflector(smm_dtype t, number *x, intptr_t step, intptr_t count) {
    bool nothing = x[0].im == 0;
    for (intptr_t i = 1; i < count && nothing; i++) nothing = is_zero(x[i * step]);
    if (nothing) return zero;
    double squares = sum_of_squares(t, x, step, count), back = 1;
    const squares_limit limit = limit_of(t);
    if (squares < limit.low || squares > limit.high) {
        const double scale = squares < limit.low ? limit.up : limit.down;
        for (intptr_t i = 0; i < count; i++) x[i * step] = scaled(t, x[i * step], scale);
        squares = sum_of_squares(t, x, step, count);
        back = 1 / scale;
    }
    const double norm = round_in(t, sqrt(squares)), beta = x[0].re < 0 ? norm : -norm;
    const number tau = divided(t, (number){round_in(t, beta - x[0].re), -x[0].im}, beta);
    const number r = reciprocal_of(t, (number){round_in(t, x[0].re - beta), x[0].im});
    for (intptr_t i = 1; i < count; i++) x[i * step] = product(t, x[i * step], r);
    x[0] = (number){round_in(t, beta * back), 0};
    return tau;
}

void smm_reflect(smm_dtype t, const number *v, intptr_t step_v, number factor, number *x, intptr_t step,
                 intptr_t count) {
    number w = x[0];
    for (intptr_t i = 1; i < count; i++) w = add_product(t, conjugate(v[i * step_v]), x[i * step], w);
    w = product(t, factor, w);
    x[0] = difference(t, x[0], w);
    for (intptr_t i = 1; i < count; i++) x[i * step] = subtract_product(t, v[i * step_v], w, x[i * step]);
}

double smm_length(smm_dtype t, const number *x, intptr_t count) {
    const squares_limit limit = limit_of(t);
    const double squares = sum_of_squares(t, x, 1, count);
    if (!(squares < limit.low)) return round_in(t, sqrt(squares));
    number y[SMM_MAX_ORDER] = {zero};
    for (intptr_t i = 0; i < count; i++) y[i] = scaled(t, x[i], limit.up);
    return round_in(t, round_in(t, sqrt(sum_of_squares(t, y, 1, count))) * limit.down);
}

/* Step k: the reflector of column k, which changes those right of it. */
static void eliminate(factors *f, intptr_t k) {
    number *x = f->a + k * f->n + k;
    f->tau[k] = smm_reflector(f->dtype, x, f->n, f->m - k);
    for (intptr_t j = 1; j < f->n - k; j++) smm_reflect(f->dtype, x, f->n, conjugate(f->tau[k]), x + j, f->n, f->m - k);
}

void smm_factor(factors *f) {
    for (intptr_t k = 0; k < min_of(f->m, f->n); k++) eliminate(f, k);
}

/* From the last reflector on. Of real numbers zeros have the signs that follow when H_k finds q_k = 0 or, where k = j,
 * column k of I. */
void smm_column_of_q(const factors *f, intptr_t j, number *q) {
    const smm_dtype t = f->dtype;
    const intptr_t m = f->m, n = f->n;
    for (intptr_t i = 0; i < m; i++) q[i] = i == j ? one : zero;
    for (intptr_t k = min_of(j, min_of(m, n) - 1); k >= 0; k--) {
        const number *v = f->a + k * n + k, tau = f->tau[k];
        if (smm_is_complex(t)) {
            smm_reflect(t, v, n, tau, q + k, 1, m - k);
        } else if (k == j) {
            q[k] = difference(t, one, tau);
            for (intptr_t i = k + 1; i < m; i++) q[i] = product(t, negated(tau), v[(i - k) * n]);
        } else {
            number w = k + 1 < m ? product(t, v[n], q[k + 1]) : zero;
            for (intptr_t i = k + 2; i < m; i++) w = add_product(t, v[(i - k) * n], q[i], w);
            w = product(t, tau, w);
            q[k] = negated(w);
            for (intptr_t i = k + 1; i < m; i++) q[i] = subtract_product(t, v[(i - k) * n], w, q[i]);
        }
    }
}

static void get_scaled(const smm_call *call, intptr_t q, double scale, factors *f) {
    for (intptr_t i = 0; i < f->m; i++)
        for (intptr_t j = 0; j < f->n; j++)
            f->a[i * f->n + j] = scaled(f->dtype, get_number(&call->a, f->dtype, q, i, j), scale);
}

/* What overflows anywhere leaves its mark on the diagonal of R or, right of it, in the last row. */
static bool has_overflowed(const factors *f) {
    const intptr_t n = f->n, p = min_of(f->m, n);
    for (intptr_t k = 0; k < p; k++)
        if (!isfinite(size_of(f->dtype, f->a[k * n + k]))) return true;
    for (intptr_t j = p; p && j < n; j++)
        if (!isfinite(size_of(f->dtype, f->a[(p - 1) * n + j]))) return true;
    return false;
}

/* Factor matrix q; once more from a scaled one where products of elements near the largest number overflow. */
static void factor_safely(const smm_call *call, intptr_t q, factors *f) {
    get_scaled(call, q, 1, f);
    smm_factor(f);
    if (!has_overflowed(f)) return;
    get_scaled(call, q, 0x1p-8, f);
    smm_factor(f);
    for (intptr_t i = 0; i < min_of(f->m, f->n); i++)
        for (intptr_t j = i; j < f->n; j++) f->a[i * f->n + j] = scaled(f->dtype, f->a[i * f->n + j], 0x1p8);
}

static void put_factors(const smm_call *call, intptr_t q, const factors *f) {
    const smm_dtype t = f->dtype;
    const intptr_t m = f->m, n = f->n;
    if (call->op == SMM_OP_QR_RAW) {
        for (intptr_t i = 0; i < m; i++)
            for (intptr_t j = 0; j < n; j++) put_number(&call->qr_raw.h, t, q, i, j, f->a[i * n + j]);
        for (intptr_t i = 0; i < min_of(m, n); i++) put_number(&call->qr_raw.tau, t, q, i, 0, f->tau[i]);
        return;
    }
    const smm_operand *r = call->op == SMM_OP_QR ? &call->qr.r : &call->qr_r.r;
    for (intptr_t i = 0; i < call->k; i++)
        for (intptr_t j = 0; j < n; j++) put_number(r, t, q, i, j, i <= j ? f->a[i * n + j] : zero);
    for (intptr_t j = 0; call->op == SMM_OP_QR && j < call->k; j++) {
        number x[ELEMENTS];
        smm_column_of_q(f, j, x);
        for (intptr_t i = 0; i < m; i++) put_number(&call->qr.q, t, q, i, j, x[i]);
    }
}

/* --- Least squares ------------------------------------------------------------------------------------------------ */

double smm_scale_to_one(smm_dtype t, double most) {
    static const int fars[SMM_DTYPE_COUNT] = {[SMM_F32] = 20, [SMM_F64] = 200};
    static const int limits[SMM_DTYPE_COUNT] = {[SMM_F32] = 120, [SMM_F64] = 1000};
    const int far = fars[smm_dtypes[t].real], limit = limits[smm_dtypes[t].real];
    if (!(most > 0) || !isfinite(most)) return 1;
    const int e = ilogb(most);
    return most < ldexp(1, -far) || most > ldexp(1, far) ? ldexp(1, e > limit ? -limit : e < -limit ? limit : -e) : 1;
}

/* At once where their product is a number, for one after the other, opposite ones may overflow on the way. */
static double scaled_back(smm_dtype t, double x, double first, double second) {
    const double both = round_in(t, first * second);
    return both > 0 && isfinite(both) ? round_in(t, x * both) : round_in(t, round_in(t, x * first) * second);
}

/* The largest magnitude of a part; NaN is never the largest. */
static double largest_part(const number *x, intptr_t count) {
    double most = 0;
    for (intptr_t i = 0; i < count; i++) most = fmax(most, fmax(fabs(x[i].re), fabs(x[i].im)));
    return most;
}

double smm_scale_all(smm_dtype t, number *x, intptr_t count) {
    const double scale = smm_scale_to_one(t, largest_part(x, count));
    for (intptr_t i = 0; i < count; i++) {
        if (!is_finite(x[i])) return NAN;
        x[i] = scaled(t, x[i], scale);
    }
    return scale;
}

/* Squares of real parts, and those of imaginary parts. */
static double squares_of(smm_dtype t, const number *x, intptr_t step, intptr_t count) {
    double re = 0, im = 0;
    for (intptr_t i = 0; i < count; i++) {
        re = fma_in(t, x[i * step].re, x[i * step].re, re);
        if (smm_is_complex(t)) im = fma_in(t, x[i * step].im, x[i * step].im, im);
    }
    return round_in(t, re + im);
}

/* A P = Q R: step k brings the column whose rest is longest, the first of equals, to place k; perm_k says whose it was.
 */
static void factor_pivoting(factors *f, intptr_t *perm) {
    const intptr_t m = f->m, n = f->n;
    for (intptr_t j = 0; j < n; j++) perm[j] = j;
    for (intptr_t k = 0; k < min_of(m, n); k++) {
        intptr_t longest = k;
        double most = 0;
        for (intptr_t j = k; j < n; j++) {
            const double s = squares_of(f->dtype, f->a + k * n + j, n, m - k);
            if (j == k || s > most) longest = j, most = s;
        }
        for (intptr_t i = 0; i < m; i++) swap(&f->a[i * n + k], &f->a[i * n + longest]);
        const intptr_t j = perm[k];
        perm[k] = perm[longest];
        perm[longest] = j;
        eliminate(f, k);
    }
}

/* The first `rank` rows of R become (T 0), T upper triangular, by reflectors from the right, which are those of the
 * conjugated rows: H_i, which overwrites the tail of row i from column `rank` on, changes column i and the tail. As
 * LAPACK's tzrzf. */
static void annihilate_tail(factors *f, intptr_t rank, number *tau) {
    const smm_dtype t = f->dtype;
    const intptr_t n = f->n;
    for (intptr_t i = rank - 1; i >= 0 && rank < n; i--) {
        number x[ELEMENTS], *row = f->a + i * n;
        for (intptr_t j = i; j < n; j++) x[j] = j == i || j >= rank ? conjugate(row[j]) : zero;
        tau[i] = smm_reflector(t, x + i, 1, n - i);
        row[i] = x[i];
        for (intptr_t j = rank; j < n; j++) row[j] = x[j];
        for (intptr_t h = 0; h < i; h++) {
            number *y = f->a + h * n, w = y[i];
            for (intptr_t j = rank; j < n; j++) w = add_product(t, row[j], y[j], w);
            w = product(t, tau[i], w);
            y[i] = difference(t, y[i], w);
            for (intptr_t j = rank; j < n; j++) y[j] = subtract_product(t, conjugate(row[j]), w, y[j]);
        }
    }
}

/* x, holding a right-hand side, becomes the solution of least norm, still permuted; the result is the residual norm. */
static double solve(const factors *f, intptr_t rank, const number *tail_tau, number *x) {
    const smm_dtype t = f->dtype;
    const intptr_t m = f->m, n = f->n;
    for (intptr_t k = 0; k < min_of(m, n); k++)
        smm_reflect(t, f->a + k * n + k, n, conjugate(f->tau[k]), x + k, 1, m - k);
    const double norm = round_in(t, sqrt(squares_of(t, x + rank, 1, m - rank)));
    for (intptr_t i = rank; i < n; i++) x[i] = zero;
    for (intptr_t j = rank - 1; j >= 0; j--) {
        const double pivot = f->a[j * n + j].re;
        x[j] = (number){quotient(t, x[j].re, pivot), quotient(t, x[j].im, pivot)};
        for (intptr_t i = 0; i < j; i++) x[i] = subtract_product(t, f->a[i * n + j], x[j], x[i]);
    }
    for (intptr_t i = 0; i < rank && rank < n; i++) {
        const number *v = f->a + i * n;
        number w = x[i];
        for (intptr_t j = rank; j < n; j++) w = add_product(t, conjugate(v[j]), x[j], w);
        w = product(t, tail_tau[i], w);
        x[i] = difference(t, x[i], w);
        for (intptr_t j = rank; j < n; j++) x[j] = subtract_product(t, v[j], w, x[j]);
    }
    return norm;
}

/* Incremental condition estimation (LAPACK's laic1; Bischof, SIAM J. Matrix Anal. Appl. 11, 1990). Of a leading k x k
 * block of R, sigma = |x^H R|_2, of a unit vector x, estimates the largest or the smallest singular value. One more
 * column (w; gamma) makes (s x; c) of x. Of all unit vectors (s, c) it is that of the largest or the smallest
 * sigma = |(s sigma, s alpha + c gamma)|_2, where alpha = x^H w, made real by turning x. */
typedef struct estimate {
    double sigma;
    number x[SMM_MAX_ORDER];
} estimate;

typedef struct extension {
    double sigma, s, c;
} extension;

static extension of_unit_length(smm_dtype dtype, double sigma, double s, double c) {
    const double length = round_in(dtype, sqrt(fma_in(dtype, s, s, round_in(dtype, c * c))));
    return (extension){sigma, round_in(dtype, s / length), round_in(dtype, c / length)};
}

/* root - b without cancellation, where root^2 = b^2 + c; where b > 0 also b - root, where root^2 = b^2 - c. */
static double root_less_b(smm_dtype dtype, double root, double b, double c) {
    return b > 0 ? round_in(dtype, c / round_in(dtype, b + root)) : round_in(dtype, root - b);
}

/* Without laic1's case of alpha or gamma large beside sigma: no column of R is longer than the first, whose length
 * sigma begins with. */
static extension largest_extension(smm_dtype dtype, double sigma, double alpha, double gamma) {
    if (fabs(alpha) <= round_in(dtype, roundoff(dtype) * sigma))
        return fabs(gamma) > sigma ? (extension){fabs(gamma), 0, 1} : (extension){sigma, 1, 0};
    const double y = round_in(dtype, alpha / sigma), z = round_in(dtype, gamma / sigma);
    const double yy = round_in(dtype, y * y), zz = round_in(dtype, z * z);
    const double b = round_in(dtype, 1 - round_in(dtype, yy + zz)) / 2;
    const double t = root_less_b(dtype, round_in(dtype, sqrt(fma_in(dtype, b, b, yy))), b, yy);
    const double larger = round_in(dtype, 1 + t);
    return of_unit_length(dtype, round_in(dtype, round_in(dtype, sqrt(larger)) * sigma), round_in(dtype, y / t),
                          round_in(dtype, z / larger));
}

static extension smallest_extension(smm_dtype dtype, double sigma, double alpha, double gamma) {
    const double u = roundoff(dtype), most = fmax(fabs(alpha), fabs(gamma)), small = round_in(dtype, u * sigma);
    if (fabs(alpha) <= small || fabs(gamma) <= small)
        return fabs(gamma) > sigma ? (extension){sigma, 1, 0} : (extension){fabs(gamma), 0, 1};
    if (sigma <= round_in(dtype, u * most)) {
        const extension e = of_unit_length(dtype, 0, -round_in(dtype, gamma / most), round_in(dtype, alpha / most));
        return (extension){round_in(dtype, sigma * fabs(e.s)), e.s, e.c};
    }
    /* sigma^2 becomes `ratio` times what it was. Which is nearer to 0 comes first: that or 1 - ratio. */
    const double y = round_in(dtype, alpha / sigma), z = round_in(dtype, gamma / sigma);
    const double yy = round_in(dtype, y * y), zz = round_in(dtype, z * z);
    const bool near_zero = round_in(dtype, zz - yy) <= 0.5;
    const double b = round_in(dtype, round_in(dtype, yy + zz) + (near_zero ? 1 : -1)) / 2, c = near_zero ? zz : yy;
    const double root = round_in(dtype, sqrt(fabs(fma_in(dtype, b, b, near_zero ? -c : c))));
    const double t = root_less_b(dtype, root, b, c), rest = round_in(dtype, 1 - t);
    const double ratio = near_zero ? t : rest, lost = near_zero ? rest : t;
    const double norm = round_in(dtype, fmax(round_in(dtype, 1 + yy), zz) + round_in(dtype, fabs(y) * fabs(z)));
    const double squared = fma_in(dtype, 4 * u * u, norm, ratio); /* no less than its rounding error */
    return of_unit_length(dtype, round_in(dtype, round_in(dtype, sqrt(squared)) * sigma), round_in(dtype, y / lost),
                          -round_in(dtype, z / ratio));
}

static void extend(const factors *f, estimate *of, intptr_t k, extension (*by)(smm_dtype, double, double, double)) {
    const smm_dtype t = f->dtype;
    number along = zero;
    for (intptr_t i = 0; i < k; i++) along = add_product(t, conjugate(of->x[i]), f->a[i * f->n + k], along);
    const double alpha = magnitude(t, along);
    const number direction = alpha > 0 ? divided(t, along, alpha) : one;
    const extension e = by(t, of->sigma, alpha, f->a[k * f->n + k].re);
    const number factor = scaled(t, direction, e.s);
    for (intptr_t i = 0; i < k; i++) of->x[i] = product(t, factor, of->x[i]);
    of->x[k] = (number){e.c, 0};
    of->sigma = e.sigma;
}

/* As gelsy: of the leading blocks of R up to the first whose estimated condition is above 1 / rtol, the largest. Unlike
 * gelsy, none counts whose smallest singular value is estimated to be 0, even if rtol is. */
static intptr_t rank_of(const factors *f, double rtol) {
    estimate largest = {.sigma = fabs(f->a[0].re), .x = {one}}, smallest = largest;
    if (!(largest.sigma > 0)) return 0;
    for (intptr_t k = 1; k < min_of(f->m, f->n); k++) {
        extend(f, &largest, k, largest_extension);
        extend(f, &smallest, k, smallest_extension);
        if (!(smallest.sigma > 0 && smallest.sigma >= round_in(f->dtype, rtol * largest.sigma))) return k;
    }
    return min_of(f->m, f->n);
}

static void least_squares(const smm_call *call, intptr_t q, factors *f) {
    const smm_dtype t = f->dtype, real = smm_dtypes[t].real;
    const intptr_t m = f->m, n = f->n;
    get_scaled(call, q, 1, f);
    const double scale = smm_scale_all(t, f->a, m * n);
    intptr_t perm[ELEMENTS];
    number tail_tau[SMM_MAX_ORDER];
    factor_pivoting(f, perm);
    const double rtol = call->lstsq.rtol.data ? get(&call->lstsq.rtol, real, q, 0, 0) : 0;
    const intptr_t rank = isnan(scale) ? 0 : rank_of(f, rtol);
    annihilate_tail(f, rank, tail_tau);
    put_int(&call->lstsq.rank, q, 0, rank);
    for (intptr_t j = 0; j < call->k; j++) {
        number x[ELEMENTS];
        for (intptr_t i = 0; i < m; i++) x[i] = get_number(&call->lstsq.b, t, q, i, j);
        const double scale_b = smm_scale_to_one(t, largest_part(x, m));
        for (intptr_t i = 0; i < m; i++) x[i] = scaled(t, x[i], scale_b);
        const double norm = solve(f, rank, tail_tau, x);
        put(&call->lstsq.residuals, real, q, j, 0, isnan(scale) ? NAN : round_in(t, norm * (1 / scale_b)));
        for (intptr_t i = 0; i < n; i++) {
            const number back = {scaled_back(t, x[i].re, 1 / scale_b, scale),
                                 scaled_back(t, x[i].im, 1 / scale_b, scale)};
            put_number(&call->lstsq.x, t, q, perm[i], j, isnan(scale) ? not_a_number : back);
        }
    }
}

/* Where A has no element nothing is solved: x is zero and what is left is b. */
static void no_squares(const smm_call *call, intptr_t q) {
    put_int(&call->lstsq.rank, q, 0, 0);
    for (intptr_t j = 0; j < call->k; j++) {
        double norm = 0;
        for (intptr_t i = 0; i < call->m; i++) {
            const number x = get_number(&call->lstsq.b, call->dtype, q, i, j);
            norm = hypot(norm, hypot(x.re, x.im));
        }
        put(&call->lstsq.residuals, smm_dtypes[call->dtype].real, q, j, 0, norm);
        for (intptr_t i = 0; i < call->n; i++) put_number(&call->lstsq.x, call->dtype, q, i, j, zero);
    }
}

void smm_reference_qr(const smm_call *call) {
    factors f;
    f.dtype = call->dtype, f.m = call->m, f.n = call->n;
    for (intptr_t q = 0; q < call->batch; q++) {
        if (call->op != SMM_OP_LSTSQ) {
            factor_safely(call, q, &f);
            put_factors(call, q, &f);
        } else if (f.m && f.n) {
            least_squares(call, q, &f);
        } else {
            no_squares(call, q);
        }
        put_int(smm_info(call), q, 0, 0);
    }
}
