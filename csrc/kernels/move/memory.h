/* memory.h: operands on their way from memory and results on their way there, while something is computed. Spread over
 * the steps of the computation both cost next to nothing; at once per matrix they stall. But small factorizations
 * became up to 1.5 times slower when lines were streamed among their prefetches (AMD Zen 5, November 2026): only
 * products do. */

/* How far before its use an operand that comes from memory is prefetched: in elements, at least a matrix of
 * `count` elements, and AHEAD_BYTES more. */
enum { AHEAD_BYTES = 4096 };
INLINE intptr_t distance(intptr_t count) { return count + AHEAD_BYTES / (intptr_t)sizeof(T); }

/* What comes next of a dense stack while `count` elements from matrix q on are worked on. */
INLINE const T *ahead_of(const smm_operand *x, intptr_t q, intptr_t count) {
    return (const T *)((const char *)x->data + q * x->batch) + distance(count);
}

/* The same of A's that begin at `a`, while so many of their elements are worked on. */
INLINE const T *next_a(const smm_prefetch *cold, const T *a, intptr_t count) {
    return cold->next_a ? cold->next_a : a + distance(count);
}

INLINE void prefetch(const T *p, intptr_t count) {
    for (intptr_t l = 0; l < count; l += SMM_LINE / (intptr_t)sizeof(T)) __builtin_prefetch(p + l);
}

INLINE void stream_line(smm_prefetch *x) {
    UNROLLED(int e = 0; e < SMM_LINE / (int)sizeof(T); e += LANES)
        lane_stream((T *)x->to + e, lane_load((const T *)x->from + e));
    x->from += SMM_LINE, x->to += SMM_LINE, x->lines--;
}
