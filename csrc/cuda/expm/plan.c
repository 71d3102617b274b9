/* plan.c: whether the kernel of exponentials can run a problem, and in what grid. */
#include "../plan.h"

/* Of Work in expm.cuh. */
static int bytes_of_matrix(const smm_cuda_problem *p, int lanes) {
    const int rows = smm_is_complex(p->dtype) ? p->n : 2 * p->n;
    return elements_apart(p, lanes, 6 * p->n * p->n + rows) * bytes_of(p);
}

/* A block has a large matrix, a warp others. */
bool smm_expm_shared_fits(const smm_cuda_problem *p, const smm_cuda_parameters *x, smm_cuda_grid *grid) {
    return p->op == SMM_OP_EXPM && (x->lanes > 32) == (p->n > SMM_CUDA_MAX_ORDER) &&
           smm_cuda_work_fits(p, x, false, bytes_of_matrix(p, x->lanes), grid);
}

double smm_expm_shared_workspace(const smm_cuda_problem *p, const smm_cuda_parameters *x, const smm_cuda_args *args) {
    (void)args;
    return x->outside ? bytes_of_matrix(p, x->lanes) : 0;
}

/* A column for each lane; of few rows fewer lanes, so that shared memory has room for several warps. */
void smm_expm_shared_baseline(const smm_cuda_problem *p, smm_cuda_parameters *x) {
    enum { OF_BLOCK = 48 << 10, FEW_ROWS = 48, MANY_ROWS = 64 };
    int lanes = p->n <= 2 ? 1 : min_of(power_of_two(p->n), 32);
    while (lanes < 32 && 32 / lanes * bytes_of_matrix(p, lanes) > OF_BLOCK) lanes *= 2;
    if (p->n > SMM_CUDA_MAX_ORDER)
        lanes = p->n <= FEW_ROWS ? 128 : p->n <= MANY_ROWS || smm_is_complex(p->dtype) ? 256 : 512;
    *x = (smm_cuda_parameters){.kernel = SMM_CUDA_KERNEL_expm_shared, .lanes = lanes, .threads = max_of(lanes, 32)};
}
