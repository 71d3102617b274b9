/* pairs.h: complex numbers in lanes, a vector of real parts and one of imaginary parts: the numbers of complex kernels
 * (elements_complex.h), and results of real ones. Each part of a product adds the term of the first factor's real part,
 * then that of its imaginary part. Numbers in memory are pairs, real part first. */

typedef struct pair {
    vec re, im;
} pair;

INLINE pair pair_conj(pair x) { return (pair){x.re, lane_negate(x.im)}; }
INLINE pair pair_sub(pair x, pair y) { return (pair){lane_sub(x.re, y.re), lane_sub(x.im, y.im)}; }
INLINE pair pair_scale(pair x, vec s) { return (pair){lane_mul(x.re, s), lane_mul(x.im, s)}; }
INLINE pair pair_select(mask m, pair x, pair y) {
    return (pair){lane_select(m, x.re, y.re), lane_select(m, x.im, y.im)};
}

/* x y, z + x y, z - x y */
INLINE pair pair_mul(pair x, pair y) {
    return (pair){lane_fnma(x.im, y.im, lane_mul(x.re, y.re)), lane_fma(x.im, y.re, lane_mul(x.re, y.im))};
}
INLINE pair pair_fma(pair x, pair y, pair z) {
    return (pair){lane_fnma(x.im, y.im, lane_fma(x.re, y.re, z.re)), lane_fma(x.im, y.re, lane_fma(x.re, y.im, z.im))};
}
INLINE pair pair_fnma(pair x, pair y, pair z) {
    return (pair){lane_fma(x.im, y.im, lane_fnma(x.re, y.re, z.re)),
                  lane_fnma(x.im, y.re, lane_fnma(x.re, y.im, z.im))};
}

/* |re| + |im|, by which pivots are compared, as in LAPACK. */
INLINE vec pair_size(pair x) { return lane_add(lane_abs(x.re), lane_abs(x.im)); }

/* The element of largest magnitude, the first of equals, becomes positive: what all are multiplied with. */
typedef struct pairs_largest {
    pair x;
    vec square, at;
} pairs_largest;
/* Its result is |x|^2. */
INLINE vec pairs_consider(pairs_largest *most, pair x, intptr_t i) {
    const vec square = lane_fma(x.im, x.im, lane_mul(x.re, x.re));
    const mask more = lane_greater(square, most->square);
    most->x = pair_select(more, x, most->x);
    most->square = lane_select(more, square, most->square);
    most->at = lane_select(more, lane_set((T)i), most->at);
    return square;
}
INLINE pair pairs_phase(const pairs_largest *most) {
    const vec size = lane_sqrt(most->square);
    return (pair){lane_div(most->x.re, size), lane_div(lane_negate(most->x.im), size)};
}
/* x_i, multiplied; the largest becomes `size`. Zeros are positive. */
INLINE pair pairs_turn(const pairs_largest *most, pair phase, vec size, pair x, intptr_t i) {
    const pair y = pair_mul(x, phase), real = {size, lane_set(0)};
    const pair z = pair_select(lane_equal(most->at, lane_set((T)i)), real, y);
    return (pair){lane_add(z.re, lane_set(0)), lane_add(z.im, lane_set(0))};
}

/* Columns of at least so many numbers in all lanes are transposed; shorter ones take up to a third longer so (AMD EPYC
 * family 26 model 2, AVX2, November 2026). */
enum { TRANSPOSED_NUMBERS = 96 };

/* Matrices q .. q+count-1 of an operand of complex numbers, any strides, from x (rows x cols). */
SHARED void KERNEL(pairs_store)(const smm_operand *to, intptr_t q, const pair *x, intptr_t rows, intptr_t cols,
                                intptr_t count) {
    const strides s = strides_of(to);
    T *p = (T *)to->data + q * s.batch;
    if (s.col == 2 || (cols == 1 && s.row == 2)) {
        const bool dense = s.row == 2 * cols;
        const intptr_t runs = dense ? 1 : rows, length = dense ? rows * cols : cols;
        for (intptr_t i = 0; i < runs; i++)
            KERNEL(lanes_store_run)(p + i * s.row, s.batch, (const vec *)(x + i * cols), 1, 2 * length, count);
        return;
    }
    if (s.row == 2 && rows * LANES >= TRANSPOSED_NUMBERS) { /* some numbers of a column at a time */
        enum { SOME = 32 };
        pair y[SOME];
        for (intptr_t j = 0; j < cols; j++)
            for (intptr_t i = 0; i < rows; i += SOME) {
                const intptr_t some = min_of(SOME, rows - i);
                for (intptr_t e = 0; e < some; e++) y[e] = x[(i + e) * cols + j];
                KERNEL(lanes_store_run)(p + 2 * i + j * s.col, s.batch, (const vec *)y, 1, 2 * some, count);
            }
        return;
    }
    for (intptr_t i = 0; i < rows; i++)
        for (intptr_t j = 0; j < cols; j++) {
            T re[LANES], im[LANES];
            lane_store(re, x[i * cols + j].re);
            lane_store(im, x[i * cols + j].im);
            for (int l = 0; l < count; l++) {
                T *z = p + l * s.batch + i * s.row + j * s.col;
                z[0] = re[l], z[1] = im[l];
            }
        }
}

/* Matrices q .. q+count-1 of such an operand (rows x cols) become NaN where info is not 0. */
SHARED void KERNEL(pairs_fill_nan)(const smm_operand *c, intptr_t q, vec info, intptr_t rows, intptr_t cols,
                                   intptr_t count) {
    const uint32_t bad = lane_bits(~lane_equal(info, lane_set(0)));
    const strides s = strides_of(c);
    for (intptr_t l = 0; l < count && bad; l++)
        for (intptr_t i = 0; i < rows && bad >> l & 1; i++)
            for (intptr_t j = 0; j < cols; j++) {
                T *z = (T *)c->data + (q + l) * s.batch + i * s.row + j * s.col;
                z[0] = z[1] = NAN;
            }
}
