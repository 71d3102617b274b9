/* matmul_elements.cuh: the sizes of a product and its elements, for texts in which a thread has sums of its own.
 *
 * Order of operations, fixed: a_i0 b_0j, then fma(a_ik, b_kj, c) for k = 1, 2, ... */
#define SMM_LANES 1
#include "lanes.cuh"
#include "element.cuh"
#include "element_vectors.cuh"

constexpr int M = SMM_M, K = SMM_K, N = SMM_N;
constexpr bool A_BY_ROWS = SMM_ORDER_A == SMM_ORDER_ROW, B_BY_ROWS = SMM_ORDER_B == SMM_ORDER_ROW;

/* A complex C by columns is computed as C^T = B^T A^T, but the bits depend on which factor comes first. */
constexpr bool EXCHANGED = SMM_ORDER_C == SMM_ORDER_COL;
__device__ inline Element term(Element x, Element y) { return EXCHANGED ? product(y, x) : product(x, y); }
__device__ inline Element add_term(Element x, Element y, Element sum) {
    return EXCHANGED ? multiply_add(y, x, sum) : multiply_add(x, y, sum);
}
