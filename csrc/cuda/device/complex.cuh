/* complex.cuh: complex numbers, whose parts are of type T, and the verbs over them.
 *
 * The order of operations is that of kernels/lane/elements_complex.h, whose bits these verbs give: each part of a
 * product adds the term of the first factor's real part, then that of its imaginary part. Quotients need lanes.cuh. */

struct alignas(2 * sizeof(T)) Complex {
    T re, im;
};

__device__ inline Complex conjugate(Complex x) { return {x.re, -x.im}; }
__device__ inline Complex negative(Complex x) { return {-x.re, -x.im}; }
__device__ inline T real_of(Complex x) { return x.re; }
__device__ inline Complex sum_of(Complex x, Complex y) { return {x.re + y.re, x.im + y.im}; }
__device__ inline Complex difference_of(Complex x, Complex y) { return {x.re - y.re, x.im - y.im}; }
__device__ inline Complex scaled(Complex x, T s) { return {product(x.re, s), product(x.im, s)}; }

/* x y, z + x y, z - x y */
__device__ inline Complex product(Complex x, Complex y) {
    return {multiply_add(-x.im, y.im, product(x.re, y.re)), multiply_add(x.im, y.re, product(x.re, y.im))};
}
__device__ inline Complex multiply_add(Complex x, Complex y, Complex z) {
    return {multiply_add(-x.im, y.im, multiply_add(x.re, y.re, z.re)),
            multiply_add(x.im, y.re, multiply_add(x.re, y.im, z.im))};
}
__device__ inline Complex multiply_subtract(Complex x, Complex y, Complex z) { return multiply_add(negative(x), y, z); }

/* The same of real x. */
__device__ inline Complex multiply_add(T x, Complex y, Complex z) {
    return {multiply_add(x, y.re, z.re), multiply_add(x, y.im, z.im)};
}
__device__ inline Complex multiply_subtract(T x, Complex y, Complex z) { return multiply_add(-x, y, z); }

__device__ inline T size_of(Complex x) { return fabs(x.re) + fabs(x.im); }
__device__ inline Complex not_a_complex_number() { return {not_a_number(), not_a_number()}; }
__device__ inline bool is_zero(Complex x) { return x.re == 0 && x.im == 0; }
__device__ inline bool is_useless(Complex pivot) { return is_zero(pivot) || isinf(pivot.re) || isinf(pivot.im); }

/* Numbers from one row to the next in shared memory: an odd count, so that lanes find those of a column in different
 * banks. */
__host__ __device__ constexpr int pitch_of(int cols) { return cols | 1; }

/* --- division --- */

/* x / p for many x, as Smith (Communications of the ACM 5, 1962): by the ratio of the smaller part of p to the larger;
 * and by the reciprocal where it is as exact as numbers are. Where the denominator would overflow, it is that of p / 2.
 */
struct ComplexDivisor {
    T ratio, denominator, back, scale;
    bool upright; /* the real part is the larger, or as large */

    __device__ explicit ComplexDivisor(Complex p) : scale(1), upright(!(fabs(p.im) > fabs(p.re))) {
        const T large = upright ? p.re : p.im, small = upright ? p.im : p.re;
        ratio = quotient_of(small, large);
        denominator = multiply_add(small, ratio, large);
        back = reciprocal(denominator);
        if (isinf(denominator)) {
            scale = T(0.5);
            denominator = multiply_add(product(small, scale), ratio, product(large, scale));
        }
    }
    /* 1 / p */
    __device__ Complex inverse() const {
        const T other = product(ratio, back);
        return upright ? Complex{back, -other} : Complex{other, -back};
    }
    __device__ Complex divide(Complex x) const {
        if (is_normal(back)) return product(x, inverse());
        const T re = upright ? multiply_add(x.im, ratio, x.re) : multiply_add(x.re, ratio, x.im);
        const T im = upright ? multiply_add(-x.re, ratio, x.im) : product(x.im, ratio) - x.re;
        return scaled(Complex{quotient_of(re, denominator), quotient_of(im, denominator)}, scale);
    }
};
__device__ inline Complex quotient_of(Complex x, Complex p) { return ComplexDivisor(p).divide(x); }
__device__ inline Complex quotient_of(Complex x, const Divisor &p) { return {p.divide(x.re), p.divide(x.im)}; }
