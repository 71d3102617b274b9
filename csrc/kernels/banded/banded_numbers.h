/* banded_numbers.h: complex systems of few diagonals and any order, LANES of them side by side: the algorithms of
 * banded_lanes.h over numbers. Pivots are compared by |re| + |im|; positive definite matrices are Hermitian. */

INLINE intptr_t banded_numbers_bytes(const smm_call *call, intptr_t rows) {
    return call->n * (rows + least(SIDES, call->k)) * (intptr_t)sizeof(num);
}

/* info becomes j + 1 where a pivot is useless, the first time. */
INLINE void note_useless_number(vec *info, num pivot, intptr_t j) {
    const mask bad = num_is_useless(pivot) & lane_equal(*info, lane_set(0));
    if (__builtin_expect(lane_any(bad), 0)) *info = lane_select(bad, lane_set((T)(j + 1)), *info);
}

INLINE void exchange_numbers(mask here, num *x, num *y) {
    const num x_was = *x;
    *x = num_select(here, *y, x_was);
    *y = num_select(here, x_was, *y);
}

/* x / p of so many numbers */
INLINE void numbers_divide(num *x, num p, intptr_t count) {
    const divisor d = divisor_of(p);
    const num r = num_reciprocal(&d);
    for (intptr_t k = 0; k < count; k++) x[k] = num_quotient(x[k], &d, r);
}

/* --- three diagonals: as LAPACK's gttrf and gtts2 --- */

static intptr_t KERNEL(tridiagonal_lanes_workspace)(const smm_call *call) {
    return banded_numbers_bytes(call, 4) + call->n * (intptr_t)sizeof(uint32_t);
}

typedef struct tridiagonal_of_numbers {
    num *dl, *d, *du, *du2; /* multipliers; U's diagonals */
    uint32_t *swaps;        /* bit l: row i was exchanged with the next in lane l */
} tridiagonal_of_numbers;

/* Returns info. */
INLINE vec tridiagonal_factor_numbers(const tridiagonal_of_numbers *t, intptr_t n, bool pivoted) {
    vec info = lane_set(0);
    for (intptr_t i = 0; i + 1 < n; i++) {
        const mask some = lane_greater(num_size(t->dl[i]), num_size(t->d[i]));
        const mask swap = lane_mask(pivoted ? lane_bits(some) : 0);
        const bool more = i + 2 < n;
        const num after = more ? t->du[i + 1] : num_set(0);
        exchange_numbers(swap, &t->d[i], &t->dl[i]);
        exchange_numbers(swap, &t->du[i], &t->d[i + 1]);
        t->swaps[i] = lane_bits(swap);
        t->du2[i] = num_select(swap, after, num_set(0));
        note_useless_number(&info, t->d[i], i);
        numbers_divide(&t->dl[i], t->d[i], 1);
        t->d[i + 1] = num_fnma(t->dl[i], t->du[i], t->d[i + 1]);
        if (more) t->du[i + 1] = num_select(swap, num_fnma(t->dl[i], after, num_set(0)), after);
    }
    note_useless_number(&info, t->d[n - 1], n - 1);
    return info;
}

INLINE void tridiagonal_solve_numbers(const tridiagonal_of_numbers *t, num *x, intptr_t n, intptr_t width,
                                      bool pivoted) {
    for (intptr_t i = 0; i + 1 < n; i++) {
        const mask swap = lane_mask(t->swaps[i]);
        num *const top = x + i * width;
        for (intptr_t k = 0; k < width && pivoted; k++) exchange_numbers(swap, &top[k], &top[width + k]);
        numbers_subtract(top + width, t->dl[i], top, width);
    }
    for (intptr_t i = n - 1; i >= 0; i--) {
        num *const top = x + i * width;
        if (i + 1 < n) numbers_subtract(top, t->du[i], top + width, width);
        if (pivoted && i + 2 < n) numbers_subtract(top, t->du2[i], top + 2 * width, width);
        numbers_divide(top, t->d[i], width);
    }
}

static void KERNEL(tridiagonal_lanes)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) {
    (void)cold;
    const intptr_t n = call->n;
    const bool pivoted = !(call->form & SMM_UNPIVOTED);
    const smm_solve_tridiagonal_operands *o = &call->solve_tridiagonal;
    num *const workspace = smm_kernel_workspace(), *const x = workspace + 4 * n;
    const tridiagonal_of_numbers t = {workspace, workspace + n, workspace + 2 * n, workspace + 3 * n,
                                      (uint32_t *)(x + n * least(SIDES, call->k))};
    for (intptr_t q = first; q < last; q += LANES) {
        const intptr_t count = least(LANES, last - q);
        KERNEL(numbers_load)(t.dl, &o->dl, q, n - 1, 1, count);
        KERNEL(numbers_load)(t.d, &o->d, q, n, 1, count);
        KERNEL(numbers_load)(t.du, &o->du, q, n - 1, 1, count);
        const vec info = tridiagonal_factor_numbers(&t, n, pivoted);
        lanes_store_int(&o->info, q, info, count);
        for (intptr_t k = 0; k < call->k; k += SIDES) {
            if (!smm_kernel_should_continue(n, k)) return;
            const intptr_t width = least(SIDES, call->k - k);
            const smm_operand b = numbers_columns(o->b, k), to = numbers_columns(o->x, k);
            KERNEL(numbers_load)(x, &b, q, n, width, count);
            tridiagonal_solve_numbers(&t, x, n, width, pivoted);
            KERNEL(numbers_store)(&to, q, x, n, width, count);
        }
        KERNEL(numbers_fill_nan)(&o->x, q, info, n, call->k, count);
    }
}

/* --- any diagonals: as LAPACK's gbtf2 and gbtrs. Element (i, j) is in row lower + upper + i - j, column j --- */

static intptr_t KERNEL(banded_lanes_workspace)(const smm_call *call) {
    return banded_numbers_bytes(call, 2 * call->m) + call->n * (intptr_t)sizeof(vec);
}

/* Returns info. */
INLINE vec banded_factor_numbers(num *w, vec *pivots, intptr_t n, intptr_t lower, intptr_t all) {
    vec info = lane_set(0);
    for (intptr_t j = 0; j < n; j++) {
        const intptr_t below = least(lower, n - 1 - j), right = least(all, n - 1 - j);
        num *const at_j = w + all * n + j; /* (j + t, j + s) is at_j[(t - s) * n + s] */
        vec most = num_size(*at_j), pivot = lane_set(0);
        for (intptr_t t = 1; t <= below; t++) {
            const vec size = num_size(at_j[t * n]);
            const mask more = lane_greater(size, most);
            most = lane_select(more, size, most);
            pivot = lane_select(more, lane_set((T)t), pivot);
        }
        pivots[j] = pivot;
        for (intptr_t t = 1; t <= below; t++) {
            const mask here = lane_equal(pivot, lane_set((T)t));
            if (!lane_any(here)) continue;
            for (intptr_t s = 0; s <= right; s++) exchange_numbers(here, &at_j[s - s * n], &at_j[(t - s) * n + s]);
        }
        note_useless_number(&info, *at_j, j);
        const divisor d = divisor_of(*at_j);
        const num r = num_reciprocal(&d);
        for (intptr_t t = 1; t <= below; t++) {
            const num l = at_j[t * n] = num_quotient(at_j[t * n], &d, r);
            for (intptr_t s = 1; s <= right; s++)
                at_j[(t - s) * n + s] = num_fnma(l, at_j[s - s * n], at_j[(t - s) * n + s]);
        }
    }
    return info;
}

INLINE void banded_solve_numbers(const num *w, const vec *pivots, num *x, intptr_t n, intptr_t width, intptr_t lower,
                                 intptr_t all) {
    for (intptr_t j = 0; j < n; j++) {
        const intptr_t below = least(lower, n - 1 - j);
        num *const x_j = x + j * width;
        for (intptr_t t = 1; t <= below; t++) {
            const mask here = lane_equal(pivots[j], lane_set((T)t));
            if (!lane_any(here)) continue;
            for (intptr_t k = 0; k < width; k++) exchange_numbers(here, &x_j[k], &x_j[t * width + k]);
        }
        for (intptr_t t = 1; t <= below; t++) numbers_subtract(x_j + t * width, w[(all + t) * n + j], x_j, width);
    }
    for (intptr_t j = n - 1; j >= 0; j--) {
        num *const x_j = x + j * width;
        numbers_divide(x_j, w[all * n + j], width);
        for (intptr_t s = 1; s <= least(all, j); s++)
            numbers_subtract(x_j - s * width, w[(all - s) * n + j], x_j, width);
    }
}

static void KERNEL(banded_lanes)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) {
    (void)cold;
    const intptr_t n = call->n, m = call->m, all = m - 1;
    const smm_solve_banded_operands *o = &call->solve_banded;
    vec *const pivots = smm_kernel_workspace();
    num *const w = (num *)(pivots + n), *const x = w + 2 * m * n;
    for (intptr_t q = first, count; q < last; q += count) {
        const intptr_t lower = smm_lower_of(call, q);
        for (count = 1; count < least(LANES, last - q); count++) /* side by side only if equal */
            if (smm_lower_of(call, q + count) != lower) break;
        if (lower < 0) { /* nothing tells which diagonals these are */
            lanes_store_int(&o->info, q, lane_set(-1), count);
            KERNEL(numbers_fill_nan)(&o->x, q, lane_set(-1), n, call->k, count);
            continue;
        }
        for (intptr_t j = 0; j < lower * n; j++) w[j] = num_set(0); /* to be filled in */
        KERNEL(numbers_load)(w + lower * n, &o->ab, q, m, n, count);
        const vec info = banded_factor_numbers(w, pivots, n, lower, all);
        lanes_store_int(&o->info, q, info, count);
        for (intptr_t k = 0; k < call->k; k += SIDES) {
            if (!smm_kernel_should_continue(n, k)) return;
            const intptr_t width = least(SIDES, call->k - k);
            const smm_operand b = numbers_columns(o->b, k), to = numbers_columns(o->x, k);
            KERNEL(numbers_load)(x, &b, q, n, width, count);
            banded_solve_numbers(w, pivots, x, n, width, lower, all);
            KERNEL(numbers_store)(&to, q, x, n, width, count);
        }
        KERNEL(numbers_fill_nan)(&o->x, q, info, n, call->k, count);
    }
}

/* --- Hermitian positive definite ones: as LAPACK's pbtf2 --- */

static intptr_t KERNEL(banded_pos_lanes_workspace)(const smm_call *call) {
    return banded_numbers_bytes(call, call->m) + call->n * (intptr_t)sizeof(vec);
}

/* Element (j + t, j) of the lower triangle, which is the conjugate of (j, j + t) of the upper one, is
 * diagonal[j + t * step]. Of the diagonal only the real part is read. */
static void KERNEL(banded_pos_lanes)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) {
    (void)cold;
    const intptr_t n = call->n, m = call->m;
    const bool upper = call->form & SMM_UPPER;
    const smm_solveh_banded_operands *o = &call->solveh_banded;
    vec *const r = smm_kernel_workspace();
    num *const w = (num *)(r + n), *const x = w + m * n;
    num *const diagonal = upper ? w + (m - 1) * n : w;
    const intptr_t step = upper ? 1 - n : n;
    for (intptr_t q = first; q < last; q += LANES) {
        const intptr_t count = least(LANES, last - q);
        vec info = lane_set(0);
        KERNEL(numbers_load)(w, &o->ab, q, m, n, count);
        for (intptr_t e = 0; e < m * n && upper; e++) w[e] = num_conj(w[e]);
        for (intptr_t j = 0; j < n; j++) {
            const intptr_t below = least(m - 1, n - 1 - j);
            num *const l = diagonal + j;
            const mask bad = ~lane_greater(l->re, lane_set(0)) & lane_equal(info, lane_set(0));
            info = lane_select(bad, lane_set((T)(j + 1)), info);
            r[j] = lane_div(lane_set(1), lane_sqrt(l->re));
            for (intptr_t t = 1; t <= below; t++) l[t * step] = num_scale(l[t * step], r[j]);
            for (intptr_t s = 1; s <= below; s++) {
                const num l_s = num_conj(l[s * step]);
                for (intptr_t t = s; t <= below; t++)
                    l[s + (t - s) * step] = num_fnma(l[t * step], l_s, l[s + (t - s) * step]);
            }
        }
        lanes_store_int(&o->info, q, info, count);
        for (intptr_t k = 0; k < call->k; k += SIDES) {
            if (!smm_kernel_should_continue(n, k)) return;
            const intptr_t width = least(SIDES, call->k - k);
            const smm_operand b = numbers_columns(o->b, k), to = numbers_columns(o->x, k);
            KERNEL(numbers_load)(x, &b, q, n, width, count);
            for (intptr_t j = 0; j < n; j++) {
                num *const x_j = x + j * width;
                for (intptr_t c = 0; c < width; c++) x_j[c] = num_scale(x_j[c], r[j]);
                for (intptr_t t = 1; t <= least(m - 1, n - 1 - j); t++)
                    numbers_subtract(x_j + t * width, diagonal[j + t * step], x_j, width);
            }
            for (intptr_t j = n - 1; j >= 0; j--) {
                num *const x_j = x + j * width;
                for (intptr_t t = least(m - 1, n - 1 - j); t >= 1; t--)
                    numbers_subtract(x_j, num_conj(diagonal[j + t * step]), x_j + t * width, width);
                for (intptr_t c = 0; c < width; c++) x_j[c] = num_scale(x_j[c], r[j]);
            }
            KERNEL(numbers_store)(&to, q, x, n, width, count);
        }
        KERNEL(numbers_fill_nan)(&o->x, q, info, n, call->k, count);
    }
}
