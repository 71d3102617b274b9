/* eig_sweeps_complex.h: complex Hessenberg matrices become triangular, LANES of them side by side: QR with a single
 * shift (LAPACK's lahqr). */

/* The root whose real part is not negative. */
INLINE elem eig_root(elem z) {
    const vec zero = lane_set(0), half = lane_set((T)0.5);
    const vec size = lane_sqrt(lane_fma(z.im, z.im, lane_mul(z.re, z.re)));
    const vec root = lane_sqrt(lane_mul(half, lane_add(lane_abs(z.re), size)));
    const vec ratio = lane_div(lane_mul(half, z.im), root), other = lane_select(lane_greater(root, zero), ratio, zero);
    const mask below = lane_greater(zero, other);
    const elem swapped = elem_select(below, (elem){lane_negate(other), lane_negate(root)}, (elem){other, root});
    return elem_select(lane_greater(zero, z.re), swapped, (elem){root, other});
}

/* One shift: the eigenvalue of the last 2 x 2 of the window that is nearer to its last element. */
INLINE void eig_sweep(eig_stack *x, const eig_matrix h) {
    const vec zero = lane_set(0);
    const elem d = eig_pick(h, x->last, 0, 0), top = eig_pick(h, x->first, 0, 0), below = eig_pick(h, x->first, 1, 0);
    elem b = eig_pick(h, x->last, -1, 0), c = eig_pick(h, x->last, 0, -1);
    elem half = elem_scale(elem_sub(eig_pick(h, x->last, -1, -1), d), lane_set((T)0.5));
    const vec last = elem_size(c), s = lane_max(last, lane_max(elem_size(b), elem_size(half)));
    const vec back = lane_div(lane_set(1), s);
    half = elem_scale(half, back), b = elem_scale(b, back), c = elem_scale(c, back);
    const elem bc = elem_mul(b, c);
    elem root = eig_root(elem_fma(half, half, bc));
    const mask inward = lane_greater(zero, lane_fma(half.im, root.im, lane_mul(half.re, root.re)));
    root = elem_select(inward, elem_negate(root), root);
    const elem outward = elem_add(half, root);
    elem shift = elem_select(elem_is_zero(outward), d, elem_sub(d, elem_scale(elem_div(bc, outward), s)));

    const mask early = lane_equal(x->since, lane_set(EIG_EXCEPTIONAL)), late = lane_equal(x->since, zero);
    const elem at = elem_select(late, d, top);
    const vec size = lane_select(late, last, elem_size(below));
    shift = elem_select(early | late, (elem){lane_fma(lane_set((T)0.75), size, at.re), at.im}, shift);
    const elem start[EIG_BULGE] = {elem_sub(top, shift), below};
    eig_chase(x, h, start);
}

INLINE void eig_finish(eig_stack *x, pair *w) {
    for (intptr_t k = 0; k < x->n; k++) w[k] = eig_get(eig_h(x), k, k);
}
