/* triangular_numbers_step.cuh: CHO_SOLVE, SOLVE_TRIANGULAR and SOLVE_POS of complex matrices as steps, by
 * triangular_of_numbers.cuh. */
#include "function.cuh"
#include "triangular_of_numbers.cuh"
#include "own_step.cuh"

template <class A, class B, class X, class Info> inline void step(Work &w, A a, B b, X x, Info info) {
    const Own o = own_of(w);
    if constexpr (DEFINITE && UPPER)
        load_matrix(o, [&](int i, int j) { return conjugate(a(j, i)); });
    else
        load_matrix(o, a);
    load_columns(o, b);
    const int failed = DEFINITE ? factor_definite(o) : first_zero(o);
    solve(o);
    store_columns(o, x, failed);
    put_info(info, lane(), failed);
}
