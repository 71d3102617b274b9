/* portable_f32.c: the kernels for float32 on any CPU. */
#define SMM_KERNELS_PORTABLE
#define SMM_KERNELS_F32
#define ISA portable
#include "lane_portable.h"

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
