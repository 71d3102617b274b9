/* reference.h: each operation in the plainest form: the oracle of the tests, never fast. One matrix at a time, in the
 * promised order of operations, rounded in the call's dtype, with fma(). */
#ifndef SMM_REFERENCE_H
#define SMM_REFERENCE_H

#include <float.h>
#include <math.h>

#include "../core.h"

void smm_reference_matmul(const smm_call *call);
void smm_reference_lu(const smm_call *call);                       /* LU, LU_SOLVE, SOLVE, DET, SLOGDET */
void smm_reference_inv(const smm_call *call);                      /* INV */
intptr_t smm_reference_singular(const smm_call *call, intptr_t q); /* info of LU of matrix q of A */
void smm_reference_cholesky(const smm_call *call);   /* CHOLESKY, CHO_SOLVE, SOLVE_TRIANGULAR, SOLVE_POS */
void smm_reference_banded(const smm_call *call);     /* SOLVE_TRIDIAGONAL, SOLVE_BANDED, SOLVEH_BANDED */
void smm_reference_qr(const smm_call *call);         /* QR, QR_R, QR_RAW, LSTSQ */
void smm_reference_eigh(const smm_call *call);       /* EIGH, EIGVALSH */
void smm_reference_svd(const smm_call *call);        /* SVD, SVD_FULL, SVDVALS */
void smm_reference_refinement(const smm_call *call); /* LU_RCOND, BACKWARD_ERROR, REFINE */
void smm_reference_mixed(const smm_call *call);      /* SOLVE_MIXED */
void smm_reference_complex(const smm_call *call);    /* any of a complex type */
void smm_reference_whole(const smm_call *call);      /* a call of one run, not in parts */
void smm_reference_stored(const smm_call *call);     /* any, of a type that is only stored */

extern const smm_parts_kernels smm_reference_parts; /* levels.c: SOLVE_TRIDIAGONAL in parts */

/* ldl.c: LDL, LDL_SOLVE and SOLVE_SYM of matrix q, real or complex. */
void smm_reference_ldl(const smm_call *call, intptr_t q);

/* eig.c: EIG and EIGVALS of matrix q, real or complex. */
void smm_reference_eig(const smm_call *call, intptr_t q);

/* expm.c: EXPM of matrix q, real or complex. */
void smm_reference_expm(const smm_call *call, intptr_t q);

/* qr.c: a Householder reflector in place of x; the power of two that brings a magnitude that is far from 1 near it. */
double smm_reflector(smm_dtype dtype, double *x, intptr_t step, intptr_t count);
double smm_scale_to_one(smm_dtype dtype, double most);

/* qr.c: sums of squares outside of low .. high have lost digits to underflow, or may overflow; then x is scaled by a
 * power of two, which loses none. */
typedef struct smm_squares {
    double low, high, up, down;
} smm_squares;
smm_squares smm_squares_of(smm_dtype dtype);

/* qr.c: the reflectors of min(m, n) steps below R: row i of an m x n matrix begins at a + i * n. */
typedef struct smm_factors {
    smm_dtype dtype;
    intptr_t m, n;
    double a[SMM_MOST_ORDER * SMM_MOST_ORDER], tau[SMM_MOST_ORDER];
} smm_factors;
void smm_reflect(smm_dtype dtype, const double *v, intptr_t step_v, double tau, double *x, intptr_t step,
                 intptr_t count);                                    /* x = H x, of the reflector v_1 .. v_count-1 */
void smm_factor(smm_factors *f);                                     /* A becomes R above the reflectors */
void smm_column_of_q(const smm_factors *f, intptr_t j, double *q);   /* q = column j of H_0 H_1 ... */
double smm_length(smm_dtype dtype, const double *x, intptr_t count); /* |x|_2, scaled where squares are tiny */

/* qr.c: incremental condition estimation: of a unit vector x, sigma = |x^H R|_2 estimates the largest or the smallest
 * singular value of a leading block R. One more column (w; gamma) makes (s x; c) of x. Of all unit vectors (s, c) it is
 * that of the largest or the smallest sigma = |(s sigma, s alpha + c gamma)|_2, where alpha = x^H w is real. */
typedef struct smm_extension {
    double sigma, s, c;
} smm_extension;
smm_extension smm_largest_extension(smm_dtype dtype, double sigma, double alpha, double gamma);
smm_extension smm_smallest_extension(smm_dtype dtype, double sigma, double alpha, double gamma);
double smm_scaled_back(smm_dtype dtype, double x, double first, double second); /* x times two powers of two */

/* eigh.c: a symmetric tridiagonal T, or bidiagonal.c: an upper bidiagonal B, of the diagonal d and what is beside it,
 * and a matrix that its rotations multiply: A, of which only the upper triangle counts, then V; of complex numbers its
 * real parts above its imaginary ones. */
typedef struct smm_spectrum {
    smm_dtype dtype;
    intptr_t n, height;
    double a[2 * SMM_MOST_ORDER][SMM_MOST_ORDER];
    double d[SMM_MOST_ORDER], e[SMM_MOST_ORDER], tau[SMM_MOST_ORDER];
} smm_spectrum;
/* The reflectors H_k right of the diagonal in rows k become V = H_0 H_1 ...; rotate columns i and i + 1 of it. */
void smm_form_vectors(smm_spectrum *x);
void smm_rotate_columns(smm_spectrum *x, intptr_t i, double c, double s);
/* d becomes the eigenvalues; how many elements beside it are not negligible when the matrix is given up. */
intptr_t smm_diagonalise(smm_spectrum *x);
/* Ascending, equal eigenvalues in the order in which they were found. */
intptr_t smm_place_of_value(const smm_spectrum *x, intptr_t j);

/* bidiagonal.c: A = Q B P^T of a tall m x n matrix, n > 1, row i of which begins at a + i * n: B, and V = P. */
void smm_bidiagonalise(smm_spectrum *x, double *a, intptr_t m);
/* The magnitudes of d become the singular values of B, V the right singular vectors; the result as of
 * smm_diagonalise. */
intptr_t smm_chase(smm_spectrum *x);

static inline smm_operand transposed(smm_operand x) { return (smm_operand){x.data, x.batch, x.col, x.row}; }

/* Where key j goes when keys descend and equal ones stay in order. */
static inline intptr_t place_of(const double *key, intptr_t n, intptr_t j) {
    intptr_t place = 0;
    for (intptr_t i = 0; i < n; i++) place += key[i] > key[j] || (i < j && key[i] == key[j]);
    return place;
}

/* Elements of float32 are exact in double, so one text serves both. */
static inline double get(const smm_operand *x, smm_dtype dtype, intptr_t q, intptr_t i, intptr_t j) {
    return smm_get((const char *)x->data + q * x->batch + i * x->row + j * x->col, dtype);
}

static inline void put(const smm_operand *x, smm_dtype dtype, intptr_t q, intptr_t i, intptr_t j, double v) {
    smm_put((char *)x->data + q * x->batch + i * x->row + j * x->col, dtype, v);
}

static inline void put_int(const smm_operand *x, intptr_t q, intptr_t i, intptr_t v) {
    if (x->data) *(int32_t *)((char *)x->data + q * x->batch + i * x->row) = (int32_t)v;
}

/* In the type that an element type is computed in: x y + z rounded once, x rounded, whether x is normal, half the
 * distance from 1 to the next number, the least normal number. Sums, products, quotients and square roots of float32
 * come out right when computed in double and then rounded. */
#define OF_TYPE(computed, single, other) _Generic((computed)0, float: single, double: other)
#define BY_TYPE(ROW) \
    switch (dtype) { \
        SMM_DTYPES(ROW, _) \
    case SMM_DTYPE_COUNT: break; \
    }
static inline double fma_in(smm_dtype dtype, double x, double y, double z) {
#define ROW(_, NAME, name, memory, computed, ...) \
    case SMM_##NAME: return OF_TYPE(computed, fmaf, fma)((computed)x, (computed)y, (computed)z);
    BY_TYPE(ROW)
#undef ROW
    return NAN;
}
static inline double round_in(smm_dtype dtype, double x) {
#define ROW(_, NAME, name, memory, computed, ...) \
    case SMM_##NAME: return (computed)x;
    BY_TYPE(ROW)
#undef ROW
    return NAN;
}
static inline bool is_normal(smm_dtype dtype, double x) {
#define ROW(_, NAME, name, memory, computed, ...) \
    case SMM_##NAME: return isnormal((computed)x);
    BY_TYPE(ROW)
#undef ROW
    return false;
}
static inline double roundoff(smm_dtype dtype) {
#define ROW(_, NAME, name, memory, computed, ...) \
    case SMM_##NAME: return OF_TYPE(computed, FLT_EPSILON, DBL_EPSILON) / 2;
    BY_TYPE(ROW)
#undef ROW
    return NAN;
}
static inline double least_normal(smm_dtype dtype) {
#define ROW(_, NAME, name, memory, computed, ...) \
    case SMM_##NAME: return OF_TYPE(computed, FLT_MIN, DBL_MIN);
    BY_TYPE(ROW)
#undef ROW
    return NAN;
}
#undef BY_TYPE
#undef OF_TYPE

static inline double reciprocal(smm_dtype dtype, double p) { return round_in(dtype, 1 / p); }

/* A pivot of which there is no use: zero, or infinite; what overflowed would be finite again when divided by it. */
static inline bool is_useless(double pivot) { return pivot == 0 || isinf(pivot); }

/* x / p, by the reciprocal where it is as exact as numbers are. */
static inline double quotient(smm_dtype dtype, double x, double p) {
    const double r = reciprocal(dtype, p);
    return round_in(dtype, is_normal(dtype, r) ? x * r : x / p);
}

typedef double matrix[SMM_MOST_ORDER][SMM_MOST_ORDER];

/* lu.c: P A = L U: L below the diagonal of lu, U the rest; row k was exchanged with row pivots[k]. */
typedef struct smm_lu_factors {
    smm_dtype dtype;
    intptr_t n;
    matrix lu;
    intptr_t pivots[SMM_MOST_ORDER];
    intptr_t info; /* the first step, from 1, whose pivot is zero or infinite; negative: which exchanges no row left */
    bool singular; /* a pivot is zero, all before are finite */
} smm_lu_factors;
/* Those that a call is given, of matrix q; x becomes the solution of A x = x, or of A^T x = x. */
void smm_lu_given(const smm_operand *lu, const smm_operand *pivots, smm_lu_factors *f, intptr_t q);
void smm_lu_apply(const smm_lu_factors *f, double *x, bool transposed);

/* The row i >= k of the largest |a_ik|, the first of equals. Nothing is larger than a NaN at row k. */
static inline intptr_t pivot_row(matrix a, intptr_t n, intptr_t k) {
    intptr_t p = k;
    for (intptr_t i = k + 1; i < n; i++)
        if (fabs(a[i][k]) > fabs(a[p][k])) p = i;
    return p;
}

#endif
