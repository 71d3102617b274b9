/* plan.c: whether the kernels of complex matrices can run a problem, in what grid, and with which parameters. */
#include "../plan.h"

/* As pitch_of in device/number.cuh. */
static int pitch_of(int cols) { return cols | 1; }

static int tiles_of(const smm_cuda_problem *p, const smm_cuda_parameters *x) {
    return ceil_div(p->m, x->rows) * ceil_div(p->n, x->cols);
}

bool smm_matmul_numbers_fits(const smm_cuda_problem *p, const smm_cuda_parameters *x, smm_cuda_grid *grid) {
    enum { DEPTH = 32, MOST_ROWS = 4 };
    if (p->op != SMM_OP_MATMUL || x->rows < 1 || x->rows > MOST_ROWS || x->cols < 1 || x->cols > MOST_ROWS)
        return false;
    const int tiles = tiles_of(p, x), matrices = most(1, x->threads / tiles), depth = least(most(p->k, 1), DEPTH);
    const int threads = ceil_div(matrices * tiles, 32) * 32;
    if (threads > 1024) return false;
    *grid = (smm_cuda_grid){.matrices = matrices, .threads = threads, .aligned = p->aligned};
    grid->shared = matrices * (p->m * pitch_of(depth) + depth * pitch_of(p->n)) * bytes_of(p);
    return true;
}

/* Tiles of a thread: larger ones read shared memory less often. */
static int side_of_tile(int length) { return length <= 4 ? 1 : length <= 16 ? 2 : 4; }

void smm_matmul_numbers_baseline(const smm_cuda_problem *p, smm_cuda_parameters *x) {
    *x = (smm_cuda_parameters){.kernel = SMM_CUDA_KERNEL_matmul_numbers,
                               .rows = side_of_tile(p->m),
                               .cols = side_of_tile(p->n),
                               .threads = 128};
}

/* Whole matrices in shared memory, with so many columns of right-hand sides. */
static bool in_shared_memory(const smm_cuda_problem *p, const smm_cuda_parameters *x, int columns,
                             smm_cuda_grid *grid) {
    if (!smm_cuda_whole_matrices(p, x, grid)) return false;
    const int numbers = p->n * (pitch_of(p->n) + (columns ? pitch_of(columns) : 0));
    grid->shared = grid->matrices * (numbers * bytes_of(p) + p->n * (int)sizeof(int));
    return true;
}

/* A row for each lane. */
static smm_cuda_parameters by_rows(const smm_cuda_problem *p, int kernel) {
    const int lanes = least(power_of_two(p->n), 32);
    return (smm_cuda_parameters){.kernel = kernel, .lanes = lanes, .threads = lanes < 32 ? 64 : 32};
}

bool smm_lu_numbers_fits(const smm_cuda_problem *p, const smm_cuda_parameters *x, smm_cuda_grid *grid) {
    enum { OF_INVERSE = 16 }; /* columns at a time */
    switch (p->op) {
    case SMM_OP_LU:
    case SMM_OP_DET:
    case SMM_OP_SLOGDET: return in_shared_memory(p, x, 0, grid);
    case SMM_OP_INV: return in_shared_memory(p, x, least(p->n, OF_INVERSE), grid);
    case SMM_OP_SOLVE:
    case SMM_OP_LU_SOLVE: return p->k && in_shared_memory(p, x, p->k, grid);
    default: return false;
    }
}

void smm_lu_numbers_baseline(const smm_cuda_problem *p, smm_cuda_parameters *x) {
    *x = by_rows(p, SMM_CUDA_KERNEL_lu_numbers);
}

/* NUMBERS of lu_rows_numbers.cuh. */
static int lu_rows_numbers(const smm_cuda_problem *p, const smm_cuda_parameters *x) {
    const int vector = 16 / bytes_of(p), n = p->n, pitch = n % vector ? n : (n / vector | 1) * vector;
    const bool inverts = p->op == SMM_OP_INV, over = inverts && n <= x->lanes;
    return whole(p, whole(p, n * pitch) + (over ? 0 : inverts ? n * n : p->op == SMM_OP_SOLVE ? n * p->k : 0) + n);
}

bool smm_lu_rows_numbers_fits(const smm_cuda_problem *p, const smm_cuda_parameters *x, smm_cuda_grid *grid) {
    enum { MOST_BYTES = 640 }; /* of a lane's rows */
    const bool factors = p->op == SMM_OP_LU || p->op == SMM_OP_DET || p->op == SMM_OP_SLOGDET;
    if (!(factors || p->op == SMM_OP_INV || (p->op == SMM_OP_SOLVE && p->k)) || x->lanes < 2 || x->steps < 0 ||
        x->steps % 2 || !smm_cuda_whole_matrices(p, x, grid) ||
        ceil_div(p->n, x->lanes) * p->n * bytes_of(p) > MOST_BYTES)
        return false;
    grid->shared = grid->matrices * (lu_rows_numbers(p, x) * bytes_of(p) + 2 * p->n * (int)sizeof(int));
    return true;
}

void smm_lu_rows_numbers_baseline(const smm_cuda_problem *p, smm_cuda_parameters *x) {
    const int lanes = p->n <= 12 ? 4 : p->n <= 16 ? 8 : 32;
    const bool is_wide = p->op == SMM_OP_INV && bytes_of(p) == 16 && lanes < 32;
    const bool follows = p->op == SMM_OP_INV || (p->op == SMM_OP_SOLVE && p->k > 1); /* X, with texts of its own */
    *x = (smm_cuda_parameters){.kernel = SMM_CUDA_KERNEL_lu_rows_numbers,
                               .lanes = is_wide ? 2 * lanes : lanes,
                               .steps = p->n <= 16                     ? 0
                                        : follows || bytes_of(p) == 16 ? 4
                                                                       : 2,
                               .threads = 64};
}

bool smm_cholesky_numbers_fits(const smm_cuda_problem *p, const smm_cuda_parameters *x, smm_cuda_grid *grid) {
    return p->op == SMM_OP_CHOLESKY && in_shared_memory(p, x, 0, grid);
}

void smm_cholesky_numbers_baseline(const smm_cuda_problem *p, smm_cuda_parameters *x) {
    *x = by_rows(p, SMM_CUDA_KERNEL_cholesky_numbers);
}

bool smm_triangular_numbers_fits(const smm_cuda_problem *p, const smm_cuda_parameters *x, smm_cuda_grid *grid) {
    const bool serves = p->op == SMM_OP_CHO_SOLVE || p->op == SMM_OP_SOLVE_POS || p->op == SMM_OP_SOLVE_TRIANGULAR;
    return serves && p->k && in_shared_memory(p, x, p->k, grid);
}

void smm_triangular_numbers_baseline(const smm_cuda_problem *p, smm_cuda_parameters *x) {
    *x = by_rows(p, SMM_CUDA_KERNEL_triangular_numbers);
}

bool smm_qr_numbers_fits(const smm_cuda_problem *p, const smm_cuda_parameters *x, smm_cuda_grid *grid) {
    if (p->op != SMM_OP_QR && p->op != SMM_OP_QR_R && p->op != SMM_OP_QR_RAW) return false;
    if (!smm_cuda_whole_matrices(p, x, grid)) return false;
    const int columns = p->op == SMM_OP_QR ? x->lanes : 0;
    const int numbers = p->m * (pitch_of(p->n) + (columns ? pitch_of(columns) : 0)) + least(p->m, p->n);
    grid->shared = grid->matrices * numbers * bytes_of(p);
    return true;
}

/* A column for each lane; of tall and wide matrices a warp has few. */
void smm_qr_numbers_baseline(const smm_cuda_problem *p, smm_cuda_parameters *x) {
    const int lanes = least(power_of_two(p->n), 32);
    *x = (smm_cuda_parameters){.kernel = SMM_CUDA_KERNEL_qr_numbers,
                               .lanes = p->m * p->n > 256 ? 32 : lanes,
                               .threads = p->m * p->n > 64 || lanes == 32 ? 32 : 64};
}
