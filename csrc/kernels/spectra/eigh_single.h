/* eigh_single.h: eigenvalues and eigenvectors of one symmetric or Hermitian matrix at a time: the steps of
 * eigh_lanes.h, whose columns are the lanes (single.h). Rotations of T are found by the text for LANES matrices, of
 * which all are the same; the lanes of V are rows of it. */

/* --- A = Q T Q^H -------------------------------------------------------------------------------------------------- */

/* A^T, but for a conjugation, as eigh_load and eigh_scale bring it, with both triangles, so that rows are columns. */
INLINE void eigh_single_load(const smm_call *call, intptr_t q, elem_matrix a) {
    const bool upper = call->form & SMM_UPPER;
    smm_operand from = call->a;
    if (!upper) from.row = call->a.col, from.col = call->a.row;
    single_load(a, &from, q);
    for (intptr_t i = 0; i < a.n; i++)
        for (intptr_t j = i; j < a.n; j++) {
            const elem x = single_get(a.at + i * a.step, j), above = i == j ? elem_real(x) : upper ? elem_conj(x) : x;
            single_put(a.at + i * a.step, j, above);
            if (i < j) single_put(a.at + j * a.step, i, elem_conj(above));
        }
}

/* B less outer products of w and v, and sum += B v, of both triangles: an element below the diagonal undergoes what its
 * conjugate above does. So the products are in one order above the diagonal and in another below it. */
typedef struct eigh_single_update {
    const elem *conj_v, *conj_w; /* of rows, spread */
    const elem *v_row, *w_row;   /* of columns */
    const elem *v;               /* what B is multiplied with, spread */
} eigh_single_update;

/* Rows that cross the diagonal within a strip. */
INLINE void eigh_single_cross(elem_matrix a, intptr_t b, intptr_t first, intptr_t last, const single_outer above[2],
                              const single_outer below[2], const elem *v, elem *sum, const int width) {
    elem s[SINGLE_STRIP];
    UNROLLED(int j = 0; j < width; j++) s[j] = sum[b + j];
    ROLLED(intptr_t i = first; i < last; i++)
        UNROLLED(int j = 0; j < width; j++) {
            const intptr_t c = b + j;
            elem *const x = a.at + i * a.step + c;
            elem upper = *x, lower = *x;
            UNROLLED(int t = 0; t < 2; t++) {
                upper = single_less(above[t], above[t].row[i], above[t].col[c], upper);
                lower = single_less(below[t], below[t].row[i], below[t].col[c], lower);
            }
            upper = elem_select(single_from(c * LANES, i + 1), upper, elem_real(upper));
            *x = elem_select(single_from(c * LANES, i), upper, lower);
            s[j] = elem_fma(*x, v[i], s[j]);
        }
    UNROLLED(int j = 0; j < width; j++) sum[b + j] = s[j];
}

/* Of rows and columns from `first` on. */
INLINE void eigh_single_strip(elem_matrix a, intptr_t b, intptr_t first, const eigh_single_update *u, elem *sum,
                              const int width) {
    const single_outer above[2] = {{u->conj_v, u->w_row, true}, {u->conj_w, u->v_row, true}};
    const single_outer below[2] = {{u->conj_w, u->v_row, false}, {u->conj_v, u->w_row, false}};
    const intptr_t top = b * LANES, bottom = min_of(a.n, top + width * LANES);
    single_rows(a, b, first, top, above, 2, u->v, SINGLE_ADD_AFTER, sum, width);
    eigh_single_cross(a, b, top > first ? top : first, bottom, above, below, u->v, sum, width);
    single_rows(a, b, bottom, a.n, below, 2, u->v, SINGLE_ADD_AFTER, sum, width);
}
SHARED void KERNEL(eigh_single_pass)(elem_matrix a, intptr_t first, const eigh_single_update *u, elem *sum) {
    const intptr_t end = single_blocks(a.n);
    intptr_t b = first / LANES;
    for (; b + SINGLE_STRIP <= end; b += SINGLE_STRIP) eigh_single_strip(a, b, first, u, sum, SINGLE_STRIP);
    for (; b < end; b++) eigh_single_strip(a, b, first, u, sum, 1);
}

/* The reflectors stay in rows of A right of the diagonal. The update of one step and the product of the next with its
 * vector are one pass; row k + 1, which that comes from, is ahead of it. */
INLINE void eigh_single_reduce(elem_matrix a, eigh_stack *x, elem *tau, single_workspace *workspace) {
    const intptr_t n = a.n, blocks = single_blocks(n);
    elem *const v = workspace->spread[0], *const w = workspace->spread[1], *const conj_v = workspace->spread[2],
                *const conj_w = workspace->spread[3], *const w_row = workspace->row[0], *const sum = workspace->row[1];
    single_zero(conj_v, n);
    single_zero(conj_w, n);
    single_zero(w_row, blocks);
    const elem *v_row = w_row;
    for (intptr_t k = 0; k < n; k++) {
        elem *const row = a.at + k * a.step;
        x->d[k] = elem_re(single_get(row, k));
        if (k + 1 == n) break;
        single_spread(v, row, k + 1, n);
        tau[k] = reflector(v + k + 1, 1, n - k - 1, false);
        x->e[k] = elem_re(v[k + 1]);
        v[k + 1] = elem_set(1);
        single_collect(row, v, k + 1, n);
        const eigh_single_update u = {conj_v, conj_w, v_row, w_row, v};
        single_zero(sum, blocks);
        KERNEL(eigh_single_pass)(a, k + 1, &u, sum);
        if (k + 2 == n) continue;
        single_spread(w, sum, k + 1, n);
        eigh_balance(w + k + 1, v + k + 1, tau[k], n - k - 1);
        single_collect(w_row, w, k + 1, n);
        single_conjugate(conj_v, v, k + 1, n);
        single_conjugate(conj_w, w, k + 1, n);
        v_row = row;
        const single_outer next[2] = {{conj_v, w_row, true}, {conj_w, v_row, true}};
        single_pass((elem_matrix){a.at, k + 2, n, a.step}, k + 1, k + 1, 0, next, 2, NULL, SINGLE_NONE, NULL);
        single_put(row + a.step, k + 1, elem_real(single_get(row + a.step, k + 1)));
    }
}

/* --- V -------------------------------------------------------------------------------------------------------------
 *
 * Rotations turn columns of V: a vector of it has LANES rows of one of them, of imaginary parts after all real ones. */

enum { SINGLE_STRIPS = PARTS * ((SMM_MAX_ORDER + LANES - 1) / LANES) * (SMM_MAX_ORDER + 1) };
INLINE intptr_t single_strips(intptr_t n) { return PARTS * single_blocks(n); }
INLINE void single_to_strips(vec *v, elem_matrix q) {
    const intptr_t n = q.n, blocks = single_blocks(n), step = row_step(n);
    for (intptr_t e = 0; e < single_strips(n) * step; e++) v[e] = lane_set(0);
    for (intptr_t i = 0; i < n; i++)
        for (intptr_t j = 0; j < n; j++) {
            const T *const x = single_element(q.at + i * q.step, j);
            T *const to = (T *)&v[i / LANES * step + j] + i % LANES;
            UNROLLED(int part = 0; part < PARTS; part++) to[part * blocks * step * LANES] = x[part * LANES];
        }
}

/* Columns of V to their places, the largest element of each, the first of equals, positive. */
INLINE void single_arrange(elem_matrix to, vec *v, int32_t place[SMM_MAX_ORDER][LANES]) {
    const intptr_t n = to.n, blocks = single_blocks(n), step = row_step(n);
    for (intptr_t j = 0; j < n; j++) {
        elem column[SINGLE_STEP];
        vec rank[SINGLE_STEP], most = lane_set(0);
        for (intptr_t b = 0; b < blocks; b++) {
#if defined(REAL_DTYPE)
            column[b] = (elem){v[b * step + j], v[(blocks + b) * step + j]};
#else
            column[b] = v[b * step + j];
#endif
            rank[b] = elem_rank(column[b]);
            most = lane_max(rank[b], most);
        }
        most = single_max(most);
        intptr_t largest = 0;
        while (largest < n - 1 && ((const T *)rank)[largest] != most[0]) largest++;
        const vec size = elem_size_of_rank(most);
        const elem turn = elem_turn(single_get(column, largest), size);
        for (intptr_t b = 0; b < blocks; b++) column[b] = elem_add(elem_mul(column[b], turn), elem_set(0));
        single_put(column, largest, elem_of(size));
        for (intptr_t i = 0; i < n; i++) single_put(to.at + i * to.step, place[j][0], single_get(column, i));
    }
}

/* --- A matrix ----------------------------------------------------------------------------------------------------- */

typedef struct eigh_single_workspace {
    elem a[SINGLE_ELEMENTS], q[SINGLE_ELEMENTS], tau[SMM_MAX_ORDER];
    vec v[SINGLE_STRIPS];
    eigh_stack x;
    eigh_turns turns[2];
    single_workspace workspace;
} eigh_single_workspace;
_Static_assert(sizeof(eigh_single_workspace) <= SMM_KERNEL_WORKSPACE, "workspace of eigh_single");

/* The lanes took 1.8, 2.9 and 4.2 times as long for one f64 matrix of order 32, 64 and 128: finding the rotations of T,
 * one after the other, takes as long in either. */
enum { EIGH_SINGLE_FIRST = 96, EIGH_SINGLE_EACH = 256 / PARTS };
static unsigned eigh_single_needs(const smm_call *call) {
    if (eigh_lanes_needs(call)) return SMM_UNFIT;
    return single_needs(call->batch, call->n, EIGH_SINGLE_FIRST, EIGH_SINGLE_EACH);
}

INLINE void eigh_single(const smm_call *call, intptr_t first, intptr_t last, const bool vectors) {
    eigh_single_workspace *const w = smm_kernel_workspace();
    eigh_stack *const x = &w->x;
    const intptr_t n = call->n;
    const elem_matrix a = single_matrix(w->a, n, n), v = single_matrix(w->q, n, n);
    x->a = w->v;
    for (intptr_t q = first; q < last; q++) {
        eigh_single_load(call, q, a);
        x->back = single_scale(a);
        eigh_single_reduce(a, x, w->tau, &w->workspace);
        if (vectors) {
            KERNEL(single_form)(v, a, w->tau, n - 1, 1, &w->workspace, true);
            single_to_strips(x->a, v);
        }
        eigh_iterate(x, w->turns, n, single_strips(n), 1, vectors);
        int32_t place[SMM_MAX_ORDER][LANES];
        eigh_arrange_values(x, n, place);
        const vec bad = eigh_store_values(call, q, x, n, 1, vectors);
        if (!vectors) continue;
        single_arrange(v, x->a, place);
        single_store(&call->eigh.v, q, v);
        KERNEL(elem_fill_nan)(&call->eigh.v, q, bad, n, n, 1);
    }
}

static void KERNEL(eigh_single)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) {
    (void)cold;
    eigh_single(call, first, last, true);
}
static void KERNEL(eigvalsh_single)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) {
    (void)cold;
    eigh_single(call, first, last, false);
}
