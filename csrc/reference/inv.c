/* inv.c: the inverse, by Gauss-Jordan elimination in place with partial pivoting (Higham, Accuracy and Stability of
 * Numerical Algorithms, section 14.4), from order 4 on of the transpose (inverse.h). Those of complex matrices are by
 * LU. */
#include "../math/inverse.h"
#include "reference.h"

typedef double matrix[SMM_MAX_ORDER][SMM_MAX_ORDER];

/* The row i >= k of the largest |a_ik|, the first of equals. Nothing is larger than a NaN at row k. */
static intptr_t pivot_row(matrix a, intptr_t n, intptr_t k) {
    intptr_t p = k;
    for (intptr_t i = k + 1; i < n; i++)
        if (fabs(a[i][k]) > fabs(a[p][k])) p = i;
    return p;
}

static void exchange(double *x, double *y) {
    const double z = *x;
    *x = *y;
    *y = z;
}

/* Step k, r being the reciprocal of the pivot. Column k of the identity takes the place of column k of A, which is
 * eliminated with the multipliers of LU: f_i = a_ik r, a_ik = 0 or 1; a_ij = a_ij - f_i a_kj for i != k; at last
 * a_kj = a_kj r. */
static void eliminate(smm_dtype dtype, matrix a, intptr_t n, intptr_t k, double r) {
    double f[SMM_MAX_ORDER];
    for (intptr_t i = 0; i < n; i++) {
        f[i] = round_in(dtype, a[i][k] * r);
        a[i][k] = i == k;
    }
    for (intptr_t i = 0; i < n; i++)
        for (intptr_t j = 0; i != k && j < n; j++) a[i][j] = fma_in(dtype, -f[i], a[k][j], a[i][j]);
    for (intptr_t j = 0; j < n; j++) a[k][j] = round_in(dtype, a[k][j] * r);
}

typedef struct limits {
    double suspect_limit, min_squares;
} limits;
static const limits limits_of[SMM_DTYPE_COUNT] = {
#define ROW(x, NAME, name, memory, computed, ...) {SMM_SUSPECT_LIMIT(computed), SMM_MIN_SQUARES(computed)},
    SMM_DTYPES(ROW, _)
#undef ROW
};

/* A becomes its inverse, or the transpose that of the transpose. A zero pivot is taken to be as small as rounding
 * errors are. True: the matrix may be singular, or its inverse overflows (inverse.h). Where a pivot overflows, all of
 * the result is NaN. */
static bool invert(smm_dtype dtype, matrix a, intptr_t n) {
    const bool direct = n <= SMM_INV_DIRECT;
    const limits its = limits_of[dtype];
    intptr_t pivots[SMM_MAX_ORDER];
    double size = 0, largest = 0;
    bool suspect = false;
    for (intptr_t k = 0; k < n; k++) {
        const intptr_t p = pivots[k] = pivot_row(a, n, k);
        for (intptr_t j = 0; j < n && p != k; j++) exchange(&a[k][j], &a[p][j]);
        const double least = size * roundoff(dtype);
        const double r = reciprocal(dtype, a[k][k] == 0 && !direct ? round_in(dtype, least) : a[k][k]);
        suspect |= direct ? !is_normal(dtype, r) : a[k][k] == 0;
        size = fmax(size, fabs(a[k][k]));
        eliminate(dtype, a, n, k, r);
    }
    /* This is the inverse of P A, P the product of the exchanges: the inverse of A has its columns exchanged. */
    for (intptr_t k = n - 1; k >= 0; k--)
        for (intptr_t i = 0; i < n && pivots[k] != k; i++) exchange(&a[i][k], &a[i][pivots[k]]);
    for (intptr_t i = 0; i < n; i++)
        for (intptr_t j = 0; j < n; j++) {
            if (!direct && isinf(size)) a[i][j] = NAN;
            suspect |= isnan(a[i][j]);
            largest = fmax(largest, fabs(a[i][j]));
        }
    if (direct) return suspect;
    return suspect || (double)n * largest * size >= its.suspect_limit || largest * largest <= its.min_squares;
}

/* Whether the result, of a finite matrix, has NaN. */
static bool overflowed(const smm_call *call, intptr_t q, matrix result) {
    bool nan = false, finite = true;
    for (intptr_t i = 0; i < call->n; i++)
        for (intptr_t j = 0; j < call->n; j++) {
            nan |= (bool)isnan(result[i][j]);
            finite &= (bool)isfinite(get(&call->inv.a, call->dtype, q, i, j));
        }
    return nan && finite;
}

void smm_reference_inv(const smm_call *call) {
    const intptr_t n = call->n;
    if (smm_is_complex(call->dtype)) {
        smm_reference_lu(call);
        return;
    }
    for (intptr_t q = 0; q < call->batch; q++) {
        matrix a;
        const bool direct = n <= SMM_INV_DIRECT;
        for (intptr_t i = 0; i < n; i++)
            for (intptr_t j = 0; j < n; j++)
                a[direct ? i : j][direct ? j : i] = get(&call->inv.a, call->dtype, q, i, j);
        intptr_t info = invert(call->dtype, a, n) ? smm_reference_singular(call, q) : 0;
        if (!info && overflowed(call, q, a)) info = n;
        for (intptr_t i = 0; i < n; i++)
            for (intptr_t j = 0; j < n; j++)
                put(&call->inv.inverse, call->dtype, q, i, j, info ? NAN : a[direct ? i : j][direct ? j : i]);
        put_int(&call->inv.info, q, 0, info);
    }
}
