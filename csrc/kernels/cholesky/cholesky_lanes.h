/* cholesky_lanes.h: the Cholesky factorization, LANES matrices side by side. Small constant orders have the whole
 * matrix in registers. Others are done in square tiles, row of tiles after row of tiles (left-looking): a tile sums in
 * registers all that is subtracted from it, and while one waits for its square roots and reciprocals the next begins.
 */

enum { TILE = VECTOR_REGISTERS >= 32 ? 4 : 3 };

/* A lower triangle in panels of TILE rows, column after column: element (i, j) of panel p, i counted from its first
 * row, is at panel_of(p)[j * TILE + i], for j up to the panel's last row. */
enum { PANELS = (SMM_MOST_ORDER + TILE - 1) / TILE, PANELS_SIZE = TILE * TILE * PANELS * (PANELS + 1) / 2 };

INLINE vec *panel_of(const vec *l, intptr_t p) { return (vec *)l + TILE * TILE * p * (p + 1) / 2; }
INLINE vec *panel_element(const vec *l, intptr_t i, intptr_t j) { return panel_of(l, i / TILE) + j * TILE + i % TILE; }

/* c_ij = c_ij - sum a_ik b_jk, k < depth, of panels a and b. */
INLINE void tile_subtract(vec c[TILE][TILE], const vec *a, const vec *b, intptr_t depth, const int rows, const int cols,
                          const bool lower) {
    ROLLED(intptr_t k = 0; k < depth; k++) {
        vec y[TILE];
        UNROLLED(int j = 0; j < cols; j++) y[j] = b[k * TILE + j];
        UNROLLED(int i = 0; i < rows; i++) {
            const vec x = lower ? y[i] : a[k * TILE + i];
            UNROLLED(int j = 0; j < cols; j++)
                if (!lower || j <= i) c[i][j] = lane_fnma(x, y[j], c[i][j]);
        }
    }
}

/* l_jj = sqrt(a_jj), r = 1 / l_jj. info becomes j + 1 where a_jj is not positive. */
INLINE vec cholesky_pivot(vec *a_jj, vec *info, intptr_t j) {
    const mask bad = ~lane_greater(*a_jj, lane_set(0));
    if (__builtin_expect(lane_any(bad), 0))
        *info = lane_select(bad & lane_equal(*info, lane_set(0)), lane_set((T)(j + 1)), *info);
    *a_jj = lane_sqrt(*a_jj);
    return lane_div(lane_set(1), *a_jj);
}

/* Rows i0 .. i0+rows-1, the rows above them done. r: the reciprocals of the diagonal. */
INLINE void cholesky_rows(vec *l, vec *r, vec *info, intptr_t i0, const int rows) {
    vec c[TILE][TILE], *a = panel_of(l, i0 / TILE);
    ROLLED(intptr_t j0 = 0; j0 < i0; j0 += TILE) {
        const vec *b = panel_of(l, j0 / TILE);
        UNROLLED(int i = 0; i < rows; i++)
            UNROLLED(int j = 0; j < TILE; j++) c[i][j] = a[(j0 + j) * TILE + i];
        tile_subtract(c, a, b, j0, rows, TILE, false);
        UNROLLED(int j = 0; j < TILE; j++)
            UNROLLED(int i = 0; i < rows; i++) {
                c[i][j] = lane_mul(c[i][j], r[j0 + j]);
                a[(j0 + j) * TILE + i] = c[i][j];
                UNROLLED(int k = j + 1; k < TILE; k++) c[i][k] = lane_fnma(c[i][j], b[(j0 + j) * TILE + k], c[i][k]);
            }
    }
    UNROLLED(int i = 0; i < rows; i++)
        UNROLLED(int j = 0; j <= i; j++) c[i][j] = a[(i0 + j) * TILE + i];
    tile_subtract(c, a, a, i0, rows, rows, true);
    UNROLLED(int j = 0; j < rows; j++) {
        r[i0 + j] = cholesky_pivot(&c[j][j], info, i0 + j);
        a[(i0 + j) * TILE + j] = c[j][j];
        UNROLLED(int i = j + 1; i < rows; i++) {
            a[(i0 + j) * TILE + i] = c[i][j] = lane_mul(c[i][j], r[i0 + j]);
            UNROLLED(int k = j + 1; k <= i; k++) c[i][k] = lane_fnma(c[i][j], c[k][j], c[i][k]);
        }
    }
}

INLINE void cholesky_panel(vec *l, vec *r, vec *info, intptr_t i0, intptr_t rows) {
    switch (rows) {
    case 1: cholesky_rows(l, r, info, i0, 1); break;
    case 2: cholesky_rows(l, r, info, i0, 2); break;
    case 3: cholesky_rows(l, r, info, i0, 3); break;
    default: cholesky_rows(l, r, info, i0, TILE);
    }
}

/* Row i of C of LANES matrices, l_i0 .. l_ii, zeros: a vector at a time, the last of which may overlap the one before.
 * Nothing is transposed for zeros alone. */
INLINE void cholesky_store_vectors(T *to, intptr_t batch, const vec *row, intptr_t i, intptr_t n) {
    for (intptr_t end = LANES; end < n + LANES; end += LANES) {
        const intptr_t j = least(end, n) - LANES;
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
    vec x[SMM_MOST_ORDER];
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

static void KERNEL(cholesky_lanes)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) {
    const intptr_t n = call->n;
    const strides s = strides_of(&call->cholesky.a);
    _Static_assert(PANELS_SIZE * sizeof(vec) <= SMM_KERNEL_WORKSPACE, "workspace of cholesky_lanes");
    vec *const l = smm_kernel_workspace();
    for (intptr_t q = first; q < last; q += LANES) {
        const intptr_t count = least(LANES, last - q);
        const T *next = ahead_of(&call->cholesky.a, q, LANES * n * n);
        vec r[SMM_MOST_ORDER], info = lane_set(0);
        const bool column_major = s.row == 1 && s.col != 1;
        if (column_major) triangle_load_columns(l, panel_element, &call->cholesky.a, q, n, false, count);
        for (intptr_t i = 0; i < n; i += TILE) {
            const intptr_t rows = least(TILE, n - i);
            if (!column_major)
                triangle_load_rows(l, panel_element, TILE, &call->cholesky.a, q, n, false, i, i + rows, count);
            cholesky_panel(l, r, &info, i, rows);
            for (intptr_t j = i; j < i + rows; j++) {
                if (cold) prefetch(next + j * LANES * n, LANES * n);
                cholesky_store_row(&call->cholesky.l, q, l, j, n, count);
            }
        }
        lanes_store_int(&call->cholesky.info, q, info, count);
        lanes_fill_nan(&call->cholesky.l, q, info, n, n, count);
    }
}

/* The same for a small constant order, the whole matrix in registers: an array of n n would be one of variable size,
 * and so in memory. */
enum { CHOLESKY_WORKSPACE = 16 * 16 };
INLINE void cholesky_lanes(const smm_call *call, intptr_t first, intptr_t last, bool cold, const int n) {
    for (intptr_t q = first; q < last; q += LANES) {
        const intptr_t count = least(LANES, last - q);
        const T *next = ahead_of(&call->cholesky.a, q, LANES * n * n);
        vec a[CHOLESKY_WORKSPACE], info = lane_set(0);
        lanes_load(a, &call->cholesky.a, q, n, n, count);
        UNROLLED(int j = 0; j < n; j++) {
            if (j % 4 == 0 && cold) /* not at each of these short steps */
                prefetch(next + j * LANES * n, least(4, n - j) * LANES * n);
            const vec r = cholesky_pivot(&a[j * n + j], &info, j);
            UNROLLED(int i = j + 1; i < n; i++) {
                a[i * n + j] = lane_mul(a[i * n + j], r);
                a[j * n + i] = lane_set(0);
                UNROLLED(int k = j + 1; k <= i; k++) a[i * n + k] = lane_fnma(a[i * n + j], a[k * n + j], a[i * n + k]);
            }
        }
        lanes_store(&call->cholesky.l, q, a, n, n, count);
        lanes_store_int(&call->cholesky.info, q, info, count);
        lanes_fill_nan(&call->cholesky.l, q, info, n, n, count);
    }
}
