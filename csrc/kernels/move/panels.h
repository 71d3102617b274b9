/* panels.h: LANES matrices that are factored side by side in the lanes, but only panels of their columns: there a step
 * is short. What a panel does to the columns beside it is a product, of each matrix by itself, with columns in the
 * lanes (Golub and Van Loan, Matrix Computations, section 3.4.7). Rows never move there: at[] says which of them the
 * exchanges have brought where. */

enum {
    PANEL = 4, /* columns */
    /* vectors of other columns that are updated together */
    PANEL_WIDE = VECTOR_REGISTERS / 8 >= PARTS ? VECTOR_REGISTERS / 8 / PARTS : 1,
    PANEL_WIDTH = PARTS * PANEL,                                                /* elements of a row of a panel */
    PANEL_UNIT = (int)LANES < (int)PANEL_WIDTH ? (int)PANEL_WIDTH : (int)LANES, /* rows are whole panels and vectors */
    PANEL_APART = (int)LANES <= (int)PANEL_WIDTH,                               /* panels end where vectors do */
    PANEL_MAX = PARTS * SMM_MAX_ORDER + 2 * PANEL_UNIT /* elements of a row of no more columns */
};

/* Other kernels of LU have no rectangular matrices. */
INLINE bool lu_is_square(const smm_call *call) { return call->op != SMM_OP_LU || call->m == call->n; }

/* LANES matrices under way. It begins its thread's workspace, and what is for each of their rows follows. */
typedef struct panel_stack {
    T *w;                               /* the rows */
    intptr_t m, n, pitch, size;         /* of a matrix in w: m x n, elements from row to row and to the next one */
    elem *x;                            /* the panel, by rows */
    vec *was;                           /* which row of A is row i now */
    int32_t (*at)[LANES];               /* and where in w that row begins */
    elem b[SMM_MAX_ORDER * PANEL];      /* right-hand sides, by rows */
    divisor d[SMM_MAX_ORDER];           /* the pivots */
    elem r[SMM_MAX_ORDER];              /* and their reciprocals */
    vec info;                           /* the first step, from 1, whose pivot is useless */
    mask odd, singular;                 /* an odd number of exchanges; that pivot is zero */
    T lane[LANES];                      /* the matrix in each lane: the last one fills those that are left */
    vec row[PANEL];                     /* with which row of the panel each of its steps exchanges its own */
    int32_t swap[SMM_MAX_ORDER][LANES]; /* step k exchanges rows k and swap[k] */
} panel_stack;

/* Elements from row to row for so many columns; of an odd number of units, so that columns do not crowd L1. */
INLINE intptr_t panel_pitch(intptr_t cols) { return (PARTS * cols + PANEL_UNIT - 1) / PANEL_UNIT * PANEL_UNIT; }
INLINE intptr_t panel_odd_pitch(intptr_t cols) { return (panel_pitch(cols) / PANEL_UNIT | 1) * PANEL_UNIT; }

/* Bytes that follow the stack of matrices of order SMM_MAX_ORDER, at most. */
enum {
    PANEL_WORKSPACE = SMM_MAX_ORDER * (PANEL * sizeof(elem) + sizeof(vec) + LANES * sizeof(int32_t)) +
    LANES * (SMM_MAX_ORDER * PANEL_MAX + PANEL_UNIT) * sizeof(T)
};

/* Bytes of the panel, was[] and at[] for so many rows, and elements of the rows themselves. */
INLINE intptr_t panel_bytes(intptr_t m) {
    const intptr_t lines = (m * LANES * (intptr_t)sizeof(int32_t) + SMM_LINE - 1) / SMM_LINE;
    return m * (PANEL * (intptr_t)sizeof(elem) + (intptr_t)sizeof(vec)) + lines * SMM_LINE;
}
INLINE intptr_t panel_size(intptr_t m, intptr_t pitch) { return m * pitch + PANEL_UNIT; }

/* m x n matrices, with `memory` for what follows the stack. */
INLINE void panel_stack_in(panel_stack *s, void *memory, intptr_t m, intptr_t n, intptr_t pitch) {
    s->x = memory;
    s->was = (vec *)(s->x + m * PANEL);
    s->at = (void *)(s->was + m);
    s->w = (T *)((char *)memory + panel_bytes(m));
    s->m = m;
    s->n = n;
    s->pitch = pitch;
    s->size = panel_size(m, pitch);
}

/* `rows` rows of `width` elements, in so many vectors, the last of which need not be whole. */
INLINE void panel_copy_rows(T *w, intptr_t pitch, const T *a, intptr_t row, intptr_t rows, intptr_t width,
                            const intptr_t vectors) {
    const intptr_t last = (vectors - 1) * LANES;
    ROLLED(intptr_t i = 0; i < rows; i++, a += row, w += pitch) {
        for (intptr_t v = 0; v < vectors - 1; v++) lane_store(w + v * LANES, lane_load(a + v * LANES));
        lane_store(w + last, lane_load_part(a + last, width - last));
    }
}

/* A matrix into w. */
INLINE void panel_load_matrix(T *w, intptr_t pitch, const T *a, strides s, intptr_t m, intptr_t n) {
    const bool column_major = PARTS == 1 && s.row == 1 && s.col != 1;
    const intptr_t width = PARTS * n, vectors = (width + LANES - 1) / LANES;
    if (s.col == PARTS) {
        switch (vectors) {
        case 1: panel_copy_rows(w, pitch, a, s.row, m, width, 1); break;
        case 2: panel_copy_rows(w, pitch, a, s.row, m, width, 2); break;
        case 3: panel_copy_rows(w, pitch, a, s.row, m, width, 3); break;
        case 4: panel_copy_rows(w, pitch, a, s.row, m, width, 4); break;
        default: panel_copy_rows(w, pitch, a, s.row, m, width, vectors);
        }
        return;
    }
    for (intptr_t i = 0; i < m; i += column_major ? BLOCK : 1)
        if (column_major)
            for (intptr_t j = 0; j < n; j += BLOCK)
                transpose_block(w + i * pitch + j, pitch, a + j * s.col + i, s.col, min_of(BLOCK, m - i), n - j, BLOCK);
        else
            gather_row(w + i * pitch, a + i * s.row, s.col, n);
}

/* Where rows begin in an array of so many elements from row to row and from matrix to matrix. */
INLINE void panel_find_rows(const panel_stack *s, int32_t (*at)[LANES], intptr_t first, intptr_t pitch, intptr_t size) {
    const vec lane = lane_mul(lane_load(s->lane), lane_set((T)size));
    for (intptr_t i = first; i < s->m; i++) lane_store_int(at[i], lane_fma(s->was[i], lane_set((T)pitch), lane));
}

/* Begin with `count` matrices, all rows in their places. */
INLINE void panel_start(panel_stack *s, intptr_t count) {
    s->info = lane_set(0);
    s->odd = s->singular = lane_mask(0);
    UNROLLED(int l = 0; l < LANES; l++) s->lane[l] = (T)min_of(l, count - 1);
    for (intptr_t i = 0; i < s->m; i++) s->was[i] = lane_set((T)i);
    panel_find_rows(s, s->at, 0, s->pitch, s->size);
}

/* Matrices q .. q+count-1 of A. */
INLINE void panel_load(panel_stack *s, const smm_operand *from, intptr_t q, intptr_t count) {
    const strides a = strides_of(from);
    for (intptr_t l = 0; l < count; l++)
        panel_load_matrix(s->w + l * s->size, s->pitch, (const T *)from->data + (q + l) * a.batch, a, s->m, s->n);
    panel_start(s, count);
}

/* Row i of the panel that begins at column k, and back. */
INLINE void panel_load_row_at(elem y[PANEL], const T *w, const int32_t *at) {
    UNROLLED(int j = 0; j < PANEL_WIDTH; j += 4) lane_load_rows((vec *)y + j, w + j, at);
}
INLINE void panel_load_row(elem y[PANEL], const panel_stack *s, intptr_t k, intptr_t i) {
    panel_load_row_at(y, s->w + PARTS * k, s->at[i]);
}
INLINE void panel_store_row(const panel_stack *s, intptr_t k, intptr_t i, const elem y[PANEL]) {
    UNROLLED(int j = 0; j < PANEL_WIDTH; j += 4) lane_store_rows(s->w + PARTS * k + j, s->at[i], (const vec *)y + j);
}

/* The pivot row of a step, as far as rows have been looked at: its elements, the magnitude of that in the step's
 * column, and its number in the panel. */
typedef struct panel_candidate {
    elem y[PANEL];
    vec size, row;
} panel_candidate;

INLINE panel_candidate panel_first_row(const elem *y, const int t) {
    panel_candidate c = {.size = elem_size(y[t]), .row = lane_set((T)t)};
    UNROLLED(int j = 0; j < PANEL; j++) c.y[j] = y[j];
    return c;
}
/* Row i, too: of equals the first remains, and a NaN there. Where it is now row i. */
INLINE mask panel_consider(panel_candidate *c, const elem *y, const int t, vec i) {
    const vec size = elem_size(y[t]);
    const mask larger = lane_greater(size, c->size);
    UNROLLED(int j = 0; j < PANEL; j++) c->y[j] = elem_select(larger, y[j], c->y[j]);
    c->size = lane_max(size, c->size);
    c->row = lane_select(larger, i, c->row);
    return larger;
}

/* Row x of the panel, from w + at[], less what the panel before it, whose L is in x, does to it by its rows of U. */
INLINE void panel_take_row(elem x[PANEL], const T *w, const int32_t *at, const elem (*u)[PANEL]) {
    elem y[PANEL];
    panel_load_row_at(y, w, at);
    UNROLLED(int t = 0; t < PANEL && u; t++)
        UNROLLED(int j = 0; j < PANEL; j++) y[j] = elem_fnma(x[t], u[t][j], y[j]);
    UNROLLED(int j = 0; j < PANEL; j++) x[j] = y[j];
}

/* The panel from row k on, of rows that begin at w + at[], and the pivot row of its first step; `beside` becomes that
 * of so many right-hand sides. u: rows of U of the panel before, if that has done nothing to this one yet. */
INLINE panel_candidate panel_begin(panel_stack *s, const T *w, int32_t (*at)[LANES], intptr_t k, const elem (*u)[PANEL],
                                   elem *beside, const int nrhs) {
    vec i = lane_set(0);
    elem *const x = s->x + k * PANEL, *const b = s->b + k * nrhs;
    panel_take_row(x, w + PARTS * k, at[k], u);
    panel_candidate pivot = panel_first_row(x, 0);
    UNROLLED(int e = 0; e < nrhs; e++) beside[e] = b[e];
    ROLLED(intptr_t row = 1; row < s->m - k; row++) {
        elem *const y = x + row * PANEL;
        panel_take_row(y, w + PARTS * k, at[k + row], u);
        i = lane_add(i, lane_set(1));
        const mask larger = panel_consider(&pivot, y, 0, i);
        UNROLLED(int e = 0; e < nrhs; e++) beside[e] = elem_select(larger, b[row * nrhs + e], beside[e]);
    }
    return pivot;
}

/* Step k + t exchanges row k + t for the pivot row. */
INLINE void panel_exchange(panel_stack *s, intptr_t k, const int t, const panel_candidate *pivot) {
    s->row[t] = pivot->row;
    lane_store_int(s->swap[k + t], lane_add(pivot->row, lane_set((T)k)));
}
/* Where rows are after steps k .. k+steps-1. Rows take their turns with all steps: a step's own row is exchanged with
 * those above by earlier steps alone. */
INLINE void panel_settle(panel_stack *s, intptr_t k, intptr_t steps) {
    vec *const was = s->was + k, top[PANEL], i = lane_set(0);
    const intptr_t rows = s->m - k;
    UNROLLED(int t = 0; t < PANEL; t++) {
        if (t >= rows) break;
        top[t] = was[t];
        UNROLLED(int e = 0; e < t; e++)
            if (e < steps) lane_exchange(lane_equal(i, s->row[e]), &top[e], &top[t]);
        i = lane_add(i, lane_set(1));
    }
    ROLLED(intptr_t row = PANEL; row < rows; row++) {
        vec here = was[row];
        UNROLLED(int t = 0; t < PANEL; t++) {
            if (t >= steps) break;
            lane_exchange(lane_equal(i, s->row[t]), &top[t], &here);
        }
        was[row] = here;
        i = lane_add(i, lane_set(1));
    }
    UNROLLED(int t = 0; t < PANEL; t++) {
        if (t >= rows) break;
        was[t] = top[t];
    }
    panel_find_rows(s, s->at, k, s->pitch, s->size);
}
/* Row i of the panel after that: `old` is what row k + t was. */
INLINE void panel_exchange_row(elem *y, vec i, const panel_candidate *pivot, const elem *old) {
    const mask exchanged = lane_equal(i, pivot->row);
    UNROLLED(int j = 0; j < PANEL; j++) y[j] = elem_select(exchanged, old[j], y[j]);
}

/* Elements of a row, those of the vector x that are `mine`. */
INLINE void panel_store(T *w, vec x, mask mine) {
#if defined(SMM_KERNELS_AVX512)
    lane_store_masked(w, x, mine);
#else
    lane_store(w, PANEL_APART ? x : lane_select(mine, x, lane_load(w)));
#endif
}
