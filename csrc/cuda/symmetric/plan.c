/* plan.c: whether the kernel of L D L^T can run a problem, and in what grid. */
#include "../plan.h"

bool smm_ldl_threads_fits(const smm_cuda_problem *p, const smm_cuda_parameters *x, smm_cuda_grid *grid) {
    if (p->op != SMM_OP_LDL && p->op != SMM_OP_LDL_SOLVE && p->op != SMM_OP_SOLVE_SYM) return false;
    if (x->threads < 32 || x->threads > 1024 || x->threads % 32) return false;
    const int elements = p->n * (p->n + 1) / 2 + (p->op == SMM_OP_LDL ? 0 : p->n);
    *grid = (smm_cuda_grid){.matrices = x->threads,
                            .threads = x->threads,
                            .shared = x->threads * (elements * bytes_of(p) + p->n * (int)sizeof(int)),
                            .aligned = p->aligned};
    return true;
}

void smm_ldl_threads_baseline(const smm_cuda_problem *p, smm_cuda_parameters *x) {
    *x = (smm_cuda_parameters){.kernel = SMM_CUDA_KERNEL_ldl_threads, .threads = p->n <= 12 ? 64 : 32};
}
