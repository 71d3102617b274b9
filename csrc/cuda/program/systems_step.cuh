/* systems_step.cuh: factors of complex matrices, solutions of their systems, and LU of any that are rectangular, as
 * steps, by systems.cuh. */
#include "function.cuh"
#include "systems.cuh"
#include "systems_determinant.cuh"

struct Work {
    Element elements[MATRIX + RHS];
    int integers[INTEGERS];
};
inline MatrixWorkspace workspace_of(Work &w) { return {w.elements, w.elements + MATRIX, nullptr, w.integers}; }

template <class A> inline void load_matrix(const MatrixWorkspace &o, A a) {
    for (int e = lane(); e < M * N; e += LANES) o.a(e / N, e % N) = a(e / N, e % N);
    sync_lanes();
}
template <class B> inline void load_columns(const MatrixWorkspace &o, B b) {
    for (int e = lane(); e < N * COLUMNS; e += LANES) o.x(e / COLUMNS, e % COLUMNS) = b(e / COLUMNS, e % COLUMNS);
    sync_lanes();
}
/* To columns of X from `first` on. */
template <class X>
inline void store_columns(const MatrixWorkspace &o, X x, int info, int first = 0, int columns = COLUMNS) {
    for (int e = lane(); e < N * COLUMNS; e += LANES)
        if (first + e % COLUMNS < columns)
            x(e / COLUMNS, first + e % COLUMNS) = info ? not_an_element() : o.x(e / COLUMNS, e % COLUMNS);
    sync_lanes();
}
template <class To> inline void store_factors(const MatrixWorkspace &o, To to, int info) {
    for (int e = lane(); e < M * N; e += LANES) to(e / N, e % N) = info ? not_an_element() : o.factor(e / N, e % N);
}

template <class A, class X, class Info> inline void step(Work &w, A a, X x, Info info) { /* CHOLESKY, INV, DET */
    constexpr bool OF_TRANSPOSE = FACTORS && UPPER;
    const MatrixWorkspace o = workspace_of(w);
    load_matrix(o, transposed_if<OF_TRANSPOSE>(a));
    const Outcome outcome = prepare(o);
    if constexpr (INVERTS) {
        const auto one = [](int first) {
            return [=](int i, int j) { return Complex{static_cast<T>(i == first + j), 0}; };
        };
        for (int first = 0; first < N; first += COLUMNS) {
            load_columns(o, one(first));
            solve(o);
            store_columns(o, x, outcome.info, first, N);
        }
    } else if constexpr (FACTORS) {
        store_factors(o, transposed_if<OF_TRANSPOSE>(x), outcome.info);
    } else if (lane() == 0) {
        give_determinant(o, outcome.singular, [&](Complex det) { x(0) = det; }, [](T) {});
    }
    put_info(info, lane(), outcome.info);
}

template <class A, class Second, class Third, class Info> /* LU, SLOGDET, and solutions */
inline void step(Work &w, A a, Second second, Third third, Info info) {
    const MatrixWorkspace o = workspace_of(w);
    if constexpr (OF_ADJOINT)
        load_matrix(o, [&](int i, int j) { return conjugate(a(j, i)); });
    else
        load_matrix(o, a);
    if constexpr (SOLVES) load_columns(o, second);
    const Outcome outcome = prepare(o);
    if constexpr (SOLVES) {
        solve(o);
        store_columns(o, third, outcome.info);
    } else if constexpr (FACTORS) {
        store_factors(o, second, outcome.info);
        for (int i = lane(); i < STEPS; i += LANES) third(i) = outcome.info && i + 1 >= outcome.info ? i : o.pivot(i);
    } else if (lane() == 0) {
        give_determinant(o, outcome.singular, [&](Complex sign) { second(0) = sign; }, [&](T log) { third(0) = log; });
    }
    put_info(info, lane(), outcome.info);
}

template <class A, class Pivots, class B, class X, class Info> /* LU_SOLVE */
inline void step(Work &w, A a, Pivots pivots, B b, X x, Info info) {
    const MatrixWorkspace o = workspace_of(w);
    for (int i = lane(); i < N; i += LANES) o.pivot(i) = pivots(i);
    step(w, a, b, x, info);
}
