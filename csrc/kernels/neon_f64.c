/* neon_f64.c: the kernels for float64 on 64-bit ARM. */
#if defined(__aarch64__)
#define SMM_KERNELS_NEON
#define SMM_KERNELS_F64
#define ISA neon
#include "lane_neon.h"

#include "memory.h"
#include "block.h"
#include "lanes.h"
#include "panels.h"

#include "cholesky_lanes.h"
#include "inv_lanes.h"
#include "inv_panels.h"
#include "lu_det.h"
#include "lu_lanes.h"
#include "lu_panels.h"
#include "lu_solve_lanes.h"
#include "matmul_rows.h"
#include "matmul_scalars.h"
#include "matmul_strided.h"
#include "matmul_vector.h"
#include "pack.h"
#include "qr_lanes.h"
#include "lstsq_lanes.h"
#include "eigh_lanes.h"
#include "triangular_lanes.h"

#include "table.h"
#endif
