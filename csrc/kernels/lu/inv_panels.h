/* inv_panels.h: the inverse by Gauss-Jordan elimination in place of the transpose, by panels of columns. A step
 * eliminates its column in all rows but its own, x_i = x_i - f_i u, u being the pivot row, which the reciprocal of the
 * pivot then multiplies, and puts a column of the identity in its place. What f was is kept until the columns beside
 * the panel have had the steps, too. */

/* LANES matrices under way. */
typedef struct inv_stack {
    panel_stack p;       /* x becomes f of the panel's steps, and 1 / pivot in a pivot's row */
    vec u[PANEL][PANEL]; /* u of the panel's steps, 1 in their own columns */
    vec r[PANEL];        /* 1 / pivot */
    vec size;            /* the largest magnitude of a pivot so far */
    mask singular;       /* a pivot was zero */
} inv_stack;

/* --- a panel --- */

/* Steps first .. last-1 on a row of the panel, z; f is what they multiply with. If `below`, its columns after that of a
 * step have had the step. */
INLINE void inv_row(const inv_stack *s, vec *z, vec *f, const int first, intptr_t last, const bool below) {
    UNROLLED(int t = first; t < PANEL; t++) {
        if (t >= last) break;
        f[t] = lane_mul(z[t], s->r[t]);
        z[t] = lane_set(0);
        UNROLLED(int j = 0; j < PANEL; j++)
            if (j <= t || !below) z[j] = lane_fnma(f[t], s->u[t][j], z[j]);
    }
}

/* The exchange of step k + t, whose pivot row is known, and its u. */
INLINE void inv_begin(inv_stack *s, intptr_t k, const int t, const panel_candidate *pivot) {
    const mask zero = lane_equal(pivot->size, lane_set(0));
    const vec r = lane_div(lane_set(1), lane_select(zero, inv_min_pivot(s->size), pivot->y[t]));
    vec z[PANEL], *const f = s->p.x + (k + t) * PANEL;
    s->singular |= zero;
    s->size = lane_max(pivot->size, s->size);
    panel_exchange(&s->p, k, t, pivot);
    UNROLLED(int j = 0; j < PANEL; j++) z[j] = pivot->y[j];
    inv_row(s, z, f, 0, t, true);
    UNROLLED(int j = 0; j < PANEL; j++) s->u[t][j] = j == t ? lane_set(1) : z[j];
    s->r[t] = f[t] = r;
}

/* Step k + t on the rows below and the columns after its own. Returns the pivot row of the next one. */
INLINE panel_candidate inv_step(inv_stack *s, intptr_t k, const int t, const panel_candidate *pivot, const vec *old) {
    vec i = lane_set((T)t);
    panel_candidate next = *pivot;
    ROLLED(intptr_t row = k + t + 1; row < s->p.n; row++) {
        vec *const x = s->p.x + row * PANEL, z[PANEL];
        UNROLLED(int j = 0; j < PANEL; j++) z[j] = x[j];
        i = lane_add(i, lane_set(1));
        panel_exchange_row(z, i, pivot, old);
        const vec f = lane_mul(z[t], s->r[t]);
        UNROLLED(int j = t + 1; j < PANEL; j++) z[j] = lane_fnma(f, s->u[t][j], z[j]);
        UNROLLED(int j = 0; j < PANEL; j++) x[j] = z[j];
        if (row == k + t + 1)
            next = panel_first_row(z, t + 1);
        else
            panel_consider(&next, z, t + 1, i);
    }
    return next;
}

/* Row i of the panel that begins at column k is done. */
INLINE void inv_put(inv_stack *s, intptr_t k, intptr_t i, const vec *z, const vec *f) {
    UNROLLED(int j = 0; j < PANEL; j++) s->p.x[i * PANEL + j] = f[j];
    panel_store_row(&s->p, k, i, z);
}

/* Steps k .. k+steps-1 in the panel that begins at column k. */
SHARED void KERNEL(inv_panel)(inv_stack *s, intptr_t k, intptr_t steps) {
    panel_stack *const p = &s->p;
    vec z[PANEL], f[PANEL] = {0}, old[PANEL], i = lane_set((T)(steps - 1));
    panel_candidate pivot = panel_begin(p, p->w, p->at, k, NULL, NULL, 0);
    UNROLLED(int t = 0; t < PANEL; t++) {
        if (t > 0 && t >= steps) break;
        UNROLLED(int j = 0; j < PANEL; j++) old[j] = p->x[(k + t) * PANEL + j];
        inv_begin(s, k, t, &pivot);
        if (t + 1 < PANEL && t + 1 < steps) pivot = inv_step(s, k, t, &pivot, old);
    }
    panel_settle(p, k, steps);
    ROLLED(intptr_t row = 0; row < k; row++) {
        panel_load_row(z, p, k, row);
        inv_row(s, z, f, 0, steps, false);
        inv_put(s, k, row, z, f);
    }
    ROLLED(intptr_t row = k + steps; row < p->n; row++) {
        UNROLLED(int j = 0; j < PANEL; j++) z[j] = p->x[row * PANEL + j];
        i = lane_add(i, lane_set(1));
        panel_exchange_row(z, i, &pivot, old);
        inv_row(s, z, f, 0, steps, true);
        inv_put(s, k, row, z, f);
    }
    UNROLLED(int t = 0; t < PANEL; t++) {
        if (t >= steps) break;
        UNROLLED(int j = 0; j < PANEL; j++) z[j] = lane_mul(s->u[t][j], s->r[t]), f[j] = p->x[(k + t) * PANEL + j];
        inv_row(s, z, f, t + 1, steps, false);
        inv_put(s, k, k + t, z, f);
    }
}

/* --- the columns beside it --- */

/* The columns of a vector that are not those of the panel, which begins so many columns after it. */
INLINE mask inv_beside(intptr_t after) {
    const bool apart = after <= -PANEL || after >= LANES;
    return lane_mask(~(uint32_t)(apart ? 0 : after < 0 ? 0xf >> -after : 0xf << after));
}

/* Steps k .. k+steps-1 on `wide` vectors of columns, from j on, of the matrix in a lane; not on those of the panel. */
INLINE void inv_product(const panel_stack *s, intptr_t lane, const T *f, intptr_t k, const int steps, intptr_t j,
                        const int wide, intptr_t panel) {
    const intptr_t n = s->n;
    const int32_t *const at = &s->at[0][lane];
    T *const w = s->w + j;
    vec u[PANEL][PANEL_WIDE], y[PANEL_WIDE];
    mask other[PANEL_WIDE];
    UNROLLED(int v = 0; v < wide; v++) other[v] = inv_beside(panel - j - v * LANES);
    UNROLLED(int i = 0; i < steps; i++) {
        const T *const x = w + at[(k + i) * LANES], *const g = f + (k + i) * PANEL * LANES;
        UNROLLED(int v = 0; v < wide; v++) u[i][v] = lane_load(x + v * LANES);
        UNROLLED(int t = 0; t < i; t++)
            UNROLLED(int v = 0; v < wide; v++) u[i][v] = lane_fnma(lane_set(g[t * LANES]), u[t][v], u[i][v]);
    }
    UNROLLED(int i = 0; i < steps; i++) {
        T *const x = w + at[(k + i) * LANES];
        const T *const g = f + (k + i) * PANEL * LANES;
        UNROLLED(int v = 0; v < wide; v++) y[v] = lane_mul(u[i][v], lane_set(g[i * LANES]));
        UNROLLED(int t = i + 1; t < steps; t++)
            UNROLLED(int v = 0; v < wide; v++) y[v] = lane_fnma(lane_set(g[t * LANES]), u[t][v], y[v]);
        UNROLLED(int v = 0; v < wide; v++) panel_store(x + v * LANES, y[v], other[v]);
    }
    for (intptr_t first = 0, last = k; first < n; first = last + steps, last = n)
        ROLLED(intptr_t i = first; i < last; i++) {
            T *const x = w + at[i * LANES];
            UNROLLED(int v = 0; v < wide; v++) y[v] = lane_load(x + v * LANES);
            UNROLLED(int t = 0; t < steps; t++)
                UNROLLED(int v = 0; v < wide; v++)
                    y[v] = lane_fnma(lane_set(f[(i * PANEL + t) * LANES]), u[t][v], y[v]);
            UNROLLED(int v = 0; v < wide; v++) panel_store(x + v * LANES, y[v], other[v]);
        }
}

/* The same on columns first .. last-1. */
INLINE void inv_columns(const panel_stack *s, intptr_t lane, const T *f, intptr_t k, const int steps, intptr_t first,
                        intptr_t last, intptr_t panel) {
    for (intptr_t j = first; j < last; j += PANEL_WIDE * LANES) {
        const intptr_t vectors = (last - j + LANES - 1) / LANES;
        if (vectors == 1)
            inv_product(s, lane, f, k, steps, j, 1, panel);
        else if (vectors == 2)
            inv_product(s, lane, f, k, steps, j, 2, panel);
        else if (vectors == 3 && PANEL_WIDE > 3)
            inv_product(s, lane, f, k, steps, j, 3, panel);
        else
            inv_product(s, lane, f, k, steps, j, PANEL_WIDE, panel);
    }
}

/* On all columns; those of the panel are left out or, where they are only a part of a vector, not stored. */
SHARED void KERNEL(inv_update)(const inv_stack *s, intptr_t lane, intptr_t k, intptr_t steps) {
    const panel_stack *const p = &s->p;
    const T *const f = (const T *)p->x + lane;
    const intptr_t end = PANEL_APART ? k : p->n, next = PANEL_APART ? k + PANEL : p->n;
    if (steps == PANEL) {
        inv_columns(p, lane, f, k, PANEL, 0, end, k);
        inv_columns(p, lane, f, k, PANEL, next, p->n, k);
    }
    for (intptr_t t = 0; t < steps && steps < PANEL; t++) {
        inv_columns(p, lane, f + t * LANES, k + t, 1, 0, end, k);
        inv_columns(p, lane, f + t * LANES, k + t, 1, next, p->n, k);
    }
}

/* --- operands --- */

/* The sum of squares of the matrix in a lane. */
INLINE T inv_squares(const panel_stack *s, intptr_t lane) {
    vec sum = lane_set(0);
    T each[LANES], squares = 0;
    for (intptr_t i = 0; i < s->n; i++) {
        const T *const row = s->w + s->at[i][lane];
        for (intptr_t j = 0; j < s->n; j += LANES) {
            const vec x = lane_load_part(row + j, min_of(LANES, s->n - j));
            sum = lane_fma(x, x, sum);
        }
    }
    lane_store(each, sum);
    UNROLLED(int l = 0; l < LANES; l++) squares += each[l];
    return squares;
}

/* The inverse of P A^T is there, P being the product of the exchanges: that of A is its transpose, its rows
 * exchanged. */
INLINE void inv_put_matrix(const smm_operand *to, intptr_t q, const panel_stack *s, intptr_t lane) {
    const strides c = strides_of(to);
    const intptr_t n = s->n;
    T *const x = (T *)to->data + q * c.batch;
    int32_t row[SMM_MAX_ORDER]; /* of the result, which column j is */
    for (int32_t j = 0; j < n; j++) row[j] = j;
    for (intptr_t k = 0; k < n; k++) {
        const int32_t p = s->swap[k][lane], j = row[k];
        row[k] = row[p];
        row[p] = j;
    }
    for (intptr_t i = 0; i < n && c.col == 1; i += BLOCK)
        for (intptr_t j = 0; j < n; j += BLOCK) {
            const intptr_t height = min_of(BLOCK, n - i), width = min_of(BLOCK, n - j);
            block_row y[BLOCK];
            UNROLLED(int l = 0; l < BLOCK; l++) y[l] = block_load(s->w + s->at[min_of(i + l, n - 1)][lane] + j, width);
            block_transpose(y);
            UNROLLED(int l = 0; l < BLOCK; l++)
                if (l < width) block_store(x + row[j + l] * c.row + i, y[l], height);
        }
    for (intptr_t i = 0; i < n && c.col != 1; i++)
        for (intptr_t j = 0; j < n; j++) x[row[j] * c.row + i * c.col] = s->w[s->at[i][lane] + j];
}

static void KERNEL(inv_panels)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) {
    _Static_assert(sizeof(inv_stack) + (size_t)PANEL_WORKSPACE <= SMM_KERNEL_WORKSPACE, "workspace of inv_panels");
    const intptr_t n = call->n;
    const smm_operand transposed = smm_transposed(call->inv.a);
    inv_stack *const s = smm_kernel_workspace();
    panel_stack_in(&s->p, s + 1, n, n, panel_pitch(n));
    for (intptr_t q = first; q < last; q += LANES) {
        const intptr_t count = min_of(LANES, last - q);
        const T *const next = ahead_of(&call->inv.a, q, LANES * n * n);
        T squares[LANES] = {0};
        panel_load(&s->p, &transposed, q, count);
        s->size = lane_set(0);
        s->singular = lane_mask(0);
        for (intptr_t k = 0; k < n; k += PANEL) {
            const intptr_t steps = min_of(PANEL, n - k);
            KERNEL(inv_panel)(s, k, steps);
            for (intptr_t l = 0; l < count; l++) {
                if (cold) prefetch(next + (l * n + k) * n, steps * n);
                KERNEL(inv_update)(s, l, k, steps);
            }
        }
        for (intptr_t l = 0; l < count; l++) {
            squares[l] = inv_squares(&s->p, l);
            inv_put_matrix(&call->inv.inverse, q + l, &s->p, l);
        }
        lanes_store_int(&call->inv.info, q, inv_suspects(false, lane_load(squares), s->size, s->singular), count);
    }
}
