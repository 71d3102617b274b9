/* banded_lanes.h: solves with matrices of few diagonals and any order, LANES systems side by side. The diagonals of all
 * of them, with what elimination fills in, are in the thread's workspace: rows of n vectors. */

INLINE intptr_t banded_bytes(const smm_call *call, intptr_t rows) {
    return call->n * (rows + least(BLOCK, call->k)) * (intptr_t)sizeof(vec);
}

/* info becomes j + 1 where a pivot is useless, the first time. */
INLINE void note_useless(vec *info, vec pivot, intptr_t j) {
    const mask bad = useless(pivot);
    if (__builtin_expect(lane_any(bad), 0))
        *info = lane_select(bad & lane_equal(*info, lane_set(0)), lane_set((T)(j + 1)), *info);
}

INLINE void exchange(mask here, vec *x, vec *y) {
    const vec x_was = *x;
    *x = lane_select(here, *y, x_was);
    *y = lane_select(here, x_was, *y);
}

/* Right-hand sides from column k on, as many as `width`. */
INLINE smm_operand sides_from(const smm_operand *x, intptr_t k) {
    smm_operand part = *x;
    part.data = (char *)part.data + k * part.col;
    return part;
}

/* --- three diagonals: as LAPACK's gttrf and gtts2 --- */

static intptr_t KERNEL(tridiagonal_lanes_workspace)(const smm_call *call) {
    return banded_bytes(call, 4) + call->n * (intptr_t)sizeof(uint32_t);
}

typedef struct tridiagonal {
    vec *dl, *d, *du, *du2; /* multipliers; U's diagonals */
    uint32_t *swaps;        /* bit l: row i was exchanged with the next in lane l */
} tridiagonal;

INLINE vec tridiagonal_factor(const tridiagonal *t, intptr_t n, const bool pivoted) {
    vec info = lane_set(0), d = t->d[0], du = n > 1 ? t->du[0] : lane_set(0);
    for (intptr_t i = 0; i + 1 < n; i++) {
        const vec below = t->dl[i], next = t->d[i + 1], after = i + 2 < n ? t->du[i + 1] : lane_set(0);
        if (pivoted) {
            const mask swap = lane_greater(lane_abs(below), lane_abs(d));
            const vec pivot = lane_select(swap, below, d), u = lane_select(swap, next, du);
            const vec l = lane_div(lane_select(swap, d, below), pivot);
            note_useless(&info, pivot, i);
            t->swaps[i] = lane_bits(swap);
            t->d[i] = pivot;
            t->dl[i] = l;
            t->du2[i] = lane_select(swap, after, lane_set(0));
            t->du[i] = u;
            d = lane_fnma(l, u, lane_select(swap, du, next));
            du = lane_select(swap, lane_fnma(l, after, lane_set(0)), after);
        } else {
            const vec l = lane_div(below, d);
            note_useless(&info, d, i);
            t->d[i] = d;
            t->dl[i] = l;
            d = lane_fnma(l, du, next);
            du = after;
        }
    }
    t->d[n - 1] = d;
    note_useless(&info, d, n - 1);
    return info;
}

INLINE void tridiagonal_solve(const tridiagonal *t, vec *x, intptr_t n, intptr_t width, const bool pivoted) {
    for (intptr_t i = 0; i + 1 < n; i++) {
        const mask swap = lane_mask(pivoted ? t->swaps[i] : 0);
        for (intptr_t k = 0; k < width; k++) {
            vec *top = x + i * width + k, *low = top + width;
            if (pivoted) exchange(swap, top, low);
            *low = lane_fnma(t->dl[i], *top, *low);
        }
    }
    for (intptr_t i = n - 1; i >= 0; i--)
        for (intptr_t k = 0; k < width; k++) {
            vec y = x[i * width + k];
            if (i + 1 < n) y = lane_fnma(t->du[i], x[(i + 1) * width + k], y);
            if (pivoted && i + 2 < n) y = lane_fnma(t->du2[i], x[(i + 2) * width + k], y);
            x[i * width + k] = lane_div(y, t->d[i]);
        }
}

INLINE void tridiagonal_loop(const smm_call *call, intptr_t first, intptr_t last, const bool pivoted) {
    const intptr_t n = call->n;
    const smm_solve_tridiagonal_operands *o = &call->solve_tridiagonal;
    vec *const workspace = smm_kernel_workspace(), *const x = workspace + 4 * n;
    const tridiagonal t = {workspace, workspace + n, workspace + 2 * n, workspace + 3 * n,
                           (uint32_t *)(x + n * least(BLOCK, call->k))};
    for (intptr_t q = first; q < last; q += LANES) {
        const intptr_t count = least(LANES, last - q);
        KERNEL(lanes_load)(t.dl, &o->dl, q, n - 1, 1, count);
        KERNEL(lanes_load)(t.d, &o->d, q, n, 1, count);
        KERNEL(lanes_load)(t.du, &o->du, q, n - 1, 1, count);
        const vec info = tridiagonal_factor(&t, n, pivoted);
        lanes_store_int(&o->info, q, info, count);
        for (intptr_t k = 0; k < call->k; k += BLOCK) {
            if (!smm_kernel_should_continue(n, k)) return;
            const intptr_t width = least(BLOCK, call->k - k);
            const smm_operand b = sides_from(&o->b, k), to = sides_from(&o->x, k);
            KERNEL(lanes_load)(x, &b, q, n, width, count);
            if (width == 1)
                tridiagonal_solve(&t, x, n, 1, pivoted);
            else
                tridiagonal_solve(&t, x, n, width, pivoted);
            KERNEL(lanes_store)(&to, q, x, n, width, count);
        }
        lanes_fill_nan(&o->x, q, info, n, call->k, count);
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

static intptr_t KERNEL(banded_lanes_workspace)(const smm_call *call) { return banded_bytes(call, 2 * call->m + 2); }

INLINE vec banded_factor(vec *w, vec *r, vec *pivots, intptr_t n, intptr_t lower, intptr_t all) {
    vec info = lane_set(0);
    for (intptr_t j = 0; j < n; j++) {
        const intptr_t below = least(lower, n - 1 - j), right = least(all, n - 1 - j);
        vec *const at_j = w + all * n + j; /* (j + t, j + s) is at_j[(t - s) * n + s] */
        vec most = lane_abs(*at_j), pivot = lane_set(0);
        for (intptr_t t = 1; t <= below; t++) {
            const vec size = lane_abs(at_j[t * n]);
            const mask more = lane_greater(size, most);
            most = lane_select(more, size, most);
            pivot = lane_select(more, lane_set((T)t), pivot);
        }
        pivots[j] = pivot;
        for (intptr_t t = 1; t <= below; t++) {
            const mask here = lane_equal(pivot, lane_set((T)t));
            if (!lane_any(here)) continue;
            for (intptr_t s = 0; s <= right; s++) exchange(here, &at_j[s - s * n], &at_j[(t - s) * n + s]);
        }
        const vec p = *at_j;
        note_useless(&info, p, j);
        r[j] = lane_div(lane_set(1), p);
        for (intptr_t t = 1; t <= below; t++) {
            const vec l = at_j[t * n] = lu_quotient(at_j[t * n], p, r[j]);
            for (intptr_t s = 1; s <= right; s++)
                at_j[(t - s) * n + s] = lane_fnma(l, at_j[s - s * n], at_j[(t - s) * n + s]);
        }
    }
    return info;
}

INLINE void banded_solve(const vec *w, const vec *r, const vec *pivots, vec *x, intptr_t n, intptr_t width,
                         intptr_t lower, intptr_t all) {
    for (intptr_t j = 0; j < n; j++) {
        const intptr_t below = least(lower, n - 1 - j);
        for (intptr_t t = 1; t <= below; t++) {
            const mask here = lane_equal(pivots[j], lane_set((T)t));
            if (!lane_any(here)) continue;
            for (intptr_t k = 0; k < width; k++) exchange(here, &x[j * width + k], &x[(j + t) * width + k]);
        }
        for (intptr_t t = 1; t <= below; t++)
            for (intptr_t k = 0; k < width; k++)
                x[(j + t) * width + k] = lane_fnma(w[(all + t) * n + j], x[j * width + k], x[(j + t) * width + k]);
    }
    for (intptr_t j = n - 1; j >= 0; j--) {
        for (intptr_t k = 0; k < width; k++) x[j * width + k] = lu_quotient(x[j * width + k], w[all * n + j], r[j]);
        for (intptr_t s = 1; s <= least(all, j); s++)
            for (intptr_t k = 0; k < width; k++)
                x[(j - s) * width + k] = lane_fnma(w[(all - s) * n + j], x[j * width + k], x[(j - s) * width + k]);
    }
}

static void KERNEL(banded_lanes)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) {
    (void)cold;
    const intptr_t n = call->n, m = call->m;
    const smm_solve_banded_operands *o = &call->solve_banded;
    vec *const r = smm_kernel_workspace(), *const pivots = r + n, *const w = pivots + n, *const x = w + 2 * m * n;
    for (intptr_t q = first, count; q < last; q += count) {
        const intptr_t lower = smm_lower_of(call, q), all = m - 1;
        for (count = 1; count < least(LANES, last - q); count++) /* side by side only if equal */
            if (smm_lower_of(call, q + count) != lower) break;
        if (lower < 0) { /* nothing tells which diagonals these are */
            lanes_store_int(&o->info, q, lane_set(-1), count);
            lanes_fill_nan(&o->x, q, lane_set(-1), n, call->k, count);
            continue;
        }
        for (intptr_t j = 0; j < lower * n; j++) w[j] = lane_set(0); /* to be filled in */
        KERNEL(lanes_load)(w + lower * n, &o->ab, q, m, n, count);
        const vec info = banded_factor(w, r, pivots, n, lower, all);
        lanes_store_int(&o->info, q, info, count);
        for (intptr_t k = 0; k < call->k; k += BLOCK) {
            if (!smm_kernel_should_continue(n, k)) return;
            const intptr_t width = least(BLOCK, call->k - k);
            const smm_operand b = sides_from(&o->b, k), to = sides_from(&o->x, k);
            KERNEL(lanes_load)(x, &b, q, n, width, count);
            banded_solve(w, r, pivots, x, n, width, lower, all);
            KERNEL(lanes_store)(&to, q, x, n, width, count);
        }
        lanes_fill_nan(&o->x, q, info, n, call->k, count);
    }
}

/* --- positive definite ones: as LAPACK's pbtf2 --- */

static intptr_t KERNEL(banded_pos_lanes_workspace)(const smm_call *call) { return banded_bytes(call, call->m + 1); }

/* Element (j + t, j) of the lower triangle, which is (j, j + t) of the upper one, is diagonal[j + t * step]. */
static void KERNEL(banded_pos_lanes)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) {
    (void)cold;
    const intptr_t n = call->n, m = call->m;
    const bool upper = call->form & SMM_UPPER;
    const smm_solveh_banded_operands *o = &call->solveh_banded;
    vec *const r = smm_kernel_workspace(), *const w = r + n, *const x = w + m * n;
    vec *const diagonal = upper ? w + (m - 1) * n : w;
    const intptr_t step = upper ? 1 - n : n;
    for (intptr_t q = first; q < last; q += LANES) {
        const intptr_t count = least(LANES, last - q);
        vec info = lane_set(0);
        KERNEL(lanes_load)(w, &o->ab, q, m, n, count);
        for (intptr_t j = 0; j < n; j++) {
            const intptr_t below = least(m - 1, n - 1 - j);
            vec *const l = diagonal + j;
            r[j] = cholesky_pivot(l, &info, j);
            for (intptr_t t = 1; t <= below; t++) l[t * step] = lane_mul(l[t * step], r[j]);
            for (intptr_t s = 1; s <= below; s++)
                for (intptr_t t = s; t <= below; t++)
                    l[s + (t - s) * step] = lane_fnma(l[t * step], l[s * step], l[s + (t - s) * step]);
        }
        lanes_store_int(&o->info, q, info, count);
        for (intptr_t k = 0; k < call->k; k += BLOCK) {
            if (!smm_kernel_should_continue(n, k)) return;
            const intptr_t width = least(BLOCK, call->k - k);
            const smm_operand b = sides_from(&o->b, k), to = sides_from(&o->x, k);
            KERNEL(lanes_load)(x, &b, q, n, width, count);
            for (intptr_t j = 0; j < n; j++)
                for (intptr_t c = 0; c < width; c++) {
                    const vec y = x[j * width + c] = lane_mul(x[j * width + c], r[j]);
                    for (intptr_t t = 1; t <= least(m - 1, n - 1 - j); t++)
                        x[(j + t) * width + c] = lane_fnma(diagonal[j + t * step], y, x[(j + t) * width + c]);
                }
            for (intptr_t j = n - 1; j >= 0; j--)
                for (intptr_t c = 0; c < width; c++) {
                    vec y = x[j * width + c];
                    for (intptr_t t = least(m - 1, n - 1 - j); t >= 1; t--)
                        y = lane_fnma(diagonal[j + t * step], x[(j + t) * width + c], y);
                    x[j * width + c] = lane_mul(y, r[j]);
                }
            KERNEL(lanes_store)(&to, q, x, n, width, count);
        }
        lanes_fill_nan(&o->x, q, info, n, call->k, count);
    }
}
