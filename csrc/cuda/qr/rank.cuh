/* rank.cuh: for least squares: which column comes next, and the rank of R. */

constexpr T ROUNDOFF = static_cast<T>(DOUBLE ? 0x1p-53 : 0x1p-24);

/* Of N columns from k on the one whose rest, of that squared length, is longest, the first of equals; nothing is longer
 * than a NaN in k. */
template <int N, class Square> __device__ inline int longest_column(int k, Square square) {
    Sized longest = {-1, N};
    EACH_STEP(int j = k + lane(); j < N; j += LANES) {
        const T s = square(j);
        if (s > longest.size || (j == k && isnan(s)))
            longest = {isnan(s) ? power_of_two(DOUBLE ? 1024 : 128, T()) : s, j};
    }
    return largest_of_all(longest).place;
}

/* A sum of squares: of complex elements of real parts and of imaginary ones. */
struct Squares {
    T re = 0, im = 0;
    __device__ void add(T x) { re = multiply_add(x, x, re); }
    __device__ void add(Complex x) {
        add(x.re);
        im = multiply_add(x.im, x.im, im);
    }
    __device__ T sum() const { return COMPLEX ? re + im : re; }
};

/* A sum as a size, which of real ones has a sign, and of complex ones a direction, a number of magnitude 1: x of an
 * estimate is turned to it. */
#if SMM_COMPLEX
struct Along {
    T size;
    Complex direction;
    __device__ explicit Along(Complex sum)
        : size(root(multiply_add(sum.im, sum.im, product(sum.re, sum.re)))),
          direction(size > 0 ? Complex{quotient_of(sum.re, size), quotient_of(sum.im, size)} : Complex{1, 0}) {}
    __device__ Complex times(T s, Complex x) const { return product(scaled(direction, s), x); }
};
#else
struct Along {
    T size;
    __device__ explicit Along(T sum) : size(sum) {}
    __device__ T times(T s, T x) const { return product(s, x); }
};
#endif

/* Incremental condition estimation (LAPACK's laic1), as csrc/reference/qr.c has it. */
struct Extension {
    T sigma, s, c;
};

__device__ inline Extension of_unit_length(T sigma, T s, T c) {
    const T length = root(multiply_add(s, s, product(c, c)));
    return {sigma, quotient_of(s, length), quotient_of(c, length)};
}

__device__ inline T root_less_b(T root, T b, T c) { return b > 0 ? quotient_of(c, b + root) : root - b; }

__device__ inline Extension largest_extension(T sigma, T alpha, T gamma) {
    if (fabs(alpha) <= product(ROUNDOFF, sigma))
        return fabs(gamma) > sigma ? Extension{fabs(gamma), 0, 1} : Extension{sigma, 1, 0};
    const T y = quotient_of(alpha, sigma), z = quotient_of(gamma, sigma), yy = product(y, y), zz = product(z, z);
    const T b = product(1 - (yy + zz), T(0.5)), t = root_less_b(root(multiply_add(b, b, yy)), b, yy), larger = 1 + t;
    return of_unit_length(product(root(larger), sigma), quotient_of(y, t), quotient_of(z, larger));
}

__device__ inline Extension smallest_extension(T sigma, T alpha, T gamma) {
    const T larger = fabs(alpha) > fabs(gamma) ? fabs(alpha) : fabs(gamma), small = product(ROUNDOFF, sigma);
    if (fabs(alpha) <= small || fabs(gamma) <= small)
        return fabs(gamma) > sigma ? Extension{sigma, 1, 0} : Extension{fabs(gamma), 0, 1};
    if (sigma <= product(ROUNDOFF, larger)) {
        Extension e = of_unit_length(0, -quotient_of(gamma, larger), quotient_of(alpha, larger));
        e.sigma = product(sigma, fabs(e.s));
        return e;
    }
    const T y = quotient_of(alpha, sigma), z = quotient_of(gamma, sigma), yy = product(y, y), zz = product(z, z);
    const bool near_zero = zz - yy <= T(0.5);
    const T b = product(yy + zz + (near_zero ? 1 : -1), T(0.5)), c = near_zero ? zz : yy;
    const T t = root_less_b(root(fabs(multiply_add(b, b, near_zero ? -c : c))), b, c), rest = 1 - t;
    const T ratio = near_zero ? t : rest, lost = near_zero ? rest : t;
    const T norm = (1 + yy > zz ? 1 + yy : zz) + product(fabs(y), fabs(z));
    const T squared = multiply_add(4 * ROUNDOFF * ROUNDOFF, norm, ratio);
    return of_unit_length(product(root(squared), sigma), quotient_of(y, lost), -quotient_of(z, ratio));
}

/* Where no estimate need be made: csrc/kernels/qr/lstsq_lanes.h says why. squares: of the x of has_full_rank(). */
template <int P> __device__ inline bool is_full_rank(T squares, T rtol) {
    const T allowed = rtol <= 64 * ROUNDOFF ? 64 * ROUNDOFF : rtol;
    return product(product(T(4 * P), squares), product(allowed, allowed)) < 1;
}

/* The same of R, of whose elements it takes size(i, j). r, y: room for P elements each. */
template <int P, class Size> __device__ inline bool has_full_rank(Size size, T rtol, T *r, T *y) {
    const T first = size(0, 0);
    T squares = 0;
    EACH(int k = lane(); k < P; k += LANES) r[k] = reciprocal(size(k, k)), y[k] = first;
    EACH_STEP(int k = P - 1; k >= 0; k--) {
        sync_lanes();
        const T x = product(y[k], r[k]);
        squares = multiply_add(x, x, squares);
        EACH(int i = lane(); i < k; i += LANES) y[i] = multiply_add(size(i, k), x, y[i]);
    }
    return is_full_rank<P>(squares, rtol);
}
