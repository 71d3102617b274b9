/* ptx.cuh of the emulated GPU: what the words of csrc/cuda/device/ptx.cuh do. */
#include "../../../../csrc/math/half.h"

inline unsigned shared_address(const void *x) {
    return static_cast<unsigned>(static_cast<const char *>(x) - emulated_shared);
}
inline char *emulated_at(unsigned shared) { return emulated_shared + static_cast<int>(shared); }
inline T *at_shared_address(unsigned x) { return reinterpret_cast<T *>(emulated_at(x)); }

inline void compiler_barrier() {}
inline unsigned opaque(unsigned x) { return x; }
template <class X> inline X *opaque(X *global) { return global; }
inline int zero_after(T) { return 0; }

/* --- copies --- */

template <int WIDTH, bool SHARED_BY_ALL = false> inline void copy(T *to, const T *from) {
    emulated_aligned(to, WIDTH * sizeof(T));
    emulated_aligned(from, WIDTH * sizeof(T));
    emulated_copy_later(to, from, WIDTH * sizeof(T));
}
inline void copies_done() { emulated_copies_done(-1); }
template <int SIZE> inline void copy_some(void *to, const void *from, int bytes) {
    emulated_aligned(to, SIZE);
    emulated_aligned(from, SIZE);
    if (bytes < 0 || bytes > SIZE) emulated_fail("a copy of another size");
    memset(static_cast<char *>(to) + bytes, 0, SIZE - bytes);
    if (bytes) emulated_copy_later(to, from, bytes);
}
inline void end_of_copies() { emulated_end_of_copies(); }
template <int LEFT> inline void wait_for_copies() { emulated_copies_done(LEFT); }

/* The bytes that are awaited, and above them how many sets have come. */
typedef unsigned long long Arrival;
constexpr Arrival EMULATED_SET = 1ull << 32;
#define EMULATED_ORDERED __attribute__((no_sanitize("thread"))) /* by the hardware: no race */
EMULATED_ORDERED inline void begin_arrivals(Arrival *arrival) {
    emulated_aligned(arrival, 8);
    *arrival = 0;
}
EMULATED_ORDERED inline void expect(Arrival *arrival, unsigned bytes) {
    *arrival += bytes;
    emulated_arrive(arrival);
}
EMULATED_ORDERED inline void copy_bulk(T *to, const void *from, unsigned bytes, Arrival *arrival) {
    emulated_aligned(to, 16);
    emulated_aligned(from, 16);
    if (bytes % 16) emulated_fail("a bulk copy of no whole vectors");
    if (*arrival % EMULATED_SET < bytes) emulated_fail("a bulk copy that nobody expects");
    memcpy(to, from, bytes);
    *arrival -= bytes;
    if (*arrival % EMULATED_SET == 0) *arrival += EMULATED_SET;
}
EMULATED_ORDERED inline void wait_for(Arrival *arrival, int parity) {
    while (static_cast<int>(*static_cast<volatile Arrival *>(arrival) / EMULATED_SET % 2) == parity) emulated_yield();
    emulated_arrived(arrival);
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
inline double table_rsqrt(double x) { return __hiloint2double(__double2hiint(1 / __dsqrt_rn(x)), 0); }
inline float table_reciprocal(float x) { return 1 / x; }
inline float table_rsqrt(float x) { return 1 / __fsqrt_rn(x); }

/* --- tensor cores --- */

inline void add_by_tensor_cores(double (&c)[2], double a, double b) {
    double rows[32], columns[32];
    memcpy(rows, emulated_exchange(~0u, &a, sizeof a, __LINE__), sizeof rows);
    memcpy(columns, emulated_exchange(~0u, &b, sizeof b, __LINE__), sizeof columns);
    const int row = emulated_lane() / 4, col = emulated_lane() % 4 * 2;
    for (int j = 0; j < 2; j++)
        for (int k = 0; k < 4; k++) c[j] = __fma_rn(rows[4 * row + k], columns[4 * (col + j) + k], c[j]);
}
inline void add_by_tensor_cores(double (&c0)[2], double (&c1)[2], double a0, double a1, double b) {
    add_by_tensor_cores(c0, a0, b);
    add_by_tensor_cores(c1, a1, b);
}

struct f16;
struct bf16;
template <class X> inline float emulated_number(unsigned short bits);
template <> inline float emulated_number<f16>(unsigned short bits) { return of_f16(bits); }
template <> inline float emulated_number<bf16>(unsigned short bits) { return of_bf16(bits); }
/* A word of each thread of the warp, as its two numbers. */
template <class X> inline void emulated_numbers(float (&to)[32][2], unsigned word, int line) {
    const char *all = emulated_exchange(~0u, &word, sizeof word, line);
    for (int thread = 0; thread < 32; thread++) {
        const unsigned x = emulated_of<unsigned>(all, thread);
        to[thread][0] = emulated_number<X>(x & 0xffff);
        to[thread][1] = emulated_number<X>(x >> 16);
    }
}
/* One product after the other, in the order of k. */
template <class X>
inline void add_by_tensor_cores(float (&c0)[2], float (&c1)[2], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    float x[4][32][2], y[2][32][2];
    for (int i = 0; i < 4; i++) emulated_numbers<X>(x[i], a[i], __LINE__);
    emulated_numbers<X>(y[0], b0, __LINE__);
    emulated_numbers<X>(y[1], b1, __LINE__);
    const int row = emulated_lane() / 4, col = emulated_lane() % 4 * 2;
    for (int j = 0; j < 2; j++)
        for (int k = 0; k < 16; k++) {
            const int along = k % 8 / 2;
            const float of_b = y[k / 8][4 * (col + j) + along][k % 2];
            c0[j] = __fmaf_rn(x[k / 8 * 2][4 * row + along][k % 2], of_b, c0[j]);
            c1[j] = __fmaf_rn(x[k / 8 * 2 + 1][4 * row + along][k % 2], of_b, c1[j]);
        }
}
template <bool TRANSPOSED> inline void load_blocks(unsigned (&to)[4], const void *row) {
    emulated_aligned(row, 16);
    const char *all = emulated_exchange(~0u, &row, sizeof row, __LINE__);
    const int i = emulated_lane() / 4, j = emulated_lane() % 4 * 2;
    for (int x = 0; x < 4; x++) {
        unsigned short both[2];
        for (int e = 0; e < 2; e++)
            both[e] =
                emulated_of<const unsigned short *>(all, 8 * x + (TRANSPOSED ? j + e : i))[TRANSPOSED ? i : j + e];
        memcpy(&to[x], both, sizeof both);
    }
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
