/* avx2_c128.c: the kernels for complex128 on AVX2 and FMA. */
#define DTYPE c128
#define REAL_DTYPE f64
#define SMM_KERNELS_F64
#include "lane/lane_avx2.h"
#include "all_kernels.h"
