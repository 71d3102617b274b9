/* panels.h: LANES matrices that are factored side by side in the lanes, but only panels of their columns: there a step
 * is short. What a panel does to the columns beside it is a product, of each matrix by itself, with columns in the
 * lanes (Golub and Van Loan, Matrix Computations, section 3.4.7). Rows never move there: at[] says which of them the
 * exchanges have brought where. */

enum {
    PANEL = 4,                         /* columns */
    PANEL_WIDE = VECTOR_REGISTERS / 8, /* vectors of other columns that are updated together */
    PANEL_UNIT = (int)LANES < (int)PANEL ? (int)PANEL : (int)LANES, /* rows are whole panels and vectors */
    PANEL_APART = (int)LANES <= (int)PANEL                          /* panels end where vectors do */
};

/* LANES matrices under way. It begins its thread's workspace, and their rows follow. */
typedef struct panel_stack {
    T *w;                                /* their rows */
    intptr_t n, pitch, size;             /* of a matrix in w: order, elements from row to row and to the next one */
    vec x[SMM_MOST_ORDER * PANEL];       /* the panel, by rows */
    vec b[SMM_MOST_ORDER * PANEL];       /* right-hand sides, by rows */
    vec r[SMM_MOST_ORDER], info;         /* reciprocals of the pivots; the first step, from 1, whose pivot is zero */
    int32_t swap[SMM_MOST_ORDER][LANES], /* step k exchanges rows k and swap[k] */
        at[SMM_MOST_ORDER][LANES];       /* where in w the row that is now row i begins */
} panel_stack;

/* For rows of up to `cols` elements. */
INLINE void panel_stack_in(panel_stack *s, T *w, intptr_t n, intptr_t cols) {
    s->w = w;
    s->n = n;
    s->pitch = (cols + PANEL_UNIT - 1) / PANEL_UNIT * PANEL_UNIT;
    s->size = n * s->pitch + PANEL_UNIT;
}

/* A matrix into w. */
INLINE void panel_load_matrix(T *w, intptr_t pitch, const T *a, strides s, intptr_t n) {
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

/* Matrices q .. q+count-1 of A. */
INLINE void panel_load(panel_stack *s, const smm_operand *from, intptr_t q, intptr_t count) {
    const strides a = strides_of(from);
    s->info = lane_set(0);
    for (intptr_t l = 0; l < count; l++)
        panel_load_matrix(s->w + l * s->size, s->pitch, (const T *)from->data + (q + l) * a.batch, a, s->n);
    for (intptr_t i = 0; i < s->n; i++)
        for (intptr_t l = 0; l < LANES; l++) s->at[i][l] = (int32_t)(least(l, count - 1) * s->size + i * s->pitch);
}

/* The pivot row of a step, as far as rows have been looked at: its elements, the magnitude of that in the step's
 * column, and its number in the panel. */
typedef struct panel_candidate {
    vec y[PANEL], size, row;
} panel_candidate;

INLINE panel_candidate panel_first_row(const vec *y, const int t) {
    panel_candidate c = {.size = lane_abs(y[t]), .row = lane_set((T)t)};
    UNROLLED(int j = 0; j < PANEL; j++) c.y[j] = y[j];
    return c;
}
/* Row i, too: of equals the first remains, and a NaN there. */
INLINE void panel_consider(panel_candidate *c, const vec *y, const int t, vec i) {
    const vec size = lane_abs(y[t]);
    const mask larger = lane_greater(size, c->size);
    UNROLLED(int j = 0; j < PANEL; j++) c->y[j] = lane_select(larger, y[j], c->y[j]);
    c->size = lane_max(size, c->size);
    c->row = lane_select(larger, i, c->row);
}

/* The panel from row k on, and the pivot row of its first step. */
INLINE panel_candidate panel_begin(panel_stack *s, intptr_t k) {
    vec i = lane_set(0);
    vec *const x = s->x + k * PANEL;
    lane_load_rows(x, s->w + k, s->at[k]);
    panel_candidate pivot = panel_first_row(x, 0);
    ROLLED(intptr_t row = 1; row < s->n - k; row++) {
        vec y[PANEL];
        lane_load_rows(y, s->w + k, s->at[k + row]);
        UNROLLED(int j = 0; j < PANEL; j++) x[row * PANEL + j] = y[j];
        i = lane_add(i, lane_set(1));
        panel_consider(&pivot, y, 0, i);
    }
    return pivot;
}

/* Step k + t exchanges row k + t for the pivot row. */
INLINE void panel_exchange(panel_stack *s, intptr_t k, const int t, const panel_candidate *pivot) {
    lane_store_int(s->swap[k + t], lane_add(pivot->row, lane_set((T)k)));
    UNROLLED(int l = 0; l < LANES; l++) {
        int32_t *const here = &s->at[k + t][l], *const there = &s->at[s->swap[k + t][l]][l], at = *here;
        *here = *there;
        *there = at;
    }
}
/* Row i of the panel after that: `old` is what row k + t was. */
INLINE void panel_exchange_row(vec *y, vec i, const panel_candidate *pivot, const vec *old) {
    const mask exchanged = lane_equal(i, pivot->row);
    UNROLLED(int j = 0; j < PANEL; j++) y[j] = lane_select(exchanged, old[j], y[j]);
}

/* Columns of a row of w, those of the vector x that are `mine`. */
INLINE void panel_store(T *w, vec x, mask mine) {
#if defined(SMM_KERNELS_AVX512)
    lane_store_masked(w, x, mine);
#else
    lane_store(w, PANEL_APART ? x : lane_select(mine, x, lane_load(w)));
#endif
}
