/* hermitian.c: eigenvalues and eigenvectors of Hermitian matrices, by the method of eigh.c: Householder reflectors
 * leave a T that is real (LAPACK's hetrd and ungtr). */
#include "number.h"

/* A^T above the diagonal, then the reflectors, then Q = H_0 H_1 ... */
typedef struct hermitian {
    smm_dtype t;
    intptr_t n;
    numbers a;
    number tau[SMM_MOST_ORDER];
} hermitian;

static number minus(number x) { return (number){-x.re, -x.im}; }

/* The triangle in question, times a power of two that brings it to about 1; of the diagonal the real parts. The result
 * undoes that, or is NaN where the triangle is not finite. */
static double get_scaled(const smm_call *call, intptr_t q, hermitian *x) {
    const bool upper = call->form & SMM_UPPER;
    double most = 0;
    for (intptr_t i = 0; i < x->n; i++)
        for (intptr_t j = i; j < x->n; j++) {
            number a = get_number(&call->a, x->t, q, upper ? i : j, upper ? j : i);
            if (upper) a = conjugate(a);
            if (i == j) a.im = 0;
            if (!isfinite(a.re) || !isfinite(a.im)) return NAN;
            most = fmax(most, fmax(fabs(a.re), fabs(a.im)));
            x->a[i][j] = a;
        }
    const double scale = smm_scale_to_one(smm_dtypes[x->t].real, most);
    for (intptr_t i = 0; i < x->n; i++)
        for (intptr_t j = i; j < x->n; j++) x->a[i][j] = scaled(x->t, x->a[i][j], scale);
    return 1 / scale;
}

/* b_ij, i and j from k on, of which the upper triangle has b_ji. */
static number element(const hermitian *x, intptr_t i, intptr_t j) { return i < j ? conjugate(x->a[i][j]) : x->a[j][i]; }

/* B = H^H B H, of the rows and columns from k on: w = tau B v, w = w - |tau|^2 (v^H B v) / 2 v, B = B - v w^H - w v^H.
 * v, of which v_k = 1, is right of the diagonal in row k - 1. */
static void reflect_both_sides(hermitian *x, intptr_t k) {
    const smm_dtype t = x->t;
    const intptr_t n = x->n;
    const number tau = x->tau[k - 1];
    number v[SMM_MOST_ORDER], w[SMM_MOST_ORDER], dot = {0, 0};
    for (intptr_t i = k; i < n; i++) v[i] = i == k ? (number){1, 0} : x->a[k - 1][i];
    for (intptr_t i = k; i < n; i++) {
        number s = element(x, i, k);
        for (intptr_t j = k + 1; j < n; j++) s = add_product(t, element(x, i, j), v[j], s);
        w[i] = product(t, tau, s);
        dot = i == k ? w[i] : add_product(t, conjugate(v[i]), w[i], dot);
    }
    const double both = fma_in(t, tau.im, dot.im, round_in(t, tau.re * dot.re)), half = round_in(t, -0.5 * both);
    for (intptr_t i = k; i < n; i++)
        w[i] = (number){fma_in(t, half, v[i].re, w[i].re), fma_in(t, half, v[i].im, w[i].im)};
    for (intptr_t i = k; i < n; i++)
        for (intptr_t j = i; j < n; j++) {
            const number less = subtract_product(t, conjugate(v[i]), w[j], x->a[i][j]);
            x->a[i][j] = subtract_product(t, conjugate(w[i]), v[j], less);
            if (i == j) x->a[i][j].im = 0;
        }
}

static void tridiagonalise(hermitian *x, smm_spectrum *s) {
    for (intptr_t k = 0; k < x->n; k++) {
        s->d[k] = x->a[k][k].re;
        if (k + 1 == x->n) break;
        x->tau[k] = smm_reflector_of_numbers(x->t, &x->a[k][k + 1], 1, x->n - k - 1);
        s->e[k] = x->a[k][k + 1].re;
        if (k + 2 < x->n) reflect_both_sides(x, k + 1);
    }
}

/* From the last on: rows and columns up to k are still those of I when H_k comes. */
void smm_form_vectors_of_numbers(smm_dtype t, numbers a, const number *taus, smm_spectrum *x) {
    const intptr_t n = x->n;
    for (intptr_t k = n - 2; k >= 0; k--) {
        const number *v = a[k], tau = taus[k];
        for (intptr_t j = k + 2; j < n; j++) {
            number w = product(t, conjugate(v[k + 2]), a[k + 2][j]);
            for (intptr_t i = k + 3; i < n; i++) w = add_product(t, conjugate(v[i]), a[i][j], w);
            w = product(t, tau, w);
            a[k + 1][j] = minus(w);
            for (intptr_t i = k + 2; i < n; i++) a[i][j] = subtract_product(t, v[i], w, a[i][j]);
        }
        a[k + 1][k + 1] = sum(t, (number){1, 0}, minus(tau));
        for (intptr_t i = k + 2; i < n; i++) a[i][k + 1] = product(t, minus(tau), v[i]);
    }
    for (intptr_t i = 0; i < n; i++) a[0][i] = a[i][0] = (number){i == 0, 0};
    for (intptr_t i = 0; i < n; i++)
        for (intptr_t j = 0; j < n; j++) x->a[i][j] = a[i][j].re, x->a[n + i][j] = a[i][j].im;
}

void smm_turn_largest(smm_dtype t, number *x, intptr_t count) {
    double most = 0;
    intptr_t largest = 0;
    for (intptr_t i = 0; i < count; i++) {
        const double square = fma_in(t, x[i].im, x[i].im, round_in(t, x[i].re * x[i].re));
        if (square > most) most = square, largest = i;
    }
    const double size = round_in(t, sqrt(most));
    const number phase = {round_in(t, x[largest].re / size), round_in(t, -x[largest].im / size)};
    for (intptr_t i = 0; i < count; i++) {
        const number y = i == largest ? (number){size, 0} : product(t, x[i], phase);
        x[i] = (number){y.re + 0.0, y.im + 0.0};
    }
}

_Static_assert(offsetof(smm_call, eigh.w) == offsetof(smm_call, eigvalsh.w), "EIGVALSH has the w of EIGH");

void smm_reference_hermitian(const smm_call *call, intptr_t q) {
    const intptr_t n = call->n;
    const smm_dtype real = smm_dtypes[call->dtype].real;
    hermitian x = {.t = call->dtype, .n = n};
    smm_spectrum s = {.dtype = real, .n = n, .height = 2 * n};
    intptr_t info = 0;
    const double back = get_scaled(call, q, &x);
    if (!isnan(back)) {
        tridiagonalise(&x, &s);
        smm_form_vectors_of_numbers(x.t, x.a, x.tau, &s);
        info = smm_diagonalise(&s);
    }
    const bool bad = isnan(back) || info;
    for (intptr_t j = 0; j < n; j++) {
        const intptr_t place = bad ? j : smm_place_of_value(&s, j);
        number v[SMM_MOST_ORDER];
        put(&call->eigh.w, real, q, place, 0, bad ? NAN : round_in(real, s.d[j] * back) + 0.0);
        for (intptr_t i = 0; i < n; i++) v[i] = bad ? (number){NAN, NAN} : (number){s.a[i][j], s.a[n + i][j]};
        if (!bad) smm_turn_largest(x.t, v, n);
        for (intptr_t i = 0; i < n && call->op == SMM_OP_EIGH; i++) put_number(&call->eigh.v, x.t, q, i, place, v[i]);
    }
    put_int(smm_info(call), q, 0, info);
}
