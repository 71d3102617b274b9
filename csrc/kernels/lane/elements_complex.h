/* elements_complex.h: complex numbers in lanes (pairs.h), and the verbs over them.
 *
 * The order of operations is fixed (docs/promises.md) and the same as in csrc/reference/number.h. Nothing rescues
 * infinities (C99, Annex G). Quotients are those of Smith (Communications of the ACM 5, 1962). */

typedef pair elem;

_Static_assert(sizeof(elem) == PARTS * sizeof(vec), "an array of numbers is one of parts");

/* As lanes_matrix; and its parts as one. */
typedef struct elem_matrix {
    elem *at;
    intptr_t m, n, step;
} elem_matrix;
INLINE lanes_matrix elem_parts(elem_matrix a) { return (lanes_matrix){(vec *)a.at, a.m, PARTS * a.n, PARTS * a.step}; }

INLINE elem elem_set(T re) { return (elem){lane_set(re), lane_set(0)}; }
INLINE elem elem_of(vec re) { return (elem){re, lane_set(0)}; }
INLINE vec elem_re(elem x) { return x.re; }
INLINE elem elem_conj(elem x) { return pair_conj(x); }
INLINE elem elem_real(elem x) { return (elem){x.re, lane_set(0)}; }
INLINE elem elem_negate(elem x) { return (elem){lane_negate(x.re), lane_negate(x.im)}; }
INLINE elem elem_add(elem x, elem y) { return (elem){lane_add(x.re, y.re), lane_add(x.im, y.im)}; }
INLINE elem elem_sub(elem x, elem y) { return pair_sub(x, y); }
INLINE elem elem_scale(elem x, vec s) { return pair_scale(x, s); }
INLINE elem elem_unscale(elem x, vec s) { return (elem){lane_div(x.re, s), lane_div(x.im, s)}; }
INLINE elem elem_select(mask m, elem x, elem y) { return pair_select(m, x, y); }
INLINE void elem_exchange(mask m, elem *x, elem *y) {
    lane_exchange(m, &x->re, &y->re);
    lane_exchange(m, &x->im, &y->im);
}
INLINE elem elem_mul(elem x, elem y) { return pair_mul(x, y); }
INLINE elem elem_fma(elem x, elem y, elem z) { return pair_fma(x, y, z); }
INLINE elem elem_fnma(elem x, elem y, elem z) { return pair_fnma(x, y, z); }
INLINE elem elem_add_scaled(elem x, vec s, elem z) { return (elem){lane_fma(s, x.re, z.re), lane_fma(s, x.im, z.im)}; }
INLINE vec elem_add_square(elem x, vec squares) { return lane_fma(x.im, x.im, lane_fma(x.re, x.re, squares)); }
INLINE vec elem_size(elem x) { return pair_size(x); }

/* z + Re(x^* y) */
INLINE vec elem_add_dot(elem x, elem y, vec z) { return lane_fma(x.im, y.im, lane_fma(x.re, y.re, z)); }

/* The squares of x's parts added to sums of such, part by part; and both sums together. */
INLINE elem elem_add_squares(elem x, elem squares) {
    return (elem){lane_fma(x.re, x.re, squares.re), lane_fma(x.im, x.im, squares.im)};
}
INLINE vec elem_total(elem squares) { return lane_add(squares.re, squares.im); }

/* The larger of `most` and the magnitudes of x's parts; what stays zero while all x are finite; -Re(x^* y) / 2. */
INLINE vec elem_largest(elem x, vec most) { return lane_max(lane_abs(x.im), lane_max(lane_abs(x.re), most)); }
INLINE vec elem_taint(elem x, vec nothing) { return lane_fma(x.im, lane_set(0), lane_fma(x.re, lane_set(0), nothing)); }
INLINE vec elem_minus_half(elem x, elem y) {
    return lane_mul(lane_set((T)-0.5), lane_fma(x.im, y.im, lane_mul(x.re, y.re)));
}

/* |x|, the larger part times the root of 1 plus the square of a ratio, which does not overflow before |x| does. */
INLINE vec elem_modulus(elem x) {
    const vec re = lane_abs(x.re), im = lane_abs(x.im);
    const mask less = lane_greater(im, re);
    const vec large = lane_select(less, im, re), small = lane_select(less, re, im);
    const vec t = lane_div(small, large);
    const vec size = lane_mul(large, lane_sqrt(lane_fma(t, t, lane_set(1))));
    return lane_select(lane_equal(large, lane_set(0)), large, size);
}

/* x / |x|; of tiny ones 1. */
INLINE elem elem_phase(elem x) {
    const vec size = elem_modulus(x);
    return elem_select(lane_greater(size, lane_set(smallest_normal())), elem_unscale(x, size), elem_set(1));
}

/* sum - a x without error, so far as it is added to `rest`. */
INLINE void elem_subtract_exactly(elem *sum, elem *rest, elem a, elem x) {
    lane_subtract_exactly(&sum->re, &rest->re, a.re, x.re);
    lane_subtract_exactly(&sum->re, &rest->re, lane_negate(a.im), x.im);
    lane_subtract_exactly(&sum->im, &rest->im, a.re, x.im);
    lane_subtract_exactly(&sum->im, &rest->im, a.im, x.re);
}

/* As in elements_real.h. */
INLINE elem elem_spread(const T *p) { return (elem){lane_set(p[0]), lane_set(p[LANES])}; }
INLINE void elem_put(T *p, elem x) { p[0] = x.re[0], p[LANES] = x.im[0]; }
INLINE vec elem_rank(elem x) { return lane_fma(x.im, x.im, lane_mul(x.re, x.re)); }
INLINE vec elem_size_of_rank(vec rank) { return lane_sqrt(rank); }
INLINE elem elem_turn(elem x, vec size) { return (elem){lane_div(x.re, size), lane_div(lane_negate(x.im), size)}; }
INLINE pair elem_to_pair(elem x) { return x; }
INLINE pair elem_fma_pair(elem x, pair y, pair z) { return pair_fma(x, y, z); }
INLINE pair elem_fnma_pair(elem x, pair y, pair z) { return pair_fnma(x, y, z); }

INLINE mask elem_equal(elem x, elem y) { return lane_equal(x.re, y.re) & lane_equal(x.im, y.im); }
INLINE mask elem_is_zero(elem x) { return lane_equal(elem_size(x), lane_set(0)); }
/* As useless(): zero, or a part is infinite. */
INLINE mask elem_is_useless(elem x) {
    const vec infinite = lane_set(INFINITY);
    return elem_is_zero(x) | lane_equal(lane_abs(x.re), infinite) | lane_equal(lane_abs(x.im), infinite);
}

/* How to divide by p: the ratio t of its smaller part to its larger, and the reciprocal of the larger part plus t times
 * the smaller. */
typedef struct divisor {
    elem p;
    vec t, den, back;
    mask upright; /* the real part is the larger, or as large */
    mask exact;   /* the reciprocal is as exact as numbers are */
} divisor;

INLINE divisor divisor_of(elem p) {
    divisor d = {.p = p};
    d.upright = ~lane_greater(lane_abs(p.im), lane_abs(p.re));
    const vec large = lane_select(d.upright, p.re, p.im), small = lane_select(d.upright, p.im, p.re);
    d.t = lane_div(small, large);
    d.den = lane_fma(small, d.t, large);
    d.back = lane_div(lane_set(1), d.den);
    d.exact = lane_normal(d.back);
    return d;
}

/* 1 / p */
INLINE elem elem_reciprocal(const divisor *d) {
    const vec other = lane_mul(d->t, d->back);
    return (elem){lane_select(d->upright, d->back, other), lane_negate(lane_select(d->upright, other, d->back))};
}

/* x / p, r being 1 / p: by r where that is exact. */
INLINE elem elem_quotient(elem x, const divisor *d, elem r) {
    const elem y = elem_mul(x, r);
    if (__builtin_expect(!lane_any(~d->exact), 1)) return y;
    const vec re = lane_select(d->upright, lane_fma(x.im, d->t, x.re), lane_fma(x.re, d->t, x.im));
    const vec im = lane_select(d->upright, lane_fnma(x.re, d->t, x.im), lane_sub(lane_mul(x.im, d->t), x.re));
    /* Where the denominator would overflow, it is that of p / 2 */
    const vec half = lane_set((T)0.5), re_half = lane_mul(d->p.re, half), im_half = lane_mul(d->p.im, half);
    const vec large = lane_select(d->upright, re_half, im_half), small = lane_select(d->upright, im_half, re_half);
    const mask huge = lane_equal(lane_abs(d->den), lane_set(INFINITY));
    const vec den = lane_select(huge, lane_fma(small, d->t, large), d->den);
    const elem z = {lane_div(re, den), lane_div(im, den)};
    return elem_select(d->exact, y, elem_scale(z, lane_select(huge, half, lane_set(1))));
}

INLINE elem elem_over(elem x, const divisor *d, elem r) { return elem_quotient(x, d, r); }
INLINE elem elem_div(elem x, elem p) {
    const divisor d = divisor_of(p);
    return elem_over(x, &d, elem_reciprocal(&d));
}

/* --- Numbers of a row as they lie in memory, parts side by side --- */

/* A number over and over. */
INLINE vec row_of(T re, T im) { return lane_select(lane_mask(0x55555555), lane_set(re), lane_set(im)); }

/* What a product with a number takes, part by part of that: the row, and i times the row. */
INLINE void row_factors(vec to[PARTS], vec x) { to[0] = x, to[1] = lane_turn(x); }

/* As elem_quotient of each; every lane of d has the same. */
SHARED vec KERNEL(row_divide)(vec x, const divisor *d, elem r) {
    T part[LANES];
    lane_store(part, x);
    for (int l = 0; l < LANES; l += PARTS) {
        const elem y = elem_quotient((elem){lane_set(part[l]), lane_set(part[l + 1])}, d, r);
        part[l] = y.re[0], part[l + 1] = y.im[0];
    }
    return lane_load(part);
}
INLINE vec row_quotient(vec x, const divisor *d, elem r) {
    if (__builtin_expect(lane_any(~d->exact), 0)) return KERNEL(row_divide)(x, d, r);
    const vec y = row_of(r.re[0], r.im[0]);
    return lane_fma(lane_im(x), lane_turn(y), lane_mul(lane_re(x), y));
}

/* --- Numbers from and to memory --- */

/* x (rows x cols) from matrices q .. q+count-1 of an operand, any strides. */
SHARED void KERNEL(elem_load)(elem *x, const smm_operand *from, intptr_t q, intptr_t rows, intptr_t cols,
                              intptr_t count) {
    const strides s = strides_of(from);
    const T *p = (const T *)from->data + q * s.batch;
    if (s.col == PARTS || (cols == 1 && s.row == PARTS)) {
        const bool dense = s.row == PARTS * cols;
        const intptr_t runs = dense ? 1 : rows, length = dense ? rows * cols : cols;
        for (intptr_t i = 0; i < runs; i++)
            KERNEL(lanes_load_run)((vec *)(x + i * cols), 1, p + i * s.row, s.batch, PARTS * length, count);
        return;
    }
    if (s.row == PARTS && rows <= SMM_MAX_ORDER) {
        for (intptr_t j = 0; j < cols; j++) {
            elem y[SMM_MAX_ORDER];
            KERNEL(lanes_load_run)((vec *)y, 1, p + j * s.col, s.batch, PARTS * rows, count);
            for (intptr_t i = 0; i < rows; i++) x[i * cols + j] = y[i];
        }
        return;
    }
    for (intptr_t i = 0; i < rows; i++)
        for (intptr_t j = 0; j < cols; j++) {
            T re[LANES], im[LANES];
            for (int l = 0; l < LANES; l++) {
                const T *z = p + lane_offset(l, s.batch, count) + i * s.row + j * s.col;
                re[l] = z[0], im[l] = z[1];
            }
            x[i * cols + j] = (elem){lane_load(re), lane_load(im)};
        }
}

/* Row after row of the lower triangles of matrices q .. q+count-1 of an operand; or of upper triangles, if reversed:
 * in reverse order of rows and columns they are lower ones. */
SHARED void KERNEL(elem_load_triangle)(elem *l, const smm_operand *from, intptr_t q, intptr_t n, bool reversed,
                                       intptr_t count) {
    for (intptr_t i = 0; i < n; l += ++i) {
        const intptr_t own = reversed ? n - 1 - i : i;
        smm_operand row = *from;
        row.data = (char *)row.data + own * row.row + (reversed ? own : 0) * row.col;
        KERNEL(elem_load)(l, &row, q, 1, i + 1, count);
        for (intptr_t j = 0; 2 * j < i && reversed; j++) {
            const elem x = l[j];
            l[j] = l[i - j];
            l[i - j] = x;
        }
    }
}

INLINE void KERNEL(elem_store)(const smm_operand *to, intptr_t q, const elem *x, intptr_t rows, intptr_t cols,
                               intptr_t count) {
    KERNEL(pairs_store)(to, q, x, rows, cols, count);
}
INLINE void KERNEL(elem_fill_nan)(const smm_operand *c, intptr_t q, vec info, intptr_t rows, intptr_t cols,
                                  intptr_t count) {
    KERNEL(pairs_fill_nan)(c, q, info, rows, cols, count);
}
