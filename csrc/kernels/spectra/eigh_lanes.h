/* eigh_lanes.h: eigenvalues and eigenvectors of symmetric and Hermitian matrices of orders above SMM_JACOBI_MAX,
 * LANES of them side by side: Householder tridiagonalisation and implicit QR with Wilkinson's shift (LAPACK's hetrd,
 * ungtr and steqr; Golub and Van Loan, Matrix Computations, section 8.3). One text over the numbers of elements_real.h
 * and those of elements_complex.h: reflectors leave a T that is real, and rotations of T turn real and imaginary parts
 * of V alike. eigh_sweeps.h has the second half. */

/* --- A = Q T Q^H -------------------------------------------------------------------------------------------------- */

/* Columns of A in rows, as far as they are in the triangle in question: A^T above the diagonal, but for a conjugation.
 */
INLINE smm_operand eigh_columns(const smm_call *call) {
    return call->form & SMM_UPPER ? call->a : smm_transposed(call->a);
}
INLINE void eigh_load(const smm_call *call, intptr_t q, eigh_stack *x, intptr_t n, intptr_t count) {
    const smm_operand from = eigh_columns(call);
    const elem_matrix a = {(elem *)x->a, n, n, row_step(n)};
    KERNEL(elem_load)(a.at, &from, q, n, n, count);
    spread_rows(elem_parts(a));
}

/* A^T, times a power of two that brings it to about 1; zero where it is not finite. Imaginary parts of the diagonal are
 * not read. */
INLINE void eigh_measure(elem *y, const bool conjugated, const bool diagonal, vec *most, vec *nothing) {
    if (conjugated) *y = elem_conj(*y);
    if (diagonal) *y = elem_real(*y);
    *most = elem_largest(*y, *most);
    *nothing = elem_taint(*y, *nothing);
}
INLINE void eigh_scale_measured(eigh_stack *x, intptr_t n, intptr_t step, vec most, vec nothing) {
    elem *const a = (elem *)x->a;
    const mask finite = lane_equal(nothing, lane_set(0));
    const vec scale = lane_scale_to_one(most);
    x->back = lane_select(finite, lane_div(lane_set(1), scale), lane_set(NAN));
    if (__builtin_expect(lane_any(~(finite & lane_equal(scale, lane_set(1)))), 0))
        ROLLED(intptr_t i = 0; i < n; i++)
            ROLLED(intptr_t j = i; j < n; j++)
                a[i * step + j] = elem_select(finite, elem_scale(a[i * step + j], scale), elem_set(0));
}
INLINE void eigh_scale(eigh_stack *x, intptr_t n, const bool upper) {
    elem *const a = (elem *)x->a;
    const intptr_t step = row_step(n);
    vec most = lane_set(0), nothing = lane_set(0);
    ROLLED(intptr_t i = 0; i < n; i++)
        ROLLED(intptr_t j = i; j < n; j++) eigh_measure(a + i * step + j, upper, i == j, &most, &nothing);
    eigh_scale_measured(x, n, step, most, nothing);
}

/* w = B v, v_0 = 1, of the upper triangle of B^T: row i gives all it has to w_i, and b_ij to each w_j. */
INLINE void eigh_multiply(elem *w, const elem *b, intptr_t step, const elem *v, intptr_t count) {
    elem sum = b[0];
    ROLLED(intptr_t j = 1; j < count; j++) {
        sum = elem_fma(elem_conj(b[j]), v[j], sum);
        w[j] = b[j];
    }
    w[0] = sum;
    ROLLED(intptr_t i = 1; i < count; i++) {
        const elem *row = b + i * step, v_i = v[i];
        sum = elem_fma(row[i], v_i, w[i]);
        ROLLED(intptr_t j = i + 1; j < count; j++) {
            sum = elem_fma(elem_conj(row[j]), v[j], sum);
            w[j] = elem_fma(row[j], v_i, w[j]);
        }
        w[i] = sum;
    }
}

/* w becomes tau w - |tau|^2 (v^H w) / 2 v. */
INLINE void eigh_balance(elem *w, const elem *v, elem tau, intptr_t count) {
    elem dot = w[0] = elem_mul(tau, w[0]);
    ROLLED(intptr_t i = 1; i < count; i++) dot = elem_fma(elem_conj(v[i]), w[i] = elem_mul(tau, w[i]), dot);
    const vec half = elem_minus_half(tau, dot);
    w[0] = elem_add(w[0], elem_of(half));
    ROLLED(intptr_t i = 1; i < count; i++) w[i] = elem_add_scaled(v[i], half, w[i]);
}

/* B = H^H B H = B - v w^H - w v^H, of order `count`. */
INLINE void eigh_reflect(elem *b, intptr_t step, const elem *v, elem tau, intptr_t count) {
    elem w[SMM_MAX_ORDER];
    eigh_multiply(w, b, step, v, count);
    eigh_balance(w, v, tau, count);
    b[0] = elem_real(elem_sub(elem_sub(b[0], w[0]), w[0]));
    ROLLED(intptr_t j = 1; j < count; j++) b[j] = elem_fnma(elem_conj(w[0]), v[j], elem_sub(b[j], w[j]));
    ROLLED(intptr_t i = 1; i < count; i++) {
        elem *row = b + i * step, v_i = elem_conj(v[i]), w_i = elem_conj(w[i]);
        ROLLED(intptr_t j = i; j < count; j++) row[j] = elem_fnma(w_i, v[j], elem_fnma(v_i, w[j], row[j]));
        row[i] = elem_real(row[i]);
    }
}

/* Step k: row k right of the diagonal becomes e_k and the reflector, what is below it H^H B H. */
INLINE void eigh_reduce_row(eigh_stack *x, elem *tau, intptr_t n, intptr_t k) {
    const intptr_t step = row_step(n), count = n - k - 1;
    elem *row = (elem *)x->a + k * step + k;
    x->d[k] = elem_re(row[0]);
    if (!count) return;
    tau[k] = reflector(row + 1, 1, count, false);
    x->e[k] = elem_re(row[1]);
    if (count > 1) eigh_reflect(row + step + 1, step, row + 1, tau[k], count);
}
INLINE void eigh_reduce(eigh_stack *x, elem *tau, intptr_t n) {
    ROLLED(intptr_t k = 0; k < n; k++) eigh_reduce_row(x, tau, n, k);
}

/* Rows and columns from k + 1 on of Q = H_0 H_1 ..., those from k + 2 on being there. Reflector k stays in row k. */
INLINE void eigh_form_row(elem *a, const elem *tau, intptr_t n, intptr_t k) {
    const intptr_t step = row_step(n), count = n - k - 1;
    const elem *v = a + k * step + k + 1, minus = elem_negate(tau[k]);
    elem *q = a + (k + 1) * (step + 1);
    if (count > 1) reflect((reflection){v, 1, count, tau[k]}, q + 1, step, count - 1, true, false);
    q[0] = elem_sub(elem_set(1), tau[k]);
    ROLLED(intptr_t i = 1; i < count; i++) q[i * step] = elem_mul(minus, v[i]);
}
INLINE void eigh_form(elem *a, const elem *tau, intptr_t n) {
    const intptr_t step = row_step(n);
    ROLLED(intptr_t k = n - 2; k >= 0; k--) eigh_form_row(a, tau, n, k);
    ROLLED(intptr_t i = 1; i < n; i++) a[i] = a[i * step] = elem_set(0);
    a[0] = elem_set(1);
}

/* --- Order and signs ---------------------------------------------------------------------------------------------- */

/* The sign that makes the largest element of column j, the first of equals, positive. */
typedef struct lanes_largest {
    vec x, size;
} lanes_largest;
INLINE void lanes_consider(lanes_largest *most, vec x) {
    const vec size = lane_abs(x);
    most->x = lane_select(lane_greater(size, most->size), x, most->x);
    most->size = lane_max(size, most->size);
}
INLINE vec lanes_sign(lanes_matrix a, intptr_t j, const bool unrolled) {
    lanes_largest most = {lane_set(0), lane_set(0)};
    if (unrolled)
        UNROLLED(intptr_t i = 0; i < a.m; i++) lanes_consider(&most, a.at[i * a.step + j]);
    else
        ROLLED(intptr_t i = 0; i < a.m; i++) lanes_consider(&most, a.at[i * a.step + j]);
    return lane_select(lane_greater(lane_set(0), most.x), lane_set(-1), lane_set(1));
}

#if defined(REAL_DTYPE)
/* The numbers of each row as its real parts, and `row_step` further its imaginary parts; and back. */
INLINE void eigh_part(elem *a, intptr_t n) {
    const intptr_t step = row_step(n);
    elem w[SMM_MAX_ORDER];
    for (intptr_t i = 0; i < n; i++) {
        elem *const row = a + i * step;
        vec *const re = (vec *)row, *const im = re + step;
        for (intptr_t j = 0; j < n; j++) w[j] = row[j];
        for (intptr_t j = 0; j < n; j++) re[j] = w[j].re, im[j] = w[j].im;
    }
}
INLINE void eigh_join(elem *a, intptr_t n) {
    const intptr_t step = row_step(n);
    elem w[SMM_MAX_ORDER];
    for (intptr_t i = 0; i < n; i++) {
        elem *const row = a + i * step;
        const vec *const re = (vec *)row, *const im = re + step;
        for (intptr_t j = 0; j < n; j++) w[j] = (elem){re[j], im[j]};
        for (intptr_t j = 0; j < n; j++) row[j] = w[j];
    }
}

/* The largest element of each column of V becomes positive, and the column goes to its place. */
INLINE void eigh_place_columns(vec *a, intptr_t n, int32_t place[SMM_MAX_ORDER][LANES]) {
    const intptr_t step = row_step(n);
    vec ones[SMM_MAX_ORDER];
    for (intptr_t j = 0; j < n; j++) {
        vec *const re = a + j, *const im = re + step;
        pairs_largest most = {elem_set(1), lane_set(0), lane_set(-1)};
        for (intptr_t i = 0; i < n; i++) pairs_consider(&most, (elem){re[PARTS * i * step], im[PARTS * i * step]}, i);
        const elem phase = pairs_phase(&most);
        const vec size = lane_sqrt(most.square);
        for (intptr_t i = 0; i < n; i++) {
            const elem y = pairs_turn(&most, phase, size, (elem){re[PARTS * i * step], im[PARTS * i * step]}, i);
            re[PARTS * i * step] = y.re, im[PARTS * i * step] = y.im;
        }
        ones[j] = lane_set(1);
    }
    for (intptr_t i = 0; i < PARTS * n; i++) eigh_arrange_row(a + i * step, n, place, ones);
}
#else
/* Real numbers are as they should be. */
INLINE void eigh_part(elem *a, intptr_t n) { (void)a, (void)n; }
INLINE void eigh_join(elem *a, intptr_t n) { (void)a, (void)n; }

/* The largest element of each column of V becomes positive, and the column goes to its place. */
INLINE void eigh_place_columns(vec *a, intptr_t n, int32_t place[SMM_MAX_ORDER][LANES]) {
    const lanes_matrix v = {a, n, n, row_step(n)};
    vec sign[SMM_MAX_ORDER];
    for (intptr_t j = 0; j < n; j++) sign[j] = lanes_sign(v, j, false);
    for (intptr_t i = 0; i < n; i++) eigh_arrange_row(a + i * v.step, n, place, sign);
}
#endif

/* Ascending eigenvalues, and columns of V with them. */
INLINE void eigh_arrange_values(eigh_stack *x, intptr_t n, int32_t place[SMM_MAX_ORDER][LANES]) {
    vec ones[SMM_MAX_ORDER];
    lanes_ranks(place, x->d, n, false);
    for (intptr_t j = 0; j < n; j++) ones[j] = lane_set(1);
    eigh_arrange_row(x->d, n, place, ones);
}
INLINE void eigh_arrange(eigh_stack *x, intptr_t n, const bool vectors) {
    int32_t place[SMM_MAX_ORDER][LANES];
    eigh_arrange_values(x, n, place);
    if (vectors) eigh_place_columns(x->a, n, place);
}

/* --- Groups of matrices ------------------------------------------------------------------------------------------- */

INLINE void eigh_begin(const smm_call *call, intptr_t q, eigh_stack *x, intptr_t n, intptr_t count, bool cold,
                       const bool vectors) {
    elem tau[SMM_MAX_ORDER];
    const intptr_t size = PARTS * LANES * n * n;
    if (cold) prefetch(ahead_of(&call->a, q, size), size);
    eigh_load(call, q, x, n, count);
    eigh_scale(x, n, call->form & SMM_UPPER);
    eigh_reduce(x, tau, n);
    if (!vectors) return;
    eigh_form((elem *)x->a, tau, n);
    eigh_part((elem *)x->a, n);
}

/* w, scaled back, and info; whether a lane has no result. */
INLINE vec eigh_store_values(const smm_call *call, intptr_t q, eigh_stack *x, intptr_t n, intptr_t count,
                             const bool vectors) {
    const vec zero = lane_set(0), times = lane_select(lane_equal(x->info, zero), x->back, lane_set(NAN));
    for (intptr_t j = 0; j < n; j++) x->d[j] = eigh_value(x->d[j], times);
    lanes_store(vectors ? &call->eigh.w : &call->eigvalsh.w, q, x->d, n, 1, count);
    lanes_store_int(vectors ? &call->eigh.info : &call->eigvalsh.info, q, x->info, count);
    return lane_select(lane_equal(times, times), zero, lane_set(1));
}

INLINE void eigh_end(const smm_call *call, intptr_t q, eigh_stack *x, intptr_t n, intptr_t count, const bool vectors) {
    eigh_arrange(x, n, vectors);
    const vec bad = eigh_store_values(call, q, x, n, count, vectors);
    if (!vectors) return;
    const elem_matrix v = {(elem *)x->a, n, n, row_step(n)};
    eigh_join(v.at, n);
    gather_rows(elem_parts(v), PARTS * n);
    KERNEL(elem_store)(&call->eigh.v, q, v.at, n, n, count);
    KERNEL(elem_fill_nan)(&call->eigh.v, q, bad, n, n, count);
}

/* Of which calls the kernels of this method are. */
static unsigned eigh_lanes_needs(const smm_call *call) {
    return call->n > SMM_JACOBI_MAX || call->n == 0 ? 0 : SMM_UNFIT;
}

typedef struct eigh_workspace {
    elem a[QR_WORKSPACE];
    eigh_stack x[EIGH_GROUPS];
    eigh_turns turns[2];
} eigh_workspace;
_Static_assert(sizeof(eigh_workspace) <= SMM_KERNEL_WORKSPACE, "workspace of eigh_lanes");

static void KERNEL(eigh_lanes)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) {
    const intptr_t n = call->n;
    eigh_workspace *const workspace = smm_kernel_workspace();
    eigh_stack *const x = workspace->x;
    x->a = (vec *)workspace->a;
    for (intptr_t q = first; q < last; q += LANES) {
        const intptr_t count = min_of(LANES, last - q);
        eigh_begin(call, q, x, n, count, cold, true);
        eigh_iterate(x, workspace->turns, n, PARTS * n, 1, true);
        eigh_end(call, q, x, n, count, true);
    }
}

static void KERNEL(eigvalsh_lanes)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) {
    const intptr_t n = call->n;
    eigh_workspace *const workspace = smm_kernel_workspace();
    eigh_stack *const x = workspace->x;
    for (intptr_t q = first; q < last; q += EIGH_GROUPS * LANES) {
        ROLLED(int g = 0; g < EIGH_GROUPS; g++) {
            const intptr_t at = q + g * LANES < last ? q + g * LANES : q;
            x[g].a = (vec *)workspace->a;
            eigh_begin(call, at, &x[g], n, min_of(LANES, last - at), cold, false);
        }
        eigh_iterate(x, workspace->turns, n, n, EIGH_GROUPS, false);
        ROLLED(int g = 0; g < EIGH_GROUPS; g++) {
            const intptr_t at = q + g * LANES < last ? q + g * LANES : q;
            eigh_end(call, at, &x[g], n, min_of(LANES, last - at), false);
        }
    }
}
