/* plan.c: which of the kernels of the inverse can run a problem, and in what grid. */
#include "../../math/inverse.h"
#include "../plan.h"

/* MATRIX of inv_lanes.cuh and inv_rows.cuh, in elements. */
static int lanes_matrix(const smm_cuda_problem *p, int lanes) {
    const int vector = 16 / bytes_of(p), vectors = p->n / vector;
    if (p->n % vector) return p->n * p->n;
    const int matrix = p->n * (lanes > 1 ? vectors | 1 : vectors); /* in vectors */
    return (matrix + (lanes < 8 ? (3 * lanes - matrix % (2 * lanes)) % (2 * lanes) : 0)) * vector;
}

bool smm_inv_lanes_fits(const smm_cuda_problem *p, const smm_cuda_parameters *x, smm_cuda_grid *grid) {
    if (p->op != SMM_OP_INV || !smm_cuda_whole_matrices(p, x, grid) || !smm_cuda_rows_fit(p, x) ||
        !smm_cuda_steps_fit(p, x, 768))
        return false;
    grid->aligned = p->aligned && grid->matrices % group_of(p, p->n * p->n) == 0;
    grid->shared = round_up_to_vectors(p, grid->matrices * lanes_matrix(p, x->lanes)) * bytes_of(p);
    return true;
}

void smm_inv_lanes_baseline(const smm_cuda_problem *p, smm_cuda_parameters *x) {
    *x = (smm_cuda_parameters){.kernel = SMM_CUDA_KERNEL_inv_lanes,
                               .lanes = p->n <= 8    ? 1
                                        : p->n <= 12 ? 2
                                        : p->n <= 16 ? 4
                                        : p->n <= 20 ? 8
                                                     : 32,
                               .threads = 64,
                               .async = p->n * bytes_of(p) > 16};
}

bool smm_inv_rows_fits(const smm_cuda_problem *p, const smm_cuda_parameters *x, smm_cuda_grid *grid) {
    if (p->op != SMM_OP_INV || p->n < 4 || x->lanes < 2 || x->lanes >= 2 * p->n ||
        !smm_cuda_whole_matrices(p, x, grid) || !smm_cuda_rows_fit(p, x))
        return false;
    const int vector = 16 / bytes_of(p), of_warp = 32 / x->lanes, published = 2 * round_up_to_vectors(p, p->n) + vector;
    const int images = round_up_to_vectors(p, of_warp * max_of(lanes_matrix(p, x->lanes), published)) * bytes_of(p);
    grid->aligned = p->aligned && grid->matrices % group_of(p, p->n * p->n) == 0;
    grid->shared = x->threads / 32 * (images + ceil_div(of_warp * 2 * p->n, 16) * 16);
    return true;
}

/* From order 9 on; below, a thread to a matrix is faster. */
void smm_inv_rows_baseline(const smm_cuda_problem *p, smm_cuda_parameters *x) {
    const int lanes = p->n <= 16 ? 4 : bytes_of(p) == 4 ? 8 : 16;
    *x = (smm_cuda_parameters){.kernel = SMM_CUDA_KERNEL_inv_rows,
                               .lanes = p->n <= 8  ? 0
                                        : p->small ? 2 * lanes
                                                   : lanes,
                               .threads = 64};
}

/* A warp to a matrix of doubles, in blocks of 8 x 8. */
bool smm_inv_tensor_fits(const smm_cuda_problem *p, const smm_cuda_parameters *x, smm_cuda_grid *grid) {
    enum { PANEL = 4 }; /* columns */
    if (p->op != SMM_OP_INV || p->dtype != SMM_F64 || p->n <= 8 || x->lanes != 32) return false;
    if (!smm_cuda_whole_matrices(p, x, grid)) return false;
    const int blocks = ceil_div(p->n, 8);
    const bool column_major = p->source_c == SMM_SOURCE_FLAT && p->order_c == SMM_ORDER_ROW; /* of C^T */
    const int pitch = (8 * blocks + 4) * 8; /* its PITCH and IMAGE_PITCH */
    const int image_pitch = (column_major ? 8 * blocks + 2 : 8 * (blocks | 1)) * 8;
    const int of_panel = 2 * PANEL * pitch + PANEL * PANEL * 8;
    grid->shared = grid->matrices * (max_of(of_panel, p->n * image_pitch) + 32);
    return true;
}

void smm_inv_tensor_baseline(const smm_cuda_problem *p, smm_cuda_parameters *x) {
    const bool serves = !p->small && p->n >= 23;
    *x = (smm_cuda_parameters){
        .kernel = SMM_CUDA_KERNEL_inv_tensor, .lanes = serves ? 32 : 0, .threads = 32, .blocks = 16, .ahead = 1};
}
