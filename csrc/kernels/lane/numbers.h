/* numbers.h: complex numbers in lanes (pairs.h), and the verbs over them.
 *
 * The order of operations is fixed (docs/promises.md) and the same as in csrc/reference/number.h. Nothing rescues
 * infinities (C99, Annex G). Quotients are those of Smith (Communications of the ACM 5, 1962). */

typedef pair num;

_Static_assert(sizeof(num) == PARTS * sizeof(vec), "an array of numbers is one of parts");

/* As lanes_matrix; and its parts as one. */
typedef struct numbers_matrix {
    num *at;
    intptr_t m, n, step;
} numbers_matrix;
INLINE lanes_matrix numbers_parts(numbers_matrix a) {
    return (lanes_matrix){(vec *)a.at, a.m, PARTS * a.n, PARTS * a.step};
}

INLINE num num_set(T re) { return (num){lane_set(re), lane_set(0)}; }
INLINE num num_of(vec re) { return (num){re, lane_set(0)}; }
INLINE vec num_re(num x) { return x.re; }
INLINE num num_conj(num x) { return pair_conj(x); }
INLINE num num_real(num x) { return (num){x.re, lane_set(0)}; }
INLINE num num_negate(num x) { return (num){lane_negate(x.re), lane_negate(x.im)}; }
INLINE num num_add(num x, num y) { return (num){lane_add(x.re, y.re), lane_add(x.im, y.im)}; }
INLINE num num_sub(num x, num y) { return pair_sub(x, y); }
INLINE num num_scale(num x, vec s) { return pair_scale(x, s); }
INLINE num num_unscale(num x, vec s) { return (num){lane_div(x.re, s), lane_div(x.im, s)}; }
INLINE num num_select(mask m, num x, num y) { return pair_select(m, x, y); }
INLINE void num_exchange(mask m, num *x, num *y) {
    lane_exchange(m, &x->re, &y->re);
    lane_exchange(m, &x->im, &y->im);
}
INLINE num num_mul(num x, num y) { return pair_mul(x, y); }
INLINE num num_fma(num x, num y, num z) { return pair_fma(x, y, z); }
INLINE num num_fnma(num x, num y, num z) { return pair_fnma(x, y, z); }
INLINE num num_add_scaled(num x, vec s, num z) { return (num){lane_fma(s, x.re, z.re), lane_fma(s, x.im, z.im)}; }
INLINE vec num_add_square(num x, vec squares) { return lane_fma(x.im, x.im, lane_fma(x.re, x.re, squares)); }
INLINE vec num_size(num x) { return pair_size(x); }

/* z + Re(x^* y) */
INLINE vec num_add_dot(num x, num y, vec z) { return lane_fma(x.im, y.im, lane_fma(x.re, y.re, z)); }

/* The squares of x's parts added to sums of such, part by part; and both sums together. */
INLINE num num_add_squares(num x, num squares) {
    return (num){lane_fma(x.re, x.re, squares.re), lane_fma(x.im, x.im, squares.im)};
}
INLINE vec num_total(num squares) { return lane_add(squares.re, squares.im); }

/* The larger of `most` and the magnitudes of x's parts; what stays zero while all x are finite; -Re(x^* y) / 2. */
INLINE vec num_largest(num x, vec most) { return lane_max(lane_abs(x.im), lane_max(lane_abs(x.re), most)); }
INLINE vec num_taint(num x, vec nothing) { return lane_fma(x.im, lane_set(0), lane_fma(x.re, lane_set(0), nothing)); }
INLINE vec num_minus_half(num x, num y) {
    return lane_mul(lane_set((T)-0.5), lane_fma(x.im, y.im, lane_mul(x.re, y.re)));
}

/* |x|, the larger part times the root of 1 plus the square of a ratio, which does not overflow before |x| does. */
INLINE vec num_modulus(num x) {
    const vec re = lane_abs(x.re), im = lane_abs(x.im);
    const mask less = lane_greater(im, re);
    const vec large = lane_select(less, im, re), small = lane_select(less, re, im);
    const vec t = lane_div(small, large);
    const vec size = lane_mul(large, lane_sqrt(lane_fma(t, t, lane_set(1))));
    return lane_select(lane_equal(large, lane_set(0)), large, size);
}

/* x / |x|; of tiny ones 1. */
INLINE num num_phase(num x) {
    const vec size = num_modulus(x);
    return num_select(lane_greater(size, lane_set(smallest_normal())), num_unscale(x, size), num_set(1));
}

/* sum - a x without error, so far as it is added to `rest`. */
INLINE void num_subtract_exactly(num *sum, num *rest, num a, num x) {
    lane_subtract_exactly(&sum->re, &rest->re, a.re, x.re);
    lane_subtract_exactly(&sum->re, &rest->re, lane_negate(a.im), x.im);
    lane_subtract_exactly(&sum->im, &rest->im, a.re, x.im);
    lane_subtract_exactly(&sum->im, &rest->im, a.im, x.re);
}

/* As in reals.h. */
INLINE num num_spread(const T *p) { return (num){lane_set(p[0]), lane_set(p[LANES])}; }
INLINE void num_put(T *p, num x) { p[0] = x.re[0], p[LANES] = x.im[0]; }
INLINE vec num_rank(num x) { return lane_fma(x.im, x.im, lane_mul(x.re, x.re)); }
INLINE vec num_size_of_rank(vec rank) { return lane_sqrt(rank); }
INLINE num num_turn(num x, vec size) { return (num){lane_div(x.re, size), lane_div(lane_negate(x.im), size)}; }
INLINE pair num_to_pair(num x) { return x; }
INLINE pair num_fma_pair(num x, pair y, pair z) { return pair_fma(x, y, z); }
INLINE pair num_fnma_pair(num x, pair y, pair z) { return pair_fnma(x, y, z); }

INLINE mask num_equal(num x, num y) { return lane_equal(x.re, y.re) & lane_equal(x.im, y.im); }
INLINE mask num_is_zero(num x) { return lane_equal(num_size(x), lane_set(0)); }
/* As useless(): zero, or a part is infinite. */
INLINE mask num_is_useless(num x) {
    const vec infinite = lane_set(INFINITY);
    return num_is_zero(x) | lane_equal(lane_abs(x.re), infinite) | lane_equal(lane_abs(x.im), infinite);
}

/* How to divide by p: the ratio t of its smaller part to its larger, and the reciprocal of the larger part plus t times
 * the smaller. */
typedef struct divisor {
    num p;
    vec t, den, back;
    mask upright; /* the real part is the larger, or as large */
    mask exact;   /* the reciprocal is as exact as numbers are */
} divisor;

INLINE divisor divisor_of(num p) {
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
INLINE num num_reciprocal(const divisor *d) {
    const vec other = lane_mul(d->t, d->back);
    return (num){lane_select(d->upright, d->back, other), lane_negate(lane_select(d->upright, other, d->back))};
}

/* x / p, r being 1 / p: by r where that is exact. */
INLINE num num_quotient(num x, const divisor *d, num r) {
    const num y = num_mul(x, r);
    if (__builtin_expect(!lane_any(~d->exact), 1)) return y;
    const vec re = lane_select(d->upright, lane_fma(x.im, d->t, x.re), lane_fma(x.re, d->t, x.im));
    const vec im = lane_select(d->upright, lane_fnma(x.re, d->t, x.im), lane_sub(lane_mul(x.im, d->t), x.re));
    /* Where the denominator would overflow, it is that of p / 2 */
    const vec half = lane_set((T)0.5), re_half = lane_mul(d->p.re, half), im_half = lane_mul(d->p.im, half);
    const vec large = lane_select(d->upright, re_half, im_half), small = lane_select(d->upright, im_half, re_half);
    const mask huge = lane_equal(lane_abs(d->den), lane_set(INFINITY));
    const vec den = lane_select(huge, lane_fma(small, d->t, large), d->den);
    const num z = {lane_div(re, den), lane_div(im, den)};
    return num_select(d->exact, y, num_scale(z, lane_select(huge, half, lane_set(1))));
}

INLINE num num_over(num x, const divisor *d, num r) { return num_quotient(x, d, r); }
INLINE num num_div(num x, num p) {
    const divisor d = divisor_of(p);
    return num_over(x, &d, num_reciprocal(&d));
}

/* --- Numbers of a row as they lie in memory, parts side by side --- */

/* A number over and over. */
INLINE vec row_of(T re, T im) { return lane_select(lane_mask(0x55555555), lane_set(re), lane_set(im)); }

/* What a product with a number takes, part by part of that: the row, and i times the row. */
INLINE void row_factors(vec to[PARTS], vec x) { to[0] = x, to[1] = lane_turn(x); }

/* As num_quotient of each; every lane of d has the same. */
SHARED vec KERNEL(row_divide)(vec x, const divisor *d, num r) {
    T part[LANES];
    lane_store(part, x);
    for (int l = 0; l < LANES; l += PARTS) {
        const num y = num_quotient((num){lane_set(part[l]), lane_set(part[l + 1])}, d, r);
        part[l] = y.re[0], part[l + 1] = y.im[0];
    }
    return lane_load(part);
}
INLINE vec row_quotient(vec x, const divisor *d, num r) {
    if (__builtin_expect(lane_any(~d->exact), 0)) return KERNEL(row_divide)(x, d, r);
    const vec y = row_of(r.re[0], r.im[0]);
    return lane_fma(lane_im(x), lane_turn(y), lane_mul(lane_re(x), y));
}

/* --- Numbers from and to memory --- */

/* x (rows x cols) from matrices q .. q+count-1 of an operand, any strides. */
SHARED void KERNEL(numbers_load)(num *x, const smm_operand *from, intptr_t q, intptr_t rows, intptr_t cols,
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
            num y[SMM_MAX_ORDER];
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
            x[i * cols + j] = (num){lane_load(re), lane_load(im)};
        }
}

/* Row after row of the lower triangles of matrices q .. q+count-1 of an operand; or of upper triangles, if reversed:
 * the order of rows and of columns turned round makes them lower ones. */
SHARED void KERNEL(numbers_load_triangle)(num *l, const smm_operand *from, intptr_t q, intptr_t n, bool reversed,
                                          intptr_t count) {
    for (intptr_t i = 0; i < n; l += ++i) {
        const intptr_t own = reversed ? n - 1 - i : i;
        smm_operand row = *from;
        row.data = (char *)row.data + own * row.row + (reversed ? own : 0) * row.col;
        KERNEL(numbers_load)(l, &row, q, 1, i + 1, count);
        for (intptr_t j = 0; 2 * j < i && reversed; j++) {
            const num x = l[j];
            l[j] = l[i - j];
            l[i - j] = x;
        }
    }
}

INLINE void KERNEL(numbers_store)(const smm_operand *to, intptr_t q, const num *x, intptr_t rows, intptr_t cols,
                                  intptr_t count) {
    KERNEL(pairs_store)(to, q, x, rows, cols, count);
}
INLINE void KERNEL(numbers_fill_nan)(const smm_operand *c, intptr_t q, vec info, intptr_t rows, intptr_t cols,
                                     intptr_t count) {
    KERNEL(pairs_fill_nan)(c, q, info, rows, cols, count);
}
