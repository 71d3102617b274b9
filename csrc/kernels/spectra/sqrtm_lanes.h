/* sqrtm_lanes.h: square roots of general matrices, LANES of them side by side, by way of their triangles
 * (eig_lanes.h): X = Z U Z^H, U^2 = T (Björck and Hammarling, A Schur method for the square root of a matrix, 1983).
 * Those of real matrices are complex meanwhile. */

/* A triangle, its rows `step` apart, and of a real matrix the turns that made it one: W = (c is; is c) for the rows and
 * columns k and k + 1 of each block (a b; c a). */
typedef struct sqrtm_stack {
    pair *u;
    intptr_t n, step;
    vec negative, without; /* eigenvalues; elements for which there is no number */
    vec finite;            /* 0, or NaN where elements overflow */
#if !defined(REAL_DTYPE)
    vec c[SMM_MAX_ORDER], s[SMM_MAX_ORDER];
#endif
} sqrtm_stack;

#if !defined(REAL_DTYPE)
/* (x; y) becomes W^H (x; y); with -s, W (x; y), and (x y) W. */
INLINE void sqrtm_turn(vec c, vec s, pair *x, pair *y) {
    const vec back = lane_negate(s);
    const pair old = *x;
    *x = (pair){lane_fma(s, y->im, lane_mul(c, old.re)), lane_fma(back, y->re, lane_mul(c, old.im))};
    *y = (pair){lane_fma(s, old.im, lane_mul(c, y->re)), lane_fma(back, old.re, lane_mul(c, y->im))};
}

/* U becomes W^H U W, of rows and columns k and k + 1. */
INLINE void sqrtm_turn_block(sqrtm_stack *x, intptr_t k, vec c, vec s) {
    const intptr_t n = x->n, step = x->step;
    pair *const rows = x->u + k * step;
    for (intptr_t j = k; j < n; j++) sqrtm_turn(c, s, &rows[j], &rows[step + j]);
    for (intptr_t i = 0; i <= k + 1; i++) sqrtm_turn(c, lane_negate(s), &x->u[i * step + k], &x->u[i * step + k + 1]);
}

/* A block, of which b c is negative, has the eigenvalues a + iw and a - iw, w^2 = -b c, and the vector (b; iw). */
INLINE void sqrtm_begin_block(sqrtm_stack *x, intptr_t k) {
    const vec zero = lane_set(0);
    pair *const here = x->u + k * (x->step + 1), *const next = here + x->step;
    const vec a = here->re, b = here[1].re, c = next->re;
    const mask has = ~lane_equal(c, zero);
    x->c[k] = lane_set(1), x->s[k] = zero;
    if (!lane_any(has)) return;
    const vec size = lane_sqrt(lane_add(lane_abs(b), lane_abs(c)));
    const vec of_b = lane_sqrt(lane_abs(b)), of_c = lane_sqrt(lane_abs(c)), own = lane_div(of_b, size);
    const vec w = lane_mul(of_b, of_c);
    x->c[k] = lane_select(has, lane_select(lane_greater(zero, b), lane_negate(own), own), x->c[k]);
    x->s[k] = lane_select(has, lane_div(of_c, size), zero);
    sqrtm_turn_block(x, k, x->c[k], x->s[k]);
    here[0] = pair_select(has, (pair){a, w}, here[0]);
    next[1] = pair_select(has, (pair){a, lane_negate(w)}, next[1]);
    next[0] = (pair){zero, zero};
}
#endif

/* The root whose real part is not negative; of a negative number the one above. */
INLINE pair sqrtm_root(pair z) {
    const vec zero = lane_set(0), size = lane_max(lane_abs(z.re), lane_abs(z.im)), root = lane_sqrt(size);
    const vec re = lane_div(z.re, size), im = lane_div(z.im, size), half_of = lane_set((T)0.5);
    const vec modulus = lane_sqrt(lane_fma(im, im, lane_mul(re, re)));
    const vec half = lane_sqrt(lane_mul(half_of, lane_add(lane_abs(re), modulus)));
    const vec large = lane_mul(half, root), small = lane_mul(lane_div(lane_mul(half_of, im), half), root);
    const mask below = lane_greater(zero, small);
    const pair swapped = pair_select(below, (pair){lane_negate(small), lane_negate(large)}, (pair){small, large});
    const pair y = pair_select(lane_greater(zero, re), swapped, (pair){large, small});
    return pair_select(lane_equal(size, zero), (pair){zero, zero}, y);
}

/* Element (i, j) of the root, from those below it and to the left. */
INLINE void sqrtm_element(sqrtm_stack *x, intptr_t i, intptr_t j) {
    const intptr_t step = x->step;
    const pair *const row = x->u + i * step, *const column = x->u + j;
    const vec zero = lane_set(0), one = lane_set(1);
    pair y = row[j], d = {lane_add(row[i].re, column[j * step].re), lane_add(row[i].im, column[j * step].im)};
    ROLLED(intptr_t k = i + 1; k < j; k++) y = pair_fnma(row[k], column[k * step], y);
    const mask none = lane_equal(lane_fma(d.im, d.im, lane_mul(d.re, d.re)), zero);
    const mask lost = none & ~(lane_equal(y.re, zero) & lane_equal(y.im, zero));
    x->without = lane_add(x->without, lane_select(lost, one, zero));
    const pair own = eig_divide(y, pair_select(none, (pair){one, zero}, d));
    x->finite = lane_fma(own.im, zero, lane_fma(own.re, zero, x->finite));
    x->u[i * step + j] = own;
}

/* X = Z U Z^H, row by row, U being a triangle, or of a real matrix a triangle and the diagonal below. */
INLINE void sqrtm_store(const smm_call *call, intptr_t q, const eig_stack *x, const sqrtm_stack *y, vec times,
                        intptr_t count) {
    const intptr_t n = x->n;
    const vec zero = lane_set(0);
    smm_operand to = call->sqrtm.x;
    for (intptr_t i = 0; i < n; i++, to.data = (char *)to.data + to.row) {
        pair row[SMM_MAX_ORDER], own[SMM_MAX_ORDER];
        const elem *const z = x->z + i * x->step;
        for (intptr_t j = 0; j < n; j++) {
            row[j] = (pair){zero, zero};
            ROLLED(intptr_t k = 0; k <= min_of(PARTS > 1 ? j : j + 1, n - 1); k++)
                row[j] = elem_fma_pair(z[k], y->u[k * y->step + j], row[j]);
        }
        for (intptr_t j = 0; j < n; j++) {
            pair sum = {zero, zero};
            ROLLED(intptr_t k = 0; k < n; k++) sum = elem_fma_pair(elem_conj(x->z[j * x->step + k]), row[k], sum);
            own[j] = (pair){lane_add(lane_mul(sum.re, times), zero), lane_add(lane_mul(sum.im, times), zero)};
        }
        KERNEL(pairs_store)(&to, q, own, 1, n, count);
    }
    const vec bad = lane_select(lane_equal(times, times), zero, lane_set(1));
    KERNEL(pairs_fill_nan)(&call->sqrtm.x, q, bad, n, n, count);
}

static void KERNEL(sqrtm_group)(const smm_call *call, intptr_t q, intptr_t count) {
    const intptr_t n = call->n;
    eig_workspace *const workspace = smm_kernel_workspace();
    eig_stack x = eig_stack_of(n, true);
    pair w[SMM_MAX_ORDER];
    const vec zero = lane_set(0), one = lane_set(1);
    const vec back = KERNEL(eig_triangularise)(call, q, &x, w, count, false);
    sqrtm_stack y = {.n = n, .negative = zero, .without = zero, .finite = zero};

    /* The root of an odd power of two is inexact. */
    const vec root = lane_sqrt(back);
    const mask odd = ~lane_equal(lane_fma(root, root, lane_negate(back)), zero);
    const vec grow = lane_select(odd, lane_set(2), one);
    vec times = lane_select(odd, lane_sqrt(lane_mul(lane_set((T)0.5), back)), root);
#if defined(REAL_DTYPE)
    (void)workspace;
    y.u = x.h, y.step = x.step;
    for (intptr_t i = 0; i < n; i++)
        for (intptr_t j = i; j < n; j++) y.u[i * y.step + j] = pair_scale(y.u[i * y.step + j], grow);
#else
    y.u = workspace->v, y.step = n;
    for (intptr_t i = 0; i < n; i++)
        for (intptr_t j = 0; j < n; j++) y.u[i * n + j] = (pair){lane_mul(x.h[i * x.step + j], grow), zero};
    for (intptr_t k = 0; k < n - 1; k++) sqrtm_begin_block(&y, k);
#endif
    for (intptr_t k = 0; k < n; k++) {
        const pair d = y.u[k * (y.step + 1)];
        const mask negative = lane_equal(d.im, zero) & lane_greater(zero, d.re) & lane_equal(back, back);
        y.negative = lane_add(y.negative, lane_select(negative, one, zero));
    }
    for (intptr_t j = 0; j < n; j++) {
        y.u[j * (y.step + 1)] = sqrtm_root(y.u[j * (y.step + 1)]);
        for (intptr_t i = j - 1; i >= 0; i--) sqrtm_element(&y, i, j);
    }
#if !defined(REAL_DTYPE)
    for (intptr_t k = 0; k < n - 1; k++)
        if (lane_any(~lane_equal(y.s[k], zero))) sqrtm_turn_block(&y, k, y.c[k], lane_negate(y.s[k]));
    const mask real = lane_equal(y.negative, zero);
    for (intptr_t e = 0; e < n * n; e++) y.u[e].im = lane_select(real, zero, y.u[e].im);
#endif
    y.without = lane_select(lane_equal(y.finite, zero), y.without, lane_add(y.without, one));
    const mask is = lane_equal(back, back), fails = is & ~lane_equal(y.without, zero);
    const vec own = lane_add(lane_add(x.hi, one), lane_select(is, y.without, zero));
    times = lane_select(fails, lane_set(NAN), times);
    lanes_store_int(smm_info(call), q, own, count);
    lanes_store_int(&call->sqrtm.negative, q, y.negative, count);
    sqrtm_store(call, q, &x, &y, times, count);
}

static void KERNEL(sqrtm_lanes)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) {
    (void)cold;
    for (intptr_t q = first; q < last; q += LANES) KERNEL(sqrtm_group)(call, q, min_of(LANES, last - q));
}
