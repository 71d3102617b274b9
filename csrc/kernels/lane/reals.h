/* reals.h: the verbs of numbers.h for real numbers, for texts that serve both: a number is a vector. */

typedef vec num;

typedef lanes_matrix numbers_matrix;
INLINE lanes_matrix numbers_parts(numbers_matrix a) { return a; }

INLINE num num_set(T x) { return lane_set(x); }
INLINE num num_conj(num x) { return x; }
INLINE num num_real(num x) { return x; }
INLINE num num_negate(num x) { return lane_negate(x); }
INLINE num num_of(vec re) { return re; }
INLINE vec num_re(num x) { return x; }
INLINE num num_select(mask m, num x, num y) { return lane_select(m, x, y); }
INLINE void num_exchange(mask m, num *x, num *y) { lane_exchange(m, x, y); }
INLINE num num_add(num x, num y) { return lane_add(x, y); }
INLINE num num_sub(num x, num y) { return lane_sub(x, y); }
INLINE num num_scale(num x, vec s) { return lane_mul(x, s); }
INLINE num num_unscale(num x, vec s) { return lane_div(x, s); }
INLINE num num_mul(num x, num y) { return lane_mul(x, y); }
INLINE num num_fma(num x, num y, num z) { return lane_fma(x, y, z); }
INLINE num num_fnma(num x, num y, num z) { return lane_fnma(x, y, z); }
INLINE num num_add_scaled(num x, vec s, num z) { return lane_fma(s, x, z); }
INLINE num num_div(num x, num y) { return lane_div(x, y); }

/* How to divide by p: by its reciprocal, where that is as exact as numbers are. */
typedef struct divisor {
    num p, back;
    mask exact;
} divisor;
INLINE divisor divisor_of(num p) {
    const vec back = lane_div(lane_set(1), p);
    return (divisor){p, back, lane_normal(back)};
}
INLINE num num_reciprocal(const divisor *d) { return d->back; }
INLINE num num_quotient(num x, const divisor *d, num r) {
    const num y = lane_mul(x, r);
    if (__builtin_expect(!lane_any(~d->exact), 1)) return y;
    return lane_select(d->exact, y, lane_div(x, d->p));
}
/* As num_div. */
INLINE num num_over(num x, const divisor *d, num r) {
    (void)r;
    return lane_div(x, d->p);
}

/* z + Re(x^* y) */
INLINE vec num_add_dot(num x, num y, vec z) { return lane_fma(x, y, z); }
INLINE vec num_add_square(num x, vec squares) { return lane_fma(x, x, squares); }
INLINE num num_add_squares(num x, num squares) { return lane_fma(x, x, squares); }
INLINE vec num_total(num squares) { return squares; }
INLINE vec num_size(num x) { return lane_abs(x); }
INLINE vec num_modulus(num x) { return lane_abs(x); }
INLINE num num_phase(num x) { return lane_select(lane_greater(lane_set(0), x), lane_set(-1), lane_set(1)); }
INLINE mask num_equal(num x, num y) { return lane_equal(x, y); }
INLINE mask num_is_zero(num x) { return lane_equal(x, lane_set(0)); }
INLINE mask num_is_useless(num x) { return useless(x); }
INLINE vec num_largest(num x, vec most) { return lane_max(lane_abs(x), most); }
INLINE vec num_taint(num x, vec nothing) { return lane_fma(x, lane_set(0), nothing); }
INLINE vec num_minus_half(num x, num y) { return lane_mul(lane_mul(lane_set((T)-0.5), x), y); }
INLINE void num_subtract_exactly(num *sum, num *rest, num a, num x) { lane_subtract_exactly(sum, rest, a, x); }

/* A number of a row in which the lanes are columns (single.h), in all lanes; and of lane 0 to there. */
INLINE num num_spread(const T *p) { return lane_set(*p); }
INLINE void num_put(T *p, num x) { *p = x[0]; }

/* What magnitudes are compared by, the magnitude itself, and what turns x, of that magnitude, to a positive number. */
INLINE vec num_rank(num x) { return lane_abs(x); }
INLINE vec num_size_of_rank(vec rank) { return rank; }
INLINE num num_turn(num x, vec size) {
    (void)size;
    return num_phase(x);
}

/* Numbers of a row as they lie in memory: as num_quotient of each; and what a product with a number takes, part by part
 * of that. */
INLINE vec row_quotient(vec x, const divisor *d, num r) { return num_quotient(x, d, r); }
INLINE void row_factors(vec to[PARTS], vec x) { to[0] = x; }

/* As a complex number; z + x y and z - x y of complex y and z. */
INLINE pair num_to_pair(num x) { return (pair){x, lane_set(0)}; }
INLINE pair num_fma_pair(num x, pair y, pair z) { return (pair){lane_fma(x, y.re, z.re), lane_fma(x, y.im, z.im)}; }
INLINE pair num_fnma_pair(num x, pair y, pair z) { return (pair){lane_fnma(x, y.re, z.re), lane_fnma(x, y.im, z.im)}; }

INLINE void KERNEL(numbers_load)(num *x, const smm_operand *from, intptr_t q, intptr_t rows, intptr_t cols,
                                 intptr_t count) {
    lanes_load(x, from, q, rows, cols, count);
}
INLINE void KERNEL(numbers_store)(const smm_operand *to, intptr_t q, const num *x, intptr_t rows, intptr_t cols,
                                  intptr_t count) {
    lanes_store(to, q, x, rows, cols, count);
}
INLINE void KERNEL(numbers_fill_nan)(const smm_operand *c, intptr_t q, vec info, intptr_t rows, intptr_t cols,
                                     intptr_t count) {
    lanes_fill_nan(c, q, info, rows, cols, count);
}

/* Element (i, j) of a triangle in rows. */
INLINE vec *in_rows(const vec *l, intptr_t i, intptr_t j) { return (vec *)l + i * (i + 1) / 2 + j; }

INLINE void KERNEL(numbers_load_triangle)(num *l, const smm_operand *from, intptr_t q, intptr_t n, bool reversed,
                                          intptr_t count) {
    const strides s = strides_of(from);
    if (s.row == 1 && s.col != 1)
        triangle_load_columns(l, in_rows, from, q, n, reversed, count);
    else
        triangle_load_rows(l, in_rows, 1, from, q, n, reversed, 0, n, count);
}
