/* svd_bidiagonal.h: singular values and singular vectors of orders above SMM_JACOBI_MAX, LANES matrices side by side:
 * Householder bidiagonalisation and implicit QR (LAPACK's gebrd and bdsqr; Golub and Van Loan, Matrix Computations,
 * section 8.6).
 *
 * A matrix that is wider than tall is transposed. A = Q B P^H, B real and upper bidiagonal; bidiagonal_sweeps.h makes B
 * diagonal and V of P, whose real and imaginary parts it turns alike. Only what becomes V is kept of the
 * transformations: QR of A V gives U, as in svd_lanes.h, orthogonal whatever the rank. */

/* --- A = Q B P^H -------------------------------------------------------------------------------------------------- */

/* w = tau v^H A of a few columns, which is what H takes off row 0 of A; A's other rows stay as they are. */
INLINE void bidiagonal_project(reflection h, elem *x, intptr_t step, elem *w, const int width) {
    elem sum[BIDIAGONAL_COLUMNS];
    UNROLLED(int j = 0; j < width; j++) sum[j] = x[j];
    ROLLED(intptr_t i = 1; i < h.count; i++) add_products(sum, elem_conj(h.v[i * h.step]), x + i * step, width);
    UNROLLED(int j = 0; j < width; j++) {
        w[j] = elem_mul(h.tau, sum[j]);
        x[j] = elem_sub(x[j], w[j]);
    }
}

/* A few rows x = x - v_i w of A, and then of A G, where G = I - tau u u^H, u_0 = 1. */
INLINE void bidiagonal_update(elem *x, intptr_t step, const elem *v, const elem *w, const elem *u, elem tau,
                              intptr_t cols, const int height) {
    elem sum[BIDIAGONAL_ROWS], of[BIDIAGONAL_ROWS];
    UNROLLED(int i = 0; i < height; i++) {
        of[i] = v[i * step];
        sum[i] = x[i * step] = elem_fnma(of[i], w[0], x[i * step]);
    }
    ROLLED(intptr_t j = 1; j < cols; j++) {
        const elem w_j = w[j], u_j = u[j];
        UNROLLED(int i = 0; i < height; i++) {
            const elem y = x[i * step + j] = elem_fnma(of[i], w_j, x[i * step + j]);
            sum[i] = elem_fma(u_j, y, sum[i]);
        }
    }
    UNROLLED(int i = 0; i < height; i++) {
        sum[i] = elem_mul(tau, sum[i]);
        x[i * step] = elem_sub(x[i * step], sum[i]);
    }
    ROLLED(intptr_t j = 1; j < cols; j++) {
        const elem u_j = elem_conj(u[j]);
        UNROLLED(int i = 0; i < height; i++) x[i * step + j] = elem_fnma(u_j, sum[i], x[i * step + j]);
    }
}

/* Step k: a reflector from the left for column k, and one from the right for the conjugate of row k right of its
 * diagonal. */
INLINE void bidiagonal_reduce_row(elem_matrix a, bidiagonal *b, elem *tau, intptr_t k) {
    elem w[SMM_MAX_ORDER], *const x = a.at + k * a.step + k, *const u = x + 1;
    const reflection h = {x, a.step, a.m - k, elem_conj(reflector(x, a.step, a.m - k, false))};
    const intptr_t cols = a.n - k - 1;
    b->d[k] = elem_re(x[0]);
    if (!cols) return;
    intptr_t j = 0, i = 1;
    ROLLED(; j + BIDIAGONAL_COLUMNS <= cols; j += BIDIAGONAL_COLUMNS)
        bidiagonal_project(h, u + j, a.step, w + j, BIDIAGONAL_COLUMNS);
    if (j + BIDIAGONAL_COLUMNS / 2 <= cols) {
        bidiagonal_project(h, u + j, a.step, w + j, BIDIAGONAL_COLUMNS / 2);
        j += BIDIAGONAL_COLUMNS / 2;
    }
    ROLLED(; j < cols; j++) bidiagonal_project(h, u + j, a.step, w + j, 1);
    if (PARTS > 1)
        ROLLED(j = 0; j < cols; j++) u[j] = elem_conj(u[j]);
    tau[k] = reflector(u, 1, cols, false);
    b->e[k] = elem_re(u[0]);
    ROLLED(; i + BIDIAGONAL_ROWS <= h.count; i += BIDIAGONAL_ROWS)
        bidiagonal_update(u + i * a.step, a.step, x + i * a.step, w, u, tau[k], cols, BIDIAGONAL_ROWS);
    ROLLED(; i < h.count; i++) bidiagonal_update(u + i * a.step, a.step, x + i * a.step, w, u, tau[k], cols, 1);
}
SHARED void KERNEL(bidiagonal_reduce)(elem_matrix a, bidiagonal *b, elem *tau) {
    ROLLED(intptr_t k = 0; k < a.n; k++) bidiagonal_reduce_row(a, b, tau, k);
}

/* --- Groups of matrices ------------------------------------------------------------------------------------------- */

/* A and, where they are wanted, P in x->x. */
INLINE void svd_bidiagonal_begin(const svd_operands *o, intptr_t q, svd_stack *x, bidiagonal *b, intptr_t count,
                                 bool cold, const bool vectors) {
    const intptr_t m = o->m, n = o->n, step = row_step(n), size = PARTS * LANES * m * n;
    if (cold) prefetch(ahead_of(&o->a, q, size), size);
    svd_load(o, q, x, m, n, count, false);
    for (intptr_t e = 0; e < m * step && vectors; e++) x->x[e] = x->a[e];
    KERNEL(bidiagonal_reduce)(svd_matrix(vectors ? x->x : x->a, m, n, false), b, x->tau);
    if (!vectors) return;
    eigh_form(x->x, x->tau, n);
    eigh_part(x->x, n);
}

/* Singular values descend, and columns of V with them; the largest element of each column, the first of equals, is
 * positive. Not inlined: GCC 12 fails with an internal error where it knows info of some matrices. */
INLINE void bidiagonal_arrange_values(svd_stack *x, const bidiagonal *b, intptr_t n,
                                      int32_t place[SMM_MAX_ORDER][LANES]) {
    vec s[SMM_MAX_ORDER];
    for (intptr_t j = 0; j < n; j++) s[j] = lane_abs(b->d[j]);
    lanes_ranks(place, s, n, true);
    for (intptr_t j = 0; j < n; j++) svd_scatter(x->s, place[j], s[j]);
}
SHARED void KERNEL(bidiagonal_arrange)(svd_stack *x, const bidiagonal *b, intptr_t n, bool vectors) {
    int32_t place[SMM_MAX_ORDER][LANES];
    bidiagonal_arrange_values(x, b, n, place);
    if (vectors) {
        eigh_place_columns((vec *)x->v, n, place);
        eigh_join(x->v, n);
    }
    x->info = b->info;
}

typedef struct svd_bidiagonal_workspace {
    elem a[BIDIAGONAL_GROUPS][QR_WORKSPACE], x[BIDIAGONAL_GROUPS][QR_WORKSPACE];
    svd_stack stack[BIDIAGONAL_GROUPS];
    bidiagonal b[BIDIAGONAL_GROUPS];
    eigh_turns turns[2][BIDIAGONAL_GROUPS];
} svd_bidiagonal_workspace;
static intptr_t KERNEL(svd_bidiagonal_workspace)(const smm_call *call) {
    (void)call;
    return sizeof(svd_bidiagonal_workspace);
}

/* Two groups of matrices. Where there are none for one of them, it does what the other does. */
INLINE void svd_bidiagonal_groups(const smm_call *call, intptr_t first, intptr_t last, bool cold, const bool vectors) {
    const svd_operands o = svd_operands_of(call, vectors);
    svd_bidiagonal_workspace *const workspace = smm_kernel_workspace();
    svd_stack *const x = workspace->stack;
    bidiagonal *const b = workspace->b;
    vec *v[BIDIAGONAL_GROUPS];
    for (intptr_t q = first; q < last; q += BIDIAGONAL_GROUPS * LANES) {
        ROLLED(int g = 0; g < BIDIAGONAL_GROUPS; g++) {
            const intptr_t at = q + g * LANES < last ? q + g * LANES : q;
            x[g].a = workspace->a[g];
            x[g].x = x[g].v = workspace->x[g];
            v[g] = (vec *)x[g].v;
            svd_bidiagonal_begin(&o, at, &x[g], &b[g], min_of(LANES, last - at), cold, vectors);
        }
        bidiagonal_iterate(b, workspace->turns, v, o.n, PARTS * o.n, BIDIAGONAL_GROUPS, vectors);
        ROLLED(int g = 0; g < BIDIAGONAL_GROUPS; g++) {
            const intptr_t at = q + g * LANES < last ? q + g * LANES : q, count = min_of(LANES, last - at);
            KERNEL(bidiagonal_arrange)(&x[g], &b[g], o.n, vectors);
            const vec bad = svd_store_values(&o, at, &x[g], o.n, count, false);
            if (vectors) svd_store_vectors(&o, at, &x[g], bad, o.m, o.n, count, false);
        }
    }
}

static void KERNEL(svd_bidiagonal)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) {
    svd_bidiagonal_groups(call, first, last, cold, true);
}
static void KERNEL(svdvals_bidiagonal)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) {
    svd_bidiagonal_groups(call, first, last, cold, false);
}
