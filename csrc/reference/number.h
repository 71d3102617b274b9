/* number.h: complex numbers of the reference, whose parts are rounded in the call's dtype: the verbs of
 * kernels/numbers.h, and where numbers lie. */
#ifndef SMM_NUMBER_H
#define SMM_NUMBER_H

#include "reference.h"

/* GCC 12 vectorizes (double)(float)x of both parts to x: no rounding is left. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-tree-slp-vectorize")
#endif

typedef struct number {
    double re, im;
} number;

static inline number conjugate(number x) { return (number){x.re, -x.im}; }

/* x y, z + x y, z - x y: the term of x's real part comes first. */
static inline number product(smm_dtype t, number x, number y) {
    return (number){fma_in(t, -x.im, y.im, round_in(t, x.re * y.re)), fma_in(t, x.im, y.re, round_in(t, x.re * y.im))};
}
static inline number add_product(smm_dtype t, number x, number y, number z) {
    return (number){fma_in(t, -x.im, y.im, fma_in(t, x.re, y.re, z.re)),
                    fma_in(t, x.im, y.re, fma_in(t, x.re, y.im, z.im))};
}
static inline number subtract_product(smm_dtype t, number x, number y, number z) {
    return add_product(t, (number){-x.re, -x.im}, y, z);
}
static inline number sum(smm_dtype t, number x, number y) {
    return (number){round_in(t, x.re + y.re), round_in(t, x.im + y.im)};
}
static inline number scaled(smm_dtype t, number x, double s) {
    return (number){round_in(t, x.re * s), round_in(t, x.im * s)};
}

static inline double size_of(smm_dtype t, number x) { return round_in(t, fabs(x.re) + fabs(x.im)); }
static inline bool is_zero(number x) { return x.re == 0 && x.im == 0; }
static inline bool is_useless_number(number pivot) { return is_zero(pivot) || isinf(pivot.re) || isinf(pivot.im); }

/* Smith's division (Communications of the ACM 5, 1962): by the ratio of the smaller part of p to the larger. Where the
 * denominator would overflow, it is that of p / 2. */
typedef struct smith {
    double ratio, denominator, back, scale;
    bool upright; /* the real part is the larger, or as large */
} smith;
static inline smith smith_of(smm_dtype t, number p) {
    smith s = {.scale = 1, .upright = !(fabs(p.im) > fabs(p.re))};
    const double large = s.upright ? p.re : p.im, small = s.upright ? p.im : p.re;
    s.ratio = round_in(t, small / large);
    s.denominator = fma_in(t, small, s.ratio, large);
    s.back = round_in(t, 1 / s.denominator);
    if (isinf(s.denominator)) s.scale = 0.5, s.denominator = fma_in(t, small / 2, s.ratio, large / 2);
    return s;
}
static inline number reciprocal_of(smm_dtype t, number p) {
    const smith s = smith_of(t, p);
    const double other = round_in(t, s.ratio * s.back);
    return s.upright ? (number){s.back, -other} : (number){other, -s.back};
}
/* x / p, by the reciprocal where it is as exact as numbers are. */
static inline number quotient_of(smm_dtype t, number x, number p) {
    const smith s = smith_of(t, p);
    if (is_normal(t, s.back)) return product(t, x, reciprocal_of(t, p));
    const double re = s.upright ? fma_in(t, x.im, s.ratio, x.re) : fma_in(t, x.re, s.ratio, x.im);
    const double im = s.upright ? fma_in(t, -x.re, s.ratio, x.im) : round_in(t, round_in(t, x.im * s.ratio) - x.re);
    return scaled(t, (number){round_in(t, re / s.denominator), round_in(t, im / s.denominator)}, s.scale);
}

typedef number numbers[SMM_MOST_ORDER][SMM_MOST_ORDER];

/* Elements of an operand: pairs of numbers of the real type. */
static inline number get_number(const smm_operand *x, smm_dtype t, intptr_t q, intptr_t i, intptr_t j) {
    const smm_dtype real = smm_dtypes[t].real;
    const char *p = (const char *)x->data + q * x->batch + i * x->row + j * x->col, *im = p + smm_size(real);
    return (number){smm_get(p, real), smm_get(im, real)};
}
static inline void put_number(const smm_operand *x, smm_dtype t, intptr_t q, intptr_t i, intptr_t j, number v) {
    const smm_dtype real = smm_dtypes[t].real;
    char *p = (char *)x->data + q * x->batch + i * x->row + j * x->col, *im = p + smm_size(real);
    smm_put(p, real, v.re);
    smm_put(im, real, v.im);
}

/* The same for real numbers, too: those have no imaginary part, and an arithmetic of their own. z - x y, x / p, and
 * elements of an operand: */
static inline number fnma(smm_dtype t, number x, number y, number z) {
    return smm_is_complex(t) ? subtract_product(t, x, y, z) : (number){fma_in(t, -x.re, y.re, z.re), 0};
}
static inline number over(smm_dtype t, number x, number p) {
    return smm_is_complex(t) ? quotient_of(t, x, p) : (number){round_in(t, x.re / p.re), 0};
}
static inline number get_any(const smm_operand *x, smm_dtype t, intptr_t q, intptr_t i, intptr_t j) {
    return smm_is_complex(t) ? get_number(x, t, q, i, j) : (number){get(x, t, q, i, j), 0};
}
static inline void put_any(const smm_operand *x, smm_dtype t, intptr_t q, intptr_t i, intptr_t j, number v) {
    if (smm_is_complex(t))
        put_number(x, t, q, i, j, v);
    else
        put(x, t, q, i, j, v.re);
}

/* complex.c: as smm_lu_factors. Those that a call is given, of matrix q; x becomes the solution of A x = x, of
 * A^T x = x. */
typedef struct smm_number_factors {
    smm_dtype dtype;
    intptr_t n;
    numbers lu;
    intptr_t pivots[SMM_MOST_ORDER];
    intptr_t info;
    bool singular;
} smm_number_factors;
void smm_given_numbers(const smm_operand *lu, const smm_operand *pivots, smm_number_factors *f, intptr_t q);
void smm_apply_numbers(const smm_number_factors *f, number *x, bool transposed);

/* refinement_numbers.c: LU_RCOND, BACKWARD_ERROR and REFINE of matrix q. */
void smm_reference_refinement_of_numbers(const smm_call *call, intptr_t q);

/* complex.c: H = I - tau v v^H, v_0 = 1, of which H^H x = (beta, 0, 0, ...), beta real, in place of x; the result is
 * tau. */
number smm_reflector_of_numbers(smm_dtype t, number *x, intptr_t step, intptr_t count);

/* complex.c: the reflectors of min(m, n) steps below R: row i of an m x n matrix begins at a + i * n. */
typedef struct smm_reflectors {
    smm_dtype dtype;
    intptr_t m, n;
    number a[SMM_MOST_ORDER * SMM_MOST_ORDER], tau[SMM_MOST_ORDER];
} smm_reflectors;
/* x = x - v factor (v^H x), of v_1 .. v_count-1, v_0 = 1. */
void smm_reflect_numbers(smm_dtype t, const number *v, intptr_t step_v, number factor, number *x, intptr_t step,
                         intptr_t count);
void smm_factor_numbers(smm_reflectors *f);                                 /* A becomes R above the reflectors */
void smm_column_of_numbers(const smm_reflectors *f, intptr_t j, number *x); /* x = column j of H_0 H_1 ... */
double smm_length_of_numbers(smm_dtype t, const number *x, intptr_t count); /* |x|_2, scaled where squares are tiny */
/* x = x - v factor (v^H x), v_0 = 1 */
void smm_reflect_numbers(smm_dtype t, const number *v, intptr_t step_v, number factor, number *x, intptr_t step,
                         intptr_t count);

/* squares.c: LSTSQ of matrix q. */
void smm_reference_squares(const smm_call *call, intptr_t q);

/* singular.c: SVD, SVD_FULL and SVDVALS of matrix q. */
void smm_reference_svd_numbers(const smm_call *call, intptr_t q);

/* diagonals.c: SOLVE_TRIDIAGONAL, SOLVE_BANDED, SOLVEH_BANDED of matrix q. */
void smm_reference_banded_numbers(const smm_call *call, intptr_t q);

/* hermitian.c: EIGH and EIGVALSH of matrix q. */
void smm_reference_hermitian(const smm_call *call, intptr_t q);

/* hermitian.c: the reflectors H_k right of the diagonal in rows of a become V = H_0 H_1 ..., the matrix of x. */
void smm_form_vectors_of_numbers(smm_dtype t, numbers a, const number *tau, smm_spectrum *x);

/* hermitian.c: multiply x by a number of magnitude 1 so that the element of largest magnitude, the first of equals, is
 * positive. Zeros are positive. */
void smm_turn_largest(smm_dtype t, number *x, intptr_t count);

#endif
