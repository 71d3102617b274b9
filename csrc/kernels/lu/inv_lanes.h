/* inv_lanes.h: the inverse by Gauss-Jordan elimination in place, LANES matrices side by side; rows and columns change
 * places lane by lane, by selection. For small orders, each a constant. Above SMM_INV_DIRECT the rows of A are the
 * columns here: the transpose is inverted.
 *
 * Two steps are done per pass over the matrix, column by column: half the loads and stores. Up to INV_IN_REGISTERS the
 * whole matrix stays in registers; then `groups` of matrices take turns, so that the divisions of one overlap with the
 * sums of another. */

#include "../../math/inverse.h"

enum { INV_LANES_MAX = 16, INV_LANES_GROUPS = 2, INV_IN_REGISTERS = 4 };

/* LANES matrices under way: exchanged[k][i] says in which of them rows k and i > k have changed places. */
typedef struct inv_lanes_state {
    vec size;      /* the largest magnitude of a pivot so far */
    mask singular; /* a pivot was zero or, of small orders, had no exact reciprocal */
    mask exchanged[INV_LANES_MAX][INV_LANES_MAX];
    vec a[INV_LANES_MAX * INV_LANES_MAX];
} inv_lanes_state;
_Static_assert(INV_LANES_GROUPS * sizeof(inv_lanes_state) <= SMM_KERNEL_WORKSPACE, "workspace of inv_lanes");

/* What a step does to a column: exchange rows, x_i = x_i - f_i x_k, x_k = x_k r. */
typedef struct inv_lanes_step {
    const mask *exchanged;
    vec f[INV_LANES_MAX], r;
} inv_lanes_step;

/* What takes the place of a zero pivot: as small as rounding errors of the largest. */
INLINE vec inv_min_pivot(vec size) { return lane_mul(size, lane_set((T)SMM_ROUNDOFF(T))); }

/* What the core is to confirm (singular.c), in the place of info; by the sum of squares of the inverse, the largest
 * magnitude of a pivot, and whether one was zero. */
INLINE vec inv_suspects(const bool direct, vec squares, vec size, mask singular) {
    const T suspect_limit = SMM_SUSPECT_LIMIT(T);
    const mask small = lane_greater(lane_set(suspect_limit * suspect_limit), lane_mul(lane_mul(squares, size), size));
    const mask known = small & lane_greater(squares, lane_set((T)SMM_MIN_SQUARES(T)));
    const mask certain = (direct ? lane_equal(squares, squares) : known) & ~singular;
    if (__builtin_expect(!lane_any(~certain), 1)) return lane_set(0);
    const vec suspects = lane_select(certain, lane_set(0), lane_set(SMM_SUSPECT));
    return lane_select(lane_equal(size, lane_set(INFINITY)), lane_set(SMM_OVERFLOW), suspects);
}

/* From column to column, and from row to row, of vectors of a matrix. */
INLINE int inv_right(const int n) { return n <= SMM_INV_DIRECT ? 1 : n; }
INLINE int inv_down(const int n) { return n <= SMM_INV_DIRECT ? n : 1; }

/* Choose the pivot of step k in column f: the largest |f_i|, i >= k, the first of equals. */
INLINE void inv_lanes_begin(inv_lanes_state *s, inv_lanes_step *step, const int n, const int k) {
    vec *f = step->f, most = lane_abs(f[k]);
    mask *exchanged = s->exchanged[k], later = lane_mask(0);
    UNROLLED(int i = k + 1; i < n; i++) {
        const vec size = lane_abs(f[i]);
        exchanged[i] = lane_greater(size, most);
        most = lane_max(size, most);
    }
    UNROLLED(int i = n - 1; i > k; i--) { /* the last that was larger than all before is the pivot */
        const mask larger = exchanged[i];
        exchanged[i] = larger & ~later;
        later |= larger;
        lane_exchange(exchanged[i], &f[k], &f[i]);
    }
    const mask zero = lane_equal(most, lane_set(0));
    step->exchanged = exchanged;
    step->r = lane_div(lane_set(1), n > SMM_INV_DIRECT && k ? lane_select(zero, inv_min_pivot(s->size), f[k]) : f[k]);
    UNROLLED(int i = 0; i < n; i++)
        if (i != k) f[i] = lane_mul(f[i], step->r);
    const mask bad = n > SMM_INV_DIRECT ? zero : ~lane_normal(step->r);
    s->singular = k ? s->singular | bad : bad;
    s->size = n <= SMM_INV_DIRECT ? lane_set(0) : k ? lane_max(most, s->size) : most;
}

INLINE void inv_lanes_eliminate(const inv_lanes_step *step, vec *x, const int n, const int k) {
    UNROLLED(int i = n - 1; i > k; i--) lane_exchange(step->exchanged[i], &x[k], &x[i]);
    UNROLLED(int i = 0; i < n; i++)
        if (i != k) x[i] = lane_fnma(step->f[i], x[k], x[i]);
    x[k] = lane_mul(x[k], step->r);
}

/* The same on column k of the identity, which takes the place of column k of A; its row k is where it belongs. */
INLINE void inv_lanes_invert(const inv_lanes_step *step, vec *x, const int n, const int k) {
    UNROLLED(int i = 0; i < n; i++) x[i] = i == k ? step->r : lane_sub(lane_set(0), step->f[i]);
}

INLINE void inv_lanes_read(vec *x, const vec *column, const int n) {
    UNROLLED(int i = 0; i < n; i++) x[i] = column[i * inv_down(n)];
}

INLINE void inv_lanes_write(vec *column, const vec *x, const int n) {
    UNROLLED(int i = 0; i < n; i++) column[i * inv_down(n)] = x[i];
}

/* Steps k and, if there are 2, k + 1 on their own columns. */
INLINE void inv_lanes_pivots(inv_lanes_state *s, inv_lanes_step *step, const int n, const int k, const int steps) {
    vec *column = s->a + k * inv_right(n), x[INV_LANES_MAX];
    inv_lanes_read(step[0].f, column, n);
    inv_lanes_begin(s, &step[0], n, k);
    inv_lanes_invert(&step[0], x, n, k);
    if (steps == 2) {
        inv_lanes_read(step[1].f, column + inv_right(n), n);
        inv_lanes_eliminate(&step[0], step[1].f, n, k);
        inv_lanes_begin(s, &step[1], n, k + 1);
        inv_lanes_eliminate(&step[1], x, n, k + 1);
    }
    inv_lanes_write(column, x, n);
    if (steps == 2) {
        inv_lanes_invert(&step[1], x, n, k + 1);
        inv_lanes_write(column + inv_right(n), x, n);
    }
}

/* And on another column. */
INLINE void inv_lanes_column(const inv_lanes_step *step, vec *column, const int n, const int k, const int steps) {
    vec x[INV_LANES_MAX];
    inv_lanes_read(x, column, n);
    inv_lanes_eliminate(&step[0], x, n, k);
    if (steps == 2) inv_lanes_eliminate(&step[1], x, n, k + 1);
    inv_lanes_write(column, x, n);
}

INLINE void inv_lanes_pass(inv_lanes_state *s, const int n, const int k, const int steps) {
    inv_lanes_step step[2];
    inv_lanes_pivots(s, step, n, k, steps);
    if (n <= INV_IN_REGISTERS) {
        UNROLLED(int j = k + steps; j < n; j++) inv_lanes_column(step, s->a + j * inv_right(n), n, k, steps);
        UNROLLED(int j = 0; j < k; j++) inv_lanes_column(step, s->a + j * inv_right(n), n, k, steps);
    } else {
        ROLLED(int j = k + steps; j < n; j++) inv_lanes_column(step, s->a + j * inv_right(n), n, k, steps);
        ROLLED(int j = 0; j < k; j++) inv_lanes_column(step, s->a + j * inv_right(n), n, k, steps);
    }
}

/* Rows i and, if there is one, i + 1: columns change places as the rows did, backwards. Two at a time, as loading a
 * mask costs as much as using it. Returns the sum of their squares. */
INLINE vec inv_lanes_rows(inv_lanes_state *s, const int n, intptr_t i) {
    const int right = inv_right(n), down = inv_down(n), rows = n % 2 == 0 || i + 1 < n ? 2 : 1;
    vec *row[2] = {s->a + i * down, s->a + min_of(i + 1, n - 1) * down}, x[2][INV_LANES_MAX];
    vec squares[2] = {lane_set(0), lane_set(0)};
    UNROLLED(int j = 0; j < n; j++) x[0][j] = row[0][j * right], x[1][j] = row[1][j * right];
    UNROLLED(int k = n - 2; k >= 0; k--)
        UNROLLED(int j = n - 1; j > k; j--)
            UNROLLED(int l = 0; l < 2; l++) lane_exchange(s->exchanged[k][j], &x[l][k], &x[l][j]);
    UNROLLED(int j = 0; j < n; j++)
        UNROLLED(int l = 0; l < 2; l++) {
            row[l][j * right] = x[l][j];
            squares[l] = lane_fma(x[l][j], x[l][j], squares[l]);
        }
    return rows == 2 ? lane_add(squares[0], squares[1]) : squares[0];
}

/* Returns the sum of the squares of all. */
INLINE vec inv_lanes_end(inv_lanes_state *s, const int n) {
    vec squares = lane_set(0);
    if (n <= INV_IN_REGISTERS)
        UNROLLED(int i = 0; i < n; i += 2) squares = lane_add(squares, inv_lanes_rows(s, n, i));
    else
        ROLLED(int i = 0; i < n; i += 2) squares = lane_add(squares, inv_lanes_rows(s, n, i));
    return squares;
}

INLINE void inv_lanes(const smm_call *call, intptr_t first, intptr_t last, bool cold, const int n, const int groups) {
    inv_lanes_state *const workspace = n <= INV_IN_REGISTERS ? NULL : smm_kernel_workspace();
    for (intptr_t q = first; q < last; q += groups * LANES) {
        inv_lanes_state own[INV_LANES_GROUPS], *const s = n <= INV_IN_REGISTERS ? own : workspace;
        const T *next = ahead_of(&call->inv.a, q, groups * LANES * n * n);
        if (cold && n <= INV_IN_REGISTERS) prefetch(next, groups * LANES * n * n);
        UNROLLED(int g = 0; g < groups; g++) { /* a group of which there is nothing left repeats the last matrix */
            const intptr_t from = min_of(q + g * LANES, last - 1);
            lanes_load(s[g].a, &call->inv.a, from, n, n, min_of(LANES, last - from));
        }
        UNROLLED(int k = 0; k < n; k += 2)
            UNROLLED(int g = 0; g < groups; g++) {
                if (cold && n > INV_IN_REGISTERS) /* as much as a pass does of its own */
                    prefetch(next + (k * groups + 2 * g) * LANES * n, 2 * LANES * n);
                inv_lanes_pass(&s[g], n, k, k + 1 < n ? 2 : 1);
            }
        UNROLLED(int g = 0; g < groups; g++) {
            const intptr_t from = q + g * LANES, count = min_of(LANES, last - from);
            if (count <= 0) break;
            const vec squares = inv_lanes_end(&s[g], n);
            lanes_store_int(&call->inv.info, from, inv_suspects(n <= SMM_INV_DIRECT, squares, s[g].size, s[g].singular),
                            count);
            lanes_store(&call->inv.inverse, from, s[g].a, n, n, count);
        }
    }
}
