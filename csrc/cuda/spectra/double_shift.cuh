/* double_shift.cuh: what eig.cuh lacks, of real matrices, as kernels/spectra/eig_sweeps.h has it: the double shift
 * (Francis; LAPACK's lahqr), and blocks of two eigenvalues (lanv2). */

/* Two shifts at once, the eigenvalues of the last 2 x 2 of the window, or twice the real one that is nearer to its last
 * element. */
__device__ inline void start_sweep(const Work &x, const Window &y, T (&v)[BULGE]) {
    const T *const top = x.h + y.lo * (ROW + COL), *const end = x.h + y.hi * (ROW + COL);
    T a = end[-ROW - COL], b = end[-ROW], c = end[-COL], d = end[0];
    const bool late = y.since == 0;
    if (late || y.since == EXCEPTIONAL) {
        const T s = late ? fabs(end[-ROW - 2 * COL]) + fabs(end[-COL]) : fabs(top[ROW]) + fabs(top[2 * ROW + COL]);
        a = d = multiply_add(T(0.75), s, late ? end[0] : top[0]);
        b = product(T(-0.4375), s);
        c = s;
    }
    const T s = (fabs(a) + fabs(b)) + (fabs(c) + fabs(d)), back = s > 0 ? reciprocal(s) : T(0);
    a = product(a, back), b = product(b, back), c = product(c, back), d = product(d, back);
    const T middle = product(a + d, T(0.5)), det = multiply_add(a - middle, d - middle, -product(b, c));
    const T size = root(fabs(det)), up = middle + size, down = middle - size;
    const T nearer = fabs(down - d) < fabs(up - d) ? down : up;
    const T re = product(det > 0 ? middle : nearer, s), im = det > 0 ? product(size, s) : T(0);

    const T below = top[ROW], from = top[0] - re;
    const T over = reciprocal((fabs(from) + fabs(im)) + fabs(below)), part = product(below, over);
    T first = multiply_add(from, product(from, over), product(part, top[COL]));
    first = multiply_add(im, product(im, over), first);
    const T second = product(part, from + (top[ROW + COL] - re)), third = product(part, top[2 * ROW + COL]);
    const T all = larger((fabs(first) + fabs(second)) + fabs(third), MIN_NORMAL);
    v[0] = quotient_of(first, all), v[1] = quotient_of(second, all), v[2] = quotient_of(third, all);
}

/* The numbers of a block (a b; c d), and the rotation that makes it so. */
struct Block {
    T a, b, c, d, cs, sn;
};

/* Two real eigenvalues of a block make it triangular; else its diagonal becomes (a, a), the others differing in sign.
 */
__device__ inline Block standard_block(T a, T b, T c, T d) {
    const T apart_here = a - d, s = larger(fabs(c), larger(fabs(b), fabs(apart_here))), back = reciprocal(s);
    const T below = product(c, back), apart = product(apart_here, back), right = product(b, back);
    const T p = product(T(0.5), apart), bc = product(right, below), square = multiply_add(p, p, bc);
    if (!(square < 8 * UNIT)) {
        const T size = root(square), z = p + (p < 0 ? -size : size);
        const T length = root(multiply_add(below, below, product(z, z)));
        return {multiply_add(z, s, d),     b - c, 0, multiply_add(-quotient_of(bc, z), s, d), quotient_of(z, length),
                quotient_of(below, length)};
    }
    /* both are tiny in a matrix that is nearly skew-symmetric */
    const T sum = right + below, up = scale_for(larger(fabs(sum), fabs(apart)));
    const T sigma = product(sum, up), gap = product(apart, up);
    const T tau = root(multiply_add(sigma, sigma, product(gap, gap)));
    T cs = 1, sn = 0;
    if (tau > 0) {
        cs = root(product(T(0.5), 1 + quotient_of(fabs(sigma), tau)));
        sn = quotient_of(product(T(0.5), gap), product(tau, cs));
        sn = sigma < 0 ? sn : -sn;
    }
    const T aa = multiply_add(b, sn, product(a, cs)), bb = multiply_add(-a, sn, product(b, cs));
    const T cc = multiply_add(d, sn, product(c, cs)), dd = multiply_add(-c, sn, product(d, cs));
    a = multiply_add(cc, sn, product(aa, cs)), b = multiply_add(dd, sn, product(bb, cs));
    c = multiply_add(-aa, sn, product(cc, cs)), d = multiply_add(-bb, sn, product(dd, cs));
    const T mean = product(T(0.5), a + d);
    if (b == 0 && c != 0) return {mean, -c, 0, mean, -sn, cs}; /* columns and rows change places */
    if (!((b > 0 && c > 0) || (b < 0 && c < 0))) return {mean, b, c, mean, cs, sn};
    const T sab = root(fabs(b)), sac = root(fabs(c)), both = product(sab, sac), e = c < 0 ? -both : both;
    const T tau2 = reciprocal(root(fabs(b + c))), cs1 = product(sab, tau2), sn1 = product(sac, tau2);
    return {mean + e,
            b - c,
            0,
            mean - e,
            multiply_add(-sn, sn1, product(cs, cs1)),
            multiply_add(sn, cs1, product(cs, sn1))};
}

__device__ inline void rotate(T &x, T &y, T c, T s) {
    const T old = x;
    x = multiply_add(s, y, product(c, old));
    y = multiply_add(-s, old, product(c, y));
}

__device__ inline void finish(Work &x, Element *z) {
    EACH_STEP(int k = 0; k + 1 < N; k++) {
        T *const here = x.h + k * ROW, *const next = here + ROW, *const column = x.h + k * COL;
        if (next[k * COL] == 0) continue;
        const Block y = standard_block(here[k * COL], here[(k + 1) * COL], next[k * COL], next[(k + 1) * COL]);
        sync_lanes();
        for (int j = k + 2 + lane(); j < N && VECTORS; j += LANES) rotate(here[j * COL], next[j * COL], y.cs, y.sn);
        for (int i = lane(); i < k && VECTORS; i += LANES) rotate(column[i * ROW], column[i * ROW + COL], y.cs, y.sn);
        for (int i = lane(); i < N && VECTORS; i += LANES)
            rotate(z[i * Z_ROW + k * Z_COL], z[i * Z_ROW + (k + 1) * Z_COL], y.cs, y.sn);
        if (lane() == 0) here[k * COL] = y.a, here[(k + 1) * COL] = y.b, next[k * COL] = y.c, next[(k + 1) * COL] = y.d;
        sync_lanes();
    }
}
