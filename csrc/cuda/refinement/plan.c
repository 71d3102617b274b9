/* plan.c: whether the kernels of condition numbers, backward errors, refinement and mixed precision can run a problem,
 * in what grid. */
#include "../plan.h"

/* MATRIX of refinement_lanes.cuh. */
static int bytes_of_matrix(const smm_cuda_problem *p, int lanes) {
    const int image = p->n * (p->n | 1), images = p->op == SMM_OP_REFINE ? 2 : 1;
    return elements_apart(p, lanes, images * image + p->n) * bytes_of(p);
}

bool smm_refinement_lanes_fits(const smm_cuda_problem *p, const smm_cuda_parameters *x, smm_cuda_grid *grid) {
    enum { MAX_BYTES = 64, BLOCKS = 4 }; /* of a vector in the registers of a thread; outside, of a multiprocessor */
    const bool serves = p->op == SMM_OP_LU_RCOND || p->op == SMM_OP_BACKWARD_ERROR || p->op == SMM_OP_REFINE;
    const bool fits = smm_cuda_work_fits(p, x, false, bytes_of_matrix(p, x->lanes), grid);
    if (x->outside) grid->resident = BLOCKS;
    return serves && fits && x->lanes <= 32 && ceil_div(p->n, x->lanes) * bytes_of(p) <= MAX_BYTES;
}

/* Few lanes, which are rarely idle, but so many that shared memory has room for some warps. */
void smm_refinement_lanes_baseline(const smm_cuda_problem *p, smm_cuda_parameters *x) {
    enum { OF_WARP = 24 << 10 };
    int lanes = p->n <= 8 ? 1 : p->n <= 12 ? 2 : p->n <= 16 ? 4 : 8;
    if (bytes_of(p) == 16 && p->n > 4) lanes *= 2;
    while (lanes < 32 && 32 / lanes * bytes_of_matrix(p, lanes) > OF_WARP) lanes *= 2;
    *x = (smm_cuda_parameters){.kernel = SMM_CUDA_KERNEL_refinement_lanes, .lanes = lanes, .threads = 32};
}

double smm_refinement_lanes_workspace(const smm_cuda_problem *p, const smm_cuda_parameters *x,
                                      const smm_cuda_args *args) {
    (void)args;
    return x->outside ? bytes_of_matrix(p, x->lanes) : 0;
}

/* ELEMENTS and WIDE of mixed_lanes.cuh, in bytes. */
static int bytes_of_mixed(const smm_cuda_problem *p, int lanes) {
    const int n = p->n, image = n * (ceil_div(n, 4) | 1) * 4, matrix = n * pitch_of(n);
    const int narrow = p->form & SMM_POSITIVE ? ceil_div(max_of(matrix, image), 4) * 4
                       : lanes == 1           ? n
                                              : (image / 4 + 3 | 1) * 4;
    return elements_apart(p, lanes, matrix + n) * bytes_of(p) + narrow * 4;
}

bool smm_mixed_lanes_fits(const smm_cuda_problem *p, const smm_cuda_parameters *x, smm_cuda_grid *grid) {
    enum { MAX_FACTORS = 96, MAX_HELD = 40, MAX_PANEL = 64 }; /* elements in the registers of a thread */
    const bool by_panels = !(p->form & SMM_POSITIVE) && x->lanes > 1;
    const int rows = ceil_div(p->n, x->lanes), elements = rows * p->n;
    if (p->op != SMM_OP_SOLVE_MIXED || p->dtype != SMM_F64 || x->lanes > 32 || (x->lanes > 8 && x->lanes > p->n) ||
        !smm_cuda_work_fits(p, x, false, bytes_of_mixed(p, x->lanes), grid))
        return false;
    if (by_panels && ((x->panel != 4 && x->panel != 8) || rows * x->panel > MAX_PANEL)) return false;
    return elements <= MAX_FACTORS && (x->refetch || elements <= MAX_HELD);
}

/* At orders 8, 16, 24 and 32 the fastest of those that were timed (one H200, November 2026). */
void smm_mixed_lanes_baseline(const smm_cuda_problem *p, smm_cuda_parameters *x) {
    const int lanes = p->n <= 8 ? 1 : p->n <= 12 ? 4 : p->n <= 20 ? 8 : 16;
    *x = (smm_cuda_parameters){.kernel = SMM_CUDA_KERNEL_mixed_lanes,
                               .lanes = lanes,
                               .panel = lanes == 1   ? 0
                                        : lanes == 4 ? 4
                                                     : 8,
                               .refetch = p->n > 4,
                               .threads = lanes == 16 ? 128 : 64};
}
