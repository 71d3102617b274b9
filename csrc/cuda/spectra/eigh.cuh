/* eigh.cuh: A = V diag(w) V^T of symmetric A, or w only: Householder tridiagonalisation and implicit QR with
 * Wilkinson's shift (LAPACK's sytrd, orgtr and steqr; Golub and Van Loan, Matrix Computations, section 8.3), in shared
 * memory, or of few rows in a thread's registers. By all lanes of a matrix, which take its columns and rows by turns;
 * the first finds the rotations of a sweep, all do them.
 *
 * Whoever includes it has N, the order, and VECTORS; operands are Places (place.cuh). */
#include "rotations.cuh"
#include "tridiagonal.cuh"

constexpr int PITCH = N | 1; /* lanes have rows, or columns: either way in different banks */

struct Work {
    T a[N * PITCH]; /* A above the diagonal, then the reflectors there, then V */
    Tridiagonal<N> t;
    T tau[N], w[N]; /* of the reflectors; room for a column */
};

/* The upper triangle. The largest magnitude, and whether all are finite, for all lanes. */
template <class A> __device__ inline bool load(Work &x, const A &from, T &largest) {
    T few[FEW ? N * N : 1];
    if constexpr (FEW) from.template load<N, N>(few);
    bool finite = true;
    largest = 0;
    EACH(int e = lane(); e < N * N; e += LANES) {
        const int i = e / N, j = e % N;
        if (i > j) continue;
        const T y = FEW ? few[FEW ? e : 0] : from.get(i, j);
        finite = finite && is_finite(y);
        if (fabs(y) > largest) largest = fabs(y);
        x.a[i * PITCH + j] = y;
    }
    return meet(largest, finite);
}

/* --- A = Q T Q^T --- */

/* B = H B H, of the rows and columns from k on: w = tau B v, w = w - (tau / 2) (w^T v) v, B = B - v w^T - w v^T. v, of
 * which v_k = 1, is in row k - 1. */
__device__ inline void reflect_both_sides(Work &x, int k) {
    const T *v = x.a + (k - 1) * PITCH, tau = x.tau[k - 1];
    EACH(int i = k + lane(); i < N; i += LANES) {
        T sum = x.a[k * PITCH + i];
        EACH(int j = k + 1; j < N; j++) sum = multiply_add(j < i ? x.a[j * PITCH + i] : x.a[i * PITCH + j], v[j], sum);
        x.w[i] = product(tau, sum);
    }
    wait();
    T dot = x.w[k];
    EACH(int i = k + 1; i < N; i++) dot = multiply_add(x.w[i], v[i], dot);
    const T half = product(product(T(-0.5), tau), dot);
    wait();
    EACH(int i = k + lane(); i < N; i += LANES) x.w[i] = i == k ? x.w[i] + half : multiply_add(half, v[i], x.w[i]);
    wait();
    EACH(int j = k + lane(); j < N; j += LANES)
        EACH(int i = k; i <= j; i++) {
            T &b = x.a[i * PITCH + j];
            b = multiply_add(-(i == k ? T(1) : v[i]), x.w[j], b);
            b = multiply_add(-x.w[i], j == k ? T(1) : v[j], b);
        }
    wait();
}

__device__ inline void tridiagonalise(Work &x) {
    EACH(int k = 0; k < N; k++) {
        T *row = x.a + k * PITCH + k;
        if (k + 1 < N) make_reflector_together(row + 1, 1, N - k - 1, x.tau + k);
        if (lane() == 0) x.t.d[k] = row[0];
        if (lane() == 0 && k + 1 < N) x.t.e[k] = row[1];
        if (k + 2 < N) reflect_both_sides(x, k + 1);
    }
    wait();
}

/* --- all of it --- */

/* Column j times the sign that makes its largest element, the first of equals, positive; zeros are positive. */
template <class TO> __device__ inline void give_column(const Work &x, int j, TO to) {
    T largest = x.a[j];
    EACH(int i = 1; i < N; i++)
        if (fabs(x.a[i * PITCH + j]) > fabs(largest)) largest = x.a[i * PITCH + j];
    EACH(int i = 0; i < N; i++) to(i, (largest < 0 ? -x.a[i * PITCH + j] : x.a[i * PITCH + j]) + T(0));
}

/* Of A the upper triangle is read; w is a row. The result is info. */
template <class A, class Values, class Vectors>
__device__ inline int eigh(Work &x, const A &a, const Values &w, const Vectors &v) {
    T largest;
    const bool finite = load(x, a, largest);
    const T scale = finite ? scale_for(largest) : T(1), back = reciprocal(scale);
    int info = 0;
    if (finite) {
        EACH(int e = lane(); e < N * N && scale != 1; e += LANES)
            if (e / N <= e % N) x.a[e / N * PITCH + e % N] = product(x.a[e / N * PITCH + e % N], scale);
        wait();
        tridiagonalise(x);
        if (VECTORS) form_vectors<N, PITCH>(x.a, x.tau);
        info = diagonalise<N, PITCH, N>(x.t, VECTORS ? x.a : nullptr);
    }
    const bool good = finite && !info;
    T values[FEW ? N : 1], vectors[FEW ? N * N : 1];
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
            give_column(x, j, [&](int i, T y) {
                if (!good) y = not_a_number();
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
