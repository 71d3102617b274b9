/* plan.c: which of the kernels of LU, solve and determinants, and of other systems of complex equations, can run a
 * problem, and in what grid. */
#include "../plan.h"

/* The rows of a matrix, of which LU alone may have more or less than columns. */
static int rows_of(const smm_cuda_problem *p) { return p->op == SMM_OP_LU ? p->m : p->n; }

static bool by_lu(const smm_cuda_problem *p) {
    return (p->op == SMM_OP_LU && p->m == p->n) || p->op == SMM_OP_SOLVE || p->op == SMM_OP_DET ||
           p->op == SMM_OP_SLOGDET;
}

/* Elements from image to image of so many. */
static int apart(const smm_cuda_problem *p, int elements) {
    const int vector = 16 / bytes_of(p);
    return elements % vector ? elements : (elements / vector | 1) * vector;
}

bool smm_lu_lanes_fits(const smm_cuda_problem *p, const smm_cuda_parameters *x, smm_cuda_grid *grid) {
    const bool inverts = p->op == SMM_OP_INV && smm_is_complex(p->dtype);
    if (!(by_lu(p) || inverts) || !smm_cuda_whole_matrices(p, x, grid) || !smm_cuda_rows_fit(p, x) ||
        !smm_cuda_steps_fit(p, x, 2048))
        return false;
    if (x->lanes > 1 && !x->through_shared) return false;
    const bool factors = p->op == SMM_OP_LU, carries = p->op == SMM_OP_SOLVE && p->k == 1;
    const bool after = (p->op == SMM_OP_SOLVE && !carries) || inverts, shared = x->lanes > 1 || x->through_shared;
    const bool out = (factors || carries) && shared;
    const bool shares = after && x->lanes > 1;
    int elements = 0;
    if (x->async || shares || (factors && out))
        elements += round_up_to_vectors(p, grid->matrices * apart(p, p->n * p->n));
    if (after) elements += round_up_to_vectors(p, grid->matrices * apart(p, p->n * (inverts ? p->n : p->k)));
    if (shares) elements += round_up_to_vectors(p, grid->matrices * p->n);
    if (carries && (x->async || out)) elements += grid->matrices * p->n;
    grid->shared = elements * bytes_of(p);
    if ((factors && out) || shares) grid->shared += grid->matrices * p->n * 4;
    return !(after && !inverts && p->k == SMM_CUDA_COLUMNS); /* of which there may be more than are taken at once */
}

static bool has_several(const smm_cuda_problem *p) { return p->op == SMM_OP_SOLVE && p->k > 1; }

/* Of complex matrices; 0: those of lu_rows_numbers are faster. */
static int lanes_of_complex(const smm_cuda_problem *p) {
    const int alone = bytes_of(p) == 8 ? 8 : 6, shared = bytes_of(p) == 8 ? 12 : 8;
    if (p->n <= alone) return 1;
    return p->n > shared || has_several(p) ? 0 : p->op == SMM_OP_INV ? 4 : 2;
}

void smm_lu_lanes_baseline(const smm_cuda_problem *p, smm_cuda_parameters *x) {
    const int alone = !has_several(p) ? 8 : bytes_of(p) == 4 ? 11 : 9; /* the factors stay in registers */
    const bool numbers = smm_is_complex(p->dtype);
    const int of_reals = p->n <= alone ? 1 : p->n <= 11 ? 2 : p->n <= 16 ? 4 : p->n <= 24 ? 8 : 32;
    const int lanes = numbers ? lanes_of_complex(p) : of_reals;
    *x = (smm_cuda_parameters){.kernel = SMM_CUDA_KERNEL_lu_lanes,
                               .lanes = p->small && p->n > 3 && !numbers ? min_of(32, 2 * lanes) : lanes,
                               .threads = p->n > 8 && lanes == 1 ? 32 : 64,
                               .async = 1,
                               .through_shared = 1};
}

/* MATRIX of lu_blocked.cuh in bytes. */
static int blocked_matrix_bytes(const smm_cuda_problem *p) {
    const int vector = 16 / bytes_of(p), k = p->op == SMM_OP_SOLVE ? p->k : 0;
    const int right = round_up_to_vectors(p, p->n) / vector,
              cols = right + (k > 1 ? round_up_to_vectors(p, k) / vector : 0); /* in vectors */
    const bool b_last = k == 1 && (cols % 2 == 1 || bytes_of(p) == 4);
    const int exchanges = 3, vectors = p->n * (cols | 1) + exchanges + (b_last ? right : 0);
    return (vectors | 1) * 16;
}

bool smm_lu_blocked_fits(const smm_cuda_problem *p, const smm_cuda_parameters *x, smm_cuda_grid *grid) {
    enum { MAX_PANEL_BYTES = 256 }; /* of a lane's registers */
    if (!by_lu(p) || x->lanes < 2 || (x->panel != 4 && x->panel != 8) || !smm_cuda_whole_matrices(p, x, grid))
        return false;
    if (x->lanes > 8 && x->lanes > p->n) return false;
    if (ceil_div(p->n, x->lanes) * x->panel * bytes_of(p) > MAX_PANEL_BYTES) return false;
    grid->shared = grid->matrices * blocked_matrix_bytes(p);
    return true;
}

/* From order 12 on; below, lu_lanes is faster, unless it would share factors or does not take as many right-hand sides.
 * The more there are of these, the more lanes have some. */
void smm_lu_blocked_baseline(const smm_cuda_problem *p, smm_cuda_parameters *x) {
    enum { MANY = 12 };
    const int small = p->n <= 13 ? 4 : p->n <= 23 ? 8 : 16;
    const int large = bytes_of(p) == 4 ? (p->n <= 20 ? 4 : 8) : p->n <= 18 ? 4 : p->n <= 28 ? 8 : 16;
    const bool several = has_several(p), many = several && p->k >= MANY && p->n > 13;
    const int lanes = p->small ? small : many ? min_of(16, 2 * large) : large;
    const int first = !several ? 12 : p->k == SMM_CUDA_COLUMNS ? 1 : bytes_of(p) == 4 ? 12 : 10;
    *x = (smm_cuda_parameters){.kernel = SMM_CUDA_KERNEL_lu_blocked,
                               .lanes = p->n < first ? 0 : lanes,
                               .panel = lanes == 4 && !several ? 4 : 8,
                               .threads = p->n <= 13 || several ? 32 : 64};
}

/* NUMBERS of lu_rows_numbers.cuh. */
static int lu_rows_numbers(const smm_cuda_problem *p, const smm_cuda_parameters *x) {
    const int vector = 16 / bytes_of(p), n = p->n, pitch = n % vector ? n : (n / vector | 1) * vector;
    const bool inverts = p->op == SMM_OP_INV, over = inverts && n <= x->lanes;
    return round_up_to_vectors(p, round_up_to_vectors(p, n * pitch) +
                                      (over                    ? 0
                                       : inverts               ? n * n
                                       : p->op == SMM_OP_SOLVE ? n * p->k
                                                               : 0) +
                                      n);
}

bool smm_lu_rows_numbers_fits(const smm_cuda_problem *p, const smm_cuda_parameters *x, smm_cuda_grid *grid) {
    enum { MAX_BYTES = 640 }; /* of a lane's rows */
    if (!(p->op == SMM_OP_SOLVE ? p->k : by_lu(p) || p->op == SMM_OP_INV) || x->lanes < 2 || x->steps < 0 ||
        x->steps % 2 || !smm_cuda_whole_matrices(p, x, grid) ||
        ceil_div(p->n, x->lanes) * p->n * bytes_of(p) > MAX_BYTES)
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

/* Columns of right-hand sides that systems.cuh has at a time; -1: it does not serve the problem. */
static int columns_of_systems(const smm_cuda_problem *p) {
    enum { OF_INVERSE = 16 };
    switch (p->op) {
    case SMM_OP_LU:
    case SMM_OP_DET:
    case SMM_OP_SLOGDET:
    case SMM_OP_CHOLESKY: return 0;
    case SMM_OP_INV: return smm_is_complex(p->dtype) ? min_of(p->n, OF_INVERSE) : 0;
    case SMM_OP_SOLVE:
    case SMM_OP_LU_SOLVE:
    case SMM_OP_CHO_SOLVE:
    case SMM_OP_SOLVE_POS:
    case SMM_OP_SOLVE_TRIANGULAR: return p->k ? p->k : -1;
    default: return -1;
    }
}

/* Whether a block has a matrix, whose rows its first warp has in registers. */
static bool by_blocks(const smm_cuda_problem *p) {
    return rows_of(p) <= SMM_MAX_ORDER && !smm_cuda_fits_order(rows_of(p), p->n, SMM_CUDA_MAX_ORDER);
}

/* Elements of a matrix from row to row, as systems.cuh. */
static int pitch_of_systems(const smm_cuda_problem *p, const smm_cuda_parameters *x) {
    const int vector = max_of(16 / bytes_of(p), 1);
    return x->lanes > 32 ? (ceil_div(p->n, vector) | 1) * vector : pitch_of(p->n);
}

/* Lanes of a warp have complex matrices up to order 32, where other kernels have square real ones, and those that a
 * block does not take, with more than SMM_MAX_ORDER rows. */
bool smm_systems_shared_fits(const smm_cuda_problem *p, const smm_cuda_parameters *x, smm_cuda_grid *grid) {
    const int columns = columns_of_systems(p), n = p->n, m = rows_of(p);
    const bool by_block = x->lanes > 32, eliminates = p->op == SMM_OP_INV && !smm_is_complex(p->dtype);
    const bool is_for_lanes = m != n || (n <= SMM_CUDA_MAX_ORDER && smm_is_complex(p->dtype));
    if (columns < 0 || !smm_cuda_whole_matrices(p, x, grid) || by_block != by_blocks(p)) return false;
    if (by_block ? x->panel != 4 && x->panel != 8 : !is_for_lanes || x->panel || (x->outside && grid->matrices > 1))
        return false;
    const int pitch = pitch_of_systems(p, x);
    int elements = (x->outside ? 0 : m * pitch) + (columns ? n * pitch_of(columns) : 0);
    if (by_block && eliminates) elements += (2 * n + 1 + pitch) * x->panel;
    if (by_block && columns) elements += round_up_to_vectors(p, n);
    grid->shared = grid->matrices * (elements * bytes_of(p) + min_of(m, n) * (by_block ? 2 : 1) * (int)sizeof(int));
    return true;
}

/* A row for each lane of a warp, but the smallest complex matrices in a thread's registers; of few of them, lanes take
 * less time from order 3 on (H200, November 2026). Blocks are of few threads where several of them fit a
 * multiprocessor. */
void smm_systems_shared_baseline(const smm_cuda_problem *p, smm_cuda_parameters *x) {
    enum { SEVERAL_BYTES = 20 << 10 }; /* of a matrix */
    const bool by_block = by_blocks(p), several = rows_of(p) * p->n * bytes_of(p) <= SEVERAL_BYTES;
    const bool is_one = smm_is_complex(p->dtype) && rows_of(p) == p->n && p->k <= 1; /* with one right-hand side */
    const bool alone = is_one && p->n <= (p->small ? 2 : bytes_of(p) == 8 ? 4 : 3);
    const int lanes = alone ? 1 : !by_block ? min_of(power_of_two(rows_of(p)), 32) : several && !p->small ? 64 : 128;
    *x = (smm_cuda_parameters){.kernel = SMM_CUDA_KERNEL_systems_shared,
                               .lanes = lanes,
                               .panel = !by_block           ? 0
                                        : bytes_of(p) == 16 ? 4
                                                            : 8,
                               .threads = lanes < 32 ? 64 : lanes};
}

double smm_systems_shared_workspace(const smm_cuda_problem *p, const smm_cuda_parameters *x,
                                    const smm_cuda_args *args) {
    (void)args;
    return x->outside ? (double)rows_of(p) * pitch_of_systems(p, x) * bytes_of(p) : 0;
}
