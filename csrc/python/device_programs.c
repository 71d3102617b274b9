/* device_programs.c: fused functions on CUDA devices: kernels from the texts that smallmm/_program_texts.py writes, and
 * launches on arrays of any library. smallmm/_device_programs.py says which kernel takes which layout. */
#include "buffers.h"

#include <stdlib.h>

enum { MOST_ARRAYS = 64 };

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
    smm_cuda_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = smm_cuda_load_program(text, device, &kernel);
    Py_END_ALLOW_THREADS;
    if (status) {
        smm_raise_cuda(status);
        return NULL;
    }
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
    smm_cuda_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = smm_cuda_build_program(text, arch, &cubin);
    Py_END_ALLOW_THREADS;
    if (status) {
        smm_raise_cuda(status);
        return NULL;
    }
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

/* What plan(device, layouts) says: (kernel, blocks, arguments). The arguments are words of 8 bytes: one, then the
 * addresses, then the numbers, then others; the addresses and numbers are filled in. */
static int launch(PyObject *plan, PyObject *layouts, PyObject *numbers, const smm_buffer b[], int count, void *stream) {
    enum { MOST_BYTES = 4096 }; /* of a kernel's arguments */
    PyObject *found = PyObject_CallFunction(plan, "iO", b->x.device.device_id, layouts);
    PyObject *capsule;
    long long blocks, words[MOST_BYTES / 8];
    const char *bytes;
    Py_ssize_t length, more = PyTuple_GET_SIZE(numbers);
    int done = -1;
    if (!found || !PyArg_ParseTuple(found, "OLy#", &capsule, &blocks, &bytes, &length)) goto end;
    const program_kernel *x = PyCapsule_GetPointer(capsule, CAPSULE);
    if (!x) goto end;
    if (length > MOST_BYTES || length < 8 * (1 + count + more)) {
        PyErr_SetString(PyExc_ValueError, "the arguments of a program are too few or too many");
        goto end;
    }
    memcpy(words, bytes, (size_t)length);
    for (int i = 0; i < count; i++) words[1 + i] = (intptr_t)b[i].x.data;
    for (Py_ssize_t i = 0; i < more; i++) {
        const double number = PyFloat_AsDouble(PyTuple_GET_ITEM(numbers, i));
        memcpy(&words[1 + count + i], &number, sizeof number);
    }
    if (PyErr_Occurred()) goto end;
    smm_cuda_status status = SMM_CUDA_OK;
    if (blocks) {
        Py_BEGIN_ALLOW_THREADS;
        status = smm_cuda_run_program(&x->kernel, blocks, words, x->device, stream);
        Py_END_ALLOW_THREADS;
    }
    if (status)
        smm_raise_cuda(status);
    else
        done = 0;
end:
    Py_XDECREF(found);
    return done;
}

/* device_program(plan, stream, labels, numbers, *arrays): launch a program on arrays of any library, outputs included,
 * and on numbers. */
static PyObject *device_program(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs) {
    const int count = (int)nargs - 4;
    if (count < 1 || count > MOST_ARRAYS || !PyTuple_Check(args[2]) || PyTuple_GET_SIZE(args[2]) < count ||
        !PyTuple_Check(args[3]))
        return PyErr_Format(PyExc_TypeError, "device_program: expected a plan, a stream, labels, numbers and arrays");
    const intptr_t stream = PyLong_AsSsize_t(args[1]);
    if (PyErr_Occurred()) return NULL;
    smm_buffer *b = PyMem_Calloc((size_t)count, sizeof *b);
    PyObject *layouts = PyTuple_New(count), *type, *raised, *trace;
    bool done = b && layouts;
    for (int i = 0; i < count && done; i++) {
        done = smm_open_buffer(args[4 + i], PyTuple_GET_ITEM(args[2], i), stream, &b[i]) == 0;
        PyObject *layout = done ? layout_of(&b[i]) : NULL;
        done = layout;
        if (done) PyTuple_SET_ITEM(layouts, i, layout);
    }
    done = done && launch(args[0], layouts, args[3], b, count, (void *)stream) == 0;
    PyErr_Fetch(&type, &raised, &trace); /* a library may run Python when it takes an array back */
    if (done)
        smm_hold_buffers(b, count, b->x.device.device_id, (void *)stream);
    else
        for (int i = 0; i < count && b; i++) smm_close_buffer(&b[i]);
    PyErr_Restore(type, raised, trace);
    Py_XDECREF(layouts);
    PyMem_Free(b);
    if (!done) return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"cuda_program", cuda_program, METH_VARARGS, NULL},
    {"cuda_build_program", cuda_build_program, METH_VARARGS, NULL},
    {"device_program", (PyCFunction)(void (*)(void))device_program, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

int smm_add_device_programs(PyObject *module) { return PyModule_AddFunctions(module, methods); }
