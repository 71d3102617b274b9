/* element.cuh: elements of real or of complex matrices, and copies of them. */
#include "lanes.cuh"
#include "element_verbs.cuh"

#if SMM_COMPLEX
__device__ inline void copy_element(Number *to, const Number *from) {
    copy<2>(reinterpret_cast<T *>(to), reinterpret_cast<const T *>(from));
}
#else
template <class X> __device__ inline void copy_element(T *to, const X *from) { copy<1>(to, from); }
#endif
