/* plan.c: which of the kernels of QR and least squares can run a problem, and in what grid. */
#include "../plan.h"

static int qr_image_bytes(const smm_cuda_problem *p, const smm_cuda_parameters *x, const smm_cuda_grid *grid,
                          int elements) {
    return smm_cuda_image_bytes(p, x, grid, SMM_SOURCE_FLAT, 1, elements, 0);
}

bool smm_qr_columns_fits(const smm_cuda_problem *p, const smm_cuda_parameters *x, smm_cuda_grid *grid) {
    enum { MAX_BYTES = 640 }; /* of a lane's columns in registers */
    const bool forms_q = p->op == SMM_OP_QR;
    if (!forms_q && p->op != SMM_OP_QR_R && p->op != SMM_OP_QR_RAW) return false;
    if (!smm_cuda_whole_matrices(p, x, grid)) return false;
    const int vector = 16 / bytes_of(p), wide = x->wide, columns = forms_q ? max_of(p->n, p->k) : p->n;
    if (wide < 1 || (wide > 1 && (p->n % wide || wide > vector))) return false;
    if (ceil_div(ceil_div(columns, x->lanes), wide) * wide * p->m * bytes_of(p) > MAX_BYTES) return false;
    const bool in_loops = x->steps > 1;
    if (in_loops && (wide > 1 || x->refetch || x->lanes % x->steps)) return false;
    const int kept = in_loops ? p->n : forms_q ? min_of(p->m, p->n) : x->lanes > 1 ? 2 : 0;
    const int pitch =
        in_loops ? (ceil_div(p->m + x->steps + vector - 1, vector) | 1) * vector : round_up_to_vectors(p, p->m);
    const int reflectors = kept * pitch + (kept * pitch / vector % 2 ? 0 : vector);
    grid->shared = kept ? grid->matrices * reflectors * bytes_of(p) : 0;
    if (x->through_shared) {
        grid->aligned = p->aligned && grid->matrices * p->m * p->n % vector == 0;
        int image = qr_image_bytes(p, x, grid, p->m * p->n);
        if (forms_q) image = max_of(image, qr_image_bytes(p, x, grid, p->m * p->k));
        if (p->op != SMM_OP_QR_RAW) image = max_of(image, qr_image_bytes(p, x, grid, p->k * p->n));
        grid->shared += image;
    }
    return true;
}

/* The fewest lanes whose registers hold the columns; loops where a text for each step would be long. */
void smm_qr_columns_baseline(const smm_cuda_problem *p, smm_cuda_parameters *x) {
    smm_cuda_grid grid;
    *x = (smm_cuda_parameters){
        .kernel = SMM_CUDA_KERNEL_qr_columns, .lanes = 1, .wide = 1, .threads = 64, .pad = 1, .async = 1};
    if (p->n > 4) x->lanes = p->n <= 8 ? 4 : p->n <= 16 ? 8 : 16;
    if (min_of(p->m, p->n) > 16) x->steps = 4;
    while (x->lanes < 32 && !smm_qr_columns_fits(p, x, &grid)) x->lanes *= 2;
}

/* Bytes of Work of qr.cuh. */
static int qr_matrix_bytes(const smm_cuda_problem *p) {
    const int pitch = smm_is_complex(p->dtype) ? pitch_of(p->n) : p->n;
    return (p->m * pitch + min_of(p->m, p->n)) * bytes_of(p);
}

bool smm_qr_shared_fits(const smm_cuda_problem *p, const smm_cuda_parameters *x, smm_cuda_grid *grid) {
    if (p->op != SMM_OP_QR && p->op != SMM_OP_QR_R && p->op != SMM_OP_QR_RAW) return false;
    return smm_cuda_work_fits(p, x, false, qr_matrix_bytes(p), grid);
}

double smm_qr_shared_workspace(const smm_cuda_problem *p, const smm_cuda_parameters *x, const smm_cuda_args *args) {
    (void)args;
    return x->outside ? qr_matrix_bytes(p) : 0;
}

/* A column for each lane; of tall and wide matrices a warp has few. */
void smm_qr_shared_baseline(const smm_cuda_problem *p, smm_cuda_parameters *x) {
    const int of_warp = p->m * p->n > 256 ? 32 : min_of(power_of_two(p->n), 32);
    const int lanes = smm_cuda_is_large_matrix(p) ? smm_cuda_lanes_of_large(p->n) : of_warp;
    *x = (smm_cuda_parameters){.kernel = SMM_CUDA_KERNEL_qr_shared,
                               .lanes = lanes,
                               .threads = p->m * p->n > 64 || lanes == 32 ? max_of(lanes, 32) : 64};
}

/* Bytes of Work of lstsq.cuh, with so many rows of A. */
static int lstsq_work_bytes(const smm_cuda_problem *p, int lanes, int rows) {
    const int k = max_of(p->k, 1), size = bytes_of(p), pitch = pitch_of(p->n);
    const int elements = rows * pitch + 1 + max_of(p->m, p->n) * k + 1 + 2 * (min_of(p->m, p->n) + 1) + p->n + 1;
    const int others = k * bytes_of_part(p) + (p->n + 1 + p->n % 2) * (int)sizeof(int);
    return elements_apart(p, lanes, elements + ceil_div(others, size)) * size;
}

static int lstsq_matrix_bytes(const smm_cuda_problem *p, int lanes) { return lstsq_work_bytes(p, lanes, p->m); }

/* Whether a thread has all of it in registers. */
static bool is_few(const smm_cuda_problem *p, int lanes) {
    enum { MAX_COLUMNS = 4 };
    const bool numbers = smm_is_complex(p->dtype);
    const int k = max_of(p->k, 1), rows = max_of(p->m, p->n), max_rows = numbers ? 5 : 8,
              max_bytes = numbers ? 320 : 640;
    return lanes == 1 && rows <= max_rows && k <= MAX_COLUMNS && (p->m * p->n + rows * k) * bytes_of(p) <= max_bytes;
}

bool smm_lstsq_shared_fits(const smm_cuda_problem *p, const smm_cuda_parameters *x, smm_cuda_grid *grid) {
    if (p->op != SMM_OP_LSTSQ) return false;
    return smm_cuda_work_fits(p, x, is_few(p, x->lanes), lstsq_matrix_bytes(p, x->lanes), grid);
}

double smm_lstsq_shared_workspace(const smm_cuda_problem *p, const smm_cuda_parameters *x, const smm_cuda_args *args) {
    (void)args;
    return x->outside ? lstsq_matrix_bytes(p, x->lanes) : 0;
}

/* Few lanes, each of which has several columns, but so many that shared memory has room for some warps; of few matrices
 * one for each column, which takes least time. */
void smm_lstsq_shared_baseline(const smm_cuda_problem *p, smm_cuda_parameters *x) {
    enum { OF_WARP = 24 << 10 };
    const int columns = p->n + max_of(p->k, 1), size = max_of(p->m, p->n);
    int lanes = columns <= 7 ? 2 : columns <= 17 ? 4 : columns <= 48 ? 8 : 16;
    if (p->small) lanes = max_of(lanes, min_of(16, power_of_two(size)));
    while (lanes < 32 && 32 / lanes * lstsq_matrix_bytes(p, lanes) > OF_WARP) lanes *= 2;
    if (is_few(p, 1)) lanes = 1;
    if (smm_cuda_is_large_matrix(p)) lanes = smm_cuda_lanes_of_large(columns);
    *x = (smm_cuda_parameters){.kernel = SMM_CUDA_KERNEL_lstsq_shared, .lanes = lanes, .threads = max_of(lanes, 32)};
}

bool smm_lstsq_columns_fits(const smm_cuda_problem *p, const smm_cuda_parameters *x, smm_cuda_grid *grid) {
    enum { MAX_BYTES = 640, MAX_COLUMNS = 4 }; /* of a lane's columns in registers, of right-hand sides */
    if (p->op != SMM_OP_LSTSQ || min_of(p->m, p->n) < 1 || p->n > SMM_CUDA_MAX_ORDER) return false;
    if (p->k < 1 || p->k > MAX_COLUMNS) return false;
    if (x->lanes < 2 || x->steps < 1 || !smm_cuda_whole_matrices(p, x, grid)) return false;
    const int size = bytes_of(p), lines = 2 * round_up_to_vectors(p, p->m) * size;
    const int bytes = lines + lstsq_work_bytes(p, x->lanes, min_of(p->m, p->n)) + p->k * size;
    grid->shared = grid->matrices * (ceil_div(bytes, 16) | 1) * 16;
    return ceil_div(p->n + p->k - 1, x->lanes) * p->m * size <= MAX_BYTES;
}

/* A lane has about three columns, but not too many registers; of few matrices it has one. As timed on an H200 (November
 * 2026). */
void smm_lstsq_columns_baseline(const smm_cuda_problem *p, smm_cuda_parameters *x) {
    const int columns = p->n + p->k - 1, column = p->m * bytes_of(p), max_bytes = bytes_of(p) == 8 ? 576 : 300;
    int lanes = p->small ? power_of_two(columns) : power_of_two(ceil_div(min_of(p->m, p->n), 3));
    *x = (smm_cuda_parameters){.kernel = SMM_CUDA_KERNEL_lstsq_columns, .threads = 32, .steps = 4};
    if (is_few(p, 1)) return;
    lanes = min_of(max_of(lanes, 2), 32);
    while (lanes < min_of(columns, 32) && ceil_div(columns, lanes) * column > max_bytes) lanes *= 2;
    const int bytes = ceil_div(columns, lanes) * column;
    x->lanes = lanes;
    x->blocks = p->small || p->m < p->n || bytes > 512 ? 0 : bytes > 256 ? 10 : 16;
}
