/* ptx.cuh of the emulated GPU: what the words of csrc/cuda/device/ptx.cuh do. */
#include "../../../csrc/half.h"

inline unsigned shared_address(const void *x) {
    return static_cast<unsigned>(static_cast<const char *>(x) - emulated_shared);
}
inline char *emulated_at(unsigned shared) { return emulated_shared + static_cast<int>(shared); }
inline T *at_shared_address(unsigned x) { return reinterpret_cast<T *>(emulated_at(x)); }

inline void forget_memory() {}
inline unsigned kept(unsigned x) { return x; }
template <class X> inline X *kept(X *global) { return global; }
inline int zero_after(T) { return 0; }

inline void emulated_aligned(const void *x, unsigned bytes) {
    if (reinterpret_cast<unsigned long long>(x) % bytes) emulated_fail("an address is not aligned");
}

/* --- copies --- */

template <int WIDTH, bool SHARED_BY_ALL = false> inline void copy(T *to, const T *from) {
    emulated_aligned(to, WIDTH * sizeof(T));
    emulated_aligned(from, WIDTH * sizeof(T));
    emulated_copy_later(to, from, WIDTH * sizeof(T));
}
inline void copies_done() { emulated_copies_done(); }

/* The bytes that are awaited, and above them how many sets have come. */
typedef unsigned long long Arrival;
constexpr bool BULK_COPIES = __CUDA_ARCH__ >= 900;
constexpr Arrival EMULATED_SET = 1ull << 32;
inline void begin_arrivals(Arrival *arrival) {
    emulated_aligned(arrival, 8);
    *arrival = 0;
}
inline void expect(Arrival *arrival, unsigned bytes) { *arrival += bytes; }
inline void copy_bulk(T *to, const void *from, unsigned bytes, Arrival *arrival) {
    emulated_aligned(to, 16);
    emulated_aligned(from, 16);
    if (bytes % 16) emulated_fail("a bulk copy of no whole vectors");
    if (*arrival % EMULATED_SET < bytes) emulated_fail("a bulk copy that nobody expects");
    memcpy(to, from, bytes);
    *arrival -= bytes;
    if (*arrival % EMULATED_SET == 0) *arrival += EMULATED_SET;
}
inline void wait_for(Arrival *arrival, int parity) {
    while (static_cast<int>(*static_cast<volatile Arrival *>(arrival) / EMULATED_SET % 2) == parity) emulated_yield();
}
inline void written_for_bulk() {}
inline void store_bulk(T *to, const T *from, unsigned bytes) {
    emulated_aligned(to, 16);
    emulated_aligned(from, 16);
    if (bytes % 16) emulated_fail("a bulk store of no whole vectors");
    memcpy(to, from, bytes);
}
template <int LEFT> inline void stores_have_read() {}

inline void prefetch(const void *) {}

/* --- float16 and bfloat16: as the CPU's kernels --- */

inline float of_f16(unsigned short bits) { return smm_f16_to_f32(bits); }
inline unsigned short to_f16(float x) { return smm_f32_to_f16(x); }
inline float of_bf16(unsigned short bits) { return smm_bf16_to_f32(bits); }
inline unsigned short to_bf16(float x) { return smm_f32_to_bf16(x); }

template <class X> inline X load_stored(const void *from) {
    emulated_aligned(from, sizeof(X));
    X x;
    memcpy(&x, from, sizeof x);
    return x;
}

/* --- tables: of doubles with a few bits less than the multiprocessor's have --- */

inline double table_reciprocal(double x) { return __hiloint2double(__double2hiint(1 / x), 0); }
inline double table_rsqrt(double x) { return __hiloint2double(__double2hiint(1 / std::sqrt(x)), 0); }
inline float table_reciprocal(float x) { return 1 / x; }
inline float table_rsqrt(float x) { return 1 / std::sqrt(x); }

/* --- tensor cores --- */

inline void add_by_tensor_cores(double (&c)[2], double a, double b) {
    double rows[32], columns[32];
    memcpy(rows, emulated_exchange(~0u, &a, sizeof a, __LINE__), sizeof rows);
    memcpy(columns, emulated_exchange(~0u, &b, sizeof b, __LINE__), sizeof columns);
    const int row = emulated_lane() / 4, col = emulated_lane() % 4 * 2;
    for (int j = 0; j < 2; j++)
        for (int k = 0; k < 4; k++) c[j] = std::fma(rows[4 * row + k], columns[4 * (col + j) + k], c[j]);
}
inline void add_by_tensor_cores(double (&c0)[2], double (&c1)[2], double a0, double a1, double b) {
    add_by_tensor_cores(c0, a0, b);
    add_by_tensor_cores(c1, a1, b);
}

/* --- shared memory by its own addresses --- */

inline double get(unsigned at) {
    emulated_aligned(emulated_at(at), 8);
    return *reinterpret_cast<double *>(emulated_at(at));
}
inline void get(unsigned at, double (&x)[2]) {
    emulated_aligned(emulated_at(at), 16);
    memcpy(x, emulated_at(at), sizeof x);
}
inline void put(unsigned at, double x) {
    emulated_aligned(emulated_at(at), 8);
    *reinterpret_cast<double *>(emulated_at(at)) = x;
}
inline void get_if(unsigned condition, unsigned at, double (&x)[2]) {
    if (condition) get(at, x);
}
inline void put_if(unsigned condition, unsigned at, const double (&x)[2]) {
    emulated_aligned(emulated_at(at), condition ? 16 : 1);
    if (condition) memcpy(emulated_at(at), x, sizeof x);
}
