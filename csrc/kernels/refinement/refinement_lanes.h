/* refinement_lanes.h: condition numbers, backward errors and refinement of solutions, LANES matrices side by side, for
 * any order: one text over the numbers of elements_real.h and those of elements_complex.h. The algorithms and their
 * sources are in reference/refinement.c. A lane that has ended keeps what it has, while others go on. */

/* diag(scale) A^-1 of factors, or of A^H; scale NULL: of ones. */
typedef struct inverse_of {
    const elem *lu;
    const lu_state *s;
    const vec *scale;
    intptr_t n;
    bool adjoint;
} inverse_of;

/* x = A^-1 x, or A^-H x. */
SHARED void KERNEL(lu_apply)(elem *x, const inverse_of *b, bool adjoint) {
    for (intptr_t i = 0; i < b->n && adjoint; i++) x[i] = elem_conj(x[i]);
    elem_solve(x, b->n, 1, b->lu, b->s, adjoint);
    for (intptr_t i = 0; i < b->n && adjoint; i++) x[i] = elem_conj(x[i]);
}

INLINE void inverse_times(const inverse_of *b, elem *x) {
    KERNEL(lu_apply)(x, b, b->adjoint);
    for (intptr_t i = 0; i < b->n && b->scale; i++) x[i] = elem_scale(x[i], b->scale[i]);
}
INLINE void inverse_times_adjoint(const inverse_of *b, elem *x) {
    for (intptr_t i = 0; i < b->n && b->scale; i++) x[i] = elem_scale(x[i], b->scale[i]);
    KERNEL(lu_apply)(x, b, !b->adjoint);
}

INLINE vec vector_norm_1(const elem *x, intptr_t n) {
    vec sum = lane_set(0);
    for (intptr_t i = 0; i < n; i++) sum = lane_add(sum, elem_modulus(x[i]));
    return sum;
}

/* The largest magnitude, and where it is first; NaN is never the largest. */
INLINE vec largest_of(const elem *x, intptr_t n, vec *at) {
    vec most = elem_modulus(x[0]);
    *at = lane_set(0);
    for (intptr_t i = 1; i < n; i++) {
        const vec size = elem_modulus(x[i]);
        const mask more = lane_greater(size, most);
        most = lane_select(more, size, most);
        *at = lane_select(more, lane_set((T)i), *at);
    }
    return most;
}

/* x and phases become the phases of x. Returns where some is not what it was in `phases`. */
INLINE mask take_phases(elem *phases, elem *x, intptr_t n) {
    mask other = lane_mask(0);
    for (intptr_t i = 0; i < n; i++) {
        const elem phase = elem_phase(x[i]);
        other |= ~elem_equal(phases[i], phase);
        phases[i] = x[i] = phase;
    }
    return other;
}

/* |B|_1, from below. x, phases: workspace. */
SHARED vec KERNEL(inverse_norm)(const inverse_of *b, elem *x, elem *phases) {
    enum { STEPS = 4 };
    const intptr_t n = b->n;
    for (intptr_t i = 0; i < n; i++) x[i] = elem_set((T)1 / (T)n), phases[i] = elem_set(0);
    inverse_times(b, x);
    vec found = vector_norm_1(x, n), j;
    if (n == 1) return found;
    take_phases(phases, x, n);
    inverse_times_adjoint(b, x);
    largest_of(x, n, &j);
    mask active = lane_equal(lane_set(0), lane_set(0));
    for (int step = 0; step < STEPS && lane_any(active); step++) {
        for (intptr_t i = 0; i < n; i++) x[i] = elem_select(lane_equal(j, lane_set((T)i)), elem_set(1), elem_set(0));
        inverse_times(b, x);
        const vec next = vector_norm_1(x, n);
        const mask grew = active & lane_greater(next, found);
        found = lane_select(grew, next, found);
        active = grew & take_phases(phases, x, n);
        if (!lane_any(active)) break;
        inverse_times_adjoint(b, x);
        vec last = lane_set(0);
        for (intptr_t i = 0; i < n; i++) last = lane_select(lane_equal(j, lane_set((T)i)), elem_modulus(x[i]), last);
        active &= lane_greater(largest_of(x, n, &j), last);
    }
    for (intptr_t i = 0; i < n; i++) {
        const T size = 1 + (T)i / (T)(n - 1);
        x[i] = elem_set(i % 2 ? -size : size);
    }
    inverse_times(b, x);
    return lane_max(lane_div(lane_mul(lane_set(2), vector_norm_1(x, n)), lane_set((T)(3 * n))), found);
}

/* What a kernel of this file keeps in its thread's workspace. */
typedef struct refinement {
    elem a[SMM_MAX_ORDER * SMM_MAX_ORDER], lu[SMM_MAX_ORDER * SMM_MAX_ORDER];
    lu_state s;
    elem x[SMM_MAX_ORDER], b[SMM_MAX_ORDER], r[SMM_MAX_ORDER], d[SMM_MAX_ORDER], rest[SMM_MAX_ORDER],
        phases[SMM_MAX_ORDER];
    vec w[SMM_MAX_ORDER], scale[SMM_MAX_ORDER];
} refinement;

static intptr_t KERNEL(refinement_workspace)(const smm_call *call) {
    (void)call;
    return sizeof(refinement);
}

static void KERNEL(lu_rcond_lanes)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) {
    refinement *const t = smm_kernel_workspace();
    const intptr_t n = call->n;
    (void)cold;
    for (intptr_t q = first; q < last; q += LANES) {
        const intptr_t count = min_of(LANES, last - q);
        vec norm;
        KERNEL(elem_load)(t->lu, &call->lu_rcond.a, q, n, n, count);
        lanes_load(&norm, &call->lu_rcond.norm_a, q, 1, 1, count);
        const vec info = lu_look(call, &call->lu_rcond.pivots, t->lu, &t->s, q, count);
        mask nan = is_not_number(norm) | lane_greater(lane_set(0), info);
        for (intptr_t e = 0; e < n * n; e++) nan |= is_not_number(elem_size(t->lu[e]));
        const inverse_of b = {t->lu, &t->s, NULL, n, call->form & SMM_TRANSPOSED};
        const vec found = KERNEL(inverse_norm)(&b, t->x, t->phases);
        const mask none = is_not_number(found) | lane_equal(norm, lane_set(0)) | lane_greater(info, lane_set(0));
        vec rcond = lane_select(none, lane_set(0), lane_div(lane_div(lane_set(1), found), norm));
        rcond = lane_select(nan, lane_set(NAN), rcond);
        lanes_store(&call->lu_rcond.rcond, q, &rcond, 1, 1, count);
        lanes_store_int(&call->lu_rcond.info, q, info, count);
    }
}

/* r = b - A x, w = |b| + |A| |x|, magnitudes being |re| + |im|; with `extra` r is computed in twice the precision. */
SHARED void KERNEL(residual)(refinement *t, intptr_t n, bool extra) {
    for (intptr_t i = 0; i < n; i++) t->r[i] = t->b[i], t->w[i] = elem_size(t->b[i]), t->rest[i] = elem_set(0);
    for (intptr_t j = 0; j < n; j++) {
        const elem x = t->x[j];
        const vec size = elem_size(x);
        for (intptr_t i = 0; i < n; i++) {
            const elem a = t->a[i * n + j];
            t->w[i] = lane_fma(elem_size(a), size, t->w[i]);
            if (extra)
                elem_subtract_exactly(&t->r[i], &t->rest[i], a, x);
            else
                t->r[i] = elem_fnma(a, x, t->r[i]);
        }
    }
    for (intptr_t i = 0; i < n && extra; i++) t->r[i] = elem_add(t->r[i], t->rest[i]);
}

INLINE vec componentwise_error(const refinement *t, intptr_t n) {
    quotients q = {lane_set(0), lane_set(0)};
    for (intptr_t i = 0; i < n; i++) quotients_add(&q, elem_size(t->r[i]), t->w[i], n);
    return largest_quotient(&q);
}

/* |r| / (|A| |x| + |b|) in infinity norms, NaN if r has one. */
INLINE vec normwise_error(const refinement *t, vec norm, intptr_t n) {
    vec x = lane_set(0), b = lane_set(0), r = lane_set(0);
    mask nan = lane_greater(x, x); /* nowhere */
    for (intptr_t i = 0; i < n; i++) {
        const vec left = elem_modulus(t->r[i]);
        x = lane_max(elem_modulus(t->x[i]), x);
        b = lane_max(elem_modulus(t->b[i]), b);
        r = lane_max(left, r);
        nan |= is_not_number(left);
    }
    const vec error = lane_select(lane_equal(r, lane_set(0)), r, lane_div(r, lane_fma(norm, x, b)));
    return lane_select(nan, lane_set(NAN), error);
}

INLINE vec infinity_norm(const elem *a, intptr_t n) {
    vec most = lane_set(0);
    for (intptr_t i = 0; i < n; i++) most = lane_max(vector_norm_1(a + i * n, n), most);
    return most;
}

static void KERNEL(backward_error_lanes)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) {
    refinement *const t = smm_kernel_workspace();
    const intptr_t n = call->n;
    const bool in_norms = call->form & SMM_NORMWISE;
    (void)cold;
    for (intptr_t q = first; q < last; q += LANES) {
        const intptr_t count = min_of(LANES, last - q);
        KERNEL(elem_load)(t->a, &call->backward_error.a, q, n, n, count);
        const vec norm = in_norms ? infinity_norm(t->a, n) : lane_set(0);
        lanes_store_int(&call->backward_error.info, q, lane_set(0), count);
        for (intptr_t j = 0; j < call->k; j++) {
            const smm_operand x = elem_columns(call->backward_error.x, j), b = elem_columns(call->backward_error.b, j);
            KERNEL(elem_load)(t->x, &x, q, n, 1, count);
            KERNEL(elem_load)(t->b, &b, q, n, 1, count);
            KERNEL(residual)(t, n, call->form & SMM_EXTRA);
            const vec berr = in_norms ? normwise_error(t, norm, n) : componentwise_error(t, n);
            store_element(&call->backward_error.berr, q, j, berr, count);
        }
    }
}

/* x becomes better until its backward error is at most u, or no less than half of what it was, or, with `extra`, until
 * a correction is at most u |x|, or more than half of the one before. r, w: of the last x, whose backward error is
 * returned. */
INLINE vec improve(refinement *t, const inverse_of *b, bool extra) {
    enum { STEPS = 5, EXTRA_STEPS = 10 };
    const intptr_t n = b->n;
    const int steps = extra ? EXTRA_STEPS : STEPS;
    vec last = lane_set(extra ? INFINITY : 3);
    mask active = lane_equal(lane_set(0), lane_set(0));
    for (int step = 0;; step++) {
        KERNEL(residual)(t, n, extra);
        const vec berr = componentwise_error(t, n);
        vec size = berr, least = lane_set(unit_roundoff()), at;
        if (extra && step < steps) {
            for (intptr_t i = 0; i < n; i++) t->d[i] = t->r[i];
            KERNEL(lu_apply)(t->d, b, false);
            size = largest_of(t->d, n, &at);
            least = lane_mul(least, largest_of(t->x, n, &at));
        }
        active &= lane_greater(size, least) & ~lane_greater(lane_mul(lane_set(2), size), last);
        if (step == steps || !lane_any(active)) return berr;
        for (intptr_t i = 0; i < n && !extra; i++) t->d[i] = t->r[i];
        if (!extra) KERNEL(lu_apply)(t->d, b, false);
        for (intptr_t i = 0; i < n; i++) t->x[i] = elem_select(active, elem_add(t->x[i], t->d[i]), t->x[i]);
        last = lane_select(active, size, last);
    }
}

/* A bound of |x - A^-1 b| / |x| in infinity norms; each part of r has PARTS times as many terms as a row of A. */
INLINE vec forward_error(refinement *t, const inverse_of *lu, bool extra) {
    const intptr_t n = lu->n;
    const T of_sum = (T)(PARTS * (n + 1)) * unit_roundoff(), c = extra ? of_sum * of_sum : of_sum;
    for (intptr_t i = 0; i < n; i++) {
        const vec scale = lane_fma(lane_set(c), t->w[i], elem_size(t->r[i]));
        const mask is_safe = lane_greater(t->w[i], lane_set(safe_size(n)));
        t->scale[i] = lane_select(is_safe, scale, lane_add(scale, lane_set(min_size(n))));
    }
    const inverse_of b = {lu->lu, lu->s, t->scale, n, true};
    const vec found = KERNEL(inverse_norm)(&b, t->d, t->phases);
    vec at;
    const vec size = largest_of(t->x, n, &at);
    const vec ferr = lane_select(lane_equal(size, lane_set(0)), found, lane_div(found, size));
    return extra ? lane_add(ferr, lane_set(PARTS * unit_roundoff())) : ferr;
}

static void KERNEL(refine_lanes)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) {
    refinement *const t = smm_kernel_workspace();
    const intptr_t n = call->n;
    const bool extra = call->form & SMM_EXTRA;
    const inverse_of inverse = {t->lu, &t->s, NULL, n, false};
    (void)cold;
    for (intptr_t q = first; q < last; q += LANES) {
        const intptr_t count = min_of(LANES, last - q);
        KERNEL(elem_load)(t->a, &call->refine.a, q, n, n, count);
        KERNEL(elem_load)(t->lu, &call->refine.lu, q, n, n, count);
        const vec info = lu_look(call, &call->refine.pivots, t->lu, &t->s, q, count);
        const mask good = lane_equal(info, lane_set(0));
        lanes_store_int(&call->refine.info, q, info, count);
        for (intptr_t j = 0; j < call->k; j++) {
            const smm_operand x = elem_columns(call->refine.x, j), b = elem_columns(call->refine.b, j);
            const smm_operand refined = elem_columns(call->refine.refined, j);
            KERNEL(elem_load)(t->x, &x, q, n, 1, count);
            KERNEL(elem_load)(t->b, &b, q, n, 1, count);
            const vec berr = improve(t, &inverse, extra), ferr = forward_error(t, &inverse, extra);
            KERNEL(elem_store)(&refined, q, t->x, n, 1, count);
            KERNEL(elem_fill_nan)(&refined, q, info, n, 1, count);
            store_element(&call->refine.berr, q, j, lane_select(good, berr, lane_set(NAN)), count);
            store_element(&call->refine.ferr, q, j, lane_select(good, ferr, lane_set(NAN)), count);
        }
    }
}
