/* launch.c: from a call to a launch: describes the operands, finds or builds the kernel, and puts it on the stream. */
#include <complex.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "../core.h"
#include "cuda.h"

/* --- describing operands --- */

static bool is_large(intptr_t m, intptr_t k, intptr_t n) {
    return m > SMM_CUDA_MOST || k > SMM_CUDA_MOST || n > SMM_CUDA_MOST;
}

static bool is_of_diagonals(smm_op op) { return smm_operations[op].operand[0].direction & SMM_LONG; }

bool smm_cuda_takes(smm_op op, smm_dtype dtype, intptr_t m, intptr_t k, intptr_t n) {
    if (!smm_cuda_takes_dtype(op, dtype)) return false;
    if (is_of_diagonals(op)) return n > 0 && n <= SMM_LONGEST && (m > 0 || op == SMM_OP_SOLVE_TRIDIAGONAL);
    if (op == SMM_OP_MATMUL) return !smm_is_complex(dtype) || !is_large(m, k, n);
    return m > 0 && n > 0 && (m <= SMM_MOST_ORDER || n <= SMM_MOST_ORDER) && m * n <= SMM_MOST_ORDER * SMM_MOST_ORDER;
}

_Static_assert((int)SMM_ABSENT == (int)SMM_MOST_OPERANDS, "the place after all operands");

/* A number as an operand of its type holds it. float16 is rounded once, not twice by way of float32: what float32 cuts
 * off leaves its mark in the last bit, which float16 does not have. */
static double as_stored(double x, smm_dtype dtype) {
    float near = (float)x;
    if (dtype == SMM_F16 && isfinite(near) && (double)near != x)
        near = smm_of_bits((smm_bits_of(near) - (fabs((double)near) > fabs(x))) | 1);
    uint16_t stored;
    smm_put(&stored, dtype, near);
    return smm_get(&stored, dtype);
}

/* Operands in the form that a kernel takes: strides in elements, and batch dimensions, innermost first. */
static void describe_operands(const smm_call *call, const double _Complex number[], smm_cuda_args *args) {
    const smm_outer *outer = call->outer;
    const int own = call->batch != 1, dims = own + (outer ? outer->dims : 0);
    memset(args, 0, sizeof *args);
    for (int i = 0; i < smm_operations[call->op].count; i++) {
        const smm_operand *from = &call->operand[i];
        const intptr_t size = smm_size_of(call->op, call->dtype, i);
        smm_cuda_operand *to = &args->operand[i];
        *to = (smm_cuda_operand){.data = from->data, .row = from->row / size, .col = from->col / size};
        to->batch[0] = from->batch / size;
        for (int d = own; d < dims; d++) to->batch[d] = outer->stride[d - own][i] / size;
        const bool rounded = smm_is_stored(call->dtype) && smm_operations[call->op].operand[i].element != SMM_INT32;
        args->number[i] = rounded ? as_stored(creal(number[i]), call->dtype) : creal(number[i]);
        args->imaginary[i] = cimag(number[i]);
    }
    args->extent[0] = call->batch;
    for (int d = own; d < dims; d++) args->extent[d] = outer->extent[d - own];
    args->dims = dims;
    args->batch = call->batch * smm_runs(call);
    args->k = call->k;
    args->m = call->m;
    args->n = call->n;
}

static bool lies_by_rows(const smm_cuda_operand *x, intptr_t rows, intptr_t cols) {
    return (cols <= 1 || x->col == 1) && (rows <= 1 || x->row == cols);
}
static bool lies_by_cols(const smm_cuda_operand *x, intptr_t rows, intptr_t cols) {
    return (rows <= 1 || x->row == 1) && (cols <= 1 || x->col == rows);
}

static uint8_t order_of(const smm_cuda_operand *x, intptr_t rows, intptr_t cols) {
    if (lies_by_rows(x, rows, cols)) return SMM_ORDER_ROW;
    if (lies_by_cols(x, rows, cols)) return SMM_ORDER_COL;
    return cols > 1 && (rows <= 1 || llabs(x->col) <= llabs(x->row)) ? SMM_ORDER_ROW : SMM_ORDER_COL;
}

static uint8_t source_of(const smm_cuda_operand *x, const smm_cuda_args *args, intptr_t rows, intptr_t cols) {
    if (!lies_by_rows(x, rows, cols) && !lies_by_cols(x, rows, cols)) return SMM_SOURCE_STRIDED;
    if (args->dims == 0 || (args->dims == 1 && x->batch[0] == (long long)rows * cols)) return SMM_SOURCE_FLAT;
    for (int d = 0; d < args->dims; d++)
        if (x->batch[d]) return SMM_SOURCE_STRIDED;
    return SMM_SOURCE_ONE;
}

static smm_cuda_operand transposed(smm_cuda_operand x) {
    const long long row = x.row;
    x.row = x.col;
    x.col = row;
    return x;
}

/* Real matrices that are symmetric have no form of their own. An upper triangle is the lower one of the transpose; but
 * that of complex Cholesky factors is to be conjugated, too. A product whose C is column-major is C^T = B^T A^T: then
 * this returns true; but not of complex numbers, whose products depend on the order of the factors. */
static bool normalise(smm_call *c, smm_cuda_operand x[]) {
    if (!smm_is_complex(c->dtype)) c->form &= ~SMM_SYMMETRIC;
    const bool from_factor = c->op == SMM_OP_CHO_SOLVE || c->op == SMM_OP_SOLVE_POS;
    if (c->form & SMM_UPPER && (c->op == SMM_OP_CHOLESKY || (from_factor && !smm_is_complex(c->dtype)))) {
        x[SMM_A] = transposed(x[SMM_A]);
        if (c->op == SMM_OP_CHOLESKY) x[SMM_CHOLESKY_l] = transposed(x[SMM_CHOLESKY_l]);
        c->form &= ~SMM_UPPER;
    }
    if (c->op != SMM_OP_MATMUL || smm_is_complex(c->dtype) || order_of(&x[SMM_MATMUL_c], c->m, c->n) == SMM_ORDER_ROW)
        return false;
    const smm_cuda_operand a = x[SMM_A];
    const intptr_t m = c->m;
    x[SMM_A] = transposed(x[SMM_MATMUL_b]);
    x[SMM_MATMUL_b] = transposed(a);
    x[SMM_MATMUL_c] = transposed(x[SMM_MATMUL_c]);
    c->m = c->n;
    c->n = m;
    return true;
}

/* The size that stands for others up to it: it has four digits in base 2. */
static int class_of(intptr_t size) {
    intptr_t unit = 1;
    while (size > 16 * unit) unit *= 2;
    return (int)(size > SMM_CUDA_LARGEST ? SMM_CUDA_LARGEST : smm_pieces(size, unit) * unit);
}

/* Classes of matrices of diagonals. */
static void set_diagonals(smm_cuda_problem *p, intptr_t m, intptr_t k, intptr_t n) {
    enum { LEAST = 4 };
    p->n = LEAST;
    while (p->n < n && p->n < SMM_CUDA_ORDERS) p->n *= 2;
    p->k = k;
    p->m = p->op == SMM_OP_SOLVE_TRIDIAGONAL ? 3 : least(m, SMM_CUDA_DIAGONALS);
    p->lower = p->op == SMM_OP_SOLVE_TRIDIAGONAL ? 1 : p->lower;
    p->aligned = 0;
    p->source_a = p->source_b = p->source_c = p->source_rest = SMM_SOURCE_STRIDED;
    p->order_a = p->order_b = p->order_c = SMM_ORDER_ROW;
}

void smm_cuda_set_sizes(smm_cuda_problem *p, intptr_t m, intptr_t k, intptr_t n) {
    if (is_of_diagonals(p->op)) {
        set_diagonals(p, m, k, n);
        return;
    }
    const bool images = p->source_b == SMM_SOURCE_IMAGES;
    p->tiled = p->op == SMM_OP_MATMUL && !smm_is_complex(p->dtype) && (images || is_large(m, k, n));
    p->m = p->tiled ? class_of(m) : m;
    p->k = p->tiled ? class_of(k) : k;
    p->n = p->tiled ? class_of(n) : n;
    if (!p->tiled) return;
    p->small = p->aligned = p->in_place = 0;
    p->source_a = p->source_c = SMM_SOURCE_STRIDED;
    if (!images) p->source_b = SMM_SOURCE_STRIDED;
    p->order_c = SMM_ORDER_ROW;
}

/* What the kernel of a tiled product reads of its sizes, and its plan. */
static void take_sizes(smm_cuda_problem *p, smm_cuda_args *args, intptr_t m, intptr_t k, intptr_t n) {
    smm_cuda_set_sizes(p, m, k, n);
    if (!p->tiled) return;
    while ((args->batch - 1) >> p->load) p->load++;
    args->tiles.m = m;
    args->tiles.n = n;
}

bool smm_cuda_may_write(const smm_call *call) {
    const bool tiled = call->op == SMM_OP_MATMUL && is_large(call->m, call->k, call->n);
    const smm_overlap overlap = smm_overlap_of(call);
    return overlap == SMM_APART || (overlap == SMM_IN_PLACE && !tiled); /* whose blocks read what others write */
}

/* Diagonals below the main one, if they are as many in each matrix of a call. */
static uint8_t lower_of(const smm_call *c, const double _Complex number[]) {
    if (c->op != SMM_OP_SOLVE_BANDED) return 0;
    const double lower = creal(number[SMM_SOLVE_BANDED_lower]);
    return c->solve_banded.lower.data || !(lower >= 0 && lower < SMM_CUDA_DIAGONALS) ? SMM_CUDA_DIAGONALS
                                                                                     : (uint8_t)lower;
}

bool smm_cuda_describe(const smm_call *call, const double _Complex number[], smm_cuda_problem *p, smm_cuda_args *args,
                       bool *swapped) {
    enum { FEW = 4096 };
    if (!smm_cuda_takes(call->op, call->dtype, call->m, call->k, call->n)) return false;
    if (call->outer && call->outer->dims >= SMM_CUDA_DIMS) return false; /* and the batch */
    smm_call c = *call;
    smm_cuda_operand *const x = args->operand;
    describe_operands(call, number, args);
    *swapped = normalise(&c, x);

    const smm_roles *roles = &smm_roles_of[c.op];
    const bool product = c.op == SMM_OP_MATMUL, solve = !product && roles->b >= 0;
    const bool in_parts = solve && c.k > SMM_CUDA_COLUMNS;
    memset(p, 0, sizeof *p);
    p->op = c.op;
    p->form = c.form;
    p->dtype = c.dtype;
    p->scaled = product && (x[SMM_MATMUL_alpha].data || x[SMM_MATMUL_beta].data || number[SMM_MATMUL_alpha] != 1 ||
                            number[SMM_MATMUL_beta] != 0);
    p->small = args->batch <= FEW;
    p->lower = lower_of(&c, number);
    uintptr_t bits = 0;
    for (int i = 0; i < smm_operations[c.op].count; i++) {
        const smm_operand_row *row = &smm_operations[c.op].operand[i];
        intptr_t rows, cols;
        smm_sizes_of(c.op, i, c.m, c.n, c.k, &rows, &cols);
        if (!x[i].data || row->direction == SMM_OPTIONAL_IN) continue;
        const uint8_t order = order_of(&x[i], rows, cols);
        uint8_t source = source_of(&x[i], args, rows, cols);
        if (row->direction & SMM_WRITTEN && source == SMM_SOURCE_ONE) source = SMM_SOURCE_STRIDED;
        if (in_parts && (i == roles->b || i == roles->result)) source = SMM_SOURCE_STRIDED;
        if (row->element != SMM_INT32 && source != SMM_SOURCE_STRIDED) bits |= (uintptr_t)x[i].data;
        if (i == SMM_A)
            p->source_a = source, p->order_a = order;
        else if (i == roles->b)
            p->source_b = source, p->order_b = order;
        else if (i == roles->result)
            p->source_c = source, p->order_c = order;
        else if (source != SMM_SOURCE_FLAT || order != SMM_ORDER_ROW)
            p->source_rest = SMM_SOURCE_STRIDED;
    }
    p->aligned = bits % 16 == 0;
    take_sizes(p, args, c.m, in_parts ? SMM_CUDA_COLUMNS : c.k, c.n);
    return true;
}

enum { MOST_PIXELS = 1 << 30 };

/* Convolutions are products of the filters with the im2col matrix of each group. Outputs are numbered so that
 * neighbours are neighbours in the images. False: something is too large, or the batch has too many dimensions. */
static bool describe_convolution(const smm_convolution *x, smm_cuda_problem *p, smm_cuda_args *args) {
    enum { MOST = MOST_PIXELS };
    const intptr_t size = smm_size(x->dtype);
    const smm_axis *axes[2] = {&x->rows, &x->columns};
    const intptr_t strides[2] = {x->x_stride.row, x->x_stride.column}, to[2] = {x->y_stride.row, x->y_stride.column};
    memset(p, 0, sizeof *p);
    memset(args, 0, sizeof *args);
    smm_cuda_images *const images = &args->images;
    images->channel = x->x_stride.channel / size;
    images->row = strides[0] / size;
    images->column = strides[1] / size;
    int order[3] = {1, 0, 2}; /* columns, rows, images */
    if (x->images > 1 && llabs(x->x_stride.image) < llabs(strides[1])) order[0] = 2, order[1] = 1, order[2] = 0;
    intptr_t pixels = x->images;
    for (int i = 0; i < 2; i++) {
        const smm_axis *axis = axes[i];
        if (axis->inputs > MOST || axis->before > MOST || axis->outputs > MOST || axis->stride > MOST ||
            axis->kernel > MOST || axis->dilation > MOST || (axis->outputs && pixels > MOST / axis->outputs))
            return false;
        pixels *= axis->outputs;
        images->kernel[i] = (int)axis->kernel;
        images->dilation[i] = (int)axis->dilation;
        images->inputs[i] = (int)axis->inputs;
        images->first[i] = (int)-axis->before;
    }
    for (int d = 0; d < 3; d++) {
        const int i = order[d];
        images->digit[d].extent = (int)(i == 2 ? x->images : axes[i]->outputs);
        if (i < 2) images->digit[d].step[i] = (int)axes[i]->stride;
        images->digit[d].x = i == 2 ? x->x_stride.image / size : 0;
        images->digit[d].y = (i == 2 ? x->y_stride.image : to[i]) / size;
    }
    smm_cuda_operand *const w = &args->operand[SMM_A], *const from = &args->operand[SMM_MATMUL_b],
                            *const y = &args->operand[SMM_MATMUL_c];
    *w = (smm_cuda_operand){(void *)(uintptr_t)x->w, x->w_stride.filter / size, x->w_stride.term / size, {0}};
    *from = (smm_cuda_operand){(void *)(uintptr_t)x->x, 0, 0, {0}};
    *y = (smm_cuda_operand){x->y, x->y_stride.channel / size, 0, {0}};
    const int dims = 1 + (x->batch ? x->batch->dims : 0);
    if (dims > SMM_CUDA_DIMS) return false;
    args->batch = 1;
    for (int d = 0; d < dims; d++) { /* the groups, then the batch */
        args->extent[d] = d ? x->batch->extent[d - 1] : x->groups;
        from->batch[d] = (d ? x->batch->stride[d - 1][0] : x->x_stride.group) / size;
        w->batch[d] = (d ? x->batch->stride[d - 1][1] : x->w_stride.group) / size;
        y->batch[d] = (d ? x->batch->stride[d - 1][2] : x->y_stride.group) / size;
        args->batch *= args->extent[d];
    }
    args->dims = dims;
    args->k = x->channels * x->rows.kernel * x->columns.kernel;
    p->op = SMM_OP_MATMUL;
    p->dtype = x->dtype;
    p->source_b = SMM_SOURCE_IMAGES;
    p->order_a = order_of(w, x->filters, args->k);
    p->order_b = args->k == x->channels && llabs(images->channel) < llabs(images->digit[0].step[1] * images->column)
                     ? SMM_ORDER_COL
                     : SMM_ORDER_ROW;
    take_sizes(p, args, x->filters, args->k, pixels);
    return true;
}

/* --- kernels in memory --- */

typedef struct entry {
    smm_cuda_problem problem;
    bool used;
    smm_cuda_kernel kernel;
} entry;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static entry *table;
static size_t table_size, table_used; /* size is a power of two */

void smm_cuda_forget(void) {
    pthread_mutex_lock(&lock);
    free(table); /* unloading could free code that is running */
    table = NULL;
    table_size = table_used = 0;
    pthread_mutex_unlock(&lock);
}

static size_t slot_of(const entry *entries, size_t size, const smm_cuda_problem *problem) {
    enum { WORDS = 4 };
    uint64_t words[WORDS];
    _Static_assert(sizeof *problem == sizeof words, "a problem has so many words");
    memcpy(words, problem, sizeof words);
    uint64_t h = 0;
    for (int i = 0; i < WORDS; i++) h = (h ^ words[i]) * 0xd6e8feb86659fd93, h ^= h >> 32;
    size_t slot = h & (size - 1);
    while (entries[slot].used && memcmp(&entries[slot].problem, problem, sizeof *problem))
        slot = (slot + 1) & (size - 1);
    return slot;
}

static bool grow(void) {
    const size_t size = table_size ? 2 * table_size : 256;
    entry *entries = calloc(size, sizeof *entries);
    if (!entries) return false;
    for (size_t i = 0; i < table_size; i++)
        if (table[i].used) entries[slot_of(entries, size, &table[i].problem)] = table[i];
    free(table);
    table = entries;
    table_size = size;
    return true;
}

/* Why a kernel cannot be loaded: usually because NVRTC is of a later CUDA version than the driver. */
static smm_cuda_status explain_load(const smm_cuda_functions *driver) {
    const smm_nvrtc_functions *nvrtc;
    int version = 0, major = 0, minor = 0;
    if (driver->version(&version) || smm_cuda_nvrtc(&nvrtc) || nvrtc->version(&major, &minor) ||
        version / 1000 >= major)
        return SMM_CUDA_FAILED;
    return smm_cuda_fail(
        SMM_CUDA_UNAVAILABLE,
        "the driver is of CUDA %d.%d and cannot load what NVRTC %d.%d compiles; install a newer driver, or "
        "the NVRTC of the driver's CUDA: pip install nvidia-cuda-nvrtc-cu%d",
        version / 1000, version % 1000 / 10, major, minor, version / 1000);
}

static smm_cuda_status load(const smm_cuda_cubin *cubin, smm_cuda_kernel *kernel) {
    enum { MAX_DYNAMIC_SHARED = 8 };    /* CUfunction_attribute */
    enum { WITHOUT_ASKING = 40 << 10 }; /* 48 KB, of which a kernel's own arrays are a part */
    const smm_cuda_functions *driver;
    smm_cuda_status status = smm_cuda_driver(&driver);
    if (!status) status = smm_cuda_check(driver->module_load(&kernel->module, cubin->data), "cuModuleLoadData");
    if (status == SMM_CUDA_FAILED) status = explain_load(driver);
    if (!status)
        status = smm_cuda_check(driver->module_function(&kernel->function, kernel->module, cubin->name),
                                "cuModuleGetFunction");
    if (!status && kernel->grid.shared > WITHOUT_ASKING)
        status = smm_cuda_check(driver->function_set(kernel->function, MAX_DYNAMIC_SHARED, kernel->grid.shared),
                                "cuFuncSetAttribute");
    if (!status)
        status = smm_cuda_check(
            driver->occupancy(&kernel->at_once, kernel->function, kernel->grid.threads, kernel->grid.shared),
            "cuOccupancyMaxActiveBlocksPerMultiprocessor");
    return status;
}

/* Compile and load what was planned. */
static smm_cuda_status build(const smm_cuda_problem *problem, smm_cuda_kernel *kernel) {
    smm_cuda_cubin cubin;
    smm_cuda_status status = smm_cuda_build(problem, &kernel->parameters, &kernel->grid, &cubin);
    if (status) return status;
    kernel->from_disk = cubin.from_disk;
    status = load(&cubin, kernel);
    smm_cuda_free_cubin(&cubin);
    return status;
}

/* The kernel for a problem. Threads that need a kernel while another compiles wait on one lock; simultaneous
 * compilations are rare. */
static smm_cuda_status find(const smm_cuda_device *device, const smm_cuda_problem *problem, smm_cuda_kernel *kernel) {
    smm_cuda_status status = SMM_CUDA_OK;
    pthread_mutex_lock(&lock);
    if (table_used * 2 >= table_size && !grow()) {
        status = smm_cuda_fail(SMM_CUDA_MEMORY, "out of memory");
    } else {
        entry *e = &table[slot_of(table, table_size, problem)];
        if (!e->used) {
            e->problem = *problem;
            status = smm_cuda_plan(problem, device, &e->kernel);
            if (!status) status = build(problem, &e->kernel);
            e->used = !status;
            table_used += !status;
        }
        if (!status) *kernel = e->kernel;
    }
    pthread_mutex_unlock(&lock);
    return status;
}

/* --- launching --- */

static smm_cuda_status prepare_problem(smm_cuda_problem *problem, int ordinal, const smm_cuda_device *device,
                                       smm_cuda_kernel *kernel) {
    problem->device = ordinal;
    problem->arch = device->arch;
    return find(device, problem, kernel);
}

/* A kernel with parameters of its own, which is in no table. */
static smm_cuda_status prepare_given(const smm_cuda_problem *problem, const smm_cuda_parameters *parameters,
                                     const smm_cuda_device *device, smm_cuda_kernel *kernel) {
    *kernel = (smm_cuda_kernel){.parameters = *parameters};
    if (!smm_cuda_fits(problem, parameters, device->shared_memory, &kernel->grid))
        return smm_cuda_fail(SMM_CUDA_UNSUPPORTED, "%s does not take m = %d, k = %d, n = %d with these parameters",
                             smm_cuda_kernel_names[parameters->kernel], problem->m, problem->k, problem->n);
    return build(problem, kernel);
}

/* With parameters, which may be NULL, their kernel. */
static smm_cuda_status prepare(const smm_call *call, const double _Complex number[],
                               const smm_cuda_parameters *parameters, int ordinal, const smm_cuda_device *device,
                               smm_cuda_kernel *kernel, smm_cuda_args *args) {
    smm_cuda_problem problem;
    bool swapped;
    if (!smm_cuda_describe(call, number, &problem, args, &swapped))
        return smm_cuda_fail(SMM_CUDA_UNSUPPORTED, "no CUDA kernel takes %lld x %lld matrices", (long long)call->m,
                             (long long)call->n);
    problem.in_place = smm_overlap_of(call) == SMM_IN_PLACE;
    problem.arch = device->arch;
    const smm_cuda_status status = parameters ? prepare_given(&problem, parameters, device, kernel)
                                              : prepare_problem(&problem, ordinal, device, kernel);
    kernel->swapped = swapped;
    if (!status) kernel->room = smm_cuda_room(&problem, &kernel->parameters, args);
    return status;
}

/* Find the kernel of a call or of a problem, in the device's context. */
static smm_cuda_status prepare_on(int ordinal, const smm_call *call, const double _Complex number[],
                                  const smm_cuda_problem *problem, smm_cuda_kernel *kernel, smm_cuda_args *args) {
    const smm_cuda_device *device;
    bool pushed;
    smm_cuda_status status = smm_cuda_enter(ordinal, &device, &pushed);
    if (status) return status;
    if (call)
        status = prepare(call, number, NULL, ordinal, device, kernel, args);
    else {
        smm_cuda_problem its = *problem;
        status = prepare_problem(&its, ordinal, device, kernel);
    }
    smm_cuda_leave(pushed);
    return status;
}

smm_cuda_status smm_cuda_prepare(const smm_call *call, const double _Complex number[], int ordinal,
                                 smm_cuda_kernel *kernel, smm_cuda_args *args) {
    return prepare_on(ordinal, call, number, NULL, kernel, args);
}

smm_cuda_status smm_cuda_ready(const smm_cuda_problem *problem, int ordinal, smm_cuda_kernel *kernel) {
    return prepare_on(ordinal, NULL, NULL, problem, kernel, NULL);
}

enum { MOST_BLOCKS = 0x7fffffff };

/* Put a grid of so many blocks on the stream. */
static smm_cuda_status launch_blocks(const smm_cuda_functions *driver, const smm_cuda_kernel *kernel, void *args,
                                     long long blocks, void *stream) {
    if (blocks > MOST_BLOCKS)
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
        const long long time = smm_pieces(tiles * parts, at_once) * (4 * x + (parts > 1));
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
    enum { MOST_SUMS = 256 << 20 }; /* bytes */
    const smm_cuda_grid *grid = &kernel->grid;
    smm_cuda_tiles *const x = &args->tiles;
    const bool deep = args->k > SMM_DEEP;
    const long long tiles = smm_pieces(x->m, grid->rows) * smm_pieces(x->n, grid->cols) * args->batch;
    const long long chunks = deep ? smm_pieces(args->k, SMM_CHUNK) : 1, area = (long long)grid->rows * grid->cols;
    const long long at_once = (long long)(kernel->at_once ? kernel->at_once : 1) * device->multiprocessors;
    x->span = choose_span(kernel, tiles, chunks, at_once);
    x->parts = deep ? smm_pieces(chunks, (long long)x->span * grid->slices) : 1;
    long long most = deep ? MOST_BLOCKS / x->parts : (long long)MOST_BLOCKS * grid->slices;
    const bool in_parts = x->parts > 1;
    if (in_parts && most > MOST_SUMS / (x->parts * area * size)) most = MOST_SUMS / (x->parts * area * size);
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
    const double most_room = 4.0 * (1 << 30), room = kernel->room * kernel->grid.matrices;
    const int stay = kernel->grid.resident == SMM_CUDA_AS_MANY_AS_FIT ? kernel->at_once : kernel->grid.resident;
    const long long resident = (long long)stay * device->multiprocessors;
    long long blocks = (batch + kernel->grid.matrices - 1) / kernel->grid.matrices;
    if (resident && blocks > resident) blocks = resident;
    return (double)blocks * room > most_room ? (long long)fmax(1, most_room / room) : blocks;
}

static smm_cuda_status launch(const smm_cuda_functions *driver, const smm_cuda_device *device, int ordinal,
                              const smm_cuda_kernel *kernel, smm_cuda_args *args, void *stream) {
    const long long matrices = kernel->grid.matrices, blocks = blocks_of(device, kernel, args->batch);
    const double bytes = kernel->room * fmin((double)args->batch, (double)(blocks * matrices));
    smm_cuda_resource room = {
        .kind = SMM_CUDA_SCRATCH, .device = ordinal, .bytes = (size_t)fmin(bytes, 0x1p60), .stream = stream};
    smm_cuda_status status = bytes > 0 ? smm_cuda_acquire(&room) : SMM_CUDA_OK;
    if (status) return status;
    args->room = room.address;
    args->ahead = kernel->at_once * device->multiprocessors * matrices;
    status = launch_blocks(driver, kernel, args, blocks, stream);
    if (bytes > 0) smm_cuda_release(&room);
    return status;
}

/* A call that is prepared. */
static smm_cuda_status enqueue(const smm_cuda_functions *driver, const smm_cuda_device *device, int ordinal,
                               const smm_call *call, const smm_cuda_kernel *kernel, smm_cuda_args *args, void *stream) {
    const intptr_t size = smm_size(smm_dtypes[call->dtype].computed); /* of a sum */
    return kernel->grid.rows ? launch_tiled(driver, device, ordinal, kernel, args, size, stream)
                             : launch(driver, device, ordinal, kernel, args, stream);
}

static bool is_empty(const smm_call *call) {
    return (call->op == SMM_OP_MATMUL && (call->m == 0 || call->n == 0)) || !call->batch || !smm_runs(call);
}

smm_cuda_status smm_cuda_run(const smm_call *call, const double _Complex number[], int ordinal, void *stream) {
    if (is_empty(call)) return SMM_CUDA_OK;
    const smm_cuda_device *device;
    const smm_cuda_functions *driver;
    smm_cuda_kernel kernel;
    smm_cuda_args args;
    bool pushed;
    smm_cuda_status status = smm_cuda_driver(&driver);
    if (status || (status = smm_cuda_enter(ordinal, &device, &pushed))) return status;
    status = prepare(call, number, NULL, ordinal, device, &kernel, &args);
    if (!status) status = enqueue(driver, device, ordinal, call, &kernel, &args, stream);
    smm_cuda_leave(pushed);
    return status;
}

/* --- timing --- */

/* What is timed, and by what. */
typedef struct stopwatch {
    const smm_cuda_functions *driver;
    const smm_cuda_device *device;
    int ordinal;
    const smm_call *call;
    const smm_cuda_kernel *kernel;
    smm_cuda_args *args;
    void *stream, *begin, *end; /* of its own */
    void *graph, *executable;   /* several runs of the call */
} stopwatch;

static smm_cuda_status run_once(stopwatch *x) {
    return enqueue(x->driver, x->device, x->ordinal, x->call, x->kernel, x->args, x->stream);
}

static smm_cuda_status replay(stopwatch *x) {
    return smm_cuda_check(x->driver->graph_launch(x->executable, x->stream), "cuGraphLaunch");
}

/* Nanoseconds between events before and after some work. */
static smm_cuda_status time_work(stopwatch *x, smm_cuda_status work(stopwatch *), double *nanoseconds) {
    float milliseconds = 0;
    smm_cuda_status status = smm_cuda_check(x->driver->event_record(x->begin, x->stream), "cuEventRecord");
    if (!status) status = work(x);
    if (!status) status = smm_cuda_check(x->driver->event_record(x->end, x->stream), "cuEventRecord");
    if (!status) status = smm_cuda_check(x->driver->event_wait(x->end), "cuEventSynchronize");
    if (!status)
        status = smm_cuda_check(x->driver->event_elapsed(&milliseconds, x->begin, x->end), "cuEventElapsedTime");
    *nanoseconds = 1e6 * (double)milliseconds;
    return status;
}

static smm_cuda_status capture(stopwatch *x, int runs) {
    enum { THREAD_LOCAL = 1 }; /* other threads may do what disturbs no capture of theirs */
    smm_cuda_status status = smm_cuda_check(x->driver->capture_begin(x->stream, THREAD_LOCAL), "cuStreamBeginCapture");
    if (status) return status;
    for (int i = 0; i < runs && !status; i++) status = run_once(x);
    const int error = x->driver->capture_end(x->stream, &x->graph);
    if (!status) status = smm_cuda_check(error, "cuStreamEndCapture");
    if (!status)
        status = smm_cuda_check(x->driver->graph_instantiate(&x->executable, x->graph, 0), "cuGraphInstantiate");
    return status;
}

/* A sample is long enough for the events' resolution, and for the launch of the graph not to matter. */
static smm_cuda_status time_samples(stopwatch *x, int samples, double nanoseconds[]) {
    enum { NON_BLOCKING = 1, DEFAULT = 0, MOST_RUNS = 50 };
    const double SAMPLE = 2e5, LEAST = 1e3;
    double once = 0;
    smm_cuda_status status = smm_cuda_check(x->driver->stream_create(&x->stream, NON_BLOCKING), "cuStreamCreate");
    if (!status) status = smm_cuda_check(x->driver->event_create(&x->begin, DEFAULT), "cuEventCreate");
    if (!status) status = smm_cuda_check(x->driver->event_create(&x->end, DEFAULT), "cuEventCreate");
    if (!status) status = time_work(x, run_once, &once);
    const int runs = (int)fmin(MOST_RUNS, ceil(SAMPLE / fmax(once, LEAST)));
    if (!status) status = capture(x, runs);
    if (!status) status = time_work(x, replay, &once); /* it comes to the device */
    for (int i = 0; i < samples && !status; i++) {
        status = time_work(x, replay, &nanoseconds[i]);
        nanoseconds[i] /= runs;
    }
    if (x->stream) x->driver->stream_synchronize(x->stream); /* after a failure, too */
    if (x->executable) x->driver->graph_release(x->executable);
    if (x->graph) x->driver->graph_destroy(x->graph);
    if (x->begin) x->driver->event_destroy(x->begin);
    if (x->end) x->driver->event_destroy(x->end);
    if (x->stream) x->driver->stream_destroy(x->stream);
    return status;
}

smm_cuda_status smm_cuda_time(const smm_call *call, const double _Complex number[],
                              const smm_cuda_parameters *parameters, int ordinal, void *stream, int samples,
                              double nanoseconds[]) {
    const smm_cuda_device *device;
    const smm_cuda_functions *driver;
    smm_cuda_kernel kernel = {0};
    smm_cuda_args args;
    bool pushed;
    for (int i = 0; i < samples; i++) nanoseconds[i] = 0;
    if (is_empty(call)) return SMM_CUDA_OK;
    smm_cuda_status status = smm_cuda_driver(&driver);
    if (status || (status = smm_cuda_enter(ordinal, &device, &pushed))) return status;
    status = prepare(call, number, parameters, ordinal, device, &kernel, &args);
    if (!status) status = enqueue(driver, device, ordinal, call, &kernel, &args, stream);
    if (!status) status = smm_cuda_check(driver->stream_synchronize(stream), "cuStreamSynchronize");
    stopwatch x = {driver, device, ordinal, call, &kernel, &args, NULL, NULL, NULL, NULL, NULL};
    if (!status) status = time_samples(&x, samples, nanoseconds);
    if (parameters && kernel.module) driver->module_unload(kernel.module); /* all that ran of it was waited for */
    smm_cuda_leave(pushed);
    return status;
}

/* Find the kernel of a convolution; and, if `run`, put it on the stream. */
static smm_cuda_status convolve(const smm_convolution *x, int ordinal, bool run, void *stream,
                                smm_cuda_kernel *kernel) {
    const smm_cuda_device *device;
    const smm_cuda_functions *driver;
    smm_cuda_problem problem;
    smm_cuda_args args;
    bool pushed;
    if (!describe_convolution(x, &problem, &args))
        return smm_cuda_fail(SMM_CUDA_UNSUPPORTED,
                             "no CUDA kernel takes images of more than 2^30 pixels, or more than %d batch dimensions",
                             SMM_CUDA_DIMS - 1);
    smm_cuda_status status = smm_cuda_driver(&driver);
    if (status || (status = smm_cuda_enter(ordinal, &device, &pushed))) return status;
    status = prepare_problem(&problem, ordinal, device, kernel);
    if (!status && run) status = launch_tiled(driver, device, ordinal, kernel, &args, smm_size(x->dtype), stream);
    smm_cuda_leave(pushed);
    return status;
}

/* So many images that the product has no more columns than its kernel counts. */
static intptr_t images_at_once(const smm_convolution *x) {
    const intptr_t most = MOST_PIXELS / x->rows.outputs / x->columns.outputs;
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
        x.images = least(convolution->images - done, most);
        x.x = (const char *)convolution->x + done * x.x_stride.image;
        x.y = (char *)convolution->y + done * x.y_stride.image;
        status = convolve(&x, ordinal, true, stream, &kernel);
    }
    return status;
}

smm_cuda_status smm_cuda_load_program(const char *text, int ordinal, smm_cuda_kernel *kernel) {
    const smm_cuda_device *device;
    smm_cuda_cubin cubin;
    bool pushed;
    smm_cuda_status status = smm_cuda_enter(ordinal, &device, &pushed);
    if (status) return status;
    status = smm_cuda_build_program(text, device->arch, &cubin);
    if (!status) {
        kernel->from_disk = cubin.from_disk;
        status = load(&cubin, kernel);
        smm_cuda_free_cubin(&cubin);
    }
    smm_cuda_leave(pushed);
    return status;
}

smm_cuda_status smm_cuda_run_program(const smm_cuda_kernel *kernel, long long blocks, void *args, int ordinal,
                                     void *stream) {
    const smm_cuda_device *device;
    const smm_cuda_functions *driver;
    bool pushed;
    smm_cuda_status status = smm_cuda_driver(&driver);
    if (status || (status = smm_cuda_enter(ordinal, &device, &pushed))) return status;
    status = launch_blocks(driver, kernel, args, blocks, stream);
    smm_cuda_leave(pushed);
    return status;
}
