/* eigh_step.cuh: EIGH and EIGVALSH as steps, by eigh.cuh. */
#include "function.cuh"

constexpr int N = SMM_N;
constexpr bool VECTORS = SMM_OP == SMM_OP_EIGH;
#include "eigh.cuh"

template <class A, class Values, class Vectors, class Info>
inline void step(Work &x, A a, Values w, Vectors v, Info info) {
    const auto upper = place(transposed_if<!(SMM_FORM & UPPER_FORM)>(a));
    put_info(info, lane(), eigh(x, upper, place(transposed(w)), place(v)));
}
template <class A, class Values, class Info> inline void step(Work &x, A a, Values w, Info info) {
    step(x, a, w, Missing{}, info);
}
