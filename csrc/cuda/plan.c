/* plan.c: chooses kernel, parameters and grid for a problem: what the user's tuning found for it, else the tuned row of
 * its sizes, of this device or the nearest one, else what kernels' models or baselines say. All choices give the same
 * bits. */
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "plan.h"

const char *const smm_cuda_kernel_names[] = {
#define SMM_CUDA_KERNEL(folder, family, strategy) #family "_" #strategy,
#include "kernels.def"
#undef SMM_CUDA_KERNEL
    NULL,
};

const smm_cuda_parameter smm_cuda_parameter_list[] = {
#define SMM_CUDA_PARAMETER(name, macro, meaning) {#name, #macro, meaning, offsetof(smm_cuda_parameters, name)},
#include "kernels.def"
#undef SMM_CUDA_PARAMETER
};

const smm_cuda_has smm_cuda_has_list[] = {
#define SMM_CUDA_HAS(family, strategy, name, ...) \
    {SMM_CUDA_KERNEL_##family##_##strategy, SMM_CUDA_PARAMETER_##name, \
     sizeof((const int[]){__VA_ARGS__}) / sizeof(int), (const int[]){__VA_ARGS__}},
#include "kernels.def"
#undef SMM_CUDA_HAS
};
const int smm_cuda_has_count = sizeof smm_cuda_has_list / sizeof *smm_cuda_has_list;

const char *const smm_cuda_source_names[] = {
    [SMM_CUDA_BASELINE] = "baseline",
    [SMM_CUDA_MODELLED] = "model",
    [SMM_CUDA_TUNED] = "tuned",
    [SMM_CUDA_TUNED_BY_USER] = "tuned (user)",
};

static const struct {
    bool (*fits)(const smm_cuda_problem *, const smm_cuda_parameters *, smm_cuda_grid *);
    void (*baseline)(const smm_cuda_problem *, smm_cuda_parameters *);
} kernels[] = {
#define SMM_CUDA_KERNEL(folder, family, strategy) \
    {smm_##family##_##strategy##_fits, smm_##family##_##strategy##_baseline},
#include "kernels.def"
#undef SMM_CUDA_KERNEL
};

/* Which matrices a kernel takes. */
enum { REAL_ONES, COMPLEX_ONES, BOTH };
static const uint8_t takes[SMM_CUDA_KERNELS] = {
#define SMM_CUDA_COMPLEX(family, strategy) [SMM_CUDA_KERNEL_##family##_##strategy] = COMPLEX_ONES,
#define SMM_CUDA_ELEMENTS(family, strategy) [SMM_CUDA_KERNEL_##family##_##strategy] = BOTH,
#include "kernels.def"
#undef SMM_CUDA_COMPLEX
#undef SMM_CUDA_ELEMENTS
};

static const bool is_tiled[SMM_CUDA_KERNELS] = {
#define SMM_CUDA_TILED(family, strategy) [SMM_CUDA_KERNEL_##family##_##strategy] = true,
#include "kernels.def"
#undef SMM_CUDA_TILED
};

static double (*const workspaces[SMM_CUDA_KERNELS])(const smm_cuda_problem *, const smm_cuda_parameters *,
                                                    const smm_cuda_args *) = {
#define SMM_CUDA_WORKSPACE(family, strategy) \
    [SMM_CUDA_KERNEL_##family##_##strategy] = smm_##family##_##strategy##_workspace,
#include "kernels.def"
#undef SMM_CUDA_WORKSPACE
};

double smm_cuda_workspace(const smm_cuda_problem *problem, const smm_cuda_parameters *parameters,
                          const smm_cuda_args *args) {
    return workspaces[parameters->kernel] ? workspaces[parameters->kernel](problem, parameters, args) : 0;
}

static const smm_cuda_model *const models[SMM_CUDA_KERNELS] = {
#define SMM_CUDA_MODEL(family, strategy) [SMM_CUDA_KERNEL_##family##_##strategy] = &smm_##family##_##strategy##_model,
#include "kernels.def"
#undef SMM_CUDA_MODEL
};

const smm_cuda_model *smm_cuda_model_of(int kernel) { return models[kernel]; }

static const bool takes_stored[SMM_CUDA_KERNELS] = {
#define SMM_CUDA_STORED(family, strategy) [SMM_CUDA_KERNEL_##family##_##strategy] = true,
#include "kernels.def"
#undef SMM_CUDA_STORED
};

static const bool takes_large[SMM_CUDA_KERNELS] = {
#define SMM_CUDA_LARGE(family, strategy) [SMM_CUDA_KERNEL_##family##_##strategy] = true,
#include "kernels.def"
#undef SMM_CUDA_LARGE
};

/* Is a kernel for numbers of this type, and for products or matrices of these sizes? */
static bool is_for(int kernel, const smm_cuda_problem *problem) {
    const int wanted = smm_is_complex(problem->dtype) ? COMPLEX_ONES : REAL_ONES;
    const bool has_order = problem->op != SMM_OP_MATMUL && !smm_cuda_is_of_diagonals(problem->op);
    if (has_order && !takes_large[kernel] && !smm_cuda_fits_order(problem->m, problem->n, SMM_CUDA_MAX_ORDER))
        return false;
    return (takes[kernel] == wanted || takes[kernel] == BOTH) && is_tiled[kernel] == problem->tiled &&
           (takes_stored[kernel] || smm_dtypes[problem->dtype].computed == problem->dtype);
}

bool smm_cuda_fits(const smm_cuda_problem *problem, const smm_cuda_parameters *parameters, int shared_memory,
                   smm_cuda_grid *grid) {
    const int kernel = parameters->kernel;
    if (kernel < 0 || kernel >= SMM_CUDA_KERNELS || !is_for(kernel, problem)) return false;
    const bool by_block = parameters->lanes > 32 && !is_tiled[kernel];
    if ((by_block && !takes_large[kernel]) || (parameters->outside && !workspaces[kernel])) return false;
    const int told = by_block ? parameters->lanes / 32 * 16 : 0; /* lanes.cuh */
    return kernels[kernel].fits(problem, parameters, grid) && grid->shared + told <= shared_memory;
}

/* Whether a kernel takes matrices of this order by its baseline. */
static bool takes_order(smm_op op, smm_dtype dtype, int order) {
    smm_cuda_problem problem = {.op = op, .dtype = dtype};
    smm_cuda_parameters parameters;
    smm_cuda_grid grid;
    smm_cuda_set_sizes(&problem, order, 1, order);
    for (int i = 0; i < SMM_CUDA_KERNELS; i++) {
        if (!is_for(i, &problem)) continue;
        kernels[i].baseline(&problem, &parameters);
        if (smm_cuda_fits(&problem, &parameters, INT_MAX, &grid)) return true;
    }
    return false;
}

int smm_cuda_max_order(smm_op op, smm_dtype dtype) {
    enum { UNKNOWN, NO, YES, TO_LARGE };
    static uint8_t found[SMM_OPS][SMM_DTYPE_COUNT]; /* the same for whoever looks: calls ask time and again */
    uint8_t known = __atomic_load_n(&found[op][dtype], __ATOMIC_RELAXED);
    if (known == UNKNOWN) {
        known = takes_order(op, dtype, SMM_CUDA_MAX_ORDER + 1) ? TO_LARGE : takes_order(op, dtype, 1) ? YES : NO;
        __atomic_store_n(&found[op][dtype], known, __ATOMIC_RELAXED);
    }
    return known == TO_LARGE ? SMM_MAX_ORDER : known == YES ? SMM_CUDA_MAX_ORDER : 0;
}

/* --- the tuned rows --- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static smm_cuda_row *tuned;
static size_t tuned_count;

/* The one copy of a device's name. Kernels keep pointing to it after rows are replaced, so it is never freed; there are
 * few devices. NULL: out of memory. */
static const char *kept_name(const char *name) {
    static struct name {
        struct name *next;
        char text[sizeof((smm_cuda_device *)0)->name];
    } *names;
    struct name *x = names;
    while (x && strncmp(x->text, name, sizeof x->text - 1)) x = x->next;
    if (!x && (x = calloc(1, sizeof *x))) {
        strncpy(x->text, name, sizeof x->text - 1);
        x->next = names;
        names = x;
    }
    return x ? x->text : NULL;
}

smm_cuda_status smm_cuda_tune(const smm_cuda_row *rows, size_t count) {
    smm_cuda_row *copy = malloc(count * sizeof *copy + 1);
    bool kept = copy;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < count && kept; i++) {
        copy[i] = rows[i];
        kept = (copy[i].device = kept_name(rows[i].device));
    }
    if (kept) {
        free(tuned);
        tuned = copy;
        tuned_count = count;
    }
    pthread_mutex_unlock(&lock);
    if (kept) return SMM_CUDA_OK;
    free(copy);
    return smm_cuda_fail(SMM_CUDA_MEMORY, "out of memory");
}

enum { LONGEST_NAME = sizeof((smm_cuda_device *)0)->name };

/* The distance between the device of a row and the one at hand; 0: they have the same name. */
static int distance(const smm_cuda_row *row, const smm_cuda_device *device) {
    enum { LONGEST = LONGEST_NAME, ARCHS = 256 };
    const int arch = row->problem.arch;
    if (arch < device->arch) return LONGEST + device->arch - arch;
    if (arch > device->arch) return LONGEST + ARCHS + arch - device->arch;
    if (!strcmp(row->device, device->name)) return 0;
    int alike = 0;
    while (row->device[alike] && row->device[alike] == device->name[alike]) alike++;
    return LONGEST - alike;
}

/* How many properties of the layout that a row was measured for the problem shares; negative: the row is of another
 * problem. Types that are only stored have the rows of the type that they are computed in, too. Rows of results by
 * columns are for these alone. */
static int alikeness(const smm_cuda_problem *row, const smm_cuda_problem *p) {
    if (row->op != p->op || (row->dtype != p->dtype && row->dtype != smm_dtypes[p->dtype].computed) || row->m != p->m ||
        row->k != p->k || row->n != p->n || row->tiled != p->tiled ||
        (row->form ^ p->form) & (SMM_TRANSPOSED | SMM_TENSOR) || row->order_c > p->order_c)
        return -1;
    return 8 * (row->small == p->small && row->load == p->load) + 4 * (row->source_a == p->source_a) +
           4 * (row->source_b == p->source_b) + 2 * (row->order_a == p->order_a) + 2 * (row->order_b == p->order_b) +
           2 * (row->order_c == p->order_c) + (row->dtype == p->dtype);
}
enum { ALIKE = 8 + 4 + 4 + 2 + 2 + 2 + 1 }; /* in all of it */

/* A row that the user's tuning found is for the device and the layout that it was measured with. */
static bool is_own(const smm_cuda_row *row, const smm_cuda_problem *p, const smm_cuda_device *device) {
    return alikeness(&row->problem, p) == ALIKE && row->problem.lower == p->lower && distance(row, device) == 0;
}

/* Of the rows of the nearest device for these sizes, the one whose layout is most alike. Its parameters may not fit, if
 * operands are strided, unaligned, or larger than this device's shared memory allows. For types that are only stored, a
 * row that differs is like one of another device: one of float32 may have been measured with their layout. */
static void tuned_for(const smm_cuda_problem *p, const smm_cuda_device *device, smm_cuda_kernel *kernel) {
    int best = -1, nearest = 0;
    for (size_t i = 0; i < tuned_count; i++) {
        const int alike = alikeness(&tuned[i].problem, p);
        const bool stored = smm_dtypes[p->dtype].computed != p->dtype;
        const int differs = stored && alike < ALIKE ? LONGEST_NAME : 0;
        const int far = tuned[i].by_user ? -1 : distance(&tuned[i], device) + differs;
        smm_cuda_parameters x = tuned[i].parameters;
        smm_cuda_grid grid;
        if (tuned[i].by_user && !is_own(&tuned[i], p, device)) continue;
        if (alike < 0 || (best >= 0 && (far > nearest || (far == nearest && alike <= best)))) continue;
        bool fits = smm_cuda_fits(p, &x, device->shared_memory, &grid);
        if (!fits && !x.through_shared) { /* which any layout does */
            x.through_shared = 1;
            fits = smm_cuda_fits(p, &x, device->shared_memory, &grid);
        }
        if (!fits) continue;
        best = alike;
        nearest = far;
        kernel->parameters = x;
        kernel->grid = grid;
        kernel->tuned_on = tuned[i].device;
        kernel->source = tuned[i].by_user ? SMM_CUDA_TUNED_BY_USER : SMM_CUDA_TUNED;
    }
}

/* Whether a kernel takes the problem with its baseline; or, if `shrinks`, with fewer matrices to a block: fewer
 * threads, then more of them to a matrix; and at last with matrices outside of shared memory. */
static bool runs_by_baseline(int i, const smm_cuda_problem *p, const smm_cuda_device *device, bool shrinks,
                             smm_cuda_kernel *kernel) {
    smm_cuda_parameters *x = &kernel->parameters;
    kernels[i].baseline(p, x);
    while (!smm_cuda_fits(p, x, device->shared_memory, &kernel->grid)) {
        if (shrinks && x->threads > max_of(x->lanes, 32))
            x->threads /= 2;
        else if (shrinks && x->lanes && x->lanes < 32)
            x->lanes *= 2;
        else if (shrinks && !x->outside && workspaces[i])
            x->outside = 1;
        else
            return false;
    }
    return true;
}

smm_cuda_status smm_cuda_plan(const smm_cuda_problem *problem, const smm_cuda_device *device, smm_cuda_kernel *kernel) {
    *kernel = (smm_cuda_kernel){0};
    pthread_mutex_lock(&lock);
    tuned_for(problem, device, kernel);
    pthread_mutex_unlock(&lock);
    if (kernel->tuned_on) return SMM_CUDA_OK;
    for (int shrinks = 0; shrinks < 2; shrinks++) {
        for (int i = SMM_CUDA_KERNELS - 1; i >= 0; i--) { /* the special ones first */
            if (!is_for(i, problem)) continue; /* whose baseline might count with sizes that are too large for it */
            kernel->source = models[i] ? SMM_CUDA_MODELLED : SMM_CUDA_BASELINE;
            if (runs_by_baseline(i, problem, device, shrinks, kernel)) return SMM_CUDA_OK;
        }
    }
    return smm_cuda_fail(SMM_CUDA_UNSUPPORTED, "no CUDA kernel for %d x %d matrices", problem->m, problem->n);
}
