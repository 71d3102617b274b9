/* avx512_f32.c: the kernels for float32 on AVX-512. */
#if defined(__x86_64__) && !defined(SMM_WITHOUT_AVX512)
#define SMM_KERNELS_AVX512
#define SMM_KERNELS_F32
#define DTYPE f32
#define ISA avx512
#include "lane_avx512.h"
#include "texts.h"
#endif
