/* expm.c: exponentials of general matrices, real and complex, as ../exponential.h has them. Real matrices are numbers
 * without imaginary parts, which have an arithmetic of their own. */
#include "../math/exponential.h"
#include "reference.h"

/* Forget that a number is a sum: GCC 12 takes -fma(x, y, z) for fma(-x, y, -z), whose zeros have another sign. */
static number kept(number x) {
    __asm__("" : "+m"(x));
    return x;
}

typedef struct scaling {
    smm_dtype t;
    bool is_double;
    intptr_t n;
    double e, g; /* as in exponential.h */
    numbers t1, t2, t4, t6, p, q, r;
} scaling;

static void multiply(const scaling *x, numbers a, numbers b, numbers c) {
    const smm_dtype t = x->t;
    const intptr_t n = x->n;
    for (intptr_t i = 0; i < n; i++)
        for (intptr_t j = 0; j < n; j++) {
            number s = product(t, a[i][0], b[0][j]);
            for (intptr_t k = 1; k < n; k++) s = add_product(t, a[i][k], b[k][j], s);
            c[i][j] = s;
        }
}

/* The 1-norm; magnitudes of complex numbers are |re| + |im|. */
static double norm(const scaling *x, numbers a) {
    double most = 0;
    for (intptr_t j = 0; j < x->n; j++) {
        double sum = 0;
        for (intptr_t i = 0; i < x->n; i++) sum = round_in(x->t, sum + size_of(x->t, a[i][j]));
        if (sum > most) most = sum;
    }
    return most;
}

/* |abs(T)^k|, by a row of ones. */
static double norm_of_power(const scaling *x, int k) {
    double row[SMM_MAX_ORDER], next[SMM_MAX_ORDER], most = 0;
    for (intptr_t j = 0; j < x->n; j++) row[j] = 1;
    for (int step = 0; step < k; step++) {
        for (intptr_t j = 0; j < x->n; j++) {
            double sum = 0;
            for (intptr_t i = 0; i < x->n; i++) sum = fma_in(x->t, row[i], size_of(x->t, x->t1[i][j]), sum);
            next[j] = sum;
        }
        for (intptr_t j = 0; j < x->n; j++) row[j] = next[j];
    }
    for (intptr_t j = 0; j < x->n; j++)
        if (row[j] > most) most = row[j];
    return most;
}

static double squarings(scaling *x, double size) {
    const double most = smm_max_squarings(x->is_double, size);
    if (most == 0) return 0;
    smm_expm_norms norms = {.a = size, .t = norm(x, x->t1), .t6 = norm(x, x->t6)};
    multiply(x, x->t4, x->t4, x->p);
    norms.t8 = norm(x, x->p);
    if (x->is_double) multiply(x, x->t6, x->t4, x->p);
    norms.t10 = x->is_double ? norm(x, x->p) : 0;
    norms.last = norm_of_power(x, 2 * smm_pade_of(x->is_double).degree + 1);
    return smm_squarings_of(x->is_double, x->e, &norms);
}

/* Coefficient k, of 2^(power g) T^power. */
static double coefficient(const scaling *x, int k, int power) {
    return round_in(x->t, smm_scaled(smm_pade_coefficient(x->is_double, k), power * x->g));
}

/* to = b_k T^2 + b_(k + 2) T^4 + b_(k + 4) T^6 */
static void add_powers(scaling *x, int k, numbers to) {
    const double b2 = coefficient(x, k, 2), b4 = coefficient(x, k + 2, 4), b6 = coefficient(x, k + 4, 6);
    for (intptr_t i = 0; i < x->n; i++)
        for (intptr_t j = 0; j < x->n; j++)
            to[i][j] =
                add_scaled(x->t, x->t6[i][j], b6, add_scaled(x->t, x->t4[i][j], b4, scaled(x->t, x->t2[i][j], b2)));
}

/* to = b_k I + b_(k + 2) T^2 + ..., by way of r. */
static void sum_of(scaling *x, int k, numbers to) {
    if (x->is_double) {
        add_powers(x, k + 8, to);
        multiply(x, x->t6, to, x->r);
    }
    const double growth = round_in(x->t, smm_scaled(1, 6 * x->g));
    add_powers(x, k + 2, to);
    for (intptr_t i = 0; i < x->n; i++)
        for (intptr_t j = 0; j < x->n; j++) {
            if (x->is_double) to[i][j] = add_scaled(x->t, x->r[i][j], growth, to[i][j]);
            if (i == j) to[i][i].re = round_in(x->t, to[i][i].re + smm_pade_coefficient(x->is_double, k));
        }
}

/* P becomes Q^-1 P: elimination with partial pivoting. */
static void divide(scaling *x) {
    const smm_dtype t = x->t;
    const intptr_t n = x->n;
    number back[SMM_MAX_ORDER];
    for (intptr_t k = 0; k < n; k++) {
        intptr_t p = k;
        for (intptr_t i = k + 1; i < n; i++)
            if (size_of(t, x->q[i][k]) > size_of(t, x->q[p][k])) p = i;
        for (intptr_t j = 0; j < n && p != k; j++) {
            swap(&x->q[k][j], &x->q[p][j]);
            swap(&x->p[k][j], &x->p[p][j]);
        }
        back[k] = over(t, one, x->q[k][k]);
        for (intptr_t i = k + 1; i < n; i++) {
            const number l = kept(product(t, x->q[i][k], back[k]));
            for (intptr_t j = k + 1; j < n; j++) x->q[i][j] = subtract_product(t, l, x->q[k][j], x->q[i][j]);
            for (intptr_t j = 0; j < n; j++) x->p[i][j] = subtract_product(t, l, x->p[k][j], x->p[i][j]);
        }
    }
    for (intptr_t k = n - 1; k >= 0; k--)
        for (intptr_t j = 0; j < n; j++) {
            x->p[k][j] = kept(product(t, x->p[k][j], back[k]));
            for (intptr_t i = 0; i < k; i++) x->p[i][j] = subtract_product(t, x->q[i][k], x->p[k][j], x->p[i][j]);
        }
}

/* P = e^(A / 2^s) */
static void approximate(scaling *x, bool is_small) {
    const smm_dtype t = x->t;
    const double growth = round_in(t, smm_scaled(1, x->g));
    sum_of(x, 1, x->q);
    sum_of(x, 0, x->p);
    multiply(x, x->t1, x->q, x->r);
    for (intptr_t i = 0; i < x->n; i++)
        for (intptr_t j = 0; j < x->n; j++) {
            const number u = scaled(t, x->r[i][j], growth), v = x->p[i][j];
            x->q[i][j] = difference(t, v, u);
            x->p[i][j] = is_small ? sum(t, u, u) : sum(t, u, v);
        }
    divide(x);
    for (intptr_t i = 0; i < x->n && is_small; i++) x->p[i][i].re = round_in(t, x->p[i][i].re + 1);
}

static bool is_upper(const scaling *x, bool transposed) {
    bool zero = true;
    for (intptr_t i = 0; i < x->n; i++)
        for (intptr_t j = 0; j < i; j++) zero &= is_zero(transposed ? x->t1[j][i] : x->t1[i][j]);
    return zero;
}

/* P, the exponential of a triangular A / 2^left, gets the diagonal and what is beside it exactly, and zeros on the
 * other side. */
static void correct(scaling *x, double left, bool lower) {
    const bool is_complex = smm_is_complex(x->t);
    for (intptr_t i = 0; i < x->n; i++) {
        const smm_parts here = {smm_scaled(x->t1[i][i].re, x->e - left), smm_scaled(x->t1[i][i].im, x->e - left)};
        const smm_parts power = smm_exp_of_parts(is_complex, here);
        x->p[i][i] = (number){round_in(x->t, power.re), round_in(x->t, power.im)};
        for (intptr_t j = 0; j < i; j++) *(lower ? &x->p[j][i] : &x->p[i][j]) = zero;
        if (i + 1 == x->n) continue;
        const number next = x->t1[i + 1][i + 1], a = lower ? x->t1[i + 1][i] : x->t1[i][i + 1];
        const smm_parts there = {smm_scaled(next.re, x->e - left), smm_scaled(next.im, x->e - left)};
        const smm_parts between = {smm_scaled(a.re, x->e - left), smm_scaled(a.im, x->e - left)};
        const smm_parts beside = smm_exp_beside(is_complex, between, here, there);
        *(lower ? &x->p[i + 1][i] : &x->p[i][i + 1]) = (number){round_in(x->t, beside.re), round_in(x->t, beside.im)};
    }
}

/* P = e^A of a finite T1 = A. */
static void exponential(scaling *x) {
    const double size = norm(x, x->t1);
    x->e = smm_scaling_exponent(x->is_double, size);
    for (intptr_t i = 0; i < x->n; i++)
        for (intptr_t j = 0; j < x->n; j++) x->t1[i][j] = scaled(x->t, x->t1[i][j], smm_scaled(1, -x->e));
    multiply(x, x->t1, x->t1, x->t2);
    multiply(x, x->t2, x->t2, x->t4);
    multiply(x, x->t4, x->t2, x->t6);
    const double s = squarings(x, size);
    const bool upper = is_upper(x, false), lower = is_upper(x, true);
    x->g = x->e - s;
    approximate(x, !(size > 1));
    for (double left = s;; left--) {
        if (upper) correct(x, left, false);
        if (lower) correct(x, left, true);
        if (!(left > 0)) break;
        multiply(x, x->p, x->p, x->r);
        for (intptr_t i = 0; i < x->n; i++)
            for (intptr_t j = 0; j < x->n; j++) x->p[i][j] = x->r[i][j];
    }
}

static void expm(const smm_call *call, intptr_t q) {
    const intptr_t n = call->n;
    const smm_dtype t = call->dtype;
    scaling x = {.t = t, .is_double = roundoff(t) < 0x1p-40, .n = n};
    bool finite = true;
    for (intptr_t i = 0; i < n; i++)
        for (intptr_t j = 0; j < n; j++) x.t1[i][j] = get_number(&call->a, t, q, i, j);
    for (intptr_t i = 0; i < n; i++)
        for (intptr_t j = 0; j < n; j++) finite &= is_finite(x.t1[i][j]);
    finite = finite && isfinite(norm(&x, x.t1));
    if (finite) exponential(&x);
    for (intptr_t i = 0; i < n; i++)
        for (intptr_t j = 0; j < n; j++) put_number(&call->expm.x, t, q, i, j, finite ? x.p[i][j] : not_a_number);
}

void smm_reference_expm(const smm_call *call) {
    for (intptr_t q = 0; q < call->batch; q++) expm(call, q);
}
