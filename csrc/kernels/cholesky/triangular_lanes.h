/* triangular_lanes.h: solving with triangular factors, LANES systems side by side: one text over the numbers of
 * elements_real.h and those of elements_complex.h. Right-hand sides come RHS_BLOCK at a time, and TILE unknowns of
 * WIDTH of them sum in registers all that is subtracted from them. */

enum { WIDTH = PARTS == 1 ? TILE : 2 };

/* A lower triangle, and the reciprocals of its diagonal. */
typedef struct triangular {
    elem l[PANELS_SIZE], r[SMM_MAX_ORDER];
    elem x[SMM_MAX_ORDER * RHS_BLOCK]; /* right-hand sides, and their solutions */
    triangle t;
    vec info;
    bool plain; /* every element of the diagonal has a reciprocal */
    bool unit;
} triangular;
_Static_assert(sizeof(triangular) <= SMM_KERNEL_WORKSPACE, "workspace of triangular_lanes");

INLINE void triangle_conjugate(elem *l, intptr_t n) {
    for (intptr_t e = 0; e < n * n && PARTS > 1; e++) l[e] = elem_conj(l[e]);
}

/* Of the upper triangle of A, reversed, or, as the factor of Cholesky that complex numbers have, its conjugate
 * transpose. */
INLINE void load_triangle(triangular *w, const smm_call *call, intptr_t q, intptr_t count, bool cold) {
    const intptr_t n = call->n;
    const bool upper = call->form & SMM_UPPER, adjoint = upper && call->op == SMM_OP_CHO_SOLVE;
    const bool reversed = upper && !adjoint, backwards = PARTS > 1 && reversed;
    const smm_operand a = adjoint ? smm_transposed(call->a) : call->a;
    const T *next = ahead_of(&a, q, PARTS * LANES * n * n);
    triangle_load(w->l, &a, q, n, reversed, 0, n, count);
    if (adjoint) triangle_conjugate(w->l, n);
    w->t = backwards ? (triangle){w->l + n * n - 1, -n, -1} : (triangle){w->l, n, 1};
    w->info = lane_set(0);
    w->plain = true;
    w->unit = call->form & SMM_UNIT;
    for (intptr_t j = 0; j < n; j++) {
        if (cold) prefetch(next + PARTS * j * LANES * n, PARTS * LANES * n);
        elem *const p = triangle_at(w->t, j, j);
        if (w->unit) *p = elem_set(1);
        const divisor d = divisor_of(*p);
        w->r[j] = elem_reciprocal(&d);
        if (__builtin_expect(!lane_any(~d.exact), 1)) continue;
        w->plain = false;
        const mask zero = elem_is_zero(*p);
        const intptr_t at = reversed ? n - 1 - j : j; /* the first in A's own order: the last, if reversed */
        const mask first = reversed ? zero : zero & lane_equal(w->info, lane_set(0));
        w->info = lane_select(first, lane_set((T)(at + 1)), w->info);
    }
}

/* y becomes y / l_jj, or is divided by its conjugate: out of the way of complex numbers, which take more for it. */
SHARED void KERNEL(triangle_divide)(const triangular *w, elem *y, intptr_t j, bool conjugated) {
    const elem p = *triangle_at(w->t, j, j);
    const divisor d = divisor_of(conjugated ? elem_conj(p) : p);
    *y = elem_quotient(*y, &d, elem_reciprocal(&d));
}
/* The same of y = x. */
INLINE elem triangle_quotient(const triangular *w, elem *y, elem x, intptr_t j, const bool conjugated) {
    if (PARTS == 1 || !w->unit) {
        if (__builtin_expect(w->plain, 1)) {
            x = elem_mul(x, conjugated ? elem_conj(w->r[j]) : w->r[j]);
        } else if (PARTS == 1) {
            const divisor d = divisor_of(*triangle_at(w->t, j, j));
            x = elem_quotient(x, &d, w->r[j]);
        } else {
            *y = x;
            KERNEL(triangle_divide)(w, y, j, conjugated);
            x = *y;
        }
    }
    return *y = x;
}

/* Unknowns i0 .. i0+rows-1 of L X = X, those before them known; `cols` of the `ld` columns of x. */
INLINE void forward_tile(const triangular *w, elem *x, intptr_t ld, intptr_t i0, const int rows, const int cols) {
    const intptr_t i_step = down(w->t), j_step = across(w->t);
    elem c[TILE][WIDTH];
    const elem *a = tile_row(w->t, i0);
    UNROLLED(int i = 0; i < rows; i++)
        UNROLLED(int k = 0; k < cols; k++) c[i][k] = x[(i0 + i) * ld + k];
    ROLLED(intptr_t j = 0; j < i0; j++)
        UNROLLED(int i = 0; i < rows; i++)
            UNROLLED(int k = 0; k < cols; k++) c[i][k] = elem_fnma(a[j * j_step + i * i_step], x[j * ld + k], c[i][k]);
    UNROLLED(int j = 0; j < rows; j++)
        UNROLLED(int k = 0; k < cols; k++) {
            c[j][k] = triangle_quotient(w, &x[(i0 + j) * ld + k], c[j][k], i0 + j, false);
            UNROLLED(int i = j + 1; i < rows; i++)
                c[i][k] = elem_fnma(a[(i0 + j) * j_step + i * i_step], c[j][k], c[i][k]);
        }
}

/* The same of L^H X = X, the unknowns after them known. */
INLINE void backward_tile(const triangular *w, elem *x, intptr_t ld, intptr_t n, intptr_t i0, const int rows,
                          const int cols) {
    const intptr_t j_step = down(w->t), i_step = across(w->t);
    elem c[TILE][WIDTH];
    UNROLLED(int i = 0; i < rows; i++)
        UNROLLED(int k = 0; k < cols; k++) c[i][k] = x[(i0 + i) * ld + k];
    ROLLED(intptr_t j = n - 1; j >= i0 + rows; j--) {
        const elem *a = triangle_at(w->t, j, i0);
        UNROLLED(int i = 0; i < rows; i++)
            UNROLLED(int k = 0; k < cols; k++) c[i][k] = elem_fnma(elem_conj(a[i * i_step]), x[j * ld + k], c[i][k]);
    }
    const elem *a = tile_row(w->t, i0);
    UNROLLED(int j = rows - 1; j >= 0; j--)
        UNROLLED(int k = 0; k < cols; k++) {
            c[j][k] = triangle_quotient(w, &x[(i0 + j) * ld + k], c[j][k], i0 + j, true);
            UNROLLED(int i = 0; i < j; i++)
                c[i][k] = elem_fnma(elem_conj(a[(i0 + i) * i_step + j * j_step]), c[j][k], c[i][k]);
        }
}

INLINE void solve_tile(const triangular *w, elem *x, intptr_t ld, intptr_t n, intptr_t i0, bool backward,
                       const int rows, const int cols) {
    if (backward)
        backward_tile(w, x, ld, n, i0, rows, cols);
    else
        forward_tile(w, x, ld, i0, rows, cols);
}

/* `cols` right-hand sides, from the first unknowns to the last or back. */
INLINE void solve_columns(const triangular *w, elem *x, intptr_t ld, intptr_t n, bool backward, const int cols) {
    const intptr_t panels = (n + TILE - 1) / TILE;
    for (intptr_t p = 0; p < panels; p++) {
        const intptr_t i0 = TILE * (backward ? panels - 1 - p : p);
        switch (min_of(TILE, n - i0)) {
        case 1: solve_tile(w, x, ld, n, i0, backward, 1, cols); break;
        case 2: solve_tile(w, x, ld, n, i0, backward, TILE < 2 ? TILE : 2, cols); break;
        case 3: solve_tile(w, x, ld, n, i0, backward, TILE < 3 ? TILE : 3, cols); break;
        default: solve_tile(w, x, ld, n, i0, backward, TILE, cols);
        }
    }
}

static void KERNEL(solve_triangle)(const triangular *w, elem *x, intptr_t ld, intptr_t n, intptr_t width,
                                   bool backward) {
    intptr_t k = 0;
    if (n == 2) { /* a tile without a loop */
        for (; k < width; k++) solve_tile(w, x + k, ld, 2, 0, backward, 2, 1);
        return;
    }
    for (; k + WIDTH <= width; k += WIDTH) solve_columns(w, x + k, ld, n, backward, WIDTH);
    for (; k < width; k++) solve_columns(w, x + k, ld, n, backward, 1);
}

_Static_assert(offsetof(smm_call, solve_triangular.x) == offsetof(smm_call, cho_solve.x) &&
                   offsetof(smm_call, solve_triangular.info) == offsetof(smm_call, cho_solve.info),
               "CHO_SOLVE has the operands of SOLVE_TRIANGULAR");
_Static_assert(offsetof(smm_call, solve_triangular.x) == offsetof(smm_call, solve_pos.x) &&
                   offsetof(smm_call, solve_triangular.b) == offsetof(smm_call, solve_pos.b),
               "so has SOLVE_POS");

/* X of matrices q .. q+count-1, by the triangle alone or by its conjugate transpose, too. */
INLINE void solve_right_sides(triangular *w, const smm_call *call, intptr_t q, intptr_t count, bool reversed,
                              bool both) {
    const intptr_t n = call->n;
    for (intptr_t k = 0; k < call->k; k += RHS_BLOCK) {
        const intptr_t width = min_of(RHS_BLOCK, call->k - k);
        const smm_operand b = elem_columns(call->solve_triangular.b, k);
        const smm_operand c = elem_columns(call->solve_triangular.x, k);
        elem *const x = w->x;
        KERNEL(elem_load)(x, &b, q, n, width, count);
        if (reversed)
            KERNEL(solve_triangle)(w, x + (n - 1) * width, -width, n, width, false);
        else
            KERNEL(solve_triangle)(w, x, width, n, width, false);
        if (both) KERNEL(solve_triangle)(w, x, width, n, width, true);
        KERNEL(elem_store)(&c, q, x, n, width, count);
    }
    KERNEL(elem_fill_nan)(&call->solve_triangular.x, q, w->info, n, call->k, count);
}

/* SOLVE_TRIANGULAR: forward; CHO_SOLVE: forward, then backward. A reversed triangle meets its unknowns in reverse. */
static void KERNEL(triangular_lanes)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) {
    const bool both = call->op == SMM_OP_CHO_SOLVE, reversed = call->form & SMM_UPPER && !both;
    triangular *const w = smm_kernel_workspace();
    for (intptr_t q = first; q < last; q += LANES) {
        const intptr_t count = min_of(LANES, last - q);
        load_triangle(w, call, q, count, cold);
        lanes_store_int(&call->solve_triangular.info, q, w->info, count);
        solve_right_sides(w, call, q, count, reversed, both);
    }
}

/* SOLVE_POS: the factor of cholesky_lanes, which then solves as that of CHO_SOLVE. */
static void KERNEL(solve_pos_lanes)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) {
    const intptr_t n = call->n;
    const bool upper = call->form & SMM_UPPER;
    const smm_operand a = upper ? smm_transposed(call->solve_pos.a) : call->solve_pos.a;
    triangular *const w = smm_kernel_workspace();
    w->t = (triangle){w->l, n, 1};
    w->unit = false;
    for (intptr_t q = first; q < last; q += LANES) {
        const intptr_t count = min_of(LANES, last - q);
        const T *next = ahead_of(&a, q, PARTS * LANES * n * n);
        vec r[SMM_MAX_ORDER];
        w->info = lane_set(0);
        w->plain = true;
        for (intptr_t i = 0; i < n; i += TILE) {
            const intptr_t rows = min_of(TILE, n - i);
            triangle_load(w->l, &a, q, n, false, i, i + rows, count);
            if (upper && !i) triangle_conjugate(w->l, n);
            if (cold) prefetch(next + PARTS * i * LANES * n, PARTS * rows * LANES * n);
            cholesky_panel(w->t, r, &w->info, i, rows);
            for (intptr_t j = i; j < i + rows; j++) {
                w->r[j] = elem_conj(elem_of(r[j])); /* the bits of a reciprocal's imaginary part */
                w->plain &= !lane_any(~lane_normal(r[j]));
            }
        }
        lanes_store_int(&call->solve_pos.info, q, w->info, count);
        solve_right_sides(w, call, q, count, false, true);
    }
}
