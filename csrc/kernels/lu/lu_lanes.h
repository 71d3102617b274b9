/* lu_lanes.h: LU, solves and determinants, LANES matrices side by side, for orders n up to a constant height (rows
 * beyond n are zero, and stay out of everything; row i begins at i height). One column or two are in registers, and all
 * earlier steps are done to them (left-looking: nothing but the columns themselves is written), in the order exchange,
 * eliminate, exchange, eliminate, so that columns of L need not be exchanged to be used. Rows are exchanged by
 * selection: masks say in which matrices row i was the pivot of step k. */

enum { LU_LANES_MAX = 24 }; /* the greatest height */

/* What is known of LANES matrices besides their factors. */
typedef struct lu_group {
    vec r[LU_LANES_MAX];                    /* reciprocals of the pivots */
    mask swap[LU_LANES_MAX * LU_LANES_MAX]; /* k height + i: step k exchanged rows k and i */
    mask odd;                               /* an odd number of exchanges */
    vec info;
    bool tiny; /* some pivot has no exact reciprocal, being tiny, huge, zero, infinite or NaN */
} lu_group;

/* Rows looked through side by side for a pivot's, where there are many: each selection waits for the one before. */
enum { LU_CHAINS = VECTOR_REGISTERS >= 32 ? 4 : 1 };

/* Find the rows of step k's pivots in column k: of the largest |x_i|, i >= k, the first. swap[k]: where it is not k. */
INLINE mask lu_find(mask *swap, const vec *x, const int height, const int k) {
    vec most[2] = {lane_set(0), lane_set(0)};
    UNROLLED(int i = k + 1; i < height; i++) most[i & 1] = lane_max(lane_abs(x[i]), most[i & 1]);
    const vec largest = lane_max(most[0], most[1]);
    const mask any = lane_greater(largest, lane_abs(x[k])); /* false where x_k is NaN: it stays */
    mask open = any;
    UNROLLED(int i = k + 1; i < height; i++) {
        mask same = lane_equal(lane_abs(x[i]), largest);
        COMPARED(same);
        swap[i] = open & same;
        open &= ~same;
    }
    if (LU_CHAINS > 1) swap[k] = any;
    return any;
}

/* Exchange row k with the pivot's. */
INLINE void lu_exchange(vec *x, const mask *swap, const int height, const int k) {
    const bool many = LU_CHAINS > 1 && height - k > 2 * LU_CHAINS;
    const vec x_k = x[k];
    vec y[LU_CHAINS];
    UNROLLED(int e = 0; e < LU_CHAINS; e++) y[e] = lane_set(0);
    UNROLLED(int i = k + 1; i < height; i++) {
        const vec x_i = x[i];
        x[i] = lane_select(swap[i], x_k, x_i);
        if (many)
            y[i % LU_CHAINS] = lane_select(swap[i], x_i, y[i % LU_CHAINS]);
        else
            x[k] = lane_select(swap[i], x_i, x[k]);
    }
    UNROLLED(int e = 1; e < LU_CHAINS && many; e++) y[0] = lane_or(y[0], y[e]);
    if (many) x[k] = lane_select(swap[k], y[0], x_k);
}

/* x_i = x_i - l_ik x_k, i > k */
INLINE void lu_eliminate(vec *x, const vec *a, const int height, const int k) {
    UNROLLED(int i = k + 1; i < height; i++) x[i] = lane_fnma(a[i * height + k], x[k], x[i]);
}

/* x / p by the reciprocal r of p, where it is as exact as numbers are. */
INLINE vec lu_quotient(vec x, vec p, vec r) { return lane_select(lane_normal(r), lane_mul(x, r), lane_div(x, p)); }

/* Divide column k by pivots of which some have no exact reciprocal; note which are useless. */
INLINE void lu_divide(vec *a, lu_group *g, intptr_t height, intptr_t k) {
    const vec p = a[k * height + k];
    UNROLLED_BY_4(intptr_t i = k + 1; i < height; i++) a[i * height + k] = lu_quotient(a[i * height + k], p, g->r[k]);
    const mask first = useless(p) & lane_equal(g->info, lane_set(0));
    g->info = lane_select(first, lane_set((T)(k + 1)), g->info);
    g->tiny = true;
}
SHARED void KERNEL(lu_divide)(vec *a, lu_group *g, intptr_t height, intptr_t k) { lu_divide(a, g, height, k); }

/* Up to this order the columns unroll, and nothing but rare inlined code follows a pointer to the matrix, so that the
 * whole of it can be in registers. */
enum { LU_IN_REGISTERS = 3 };

/* Step k < j on column x. */
INLINE void lu_follow_step(vec *x, const vec *a, const lu_group *g, const int height, const int k) {
    lu_exchange(x, g->swap + k * height, height, k);
    lu_eliminate(x, a, height, k);
}

/* Step k on its own column; whether some pivot has no exact reciprocal. */
INLINE bool lu_own_step(vec *x, lu_group *g, const int height, const int k) {
    mask *const swap = g->swap + k * height;
    g->odd ^= lu_find(swap, x, height, k);
    lu_exchange(x, swap, height, k);
    const vec r = lane_div(lane_set(1), x[k]);
    const bool divide = lane_any(~lane_normal(r));
    if (__builtin_expect(!divide, 1))
        UNROLLED(int i = k + 1; i < height; i++) x[i] = lane_mul(x[i], r);
    g->r[k] = r;
    return divide;
}

/* x becomes column j, which is then divided by such pivots. */
INLINE void lu_put(vec *a, lu_group *g, const vec *x, const int height, const int j, bool divide) {
    UNROLLED(int i = 0; i < height; i++) a[i * height + j] = x[i];
    if (__builtin_expect(!divide, 1)) return;
    if (height <= LU_IN_REGISTERS)
        lu_divide(a, g, height, j);
    else
        KERNEL(lu_divide)(a, g, height, j);
}

/* Column j of A becomes that of L and U. */
INLINE void lu_column(vec *a, lu_group *g, const int height, const int j) {
    vec x[LU_LANES_MAX];
    bool divide = false;
    UNROLLED(int i = 0; i < height; i++) x[i] = a[i * height + j];
    UNROLLED(int k = 0; k < height; k++) { /* no way out of the loop before its end, or it would not unroll */
        if (k < j)
            lu_follow_step(x, a, g, height, k);
        else if (k == j)
            divide = lu_own_step(x, g, height, k);
    }
    lu_put(a, g, x, height, j, divide);
}

/* Columns j and j + 1, of which each has something to do while the other waits; j is even. */
INLINE void lu_pair(vec *a, lu_group *g, const int height, int j) {
    vec x[LU_LANES_MAX], y[LU_LANES_MAX];
    FORGET(j); /* or GCC would make a loop for each j */
    UNROLLED(int i = 0; i < height; i++) {
        x[i] = a[i * height + j];
        y[i] = a[i * height + j + 1];
    }
    UNROLLED(int k = 0; k + 1 < height; k += 2) {
        if (k < j) {
            lu_follow_step(x, a, g, height, k);
            lu_follow_step(y, a, g, height, k);
            lu_follow_step(x, a, g, height, k + 1);
            lu_follow_step(y, a, g, height, k + 1);
        } else if (k == j) {
            lu_put(a, g, x, height, k, lu_own_step(x, g, height, k));
            lu_follow_step(y, a, g, height, k);
            lu_put(a, g, y, height, k + 1, lu_own_step(y, g, height, k + 1));
        }
    }
}

/* Arrays have constant sizes, or they would not be taken apart into registers. */
enum { LU_GROUPS = 4, LU_WORKSPACE = LU_LANES_MAX * LU_LANES_MAX };

/* Groups under way; those of small matrices are in registers. */
typedef struct lu_stack {
    vec a[LU_WORKSPACE];
    lu_group g[LU_GROUPS];
} lu_stack;
_Static_assert(sizeof(lu_stack) <= SMM_KERNEL_WORKSPACE, "workspace of lu_lanes");

/* Up to this height, n is the height. */
enum { LU_EXACT = 8 };

/* Above and up to which heights columns go in pairs: two must fit the registers, and pay. */
enum { LU_SMALL = 5, LU_PAIRED = 14 };
INLINE bool lu_is_paired(const int height) {
    return VECTOR_REGISTERS >= 32 && height > LU_SMALL && height <= LU_PAIRED;
}

/* Factor `groups` times LANES matrices, so that while one waits for its pivots there is work on others. */
INLINE void lu_factor(vec *a, lu_group *g, const int height, intptr_t n, const intptr_t groups, bool cold,
                      const T *next) {
    for (intptr_t l = 0; l < groups; l++) {
        g[l].info = lane_set(0);
        g[l].odd = lane_greater(g[l].info, g[l].info);
        g[l].tiny = false;
    }
    if (height <= LU_IN_REGISTERS) {
        if (cold) prefetch(next, LANES * n * n);
        UNROLLED(int j = 0; j < height; j++) lu_column(a, g, height, j);
        return;
    }
    const int paired = lu_is_paired(height) ? (int)n / 2 * 2 : 0;
    ROLLED(int j = 0; j < paired; j += 2)
        ROLLED(intptr_t l = 0; l < groups; l++) {
            if (cold) prefetch(next + (j * groups + 2 * l) * LANES * n, 2 * LANES * n);
            lu_pair(a + l * height * height, &g[l], height, j);
        }
    ROLLED(int j = paired; j < n; j++)
        ROLLED(intptr_t l = 0; l < groups; l++) {
            if (cold) prefetch(next + (j * groups + l) * LANES * n, LANES * n);
            lu_column(a + l * height * height, &g[l], height, j);
        }
}

/* Load and factor the matrices from q on, at most `most` groups of them; how many groups it were. */
INLINE intptr_t lu_begin_lanes(const smm_call *call, intptr_t q, intptr_t last, bool cold, vec *a, lu_group *g,
                               const int height, const int most) {
    const intptr_t n = height <= LU_EXACT ? height : call->n;
    const intptr_t groups = most == 1 ? 1 : min_of(most, (last - q + LANES - 1) / LANES);
    for (intptr_t l = 0; l < groups; l++) {
        vec *const to = a + l * height * height;
        const intptr_t count = min_of(LANES, last - q - l * LANES);
        lanes_load(to, &call->a, q + l * LANES, n, n, count);
        for (intptr_t i = n; i-- > 0 && n < height;)
            for (intptr_t j = n; j-- > 0;) to[i * height + j] = to[i * n + j];
        for (intptr_t i = n; i < height; i++)
            for (intptr_t j = 0; j < n; j++) to[i * height + j] = lane_set(0);
    }
    lu_factor(a, g, height, n, groups, cold, ahead_of(&call->a, q, groups * LANES * n * n));
    for (intptr_t l = 0; l < groups; l++)
        lanes_store_int(smm_info(call), q + l * LANES, g[l].info, min_of(LANES, last - q - l * LANES));
    return groups;
}

/* x = the solution of A x = x; tiny: some pivot has no exact reciprocal */
INLINE void lu_substitute(vec *x, const vec *a, const lu_group *g, const int height, intptr_t n, const bool tiny) {
    UNROLLED(int k = 0; k < height; k++)
        if (k < n) {
            lu_exchange(x, g->swap + k * height, height, k);
            lu_eliminate(x, a, height, k);
        }
    UNROLLED(int j = height - 1; j >= 0; j--)
        if (j < n) {
            x[j] = tiny ? lu_quotient(x[j], a[j * height + j], g->r[j]) : lane_mul(x[j], g->r[j]);
            UNROLLED(int i = 0; i < j; i++) x[i] = lane_fnma(a[i * height + j], x[j], x[i]);
        }
}

/* The same where some pivot has no exact reciprocal; elements of x are `step` apart. */
SHARED void KERNEL(lu_substitute_tiny)(vec *x, intptr_t step, const vec *a, const lu_group *g, intptr_t height,
                                       intptr_t n) {
    vec y[LU_LANES_MAX];
    for (intptr_t i = 0; i < n; i++) y[i] = x[i * step];
    for (intptr_t k = 0; k < n; k++) {
        for (intptr_t i = k + 1; i < n; i++) {
            const mask swap = g->swap[k * height + i];
            const vec y_i = y[i], y_k = y[k];
            y[i] = lane_select(swap, y_k, y_i);
            y[k] = lane_select(swap, y_i, y_k);
        }
        for (intptr_t i = k + 1; i < n; i++) y[i] = lane_fnma(a[i * height + k], y[k], y[i]);
    }
    for (intptr_t j = n - 1; j >= 0; j--) {
        y[j] = lu_quotient(y[j], a[j * height + j], g->r[j]);
        for (intptr_t i = 0; i < j; i++) y[i] = lane_fnma(a[i * height + j], y[j], y[i]);
    }
    for (intptr_t i = 0; i < n; i++) x[i * step] = y[i];
}

/* Do the exchanges of the steps after k to column k of L; or to columns k and k + 1, those after it. */
INLINE void lu_permute(vec *a, const lu_group *g, const int height, intptr_t n, const int k, const bool pair) {
    vec x[LU_LANES_MAX], y[LU_LANES_MAX];
    UNROLLED(int i = 1; i < height; i++) {
        x[i] = a[i * height + k];
        if (pair) y[i] = a[i * height + k + 1];
    }
    UNROLLED(int i = 1; i < height; i++)
        if (i > k && i < n) {
            lu_exchange(x, g->swap + i * height, height, i);
            if (pair && i > k + 1) lu_exchange(y, g->swap + i * height, height, i);
        }
    UNROLLED(int i = 1; i < height; i++) {
        if (i > k) a[i * height + k] = x[i];
        if (pair && i > k + 1) a[i * height + k + 1] = y[i];
    }
}

/* Up to this height steps find their pivots' rows without a loop. */
enum { LU_FEW_PIVOTS = 12 };

/* Row exchanged with row k; from a useless pivot on, none. */
INLINE vec lu_pivot(const lu_group *g, const int height, const int k) {
    const vec here = lane_set((T)k);
    vec row = here;
    if (height <= LU_FEW_PIVOTS)
        UNROLLED(int i = k + 1; i < height; i++) row = lane_select(g->swap[k * height + i], lane_set((T)i), row);
    else
        ROLLED(int i = k + 1; i < height; i++) row = lane_select(g->swap[k * height + i], lane_set((T)i), row);
    const mask end = lane_greater(g->info, lane_set(0)) & lane_greater(lane_set((T)(k + 2)), g->info);
    return lane_select(end, here, row);
}

INLINE void lu_end(const smm_call *call, intptr_t q, intptr_t count, vec *a, const lu_group *g, const int height) {
    const intptr_t n = height <= LU_EXACT ? height : call->n;
    if (height <= LU_IN_REGISTERS)
        UNROLLED(int k = 0; k + 2 < height; k++) lu_permute(a, g, height, n, k, false);
    else if (lu_is_paired(height))
        ROLLED(int k = 0; k + 2 < n; k += 2) lu_permute(a, g, height, n, k, true);
    else
        ROLLED(int k = 0; k + 2 < n; k++) lu_permute(a, g, height, n, k, false);
    for (intptr_t i = 0; i < n && n < height; i++)
        for (intptr_t j = 0; j < n; j++) a[i * n + j] = a[i * height + j];
    lanes_store(&call->lu.lu, q, a, n, n, count);
    lanes_fill_nan(&call->lu.lu, q, g->info, n, n, count);
    vec pivots[LU_LANES_MAX];
    if (height <= LU_FEW_PIVOTS)
        UNROLLED(int k = 0; k < height; k++) {
            if (k < n) pivots[k] = lu_pivot(g, height, k);
        }
    else
        ROLLED(int k = 0; k < n; k++) pivots[k] = lu_pivot(g, height, k);
    if (height <= LU_EXACT)
        lanes_store_ints(&call->lu.pivots, q, pivots, height, count);
    else
        KERNEL(lanes_store_ints)(&call->lu.pivots, q, pivots, n, count);
}

/* Each kernel is given its order's lu_begin_lanes, which the three share. */
typedef intptr_t lu_begin_fn(const smm_call *call, intptr_t q, intptr_t last, bool cold, vec *a, lu_group *g);
INLINE intptr_t lu_call(lu_begin_fn *begin, const smm_call *call, intptr_t q, intptr_t last, bool cold, vec *a,
                        lu_group *g, const int height) {
    return height <= LU_IN_REGISTERS ? lu_begin_lanes(call, q, last, cold, a, g, height, 1)
                                     : begin(call, q, last, cold, a, g);
}

/* What becomes of the factors of matrices q .. q+count-1. */
typedef void lu_use_fn(const smm_call *call, intptr_t q, intptr_t count, vec *a, const lu_group *g, const int height);

INLINE void lu_each(const smm_call *call, intptr_t first, intptr_t last, bool cold, lu_begin_fn *begin, lu_use_fn *use,
                    const int height) {
    lu_stack *const workspace = height <= LU_IN_REGISTERS ? NULL : smm_kernel_workspace();
    for (intptr_t q = first; q < last;) {
        lu_stack own, *const s = height <= LU_IN_REGISTERS ? &own : workspace;
        vec *const a = s->a;
        lu_group *const g = s->g;
        const intptr_t groups = lu_call(begin, call, q, last, cold, a, g, height);
        for (intptr_t l = 0; l < groups; l++, q += LANES)
            use(call, q, min_of(LANES, last - q), a + l * height * height, &g[l], height);
    }
}

INLINE void lu_lanes(const smm_call *call, intptr_t first, intptr_t last, bool cold, lu_begin_fn *begin,
                     const int height) {
    lu_each(call, first, last, cold, begin, lu_end, height);
}

/* Right-hand sides j .. j+width-1 of matrices q .. q+count-1. */
INLINE void lu_solve_block(const smm_call *call, intptr_t q, intptr_t count, intptr_t j, const intptr_t width,
                           const vec *a, const lu_group *g, const int height) {
    const intptr_t n = height <= LU_EXACT ? height : call->n;
    const smm_operand b = elem_columns(call->solve.b, j), c = elem_columns(call->solve.x, j);
    vec x[LU_LANES_MAX * BLOCK];
    lanes_load(x, &b, q, n, width, count);
    ROLLED(intptr_t l = 0; l < width; l++) {
        if (__builtin_expect(g->tiny, 0) && height > LU_IN_REGISTERS) {
            KERNEL(lu_substitute_tiny)(x + l, width, a, g, height, n);
            continue;
        }
        vec y[LU_LANES_MAX];
        UNROLLED(int i = 0; i < height; i++) y[i] = i < n ? x[i * width + l] : lane_set(0);
        if (__builtin_expect(g->tiny, 0) && height <= LU_IN_REGISTERS)
            lu_substitute(y, a, g, height, n, true);
        else
            lu_substitute(y, a, g, height, n, false);
        UNROLLED(int i = 0; i < height; i++)
            if (i < n) x[i * width + l] = y[i];
    }
    lanes_store(&c, q, x, n, width, count);
    lanes_fill_nan(&c, q, g->info, n, width, count);
}

INLINE void lu_solve_blocks(const smm_call *call, intptr_t q, intptr_t count, vec *a, const lu_group *g,
                            const int height) {
    if (call->k == 1)
        lu_solve_block(call, q, count, 0, 1, a, g, height);
    else
        for (intptr_t j = 0; j < call->k; j += BLOCK)
            lu_solve_block(call, q, count, j, min_of(BLOCK, call->k - j), a, g, height);
}

INLINE void solve_lanes(const smm_call *call, intptr_t first, intptr_t last, bool cold, lu_begin_fn *begin,
                        const int height) {
    lu_each(call, first, last, cold, begin, lu_solve_blocks, height);
}

/* From the diagonal of U. */
INLINE void det_end(const smm_call *call, intptr_t q, intptr_t count, vec *a, const lu_group *g, const int height) {
    const intptr_t n = height <= LU_EXACT ? height : call->n;
    lu_determinants(call, q, count, a, height + 1, n, g->odd, g->odd);
}

INLINE void det_lanes(const smm_call *call, intptr_t first, intptr_t last, bool cold, lu_begin_fn *begin,
                      const int height) {
    lu_each(call, first, last, cold, begin, det_end, height);
}

/* For orders above the height, not for this kernel. */
INLINE unsigned lu_lanes_needs(const smm_call *call, intptr_t height) {
    return call->n == height || (height > LU_EXACT && call->n < height) ? 0 : SMM_UNFIT;
}
