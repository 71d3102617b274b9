/* eigh.c: eigenvalues and eigenvectors of symmetric and Hermitian matrices: of few rows by two-sided Jacobi rotations
 * (Demmel and Veselic, SIAM J. Matrix Anal. Appl. 13, 1992), as csrc/kernels/spectra/eigh_jacobi.h explains, of others
 * by Householder reflectors, which leave a tridiagonal T that is real, and implicit QR with Wilkinson's shift (LAPACK's
 * sytrd, hetrd, orgtr, ungtr and steqr; Golub and Van Loan, Matrix Computations, section 8.3). */
#include "reference.h"

/* As in csrc/kernels/spectra/eigh_sweeps.h. */
enum { SWEEPS = 30 };

static bool by_jacobi(intptr_t n) { return n <= SMM_JACOBI_MAX; }

typedef smm_spectrum spectrum;

/* Off-diagonal elements up to this are zero: their squares would lose digits. */
static const double min_offdiagonal[SMM_DTYPE_COUNT] = {[SMM_F32] = 0x1p-55, [SMM_F64] = 0x1p-450};

/* --- A = Q T Q^H -------------------------------------------------------------------------------------------------- */

/* A^T above the diagonal, then the reflectors, then Q = H_0 H_1 ...; or, for Jacobi's method, A there. */
typedef struct hermitian {
    smm_dtype t;
    intptr_t n;
    numbers a;
    number tau[SMM_MAX_ORDER];
} hermitian;

/* The triangle in question, times a power of two that brings it to about 1; of the diagonal the real parts. The result
 * undoes that, or is NaN where the triangle is not finite. */
static double get_scaled(const smm_call *call, intptr_t q, hermitian *x) {
    const bool upper = call->form & SMM_UPPER;
    double most = 0;
    for (intptr_t i = 0; i < x->n; i++)
        for (intptr_t j = i; j < x->n; j++) {
            number a = get_number(&call->a, x->t, q, upper ? i : j, upper ? j : i);
            if (upper != by_jacobi(x->n)) a = conjugate(a);
            if (i == j) a.im = 0;
            if (!is_finite(a)) return NAN;
            most = fmax(most, fmax(fabs(a.re), fabs(a.im)));
            x->a[i][j] = a;
        }
    const double scale = smm_scale_to_one(x->t, most);
    for (intptr_t i = 0; i < x->n; i++)
        for (intptr_t j = i; j < x->n; j++) x->a[i][j] = scaled(x->t, x->a[i][j], scale);
    return 1 / scale;
}

/* b_ij, i and j from k on, of which the upper triangle has b_ji. */
static number element(const hermitian *x, intptr_t i, intptr_t j) { return i < j ? conjugate(x->a[i][j]) : x->a[j][i]; }

/* B = H^H B H, of the rows and columns from k on: w = tau B v, w = w - |tau|^2 (v^H B v) / 2 v, B = B - v w^H - w v^H.
 * v, of which v_k = 1, is right of the diagonal in row k - 1. */
static void reflect_both_sides(hermitian *x, intptr_t k) {
    const smm_dtype t = x->t;
    const intptr_t n = x->n;
    const number tau = x->tau[k - 1];
    number v[SMM_MAX_ORDER], w[SMM_MAX_ORDER], dot = zero;
    for (intptr_t i = k; i < n; i++) v[i] = i == k ? one : x->a[k - 1][i];
    for (intptr_t i = k; i < n; i++) {
        number s = element(x, i, k);
        for (intptr_t j = k + 1; j < n; j++) s = add_product(t, element(x, i, j), v[j], s);
        w[i] = product(t, tau, s);
        dot = i == k ? w[i] : add_product(t, conjugate(v[i]), w[i], dot);
    }
    const double both = fma_in(t, tau.im, dot.im, round_in(t, tau.re * dot.re));
    const double half = round_in(t, smm_is_complex(t) ? -0.5 * both : round_in(t, -0.5 * tau.re) * dot.re);
    for (intptr_t i = k; i < n; i++) w[i] = add_scaled(t, v[i], half, w[i]);
    for (intptr_t i = k; i < n; i++)
        for (intptr_t j = i; j < n; j++) {
            const number less = subtract_product(t, conjugate(v[i]), w[j], x->a[i][j]);
            x->a[i][j] = subtract_product(t, conjugate(w[i]), v[j], less);
            if (i == j) x->a[i][j].im = 0;
        }
}

static void tridiagonalise(hermitian *x, spectrum *s) {
    for (intptr_t k = 0; k < x->n; k++) {
        s->d[k] = x->a[k][k].re;
        if (k + 1 == x->n) break;
        x->tau[k] = smm_reflector(x->t, &x->a[k][k + 1], 1, x->n - k - 1);
        s->e[k] = x->a[k][k + 1].re;
        if (k + 2 < x->n) reflect_both_sides(x, k + 1);
    }
}

/* From the last on: rows and columns up to k are still those of I when H_k comes. */
void smm_form_vectors(smm_dtype t, numbers a, const number *taus, spectrum *x) {
    const intptr_t n = x->n;
    for (intptr_t k = n - 2; k >= 0; k--) {
        const number *v = a[k], tau = taus[k];
        for (intptr_t j = k + 2; j < n; j++) {
            number w = product(t, conjugate(v[k + 2]), a[k + 2][j]);
            for (intptr_t i = k + 3; i < n; i++) w = add_product(t, conjugate(v[i]), a[i][j], w);
            w = product(t, tau, w);
            a[k + 1][j] = negated(w);
            for (intptr_t i = k + 2; i < n; i++) a[i][j] = subtract_product(t, v[i], w, a[i][j]);
        }
        a[k + 1][k + 1] = difference(t, one, tau);
        for (intptr_t i = k + 2; i < n; i++) a[i][k + 1] = product(t, negated(tau), v[i]);
    }
    for (intptr_t i = 0; i < n; i++) a[0][i] = a[i][0] = i == 0 ? one : zero;
    for (intptr_t i = 0; i < n; i++)
        for (intptr_t j = 0; j < n; j++) {
            x->v[i][j] = a[i][j].re;
            if (smm_is_complex(t)) x->v[n + i][j] = a[i][j].im;
        }
    x->height = smm_is_complex(t) ? 2 * n : n;
}

void smm_vector_of(smm_dtype t, const spectrum *x, intptr_t j, number *to) {
    for (intptr_t i = 0; i < x->n; i++) to[i] = (number){x->v[i][j], smm_is_complex(t) ? x->v[x->n + i][j] : 0};
}

/* --- T = V diag(w) V^T -------------------------------------------------------------------------------------------- */

/* Negligible elements become zero. The last block without any: e_from .. e_to-1. False if there is none. */
static bool find_block(spectrum *x, intptr_t *from, intptr_t *to) {
    const double u = roundoff(x->dtype);
    for (intptr_t i = 0; i < x->n - 1; i++) {
        const double small = round_in(x->dtype, round_in(x->dtype, fabs(x->d[i]) + fabs(x->d[i + 1])) * u);
        if (!(fabs(x->e[i]) > fmax(small, min_offdiagonal[x->dtype]))) x->e[i] = 0;
    }
    *to = x->n - 1;
    while (*to > 0 && x->e[*to - 1] == 0) --*to;
    *from = *to;
    while (*from > 0 && x->e[*from - 1] != 0) --*from;
    return *to > 0;
}

/* t, of (d e; e d_next): d + t and d_next - t, which is Wilkinson's shift, are its eigenvalues. */
static double apart(smm_dtype dtype, double d, double e, double d_next) {
    const double half = round_in(dtype, round_in(dtype, d - d_next) * 0.5), square = round_in(dtype, e * e);
    const double root = round_in(dtype, sqrt(fma_in(dtype, half, half, square)));
    const double outward = round_in(dtype, half + (half < 0 ? -root : root));
    return round_in(dtype, square / outward);
}

void smm_rotate_columns(spectrum *x, intptr_t i, double c, double s) {
    for (intptr_t row = 0; row < x->height; row++) {
        const double left = x->v[row][i], right = x->v[row][i + 1];
        x->v[row][i] = fma_in(x->dtype, s, right, round_in(x->dtype, c * left));
        x->v[row][i + 1] = fma_in(x->dtype, -s, left, round_in(x->dtype, c * right));
    }
}

/* One sweep over rows from .. to. Where there are only two, they are done, and the smaller eigenvalue is as exact as
 * the smaller element of the diagonal. */
static void sweep_block(spectrum *x, intptr_t from, intptr_t to) {
    const smm_dtype dtype = x->dtype;
    const double t = apart(dtype, x->d[to - 1], x->e[to - 1], x->d[to]);
    const double shift = round_in(dtype, x->d[to] - t), other = round_in(dtype, x->d[to - 1] + t);
    double c = 1, s = 1, p = 0, g = round_in(dtype, x->d[from] - shift);
    for (intptr_t i = from; i < to; i++) {
        const double f = round_in(dtype, s * x->e[i]), b = round_in(dtype, c * x->e[i]);
        const double squares = fma_in(dtype, g, g, round_in(dtype, f * f)), r = round_in(dtype, sqrt(squares));
        const double back = round_in(dtype, r * round_in(dtype, 1 / squares));
        const bool rotates = squares > min_offdiagonal[dtype] * min_offdiagonal[dtype];
        if (i > from) x->e[i - 1] = r;
        c = rotates ? round_in(dtype, g * back) : 1;
        s = rotates ? round_in(dtype, f * back) : 0;
        const double h = round_in(dtype, x->d[i] - p);
        const double rotated = fma_in(dtype, 2 * b, c, round_in(dtype, round_in(dtype, x->d[i + 1] - h) * s));
        p = round_in(dtype, s * rotated);
        x->d[i] = round_in(dtype, h + p);
        g = fma_in(dtype, c, rotated, -b);
        smm_rotate_columns(x, i, c, s);
    }
    x->d[to] = round_in(dtype, x->d[to] - p);
    x->e[to - 1] = g;
    if (to - from == 1) x->d[from] = other, x->d[to] = shift, x->e[from] = 0;
}

/* d becomes the eigenvalues; how many elements beside it are not negligible when the matrix is given up. */
static intptr_t diagonalise(spectrum *x) {
    intptr_t left = 0, from, to;
    for (intptr_t sweep = 0; sweep < SWEEPS * x->n && find_block(x, &from, &to); sweep++) sweep_block(x, from, to);
    for (intptr_t i = 0; i < x->n - 1; i++) left += x->e[i] != 0;
    return left;
}

/* --- By Jacobi's method ------------------------------------------------------------------------------------------- */

/* A is scaled so far up that squares of small elements keep their digits. Elements whose doubled squares are up to the
 * least one are not rotated. */
static const double jacobi_scale[SMM_DTYPE_COUNT] = {[SMM_F32] = 0x1p36, [SMM_F64] = 0x1p300};
static const double min_square[SMM_DTYPE_COUNT] = {[SMM_F32] = 0x1p-120, [SMM_F64] = 0x1p-1000};

/* x + Re(conj(y) z) */
static double add_dot(smm_dtype t, number y, number z, double x) {
    return fma_in(t, y.im, z.im, fma_in(t, y.re, z.re, x));
}

/* Columns p and q, of which these are elements in a row. */
static void rotate(smm_dtype t, number *p, number *q, double c, number s) {
    const number x = *p, y = *q;
    *p = add_product(t, conjugate(s), y, scaled(t, x, c));
    *q = subtract_product(t, s, x, scaled(t, y, c));
}

/* a_ri and a_rj of A, whose upper triangle is stored. */
static void rotate_row(hermitian *x, intptr_t r, intptr_t i, intptr_t j, double c, number s) {
    number p = r < i ? x->a[r][i] : conjugate(x->a[i][r]), q = r < j ? x->a[r][j] : conjugate(x->a[j][r]);
    rotate(x->t, &p, &q, c, s);
    x->a[r < i ? r : i][r < i ? i : r] = r < i ? p : conjugate(p);
    x->a[r < j ? r : j][r < j ? j : r] = r < j ? q : conjugate(q);
}

/* False if |a_ij| <= 4 u sqrt|a_ii a_jj| already. */
static bool rotate_pair(hermitian *x, double *d, number v[][SMM_JACOBI_MAX], intptr_t i, intptr_t j) {
    const smm_dtype t = x->t;
    const double far = roundoff(t) * 8, above = d[i], below = d[j];
    const number a = x->a[i][j], twice = sum(t, a, a);
    const double square = add_dot(t, twice, twice, 0);
    if (!(round_in(t, square / (far * far)) > fabs(round_in(t, above * below)) &&
          square > min_square[smm_dtypes[t].real]))
        return false;
    const double gap = round_in(t, above - below), root = round_in(t, sqrt(fma_in(t, gap, gap, square)));
    const double outward = gap < 0 ? -root : root, both = round_in(t, gap + outward);
    const double rest = round_in(t, sqrt(fma_in(t, both, both, square))), more = round_in(t, square / (both + both));
    const double exact = round_in(t, both + (gap < 0 ? -rest : rest));
    const double along = x->n == 2 ? exact : fma_in(t, 2.5, outward, round_in(t, 1.5 * gap));
    const double back = round_in(t, 2 / fma_in(t, along, along, square)), c = fma_in(t, -square, back, 1);
    const number s = scaled(t, twice, round_in(t, along * back)), two = sum(t, s, s);
    const double half = round_in(t, 0.5 * gap), l = add_dot(t, s, a, round_in(t, c * half));
    const number k = add_scaled(t, s, -half, scaled(t, a, c));
    d[i] = x->n == 2 ? round_in(t, above + more) : add_dot(t, two, k, above);
    d[j] = x->n == 2 ? round_in(t, below - more) : add_dot(t, negated(two), k, below);
    x->a[i][j] = x->n == 2 ? zero : add_scaled(t, s, -l, scaled(t, k, c));
    for (intptr_t r = 0; r < x->n; r++) {
        if (r != i && r != j) rotate_row(x, r, i, j, c, s);
        rotate(t, &v[r][i], &v[r][j], c, s);
    }
    return true;
}

/* As orthogonalise of svd.c. */
static intptr_t diagonalise_by_jacobi(hermitian *x, spectrum *to) {
    const smm_dtype t = x->t;
    const intptr_t n = x->n;
    const double up = jacobi_scale[to->dtype];
    number v[SMM_JACOBI_MAX][SMM_JACOBI_MAX] = {0};
    intptr_t rotated = 0;
    for (intptr_t i = 0; i < n; i++) {
        for (intptr_t j = i; j < n; j++) x->a[i][j] = scaled(t, x->a[i][j], up);
        to->d[i] = x->a[i][i].re;
        v[i][i] = one;
    }
    for (int sweep = 0; sweep < SWEEPS; sweep++) {
        rotated = 0;
        for (intptr_t r = 1; r <= n; r++)
            for (intptr_t i = 0; i < n; i++) {
                const intptr_t j = i < r ? r - i : r + n - i;
                if (i < j && j < n) rotated += rotate_pair(x, to->d, v, i, j);
            }
        if (!rotated) break;
    }
    for (intptr_t i = 0; i < n; i++) to->d[i] = round_in(t, to->d[i] / up);
    for (intptr_t i = 0; i < n; i++)
        for (intptr_t j = 0; j < n; j++) to->v[i][j] = v[i][j].re, to->v[n + i][j] = v[i][j].im;
    return rotated;
}

/* --- Order and signs ---------------------------------------------------------------------------------------------- */

/* Magnitudes of complex numbers are compared by their squares. */
void smm_turn_largest(smm_dtype t, number *x, intptr_t count) {
    const bool is_complex = smm_is_complex(t);
    double most = 0;
    intptr_t largest = 0;
    for (intptr_t i = 0; i < count; i++) {
        const double square = fma_in(t, x[i].im, x[i].im, round_in(t, x[i].re * x[i].re));
        const double size = is_complex ? square : fabs(x[i].re);
        if (size > most) most = size, largest = i;
    }
    const double size = is_complex ? round_in(t, sqrt(most)) : most;
    const number phase = divided(t, conjugate(x[largest]), size), sign = {x[largest].re < 0 ? -1 : 1, 0};
    for (intptr_t i = 0; i < count; i++) {
        const number y = i == largest ? (number){size, 0} : product(t, x[i], is_complex ? phase : sign);
        x[i] = (number){y.re + 0.0, y.im + 0.0};
    }
}

_Static_assert(offsetof(smm_call, eigh.w) == offsetof(smm_call, eigvalsh.w), "EIGVALSH has the w of EIGH");

/* Ascending, equal eigenvalues in the order in which they were found. */
static intptr_t rank_of_value(const spectrum *x, intptr_t j) {
    intptr_t place = 0;
    for (intptr_t i = 0; i < x->n; i++) place += x->d[i] < x->d[j] || (i < j && x->d[i] == x->d[j]);
    return place;
}

void smm_reference_eigh(const smm_call *call) {
    const intptr_t n = call->n;
    hermitian x;
    spectrum s = {.dtype = smm_dtypes[call->dtype].real, .n = n};
    x.t = call->dtype, x.n = n;
    for (intptr_t q = 0; q < call->batch; q++) {
        intptr_t info = 0;
        const double back = get_scaled(call, q, &x);
        if (!isnan(back) && by_jacobi(n)) {
            info = diagonalise_by_jacobi(&x, &s);
        } else if (!isnan(back)) {
            tridiagonalise(&x, &s);
            smm_form_vectors(x.t, x.a, x.tau, &s);
            info = diagonalise(&s);
        }
        const bool bad = isnan(back) || info;
        for (intptr_t j = 0; j < n; j++) {
            const intptr_t place = bad ? j : rank_of_value(&s, j);
            number v[SMM_MAX_ORDER];
            put(&call->eigh.w, s.dtype, q, place, 0, bad ? NAN : round_in(s.dtype, s.d[j] * back) + 0.0);
            if (call->op != SMM_OP_EIGH) continue;
            smm_vector_of(x.t, &s, j, v);
            if (!bad) smm_turn_largest(x.t, v, n);
            for (intptr_t i = 0; i < n; i++) put_number(&call->eigh.v, x.t, q, i, place, bad ? not_a_number : v[i]);
        }
        put_int(smm_info(call), q, 0, info);
    }
}
