/* vectors.cuh: unitary matrices of reflectors and of the rotations of a sweep: what eigenvectors and singular vectors
 * of complex matrices have in common. By all lanes of a matrix. */
/* The sums of the squares of real and imaginary parts of x_1 .. x_count-1, times a power of two, and then those of x_0.
 */
template <class X> __device__ inline T squares_of(X x, int count, T scale) {
    T re = 0, im = 0;
    EACH(int i = 1; i < count; i++) {
        const Number y = scaled(x(i), scale);
        re = multiply_add(y.re, y.re, re);
        im = multiply_add(y.im, y.im, im);
    }
    const Number y = scaled(x(0), scale);
    return multiply_add(y.im, y.im, multiply_add(y.re, y.re, re + im));
}

/* x becomes beta, which is real, above v_1, v_2, ...; tau is 0 where there is nothing to annihilate. */
template <class X> __device__ inline void make_reflector_of_numbers(X x, int count, Number &tau) {
    bool nothing = Number(x(0)).im == 0;
    EACH(int i = 1; i < count; i++) nothing &= is_zero(x(i));
    T squares = squares_of(x, count, 1), scale = 1, back = 1;
    if (squares < SQUARES_LOW || squares > SQUARES_HIGH) {
        scale = squares < SQUARES_LOW ? SCALE_UP : SCALE_DOWN;
        back = squares < SQUARES_LOW ? SCALE_DOWN : SCALE_UP;
        squares = squares_of(x, count, scale);
    }
    const Number first = scaled(x(0), scale);
    const T norm = root(squares), beta = first.re < 0 ? norm : -norm;
    const Number r = NumberDivisor({first.re - beta, first.im}).inverse();
    wait();
    if (!nothing)
        EACH(int i = 1 + lane(); i < count; i += LANES) x(i) = product(scaled(x(i), scale), r);
    if (lane() == 0) {
        if (!nothing) x(0) = Number{product(beta, back), 0};
        tau = nothing ? Number{0, 0} : Number{quotient_of(beta - first.re, beta), quotient_of(-first.im, beta)};
    }
    wait();
}

/* x = x - v factor (v^H x), by one thread. */
template <class V, class X> __device__ inline void reflect_numbers(V v, Number factor, X x, int count) {
    Number w = x(0);
    EACH(int i = 1; i < count; i++) w = multiply_add(conjugate(v(i)), x(i), w);
    w = product(factor, w);
    const Number first = x(0);
    x(0) = Number{first.re - w.re, first.im - w.im};
    EACH(int i = 1; i < count; i++) x(i) = multiply_subtract(v(i), w, x(i));
}
/* x = x - (x v) tau v^H: a row. */
template <class V, class X> __device__ inline void reflect_row_of_numbers(V v, Number tau, X x, int count) {
    Number w = x(0);
    EACH(int i = 1; i < count; i++) w = multiply_add(v(i), x(i), w);
    w = product(tau, w);
    const Number first = x(0);
    x(0) = Number{first.re - w.re, first.im - w.im};
    EACH(int i = 1; i < count; i++) x(i) = multiply_subtract(conjugate(v(i)), w, x(i));
}

/* M x N numbers by rows become R above the reflectors; a lane has columns l, l + LANES, ... */
template <int M, int N, int PITCH> __device__ inline void factor_numbers(Number *a, Number *tau) {
    EACH(int k = 0; k < least(M, N); k++) {
        const auto v = [&](int i) -> Number & { return a[(k + i) * PITCH + k]; };
        make_reflector_of_numbers(v, M - k, tau[k]);
        EACH(int j = k + 1 + lane(); j < N; j += LANES)
            reflect_numbers(v, conjugate(tau[k]), [&](int i) -> Number & { return a[(k + i) * PITCH + j]; }, M - k);
        wait();
    }
}

/* x = column j of H_0 H_1 ... of the reflectors of M x N numbers, by one thread. */
template <int M, int N, int PITCH, class X>
__device__ inline void form_column_of_numbers(const Number *a, const Number *tau, int j, X x) {
    EACH(int i = 0; i < M; i++) x(i) = Number{static_cast<T>(i == j), 0};
    EACH(int k = least(j, least(M, N) - 1); k >= 0; k--)
        reflect_numbers([&](int i) { return a[(k + i) * PITCH + k]; }, tau[k],
                        [&](int i) -> decltype(auto) { return x(k + i); }, M - k);
}

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

/* Keeps the largest magnitude of a part; false where one is not finite. */
__device__ inline bool measure(Number y, T &largest) {
    if (fabs(y.re) > largest) largest = fabs(y.re);
    if (fabs(y.im) > largest) largest = fabs(y.im);
    return is_finite(y.re) && is_finite(y.im);
}
