/* plan_linalg.c: which of the kernels of factorizations and solves can run a problem, and in what grid. */
#include "../inverse.h"
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

/* A length in elements, as whole vectors. */
static int whole(const smm_cuda_problem *p, int elements) {
    const int vector = 16 / bytes_of(p);
    return ceil_div(elements, vector) * vector;
}

/* Rows or columns in registers: not so many that they spill. */
static bool rows_fit(const smm_cuda_problem *p, const smm_cuda_parameters *x) {
    enum { MOST_BYTES = 840 };
    return ceil_div(p->n, x->lanes) * p->n * bytes_of(p) <= MOST_BYTES;
}

/* All steps in one text: not so many operations that it takes seconds to compile. */
static bool steps_fit(const smm_cuda_problem *p, const smm_cuda_parameters *x, int most_operations) {
    return ceil_div(p->n, x->lanes) * p->n * p->n <= most_operations;
}

bool smm_lu_lanes_fits(const smm_cuda_problem *p, const smm_cuda_parameters *x, smm_cuda_grid *grid) {
    if (!by_lu(p) || !whole_matrices(p, x, grid) || !rows_fit(p, x) || !steps_fit(p, x, 2048)) return false;
    if (x->lanes > 1 && !x->through_shared) return false;
    const bool factors = p->op == SMM_OP_LU, carries = p->op == SMM_OP_SOLVE && p->k == 1;
    const bool after = p->op == SMM_OP_SOLVE && !carries, shared = x->lanes > 1 || x->through_shared;
    const bool out = (factors || carries) && shared;
    const int vector = 16 / bytes_of(p), elements = p->n * p->n;
    const int matrix = elements % vector ? elements : (elements / vector | 1) * vector;
    grid->shared = 0;
    if (x->async || after || (factors && out)) grid->shared += whole(p, grid->matrices * matrix) * bytes_of(p);
    if (after) grid->shared += whole(p, grid->matrices * p->n) * bytes_of(p);
    if (carries && (x->async || out)) grid->shared += grid->matrices * p->n * bytes_of(p);
    if ((factors && out) || after) grid->shared += grid->matrices * p->n * 4;
    return true;
}

void smm_lu_lanes_baseline(const smm_cuda_problem *p, smm_cuda_parameters *x) {
    const int lanes = p->n <= 8 ? 1 : p->n <= 11 ? 2 : p->n <= 16 ? 4 : p->n <= 24 ? 8 : 32;
    *x = (smm_cuda_parameters){.kernel = SMM_CUDA_KERNEL_lu_lanes,
                               .lanes = p->small && p->n > 3 ? least(32, 2 * lanes) : lanes,
                               .threads = 64,
                               .async = 1,
                               .through_shared = 1};
}

/* MATRIX of lu_blocked.cuh in bytes. */
static int blocked_matrix_bytes(const smm_cuda_problem *p) {
    const int vector = 16 / bytes_of(p), k = p->op == SMM_OP_SOLVE ? p->k : 0;
    const int right = whole(p, p->n) / vector, cols = right + (k > 1 ? whole(p, k) / vector : 0); /* in vectors */
    const bool b_last = k == 1 && (cols % 2 == 1 || p->dtype == SMM_F32);
    const int exchanges = 3, vectors = p->n * (cols | 1) + exchanges + (b_last ? right : 0);
    return (vectors | 1) * 16;
}

bool smm_lu_blocked_fits(const smm_cuda_problem *p, const smm_cuda_parameters *x, smm_cuda_grid *grid) {
    enum { MOST_PANEL_BYTES = 256 }; /* of a lane's registers */
    if (!by_lu(p) || x->lanes < 2 || (x->panel != 4 && x->panel != 8) || !whole_matrices(p, x, grid)) return false;
    if (x->lanes > 8 && x->lanes > p->n) return false;
    if (ceil_div(p->n, x->lanes) * x->panel * bytes_of(p) > MOST_PANEL_BYTES) return false;
    grid->shared = grid->matrices * blocked_matrix_bytes(p);
    return true;
}

/* From order 12 on; below, lu_lanes is faster. */
void smm_lu_blocked_baseline(const smm_cuda_problem *p, smm_cuda_parameters *x) {
    const int small = p->n <= 13 ? 4 : p->n <= 23 ? 8 : 16;
    const int large = p->dtype == SMM_F32 ? (p->n <= 20 ? 4 : 8) : p->n <= 18 ? 4 : p->n <= 28 ? 8 : 16;
    const int lanes = p->small ? small : large;
    *x = (smm_cuda_parameters){.kernel = SMM_CUDA_KERNEL_lu_blocked,
                               .lanes = p->n < 12 ? 0 : lanes,
                               .panel = lanes == 4 ? 4 : 8,
                               .threads = p->n <= 13 ? 32 : 64};
}

/* MATRIX of inv_lanes.cuh and inv_rows.cuh, in elements. */
static int lanes_matrix(const smm_cuda_problem *p, int lanes) {
    const int vector = 16 / bytes_of(p), vectors = p->n / vector;
    if (p->n % vector) return p->n * p->n;
    const int matrix = p->n * (lanes > 1 ? vectors | 1 : vectors); /* in vectors */
    return (matrix + (lanes < 8 ? (3 * lanes - matrix % (2 * lanes)) % (2 * lanes) : 0)) * vector;
}

bool smm_inv_lanes_fits(const smm_cuda_problem *p, const smm_cuda_parameters *x, smm_cuda_grid *grid) {
    if (p->op != SMM_OP_INV || !whole_matrices(p, x, grid) || !rows_fit(p, x) || !steps_fit(p, x, 768)) return false;
    grid->aligned = p->aligned && grid->matrices % group_of(p, p->n * p->n) == 0;
    grid->shared = whole(p, grid->matrices * lanes_matrix(p, x->lanes)) * bytes_of(p);
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
    if (p->op != SMM_OP_INV || p->n < 4 || x->lanes < 2 || x->lanes >= 2 * p->n || !whole_matrices(p, x, grid) ||
        !rows_fit(p, x))
        return false;
    const int vector = 16 / bytes_of(p), of_warp = 32 / x->lanes, published = 2 * whole(p, p->n) + vector;
    const int images = whole(p, of_warp * most(lanes_matrix(p, x->lanes), published)) * bytes_of(p);
    grid->aligned = p->aligned && grid->matrices % group_of(p, p->n * p->n) == 0;
    grid->shared = x->threads / 32 * (images + ceil_div(of_warp * 2 * p->n, 16) * 16);
    return true;
}

/* From order 9 on; below, a thread to a matrix is faster. */
void smm_inv_rows_baseline(const smm_cuda_problem *p, smm_cuda_parameters *x) {
    const int lanes = p->n <= 16 ? 4 : p->dtype == SMM_F32 ? 8 : 16;
    *x = (smm_cuda_parameters){.kernel = SMM_CUDA_KERNEL_inv_rows,
                               .lanes = p->n <= 8  ? 0
                                        : p->small ? 2 * lanes
                                                   : lanes,
                               .threads = 64};
}

bool smm_inv_shared_fits(const smm_cuda_problem *p, const smm_cuda_parameters *x, smm_cuda_grid *grid) {
    enum { MOST_BYTES = 800 }; /* of a thread's multipliers */
    const int of_warp = 32 / most(x->lanes, 1), wide = width_of(p, p->n);
    if (p->op != SMM_OP_INV || p->n <= SMM_INV_DIRECT || !whole_matrices(p, x, grid) || x->lanes > 8) return false;
    if (x->panel < 1 || x->panel > 8 || x->panel % wide) return false;
    if (ceil_div(p->n, x->lanes) * x->panel * bytes_of(p) > MOST_BYTES) return false;
    const int matrix = (p->n * p->n / wide | 1) * wide, beside = 8 + 4 * p->n * of_warp;
    grid->aligned = p->aligned && grid->matrices % group_of(p, p->n * p->n) == 0;
    grid->shared = x->threads / 32 * (whole(p, of_warp * matrix) * bytes_of(p) + ceil_div(beside, 16) * 16);
    return true;
}

/* From order 12 on where rows are whole vectors, while enough matrices fit. */
void smm_inv_shared_baseline(const smm_cuda_problem *p, smm_cuda_parameters *x) {
    const bool serves = !p->small && p->n >= 12 && p->n <= 24 && width_of(p, p->n) > 1;
    *x = (smm_cuda_parameters){
        .kernel = SMM_CUDA_KERNEL_inv_shared, .lanes = serves ? p->n <= 20 ? 2 : 4 : 0, .panel = 4, .threads = 32};
}

/* A warp to a matrix of doubles, in blocks of 8 x 8. */
bool smm_inv_tensor_fits(const smm_cuda_problem *p, const smm_cuda_parameters *x, smm_cuda_grid *grid) {
    enum { PANEL = 4 }; /* columns */
    if (p->op != SMM_OP_INV || p->dtype != SMM_F64 || p->n <= 8 || x->lanes != 32) return false;
    if (!whole_matrices(p, x, grid)) return false;
    const int blocks = ceil_div(p->n, 8);
    const bool by_columns = p->source_c == SMM_SOURCE_FLAT && p->order_c == SMM_ORDER_ROW; /* of C^T */
    const int pitch = (8 * blocks + 4) * 8; /* its PITCH and IMAGE_PITCH */
    const int image_pitch = (by_columns ? 8 * blocks + 2 : 8 * (blocks | 1)) * 8;
    const int of_panel = 2 * PANEL * pitch + PANEL * PANEL * 8;
    grid->shared = grid->matrices * (most(of_panel, p->n * image_pitch) + 32);
    return true;
}

void smm_inv_tensor_baseline(const smm_cuda_problem *p, smm_cuda_parameters *x) {
    const bool serves = !p->small && p->n >= 23;
    *x = (smm_cuda_parameters){
        .kernel = SMM_CUDA_KERNEL_inv_tensor, .lanes = serves ? 32 : 0, .threads = 32, .blocks = 16, .ahead = 1};
}

/* Elements of an image, as Lay of cholesky_lanes.cuh. */
static int cholesky_image(const smm_cuda_problem *p, const smm_cuda_parameters *x, const smm_cuda_grid *grid,
                          int source, bool by_rows) {
    const int n = p->n, vector = 16 / bytes_of(p), across = x->across, down = x->lanes / across;
    int wide = grid->aligned ? vector : 1;
    while (wide > 1 && (n % wide || (across > 1 && down % (across * wide)))) wide /= 2;
    const bool vectorised = grid->aligned && n % vector == 0;
    const int unit = x->pad ? most(across * wide / vector, 1) : 0, each = by_rows ? wide : 1;
    const int pitch = unit && vectorised ? n + vector * ((3 * unit - n / vector % (2 * unit)) % (2 * unit)) : n;
    const int together = 128 / (each * bytes_of(p)), wanted = by_rows ? down * (pitch / each) : x->lanes;
    const int distance = (wanted - n * pitch / each) & (together - 1);
    const int skew = x->pad && x->lanes < together && vectorised ? ceil_div(distance * each, vector) : 0;
    const int matrices = source == SMM_SOURCE_ONE ? 1 : grid->matrices;
    return whole(p, matrices * (n * pitch + skew * vector) + (grid->aligned ? 0 : vector - 1));
}

bool smm_cholesky_lanes_fits(const smm_cuda_problem *p, const smm_cuda_parameters *x, smm_cuda_grid *grid) {
    enum { MOST_BYTES = 640 }; /* of a lane's registers */
    const int across = x->across;
    if (p->op != SMM_OP_CHOLESKY || !whole_matrices(p, x, grid)) return false;
    if (across < 1 || across & (across - 1) || across * across > x->lanes) return false;
    if (ceil_div(p->n, x->lanes / across) * ceil_div(p->n, across) * bytes_of(p) > MOST_BYTES) return false;
    grid->aligned = p->aligned && grid->matrices % group_of(p, p->n * p->n) == 0;
    if (!x->through_shared) return x->lanes == 1 && p->source_a == SMM_SOURCE_FLAT && p->source_c == SMM_SOURCE_FLAT;
    const bool a_by_rows = p->order_a == SMM_ORDER_ROW;
    const bool c_by_rows = p->order_c == SMM_ORDER_ROW || p->source_c == SMM_SOURCE_STRIDED;
    grid->shared = bytes_of(p) * most(cholesky_image(p, x, grid, p->source_a, a_by_rows),
                                      cholesky_image(p, x, grid, p->source_c, c_by_rows));
    return true;
}

void smm_cholesky_lanes_baseline(const smm_cuda_problem *p, smm_cuda_parameters *x) {
    *x = (smm_cuda_parameters){.kernel = SMM_CUDA_KERNEL_cholesky_lanes,
                               .lanes = p->n <= 2    ? 1
                                        : p->n <= 4  ? 2
                                        : p->n <= 9  ? 4
                                        : p->n <= 23 ? 8
                                                     : 16,
                               .across = p->n <= 11   ? 1
                                         : p->n <= 23 ? 2
                                                      : 4,
                               .threads = 64,
                               .pad = 1,
                               .async = 1,
                               .through_shared = 1};
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

static int qr_image_bytes(const smm_cuda_problem *p, const smm_cuda_parameters *x, const smm_cuda_grid *grid,
                          int elements) {
    return smm_cuda_image_bytes(p, x, grid, SMM_SOURCE_FLAT, 1, elements);
}

bool smm_qr_columns_fits(const smm_cuda_problem *p, const smm_cuda_parameters *x, smm_cuda_grid *grid) {
    enum { MOST_BYTES = 640 }; /* of a lane's columns in registers */
    const bool forms_q = p->op == SMM_OP_QR;
    if (!forms_q && p->op != SMM_OP_QR_R && p->op != SMM_OP_QR_RAW) return false;
    if (!whole_matrices(p, x, grid)) return false;
    const int vector = 16 / bytes_of(p), wide = x->wide, columns = forms_q ? most(p->n, p->k) : p->n;
    if (wide < 1 || (wide > 1 && (p->n % wide || wide > vector))) return false;
    if (ceil_div(ceil_div(columns, x->lanes), wide) * wide * p->m * bytes_of(p) > MOST_BYTES) return false;
    const bool in_loops = x->steps > 1;
    if (in_loops && (wide > 1 || x->refetch || x->lanes % x->steps)) return false;
    const int kept = in_loops ? p->n : forms_q ? least(p->m, p->n) : x->lanes > 1 ? 2 : 0;
    const int pitch = in_loops ? (ceil_div(p->m + x->steps + vector - 1, vector) | 1) * vector : whole(p, p->m);
    const int reflectors = kept * pitch + (kept * pitch / vector % 2 ? 0 : vector);
    grid->shared = kept ? grid->matrices * reflectors * bytes_of(p) : 0;
    if (x->through_shared) {
        grid->aligned = p->aligned && grid->matrices * p->m * p->n % vector == 0;
        int image = qr_image_bytes(p, x, grid, p->m * p->n);
        if (forms_q) image = most(image, qr_image_bytes(p, x, grid, p->m * p->k));
        if (p->op != SMM_OP_QR_RAW) image = most(image, qr_image_bytes(p, x, grid, p->k * p->n));
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
    if (least(p->m, p->n) > 16) x->steps = 4;
    while (x->lanes < 32 && !smm_qr_columns_fits(p, x, &grid)) x->lanes *= 2;
}

bool smm_qr_shared_fits(const smm_cuda_problem *p, const smm_cuda_parameters *x, smm_cuda_grid *grid) {
    if (p->op != SMM_OP_QR && p->op != SMM_OP_QR_R && p->op != SMM_OP_QR_RAW) return false;
    if (!whole_matrices(p, x, grid)) return false;
    grid->shared = grid->matrices * (p->m * p->n + least(p->m, p->n)) * bytes_of(p);
    return true;
}

void smm_qr_shared_baseline(const smm_cuda_problem *p, smm_cuda_parameters *x) {
    (void)p;
    *x = (smm_cuda_parameters){.kernel = SMM_CUDA_KERNEL_qr_shared, .lanes = 8, .threads = 32};
}

/* Bytes of Work of lstsq_shared.cuh. */
static int lstsq_matrix_bytes(const smm_cuda_problem *p) {
    const int k = most(p->k, 1), least_mn = least(p->m, p->n);
    const int elements = p->m * p->n + 1 + most(p->m, p->n) * k + 1 + 2 * (least_mn + 1) + p->n + 1 + k;
    return ceil_div(elements * bytes_of(p) + (p->n + 1 + p->n % 2) * 4, bytes_of(p)) * bytes_of(p);
}

bool smm_lstsq_shared_fits(const smm_cuda_problem *p, const smm_cuda_parameters *x, smm_cuda_grid *grid) {
    if (p->op != SMM_OP_LSTSQ || !whole_matrices(p, x, grid)) return false;
    grid->shared = grid->matrices * lstsq_matrix_bytes(p);
    return true;
}

void smm_lstsq_shared_baseline(const smm_cuda_problem *p, smm_cuda_parameters *x) {
    int lanes = 1;
    while (lanes < 16 && lanes < most(p->m, p->n)) lanes *= 2;
    *x = (smm_cuda_parameters){.kernel = SMM_CUDA_KERNEL_lstsq_shared, .lanes = lanes, .threads = 32};
}

/* Work of eigh_shared.cuh. */
bool smm_eigh_shared_fits(const smm_cuda_problem *p, const smm_cuda_parameters *x, smm_cuda_grid *grid) {
    if ((p->op != SMM_OP_EIGH && p->op != SMM_OP_EIGVALSH) || !whole_matrices(p, x, grid)) return false;
    grid->shared = grid->matrices * ((p->n * (p->n | 1) + 6 * p->n) * bytes_of(p) + 8);
    return true;
}

void smm_eigh_shared_baseline(const smm_cuda_problem *p, smm_cuda_parameters *x) {
    int lanes = 1;
    while (lanes < 16 && lanes < p->n) lanes *= 2;
    *x = (smm_cuda_parameters){.kernel = SMM_CUDA_KERNEL_eigh_shared, .lanes = lanes, .threads = 32};
}
