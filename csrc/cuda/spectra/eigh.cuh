/* eigh.cuh: A = V diag(w) V^H of symmetric or Hermitian A, or w only: of orders up to 4 by two-sided
 * Jacobi rotations (Demmel and Veselic, SIAM J. Matrix Anal. Appl. 13, 1992), of others by Householder
 * tridiagonalisation, which leaves a real T, and implicit QR with Wilkinson's shift (LAPACK's sytrd, orgtr and steqr;
 * Golub and Van Loan, Matrix Computations, section 8.3), in shared memory, or of few rows in a thread's registers. By
 * all lanes of a matrix, which take its columns and rows by turns; the first finds the rotations of a sweep, all do
 * them. Of A one triangle is read, and of its diagonal the real parts.
 *
 * Whoever includes it has N, the order, VECTORS, and UPPER, by which A is transposed; operands are OperandViews
 * (operand_view.cuh).
 */
#include "reflectors.cuh"
#include "rotations.cuh"
#include "tridiagonal.cuh"
#include "eigh_jacobi.cuh"

/* As in csrc/kernels/spectra/eigh_sweeps.h. */
constexpr bool BY_JACOBI = N <= 4;

struct Work {
    Element tau[N], w[N]; /* of the reflectors; room for a column */
    Vectors<N> a;         /* A^T above the diagonal, then the reflectors there, or A, then V */
    Tridiagonal<N> t;
};

/* The triangle in question. The largest magnitude of a part, and whether all are finite, for all lanes. */
template <class A> __device__ inline bool load(Vectors<N> &a, const A &from, T &largest) {
    Element few[FEW ? N * N : 1];
    if constexpr (FEW) from.template load<N, N>(few);
    bool finite = true;
    largest = 0;
    EACH(int e = lane(); e < N * N; e += LANES) {
        const int i = e / N, j = e % N;
        if (i > j) continue;
        Element y = FEW ? few[FEW ? e : 0] : from.get(i, j);
        if (UPPER != BY_JACOBI) y = conjugate(y);
        if (i == j) y = element_of(real_of(y));
        finite &= measure(y, largest);
        a.at(i, j) = y;
    }
    return meet(largest, finite);
}

/* --- A = Q T Q^H --- */

/* -Re(x^* y) / 2 */
__device__ inline T minus_half_of(T x, T y) { return product(product(T(-0.5), x), y); }
__device__ inline T minus_half_of(Complex x, Complex y) {
    return product(T(-0.5), multiply_add(x.im, y.im, product(x.re, y.re)));
}

/* B = H^H B H, of the rows and columns from k on: w = tau B v, w = w - |tau|^2 (v^H B v) / 2 v, B = B - v w^H - w v^H.
 * v, of which v_k = 1, is in row k - 1. */
__device__ inline void reflect_both_sides(Work &x, int k) {
    const Element tau = x.tau[k - 1];
    const auto tail = x.a.from(k - 1, 0);
    const auto v = [&](int i) { return i == k ? element_of(1) : Element(tail[i]); };
    EACH_STEP(int i = k + lane(); i < N; i += LANES) {
        Element sum = x.a.at(k, i);
        EACH(int j = k + 1; j < N; j++) {
            const Element b = x.a.at(min_of(i, j), max_of(i, j));
            sum = multiply_add(j > i ? conjugate(b) : b, tail[j], sum);
        }
        x.w[i] = product(tau, sum);
    }
    sync_lanes();
    Element dot = x.w[k];
    EACH(int i = k + 1; i < N; i++) dot = multiply_add(conjugate(tail[i]), x.w[i], dot);
    const T half = minus_half_of(tau, dot);
    sync_lanes();
    EACH(int i = k + lane(); i < N; i += LANES) x.w[i] = multiply_add(half, v(i), x.w[i]);
    sync_lanes();
    EACH_STEP(int j = k + lane(); j < N; j += LANES)
        EACH(int i = k; i <= j; i++) {
            Element b = multiply_subtract(conjugate(v(i)), x.w[j], x.a.at(i, j));
            b = multiply_subtract(conjugate(x.w[i]), v(j), b);
            x.a.at(i, j) = i == j ? element_of(real_of(b)) : b;
        }
    sync_lanes();
}

__device__ inline void tridiagonalise(Work &x) {
    EACH_STEP(int k = 0; k < N; k++) {
        if (k + 1 < N) make_reflector_together(x.a.from(k, k + 1), 1, N - k - 1, x.tau + k);
        if (lane() == 0) x.t.d[k] = real_of(x.a.at(k, k));
        if (lane() == 0 && k + 1 < N) x.t.e[k] = real_of(x.a.at(k, k + 1));
        if (k + 2 < N) reflect_both_sides(x, k + 1);
    }
    sync_lanes();
}

/* --- all of it --- */

/* Eigenvalue j of d comes to value(place, w), and vector j to element(i, place, v): in their order; NaN, if the matrix
 * is not good. */
template <class D, class Value, class Put>
__device__ inline void give(Vectors<N> &a, const D &d, int j, bool good, T back, Value value, Put element) {
    int place = 0; /* equal ones in the order in which they were found */
    EACH(int i = 0; i < N; i++) place += d[i] < d[j] || (i < j && d[i] == d[j]);
    if (!good) place = j;
    value(place, good ? product(d[j], back) + T(0) : not_a_number());
    if constexpr (VECTORS)
        give_normalized([&](int i) { return Element(a.at(i, j)); }, N,
                        [&](int i, Element y) { element(i, place, select(good, y, not_an_element())); });
}

/* w is a row. The result is info. */
template <class A, class Values, class Vs>
__device__ inline int eigh(Work &x, const A &a, const Values &w, const Vs &v) {
    T largest;
    const bool finite = load(x.a, a, largest);
    const T scale = finite ? scale_for(largest) : T(1), back = reciprocal(scale);
    int info = 0;
    if (finite) {
        EACH(int e = lane(); e < N * N && scale != 1; e += LANES)
            if (e / N <= e % N) x.a.at(e / N, e % N) = scaled(x.a.at(e / N, e % N), scale);
        sync_lanes();
        if constexpr (BY_JACOBI) {
            info = diagonalise_by_jacobi<N, VECTORS>(x.a, x.t.d);
        } else {
            tridiagonalise(x);
            if (VECTORS) form_vectors(x.a, x.tau);
            info = diagonalise(x.t, VECTORS ? &x.a : nullptr);
        }
    } else {
        sync_lanes(); /* for what the others have loaded: it is read below, and dropped */
    }
    const bool good = finite && !info;
    T values[FEW ? N : 1];
    Element vectors[FEW ? N * N : 1];
    EACH(int j = lane(); j < N; j += LANES)
        give(
            x.a, x.t.d, j, good, back,
            [&](int place, T y) {
                if constexpr (FEW)
                    put(values, place, y);
                else
                    w.put(0, place, y);
            },
            [&](int i, int place, Element y) {
                if constexpr (FEW)
                    put(vectors, i * N + place, y, i * N, N);
                else if constexpr (VECTORS)
                    v.put(i, place, y);
            });
    if constexpr (FEW) w.template store<1, N>(values);
    if constexpr (FEW && VECTORS) v.template store<N, N>(vectors);
    return info;
}
