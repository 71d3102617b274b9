/* buffers.c: arrays on CUDA devices: what they are, by DLPack's C exchange API, DLPack capsules or the CUDA array
 * interface; their products, launched on a stream; outputs of the caller's own library.
 *
 * The short way, device_product(), takes arrays whose type has the C exchange API (PyTorch 2.10 and newer) from a
 * Python call to the launch without another Python object than the result. What does not go that way (other
 * libraries, mixed dtypes, wrong arguments) it declines by NotImplemented, and smallmm/_device.py looks closer. */
#include "extension.h"

#include <pthread.h>
#include <stdatomic.h>

#include "../cuda/cuda.h"
#include "dlpack.h"

enum { MOST_DIMS = SMM_CUDA_DIMS + 2 };

/* --- status to exception --- */

static PyObject *names_of(const char *module, const char *name) {
    PyObject *imported = PyImport_ImportModule(module);
    PyObject *found = imported ? PyObject_GetAttrString(imported, name) : NULL;
    Py_XDECREF(imported);
    return found;
}

static void raise_status(smm_cuda_status status) {
    PyObject *unavailable;
    switch (status) {
    case SMM_CUDA_UNAVAILABLE:
        unavailable = names_of("smallmm.cuda", "CudaUnavailableError");
        if (unavailable) PyErr_SetString(unavailable, smm_cuda_message());
        Py_XDECREF(unavailable);
        break;
    case SMM_CUDA_MEMORY: PyErr_SetString(PyExc_MemoryError, smm_cuda_message()); break;
    case SMM_CUDA_UNSUPPORTED: PyErr_SetString(PyExc_NotImplementedError, smm_cuda_message()); break;
    default: PyErr_SetString(PyExc_RuntimeError, smm_cuda_message());
    }
}

/* Paths and tuned rows come from Python, once, before the first use of a device. */
static int configure(void) {
    static atomic_bool configured;
    if (configured) return 0;
    PyObject *function = names_of("smallmm.cuda", "_configure");
    PyObject *result = function ? PyObject_CallNoArgs(function) : NULL;
    Py_XDECREF(function);
    Py_XDECREF(result);
    if (result) configured = true;
    return result ? 0 : -1;
}

/* --- what an array is --- */

typedef struct buffer {
    DLTensor x;
    bool read_only;
    const DLPackExchangeAPI *api;
    DLManagedTensorVersioned *managed; /* held until the work is done */
    DLManagedTensor *unversioned;
    int64_t sizes[2 * MOST_DIMS];
} buffer;

typedef struct array_type {
    PyTypeObject *type;
    const DLPackExchangeAPI *api; /* NULL: none */
    bool is_torch;                /* may need a gradient or a negation that DLPack does not show */
} array_type;

static PyObject *word_requires_grad, *word_is_neg, *word_dlpack, *word_interface;

static array_type look_up(PyTypeObject *type) {
    array_type found = {.type = type};
    PyObject *capsule = PyObject_GetAttrString((PyObject *)type, "__dlpack_c_exchange_api__");
    if (capsule && PyCapsule_IsValid(capsule, "dlpack_exchange_api")) {
        const DLPackExchangeAPIHeader *header = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
        while (header && header->version.major != DLPACK_MAJOR_VERSION) header = header->prev_api;
        found.api = (const DLPackExchangeAPI *)header;
        if (found.api && !found.api->dltensor_from_py_object_no_sync) found.api = NULL;
    }
    Py_XDECREF(capsule);
    PyErr_Clear();
    found.is_torch = found.api && PyObject_HasAttr((PyObject *)type, word_requires_grad) &&
                     PyObject_HasAttr((PyObject *)type, word_is_neg);
    return found;
}

/* The types seen so far: looking an attribute up takes longer than all the rest. Types stay for good. */
static array_type type_of(PyObject *x) {
    enum { MOST = 32 };
    static array_type known[MOST];
    static atomic_int count;
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    PyTypeObject *type = Py_TYPE(x);
    const int seen = count;
    for (int i = 0; i < seen; i++)
        if (known[i].type == type) return known[i];
    const array_type found = look_up(type);
    pthread_mutex_lock(&lock);
    if (count < MOST && count == seen) {
        Py_INCREF(type);
        known[count] = found;
        count++;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

/* 1: x is a plain array with the exchange API, described; 0: it is not; never an exception. */
static int exchange(PyObject *x, buffer *b) {
    const array_type type = type_of(x);
    *b = (buffer){.api = type.api};
    if (!type.api) return 0;
    if (type.api->dltensor_from_py_object_no_sync(x, &b->x)) {
        PyErr_Clear();
        return 0;
    }
    if (type.is_torch) {
        PyObject *gradient = PyObject_GetAttr(x, word_requires_grad);
        PyObject *negated = gradient == Py_False ? PyObject_CallMethodNoArgs(x, word_is_neg) : NULL;
        const bool plain = gradient == Py_False && negated == Py_False;
        Py_XDECREF(gradient);
        Py_XDECREF(negated);
        PyErr_Clear();
        if (!plain) return 0;
    }
    return 1;
}

static bool is_float(const DLDataType *t) {
    return t->code == kDLFloat && t->lanes == 1 && (t->bits == 32 || t->bits == 64);
}

/* DLPack counts strides in elements; NULL strides mean C order, which is written out here. */
static void write_strides(buffer *b) {
    if (b->x.strides || b->x.ndim > MOST_DIMS) return;
    int64_t *strides = b->sizes + MOST_DIMS, stride = 1;
    for (int i = b->x.ndim; i--; stride *= b->x.shape[i]) strides[i] = stride;
    b->x.strides = strides;
}

static int open_capsule(PyObject *x, intptr_t stream, buffer *b) {
    PyObject *method = PyObject_GetAttr(x, word_dlpack);
    PyObject *names = method ? Py_BuildValue("{s:n,s:(ii)}", "stream", (Py_ssize_t)(stream ? stream : 1), "max_version",
                                             DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION)
                             : NULL;
    PyObject *none = PyTuple_New(0), *capsule = names && none ? PyObject_Call(method, none, names) : NULL;
    if (!capsule && names && PyErr_ExceptionMatches(PyExc_TypeError)) { /* before max_version */
        PyErr_Clear();
        if (!PyDict_DelItemString(names, "max_version")) capsule = PyObject_Call(method, none, names);
    }
    Py_XDECREF(method);
    Py_XDECREF(names);
    Py_XDECREF(none);
    if (!capsule) return -1;
    int failed = 0;
    if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
        b->managed = PyCapsule_GetPointer(capsule, "dltensor_versioned");
        PyCapsule_SetName(capsule, "used_dltensor_versioned");
        if (b->managed->version.major == DLPACK_MAJOR_VERSION) {
            b->x = b->managed->dl_tensor;
            b->read_only = b->managed->flags & DLPACK_FLAG_BITMASK_READ_ONLY;
        } else
            failed = 1;
    } else if (PyCapsule_IsValid(capsule, "dltensor")) {
        b->unversioned = PyCapsule_GetPointer(capsule, "dltensor");
        PyCapsule_SetName(capsule, "used_dltensor");
        b->x = b->unversioned->dl_tensor;
    } else
        failed = 1;
    Py_DECREF(capsule);
    if (failed) PyErr_SetString(PyExc_BufferError, "__dlpack__ returned no DLPack capsule of version 1");
    return failed ? -1 : 0;
}

/* Make the stream wait for what the array's own stream has been given so far. */
static smm_cuda_status wait_for(const smm_cuda_functions *driver, void *stream, void *other) {
    enum { NO_TIMING = 2 };
    void *event;
    smm_cuda_status status = smm_cuda_check(driver->event_create(&event, NO_TIMING), "cuEventCreate");
    if (status) return status;
    status = smm_cuda_check(driver->event_record(event, other), "cuEventRecord");
    if (!status) status = smm_cuda_check(driver->stream_wait(stream, event, 0), "cuStreamWaitEvent");
    driver->event_destroy(event);
    return status;
}

/* Version 3 of the CUDA array interface; strides there are bytes. */
static int read_interface(PyObject *x, intptr_t stream, buffer *b) {
    PyObject *d = PyObject_GetAttr(x, word_interface);
    if (!d) return -1;
    int done = -1;
    enum { DEVICE_ORDINAL = 9 };
    PyObject *shape = PyDict_Check(d) ? PyDict_GetItemString(d, "shape") : NULL;
    PyObject *typestr = shape ? PyDict_GetItemString(d, "typestr") : NULL;
    PyObject *data = typestr ? PyDict_GetItemString(d, "data") : NULL;
    PyObject *strides = data ? PyDict_GetItemString(d, "strides") : NULL;
    PyObject *mask = data ? PyDict_GetItemString(d, "mask") : NULL;
    PyObject *own_stream = data ? PyDict_GetItemString(d, "stream") : NULL;
    const char *type = typestr && PyUnicode_Check(typestr) ? PyUnicode_AsUTF8(typestr) : NULL;
    if (!type || !PyTuple_Check(shape) || !PyTuple_Check(data) || PyTuple_GET_SIZE(data) != 2 ||
        (mask && mask != Py_None)) {
        PyErr_SetString(PyExc_BufferError, "its __cuda_array_interface__ is not of version 3, or masked");
        goto end;
    }
    const int size = (int)strlen(type) > 2 ? atoi(type + 2) : 0;
    const uint8_t code = type[1] == 'f' ? kDLFloat : type[1] == 'i' ? kDLInt : type[1] == 'b' ? kDLBool : kDLUInt;
    b->x.ndim = (int32_t)PyTuple_GET_SIZE(shape);
    b->x.dtype = (DLDataType){.code = type[1] == 'c' ? kDLComplex : code, .bits = 8 * size, .lanes = 1};
    b->x.data = PyLong_AsVoidPtr(PyTuple_GET_ITEM(data, 0));
    b->read_only = PyObject_IsTrue(PyTuple_GET_ITEM(data, 1)) == 1;
    if (b->x.ndim > MOST_DIMS || (strides && strides != Py_None && PyTuple_GET_SIZE(strides) != b->x.ndim)) {
        PyErr_Format(PyExc_BufferError, "it has %d dimensions; expected at most %d", b->x.ndim, MOST_DIMS);
        goto end;
    }
    b->x.shape = b->sizes;
    for (int i = 0; i < b->x.ndim; i++) b->sizes[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(shape, i));
    if (strides && strides != Py_None) {
        b->x.strides = b->sizes + MOST_DIMS;
        for (int i = 0; i < b->x.ndim; i++) {
            const int64_t bytes = PyLong_AsLongLong(PyTuple_GET_ITEM(strides, i));
            if (size && bytes % size) {
                PyErr_SetString(PyExc_BufferError, "its strides split elements");
                goto end;
            }
            b->x.strides[i] = size ? bytes / size : 0;
        }
    }
    if (PyErr_Occurred()) goto end;
    const smm_cuda_functions *driver;
    int ordinal = 0;
    smm_cuda_status status = smm_cuda_driver(&driver);
    if (!status && b->x.data)
        status = smm_cuda_check(driver->pointer_attribute(&ordinal, DEVICE_ORDINAL, (uintptr_t)b->x.data),
                                "cuPointerGetAttribute");
    b->x.device = (DLDevice){kDLCUDA, ordinal};
    if (!status && stream >= 0 && own_stream && own_stream != Py_None) {
        void *other = PyLong_AsVoidPtr(own_stream);
        const smm_cuda_device *device;
        void *before = NULL;
        if ((intptr_t)other != stream && !(status = smm_cuda_get_device(ordinal, &device)) &&
            !(status = smm_cuda_check(driver->context_push(device->context), "cuCtxPushCurrent"))) {
            status = wait_for(driver, (void *)stream, other);
            driver->context_pop(&before);
        }
    }
    if (status)
        raise_status(status);
    else
        done = PyErr_Occurred() ? -1 : 0;
end:
    Py_DECREF(d);
    return done;
}

enum { NO_STREAM = -1 };

/* Describe any device array, ready to be used on the stream. 0, or -1 with an exception. */
static int open_buffer(PyObject *x, intptr_t stream, buffer *b) {
    int failed = 0;
    if (!exchange(x, b)) {
        *b = (buffer){0};
        if (PyObject_HasAttr(x, word_dlpack))
            failed = open_capsule(x, stream, b);
        else
            failed = read_interface(x, stream, b);
    }
    if (failed) return -1;
    b->x.data = (char *)b->x.data + b->x.byte_offset;
    b->x.byte_offset = 0;
    write_strides(b);
    return 0;
}

static void close_buffer(buffer *b) {
    if (b->managed && b->managed->deleter) b->managed->deleter(b->managed);
    if (b->unversioned && b->unversioned->deleter) b->unversioned->deleter(b->unversioned);
    b->managed = NULL;
    b->unversioned = NULL;
}

/* --- arrays that a launch still uses ---
 *
 * Their libraries may not know of our stream, so they are given back when an event after the launch has passed,
 * which is looked at whenever a later call comes along. */

typedef struct held {
    void *event;
    DLManagedTensorVersioned *managed;
    DLManagedTensor *unversioned;
    struct held *next;
} held;
static held *all_held;
static pthread_mutex_t held_lock = PTHREAD_MUTEX_INITIALIZER;

static void give_back(const smm_cuda_functions *driver) {
    enum { NOT_READY = 600 };
    held *done = NULL;
    pthread_mutex_lock(&held_lock);
    for (held **at = &all_held; *at;) {
        held *h = *at;
        if (driver->event_query(h->event) == NOT_READY) {
            at = &h->next;
            continue;
        }
        *at = h->next;
        h->next = done;
        done = h;
    }
    pthread_mutex_unlock(&held_lock);
    while (done) {
        held *h = done;
        done = h->next;
        driver->event_destroy(h->event);
        close_buffer(&(buffer){.managed = h->managed, .unversioned = h->unversioned});
        free(h);
    }
}

static void hold(const smm_cuda_functions *driver, buffer *b, void *stream) {
    enum { NO_TIMING = 2 };
    if (!b->managed && !b->unversioned) return;
    int capturing = 0;
    held *h = calloc(1, sizeof *h);
    if (h && !driver->stream_capturing(stream, &capturing) && !capturing &&
        !driver->event_create(&h->event, NO_TIMING)) {
        if (!driver->event_record(h->event, stream)) {
            h->managed = b->managed;
            h->unversioned = b->unversioned;
            pthread_mutex_lock(&held_lock);
            h->next = all_held;
            all_held = h;
            pthread_mutex_unlock(&held_lock);
            return;
        }
        driver->event_destroy(h->event);
    }
    free(h);
    close_buffer(b);
}

/* --- products --- */

/* The functions that people call: whether their operands are vectors. */
typedef enum function { BATCHED_MATMUL, MATMUL, MATVEC, VECMAT } function;

typedef struct view { /* an operand as matrices */
    int64_t rows, cols, row, col;
    const int64_t *shape, *strides;
    int batch_dims;
    bool vector;
} view;

static bool view_of(const DLTensor *x, bool vector, bool as_row, view *v) {
    const int core = vector ? 1 : 2;
    if (x->ndim < core || x->ndim > MOST_DIMS) return false;
    const int64_t *shape = x->shape + x->ndim - core, *strides = x->strides + x->ndim - core;
    *v = (view){.shape = x->shape, .strides = x->strides, .batch_dims = x->ndim - core, .vector = vector};
    if (!vector) {
        v->rows = shape[0];
        v->cols = shape[1];
        v->row = strides[0];
        v->col = strides[1];
    } else if (as_row) {
        v->rows = 1;
        v->cols = shape[0];
        v->col = strides[0];
    } else {
        v->rows = shape[0];
        v->cols = 1;
        v->row = strides[0];
    }
    return true;
}

/* Batch extents of the call, innermost first, from those of one operand; false if they do not broadcast. */
static bool broadcast(smm_cuda_call *call, const int64_t *shape, int dims) {
    if (dims > SMM_CUDA_DIMS) return false;
    for (int d = 0; d < dims; d++) {
        const int64_t extent = shape[dims - 1 - d];
        if (d >= call->dims)
            call->extent[d] = extent;
        else if (call->extent[d] == 1)
            call->extent[d] = extent;
        else if (extent != 1 && extent != call->extent[d])
            return false;
    }
    if (dims > call->dims) call->dims = dims;
    return true;
}

static void step_through(const smm_cuda_call *call, const int64_t *shape, const int64_t *strides, int dims,
                         smm_cuda_operand *to) {
    for (int d = 0; d < call->dims; d++)
        to->batch[d] = d < dims && shape[dims - 1 - d] != 1 ? strides[dims - 1 - d] : 0;
}

/* Everything but the output: sizes, extents, a and b, and the shape of the result. False: it does not fit. */
static bool describe_inputs(function f, const buffer *a, const buffer *b, smm_cuda_call *call, int64_t *shape,
                            int *ndim) {
    view x, y;
    const bool row = f == VECMAT || (f == MATMUL && a->x.ndim == 1),
               column = f == MATVEC || (f == MATMUL && b->x.ndim == 1);
    if (!is_float(&a->x.dtype) || a->x.dtype.bits != b->x.dtype.bits || !is_float(&b->x.dtype)) return false;
    if (a->x.device.device_id != b->x.device.device_id) return false;
    if (!view_of(&a->x, row, true, &x) || !view_of(&b->x, column, false, &y) || x.cols != y.rows) return false;
    *call = (smm_cuda_call){.op = SMM_OP_MATMUL,
                            .dtype = a->x.dtype.bits == 32 ? SMM_F32 : SMM_F64,
                            .m = x.rows,
                            .k = x.cols,
                            .n = y.cols,
                            .a = {.data = a->x.data, .row = x.row, .col = x.col},
                            .b = {.data = b->x.data, .row = y.row, .col = y.col},
                            .alpha_number = 1};
    if (!broadcast(call, x.shape, x.batch_dims) || !broadcast(call, y.shape, y.batch_dims)) return false;
    step_through(call, x.shape, x.strides, x.batch_dims, &call->a);
    step_through(call, y.shape, y.strides, y.batch_dims, &call->b);
    *ndim = 0;
    for (int d = call->dims; d--;) shape[(*ndim)++] = call->extent[d];
    if (!row) shape[(*ndim)++] = x.rows;
    if (!column) shape[(*ndim)++] = y.cols;
    return true;
}

/* The output, whose shape must be the result's. */
static bool describe_output(function f, const buffer *c, int a_ndim, int b_ndim, const int64_t *shape, int ndim,
                            smm_cuda_call *call) {
    const bool row = f == VECMAT || (f == MATMUL && a_ndim == 1), column = f == MATVEC || (f == MATMUL && b_ndim == 1);
    if (c->x.ndim != ndim || c->x.dtype.code != kDLFloat || c->x.dtype.lanes != 1 ||
        c->x.dtype.bits != (call->dtype == SMM_F32 ? 32 : 64))
        return false;
    for (int i = 0; i < ndim; i++)
        if (c->x.shape[i] != shape[i] || (shape[i] > 1 && c->x.strides[i] == 0)) return false;
    int next = ndim;
    call->c = (smm_cuda_operand){.data = c->x.data};
    if (!column) call->c.col = c->x.strides[--next];
    if (!row) call->c.row = c->x.strides[--next];
    step_through(call, c->x.shape, c->x.strides, next, &call->c);
    return true;
}

/* A C or Python number that is 1 (alpha) or 0 (beta) leaves the call unscaled. */
static bool number(PyObject *x, double *value) {
    if (PyLong_CheckExact(x))
        *value = PyLong_AsDouble(x);
    else if (PyFloat_CheckExact(x))
        *value = PyFloat_AS_DOUBLE(x);
    else
        return false;
    if (!PyErr_Occurred()) return true;
    PyErr_Clear();
    return false;
}

static void allocation_failed(void *Py_UNUSED(context), const char *kind, const char *message) {
    const PyGILState_STATE gil = PyGILState_Ensure();
    PyErr_Format(strcmp(kind, "MemoryError") ? PyExc_RuntimeError : PyExc_MemoryError, "%s", message);
    PyGILState_Release(gil);
}

/* device_product(function, a, b, out, alpha, beta): the result, or NotImplemented where _device.py must look closer. */
static PyObject *device_product(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    buffer a, b, c = {0};
    smm_cuda_call call;
    int64_t shape[MOST_DIMS];
    int ndim;
    double alpha, beta;
    if (count != 6) return PyErr_Format(PyExc_TypeError, "device_product takes 6 arguments");
    PyObject *const out = args[3];
    if (!exchange(args[1], &a) || a.x.device.device_type != kDLCUDA) Py_RETURN_NOTIMPLEMENTED;
    if (!exchange(args[2], &b) || b.x.device.device_type != kDLCUDA || b.api != a.api) Py_RETURN_NOTIMPLEMENTED;
    if (!number(args[4], &alpha) || !number(args[5], &beta) || (beta != 0 && out == Py_None)) Py_RETURN_NOTIMPLEMENTED;
    a.x.data = (char *)a.x.data + a.x.byte_offset;
    b.x.data = (char *)b.x.data + b.x.byte_offset;
    write_strides(&a);
    write_strides(&b);
    const function f = (function)PyLong_AsLong(args[0]);
    if (!describe_inputs(f, &a, &b, &call, shape, &ndim)) Py_RETURN_NOTIMPLEMENTED;
    if (call.m > SMM_CUDA_MOST || call.k > SMM_CUDA_MOST || call.n > SMM_CUDA_MOST) Py_RETURN_NOTIMPLEMENTED;
    call.alpha_number = alpha;
    call.beta_number = beta;
    call.scaled = alpha != 1 || beta != 0;
    if (configure() < 0) return NULL;

    PyObject *result = NULL;
    if (out != Py_None) {
        bool in_place;
        if (!exchange(out, &c) || c.api != a.api || c.x.device.device_type != kDLCUDA ||
            c.x.device.device_id != a.x.device.device_id)
            Py_RETURN_NOTIMPLEMENTED;
        c.x.data = (char *)c.x.data + c.x.byte_offset;
        write_strides(&c);
        if (!describe_output(f, &c, a.x.ndim, b.x.ndim, shape, ndim, &call) || smm_cuda_overlaps(&call, &in_place))
            Py_RETURN_NOTIMPLEMENTED;
        result = Py_NewRef(out);
    } else {
        DLTensor prototype = {.device = a.x.device, .ndim = ndim, .dtype = a.x.dtype, .shape = shape};
        DLManagedTensorVersioned *managed = NULL;
        if (a.api->managed_tensor_allocator(&prototype, &managed, NULL, allocation_failed)) return NULL;
        c.x = managed->dl_tensor;
        c.x.data = (char *)c.x.data + c.x.byte_offset;
        write_strides(&c);
        const bool fits = describe_output(f, &c, a.x.ndim, b.x.ndim, shape, ndim, &call);
        if (a.api->managed_tensor_to_py_object_no_sync(managed, (void **)&result)) return NULL;
        if (!fits) {
            Py_DECREF(result);
            Py_RETURN_NOTIMPLEMENTED;
        }
    }
    void *stream = NULL;
    if (a.api->current_work_stream(kDLCUDA, a.x.device.device_id, &stream)) {
        Py_DECREF(result);
        return NULL;
    }
    smm_cuda_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = smm_cuda_run(&call, a.x.device.device_id, stream);
    Py_END_ALLOW_THREADS;
    if (status) {
        Py_DECREF(result);
        raise_status(status);
        return NULL;
    }
    return result;
}

static bool describe_factor(const buffer *x, smm_cuda_call *call, smm_cuda_operand *to) {
    if (!is_float(&x->x.dtype) || x->x.dtype.bits != (call->dtype == SMM_F32 ? 32 : 64)) return false;
    to->data = x->x.data;
    for (int i = 0; i < x->x.ndim; i++) {
        const int d = x->x.ndim - 1 - i;
        if (d >= call->dims || (x->x.shape[i] != 1 && x->x.shape[i] != call->extent[d])) return false;
    }
    step_through(call, x->x.shape, x->x.strides, x->x.ndim, to);
    return true;
}

/* device_run(function, stream, a, b, out, alpha, beta): the product of arrays of any library, on a given stream. The
 * arguments have been checked; alpha and beta are numbers or arrays. False if out overlaps an input. */
static PyObject *device_run(PyObject *Py_UNUSED(module), PyObject *args) {
    int f;
    Py_ssize_t stream;
    PyObject *x[5];
    if (!PyArg_ParseTuple(args, "inOOOOO", &f, &stream, &x[0], &x[1], &x[2], &x[3], &x[4])) return NULL;
    if (configure() < 0) return NULL;
    buffer open[5] = {0};
    smm_cuda_call call;
    int64_t shape[MOST_DIMS];
    int ndim, opened = 0;
    double factors[2] = {1, 0};
    bool is_number[5] = {false, false, false, number(x[3], &factors[0]), number(x[4], &factors[1])};
    bool fits, overlaps = false, in_place;
    PyObject *result = NULL;
    for (; opened < 5; opened++)
        if (!is_number[opened] && open_buffer(x[opened], stream, &open[opened]) < 0) goto end;
    if (open[2].read_only) {
        PyErr_SetString(PyExc_ValueError, "out is read-only; expected an array that can be written to");
        goto end;
    }
    fits = describe_inputs((function)f, &open[0], &open[1], &call, shape, &ndim) &&
           describe_output((function)f, &open[2], open[0].x.ndim, open[1].x.ndim, shape, ndim, &call) &&
           (is_number[3] || describe_factor(&open[3], &call, &call.alpha)) &&
           (is_number[4] || describe_factor(&open[4], &call, &call.beta));
    if (!fits) {
        PyErr_SetString(PyExc_ValueError, "operands do not fit");
        goto end;
    }
    call.alpha_number = factors[0];
    call.beta_number = factors[1];
    call.scaled = !is_number[3] || !is_number[4] || factors[0] != 1 || factors[1] != 0;
    overlaps = smm_cuda_overlaps(&call, &in_place);
    if (!overlaps) {
        smm_cuda_status status;
        Py_BEGIN_ALLOW_THREADS;
        status = smm_cuda_run(&call, open[0].x.device.device_id, (void *)stream);
        Py_END_ALLOW_THREADS;
        if (status) {
            raise_status(status);
            goto end;
        }
    }
    result = Py_NewRef(overlaps ? Py_False : Py_True);
end:;
    const smm_cuda_functions *driver;
    const bool running = result && !overlaps && !smm_cuda_driver(&driver);
    if (running) give_back(driver);
    for (int i = 0; i < 5; i++)
        if (running)
            hold(driver, &open[i], (void *)stream);
        else
            close_buffer(&open[i]);
    return result;
}

/* device_of(x): the device of an array that has the CUDA array interface alone. */
static PyObject *device_of(PyObject *Py_UNUSED(module), PyObject *x) {
    buffer b = {0};
    if (configure() < 0 || read_interface(x, NO_STREAM, &b) < 0) return NULL;
    return PyLong_FromLong(b.x.device.device_id);
}

/* --- memory for libraries whose arrays cannot be written to (JAX) --- */

typedef struct memory {
    DLManagedTensor tensor;
    int64_t shape[MOST_DIMS];
    int device;
} memory;

/* May run on any thread, without the GIL. The default stream comes after the work of all others. */
static void free_memory(DLManagedTensor *tensor) {
    memory *m = tensor->manager_ctx;
    const smm_cuda_functions *driver;
    const smm_cuda_device *device;
    if (!smm_cuda_driver(&driver) && !smm_cuda_get_device(m->device, &device) &&
        !driver->context_push(device->context)) {
        driver->release((uintptr_t)tensor->dl_tensor.data, NULL);
        driver->context_pop(&(void *){NULL});
    }
    free(m);
}

static void free_capsule(PyObject *capsule) {
    if (!PyCapsule_IsValid(capsule, "dltensor")) return; /* taken */
    DLManagedTensor *tensor = PyCapsule_GetPointer(capsule, "dltensor");
    tensor->deleter(tensor);
}

/* device_empty(shape, bits, device, stream): (DLPack capsule, address) of new memory for floats. */
static PyObject *device_empty(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *shape;
    int bits, ordinal;
    Py_ssize_t stream;
    if (!PyArg_ParseTuple(args, "O!iin", &PyTuple_Type, &shape, &bits, &ordinal, &stream)) return NULL;
    if (PyTuple_GET_SIZE(shape) > MOST_DIMS) return PyErr_Format(PyExc_ValueError, "too many dimensions");
    if (configure() < 0) return NULL;
    memory *m = calloc(1, sizeof *m);
    if (!m) return PyErr_NoMemory();
    size_t bytes = bits / 8;
    m->device = ordinal;
    m->tensor = (DLManagedTensor){.manager_ctx = m, .deleter = free_memory};
    m->tensor.dl_tensor = (DLTensor){.device = {kDLCUDA, ordinal},
                                     .ndim = (int32_t)PyTuple_GET_SIZE(shape),
                                     .dtype = {kDLFloat, bits, 1},
                                     .shape = m->shape};
    for (int i = 0; i < m->tensor.dl_tensor.ndim; i++) {
        m->shape[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(shape, i));
        bytes *= m->shape[i];
    }
    const smm_cuda_functions *driver;
    const smm_cuda_device *device;
    unsigned long long address = 0;
    smm_cuda_status status = smm_cuda_get_device(ordinal, &device);
    if (!status) status = smm_cuda_driver(&driver);
    if (!status) status = smm_cuda_check(driver->context_push(device->context), "cuCtxPushCurrent");
    if (!status) {
        status = smm_cuda_check(driver->allocate(&address, bytes ? bytes : 1, (void *)stream), "cuMemAllocAsync");
        driver->context_pop(&(void *){NULL});
    }
    if (status || PyErr_Occurred()) {
        free(m);
        if (status) raise_status(status);
        return NULL;
    }
    m->tensor.dl_tensor.data = (void *)(uintptr_t)address;
    PyObject *capsule = PyCapsule_New(&m->tensor, "dltensor", free_capsule);
    if (!capsule) {
        free_memory(&m->tensor);
        return NULL;
    }
    return Py_BuildValue("(NK)", capsule, address);
}

/* --- kernels: what smallmm.cuda and the tests ask for --- */

static PyObject *cuda_configure(PyObject *Py_UNUSED(module), PyObject *args) {
    const char *nvrtc, *cache;
    if (!PyArg_ParseTuple(args, "zz", &nvrtc, &cache)) return NULL;
    smm_cuda_set_nvrtc_path(nvrtc);
    smm_cuda_set_cache(cache);
    Py_RETURN_NONE;
}

static int read_int(PyObject *d, const char *name, int otherwise) {
    PyObject *x = PyDict_GetItemString(d, name);
    return x ? (int)PyLong_AsLong(x) : otherwise;
}

static int read_parameters(PyObject *d, smm_cuda_parameters *p) {
    PyObject *strategy = PyDict_GetItemString(d, "strategy");
    const char *name = strategy && PyUnicode_Check(strategy) ? PyUnicode_AsUTF8(strategy) : "";
    p->strategy = -1;
    for (int i = 0; i < SMM_CUDA_KERNELS; i++)
        if (!strcmp(name, smm_cuda_strategies[i])) p->strategy = i;
    if (p->strategy < 0) {
        PyErr_Format(PyExc_ValueError, "no CUDA kernel has the strategy '%s'", name);
        return -1;
    }
#define SMM_CUDA_PARAMETER(name, meaning) p->name = read_int(d, #name, 0);
#include "../cuda/kernels.def"
#undef SMM_CUDA_PARAMETER
    return PyErr_Occurred() ? -1 : 0;
}

/* The problem that a dictionary names: dtype, m, k, n; and, where not the usual, how the operands lie. */
static int read_problem(PyObject *d, smm_cuda_problem *p) {
    PyObject *dtype = PyDict_GetItemString(d, "dtype");
    if (!dtype || !PyUnicode_Check(dtype)) {
        PyErr_SetString(PyExc_ValueError, "expected a dtype, 'f32' or 'f64'");
        return -1;
    }
    *p = (smm_cuda_problem){.op = SMM_OP_MATMUL,
                            .dtype = PyUnicode_CompareWithASCIIString(dtype, "f32") ? SMM_F64 : SMM_F32,
                            .m = read_int(d, "m", 0),
                            .k = read_int(d, "k", 0),
                            .n = read_int(d, "n", 0),
                            .source_a = read_int(d, "source_a", 0),
                            .source_b = read_int(d, "source_b", 0),
                            .source_c = read_int(d, "source_c", 0),
                            .order_a = read_int(d, "order_a", 0),
                            .order_b = read_int(d, "order_b", 0),
                            .aligned = read_int(d, "aligned", 1),
                            .scaled = read_int(d, "scaled", 0),
                            .in_place = read_int(d, "in_place", 0)};
    return PyErr_Occurred() ? -1 : 0;
}

static PyObject *write_parameters(const smm_cuda_parameters *p, const smm_cuda_grid *grid) {
    PyObject *d = Py_BuildValue("{s:s,s:i,s:i,s:i}", "strategy", smm_cuda_strategies[p->strategy], "matrices",
                                grid->matrices, "block", grid->threads, "shared", grid->shared);
#define SMM_CUDA_PARAMETER(name, meaning) \
    if (d) { \
        PyObject *value = PyLong_FromLong(p->name); \
        if (!value || PyDict_SetItemString(d, #name, value) < 0) Py_CLEAR(d); \
        Py_XDECREF(value); \
    }
#include "../cuda/kernels.def"
#undef SMM_CUDA_PARAMETER
    return d;
}

/* cuda_tune(rows): replace the tuned rows, dictionaries of a problem and parameters. */
static PyObject *cuda_tune(PyObject *Py_UNUSED(module), PyObject *list) {
    if (!PyList_Check(list)) return PyErr_Format(PyExc_TypeError, "expected a list of rows");
    const Py_ssize_t count = PyList_GET_SIZE(list);
    smm_cuda_row *rows = calloc(count + 1, sizeof *rows);
    if (!rows) return PyErr_NoMemory();
    smm_cuda_status status = SMM_CUDA_OK;
    for (Py_ssize_t i = 0; i < count && !PyErr_Occurred(); i++) {
        smm_cuda_problem p;
        PyObject *d = PyList_GET_ITEM(list, i);
        if (!PyDict_Check(d))
            PyErr_SetString(PyExc_TypeError, "a row must be a dictionary");
        else if (!read_problem(d, &p) && !read_parameters(d, &rows[i].parameters))
            rows[i] = (smm_cuda_row){p.op,      p.dtype,   p.m,        p.k,        p.n,
                                     p.order_a, p.order_b, p.source_a, p.source_b, rows[i].parameters};
    }
    if (!PyErr_Occurred()) status = smm_cuda_tune(rows, count);
    smm_cuda_forget();
    free(rows);
    if (status) raise_status(status);
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}

/* cuda_plan(problem, shared_memory, parameters=None): the plan's parameters and grid; with parameters, whether they
 * fit: their grid or None. */
static PyObject *cuda_plan(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *d, *given = NULL;
    int shared;
    smm_cuda_problem problem;
    smm_cuda_parameters parameters;
    smm_cuda_grid grid;
    if (!PyArg_ParseTuple(args, "O!i|O!", &PyDict_Type, &d, &shared, &PyDict_Type, &given)) return NULL;
    if (read_problem(d, &problem) < 0 || configure() < 0) return NULL;
    if (given) {
        if (read_parameters(given, &parameters) < 0) return NULL;
        if (!smm_cuda_fits(&problem, &parameters, shared, &grid)) Py_RETURN_NONE;
        return write_parameters(&parameters, &grid);
    }
    const smm_cuda_status status = smm_cuda_plan(&problem, shared, &parameters, &grid);
    if (status) {
        raise_status(status);
        return NULL;
    }
    return write_parameters(&parameters, &grid);
}

/* cuda_build(problem, parameters or None, arch, shared_memory): compile for an architecture, which no device here
 * needs to have. Returns (cubin, log or None, name, from_disk). */
static PyObject *cuda_build(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *d, *given;
    int arch, shared;
    smm_cuda_problem problem;
    smm_cuda_parameters parameters;
    smm_cuda_grid grid;
    smm_cuda_cubin cubin;
    if (!PyArg_ParseTuple(args, "O!Oii", &PyDict_Type, &d, &given, &arch, &shared)) return NULL;
    if (read_problem(d, &problem) < 0 || configure() < 0) return NULL;
    smm_cuda_status status = SMM_CUDA_OK;
    if (given == Py_None)
        status = smm_cuda_plan(&problem, shared, &parameters, &grid);
    else if (read_parameters(given, &parameters) < 0)
        return NULL;
    else if (!smm_cuda_fits(&problem, &parameters, shared, &grid))
        return PyErr_Format(PyExc_ValueError, "these parameters do not fit the problem");
    if (!status) {
        Py_BEGIN_ALLOW_THREADS;
        status = smm_cuda_build(&problem, &parameters, &grid, arch, &cubin);
        Py_END_ALLOW_THREADS;
    }
    if (status) {
        raise_status(status);
        return NULL;
    }
    PyObject *result = Py_BuildValue("(y#zsO)", cubin.data, (Py_ssize_t)cubin.bytes, cubin.log, cubin.name,
                                     cubin.from_disk ? Py_True : Py_False);
    smm_cuda_free_cubin(&cubin);
    return result;
}

/* cuda_warm(problem, device): have the kernel for a problem ready on a device. Returns how it runs. */
static PyObject *cuda_warm(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *d;
    int ordinal;
    smm_cuda_problem p;
    if (!PyArg_ParseTuple(args, "O!i", &PyDict_Type, &d, &ordinal)) return NULL;
    if (read_problem(d, &p) < 0 || configure() < 0) return NULL;
    enum { SOMEWHERE = 1 << 20 }; /* never read: what matters of an address is its alignment */
    smm_cuda_call call = {.op = SMM_OP_MATMUL,
                          .dtype = p.dtype,
                          .m = p.m,
                          .k = p.k,
                          .n = p.n,
                          .dims = 1,
                          .extent = {2},
                          .scaled = p.scaled,
                          .alpha_number = 1};
    char *const base = (char *)(intptr_t)(SOMEWHERE + (p.aligned ? 0 : p.dtype == SMM_F32 ? 4 : 8));
    call.a = (smm_cuda_operand){base, p.order_a ? 1 : p.k, p.order_a ? p.m : 1, {p.source_a ? 0 : p.m * p.k}};
    call.b =
        (smm_cuda_operand){base + SOMEWHERE, p.order_b ? 1 : p.n, p.order_b ? p.k : 1, {p.source_b ? 0 : p.k * p.n}};
    call.c = (smm_cuda_operand){base + 2 * SOMEWHERE, p.n, 1, {p.m * p.n}};
    smm_cuda_kernel kernel;
    smm_cuda_args arguments;
    smm_cuda_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = smm_cuda_prepare(&call, ordinal, &kernel, &arguments);
    Py_END_ALLOW_THREADS;
    if (status) {
        raise_status(status);
        return NULL;
    }
    PyObject *result = write_parameters(&kernel.parameters, &kernel.grid);
    if (result && PyDict_SetItemString(result, "from_disk", kernel.from_disk ? Py_True : Py_False) < 0)
        Py_CLEAR(result);
    return result;
}

/* cuda_device(ordinal): (name, architecture, shared memory of a block). */
static PyObject *cuda_device(PyObject *Py_UNUSED(module), PyObject *ordinal) {
    const smm_cuda_device *device;
    const long number = PyLong_AsLong(ordinal);
    if ((number == -1 && PyErr_Occurred()) || configure() < 0) return NULL;
    const smm_cuda_status status = smm_cuda_get_device((int)number, &device);
    if (status) {
        raise_status(status);
        return NULL;
    }
    return Py_BuildValue("(sii)", device->name, device->arch, device->shared_memory);
}

static PyMethodDef methods[] = {
    {"device_product", (PyCFunction)(void (*)(void))device_product, METH_FASTCALL, NULL},
    {"device_run", device_run, METH_VARARGS, NULL},
    {"device_of", device_of, METH_O, NULL},
    {"device_empty", device_empty, METH_VARARGS, NULL},
    {"cuda_configure", cuda_configure, METH_VARARGS, NULL},
    {"cuda_tune", cuda_tune, METH_O, NULL},
    {"cuda_plan", cuda_plan, METH_VARARGS, NULL},
    {"cuda_build", cuda_build, METH_VARARGS, NULL},
    {"cuda_warm", cuda_warm, METH_VARARGS, NULL},
    {"cuda_device", cuda_device, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

int smm_add_device_functions(PyObject *module) {
    word_requires_grad = PyUnicode_InternFromString("requires_grad");
    word_is_neg = PyUnicode_InternFromString("is_neg");
    word_dlpack = PyUnicode_InternFromString("__dlpack__");
    word_interface = PyUnicode_InternFromString("__cuda_array_interface__");
    if (!word_requires_grad || !word_is_neg || !word_dlpack || !word_interface) return -1;
    return PyModule_AddFunctions(module, methods);
}
