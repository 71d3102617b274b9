/* device.h: what a kernel finds on the emulated GPU, included before its text in place of CUDA C++.
 *
 * A block's threads are contexts of one thread of the CPU (gpu.cpp). Each runs until it waits for others of its warp or
 * block. What a kernel computes must not depend on who runs first (races.h). */
#pragma once
#include <string.h>

#define __host__
#define __device__
#define __global__
#define __grid_constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __shared__ static __attribute__((section("shared_arrays"))) /* of a size that is known */
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __launch_bounds__(...)

/* --- what kernels use of <cmath>, which would take a fifth of their compile time --- */

inline double ceil(double x) { return __builtin_ceil(x); }
inline float ceil(float x) { return __builtin_ceilf(x); }
inline double copysign(double x, double y) { return __builtin_copysign(x, y); }
inline float copysign(float x, float y) { return __builtin_copysignf(x, y); }
inline double fabs(double x) { return __builtin_fabs(x); }
inline float fabs(float x) { return __builtin_fabsf(x); }
inline double floor(double x) { return __builtin_floor(x); }
inline float floor(float x) { return __builtin_floorf(x); }
inline double fmax(double x, double y) { return __builtin_fmax(x, y); }
inline float fmax(float x, float y) { return __builtin_fmaxf(x, y); }
inline double frexp(double x, int *exponent) { return __builtin_frexp(x, exponent); }
inline float frexp(float x, int *exponent) { return __builtin_frexpf(x, exponent); }
inline double ldexp(double x, int exponent) { return __builtin_ldexp(x, exponent); }
inline float ldexp(float x, int exponent) { return __builtin_ldexpf(x, exponent); }
template <class X> inline bool isfinite(X x) { return __builtin_isfinite(x); }
template <class X> inline bool isinf(X x) { return __builtin_isinf(x); }
template <class X> inline bool isnan(X x) { return __builtin_isnan(x); }
inline unsigned max(unsigned x, unsigned y) { return x > y ? x : y; }
inline unsigned min(unsigned x, unsigned y) { return x < y ? x : y; }
inline int max(int x, int y) { return x > y ? x : y; }
inline int min(int x, int y) { return x < y ? x : y; }

struct emulated_index {
    unsigned x;
};

/* --- what gpu.cpp does --- */

extern "C" {
extern emulated_index threadIdx, blockIdx, gridDim;
extern char emulated_shared[];
/* Waits for the others of the block, which are in the same line of the text. */
void emulated_wait_for_block(int line);
bool emulated_all_of_block(bool x, int line);
/* Waits for the others of a warp, each with some bytes; returns those of all, 8 apart. */
const char *emulated_exchange(unsigned mask, const void *bytes, int count, int line);
/* Copies when they are waited for: nobody may read before. They are sets, of which so many may be left; -1: none, not
 * even the one that has not ended. */
void emulated_copy_later(void *to, const void *from, int bytes);
void emulated_end_of_copies();
void emulated_copies_done(int sets_left);
/* Lets others run. */
void emulated_yield();
void emulated_arrive(const void *arrival);
void emulated_arrived(const void *arrival);
void emulated_fail(const char *what);
}

/* --- warps and blocks --- */

#define __syncthreads() emulated_wait_for_block(__LINE__)
#define __syncthreads_and(x) emulated_all_of_block(x, __LINE__)
#define __syncwarp(...) emulated_meet(__LINE__, ##__VA_ARGS__)
inline void emulated_meet(int line, unsigned mask = ~0u) { emulated_exchange(mask, "", 0, line); }

template <class X> inline X emulated_of(const char *all, int thread) {
    X x;
    memcpy(&x, all + thread * 8, sizeof x);
    return x;
}
inline int emulated_lane() { return threadIdx.x % 32; }
template <class X> inline X emulated_from(unsigned mask, X x, int from, int line) {
    if (!(mask >> from & 1)) emulated_fail("it asks a thread that takes no part");
    return emulated_of<X>(emulated_exchange(mask, &x, sizeof x, line), from);
}
#define __shfl_sync(mask, x, from, ...) emulated_shuffle(mask, x, from, __LINE__, ##__VA_ARGS__)
#define __shfl_xor_sync(mask, x, bits, ...) emulated_shuffle_xor(mask, x, bits, __LINE__, ##__VA_ARGS__)
template <class X> inline X emulated_shuffle(unsigned mask, X x, int from, int line, int width = 32) {
    return emulated_from(mask, x, emulated_lane() / width * width + from % width, line);
}
template <class X> inline X emulated_shuffle_xor(unsigned mask, X x, int bits, int line, int width = 32) {
    const int from = emulated_lane() ^ bits;
    return emulated_from(mask, x, from / width == emulated_lane() / width ? from : emulated_lane(), line);
}
/* Bit t: x of thread t, of those in the mask. */
inline unsigned emulated_ballot(unsigned mask, bool x, int line) {
    const char *all = emulated_exchange(mask, &x, sizeof x, line);
    unsigned bits = 0;
    for (int thread = 0; thread < 32; thread++)
        if (mask >> thread & 1) bits |= static_cast<unsigned>(emulated_of<bool>(all, thread)) << thread;
    return bits;
}
#define __ballot_sync(mask, x) emulated_ballot(mask, x, __LINE__)
#define __any_sync(mask, x) (emulated_ballot(mask, x, __LINE__) != 0)
#define __all_sync(mask, x) (emulated_ballot(mask, x, __LINE__) == (mask))
inline unsigned emulated_max(unsigned mask, unsigned x, int line) {
    const char *all = emulated_exchange(mask, &x, sizeof x, line);
    unsigned most = 0;
    for (int thread = 0; thread < 32; thread++)
        if (mask >> thread & 1) most = max(most, emulated_of<unsigned>(all, thread));
    return most;
}
#define __reduce_max_sync(mask, x) emulated_max(mask, x, __LINE__)

/* The blocks of a grid may run at a time. */
inline int atomicMin(int *at, int x) {
    int was = __atomic_load_n(at, __ATOMIC_RELAXED);
    while (x < was && !__atomic_compare_exchange_n(at, &was, x, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return was;
}

/* --- numbers --- */

template <class To, class From> inline To emulated_bits(From x) {
    static_assert(sizeof(To) == sizeof x, "");
    To y;
    memcpy(&y, &x, sizeof y);
    return y;
}
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __clz(unsigned x) { return x ? __builtin_clz(x) : 32; }
inline int __double2hiint(double x) { return static_cast<int>(emulated_bits<unsigned long long>(x) >> 32); }
inline int __double2loint(double x) { return static_cast<int>(emulated_bits<unsigned long long>(x)); }
inline double __hiloint2double(int high, int low) {
    return emulated_bits<double>(static_cast<unsigned long long>(static_cast<unsigned>(high)) << 32 |
                                 static_cast<unsigned>(low));
}
inline unsigned __float_as_uint(float x) { return emulated_bits<unsigned>(x); }
inline float __uint_as_float(unsigned x) { return emulated_bits<float>(x); }
inline long long __double_as_longlong(double x) { return emulated_bits<long long>(x); }
inline double __longlong_as_double(long long x) { return emulated_bits<double>(x); }
/* Four of the bytes of y and x, as the digits of `which` say. */
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned which) {
    const unsigned long long both = static_cast<unsigned long long>(y) << 32 | x;
    unsigned bytes = 0;
    for (int i = 0; i < 32; i += 8) bytes |= static_cast<unsigned>(both >> (which >> i / 2 & 7) * 8 & 255) << i;
    return bytes;
}
inline int __ffs(unsigned x) { return __builtin_ffs(static_cast<int>(x)); }
inline double __dadd_rn(double x, double y) { return x + y; }
inline double __dmul_rn(double x, double y) { return x * y; }
inline float __fmul_rn(float x, float y) { return x * y; }
inline double __fma_rn(double x, double y, double z) { return __builtin_fma(x, y, z); }
inline float __fmaf_rn(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
inline double __ddiv_rn(double x, double y) { return x / y; }
inline float __fdiv_rn(float x, float y) { return x / y; }
inline double __drcp_rn(double x) { return 1 / x; }
inline float __frcp_rn(float x) { return 1 / x; }
inline double __dsqrt_rn(double x) { return __builtin_sqrt(x); }
inline float __fsqrt_rn(float x) { return __builtin_sqrtf(x); }

/* --- memory --- */

struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(16) double2 {
    double x, y;
};
struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline double2 make_double2(double x, double y) { return {x, y}; }
inline void emulated_aligned(const void *x, unsigned bytes) {
    if (reinterpret_cast<unsigned long long>(x) % bytes) emulated_fail("an address is not aligned");
}
template <class X> inline void __stwb(X *to, X x) {
    emulated_aligned(to, sizeof x);
    *to = x;
}
template <class X> inline X __ldg(const X *from) { return *from; }
