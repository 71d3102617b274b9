/* eigh_of_numbers.cuh: A = V diag(w) V^H of Hermitian A, or w only, by the method of eigh.cuh: Householder reflectors
 * leave a T that is real (LAPACK's hetrd and ungtr), and rotations of T turn real and imaginary parts of V alike. As
 * kernels/eigh_numbers.h has it. Of A one triangle is read, and of its diagonal the real parts.
 *
 * Whoever includes it has N, VECTORS, and UPPER, by which A is turned; operands are Places (place.cuh). */
#include "rotations.cuh"
#include "tridiagonal.cuh"
#include "vectors.cuh"

struct Work {
    Number tau[N], w[N]; /* of the reflectors; room for a column */
    Parts<N> a;          /* A^T above the diagonal, then the reflectors there, then V */
    Tridiagonal<N> t;
};

/* The triangle in question. The largest magnitude of a part, and whether all are finite, for all lanes. */
template <class A> __device__ inline bool load(Work &x, const A &from, T &largest) {
    Number few[FEW ? N * N : 1];
    if constexpr (FEW) from.template load<N, N>(few);
    bool finite = true;
    largest = 0;
    EACH(int e = lane(); e < N * N; e += LANES) {
        const int i = e / N, j = e % N;
        if (i > j) continue;
        Number y = FEW ? few[FEW ? e : 0] : from.get(i, j);
        if (UPPER) y = conjugate(y);
        if (i == j) y.im = 0;
        finite &= measure(y, largest);
        x.a.at(i, j) = y;
    }
    return meet(largest, finite);
}

/* B = H^H B H, of the rows and columns from k on: w = tau B v, w = w - |tau|^2 (v^H B v) / 2 v, B = B - v w^H - w v^H.
 * v, of which v_k = 1, is in row k - 1. */
__device__ inline void reflect_both_sides(Work &x, int k) {
    const Number tau = x.tau[k - 1];
    const auto v = [&](int i) { return i == k ? Number{1, 0} : Number(x.a.at(k - 1, i)); };
    EACH(int i = k + lane(); i < N; i += LANES) {
        Number sum = x.a.at(k, i);
        EACH(int j = k + 1; j < N; j++)
            sum = multiply_add(j > i ? conjugate(x.a.at(i, j)) : Number(x.a.at(j, i)), v(j), sum);
        x.w[i] = product(tau, sum);
    }
    wait();
    Number dot = x.w[k];
    EACH(int i = k + 1; i < N; i++) dot = multiply_add(conjugate(v(i)), x.w[i], dot);
    const T half = product(T(-0.5), multiply_add(tau.im, dot.im, product(tau.re, dot.re)));
    wait();
    EACH(int i = k + lane(); i < N; i += LANES)
        x.w[i] = {multiply_add(half, v(i).re, x.w[i].re), multiply_add(half, v(i).im, x.w[i].im)};
    wait();
    EACH(int j = k + lane(); j < N; j += LANES)
        EACH(int i = k; i <= j; i++) {
            Number b = multiply_subtract(conjugate(v(i)), x.w[j], x.a.at(i, j));
            b = multiply_subtract(conjugate(x.w[i]), v(j), b);
            x.a.at(i, j) = Number{b.re, i == j ? T(0) : b.im};
        }
    wait();
}

__device__ inline void tridiagonalise(Work &x) {
    EACH(int k = 0; k < N; k++) {
        if (k + 1 < N) make_reflector_of_numbers([&](int i) { return x.a.at(k, k + 1 + i); }, N - k - 1, x.tau[k]);
        if (lane() == 0) x.t.d[k] = x.a.at(k, k).re;
        if (lane() == 0 && k + 1 < N) x.t.e[k] = x.a.at(k, k + 1).re;
        if (k + 2 < N) reflect_both_sides(x, k + 1);
    }
    wait();
}

/* w is a row. The result is info. */
template <class A, class Values, class Vectors>
__device__ inline int eigh(Work &x, const A &a, const Values &w, const Vectors &v) {
    T largest;
    const bool finite = load(x, a, largest);
    const T scale = finite ? scale_for(largest) : T(1), back = reciprocal(scale);
    int info = 0;
    if (finite) {
        EACH(int e = lane(); e < N * N && scale != 1; e += LANES)
            if (e / N <= e % N) x.a.at(e / N, e % N) = scaled(x.a.at(e / N, e % N), scale);
        wait();
        tridiagonalise(x);
        if (VECTORS) form_vectors(x.a, x.tau);
        info = diagonalise<N, Parts<N>::PITCH, 2 * N>(x.t, VECTORS ? x.a.x : nullptr);
    }
    const bool good = finite && !info;
    T values[FEW ? N : 1];
    Number vectors[FEW ? N * N : 1];
    EACH(int j = lane(); j < N; j += LANES) {
        int place = 0; /* equal ones in the order in which they were found */
        EACH(int i = 0; i < N; i++) place += x.t.d[i] < x.t.d[j] || (i < j && x.t.d[i] == x.t.d[j]);
        if (!good) place = j;
        const T value = good ? product(x.t.d[j], back) + T(0) : not_a_number();
        if constexpr (FEW)
            put(values, place, value);
        else
            w.put(0, place, value);
        if constexpr (VECTORS)
            give_turned([&](int i) { return Number(x.a.at(i, j)); }, N,
                        [&](int i, Number y) {
                            if (!good) y = not_a_complex_number();
                            if constexpr (FEW)
                                put(vectors, i * N + place, y, i * N, N);
                            else
                                v.put(i, place, y);
                        });
    }
    if constexpr (FEW) w.template store<1, N>(values);
    if constexpr (FEW && VECTORS) v.template store<N, N>(vectors);
    return info;
}
