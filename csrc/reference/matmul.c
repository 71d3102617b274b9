/* matmul.c: C = alpha A B + beta C. */
#include "reference.h"

/* One element: row i of A times column j of B, of matrix q. */
typedef struct element {
    const smm_call *call;
    intptr_t q, i, j;
} element;

/* a_if b_fj of the first term f, then fma(a_ik, b_kj, sum) for k = f + 1, f + 2, ... */
static double in_a_row(element e, intptr_t first, intptr_t last) {
    const smm_dtype dtype = e.call->dtype;
    double sum = 0;
    for (intptr_t k = first; k < last; k++) {
        const double a = get(&e.call->matmul.a, dtype, e.q, e.i, k), b = get(&e.call->matmul.b, dtype, e.q, k, e.j);
        sum = k > first ? fma_in(dtype, a, b, sum) : round_in(dtype, a * b);
    }
    return sum;
}

/* The sum of some chunks of SMM_CHUNK terms, of which the last of all may be shorter: a binary tree by index. The
 * greatest power of two below `count` chunks are added to the others, each of the two in this way: so level by level
 * neighbours 2t and 2t + 1 are added, and an odd last one goes up as it is. */
static double of_chunks(element e, intptr_t first, intptr_t count) {
    if (count == 1) return in_a_row(e, first * SMM_CHUNK, least(e.call->k, (first + 1) * SMM_CHUNK));
    intptr_t half = 1;
    while (2 * half < count) half *= 2;
    return round_in(e.call->dtype, of_chunks(e, first, half) + of_chunks(e, first + half, count - half));
}

/* The products of an element are summed in a row or, if there are more than SMM_DEEP, in chunks; then
 * fma(alpha, sum, beta c). */
void smm_reference_matmul(const smm_call *call) {
    for (intptr_t q = 0; q < call->batch; q++) {
        const double alpha = call->matmul.alpha.data ? get(&call->matmul.alpha, call->dtype, q, 0, 0) : 1;
        const double beta = call->matmul.beta.data ? get(&call->matmul.beta, call->dtype, q, 0, 0) : 0;
        for (intptr_t i = 0; i < call->m; i++)
            for (intptr_t j = 0; j < call->n; j++) {
                const element e = {call, q, i, j};
                double c =
                    call->k > SMM_DEEP ? of_chunks(e, 0, (call->k - 1) / SMM_CHUNK + 1) : in_a_row(e, 0, call->k);
                if (beta != 0)
                    c = fma_in(call->dtype, alpha, c,
                               round_in(call->dtype, beta * get(&call->matmul.c, call->dtype, q, i, j)));
                else if (call->matmul.alpha.data)
                    c = round_in(call->dtype, alpha * c);
                put(&call->matmul.c, call->dtype, q, i, j, c);
            }
    }
}
