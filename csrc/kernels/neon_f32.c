/* neon_f32.c: the kernels for float32 on 64-bit ARM. */
#if defined(__aarch64__)
#define SMM_KERNELS_NEON
#define SMM_KERNELS_F32
#define ISA neon
#include "lane_neon.h"

#include "block.h"
#include "lanes.h"

#include "inv_lanes.h"
#include "inv_within.h"
#include "matmul_rows.h"
#include "matmul_scalars.h"
#include "matmul_strided.h"
#include "matmul_vector.h"
#include "pack.h"
#include "table.h"
#endif
