/* ldl_step.cuh: LDL, LDL_SOLVE and SOLVE_SYM as steps: the first of a matrix's threads works. */
#include "function.cuh"

constexpr int APART = 1;
#include "ldl.cuh"

struct Work {
    Element elements[ELEMENTS];
    int pivots[N];
};

template <class A, class Pivots, class B, class X, class Info> /* LDL_SOLVE */
inline void step(Work &w, A a, Pivots pivots, B b, X x, Info info) {
    const Own o = {w.elements, w.pivots};
    if (lane() == 0) put_info(info, 0, ldl(o, place(a), place(pivots), place(b), place(x), SMM_K));
}
template <class A, class Second, class Third, class Info> /* LDL, SOLVE_SYM */
inline void step(Work &w, A a, Second second, Third third, Info info) {
    if constexpr (SOLVES)
        step(w, a, Missing{}, second, third, info);
    else
        step(w, a, third, Missing{}, second, info);
}
