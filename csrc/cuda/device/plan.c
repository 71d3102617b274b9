/* plan.c: what the plans of several families share: how matrices fill a block, registers and images. */
#include "../plan.h"

/* Threads of a block hold whole matrices, `lanes` threads to each; more of them than a warp hold one. */
bool smm_cuda_whole_matrices(const smm_cuda_problem *p, const smm_cuda_parameters *x, smm_cuda_grid *grid) {
    const int lanes = x->lanes;
    if (lanes < 1 || lanes & (lanes - 1) || x->threads % 32 || x->threads < 32 || x->threads > 1024) return false;
    if (lanes > 32 && x->threads != lanes) return false;
    *grid = (smm_cuda_grid){.matrices = x->threads / lanes, .threads = x->threads, .aligned = p->aligned};
    if (x->outside) grid->resident = SMM_CUDA_AS_MANY_AS_FIT;
    return true;
}

/* Rows or columns in registers: not so many that they spill. */
bool smm_cuda_rows_fit(const smm_cuda_problem *p, const smm_cuda_parameters *x) {
    enum { MAX_BYTES = 840 };
    return ceil_div(p->n, x->lanes) * p->n * bytes_of(p) <= MAX_BYTES;
}

/* All steps in one text: not so many operations that it takes seconds to compile. */
bool smm_cuda_steps_fit(const smm_cuda_problem *p, const smm_cuda_parameters *x, int max_operations) {
    return ceil_div(p->n, x->lanes) * p->n * p->n <= max_operations;
}

/* Bytes of an image, as Image::ELEMENTS of shared_tile.cuh. */
int smm_cuda_image_bytes(const smm_cuda_problem *p, const smm_cuda_parameters *x, const smm_cuda_grid *grid, int source,
                         int lines, int length, int skew) {
    const int vector = 16 / bytes_of(p);
    const bool whole = grid->aligned && length && length % vector == 0,
               pad = x->pad && whole && length / vector % 2 == 0;
    const int matrix = lines * (length + (pad ? vector : 0)) + (whole ? skew * vector : 0);
    const int elements = (source == SMM_SOURCE_ONE ? 1 : grid->matrices) * matrix + (grid->aligned ? 0 : vector - 1);
    return ceil_div(elements, vector) * 16;
}

/* None where they do not lie flat, in the same order as the results. */
int smm_cuda_rhs_bytes(const smm_cuda_problem *p, const smm_cuda_grid *grid) {
    const smm_cuda_parameters plain = {0};
    const bool by_rows = p->order_b == SMM_ORDER_ROW;
    const bool flat = p->source_b == SMM_SOURCE_FLAT && p->source_c == SMM_SOURCE_FLAT && p->order_b == p->order_c;
    if (!flat || !grid->aligned) return 0;
    return smm_cuda_image_bytes(p, &plain, grid, SMM_SOURCE_FLAT, by_rows ? p->n : p->k, by_rows ? p->k : p->n, 1);
}
