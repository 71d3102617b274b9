/* jacobi.h: what svd.c and singular.c share: the shapes of a decomposition, and one-sided Jacobi rotations. */
#ifndef SMM_JACOBI_H
#define SMM_JACOBI_H

#include "reference.h"

/* As in csrc/kernels/svd_sweeps.h. */
enum { SWEEPS = 30, JACOBI_MOST = 4, ELEMENTS = SMM_MOST_ORDER * SMM_MOST_ORDER };

static inline bool by_jacobi(intptr_t n) { return n <= JACOBI_MOST; }

/* A tall matrix, of a call's A or its transpose: A = (large) diag(s) (small)^T. */
typedef struct tall {
    intptr_t m, n, k; /* A is m x n, m >= n; the columns of `large` */
    smm_operand from, large, small, s;
} tall;

static inline tall tall_of(const smm_call *call) {
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

/* Rows of at most this squared length are not rotated: products with them would lose digits. */
static const double least_square[SMM_DTYPE_COUNT] = {
    [SMM_F32] = 0x1p-120, [SMM_F64] = 0x1p-1000, [SMM_C64] = 0x1p-120, [SMM_C128] = 0x1p-1000};

/* What makes rows x and y orthogonal, and x the longer, of their squared lengths and their product. False if
 * |xy| <= tolerance |x| |y| already. Cosine and sine are the unit vector along (d + r, g), where g = xy and
 * d = |xx - yy| / 2 over the larger square and r^2 = d^2 + g^2; exchanged where y is longer. */
static inline bool rotation_of(smm_dtype t, double xx, double yy, double xy, double tolerance, double *c, double *s) {
    const double longer = fmax(xx, yy), shorter = fmin(xx, yy), back = round_in(t, 1 / longer);
    const double g = round_in(t, xy * back), gg = round_in(t, g * g);
    const double limit = round_in(t, tolerance * tolerance * round_in(t, shorter * back));
    if (!(gg > limit && shorter > least_square[t])) return false;
    const double d = round_in(t, round_in(t, longer - shorter) * round_in(t, back / 2));
    const double w = round_in(t, d + round_in(t, sqrt(fma_in(t, d, d, gg))));
    const double scale = round_in(t, 1 / round_in(t, sqrt(fma_in(t, w, w, gg))));
    const double large = round_in(t, w * scale), small = round_in(t, g * scale);
    *c = yy > xx ? small : large;
    *s = yy > xx ? large : small;
    return true;
}

/* n rows become orthogonal. Round r of a sweep rotates the pairs i < j of which i + j is r or r + n: no row is in two
 * of them, so their order does not matter. The result: in how many pairs the last sweep had to rotate. */
static inline intptr_t orthogonalise(intptr_t n, bool rotate(void *context, intptr_t i, intptr_t j), void *context) {
    intptr_t rotated = 0;
    for (int sweep = 0; sweep < SWEEPS; sweep++) {
        rotated = 0;
        for (intptr_t r = 1; r <= n; r++)
            for (intptr_t i = 0; i < n; i++) {
                const intptr_t j = i < r ? r - i : r + n - i;
                if (i < j && j < n) rotated += rotate(context, i, j);
            }
        if (!rotated) break;
    }
    return rotated;
}

#endif
