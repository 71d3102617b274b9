/* test_stored.c: the conversions of types that are only stored, of every instruction set, against half.h; and half.h
 * against the definition of the formats. "quick" as first argument is taken, as by the other tests. */
#define _GNU_SOURCE
#include <math.h>
#include <string.h>

#include "../../csrc/core/core.h"
#include "harness.h"

enum { CODES = 1 << 16 };

static uint16_t code_of(float x, smm_dtype dtype) { return dtype == SMM_F16 ? smm_f32_to_f16(x) : smm_f32_to_bf16(x); }
static float value_of(uint16_t x, smm_dtype dtype) { return dtype == SMM_F16 ? smm_f16_to_f32(x) : smm_bf16_to_f32(x); }
static int fraction_of(smm_dtype dtype) { return dtype == SMM_F16 ? 10 : 7; }

/* What a code stands for, by the format: NaN aside. */
static double meaning_of(unsigned code, smm_dtype dtype) {
    const int bits = fraction_of(dtype), bias = dtype == SMM_F16 ? 15 : 127, most = dtype == SMM_F16 ? 31 : 255;
    const int fraction = (int)(code & ((1u << bits) - 1)), exponent = (int)(code >> bits) & most;
    const double size = exponent == most ? (double)INFINITY
                        : exponent       ? ldexp(1 + ldexp(fraction, -bits), exponent - bias)
                                         : ldexp(fraction, 1 - bias - bits);
    return code & 0x8000u ? -size : size;
}

static bool is_nan(unsigned code, smm_dtype dtype) { return (code & 0x7fffu) > (dtype == SMM_F16 ? 0x7c00u : 0x7f80u); }

static void check_meanings(smm_dtype dtype) {
    const unsigned quiet = 1u << (fraction_of(dtype) - 1);
    for (unsigned code = 0; code < CODES; code++) {
        const float x = value_of((uint16_t)code, dtype);
        const double expected = meaning_of(code, dtype);
        if (is_nan(code, dtype)) {
            CHECK(isnan(x) && code_of(x, dtype) == (code | quiet), "NaN %#x of type %d becomes %#x", code, dtype,
                  code_of(x, dtype));
        } else {
            CHECK(x == expected && !signbit(x) == !signbit(expected) && code_of(x, dtype) == code,
                  "%#x of type %d is %a and back %#x", code, dtype, (double)x, code_of(x, dtype));
        }
    }
}

/* Between neighbours: below the middle, the middle, above it. */
static void check_rounding(smm_dtype dtype) {
    const unsigned infinity = dtype == SMM_F16 ? 0x7c00u : 0x7f80u;
    for (unsigned code = 0; code < infinity; code++) {
        const double low = meaning_of(code, dtype);
        const double high = code + 1 == infinity ? 2 * low - meaning_of(code - 1, dtype) : meaning_of(code + 1, dtype);
        const float middle = (float)((low + high) / 2), below = nextafterf(middle, 0),
                    above = nextafterf(middle, INFINITY);
        const unsigned even = code & 1 ? code + 1 : code;
        for (int sign = 0; sign < 2; sign++) {
            const unsigned bit = sign ? 0x8000u : 0;
            CHECK(code_of(sign ? -below : below, dtype) == (code | bit), "below the middle after %#x", code);
            CHECK(code_of(sign ? -middle : middle, dtype) == (even | bit), "the middle after %#x", code);
            CHECK(code_of(sign ? -above : above, dtype) == ((code + 1) | bit), "above the middle after %#x", code);
        }
    }
    CHECK(code_of(0x1p-149f, dtype) == 0 && code_of(-0x1p-149f, dtype) == 0x8000u, "the smallest float32");
    CHECK(code_of(0x1.fffffep127f, dtype) == infinity && code_of(INFINITY, dtype) == infinity, "the largest");
}

static void test_meanings(void) {
    for (int dtype = SMM_F16; dtype <= SMM_BF16; dtype++) check_meanings((smm_dtype)dtype);
}
static void test_rounding(void) {
    for (int dtype = SMM_F16; dtype <= SMM_BF16; dtype++) check_rounding((smm_dtype)dtype);
}

/* Rows of `length` numbers, `gap` further ones apart. */
static smm_grid grid_of(void *data, intptr_t length, intptr_t step, intptr_t gap) {
    return (smm_grid){data, {length, CODES / length, 1}, {2 * step, 2 * (length + gap) * step, 0}};
}

enum { MAX_STEP = 3, MAX_GAP = 2 };
static uint16_t stored[CODES * MAX_STEP * (1 + MAX_GAP)], written[sizeof stored / sizeof *stored];
static float wide[CODES], expected[CODES];

static uint16_t *number(uint16_t *x, intptr_t i, intptr_t length, intptr_t step, intptr_t gap) {
    return x + (i / length * (length + gap) + i % length) * step;
}

static void check_grid(const smm_kernels *kernels, smm_dtype dtype, intptr_t length, intptr_t step, intptr_t gap) {
    const smm_grid from = grid_of(stored, length, step, gap), to = grid_of(written, length, step, gap);
    const intptr_t count = CODES / length * length;
    for (intptr_t i = 0; i < count; i++) {
        *number(stored, i, length, step, gap) = (uint16_t)i;
        expected[i] = value_of((uint16_t)i, dtype);
    }
    kernels->stored[dtype - SMM_COMPUTED_TYPES].widen(wide, &from);
    CHECK(!memcmp(wide, expected, (size_t)count * sizeof *wide), "%s: type %d, rows of %ld", smm_isa(), dtype,
          (long)length);

    for (intptr_t i = 0; i < count; i++) { /* any float32, and many near those that the type has */
        uint32_t bits = (uint32_t)random_bits();
        if (i % 2) bits = smm_bits_of(value_of((uint16_t)bits, dtype)) + (uint32_t)random_below(5) - 2;
        if (i % 4 == 1) bits += 1u << (22 - fraction_of(dtype));
        wide[i] = smm_of_bits(bits);
    }
    memset(written, 0xa5, sizeof written);
    memset(stored, 0xa5, sizeof stored);
    for (intptr_t i = 0; i < count; i++) *number(stored, i, length, step, gap) = code_of(wide[i], dtype);
    kernels->stored[dtype - SMM_COMPUTED_TYPES].narrow(&to, wide, random_below(2));
    CHECK(!memcmp(written, stored, sizeof stored), "%s: to type %d, rows of %ld", smm_isa(), dtype, (long)length);
}

static void test_instruction_sets(void) {
    static const intptr_t lengths[] = {1, 3, 8, 15, 16, 31, 33, CODES};
    for (const char *const *isa = smm_isas_available(); *isa; isa++) {
        const smm_kernels *kernels;
        smm_select_isa(*isa);
        smm_kernels_of(SMM_F32, &kernels);
        for (int dtype = SMM_F16; dtype <= SMM_BF16; dtype++)
            for (int i = 0; i < 8; i++)
                for (intptr_t step = 1; step <= MAX_STEP; step++)
                    check_grid(kernels, (smm_dtype)dtype, lengths[i], step, i == 7 ? 0 : random_below(MAX_GAP + 1));
    }
}

int main(void) {
    static const struct test tests[] = {
        {"every code means what its format says", test_meanings},
        {"rounding to nearest, ties to even", test_rounding},
        {"every instruction set converts alike", test_instruction_sets},
    };
    return run_tests(tests, sizeof tests / sizeof *tests);
}
