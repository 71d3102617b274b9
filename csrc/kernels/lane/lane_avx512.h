/* lane_avx512.h: the lane verbs on AVX-512: one vector is 8 float64 or 16 float32.
 * A partial vector holds `count` elements; the lanes beyond are neither read nor written. */
#if defined(__x86_64__) && !defined(SMM_WITHOUT_AVX512)
#define ISA avx512
#define SMM_KERNELS_AVX512
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
INLINE vec lane_fnma_once(vec x, vec y, vec z) { return lane_fnma(x, y, z); }
INLINE vec lane_add(vec x, vec y) { return I(add)(x, y); }
INLINE vec lane_sub(vec x, vec y) { return I(sub)(x, y); }
INLINE vec lane_div(vec x, vec y) { return I(div)(x, y); }
INLINE vec lane_sqrt(vec x) { return I(sqrt)(x); }
INLINE vec lane_or(vec x, vec y) { return I(or)(x, y); }
INLINE vec lane_abs(vec x) { return I(abs)(x); }
INLINE mask lane_greater(vec x, vec y) { return I2(cmp, mask)(x, y, _CMP_GT_OQ); }
INLINE mask lane_equal(vec x, vec y) { return I2(cmp, mask)(x, y, _CMP_EQ_OQ); }
INLINE vec lane_select(mask m, vec x, vec y) { return I(mask_blend)(m, y, x); }
INLINE bool lane_any(mask m) { return m != 0; }
INLINE uint32_t lane_bits(mask m) { return m; }
INLINE mask lane_mask(uint32_t bits) { return (mask)bits; }
INLINE vec lane_max(vec x, vec y) { return I(max)(x, y); }
INLINE vec lane_turn(vec x) {
#if defined(SMM_KERNELS_F64)
    const __m512i sign = _mm512_broadcast_i32x4(_mm_setr_epi32(0, INT32_MIN, 0, 0));
    return _mm512_castsi512_pd(_mm512_xor_si512(_mm512_castpd_si512(_mm512_permute_pd(x, 0x55)), sign));
#else
    const __m512i sign = _mm512_set1_epi64(0x80000000);
    return _mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(_mm512_permute_ps(x, 0xb1)), sign));
#endif
}
#if defined(SMM_KERNELS_F64)
INLINE vec lane_re(vec x) { return _mm512_movedup_pd(x); }
INLINE vec lane_im(vec x) { return _mm512_permute_pd(x, 0xff); }
#else
INLINE vec lane_re(vec x) { return _mm512_moveldup_ps(x); }
INLINE vec lane_im(vec x) { return _mm512_movehdup_ps(x); }
#endif
INLINE T scalar_fma(T x, T y, T z) { return FMA(x, y, z); }

/* Permutations. An index holds an element number per lane. */
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
#include "shuffles_f32.h"

/* Two block rows in a vector, and the transposition of the two blocks that such vectors hold. */
#define SMM_LANE_PAIRS
INLINE vec lane_pair(block_row low, block_row high) { return _mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1); }
/* The lower halves of two vectors, and the upper. */
INLINE vec lane_lows(vec x, vec y) { return _mm512_shuffle_f32x4(x, y, 0x44); }
INLINE vec lane_highs(vec x, vec y) { return _mm512_shuffle_f32x4(x, y, 0xee); }
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
    lane_transpose_quads(x);
    lane_transpose_quads(x + 4);
    UNROLLED(int j = 0; j < 4; j++) { /* eights */
        const vec low = x[j], high = x[j + 4];
        x[j] = _mm512_permutex2var_ps(low, even, high);
        x[j + 4] = _mm512_permutex2var_ps(low, odd, high);
    }
}
#endif

/* Few elements at a time. */
#define SMM_LANE_ZIP
#if defined(SMM_KERNELS_F64)
typedef int64_t lane_indices __attribute__((vector_size(64)));
#define LANE_INDICES ((lane_indices){0, 1, 2, 3, 4, 5, 6, 7})
#else
typedef int32_t lane_indices __attribute__((vector_size(64)));
#define LANE_INDICES ((lane_indices){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15})
#endif

/* Elements of x and y in turns make even and odd; and back. */
INLINE void lane_unzip(vec *even, vec *odd, vec x, vec y) {
    *even = lane_permute2((index_vec)(2 * LANE_INDICES), x, y);
    *odd = lane_permute2((index_vec)(2 * LANE_INDICES + 1), x, y);
}
INLINE void lane_zip(vec *x, vec *y, vec even, vec odd) {
    const lane_indices from = LANE_INDICES / 2 + LANE_INDICES % 2 * LANES;
    *x = lane_permute2((index_vec)from, even, odd);
    *y = lane_permute2((index_vec)(from + LANES / 2), even, odd);
}

/* The same in threes. */
INLINE vec lane_permute3(lane_indices from, const vec x[3]) {
    const lane_indices early = from < 2 * LANES, then = (LANE_INDICES & early) | ((from - LANES) & ~early);
    return lane_permute2((index_vec)then, lane_permute2((index_vec)from, x[0], x[1]), x[2]);
}
INLINE void lane_unzip_3(vec *to, const vec x[3]) {
    UNROLLED(int j = 0; j < 3; j++) to[j] = lane_permute3(3 * LANE_INDICES + j, x);
}
INLINE void lane_zip_3(vec *to, const vec x[3]) {
    UNROLLED(int i = 0; i < 3; i++) {
        const lane_indices e = LANE_INDICES + i * LANES;
        to[i] = lane_permute3(e % 3 * LANES + e / 3, x);
    }
}

/* An element of each lane's, `step` elements apart; and quads of four, of which x[i] element j becomes x[j] element i
 * within each quad. Whole blocks of float64 by quads lost: 32-byte loads and stores are hardly faster than 64. */
#define SMM_LANE_ROWS
#if defined(SMM_KERNELS_F64)
INLINE vec lane_load_column(const T *p, intptr_t step) {
    __m128d x[4];
    UNROLLED(int i = 0; i < 4; i++) x[i] = _mm_loadh_pd(_mm_load_sd(p + 2 * i * step), p + (2 * i + 1) * step);
    return _mm512_insertf64x4(_mm512_castpd256_pd512(_mm256_set_m128d(x[1], x[0])), _mm256_set_m128d(x[3], x[2]), 1);
}
INLINE void lane_store_column(T *p, vec x, intptr_t step) {
    const __m128d y[4] = {_mm512_extractf64x2_pd(x, 0), _mm512_extractf64x2_pd(x, 1), _mm512_extractf64x2_pd(x, 2),
                          _mm512_extractf64x2_pd(x, 3)};
    UNROLLED(int i = 0; i < 4; i++) {
        _mm_storel_pd(p + 2 * i * step, y[i]);
        _mm_storeh_pd(p + (2 * i + 1) * step, y[i]);
    }
}
INLINE void lane_transpose_quads(vec x[4]) {
    const __m512i low = _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13),
                  high = _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15);
    vec y[4];
    UNROLLED(int i = 0; i < 4; i += 2) {
        y[i] = _mm512_unpacklo_pd(x[i], x[i + 1]);
        y[i + 1] = _mm512_unpackhi_pd(x[i], x[i + 1]);
    }
    UNROLLED(int i = 0; i < 2; i++) {
        x[i] = _mm512_permutex2var_pd(y[i], low, y[i + 2]);
        x[i + 2] = _mm512_permutex2var_pd(y[i], high, y[i + 2]);
    }
}

/* x[i] lane j = p[j * n + i]: four rows of n >= 4 columns, or LANES. Quarters and halves of vectors are loaded to where
 * they belong, so that nothing crosses lanes. */
#define SMM_LANE_STRIPS
enum { STRIP = 4, STRIP_MIN = 4 };
INLINE void lane_load_strip(vec x[STRIP], const T *p, const int n) {
    UNROLLED(int j = 0; j < 4; j++) {
        x[j] = _mm512_zextpd256_pd512(_mm256_loadu_pd(p + j * n));
        if (j + 4 < n) x[j] = _mm512_insertf64x4(x[j], _mm256_loadu_pd(p + (j + 4) * n), 1);
    }
    lane_transpose_quads(x);
}

/* Four elements of LANES rows, row l at w + at[l]: x[j] has element j of each in its lane; and back. */
INLINE void lane_load_rows(vec x[4], const T *w, const int32_t *at) {
    UNROLLED(int l = 0; l < 4; l++)
        x[l] =
            _mm512_insertf64x4(_mm512_castpd256_pd512(_mm256_loadu_pd(w + at[l])), _mm256_loadu_pd(w + at[l + 4]), 1);
    lane_transpose_quads(x);
}
INLINE void lane_store_rows(T *w, const int32_t *at, const vec x[4]) {
    vec y[4] = {x[0], x[1], x[2], x[3]};
    lane_transpose_quads(y);
    UNROLLED(int l = 0; l < 4; l++) {
        _mm256_storeu_pd(w + at[l], _mm512_castpd512_pd256(y[l]));
        _mm256_storeu_pd(w + at[l + 4], _mm512_extractf64x4_pd(y[l], 1));
    }
}

/* int32 of x[0] and x[1] in the place of an element. */
INLINE vec lane_ints(const vec *x) {
    const __m512i low = _mm512_cvttpd_epi64(x[0]), high = _mm512_slli_epi64(_mm512_cvttpd_epi64(x[1]), 32);
    return _mm512_castsi512_pd(_mm512_mask_blend_epi32(0xaaaa, low, high));
}

/* n <= 8 whole numbers of each lane's, one lane's after the other's. */
INLINE void lane_store_ints(int32_t *p, const vec *x, int n) {
    if (n == 1) {
        lane_store_int(p, x[0]);
        return;
    }
    typedef int32_t numbers __attribute__((vector_size(64)));
    const numbers here = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    enum { COUNT = 2 * LANES };
    __m512i pair[4]; /* x_k and x_k+1 side by side */
    UNROLLED(int k = 0; k < n; k += 2)
        pair[k / 2] = k + 1 < n ? _mm512_castpd_si512(lane_ints(x + k)) : _mm512_cvttpd_epi64(x[k]);
    UNROLLED(int i = 0; i < LANES * n; i += COUNT) {
        const numbers e = here + i, j = e % n, from = j / 2 * COUNT + e / n * 2 + j % 2;
        __m512i y = n == 2 ? pair[0] : _mm512_permutex2var_epi32(pair[0], (__m512i)from, pair[1]);
        UNROLLED(int k = 2; 2 * k < n; k++) {
            const numbers early = from < COUNT * k, then = (here & early) | ((from - COUNT * (k - 1)) & ~early);
            y = _mm512_permutex2var_epi32(y, (__m512i)then, pair[k]);
        }
        if (i + COUNT <= LANES * n)
            _mm512_storeu_si512(p + i, y);
        else
            _mm256_storeu_si256((__m256i *)(p + i), _mm512_castsi512_si256(y));
    }
}
#else
INLINE vec lane_load_column(const T *p, intptr_t step) {
    const __m256 low = _mm256_set_m128(load_four(p + 4 * step, step), load_four(p, step)),
                 high = _mm256_set_m128(load_four(p + 12 * step, step), load_four(p + 8 * step, step));
    return _mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1);
}
#define SMM_LANE_STRIPS
enum { STRIP = 4, STRIP_MIN = 4 };
INLINE void lane_load_strip(vec x[STRIP], const T *p, const int n) {
    UNROLLED(int j = 0; j < 4; j++) {
        x[j] = _mm512_zextps128_ps512(_mm_loadu_ps(p + j * n));
        if (j + 4 < n) x[j] = _mm512_mask_broadcast_f32x4(x[j], 0xf0, _mm_loadu_ps(p + (j + 4) * n));
        if (j + 8 < n) x[j] = _mm512_mask_broadcast_f32x4(x[j], 0xf00, _mm_loadu_ps(p + (j + 8) * n));
        if (j + 12 < n) x[j] = _mm512_mask_broadcast_f32x4(x[j], 0xf000, _mm_loadu_ps(p + (j + 12) * n));
    }
    lane_transpose_quads(x);
}
INLINE void lane_load_rows(vec x[4], const T *w, const int32_t *at) {
    UNROLLED(int l = 0; l < 4; l++) {
        x[l] = _mm512_castps128_ps512(_mm_loadu_ps(w + at[l]));
        x[l] = _mm512_mask_broadcast_f32x4(x[l], 0xf0, _mm_loadu_ps(w + at[l + 4]));
        x[l] = _mm512_mask_broadcast_f32x4(x[l], 0xf00, _mm_loadu_ps(w + at[l + 8]));
        x[l] = _mm512_mask_broadcast_f32x4(x[l], 0xf000, _mm_loadu_ps(w + at[l + 12]));
    }
    lane_transpose_quads(x);
}
INLINE void lane_store_rows(T *w, const int32_t *at, const vec x[4]) {
    vec y[4] = {x[0], x[1], x[2], x[3]};
    lane_transpose_quads(y);
    UNROLLED(int l = 0; l < 4; l++) {
        _mm_storeu_ps(w + at[l], _mm512_castps512_ps128(y[l]));
        _mm_storeu_ps(w + at[l + 4], _mm512_extractf32x4_ps(y[l], 1));
        _mm_storeu_ps(w + at[l + 8], _mm512_extractf32x4_ps(y[l], 2));
        _mm_storeu_ps(w + at[l + 12], _mm512_extractf32x4_ps(y[l], 3));
    }
}

/* float16 and bfloat16: see half.h. Streamed to p aligned to as many numbers as a vector has. */
#define SMM_LANE_HALF
typedef __m256i half_vec;
INLINE vec lane_load_f16(const uint16_t *p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p)); }
INLINE half_vec lane_to_f16(vec x) { return _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT); }
INLINE vec lane_load_bf16(const uint16_t *p) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p)), 16));
}
INLINE half_vec lane_to_bf16(vec x) {
    const __m512i bits = _mm512_castps_si512(x), first = _mm512_srli_epi32(bits, 16);
    const __m512i even = _mm512_and_si512(first, _mm512_set1_epi32(1));
    const __m512i sum = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), even);
    const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    return _mm512_cvtepi32_epi16(_mm512_mask_or_epi32(_mm512_srli_epi32(sum, 16), nan, first, _mm512_set1_epi32(0x40)));
}
INLINE void lane_store_half(uint16_t *p, half_vec x) { _mm256_storeu_si256((__m256i *)p, x); }
INLINE void lane_stream_half(uint16_t *p, half_vec x) { _mm256_stream_si256((__m256i *)p, x); }

/* int32 in the place of elements. */
INLINE vec lane_ints(const vec *x) { return _mm512_castsi512_ps(_mm512_cvttps_epi32(*x)); }
#endif
#endif
