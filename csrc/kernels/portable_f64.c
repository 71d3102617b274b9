/* portable_f64.c: the kernels for float64 on any CPU. */
#if !defined(SMM_WITHOUT_PORTABLE)
#define ISA portable
#define SMM_KERNELS_PORTABLE
#define SMM_KERNELS_F64
#define DTYPE f64
#include "lane_portable.h"
#include "texts.h"
#endif
