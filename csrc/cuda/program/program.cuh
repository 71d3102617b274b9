/* program.cuh: what the kernels of programs are made of. smallmm/_programs/cuda_kernel.py writes their texts.
 *
 * A warp takes 32 / LANES matrices, and LANES threads take a matrix. Of LANES = 1 the values of a matrix are in
 * registers: all loops are unrolled. Of more, they are in shared memory, where a matrix has PITCH bytes. Operands whose
 * matrices follow each other come to shared memory and leave it as the warp's stretch of memory. Warps do not wait for
 * each other, but for operands that all matrices share, which lie before those of the warps. */
typedef double T; /* of ptx.cuh */
#include "ptx.cuh"
#include "stored.cuh"

constexpr int LANES = SMM_LANES, PITCH = SMM_PITCH, THREADS = SMM_THREADS;
constexpr int MATRICES = 32 / LANES;            /* of a warp */
constexpr int UNROLL = LANES == 1 ? 0x7fff : 1; /* of loops over steps and rows */
constexpr int INNER = LANES == 1 ? 0x7fff : 4;  /* of loops within a row */

/* What the threads of a matrix wrote is seen by all of them. */
#define SYNC_LANES() \
    if constexpr (LANES > 1) __syncwarp()

/* By which a step knows what it is. */
#define SMM_OPERATION(OP, ...) SMM_OP_##OP,
enum Operation {
#include "../defs/ops.def"
};
#undef SMM_OPERATION

/* --- operands in global memory --- */

/* Offset in elements of matrix q; the innermost dimension comes first. */
template <int DIMS>
inline long long offset_of(const long long (&extent)[DIMS], const long long (&stride)[DIMS], long long q) {
    long long offset = 0;
    if (q >> 32 == 0) { /* divisions of 64 bits take many times as long */
        unsigned rest = static_cast<unsigned>(q);
#pragma unroll
        for (int d = 0; d < DIMS - 1; d++) {
            const unsigned length = static_cast<unsigned>(extent[d]), next = rest / length;
            offset += (rest - next * length) * stride[d];
            rest = next;
        }
        return offset + rest * stride[DIMS - 1];
    }
#pragma unroll
    for (int d = 0; d < DIMS - 1; d++) {
        offset += q % extent[d] * stride[d];
        q /= extent[d];
    }
    return offset + q * stride[DIMS - 1];
}

struct alignas(16) Vector {
    double x[2];
};

/* The unit in which ELEMENTS elements of each matrix move; ALIGNED: the operand begins at a multiple of 16 bytes. */
template <class X, int ELEMENTS, bool ALIGNED> constexpr int unit_of() {
    constexpr int BYTES = ELEMENTS * sizeof(X);
    return ALIGNED && BYTES % 16 == 0 ? 16 : sizeof(X) == 8 || (ALIGNED && BYTES % 8 == 0) ? 8 : sizeof(X);
}

template <class X, int ELEMENTS, int UNIT> inline void load_unit(char *warp, int at, const X *from, int unit) {
    constexpr int UNITS = ELEMENTS * sizeof(X) / UNIT;
    char *const to = warp + unit / UNITS * PITCH + at + unit % UNITS * UNIT;
    const char *const source = reinterpret_cast<const char *>(from) + static_cast<long long>(unit) * UNIT;
    if constexpr (UNIT >= 8)
        copy<UNIT / 8>(reinterpret_cast<double *>(to), reinterpret_cast<const double *>(source));
    else
        *reinterpret_cast<X *>(to) = *reinterpret_cast<const X *>(source);
}
/* Begins to bring `count` matrices without gaps to their places `at`; copies_done() ends it. By a warp. */
template <class X, int ELEMENTS, bool ALIGNED> inline void load(char *warp, int at, const X *from, int count) {
    constexpr int UNIT = unit_of<X, ELEMENTS, ALIGNED>(), UNITS = ELEMENTS * sizeof(X) / UNIT;
    const int thread = threadIdx.x % 32;
    if (count == MATRICES) {
#pragma unroll 8
        for (int u = 0; u < MATRICES * UNITS / 32; u++) load_unit<X, ELEMENTS, UNIT>(warp, at, from, u * 32 + thread);
        if (MATRICES * UNITS % 32 > thread)
            load_unit<X, ELEMENTS, UNIT>(warp, at, from, MATRICES * UNITS / 32 * 32 + thread);
    } else {
        for (int u = thread; u < count * UNITS; u += 32) load_unit<X, ELEMENTS, UNIT>(warp, at, from, u);
    }
}

template <class X, int ELEMENTS, int UNIT> inline void store_unit(const char *warp, int at, X *to, int unit) {
    constexpr int UNITS = ELEMENTS * sizeof(X) / UNIT;
    const char *const from = warp + unit / UNITS * PITCH + at + unit % UNITS * UNIT;
    char *const target = reinterpret_cast<char *>(to) + static_cast<long long>(unit) * UNIT;
    if constexpr (UNIT == 16)
        *reinterpret_cast<Vector *>(target) = *reinterpret_cast<const Vector *>(from);
    else if constexpr (UNIT == 8)
        *reinterpret_cast<double *>(target) = *reinterpret_cast<const double *>(from);
    else
        *reinterpret_cast<X *>(target) = *reinterpret_cast<const X *>(from);
}
template <class X, int ELEMENTS, bool ALIGNED> inline void store(const char *warp, int at, X *to, int count) {
    constexpr int UNIT = unit_of<X, ELEMENTS, ALIGNED>(), UNITS = ELEMENTS * sizeof(X) / UNIT;
#pragma unroll 4
    for (int u = threadIdx.x % 32; u < count * UNITS; u += 32) store_unit<X, ELEMENTS, UNIT>(warp, at, to, u);
}

/* The same of matrices that are dense, each by itself: `offset` is where this thread's begins. */
template <class X, int ELEMENTS, bool ALIGNED>
inline void load_apart(char *warp, int at, const X *from, long long offset) {
    constexpr int UNIT = unit_of<X, ELEMENTS, ALIGNED>(), UNITS = ELEMENTS * sizeof(X) / UNIT;
#pragma unroll 8
    for (int first = 0; first < MATRICES * UNITS; first += 32) {
        const int u = first + threadIdx.x % 32, matrix = u / UNITS;
        const long long own = __shfl_sync(~0u, offset, matrix * LANES % 32);
        if (u < MATRICES * UNITS) load_unit<X, ELEMENTS, UNIT>(warp, at, from + (own - matrix * ELEMENTS), u);
    }
}
template <class X, int ELEMENTS, bool ALIGNED>
inline void store_apart(const char *warp, int at, X *to, long long offset, int count) {
    constexpr int UNIT = unit_of<X, ELEMENTS, ALIGNED>(), UNITS = ELEMENTS * sizeof(X) / UNIT;
#pragma unroll 8
    for (int first = 0; first < MATRICES * UNITS; first += 32) {
        const int u = first + threadIdx.x % 32, matrix = u / UNITS;
        const long long own = __shfl_sync(~0u, offset, matrix * LANES % 32);
        if (u < count * UNITS) store_unit<X, ELEMENTS, UNIT>(warp, at, to + (own - matrix * ELEMENTS), u);
    }
}

/* Between a thread's registers and its place in shared memory. */
template <int ELEMENTS, class X> inline void fetch(X *to, const char *from) {
    constexpr int WIDE = ELEMENTS * sizeof(X) % 16 == 0 ? 16 / sizeof(X) : 1;
    struct alignas(WIDE * sizeof(X)) Wide {
        X x[WIDE];
    };
#pragma unroll
    for (int e = 0; e < ELEMENTS / WIDE; e++) {
        const Wide wide = reinterpret_cast<const Wide *>(from)[e];
#pragma unroll
        for (int i = 0; i < WIDE; i++) to[e * WIDE + i] = wide.x[i];
    }
}
template <int ELEMENTS, class X> inline void keep(char *to, const X *from) {
    constexpr int WIDE = ELEMENTS * sizeof(X) % 16 == 0 ? 16 / sizeof(X) : 1;
    struct alignas(WIDE * sizeof(X)) Wide {
        X x[WIDE];
    };
#pragma unroll
    for (int e = 0; e < ELEMENTS / WIDE; e++) {
        Wide wide;
#pragma unroll
        for (int i = 0; i < WIDE; i++) wide.x[i] = from[e * WIDE + i];
        reinterpret_cast<Wide *>(to)[e] = wide;
    }
}

/* Of stacks of numbers a thread takes COUNT neighbours. */
template <int COUNT, class X> inline void load_values(X (&to)[COUNT], const X *from, long long count) {
    struct alignas(COUNT * sizeof(X)) Wide {
        X x[COUNT];
    };
    if (count >= COUNT) {
        const Wide wide = *reinterpret_cast<const Wide *>(from);
#pragma unroll
        for (int i = 0; i < COUNT; i++) to[i] = wide.x[i];
    } else {
#pragma unroll
        for (int i = 0; i < COUNT; i++) to[i] = from[i < count ? i : 0];
    }
}
template <int COUNT, class X> inline void store_values(X *to, const X (&from)[COUNT], long long count) {
    struct alignas(COUNT * sizeof(X)) Wide {
        X x[COUNT];
    };
    if (count >= COUNT) {
        Wide wide;
#pragma unroll
        for (int i = 0; i < COUNT; i++) wide.x[i] = from[i];
        *reinterpret_cast<Wide *>(to) = wide;
    } else {
#pragma unroll
        for (int i = 0; i < COUNT; i++)
            if (i < count) to[i] = from[i];
    }
}

/* Whether one of COUNT numbers is 0 in a matrix of the warp: else its steps that are for such matrices are left out. */
template <int COUNT, class Values> inline bool some_is_zero(Values number, int lane) {
    bool zero = false;
#pragma unroll INNER
    for (int e = lane; e < COUNT; e += LANES) zero |= number(e) == 0;
    return __any_sync(~0u, zero);
}

#include "elementwise.cuh"
#include "steps.cuh"
