/* elements_real.h: the verbs of elements_complex.h for real numbers, for texts that serve both: a number is a vector.
 */

typedef vec elem;

typedef lanes_matrix elem_matrix;
INLINE lanes_matrix elem_parts(elem_matrix a) { return a; }

INLINE elem elem_set(T x) { return lane_set(x); }
INLINE elem elem_conj(elem x) { return x; }
INLINE elem elem_real(elem x) { return x; }
INLINE elem elem_negate(elem x) { return lane_negate(x); }
INLINE elem elem_of(vec re) { return re; }
INLINE vec elem_re(elem x) { return x; }
INLINE elem elem_select(mask m, elem x, elem y) { return lane_select(m, x, y); }
INLINE void elem_exchange(mask m, elem *x, elem *y) { lane_exchange(m, x, y); }
INLINE elem elem_add(elem x, elem y) { return lane_add(x, y); }
INLINE elem elem_sub(elem x, elem y) { return lane_sub(x, y); }
INLINE elem elem_scale(elem x, vec s) { return lane_mul(x, s); }
INLINE elem elem_unscale(elem x, vec s) { return lane_div(x, s); }
INLINE elem elem_mul(elem x, elem y) { return lane_mul(x, y); }
INLINE elem elem_fma(elem x, elem y, elem z) { return lane_fma(x, y, z); }
INLINE elem elem_fnma(elem x, elem y, elem z) { return lane_fnma(x, y, z); }
INLINE elem elem_add_scaled(elem x, vec s, elem z) { return lane_fma(s, x, z); }
INLINE elem elem_div(elem x, elem y) { return lane_div(x, y); }

/* How to divide by p: by its reciprocal, where that is as exact as numbers are. */
typedef struct divisor {
    elem p, back;
    mask exact;
} divisor;
INLINE divisor divisor_of(elem p) {
    const vec back = lane_div(lane_set(1), p);
    return (divisor){p, back, lane_normal(back)};
}
INLINE elem elem_reciprocal(const divisor *d) { return d->back; }
INLINE elem elem_quotient(elem x, const divisor *d, elem r) {
    const elem y = lane_mul(x, r);
    if (__builtin_expect(!lane_any(~d->exact), 1)) return y;
    return lane_select(d->exact, y, lane_div(x, d->p));
}
/* As elem_div. */
INLINE elem elem_over(elem x, const divisor *d, elem r) {
    (void)r;
    return lane_div(x, d->p);
}

/* z + Re(x^* y) */
INLINE vec elem_add_dot(elem x, elem y, vec z) { return lane_fma(x, y, z); }
INLINE vec elem_add_square(elem x, vec squares) { return lane_fma(x, x, squares); }
INLINE elem elem_add_squares(elem x, elem squares) { return lane_fma(x, x, squares); }
INLINE vec elem_total(elem squares) { return squares; }
INLINE vec elem_size(elem x) { return lane_abs(x); }
INLINE vec elem_modulus(elem x) { return lane_abs(x); }
INLINE elem elem_phase(elem x) { return lane_select(lane_greater(lane_set(0), x), lane_set(-1), lane_set(1)); }
INLINE mask elem_equal(elem x, elem y) { return lane_equal(x, y); }
INLINE mask elem_is_zero(elem x) { return lane_equal(x, lane_set(0)); }
INLINE mask elem_is_useless(elem x) { return useless(x); }
INLINE vec elem_largest(elem x, vec most) { return lane_max(lane_abs(x), most); }
INLINE vec elem_taint(elem x, vec nothing) { return lane_fma(x, lane_set(0), nothing); }
INLINE vec elem_minus_half(elem x, elem y) { return lane_mul(lane_mul(lane_set((T)-0.5), x), y); }
INLINE void elem_subtract_exactly(elem *sum, elem *rest, elem a, elem x) { lane_subtract_exactly(sum, rest, a, x); }

/* A number of a row in which the lanes are columns (single.h), in all lanes; and of lane 0 to there. */
INLINE elem elem_spread(const T *p) { return lane_set(*p); }
INLINE void elem_put(T *p, elem x) { *p = x[0]; }

/* What magnitudes are compared by, the magnitude itself, and what turns x, of that magnitude, to a positive number. */
INLINE vec elem_rank(elem x) { return lane_abs(x); }
INLINE vec elem_size_of_rank(vec rank) { return rank; }
INLINE elem elem_turn(elem x, vec size) {
    (void)size;
    return elem_phase(x);
}

/* Numbers of a row as they lie in memory: as elem_quotient of each; and what a product with a number takes, part by
 * part of that. */
INLINE vec row_quotient(vec x, const divisor *d, elem r) { return elem_quotient(x, d, r); }
INLINE void row_factors(vec to[PARTS], vec x) { to[0] = x; }

/* As a complex number; z + x y and z - x y of complex y and z. */
INLINE pair elem_to_pair(elem x) { return (pair){x, lane_set(0)}; }
INLINE pair elem_fma_pair(elem x, pair y, pair z) { return (pair){lane_fma(x, y.re, z.re), lane_fma(x, y.im, z.im)}; }
INLINE pair elem_fnma_pair(elem x, pair y, pair z) {
    return (pair){lane_fnma(x, y.re, z.re), lane_fnma(x, y.im, z.im)};
}

INLINE void KERNEL(elem_load)(elem *x, const smm_operand *from, intptr_t q, intptr_t rows, intptr_t cols,
                              intptr_t count) {
    lanes_load(x, from, q, rows, cols, count);
}
INLINE void KERNEL(elem_store)(const smm_operand *to, intptr_t q, const elem *x, intptr_t rows, intptr_t cols,
                               intptr_t count) {
    lanes_store(to, q, x, rows, cols, count);
}
INLINE void KERNEL(elem_fill_nan)(const smm_operand *c, intptr_t q, vec info, intptr_t rows, intptr_t cols,
                                  intptr_t count) {
    lanes_fill_nan(c, q, info, rows, cols, count);
}

/* Element (i, j) of a triangle in rows. */
INLINE vec *in_rows(const vec *l, intptr_t i, intptr_t j) { return (vec *)l + i * (i + 1) / 2 + j; }

INLINE void KERNEL(elem_load_triangle)(elem *l, const smm_operand *from, intptr_t q, intptr_t n, bool reversed,
                                       intptr_t count) {
    const strides s = strides_of(from);
    if (s.row == 1 && s.col != 1)
        triangle_load_columns(l, in_rows, from, q, n, reversed, count);
    else
        triangle_load_rows(l, in_rows, 1, from, q, n, reversed, 0, n, count);
}
