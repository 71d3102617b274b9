/* svd.c: singular values and singular vectors: of few rows or columns by one-sided Jacobi rotations of a triangular
 * factor (Hestenes, J. SIAM 6, 1958; Drmac and Veselic, SIAM J. Matrix Anal. Appl. 29, 2008), as
 * csrc/kernels/svd_lanes.h explains, of others by bidiagonal.c. */
#include "reference.h"

/* As in csrc/kernels/svd_sweeps.h. */
enum { SWEEPS = 30, JACOBI_MOST = 4, ELEMENTS = SMM_MOST_ORDER * SMM_MOST_ORDER };

/* Rows of at most this squared length are not rotated: products with them would lose digits. */
static const double least_square[SMM_DTYPE_COUNT] = {[SMM_F32] = 0x1p-120, [SMM_F64] = 0x1p-1000};

/* A tall matrix, of a call's A or its transpose: A = (large) diag(s) (small)^T. */
typedef struct decomposition {
    smm_dtype dtype;
    intptr_t m, n, k; /* A is m x n, m >= n; the columns of `large` */
    smm_operand from, large, small, s, info;
    double a[ELEMENTS];
    intptr_t perm[SMM_MOST_ORDER]; /* the column of A that column j of A P is */
    matrix rows;                   /* R of A P = Q R, then its rotated rows */
    smm_spectrum b;                /* B of A = Q B P^T, then V */
} decomposition;

static decomposition decomposition_of(const smm_call *call) {
    const bool wide = call->m < call->n, vectors = call->op != SMM_OP_SVDVALS;
    decomposition x = {.dtype = call->dtype, .m = call->m, .n = call->n, .from = call->a};
    if (wide) x.m = call->n, x.n = call->m, x.from = transposed(call->a);
    x.k = call->op == SMM_OP_SVD_FULL ? x.m : vectors ? x.n : 0;
    x.s = vectors ? call->svd.s : call->svdvals.s;
    x.info = *smm_info(call);
    if (!vectors) return x;
    x.large = wide ? transposed(call->svd.vt) : call->svd.u;
    x.small = wide ? call->svd.u : transposed(call->svd.vt);
    return x;
}

/* A times a power of two that brings it to about 1. The result undoes that, or is NaN where A is not finite. */
static double get_scaled(decomposition *x, intptr_t q) {
    double most = 0;
    for (intptr_t i = 0; i < x->m; i++)
        for (intptr_t j = 0; j < x->n; j++) {
            const double a = x->a[i * x->n + j] = get(&x->from, x->dtype, q, i, j);
            if (!isfinite(a)) return NAN;
            if (fabs(a) > most) most = fabs(a);
        }
    const double scale = smm_scale_to_one(x->dtype, most);
    for (intptr_t e = 0; e < x->m * x->n; e++) x->a[e] = round_in(x->dtype, x->a[e] * scale);
    return 1 / scale;
}

/* A P = Q R: the columns of A P are sorted by length. */
static void reduce(decomposition *x) {
    const intptr_t m = x->m, n = x->n;
    double squares[SMM_MOST_ORDER] = {0};
    for (intptr_t i = 0; i < m; i++)
        for (intptr_t j = 0; j < n; j++) squares[j] = fma_in(x->dtype, x->a[i * n + j], x->a[i * n + j], squares[j]);
    smm_factors f = {.dtype = x->dtype, .m = m, .n = n};
    for (intptr_t j = 0; j < n; j++) {
        const intptr_t place = place_of(squares, n, j);
        x->perm[place] = j;
        for (intptr_t i = 0; i < m; i++) f.a[i * n + place] = x->a[i * n + j];
    }
    smm_factor(&f);
    for (intptr_t i = 0; i < n; i++)
        for (intptr_t j = 0; j < n; j++) x->rows[i][j] = i <= j ? f.a[i * n + j] : 0;
}

/* x^T y: the sum of its even elements and that of the odd ones. */
static double dot(smm_dtype dtype, const double *x, const double *y, intptr_t n) {
    double part[2] = {round_in(dtype, x[0] * y[0]), round_in(dtype, x[1] * y[1])};
    for (intptr_t k = 2; k < n; k++) part[k % 2] = fma_in(dtype, x[k], y[k], part[k % 2]);
    return round_in(dtype, part[0] + part[1]);
}

/* Make x and y orthogonal, and x the longer. False if |x^T y| <= tolerance |x| |y| already. Cosine and sine are the
 * unit vector along (d + r, g), where g = x^T y and d = |x^T x - y^T y| / 2 over the larger square and r^2 = d^2 + g^2;
 * exchanged where y is longer. */
static bool rotate(smm_dtype dtype, double *x, double *y, intptr_t n, double tolerance) {
    const double xx = dot(dtype, x, x, n), yy = dot(dtype, y, y, n), xy = dot(dtype, x, y, n);
    const double longer = fmax(xx, yy), shorter = fmin(xx, yy);
    const double back = round_in(dtype, 1 / longer), g = round_in(dtype, xy * back), gg = round_in(dtype, g * g);
    const double limit = round_in(dtype, tolerance * tolerance * round_in(dtype, shorter * back));
    if (!(gg > limit && shorter > least_square[dtype])) return false;
    const double d = round_in(dtype, round_in(dtype, longer - shorter) * round_in(dtype, back / 2));
    const double w = round_in(dtype, d + round_in(dtype, sqrt(fma_in(dtype, d, d, gg))));
    const double scale = round_in(dtype, 1 / round_in(dtype, sqrt(fma_in(dtype, w, w, gg))));
    const double large = round_in(dtype, w * scale), small = round_in(dtype, g * scale);
    const double c = yy > xx ? small : large, s = yy > xx ? large : small;
    for (intptr_t k = 0; k < n; k++) {
        const double here = x[k], there = y[k];
        x[k] = fma_in(dtype, s, there, round_in(dtype, c * here));
        y[k] = fma_in(dtype, -s, here, round_in(dtype, c * there));
    }
    return true;
}

/* The rows of R become orthogonal. Round r of a sweep rotates the pairs i < j of which i + j is r or r + n: no row is
 * in two of them, so their order does not matter. The result: in how many pairs the last sweep had to rotate. */
static intptr_t orthogonalise(decomposition *x) {
    const intptr_t n = x->n;
    const double tolerance = (double)(n < 4 ? 4 : n) * roundoff(x->dtype);
    intptr_t rotated = 0;
    for (int sweep = 0; sweep < SWEEPS; sweep++) {
        rotated = 0;
        for (intptr_t r = 1; r <= n; r++)
            for (intptr_t i = 0; i < n; i++) {
                const intptr_t j = i < r ? r - i : r + n - i;
                if (i < j && j < n) rotated += rotate(x->dtype, x->rows[i], x->rows[j], n, tolerance);
            }
        if (!rotated) break;
    }
    return rotated;
}

/* The sign that makes the largest element of x, the first of equals, positive. */
static double sign_of(const double *x, intptr_t n) {
    intptr_t largest = 0;
    for (intptr_t i = 1; i < n; i++)
        if (fabs(x[i]) > fabs(x[largest])) largest = i;
    return x[largest] < 0 ? -1 : 1;
}

static bool by_jacobi(const decomposition *x) { return x->n <= JACOBI_MOST; }

/* What smm_chase or orthogonalise say. */
static intptr_t decompose(decomposition *x) {
    if (by_jacobi(x)) {
        reduce(x);
        return orthogonalise(x);
    }
    double a[ELEMENTS];
    for (intptr_t e = 0; e < x->m * x->n; e++) a[e] = x->a[e];
    x->b = (smm_spectrum){.dtype = x->dtype, .n = x->n, .height = x->n};
    smm_bidiagonalise(&x->b, a, x->m);
    return smm_chase(&x->b);
}

/* Singular values descend; equal ones stay in the order in which they were found. The small vectors are columns in that
 * order: of V, or Q of the QR of the rotated rows as columns, their elements where the columns of A were. Zeros are
 * positive. */
static void put_values(decomposition *x, intptr_t q, double back, smm_factors *v) {
    const intptr_t n = x->n;
    double s[SMM_MOST_ORDER];
    for (intptr_t j = 0; j < n; j++) s[j] = by_jacobi(x) ? smm_length(x->dtype, x->rows[j], n) : fabs(x->b.d[j]);
    for (intptr_t j = 0; j < n; j++) {
        const intptr_t place = place_of(s, n, j);
        put(&x->s, x->dtype, q, place, 0, round_in(x->dtype, s[j] * back));
        for (intptr_t i = 0; i < n; i++)
            if (by_jacobi(x))
                v->a[x->perm[i] * n + place] = x->rows[j][i];
            else
                v->a[i * n + place] = x->b.a[i][j];
    }
}
static void put_small(const decomposition *x, intptr_t q, smm_factors *f, matrix v) {
    const intptr_t n = x->n;
    if (by_jacobi(x)) smm_factor(f);
    for (intptr_t j = 0; j < n; j++) {
        double column[SMM_MOST_ORDER];
        for (intptr_t i = 0; i < n; i++) column[i] = f->a[i * n + j];
        if (by_jacobi(x)) smm_column_of_q(f, j, column);
        const double sign = sign_of(column, n);
        for (intptr_t i = 0; i < n; i++) {
            v[i][j] = column[i] * sign + 0.0;
            put(&x->small, x->dtype, q, i, j, v[i][j]);
        }
    }
}

/* The large vectors are Q of A V = Q R, with the signs that make the diagonal of R positive; beyond the singular values
 * the other columns of Q. */
static void put_large(const decomposition *x, intptr_t q, matrix v) {
    const intptr_t m = x->m, n = x->n;
    smm_factors f = {.dtype = x->dtype, .m = m, .n = n};
    for (intptr_t i = 0; i < m; i++)
        for (intptr_t j = 0; j < n; j++) {
            double sum = round_in(x->dtype, x->a[i * n] * v[0][j]);
            for (intptr_t k = 1; k < n; k++) sum = fma_in(x->dtype, x->a[i * n + k], v[k][j], sum);
            f.a[i * n + j] = sum;
        }
    smm_factor(&f);
    for (intptr_t j = 0; j < x->k; j++) {
        double column[ELEMENTS];
        smm_column_of_q(&f, j, column);
        const double sign = j < n && f.a[j * n + j] < 0 ? -1 : 1;
        for (intptr_t i = 0; i < m; i++) put(&x->large, x->dtype, q, i, j, j < n ? column[i] * sign + 0.0 : column[i]);
    }
}

static void put_nan(const decomposition *x, intptr_t q) {
    for (intptr_t j = 0; j < x->n; j++) put(&x->s, x->dtype, q, j, 0, NAN);
    for (intptr_t j = 0; j < x->n && x->k; j++)
        for (intptr_t i = 0; i < x->n; i++) put(&x->small, x->dtype, q, i, j, NAN);
    for (intptr_t j = 0; j < x->k; j++)
        for (intptr_t i = 0; i < x->m; i++) put(&x->large, x->dtype, q, i, j, NAN);
}

/* Where A has no element the large vectors are those of the identity. */
static void put_identity(const decomposition *x, intptr_t q) {
    for (intptr_t i = 0; i < x->m; i++)
        for (intptr_t j = 0; j < x->k; j++) put(&x->large, x->dtype, q, i, j, i == j);
}

void smm_reference_svd(const smm_call *call) {
    decomposition x = decomposition_of(call);
    for (intptr_t q = 0; q < call->batch; q++) {
        intptr_t info = 0;
        if (!x.n) {
            put_identity(&x, q);
        } else {
            const double back = get_scaled(&x, q);
            if (!isnan(back)) info = decompose(&x);
            if (isnan(back) || info) {
                put_nan(&x, q);
            } else {
                matrix v;
                smm_factors f = {.dtype = x.dtype, .m = x.n, .n = x.n};
                put_values(&x, q, back, &f);
                if (x.k) put_small(&x, q, &f, v);
                if (x.k) put_large(&x, q, v);
            }
        }
        put_int(&x.info, q, 0, info);
    }
}
