/* lu_solve_lanes.h: solutions by the factors that LU gave, LANES matrices side by side, for any order. */

/* lu_exchange with the rows of pivots that are given as numbers. */
INLINE void lu_exchange_by(vec *x, const vec pivot, intptr_t n, intptr_t k) {
    for (intptr_t i = k + 1; i < n; i++) {
        const mask here = lane_equal(pivot, lane_set((T)i));
        const vec x_i = x[i], x_k = x[k];
        x[i] = lane_select(here, x_k, x_i);
        x[k] = lane_select(here, x_i, x_k);
    }
}

/* x = the solution of A x = x for factors a, whose rows and columns are so far apart; of A^T x = x, if these are
 * exchanged. */
INLINE void lu_solve_strided(vec *x, const vec *a, intptr_t row, intptr_t col, const vec *r, const vec *pivots,
                             intptr_t n, bool transposed) {
    for (intptr_t k = 0; k < n && !transposed; k++) lu_exchange_by(x, pivots[k], n, k);
    for (intptr_t j = 0; j < n; j++) {
        if (transposed) x[j] = lu_quotient(x[j], a[j * (row + col)], r[j]);
        for (intptr_t i = j + 1; i < n; i++) x[i] = lane_fnma(a[i * row + j * col], x[j], x[i]);
    }
    for (intptr_t j = n - 1; j >= 0; j--) {
        if (!transposed) x[j] = lu_quotient(x[j], a[j * (row + col)], r[j]);
        for (intptr_t i = 0; i < j; i++) x[i] = lane_fnma(a[i * row + j * col], x[j], x[i]);
    }
    for (intptr_t k = n - 1; k >= 0 && transposed; k--) lu_exchange_by(x, pivots[k], n, k);
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

/* Of factors a their reciprocals r and the pivots. Returns info; where some is not 0, that is told. */
INLINE vec lu_look_at(const smm_call *call, const smm_operand *from, const vec *a, vec *r, vec *pivots, intptr_t q,
                      intptr_t count) {
    const intptr_t n = call->n;
    vec info = lane_set(0), row = lane_set((T)n), most = lane_set(0);
    mask above = lane_greater(info, info); /* where a pivot is above its row: nowhere so far */
    for (intptr_t k = n - 1; k >= 0; k--) {
        const vec u = a[k * n + k];
        pivots[k] = lanes_load_int(from, q, k, count);
        r[k] = lane_div(lane_set(1), u);
        info = lane_select(lane_equal(u, lane_set(0)), row, info);
        row = lane_sub(row, lane_set(1));
        above |= lane_greater(row, pivots[k]);
        most = lane_max(pivots[k], most);
    }
    const mask beyond = lane_greater(most, lane_set((T)(n - 1)));
    if (__builtin_expect(lane_any(above | beyond | ~lane_equal(info, lane_set(0))), 0))
        return KERNEL(lu_solve_failed)(call, pivots, info);
    return info;
}

/* LANES matrices under way. */
typedef struct lu_solve_stack {
    vec a[SMM_MOST_ORDER * SMM_MOST_ORDER], x[SMM_MOST_ORDER * BLOCK], y[SMM_MOST_ORDER];
    vec r[SMM_MOST_ORDER], pivots[SMM_MOST_ORDER];
} lu_solve_stack;
_Static_assert(sizeof(lu_solve_stack) <= SMM_KERNEL_WORKSPACE, "workspace of lu_solve_lanes");

static void KERNEL(lu_solve_lanes)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) {
    const intptr_t n = call->n;
    const bool transposed = call->form & SMM_TRANSPOSED;
    smm_operand from = call->lu_solve.a;
    if (transposed) from.row = call->lu_solve.a.col, from.col = call->lu_solve.a.row;
    lu_solve_stack *const s = smm_kernel_workspace();
    vec *const a = s->a, *const r = s->r, *const pivots = s->pivots, *const x = s->x, *const y = s->y;
    for (intptr_t q = first; q < last; q += LANES) {
        const intptr_t count = least(LANES, last - q);
        const T *next = ahead_of(&call->lu_solve.a, q, LANES * n * n);
        lanes_load(a, &from, q, n, n, count);
        for (intptr_t k = 0; k < n && cold; k++) prefetch(next + k * LANES * n, LANES * n);
        const vec info = lu_look_at(call, &call->lu_solve.pivots, a, r, pivots, q, count);
        lanes_store_int(&call->lu_solve.info, q, info, count);
        for (intptr_t j = 0; j < call->k; j += BLOCK) {
            const intptr_t width = least(BLOCK, call->k - j);
            const smm_operand b = lu_columns(call->lu_solve.b, j), c = lu_columns(call->lu_solve.x, j);
            lanes_load(x, &b, q, n, width, count);
            for (intptr_t l = 0; l < width; l++) {
                for (intptr_t i = 0; i < n; i++) y[i] = x[i * width + l];
                lu_solve_strided(y, a, n, 1, r, pivots, n, transposed);
                for (intptr_t i = 0; i < n; i++) x[i * width + l] = y[i];
            }
            lanes_store(&c, q, x, n, width, count);
            lanes_fill_nan(&c, q, info, n, width, count);
        }
    }
}

/* The same for other kernels: as in lu_numbers.h. */
typedef struct lu_state {
    vec r[SMM_MOST_ORDER];   /* reciprocals of the pivots */
    vec row[SMM_MOST_ORDER]; /* with which row each step exchanged its own */
} lu_state;

INLINE vec lu_look(const smm_call *call, const smm_operand *from, const vec *a, lu_state *s, intptr_t q,
                   intptr_t count) {
    return lu_look_at(call, from, a, s->r, s->row, q, count);
}
INLINE void lu_solve_one(vec *x, const vec *a, const lu_state *s, intptr_t n, bool transposed) {
    if (transposed)
        lu_solve_strided(x, a, 1, n, s->r, s->row, n, true);
    else
        lu_solve_strided(x, a, n, 1, s->r, s->row, n, false);
}
