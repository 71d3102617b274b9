/* buffers.c: describes arrays on CUDA devices, by DLPack's C exchange API, DLPack capsules or the CUDA array interface.
 * */
#include "buffers.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

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
    bool by_interface;            /* read by the CUDA array interface although it has DLPack */
    bool is_torch; /* may require a gradient, or have a pending negation or conjugation, which DLPack does
                    * not show */
} array_type;

static PyObject *word_requires_grad, *word_is_neg, *word_is_conj, *word_current_level;
static PyObject *word_dlpack, *word_interface, *word_by_interface;

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
    found.by_interface = PyObject_HasAttr((PyObject *)type, word_by_interface);
    found.is_torch = found.api && PyObject_HasAttr((PyObject *)type, word_requires_grad) &&
                     PyObject_HasAttr((PyObject *)type, word_is_neg);
    return found;
}

/* The types seen so far, kept for good: looking up an attribute takes longer than everything else here. */
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

enum { WHY = 160 }; /* characters of a reason, at most */

static bool __attribute__((format(printf, 2, 3))) because(char why[WHY], const char *format, ...) {
    va_list words;
    va_start(words, format);
    vsnprintf(why, WHY, format, words);
    va_end(words);
    return false;
}

/* Stride i of a tensor, in elements. CuPy 14 divides negative ones by the element size as unsigned numbers; as a number
 * of bytes they are right. */
static int64_t stride_of(const DLTensor *x, int i, int bytes) {
    const int64_t in_bytes = (int64_t)((uint64_t)x->strides[i] * (uint64_t)bytes);
    const bool by_cupy = in_bytes < 0 && (uint64_t)x->strides[i] == (uint64_t)in_bytes / (uint64_t)bytes;
    return by_cupy ? in_bytes / bytes : x->strides[i];
}

/* Whether all fields of a tensor that are used here are valid; if not, why. */
static bool is_sound(const DLTensor *x, bool may_be_on_host, char why[WHY]) {
    const int bytes = x->dtype.bits / 8;
    if (x->device.device_type != kDLCUDA && !(may_be_on_host && x->device.device_type == kDLCPU))
        return because(why, "device type %d; expected %d, a CUDA GPU", (int)x->device.device_type, kDLCUDA);
    if (x->device.device_id < 0) return because(why, "device %d; expected a number >= 0", x->device.device_id);
    if (!bytes || x->dtype.bits % 8 || x->dtype.lanes != 1)
        return because(why, "elements of %d bits in %d lanes; expected whole bytes in 1 lane", x->dtype.bits,
                       x->dtype.lanes);
    if (x->ndim < 0 || x->ndim > SMM_MOST_AXES)
        return because(why, "%d dimensions; expected at most %d", x->ndim, SMM_MOST_AXES);
    if (x->ndim && !x->shape) return because(why, "no shape for its %d dimensions", x->ndim);
    bool empty = false, fits = true;
    for (int i = 0; i < x->ndim; i++) {
        if (x->shape[i] < 0) return because(why, "a length of %lld; expected numbers >= 0", (long long)x->shape[i]);
        empty |= x->shape[i] == 0;
    }
    if (empty) return true; /* its strides and memory are not used */
    int64_t most = 1, reach = 0, step;
    uint64_t end;
    for (int i = x->ndim; i-- && fits;) {
        const int64_t stride = x->strides ? stride_of(x, i, bytes) : most;
        fits = !__builtin_mul_overflow(most, x->shape[i], &most) || x->strides;
        fits &= stride != INT64_MIN && !__builtin_mul_overflow(llabs(stride), x->shape[i] - 1, &step) &&
                !__builtin_add_overflow(reach, step, &reach);
    }
    fits = fits && reach < INT64_MAX / bytes - 1 &&
           !__builtin_add_overflow((uint64_t)(uintptr_t)x->data, x->byte_offset, &end) &&
           !__builtin_add_overflow(end, (uint64_t)((reach + 1) * bytes), &end);
    if (!fits) return because(why, "lengths, strides or an offset beyond 64 bits of addresses");
    return x->data || because(why, "no memory for its elements: the address 0");
}

/* DLPack counts strides in elements; NULL strides mean C order, which is written out here. */
static void write_strides(smm_buffer *b) {
    int64_t *const steps = b->sizes + SMM_MOST_AXES;
    uint64_t stride = 1; /* may wrap where there is no element */
    for (int i = b->x.ndim; i--; stride *= (uint64_t)b->x.shape[i])
        steps[i] = b->x.strides ? stride_of(&b->x, i, b->x.dtype.bits / 8) : (int64_t)stride;
    b->x.strides = steps;
}

static bool resolve(smm_buffer *b, bool may_be_on_host, char why[WHY]) {
    if (!is_sound(&b->x, may_be_on_host, why)) return false;
    b->x.data = (char *)b->x.data + b->x.byte_offset;
    b->x.byte_offset = 0;
    write_strides(b);
    return true;
}

bool smm_is_followed(PyObject *x) {
    if (!type_of(x).is_torch) return false;
    static PyObject *forward_mode, *modes; /* kept for good */
    if (!forward_mode) {
        PyObject *core = PyImport_ImportModule("torch._C");
        if (core) modes = PyObject_GetAttrString(core, "_len_torch_dispatch_stack");
        Py_XDECREF(core);
        if (modes) forward_mode = PyImport_ImportModule("torch.autograd.forward_ad");
    }
    PyObject *level = forward_mode ? PyObject_GetAttr(forward_mode, word_current_level) : NULL;
    PyObject *count = level ? PyObject_CallNoArgs(modes) : NULL;
    const bool follows = count && (PyLong_AsLong(level) >= 0 || PyLong_AsLong(count) > 0);
    Py_XDECREF(level);
    Py_XDECREF(count);
    PyErr_Clear();
    return follows;
}

/* Whether PyTorch wants a derivative with respect to a tensor: it requires one, and derivatives are not switched off.
 * Never an exception. */
static bool wants_gradient(PyObject *x) {
    static PyObject *is_enabled; /* kept for good */
    PyObject *required = PyObject_GetAttr(x, word_requires_grad), *enabled = NULL;
    if (required != Py_False && !is_enabled) {
        PyObject *torch = PyImport_ImportModule("torch");
        if (torch) is_enabled = PyObject_GetAttrString(torch, "is_grad_enabled");
        Py_XDECREF(torch);
    }
    if (required != Py_False && is_enabled) enabled = PyObject_CallNoArgs(is_enabled);
    const bool wanted = required != Py_False && enabled != Py_False;
    Py_XDECREF(required);
    Py_XDECREF(enabled);
    PyErr_Clear();
    return wanted;
}

bool smm_exchange(PyObject *x, smm_buffer *b) { return smm_exchange_any(x, b) && b->x.device.device_type == kDLCUDA; }

bool smm_exchange_any(PyObject *x, smm_buffer *b) {
    const array_type type = type_of(x);
    b->api = type.api;
    b->read_only = b->copied = false;
    b->managed = NULL;
    b->unversioned = NULL;
    if (!type.api) return false;
    if (type.api->dltensor_from_py_object_no_sync(x, &b->x)) {
        PyErr_Clear();
        return false;
    }
    if (type.is_torch) {
        const bool is_constant = !wants_gradient(x);
        PyObject *negated = is_constant ? PyObject_CallMethodNoArgs(x, word_is_neg) : NULL;
        PyObject *conjugated = b->x.dtype.code == kDLComplex ? PyObject_CallMethodNoArgs(x, word_is_conj) : NULL;
        const bool plain = negated == Py_False && (!conjugated || conjugated == Py_False);
        Py_XDECREF(negated);
        Py_XDECREF(conjugated);
        PyErr_Clear();
        if (!plain) return false;
    }
    char why[WHY];
    return resolve(b, true, why);
}

static void allocation_failed(void *Py_UNUSED(context), const char *kind, const char *message) {
    const PyGILState_STATE gil = PyGILState_Ensure();
    PyErr_Format(strcmp(kind, "MemoryError") ? PyExc_RuntimeError : PyExc_MemoryError, "%s", message);
    PyGILState_Release(gil);
}

PyObject *smm_new_array(const DLPackExchangeAPI *api, DLTensor wanted, smm_buffer *b) {
    DLManagedTensorVersioned *managed = NULL;
    PyObject *result = NULL;
    if (api->managed_tensor_allocator(&wanted, &managed, NULL, allocation_failed)) return NULL;
    if (api->managed_tensor_to_py_object_no_sync(managed, (void **)&result)) return NULL;
    if (!smm_exchange_any(result, b)) {
        PyErr_SetString(PyExc_RuntimeError, "the array library gave an output that is no array on the device");
        Py_CLEAR(result);
    }
    return result;
}

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
    char why[WHY];
    if (!failed && !resolve(b, false, why))
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
    const smm_cuda_functions *driver;
    const smm_cuda_device *device;
    smm_cuda_status status = stream == other ? SMM_CUDA_OK : smm_cuda_driver(&driver);
    if (stream == other || status || (status = smm_cuda_get_device(ordinal, &device)) ||
        (status = smm_cuda_check(driver->context_push(device->context), "cuCtxPushCurrent")))
        return status;
    status = wait_for(driver, (void *)stream, (void *)other);
    driver->context_pop(&(void *){NULL});
    return status;
}

/* cuda_order(device, stream, other): a stream waits for the work that another has been given so far. */
static PyObject *cuda_order(PyObject *Py_UNUSED(module), PyObject *args) {
    int device;
    Py_ssize_t stream, other;
    if (!PyArg_ParseTuple(args, "inn", &device, &stream, &other) || smm_configure_cuda() < 0) return NULL;
    const smm_cuda_status status = order_streams(device, stream, other);
    if (!status) Py_RETURN_NONE;
    smm_raise_cuda(status);
    return NULL;
}

/* --- the CUDA array interface --- */

enum { NO_STREAM = -1 };
#define INTERFACE "__cuda_array_interface__"

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

/* NumPy's little-endian number types, the only ones on devices. What ml_dtypes calls "<V2" is bfloat16: a type without
 * meaning is "|V2" to NumPy. */
bool smm_take_typestr(PyObject *x, DLDataType *dtype) {
    static const struct {
        const char *name;
        DLDataType dtype;
    } known[] = {
        {"b1", {kDLBool, 8, 1}},     {"i1", {kDLInt, 8, 1}},        {"i2", {kDLInt, 16, 1}},
        {"i4", {kDLInt, 32, 1}},     {"i8", {kDLInt, 64, 1}},       {"u1", {kDLUInt, 8, 1}},
        {"u2", {kDLUInt, 16, 1}},    {"u4", {kDLUInt, 32, 1}},      {"u8", {kDLUInt, 64, 1}},
        {"f2", {kDLFloat, 16, 1}},   {"f4", {kDLFloat, 32, 1}},     {"f8", {kDLFloat, 64, 1}},
        {"c8", {kDLComplex, 64, 1}}, {"c16", {kDLComplex, 128, 1}}, {"V2", {kDLBfloat, 16, 1}},
    };
    const char *text = x && PyUnicode_Check(x) ? PyUnicode_AsUTF8(x) : NULL;
    PyErr_Clear();
    if (!text || !*text || !strchr("<|=", *text) || (size_t)PyUnicode_GET_LENGTH(x) != strlen(text)) return false;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        *dtype = known[i].dtype;
        if (!strcmp(text + 1, known[i].name)) return dtype->code != kDLBfloat || *text == '<';
    }
    return false;
}

/* Versions up to 3 do not differ in what is used here. Strides are bytes. The device is left open. */
static int describe_interface(PyObject *d, PyObject *label, PyObject *x, smm_buffer *b, int64_t *own_stream) {
    static const char *const required[] = {"version", "shape", "typestr", "data"};
    for (size_t i = 0; i < sizeof required / sizeof *required; i++)
        if (!PyDict_GetItemString(d, required[i]))
            return smm_refuse(PyExc_BufferError, label, x,
                              "whose " INTERFACE " has no '%s'; expected version, shape, typestr, data", required[i]);
    PyObject *version = PyDict_GetItemString(d, "version"), *shape = PyDict_GetItemString(d, "shape");
    PyObject *typestr = PyDict_GetItemString(d, "typestr"), *data = PyDict_GetItemString(d, "data");
    PyObject *strides = PyDict_GetItemString(d, "strides"), *mask = PyDict_GetItemString(d, "mask");
    PyObject *stream = PyDict_GetItemString(d, "stream");
    int64_t number, *const steps = b->sizes + SMM_MOST_AXES;

    if (!take_integer(version, 0, 3, &number))
        return smm_refuse(PyExc_BufferError, label, x,
                          "whose " INTERFACE " is of version %.50R; expected 3 or one before", version);
    if (mask && mask != Py_None)
        return smm_refuse(PyExc_BufferError, label, x,
                          "whose " INTERFACE " has a mask, which smallmm does not heed; expected None");
    b->x.ndim = take_integers(shape, SMM_MOST_AXES, 0, b->sizes);
    b->x.shape = b->sizes;
    if (b->x.ndim < 0)
        return smm_refuse(PyExc_BufferError, label, x,
                          "whose " INTERFACE " has the shape %.100R; expected a tuple of up to %d integers >= 0", shape,
                          SMM_MOST_AXES);
    if (!smm_take_typestr(typestr, &b->x.dtype))
        return smm_refuse(PyExc_BufferError, label, x,
                          "whose " INTERFACE " has the typestr %.50R; expected one of a little-endian number, "
                          "such as '<f4'",
                          typestr);
    if (strides && strides != Py_None) {
        const int size = b->x.dtype.bits / 8;
        bool whole = take_integers(strides, b->x.ndim, INT64_MIN, steps) == b->x.ndim;
        for (int i = 0; i < b->x.ndim && whole; i++) {
            whole = steps[i] % size == 0;
            steps[i] /= size;
        }
        if (!whole)
            return smm_refuse(PyExc_BufferError, label, x,
                              "whose " INTERFACE " has the strides %.100R; expected None or a tuple of %d "
                              "multiples of %d bytes",
                              strides, b->x.ndim, size);
        b->x.strides = steps;
    }
    const bool is_pair = PyTuple_Check(data) && PyTuple_GET_SIZE(data) == 2;
    const int read_only = is_pair ? PyObject_IsTrue(PyTuple_GET_ITEM(data, 1)) : -1;
    if (read_only < 0 || !take_integer(PyTuple_GET_ITEM(data, 0), 0, INT64_MAX, &number)) {
        PyErr_Clear();
        return smm_refuse(PyExc_BufferError, label, x,
                          "whose " INTERFACE " has the data %.100R; expected a tuple of an address and "
                          "whether it is read-only",
                          data);
    }
    b->x.data = (void *)(intptr_t)number;
    b->read_only = read_only;
    *own_stream = NO_STREAM;
    if (stream && stream != Py_None && !take_integer(stream, 0, INT64_MAX, own_stream))
        return smm_refuse(PyExc_BufferError, label, x,
                          "whose " INTERFACE " has the stream %.50R; expected None or a stream's address", stream);
    char why[WHY];
    b->x.device.device_type = kDLCUDA;
    return resolve(b, false, why) ? 0 : smm_refuse(PyExc_BufferError, label, x, "whose " INTERFACE " gave %s", why);
}

/* Find the device of the memory, and make the stream wait for the array's own. */
static int find_device(PyObject *label, PyObject *x, intptr_t stream, smm_buffer *b, int64_t own_stream) {
    const smm_cuda_functions *driver;
    int ordinal = 0;
    if (smm_configure_cuda() < 0) return -1;
    smm_cuda_status status = smm_cuda_driver(&driver);
    if (!status && b->x.data && smm_cuda_device_of(b->x.data, &ordinal))
        return smm_refuse(PyExc_BufferError, label, x,
                          "whose " INTERFACE " has the address %p, which is not a GPU's: %s", b->x.data,
                          smm_cuda_message());
    b->x.device.device_id = ordinal;
    if (!status && stream != NO_STREAM && own_stream != NO_STREAM) status = order_streams(ordinal, stream, own_stream);
    if (status) smm_raise_cuda(status);
    return status ? -1 : 0;
}

static int read_interface(PyObject *x, PyObject *label, intptr_t stream, smm_buffer *b) {
    PyObject *given = PyObject_GetAttr(x, word_interface);
    if (!given) return refuse_raised(label, x, INTERFACE);
    PyObject *d = PyDict_Check(given) ? PyDict_Copy(given) : NULL; /* the calls below might change it */
    if (!d && !PyErr_Occurred())
        smm_refuse(PyExc_BufferError, label, x, "whose " INTERFACE " is a %s; expected a dict",
                   Py_TYPE(given)->tp_name);
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
    const bool has_capsule = !type_of(x).by_interface && PyObject_HasAttr(x, word_dlpack);
    return has_capsule ? open_capsule(x, label, stream, b) : read_interface(x, label, stream, b);
}

void smm_close_buffer(smm_buffer *b) {
    if (b->managed && b->managed->deleter) b->managed->deleter(b->managed);
    if (b->unversioned && b->unversioned->deleter) b->unversioned->deleter(b->unversioned);
    b->managed = NULL;
    b->unversioned = NULL;
}

PyObject *smm_shape_of(const DLTensor *x) {
    PyObject *shape = PyTuple_New(x->ndim);
    for (int i = 0; shape && i < x->ndim; i++) {
        PyObject *length = PyLong_FromLongLong(x->shape[i]);
        if (length)
            PyTuple_SET_ITEM(shape, i, length);
        else
            Py_CLEAR(shape);
    }
    return shape;
}

const char *smm_dtype_name(DLDataType dtype, char name[SMM_DTYPE_NAME]) {
    static const char *const kinds[] = {"int", "uint", "float", "opaque", "bfloat", "complex"};
    const bool is_known = dtype.code < sizeof kinds / sizeof *kinds;
    if (dtype.code == kDLBool && dtype.bits == 8) return "bool";
    snprintf(name, SMM_DTYPE_NAME, "%s%d", is_known ? kinds[dtype.code] : "other", dtype.bits);
    return name;
}

/* device_of(x, label): (device, dtype's name, shape) of an array that has the CUDA array interface alone. */
static PyObject *device_of(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *x, *label;
    smm_buffer b = {0};
    char name[SMM_DTYPE_NAME];
    if (!PyArg_ParseTuple(args, "OU", &x, &label) || read_interface(x, label, NO_STREAM, &b) < 0) return NULL;
    return Py_BuildValue("isN", b.x.device.device_id, smm_dtype_name(b.x.dtype, name), smm_shape_of(&b.x));
}

static PyMethodDef methods[] = {
    {"device_of", device_of, METH_VARARGS, NULL},
    {"cuda_order", cuda_order, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

int smm_add_buffers(PyObject *module) {
    word_requires_grad = PyUnicode_InternFromString("requires_grad");
    word_is_neg = PyUnicode_InternFromString("is_neg");
    word_is_conj = PyUnicode_InternFromString("is_conj");
    word_current_level = PyUnicode_InternFromString("_current_level");
    word_dlpack = PyUnicode_InternFromString("__dlpack__");
    word_interface = PyUnicode_InternFromString("__cuda_array_interface__");
    word_by_interface = PyUnicode_InternFromString("_read_by_interface");
    if (!word_requires_grad || !word_is_neg || !word_is_conj || !word_current_level || !word_dlpack ||
        !word_interface || !word_by_interface)
        return -1;
    return PyModule_AddFunctions(module, methods);
}
