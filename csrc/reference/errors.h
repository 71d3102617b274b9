/* errors.h: what the errors of solutions are made of, of real and of complex systems. Magnitudes are real. */
#ifndef SMM_ERRORS_H
#define SMM_ERRORS_H

#include "reference.h"

/* The most corrections of a solution, and those in the form EXTRA. */
enum { CORRECTIONS = 5, EXTRA_CORRECTIONS = 10 };

/* sum - a x, and what the two roundings took from it, which is added to `rest`. */
static inline void subtract_exactly(smm_dtype t, double *sum, double *rest, double a, double x) {
    const double p = round_in(t, a * x), of_product = fma_in(t, -a, x, p);
    const double next = round_in(t, *sum - p), moved = round_in(t, next - *sum);
    const double of_sum = round_in(t, round_in(t, *sum - round_in(t, next - moved)) - round_in(t, p + moved));
    *rest = round_in(t, *rest + round_in(t, of_sum + of_product));
    *sum = next;
}

/* What is added where w may have underflowed, and up to which w: safe1 and safe2 of gerfs. */
static inline double least_size(smm_dtype t, intptr_t n) { return (double)(n + 1) * least_normal(t); }
static inline double safe_size(smm_dtype t, intptr_t n) { return least_size(t, n) / roundoff(t); }

/* The largest size_i / w_i, where 0 / 0 is 0; NaN if one is. */
static inline double largest_quotient(smm_dtype t, const double *size, const double *w, intptr_t n) {
    const double small = least_size(t, n), safe = safe_size(t, n);
    double most = 0;
    bool is_nan = false;
    for (intptr_t i = 0; i < n; i++) {
        const double all = w[i] > safe ? size[i] / w[i] : round_in(t, size[i] + small) / round_in(t, w[i] + small);
        const double ratio = size[i] == 0 ? 0 : round_in(t, all);
        is_nan |= (bool)isnan(ratio);
        if (ratio > most) most = ratio;
    }
    return is_nan ? NAN : most;
}

/* In place of size: size + c w, and more where w may have underflowed. */
static inline void add_bounds(smm_dtype t, double *size, double c, const double *w, intptr_t n) {
    for (intptr_t i = 0; i < n; i++) {
        size[i] = fma_in(t, c, w[i], size[i]);
        if (!(w[i] > safe_size(t, n))) size[i] = round_in(t, size[i] + least_size(t, n));
    }
}

#endif
