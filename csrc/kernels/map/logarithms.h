/* logarithms.h: logarithms of determinants, LANES of them side by side, in double precision whatever T is. */
#if !defined(__clang__)
/* With an eye to traps, gcc 12 makes no vectors of a sum that is then selected or not, except with AVX-512's masks. The
 * bits do not depend on it. */
#pragma GCC push_options
#pragma GCC optimize("no-trapping-math")
#endif
#include "../../math/functions.h"

/* log(x_l 2^e_l), x_l >= 0, of matrices q .. q+count-1. */
SHARED void KERNEL(lanes_store_log)(const smm_operand *to, intptr_t q, const T *x, const double *e, intptr_t count) {
    T y[LANES];
    for (int l = 0; l < LANES; l++) y[l] = (T)(smm_log((double)x[l]) + e[l] * 0x1.62e42fefa39efp-1);
    const vec logarithm = lane_load(y);
    lanes_store(to, q, &logarithm, 1, 1, count);
}
#if !defined(__clang__)
#pragma GCC pop_options
#endif
