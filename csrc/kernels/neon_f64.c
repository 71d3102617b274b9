/* neon_f64.c: the kernels for float64 on 64-bit ARM. */
#define DTYPE f64
#define SMM_KERNELS_F64
#include "lane/lane_neon.h"
#include "all_kernels.h"
