/* functions_f32.h: functions of functions.h for float32, in its own arithmetic, which is faster than double precision,
 * on GPUs much; but sines, cosines and powers in double precision, with polynomials that suffice for float32. The same
 * is true of them: no branches, no tables, and the same bits on every processor. Polynomials are minimax
 * approximations, of coefficients in float32. Errors are at most 1 ulp, of expm1, log1p, tanh, erf, erfc and ndtr at
 * most 2 (tests/functions/test_functions.py).
 */
#ifndef SMM_FUNCTIONS_F32_H
#define SMM_FUNCTIONS_F32_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* A function of the element type T. */
#define SMM_OF_TYPE(name, x) (sizeof(T) == sizeof(float) ? (T)smm_##name##_f32((float)(x)) : (T)smm_##name((double)(x)))
#define SMM_OF_TYPE_2(name, x, y) \
    (sizeof(T) == sizeof(float) ? (T)smm_##name##_f32((float)(x), (float)(y)) : (T)smm_##name((double)(x), (double)(y)))

#define SMM_SCALAR static inline __attribute__((always_inline))

SMM_SCALAR uint32_t smm_bits_of_f32(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
SMM_SCALAR float smm_f32_of_bits(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

SMM_SCALAR float smm_magnitude_f32(float x) { return smm_f32_of_bits(smm_bits_of_f32(x) & 0x7fffffffu); }
SMM_SCALAR float smm_with_sign_f32(float magnitude, float x) {
    return smm_f32_of_bits(smm_bits_of_f32(magnitude) | (smm_bits_of_f32(x) & 0x80000000u));
}

SMM_SCALAR float smm_horner_f32(float p, float x, float a, float b, float c) {
    return __builtin_fmaf(__builtin_fmaf(__builtin_fmaf(p, x, a), x, b), x, c);
}

/* e^(x + low) = 2^k (1 + r q), where q is the result: x = k ln 2 + r, |r| <= ln 2 / 2, where x - k LN2_HIGH is exact.
 * k stands in the last bits of *k; what is above, of ROUND, is lost when k is shifted to an exponent. */
SMM_SCALAR float smm_reduced_exp_f32(float x, float low, uint32_t *k, float *r_high) {
    const float ROUND = 0x1.8p23f, LN2_HIGH = 0x1.62e43p-1f, LN2_LOW = -0x1.05c61p-29f;
    const float sum = __builtin_fmaf(x, 0x1.715476p+0f, ROUND), whole = sum - ROUND;
    const float r = __builtin_fmaf(-whole, LN2_HIGH, x) + __builtin_fmaf(-whole, LN2_LOW, low);
    float q = 0x1.6a4ed2p-10f;
    q = smm_horner_f32(q, r, 0x1.12399cp-7f, 0x1.5558bp-5f, 0x1.555492p-3f);
    q = __builtin_fmaf(q, r, 0x1.fffffcp-2f);
    *k = smm_bits_of_f32(sum);
    *r_high = r;
    return __builtin_fmaf(q, r, 1);
}

/* x 2^k, in two factors, so that subnormal results round once. */
SMM_SCALAR float smm_times_power_f32(float x, uint32_t k) {
    const uint32_t first = k >> 1, second = k - first;
    return x * smm_f32_of_bits((first << 23) + 0x3f800000u) * smm_f32_of_bits((second << 23) + 0x3f800000u);
}

SMM_SCALAR float smm_exp_f32(float x) {
    uint32_t k;
    float r;
    const float q = smm_reduced_exp_f32(x > 89 ? 89 : x < -104 ? -104 : x, 0, &k, &r);
    return smm_times_power_f32(__builtin_fmaf(q, r, 1), k);
}

/* log(1 + f), 2/3 <= 1 + f < 4/3, and k ln 2 */
SMM_SCALAR float smm_log_of_f32(float k, float f) {
    float p = -0x1.07c884p-3f;
    p = smm_horner_f32(p, f, 0x1.1e678cp-3f, -0x1.f332fcp-4f, 0x1.1ed662p-3f);
    p = smm_horner_f32(p, f, -0x1.559c44p-3f, 0x1.99d048p-3f, -0x1.fffefcp-3f);
    p = __builtin_fmaf(p, f, 0x1.555506p-2f);
    p = __builtin_fmaf(p, f, -0.5f);
    return __builtin_fmaf(k, 0x1.62e43p-1f, __builtin_fmaf(p, f * f, f));
}

SMM_SCALAR float smm_special_log_f32(float x, float log) {
    log = x == __builtin_inff() ? x : log;
    log = x == 0 ? -__builtin_inff() : log;
    return x >= 0 ? log : __builtin_nanf("");
}

/* x = 2^k m, 2/3 <= m < 4/3 */
SMM_SCALAR float smm_log_f32(float x) {
    const float scaled = x < 0x1p-126f ? x * 0x1p23f : x, less = x < 0x1p-126f ? -23 : 0;
    const uint32_t bits = smm_bits_of_f32(scaled), exponent = (bits - 0x3f2aaaabu) & 0xff800000u;
    const float k = __builtin_fmaf((float)(int32_t)exponent, 0x1p-23f, less);
    return smm_special_log_f32(x, smm_log_of_f32(k, smm_f32_of_bits(bits - exponent) - 1));
}

/* 1 + x = 2^k (1 + f), f = x 2^-k + (2^-k - 1) */
SMM_SCALAR float smm_log1p_f32(float x) {
    const float u = 1 + x;
    const uint32_t exponent = (smm_bits_of_f32(u) - 0x3f2aaaabu) & 0xff800000u;
    const float scale = 0.25f * smm_f32_of_bits(0x40800000u - exponent), f = __builtin_fmaf(x, scale, scale - 1);
    const float log = smm_log_of_f32((float)(int32_t)exponent * 0x1p-23f, f);
    return x == 0 ? x : smm_special_log_f32(u, log);
}

/* e^x - 1 = (2^k - 1) + 2^k p, in halves, since 2^k may be beyond the largest number. */
SMM_SCALAR float smm_expm1_f32(float x) {
    uint32_t k;
    float r;
    const float p = smm_reduced_exp_f32(x > 89 ? 89 : x < -20 ? -20 : x, 0, &k, &r) * r;
    const float half = smm_f32_of_bits((k << 23) + 0x3f000000u);
    return x == 0 ? x : 2 * __builtin_fmaf(half, p, half - 0.5f);
}

/* 1 / x of a positive x that is neither large nor small, to 1 ulp: by Newton's method from the exponent's negative. On
 * GPUs, which have no instruction for division, it is cheaper. */
SMM_SCALAR float smm_reciprocal_f32(float x) {
    float r = smm_f32_of_bits(0x7ef34000u - smm_bits_of_f32(x));
    r *= __builtin_fmaf(-x, r, 2.0015f);
    r *= __builtin_fmaf(-x, r, 2);
    return r * __builtin_fmaf(-x, r, 2);
}

/* erfc(a), or of the normal distribution erfc(a / sqrt 2) / 2, of 0 <= a, where square + low is a^2, or a^2 / 2.
 *
 * e^(a^2) erfc(a) = (1 + w) / (1 + c a), where w, below 0.2, is a polynomial in q = (a - 2) / (a + 2): as 2 a / (a + 2)
 * - 1, because 1 + w must be exact where a is small. The c of the two functions are each other's to 45 bits. What f = 1
 * / (1 + c a) lacks is added to w. */
SMM_SCALAR float smm_tail_f32(float a, float square, float low, bool is_normal) {
    const float C = is_normal ? 0x1.409e3p+0f : 0x1.c56c16p+0f;
    const float d = __builtin_fmaf(C, a, 1), other = a + (is_normal ? 0x1.6a09e6p+1f : 2), product = d * other;
    const float reciprocal = smm_reciprocal_f32(product);
    const float f = other * reciprocal, q = __builtin_fmaf(2 * a, d * reciprocal, -1);
    const float d_low = __builtin_fmaf(C, a, 1 - d), missing = __builtin_fmaf(-f, d_low, __builtin_fmaf(-f, d, 1));
    float w = -0x1.68a5f8p-12f;
    w = smm_horner_f32(w, q, -0x1.1c3e34p-10f, 0x1.155ddep-10f, 0x1.eeb792p-8f);
    w = smm_horner_f32(w, q, -0x1.9f7408p-8f, -0x1.85bedep-5f, 0x1.170a4ep-3f);
    w = smm_horner_f32(w, q, -0x1.e9030cp-4f, -0x1.0c56e2p-3f, 0x1.47e22ep-3f) + missing;
    uint32_t k;
    float r;
    const float p = smm_reduced_exp_f32(-square, -low, &k, &r) * r, all = __builtin_fmaf(w, p, w) + p;
    return smm_times_power_f32(__builtin_fmaf(f, all, f), k - is_normal);
}

SMM_SCALAR float smm_erfc_f32(float x) {
    const float magnitude = smm_magnitude_f32(x), a = magnitude > 10.1f ? 10.1f : magnitude; /* NaN stays */
    const float square = a * a, tail = smm_tail_f32(a, square, __builtin_fmaf(a, a, -square), false);
    return x < 0 ? 2 - tail : tail;
}

/* The normal distribution function, erfc(-x / sqrt 2) / 2. */
SMM_SCALAR float smm_ndtr_f32(float x) {
    const float magnitude = smm_magnitude_f32(x), a = magnitude > 14.2f ? 14.2f : magnitude, half = 0.5f * a;
    const float square = half * a, tail = smm_tail_f32(a, square, __builtin_fmaf(half, a, -square), true);
    return x > 0 ? 1 - tail : tail;
}

/* x + x P(x^2), or from 0.9375 on, 1 - erfc(a), erfc(a) = e^(-a - a Q(a)) */
SMM_SCALAR float smm_erf_f32(float x) {
    const float magnitude = smm_magnitude_f32(x), a = magnitude > 4 ? 4 : magnitude, s = a * a; /* NaN stays */
    float p = -0x1.36a5aep-11f;
    p = smm_horner_f32(p, s, 0x1.466a12p-8f, -0x1.b6698ep-6f, 0x1.ce1856p-4f);
    p = __builtin_fmaf(p, s, -0x1.8126dcp-2f);
    p = __builtin_fmaf(p, s, 0x1.06eba6p-3f);
    float c = -0x1.bf7844p-13f;
    c = smm_horner_f32(c, a, 0x1.a4b994p-9f, -0x1.76c2fp-6f, 0x1.af0c36p-4f);
    c = __builtin_fmaf(c, a, 0x1.457f6ep-1f);
    c = __builtin_fmaf(c, a, 0x1.072f7ep-3f);
    uint32_t k;
    float r;
    const float q = smm_reduced_exp_f32(-__builtin_fmaf(c, a, a), 0, &k, &r);
    const float power = smm_f32_of_bits((k << 23) + 0x3f800000u), far = 1 - __builtin_fmaf(power, q * r, power);
    return smm_with_sign_f32(a < 0.9375f ? __builtin_fmaf(p, a, a) : far, x);
}

/* Of a = |x|: x + x^3 P(x^2), or from 0.55 on, 1 - 2 / (e^(2a) + 1) */
SMM_SCALAR float smm_tanh_f32(float x) {
    const float magnitude = smm_magnitude_f32(x), a = magnitude > 10 ? 10 : magnitude, s = a * a; /* NaN stays */
    float p = -0x1.9921a2p-8f;
    p = smm_horner_f32(p, s, 0x1.58e518p-6f, -0x1.b91e7ep-5f, 0x1.110ceep-3f);
    p = __builtin_fmaf(p, s, -0x1.55554ap-2f);
    uint32_t k;
    float r;
    const float q = smm_reduced_exp_f32(2 * a, 0, &k, &r), power = smm_f32_of_bits((k << 23) + 0x3f800000u);
    const float far = 1 - 2 * smm_reciprocal_f32(__builtin_fmaf(power, q * r, power + 1));
    return smm_with_sign_f32(a < 0.55f ? __builtin_fmaf(p * s, a, a) : far, x);
}

/* sin(x + quarters pi/2), in double precision, as smm_sine; x - k pi/2 in one number. */
SMM_SCALAR float smm_sine_f32(float x, uint64_t quarters) {
    const double ROUND = 0x1.8p52, sum = __builtin_fma((double)x, 0x1.45f306dc9c883p-1, ROUND), k = sum - ROUND;
    const double r = __builtin_fma(-k, SMM_QUARTER_MIDDLE, __builtin_fma(-k, SMM_QUARTER_HIGH, (double)x)), z = r * r;
    double s = 0x1.6cd856718b0ccp-19;
    s = smm_horner(s, z, -0x1.a00f9d9b86147p-13, 0x1.1111089638574p-7, -0x1.5555554cb9c1ap-3);
    double c = 0x1.9933fef64ffe0p-16;
    c = smm_horner(c, z, -0x1.6c087db9c09a7p-10, 0x1.55553e0e5c509p-5, -0x1.ffffffd0c04aep-2);
    const double sine = __builtin_fma(s * z, r, r), cosine = __builtin_fma(c, z, 1);
    const uint64_t q = smm_bits_of_f64(sum) + quarters;
    return (float)smm_f64_of_bits(smm_bits_of_f64(q & 1 ? cosine : sine) ^ (q & 2) << 62);
}
SMM_SCALAR float smm_sin_f32(float x) { return x == 0 ? x : smm_sine_f32(x, 0); }
SMM_SCALAR float smm_cos_f32(float x) { return smm_sine_f32(x, 1); }

/* As smm_arctan2. */
SMM_SCALAR float smm_arctan2_f32(float y, float x) {
    const uint32_t INFINITE = 0x7f800000u, LARGE = 0x7b800000u, SMALL = 0x17800000u, ONE = 0x3f800000u;
    const uint32_t a = smm_bits_of_f32(x) << 1 >> 1, b = smm_bits_of_f32(y) << 1 >> 1, steep = a < b;
    const uint32_t larger = a < b ? b : a, smaller = a < b ? a : b;
    const float scale = larger > LARGE ? 0x1p-40f : larger < SMALL ? 0x1p60f : 1;
    const uint32_t scaled = smm_bits_of_f32(smm_f32_of_bits(larger) * scale);
    const uint32_t other = smm_bits_of_f32(smm_f32_of_bits(smaller) * scale);
    const uint32_t usual = -(uint32_t)((larger != 0) & (larger != INFINITE));
    const float most = smm_f32_of_bits((scaled & usual) | (ONE & ~usual));
    const float least = smm_f32_of_bits((other & usual) | ((smaller == INFINITE ? ONE : 0) & ~usual));
    const float TAN_EIGHTH = 0x1.a8279ap-2f;
    const uint32_t beyond = (smm_bits_of_f32(TAN_EIGHTH * most) - smm_bits_of_f32(least)) >> 31;
    const float near = (float)(int32_t)beyond, less = near * most, more = near * least;
    const float n = least - less, n_low = least - (n + less), d = most + more, d_low = more - (d - most);
    const float q = n / d, q_low = (__builtin_fmaf(-q, d, n) + (n_low - q * d_low)) / d, z = q * q;
    float p = 0x1.f31d54p-5f;
    p = smm_horner_f32(p, z, -0x1.b22ecap-4f, 0x1.23ba42p-3f, -0x1.9991e8p-3f);
    p = __builtin_fmaf(p, z, 0x1.55554ap-2f);
    const float rest = q_low * (1 - z) - q * (z * p);
    const uint32_t left = smm_bits_of_f32(x) >> 31, turned = beyond + 2 * steep * (1 - beyond);
    const float eighths = (float)(int32_t)(turned + left * (4 - 2 * turned));
    const float sign = smm_f32_of_bits(ONE | (left ^ steep) << 31);
    const float HIGH = 0x1.921fb6p-1f, MIDDLE = -0x1.777a5cp-26f;
    const float base = eighths * HIGH, base_low = __builtin_fmaf(eighths, HIGH, -base) + eighths * MIDDLE;
    const float sum = base + sign * q, sum_low = (base - sum) + sign * q;
    const float angle = sum + (sum_low + (sign * rest + base_low));
    return smm_f32_of_bits(smm_bits_of_f32(angle) | (smm_bits_of_f32(y) & 0x80000000u));
}

/* log2(2^k m), sqrt(1/2) <= m < sqrt(2), with an error of 2^-37 of it: as smm_log2_of, but in one number. */
SMM_SCALAR double smm_log2_of_f32(float m, int32_t k) {
    const double x = (double)m, s = (x - 1) / (x + 1), z = s * s, z2 = z * z;
    const double p0 = __builtin_fma(0x1.ec709d124ea49p-1, z, 0x1.71547652bee6fp+1);
    const double p2 = __builtin_fma(0x1.a58d663d0fe24p-2, z, 0x1.2777803bf0c06p-1);
    const double p = __builtin_fma(__builtin_fma(0x1.5cea905df9082p-2, z2, p2), z2, p0);
    return __builtin_fma(p, s, (double)k);
}

/* 2^x, |x| <= 1000, with an error of 2^-34 of it. */
SMM_SCALAR double smm_exp2_f32(double x) {
    const double ROUND = 0x1.8p52 + 1023, sum = x + ROUND, r = x - (sum - ROUND), r2 = r * r;
    const double q0 = __builtin_fma(0x1.62e42ff0e1ab2p-1, r, 1);
    const double q2 = __builtin_fma(0x1.c6b08ac040d32p-5, r, 0x1.ebfbe0778cf5dp-3);
    const double q4 = __builtin_fma(0x1.5d8a862047e15p-10, r, 0x1.3b29f397f0eeep-7);
    const double q6 = __builtin_fma(0x1.fde5e311e3704p-17, r, 0x1.445c88669a050p-13);
    const double q = __builtin_fma(__builtin_fma(__builtin_fma(q6, r2, q4), r2, q2), r2, q0);
    return q * smm_f64_of_bits(smm_bits_of_f64(sum) << 52);
}

/* x = 2^k m, sqrt(1/2) <= m < sqrt(2), of a positive normal x. */
SMM_SCALAR float smm_split_normal_f32(float x, int32_t *k) {
    const uint32_t SQRT_HALF = 0x3f3504f3u, ONE = 0x3f800000u, shifted = smm_bits_of_f32(x) + (ONE - SQRT_HALF);
    *k = (int32_t)(shifted >> 23) - 127;
    return smm_f32_of_bits((shifted & 0x7fffffu) + SQRT_HALF);
}

/* x^y in double precision, so that it is rounded about once, and in steps as smm_power. */
SMM_SCALAR float smm_power_f32(float x, float y) {
    const float size = smm_magnitude_f32(x), scaled = size < 0x1p-126f ? size * 0x1p24f : size;
    int32_t k;
    const float m = smm_split_normal_f32(scaled, &k);
    const double oddness = smm_oddness((double)y);
    const double usual = smm_log2_of_f32(m, k - (size < 0x1p-126f ? 24 : 0));
    const double product = (double)y * smm_special_log2((double)x, oddness, usual);
    return (float)smm_special_power((double)x, (double)y, oddness, product, 1000, smm_exp2_f32(product));
}

SMM_SCALAR bool smm_is_usual_power_f32(float x, float y, double log) {
    const bool is_normal = smm_bits_of_f32(x) - 0x00800000u < 0x7f000000u;
    const bool is_mild = smm_magnitude((double)y * log) <= 1000;
    return is_normal & is_mild;
}
SMM_SCALAR double smm_usual_log2_f32(float x) {
    int32_t k;
    const float m = smm_split_normal_f32(x, &k);
    return smm_log2_of_f32(m, k);
}
SMM_SCALAR float smm_usual_power_f32(float y, double log) { return (float)smm_exp2_f32((double)y * log); }

#undef SMM_SCALAR
#endif
