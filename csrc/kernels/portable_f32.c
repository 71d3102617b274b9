/* portable_f32.c: the kernels for float32 on any CPU. */
#if !defined(SMM_WITHOUT_PORTABLE)
#define SMM_KERNELS_PORTABLE
#define SMM_KERNELS_F32
#define DTYPE f32
#define ISA portable
#include "lane_portable.h"
#include "texts.h"
#endif
