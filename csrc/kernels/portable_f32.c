/* portable_f32.c: the kernels for float32 on any CPU. */
#define DTYPE f32
#define SMM_KERNELS_F32
#include "lane/lane_portable.h"
#include "all_kernels.h"
