/* triangular_lanes.h: solving with triangular factors, LANES systems side by side. Right-hand sides come BLOCK at a
 * time, and TILE unknowns of WIDTH of them sum in registers all that is subtracted from them. */

enum { WIDTH = TILE };

/* A lower triangle in panels, and the reciprocals of its diagonal. */
typedef struct triangle {
    vec l[PANELS_SIZE], r[SMM_MOST_ORDER], info;
    vec x[SMM_MOST_ORDER * BLOCK]; /* right-hand sides, and their solutions */
    bool plain;                    /* every element of the diagonal has a reciprocal */
} triangle;
_Static_assert(sizeof(triangle) <= SMM_KERNEL_WORKSPACE, "workspace of triangular_lanes");

INLINE void load_triangle(triangle *t, const smm_call *call, intptr_t q, intptr_t count, bool cold) {
    const intptr_t n = call->n;
    const strides s = strides_of(&call->solve_triangular.a);
    const bool reversed = call->form & SMM_UPPER;
    const T *next = ahead_of(&call->solve_triangular.a, q, LANES * n * n);
    if (s.row == 1 && s.col != 1)
        triangle_load_columns(t->l, panel_element, &call->solve_triangular.a, q, n, reversed, count);
    else
        triangle_load_rows(t->l, panel_element, TILE, &call->solve_triangular.a, q, n, reversed, 0, n, count);
    t->info = lane_set(0);
    t->plain = true;
    for (intptr_t j = 0; j < n; j++) {
        if (cold) prefetch(next + j * LANES * n, LANES * n);
        if (call->form & SMM_UNIT) *panel_element(t->l, j, j) = lane_set(1);
        const vec p = *panel_element(t->l, j, j);
        t->r[j] = lane_div(lane_set(1), p);
        if (__builtin_expect(!lane_any(~lane_normal(t->r[j])), 1)) continue;
        t->plain = false;
        const mask zero = lane_equal(p, lane_set(0));
        const intptr_t at = reversed ? n - 1 - j : j; /* the first in A's own order: the last, if reversed */
        const mask first = reversed ? zero : zero & lane_equal(t->info, lane_set(0));
        t->info = lane_select(first, lane_set((T)(at + 1)), t->info);
    }
}

/* x / l_jj */
INLINE vec triangle_quotient(const triangle *t, vec x, intptr_t j) {
    return __builtin_expect(t->plain, 1) ? lane_mul(x, t->r[j]) : lu_quotient(x, *panel_element(t->l, j, j), t->r[j]);
}

/* Unknowns i0 .. i0+rows-1 of L X = X, those before them known; `cols` of the `ld` columns of x. */
INLINE void forward_tile(const triangle *t, vec *x, intptr_t ld, intptr_t i0, const int rows, const int cols) {
    vec c[TILE][WIDTH];
    const vec *a = panel_of(t->l, i0 / TILE);
    UNROLLED(int i = 0; i < rows; i++)
        UNROLLED(int k = 0; k < cols; k++) c[i][k] = x[(i0 + i) * ld + k];
    ROLLED(intptr_t j = 0; j < i0; j++)
        UNROLLED(int i = 0; i < rows; i++)
            UNROLLED(int k = 0; k < cols; k++) c[i][k] = lane_fnma(a[j * TILE + i], x[j * ld + k], c[i][k]);
    UNROLLED(int j = 0; j < rows; j++)
        UNROLLED(int k = 0; k < cols; k++) {
            c[j][k] = x[(i0 + j) * ld + k] = triangle_quotient(t, c[j][k], i0 + j);
            UNROLLED(int i = j + 1; i < rows; i++) c[i][k] = lane_fnma(a[(i0 + j) * TILE + i], c[j][k], c[i][k]);
        }
}

/* The same of L^T X = X, the unknowns after them known. */
INLINE void backward_tile(const triangle *t, vec *x, intptr_t ld, intptr_t n, intptr_t i0, const int rows,
                          const int cols) {
    vec c[TILE][WIDTH];
    UNROLLED(int i = 0; i < rows; i++)
        UNROLLED(int k = 0; k < cols; k++) c[i][k] = x[(i0 + i) * ld + k];
    ROLLED(intptr_t j = n - 1; j >= i0 + rows; j--) {
        const vec *a = panel_element(t->l, j, i0);
        UNROLLED(int i = 0; i < rows; i++)
            UNROLLED(int k = 0; k < cols; k++) c[i][k] = lane_fnma(a[i * TILE], x[j * ld + k], c[i][k]);
    }
    const vec *a = panel_of(t->l, i0 / TILE);
    UNROLLED(int j = rows - 1; j >= 0; j--)
        UNROLLED(int k = 0; k < cols; k++) {
            c[j][k] = x[(i0 + j) * ld + k] = triangle_quotient(t, c[j][k], i0 + j);
            UNROLLED(int i = 0; i < j; i++) c[i][k] = lane_fnma(a[(i0 + i) * TILE + j], c[j][k], c[i][k]);
        }
}

INLINE void solve_tile(const triangle *t, vec *x, intptr_t ld, intptr_t n, intptr_t i0, bool backward, const int rows,
                       const int cols) {
    if (backward)
        backward_tile(t, x, ld, n, i0, rows, cols);
    else
        forward_tile(t, x, ld, i0, rows, cols);
}

/* `cols` right-hand sides, from the first unknowns to the last or back. */
INLINE void solve_columns(const triangle *t, vec *x, intptr_t ld, intptr_t n, bool backward, const int cols) {
    const intptr_t panels = (n + TILE - 1) / TILE;
    for (intptr_t p = 0; p < panels; p++) {
        const intptr_t i0 = TILE * (backward ? panels - 1 - p : p);
        switch (least(TILE, n - i0)) {
        case 1: solve_tile(t, x, ld, n, i0, backward, 1, cols); break;
        case 2: solve_tile(t, x, ld, n, i0, backward, 2, cols); break;
        case 3: solve_tile(t, x, ld, n, i0, backward, 3, cols); break;
        default: solve_tile(t, x, ld, n, i0, backward, TILE, cols);
        }
    }
}

static void KERNEL(solve_triangle)(const triangle *t, vec *x, intptr_t ld, intptr_t n, intptr_t width, bool backward) {
    intptr_t k = 0;
    for (; k + WIDTH <= width; k += WIDTH) solve_columns(t, x + k, ld, n, backward, WIDTH);
    for (; k < width; k++) solve_columns(t, x + k, ld, n, backward, 1);
}

_Static_assert(offsetof(smm_call, solve_triangular.x) == offsetof(smm_call, cho_solve.x) &&
                   offsetof(smm_call, solve_triangular.info) == offsetof(smm_call, cho_solve.info),
               "CHO_SOLVE has the operands of SOLVE_TRIANGULAR");
_Static_assert(offsetof(smm_call, solve_triangular.x) == offsetof(smm_call, solve_pos.x) &&
                   offsetof(smm_call, solve_triangular.b) == offsetof(smm_call, solve_pos.b),
               "so has SOLVE_POS");

/* X of matrices q .. q+count-1, by the triangle alone or by its transpose, too. */
INLINE void solve_right_sides(triangle *t, const smm_call *call, intptr_t q, intptr_t count, bool reversed, bool both) {
    const intptr_t n = call->n;
    for (intptr_t k = 0; k < call->k; k += BLOCK) {
        const intptr_t width = least(BLOCK, call->k - k);
        smm_operand b = call->solve_triangular.b, c = call->solve_triangular.x;
        vec *const x = t->x;
        b.data = (char *)b.data + k * b.col;
        c.data = (char *)c.data + k * c.col;
        lanes_load(x, &b, q, n, width, count);
        if (reversed)
            KERNEL(solve_triangle)(t, x + (n - 1) * width, -width, n, width, false);
        else
            KERNEL(solve_triangle)(t, x, width, n, width, false);
        if (both) KERNEL(solve_triangle)(t, x, width, n, width, true);
        lanes_store(&c, q, x, n, width, count);
    }
    lanes_fill_nan(&call->solve_triangular.x, q, t->info, n, call->k, count);
}

/* SOLVE_TRIANGULAR: forward; CHO_SOLVE: forward, then backward. A reversed triangle meets its unknowns in reverse. */
static void KERNEL(triangular_lanes)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) {
    const bool reversed = call->form & SMM_UPPER;
    triangle *const t = smm_kernel_workspace();
    for (intptr_t q = first; q < last; q += LANES) {
        const intptr_t count = least(LANES, last - q);
        load_triangle(t, call, q, count, cold);
        lanes_store_int(&call->solve_triangular.info, q, t->info, count);
        solve_right_sides(t, call, q, count, reversed, call->op == SMM_OP_CHO_SOLVE);
    }
}

/* SOLVE_POS: the factor of cholesky_lanes, which then solves as that of CHO_SOLVE. */
static void KERNEL(solve_pos_lanes)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) {
    const intptr_t n = call->n;
    const smm_operand *a = &call->solve_pos.a;
    const strides s = strides_of(a);
    const bool column_major = s.row == 1 && s.col != 1;
    triangle *const t = smm_kernel_workspace();
    for (intptr_t q = first; q < last; q += LANES) {
        const intptr_t count = least(LANES, last - q);
        const T *next = ahead_of(a, q, LANES * n * n);
        t->info = lane_set(0);
        t->plain = true;
        if (column_major) triangle_load_columns(t->l, panel_element, a, q, n, false, count);
        for (intptr_t i = 0; i < n; i += TILE) {
            const intptr_t rows = least(TILE, n - i);
            if (!column_major) triangle_load_rows(t->l, panel_element, TILE, a, q, n, false, i, i + rows, count);
            if (cold) prefetch(next + i * LANES * n, rows * LANES * n);
            cholesky_panel(t->l, t->r, &t->info, i, rows);
            for (intptr_t j = i; j < i + rows; j++) t->plain &= !lane_any(~lane_normal(t->r[j]));
        }
        lanes_store_int(&call->solve_pos.info, q, t->info, count);
        solve_right_sides(t, call, q, count, false, true);
    }
}
