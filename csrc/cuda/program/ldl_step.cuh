/* ldl_step.cuh: LDL, LDL_SOLVE and SOLVE_SYM as steps. */
#include "function.cuh"

#include "ldl.cuh"

template <class A, class Pivots, class B, class X, class Info> /* LDL_SOLVE */
inline void step(Work &w, A a, Pivots pivots, B b, X x, Info info) {
    put_info(info, lane(), ldl(w, operand_view(a), operand_view(pivots), operand_view(b), operand_view(x), SMM_K));
}
template <class A, class Second, class Third, class Info> /* LDL, SOLVE_SYM */
inline void step(Work &w, A a, Second second, Third third, Info info) {
    if constexpr (SOLVES)
        step(w, a, Missing{}, second, third, info);
    else
        step(w, a, third, Missing{}, second, info);
}
