/* neon_c64.c: the kernels for complex64 on 64-bit ARM. */
#if defined(__aarch64__)
#define SMM_KERNELS_NEON
#define SMM_KERNELS_F32
#define DTYPE c64
#define REAL_DTYPE f32
#define ISA neon
#include "lane_neon.h"
#include "texts_complex.h"
#endif
