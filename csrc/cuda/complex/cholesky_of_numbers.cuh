/* cholesky_of_numbers.cuh: L of Hermitian A = L L^H, from A's lower triangle, as kernels/cholesky_numbers.h has it, in
 * what own.cuh says. */
constexpr int N = SMM_N, COLUMNS = 0;
#include "own.cuh"

__device__ inline int factor(const Own &o) { return factor_definite(o); }
