/* schur.h: a general matrix on its way to a Schur form, for eig.c and sqrtm.c. */
#ifndef SMM_SCHUR_H
#define SMM_SCHUR_H

#include "reference.h"

typedef struct limits {
    double balance, unit, divisor, component;
} limits;

typedef struct schur {
    smm_dtype t; /* the complex type */
    limits limit;
    bool is_complex;
    intptr_t n;
    numbers h, z; /* A = Z H Z^H; a block of order 2 on the diagonal of a real H has two conjugate eigenvalues */
    number w[SMM_MAX_ORDER];
    double balance[SMM_MAX_ORDER];
    bool joined[SMM_MAX_ORDER];
} schur;

static inline number real(double x) { return (number){x, 0}; }

/* x / d. Divisors are between about 2^-400 and 2^205, those of float32 between 2^-50 and 2^25: no square overflows. */
static inline number fraction(smm_dtype t, number x, number d) {
    const double back = round_in(t, 1 / fma_in(t, d.im, d.im, round_in(t, d.re * d.re)));
    return scaled(t, product(t, x, conjugate(d)), back);
}

/* sqrtm.c: the root of matrix q, of its Schur form times `back`; NaN if it is bad. The result is info. */
intptr_t smm_put_root(const smm_call *call, intptr_t q, schur *x, double back, bool bad);

#endif
