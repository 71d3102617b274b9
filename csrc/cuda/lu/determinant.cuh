/* determinant.cuh: the determinant, or its sign and logarithm, from the diagonal of U: the same bits as the CPU's.
 * Takes the factors one by one, those of exchanged rows negated. */
#include "functions.cuh"

template <class T> struct Determinant {
    T plain = 1, mantissa = 1;
    int exponent = 0;
    bool in_range = true, finite = true, singular = false; /* a factor is zero, all before are finite */

    __device__ void multiply(T u) {
        plain = product(plain, u);
        in_range &= isfinite(plain) && fabs(plain) >= (sizeof(T) == 8 ? T(0x1p-1022) : T(0x1p-126));
        singular |= u == 0 && finite;
        finite &= isfinite(u);
    }
    /* Nothing over- or underflowed, or a factor is not finite. Otherwise multiply_scaled() by all factors, too. */
    __device__ bool safe() const { return in_range || !finite; }

    /* mantissa 2^exponent can neither over- nor underflow and otherwise has the same bits. */
    __device__ void multiply_scaled(T u) {
        int shift = 0;
        mantissa = product(mantissa, frexp(u, &shift));
        exponent += shift;
        if (fabs(mantissa) < T(0x1p-64)) { /* of more than 64 factors between 1/2 and 1 */
            mantissa = product(mantissa, T(0x1p64));
            exponent -= 64;
        }
    }

    __device__ T value() const { return singular ? T(0) : safe() ? plain : ldexp(mantissa, exponent); }
    __device__ T sign() const {
        const T x = safe() ? plain : mantissa;
        return singular ? T(0) : isnan(x) ? x : copysign(T(1), x);
    }
    /* The logarithm is float64's, rounded. */
    __device__ T log_magnitude() const {
        constexpr double LN2 = 0.693147180559945309417;
        const double size = fabs(static_cast<double>(singular ? T(0) : safe() ? plain : mantissa));
        return static_cast<T>(smm_log(size) + (safe() || singular ? 0 : exponent * LN2));
    }
};
