/* neon_f32.c: the kernels for float32 on 64-bit ARM. */
#define DTYPE f32
#define SMM_KERNELS_F32
#include "lane/lane_neon.h"
#include "all_kernels.h"
