/* plan.c: whether the kernel of exponentials can run a problem, and in what grid. */
#include "../plan.h"

/* Of Work in expm.cuh. */
static int bytes_of_matrix(const smm_cuda_problem *p, int lanes) {
    const int rows = smm_is_complex(p->dtype) ? p->n : 2 * p->n;
    return elements_apart(p, lanes, 6 * p->n * p->n + rows) * bytes_of(p);
}

bool smm_expm_shared_fits(const smm_cuda_problem *p, const smm_cuda_parameters *x, smm_cuda_grid *grid) {
    if (p->op != SMM_OP_EXPM || !smm_cuda_whole_matrices(p, x, grid)) return false;
    grid->shared = grid->matrices * bytes_of_matrix(p, x->lanes);
    return true;
}

/* A column for each lane; of few rows fewer lanes, so that shared memory has room for several warps. */
void smm_expm_shared_baseline(const smm_cuda_problem *p, smm_cuda_parameters *x) {
    enum { OF_BLOCK = 48 << 10 };
    int lanes = p->n <= 2 ? 1 : least(power_of_two(p->n), 32);
    while (lanes < 32 && 32 / lanes * bytes_of_matrix(p, lanes) > OF_BLOCK) lanes *= 2;
    *x = (smm_cuda_parameters){.kernel = SMM_CUDA_KERNEL_expm_shared, .lanes = lanes, .threads = 32};
}
