/* portable_f64.c: the kernels for float64 on any CPU. */
#define DTYPE f64
#define SMM_KERNELS_F64
#include "lane/lane_portable.h"
#include "all_kernels.h"
