/* triangular_numbers.h: complex triangular systems, LANES matrices side by side: A X = B, and L L^H X = B from the
 * factors of Cholesky. */

/* Which matrix of a stored one is meant: itself or its conjugate transpose, and which of its triangles. */
typedef struct triangle_of {
    const num *a;
    intptr_t n;
    bool conjugate, upper, unit;
} triangle_of;

INLINE num triangle_at(triangle_of t, intptr_t i, intptr_t j) {
    return t.conjugate ? num_conj(t.a[j * t.n + i]) : t.a[i * t.n + j];
}

/* x (n x cols) becomes the solution of A x = x. */
static void KERNEL(triangle_solve)(triangle_of t, num *x, intptr_t cols) {
    const intptr_t n = t.n;
    for (intptr_t step = 0; step < n; step++) {
        const intptr_t j = t.upper ? n - 1 - step : step;
        num *x_j = x + j * cols;
        if (!t.unit) {
            const divisor d = divisor_of(triangle_at(t, j, j));
            const num r = num_reciprocal(&d);
            for (intptr_t l = 0; l < cols; l++) x_j[l] = num_quotient(x_j[l], &d, r);
        }
        for (intptr_t i = t.upper ? 0 : j + 1; i < (t.upper ? j : n); i++)
            numbers_subtract(x + i * cols, triangle_at(t, i, j), x_j, cols);
    }
}

static void KERNEL(triangular_lanes)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) {
    (void)cold;
    lu_workspace *const workspace = smm_kernel_workspace();
    const intptr_t n = call->n, most = SMM_MOST_ORDER * SIDES / n;
    const bool upper = call->form & SMM_UPPER, unit = call->form & SMM_UNIT, factored = call->op == SMM_OP_CHO_SOLVE;
    const smm_operand *const b = factored ? &call->cho_solve.b : &call->solve_triangular.b;
    const smm_operand *const to = factored ? &call->cho_solve.x : &call->solve_triangular.x;
    const triangle_of plain = {workspace->a, n, false, upper, unit}, conjugate = {workspace->a, n, true, !upper, unit};
    for (intptr_t q = first; q < last; q += LANES) {
        const intptr_t count = least(LANES, last - q);
        vec info = lane_set(0);
        KERNEL(numbers_load)(workspace->a, &call->a, q, n, n, count);
        for (intptr_t j = n - 1; j >= 0 && !unit; j--)
            info = lane_select(num_is_zero(workspace->a[j * n + j]), lane_set((T)(j + 1)), info);
        lanes_store_int(smm_info(call), q, info, count);
        for (intptr_t j = 0, width; j < call->k; j += width) {
            width = least(most, call->k - j);
            const smm_operand from = numbers_columns(*b, j), c = numbers_columns(*to, j);
            KERNEL(numbers_load)(workspace->x, &from, q, n, width, count);
            if (factored) { /* first the lower of the two */
                KERNEL(triangle_solve)(upper ? conjugate : plain, workspace->x, width);
                KERNEL(triangle_solve)(upper ? plain : conjugate, workspace->x, width);
            } else {
                KERNEL(triangle_solve)(plain, workspace->x, width);
            }
            KERNEL(numbers_store)(&c, q, workspace->x, n, width, count);
            KERNEL(numbers_fill_nan)(&c, q, info, n, width, count);
        }
    }
}
