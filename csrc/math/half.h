/* half.h: float16 and bfloat16 to float32, which is exact, and back, rounded to nearest, ties to even. In integers, so
 * that neither the rounding mode nor a flush of subnormal numbers matters. A NaN keeps its sign and its first digits,
 * and is quiet when it is stored: bits are those of F16C, AVX-512 and NEON. */
#ifndef SMM_HALF_H
#define SMM_HALF_H

#include <stdint.h>
#include <string.h>

static inline float smm_of_bits(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint32_t smm_bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* 5 bits of exponent, 10 of fraction: exponents differ by 112. */
static inline float smm_f16_to_f32(uint16_t x) {
    const uint32_t sign = (x & 0x8000u) << 16, size = x & 0x7fffu, shifted = size << 13;
    const uint32_t subnormal = smm_bits_of((float)(int32_t)size * 0x1p-24f);
    const uint32_t normal = shifted + (112u << 23), special = shifted | 0xffu << 23 | (size > 0x7c00 ? 1u << 22 : 0);
    return smm_of_bits(sign | (size < 0x400 ? subnormal : size < 0x7c00 ? normal : special));
}

static inline uint16_t smm_f32_to_f16(float x) {
    const uint32_t bits = smm_bits_of(x), sign = bits >> 16 & 0x8000u, size = bits & 0x7fffffffu;
    const uint32_t normal = (size - (112u << 23) + 0xfff + (size >> 13 & 1)) >> 13; /* may become infinity */
    /* Below 2^-14: the fraction in units of 2^-24, with a bit more, which is 1 if what is cut off is not 0. */
    const uint32_t exponent = size >> 23, fraction = (size & 0x7fffffu) | 0x800000u;
    const uint32_t shift = exponent < 101 ? 25 : exponent > 113 ? 13 : 126 - exponent;
    const uint32_t cut = fraction >> shift, rest = fraction & ((1u << shift) - 1), half = 1u << (shift - 1);
    const uint32_t subnormal = cut + (rest > half || (rest == half && (cut & 1)));
    const uint32_t nan = 0x7e00u | (size >> 13 & 0x3ffu);
    const uint32_t finite = size < 113u << 23 ? subnormal : normal;
    return (uint16_t)(sign | (size > 0xffu << 23 ? nan : size >= 143u << 23 ? 0x7c00u : finite));
}

/* The first half of a float32. */
static inline float smm_bf16_to_f32(uint16_t x) { return smm_of_bits((uint32_t)x << 16); }

static inline uint16_t smm_f32_to_bf16(float x) {
    const uint32_t bits = smm_bits_of(x), nan = bits >> 16 | 0x40u;
    return (uint16_t)((bits & 0x7fffffffu) > 0xffu << 23 ? nan : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

#endif
