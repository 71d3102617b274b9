/* functions_complex.h: exp, log, sqrt, sin and cos of complex numbers x + i y in double precision, for the rows of
 * functions_complex.def: as functions.h plain C, with the same bits on every processor. Errors are at most 2 ulp of the
 * result's magnitude (tests/functions/test_functions.py); signs of zeros, infinities and branch cuts are those of annex
 * G of C, which are NumPy's. */
#ifndef SMM_FUNCTIONS_COMPLEX_H
#define SMM_FUNCTIONS_COMPLEX_H

#include "functions.h"

#define SMM_SCALAR static inline __attribute__((always_inline))

typedef struct smm_parts {
    double re, im;
} smm_parts;

SMM_SCALAR bool smm_is_finite(double x) { return x - x == 0; }

/* x if the condition holds, else y: by their bits, because compilers make branches of what else could be said. */
SMM_SCALAR double smm_either(bool condition, double x, double y) {
    const uint64_t mask = -(uint64_t)condition;
    return smm_f64_of_bits((smm_bits_of_f64(x) & mask) | (smm_bits_of_f64(y) & ~mask));
}

/* e^x factor / 2^halvings, |factor| <= 1, which may be finite where e^x is not: 2^k in two parts, as in smm_exp_of.
 * Beyond 1400 it is infinite. e^r is in two numbers, so that products round once. */
SMM_SCALAR double smm_exp_times(double x, double factor, uint64_t halvings) {
    uint64_t k;
    double r;
    const double p = smm_reduced_exp(x > 1400 ? 1400 : x < -760 ? -760 : x, 0, &k, &r);
    const double rest = p + r, high = rest + 1, low = (1 - high) + rest + (p - (rest - r));
    const uint64_t both = k + 2046 - halvings, first = both >> 1;
    const double part = factor * smm_f64_of_bits(first << 52);
    const double product = __builtin_fma(part, high, part * low) * smm_f64_of_bits((both - first) << 52);
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
 * what cancels there is small against the angle. Elsewhere by |z|^2, scaled by a power of 2. It is in two numbers. */
SMM_SCALAR smm_parts smm_complex_log(double x, double y, double sine, double cosine) {
    const double infinity = __builtin_inf(), left = smm_magnitude(x), up = smm_magnitude(y);
    const double a = smm_larger(left, up), b = smm_smaller(left, up);
    const double about = __builtin_fma(b, b, (a - 1) * (a + 1));
    const bool near = (about > -0.5) & (about < 1);
    const double exponent = smm_exponent(a), e = exponent > 1000 ? 1000 : exponent < -1000 ? -1000 : exponent;
    const double scaled = smm_scaled(a, -e), above = a + 1;
    const double first = near ? a - 1 : scaled, second = near ? above : scaled, second_low = near ? a - (above - 1) : 0;
    const double other = near ? b : smm_scaled(b, -e);
    const double part = first * second, part_low = __builtin_fma(first, second, -part) + first * second_low;
    const double rest = other * other, rest_low = __builtin_fma(other, other, -rest);
    const double t = part + rest, of_rest = t - part;
    const double t_low = (part - (t - of_rest)) + (rest - of_rest) + (part_low + rest_low);
    const double square = near ? 1 + t : t, twice = near ? 0 : 2 * e;
    double k;
    const double m = smm_split(square, &k);
    const bool is_t = near & (k == 0), is_cut = near & (k != 0);
    const double low = t_low + (is_cut ? t - (square - 1) : 0);
    const double log = 0.5 * smm_special_log(square, smm_log_of(k + twice, is_t ? t : m - 1, low / square));
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
    const double most = smm_larger(a, b), least = smm_smaller(a, b);
    const double size = __builtin_sqrt(__builtin_fma(most, most, least * least));
    const double root = smm_scaled(__builtin_sqrt(0.5 * (a + size)), e);
    const double r = left == infinity ? infinity : root, ratio = up / (2 * r), s = r == 0 ? up : ratio;
    (void)sine, (void)cosine;
    const double re = x < 0 ? s : r, im = x < 0 ? r : s;
    const smm_parts value = {up == infinity ? up : re, smm_with_sign(up == infinity ? up : im, y)};
    return value;
}

/* The factors, in which |factor| <= 1, times cosh a and sinh a of a magnitude a: beyond 22, where both are, from
 * e^a / 2; else (1 + t + q') / 2 and (t + q) / 2 of t = e^a - 1, q' = 1 / (1 + t) and q = t q', in two numbers. */
SMM_SCALAR smm_parts smm_hyperbolics(double a, double of_cosh, double of_sinh) {
    double t_low;
    const double t = smm_expm1_of(a, &t_low), d = 1 + t, of_t = d - 1, d_low = (1 - (d - of_t)) + (t - of_t) + t_low;
    const double back = 1 / d, back_low = -(__builtin_fma(back, d, -1) + back * d_low) * back;
    const double q = t * back, q_low = (__builtin_fma(-q, d, t) + (t_low - q * d_low)) * back;
    const double cosh = d + back, cosh_low = 0.5 * ((d - cosh) + back + (d_low + back_low));
    const double sinh = t + q, sinh_low = 0.5 * ((t - sinh) + q + (t_low + q_low));
    const smm_parts near = {__builtin_fma(of_cosh, 0.5 * cosh, of_cosh * cosh_low),
                            __builtin_fma(of_sinh, 0.5 * sinh, of_sinh * sinh_low)};
    const smm_parts far = {smm_exp_times(a, of_cosh, 1), smm_exp_times(a, of_sinh, 1)};
    const smm_parts value = {smm_either(a < 22, near.re, far.re), smm_either(a < 22, near.im, far.im)};
    return value;
}

/* sin x cosh y + i cos x sinh y */
SMM_SCALAR smm_parts smm_complex_sin(double x, double y, double sine, double cosine) {
    const double a = smm_magnitude(y);
    const smm_parts p = smm_hyperbolics(a, sine, cosine);
    const bool is_negative = smm_bits_of_f64(y) >> 63;
    const bool turns = !smm_is_finite(x), is_its_own = turns & ((a == 0) | (a == __builtin_inf()));
    const double im = smm_either(is_negative, -p.im, p.im);
    const smm_parts value = {smm_either(x == 0, x, p.re), smm_either(is_its_own, y, im)};
    return value;
}

/* cos x cosh y - i sin x sinh y */
SMM_SCALAR smm_parts smm_complex_cos(double x, double y, double sine, double cosine) {
    const double infinity = __builtin_inf(), a = smm_magnitude(y);
    const smm_parts p = smm_hyperbolics(a, cosine, sine);
    const bool turns = !smm_is_finite(x), vanishes = (x == 0) | (turns & (a == 0));
    const bool is_negative = smm_bits_of_f64(y) >> 63;
    const double re = smm_either(turns & (a == infinity), infinity, p.re);
    const double size = smm_either(vanishes, smm_either(x == 0, x, 0), p.im);
    const smm_parts value = {re, smm_either(is_negative, size, -size)};
    return value;
}

#undef SMM_SCALAR
#endif
