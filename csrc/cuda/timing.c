/* timing.c: how long a call takes on a device. */
#include <complex.h>
#include <math.h>

#include "../core/core.h"
#include "launch.h"

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
    return smm_cuda_enqueue(x->driver, x->device, x->ordinal, x->call, x->kernel, x->args, x->stream);
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
    enum { NON_BLOCKING = 1, DEFAULT = 0, MAX_RUNS = 50 };
    const double SAMPLE = 2e5, MIN = 1e3;
    double once = 0;
    smm_cuda_status status = smm_cuda_check(x->driver->stream_create(&x->stream, NON_BLOCKING), "cuStreamCreate");
    if (!status) status = smm_cuda_check(x->driver->event_create(&x->begin, DEFAULT), "cuEventCreate");
    if (!status) status = smm_cuda_check(x->driver->event_create(&x->end, DEFAULT), "cuEventCreate");
    if (!status) status = time_work(x, run_once, &once);
    const int runs = (int)fmin(MAX_RUNS, ceil(SAMPLE / fmax(once, MIN)));
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
    smm_cuda_entered on;
    smm_cuda_kernel kernel = {0};
    smm_cuda_args args;
    for (int i = 0; i < samples; i++) nanoseconds[i] = 0;
    if (smm_cuda_is_empty(call)) return SMM_CUDA_OK;
    smm_cuda_status status = smm_cuda_enter(ordinal, &on);
    if (status) return status;
    status = smm_cuda_prepare_in_context(call, number, parameters, ordinal, on.device, &kernel, &args);
    if (!status) status = smm_cuda_enqueue(on.driver, on.device, ordinal, call, &kernel, &args, stream);
    if (!status) status = smm_cuda_check(on.driver->stream_synchronize(stream), "cuStreamSynchronize");
    stopwatch x = {on.driver, on.device, ordinal, call, &kernel, &args, NULL, NULL, NULL, NULL, NULL};
    if (!status) status = time_samples(&x, samples, nanoseconds);
    if (parameters && kernel.module) on.driver->module_unload(kernel.module); /* all that ran of it was waited for */
    smm_cuda_leave(&on);
    return status;
}
