/* functions.h: exp, log, sin, cos, arctan2, tanh, erf, the normal distribution and powers in double precision, for the
 * rows of functions.def. Plain C without branches or tables in memory (but for smm_far_sine), so that compilers make
 * vectors of loops, and of operations that IEEE 754 defines, in a fixed order, so that the bits are the same on every
 * processor.
 * Errors are at most 1 ulp, of expm1, erf, erfc and smm_ndtr at most 2 (tests/functions/test_functions.py).
 *
 * The coefficients of smm_log_of, smm_sine_of and smm_arctan2 are those of fdlibm (e_log.c, k_sin.c, k_cos.c,
 * s_atan.c), which asks for this notice to be preserved:
 *
 * ====================================================
 * Copyright (C) 1993 by Sun Microsystems, Inc. All rights reserved.
 *
 * Developed at SunSoft, a Sun Microsystems, Inc. business.
 * Permission to use, copy, modify, and distribute this
 * software is freely granted, provided that this notice
 * is preserved.
 * ====================================================
 */
#ifndef SMM_FUNCTIONS_H
#define SMM_FUNCTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define SMM_SCALAR static inline __attribute__((always_inline))

SMM_SCALAR uint64_t smm_bits_of_f64(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
SMM_SCALAR double smm_f64_of_bits(uint64_t bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

SMM_SCALAR double smm_magnitude(double x) { return smm_f64_of_bits(smm_bits_of_f64(x) << 1 >> 1); }
SMM_SCALAR double smm_with_sign(double magnitude, double x) {
    return smm_f64_of_bits(smm_bits_of_f64(magnitude) | (smm_bits_of_f64(x) & (uint64_t)1 << 63));
}

/* Three steps of Horner's scheme: p x^3 + a x^2 + b x + c. */
SMM_SCALAR double smm_horner(double p, double x, double a, double b, double c) {
    return __builtin_fma(__builtin_fma(__builtin_fma(p, x, a), x, b), x, c);
}

/* e^(x + low) = 2^k (1 + r + the result), where low is too small to change x by more than some of its last bits.
 *
 * x = k ln 2 + r, |r| <= ln 2 / 2, where k LN2_HIGH is exact; e^r - 1 by its Taylor series. Adding and subtracting
 * ROUND rounds to an integer, which stands in the last bits of the sum. */
SMM_SCALAR double smm_reduced_exp(double x, double low, uint64_t *k, double *r_high) {
    const double ROUND = 0x1.8p52, LN2_HIGH = 0x1.62e42fefap-1, LN2_LOW = 0x1.cf79abc9e3b39p-40;
    const double sum = __builtin_fma(x, 0x1.71547652b82fep+0, ROUND), whole = sum - ROUND;
    const double most = __builtin_fma(-whole, LN2_HIGH, x), least = __builtin_fma(-whole, LN2_LOW, low);
    const double r = most + least, r_low = (most - r) + least;
    double p = 1.0 / 6227020800;
    p = smm_horner(p, r, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800);
    p = smm_horner(p, r, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040);
    p = smm_horner(p, r, 1.0 / 720, 1.0 / 120, 1.0 / 24);
    p = __builtin_fma(p, r, 1.0 / 6);
    p = __builtin_fma(p, r, 0.5);
    *k = smm_bits_of_f64(sum) - smm_bits_of_f64(ROUND);
    *r_high = r;
    return __builtin_fma(p * r, r, r_low);
}

/* x 2^k, in two factors, so that subnormal results round once. */
SMM_SCALAR double smm_times_power(double x, uint64_t k) {
    const uint64_t both = k + 2046, first = both >> 1;
    return x * smm_f64_of_bits(first << 52) * smm_f64_of_bits((both - first) << 52);
}

SMM_SCALAR double smm_exp_of(double x, double low) {
    uint64_t k;
    double r;
    const double p = smm_reduced_exp(x > 720 ? 720 : x < -760 ? -760 : x, low, &k, &r) + r + 1;
    return smm_times_power(p, k);
}

SMM_SCALAR double smm_exp(double x) { return smm_exp_of(x, 0); }

/* e^x - 1 = (2^k - 1) + 2^k r + 2^k p in two numbers, in halves, since 2^k may be beyond the largest number. */
SMM_SCALAR double smm_expm1_of(double x, double *low) {
    uint64_t k;
    double r;
    const double p = smm_reduced_exp(x > 710 ? 710 : x < -100 ? -100 : x, 0, &k, &r);
    const double half = smm_f64_of_bits((k + 1022) << 52), most = half - 0.5, part = half * r;
    const double sum = most + part, rest = __builtin_fma(half, p, part - (sum - most));
    const double high = sum + rest;
    *low = 2 * (rest - (high - sum));
    return smm_magnitude(x) < 0x1p-54 ? x : 2 * high; /* of a ternary for |x|, too, compilers make a branch */
}

SMM_SCALAR double smm_expm1(double x) {
    double low;
    return smm_expm1_of(x, &low);
}

/* Of a = |x|: -t / (t + 2), t = e^(-2a) - 1, or from 1 on, where that cancels, 1 - 2 / (t + 2), t = e^(2a) - 1. */
SMM_SCALAR double smm_tanh(double x) {
    const double a = x < 0 ? -x : x, inside = a > 22 ? 22 : a; /* beyond, it is 1; NaN stays */
    double low;
    const double t = smm_expm1_of(a < 1 ? -2 * inside : 2 * inside, &low), d = t + 2, d_low = t - (d - 2) + low;
    const double ratio = -t / d, missing = __builtin_fma(-ratio, d, -t) - (low + ratio * d_low);
    const double z = a < 1 ? ratio + missing / d : 1 - 2 / d;
    return a < 0x1p-28 ? x : x < 0 ? -z : z;
}

/* x = 2^k m, sqrt(1/2) <= m < sqrt(2), of a positive normal x. */
SMM_SCALAR double smm_split_normal(double x, double *k) {
    const uint64_t SQRT_HALF = 0x3fe6a09e00000000u, ONE = 0x3ff0000000000000u;
    const uint64_t shifted = smm_bits_of_f64(x) + (ONE - SQRT_HALF);
    *k = smm_f64_of_bits((shifted >> 52) | 0x4330000000000000u) - (0x1p52 + 1023);
    return smm_f64_of_bits((shifted & 0xfffffffffffffu) + SQRT_HALF);
}

/* The same of any positive x. */
SMM_SCALAR double smm_split(double x, double *k) {
    const double scaled = x < 0x1p-1022 ? x * 0x1p54 : x, less = x < 0x1p-1022 ? 54 : 0;
    const double m = smm_split_normal(scaled, k);
    *k -= less;
    return m;
}

SMM_SCALAR double smm_special_log(double x, double log) {
    const double infinity = __builtin_inf();
    log = x == infinity ? infinity : log;
    log = x == 0 ? -infinity : log;
    return x >= 0 ? log : x < 0 ? __builtin_nan("") : x + x;
}

/* k ln 2 + log(1 + f) + low; as fdlibm: log(1 + f) = f - (f^2/2 - s (f^2/2 + R(s^2))), s = f/(2 + f). */
SMM_SCALAR double smm_log_of(double k, double f, double low) {
    const double s = f / (2 + f), z = s * s, half = 0.5 * f * f;
    double r = 1.479819860511658591e-01;
    r = smm_horner(r, z, 1.531383769920937332e-01, 1.818357216161805012e-01, 2.222219843214978396e-01);
    r = smm_horner(r, z, 2.857142874366239149e-01, 3.999999999940941908e-01, 6.666666666666735130e-01) * z;
    const double small = s * (half + r) + (k * 1.90821492927058770002e-10 + low);
    return k * 6.93147180369123816490e-01 - ((half - small) - f);
}

SMM_SCALAR double smm_log(double x) {
    double k;
    const double m = smm_split(x, &k);
    return smm_special_log(x, smm_log_of(k, m - 1, 0));
}

/* log u + c/u, where u + c = 1 + x exactly. */
SMM_SCALAR double smm_log1p(double x) {
    const double u = 1 + x, c = x < 1 ? x - (u - 1) : 1 - (u - x);
    double k;
    const double m = smm_split(u, &k);
    const double log = smm_special_log(u, smm_log_of(k, k == 0 ? x : m - 1, k == 0 ? 0 : c / u));
    return x == 0 ? x : log;
}

/* sin(r + low) of the angle (r + low) + q pi/2, |r| <= pi/4, low a rounding error of r: by the polynomial of fdlibm's
 * sine, or of its cosine where q is odd. */
SMM_SCALAR double smm_sine_of(double r, double low, uint64_t q) {
    const double z = r * r, half = 0.5 * z, most = 1 - half;
    double s = 1.58969099521155010221e-10;
    s = smm_horner(s, z, -2.50507602534068634195e-08, 2.75573137070700676789e-06, -1.98412698298579493134e-04);
    s = __builtin_fma(s, z, 8.33333333332248946124e-03);
    s = __builtin_fma(s, z, -1.66666666666666324348e-01);
    double c = -1.13596475577881948265e-11;
    c = smm_horner(c, z, 2.08757232129817482790e-09, -2.75573143513906633035e-07, 2.48015872894767294178e-05);
    c = __builtin_fma(c, z, -1.38888888888741095749e-03);
    c = __builtin_fma(c, z, 4.16666666666666019037e-02);
    const double sine = r + (__builtin_fma(z * r, s, low) - half * low);
    const double cosine = most + (((1 - most) - half) + (z * z * c - r * low));
    return smm_f64_of_bits(smm_bits_of_f64(q & 1 ? cosine : sine) ^ (q & 2) << 62);
}

/* An angle too large for smm_sine, which knows pi/2 to three numbers. */
SMM_SCALAR bool smm_is_far(double x) {
    const double a = x < 0 ? -x : x;
    return a > 0x1p40 && a < __builtin_inf();
}

/* pi/2 */
static const double SMM_QUARTER_HIGH = 0x1.921fb54442d18p+0, SMM_QUARTER_MIDDLE = 0x1.1a62633145c07p-54,
                    SMM_QUARTER_LOW = -0x1.f1976b7ed8fbcp-110;

/* sin(x + quarters pi/2): x - k pi/2 in two numbers, where x - k HIGH is exact (Cody and Waite). */
SMM_SCALAR double smm_sine(double x, uint64_t quarters) {
    const double ROUND = 0x1.8p52, HIGH = SMM_QUARTER_HIGH, MIDDLE = SMM_QUARTER_MIDDLE, LOW = SMM_QUARTER_LOW;
    const double sum = __builtin_fma(x, 0x1.45f306dc9c883p-1, ROUND), k = sum - ROUND;
    const double most = __builtin_fma(-k, HIGH, x), part = k * MIDDLE, rest = most - part;
    const double rest_low =
        ((most - rest) - part) - (__builtin_fma(k, MIDDLE, -part) + k * LOW); /* may be as large as the rest */
    const double r = rest + rest_low, low = (rest - r) + rest_low;
    return smm_sine_of(r, low, smm_bits_of_f64(sum) + quarters);
}

/* The same of a far angle: x = m 2^e times the bits of 2/pi of which the product has its last two bits before the
 * point and the first 190 after it (Payne and Hanek). */
static inline double smm_far_sine(double x, uint64_t quarters) {
    static const uint64_t TWO_OVER_PI[] = {
        0,
        0xa2f9836e4e441529,
        0xfc2757d1f534ddc0,
        0xdb6295993c439041,
        0xfe5163abdebbc561,
        0xb7246e3a424dd2e0,
        0x06492eea09d1921c,
        0xfe1deb1cb129a73e,
        0xe88235f52ebb4484,
        0xe99c7026b45f7e41,
        0x3991d639835339f4,
        0x9c845f8bbdf9283b,
        0x1ff897ffde05980f,
        0xef2f118b5a0a6d1f,
        0x6d367ecf27cb09b7,
        0x4f463f669e5fea2d,
        0x7527bac7ebe5f17b,
        0x3d0739f78a5292ea,
        0x6bfb5fb11f8d5d08,
        0x56033046fc7b6bab,
    };
    const uint64_t bits = smm_bits_of_f64(x), m = (bits & 0xfffffffffffffu) | 0x10000000000000u;
    const uint64_t first = (bits >> 52 & 0x7ff) - 1075 + 62, shift = first % 64;
    const uint64_t *const from = TWO_OVER_PI + first / 64;
    uint64_t window[3];
    for (int i = 0; i < 3; i++) window[i] = from[i] << shift | (shift ? from[i + 1] >> (64 - shift) : 0);
    typedef unsigned __int128 pair;
    const pair upper = (pair)m * window[1] + ((pair)m * window[2] >> 64);
    const pair product = upper + ((pair)(m * window[0]) << 64); /* of 192 bits, the first 128 */
    const uint64_t q = (uint64_t)((product + ((pair)1 << 125)) >> 126);
    const __int128 fraction = (__int128)(product << 2) >> 2; /* of a quarter, -1/2 .. 1/2, in units of 2^-126 */
    const double high = (double)fraction, low = (double)(fraction - (__int128)high) * 0x1p-126;
    const double HIGH = SMM_QUARTER_HIGH, MIDDLE = SMM_QUARTER_MIDDLE;
    const double t = high * 0x1p-126, r = t * HIGH, r_low = __builtin_fma(t, HIGH, -r) + (t * MIDDLE + low * HIGH);
    return x < 0 ? smm_sine_of(-r, -r_low, quarters - q) : smm_sine_of(r, r_low, quarters + q);
}

/* Of -0 the sine is -0. */
SMM_SCALAR double smm_sin(double x) { return x == 0 ? x : smm_sine(x, 0); }
SMM_SCALAR double smm_cos(double x) { return smm_sine(x, 1); }

/* The angle of the point (x, y): that of the smaller coordinate by the larger, q, by fdlibm's polynomial of the
 * arctangent; beyond tan(pi/8) of that angle less pi/4. Then eighths of a turn are added in two numbers. Magnitudes are
 * compared as integers, and selected by their bits: compilers make branches of what else could be said. */
SMM_SCALAR double smm_arctan2(double y, double x) {
    const uint64_t INFINITE = 0x7ff0000000000000u, LARGE = 0x7e70000000000000u, SMALL = 0x0df0000000000000u;
    const uint64_t a = smm_bits_of_f64(x) << 1 >> 1, b = smm_bits_of_f64(y) << 1 >> 1, steep = a < b;
    const uint64_t larger = a < b ? b : a, smaller = a < b ? a : b;
    const double scale = larger > LARGE ? 0x1p-200 : larger < SMALL ? 0x1p200 : 1;
    const uint64_t scaled = smm_bits_of_f64(smm_f64_of_bits(larger) * scale);
    const uint64_t other = smm_bits_of_f64(smm_f64_of_bits(smaller) * scale);
    const uint64_t usual = -(uint64_t)((larger != 0) & (larger != INFINITE)), ONE = smm_bits_of_f64(1);
    const double most = smm_f64_of_bits((scaled & usual) | (ONE & ~usual));
    const double least = smm_f64_of_bits((other & usual) | ((smaller == INFINITE ? ONE : 0) & ~usual));
    const double TAN_EIGHTH = 0x1.a827999fcef32p-2;
    const uint64_t beyond = (smm_bits_of_f64(TAN_EIGHTH * most) - smm_bits_of_f64(least)) >> 63;
    const double near = (double)(int32_t)beyond, less = near * most, more = near * least;
    const double n = least - less, n_low = least - (n + less), d = most + more, d_low = more - (d - most);
    const double q = n / d, q_low = (__builtin_fma(-q, d, n) + (n_low - q * d_low)) / d, z = q * q;
    double p = 1.62858201153657823623e-02;
    p = smm_horner(p, z, -3.65315727442169155270e-02, 4.97687799461593236017e-02, -5.83357013379057348645e-02);
    p = smm_horner(p, z, 6.66107313738753120669e-02, -7.69187620504482999495e-02, 9.09088713343650656196e-02);
    p = smm_horner(p, z, -1.11111104054623557880e-01, 1.42857142725034663711e-01, -1.99999999998764832476e-01);
    p = __builtin_fma(p, z, 3.33333333333329318027e-01);
    const double rest = q_low * (1 - z) - q * (z * p);
    const uint64_t left = smm_bits_of_f64(x) >> 63, turned = beyond + 2 * steep * (1 - beyond);
    const double eighths = (double)(int32_t)(turned + left * (4 - 2 * turned));
    const double sign = smm_f64_of_bits(ONE | (left ^ steep) << 63);
    const double HIGH = 0.5 * SMM_QUARTER_HIGH, MIDDLE = 0.5 * SMM_QUARTER_MIDDLE;
    const double base = eighths * HIGH, base_low = __builtin_fma(eighths, HIGH, -base) + eighths * MIDDLE;
    const double sum = base + sign * q, sum_low = (base - sum) + sign * q;
    const double angle = sum + (sum_low + (sign * rest + base_low));
    return smm_f64_of_bits(smm_bits_of_f64(angle) | (smm_bits_of_f64(y) & (uint64_t)1 << 63));
}

/* log2(2^k m), sqrt(1/2) <= m < sqrt(2), in two numbers, the smaller of which is *low, with an error of 2^-63 of it.
 *
 * log2 m = C atanh s = C (s + s^3/3 + s^5/5 + ...), C = 2 / ln 2, s = (m - 1) / (m + 1). What s lacks, s_low, counts by
 * the derivative C / (1 - s^2). The terms from s^5 on are s z^2 p(z), z = s^2, a minimax approximation. */
SMM_SCALAR double smm_log2_of(double m, double k, double *low) {
    const double C = 0x1.71547652b82fep+1, C_LOW = 0x1.777d0ffda0d24p-55;
    const double THIRD = 0x1.ec709dc3a03fdp-1, THIRD_LOW = 0x1.d27f05548af0cp-55; /* of C */
    const double f = m - 1, d = m + 1, d_low = m - (d - 1), reciprocal = 1 / d, s = f * reciprocal;
    const double s_low = __builtin_fma(-s, d_low, __builtin_fma(-s, d, f)) * reciprocal;
    const double z = s * s, z_low = __builtin_fma(s, s, -z), z2 = z * z;
    const double p1 = __builtin_fma(0x1.484b14219277bp-2, z, 0x1.a61762a759899p-2);
    const double p3 = __builtin_fma(0x1.c69f8ac84e189p-3, z, 0x1.0c9a63d9c2937p-2);
    const double p5 = __builtin_fma(0x1.85e7b53c67bb0p-3, z, 0x1.87b0e4a1b276dp-3);
    const double p = __builtin_fma(__builtin_fma(__builtin_fma(p5, z2, p3), z2, p1), z, 0x1.2776c50ef9d24p-1);
    /* a = C z/3 + z^2 p, b = s a, h = C s */
    const double of_z = __builtin_fma(z, 0x1.2776cp+0, THIRD); /* the derivative of a */
    const double a = z * THIRD, a_most = __builtin_fma(z_low, of_z, __builtin_fma(z, THIRD, -a));
    const double a_low = __builtin_fma(__builtin_fma(p, z, THIRD_LOW), z, a_most);
    const double b = s * a, b_low = __builtin_fma(s, a_low, __builtin_fma(s, a, -b));
    const double h = s * C, of_s = __builtin_fma(__builtin_fma(z, C, C), z, C);
    const double h_low = __builtin_fma(s_low, of_s, __builtin_fma(s, C_LOW, __builtin_fma(s, C, -h)));
    const double first = k + h, first_low = h - (first - k), most = first + b, most_low = b - (most - first);
    const double rest = (first_low + most_low) + (h_low + b_low), log = most + rest;
    *low = rest - (log - most);
    return log;
}

/* 2^(x + low) = 2^k times the result, which is about 1, for |x| <= 1100, where low is at most half a unit of x. k +
 * 2046 stands in the last bits of *biased. */
SMM_SCALAR double smm_exp2_of(double x, double low, uint64_t *biased) {
    const double ROUND = 0x1.8p52 + 2046, LN2 = 0x1.62e42fefa39efp-1, LN2_LOW = 0x1.abc9e3b39803fp-56;
    const double sum = x + ROUND, near = x - (sum - ROUND);
    const double r = near + low, r_low = low - (r - near), r2 = r * r, r4 = r2 * r2;
    const double q0 = __builtin_fma(0x1.c6b08d704a046p-5, r, 0x1.ebfbdff82c5a1p-3);
    const double q2 = __builtin_fma(0x1.5d87fe78c3633p-10, r, 0x1.3b2ab6fba07a2p-7);
    const double q4 = __builtin_fma(0x1.ffcbfbc81a4dap-17, r, 0x1.4309130dc2d82p-13);
    const double q6 = __builtin_fma(0x1.b5265234fd4f3p-24, r, 0x1.62bfc9fad892ap-20);
    const double q8 = __builtin_fma(0x1.e7c7cc79de3b4p-32, r, 0x1.e617accf54466p-28);
    const double q = __builtin_fma(__builtin_fma(q8, r4, __builtin_fma(q6, r2, q4)), r4, __builtin_fma(q2, r2, q0));
    *biased = smm_bits_of_f64(sum);
    const double most = __builtin_fma(r, LN2, 1), most_low = __builtin_fma(r, LN2, 1 - most);
    return most + (most_low + __builtin_fma(r2, q, __builtin_fma(r, LN2_LOW, r_low * LN2)));
}

/* y (log + log_low) */
SMM_SCALAR double smm_times_log(double y, double log, double log_low, double *low) {
    const double product = y * log;
    *low = __builtin_fma(y, log_low, __builtin_fma(y, log, -product));
    return product;
}

/* 1 of an odd y, 0 of an even one, as all are from 2^53 on, else a number between. */
SMM_SCALAR double smm_oddness(double y) {
    const double size = smm_magnitude(y), inside = size > 0x1p53 ? 0x1p53 : size;
    return smm_magnitude(inside - ((inside + 0x1p53) - 0x1p53));
}

/* log2 |x| of an x that may be special, given that of others. */
SMM_SCALAR double smm_special_log2(double x, double oddness, double log) {
    const double size = smm_magnitude(x), infinity = __builtin_inf();
    const double of_negative = oddness * oddness == oddness ? log : __builtin_nan(""); /* y is whole, or is not */
    log = x < 0 ? of_negative : log;
    log = size == 0 ? -infinity : log;
    return size < infinity ? log : size;
}

/* x^y, given 2^product, which means nothing where |product| is above `most`: there the result is 0 or infinite. */
SMM_SCALAR double smm_special_power(double x, double y, double oddness, double product, double most, double power) {
    const double infinity = __builtin_inf();
    const uint64_t sign = oddness == 1 ? smm_bits_of_f64(x) & (uint64_t)1 << 63 : 0;
    power = smm_magnitude(product) > most ? (product < 0 ? 0 : infinity) : power;
    power = smm_f64_of_bits(smm_bits_of_f64(power) | sign);
    const bool is_infinite = smm_magnitude(y) == infinity;
    return (y == 0) | (x == 1) | ((x == -1) & is_infinite) ? 1 : power;
}

/* x^y = 2^(y log2 |x|) and its sign. */
SMM_SCALAR double smm_power(double x, double y) {
    double k, low;
    const double m = smm_split(smm_magnitude(x), &k), oddness = smm_oddness(y);
    const double usual = smm_log2_of(m, k, &low), log = smm_special_log2(x, oddness, usual);
    const double product = smm_times_log(y, log, low, &low);
    uint64_t both;
    const double power = smm_exp2_of(product, low, &both);
    const uint64_t first = both >> 1; /* two factors, so that subnormal results round once */
    const double scaled = power * smm_f64_of_bits(first << 52) * smm_f64_of_bits((both - first) << 52);
    return smm_special_power(x, y, oddness, product, 1100, scaled);
}

/* The same in two steps, for loops that are faster for it; of a positive x, if it is a normal number and |y log2 x| at
 * most 1000. Whether it is, smm_is_usual_power says, else the results mean nothing. */
SMM_SCALAR bool smm_is_usual_power(double x, double y, double log) {
    const bool is_normal = smm_bits_of_f64(x) - 0x0010000000000000u < 0x7fe0000000000000u;
    const bool is_mild = smm_magnitude(y * log) <= 1000;
    return is_normal & is_mild;
}
SMM_SCALAR double smm_usual_log2(double x, double *low) {
    double k;
    const double m = smm_split_normal(x, &k);
    return smm_log2_of(m, k, low);
}
SMM_SCALAR double smm_usual_power(double y, double log, double log_low) {
    double low;
    uint64_t biased;
    const double product = smm_times_log(y, log, log_low, &low), power = smm_exp2_of(product, low, &biased);
    return smm_f64_of_bits(smm_bits_of_f64(power) + ((biased - 2046) << 52));
}

/* erfc(a), or of the normal distribution erfc(a / sqrt 2) / 2, of 0 <= a, where square + low is a^2, or a^2 / 2.
 *
 * e^(a^2) erfc(a) = (1 + w) / (1 + c a), where w, below 0.2, is a polynomial in q = (a - 3.5) / (a + 3.5) (as Shepherd
 * and Laframboise, 1981): as 2 a / (a + 3.5) - 1, because 1 + w must be exact where a is small. The c of the two
 * functions are each other's to 70 bits. Both denominators have one reciprocal; what f = 1 / (1 + c a) lacks is added
 * to w. */
SMM_SCALAR double smm_tail(double a, double square, double low, bool is_normal) {
    const double C = is_normal ? 0x1.40d931ff9f16cp+0 : 0x1.c5bf891ba4bc5p+0;
    const double d = __builtin_fma(C, a, 1), other = a + (is_normal ? 0x1.3cc8a99af5453p+2 : 3.5);
    const double reciprocal = 1 / (d * other), f = other * reciprocal;
    const double d_low = __builtin_fma(C, a, 1 - d), missing = __builtin_fma(-f, d_low, __builtin_fma(-f, d, 1));
    const double q = __builtin_fma(2 * a, d * reciprocal, -1);
    double w = -0x1.ab140750374e8p-32;
    w = smm_horner(w, q, 0x1.86a09c15fe833p-30, 0x1.68432fe3a36c8p-27, -0x1.0b2ac15ab357cp-28);
    w = smm_horner(w, q, -0x1.66eff0638c7ecp-24, -0x1.bdc36dcefce26p-29, 0x1.1ad1256112583p-21);
    w = smm_horner(w, q, -0x1.8b83d4c9ab7e6p-26, -0x1.c034e40d3dc41p-19, 0x1.fc42bd8263e0fp-20);
    w = smm_horner(w, q, 0x1.659ec4af470fcp-16, -0x1.31527f139d542p-15, -0x1.c5e7ba553442cp-14);
    w = smm_horner(w, q, 0x1.ff93242389d4fp-12, -0x1.ecee7cace2104p-13, -0x1.e5a09c79d888ep-9);
    w = smm_horner(w, q, 0x1.0d69d46a4c252p-6, -0x1.52a21278f755bp-5, 0x1.2a3410cc6c170p-4);
    w = smm_horner(w, q, -0x1.75c4d2dd50bd6p-4, 0x1.16ce8ad6d2b06p-4, 0x1.194d56cafa82cp-6);
    w = __builtin_fma(w, q, -0x1.4184396032d4ep-3);
    w = __builtin_fma(w, q, 0x1.e6142decbda41p-4) + missing;
    uint64_t k;
    double r;
    const double rest = smm_reduced_exp(-square, -low, &k, &r), p = rest + r, all = __builtin_fma(w, p, w) + p;
    return smm_times_power(__builtin_fma(f, all, f), k - is_normal);
}

SMM_SCALAR double smm_erfc(double x) {
    const double magnitude = smm_magnitude(x), a = magnitude > 28 ? 28 : magnitude; /* NaN stays */
    const double square = a * a, tail = smm_tail(a, square, __builtin_fma(a, a, -square), false);
    return x < 0 ? 2 - tail : tail;
}

/* The normal distribution function, erfc(-x / sqrt 2) / 2. */
SMM_SCALAR double smm_ndtr(double x) {
    const double magnitude = smm_magnitude(x), a = magnitude > 39 ? 39 : magnitude, half = 0.5 * a;
    const double square = half * a, tail = smm_tail(a, square, __builtin_fma(half, a, -square), true);
    return x > 0 ? 1 - tail : tail;
}

/* x + x P(x^2), or from 0.5 on, 1 - erfc(a) */
SMM_SCALAR double smm_erf(double x) {
    const double magnitude = smm_magnitude(x), a = magnitude > 6 ? 6 : magnitude, s = a * a; /* NaN stays */
    double p = -0x1.39fdacc73f1fbp-23;
    p = smm_horner(p, s, 0x1.b77698ecaedf0p-20, -0x1.f4bba46a9101ap-17, 0x1.f9a2a68b90f36p-14);
    p = smm_horner(p, s, -0x1.c02db23dfea05p-11, 0x1.565bcd0aa841bp-8, -0x1.b82ce3127f7a0p-6);
    p = smm_horner(p, s, 0x1.ce2f21a042b29p-4, -0x1.812746b0379e6p-2, 0x1.06eba8214db69p-3);
    const double far = 1 - smm_tail(a, s, __builtin_fma(a, a, -s), false);
    return smm_with_sign(a < 0.5 ? __builtin_fma(p, a, a) : far, x);
}

/* The exponent e of x = m 2^e, 0.5 <= |m| < 1; 0 of what has none. */
SMM_SCALAR double smm_exponent(double x) {
    const double a = x < 0 ? -x : x, scaled = a < 0x1p-1022 ? a * 0x1p54 : a, less = a < 0x1p-1022 ? 54 : 0;
    const double e = smm_f64_of_bits((smm_bits_of_f64(scaled) >> 52) | 0x4330000000000000u) - (0x1p52 + 1022) - less;
    return a > 0 && a < __builtin_inf() ? e : 0;
}

/* x 2^y, of a whole y for which 2^y is a normal number. */
SMM_SCALAR double smm_scaled(double x, double y) {
    return x * smm_f64_of_bits(smm_bits_of_f64(y + (0x1p52 + 1023)) << 52);
}

#undef SMM_SCALAR
#endif
