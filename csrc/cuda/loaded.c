/* loaded.c: the kernels that are loaded, by the problems they are for. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "../core/core.h"
#include "launch.h"

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
smm_cuda_status smm_cuda_find(const smm_cuda_device *device, const smm_cuda_problem *problem, smm_cuda_kernel *kernel) {
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

smm_cuda_status smm_cuda_make(const smm_cuda_problem *problem, const smm_cuda_parameters *parameters,
                              const smm_cuda_device *device, smm_cuda_kernel *kernel) {
    *kernel = (smm_cuda_kernel){.parameters = *parameters};
    if (!smm_cuda_fits(problem, parameters, device->shared_memory, &kernel->grid))
        return smm_cuda_fail(SMM_CUDA_UNSUPPORTED, "%s does not take m = %d, k = %d, n = %d with these parameters",
                             smm_cuda_kernel_names[parameters->kernel], problem->m, problem->k, problem->n);
    return build(problem, kernel);
}

smm_cuda_status smm_cuda_load_program(const char *text, int ordinal, smm_cuda_kernel *kernel) {
    smm_cuda_entered on;
    smm_cuda_cubin cubin;
    smm_cuda_status status = smm_cuda_enter(ordinal, &on);
    if (status) return status;
    status = smm_cuda_build_program(text, on.device->arch, &cubin);
    if (!status) {
        kernel->from_disk = cubin.from_disk;
        status = load(&cubin, kernel);
        smm_cuda_free_cubin(&cubin);
    }
    smm_cuda_leave(&on);
    return status;
}
