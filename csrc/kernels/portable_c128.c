/* portable_c128.c: the kernels for complex128 on any CPU. */
#define DTYPE c128
#define REAL_DTYPE f64
#define SMM_KERNELS_F64
#include "lane/lane_portable.h"
#include "all_kernels.h"
