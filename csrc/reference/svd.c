/* svd.c: singular values and singular vectors: of few rows or columns by one-sided Jacobi rotations of a triangular
 * factor (Hestenes, J. SIAM 6, 1958; Drmac and Veselic, SIAM J. Matrix Anal. Appl. 29, 2008), as
 * csrc/kernels/svd_lanes.h explains, of others by bidiagonal.c. */
#include "jacobi.h"

typedef struct decomposition {
    smm_dtype dtype;
    tall of;
    double a[ELEMENTS];
    intptr_t perm[SMM_MOST_ORDER]; /* the column of A that column j of A P is */
    matrix rows;                   /* R of A P = Q R, then its rotated rows */
    smm_spectrum b;                /* B of A = Q B P^T, then V */
} decomposition;

/* A times a power of two that brings it to about 1. The result undoes that, or is NaN where A is not finite. */
static double get_scaled(decomposition *x, intptr_t q) {
    double most = 0;
    for (intptr_t i = 0; i < x->of.m; i++)
        for (intptr_t j = 0; j < x->of.n; j++) {
            const double a = x->a[i * x->of.n + j] = get(&x->of.from, x->dtype, q, i, j);
            if (!isfinite(a)) return NAN;
            if (fabs(a) > most) most = fabs(a);
        }
    const double scale = smm_scale_to_one(x->dtype, most);
    for (intptr_t e = 0; e < x->of.m * x->of.n; e++) x->a[e] = round_in(x->dtype, x->a[e] * scale);
    return 1 / scale;
}

/* A P = Q R: the columns of A P are sorted by length. */
static void reduce(decomposition *x) {
    const intptr_t m = x->of.m, n = x->of.n;
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

static bool rotate_rows(void *context, intptr_t i, intptr_t j) {
    decomposition *const whole = context;
    const smm_dtype dtype = whole->dtype;
    const intptr_t n = whole->of.n;
    const double tolerance = (double)(n < 4 ? 4 : n) * roundoff(dtype);
    double *const x = whole->rows[i], *const y = whole->rows[j], c, s;
    if (!rotation_of(dtype, dot(dtype, x, x, n), dot(dtype, y, y, n), dot(dtype, x, y, n), tolerance, &c, &s))
        return false;
    for (intptr_t k = 0; k < n; k++) {
        const double here = x[k], there = y[k];
        x[k] = fma_in(dtype, s, there, round_in(dtype, c * here));
        y[k] = fma_in(dtype, -s, here, round_in(dtype, c * there));
    }
    return true;
}

/* The sign that makes the largest element of x, the first of equals, positive. */
static double sign_of(const double *x, intptr_t n) {
    intptr_t largest = 0;
    for (intptr_t i = 1; i < n; i++)
        if (fabs(x[i]) > fabs(x[largest])) largest = i;
    return x[largest] < 0 ? -1 : 1;
}

/* What smm_chase or orthogonalise say. */
static intptr_t decompose(decomposition *x) {
    if (by_jacobi(x->of.n)) {
        reduce(x);
        return orthogonalise(x->of.n, rotate_rows, x);
    }
    double a[ELEMENTS];
    for (intptr_t e = 0; e < x->of.m * x->of.n; e++) a[e] = x->a[e];
    x->b = (smm_spectrum){.dtype = x->dtype, .n = x->of.n, .height = x->of.n};
    smm_bidiagonalise(&x->b, a, x->of.m);
    return smm_chase(&x->b);
}

/* Singular values descend; equal ones stay in the order in which they were found. The small vectors are columns in that
 * order: of V, or Q of the QR of the rotated rows as columns, their elements where the columns of A were. Zeros are
 * positive. */
static void put_values(decomposition *x, intptr_t q, double back, smm_factors *v) {
    const intptr_t n = x->of.n;
    double s[SMM_MOST_ORDER];
    for (intptr_t j = 0; j < n; j++) s[j] = by_jacobi(x->of.n) ? smm_length(x->dtype, x->rows[j], n) : fabs(x->b.d[j]);
    for (intptr_t j = 0; j < n; j++) {
        const intptr_t place = place_of(s, n, j);
        put(&x->of.s, x->dtype, q, place, 0, round_in(x->dtype, s[j] * back));
        for (intptr_t i = 0; i < n; i++)
            if (by_jacobi(x->of.n))
                v->a[x->perm[i] * n + place] = x->rows[j][i];
            else
                v->a[i * n + place] = x->b.a[i][j];
    }
}
static void put_small(const decomposition *x, intptr_t q, smm_factors *f, matrix v) {
    const intptr_t n = x->of.n;
    if (by_jacobi(x->of.n)) smm_factor(f);
    for (intptr_t j = 0; j < n; j++) {
        double column[SMM_MOST_ORDER];
        for (intptr_t i = 0; i < n; i++) column[i] = f->a[i * n + j];
        if (by_jacobi(x->of.n)) smm_column_of_q(f, j, column);
        const double sign = sign_of(column, n);
        for (intptr_t i = 0; i < n; i++) {
            v[i][j] = column[i] * sign + 0.0;
            put(&x->of.small, x->dtype, q, i, j, v[i][j]);
        }
    }
}

/* The large vectors are Q of A V = Q R, with the signs that make the diagonal of R positive; beyond the singular values
 * the other columns of Q. */
static void put_large(const decomposition *x, intptr_t q, matrix v) {
    const intptr_t m = x->of.m, n = x->of.n;
    smm_factors f = {.dtype = x->dtype, .m = m, .n = n};
    for (intptr_t i = 0; i < m; i++)
        for (intptr_t j = 0; j < n; j++) {
            double sum = round_in(x->dtype, x->a[i * n] * v[0][j]);
            for (intptr_t k = 1; k < n; k++) sum = fma_in(x->dtype, x->a[i * n + k], v[k][j], sum);
            f.a[i * n + j] = sum;
        }
    smm_factor(&f);
    for (intptr_t j = 0; j < x->of.k; j++) {
        double column[ELEMENTS];
        smm_column_of_q(&f, j, column);
        const double sign = j < n && f.a[j * n + j] < 0 ? -1 : 1;
        for (intptr_t i = 0; i < m; i++)
            put(&x->of.large, x->dtype, q, i, j, j < n ? column[i] * sign + 0.0 : column[i]);
    }
}

static void put_nan(const decomposition *x, intptr_t q) {
    for (intptr_t j = 0; j < x->of.n; j++) put(&x->of.s, x->dtype, q, j, 0, NAN);
    for (intptr_t j = 0; j < x->of.n && x->of.k; j++)
        for (intptr_t i = 0; i < x->of.n; i++) put(&x->of.small, x->dtype, q, i, j, NAN);
    for (intptr_t j = 0; j < x->of.k; j++)
        for (intptr_t i = 0; i < x->of.m; i++) put(&x->of.large, x->dtype, q, i, j, NAN);
}

/* Where A has no element the large vectors are those of the identity. */
static void put_identity(const decomposition *x, intptr_t q) {
    for (intptr_t i = 0; i < x->of.m; i++)
        for (intptr_t j = 0; j < x->of.k; j++) put(&x->of.large, x->dtype, q, i, j, i == j);
}

void smm_reference_svd(const smm_call *call) {
    decomposition x = {.dtype = call->dtype, .of = tall_of(call)};
    for (intptr_t q = 0; q < call->batch; q++) {
        intptr_t info = 0;
        if (!x.of.n) {
            put_identity(&x, q);
        } else {
            const double back = get_scaled(&x, q);
            if (!isnan(back)) info = decompose(&x);
            if (isnan(back) || info) {
                put_nan(&x, q);
            } else {
                matrix v;
                smm_factors f = {.dtype = x.dtype, .m = x.of.n, .n = x.of.n};
                put_values(&x, q, back, &f);
                if (x.of.k) put_small(&x, q, &f, v);
                if (x.of.k) put_large(&x, q, v);
            }
        }
        put_int(smm_info(call), q, 0, info);
    }
}
