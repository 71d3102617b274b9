/* eig_lanes.h: eigenvalues and eigenvectors of general matrices, real and complex, LANES of them side by side:
 * Hessenberg form (eig_hessenberg.h), QR (eig_sweeps.h, eig_sweeps_complex.h), and here the vectors of the triangle
 * that is left, by back substitution (LAPACK's trevc and geev). The triangle itself is the Schur form, which is not
 * balanced (gees). */

/* Divisors are at least EIG_MIN_DIVISOR, and components of vectors are scaled down from EIG_MAX_COMPONENT on, so
 * that no square overflows. */
#if defined(SMM_KERNELS_F64)
#define EIG_MIN_DIVISOR 0x1p-400
#define EIG_MAX_COMPONENT 0x1p100
#else
#define EIG_MIN_DIVISOR 0x1p-50f
#define EIG_MAX_COMPONENT 0x1p20f
#endif

/* x / d */
INLINE pair eig_divide(pair x, pair d) {
    const vec back = lane_div(lane_set(1), lane_fma(d.im, d.im, lane_mul(d.re, d.re)));
    return pair_scale(pair_mul(x, pair_conj(d)), back);
}
INLINE pair eig_enough(pair d, vec least) {
    return pair_select(lane_greater(least, pair_size(d)), (pair){least, lane_set(0)}, d);
}

/* y_i -= t_ik y_k for the rows above `rows`. */
INLINE void eig_subtract_column(const eig_stack *x, pair *y, intptr_t k, pair y_k, intptr_t rows) {
    if (x->single) {
        const T *const t = single_element(x->h, k);
        const intptr_t step = x->step * (PARTS * LANES);
        ROLLED(intptr_t i = 0; i < rows; i++) y[i] = elem_fnma_pair(elem_spread(t + i * step), y_k, y[i]);
    } else {
        const elem *const t = x->h + k;
        ROLLED(intptr_t i = 0; i < rows; i++) y[i] = elem_fnma_pair(t[i * x->step], y_k, y[i]);
    }
}

#if !defined(REAL_DTYPE)
/* (z b; c z) y = (here; next), by elimination with the largest element as the pivot. */
INLINE void eig_solve_block(pair z, vec b, vec c, vec least, pair *here, pair *next) {
    const vec nothing = lane_set(0), size = pair_size(z), of_b = lane_abs(b), of_c = lane_abs(c);
    const mask wider = lane_greater(of_b, of_c), off = lane_greater(lane_max(of_b, of_c), size);
    const mask by_row = off & ~wider, by_column = off & wider;
    const pair at_b = {b, nothing}, at_c = {c, nothing};
    const pair p = eig_enough(pair_select(by_row, at_c, pair_select(by_column, at_b, z)), least);
    const pair q = pair_select(off, z, at_b), s = pair_select(off, z, at_c);
    const pair u = pair_select(by_row, at_b, pair_select(by_column, at_c, z));
    const pair r1 = pair_select(by_row, *next, *here), r2 = pair_select(by_row, *here, *next);
    const pair l = eig_divide(s, p), left = eig_enough(pair_fnma(l, q, u), least);
    const pair y2 = eig_divide(pair_fnma(l, r1, r2), left), y1 = eig_divide(pair_fnma(q, y2, r1), p);
    *here = pair_select(by_column, y2, y1);
    *next = pair_select(by_column, y1, y2);
}

/* Where rows i and i + 1 are a block. */
INLINE mask eig_is_block(const eig_stack *x, intptr_t i) {
    return i < 0 || i + 1 >= x->n ? eig_nowhere() : ~lane_equal(eig_get(eig_h(x), i + 1, i), lane_set(0));
}

/* The two numbers of an eigenvector in the rows of its own block: the first one real, the second imaginary. */
INLINE void eig_start_block(const eig_stack *x, intptr_t top, pair w, mask is, pair *y) {
    const eig_matrix h = eig_h(x);
    const vec b = eig_get(h, top, top + 1), c = eig_get(h, top + 1, top), im = lane_abs(w.im);
    const mask by_b = eig_at_least(lane_abs(b), lane_abs(c));
    const vec one = lane_set(1), nothing = lane_set(0);
    const vec p = lane_select(by_b, one, lane_div(lane_negate(im), c)), q = lane_select(by_b, lane_div(im, b), one);
    const vec own = lane_select(lane_greater(nothing, w.im), lane_negate(q), q);
    y[top] = pair_select(is, (pair){p, nothing}, y[top]);
    y[top + 1] = pair_select(is, (pair){nothing, own}, y[top + 1]);
}
#endif

/* Scale all of y down where component i is large. */
INLINE void eig_limit(pair *y, intptr_t i, intptr_t count, mask where) {
    const vec size = pair_size(y[i]);
    const mask large = where & lane_greater(size, lane_set(EIG_MAX_COMPONENT));
    if (__builtin_expect(!lane_any(large), 1)) return;
    const vec back = lane_select(large, lane_div(lane_set(1), size), lane_set(1));
    for (intptr_t k = 0; k < count; k++) y[k] = pair_scale(y[k], back);
}

/* (T - w_j I) y = 0, T being H, each lane having a j of its own from `first` to `last`; y_j = 1, or of a block one of
 * its two numbers. The result counts the rows of y. */
static intptr_t KERNEL(eig_solve)(const eig_stack *x, intptr_t first, intptr_t last, vec j, pair w, pair *y) {
    const intptr_t n = x->n;
    const eig_matrix h = eig_h(x);
    const vec small = lane_max(lane_mul(lane_set(2 * ROUNDOFF), pair_size(w)), lane_set(EIG_MIN_DIVISOR));
    const pair nothing = {lane_set(0), lane_set(0)}, one = {lane_set(1), lane_set(0)};
    for (intptr_t i = 0; i < n; i++) y[i] = nothing;
    intptr_t count = last + 1;
    vec top = j; /* the first row of a lane's own block */
    for (intptr_t i = first; i <= last; i++) {
        const mask here = lane_equal(j, lane_set((T)i));
        y[i] = pair_select(here, one, y[i]);
#if !defined(REAL_DTYPE)
        const mask begins = here & eig_is_block(x, i), ends = here & eig_is_block(x, i - 1);
        if (lane_any(begins)) {
            eig_start_block(x, i, w, begins, y);
            count = i + 2 > count ? i + 2 : count;
        }
        if (lane_any(ends)) {
            eig_start_block(x, i - 1, w, ends, y);
            top = lane_select(ends, lane_set((T)(i - 1)), top);
        }
#endif
    }
    for (intptr_t i = count - 1; i >= 0; i--) {
        const mask above = lane_greater(top, lane_set((T)i));
        const pair z = pair_sub(elem_to_pair(eig_get(h, i, i)), w);
        pair here = y[i];
        if (lane_any(above)) here = pair_select(above, eig_divide(here, eig_enough(z, small)), here);
#if !defined(REAL_DTYPE)
        const mask is_block = eig_is_block(x, i), waits = eig_is_block(x, i - 1), block = is_block & above;
        const mask own = is_block & lane_equal(top, lane_set((T)i));
        here = pair_select(waits, y[i], here);
        if (lane_any(block)) {
            pair upper = y[i], lower = y[i + 1];
            eig_solve_block(z, eig_get(h, i, i + 1), eig_get(h, i + 1, i), small, &upper, &lower);
            here = pair_select(block, upper, here);
            y[i + 1] = pair_select(block, lower, y[i + 1]);
        }
        y[i] = here;
        eig_limit(y, i, count, above & ~waits);
        if (lane_any(block)) eig_limit(y, i + 1, count, block);
        if (lane_any(own)) eig_subtract_column(x, y, i + 1, pair_select(own, y[i + 1], nothing), i);
        eig_subtract_column(x, y, i, pair_select(waits, nothing, y[i]), i);
        if (lane_any(block)) eig_subtract_column(x, y, i + 1, pair_select(block, y[i + 1], nothing), i);
#else
        y[i] = here;
        eig_limit(y, i, count, above);
        eig_subtract_column(x, y, i, y[i], i);
#endif
    }
    return count;
}

/* A few rows of columns of V = D Z Y. */
INLINE void eig_multiply_rows(const eig_stack *x, intptr_t i, const pair *y, intptr_t count, pair *v, intptr_t step,
                              const int rows) {
    enum { MAX = 4 };
    pair sum[MAX];
    UNROLLED(int r = 0; r < rows; r++) sum[r] = (pair){lane_set(0), lane_set(0)};
    if (x->single) {
        ROLLED(intptr_t k = 0; k < count; k++)
            UNROLLED(int r = 0; r < rows; r++)
                sum[r] = elem_fma_pair(single_get(x->z + k * x->step, i + r), y[k], sum[r]);
    } else {
        ROLLED(intptr_t k = 0; k < count; k++)
            UNROLLED(int r = 0; r < rows; r++) sum[r] = elem_fma_pair(x->z[(i + r) * x->step + k], y[k], sum[r]);
    }
    UNROLLED(int r = 0; r < rows; r++) v[(i + r) * step] = pair_scale(sum[r], x->balance[i + r]);
}

/* Column j of V, in each lane one from `first` to `last`, has norm 1, and its largest component, the first of equals,
 * is real and positive. */
static void KERNEL(eig_vector)(const eig_stack *x, intptr_t first, intptr_t last, vec j, pair w, pair *v,
                               intptr_t step) {
    const intptr_t n = x->n;
    pair y[SMM_MAX_ORDER];
    const intptr_t count = KERNEL(eig_solve)(x, first, last, j, w, y);
    intptr_t i = 0;
    for (; i + 4 <= n; i += 4) eig_multiply_rows(x, i, y, count, v, step, 4);
    for (; i < n; i++) eig_multiply_rows(x, i, y, count, v, step, 1);
    pairs_largest most = {{lane_set(1), lane_set(0)}, lane_set(0), lane_set(-1)};
    vec squares = lane_set(0);
    for (i = 0; i < n; i++) squares = lane_add(squares, pairs_consider(&most, v[i * step], i));
    const vec back = lane_div(lane_set(1), lane_sqrt(squares)), size = lane_mul(lane_sqrt(most.square), back);
    const pair turn = pair_scale(pairs_phase(&most), back);
    for (i = 0; i < n; i++) v[i * step] = pairs_turn(&most, turn, size, v[i * step], i);
}

INLINE eig_stack eig_stack_of(intptr_t n, bool vectors) {
    eig_workspace *const workspace = smm_kernel_workspace();
    return (eig_stack){
        .h = workspace->h, .z = workspace->z, .n = n, .step = row_step(n), .vectors = vectors, .to = n - 1};
}

INLINE void eig_iterate(eig_stack *x, const eig_matrix h) {
    const intptr_t most = EIG_SWEEPS * (x->n > EIG_MIN_ROWS ? x->n : EIG_MIN_ROWS);
    for (intptr_t sweep = 0; eig_find_windows(x, h, 2 * sweep >= most) && sweep < most; sweep++) eig_sweep(x, h);
}
static void KERNEL(eig_iterate)(eig_stack *x) { eig_iterate(x, (eig_matrix){x->h, x->step, false}); }
static void KERNEL(eig_iterate_single)(eig_stack *x) { eig_iterate(x, (eig_matrix){x->h, x->step, true}); }

/* The triangle, its eigenvalues and info. The result undoes the scaling, and is NaN where there are none. */
static vec KERNEL(eig_triangularise)(const smm_call *call, intptr_t q, eig_stack *x, pair *w, intptr_t count,
                                     bool balanced) {
    const intptr_t n = x->n;
    vec back;
    if (x->single) {
        const elem_matrix h = {x->h, n, n, x->step};
        single_load(h, &call->a, q);
        back = single_scale(h);
    } else {
        back = eig_load(call, q, x, count);
    }
    if (balanced) eig_balance(x);
    if (x->single)
        KERNEL(eig_single_reduce)(x);
    else
        KERNEL(eig_reduce)(x);
    x->lo = x->since = lane_set(0);
    x->hi = lane_set((T)(n - 1));
    if (x->single)
        KERNEL(eig_iterate_single)(x);
    else
        KERNEL(eig_iterate)(x);
    eig_finish(x, w);
    const vec info = lane_add(x->hi, lane_set(1));
    lanes_store_int(smm_info(call), q, info, count);
    return lane_select(lane_equal(info, lane_set(0)), back, lane_set(NAN));
}

INLINE void eig_store_values(const smm_call *call, intptr_t q, pair *w, vec times, intptr_t count) {
    const vec zero = lane_set(0);
    for (intptr_t j = 0; j < call->n; j++) {
        const pair y = pair_scale(w[j], times);
        w[j] = (pair){lane_add(y.re, zero), lane_add(y.im, zero)};
    }
    KERNEL(pairs_store)(&call->eig.w, q, w, call->n, 1, count);
}

static void KERNEL(eig_group)(const smm_call *call, intptr_t q, intptr_t count, bool vectors) {
    const intptr_t n = call->n;
    eig_workspace *const workspace = smm_kernel_workspace();
    eig_stack x = eig_stack_of(n, vectors);
    pair w[SMM_MAX_ORDER];
    const vec times = KERNEL(eig_triangularise)(call, q, &x, w, count, true), zero = lane_set(0);
    pair *const v =
        PARTS > 1 ? (pair *)workspace->z : workspace->v; /* column j of Z is in the columns of V up to j only */
    const intptr_t step = PARTS > 1 ? x.step : n;
    for (intptr_t j = n - 1; j >= 0 && vectors; j--) KERNEL(eig_vector)(&x, j, j, lane_set((T)j), w[j], v + j, step);
    eig_store_values(call, q, w, times, count);
    if (!vectors) return;
    gather_rows((lanes_matrix){(vec *)v, n, 2 * n, 2 * step}, 2 * n);
    KERNEL(pairs_store)(&call->eig.v, q, v, n, n, count);
    KERNEL(pairs_fill_nan)(&call->eig.v, q, lane_select(lane_equal(times, times), zero, lane_set(1)), n, n, count);
}

static void KERNEL(eig_lanes)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) {
    (void)cold;
    for (intptr_t q = first; q < last; q += LANES) KERNEL(eig_group)(call, q, min_of(LANES, last - q), true);
}
static void KERNEL(eigvals_lanes)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) {
    (void)cold;
    for (intptr_t q = first; q < last; q += LANES) KERNEL(eig_group)(call, q, min_of(LANES, last - q), false);
}

/* --- A matrix that is alone --------------------------------------------------------------------------------------- */

INLINE eig_stack eig_single_stack(intptr_t n, bool vectors) {
    eig_single *const own = smm_kernel_workspace();
    return (eig_stack){.h = own->h,
                       .z = own->z,
                       .single = own,
                       .n = n,
                       .step = single_matrix(NULL, n, n).step,
                       .vectors = vectors,
                       .to = n - 1};
}

/* By AVX-512 the lanes took 1.6, 2.6 and 4.6 times as long for vectors of one f64 matrix of order 16, 32 and 64,
 * and 1.1, 1.4 and 2.2 times for eigenvalues. From some order on they leave an L2 of 1 MB, and take longer even if all
 * are full. */
enum {
    EIG_SINGLE_FIRST = 80,
    EIG_SINGLE_EACH = 160 * PARTS,
    EIG_SINGLE_ALWAYS = PARTS == 1 && sizeof(vec) == 64 ? 104 : SMM_MAX_ORDER + 1,
    EIGVALS_SINGLE_FIRST = 160,
    EIGVALS_SINGLE_EACH = 480
};
static unsigned eig_single_needs(const smm_call *call) {
    if (call->n >= EIG_SINGLE_ALWAYS) return 0;
    return single_needs(call->batch, call->n, EIG_SINGLE_FIRST, EIG_SINGLE_EACH);
}
static unsigned eigvals_single_needs(const smm_call *call) {
    return single_needs(call->batch, call->n, EIGVALS_SINGLE_FIRST, EIGVALS_SINGLE_EACH);
}

/* Eigenvectors are LANES at a time, a column of V in each lane. */
static void KERNEL(eig_single_matrix)(const smm_call *call, intptr_t q, bool vectors) {
    const intptr_t n = call->n;
    eig_stack x = eig_single_stack(n, vectors);
    pair w[SMM_MAX_ORDER], *const v = x.single->v;
    const vec times = KERNEL(eig_triangularise)(call, q, &x, w, 1, true), zero = lane_set(0);
    const strides s = strides_of(&call->eig.v);
    for (intptr_t first = 0; first < n && vectors; first += LANES) {
        const intptr_t count = min_of(LANES, n - first);
        T j[LANES], re[LANES], im[LANES];
        for (int l = 0; l < LANES; l++) {
            const intptr_t at = first + min_of(l, count - 1);
            j[l] = (T)at, re[l] = w[at].re[0], im[l] = w[at].im[0];
        }
        const pair own = {lane_load(re), lane_load(im)};
        KERNEL(eig_vector)(&x, first, first + count - 1, lane_load(j), own, v, 1);
        for (intptr_t i = 0; i < n; i++)
            for (intptr_t l = 0; l < count; l++) {
                T *const to = (T *)call->eig.v.data + q * s.batch + i * s.row + (first + l) * s.col;
                to[0] = v[i].re[l], to[1] = v[i].im[l];
            }
    }
    eig_store_values(call, q, w, times, 1);
    if (vectors)
        KERNEL(pairs_fill_nan)(&call->eig.v, q, lane_select(lane_equal(times, times), zero, lane_set(1)), n, n, 1);
}

static void KERNEL(eig_single)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) {
    (void)cold;
    for (intptr_t q = first; q < last; q++) KERNEL(eig_single_matrix)(call, q, true);
}
static void KERNEL(eigvals_single)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) {
    (void)cold;
    for (intptr_t q = first; q < last; q++) KERNEL(eig_single_matrix)(call, q, false);
}

/* --- Schur forms -------------------------------------------------------------------------------------------------- */

/* One factor of A = Z T Z^H, with positive zeros. */
INLINE void schur_store(const smm_operand *to, intptr_t q, const eig_stack *x, elem *factor, vec times,
                        intptr_t count) {
    const intptr_t n = x->n, length = PARTS * n, step = PARTS * x->step;
    const vec zero = lane_set(0);
    vec *const parts = (vec *)factor;
    for (intptr_t i = 0; i < n; i++)
        for (intptr_t j = 0; j < length; j++)
            parts[i * step + j] = lane_add(lane_mul(parts[i * step + j], times), zero);
    gather_rows((lanes_matrix){parts, n, length, step}, length);
    KERNEL(elem_store)(to, q, factor, n, n, count);
    KERNEL(elem_fill_nan)(to, q, lane_select(lane_equal(times, times), zero, lane_set(1)), n, n, count);
}

static void KERNEL(schur_lanes)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) {
    (void)cold;
    for (intptr_t q = first; q < last; q += LANES) {
        const intptr_t count = min_of(LANES, last - q);
        eig_stack x = eig_stack_of(call->n, true);
        pair w[SMM_MAX_ORDER];
        const vec times = KERNEL(eig_triangularise)(call, q, &x, w, count, false);
        const mask has = lane_equal(times, times);
        schur_store(&call->schur.t, q, &x, x.h, times, count);
        schur_store(&call->schur.z, q, &x, x.z, lane_select(has, lane_set(1), times), count);
    }
}

INLINE void schur_store_single(smm_operand to, intptr_t q, const eig_stack *x, elem *factor, vec times,
                               bool transposed) {
    const elem_matrix a = {factor, x->n, x->n, x->step};
    for (intptr_t e = 0; e < a.m * a.step; e++) factor[e] = elem_add(elem_scale(factor[e], times), elem_set(0));
    const intptr_t row = to.row;
    if (transposed) to.row = to.col, to.col = row;
    single_store(&to, q, a);
    KERNEL(elem_fill_nan)(&to, q, lane_select(lane_equal(times, times), lane_set(0), lane_set(1)), a.n, a.n, 1);
}
static void KERNEL(schur_single)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) {
    (void)cold;
    for (intptr_t q = first; q < last; q++) {
        eig_stack x = eig_single_stack(call->n, true);
        pair w[SMM_MAX_ORDER];
        const vec times = KERNEL(eig_triangularise)(call, q, &x, w, 1, false);
        const mask has = lane_equal(times, times);
        schur_store_single(call->schur.t, q, &x, x.h, times, false);
        schur_store_single(call->schur.z, q, &x, x.z, lane_select(has, lane_set(1), times), true);
    }
}
