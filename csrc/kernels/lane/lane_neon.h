/* lane_neon.h: the lane verbs on 64-bit ARM: one vector is 2 float64 or 4 float32. */
#if defined(__aarch64__)
#define ISA neon
#define SMM_KERNELS_NEON
#include <arm_neon.h>

#include "lane.h"

#if defined(SMM_KERNELS_F64)
#define I(verb) verb##_f64
typedef float64x2_t vec;
typedef uint64x2_t mask;
#else
#define I(verb) verb##_f32
typedef float32x4_t vec;
typedef uint32x4_t mask;
#endif
enum { LANES = sizeof(vec) / sizeof(T), VECTOR_REGISTERS = 32 };

INLINE vec lane_load(const T *p) { return I(vld1q)(p); }
INLINE vec lane_load_part(const T *p, intptr_t count) {
    T x[LANES] = {0};
    for (intptr_t l = 0; l < count; l++) x[l] = p[l];
    return lane_load(x);
}
INLINE void lane_store(T *p, vec x) { I(vst1q)(p, x); }
INLINE void lane_store_part(T *p, vec x, intptr_t count) {
    T y[LANES];
    lane_store(y, x);
    for (intptr_t l = 0; l < count; l++) p[l] = y[l];
}
INLINE void lane_stream(T *p, vec x) { lane_store(p, x); } /* ARM streams writes by itself */
INLINE void lane_store_int(int32_t *p, vec x) {
    for (int l = 0; l < LANES; l++) p[l] = (int32_t)x[l];
}
INLINE vec lane_set(T x) { return I(vdupq_n)(x); }
INLINE vec lane_mul(vec x, vec y) { return I(vmulq)(x, y); }
INLINE vec lane_fma(vec x, vec y, vec z) { return I(vfmaq)(z, x, y); }
INLINE vec lane_fnma(vec x, vec y, vec z) { return I(vfmsq)(z, x, y); }
INLINE vec lane_fnma_once(vec x, vec y, vec z) { return lane_fnma(x, y, z); }
INLINE vec lane_add(vec x, vec y) { return I(vaddq)(x, y); }
INLINE vec lane_sub(vec x, vec y) { return I(vsubq)(x, y); }
INLINE vec lane_div(vec x, vec y) { return I(vdivq)(x, y); }
INLINE vec lane_sqrt(vec x) { return I(vsqrtq)(x); }
INLINE vec lane_or(vec x, vec y) { return (vec)((mask)x | (mask)y); }
INLINE vec lane_abs(vec x) { return I(vabsq)(x); }
INLINE mask lane_greater(vec x, vec y) { return I(vcgtq)(x, y); }
INLINE mask lane_equal(vec x, vec y) { return I(vceqq)(x, y); }
INLINE vec lane_select(mask m, vec x, vec y) { return I(vbslq)(m, x, y); }
INLINE bool lane_any(mask m) { return vmaxvq_u32((uint32x4_t)m) != 0; }
INLINE uint32_t lane_bits(mask m) {
    uint32_t bits = 0;
    for (int l = 0; l < LANES; l++) bits |= (uint32_t)(m[l] & 1) << l;
    return bits;
}
INLINE mask lane_mask(uint32_t bits) {
    mask m;
    for (int l = 0; l < LANES; l++) m[l] = bits >> l & 1 ? -1 : 0;
    return m;
}
INLINE vec lane_max(vec x, vec y) { return lane_select(lane_greater(x, y), x, y); }
INLINE vec lane_turn(vec x) {
#if defined(SMM_KERNELS_F64)
    return (vec){-x[1], x[0]};
#else
    return (vec){-x[1], x[0], -x[3], x[2]};
#endif
}
INLINE vec lane_re(vec x) { return I(vtrn1q)(x, x); }
INLINE vec lane_im(vec x) { return I(vtrn2q)(x, x); }
INLINE T scalar_fma(T x, T y, T z) { return FMA(x, y, z); }

#if defined(SMM_KERNELS_F32)
/* float16 and bfloat16: see half.h. */
#define SMM_LANE_HALF
typedef uint16x4_t half_vec;
INLINE vec lane_load_f16(const uint16_t *p) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p))); }
INLINE half_vec lane_to_f16(vec x) { return vreinterpret_u16_f16(vcvt_f16_f32(x)); }
INLINE vec lane_load_bf16(const uint16_t *p) { return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16)); }
INLINE half_vec lane_to_bf16(vec x) {
    const uint32x4_t bits = vreinterpretq_u32_f32(x), first = vshrq_n_u32(bits, 16);
    const uint32x4_t sum = vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7fff)), vandq_u32(first, vdupq_n_u32(1)));
    const uint32x4_t nan = vorrq_u32(first, vdupq_n_u32(0x40));
    return vmovn_u32(vbslq_u32(vceqq_f32(x, x), vshrq_n_u32(sum, 16), nan));
}
INLINE void lane_store_half(uint16_t *p, half_vec x) { vst1_u16(p, x); }
INLINE void lane_stream_half(uint16_t *p, half_vec x) { lane_store_half(p, x); }
#endif
#endif
