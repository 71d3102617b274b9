/* plan.c: whether the kernels of eigenvalues and singular values can run a problem, and in what grid. */
#include "../plan.h"

/* Bytes of the sweeps that are kept (rotations.cuh) of matrices of order n. */
static int sweeps_bytes(const smm_cuda_problem *p, int n, int lanes) {
    return (lanes > 32 ? 2 : 1) * (2 * n * bytes_of_part(p) + 2 * (int)sizeof(int));
}

/* Bytes of Work of eigh.cuh. */
static int eigh_matrix_bytes(const smm_cuda_problem *p, int lanes) {
    const int size = bytes_of(p), elements = p->n * pitch_of(p->n) + 2 * p->n, numbers = 2 * p->n;
    return ceil_div(elements * size + numbers * bytes_of_part(p) + sweeps_bytes(p, p->n, lanes), size) * size;
}

/* Whether a thread has a matrix in registers. */
static bool is_few(const smm_cuda_problem *p, int lanes) {
    enum { MAX_ROWS = 8, MAX_BYTES = 512 };
    return lanes == 1 && p->n <= MAX_ROWS && p->n * p->n * bytes_of(p) <= MAX_BYTES;
}

bool smm_eigh_shared_fits(const smm_cuda_problem *p, const smm_cuda_parameters *x, smm_cuda_grid *grid) {
    if (p->op != SMM_OP_EIGH && p->op != SMM_OP_EIGVALSH) return false;
    return smm_cuda_work_fits(p, x, is_few(p, x->lanes), eigh_matrix_bytes(p, x->lanes), grid);
}

double smm_eigh_shared_workspace(const smm_cuda_problem *p, const smm_cuda_parameters *x, const smm_cuda_args *args) {
    (void)args;
    return x->outside ? eigh_matrix_bytes(p, x->lanes) : 0;
}

void smm_eigh_shared_baseline(const smm_cuda_problem *p, smm_cuda_parameters *x) {
    /* Of a lane: as the tuner chose for most orders (H100), and for few complex matrices (H200, November 2026). */
    const int rows = p->small && smm_is_complex(p->dtype) ? 1 : p->n > 16 ? 2 : 4;
    int lanes = 1;
    while (!is_few(p, lanes) && lanes * rows < p->n) lanes *= 2;
    if (smm_cuda_is_large_matrix(p)) lanes = smm_cuda_lanes_of_large(p->n);
    const int threads = is_few(p, lanes) ? 64 : max_of(lanes, 32);
    *x = (smm_cuda_parameters){.kernel = SMM_CUDA_KERNEL_eigh_shared, .lanes = lanes, .threads = threads};
}

enum { PHASES_MATRICES = 32 }; /* of a block, in phases */
enum { MAX_JACOBI = 4 };       /* as JACOBI_MAX of jacobi.cuh */

static bool has_vectors(const smm_cuda_problem *p) {
    return p->op == SMM_OP_EIGH || p->op == SMM_OP_SVD || p->op == SMM_OP_SVD_FULL;
}
static int parts_of(const smm_cuda_problem *p) { return bytes_of(p) / bytes_of_part(p); }
static int round_up(int x, int unit) { return ceil_div(x, unit) * unit; }

/* Bytes of the sweeps that phases.cuh stages, of matrices of order n. */
static int staged_of(const smm_cuda_problem *p) { return has_vectors(p) ? 4 : 2; }
static int staged_bytes(const smm_cuda_problem *p, int n) {
    return staged_of(p) * round_up(n - 1, 4) * 2 * bytes_of_part(p);
}

/* Bytes of Phases of phases.cuh, of so many groups, each of which has so many bytes to itself. */
static int phases_bytes(const smm_cuda_problem *p, int n, int lanes, int groups, int group) {
    const int unit = max_of(16, min_of(lanes * bytes_of(p), 64));
    const int apart = group + (3 * unit - group % (2 * unit)) % (2 * unit);
    const int sweeps = (has_vectors(p) ? PHASES_MATRICES : 1) * (3 * n + staged_of(p)) * (int)sizeof(short);
    const int chains = PHASES_MATRICES * 2 * n * bytes_of_part(p);
    const int numbers = PHASES_MATRICES * (bytes_of_part(p) + (int)sizeof(int));
    return round_up(max_of(groups * apart, chains) + numbers + sweeps, 16);
}

/* The grid of blocks that stay, and their shared memory. */
static bool phases_fit(const smm_cuda_problem *p, const smm_cuda_parameters *x, int n, int group, smm_cuda_grid *grid) {
    if (x->lanes < 2 || x->lanes > 32 || !smm_cuda_whole_matrices(p, x, grid)) return false;
    grid->shared = phases_bytes(p, n, x->lanes, grid->matrices, group);
    grid->least = min_of(grid->matrices, PHASES_MATRICES);
    grid->matrices = PHASES_MATRICES;
    grid->resident = SMM_CUDA_AS_MANY_AS_FIT;
    return true;
}

/* Bytes of Outside of phases.cuh. */
static double phases_workspace(const smm_cuda_problem *p, int n) {
    const int of_vectors = 2 * (n * n * 11 / 8) + n * n * parts_of(p), without = 2 + 1, size = bytes_of_part(p);
    return round_up(2 * n * size, 16) + round_up((has_vectors(p) ? of_vectors : without) * size, 16);
}

/* Each lane of a matrix has rows in registers. Smaller orders are of Jacobi's method. */
bool smm_eigh_phases_fits(const smm_cuda_problem *p, const smm_cuda_parameters *x, smm_cuda_grid *grid) {
    enum { MAX_BYTES = 512 }; /* of these rows */
    const int n = p->n, size = bytes_of(p), beside = round_up(4 * n * size, 16);
    const int group = round_up(max_of(staged_bytes(p, n), beside + (n * pitch_of(n) + n) * size), 16);
    if ((p->op != SMM_OP_EIGH && p->op != SMM_OP_EIGVALSH) || n <= MAX_JACOBI) return false;
    return phases_fit(p, x, n, group, grid) && ceil_div(n, x->lanes) * n * size <= MAX_BYTES;
}

double smm_eigh_phases_workspace(const smm_cuda_problem *p, const smm_cuda_parameters *x, const smm_cuda_args *args) {
    (void)x, (void)args;
    return phases_workspace(p, p->n);
}

/* Of many matrices; of few, all lanes of each take least time. As timed on an H200 (November 2026). */
void smm_eigh_phases_baseline(const smm_cuda_problem *p, smm_cuda_parameters *x) {
    const int size = bytes_of(p), lanes = size == sizeof(float) || p->n <= 16 ? 8 : 16;
    const bool wide = size > (int)sizeof(double), serves = !p->small && p->n > 8 && (!wide || p->n <= 16 || p->n > 24);
    smm_cuda_grid grid;
    *x = (smm_cuda_parameters){.kernel = SMM_CUDA_KERNEL_eigh_phases, .lanes = serves ? lanes : 0};
    x->threads = has_vectors(p) && (!wide || p->n > 16) ? 64 : 32;
    while (x->lanes && x->lanes < 32 && !smm_eigh_phases_fits(p, x, &grid)) x->lanes *= 2;
}

/* Whether a thread has a matrix in registers. */
static bool svd_is_few(const smm_cuda_problem *p, const smm_cuda_parameters *x) {
    enum { MAX_ROWS = 8 }; /* of those that are bidiagonalised */
    const int max_bytes = parts_of(p) > 1 && has_vectors(p) ? 400 : 512;
    const bool few = min_of(p->m, p->n) > MAX_JACOBI && max_of(p->m, p->n) <= MAX_ROWS;
    return smm_cuda_are_few(p, x) || (x->lanes == 1 && few && p->m * p->n * bytes_of(p) <= max_bytes);
}

/* Bytes of Work of svd.cuh. */
static int svd_matrix_bytes(const smm_cuda_problem *p, int lanes) {
    const int n = min_of(p->m, p->n), size = bytes_of(p);
    const int x = max_of(p->m, p->n) * pitch_of(n), a = n <= MAX_JACOBI ? x : 1;
    const int r = n <= MAX_JACOBI || p->op != SMM_OP_SVDVALS ? n * pitch_of(n) : 1;
    const int others = 3 * n * bytes_of_part(p) + n * (int)sizeof(int) + sweeps_bytes(p, n, lanes);
    return ceil_div((x + a + n + r) * size + others, size) * size;
}

bool smm_svd_shared_fits(const smm_cuda_problem *p, const smm_cuda_parameters *x, smm_cuda_grid *grid) {
    const bool serves = p->op == SMM_OP_SVD || p->op == SMM_OP_SVD_FULL || p->op == SMM_OP_SVDVALS;
    return serves && smm_cuda_work_fits(p, x, svd_is_few(p, x), svd_matrix_bytes(p, x->lanes), grid);
}

double smm_svd_shared_workspace(const smm_cuda_problem *p, const smm_cuda_parameters *x, const smm_cuda_args *args) {
    (void)args;
    return x->outside ? svd_matrix_bytes(p, x->lanes) : 0;
}

void smm_svd_shared_baseline(const smm_cuda_problem *p, smm_cuda_parameters *x) {
    /* As timed on an H100, matrices of five to eight rows in registers on an H200 (November 2026). */
    const int n = min_of(p->m, p->n), longer = max_of(p->m, p->n);
    *x = (smm_cuda_parameters){.kernel = SMM_CUDA_KERNEL_svd_shared, .lanes = 1};
    if (svd_is_few(p, x) && longer > 4) {
        x->threads = p->small ? 32 : longer * bytes_of(p) < 32 ? 64 : 128;
        return;
    }
    while (longer > 4 && x->lanes < (n > 8 ? n : n / 2)) x->lanes *= 2;
    x->threads = longer > 4 ? 32 : longer == 4 ? 256 : 128;
    if (smm_cuda_is_large_matrix(p)) x->lanes = x->threads = n > 4 ? smm_cuda_lanes_of_large(longer) : 32;
    if (smm_cuda_is_large_matrix(p) || !smm_is_complex(p->dtype)) return;
    enum { MAX_SHARED = 64 << 10 }; /* so that large ones leave room for several blocks */
    if (smm_cuda_are_few(p, x)) x->threads = 128;
    while (!smm_cuda_are_few(p, x) && x->lanes < 32 &&
           x->threads / x->lanes * svd_matrix_bytes(p, x->lanes) > MAX_SHARED)
        x->lanes *= 2;
}

/* Each lane of a matrix has rows in registers, then columns. */
bool smm_svd_phases_fits(const smm_cuda_problem *p, const smm_cuda_parameters *x, smm_cuda_grid *grid) {
    enum { MAX_BYTES = 512 }; /* of these lines */
    const int n = min_of(p->m, p->n), m = max_of(p->m, p->n), size = bytes_of(p);
    const int of_lines = n * (3 * size + bytes_of_part(p) + (int)sizeof(int));
    const int lines = round_up(of_lines, min_of(2 * size, 16));
    const int work = max_of(m * pitch_of(n), has_vectors(p) ? n * pitch_of(m) : 1);
    const bool serves = p->op == SMM_OP_SVD || p->op == SMM_OP_SVDVALS || (p->op == SMM_OP_SVD_FULL && m == n);
    if (!serves || n <= MAX_JACOBI ||
        !phases_fit(p, x, n, round_up(max_of(staged_bytes(p, n), lines + work * size), 16), grid))
        return false;
    return max_of(ceil_div(m, x->lanes) * n, ceil_div(n, x->lanes) * m) * size <= MAX_BYTES;
}

double smm_svd_phases_workspace(const smm_cuda_problem *p, const smm_cuda_parameters *x, const smm_cuda_args *args) {
    (void)x, (void)args;
    return phases_workspace(p, min_of(p->m, p->n));
}

/* As timed on an H200 (November 2026). Of few real matrices, lanes in shared memory take less time; of few complex
 * ones, many lanes. */
void smm_svd_phases_baseline(const smm_cuda_problem *p, smm_cuda_parameters *x) {
    static const struct {
        int order, lanes, threads, blocks;
    } rows[2][2][5] = {{{{12, 4, 64, 0}, {16, 8, 64, 8}, {24, 8, 128, 3}, {32, 16, 128, 3}},
                        {{12, 4, 32, 0}, {16, 8, 64, 6}, {20, 8, 32, 0}, {32, 16, 64, 0}}},
                       {{{8, 4, 32, 0}, {12, 4, 64, 0}, {16, 8, 128, 3}, {20, 8, 64, 0}, {32, 16, 128, 2}},
                        {{6, 2, 32, 0}, {16, 8, 32, 0}, {32, 32, 128, 2}}}};
    const smm_cuda_parameters alone = {.lanes = 1};
    const int n = min_of(p->m, p->n), is_complex = parts_of(p) > 1, doubles = bytes_of_part(p) == sizeof(double);
    const bool serves = n > MAX_JACOBI && n <= SMM_CUDA_MAX_ORDER && !svd_is_few(p, &alone);
    smm_cuda_grid grid;
    int i = 0;
    *x = (smm_cuda_parameters){.kernel = SMM_CUDA_KERNEL_svd_phases};
    if (!serves || (p->small && !is_complex)) return;
    while (rows[is_complex][doubles][i].order < n) i++;
    x->lanes = p->small ? min_of(power_of_two(n), 32) : rows[is_complex][doubles][i].lanes;
    x->threads = p->small || !has_vectors(p) ? 32 : rows[is_complex][doubles][i].threads;
    x->blocks = p->small || !has_vectors(p) ? 0 : rows[is_complex][doubles][i].blocks;
    while (x->lanes < 32 && !smm_svd_phases_fits(p, x, &grid)) x->lanes *= 2;
}

/* Whether neighbouring threads have neighbouring numbers of matrices of their own, as SPREAD of eig.cuh. */
static bool eig_is_spread(const smm_cuda_problem *p, const smm_cuda_parameters *x) {
    return x->lanes == 1 && p->n > (smm_is_complex(p->dtype) ? 1 : 2) && p->op != SMM_OP_SQRTM;
}
/* Whether Z lies in memory of the device, as ASIDE there. */
static bool eig_is_aside(const smm_cuda_problem *p, const smm_cuda_parameters *x) {
    enum { MIN_BYTES = 1536 };
    const bool large = p->n * p->n * bytes_of(p) >= MIN_BYTES && !smm_cuda_is_large_matrix(p);
    return (p->op == SMM_OP_EIG || p->op == SMM_OP_SCHUR) && x->lanes > 1 && large && !x->outside;
}

/* Bytes of a matrix in WorkApart of eig.cuh; of square roots of real matrices it has complex ones, too. */
static int eig_matrix_bytes(const smm_cuda_problem *p, const smm_cuda_parameters *x) {
    const bool is_complex = smm_is_complex(p->dtype), is_real_sqrtm = p->op == SMM_OP_SQRTM && !is_complex;
    const bool spread = eig_is_spread(p, x), aside = eig_is_aside(p, x), inside = p->op != SMM_OP_EIGVALS && !aside;
    const int square = p->n * (spread ? p->n : pitch_of(p->n)), of_rotated = is_real_sqrtm ? 2 * square + 2 * p->n : 0;
    const int taus = max_of(p->n, (aside ? p->n : 1) * (is_complex ? 2 : 3)); /* or reflectors of a sweep */
    const int elements = square + (inside ? square : 1) + of_rotated + p->n + taus, size = bytes_of(p);
    const int unit = is_real_sqrtm ? 2 * size : size, whole = ceil_div(elements * size, unit) * unit / size;
    return ceil_div((spread ? whole : elements_apart(p, x->lanes, whole)) * size, unit) * unit;
}

bool smm_eig_shared_fits(const smm_cuda_problem *p, const smm_cuda_parameters *x, smm_cuda_grid *grid) {
    const bool values = p->op == SMM_OP_EIG || p->op == SMM_OP_EIGVALS;
    const bool few = smm_cuda_are_few(p, x) && !eig_is_spread(p, x);
    if (!values && p->op != SMM_OP_SCHUR && p->op != SMM_OP_SQRTM) return false;
    if (!smm_cuda_work_fits(p, x, few, eig_matrix_bytes(p, x), grid)) return false;
    if (eig_is_aside(p, x)) grid->resident = SMM_CUDA_AS_MANY_AS_FIT;
    return true;
}

double smm_eig_shared_workspace(const smm_cuda_problem *p, const smm_cuda_parameters *x, const smm_cuda_args *args) {
    (void)args;
    return x->outside ? eig_matrix_bytes(p, x) : eig_is_aside(p, x) ? p->n * p->n * bytes_of(p) : 0;
}

/* Of many matrices by the bytes of an element, of few by as many lanes as they have columns. As timed on an H200
 * (November 2026), of 4, 8, 10, 12, 16, 20, 24 and 32 rows; but square roots were not. */
void smm_eig_shared_baseline(const smm_cuda_problem *p, smm_cuda_parameters *x) {
    static const struct {
        int order, lanes, threads;
    } rows[3][5] = {{{8, 1, 64}, {10, 1, 32}, {16, 4, 64}, {24, 8, 64}, {32, 16, 128}},
                    {{8, 1, 64}, {10, 1, 32}, {12, 4, 64}, {24, 8, 64}, {32, 32, 128}},
                    {{4, 1, 64}, {8, 8, 32}, {12, 4, 32}, {16, 8, 32}, {32, 16, 32}}};
    const bool of_roots = p->op == SMM_OP_SQRTM, alone = p->n <= (of_roots ? 4 : 2); /* in a thread's registers */
    const int lanes = smm_cuda_is_large_matrix(p) ? smm_cuda_lanes_of_large(p->n) : min_of(power_of_two(p->n), 32);
    int i = 0;
    *x = (smm_cuda_parameters){.kernel = SMM_CUDA_KERNEL_eig_shared, .lanes = alone ? 1 : lanes};
    x->threads = max_of(x->lanes, 32);
    if (p->small || of_roots || smm_cuda_is_large_matrix(p)) return;
    while (rows[bytes_of(p) / 8][i].order < p->n) i++;
    x->lanes = rows[bytes_of(p) / 8][i].lanes;
    x->threads = rows[bytes_of(p) / 8][i].threads;
}
