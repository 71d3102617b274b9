/* plan.c: whether the kernel of triangular solves, and of those from factors, can run a problem. */
#include "../plan.h"

bool smm_triangular_lanes_fits(const smm_cuda_problem *p, const smm_cuda_parameters *x, smm_cuda_grid *grid) {
    enum { MAX_ROWS = 16 };
    if (p->op != SMM_OP_LU_SOLVE && p->op != SMM_OP_CHO_SOLVE && p->op != SMM_OP_SOLVE_TRIANGULAR) return false;
    if (!smm_cuda_whole_matrices(p, x, grid) || ceil_div(p->n, x->lanes) > MAX_ROWS) return false;
    const bool several = p->k > 1, by_lu = p->op == SMM_OP_LU_SOLVE;
    const int numbers = grid->matrices * p->n;
    grid->aligned = p->aligned && grid->matrices % group_of(p, p->n * p->n) == 0 &&
                    (!several || grid->matrices % group_of(p, p->n * p->k) == 0);
    grid->shared = smm_cuda_image_bytes(p, x, grid, p->source_a, p->n, p->n, several);
    if (several) grid->shared += smm_cuda_rhs_bytes(p, grid) + numbers * bytes_of(p);
    if (by_lu) grid->shared += numbers * (several ? (int)sizeof(int) : bytes_of(p));
    return true;
}

void smm_triangular_lanes_baseline(const smm_cuda_problem *p, smm_cuda_parameters *x) {
    enum { MAX_LANES = 16 };
    const int by_rows = p->n <= 3 ? 1 : p->n <= 6 ? 2 : p->n <= 12 ? 4 : p->n <= 16 ? 8 : MAX_LANES;
    const int fewest = p->n <= 3 ? 1 : p->n <= 6 ? 2 : p->n <= 24 ? 4 : 8; /* fewer have too many matrices in a block */
    const int column_major = min_of(MAX_LANES, max_of(fewest, power_of_two(ceil_div(p->k, SMM_CUDA_OWN))));
    *x = (smm_cuda_parameters){.kernel = SMM_CUDA_KERNEL_triangular_lanes,
                               .lanes = p->k > 1 ? column_major : by_rows,
                               .threads = 64,
                               .pad = 1,
                               .async = 1};
}
