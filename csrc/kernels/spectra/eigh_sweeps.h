/* eigh_sweeps.h: eigenvalues of symmetric tridiagonal matrices, LANES of them side by side, and the rotations of what
 * becomes the eigenvectors: implicit QR with Wilkinson's shift (LAPACK's steqr; Golub and Van Loan, Matrix
 * Computations, section 8.3). For eigh_lanes.h.
 *
 * Each lane is at work on a block of its own: rotations outside of it are the identity, which changes at most the sign
 * of a zero, and in the end all zeros are positive. So lanes that are done do not notice those that are not. Two groups
 * of lanes go side by side where there is room: a rotation waits for the one before. */

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
    EIGH_ROWS = 2, /* of V, rotated together */
    EIGH_ALL = SMM_MAX_ORDER
};

/* LANES matrices under way. */
typedef struct eigh_stack {
    vec *a;                                 /* A above the diagonal, then the reflectors there, then V: of complex
                                             * numbers, a row of real parts and one of imaginary parts in turns */
    vec d[SMM_MAX_ORDER], e[SMM_MAX_ORDER]; /* T: its diagonal and what is beside it; d becomes w */
    mask open[SMM_MAX_ORDER];               /* e_i is in the block at work */
    vec shift, other;                       /* the eigenvalues of the last two rows of the block */
    mask two;                               /* these are the block */
    vec back;                               /* undoes the scaling of A, and is NaN where that is not finite */
    vec info;
} eigh_stack;

/* The rotations of a sweep, of columns i and i + 1; all lanes' are in rows from .. to. */
typedef struct eigh_turns {
    vec c[SMM_MAX_ORDER], s[SMM_MAX_ORDER];
    intptr_t from, to;
} eigh_turns;

/* --- T = V diag(w) V^T -------------------------------------------------------------------------------------------- */

/* The last block of a lane whose e_i are not negligible, as far as rows have been looked at, from below. */
typedef struct eigh_search {
    mask started, ended;
    mask two;            /* it has no more rows than these: */
    vec top, d, half, e; /* of its last two rows */
} eigh_search;

INLINE mask eigh_search_row(eigh_stack *x, eigh_search *f, intptr_t i) {
    const vec d = x->d[i], next = x->d[i + 1], e = x->e[i];
    const vec small = lane_mul(lane_add(lane_abs(d), lane_abs(next)), lane_set(EIGH_UNIT));
    const mask counts = lane_greater(lane_abs(e), lane_max(small, lane_set(EIGH_FLOOR)));
    const mask open = counts & ~f->ended, last = open & ~f->started;
    x->e[i] = lane_select(counts, e, lane_set(0));
    x->open[i] = open;
    f->two = (f->two & ~open) | last;
    f->top = lane_select(last, d, f->top);
    f->d = lane_select(last, next, f->d);
    f->half = lane_select(last, lane_mul(lane_sub(d, next), lane_set((T)0.5)), f->half);
    f->e = lane_select(last, e, f->e);
    f->started |= counts;
    f->ended |= f->started & ~counts;
    return open;
}

/* The eigenvalues of the block's last 2 x 2. The shift is the one that is nearer to its last element. */
INLINE void eigh_note_values(eigh_stack *x, const eigh_search *f) {
    const vec square = lane_mul(f->e, f->e), root = lane_sqrt(lane_fma(f->half, f->half, square));
    const vec outward = lane_select(lane_greater(lane_set(0), f->half), lane_negate(root), root);
    const vec apart = lane_div(square, lane_add(f->half, outward));
    x->shift = lane_sub(f->d, apart);
    x->other = lane_add(f->top, apart);
    x->two = f->two;
}

/* Find all lanes' blocks, of rows up to `end`, and shifts. False if there are none. */
INLINE bool eigh_find_blocks(eigh_stack *x, eigh_turns *turns, intptr_t end, const int groups) {
    const mask none = lane_greater(lane_set(0), lane_set(0));
    mask any = none;
    eigh_search f[EIGH_GROUPS];
    UNROLLED(int g = 0; g < groups; g++)
        f[g] = (eigh_search){none, none, none, lane_set(0), lane_set(0), lane_set(0), lane_set(1)};
    turns->from = end + 1;
    turns->to = end;
    ROLLED(intptr_t i = end - 1; i >= 0; i--) {
        mask open = none;
        UNROLLED(int g = 0; g < groups; g++) open |= eigh_search_row(&x[g], &f[g], i);
        turns->to = turns->from > end ? i + 1 : turns->to;
        turns->from = lane_any(open) ? i : turns->from;
    }
    UNROLLED(int g = 0; g < groups; g++) {
        any |= f[g].started;
        eigh_note_values(&x[g], &f[g]);
    }
    return lane_any(any);
}

/* What a sweep carries from one rotation to the next, downwards. */
typedef struct eigh_chase {
    vec c, s, p, g;
    mask open; /* of the row above: in the block */
} eigh_chase;

INLINE eigh_chase eigh_begin_sweep(const eigh_stack *x, intptr_t from) {
    const mask none = lane_greater(lane_set(0), lane_set(0));
    return (eigh_chase){lane_set(1), lane_set(0), lane_set(0), lane_sub(x->d[from], x->shift), none};
}

/* The rotation of rows and columns i and i + 1. */
INLINE void eigh_rotate(eigh_stack *x, eigh_chase *y, intptr_t i, eigh_turns *turns, const bool vectors) {
    const vec zero = lane_set(0), one = lane_set(1), d = x->d[i + 1], e = x->e[i], g = y->g;
    const mask open = x->open[i];
    const vec f = lane_select(y->open, lane_mul(y->s, e), e), b = lane_fnma(y->c, e, zero);
    const vec squares = lane_fma(g, g, lane_mul(f, f));
    const vec r = lane_sqrt(squares), back = lane_mul(r, lane_div(one, squares));
    const mask rotates = open & lane_greater(squares, lane_set(EIGH_FLOOR_SQUARED));
    if (i) x->e[i - 1] = lane_select(y->open, lane_select(open, r, lane_select(x->two, zero, g)), x->e[i - 1]);
    y->c = lane_select(rotates, lane_mul(g, back), one);
    y->s = lane_select(rotates, lane_mul(f, back), zero);
    if (vectors) turns->c[i] = y->c, turns->s[i] = y->s;
    const vec h = lane_sub(x->d[i], y->p);
    const vec t = lane_fnma(lane_add(b, b), y->c, lane_mul(lane_sub(d, h), y->s));
    const vec p = lane_mul(y->s, t);
    const mask done = open & x->two; /* a block of two rows: its eigenvalues are known */
    y->p = lane_select(done, zero, p);
    x->d[i] = lane_select(done, x->other, lane_add(h, p));
    x->d[i + 1] = lane_select(done, x->shift, d);
    y->g = lane_select(open, lane_fma(y->c, t, b), lane_sub(d, x->shift));
    y->open = open;
}

/* After the last one. */
INLINE void eigh_end_sweep(eigh_stack *x, const eigh_chase *y, intptr_t to) {
    x->d[to] = lane_sub(x->d[to], y->p);
    x->e[to - 1] = lane_select(y->open, lane_select(x->two, lane_set(0), y->g), x->e[to - 1]);
}

/* A few rows of V, rotated. */
INLINE void eigh_rotate_row(vec *here, vec *next, vec c, vec s) {
    const vec x = *here, y = *next;
    *here = lane_fma(s, y, lane_mul(c, x));
    *next = lane_fnma(s, x, lane_mul(c, y));
}
INLINE void eigh_rotate_rows(vec *v, intptr_t step, const eigh_turns *turns, intptr_t from, intptr_t to,
                             const int rows) {
    vec carried[EIGH_ROWS];
    UNROLLED(int r = 0; r < rows; r++) carried[r] = v[r * step + from];
    ROLLED(intptr_t i = from; i < to; i++) {
        const vec c = turns->c[i], s = turns->s[i];
        UNROLLED(int r = 0; r < rows; r++) {
            vec next = v[r * step + i + 1];
            eigh_rotate_row(&carried[r], &next, c, s);
            v[r * step + i] = carried[r];
            carried[r] = next;
        }
    }
    UNROLLED(int r = 0; r < rows; r++) v[r * step + to] = carried[r];
}

/* Rows of V that a sweep has yet to rotate, of the first few from rotation `at` on. */
typedef struct eigh_rows {
    vec *v;
    intptr_t count, at;
    const eigh_turns *turns;
} eigh_rows;
INLINE eigh_rows eigh_rows_of(vec *v, intptr_t count, const eigh_turns *turns) {
    return (eigh_rows){v, count, turns->from, turns};
}
/* At most so many rotations of a few rows. */
INLINE void eigh_rotate_some(eigh_rows *rows, intptr_t step, intptr_t most) {
    if (!rows->count) return;
    const intptr_t from = rows->at, to = min_of(rows->turns->to, most < EIGH_ALL ? from + most : EIGH_ALL);
    if (rows->count >= EIGH_ROWS)
        eigh_rotate_rows(rows->v, step, rows->turns, from, to, EIGH_ROWS);
    else
        eigh_rotate_rows(rows->v, step, rows->turns, from, to, 1);
    rows->at = to;
    if (to < rows->turns->to) return;
    const intptr_t done = min_of(rows->count, EIGH_ROWS);
    rows->v += done * step;
    rows->count -= done;
    rows->at = rows->turns->from;
}
/* How many at a time, so that a sweep of so many rotations has all of them in between: all of a few rows where there
 * are many. */
INLINE intptr_t eigh_share(const eigh_rows *rows, intptr_t rotations) {
    const intptr_t times = (rows->count + EIGH_ROWS - 1) / EIGH_ROWS;
    if (!times || times >= rotations) return EIGH_ALL;
    return times * (rows->turns->to - rows->turns->from) / rotations + 1;
}

/* A sweep. While each of its rotations waits for the one before, rows of V are done to which those of the last sweep
 * are still due. */
INLINE void eigh_sweep(eigh_stack *x, eigh_turns *turns, const int groups, eigh_rows *rows, intptr_t step,
                       const bool vectors) {
    eigh_chase y[EIGH_GROUPS];
    const intptr_t share = eigh_share(rows, turns->to - turns->from);
    UNROLLED(int g = 0; g < groups; g++) y[g] = eigh_begin_sweep(&x[g], turns->from);
    ROLLED(intptr_t i = turns->from; i < turns->to; i++) {
        UNROLLED(int g = 0; g < groups; g++) eigh_rotate(&x[g], &y[g], i, turns, vectors);
        if (vectors) eigh_rotate_some(rows, step, share);
    }
    UNROLLED(int g = 0; g < groups; g++) eigh_end_sweep(&x[g], &y[g], turns->to);
    while (vectors && rows->count) eigh_rotate_some(rows, step, EIGH_ALL);
}

/* d becomes w, the `height` rows of V are rotated; info: how many e_i are not yet negligible when a matrix is given up.
 * Groups that have no vectors share their turns. */
INLINE void eigh_iterate(eigh_stack *x, eigh_turns *turns, intptr_t n, intptr_t height, const int groups,
                         const bool vectors) {
    const intptr_t step = row_step(n), most = EIGH_SWEEPS * n;
    eigh_rows rows = {0};
    intptr_t sweep = 0, end = n - 1;
    UNROLLED(int g = 0; g < groups; g++) x[g].info = lane_set(0);
    if (n == 1) return;
    for (; sweep < most && eigh_find_blocks(x, &turns[sweep % 2], end, groups); sweep++) {
        end = turns[sweep % 2].to; /* rows below are done in all lanes */
        eigh_sweep(x, &turns[sweep % 2], groups, &rows, step, vectors);
        rows = eigh_rows_of(x->a, height, &turns[sweep % 2]);
    }
    while (vectors && rows.count) eigh_rotate_some(&rows, step, EIGH_ALL);
    if (__builtin_expect(sweep < most, 1)) return;
    for (int g = 0; g < groups; g++)
        for (intptr_t i = 0; i < n - 1; i++)
            x[g].info = lane_add(x[g].info, lane_select(lane_equal(x[g].e[i], lane_set(0)), lane_set(0), lane_set(1)));
}

/* --- Order -------------------------------------------------------------------------------------------------------- */

/* Element l of place_j says where lane l's j goes, the number of keys before it, when keys ascend, or descend, and
 * equal ones stay in order. */
INLINE void lanes_ranks(int32_t (*place)[LANES], const vec *key, intptr_t n, const bool descend) {
    const vec one = lane_set(1), zero = lane_set(0);
    for (intptr_t j = 0; j < n; j++) {
        vec before = zero;
        for (intptr_t i = 0; i < j; i++)
            before = lane_add(before, lane_select(lane_greater(key[descend ? j : i], key[descend ? i : j]), zero, one));
        for (intptr_t i = j + 1; i < n; i++)
            before = lane_add(before, lane_select(lane_greater(key[descend ? i : j], key[descend ? j : i]), one, zero));
        lane_store_int(place[j], before);
    }
}

/* Element j of each lane's row goes, times sign_j, to the place of its eigenvalue. */
INLINE void eigh_arrange_row(vec *row, intptr_t n, int32_t place[SMM_MAX_ORDER][LANES], const vec *sign) {
    T from[SMM_MAX_ORDER][LANES], *to = (T *)row;
    for (intptr_t j = 0; j < n; j++) lane_store(from[j], lane_fma(row[j], sign[j], lane_set(0)));
    for (intptr_t j = 0; j < n; j++)
        UNROLLED(int l = 0; l < LANES; l++) to[place[j][l] * LANES + l] = from[j][l];
}
/* Scaled back. A product that underflows is a positive zero, too, which a fused sum with zero would not make it. */
INLINE vec eigh_value(vec d, vec times) { return lane_add(lane_mul(d, times), lane_set(0)); }
