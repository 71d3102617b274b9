/* svd_step.cuh: SVD, SVD_FULL and SVDVALS as steps, by svd.cuh. */
#include "function.cuh"

constexpr bool VECTORS = SMM_OP != SMM_OP_SVDVALS, FULL = SMM_OP == SMM_OP_SVD_FULL;
#include "svd.cuh"

template <class A, class U, class S, class Vt, class Info> inline void step(Work &w, A a, U u, S s, Vt vt, Info info) {
    const auto tall = operand_view(transposed_if<WIDE>(a));
    const auto values = operand_view(transposed(s));
    if constexpr (WIDE)
        put_info(info, lane(), svd(w, tall, values, operand_view(transposed(vt)), operand_view(u)));
    else
        put_info(info, lane(), svd(w, tall, values, operand_view(u), operand_view(transposed(vt))));
}
template <class A, class S, class Info> inline void step(Work &w, A a, S s, Info info) {
    put_info(info, lane(),
             svd(w, operand_view(transposed_if<WIDE>(a)), operand_view(transposed(s)), Missing{}, Missing{}));
}
