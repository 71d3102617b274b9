/* plan_linalg.c: which of the kernels of factorizations and solves can run a problem, and in what grid. */
#include "plan.h"

/* Threads of a block hold whole matrices, `lanes` threads to each. */
static bool whole_matrices(const smm_cuda_problem *p, const smm_cuda_parameters *x, smm_cuda_grid *grid) {
    const int lanes = x->lanes;
    if (lanes < 1 || lanes > 32 || lanes & (lanes - 1) || x->threads % 32 || x->threads < 32 || x->threads > 1024)
        return false;
    *grid = (smm_cuda_grid){.matrices = x->threads / lanes, .threads = x->threads, .aligned = p->aligned};
    return true;
}

static bool by_lu(const smm_cuda_problem *p) {
    return p->op == SMM_OP_LU || p->op == SMM_OP_SOLVE || p->op == SMM_OP_DET || p->op == SMM_OP_SLOGDET;
}

/* MATRIX of lu_blocked.cuh in bytes. */
static int blocked_matrix_bytes(const smm_cuda_problem *p, const smm_cuda_parameters *x) {
    const int vector = 16 / bytes_of(p), right = ceil_div(p->n, vector) * vector;
    const int cols = right + (p->op == SMM_OP_SOLVE ? ceil_div(p->k, vector) * vector : 0);
    const int pitch = x->pad && cols / vector % 2 == 0 ? cols + vector : cols;
    const int beside = (p->op == SMM_OP_SOLVE ? right : vector) + 3 * vector;
    const int elements = p->n * pitch + beside;
    return (elements + (elements / vector % 2 == 0 ? vector : 0)) * bytes_of(p);
}

bool smm_lu_blocked_fits(const smm_cuda_problem *p, const smm_cuda_parameters *x, smm_cuda_grid *grid) {
    enum { MOST_PANEL_BYTES = 256 }; /* of a lane's registers */
    if (!by_lu(p) || x->lanes < 4 || (x->panel != 4 && x->panel != 8) || !whole_matrices(p, x, grid)) return false;
    if (x->lanes > 8 && x->lanes > p->n) return false;
    if (ceil_div(p->n, x->lanes) * x->panel * bytes_of(p) > MOST_PANEL_BYTES) return false;
    grid->shared = grid->matrices * blocked_matrix_bytes(p, x);
    return true;
}

void smm_lu_blocked_baseline(const smm_cuda_problem *p, smm_cuda_parameters *x) {
    *x = (smm_cuda_parameters){.kernel = SMM_CUDA_KERNEL_lu_blocked,
                               .lanes = p->n <= 8                           ? 4
                                        : p->n <= 24 || p->dtype == SMM_F32 ? 8
                                                                            : 16,
                               .panel = p->n <= 16 ? 4 : 8,
                               .threads = 32,
                               .pad = 1};
}

bool smm_cholesky_lanes_fits(const smm_cuda_problem *p, const smm_cuda_parameters *x, smm_cuda_grid *grid) {
    enum { MOST_BYTES = 640 }; /* of a lane's rows in registers */
    if (p->op != SMM_OP_CHOLESKY || !whole_matrices(p, x, grid)) return false;
    if (ceil_div(p->n, x->lanes) * p->n * bytes_of(p) > MOST_BYTES) return false;
    grid->aligned = p->aligned && grid->matrices % group_of(p, p->n * p->n) == 0;
    grid->shared = most(smm_cuda_image_bytes(p, x, grid, p->source_a, p->n, p->n),
                        smm_cuda_image_bytes(p, x, grid, p->source_c, p->n, p->n));
    return true;
}

void smm_cholesky_lanes_baseline(const smm_cuda_problem *p, smm_cuda_parameters *x) {
    *x = (smm_cuda_parameters){.kernel = SMM_CUDA_KERNEL_cholesky_lanes,
                               .lanes = p->n <= 2    ? 1
                                        : p->n <= 4  ? 2
                                        : p->n <= 9  ? 4
                                        : p->n <= 23 ? 8
                                                     : 16,
                               .threads = 64,
                               .pad = 1,
                               .async = 1};
}

bool smm_triangular_lanes_fits(const smm_cuda_problem *p, const smm_cuda_parameters *x, smm_cuda_grid *grid) {
    enum { MOST_ROWS = 16, COLUMNS = 4 };
    if (p->op != SMM_OP_LU_SOLVE && p->op != SMM_OP_CHO_SOLVE && p->op != SMM_OP_SOLVE_TRIANGULAR) return false;
    if (!whole_matrices(p, x, grid) || ceil_div(p->n, x->lanes) > MOST_ROWS) return false;
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
