/* opening.c: describes arrays of any library on CUDA devices, ready to be used on a stream: by DLPack capsules, or by
 * the CUDA array interface. What cannot be used is refused by an exception that says why. */
#include "buffers.h"

#include <stdarg.h>

static PyObject *word_dlpack, *word_interface;

/* --- refusals --- */

int smm_refuse(PyObject *exception, PyObject *label, PyObject *x, const char *format, ...) {
    PyObject *module = PyObject_GetAttrString((PyObject *)Py_TYPE(x), "__module__");
    PyObject *name = module ? PyObject_GetAttrString((PyObject *)Py_TYPE(x), "__qualname__") : NULL;
    va_list words;
    va_start(words, format);
    PyObject *what = name ? PyUnicode_FromFormatV(format, words) : NULL;
    va_end(words);
    if (what) PyErr_Format(exception, "%S is a %S.%S %U", label, module, name, what);
    Py_XDECREF(module);
    Py_XDECREF(name);
    Py_XDECREF(what);
    return -1;
}

/* The same with a cause: the exception that a part of x has raised. */
static int refuse_raised(PyObject *label, PyObject *x, const char *part) {
    PyObject *type, *cause, *trace, *raised;
    if (!PyErr_ExceptionMatches(PyExc_Exception) || PyErr_ExceptionMatches(PyExc_MemoryError)) return -1;
    PyErr_Fetch(&type, &cause, &trace);
    PyErr_NormalizeException(&type, &cause, &trace);
    if (trace) PyException_SetTraceback(cause, trace);
    Py_XDECREF(type);
    Py_XDECREF(trace);
    smm_refuse(PyExc_BufferError, label, x, "whose %s raised %.200R", part, cause);
    PyErr_Fetch(&type, &raised, &trace);
    PyErr_NormalizeException(&type, &raised, &trace);
    PyException_SetCause(raised, cause); /* takes the reference */
    PyErr_Restore(type, raised, trace);
    return -1;
}

bool smm_is_writable(const smm_buffer *b, PyObject *label) {
    const bool is_writable = !b->read_only && !b->copied;
    if (!is_writable)
        PyErr_Format(PyExc_ValueError, "%S is %s; expected an array that can be written to", label,
                     b->read_only ? "read-only" : "an array that __dlpack__ gives a copy of");
    return is_writable;
}

/* --- DLPack --- */

static int open_capsule(PyObject *x, PyObject *label, intptr_t stream, smm_buffer *b) {
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
    if (!capsule) return refuse_raised(label, x, "__dlpack__");
    int failed = 0;
    if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
        b->managed = PyCapsule_GetPointer(capsule, "dltensor_versioned");
        PyCapsule_SetName(capsule, "used_dltensor_versioned");
        if (b->managed->version.major == DLPACK_MAJOR_VERSION) {
            b->x = b->managed->dl_tensor;
            b->read_only = b->managed->flags & DLPACK_FLAG_BITMASK_READ_ONLY;
            b->copied = b->managed->flags & DLPACK_FLAG_BITMASK_IS_COPIED;
        } else
            failed = smm_refuse(PyExc_BufferError, label, x,
                                "whose __dlpack__ returned a tensor of DLPack %u.%u; expected version %d",
                                b->managed->version.major, b->managed->version.minor, DLPACK_MAJOR_VERSION);
    } else if (PyCapsule_IsValid(capsule, "dltensor")) {
        b->unversioned = PyCapsule_GetPointer(capsule, "dltensor");
        PyCapsule_SetName(capsule, "used_dltensor");
        b->x = b->unversioned->dl_tensor;
    } else
        failed =
            smm_refuse(PyExc_BufferError, label, x, "whose __dlpack__ returned a %s; expected a new capsule of DLPack",
                       Py_TYPE(capsule)->tp_name);
    Py_DECREF(capsule);
    char why[SMM_WHY];
    if (!failed && !smm_resolve_buffer(b, false, why))
        failed = smm_refuse(PyExc_BufferError, label, x, "whose __dlpack__ gave %s", why);
    return failed;
}

/* Make a stream wait for the work that another has been given so far. */
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

static smm_cuda_status order_streams(int ordinal, intptr_t stream, intptr_t other) {
    if (stream == other) return SMM_CUDA_OK;
    smm_cuda_entered on;
    smm_cuda_status status = smm_cuda_enter(ordinal, &on);
    if (status) return status;
    status = wait_for(on.driver, (void *)stream, (void *)other);
    smm_cuda_leave(&on);
    return status;
}

/* cuda_order(device, stream, other): a stream waits for the work that another has been given so far. */
static PyObject *cuda_order(PyObject *Py_UNUSED(module), PyObject *args) {
    int device;
    Py_ssize_t stream, other;
    if (!PyArg_ParseTuple(args, "inn", &device, &stream, &other) || smm_configure_cuda() < 0) return NULL;
    const smm_cuda_status status = order_streams(device, stream, other);
    return status ? smm_raise_cuda(status) : Py_NewRef(Py_None);
}

/* --- the CUDA array interface --- */

enum { NO_STREAM = -1 };
#define INTERFACE "__cuda_array_interface__"
#define REFUSE(...) smm_refuse(PyExc_BufferError, label, x, "whose " INTERFACE " " __VA_ARGS__)

/* An integer up to a limit; false, without an exception, if x is not one. */
static bool take_integer(PyObject *x, int64_t least, int64_t most, int64_t *value) {
    PyObject *number = x && PyIndex_Check(x) ? PyNumber_Index(x) : NULL;
    int overflow = 0;
    *value = number ? PyLong_AsLongLongAndOverflow(number, &overflow) : 0;
    const bool taken = number && !overflow && *value >= least && *value <= most;
    Py_XDECREF(number);
    PyErr_Clear();
    return taken;
}

/* A tuple of up to `most` integers >= least; how many, or -1. */
static int take_integers(PyObject *x, int most, int64_t least, int64_t *values) {
    const bool is_tuple = x && PyTuple_Check(x) && PyTuple_GET_SIZE(x) <= most;
    const int count = is_tuple ? (int)PyTuple_GET_SIZE(x) : -1;
    for (int i = 0; i < count; i++)
        if (!take_integer(PyTuple_GET_ITEM(x, i), least, INT64_MAX, &values[i])) return -1;
    return count;
}

/* Versions up to 3 do not differ in what is used here. Strides are bytes. The device is left open. */
static int describe_interface(PyObject *d, PyObject *label, PyObject *x, smm_buffer *b, int64_t *own_stream) {
    static const char *const required[] = {"version", "shape", "typestr", "data"};
    for (size_t i = 0; i < sizeof required / sizeof *required; i++)
        if (!PyDict_GetItemString(d, required[i]))
            return REFUSE("has no '%s'; expected version, shape, typestr, data", required[i]);
    PyObject *version = PyDict_GetItemString(d, "version"), *shape = PyDict_GetItemString(d, "shape");
    PyObject *typestr = PyDict_GetItemString(d, "typestr"), *data = PyDict_GetItemString(d, "data");
    PyObject *strides = PyDict_GetItemString(d, "strides"), *mask = PyDict_GetItemString(d, "mask");
    PyObject *stream = PyDict_GetItemString(d, "stream");
    int64_t number, *const steps = b->sizes + SMM_MAX_AXES;

    if (!take_integer(version, 0, 3, &number)) return REFUSE("is of version %.50R; expected 3 or one before", version);
    if (mask && mask != Py_None) return REFUSE("has a mask, which smallmm does not heed; expected None");
    b->x.ndim = take_integers(shape, SMM_MAX_AXES, 0, b->sizes);
    b->x.shape = b->sizes;
    if (b->x.ndim < 0)
        return REFUSE("has the shape %.100R; expected a tuple of up to %d integers >= 0", shape, SMM_MAX_AXES);
    if (!smm_take_typestr(typestr, &b->x.dtype))
        return REFUSE("has the typestr %.50R; expected one of a little-endian number, such as '<f4'", typestr);
    if (strides && strides != Py_None) {
        const int size = b->x.dtype.bits / 8;
        bool whole = take_integers(strides, b->x.ndim, INT64_MIN, steps) == b->x.ndim;
        for (int i = 0; i < b->x.ndim && whole; i++) {
            whole = steps[i] % size == 0;
            steps[i] /= size;
        }
        if (!whole)
            return REFUSE("has the strides %.100R; expected None or a tuple of %d multiples of %d bytes", strides,
                          b->x.ndim, size);
        b->x.strides = steps;
    }
    const bool is_pair = PyTuple_Check(data) && PyTuple_GET_SIZE(data) == 2;
    const int read_only = is_pair ? PyObject_IsTrue(PyTuple_GET_ITEM(data, 1)) : -1;
    if (read_only < 0 || !take_integer(PyTuple_GET_ITEM(data, 0), 0, INT64_MAX, &number)) {
        PyErr_Clear();
        return REFUSE("has the data %.100R; expected a tuple of an address and whether it is read-only", data);
    }
    b->x.data = (void *)(intptr_t)number;
    b->read_only = read_only;
    *own_stream = NO_STREAM;
    if (stream && stream != Py_None && !take_integer(stream, 0, INT64_MAX, own_stream))
        return REFUSE("has the stream %.50R; expected None or a stream's address", stream);
    char why[SMM_WHY];
    b->x.device.device_type = kDLCUDA;
    return smm_resolve_buffer(b, false, why) ? 0 : REFUSE("gave %s", why);
}

/* Find the device of the memory, and make the stream wait for the array's own. */
static int find_device(PyObject *label, PyObject *x, intptr_t stream, smm_buffer *b, int64_t own_stream) {
    const smm_cuda_functions *driver;
    int ordinal = 0;
    if (smm_configure_cuda() < 0) return -1;
    smm_cuda_status status = smm_cuda_driver(&driver);
    if (!status && b->x.data && smm_cuda_device_of(b->x.data, &ordinal))
        return REFUSE("has the address %p, which is not a GPU's: %s", b->x.data, smm_cuda_message());
    b->x.device.device_id = ordinal;
    if (!status && stream != NO_STREAM && own_stream != NO_STREAM) status = order_streams(ordinal, stream, own_stream);
    if (status) smm_raise_cuda(status);
    return status ? -1 : 0;
}

static int read_interface(PyObject *x, PyObject *label, intptr_t stream, smm_buffer *b) {
    PyObject *given = PyObject_GetAttr(x, word_interface);
    if (!given) return refuse_raised(label, x, INTERFACE);
    PyObject *d = PyDict_Check(given) ? PyDict_Copy(given) : NULL; /* the calls below might change it */
    if (!d && !PyErr_Occurred()) REFUSE("is a %s; expected a dict", Py_TYPE(given)->tp_name);
    int64_t own_stream;
    const int failed =
        !d || describe_interface(d, label, x, b, &own_stream) < 0 || find_device(label, x, stream, b, own_stream) < 0;
    Py_DECREF(given);
    Py_XDECREF(d);
    return failed ? -1 : 0;
}

int smm_open_buffer(PyObject *x, PyObject *label, intptr_t stream, smm_buffer *b) {
    if (smm_exchange(x, b)) return 0;
    *b = (smm_buffer){0};
    const bool has_capsule = !smm_is_read_by_interface(x) && PyObject_HasAttr(x, word_dlpack);
    return has_capsule ? open_capsule(x, label, stream, b) : read_interface(x, label, stream, b);
}

/* device_of(x, label): (device, dtype's name, shape) of an array that has the CUDA array interface alone. */
static PyObject *device_of(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *x, *label;
    smm_buffer b = {0};
    char name[SMM_DTYPE_NAME];
    if (!PyArg_ParseTuple(args, "OU", &x, &label) || read_interface(x, label, NO_STREAM, &b) < 0) return NULL;
    return Py_BuildValue("isN", b.x.device.device_id, smm_dtype_name(b.x.dtype, name), smm_shape_of(&b.x));
}

int smm_add_opening(PyObject *module) {
    static PyMethodDef methods[] = {
        {"device_of", device_of, METH_VARARGS, NULL},
        {"cuda_order", cuda_order, METH_VARARGS, NULL},
        {NULL, NULL, 0, NULL},
    };
    word_dlpack = PyUnicode_InternFromString("__dlpack__");
    word_interface = PyUnicode_InternFromString(INTERFACE);
    return word_dlpack && word_interface ? PyModule_AddFunctions(module, methods) : -1;
}
