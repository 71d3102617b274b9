/* texts_complex.h: the kernels of one instruction set and complex type: all texts, in an order in which each finds what
 * it uses. They are written over `num`, a vector of numbers, and take any order. */
#include "memory.h"
#include "block.h"
#include "lanes.h"

#include "numbers.h"
#include "map_numbers.h"

#include "matmul_rows.h"
#include "matmul_pairs.h"
#include "pack_numbers.h"
#include "lu_numbers.h"
#include "errors.h"
#include "refinement_numbers.h"
#include "triangular_numbers.h"
#include "cholesky_numbers.h"
#include "banded_numbers.h"
#include "qr_numbers.h"
#include "eigh_sweeps.h"
#include "eigh_numbers.h"
#include "svd_sweeps.h"
#include "svd_numbers.h"
#include "bidiagonal_sweeps.h"
#include "svd_bidiagonal_numbers.h"
#include "rank_lanes.h"
#include "lstsq_numbers.h"

#include "table_complex.h"
