/* cholesky_lanes.h: the Cholesky factorization, LANES matrices side by side: one text over the numbers of
 * elements_real.h and those of elements_complex.h. Small constant orders have the whole matrix in registers. Others are
 * done in square tiles, row of tiles after row of tiles (left-looking): a tile sums in registers all that is subtracted
 * from it, and while one waits for its square roots and reciprocals the next begins. Of the diagonal only the real part
 * is read, and that of L is real. */

enum { TILE = VECTOR_REGISTERS >= 32 ? 5 - PARTS : 4 - PARTS };

/* A lower triangle of real numbers is in panels of TILE rows, column after column: element (i, j) of panel p, i counted
 * from its first row, is at panel_of(p)[j * TILE + i], for j up to the panel's last row. Of complex numbers it is part
 * of the matrix, row after row, or from the last element of that back. */
enum {
    PANELS = (SMM_MAX_ORDER + TILE - 1) / TILE,
    PANELS_SIZE = PARTS == 1 ? TILE * TILE * PANELS * (PANELS + 1) / 2 : MATRIX_ELEMENTS
};
typedef struct triangle {
    elem *l;
    intptr_t down, across; /* from element to element, of complex numbers */
} triangle;

INLINE elem *panel_of(const elem *l, uintptr_t p) { return (elem *)l + TILE * TILE * (p * (p + 1) / 2); }
INLINE elem *panel_element(const elem *l, intptr_t i, intptr_t j) {
    const uintptr_t row = (uintptr_t)i; /* what is divided without a look at its sign */
    return panel_of(l, row / TILE) + j * TILE + row % TILE;
}

INLINE intptr_t down(triangle t) { return PARTS == 1 ? 1 : t.down; }
INLINE intptr_t across(triangle t) { return PARTS == 1 ? TILE : t.across; }
/* The first element of row i, with which a tile begins; and any element. */
INLINE elem *tile_row(triangle t, intptr_t i) {
    return PARTS == 1 ? panel_of(t.l, (uintptr_t)i / TILE) : t.l + i * t.down;
}
INLINE elem *triangle_at(triangle t, intptr_t i, intptr_t j) {
    return PARTS == 1 ? panel_element(t.l, i, j) : t.l + i * t.down + j * t.across;
}

/* c_ij = c_ij - sum a_ik conj(b_jk), k < depth, of rows a and b of tiles. */
INLINE void tile_subtract(elem c[TILE][TILE], triangle t, const elem *a, const elem *b, intptr_t depth, const int rows,
                          const int cols, const bool lower) {
    const intptr_t i_step = down(t), k_step = across(t);
    ROLLED(intptr_t k = 0; k < depth; k++) {
        elem y[TILE];
        UNROLLED(int j = 0; j < cols; j++) y[j] = b[k * k_step + j * i_step];
        UNROLLED(int i = 0; i < rows; i++) {
            const elem x = lower ? y[i] : a[k * k_step + i * i_step];
            UNROLLED(int j = 0; j < cols; j++)
                if (!lower || j <= i) c[i][j] = elem_fnma(x, elem_conj(y[j]), c[i][j]);
        }
    }
}

/* l_jj = sqrt(a_jj), r = 1 / l_jj. info becomes j + 1 where a_jj is not positive. */
INLINE vec cholesky_pivot(elem *a_jj, vec *info, intptr_t j) {
    const vec square = elem_re(*a_jj);
    const mask bad = ~lane_greater(square, lane_set(0));
    if (__builtin_expect(lane_any(bad), 0))
        *info = lane_select(bad & lane_equal(*info, lane_set(0)), lane_set((T)(j + 1)), *info);
    const vec pivot = lane_sqrt(square);
    *a_jj = elem_of(pivot);
    return lane_div(lane_set(1), pivot);
}

/* Rows i0 .. i0+rows-1, the rows above them done. r: the reciprocals of the diagonal. */
INLINE void cholesky_rows(triangle t, vec *r, vec *info, intptr_t i0, const int rows) {
    const intptr_t i_step = down(t), j_step = across(t);
    elem c[TILE][TILE], *a = tile_row(t, i0);
    ROLLED(intptr_t j0 = 0; j0 < i0; j0 += TILE) {
        const elem *b = tile_row(t, j0);
        UNROLLED(int i = 0; i < rows; i++)
            UNROLLED(int j = 0; j < TILE; j++) c[i][j] = a[(j0 + j) * j_step + i * i_step];
        tile_subtract(c, t, a, b, j0, rows, TILE, false);
        UNROLLED(int j = 0; j < TILE; j++)
            UNROLLED(int i = 0; i < rows; i++) {
                c[i][j] = elem_scale(c[i][j], r[j0 + j]);
                a[(j0 + j) * j_step + i * i_step] = c[i][j];
                UNROLLED(int k = j + 1; k < TILE; k++)
                    c[i][k] = elem_fnma(c[i][j], elem_conj(b[(j0 + j) * j_step + k * i_step]), c[i][k]);
            }
    }
    UNROLLED(int i = 0; i < rows; i++)
        UNROLLED(int j = 0; j <= i; j++) c[i][j] = a[(i0 + j) * j_step + i * i_step];
    tile_subtract(c, t, a, a, i0, rows, rows, true);
    UNROLLED(int j = 0; j < rows; j++) {
        r[i0 + j] = cholesky_pivot(&c[j][j], info, i0 + j);
        a[(i0 + j) * j_step + j * i_step] = c[j][j];
        UNROLLED(int i = j + 1; i < rows; i++) {
            a[(i0 + j) * j_step + i * i_step] = c[i][j] = elem_scale(c[i][j], r[i0 + j]);
            UNROLLED(int k = j + 1; k <= i; k++) c[i][k] = elem_fnma(c[i][j], elem_conj(c[k][j]), c[i][k]);
        }
    }
}

INLINE void cholesky_panel(triangle t, vec *r, vec *info, intptr_t i0, intptr_t rows) {
    switch (rows) {
    case 1: cholesky_rows(t, r, info, i0, 1); break;
    case 2: cholesky_rows(t, r, info, i0, TILE < 2 ? TILE : 2); break;
    case 3: cholesky_rows(t, r, info, i0, TILE < 3 ? TILE : 3); break;
    default: cholesky_rows(t, r, info, i0, TILE);
    }
}

#if defined(REAL_DTYPE)
/* Rows of triangles: with the first of them all of the matrices, as they are. */
INLINE void triangle_load(elem *l, const smm_operand *from, intptr_t q, intptr_t n, bool reversed, intptr_t first,
                          intptr_t last, intptr_t count) {
    (void)reversed, (void)last;
    if (!first) KERNEL(elem_load)(l, from, q, n, n, count);
}

/* Rows of L: all of them with the last. */
INLINE void cholesky_store(const smm_operand *to, intptr_t q, elem *l, intptr_t n, intptr_t first, intptr_t last,
                           intptr_t count) {
    (void)first;
    if (last < n) return;
    for (intptr_t i = 0; i < n; i++)
        for (intptr_t j = i + 1; j < n; j++) l[i * n + j] = elem_set(0);
    KERNEL(elem_store)(to, q, l, n, n, count);
}
#else
/* Rows first .. last-1 of lower triangles, or of upper ones that are `reversed`; what lies by columns, with the first.
 */
INLINE void triangle_load(elem *l, const smm_operand *from, intptr_t q, intptr_t n, bool reversed, intptr_t first,
                          intptr_t last, intptr_t count) {
    const strides s = strides_of(from);
    if (s.row != 1 || s.col == 1)
        triangle_load_rows(l, panel_element, TILE, from, q, n, reversed, first, last, count);
    else if (!first)
        triangle_load_columns(l, panel_element, from, q, n, reversed, count);
}

/* Row i of C of LANES matrices, l_i0 .. l_ii, zeros: a vector at a time, the last of which may overlap the one before.
 * Nothing is transposed for zeros alone. */
INLINE void cholesky_store_vectors(T *to, intptr_t batch, const vec *row, intptr_t i, intptr_t n) {
    for (intptr_t end = LANES; end < n + LANES; end += LANES) {
        const intptr_t j = min_of(end, n) - LANES;
        if (j + LANES <= i + 1) {
            lanes_store_vector(to + j, batch, row + j * TILE, TILE);
        } else if (j > i) {
            UNROLLED(intptr_t l = 0; l < LANES; l++) lane_store(to + l * batch + j, lane_set(0));
        } else {
            vec x[LANES];
            UNROLLED(int e = 0; e < LANES; e++) x[e] = j + e <= i ? row[(j + e) * TILE] : lane_set(0);
            lanes_store_vector(to + j, batch, x, 1);
        }
    }
}

/* The same of so many matrices, any strides. */
INLINE void cholesky_store_row(const smm_operand *to, intptr_t q, const vec *l, intptr_t i, intptr_t n,
                               intptr_t count) {
    const vec *row = panel_element(l, i, 0);
    vec x[SMM_MAX_ORDER];
    smm_operand c = *to;
    c.data = (char *)c.data + i * c.row;
    const strides s = strides_of(&c);
    if (s.col == 1 && n >= LANES && count == LANES) {
        cholesky_store_vectors((T *)c.data + q * s.batch, s.batch, row, i, n);
        return;
    }
    UNROLLED_BY_4(intptr_t j = 0; j <= i; j++) x[j] = row[j * TILE];
    UNROLLED_BY_4(intptr_t j = i + 1; j < n; j++) x[j] = lane_set(0);
    if (s.col == 1)
        KERNEL(lanes_store_run)((T *)c.data + q * s.batch, s.batch, x, 1, n, count);
    else
        lanes_store(&c, q, x, 1, n, count);
}

/* The same of all rows of L of LANES dense matrices, from the vector in which row `first` begins to that in which row
 * `last` does, without regard to where rows end. */
SHARED void KERNEL(cholesky_store_dense)(T *to, intptr_t batch, const vec *l, intptr_t n, intptr_t first,
                                         intptr_t last) {
    const intptr_t size = n * n, end = last < n ? last * n / LANES * LANES : size;
    const vec zero = lane_set(0);
    for (intptr_t e = first * n / LANES * LANES; e < end; e += LANES) {
        const uint32_t at = (uint32_t)min_of(e, size - LANES);
        const intptr_t i = at / (uint32_t)n, j = at % (uint32_t)n;
        const vec *const row = panel_element(l, i, 0), *const next = panel_element(l, i + 1, 0);
        vec x[LANES];
        UNROLLED(int k = 0; k < LANES; k++) {
            const intptr_t here = j + k, there = here - n;
            x[k] = *(here <= i ? row + here * TILE : there >= 0 && there <= i + 1 ? next + there * TILE : &zero);
        }
        lanes_store_vector(to + at, batch, x, 1);
    }
}

/* Matrices so many bytes apart, or a multiple of it, begin in the same set of L1, which lines of more lanes would leave
 * before they are written: then rows, or columns, pass through a buffer, and one matrix after the other is written
 * (orders 32 and 64 of float32 take 0.6 to 0.85 of the time; AMD EPYC family 26 model 2, AVX-512, November 2026). */
enum { CROWDED_BATCH = 4096, CROWDED_LANES = 8 };
INLINE bool cholesky_is_crowded(intptr_t batch, intptr_t n) {
    return (int)LANES > (int)CROWDED_LANES && batch % (CROWDED_BATCH / (intptr_t)sizeof(T)) == 0 && n % LANES == 0;
}
INLINE intptr_t cholesky_buffer_pitch(intptr_t n) { return TILE * n + LANES; }
INLINE void cholesky_store_buffer(T *to, intptr_t batch, const T *buffer, intptr_t n, intptr_t first, intptr_t last) {
    for (intptr_t k = 0; k < LANES; k++)
        for (intptr_t e = 0; e < (last - first) * n; e += LANES)
            lane_store(to + k * batch + first * n + e, lane_load(buffer + k * cholesky_buffer_pitch(n) + e));
}
SHARED void KERNEL(cholesky_store_crowded)(T *to, intptr_t batch, elem *l, intptr_t n, intptr_t first, intptr_t last) {
    T *const rows = (T *)(l + PANELS_SIZE);
    for (intptr_t i = first; i < last; i++)
        cholesky_store_vectors(rows + (i - first) * n, cholesky_buffer_pitch(n), panel_element(l, i, 0), i, n);
    cholesky_store_buffer(to, batch, rows, n, first, last);
}

/* All columns of C, whose elements lie one after the other: zeros, l_jj, .. l_nj. */
SHARED void KERNEL(cholesky_store_columns)(const smm_operand *to, intptr_t q, elem *l, intptr_t n, intptr_t count) {
    const strides s = strides_of(to);
    const bool crowded = s.col == n && count == LANES && cholesky_is_crowded(s.batch, n);
    T *const c = (T *)to->data + q * s.batch, *const columns = (T *)(l + PANELS_SIZE);
    vec x[SMM_MAX_ORDER];
    for (intptr_t j = 0; j < n; j++) {
        if (j) x[j - 1] = lane_set(0);
        for (intptr_t i = j; i < n; i++) x[i] = *panel_element(l, i, j);
        if (crowded)
            KERNEL(lanes_store_run)(columns + j % TILE * n, cholesky_buffer_pitch(n), x, 1, n, LANES);
        else
            KERNEL(lanes_store_run)(c + j * s.col, s.batch, x, 1, n, count);
        if (crowded && (j % TILE == TILE - 1 || j + 1 == n))
            cholesky_store_buffer(c, s.batch, columns, n, j / TILE * TILE, j + 1);
    }
}

INLINE void cholesky_store(const smm_operand *to, intptr_t q, elem *l, intptr_t n, intptr_t first, intptr_t last,
                           intptr_t count) {
    const strides s = strides_of(to);
    if (s.row == 1 && s.col != 1) {
        if (last == n) KERNEL(cholesky_store_columns)(to, q, l, n, count);
        return;
    }
    const bool dense = s.col == 1 && s.row == n && count == LANES;
    T *const c = (T *)to->data + q * s.batch;
    if (dense && n > LANES && 2 * n <= 3 * LANES) /* ends of rows would take half of all vectors */
        KERNEL(cholesky_store_dense)(c, s.batch, l, n, first, last);
    else if (dense && cholesky_is_crowded(s.batch, n))
        KERNEL(cholesky_store_crowded)(c, s.batch, l, n, first, last);
    else
        for (intptr_t i = first; i < last; i++) cholesky_store_row(to, q, l, i, n, count);
}
#endif

static void KERNEL(cholesky_lanes)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) {
    const intptr_t n = call->n;
    enum { ROWS = LANES * (TILE * SMM_MAX_ORDER + LANES) * sizeof(T) };
    _Static_assert(PANELS_SIZE * sizeof(elem) + ROWS <= SMM_KERNEL_WORKSPACE, "workspace of cholesky_lanes");
    elem *const l = smm_kernel_workspace();
    const triangle t = {l, n, 1};
    for (intptr_t q = first; q < last; q += LANES) {
        const intptr_t count = min_of(LANES, last - q);
        const T *next = ahead_of(&call->cholesky.a, q, PARTS * LANES * n * n);
        vec r[SMM_MAX_ORDER], info = lane_set(0);
        for (intptr_t i = 0; i < n; i += TILE) {
            const intptr_t rows = min_of(TILE, n - i);
            triangle_load(l, &call->cholesky.a, q, n, false, i, i + rows, count);
            cholesky_panel(t, r, &info, i, rows);
            if (cold) prefetch(next + PARTS * i * LANES * n, PARTS * rows * LANES * n);
            cholesky_store(&call->cholesky.l, q, l, n, i, i + rows, count);
        }
        lanes_store_int(&call->cholesky.info, q, info, count);
        KERNEL(elem_fill_nan)(&call->cholesky.l, q, info, n, n, count);
    }
}

/* The same for a small constant order, the whole matrix in registers: an array of n n would be one of variable size,
 * and so in memory. */
enum { CHOLESKY_WORKSPACE = 16 * 16 };
INLINE void cholesky_lanes(const smm_call *call, intptr_t first, intptr_t last, bool cold, const int n) {
    for (intptr_t q = first; q < last; q += LANES) {
        const intptr_t count = min_of(LANES, last - q);
        const T *next = ahead_of(&call->cholesky.a, q, PARTS * LANES * n * n);
        elem a[CHOLESKY_WORKSPACE];
        vec info = lane_set(0);
        KERNEL(elem_load)(a, &call->cholesky.a, q, n, n, count);
        UNROLLED(int j = 0; j < n; j++) {
            if (j % 4 == 0 && cold) /* not at each of these short steps */
                prefetch(next + PARTS * j * LANES * n, PARTS * min_of(4, n - j) * LANES * n);
            const vec r = cholesky_pivot(&a[j * n + j], &info, j);
            UNROLLED(int i = j + 1; i < n; i++) {
                a[i * n + j] = elem_scale(a[i * n + j], r);
                a[j * n + i] = elem_set(0);
                UNROLLED(int k = j + 1; k <= i; k++)
                    a[i * n + k] = elem_fnma(a[i * n + j], elem_conj(a[k * n + j]), a[i * n + k]);
            }
        }
        KERNEL(elem_store)(&call->cholesky.l, q, a, n, n, count);
        lanes_store_int(&call->cholesky.info, q, info, count);
        KERNEL(elem_fill_nan)(&call->cholesky.l, q, info, n, n, count);
    }
}
