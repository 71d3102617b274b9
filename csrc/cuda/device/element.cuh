/* element.cuh: the elements of matrices, for texts that serve real and complex ones: real ones are of type T, complex
 * ones Numbers. Stored is how memory holds them. The verbs of number.cuh are here those of real numbers, too. As that
 * it needs lanes.cuh. Kernels include it once; for steps of programs function.cuh does. */
#include "number.cuh"

constexpr bool COMPLEX = SMM_COMPLEX;
#if SMM_COMPLEX
typedef Number Element, Stored;
typedef NumberDivisor ElementDivisor;

__device__ inline Element element_of(T x) { return {x, 0}; }
__device__ inline Element not_an_element() { return not_a_complex_number(); }
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

__device__ inline void swap(Element &x, Element &y) {
    const Element was = x;
    x = y;
    y = was;
}
