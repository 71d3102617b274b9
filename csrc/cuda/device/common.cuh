/* common.cuh: the words of the CUDA kernels: arithmetic, vectors, where operands lie.
 *
 * A kernel is compiled for one problem. The macros SMM_* are its constants: SMM_T, SMM_STORED, SMM_NAME, the sizes, how
 * each operand lies in memory, and the parameters that kernels.def lists. */
#include "args.h"

/* Not every kernel has these parameters. */
#ifndef SMM_BLOCKS
#define SMM_BLOCKS 0
#endif
#ifndef SMM_AHEAD
#define SMM_AHEAD 0
#endif

#ifndef SMM_OUTSIDE
#define SMM_OUTSIDE 0
#endif

#include "arithmetic.cuh"

/* Matrices under way lie in memory of the device. */
constexpr bool OUTSIDE = SMM_OUTSIDE;

/* Flat operands begin at, and blocks advance by, multiples of VECTOR elements. */
constexpr bool ALIGNED = SMM_ALIGNED;

/* The bounds of a kernel of THREADS threads. */
#if SMM_BLOCKS > 0
#define BOUNDS __launch_bounds__(THREADS, SMM_BLOCKS)
#else
#define BOUNDS __launch_bounds__(THREADS)
#endif

#include "vectors.cuh"

/* To global memory, in one access even where the compiler would store element by element. */
template <int WIDTH> __device__ inline void store_global(T *to, Vector<WIDTH> v) {
    if constexpr (WIDTH == 4)
        __stwb(reinterpret_cast<float4 *>(to), make_float4(v.x[0], v.x[1], v.x[2], v.x[3]));
    else if constexpr (WIDTH == 2 && sizeof(T) == 8)
        __stwb(reinterpret_cast<double2 *>(to), make_double2(v.x[0], v.x[1]));
    else if constexpr (WIDTH == 2)
        __stwb(reinterpret_cast<float2 *>(to), make_float2(v.x[0], v.x[1]));
    else
        *to = v.x[0];
}

#include "ptx.cuh"
#include "stored.cuh"

/* The type of the numbers of all operands in memory: T, or one of these. */
typedef SMM_STORED InMemory;
constexpr bool CONVERTS = sizeof(InMemory) != sizeof(T);

/* load(), store() and copy() of T, where memory holds another type: as wide in elements. A copy is complete when it
 * returns; several of them are under way at once, because the compiler may read for all before it writes. */
template <int WIDTH, class X> __device__ inline Vector<WIDTH> load(const X *from) {
    const Vector<WIDTH, X> stored = load_stored<Vector<WIDTH, X>>(from);
    Vector<WIDTH> v;
#pragma unroll
    for (int e = 0; e < WIDTH; e++) v.x[e] = stored.x[e];
    return v;
}
/* As store_global: in one access. */
template <class Bits> __device__ inline void store_bits(void *to, const void *from) {
    Bits bits;
    memcpy(&bits, from, sizeof bits);
    __stwb(static_cast<Bits *>(to), bits);
}
template <int WIDTH, class X> __device__ inline void store(X *to, Vector<WIDTH> v) {
    Vector<WIDTH, X> stored;
#pragma unroll
    for (int e = 0; e < WIDTH; e++) stored.x[e] = v.x[e];
    if constexpr (sizeof stored == 16)
        store_bits<uint4>(to, &stored);
    else if constexpr (sizeof stored == 8)
        store_bits<uint2>(to, &stored);
    else if constexpr (sizeof stored == 4)
        store_bits<unsigned>(to, &stored);
    else
        *to = stored.x[0];
}
template <int WIDTH, class X> __device__ inline void store_global(X *to, Vector<WIDTH> v) { store<WIDTH>(to, v); }
template <int WIDTH, bool SHARED_BY_ALL = false, class X> __device__ inline void copy(T *to, const X *from) {
    store<WIDTH>(to, load<WIDTH>(from));
}

/* What the block that begins when this one ends reads of a flat operand comes to L2, if the parameters say so: not long
 * before, or other data take its place. By each warp, as far on from its own COUNT matrices of so many elements. */
template <int SOURCE, int COUNT, int ELEMENTS>
__device__ inline void fetch_ahead(const smm_cuda_args &args, const smm_cuda_operand &x, long long first) {
    constexpr int LINE = 128 / sizeof(InMemory);
    first += args.ahead;
    if (!SMM_AHEAD || SOURCE != SMM_SOURCE_FLAT || first + COUNT > args.batch) return;
    const InMemory *from = static_cast<const InMemory *>(x.data) + first * ELEMENTS;
#pragma unroll 1
    for (int e = threadIdx.x % 32 * LINE; e < COUNT * ELEMENTS; e += 32 * LINE) prefetch(from + e);
}

/* The places of A, B and C, for x = 0, 1, 2. */
__host__ __device__ constexpr int operand_of_abc(int x) { return x == 0 ? SMM_A : x == 1 ? SMM_B : SMM_C; }

/* Offset in elements of matrix q of an operand with arbitrary strides. */
__device__ inline long long offset_of(const smm_cuda_args &args, const smm_cuda_operand &x, long long q) {
    long long offset = 0;
    int d = 0;
    for (; d < args.dims - 1; d++) {
        offset += q % args.extent[d] * x.batch[d];
        q /= args.extent[d];
    }
    return offset + q * x.batch[d]; /* of one dimension without a division, which takes as long as small matrices */
}

/* The same by a call, where divisions within the kernel would cost registers. */
__device__ __noinline__ long long offset_apart(const smm_cuda_args &args, int operand, long long q) {
    return offset_of(args, args.operand[operand], q);
}

/* Where row 0 of an output beside the matrices (pivots, info) begins, whose matrices have so many rows. */
constexpr bool REST_FLAT = SMM_SOURCE_REST == SMM_SOURCE_FLAT;
template <class X> __device__ inline X *beside(const smm_cuda_args &args, int which, long long matrix, int rows) {
    const smm_cuda_operand &x = args.operand[which];
    return static_cast<X *>(x.data) + (REST_FLAT ? matrix * rows : offset_of(args, x, matrix));
}

/* What matrix q has of an operand that is a number: its own, or that which the call gave for all. */
__device__ inline T factor_of(const smm_cuda_args &args, int which, long long q) {
    const smm_cuda_operand &x = args.operand[which];
    return x.data ? T(static_cast<const InMemory *>(x.data)[offset_of(args, x, q)])
                  : static_cast<T>(args.number[which]);
}
