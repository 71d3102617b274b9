/* functions.cuh: the functions of functions.h and functions_complex.h. The text is compiled without contraction of
 * products and sums. */
#if defined(__CUDACC_RTC__) /* what gcc calls so */
#define __builtin_fma fma
#define __builtin_sqrt sqrt
#define __builtin_fmaf fmaf
#define __builtin_inf() __longlong_as_double(0x7ff0000000000000)
#define __builtin_nan(text) __longlong_as_double(0x7ff8000000000000)
#define __builtin_inff() __int_as_float(0x7f800000)
#define __builtin_nanf(text) __int_as_float(0x7fc00000)
#endif
#include "functions.h"
#include "functions_complex.h"
