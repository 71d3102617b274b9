/* avx2_c128.c: the kernels for complex128 on AVX2 and FMA. */
#if defined(__x86_64__) && !defined(SMM_WITHOUT_AVX2)
#define SMM_KERNELS_AVX2
#define SMM_KERNELS_F64
#define DTYPE c128
#define REAL_DTYPE f64
#define ISA avx2
#include "lane_avx2.h"
#include "texts_complex.h"
#endif
