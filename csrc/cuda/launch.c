/* launch.c: from a call to a launch: finds its kernel, and puts that on the stream. */
#include <complex.h>
#include <math.h>

#include "../core/core.h"
#include "launch.h"

static smm_cuda_status prepare_problem(smm_cuda_problem *problem, int ordinal, const smm_cuda_device *device,
                                       smm_cuda_kernel *kernel) {
    problem->device = ordinal;
    problem->arch = device->arch;
    return smm_cuda_find(device, problem, kernel);
}

smm_cuda_status smm_cuda_prepare_in_context(const smm_call *call, const double _Complex number[],
                                            const smm_cuda_parameters *parameters, int ordinal,
                                            const smm_cuda_device *device, smm_cuda_kernel *kernel,
                                            smm_cuda_args *args) {
    smm_cuda_problem problem;
    bool swapped;
    if (!smm_cuda_describe(call, number, &problem, args, &swapped))
        return smm_cuda_fail(SMM_CUDA_UNSUPPORTED, "no CUDA kernel takes %lld x %lld matrices", (long long)call->m,
                             (long long)call->n);
    problem.in_place = smm_overlap_of(call) == SMM_IN_PLACE;
    problem.arch = device->arch;
    const smm_cuda_status status = parameters ? smm_cuda_make(&problem, parameters, device, kernel)
                                              : prepare_problem(&problem, ordinal, device, kernel);
    kernel->swapped = swapped;
    if (!status) kernel->workspace = smm_cuda_workspace(&problem, &kernel->parameters, args);
    return status;
}

/* Find the kernel of a call or of a problem, in the device's context. */
static smm_cuda_status prepare_on(int ordinal, const smm_call *call, const double _Complex number[],
                                  const smm_cuda_problem *problem, smm_cuda_kernel *kernel, smm_cuda_args *args) {
    smm_cuda_entered on;
    smm_cuda_status status = smm_cuda_enter(ordinal, &on);
    if (status) return status;
    if (call)
        status = smm_cuda_prepare_in_context(call, number, NULL, ordinal, on.device, kernel, args);
    else {
        smm_cuda_problem its = *problem;
        status = prepare_problem(&its, ordinal, on.device, kernel);
    }
    smm_cuda_leave(&on);
    return status;
}

smm_cuda_status smm_cuda_prepare(const smm_call *call, const double _Complex number[], int ordinal,
                                 smm_cuda_kernel *kernel, smm_cuda_args *args) {
    return prepare_on(ordinal, call, number, NULL, kernel, args);
}

smm_cuda_status smm_cuda_ready(const smm_cuda_problem *problem, int ordinal, smm_cuda_kernel *kernel) {
    return prepare_on(ordinal, NULL, NULL, problem, kernel, NULL);
}

enum { MAX_BLOCKS = 0x7fffffff };

/* Put a grid of so many blocks on the stream. */
static smm_cuda_status launch_blocks(const smm_cuda_functions *driver, const smm_cuda_kernel *kernel, void *args,
                                     long long blocks, void *stream) {
    if (blocks > MAX_BLOCKS)
        return smm_cuda_fail(SMM_CUDA_UNSUPPORTED, "%lld matrices are more than one launch takes",
                             blocks * kernel->grid.matrices);
    return smm_cuda_check(driver->launch(kernel->function, (unsigned)blocks, 1, 1, kernel->grid.threads, 1, 1,
                                         kernel->grid.shared, stream, (void *[]){args}, NULL),
                          "cuLaunchKernel");
}

/* How many chunks of a deep sum a slice adds up: a power of two. Fewer keep more multiprocessors busy to the end, more
 * leave fewer partial sums. */
static int choose_span(const smm_cuda_kernel *kernel, long long tiles, long long chunks, long long at_once) {
    long long best = 0;
    int span = 1;
    for (int x = 1; x <= 1 << kernel->parameters.levels; x *= 2) {
        const long long parts = smm_pieces(chunks, (long long)x * kernel->grid.slices);
        const long long in_turn = parts > 1 ? x : smm_pieces(chunks, kernel->grid.slices);
        const long long time = smm_pieces(tiles * parts, at_once) * (4 * in_turn + (parts > 1));
        if (best && time > best) continue;
        best = time;
        span = x;
        if (parts == 1) break;
    }
    return span;
}

/* So many threads to an element of C add up its parts that all of the device works, and none has too many parts. */
static int choose_groups(int threads, long long elements, long long parts) {
    enum { ENOUGH_THREADS = 1 << 17, FEW = 8, MANY = 1 << 17 };
    int groups = 1;
    while (groups < threads && groups * FEW < parts && (elements * groups < ENOUGH_THREADS || groups * MANY < parts))
        groups *= 2;
    return groups;
}

/* Products of any size, a number of tiles at a time: as many as one launch and the memory for partial sums take. */
static smm_cuda_status launch_tiled(const smm_cuda_functions *driver, const smm_cuda_device *device, int ordinal,
                                    const smm_cuda_kernel *kernel, smm_cuda_args *args, intptr_t size, void *stream) {
    enum { MAX_SUMS = 256 << 20 }; /* bytes */
    const smm_cuda_grid *grid = &kernel->grid;
    smm_cuda_tiles *const x = &args->tiles;
    const bool deep = args->k > SMM_DEEP;
    const long long tiles = smm_pieces(x->m, grid->rows) * smm_pieces(x->n, grid->cols) * args->batch;
    const long long chunks = deep ? smm_pieces(args->k, SMM_CHUNK) : 1, area = (long long)grid->rows * grid->cols;
    const long long at_once = (long long)(kernel->at_once ? kernel->at_once : 1) * device->multiprocessors;
    x->span = choose_span(kernel, tiles, chunks, at_once);
    x->parts = deep ? smm_pieces(chunks, (long long)x->span * grid->slices) : 1;
    long long most = deep ? MAX_BLOCKS / x->parts : (long long)MAX_BLOCKS * grid->slices;
    const bool in_parts = x->parts > 1;
    if (in_parts && most > MAX_SUMS / (x->parts * area * size)) most = MAX_SUMS / (x->parts * area * size);
    if (most > tiles) most = tiles;
    if (most < 1) most = 1;
    smm_cuda_resource sums = {
        .kind = SMM_CUDA_SCRATCH, .device = ordinal, .bytes = most * x->parts * area * size, .stream = stream};
    smm_cuda_status status = in_parts ? smm_cuda_acquire(&sums) : SMM_CUDA_OK;
    if (status) return status;
    x->sums = sums.address;
    for (x->first = 0; x->first < tiles && !status; x->first += most) {
        x->count = tiles - x->first < most ? tiles - x->first : most;
        x->groups = 0;
        status = launch_blocks(driver, kernel, args, deep ? x->count * x->parts : smm_pieces(x->count, grid->slices),
                               stream);
        if (status || !in_parts) continue;
        x->groups = choose_groups(grid->threads, x->count * area, x->parts);
        status = launch_blocks(driver, kernel, args, smm_pieces(x->count * area, grid->threads / x->groups), stream);
    }
    if (in_parts) smm_cuda_release(&sums);
    return status;
}

/* Blocks of the grid: no more than stay, and no more than whose matrices have room in 4 GiB, but one. */
static long long blocks_of(const smm_cuda_device *device, const smm_cuda_kernel *kernel, long long batch) {
    const double max_workspace = 4.0 * (1 << 30), workspace = kernel->workspace * kernel->grid.matrices;
    const int stay = kernel->grid.resident == SMM_CUDA_AS_MANY_AS_FIT ? kernel->at_once : kernel->grid.resident;
    const long long resident = (long long)stay * device->multiprocessors;
    long long blocks = smm_pieces(batch, kernel->grid.least ? kernel->grid.least : kernel->grid.matrices);
    if (resident && blocks > resident) blocks = resident;
    return (double)blocks * workspace > max_workspace ? (long long)fmax(1, max_workspace / workspace) : blocks;
}

static smm_cuda_status launch(const smm_cuda_functions *driver, const smm_cuda_device *device, int ordinal,
                              const smm_cuda_kernel *kernel, smm_cuda_args *args, void *stream) {
    const long long matrices = kernel->grid.matrices, blocks = blocks_of(device, kernel, args->batch);
    const long long of_block = smm_pieces(args->batch, blocks);
    const double bytes = kernel->workspace * fmin((double)args->batch, (double)(blocks * matrices));
    smm_cuda_resource workspace = {
        .kind = SMM_CUDA_SCRATCH, .device = ordinal, .bytes = (size_t)fmin(bytes, 0x1p60), .stream = stream};
    smm_cuda_status status = bytes > 0 ? smm_cuda_acquire(&workspace) : SMM_CUDA_OK;
    if (status) return status;
    args->workspace = workspace.address;
    args->share = (int)smm_pieces(of_block, smm_pieces(of_block, matrices));
    args->ahead = kernel->at_once * device->multiprocessors * matrices;
    status = launch_blocks(driver, kernel, args, blocks, stream);
    if (bytes > 0) smm_cuda_release(&workspace);
    return status;
}

/* Systems in parts, as many at a time as there is room for: down their levels and back, a launch for each step; those
 * after level `last`, which a block's threads have all parts of, are one. */
static smm_cuda_status launch_in_parts(const smm_cuda_functions *driver, int ordinal, const smm_cuda_kernel *kernel,
                                       smm_cuda_args *args, intptr_t size, void *stream) {
    const double max_workspace = 1 << 30;
    const long long columns = args->k ? args->k : 1, parts = kernel->grid.threads, info = sizeof(int32_t), line = 16;
    smm_cuda_parts *const x = &args->parts;
    intptr_t orders[SMM_MAX_LEVELS];
    const int levels = smm_levels_of(args->n, orders);
    int last = 1;
    while (orders[last] > parts * SMM_PART) last++;
    const long long blocks = smm_pieces(orders[0], parts * SMM_PART) * columns;
    const long long most = (long long)fmin(
        (double)args->batch, fmax(1, fmin(max_workspace / kernel->workspace, (double)MAX_BLOCKS / (double)blocks)));
    x->numbers = (long long)(kernel->workspace / (double)(columns * size));
    x->infos = smm_pieces(most * info, line) * line;
    smm_cuda_resource workspace = {.kind = SMM_CUDA_SCRATCH,
                                   .device = ordinal,
                                   .bytes = (size_t)(x->infos + most * (long long)kernel->workspace),
                                   .stream = stream};
    smm_cuda_status status = smm_cuda_acquire(&workspace);
    if (status) return status;
    args->workspace = workspace.address;
    for (x->first = 0; x->first < args->batch && !status; x->first += most) {
        const long long count = min_of(most, args->batch - x->first);
        status = smm_cuda_check(driver->fill((uintptr_t)workspace.address, (size_t)x->infos, SMM_CUDA_NO_ROW,
                                             (size_t)(x->infos / info), 1, stream),
                                "cuMemsetD2D32Async");
        for (int i = 0; i <= 2 * last && !status; i++) {
            x->level = i < last ? i : 2 * last - i;
            x->reduced = i < last ? 1 : i > last ? 0 : levels - 1 - last;
            x->substituted = i < last ? 0 : i > last ? 1 : levels - last;
            x->blocks = (unsigned)smm_pieces(orders[x->level], parts * SMM_PART);
            status = launch_blocks(driver, kernel, args, x->blocks * count * columns, stream);
        }
    }
    smm_cuda_release(&workspace);
    return status;
}

smm_cuda_status smm_cuda_enqueue(const smm_cuda_functions *driver, const smm_cuda_device *device, int ordinal,
                                 const smm_call *call, const smm_cuda_kernel *kernel, smm_cuda_args *args,
                                 void *stream) {
    const intptr_t size = smm_size(smm_dtypes[call->dtype].computed); /* of a sum */
    if (kernel->parameters.kernel == SMM_CUDA_KERNEL_banded_parts)
        return launch_in_parts(driver, ordinal, kernel, args, size, stream);
    return kernel->grid.rows ? launch_tiled(driver, device, ordinal, kernel, args, size, stream)
                             : launch(driver, device, ordinal, kernel, args, stream);
}

bool smm_cuda_is_empty(const smm_call *call) {
    return (call->op == SMM_OP_MATMUL && (call->m == 0 || call->n == 0)) || !call->batch || !smm_runs(call);
}

smm_cuda_status smm_cuda_run(const smm_call *call, const double _Complex number[], int ordinal, void *stream) {
    if (smm_cuda_is_empty(call)) return SMM_CUDA_OK;
    smm_cuda_entered on;
    smm_cuda_kernel kernel;
    smm_cuda_args args;
    smm_cuda_status status = smm_cuda_enter(ordinal, &on);
    if (status) return status;
    status = smm_cuda_prepare_in_context(call, number, NULL, ordinal, on.device, &kernel, &args);
    if (!status) status = smm_cuda_enqueue(on.driver, on.device, ordinal, call, &kernel, &args, stream);
    smm_cuda_leave(&on);
    return status;
}

/* Find the kernel of a convolution; and, if `run`, put it on the stream. */
static smm_cuda_status convolve(const smm_convolution *x, int ordinal, bool run, void *stream,
                                smm_cuda_kernel *kernel) {
    smm_cuda_entered on;
    smm_cuda_problem problem;
    smm_cuda_args args;
    if (!smm_cuda_describe_convolution(x, &problem, &args))
        return smm_cuda_fail(SMM_CUDA_UNSUPPORTED,
                             "no CUDA kernel takes images of more than 2^30 pixels, or more than %d batch dimensions",
                             SMM_CUDA_DIMS - 1);
    smm_cuda_status status = smm_cuda_enter(ordinal, &on);
    if (status) return status;
    status = prepare_problem(&problem, ordinal, on.device, kernel);
    if (!status && run) status = launch_tiled(on.driver, on.device, ordinal, kernel, &args, smm_size(x->dtype), stream);
    smm_cuda_leave(&on);
    return status;
}

/* So many images that the product has no more columns than its kernel counts. */
static intptr_t images_at_once(const smm_convolution *x) {
    const intptr_t most = SMM_CUDA_PIXELS / x->rows.outputs / x->columns.outputs;
    return most ? most : 1;
}

smm_cuda_status smm_cuda_prepare_convolution(const smm_convolution *convolution, int ordinal, smm_cuda_kernel *kernel) {
    smm_convolution x = *convolution;
    const intptr_t most = images_at_once(&x);
    if (x.images > most) x.images = most;
    return convolve(&x, ordinal, false, NULL, kernel);
}

smm_cuda_status smm_cuda_convolve(const smm_convolution *convolution, int ordinal, void *stream) {
    smm_convolution x = *convolution;
    const intptr_t most = images_at_once(&x);
    smm_cuda_status status = SMM_CUDA_OK;
    smm_cuda_kernel kernel;
    for (intptr_t done = 0; done < convolution->images && !status; done += x.images) {
        x.images = min_of(convolution->images - done, most);
        x.x = (const char *)convolution->x + done * x.x_stride.image;
        x.y = (char *)convolution->y + done * x.y_stride.image;
        status = convolve(&x, ordinal, true, stream, &kernel);
    }
    return status;
}

smm_cuda_status smm_cuda_run_program(const smm_cuda_kernel *kernel, long long blocks, void *args, int ordinal,
                                     void *stream) {
    smm_cuda_entered on;
    smm_cuda_status status = smm_cuda_enter(ordinal, &on);
    if (status) return status;
    status = launch_blocks(on.driver, kernel, args, blocks, stream);
    smm_cuda_leave(&on);
    return status;
}
