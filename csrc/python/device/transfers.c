/* transfers.c: what smallmm/cuda.py moves arrays with: memory and streams as objects, and copies between addresses. The
 * package keeps what it gives addresses of; here nothing is checked. */
#include "buffers.h"

#include <stddef.h>
#include <structmember.h>

/* Released with the object: memory, page-locked memory, a stream. */
typedef struct resource {
    PyObject_HEAD;
    smm_cuda_resource its;
    PyObject *kept; /* the stream of memory on a device, the owner of registered memory, or NULL */
} resource;

static void resource_free(PyObject *self) {
    resource *r = (resource *)self;
    PyTypeObject *type = Py_TYPE(self);
    if (r->its.address) {
        Py_BEGIN_ALLOW_THREADS;
        smm_cuda_release(&r->its);
        Py_END_ALLOW_THREADS;
    }
    Py_XDECREF(r->kept);
    PyObject_Free(self);
    Py_DECREF(type);
}

/* Memory of the host can be an array's buffer. */
static int resource_buffer(PyObject *self, Py_buffer *view, int flags) {
    const smm_cuda_resource *its = &((resource *)self)->its;
    if (its->kind != SMM_CUDA_PINNED && its->kind != SMM_CUDA_REGISTERED) {
        view->obj = NULL;
        PyErr_SetString(PyExc_BufferError, "the memory is not the host's");
        return -1;
    }
    return PyBuffer_FillInfo(view, self, its->address, (Py_ssize_t)its->bytes, false, flags);
}

static PyMemberDef members[] = {
    {"address", T_PYSSIZET, offsetof(resource, its.address), READONLY, "Of memory; or a stream's handle."},
    {"bytes", T_PYSSIZET, offsetof(resource, its.bytes), READONLY, NULL},
    {"device", T_INT, offsetof(resource, its.device), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};
static PyType_Slot slots[] = {
    {Py_tp_dealloc, resource_free},
    {Py_tp_members, members},
    {Py_bf_getbuffer, resource_buffer},
    {0, NULL},
};
static PyType_Spec spec = {
    .name = "smallmm._core.CudaResource",
    .basicsize = sizeof(resource),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = slots,
};
static PyTypeObject *resource_type;

static PyObject *acquired(smm_cuda_resource its, PyObject *kept) {
    if (smm_configure_cuda() < 0) return NULL;
    resource *r = PyObject_New(resource, resource_type);
    if (!r) return NULL;
    r->its = its;
    r->its.address = NULL;
    r->kept = Py_XNewRef(kept);
    const smm_cuda_status status = SMM_WITHOUT_GIL(smm_cuda_acquire(&its));
    if (!status) {
        r->its = its;
        return (PyObject *)r;
    }
    Py_DECREF(r);
    return smm_raise_cuda(status);
}

static PyObject *cuda_stream(PyObject *Py_UNUSED(module), PyObject *device) {
    const long ordinal = PyLong_AsLong(device);
    if (ordinal == -1 && PyErr_Occurred()) return NULL;
    return acquired((smm_cuda_resource){.kind = SMM_CUDA_STREAM, .device = (int)ordinal}, NULL);
}

static PyObject *cuda_memory(PyObject *Py_UNUSED(module), PyObject *args) {
    int device;
    Py_ssize_t bytes;
    PyObject *stream = Py_None;
    if (!PyArg_ParseTuple(args, "in|O", &device, &bytes, &stream)) return NULL;
    const bool given = PyObject_TypeCheck(stream, resource_type);
    return acquired((smm_cuda_resource){.kind = SMM_CUDA_ON_DEVICE,
                                        .device = device,
                                        .bytes = bytes ? (size_t)bytes : 1,
                                        .stream = given ? ((resource *)stream)->its.address : NULL},
                    given ? stream : NULL);
}

static PyObject *cuda_pinned(PyObject *Py_UNUSED(module), PyObject *args) {
    int device;
    Py_ssize_t bytes;
    if (!PyArg_ParseTuple(args, "in", &device, &bytes)) return NULL;
    return acquired((smm_cuda_resource){.kind = SMM_CUDA_PINNED, .device = device, .bytes = bytes ? (size_t)bytes : 1},
                    NULL);
}

static PyObject *cuda_register(PyObject *Py_UNUSED(module), PyObject *args) {
    int device;
    Py_ssize_t address, bytes;
    PyObject *owner;
    if (!PyArg_ParseTuple(args, "innO", &device, &address, &bytes, &owner)) return NULL;
    return acquired(
        (smm_cuda_resource){
            .kind = SMM_CUDA_REGISTERED, .device = device, .bytes = (size_t)bytes, .address = (void *)address},
        owner);
}

/* If it waits: of memory that is not page-locked. Otherwise the interpreter is kept: the call takes less than another
 * thread needs to take over and give back. */
static PyObject *cuda_copy(PyObject *Py_UNUSED(module), PyObject *args) {
    int device, waits = 1;
    Py_ssize_t to, from, bytes, stream;
    if (!PyArg_ParseTuple(args, "innnn|p", &device, &to, &from, &bytes, &stream, &waits)) return NULL;
    PyThreadState *released = waits ? PyEval_SaveThread() : NULL;
    const smm_cuda_status status = smm_cuda_copy(device, (void *)to, (const void *)from, (size_t)bytes, (void *)stream);
    if (released) PyEval_RestoreThread(released);
    return status ? smm_raise_cuda(status) : Py_NewRef(Py_None);
}

static PyObject *cuda_wait(PyObject *Py_UNUSED(module), PyObject *args) {
    int device;
    Py_ssize_t stream;
    if (!PyArg_ParseTuple(args, "in", &device, &stream)) return NULL;
    const smm_cuda_status status = SMM_WITHOUT_GIL(smm_cuda_wait(device, (void *)stream));
    return status ? smm_raise_cuda(status) : Py_NewRef(Py_None);
}

static PyObject *cuda_is_capturing(PyObject *Py_UNUSED(module), PyObject *args) {
    int device;
    Py_ssize_t stream;
    bool capturing = false;
    if (!PyArg_ParseTuple(args, "in", &device, &stream)) return NULL;
    const smm_cuda_status status = smm_cuda_is_capturing(device, (void *)stream, &capturing);
    return status ? smm_raise_cuda(status) : PyBool_FromLong(capturing);
}

static PyObject *cuda_is_pinned(PyObject *Py_UNUSED(module), PyObject *args) {
    int device;
    Py_ssize_t address, bytes;
    bool pinned = false;
    if (!PyArg_ParseTuple(args, "inn", &device, &address, &bytes)) return NULL;
    const smm_cuda_status status = smm_cuda_is_pinned(device, (const void *)address, (size_t)bytes, &pinned);
    return status ? smm_raise_cuda(status) : PyBool_FromLong(pinned);
}

static PyObject *cuda_mapped(PyObject *Py_UNUSED(module), PyObject *args) {
    int device;
    Py_ssize_t memory;
    void *address = NULL;
    if (!PyArg_ParseTuple(args, "in", &device, &memory)) return NULL;
    const smm_cuda_status status = smm_cuda_mapped(device, (void *)memory, &address);
    return status ? smm_raise_cuda(status) : PyLong_FromVoidPtr(address);
}

static PyObject *cuda_integrated(PyObject *Py_UNUSED(module), PyObject *ordinal) {
    const smm_cuda_device *const device = smm_device_numbered(ordinal);
    return device ? PyBool_FromLong(device->integrated) : NULL;
}

static PyObject *cuda_count(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored)) {
    int count = 0;
    const smm_cuda_status status = smm_configure_cuda() < 0 ? SMM_CUDA_FAILED : smm_cuda_count(&count);
    if (PyErr_Occurred()) return NULL;
    return status ? smm_raise_cuda(status) : PyLong_FromLong(count);
}

static PyObject *host_copy(PyObject *Py_UNUSED(module), PyObject *args) {
    Py_ssize_t to, from, bytes;
    if (!PyArg_ParseTuple(args, "nnn", &to, &from, &bytes)) return NULL;
    Py_BEGIN_ALLOW_THREADS;
    smm_cuda_copy_on_host((void *)to, (const void *)from, (size_t)bytes);
    Py_END_ALLOW_THREADS;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"cuda_stream", cuda_stream, METH_O, NULL},
    {"cuda_memory", cuda_memory, METH_VARARGS, NULL},
    {"cuda_pinned", cuda_pinned, METH_VARARGS, NULL},
    {"cuda_register", cuda_register, METH_VARARGS, NULL},
    {"cuda_copy", cuda_copy, METH_VARARGS, NULL},
    {"cuda_wait", cuda_wait, METH_VARARGS, NULL},
    {"cuda_is_capturing", cuda_is_capturing, METH_VARARGS, NULL},
    {"cuda_is_pinned", cuda_is_pinned, METH_VARARGS, NULL},
    {"cuda_mapped", cuda_mapped, METH_VARARGS, NULL},
    {"cuda_integrated", cuda_integrated, METH_O, NULL},
    {"cuda_count", cuda_count, METH_NOARGS, NULL},
    {"host_copy", host_copy, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

int smm_add_transfers(PyObject *module) {
    resource_type = (PyTypeObject *)PyType_FromSpec(&spec);
    if (smm_add(module, "CudaResource", Py_XNewRef(resource_type)) < 0) return -1;
    return PyModule_AddFunctions(module, methods);
}
