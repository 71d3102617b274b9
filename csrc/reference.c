/* reference.c: each operation in the plainest form, the oracle of the tests.
 * Not fast, never planned; it follows the promised order of operations with the C library's fma(). */
#include <math.h>

#include "core.h"

static double get(const smm_operand *x, smm_dtype dtype, intptr_t q, intptr_t i, intptr_t j) {
    const char *p = (const char *)x->data + q * x->batch + i * x->row + j * x->col;
    return dtype == SMM_F32 ? *(const float *)p : *(const double *)p;
}

static void put(const smm_operand *x, smm_dtype dtype, intptr_t q, intptr_t i, intptr_t j, double v) {
    char *p = (char *)x->data + q * x->batch + i * x->row + j * x->col;
    if (dtype == SMM_F32)
        *(float *)p = (float)v;
    else
        *(double *)p = v;
}

static double fma_in(smm_dtype dtype, double x, double y, double z) {
    return dtype == SMM_F32 ? fmaf((float)x, (float)y, (float)z) : fma(x, y, z);
}

static double mul_in(smm_dtype dtype, double x, double y) { return dtype == SMM_F32 ? (float)x * (float)y : x * y; }

/* c_ij = a_i0 b_0j, then fma(a_ik, b_kj, c_ij) for k = 1, 2, ...; then fma(alpha, c_ij, beta c). */
static void matmul_reference(const smm_call *call) {
    for (intptr_t q = 0; q < call->batch; q++) {
        const double alpha = call->alpha.data ? get(&call->alpha, call->dtype, q, 0, 0) : 1;
        const double beta = call->beta.data ? get(&call->beta, call->dtype, q, 0, 0) : 0;
        for (intptr_t i = 0; i < call->m; i++)
            for (intptr_t j = 0; j < call->n; j++) {
                double c = 0;
                for (intptr_t k = 0; k < call->k; k++) {
                    const double a = get(&call->a, call->dtype, q, i, k), b = get(&call->b, call->dtype, q, k, j);
                    c = k ? fma_in(call->dtype, a, b, c) : mul_in(call->dtype, a, b);
                }
                if (beta != 0)
                    c = fma_in(call->dtype, alpha, c, mul_in(call->dtype, beta, get(&call->c, call->dtype, q, i, j)));
                else if (call->alpha.data)
                    c = mul_in(call->dtype, alpha, c);
                put(&call->c, call->dtype, q, i, j, c);
            }
    }
}

void smm_reference(const smm_call *call) {
    switch (call->op) {
    case SMM_OP_MATMUL: matmul_reference(call); break;
    }
}
