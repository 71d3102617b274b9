/* kernels.c: the core's matmul on square matrices, called in a loop as a C program would. kernels.py
 * compiles it with the core; harness.py times it. */
#include "smallmm.h"

/* C = A B, `times` times, for dense row-major stacks (batch, n, n). */
smm_status run_square(int dtype, intptr_t n, intptr_t batch, void *a, void *b, void *c, intptr_t times) {
    const intptr_t size = dtype == SMM_F32 ? 4 : 8;
    const smm_operand dense = {.batch = n * n * size, .row = n * size, .col = size};
    smm_call call = {.op = SMM_OP_MATMUL, .dtype = dtype, .batch = batch, .m = n, .n = n, .k = n};
    call.a = call.b = call.c = dense;
    call.a.data = a;
    call.b.data = b;
    call.c.data = c;
    smm_status status = SMM_OK;
    for (intptr_t t = 0; t < times && status == SMM_OK; t++) status = smm_run(&call);
    return status;
}
