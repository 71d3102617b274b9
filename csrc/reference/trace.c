/* trace.c: the sum of the diagonal, from its first element on. */
#include "reference.h"

void smm_reference_trace(const smm_call *call) {
    for (intptr_t q = 0; q < call->batch; q++) {
        double sum = 0;
        for (intptr_t i = 0; i < call->n; i++) sum = round_in(call->dtype, sum + get(&call->a, call->dtype, q, i, i));
        put(&call->trace.trace, call->dtype, q, 0, 0, sum);
    }
}
