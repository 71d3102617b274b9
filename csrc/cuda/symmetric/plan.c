/* plan.c: whether the kernel of L D L^T can run a problem, and in what grid. */
#include "../plan.h"

/* Of Work in ldl.cuh. */
static int bytes_of_matrix(const smm_cuda_problem *p, int lanes) {
    const int size = bytes_of(p), n = p->n;
    const int columns = p->op == SMM_OP_LDL ? 0 : min_of(max_of(p->k, 1), lanes);
    const int beside = max_of(p->op == SMM_OP_LDL_SOLVE ? 0 : 2 * n, n * columns);
    const int needed = n * (n + 1) / 2 + beside + ceil_div(n * (int)sizeof(int), size);
    return elements_apart(p, lanes, needed) * size;
}

bool smm_ldl_lanes_fits(const smm_cuda_problem *p, const smm_cuda_parameters *x, smm_cuda_grid *grid) {
    if (p->op != SMM_OP_LDL && p->op != SMM_OP_LDL_SOLVE && p->op != SMM_OP_SOLVE_SYM) return false;
    const bool by_block = x->lanes > 32;
    if (!smm_cuda_whole_matrices(p, x, grid) || by_block != (p->n > SMM_CUDA_MAX_ORDER)) return false;
    if (x->outside && !by_block) return false;
    grid->shared = x->outside ? 0 : grid->matrices * bytes_of_matrix(p, x->lanes);
    return true;
}

/* Few lanes, which are rarely idle, but so many that shared memory has room for some warps, and one for each of several
 * right-hand sides; of few complex matrices one for each row, which at orders 8 and 32 takes 0.45 to 0.74 of the time
 * (H200, November 2026). */
void smm_ldl_lanes_baseline(const smm_cuda_problem *p, smm_cuda_parameters *x) {
    enum { OF_WARP = 12 << 10 };
    int lanes = p->n <= 4 ? 1 : p->n <= 8 ? 2 : 4;
    if (p->op == SMM_OP_LDL && p->n >= 4) lanes *= 2;
    if (p->op != SMM_OP_LDL && p->k > 1) lanes = max_of(lanes, min_of(power_of_two(p->k), 32));
    if (p->small && p->n > 4 && smm_is_complex(p->dtype)) lanes = max_of(lanes, power_of_two(p->n));
    if (p->n > SMM_CUDA_MAX_ORDER) lanes = p->n <= 64 ? 64 : 128;
    while (lanes < 32 && 32 / lanes * bytes_of_matrix(p, lanes) > OF_WARP) lanes *= 2;
    *x = (smm_cuda_parameters){
        .kernel = SMM_CUDA_KERNEL_ldl_lanes, .lanes = lanes, .threads = p->n <= 12 ? 64 : max_of(lanes, 32)};
}

double smm_ldl_lanes_workspace(const smm_cuda_problem *p, const smm_cuda_parameters *x, const smm_cuda_args *args) {
    (void)args;
    return x->outside ? bytes_of_matrix(p, x->lanes) : 0;
}
