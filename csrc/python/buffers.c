/* buffers.c: arrays on CUDA devices: what they are, by DLPack's C exchange API, DLPack capsules or the CUDA array
 * interface; how long they live; memory for libraries whose arrays cannot be written to. */
#include "buffers.h"

#include <pthread.h>
#include <stdatomic.h>

/* --- status to exception --- */

static PyObject *names_of(const char *module, const char *name) {
    PyObject *imported = PyImport_ImportModule(module);
    PyObject *found = imported ? PyObject_GetAttrString(imported, name) : NULL;
    Py_XDECREF(imported);
    return found;
}

void smm_raise_cuda(smm_cuda_status status) {
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

int smm_configure_cuda(void) {
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

/* DLPack counts strides in elements; NULL strides mean C order, which is written out here. */
static void write_strides(smm_buffer *b) {
    if (b->x.strides || b->x.ndim > SMM_MOST_DIMS) return;
    int64_t *strides = b->sizes + SMM_MOST_DIMS, stride = 1;
    for (int i = b->x.ndim; i--; stride *= b->x.shape[i]) strides[i] = stride;
    b->x.strides = strides;
}

static void resolve(smm_buffer *b) {
    b->x.data = (char *)b->x.data + b->x.byte_offset;
    b->x.byte_offset = 0;
    write_strides(b);
}

bool smm_exchange(PyObject *x, smm_buffer *b) {
    const array_type type = type_of(x);
    b->api = type.api;
    b->read_only = false;
    b->managed = NULL;
    b->unversioned = NULL;
    if (!type.api) return false;
    if (type.api->dltensor_from_py_object_no_sync(x, &b->x)) {
        PyErr_Clear();
        return false;
    }
    if (b->x.device.device_type != kDLCUDA) return false;
    if (type.is_torch) {
        PyObject *gradient = PyObject_GetAttr(x, word_requires_grad);
        PyObject *negated = gradient == Py_False ? PyObject_CallMethodNoArgs(x, word_is_neg) : NULL;
        const bool plain = gradient == Py_False && negated == Py_False;
        Py_XDECREF(gradient);
        Py_XDECREF(negated);
        PyErr_Clear();
        if (!plain) return false;
    }
    resolve(b);
    return true;
}

static int open_capsule(PyObject *x, intptr_t stream, smm_buffer *b) {
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
static int read_interface(PyObject *x, intptr_t stream, smm_buffer *b) {
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
    const bool native = type && type[0] && type[0] != '>' && type[1]; /* devices are little-endian */
    const bool strided = strides && strides != Py_None;
    if (!native || !PyTuple_Check(shape) || !PyTuple_Check(data) || PyTuple_GET_SIZE(data) != 2 ||
        (strided && !PyTuple_Check(strides)) || (mask && mask != Py_None)) {
        PyErr_SetString(PyExc_BufferError,
                        "its __cuda_array_interface__ is not of version 3, or masked, or big-endian");
        goto end;
    }
    const int size = (int)strlen(type) > 2 ? atoi(type + 2) : 0;
    const uint8_t code = type[1] == 'f' ? kDLFloat : type[1] == 'i' ? kDLInt : type[1] == 'b' ? kDLBool : kDLUInt;
    b->x.ndim = (int32_t)PyTuple_GET_SIZE(shape);
    b->x.dtype = (DLDataType){.code = type[1] == 'c' ? kDLComplex : code, .bits = 8 * size, .lanes = 1};
    b->x.data = PyLong_AsVoidPtr(PyTuple_GET_ITEM(data, 0));
    b->read_only = PyObject_IsTrue(PyTuple_GET_ITEM(data, 1)) == 1;
    if (b->x.ndim > SMM_MOST_DIMS || (strided && PyTuple_GET_SIZE(strides) != b->x.ndim)) {
        PyErr_Format(PyExc_BufferError, "it has %d dimensions; expected at most %d", b->x.ndim, SMM_MOST_DIMS);
        goto end;
    }
    b->x.shape = b->sizes;
    for (int i = 0; i < b->x.ndim; i++) b->sizes[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(shape, i));
    if (strided) {
        b->x.strides = b->sizes + SMM_MOST_DIMS;
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
        smm_raise_cuda(status);
    else
        done = PyErr_Occurred() ? -1 : 0;
end:
    Py_DECREF(d);
    return done;
}

enum { NO_STREAM = -1 };

int smm_open_buffer(PyObject *x, intptr_t stream, smm_buffer *b) {
    if (smm_exchange(x, b)) return 0;
    *b = (smm_buffer){0};
    if (PyObject_HasAttr(x, word_dlpack) ? open_capsule(x, stream, b) : read_interface(x, stream, b)) return -1;
    resolve(b);
    return 0;
}

void smm_close_buffer(smm_buffer *b) {
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
    enum { NOT_READY = 600, RELAXED = 2 };
    held *done = NULL;
    int mode = RELAXED; /* otherwise asking for an event breaks off a capture, on whatever thread */
    driver->capture_mode(&mode);
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
    driver->capture_mode(&mode);
    while (done) {
        held *h = done;
        done = h->next;
        driver->event_destroy(h->event);
        smm_close_buffer(&(smm_buffer){.managed = h->managed, .unversioned = h->unversioned});
        free(h);
    }
}

static void hold(const smm_cuda_functions *driver, smm_buffer *b, void *stream) {
    enum { NO_TIMING = 2 };
    if (!b->managed && !b->unversioned) return;
    int capturing = 0;
    const bool waits = !driver->stream_capturing(stream, &capturing) && !capturing;
    held *h = calloc(1, sizeof *h);
    if (h && waits && !driver->event_create(&h->event, NO_TIMING)) {
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
    if (waits) driver->stream_synchronize(stream); /* there is no event */
    smm_close_buffer(b);
}

void smm_hold_buffers(smm_buffer buffers[], int count, int device, void *stream) {
    const smm_cuda_functions *driver;
    const smm_cuda_device *of;
    const bool current =
        !smm_cuda_driver(&driver) && !smm_cuda_get_device(device, &of) && !driver->context_push(of->context);
    if (current) give_back(driver);
    for (int i = 0; i < count; i++)
        if (current)
            hold(driver, &buffers[i], stream);
        else
            smm_close_buffer(&buffers[i]);
    if (current) driver->context_pop(&(void *){NULL});
}

/* device_of(x): the device of an array that has the CUDA array interface alone. */
static PyObject *device_of(PyObject *Py_UNUSED(module), PyObject *x) {
    smm_buffer b = {0};
    if (smm_configure_cuda() < 0 || read_interface(x, NO_STREAM, &b) < 0) return NULL;
    return PyLong_FromLong(b.x.device.device_id);
}

/* --- memory for libraries whose arrays cannot be written to (JAX) --- */

typedef struct memory {
    DLManagedTensor tensor;
    int64_t shape[SMM_MOST_DIMS];
    int device;
} memory;

/* May run on any thread, without the GIL. JAX calls it when all that reads the memory is done, though Python may have
 * dropped the array long before. */
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

/* device_empty(shape, dtype, device, stream): (DLPack capsule, address) of new memory; dtype as NumPy's "f4". */
static PyObject *device_empty(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *shape;
    const char *dtype;
    int ordinal;
    Py_ssize_t stream;
    if (!PyArg_ParseTuple(args, "O!sin", &PyTuple_Type, &shape, &dtype, &ordinal, &stream)) return NULL;
    const int size = dtype[0] ? dtype[1] - '0' : 0;
    if (PyTuple_GET_SIZE(shape) > SMM_MOST_DIMS) return PyErr_Format(PyExc_ValueError, "too many dimensions");
    if (smm_configure_cuda() < 0) return NULL;
    memory *m = calloc(1, sizeof *m);
    if (!m) return PyErr_NoMemory();
    size_t bytes = size;
    m->device = ordinal;
    m->tensor = (DLManagedTensor){.manager_ctx = m, .deleter = free_memory};
    m->tensor.dl_tensor = (DLTensor){.device = {kDLCUDA, ordinal},
                                     .ndim = (int32_t)PyTuple_GET_SIZE(shape),
                                     .dtype = {dtype[0] == 'f' ? kDLFloat : kDLInt, 8 * size, 1},
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
        if (status) smm_raise_cuda(status);
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

static PyMethodDef methods[] = {
    {"device_of", device_of, METH_O, NULL},
    {"device_empty", device_empty, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

int smm_add_device_functions(PyObject *module) {
    word_requires_grad = PyUnicode_InternFromString("requires_grad");
    word_is_neg = PyUnicode_InternFromString("is_neg");
    word_dlpack = PyUnicode_InternFromString("__dlpack__");
    word_interface = PyUnicode_InternFromString("__cuda_array_interface__");
    if (!word_requires_grad || !word_is_neg || !word_dlpack || !word_interface) return -1;
    if (PyModule_AddFunctions(module, methods) < 0 || smm_add_device_calls(module) < 0) return -1;
    return smm_add_device_kernels(module);
}
