/* eigh_step.cuh: EIGH and EIGVALSH as steps. */
#include "function.cuh"

constexpr int N = SMM_N;
constexpr bool VECTORS = SMM_OP == SMM_OP_EIGH, UPPER = SMM_FORM & UPPER_FORM;
#include "eigh.cuh"

template <class A, class Values, class Vectors, class Info>
inline void step(Work &x, A a, Values w, Vectors v, Info info) {
    put_info(info, lane(),
             eigh(x, operand_view(transposed_if<!UPPER>(a)), operand_view(transposed(w)), operand_view(v)));
}
template <class A, class Values, class Info> inline void step(Work &x, A a, Values w, Info info) {
    step(x, a, w, Missing{}, info);
}
