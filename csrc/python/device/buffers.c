/* buffers.c: describes arrays of other libraries by DLPack's C exchange API, which takes the least time. opening.c does
 * so with all others on devices. */
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

PyObject *smm_raise_cuda(smm_cuda_status status) {
    const char *const message = smm_cuda_message(); /* which may end within a character */
    PyObject *text = PyUnicode_DecodeUTF8(message, (Py_ssize_t)strlen(message), "replace");
    PyObject *kind;
    switch (status) {
    case SMM_CUDA_UNAVAILABLE: kind = names_of("smallmm.cuda", "CudaUnavailableError"); break;
    case SMM_CUDA_MEMORY: kind = Py_NewRef(PyExc_MemoryError); break;
    case SMM_CUDA_UNSUPPORTED: kind = Py_NewRef(PyExc_NotImplementedError); break;
    default: kind = Py_NewRef(PyExc_RuntimeError);
    }
    if (kind && text) PyErr_SetObject(kind, text);
    Py_XDECREF(kind);
    Py_XDECREF(text);
    return NULL;
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

const smm_cuda_device *smm_device_numbered(PyObject *ordinal) {
    const smm_cuda_device *device;
    const long number = PyLong_AsLong(ordinal);
    if ((number == -1 && PyErr_Occurred()) || smm_configure_cuda() < 0) return NULL;
    const smm_cuda_status status = smm_cuda_get_device((int)number, &device);
    return status ? (const smm_cuda_device *)smm_raise_cuda(status) : device;
}

/* --- what an array is --- */

typedef struct array_type {
    PyTypeObject *type;
    const DLPackExchangeAPI *api; /* NULL: none */
    bool by_interface;            /* read by the CUDA array interface although it has DLPack */
    bool is_torch; /* may require a gradient, or have a pending negation or conjugation, which DLPack does
                    * not show */
} array_type;

static PyObject *word_requires_grad, *word_is_neg, *word_is_conj, *word_current_level, *word_by_interface;

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
    enum { MAX = 32 };
    static array_type known[MAX];
    static atomic_int count;
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    PyTypeObject *type = Py_TYPE(x);
    const int seen = count;
    for (int i = 0; i < seen; i++)
        if (known[i].type == type) return known[i];
    const array_type found = look_up(type);
    pthread_mutex_lock(&lock);
    if (count < MAX && count == seen) {
        Py_INCREF(type);
        known[count] = found;
        count++;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

bool smm_is_read_by_interface(PyObject *x) { return type_of(x).by_interface; }

static bool __attribute__((format(printf, 2, 3))) because(char why[SMM_WHY], const char *format, ...) {
    va_list words;
    va_start(words, format);
    vsnprintf(why, SMM_WHY, format, words);
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
static bool is_sound(const DLTensor *x, bool may_be_on_host, char why[SMM_WHY]) {
    const int bytes = x->dtype.bits / 8;
    if (x->device.device_type != kDLCUDA && !(may_be_on_host && x->device.device_type == kDLCPU))
        return because(why, "device type %d; expected %d, a CUDA GPU", (int)x->device.device_type, kDLCUDA);
    if (x->device.device_id < 0) return because(why, "device %d; expected a number >= 0", x->device.device_id);
    if (!bytes || x->dtype.bits % 8 || x->dtype.lanes != 1)
        return because(why, "elements of %d bits in %d lanes; expected whole bytes in 1 lane", x->dtype.bits,
                       x->dtype.lanes);
    if (x->ndim < 0 || x->ndim > SMM_MAX_AXES)
        return because(why, "%d dimensions; expected at most %d", x->ndim, SMM_MAX_AXES);
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
    int64_t *const steps = b->sizes + SMM_MAX_AXES;
    uint64_t stride = 1; /* may wrap where there is no element */
    for (int i = b->x.ndim; i--; stride *= (uint64_t)b->x.shape[i])
        steps[i] = b->x.strides ? stride_of(&b->x, i, b->x.dtype.bits / 8) : (int64_t)stride;
    b->x.strides = steps;
}

bool smm_resolve_buffer(smm_buffer *b, bool may_be_on_host, char why[SMM_WHY]) {
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
    char why[SMM_WHY];
    return smm_resolve_buffer(b, true, why);
}

PyObject *smm_view_of(PyObject *x, const DLPackExchangeAPI **api) {
    smm_buffer b;
    npy_intp strides[SMM_MAX_AXES];
    if (!smm_exchange_any(x, &b) || b.x.device.device_type != kDLCPU || smm_is_followed(x)) return NULL;
    if (*api && *api != b.api) return NULL;
    *api = b.api;
    const int type = smm_numpy_of_dlpack(b.x.dtype);
    if (type == NPY_NOTYPE || !b.x.data) return NULL;
    for (int d = 0; d < b.x.ndim; d++) strides[d] = (npy_intp)b.x.strides[d] * (b.x.dtype.bits / 8);
    return PyArray_New(&PyArray_Type, b.x.ndim, (const npy_intp *)(const void *)b.x.shape, type, strides, b.x.data, 0,
                       NPY_ARRAY_WRITEABLE, NULL);
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

void smm_close_buffer(smm_buffer *b) {
    if (b->managed && b->managed->deleter) b->managed->deleter(b->managed);
    if (b->unversioned && b->unversioned->deleter) b->unversioned->deleter(b->unversioned);
    b->managed = NULL;
    b->unversioned = NULL;
}

PyObject *smm_shape_of(const DLTensor *x) {
    PyObject *shape = PyTuple_New(x->ndim);
    for (int i = 0; shape && i < x->ndim; i++) smm_set_item(&shape, i, PyLong_FromLongLong(x->shape[i]));
    return shape;
}

int smm_add_buffers(PyObject *Py_UNUSED(module)) {
    word_requires_grad = PyUnicode_InternFromString("requires_grad");
    word_is_neg = PyUnicode_InternFromString("is_neg");
    word_is_conj = PyUnicode_InternFromString("is_conj");
    word_current_level = PyUnicode_InternFromString("_current_level");
    word_by_interface = PyUnicode_InternFromString("_read_by_interface");
    return word_requires_grad && word_is_neg && word_is_conj && word_current_level && word_by_interface ? 0 : -1;
}
