/* lu_solve_lanes.h: solutions by the factors of LU, LANES matrices side by side, for any order: one text over the
 * numbers of elements_real.h and those of elements_complex.h. Steps of the smallest orders, which are constants, are
 * unrolled. */

enum {
    MATRIX_ELEMENTS = SMM_MAX_ORDER * SMM_MAX_ORDER,
    RHS_BLOCK = PARTS == 1 ? BLOCK : 16, /* right-hand sides that are solved for together */
    RHS_ELEMENTS = RHS_BLOCK * SMM_MAX_ORDER
};

/* Call a step for each k from 0 to n - 1, or from n - 1 to 0: unrolled where n is a constant. */
#define STEPS(n, step, ...) \
    if (__builtin_constant_p(n)) \
        UNROLLED(intptr_t k = 0; k < (n); k++) step(k, n, __VA_ARGS__); \
    else \
        for (intptr_t k = 0; k < (n); k++) step(k, n, __VA_ARGS__)
#define STEPS_BACK(n, step, ...) \
    if (__builtin_constant_p(n)) \
        UNROLLED(intptr_t k = (n) - 1; k >= 0; k--) step(k, n, __VA_ARGS__); \
    else \
        for (intptr_t k = (n) - 1; k >= 0; k--) step(k, n, __VA_ARGS__)

/* LANES matrices in factors, and some right-hand sides. */
typedef struct lu_workspace {
    elem a[MATRIX_ELEMENTS], x[RHS_ELEMENTS];
} lu_workspace;
_Static_assert(sizeof(lu_workspace) <= SMM_KERNEL_WORKSPACE, "workspace of lu_solve_lanes");

typedef struct lu_state {
    divisor d[SMM_MAX_ORDER];
    elem r[SMM_MAX_ORDER];  /* reciprocals of the pivots */
    vec row[SMM_MAX_ORDER]; /* with which row each step exchanged its own */
    vec info;
    mask odd, singular; /* an odd number of exchanges; a pivot is zero and all before it are finite */
} lu_state;

/* Exchange rows k and, in each lane, row[k] of a matrix with so many columns. */
INLINE void elem_exchange_rows(intptr_t k, const intptr_t n, elem *x, const intptr_t cols, const vec *row) {
    UNROLLED_BY_4(intptr_t i = k + 1; i < n; i++) {
        const mask here = lane_equal(row[k], lane_set((T)i));
        /* of few numbers, mispredictions cost more */
        if (!__builtin_constant_p(PARTS == 1 ? cols : n) && !lane_any(here)) continue;
        UNROLLED_BY_4(intptr_t j = 0; j < cols; j++) elem_exchange(here, &x[k * cols + j], &x[i * cols + j]);
    }
}

/* x_ij = x_ij - f y_j */
INLINE void elem_subtract(elem *x, elem f, const elem *y, intptr_t count) {
    UNROLLED_BY_4(intptr_t j = 0; j < count; j++) x[j] = elem_fnma(f, y[j], x[j]);
}

/* What L and U do at row k of right-hand sides x (n x cols). */
INLINE void elem_forward(intptr_t k, const intptr_t n, elem *x, const intptr_t cols, const elem *a) {
    UNROLLED_BY_4(intptr_t i = k + 1; i < n; i++) elem_subtract(x + i * cols, a[i * n + k], x + k * cols, cols);
}
INLINE void elem_by_pivot(elem *x, const intptr_t cols, const lu_state *s, intptr_t k) {
    UNROLLED_BY_4(intptr_t l = 0; l < cols; l++) x[l] = elem_quotient(x[l], &s->d[k], s->r[k]);
}
INLINE void elem_back(intptr_t k, const intptr_t n, elem *x, const intptr_t cols, const elem *a, const lu_state *s) {
    elem_by_pivot(x + k * cols, cols, s, k);
    UNROLLED_BY_4(intptr_t i = 0; i < k; i++) elem_subtract(x + i * cols, a[i * n + k], x + k * cols, cols);
}
/* The same of A^T. */
INLINE void elem_forward_transposed(intptr_t k, const intptr_t n, elem *x, const intptr_t cols, const elem *a,
                                    const lu_state *s) {
    elem_by_pivot(x + k * cols, cols, s, k);
    UNROLLED_BY_4(intptr_t i = k + 1; i < n; i++) elem_subtract(x + i * cols, a[k * n + i], x + k * cols, cols);
}
INLINE void elem_back_transposed(intptr_t k, const intptr_t n, elem *x, const intptr_t cols, const elem *a) {
    UNROLLED_BY_4(intptr_t i = 0; i < k; i++) elem_subtract(x + i * cols, a[k * n + i], x + k * cols, cols);
}

/* x (n x cols) becomes the solution of A x = x or A^T x = x. */
INLINE void elem_solve(elem *x, const intptr_t n, const intptr_t cols, const elem *a, const lu_state *s,
                       bool transposed) {
    if (transposed) {
        STEPS(n, elem_forward_transposed, x, cols, a, s);
        STEPS_BACK(n, elem_back_transposed, x, cols, a);
        STEPS_BACK(n, elem_exchange_rows, x, cols, s->row);
    } else {
        STEPS(n, elem_exchange_rows, x, cols, s->row);
        STEPS(n, elem_forward, x, cols, a);
        STEPS_BACK(n, elem_back, x, cols, a, s);
    }
}

/* Solutions for `width` right-hand sides from column j on; b == NULL: those of the identity. */
INLINE void elem_solve_some(const smm_operand *b, const smm_operand *to, intptr_t j, const intptr_t width, intptr_t q,
                            const elem *a, elem *x, const lu_state *s, const intptr_t n, const bool transposed,
                            intptr_t count) {
    if (b) {
        const smm_operand from = elem_columns(*b, j);
        KERNEL(elem_load)(x, &from, q, n, width, count);
    } else {
        UNROLLED_BY_4(intptr_t i = 0; i < n; i++)
            UNROLLED_BY_4(intptr_t l = 0; l < width; l++) x[i * width + l] = elem_set(i == j + l);
    }
    elem_solve(x, n, width, a, s, transposed);
    const smm_operand c = elem_columns(*to, j);
    KERNEL(elem_store)(&c, q, x, n, width, count);
    KERNEL(elem_fill_nan)(&c, q, s->info, n, width, count);
}

/* For all of them, as many at a time as x has room for; of few rows the usual numbers are constants, of real matrices
 * one always is. */
INLINE void elem_solve_all(const smm_operand *b, const smm_operand *to, intptr_t nrhs, intptr_t most, intptr_t q,
                           const elem *a, elem *x, const lu_state *s, const intptr_t n, const bool transposed,
                           intptr_t count) {
    for (intptr_t j = 0, width; j < nrhs; j += width) {
        width = min_of(most, nrhs - j);
        if (__builtin_constant_p(n) && width == n) {
            elem_solve_some(b, to, j, n, q, a, x, s, n, transposed, count);
        } else if (__builtin_constant_p(n) || (PARTS == 1 && width == 1)) {
            width = 1;
            elem_solve_some(b, to, j, 1, q, a, x, s, n, transposed, count);
        } else {
            elem_solve_some(b, to, j, width, q, a, x, s, n, transposed, count);
        }
    }
}

/* Row k of an int32 operand. */
INLINE vec lanes_load_int(const smm_operand *from, intptr_t q, intptr_t k, intptr_t count) {
    T lane[LANES];
    int32_t number[LANES]; /* which the compiler converts as one vector */
    const char *p = (const char *)from->data + q * from->batch + k * from->row;
    if (count == LANES)
        UNROLLED(int l = 0; l < LANES; l++) number[l] = *(const int32_t *)(p + l * from->batch);
    else
        ROLLED(int l = 0; l < LANES; l++) number[l] = *(const int32_t *)(p + lane_offset(l, from->batch, count));
    for (int l = 0; l < LANES; l++) lane[l] = (T)number[l];
    return lane_load(lane);
}

/* Some matrix has failed: that is told, and its info is returned, which so far knows of zeros alone: negative, the
 * first step from 1 whose pivot is no row that it may exchange. */
SHARED vec KERNEL(lu_solve_failed)(const smm_call *call, const vec *pivots, vec info) {
    const vec last = lane_set((T)(call->n - 1));
    vec wrong = lane_set(0);
    for (intptr_t k = call->n - 1; k >= 0; k--) {
        const mask bad = lane_greater(lane_set((T)k), pivots[k]) | lane_greater(pivots[k], last);
        wrong = lane_select(bad, lane_set((T)(-k - 1)), wrong);
    }
    if (call->failed) __atomic_store_n(call->failed, true, __ATOMIC_RELAXED);
    return lane_select(lane_equal(wrong, lane_set(0)), info, wrong);
}

/* Pivots of each lane, and the divisors in its diagonal of U. Returns info; where some is not 0, that is told. */
INLINE vec lu_look(const smm_call *call, const smm_operand *pivots, const elem *a, lu_state *s, intptr_t q,
                   intptr_t count) {
    const intptr_t n = call->n;
    vec info = lane_set(0), row = lane_set((T)n), most = lane_set(0);
    mask above = lane_greater(info, info); /* where a pivot is above its row: nowhere so far */
    for (intptr_t k = n - 1; k >= 0; k--) {
        const elem u = a[k * n + k];
        s->row[k] = lanes_load_int(pivots, q, k, count);
        s->d[k] = divisor_of(u);
        s->r[k] = elem_reciprocal(&s->d[k]);
        info = lane_select(elem_is_zero(u), row, info);
        row = lane_sub(row, lane_set(1));
        above |= lane_greater(row, s->row[k]);
        most = lane_max(s->row[k], most);
    }
    const mask beyond = lane_greater(most, lane_set((T)(n - 1)));
    if (__builtin_expect(lane_any(above | beyond | ~lane_equal(info, lane_set(0))), 0))
        info = KERNEL(lu_solve_failed)(call, s->row, info);
    s->info = info;
    return info;
}

static void KERNEL(lu_solve_lanes)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) {
    lu_workspace *const workspace = smm_kernel_workspace();
    const intptr_t n = call->n;
    for (intptr_t q = first; q < last; q += LANES) {
        const intptr_t count = min_of(LANES, last - q);
        const T *next = ahead_of(&call->lu_solve.a, q, PARTS * LANES * n * n);
        lu_state s;
        KERNEL(elem_load)(workspace->a, &call->lu_solve.a, q, n, n, count);
        for (intptr_t k = 0; k < n && cold; k++) prefetch(next + PARTS * k * LANES * n, PARTS * LANES * n);
        const vec info = lu_look(call, &call->lu_solve.pivots, workspace->a, &s, q, count);
        lanes_store_int(&call->lu_solve.info, q, info, count);
        elem_solve_all(&call->lu_solve.b, &call->lu_solve.x, call->k, RHS_BLOCK, q, workspace->a, workspace->x, &s, n,
                       call->form & SMM_TRANSPOSED, count);
    }
}
