/* launch.c: from a call to a launch: describes the operands, finds or builds the kernel, and puts it on the stream. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cuda.h"

/* --- describing operands --- */

/* Batch dimensions of length 1 go; neighbours through which every operand steps evenly become one. */
static void merge_dimensions(const smm_cuda_call *call, smm_cuda_operand *const x[], int operands,
                             smm_cuda_args *args) {
    args->dims = 0;
    args->batch = 1;
    for (int d = 0; d < call->dims; d++) {
        const long long extent = call->extent[d];
        args->batch *= extent;
        if (extent == 1) continue;
        const int last = args->dims - 1;
        bool merges = last >= 0;
        for (int i = 0; i < operands && merges; i++) merges = x[i]->batch[d] == x[i]->batch[last] * args->extent[last];
        if (merges) {
            args->extent[last] *= extent;
            continue;
        }
        for (int i = 0; i < operands; i++) x[i]->batch[args->dims] = x[i]->batch[d];
        args->extent[args->dims++] = extent;
    }
}

static bool lies_by_rows(const smm_cuda_operand *x, int rows, int cols) {
    return (cols <= 1 || x->col == 1) && (rows <= 1 || x->row == cols);
}
static bool lies_by_cols(const smm_cuda_operand *x, int rows, int cols) {
    return (rows <= 1 || x->row == 1) && (cols <= 1 || x->col == rows);
}

static void classify(const smm_cuda_operand *x, const smm_cuda_args *args, int rows, int cols, uint8_t *source,
                     uint8_t *order) {
    const bool by_rows = lies_by_rows(x, rows, cols), by_cols = lies_by_cols(x, rows, cols);
    *order = by_rows ? SMM_ORDER_ROW : SMM_ORDER_COL;
    bool one = true;
    for (int d = 0; d < args->dims; d++) one = one && x->batch[d] == 0;
    if (by_rows || by_cols) {
        if (args->dims == 0 || (args->dims == 1 && x->batch[0] == (long long)rows * cols))
            *source = SMM_SOURCE_FLAT;
        else
            *source = one ? SMM_SOURCE_ONE : SMM_SOURCE_STRIDED;
    } else {
        *source = SMM_SOURCE_STRIDED;
        *order = cols > 1 && (rows <= 1 || llabs(x->col) <= llabs(x->row)) ? SMM_ORDER_ROW : SMM_ORDER_COL;
    }
}

static smm_cuda_operand transposed(smm_cuda_operand x) {
    const long long row = x.row;
    x.row = x.col;
    x.col = row;
    return x;
}

bool smm_cuda_describe(const smm_cuda_call *call, smm_cuda_problem *p, smm_cuda_args *args, bool *swapped) {
    if (call->m > SMM_CUDA_MOST || call->k > SMM_CUDA_MOST || call->n > SMM_CUDA_MOST) return false;
    smm_cuda_operand *const x = args->operand;
    x[0] = call->a;
    x[1] = call->b;
    x[2] = call->c;
    x[3] = call->alpha;
    x[4] = call->beta;
    args->alpha = call->alpha_number;
    args->beta = call->beta_number;
    merge_dimensions(call, (smm_cuda_operand *const[]){&x[0], &x[1], &x[2], &x[3], &x[4]}, call->scaled ? 5 : 3, args);

    memset(p, 0, sizeof *p);
    p->op = call->op;
    p->dtype = call->dtype;
    p->m = call->m;
    p->k = call->k;
    p->n = call->n;
    p->scaled = call->scaled;
    uint8_t order_c;
    classify(&x[2], args, p->m, p->n, &p->source_c, &order_c);
    *swapped = order_c == SMM_ORDER_COL;
    if (*swapped) {
        const smm_cuda_operand a = x[0];
        x[0] = transposed(x[1]);
        x[1] = transposed(a);
        x[2] = transposed(x[2]);
        p->m = call->n;
        p->n = call->m;
    }
    if (p->source_c == SMM_SOURCE_ONE) p->source_c = SMM_SOURCE_STRIDED;
    classify(&x[0], args, p->m, p->k, &p->source_a, &p->order_a);
    classify(&x[1], args, p->k, p->n, &p->source_b, &p->order_b);
    uintptr_t bits = 0;
    if (p->source_a != SMM_SOURCE_STRIDED) bits |= (uintptr_t)x[0].data;
    if (p->source_b != SMM_SOURCE_STRIDED) bits |= (uintptr_t)x[1].data;
    if (p->source_c != SMM_SOURCE_STRIDED) bits |= (uintptr_t)x[2].data;
    p->aligned = bits % 16 == 0;
    return true;
}

/* First byte, and the one after the last, of an operand. */
static void range(const smm_cuda_call *call, const smm_cuda_operand *x, intptr_t rows, intptr_t cols, intptr_t *low,
                  intptr_t *high) {
    const intptr_t size = call->dtype == SMM_F32 ? 4 : 8;
    *low = *high = (intptr_t)x->data;
    *high += size;
    intptr_t reach[SMM_CUDA_DIMS + 2];
    reach[0] = (rows - 1) * x->row * size;
    reach[1] = (cols - 1) * x->col * size;
    for (int d = 0; d < call->dims; d++) reach[2 + d] = (call->extent[d] - 1) * x->batch[d] * size;
    for (int i = 0; i < 2 + call->dims; i++) *(reach[i] < 0 ? low : high) += reach[i];
}

static bool same_places(const smm_cuda_call *call, const smm_cuda_operand *x, const smm_cuda_operand *y) {
    if (x->data != y->data) return false;
    for (int d = 0; d < call->dims; d++)
        if (call->extent[d] > 1 && x->batch[d] != y->batch[d]) return false;
    return (x->row == y->row && x->col == y->col) || (x->row == y->col && x->col == y->row);
}

bool smm_cuda_overlaps(const smm_cuda_call *call, bool *in_place) {
    const smm_cuda_operand *const x[] = {&call->a, &call->b};
    const intptr_t rows[] = {call->m, call->k}, cols[] = {call->k, call->n};
    intptr_t low, high, from, to;
    *in_place = false;
    range(call, &call->c, call->m, call->n, &from, &to);
    for (int i = 0; i < 2; i++) {
        range(call, x[i], rows[i], cols[i], &low, &high);
        if (low >= to || from >= high) continue;
        if (rows[i] != call->m || cols[i] != call->n || !same_places(call, x[i], &call->c)) return true;
        *in_place = true;
    }
    return false;
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
    free(table); /* their code stays loaded: it may be running */
    table = NULL;
    table_size = table_used = 0;
    pthread_mutex_unlock(&lock);
}

static size_t slot_of(const entry *entries, size_t size, const smm_cuda_problem *problem) {
    uint64_t words[2] = {0};
    _Static_assert(sizeof *problem <= sizeof words, "a problem is at most two words");
    memcpy(words, problem, sizeof *problem);
    uint64_t h = (words[0] ^ words[1] * 0x9e3779b97f4a7c15) * 0xd6e8feb86659fd93;
    size_t slot = (h >> 32) & (size - 1);
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

static smm_cuda_status load(const smm_cuda_cubin *cubin, smm_cuda_kernel *kernel) {
    enum { MAX_DYNAMIC_SHARED = 8, WITHOUT_ASKING = 48 << 10 }; /* CUfunction_attribute */
    const smm_cuda_functions *driver;
    void *module = NULL;
    smm_cuda_status status = smm_cuda_driver(&driver);
    if (!status) status = smm_cuda_check(driver->module_load(&module, cubin->data), "cuModuleLoadData");
    if (!status)
        status = smm_cuda_check(driver->module_function(&kernel->function, module, cubin->name), "cuModuleGetFunction");
    if (!status && kernel->grid.shared > WITHOUT_ASKING)
        status = smm_cuda_check(driver->function_set(kernel->function, MAX_DYNAMIC_SHARED, kernel->grid.shared),
                                "cuFuncSetAttribute");
    return status;
}

static smm_cuda_status build(const smm_cuda_device *device, const smm_cuda_problem *problem, smm_cuda_kernel *kernel) {
    smm_cuda_cubin cubin;
    smm_cuda_status status = smm_cuda_plan(problem, device->shared_memory, &kernel->parameters, &kernel->grid);
    if (!status) status = smm_cuda_build(problem, &kernel->parameters, &kernel->grid, device->arch, &cubin);
    if (status) return status;
    kernel->from_disk = cubin.from_disk;
    status = load(&cubin, kernel);
    smm_cuda_free_cubin(&cubin);
    return status;
}

/* The kernel for a problem. Who comes while another thread builds, waits: two seldom need the same time twice. */
static smm_cuda_status find(const smm_cuda_device *device, const smm_cuda_problem *problem, smm_cuda_kernel *kernel) {
    smm_cuda_status status = SMM_CUDA_OK;
    pthread_mutex_lock(&lock);
    if (table_used * 2 >= table_size && !grow()) {
        status = smm_cuda_fail(SMM_CUDA_MEMORY, "out of memory");
    } else {
        entry *e = &table[slot_of(table, table_size, problem)];
        if (!e->used) {
            e->problem = *problem;
            status = build(device, problem, &e->kernel);
            e->used = !status;
            table_used += !status;
        }
        if (!status) *kernel = e->kernel;
    }
    pthread_mutex_unlock(&lock);
    return status;
}

/* --- launching --- */

static smm_cuda_status enter(const smm_cuda_functions *driver, const smm_cuda_device *device, bool *pushed) {
    void *current = NULL;
    *pushed = false;
    if (!driver->context_current(&current) && current == device->context) return SMM_CUDA_OK;
    const smm_cuda_status status = smm_cuda_check(driver->context_push(device->context), "cuCtxPushCurrent");
    *pushed = !status;
    return status;
}

static smm_cuda_status prepare(const smm_cuda_call *call, int ordinal, const smm_cuda_device *device,
                               smm_cuda_kernel *kernel, smm_cuda_args *args) {
    smm_cuda_problem problem;
    bool swapped, in_place;
    if (!smm_cuda_describe(call, &problem, args, &swapped))
        return smm_cuda_fail(SMM_CUDA_UNSUPPORTED, "orders above %d have no CUDA kernel", SMM_CUDA_MOST);
    smm_cuda_overlaps(call, &in_place);
    problem.in_place = in_place;
    problem.device = ordinal;
    const smm_cuda_status status = find(device, &problem, kernel);
    kernel->swapped = swapped;
    return status;
}

smm_cuda_status smm_cuda_prepare(const smm_cuda_call *call, int ordinal, smm_cuda_kernel *kernel, smm_cuda_args *args) {
    const smm_cuda_device *device;
    const smm_cuda_functions *driver;
    bool pushed;
    smm_cuda_status status = smm_cuda_get_device(ordinal, &device);
    if (status || (status = smm_cuda_driver(&driver)) || (status = enter(driver, device, &pushed))) return status;
    status = prepare(call, ordinal, device, kernel, args);
    if (pushed) driver->context_pop(&(void *){NULL});
    return status;
}

static smm_cuda_status launch(const smm_cuda_functions *driver, const smm_cuda_kernel *kernel, smm_cuda_args *args,
                              void *stream) {
    enum { MOST_BLOCKS = 0x7fffffff };
    const long long matrices = kernel->grid.matrices, blocks = (args->batch + matrices - 1) / matrices;
    if (blocks > MOST_BLOCKS)
        return smm_cuda_fail(SMM_CUDA_UNSUPPORTED, "%lld matrices are more than one launch takes", args->batch);
    return smm_cuda_check(driver->launch(kernel->function, (unsigned)blocks, 1, 1, kernel->grid.threads, 1, 1,
                                         kernel->grid.shared, stream, (void *[]){args}, NULL),
                          "cuLaunchKernel");
}

smm_cuda_status smm_cuda_run(const smm_cuda_call *call, int ordinal, void *stream) {
    if (call->m == 0 || call->n == 0) return SMM_CUDA_OK;
    for (int d = 0; d < call->dims; d++)
        if (call->extent[d] == 0) return SMM_CUDA_OK;
    const smm_cuda_device *device;
    const smm_cuda_functions *driver;
    smm_cuda_kernel kernel;
    smm_cuda_args args;
    bool pushed;
    smm_cuda_status status = smm_cuda_get_device(ordinal, &device);
    if (status || (status = smm_cuda_driver(&driver)) || (status = enter(driver, device, &pushed))) return status;
    status = prepare(call, ordinal, device, &kernel, &args);
    if (!status) status = launch(driver, &kernel, &args, stream);
    if (pushed) driver->context_pop(&(void *){NULL});
    return status;
}
