/* plan.c: chooses kernel, parameters and grid for a problem: the tuned row of its sizes, else the kernels' own
 * baselines. All choices give the same bits. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "plan.h"

const char *const smm_cuda_kernel_names[] = {
#define SMM_CUDA_KERNEL(family, strategy) #family "_" #strategy,
#include "kernels.def"
#undef SMM_CUDA_KERNEL
    NULL,
};

static const struct {
    bool (*fits)(const smm_cuda_problem *, const smm_cuda_parameters *, smm_cuda_grid *);
    void (*baseline)(const smm_cuda_problem *, smm_cuda_parameters *);
} kernels[] = {
#define SMM_CUDA_KERNEL(family, strategy) {smm_##family##_##strategy##_fits, smm_##family##_##strategy##_baseline},
#include "kernels.def"
#undef SMM_CUDA_KERNEL
};

bool smm_cuda_fits(const smm_cuda_problem *problem, const smm_cuda_parameters *parameters, int shared_memory,
                   smm_cuda_grid *grid) {
    return parameters->kernel >= 0 && parameters->kernel < SMM_CUDA_KERNELS &&
           kernels[parameters->kernel].fits(problem, parameters, grid) && grid->shared <= shared_memory;
}

/* --- the tuned rows --- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static smm_cuda_row *tuned;
static size_t tuned_count;

smm_cuda_status smm_cuda_tune(const smm_cuda_row *rows, size_t count) {
    smm_cuda_row *copy = malloc(count * sizeof *copy + 1);
    if (!copy) return smm_cuda_fail(SMM_CUDA_MEMORY, "out of memory");
    memcpy(copy, rows, count * sizeof *copy);
    pthread_mutex_lock(&lock);
    free(tuned);
    tuned = copy;
    tuned_count = count;
    pthread_mutex_unlock(&lock);
    return SMM_CUDA_OK;
}

/* How much of the layout a row was measured for is the problem's; negative: it is a row of another problem. */
static int alikeness(const smm_cuda_problem *row, const smm_cuda_problem *p) {
    if (row->op != p->op || row->dtype != p->dtype || row->m != p->m || row->k != p->k || row->n != p->n ||
        (row->form ^ p->form) & SMM_TRANSPOSED)
        return -1;
    return 4 * (row->small == p->small) + 2 * (row->source_a == p->source_a) + 2 * (row->source_b == p->source_b) +
           (row->order_a == p->order_a) + (row->order_b == p->order_b);
}

/* The row of these sizes that is most alike. Its parameters may not fit, when operands are strided, not aligned, or
 * larger than this device's shared memory allows. */
static bool tuned_for(const smm_cuda_problem *p, int shared_memory, smm_cuda_parameters *parameters,
                      smm_cuda_grid *grid) {
    int best = -1;
    for (size_t i = 0; i < tuned_count; i++) {
        const int alike = alikeness(&tuned[i].problem, p);
        smm_cuda_parameters x = tuned[i].parameters;
        smm_cuda_grid its_grid;
        if (alike <= best) continue;
        bool fits = smm_cuda_fits(p, &x, shared_memory, &its_grid);
        if (!fits && !x.through_shared) { /* which any layout does */
            x.through_shared = 1;
            fits = smm_cuda_fits(p, &x, shared_memory, &its_grid);
        }
        if (fits) {
            best = alike;
            *parameters = x;
            *grid = its_grid;
        }
    }
    return best >= 0;
}

smm_cuda_status smm_cuda_plan(const smm_cuda_problem *problem, int shared_memory, smm_cuda_parameters *parameters,
                              smm_cuda_grid *grid) {
    pthread_mutex_lock(&lock);
    const bool found = tuned_for(problem, shared_memory, parameters, grid);
    pthread_mutex_unlock(&lock);
    if (found) return SMM_CUDA_OK;
    for (int i = SMM_CUDA_KERNELS - 1; i >= 0; i--) { /* the special ones first */
        kernels[i].baseline(problem, parameters);
        if (smm_cuda_fits(problem, parameters, shared_memory, grid)) return SMM_CUDA_OK;
    }
    return smm_cuda_fail(SMM_CUDA_UNSUPPORTED, "no CUDA kernel for %d x %d matrices", problem->m, problem->n);
}
