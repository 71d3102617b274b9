/* texts.h: the kernels of one instruction set and element type: all texts, in an order in which each finds what it
 * uses.
 */
#include "memory.h"
#include "block.h"
#include "lanes.h"
#include "pairs.h"
#include "panels.h"

#include "cholesky_lanes.h"
#include "inv_lanes.h"
#include "inv_panels.h"
#include "lu_det.h"
#include "lu_lanes.h"
#include "lu_panels.h"
#include "lu_solve_lanes.h"
#include "map.h"
#if defined(SMM_KERNELS_AVX512)
#include "matmul_group.h"
#endif
#if defined(SMM_KERNELS_AVX512) || defined(SMM_KERNELS_AVX2)
#include "matmul_permute.h"
#endif
#include "matmul_rows.h"
#include "matmul_scalars.h"
#include "matmul_strided.h"
#include "matmul_vector.h"
#include "pack.h"
#include "qr_lanes.h"
#include "rank_lanes.h"
#include "lstsq_lanes.h"
#include "eigh_sweeps.h"
#include "eigh_lanes.h"
#include "svd_sweeps.h"
#include "svd_lanes.h"
#include "bidiagonal_sweeps.h"
#include "svd_bidiagonal.h"
#include "triangular_lanes.h"
#include "banded_lanes.h"
#include "reals.h"
#include "parts_lanes.h"
#include "ldl_lanes.h"
#include "eig_hessenberg.h"
#include "eig_sweeps.h"
#include "eig_lanes.h"
#include "expm_lanes.h"
#include "errors.h"
#include "refinement_lanes.h"

#if defined(SMM_KERNELS_F64)
#include "mixed_lanes.h"
#endif
#if defined(SMM_KERNELS_F32)
#include "stored.h"
#endif

#include "table.h"
