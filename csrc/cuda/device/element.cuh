/* element.cuh: the elements of matrices, for texts that serve real and complex ones: real ones are of type T, complex
 * ones Complex. Stored is how memory holds them. The verbs of complex.cuh are here those of real numbers, too. As that
 * it needs lanes.cuh. Kernels include it once; for steps of programs function.cuh does. */
#include "complex.cuh"

constexpr bool COMPLEX = SMM_COMPLEX;
#if SMM_COMPLEX
typedef Complex Element, Stored;
typedef ComplexDivisor ElementDivisor;

__device__ inline Element element_of(T x) { return {x, 0}; }
__device__ inline Element not_an_element() { return not_a_complex_number(); }
/* quotient_of() where it is rare: inlined, its branches would cost registers. */
__device__ __noinline__ Complex slow_quotient(Complex x, Complex p) { return quotient_of(x, p); }
__device__ inline Complex inverse_of(Complex p) { return ComplexDivisor(p).inverse(); }
__device__ inline Complex select(bool condition, Complex x, Complex y) {
    return {condition ? x.re : y.re, condition ? x.im : y.im};
}
/* Of a pivot's inverse: whether x / p is x times it. Its larger part is the ComplexDivisor's `back`. */
__device__ inline bool is_exact(Complex inverse) {
    const T re = fabs(inverse.re), im = fabs(inverse.im);
    return is_normal(re < im ? im : re);
}

__device__ inline Complex from_lane(Complex x, int lane) { return {from_lane(x.re, lane), from_lane(x.im, lane)}; }
#else
typedef T Element;
typedef InMemory Stored;
typedef Divisor ElementDivisor;

__device__ inline Element element_of(T x) { return x; }
__device__ inline Element not_an_element() { return not_a_number(); }
#endif

__device__ inline T real_of(T x) { return x; }
__device__ inline T conjugate(T x) { return x; }
__device__ inline T negative(T x) { return -x; }
__device__ inline T sum_of(T x, T y) { return x + y; }
__device__ inline T difference_of(T x, T y) { return x - y; }
__device__ inline T quotient_of(T x, const Divisor &p) { return p.divide(x); }
__device__ inline T scaled(T x, T s) { return product(x, s); }
__device__ inline T multiply_subtract(T x, T y, T z) { return multiply_add(-x, y, z); }
__device__ inline T size_of(T x) { return fabs(x); }
__device__ inline bool is_zero(T x) { return x == 0; }
__device__ inline T slow_quotient(T x, T p) { return quotient_of(x, p); }
__device__ inline T inverse_of(T p) { return reciprocal(p); }
__device__ inline bool is_exact(T inverse) { return is_normal(inverse); }

template <class X> __device__ inline X select(bool condition, X x, X y) { return condition ? x : y; }

__device__ inline void swap(Element &x, Element &y) {
    const Element was = x;
    x = y;
    y = was;
}
