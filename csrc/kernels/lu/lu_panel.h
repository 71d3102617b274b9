/* lu_panel.h: LU of one panel of a few columns, from the diagonal down, and what its steps do to right-hand sides in
 * the lanes. lu_panels.h has the other columns. */

/* --- in the lanes --- */

/* Row i of the panel at step t: what the exchange with row t brings there, less l u. */
INLINE void lu_eliminate_row(elem *y, const int t, vec i, const panel_candidate *pivot, const elem *old,
                             const divisor *d, elem r) {
    panel_exchange_row(y, i, pivot, old);
    y[t] = elem_quotient(y[t], d, r);
    UNROLLED(int j = t + 1; j < PANEL; j++) y[j] = elem_fnma(y[t], pivot->y[j], y[j]);
}

/* How many steps there are from row k on. */
INLINE intptr_t lu_steps(const panel_stack *s, intptr_t k) { return min_of(s->m, s->n) - k; }

/* The pivots of step k, by which its column is divided. */
INLINE void lu_take_pivots(panel_stack *s, intptr_t k, const divisor *d, elem r) {
    s->d[k] = *d;
    s->r[k] = r;
    if (__builtin_expect(!lane_any(~d->exact), 1)) return;
    const mask first = elem_is_useless(d->p) & lane_equal(s->info, lane_set(0));
    s->singular |= first & elem_is_zero(d->p);
    s->info = lane_select(first, lane_set((T)(k + 1)), s->info);
}

/* Step k + t, whose pivot row is known, of the panel and of so many right-hand sides in the lanes, in which `beside` is
 * that row. Returns that of the next. With the last step the rows go back to w; keep: they remain in x, too. */
INLINE panel_candidate lu_step(panel_stack *s, intptr_t k, const int t, const panel_candidate *pivot, elem *beside,
                               const int nrhs, bool keep) {
    const intptr_t m = s->m - k, steps = lu_steps(s, k);
    const divisor d = divisor_of(pivot->y[t]);
    const elem r = elem_reciprocal(&d);
    elem *const x = s->x + k * PANEL, *const b = s->b + k * nrhs;
    elem old[PANEL], old_b[PANEL], u[PANEL];
    vec i = lane_set((T)t);
    panel_candidate next = *pivot;
    UNROLLED(int j = 0; j < PANEL; j++) old[j] = x[t * PANEL + j];
    UNROLLED(int e = 0; e < nrhs; e++) {
        u[e] = beside[e];
        old_b[e] = b[t * nrhs + e];
        b[t * nrhs + e] = u[e];
    }
    lu_take_pivots(s, k + t, &d, r);
    s->odd ^= ~lane_equal(pivot->row, lane_set((T)t));
    panel_exchange(s, k, t, pivot);
    UNROLLED(int j = 0; j < PANEL; j++) x[t * PANEL + j] = pivot->y[j];
    if (t + 1 == PANEL || t + 1 == steps) {
        panel_settle(s, k, t + 1);
        UNROLLED(int e = 0; e <= t; e++) panel_store_row(s, k, k + e, x + e * PANEL);
    }
    ROLLED(intptr_t row = t + 1; row < m; row++) {
        elem *const y = x + row * PANEL, z[PANEL], c[PANEL];
        i = lane_add(i, lane_set(1));
        UNROLLED(int j = 0; j < PANEL; j++) z[j] = y[j];
        lu_eliminate_row(z, t, i, pivot, old, &d, r);
        UNROLLED(int e = 0; e < nrhs; e++) {
            const mask exchanged = lane_equal(i, pivot->row);
            c[e] = elem_fnma(z[t], u[e], elem_select(exchanged, old_b[e], b[row * nrhs + e]));
            b[row * nrhs + e] = c[e];
        }
        if (t + 1 == PANEL) panel_store_row(s, k, k + row, z);
        if (t + 1 < PANEL || keep)
            UNROLLED(int j = 0; j < PANEL; j++) y[j] = z[j];
        if (t + 1 == PANEL) continue;
        if (row == t + 1) {
            next = panel_first_row(z, t + 1);
            UNROLLED(int e = 0; e < nrhs; e++) beside[e] = c[e];
        } else {
            const mask larger = panel_consider(&next, z, t + 1, i);
            UNROLLED(int e = 0; e < nrhs; e++) beside[e] = elem_select(larger, c[e], beside[e]);
        }
    }
    return next;
}

/* Whether panels go in pairs: where one alone is narrower than a vector. */
enum { LU_PAIRS = PARTS == 1 && !PANEL_APART };

/* The second panel of a pair, which has not had the steps of the first yet: that ends at column k, and is in x. */
INLINE panel_candidate lu_begin_second(panel_stack *s, const T *w, int32_t (*at)[LANES], intptr_t k, elem *beside,
                                       const int nrhs) {
    const elem *const l = s->x + (k - PANEL) * PANEL;
    elem u[PANEL][PANEL];
    UNROLLED(int t = 0; t < PANEL; t++) {
        panel_load_row_at(u[t], w + PARTS * k, at[k - PANEL + t]);
        UNROLLED(int e = 0; e < t; e++)
            UNROLLED(int j = 0; j < PANEL; j++) u[t][j] = elem_fnma(l[t * PANEL + e], u[e][j], u[t][j]);
        panel_store_row(s, k, k - PANEL + t, u[t]);
    }
    return panel_begin(s, w, at, k, u, beside, nrhs);
}

/* One panel, or which of two: the second has the first one's steps as it begins, columns after them have both at once.
 */
typedef enum lu_part { LU_SINGLE, LU_FIRST, LU_SECOND } lu_part;

/* Rows of the panel begin at w + at[]. A last panel of fewer columns leaves rows below its steps. */
INLINE void lu_panel(panel_stack *s, const T *w, int32_t (*at)[LANES], intptr_t k, lu_part its, const int nrhs) {
    const lu_part part = LU_PAIRS ? its : LU_SINGLE;
    const intptr_t steps = lu_steps(s, k);
    elem beside[PANEL];
    panel_candidate pivot =
        part == LU_SECOND ? lu_begin_second(s, w, at, k, beside, nrhs) : panel_begin(s, w, at, k, NULL, beside, nrhs);
    UNROLLED(int t = 0; t < PANEL; t++)
        if (t < steps) pivot = lu_step(s, k, t, &pivot, beside, nrhs, part == LU_FIRST);
    for (intptr_t i = k + steps; i < s->m && steps < PANEL; i++) panel_store_row(s, k, i, s->x + i * PANEL);
}
SHARED void KERNEL(lu_panel)(panel_stack *s, const T *w, int32_t (*at)[LANES], intptr_t k, lu_part part) {
    lu_panel(s, w, at, k, part, 0);
}
SHARED void KERNEL(lu_panel_beside)(panel_stack *s, const T *w, int32_t (*at)[LANES], intptr_t k, lu_part part) {
    lu_panel(s, w, at, k, part, 1);
}
SHARED void KERNEL(lu_panel_beside_four)(panel_stack *s, const T *w, int32_t (*at)[LANES], intptr_t k, lu_part part) {
    lu_panel(s, w, at, k, part, PANEL);
}
typedef void lu_panel_fn(panel_stack *s, const T *w, int32_t (*at)[LANES], intptr_t k, lu_part part);

/* --- of the matrix in one lane, whose rows are the lanes, for few matrices --- */

/* Element j of row i of the panel, from which its next part is LANES away. */
INLINE T *lu_element(const panel_stack *s, intptr_t i, int j) {
    return (T *)(s->x + i / LANES * PANEL + j) + i % LANES;
}

/* Where LANES rows of the panel at column k begin, from row i on; behind the matrix if it has no such row. */
INLINE void lu_positions(int32_t places[LANES], const panel_stack *s, intptr_t lane, intptr_t k, intptr_t i) {
    const intptr_t behind = lane * s->size + s->m * s->pitch - PARTS * k;
    for (intptr_t l = 0; l < LANES; l++) places[l] = k + i + l < s->m ? s->at[k + i + l][lane] : (int32_t)behind;
}

INLINE vec lu_numbered(void) {
    T number[LANES];
    UNROLLED(int l = 0; l < LANES; l++) number[l] = (T)l;
    return lane_load(number);
}

/* The panel at column k; what it has after the matrix's last row is zero. */
INLINE void lu_load_alone(const panel_stack *s, intptr_t lane, intptr_t k) {
    const intptr_t m = s->m - k;
    const vec zero = lane_set(0), number = lu_numbered();
    for (intptr_t i = 0; i < m; i += LANES) {
        vec *const x = (vec *)(s->x + i / LANES * PANEL);
        const mask beyond = lane_greater(number, lane_set((T)(m - i - 1)));
        int32_t places[LANES];
        lu_positions(places, s, lane, k, i);
        UNROLLED(int j = 0; j < PANEL_WIDTH; j += 4) lane_load_rows(x + j, s->w + PARTS * k + j, places);
        UNROLLED(int j = 0; j < PANEL_WIDTH; j++) x[j] = lane_select(beyond, zero, x[j]);
    }
}
INLINE void lu_store_alone(const panel_stack *s, intptr_t lane, intptr_t k) {
    for (intptr_t i = 0; i < s->m - k; i += LANES) {
        int32_t places[LANES];
        lu_positions(places, s, lane, k, i);
        UNROLLED(int j = 0; j < PANEL_WIDTH; j += 4)
            lane_store_rows(s->w + PARTS * k + j, places, (const vec *)(s->x + i / LANES * PANEL) + j);
    }
}

/* The row of step t's pivot among m rows: of equals the first, and row t if a NaN is there. */
INLINE intptr_t lu_find_alone(const panel_stack *s, intptr_t m, const int t) {
    const vec at_t = lane_set((T)t);
    vec most = elem_size(elem_spread(lu_element(s, t, t))), row = at_t;
    vec i = lane_add(lu_numbered(), lane_set((T)(t / LANES * LANES)));
    ROLLED(intptr_t v = t / LANES; v * LANES < m; v++) {
        const vec size = elem_size(s->x[v * PANEL + t]);
        const mask larger = lane_greater(size, most) & lane_greater(i, at_t);
        most = lane_select(larger, size, most);
        row = lane_select(larger, i, row);
        i = lane_add(i, lane_set((T)LANES));
    }
    T sizes[LANES], rows[LANES];
    lane_store(sizes, most);
    lane_store(rows, row);
    int best = 0;
    UNROLLED(int l = 1; l < LANES; l++)
        if (sizes[l] > sizes[best] || (sizes[l] == sizes[best] && rows[l] < rows[best])) best = l;
    return (intptr_t)rows[best];
}

/* Step t on a vector of rows, of which those `below` come after it. */
INLINE void lu_eliminate_alone(elem y[PANEL], const int t, mask below, const divisor *d, elem r, const elem *u) {
    const elem l = elem_quotient(y[t], d, r);
    y[t] = elem_select(below, l, y[t]);
    UNROLLED(int j = t + 1; j < PANEL; j++) y[j] = elem_select(below, elem_fnma(l, u[j], y[j]), y[j]);
}

INLINE void lu_step_alone(panel_stack *s, intptr_t lane, intptr_t k, const int t) {
    const intptr_t m = s->m - k, p = lu_find_alone(s, m, t);
    int32_t *const here = &s->at[k + t][lane], *const there = &s->at[k + p][lane], at = *here;
    T *const own = (T *)&s->was[k + t] + lane, *const other = (T *)&s->was[k + p] + lane, was = *own;
    elem u[PANEL];
    *here = *there;
    *there = at;
    *own = *other;
    *other = was;
    s->swap[k + t][lane] = (int32_t)(k + p);
    if (p != t) s->odd ^= lane_mask((uint32_t)1 << lane);
    UNROLLED(int j = 0; j < PANEL; j++) {
        T *const x = lu_element(s, t, j), *const y = lu_element(s, p, j);
        UNROLLED(int part = 0; part < PARTS; part++) {
            const T y_t = y[part * LANES];
            y[part * LANES] = x[part * LANES];
            x[part * LANES] = y_t;
        }
        u[j] = elem_spread(x);
    }
    elem_put((T *)&s->d[k + t].p + lane, u[t]);
    const divisor d = divisor_of(u[t]);
    const elem r = elem_reciprocal(&d);
    const mask all = lane_mask(~(uint32_t)0);
    const intptr_t first = t / LANES;
    lu_eliminate_alone(s->x + first * PANEL, t, all & lane_mask(~(uint32_t)1 << t % LANES), &d, r, u);
    ROLLED(intptr_t v = first + 1; v * LANES < m; v++) lu_eliminate_alone(s->x + v * PANEL, t, all, &d, r, u);
}

/* The panels of so many matrices. */
SHARED void KERNEL(lu_panels_alone)(panel_stack *s, intptr_t k, intptr_t count) {
    const intptr_t steps = lu_steps(s, k);
    for (intptr_t lane = 0; lane < count; lane++) {
        lu_load_alone(s, lane, k);
        UNROLLED(int t = 0; t < PANEL; t++)
            if (t < steps) lu_step_alone(s, lane, k, t);
        lu_store_alone(s, lane, k);
    }
    for (intptr_t t = k; t < k + min_of(steps, PANEL); t++) {
        T *const p = (T *)&s->d[t].p;
        for (intptr_t lane = count; lane < LANES; lane++)
            UNROLLED(int part = 0; part < PARTS; part++) p[part * LANES + lane] = p[part * LANES + count - 1];
        const divisor d = divisor_of(s->d[t].p);
        lu_take_pivots(s, t, &d, elem_reciprocal(&d));
    }
}

/* What those panels do to right-hand sides in the lanes. */
INLINE void lu_follow(panel_stack *s, intptr_t k, intptr_t count, const int nrhs) {
    const intptr_t steps = min_of(lu_steps(s, k), PANEL);
    for (intptr_t t = k; t < k + steps; t++)
        for (intptr_t lane = 0; lane < count; lane++)
            for (intptr_t e = 0; e < nrhs; e++) {
                T *const x = (T *)&s->b[t * nrhs + e] + lane, *const y = (T *)&s->b[s->swap[t][lane] * nrhs + e] + lane;
                UNROLLED(int part = 0; part < PARTS; part++) {
                    const T was = x[part * LANES];
                    x[part * LANES] = y[part * LANES];
                    y[part * LANES] = was;
                }
            }
    ROLLED(intptr_t i = k + 1; i < s->m; i++) {
        elem l[PANEL];
        panel_load_row(l, s, k, i);
        UNROLLED(int t = 0; t < PANEL; t++) {
            if (t >= steps || k + t >= i) break;
            UNROLLED(int e = 0; e < nrhs; e++)
                s->b[i * nrhs + e] = elem_fnma(l[t], s->b[(k + t) * nrhs + e], s->b[i * nrhs + e]);
        }
    }
}
SHARED void KERNEL(lu_panels_alone_beside)(panel_stack *s, intptr_t k, intptr_t count, intptr_t nrhs) {
    KERNEL(lu_panels_alone)(s, k, count);
    if (nrhs == 1) lu_follow(s, k, count, 1);
    if (nrhs == PANEL) lu_follow(s, k, count, PANEL);
}
