/* plan.c: whether the kernel of L D L^T can run a problem, and in what grid. */
#include "../plan.h"

bool smm_ldl_threads_fits(const smm_cuda_problem *p, const smm_cuda_parameters *x, smm_cuda_grid *grid) {
    if (p->op != SMM_OP_LDL && p->op != SMM_OP_LDL_SOLVE && p->op != SMM_OP_SOLVE_SYM) return false;
    if (!smm_cuda_whole_matrices(p, x, grid)) return false;
    const int elements = p->n * (p->n + 1) / 2 + (p->op == SMM_OP_LDL ? 0 : p->n);
    grid->shared = grid->matrices * (elements * bytes_of(p) + p->n * (int)sizeof(int));
    return true;
}

void smm_ldl_threads_baseline(const smm_cuda_problem *p, smm_cuda_parameters *x) {
    enum { HALF_A_WARP = 25 }; /* orders of doubles from which shared memory holds no matrix for each thread */
    *x = (smm_cuda_parameters){.kernel = SMM_CUDA_KERNEL_ldl_threads,
                               .lanes = bytes_of(p) == 8 && p->n > HALF_A_WARP ? 2 : 1,
                               .threads = p->n <= 12 ? 64 : 32};
}
