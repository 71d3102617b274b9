/* matmul.c: C = alpha A B + beta C. */
#include "reference.h"

/* c_ij = a_i0 b_0j, then fma(a_ik, b_kj, c_ij) for k = 1, 2, ...; then fma(alpha, c_ij, beta c). */
void smm_reference_matmul(const smm_call *call) {
    for (intptr_t q = 0; q < call->batch; q++) {
        const double alpha = call->alpha.data ? get(&call->alpha, call->dtype, q, 0, 0) : 1;
        const double beta = call->beta.data ? get(&call->beta, call->dtype, q, 0, 0) : 0;
        for (intptr_t i = 0; i < call->m; i++)
            for (intptr_t j = 0; j < call->n; j++) {
                double c = 0;
                for (intptr_t k = 0; k < call->k; k++) {
                    const double a = get(&call->a, call->dtype, q, i, k), b = get(&call->b, call->dtype, q, k, j);
                    c = k ? fma_in(call->dtype, a, b, c) : round_in(call->dtype, a * b);
                }
                if (beta != 0)
                    c = fma_in(call->dtype, alpha, c,
                               round_in(call->dtype, beta * get(&call->c, call->dtype, q, i, j)));
                else if (call->alpha.data)
                    c = round_in(call->dtype, alpha * c);
                put(&call->c, call->dtype, q, i, j, c);
            }
    }
}
