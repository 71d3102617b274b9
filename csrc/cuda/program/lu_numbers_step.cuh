/* lu_numbers_step.cuh: LU of complex matrices and what follows from it as steps, by lu_of_numbers.cuh. */
#include "function.cuh"
#include "lu_of_numbers.cuh"
#include "own_step.cuh"

template <class A, class X, class Info> inline void step(Work &w, A a, X x, Info info) { /* INV, DET */
    const Own o = own_of(w);
    load_matrix(o, a);
    const Outcome outcome = factor(o);
    if constexpr (INVERTS) {
        const auto one = [](int first) {
            return [=](int i, int j) { return Number{static_cast<T>(i == first + j), 0}; };
        };
        for (int first = 0; first < N; first += COLUMNS) {
            load_columns(o, one(first));
            solve(o);
            store_columns(o, x, outcome.info, first, N);
        }
    } else if (lane() == 0) {
        give_determinant(o, outcome.singular, [&](Number det) { x(0) = det; }, [](T) {});
    }
    put_info(info, lane(), outcome.info);
}

template <class A, class Second, class Third, class Info> /* LU, SOLVE, SLOGDET */
inline void step(Work &w, A a, Second second, Third third, Info info) {
    const Own o = own_of(w);
    load_matrix(o, a);
    if constexpr (SOLVES) load_columns(o, second);
    const Outcome outcome = factor(o);
    if constexpr (SOLVES) {
        solve(o);
        store_columns(o, third, outcome.info);
    } else if constexpr (SMM_OP == SMM_OP_LU) {
        for (int e = lane(); e < N * N; e += LANES)
            second(e / N, e % N) = outcome.info ? not_a_complex_number() : o.a(e / N, e % N);
        for (int i = lane(); i < N; i += LANES) third(i) = outcome.info && i + 1 >= outcome.info ? i : o.pivots[i];
    } else if (lane() == 0) {
        give_determinant(o, outcome.singular, [&](Number sign) { second(0) = sign; }, [&](T log) { third(0) = log; });
    }
    put_info(info, lane(), outcome.info);
}

template <class A, class Pivots, class B, class X, class Info> /* LU_SOLVE */
inline void step(Work &w, A a, Pivots pivots, B b, X x, Info info) {
    const Own o = own_of(w);
    for (int i = lane(); i < N; i += LANES) o.pivots[i] = pivots(i);
    load_matrix(o, a);
    load_columns(o, b);
    const int failed = info_of_factors(o);
    solve(o);
    store_columns(o, x, failed);
    put_info(info, lane(), failed);
}
