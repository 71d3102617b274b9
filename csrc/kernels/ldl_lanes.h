/* ldl_lanes.h: L D L^T with the pivoting of Bunch and Kaufman, and solves by it, LANES matrices side by side, for any
 * order. All lanes are at the same column. A block of order 2 takes two of these steps: at the first a lane subtracts
 * what its first column gives, and leaves the second one alone; at the second, what that gives. So lanes with blocks of
 * different orders do the same work. Which row a step exchanges differs from lane to lane: that row is read and written
 * element by element. */

#include "../ldl_pivots.h"

/* LANES matrices: row i of the lower triangle, L and D in one, begins at i (i + 1) / 2. */
typedef struct ldl_group {
    vec a[SMM_MOST_ORDER * (SMM_MOST_ORDER + 1) / 2];
    vec ahead[SMM_MOST_ORDER];   /* the second column of L of a block, which takes its place at the next step */
    vec row[SMM_MOST_ORDER];     /* the row that step k exchanges with the last one of its block */
    vec pivots[SMM_MOST_ORDER];  /* as LAPACK's, for the caller */
    vec beside[SMM_MOST_ORDER];  /* of a block: the element beside its diagonal; else 1 */
    vec ratio[SMM_MOST_ORDER];   /* of a block: the other element of its diagonal, divided by `beside` */
    vec divisor[SMM_MOST_ORDER]; /* the pivot; of a block: its determinant, divided by the square of `beside`, negated
                                  */
    mask starts[SMM_MOST_ORDER]; /* where step k is the first one of a block */
    vec info;
} ldl_group;
_Static_assert(sizeof(ldl_group) <= SMM_KERNEL_ROOM, "room of ldl_lanes");

INLINE intptr_t ldl_place(intptr_t i, intptr_t j) { return i * (i + 1) / 2 + j; }
/* Element (i, j) or (j, i), whichever is in the lower triangle. */
INLINE intptr_t ldl_beside(intptr_t i, intptr_t j) { return i > j ? ldl_place(i, j) : ldl_place(j, i); }

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
    UNROLLED(int l = 0; l < LANES; l++) x.at[l] = ldl_place(x.row[l], k);
    return x;
}
/* From element i to the next: along a row up to the diagonal, then down a column. */
INLINE void ldl_go_on(ldl_path *x, intptr_t i) {
    UNROLLED(int l = 0; l < LANES; l++) x->at[l] += i < x->row[l] ? 1 : i + 1;
}

/* z = row and column r of what is left at step k, and back. Whole vectors are read and written, of which one lane
 * counts: what was written by lanes could not be forwarded to loads of vectors. */
INLINE void ldl_take(vec *z, const vec *a, vec r, intptr_t k, intptr_t n) {
    ldl_path x = ldl_path_from(r, k);
    ROLLED(intptr_t i = k; i < n; i++) {
        vec y = a[x.at[0]];
        UNROLLED(int l = 1; l < LANES; l++) y = lane_select(lane_mask(1u << l), a[x.at[l]], y);
        z[i] = y;
        ldl_go_on(&x, i);
    }
}
INLINE void ldl_put(vec *a, vec r, const vec *z, intptr_t k, intptr_t n) {
    ldl_path x = ldl_path_from(r, k);
    ROLLED(intptr_t i = k; i < n; i++) {
        const vec y = z[i];
        UNROLLED(int l = 0; l < LANES; l++) a[x.at[l]] = lane_select(lane_mask(1u << l), y, a[x.at[l]]);
        ldl_go_on(&x, i);
    }
}

/* What a step does. */
typedef struct ldl_choice {
    mask none;             /* the pivot is zero or NaN */
    mask exchanges;        /* row p with the last one of the block */
    mask starts;           /* a block of order 2 */
    vec p, of_p;           /* and its element on the diagonal */
    vec z[SMM_MOST_ORDER]; /* row and column p */
} ldl_choice;

/* Step k: x is column k. A lane in the second step of a block does nothing. */
INLINE void ldl_choose(ldl_choice *c, const vec *a, const vec *x, mask ends, intptr_t k, intptr_t n) {
    const vec alpha = lane_set((T)((1 + 4.1231056256176605498) / 8)); /* the square root of 17 */
    vec most = lane_set(0), far = lane_set((T)k), row = most;
    for (intptr_t i = k + 1; i < n; i++) {
        const vec size = lane_abs(x[i]);
        far = lane_select(lane_greater(size, most), lane_set((T)i), far);
        most = lane_max(size, most);
    }
    const vec own = lane_abs(x[k]), bound = lane_mul(alpha, most);
    const mask some = lane_greater(own, lane_set(0)) | lane_greater(most, lane_set(0));
    c->none = ~ends & ~(some & lane_equal(own, own));
    c->exchanges = ~(ends | c->none | ldl_at_least(own, bound));
    c->starts = ldl_nowhere();
    c->p = lane_set((T)k);
    if (!lane_any(c->exchanges)) return;
    ldl_take(c->z, a, far, k, n);
    c->of_p = lane_set(0);
    for (intptr_t i = k; i < n; i++) {
        const mask here = lane_equal(far, lane_set((T)i));
        c->of_p = lane_select(here, c->z[i], c->of_p);
        row = lane_max(lane_select(here, lane_set(0), lane_abs(c->z[i])), row);
    }
    c->exchanges &= ~ldl_at_least(own, lane_mul(bound, lane_div(most, row)));
    c->starts = c->exchanges & ~ldl_at_least(lane_abs(c->of_p), lane_mul(alpha, row));
    c->p = lane_select(c->exchanges, far, c->p);
}

/* Exchange rows and columns p and the last one of the block: of the first column of the block in x, of the second, if
 * there is one, in y, and of all others in A. */
INLINE void ldl_exchange(vec *a, const ldl_choice *c, vec *x, vec *y, intptr_t k, intptr_t n) {
    vec was[SMM_MOST_ORDER]; /* row and column `last`; all is as it was where nothing is exchanged */
    intptr_t row = k;
    do was[row] = lane_any(c->starts) ? lane_select(c->starts, a[ldl_beside(row, k + 1)], x[row]) : x[row];
    while (++row < n);
    const intptr_t next = least(k + 1, n - 1);
    const vec of_last = lane_select(c->starts, was[next], was[k]);
    const vec crossing = lane_select(c->starts, c->z[next], c->z[k]);
    const vec of_p = lane_select(c->exchanges, c->of_p, of_last), first = x[k];
    vec goes[SMM_MOST_ORDER];
    for (intptr_t i = k; i < n; i++) {
        const mask here = lane_equal(c->p, lane_set((T)i));
        const vec comes = lane_select(here, crossing, lane_select(c->exchanges, c->z[i], was[i]));
        goes[i] = lane_select(here, of_last, was[i]);
        y[i] = comes;
        x[i] = lane_select(c->starts, lane_select(here, was[k], x[i]), comes);
    }
    ldl_put(a, c->p, goes, k, n);
    x[k] = lane_select(c->starts, first, of_p);
    x[next] = lane_select(c->starts, y[k], x[next]);
    y[next] = lane_select(c->starts, of_p, y[next]);
}

/* D at step k: `beside` and `next` are of the block that begins there, if one does. */
INLINE void ldl_note_divisor(ldl_group *g, intptr_t k, vec own, vec beside, vec next) {
    const mask ends = ldl_ends(g, k), starts = g->starts[k];
    vec ratio = lane_set(0), of_next = ratio, e = lane_set(1), divisor = own;
    if (lane_any(starts)) {
        of_next = lane_div(own, beside);
        ratio = lane_div(next, beside);
        e = lane_select(starts, beside, e);
        divisor = lane_select(starts, lane_fma(ratio, of_next, lane_set(-1)), divisor);
    }
    g->beside[k] = lane_select(ends, g->beside[k], e);
    g->ratio[k] = lane_select(ends, g->ratio[k], ratio);
    g->divisor[k] = lane_select(ends, g->divisor[k], divisor);
    if (!lane_any(starts)) return;
    g->beside[k + 1] = g->beside[k];
    g->ratio[k + 1] = of_next;
    g->divisor[k + 1] = g->divisor[k];
}

/* Column k of L from x and y, the columns of what is left. */
INLINE void ldl_divide(ldl_group *g, vec *l, const vec *x, const vec *y, intptr_t k, intptr_t n) {
    const mask ends = ldl_ends(g, k), starts = g->starts[k];
    const vec d = x[k];
    for (intptr_t i = k + 1; i < n; i++) l[i] = lane_select(ends, g->ahead[i], lane_div(x[i], d));
    if (!lane_any(starts)) return;
    const vec d1 = g->ratio[k], d0 = g->ratio[k + 1];
    const vec scale = lane_div(lane_div(lane_set(1), g->divisor[k]), g->beside[k]);
    for (intptr_t i = k + 2; i < n; i++) {
        const vec first = lane_mul(scale, lane_fma(d1, x[i], lane_negate(y[i])));
        g->ahead[i] = lane_mul(scale, lane_fma(d0, y[i], lane_negate(x[i])));
        l[i] = lane_select(starts, first, l[i]);
    }
}

/* a_ij = a_ij - x_i l_j, j > k; column k becomes that of L. Where there is no pivot, x and l are zero, which changes
 * nothing. */
INLINE void ldl_subtract(ldl_group *g, vec *x, vec *l, const vec *y, mask none, intptr_t k, intptr_t n) {
    const mask starts = g->starts[k];
    const bool any_starts = lane_any(starts);
    g->a[ldl_place(k, k)] = x[k];
    if (lane_any(none))
        for (intptr_t i = k + 1; i < n; i++) {
            x[i] = lane_select(none, lane_set(0), x[i]);
            l[i] = lane_select(none, lane_set(0), l[i]);
        }
    for (intptr_t i = k + 1; i < n; i++) {
        vec *const row = g->a + ldl_place(i, 0);
        const vec x_i = x[i], next = lane_fnma(x_i, l[k + 1], row[k + 1]);
        row[k + 1] = any_starts ? lane_select(starts, y[i], next) : next;
        row[k] = l[i];
        UNROLLED_BY_4(intptr_t j = k + 2; j <= i; j++) row[j] = lane_fnma(x_i, l[j], row[j]);
    }
    if (any_starts) g->a[ldl_place(k + 1, k)] = lane_select(starts, x[k + 1], l[k + 1]);
}

/* The triangle becomes L and D (Golub and Van Loan, Matrix Computations, section 4.4; LAPACK's sytf2). */
INLINE void ldl_factor(ldl_group *g, intptr_t n, bool upper) {
    g->info = lane_set(0);
    for (intptr_t k = 0; k < n; k++) {
        const mask ends = ldl_ends(g, k);
        vec x[SMM_MOST_ORDER], y[SMM_MOST_ORDER], l[SMM_MOST_ORDER];
        ldl_choice c;
        for (intptr_t i = k; i < n; i++) x[i] = g->a[ldl_place(i, k)];
        ldl_choose(&c, g->a, x, ends, k, n);
        if (lane_any(c.exchanges)) ldl_exchange(g->a, &c, x, y, k, n);
        const vec row = lane_set((T)n), number = upper ? lane_sub(row, c.p) : lane_add(c.p, lane_set(1));
        vec pivot = lane_select(c.starts, lane_negate(number), number);
        if (k) pivot = lane_select(ends, g->pivots[k - 1], pivot);
        g->starts[k] = c.starts;
        g->row[k] = c.p;
        g->pivots[k] = pivot;
        const mask first = c.none & lane_equal(g->info, lane_set(0));
        g->info = lane_select(first, lane_set((T)(upper ? n - k : k + 1)), g->info);
        const bool any = lane_any(c.starts);
        ldl_note_divisor(g, k, x[k], any ? x[k + 1] : x[k], any ? y[k + 1] : x[k]);
        ldl_divide(g, l, x, y, k, n);
        ldl_subtract(g, x, l, y, c.none, k, n);
    }
}

/* Exchange elements of x as step k exchanges rows. */
INLINE void ldl_exchange_one(const ldl_group *g, vec *x, intptr_t k, intptr_t n) {
    const intptr_t next = least(k + 1, n - 1);
    const mask starts = g->starts[k];
    const vec p = g->row[k], was = lane_select(starts, x[next], x[k]);
    vec comes = was;
    for (intptr_t i = k; i < n; i++) {
        const mask here = lane_equal(p, lane_set((T)i));
        const vec x_i = x[i];
        comes = lane_select(here, x_i, comes);
        x[i] = lane_select(here, was, x_i);
    }
    x[k] = lane_select(starts, x[k], comes);
    x[next] = lane_select(starts, comes, x[next]);
}

/* x becomes the solution (LAPACK's sytrs). */
INLINE void ldl_solve_one(const ldl_group *g, vec *x, intptr_t n) {
    for (intptr_t k = 0; k < n; k++) {
        ldl_exchange_one(g, x, k, n);
        if (k + 1 == n) break;
        const vec next = lane_fnma(g->a[ldl_place(k + 1, k)], x[k], x[k + 1]);
        x[k + 1] = lane_select(g->starts[k], x[k + 1], next);
        for (intptr_t i = k + 2; i < n; i++) x[i] = lane_fnma(g->a[ldl_place(i, k)], x[k], x[i]);
    }
    for (intptr_t k = 0; k < n; k++) {
        const mask starts = g->starts[k];
        if (!lane_any(starts)) {
            const vec whole = lane_div(x[k], g->divisor[k]);
            x[k] = lane_select(ldl_ends(g, k), x[k], whole);
            continue;
        }
        const vec y0 = lane_div(x[k], g->beside[k]), y1 = lane_div(x[k + 1], g->beside[k]);
        const vec first = lane_fma(g->ratio[k], y0, lane_negate(y1));
        const vec second = lane_fma(g->ratio[k + 1], y1, lane_negate(y0));
        const vec whole = lane_div(lane_select(starts, first, x[k]), g->divisor[k]);
        x[k] = lane_select(ldl_ends(g, k), x[k], whole);
        x[k + 1] = lane_select(starts, lane_div(second, g->divisor[k]), x[k + 1]);
    }
    for (intptr_t k = n - 1; k >= 0; k--) {
        vec sum = x[k];
        if (k + 1 < n) sum = lane_select(g->starts[k], sum, lane_fnma(g->a[ldl_place(k + 1, k)], x[k + 1], sum));
        for (intptr_t i = k + 2; i < n; i++) sum = lane_fnma(g->a[ldl_place(i, k)], x[i], sum);
        x[k] = sum;
        ldl_exchange_one(g, x, k, n);
    }
}

/* Element (i, j) of a triangle in rows. */
INLINE vec *ldl_element(const vec *l, intptr_t i, intptr_t j) { return (vec *)l + ldl_place(i, j); }

INLINE void ldl_load(ldl_group *g, const smm_call *call, intptr_t q, intptr_t count) {
    const strides s = strides_of(&call->a);
    const bool upper = call->form & SMM_UPPER;
    if (s.row == 1 && s.col != 1)
        triangle_load_columns(g->a, ldl_element, &call->a, q, call->n, upper, count);
    else
        triangle_load_rows(g->a, ldl_element, 1, &call->a, q, call->n, upper, 0, call->n, count);
}

/* X; NaN where there is none. */
INLINE void ldl_solve_all(const smm_call *call, const smm_operand *b, const smm_operand *to, intptr_t q,
                          const ldl_group *g, intptr_t count) {
    const intptr_t n = call->n;
    for (intptr_t j = 0; j < call->k; j += BLOCK) {
        const intptr_t width = least(BLOCK, call->k - j);
        const smm_operand from = lu_columns(*b, j), c = lu_columns(*to, j);
        vec x[SMM_MOST_ORDER * BLOCK];
        lanes_load(x, &from, q, n, width, count);
        for (intptr_t l = 0; l < width; l++) {
            vec y[SMM_MOST_ORDER];
            for (intptr_t i = 0; i < n; i++) y[i] = x[smm_ldl_turned(call, i) * width + l];
            ldl_solve_one(g, y, n);
            for (intptr_t i = 0; i < n; i++) x[smm_ldl_turned(call, i) * width + l] = y[i];
        }
        lanes_store(&c, q, x, n, width, count);
        lanes_spoil(&c, q, g->info, n, width, count);
    }
}

static void KERNEL(ldl_lanes)(const smm_call *call, intptr_t first, intptr_t last, smm_behind *cold) {
    (void)cold;
    const intptr_t n = call->n;
    const smm_ldl_operands *o = &call->ldl;
    ldl_group *const g = smm_kernel_room();
    for (intptr_t q = first; q < last; q += LANES) {
        const intptr_t count = least(LANES, last - q);
        ldl_load(g, call, q, count);
        ldl_factor(g, n, call->form & SMM_UPPER);
        vec pivots[SMM_MOST_ORDER];
        for (intptr_t i = 0; i < n; i++) {
            vec x[SMM_MOST_ORDER];
            for (intptr_t j = 0; j < n; j++) x[smm_ldl_turned(call, j)] = j <= i ? g->a[ldl_place(i, j)] : lane_set(0);
            smm_operand row = o->ld;
            row.data = (char *)row.data + smm_ldl_turned(call, i) * row.row;
            lanes_store(&row, q, x, 1, n, count);
            pivots[smm_ldl_turned(call, i)] = g->pivots[i];
        }
        lanes_spoil(&o->ld, q, g->info, n, n, count);
        KERNEL(lanes_store_ints)(&o->pivots, q, pivots, n, count);
        lanes_store_int(&o->info, q, g->info, count);
    }
}

/* The blocks that pivots tell of; of a matrix with wrong ones, negative info and none. */
INLINE void ldl_look(const smm_call *call, ldl_group *g, intptr_t q, intptr_t count) {
    const intptr_t n = call->n;
    const smm_operand *from = &call->ldl_solve.pivots;
    T info[LANES], row[SMM_MOST_ORDER][LANES], starts[SMM_MOST_ORDER][LANES];
    for (intptr_t l = 0; l < LANES; l++) {
        const char *given = (const char *)from->data + q * from->batch + lane_offset((int)l, from->batch, count);
        int32_t pivots[SMM_MOST_ORDER];
        for (intptr_t k = 0; k < n; k++)
            pivots[k] = smm_ldl_pivot(call, *(const int32_t *)(given + smm_ldl_turned(call, k) * from->row));
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
        const intptr_t next = least(k + 1, n - 1);
        g->row[k] = lane_load(row[k]);
        g->starts[k] = lane_greater(lane_load(starts[k]), lane_set(0));
        ldl_note_divisor(g, k, g->a[ldl_place(k, k)], g->a[ldl_place(next, k)], g->a[ldl_place(next, next)]);
    }
}

static void KERNEL(ldl_solve_lanes)(const smm_call *call, intptr_t first, intptr_t last, smm_behind *cold) {
    (void)cold;
    ldl_group *const g = smm_kernel_room();
    for (intptr_t q = first; q < last; q += LANES) {
        const intptr_t count = least(LANES, last - q);
        ldl_load(g, call, q, count);
        ldl_look(call, g, q, count);
        ldl_solve_all(call, &call->ldl_solve.b, &call->ldl_solve.x, q, g, count);
        lanes_store_int(&call->ldl_solve.info, q, g->info, count);
    }
}

static void KERNEL(solve_sym_lanes)(const smm_call *call, intptr_t first, intptr_t last, smm_behind *cold) {
    (void)cold;
    ldl_group *const g = smm_kernel_room();
    for (intptr_t q = first; q < last; q += LANES) {
        const intptr_t count = least(LANES, last - q);
        ldl_load(g, call, q, count);
        ldl_factor(g, call->n, call->form & SMM_UPPER);
        ldl_solve_all(call, &call->solve_sym.b, &call->solve_sym.x, q, g, count);
        lanes_store_int(&call->solve_sym.info, q, g->info, count);
    }
}
