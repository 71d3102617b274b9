/* bidiagonal_sweeps.h: singular values of upper bidiagonal matrices, LANES of them side by side, and the rotations of
 * what becomes the right singular vectors: implicit QR (Golub and Kahan, SIAM J. Numer. Anal. B 2, 1965; Demmel and
 * Kahan, SIAM J. Sci. Stat. Comput. 11, 1990; LAPACK's bdsqr). For svd_bidiagonal.h.
 *
 * A sweep rotates two columns of B, then two rows, and so on downwards. The shift is the smaller singular value of the
 * last two rows. It is zero where that is small beside the first row, or where an element of the diagonal is
 * negligible: then the sweep makes the last row zero, as Demmel and Kahan order its operations. What is negligible is
 * so beside the largest element of B: errors are small beside the largest singular value, not beside each. Lanes are at
 * work on blocks of their own, as eigh_sweeps.h explains, whose rotations of vectors serve here, too. Two groups of
 * lanes go side by side: a rotation waits for the one before. */

#if defined(SMM_KERNELS_F64)
#define BIDIAGONAL_FLOOR 0x1p-900 /* rotations of vectors whose squared length is not above it are left out */
#else
#define BIDIAGONAL_FLOOR 0x1p-110f
#endif
enum {
    BIDIAGONAL_SWEEPS = 30, /* per row; then a matrix is given up */
    BIDIAGONAL_GROUPS = 2,
    BIDIAGONAL_ROWS = PARTS == 1 ? 4 : VECTOR_REGISTERS / 8, /* that a reflector passes over at a time */
    BIDIAGONAL_COLUMNS = 8 / PARTS
};

/* LANES matrices under way. */
typedef struct bidiagonal {
    vec d[SMM_MAX_ORDER], e[SMM_MAX_ORDER]; /* B: its diagonal and what is right of it */
    vec tolerance;                          /* what is negligible */
    mask open[SMM_MAX_ORDER];               /* e_i is in the block at work */
    vec f, g;                               /* a sweep begins with the rotation that turns these to (r, 0) */
    mask zero;                              /* the shift is zero */
    vec info;
} bidiagonal;

INLINE void bidiagonal_measure(bidiagonal *x, intptr_t n) {
    vec most = lane_abs(x->d[0]);
    ROLLED(intptr_t i = 1; i < n; i++) most = lane_max(lane_abs(x->d[i]), lane_max(lane_abs(x->e[i - 1]), most));
    x->tolerance = lane_mul(most, lane_set(2 * ROUNDOFF));
}

/* The last block of a lane whose e_i are not negligible, as far as rows have been looked at, from below. */
typedef struct bidiagonal_search {
    mask started, ended;
    mask several, negligible; /* it has more than two rows; of its diagonal some element is */
    vec top_d, top_e;         /* of its first row */
    vec above, beside, below; /* of its last two rows */
} bidiagonal_search;

INLINE mask bidiagonal_search_row(bidiagonal *x, bidiagonal_search *y, intptr_t i) {
    const vec d = x->d[i], next = x->d[i + 1], e = x->e[i], tolerance = x->tolerance;
    const mask counts = lane_greater(lane_abs(e), tolerance);
    const mask open = counts & ~y->ended, last = open & ~y->started;
    const mask large = lane_greater(lane_abs(d), tolerance) & lane_greater(lane_abs(next), tolerance);
    x->e[i] = lane_select(counts, e, lane_set(0));
    x->open[i] = open;
    y->several |= open & ~last;
    y->negligible |= open & ~large;
    y->top_d = lane_select(open, d, y->top_d);
    y->top_e = lane_select(open, e, y->top_e);
    y->above = lane_select(last, d, y->above);
    y->beside = lane_select(last, e, y->beside);
    y->below = lane_select(last, next, y->below);
    y->started |= counts;
    y->ended |= y->started & ~counts;
    return open;
}

/* How sweeps begin: of two rows along their larger right singular vector, as svd_turn rotates rows. */
INLINE void bidiagonal_begin(bidiagonal *x, const bidiagonal_search *y) {
    const vec zero = lane_set(0), one = lane_set(1), d = y->top_d, e = y->top_e;
    const vec f = lane_abs(y->above), g = lane_abs(y->beside), h = lane_abs(y->below), gg = lane_mul(g, g);
    const vec sum = lane_add(f, h), difference = lane_sub(f, h);
    const vec twice = lane_add(lane_sqrt(lane_fma(sum, sum, gg)), lane_sqrt(lane_fma(difference, difference, gg)));
    const vec shift = lane_div(lane_mul(lane_add(f, f), h), twice), ratio = lane_div(shift, d);
    const vec sign = lane_select(lane_greater(zero, d), lane_set(-1), one);
    const vec shifted = lane_mul(lane_sub(lane_abs(d), shift), lane_add(sign, ratio));
    const vec xx = lane_mul(d, d), yy = lane_fma(e, e, lane_mul(y->below, y->below));
    const mask y_longer = lane_greater(yy, xx);
    const vec longer = lane_select(y_longer, yy, xx), shorter = lane_select(y_longer, xx, yy);
    const vec back = lane_div(one, longer), small = lane_mul(lane_mul(d, e), back);
    const vec half = lane_mul(lane_sub(longer, shorter), lane_mul(back, lane_set((T)0.5)));
    const vec large = lane_add(half, lane_sqrt(lane_fma(half, half, lane_mul(small, small))));
    const mask no_shift = y->negligible | ~lane_greater(lane_mul(ratio, ratio), lane_set(2 * ROUNDOFF));
    x->zero = y->several & no_shift;
    x->f = lane_select(y->several, lane_select(no_shift, d, shifted), lane_select(y_longer, small, large));
    x->g = lane_select(y->several, e, lane_select(y_longer, large, small));
}

/* Find all lanes' blocks, of rows up to `end`, and shifts. False if there are none. */
INLINE bool bidiagonal_find_blocks(bidiagonal *x, eigh_turns *turns, intptr_t end, const int groups) {
    const vec one = lane_set(1);
    const mask none = lane_greater(lane_set(0), lane_set(0));
    mask any = none;
    bidiagonal_search y[BIDIAGONAL_GROUPS];
    UNROLLED(int g = 0; g < groups; g++) y[g] = (bidiagonal_search){none, none, none, none, one, one, one, one, one};
    turns->from = end + 1;
    turns->to = end;
    ROLLED(intptr_t i = end - 1; i >= 0; i--) {
        mask open = none;
        UNROLLED(int g = 0; g < groups; g++) open |= bidiagonal_search_row(&x[g], &y[g], i);
        turns->to = turns->from > end ? i + 1 : turns->to;
        turns->from = lane_any(open) ? i : turns->from;
    }
    UNROLLED(int g = 0; g < groups; g++) {
        any |= y[g].started;
        bidiagonal_begin(&x[g], &y[g]);
    }
    return lane_any(any);
}

/* What a sweep carries from one row to the next, downwards. */
typedef struct bidiagonal_carry {
    vec c, s;          /* of the rotation of rows i - 1 and i */
    vec d, f, beside;  /* d_i so far; what rotates columns next; e_i-1, where the block ends at row i */
    mask open, of_one; /* of the row above: in the block; and the first of it */
} bidiagonal_carry;

INLINE bidiagonal_carry bidiagonal_begin_sweep(const bidiagonal *x, intptr_t from) {
    const mask none = lane_greater(lane_set(0), lane_set(0));
    return (bidiagonal_carry){lane_set(1), lane_set(0), x->d[from], lane_set(0), lane_set(0), none, none};
}

/* The rotation that turns (f, g) to (r, 0), of lanes that are open; the result is r. */
INLINE vec bidiagonal_turn(vec f, vec g, mask open, vec *c, vec *s) {
    const vec squares = lane_fma(f, f, lane_mul(g, g)), r = lane_sqrt(squares);
    const vec back = lane_mul(r, lane_div(lane_set(1), squares));
    const mask rotates = open & lane_greater(squares, lane_set(BIDIAGONAL_FLOOR));
    *c = lane_select(rotates, lane_mul(f, back), lane_set(1));
    *s = lane_select(rotates, lane_mul(g, back), lane_set(0));
    return r;
}

/* The rotations of columns, and of rows, i and i + 1. */
INLINE void bidiagonal_rotate(bidiagonal *x, bidiagonal_carry *y, intptr_t i, eigh_turns *turns, const bool vectors) {
    const vec zero = lane_set(0), next = x->d[i + 1];
    const mask open = x->open[i], first = open & ~y->open;
    const vec f = lane_select(first, x->f, y->f);
    const vec g = lane_select(first, x->g, lane_select(x->zero, x->e[i], lane_mul(y->s, x->e[i])));
    vec c, s, d = y->d, e = lane_mul(y->c, x->e[i]);
    const vec r = bidiagonal_turn(f, g, open, &c, &s);
    const vec inside = lane_select(x->zero, lane_mul(y->s, r), r), at_end = lane_select(y->of_one, zero, y->beside);
    if (i) x->e[i - 1] = lane_select(y->open, lane_select(open, inside, at_end), x->e[i - 1]);
    if (vectors) turns->c[i] = c, turns->s[i] = s;
    eigh_rotate_row(&d, &e, c, s);
    e = lane_select(x->zero, zero, e);
    vec below = lane_mul(c, next);
    const vec straight = below;
    x->d[i] = lane_select(open, bidiagonal_turn(d, lane_mul(s, next), open, &y->c, &y->s), y->d);
    eigh_rotate_row(&e, &below, y->c, y->s);
    y->f = lane_select(x->zero, straight, e);
    y->beside = e;
    y->d = below;
    y->of_one = first;
    y->open = open;
}

/* After the last one. A block of two rows is done. */
INLINE void bidiagonal_end_sweep(bidiagonal *x, const bidiagonal_carry *y, intptr_t to) {
    x->d[to] = y->d;
    x->e[to - 1] = lane_select(y->open, lane_select(y->of_one, lane_set(0), y->beside), x->e[to - 1]);
}

/* A sweep. While each of its rotations waits for the one before, rows of V are done to which those of the last sweep
 * are still due. */
INLINE void bidiagonal_sweep(bidiagonal *x, eigh_turns *turns, eigh_rows *rows, intptr_t step, const int groups,
                             const bool vectors) {
    bidiagonal_carry y[BIDIAGONAL_GROUPS];
    const intptr_t from = turns->from, to = turns->to, share = eigh_share(rows, to - from);
    UNROLLED(int g = 0; g < groups; g++) {
        y[g] = bidiagonal_begin_sweep(&x[g], from);
        if (vectors) turns[g].from = from, turns[g].to = to;
    }
    ROLLED(intptr_t i = from; i < to; i++) {
        UNROLLED(int g = 0; g < groups; g++) bidiagonal_rotate(&x[g], &y[g], i, &turns[g], vectors);
        UNROLLED(int g = 0; g < groups && vectors; g++) eigh_rotate_some(&rows[g], step, share);
    }
    UNROLLED(int g = 0; g < groups; g++) {
        bidiagonal_end_sweep(&x[g], &y[g], to);
        while (vectors && rows[g].count) eigh_rotate_some(&rows[g], step, EIGH_ALL);
    }
}

/* The magnitudes of d become the singular values, the `height` rows of V, where wanted, are rotated; info: how many e_i
 * are not yet negligible when a matrix is given up. */
INLINE void bidiagonal_iterate(bidiagonal *x, eigh_turns turns[2][BIDIAGONAL_GROUPS], vec *const *v, intptr_t n,
                               intptr_t height, const int groups, const bool vectors) {
    eigh_rows rows[BIDIAGONAL_GROUPS] = {0};
    intptr_t sweep = 0, end = n - 1;
    UNROLLED(int g = 0; g < groups; g++) {
        bidiagonal_measure(&x[g], n);
        x[g].info = lane_set(0);
    }
    for (; sweep < BIDIAGONAL_SWEEPS * n && bidiagonal_find_blocks(x, turns[sweep % 2], end, groups); sweep++) {
        end = turns[sweep % 2]->to; /* rows below are done in all lanes */
        bidiagonal_sweep(x, turns[sweep % 2], rows, row_step(n), groups, vectors);
        UNROLLED(int g = 0; g < groups && vectors; g++) rows[g] = eigh_rows_of(v[g], height, &turns[sweep % 2][g]);
    }
    for (int g = 0; g < groups; g++)
        while (rows[g].count) eigh_rotate_some(&rows[g], row_step(n), EIGH_ALL);
    for (int g = 0; g < groups; g++)
        ROLLED(intptr_t i = 0; i < n - 1; i++)
            x[g].info = lane_add(x[g].info, lane_select(lane_equal(x[g].e[i], lane_set(0)), lane_set(0), lane_set(1)));
}
