/* avx2_c64.c: the kernels for complex64 on AVX2 and FMA. */
#define DTYPE c64
#define REAL_DTYPE f32
#define SMM_KERNELS_F32
#include "lane/lane_avx2.h"
#include "all_kernels.h"
