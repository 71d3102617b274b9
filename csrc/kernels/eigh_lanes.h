/* eigh_lanes.h: eigenvalues and eigenvectors of symmetric matrices, LANES of them side by side: Householder
 * tridiagonalisation and implicit QR with Wilkinson's shift (LAPACK's sytrd, orgtr and steqr; Golub and Van Loan,
 * Matrix Computations, section 8.3).
 *
 * Each lane is at work on a block of its own: rotations outside of it are the identity, which changes at most the sign
 * of a zero, and in the end all zeros are positive. So lanes that are done do not notice those that are not. Two groups
 * of lanes go side by side where there is room: a rotation waits for the one before. Where `unrolled`, the order is a
 * constant. */

/* Off-diagonal elements up to EIGH_FLOOR are zero: their squares would lose digits. */
#if defined(SMM_KERNELS_F64)
#define EIGH_UNIT 0x1p-53
#define EIGH_FLOOR 0x1p-450
#define EIGH_FLOOR_SQUARED 0x1p-900
#else
#define EIGH_UNIT 0x1p-24f
#define EIGH_FLOOR 0x1p-55f
#define EIGH_FLOOR_SQUARED 0x1p-110f
#endif

enum {
    EIGH_SWEEPS = 30, /* per row; then a matrix is given up */
    EIGH_GROUPS = 2,
    EIGH_FEW = 4, /* orders up to it may be unrolled */
    EIGH_ROWS = 2 /* of V, rotated together */
};

/* LANES symmetric matrices under way. */
typedef struct eigh_stack {
    vec *a;                                   /* A above the diagonal, then the reflectors there, then V */
    vec d[SMM_MOST_ORDER], e[SMM_MOST_ORDER]; /* T: its diagonal and what is beside it; d becomes w */
    mask open[SMM_MOST_ORDER];                /* e_i is in the block at work */
    vec shift, back;                          /* back undoes the scaling of A, and is NaN where that is not finite */
    vec info;
} eigh_stack;

/* The rotations of a sweep, of columns i and i + 1; all lanes' are in rows from .. to. */
typedef struct eigh_turns {
    vec c[SMM_MOST_ORDER], s[SMM_MOST_ORDER];
    intptr_t from, to;
} eigh_turns;

/* --- A = Q T Q^T -------------------------------------------------------------------------------------------------- */

/* Rows of a begin so many vectors apart. */
INLINE intptr_t eigh_step(intptr_t n, const bool unrolled) { return unrolled ? n : row_step(n); }

/* The triangle in question, as the upper one. */
INLINE void eigh_load(const smm_call *call, intptr_t q, eigh_stack *x, intptr_t n, intptr_t count,
                      const bool unrolled) {
    const intptr_t size = n * n;
    smm_operand from = call->a;
    if (!(call->form & SMM_UPPER)) from.row = call->a.col, from.col = call->a.row;
    const strides s = strides_of(&from);
    if (unrolled && count == LANES && s.row == 1 && s.col == n && s.batch == size) {
        vec y[EIGH_FEW * EIGH_FEW];
        lanes_load_dense(y, (const T *)from.data + q * size, size);
        UNROLLED(intptr_t i = 0; i < n; i++)
            UNROLLED(intptr_t j = i; j < n; j++) x->a[i * n + j] = y[j * n + i];
    } else {
        lanes_load(x->a, &from, q, n, n, count);
        spread_rows((lanes_matrix){x->a, n, n, eigh_step(n, unrolled)});
    }
}

/* Times a power of two that brings it to about 1; zero where it is not finite. */
INLINE void eigh_scale(eigh_stack *x, intptr_t n, const bool unrolled) {
    const intptr_t step = eigh_step(n, unrolled);
    vec most = lane_set(0), nothing = lane_set(0);
    if (unrolled)
        UNROLLED(intptr_t i = 0; i < n; i++)
            UNROLLED(intptr_t j = i; j < n; j++) {
                most = lane_max(lane_abs(x->a[i * step + j]), most);
                nothing = lane_fma(x->a[i * step + j], lane_set(0), nothing);
            }
    else
        ROLLED(intptr_t i = 0; i < n; i++)
            ROLLED(intptr_t j = i; j < n; j++) {
                most = lane_max(lane_abs(x->a[i * step + j]), most);
                nothing = lane_fma(x->a[i * step + j], lane_set(0), nothing);
            }
    const mask finite = lane_equal(nothing, lane_set(0));
    const vec scale = lane_scale_to_one(most);
    x->back = lane_select(finite, lane_div(lane_set(1), scale), lane_set(NAN));
    if (__builtin_expect(lane_any(~(finite & lane_equal(scale, lane_set(1)))), 0))
        ROLLED(intptr_t i = 0; i < n; i++)
            ROLLED(intptr_t j = i; j < n; j++)
                x->a[i * step + j] = lane_select(finite, lane_mul(x->a[i * step + j], scale), lane_set(0));
}

/* w = B v, v_0 = 1, of the upper triangle of B: row i gives all it has to w_i, and b_ij to each w_j. */
INLINE void eigh_multiply(vec *w, const vec *b, intptr_t step, const vec *v, intptr_t count, const bool unrolled) {
    w[0] = b[0];
    if (unrolled) {
        UNROLLED(intptr_t j = 1; j < count; j++) {
            w[0] = lane_fma(b[j], v[j], w[0]);
            w[j] = b[j];
        }
        UNROLLED(intptr_t i = 1; i < count; i++) {
            w[i] = lane_fma(b[i * step + i], v[i], w[i]);
            UNROLLED(intptr_t j = i + 1; j < count; j++) {
                w[i] = lane_fma(b[i * step + j], v[j], w[i]);
                w[j] = lane_fma(b[i * step + j], v[i], w[j]);
            }
        }
        return;
    }
    vec sum = b[0];
    ROLLED(intptr_t j = 1; j < count; j++) {
        sum = lane_fma(b[j], v[j], sum);
        w[j] = b[j];
    }
    w[0] = sum;
    ROLLED(intptr_t i = 1; i < count; i++) {
        const vec *row = b + i * step, v_i = v[i];
        sum = lane_fma(row[i], v_i, w[i]);
        ROLLED(intptr_t j = i + 1; j < count; j++) {
            sum = lane_fma(row[j], v[j], sum);
            w[j] = lane_fma(row[j], v_i, w[j]);
        }
        w[i] = sum;
    }
}

/* w becomes tau w - (tau / 2) (tau w^T v) v. */
INLINE void eigh_balance(vec *w, const vec *v, vec tau, intptr_t count, const bool unrolled) {
    vec dot = w[0] = lane_mul(tau, w[0]);
    if (unrolled)
        UNROLLED(intptr_t i = 1; i < count; i++) dot = lane_fma(w[i] = lane_mul(tau, w[i]), v[i], dot);
    else
        ROLLED(intptr_t i = 1; i < count; i++) dot = lane_fma(w[i] = lane_mul(tau, w[i]), v[i], dot);
    const vec half = lane_mul(lane_mul(lane_set((T)-0.5), tau), dot);
    w[0] = lane_add(w[0], half);
    if (unrolled)
        UNROLLED(intptr_t i = 1; i < count; i++) w[i] = lane_fma(half, v[i], w[i]);
    else
        ROLLED(intptr_t i = 1; i < count; i++) w[i] = lane_fma(half, v[i], w[i]);
}

/* B = H B H = B - v w^T - w v^T, of order `count`. */
INLINE void eigh_reflect(vec *b, intptr_t step, const vec *v, vec tau, intptr_t count, const bool unrolled) {
    vec w[SMM_MOST_ORDER];
    eigh_multiply(w, b, step, v, count, unrolled);
    eigh_balance(w, v, tau, count, unrolled);
    b[0] = lane_sub(lane_sub(b[0], w[0]), w[0]);
    if (unrolled) {
        UNROLLED(intptr_t j = 1; j < count; j++) b[j] = lane_fnma(w[0], v[j], lane_sub(b[j], w[j]));
        UNROLLED(intptr_t i = 1; i < count; i++)
            UNROLLED(intptr_t j = i; j < count; j++)
                b[i * step + j] = lane_fnma(w[i], v[j], lane_fnma(v[i], w[j], b[i * step + j]));
    } else {
        ROLLED(intptr_t j = 1; j < count; j++) b[j] = lane_fnma(w[0], v[j], lane_sub(b[j], w[j]));
        ROLLED(intptr_t i = 1; i < count; i++) {
            vec *row = b + i * step, v_i = v[i], w_i = w[i];
            ROLLED(intptr_t j = i; j < count; j++) row[j] = lane_fnma(w_i, v[j], lane_fnma(v_i, w[j], row[j]));
        }
    }
}

/* Step k: row k right of the diagonal becomes e_k and the reflector, what is below it H B H. */
INLINE void eigh_reduce_row(eigh_stack *x, vec *tau, intptr_t n, intptr_t k, const bool unrolled) {
    const intptr_t step = eigh_step(n, unrolled), count = n - k - 1;
    vec *row = x->a + k * step + k;
    x->d[k] = row[0];
    if (!count) return;
    tau[k] = reflector(row + 1, 1, count, unrolled);
    x->e[k] = row[1];
    if (count > 1) eigh_reflect(row + step + 1, step, row + 1, tau[k], count, unrolled);
}
INLINE void eigh_reduce(eigh_stack *x, vec *tau, intptr_t n, const bool unrolled) {
    if (unrolled)
        UNROLLED(intptr_t k = 0; k < n; k++) eigh_reduce_row(x, tau, n, k, unrolled);
    else
        ROLLED(intptr_t k = 0; k < n; k++) eigh_reduce_row(x, tau, n, k, unrolled);
}

/* Rows and columns from k + 1 on of Q = H_0 H_1 ..., those from k + 2 on being there. Reflector k stays in row k. */
INLINE void eigh_form_row(eigh_stack *x, const vec *tau, intptr_t n, intptr_t k, const bool unrolled) {
    const intptr_t step = eigh_step(n, unrolled), count = n - k - 1;
    const vec *v = x->a + k * step + k + 1, minus = lane_negate(tau[k]);
    vec *q = x->a + (k + 1) * (step + 1);
    if (count > 1) reflect((reflection){v, 1, count, tau[k]}, q + 1, step, count - 1, true, unrolled);
    q[0] = lane_sub(lane_set(1), tau[k]);
    if (unrolled)
        UNROLLED(intptr_t i = 1; i < count; i++) q[i * step] = lane_mul(minus, v[i]);
    else
        ROLLED(intptr_t i = 1; i < count; i++) q[i * step] = lane_mul(minus, v[i]);
}
INLINE void eigh_form(eigh_stack *x, const vec *tau, intptr_t n, const bool unrolled) {
    const intptr_t step = eigh_step(n, unrolled);
    if (unrolled) {
        UNROLLED(intptr_t k = n - 2; k >= 0; k--) eigh_form_row(x, tau, n, k, unrolled);
        UNROLLED(intptr_t i = 1; i < n; i++) x->a[i] = x->a[i * step] = lane_set(0);
    } else {
        ROLLED(intptr_t k = n - 2; k >= 0; k--) eigh_form_row(x, tau, n, k, unrolled);
        ROLLED(intptr_t i = 1; i < n; i++) x->a[i] = x->a[i * step] = lane_set(0);
    }
    x->a[0] = lane_set(1);
}

/* --- T = V diag(w) V^T -------------------------------------------------------------------------------------------- */

/* The last block of a lane whose e_i are not negligible, as far as rows have been looked at, from below. */
typedef struct eigh_search {
    mask started, ended;
    vec d, half, e; /* of its last two rows */
} eigh_search;

INLINE mask eigh_search_row(eigh_stack *x, eigh_search *f, intptr_t i) {
    const vec d = x->d[i], next = x->d[i + 1], e = x->e[i];
    const vec small = lane_mul(lane_add(lane_abs(d), lane_abs(next)), lane_set(EIGH_UNIT));
    const mask counts = lane_greater(lane_abs(e), lane_max(small, lane_set(EIGH_FLOOR)));
    const mask open = counts & ~f->ended, last = open & ~f->started;
    x->e[i] = lane_select(counts, e, lane_set(0));
    x->open[i] = open;
    f->d = lane_select(last, next, f->d);
    f->half = lane_select(last, lane_mul(lane_sub(d, next), lane_set((T)0.5)), f->half);
    f->e = lane_select(last, e, f->e);
    f->started |= counts;
    f->ended |= f->started & ~counts;
    return open;
}

/* The eigenvalue of the block's last 2 x 2 that is nearer to its last element. */
INLINE vec eigh_shift(const eigh_search *f) {
    const vec square = lane_mul(f->e, f->e), root = lane_sqrt(lane_fma(f->half, f->half, square));
    const vec outward = lane_select(lane_greater(lane_set(0), f->half), lane_negate(root), root);
    return lane_sub(f->d, lane_div(square, lane_add(f->half, outward)));
}

/* Find all lanes' blocks and shifts. False if there are none. */
INLINE bool eigh_find_blocks(eigh_stack *x, eigh_turns *turns, intptr_t n, const int groups, const bool unrolled) {
    const mask none = lane_greater(lane_set(0), lane_set(0));
    mask any = none;
    eigh_search f[EIGH_GROUPS];
    UNROLLED(int g = 0; g < groups; g++) f[g] = (eigh_search){none, none, lane_set(0), lane_set(0), lane_set(1)};
    turns->from = 0;
    turns->to = n - 1;
    if (unrolled) {
        UNROLLED(intptr_t i = n - 2; i >= 0; i--)
            UNROLLED(int g = 0; g < groups; g++) eigh_search_row(&x[g], &f[g], i);
    } else {
        turns->from = n;
        ROLLED(intptr_t i = n - 2; i >= 0; i--) {
            mask open = none;
            UNROLLED(int g = 0; g < groups; g++) open |= eigh_search_row(&x[g], &f[g], i);
            turns->to = turns->from == n ? i + 1 : turns->to;
            turns->from = lane_any(open) ? i : turns->from;
        }
    }
    UNROLLED(int g = 0; g < groups; g++) {
        any |= f[g].started;
        x[g].shift = eigh_shift(&f[g]);
    }
    return lane_any(any);
}

/* What a sweep carries from one rotation to the next, downwards. */
typedef struct eigh_chase {
    vec c, s, p, g;
    mask open, single; /* of the row above: in the block; and the first of it */
} eigh_chase;

INLINE eigh_chase eigh_begin_sweep(const eigh_stack *x, intptr_t from) {
    const mask none = lane_greater(lane_set(0), lane_set(0));
    return (eigh_chase){lane_set(1), lane_set(0), lane_set(0), lane_sub(x->d[from], x->shift), none, none};
}

/* The rotation of rows and columns i and i + 1. */
INLINE void eigh_rotate(eigh_stack *x, eigh_chase *y, intptr_t i, eigh_turns *turns, const bool vectors) {
    const vec zero = lane_set(0), one = lane_set(1), d = x->d[i + 1], e = x->e[i], g = y->g;
    const mask open = x->open[i];
    const vec f = lane_select(y->open, lane_mul(y->s, e), e), b = lane_fnma(y->c, e, zero);
    const vec squares = lane_fma(g, g, lane_mul(f, f));
    const vec r = lane_sqrt(squares), back = lane_mul(r, lane_div(one, squares));
    const mask rotates = open & lane_greater(squares, lane_set(EIGH_FLOOR_SQUARED));
    if (i) x->e[i - 1] = lane_select(y->open, lane_select(open, r, lane_select(y->single, zero, g)), x->e[i - 1]);
    y->c = lane_select(rotates, lane_mul(g, back), one);
    y->s = lane_select(rotates, lane_mul(f, back), zero);
    if (vectors) turns->c[i] = y->c, turns->s[i] = y->s;
    const vec h = lane_sub(x->d[i], y->p);
    const vec t = lane_fnma(lane_add(b, b), y->c, lane_mul(lane_sub(d, h), y->s));
    y->p = lane_mul(y->s, t);
    x->d[i] = lane_add(h, y->p);
    y->g = lane_select(open, lane_fma(y->c, t, b), lane_sub(d, x->shift));
    y->single = open & ~y->open;
    y->open = open;
}

/* After the last one. A block of two rows is done. */
INLINE void eigh_end_sweep(eigh_stack *x, const eigh_chase *y, intptr_t to) {
    x->d[to] = lane_sub(x->d[to], y->p);
    x->e[to - 1] = lane_select(y->open, lane_select(y->single, lane_set(0), y->g), x->e[to - 1]);
}

/* A few rows of V, rotated. */
INLINE void eigh_rotate_row(vec *here, vec *next, vec c, vec s) {
    const vec x = *here, y = *next;
    *here = lane_fma(s, y, lane_mul(c, x));
    *next = lane_fnma(s, x, lane_mul(c, y));
}
INLINE void eigh_rotate_rows(vec *v, intptr_t step, const eigh_turns *turns, const int rows) {
    vec carried[EIGH_ROWS];
    UNROLLED(int r = 0; r < rows; r++) carried[r] = v[r * step + turns->from];
    ROLLED(intptr_t i = turns->from; i < turns->to; i++) {
        const vec c = turns->c[i], s = turns->s[i];
        UNROLLED(int r = 0; r < rows; r++) {
            vec next = v[r * step + i + 1];
            eigh_rotate_row(&carried[r], &next, c, s);
            v[r * step + i] = carried[r];
            carried[r] = next;
        }
    }
    UNROLLED(int r = 0; r < rows; r++) v[r * step + turns->to] = carried[r];
}

/* A sweep over all rows, a constant number of them. */
INLINE void eigh_sweep_few(eigh_stack *x, eigh_turns *turns, intptr_t n, const int groups, const bool vectors) {
    eigh_chase y[EIGH_GROUPS];
    UNROLLED(int g = 0; g < groups; g++) y[g] = eigh_begin_sweep(&x[g], 0);
    UNROLLED(intptr_t i = 0; i < n - 1; i++)
        UNROLLED(int g = 0; g < groups; g++) eigh_rotate(&x[g], &y[g], i, &turns[g], vectors);
    UNROLLED(int g = 0; g < groups; g++) {
        eigh_end_sweep(&x[g], &y[g], n - 1);
        if (!vectors) continue;
        UNROLLED(intptr_t row = 0; row < n * n; row += n)
            UNROLLED(intptr_t i = 0; i < n - 1; i++)
                eigh_rotate_row(&x[g].a[row + i], &x[g].a[row + i + 1], turns[g].c[i], turns[g].s[i]);
    }
}

/* Rows of V that a sweep has yet to rotate. */
typedef struct eigh_rows {
    vec *v;
    intptr_t count;
    const eigh_turns *turns;
} eigh_rows;
INLINE void eigh_rotate_some(eigh_rows *rows, intptr_t step) {
    if (rows->count >= EIGH_ROWS)
        eigh_rotate_rows(rows->v, step, rows->turns, EIGH_ROWS);
    else if (rows->count)
        eigh_rotate_rows(rows->v, step, rows->turns, 1);
    const intptr_t done = least(rows->count, EIGH_ROWS);
    rows->v += done * step;
    rows->count -= done;
}

/* A sweep. While each of its rotations waits for the one before, rows of V are done to which those of the last sweep
 * are still due. */
INLINE void eigh_sweep(eigh_stack *x, eigh_turns *turns, const int groups, eigh_rows *rows, intptr_t step,
                       const bool vectors) {
    eigh_chase y[EIGH_GROUPS];
    UNROLLED(int g = 0; g < groups; g++) y[g] = eigh_begin_sweep(&x[g], turns->from);
    ROLLED(intptr_t i = turns->from; i < turns->to; i++) {
        UNROLLED(int g = 0; g < groups; g++) eigh_rotate(&x[g], &y[g], i, turns, vectors);
        if (vectors) eigh_rotate_some(rows, step);
    }
    UNROLLED(int g = 0; g < groups; g++) eigh_end_sweep(&x[g], &y[g], turns->to);
    while (vectors && rows->count) eigh_rotate_some(rows, step);
}

/* d becomes w, V is rotated; info: how many e_i are not yet negligible when a matrix is given up. Groups that have no
 * vectors share their turns. */
INLINE void eigh_iterate(eigh_stack *x, eigh_turns *turns, intptr_t n, const int groups, const bool vectors,
                         const bool unrolled) {
    const intptr_t step = eigh_step(n, unrolled), most = EIGH_SWEEPS * n;
    eigh_rows rows = {NULL, 0, NULL};
    intptr_t sweep = 0;
    UNROLLED(int g = 0; g < groups; g++) x[g].info = lane_set(0);
    if (n == 1) return;
    for (; sweep < most && eigh_find_blocks(x, &turns[sweep % 2], n, groups, unrolled); sweep++) {
        if (unrolled) {
            eigh_sweep_few(x, turns, n, groups, vectors);
        } else {
            eigh_sweep(x, &turns[sweep % 2], groups, &rows, step, vectors);
            rows = (eigh_rows){x->a, n, &turns[sweep % 2]};
        }
    }
    while (vectors && !unrolled && rows.count) eigh_rotate_some(&rows, step);
    if (__builtin_expect(sweep < most, 1)) return;
    for (int g = 0; g < groups; g++)
        for (intptr_t i = 0; i < n - 1; i++)
            x[g].info = lane_add(x[g].info, lane_select(lane_equal(x[g].e[i], lane_set(0)), lane_set(0), lane_set(1)));
}

/* --- Order and signs ---------------------------------------------------------------------------------------------- */

/* The sign that makes the largest element of column j, the first of equals, positive. */
typedef struct eigh_largest {
    vec x, size;
} eigh_largest;
INLINE void eigh_consider(eigh_largest *most, vec x) {
    const vec size = lane_abs(x);
    most->x = lane_select(lane_greater(size, most->size), x, most->x);
    most->size = lane_max(size, most->size);
}
INLINE vec eigh_sign(const eigh_stack *x, intptr_t n, intptr_t j, const bool unrolled) {
    const intptr_t step = eigh_step(n, unrolled);
    eigh_largest most = {lane_set(0), lane_set(0)};
    if (unrolled)
        UNROLLED(intptr_t i = 0; i < n; i++) eigh_consider(&most, x->a[i * step + j]);
    else
        ROLLED(intptr_t i = 0; i < n; i++) eigh_consider(&most, x->a[i * step + j]);
    return lane_select(lane_greater(lane_set(0), most.x), lane_set(-1), lane_set(1));
}

/* Few: neighbours are exchanged until all are in order. */
INLINE void eigh_arrange_few(eigh_stack *x, intptr_t n, const bool vectors) {
    UNROLLED(intptr_t last = n - 1; last > 0; last--)
        UNROLLED(intptr_t j = 0; j < last; j++) {
            const mask m = lane_greater(x->d[j], x->d[j + 1]);
            lane_exchange(m, &x->d[j], &x->d[j + 1]);
            if (vectors)
                UNROLLED(intptr_t row = 0; row < n * n; row += n) lane_exchange(m, &x->a[row + j], &x->a[row + j + 1]);
        }
    if (vectors)
        UNROLLED(intptr_t j = 0; j < n; j++) {
            const vec sign = eigh_sign(x, n, j, true);
            UNROLLED(intptr_t row = 0; row < n * n; row += n)
                x->a[row + j] = lane_fma(x->a[row + j], sign, lane_set(0));
        }
}

/* Element j of each lane's row goes, times sign_j, to the place of its eigenvalue. */
INLINE void eigh_arrange_row(vec *row, intptr_t n, int32_t place[SMM_MOST_ORDER][LANES], const vec *sign) {
    T from[SMM_MOST_ORDER][LANES], *to = (T *)row;
    for (intptr_t j = 0; j < n; j++) lane_store(from[j], lane_fma(row[j], sign[j], lane_set(0)));
    for (intptr_t j = 0; j < n; j++)
        UNROLLED(int l = 0; l < LANES; l++) to[place[j][l] * LANES + l] = from[j][l];
}
/* Many: each one's place is the number of those before it. */
INLINE void eigh_arrange(eigh_stack *x, intptr_t n, const bool vectors) {
    const vec one = lane_set(1), zero = lane_set(0);
    int32_t place[SMM_MOST_ORDER][LANES];
    vec sign[SMM_MOST_ORDER];
    for (intptr_t j = 0; j < n; j++) {
        vec before = zero;
        for (intptr_t i = 0; i < j; i++)
            before = lane_add(before, lane_select(lane_greater(x->d[i], x->d[j]), zero, one));
        for (intptr_t i = j + 1; i < n; i++)
            before = lane_add(before, lane_select(lane_greater(x->d[j], x->d[i]), one, zero));
        lane_store_int(place[j], before);
        sign[j] = one;
    }
    eigh_arrange_row(x->d, n, place, sign);
    for (intptr_t j = 0; j < n && vectors; j++) sign[j] = eigh_sign(x, n, j, false);
    for (intptr_t i = 0; i < n && vectors; i++) eigh_arrange_row(x->a + i * row_step(n), n, place, sign);
}

/* --- Groups of matrices ------------------------------------------------------------------------------------------- */

INLINE void eigh_begin(const smm_call *call, intptr_t q, eigh_stack *x, intptr_t n, intptr_t count, bool cold,
                       const bool vectors, const bool unrolled) {
    vec tau[SMM_MOST_ORDER];
    if (cold) prefetch(ahead_of(&call->a, q, LANES * n * n), LANES * n * n);
    eigh_load(call, q, x, n, count, unrolled);
    eigh_scale(x, n, unrolled);
    eigh_reduce(x, tau, n, unrolled);
    if (vectors) eigh_form(x, tau, n, unrolled);
}

/* Scaled back. A product that underflows is a positive zero, too, which a fused sum with zero would not make it. */
INLINE vec eigh_value(vec d, vec times) { return lane_add(lane_mul(d, times), lane_set(0)); }

INLINE void eigh_end(const smm_call *call, intptr_t q, eigh_stack *x, intptr_t n, intptr_t count, const bool vectors,
                     const bool unrolled) {
    const vec zero = lane_set(0), times = lane_select(lane_equal(x->info, zero), x->back, lane_set(NAN));
    if (unrolled)
        eigh_arrange_few(x, n, vectors);
    else
        eigh_arrange(x, n, vectors);
    if (unrolled)
        UNROLLED(intptr_t j = 0; j < n; j++) x->d[j] = eigh_value(x->d[j], times);
    else
        ROLLED(intptr_t j = 0; j < n; j++) x->d[j] = eigh_value(x->d[j], times);
    lanes_store(vectors ? &call->eigh.w : &call->eigvalsh.w, q, x->d, n, 1, count);
    lanes_store_int(vectors ? &call->eigh.info : &call->eigvalsh.info, q, x->info, count);
    if (!vectors) return;
    gather_rows((lanes_matrix){x->a, n, n, eigh_step(n, unrolled)}, n);
    lanes_store(&call->eigh.v, q, x->a, n, n, count);
    lanes_spoil(&call->eigh.v, q, lane_select(lane_equal(times, times), zero, lane_set(1)), n, n, count);
}

/* A constant order of at most EIGH_FEW. Where matrices are left for one group, the other does the same. */
INLINE void eigh_lanes_few(const smm_call *call, intptr_t first, intptr_t last, bool cold, const int n,
                           const bool vectors) {
    for (intptr_t q = first; q < last; q += EIGH_GROUPS * LANES) {
        vec a[EIGH_GROUPS][EIGH_FEW * EIGH_FEW];
        eigh_stack x[EIGH_GROUPS];
        eigh_turns turns[EIGH_GROUPS];
        UNROLLED(int g = 0; g < EIGH_GROUPS; g++) {
            const intptr_t at = q + g * LANES < last ? q + g * LANES : q;
            x[g].a = a[g];
            eigh_begin(call, at, &x[g], n, least(LANES, last - at), cold, vectors, true);
        }
        eigh_iterate(x, turns, n, EIGH_GROUPS, vectors, true);
        UNROLLED(int g = 0; g < EIGH_GROUPS; g++) {
            const intptr_t at = q + g * LANES < last ? q + g * LANES : q;
            eigh_end(call, at, &x[g], n, least(LANES, last - at), vectors, true);
        }
    }
}

_Static_assert(QR_ROOM * sizeof(vec) <= SMM_KERNEL_ROOM, "room of eigh_lanes");

static void KERNEL(eigh_lanes)(const smm_call *call, intptr_t first, intptr_t last, smm_behind *cold) {
    const intptr_t n = call->n;
    vec *const a = smm_kernel_room();
    eigh_stack x = {.a = a};
    eigh_turns turns[2];
    for (intptr_t q = first; q < last; q += LANES) {
        const intptr_t count = least(LANES, last - q);
        eigh_begin(call, q, &x, n, count, cold, true, false);
        eigh_iterate(&x, turns, n, 1, true, false);
        eigh_end(call, q, &x, n, count, true, false);
    }
}

static void KERNEL(eigvalsh_lanes)(const smm_call *call, intptr_t first, intptr_t last, smm_behind *cold) {
    const intptr_t n = call->n;
    vec *const a = smm_kernel_room();
    eigh_stack x[EIGH_GROUPS];
    eigh_turns turns[2];
    for (intptr_t q = first; q < last; q += EIGH_GROUPS * LANES) {
        ROLLED(int g = 0; g < EIGH_GROUPS; g++) {
            const intptr_t at = q + g * LANES < last ? q + g * LANES : q;
            x[g].a = a;
            eigh_begin(call, at, &x[g], n, least(LANES, last - at), cold, false, false);
        }
        eigh_iterate(x, turns, n, EIGH_GROUPS, false, false);
        ROLLED(int g = 0; g < EIGH_GROUPS; g++) {
            const intptr_t at = q + g * LANES < last ? q + g * LANES : q;
            eigh_end(call, at, &x[g], n, least(LANES, last - at), false, false);
        }
    }
}
