/* ldl_of_numbers.cuh: what ldl.cuh needs of complex numbers. */
#include "number.cuh"

typedef Number Element;
constexpr bool HERMITIAN = !(SMM_FORM & 256); /* SMM_SYMMETRIC */

__device__ inline Number element_of(T x) { return {x, 0}; }
__device__ inline Number not_an_element() { return not_a_complex_number(); }
__device__ inline Number real_part(Number x) { return {x.re, 0}; }
__device__ inline Number negative(Number x) { return {-x.re, -x.im}; }
__device__ inline Number quotient_of(Number x, Number p) { return NumberDivisor(p).divide(x); }
