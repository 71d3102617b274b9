/* cholesky_of_numbers.cuh: L of Hermitian A = L L^H, from A's lower triangle, and X of A X = B by it (SOLVE_POS), as
 * kernels/cholesky_numbers.h has them, in what own.cuh says. */
constexpr int N = SMM_N, COLUMNS = SMM_OP == SMM_OP_SOLVE_POS ? SMM_K : 0;
#include "own.cuh"

/* The lower triangle becomes L. Returns the first step, from 1, whose pivot is not positive; or 0. */
__device__ inline int factor(const Own &o) {
    int info = 0;
#pragma unroll 1
    for (int j = 0; j < N; j++) {
        const T pivot = o.a(j, j).re;
        if (!info && !(pivot > 0)) info = j + 1;
        const T length = root(pivot), r = reciprocal(length);
        __syncwarp();
        if (own_row(j) == j) o.a(j, j) = {length, 0};
        for (int i = own_row(j + 1); i < N; i += LANES) o.a(i, j) = scaled(o.a(i, j), r);
        __syncwarp();
        for (int i = own_row(j + 1); i < N; i += LANES) {
            const Number l = o.a(i, j);
            for (int k = j + 1; k <= i; k++) o.a(i, k) = multiply_subtract(l, conjugate(o.a(k, j)), o.a(i, k));
        }
        __syncwarp();
    }
    return info;
}

__device__ inline void solve(const Own &o) {
    solve_triangle<PLAIN, false, false>(o);
    solve_triangle<ADJOINT, true, false>(o);
}
