/* pack.h: conversions around a kernel: operands with awkward strides to packed (dense row-major)
 * matrices in a buffer, and packed results to C, scaled, scattered or streamed. */
#include <string.h>

/* One number; products and sums in the order of elem_mul and elem_fma. */
#if defined(REAL_DTYPE)
typedef struct one {
    T re, im;
} one;
INLINE one one_of(T re) { return (one){re, 0}; }
INLINE one one_at(const T *x) { return (one){x[0], x[1]}; }
INLINE void one_put(T *x, one y) { x[0] = y.re, x[1] = y.im; }
INLINE void one_copy(T *restrict x, const T *restrict y) { memcpy(x, y, PARTS * sizeof(T)); } /* not in two moves */
INLINE bool one_is_zero(one x) { return x.re == 0 && x.im == 0; }
INLINE one one_mul(one x, one y) {
    return (one){scalar_fma(-x.im, y.im, x.re * y.re), scalar_fma(x.im, y.re, x.re * y.im)};
}
INLINE one one_fma(one x, one y, one z) {
    return (one){scalar_fma(-x.im, y.im, scalar_fma(x.re, y.re, z.re)),
                 scalar_fma(x.im, y.re, scalar_fma(x.re, y.im, z.im))};
}
#else
typedef T one;
INLINE one one_of(T x) { return x; }
INLINE one one_at(const T *x) { return *x; }
INLINE void one_put(T *x, one y) { *x = y; }
INLINE void one_copy(T *restrict x, const T *restrict y) { *x = *y; }
INLINE bool one_is_zero(one x) { return x == 0; }
INLINE one one_mul(one x, one y) { return x * y; }
INLINE one one_fma(one x, one y, one z) { return scalar_fma(x, y, z); }
#endif

/* Copy `count` elements; both sides are contiguous. */
INLINE void copy_row(T *to, const T *from, intptr_t count) {
    intptr_t j = 0;
    for (; j + LANES <= count; j += LANES) lane_store(to + j, lane_load(from + j));
    if (j < count) lane_store_part(to + j, lane_load_part(from + j, count - j), count - j);
}

/* So many numbers that are `step` apart; parts of complex numbers are 2, for which compilers know better loops. */
INLINE void gather_row(T *restrict to, const T *restrict from, intptr_t step, intptr_t count) {
    if (PARTS == 1 && step == 2)
        for (intptr_t j = 0; j < count; j++) to[j] = from[2 * j];
    else
        for (intptr_t j = 0; j < count; j++) one_copy(to + PARTS * j, from + step * j);
}
INLINE void scatter_row(T *restrict to, intptr_t step, const T *restrict from, intptr_t count) {
    if (step == PARTS)
        copy_row(to, from, PARTS * count);
    else if (PARTS == 1 && step == 2)
        for (intptr_t j = 0; j < count; j++) to[2 * j] = from[j];
    else
        for (intptr_t j = 0; j < count; j++) one_copy(to + step * j, from + PARTS * j);
}

static void KERNEL(pack)(void *packed, const smm_operand *x, intptr_t rows, intptr_t cols, intptr_t count, bool cold) {
    const strides s = strides_of(x);
    const T *from = x->data;
    T *to = packed;
    const intptr_t width = PARTS * cols, size = rows * width;
    const bool even = s.row == cols * s.col; /* one row follows the other */
    if (even && s.col != PARTS && s.batch == rows * s.row) {
        gather_row(to, from, s.col, count * rows * cols);
        return;
    }
    for (; count--; from += s.batch, to += size) {
        const T *next = cold && s.batch == size ? from + distance(size) : NULL;
        if (next && s.row != 1) prefetch(next, size);
        if (s.col == PARTS)
            for (intptr_t i = 0; i < rows; i++) copy_row(to + i * width, from + i * s.row, width);
        else if (PARTS == 1 && s.row == 1)
            transpose(to, from, s.col, rows, cols, next);
        else
            for (intptr_t i = 0; i < rows; i++) gather_row(to + i * width, from + i * s.row, s.col, cols);
    }
}

static void KERNEL(stream)(void *to, const void *from, size_t bytes) {
    T *c = to;
    const T *x = from;
    for (size_t j = 0; j < bytes / sizeof(T); j += LANES) lane_stream(c + j, lane_load(x + j));
}

static one scalar_of(const smm_operand *x, intptr_t q, T otherwise) {
    return x->data ? one_at((const T *)((const char *)x->data + q * x->batch)) : one_of(otherwise);
}

/* x = alpha x, of so many numbers */
INLINE void scale_row(T *x, intptr_t count, one alpha) {
    for (intptr_t j = 0; j < count; j++) one_put(x + PARTS * j, one_mul(alpha, one_at(x + PARTS * j)));
}

/* c = alpha x + beta c */
INLINE void combine_row(T *c, intptr_t step, const T *x, intptr_t count, one alpha, one beta) {
    for (intptr_t j = 0; j < count; j++) {
        T *const z = c + j * step;
        one_put(z, one_fma(alpha, one_at(x + PARTS * j), one_mul(beta, one_at(z))));
    }
}

static void KERNEL(scale)(const smm_call *call, void *packed) {
    const intptr_t count = call->m * call->n;
    for (intptr_t q = 0; q < call->batch; q++)
        scale_row((T *)packed + q * PARTS * count, count, scalar_of(&call->matmul.alpha, q, 1));
}

static void KERNEL(add)(void *sum, const void *x, intptr_t count) {
    T *to = sum;
    const T *from = x;
    for (intptr_t j = 0; j < PARTS * count; j++) to[j] += from[j];
}

static void KERNEL(unpack)(const smm_call *call, void *packed) {
    const intptr_t m = call->m, n = call->n, width = PARTS * n;
    const strides s = strides_of(&call->matmul.c);
    T *x = packed, *c = call->matmul.c.data;
    if (s.row == n * s.col && s.batch == m * s.row && !call->matmul.alpha.data && !call->matmul.beta.data) {
        scatter_row(c, s.col, x, call->batch * m * n);
        return;
    }
    for (intptr_t q = 0; q < call->batch; q++, c += s.batch, x += m * width) {
        const one alpha = scalar_of(&call->matmul.alpha, q, 1), beta = scalar_of(&call->matmul.beta, q, 0);
        const bool reads = !one_is_zero(beta);
        if (!reads && call->matmul.alpha.data) scale_row(x, m * n, alpha);
        for (intptr_t i = 0; i < m; i++) {
            T *row = c + i * s.row;
            if (reads)
                combine_row(row, s.col, x + i * width, n, alpha, beta);
            else
                scatter_row(row, s.col, x + i * width, n);
        }
    }
}
