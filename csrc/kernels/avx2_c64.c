/* avx2_c64.c: the kernels for complex64 on AVX2 and FMA. */
#if defined(__x86_64__) && !defined(SMM_WITHOUT_AVX2)
#define SMM_KERNELS_AVX2
#define SMM_KERNELS_F32
#define DTYPE c64
#define REAL_DTYPE f32
#define ISA avx2
#include "lane_avx2.h"
#include "texts_complex.h"
#endif
