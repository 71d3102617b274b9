/* parts.c: long tridiagonal systems in parts (../parts.c), on a device. */
#include <complex.h>
#include <math.h>

#include "../core.h"
#include "launch.h"

typedef struct place {
    const smm_cuda_functions *driver;
    const smm_cuda_device *device;
    int ordinal;
    void *stream;
} place;

static int run(void *context, const smm_call *call, const smm_pivots *pivots) {
    const place *x = context;
    double _Complex number[SMM_MOST_OPERANDS] = {0};
    smm_cuda_kernel kernel;
    smm_cuda_args args;
    if (call->op == SMM_OP_MATMUL) number[SMM_MATMUL_alpha] = -1, number[SMM_MATMUL_beta] = 1;
    const smm_cuda_status status =
        smm_cuda_prepare_in_context(call, number, NULL, x->ordinal, x->device, &kernel, &args);
    if (status) return status;
    if (pivots) args.pivots = (smm_cuda_pivots){pivots->first, pivots->part, pivots->row};
    return smm_cuda_enqueue(x->driver, x->device, x->ordinal, call, &kernel, &args, x->stream);
}

/* `height` pieces of memory, `pitch` bytes apart. */
static smm_cuda_status fill(const place *x, void *data, intptr_t pitch, intptr_t bytes, intptr_t height) {
    enum { WORD = 4 };
    const unsigned long long to = (uintptr_t)data;
    return smm_cuda_check(x->driver->fill(to, (size_t)pitch, 0, (size_t)bytes / WORD, (size_t)height, x->stream),
                          "cuMemsetD2D32Async");
}

static int clear(void *context, void *data, intptr_t bytes) { return (int)fill(context, data, bytes, bytes, 1); }

static smm_cuda_status clear_info(const place *x, const smm_operand *info, intptr_t systems) {
    const intptr_t step = info->batch;
    char *const first = (char *)info->data + (step < 0 ? (systems - 1) * step : 0);
    if (!info->data) return SMM_CUDA_OK;
    return fill(x, first, systems > 1 ? (step < 0 ? -step : step) : (int)sizeof(int32_t), sizeof(int32_t), systems);
}

smm_cuda_status smm_cuda_run_in_parts(const smm_cuda_functions *driver, const smm_cuda_device *device, int ordinal,
                                      const smm_call *call, void *stream) {
    const double most_room = 1 << 30;
    const intptr_t bytes = smm_room_of_parts(call);
    const intptr_t at_once = (intptr_t)fmax(1, fmin((double)call->batch, most_room / (double)bytes));
    place x = {driver, device, ordinal, stream};
    const smm_parts_way way = {&x, run, clear, false};
    smm_cuda_resource room = {
        .kind = SMM_CUDA_SCRATCH, .device = ordinal, .bytes = (size_t)(at_once * bytes), .stream = stream};
    smm_cuda_status status = smm_cuda_acquire(&room);
    if (status) return status;
    for (intptr_t r = 0; r < smm_runs(call) && !status; r++) {
        for (intptr_t q = 0; q < call->batch && !status; q += at_once) {
            const smm_call some = smm_some_of(call, r, q, at_once);
            status = clear_info(&x, &some.solve_tridiagonal.info, some.batch);
            if (!status) status = smm_solve_in_parts(&some, room.address, &way);
        }
    }
    smm_cuda_release(&room);
    return status;
}
