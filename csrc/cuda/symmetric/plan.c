/* plan.c: whether the kernel of L D L^T can run a problem, and in what grid. */
#include "../plan.h"

bool smm_ldl_threads_fits(const smm_cuda_problem *p, const smm_cuda_parameters *x, smm_cuda_grid *grid) {
    if (p->op != SMM_OP_LDL && p->op != SMM_OP_LDL_SOLVE && p->op != SMM_OP_SOLVE_SYM) return false;
    if (!smm_cuda_whole_matrices(p, x, grid)) return false;
    const int elements = p->n * (p->n + 1) / 2 + (p->op == SMM_OP_LDL ? 0 : p->n);
    grid->shared = grid->matrices * (elements * bytes_of(p) + p->n * (int)sizeof(int));
    return true;
}

/* A matrix for each thread of a warp where shared memory holds them, else for one in two or in four. */
void smm_ldl_threads_baseline(const smm_cuda_problem *p, smm_cuda_parameters *x) {
    enum { ROOM = 94 << 10 };
    int lanes = 1;
    while (32 / lanes * (p->n * (p->n + 3) / 2) * bytes_of(p) > ROOM) lanes *= 2;
    *x = (smm_cuda_parameters){.kernel = SMM_CUDA_KERNEL_ldl_threads, .lanes = lanes, .threads = p->n <= 12 ? 64 : 32};
}
