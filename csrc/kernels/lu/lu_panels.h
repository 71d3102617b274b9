/* lu_panels.h: LU of m x n matrices, solves and determinants by panels of columns (lu_panel.h), and inverses of complex
 * matrices: A becomes L \ U. Few right-hand sides are solved for in the lanes, more of them matrix by matrix, with
 * their columns in the lanes. */

/* --- the columns beside a panel, and right-hand sides matrix by matrix --- */

/* Rows of the matrix in a lane: row i begins at w + at[i * step]. */
typedef struct lu_rows {
    T *w;
    const int32_t *at;
    intptr_t step;
} lu_rows;
INLINE T *lu_row(lu_rows x, intptr_t i) { return x.w + x.at[i * x.step]; }

/* `wide` vectors of a row, the last of so many elements. */
INLINE void lu_load_vectors(vec *y, const T *x, const int wide, intptr_t tail) {
    UNROLLED(int v = 0; v < wide; v++)
        y[v] = tail < LANES && v == wide - 1 ? lane_load_part(x + v * LANES, tail) : lane_load(x + v * LANES);
}

/* y, vectors of a row, less the number at l times those of which u has the factors. */
INLINE void lu_less_row(vec *y, const T *l, vec u[PANEL_WIDE][PARTS], const int wide) {
    UNROLLED(int part = 0; part < PARTS; part++) {
        const vec factor = lane_set(l[part]);
        UNROLLED(int v = 0; v < wide; v++) y[v] = lane_fnma(factor, u[v][part], y[v]);
    }
}

/* What steps k .. k+steps-1 of the factors in the rows of `from` do to `wide` vectors of rows `to`, from element j on,
 * of the first vector only to the elements that are `mine`: those of L to the rows below; or upwards, from the last
 * step on, those of U, in whose rows d and r are the pivots of this lane, to the rows above. The vectors come from rows
 * `before`, the last with so many elements. */
INLINE void lu_product(const panel_stack *s, lu_rows from, lu_rows before, lu_rows to, intptr_t k, const int steps,
                       intptr_t j, const int wide, intptr_t tail, mask mine, const bool upwards, const divisor *d,
                       const elem *r) {
    vec u[2 * PANEL][PANEL_WIDE][PARTS], y[PANEL_WIDE];
    const bool apart = (int)LANES <= PARTS * (steps > PANEL ? steps : PANEL); /* panels end where vectors do */
    UNROLLED(int e = 0; e < steps; e++) {
        const int i = upwards ? steps - 1 - e : e;
        const T *const l = lu_row(from, k + i) + PARTS * k;
        T *const x = lu_row(to, k + i) + j;
        lu_load_vectors(y, lu_row(before, k + i) + j, wide, tail);
        UNROLLED(int f = 0; f < e; f++) lu_less_row(y, l + PARTS * (upwards ? steps - 1 - f : f), u[f], wide);
        UNROLLED(int v = 0; v < wide; v++) {
            if (upwards) y[v] = row_quotient(y[v], &d[i], r[i]);
            row_factors(u[e][v], y[v]);
            lane_store(x + v * LANES, apart || v ? y[v] : lane_select(mine, y[v], lane_load(x)));
        }
    }
    const intptr_t last = upwards ? k : s->m;
    ROLLED(intptr_t i = upwards ? 0 : k + steps; i < last; i++) {
        const T *const l = lu_row(from, i) + PARTS * k;
        T *const x = lu_row(to, i) + j;
        lu_load_vectors(y, lu_row(before, i) + j, wide, tail);
        UNROLLED(int f = 0; f < steps; f++) lu_less_row(y, l + PARTS * (upwards ? steps - 1 - f : f), u[f], wide);
        UNROLLED(int v = 0; v < wide; v++)
            lane_store(x + v * LANES, apart || v ? y[v] : lane_select(mine, y[v], lane_load(x)));
    }
}

/* The same to elements first .. last-1, of rows that are padded, or `dense`. */
INLINE void lu_products(const panel_stack *s, lu_rows from, lu_rows before, lu_rows to, intptr_t k, const int steps,
                        intptr_t first, intptr_t last, const bool dense, const bool upwards, const divisor *d,
                        const elem *r) {
    const int wide = steps > PANEL && PANEL_WIDE > 1 ? PANEL_WIDE * 3 / 4 : PANEL_WIDE;
    intptr_t j = first < last ? first / LANES * LANES : last;
    mask mine = lane_mask(~(uint32_t)0 << (first - j));
    while (j < last) {
        const intptr_t vectors = min_of((last - j + LANES - 1) / LANES, wide);
        const intptr_t tail = dense ? min_of(last - j - (vectors - 1) * LANES, LANES) : LANES;
        if (vectors == 1)
            lu_product(s, from, before, to, k, steps, j, 1, tail, mine, upwards, d, r);
        else if (vectors == 2 && wide > 2)
            lu_product(s, from, before, to, k, steps, j, 2, tail, mine, upwards, d, r);
        else if (vectors == 3 && wide > 3)
            lu_product(s, from, before, to, k, steps, j, 3, tail, mine, upwards, d, r);
        else
            lu_product(s, from, before, to, k, steps, j, wide, tail, mine, upwards, d, r);
        mine = lane_mask(~(uint32_t)0);
        j += vectors * LANES;
    }
}

INLINE lu_rows lu_rows_of(const panel_stack *s, intptr_t lane) { return (lu_rows){s->w, &s->at[0][lane], LANES}; }

/* All columns after one panel that begins at column k, or two, step by step where the last one has fewer rows. */
SHARED void KERNEL(lu_update)(const panel_stack *s, intptr_t lane, intptr_t k, intptr_t panels) {
    const lu_rows a = lu_rows_of(s, lane);
    const intptr_t first = PARTS * (k + panels * PANEL), end = PARTS * s->n, steps = lu_steps(s, k);
    if (LU_PAIRS && panels == 2 && steps >= 2 * PANEL)
        lu_products(s, a, a, a, k, 2 * PANEL, first, end, false, false, NULL, NULL);
    else if ((!LU_PAIRS || panels == 1) && steps >= PANEL)
        lu_products(s, a, a, a, k, PANEL, first, end, false, false, NULL, NULL);
    else
        for (intptr_t t = 0; t < steps && first < end; t++)
            lu_products(s, a, a, a, k + t, 1, first, end, false, false, NULL, NULL);
}

/* Whether rows of A may be taken from where they are, and where they begin is known exactly in T. */
INLINE bool lu_is_near(strides a, const panel_stack *s) {
    const intptr_t most = (intptr_t)1 << (sizeof(T) == 4 ? 23 : 30);
    return a.col == PARTS && lu_steps(s, 0) >= PANEL && s->m <= SMM_MAX_ORDER && a.batch >= 0 && a.row >= 0 &&
           a.batch < most / LANES && a.row < most / s->m;
}

/* The first panel, or two, and the columns after it, from A to w. How many columns that were. */
SHARED intptr_t KERNEL(lu_first_panels)(panel_stack *s, lu_panel_fn *panel, T *a, strides from, intptr_t count,
                                        const T *next, intptr_t part) {
    const bool pair = LU_PAIRS && lu_steps(s, 0) >= 2 * PANEL;
    int32_t at[SMM_MAX_ORDER][LANES];
    panel_start(s, count);
    panel_find_rows(s, at, 0, from.row, from.batch);
    panel(s, a, at, 0, pair ? LU_FIRST : LU_SINGLE);
    panel_find_rows(s, at, 0, from.row, from.batch);
    if (pair) {
        panel(s, a, at, PANEL, LU_SECOND);
        panel_find_rows(s, at, PANEL, from.row, from.batch);
    }
    for (intptr_t l = 0; l < count; l++) {
        const lu_rows w = lu_rows_of(s, l), before = {a, &at[0][l], LANES};
        if (next) prefetch(next + PARTS * l * s->m * s->n, (pair ? 2 * PANEL : PANEL) * part);
        if (pair)
            lu_products(s, w, before, w, 0, 2 * PANEL, PARTS * 2 * PANEL, PARTS * s->n, true, false, NULL, NULL);
        else
            lu_products(s, w, before, w, 0, PANEL, PARTS * PANEL, PARTS * s->n, true, false, NULL, NULL);
    }
    return pair ? 2 * PANEL : PANEL;
}

/* Rows of so many elements, right-hand sides of the matrix in a lane, become solutions. */
SHARED void KERNEL(lu_substitute_rows)(const panel_stack *s, intptr_t lane, lu_rows x, intptr_t width) {
    const lu_rows a = lu_rows_of(s, lane);
    const intptr_t whole = s->n / PANEL * PANEL;
    divisor d[PANEL];
    elem r[PANEL];
    for (intptr_t k = 0; k < whole; k += PANEL) lu_products(s, a, x, x, k, PANEL, 0, width, false, false, NULL, NULL);
    for (intptr_t k = whole; k < s->n; k++) lu_products(s, a, x, x, k, 1, 0, width, false, false, NULL, NULL);
    for (intptr_t k = s->n; k > 0;) {
        const int steps = k > whole ? 1 : PANEL;
        k -= steps;
        UNROLLED(int t = 0; t < PANEL; t++) {
            if (t >= steps) break;
            d[t] = divisor_of(elem_spread((const T *)&s->d[k + t].p + lane));
            r[t] = elem_reciprocal(&d[t]);
        }
        if (steps == PANEL)
            lu_products(s, a, x, x, k, PANEL, 0, width, false, true, d, r);
        else
            lu_products(s, a, x, x, k, 1, 0, width, false, true, d, r);
    }
}

/* Right-hand sides of matrix q, in this lane, some columns at a time; those of the identity if b is NULL. */
INLINE void lu_solve_rows(const smm_operand *b, const smm_operand *to, panel_stack *s, intptr_t q, intptr_t lane,
                          intptr_t nrhs) {
    const intptr_t n = s->n, width = min_of(nrhs, SMM_MAX_ORDER), pitch = panel_odd_pitch(width);
    const strides c = strides_of(to), from = b ? strides_of(b) : (strides){0, 0, 0};
    const bool failed = ((const T *)&s->info)[lane] != 0;
    T *const x = s->w + LANES * s->size;
    int32_t at[SMM_MAX_ORDER];
    for (intptr_t i = 0; i < n; i++) at[i] = (int32_t)(i * pitch);
    for (intptr_t j = 0; j < nrhs; j += width) {
        const intptr_t cols = min_of(width, nrhs - j);
        for (intptr_t i = 0; i < n; i++) {
            const intptr_t row = (intptr_t)((const T *)&s->was[i])[lane];
            if (b) {
                gather_row(x + at[i], (const T *)b->data + q * from.batch + row * from.row + j * from.col, from.col,
                           cols);
                continue;
            }
            memset(x + at[i], 0, (size_t)(PARTS * cols) * sizeof(T));
            if (row >= j && row < j + cols) x[at[i] + PARTS * (row - j)] = 1;
        }
        KERNEL(lu_substitute_rows)(s, lane, (lu_rows){x, at, 1}, PARTS * cols);
        for (intptr_t i = 0; i < n; i++) {
            for (intptr_t e = 0; e < PARTS * cols && failed; e++) x[at[i] + e] = (T)NAN;
            scatter_row((T *)to->data + q * c.batch + i * c.row + j * c.col, c.col, x + at[i], cols);
        }
    }
}

/* --- up to PANEL right-hand sides of all matrices, in the lanes --- */

/* x, row i of some columns, less the products of row i of U in columns k .. k+count-1 with rows of x, from the last. */
INLINE void lu_less(const panel_stack *s, intptr_t i, intptr_t k, const intptr_t count, elem *x, const int cols) {
    elem u[PANEL];
    panel_load_row(u, s, k, i);
    for (intptr_t t = count - 1; t >= 0; t--)
        UNROLLED(int j = 0; j < cols; j++) x[i * cols + j] = elem_fnma(u[t], x[(k + t) * cols + j], x[i * cols + j]);
}

/* x = the solution of U x = x. */
INLINE void lu_substitute_panels(const panel_stack *s, elem *x, const int cols) {
    const intptr_t n = s->n, tail = (n - 1) / PANEL * PANEL; /* where the last panel begins */
    for (intptr_t k = tail; k >= 0; k -= PANEL) {
        const intptr_t end = min_of(k + PANEL, n);
        for (intptr_t i = end - 1; i >= k; i--) {
            elem u[PANEL];
            panel_load_row(u, s, k, i);
            for (intptr_t t = end - 1; t > i; t--)
                UNROLLED(int j = 0; j < cols; j++)
                    x[i * cols + j] = elem_fnma(u[t - k], x[t * cols + j], x[i * cols + j]);
            UNROLLED(int j = 0; j < cols; j++) x[i * cols + j] = elem_quotient(x[i * cols + j], &s->d[i], s->r[i]);
        }
        for (intptr_t i = 0; i < k && end - k == PANEL; i++) lu_less(s, i, k, PANEL, x, cols);
        for (intptr_t i = 0; i < k && end - k < PANEL; i++) lu_less(s, i, k, end - k, x, cols);
    }
}

/* X from what the panels have made of B, for matrices q .. q+count-1. */
SHARED void KERNEL(lu_solve_panels)(const smm_call *call, panel_stack *s, intptr_t q, intptr_t count, intptr_t width,
                                    intptr_t nrhs) {
    const intptr_t n = s->n;
    elem *const x = s->b;
    for (intptr_t i = 0; i < n && width < nrhs; i++)
        for (intptr_t e = 0; e < width; e++) x[i * width + e] = x[i * nrhs + e];
    switch (width) {
    case 1: lu_substitute_panels(s, x, 1); break;
    case 2: lu_substitute_panels(s, x, 2); break;
    case 3: lu_substitute_panels(s, x, 3); break;
    default: lu_substitute_panels(s, x, PANEL);
    }
    KERNEL(elem_store)(&call->solve.x, q, x, n, width, count);
    KERNEL(elem_fill_nan)(&call->solve.x, q, s->info, n, width, count);
}

/* --- results --- */

/* Rows of L and U, of `width` elements in so many vectors, of which the last may overlap the one before. */
INLINE void lu_store_rows(T *to, intptr_t row, const panel_stack *s, intptr_t lane, intptr_t width,
                          const intptr_t vectors) {
    ROLLED(intptr_t i = 0; i < s->m; i++, to += row) {
        const T *const x = s->w + s->at[i][lane];
        for (intptr_t v = 0; v < vectors - 1; v++) lane_store(to + v * LANES, lane_load(x + v * LANES));
        if (vectors == 1)
            lane_store_part(to, lane_load(x), width);
        else
            lane_store(to + width - LANES, lane_load(x + width - LANES));
    }
}

/* L and U of real numbers, whose columns have no gaps. */
INLINE void lu_store_block(T *to, intptr_t col, const panel_stack *s, intptr_t lane, intptr_t i, intptr_t j,
                           intptr_t height, intptr_t width) {
    block_row x[BLOCK];
    UNROLLED(int l = 0; l < BLOCK; l++)
        x[l] = block_load(s->w + s->at[i + (l < height ? l : 0)][lane] + j, BLOCK); /* rows in w are padded */
    block_transpose(x);
    UNROLLED(int l = 0; l < BLOCK; l++)
        if (l < width) block_store(to + (j + l) * col + i, x[l], height);
}
SHARED void KERNEL(lu_store_columns)(T *to, intptr_t col, const panel_stack *s, intptr_t lane) {
    for (intptr_t i = 0; i < s->m; i += BLOCK)
        for (intptr_t j = 0; j < s->n; j += BLOCK) {
            const intptr_t height = min_of(BLOCK, s->m - i), width = min_of(BLOCK, s->n - j);
            if (height == BLOCK && width == BLOCK)
                lu_store_block(to, col, s, lane, i, j, BLOCK, BLOCK);
            else
                lu_store_block(to, col, s, lane, i, j, height, width);
        }
}

/* L and U and the pivots. */
INLINE void lu_store(const smm_call *call, intptr_t q, const panel_stack *s, intptr_t lane) {
    const strides c = strides_of(&call->lu.lu);
    const intptr_t m = s->m, n = s->n, steps = lu_steps(s, 0), width = PARTS * n;
    const intptr_t end = (intptr_t)((const T *)&s->info)[lane];
    T *const to = (T *)call->lu.lu.data + q * c.batch;
    const intptr_t vectors = c.col == PARTS && !end ? (width + LANES - 1) / LANES : 0;
    const bool by_columns = PARTS == 1 && c.row == 1 && c.col != 1 && !end;
    if (by_columns) KERNEL(lu_store_columns)(to, c.col, s, lane);
    switch (vectors) {
    case 0:
        for (intptr_t i = 0; i < m && !by_columns; i++)
            for (intptr_t j = 0; j < n; j++)
                UNROLLED(int part = 0; part < PARTS; part++)
                    to[i * c.row + j * c.col + part] = end ? (T)NAN : s->w[s->at[i][lane] + PARTS * j + part];
        break;
    case 1: lu_store_rows(to, c.row, s, lane, width, 1); break;
    case 2: lu_store_rows(to, c.row, s, lane, width, 2); break;
    case 3: lu_store_rows(to, c.row, s, lane, width, 3); break;
    case 4: lu_store_rows(to, c.row, s, lane, width, 4); break;
    default: lu_store_rows(to, c.row, s, lane, width, vectors);
    }
    if (!call->lu.pivots.data) return;
    const intptr_t good = end ? end - 1 : steps, step = call->lu.pivots.row;
    char *const pivots = (char *)call->lu.pivots.data + q * call->lu.pivots.batch;
    for (intptr_t k = 0; k < good; k++) *(int32_t *)(pivots + k * step) = s->swap[k][lane];
    for (intptr_t k = good; k < steps; k++) *(int32_t *)(pivots + k * step) = (int32_t)k;
}

/* The workspace of matrices with more rows; of others, right-hand sides included, it is less than what there is. */
static intptr_t KERNEL(lu_panels_workspace)(const smm_call *call) {
    enum { RHS_BYTES = SMM_MAX_ORDER * PANEL_MAX * (int)sizeof(T) };
    _Static_assert(sizeof(panel_stack) + (size_t)PANEL_WORKSPACE + RHS_BYTES <= SMM_KERNEL_WORKSPACE,
                   "workspace of lu_panels");
    if (call->op != SMM_OP_LU) return SMM_KERNEL_WORKSPACE;
    const intptr_t rows = LANES * panel_size(call->m, panel_odd_pitch(call->n)) * (intptr_t)sizeof(T);
    return (intptr_t)sizeof(panel_stack) + panel_bytes(call->m) + rows;
}

/* So many matrices are faster with rows in the lanes, where a panel takes a third to a seventh of the time of the lanes
 * (128 x 64, AMD EPYC family 26 model 2, AVX-512, November 2026). */
enum { LU_FEW = PARTS * LANES / 4 };

/* LU, SOLVE, DET or SLOGDET, and INV of complex matrices. */
static void KERNEL(lu_panels)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) {
    const bool inverts = call->op == SMM_OP_INV;
    const intptr_t n = call->n, m = call->op == SMM_OP_LU ? call->m : n;
    const intptr_t nrhs = inverts ? n : call->op == SMM_OP_SOLVE ? call->k : 0;
    const bool few = nrhs <= PANEL && !inverts;
    const intptr_t beside = !few || !nrhs ? 0 : nrhs == 1 ? 1 : PANEL; /* in the lanes */
    lu_panel_fn *const panel = !beside       ? KERNEL(lu_panel)
                               : beside == 1 ? KERNEL(lu_panel_beside)
                                             : KERNEL(lu_panel_beside_four);
    const strides a = strides_of(&call->a);
    panel_stack *const s = smm_kernel_workspace();
    panel_stack_in(s, s + 1, m, n, panel_odd_pitch(n));
    const intptr_t steps = lu_steps(s, 0), part = PARTS * (m * n / steps); /* elements of a matrix to each step */
    const bool is_near = lu_is_near(a, s);
    for (intptr_t q = first; q < last; q += LANES) {
        const intptr_t count = min_of(LANES, last - q);
        const T *const next = ahead_of(&call->a, q, LANES * PARTS * m * n);
        const bool alone = count <= LU_FEW, begun = is_near && !alone;
        if (beside) KERNEL(elem_load)(s->b, &call->solve.b, q, n, nrhs, count);
        for (intptr_t i = n - 1; i >= 0 && nrhs < beside; i--)
            for (intptr_t e = beside - 1; e >= 0; e--)
                s->b[i * beside + e] = e < nrhs ? s->b[i * nrhs + e] : elem_set(0);
        intptr_t k = 0, panels;
        if (begun)
            k = KERNEL(lu_first_panels)(s, panel, (T *)call->a.data + q * a.batch, a, count, cold ? next : NULL, part);
        else
            panel_load(s, &call->a, q, count);
        for (; k < steps; k += panels * PANEL) {
            panels = LU_PAIRS && !alone && k + PANEL < steps ? 2 : 1;
            if (alone)
                KERNEL(lu_panels_alone_beside)(s, k, count, beside);
            else
                panel(s, s->w, s->at, k, panels == 2 ? LU_FIRST : LU_SINGLE);
            if (panels == 2) panel(s, s->w, s->at, k + PANEL, LU_SECOND);
            for (intptr_t l = 0; l < count; l++) {
                if (cold) prefetch(next + PARTS * l * m * n + k * part, panels * PANEL * part);
                KERNEL(lu_update)(s, l, k, panels);
            }
        }
        lanes_store_int(smm_info(call), q, s->info, count);
        if (beside) KERNEL(lu_solve_panels)(call, s, q, count, nrhs, beside);
        for (intptr_t l = 0; l < count && !few; l++)
            lu_solve_rows(inverts ? NULL : &call->solve.b, inverts ? &call->inv.inverse : &call->solve.x, s, q + l, l,
                          nrhs);
        for (intptr_t l = 0; l < count && call->op == SMM_OP_LU; l++) lu_store(call, q + l, s, l);
        if (call->op == SMM_OP_DET || call->op == SMM_OP_SLOGDET) {
            elem u[SMM_MAX_ORDER];
            for (intptr_t k = 0; k < n; k++) u[k] = s->d[k].p;
            lu_determinants(call, q, count, u, 1, n, s->odd, s->singular);
        }
    }
}
