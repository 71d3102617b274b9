/* refinement.c: what is known of a solution: its backward error, a bound of its error, and a better one; and how well
 * conditioned a matrix is.
 *
 * The estimator is Hager's in Higham's form (N. J. Higham, "FORTRAN codes for estimating the one-norm of a real or
 * complex matrix, with applications to condition estimation", ACM Trans. Math. Softw. 14, 1988; LAPACK's lacn2), which
 * never exceeds the norm but by rounding. The refinement is LAPACK's gerfs; in the form EXTRA residuals are computed in
 * twice the precision by error-free transformations (T. Ogita, S. M. Rump, S. Oishi, "Accurate sum and dot product",
 * SIAM J. Sci. Comput. 26, 2005), and it ends as gerfsx, by the size of corrections. */
#include "errors.h"

/* diag(scale) A^-1, or of A^T; scale NULL: of ones. */
typedef struct inverse {
    const smm_lu_factors *factors;
    bool transposed;
    const double *scale;
} inverse;

static void multiply(const inverse *b, double *x) {
    smm_lu_apply(b->factors, x, b->transposed);
    for (intptr_t i = 0; i < b->factors->n && b->scale; i++) x[i] = round_in(b->factors->dtype, x[i] * b->scale[i]);
}

static void multiply_transpose(const inverse *b, double *x) {
    for (intptr_t i = 0; i < b->factors->n && b->scale; i++) x[i] = round_in(b->factors->dtype, x[i] * b->scale[i]);
    smm_lu_apply(b->factors, x, !b->transposed);
}

static double norm_1(smm_dtype dtype, const double *x, intptr_t n) {
    double sum = 0;
    for (intptr_t i = 0; i < n; i++) sum = round_in(dtype, sum + fabs(x[i]));
    return sum;
}

/* The largest magnitude; NaN is never the largest. */
static double largest(const double *x, intptr_t n, intptr_t *at) {
    double most = fabs(x[0]);
    *at = 0;
    for (intptr_t i = 1; i < n; i++)
        if (fabs(x[i]) > most) most = fabs(x[ *at = i]);
    return most;
}

/* signs = those of x; whether they were so before. */
static bool take_signs(double *signs, const double *x, intptr_t n) {
    bool same = true;
    for (intptr_t i = 0; i < n; i++) {
        const double sign = x[i] < 0 ? -1 : 1;
        same &= signs[i] == sign;
        signs[i] = sign;
    }
    return same;
}

/* |B|_1, from below. */
static double estimate(const inverse *b) {
    enum { STEPS = 4 };
    const intptr_t n = b->factors->n;
    const smm_dtype dtype = b->factors->dtype;
    double x[SMM_MOST_ORDER], signs[SMM_MOST_ORDER] = {0};
    for (intptr_t i = 0; i < n; i++) x[i] = round_in(dtype, 1 / (double)n);
    multiply(b, x);
    double found = norm_1(dtype, x, n);
    if (n == 1) return found;
    take_signs(signs, x, n);
    for (intptr_t i = 0; i < n; i++) x[i] = signs[i];
    multiply_transpose(b, x);
    intptr_t j;
    largest(x, n, &j);
    for (int step = 0; step < STEPS; step++) {
        for (intptr_t i = 0; i < n; i++) x[i] = i == j;
        multiply(b, x);
        const double next = norm_1(dtype, x, n);
        const bool grew = next > found, same = take_signs(signs, x, n);
        if (grew) found = next;
        if (same || !grew) break;
        for (intptr_t i = 0; i < n; i++) x[i] = signs[i];
        multiply_transpose(b, x);
        const double last = fabs(x[j]);
        if (!(largest(x, n, &j) > last)) break;
    }
    for (intptr_t i = 0; i < n; i++)
        x[i] = (i % 2 ? -1 : 1) * round_in(dtype, 1 + round_in(dtype, (double)i / (double)(n - 1)));
    multiply(b, x);
    const double next = round_in(dtype, round_in(dtype, 2 * norm_1(dtype, x, n)) / (double)(3 * n));
    return next > found ? next : found;
}

static void lu_rcond(const smm_call *call, intptr_t q) {
    smm_lu_factors f = {.dtype = call->dtype, .n = call->n};
    const double norm = get(&call->lu_rcond.norm_a, f.dtype, q, 0, 0);
    smm_lu_given(&call->lu_rcond.a, &call->lu_rcond.pivots, &f, q);
    double rcond = f.n ? 0 : 1;
    bool is_nan = isnan(norm);
    for (intptr_t i = 0; i < f.n; i++)
        for (intptr_t j = 0; j < f.n; j++) is_nan |= (bool)isnan(f.lu[i][j]);
    if (f.n && !f.info && norm != 0) {
        const double found = estimate(&(inverse){&f, call->form & SMM_TRANSPOSED, NULL});
        rcond = isnan(found) ? 0 : round_in(f.dtype, round_in(f.dtype, 1 / found) / norm);
    }
    put(&call->lu_rcond.rcond, f.dtype, q, 0, 0, (is_nan && f.n) || f.info < 0 ? NAN : rcond);
    put_int(&call->lu_rcond.info, q, 0, f.info);
}

/* r = b - A x, w = |b| + |A| |x|. */
static void residual(const smm_call *call, matrix a, const double *x, const double *b, double *r, double *w) {
    const smm_dtype dtype = call->dtype;
    for (intptr_t i = 0; i < call->n; i++) {
        double sum = b[i], rest = 0;
        w[i] = fabs(b[i]);
        for (intptr_t j = 0; j < call->n; j++) {
            w[i] = fma_in(dtype, fabs(a[i][j]), fabs(x[j]), w[i]);
            if (call->form & SMM_EXTRA)
                subtract_exactly(dtype, &sum, &rest, a[i][j], x[j]);
            else
                sum = fma_in(dtype, -a[i][j], x[j], sum);
        }
        r[i] = call->form & SMM_EXTRA ? round_in(dtype, sum + rest) : sum;
    }
}

static double componentwise(const smm_call *call, const double *r, const double *w) {
    double size[SMM_MOST_ORDER];
    for (intptr_t i = 0; i < call->n; i++) size[i] = fabs(r[i]);
    return largest_quotient(call->dtype, size, w, call->n);
}

/* |r| / (|A| |x| + |b|) in infinity norms, NaN if r has one. */
static double normwise(const smm_call *call, matrix a, const double *x, const double *b, const double *r) {
    double norm = 0, most_x = 0, most_b = 0, most_r = 0;
    bool is_nan = false;
    for (intptr_t i = 0; i < call->n; i++) {
        double sum = 0;
        for (intptr_t j = 0; j < call->n; j++) sum = round_in(call->dtype, sum + fabs(a[i][j]));
        if (sum > norm) norm = sum;
        if (fabs(x[i]) > most_x) most_x = fabs(x[i]);
        if (fabs(b[i]) > most_b) most_b = fabs(b[i]);
        if (fabs(r[i]) > most_r) most_r = fabs(r[i]);
        is_nan |= (bool)isnan(r[i]);
    }
    if (is_nan) return NAN;
    return most_r == 0 ? 0 : round_in(call->dtype, most_r / fma_in(call->dtype, norm, most_x, most_b));
}

static void get_all(const smm_call *call, matrix a, intptr_t q) {
    for (intptr_t i = 0; i < call->n; i++)
        for (intptr_t j = 0; j < call->n; j++) a[i][j] = get(&call->a, call->dtype, q, i, j);
}

static void get_column(const smm_call *call, const smm_operand *from, double *x, intptr_t q, intptr_t j) {
    for (intptr_t i = 0; i < call->n; i++) x[i] = get(from, call->dtype, q, i, j);
}

static void backward_error(const smm_call *call, intptr_t q) {
    double x[SMM_MOST_ORDER], b[SMM_MOST_ORDER], r[SMM_MOST_ORDER], w[SMM_MOST_ORDER];
    matrix a;
    get_all(call, a, q);
    put_int(&call->backward_error.info, q, 0, 0);
    for (intptr_t j = 0; j < call->k; j++) {
        get_column(call, &call->backward_error.x, x, q, j);
        get_column(call, &call->backward_error.b, b, q, j);
        residual(call, a, x, b, r, w);
        put(&call->backward_error.berr, call->dtype, q, j, 0,
            call->form & SMM_NORMWISE ? normwise(call, a, x, b, r) : componentwise(call, r, w));
    }
}

/* x becomes better until its backward error is at most u, or no less than half of what it was, or, in the form EXTRA,
 * until a correction is at most u |x|, or more than half of the one before. r, w: of the last x. */
static double improve(const smm_call *call, const smm_lu_factors *f, matrix a, const double *b, double *x, double *r,
                      double *w) {
    const bool extra = call->form & SMM_EXTRA;
    const double u = roundoff(f->dtype);
    double last = extra ? INFINITY : 3;
    for (int step = 0;; step++) {
        residual(call, a, x, b, r, w);
        const double berr = componentwise(call, r, w);
        double d[SMM_MOST_ORDER], size = berr, least = u;
        intptr_t at;
        for (intptr_t i = 0; i < f->n; i++) d[i] = r[i];
        smm_lu_apply(f, d, false);
        if (extra) {
            size = largest(d, f->n, &at);
            least = round_in(f->dtype, u * largest(x, f->n, &at));
        }
        if (!(size > least && 2 * size <= last) || step == (extra ? EXTRA_CORRECTIONS : CORRECTIONS)) return berr;
        for (intptr_t i = 0; i < f->n; i++) x[i] = round_in(f->dtype, x[i] + d[i]);
        last = size;
    }
}

/* |x - A^-1 b| / |x| in infinity norms is at most | |A^-1| (|r| + c w) | / |x|, where c w bounds the error of r. In the
 * form EXTRA that may be as small as the rounding of x, which the estimate may miss: that is added. */
static double forward_error(const smm_call *call, const smm_lu_factors *f, const double *x, const double *r,
                            const double *w) {
    const double of_sum = (double)(f->n + 1) * roundoff(f->dtype),
                 c = call->form & SMM_EXTRA ? of_sum * of_sum : of_sum;
    double scale[SMM_MOST_ORDER];
    intptr_t at;
    for (intptr_t i = 0; i < f->n; i++) scale[i] = fabs(r[i]);
    add_bounds(f->dtype, scale, c, w, f->n);
    const double found = estimate(&(inverse){f, true, scale}), size = largest(x, f->n, &at);
    const double ferr = size == 0 ? found : round_in(f->dtype, found / size);
    return call->form & SMM_EXTRA ? round_in(f->dtype, ferr + roundoff(f->dtype)) : ferr;
}

static void refine(const smm_call *call, intptr_t q) {
    smm_lu_factors f = {.dtype = call->dtype, .n = call->n};
    double x[SMM_MOST_ORDER], b[SMM_MOST_ORDER], r[SMM_MOST_ORDER], w[SMM_MOST_ORDER];
    matrix a;
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
        for (intptr_t i = 0; i < f.n; i++) put(&call->refine.refined, f.dtype, q, i, j, f.info ? NAN : x[i]);
        put(&call->refine.ferr, f.dtype, q, j, 0, f.info ? NAN : ferr);
        put(&call->refine.berr, f.dtype, q, j, 0, f.info ? NAN : berr);
    }
}

void smm_reference_refinement(const smm_call *call) {
    for (intptr_t q = 0; q < call->batch; q++) switch (call->op) {
        case SMM_OP_LU_RCOND: lu_rcond(call, q); break;
        case SMM_OP_REFINE: refine(call, q); break;
        default: backward_error(call, q);
        }
}
