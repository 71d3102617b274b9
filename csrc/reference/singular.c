/* singular.c: singular values and singular vectors of complex matrices, by the methods of svd.c. Before Jacobi's method
 * rotates two rows, one is multiplied by a number of magnitude 1 that makes their product real. Householder reflectors
 * leave a bidiagonal B that is real (LAPACK's gebrd and ungbr). */
#include "number.h"

#include "jacobi.h"

static const number zero = {0, 0}, not_a_number = {NAN, NAN};

/* `small` holds the conjugate of V: A = (large) diag(s) V^H. */
typedef struct decomposition {
    smm_dtype t;
    tall of;
    number a[ELEMENTS];
    intptr_t perm[SMM_MOST_ORDER]; /* the column of A that column j of A P is */
    numbers rows;                  /* R of A P = Q R, then its rotated rows */
    smm_spectrum b;                /* B of A = Q B P^H, then V */
} decomposition;

/* A times a power of two that brings it to about 1. The result undoes that, or is NaN where A is not finite. */
static double get_scaled(decomposition *x, intptr_t q) {
    double most = 0;
    for (intptr_t i = 0; i < x->of.m; i++)
        for (intptr_t j = 0; j < x->of.n; j++) {
            const number a = x->a[i * x->of.n + j] = get_number(&x->of.from, x->t, q, i, j);
            if (!isfinite(a.re) || !isfinite(a.im)) return NAN;
            most = fmax(most, fmax(fabs(a.re), fabs(a.im)));
        }
    const double scale = smm_scale_to_one(smm_dtypes[x->t].real, most);
    for (intptr_t e = 0; e < x->of.m * x->of.n; e++) x->a[e] = scaled(x->t, x->a[e], scale);
    return 1 / scale;
}

/* A P = Q R: the columns of A P are sorted by length. */
static void reduce(decomposition *x) {
    const intptr_t m = x->of.m, n = x->of.n;
    double squares[SMM_MOST_ORDER] = {0};
    for (intptr_t i = 0; i < m; i++)
        for (intptr_t j = 0; j < n; j++) {
            const number a = x->a[i * n + j];
            squares[j] = fma_in(x->t, a.im, a.im, fma_in(x->t, a.re, a.re, squares[j]));
        }
    smm_reflectors f = {.dtype = x->t, .m = m, .n = n};
    for (intptr_t j = 0; j < n; j++) {
        const intptr_t place = place_of(squares, n, j);
        x->perm[place] = j;
        for (intptr_t i = 0; i < m; i++) f.a[i * n + place] = x->a[i * n + j];
    }
    smm_factor_numbers(&f);
    for (intptr_t i = 0; i < n; i++)
        for (intptr_t j = 0; j < n; j++) x->rows[i][j] = i <= j ? f.a[i * n + j] : zero;
}

/* |x|^2: squares of real parts, and of imaginary parts. */
static double square_of(smm_dtype t, const number *x, intptr_t n) {
    double re = 0, im = 0;
    for (intptr_t k = 0; k < n; k++) {
        re = fma_in(t, x[k].re, x[k].re, re);
        im = fma_in(t, x[k].im, x[k].im, im);
    }
    return round_in(t, re + im);
}

/* x y^H: each part is two sums. */
static number product_of_rows(smm_dtype t, const number *x, const number *y, intptr_t n) {
    double re[2] = {0, 0}, im[2] = {0, 0};
    for (intptr_t k = 0; k < n; k++) {
        re[0] = fma_in(t, x[k].re, y[k].re, re[0]);
        re[1] = fma_in(t, x[k].im, y[k].im, re[1]);
        im[0] = fma_in(t, x[k].im, y[k].re, im[0]);
        im[1] = fma_in(t, x[k].re, y[k].im, im[1]);
    }
    return (number){round_in(t, re[0] + re[1]), round_in(t, im[0] - im[1])};
}

/* Rows of a decomposition, as svd.c rotates x and p y, where p is x y^H over its magnitude. A product of orthogonal
 * rows has 2 n terms in each part. */
static bool rotate_rows(void *context, intptr_t i, intptr_t j) {
    decomposition *const whole = context;
    const smm_dtype t = whole->t;
    const intptr_t n = whole->of.n;
    const double tolerance = (double)(n < 2 ? 4 : 2 * n) * roundoff(t);
    number *const x = whole->rows[i], *const y = whole->rows[j];
    const double xx = square_of(t, x, n), yy = square_of(t, y, n);
    const number xy = product_of_rows(t, x, y, n);
    const double most = fmax(fabs(xy.re), fabs(xy.im)); /* squares might underflow */
    if (!(most > 0)) return false;
    const number unit = {round_in(t, xy.re / most), round_in(t, xy.im / most)};
    const double length = round_in(t, sqrt(fma_in(t, unit.im, unit.im, round_in(t, unit.re * unit.re))));
    double c, s;
    if (!rotation_of(t, xx, yy, round_in(t, most * length), tolerance, &c, &s)) return false;
    const number phase = {round_in(t, unit.re / length), round_in(t, unit.im / length)};
    for (intptr_t k = 0; k < n; k++) {
        const number here = x[k], there = product(t, phase, y[k]);
        x[k].re = fma_in(t, s, there.re, round_in(t, c * here.re));
        x[k].im = fma_in(t, s, there.im, round_in(t, c * here.im));
        y[k].re = fma_in(t, -s, here.re, round_in(t, c * there.re));
        y[k].im = fma_in(t, -s, here.im, round_in(t, c * there.im));
    }
    return true;
}

/* Step k: a reflector from the left for column k, and one from the right for row k right of its diagonal, of its
 * conjugate as of those of the other rows. */
static void bidiagonalise(decomposition *x) {
    const smm_dtype t = x->t;
    const intptr_t m = x->of.m, n = x->of.n;
    number a[SMM_MOST_ORDER * SMM_MOST_ORDER], tau[SMM_MOST_ORDER];
    numbers v;
    for (intptr_t e = 0; e < m * n; e++) a[e] = x->a[e];
    for (intptr_t k = 0; k < n; k++) {
        number *diagonal = a + k * n + k;
        const number left = smm_reflector_of_numbers(t, diagonal, n, m - k);
        for (intptr_t j = 1; j < n - k; j++)
            smm_reflect_numbers(t, diagonal, n, conjugate(left), diagonal + j, n, m - k);
        x->b.d[k] = diagonal[0].re;
        if (k + 1 == n) break;
        for (intptr_t i = 0; i < m - k; i++)
            for (intptr_t j = 1; j < n - k; j++) diagonal[i * n + j] = conjugate(diagonal[i * n + j]);
        tau[k] = smm_reflector_of_numbers(t, diagonal + 1, 1, n - k - 1);
        for (intptr_t i = 1; i < m - k; i++) {
            smm_reflect_numbers(t, diagonal + 1, 1, conjugate(tau[k]), diagonal + i * n + 1, 1, n - k - 1);
            for (intptr_t j = 1; j < n - k; j++) diagonal[i * n + j] = conjugate(diagonal[i * n + j]);
        }
        x->b.e[k] = diagonal[1].re;
    }
    for (intptr_t i = 0; i < n; i++)
        for (intptr_t j = 0; j < n; j++) v[i][j] = a[i * n + j];
    smm_form_vectors_of_numbers(t, v, tau, &x->b);
}

/* What smm_chase or orthogonalise say. */
static intptr_t decompose(decomposition *x) {
    if (by_jacobi(x->of.n)) {
        reduce(x);
        return orthogonalise(x->of.n, rotate_rows, x);
    }
    x->b = (smm_spectrum){.dtype = smm_dtypes[x->t].real, .n = x->of.n, .height = 2 * x->of.n};
    bidiagonalise(x);
    return smm_chase(&x->b);
}

/* Singular values descend; equal ones stay in the order in which they were found. Columns of V in that order, or what
 * they are Q of the QR of: the rotated rows, conjugated, their elements where the columns of A were. */
static void put_values(decomposition *x, intptr_t q, double back, smm_reflectors *v) {
    const intptr_t n = x->of.n;
    double s[SMM_MOST_ORDER];
    for (intptr_t j = 0; j < n; j++)
        s[j] = by_jacobi(x->of.n) ? smm_length_of_numbers(x->t, x->rows[j], n) : fabs(x->b.d[j]);
    for (intptr_t j = 0; j < n; j++) {
        const intptr_t place = place_of(s, n, j);
        put(&x->of.s, smm_dtypes[x->t].real, q, place, 0, round_in(x->t, s[j] * back));
        for (intptr_t i = 0; i < n; i++)
            if (by_jacobi(x->of.n))
                v->a[x->perm[i] * n + place] = conjugate(x->rows[j][i]);
            else
                v->a[i * n + place] = (number){x->b.a[i][j], x->b.a[n + i][j]};
    }
}
static void put_small(const decomposition *x, intptr_t q, smm_reflectors *f, numbers v) {
    const intptr_t n = x->of.n;
    if (by_jacobi(x->of.n)) smm_factor_numbers(f);
    for (intptr_t j = 0; j < n; j++) {
        number column[SMM_MOST_ORDER];
        for (intptr_t i = 0; i < n; i++) column[i] = f->a[i * n + j];
        if (by_jacobi(x->of.n)) smm_column_of_numbers(f, j, column);
        smm_turn_largest(x->t, column, n);
        for (intptr_t i = 0; i < n; i++) {
            v[i][j] = column[i];
            put_number(&x->of.small, x->t, q, i, j, (number){column[i].re + 0.0, -column[i].im + 0.0});
        }
    }
}

/* The large vectors are Q of A V = Q R, with the signs that make the diagonal of R positive; beyond the singular values
 * the other columns of Q. */
static void put_large(const decomposition *x, intptr_t q, numbers v) {
    const intptr_t m = x->of.m, n = x->of.n;
    smm_reflectors f = {.dtype = x->t, .m = m, .n = n};
    for (intptr_t i = 0; i < m; i++)
        for (intptr_t j = 0; j < n; j++) {
            number s = product(x->t, x->a[i * n], v[0][j]);
            for (intptr_t k = 1; k < n; k++) s = add_product(x->t, x->a[i * n + k], v[k][j], s);
            f.a[i * n + j] = s;
        }
    smm_factor_numbers(&f);
    for (intptr_t j = 0; j < x->of.k; j++) {
        number column[SMM_MOST_ORDER * SMM_MOST_ORDER];
        smm_column_of_numbers(&f, j, column);
        const double sign = j < n && f.a[j * n + j].re < 0 ? -1 : 1;
        for (intptr_t i = 0; i < m; i++) {
            const number y = {column[i].re * sign + 0.0, column[i].im * sign + 0.0};
            put_number(&x->of.large, x->t, q, i, j, j < n ? y : column[i]);
        }
    }
}

static void put_nan(const decomposition *x, intptr_t q) {
    for (intptr_t j = 0; j < x->of.n; j++) put(&x->of.s, smm_dtypes[x->t].real, q, j, 0, NAN);
    for (intptr_t j = 0; j < x->of.n && x->of.k; j++)
        for (intptr_t i = 0; i < x->of.n; i++) put_number(&x->of.small, x->t, q, i, j, not_a_number);
    for (intptr_t j = 0; j < x->of.k; j++)
        for (intptr_t i = 0; i < x->of.m; i++) put_number(&x->of.large, x->t, q, i, j, not_a_number);
}

void smm_reference_svd_numbers(const smm_call *call, intptr_t q) {
    decomposition x = {.t = call->dtype, .of = tall_of(call)};
    intptr_t info = 0;
    const double back = get_scaled(&x, q);
    if (!x.of.n) { /* the large vectors are those of the identity */
        for (intptr_t i = 0; i < x.of.m; i++)
            for (intptr_t j = 0; j < x.of.k; j++) put_number(&x.of.large, x.t, q, i, j, (number){i == j, 0});
    } else {
        if (!isnan(back)) info = decompose(&x);
        if (isnan(back) || info) {
            put_nan(&x, q);
        } else {
            numbers v;
            smm_reflectors f = {.dtype = x.t, .m = x.of.n, .n = x.of.n};
            put_values(&x, q, back, &f);
            if (x.of.k) put_small(&x, q, &f, v);
            if (x.of.k) put_large(&x, q, v);
        }
    }
    put_int(smm_info(call), q, 0, info);
}
