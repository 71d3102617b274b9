/* sqrtm.cuh: square roots by way of the triangle that eig.cuh leaves, in the order of operations of
 * kernels/spectra/sqrtm_lanes.h. Those of real matrices are complex meanwhile. Functions are templates because only
 * this operation's Work has what they need. */

#if SMM_COMPLEX
__device__ inline Complex *triangle_of(Work &x) { return x.h; }
__device__ inline void begin_blocks(Work &) {}
__device__ inline void end_blocks(Work &, bool) {}
#else
template <class W> __device__ inline Complex *triangle_of(W &x) { return x.u; }

/* (x; y) becomes W^H (x; y), where W = (c is; is c) is unitary; with -s, W (x; y), and (x y) W. */
__device__ inline void turn(T c, T s, Complex &x, Complex &y) {
    const Complex old = x;
    x = {multiply_add(s, y.im, product(c, old.re)), multiply_add(-s, y.re, product(c, old.im))};
    y = {multiply_add(s, old.im, product(c, y.re)), multiply_add(-s, old.re, product(c, y.im))};
}

/* U becomes W^H U W, of rows and columns k and k + 1. */
template <class W> __device__ inline void turn_block(W &x, int k, T c, T s) {
    Complex *const rows = x.u + k * ROW;
    EACH(int j = k + lane(); j < N; j += LANES) turn(c, s, rows[j], rows[ROW + j]);
    sync_lanes();
    EACH(int i = lane(); i <= k + 1; i += LANES) turn(c, -s, x.u[i * ROW + k], x.u[i * ROW + k + 1]);
    sync_lanes();
}

/* A block (a b; c a), of which b c is negative, has the eigenvalues a + iw and a - iw, w^2 = -b c, and the vector
 * (b; iw). It becomes (a + iw, b + c; 0, a - iw). */
template <class W> __device__ inline void begin_blocks(W &x) {
    EACH(int e = lane(); e < N * N; e += LANES) {
        const int at = e / N * ROW + e % N;
        x.u[at] = {x.h[at], 0};
    }
    sync_lanes();
    EACH_STEP(int k = 0; k + 1 < N; k++) {
        const T a = x.h[k * (ROW + 1)], b = x.h[k * (ROW + 1) + 1], below = x.h[(k + 1) * ROW + k];
        if (below == 0) continue;
        const T of_b = root(fabs(b)), of_c = root(fabs(below)), size = root(fabs(b) + fabs(below));
        const T own = quotient_of(of_b, size), c = b < 0 ? -own : own, s = quotient_of(of_c, size);
        const T w = product(of_b, of_c);
        turn_block(x, k, c, s);
        if (lane() == 0) {
            x.c[k] = c, x.s[k] = s;
            x.u[k * (ROW + 1)] = {a, w}, x.u[k * (ROW + 1) + 1] = {b + below, 0};
            x.u[(k + 1) * ROW + k] = {0, 0}, x.u[(k + 1) * (ROW + 1)] = {a, -w};
        }
        sync_lanes();
    }
}

template <class W> __device__ inline void end_blocks(W &x, bool is_real) {
    EACH_STEP(int k = 0; k + 1 < N; k++)
        if (x.h[(k + 1) * ROW + k] != 0) turn_block(x, k, x.c[k], -x.s[k]);
    EACH(int e = lane(); e < N * N && is_real; e += LANES) x.u[e / N * ROW + e % N].im = 0;
    sync_lanes();
}
#endif

/* The root whose real part is not negative; of a negative number the one above. */
__device__ inline Complex principal_root(Complex z) {
    const T size = larger(fabs(z.re), fabs(z.im));
    if (size == 0) return {0, 0};
    const T re = quotient_of(z.re, size), im = quotient_of(z.im, size), scale = root(size);
    const T modulus = root(multiply_add(im, im, product(re, re)));
    const T half = root(product(T(0.5), fabs(re) + modulus));
    const T large = product(half, scale), small = product(quotient_of(product(T(0.5), im), half), scale);
    if (!(re < 0)) return {large, small};
    return small < 0 ? Complex{-small, -large} : Complex{small, large};
}

/* A triangle becomes its root, diagonal by diagonal. The result counts elements for which there is no number, and those
 * that overflow as one. */
template <class W> __device__ inline int to_root(W &x) {
    Complex *const u = triangle_of(x);
    for (int j = lane(); j < N; j += LANES) u[j * (ROW + 1)] = principal_root(u[j * (ROW + 1)]);
    sync_lanes();
    constexpr int OVERFLOWS = 1 << 20; /* more than there are elements */
    int without = 0;
    bool finite = true;
    EACH_STEP(int apart = 1; apart < N; apart++) {
        for (int i = lane(); i + apart < N; i += LANES) {
            const int j = i + apart;
            const Complex first = u[i * (ROW + 1)], second = u[j * (ROW + 1)];
            Complex y = u[i * ROW + j], d = {first.re + second.re, first.im + second.im};
            EACH(int k = i + 1; k < j; k++) y = multiply_subtract(u[i * ROW + k], u[k * ROW + j], y);
            if (multiply_add(d.im, d.im, product(d.re, d.re)) == 0) {
                d = {1, 0};
                without += y.re != 0 || y.im != 0;
            }
            u[i * ROW + j] = y = divided(y, d);
            finite = finite && is_finite(y.re) && is_finite(y.im);
        }
        sync_lanes();
    }
    if (lane() < N) x.balance[lane()] = element_of(static_cast<T>(finite ? without : without + OVERFLOWS));
    sync_lanes();
    without = 0;
    EACH(int i = 0; i < min_of(N, LANES); i++) without += static_cast<int>(real_of(x.balance[i]));
    return without % OVERFLOWS + (without >= OVERFLOWS);
}

/* X = Z U Z^H, U being a triangle, or of a real matrix a triangle and the diagonal below; info. Zeros are positive. */
template <class W>
__device__ inline int give_root(W &x, const Element *z, const smm_cuda_args &args, long long q, T back, bool good) {
    const smm_cuda_operand &d = args.operand[SMM_SQRTM_x], &counts = args.operand[SMM_SQRTM_negative];
    Complex *const to = static_cast<Complex *>(d.data) + offset_of(args, d, q);
    int negative = 0, without = 0;
    T times = root(back);
    if (good) {
        const bool odd = multiply_add(times, times, -back) != 0; /* the root of an odd power of two is inexact */
        if (odd) times = root(product(T(0.5), back));
        sync_lanes(); /* for those that still look for the next window */
        EACH(int e = lane(); e < N * N && odd; e += LANES)
            x.h[e / N * ROW + e % N] = scaled(x.h[e / N * ROW + e % N], T(2));
        sync_lanes();
        begin_blocks(x);
        EACH(int k = 0; k < N; k++) {
            const Complex w = triangle_of(x)[k * (ROW + 1)];
            negative += w.im == 0 && w.re < 0;
        }
        sync_lanes();
        without = to_root(x);
        end_blocks(x, negative == 0);
    }
    const bool has = good && !without;
    for (int i = lane(); i < N; i += LANES) {
        Complex row[N];
        EACH_STEP(int j = 0; j < N && has; j++) {
            row[j] = {0, 0};
            EACH(int k = 0; k <= min_of(COMPLEX ? j : j + 1, N - 1); k++)
                row[j] = multiply_add(z[i * Z_ROW + k * Z_COL], triangle_of(x)[k * ROW + j], row[j]);
        }
        EACH_STEP(int j = 0; j < N; j++) {
            Complex y = {0, 0};
            EACH(int k = 0; k < N && has; k++) y = multiply_add(conjugate(z[j * Z_ROW + k * Z_COL]), row[k], y);
            y = scaled(y, times);
            to[i * d.row + j * d.col] = has ? Complex{y.re + T(0), y.im + T(0)} : not_a_complex_number();
        }
    }
    if (lane() == 0) static_cast<int *>(counts.data)[offset_of(args, counts, q)] = negative;
    return without;
}
