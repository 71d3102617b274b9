/* reflectors.cuh: what householder.cuh has, of complex numbers: reflectors H = I - tau v v^H, v_0 = 1 (LAPACK's larfg),
 * in the order of operations of kernels/qr/qr_lanes.h. x and v are pointers to numbers, or what is used like them. */

/* Keeps the largest magnitude of a part; false where one is not finite. */
__device__ inline bool measure(Complex x, T &largest) { return measure(x.re, largest) & measure(x.im, largest); }

/* The sum of the squares of x(1) .. x(count - 1), of real parts, and of imaginary ones; to it comes that of x(0). */
template <class X> __device__ inline T sum_of_squares(X x, int count) {
    T re = 0, im = 0;
    EACH(int i = 1; i < count; i++) {
        const Complex y = x(i);
        re = multiply_add(y.re, y.re, re);
        im = multiply_add(y.im, y.im, im);
    }
    return re + im;
}
__device__ inline T add_square(Complex x, T sum) { return multiply_add(x.im, x.im, multiply_add(x.re, x.re, sum)); }

/* The same times a power of two. */
template <class X> __device__ inline T squares_of(X x, int step, int count, T scale) {
    const auto y = [&](int i) { return scaled(x[i * step], scale); };
    return add_square(y(0), sum_of_squares(y, count));
}

/* x becomes beta, which is real, above v_1, v_2, ...; tau is 0 where there is nothing to annihilate. By all lanes of a
 * matrix, or ALONE by each of what it has in registers. */
template <bool ALONE = false, class X>
__device__ inline void make_reflector_together(X x, int step, int count, Complex *tau) {
    const int own = ALONE ? 0 : lane();
    const T rest = sum_of_squares([&](int i) { return x[i * step]; }, count);
    T squares = add_square(x[0], rest), scale = 1, back = 1;
    bool nothing = false;
    if (!is_ordinary(rest, squares)) {
        nothing = Complex(x[0]).im == 0;
        EACH(int i = 1; i < count; i++) nothing &= is_zero(x[i * step]);
        if (squares < SQUARES_LOW || squares > SQUARES_HIGH) {
            scale = squares < SQUARES_LOW ? SCALE_UP : SCALE_DOWN;
            back = squares < SQUARES_LOW ? SCALE_DOWN : SCALE_UP;
            squares = squares_of(x, step, count, scale);
        }
    }
    const Complex first = scaled(x[0], scale);
    const T norm = root(squares), beta = first.re < 0 ? norm : -norm;
    const Complex r = ComplexDivisor({first.re - beta, first.im}).inverse();
    if (!ALONE) sync_lanes();
    if (!nothing)
        EACH(int i = 1 + own; i < count; i += ALONE ? 1 : LANES) x[i * step] = product(scaled(x[i * step], scale), r);
    if (own == 0) {
        if (!nothing) x[0] = Complex{product(beta, back), 0};
        *tau = nothing ? Complex{0, 0} : Complex{quotient_of(beta - first.re, beta), quotient_of(-first.im, beta)};
    }
    if (!ALONE) sync_lanes();
}

/* x = x - v factor (v^H x), by one thread. */
template <class V, class X>
__device__ inline void reflect(V v, Complex factor, X x, int step_v, long long step, int count) {
    Complex w = x[0];
    EACH(int i = 1; i < count; i++) w = multiply_add(conjugate(v[i * step_v]), x[i * step], w);
    w = product(factor, w);
    x[0] = difference_of(x[0], w);
    EACH(int i = 1; i < count; i++) x[i * step] = multiply_subtract(v[i * step_v], w, x[i * step]);
}
/* x = x - (x v) tau v^H: a row. */
template <class V, class X> __device__ inline void reflect_row(V v, Complex tau, X x, int count) {
    Complex w = x[0];
    EACH(int i = 1; i < count; i++) w = multiply_add(v[i], x[i], w);
    w = product(tau, w);
    x[0] = difference_of(x[0], w);
    EACH(int i = 1; i < count; i++) x[i] = multiply_subtract(conjugate(v[i]), w, x[i]);
}
__device__ inline void reflect_row(const T *v, T tau, T *x, int count) { reflect(v, tau, x, 1, 1, count); }

/* x = H x where x_0 is still zero. Of H e_0 the first element, and that where v is. */
template <class V, class X>
__device__ inline void reflect_from_zero(V v, Complex tau, X x, int step_v, long long step, int count) {
    x[0] = Complex{0, 0};
    reflect(v, tau, x, step_v, step, count);
}
__device__ inline Complex first_of_unit(Complex tau) {
    return difference_of(Complex{1, 0}, product(tau, Complex{1, 0}));
}
__device__ inline Complex rest_of_unit(Complex tau, Complex v) {
    return multiply_subtract(v, product(tau, Complex{1, 0}), Complex{0, 0});
}

/* --- matrices, real or complex --- */

/* M x N elements in shared memory, by rows, which are PITCH apart, become R above the reflectors. */
template <int M, int N, int PITCH> __device__ inline void factor_in_memory(Element *a, Element *tau) {
    EACH_STEP(int k = 0; k < min_of(M, N); k++) {
        Element *x = a + k * PITCH + k;
        make_reflector_together(x, PITCH, M - k, tau + k);
        EACH_STEP(int j = k + 1 + lane(); j < N; j += LANES)
            reflect(x, conjugate(tau[k]), x + j - k, PITCH, PITCH, M - k);
        sync_lanes();
    }
}

/* x = column j of H_0 H_1 ... of an M x N matrix's reflectors, by one thread. */
template <int M, int N, int PITCH, class X>
__device__ inline void form_column(const Element *a, const Element *tau, int j, X x, long long step) {
    EACH(int i = 0; i < M; i++) x[i * step] = element_of(i == j);
    EACH_STEP(int k = min_of(j, min_of(M, N) - 1); k >= 0; k--) {
        const Element *v = a + k * PITCH + k;
        if (k != j) {
            reflect_from_zero(v, tau[k], x + k * step, PITCH, step, M - k);
            continue;
        }
        x[k * step] = first_of_unit(tau[k]);
        EACH(int i = 1; i < M - k; i++) x[(k + i) * step] = rest_of_unit(tau[k], v[i * PITCH]);
    }
}

/* Of M x N elements the first columns of H_0 H_1 ... take the place of the reflectors, whose number they have: when H_k
 * comes, the columns right of it are those of H_k+1 ... from row k + 1 on, and what is above is not read. */
template <int M, int N, int PITCH> __device__ inline void form_in_place(Element *a, const Element *tau) {
    EACH_STEP(int k = min_of(M, N) - 1; k >= 0; k--) {
        Element *v = a + k * PITCH + k;
        EACH_STEP(int j = k + 1 + lane(); j < min_of(M, N); j += LANES)
            reflect_from_zero(v, tau[k], v + j - k, PITCH, PITCH, M - k);
        sync_lanes();
        EACH(int i = lane(); i < M - k; i += LANES)
            v[i * PITCH] = i ? rest_of_unit(tau[k], v[i * PITCH]) : first_of_unit(tau[k]);
        sync_lanes();
    }
}
