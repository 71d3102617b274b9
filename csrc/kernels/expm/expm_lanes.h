/* expm_lanes.h: exponentials of general matrices, real and complex, LANES of them side by side, for any order: one text
 * over the numbers of elements_real.h and those of elements_complex.h. The algorithm is in ../exponential.h; each lane
 * has an e, a g and squarings of its own, and keeps what it has when these are done. */
#include "../../math/exponential.h"

enum { EXPM_MATRICES = 7, EXPM_DOUBLE = sizeof(T) == 8 };

/* Row i of a matrix begins at i step. */
typedef struct expm_stack {
    elem *t1, *t2, *t4, *t6, *p, *q, *r;
    intptr_t n, step;
    double e[LANES], s[LANES];       /* of each lane */
    vec growth, square, cube, sixth; /* 2^g, 2^2g, 2^4g, 2^6g */
} expm_stack;

static intptr_t KERNEL(expm_lanes_workspace)(const smm_call *call) {
    return EXPM_MATRICES * call->n * row_step(call->n) * (intptr_t)sizeof(elem);
}

/* --- Products and norms ------------------------------------------------------------------------------------------- */

/* Tiles in registers: high ones, so that large matrices, which are beyond L1, are read less often. */
enum { EXPM_ROWS = VECTOR_REGISTERS / 4 / PARTS, EXPM_COLS = 2 };

INLINE void expm_tile(elem *c, const elem *a, const elem *b, intptr_t n, intptr_t step, const int rows,
                      const int cols) {
    elem sum[EXPM_ROWS * EXPM_COLS];
    UNROLLED(int i = 0; i < rows; i++)
        UNROLLED(int j = 0; j < cols; j++) sum[i * cols + j] = elem_mul(a[i * step], b[j]);
    ROLLED(intptr_t k = 1; k < n; k++) {
        elem y[EXPM_COLS];
        UNROLLED(int j = 0; j < cols; j++) y[j] = b[k * step + j];
        UNROLLED(int i = 0; i < rows; i++) {
            const elem x = a[i * step + k];
            UNROLLED(int j = 0; j < cols; j++) sum[i * cols + j] = elem_fma(x, y[j], sum[i * cols + j]);
        }
    }
    UNROLLED(int i = 0; i < rows; i++)
        UNROLLED(int j = 0; j < cols; j++) c[i * step + j] = sum[i * cols + j];
}
INLINE void expm_rows(elem *c, const elem *a, const elem *b, intptr_t n, intptr_t step, const int rows) {
    intptr_t j = 0;
    for (; j + EXPM_COLS <= n; j += EXPM_COLS) expm_tile(c + j, a, b + j, n, step, rows, EXPM_COLS);
    if (j < n) expm_tile(c + j, a, b + j, n, step, rows, 1);
}
/* C = A B, another matrix than both. */
SHARED void KERNEL(expm_multiply)(elem *c, const elem *a, const elem *b, intptr_t n, intptr_t step) {
    intptr_t i = 0;
    for (; i + EXPM_ROWS <= n; i += EXPM_ROWS) expm_rows(c + i * step, a + i * step, b, n, step, EXPM_ROWS);
    c += i * step, a += i * step;
    UNROLLED(int rows = 1; rows < EXPM_ROWS; rows++)
        if (n - i == rows) expm_rows(c, a, b, n, step, rows);
}

/* The 1-norm of a matrix without NaN. */
INLINE vec expm_norm(const elem *a, intptr_t n, intptr_t step) {
    vec most = lane_set(0);
    for (intptr_t j = 0; j < n; j++) {
        vec sum = lane_set(0);
        ROLLED(intptr_t i = 0; i < n; i++) sum = lane_add(sum, elem_size(a[i * step + j]));
        most = lane_max(sum, most);
    }
    return most;
}

/* |abs(T)^k|, by a row of ones. */
INLINE vec expm_norm_of_power(const expm_stack *x, int k) {
    const intptr_t n = x->n;
    vec *size = (vec *)x->p, row[SMM_MAX_ORDER], next[SMM_MAX_ORDER], most = lane_set(0);
    for (intptr_t i = 0; i < n; i++)
        for (intptr_t j = 0; j < n; j++) size[i * n + j] = elem_size(x->t1[i * x->step + j]);
    for (intptr_t j = 0; j < n; j++) row[j] = lane_set(1);
    for (int step = 0; step < k; step++) {
        for (intptr_t j = 0; j < n; j++) next[j] = lane_set(0);
        for (intptr_t i = 0; i < n; i++)
            ROLLED(intptr_t j = 0; j < n; j++) next[j] = lane_fma(row[i], size[i * n + j], next[j]);
        for (intptr_t j = 0; j < n; j++) row[j] = next[j];
    }
    for (intptr_t j = 0; j < n; j++) most = lane_max(row[j], most);
    return most;
}

/* --- Scaling ------------------------------------------------------------------------------------------------------ */

INLINE vec expm_power_of_two(const double *exponent, double factor) {
    T lane[LANES];
    for (int l = 0; l < LANES; l++) lane[l] = (T)smm_scaled(1, factor * exponent[l]);
    return lane_load(lane);
}

/* Squarings of the lanes for which |A|_1 alone asks for some. */
SHARED void KERNEL(expm_find_squarings)(expm_stack *x, const T *size) {
    const intptr_t n = x->n, step = x->step;
    T t[LANES], t6[LANES], t8[LANES], t10[LANES] = {0}, last[LANES];
    lane_store(t, expm_norm(x->t1, n, step));
    lane_store(t6, expm_norm(x->t6, n, step));
    KERNEL(expm_multiply)(x->p, x->t4, x->t4, n, step);
    lane_store(t8, expm_norm(x->p, n, step));
    if (EXPM_DOUBLE) {
        KERNEL(expm_multiply)(x->p, x->t6, x->t4, n, step);
        lane_store(t10, expm_norm(x->p, n, step));
    }
    lane_store(last, expm_norm_of_power(x, 2 * smm_pade_of(EXPM_DOUBLE).degree + 1));
    for (int l = 0; l < LANES; l++) {
        const smm_expm_norms norms = {(double)size[l], (double)t[l],   (double)t6[l],
                                      (double)t8[l],   (double)t10[l], (double)last[l]};
        const double s = smm_squarings_of(EXPM_DOUBLE, x->e[l], &norms);
        x->s[l] = x->s[l] > 0 ? s : 0;
    }
}

/* T1 is A, without NaN or infinity: the powers of T, and how often each lane is squared at most. The result is that of
 * all lanes. */
INLINE double expm_scale(expm_stack *x, vec size) {
    const intptr_t n = x->n, step = x->step;
    T lane[LANES];
    double most = 0;
    bool large = false;
    lane_store(lane, size);
    for (int l = 0; l < LANES; l++) {
        x->e[l] = smm_scaling_exponent(EXPM_DOUBLE, (double)lane[l]);
        x->s[l] = smm_max_squarings(EXPM_DOUBLE, (double)lane[l]);
        large |= x->e[l] > 0;
    }
    if (large) {
        vec *const a = (vec *)x->t1, back = expm_power_of_two(x->e, -1);
        for (intptr_t i = 0; i < n; i++)
            for (intptr_t j = 0; j < PARTS * n; j++) a[i * PARTS * step + j] = lane_mul(a[i * PARTS * step + j], back);
    }
    KERNEL(expm_multiply)(x->t2, x->t1, x->t1, n, step);
    KERNEL(expm_multiply)(x->t4, x->t2, x->t2, n, step);
    KERNEL(expm_multiply)(x->t6, x->t4, x->t2, n, step);
    for (int l = 0; l < LANES; l++) most = x->s[l] > most ? x->s[l] : most;
    if (most > 0) KERNEL(expm_find_squarings)(x, lane);
    double g[LANES];
    most = 0;
    for (int l = 0; l < LANES; l++) {
        g[l] = x->e[l] - x->s[l];
        most = x->s[l] > most ? x->s[l] : most;
    }
    x->growth = expm_power_of_two(g, 1);
    x->square = lane_mul(x->growth, x->growth);
    x->cube = lane_mul(x->square, x->square);
    x->sixth = lane_mul(x->cube, x->square);
    return most;
}

/* --- The approximant ---------------------------------------------------------------------------------------------- */

/* to = b_k T^2 + b_(k + 2) T^4 + b_(k + 4) T^6, and if `more`, of [13/13], to = that + 2^6g R; then the sum has a
 * term b_(k - 2) I. */
INLINE void expm_sum(const expm_stack *x, int k, elem *to, const bool whole) {
    const intptr_t n = x->n, length = PARTS * n, step = PARTS * x->step;
    const vec b2 = lane_mul(lane_set((T)smm_pade_coefficient(EXPM_DOUBLE, k)), x->square);
    const vec b4 = lane_mul(lane_set((T)smm_pade_coefficient(EXPM_DOUBLE, k + 2)), x->cube);
    const vec b6 = lane_mul(lane_set((T)smm_pade_coefficient(EXPM_DOUBLE, k + 4)), x->sixth);
    for (intptr_t i = 0; i < n; i++) {
        const vec *const t2 = (const vec *)x->t2 + i * step, *const t4 = (const vec *)x->t4 + i * step,
                         *const t6 = (const vec *)x->t6 + i * step, *const r = (const vec *)x->r + i * step;
        vec *const row = (vec *)to + i * step;
        ROLLED(intptr_t j = 0; j < length; j++) {
            vec y = lane_fma(b6, t6[j], lane_fma(b4, t4[j], lane_mul(t2[j], b2)));
            if (whole && EXPM_DOUBLE) y = lane_fma(x->sixth, r[j], y);
            row[j] = y;
        }
        if (whole) row[PARTS * i] = lane_add(row[PARTS * i], lane_set((T)smm_pade_coefficient(EXPM_DOUBLE, k - 2)));
    }
}
/* to = b_k I + b_(k + 2) 2^2g T^2 + ... */
INLINE void expm_even_powers(const expm_stack *x, int k, elem *to) {
    if (EXPM_DOUBLE) {
        expm_sum(x, k + 8, to, false);
        KERNEL(expm_multiply)(x->r, x->t6, to, x->n, x->step);
    }
    expm_sum(x, k + 2, to, true);
}

/* Rows of a panel, by which others change at a time: large matrices are beyond L1. */
enum { EXPM_PANEL = 4 };

/* x_j -= l y_j */
INLINE void expm_subtract(elem *x, elem l, const elem *y, intptr_t count) {
    UNROLLED_BY_2(intptr_t j = 0; j < count; j++) x[j] = elem_fnma(l, y[j], x[j]);
}
/* Of two rows, x and the next: x_j -= l_0 y_0j + l_1 y_1j + ..., one after the other. */
INLINE void expm_subtract_panel(elem *x, intptr_t step, const elem *l, const elem *m, const elem *y, intptr_t down,
                                intptr_t count) {
    ROLLED(intptr_t j = 0; j < count; j++) {
        elem a = x[j], b = x[step + j];
        UNROLLED(int s = 0; s < EXPM_PANEL; s++) {
            const elem y_s = y[s * down + j];
            a = elem_fnma(l[s], y_s, a);
            b = elem_fnma(m[s], y_s, b);
        }
        x[j] = a, x[step + j] = b;
    }
}
INLINE void expm_subtract_panel_once(elem *x, const elem *l, const elem *y, intptr_t down, intptr_t count) {
    ROLLED(intptr_t j = 0; j < count; j++) {
        elem a = x[j];
        UNROLLED(int s = 0; s < EXPM_PANEL; s++) a = elem_fnma(l[s], y[s * down + j], a);
        x[j] = a;
    }
}
/* Rows first .. last-1 of x, of which row i is given l_s = q[i step + s across]. */
INLINE void expm_subtract_panels(elem *x, const elem *q, intptr_t across, intptr_t step, intptr_t first, intptr_t last,
                                 const elem *y, intptr_t down, intptr_t count) {
    intptr_t i = first;
    for (; i < last; i += 2) {
        elem l[EXPM_PANEL], m[EXPM_PANEL];
        const bool alone = i + 1 == last;
        UNROLLED(int s = 0; s < EXPM_PANEL; s++) {
            l[s] = q[i * step + s * across];
            m[s] = q[(alone ? i : i + 1) * step + s * across];
        }
        if (alone)
            expm_subtract_panel_once(x + i * step, l, y, down, count);
        else
            expm_subtract_panel(x + i * step, step, l, m, y, down, count);
    }
}

INLINE void expm_exchange(elem *x, elem *y, mask where, intptr_t count) {
    ROLLED(intptr_t j = 0; j < count; j++) {
        const elem x_j = x[j], y_j = y[j];
        x[j] = elem_select(where, y_j, x_j);
        y[j] = elem_select(where, x_j, y_j);
    }
}

/* Column k becomes that of L and U; of the panel's columns, up to `end`, what is right of it changes. The result is
 * the pivot's reciprocal. */
INLINE elem expm_pivot(const expm_stack *x, intptr_t k, intptr_t begin, intptr_t end) {
    const intptr_t n = x->n, step = x->step;
    elem *const q = x->q, *const p = x->p, *const q_k = q + k * step;
    vec most = elem_size(q_k[k]), row = lane_set((T)k);
    for (intptr_t i = k + 1; i < n; i++) {
        const vec size = elem_size(q[i * step + k]);
        const mask more = lane_greater(size, most);
        most = lane_select(more, size, most);
        row = lane_select(more, lane_set((T)i), row);
    }
    for (intptr_t i = k + 1; i < n && lane_any(lane_greater(row, lane_set((T)k))); i++) {
        const mask here = lane_equal(row, lane_set((T)i));
        if (!lane_any(here)) continue;
        expm_exchange(q_k + begin, q + i * step + begin, here, n - begin);
        expm_exchange(p + k * step, p + i * step, here, n);
    }
    const elem back = elem_div(elem_set(1), q_k[k]);
    for (intptr_t i = k + 1; i < n; i++) {
        elem *const q_i = q + i * step;
        q_i[k] = elem_mul(q_i[k], back);
        expm_subtract(q_i + k + 1, q_i[k], q_k + k + 1, end - k - 1);
    }
    return back;
}

/* P becomes Q^-1 P: elimination with partial pivoting, by panels. */
SHARED void KERNEL(expm_divide)(const expm_stack *x) {
    const intptr_t n = x->n, step = x->step;
    elem *const q = x->q, *const p = x->p, back[SMM_MAX_ORDER];
    for (intptr_t k = 0; k < n; k += EXPM_PANEL) {
        const intptr_t end = min_of(k + EXPM_PANEL, n);
        for (intptr_t t = k; t < end; t++) back[t] = expm_pivot(x, t, k, end);
        for (intptr_t t = k + 1; t < end; t++)
            for (intptr_t s = k; s < t; s++) {
                expm_subtract(q + t * step + end, q[t * step + s], q + s * step + end, n - end);
                expm_subtract(p + t * step, q[t * step + s], p + s * step, n);
            }
        expm_subtract_panels(q + end, q + k, 1, step, end, n, q + k * step + end, step, n - end);
        expm_subtract_panels(p, q + k, 1, step, end, n, p + k * step, step, n);
    }
    for (intptr_t end = n, k; end > 0; end = k) {
        k = end > EXPM_PANEL ? end - EXPM_PANEL : 0;
        for (intptr_t t = end - 1; t >= k; t--) {
            elem *const p_t = p + t * step;
            for (intptr_t j = 0; j < n; j++) p_t[j] = elem_mul(p_t[j], back[t]);
            for (intptr_t i = k; i < t; i++) expm_subtract(p + i * step, q[i * step + t], p_t, n);
        }
        expm_subtract_panels(p, q + end - 1, -1, step, 0, k, p + (end - 1) * step, -step, n);
    }
}

/* P = e^(A / 2^s) */
INLINE void expm_approximate(expm_stack *x, vec size) {
    const intptr_t n = x->n, length = PARTS * n, step = PARTS * x->step;
    const mask is_large = lane_greater(size, lane_set(1));
    expm_even_powers(x, 1, x->q);
    expm_even_powers(x, 0, x->p);
    KERNEL(expm_multiply)(x->r, x->t1, x->q, n, x->step);
    for (intptr_t i = 0; i < n; i++) {
        vec *const p = (vec *)x->p + i * step, *const q = (vec *)x->q + i * step;
        const vec *const r = (const vec *)x->r + i * step;
        ROLLED(intptr_t j = 0; j < length; j++) {
            const vec u = lane_mul(r[j], x->growth), v = p[j];
            q[j] = lane_sub(v, u);
            p[j] = lane_add(u, lane_select(is_large, v, u));
        }
    }
    KERNEL(expm_divide)(x);
    for (intptr_t i = 0; i < n; i++) {
        vec *const p = (vec *)x->p + i * (step + PARTS);
        *p = lane_select(is_large, *p, lane_add(*p, lane_set(1)));
    }
}

/* --- Triangular matrices ------------------------------------------------------------------------------------------ */

/* The lanes whose matrices have zeros below the diagonal, or above it. */
INLINE uint32_t expm_triangular(const expm_stack *x, bool lower) {
    const intptr_t n = x->n, step = x->step;
    const vec zero = lane_set(0);
    mask all = lane_equal(zero, zero);
    for (intptr_t i = 1; i < n && lane_any(all); i++)
        for (intptr_t j = 0; j < i; j++) all &= lane_equal(elem_size(x->t1[lower ? j * step + i : i * step + j]), zero);
    return lane_bits(all);
}

/* Element (i, j) of a lane, or (j, i): from and to numbers in double precision. */
INLINE T *expm_element(elem *a, intptr_t step, intptr_t i, intptr_t j, int l) { return (T *)(a + i * step + j) + l; }
INLINE smm_parts expm_get(elem *a, intptr_t step, intptr_t i, intptr_t j, int l, double exponent) {
    const T *const z = expm_element(a, step, i, j, l);
    return (smm_parts){smm_scaled((double)z[0], exponent),
                       PARTS > 1 ? smm_scaled((double)z[LANES * (PARTS - 1)], exponent) : 0};
}
INLINE void expm_put(elem *a, intptr_t step, intptr_t i, intptr_t j, int l, smm_parts y) {
    T *const z = expm_element(a, step, i, j, l);
    z[0] = (T)y.re;
    if (PARTS > 1) z[LANES * (PARTS - 1)] = (T)y.im;
}

/* P of a lane, the exponential of a triangular A / 2^left, gets the diagonal and what is beside it exactly, and zeros
 * on the other side. */
SHARED void KERNEL(expm_correct)(const expm_stack *x, int l, double left, bool lower) {
    const intptr_t n = x->n, step = x->step, up = lower, over = !lower;
    const double exponent = x->e[l] - left;
    smm_parts here = expm_get(x->t1, step, 0, 0, l, exponent);
    for (intptr_t i = 0; i < n; i++) {
        expm_put(x->p, step, i, i, l, smm_exp_of_parts(PARTS > 1, here));
        for (intptr_t j = 0; j < i; j++) expm_put(x->p, step, lower ? j : i, lower ? i : j, l, (smm_parts){0, 0});
        if (i + 1 == n) break;
        const smm_parts there = expm_get(x->t1, step, i + 1, i + 1, l, exponent);
        const smm_parts a = expm_get(x->t1, step, i + up, i + over, l, exponent);
        expm_put(x->p, step, i + up, i + over, l, smm_exp_beside(PARTS > 1, a, here, there));
        here = there;
    }
}

INLINE void expm_correct_lanes(const expm_stack *x, const uint32_t *triangular, double done) {
    for (int l = 0; l < LANES && (triangular[0] | triangular[1]); l++)
        for (int lower = 0; lower < 2; lower++)
            if (triangular[lower] >> l & 1 && !(x->s[l] < done)) KERNEL(expm_correct)(x, l, x->s[l] - done, lower);
}

/* --- All of it ---------------------------------------------------------------------------------------------------- */

/* T1 = A, or zero where A or its norm is not finite; where it is. */
INLINE mask expm_load(const smm_call *call, intptr_t q, expm_stack *x, intptr_t count, vec *size) {
    const intptr_t n = x->n, length = PARTS * n, step = PARTS * x->step;
    vec *const a = (vec *)x->t1, zero = lane_set(0);
    vec nothing = zero;
    KERNEL(elem_load)(x->t1, &call->a, q, n, n, count);
    spread_rows((lanes_matrix){a, n, length, step});
    for (intptr_t i = 0; i < n; i++)
        ROLLED(intptr_t j = 0; j < length; j++) nothing = lane_fma(a[i * step + j], zero, nothing);
    *size = expm_norm(x->t1, n, x->step);
    const mask finite = lane_equal(nothing, zero) & lane_greater(lane_set(INFINITY), *size);
    if (__builtin_expect(lane_any(~finite), 0)) {
        for (intptr_t i = 0; i < n; i++)
            for (intptr_t j = 0; j < length; j++) a[i * step + j] = lane_select(finite, a[i * step + j], zero);
        *size = lane_select(finite, *size, zero);
    }
    return finite;
}

static void KERNEL(expm_group)(const smm_call *call, intptr_t q, intptr_t count, expm_stack *x) {
    const intptr_t n = x->n, length = PARTS * n, step = PARTS * x->step;
    vec size;
    const mask finite = expm_load(call, q, x, count, &size);
    const double most = expm_scale(x, size);
    const uint32_t triangular[2] = {expm_triangular(x, false), expm_triangular(x, true)};
    expm_approximate(x, size);
    expm_correct_lanes(x, triangular, 0);
    T squarings[LANES];
    for (int l = 0; l < LANES; l++) squarings[l] = (T)x->s[l];
    for (double done = 1; done <= most; done++) {
        const mask ended = lane_greater(lane_set((T)done), lane_load(squarings));
        KERNEL(expm_multiply)(x->r, x->p, x->p, n, x->step);
        elem *const squared = x->r;
        if (lane_any(ended))
            for (intptr_t i = 0; i < n; i++)
                for (intptr_t j = 0; j < length; j++) {
                    vec *const r = (vec *)squared + i * step + j;
                    *r = lane_select(ended, ((const vec *)x->p)[i * step + j], *r);
                }
        x->r = x->p;
        x->p = squared;
        expm_correct_lanes(x, triangular, done);
    }
    gather_rows((lanes_matrix){(vec *)x->p, n, length, step}, length);
    KERNEL(elem_store)(&call->expm.x, q, x->p, n, n, count);
    KERNEL(elem_fill_nan)(&call->expm.x, q, lane_select(finite, lane_set(0), lane_set(1)), n, n, count);
}

static void KERNEL(expm_lanes)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) {
    const intptr_t n = call->n, step = row_step(n), size = n * step;
    elem *const workspace = smm_kernel_workspace();
    expm_stack x = {workspace,
                    workspace + size,
                    workspace + 2 * size,
                    workspace + 3 * size,
                    workspace + 4 * size,
                    workspace + 5 * size,
                    workspace + 6 * size,
                    .n = n,
                    .step = step};
    (void)cold;
    for (intptr_t q = first; q < last; q += LANES) KERNEL(expm_group)(call, q, min_of(LANES, last - q), &x);
}
