/* device_programs.c: fused functions on CUDA devices: kernels from the texts that smallmm/_programs/cuda_kernel.py
 * writes, and launches on arrays of any library. smallmm/_programs/cuda_launch.py says which kernel takes which layout.
 * */
#include "buffers.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ARRAYS = 64, MAX_WORDS = 512 }; /* of a kernel's arguments */

/* A kernel in a capsule, kept for good: unloading it could free code that is running. */
typedef struct program_kernel {
    smm_cuda_kernel kernel;
    int device;
} program_kernel;
static const char CAPSULE[] = "smallmm program kernel";

static void free_kernel(PyObject *capsule) { free(PyCapsule_GetPointer(capsule, CAPSULE)); }

/* cuda_program(text, device, matrices, threads, shared): (kernel, blocks of it on a multiprocessor, from_disk). */
static PyObject *cuda_program(PyObject *Py_UNUSED(module), PyObject *args) {
    const char *text;
    int device;
    smm_cuda_kernel kernel = {0};
    if (!PyArg_ParseTuple(args, "siiii", &text, &device, &kernel.grid.matrices, &kernel.grid.threads,
                          &kernel.grid.shared) ||
        smm_configure_cuda() < 0)
        return NULL;
    const smm_cuda_status status = SMM_WITHOUT_GIL(smm_cuda_load_program(text, device, &kernel));
    if (status) return smm_raise_cuda(status);
    program_kernel *x = malloc(sizeof *x);
    if (!x) return PyErr_NoMemory();
    *x = (program_kernel){kernel, device};
    PyObject *capsule = PyCapsule_New(x, CAPSULE, free_kernel);
    if (!capsule) free(x);
    return capsule ? Py_BuildValue("(NiO)", capsule, kernel.at_once, kernel.from_disk ? Py_True : Py_False) : NULL;
}

/* cuda_build_program(text, arch): compile for an architecture; no such device need be present. Returns (cubin, log or
 * None, from_disk). */
static PyObject *cuda_build_program(PyObject *Py_UNUSED(module), PyObject *args) {
    const char *text;
    int arch;
    smm_cuda_cubin cubin;
    if (!PyArg_ParseTuple(args, "si", &text, &arch) || smm_configure_cuda() < 0) return NULL;
    const smm_cuda_status status = SMM_WITHOUT_GIL(smm_cuda_build_program(text, arch, &cubin));
    if (status) return smm_raise_cuda(status);
    PyObject *result =
        Py_BuildValue("(y#zO)", cubin.data, (Py_ssize_t)cubin.bytes, cubin.log, cubin.from_disk ? Py_True : Py_False);
    smm_cuda_free_cubin(&cubin);
    return result;
}

/* (dtype's name, shape, strides in elements, address modulo 16) */
static PyObject *layout_of(const smm_buffer *b) {
    char name[SMM_DTYPE_NAME];
    const DLTensor strides = {.ndim = b->x.ndim, .shape = b->x.strides};
    return Py_BuildValue("(sNNi)", smm_dtype_name(b->x.dtype, name), smm_shape_of(&b->x), smm_shape_of(&strides),
                         (int)((uintptr_t)b->x.data % 16));
}

/* One launch, as plan(device, layouts) says: (kernel, blocks, arguments), or with them which arrays they are about, as
 * bytes. The arguments are words of 8 bytes: one, then an offset from the address of each array, then the numbers, then
 * others; addresses and numbers are filled in. Without bytes the arrays are all of them, in their order. */
static int launch(PyObject *one, PyObject *numbers, const smm_buffer b[], int count, void *stream) {
    enum { MAX_BYTES = 8 * MAX_WORDS };
    PyObject *capsule;
    long long blocks, words[MAX_WORDS];
    const char *bytes;
    const unsigned char *which = NULL;
    Py_ssize_t length, own = count, more = PyTuple_GET_SIZE(numbers);
    if (!PyArg_ParseTuple(one, "OLy#|y#", &capsule, &blocks, &bytes, &length, &which, &own)) return -1;
    const program_kernel *x = PyCapsule_GetPointer(capsule, CAPSULE);
    if (!x) return -1;
    bool fits = length <= MAX_BYTES && length >= 8 * (1 + own + more);
    for (Py_ssize_t i = 0; i < own && which; i++) fits = fits && which[i] < count;
    if (!fits) {
        PyErr_SetString(PyExc_ValueError, "the arguments of a program are too few or too many");
        return -1;
    }
    memcpy(words, bytes, (size_t)length);
    for (Py_ssize_t i = 0; i < own; i++) words[1 + i] += (intptr_t)b[which ? which[i] : i].x.data;
    for (Py_ssize_t i = 0; i < more; i++) {
        const double number = PyFloat_AsDouble(PyTuple_GET_ITEM(numbers, i));
        memcpy(&words[1 + own + i], &number, sizeof number);
    }
    if (PyErr_Occurred()) return -1;
    smm_cuda_status status = SMM_CUDA_OK;
    if (blocks) status = SMM_WITHOUT_GIL(smm_cuda_run_program(&x->kernel, blocks, words, x->device, stream));
    if (status) smm_raise_cuda(status);
    return status ? -1 : 0;
}

/* The launch that the plan says, or those of a list, one after the other. */
static int launch_all(PyObject *plan, PyObject *layouts, PyObject *numbers, const smm_buffer b[], int count,
                      void *stream) {
    PyObject *found = PyObject_CallFunction(plan, "iO", b->x.device.device_id, layouts);
    if (!found) return -1;
    int done = 0;
    if (!PyList_Check(found)) done = launch(found, numbers, b, count, stream);
    for (Py_ssize_t i = 0; PyList_Check(found) && i < PyList_GET_SIZE(found) && !done; i++)
        done = launch(PyList_GET_ITEM(found, i), numbers, b, count, stream);
    Py_DECREF(found);
    return done;
}

/* device_program(plan, stream, labels, numbers, *arrays): launch a program, or several, on arrays of any library,
 * outputs included, and on numbers. */
static PyObject *device_program(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs) {
    const int count = (int)nargs - 4;
    if (count < 1 || count > MAX_ARRAYS || !PyTuple_Check(args[2]) || PyTuple_GET_SIZE(args[2]) < count ||
        !PyTuple_Check(args[3]))
        return PyErr_Format(PyExc_TypeError, "device_program: expected a plan, a stream, labels, numbers and arrays");
    const intptr_t stream = PyLong_AsSsize_t(args[1]);
    if (PyErr_Occurred()) return NULL;
    smm_buffer *b = PyMem_Calloc((size_t)count, sizeof *b);
    PyObject *layouts = PyTuple_New(count);
    bool done = b && layouts;
    for (int i = 0; i < count && done; i++) {
        done = smm_open_buffer(args[4 + i], PyTuple_GET_ITEM(args[2], i), stream, &b[i]) == 0;
        if (done) smm_set_item(&layouts, i, layout_of(&b[i]));
        done = done && layouts;
    }
    done = done && launch_all(args[0], layouts, args[3], b, count, (void *)stream) == 0;
    if (b) smm_release_buffers(b, count, done, b->x.device.device_id, (void *)stream);
    Py_XDECREF(layouts);
    PyMem_Free(b);
    if (!done) return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    Py_RETURN_NONE;
}

/* --- calls that were met before ------------------------------------------------------------------------ */

enum { MAX_DIRECT = 16 }; /* arrays and numbers of such a call */

/* An array as a kernel was chosen for it. Numbers have no dimensions and -1 of them. */
typedef struct met_array {
    int ndim, misalignment; /* of the address, modulo 16 */
    DLDataType dtype;
    int64_t sizes[2 * SMM_MAX_AXES]; /* shape, then strides */
} met_array;

struct smm_device_call {
    PyObject *kernel; /* a capsule */
    int device, inputs, outputs, words;
    long long blocks;
    const DLPackExchangeAPI *api;
    met_array array[MAX_DIRECT];
    long long word[];
};

static bool describe(PyObject *x, met_array *to, smm_device_call *call) {
    smm_buffer b = {0};
    if (!smm_exchange(x, &b) || (call->api && (b.api != call->api || b.x.device.device_id != call->device)))
        return false;
    call->api = b.api;
    call->device = b.x.device.device_id;
    *to = (met_array){.ndim = b.x.ndim, .misalignment = (int)((uintptr_t)b.x.data % 16), .dtype = b.x.dtype};
    for (int d = 0; d < b.x.ndim; d++) to->sizes[d] = b.x.shape[d], to->sizes[b.x.ndim + d] = b.x.strides[d];
    return true;
}

smm_device_call *smm_met_on_device(PyObject *launch, PyObject *inputs, PyObject *outputs) {
    PyObject *kernel;
    long long blocks;
    const char *bytes;
    Py_ssize_t length;
    const Py_ssize_t taken = PyTuple_GET_SIZE(inputs), given = PyTuple_GET_SIZE(outputs);
    if (!PyArg_ParseTuple(launch, "OLy#", &kernel, &blocks, &bytes, &length)) return NULL;
    if (taken + given > MAX_DIRECT || !PyCapsule_IsValid(kernel, CAPSULE)) return NULL;
    if (length > 8 * MAX_WORDS || length < 8 * (1 + taken + given)) return NULL;
    smm_device_call *x = PyMem_Calloc(1, sizeof *x + (size_t)length);
    if (!x) return (smm_device_call *)PyErr_NoMemory();
    *x = (smm_device_call){.inputs = (int)taken, .outputs = (int)given, .words = (int)(length / 8), .blocks = blocks};
    memcpy(x->word, bytes, (size_t)length);
    bool fits = true;
    for (int i = 0; i < taken + given && fits; i++) {
        PyObject *array = i < taken ? PyTuple_GET_ITEM(inputs, i) : PyTuple_GET_ITEM(outputs, i - taken);
        x->array[i].ndim = -1;
        if (!PyFloat_Check(array) && !PyLong_Check(array)) fits = describe(array, &x->array[i], x);
    }
    if (!fits || !x->api) {
        PyMem_Free(x);
        return NULL;
    }
    x->kernel = Py_NewRef(kernel);
    return x;
}

void smm_free_device_call(smm_device_call *x) {
    if (x) Py_XDECREF(x->kernel);
    PyMem_Free(x);
}

static bool is_as_met(const met_array *x, const smm_buffer *b) {
    const size_t bytes = (size_t)b->x.ndim * sizeof *x->sizes;
    return b->x.ndim == x->ndim && !memcmp(&b->x.dtype, &x->dtype, sizeof x->dtype) &&
           (int)((uintptr_t)b->x.data % 16) == x->misalignment && !memcmp(b->x.shape, x->sizes, bytes) &&
           !memcmp(b->x.strides, x->sizes + x->ndim, bytes);
}

/* A new array of the same library; its address in *data. */
static PyObject *new_array(const smm_device_call *x, const met_array *like, void **data) {
    int64_t shape[SMM_MAX_AXES];
    const DLTensor wanted = {.device = {kDLCUDA, x->device}, .ndim = like->ndim, .dtype = like->dtype, .shape = shape};
    memcpy(shape, like->sizes, (size_t)like->ndim * sizeof *shape);
    smm_buffer b = {0};
    PyObject *result = smm_new_array(x->api, wanted, &b);
    *data = b.x.data;
    return result;
}

bool smm_open_all(PyObject *const *args, Py_ssize_t count, smm_buffer b[]) {
    for (Py_ssize_t i = 0; i < count; i++) {
        if (!PyFloat_CheckExact(args[i]) && !PyLong_CheckExact(args[i]) && !smm_exchange(args[i], &b[i])) return false;
        if (b[i].api && smm_is_followed(args[i])) return false;
    }
    return true;
}

bool smm_takes_on_device(const smm_device_call *x, const smm_buffer b[], Py_ssize_t count) {
    if (count != x->inputs) return false;
    for (int i = 0; i < count; i++) {
        if (!b[i].api != (x->array[i].ndim < 0)) return false;
        if (b[i].api && (b[i].api != x->api || b[i].x.device.device_id != x->device || !is_as_met(&x->array[i], &b[i])))
            return false;
    }
    return true;
}

PyObject *smm_run_on_device(const smm_device_call *x, PyObject *const *args, const smm_buffer b[]) {
    long long words[MAX_WORDS];
    const program_kernel *kernel = PyCapsule_GetPointer(x->kernel, CAPSULE);
    PyObject *outputs = PyTuple_New(x->outputs);
    memcpy(words, x->word, (size_t)x->words * sizeof *words);
    int at = 1;
    for (int i = 0; i < x->inputs; i++)
        if (b[i].api) words[at++] = (intptr_t)b[i].x.data;
    for (int i = 0; i < x->outputs && outputs; i++) {
        void *data = NULL;
        smm_set_item(&outputs, i, new_array(x, &x->array[x->inputs + i], &data));
        words[at++] = (intptr_t)data;
    }
    for (int i = 0; i < x->inputs && outputs; i++) {
        if (b[i].api) continue;
        const double number = PyFloat_AsDouble(args[i]);
        memcpy(&words[at++], &number, sizeof number);
    }
    void *stream = NULL;
    if (outputs && (PyErr_Occurred() || x->api->current_work_stream(kDLCUDA, x->device, &stream))) Py_CLEAR(outputs);
    if (!outputs || !x->blocks) return outputs;
    const smm_cuda_status status =
        SMM_WITHOUT_GIL(smm_cuda_run_program(&kernel->kernel, x->blocks, words, x->device, stream));
    if (!status) return outputs;
    Py_DECREF(outputs);
    return smm_raise_cuda(status);
}

/* Pinned memory for infos of a device: as many pieces as calls were ever in flight at once. */
enum { PINNED_BYTES = 1 << 16 };
typedef struct pinned {
    struct pinned *next;
    smm_cuda_resource memory;
} pinned;
static pinned *spare[SMM_CUDA_DEVICES];
static pthread_mutex_t lock_of_spare = PTHREAD_MUTEX_INITIALIZER;

static void give_back(pinned *x) {
    pthread_mutex_lock(&lock_of_spare);
    x->next = spare[x->memory.device];
    spare[x->memory.device] = x;
    pthread_mutex_unlock(&lock_of_spare);
}

static smm_cuda_status take_pinned(int device, pinned **found) {
    pthread_mutex_lock(&lock_of_spare);
    pinned *x = spare[device];
    if (x) spare[device] = x->next;
    pthread_mutex_unlock(&lock_of_spare);
    if (!x) {
        x = calloc(1, sizeof *x);
        if (!x) return smm_cuda_fail(SMM_CUDA_MEMORY, "out of memory");
        x->memory = (smm_cuda_resource){.kind = SMM_CUDA_PINNED, .device = device, .bytes = PINNED_BYTES};
        const smm_cuda_status status = smm_cuda_acquire(&x->memory);
        if (status) {
            free(x);
            return status;
        }
    }
    *found = x;
    return SMM_CUDA_OK;
}

/* Whether integers of 32 bits on a device are not all 0: they are copied to pinned memory, on the current stream of
 * their library, and waited for. 1: some is not; 0: all are; -1: an exception is set; 2: not for this path. */
int smm_any_on_device(PyObject *info) {
    smm_buffer b = {0};
    if (!smm_exchange(info, &b) || b.x.dtype.code != kDLInt || b.x.dtype.bits != 32) return 2;
    int64_t count = 1;
    for (int d = b.x.ndim; d--; count *= b.x.shape[d])
        if (b.x.shape[d] > 1 && b.x.strides[d] != count) return 2;
    const size_t bytes = (size_t)count * sizeof(int32_t);
    const int device = b.x.device.device_id;
    void *stream = NULL;
    bool capturing = false;
    if (!count) return 0;
    if (bytes > PINNED_BYTES || device >= SMM_CUDA_DEVICES) return 2;
    if (b.api->current_work_stream(kDLCUDA, device, &stream)) return -1;
    smm_cuda_status status = smm_cuda_is_capturing(device, stream, &capturing);
    if (capturing) return 2; /* which Python refuses */
    pinned *workspace = NULL;
    if (!status) status = take_pinned(device, &workspace);
    Py_BEGIN_ALLOW_THREADS;
    if (!status) status = smm_cuda_copy(device, workspace->memory.address, b.x.data, bytes, stream);
    if (!status) status = smm_cuda_wait(device, stream);
    Py_END_ALLOW_THREADS;
    int32_t any = 0;
    for (int64_t i = 0; !status && i < count; i++) any |= ((const int32_t *)workspace->memory.address)[i];
    if (workspace) give_back(workspace);
    if (!status) return any != 0;
    smm_raise_cuda(status);
    return -1;
}

/* cuda_any(info): True or False; None: not for this path. */
static PyObject *cuda_any(PyObject *Py_UNUSED(module), PyObject *info) {
    const int any = smm_any_on_device(info);
    if (any < 0) return NULL;
    return any > 1 ? Py_NewRef(Py_None) : PyBool_FromLong(any);
}

static PyMethodDef methods[] = {
    {"cuda_any", cuda_any, METH_O, NULL},
    {"cuda_program", cuda_program, METH_VARARGS, NULL},
    {"cuda_build_program", cuda_build_program, METH_VARARGS, NULL},
    {"device_program", (PyCFunction)(void (*)(void))device_program, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

int smm_add_device_programs(PyObject *module) { return PyModule_AddFunctions(module, methods); }
