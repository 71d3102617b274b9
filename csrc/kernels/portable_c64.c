/* portable_c64.c: the kernels for complex64 on any CPU. */
#if !defined(SMM_WITHOUT_PORTABLE)
#define ISA portable
#define SMM_KERNELS_PORTABLE
#define SMM_KERNELS_F32
#define DTYPE c64
#define REAL_DTYPE f32
#include "lane_portable.h"
#include "texts_complex.h"
#endif
