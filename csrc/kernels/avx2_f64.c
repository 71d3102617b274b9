/* avx2_f64.c: the kernels for float64 on AVX2 and FMA. */
#if defined(__x86_64__) && !defined(SMM_WITHOUT_AVX2)
#define SMM_KERNELS_AVX2
#define SMM_KERNELS_F64
#define DTYPE f64
#define ISA avx2
#include "lane_avx2.h"
#include "texts.h"
#endif
