/* avx512_f32.c: the kernels for float32 on AVX-512. */
#if defined(__x86_64__) && !defined(SMM_WITHOUT_AVX512)
#define SMM_KERNELS_AVX512
#define SMM_KERNELS_F32
#define ISA avx512
#include "lane_avx512.h"

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
#include "matmul_group.h"
#include "matmul_permute.h"
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
