/* portable_c64.c: the kernels for complex64 on any CPU. */
#define DTYPE c64
#define REAL_DTYPE f32
#define SMM_KERNELS_F32
#include "lane/lane_portable.h"
#include "all_kernels.h"
