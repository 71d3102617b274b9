/* qr.c: Householder QR in place (LAPACK's geqrf and orgqr; Golub and Van Loan, Matrix Computations, algorithm 5.2.1),
 * and least squares by QR with column pivoting and a complete orthogonal factorization (LAPACK's gelsy). */
#include "reference.h"

enum { ELEMENTS = SMM_MOST_ORDER * SMM_MOST_ORDER };

typedef smm_factors factors;

smm_squares smm_squares_of(smm_dtype dtype) {
    static const smm_squares of[SMM_DTYPE_COUNT] = {[SMM_F32] = {0x1p-100, 0x1p120, 0x1p100, 0x1p-100},
                                                    [SMM_F64] = {0x1p-900, 0x1p1000, 0x1p600, 0x1p-600}};
    return of[smm_dtypes[dtype].real];
}

/* The sum of squares of x_1 .. x_count-1 in four parts, and that of x_0. */
static double sum_of_squares(smm_dtype dtype, const double *x, intptr_t step, intptr_t count) {
    double s[4] = {0, 0, 0, 0};
    for (intptr_t i = 1; i < count; i++) s[(i - 1) % 4] = fma_in(dtype, x[i * step], x[i * step], s[(i - 1) % 4]);
    const double rest = round_in(dtype, round_in(dtype, s[0] + s[1]) + round_in(dtype, s[2] + s[3]));
    return fma_in(dtype, x[0], x[0], rest);
}

/* H = I - tau v v^T, v_0 = 1, of which H x = (beta, 0, 0, ...): x_0 becomes beta, the others v; the result is tau, 0
 * where there is nothing to annihilate. As LAPACK's larfg. */
double smm_reflector(smm_dtype dtype, double *x, intptr_t step, intptr_t count) {
    intptr_t zeros = 1;
    while (zeros < count && x[zeros * step] == 0) zeros++;
    if (zeros >= count) return 0;
    const smm_squares limit = smm_squares_of(dtype);
    double squares = sum_of_squares(dtype, x, step, count), back = 1;
    if (squares < limit.low || squares > limit.high) {
        const double scale = squares < limit.low ? limit.up : limit.down;
        for (intptr_t i = 0; i < count; i++) x[i * step] = round_in(dtype, x[i * step] * scale);
        squares = sum_of_squares(dtype, x, step, count);
        back = 1 / scale;
    }
    const double norm = round_in(dtype, sqrt(squares)), beta = x[0] < 0 ? norm : -norm;
    const double tau = round_in(dtype, round_in(dtype, beta - x[0]) / beta);
    const double r = round_in(dtype, 1 / round_in(dtype, x[0] - beta));
    for (intptr_t i = 1; i < count; i++) x[i * step] = round_in(dtype, x[i * step] * r);
    x[0] = round_in(dtype, beta * back);
    return tau;
}

void smm_reflect(smm_dtype dtype, const double *v, intptr_t step_v, double tau, double *x, intptr_t step,
                 intptr_t count) {
    double w = x[0];
    for (intptr_t i = 1; i < count; i++) w = fma_in(dtype, v[i * step_v], x[i * step], w);
    w = round_in(dtype, tau * w);
    x[0] = round_in(dtype, x[0] - w);
    for (intptr_t i = 1; i < count; i++) x[i * step] = fma_in(dtype, -v[i * step_v], w, x[i * step]);
}

double smm_length(smm_dtype dtype, const double *x, intptr_t count) {
    const smm_squares limit = smm_squares_of(dtype);
    const double squares = sum_of_squares(dtype, x, 1, count);
    if (squares >= limit.low) return round_in(dtype, sqrt(squares));
    double y[SMM_MOST_ORDER] = {0};
    for (intptr_t i = 0; i < count; i++) y[i] = round_in(dtype, x[i] * limit.up);
    return round_in(dtype, round_in(dtype, sqrt(sum_of_squares(dtype, y, 1, count))) * limit.down);
}

static void get_scaled(const smm_call *call, intptr_t q, double scale, factors *f) {
    for (intptr_t i = 0; i < f->m; i++)
        for (intptr_t j = 0; j < f->n; j++)
            f->a[i * f->n + j] = round_in(f->dtype, get(&call->a, f->dtype, q, i, j) * scale);
}

void smm_factor(factors *f) {
    const intptr_t m = f->m, n = f->n;
    for (intptr_t k = 0; k < least(m, n); k++) {
        double *x = f->a + k * n + k;
        f->tau[k] = smm_reflector(f->dtype, x, n, m - k);
        for (intptr_t j = 1; j < n - k; j++) smm_reflect(f->dtype, x, n, f->tau[k], x + j, n, m - k);
    }
}

/* What overflows anywhere leaves its mark on the diagonal of R or, right of it, in the last row. */
static bool is_finite(const factors *f) {
    const intptr_t n = f->n, p = least(f->m, n);
    for (intptr_t k = 0; k < p; k++)
        if (!isfinite(f->a[k * n + k])) return false;
    for (intptr_t j = p; p && j < n; j++)
        if (!isfinite(f->a[(p - 1) * n + j])) return false;
    return true;
}

/* Factor matrix q; once more from a scaled one where products of elements near the largest number overflow. */
static void factor_safely(const smm_call *call, intptr_t q, factors *f) {
    get_scaled(call, q, 1, f);
    smm_factor(f);
    if (is_finite(f)) return;
    get_scaled(call, q, 0x1p-8, f);
    smm_factor(f);
    for (intptr_t i = 0; i < least(f->m, f->n); i++)
        for (intptr_t j = i; j < f->n; j++) f->a[i * f->n + j] = round_in(f->dtype, f->a[i * f->n + j] * 0x1p8);
}

void smm_column_of_q(const factors *f, intptr_t j, double *q) {
    const intptr_t m = f->m, n = f->n, p = least(m, n);
    for (intptr_t i = 0; i < m; i++) q[i] = i == j;
    for (intptr_t k = least(j, p - 1); k >= 0; k--) {
        const double *v = f->a + k * n + k, tau = f->tau[k];
        double w = k + 1 < m ? round_in(f->dtype, v[n] * q[k + 1]) : 0;
        for (intptr_t i = k + 2; i < m; i++) w = fma_in(f->dtype, v[(i - k) * n], q[i], w);
        w = round_in(f->dtype, tau * w);
        if (k == j) { /* q is still column k of I */
            q[k] = round_in(f->dtype, 1 - tau);
            for (intptr_t i = k + 1; i < m; i++) q[i] = round_in(f->dtype, -tau * v[(i - k) * n]);
        } else { /* q_k is still zero */
            q[k] = -w;
            for (intptr_t i = k + 1; i < m; i++) q[i] = fma_in(f->dtype, -v[(i - k) * n], w, q[i]);
        }
    }
}

static void put_factors(const smm_call *call, intptr_t q, const factors *f) {
    const intptr_t m = f->m, n = f->n, p = least(m, n), k = call->k;
    if (call->op == SMM_OP_QR_RAW) {
        for (intptr_t i = 0; i < m; i++)
            for (intptr_t j = 0; j < n; j++) put(&call->qr_raw.h, f->dtype, q, i, j, f->a[i * n + j]);
        for (intptr_t i = 0; i < p; i++) put(&call->qr_raw.tau, f->dtype, q, i, 0, f->tau[i]);
        return;
    }
    const smm_operand *r = call->op == SMM_OP_QR ? &call->qr.r : &call->qr_r.r;
    for (intptr_t i = 0; i < k; i++)
        for (intptr_t j = 0; j < n; j++) put(r, f->dtype, q, i, j, i <= j ? f->a[i * n + j] : 0);
    for (intptr_t j = 0; call->op == SMM_OP_QR && j < k; j++) {
        double x[ELEMENTS];
        if (n) {
            smm_column_of_q(f, j, x);
            for (intptr_t i = 0; i < m; i++) put(&call->qr.q, f->dtype, q, i, j, x[i]);
        } else {
            for (intptr_t i = 0; i < m; i++) put(&call->qr.q, f->dtype, q, i, j, i == j);
        }
    }
}

/* --- Least squares ------------------------------------------------------------------------------------------------ */

/* A power of two that brings the largest of these magnitudes to about 1, if they are far from it. */
double smm_scale_to_one(smm_dtype dtype, double most) {
    static const int fars[SMM_DTYPE_COUNT] = {[SMM_F32] = 20, [SMM_F64] = 200};
    static const int limits[SMM_DTYPE_COUNT] = {[SMM_F32] = 120, [SMM_F64] = 1000};
    const int far = fars[dtype], limit = limits[dtype];
    if (!(most > 0) || !isfinite(most)) return 1;
    const int e = ilogb(most);
    return most < ldexp(1, -far) || most > ldexp(1, far) ? ldexp(1, e > limit ? -limit : e < -limit ? limit : -e) : 1;
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
            double s = 0;
            for (intptr_t i = k; i < m; i++) s = fma_in(f->dtype, f->a[i * n + j], f->a[i * n + j], s);
            if (j == k || s > most) longest = j, most = s;
        }
        for (intptr_t i = 0; i < m; i++) {
            const double x = f->a[i * n + k];
            f->a[i * n + k] = f->a[i * n + longest];
            f->a[i * n + longest] = x;
        }
        const intptr_t j = perm[k];
        perm[k] = perm[longest];
        perm[longest] = j;
        double *x = f->a + k * n + k;
        f->tau[k] = smm_reflector(f->dtype, x, n, m - k);
        for (intptr_t j = 1; j < n - k; j++) smm_reflect(f->dtype, x, n, f->tau[k], x + j, n, m - k);
    }
}

/* The first `rank` rows of R become (T 0), T upper triangular, by reflectors from the right: H_i, which overwrites the
 * tail of row i from column `rank` on, changes column i and the tail. As LAPACK's tzrzf. */
static void annihilate_tail(factors *f, intptr_t rank, double *tau) {
    const intptr_t n = f->n;
    for (intptr_t i = rank - 1; i >= 0 && rank < n; i--) {
        double x[ELEMENTS], *row = f->a + i * n;
        for (intptr_t j = i; j < n; j++) x[j] = j == i || j >= rank ? row[j] : 0;
        tau[i] = smm_reflector(f->dtype, x + i, 1, n - i);
        row[i] = x[i];
        for (intptr_t j = rank; j < n; j++) row[j] = x[j];
        for (intptr_t h = 0; h < i; h++) {
            double *y = f->a + h * n;
            double w = y[i];
            for (intptr_t j = rank; j < n; j++) w = fma_in(f->dtype, row[j], y[j], w);
            w = round_in(f->dtype, tau[i] * w);
            y[i] = round_in(f->dtype, y[i] - w);
            for (intptr_t j = rank; j < n; j++) y[j] = fma_in(f->dtype, -row[j], w, y[j]);
        }
    }
}

/* |x_first .. x_count-1|_2 */
static double norm_of(smm_dtype dtype, const double *x, intptr_t first, intptr_t count) {
    double s = 0;
    for (intptr_t i = first; i < count; i++) s = fma_in(dtype, x[i], x[i], s);
    return round_in(dtype, sqrt(s));
}

/* x, holding a right-hand side, becomes the solution of least norm, still permuted; the result is the residual norm. */
static double solve(const factors *f, intptr_t rank, const double *tail_tau, double *x) {
    const intptr_t m = f->m, n = f->n;
    for (intptr_t k = 0; k < least(m, n); k++) smm_reflect(f->dtype, f->a + k * n + k, n, f->tau[k], x + k, 1, m - k);
    const double norm = norm_of(f->dtype, x, rank, m);
    for (intptr_t i = rank; i < n; i++) x[i] = 0;
    for (intptr_t j = rank - 1; j >= 0; j--) {
        x[j] = quotient(f->dtype, x[j], f->a[j * n + j]);
        for (intptr_t i = 0; i < j; i++) x[i] = fma_in(f->dtype, -f->a[i * n + j], x[j], x[i]);
    }
    for (intptr_t i = 0; i < rank && rank < n; i++) {
        const double *v = f->a + i * n;
        double w = x[i];
        for (intptr_t j = rank; j < n; j++) w = fma_in(f->dtype, v[j], x[j], w);
        w = round_in(f->dtype, tail_tau[i] * w);
        x[i] = round_in(f->dtype, x[i] - w);
        for (intptr_t j = rank; j < n; j++) x[j] = fma_in(f->dtype, -v[j], w, x[j]);
    }
    return norm;
}

/* A in f, and the power of two it was scaled by, or NaN if it has elements that are not finite. */
static double get_near_one(const smm_call *call, intptr_t q, factors *f) {
    double most = 0;
    get_scaled(call, q, 1, f);
    for (intptr_t i = 0; i < f->m * f->n; i++) {
        if (!isfinite(f->a[i])) return NAN;
        if (fabs(f->a[i]) > most) most = fabs(f->a[i]);
    }
    const double scale = smm_scale_to_one(f->dtype, most);
    get_scaled(call, q, scale, f);
    return scale;
}

/* At once where their product is a number, for one after the other, opposite ones may overflow on the way. */
double smm_scaled_back(smm_dtype dtype, double x, double first, double second) {
    const double both = round_in(dtype, first * second);
    return both > 0 && isfinite(both) ? round_in(dtype, x * both)
                                      : round_in(dtype, round_in(dtype, x * first) * second);
}

/* Incremental condition estimation (LAPACK's laic1; Bischof, SIAM J. Matrix Anal. Appl. 11, 1990). Of a leading k x k
 * block of R, sigma = |x^T R|_2, of a unit vector x, estimates the largest or the smallest singular value. */
typedef struct estimate {
    double sigma, x[SMM_MOST_ORDER];
} estimate;

typedef smm_extension extension;

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
extension smm_largest_extension(smm_dtype dtype, double sigma, double alpha, double gamma) {
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

extension smm_smallest_extension(smm_dtype dtype, double sigma, double alpha, double gamma) {
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

/* x^T w, of column k of R above its diagonal. */
static double along(const factors *f, const double *x, intptr_t k) {
    double alpha = 0;
    for (intptr_t i = 0; i < k; i++) alpha = fma_in(f->dtype, x[i], f->a[i * f->n + k], alpha);
    return alpha;
}

static void extend(smm_dtype dtype, estimate *of, intptr_t k, extension by) {
    of->sigma = by.sigma;
    for (intptr_t i = 0; i < k; i++) of->x[i] = round_in(dtype, by.s * of->x[i]);
    of->x[k] = by.c;
}

/* As gelsy: of the leading blocks of R up to the first whose estimated condition is above 1 / rtol, the largest. Unlike
 * gelsy, none counts whose smallest singular value is estimated to be 0, even if rtol is. */
static intptr_t rank_of(const factors *f, double rtol) {
    estimate largest = {.sigma = fabs(f->a[0]), .x = {1}}, smallest = largest;
    if (!(largest.sigma > 0)) return 0;
    for (intptr_t k = 1; k < least(f->m, f->n); k++) {
        const double gamma = f->a[k * f->n + k];
        const extension l = smm_largest_extension(f->dtype, largest.sigma, along(f, largest.x, k), gamma);
        const extension s = smm_smallest_extension(f->dtype, smallest.sigma, along(f, smallest.x, k), gamma);
        if (!(s.sigma > 0 && s.sigma >= round_in(f->dtype, rtol * l.sigma))) return k;
        extend(f->dtype, &largest, k, l);
        extend(f->dtype, &smallest, k, s);
    }
    return least(f->m, f->n);
}

static void least_squares(const smm_call *call, intptr_t q, factors *f) {
    const smm_dtype dtype = f->dtype;
    const intptr_t m = f->m, n = f->n;
    const double scale = get_near_one(call, q, f);
    intptr_t perm[ELEMENTS];
    double tail_tau[SMM_MOST_ORDER];
    factor_pivoting(f, perm);
    const double rtol = call->lstsq.rtol.data ? get(&call->lstsq.rtol, dtype, q, 0, 0) : 0;
    const intptr_t rank = isnan(scale) ? 0 : rank_of(f, rtol);
    annihilate_tail(f, rank, tail_tau);

    put_int(&call->lstsq.rank, q, 0, rank);
    for (intptr_t j = 0; j < call->k; j++) {
        double x[ELEMENTS], most = 0;
        for (intptr_t i = 0; i < m; i++) {
            x[i] = get(&call->lstsq.b, dtype, q, i, j);
            if (fabs(x[i]) > most) most = fabs(x[i]);
        }
        const double scale_b = smm_scale_to_one(dtype, most);
        for (intptr_t i = 0; i < m; i++) x[i] = round_in(dtype, x[i] * scale_b);
        const double norm = solve(f, rank, tail_tau, x);
        put(&call->lstsq.residuals, dtype, q, j, 0, isnan(scale) ? NAN : round_in(dtype, norm * (1 / scale_b)));
        for (intptr_t i = 0; i < n; i++)
            put(&call->lstsq.x, dtype, q, perm[i], j,
                isnan(scale) ? NAN : smm_scaled_back(dtype, x[i], 1 / scale_b, scale));
    }
}

/* Where A has no element nothing is solved: x is zero and what is left is b. */
static void no_squares(const smm_call *call, intptr_t q) {
    put_int(&call->lstsq.rank, q, 0, 0);
    for (intptr_t j = 0; j < call->k; j++) {
        double norm = 0;
        for (intptr_t i = 0; i < call->m; i++) norm = hypot(norm, get(&call->lstsq.b, call->dtype, q, i, j));
        put(&call->lstsq.residuals, call->dtype, q, j, 0, norm);
        for (intptr_t i = 0; i < call->n; i++) put(&call->lstsq.x, call->dtype, q, i, j, 0);
    }
}

void smm_reference_qr(const smm_call *call) {
    factors f = {.dtype = call->dtype, .m = call->m, .n = call->n};
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
