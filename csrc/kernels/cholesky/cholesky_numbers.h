/* cholesky_numbers.h: the Cholesky factorization A = L L^H of Hermitian matrices, LANES matrices side by side,
 * right-looking, and solutions by it. Of the diagonal only the real part is read, and that of L is real. */

/* The lower triangle becomes L, the upper one zero; returns info. */
static vec KERNEL(numbers_cholesky)(num *a, intptr_t n) {
    const vec zero = lane_set(0);
    vec info = zero;
    for (intptr_t j = 0; j < n; j++) {
        num column[SMM_MOST_ORDER]; /* conjugated */
        const mask bad = ~lane_greater(a[j * n + j].re, zero);
        info = lane_select(bad & lane_equal(info, zero), lane_set((T)(j + 1)), info);
        const vec pivot = lane_sqrt(a[j * n + j].re), r = lane_div(lane_set(1), pivot);
        a[j * n + j] = (num){pivot, zero};
        for (intptr_t i = j + 1; i < n; i++) {
            a[i * n + j] = num_scale(a[i * n + j], r);
            column[i] = num_conj(a[i * n + j]);
            a[j * n + i] = num_set(0);
        }
        intptr_t i = j + 1;
        for (; i + 1 < n; i += 2) {
            numbers_subtract_two(a + i * n + j + 1, a + (i + 1) * n + j + 1, a[i * n + j], a[(i + 1) * n + j],
                                 column + j + 1, i - j);
            a[(i + 1) * n + i + 1] = num_fnma(a[(i + 1) * n + j], column[i + 1], a[(i + 1) * n + i + 1]);
        }
        if (i < n) numbers_subtract(a + i * n + j + 1, a[i * n + j], column + j + 1, i - j);
    }
    return info;
}

static void KERNEL(cholesky_lanes)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) {
    (void)cold;
    num *const a = smm_kernel_workspace();
    const intptr_t n = call->n;
    for (intptr_t q = first; q < last; q += LANES) {
        const intptr_t count = least(LANES, last - q);
        KERNEL(numbers_load)(a, &call->a, q, n, n, count);
        const vec info = KERNEL(numbers_cholesky)(a, n);
        KERNEL(numbers_store)(&call->cholesky.l, q, a, n, n, count);
        lanes_store_int(&call->cholesky.info, q, info, count);
        KERNEL(numbers_fill_nan)(&call->cholesky.l, q, info, n, n, count);
    }
}

/* SOLVE_POS: L L^H X = B by the factor above. Of the upper triangle the conjugate transpose is the lower one. */
static void KERNEL(solve_pos_lanes)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) {
    (void)cold;
    lu_workspace *const workspace = smm_kernel_workspace();
    const intptr_t n = call->n, most = SMM_MOST_ORDER * SIDES / n;
    const smm_solve_pos_operands *o = &call->solve_pos;
    const bool upper = call->form & SMM_UPPER;
    const smm_operand a = upper ? smm_transposed(o->a) : o->a;
    const triangle_of l = {workspace->a, n, false, false, false}, conjugate = {workspace->a, n, true, true, false};
    for (intptr_t q = first; q < last; q += LANES) {
        const intptr_t count = least(LANES, last - q);
        KERNEL(numbers_load)(workspace->a, &a, q, n, n, count);
        for (intptr_t e = 0; e < n * n && upper; e++) workspace->a[e] = num_conj(workspace->a[e]);
        const vec info = KERNEL(numbers_cholesky)(workspace->a, n);
        lanes_store_int(&o->info, q, info, count);
        for (intptr_t j = 0, width; j < call->k; j += width) {
            width = least(most, call->k - j);
            const smm_operand from = numbers_columns(o->b, j), to = numbers_columns(o->x, j);
            KERNEL(numbers_load)(workspace->x, &from, q, n, width, count);
            KERNEL(triangle_solve)(l, workspace->x, width);
            KERNEL(triangle_solve)(conjugate, workspace->x, width);
            KERNEL(numbers_store)(&to, q, workspace->x, n, width, count);
            KERNEL(numbers_fill_nan)(&to, q, info, n, width, count);
        }
    }
}
