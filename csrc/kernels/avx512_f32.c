/* avx512_f32.c: the kernels for float32 on AVX-512. */
#define DTYPE f32
#define SMM_KERNELS_F32
#include "lane/lane_avx512.h"
#include "all_kernels.h"
