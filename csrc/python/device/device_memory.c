/* device_memory.c: lifetimes of the memory of arrays on CUDA devices: of operands, until a launch has finished with it;
 * of new arrays for libraries whose own arrays cannot be written to; and of arrays of smallmm and NumPy that others
 * read. */
#include "buffers.h"

#include <pthread.h>
#include <stdlib.h>

/* --- arrays that a launch still uses ---
 *
 * Their libraries may not know our stream. So they are given back when an event after the launch has passed, which
 * later calls check. */

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
    int mode = RELAXED; /* otherwise querying an event ends a capture on any thread */
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

void smm_release_buffers(smm_buffer buffers[], int count, bool launched, int device, void *stream) {
    PyObject *type, *raised, *trace;
    smm_cuda_entered on = {0};
    PyErr_Fetch(&type, &raised, &trace); /* a library may run Python when it takes an array back */
    const bool current = launched && !smm_cuda_enter(device, &on);
    if (current) give_back(on.driver);
    for (int i = 0; i < count; i++)
        if (current)
            hold(on.driver, &buffers[i], stream);
        else
            smm_close_buffer(&buffers[i]);
    smm_cuda_leave(&on);
    PyErr_Restore(type, raised, trace);
}

/* --- memory that other libraries take over or read, by DLPack --- */

/* A tensor for a consumer, and what keeps its memory: this, or an object. */
typedef struct memory {
    union {
        DLManagedTensor tensor;
        DLManagedTensorVersioned versioned;
    };
    PyObject *owner;       /* NULL: the memory was allocated for the tensor, */
    smm_cuda_resource its; /* and is this */
    int64_t sizes[];       /* shape, then strides */
} memory;

static memory *new_memory(int dims) { return calloc(1, sizeof(memory) + 2 * (size_t)dims * sizeof(int64_t)); }

/* May run on any thread, without the GIL. JAX calls it when everything that reads the memory is done; Python may have
 * dropped the array long before. */
static void free_memory(DLManagedTensor *tensor) {
    memory *m = tensor->manager_ctx;
    m->its.stream = NULL; /* that of the array may be gone */
    smm_cuda_release(&m->its);
    free(m);
}

/* The same where an object keeps the memory. After the interpreter has ended, the process keeps it. */
static void drop_owner(memory *m) {
    if (Py_IsInitialized()) {
        const PyGILState_STATE state = PyGILState_Ensure();
        Py_DECREF(m->owner);
        PyGILState_Release(state);
    }
    free(m);
}

static void drop_tensor(DLManagedTensor *tensor) { drop_owner(tensor->manager_ctx); }

static void drop_versioned(DLManagedTensorVersioned *tensor) { drop_owner(tensor->manager_ctx); }

/* Of the memory that an object keeps; m->sizes are known, and the owner follows. */
static void describe(memory *m, void *data, DLDevice device, int dims, DLDataType dtype, bool versioned, bool copied) {
    const DLTensor its = {
        .data = data, .device = device, .ndim = dims, .dtype = dtype, .shape = m->sizes, .strides = m->sizes + dims};
    if (versioned)
        m->versioned = (DLManagedTensorVersioned){.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION},
                                                  .manager_ctx = m,
                                                  .deleter = drop_versioned,
                                                  .flags = copied ? DLPACK_FLAG_BITMASK_IS_COPIED : 0,
                                                  .dl_tensor = its};
    else
        m->tensor = (DLManagedTensor){.manager_ctx = m, .deleter = drop_tensor, .dl_tensor = its};
}

PyObject *smm_lend(PyObject *output, const DLPackExchangeAPI *api) {
    PyObject *owner = PyArray_CheckExact(output) ? Py_NewRef(output) : PyArray_FromScalar(output, NULL), *result = NULL;
    if (!owner) return NULL;
    PyArrayObject *array = (PyArrayObject *)owner;
    const int dims = PyArray_NDIM(array);
    memory *m = new_memory(dims);
    if (!m) {
        Py_DECREF(owner);
        return PyErr_NoMemory();
    }
    for (int d = 0; d < dims; d++) {
        m->sizes[d] = PyArray_DIM(array, d);
        m->sizes[dims + d] = PyArray_STRIDE(array, d) / PyArray_ITEMSIZE(array);
    }
    describe(m, PyArray_DATA(array), (DLDevice){kDLCPU, 0}, dims, smm_dlpack_of_numpy(PyArray_TYPE(array)), true,
             false);
    m->owner = owner;
    return api->managed_tensor_to_py_object_no_sync(&m->versioned, (void **)&result) ? NULL : result;
}

static const char TENSOR[] = "dltensor", VERSIONED[] = "dltensor_versioned";

/* A capsule that was taken has another name. */
static void free_capsule(PyObject *capsule) {
    if (PyCapsule_IsValid(capsule, TENSOR)) {
        DLManagedTensor *tensor = PyCapsule_GetPointer(capsule, TENSOR);
        tensor->deleter(tensor);
    } else if (PyCapsule_IsValid(capsule, VERSIONED)) {
        DLManagedTensorVersioned *tensor = PyCapsule_GetPointer(capsule, VERSIONED);
        tensor->deleter(tensor);
    }
}

/* device_capsule(owner, device, address, typestr, shape, strides, versioned, copied): a DLPack capsule of an array
 * whose memory the owner keeps; strides in elements. The capsule, or who takes it, keeps the owner. */
static PyObject *device_capsule(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *owner, *typestr, *shape, *strides;
    int device, versioned, copied;
    unsigned long long address;
    DLDataType dtype;
    if (!PyArg_ParseTuple(args, "OiKUO!O!pp", &owner, &device, &address, &typestr, &PyTuple_Type, &shape, &PyTuple_Type,
                          &strides, &versioned, &copied))
        return NULL;
    const int dims = (int)PyTuple_GET_SIZE(shape);
    if (PyTuple_GET_SIZE(strides) != dims || !smm_take_typestr(typestr, &dtype))
        return PyErr_Format(PyExc_BufferError, "DLPack has no arrays of type %R", typestr);
    memory *m = new_memory(dims);
    if (!m) return PyErr_NoMemory();
    for (int i = 0; i < dims; i++) {
        m->sizes[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(shape, i));
        m->sizes[dims + i] = PyLong_AsLongLong(PyTuple_GET_ITEM(strides, i));
    }
    describe(m, (void *)(uintptr_t)address, (DLDevice){kDLCUDA, device}, dims, dtype, versioned, copied);
    PyObject *capsule = PyErr_Occurred() ? NULL : PyCapsule_New(m, versioned ? VERSIONED : TENSOR, free_capsule);
    if (!capsule) {
        free(m);
        return NULL;
    }
    m->owner = Py_NewRef(owner);
    return capsule;
}

/* device_empty(shape, typestr, device, stream): (DLPack capsule, address) of new memory. */
static PyObject *device_empty(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *shape, *typestr;
    DLDataType dtype;
    int ordinal;
    Py_ssize_t stream;
    if (!PyArg_ParseTuple(args, "O!Oin", &PyTuple_Type, &shape, &typestr, &ordinal, &stream)) return NULL;
    if (!smm_take_typestr(typestr, &dtype))
        return PyErr_Format(PyExc_TypeError, "device_empty: no device has elements of type %R", typestr);
    if (PyTuple_GET_SIZE(shape) > SMM_MAX_AXES)
        return PyErr_Format(PyExc_ValueError, "device_empty: shape has %zd dimensions; expected at most %d",
                            PyTuple_GET_SIZE(shape), SMM_MAX_AXES);
    if (smm_configure_cuda() < 0) return NULL;
    memory *m = new_memory((int)PyTuple_GET_SIZE(shape));
    if (!m) return PyErr_NoMemory();
    size_t bytes = dtype.bits / 8;
    m->tensor = (DLManagedTensor){.manager_ctx = m, .deleter = free_memory};
    m->tensor.dl_tensor = (DLTensor){
        .device = {kDLCUDA, ordinal}, .ndim = (int32_t)PyTuple_GET_SIZE(shape), .dtype = dtype, .shape = m->sizes};
    for (int i = 0; i < m->tensor.dl_tensor.ndim; i++) {
        m->sizes[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(shape, i));
        bytes *= m->sizes[i];
    }
    m->its = (smm_cuda_resource){
        .kind = SMM_CUDA_ON_DEVICE, .device = ordinal, .bytes = bytes ? bytes : 1, .stream = (void *)stream};
    const smm_cuda_status status = PyErr_Occurred() ? SMM_CUDA_OK : smm_cuda_acquire(&m->its);
    if (status || PyErr_Occurred()) {
        free(m);
        return status ? smm_raise_cuda(status) : NULL;
    }
    m->tensor.dl_tensor.data = m->its.address;
    PyObject *capsule = PyCapsule_New(&m->tensor, TENSOR, free_capsule);
    if (!capsule) {
        free_memory(&m->tensor);
        return NULL;
    }
    return Py_BuildValue("(NK)", capsule, (unsigned long long)(uintptr_t)m->its.address);
}

int smm_add_device_memory(PyObject *module) {
    static PyMethodDef methods[] = {
        {"device_empty", device_empty, METH_VARARGS, NULL},
        {"device_capsule", device_capsule, METH_VARARGS, NULL},
        {NULL, NULL, 0, NULL},
    };
    return PyModule_AddFunctions(module, methods);
}
