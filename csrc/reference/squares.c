/* squares.c: least squares of complex matrices, by the method of qr.c (LAPACK's gelsy). The diagonals of R and T are
 * real. */
#include "number.h"

typedef struct smm_reflectors factors;

enum { ELEMENTS = SMM_MOST_ORDER * SMM_MOST_ORDER };

static const number zero = {0, 0}, one = {1, 0};

/* Squares of real parts, and those of imaginary parts. */
static double squares_of(smm_dtype t, const number *x, intptr_t step, intptr_t count) {
    double re = 0, im = 0;
    for (intptr_t i = 0; i < count; i++) {
        re = fma_in(t, x[i * step].re, x[i * step].re, re);
        im = fma_in(t, x[i * step].im, x[i * step].im, im);
    }
    return round_in(t, re + im);
}

/* The largest magnitude of a part; NaN is never the largest. */
static double largest_part(const number *x, intptr_t count) {
    double most = 0;
    for (intptr_t i = 0; i < count; i++) {
        if (fabs(x[i].re) > most) most = fabs(x[i].re);
        if (fabs(x[i].im) > most) most = fabs(x[i].im);
    }
    return most;
}

/* A P = Q R: step k brings the column whose rest is longest, the first of equals, to place k; perm_k says whose it was.
 */
static void factor_pivoting(factors *f, intptr_t *perm) {
    const intptr_t m = f->m, n = f->n;
    for (intptr_t j = 0; j < n; j++) perm[j] = j;
    for (intptr_t k = 0; k < least(m, n); k++) {
        intptr_t longest = k;
        double most = 0;
        for (intptr_t j = k; j < n; j++) {
            const double s = squares_of(f->dtype, f->a + k * n + j, n, m - k);
            if (j == k || s > most) longest = j, most = s;
        }
        for (intptr_t i = 0; i < m; i++) {
            const number x = f->a[i * n + k];
            f->a[i * n + k] = f->a[i * n + longest];
            f->a[i * n + longest] = x;
        }
        const intptr_t p = perm[k];
        perm[k] = perm[longest];
        perm[longest] = p;
        number *x = f->a + k * n + k;
        f->tau[k] = smm_reflector_of_numbers(f->dtype, x, n, m - k);
        for (intptr_t j = 1; j < n - k; j++) smm_reflect_numbers(f->dtype, x, n, conjugate(f->tau[k]), x + j, n, m - k);
    }
}

/* Of a unit vector x, sigma = |x^H R|_2, of a leading block R. x is turned so that x^H w is its magnitude. */
typedef struct estimate {
    double sigma;
    number x[SMM_MOST_ORDER];
} estimate;

static bool extend(const factors *f, estimate *of, intptr_t k,
                   smm_extension (*extension)(smm_dtype, double, double, double)) {
    const smm_dtype t = f->dtype;
    number along = zero;
    for (intptr_t i = 0; i < k; i++) along = add_product(t, conjugate(of->x[i]), f->a[i * f->n + k], along);
    const double size = round_in(t, sqrt(fma_in(t, along.im, along.im, round_in(t, along.re * along.re))));
    const number direction = size > 0 ? (number){round_in(t, along.re / size), round_in(t, along.im / size)} : one;
    const smm_extension by = extension(t, of->sigma, size, f->a[k * f->n + k].re);
    const number factor = scaled(t, direction, by.s);
    for (intptr_t i = 0; i < k; i++) of->x[i] = product(t, factor, of->x[i]);
    of->x[k] = (number){by.c, 0};
    of->sigma = by.sigma;
    return by.sigma > 0;
}

static intptr_t rank_of(const factors *f, double rtol) {
    estimate largest = {.sigma = fabs(f->a[0].re), .x = {one}}, smallest = largest;
    if (!(largest.sigma > 0)) return 0;
    for (intptr_t k = 1; k < least(f->m, f->n); k++) {
        extend(f, &largest, k, smm_largest_extension);
        const bool some = extend(f, &smallest, k, smm_smallest_extension);
        if (!(some && smallest.sigma >= round_in(f->dtype, rtol * largest.sigma))) return k;
    }
    return least(f->m, f->n);
}

/* The first `rank` rows of R become (T 0), T upper triangular, by reflectors from the right, which are those of the
 * conjugated rows: H_i, which overwrites the tail of row i from column `rank` on, changes column i and the tail. As
 * LAPACK's tzrzf. */
static void annihilate_tail(factors *f, intptr_t rank, number *tau) {
    const intptr_t n = f->n;
    const smm_dtype t = f->dtype;
    for (intptr_t i = rank - 1; i >= 0 && rank < n; i--) {
        number x[ELEMENTS], *row = f->a + i * n;
        for (intptr_t j = i; j < n; j++) x[j] = j == i || j >= rank ? conjugate(row[j]) : zero;
        tau[i] = smm_reflector_of_numbers(t, x + i, 1, n - i);
        row[i] = x[i];
        for (intptr_t j = rank; j < n; j++) row[j] = x[j];
        for (intptr_t h = 0; h < i; h++) {
            number *y = f->a + h * n, w = y[i];
            for (intptr_t j = rank; j < n; j++) w = add_product(t, row[j], y[j], w);
            w = product(t, tau[i], w);
            y[i] = sum(t, y[i], (number){-w.re, -w.im});
            for (intptr_t j = rank; j < n; j++) y[j] = subtract_product(t, conjugate(row[j]), w, y[j]);
        }
    }
}

/* x, holding a right-hand side, becomes the solution of least norm, still permuted; the result is the residual norm. */
static double solve(const factors *f, intptr_t rank, const number *tail_tau, number *x) {
    const intptr_t m = f->m, n = f->n;
    const smm_dtype t = f->dtype;
    for (intptr_t k = 0; k < least(m, n); k++)
        smm_reflect_numbers(t, f->a + k * n + k, n, conjugate(f->tau[k]), x + k, 1, m - k);
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
        x[i] = sum(t, x[i], (number){-w.re, -w.im});
        for (intptr_t j = rank; j < n; j++) x[j] = subtract_product(t, v[j], w, x[j]);
    }
    return norm;
}

/* A in f, and the power of two it was scaled by, or NaN if it has elements that are not finite. */
static double get_near_one(const smm_call *call, intptr_t q, factors *f) {
    const intptr_t m = f->m, n = f->n;
    for (intptr_t e = 0; e < m * n; e++) f->a[e] = get_number(&call->a, f->dtype, q, e / n, e % n);
    const double scale = smm_scale_to_one(smm_dtypes[f->dtype].real, largest_part(f->a, m * n));
    for (intptr_t e = 0; e < m * n; e++) {
        if (!isfinite(f->a[e].re) || !isfinite(f->a[e].im)) return NAN;
        f->a[e] = scaled(f->dtype, f->a[e], scale);
    }
    return scale;
}

/* Where A has no element nothing is solved: x is zero and what is left is b. */
static void no_squares(const smm_call *call, intptr_t q) {
    const smm_dtype t = call->dtype, real = smm_dtypes[t].real;
    put_int(&call->lstsq.rank, q, 0, 0);
    for (intptr_t j = 0; j < call->k; j++) {
        double norm = 0;
        for (intptr_t i = 0; i < call->m; i++) {
            const number x = get_number(&call->lstsq.b, t, q, i, j);
            norm = hypot(norm, hypot(x.re, x.im));
        }
        put(&call->lstsq.residuals, real, q, j, 0, norm);
        for (intptr_t i = 0; i < call->n; i++) put_number(&call->lstsq.x, t, q, i, j, zero);
    }
}

void smm_reference_squares(const smm_call *call, intptr_t q) {
    const smm_dtype t = call->dtype, real = smm_dtypes[t].real;
    const intptr_t m = call->m, n = call->n;
    const number not_a_number = {NAN, NAN};
    factors f = {.dtype = t, .m = m, .n = n};
    put_int(&call->lstsq.info, q, 0, 0);
    if (!m || !n) {
        no_squares(call, q);
        return;
    }
    intptr_t perm[ELEMENTS];
    number tail_tau[SMM_MOST_ORDER];
    const double scale = get_near_one(call, q, &f);
    const double rtol = call->lstsq.rtol.data ? get(&call->lstsq.rtol, real, q, 0, 0) : 0;
    factor_pivoting(&f, perm);
    const intptr_t rank = isnan(scale) ? 0 : rank_of(&f, rtol);
    annihilate_tail(&f, rank, tail_tau);
    put_int(&call->lstsq.rank, q, 0, rank);
    for (intptr_t j = 0; j < call->k; j++) {
        number x[ELEMENTS];
        for (intptr_t i = 0; i < m; i++) x[i] = get_number(&call->lstsq.b, t, q, i, j);
        const double scale_b = smm_scale_to_one(real, largest_part(x, m));
        for (intptr_t i = 0; i < m; i++) x[i] = scaled(t, x[i], scale_b);
        const double norm = solve(&f, rank, tail_tau, x);
        put(&call->lstsq.residuals, real, q, j, 0, isnan(scale) ? NAN : round_in(t, norm * (1 / scale_b)));
        for (intptr_t i = 0; i < n; i++) {
            const number back = {smm_scaled_back(t, x[i].re, 1 / scale_b, scale),
                                 smm_scaled_back(t, x[i].im, 1 / scale_b, scale)};
            put_number(&call->lstsq.x, t, q, perm[i], j, isnan(scale) ? not_a_number : back);
        }
    }
}
