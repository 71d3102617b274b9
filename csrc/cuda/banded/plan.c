/* plan.c: which kernel of solves with matrices of few diagonals can run a problem, in what grid, and how much memory of
 * the device it needs. */
#include "../plan.h"

enum { SYSTEMS = 32 }; /* of a warp */

static bool is_of_diagonals(const smm_cuda_problem *p) {
    return p->op == SMM_OP_SOLVE_TRIDIAGONAL || p->op == SMM_OP_SOLVE_BANDED || p->op == SMM_OP_SOLVEH_BANDED;
}

static bool is_in_parts(const smm_cuda_problem *p) { return p->n >= SMM_MIN_IN_PARTS; }

/* --- banded_thread --- */

bool smm_banded_thread_fits(const smm_cuda_problem *p, const smm_cuda_parameters *x, smm_cuda_grid *grid) {
    if (!is_of_diagonals(p) || p->op == SMM_OP_SOLVE_TRIDIAGONAL) return false;
    if (x->lanes != 1 || !smm_cuda_whole_matrices(p, x, grid)) return false;
    grid->resident = SMM_CUDA_AS_MANY_AS_FIT;
    return true;
}

void smm_banded_thread_baseline(const smm_cuda_problem *p, smm_cuda_parameters *x) {
    (void)p;
    *x = (smm_cuda_parameters){.kernel = SMM_CUDA_KERNEL_banded_thread, .lanes = 1, .threads = 32};
}

double smm_banded_thread_workspace(const smm_cuda_problem *p, const smm_cuda_parameters *x, const smm_cuda_args *args) {
    (void)x;
    const double m = (double)args->m;
    return (p->op == SMM_OP_SOLVEH_BANDED ? m + 2 : 2 * m + 1) * (double)args->n * bytes_of(p);
}

/* --- banded_tiles --- */

static int reach_of(const smm_cuda_problem *p) { return p->op == SMM_OP_SOLVEH_BANDED ? p->m - 1 : p->lower; }

bool smm_banded_tiles_fits(const smm_cuda_problem *p, const smm_cuda_parameters *x, smm_cuda_grid *grid) {
    enum { MAX_BYTES = 400 }; /* of what a step has, which is in registers */
    const int reach = reach_of(p), line = min_of(x->rows, SYSTEMS);
    if (!is_of_diagonals(p) || is_in_parts(p) || p->m < 1 || p->m >= SMM_CUDA_DIAGONALS || reach >= p->m) return false;
    if (x->lanes != 1 || !smm_cuda_whole_matrices(p, x, grid)) return false;
    if (x->rows < 1 || line & (line - 1) || x->rows % line || x->rows < reach) return false;
    if (x->cols < 1 || (reach + 1) * (p->m + x->cols) * bytes_of(p) > MAX_BYTES) return false;
    const int places = (p->op == SMM_OP_SOLVE_TRIDIAGONAL ? 3 : 1) + 2;
    const int numbers = p->m * (x->rows | 1) + x->cols * ((x->rows + reach) | 1);
    grid->shared = x->threads * (places * (int)sizeof(long long) + numbers * bytes_of(p));
    grid->resident = SMM_CUDA_AS_MANY_AS_FIT;
    return true;
}

/* Of systems that are longer than a tile, lines of 128 bytes. Four columns of B at a time read A less often. */
void smm_banded_tiles_baseline(const smm_cuda_problem *p, smm_cuda_parameters *x) {
    enum { WHOLE = 32, LINE_BYTES = 128 };
    *x = (smm_cuda_parameters){.kernel = SMM_CUDA_KERNEL_banded_tiles, .lanes = 1, .threads = 32};
    x->rows = p->n <= WHOLE ? max_of(p->n, 4) : LINE_BYTES / bytes_of(p);
    while (x->rows < reach_of(p)) x->rows *= 2;
    x->cols = min_of(p->k, 4);
    smm_cuda_grid grid;
    if (x->cols > 1 && !smm_banded_tiles_fits(p, x, &grid)) x->cols = 1;
}

/* What a thread writes down of each tile but the last. */
double smm_banded_tiles_workspace(const smm_cuda_problem *p, const smm_cuda_parameters *x, const smm_cuda_args *args) {
    const int reach = reach_of(p);
    const int numbers =
        (p->op == SMM_OP_SOLVEH_BANDED ? reach * (reach + 1) / 2 : reach * (p->m - 1)) + reach * x->cols;
    return (double)((args->n - 1) / x->rows) * numbers * bytes_of(p);
}

/* --- banded_parts --- */

bool smm_banded_parts_fits(const smm_cuda_problem *p, const smm_cuda_parameters *x, smm_cuda_grid *grid) {
    enum { LINES = 4 };
    if (!is_in_parts(p) || x->lanes != 1 || x->rows != SMM_PART || !smm_cuda_whole_matrices(p, x, grid)) return false;
    grid->matrices = 1;
    grid->shared = LINES * (x->threads + 1) * (SMM_PART + 1) * bytes_of(p);
    return true;
}

void smm_banded_parts_baseline(const smm_cuda_problem *p, smm_cuda_parameters *x) {
    (void)p;
    *x = (smm_cuda_parameters){.kernel = SMM_CUDA_KERNEL_banded_parts, .lanes = 1, .threads = 64, .rows = SMM_PART};
}

/* Of each column the levels but the first, three diagonals and a right-hand side. */
double smm_banded_parts_workspace(const smm_cuda_problem *p, const smm_cuda_parameters *x, const smm_cuda_args *args) {
    (void)x;
    enum { LINES = 4 };
    double rows = 0;
    for (long long n = args->n; n >= SMM_PART; rows += (double)n) n = (n - 1) / SMM_PART + 1;
    return LINES * rows * bytes_of(p) * (double)max_of(args->k, 1);
}
