/* lanes.cuh: LANES threads of a warp share a matrix. All threads of a warp take part in every
 * exchange, whatever their matrices are. */

constexpr int LANES = SMM_LANES;
constexpr unsigned WARP = 0xffffffff;

/* A thread that has a matrix of few rows to itself may keep it in registers: then loops are unrolled, so that the
 * compiler knows every index. */
#ifndef SMM_FEW
#define SMM_FEW (SMM_LANES == 1 && SMM_M <= 4 && SMM_N <= 4)
#endif
#if SMM_FEW
constexpr bool FEW = true;
#define EACH(...) _Pragma("unroll") for (__VA_ARGS__)
#else
constexpr bool FEW = false;
#define EACH(...) for (__VA_ARGS__)
#endif

__device__ inline int lane() { return threadIdx.x % LANES; }
/* The lanes of this thread's matrix. */
__device__ inline unsigned same_matrix() {
    return LANES == 32 ? WARP : ((1u << LANES % 32) - 1) << (threadIdx.x % 32 / LANES * LANES);
}

/* The x of a lane of the same matrix. */
template <class X> __device__ inline X from_lane(X x, int lane) {
    return LANES == 1 ? x : __shfl_sync(WARP, x, lane, LANES);
}
/* The x of the lane whose number differs by these bits. */
template <class X> __device__ inline X across(X x, int bits) { return __shfl_xor_sync(WARP, x, bits, LANES); }

/* Elements from image to image of matrices of so many, whose rows are whole vectors, an odd number of them if several
 * lanes read them: an odd number of times LANES vectors, so that 8 lanes find theirs in different banks. */
__host__ __device__ constexpr int images_apart(int elements) {
    return elements + (LANES < 8 ? (3 * LANES - elements / VECTOR % (2 * LANES)) % (2 * LANES) * VECTOR : 0);
}

/* The same of elements of so many bytes that are read one at a time: an odd number of times LANES. */
__host__ __device__ constexpr int elements_apart(int elements, int size) {
    return elements + (2 * LANES <= 128 / size ? (3 * LANES - elements % (2 * LANES)) % (2 * LANES) : 0);
}

/* Rounded to nearest, subnormal or not. */
__device__ inline double quotient_of(double x, double y) { return __ddiv_rn(x, y); }
__device__ inline float quotient_of(float x, float y) { return __fdiv_rn(x, y); }
__device__ inline double reciprocal(double x) { return __drcp_rn(x); }
__device__ inline float reciprocal(float x) { return __frcp_rn(x); }
__device__ inline double root(double x) { return __dsqrt_rn(x); }
__device__ inline float root(float x) { return __fsqrt_rn(x); }

/* Neither zero, subnormal, infinite nor NaN. */
__device__ inline bool is_normal(double x) {
    return (__double2hiint(x) & 0x7fffffffu) - 0x00100000u < 0x7ff00000u - 0x00100000u;
}
__device__ inline bool is_normal(float x) {
    return (__float_as_uint(x) & 0x7fffffffu) - 0x00800000u < 0x7f800000u - 0x00800000u;
}

/* Pivots of which there is no use: zero, or infinite; what overflowed would be finite again when divided by them. */
__device__ inline bool is_useless(T pivot) { return pivot == 0 || isinf(pivot); }

/* x / p for many x: by the reciprocal where it is as exact as numbers are. */
struct Divisor {
    T p, r;
    Divisor() = default;
    __device__ explicit Divisor(T pivot) : p(pivot), r(reciprocal(pivot)) {}
    __device__ T divide(T x) const { return is_normal(r) ? product(x, r) : quotient_of(x, p); }
};

/* Magnitudes as integers, in the same order; NaN is above all. */
__device__ inline unsigned long long magnitude(double x) { return __double_as_longlong(x) & 0x7fffffffffffffff; }
__device__ inline unsigned magnitude(float x) { return __float_as_uint(x) & 0x7fffffff; }

/* The search for a pivot where all bits count: of the largest magnitude, and of equals the first in place. */
struct Search {
    decltype(magnitude(T(0))) largest;
    int first;

    __device__ void consider(decltype(magnitude(T(0))) size, int place) {
        if (size > largest || (size == largest && place < first)) largest = size, first = place;
    }
    /* What a thread has found whose number differs by these bits. */
    __device__ void consider_found(int bits) {
        const auto size = __shfl_xor_sync(WARP, largest, bits);
        const int place = __shfl_xor_sync(WARP, first, bits);
        consider(size, place);
    }
};

__device__ inline T not_a_number() { return static_cast<T>(__longlong_as_double(0x7ff8000000000000)); }
