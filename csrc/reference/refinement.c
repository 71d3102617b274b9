/* refinement.c: what is known of a solution: its backward error, a bound of its error, and a better one; and how well
 * conditioned a matrix is.
 *
 * The estimator is Hager's in Higham's form (N. J. Higham, "FORTRAN codes for estimating the one-norm of a real or
 * complex matrix, with applications to condition estimation", ACM Trans. Math. Softw. 14, 1988; LAPACK's lacn2), which
 * never exceeds the norm but by rounding. The refinement is LAPACK's gerfs; in the form EXTRA residuals are computed in
 * twice the precision by error-free transformations (T. Ogita, S. M. Rump, S. Oishi, "Accurate sum and dot product",
 * SIAM J. Sci. Comput. 26, 2005), and it ends as gerfsx, by the size of corrections.
 *
 * Of complex systems the estimator is LAPACK's zlacn2: in place of signs x / |x|, and A^H in place of A^T. As in
 * zgerfs, magnitudes of single elements are |re| + |im| in componentwise errors; norms are of moduli. */
#include "reference.h"

/* The most corrections of a solution, and those in the form EXTRA. */
enum { CORRECTIONS = 5, EXTRA_CORRECTIONS = 10 };

/* sum - a x, and what the two roundings took from it, which is added to `rest`. */
static void subtract_exactly(smm_dtype t, double *sum, double *rest, double a, double x) {
    const double p = round_in(t, a * x), of_product = fma_in(t, -a, x, p);
    const double next = round_in(t, *sum - p), moved = round_in(t, next - *sum);
    const double of_sum = round_in(t, round_in(t, *sum - round_in(t, next - moved)) - round_in(t, p + moved));
    *rest = round_in(t, *rest + round_in(t, of_sum + of_product));
    *sum = next;
}

/* What is added where w may have underflowed, and up to which w: safe1 and safe2 of gerfs. */
static double min_size(smm_dtype t, intptr_t n) { return (double)(n + 1) * smallest_normal(t); }
static double safe_size(smm_dtype t, intptr_t n) { return min_size(t, n) / roundoff(t); }

/* The largest size_i / w_i, where 0 / 0 is 0; NaN if one is. */
static double largest_quotient(smm_dtype t, const double *size, const double *w, intptr_t n) {
    const double small = min_size(t, n), safe = safe_size(t, n);
    double most = 0;
    bool is_nan = false;
    for (intptr_t i = 0; i < n; i++) {
        const double all = w[i] > safe ? size[i] / w[i] : round_in(t, size[i] + small) / round_in(t, w[i] + small);
        const double ratio = size[i] == 0 ? 0 : round_in(t, all);
        is_nan |= (bool)isnan(ratio);
        if (ratio > most) most = ratio;
    }
    return is_nan ? NAN : most;
}

/* In place of size: size + c w, and more where w may have underflowed. */
static void add_bounds(smm_dtype t, double *size, double c, const double *w, intptr_t n) {
    for (intptr_t i = 0; i < n; i++) {
        size[i] = fma_in(t, c, w[i], size[i]);
        if (!(w[i] > safe_size(t, n))) size[i] = round_in(t, size[i] + min_size(t, n));
    }
}

/* |x|, without squares that over- or underflow. */
static double modulus(smm_dtype t, number x) {
    if (!smm_is_complex(t)) return fabs(x.re);
    const double re = fabs(x.re), im = fabs(x.im);
    const double large = im > re ? im : re, small = im > re ? re : im, ratio = round_in(t, small / large);
    return large == 0 ? large : round_in(t, large * round_in(t, sqrt(fma_in(t, ratio, ratio, 1))));
}

/* x = A^-1 x, or A^-H x. */
static void apply(const smm_lu_factors *f, number *x, bool adjoint) {
    for (intptr_t i = 0; i < f->n && adjoint; i++) x[i] = conjugate(x[i]);
    smm_lu_apply(f, x, adjoint);
    for (intptr_t i = 0; i < f->n && adjoint; i++) x[i] = conjugate(x[i]);
}

/* diag(scale) A^-1, or A^-H; scale NULL: of ones. */
typedef struct inverse {
    const smm_lu_factors *factors;
    bool adjoint;
    const double *scale;
} inverse;

static void scale_all(const inverse *b, number *x) {
    for (intptr_t i = 0; i < b->factors->n && b->scale; i++) x[i] = scaled(b->factors->dtype, x[i], b->scale[i]);
}
static void multiply(const inverse *b, number *x) {
    apply(b->factors, x, b->adjoint);
    scale_all(b, x);
}
static void multiply_adjoint(const inverse *b, number *x) {
    scale_all(b, x);
    apply(b->factors, x, !b->adjoint);
}

static double norm_1(smm_dtype t, const number *x, intptr_t n) {
    double all = 0;
    for (intptr_t i = 0; i < n; i++) all = round_in(t, all + modulus(t, x[i]));
    return all;
}

/* The largest magnitude; NaN is never the largest. */
static double largest(smm_dtype t, const number *x, intptr_t n, intptr_t *at) {
    double most = modulus(t, x[0]);
    *at = 0;
    for (intptr_t i = 1; i < n; i++)
        if (modulus(t, x[i]) > most) most = modulus(t, x[ *at = i]);
    return most;
}

/* In place of x what has its phases, which are kept; whether signs of real numbers were so before. */
static bool take_phases(smm_dtype t, number *x, number *kept, intptr_t n) {
    bool same = !smm_is_complex(t);
    for (intptr_t i = 0; i < n; i++) {
        const double size = modulus(t, x[i]);
        if (smm_is_complex(t))
            x[i] = size > smallest_normal(t) ? divided(t, x[i], size) : one;
        else
            x[i].re = x[i].re < 0 ? -1 : 1;
        same &= x[i].re == kept[i].re;
        kept[i] = x[i];
    }
    return same;
}

/* |B|_1, from below. */
static double estimate(const inverse *b) {
    enum { STEPS = 4 };
    const intptr_t n = b->factors->n;
    const smm_dtype t = b->factors->dtype;
    number x[SMM_MAX_ORDER], phases[SMM_MAX_ORDER] = {zero};
    for (intptr_t i = 0; i < n; i++) x[i] = (number){round_in(t, 1 / (double)n), 0};
    multiply(b, x);
    double found = norm_1(t, x, n);
    if (n == 1) return found;
    take_phases(t, x, phases, n);
    multiply_adjoint(b, x);
    intptr_t j;
    largest(t, x, n, &j);
    for (int step = 0; step < STEPS; step++) {
        for (intptr_t i = 0; i < n; i++) x[i] = (number){i == j, 0};
        multiply(b, x);
        const double next = norm_1(t, x, n);
        const bool grew = next > found;
        if (grew) found = next;
        if (take_phases(t, x, phases, n) || !grew) break;
        multiply_adjoint(b, x);
        const double last = modulus(t, x[j]);
        if (!(largest(t, x, n, &j) > last)) break;
    }
    for (intptr_t i = 0; i < n; i++)
        x[i] = (number){(i % 2 ? -1 : 1) * round_in(t, 1 + round_in(t, (double)i / (double)(n - 1))), 0};
    multiply(b, x);
    const double next = round_in(t, round_in(t, 2 * norm_1(t, x, n)) / (double)(3 * n));
    return next > found ? next : found;
}

static void lu_rcond(const smm_call *call, intptr_t q) {
    const smm_dtype t = call->dtype, real = smm_dtypes[t].real;
    smm_lu_factors f = {.dtype = t, .n = call->n};
    const double norm = get(&call->lu_rcond.norm_a, real, q, 0, 0);
    smm_lu_given(&call->lu_rcond.a, &call->lu_rcond.pivots, &f, q);
    double rcond = f.n ? 0 : 1;
    bool is_nan = isnan(norm);
    for (intptr_t e = 0; e < f.n * f.n; e++) is_nan |= isnan(f.lu[e].re) || isnan(f.lu[e].im);
    if (f.n && !f.info && norm != 0) {
        const double found = estimate(&(inverse){&f, call->form & SMM_TRANSPOSED, NULL});
        rcond = isnan(found) ? 0 : round_in(t, round_in(t, 1 / found) / norm);
    }
    put(&call->lu_rcond.rcond, real, q, 0, 0, (is_nan && f.n) || f.info < 0 ? NAN : rcond);
    put_int(&call->lu_rcond.info, q, 0, f.info);
}

/* r = b - A x, w = |b| + |A| |x|. */
static void residual(const smm_call *call, numbers a, const number *x, const number *b, number *r, double *w) {
    const smm_dtype t = call->dtype;
    for (intptr_t i = 0; i < call->n; i++) {
        number s = b[i], rest = zero;
        w[i] = size_of(t, b[i]);
        for (intptr_t j = 0; j < call->n; j++) {
            w[i] = fma_in(t, size_of(t, a[i][j]), size_of(t, x[j]), w[i]);
            if (!(call->form & SMM_EXTRA)) {
                s = subtract_product(t, a[i][j], x[j], s);
                continue;
            }
            subtract_exactly(t, &s.re, &rest.re, a[i][j].re, x[j].re);
            if (!smm_is_complex(t)) continue;
            subtract_exactly(t, &s.re, &rest.re, -a[i][j].im, x[j].im);
            subtract_exactly(t, &s.im, &rest.im, a[i][j].re, x[j].im);
            subtract_exactly(t, &s.im, &rest.im, a[i][j].im, x[j].re);
        }
        r[i] = call->form & SMM_EXTRA ? sum(t, s, rest) : s;
    }
}

static double componentwise(const smm_call *call, const number *r, const double *w) {
    double size[SMM_MAX_ORDER];
    for (intptr_t i = 0; i < call->n; i++) size[i] = size_of(call->dtype, r[i]);
    return largest_quotient(call->dtype, size, w, call->n);
}

/* |r| / (|A| |x| + |b|) in infinity norms, NaN if r has one. */
static double normwise(const smm_call *call, numbers a, const number *x, const number *b, const number *r) {
    const smm_dtype t = call->dtype;
    double norm = 0, max_x = 0, max_b = 0, max_r = 0;
    bool is_nan = false;
    for (intptr_t i = 0; i < call->n; i++) {
        const double row = norm_1(t, a[i], call->n), left = modulus(t, r[i]);
        if (row > norm) norm = row;
        if (modulus(t, x[i]) > max_x) max_x = modulus(t, x[i]);
        if (modulus(t, b[i]) > max_b) max_b = modulus(t, b[i]);
        if (left > max_r) max_r = left;
        is_nan |= (bool)isnan(left);
    }
    if (is_nan) return NAN;
    return max_r == 0 ? 0 : round_in(t, max_r / fma_in(t, norm, max_x, max_b));
}

static void get_all(const smm_call *call, numbers a, intptr_t q) {
    for (intptr_t i = 0; i < call->n; i++)
        for (intptr_t j = 0; j < call->n; j++) a[i][j] = get_number(&call->a, call->dtype, q, i, j);
}

static void get_column(const smm_call *call, const smm_operand *from, number *x, intptr_t q, intptr_t j) {
    for (intptr_t i = 0; i < call->n; i++) x[i] = get_number(from, call->dtype, q, i, j);
}

static void backward_error(const smm_call *call, intptr_t q) {
    number x[SMM_MAX_ORDER], b[SMM_MAX_ORDER], r[SMM_MAX_ORDER];
    double w[SMM_MAX_ORDER];
    numbers a;
    get_all(call, a, q);
    put_int(&call->backward_error.info, q, 0, 0);
    for (intptr_t j = 0; j < call->k; j++) {
        get_column(call, &call->backward_error.x, x, q, j);
        get_column(call, &call->backward_error.b, b, q, j);
        residual(call, a, x, b, r, w);
        put(&call->backward_error.berr, smm_dtypes[call->dtype].real, q, j, 0,
            call->form & SMM_NORMWISE ? normwise(call, a, x, b, r) : componentwise(call, r, w));
    }
}

/* x becomes better until its backward error is at most u, or no less than half of what it was, or, in the form EXTRA,
 * until a correction is at most u |x|, or more than half of the one before. r, w: of the last x. */
static double improve(const smm_call *call, const smm_lu_factors *f, numbers a, const number *b, number *x, number *r,
                      double *w) {
    const smm_dtype t = f->dtype;
    const bool extra = call->form & SMM_EXTRA;
    const double u = roundoff(t);
    double last = extra ? INFINITY : 3;
    for (int step = 0;; step++) {
        residual(call, a, x, b, r, w);
        const double berr = componentwise(call, r, w);
        number d[SMM_MAX_ORDER];
        double size = berr, least = u;
        intptr_t at;
        for (intptr_t i = 0; i < f->n; i++) d[i] = r[i];
        apply(f, d, false);
        if (extra) {
            size = largest(t, d, f->n, &at);
            least = round_in(t, u * largest(t, x, f->n, &at));
        }
        if (!(size > least && 2 * size <= last) || step == (extra ? EXTRA_CORRECTIONS : CORRECTIONS)) return berr;
        for (intptr_t i = 0; i < f->n; i++) x[i] = sum(t, x[i], d[i]);
        last = size;
    }
}

/* |x - A^-1 b| / |x| in infinity norms is at most | |A^-1| (|r| + c w) | / |x|, where c w bounds the error of r: each
 * part of a complex one has twice as many terms. In the form EXTRA that may be as small as the rounding of x, which the
 * estimate may miss: that is added. */
static double forward_error(const smm_call *call, const smm_lu_factors *f, const number *x, const number *r,
                            const double *w) {
    const smm_dtype t = f->dtype;
    const intptr_t parts = smm_is_complex(t) ? 2 : 1;
    const double of_sum = (double)(parts * (f->n + 1)) * roundoff(t),
                 c = call->form & SMM_EXTRA ? of_sum * of_sum : of_sum;
    double scale[SMM_MAX_ORDER];
    intptr_t at;
    for (intptr_t i = 0; i < f->n; i++) scale[i] = size_of(t, r[i]);
    add_bounds(t, scale, c, w, f->n);
    const double found = estimate(&(inverse){f, true, scale}), size = largest(t, x, f->n, &at);
    const double ferr = size == 0 ? found : round_in(t, found / size);
    return call->form & SMM_EXTRA ? round_in(t, ferr + (double)parts * roundoff(t)) : ferr;
}

static void refine(const smm_call *call, intptr_t q) {
    const smm_dtype t = call->dtype, real = smm_dtypes[t].real;
    smm_lu_factors f = {.dtype = t, .n = call->n};
    number x[SMM_MAX_ORDER], b[SMM_MAX_ORDER], r[SMM_MAX_ORDER];
    double w[SMM_MAX_ORDER];
    numbers a;
    get_all(call, a, q);
    smm_lu_given(&call->refine.lu, &call->refine.pivots, &f, q);
    put_int(&call->refine.info, q, 0, f.info);
    for (intptr_t j = 0; j < call->k; j++) {
        double berr = 0, ferr = 0;
        get_column(call, &call->refine.x, x, q, j);
        get_column(call, &call->refine.b, b, q, j);
        if (f.n) {
            berr = improve(call, &f, a, b, x, r, w);
            ferr = forward_error(call, &f, x, r, w);
        }
        for (intptr_t i = 0; i < f.n; i++) put_number(&call->refine.refined, t, q, i, j, f.info ? not_a_number : x[i]);
        put(&call->refine.ferr, real, q, j, 0, f.info ? NAN : ferr);
        put(&call->refine.berr, real, q, j, 0, f.info ? NAN : berr);
    }
}

void smm_reference_refinement(const smm_call *call) {
    for (intptr_t q = 0; q < call->batch; q++) switch (call->op) {
        case SMM_OP_LU_RCOND: lu_rcond(call, q); break;
        case SMM_OP_REFINE: refine(call, q); break;
        default: backward_error(call, q);
        }
}
