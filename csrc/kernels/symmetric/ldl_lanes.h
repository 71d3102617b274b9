/* ldl_lanes.h: L D L^T with the pivoting of Bunch and Kaufman, and solves by it, LANES matrices side by side, for any
 * order: one text over the numbers of elements_real.h and those of elements_complex.h. Complex matrices are Hermitian
 * (L D L^H), or symmetric. All lanes are at the same column. A block of order 2 takes two of these steps: at the first
 * a lane subtracts what its first column gives, and leaves the second one alone; at the second, what that gives. So
 * lanes with blocks of different orders do the same work. Which row a step exchanges differs from lane to lane: that
 * row is read and written element by element. */

#include "../../math/ldl_pivots.h"

/* LANES matrices: row i of the lower triangle, L and D in one, begins at i (i + 1) / 2. */
typedef struct ldl_group {
    elem a[SMM_MAX_ORDER * (SMM_MAX_ORDER + 1) / 2];
    elem ahead[SMM_MAX_ORDER];   /* the second column of L of a block, which takes its place at the next step */
    vec row[SMM_MAX_ORDER];      /* the row that step k exchanges with the last one of its block */
    vec pivots[SMM_MAX_ORDER];   /* as LAPACK's, for the caller */
    elem beside[SMM_MAX_ORDER];  /* of a block: the element below its diagonal; else 1 */
    elem ratio[SMM_MAX_ORDER];   /* of a block: the other element of its diagonal, divided by the one in its row */
    elem divisor[SMM_MAX_ORDER]; /* the pivot; of a block: its determinant, divided by the two elements beside its
                                  * diagonal, negated */
    mask starts[SMM_MAX_ORDER];  /* where step k is the first one of a block */
    vec info;
    /* of a step: the columns of its block, before and after it is divided; the column that may be exchanged, what was
     * and what goes in its place; the conjugates of a column */
    elem x[SMM_MAX_ORDER], y[SMM_MAX_ORDER], l[SMM_MAX_ORDER], z[SMM_MAX_ORDER], was[SMM_MAX_ORDER],
        goes[SMM_MAX_ORDER], mirrored[SMM_MAX_ORDER];
    elem rhs[SMM_MAX_ORDER * BLOCK]; /* right-hand sides */
} ldl_group;
_Static_assert(sizeof(ldl_group) <= SMM_KERNEL_WORKSPACE, "workspace of ldl_lanes");

INLINE bool ldl_is_hermitian(const smm_call *call) { return PARTS > 1 && !(call->form & SMM_SYMMETRIC); }
/* Element (j, i), from (i, j). */
INLINE elem ldl_mirrored(elem x, bool hermitian) { return hermitian ? elem_conj(x) : x; }

INLINE intptr_t ldl_index(intptr_t i, intptr_t j) { return i * (i + 1) / 2 + j; }
/* Element (i, j) or (j, i), whichever is in the lower triangle. */
INLINE intptr_t ldl_beside(intptr_t i, intptr_t j) { return i > j ? ldl_index(i, j) : ldl_index(j, i); }

INLINE mask ldl_nowhere(void) { return lane_greater(lane_set(0), lane_set(0)); }
INLINE mask ldl_at_least(vec x, vec y) { return lane_greater(x, y) | lane_equal(x, y); }
/* Where step k is the second one of a block. */
INLINE mask ldl_ends(const ldl_group *g, intptr_t k) { return k ? g->starts[k - 1] : ldl_nowhere(); }

/* Where the elements of row and column r lie, of each lane's own r: from element k on, one after the other. */
typedef struct ldl_path {
    int32_t row[LANES];
    intptr_t at[LANES];
} ldl_path;

INLINE ldl_path ldl_path_from(vec r, intptr_t k) {
    ldl_path x;
    lane_store_int(x.row, r);
    UNROLLED(int l = 0; l < LANES; l++) x.at[l] = ldl_index(x.row[l], k);
    return x;
}
/* From element i to the next: along a row up to the diagonal, then down a column. */
INLINE void ldl_go_on(ldl_path *x, intptr_t i) {
    UNROLLED(int l = 0; l < LANES; l++) x->at[l] += i < x->row[l] ? 1 : i + 1;
}

/* Column r above the diagonal, which is stored as row r. */
INLINE elem ldl_in_column(elem x, vec r, intptr_t i, bool hermitian) {
    return hermitian ? elem_select(lane_greater(r, lane_set((T)i)), elem_conj(x), x) : x;
}

/* z = column r of what is left at step k, and back. Whole vectors are read and written, of which one lane
 * counts: what was written by lanes could not be forwarded to loads of vectors. */
INLINE void ldl_take(elem *z, const elem *a, vec r, intptr_t k, intptr_t n, bool hermitian) {
    ldl_path x = ldl_path_from(r, k);
    ROLLED(intptr_t i = k; i < n; i++) {
        elem y = a[x.at[0]];
        UNROLLED(int l = 1; l < LANES; l++) y = elem_select(lane_mask(1u << l), a[x.at[l]], y);
        z[i] = ldl_in_column(y, r, i, hermitian);
        ldl_go_on(&x, i);
    }
}
INLINE void ldl_put(elem *a, vec r, const elem *z, intptr_t k, intptr_t n, bool hermitian) {
    ldl_path x = ldl_path_from(r, k);
    ROLLED(intptr_t i = k; i < n; i++) {
        const elem y = ldl_in_column(z[i], r, i, hermitian);
        UNROLLED(int l = 0; l < LANES; l++) a[x.at[l]] = elem_select(lane_mask(1u << l), y, a[x.at[l]]);
        ldl_go_on(&x, i);
    }
}

/* What a step does. */
typedef struct ldl_choice {
    mask none;      /* the pivot is useless or NaN */
    mask exchanges; /* row p with the last one of the block */
    mask starts;    /* a block of order 2 */
    vec p;          /* that row */
    elem of_p;      /* its element on the diagonal */
    elem *z;        /* column p */
} ldl_choice;

/* Step k: x is column k. A lane in the second step of a block does nothing. */
INLINE void ldl_choose(ldl_choice *c, const elem *a, const elem *x, mask ends, intptr_t k, intptr_t n, bool hermitian) {
    const vec alpha = lane_set((T)((1 + 4.1231056256176605498) / 8)); /* the square root of 17 */
    vec most = lane_set(0), far = lane_set((T)k), row = most;
    for (intptr_t i = k + 1; i < n; i++) {
        const vec size = elem_size(x[i]);
        far = lane_select(lane_greater(size, most), lane_set((T)i), far);
        most = lane_max(size, most);
    }
    const vec own = elem_size(x[k]), bound = lane_mul(alpha, most);
    const mask chooses = ~ends & lane_equal(own, own);
    c->none = ~ends & ~(chooses & ~useless(own));
    c->exchanges = chooses & ~ldl_at_least(own, bound);
    c->starts = ldl_nowhere();
    c->p = lane_set((T)k);
    if (!lane_any(c->exchanges)) return;
    ldl_take(c->z, a, far, k, n, hermitian);
    c->of_p = elem_set(0);
    for (intptr_t i = k; i < n; i++) {
        const mask here = lane_equal(far, lane_set((T)i));
        c->of_p = elem_select(here, c->z[i], c->of_p);
        row = lane_max(lane_select(here, lane_set(0), elem_size(c->z[i])), row);
    }
    c->exchanges &= ~ldl_at_least(own, lane_mul(bound, lane_div(most, row)));
    c->starts = c->exchanges & ~ldl_at_least(elem_size(c->of_p), lane_mul(alpha, row));
    const vec pivot = lane_select(c->starts, most, lane_select(c->exchanges, elem_size(c->of_p), own));
    c->none = ~ends & ~(chooses & ~useless(pivot));
    c->exchanges &= ~c->none;
    c->starts &= ~c->none;
    c->p = lane_select(c->exchanges, far, c->p);
}

/* Exchange rows and columns p and the last one of the block: of the first column of the block in x, of the second, if
 * there is one, in y, and of all others in A. */
INLINE void ldl_exchange(ldl_group *g, const ldl_choice *c, elem *x, elem *y, intptr_t k, intptr_t n, bool hermitian) {
    elem *const a = g->a, *const goes = g->goes;
    elem *const was =
        g->was; /* column `last`, but row `last` left of it; all is as it was where nothing is exchanged */
    intptr_t row = k;
    do was[row] = lane_any(c->starts) ? elem_select(c->starts, a[ldl_beside(row, k + 1)], x[row]) : x[row];
    while (++row < n);
    const intptr_t next = min_of(k + 1, n - 1);
    const elem of_last = elem_select(c->starts, was[next], was[k]);
    const elem crossing = elem_select(c->starts, c->z[next], c->z[k]);
    const elem of_p = elem_select(c->exchanges, c->of_p, of_last), first = x[k];
    for (intptr_t i = k; i < n; i++) {
        const mask here = lane_equal(c->p, lane_set((T)i));
        const elem comes = elem_select(here, crossing, elem_select(c->exchanges, c->z[i], was[i]));
        goes[i] = elem_select(here, of_last, was[i]);
        y[i] = comes;
        x[i] = elem_select(c->starts, elem_select(here, was[k], x[i]), comes);
    }
    ldl_put(a, c->p, goes, k, n, hermitian);
    x[k] = elem_select(c->starts, first, of_p);
    x[next] = elem_select(c->starts, ldl_mirrored(y[k], hermitian), x[next]);
    y[next] = elem_select(c->starts, of_p, y[next]);
}

/* D at step k: `beside` and `next` are of the block that begins there, if one does. */
INLINE void ldl_note_divisor(ldl_group *g, intptr_t k, elem own, elem beside, elem next, bool hermitian) {
    const mask ends = ldl_ends(g, k), starts = g->starts[k];
    elem ratio = elem_set(0), of_next = ratio, e = elem_set(1), d = own;
    if (lane_any(starts)) {
        of_next = elem_div(own, ldl_mirrored(beside, hermitian));
        ratio = elem_div(next, beside);
        e = elem_select(starts, beside, e);
        d = elem_select(starts, elem_fma(ratio, of_next, elem_negate(elem_set(1))), d);
    }
    g->beside[k] = elem_select(ends, g->beside[k], e);
    g->ratio[k] = elem_select(ends, g->ratio[k], ratio);
    g->divisor[k] = elem_select(ends, g->divisor[k], d);
    if (!lane_any(starts)) return;
    g->beside[k + 1] = g->beside[k];
    g->ratio[k + 1] = of_next;
    g->divisor[k + 1] = g->divisor[k];
}

/* Column k of L from x and y, the columns of what is left. */
INLINE void ldl_divide(ldl_group *g, elem *l, const elem *x, const elem *y, intptr_t k, intptr_t n, bool hermitian) {
    const mask ends = ldl_ends(g, k), starts = g->starts[k];
    const elem d = x[k];
    for (intptr_t i = k + 1; i < n; i++) l[i] = elem_select(ends, g->ahead[i], elem_div(x[i], d));
    if (!lane_any(starts)) return;
    const elem d1 = g->ratio[k], d0 = g->ratio[k + 1], inverse = elem_div(elem_set(1), g->divisor[k]);
    const elem scale = elem_div(inverse, ldl_mirrored(g->beside[k], hermitian)),
               below = elem_div(inverse, g->beside[k]);
    for (intptr_t i = k + 2; i < n; i++) {
        const elem first = elem_mul(scale, elem_fma(d1, x[i], elem_negate(y[i])));
        g->ahead[i] = elem_mul(below, elem_fma(d0, y[i], elem_negate(x[i])));
        l[i] = elem_select(starts, first, l[i]);
    }
}

/* a_ij = a_ij - x_i l_j, j > k, or the conjugate of l_j; column k becomes that of L. Where there is no pivot, x and l
 * are zero, which changes nothing. */
INLINE void ldl_subtract(ldl_group *g, elem *x, elem *l, const elem *y, mask none, intptr_t k, intptr_t n,
                         bool hermitian) {
    const mask starts = g->starts[k];
    const bool any_starts = lane_any(starts);
    g->a[ldl_index(k, k)] = x[k];
    if (lane_any(none))
        for (intptr_t i = k + 1; i < n; i++) {
            x[i] = elem_select(none, elem_set(0), x[i]);
            l[i] = elem_select(none, elem_set(0), l[i]);
        }
    elem *const mirrored = g->mirrored;
    for (intptr_t j = k + 1; j < n && hermitian; j++) mirrored[j] = elem_conj(l[j]);
    const elem *const right = hermitian ? mirrored : l;
    for (intptr_t i = k + 1; i < n; i++) {
        elem *const row = g->a + ldl_index(i, 0);
        const elem x_i = x[i], next = elem_fnma(x_i, right[k + 1], row[k + 1]);
        row[k + 1] = any_starts ? elem_select(starts, y[i], next) : next;
        row[k] = l[i];
        UNROLLED_BY_4(intptr_t j = k + 2; j <= i; j++) row[j] = elem_fnma(x_i, right[j], row[j]);
        if (hermitian) row[i] = elem_real(row[i]);
    }
    if (any_starts) g->a[ldl_index(k + 1, k)] = elem_select(starts, x[k + 1], l[k + 1]);
}

/* The triangle becomes L and D (Golub and Van Loan, Matrix Computations, section 4.4; LAPACK's sytf2, hetf2). */
INLINE void ldl_factor(ldl_group *g, intptr_t n, bool upper, bool hermitian) {
    g->info = lane_set(0);
    for (intptr_t k = 0; k < n; k++) {
        const mask ends = ldl_ends(g, k);
        elem *const x = g->x, *const y = g->y, *const l = g->l;
        ldl_choice c = {.z = g->z};
        for (intptr_t i = k; i < n; i++) x[i] = g->a[ldl_index(i, k)];
        ldl_choose(&c, g->a, x, ends, k, n, hermitian);
        if (lane_any(c.exchanges)) ldl_exchange(g, &c, x, y, k, n, hermitian);
        const vec row = lane_set((T)n), number = upper ? lane_sub(row, c.p) : lane_add(c.p, lane_set(1));
        vec pivot = lane_select(c.starts, lane_negate(number), number);
        if (k) pivot = lane_select(ends, g->pivots[k - 1], pivot);
        g->starts[k] = c.starts;
        g->row[k] = c.p;
        g->pivots[k] = pivot;
        const mask first = c.none & lane_equal(g->info, lane_set(0));
        g->info = lane_select(first, lane_set((T)(upper ? n - k : k + 1)), g->info);
        const bool any = lane_any(c.starts);
        ldl_note_divisor(g, k, x[k], any ? x[k + 1] : x[k], any ? y[k + 1] : x[k], hermitian);
        ldl_divide(g, l, x, y, k, n, hermitian);
        ldl_subtract(g, x, l, y, c.none, k, n, hermitian);
    }
}

/* Exchange elements of x as step k exchanges rows. */
INLINE void ldl_exchange_one(const ldl_group *g, elem *x, intptr_t k, intptr_t n) {
    const intptr_t next = min_of(k + 1, n - 1);
    const mask starts = g->starts[k];
    const vec p = g->row[k];
    const elem was = elem_select(starts, x[next], x[k]);
    elem comes = was;
    for (intptr_t i = k; i < n; i++) {
        const mask here = lane_equal(p, lane_set((T)i));
        const elem x_i = x[i];
        comes = elem_select(here, x_i, comes);
        x[i] = elem_select(here, was, x_i);
    }
    x[k] = elem_select(starts, x[k], comes);
    x[next] = elem_select(starts, comes, x[next]);
}

/* x becomes the solution (LAPACK's sytrs, hetrs). */
INLINE void ldl_solve_one(const ldl_group *g, elem *x, intptr_t n, bool hermitian) {
    for (intptr_t k = 0; k < n; k++) {
        ldl_exchange_one(g, x, k, n);
        if (k + 1 == n) break;
        const elem next = elem_fnma(g->a[ldl_index(k + 1, k)], x[k], x[k + 1]);
        x[k + 1] = elem_select(g->starts[k], x[k + 1], next);
        for (intptr_t i = k + 2; i < n; i++) x[i] = elem_fnma(g->a[ldl_index(i, k)], x[k], x[i]);
    }
    for (intptr_t k = 0; k < n; k++) {
        const mask starts = g->starts[k];
        if (!lane_any(starts)) {
            const elem whole = elem_div(x[k], g->divisor[k]);
            x[k] = elem_select(ldl_ends(g, k), x[k], whole);
            continue;
        }
        const elem y0 = elem_div(x[k], ldl_mirrored(g->beside[k], hermitian)), y1 = elem_div(x[k + 1], g->beside[k]);
        const elem first = elem_fma(g->ratio[k], y0, elem_negate(y1));
        const elem second = elem_fma(g->ratio[k + 1], y1, elem_negate(y0));
        const elem whole = elem_div(elem_select(starts, first, x[k]), g->divisor[k]);
        x[k] = elem_select(ldl_ends(g, k), x[k], whole);
        x[k + 1] = elem_select(starts, elem_div(second, g->divisor[k]), x[k + 1]);
    }
    for (intptr_t i = 0; i < n; i++) x[i] = ldl_mirrored(x[i], hermitian); /* L^T of the conjugate, for L^H */
    for (intptr_t k = n - 1; k >= 0; k--) {
        elem sum = x[k];
        if (k + 1 < n) sum = elem_select(g->starts[k], sum, elem_fnma(g->a[ldl_index(k + 1, k)], x[k + 1], sum));
        for (intptr_t i = k + 2; i < n; i++) sum = elem_fnma(g->a[ldl_index(i, k)], x[i], sum);
        x[k] = sum;
        ldl_exchange_one(g, x, k, n);
    }
    for (intptr_t i = 0; i < n; i++) x[i] = ldl_mirrored(x[i], hermitian);
}

/* Of the diagonal of Hermitian matrices only the real part is read. */
INLINE void ldl_load(ldl_group *g, const smm_call *call, intptr_t q, intptr_t count) {
    KERNEL(elem_load_triangle)(g->a, &call->a, q, call->n, call->form & SMM_UPPER, count);
    for (intptr_t i = 0; i < call->n && ldl_is_hermitian(call); i++)
        g->a[ldl_index(i, i)] = elem_real(g->a[ldl_index(i, i)]);
}

/* X; NaN where there is none. */
INLINE void ldl_solve_all(const smm_call *call, const smm_operand *b, const smm_operand *to, intptr_t q, ldl_group *g,
                          intptr_t count) {
    const intptr_t n = call->n;
    for (intptr_t j = 0; j < call->k; j += BLOCK) {
        const intptr_t width = min_of(BLOCK, call->k - j);
        const smm_operand from = elem_columns(*b, j), c = elem_columns(*to, j);
        elem *const x = g->rhs, *const y = g->y;
        KERNEL(elem_load)(x, &from, q, n, width, count);
        for (intptr_t l = 0; l < width; l++) {
            for (intptr_t i = 0; i < n; i++) y[i] = x[smm_ldl_reversed(call, i) * width + l];
            ldl_solve_one(g, y, n, ldl_is_hermitian(call));
            for (intptr_t i = 0; i < n; i++) x[smm_ldl_reversed(call, i) * width + l] = y[i];
        }
        KERNEL(elem_store)(&c, q, x, n, width, count);
        KERNEL(elem_fill_nan)(&c, q, g->info, n, width, count);
    }
}

static void KERNEL(ldl_lanes)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) {
    (void)cold;
    const intptr_t n = call->n;
    const smm_ldl_operands *o = &call->ldl;
    ldl_group *const g = smm_kernel_workspace();
    /* Columns are written in turn where their elements lie one after the other. */
    const strides s = strides_of(&o->ld);
    const bool by_columns = s.row == PARTS && s.col != PARTS;
    const smm_operand to = by_columns ? smm_transposed(o->ld) : o->ld;
    for (intptr_t q = first; q < last; q += LANES) {
        const intptr_t count = min_of(LANES, last - q);
        ldl_load(g, call, q, count);
        ldl_factor(g, n, call->form & SMM_UPPER, ldl_is_hermitian(call));
        vec pivots[SMM_MAX_ORDER];
        for (intptr_t i = 0; i < n; i++) {
            elem *const x = g->x;
            for (intptr_t j = 0; j < n; j++)
                x[smm_ldl_reversed(call, j)] = (by_columns ? j >= i : j <= i) ? g->a[ldl_beside(i, j)] : elem_set(0);
            smm_operand row = to;
            row.data = (char *)row.data + smm_ldl_reversed(call, i) * row.row;
            KERNEL(elem_store)(&row, q, x, 1, n, count);
            pivots[smm_ldl_reversed(call, i)] = g->pivots[i];
        }
        KERNEL(elem_fill_nan)(&o->ld, q, g->info, n, n, count);
        KERNEL(lanes_store_ints)(&o->pivots, q, pivots, n, count);
        lanes_store_int(&o->info, q, g->info, count);
    }
}

/* The blocks that pivots tell of; of a matrix with wrong ones, negative info and none. */
INLINE void ldl_look(const smm_call *call, ldl_group *g, intptr_t q, intptr_t count) {
    const intptr_t n = call->n;
    const smm_operand *from = &call->ldl_solve.pivots;
    T info[LANES], row[SMM_MAX_ORDER][LANES], starts[SMM_MAX_ORDER][LANES];
    for (intptr_t l = 0; l < LANES; l++) {
        const char *given = (const char *)from->data + q * from->batch + lane_offset((int)l, from->batch, count);
        int32_t pivots[SMM_MAX_ORDER];
        for (intptr_t k = 0; k < n; k++)
            pivots[k] = smm_ldl_pivot(call, *(const int32_t *)(given + smm_ldl_reversed(call, k) * from->row));
        const intptr_t wrong = smm_ldl_wrong_pivot(call, pivots);
        info[l] = (T)-wrong;
        for (intptr_t k = 0; k < n; k++) {
            const bool block = !wrong && smm_ldl_order(pivots[k]) == 2, ends = block && k && starts[k - 1][l] > 0;
            starts[k][l] = block && !ends;
            row[k][l] = (T)(wrong || ends ? k : smm_ldl_row(pivots[k]));
        }
    }
    g->info = lane_load(info);
    for (intptr_t k = 0; k < n; k++) {
        const intptr_t next = min_of(k + 1, n - 1);
        g->row[k] = lane_load(row[k]);
        g->starts[k] = lane_greater(lane_load(starts[k]), lane_set(0));
        ldl_note_divisor(g, k, g->a[ldl_index(k, k)], g->a[ldl_index(next, k)], g->a[ldl_index(next, next)],
                         ldl_is_hermitian(call));
    }
}

static void KERNEL(ldl_solve_lanes)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) {
    (void)cold;
    ldl_group *const g = smm_kernel_workspace();
    for (intptr_t q = first; q < last; q += LANES) {
        const intptr_t count = min_of(LANES, last - q);
        ldl_load(g, call, q, count);
        ldl_look(call, g, q, count);
        ldl_solve_all(call, &call->ldl_solve.b, &call->ldl_solve.x, q, g, count);
        lanes_store_int(&call->ldl_solve.info, q, g->info, count);
    }
}

static void KERNEL(solve_sym_lanes)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) {
    (void)cold;
    ldl_group *const g = smm_kernel_workspace();
    for (intptr_t q = first; q < last; q += LANES) {
        const intptr_t count = min_of(LANES, last - q);
        ldl_load(g, call, q, count);
        ldl_factor(g, call->n, call->form & SMM_UPPER, ldl_is_hermitian(call));
        ldl_solve_all(call, &call->solve_sym.b, &call->solve_sym.x, q, g, count);
        lanes_store_int(&call->solve_sym.info, q, g->info, count);
    }
}
