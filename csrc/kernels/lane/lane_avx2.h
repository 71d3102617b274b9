/* lane_avx2.h: the lane verbs on AVX2 with FMA: one vector is 4 float64 or 8 float32. */
#if defined(__x86_64__) && !defined(SMM_WITHOUT_AVX2)
#define ISA avx2
#define SMM_KERNELS_AVX2
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC target("avx2,fma,f16c")
#endif
#include <immintrin.h>

#include "lane.h"

#if defined(SMM_KERNELS_F64)
#define I(verb) _mm256_##verb##_pd
typedef __m256d vec;
typedef int64_t mask __attribute__((vector_size(32)));
#else
#define I(verb) _mm256_##verb##_ps
typedef __m256 vec;
typedef int32_t mask __attribute__((vector_size(32)));
#endif
enum { LANES = sizeof(vec) / sizeof(T), VECTOR_REGISTERS = 16 };

/* All bits set in the first `count` lanes. */
INLINE __m256i first_lanes(intptr_t count) {
#if defined(SMM_KERNELS_F64)
    return _mm256_cmpgt_epi64(_mm256_set1_epi64x(count), _mm256_setr_epi64x(0, 1, 2, 3));
#else
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
#endif
}

INLINE vec lane_load(const T *p) { return I(loadu)(p); }
INLINE vec lane_load_part(const T *p, intptr_t count) { return I(maskload)(p, first_lanes(count)); }
INLINE void lane_store(T *p, vec x) { I(storeu)(p, x); }
/* By halves, as a store under a mask takes AMD's cores before Zen 4 some twenty cycles. */
INLINE void lane_store_part(T *p, vec x, intptr_t count) {
    if (count == LANES) {
        lane_store(p, x);
        return;
    }
#if defined(SMM_KERNELS_F64)
    __m128d rest = _mm256_castpd256_pd128(x);
    if (count & 2) {
        _mm_storeu_pd(p, rest);
        p += 2;
        rest = _mm256_extractf128_pd(x, 1);
    }
    if (count & 1) _mm_store_sd(p, rest);
#else
    __m128 rest = _mm256_castps256_ps128(x);
    if (count & 4) {
        _mm_storeu_ps(p, rest);
        p += 4;
        rest = _mm256_extractf128_ps(x, 1);
    }
    if (count & 2) {
        _mm_storel_pi((__m64 *)p, rest);
        p += 2;
        rest = _mm_movehl_ps(rest, rest);
    }
    if (count & 1) _mm_store_ss(p, rest);
#endif
}
INLINE void lane_stream(T *p, vec x) { I(stream)(p, x); }
INLINE void lane_store_int(int32_t *p, vec x) {
#if defined(SMM_KERNELS_F64)
    _mm_storeu_si128((__m128i *)p, _mm256_cvttpd_epi32(x));
#else
    _mm256_storeu_si256((__m256i *)p, _mm256_cvttps_epi32(x));
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
INLINE vec lane_abs(vec x) { return I(andnot)(I(set1)(-0.0), x); }
INLINE mask lane_greater(vec x, vec y) { return (mask)I(cmp)(x, y, _CMP_GT_OQ); }
INLINE mask lane_equal(vec x, vec y) { return (mask)I(cmp)(x, y, _CMP_EQ_OQ); }
INLINE vec lane_select(mask m, vec x, vec y) { return I(blendv)(y, x, (vec)m); }
INLINE bool lane_any(mask m) { return I(movemask)((vec)m) != 0; }
INLINE vec lane_max(vec x, vec y) { return I(max)(x, y); }
INLINE uint32_t lane_bits(mask m) { return (uint32_t)I(movemask)((vec)m); }
#if defined(SMM_KERNELS_F64)
INLINE mask lane_mask(uint32_t bits) {
    const mask bit = {1, 2, 4, 8};
    return (((mask){0} + bits) & bit) == bit;
}
#else
INLINE mask lane_mask(uint32_t bits) {
    const mask bit = {1, 2, 4, 8, 16, 32, 64, 128};
    return (((mask){0} + (int32_t)bits) & bit) == bit;
}
#endif
INLINE vec lane_turn(vec x) {
#if defined(SMM_KERNELS_F64)
    return _mm256_xor_pd(_mm256_permute_pd(x, 5), _mm256_setr_pd(-0.0, 0, -0.0, 0));
#else
    return _mm256_xor_ps(_mm256_permute_ps(x, 0xb1), _mm256_castsi256_ps(_mm256_set1_epi64x(0x80000000)));
#endif
}
#if defined(SMM_KERNELS_F64)
INLINE vec lane_re(vec x) { return _mm256_movedup_pd(x); }
INLINE vec lane_im(vec x) { return _mm256_permute_pd(x, 15); }
#else
INLINE vec lane_re(vec x) { return _mm256_moveldup_ps(x); }
INLINE vec lane_im(vec x) { return _mm256_movehdup_ps(x); }
#endif
INLINE T scalar_fma(T x, T y, T z) { return FMA(x, y, z); }

/* Permutations. An index holds the number of a float for each float. */
typedef __m256i index_vec;
INLINE index_vec lane_index(const int32_t element[LANES]) {
#if defined(SMM_KERNELS_F64)
    const __m256i low = _mm256_slli_epi64(_mm256_cvtepi32_epi64(_mm_loadu_si128((const __m128i *)element)), 1);
    return _mm256_or_si256(low, _mm256_slli_epi64(_mm256_add_epi64(low, _mm256_set1_epi64x(1)), 32));
#else
    return _mm256_loadu_si256((const __m256i *)element);
#endif
}
INLINE vec lane_permute(index_vec i, vec x) {
#if defined(SMM_KERNELS_F64)
    return _mm256_castps_pd(_mm256_permutevar8x32_ps(_mm256_castpd_ps(x), i));
#else
    return _mm256_permutevar8x32_ps(x, i);
#endif
}

/* Transposition of LANES x LANES blocks: x[i] lane j becomes x[j] lane i. */
#define SMM_LANE_BLOCKS
enum { BLOCK = LANES };
typedef vec block_row;
INLINE block_row block_load(const T *p, intptr_t count) {
    return count == LANES ? lane_load(p) : lane_load_part(p, count);
}
INLINE void block_store(T *p, block_row x, intptr_t count) {
    if (count == LANES)
        lane_store(p, x);
    else
        lane_store_part(p, x, count);
}
INLINE block_row block_set(T x) { return lane_set(x); }
INLINE block_row block_mul(block_row x, block_row y) { return lane_mul(x, y); }
INLINE block_row block_fma(block_row x, block_row y, block_row z) { return lane_fma(x, y, z); }
#if defined(SMM_KERNELS_F64)
INLINE void block_transpose(block_row x[BLOCK]) {
    vec p[BLOCK];
    UNROLLED(int i = 0; i < 4; i += 2) { /* pairs of rows: 2 x 2 blocks */
        p[i] = _mm256_unpacklo_pd(x[i], x[i + 1]);
        p[i + 1] = _mm256_unpackhi_pd(x[i], x[i + 1]);
    }
    UNROLLED(int j = 0; j < 2; j++) { /* fours */
        x[j] = _mm256_permute2f128_pd(p[j], p[j + 2], 0x20);
        x[j + 2] = _mm256_permute2f128_pd(p[j], p[j + 2], 0x31);
    }
}
#else
#include "shuffles_f32.h"
#endif

/* x[i] lane j = p[j * n + i]: of n >= STRIP_MIN columns, or LANES, as many rows as 128 bits hold. Halves of vectors
 * are loaded to where they belong, so that nothing crosses lanes. */
#define SMM_LANE_STRIPS
enum { STRIP = LANES / 2, STRIP_MIN = sizeof(T) == 8 ? 2 : 3 };
#if defined(SMM_KERNELS_F64)
INLINE void lane_load_strip(vec x[STRIP], const T *p, const int n) {
    vec y[2];
    UNROLLED(int j = 0; j < 2; j++) {
        y[j] = _mm256_zextpd128_pd256(_mm_loadu_pd(p + j * n));
        if (j + 2 < n) y[j] = _mm256_insertf128_pd(y[j], _mm_loadu_pd(p + (j + 2) * n), 1);
    }
    x[0] = _mm256_unpacklo_pd(y[0], y[1]);
    x[1] = _mm256_unpackhi_pd(y[0], y[1]);
}
#else
INLINE void lane_load_strip(vec x[STRIP], const T *p, const int n) {
    if (n == 3) { /* elements 0, 3, 6 of what begins at row i */
        UNROLLED(int i = 0; i < 3; i++)
            x[i] = _mm256_zextps128_ps256(_mm_shuffle_ps(_mm_loadu_ps(p + i), _mm_loadu_ps(p + i + 3), 0xfc));
        return;
    }
    UNROLLED(int j = 0; j < 4; j++) {
        x[j] = _mm256_zextps128_ps256(_mm_loadu_ps(p + j * n));
        if (j + 4 < n) x[j] = _mm256_insertf128_ps(x[j], _mm_loadu_ps(p + (j + 4) * n), 1);
    }
    lane_transpose_quads(x);
}
#endif

/* Few elements at a time: of x and y in turns make even and odd; and back. The same in threes. An element of each
 * lane's, `step` elements apart. */
#define SMM_LANE_ZIP
INLINE void lane_zip(vec *x, vec *y, vec even, vec odd) {
    const vec low = I(unpacklo)(even, odd), high = I(unpackhi)(even, odd);
    *x = I(permute2f128)(low, high, 0x20);
    *y = I(permute2f128)(low, high, 0x31);
}
#if defined(SMM_KERNELS_F64)
INLINE void lane_unzip(vec *even, vec *odd, vec x, vec y) {
    const vec low = _mm256_permute2f128_pd(x, y, 0x20), high = _mm256_permute2f128_pd(x, y, 0x31);
    *even = _mm256_unpacklo_pd(low, high);
    *odd = _mm256_unpackhi_pd(low, high);
}
INLINE void lane_unzip_3(vec *to, const vec x[3]) {
    const vec p = _mm256_blend_pd(x[0], x[1], 0xc), q = _mm256_permute2f128_pd(x[0], x[2], 0x21),
              r = _mm256_blend_pd(x[1], x[2], 0xc);
    to[0] = _mm256_shuffle_pd(p, q, 0xa);
    to[1] = _mm256_shuffle_pd(p, r, 0x5);
    to[2] = _mm256_shuffle_pd(q, r, 0xa);
}
INLINE void lane_zip_3(vec *to, const vec x[3]) {
    const vec p = _mm256_shuffle_pd(x[0], x[1], 0x0), q = _mm256_shuffle_pd(x[2], x[0], 0xa),
              r = _mm256_shuffle_pd(x[1], x[2], 0xf);
    to[0] = _mm256_permute2f128_pd(p, q, 0x20);
    to[1] = _mm256_blend_pd(r, p, 0xc);
    to[2] = _mm256_permute2f128_pd(q, r, 0x31);
}
INLINE vec lane_load_column(const T *p, intptr_t step) {
    return _mm256_set_m128d(_mm_loadh_pd(_mm_load_sd(p + 2 * step), p + 3 * step),
                            _mm_loadh_pd(_mm_load_sd(p), p + step));
}
/* int32 of x[0] and x[1] in the place of an element. */
INLINE vec lane_ints(const vec *x) {
    const __m128i even = _mm256_cvttpd_epi32(x[0]), odd = _mm256_cvttpd_epi32(x[1]);
    return _mm256_castsi256_pd(_mm256_set_m128i(_mm_unpackhi_epi32(even, odd), _mm_unpacklo_epi32(even, odd)));
}
INLINE void lane_store_column(T *p, vec x, intptr_t step) {
    UNROLLED(int i = 0; i < 2; i++) {
        const __m128d y = i ? _mm256_extractf128_pd(x, 1) : _mm256_castpd256_pd128(x);
        _mm_storel_pd(p + 2 * i * step, y);
        _mm_storeh_pd(p + (2 * i + 1) * step, y);
    }
}

/* n whole numbers of each lane's, one lane's after the other's: pairs, of which the last may overlap the one before. */
INLINE void lane_store_ints(int32_t *p, const vec *x, int n) {
    if (n == 1) {
        lane_store_int(p, x[0]);
        return;
    }
    UNROLLED(int k = 0; k < n; k += 2) {
        const int j = k + 1 < n ? k : n - 2;
        const __m128i even = _mm256_cvttpd_epi32(x[j]), odd = _mm256_cvttpd_epi32(x[j + 1]);
        UNROLLED(int i = 0; i < 2; i++) {
            const __m128i pairs = i ? _mm_unpackhi_epi32(even, odd) : _mm_unpacklo_epi32(even, odd);
            _mm_storeu_si64(p + 2 * i * n + j, pairs);
            _mm_storeu_si64(p + (2 * i + 1) * n + j, _mm_unpackhi_epi64(pairs, pairs));
        }
    }
}
#else
INLINE void lane_unzip(vec *even, vec *odd, vec x, vec y) {
    const vec low = _mm256_permute2f128_ps(x, y, 0x20), high = _mm256_permute2f128_ps(x, y, 0x31);
    *even = _mm256_shuffle_ps(low, high, 0x88);
    *odd = _mm256_shuffle_ps(low, high, 0xdd);
}
INLINE void lane_unzip_3(vec *to, const vec x[3]) {
    const vec p = _mm256_blend_ps(x[0], x[1], 0xf0), q = _mm256_permute2f128_ps(x[0], x[2], 0x21),
              r = _mm256_blend_ps(x[1], x[2], 0xf0);
    const vec y = _mm256_shuffle_ps(q, r, 0x9e), z = _mm256_shuffle_ps(p, q, 0x49);
    to[0] = _mm256_shuffle_ps(p, y, 0x8c);
    to[1] = _mm256_shuffle_ps(z, y, 0xd8);
    to[2] = _mm256_shuffle_ps(z, r, 0xcd);
}
INLINE void lane_zip_3(vec *to, const vec x[3]) {
    const vec a = _mm256_shuffle_ps(x[0], x[1], 0x88), b = _mm256_shuffle_ps(x[1], x[2], 0xdd),
              c = _mm256_shuffle_ps(x[2], x[0], 0xd8);
    const vec p = _mm256_shuffle_ps(a, c, 0x88), q = _mm256_shuffle_ps(b, a, 0xd8), r = _mm256_shuffle_ps(c, b, 0xdd);
    to[0] = _mm256_permute2f128_ps(p, q, 0x20);
    to[1] = _mm256_blend_ps(r, p, 0xf0);
    to[2] = _mm256_permute2f128_ps(q, r, 0x31);
}
INLINE vec lane_load_column(const T *p, intptr_t step) {
    return _mm256_set_m128(load_four(p + 4 * step, step), load_four(p, step));
}

#define SMM_LANE_ROWS
/* Four elements of LANES rows, row l at w + at[l]: x[j] has element j of each in its lane; and back. */
INLINE void lane_load_rows(vec x[4], const T *w, const int32_t *at) {
    UNROLLED(int l = 0; l < 4; l++) x[l] = _mm256_set_m128(_mm_loadu_ps(w + at[l + 4]), _mm_loadu_ps(w + at[l]));
    lane_transpose_quads(x);
}
INLINE void lane_store_rows(T *w, const int32_t *at, const vec x[4]) {
    vec y[4] = {x[0], x[1], x[2], x[3]};
    lane_transpose_quads(y);
    UNROLLED(int l = 0; l < 4; l++) {
        _mm_storeu_ps(w + at[l], _mm256_castps256_ps128(y[l]));
        _mm_storeu_ps(w + at[l + 4], _mm256_extractf128_ps(y[l], 1));
    }
}

/* float16 and bfloat16: see half.h. Streamed to p aligned to as many numbers as a vector has. */
#define SMM_LANE_HALF
typedef __m128i half_vec;
INLINE vec lane_load_f16(const uint16_t *p) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)); }
INLINE half_vec lane_to_f16(vec x) { return _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT); }
INLINE vec lane_load_bf16(const uint16_t *p) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p)), 16));
}
INLINE half_vec lane_to_bf16(vec x) {
    const __m256i bits = _mm256_castps_si256(x), first = _mm256_srli_epi32(bits, 16);
    const __m256i even = _mm256_and_si256(first, _mm256_set1_epi32(1));
    const __m256i sum = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), even);
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    const __m256i y =
        _mm256_blendv_epi8(_mm256_srli_epi32(sum, 16), _mm256_or_si256(first, _mm256_set1_epi32(0x40)), nan);
    return _mm_packus_epi32(_mm256_castsi256_si128(y), _mm256_extracti128_si256(y, 1));
}
INLINE void lane_store_half(uint16_t *p, half_vec x) { _mm_storeu_si128((__m128i *)p, x); }
INLINE void lane_stream_half(uint16_t *p, half_vec x) { _mm_stream_si128((__m128i *)p, x); }

/* int32 in the place of elements. */
INLINE vec lane_ints(const vec *x) { return _mm256_castsi256_ps(_mm256_cvttps_epi32(*x)); }
#endif
#endif
