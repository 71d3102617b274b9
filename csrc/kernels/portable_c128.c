/* portable_c128.c: the kernels for complex128 on any CPU. */
#if !defined(SMM_WITHOUT_PORTABLE)
#define ISA portable
#define SMM_KERNELS_PORTABLE
#define SMM_KERNELS_F64
#define DTYPE c128
#define REAL_DTYPE f64
#include "lane_portable.h"
#include "texts_complex.h"
#endif
