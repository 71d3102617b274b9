/* device_kernels.c: the CUDA kernels as data, for smallmm.cuda, the tuner and the tests: plans, compiling, tuned rows.
 */
#include "buffers.h"

static PyObject *cuda_configure(PyObject *Py_UNUSED(module), PyObject *args) {
    const char *nvrtc, *cache;
    if (!PyArg_ParseTuple(args, "yy", &nvrtc, &cache)) return NULL; /* as the file system encodes them; b"": none */
    smm_cuda_set_nvrtc_path(nvrtc);
    smm_cuda_set_cache(cache);
    Py_RETURN_NONE;
}

/* cuda_may_cache(directory): whether kernels may be kept there. */
static PyObject *cuda_may_cache(PyObject *Py_UNUSED(module), PyObject *directory) {
    const char *name = PyBytes_AsString(directory);
    return name ? PyBool_FromLong(smm_cuda_may_cache(name)) : NULL;
}

static int read_int(PyObject *d, const char *name, int otherwise) {
    PyObject *x = PyDict_GetItemString(d, name);
    return x ? (int)PyLong_AsLong(x) : otherwise;
}

static int read_parameters(PyObject *d, smm_cuda_parameters *p) {
    PyObject *kernel = PyDict_GetItemString(d, "kernel");
    const char *name = kernel && PyUnicode_Check(kernel) ? PyUnicode_AsUTF8(kernel) : "";
    p->kernel = -1;
    for (int i = 0; i < SMM_CUDA_KERNELS; i++)
        if (!strcmp(name, smm_cuda_kernel_names[i])) p->kernel = i;
    if (p->kernel < 0) {
        PyErr_Format(PyExc_ValueError, "there is no CUDA kernel '%s'", name);
        return -1;
    }
#define SMM_CUDA_PARAMETER(name, macro, meaning) p->name = read_int(d, #name, 0);
#include "../cuda/kernels.def"
#undef SMM_CUDA_PARAMETER
    return PyErr_Occurred() ? -1 : 0;
}

static int read_op(PyObject *d) {
    PyObject *op = PyDict_GetItemString(d, "op");
    if (!op) return SMM_OP_MATMUL;
    const char *name = PyUnicode_Check(op) ? PyUnicode_AsUTF8(op) : "";
    for (int i = 0; i < SMM_OPS; i++)
        if (!strcmp(name, smm_operations[i].name)) return i;
    PyErr_Format(PyExc_ValueError, "there is no operation '%s'", name);
    return -1;
}

/* The problem that a dictionary names: op, dtype, m, k, n; and, where not the usual, how the operands lie. */
static int read_problem(PyObject *d, smm_cuda_problem *p) {
    PyObject *dtype = PyDict_GetItemString(d, "dtype");
    const int op = read_op(d);
    if (op < 0) return -1;
    const char *name = dtype && PyUnicode_Check(dtype) ? PyUnicode_AsUTF8(dtype) : "";
    int number = SMM_DTYPE_COUNT - 1;
    while (number >= 0 && strcmp(name, smm_dtypes[number].name)) number--;
    if (number < 0) {
        PyErr_Format(PyExc_ValueError, "the dtype of a problem is %.50R; expected a dtype of a kernel, 'f32' or 'f64'",
                     dtype ? dtype : Py_None);
        return -1;
    }
    *p = (smm_cuda_problem){
        .op = op,
        .dtype = number,
#define READ(name, otherwise) .name = read_int(d, #name, otherwise)
        READ(m, 0),
        READ(k, 1),
        READ(n, 0),
        READ(form, 0),
        READ(source_a, 0),
        READ(source_b, 0),
        READ(source_c, 0),
        READ(source_rest, 0),
        READ(order_a, 0),
        READ(order_b, 0),
        READ(order_c, 0),
        READ(aligned, 1),
        READ(scaled, 0),
        READ(in_place, 0),
        READ(small, 0),
        READ(arch, 90),
#undef READ
    };
    return PyErr_Occurred() ? -1 : 0;
}

static PyObject *write_parameters(const smm_cuda_parameters *p, const smm_cuda_grid *grid) {
    PyObject *d = Py_BuildValue("{s:s,s:i,s:i,s:i}", "kernel", smm_cuda_kernel_names[p->kernel], "matrices",
                                grid->matrices, "block", grid->threads, "shared", grid->shared);
#define SMM_CUDA_PARAMETER(name, macro, meaning) \
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
    if (!PyList_Check(list))
        return PyErr_Format(PyExc_TypeError, "cuda_tune: rows is a %s; expected a list of rows",
                            Py_TYPE(list)->tp_name);
    const Py_ssize_t count = PyList_GET_SIZE(list);
    smm_cuda_row *rows = calloc(count + 1, sizeof *rows);
    if (!rows) return PyErr_NoMemory();
    smm_cuda_status status = SMM_CUDA_OK;
    for (Py_ssize_t i = 0; i < count && !PyErr_Occurred(); i++) {
        smm_cuda_problem p;
        PyObject *d = PyList_GET_ITEM(list, i);
        if (!PyDict_Check(d))
            PyErr_Format(PyExc_TypeError, "cuda_tune: row %zd is a %s; expected a dictionary", i, Py_TYPE(d)->tp_name);
        else if (!read_problem(d, &p) && !read_parameters(d, &rows[i].parameters))
            rows[i].problem = p;
    }
    if (!PyErr_Occurred()) status = smm_cuda_tune(rows, count);
    smm_cuda_forget();
    free(rows);
    if (status) smm_raise_cuda(status);
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
    if (read_problem(d, &problem) < 0 || smm_configure_cuda() < 0) return NULL;
    if (given) {
        if (read_parameters(given, &parameters) < 0) return NULL;
        if (!smm_cuda_fits(&problem, &parameters, shared, &grid)) Py_RETURN_NONE;
        return write_parameters(&parameters, &grid);
    }
    const smm_cuda_status status = smm_cuda_plan(&problem, shared, &parameters, &grid);
    if (status) {
        smm_raise_cuda(status);
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
    if (read_problem(d, &problem) < 0 || smm_configure_cuda() < 0) return NULL;
    problem.arch = arch;
    smm_cuda_status status = SMM_CUDA_OK;
    if (given == Py_None)
        status = smm_cuda_plan(&problem, shared, &parameters, &grid);
    else if (read_parameters(given, &parameters) < 0)
        return NULL;
    else if (!smm_cuda_fits(&problem, &parameters, shared, &grid))
        return PyErr_Format(PyExc_ValueError,
                            "cuda_build: %s does not take m = %d, k = %d, n = %d with these parameters",
                            smm_cuda_kernel_names[parameters.kernel], problem.m, problem.k, problem.n);
    if (!status) {
        Py_BEGIN_ALLOW_THREADS;
        status = smm_cuda_build(&problem, &parameters, &grid, &cubin);
        Py_END_ALLOW_THREADS;
    }
    if (status) {
        smm_raise_cuda(status);
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
    if (read_problem(d, &p) < 0 || smm_configure_cuda() < 0) return NULL;
    smm_cuda_kernel kernel;
    smm_cuda_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = smm_cuda_ready(&p, ordinal, &kernel);
    Py_END_ALLOW_THREADS;
    if (status) {
        smm_raise_cuda(status);
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
    if ((number == -1 && PyErr_Occurred()) || smm_configure_cuda() < 0) return NULL;
    const smm_cuda_status status = smm_cuda_get_device((int)number, &device);
    if (status) {
        smm_raise_cuda(status);
        return NULL;
    }
    return Py_BuildValue("(sii)", device->name, device->arch, device->shared_memory);
}

static PyMethodDef methods[] = {
    {"cuda_configure", cuda_configure, METH_VARARGS, NULL},
    {"cuda_may_cache", cuda_may_cache, METH_O, NULL},
    {"cuda_tune", cuda_tune, METH_O, NULL},
    {"cuda_plan", cuda_plan, METH_VARARGS, NULL},
    {"cuda_build", cuda_build, METH_VARARGS, NULL},
    {"cuda_warm", cuda_warm, METH_VARARGS, NULL},
    {"cuda_device", cuda_device, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

int smm_add_device_kernels(PyObject *module) { return PyModule_AddFunctions(module, methods); }
