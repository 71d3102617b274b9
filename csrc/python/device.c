/* device.c: gufuncs of arrays on CUDA devices, from a Python call to a launch.
 *
 * The short way, smm_device_direct(), takes arrays whose type has DLPack's C exchange API (PyTorch 2.10 and newer) and
 * makes no other Python object than the results. What does not go that way (other libraries, mixed dtypes, wrong
 * arguments) it declines by NotImplemented; smallmm/_device.py looks closer, and comes back by device_run(). */
#include "buffers.h"

/* A call as it is put together. */
typedef struct task {
    const smm_gufunc *g;
    const smm_signature *s;
    smm_cuda_call call;
    smm_buffer x[SMM_MOST_OPERANDS];
    bool is_number[SMM_MOST_OPERANDS];
    char absent[4];    /* dimensions that an input lacks, so that no output has them */
    int device, dtype; /* -1: not known yet */
} task;

static task task_of(const smm_gufunc *g) {
    task t = {.g = g,
              .s = smm_signature_of(g),
              .call = {.op = g->op, .form = g->form, .m = -1, .k = -1, .n = -1},
              .device = -1,
              .dtype = -1};
    if (g->op == SMM_OP_MATMUL) t.call.number[SMM_MATMUL_alpha] = 1;
    return t;
}

/* DLPack's name of operand i's elements in calls of an element type. */
static DLDataType element_of(const task *t, int i, smm_dtype dtype) {
    static const uint8_t codes[SMM_DTYPE_COUNT] = {
#define ROW(x, NAME, name, in_memory, computed, numpy, dlpack, ...) dlpack,
        SMM_DTYPES(ROW, _)
#undef ROW
    };
    const int place = t->s->place[i];
    const smm_element element = smm_operations[t->g->op].operand[place].element;
    return (DLDataType){.code = element == SMM_INT32  ? kDLInt
                                : element == SMM_REAL ? codes[smm_dtypes[dtype].real]
                                                      : codes[dtype],
                        .bits = 8 * smm_size_of(t->g->op, dtype, place),
                        .lanes = 1};
}

static bool is_element(const task *t, int i, smm_dtype dtype) {
    const DLDataType x = t->x[i].x.dtype, y = element_of(t, i, dtype);
    return x.code == y.code && x.bits == y.bits && x.lanes == y.lanes;
}

/* The element type of a call whose first operand has such elements, or -1. */
static int dtype_of(const task *t, int i) {
    int dtype = SMM_DTYPE_COUNT - 1;
    while (dtype >= 0 && !is_element(t, i, dtype)) dtype--;
    return dtype;
}

static intptr_t *size_in(task *t, char dimension) {
    return dimension == 'm' ? &t->call.m : dimension == 'n' ? &t->call.n : &t->call.k;
}

static bool is_absent(const task *t, int operand, int i) { return strchr(t->absent, t->s->dims[operand][i]); }

/* Core dimensions that an operand has in this call. */
static int core_of(const task *t, int operand) {
    int core = t->s->core[operand];
    for (int i = 0; i < t->s->core[operand]; i++) core -= is_absent(t, operand, i);
    return core;
}

/* Numbers, Python's and NumPy's, and NumPy's arrays of one of them. */
static bool number(PyObject *x, double *value) {
    if (PyLong_Check(x) || PyFloat_Check(x) || PyArray_IsScalar(x, Floating) || PyArray_IsScalar(x, Integer) ||
        PyArray_IsScalar(x, Bool) || (PyArray_CheckExact(x) && PyArray_IsZeroDim(x)))
        *value = PyFloat_AsDouble(x);
    else
        return false;
    if (!PyErr_Occurred()) return true;
    PyErr_Clear();
    return false;
}

/* The dtype and device are those of all, or of none before. */
static bool fits_others(task *t, int operand) {
    const DLTensor *x = &t->x[operand].x;
    if (t->device < 0) t->device = x->device.device_id;
    if (t->dtype < 0) t->dtype = dtype_of(t, operand);
    return t->device == x->device.device_id && t->dtype >= 0 && is_element(t, operand, t->dtype) &&
           !((uintptr_t)x->data & (x->dtype.bits / 8 - 1)); /* aligned */
}

static bool broadcast(smm_cuda_call *call, const int64_t *shape, int dims) {
    if (dims > SMM_CUDA_DIMS) return false;
    for (; call->dims < dims; call->dims++) call->extent[call->dims] = 1;
    for (int d = 0; d < dims; d++) { /* innermost first */
        const int64_t extent = shape[dims - 1 - d];
        if (call->extent[d] == 1)
            call->extent[d] = extent;
        else if (extent != 1 && extent != call->extent[d])
            return false;
    }
    return true;
}

/* Take the sizes of an input. False: it does not fit. */
static bool take_input(task *t, int operand) {
    const smm_signature *s = t->s;
    const DLTensor *x = &t->x[operand].x;
    if (!fits_others(t, operand) || x->ndim > SMM_MOST_AXES) return false;
    for (int i = 0; i < s->core[operand] && x->ndim < s->core[operand]; i++)
        if (s->optional[operand][i]) t->absent[strlen(t->absent)] = s->dims[operand][i];
    const int batch_dims = x->ndim - core_of(t, operand);
    if (batch_dims < 0) return false;
    for (int i = 0, at = batch_dims; i < s->core[operand]; i++) {
        if (is_absent(t, operand, i)) continue;
        intptr_t *size = size_in(t, s->dims[operand][i]);
        if (*size < 0) *size = x->shape[at];
        if (*size != x->shape[at++]) return false;
    }
    return broadcast(&t->call, x->shape, batch_dims);
}

/* Sizes that no operand has: matrices are square, columns are one. False: no kernel takes them, or there is nothing to
 * compute. */
static bool take_sizes(task *t) {
    smm_cuda_call *call = &t->call;
    if (call->n < 0) call->n = 1;
    if (call->m < 0) call->m = call->op == SMM_OP_MATMUL ? 1 : call->n;
    if (call->k < 0) call->k = t->g->k ? *size_in(t, t->g->k) : 1;
    call->dtype = t->dtype;
    return smm_cuda_takes(call->op, call->m, call->k, call->n) && (call->k || call->op == SMM_OP_MATMUL);
}

static int shape_of_output(task *t, int operand, int64_t *shape) {
    int ndim = 0;
    for (int d = t->call.dims; d--;) shape[ndim++] = t->call.extent[d];
    for (int i = 0; i < t->s->core[operand]; i++)
        if (!is_absent(t, operand, i)) shape[ndim++] = *size_in(t, t->s->dims[operand][i]);
    return ndim;
}

static bool take_output(task *t, int operand) {
    const DLTensor *x = &t->x[operand].x;
    int64_t shape[SMM_MOST_AXES];
    const int ndim = shape_of_output(t, operand, shape);
    if (!fits_others(t, operand) || x->ndim != ndim) return false;
    for (int i = 0; i < ndim; i++)
        if (x->shape[i] != shape[i] || (shape[i] > 1 && x->strides[i] == 0)) return false;
    return true;
}

/* Where an operand's elements lie. A vector is a column; or where the gufunc says so, a row. */
static void describe(task *t, int operand) {
    const DLTensor *x = &t->x[operand].x;
    smm_cuda_operand *to = &t->call.operand[t->s->place[operand]];
    int at = x->ndim - core_of(t, operand);
    to->data = x->data;
    for (int d = 0; d < t->call.dims; d++)
        to->batch[d] = d < at && x->shape[at - 1 - d] != 1 ? x->strides[at - 1 - d] : 0;
    for (int i = 0; i < t->s->core[operand]; i++) {
        if (is_absent(t, operand, i)) continue;
        const bool is_column = t->s->core[operand] == 2 ? i == 1 : t->g->rows;
        *(is_column ? &to->col : &to->row) = x->strides[at++];
    }
}

static void describe_all(task *t) {
    for (int i = 0; i < t->s->operands; i++)
        if (!t->is_number[i]) describe(t, i);
}

static void take_number(task *t, int operand, double value) {
    t->is_number[operand] = true;
    t->call.number[t->s->place[operand]] = value;
}

/* The call as one on the host would be, for what can be said of its work; of its batch dimensions, the innermost. */
static smm_call work_of(const smm_cuda_call *call, intptr_t batch) {
    smm_call c = {.op = call->op,
                  .dtype = call->dtype,
                  .form = call->form,
                  .batch = batch,
                  .m = call->m,
                  .n = call->n,
                  .k = call->k};
    for (int i = 0; i < smm_operations[call->op].count; i++) {
        const smm_cuda_operand *x = &call->operand[i];
        const intptr_t size = smm_size_of(call->op, call->dtype, i);
        c.operand[i] = (smm_operand){x->data, call->dims ? x->batch[0] * size : 0, x->row * size, x->col * size};
    }
    return c;
}

static smm_cuda_status explain(smm_detour *detour, const task *t) {
    const smm_cuda_device *device;
    smm_cuda_kernel kernel;
    smm_cuda_args args;
    smm_cuda_status status = smm_cuda_get_device(t->device, &device);
    if (!status) status = smm_cuda_prepare(&t->call, t->device, &kernel, &args);
    if (status) return status;
    smm_device_plan plan = {.tuned_on = kernel.tuned_on,
                            .matrices = kernel.grid.matrices,
                            .threads = kernel.grid.threads,
                            .swapped = kernel.swapped,
                            .sizes = work_of(&t->call, args.batch)};
    snprintf(plan.kernel, sizeof plan.kernel, "smm_%s_%s_sm%d", smm_cuda_kernel_names[kernel.parameters.kernel],
             smm_dtypes[t->call.dtype].name, device->arch);
    detour->take_device(detour, &plan);
    return SMM_CUDA_OK;
}

/* Run it; or, while this thread has a detour, say how it would run. 0, or -1 with an exception. */
static int run(const task *t, void *stream) {
    smm_detour *detour = smm_current_detour;
    smm_cuda_status status;
    if (smm_configure_cuda() < 0) return -1;
    if (detour && detour->take_device) {
        status = explain(detour, t);
    } else {
        Py_BEGIN_ALLOW_THREADS;
        status = smm_cuda_run(&t->call, t->device, stream);
        Py_END_ALLOW_THREADS;
    }
    if (status) smm_raise_cuda(status);
    return status ? -1 : 0;
}

static void allocation_failed(void *Py_UNUSED(context), const char *kind, const char *message) {
    const PyGILState_STATE gil = PyGILState_Ensure();
    PyErr_Format(strcmp(kind, "MemoryError") ? PyExc_RuntimeError : PyExc_MemoryError, "%s", message);
    PyGILState_Release(gil);
}

/* A new array of the same library. */
static PyObject *new_output(task *t, int operand, const DLPackExchangeAPI *api) {
    int64_t shape[SMM_MOST_AXES];
    DLTensor prototype = {.device = {kDLCUDA, t->device},
                          .ndim = shape_of_output(t, operand, shape),
                          .dtype = element_of(t, operand, t->dtype),
                          .shape = shape};
    DLManagedTensorVersioned *managed = NULL;
    PyObject *result = NULL;
    if (api->managed_tensor_allocator(&prototype, &managed, NULL, allocation_failed)) return NULL;
    if (api->managed_tensor_to_py_object_no_sync(managed, (void **)&result)) return NULL;
    if (!smm_exchange(result, &t->x[operand])) {
        PyErr_SetString(PyExc_RuntimeError, "the array library gave an output that is no array on the device");
        Py_CLEAR(result);
    }
    return result;
}

/* The inputs of a call; false if they are not for here. */
static bool take_inputs(task *t, PyObject *const *args) {
    double value;
    for (int i = 0; i < t->s->inputs; i++) {
        if (t->s->core[i] == 0 && number(args[i], &value))
            take_number(t, i, value);
        else if (!smm_exchange(args[i], &t->x[i]) || t->x[i].api != t->x[0].api || !take_input(t, i))
            return false;
    }
    return take_sizes(t);
}

/* One output, or a tuple of them; takes the references. */
static PyObject *pack(PyObject *outputs[], int count) {
    if (count == 1) return outputs[0];
    PyObject *results = PyTuple_New(count);
    for (int i = 0; i < count; i++)
        if (results)
            PyTuple_SET_ITEM(results, i, outputs[i]);
        else
            Py_DECREF(outputs[i]);
    return results;
}

PyObject *smm_device_direct(PyObject *ufunc, PyObject *const *args, Py_ssize_t nargs) {
    task t = task_of(smm_gufunc_of(ufunc));
    const int inputs = t.s->inputs, count = t.s->operands - inputs;
    PyObject *outputs[SMM_MOST_OPERANDS] = {NULL};
    void *stream = NULL;
    bool in_place, declined = !take_inputs(&t, args), failed = false;
    for (int i = inputs; i < t.s->operands && !declined && !failed; i++) {
        if (i < nargs && !Py_IsNone(args[i])) {
            declined = !smm_exchange(args[i], &t.x[i]) || t.x[i].api != t.x[0].api || !take_output(&t, i);
            outputs[i - inputs] = Py_NewRef(args[i]);
        } else if (t.s->updates && t.call.number[SMM_MATMUL_beta] != 0) {
            declined = true;
        } else {
            outputs[i - inputs] = new_output(&t, i, t.x[0].api);
            failed = !outputs[i - inputs];
        }
    }
    if (!declined && !failed) {
        describe_all(&t);
        declined = smm_cuda_overlaps(&t.call, &in_place);
        if (!declined) failed = t.x[0].api->current_work_stream(kDLCUDA, t.device, &stream) || run(&t, stream) < 0;
    }
    if (!declined && !failed) return pack(outputs, count);
    for (int i = 0; i < count; i++) Py_XDECREF(outputs[i]);
    if (failed) return NULL;
    Py_RETURN_NOTIMPLEMENTED;
}

/* Why an operand does not fit: each is what its library said of it before, as a rule, and that has been checked. */
static void explain_misfit(const task *t, int operand, PyObject *label, PyObject *x) {
    const smm_buffer *b = &t->x[operand];
    const bool integer = smm_is_integer(t->g, operand), output = operand >= t->s->inputs;
    const bool fits = t->dtype < 0 ? dtype_of(t, operand) >= 0 : is_element(t, operand, t->dtype);
    const int batch_dims = b->x.ndim - core_of(t, operand);
    char name[SMM_DTYPE_NAME];
    if (b->x.device.device_id != t->device) {
        smm_refuse(PyExc_ValueError, label, x, "on CUDA device %d; expected device %d, as the operands before",
                   b->x.device.device_id, t->device);
    } else if (!fits) {
        char expected[SMM_DTYPE_NAME];
        if (integer)
            smm_refuse(PyExc_ValueError, label, x, "of %s; expected int32", smm_dtype_name(b->x.dtype, name));
        else if (t->dtype < 0)
            smm_refuse(PyExc_ValueError, label, x, "of %s; expected float32 or float64",
                       smm_dtype_name(b->x.dtype, name));
        else
            smm_refuse(PyExc_ValueError, label, x, "of %s; expected %s, as the operands before",
                       smm_dtype_name(b->x.dtype, name), smm_dtype_name(element_of(t, operand, t->dtype), expected));
    } else if ((uintptr_t)b->x.data % (b->x.dtype.bits / 8)) {
        smm_refuse(PyExc_ValueError, label, x,
                   "whose data begin at the address %p; expected a multiple of %d bytes, an element's size", b->x.data,
                   b->x.dtype.bits / 8);
    } else if (batch_dims > SMM_CUDA_DIMS) {
        smm_refuse(PyExc_ValueError, label, x, "with %d batch dimensions; expected at most %d on a device", batch_dims,
                   SMM_CUDA_DIMS);
    } else {
        int64_t shape[SMM_MOST_AXES];
        const DLTensor expected = {.ndim = output ? shape_of_output((task *)t, operand, shape) : 0, .shape = shape};
        PyObject *given = smm_shape_of(&b->x), *fitting = smm_shape_of(&expected);
        if (given && fitting && output)
            smm_refuse(PyExc_ValueError, label, x, "of shape %R; expected %R, and no two elements in one place", given,
                       fitting);
        else if (given && fitting)
            smm_refuse(PyExc_ValueError, label, x, "of shape %R, which does not fit the operands before it", given);
        Py_XDECREF(given);
        Py_XDECREF(fitting);
    }
}

/* What messages call an operand: "<function>: <argument>", if the caller said so. */
static PyObject *label_of(PyObject *labels, int operand) {
    if (labels && operand < PyTuple_GET_SIZE(labels)) return Py_NewRef(PyTuple_GET_ITEM(labels, operand));
    return PyUnicode_FromFormat("device_run: operand %d", operand);
}

/* device_run(gufunc, stream, *operands, labels=()): a call on arrays of any library, outputs included, on a given
 * stream. The arguments have been checked. False if an output overlaps another operand. */
static PyObject *device_run(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs, PyObject *names) {
    if (nargs < 3 || !PyObject_TypeCheck(args[0], &PyUFunc_Type) || smm_configure_cuda() < 0)
        return PyErr_Occurred() ? NULL
                                : PyErr_Format(PyExc_TypeError, "device_run: expected a gufunc, a stream and operands");
    task t = task_of(smm_gufunc_of(args[0]));
    const intptr_t stream = PyLong_AsSsize_t(args[1]);
    PyObject *const *const operands = args + 2;
    if (PyErr_Occurred()) return NULL;
    if (nargs - 2 != t.s->operands)
        return PyErr_Format(PyExc_TypeError, "device_run: %zd operands; expected %d", nargs - 2, t.s->operands);
    PyObject *const labels = names && PyTuple_GET_SIZE(names) && PyTuple_Check(args[nargs]) ? args[nargs] : NULL;
    PyObject *result = NULL, *label = NULL, *type, *raised, *trace;
    bool in_place, overlaps = false;
    double value;
    for (int i = 0; i < t.s->operands; i++) {
        Py_XSETREF(label, label_of(labels, i));
        if (!label) goto end;
        if (i < t.s->inputs && t.s->core[i] == 0 && number(operands[i], &value))
            take_number(&t, i, value);
        else if (smm_open_buffer(operands[i], label, stream, &t.x[i]) < 0)
            goto end;
        if (i >= t.s->inputs && (t.x[i].read_only || t.x[i].copied)) {
            PyErr_Format(PyExc_ValueError, "%S is %s; expected an array that can be written to", label,
                         t.x[i].read_only ? "read-only" : "an array that __dlpack__ gives a copy of");
            goto end;
        }
    }
    for (int i = 0; i < t.s->operands; i++) {
        if (i == t.s->inputs && !take_sizes(&t)) {
            PyErr_Format(PyExc_ValueError, "device_run: no kernel takes %s of m = %zd, k = %zd, n = %zd", t.g->name,
                         t.call.m, t.call.k, t.call.n);
            goto end;
        }
        if (t.is_number[i] || (i < t.s->inputs ? take_input : take_output)(&t, i)) continue;
        Py_XSETREF(label, label_of(labels, i));
        if (label) explain_misfit(&t, i, label, operands[i]);
        goto end;
    }
    describe_all(&t);
    overlaps = smm_cuda_overlaps(&t.call, &in_place);
    if (overlaps || run(&t, (void *)stream) == 0) result = Py_NewRef(overlaps ? Py_False : Py_True);
end:
    PyErr_Fetch(&type, &raised, &trace); /* libraries that take arrays back may run Python */
    if (result && !overlaps)
        smm_hold_buffers(t.x, t.s->operands, t.device, (void *)stream);
    else
        for (int i = 0; i < t.s->operands; i++) smm_close_buffer(&t.x[i]);
    PyErr_Restore(type, raised, trace);
    Py_XDECREF(label);
    return result;
}

int smm_add_device_calls(PyObject *module) {
    static PyMethodDef methods[] = {
        {"device_run", (PyCFunction)(void (*)(void))device_run, METH_FASTCALL | METH_KEYWORDS, NULL},
        {NULL, NULL, 0, NULL},
    };
    return PyModule_AddFunctions(module, methods);
}
