/* plan.c: whether the kernel of condition numbers, backward errors and refinement can run a problem. */
#include "../plan.h"

bool smm_refinement_thread_fits(const smm_cuda_problem *p, const smm_cuda_parameters *x, smm_cuda_grid *grid) {
    const bool serves = p->op == SMM_OP_LU_RCOND || p->op == SMM_OP_BACKWARD_ERROR || p->op == SMM_OP_REFINE;
    return serves && x->lanes == 1 && smm_cuda_whole_matrices(p, x, grid);
}

void smm_refinement_thread_baseline(const smm_cuda_problem *p, smm_cuda_parameters *x) {
    (void)p;
    *x = (smm_cuda_parameters){.kernel = SMM_CUDA_KERNEL_refinement_thread, .lanes = 1, .threads = 64};
}
