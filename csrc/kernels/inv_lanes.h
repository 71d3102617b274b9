/* inv_lanes.h: the inverse by Gauss-Jordan elimination in place, LANES matrices side by side: rows are exchanged lane by
 * lane by selection. For small orders; constant ones unroll. */

/* Where m holds, x and y change places. */
INLINE void lane_exchange(mask m, vec *x, vec *y) {
    const vec z = *x;
    *x = lane_select(m, *y, z);
    *y = lane_select(m, z, *y);
}

/* The largest |a_ik|, i >= k, and its row: the first of equals. */
INLINE vec inv_pivot(const vec *a, const int n, const int k, vec *row) {
    vec most = lane_abs(a[k * n + k]);
    *row = lane_set((T)k);
    UNROLLED(int i = k + 1; i < n; i++) {
        const vec size = lane_abs(a[i * n + k]);
        const mask larger = lane_greater(size, most);
        most = lane_select(larger, size, most);
        *row = lane_select(larger, lane_set((T)i), *row);
    }
    return most;
}

/* f_i = a_ik; column k = that of the identity; a_kj = a_kj / f_k; a_ij = a_ij - f_i a_kj for i != k. */
INLINE void inv_step(vec *a, const int n, const int k) {
    const vec r = lane_div(lane_set(1), a[k * n + k]);
    UNROLLED(int j = 0; j < n; j++) a[k * n + j] = j == k ? r : lane_mul(a[k * n + j], r);
    UNROLLED(int i = 0; i < n; i++) {
        if (i == k) continue;
        const vec f = a[i * n + k];
        a[i * n + k] = lane_set(0);
        UNROLLED(int j = 0; j < n; j++) a[i * n + j] = lane_fnma(f, a[k * n + j], a[i * n + j]);
    }
}

/* A becomes its inverse, or NaN where a pivot is zero; the result is info. */
INLINE vec inv_in_lanes(vec *a, const int n) {
    vec row[SMM_MOST_ORDER], info = lane_set(0);
    UNROLLED(int k = 0; k < n; k++) {
        const mask zero = lane_equal(inv_pivot(a, n, k, &row[k]), lane_set(0));
        info = lane_select(zero & lane_equal(info, lane_set(0)), lane_set((T)(k + 1)), info);
        UNROLLED(int i = k + 1; i < n; i++) {
            const mask here = lane_equal(row[k], lane_set((T)i));
            UNROLLED(int j = 0; j < n; j++) lane_exchange(here, &a[k * n + j], &a[i * n + j]);
        }
        inv_step(a, n, k);
    }
    UNROLLED(int k = n - 2; k >= 0; k--)
        UNROLLED(int j = k + 1; j < n; j++) {
            const mask here = lane_equal(row[k], lane_set((T)j));
            UNROLLED(int i = 0; i < n; i++) lane_exchange(here, &a[i * n + k], &a[i * n + j]);
        }
    const mask good = lane_equal(info, lane_set(0));
    if (lane_any(~good))
        UNROLLED(int i = 0; i < n * n; i++) a[i] = lane_select(good, a[i], lane_set(NAN));
    return info;
}

INLINE void inv_lanes(const smm_call *call, intptr_t first, intptr_t last, bool cold, const int n) {
    (void)cold;
    for (intptr_t q = first; q < last; q += LANES) {
        const intptr_t count = least(LANES, last - q);
        vec a[n * n];
        lanes_load(a, &call->a, q, n, n, count);
        lanes_store_int(&call->info, q, 0, inv_in_lanes(a, n), count);
        lanes_store(&call->c, q, a, n, n, count);
    }
}
