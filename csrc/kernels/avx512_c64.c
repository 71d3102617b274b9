/* avx512_c64.c: the kernels for complex64 on AVX-512. */
#if defined(__x86_64__) && !defined(SMM_WITHOUT_AVX512)
#define SMM_KERNELS_AVX512
#define SMM_KERNELS_F32
#define DTYPE c64
#define REAL_DTYPE f32
#define ISA avx512
#include "lane_avx512.h"
#include "texts_complex.h"
#endif
