/* mixed_lanes.h: systems of float64 by factors in float32, for any order. The algorithm is in reference/mixed.c.
 *
 * A tile of matrices is narrowed, and the kernels of float32 factor it and solve for corrections: two vectors of theirs
 * at least, as many as stay in the L2 cache with all that is known of them. Here are the residuals, LANES matrices side
 * by side. A lane that has ended keeps what it has, while others go on. */

enum {
    MIXED_TILE = 256,
    MIXED_COLUMNS = 4,
    MIXED_CACHED = 2 * LANES * 32 * 32, /* elements of matrices that a tile of more than two vectors may have */
    MIXED_ELEMENTS = 2 * LANES * SMM_MAX_ORDER * SMM_MAX_ORDER, /* of the matrices of a tile */
    MIXED_RIGHT = MIXED_COLUMNS * 2048, /* of its right-hand sides: tile n <= sqrt(MIXED_TILE MIXED_CACHED) */
    MIXED_VECTORS = MIXED_TILE / LANES,
};
_Static_assert(MIXED_TILE *MIXED_CACHED <= 2048 * 2048 && 2 * LANES * SMM_MAX_ORDER <= 2048, "MIXED_RIGHT");
_Static_assert(MIXED_TILE % (2 * LANES) == 0, "tiles of whole vectors of float32");

enum { MIXED_STEPS = 30, MIXED_OVERFLOWED = -2, MIXED_SINGULAR = -3, MIXED_NOT_CONVERGED = -MIXED_STEPS - 1 };

/* What is known of a tile: vectors of LANES matrices, and dense matrices for the kernels of float32. */
typedef struct mixed {
    vec a[MIXED_ELEMENTS / LANES], x[MIXED_RIGHT / LANES], b[MIXED_RIGHT / LANES];
    vec bound[MIXED_VECTORS], code[MIXED_VECTORS]; /* code: the steps, or why there is no solution */
    vec size[MIXED_VECTORS * MIXED_COLUMNS];
    mask ended[MIXED_VECTORS * MIXED_COLUMNS];
    T wide[MIXED_ELEMENTS / 2 < MIXED_RIGHT ? MIXED_RIGHT
                                            : MIXED_ELEMENTS / 2]; /* a vector's matrices, or all columns */
    float narrow[MIXED_ELEMENTS], factors[MIXED_ELEMENTS], right[MIXED_RIGHT], d[MIXED_RIGHT];
    int32_t pivots[2048], info[MIXED_TILE];
} mixed;

static intptr_t KERNEL(solve_mixed_lanes_workspace)(const smm_call *call) {
    (void)call;
    return SMM_KERNEL_WORKSPACE + sizeof(mixed);
}

INLINE intptr_t mixed_tile(intptr_t n) {
    const intptr_t fits = min_of(MIXED_TILE, MIXED_CACHED / (n * n)) & -(2 * LANES);
    return fits ? fits : 2 * LANES;
}

/* Row-major matrices, one right after the other. */
INLINE smm_operand mixed_dense(void *x, intptr_t rows, intptr_t cols, intptr_t size) {
    return (smm_operand){x, rows * cols * size, cols * size, size};
}

static void mixed_narrow(float *restrict to, const T *restrict from, intptr_t count) {
    for (intptr_t e = 0; e < count; e++) to[e] = (float)from[e];
}

static void mixed_widen(T *restrict to, const float *restrict from, intptr_t count) {
    for (intptr_t e = 0; e < count; e++) to[e] = (T)from[e];
}

/* A call in float32 of `count` matrices of the tile. */
INLINE smm_call mixed_call(const smm_call *call, smm_op op, intptr_t count, intptr_t k) {
    return (smm_call){.op = op, .dtype = SMM_F32, .batch = count, .m = call->n, .n = call->n, .k = k};
}

static void mixed_factor(const smm_call *call, mixed *t, intptr_t count) {
    const intptr_t n = call->n, size = sizeof(int32_t);
    const smm_operand a = mixed_dense(t->narrow, n, n, sizeof(float)), f = mixed_dense(t->factors, n, n, sizeof(float));
    const smm_operand info = {t->info, size, 0, 0};
    smm_call c = mixed_call(call, call->form & SMM_POSITIVE ? SMM_OP_CHOLESKY : SMM_OP_LU, count, n);
    if (call->form & SMM_POSITIVE)
        c.cholesky = (smm_cholesky_operands){a, f, info};
    else
        c.lu = (smm_lu_operands){a, f, {t->pivots, n * size, size, 0}, info};
    smm_run_nested(&c);
}

static void mixed_correct(const smm_call *call, mixed *t, intptr_t count, intptr_t width) {
    const intptr_t n = call->n, size = sizeof(int32_t);
    const smm_operand f = mixed_dense(t->factors, n, n, sizeof(float));
    const smm_operand b = mixed_dense(t->right, n, width, sizeof(float)),
                      x = mixed_dense(t->d, n, width, sizeof(float));
    smm_call c = mixed_call(call, call->form & SMM_POSITIVE ? SMM_OP_CHO_SOLVE : SMM_OP_LU_SOLVE, count, width);
    if (call->form & SMM_POSITIVE)
        c.cho_solve = (smm_cho_solve_operands){.a = f, .b = b, .x = x};
    else
        c.lu_solve = (smm_lu_solve_operands){.a = f, .pivots = {t->pivots, n * size, size, 0}, .b = b, .x = x};
    smm_run_nested(&c);
}

/* The largest magnitude of numbers that are so far apart, NaN if one is. */
INLINE vec mixed_largest(const vec *x, intptr_t step, intptr_t n) {
    vec most = lane_set(0);
    mask nan = lane_greater(most, most); /* nowhere */
    for (intptr_t i = 0; i < n; i++) {
        most = lane_max(lane_abs(x[i * step]), most);
        nan |= is_not_number(x[i * step]);
    }
    return lane_select(nan, lane_set(NAN), most);
}

/* Load, narrow and factor matrices q .. q+count-1 of the call. */
static void mixed_begin(const smm_call *call, mixed *t, intptr_t q, intptr_t count) {
    const intptr_t n = call->n;
    const vec overflows = lane_set((T)0x1.ffffffp127); /* what becomes infinite in float32 */
    for (intptr_t v = 0; v * LANES < count; v++) {
        const intptr_t some = min_of(LANES, count - v * LANES);
        vec *const a = t->a + v * n * n;
        const smm_operand dense = mixed_dense(t->wide, n, n, sizeof(T));
        lanes_load(a, &call->solve_mixed.a, q + v * LANES, n, n, some);
        lanes_store(&dense, 0, a, n, n, some);
        mixed_narrow(t->narrow + v * LANES * n * n, t->wide, some * n * n);
        t->bound[v] = lane_mul(infinity_norm(a, n), lane_set(0x1p-53 * SQRT((T)n)));
        const vec most = mixed_largest(a, 1, n * n);
        const mask overflowed =
            (lane_greater(most, overflows) | lane_equal(most, overflows)) & lane_greater(lane_set(INFINITY), most);
        t->code[v] = lane_select(overflowed, lane_set(MIXED_OVERFLOWED), lane_set(0));
    }
    mixed_factor(call, t, count);
    for (intptr_t v = 0; v * LANES < count; v++) {
        const smm_operand info = {t->info, sizeof *t->info, 0, 0};
        const vec singular = lanes_load_int(&info, v * LANES, 0, min_of(LANES, count - v * LANES));
        const mask is_singular = ~lane_equal(singular, lane_set(0)) & lane_equal(t->code[v], lane_set(0));
        t->code[v] = lane_select(is_singular, lane_set(MIXED_SINGULAR), t->code[v]);
    }
}

/* By what a residual is divided before it is narrowed: its largest magnitude, unless that is useless. */
INLINE vec mixed_size(vec most) {
    const mask useful = lane_greater(most, lane_set(0)) & lane_greater(lane_set(INFINITY), most);
    return lane_select(useful, most, lane_set(1));
}

/* r = b - A x of one column, whose elements in x and b are `width` apart; r is one. */
INLINE void mixed_residual(vec *r, const vec *a, const vec *x, const vec *b, intptr_t n, intptr_t width) {
    for (intptr_t i = 0; i < n; i += 4) { /* sums of several rows: one would wait for itself */
        const intptr_t rows = min_of(4, n - i);
        const vec *row[4];
        vec sum[4];
        UNROLLED(int l = 0; l < 4; l++) row[l] = a + (l < rows ? i + l : i) * n, sum[l] = lane_set(0);
        ROLLED(intptr_t k = 0; k < n; k++)
            UNROLLED(int l = 0; l < 4; l++) sum[l] = lane_fma(row[l][k], x[k * width], sum[l]);
        for (intptr_t l = 0; l < rows; l++) r[i + l] = lane_sub(b[(i + l) * width], sum[l]);
    }
}

/* Add the corrections d to x of vector v where a column goes on, and leave the next right-hand sides, scaled, in
 * t->wide. Whether a column goes on. */
static bool mixed_step(const smm_call *call, mixed *t, intptr_t v, intptr_t some, intptr_t width, int step) {
    const intptr_t n = call->n;
    const smm_operand dense = mixed_dense(t->wide, n, width, sizeof(T));
    vec *const x = t->x + v * n * width, *const b = t->b + v * n * width;
    vec y[SMM_MAX_ORDER * MIXED_COLUMNS];
    bool active = false;
    lanes_load(y, &dense, v * LANES, n, width, some);
    for (intptr_t c = 0; c < width; c++) {
        const mask ended = t->ended[v * width + c] | lane_greater(lane_set(0), t->code[v]);
        const vec size = t->size[v * width + c];
        vec r[SMM_MAX_ORDER];
        if (step) t->code[v] = lane_select(ended, t->code[v], lane_max(t->code[v], lane_set((T)step)));
        for (intptr_t i = 0; i < n; i++) {
            const vec next = lane_add(x[i * width + c], lane_mul(y[i * width + c], size));
            x[i * width + c] = lane_select(ended, x[i * width + c], next);
        }
        mixed_residual(r, t->a + v * n * n, x + c, b + c, n, width);
        const vec left = mixed_largest(r, 1, n);
        const vec most = lane_mul(mixed_largest(x + c, width, n), t->bound[v]);
        const mask done = lane_greater(most, left) | lane_equal(most, left);
        const mask hopeless = ~done & ~lane_greater(lane_set(INFINITY), left) & ~ended;
        t->code[v] = lane_select(hopeless, lane_set(MIXED_NOT_CONVERGED), t->code[v]);
        t->ended[v * width + c] = ended | done | hopeless;
        active |= lane_any(~t->ended[v * width + c]);
        t->size[v * width + c] = mixed_size(left);
        for (intptr_t i = 0; i < n; i++) y[i * width + c] = lane_div(r[i], t->size[v * width + c]);
    }
    lanes_store(&dense, v * LANES, y, n, width, some);
    return active;
}

/* Columns j .. j+width-1 of matrices q .. q+count-1. */
static void mixed_columns(const smm_call *call, mixed *t, intptr_t q, intptr_t count, intptr_t j, intptr_t width) {
    const intptr_t n = call->n;
    const smm_operand from = elem_columns(call->solve_mixed.b, j), to = elem_columns(call->solve_mixed.x, j);
    const smm_operand dense = mixed_dense(t->wide, n, width, sizeof(T));
    for (intptr_t v = 0; v * LANES < count; v++) {
        const intptr_t some = min_of(LANES, count - v * LANES);
        vec *const b = t->b + v * n * width, y[SMM_MAX_ORDER * MIXED_COLUMNS];
        lanes_load(b, &from, q + v * LANES, n, width, some);
        for (intptr_t c = 0; c < width; c++) {
            const vec size = mixed_size(mixed_largest(b + c, width, n));
            t->ended[v * width + c] = lane_greater(lane_set(0), t->code[v]);
            t->size[v * width + c] = size;
            for (intptr_t i = 0; i < n; i++) {
                t->x[(v * n + i) * width + c] = lane_set(0);
                y[i * width + c] = lane_div(b[i * width + c], size);
            }
        }
        lanes_store(&dense, v * LANES, y, n, width, some);
    }
    bool active = true;
    for (int step = 0; step <= MIXED_STEPS && active; step++) {
        mixed_narrow(t->right, t->wide, count * n * width);
        mixed_correct(call, t, count, width);
        mixed_widen(t->wide, t->d, count * n * width);
        active = false;
        for (intptr_t v = 0; v * LANES < count; v++)
            active |= mixed_step(call, t, v, min_of(LANES, count - v * LANES), width, step);
    }
    for (intptr_t v = 0; v * LANES < count; v++) {
        for (intptr_t c = 0; c < width && active; c++)
            t->code[v] = lane_select(t->ended[v * width + c], t->code[v], lane_set(MIXED_NOT_CONVERGED));
        lanes_store(&to, q + v * LANES, t->x + v * n * width, n, width, min_of(LANES, count - v * LANES));
    }
}

/* Matrix q in float64. */
static void mixed_fall_back(const smm_call *call, intptr_t q) {
    smm_call one = {.op = call->form & SMM_POSITIVE ? SMM_OP_SOLVE_POS : SMM_OP_SOLVE,
                    .dtype = SMM_F64,
                    .batch = 1,
                    .m = call->n,
                    .n = call->n,
                    .k = call->k};
    one.solve = (smm_solve_operands){call->solve_mixed.a, call->solve_mixed.b, call->solve_mixed.x,
                                     call->solve_mixed.info}; /* those of SOLVE_POS are the same */
    for (int i = 0; i < smm_operations[one.op].count; i++)
        if (one.operand[i].data) one.operand[i].data = (char *)one.operand[i].data + q * one.operand[i].batch;
    smm_run_nested(&one);
}

static void KERNEL(solve_mixed_lanes)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) {
    mixed *const t = (mixed *)((char *)smm_kernel_workspace() + SMM_KERNEL_WORKSPACE);
    const intptr_t tile = mixed_tile(call->n);
    (void)cold;
    for (intptr_t q = first; q < last; q += tile) {
        const intptr_t count = min_of(tile, last - q);
        if (call->k)
            mixed_begin(call, t, q, count);
        else /* nothing to solve, so nothing fails */
            memset(t->code, 0, sizeof t->code);
        for (intptr_t j = 0; j < call->k; j += MIXED_COLUMNS)
            mixed_columns(call, t, q, count, j, min_of(MIXED_COLUMNS, call->k - j));
        for (intptr_t v = 0; v * LANES < count; v++) {
            const intptr_t some = min_of(LANES, count - v * LANES);
            lanes_store_int(&call->solve_mixed.iterations, q + v * LANES, t->code[v], some);
            lanes_store_int(&call->solve_mixed.info, q + v * LANES, lane_set(0), some);
            const uint32_t bad = lane_bits(lane_greater(lane_set(0), t->code[v]));
            for (intptr_t l = 0; l < some && bad; l++)
                if (bad >> l & 1) mixed_fall_back(call, q + v * LANES + l);
        }
    }
}
