/* lu_panels.h: LU, solves and determinants by panels of columns: A becomes L \ U. Right-hand sides are solved for in
 * the lanes. */

/* --- a panel --- */

/* Some pivot of step k + t has no exact reciprocal, or is useless: divide the rows that wait, and `old`. */
SHARED void KERNEL(lu_divide_panel)(panel_stack *s, intptr_t k, intptr_t t, vec pivot, vec *old) {
    const mask first = useless(pivot) & lane_equal(s->info, lane_set(0));
    s->info = lane_select(first, lane_set((T)(k + t + 1)), s->info);
    *old = lu_quotient(*old, pivot, s->r[k + t]);
    for (intptr_t i = t + 1; i < s->n - k; i++)
        s->x[(k + i) * PANEL + t] = lu_quotient(s->x[(k + i) * PANEL + t], pivot, s->r[k + t]);
}

/* Row i of the panel at step t: what the exchange with row t brings there, less l u. */
INLINE void lu_eliminate_row(vec *y, const int t, vec i, const panel_candidate *pivot, const vec *old, vec factor) {
    panel_exchange_row(y, i, pivot, old);
    y[t] = lane_mul(y[t], factor);
    UNROLLED(int j = t + 1; j < PANEL; j++) y[j] = lane_fnma(y[t], pivot->y[j], y[j]);
}

/* Step k + t, whose pivot row is known. Returns that of the next; rows that are done go back to w. */
INLINE panel_candidate lu_step(panel_stack *s, intptr_t k, const int t, const panel_candidate *pivot) {
    const intptr_t m = s->n - k;
    vec *const x = s->x + k * PANEL, old[PANEL], factor = lane_div(lane_set(1), pivot->y[t]), i = lane_set((T)t);
    panel_candidate next = *pivot;
    UNROLLED(int j = 0; j < PANEL; j++) old[j] = x[t * PANEL + j];
    s->r[k + t] = factor;
    if (__builtin_expect(lane_any(~lane_normal(factor)), 0)) {
        vec divided = old[t];
        KERNEL(lu_divide_panel)(s, k, t, pivot->y[t], &divided);
        old[t] = divided;
        factor = lane_set(1);
    }
    panel_exchange(s, k, t, pivot);
    lane_store_rows(s->w + k, s->at[k + t], pivot->y);
    ROLLED(intptr_t row = t + 1; row < m; row++) {
        vec *const y = x + row * PANEL, z[PANEL];
        i = lane_add(i, lane_set(1));
        UNROLLED(int j = 0; j < PANEL; j++) z[j] = y[j];
        lu_eliminate_row(z, t, i, pivot, old, factor);
        if (t + 1 == PANEL) {
            lane_store_rows(s->w + k, s->at[k + row], z);
            continue;
        }
        UNROLLED(int j = 0; j < PANEL; j++) y[j] = z[j];
        if (row == t + 1)
            next = panel_first_row(z, t + 1);
        else
            panel_consider(&next, z, t + 1, i);
    }
    return next;
}

SHARED void KERNEL(lu_panel)(panel_stack *s, intptr_t k) {
    panel_candidate pivot = panel_begin(s, k);
    UNROLLED(int t = 0; t < PANEL; t++)
        if (k + t < s->n) pivot = lu_step(s, k, t, &pivot);
}

/* --- the columns beside it --- */

/* Rows k .. k+PANEL-1 of U, and the rows below, of the matrix in a lane: `wide` vectors of columns from j on; of the
 * first vector only the columns that are `mine`. */
INLINE void lu_product(const panel_stack *s, intptr_t lane, intptr_t k, intptr_t j, const int wide, mask mine) {
    vec u[PANEL][PANEL_WIDE];
    UNROLLED(int i = 0; i < PANEL; i++) {
        T *const x = s->w + s->at[k + i][lane];
        UNROLLED(int v = 0; v < wide; v++) u[i][v] = lane_load(x + j + v * LANES);
        UNROLLED(int t = 0; t < i; t++) {
            const vec l = lane_set(x[k + t]);
            UNROLLED(int v = 0; v < wide; v++) u[i][v] = lane_fnma(l, u[t][v], u[i][v]);
        }
        UNROLLED(int v = 0; v < wide; v++)
            lane_store(x + j + v * LANES, PANEL_APART || v ? u[i][v] : lane_select(mine, u[i][v], lane_load(x + j)));
    }
    ROLLED(intptr_t i = k + PANEL; i < s->n; i++) {
        T *const x = s->w + s->at[i][lane];
        vec y[PANEL_WIDE];
        UNROLLED(int v = 0; v < wide; v++) y[v] = lane_load(x + j + v * LANES);
        UNROLLED(int t = 0; t < PANEL; t++) {
            const vec l = lane_set(x[k + t]);
            UNROLLED(int v = 0; v < wide; v++) y[v] = lane_fnma(l, u[t][v], y[v]);
        }
        UNROLLED(int v = 0; v < wide; v++)
            lane_store(x + j + v * LANES, PANEL_APART || v ? y[v] : lane_select(mine, y[v], lane_load(x + j)));
    }
}

/* All columns after the panel that begins at column k. */
SHARED void KERNEL(lu_update)(const panel_stack *s, intptr_t lane, intptr_t k) {
    const intptr_t first = k + PANEL;
    intptr_t j = first < s->n ? first / LANES * LANES : s->n;
    mask mine = lane_mask(~(uint32_t)0 << (first - j));
    while (j < s->n) {
        const intptr_t vectors = least((s->n - j + LANES - 1) / LANES, PANEL_WIDE);
        if (vectors == 1)
            lu_product(s, lane, k, j, 1, mine);
        else if (vectors == 2)
            lu_product(s, lane, k, j, 2, mine);
        else if (vectors == 3 && PANEL_WIDE > 3)
            lu_product(s, lane, k, j, 3, mine);
        else
            lu_product(s, lane, k, j, PANEL_WIDE, mine);
        mine = lane_mask(~(uint32_t)0);
        j += vectors * LANES;
    }
}

/* --- right-hand sides: PANEL columns of all matrices at a time, in the lanes --- */

/* y, row i of some columns, less the products of row i of L or U in columns k .. k+count-1 with rows of x: from the
 * first on, or from the last on. */
INLINE void lu_less(const panel_stack *s, intptr_t i, intptr_t k, const intptr_t count, vec *x, const int cols,
                    const bool upwards) {
    vec l[PANEL];
    lane_load_rows(l, s->w + k, s->at[i]);
    for (intptr_t e = 0; e < count; e++) {
        const intptr_t t = upwards ? count - 1 - e : e;
        UNROLLED(int j = 0; j < cols; j++) x[i * cols + j] = lane_fnma(l[t], x[(k + t) * cols + j], x[i * cols + j]);
    }
}

/* x = the solution of L U x = x. */
INLINE void lu_substitute_panels(const panel_stack *s, vec *x, const int cols) {
    const intptr_t n = s->n, tail = (n - 1) / PANEL * PANEL; /* where the last panel begins */
    for (intptr_t k = 0; k < n; k += PANEL) {
        for (intptr_t i = k + 1; i < least(k + PANEL, n); i++) lu_less(s, i, k, i - k, x, cols, false);
        for (intptr_t i = k + PANEL; i < n; i++) lu_less(s, i, k, PANEL, x, cols, false);
    }
    for (intptr_t k = tail; k >= 0; k -= PANEL) {
        const intptr_t end = least(k + PANEL, n);
        for (intptr_t i = end - 1; i >= k; i--) {
            vec u[PANEL];
            lane_load_rows(u, s->w + k, s->at[i]);
            for (intptr_t t = end - 1; t > i; t--)
                UNROLLED(int j = 0; j < cols; j++)
                    x[i * cols + j] = lane_fnma(u[t - k], x[t * cols + j], x[i * cols + j]);
            UNROLLED(int j = 0; j < cols; j++) x[i * cols + j] = lu_quotient(x[i * cols + j], u[i - k], s->r[i]);
        }
        for (intptr_t i = 0; i < k && end - k == PANEL; i++) lu_less(s, i, k, PANEL, x, cols, true);
        for (intptr_t i = 0; i < k && end - k < PANEL; i++) lu_less(s, i, k, end - k, x, cols, true);
    }
}

/* Columns j .. j+width-1 of X from those of B, for matrices q .. q+count-1. */
SHARED void KERNEL(lu_solve_panels)(const smm_call *call, panel_stack *s, intptr_t q, intptr_t count, intptr_t j,
                                    intptr_t width) {
    const intptr_t n = s->n;
    const strides b = strides_of(&call->solve.b);
    const smm_operand c = lu_columns(call->solve.x, j);
    vec *const x = s->b;
    for (intptr_t l = 0; l < count; l++) {
        const T *const from = (const T *)call->solve.b.data + (q + l) * b.batch + j * b.col;
        T *const to = s->w + l * s->size + n;
        for (intptr_t i = 0; i < n; i++)
            for (intptr_t e = 0; e < width; e++) to[i * s->pitch + e] = from[i * b.row + e * b.col];
    }
    for (intptr_t i = 0; i < n; i++) {
        vec y[PANEL];
        lane_load_rows(y, s->w + n, s->at[i]);
        for (intptr_t e = 0; e < width; e++) x[i * width + e] = y[e];
    }
    switch (width) {
    case 1: lu_substitute_panels(s, x, 1); break;
    case 2: lu_substitute_panels(s, x, 2); break;
    case 3: lu_substitute_panels(s, x, 3); break;
    default: lu_substitute_panels(s, x, PANEL);
    }
    lanes_store(&c, q, x, n, width, count);
    lanes_fill_nan(&c, q, s->info, n, width, count);
}

/* --- results --- */

/* L and U and the pivots; the last vector of a row may overlap the one before. */
INLINE void lu_store(const smm_call *call, intptr_t q, const panel_stack *s, intptr_t lane) {
    const strides c = strides_of(&call->lu.lu);
    const intptr_t n = s->n, end = (intptr_t)((const T *)&s->info)[lane];
    const bool whole = c.col == 1 && n >= LANES && !end;
    T *to = (T *)call->lu.lu.data + q * c.batch;
    for (intptr_t i = 0; i < n; i++, to += c.row) {
        const T *const x = s->w + s->at[i][lane];
        for (intptr_t j = 0; j < n && whole; j += LANES) {
            const intptr_t from = least(j, n - LANES);
            lane_store(to + from, lane_load(x + from));
        }
        for (intptr_t j = 0; j < n && !whole; j++) to[j * c.col] = end ? (T)NAN : x[j];
    }
    for (intptr_t k = 0; k < n && call->lu.pivots.data; k++)
        *(int32_t *)((char *)call->lu.pivots.data + q * call->lu.pivots.batch + k * call->lu.pivots.row) =
            end && k + 1 >= end ? (int32_t)k : s->swap[k][lane];
}

/* det A from the diagonal of U. */
INLINE void lu_det(const smm_call *call, intptr_t q, const panel_stack *s, intptr_t lane) {
    T u[SMM_MOST_ORDER], p = 1;
    bool safe = true, odd = false;
    for (intptr_t k = 0; k < s->n; k++) {
        u[k] = s->w[s->at[k][lane] + k];
        p *= u[k];
        const T size = p < 0 ? -p : p;
        safe &= size >= least_normal() && size < (T)INFINITY;
        odd ^= s->swap[k][lane] != k;
    }
    KERNEL(det_put)(call, q, odd ? -p : p, safe, odd, u, 1, s->n);
}

/* LU, SOLVE, DET or SLOGDET. */
static void KERNEL(lu_panels)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) {
    const intptr_t n = call->n, sides = call->op == SMM_OP_SOLVE ? call->k : 0;
    enum { ROWS = LANES * (SMM_MOST_ORDER * (SMM_MOST_ORDER + PANEL_UNIT) + PANEL_UNIT) * sizeof(T) };
    _Static_assert(sizeof(panel_stack) + (size_t)ROWS <= SMM_KERNEL_WORKSPACE, "workspace of lu_panels");
    panel_stack *const s = smm_kernel_workspace();
    panel_stack_in(s, (T *)(s + 1), n, n + least(PANEL, sides));
    for (intptr_t q = first; q < last; q += LANES) {
        const intptr_t count = least(LANES, last - q);
        const T *const next = ahead_of(&call->a, q, LANES * n * n);
        panel_load(s, &call->a, q, count);
        for (intptr_t k = 0; k < n; k += PANEL) {
            KERNEL(lu_panel)(s, k);
            for (intptr_t l = 0; l < count; l++) {
                if (cold) prefetch(next + (l * n + k) * n, PANEL * n);
                KERNEL(lu_update)(s, l, k);
            }
        }
        lanes_store_int(smm_info(call), q, s->info, count);
        for (intptr_t j = 0; j < sides; j += PANEL)
            KERNEL(lu_solve_panels)(call, s, q, count, j, least(PANEL, sides - j));
        for (intptr_t l = 0; l < count && call->op != SMM_OP_SOLVE; l++)
            if (call->op == SMM_OP_LU)
                lu_store(call, q + l, s, l);
            else
                lu_det(call, q + l, s, l);
    }
}
