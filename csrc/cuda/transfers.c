/* transfers.c: memory, streams, and copies between host and device. It knows nothing of arrays. */
#include <pthread.h>
#include <string.h>

#include "../core/core.h"
#include "cuda.h"

/* The pool of a device's scratch memory, created when it is first needed. Unlike the driver's own it keeps what is
 * given back, when a stream is waited for, too. */
static smm_cuda_status scratch_pool(const smm_cuda_functions *driver, int device, void **pool) {
    enum { KEPT = 256 << 20, RELEASE_THRESHOLD = 4, PINNED = 1, ON_DEVICE = 1 };
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct {
        bool exists;
        void *pool;
    } pools[SMM_CUDA_DEVICES];
    const struct { /* CUmemPoolProps */
        int type, handles, place, device;
        void *security;
        size_t most;
        unsigned short usage;
        unsigned char reserved[54];
    } properties = {.type = PINNED, .place = ON_DEVICE, .device = device};
    uint64_t kept = KEPT;
    smm_cuda_status status = SMM_CUDA_OK;
    pthread_mutex_lock(&lock);
    if (!pools[device].exists) {
        status = smm_cuda_check(driver->pool_create(&pools[device].pool, &properties), "cuMemPoolCreate");
        pools[device].exists = !status;
        if (!status) driver->pool_set(pools[device].pool, RELEASE_THRESHOLD, &kept); /* if not, it is slower */
    }
    *pool = pools[device].pool;
    pthread_mutex_unlock(&lock);
    return status;
}

static smm_cuda_status acquire(const smm_cuda_functions *driver, smm_cuda_resource *x) {
    enum { NON_BLOCKING = 1, PORTABLE_AND_MAPPED = 3 };
    unsigned long long address = 0;
    void *pool;
    smm_cuda_status status;
    switch (x->kind) {
    case SMM_CUDA_STREAM: return smm_cuda_check(driver->stream_create(&x->address, NON_BLOCKING), "cuStreamCreate");
    case SMM_CUDA_ON_DEVICE:
        status = smm_cuda_check(driver->allocate(&address, x->bytes, x->stream), "cuMemAllocAsync");
        x->address = (void *)(uintptr_t)address;
        return status;
    case SMM_CUDA_SCRATCH:
        if ((status = scratch_pool(driver, x->device, &pool))) return status;
        status = smm_cuda_check(driver->allocate_from(&address, x->bytes, pool, x->stream), "cuMemAllocFromPoolAsync");
        x->address = (void *)(uintptr_t)address;
        return status;
    case SMM_CUDA_PINNED:
        return smm_cuda_check(driver->host_allocate(&x->address, x->bytes, PORTABLE_AND_MAPPED), "cuMemHostAlloc");
    default:
        return smm_cuda_check(driver->host_register(x->address, x->bytes, PORTABLE_AND_MAPPED), "cuMemHostRegister");
    }
}

smm_cuda_status smm_cuda_acquire(smm_cuda_resource *x) {
    smm_cuda_entered on;
    smm_cuda_status status = smm_cuda_enter(x->device, &on);
    if (status) return status;
    status = acquire(on.driver, x);
    smm_cuda_leave(&on);
    return status;
}

void smm_cuda_release(const smm_cuda_resource *x) {
    const smm_cuda_functions *driver;
    smm_cuda_entered on;
    if (smm_cuda_driver(&driver)) return;
    (void)smm_cuda_enter(x->device, &on); /* the driver knows whose it is; a context may spare it work */
    switch (x->kind) {
    case SMM_CUDA_STREAM: driver->stream_destroy(x->address); break;
    case SMM_CUDA_ON_DEVICE:
    case SMM_CUDA_SCRATCH: driver->release((uintptr_t)x->address, x->stream); break;
    case SMM_CUDA_PINNED: driver->host_release(x->address); break;
    default: driver->host_unregister(x->address);
    }
    smm_cuda_leave(&on);
}

smm_cuda_status smm_cuda_copy(int ordinal, void *to, const void *from, size_t bytes, void *stream) {
    if (!bytes) return SMM_CUDA_OK;
    smm_cuda_entered on;
    smm_cuda_status status = smm_cuda_enter(ordinal, &on);
    if (status) return status;
    status = smm_cuda_check(on.driver->copy((uintptr_t)to, (uintptr_t)from, bytes, stream), "cuMemcpyAsync");
    smm_cuda_leave(&on);
    return status;
}

smm_cuda_status smm_cuda_wait(int ordinal, void *stream) {
    smm_cuda_entered on;
    smm_cuda_status status = smm_cuda_enter(ordinal, &on);
    if (status) return status;
    status = smm_cuda_check(on.driver->stream_synchronize(stream), "cuStreamSynchronize");
    smm_cuda_leave(&on);
    return status;
}

smm_cuda_status smm_cuda_is_capturing(int ordinal, void *stream, bool *capturing) {
    smm_cuda_entered on;
    smm_cuda_status status = smm_cuda_enter(ordinal, &on);
    if (status) return status;
    int state = 0;
    *capturing = !on.driver->stream_capturing(stream, &state) && state;
    smm_cuda_leave(&on);
    return SMM_CUDA_OK;
}

smm_cuda_status smm_cuda_is_pinned(int ordinal, const void *memory, size_t bytes, bool *pinned) {
    enum { MEMORY_TYPE = 2, HOST = 1 };
    smm_cuda_entered on;
    unsigned first = 0, last = 0;
    smm_cuda_status status = smm_cuda_enter(ordinal, &on);
    if (status) return status;
    /* of memory that it does not know the driver says nothing */
    *pinned = bytes && !on.driver->pointer_attribute(&first, MEMORY_TYPE, (uintptr_t)memory) && first == HOST &&
              !on.driver->pointer_attribute(&last, MEMORY_TYPE, (uintptr_t)memory + bytes - 1) && last == HOST;
    smm_cuda_leave(&on);
    return SMM_CUDA_OK;
}

smm_cuda_status smm_cuda_mapped(int ordinal, void *memory, void **address) {
    smm_cuda_entered on;
    unsigned long long its = 0;
    smm_cuda_status status = smm_cuda_enter(ordinal, &on);
    if (status) return status;
    status = smm_cuda_check(on.driver->host_address(&its, memory, 0), "cuMemHostGetDevicePointer");
    *address = (void *)(uintptr_t)its;
    smm_cuda_leave(&on);
    return status;
}

/* --- within the host --- */

enum { PIECE = 128 << 10 }; /* bytes that a thread copies at once */

typedef struct host_copy {
    char *to;
    const char *from;
    size_t bytes;
} host_copy;

static bool copy_pieces(void *context, intptr_t first, intptr_t last) {
    const host_copy *x = context;
    const size_t begin = (size_t)first * PIECE, end = (size_t)last * PIECE;
    memcpy(x->to + begin, x->from + begin, (end < x->bytes ? end : x->bytes) - begin);
    return true;
}

void smm_cuda_copy_on_host(void *to, const void *from, size_t bytes) {
    /* One at a time: who finds the pool in use would copy alone, and slower than if it had waited. */
    static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
    host_copy x = {to, from, bytes};
    pthread_mutex_lock(&one_at_a_time);
    smm_parallel_for((intptr_t)((bytes + PIECE - 1) / PIECE), 1, smm_get_num_threads(), copy_pieces, &x, NULL);
    pthread_mutex_unlock(&one_at_a_time);
}
