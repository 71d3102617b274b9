/* pack.h: conversions around a kernel: operands with awkward strides to packed (dense row-major)
 * matrices in a buffer, and packed results to C, scaled, scattered or streamed. */
#include <string.h>

/* Copy `count` elements; both sides are contiguous. */
INLINE void copy_row(T *to, const T *from, intptr_t count) {
    intptr_t j = 0;
    for (; j + LANES <= count; j += LANES) lane_store(to + j, lane_load(from + j));
    if (j < count) lane_store_part(to + j, lane_load_part(from + j, count - j), count - j);
}

/* Elements that are `step` apart; parts of complex numbers are 2, for which compilers know better loops. */
INLINE void gather_row(T *restrict to, const T *restrict from, intptr_t step, intptr_t count) {
    if (step == 2)
        for (intptr_t j = 0; j < count; j++) to[j] = from[2 * j];
    else
        for (intptr_t j = 0; j < count; j++) to[j] = from[step * j];
}
INLINE void scatter_row(T *restrict to, intptr_t step, const T *restrict from, intptr_t count) {
    if (step == 1)
        copy_row(to, from, count);
    else if (step == 2)
        for (intptr_t j = 0; j < count; j++) to[2 * j] = from[j];
    else
        for (intptr_t j = 0; j < count; j++) to[step * j] = from[j];
}

static void KERNEL(pack)(void *packed, const smm_operand *x, intptr_t rows, intptr_t cols, intptr_t count, bool cold) {
    const strides s = strides_of(x);
    const T *from = x->data;
    T *to = packed;
    const bool even = s.row == cols * s.col; /* one row follows the other */
    if (even && s.col != 1 && s.batch == rows * s.row) {
        gather_row(to, from, s.col, count * rows * cols);
        return;
    }
    for (; count--; from += s.batch, to += rows * cols) {
        const T *next = cold && s.batch == rows * cols ? from + distance(rows * cols) : NULL;
        if (next && s.row != 1) prefetch(next, rows * cols);
        if (s.col == 1)
            for (intptr_t i = 0; i < rows; i++) copy_row(to + i * cols, from + i * s.row, cols);
        else if (s.row == 1)
            transpose(to, from, s.col, rows, cols, next);
        else
            for (intptr_t i = 0; i < rows; i++) gather_row(to + i * cols, from + i * s.row, s.col, cols);
    }
}

static void KERNEL(stream)(void *to, const void *from, size_t bytes) {
    T *c = to;
    const T *x = from;
    for (size_t j = 0; j < bytes / sizeof(T); j += LANES) lane_stream(c + j, lane_load(x + j));
}

static T scalar_of(const smm_operand *x, intptr_t q, T otherwise) {
    return x->data ? *(const T *)((const char *)x->data + q * x->batch) : otherwise;
}

INLINE void scale_row(T *x, intptr_t count, T alpha) {
    for (intptr_t j = 0; j < count; j++) x[j] *= alpha;
}

/* c = alpha x + beta c */
INLINE void combine_row(T *c, intptr_t step, const T *x, intptr_t count, T alpha, T beta) {
    for (intptr_t j = 0; j < count; j++) c[j * step] = scalar_fma(alpha, x[j], beta * c[j * step]);
}

static void KERNEL(scale)(const smm_call *call, void *packed) {
    const intptr_t count = call->m * call->n;
    for (intptr_t q = 0; q < call->batch; q++)
        scale_row((T *)packed + q * count, count, scalar_of(&call->matmul.alpha, q, 1));
}

static void KERNEL(add)(void *sum, const void *x, intptr_t count) {
    T *to = sum;
    const T *from = x;
    for (intptr_t j = 0; j < count; j++) to[j] += from[j];
}

static void KERNEL(unpack)(const smm_call *call, void *packed) {
    const intptr_t m = call->m, n = call->n;
    const strides s = strides_of(&call->matmul.c);
    T *x = packed, *c = call->matmul.c.data;
    if (s.row == n * s.col && s.batch == m * s.row && !call->matmul.alpha.data && !call->matmul.beta.data) {
        scatter_row(c, s.col, x, call->batch * m * n);
        return;
    }
    for (intptr_t q = 0; q < call->batch; q++, c += s.batch, x += m * n) {
        const T alpha = scalar_of(&call->matmul.alpha, q, 1), beta = scalar_of(&call->matmul.beta, q, 0);
        if (beta == 0 && call->matmul.alpha.data) scale_row(x, m * n, alpha);
        for (intptr_t i = 0; i < m; i++) {
            T *row = c + i * s.row;
            if (beta != 0)
                combine_row(row, s.col, x + i * n, n, alpha, beta);
            else
                scatter_row(row, s.col, x + i * n, n);
        }
    }
}
