/* eig_hessenberg.h: general matrices, LANES of them side by side, balanced and brought to Hessenberg form by
 * Householder reflectors (LAPACK's gebal, gehrd and unghr; Golub and Van Loan, Matrix Computations, section 7.4).
 * eig_windows.h, eig_sweeps.h and eig_sweeps_complex.h have the QR iteration, eig_lanes.h the rest.
 *
 * A matrix may also be alone, with its columns in the lanes (single.h). Then eig_single.h does what takes n^3
 * operations; the rest is the same text, to which each number comes spread. */

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

/* Of a matrix that is alone: Z is transposed, so that columns of Z are rows, as those of H are in `transposed`. Row i
 * of `turns` has v_i of each reflector of a sweep, row 0 tau. */
typedef struct eig_single {
    elem h[SINGLE_ELEMENTS], transposed[SINGLE_ELEMENTS], z[SINGLE_ELEMENTS];
    elem turns[EIG_BULGE][SINGLE_STEP], strip[SMM_MAX_ORDER * SINGLE_STRIP];
    single_workspace workspace;
    pair v[SMM_MAX_ORDER], u[PARTS > 1 ? 1 : SINGLE_ELEMENTS]; /* an eigenvector; a root */
} eig_single;
_Static_assert(sizeof(eig_single) <= SMM_KERNEL_WORKSPACE, "workspace of eig_single");

/* Rows begin `row_step` apart; eigenvectors of real matrices are complex, those of complex ones take the place of Z. */
typedef struct eig_workspace {
    elem h[EIG_ROWS], z[EIG_ROWS];
    pair v[PARTS > 1 ? 1 : SMM_MAX_ORDER * SMM_MAX_ORDER];
} eig_workspace;
_Static_assert(sizeof(eig_workspace) <= SMM_KERNEL_WORKSPACE, "workspace of eig_lanes");

/* LANES matrices under way: A = D Z H Z^H D^-1. */
typedef struct eig_stack {
    elem *h, *z;
    eig_single *single; /* or one matrix, which is alone */
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

/* Where H lies, in registers of the texts that go through it element by element. */
typedef struct eig_matrix {
    elem *at;
    intptr_t step;
    bool single;
} eig_matrix;
INLINE eig_matrix eig_h(const eig_stack *x) { return (eig_matrix){x->h, x->step, x->single != NULL}; }
INLINE elem eig_get(eig_matrix h, intptr_t i, intptr_t j) {
    const elem *const row = h.at + i * h.step;
    return __builtin_expect(h.single, 0) ? single_get(row, j) : row[j];
}
INLINE void eig_put(eig_matrix h, intptr_t i, intptr_t j, elem x) {
    elem *const row = h.at + i * h.step;
    if (__builtin_expect(h.single, 0))
        single_put(row, j, x);
    else
        row[j] = x;
}

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
    const eig_matrix h = eig_h(x);
    mask again = ~eig_nowhere();
    for (intptr_t i = 0; i < x->n; i++) x->joined[i] = again;
    while (lane_any(again)) {
        again = eig_nowhere();
        for (intptr_t i = 0; i < x->n; i++) {
            mask below = eig_nowhere(), beside = below;
            for (intptr_t j = 0; j < x->n; j++) {
                if (j == i) continue;
                below |= x->joined[j] & ~lane_equal(elem_size(eig_get(h, j, i)), zero);
                beside |= x->joined[j] & ~lane_equal(elem_size(eig_get(h, i, j)), zero);
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
    const intptr_t n = x->n;
    const eig_matrix h = eig_h(x);
    const vec zero = lane_set(0), one = lane_set(1);
    vec c = zero, r = zero, f = one;
    for (intptr_t j = 0; j < n; j++) {
        c = eig_add_squares(eig_get(h, j, i), c);
        r = eig_add_squares(eig_get(h, i, j), r);
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
    for (intptr_t j = 0; j < n; j++) eig_put(h, i, j, elem_scale(eig_get(h, i, j), down));
    for (intptr_t j = 0; j < n; j++) eig_put(h, j, i, elem_scale(eig_get(h, j, i), up));
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
