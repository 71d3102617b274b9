/* bidiagonal.c: singular values and right singular vectors of a real upper bidiagonal B = W diag(s) V^T by implicit QR
 * (Golub and Kahan, SIAM J. Numer. Anal. B 2, 1965; Demmel and Kahan, SIAM J. Sci. Stat. Comput. 11, 1990; LAPACK's
 * bdsqr), as csrc/kernels/spectra/bidiagonal_sweeps.h explains. */
#include "reference.h"

/* As in csrc/kernels/bidiagonal_sweeps.h. */
enum { SWEEPS = 30 };

typedef smm_spectrum spectrum;

/* Rotations of vectors whose squared length is not above this are left out: squares would lose digits. */
static const double min_square[SMM_DTYPE_COUNT] = {[SMM_F32] = 0x1p-110, [SMM_F64] = 0x1p-900};

/* What is negligible beside the largest element of B. */
static double tolerance_of(const spectrum *x) {
    double most = 0;
    for (intptr_t i = 0; i < x->n; i++) most = fmax(most, fabs(x->d[i]));
    for (intptr_t i = 0; i < x->n - 1; i++) most = fmax(most, fabs(x->e[i]));
    return round_in(x->dtype, most * (2 * roundoff(x->dtype)));
}

/* Negligible e_i become zero. The last block without any: rows from .. to. False if there is none. */
static bool find_block(spectrum *x, double tolerance, intptr_t *from, intptr_t *to) {
    for (intptr_t i = 0; i < x->n - 1; i++)
        if (!(fabs(x->e[i]) > tolerance)) x->e[i] = 0;
    *to = x->n - 1;
    while (*to > 0 && x->e[*to - 1] == 0) --*to;
    *from = *to;
    while (*from > 0 && x->e[*from - 1] != 0) --*from;
    return *to > 0;
}

/* How a sweep begins: its first rotation turns (f, g) to (r, 0). zero: the shift is zero. */
typedef struct beginning {
    double f, g;
    bool zero;
} beginning;

/* Two rows: f and g are along the larger right singular vector of (d e; 0 below), as svd.c rotates rows. */
static beginning begin_two(smm_dtype dtype, double d, double e, double below) {
    const double xx = round_in(dtype, d * d), yy = fma_in(dtype, e, e, round_in(dtype, below * below));
    const double longer = fmax(xx, yy), shorter = fmin(xx, yy), back = round_in(dtype, 1 / longer);
    const double g = round_in(dtype, round_in(dtype, d * e) * back);
    const double half = round_in(dtype, round_in(dtype, longer - shorter) * round_in(dtype, back * 0.5));
    const double w = round_in(dtype, half + round_in(dtype, sqrt(fma_in(dtype, half, half, round_in(dtype, g * g)))));
    return yy > xx ? (beginning){g, w, false} : (beginning){w, g, false};
}

/* The shift is the smaller singular value of the last two rows; zero if it is small beside d_from, or if an element of
 * the diagonal is negligible. */
static beginning begin(const spectrum *x, double tolerance, intptr_t from, intptr_t to) {
    const smm_dtype dtype = x->dtype;
    const double d = x->d[from], e = x->e[from];
    if (to - from == 1) return begin_two(dtype, d, e, x->d[to]);
    const double f = fabs(x->d[to - 1]), g = fabs(x->e[to - 1]), h = fabs(x->d[to]), gg = round_in(dtype, g * g);
    const double sum = round_in(dtype, f + h), difference = round_in(dtype, f - h);
    const double twice = round_in(dtype, round_in(dtype, sqrt(fma_in(dtype, sum, sum, gg))) +
                                             round_in(dtype, sqrt(fma_in(dtype, difference, difference, gg))));
    const double shift = round_in(dtype, round_in(dtype, round_in(dtype, f + f) * h) / twice);
    const double ratio = round_in(dtype, shift / d);
    for (intptr_t i = from; i <= to; i++)
        if (!(fabs(x->d[i]) > tolerance)) return (beginning){d, e, true};
    if (!(round_in(dtype, ratio * ratio) > 2 * roundoff(dtype))) return (beginning){d, e, true};
    const double first = round_in(dtype, round_in(dtype, fabs(d) - shift) * round_in(dtype, (d < 0 ? -1 : 1) + ratio));
    return (beginning){first, e, false};
}

/* The rotation that turns (f, g) to (r, 0). */
static double rotation(smm_dtype dtype, double f, double g, double *c, double *s) {
    const double squares = fma_in(dtype, f, f, round_in(dtype, g * g)), r = round_in(dtype, sqrt(squares));
    const bool rotates = squares > min_square[dtype];
    const double back = rotates ? round_in(dtype, r * round_in(dtype, 1 / squares)) : 0;
    *c = rotates ? round_in(dtype, f * back) : 1;
    *s = rotates ? round_in(dtype, g * back) : 0;
    return r;
}

/* (x y) times the rotation. */
static void rotate(smm_dtype dtype, double *x, double *y, double c, double s) {
    const double here = *x, there = *y;
    *x = fma_in(dtype, s, there, round_in(dtype, c * here));
    *y = fma_in(dtype, -s, here, round_in(dtype, c * there));
}

/* One sweep over rows from .. to: of columns i and i + 1, then of these rows. Where there are only two, they are done.
 */
static void sweep_block(spectrum *x, double tolerance, intptr_t from, intptr_t to) {
    const smm_dtype dtype = x->dtype;
    const beginning start = begin(x, tolerance, from, to);
    double f = start.f, g = start.g, d = x->d[from], left_c = 1, left_s = 0, beside = 0;
    for (intptr_t i = from; i < to; i++) {
        double c, s, e = round_in(dtype, left_c * x->e[i]);
        if (i > from) g = start.zero ? x->e[i] : round_in(dtype, left_s * x->e[i]);
        const double r = rotation(dtype, f, g, &c, &s);
        if (i > from) x->e[i - 1] = start.zero ? round_in(dtype, left_s * r) : r;
        rotate(dtype, &d, &e, c, s);
        if (start.zero) e = 0;
        double below = round_in(dtype, c * x->d[i + 1]);
        f = start.zero ? below : 0;
        x->d[i] = rotation(dtype, d, round_in(dtype, s * x->d[i + 1]), &left_c, &left_s);
        rotate(dtype, &e, &below, left_c, left_s);
        beside = e;
        d = below;
        if (!start.zero) f = beside;
        smm_rotate_columns(x, i, c, s);
    }
    x->d[to] = d;
    x->e[to - 1] = to - from == 1 ? 0 : beside;
}

intptr_t smm_chase(spectrum *x) {
    const double tolerance = tolerance_of(x);
    intptr_t left = 0, from, to;
    for (intptr_t sweep = 0; sweep < SWEEPS * x->n && find_block(x, tolerance, &from, &to); sweep++)
        sweep_block(x, tolerance, from, to);
    for (intptr_t i = 0; i < x->n - 1; i++) left += x->e[i] != 0;
    return left;
}
