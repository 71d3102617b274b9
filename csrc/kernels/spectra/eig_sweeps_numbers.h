/* eig_sweeps_numbers.h: complex Hessenberg matrices become triangular, LANES of them side by side: QR with a single
 * shift (LAPACK's lahqr). */

/* The root whose real part is not negative. */
INLINE num eig_root(num z) {
    const vec zero = lane_set(0), half = lane_set((T)0.5);
    const vec size = lane_sqrt(lane_fma(z.im, z.im, lane_mul(z.re, z.re)));
    const vec root = lane_sqrt(lane_mul(half, lane_add(lane_abs(z.re), size)));
    const vec ratio = lane_div(lane_mul(half, z.im), root), other = lane_select(lane_greater(root, zero), ratio, zero);
    const mask below = lane_greater(zero, other);
    const num turned = num_select(below, (num){lane_negate(other), lane_negate(root)}, (num){other, root});
    return num_select(lane_greater(zero, z.re), turned, (num){root, other});
}

/* One shift: the eigenvalue of the last 2 x 2 of the window that is nearer to its last element. */
static void KERNEL(eig_sweep)(eig_stack *x) {
    const vec zero = lane_set(0);
    const num d = eig_pick(x, x->last, 0, 0), top = eig_pick(x, x->first, 0, 0), below = eig_pick(x, x->first, 1, 0);
    num b = eig_pick(x, x->last, -1, 0), c = eig_pick(x, x->last, 0, -1);
    num half = num_scale(num_sub(eig_pick(x, x->last, -1, -1), d), lane_set((T)0.5));
    const vec last = num_size(c), s = lane_max(last, lane_max(num_size(b), num_size(half)));
    const vec back = lane_div(lane_set(1), s);
    half = num_scale(half, back), b = num_scale(b, back), c = num_scale(c, back);
    const num bc = num_mul(b, c);
    num root = eig_root(num_fma(half, half, bc));
    const mask inward = lane_greater(zero, lane_fma(half.im, root.im, lane_mul(half.re, root.re)));
    root = num_select(inward, num_negate(root), root);
    const num outward = num_add(half, root);
    num shift = num_select(num_is_zero(outward), d, num_sub(d, num_scale(num_div(bc, outward), s)));

    const mask early = lane_equal(x->since, lane_set(EIG_EXCEPTIONAL)), late = lane_equal(x->since, zero);
    const num at = num_select(late, d, top);
    const vec size = lane_select(late, last, num_size(below));
    shift = num_select(early | late, (num){lane_fma(lane_set((T)0.75), size, at.re), at.im}, shift);
    const num start[EIG_BULGE] = {num_sub(top, shift), below};
    eig_chase(x, start);
}

INLINE void eig_finish(eig_stack *x, pair *w) {
    for (intptr_t k = 0; k < x->n; k++) w[k] = x->h[k * (x->step + 1)];
}
