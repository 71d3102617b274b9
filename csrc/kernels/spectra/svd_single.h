/* svd_single.h: singular values and singular vectors of one matrix at a time: the steps of svd_bidiagonal.h, whose
 * columns are the lanes (single.h). */

/* --- A = Q B P^H -------------------------------------------------------------------------------------------------- */

/* A and its transpose, which takes sums along rows: both undergo the same. */
typedef struct svd_single_sides {
    elem_matrix a, across;
} svd_single_sides;

/* What a step leaves to be taken off: v w^T, then y u^H. */
typedef struct svd_single_step {
    elem *v, *y, *conj_u;                     /* spread */
    elem *v_row, *y_row, *w_row, *conj_u_row; /* as rows */
} svd_single_step;
INLINE svd_single_step svd_single_step_of(single_workspace *x, int k) {
    return (svd_single_step){x->spread[3 * k],  x->spread[3 * k + 1], x->spread[3 * k + 2], x->row[4 * k],
                             x->row[4 * k + 1], x->row[4 * k + 2],    x->row[4 * k + 3]};
}

/* Reflectors from the right stay in rows of A right of the diagonal. Each side takes off what the last step left and
 * sums for this one in a pass. */
SHARED void KERNEL(svd_single_reduce)(svd_single_sides x, bidiagonal *b, elem *tau, single_workspace *workspace) {
    const intptr_t m = x.a.m, n = x.a.n;
    elem *const weight = workspace->spread[6], *const u = workspace->spread[7], *const w = workspace->spread[8];
    single_zero(workspace->row[0], sizeof workspace->row / sizeof(elem));
    single_zero(svd_single_step_of(workspace, 1).conj_u, n); /* before the first step there is nothing */
    for (intptr_t k = 0; k < n; k++) {
        const svd_single_step old = svd_single_step_of(workspace, (k + 1) % 2),
                              now = svd_single_step_of(workspace, k % 2);
        elem *const row = x.a.at + k * x.a.step, *const column = x.across.at + k * x.across.step;
        single_spread(now.v, column, k, m);
        const elem left = elem_conj(reflector(now.v + k, 1, m - k, false));
        b->d[k] = elem_re(now.v[k]);
        if (k + 1 == n) break;
        now.v[k] = elem_set(1);
        single_conjugate(weight, now.v, k, m);
        single_collect(now.v_row, now.v, k, m);

        const single_outer of_a[2] = {{old.v, old.w_row, true}, {old.y, old.conj_u_row, false}};
        single_pass(x.a, k + 1, k, k ? k : m, of_a, 2, weight, SINGLE_BEGIN, now.w_row);
        single_multiply_row(now.w_row, left, k + 1, n);
        for (intptr_t c = (k + 1) / LANES; c < single_blocks(n); c++) row[c] = elem_sub(row[c], now.w_row[c]);

        single_spread(u, row, k + 1, n);
        single_conjugate(u, u, k + 1, n);
        tau[k] = reflector(u + k + 1, 1, n - k - 1, false);
        b->e[k] = elem_re(u[k + 1]);
        u[k + 1] = elem_set(1);
        single_collect(row, u, k + 1, n);
        single_conjugate(now.conj_u, u, k + 1, n);
        single_collect(now.conj_u_row, now.conj_u, k + 1, n);
        single_spread(w, now.w_row, k + 1, n);

        const single_outer across[2] = {{old.conj_u, old.y_row, true}, {w, now.v_row, false}};
        const intptr_t first = k + 1;
        single_pass(x.across, first, first, first, across, 2, u, SINGLE_BEGIN, now.y_row);
        single_multiply_row(now.y_row, tau[k], first, m);
        single_spread(now.y, now.y_row, first, m);
        const single_outer next = {now.conj_u, now.y_row, true};
        single_pass((elem_matrix){x.across.at, k + 2, m, x.across.step}, first, first, 0, &next, 1, NULL, SINGLE_NONE,
                    NULL);
    }
}

/* --- A matrix ----------------------------------------------------------------------------------------------------- */

typedef struct svd_single_workspace {
    elem a[SINGLE_ELEMENTS], rest[SINGLE_ELEMENTS], across[SINGLE_ELEMENTS], v[SINGLE_ELEMENTS], tau[SMM_MAX_ORDER];
    vec strips[SINGLE_STRIPS];
    bidiagonal b;
    svd_stack stack;
    eigh_turns turns[2][BIDIAGONAL_GROUPS];
    single_workspace workspace;
} svd_single_workspace;
_Static_assert(sizeof(svd_single_workspace) <= SMM_KERNEL_WORKSPACE, "workspace of svd_single");

/* The lanes took 4, 7.6 and 14 times as long for one f64 matrix of order 32, 64 and 128; without vectors 1.7, 2.7 and
 * 4.4, for the rotations of B take as long. */
static unsigned svd_single_needs(const smm_call *call) {
    const bool vectors = call->op != SMM_OP_SVDVALS;
    if (!single_fits(call) || svd_bidiagonal_needs(call)) return SMM_UNFIT;
    return single_needs(call->batch, min_of(call->m, call->n), vectors ? 64 : EIGH_SINGLE_FIRST,
                        vectors ? 64 : EIGH_SINGLE_EACH);
}

/* C = A V, a few rows of A. */
INLINE void svd_single_multiply_rows(elem_matrix c, elem_matrix a, elem_matrix v, intptr_t i, intptr_t b,
                                     const int height, const int width) {
    elem sum[SINGLE_HEIGHT][SINGLE_STRIP];
    UNROLLED(int r = 0; r < height; r++)
        UNROLLED(int j = 0; j < width; j++) sum[r][j] = elem_mul(single_get(a.at + (i + r) * a.step, 0), v.at[b + j]);
    ROLLED(intptr_t k = 1; k < v.m; k++) {
        const elem *const row = v.at + k * v.step + b;
        UNROLLED(int r = 0; r < height; r++) add_products(sum[r], single_get(a.at + (i + r) * a.step, k), row, width);
    }
    UNROLLED(int r = 0; r < height; r++)
        UNROLLED(int j = 0; j < width; j++) c.at[(i + r) * c.step + b + j] = sum[r][j];
}
INLINE void svd_single_multiply_strip(elem_matrix c, elem_matrix a, elem_matrix v, intptr_t b, const int width) {
    intptr_t i = 0;
    for (; i + SINGLE_HEIGHT <= a.m; i += SINGLE_HEIGHT) svd_single_multiply_rows(c, a, v, i, b, SINGLE_HEIGHT, width);
    for (; i < a.m; i++) svd_single_multiply_rows(c, a, v, i, b, 1, width);
}
SHARED void KERNEL(svd_single_multiply)(elem_matrix c, elem_matrix a, elem_matrix v) {
    intptr_t b = 0;
    for (; b + SINGLE_STRIP <= single_blocks(v.n); b += SINGLE_STRIP)
        svd_single_multiply_strip(c, a, v, b, SINGLE_STRIP);
    for (; b < single_blocks(v.n); b++) svd_single_multiply_strip(c, a, v, b, 1);
}

/* `small`: V, conjugated; zeros are positive. */
INLINE void svd_single_store_small(const svd_operands *o, intptr_t q, elem_matrix v) {
    for (intptr_t e = 0; e < v.m * v.step && PARTS > 1; e++) v.at[e] = elem_add(elem_conj(v.at[e]), elem_set(0));
    single_store(&o->small, q, v);
}

/* `large`: U of A V = U R, with the signs that make the diagonal of R positive. */
INLINE void svd_single_store_large(const svd_operands *o, intptr_t q, svd_single_workspace *w, elem_matrix a,
                                   elem_matrix v) {
    const intptr_t m = o->m, n = o->n;
    const elem_matrix c = single_matrix(w->rest, m, n), h = single_matrix(w->across, n, m);
    KERNEL(svd_single_multiply)(c, a, v);
    KERNEL(qr_single_factor)(c, h, w->tau, &w->workspace);
    elem *const sign = w->workspace.row[2];
    for (intptr_t j = 0; j < n; j++) {
        const vec diagonal = elem_re(single_get(c.at + j * c.step, j));
        single_put(sign, j, elem_of(lane_select(lane_greater(lane_set(0), diagonal), lane_set(-1), lane_set(1))));
    }
    const elem_matrix u = single_matrix(w->a, m, o->k);
    qr_single_form(u, h, w->tau, &w->workspace);
    for (intptr_t i = 0; i < m; i++)
        for (intptr_t b = 0; b < single_blocks(n); b++) {
            elem *const x = u.at + i * u.step + b, y = elem_add(elem_scale(*x, elem_re(sign[b])), elem_set(0));
            *x = elem_select(single_from(b * LANES, n), *x, y);
        }
    single_store(&o->large, q, u);
}

static void KERNEL(svd_single)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) {
    (void)cold;
    const bool vectors = call->op != SMM_OP_SVDVALS;
    const svd_operands o = svd_operands_of(call, vectors);
    svd_single_workspace *const w = smm_kernel_workspace();
    svd_stack *const x = &w->stack;
    bidiagonal *const b = &w->b;
    const intptr_t m = o.m, n = o.n;
    const elem_matrix a = single_matrix(w->a, m, n), v = single_matrix(w->v, n, n);
    const svd_single_sides sides = {single_matrix(w->rest, m, n), single_matrix(w->across, n, m)};
    vec *strips = w->strips;
    for (intptr_t q = first; q < last; q++) {
        single_load(a, &o.a, q);
        x->back = single_scale(a);
        for (intptr_t e = 0; e < m * a.step; e++) sides.a.at[e] = a.at[e];
        KERNEL(single_transpose)(sides.across, a);
        KERNEL(svd_single_reduce)(sides, b, w->tau, &w->workspace);
        if (vectors) {
            KERNEL(single_form)(v, sides.a, w->tau, n - 1, 1, &w->workspace, true);
            single_to_strips(strips, v);
        }
        bidiagonal_iterate(b, w->turns, &strips, n, single_strips(n), 1, vectors);
        x->info = b->info;
        int32_t place[SMM_MAX_ORDER][LANES];
        bidiagonal_arrange_values(x, b, n, place);
        const vec bad = svd_store_values(&o, q, x, n, 1, false);
        if (!vectors) continue;
        single_arrange(v, strips, place);
        svd_single_store_large(&o, q, w, a, v);
        svd_single_store_small(&o, q, v);
        KERNEL(elem_fill_nan)(&o.small, q, bad, n, n, 1);
        KERNEL(elem_fill_nan)(&o.large, q, bad, m, o.k, 1);
    }
}
