/* number.h: the arithmetic of the reference: numbers, real or complex, whose parts are doubles that are rounded in the
 * call's dtype t, and operands' elements. The verbs are those of kernels/lane/elements_complex.h and
 * kernels/lane/elements_real.h; real numbers have no imaginary part. */
#ifndef SMM_NUMBER_H
#define SMM_NUMBER_H

#include <float.h>
#include <math.h>

#include "../core/core.h"

/* GCC 12 vectorizes (double)(float)x of both parts to x: no rounding is left. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-tree-slp-vectorize")
#endif

/* --- Real numbers --- */

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

/* Whether an element type is computed in single precision. */
static const bool is_single[SMM_DTYPE_COUNT] = {
#define ROW(x, NAME, name, memory, computed, ...) _Generic((computed)0, float: true, double: false),
    SMM_DTYPES(ROW, _)
#undef ROW
};

/* In the type that an element type is computed in: x y + z rounded once, x rounded, whether x is normal, half the
 * distance from 1 to the next number, the least normal number. Sums, products, quotients and square roots of float32
 * come out right when computed in double and then rounded. */
static inline double fma_in(smm_dtype t, double x, double y, double z) {
    return is_single[t] ? fmaf((float)x, (float)y, (float)z) : fma(x, y, z);
}
static inline double round_in(smm_dtype t, double x) { return is_single[t] ? (float)x : x; }
static inline bool is_normal(smm_dtype t, double x) { return is_single[t] ? isnormal((float)x) : isnormal(x); }
static inline double roundoff(smm_dtype t) { return (is_single[t] ? FLT_EPSILON : DBL_EPSILON) / 2; }
static inline double smallest_normal(smm_dtype t) { return is_single[t] ? FLT_MIN : DBL_MIN; }

static inline double reciprocal(smm_dtype t, double p) { return round_in(t, 1 / p); }

/* x / p, by the reciprocal where it is as exact as numbers are. */
static inline double quotient(smm_dtype t, double x, double p) {
    const double r = reciprocal(t, p);
    return round_in(t, is_normal(t, r) ? x * r : x / p);
}

/* --- Real or complex numbers --- */

typedef struct number {
    double re, im;
} number;

static const number zero = {0, 0}, one = {1, 0}, not_a_number = {NAN, NAN};

static inline number conjugate(number x) { return (number){x.re, -x.im}; }
static inline number negated(number x) { return (number){-x.re, -x.im}; }
static inline void swap(number *x, number *y) {
    const number z = *x;
    *x = *y;
    *y = z;
}

/* x y, x y + z, z - x y: the term of x's real part comes first. */
static inline number product(smm_dtype t, number x, number y) {
    number s = {round_in(t, x.re * y.re), 0};
    if (smm_is_complex(t)) s = (number){fma_in(t, -x.im, y.im, s.re), fma_in(t, x.im, y.re, round_in(t, x.re * y.im))};
    return s;
}
static inline number add_product(smm_dtype t, number x, number y, number z) {
    number s = {fma_in(t, x.re, y.re, z.re), 0};
    if (smm_is_complex(t))
        s = (number){fma_in(t, -x.im, y.im, s.re), fma_in(t, x.im, y.re, fma_in(t, x.re, y.im, z.im))};
    return s;
}
static inline number subtract_product(smm_dtype t, number x, number y, number z) {
    return add_product(t, negated(x), y, z);
}
static inline number sum(smm_dtype t, number x, number y) {
    return (number){round_in(t, x.re + y.re), round_in(t, x.im + y.im)};
}
static inline number difference(smm_dtype t, number x, number y) { return sum(t, x, negated(y)); }

/* x s, x / s and x s + z, s being real. */
static inline number scaled(smm_dtype t, number x, double s) {
    return (number){round_in(t, x.re * s), smm_is_complex(t) ? round_in(t, x.im * s) : 0};
}
static inline number divided(smm_dtype t, number x, double s) {
    return (number){round_in(t, x.re / s), smm_is_complex(t) ? round_in(t, x.im / s) : 0};
}
static inline number add_scaled(smm_dtype t, number x, double s, number z) {
    return (number){fma_in(t, s, x.re, z.re), smm_is_complex(t) ? fma_in(t, s, x.im, z.im) : 0};
}

/* |re| + |im|, which pivots are compared by, and |x|. */
static inline double size_of(smm_dtype t, number x) {
    return smm_is_complex(t) ? round_in(t, fabs(x.re) + fabs(x.im)) : fabs(x.re);
}
static inline double magnitude(smm_dtype t, number x) {
    return smm_is_complex(t) ? round_in(t, sqrt(fma_in(t, x.im, x.im, round_in(t, x.re * x.re)))) : fabs(x.re);
}
static inline bool is_zero(number x) { return x.re == 0 && x.im == 0; }
static inline bool is_finite(number x) { return isfinite(x.re) && isfinite(x.im); }

/* A pivot of which there is no use: zero, or infinite; what overflowed would be finite again when divided by it. */
static inline bool is_useless(number pivot) { return is_zero(pivot) || isinf(pivot.re) || isinf(pivot.im); }

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
    if (!smm_is_complex(t)) return (number){reciprocal(t, p.re), 0};
    const smith s = smith_of(t, p);
    const double other = round_in(t, s.ratio * s.back);
    return s.upright ? (number){s.back, -other} : (number){other, -s.back};
}

/* x / p, by the reciprocal where it is as exact as numbers are; `over` divides real numbers at once. */
static inline number quotient_of(smm_dtype t, number x, number p) {
    if (!smm_is_complex(t)) return (number){quotient(t, x.re, p.re), 0};
    const smith s = smith_of(t, p);
    if (is_normal(t, s.back)) return product(t, x, reciprocal_of(t, p));
    const double re = s.upright ? fma_in(t, x.im, s.ratio, x.re) : fma_in(t, x.re, s.ratio, x.im);
    const double im = s.upright ? fma_in(t, -x.re, s.ratio, x.im) : round_in(t, round_in(t, x.im * s.ratio) - x.re);
    return scaled(t, (number){round_in(t, re / s.denominator), round_in(t, im / s.denominator)}, s.scale);
}
static inline number over(smm_dtype t, number x, number p) {
    return smm_is_complex(t) ? quotient_of(t, x, p) : (number){round_in(t, x.re / p.re), 0};
}

/* Elements of an operand; complex ones are pairs of numbers of the real type. */
static inline number get_number(const smm_operand *x, smm_dtype t, intptr_t q, intptr_t i, intptr_t j) {
    const smm_dtype real = smm_dtypes[t].real;
    const char *p = (const char *)x->data + q * x->batch + i * x->row + j * x->col, *im = p + smm_size(real);
    return (number){smm_get(p, real), smm_is_complex(t) ? smm_get(im, real) : 0};
}
static inline void put_number(const smm_operand *x, smm_dtype t, intptr_t q, intptr_t i, intptr_t j, number v) {
    const smm_dtype real = smm_dtypes[t].real;
    char *p = (char *)x->data + q * x->batch + i * x->row + j * x->col, *im = p + smm_size(real);
    smm_put(p, real, v.re);
    if (smm_is_complex(t)) smm_put(im, real, v.im);
}

typedef number numbers[SMM_MAX_ORDER][SMM_MAX_ORDER];

#endif
