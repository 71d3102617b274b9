/* lanes.cuh: LANES threads share a matrix: a part of a warp, all of which takes part in every exchange, whatever its
 * matrices are; or, where they are more than a warp, all of a block, which exchanges through shared memory. */

constexpr int LANES = SMM_LANES;
constexpr unsigned WARP = 0xffffffff;
constexpr bool BY_BLOCK = LANES > 32;
constexpr int LANES_OF_WARP = BY_BLOCK ? 32 : LANES; /* lanes of a matrix in one warp */

/* A thread that has a matrix of few rows to itself may keep it in registers: then loops are unrolled, so that the
 * compiler knows every index. Those of large matrices are unrolled by a few turns, or not at all where a turn is long:
 * the compiler would unroll all of them. */
#ifndef SMM_FEW
#define SMM_FEW (SMM_LANES == 1 && SMM_M <= 4 && SMM_N <= 4)
#endif
#if SMM_FEW
constexpr bool FEW = true;
#define EACH(...) _Pragma("unroll") for (__VA_ARGS__)
#define EACH_STEP(...) EACH(__VA_ARGS__)
#elif SMM_M * SMM_N > 1024
constexpr bool FEW = false;
#define EACH(...) _Pragma("unroll 4") for (__VA_ARGS__)
#define EACH_STEP(...) _Pragma("unroll 1") for (__VA_ARGS__)
#else
constexpr bool FEW = false;
#define EACH(...) for (__VA_ARGS__)
#define EACH_STEP(...) for (__VA_ARGS__)
#endif

__device__ inline int lane() { return threadIdx.x % LANES; }
/* The lanes of this thread's matrix in its warp. */
__device__ inline unsigned same_matrix() {
    return LANES_OF_WARP == 32 ? WARP
                               : ((1u << LANES_OF_WARP % 32) - 1) << (threadIdx.x % 32 / LANES_OF_WARP * LANES_OF_WARP);
}

/* The lanes of a matrix wait for each other. */
__device__ inline void sync_lanes() {
    if constexpr (BY_BLOCK)
        __syncthreads();
    else if (LANES > 1)
        __syncwarp(same_matrix());
}

/* What the warps of a block tell each other, with room for a number of 16 bytes of each. */
#if SMM_LANES > 32
__shared__ __align__(16) char from_warps[SMM_LANES / 32 * 16];
#else
constexpr char *from_warps = nullptr;
#endif

/* The x of a lane of the same matrix. */
template <class X> __device__ inline X from_lane(X x, int number) {
    if constexpr (BY_BLOCK) {
        X *const one = reinterpret_cast<X *>(from_warps);
        sync_lanes(); /* somebody may still read what was from_warps before */
        if (lane() == number) *one = x;
        sync_lanes();
        return *one;
    } else {
        return LANES == 1 ? x : __shfl_sync(WARP, x, number, LANES_OF_WARP);
    }
}
/* The x of the lane of the same warp whose number differs by these bits. */
template <class X> __device__ inline X shuffle_xor(X x, int bits) {
    return __shfl_xor_sync(WARP, x, bits, LANES_OF_WARP);
}

/* What join(x, y) makes of the x of all lanes of a matrix, each of which has joined those of its warp: as these do, in
 * the order of the warps. */
template <class X, class Join> __device__ inline X join_warps(X x, Join join) {
    if constexpr (BY_BLOCK) {
        X *const all = reinterpret_cast<X *>(from_warps);
        sync_lanes();
        if (lane() % 32 == 0) all[lane() / 32] = x;
        sync_lanes();
        x = all[0];
        for (int warp = 1; warp < LANES / 32; warp++) x = join(x, all[warp]);
    }
    return x;
}

/* Whether something is true in all lanes of a matrix. */
__device__ inline bool true_in_all(bool x) {
    if constexpr (BY_BLOCK)
        return __syncthreads_and(x);
    else
        return LANES == 1 ? x : __all_sync(same_matrix(), x);
}

/* The largest number of the lanes of a matrix comes to all of them, and whether something is true in all. */
__device__ inline bool meet(T &largest, bool is_true) {
    const auto larger = [](T x, T y) { return y > x ? y : x; };
    for (int bits = LANES_OF_WARP / 2; bits > 0; bits /= 2)
        largest = larger(largest, __shfl_xor_sync(same_matrix(), largest, bits));
    largest = join_warps(largest, larger);
    return true_in_all(is_true);
}

/* A place, and the size of what is there. */
struct Sized {
    T size;
    int place;
};
__device__ inline Sized larger_of(Sized x, Sized y) {
    return y.size > x.size || (y.size == x.size && y.place < x.place) ? y : x;
}
/* The largest that a lane of a matrix has found, of equals the first in place. No size is NaN. */
__device__ inline Sized largest_of_all(Sized x) {
#pragma unroll
    for (int bits = LANES_OF_WARP / 2; bits > 0; bits /= 2)
        x = larger_of(x, {__shfl_xor_sync(same_matrix(), x.size, bits), __shfl_xor_sync(same_matrix(), x.place, bits)});
    return join_warps(x, larger_of);
}

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
