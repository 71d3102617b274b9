/* vectors.cuh: unitary matrices of reflectors and of the rotations of a sweep: what eigenvectors and singular vectors
 * of complex matrices have in common. By all lanes of a matrix. */
#include "reflectors.cuh"

/* N x N numbers whose real and imaginary parts lie apart, so that rotations turn both alike: all real parts by rows,
 * then all imaginary ones. */
template <int N> struct Parts {
    static constexpr int PITCH = N | 1; /* lanes have rows, or columns: either way in different banks */
    T x[2 * N * PITCH];

    struct Place {
        T &re, &im;
        __device__ operator Number() const { return {re, im}; }
        __device__ void operator=(Number y) const { re = y.re, im = y.im; }
    };
    __device__ Place at(int i, int j) { return {x[i * PITCH + j], x[(N + i) * PITCH + j]}; }
};

/* V = H_0 H_1 ... of reflectors right of the diagonal in rows, from the last on: rows and columns up to k are still
 * those of I when H_k comes. */
template <int N> __device__ inline void form_vectors(Parts<N> &a, const Number *taus) {
    EACH(int k = N - 2; k >= 0; k--) {
        const Number tau = taus[k], minus = negative(tau);
        EACH(int j = k + 2 + lane(); j < N; j += LANES) {
            Number w = product(conjugate(a.at(k, k + 2)), a.at(k + 2, j));
            EACH(int i = k + 3; i < N; i++) w = multiply_add(conjugate(a.at(k, i)), a.at(i, j), w);
            w = product(tau, w);
            a.at(k + 1, j) = negative(w);
            EACH(int i = k + 2; i < N; i++) a.at(i, j) = multiply_subtract(a.at(k, i), w, a.at(i, j));
        }
        EACH(int i = k + 1 + lane(); i < N; i += LANES)
            a.at(i, k + 1) = i == k + 1 ? Number{1 - tau.re, 0 - tau.im} : product(minus, a.at(k, i));
        wait();
    }
    EACH(int i = lane(); i < N; i += LANES) {
        const Number one = {static_cast<T>(i == 0), 0};
        a.at(0, i) = one;
        a.at(i, 0) = one;
    }
    wait();
}

/* Gives `to` x_0 .. x_count-1 times the number of magnitude 1 that makes the largest, the first of equals, positive.
 * Zeros are positive. */
template <class X, class TO> __device__ inline void give_turned(X x, int count, TO to) {
    Number largest = {1, 0};
    T most = 0;
    int at = -1;
    EACH(int i = 0; i < count; i++) {
        const Number y = x(i);
        const T square = multiply_add(y.im, y.im, product(y.re, y.re));
        if (square > most) largest = y, most = square, at = i;
    }
    const T size = root(most);
    const Number phase = {quotient_of(largest.re, size), quotient_of(-largest.im, size)};
    EACH(int i = 0; i < count; i++) {
        const Number y = i == at ? Number{size, 0} : product(x(i), phase);
        to(i, Number{y.re + T(0), y.im + T(0)});
    }
}

/* Keeps the largest magnitude of a part; false where one is not finite. */
__device__ inline bool measure(Number y, T &largest) {
    if (fabs(y.re) > largest) largest = fabs(y.re);
    if (fabs(y.im) > largest) largest = fabs(y.im);
    return is_finite(y.re) && is_finite(y.im);
}
