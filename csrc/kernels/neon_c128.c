/* neon_c128.c: the kernels for complex128 on 64-bit ARM. */
#define DTYPE c128
#define REAL_DTYPE f64
#define SMM_KERNELS_F64
#include "lane/lane_neon.h"
#include "all_kernels.h"
