/* cholesky_numbers.h: the Cholesky factorization A = L L^H of Hermitian matrices, LANES matrices side by side,
 * right-looking. Of the diagonal only the real part is read, and that of L is real. */

static void KERNEL(cholesky_numbers)(const smm_call *call, intptr_t first, intptr_t last, smm_behind *cold) {
    (void)cold;
    num *const a = smm_kernel_room();
    const intptr_t n = call->n;
    const vec zero = lane_set(0);
    for (intptr_t q = first; q < last; q += LANES) {
        const intptr_t count = least(LANES, last - q);
        vec info = zero;
        KERNEL(numbers_load)(a, &call->a, q, n, n, count);
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
        KERNEL(numbers_store)(&call->cholesky.l, q, a, n, n, count);
        lanes_store_int(&call->cholesky.info, q, info, count);
        KERNEL(numbers_spoil)(&call->cholesky.l, q, info, n, n, count);
    }
}
