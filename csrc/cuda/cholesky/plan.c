/* plan.c: whether the kernel of Cholesky can run a problem, and in what grid. */
#include "../plan.h"

/* Elements of an image, as Lay of cholesky_lanes.cuh. */
static int cholesky_image(const smm_cuda_problem *p, const smm_cuda_parameters *x, const smm_cuda_grid *grid,
                          int source, bool by_rows) {
    const int n = p->n, vector = 16 / bytes_of(p), across = x->across, down = x->lanes / across;
    int wide = grid->aligned ? vector : 1;
    while (wide > 1 && (n % wide || (across > 1 && down % (across * wide)))) wide /= 2;
    const bool vectorised = grid->aligned && n % vector == 0;
    const int unit = x->pad ? max_of(across * wide / vector, 1) : 0, each = by_rows ? wide : 1;
    const int pitch = unit && vectorised ? n + vector * ((3 * unit - n / vector % (2 * unit)) % (2 * unit)) : n;
    const int together = 128 / (each * bytes_of(p)), wanted = by_rows ? down * (pitch / each) : x->lanes;
    const int distance = (wanted - n * pitch / each) & (together - 1);
    const int skew = x->pad && x->lanes < together && vectorised ? ceil_div(distance * each, vector) : 0;
    const int matrices = source == SMM_SOURCE_ONE ? 1 : grid->matrices;
    return round_up_to_vectors(p, matrices * (n * pitch + skew * vector) + (grid->aligned ? 0 : vector - 1));
}

bool smm_cholesky_lanes_fits(const smm_cuda_problem *p, const smm_cuda_parameters *x, smm_cuda_grid *grid) {
    enum { MAX_BYTES = 640 }; /* of a lane's registers */
    const int across = x->across;
    const bool solves = p->op == SMM_OP_SOLVE_POS, several = solves && p->k > 1;
    if ((p->op != SMM_OP_CHOLESKY && !solves) || !smm_cuda_whole_matrices(p, x, grid)) return false;
    if (across < 1 || across & (across - 1) || across * across > x->lanes) return false;
    if (ceil_div(p->n, x->lanes / across) * ceil_div(p->n, across) * bytes_of(p) > MAX_BYTES) return false;
    grid->aligned = p->aligned && grid->matrices % group_of(p, p->n * p->n) == 0 &&
                    (!several || grid->matrices % group_of(p, p->n * p->k) == 0);
    if (!x->through_shared)
        return !solves && x->lanes == 1 && p->source_a == SMM_SOURCE_FLAT && p->source_c == SMM_SOURCE_FLAT;
    const bool a_by_rows = p->order_a == SMM_ORDER_ROW;
    const bool l_by_rows = solves || p->order_c == SMM_ORDER_ROW || p->source_c == SMM_SOURCE_STRIDED;
    grid->shared = bytes_of(p) * max_of(cholesky_image(p, x, grid, p->source_a, a_by_rows),
                                        cholesky_image(p, x, grid, solves ? SMM_SOURCE_FLAT : p->source_c, l_by_rows));
    if (solves) grid->shared += grid->matrices * p->n * (several ? 1 : 2) * bytes_of(p);
    if (several) grid->shared += smm_cuda_rhs_bytes(p, grid);
    return true;
}

/* The more right-hand sides there are, the more lanes have some; L^-1 b of a single one is spread over those across. */
static void set_lanes_of_solve(const smm_cuda_problem *p, smm_cuda_parameters *x) {
    enum { MANY = 12 };
    const int n = p->n;
    const bool single = bytes_of(p) == 4, many = p->k >= MANY && n > 4;
    const int alone = single ? 8 : 5, by_two = single ? 14 : 10, by_four = single ? 24 : 16; /* orders, at most */
    const int few = n <= alone ? 1 : n <= by_two ? 2 : n <= by_four ? 4 : 8;
    x->threads = 32;
    x->lanes = many ? (n <= 8 ? 4 : n <= 20 ? 8 : 16) : p->k > 1 && n > 6 ? max_of(few, 4) : few;
    x->across = many && n > 20 ? 2 : 1;
    if (!single && n > 24) x->lanes = 16, x->across = 4;
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
    if (p->op == SMM_OP_SOLVE_POS) set_lanes_of_solve(p, x);
}
