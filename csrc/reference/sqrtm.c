/* sqrtm.c: square roots of general matrices by way of their Schur forms. */
#include "schur.h"

/* (x; y) becomes W^H (x; y), where W = (c is; is c) is unitary; with -s, W (x; y), and (x y) W. */
static void turn(smm_dtype t, double c, double s, number *x, number *y) {
    const number old = *x;
    *x = (number){fma_in(t, s, y->im, round_in(t, c * old.re)), fma_in(t, -s, y->re, round_in(t, c * old.im))};
    *y = (number){fma_in(t, s, old.im, round_in(t, c * y->re)), fma_in(t, -s, old.re, round_in(t, c * y->im))};
}

/* H becomes W^H H W, of rows and columns k and k + 1. */
static void turn_block(schur *x, intptr_t k, double c, double s) {
    for (intptr_t j = k; j < x->n; j++) turn(x->t, c, s, &x->h[k][j], &x->h[k + 1][j]);
    for (intptr_t i = 0; i <= k + 1; i++) turn(x->t, c, -s, &x->h[i][k], &x->h[i][k + 1]);
}

/* The root whose real part is not negative; of a negative number the one above. */
static number principal_root(smm_dtype t, number z) {
    const double size = fabs(z.re) > fabs(z.im) ? fabs(z.re) : fabs(z.im), root = round_in(t, sqrt(size));
    if (size == 0) return real(0);
    const double re = round_in(t, z.re / size), im = round_in(t, z.im / size);
    const double modulus = round_in(t, sqrt(fma_in(t, im, im, round_in(t, re * re))));
    const double half = round_in(t, sqrt(round_in(t, 0.5 * round_in(t, fabs(re) + modulus))));
    const double large = round_in(t, half * root);
    const double small = round_in(t, round_in(t, round_in(t, 0.5 * im) / half) * root);
    if (!(re < 0)) return (number){large, small};
    return small < 0 ? (number){-small, -large} : (number){small, large};
}

/* A triangle becomes its root (Björck and Hammarling, A Schur method for the square root of a matrix, 1983). The result
 * counts elements for which there is no number, where the sum of two roots is zero, and those that overflow as one. */
static intptr_t to_root(schur *x) {
    const smm_dtype t = x->t;
    intptr_t without = 0;
    bool finite = true;
    for (intptr_t j = 0; j < x->n; j++) {
        x->h[j][j] = principal_root(t, x->h[j][j]);
        for (intptr_t i = j - 1; i >= 0; i--) {
            number y = x->h[i][j], d = sum(t, x->h[i][i], x->h[j][j]);
            for (intptr_t k = i + 1; k < j; k++) y = subtract_product(t, x->h[i][k], x->h[k][j], y);
            if (fma_in(t, d.im, d.im, round_in(t, d.re * d.re)) == 0) {
                d = real(1);
                without += !is_zero(y);
            }
            x->h[i][j] = fraction(t, y, d);
            finite = finite && is_finite(x->h[i][j]);
        }
    }
    return without + !finite;
}

/* z + x y, x being an element of Z: of a real one infinite y have no effect on the other part. */
static number add_multiple(const schur *x, number z_ij, number y, number z) {
    if (x->is_complex) return add_product(x->t, z_ij, y, z);
    return (number){fma_in(x->t, z_ij.re, y.re, z.re), fma_in(x->t, z_ij.re, y.im, z.im)};
}

/* X = Z H Z^H, H being a triangle, or of a real matrix a triangle and the diagonal below. Zeros are positive. */
static void put_product(const smm_call *call, intptr_t q, const schur *x, double times) {
    for (intptr_t i = 0; i < x->n; i++) {
        number row[SMM_MAX_ORDER];
        for (intptr_t j = 0; j < x->n; j++) {
            row[j] = real(0);
            for (intptr_t k = 0; k <= min_of(x->is_complex ? j : j + 1, x->n - 1); k++)
                row[j] = add_multiple(x, x->z[i][k], x->h[k][j], row[j]);
        }
        for (intptr_t j = 0; j < x->n; j++) {
            number y = real(0);
            for (intptr_t k = 0; k < x->n; k++) y = add_multiple(x, conjugate(x->z[j][k]), row[k], y);
            y = isnan(times) ? not_a_number : scaled(x->t, y, times);
            put_number(&call->sqrtm.x, x->t, q, i, j, (number){y.re + 0.0, y.im + 0.0});
        }
    }
}

/* Of a real matrix by way of the complex triangle: the block (a b; c a), of which b c is negative, has the eigenvalues
 * a + iw and a - iw, w^2 = -b c, and the vector (b; iw), and becomes (a + iw, b + c; 0, a - iw). Without a negative
 * eigenvalue the root is real. */
intptr_t smm_put_root(const smm_call *call, intptr_t q, schur *x, double back, bool bad) {
    const smm_dtype t = x->t;
    double c[SMM_MAX_ORDER], s[SMM_MAX_ORDER], root = round_in(t, sqrt(back));
    const bool odd = !bad && fma_in(t, root, root, -back) != 0; /* the root of an odd power of two is inexact */
    intptr_t negative = 0, without = 0;
    if (odd) root = round_in(t, sqrt(0.5 * back));
    for (intptr_t i = 0; i < x->n && !bad; i++)
        for (intptr_t j = 0; j < x->n && odd; j++) x->h[i][j] = scaled(t, x->h[i][j], 2);
    for (intptr_t k = 0; k < x->n - 1 && !bad && !x->is_complex; k++) {
        const double a = x->h[k][k].re, above = x->h[k][k + 1].re, below = x->h[k + 1][k].re;
        c[k] = 1, s[k] = 0;
        if (below == 0) continue;
        const double of_b = round_in(t, sqrt(fabs(above))), of_c = round_in(t, sqrt(fabs(below)));
        const double size = round_in(t, sqrt(round_in(t, fabs(above) + fabs(below)))), w = round_in(t, of_b * of_c);
        c[k] = copysign(round_in(t, of_b / size), above);
        s[k] = round_in(t, of_c / size);
        turn_block(x, k, c[k], s[k]);
        x->h[k][k] = (number){a, w}, x->h[k][k + 1] = real(round_in(t, above + below));
        x->h[k + 1][k] = real(0), x->h[k + 1][k + 1] = (number){a, -w};
    }
    for (intptr_t k = 0; k < x->n && !bad; k++) negative += x->h[k][k].im == 0 && x->h[k][k].re < 0;
    if (!bad) without = to_root(x);
    for (intptr_t k = 0; k < x->n - 1 && !bad && !x->is_complex; k++)
        if (s[k] != 0) turn_block(x, k, c[k], -s[k]);
    for (intptr_t i = 0; i < x->n && !x->is_complex && !negative; i++)
        for (intptr_t j = 0; j < x->n; j++) x->h[i][j].im = 0;
    put_product(call, q, x, bad || without ? NAN : root);
    put_int(&call->sqrtm.negative, q, 0, negative);
    return without;
}
