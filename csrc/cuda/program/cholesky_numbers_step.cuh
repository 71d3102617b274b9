/* cholesky_numbers_step.cuh: CHOLESKY of complex matrices as a step, by cholesky_of_numbers.cuh. */
#include "function.cuh"
#include "cholesky_of_numbers.cuh"
#include "own_step.cuh"

template <class A, class L, class Info> inline void step(Work &w, A a, L l, Info info) {
    constexpr bool UPPER = SMM_FORM & UPPER_FORM;
    const Own o = own_of(w);
    const auto to = transposed_if<UPPER>(l);
    load_matrix(o, transposed_if<UPPER>(a));
    const int failed = factor(o);
    for (int e = lane(); e < N * N; e += LANES) {
        const int i = e / N, j = e % N;
        to(i, j) = failed ? not_a_complex_number() : i >= j ? o.a(i, j) : Number{0, 0};
    }
    put_info(info, lane(), failed);
}
