/* all_kernels.h: the kernels of one instruction set and element type, where this build has them: all texts, in an order
 * in which each finds what it uses. Texts written over `elem`, a vector of numbers, serve real and complex ones. */
#if defined(ISA)
#include "move/memory.h"
#include "move/block.h"
#include "lane/lanes.h"
#include "lane/pairs.h"
#include "lane/errors.h"
#include "matmul/matmul_rows.h"
#include "move/pack.h"
#if defined(REAL_DTYPE)
#include "lane/elements_complex.h"
#else
#include "lane/elements_real.h"
#endif
#include "move/panels.h"
#include "qr/qr_lanes.h"
#include "lane/single.h"
#include "qr/qr_single.h"
#include "lu/lu_solve_lanes.h"

#if defined(REAL_DTYPE)
#include "map/map_complex.h"
#include "matmul/matmul_pairs.h"
#include "matmul/matmul_vector_complex.h"
#include "lu/lu_complex.h"
#else
#include "lu/inv_lanes.h"
#include "lu/inv_panels.h"
#include "lu/lu_det.h"
#include "lu/lu_lanes.h"
#include "map/map.h"
#if defined(SMM_KERNELS_AVX512)
#include "matmul/matmul_group.h"
#endif
#if defined(SMM_KERNELS_AVX512) || defined(SMM_KERNELS_AVX2)
#include "matmul/matmul_permute.h"
#endif
#include "matmul/matmul_scalars.h"
#include "matmul/matmul_strided.h"
#include "matmul/matmul_vector.h"
#endif
#include "cholesky/cholesky_lanes.h"
#include "cholesky/triangular_lanes.h"
#include "cholesky/cholesky_single.h"
#include "lu/lu_panel.h"
#include "lu/lu_panels.h"
#include "refinement/refinement_lanes.h"

#include "banded/banded_lanes.h"
#include "banded/parts_lanes.h"
#include "symmetric/ldl_lanes.h"
#include "spectra/eigh_sweeps.h"
#include "spectra/eigh_lanes.h"
#include "spectra/eigh_jacobi.h"
#include "spectra/eigh_single.h"
#include "spectra/svd_sweeps.h"
#include "spectra/svd_lanes.h"
#include "spectra/bidiagonal_sweeps.h"
#include "spectra/svd_bidiagonal.h"
#include "spectra/svd_single.h"
#include "spectra/eig_hessenberg.h"
#include "spectra/eig_single.h"
#include "spectra/eig_windows.h"
#include "qr/rank_lanes.h"
#include "qr/lstsq_lanes.h"

#if defined(REAL_DTYPE)
#include "spectra/eig_sweeps_complex.h"
#else
#include "spectra/eig_sweeps.h"
#if defined(SMM_KERNELS_F64)
#include "refinement/mixed_lanes.h"
#else
#include "move/stored.h"
#endif
#endif

#include "spectra/eig_lanes.h"
#include "spectra/sqrtm_lanes.h"
#include "expm/expm_lanes.h"
#include "table.h"
#endif
