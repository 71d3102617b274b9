/* texts.h: the kernels of one instruction set and element type, where this build has them: all texts, in an order in
 * which each finds what it uses. Texts written over `num`, a vector of numbers, serve real and complex ones. */
#if defined(ISA)
#include "memory.h"
#include "block.h"
#include "lanes.h"
#include "pairs.h"
#include "errors.h"
#include "matmul_rows.h"
#include "pack.h"
#if defined(REAL_DTYPE)
#include "numbers.h"
#else
#include "reals.h"
#endif
#include "qr_lanes.h"

#if defined(REAL_DTYPE)
#include "map_numbers.h"
#include "matmul_pairs.h"
#include "lu_numbers.h"
#include "triangular_numbers.h"
#include "cholesky_numbers.h"
#include "banded_numbers.h"
#else
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
#include "matmul_scalars.h"
#include "matmul_strided.h"
#include "matmul_vector.h"
#include "triangular_lanes.h"
#include "banded_lanes.h"
#endif
#include "refinement_lanes.h"

#include "parts_lanes.h"
#include "ldl_lanes.h"
#include "rank_lanes.h"
#include "eigh_sweeps.h"
#include "eigh_lanes.h"
#include "svd_sweeps.h"
#include "svd_lanes.h"
#include "bidiagonal_sweeps.h"
#include "svd_bidiagonal.h"
#include "eig_hessenberg.h"

#if defined(REAL_DTYPE)
#include "lstsq_numbers.h"
#include "eig_sweeps_numbers.h"
#else
#include "lstsq_lanes.h"
#include "eig_sweeps.h"
#if defined(SMM_KERNELS_F64)
#include "mixed_lanes.h"
#else
#include "stored.h"
#endif
#endif

#include "eig_lanes.h"
#include "expm_lanes.h"
#include "table.h"
#endif
