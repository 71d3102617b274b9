/* eig.c: eigenvalues, eigenvectors and Schur forms of general matrices, real and complex: balancing, which the latter
 * lack, Householder reduction to Hessenberg form, QR with a double shift for real matrices and a single one for complex
 * ones, back substitution (LAPACK's gebal, gehrd, unghr, lahqr and trevc; Golub and Van Loan, Matrix Computations,
 * chapter 7). sqrtm.c makes square roots of Schur forms.
 *
 * Real matrices are complex ones with imaginary parts of zero, whose products are those of real ones. Only what differs
 * has a text of its own. */
#include "schur.h"

/* As in csrc/kernels/spectra/eig_hessenberg.h, eig_sweeps.h and eig_lanes.h. */
enum { PASSES = 20, STEPS = 64, SWEEPS = 30, MIN_ROWS = 10, EXCEPTIONAL = 10 };
static const limits limits_of[SMM_DTYPE_COUNT] = {[SMM_F32] = {0x1p30, 0x1p35, 0x1p-50, 0x1p20},
                                                  [SMM_F64] = {0x1p300, 0x1p300, 0x1p-400, 0x1p100}};

/* --- A = D Q H Q^H D^-1 ------------------------------------------------------------------------------------------- */

/* Times a power of two that brings it to about 1. The result undoes that, or is NaN where A is not finite. */
static double get_scaled(const smm_call *call, intptr_t q, schur *x) {
    double most = 0;
    for (intptr_t i = 0; i < x->n; i++)
        for (intptr_t j = 0; j < x->n; j++) {
            const number a = get_number(&call->a, call->dtype, q, i, j);
            if (!is_finite(a)) return NAN;
            most = fmax(most, fmax(fabs(a.re), fabs(a.im)));
            x->h[i][j] = a;
        }
    const double scale = smm_scale_to_one(x->t, most);
    for (intptr_t i = 0; i < x->n; i++)
        for (intptr_t j = 0; j < x->n; j++) x->h[i][j] = scaled(x->t, x->h[i][j], scale);
    return 1 / scale;
}

/* Which rows and columns are balanced: not those that a permutation would make the first or the last of a triangle. */
static void find_joined(schur *x) {
    bool again = true;
    for (intptr_t i = 0; i < x->n; i++) x->joined[i] = true;
    while (again) {
        again = false;
        for (intptr_t i = 0; i < x->n; i++) {
            bool below = false, beside = false;
            for (intptr_t j = 0; j < x->n; j++) {
                below |= j != i && x->joined[j] && !is_zero(x->h[j][i]);
                beside |= j != i && x->joined[j] && !is_zero(x->h[i][j]);
            }
            again |= x->joined[i] && !(below && beside);
            x->joined[i] &= below && beside;
        }
    }
}

static double add_squares(const schur *x, number z, double sum) {
    const double re = round_in(x->t, z.re * x->limit.unit), im = round_in(x->t, z.im * x->limit.unit);
    return fma_in(x->t, im, im, fma_in(x->t, re, re, sum));
}

/* A power of two that makes the 2-norms of row i and of column i about equal; whether there is need. Diagonals count,
 * and rows that are not joined (James, Langou and Lowery, On Matrix Balancing and Eigenvector Computation, 2014). */
static bool balance_row(schur *x, intptr_t i) {
    const smm_dtype t = x->t;
    const intptr_t n = x->n;
    double c = 0, r = 0, f = 1;
    for (intptr_t j = 0; j < n; j++) {
        c = add_squares(x, x->h[j][i], c);
        r = add_squares(x, x->h[i][j], r);
    }
    if (!x->joined[i] || c == 0 || r == 0) return false;
    double ratio = round_in(t, r / c);
    for (int step = 0; step < STEPS && ratio > 4 && x->balance[i] * f < x->limit.balance; step++)
        ratio = round_in(t, 0.0625 * ratio), f = 2 * f;
    for (int step = 0; step < STEPS && ratio < 0.25 && x->balance[i] * f > 1 / x->limit.balance; step++)
        ratio = round_in(t, 16 * ratio), f = 0.5 * f;
    c = round_in(t, sqrt(c)), r = round_in(t, sqrt(r));
    const double before = round_in(t, c + r), after = round_in(t, round_in(t, c * f) + round_in(t, r / f));
    if (f == 1 || !(round_in(t, round_in(t, 0.95) * before) > after)) return false;
    x->balance[i] = x->balance[i] * f;
    for (intptr_t j = 0; j < n; j++) x->h[i][j] = scaled(t, x->h[i][j], 1 / f);
    for (intptr_t j = 0; j < n; j++) x->h[j][i] = scaled(t, x->h[j][i], f);
    return true;
}

static void balance(schur *x) {
    bool again = true;
    find_joined(x);
    for (intptr_t i = 0; i < x->n; i++) x->balance[i] = 1;
    for (int pass = 0; pass < PASSES && again; pass++) {
        again = false;
        for (intptr_t i = 0; i < x->n; i++) again |= balance_row(x, i);
    }
}

static number reflector(const schur *x, number *v, intptr_t count) {
    return smm_reflector(x->is_complex ? x->t : smm_dtypes[x->t].real, v, 1, count);
}

/* x = x H, of a row: w = tau x v, x = x - w v^H. */
static void reflect_row(smm_dtype t, const number *v, number tau, number *x, intptr_t count) {
    number w = x[0];
    for (intptr_t j = 1; j < count; j++) w = add_product(t, x[j], v[j], w);
    w = product(t, w, tau);
    x[0] = difference(t, x[0], w);
    for (intptr_t j = 1; j < count; j++) x[j] = subtract_product(t, w, conjugate(v[j]), x[j]);
}

static void to_hessenberg(schur *x) {
    const smm_dtype t = x->t;
    const intptr_t n = x->n;
    numbers v;
    number tau[SMM_MAX_ORDER];
    for (intptr_t k = 0; k + 2 < n; k++) {
        const intptr_t count = n - k - 1;
        for (intptr_t i = 0; i < count; i++) v[k][i] = x->h[k + 1 + i][k];
        tau[k] = reflector(x, v[k], count);
        x->h[k + 1][k] = v[k][0];
        for (intptr_t i = 1; i < count; i++) x->h[k + 1 + i][k] = real(0);
        for (intptr_t j = k + 1; j < n; j++)
            smm_reflect(t, v[k], 1, conjugate(tau[k]), &x->h[k + 1][j], SMM_MAX_ORDER, count);
        for (intptr_t i = 0; i < n; i++) reflect_row(t, v[k], tau[k], &x->h[i][k + 1], count);
    }
    for (intptr_t i = 0; i < n; i++)
        for (intptr_t j = 0; j < n; j++) x->z[i][j] = real(i == j);
    for (intptr_t k = n - 3; k >= 0; k--)
        for (intptr_t j = k + 1; j < n; j++) smm_reflect(t, v[k], 1, tau[k], &x->z[k + 1][j], SMM_MAX_ORDER, n - k - 1);
}

/* --- H becomes triangular ----------------------------------------------------------------------------------------- */

/* Whether h_k,k-1 is negligible (Ahues and Tisseur, LAPACK Working Note 122). Where most sweeps were in vain it is so
 * beside what is not on the diagonal, too, which may be as good as zero. */
static bool is_negligible(const schur *x, intptr_t k, bool in_vain) {
    const smm_dtype t = x->t;
    const double ulp = 2 * roundoff(t), least = round_in(t, smallest_normal(t) / roundoff(t));
    const number above = x->h[k - 1][k - 1], here = x->h[k][k];
    const double below = size_of(t, x->h[k][k - 1]), right = size_of(t, x->h[k - 1][k]), d = size_of(t, here);
    if (!(below > least)) return true;
    double beside = round_in(t, size_of(t, above) + d);
    if (in_vain) {
        beside = round_in(t, beside + right);
        if (k > 1) beside = round_in(t, beside + size_of(t, x->h[k - 1][k - 2]));
        if (k + 1 < x->n) beside = round_in(t, beside + size_of(t, x->h[k + 1][k]));
    }
    if (below > round_in(t, ulp * beside)) return false;
    if (in_vain) return true;
    const double apart = size_of(t, difference(t, above, here));
    const double ab = below > right ? below : right, ba = below > right ? right : below;
    const double aa = apart > d ? apart : d, bb = apart > d ? d : apart, s = round_in(t, aa + ab);
    const double left = round_in(t, ba * round_in(t, ab / s));
    const double limit = round_in(t, ulp * round_in(t, bb * round_in(t, aa / s)));
    return !(left > (limit > least ? limit : least));
}

/* The window lo .. hi at work: the last rows that are not yet triangular, or of a real matrix blocks of order 2. */
typedef struct window {
    intptr_t lo, hi;
    int since; /* sweeps since a row was done, modulo twice EXCEPTIONAL */
} window;

static bool find_window(schur *x, window *y, bool in_vain) {
    const intptr_t done = x->is_complex ? 1 : 2; /* rows of a window in which nothing is left to do */
    for (intptr_t k = y->hi; k >= 0; k--) {
        if (k && !is_negligible(x, k, in_vain)) continue;
        if (k) x->h[k][k - 1] = real(0);
        if (y->hi - k < done) {
            y->hi = k - 1;
            y->since = 0;
        } else {
            y->lo = k;
            y->since = (y->since + 1) % (2 * EXCEPTIONAL);
            return true;
        }
    }
    return false;
}

/* Rows k .. k+count-1 become H^H times them, from column `from` on, columns H from the right: those of v and tau. */
static void reflect_both(schur *x, const number *v, number tau, intptr_t k, intptr_t count, intptr_t last) {
    const smm_dtype t = x->t;
    for (intptr_t j = k; j < x->n; j++) {
        number s = x->h[k][j];
        for (intptr_t i = 1; i < count; i++) s = add_product(t, conjugate(v[i]), x->h[k + i][j], s);
        s = product(t, conjugate(tau), s);
        x->h[k][j] = difference(t, x->h[k][j], s);
        for (intptr_t i = 1; i < count; i++) x->h[k + i][j] = subtract_product(t, v[i], s, x->h[k + i][j]);
    }
    for (intptr_t i = 0; i <= last; i++) reflect_row(t, v, tau, &x->h[i][k], count);
    for (intptr_t i = 0; i < x->n; i++) reflect_row(t, v, tau, &x->z[i][k], count);
}

/* A sweep of the bulge that v begins, of `width` + 1 rows. */
static void chase(schur *x, const window *y, number *v, intptr_t width) {
    for (intptr_t k = y->lo; k < y->hi; k++) {
        const intptr_t count = min_of(width + 1, y->hi - k + 1);
        if (k > y->lo)
            for (intptr_t i = 0; i < count; i++) v[i] = x->h[k + i][k - 1];
        const number tau = reflector(x, v, count);
        if (k > y->lo) {
            x->h[k][k - 1] = v[0];
            for (intptr_t i = 1; i < count; i++) x->h[k + i][k - 1] = real(0);
        }
        reflect_both(x, v, tau, k, count, min_of(k + width + 1, y->hi));
    }
}

/* Two shifts at once, the eigenvalues of the last 2 x 2 of the window, or twice the real one that is nearer to its last
 * element. */
static void sweep_real(schur *x, const window *y) {
    const smm_dtype t = x->t;
    const intptr_t lo = y->lo, hi = y->hi;
    double a = x->h[hi - 1][hi - 1].re, b = x->h[hi - 1][hi].re, c = x->h[hi][hi - 1].re, d = x->h[hi][hi].re;
    if (y->since == EXCEPTIONAL || y->since == 0) {
        const intptr_t i = y->since == 0 ? hi - 2 : lo;
        const double s = round_in(t, fabs(x->h[i + 1][i].re) + fabs(x->h[i + 2][i + 1].re));
        a = d = fma_in(t, 0.75, s, x->h[y->since == 0 ? hi : lo][y->since == 0 ? hi : lo].re);
        b = round_in(t, -0.4375 * s);
        c = s;
    }
    const double s = round_in(t, round_in(t, fabs(a) + fabs(b)) + round_in(t, fabs(c) + fabs(d)));
    const double back = s > 0 ? round_in(t, 1 / s) : 0;
    a = round_in(t, a * back), b = round_in(t, b * back), c = round_in(t, c * back), d = round_in(t, d * back);
    const double middle = round_in(t, round_in(t, a + d) * 0.5);
    const double det = fma_in(t, round_in(t, a - middle), round_in(t, d - middle), -round_in(t, b * c));
    const double root = round_in(t, sqrt(fabs(det)));
    const double up = round_in(t, middle + root), down = round_in(t, middle - root);
    const double nearer = fabs(round_in(t, down - d)) < fabs(round_in(t, up - d)) ? down : up;
    const double re = round_in(t, (det > 0 ? middle : nearer) * s), im = det > 0 ? round_in(t, root * s) : 0;

    const double top = x->h[lo][lo].re, next = x->h[lo + 1][lo + 1].re, below = x->h[lo + 1][lo].re;
    const double from = round_in(t, top - re);
    const double sum_of = round_in(t, round_in(t, fabs(from) + fabs(im)) + fabs(below));
    const double over = round_in(t, 1 / sum_of), part = round_in(t, below * over);
    double first = fma_in(t, from, round_in(t, from * over), round_in(t, part * x->h[lo][lo + 1].re));
    first = fma_in(t, im, round_in(t, im * over), first);
    const double second = round_in(t, part * round_in(t, from + round_in(t, next - re)));
    const double third = round_in(t, part * x->h[lo + 2][lo + 1].re);
    double all = round_in(t, round_in(t, fabs(first) + fabs(second)) + fabs(third));
    if (!(all > smallest_normal(t))) all = smallest_normal(t);
    number v[3] = {real(round_in(t, first / all)), real(round_in(t, second / all)), real(round_in(t, third / all))};
    chase(x, y, v, 2);
}

/* The root whose real part is not negative. */
static number root_of(smm_dtype t, number z) {
    const double size = round_in(t, sqrt(fma_in(t, z.im, z.im, round_in(t, z.re * z.re))));
    const double root = round_in(t, sqrt(round_in(t, 0.5 * round_in(t, fabs(z.re) + size))));
    const double other = root > 0 ? round_in(t, round_in(t, 0.5 * z.im) / root) : 0;
    if (!(z.re < 0)) return (number){root, other};
    return other < 0 ? (number){-other, -root} : (number){other, root};
}

/* One shift: the eigenvalue of the last 2 x 2 of the window that is nearer to its last element. */
static void sweep_complex(schur *x, const window *y) {
    const smm_dtype t = x->t;
    const intptr_t lo = y->lo, hi = y->hi;
    const number d = x->h[hi][hi];
    number shift = d;
    if (y->since == EXCEPTIONAL || y->since == 0) {
        const intptr_t i = y->since == 0 ? hi - 1 : lo;
        shift = x->h[y->since == 0 ? hi : lo][y->since == 0 ? hi : lo];
        shift.re = fma_in(t, 0.75, size_of(t, x->h[i + 1][i]), shift.re);
    } else {
        number b = x->h[hi - 1][hi], c = x->h[hi][hi - 1];
        number half = scaled(t, difference(t, x->h[hi - 1][hi - 1], d), 0.5);
        double s = size_of(t, half);
        if (size_of(t, b) > s) s = size_of(t, b);
        if (size_of(t, c) > s) s = size_of(t, c);
        const double back = round_in(t, 1 / s);
        half = scaled(t, half, back), b = scaled(t, b, back), c = scaled(t, c, back);
        const number bc = product(t, b, c);
        number root = root_of(t, add_product(t, half, half, bc));
        if (fma_in(t, half.im, root.im, round_in(t, half.re * root.re)) < 0) root = negated(root);
        const number outward = sum(t, half, root);
        if (!is_zero(outward)) shift = difference(t, d, scaled(t, quotient_of(t, bc, outward), s));
    }
    number v[2] = {difference(t, x->h[lo][lo], shift), x->h[lo + 1][lo]};
    chase(x, y, v, 1);
}

/* A rotation of rows and columns k and k + 1 of a real H. */
static void rotate_both(schur *x, intptr_t k, double c, double s) {
    const smm_dtype t = x->t;
    for (intptr_t j = k + 2; j < x->n; j++) {
        const double above = x->h[k][j].re, below = x->h[k + 1][j].re;
        x->h[k][j].re = fma_in(t, s, below, round_in(t, c * above));
        x->h[k + 1][j].re = fma_in(t, -s, above, round_in(t, c * below));
    }
    for (intptr_t i = 0; i < k + x->n; i++) {
        number *row = i < k ? x->h[i] : x->z[i - k];
        const double left = row[k].re, right = row[k + 1].re;
        row[k].re = fma_in(t, s, right, round_in(t, c * left));
        row[k + 1].re = fma_in(t, -s, left, round_in(t, c * right));
    }
}

/* Two real eigenvalues of a block of order 2 make it triangular; else its diagonal becomes (a, a), the others differing
 * in sign (LAPACK's lanv2). */
static void standardise(schur *x, intptr_t k) {
    const smm_dtype t = x->t;
    double a = x->h[k][k].re, b = x->h[k][k + 1].re, c = x->h[k + 1][k].re, d = x->h[k + 1][k + 1].re;
    if (c == 0) return;
    double apart = round_in(t, a - d), cs, sn, s = fabs(apart);
    if (fabs(b) > s) s = fabs(b);
    if (fabs(c) > s) s = fabs(c);
    const double back = round_in(t, 1 / s), below = round_in(t, c * back);
    apart = round_in(t, apart * back);
    const double right = round_in(t, b * back), half = round_in(t, 0.5 * apart);
    const double bc = round_in(t, right * below), square = fma_in(t, half, half, bc);
    if (!(square < 8 * roundoff(t))) {
        const double root = round_in(t, sqrt(square)), z = round_in(t, half + (half < 0 ? -root : root));
        const double tau = round_in(t, sqrt(fma_in(t, below, below, round_in(t, z * z))));
        a = fma_in(t, z, s, d);
        d = fma_in(t, -round_in(t, bc / z), s, d);
        cs = round_in(t, z / tau);
        sn = round_in(t, below / tau);
        b = round_in(t, b - c);
        c = 0;
    } else {
        double sigma = round_in(t, right + below);
        const double up = smm_scale_to_one(t, fmax(fabs(sigma), fabs(apart)));
        sigma = round_in(t, sigma * up);
        apart = round_in(t, apart * up);
        const double tau = round_in(t, sqrt(fma_in(t, sigma, sigma, round_in(t, apart * apart))));
        cs = 1, sn = 0;
        if (tau > 0) {
            cs = round_in(t, sqrt(round_in(t, 0.5 * round_in(t, 1 + round_in(t, fabs(sigma) / tau)))));
            sn = round_in(t, round_in(t, 0.5 * apart) / round_in(t, tau * cs));
            sn = sigma < 0 ? sn : -sn;
        }
        const double aa = fma_in(t, b, sn, round_in(t, a * cs)), bb = fma_in(t, -a, sn, round_in(t, b * cs));
        const double cc = fma_in(t, d, sn, round_in(t, c * cs)), dd = fma_in(t, -c, sn, round_in(t, d * cs));
        a = fma_in(t, cc, sn, round_in(t, aa * cs)), b = fma_in(t, dd, sn, round_in(t, bb * cs));
        c = fma_in(t, -aa, sn, round_in(t, cc * cs)), d = fma_in(t, -bb, sn, round_in(t, dd * cs));
        a = d = round_in(t, 0.5 * round_in(t, a + d));
        if (b == 0 && c != 0) { /* columns and rows change places */
            const double old = cs;
            b = -c, c = 0;
            cs = -sn, sn = old;
        } else if ((b > 0 && c > 0) || (b < 0 && c < 0)) { /* nearly equal, but real */
            const double sab = round_in(t, sqrt(fabs(b))), sac = round_in(t, sqrt(fabs(c)));
            const double both = round_in(t, sab * sac), p = c < 0 ? -both : both;
            const double tau2 = round_in(t, 1 / round_in(t, sqrt(fabs(round_in(t, b + c)))));
            const double cs1 = round_in(t, sab * tau2), sn1 = round_in(t, sac * tau2), old = cs;
            a = round_in(t, a + p), d = round_in(t, d - p), b = round_in(t, b - c), c = 0;
            cs = fma_in(t, -sn, sn1, round_in(t, old * cs1));
            sn = fma_in(t, sn, cs1, round_in(t, old * sn1));
        }
    }
    rotate_both(x, k, cs, sn);
    x->h[k][k].re = a, x->h[k][k + 1].re = b, x->h[k + 1][k].re = c, x->h[k + 1][k + 1].re = d;
}

/* How many eigenvalues are not found when the matrix is given up. */
static intptr_t triangularise(schur *x) {
    const intptr_t n = x->n, most = SWEEPS * (n > MIN_ROWS ? n : MIN_ROWS);
    window y = {0, n - 1, 0};
    for (intptr_t sweep = 0; find_window(x, &y, 2 * sweep >= most); sweep++) {
        if (sweep == most) return y.hi + 1;
        (x->is_complex ? sweep_complex : sweep_real)(x, &y);
    }
    for (intptr_t k = 0; k < n - 1 && !x->is_complex; k++) standardise(x, k);
    for (intptr_t k = 0; k < n; k++) x->w[k] = x->h[k][k];
    for (intptr_t k = 0; k < n - 1 && !x->is_complex; k++) {
        const double b = x->h[k][k + 1].re, c = x->h[k + 1][k].re;
        if (c == 0) continue;
        x->w[k].im = round_in(x->t, round_in(x->t, sqrt(fabs(b))) * round_in(x->t, sqrt(fabs(c))));
        x->w[k + 1].im = -x->w[k].im;
    }
    return 0;
}

/* --- Eigenvectors ------------------------------------------------------------------------------------------------- */

static number enough(smm_dtype t, number d, double least) { return size_of(t, d) < least ? real(least) : d; }

/* (z b; c z) y = r, by elimination with the largest element as the pivot. */
static void solve_block(smm_dtype t, number z, double b, double c, double least, number r[2]) {
    const double size = size_of(t, z), most = fabs(b) > fabs(c) ? fabs(b) : fabs(c);
    const bool by_row = most > size && !(fabs(b) > fabs(c)), by_column = most > size && !by_row;
    const number p = enough(t, by_row ? real(c) : by_column ? real(b) : z, least);
    const number q = by_row || by_column ? z : real(b), s = by_row || by_column ? z : real(c);
    const number u = by_row ? real(b) : by_column ? real(c) : z;
    const number r1 = by_row ? r[1] : r[0], r2 = by_row ? r[0] : r[1];
    const number l = fraction(t, s, p), left = enough(t, subtract_product(t, l, q, u), least);
    const number y2 = fraction(t, subtract_product(t, l, r1, r2), left);
    const number y1 = fraction(t, subtract_product(t, q, y2, r1), p);
    r[0] = by_column ? y2 : y1;
    r[1] = by_column ? y1 : y2;
}

static void subtract_column(const schur *x, number *y, intptr_t k, number y_k, intptr_t rows) {
    for (intptr_t i = 0; i < rows; i++) y[i] = subtract_product(x->t, x->h[i][k], y_k, y[i]);
}

/* (T - w_j I) y = 0, T being H; y_j = 1, or of a block of order 2 one of the two numbers. The result is the last row of
 * y that is not zero. */
static intptr_t solve_column(const schur *x, intptr_t j, number *y) {
    const smm_dtype t = x->t;
    const number w = x->w[j];
    double small = round_in(t, 2 * roundoff(t) * size_of(t, w));
    if (!(small > x->limit.divisor)) small = x->limit.divisor;
    const bool first = !x->is_complex && j + 1 < x->n && !is_zero(x->h[j + 1][j]);
    const bool second = !x->is_complex && j > 0 && !is_zero(x->h[j][j - 1]);
    const intptr_t top = second ? j - 1 : j, last = first ? j + 1 : j;
    for (intptr_t i = 0; i < x->n; i++) y[i] = real(0);
    y[top] = real(1);
    if (first || second) {
        const double b = x->h[top][top + 1].re, c = x->h[top + 1][top].re, im = fabs(w.im);
        const bool by_b = !(fabs(b) < fabs(c));
        const double p = by_b ? 1 : round_in(t, -im / c), q = by_b ? round_in(t, im / b) : 1;
        y[top] = real(p);
        y[top + 1] = (number){0, w.im < 0 ? -q : q};
    }
    if (last > top) subtract_column(x, y, last, y[last], top);
    subtract_column(x, y, top, y[top], top);
    for (intptr_t i = top - 1; i >= 0; i--) {
        const bool block = !x->is_complex && i > 0 && !is_zero(x->h[i][i - 1]);
        const number z = difference(t, x->h[i - block][i - block], w);
        const intptr_t from = i - block;
        if (block)
            solve_block(t, z, x->h[from][i].re, x->h[i][from].re, small, &y[from]);
        else
            y[i] = fraction(t, y[i], enough(t, z, small));
        for (intptr_t k = from; k <= i; k++) {
            const double size = size_of(t, y[k]);
            if (!(size > x->limit.component)) continue;
            const double back = round_in(t, 1 / size);
            for (intptr_t s = 0; s <= last; s++) y[s] = scaled(t, y[s], back);
        }
        for (intptr_t k = from; k <= i; k++) subtract_column(x, y, k, y[k], from);
        i = from;
    }
    return last;
}

/* v = D Z y, of norm 1, its largest component, the first of equals, real and positive. Zeros are positive. */
static void vector_of(const schur *x, intptr_t j, number *v) {
    const smm_dtype t = x->t;
    number y[SMM_MAX_ORDER];
    const intptr_t last = solve_column(x, j, y);
    double squares = 0, most = 0;
    intptr_t largest = 0;
    for (intptr_t i = 0; i < x->n; i++) {
        v[i] = real(0);
        for (intptr_t k = 0; k <= last; k++) v[i] = add_product(t, x->z[i][k], y[k], v[i]);
        v[i] = scaled(t, v[i], x->balance[i]);
        const double square = fma_in(t, v[i].im, v[i].im, round_in(t, v[i].re * v[i].re));
        squares = round_in(t, squares + square);
        if (square > most) most = square, largest = i;
    }
    const double size = round_in(t, sqrt(most)), back = round_in(t, 1 / round_in(t, sqrt(squares)));
    const number turn = {round_in(t, round_in(t, v[largest].re / size) * back),
                         round_in(t, round_in(t, -v[largest].im / size) * back)};
    for (intptr_t i = 0; i < x->n; i++) {
        const number z = i == largest ? real(round_in(t, size * back)) : product(t, v[i], turn);
        v[i] = (number){z.re + 0.0, z.im + 0.0};
    }
}

/* --- Results ------------------------------------------------------------------------------------------------------ */

/* Zeros are positive. */
static void put_schur(const smm_call *call, intptr_t q, const schur *x, double back, bool bad) {
    for (intptr_t i = 0; i < x->n; i++)
        for (intptr_t j = 0; j < x->n; j++) {
            const number t = bad ? not_a_number : scaled(x->t, x->h[i][j], back);
            const number z = bad ? not_a_number : x->z[i][j];
            put_number(&call->schur.t, call->dtype, q, i, j, (number){t.re + 0.0, t.im + 0.0});
            put_number(&call->schur.z, call->dtype, q, i, j, (number){z.re + 0.0, z.im + 0.0});
        }
}

_Static_assert(offsetof(smm_call, eig.w) == offsetof(smm_call, eigvals.w), "EIGVALS has the w of EIG");

static void eig(const smm_call *call, intptr_t q) {
    const smm_dtype of_results = smm_dtypes[call->dtype].complex_of;
    schur x = {.t = of_results, .is_complex = smm_is_complex(call->dtype), .n = call->n};
    intptr_t info = 0;
    x.limit = limits_of[smm_dtypes[x.t].real];
    const double back = get_scaled(call, q, &x);
    if (!isnan(back)) {
        if (call->op == SMM_OP_EIG || call->op == SMM_OP_EIGVALS) balance(&x);
        to_hessenberg(&x);
        info = triangularise(&x);
    }
    const bool bad = isnan(back) || info;
    if (call->op == SMM_OP_SCHUR) put_schur(call, q, &x, back, bad);
    if (call->op == SMM_OP_SQRTM) info += smm_put_root(call, q, &x, back, bad);
    put_int(smm_info(call), q, 0, info);
    if (call->op != SMM_OP_EIG && call->op != SMM_OP_EIGVALS) return;
    for (intptr_t j = 0; j < x.n; j++) {
        number v[SMM_MAX_ORDER];
        const number w = bad ? not_a_number : scaled(x.t, x.w[j], back);
        put_number(&call->eig.w, of_results, q, j, 0, (number){w.re + 0.0, w.im + 0.0});
        if (call->op != SMM_OP_EIG) continue;
        if (!bad) vector_of(&x, j, v);
        for (intptr_t i = 0; i < x.n; i++) put_number(&call->eig.v, of_results, q, i, j, bad ? not_a_number : v[i]);
    }
}

void smm_reference_eig(const smm_call *call) {
    for (intptr_t q = 0; q < call->batch; q++) eig(call, q);
}
