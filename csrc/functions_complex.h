/* functions_complex.h: exp, log, sqrt, sin and cos of complex numbers x + i y in double precision, for the rows of
 * functions_complex.def: as functions.h plain C, with the same bits on every processor. Errors are a few ulp of the
 * result's magnitude (tests/test_functions.py); signs of zeros, infinities and branch cuts are those of annex G of C,
 * which are NumPy's. */
#ifndef SMM_FUNCTIONS_COMPLEX_H
#define SMM_FUNCTIONS_COMPLEX_H

#include "functions.h"

#define SMM_SCALAR static inline __attribute__((always_inline))

typedef struct smm_parts {
    double re, im;
} smm_parts;

SMM_SCALAR bool smm_is_finite(double x) { return x - x == 0; }

/* e^x factor / 2^halvings, |factor| <= 1, which may be finite where e^x is not: 2^k in two parts, as in smm_exp_of.
 * Beyond 1400 it is infinite. */
SMM_SCALAR double smm_exp_times(double x, double factor, uint64_t halvings) {
    uint64_t k;
    double r;
    const double p = smm_reduced_exp(x > 1400 ? 1400 : x < -760 ? -760 : x, 0, &k, &r) + r + 1;
    const uint64_t both = k + 2046 - halvings, first = both >> 1;
    const double product = factor * smm_f64_of_bits(first << 52) * p * smm_f64_of_bits((both - first) << 52);
    return x > 1400 ? __builtin_inf() * factor : product;
}

/* e^x (cos y + i sin y) */
SMM_SCALAR smm_parts smm_complex_exp(double x, double y, double sine, double cosine) {
    const double infinity = __builtin_inf(), zero = smm_with_sign(0, y);
    const double re = smm_exp_times(x, cosine, 0), im = smm_exp_times(x, sine, 0);
    const bool turns = !smm_is_finite(y), vanishes = turns & (x == -infinity), remains = turns & (x == infinity);
    const smm_parts value = {vanishes ? 0 : remains ? x : re, vanishes ? zero : y == 0 ? y : im};
    return value;
}

/* Of two magnitudes, whose order is that of their bits. */
SMM_SCALAR double smm_larger(double x, double y) { return smm_bits_of_f64(x) > smm_bits_of_f64(y) ? x : y; }
SMM_SCALAR double smm_smaller(double x, double y) { return smm_bits_of_f64(x) > smm_bits_of_f64(y) ? y : x; }

/* log |z| + i arctan2(y, x). Near |z| = 1 by |z|^2 - 1 = (a - 1) (a + 1) + b^2 of the larger part a and the smaller b:
 * what cancels there is small against the angle. Elsewhere by |z|^2, scaled by a power of 2. */
SMM_SCALAR smm_parts smm_complex_log(double x, double y, double sine, double cosine) {
    const double infinity = __builtin_inf(), left = smm_magnitude(x), up = smm_magnitude(y);
    const double a = smm_larger(left, up), b = smm_smaller(left, up);
    const double t = __builtin_fma(b, b, (a - 1) * (a + 1));
    const bool near = (t > -0.5) & (t < 1);
    const double exponent = smm_exponent(a), e = exponent > 1000 ? 1000 : exponent < -1000 ? -1000 : exponent;
    const double scaled = smm_scaled(a, -e), other = smm_scaled(b, -e);
    const double of_near = 1 + t, elsewhere = __builtin_fma(scaled, scaled, other * other);
    const double square = near ? of_near : elsewhere, twice = near ? 0 : 2 * e;
    double k;
    const double m = smm_split(square, &k), fraction = m - 1, rest = (t - (square - 1)) / square;
    const bool is_t = near & (k == 0), is_cut = near & (k != 0);
    const double log = 0.5 * smm_special_log(square, smm_log_of(k + twice, is_t ? t : fraction, is_cut ? rest : 0));
    (void)sine, (void)cosine;
    const smm_parts value = {((a == infinity) | (b == infinity)) ? infinity : log, smm_arctan2(y, x)};
    return value;
}

/* The root r + i s of |x| + i |y|: r = sqrt((|x| + |z|) / 2), s = |y| / (2 r), the parts scaled by a power of 4; or of
 * a negative x, s + i r. */
SMM_SCALAR smm_parts smm_complex_sqrt(double x, double y, double sine, double cosine) {
    const double infinity = __builtin_inf(), ROUND = 0x1.8p52, left = smm_magnitude(x), up = smm_magnitude(y);
    const double half = (0.5 * smm_exponent(smm_larger(left, up)) + ROUND) - ROUND;
    const double e = half > 500 ? 500 : half < -500 ? -500 : half;
    const double a = smm_scaled(left, -2 * e), b = smm_scaled(up, -2 * e);
    const double root = smm_scaled(__builtin_sqrt(0.5 * (a + __builtin_sqrt(__builtin_fma(a, a, b * b)))), e);
    const double r = left == infinity ? infinity : root, ratio = up / (2 * r), s = r == 0 ? up : ratio;
    (void)sine, (void)cosine;
    const double re = x < 0 ? s : r, im = x < 0 ? r : s;
    const smm_parts value = {up == infinity ? up : re, smm_with_sign(up == infinity ? up : im, y)};
    return value;
}

/* factor cosh a and factor sinh a of a magnitude a: from t = e^a - 1, or beyond 22, where both are, from e^a / 2. */
SMM_SCALAR double smm_cosh_times(double a, double factor) {
    const double t = smm_expm1(a), cosh = factor * (1 + t * t / (2 * (1 + t))), large = smm_exp_times(a, factor, 1);
    return a < 22 ? cosh : large;
}
SMM_SCALAR double smm_sinh_times(double a, double factor) {
    const double t = smm_expm1(a), sinh = factor * (0.5 * (t + t / (1 + t))), large = smm_exp_times(a, factor, 1);
    return a < 22 ? sinh : large;
}

/* sin x cosh y + i cos x sinh y */
SMM_SCALAR smm_parts smm_complex_sin(double x, double y, double sine, double cosine) {
    const double a = smm_magnitude(y), re = smm_cosh_times(a, sine), im = smm_sinh_times(a, cosine);
    const bool is_negative = smm_bits_of_f64(y) >> 63;
    const bool turns = !smm_is_finite(x), is_its_own = turns & ((a == 0) | (a == __builtin_inf()));
    const smm_parts value = {x == 0 ? x : re, is_its_own ? y : is_negative ? -im : im};
    return value;
}

/* cos x cosh y - i sin x sinh y */
SMM_SCALAR smm_parts smm_complex_cos(double x, double y, double sine, double cosine) {
    const double infinity = __builtin_inf(), a = smm_magnitude(y);
    const double re = smm_cosh_times(a, cosine), im = smm_sinh_times(a, sine);
    const bool turns = !smm_is_finite(x), vanishes = (x == 0) | (turns & (a == 0));
    const bool is_negative = smm_bits_of_f64(y) >> 63;
    const double size = vanishes ? (x == 0 ? x : 0) : im;
    const smm_parts value = {(turns & (a == infinity)) ? infinity : re, is_negative ? size : -size};
    return value;
}

#undef SMM_SCALAR
#endif
