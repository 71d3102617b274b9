/* lstsq_step.cuh: LSTSQ as a step: all right-hand sides at a time. */
#include "function.cuh"

constexpr int M = SMM_M, N = SMM_N, K = SMM_K, ROWS = M;
#include "lstsq.cuh"

template <class A, class B, class Tolerance, class X, class Norms, class Rank, class Info>
inline void step(Work &w, A a, B b, Tolerance rtol, X x, Norms norms, Rank ranks, Info info) {
    const int rank =
        lstsq(w, operand_view(a), operand_view(b), rtol(0), K, operand_view(x), operand_view(transposed(norms)));
    put_info(ranks, lane(), rank);
    put_info(info, lane(), 0);
}
