/* eigh.c: eigenvalues and eigenvectors of symmetric matrices: Householder tridiagonalisation and implicit QR with
 * Wilkinson's shift (LAPACK's sytrd, orgtr and steqr; Golub and Van Loan, Matrix Computations, section 8.3). */
#include "reference.h"

/* As in csrc/kernels/eigh_sweeps.h. */
enum { SWEEPS = 30 };

typedef smm_spectrum spectrum;

/* Off-diagonal elements up to this are zero: their squares would lose digits. */
static const double least_offdiagonal[SMM_DTYPE_COUNT] = {[SMM_F32] = 0x1p-55, [SMM_F64] = 0x1p-450};

/* --- A = Q T Q^T -------------------------------------------------------------------------------------------------- */

/* The triangle in question as the upper one, times a power of two that brings it to about 1. The result undoes that, or
 * is NaN where the triangle is not finite. */
static double get_scaled(const smm_call *call, intptr_t q, spectrum *x) {
    const bool upper = call->form & SMM_UPPER;
    double most = 0;
    for (intptr_t i = 0; i < x->n; i++)
        for (intptr_t j = i; j < x->n; j++) {
            const double a = get(&call->a, x->dtype, q, upper ? i : j, upper ? j : i);
            if (!isfinite(a)) return NAN;
            if (fabs(a) > most) most = fabs(a);
            x->a[i][j] = a;
        }
    const double scale = smm_scale_to_one(x->dtype, most);
    for (intptr_t i = 0; i < x->n; i++)
        for (intptr_t j = i; j < x->n; j++) x->a[i][j] = round_in(x->dtype, x->a[i][j] * scale);
    return 1 / scale;
}

/* B = H B H, of the rows and columns from k on: w = tau B v, w = w - (tau / 2) (w^T v) v, B = B - v w^T - w v^T. v, of
 * which v_k = 1, is right of the diagonal in row k - 1. */
static void reflect_both_sides(spectrum *x, intptr_t k) {
    const smm_dtype dtype = x->dtype;
    const intptr_t n = x->n;
    double v[SMM_MOST_ORDER], w[SMM_MOST_ORDER], dot = 0;
    for (intptr_t i = k; i < n; i++) v[i] = i == k ? 1 : x->a[k - 1][i];
    for (intptr_t i = k; i < n; i++) {
        double sum = x->a[k][i];
        for (intptr_t j = k + 1; j < n; j++) sum = fma_in(dtype, j < i ? x->a[j][i] : x->a[i][j], v[j], sum);
        w[i] = round_in(dtype, x->tau[k - 1] * sum);
        dot = i == k ? w[i] : fma_in(dtype, w[i], v[i], dot);
    }
    const double half = round_in(dtype, round_in(dtype, -0.5 * x->tau[k - 1]) * dot);
    for (intptr_t i = k; i < n; i++) w[i] = fma_in(dtype, half, v[i], w[i]);
    for (intptr_t i = k; i < n; i++)
        for (intptr_t j = i; j < n; j++)
            x->a[i][j] = fma_in(dtype, -w[i], v[j], fma_in(dtype, -v[i], w[j], x->a[i][j]));
}

static void tridiagonalise(spectrum *x) {
    for (intptr_t k = 0; k < x->n; k++) {
        x->d[k] = x->a[k][k];
        if (k + 1 == x->n) break;
        x->tau[k] = smm_reflector(x->dtype, &x->a[k][k + 1], 1, x->n - k - 1);
        x->e[k] = x->a[k][k + 1];
        if (k + 2 < x->n) reflect_both_sides(x, k + 1);
    }
}

/* From the last on: rows and columns up to k are still those of I when H_k comes. */
void smm_form_vectors(spectrum *x) {
    const smm_dtype dtype = x->dtype;
    const intptr_t n = x->n;
    for (intptr_t k = n - 2; k >= 0; k--) {
        const double *v = x->a[k], tau = x->tau[k];
        for (intptr_t j = k + 2; j < n; j++) {
            double w = round_in(dtype, v[k + 2] * x->a[k + 2][j]);
            for (intptr_t i = k + 3; i < n; i++) w = fma_in(dtype, v[i], x->a[i][j], w);
            w = round_in(dtype, tau * w);
            x->a[k + 1][j] = -w;
            for (intptr_t i = k + 2; i < n; i++) x->a[i][j] = fma_in(dtype, -v[i], w, x->a[i][j]);
        }
        x->a[k + 1][k + 1] = round_in(dtype, 1 - tau);
        for (intptr_t i = k + 2; i < n; i++) x->a[i][k + 1] = round_in(dtype, -tau * v[i]);
    }
    for (intptr_t i = 0; i < n; i++) x->a[0][i] = x->a[i][0] = i == 0;
}

/* --- T = V diag(w) V^T -------------------------------------------------------------------------------------------- */

/* Negligible elements become zero. The last block without any: e_from .. e_to-1. False if there is none. */
static bool find_block(spectrum *x, intptr_t *from, intptr_t *to) {
    const double u = roundoff(x->dtype);
    for (intptr_t i = 0; i < x->n - 1; i++) {
        const double small = round_in(x->dtype, round_in(x->dtype, fabs(x->d[i]) + fabs(x->d[i + 1])) * u);
        if (!(fabs(x->e[i]) > fmax(small, least_offdiagonal[x->dtype]))) x->e[i] = 0;
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
        const double left = x->a[row][i], right = x->a[row][i + 1];
        x->a[row][i] = fma_in(x->dtype, s, right, round_in(x->dtype, c * left));
        x->a[row][i + 1] = fma_in(x->dtype, -s, left, round_in(x->dtype, c * right));
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
        const bool rotates = squares > least_offdiagonal[dtype] * least_offdiagonal[dtype];
        if (i > from) x->e[i - 1] = r;
        c = rotates ? round_in(dtype, g * back) : 1;
        s = rotates ? round_in(dtype, f * back) : 0;
        const double h = round_in(dtype, x->d[i] - p);
        const double turned = fma_in(dtype, 2 * b, c, round_in(dtype, round_in(dtype, x->d[i + 1] - h) * s));
        p = round_in(dtype, s * turned);
        x->d[i] = round_in(dtype, h + p);
        g = fma_in(dtype, c, turned, -b);
        smm_rotate_columns(x, i, c, s);
    }
    x->d[to] = round_in(dtype, x->d[to] - p);
    x->e[to - 1] = g;
    if (to - from == 1) x->d[from] = other, x->d[to] = shift, x->e[from] = 0;
}

intptr_t smm_diagonalise(spectrum *x) {
    intptr_t left = 0, from, to;
    for (intptr_t sweep = 0; sweep < SWEEPS * x->n && find_block(x, &from, &to); sweep++) sweep_block(x, from, to);
    for (intptr_t i = 0; i < x->n - 1; i++) left += x->e[i] != 0;
    return left;
}

/* --- Order and signs ---------------------------------------------------------------------------------------------- */

/* The sign that makes the largest element of column j, the first of equals, positive. */
static double sign_of(const spectrum *x, intptr_t j) {
    intptr_t largest = 0;
    for (intptr_t i = 1; i < x->n; i++)
        if (fabs(x->a[i][j]) > fabs(x->a[largest][j])) largest = i;
    return x->a[largest][j] < 0 ? -1 : 1;
}

_Static_assert(offsetof(smm_call, eigh.w) == offsetof(smm_call, eigvalsh.w), "EIGVALSH has the w of EIGH");

intptr_t smm_place_of_value(const spectrum *x, intptr_t j) {
    intptr_t place = 0;
    for (intptr_t i = 0; i < x->n; i++) place += x->d[i] < x->d[j] || (i < j && x->d[i] == x->d[j]);
    return place;
}

/* Zeros are positive. */
static void put_spectrum(const smm_call *call, intptr_t q, const spectrum *x, double back) {
    for (intptr_t j = 0; j < x->n; j++) {
        const intptr_t place = smm_place_of_value(x, j);
        put(&call->eigh.w, x->dtype, q, place, 0, round_in(x->dtype, x->d[j] * back) + 0.0);
        const double sign = sign_of(x, j);
        for (intptr_t i = 0; i < x->n && call->op == SMM_OP_EIGH; i++)
            put(&call->eigh.v, x->dtype, q, i, place, x->a[i][j] * sign + 0.0);
    }
}

static void put_nan(const smm_call *call, intptr_t q) {
    for (intptr_t i = 0; i < call->n; i++) {
        put(&call->eigh.w, call->dtype, q, i, 0, NAN);
        for (intptr_t j = 0; j < call->n && call->op == SMM_OP_EIGH; j++) put(&call->eigh.v, call->dtype, q, i, j, NAN);
    }
}

void smm_reference_eigh(const smm_call *call) {
    spectrum x = {.dtype = call->dtype, .n = call->n, .height = call->n};
    for (intptr_t q = 0; q < call->batch; q++) {
        intptr_t info = 0;
        const double back = get_scaled(call, q, &x);
        if (!isnan(back)) {
            tridiagonalise(&x);
            smm_form_vectors(&x);
            info = smm_diagonalise(&x);
        }
        if (isnan(back) || info)
            put_nan(call, q);
        else
            put_spectrum(call, q, &x, back);
        put_int(smm_info(call), q, 0, info);
    }
}
