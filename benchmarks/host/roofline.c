/* roofline.c: what a machine can do at most, as loops that roofline.py compiles and smallmm/_tools/bench.py times.
 *
 * Compiled once per instruction set and dtype with -DREAL=double -DVECTOR=64 (bytes of a vector) and the
 * flags of that instruction set. It measures no time and knows no kernel of smallmm, only its threads.
 */
#include "core.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

typedef REAL vec __attribute__((vector_size(VECTOR)));

enum { LANES = VECTOR / sizeof(REAL), CHAINS = 12, UNROLL = 4, PART = (256 << 10) / VECTOR };

/* Floating-point operations of one loop of `fma_chains`. */
intptr_t fma_flops(void) { return 2 * CHAINS * LANES; }

/* 12 independent chains of x <- s x + t: enough to hide a latency of 4 cycles on 2 or 3 ports, few enough
 * for 16 registers. values: 12 vectors, in and out. */
void fma_chains(REAL *values, intptr_t loops) {
    vec *v = (vec *)values, x[CHAINS];
    const vec s = v[0], t = v[1];
    for (int i = 0; i < CHAINS; i++) x[i] = v[i];
    for (intptr_t l = 0; l < loops; l++)
        for (int i = 0; i < CHAINS; i++) x[i] = s * x[i] + t;
    for (int i = 0; i < CHAINS; i++) v[i] = x[i];
}

/* Store around the caches where the instruction set can. */
static inline void stream(vec *p, vec v) {
#if defined(__x86_64__) && VECTOR == 64
    _mm512_stream_si512((__m512i *)p, (__m512i)v);
#elif defined(__x86_64__) && VECTOR == 32
    _mm256_stream_si256((__m256i *)p, (__m256i)v);
#elif defined(__x86_64__)
    _mm_stream_si128((__m128i *)p, (__m128i)v);
#else
    *p = v;
#endif
}

/* c = a + b over `vectors` vectors (a multiple of 4), `times` times: 2 reads, 1 write. Aligned to a vector. */
void add(const REAL *a, const REAL *b, REAL *c, intptr_t vectors, intptr_t times) {
    const vec *x = (const vec *)a, *y = (const vec *)b;
    vec *z = (vec *)c;
    for (intptr_t t = 0; t < times; t++) {
        for (intptr_t i = 0; i < vectors; i += UNROLL)
            for (int u = 0; u < UNROLL; u++) z[i + u] = x[i + u] + y[i + u];
        __asm__ volatile("" ::: "memory"); /* each sweep is performed */
    }
}

struct operands {
    const vec *x, *y;
    vec *z;
};

static void add_parts(void *context, intptr_t first, intptr_t last) {
    const struct operands *o = context;
    for (intptr_t i = first * PART; i < last * PART; i += UNROLL)
        for (int u = 0; u < UNROLL; u++) stream(&o->z[i + u], o->x[i + u] + o->y[i + u]);
#if defined(__x86_64__)
    _mm_sfence();
#endif
}

/* The same, once, with non-temporal stores, in parts of 256 KB that threads share out. */
void add_streamed(const REAL *a, const REAL *b, REAL *c, intptr_t parts, int threads) {
    struct operands o = {(const vec *)a, (const vec *)b, (vec *)c};
    smm_parallel_for(parts, 1, threads, add_parts, &o);
}
