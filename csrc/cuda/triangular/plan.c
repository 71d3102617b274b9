/* plan.c: whether the kernel of triangular solves, and of those from factors, can run a problem. */
#include "../plan.h"

bool smm_triangular_lanes_fits(const smm_cuda_problem *p, const smm_cuda_parameters *x, smm_cuda_grid *grid) {
    enum { MOST_ROWS = 16, COLUMNS = 4 };
    if (p->op != SMM_OP_LU_SOLVE && p->op != SMM_OP_CHO_SOLVE && p->op != SMM_OP_SOLVE_TRIANGULAR &&
        p->op != SMM_OP_SOLVE_POS)
        return false;
    if (!smm_cuda_whole_matrices(p, x, grid) || ceil_div(p->n, x->lanes) > MOST_ROWS) return false;
    grid->aligned = p->aligned && grid->matrices % group_of(p, p->n * p->n) == 0;
    grid->shared = smm_cuda_image_bytes(p, x, grid, p->source_a, p->n, p->n);
    if (p->op == SMM_OP_LU_SOLVE) grid->shared += grid->matrices * p->n * least(p->k, COLUMNS) * bytes_of(p);
    return true;
}

void smm_triangular_lanes_baseline(const smm_cuda_problem *p, smm_cuda_parameters *x) {
    *x = (smm_cuda_parameters){.kernel = SMM_CUDA_KERNEL_triangular_lanes,
                               .lanes = p->n <= 3    ? 1
                                        : p->n <= 6  ? 2
                                        : p->n <= 12 ? 4
                                        : p->n <= 16 ? 8
                                                     : 16,
                               .threads = 64,
                               .pad = 1,
                               .async = 1};
}
