/* portable_f32.c: the kernels for float32 on any CPU. */
#if !defined(SMM_WITHOUT_PORTABLE)
#define ISA portable
#define SMM_KERNELS_PORTABLE
#define SMM_KERNELS_F32
#define DTYPE f32
#include "lane_portable.h"
#include "texts.h"
#endif
