/* neon_c64.c: the kernels for complex64 on 64-bit ARM. */
#define DTYPE c64
#define REAL_DTYPE f32
#define SMM_KERNELS_F32
#include "lane/lane_neon.h"
#include "all_kernels.h"
