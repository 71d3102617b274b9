/* svd_bidiagonal_numbers.h: singular values and singular vectors of complex matrices of orders above SVD_JACOBI_MOST,
 * LANES of them side by side, by the method of svd_bidiagonal.h: Householder reflectors leave a B that is real
 * (LAPACK's gebrd and ungbr), and rotations of B turn real and imaginary parts of V alike (bidiagonal_sweeps.h). */

static intptr_t KERNEL(svd_bidiagonal_room)(const smm_call *call) {
    (void)call;
    return BIDIAGONAL_GROUPS * sizeof(svd_numbers_work);
}

/* A few rows of A become those of A H, where H = I - tau u u^H, u_0 = 1. */
INLINE void numbers_reflect_rows(num *x, intptr_t step, const num *u, num tau, intptr_t cols, const int height) {
    num sum[REFLECTED_NUMBERS];
    UNROLLED(int i = 0; i < height; i++) sum[i] = x[i * step];
    ROLLED(intptr_t j = 1; j < cols; j++) {
        const num u_j = u[j];
        UNROLLED(int i = 0; i < height; i++) sum[i] = num_fma(u_j, x[i * step + j], sum[i]);
    }
    UNROLLED(int i = 0; i < height; i++) {
        sum[i] = num_mul(tau, sum[i]);
        x[i * step] = num_sub(x[i * step], sum[i]);
    }
    ROLLED(intptr_t j = 1; j < cols; j++) {
        const num u_j = num_conj(u[j]);
        UNROLLED(int i = 0; i < height; i++) x[i * step + j] = num_fnma(u_j, sum[i], x[i * step + j]);
    }
}

/* A = Q B P^H. Step k: a reflector from the left for column k, and one from the right for the conjugate of row k right
 * of its diagonal. */
static void KERNEL(bidiagonal_reduce)(num *a, num *tau, bidiagonal *b, intptr_t m, intptr_t n) {
    const intptr_t step = row_step(n);
    for (intptr_t k = 0; k < n; k++) {
        num *const x = a + k * step + k, *const u = x + 1;
        const intptr_t rows = m - k, cols = n - k - 1;
        const num left = numbers_reflector(x, step, rows);
        KERNEL(numbers_reflect)(x, step, num_conj(left), u, step, rows, cols);
        b->d[k] = x[0].re;
        if (!cols) break;
        for (intptr_t j = 0; j < cols; j++) u[j] = num_conj(u[j]);
        tau[k] = numbers_reflector(u, 1, cols);
        b->e[k] = u[0].re;
        intptr_t i = 1;
        for (; i + REFLECTED_NUMBERS <= rows; i += REFLECTED_NUMBERS)
            numbers_reflect_rows(u + i * step, step, u, tau[k], cols, REFLECTED_NUMBERS);
        for (; i < rows; i++) numbers_reflect_rows(u + i * step, step, u, tau[k], cols, 1);
    }
}

/* The result undoes the scaling of A, and is NaN where that is not finite. */
INLINE vec svd_numbers_begin(const svd_operands *o, intptr_t q, svd_numbers_work *w, bidiagonal *b, intptr_t count,
                             const bool vectors) {
    const intptr_t m = o->m, n = o->n, step = row_step(n);
    const vec back = numbers_load_scaled(w->a, &o->a, q, m, n, count);
    for (intptr_t i = 0; i < m; i++)
        for (intptr_t j = 0; j < n; j++) w->x[i * step + j] = w->a[i * n + j];
    KERNEL(bidiagonal_reduce)(w->x, w->tau, b, m, n);
    if (!vectors) return back;
    KERNEL(hermitian_form)(w->x, w->tau, w->y, n);
    hermitian_part(w->x, w->y, n);
    return back;
}

/* Singular values descend, and columns of V with them. */
INLINE void svd_numbers_place(svd_numbers_work *w, const bidiagonal *b, intptr_t n, const bool vectors) {
    int32_t place[SMM_MOST_ORDER][LANES];
    vec s[SMM_MOST_ORDER];
    for (intptr_t j = 0; j < n; j++) s[j] = lane_abs(b->d[j]);
    svd_places(place, s, n);
    for (intptr_t j = 0; j < n; j++) svd_scatter(w->s, place[j], s[j]);
    if (!vectors) return;
    hermitian_place((vec *)w->x, n, place);
    hermitian_join(w->x, w->y, n);
    gather_rows(hermitian_parts(w->x, n), PARTS * n);
}

INLINE void svd_bidiagonal_groups(const smm_call *call, intptr_t first, intptr_t last, const bool vectors) {
    const svd_operands o = svd_operands_of(call, vectors);
    svd_numbers_work *const w = smm_kernel_room();
    bidiagonal b[BIDIAGONAL_GROUPS];
    vec back[BIDIAGONAL_GROUPS], *v[BIDIAGONAL_GROUPS];
    for (intptr_t q = first; q < last; q += BIDIAGONAL_GROUPS * LANES) {
        ROLLED(int g = 0; g < BIDIAGONAL_GROUPS; g++) {
            const intptr_t at = q + g * LANES < last ? q + g * LANES : q;
            v[g] = (vec *)w[g].x;
            back[g] = svd_numbers_begin(&o, at, &w[g], &b[g], least(LANES, last - at), vectors);
        }
        bidiagonal_iterate(b, v, o.n, PARTS * o.n, vectors);
        ROLLED(int g = 0; g < BIDIAGONAL_GROUPS; g++) {
            const intptr_t at = q + g * LANES < last ? q + g * LANES : q;
            svd_numbers_place(&w[g], &b[g], o.n, vectors);
            svd_numbers_end(&o, at, &w[g], b[g].info, back[g], least(LANES, last - at), vectors);
        }
    }
}

static void KERNEL(svd_bidiagonal)(const smm_call *call, intptr_t first, intptr_t last, smm_behind *cold) {
    (void)cold;
    svd_bidiagonal_groups(call, first, last, true);
}
static void KERNEL(svdvals_bidiagonal)(const smm_call *call, intptr_t first, intptr_t last, smm_behind *cold) {
    (void)cold;
    svd_bidiagonal_groups(call, first, last, false);
}
