/* kernels.c: calls of the core, in a loop as a C program would run them. kernels.py compiles it with the core;
 * smallmm/_tools/bench.py times it. */
#include "smallmm.h"

smm_status run_repeatedly(const smm_call *call, intptr_t times) {
    smm_status status = SMM_OK;
    for (intptr_t t = 0; t < times && status == SMM_OK; t++) status = smm_run(call);
    return status;
}
