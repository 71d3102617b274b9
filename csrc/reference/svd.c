/* svd.c: singular values and singular vectors: of few rows or columns by one-sided Jacobi rotations of a triangular
 * factor (Hestenes, J. SIAM 6, 1958; Drmac and Veselic, SIAM J. Matrix Anal. Appl. 29, 2008), as
 * csrc/kernels/spectra/svd_lanes.h explains, of others by Householder reflectors that leave a bidiagonal B, which is
 * real (LAPACK's gebrd, orgbr and ungbr), and bidiagonal.c. */
#include "reference.h"

/* As in csrc/kernels/svd_sweeps.h. */
enum { SWEEPS = 30 };

static bool by_jacobi(intptr_t n) { return n <= SMM_JACOBI_MAX; }

/* A tall matrix, of a call's A or its transpose: A = (large) diag(s) (small)^T, where `small` is the conjugate of V. */
typedef struct tall {
    intptr_t m, n, k; /* A is m x n, m >= n; the columns of `large` */
    smm_operand from, large, small, s;
} tall;

static smm_operand transposed(smm_operand x) { return (smm_operand){x.data, x.batch, x.col, x.row}; }

static tall tall_of(const smm_call *call) {
    const bool wide = call->m < call->n, vectors = call->op != SMM_OP_SVDVALS;
    tall x = {.m = call->m, .n = call->n, .from = call->a};
    if (wide) x.m = call->n, x.n = call->m, x.from = transposed(call->a);
    x.k = call->op == SMM_OP_SVD_FULL ? x.m : vectors ? x.n : 0;
    x.s = vectors ? call->svd.s : call->svdvals.s;
    if (!vectors) return x;
    x.large = wide ? transposed(call->svd.vt) : call->svd.u;
    x.small = wide ? call->svd.u : transposed(call->svd.vt);
    return x;
}

typedef struct decomposition {
    smm_dtype t;
    tall of;
    number a[ELEMENTS];
    intptr_t perm[SMM_MAX_ORDER]; /* the column of A that column j of A P is */
    numbers rows;                 /* R of A P = Q R, then its rotated rows */
    smm_spectrum b;               /* B of A = Q B P^H, then V */
} decomposition;

/* A times a power of two. The result undoes that, or is NaN where A is not finite. */
static double get_scaled(decomposition *x, intptr_t q) {
    for (intptr_t i = 0; i < x->of.m; i++)
        for (intptr_t j = 0; j < x->of.n; j++) x->a[i * x->of.n + j] = get_number(&x->of.from, x->t, q, i, j);
    return 1 / smm_scale_all(x->t, x->a, x->of.m * x->of.n);
}

/* --- By Jacobi's method ------------------------------------------------------------------------------------------- */

/* A P = Q R: the columns of A P are sorted by length, and, of few, its rows by their largest element, so that QR keeps
 * small ones as exact as large ones (Cox and Higham, BIT 38, 1998). */
static void reduce(decomposition *x) {
    const intptr_t m = x->of.m, n = x->of.n;
    double squares[SMM_MAX_ORDER] = {0}, largest[SMM_JACOBI_MAX] = {0};
    for (intptr_t i = 0; i < m; i++)
        for (intptr_t j = 0; j < n; j++) {
            const number a = x->a[i * n + j];
            squares[j] = fma_in(x->t, a.im, a.im, fma_in(x->t, a.re, a.re, squares[j]));
            if (m <= SMM_JACOBI_MAX) largest[i] = fmax(largest[i], fmax(fabs(a.re), fabs(a.im)));
        }
    smm_factors f;
    f.dtype = x->t, f.m = m, f.n = n;
    for (intptr_t j = 0; j < n; j++) {
        const intptr_t place = place_of(squares, n, j);
        x->perm[place] = j;
        for (intptr_t i = 0; i < m; i++)
            f.a[(m <= SMM_JACOBI_MAX ? place_of(largest, m, i) : i) * n + place] = x->a[i * n + j];
    }
    smm_factor(&f);
    for (intptr_t i = 0; i < n; i++)
        for (intptr_t j = 0; j < n; j++) x->rows[i][j] = i <= j ? f.a[i * n + j] : zero;
}

/* Rows of at most this squared length are not rotated: products with them would lose digits. */
static const double min_square[SMM_DTYPE_COUNT] = {[SMM_F32] = 0x1p-120, [SMM_F64] = 0x1p-1000};

/* What makes rows x and y orthogonal, and x the longer, of their squared lengths and their product. False if
 * |xy| <= tolerance |x| |y| already. Cosine and sine are the unit vector along (d + r, g), where g = xy and
 * d = |xx - yy| / 2 over the larger square and r^2 = d^2 + g^2; exchanged where y is longer. */
static bool rotation_of(smm_dtype t, double xx, double yy, double xy, double tolerance, double *c, double *s) {
    const double longer = fmax(xx, yy), shorter = fmin(xx, yy), back = round_in(t, 1 / longer);
    const double g = round_in(t, xy * back), gg = round_in(t, g * g);
    const double limit = round_in(t, tolerance * tolerance * round_in(t, shorter * back));
    if (!(gg > limit && shorter > min_square[smm_dtypes[t].real])) return false;
    const double d = round_in(t, round_in(t, longer - shorter) * round_in(t, back / 2));
    const double w = round_in(t, d + round_in(t, sqrt(fma_in(t, d, d, gg))));
    const double scale = round_in(t, 1 / round_in(t, sqrt(fma_in(t, w, w, gg))));
    const double large = round_in(t, w * scale), small = round_in(t, g * scale);
    *c = yy > xx ? small : large;
    *s = yy > xx ? large : small;
    return true;
}

/* x y^H, in two sums: of real numbers of the even elements and of the odd ones; each part of complex ones is two. */
static number product_of_rows(smm_dtype t, const number *x, const number *y, intptr_t n) {
    double re[2] = {0, 0}, im[2] = {0, 0};
    if (!smm_is_complex(t)) {
        for (intptr_t k = 0; k < 2; k++) re[k] = round_in(t, x[k].re * y[k].re);
        for (intptr_t k = 2; k < n; k++) re[k % 2] = fma_in(t, x[k].re, y[k].re, re[k % 2]);
        return (number){round_in(t, re[0] + re[1]), 0};
    }
    for (intptr_t k = 0; k < n; k++) {
        re[0] = fma_in(t, x[k].re, y[k].re, re[0]);
        re[1] = fma_in(t, x[k].im, y[k].im, re[1]);
        im[0] = fma_in(t, x[k].im, y[k].re, im[0]);
        im[1] = fma_in(t, x[k].re, y[k].im, im[1]);
    }
    return (number){round_in(t, re[0] + re[1]), round_in(t, im[0] - im[1])};
}

/* Complex rows are rotated as x and p y, where p is x y^H over its magnitude: their product is real. A product of
 * orthogonal rows has n terms, or 2 n in each part. */
static bool rotate_rows(decomposition *whole, intptr_t i, intptr_t j) {
    const smm_dtype t = whole->t;
    const intptr_t n = whole->of.n, terms = smm_is_complex(t) ? 2 * n : n;
    const double tolerance = (double)(terms < 4 ? 4 : terms) * roundoff(t);
    number *const x = whole->rows[i], *const y = whole->rows[j], xy = product_of_rows(t, x, y, n), phase = one;
    double c, s, along = xy.re;
    if (smm_is_complex(t)) {
        const double most = fmax(fabs(xy.re), fabs(xy.im)); /* squares might underflow */
        if (!(most > 0)) return false;
        const number unit = divided(t, xy, most);
        const double length = magnitude(t, unit);
        along = round_in(t, most * length);
        phase = divided(t, unit, length);
    }
    if (!rotation_of(t, product_of_rows(t, x, x, n).re, product_of_rows(t, y, y, n).re, along, tolerance, &c, &s))
        return false;
    for (intptr_t k = 0; k < n; k++) {
        const number here = x[k], there = product(t, phase, y[k]);
        x[k] = add_scaled(t, there, s, scaled(t, here, c));
        y[k] = add_scaled(t, here, -s, scaled(t, there, c));
    }
    return true;
}

/* n rows become orthogonal. Round r of a sweep rotates the pairs i < j of which i + j is r or r + n: no row is in two
 * of them, so their order does not matter. The result: in how many pairs the last sweep had to rotate. */
static intptr_t orthogonalise(decomposition *x) {
    const intptr_t n = x->of.n;
    intptr_t rotated = 0;
    for (int sweep = 0; sweep < SWEEPS; sweep++) {
        rotated = 0;
        for (intptr_t r = 1; r <= n; r++)
            for (intptr_t i = 0; i < n; i++) {
                const intptr_t j = i < r ? r - i : r + n - i;
                if (i < j && j < n) rotated += rotate_rows(x, i, j);
            }
        if (!rotated) break;
    }
    return rotated;
}

/* --- By bidiagonalisation ----------------------------------------------------------------------------------------- */

static void conjugate_row(number *x, intptr_t count) {
    for (intptr_t j = 0; j < count; j++) x[j] = conjugate(x[j]);
}

/* A = Q B P^H; V = P. Step k: a reflector from the left for column k, and one from the right for row k right of its
 * diagonal, of its conjugate as of those of the other rows. */
static void bidiagonalise(decomposition *x) {
    const smm_dtype t = x->t;
    const intptr_t m = x->of.m, n = x->of.n;
    number a[ELEMENTS], tau[SMM_MAX_ORDER];
    numbers v;
    for (intptr_t e = 0; e < m * n; e++) a[e] = x->a[e];
    for (intptr_t k = 0; k < n; k++) {
        number *diagonal = a + k * n + k, left = smm_reflector(t, diagonal, n, m - k);
        for (intptr_t j = 1; j < n - k; j++) smm_reflect(t, diagonal, n, conjugate(left), diagonal + j, n, m - k);
        x->b.d[k] = diagonal[0].re;
        if (k + 1 == n) break;
        conjugate_row(diagonal + 1, n - k - 1);
        tau[k] = smm_reflector(t, diagonal + 1, 1, n - k - 1);
        for (intptr_t i = 1; i < m - k; i++) {
            number *row = diagonal + i * n + 1;
            conjugate_row(row, n - k - 1);
            smm_reflect(t, diagonal + 1, 1, conjugate(tau[k]), row, 1, n - k - 1);
            conjugate_row(row, n - k - 1);
        }
        x->b.e[k] = diagonal[1].re;
    }
    for (intptr_t i = 0; i < n; i++)
        for (intptr_t j = 0; j < n; j++) v[i][j] = a[i * n + j];
    smm_form_vectors(t, v, tau, &x->b);
}

/* --- Results ------------------------------------------------------------------------------------------------------ */

/* How much is not done when the matrix is given up. */
static intptr_t decompose(decomposition *x) {
    if (by_jacobi(x->of.n)) {
        reduce(x);
        return orthogonalise(x);
    }
    x->b.dtype = smm_dtypes[x->t].real, x->b.n = x->of.n;
    bidiagonalise(x);
    return smm_chase(&x->b);
}

/* Singular values descend; equal ones stay in the order in which they were found. Columns of V in that order, or what
 * they are Q of the QR of: the rotated rows, conjugated, their elements where the columns of A were. */
static void put_values(const decomposition *x, intptr_t q, double back, smm_factors *v) {
    const smm_dtype real = smm_dtypes[x->t].real;
    const intptr_t n = x->of.n;
    double s[SMM_MAX_ORDER];
    for (intptr_t j = 0; j < n; j++) s[j] = by_jacobi(n) ? smm_length(x->t, x->rows[j], n) : fabs(x->b.d[j]);
    for (intptr_t j = 0; j < n; j++) {
        const intptr_t place = place_of(s, n, j);
        number column[SMM_MAX_ORDER];
        put(&x->of.s, real, q, place, 0, round_in(real, s[j] * back));
        if (!by_jacobi(n)) smm_vector_of(x->t, &x->b, j, column);
        for (intptr_t i = 0; i < n; i++)
            if (by_jacobi(n))
                v->a[x->perm[i] * n + place] = conjugate(x->rows[j][i]);
            else
                v->a[i * n + place] = column[i];
    }
}

/* Zeros are positive. */
static number positive_zeros(number x) { return (number){x.re + 0.0, x.im + 0.0}; }

static void put_small(const decomposition *x, intptr_t q, smm_factors *f, numbers v) {
    const intptr_t n = x->of.n;
    if (by_jacobi(n)) smm_factor(f);
    for (intptr_t j = 0; j < n; j++) {
        number column[SMM_MAX_ORDER];
        for (intptr_t i = 0; i < n; i++) column[i] = f->a[i * n + j];
        if (by_jacobi(n)) smm_column_of_q(f, j, column);
        smm_turn_largest(x->t, column, n);
        for (intptr_t i = 0; i < n; i++) {
            v[i][j] = column[i];
            put_number(&x->of.small, x->t, q, i, j, positive_zeros(conjugate(column[i])));
        }
    }
}

/* The large vectors are Q of A V = Q R, with the signs that make the diagonal of R positive; beyond the singular values
 * the other columns of Q. */
static void put_large(const decomposition *x, intptr_t q, numbers v) {
    const intptr_t m = x->of.m, n = x->of.n;
    smm_factors f;
    f.dtype = x->t, f.m = m, f.n = n;
    for (intptr_t i = 0; i < m; i++)
        for (intptr_t j = 0; j < n; j++) {
            number s = product(x->t, x->a[i * n], v[0][j]);
            for (intptr_t k = 1; k < n; k++) s = add_product(x->t, x->a[i * n + k], v[k][j], s);
            f.a[i * n + j] = s;
        }
    smm_factor(&f);
    for (intptr_t j = 0; j < x->of.k; j++) {
        number column[ELEMENTS];
        smm_column_of_q(&f, j, column);
        const double sign = j < n && f.a[j * n + j].re < 0 ? -1 : 1;
        for (intptr_t i = 0; i < m; i++)
            put_number(&x->of.large, x->t, q, i, j, j < n ? positive_zeros(scaled(x->t, column[i], sign)) : column[i]);
    }
}

static void put_nan(const decomposition *x, intptr_t q) {
    for (intptr_t j = 0; j < x->of.n; j++) put(&x->of.s, smm_dtypes[x->t].real, q, j, 0, NAN);
    for (intptr_t j = 0; j < x->of.n && x->of.k; j++)
        for (intptr_t i = 0; i < x->of.n; i++) put_number(&x->of.small, x->t, q, i, j, not_a_number);
    for (intptr_t j = 0; j < x->of.k; j++)
        for (intptr_t i = 0; i < x->of.m; i++) put_number(&x->of.large, x->t, q, i, j, not_a_number);
}

/* Where A has no element the large vectors are those of the identity. */
static void put_identity(const decomposition *x, intptr_t q) {
    for (intptr_t i = 0; i < x->of.m; i++)
        for (intptr_t j = 0; j < x->of.k; j++) put_number(&x->of.large, x->t, q, i, j, i == j ? one : zero);
}

static intptr_t svd(decomposition *x, intptr_t q) {
    const double back = get_scaled(x, q);
    const intptr_t info = isnan(back) ? 0 : decompose(x);
    if (isnan(back) || info) {
        put_nan(x, q);
        return info;
    }
    numbers v;
    smm_factors f;
    f.dtype = x->t, f.m = f.n = x->of.n;
    put_values(x, q, back, &f);
    if (x->of.k) put_small(x, q, &f, v);
    if (x->of.k) put_large(x, q, v);
    return 0;
}

void smm_reference_svd(const smm_call *call) {
    decomposition x = {.t = call->dtype, .of = tall_of(call)};
    for (intptr_t q = 0; q < call->batch; q++) {
        if (!x.of.n) put_identity(&x, q);
        put_int(smm_info(call), q, 0, x.of.n ? svd(&x, q) : 0);
    }
}
