/* avx512_c128.c: the kernels for complex128 on AVX-512. */
#if defined(__x86_64__) && !defined(SMM_WITHOUT_AVX512)
#define SMM_KERNELS_AVX512
#define SMM_KERNELS_F64
#define DTYPE c128
#define REAL_DTYPE f64
#define ISA avx512
#include "lane_avx512.h"
#include "texts_complex.h"
#endif
