/* ptx.cuh: the words of PTX that CUDA C++ lacks, all inline assembly there is. What each of them does on a CPU, where
 * the kernels are tested without a GPU, tests/cuda/emulated/gpu/ptx.cuh says. */

__device__ inline unsigned shared_address(const void *x) { return static_cast<unsigned>(__cvta_generic_to_shared(x)); }
__device__ inline T *at_shared_address(unsigned x) { return static_cast<T *>(__cvta_shared_to_generic(x)); }

/* What was read of shared memory is read anew: the compiler would keep it, in more registers than there are. */
__device__ inline void compiler_barrier() { asm volatile("" ::: "memory"); }

/* The same number or address, but opaque: the compiler would compute it anew, with another constant, at each use. */
__device__ inline unsigned opaque(unsigned x) {
    asm volatile("" : "+r"(x));
    return x;
}
template <class X> __device__ inline X *opaque(X *global) {
    unsigned long long at = __cvta_generic_to_global(global);
    asm volatile("" : "+l"(at));
    return static_cast<X *>(__cvta_global_to_generic(at));
}

/* 0, but not before x is known: what is read there must be read after that. */
__device__ inline int zero_after(double x) {
    int zero = 0;
    asm volatile("" : "+r"(zero) : "d"(x));
    return zero;
}
__device__ inline int zero_after(float x) {
    int zero = 0;
    asm volatile("" : "+r"(zero) : "f"(x));
    return zero;
}

/* --- copies --- */

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

/* The first `bytes` of SIZE, and zeros in place of the others. Sets of such copies end one after the other; all but the
 * last LEFT sets are complete when it returns, for this thread. */
template <int SIZE> __device__ inline void copy_some(void *to, const void *from, int bytes) {
    const unsigned place = shared_address(to);
    if constexpr (SIZE == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(place), "l"(from), "r"(bytes));
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(place), "l"(from), "n"(SIZE), "r"(bytes));
}
__device__ inline void end_of_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int LEFT> __device__ inline void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}

/* Bulk copies: whole blocks of 16-byte vectors to shared memory and back, by a unit of their own. An Arrival counts the
 * bytes of those that name it; how often it was waited for says the parity. */
typedef unsigned long long Arrival;
/* Each by one thread; the first before the others know of it. */
__device__ inline void begin_arrivals(Arrival *arrival) {
    asm volatile("mbarrier.init.shared.b64 [%0], 1;\n\tfence.proxy.async.shared::cta;" ::"r"(shared_address(arrival))
                 : "memory");
}
__device__ inline void expect(Arrival *arrival, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(shared_address(arrival)), "r"(bytes)
                 : "memory");
}
__device__ inline void copy_bulk(T *to, const void *from, unsigned bytes, Arrival *arrival) {
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

__device__ inline void prefetch(const void *global) { asm volatile("prefetch.global.L2 [%0];" ::"l"(global)); }

/* --- float16 and bfloat16, by their bits --- */

__device__ inline float of_f16(unsigned short bits) {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
    return x;
}
__device__ inline unsigned short to_f16(float x) {
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
}
/* In one instruction for either half of a register, where a shift of the upper one takes two. */
__device__ inline float of_bf16(unsigned short bits) {
    float x;
    asm("mov.b32 %0, {%1, %2};" : "=f"(x) : "h"(static_cast<unsigned short>(0)), "h"(bits));
    return x;
}
__device__ inline unsigned short to_bf16(float x) {
    unsigned short bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
}

/* 2, 4, 8 or 16 bytes of global memory that nobody writes before they are used, so that they may be read at any time
 * before that: ahead of writes to shared memory, too, which could not be told from memory otherwise. */
template <class X> __device__ inline X load_stored(const void *from) {
    static_assert(sizeof(X) == 2 || sizeof(X) == 4 || sizeof(X) == 8 || sizeof(X) == 16, "");
    X x;
    if constexpr (sizeof(X) == 2) {
        unsigned short bits;
        asm("ld.global.u16 %0, [%1];" : "=h"(bits) : "l"(from));
        memcpy(&x, &bits, sizeof x);
    } else if constexpr (sizeof(X) == 4) {
        unsigned bits;
        asm("ld.global.u32 %0, [%1];" : "=r"(bits) : "l"(from));
        memcpy(&x, &bits, sizeof x);
    } else if constexpr (sizeof(X) == 8) {
        uint2 bits;
        asm("ld.global.v2.u32 {%0, %1}, [%2];" : "=r"(bits.x), "=r"(bits.y) : "l"(from));
        memcpy(&x, &bits, sizeof x);
    } else {
        uint4 bits;
        asm("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
            : "=r"(bits.x), "=r"(bits.y), "=r"(bits.z), "=r"(bits.w)
            : "l"(from));
        memcpy(&x, &bits, sizeof x);
    }
    return x;
}

/* --- what the multiprocessor's tables give: 20 bits and more, of doubles in the high word --- */

__device__ inline double table_reciprocal(double x) {
    double y;
    asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(x));
    return y;
}
__device__ inline float table_reciprocal(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
__device__ inline double table_rsqrt(double x) {
    double y;
    asm("rsqrt.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(x));
    return y;
}
__device__ inline float table_rsqrt(float x) {
    float y;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* --- tensor cores: C += A B --- */

#if __CUDA_ARCH__ >= 900
/* Blocks of 8 x 8, 8 x 4 and 4 x 8 elements. */
__device__ inline void add_by_tensor_cores(double (&c)[2], double a, double b) {
    asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
        : "+d"(c[0]), "+d"(c[1])
        : "d"(a), "d"(b));
}
/* The same for two neighbouring blocks of A and C at once, in the time of one. */
__device__ inline void add_by_tensor_cores(double (&c0)[2], double (&c1)[2], double a0, double a1, double b) {
    asm("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
        : "+d"(c0[0]), "+d"(c0[1]), "+d"(c1[0]), "+d"(c1[1])
        : "d"(a0), "d"(a1), "d"(b));
}
#endif

/* The same of float16 or bfloat16, two to a word: blocks of 16 x 16 and 16 x 8 elements. c0 and c1 are its rows 0 to 7
 * and 8 to 15. */
struct f16;
struct bf16;
template <class X>
__device__ inline void add_by_tensor_cores(float (&c0)[2], float (&c1)[2], const unsigned (&a)[4], unsigned b0,
                                           unsigned b1);
#define SMM_ADD_BY_TENSOR_CORES(type) \
    template <> \
    __device__ inline void add_by_tensor_cores<type>(float (&c0)[2], float (&c1)[2], const unsigned (&a)[4], \
                                                     unsigned b0, unsigned b1) { \
        asm("mma.sync.aligned.m16n8k16.row.col.f32." #type "." #type ".f32 " \
            "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
            : "+f"(c0[0]), "+f"(c0[1]), "+f"(c1[0]), "+f"(c1[1]) \
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1)); \
    }
SMM_ADD_BY_TENSOR_CORES(f16)
SMM_ADD_BY_TENSOR_CORES(bf16)

/* Four blocks of 8 x 8 numbers of 16 bits in shared memory, as tensor cores take them: to[x] of thread 4 i + j has
 * elements (i, 2 j) and (i, 2 j + 1) of block x, or of its transpose. Threads 8 x to 8 x + 7 name its rows. */
template <bool TRANSPOSED> __device__ inline void load_blocks(unsigned (&to)[4], const void *row) {
    const unsigned at = shared_address(row);
    if constexpr (TRANSPOSED)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                     : "r"(at));
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                     : "r"(at));
}

/* --- shared memory by its own addresses: the compiler would compute generic ones time and again --- */

__device__ inline double get(unsigned at) {
    double x;
    asm volatile("ld.shared.f64 %0, [%1];" : "=d"(x) : "r"(at));
    return x;
}
__device__ inline void get(unsigned at, double (&x)[2]) {
    asm volatile("ld.shared.v2.f64 {%0, %1}, [%2];" : "=d"(x[0]), "=d"(x[1]) : "r"(at));
}
__device__ inline void put(unsigned at, double x) { asm volatile("st.shared.f64 [%0], %1;" ::"r"(at), "d"(x)); }

/* Without a branch. */
#define SMM_IF(number, instruction) "{\n\t.reg .pred p;\n\tsetp.ne.u32 p, %" #number ", 0;\n\t@p " instruction "\n\t}"
__device__ inline void get_if(unsigned condition, unsigned at, double (&x)[2]) {
    asm volatile(SMM_IF(3, "ld.shared.v2.f64 {%0, %1}, [%2];") : "+d"(x[0]), "+d"(x[1]) : "r"(at), "r"(condition));
}
__device__ inline void put_if(unsigned condition, unsigned at, const double (&x)[2]) {
    asm volatile(SMM_IF(3, "st.shared.v2.f64 [%0], {%1, %2};")::"r"(at), "d"(x[0]), "d"(x[1]), "r"(condition));
}
