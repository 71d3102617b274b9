/* ldl_of_reals.cuh: what ldl.cuh needs of real numbers. */
typedef T Element;
constexpr bool HERMITIAN = false;

__device__ inline T element_of(T x) { return x; }
__device__ inline T not_an_element() { return not_a_number(); }
__device__ inline T conjugate(T x) { return x; }
__device__ inline T real_part(T x) { return x; }
__device__ inline T negative(T x) { return -x; }
__device__ inline T size_of(T x) { return x < 0 ? -x : x; }
__device__ inline T multiply_subtract(T x, T y, T z) { return multiply_add(-x, y, z); }
