/* pack_numbers.h: the conversions of pack.h for complex numbers. */
#include <string.h>

static void KERNEL(pack)(void *packed, const smm_operand *x, intptr_t rows, intptr_t cols, intptr_t count, bool cold) {
    (void)cold;
    const strides s = strides_of(x);
    for (intptr_t q = 0; q < count; q++)
        pairs_copy((T *)packed + q * PARTS * rows * cols, (const T *)x->data + q * s.batch, s, rows, cols);
}

static void KERNEL(stream)(void *to, const void *from, size_t bytes) {
    T *c = to;
    const T *x = from;
    for (size_t j = 0; j < bytes / sizeof(T); j += LANES) lane_stream(c + j, lane_load(x + j));
}

/* One number, and its product with another, plus a third: in the order of num_mul and num_fma. */
typedef struct one {
    T re, im;
} one;
INLINE one one_at(const T *x) { return (one){x[0], x[1]}; }
INLINE one one_mul(one x, one y) {
    return (one){scalar_fma(-x.im, y.im, x.re * y.re), scalar_fma(x.im, y.re, x.re * y.im)};
}
INLINE one one_fma(one x, one y, one z) {
    return (one){scalar_fma(-x.im, y.im, scalar_fma(x.re, y.re, z.re)),
                 scalar_fma(x.im, y.re, scalar_fma(x.re, y.im, z.im))};
}

static one scalar_of(const smm_operand *x, intptr_t q, T otherwise) {
    return x->data ? one_at((const T *)((const char *)x->data + q * x->batch)) : (one){otherwise, 0};
}

/* x = alpha x, of so many numbers */
INLINE void scale_row(T *x, intptr_t count, one alpha) {
    for (intptr_t j = 0; j < count; j++) {
        const one y = one_mul(alpha, one_at(x + PARTS * j));
        x[PARTS * j] = y.re, x[PARTS * j + 1] = y.im;
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
    const intptr_t m = call->m, n = call->n;
    const strides s = strides_of(&call->matmul.c);
    T *x = packed, *c = call->matmul.c.data;
    for (intptr_t q = 0; q < call->batch; q++, c += s.batch, x += PARTS * m * n) {
        const one alpha = scalar_of(&call->matmul.alpha, q, 1), beta = scalar_of(&call->matmul.beta, q, 0);
        const bool reads = beta.re != 0 || beta.im != 0;
        if (!reads && call->matmul.alpha.data) scale_row(x, m * n, alpha);
        for (intptr_t i = 0; i < m; i++)
            for (intptr_t j = 0; j < n; j++) {
                T *z = c + i * s.row + j * s.col;
                one y = one_at(x + PARTS * (i * n + j));
                if (reads) y = one_fma(alpha, y, one_mul(beta, one_at(z)));
                z[0] = y.re, z[1] = y.im;
            }
    }
}
