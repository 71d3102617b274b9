/* avx2_f64.c: the kernels for float64 on AVX2 and FMA. */
#define DTYPE f64
#define SMM_KERNELS_F64
#include "lane/lane_avx2.h"
#include "all_kernels.h"
