/* eig_sweeps.h: real Hessenberg matrices become triangular, but for blocks of order 2 of conjugate eigenvalues, LANES
 * matrices side by side: QR with a double shift (Francis; LAPACK's lahqr and lanv2; Golub and Van Loan, Matrix
 * Computations, section 7.5). */

/* Two shifts at once, the eigenvalues of the last 2 x 2 of the window, or twice the real one that is nearer to its last
 * element. */
INLINE void eig_sweep(eig_stack *x, const eig_matrix h) {
    const vec zero = lane_set(0), half = lane_set((T)0.5);
    vec a = eig_pick(h, x->last, -1, -1), b = eig_pick(h, x->last, -1, 0);
    vec c = eig_pick(h, x->last, 0, -1), d = eig_pick(h, x->last, 0, 0);
    const mask early = lane_equal(x->since, lane_set(EIG_EXCEPTIONAL)), late = x->works & lane_equal(x->since, zero);
    if (__builtin_expect(lane_any(early | late), 0)) {
        const vec top = lane_add(lane_abs(eig_pick(h, x->first, 1, 0)), lane_abs(eig_pick(h, x->first, 2, 1)));
        const vec bottom = lane_add(lane_abs(eig_pick(h, x->last, -1, -2)), lane_abs(c));
        const vec s = lane_select(late, bottom, top), at = lane_select(late, d, eig_pick(h, x->first, 0, 0));
        const vec other = lane_fma(lane_set((T)0.75), s, at);
        a = lane_select(early | late, other, a);
        b = lane_select(early | late, lane_mul(lane_set((T)-0.4375), s), b);
        c = lane_select(early | late, s, c);
        d = lane_select(early | late, other, d);
    }
    const vec s = lane_add(lane_add(lane_abs(a), lane_abs(b)), lane_add(lane_abs(c), lane_abs(d)));
    const vec back = lane_select(lane_greater(s, zero), lane_div(lane_set(1), s), zero);
    a = lane_mul(a, back), b = lane_mul(b, back), c = lane_mul(c, back), d = lane_mul(d, back);
    const vec middle = lane_mul(lane_add(a, d), half);
    const vec det = lane_fma(lane_sub(a, middle), lane_sub(d, middle), lane_negate(lane_mul(b, c)));
    const vec root = lane_sqrt(lane_abs(det)), up = lane_add(middle, root), down = lane_sub(middle, root);
    const mask lower = lane_greater(lane_abs(lane_sub(up, d)), lane_abs(lane_sub(down, d)));
    const mask turns = lane_greater(det, zero);
    const vec re = lane_mul(lane_select(turns, middle, lane_select(lower, down, up)), s);
    const vec im = lane_select(turns, lane_mul(root, s), zero);

    const vec below = eig_pick(h, x->first, 1, 0), from = lane_sub(eig_pick(h, x->first, 0, 0), re);
    const vec over = lane_div(lane_set(1), lane_add(lane_add(lane_abs(from), lane_abs(im)), lane_abs(below)));
    const vec part = lane_mul(below, over);
    vec v[EIG_BULGE];
    v[0] = lane_fma(from, lane_mul(from, over), lane_mul(part, eig_pick(h, x->first, 0, 1)));
    v[0] = lane_fma(im, lane_mul(im, over), v[0]);
    v[1] = lane_mul(part, lane_add(from, lane_sub(eig_pick(h, x->first, 1, 1), re)));
    v[2] = lane_mul(part, eig_pick(h, x->first, 2, 1));
    vec all = lane_add(lane_add(lane_abs(v[0]), lane_abs(v[1])), lane_abs(v[2]));
    all = lane_max(all, lane_set(smallest_normal()));
    for (int i = 0; i < EIG_BULGE; i++) v[i] = lane_div(v[i], all);
    eig_chase(x, h, v);
}

/* The numbers of a block (a b; c d), and the rotation that makes it so. */
typedef struct eig_block {
    vec a, b, c, d, cs, sn;
} eig_block;

INLINE eig_block eig_select_block(mask m, eig_block x, eig_block y) {
    return (eig_block){lane_select(m, x.a, y.a), lane_select(m, x.b, y.b),   lane_select(m, x.c, y.c),
                       lane_select(m, x.d, y.d), lane_select(m, x.cs, y.cs), lane_select(m, x.sn, y.sn)};
}

/* Two real eigenvalues of a block make it triangular; else its diagonal becomes (a, a), the others differing in sign.
 */
INLINE eig_block eig_standard_block(eig_block x) {
    const vec zero = lane_set(0), one = lane_set(1), half = lane_set((T)0.5);
    const vec apart_here = lane_sub(x.a, x.d);
    const vec s = lane_max(lane_abs(x.c), lane_max(lane_abs(x.b), lane_abs(apart_here))), back = lane_div(one, s);
    const vec below = lane_mul(x.c, back), apart = lane_mul(apart_here, back), right = lane_mul(x.b, back);
    const vec p = lane_mul(half, apart), bc = lane_mul(right, below), square = lane_fma(p, p, bc);
    const mask real = eig_at_least(square, lane_set(8 * ROUNDOFF));

    const vec root = lane_sqrt(square), z = lane_add(p, lane_select(lane_greater(zero, p), lane_negate(root), root));
    const vec length = lane_sqrt(lane_fma(below, below, lane_mul(z, z)));
    const eig_block triangular = {.a = lane_fma(z, s, x.d),
                                  .b = lane_sub(x.b, x.c),
                                  .c = zero,
                                  .d = lane_fnma(lane_div(bc, z), s, x.d),
                                  .cs = lane_div(z, length),
                                  .sn = lane_div(below, length)};

    /* both are tiny in a matrix that is nearly skew-symmetric */
    const vec sum = lane_add(right, below), most = lane_max(lane_abs(sum), lane_abs(apart));
    const vec up = lane_scale_to_one(lane_select(real, one, most));
    const vec sigma = lane_mul(sum, up), gap = lane_mul(apart, up);
    const vec tau = lane_sqrt(lane_fma(sigma, sigma, lane_mul(gap, gap)));
    const mask turns = lane_greater(tau, zero);
    vec cs = lane_sqrt(lane_mul(half, lane_add(one, lane_div(lane_abs(sigma), tau))));
    vec sn = lane_div(lane_mul(half, gap), lane_mul(tau, cs));
    cs = lane_select(turns, cs, one);
    sn = lane_select(turns, lane_select(lane_greater(zero, sigma), sn, lane_negate(sn)), zero);
    const vec aa = lane_fma(x.b, sn, lane_mul(x.a, cs)), bb = lane_fnma(x.a, sn, lane_mul(x.b, cs));
    const vec cc = lane_fma(x.d, sn, lane_mul(x.c, cs)), dd = lane_fnma(x.c, sn, lane_mul(x.d, cs));
    const vec a = lane_fma(cc, sn, lane_mul(aa, cs)), b = lane_fma(dd, sn, lane_mul(bb, cs));
    const vec c = lane_fnma(aa, sn, lane_mul(cc, cs)), d = lane_fnma(bb, sn, lane_mul(dd, cs));
    const vec mean = lane_mul(half, lane_add(a, d));
    eig_block other = {mean, b, c, mean, cs, sn};

    /* Columns and rows change places, or the eigenvalues are nearly equal, but real. */
    const eig_block exchanged = {mean, lane_negate(c), zero, mean, lane_negate(sn), cs};
    const vec sab = lane_sqrt(lane_abs(b)), sac = lane_sqrt(lane_abs(c)), both = lane_mul(sab, sac);
    const vec e = lane_select(lane_greater(zero, c), lane_negate(both), both);
    const vec tau2 = lane_div(one, lane_sqrt(lane_abs(lane_add(b, c))));
    const vec cs1 = lane_mul(sab, tau2), sn1 = lane_mul(sac, tau2);
    const eig_block near = {lane_add(mean, e),
                            lane_sub(b, c),
                            zero,
                            lane_sub(mean, e),
                            lane_fnma(sn, sn1, lane_mul(cs, cs1)),
                            lane_fma(sn, cs1, lane_mul(cs, sn1))};
    const mask same = (lane_greater(b, zero) & lane_greater(c, zero)) | (lane_greater(zero, b) & lane_greater(zero, c));
    other = eig_select_block(same, near, other);
    other = eig_select_block(lane_equal(b, zero) & ~lane_equal(c, zero), exchanged, other);
    return eig_select_block(real, triangular, other);
}

/* The block of rows k and k + 1, where it is one. */
static void KERNEL(eig_standardise)(eig_stack *x, intptr_t k) {
    const intptr_t n = x->n, step = x->step;
    elem *const here = x->h + k * step, *const next = here + step;
    const eig_matrix h = eig_h(x);
    const vec below = eig_get(h, k + 1, k);
    const mask has = ~lane_equal(below, lane_set(0));
    if (!lane_any(has)) return;
    const eig_block old = {eig_get(h, k, k),         eig_get(h, k, k + 1), below,
                           eig_get(h, k + 1, k + 1), lane_set(1),          lane_set(0)};
    const eig_block y = eig_select_block(has, eig_standard_block(old), old);
    if (x->vectors && x->single) {
        eig_single_rotate(x, k, y.cs, y.sn);
    } else if (x->vectors) {
        for (intptr_t j = k + 2; j < n; j++) eigh_rotate_row(&here[j], &next[j], y.cs, y.sn);
        for (intptr_t i = 0; i < k; i++) eigh_rotate_row(&x->h[i * step + k], &x->h[i * step + k + 1], y.cs, y.sn);
        for (intptr_t i = 0; i < n; i++) eigh_rotate_row(&x->z[i * step + k], &x->z[i * step + k + 1], y.cs, y.sn);
    }
    eig_put(h, k, k, y.a), eig_put(h, k, k + 1, y.b), eig_put(h, k + 1, k, y.c), eig_put(h, k + 1, k + 1, y.d);
}

/* The eigenvalues of what is left. */
INLINE void eig_finish(eig_stack *x, pair *w) {
    const intptr_t n = x->n;
    const eig_matrix h = eig_h(x);
    for (intptr_t k = 0; k < n - 1; k++) KERNEL(eig_standardise)(x, k);
    for (intptr_t k = 0; k < n; k++) w[k] = (pair){eig_get(h, k, k), lane_set(0)};
    for (intptr_t k = 0; k < n - 1; k++) {
        const vec b = eig_get(h, k, k + 1), c = eig_get(h, k + 1, k);
        const mask has = ~lane_equal(c, lane_set(0));
        const vec im = lane_mul(lane_sqrt(lane_abs(b)), lane_sqrt(lane_abs(c)));
        w[k].im = lane_select(has, im, w[k].im);
        w[k + 1].im = lane_select(has, lane_negate(im), w[k + 1].im);
    }
}
