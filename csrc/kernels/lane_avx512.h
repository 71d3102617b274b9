/* lane_avx512.h: the lane verbs on AVX-512: one vector is 8 float64 or 16 float32.
 * A partial vector holds `count` elements; the lanes beyond are neither read nor written. */
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma"))), \
                             apply_to = function)
#else
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")
#endif
#include <immintrin.h>

#include "lane.h"

#if defined(SMM_KERNELS_F64)
#define I(verb) _mm512_##verb##_pd
#define I2(verb, suffix) _mm512_##verb##_pd_##suffix
typedef __m512d vec;
typedef __mmask8 mask;
#else
#define I(verb) _mm512_##verb##_ps
#define I2(verb, suffix) _mm512_##verb##_ps_##suffix
typedef __m512 vec;
typedef __mmask16 mask;
#endif
enum { LANES = sizeof(vec) / sizeof(T), VECTOR_REGISTERS = 32 };

INLINE mask first_lanes(intptr_t count) { return (mask)((1u << count) - 1); }

INLINE vec lane_load(const T *p) { return I(loadu)(p); }
INLINE vec lane_load_part(const T *p, intptr_t count) { return I(maskz_loadu)(first_lanes(count), p); }
INLINE void lane_store(T *p, vec x) { I(storeu)(p, x); }
INLINE void lane_store_part(T *p, vec x, intptr_t count) { I(mask_storeu)(p, first_lanes(count), x); }
INLINE void lane_stream(T *p, vec x) { I(stream)(p, x); }
INLINE void lane_store_int(int32_t *p, vec x) {
#if defined(SMM_KERNELS_F64)
    _mm256_storeu_si256((__m256i *)p, _mm512_cvttpd_epi32(x));
#else
    _mm512_storeu_si512(p, _mm512_cvttps_epi32(x));
#endif
}
INLINE vec lane_set(T x) { return I(set1)(x); }
INLINE vec lane_mul(vec x, vec y) { return I(mul)(x, y); }
INLINE vec lane_fma(vec x, vec y, vec z) { return I(fmadd)(x, y, z); }
INLINE vec lane_fnma(vec x, vec y, vec z) { return I(fnmadd)(x, y, z); }
INLINE vec lane_add(vec x, vec y) { return I(add)(x, y); }
INLINE vec lane_sub(vec x, vec y) { return I(sub)(x, y); }
INLINE vec lane_div(vec x, vec y) { return I(div)(x, y); }
INLINE vec lane_sqrt(vec x) { return I(sqrt)(x); }
INLINE vec lane_abs(vec x) { return I(abs)(x); }
INLINE mask lane_greater(vec x, vec y) { return I2(cmp, mask)(x, y, _CMP_GT_OQ); }
INLINE mask lane_equal(vec x, vec y) { return I2(cmp, mask)(x, y, _CMP_EQ_OQ); }
INLINE vec lane_select(mask m, vec x, vec y) { return I(mask_blend)(m, y, x); }
INLINE bool lane_any(mask m) { return m != 0; }
INLINE uint32_t lane_bits(mask m) { return m; }
INLINE mask lane_mask(uint32_t bits) { return (mask)bits; }
INLINE vec lane_max(vec x, vec y) { return I(max)(x, y); }
INLINE vec lane_largest(vec x) {
#if defined(SMM_KERNELS_F64)
    x = I(max)(x, _mm512_shuffle_f64x2(x, x, 0x4e));
    x = I(max)(x, _mm512_shuffle_f64x2(x, x, 0xb1));
    return I(max)(x, _mm512_permute_pd(x, 0x55));
#else
    x = I(max)(x, _mm512_shuffle_f32x4(x, x, 0x4e));
    x = I(max)(x, _mm512_shuffle_f32x4(x, x, 0xb1));
    x = I(max)(x, _mm512_permute_ps(x, 0x4e));
    return I(max)(x, _mm512_permute_ps(x, 0xb1));
#endif
}
INLINE T scalar_fma(T x, T y, T z) { return FMA(x, y, z); }

/* Permutations, for the strategies that only AVX-512 has. An index holds an element number per lane. */
typedef __m512i index_vec;

INLINE index_vec lane_index(const int32_t element[LANES]) {
#if defined(SMM_KERNELS_F64)
    return _mm512_cvtepi32_epi64(_mm256_loadu_si256((const __m256i *)element));
#else
    return _mm512_loadu_si512(element);
#endif
}
INLINE vec lane_permute(index_vec i, vec x) { return I(permutexvar)(i, x); }
/* Elements 0 .. LANES-1 are x's, LANES .. 2 LANES-1 are y's. */
INLINE vec lane_permute2(index_vec i, vec x, vec y) { return I(permutex2var)(x, i, y); }
/* The same where every lane takes an element of its own 128-bit quarter: twice the rate. */
INLINE vec lane_permute_quarters(index_vec i, vec x) {
#if defined(SMM_KERNELS_F64)
    return _mm512_permutevar_pd(x, _mm512_slli_epi64(i, 1));
#else
    return _mm512_permutevar_ps(x, i);
#endif
}
INLINE void lane_store_masked(T *p, vec x, unsigned lanes) { I(mask_storeu)(p, (mask)lanes, x); }

/* `count` <= width elements at p, over and over: x[l] = p[l % width], for a width of LANES / 2 or 4. */
INLINE vec lane_repeat(const int width, const T *p, const int count) {
#if defined(SMM_KERNELS_F64)
    (void)width;
    return _mm512_broadcast_f64x4(count == 4 ? _mm256_loadu_pd(p) : _mm256_maskz_loadu_pd((mask)first_lanes(count), p));
#else
    if (width == 4)
        return _mm512_broadcast_f32x4(count == 4 ? _mm_loadu_ps(p)
                                                 : _mm_maskz_loadu_ps((__mmask8)first_lanes(count), p));
    return _mm512_broadcast_f32x8(count == 8 ? _mm256_loadu_ps(p)
                                             : _mm256_maskz_loadu_ps((__mmask8)first_lanes(count), p));
#endif
}

/* Transposition of 8 x 8 blocks: x[i] lane j becomes x[j] lane i. float32 needs only half vectors. */
#define SMM_LANE_BLOCKS
enum { BLOCK = 8 };
#if defined(SMM_KERNELS_F64)
typedef vec block_row;
INLINE block_row block_load(const T *p, intptr_t count) { return lane_load_part(p, count); }
INLINE void block_store(T *p, block_row x, intptr_t count) { lane_store_part(p, x, count); }
INLINE block_row block_set(T x) { return lane_set(x); }
INLINE block_row block_mul(block_row x, block_row y) { return lane_mul(x, y); }
INLINE block_row block_fma(block_row x, block_row y, block_row z) { return lane_fma(x, y, z); }
INLINE void block_transpose(block_row x[BLOCK]) {
    const __m512i low = _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13),
                  high = _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15);
    vec p[BLOCK], q[BLOCK];
    UNROLLED(int i = 0; i < 8; i += 2) { /* pairs of rows: 2 x 2 blocks */
        p[i] = _mm512_unpacklo_pd(x[i], x[i + 1]);
        p[i + 1] = _mm512_unpackhi_pd(x[i], x[i + 1]);
    }
    UNROLLED(int i = 0; i < 8; i += 4) /* fours: 4 x 4 blocks */
        UNROLLED(int j = 0; j < 2; j++) {
            q[i + j] = _mm512_permutex2var_pd(p[i + j], low, p[i + j + 2]);
            q[i + j + 2] = _mm512_permutex2var_pd(p[i + j], high, p[i + j + 2]);
        }
    UNROLLED(int j = 0; j < 4; j++) { /* eights */
        x[j] = _mm512_shuffle_f64x2(q[j], q[j + 4], 0x44);
        x[j + 4] = _mm512_shuffle_f64x2(q[j], q[j + 4], 0xee);
    }
}
#else
typedef __m256 block_row;
INLINE block_row block_load(const T *p, intptr_t count) {
    return _mm256_maskz_loadu_ps((__mmask8)first_lanes(count), p);
}
INLINE void block_store(T *p, block_row x, intptr_t count) {
    _mm256_mask_storeu_ps(p, (__mmask8)first_lanes(count), x);
}
INLINE block_row block_set(T x) { return _mm256_set1_ps(x); }
INLINE block_row block_mul(block_row x, block_row y) { return _mm256_mul_ps(x, y); }
INLINE block_row block_fma(block_row x, block_row y, block_row z) { return _mm256_fmadd_ps(x, y, z); }
#include "transpose_8x8_f32.h"

/* Two block rows in a vector, and the transposition of the two blocks that such vectors hold. */
#define SMM_LANE_PAIRS
INLINE vec lane_pair(block_row low, block_row high) { return _mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1); }
INLINE block_row lane_low(vec x) { return _mm512_castps512_ps256(x); }
/* Extracted straight into memory, a masked vextractf32x8 would fault at lanes that it does not write. */
INLINE block_row lane_high(vec x) {
    block_row high = _mm512_extractf32x8_ps(x, 1);
    __asm__("" : "+v"(high));
    return high;
}
INLINE void lane_transpose(vec x[BLOCK]) {
    const __m512i even = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27),
                  odd = _mm512_setr_epi32(4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31);
    vec p[BLOCK], q[BLOCK];
    UNROLLED(int i = 0; i < 8; i += 2) { /* pairs of rows: 2 x 2 blocks */
        p[i] = _mm512_unpacklo_ps(x[i], x[i + 1]);
        p[i + 1] = _mm512_unpackhi_ps(x[i], x[i + 1]);
    }
    UNROLLED(int i = 0; i < 8; i += 4) { /* fours: 4 x 4 blocks */
        q[i] = _mm512_shuffle_ps(p[i], p[i + 2], 0x44);
        q[i + 1] = _mm512_shuffle_ps(p[i], p[i + 2], 0xee);
        q[i + 2] = _mm512_shuffle_ps(p[i + 1], p[i + 3], 0x44);
        q[i + 3] = _mm512_shuffle_ps(p[i + 1], p[i + 3], 0xee);
    }
    UNROLLED(int j = 0; j < 4; j++) { /* eights */
        x[j] = _mm512_permutex2var_ps(q[j], even, q[j + 4]);
        x[j + 4] = _mm512_permutex2var_ps(q[j], odd, q[j + 4]);
    }
}
#endif

/* Four elements of LANES rows, row l at w + at[l]: x[j] has element j of each in its lane; and back. The 4 x 4 blocks
 * that lie side by side in the vectors are transposed. */
#define SMM_LANE_QUADS
#if defined(SMM_KERNELS_F64)
INLINE void quads_transpose(vec x[4], const vec y[4]) {
    const __m512i low = _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13),
                  high = _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15);
    const vec p[4] = {_mm512_permutex2var_pd(y[0], low, y[2]), _mm512_permutex2var_pd(y[1], low, y[3]),
                      _mm512_permutex2var_pd(y[0], high, y[2]), _mm512_permutex2var_pd(y[1], high, y[3])};
    UNROLLED(int i = 0; i < 4; i += 2) {
        x[i] = _mm512_unpacklo_pd(p[i], p[i + 1]);
        x[i + 1] = _mm512_unpackhi_pd(p[i], p[i + 1]);
    }
}
INLINE void quads_load(vec x[4], const T *w, const int32_t *at) {
    vec y[4];
    UNROLLED(int l = 0; l < 4; l++)
        y[l] =
            _mm512_insertf64x4(_mm512_castpd256_pd512(_mm256_loadu_pd(w + at[l])), _mm256_loadu_pd(w + at[l + 4]), 1);
    quads_transpose(x, y);
}
INLINE void quads_store(T *w, const int32_t *at, const vec x[4]) {
    vec y[4];
    quads_transpose(y, x);
    UNROLLED(int l = 0; l < 4; l++) {
        _mm256_storeu_pd(w + at[l], _mm512_castpd512_pd256(y[l]));
        _mm256_storeu_pd(w + at[l + 4], _mm512_extractf64x4_pd(y[l], 1));
    }
}
#else
INLINE void quads_transpose(vec x[4], const vec y[4]) {
    const vec p[4] = {_mm512_unpacklo_ps(y[0], y[1]), _mm512_unpackhi_ps(y[0], y[1]), _mm512_unpacklo_ps(y[2], y[3]),
                      _mm512_unpackhi_ps(y[2], y[3])};
    UNROLLED(int i = 0; i < 2; i++) {
        x[2 * i] = _mm512_shuffle_ps(p[i], p[i + 2], 0x44);
        x[2 * i + 1] = _mm512_shuffle_ps(p[i], p[i + 2], 0xee);
    }
}
INLINE void quads_load(vec x[4], const T *w, const int32_t *at) {
    vec y[4];
    UNROLLED(int l = 0; l < 4; l++) {
        y[l] = _mm512_castps128_ps512(_mm_loadu_ps(w + at[l]));
        y[l] = _mm512_mask_broadcast_f32x4(y[l], 0xf0, _mm_loadu_ps(w + at[l + 4]));
        y[l] = _mm512_mask_broadcast_f32x4(y[l], 0xf00, _mm_loadu_ps(w + at[l + 8]));
        y[l] = _mm512_mask_broadcast_f32x4(y[l], 0xf000, _mm_loadu_ps(w + at[l + 12]));
    }
    quads_transpose(x, y);
}
INLINE void quads_store(T *w, const int32_t *at, const vec x[4]) {
    vec y[4];
    quads_transpose(y, x);
    UNROLLED(int l = 0; l < 4; l++) {
        _mm_storeu_ps(w + at[l], _mm512_castps512_ps128(y[l]));
        _mm_storeu_ps(w + at[l + 4], _mm512_extractf32x4_ps(y[l], 1));
        _mm_storeu_ps(w + at[l + 8], _mm512_extractf32x4_ps(y[l], 2));
        _mm_storeu_ps(w + at[l + 12], _mm512_extractf32x4_ps(y[l], 3));
    }
}
#endif
