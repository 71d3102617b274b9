/* errors.h: what the errors of solutions are made of, of real and of complex systems: bounds of rounding, and the
 * largest quotient |r|_i / w_i of residuals and their scales. */

/* Where x is NaN. */
INLINE mask is_not_number(vec x) { return ~lane_equal(x, x); }

INLINE T unit_roundoff(void) { return (sizeof(T) == 4 ? (T)FLT_EPSILON : (T)DBL_EPSILON) / 2; }
INLINE T min_size(intptr_t n) { return (T)(n + 1) * smallest_normal(); }
INLINE T safe_size(intptr_t n) { return min_size(n) / unit_roundoff(); }

/* Quotients |r|_i / w_i, where 0 / 0 is 0: the largest, and their sum. None is negative, so the sum is NaN only if one
 * of them is. */
typedef struct quotients {
    vec most, sum;
} quotients;

INLINE void quotients_add(quotients *q, vec size, vec w, intptr_t n) {
    const vec small = lane_set(min_size(n));
    const mask is_safe = lane_greater(w, lane_set(safe_size(n)));
    const vec above = lane_select(is_safe, size, lane_add(size, small));
    vec ratio = lane_div(above, lane_select(is_safe, w, lane_add(w, small)));
    ratio = lane_select(lane_equal(size, lane_set(0)), lane_set(0), ratio);
    q->sum = lane_add(q->sum, ratio);
    q->most = lane_max(ratio, q->most);
}
INLINE vec largest_quotient(const quotients *q) { return lane_select(is_not_number(q->sum), lane_set(NAN), q->most); }

/* Element j of an operand that is a column per matrix. */
INLINE void store_element(const smm_operand *to, intptr_t q, intptr_t j, vec x, intptr_t count) {
    const smm_operand row = {(char *)to->data + j * to->row, to->batch, to->row, to->col};
    KERNEL(lanes_store)(&row, q, &x, 1, 1, count);
}
