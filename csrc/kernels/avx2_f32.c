/* avx2_f32.c: the kernels for float32 on AVX2 and FMA. */
#if defined(__x86_64__) && !defined(SMM_WITHOUT_AVX2)
#define SMM_KERNELS_AVX2
#define SMM_KERNELS_F32
#define DTYPE f32
#define ISA avx2
#include "lane_avx2.h"
#include "texts.h"
#endif
