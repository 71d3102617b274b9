/* neon_f64.c: the kernels for float64 on 64-bit ARM. */
#if defined(__aarch64__)
#define SMM_KERNELS_NEON
#define SMM_KERNELS_F64
#define DTYPE f64
#define ISA neon
#include "lane_neon.h"
#include "texts.h"
#endif
