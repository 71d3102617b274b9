/* lu_det.h: from the diagonal of U to the determinant, or its sign and the logarithm of its magnitude. */
#include "../map/logarithms.h"

_Static_assert(offsetof(smm_call, det.det) == offsetof(smm_call, slogdet.sign), "the sign is stored as DET's result");

/* The determinant of matrix q, or its sign, of which *size 2^*exponent is then the magnitude: p is the product of the
 * factors u[0], u[step], ..., negated for an odd number of exchanges, and safe if every partial product is normal. If
 * not, mantissas are multiplied and exponents added. */
static void KERNEL(det_put)(const smm_call *call, intptr_t q, T p, bool safe, bool odd, const T *u, intptr_t step,
                            intptr_t n, T *size, double *exponent) {
    T *const det = (T *)((char *)call->det.det.data + q * call->det.det.batch);
    bool singular = false, finite = true; /* which of the two comes first counts: what follows is of no use */
    for (intptr_t i = 0; i < n && !safe && !singular && finite; i++) {
        singular = u[i * step] == 0;
        finite = isfinite(u[i * step]);
    }
    const bool rescue = !safe && finite;
    int scaled = 0;
    if (rescue) {
        p = odd ? -1 : 1;
        for (intptr_t i = 0; i < n; i++) {
            int e = 0;
            p *= (T)frexp((double)u[i * step], &e);
            scaled += e;
            if (fabs((double)p) >= 0x1p-64) continue;
            p *= (T)0x1p64; /* 128 halves would underflow in float32 */
            scaled -= 64;
        }
    }
    if (call->op == SMM_OP_DET) {
        *det = singular ? 0 : rescue ? (T)ldexp((double)p, scaled) : p;
        return;
    }
    *det = singular ? 0 : isnan(p) ? p : p > 0 ? 1 : -1;
    *size = singular ? 0 : (T)fabs((double)p);
    *exponent = scaled;
}

/* The same for matrices q .. q+count-1, a factor of each in the lanes of u[0], u[1], ... */
SHARED void KERNEL(det_put_lanes)(const smm_call *call, intptr_t q, intptr_t count, vec p, mask safe, mask odd,
                                  const vec *u, intptr_t n) {
    T lane[LANES], size[LANES];
    double exponent[LANES] = {0};
    lane_store(lane, p);
    lane_store(size, lane_abs(p));
    if (call->op == SMM_OP_SLOGDET && __builtin_expect(!lane_any(~safe), 1)) {
        const vec sign = lane_select(lane_greater(p, lane_set(0)), lane_set(1), lane_set(-1));
        lanes_store(&call->slogdet.sign, q, &sign, 1, 1, count);
    } else {
        for (intptr_t l = 0; l < count; l++)
            KERNEL(det_put)(call, q + l, lane[l], lane_bits(safe) >> l & 1, lane_bits(odd) >> l & 1, (const T *)u + l,
                            LANES, n, &size[l], &exponent[l]);
    }
    if (call->op == SMM_OP_SLOGDET) KERNEL(lanes_store_log)(&call->slogdet.logabsdet, q, size, exponent, count);
}
/* Determinants of matrices q .. q+count-1 from diagonals of U, whose elements are `step` apart, and by which they are
 * seen to be singular. */
INLINE void lu_determinants(const smm_call *call, intptr_t q, intptr_t count, const vec *u, intptr_t step, intptr_t n,
                            mask odd, mask singular) {
    (void)singular;
    vec p = u[0];
    mask safe = lane_normal(p);
    for (intptr_t k = 1; k < n; k++) {
        p = lane_mul(p, u[k * step]);
        safe &= lane_normal(p);
    }
    p = lane_select(odd, lane_sub(lane_set(-(T)0), p), p);
    if (call->op == SMM_OP_DET && call->det.det.batch == sizeof(T) && count == LANES &&
        __builtin_expect(!lane_any(~safe), 1)) {
        lane_store((T *)call->det.det.data + q, p);
        return;
    }
    vec diagonal[SMM_MAX_ORDER]; /* a copy, so that the matrix itself may be in registers */
    for (intptr_t k = 0; k < n; k++) diagonal[k] = u[k * step];
    KERNEL(det_put_lanes)(call, q, count, p, safe, odd, diagonal, n);
}
