/* common.cuh: the words of the CUDA kernels: arithmetic with fixed rounding, vectors, asynchronous copies.
 *
 * A kernel is compiled for one problem. The macros SMM_* are its constants: SMM_T, SMM_NAME, the sizes, how each
 * operand lies in memory, and the parameters that kernels.def lists. */
#include "args.h"

typedef SMM_T T;

constexpr int VECTOR = 16 / sizeof(T); /* elements of the widest access */
constexpr bool ALIGNED = SMM_ALIGNED;  /* flat operands begin at, and blocks advance by, multiples of 16 bytes */

__host__ __device__ constexpr int ceil_div(int x, int y) { return (x + y - 1) / y; }
__host__ __device__ constexpr int least(int x, int y) { return x < y ? x : y; }
__host__ __device__ constexpr int most(int x, int y) { return x > y ? x : y; }

/* The widest vector that divides a length: 1, 2 or 4 elements. */
__host__ __device__ constexpr int width_of(int length) {
    return length % VECTOR == 0 ? VECTOR : length % 2 == 0 ? 2 : 1;
}

/* The least power of two that is not less. */
__host__ __device__ constexpr int power_of_two(int x) { return x > 1 ? 2 * power_of_two(ceil_div(x, 2)) : 1; }

/* The bounds of a kernel of THREADS threads. */
#if SMM_BLOCKS > 0
#define BOUNDS __launch_bounds__(THREADS, SMM_BLOCKS)
#else
#define BOUNDS __launch_bounds__(THREADS)
#endif

/* Rounded to nearest, never contracted: the same bits as the CPU's kernels. */
__device__ inline double product(double x, double y) { return __dmul_rn(x, y); }
__device__ inline float product(float x, float y) { return __fmul_rn(x, y); }
__device__ inline double multiply_add(double x, double y, double z) { return __fma_rn(x, y, z); }
__device__ inline float multiply_add(float x, float y, float z) { return __fmaf_rn(x, y, z); }

template <int WIDTH> struct alignas(WIDTH * sizeof(T)) Vector {
    T x[WIDTH];
};

template <int WIDTH> __device__ inline Vector<WIDTH> load(const T *from) {
    return *reinterpret_cast<const Vector<WIDTH> *>(from);
}
template <int WIDTH> __device__ inline void store(T *to, Vector<WIDTH> x) {
    *reinterpret_cast<Vector<WIDTH> *>(to) = x;
}

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

__device__ inline unsigned shared_address(const void *x) { return static_cast<unsigned>(__cvta_generic_to_shared(x)); }

/* Global to shared memory without passing through registers; complete after copies_done() and a barrier. Vectors that
 * all blocks read come through L1: all of them asking one place of L2 is slower than the memory. */
template <int WIDTH, bool SHARED_BY_ALL = false> __device__ inline void copy(T *to, const T *from) {
    const unsigned place = shared_address(to);
    if constexpr (WIDTH * sizeof(T) == 16 && !SHARED_BY_ALL)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(place), "l"(from));
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(place), "l"(from), "n"(WIDTH * sizeof(T)));
}
__device__ inline void copies_done() { asm volatile("cp.async.wait_all;" ::: "memory"); }

/* Bulk copies: whole blocks of 16-byte vectors to shared memory and back, by a unit of their own. An Arrival counts the
 * bytes of those that name it; how often it was waited for says the parity. */
typedef unsigned long long Arrival;
#if __CUDA_ARCH__ >= 900
constexpr bool BULK_COPIES = true;
#else
constexpr bool BULK_COPIES = false;
#endif
/* Each by one thread; the first before the others know of it. */
__device__ inline void begin_arrivals(Arrival *arrival) {
    asm volatile("mbarrier.init.shared.b64 [%0], 1;\n\tfence.proxy.async.shared::cta;" ::"r"(shared_address(arrival))
                 : "memory");
}
__device__ inline void expect(Arrival *arrival, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(shared_address(arrival)), "r"(bytes)
                 : "memory");
}
__device__ inline void copy_bulk(T *to, const T *from, unsigned bytes, Arrival *arrival) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     shared_address(to)),
                 "l"(from), "r"(bytes), "r"(shared_address(arrival))
                 : "memory");
}
__device__ inline void wait_for(Arrival *arrival, int parity) {
    asm volatile("{\n\t.reg .pred done;\n\tAGAIN:\n\tmbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n\t"
                 "@!done bra AGAIN;\n\t}" ::"r"(shared_address(arrival)),
                 "r"(parity)
                 : "memory");
}
/* By all threads, and then a barrier, before one stores in bulk what they wrote. */
__device__ inline void written_for_bulk() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ inline void store_bulk(T *to, const T *from, unsigned bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(shared_address(from)),
                 "r"(bytes)
                 : "memory");
}
/* Closes a set of stores; all sets but the last LEFT have read what they store when it returns. */
template <int LEFT> __device__ inline void stores_have_read() {
    asm volatile("cp.async.bulk.commit_group;\n\tcp.async.bulk.wait_group.read %0;" ::"n"(LEFT) : "memory");
}

/* What the block that begins when this one ends reads of a flat operand comes to L2, if the parameters say so: not long
 * before, or other data take its place. By each warp, as far on from its own COUNT matrices of so many elements. */
template <int SOURCE, int COUNT, int ELEMENTS>
__device__ inline void fetch_ahead(const smm_cuda_args &args, const smm_cuda_operand &x, long long first) {
    constexpr int LINE = 128 / sizeof(T);
    first += args.ahead;
    if (!SMM_AHEAD || SOURCE != SMM_SOURCE_FLAT || first + COUNT > args.batch) return;
    const T *from = static_cast<const T *>(x.data) + first * ELEMENTS;
#pragma unroll 1
    for (int e = threadIdx.x % 32 * LINE; e < COUNT * ELEMENTS; e += 32 * LINE)
        asm volatile("prefetch.global.L2 [%0];" ::"l"(from + e));
}

/* Offset in elements of matrix q of an operand that lies anyhow. */
__device__ inline long long offset_of(const smm_cuda_args &args, const smm_cuda_operand &x, long long q) {
    long long offset = 0;
    for (int d = 0; d < args.dims; d++) {
        offset += q % args.extent[d] * x.batch[d];
        q /= args.extent[d];
    }
    return offset;
}

/* Where row 0 of an output beside the matrices (pivots, info) begins, whose matrices have so many rows. */
constexpr bool REST_FLAT = SMM_SOURCE_REST == SMM_SOURCE_FLAT;
template <class X> __device__ inline X *beside(const smm_cuda_args &args, int which, long long matrix, int rows) {
    const smm_cuda_operand &x = args.operand[which];
    return static_cast<X *>(x.data) + (REST_FLAT ? matrix * rows : offset_of(args, x, matrix));
}

/* The factor of matrix q: an operand's, or the number that the call gave. */
__device__ inline T factor_of(const smm_cuda_args &args, const smm_cuda_operand &x, long long q, double otherwise) {
    return x.data ? static_cast<const T *>(x.data)[offset_of(args, x, q)] : static_cast<T>(otherwise);
}
