/* element.cuh: the elements of matrices, for texts that serve real and complex ones: real ones are of type T, complex
 * ones Numbers. Stored is how memory holds them. As number.cuh it needs lanes.cuh. */
#if SMM_COMPLEX
#include "number.cuh"

constexpr bool COMPLEX = true;
typedef Number Element;
typedef Number Stored;
typedef NumberDivisor ElementDivisor;

__device__ inline Number element_of(T x) { return {x, 0}; }
__device__ inline Number not_an_element() { return not_a_complex_number(); }
__device__ inline T real_of(Number x) { return x.re; }
__device__ inline Number sum_of(Number x, Number y) { return {x.re + y.re, x.im + y.im}; }
__device__ inline Number quotient_of(Number x, Number p) { return NumberDivisor(p).divide(x); }
#else
constexpr bool COMPLEX = false;
typedef T Element;
typedef InMemory Stored;
typedef Divisor ElementDivisor;

__device__ inline T element_of(T x) { return x; }
__device__ inline T not_an_element() { return not_a_number(); }
__device__ inline T real_of(T x) { return x; }
__device__ inline T conjugate(T x) { return x; }
__device__ inline T negative(T x) { return -x; }
__device__ inline T sum_of(T x, T y) { return x + y; }
__device__ inline T scaled(T x, T s) { return product(x, s); }
__device__ inline T multiply_subtract(T x, T y, T z) { return multiply_add(-x, y, z); }
__device__ inline T size_of(T x) { return fabs(x); }
__device__ inline bool is_zero(T x) { return x == 0; }
#endif

__device__ inline void swap(Element &x, Element &y) {
    const Element was = x;
    x = y;
    y = was;
}
