/* ldl_threads.cuh: L D L^T of real matrices. The contract is that of ldl.cuh. */
#include "common.cuh"
#include "lanes.cuh"

typedef T Element;
typedef InMemory Stored;
constexpr bool HERMITIAN = false;

__device__ inline T element_of(T x) { return x; }
__device__ inline T not_an_element() { return not_a_number(); }
__device__ inline T conjugate(T x) { return x; }
__device__ inline T real_part(T x) { return x; }
__device__ inline T negative(T x) { return -x; }
__device__ inline T size_of(T x) { return x < 0 ? -x : x; }
__device__ inline T multiply_subtract(T x, T y, T z) { return multiply_add(-x, y, z); }

#include "ldl.cuh"
