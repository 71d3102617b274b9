/* refinement_numbers.h: condition numbers, backward errors and refinement of complex solutions, LANES matrices side by
 * side, for any order. The algorithms and their sources are in reference/refinement_numbers.c. A lane that has ended
 * keeps what it has, while others go on. */

/* What a kernel of this file keeps in its thread's room. */
typedef struct refinement_numbers {
    num a[NUMBERS], lu[NUMBERS];
    lu_state s;
    num x[SMM_MOST_ORDER], b[SMM_MOST_ORDER], r[SMM_MOST_ORDER], d[SMM_MOST_ORDER], rest[SMM_MOST_ORDER];
    vec w[SMM_MOST_ORDER], scale[SMM_MOST_ORDER];
} refinement_numbers;

static intptr_t KERNEL(refinement_room)(const smm_call *call) {
    (void)call;
    return sizeof(refinement_numbers);
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

/* x = A^-1 x, or A^-H x. */
SHARED void KERNEL(numbers_apply)(num *x, const refinement_numbers *t, intptr_t n, bool adjoint) {
    for (intptr_t i = 0; i < n && adjoint; i++) x[i] = num_conj(x[i]);
    numbers_solve(x, n, 1, t->lu, &t->s, adjoint);
    for (intptr_t i = 0; i < n && adjoint; i++) x[i] = num_conj(x[i]);
}

/* B = diag(scale) A^-1, or of A^-H; scale NULL: of ones. x = B x, or B^H x. */
INLINE void numbers_times(num *x, const refinement_numbers *t, const vec *scale, intptr_t n, bool adjoint, bool of_b) {
    for (intptr_t i = 0; i < n && scale && !of_b; i++) x[i] = num_scale(x[i], scale[i]);
    KERNEL(numbers_apply)(x, t, n, adjoint == of_b);
    for (intptr_t i = 0; i < n && scale && of_b; i++) x[i] = num_scale(x[i], scale[i]);
}

INLINE vec numbers_norm_1(const num *x, intptr_t n) {
    vec sum = lane_set(0);
    for (intptr_t i = 0; i < n; i++) sum = lane_add(sum, num_modulus(x[i]));
    return sum;
}

/* The largest magnitude, and where it is first; NaN is never the largest. */
INLINE vec largest_number(const num *x, intptr_t n, vec *at) {
    vec most = num_modulus(x[0]);
    *at = lane_set(0);
    for (intptr_t i = 1; i < n; i++) {
        const vec size = num_modulus(x[i]);
        const mask more = lane_greater(size, most);
        most = lane_select(more, size, most);
        *at = lane_select(more, lane_set((T)i), *at);
    }
    return most;
}

/* x / |x|; of tiny ones 1. */
INLINE void take_phases(num *x, intptr_t n) {
    for (intptr_t i = 0; i < n; i++) {
        const vec size = num_modulus(x[i]);
        const num phase = {lane_div(x[i].re, size), lane_div(x[i].im, size)};
        x[i] = num_select(lane_greater(size, lane_set(least_normal())), phase, num_set(1));
    }
}

/* |B|_1, from below. */
SHARED vec KERNEL(numbers_inverse_norm)(refinement_numbers *t, const vec *scale, intptr_t n, bool adjoint) {
    enum { STEPS = 4 };
    num *const x = t->d;
    for (intptr_t i = 0; i < n; i++) x[i] = (num){lane_div(lane_set(1), lane_set((T)n)), lane_set(0)};
    numbers_times(x, t, scale, n, adjoint, true);
    vec found = numbers_norm_1(x, n), j;
    if (n == 1) return found;
    take_phases(x, n);
    numbers_times(x, t, scale, n, adjoint, false);
    largest_number(x, n, &j);
    mask goes_on = lane_equal(lane_set(0), lane_set(0));
    for (int step = 0; step < STEPS; step++) {
        for (intptr_t i = 0; i < n; i++)
            x[i] = (num){lane_select(lane_equal(j, lane_set((T)i)), lane_set(1), lane_set(0)), lane_set(0)};
        numbers_times(x, t, scale, n, adjoint, true);
        const vec next = numbers_norm_1(x, n);
        goes_on &= lane_greater(next, found);
        found = lane_select(goes_on, next, found);
        if (!lane_any(goes_on)) break;
        take_phases(x, n);
        numbers_times(x, t, scale, n, adjoint, false);
        vec last = lane_set(0);
        for (intptr_t i = 0; i < n; i++) last = lane_select(lane_equal(j, lane_set((T)i)), num_modulus(x[i]), last);
        goes_on &= lane_greater(largest_number(x, n, &j), last);
        if (!lane_any(goes_on)) break;
    }
    for (intptr_t i = 0; i < n; i++) {
        const T size = 1 + (T)i / (T)(n - 1);
        x[i] = num_set(i % 2 ? -size : size);
    }
    numbers_times(x, t, scale, n, adjoint, true);
    return lane_max(lane_div(lane_mul(lane_set(2), numbers_norm_1(x, n)), lane_set((T)(3 * n))), found);
}

static void KERNEL(lu_rcond_lanes)(const smm_call *call, intptr_t first, intptr_t last, smm_behind *cold) {
    refinement_numbers *const t = smm_kernel_room();
    const intptr_t n = call->n;
    (void)cold;
    for (intptr_t q = first; q < last; q += LANES) {
        const intptr_t count = least(LANES, last - q);
        vec norm;
        KERNEL(numbers_load)(t->lu, &call->lu_rcond.a, q, n, n, count);
        lanes_load(&norm, &call->lu_rcond.norm_a, q, 1, 1, count);
        numbers_get_pivots(call, &call->lu_rcond.pivots, q, t->lu, &t->s, count);
        const vec info = t->s.info;
        mask nan = is_not_number(norm) | lane_greater(lane_set(0), info);
        for (intptr_t e = 0; e < n * n; e++) nan |= is_not_number(t->lu[e].re) | is_not_number(t->lu[e].im);
        const vec found = KERNEL(numbers_inverse_norm)(t, NULL, n, call->form & SMM_TRANSPOSED);
        const mask none = is_not_number(found) | lane_equal(norm, lane_set(0)) | lane_greater(info, lane_set(0));
        vec rcond = lane_select(none, lane_set(0), lane_div(lane_div(lane_set(1), found), norm));
        rcond = lane_select(nan, lane_set(NAN), rcond);
        lanes_store(&call->lu_rcond.rcond, q, &rcond, 1, 1, count);
        lanes_store_int(&call->lu_rcond.info, q, info, count);
    }
}

/* sum - a x without error, so far as it is added to `rest`. */
INLINE void subtract_exactly(vec *sum, vec *rest, vec a, vec x) {
    const vec p = lane_mul(a, x), of_product = lane_fnma_once(a, x, p);
    const vec next = lane_sub(*sum, p), moved = lane_sub(next, *sum);
    const vec of_sum = lane_sub(lane_sub(*sum, lane_sub(next, moved)), lane_add(p, moved));
    *rest = lane_add(*rest, lane_add(of_sum, of_product));
    *sum = next;
}

/* r = b - A x, w = |b| + |A| |x|, magnitudes being |re| + |im|; with `extra` r is computed in twice the precision. */
SHARED void KERNEL(residual_of_numbers)(refinement_numbers *t, intptr_t n, bool extra) {
    for (intptr_t i = 0; i < n; i++) t->r[i] = t->b[i], t->w[i] = num_size(t->b[i]), t->rest[i] = num_set(0);
    for (intptr_t j = 0; j < n; j++) {
        const num x = t->x[j];
        const vec size = num_size(x);
        for (intptr_t i = 0; i < n; i++) {
            const num a = t->a[i * n + j];
            t->w[i] = lane_fma(num_size(a), size, t->w[i]);
            if (!extra) {
                t->r[i] = num_fnma(a, x, t->r[i]);
                continue;
            }
            subtract_exactly(&t->r[i].re, &t->rest[i].re, a.re, x.re);
            subtract_exactly(&t->r[i].re, &t->rest[i].re, lane_negate(a.im), x.im);
            subtract_exactly(&t->r[i].im, &t->rest[i].im, a.re, x.im);
            subtract_exactly(&t->r[i].im, &t->rest[i].im, a.im, x.re);
        }
    }
    for (intptr_t i = 0; i < n && extra; i++) t->r[i] = num_add(t->r[i], t->rest[i]);
}

INLINE vec componentwise_error_of_numbers(const refinement_numbers *t, intptr_t n) {
    quotients q = {lane_set(0), lane_set(0)};
    for (intptr_t i = 0; i < n; i++) quotients_add(&q, num_size(t->r[i]), t->w[i], n);
    return largest_quotient(&q);
}

/* |r| / (|A| |x| + |b|) in infinity norms, NaN if r has one. */
INLINE vec normwise_error_of_numbers(const refinement_numbers *t, vec norm, intptr_t n) {
    vec x = lane_set(0), b = lane_set(0), r = lane_set(0);
    mask nan = lane_greater(x, x); /* nowhere */
    for (intptr_t i = 0; i < n; i++) {
        const vec left = num_modulus(t->r[i]);
        x = lane_max(num_modulus(t->x[i]), x);
        b = lane_max(num_modulus(t->b[i]), b);
        r = lane_max(left, r);
        nan |= is_not_number(left);
    }
    const vec error = lane_select(lane_equal(r, lane_set(0)), r, lane_div(r, lane_fma(norm, x, b)));
    return lane_select(nan, lane_set(NAN), error);
}

static void KERNEL(backward_error_lanes)(const smm_call *call, intptr_t first, intptr_t last, smm_behind *cold) {
    refinement_numbers *const t = smm_kernel_room();
    const intptr_t n = call->n;
    const bool in_norms = call->form & SMM_NORMWISE;
    (void)cold;
    for (intptr_t q = first; q < last; q += LANES) {
        const intptr_t count = least(LANES, last - q);
        KERNEL(numbers_load)(t->a, &call->backward_error.a, q, n, n, count);
        vec norm = lane_set(0);
        for (intptr_t i = 0; i < n && in_norms; i++) norm = lane_max(numbers_norm_1(t->a + i * n, n), norm);
        lanes_store_int(&call->backward_error.info, q, lane_set(0), count);
        for (intptr_t j = 0; j < call->k; j++) {
            const smm_operand x = numbers_columns(call->backward_error.x, j);
            const smm_operand b = numbers_columns(call->backward_error.b, j);
            KERNEL(numbers_load)(t->x, &x, q, n, 1, count);
            KERNEL(numbers_load)(t->b, &b, q, n, 1, count);
            KERNEL(residual_of_numbers)(t, n, call->form & SMM_EXTRA);
            const vec berr = in_norms ? normwise_error_of_numbers(t, norm, n) : componentwise_error_of_numbers(t, n);
            store_element(&call->backward_error.berr, q, j, berr, count);
        }
    }
}

/* As `improve` of refinement_lanes.h. */
INLINE vec improve_numbers(refinement_numbers *t, intptr_t n, bool extra) {
    enum { STEPS = 5, EXTRA_STEPS = 10 };
    const int steps = extra ? EXTRA_STEPS : STEPS;
    vec last = lane_set(extra ? INFINITY : 3);
    mask goes_on = lane_equal(lane_set(0), lane_set(0));
    for (int step = 0;; step++) {
        KERNEL(residual_of_numbers)(t, n, extra);
        const vec berr = componentwise_error_of_numbers(t, n);
        vec size = berr, least = lane_set(unit_roundoff()), at;
        for (intptr_t i = 0; i < n; i++) t->d[i] = t->r[i];
        if (step < steps) KERNEL(numbers_apply)(t->d, t, n, false);
        if (extra) {
            size = largest_number(t->d, n, &at);
            least = lane_mul(least, largest_number(t->x, n, &at));
        }
        goes_on &= lane_greater(size, least) & ~lane_greater(lane_mul(lane_set(2), size), last);
        if (step == steps || !lane_any(goes_on)) return berr;
        for (intptr_t i = 0; i < n; i++) t->x[i] = num_select(goes_on, num_add(t->x[i], t->d[i]), t->x[i]);
        last = lane_select(goes_on, size, last);
    }
}

/* A bound of |x - A^-1 b| / |x| in infinity norms; each part of r has twice as many terms as of real numbers. */
INLINE vec forward_error_of_numbers(refinement_numbers *t, intptr_t n, bool extra) {
    const T of_sum = (T)(2 * (n + 1)) * unit_roundoff(), c = extra ? of_sum * of_sum : of_sum;
    for (intptr_t i = 0; i < n; i++) {
        const vec scale = lane_fma(lane_set(c), t->w[i], num_size(t->r[i]));
        const mask is_safe = lane_greater(t->w[i], lane_set(safe_size(n)));
        t->scale[i] = lane_select(is_safe, scale, lane_add(scale, lane_set(least_size(n))));
    }
    const vec found = KERNEL(numbers_inverse_norm)(t, t->scale, n, true);
    vec at;
    const vec size = largest_number(t->x, n, &at);
    const vec ferr = lane_select(lane_equal(size, lane_set(0)), found, lane_div(found, size));
    return extra ? lane_add(ferr, lane_set(2 * unit_roundoff())) : ferr;
}

static void KERNEL(refine_lanes)(const smm_call *call, intptr_t first, intptr_t last, smm_behind *cold) {
    refinement_numbers *const t = smm_kernel_room();
    const intptr_t n = call->n;
    const bool extra = call->form & SMM_EXTRA;
    (void)cold;
    for (intptr_t q = first; q < last; q += LANES) {
        const intptr_t count = least(LANES, last - q);
        KERNEL(numbers_load)(t->a, &call->refine.a, q, n, n, count);
        KERNEL(numbers_load)(t->lu, &call->refine.lu, q, n, n, count);
        numbers_get_pivots(call, &call->refine.pivots, q, t->lu, &t->s, count);
        const vec info = t->s.info;
        const mask good = lane_equal(info, lane_set(0));
        lanes_store_int(&call->refine.info, q, info, count);
        for (intptr_t j = 0; j < call->k; j++) {
            const smm_operand x = numbers_columns(call->refine.x, j), b = numbers_columns(call->refine.b, j);
            const smm_operand refined = numbers_columns(call->refine.refined, j);
            KERNEL(numbers_load)(t->x, &x, q, n, 1, count);
            KERNEL(numbers_load)(t->b, &b, q, n, 1, count);
            const vec berr = improve_numbers(t, n, extra), ferr = forward_error_of_numbers(t, n, extra);
            KERNEL(numbers_store)(&refined, q, t->x, n, 1, count);
            KERNEL(numbers_spoil)(&refined, q, info, n, 1, count);
            store_element(&call->refine.berr, q, j, lane_select(good, berr, lane_set(NAN)), count);
            store_element(&call->refine.ferr, q, j, lane_select(good, ferr, lane_set(NAN)), count);
        }
    }
}
