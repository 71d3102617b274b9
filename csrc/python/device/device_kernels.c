/* device_kernels.c: the CUDA kernels as data, for smallmm.cuda, the tuner and the tests: plans, compiling, tuned rows.
 */
#include "buffers.h"

static PyObject *cuda_configure(PyObject *Py_UNUSED(module), PyObject *args) {
    const char *nvrtc, *cache;
    if (!PyArg_ParseTuple(args, "yy", &nvrtc, &cache)) return NULL; /* in the encoding of the file system; b"": none */
    smm_cuda_set_nvrtc_path(nvrtc);
    smm_cuda_set_cache(cache);
    Py_RETURN_NONE;
}

/* cuda_may_cache(directory): whether kernels may be kept there. */
static PyObject *cuda_may_cache(PyObject *Py_UNUSED(module), PyObject *directory) {
    const char *name = PyBytes_AsString(directory);
    return name ? PyBool_FromLong(smm_cuda_may_cache(name)) : NULL;
}

/* "" if it is no string. */
static const char *text_of(PyObject *x) { return x && PyUnicode_Check(x) ? PyUnicode_AsUTF8(x) : ""; }

static int read_int(PyObject *d, const char *name, int otherwise) {
    PyObject *x = PyDict_GetItemString(d, name);
    return x ? (int)PyLong_AsLong(x) : otherwise;
}

/* The number of a kernel; -1 with an exception: there is none. */
static int kernel_named(const char *name) {
    for (int i = 0; i < SMM_CUDA_KERNELS; i++)
        if (!strcmp(name, smm_cuda_kernel_names[i])) return i;
    PyErr_Format(PyExc_ValueError, "there is no CUDA kernel '%s'", name);
    return -1;
}

/* Missing parameters of the kernel are 0; parameters of other kernels are ignored. */
static int read_parameters(PyObject *d, smm_cuda_parameters *p) {
    PyObject *kernel = PyDict_GetItemString(d, "kernel");
    *p = (smm_cuda_parameters){.kernel = kernel_named(text_of(kernel))};
    if (p->kernel < 0) return -1;
    for (int i = 0; i < smm_cuda_has_count; i++) {
        if (smm_cuda_has_list[i].kernel != p->kernel) continue;
        const smm_cuda_parameter *parameter = &smm_cuda_parameter_list[smm_cuda_has_list[i].parameter];
        *(int *)((char *)p + parameter->offset) = read_int(d, parameter->name, 0);
    }
    return PyErr_Occurred() ? -1 : 0;
}

static int op_named(const char *name) {
    for (int i = 0; i < SMM_OPS; i++)
        if (!strcmp(name, smm_operations[i].name)) return i;
    PyErr_Format(PyExc_ValueError, "there is no operation '%s'", name);
    return -1;
}

static int read_op(PyObject *d) {
    PyObject *op = PyDict_GetItemString(d, "op");
    return !op ? SMM_OP_MATMUL : op_named(text_of(op));
}

/* The numbers of a problem besides its operation, dtype and sizes, and their defaults. */
#define PROBLEM_NUMBERS(NUMBER) \
    NUMBER(form, 0) \
    NUMBER(lower, 0) \
    NUMBER(source_a, 0) \
    NUMBER(source_b, 0) \
    NUMBER(source_c, 0) \
    NUMBER(source_rest, 0) \
    NUMBER(order_a, 0) \
    NUMBER(order_b, 0) \
    NUMBER(order_c, 0) \
    NUMBER(aligned, 1) \
    NUMBER(scaled, 0) \
    NUMBER(in_place, 0) \
    NUMBER(small, 0) \
    NUMBER(load, 0) \
    NUMBER(arch, 90)

/* The problem that a dictionary describes: op, dtype, m, k, n, and, where they are not the defaults, the layouts of
 * operands. */
static int read_problem(PyObject *d, smm_cuda_problem *p) {
    PyObject *dtype = PyDict_GetItemString(d, "dtype");
    const int op = read_op(d);
    if (op < 0) return -1;
    const char *name = text_of(dtype);
    int number = SMM_DTYPE_COUNT - 1;
    while (number >= 0 && strcmp(name, smm_dtypes[number].name)) number--;
    if (number < 0 || !smm_cuda_takes_dtype(op, number)) {
        PyErr_Format(PyExc_ValueError,
                     "the dtype of a problem is %.50R; expected a dtype of a kernel, such as 'f32' or 'f64'",
                     dtype ? dtype : Py_None);
        return -1;
    }
    *p = (smm_cuda_problem){.op = op,
                            .dtype = number,
#define READ(name, otherwise) .name = read_int(d, #name, otherwise),
                            PROBLEM_NUMBERS(READ)
#undef READ
    };
    if (!PyErr_Occurred()) smm_cuda_set_sizes(p, read_int(d, "m", 0), read_int(d, "k", 1), read_int(d, "n", 0));
    return PyErr_Occurred() ? -1 : 0;
}

/* A problem as read_problem reads it. */
static PyObject *write_problem(const smm_cuda_problem *p) {
#define FORMAT(name, usual) ",s:i"
#define VALUE(name, usual) , #name, p->name
    return Py_BuildValue("{s:s,s:s,s:i,s:i,s:i" PROBLEM_NUMBERS(FORMAT) "}", "op", smm_operations[p->op].name, "dtype",
                         smm_dtypes[p->dtype].name, "m", p->m, "k", p->k, "n", p->n PROBLEM_NUMBERS(VALUE));
#undef FORMAT
#undef VALUE
}

/* The device's name in a dictionary; "" if there is none. NULL: it is not a string. */
static const char *read_device(PyObject *d) {
    PyObject *device = PyDict_GetItemString(d, "device");
    return device ? PyUnicode_AsUTF8(device) : "";
}

/* A kernel's parameters and grid, and the device whose row they are; None for the baseline. */
static PyObject *write_kernel(const smm_cuda_kernel *kernel) {
    const smm_cuda_parameters *p = &kernel->parameters;
    PyObject *d = Py_BuildValue("{s:s,s:i,s:i,s:i,s:z}", "kernel", smm_cuda_kernel_names[p->kernel], "matrices",
                                kernel->grid.matrices, "block", kernel->grid.threads, "shared", kernel->grid.shared,
                                "tuned_on", kernel->tuned_on);
    for (int i = 0; d && i < smm_cuda_has_count; i++) {
        const smm_cuda_parameter *parameter = &smm_cuda_parameter_list[smm_cuda_has_list[i].parameter];
        if (smm_cuda_has_list[i].kernel != p->kernel) continue;
        smm_set_key(&d, parameter->name, PyLong_FromLong(*(const int *)((const char *)p + parameter->offset)));
    }
    return d;
}

static PyObject *values_of(const smm_cuda_has *has) {
    PyObject *values = PyTuple_New(has->count);
    for (int i = 0; values && i < has->count; i++) smm_set_item(&values, i, PyLong_FromLong(has->values[i]));
    return values;
}

/* The constants of a model by their names. */
static PyObject *write_model(const smm_cuda_model *model) {
    PyObject *d = PyDict_New();
    for (int i = 0; d && i < model->count; i++)
        smm_set_key(&d, model->names[i], PyFloat_FromDouble(model->constants[i]));
    return d;
}

/* cuda_catalog(): the names that rows may use: "ops" with the dtypes of each; "problem", the numbers of a problem and
 * their defaults; "parameters" and their meanings; "kernels", with the parameters of each and the values that the tuner
 * tries; "models", the constants of kernels whose time a model predicts. */
static PyObject *cuda_catalog(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(nothing)) {
    PyObject *ops = PyDict_New(), *problem = Py_BuildValue("{s:i,s:i,s:i}", "m", 0, "k", 1, "n", 0);
    PyObject *parameters = PyDict_New(), *kernels = PyDict_New(), *models = PyDict_New();
    for (int i = 0; i < SMM_OPS && ops; i++) {
        PyObject *dtypes = PyList_New(0);
        for (int j = 0; j < SMM_DTYPE_COUNT && dtypes; j++)
            if (smm_cuda_takes_dtype(i, j)) smm_append(&dtypes, PyUnicode_FromString(smm_dtypes[j].name));
        smm_set_key(&ops, smm_operations[i].name, dtypes);
    }
#define NUMBER(name, usual) \
    if (problem) smm_set_key(&problem, #name, PyLong_FromLong(usual));
    PROBLEM_NUMBERS(NUMBER)
#undef NUMBER
    for (int i = 0; i < SMM_CUDA_PARAMETERS && parameters; i++)
        smm_set_key(&parameters, smm_cuda_parameter_list[i].name,
                    PyUnicode_FromString(smm_cuda_parameter_list[i].meaning));
    for (int i = 0; i < SMM_CUDA_KERNELS && kernels && models; i++) {
        const smm_cuda_model *model = smm_cuda_model_of(i);
        if (model) smm_set_key(&models, smm_cuda_kernel_names[i], write_model(model));
        PyObject *own = PyDict_New();
        for (int j = 0; j < smm_cuda_has_count && own; j++) {
            const smm_cuda_has *has = &smm_cuda_has_list[j];
            if (has->kernel == i) smm_set_key(&own, smm_cuda_parameter_list[has->parameter].name, values_of(has));
        }
        smm_set_key(&kernels, smm_cuda_kernel_names[i], own);
    }
    if (ops && problem && parameters && kernels && models)
        return Py_BuildValue("{s:N,s:N,s:N,s:N,s:N}", "ops", ops, "problem", problem, "parameters", parameters,
                             "kernels", kernels, "models", models);
    Py_XDECREF(ops);
    Py_XDECREF(problem);
    Py_XDECREF(parameters);
    Py_XDECREF(kernels);
    Py_XDECREF(models);
    return NULL;
}

/* cuda_tune(rows): replace the tuned rows, dictionaries of a problem, parameters, the device's name and "by_user". */
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
        else if (!read_problem(d, &p) && !read_parameters(d, &rows[i].parameters) && (rows[i].device = read_device(d)))
            rows[i].problem = p, rows[i].by_user = read_int(d, "by_user", 0);
    }
    if (!PyErr_Occurred()) status = smm_cuda_tune(rows, count);
    smm_cuda_forget();
    free(rows);
    if (status) smm_raise_cuda(status);
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}

/* A device that need not be present: the problem has its name and architecture. */
static smm_cuda_device device_of(const smm_cuda_problem *problem, const char *name, int shared_memory) {
    smm_cuda_device device = {.arch = problem->arch, .shared_memory = shared_memory};
    snprintf(device.name, sizeof device.name, "%s", name);
    return device;
}

/* cuda_plan(problem, shared_memory, parameters=None): the plan's parameters and grid; with parameters, whether they
 * fit: their grid or None. */
static PyObject *cuda_plan(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *d, *given = NULL;
    int shared;
    smm_cuda_problem problem;
    smm_cuda_kernel kernel = {0};
    if (!PyArg_ParseTuple(args, "O!i|O!", &PyDict_Type, &d, &shared, &PyDict_Type, &given)) return NULL;
    const char *name = read_device(d);
    if (!name || read_problem(d, &problem) < 0 || smm_configure_cuda() < 0) return NULL;
    if (given) {
        if (read_parameters(given, &kernel.parameters) < 0) return NULL;
        if (!smm_cuda_fits(&problem, &kernel.parameters, shared, &kernel.grid)) Py_RETURN_NONE;
        return write_kernel(&kernel);
    }
    const smm_cuda_device device = device_of(&problem, name, shared);
    const smm_cuda_status status = smm_cuda_plan(&problem, &device, &kernel);
    if (status) return smm_raise_cuda(status);
    return write_kernel(&kernel);
}

/* Constants of a model from a sequence, in its order. -1 with an exception. */
static int read_constants(PyObject *sequence, const smm_cuda_model *model, double *constants) {
    PyObject *fast = PySequence_Fast(sequence, "cuda_predict: constants are not a sequence");
    if (!fast) return -1;
    if (PySequence_Fast_GET_SIZE(fast) != model->count)
        PyErr_Format(PyExc_ValueError, "cuda_predict: expected %d constants", model->count);
    for (int i = 0; i < model->count && !PyErr_Occurred(); i++)
        constants[i] = PyFloat_AsDouble(PySequence_Fast_GET_ITEM(fast, i));
    Py_DECREF(fast);
    return PyErr_Occurred() ? -1 : 0;
}

/* cuda_predict(problem, rows, shared_memory, constants=None): nanoseconds of all matrices (of 2^load) by the kernels
 * with these parameters; None where they do not fit or no model knows. With other constants than the model's own, all
 * rows are of one kernel. */
static PyObject *cuda_predict(PyObject *Py_UNUSED(module), PyObject *args) {
    enum { MAX_CONSTANTS = 64 };
    PyObject *d, *rows, *given = Py_None;
    int shared;
    smm_cuda_problem problem;
    double constants[MAX_CONSTANTS];
    bool is_read = false;
    if (!PyArg_ParseTuple(args, "O!O!i|O", &PyDict_Type, &d, &PyList_Type, &rows, &shared, &given)) return NULL;
    if (read_problem(d, &problem) < 0) return NULL;
    const Py_ssize_t count = PyList_GET_SIZE(rows);
    PyObject *times = PyList_New(0);
    for (Py_ssize_t i = 0; times && i < count; i++) {
        PyObject *row = PyList_GET_ITEM(rows, i), *time = NULL;
        smm_cuda_parameters parameters;
        smm_cuda_grid grid;
        if (!PyDict_Check(row))
            PyErr_Format(PyExc_TypeError, "cuda_predict: row %zd is a %s; expected a dictionary", i,
                         Py_TYPE(row)->tp_name);
        else if (!read_parameters(row, &parameters)) {
            const smm_cuda_model *model = smm_cuda_model_of(parameters.kernel);
            if (!model || !smm_cuda_fits(&problem, &parameters, shared, &grid))
                time = Py_NewRef(Py_None);
            else if (given == Py_None || is_read ||
                     (model->count <= MAX_CONSTANTS && !read_constants(given, model, constants))) {
                is_read = given != Py_None;
                const double ns = model->time(&problem, &parameters, &grid, is_read ? constants : model->constants);
                time = PyFloat_FromDouble(ns);
            }
        }
        smm_append(&times, time);
    }
    return times;
}

/* cuda_build(problem, parameters or None, arch, shared_memory): compile for an architecture; no such device need be
 * present. Returns (cubin, log or None, name, from_disk). */
static PyObject *cuda_build(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *d, *given;
    int arch, shared;
    smm_cuda_problem problem;
    smm_cuda_kernel kernel;
    smm_cuda_cubin cubin;
    if (!PyArg_ParseTuple(args, "O!Oii", &PyDict_Type, &d, &given, &arch, &shared)) return NULL;
    const char *name = read_device(d);
    if (!name || read_problem(d, &problem) < 0 || smm_configure_cuda() < 0) return NULL;
    problem.arch = arch;
    const smm_cuda_device device = device_of(&problem, name, shared);
    smm_cuda_status status = SMM_CUDA_OK;
    if (given == Py_None)
        status = smm_cuda_plan(&problem, &device, &kernel);
    else if (read_parameters(given, &kernel.parameters) < 0)
        return NULL;
    else if (!smm_cuda_fits(&problem, &kernel.parameters, shared, &kernel.grid))
        return PyErr_Format(PyExc_ValueError,
                            "cuda_build: %s does not take m = %d, k = %d, n = %d with these parameters",
                            smm_cuda_kernel_names[kernel.parameters.kernel], problem.m, problem.k, problem.n);
    if (!status) status = SMM_WITHOUT_GIL(smm_cuda_build(&problem, &kernel.parameters, &kernel.grid, &cubin));
    if (status) return smm_raise_cuda(status);
    PyObject *result = Py_BuildValue("(y#zsO)", cubin.data, (Py_ssize_t)cubin.bytes, cubin.log, cubin.name,
                                     cubin.from_disk ? Py_True : Py_False);
    smm_cuda_free_cubin(&cubin);
    return result;
}

/* cuda_warm(problem, device): prepare the kernel for a problem on a device. Returns how it runs. */
static PyObject *cuda_warm(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *d;
    int ordinal;
    smm_cuda_problem p;
    if (!PyArg_ParseTuple(args, "O!i", &PyDict_Type, &d, &ordinal)) return NULL;
    if (read_problem(d, &p) < 0 || smm_configure_cuda() < 0) return NULL;
    smm_cuda_kernel kernel;
    const smm_cuda_status status = SMM_WITHOUT_GIL(smm_cuda_ready(&p, ordinal, &kernel));
    if (status) return smm_raise_cuda(status);
    PyObject *result = write_kernel(&kernel);
    if (result && PyDict_SetItemString(result, "from_disk", kernel.from_disk ? Py_True : Py_False) < 0)
        Py_CLEAR(result);
    return result;
}

static smm_status take_no_call(smm_hook *Py_UNUSED(hook), const smm_call *Py_UNUSED(call)) { return SMM_OK; }

/* cuda_problem(function, *args, **kwargs): what function(*args, **kwargs) would ask kernels for, of which none runs:
 * (the number of calls on devices; and of the last one the problem, the device and the number of matrices). Calls on
 * the host compute nothing. */
static PyObject *cuda_problem(PyObject *Py_UNUSED(module), PyObject *args, PyObject *kwargs) {
    smm_trial trial = {0};
    smm_hook hook = {.take = take_no_call, .trial = &trial};
    PyObject *result = smm_call_with(&hook, args, 0, kwargs);
    if (!result) return NULL;
    Py_DECREF(result);
    const smm_cuda_device *device;
    const smm_cuda_status status = trial.calls ? smm_cuda_get_device(trial.device, &device) : SMM_CUDA_OK;
    if (status) return smm_raise_cuda(status);
    if (trial.calls) trial.problem.arch = device->arch;
    return Py_BuildValue("(nNin)", (Py_ssize_t)trial.calls, write_problem(&trial.problem), trial.device,
                         (Py_ssize_t)trial.matrices);
}

/* cuda_time(parameters or None, samples, function, *args, **kwargs): (function(*args, **kwargs), nanoseconds of its
 * call on a device, so many times); by the kernel with these parameters, or by what the call runs. */
static PyObject *cuda_time(PyObject *Py_UNUSED(module), PyObject *args, PyObject *kwargs) {
    const Py_ssize_t count = PyTuple_GET_SIZE(args);
    smm_cuda_parameters parameters;
    smm_trial trial = {.samples = count > 2 ? (int)PyLong_AsLong(PyTuple_GET_ITEM(args, 1)) : 0};
    smm_hook hook = {.take = take_no_call, .trial = &trial};
    if (PyErr_Occurred() || smm_configure_cuda() < 0) return NULL;
    if (trial.samples < 1 || trial.samples > SMM_MAX_SAMPLES)
        return PyErr_Format(PyExc_ValueError, "cuda_time: expected parameters, 1 to %d samples, and a function",
                            (int)SMM_MAX_SAMPLES);
    PyObject *given = PyTuple_GET_ITEM(args, 0);
    if (given != Py_None) {
        if (!PyDict_Check(given))
            return PyErr_Format(PyExc_TypeError, "cuda_time: parameters are a %s; expected a dictionary",
                                Py_TYPE(given)->tp_name);
        if (read_parameters(given, &parameters) < 0) return NULL;
        trial.parameters = &parameters;
    }
    PyObject *result = smm_call_with(&hook, args, 2, kwargs);
    PyObject *times = result ? PyTuple_New(trial.samples) : NULL;
    for (int i = 0; times && i < trial.samples; i++) smm_set_item(&times, i, PyFloat_FromDouble(trial.nanoseconds[i]));
    if (times) return Py_BuildValue("(NN)", result, times);
    Py_XDECREF(result);
    return NULL;
}

/* cuda_texts(kernel): a hash of the texts that it is compiled from. */
static PyObject *cuda_texts(PyObject *Py_UNUSED(module), PyObject *name) {
    const char *text = PyUnicode_AsUTF8(name);
    const int kernel = text ? kernel_named(text) : -1;
    if (kernel < 0) return NULL;
    char hash[17];
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)smm_cuda_texts(kernel));
    return PyUnicode_FromString(hash);
}

/* cuda_device(ordinal): (name, architecture, shared memory of a block). */
static PyObject *cuda_device(PyObject *Py_UNUSED(module), PyObject *ordinal) {
    const smm_cuda_device *const device = smm_device_numbered(ordinal);
    return device ? Py_BuildValue("(sii)", device->name, device->arch, device->shared_memory) : NULL;
}

/* cuda_takes(gufunc, dtype, m, k, n): whether there is a kernel for these sizes. */
static PyObject *cuda_takes(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *gufunc;
    PyArray_Descr *descr;
    Py_ssize_t m, k, n;
    if (!PyArg_ParseTuple(args, "O!O!nnn", &PyUFunc_Type, &gufunc, &PyArrayDescr_Type, &descr, &m, &k, &n)) return NULL;
    const int dtype = smm_dtype_of_numpy(descr->type_num);
    return PyBool_FromLong(dtype >= 0 && smm_cuda_takes(smm_gufunc_of(gufunc)->op, (smm_dtype)dtype, m, k, n));
}

/* cuda_max_order(operation, dtype): the largest order that a kernel of it takes; 0: there is none of that type. */
static PyObject *cuda_max_order(PyObject *Py_UNUSED(module), PyObject *args) {
    const char *name;
    PyArray_Descr *descr;
    if (!PyArg_ParseTuple(args, "sO!", &name, &PyArrayDescr_Type, &descr)) return NULL;
    const int op = op_named(name), dtype = smm_dtype_of_numpy(descr->type_num);
    return op < 0 ? NULL : PyLong_FromLong(dtype < 0 ? 0 : smm_cuda_max_order((smm_op)op, (smm_dtype)dtype));
}

/* cuda_nvrtc_version(): of the NVRTC that compiles here, "13.0". */
static PyObject *cuda_nvrtc_version(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(nothing)) {
    const smm_nvrtc_functions *nvrtc;
    int major = 0, minor = 0;
    if (smm_configure_cuda() < 0) return NULL;
    const smm_cuda_status status = smm_cuda_nvrtc(&nvrtc);
    if (status) return smm_raise_cuda(status);
    nvrtc->version(&major, &minor);
    return PyUnicode_FromFormat("%d.%d", major, minor);
}

static PyMethodDef methods[] = {
    {"cuda_configure", cuda_configure, METH_VARARGS, NULL},
    {"cuda_may_cache", cuda_may_cache, METH_O, NULL},
    {"cuda_catalog", cuda_catalog, METH_NOARGS, NULL},
    {"cuda_tune", cuda_tune, METH_O, NULL},
    {"cuda_plan", cuda_plan, METH_VARARGS, NULL},
    {"cuda_predict", cuda_predict, METH_VARARGS, NULL},
    {"cuda_build", cuda_build, METH_VARARGS, NULL},
    {"cuda_warm", cuda_warm, METH_VARARGS, NULL},
    {"cuda_problem", (PyCFunction)(void (*)(void))cuda_problem, METH_VARARGS | METH_KEYWORDS, NULL},
    {"cuda_time", (PyCFunction)(void (*)(void))cuda_time, METH_VARARGS | METH_KEYWORDS, NULL},
    {"cuda_texts", cuda_texts, METH_O, NULL},
    {"cuda_device", cuda_device, METH_O, NULL},
    {"cuda_takes", cuda_takes, METH_VARARGS, NULL},
    {"cuda_max_order", cuda_max_order, METH_VARARGS, NULL},
    {"cuda_nvrtc_version", cuda_nvrtc_version, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

int smm_add_device_kernels(PyObject *module) { return PyModule_AddFunctions(module, methods); }
