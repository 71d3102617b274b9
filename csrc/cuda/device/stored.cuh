/* stored.cuh: types that are only stored, numbers of 16 bits as they lie in memory. They are converted where they are
 * read, which is exact, and rounded once where they are written, to nearest, ties to even, as csrc/math/half.h does. */
struct f16 {
    unsigned short bits;
    __device__ operator float() const { return of_f16(bits); }
    __device__ f16 &operator=(float x) {
        bits = to_f16(x);
        return *this;
    }
};
struct bf16 {
    unsigned short bits;
    __device__ operator float() const { return of_bf16(bits); }
    __device__ bf16 &operator=(float x) {
        bits = to_bf16(x);
        return *this;
    }
};
