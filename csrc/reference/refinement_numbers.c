/* refinement_numbers.c: what refinement.c has, of complex systems.
 *
 * The estimator is LAPACK's zlacn2: in place of signs x / |x|, and A^H in place of A^T. As in zgerfs, magnitudes of
 * single elements are |re| + |im| in componentwise errors; norms are of moduli. */
#include "number.h"

#include "errors.h"

static double modulus(smm_dtype t, number x) {
    const double re = fabs(x.re), im = fabs(x.im);
    const double large = im > re ? im : re, small = im > re ? re : im, ratio = round_in(t, small / large);
    return large == 0 ? large : round_in(t, large * round_in(t, sqrt(fma_in(t, ratio, ratio, 1))));
}

/* x = A^-1 x, or A^-H x. */
static void apply(const smm_number_factors *f, number *x, bool adjoint) {
    for (intptr_t i = 0; i < f->n && adjoint; i++) x[i] = conjugate(x[i]);
    smm_apply_numbers(f, x, adjoint);
    for (intptr_t i = 0; i < f->n && adjoint; i++) x[i] = conjugate(x[i]);
}

/* diag(scale) A^-1, or A^-H; scale NULL: of ones. */
typedef struct inverse {
    const smm_number_factors *factors;
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

static void take_phases(smm_dtype t, number *x, intptr_t n) {
    for (intptr_t i = 0; i < n; i++) {
        const double size = modulus(t, x[i]);
        x[i] = size > least_normal(t) ? (number){round_in(t, x[i].re / size), round_in(t, x[i].im / size)}
                                      : (number){1, 0};
    }
}

/* |B|_1, from below. */
static double estimate(const inverse *b) {
    enum { STEPS = 4 };
    const intptr_t n = b->factors->n;
    const smm_dtype t = b->factors->dtype;
    number x[SMM_MOST_ORDER];
    for (intptr_t i = 0; i < n; i++) x[i] = (number){round_in(t, 1 / (double)n), 0};
    multiply(b, x);
    double found = norm_1(t, x, n);
    if (n == 1) return found;
    take_phases(t, x, n);
    multiply_adjoint(b, x);
    intptr_t j;
    largest(t, x, n, &j);
    for (int step = 0; step < STEPS; step++) {
        for (intptr_t i = 0; i < n; i++) x[i] = (number){i == j, 0};
        multiply(b, x);
        const double next = norm_1(t, x, n);
        if (!(next > found)) break;
        found = next;
        take_phases(t, x, n);
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
    smm_number_factors f = {.dtype = t, .n = call->n};
    const double norm = get(&call->lu_rcond.norm_a, real, q, 0, 0);
    smm_given_numbers(&call->lu_rcond.a, &call->lu_rcond.pivots, &f, q);
    double rcond = f.n ? 0 : 1;
    bool is_nan = isnan(norm);
    for (intptr_t i = 0; i < f.n; i++)
        for (intptr_t j = 0; j < f.n; j++) is_nan |= isnan(f.lu[i][j].re) || isnan(f.lu[i][j].im);
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
        number s = b[i], rest = {0, 0};
        w[i] = size_of(t, b[i]);
        for (intptr_t j = 0; j < call->n; j++) {
            w[i] = fma_in(t, size_of(t, a[i][j]), size_of(t, x[j]), w[i]);
            if (!(call->form & SMM_EXTRA)) {
                s = subtract_product(t, a[i][j], x[j], s);
                continue;
            }
            subtract_exactly(t, &s.re, &rest.re, a[i][j].re, x[j].re);
            subtract_exactly(t, &s.re, &rest.re, -a[i][j].im, x[j].im);
            subtract_exactly(t, &s.im, &rest.im, a[i][j].re, x[j].im);
            subtract_exactly(t, &s.im, &rest.im, a[i][j].im, x[j].re);
        }
        r[i] = call->form & SMM_EXTRA ? sum(t, s, rest) : s;
    }
}

static double componentwise(const smm_call *call, const number *r, const double *w) {
    double size[SMM_MOST_ORDER];
    for (intptr_t i = 0; i < call->n; i++) size[i] = size_of(call->dtype, r[i]);
    return largest_quotient(call->dtype, size, w, call->n);
}

static double normwise(const smm_call *call, numbers a, const number *x, const number *b, const number *r) {
    const smm_dtype t = call->dtype;
    double norm = 0, most_x = 0, most_b = 0, most_r = 0;
    bool is_nan = false;
    for (intptr_t i = 0; i < call->n; i++) {
        const double row = norm_1(t, a[i], call->n), left = modulus(t, r[i]);
        if (row > norm) norm = row;
        if (modulus(t, x[i]) > most_x) most_x = modulus(t, x[i]);
        if (modulus(t, b[i]) > most_b) most_b = modulus(t, b[i]);
        if (left > most_r) most_r = left;
        is_nan |= (bool)isnan(left);
    }
    if (is_nan) return NAN;
    return most_r == 0 ? 0 : round_in(t, most_r / fma_in(t, norm, most_x, most_b));
}

static void get_all(const smm_call *call, numbers a, intptr_t q) {
    for (intptr_t i = 0; i < call->n; i++)
        for (intptr_t j = 0; j < call->n; j++) a[i][j] = get_number(&call->a, call->dtype, q, i, j);
}

static void get_column(const smm_call *call, const smm_operand *from, number *x, intptr_t q, intptr_t j) {
    for (intptr_t i = 0; i < call->n; i++) x[i] = get_number(from, call->dtype, q, i, j);
}

static void backward_error(const smm_call *call, intptr_t q) {
    number x[SMM_MOST_ORDER], b[SMM_MOST_ORDER], r[SMM_MOST_ORDER];
    double w[SMM_MOST_ORDER];
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

/* As in refinement.c. */
static double improve(const smm_call *call, const smm_number_factors *f, numbers a, const number *b, number *x,
                      number *r, double *w) {
    const smm_dtype t = f->dtype;
    const bool extra = call->form & SMM_EXTRA;
    const double u = roundoff(t);
    double last = extra ? INFINITY : 3;
    for (int step = 0;; step++) {
        residual(call, a, x, b, r, w);
        const double berr = componentwise(call, r, w);
        number d[SMM_MOST_ORDER];
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

/* As in refinement.c, but that each part of a residual has twice as many terms. */
static double forward_error(const smm_call *call, const smm_number_factors *f, const number *x, const number *r,
                            const double *w) {
    const smm_dtype t = f->dtype;
    const double of_sum = (double)(2 * (f->n + 1)) * roundoff(t), c = call->form & SMM_EXTRA ? of_sum * of_sum : of_sum;
    double scale[SMM_MOST_ORDER];
    intptr_t at;
    for (intptr_t i = 0; i < f->n; i++) scale[i] = size_of(t, r[i]);
    add_bounds(t, scale, c, w, f->n);
    const double found = estimate(&(inverse){f, true, scale}), size = largest(t, x, f->n, &at);
    const double ferr = size == 0 ? found : round_in(t, found / size);
    return call->form & SMM_EXTRA ? round_in(t, ferr + 2 * roundoff(t)) : ferr;
}

static void refine(const smm_call *call, intptr_t q) {
    const smm_dtype t = call->dtype, real = smm_dtypes[t].real;
    smm_number_factors f = {.dtype = t, .n = call->n};
    number x[SMM_MOST_ORDER], b[SMM_MOST_ORDER], r[SMM_MOST_ORDER];
    double w[SMM_MOST_ORDER];
    numbers a;
    get_all(call, a, q);
    smm_given_numbers(&call->refine.lu, &call->refine.pivots, &f, q);
    put_int(&call->refine.info, q, 0, f.info);
    for (intptr_t j = 0; j < call->k; j++) {
        double berr = 0, ferr = 0;
        get_column(call, &call->refine.x, x, q, j);
        get_column(call, &call->refine.b, b, q, j);
        if (f.n) {
            berr = improve(call, &f, a, b, x, r, w);
            ferr = forward_error(call, &f, x, r, w);
        }
        for (intptr_t i = 0; i < f.n; i++)
            put_number(&call->refine.refined, t, q, i, j, f.info ? (number){NAN, NAN} : x[i]);
        put(&call->refine.ferr, real, q, j, 0, f.info ? NAN : ferr);
        put(&call->refine.berr, real, q, j, 0, f.info ? NAN : berr);
    }
}

void smm_reference_refinement_of_numbers(const smm_call *call, intptr_t q) {
    switch (call->op) {
    case SMM_OP_LU_RCOND: lu_rcond(call, q); break;
    case SMM_OP_REFINE: refine(call, q); break;
    default: backward_error(call, q);
    }
}
