/* avx2_f32.c: the kernels for float32 on AVX2 and FMA. */
#define DTYPE f32
#define SMM_KERNELS_F32
#include "lane/lane_avx2.h"
#include "all_kernels.h"
