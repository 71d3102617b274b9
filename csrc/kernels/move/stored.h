/* stored.h: between the types that are only stored and float32, in which they are computed: the conversions of half.h,
 * by the instructions that the lane verbs have for them. */

/* One number; dtype is a constant. */
INLINE T widened(uint16_t x, const smm_dtype dtype) {
    return dtype == SMM_F16 ? smm_f16_to_f32(x) : smm_bf16_to_f32(x);
}
INLINE uint16_t narrowed(T x, const smm_dtype dtype) {
    return dtype == SMM_F16 ? smm_f32_to_f16(x) : smm_f32_to_bf16(x);
}

INLINE void widen_row(T *to, const char *from, intptr_t count, intptr_t step, const smm_dtype dtype) {
    const uint16_t *x = (const uint16_t *)from;
    const intptr_t size = sizeof *x;
    intptr_t j = 0;
    if (step != size) {
        for (; j < count; j++) to[j] = widened(*(const uint16_t *)(from + j * step), dtype);
        return;
    }
#if defined(SMM_LANE_HALF)
    for (; j + LANES <= count; j += LANES)
        lane_store(to + j, dtype == SMM_F16 ? lane_load_f16(x + j) : lane_load_bf16(x + j));
#endif
    for (; j < count; j++) to[j] = widened(x[j], dtype);
}

#if defined(SMM_LANE_HALF)
INLINE half_vec lane_narrowed(const T *from, const smm_dtype dtype) {
    const vec x = lane_load(from);
    return dtype == SMM_F16 ? lane_to_f16(x) : lane_to_bf16(x);
}
#endif

/* Contiguous numbers. */
INLINE void narrow_dense(uint16_t *to, const T *from, intptr_t count, const smm_dtype dtype) {
    intptr_t j = 0;
#if defined(SMM_LANE_HALF)
    for (; j + LANES <= count; j += LANES) lane_store_half(to + j, lane_narrowed(from + j, dtype));
#endif
    for (; j < count; j++) to[j] = narrowed(from[j], dtype);
}

/* The same; whole cache lines go around the caches. Lines of which this is a part do not: the rest of them comes with
 * the tile before, or the next. */
INLINE void narrow_streamed(uint16_t *to, const T *from, intptr_t count, const smm_dtype dtype) {
#if defined(SMM_LANE_HALF)
    enum { LINE = SMM_LINE / sizeof *to };
    const intptr_t head = min_of(count, (intptr_t)((0 - (uintptr_t)to) % SMM_LINE / sizeof *to));
    const intptr_t end = head + (count - head) / LINE * LINE;
    narrow_dense(to, from, head, dtype);
    for (intptr_t j = head; j < end; j += LANES) lane_stream_half(to + j, lane_narrowed(from + j, dtype));
    narrow_dense(to + end, from + end, count - end, dtype);
#else
    narrow_dense(to, from, count, dtype);
#endif
}

INLINE void narrow_row(char *to, const T *from, intptr_t count, intptr_t step, const bool streamed,
                       const smm_dtype dtype) {
    const intptr_t size = sizeof(uint16_t);
    if (step != size)
        for (intptr_t j = 0; j < count; j++) *(uint16_t *)(to + j * step) = narrowed(from[j], dtype);
    else if (streamed)
        narrow_streamed((uint16_t *)to, from, count, dtype);
    else
        narrow_dense((uint16_t *)to, from, count, dtype);
}

INLINE void widen(T *to, const smm_grid *x, const smm_dtype dtype) {
    for (intptr_t q = 0; q < x->extent[2]; q++)
        for (intptr_t i = 0; i < x->extent[1]; i++, to += x->extent[0])
            widen_row(to, (const char *)x->data + q * x->step[2] + i * x->step[1], x->extent[0], x->step[0], dtype);
}

INLINE void narrow(const smm_grid *x, const T *from, const bool streamed, const smm_dtype dtype) {
    for (intptr_t q = 0; q < x->extent[2]; q++)
        for (intptr_t i = 0; i < x->extent[1]; i++, from += x->extent[0])
            narrow_row((char *)x->data + q * x->step[2] + i * x->step[1], from, x->extent[0], x->step[0], streamed,
                       dtype);
}

#define CONVERSIONS(x, STORED, stored, ...) \
    static void KERNEL(widen_##stored)(void *dense, const smm_grid *from) { widen(dense, from, SMM_##STORED); } \
    static void KERNEL(narrow_##stored)(const smm_grid *to, const void *dense, bool streamed) { \
        if (streamed) \
            narrow(to, dense, true, SMM_##STORED); \
        else \
            narrow(to, dense, false, SMM_##STORED); \
    }
SMM_STORED(CONVERSIONS, _)
#undef CONVERSIONS
