/* eig_windows.h: what real and complex numbers share of the QR iteration of Hessenberg matrices (LAPACK's lahqr): where
 * they fall apart, and a sweep. eig_sweeps.h and eig_sweeps_complex.h have the shifts.
 *
 * Each lane is at work on a window of its own. A reflector outside of it is the identity, which changes at most the
 * sign of a zero; nothing depends on that, and results have positive zeros. So lanes that are done do not notice those
 * that are not. */

/* Where h_k,k-1 is negligible (Ahues and Tisseur, LAPACK Working Note 122). If most sweeps were in vain it is so
 * beside what is not on the diagonal, too, which may be as good as zero. */
INLINE mask eig_negligible(const eig_matrix h, intptr_t n, intptr_t k, bool in_vain) {
    const elem above = eig_get(h, k - 1, k - 1), here = eig_get(h, k, k);
    const vec ulp = lane_set(2 * ROUNDOFF), least = lane_set(smallest_normal() / ROUNDOFF);
    const vec below = elem_size(eig_get(h, k, k - 1)), right = elem_size(eig_get(h, k - 1, k)), d = elem_size(here);
    const mask tiny = ~lane_greater(below, least);
    vec beside = lane_add(elem_size(above), d);
    if (__builtin_expect(in_vain, 0)) {
        beside = lane_add(beside, right);
        if (k > 1) beside = lane_add(beside, elem_size(eig_get(h, k - 1, k - 2)));
        if (k + 1 < n) beside = lane_add(beside, elem_size(eig_get(h, k + 1, k)));
        return tiny | ~lane_greater(below, lane_mul(ulp, beside));
    }
    const mask small = ~lane_greater(below, lane_mul(ulp, beside));
    if (!lane_any(small & ~tiny)) return tiny;
    const vec apart = elem_size(elem_sub(above, here));
    const vec ab = lane_max(below, right), ba = lane_select(lane_greater(below, right), right, below);
    const vec aa = lane_max(apart, d), bb = lane_select(lane_greater(apart, d), d, apart), s = lane_add(aa, ab);
    const vec left = lane_mul(ba, lane_div(ab, s)), limit = lane_mul(ulp, lane_mul(bb, lane_div(aa, s)));
    return tiny | (small & ~lane_greater(left, lane_max(limit, least)));
}

/* Find all lanes' windows. False if there are none. */
INLINE bool eig_find_windows(eig_stack *x, const eig_matrix h, bool in_vain) {
    mask open = eig_at_least(x->hi, lane_set(0));
    for (intptr_t k = x->to; k >= 0 && lane_any(open); k--) {
        mask ends = open & eig_at_least(x->hi, lane_set((T)k));
        if (k) {
            ends &= eig_negligible(h, x->n, k, in_vain);
            eig_put(h, k, k - 1, elem_select(ends, elem_set(0), eig_get(h, k, k - 1)));
        }
        const mask done = ends & lane_greater(lane_set(EIG_WIDTH), lane_sub(x->hi, lane_set((T)k)));
        x->hi = lane_select(done, lane_set((T)(k - 1)), x->hi);
        x->since = lane_select(done, lane_set(0), x->since);
        x->lo = lane_select(ends & ~done, lane_set((T)k), x->lo);
        open &= ~ends | done;
    }
    x->works = eig_at_least(x->hi, lane_set(0));
    x->since = lane_select(x->works, lane_add(x->since, lane_set(1)), x->since);
    x->since = lane_select(lane_equal(x->since, lane_set(2 * EIG_EXCEPTIONAL)), lane_set(0), x->since);
    lane_store_int(x->first, lane_select(x->works, x->lo, lane_set(0)));
    lane_store_int(x->last, lane_select(x->works, x->hi, lane_set(EIG_WIDTH)));
    x->from = x->n;
    x->to = -1;
    const uint32_t works = lane_bits(x->works);
    for (int l = 0; l < LANES; l++)
        if (works >> l & 1) {
            x->from = x->first[l] < x->from ? x->first[l] : x->from;
            x->to = x->last[l] > x->to ? x->last[l] : x->to;
        }
    return x->to >= 0;
}

/* Element (row + i, row + j) of each lane's own row. */
INLINE elem eig_pick(const eig_matrix h, const int32_t *row, intptr_t i, intptr_t j) {
    if (h.single) return eig_get(h, row[0] + i, row[0] + j);
    T part[PARTS][LANES];
    for (int l = 0; l < LANES; l++) {
        const T *const p = (const T *)(h.at + (row[l] + i) * h.step + row[l] + j) + l;
        UNROLLED(int s = 0; s < PARTS; s++) part[s][l] = p[s * LANES];
    }
    elem y;
    UNROLLED(int s = 0; s < PARTS; s++) ((vec *)&y)[s] = lane_load(part[s]);
    return y;
}

/* Rows k .. k+count-1 become H^H times them, columns H from the right. */
INLINE void eig_reflect_both(eig_stack *x, const elem *v, elem tau, intptr_t k, const int count) {
    const intptr_t n = x->n, step = x->step, end = x->vectors ? n : x->to + 1;
    const elem back = elem_conj(tau);
    elem *const rows = x->h + k * step;
    ROLLED(intptr_t j = k; j < end; j++) {
        elem s = rows[j];
        UNROLLED(int i = 1; i < count; i++) s = elem_fma(elem_conj(v[i]), rows[i * step + j], s);
        s = elem_mul(back, s);
        rows[j] = elem_sub(rows[j], s);
        UNROLLED(int i = 1; i < count; i++) rows[i * step + j] = elem_fnma(v[i], s, rows[i * step + j]);
    }
    ROLLED(intptr_t i = x->vectors ? 0 : x->from; i <= min_of(k + count, n - 1); i++)
        eig_reflect_rows(v, tau, x->h + i * step + k, step, count, 1);
    if (!x->vectors) return;
    ROLLED(intptr_t i = 0; i < n; i++) eig_reflect_rows(v, tau, x->z + i * step + k, step, count, 1);
}

/* A sweep of the bulge that `start` begins. */
INLINE void eig_chase(eig_stack *x, const eig_matrix h, const elem *start) {
    for (intptr_t k = x->from; k < x->to; k++) {
        const intptr_t count = min_of(EIG_BULGE, x->n - k);
        const mask starts = lane_equal(x->lo, lane_set((T)k));
        const mask active = x->works & eig_at_least(lane_set((T)k), x->lo) & lane_greater(x->hi, lane_set((T)k));
        elem v[EIG_BULGE];
        UNROLLED(int i = 0; i < EIG_BULGE; i++) {
            const elem y = k && i < count ? elem_select(starts, start[i], eig_get(h, k + i, k - 1)) : start[i];
            v[i] = elem_select(eig_at_least(x->hi, lane_set((T)(k + i))), y, elem_set(0));
            v[i] = elem_select(active, v[i], elem_set(1)); /* reflectors of tiny numbers take longer */
        }
        const elem tau = elem_select(active, elem_reflector(v, 1, EIG_BULGE), elem_set(0));
        if (k) {
            eig_put(h, k, k - 1, elem_select(active & ~starts, v[0], eig_get(h, k, k - 1)));
            for (intptr_t i = 1; i < count; i++) eig_put(h, k + i, k - 1, elem_set(0));
        }
        if (h.single)
            eig_single_reflect(x, v, tau, k);
        else if (count == EIG_BULGE)
            eig_reflect_both(x, v, tau, k, EIG_BULGE);
        else
            eig_reflect_both(x, v, tau, k, EIG_BULGE - 1);
    }
    if (h.single) KERNEL(eig_single_finish_sweep)(x);
}
