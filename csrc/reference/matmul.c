/* matmul.c: C = alpha A B + beta C. */
#include "reference.h"

/* One element: row i of A times column j of B, of matrix q. */
typedef struct element {
    const smm_call *call;
    intptr_t q, i, j;
} element;

/* a_if b_fj of the first term f, then a_ik b_kj + sum for k = f + 1, f + 2, ... */
static number in_a_row(element e, intptr_t first, intptr_t last) {
    const smm_dtype t = e.call->dtype;
    number s = zero;
    for (intptr_t k = first; k < last; k++) {
        const number a = get_number(&e.call->matmul.a, t, e.q, e.i, k);
        const number b = get_number(&e.call->matmul.b, t, e.q, k, e.j);
        s = k > first ? add_product(t, a, b, s) : product(t, a, b);
    }
    return s;
}

/* The sum of some chunks of SMM_CHUNK terms, of which the last of all may be shorter: a binary tree by index. The
 * greatest power of two below `count` chunks are added to the others, each of the two in this way: so level by level
 * neighbours 2t and 2t + 1 are added, and an odd last one goes up as it is. */
static number of_chunks(element e, intptr_t first, intptr_t count) {
    if (count == 1) return in_a_row(e, first * SMM_CHUNK, min_of(e.call->k, (first + 1) * SMM_CHUNK));
    intptr_t half = 1;
    while (2 * half < count) half *= 2;
    return sum(e.call->dtype, of_chunks(e, first, half), of_chunks(e, first + half, count - half));
}

/* The products of an element are summed in a row or, if there are more than SMM_DEEP, in chunks; then
 * alpha sum + (beta c). */
void smm_reference_matmul(const smm_call *call) {
    const smm_dtype t = call->dtype;
    const smm_matmul_operands *x = &call->matmul;
    for (intptr_t q = 0; q < call->batch; q++) {
        const number alpha = x->alpha.data ? get_number(&x->alpha, t, q, 0, 0) : one;
        const number beta = x->beta.data ? get_number(&x->beta, t, q, 0, 0) : zero;
        for (intptr_t i = 0; i < call->m; i++)
            for (intptr_t j = 0; j < call->n; j++) {
                const element e = {call, q, i, j};
                number c =
                    call->k > SMM_DEEP ? of_chunks(e, 0, (call->k - 1) / SMM_CHUNK + 1) : in_a_row(e, 0, call->k);
                if (!is_zero(beta))
                    c = add_product(t, alpha, c, product(t, beta, get_number(&x->c, t, q, i, j)));
                else if (x->alpha.data)
                    c = product(t, alpha, c);
                put_number(&x->c, t, q, i, j, c);
            }
    }
}
