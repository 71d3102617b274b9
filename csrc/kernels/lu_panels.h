/* lu_panels.h: LU, solves and determinants by panels of columns (Golub and Van Loan, Matrix Computations, section
 * 3.4.7). LANES matrices are factored side by side in the lanes, but only their panels: there a step is short. What a
 * panel does to the columns beside it is a product, of each matrix by itself, with columns in the lanes. Rows never
 * move there: at[] says which of them the exchanges have brought where. Right-hand sides are further columns. */
#include <stdalign.h>

enum { LU_PANEL = 4, LU_WIDE = VECTOR_REGISTERS / 8 }; /* columns of a panel; vectors that are updated together */

/* LANES matrices under way. */
typedef struct lu_stack {
    T *w;                                /* their rows, [A | B], which become those of [L \ U | L^-1 P B] */
    intptr_t n, pitch, size;             /* of a matrix in w: order, elements from row to row and to the next one */
    vec x[SMM_MOST_ORDER * LU_PANEL];    /* the panel, from row k on */
    vec r[SMM_MOST_ORDER], info;         /* reciprocals of the pivots; the first step, from 1, whose pivot is zero */
    int32_t swap[SMM_MOST_ORDER][LANES], /* step k exchanges rows k and swap[k] */
        at[SMM_MOST_ORDER][LANES];       /* where in w the row that is now row i begins */
} lu_stack;

/* --- a panel --- */

/* The pivot row of a step, as far as rows have been looked at: its elements, the magnitude of that in the step's
 * column, and its number in the panel. */
typedef struct lu_candidate {
    vec y[LU_PANEL], size, row;
} lu_candidate;

INLINE lu_candidate lu_first_row(const vec *y, const int t) {
    lu_candidate c = {.size = lane_abs(y[t]), .row = lane_set((T)t)};
    UNROLLED(int j = 0; j < LU_PANEL; j++) c.y[j] = y[j];
    return c;
}
/* Row i, too: of equals the first remains, and a NaN there. */
INLINE void lu_consider(lu_candidate *c, const vec *y, const int t, vec i) {
    const vec size = lane_abs(y[t]);
    const mask larger = lane_greater(size, c->size);
    UNROLLED(int j = 0; j < LU_PANEL; j++) c->y[j] = lane_select(larger, y[j], c->y[j]);
    c->size = lane_max(size, c->size);
    c->row = lane_select(larger, i, c->row);
}

/* Some pivot of step k + t is so small that it has no reciprocal, or zero: divide the rows that wait, and `old`. */
SHARED void KERNEL(lu_divide_panel)(lu_stack *s, intptr_t k, intptr_t t, vec pivot, vec *old) {
    const mask first = lane_equal(pivot, lane_set(0)) & lane_equal(s->info, lane_set(0));
    s->info = lane_select(first, lane_set((T)(k + t + 1)), s->info);
    *old = lu_quotient(*old, pivot, s->r[k + t]);
    for (intptr_t i = t + 1; i < s->n - k; i++)
        s->x[i * LU_PANEL + t] = lu_quotient(s->x[i * LU_PANEL + t], pivot, s->r[k + t]);
}

/* Row i of the panel at step t: what the exchange with row t brings there, less l u. */
INLINE void lu_eliminate_row(vec *y, const int t, vec i, const lu_candidate *pivot, const vec *old, vec factor) {
    const mask exchanged = lane_equal(i, pivot->row);
    UNROLLED(int j = 0; j < LU_PANEL; j++) y[j] = lane_select(exchanged, old[j], y[j]);
    y[t] = lane_mul(y[t], factor);
    UNROLLED(int j = t + 1; j < LU_PANEL; j++) y[j] = lane_fnma(y[t], pivot->y[j], y[j]);
}

/* Step k + t, whose pivot row is known. Returns that of the next; rows that are done go back to w. */
INLINE lu_candidate lu_step(lu_stack *s, intptr_t k, const int t, const lu_candidate *pivot) {
    const intptr_t m = s->n - k;
    vec *const x = s->x, old[LU_PANEL], factor = lane_div(lane_set(1), pivot->y[t]), i = lane_set((T)t);
    lu_candidate next = *pivot;
    UNROLLED(int j = 0; j < LU_PANEL; j++) old[j] = x[t * LU_PANEL + j];
    s->r[k + t] = factor;
    if (__builtin_expect(lane_any(~lane_greater(lane_set(INFINITY), lane_abs(factor))), 0)) {
        vec divided = old[t];
        KERNEL(lu_divide_panel)(s, k, t, pivot->y[t], &divided);
        old[t] = divided;
        factor = lane_set(1);
    }
    lane_store_int(s->swap[k + t], lane_add(pivot->row, lane_set((T)k)));
    UNROLLED(int l = 0; l < LANES; l++) {
        int32_t *const here = &s->at[k + t][l], *const there = &s->at[s->swap[k + t][l]][l], at = *here;
        *here = *there;
        *there = at;
    }
    lane_store_rows(s->w + k, s->at[k + t], pivot->y);
    ROLLED(intptr_t row = t + 1; row < m; row++) {
        vec *const y = x + row * LU_PANEL, z[LU_PANEL];
        i = lane_add(i, lane_set(1));
        UNROLLED(int j = 0; j < LU_PANEL; j++) z[j] = y[j];
        lu_eliminate_row(z, t, i, pivot, old, factor);
        if (t + 1 == LU_PANEL) {
            lane_store_rows(s->w + k, s->at[k + row], z);
            continue;
        }
        UNROLLED(int j = 0; j < LU_PANEL; j++) y[j] = z[j];
        if (row == t + 1)
            next = lu_first_row(z, t + 1);
        else
            lu_consider(&next, z, t + 1, i);
    }
    return next;
}

SHARED void KERNEL(lu_panel)(lu_stack *s, intptr_t k) {
    vec i = lane_set(0);
    lane_load_rows(s->x, s->w + k, s->at[k]);
    lu_candidate pivot = lu_first_row(s->x, 0);
    ROLLED(intptr_t row = 1; row < s->n - k; row++) {
        vec y[LU_PANEL];
        lane_load_rows(y, s->w + k, s->at[k + row]);
        UNROLLED(int j = 0; j < LU_PANEL; j++) s->x[row * LU_PANEL + j] = y[j];
        i = lane_add(i, lane_set(1));
        lu_consider(&pivot, y, 0, i);
    }
    UNROLLED(int t = 0; t < LU_PANEL; t++)
        if (k + t < s->n) pivot = lu_step(s, k, t, &pivot);
}

/* --- the columns beside it --- */

/* Rows k .. k+LU_PANEL-1 of U, and the rows below, of the matrix in a lane: `wide` vectors of columns from j on; of the
 * first vector only the columns that are `mine`. */
INLINE void lu_product(const lu_stack *s, intptr_t lane, intptr_t k, intptr_t j, const int wide, mask mine) {
    enum { WHOLE = (int)LANES <= (int)LU_PANEL }; /* panels end where vectors do */
    vec u[LU_PANEL][LU_WIDE];
    UNROLLED(int i = 0; i < LU_PANEL; i++) {
        T *const x = s->w + s->at[k + i][lane];
        UNROLLED(int v = 0; v < wide; v++) u[i][v] = lane_load(x + j + v * LANES);
        UNROLLED(int t = 0; t < i; t++) {
            const vec l = lane_set(x[k + t]);
            UNROLLED(int v = 0; v < wide; v++) u[i][v] = lane_fnma(l, u[t][v], u[i][v]);
        }
        UNROLLED(int v = 0; v < wide; v++)
            lane_store(x + j + v * LANES, WHOLE || v ? u[i][v] : lane_select(mine, u[i][v], lane_load(x + j)));
    }
    ROLLED(intptr_t i = k + LU_PANEL; i < s->n; i++) {
        T *const x = s->w + s->at[i][lane];
        vec y[LU_WIDE];
        UNROLLED(int v = 0; v < wide; v++) y[v] = lane_load(x + j + v * LANES);
        UNROLLED(int t = 0; t < LU_PANEL; t++) {
            const vec l = lane_set(x[k + t]);
            UNROLLED(int v = 0; v < wide; v++) y[v] = lane_fnma(l, u[t][v], y[v]);
        }
        UNROLLED(int v = 0; v < wide; v++)
            lane_store(x + j + v * LANES, WHOLE || v ? y[v] : lane_select(mine, y[v], lane_load(x + j)));
    }
}

/* All columns after the panel that begins at column k. */
SHARED void KERNEL(lu_update)(const lu_stack *s, intptr_t lane, intptr_t k) {
    const intptr_t first = k + LU_PANEL;
    intptr_t j = first / LANES * LANES;
    mask mine = lane_mask(~(uint32_t)0 << (first - j));
    while (j < s->n) {
        const intptr_t vectors = least((s->n - j + LANES - 1) / LANES, LU_WIDE);
        if (vectors == 1)
            lu_product(s, lane, k, j, 1, mine);
        else if (vectors == 2)
            lu_product(s, lane, k, j, 2, mine);
        else if (vectors == 3 && LU_WIDE > 3)
            lu_product(s, lane, k, j, 3, mine);
        else
            lu_product(s, lane, k, j, LU_WIDE, mine);
        mine = lane_mask(~(uint32_t)0);
        j += vectors * LANES;
    }
}

/* --- right-hand sides: LU_PANEL columns of all matrices at a time, in the lanes --- */

/* y, row i of some columns, less the products of row i of L or U in columns k .. k+count-1 with rows of x: from the
 * first on, or from the last on. */
INLINE void lu_less(const lu_stack *s, intptr_t i, intptr_t k, const intptr_t count, vec *x, const int cols,
                    const bool upwards) {
    vec l[LU_PANEL];
    lane_load_rows(l, s->w + k, s->at[i]);
    for (intptr_t e = 0; e < count; e++) {
        const intptr_t t = upwards ? count - 1 - e : e;
        UNROLLED(int j = 0; j < cols; j++) x[i * cols + j] = lane_fnma(l[t], x[(k + t) * cols + j], x[i * cols + j]);
    }
}

/* x = the solution of L U x = x. */
INLINE void lu_substitute_panels(const lu_stack *s, vec *x, const int cols) {
    const intptr_t n = s->n, tail = (n - 1) / LU_PANEL * LU_PANEL; /* where the last panel begins */
    for (intptr_t k = 0; k < n; k += LU_PANEL) {
        for (intptr_t i = k + 1; i < least(k + LU_PANEL, n); i++) lu_less(s, i, k, i - k, x, cols, false);
        for (intptr_t i = k + LU_PANEL; i < n; i++) lu_less(s, i, k, LU_PANEL, x, cols, false);
    }
    for (intptr_t k = tail; k >= 0; k -= LU_PANEL) {
        const intptr_t end = least(k + LU_PANEL, n);
        for (intptr_t i = end - 1; i >= k; i--) {
            vec u[LU_PANEL];
            lane_load_rows(u, s->w + k, s->at[i]);
            for (intptr_t t = end - 1; t > i; t--)
                UNROLLED(int j = 0; j < cols; j++)
                    x[i * cols + j] = lane_fnma(u[t - k], x[t * cols + j], x[i * cols + j]);
            UNROLLED(int j = 0; j < cols; j++) x[i * cols + j] = lu_quotient(x[i * cols + j], u[i - k], s->r[i]);
        }
        for (intptr_t i = 0; i < k && end - k == LU_PANEL; i++) lu_less(s, i, k, LU_PANEL, x, cols, true);
        for (intptr_t i = 0; i < k && end - k < LU_PANEL; i++) lu_less(s, i, k, end - k, x, cols, true);
    }
}

/* Columns j .. j+width-1 of C from those of B, for matrices q .. q+count-1. */
SHARED void KERNEL(lu_solve_panels)(const smm_call *call, lu_stack *s, intptr_t q, intptr_t count, intptr_t j,
                                    intptr_t width) {
    const intptr_t n = s->n;
    const strides b = strides_of(&call->b);
    const smm_operand c = lu_columns(call->c, j);
    vec x[SMM_MOST_ORDER * LU_PANEL];
    for (intptr_t l = 0; l < count; l++) {
        const T *const from = (const T *)call->b.data + (q + l) * b.batch + j * b.col;
        T *const to = s->w + l * s->size + n;
        for (intptr_t i = 0; i < n; i++)
            for (intptr_t e = 0; e < width; e++) to[i * s->pitch + e] = from[i * b.row + e * b.col];
    }
    for (intptr_t i = 0; i < n; i++) {
        vec y[LU_PANEL];
        lane_load_rows(y, s->w + n, s->at[i]);
        for (intptr_t e = 0; e < width; e++) x[i * width + e] = y[e];
    }
    switch (width) {
    case 1: lu_substitute_panels(s, x, 1); break;
    case 2: lu_substitute_panels(s, x, 2); break;
    case 3: lu_substitute_panels(s, x, 3); break;
    default: lu_substitute_panels(s, x, LU_PANEL);
    }
    lanes_store(&c, q, x, n, width, count);
    lanes_spoil(&c, q, s->info, n, width, count);
}

/* --- operands --- */

/* The rows of A into w. */
INLINE void lu_load(T *w, intptr_t pitch, const T *a, strides s, intptr_t n) {
    for (intptr_t i = 0; i < n; i += s.row == 1 && s.col != 1 ? BLOCK : 1)
        if (s.col == 1)
            for (intptr_t j = 0; j < n; j += LANES)
                lane_store(w + i * pitch + j,
                           j + LANES <= n ? lane_load(a + i * s.row + j) : lane_load_part(a + i * s.row + j, n - j));
        else if (s.row == 1)
            for (intptr_t j = 0; j < n; j += BLOCK)
                transpose_block(w + i * pitch + j, pitch, a + j * s.col + i, s.col, least(BLOCK, n - i), n - j, BLOCK);
        else
            for (intptr_t j = 0; j < n; j++) w[i * pitch + j] = a[i * s.row + j * s.col];
}

/* And those of L and U out of it; the last vector of a row may overlap the one before. */
INLINE void lu_store(const smm_call *call, intptr_t q, const lu_stack *s, intptr_t lane) {
    const strides c = strides_of(&call->c);
    const intptr_t n = s->n, end = (intptr_t)((const T *)&s->info)[lane];
    const bool whole = c.col == 1 && n >= LANES && !end;
    T *to = (T *)call->c.data + q * c.batch;
    for (intptr_t i = 0; i < n; i++, to += c.row) {
        const T *const x = s->w + s->at[i][lane];
        for (intptr_t j = 0; j < n && whole; j += LANES) {
            const intptr_t from = least(j, n - LANES);
            lane_store(to + from, lane_load(x + from));
        }
        for (intptr_t j = 0; j < n && !whole; j++) to[j * c.col] = end ? (T)NAN : x[j];
    }
    for (intptr_t k = 0; k < n && call->pivots.data; k++)
        *(int32_t *)((char *)call->pivots.data + q * call->pivots.batch + k * call->pivots.row) =
            end && k + 1 >= end ? (int32_t)k : s->swap[k][lane];
}

/* det A from the diagonal of U. */
INLINE void lu_det(const smm_call *call, intptr_t q, const lu_stack *s, intptr_t lane) {
    T u[SMM_MOST_ORDER], p = 1;
    const T least_normal = sizeof(T) == 4 ? (T)FLT_MIN : (T)DBL_MIN;
    bool safe = true, odd = false;
    for (intptr_t k = 0; k < s->n; k++) {
        u[k] = s->w[s->at[k][lane] + k];
        p *= u[k];
        const T size = p < 0 ? -p : p;
        safe &= size >= least_normal && size < (T)INFINITY;
        odd ^= s->swap[k][lane] != k;
    }
    KERNEL(det_put)(call, q, odd ? -p : p, safe, odd, u, 1, s->n);
}

/* LU, SOLVE, DET or SLOGDET. */
static void KERNEL(lu_panels)(const smm_call *call, intptr_t first, intptr_t last, smm_behind *cold) {
    enum { UNIT = (int)LANES < (int)LU_PANEL ? (int)LU_PANEL : (int)LANES }; /* rows are whole panels and vectors */
    const strides a = strides_of(&call->a);
    const intptr_t n = call->n, sides = call->op == SMM_OP_SOLVE ? call->k : 0;
    alignas(64) T w[LANES * (SMM_MOST_ORDER * (SMM_MOST_ORDER + UNIT) + UNIT)];
    lu_stack s = {.w = w, .n = n, .pitch = (n + least(LU_PANEL, sides) + UNIT - 1) / UNIT * UNIT};
    s.size = n * s.pitch + UNIT;
    for (intptr_t q = first; q < last; q += LANES) {
        const intptr_t count = least(LANES, last - q);
        const T *const next = ahead_of(&call->a, q, LANES * n * n);
        s.info = lane_set(0);
        for (intptr_t l = 0; l < count; l++)
            lu_load(w + l * s.size, s.pitch, (const T *)call->a.data + (q + l) * a.batch, a, n);
        for (intptr_t i = 0; i < n; i++)
            for (intptr_t l = 0; l < LANES; l++) s.at[i][l] = (int32_t)(least(l, count - 1) * s.size + i * s.pitch);
        for (intptr_t k = 0; k < n; k += LU_PANEL) {
            KERNEL(lu_panel)(&s, k);
            for (intptr_t l = 0; l < count; l++) {
                if (cold) prefetch(next + l * a.batch + k * n, LU_PANEL * n);
                KERNEL(lu_update)(&s, l, k);
            }
        }
        lanes_store_int(&call->info, q, s.info, count);
        for (intptr_t j = 0; j < sides; j += LU_PANEL)
            KERNEL(lu_solve_panels)(call, &s, q, count, j, least(LU_PANEL, sides - j));
        for (intptr_t l = 0; l < count && call->op != SMM_OP_SOLVE; l++)
            if (call->op == SMM_OP_LU)
                lu_store(call, q + l, &s, l);
            else
                lu_det(call, q + l, &s, l);
    }
}
