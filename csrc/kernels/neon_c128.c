/* neon_c128.c: the kernels for complex128 on 64-bit ARM. */
#if defined(__aarch64__)
#define SMM_KERNELS_NEON
#define SMM_KERNELS_F64
#define DTYPE c128
#define REAL_DTYPE f64
#define ISA neon
#include "lane_neon.h"
#include "texts_complex.h"
#endif
