/* sqrtm_lanes.h: square roots of general matrices, LANES of them side by side, by way of their triangles
 * (eig_lanes.h): X = Z U Z^H, U^2 = T (Björck and Hammarling, A Schur method for the square root of a matrix, 1983).
 * Those of real matrices are complex meanwhile. A matrix that is alone has its columns in the lanes (single.h), and a
 * text of its own for what takes n^3 operations. */

/* A triangle, its rows `step` apart, and of a real matrix the turns that made it one: W = (c is; is c) for the rows and
 * columns k and k + 1 of each block (a b; c a). */
typedef struct sqrtm_stack {
    pair *u;
    intptr_t n, step;
    bool single;
    vec negative, without; /* eigenvalues; elements for which there is no number */
    vec finite;            /* 0, or NaN where elements overflow */
#if !defined(REAL_DTYPE)
    vec c[SMM_MAX_ORDER], s[SMM_MAX_ORDER];
#endif
} sqrtm_stack;

/* Number j of a row of a matrix that is alone, spread; and of any. */
INLINE T *sqrtm_number(const pair *row, intptr_t j) { return (T *)row + j / LANES * (2 * LANES) + j % LANES; }
INLINE pair sqrtm_spread(const pair *row, intptr_t j) {
    const T *const at = sqrtm_number(row, j);
    return (pair){lane_set(at[0]), lane_set(at[LANES])};
}
INLINE pair sqrtm_get(const sqrtm_stack *x, intptr_t i, intptr_t j) {
    const pair *const row = x->u + i * x->step;
    return __builtin_expect(x->single, 0) ? sqrtm_spread(row, j) : row[j];
}
INLINE void sqrtm_put(const sqrtm_stack *x, intptr_t i, intptr_t j, pair y) {
    pair *const row = x->u + i * x->step;
    if (__builtin_expect(x->single, 0)) {
        T *const at = sqrtm_number(row, j);
        at[0] = y.re[0], at[LANES] = y.im[0];
    } else {
        row[j] = y;
    }
}

#if !defined(REAL_DTYPE)
/* (x; y) becomes W^H (x; y); with -s, W (x; y), and (x y) W. */
INLINE void sqrtm_turn(vec c, vec s, pair *x, pair *y) {
    const vec back = lane_negate(s);
    const pair old = *x;
    *x = (pair){lane_fma(s, y->im, lane_mul(c, old.re)), lane_fma(back, y->re, lane_mul(c, old.im))};
    *y = (pair){lane_fma(s, old.im, lane_mul(c, y->re)), lane_fma(back, old.re, lane_mul(c, y->im))};
}

INLINE void sqrtm_turn_numbers(const sqrtm_stack *x, vec c, vec s, intptr_t i, intptr_t j, intptr_t below,
                               intptr_t right) {
    pair first = sqrtm_get(x, i, j), second = sqrtm_get(x, i + below, j + right);
    sqrtm_turn(c, s, &first, &second);
    sqrtm_put(x, i, j, first), sqrtm_put(x, i + below, j + right, second);
}

/* U becomes W^H U W, of rows and columns k and k + 1. */
INLINE void sqrtm_turn_block(const sqrtm_stack *x, intptr_t k, vec c, vec s) {
    for (intptr_t j = k; j < x->n; j++) sqrtm_turn_numbers(x, c, s, k, j, 1, 0);
    for (intptr_t i = 0; i <= k + 1; i++) sqrtm_turn_numbers(x, c, lane_negate(s), i, k, 0, 1);
}

/* A block, of which b c is negative, has the eigenvalues a + iw and a - iw, w^2 = -b c, and the vector (b; iw). It
 * becomes (a + iw, b + c; 0, a - iw), as a is on the whole diagonal. Rounding a in the turn would give an error that
 * the root divides by the sum of two roots, which is small near the negative axis. */
INLINE void sqrtm_begin_block(sqrtm_stack *x, intptr_t k) {
    const vec zero = lane_set(0);
    const vec a = sqrtm_get(x, k, k).re, b = sqrtm_get(x, k, k + 1).re, c = sqrtm_get(x, k + 1, k).re;
    const mask has = ~lane_equal(c, zero);
    x->c[k] = lane_set(1), x->s[k] = zero;
    if (!lane_any(has)) return;
    const vec size = lane_sqrt(lane_add(lane_abs(b), lane_abs(c)));
    const vec of_b = lane_sqrt(lane_abs(b)), of_c = lane_sqrt(lane_abs(c)), own = lane_div(of_b, size);
    const vec w = lane_mul(of_b, of_c);
    x->c[k] = lane_select(has, lane_select(lane_greater(zero, b), lane_negate(own), own), x->c[k]);
    x->s[k] = lane_select(has, lane_div(of_c, size), zero);
    sqrtm_turn_block(x, k, x->c[k], x->s[k]);
    sqrtm_put(x, k, k, pair_select(has, (pair){a, w}, sqrtm_get(x, k, k)));
    sqrtm_put(x, k, k + 1, pair_select(has, (pair){lane_add(b, c), zero}, sqrtm_get(x, k, k + 1)));
    sqrtm_put(x, k + 1, k + 1, pair_select(has, (pair){a, lane_negate(w)}, sqrtm_get(x, k + 1, k + 1)));
    sqrtm_put(x, k + 1, k, (pair){zero, zero});
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

/* An element of the root: what is left of that of T, by the sum of its row's and its column's diagonals. */
INLINE pair sqrtm_quotient(sqrtm_stack *x, pair y, pair of_row, pair of_column) {
    const vec zero = lane_set(0), one = lane_set(1);
    const pair d = {lane_add(of_row.re, of_column.re), lane_add(of_row.im, of_column.im)};
    const mask none = lane_equal(lane_fma(d.im, d.im, lane_mul(d.re, d.re)), zero);
    const mask lost = none & ~(lane_equal(y.re, zero) & lane_equal(y.im, zero));
    x->without = lane_add(x->without, lane_select(lost, one, zero));
    const pair own = eig_divide(y, pair_select(none, (pair){one, zero}, d));
    x->finite = lane_fma(own.im, zero, lane_fma(own.re, zero, x->finite));
    return own;
}

/* Above the diagonal, which is one of roots: column by column, each element from those below it and to the left; */
INLINE void sqrtm_columns(sqrtm_stack *x) {
    const intptr_t step = x->step;
    for (intptr_t j = 0; j < x->n; j++)
        for (intptr_t i = j - 1; i >= 0; i--) {
            pair *const row = x->u + i * step, *const column = x->u + j;
            pair y = row[j];
            ROLLED(intptr_t k = i + 1; k < j; k++) y = pair_fnma(row[k], column[k * step], y);
            row[j] = sqrtm_quotient(x, y, row[i], column[j * step]);
        }
}

/* or row by row, each element being taken off those to the right. */
static void KERNEL(sqrtm_single_rows)(sqrtm_stack *x) {
    const intptr_t n = x->n, blocks = single_blocks(n);
    for (intptr_t i = n - 2; i >= 0; i--) {
        pair *const row = x->u + i * x->step;
        for (intptr_t k = i + 1; k < n; k++) {
            const pair *const other = x->u + k * x->step;
            const pair own = sqrtm_quotient(x, sqrtm_spread(row, k), sqrtm_spread(row, i), sqrtm_spread(other, k));
            sqrtm_put(x, i, k, own);
            for (intptr_t b = (k + 1) / LANES; b < blocks; b++)
                row[b] = pair_select(single_from(b * LANES, k + 1), pair_fnma(own, other[b], row[b]), row[b]);
        }
    }
}

INLINE pair sqrtm_result(pair sum, vec times) {
    const vec zero = lane_set(0);
    return (pair){lane_add(lane_mul(sum.re, times), zero), lane_add(lane_mul(sum.im, times), zero)};
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
            own[j] = sqrtm_result(sum, times);
        }
        KERNEL(pairs_store)(&to, q, own, 1, n, count);
    }
}

/* Vectors of row i of Z Y, or of Y Z^H, Y being a row: Z^T is what there is. */
INLINE void sqrtm_single_strip(pair *to, const eig_stack *x, const pair *y, intptr_t step, intptr_t i, intptr_t b,
                               const bool left, const int width) {
    pair sum[SINGLE_STRIP];
    UNROLLED(int e = 0; e < width; e++) sum[e] = (pair){lane_set(0), lane_set(0)};
    ROLLED(intptr_t k = 0; k < x->n; k++) {
        const elem *const z = x->z + k * x->step;
        UNROLLED(int e = 0; e < width; e++)
            sum[e] = left ? elem_fma_pair(single_get(z, i), y[k * step + b + e], sum[e])
                          : elem_fma_pair(elem_conj(z[b + e]), sqrtm_spread(y, k), sum[e]);
    }
    UNROLLED(int e = 0; e < width; e++) to[b + e] = sum[e];
}
INLINE void sqrtm_single_product(pair *to, const eig_stack *x, const pair *y, intptr_t step, intptr_t i,
                                 const bool left) {
    const intptr_t end = single_blocks(x->n);
    intptr_t b = 0;
    for (; b + SINGLE_STRIP <= end; b += SINGLE_STRIP) sqrtm_single_strip(to, x, y, step, i, b, left, SINGLE_STRIP);
    for (; b < end; b++) sqrtm_single_strip(to, x, y, step, i, b, left, 1);
}

static void KERNEL(sqrtm_single_store)(const smm_call *call, intptr_t q, const eig_stack *x, const sqrtm_stack *y,
                                       vec times) {
    const strides s = strides_of(&call->sqrtm.x);
    for (intptr_t i = 0; i < x->n; i++) {
        pair row[SINGLE_STEP], own[SINGLE_STEP];
        sqrtm_single_product(row, x, y->u, y->step, i, true);
        sqrtm_single_product(own, x, row, 0, i, false);
        for (intptr_t b = 0; b < single_blocks(x->n); b++) own[b] = sqrtm_result(own[b], times);
        T *const to = (T *)call->sqrtm.x.data + q * s.batch + i * s.row;
        for (intptr_t j = 0; j < x->n; j++) {
            const T *const from = sqrtm_number(own, j);
            to[j * s.col] = from[0], to[j * s.col + 1] = from[LANES];
        }
    }
}

/* Of LANES matrices, or of one that is alone; U has its place. */
static void KERNEL(sqrtm_find)(const smm_call *call, intptr_t q, intptr_t count, eig_stack *x, sqrtm_stack *y) {
    const intptr_t n = call->n, length = y->single ? single_blocks(n) : n;
    pair w[SMM_MAX_ORDER];
    const vec zero = lane_set(0), one = lane_set(1);
    const vec back = KERNEL(eig_triangularise)(call, q, x, w, count, false);
    y->n = n, y->negative = y->without = y->finite = zero;

    /* The root of an odd power of two is inexact. */
    const vec root = lane_sqrt(back);
    const mask odd = ~lane_equal(lane_fma(root, root, lane_negate(back)), zero);
    const vec grow = lane_select(odd, lane_set(2), one);
    vec times = lane_select(odd, lane_sqrt(lane_mul(lane_set((T)0.5), back)), root);
    for (intptr_t i = 0; i < n; i++)
        for (intptr_t j = 0; j < length; j++)
            y->u[i * y->step + j] = pair_scale(elem_to_pair(x->h[i * x->step + j]), grow);
#if !defined(REAL_DTYPE)
    for (intptr_t k = 0; k < n - 1; k++) sqrtm_begin_block(y, k);
#endif
    for (intptr_t k = 0; k < n; k++) {
        const pair d = sqrtm_get(y, k, k);
        const mask negative = lane_equal(d.im, zero) & lane_greater(zero, d.re) & lane_equal(back, back);
        y->negative = lane_add(y->negative, lane_select(negative, one, zero));
        sqrtm_put(y, k, k, sqrtm_root(d));
    }
    if (y->single)
        KERNEL(sqrtm_single_rows)(y);
    else
        sqrtm_columns(y);
#if !defined(REAL_DTYPE)
    for (intptr_t k = 0; k < n - 1; k++)
        if (lane_any(~lane_equal(y->s[k], zero))) sqrtm_turn_block(y, k, y->c[k], lane_negate(y->s[k]));
    const mask real = lane_equal(y->negative, zero);
    for (intptr_t i = 0; i < n; i++)
        for (intptr_t j = 0; j < length; j++) {
            pair *const u = &y->u[i * y->step + j];
            u->im = lane_select(real, zero, u->im);
        }
#endif
    y->without = lane_select(lane_equal(y->finite, zero), y->without, lane_add(y->without, one));
    const mask is = lane_equal(back, back), fails = is & ~lane_equal(y->without, zero);
    const vec own = lane_add(lane_add(x->hi, one), lane_select(is, y->without, zero));
    times = lane_select(fails, lane_set(NAN), times);
    lanes_store_int(smm_info(call), q, own, count);
    lanes_store_int(&call->sqrtm.negative, q, y->negative, count);
    if (y->single)
        KERNEL(sqrtm_single_store)(call, q, x, y, times);
    else
        sqrtm_store(call, q, x, y, times, count);
    const vec bad = lane_select(lane_equal(times, times), zero, one);
    KERNEL(pairs_fill_nan)(&call->sqrtm.x, q, bad, n, n, count);
}

static void KERNEL(sqrtm_lanes)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) {
    (void)cold;
    eig_workspace *const workspace = smm_kernel_workspace();
    for (intptr_t q = first; q < last; q += LANES) {
        eig_stack x = eig_stack_of(call->n, true);
        sqrtm_stack y = {.u = PARTS > 1 ? (pair *)x.h : workspace->v, .step = PARTS > 1 ? x.step : x.n};
        KERNEL(sqrtm_find)(call, q, min_of(LANES, last - q), &x, &y);
    }
}

/* By AVX-512 the lanes took 1.2, 2.5, 4.6 and 11 times as long for one f64 matrix of order 16, 32, 64 and 128. */
enum { SQRTM_SINGLE_FIRST = 100, SQRTM_SINGLE_EACH = (sizeof(vec) == 64 ? 12 : 40 * PARTS) * LANES };
static unsigned sqrtm_single_needs(const smm_call *call) {
    return single_needs(call->batch, call->n, SQRTM_SINGLE_FIRST, SQRTM_SINGLE_EACH);
}
static void KERNEL(sqrtm_single)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) {
    (void)cold;
    for (intptr_t q = first; q < last; q++) {
        eig_stack x = eig_single_stack(call->n, true);
        sqrtm_stack y = {.u = PARTS > 1 ? (pair *)x.h : x.single->u, .step = x.step, .single = true};
        KERNEL(sqrtm_find)(call, q, 1, &x, &y);
    }
}
