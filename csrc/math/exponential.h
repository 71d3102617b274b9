/* exponential.h: e^A by scaling and squaring with a Pade approximant, [13/13] (Al-Mohy and Higham, SIAM J. Matrix Anal.
 * Appl. 31, 2009, algorithm 5.1, with norms instead of estimates), of float32 [7/7] (Higham, SIAM J. Matrix Anal. Appl.
 * 26, 2005): what the reference and all kernels share. As functions.h plain C in double precision, with the same bits
 * on every processor.
 *
 *     T = A / 2^e, |T|_1 < 1 as a rule: its powers do not overflow. g = e - s: A / 2^s is 2^g T.
 *     U = 2^g T (odd + 2^6g T^6 odd'), V = even + 2^6g T^6 even', four sums of I and powers of 2^g T
 *     (V - U) X = V + U, or where |A|_1 <= 1, X = I + Y, (V - U) Y = 2 U, of which small results lose no digits
 *     X = X^2, s times
 *
 * Of triangular matrices the diagonal and what is beside it are exponentials of A's own, before the squarings and after
 * each (Al-Mohy and Higham's code fragment 2.1; Higham, Functions of Matrices, (10.42)). */
#ifndef SMM_EXPONENTIAL_H
#define SMM_EXPONENTIAL_H

#include "functions_complex.h"

#define SMM_SCALAR static inline __attribute__((always_inline))

/* What differs between the two precisions: m; the largest |A|_1 with a backward error of at most u, that of degree 13
 * reduced as in the paper; its logarithm; log(c / u), c = (m!)^2 / ((2 m)! (2 m + 1)!) being the first coefficient of
 * that error's series; and the greatest e and g: powers of two remain normal numbers, and what underflows in T^6 does
 * not count when multiplied by 2^6g. */
typedef struct smm_pade {
    int degree;
    double theta, log_theta, log_limit, max_exponent, max_growth;
} smm_pade;
SMM_SCALAR smm_pade smm_pade_of(bool is_double) {
    const smm_pade thirteen = {13, 4.25, 1.4469189829363254, -43.97811211208439, 1022, 160};
    const smm_pade seven = {7, 3.925724783138660, 1.3675509923116582, -19.40463751101006, 126, 20};
    return is_double ? thirteen : seven;
}

/* Coefficient k of the numerator, over 2^55 or 2^24: no term is much larger than A. */
SMM_SCALAR double smm_pade_coefficient(bool is_double, int k) {
    static const double THIRTEEN[] = {
        0x1p-55 * 64764752532480000,
        0x1p-55 * 32382376266240000,
        0x1p-55 * 7771770303897600,
        0x1p-55 * 1187353796428800,
        0x1p-55 * 129060195264000,
        0x1p-55 * 10559470521600,
        0x1p-55 * 670442572800,
        0x1p-55 * 33522128640,
        0x1p-55 * 1323241920,
        0x1p-55 * 40840800,
        0x1p-55 * 960960,
        0x1p-55 * 16380,
        0x1p-55 * 182,
        0x1p-55,
    };
    static const double SEVEN[] = {
        0x1p-24 * 17297280, 0x1p-24 * 8648640, 0x1p-24 * 1995840, 0x1p-24 * 277200,
        0x1p-24 * 25200,    0x1p-24 * 1512,    0x1p-24 * 56,      0x1p-24,
    };
    return is_double ? THIRTEEN[k] : SEVEN[k];
}

/* The e of |A|_1. */
SMM_SCALAR double smm_scaling_exponent(bool is_double, double size) {
    const double e = smm_exponent(size), most = smm_pade_of(is_double).max_exponent;
    return e < 0 ? 0 : e > most ? most : e;
}

/* How many squarings are enough by |A|_1 alone. */
SMM_SCALAR double smm_max_squarings(bool is_double, double size) {
    const double s = smm_exponent(size / smm_pade_of(is_double).theta);
    return s < 0 ? 0 : s;
}

/* 1-norms: of A, of powers of T, the last two for degree 13 alone, and of |T|^(2 m + 1). */
typedef struct smm_expm_norms {
    double a, t, t6, t8, t10, last;
} smm_expm_norms;

/* The least whole number that is not less, of |x| < 2^51 or -inf. */
SMM_SCALAR double smm_whole_above(double x) {
    const double ROUND = 0x1.8p52, whole = (x + ROUND) - ROUND;
    return whole < x ? whole + 1 : whole;
}

/* How many there are, where |A|_1 alone asks for some: d_k = log |A^k| / k; max(d_k, d_(k + 2)) <= log theta suffices
 * for some even k with k (k - 2) <= 4 m, unless rounding spoils it, of which |T|^(2 m + 1) tells. */
SMM_SCALAR double smm_squarings_of(bool is_double, double e, const smm_expm_norms *x) {
    const double LN2 = 0.69314718055994531;
    const smm_pade pade = smm_pade_of(is_double);
    const double d6 = smm_log(x->t6) / 6, d8 = smm_log(x->t8) / 8, d10 = is_double ? smm_log(x->t10) / 10 : d6;
    const double low = d6 > d8 ? d6 : d8, high = d8 > d10 ? d8 : d10, d = high < low ? high : low;
    const double over = smm_whole_above((d - pade.log_theta) / LN2 + e);
    const double alpha = pade.log_limit + smm_log(x->last) - smm_log(x->t);
    const double more = smm_whole_above(alpha / (2 * pade.degree) / LN2 + e);
    const double most = smm_max_squarings(is_double, x->a), needed = over > more ? over : more;
    const double s = needed < 0 ? 0 : needed > most ? most : needed, least = e - pade.max_growth;
    return s < least ? least : s;
}

/* --- triangular matrices --- */

SMM_SCALAR double smm_sine_of_any(double x, bool is_cosine) {
    return smm_is_far(x) ? smm_far_sine(x, is_cosine) : is_cosine ? smm_cos(x) : smm_sin(x);
}

/* e^x; of real numbers, whose imaginary part is not looked at, as of complex ones. */
SMM_SCALAR smm_parts smm_exp_of_parts(bool is_complex, smm_parts x) {
    const smm_parts real = {is_complex ? 0 : smm_exp(x.re), 0};
    return is_complex ? smm_complex_exp(x.re, x.im, smm_sine_of_any(x.im, false), smm_sine_of_any(x.im, true)) : real;
}

SMM_SCALAR smm_parts smm_parts_product(smm_parts x, smm_parts y) {
    const smm_parts product = {__builtin_fma(-x.im, y.im, x.re * y.re), __builtin_fma(x.im, y.re, x.re * y.im)};
    return product;
}

/* (e^d - 1) / d of complex d, d.re <= 0 */
SMM_SCALAR smm_parts smm_relative_exp(smm_parts d) {
    const double t = smm_expm1(d.re), sine = smm_sine_of_any(0.5 * d.im, false);
    const double re = __builtin_fma(t, smm_sine_of_any(d.im, true), -2 * (sine * sine));
    const double im = (t + 1) * smm_sine_of_any(d.im, false);
    const bool upright = smm_magnitude(d.re) >= smm_magnitude(d.im);
    const double large = upright ? d.re : d.im, small = upright ? d.im : d.re, ratio = small / large;
    const double divisor = __builtin_fma(small, ratio, large);
    const double above = upright ? __builtin_fma(im, ratio, re) : __builtin_fma(re, ratio, im);
    const double beside = upright ? __builtin_fma(-re, ratio, im) : __builtin_fma(im, ratio, -re);
    const smm_parts quotient = {above / divisor, beside / divisor};
    return quotient;
}

/* a (e^x - e^y) / (x - y): what is beside the diagonal of the exponential of a triangle with x, y on it and a beside
 * them. By the larger of the two, so that nothing overflows unless the result does. */
SMM_SCALAR smm_parts smm_exp_beside(bool is_complex, smm_parts a, smm_parts x, smm_parts y) {
    const bool first = x.re > y.re;
    const smm_parts m = first ? x : y, d = {first ? y.re - x.re : x.re - y.re, first ? y.im - x.im : x.im - y.im};
    const smm_parts power = smm_exp_of_parts(is_complex, m), nothing = {0, 0};
    if (a.re == 0 && (!is_complex || a.im == 0)) return nothing;
    if (!is_complex) {
        const smm_parts real = {a.re * power.re * (d.re == 0 ? 1 : smm_expm1(d.re) / d.re), 0};
        return real;
    }
    const smm_parts product = smm_parts_product(a, power);
    return d.re == 0 && d.im == 0 ? product : smm_parts_product(product, smm_relative_exp(d));
}

#undef SMM_SCALAR
#endif
