/* lane_portable.h: the lane verbs in the vector extension of GCC and Clang, on whatever the compiler's
 * baseline is. Multiply and add round separately, everywhere alike: the baseline of x86-64 has no FMA. */
#if !defined(SMM_WITHOUT_PORTABLE)
#define ISA portable
#define SMM_KERNELS_PORTABLE
#include "lane.h"

typedef T vec __attribute__((vector_size(16)));
typedef T unaligned_vec __attribute__((vector_size(16), aligned(sizeof(T)), may_alias));
#if defined(SMM_KERNELS_F64)
typedef int64_t mask __attribute__((vector_size(16)));
#else
typedef int32_t mask __attribute__((vector_size(16)));
#endif
enum { LANES = sizeof(vec) / sizeof(T), VECTOR_REGISTERS = 16 };

INLINE vec lane_load(const T *p) { return *(const unaligned_vec *)p; }
INLINE vec lane_load_part(const T *p, intptr_t count) {
    vec x = {0};
    for (intptr_t l = 0; l < count; l++) x[l] = p[l];
    return x;
}
INLINE void lane_store(T *p, vec x) { *(unaligned_vec *)p = x; }
INLINE void lane_store_part(T *p, vec x, intptr_t count) {
    for (intptr_t l = 0; l < count; l++) p[l] = x[l];
}
INLINE void lane_stream(T *p, vec x) { lane_store(p, x); } /* the extension has no streaming store */
INLINE void lane_store_int(int32_t *p, vec x) {
    for (int l = 0; l < LANES; l++) p[l] = (int32_t)x[l];
}
INLINE vec lane_set(T x) { return x - (vec){0}; } /* minus zero, so that -0.0 stays -0.0 */
INLINE vec lane_mul(vec x, vec y) { return x * y; }
INLINE vec lane_fma(vec x, vec y, vec z) { return x * y + z; }
INLINE vec lane_fnma(vec x, vec y, vec z) { return z - x * y; }
INLINE vec lane_fnma_once(vec x, vec y, vec z) {
    for (int l = 0; l < LANES; l++) z[l] = FMA(-x[l], y[l], z[l]);
    return z;
}
INLINE vec lane_add(vec x, vec y) { return x + y; }
INLINE vec lane_sub(vec x, vec y) { return x - y; }
INLINE vec lane_div(vec x, vec y) { return x / y; }
INLINE vec lane_sqrt(vec x) {
    for (int l = 0; l < LANES; l++) x[l] = SQRT(x[l]);
    return x;
}
INLINE vec lane_or(vec x, vec y) { return (vec)((mask)x | (mask)y); }
INLINE vec lane_abs(vec x) { return (vec)((mask)x & ~(mask)lane_set(-(T)0)); }
INLINE mask lane_greater(vec x, vec y) { return x > y; }
INLINE mask lane_equal(vec x, vec y) { return x == y; }
INLINE vec lane_select(mask m, vec x, vec y) { return (vec)((m & (mask)x) | (~m & (mask)y)); }
INLINE bool lane_any(mask m) {
    bool any = false;
    for (int l = 0; l < LANES; l++) any |= m[l] != 0;
    return any;
}
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
INLINE vec lane_max(vec x, vec y) { return lane_select(x > y, x, y); }
INLINE vec lane_turn(vec x) {
    vec y;
    for (int l = 0; l < LANES; l += 2) y[l] = -x[l + 1], y[l + 1] = x[l];
    return y;
}
INLINE vec lane_re(vec x) {
    for (int l = 0; l < LANES; l += 2) x[l + 1] = x[l];
    return x;
}
INLINE vec lane_im(vec x) {
    for (int l = 0; l < LANES; l += 2) x[l] = x[l + 1];
    return x;
}
INLINE T scalar_fma(T x, T y, T z) { return x * y + z; }
#endif
