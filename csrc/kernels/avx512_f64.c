/* avx512_f64.c: the kernels for float64 on AVX-512. */
#define DTYPE f64
#define SMM_KERNELS_F64
#include "lane/lane_avx512.h"
#include "all_kernels.h"
