/* plan.h: what the files of the plan share: the kernels' own feasibility and baselines, and the arithmetic of vectors.
 */
#ifndef SMM_CUDA_PLAN_H
#define SMM_CUDA_PLAN_H

#include "cuda.h"

/* For each kernel: whether it can run the problem with these parameters, and in which grid; and its parameters where
 * there is no tuned row. */
#define SMM_CUDA_KERNEL(folder, family, strategy) \
    bool smm_##family##_##strategy##_fits(const smm_cuda_problem *, const smm_cuda_parameters *, smm_cuda_grid *); \
    void smm_##family##_##strategy##_baseline(const smm_cuda_problem *, smm_cuda_parameters *);
#include "kernels.def"
#undef SMM_CUDA_KERNEL

#define SMM_CUDA_WORKSPACE(family, strategy) \
    double smm_##family##_##strategy##_workspace(const smm_cuda_problem *, const smm_cuda_parameters *, \
                                                 const smm_cuda_args *);
#include "kernels.def"
#undef SMM_CUDA_WORKSPACE

#define SMM_CUDA_MODEL(family, strategy) extern const smm_cuda_model smm_##family##_##strategy##_model;
#include "kernels.def"
#undef SMM_CUDA_MODEL

static inline int min_of(int x, int y) { return x < y ? x : y; }
static inline int max_of(int x, int y) { return x > y ? x : y; }
static inline int ceil_div(int x, int y) { return (x + y - 1) / y; }
static inline int power_of_two(int x) { return x > 1 ? 2 * power_of_two(ceil_div(x, 2)) : 1; } /* not less than x */
/* Of an element in registers and in shared memory: types that are only stored are converted on their way there. */
static inline int bytes_of(const smm_cuda_problem *p) { return (int)smm_size(smm_dtypes[p->dtype].computed); }
static inline int bytes_of_part(const smm_cuda_problem *p) {
    return (int)smm_size(smm_dtypes[smm_dtypes[p->dtype].computed].real);
}

/* Elements of the widest vector that divides a line. */
static inline int width_of(const smm_cuda_problem *p, int length) {
    const int vector = 16 / bytes_of(p);
    return length % vector == 0 ? vector : length % 2 == 0 ? 2 : 1;
}

/* The smallest number of matrices whose operand, of so many elements each, fills a multiple of 16 bytes. */
static inline int group_of(const smm_cuda_problem *p, int elements) {
    int group = 1;
    while (group * elements * bytes_of(p) % 16) group *= 2;
    return group;
}

/* A length in elements, as whole vectors. */
static inline int round_up_to_vectors(const smm_cuda_problem *p, int elements) {
    const int vector = 16 / bytes_of(p);
    return ceil_div(elements, vector) * vector;
}

/* As pitch_of of complex.cuh. */
static inline int pitch_of(int cols) { return cols | 1; }

/* As elements_apart of lanes.cuh. */
static inline int elements_apart(const smm_cuda_problem *p, int lanes, int elements) {
    return elements + (2 * lanes <= 128 / bytes_of(p) ? (3 * lanes - elements % (2 * lanes)) % (2 * lanes) : 0);
}

/* device/plan.c. Each thread block holds whole matrices, `lanes` threads to each: the grid, if that is possible. */
bool smm_cuda_whole_matrices(const smm_cuda_problem *p, const smm_cuda_parameters *x, smm_cuda_grid *grid);
/* Whether a thread may have a matrix in registers, as FEW of lanes.cuh. */
static inline bool smm_cuda_are_few(const smm_cuda_problem *p, const smm_cuda_parameters *x) {
    return x->lanes == 1 && p->m <= 4 && p->n <= 4;
}
/* The same where the lanes of a matrix work with so many bytes: in registers, in shared memory, or outside of both. */
static inline bool smm_cuda_work_fits(const smm_cuda_problem *p, const smm_cuda_parameters *x, bool in_registers,
                                      int bytes, smm_cuda_grid *grid) {
    if (!smm_cuda_whole_matrices(p, x, grid) || (x->outside && (in_registers || grid->matrices > 1))) return false;
    if (!in_registers && !x->outside) grid->shared = bytes * grid->matrices;
    if (x->outside) grid->resident = 1; /* of a multiprocessor: L2 has room for about as many (H200) */
    return true;
}
/* Of matrices above SMM_CUDA_MAX_ORDER, so many of whose columns or rows are independent: a block for each. */
static inline int smm_cuda_lanes_of_large(int columns) { return max_of(32, min_of(power_of_two(columns), 128)); }
static inline bool smm_cuda_is_large_matrix(const smm_cuda_problem *p) {
    return !smm_cuda_fits_order(p->m, p->n, SMM_CUDA_MAX_ORDER);
}
/* Whether rows or columns fit registers without spilling. */
bool smm_cuda_rows_fit(const smm_cuda_problem *p, const smm_cuda_parameters *x);
/* Whether all steps can be unrolled: beyond so many operations compiling takes seconds. */
bool smm_cuda_steps_fit(const smm_cuda_problem *p, const smm_cuda_parameters *x, int max_operations);
/* Bytes of an image of some matrices, as Image::ELEMENTS of shared_tile.cuh. */
int smm_cuda_image_bytes(const smm_cuda_problem *p, const smm_cuda_parameters *x, const smm_cuda_grid *grid, int source,
                         int lines, int length, int skew);
/* Columns of several right-hand sides that a lane has at a time, as OWN of substitution.cuh; bytes of their image. */
enum { SMM_CUDA_OWN = 2 };
int smm_cuda_rhs_bytes(const smm_cuda_problem *p, const smm_cuda_grid *grid);

#endif
