/* triangular_of_numbers.cuh: X of A X = B with complex triangular A (SOLVE_TRIANGULAR), with the factors of Cholesky
 * (CHO_SOLVE): L L^H X = B, in the form UPPER U^H U X = B; or with positive definite A, which is factored first
 * (SOLVE_POS). As kernels/triangular_numbers.h and kernels/cholesky_numbers.h have it, in what own.cuh says. */
constexpr int N = SMM_N, COLUMNS = SMM_K;
constexpr bool UPPER = SMM_FORM & 1, UNIT = SMM_FORM & 2, DEFINITE = SMM_OP == SMM_OP_SOLVE_POS;
#include "own.cuh"

__device__ inline void solve(const Own &o) {
    if constexpr (SMM_OP == SMM_OP_CHO_SOLVE || DEFINITE) {
        constexpr bool OF_U = UPPER && !DEFINITE;
        solve_triangle<OF_U ? ADJOINT : PLAIN, false, false>(o);
        solve_triangle<OF_U ? PLAIN : ADJOINT, true, false>(o);
    } else {
        solve_triangle<PLAIN, UPPER, UNIT>(o);
    }
}

/* The first zero on the diagonal, from 1, by which it would divide; or 0. */
__device__ inline int first_zero(const Own &o) {
    for (int j = 0; j < N && !UNIT; j++)
        if (is_zero(o.a(j, j))) return j + 1;
    return 0;
}
