/* qr_step.cuh: QR, QR_R and QR_RAW as steps, by qr.cuh. */
#include "function.cuh"

constexpr int M = SMM_M, N = SMM_N, K = SMM_K;
#include "qr.cuh"

template <class A, class First, class Second, class Info>
inline void step(Work &x, A a, First first, Second second, Info info) {
    if constexpr (SMM_OP == SMM_OP_QR)
        qr(x, operand_view(a), operand_view(first), operand_view(second));
    else
        qr_raw(x, operand_view(a), operand_view(first), operand_view(second));
    put_info(info, lane(), 0);
}
template <class A, class R, class Info> inline void step(Work &x, A a, R r, Info info) {
    qr_r(x, operand_view(a), operand_view(r));
    put_info(info, lane(), 0);
}
