/* single_shift.cuh: what eig.cuh lacks, of complex matrices, as kernels/spectra/eig_sweeps_complex.h has it: the single
 * shift (LAPACK's lahqr). */

/* The root whose real part is not negative. */
__device__ inline Complex root_of(Complex z) {
    const T size = root(multiply_add(z.im, z.im, product(z.re, z.re)));
    const T re = root(product(T(0.5), fabs(z.re) + size));
    const T other = re > 0 ? quotient_of(product(T(0.5), z.im), re) : T(0);
    if (!(z.re < 0)) return {re, other};
    return other < 0 ? Complex{-other, -re} : Complex{other, re};
}

/* One shift: the eigenvalue of the last 2 x 2 of the window that is nearer to its last element. */
__device__ inline void start_sweep(const Work &x, const Window &y, Complex (&v)[BULGE]) {
    const Complex *const top = x.h + y.lo * (ROW + COL), *const end = x.h + y.hi * (ROW + COL), d = end[0];
    Complex shift = d;
    if (y.since == 0 || y.since == EXCEPTIONAL) {
        const bool late = y.since == 0;
        if (!late) shift = top[0];
        shift.re = multiply_add(T(0.75), size_of(late ? end[-COL] : top[ROW]), shift.re);
    } else {
        Complex b = end[-ROW], c = end[-COL], half = scaled(difference_of(end[-ROW - COL], d), T(0.5));
        const T s = larger(size_of(c), larger(size_of(b), size_of(half))), back = reciprocal(s);
        half = scaled(half, back), b = scaled(b, back), c = scaled(c, back);
        const Complex bc = product(b, c);
        Complex y = root_of(multiply_add(half, half, bc));
        if (multiply_add(half.im, y.im, product(half.re, y.re)) < 0) y = {-y.re, -y.im};
        const Complex outward = {half.re + y.re, half.im + y.im};
        if (!is_zero(outward)) shift = difference_of(d, scaled(ComplexDivisor(outward).divide(bc), s));
    }
    v[0] = difference_of(top[0], shift);
    v[1] = top[ROW];
}

__device__ inline void finish(Work &, Element *) {}
