/* eig_hessenberg.h: general matrices, LANES of them side by side, balanced and brought to Hessenberg form by
 * Householder reflectors (LAPACK's gebal, gehrd and unghr; Golub and Van Loan, Matrix Computations, section 7.4), and
 * the parts of the QR iteration (lahqr) that real and complex numbers share. eig_sweeps.h and eig_sweeps_complex.h have
 * its shifts, eig_lanes.h the rest.
 *
 * Each lane is at work on a window of its own. A reflector outside of it is the identity, which changes at most the
 * sign of a zero; nothing depends on that, and results have positive zeros. So lanes that are done do not notice those
 * that are not. */

enum {
    EIG_PASSES = 20,       /* of balancing */
    EIG_STEPS = 64,        /* doublings of a row's factor in a pass */
    EIG_SWEEPS = 30,       /* per row; then a matrix is given up */
    EIG_MIN_ROWS = 10,     /* sweeps are as many as for this order at least */
    EIG_EXCEPTIONAL = 10,  /* so many sweeps without success are followed by one with other shifts */
    EIG_WIDTH = 3 - PARTS, /* shifts of a sweep */
    EIG_BULGE = EIG_WIDTH + 1
};

/* Balancing multiplies nothing by more. No sum of squares of elements, which are multiplied by EIG_UNIT, overflows:
 * balancing does not increase the Frobenius norm. */
#if defined(SMM_KERNELS_F64)
#define EIG_MAX_BALANCE 0x1p300
#define EIG_UNIT 0x1p300
#else
#define EIG_MAX_BALANCE 0x1p30f
#define EIG_UNIT 0x1p35f
#endif

enum { EIG_ROWS = SMM_MAX_ORDER * (SMM_MAX_ORDER + 1) };

/* Rows begin `row_step` apart; eigenvectors of real matrices are complex, those of complex ones take the place of Z. */
typedef struct eig_workspace {
    elem h[EIG_ROWS], z[EIG_ROWS];
    pair v[PARTS > 1 ? 1 : SMM_MAX_ORDER * SMM_MAX_ORDER];
} eig_workspace;
_Static_assert(sizeof(eig_workspace) <= SMM_KERNEL_WORKSPACE, "workspace of eig_lanes");

/* LANES matrices under way: A = D Z H Z^H D^-1. */
typedef struct eig_stack {
    elem *h, *z;
    intptr_t n, step;
    bool vectors;               /* without them Z is not formed, and of H only windows count */
    vec balance[SMM_MAX_ORDER]; /* D */
    mask joined[SMM_MAX_ORDER]; /* rows and columns that are balanced */
    vec lo, hi;                 /* first and last row of the window; -1: all is done */
    vec since;                  /* sweeps since a row was done, modulo twice EIG_EXCEPTIONAL */
    mask works;
    intptr_t from, to;                 /* of all windows */
    int32_t first[LANES], last[LANES]; /* the window again; of a lane that is done, rows that exist */
} eig_stack;

INLINE mask eig_at_least(vec x, vec y) { return ~lane_greater(y, x); }
INLINE mask eig_nowhere(void) { return lane_greater(lane_set(0), lane_set(0)); }

/* --- Balanced ----------------------------------------------------------------------------------------------------- */

/* Times a power of two that brings it to about 1; zero where it is not finite. The result undoes the scaling, and is
 * NaN where A is not finite. */
INLINE vec eig_load(const smm_call *call, intptr_t q, eig_stack *x, intptr_t count) {
    const intptr_t n = x->n, length = PARTS * n, step = PARTS * x->step;
    vec *const a = (vec *)x->h, zero = lane_set(0);
    KERNEL(elem_load)(x->h, &call->a, q, n, n, count);
    spread_rows((lanes_matrix){a, n, length, step});
    vec most = zero, nothing = zero;
    for (intptr_t i = 0; i < n; i++)
        for (intptr_t j = 0; j < length; j++) {
            most = lane_max(lane_abs(a[i * step + j]), most);
            nothing = lane_fma(a[i * step + j], zero, nothing);
        }
    const mask finite = lane_equal(nothing, zero);
    const vec scale = lane_scale_to_one(most);
    if (lane_any(~(finite & lane_equal(scale, lane_set(1)))))
        for (intptr_t i = 0; i < n; i++)
            for (intptr_t j = 0; j < length; j++)
                a[i * step + j] = lane_select(finite, lane_mul(a[i * step + j], scale), zero);
    return lane_select(finite, lane_div(lane_set(1), scale), lane_set(NAN));
}

/* Which rows and columns are balanced: not those that a permutation would make the first or the last of a triangle. */
INLINE void eig_find_joined(eig_stack *x) {
    const vec zero = lane_set(0);
    mask again = ~eig_nowhere();
    for (intptr_t i = 0; i < x->n; i++) x->joined[i] = again;
    while (lane_any(again)) {
        again = eig_nowhere();
        for (intptr_t i = 0; i < x->n; i++) {
            mask below = eig_nowhere(), beside = below;
            for (intptr_t j = 0; j < x->n; j++) {
                if (j == i) continue;
                below |= x->joined[j] & ~lane_equal(elem_size(x->h[j * x->step + i]), zero);
                beside |= x->joined[j] & ~lane_equal(elem_size(x->h[i * x->step + j]), zero);
            }
            const mask alone = x->joined[i] & ~(below & beside);
            x->joined[i] &= ~alone;
            again |= alone;
        }
    }
}

INLINE vec eig_add_squares(elem x, vec sum) {
    UNROLLED(int s = 0; s < PARTS; s++) {
        const vec part = lane_mul(((const vec *)&x)[s], lane_set(EIG_UNIT));
        sum = lane_fma(part, part, sum);
    }
    return sum;
}

/* A power of two that makes the 2-norms of row i and of column i about equal; where there was need. Diagonals count,
 * and rows that are not joined (James, Langou and Lowery, On Matrix Balancing and Eigenvector Computation, 2014). */
INLINE mask eig_balance_row(eig_stack *x, intptr_t i) {
    const intptr_t n = x->n, step = x->step;
    const vec zero = lane_set(0), one = lane_set(1);
    vec c = zero, r = zero, f = one;
    for (intptr_t j = 0; j < n; j++) {
        c = eig_add_squares(x->h[j * step + i], c);
        r = eig_add_squares(x->h[i * step + j], r);
    }
    const mask joined = x->joined[i] & lane_greater(c, zero) & lane_greater(r, zero);
    const vec most = lane_set(EIG_MAX_BALANCE), least = lane_set(1 / EIG_MAX_BALANCE);
    vec ratio = lane_div(r, c), all = x->balance[i];
    mask more = joined, less = joined;
    for (int s = 0; s < EIG_STEPS; s++) {
        more &= lane_greater(ratio, lane_set(4)) & lane_greater(most, all);
        if (!lane_any(more)) break;
        ratio = lane_select(more, lane_mul(lane_set((T)0.0625), ratio), ratio);
        f = lane_select(more, lane_add(f, f), f);
        all = lane_mul(x->balance[i], f);
    }
    for (int s = 0; s < EIG_STEPS; s++) {
        less &= lane_greater(lane_set((T)0.25), ratio) & lane_greater(all, least);
        if (!lane_any(less)) break;
        ratio = lane_select(less, lane_mul(lane_set(16), ratio), ratio);
        f = lane_select(less, lane_mul(lane_set((T)0.5), f), f);
        all = lane_mul(x->balance[i], f);
    }
    mask needed = ~lane_equal(f, one);
    if (!lane_any(needed)) return needed;
    const vec back = lane_div(one, f);
    c = lane_sqrt(c), r = lane_sqrt(r);
    const vec before = lane_add(c, r), after = lane_add(lane_mul(c, f), lane_mul(r, back));
    needed &= lane_greater(lane_mul(lane_set((T)0.95), before), after);
    if (!lane_any(needed)) return needed;
    const vec down = lane_select(needed, back, one), up = lane_select(needed, f, one);
    x->balance[i] = lane_mul(x->balance[i], up);
    for (intptr_t j = 0; j < n; j++) x->h[i * step + j] = elem_scale(x->h[i * step + j], down);
    for (intptr_t j = 0; j < n; j++) x->h[j * step + i] = elem_scale(x->h[j * step + i], up);
    return needed;
}

INLINE void eig_balance(eig_stack *x) {
    mask again = ~eig_nowhere();
    eig_find_joined(x);
    for (intptr_t i = 0; i < x->n; i++) x->balance[i] = lane_set(1);
    for (int pass = 0; pass < EIG_PASSES && lane_any(again); pass++) {
        again = eig_nowhere();
        for (intptr_t i = 0; i < x->n; i++) again |= eig_balance_row(x, i);
    }
}

/* --- Hessenberg form ---------------------------------------------------------------------------------------------- */

/* A few rows x become x H, H = I - tau v v^H, v_0 = 1: w = tau x v, x = x - w v^H. */
INLINE void eig_reflect_rows(const elem *v, elem tau, elem *x, intptr_t step, intptr_t count, const int rows) {
    enum { MAX = 4 };
    elem w[MAX];
    UNROLLED(int i = 0; i < rows; i++) w[i] = x[i * step];
    for (intptr_t j = 1; j < count; j++)
        UNROLLED(int i = 0; i < rows; i++) w[i] = elem_fma(x[i * step + j], v[j], w[i]);
    UNROLLED(int i = 0; i < rows; i++) {
        w[i] = elem_mul(w[i], tau);
        x[i * step] = elem_sub(x[i * step], w[i]);
    }
    for (intptr_t j = 1; j < count; j++) {
        const elem v_j = elem_conj(v[j]);
        UNROLLED(int i = 0; i < rows; i++) x[i * step + j] = elem_fnma(w[i], v_j, x[i * step + j]);
    }
}

static void KERNEL(eig_reduce)(eig_stack *x) {
    const intptr_t n = x->n, step = x->step;
    elem v[SMM_MAX_ORDER], tau[SMM_MAX_ORDER];
    for (intptr_t k = 0; k + 2 < n; k++) {
        const intptr_t count = n - k - 1;
        elem *const column = x->h + (k + 1) * step + k;
        for (intptr_t i = 0; i < count; i++) v[i] = column[i * step];
        tau[k] = elem_reflector(v, 1, count);
        for (intptr_t i = 0; i < count; i++) column[i * step] = v[i];
        KERNEL(elem_reflect)(v, 1, elem_conj(tau[k]), column + 1, step, count, count);
        intptr_t i = 0;
        for (; i + 4 <= n; i += 4) eig_reflect_rows(v, tau[k], x->h + i * step + k + 1, step, count, 4);
        for (; i < n; i++) eig_reflect_rows(v, tau[k], x->h + i * step + k + 1, step, count, 1);
    }
    for (intptr_t i = 0; i < n && x->vectors; i++)
        for (intptr_t j = 0; j < n; j++) x->z[i * step + j] = elem_set(i == j);
    for (intptr_t k = n - 3; k >= 0; k--) {
        elem *const column = x->h + (k + 1) * step + k;
        const intptr_t count = n - k - 1;
        if (x->vectors) KERNEL(elem_reflect)(column, step, tau[k], x->z + (k + 1) * (step + 1), step, count, count);
        for (intptr_t i = 1; i < count; i++) column[i * step] = elem_set(0);
    }
}

/* --- Windows ------------------------------------------------------------------------------------------------------ */

/* Where h_k,k-1 is negligible (Ahues and Tisseur, LAPACK Working Note 122). If most sweeps were in vain it is so
 * beside what is not on the diagonal, too, which may be as good as zero. */
INLINE mask eig_negligible(const eig_stack *x, intptr_t k, bool in_vain) {
    const elem *const h = x->h + k * x->step + k, above = h[-x->step - 1], here = h[0];
    const vec ulp = lane_set(2 * ROUNDOFF), least = lane_set(smallest_normal() / ROUNDOFF);
    const vec below = elem_size(h[-1]), d = elem_size(here), right = elem_size(h[-x->step]);
    const mask tiny = ~lane_greater(below, least);
    vec beside = lane_add(elem_size(above), d);
    if (__builtin_expect(in_vain, 0)) {
        beside = lane_add(beside, right);
        if (k > 1) beside = lane_add(beside, elem_size(h[-x->step - 2]));
        if (k + 1 < x->n) beside = lane_add(beside, elem_size(h[x->step]));
        return tiny | ~lane_greater(below, lane_mul(ulp, beside));
    }
    const mask small = ~lane_greater(below, lane_mul(ulp, beside));
    if (!lane_any(small & ~tiny)) return tiny;
    const vec apart = elem_size(elem_sub(above, here));
    const vec ab = lane_max(below, right), ba = lane_select(lane_greater(below, right), right, below);
    const vec aa = lane_max(apart, d), bb = lane_select(lane_greater(apart, d), d, apart), s = lane_add(aa, ab);
    const vec left = lane_mul(ba, lane_div(ab, s)), limit = lane_mul(ulp, lane_mul(bb, lane_div(aa, s)));
    return tiny | (small & ~lane_greater(left, lane_max(limit, least)));
}

/* Find all lanes' windows. False if there are none. */
static bool KERNEL(eig_find_windows)(eig_stack *x, bool in_vain) {
    mask open = eig_at_least(x->hi, lane_set(0));
    for (intptr_t k = x->to; k >= 0 && lane_any(open); k--) {
        mask ends = open & eig_at_least(x->hi, lane_set((T)k));
        if (k) {
            elem *const below = x->h + k * x->step + k - 1;
            ends &= eig_negligible(x, k, in_vain);
            *below = elem_select(ends, elem_set(0), *below);
        }
        const mask done = ends & lane_greater(lane_set(EIG_WIDTH), lane_sub(x->hi, lane_set((T)k)));
        x->hi = lane_select(done, lane_set((T)(k - 1)), x->hi);
        x->since = lane_select(done, lane_set(0), x->since);
        x->lo = lane_select(ends & ~done, lane_set((T)k), x->lo);
        open &= ~ends | done;
    }
    x->works = eig_at_least(x->hi, lane_set(0));
    x->since = lane_select(x->works, lane_add(x->since, lane_set(1)), x->since);
    x->since = lane_select(lane_equal(x->since, lane_set(2 * EIG_EXCEPTIONAL)), lane_set(0), x->since);
    lane_store_int(x->first, lane_select(x->works, x->lo, lane_set(0)));
    lane_store_int(x->last, lane_select(x->works, x->hi, lane_set(EIG_WIDTH)));
    x->from = x->n;
    x->to = -1;
    const uint32_t works = lane_bits(x->works);
    for (int l = 0; l < LANES; l++)
        if (works >> l & 1) {
            x->from = x->first[l] < x->from ? x->first[l] : x->from;
            x->to = x->last[l] > x->to ? x->last[l] : x->to;
        }
    return x->to >= 0;
}

/* Element (row + i, row + j) of each lane's own row. */
INLINE elem eig_pick(const eig_stack *x, const int32_t *row, intptr_t i, intptr_t j) {
    T part[PARTS][LANES];
    for (int l = 0; l < LANES; l++) {
        const T *const p = (const T *)(x->h + (row[l] + i) * x->step + row[l] + j) + l;
        UNROLLED(int s = 0; s < PARTS; s++) part[s][l] = p[s * LANES];
    }
    elem y;
    UNROLLED(int s = 0; s < PARTS; s++) ((vec *)&y)[s] = lane_load(part[s]);
    return y;
}

/* Rows k .. k+count-1 become H^H times them, columns H from the right. */
INLINE void eig_reflect_both(eig_stack *x, const elem *v, elem tau, intptr_t k, const int count) {
    const intptr_t n = x->n, step = x->step, end = x->vectors ? n : x->to + 1;
    const elem back = elem_conj(tau);
    elem *const rows = x->h + k * step;
    ROLLED(intptr_t j = k; j < end; j++) {
        elem s = rows[j];
        UNROLLED(int i = 1; i < count; i++) s = elem_fma(elem_conj(v[i]), rows[i * step + j], s);
        s = elem_mul(back, s);
        rows[j] = elem_sub(rows[j], s);
        UNROLLED(int i = 1; i < count; i++) rows[i * step + j] = elem_fnma(v[i], s, rows[i * step + j]);
    }
    ROLLED(intptr_t i = x->vectors ? 0 : x->from; i <= min_of(k + count, n - 1); i++)
        eig_reflect_rows(v, tau, x->h + i * step + k, step, count, 1);
    if (!x->vectors) return;
    ROLLED(intptr_t i = 0; i < n; i++) eig_reflect_rows(v, tau, x->z + i * step + k, step, count, 1);
}

/* A sweep of the bulge that `start` begins. */
INLINE void eig_chase(eig_stack *x, const elem *start) {
    const intptr_t step = x->step;
    for (intptr_t k = x->from; k < x->to; k++) {
        const intptr_t count = min_of(EIG_BULGE, x->n - k);
        const mask starts = lane_equal(x->lo, lane_set((T)k));
        const mask active = x->works & eig_at_least(lane_set((T)k), x->lo) & lane_greater(x->hi, lane_set((T)k));
        elem *const column = x->h + k * step + k - 1; /* none if k is 0 */
        elem v[EIG_BULGE];
        UNROLLED(int i = 0; i < EIG_BULGE; i++) {
            const elem y = k && i < count ? elem_select(starts, start[i], column[i * step]) : start[i];
            v[i] = elem_select(eig_at_least(x->hi, lane_set((T)(k + i))), y, elem_set(0));
            v[i] = elem_select(active, v[i], elem_set(1)); /* reflectors of tiny numbers take longer */
        }
        const elem tau = elem_select(active, elem_reflector(v, 1, EIG_BULGE), elem_set(0));
        if (k) {
            column[0] = elem_select(active & ~starts, v[0], column[0]);
            for (intptr_t i = 1; i < count; i++) column[i * step] = elem_set(0);
        }
        if (count == EIG_BULGE)
            eig_reflect_both(x, v, tau, k, EIG_BULGE);
        else
            eig_reflect_both(x, v, tau, k, EIG_BULGE - 1);
    }
}
