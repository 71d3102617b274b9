/* determinant_complex.cuh: the determinant of a complex matrix, or its phase and logarithm, from the diagonal of U;
 * the bits of kernels/lu/lu_complex.h. */
#include "functions.cuh"

__device__ inline int exponent_of(Complex x) {
    const T re = fabs(x.re), im = fabs(x.im), size = re > im || isnan(im) ? re : im;
    int e = 0;
    if (size > 0 && !isinf(size)) frexp(size, &e);
    return e;
}
__device__ inline Complex shifted(Complex x, int e) { return {ldexp(x.re, e), ldexp(x.im, e)}; }

/* Whether each part is zero or so near to 1 that no part of a product of two such numbers is subnormal or overflows:
 * then powers of two would change no bits. */
__device__ inline bool is_mild(T x) {
    constexpr T BOUND = static_cast<T>(sizeof(T) == 8 ? 0x1p240 : 0x1p25);
    return x == 0 || (fabs(x) > 1 / BOUND && fabs(x) < BOUND);
}
__device__ inline bool is_mild(Complex x) { return is_mild(x.re) && is_mild(x.im); }

/* Gives `det` the determinant, or of SLOGDET its phase, and then `log_magnitude` the logarithm of its magnitude. odd:
 * so is the number of exchanges. singular: the first pivot that is of no use is zero. UNROLL steps share a text. */
template <int UNROLL, class Diagonal, class Det, class Log>
__device__ inline void give_determinant(bool odd, bool singular, Diagonal diagonal, Det det, Log log_magnitude) {
    const Complex one = {odd ? T(-1) : T(1), 0};
    Complex p = one;
    int exponent = 0;
    bool mild = true;
#pragma unroll UNROLL
    for (int k = 0; k < SMM_N; k++) {
        p = product(p, diagonal(k));
        mild &= is_mild(diagonal(k)) && is_mild(p);
    }
    if (!mild) { /* exponents apart, so that nothing over- or underflows */
        p = one;
#pragma unroll UNROLL
        for (int k = 0; k < SMM_N; k++) {
            const int e = exponent_of(diagonal(k));
            p = product(p, shifted(diagonal(k), -e));
            const int g = exponent_of(p);
            p = shifted(p, -g);
            exponent += e + g;
        }
    }
    if constexpr (SMM_OP == SMM_OP_DET) {
        det(singular ? Complex{0, 0} : shifted(p, exponent));
    } else {
        constexpr double LN2 = 0.693147180559945309417;
        if (mild) {
            exponent = exponent_of(p);
            p = shifted(p, -exponent);
        }
        const T size = root(multiply_add(p.im, p.im, product(p.re, p.re)));
        const T log_size = static_cast<T>(smm_log(static_cast<double>(size)) + exponent * LN2);
        det(singular ? Complex{0, 0} : Complex{quotient_of(p.re, size), quotient_of(p.im, size)});
        log_magnitude(singular ? -static_cast<T>(__longlong_as_double(0x7ff0000000000000)) : log_size);
    }
}
