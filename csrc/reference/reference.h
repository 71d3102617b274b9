/* reference.h: each operation in the plainest form: the oracle of the tests, never fast. One matrix at a time, in the
 * promised order of operations, rounded in the call's dtype, with fma(). One text serves real and complex numbers. */
#ifndef SMM_REFERENCE_H
#define SMM_REFERENCE_H

#include "number.h"

void smm_reference_matmul(const smm_call *call);
void smm_reference_lu(const smm_call *call);                       /* LU, LU_SOLVE, SOLVE, DET, SLOGDET */
void smm_reference_inv(const smm_call *call);                      /* INV */
intptr_t smm_reference_singular(const smm_call *call, intptr_t q); /* info of LU of matrix q of A */
void smm_reference_cholesky(const smm_call *call);   /* CHOLESKY, CHO_SOLVE, SOLVE_TRIANGULAR, SOLVE_POS */
void smm_reference_banded(const smm_call *call);     /* SOLVE_TRIDIAGONAL, SOLVE_BANDED, SOLVEH_BANDED */
void smm_reference_qr(const smm_call *call);         /* QR, QR_R, QR_RAW, LSTSQ */
void smm_reference_eigh(const smm_call *call);       /* EIGH, EIGVALSH */
void smm_reference_eig(const smm_call *call);        /* EIG, EIGVALS, SCHUR, SQRTM */
void smm_reference_expm(const smm_call *call);       /* EXPM */
void smm_reference_svd(const smm_call *call);        /* SVD, SVD_FULL, SVDVALS */
void smm_reference_ldl(const smm_call *call);        /* LDL, LDL_SOLVE, SOLVE_SYM */
void smm_reference_refinement(const smm_call *call); /* LU_RCOND, BACKWARD_ERROR, REFINE */
void smm_reference_mixed(const smm_call *call);      /* SOLVE_MIXED */

extern const smm_parts_kernels smm_reference_parts; /* levels.c: SOLVE_TRIDIAGONAL in parts */

enum { ELEMENTS = SMM_MAX_ORDER * SMM_MAX_ORDER };

/* lu.c: P A = L U: L below the diagonal of lu, an m x n matrix, U the rest; row k was exchanged with row pivots[k]. */
typedef struct smm_lu_factors {
    smm_dtype dtype;
    intptr_t m, n; /* the same of what is solved with */
    number lu[ELEMENTS];
    intptr_t pivots[SMM_MAX_ORDER];
    intptr_t info; /* the first step, from 1, whose pivot is zero or infinite; negative: which exchanges no row left */
    bool singular; /* a pivot is zero, all before are finite */
} smm_lu_factors;
/* Those that a call is given, of matrix q; x becomes the solution of A x = x, or of A^T x = x. */
void smm_lu_given(const smm_operand *lu, const smm_operand *pivots, smm_lu_factors *f, intptr_t q);
void smm_lu_apply(const smm_lu_factors *f, number *x, bool transposed);

/* qr.c: H = I - tau v v^H, v_0 = 1, of which H^H x = (beta, 0, 0, ...), beta real: x_0 becomes beta, the others v; the
 * result is tau, 0 where there is nothing to annihilate. As LAPACK's larfg. */
number smm_reflector(smm_dtype t, number *x, intptr_t step, intptr_t count);
/* x = x - v factor (v^H x), of v_1 .. v_count-1, v_0 = 1. */
void smm_reflect(smm_dtype t, const number *v, intptr_t step_v, number factor, number *x, intptr_t step,
                 intptr_t count);

/* qr.c: the reflectors of min(m, n) steps below R: row i of an m x n matrix begins at a + i * n. */
typedef struct smm_factors {
    smm_dtype dtype;
    intptr_t m, n;
    number a[ELEMENTS], tau[SMM_MAX_ORDER];
} smm_factors;
void smm_factor(smm_factors *f);                                   /* A becomes R above the reflectors */
void smm_column_of_q(const smm_factors *f, intptr_t j, number *q); /* q = column j of H_0 H_1 ... */
double smm_length(smm_dtype t, const number *x, intptr_t count);   /* |x|_2, scaled where squares are tiny */

/* qr.c: a power of two that brings the largest magnitude to about 1, if it is far from it; that of all of x, which is
 * multiplied by it, or NaN where x is not finite. */
double smm_scale_to_one(smm_dtype t, double most);
double smm_scale_all(smm_dtype t, number *x, intptr_t count);

/* eigh.c: a symmetric tridiagonal T, or bidiagonal.c: an upper bidiagonal B, of the diagonal d and what is beside it,
 * and the V that its rotations multiply, of `height` rows: of complex numbers the real parts above the imaginary ones.
 */
typedef struct smm_spectrum {
    smm_dtype dtype; /* real */
    intptr_t n, height;
    double v[2 * SMM_MAX_ORDER][SMM_MAX_ORDER], d[SMM_MAX_ORDER], e[SMM_MAX_ORDER];
} smm_spectrum;
/* The reflectors H_k right of the diagonal in rows k of a become V = H_0 H_1 ... of x, by way of a. */
void smm_form_vectors(smm_dtype t, numbers a, const number *tau, smm_spectrum *x);
/* Column j of V; multiplied by a number of magnitude 1 that makes the element of largest magnitude, the first of
 * equals, positive. Zeros are positive. */
void smm_vector_of(smm_dtype t, const smm_spectrum *x, intptr_t j, number *to);
void smm_turn_largest(smm_dtype t, number *x, intptr_t count);
void smm_rotate_columns(smm_spectrum *x, intptr_t i, double c, double s); /* columns i and i + 1 of V */
/* The magnitudes of d become the singular values of B, V the right singular vectors; how many elements beside d are not
 * negligible when the matrix is given up. */
intptr_t smm_chase(smm_spectrum *x);

/* Where key j goes when keys descend and equal ones stay in order. */
static inline intptr_t place_of(const double *key, intptr_t n, intptr_t j) {
    intptr_t place = 0;
    for (intptr_t i = 0; i < n; i++) place += key[i] > key[j] || (i < j && key[i] == key[j]);
    return place;
}

#endif
