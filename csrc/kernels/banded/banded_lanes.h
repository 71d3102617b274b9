/* banded_lanes.h: solves with matrices of few diagonals and any order, LANES systems side by side, over the numbers of
 * elements_real.h and those of elements_complex.h. The diagonals of all of them, with what elimination fills in, are in
 * the thread's workspace: rows of n numbers. Pivots are compared by elem_size; positive definite matrices are
 * Hermitian. */

INLINE intptr_t banded_bytes(const smm_call *call, intptr_t rows) {
    return call->n * (rows + min_of(RHS_BLOCK, call->k)) * (intptr_t)sizeof(elem);
}

/* info becomes j + 1 where a pivot is useless, the first time. */
INLINE void note_useless(vec *info, elem pivot, intptr_t j) {
    const mask bad = elem_is_useless(pivot);
    if (__builtin_expect(lane_any(bad), 0))
        *info = lane_select(bad & lane_equal(*info, lane_set(0)), lane_set((T)(j + 1)), *info);
}

SHARED void KERNEL(banded_load)(elem *x, const smm_operand *from, intptr_t q, intptr_t rows, intptr_t cols,
                                intptr_t count) {
    KERNEL(elem_load)(x, from, q, rows, cols, count);
}

SHARED void KERNEL(banded_store)(const smm_operand *to, intptr_t q, const elem *x, intptr_t rows, intptr_t cols,
                                 intptr_t count) {
    KERNEL(elem_store)(to, q, x, rows, cols, count);
}

/* --- three diagonals: as LAPACK's gttrf and gtts2 --- */

static intptr_t KERNEL(tridiagonal_lanes_workspace)(const smm_call *call) {
    return banded_bytes(call, 4) + call->n * (intptr_t)sizeof(uint32_t);
}

typedef struct tridiagonal {
    elem *dl, *d, *du, *du2; /* multipliers; U's diagonals */
    uint32_t *swaps;         /* bit l: row i was exchanged with the next in lane l */
} tridiagonal;

/* Returns info. */
INLINE vec tridiagonal_factor(const tridiagonal *t, intptr_t n, const bool pivoted) {
    vec info = lane_set(0);
    elem d = t->d[0], du = n > 1 ? t->du[0] : elem_set(0);
    for (intptr_t i = 0; i + 1 < n; i++) {
        const elem below = t->dl[i], next = t->d[i + 1], after = i + 2 < n ? t->du[i + 1] : elem_set(0);
        if (pivoted) {
            const mask swap = lane_greater(elem_size(below), elem_size(d));
            const elem pivot = elem_select(swap, below, d), u = elem_select(swap, next, du);
            const elem l = elem_div(elem_select(swap, d, below), pivot);
            note_useless(&info, pivot, i);
            t->swaps[i] = lane_bits(swap);
            t->d[i] = pivot;
            t->dl[i] = l;
            t->du2[i] = elem_select(swap, after, elem_set(0));
            t->du[i] = u;
            d = elem_fnma(l, u, elem_select(swap, du, next));
            du = elem_select(swap, elem_fnma(l, after, elem_set(0)), after);
        } else {
            const elem l = elem_div(below, d);
            note_useless(&info, d, i);
            t->d[i] = d;
            t->dl[i] = l;
            d = elem_fnma(l, du, next);
            du = after;
        }
    }
    t->d[n - 1] = d;
    note_useless(&info, d, n - 1);
    return info;
}

INLINE void tridiagonal_solve(const tridiagonal *t, elem *x, intptr_t n, intptr_t width, const bool pivoted) {
    for (intptr_t i = 0; i + 1 < n; i++) {
        const mask swap = lane_mask(pivoted ? t->swaps[i] : 0);
        const elem l = t->dl[i];
        for (intptr_t k = 0; k < width; k++) {
            elem *top = x + i * width + k, *low = top + width;
            if (pivoted) elem_exchange(swap, top, low);
            *low = elem_fnma(l, *top, *low);
        }
    }
    for (intptr_t i = n - 1; i >= 0; i--) {
        const divisor pivot = divisor_of(t->d[i]);
        const elem r = elem_reciprocal(&pivot);
        for (intptr_t k = 0; k < width; k++) {
            elem y = x[i * width + k];
            if (i + 1 < n) y = elem_fnma(t->du[i], x[(i + 1) * width + k], y);
            if (pivoted && i + 2 < n) y = elem_fnma(t->du2[i], x[(i + 2) * width + k], y);
            x[i * width + k] = elem_over(y, &pivot, r);
        }
    }
}

INLINE void tridiagonal_loop(const smm_call *call, intptr_t first, intptr_t last, const bool pivoted) {
    const intptr_t n = call->n;
    const smm_solve_tridiagonal_operands *o = &call->solve_tridiagonal;
    elem *const workspace = smm_kernel_workspace(), *const x = workspace + 4 * n;
    const tridiagonal t = {workspace, workspace + n, workspace + 2 * n, workspace + 3 * n,
                           (uint32_t *)(x + n * min_of(RHS_BLOCK, call->k))};
    for (intptr_t q = first; q < last; q += LANES) {
        const intptr_t count = min_of(LANES, last - q);
        KERNEL(banded_load)(t.dl, &o->dl, q, n - 1, 1, count);
        KERNEL(banded_load)(t.d, &o->d, q, n, 1, count);
        KERNEL(banded_load)(t.du, &o->du, q, n - 1, 1, count);
        const vec info = tridiagonal_factor(&t, n, pivoted);
        lanes_store_int(&o->info, q, info, count);
        for (intptr_t k = 0; k < call->k; k += RHS_BLOCK) {
            if (!smm_kernel_should_continue(n, k)) return;
            const intptr_t width = min_of(RHS_BLOCK, call->k - k);
            const smm_operand b = elem_columns(o->b, k), to = elem_columns(o->x, k);
            KERNEL(banded_load)(x, &b, q, n, width, count);
            if (width == 1)
                tridiagonal_solve(&t, x, n, 1, pivoted);
            else
                tridiagonal_solve(&t, x, n, width, pivoted);
            KERNEL(banded_store)(&to, q, x, n, width, count);
        }
        KERNEL(elem_fill_nan)(&o->x, q, info, n, call->k, count);
    }
}

/* Streams of operands, which the hardware prefetches. */
static void KERNEL(tridiagonal_lanes)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) {
    (void)cold;
    if (call->form & SMM_UNPIVOTED)
        tridiagonal_loop(call, first, last, false);
    else
        tridiagonal_loop(call, first, last, true);
}

/* --- any diagonals: as LAPACK's gbtf2 and gbtrs. Element (i, j) is in row lower + upper + i - j, column j --- */

static intptr_t KERNEL(banded_lanes_workspace)(const smm_call *call) {
    return banded_bytes(call, 2 * call->m) + call->n * (intptr_t)sizeof(vec);
}

/* Returns info. */
INLINE vec banded_factor(elem *w, vec *pivots, intptr_t n, intptr_t lower, intptr_t all) {
    vec info = lane_set(0);
    for (intptr_t j = 0; j < n; j++) {
        const intptr_t below = min_of(lower, n - 1 - j), right = min_of(all, n - 1 - j);
        elem *const at_j = w + all * n + j; /* (j + t, j + s) is at_j[(t - s) * n + s] */
        vec most = elem_size(*at_j), pivot = lane_set(0);
        for (intptr_t t = 1; t <= below; t++) {
            const vec size = elem_size(at_j[t * n]);
            const mask more = lane_greater(size, most);
            most = lane_select(more, size, most);
            pivot = lane_select(more, lane_set((T)t), pivot);
        }
        pivots[j] = pivot;
        for (intptr_t t = 1; t <= below; t++) {
            const mask here = lane_equal(pivot, lane_set((T)t));
            if (!lane_any(here)) continue;
            for (intptr_t s = 0; s <= right; s++) elem_exchange(here, &at_j[s - s * n], &at_j[(t - s) * n + s]);
        }
        note_useless(&info, *at_j, j);
        const divisor p = divisor_of(*at_j);
        const elem r = elem_reciprocal(&p);
        for (intptr_t t = 1; t <= below; t++) {
            const elem l = at_j[t * n] = elem_quotient(at_j[t * n], &p, r);
            for (intptr_t s = 1; s <= right; s++)
                at_j[(t - s) * n + s] = elem_fnma(l, at_j[s - s * n], at_j[(t - s) * n + s]);
        }
    }
    return info;
}

INLINE void banded_solve(const elem *w, const vec *pivots, elem *x, intptr_t n, intptr_t width, intptr_t lower,
                         intptr_t all) {
    for (intptr_t j = 0; j < n; j++) {
        const intptr_t below = min_of(lower, n - 1 - j);
        elem *const x_j = x + j * width;
        for (intptr_t t = 1; t <= below; t++) {
            const mask here = lane_equal(pivots[j], lane_set((T)t));
            if (!lane_any(here)) continue;
            for (intptr_t k = 0; k < width; k++) elem_exchange(here, &x_j[k], &x_j[t * width + k]);
        }
        for (intptr_t t = 1; t <= below; t++) elem_subtract(x_j + t * width, w[(all + t) * n + j], x_j, width);
    }
    for (intptr_t j = n - 1; j >= 0; j--) {
        elem *const x_j = x + j * width;
        const divisor p = divisor_of(w[all * n + j]);
        const elem r = elem_reciprocal(&p);
        for (intptr_t k = 0; k < width; k++) x_j[k] = elem_quotient(x_j[k], &p, r);
        for (intptr_t s = 1; s <= min_of(all, j); s++) elem_subtract(x_j - s * width, w[(all - s) * n + j], x_j, width);
    }
}

static void KERNEL(banded_lanes)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) {
    (void)cold;
    const intptr_t n = call->n, m = call->m, all = m - 1;
    const smm_solve_banded_operands *o = &call->solve_banded;
    vec *const pivots = smm_kernel_workspace();
    elem *const w = (elem *)(pivots + n), *const x = w + 2 * m * n;
    for (intptr_t q = first, count; q < last; q += count) {
        const intptr_t lower = smm_lower_of(call, q);
        for (count = 1; count < min_of(LANES, last - q); count++) /* side by side only if equal */
            if (smm_lower_of(call, q + count) != lower) break;
        if (lower < 0) { /* nothing tells which diagonals these are */
            lanes_store_int(&o->info, q, lane_set(-1), count);
            KERNEL(elem_fill_nan)(&o->x, q, lane_set(-1), n, call->k, count);
            continue;
        }
        for (intptr_t j = 0; j < lower * n; j++) w[j] = elem_set(0); /* to be filled in */
        KERNEL(banded_load)(w + lower * n, &o->ab, q, m, n, count);
        const vec info = banded_factor(w, pivots, n, lower, all);
        lanes_store_int(&o->info, q, info, count);
        for (intptr_t k = 0; k < call->k; k += RHS_BLOCK) {
            if (!smm_kernel_should_continue(n, k)) return;
            const intptr_t width = min_of(RHS_BLOCK, call->k - k);
            const smm_operand b = elem_columns(o->b, k), to = elem_columns(o->x, k);
            KERNEL(banded_load)(x, &b, q, n, width, count);
            banded_solve(w, pivots, x, n, width, lower, all);
            KERNEL(banded_store)(&to, q, x, n, width, count);
        }
        KERNEL(elem_fill_nan)(&o->x, q, info, n, call->k, count);
    }
}

/* --- positive definite ones: as LAPACK's pbtf2 --- */

static intptr_t KERNEL(banded_pos_lanes_workspace)(const smm_call *call) {
    return banded_bytes(call, call->m) + call->n * (intptr_t)sizeof(vec);
}

/* Element (j + t, j) of the lower triangle, which is the conjugate of (j, j + t) of the upper one, is
 * diagonal[j + t * step]; t <= below. A real x_jc stays in a register; of complex numbers the factor does, which have
 * two parts. */
INLINE void banded_pos_solve(const elem *diagonal, intptr_t step, const vec *r, elem *x, intptr_t n, intptr_t width,
                             intptr_t below) {
    for (intptr_t j = 0; j < n; j++) {
        elem *const x_j = x + j * width;
        const elem *const l = diagonal + j;
        const intptr_t rows = min_of(below, n - 1 - j);
        for (intptr_t c = 0; c < width; c++) {
            const elem y = x_j[c] = elem_scale(x_j[c], r[j]);
            for (intptr_t t = 1; t <= rows && PARTS == 1; t++)
                x_j[t * width + c] = elem_fnma(l[t * step], y, x_j[t * width + c]);
        }
        for (intptr_t t = 1; t <= rows && PARTS > 1; t++) elem_subtract(x_j + t * width, l[t * step], x_j, width);
    }
    for (intptr_t j = n - 1; j >= 0; j--) {
        elem *const x_j = x + j * width;
        const elem *const l = diagonal + j;
        const intptr_t rows = min_of(below, n - 1 - j);
        for (intptr_t t = rows; t >= 1 && PARTS > 1; t--)
            elem_subtract(x_j, elem_conj(l[t * step]), x_j + t * width, width);
        for (intptr_t c = 0; c < width; c++) {
            elem y = x_j[c];
            for (intptr_t t = rows; t >= 1 && PARTS == 1; t--) y = elem_fnma(l[t * step], x_j[t * width + c], y);
            x_j[c] = elem_scale(y, r[j]);
        }
    }
}

/* Of the diagonal only the real part is read. */
static void KERNEL(banded_pos_lanes)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) {
    (void)cold;
    const intptr_t n = call->n, m = call->m;
    const bool upper = call->form & SMM_UPPER;
    const smm_solveh_banded_operands *o = &call->solveh_banded;
    vec *const r = smm_kernel_workspace();
    elem *const w = (elem *)(r + n), *const x = w + m * n;
    elem *const diagonal = upper ? w + (m - 1) * n : w;
    const intptr_t step = upper ? 1 - n : n;
    for (intptr_t q = first; q < last; q += LANES) {
        const intptr_t count = min_of(LANES, last - q);
        vec info = lane_set(0);
        KERNEL(banded_load)(w, &o->ab, q, m, n, count);
        for (intptr_t e = 0; e < m * n && upper && PARTS > 1; e++) w[e] = elem_conj(w[e]);
        for (intptr_t j = 0; j < n; j++) {
            const intptr_t below = min_of(m - 1, n - 1 - j);
            elem *const l = diagonal + j;
            const vec pivot = elem_re(*l);
            const mask bad = ~lane_greater(pivot, lane_set(0));
            if (__builtin_expect(lane_any(bad), 0))
                info = lane_select(bad & lane_equal(info, lane_set(0)), lane_set((T)(j + 1)), info);
            r[j] = lane_div(lane_set(1), lane_sqrt(pivot));
            for (intptr_t t = 1; t <= below; t++) l[t * step] = elem_scale(l[t * step], r[j]);
            for (intptr_t s = 1; s <= below; s++) {
                const elem l_s = elem_conj(l[s * step]);
                for (intptr_t t = s; t <= below; t++)
                    l[s + (t - s) * step] = elem_fnma(l[t * step], l_s, l[s + (t - s) * step]);
            }
        }
        lanes_store_int(&o->info, q, info, count);
        for (intptr_t k = 0; k < call->k; k += RHS_BLOCK) {
            if (!smm_kernel_should_continue(n, k)) return;
            const intptr_t width = min_of(RHS_BLOCK, call->k - k);
            const smm_operand b = elem_columns(o->b, k), to = elem_columns(o->x, k);
            KERNEL(banded_load)(x, &b, q, n, width, count);
            banded_pos_solve(diagonal, step, r, x, n, width, m - 1);
            KERNEL(banded_store)(&to, q, x, n, width, count);
        }
        KERNEL(elem_fill_nan)(&o->x, q, info, n, call->k, count);
    }
}
