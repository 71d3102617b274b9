/* batch.c: the batch dimensions of a call, merged where that changes nothing. */
#include <string.h>

#include "core.h"

bool smm_add_dimension(smm_outer *to, intptr_t extent, const intptr_t stride[SMM_MOST_OPERANDS]) {
    if (extent == 1) return true;
    const int last = to->dims - 1;
    bool merges = last >= 0;
    for (int i = 0; i < SMM_MOST_OPERANDS && merges; i++) merges = stride[i] == to->stride[last][i] * to->extent[last];
    if (merges) {
        to->extent[last] *= extent;
        return true;
    }
    if (to->dims == SMM_MOST_DIMS) return false;
    memcpy(to->stride[to->dims], stride, sizeof to->stride[0]);
    to->extent[to->dims++] = extent;
    return true;
}

void smm_take_batch(smm_call *call, smm_outer *from) {
    enum { FEW = 32 }; /* a batch of fewer matrices is not worth a kernel's start if another dimension is longer */
    int own = 0;
    for (int d = 1; d < from->dims && from->extent[0] < FEW; d++)
        if (from->extent[d] > from->extent[own]) own = d;
    call->batch = from->dims ? from->extent[own] : 1;
    for (int i = 0; i < SMM_MOST_OPERANDS; i++) call->operand[i].batch = from->dims ? from->stride[own][i] : 0;
    for (int d = own + 1; d < from->dims; d++) {
        from->extent[d - 1] = from->extent[d];
        memcpy(from->stride[d - 1], from->stride[d], sizeof from->stride[d]);
    }
    from->dims -= from->dims > 0;
    call->outer = from->dims ? from : NULL;
}
