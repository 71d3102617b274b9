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
#if defined(SMM_LANE_F16)
    if (dtype == SMM_F16)
        for (; j + LANES <= count; j += LANES) lane_store(to + j, lane_load_f16(x + j));
#endif
    for (; j < count; j++) to[j] = widened(x[j], dtype);
}

INLINE void narrow_row(char *to, const T *from, intptr_t count, intptr_t step, const smm_dtype dtype) {
    uint16_t *x = (uint16_t *)to;
    const intptr_t size = sizeof *x;
    intptr_t j = 0;
    if (step != size) {
        for (; j < count; j++) *(uint16_t *)(to + j * step) = narrowed(from[j], dtype);
        return;
    }
#if defined(SMM_LANE_F16)
    if (dtype == SMM_F16)
        for (; j + LANES <= count; j += LANES) lane_store_f16(x + j, lane_load(from + j));
#endif
    for (; j < count; j++) x[j] = narrowed(from[j], dtype);
}

INLINE void widen(T *to, const smm_grid *x, const smm_dtype dtype) {
    for (intptr_t q = 0; q < x->extent[2]; q++)
        for (intptr_t i = 0; i < x->extent[1]; i++, to += x->extent[0])
            widen_row(to, (const char *)x->data + q * x->step[2] + i * x->step[1], x->extent[0], x->step[0], dtype);
}

INLINE void narrow(const smm_grid *x, const T *from, const smm_dtype dtype) {
    for (intptr_t q = 0; q < x->extent[2]; q++)
        for (intptr_t i = 0; i < x->extent[1]; i++, from += x->extent[0])
            narrow_row((char *)x->data + q * x->step[2] + i * x->step[1], from, x->extent[0], x->step[0], dtype);
}

#define CONVERSIONS(x, STORED, stored, ...) \
    static void KERNEL(widen_##stored)(void *dense, const smm_grid *from) { widen(dense, from, SMM_##STORED); } \
    static void KERNEL(narrow_##stored)(const smm_grid *to, const void *dense) { narrow(to, dense, SMM_##STORED); }
SMM_STORED(CONVERSIONS, _)
#undef CONVERSIONS
