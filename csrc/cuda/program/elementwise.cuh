/* elementwise.cuh: the element-wise functions of programs, map_<name> for each row of functions.def, with the CPU's
 * bits; and what steps have once for all, outside of their namespaces. */
#include "functions.cuh"
#include "exponential.h"
#include "functions_f32.h"

#define ABS fabs
#define FLOOR floor
#define CEIL ceil
#define COPYSIGN copysign
#define SQRT root
inline double root(double x) { return __dsqrt_rn(x); }
inline float root(float x) { return __fsqrt_rn(x); }

enum {
#define SMM_FUNCTION(NAME, ...) SMM_FN_##NAME,
#include "functions.def"
#undef SMM_FUNCTION
};

#define SMM_FUNCTION(NAME, name, arguments, value) \
    template <class T> inline T map_##name(T x, T y = 0, T z = 0) { \
        constexpr bool is_cosine = int(SMM_FN_##NAME) == int(SMM_FN_COS); \
        if constexpr (is_cosine || int(SMM_FN_##NAME) == int(SMM_FN_SIN)) \
            if (smm_is_far(x)) return (T)smm_far_sine(x, is_cosine); \
        return value; \
    }
#include "functions.def"
#undef SMM_FUNCTION

/* An element of another type: truth is 1 and 0, and not an integer. */
enum Truth : unsigned char {};
template <class To, class From> inline To converted(From x) { return static_cast<To>(x); }
template <> inline Truth converted<Truth, double>(double x) { return static_cast<Truth>(x != 0); }
template <> inline Truth converted<Truth, float>(float x) { return static_cast<Truth>(x != 0); }
template <> inline double converted<double, Truth>(Truth x) { return x != 0; }
template <> inline float converted<float, Truth>(Truth x) { return x != 0; }
template <> inline f16 converted<f16, float>(float x) { return {to_f16(x)}; }
template <> inline bf16 converted<bf16, float>(float x) { return {to_bf16(x)}; }
