/* plan.c: whether the kernels of eigenvalues and singular values can run a problem, and in what grid. */
#include "../plan.h"

/* Work of eigh_shared.cuh. */
bool smm_eigh_shared_fits(const smm_cuda_problem *p, const smm_cuda_parameters *x, smm_cuda_grid *grid) {
    if ((p->op != SMM_OP_EIGH && p->op != SMM_OP_EIGVALSH) || !smm_cuda_whole_matrices(p, x, grid)) return false;
    const int size = bytes_of(p), elements = p->n * (p->n | 1) + 2 * p->n, numbers = 4 * p->n;
    const int bytes = ceil_div(elements * size + numbers * bytes_of_part(p) + 8, size) * size;
    if (!smm_cuda_are_few(p, x)) grid->shared = grid->matrices * bytes;
    return true;
}

void smm_eigh_shared_baseline(const smm_cuda_problem *p, smm_cuda_parameters *x) {
    const int rows = p->n > 16 ? 2 : 4; /* of a lane: as the tuner chose for most orders (H100, November 2026) */
    int lanes = 1;
    while (lanes * rows < p->n) lanes *= 2;
    const int threads = p->n <= 4 ? 64 : 32;
    *x = (smm_cuda_parameters){.kernel = SMM_CUDA_KERNEL_eigh_shared, .lanes = lanes, .threads = threads};
}

/* Bytes of Work of svd_shared.cuh. */
static int svd_matrix_bytes(const smm_cuda_problem *p) {
    const int n = least(p->m, p->n), size = bytes_of(p);
    const int x = most(p->m, p->n) * (smm_is_complex(p->dtype) ? n | 1 : n), a = n <= 4 ? x : 1;
    const int r = n <= 4 || p->op != SMM_OP_SVDVALS ? n * (n | 1) : 1;
    return ceil_div((x + a + n + r) * size + 5 * n * bytes_of_part(p) + (2 + n) * (int)sizeof(int), size) * size;
}

bool smm_svd_shared_fits(const smm_cuda_problem *p, const smm_cuda_parameters *x, smm_cuda_grid *grid) {
    const bool serves = p->op == SMM_OP_SVD || p->op == SMM_OP_SVD_FULL || p->op == SMM_OP_SVDVALS;
    if (!serves || !smm_cuda_whole_matrices(p, x, grid)) return false;
    if (!smm_cuda_are_few(p, x)) grid->shared = grid->matrices * svd_matrix_bytes(p);
    return true;
}

void smm_svd_shared_baseline(const smm_cuda_problem *p, smm_cuda_parameters *x) {
    /* As timed on an H100 (November 2026). */
    const int n = least(p->m, p->n), longer = most(p->m, p->n);
    int lanes = 1;
    while (longer > 4 && lanes < (n > 8 ? n : n / 2)) lanes *= 2;
    *x = (smm_cuda_parameters){.kernel = SMM_CUDA_KERNEL_svd_shared,
                               .lanes = lanes,
                               .threads = longer > 4    ? 32
                                          : longer == 4 ? 256
                                                        : 128};
    if (!smm_is_complex(p->dtype)) return;
    enum { MOST_SHARED = 64 << 10 }; /* so that large ones leave room for several blocks */
    if (smm_cuda_are_few(p, x)) x->threads = 128;
    while (!smm_cuda_are_few(p, x) && x->lanes < 32 && x->threads / x->lanes * svd_matrix_bytes(p) > MOST_SHARED)
        x->lanes *= 2;
}

/* Work of eig.cuh. */
bool smm_eig_shared_fits(const smm_cuda_problem *p, const smm_cuda_parameters *x, smm_cuda_grid *grid) {
    if ((p->op != SMM_OP_EIG && p->op != SMM_OP_EIGVALS) || !smm_cuda_whole_matrices(p, x, grid)) return false;
    const int size = bytes_of(p), elements = 2 * p->n * (p->n | 1) + most(p->n, 3) + p->n;
    const int bytes = ceil_div(elements * size + p->n * bytes_of_part(p) + 4 * (int)sizeof(int), size) * size;
    if (!smm_cuda_are_few(p, x)) grid->shared = grid->matrices * bytes;
    return true;
}

/* Not measured. */
void smm_eig_shared_baseline(const smm_cuda_problem *p, smm_cuda_parameters *x) {
    int lanes = 1;
    while (p->n > 4 && lanes < p->n && lanes < 32) lanes *= 2;
    *x = (smm_cuda_parameters){.kernel = SMM_CUDA_KERNEL_eig_shared, .lanes = lanes, .threads = 32};
}
