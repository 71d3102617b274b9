/* neon_f32.c: the kernels for float32 on 64-bit ARM. */
#if defined(__aarch64__)
#define SMM_KERNELS_NEON
#define SMM_KERNELS_F32
#define DTYPE f32
#define ISA neon
#include "lane_neon.h"
#include "texts.h"
#endif
