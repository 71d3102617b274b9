/* device.c: gufuncs of arrays on CUDA devices, from a Python call to a launch.
 *
 * The direct path, smm_device_direct(), takes arrays whose type has DLPack's C exchange API (PyTorch 2.10 and newer)
 * and creates no Python objects but the results. For anything else (other libraries, mixed dtypes, wrong arguments) it
 * returns NotImplemented; then smallmm/_gpu/device.py checks the arguments and calls device_run(). Of such arrays on
 * the host the core computes; smallmm/_calls/arrays.py takes those that are declined. */
#include <complex.h>

#include "buffers.h"

/* A call under construction. */
typedef struct task {
    smm_arrays a;
    smm_buffer x[SMM_MAX_OPERANDS];
    double _Complex number[SMM_MAX_OPERANDS]; /* by place: the value of an operand that is not an array */
    int device, dtype;                        /* -1: not known yet */
    bool on_host;
    double own_number[SMM_MAX_OPERANDS][2]; /* by place: on the host, in the call's own element type */
} task;

static void begin(task *t, const smm_gufunc *g) {
    memset(t, 0, sizeof *t);
    smm_arrays_of(&t->a, g, SMM_CUDA_DIMS);
    if (g->op == SMM_OP_MATMUL) t->number[SMM_MATMUL_alpha] = 1;
    t->device = t->dtype = -1;
}

/* DLPack's name of operand i's elements in calls of an element type. */
static DLDataType element_of(const task *t, int i, smm_dtype dtype) {
    static const uint8_t codes[SMM_DTYPE_COUNT] = {
#define ROW(x, NAME, name, in_memory, computed, numpy, dlpack, ...) dlpack,
        SMM_DTYPES(ROW, _)
#undef ROW
    };
    const int place = t->a.s->position[i];
    return (DLDataType){.code = smm_is_integer(t->a.g, i) ? kDLInt : codes[smm_type_of(t->a.g->op, dtype, place)],
                        .bits = 8 * smm_size_of(t->a.g->op, dtype, place),
                        .lanes = 1};
}

static bool is_element(const task *t, int i, smm_dtype dtype) {
    const DLDataType x = t->x[i].x.dtype, y = element_of(t, i, dtype);
    return x.code == y.code && x.bits == y.bits && x.lanes == y.lanes;
}

/* The element type of a call whose operand i, a number, has such elements, or -1: there are no kernels for it. */
static int dtype_of(const task *t, int i) {
    int dtype = SMM_DTYPE_COUNT - 1;
    bool (*const takes)(smm_op, smm_dtype) = t->on_host ? smm_takes : smm_cuda_takes_dtype;
    while (dtype >= 0 && !(is_element(t, i, dtype) && takes(t->a.g->op, dtype))) dtype--;
    return dtype;
}

/* Numbers: Python's, NumPy's, and NumPy's arrays of one element; complex ones in calls of a complex type. */
static bool number(PyObject *x, int dtype, double _Complex *value) {
    if (PyComplex_Check(x) || PyArray_IsScalar(x, ComplexFloating) ||
        (PyArray_CheckExact(x) && PyArray_IsZeroDim(x) && PyArray_ISCOMPLEX((PyArrayObject *)x))) {
        if (dtype < 0 || !smm_is_complex(dtype)) return false;
        const Py_complex z = PyComplex_AsCComplex(x);
        memcpy(value, &z, sizeof z); /* two doubles each */
    } else if (PyLong_Check(x) || PyFloat_Check(x) || PyArray_IsScalar(x, Floating) || PyArray_IsScalar(x, Integer) ||
               PyArray_IsScalar(x, Bool) || (PyArray_CheckExact(x) && PyArray_IsZeroDim(x)))
        *value = PyFloat_AsDouble(x);
    else
        return false;
    if (!PyErr_Occurred()) return true;
    PyErr_Clear();
    return false;
}

/* All arrays must have the same device, and the same dtype but in mixtures. */
static bool fits_others(task *t, int operand) {
    const DLTensor *x = &t->x[operand].x;
    if (t->device < 0) {
        t->device = x->device.device_id;
        t->on_host = x->device.device_type == kDLCPU;
    }
    if (t->dtype < 0) {
        t->dtype = dtype_of(t, operand);
        if (t->dtype < 0) return false;
        t->a.call.dtype = (smm_dtype)t->dtype;
    }
    const bool fits =
        is_element(t, operand, smm_dtype_in(&t->a, operand)) || smm_take_mixture(&t->a, operand, dtype_of(t, operand));
    t->dtype = t->a.call.dtype;
    const bool same_device = t->device == x->device.device_id && t->on_host == (x->device.device_type == kDLCPU);
    if (t->on_host && !x->data) return false; /* of a tensor that stands for others */
    return fits && same_device && !((uintptr_t)x->data & (x->dtype.bits / 8 - 1)); /* aligned */
}

static bool take_input(task *t, int operand) {
    return fits_others(t, operand) && t->x[operand].x.ndim <= SMM_MAX_AXES &&
           smm_take_input(&t->a, operand, smm_array_of_buffer(&t->x[operand]));
}

static bool take_output(task *t, int operand) {
    return fits_others(t, operand) && smm_take_output(&t->a, operand, smm_array_of_buffer(&t->x[operand]));
}

/* False: no kernel takes these sizes, or there is nothing to compute. */
static bool take_sizes(task *t) {
    smm_call *call = &t->a.call;
    smm_finish_sizes(&t->a.call, t->a.g);
    if (t->on_host) return call->m && call->n && call->k; /* what has no elements is NumPy's */
    return smm_cuda_takes(call->op, call->dtype, call->m, call->k, call->n) && (call->k || call->op == SMM_OP_MATMUL);
}

static void take_number(task *t, int operand, double _Complex value) {
    smm_take_number(&t->a, operand);
    t->number[t->a.s->position[operand]] = value;
}

/* All operands are added: complete the call. On a device the innermost dimension is its batch. False: devices take as
 * many dimensions as this, but not that of the parts of a mixture. */
static bool finish(task *t) {
    if (!smm_describe(&t->a)) return false;
    if (t->on_host) smm_place_numbers(&t->a, t->number, t->own_number);
    smm_take_batch(&t->a.call, &t->a.outer, t->on_host ? smm_longest_dimension(&t->a.outer) : 0);
    return true;
}

smm_cuda_status smm_launch(const smm_call *call, int device, void *stream) {
    double _Complex number[SMM_MAX_OPERANDS] = {0};
    if (call->op == SMM_OP_MATMUL) number[SMM_MATMUL_alpha] = 1;
    return smm_cuda_run(call, number, device, stream);
}

void smm_tell_plan(smm_hook *hook, const smm_cuda_kernel *kernel, int dtype, const smm_cuda_device *device,
                   const smm_call *call, const smm_convolution *convolution) {
    smm_device_plan plan = {.source = smm_cuda_source_names[kernel->source],
                            .tuned_on = kernel->tuned_on,
                            .matrices = kernel->grid.matrices,
                            .threads = kernel->grid.threads,
                            .swapped = call && kernel->swapped,
                            .call = call,
                            .convolution = convolution};
    snprintf(plan.kernel, sizeof plan.kernel, "smm_%s_%s_sm%d", smm_cuda_kernel_names[kernel->parameters.kernel],
             smm_dtypes[dtype].name, device->arch);
    hook->take_device(hook, &plan);
}

static smm_cuda_status explain(smm_hook *hook, const task *t) {
    const smm_cuda_device *device;
    smm_cuda_kernel kernel;
    smm_cuda_args args;
    smm_cuda_status status = smm_cuda_get_device(t->device, &device);
    if (!status) status = smm_cuda_prepare(&t->a.call, t->number, t->device, &kernel, &args);
    if (!status) smm_tell_plan(hook, &kernel, t->dtype, device, &t->a.call, NULL);
    return status;
}

/* Describe a call as a problem, or time it, as the trial says. */
static smm_cuda_status try(smm_trial *trial, const task *t, void *stream) {
    const smm_call *const call = &t->a.call;
    smm_cuda_args args;
    bool swapped;
    trial->device = t->device;
    trial->matrices = call->batch * smm_runs(call);
    if (trial->calls++ || !trial->samples)
        return smm_cuda_describe(call, t->number, &trial->problem, &args, &swapped)
                   ? SMM_CUDA_OK
                   : smm_cuda_fail(SMM_CUDA_UNSUPPORTED, "no CUDA kernel takes such a call");
    return SMM_WITHOUT_GIL(
        smm_cuda_time(call, t->number, trial->parameters, t->device, stream, trial->samples, trial->nanoseconds));
}

/* Run the call; or, if this thread has a hook, describe how it would run, or time it. 0, or -1 with an exception. */
static int run(const task *t, void *stream) {
    smm_hook *hook = smm_current_hook;
    smm_cuda_status status;
    if (smm_configure_cuda() < 0) return -1;
    if (hook && hook->take_device) {
        status = explain(hook, t);
    } else if (hook && hook->trial)
        status = try(hook->trial, t, stream);
    else
        status = SMM_WITHOUT_GIL(smm_cuda_run(&t->a.call, t->number, t->device, stream));
    if (status) smm_raise_cuda(status);
    return status ? -1 : 0;
}

/* Run the call on the host. 0: done; 1: not for this path, and no output was written; -1: an exception is set. */
static int run_on_host(task *t) {
    smm_call *const call = &t->a.call;
    if (smm_is_offloading() || !call->batch || !smm_runs(call) || !smm_pivots_are_rows(call)) return 1;
    const smm_status status = SMM_WITHOUT_GIL(smm_dispatch(call));
    return status ? PyErr_Occurred() ? -1 : 1 : 0;
}

/* A new array of the same library. */
static PyObject *new_output(task *t, int operand, const DLPackExchangeAPI *api) {
    intptr_t shape[NPY_MAXDIMS + 2];
    const DLTensor wanted = {.device = {t->on_host ? kDLCPU : kDLCUDA, t->device},
                             .ndim = smm_output_shape(&t->a, operand, shape),
                             .dtype = element_of(t, operand, smm_dtype_in(&t->a, operand)),
                             .shape = (int64_t *)(void *)shape};
    return smm_new_array(api, wanted, &t->x[operand]);
}

/* Add the inputs of a call; false if this path does not take them. */
static bool take_inputs(task *t, PyObject *const *args) {
    double _Complex value;
    for (int i = 0; i < t->a.s->inputs; i++) {
        if (t->a.s->core[i] == 0 && number(args[i], t->dtype, &value))
            take_number(t, i, value);
        else if (!smm_exchange_any(args[i], &t->x[i]) || t->x[i].api != t->x[0].api || !take_input(t, i))
            return false;
    }
    return take_sizes(t);
}

PyObject *smm_device_direct(PyObject *ufunc, PyObject *const *args, Py_ssize_t nargs) {
    task t;
    begin(&t, smm_gufunc_of(ufunc));
    const smm_signature *s = t.a.s;
    const int inputs = s->inputs, count = s->operands - inputs;
    PyObject *outputs[SMM_MAX_OPERANDS] = {NULL};
    void *stream = NULL;
    const int last = s->operands - 1;
    bool declined = !take_inputs(&t, args) || smm_is_followed(args[0]), failed = false, some_failed = false;
    const bool only_failures = t.on_host && s->position[last] == smm_roles_of[t.a.g->op].info && nargs <= last;
    if (only_failures && !smm_current_hook) t.a.call.failed = &some_failed;
    bool given = false;
    for (int i = inputs; i < s->operands && !declined && !failed; i++) {
        if (i < nargs && !Py_IsNone(args[i])) {
            given = true;
            declined = !smm_exchange_any(args[i], &t.x[i]) || t.x[i].api != t.x[0].api || !take_output(&t, i);
            outputs[i - inputs] = Py_NewRef(args[i]);
        } else if (s->updates && t.number[SMM_MATMUL_beta] != 0) {
            declined = true;
        } else {
            outputs[i - inputs] = new_output(&t, i, t.x[0].api);
            failed = !outputs[i - inputs] || !take_output(&t, i);
        }
    }
    if (!declined && !failed) {
        declined = !finish(&t);
        if (!declined && t.on_host) {
            const int status = given && smm_overlap_of(&t.a.call) != SMM_APART ? 1 : run_on_host(&t);
            declined = status > 0;
            failed = status < 0;
            if (!status && t.a.call.failed && !some_failed) Py_SETREF(outputs[last - inputs], Py_NewRef(Py_None));
        } else if (!declined) {
            declined = !smm_cuda_may_write(&t.a.call);
        }
        if (!declined && !t.on_host)
            failed = t.x[0].api->current_work_stream(kDLCUDA, t.device, &stream) || run(&t, stream) < 0;
    }
    if (!declined && !failed) return smm_pack(outputs, count);
    for (int i = 0; i < count; i++) Py_XDECREF(outputs[i]);
    if (failed) return NULL;
    Py_RETURN_NOTIMPLEMENTED;
}

/* Why an operand does not fit. Usually its library has described it wrongly, since its arguments were checked before.
 * */
static void explain_misfit(const task *t, int operand, PyObject *label, PyObject *x) {
    const smm_buffer *b = &t->x[operand];
    const bool integer = smm_is_integer(t->a.g, operand), output = operand >= t->a.s->inputs;
    const bool takes_complex = smm_cuda_takes_dtype(t->a.g->op, SMM_C128);
    const smm_dtype dtype = smm_dtype_in(&t->a, operand);
    const bool fits = t->dtype < 0 ? dtype_of(t, operand) >= 0 : is_element(t, operand, dtype);
    const int batch_dims = b->x.ndim - smm_core_of(&t->a, operand);
    char name[SMM_DTYPE_NAME];
    if (b->x.device.device_id != t->device) {
        smm_refuse(PyExc_ValueError, label, x, "on CUDA device %d; expected device %d, as the operands before",
                   b->x.device.device_id, t->device);
    } else if (!fits) {
        char expected[SMM_DTYPE_NAME];
        if (integer)
            smm_refuse(PyExc_ValueError, label, x, "of %s; expected int32", smm_dtype_name(b->x.dtype, name));
        else if (t->dtype < 0)
            smm_refuse(PyExc_ValueError, label, x, "of %s; expected float16, bfloat16, float32%s float64%s",
                       smm_dtype_name(b->x.dtype, name), takes_complex ? "," : " or",
                       takes_complex ? ", complex64 or complex128" : "");
        else
            smm_refuse(PyExc_ValueError, label, x, "of %s; expected %s, as the operands before",
                       smm_dtype_name(b->x.dtype, name), smm_dtype_name(element_of(t, operand, dtype), expected));
    } else if ((uintptr_t)b->x.data % (b->x.dtype.bits / 8)) {
        smm_refuse(PyExc_ValueError, label, x,
                   "whose data begin at the address %p; expected a multiple of %d bytes, an element's size", b->x.data,
                   b->x.dtype.bits / 8);
    } else if (batch_dims > SMM_CUDA_DIMS) {
        smm_refuse(PyExc_ValueError, label, x, "with %d batch dimensions; expected at most %d on a device", batch_dims,
                   SMM_CUDA_DIMS);
    } else {
        intptr_t shape[NPY_MAXDIMS + 2];
        const DLTensor expected = {.ndim = output ? smm_output_shape(&t->a, operand, shape) : 0,
                                   .shape = (int64_t *)(void *)shape};
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

/* The name of an operand in messages: "<function>: <argument>", if the caller gave one. */
static PyObject *label_of(PyObject *labels, int operand) {
    if (labels && operand < PyTuple_GET_SIZE(labels)) return Py_NewRef(PyTuple_GET_ITEM(labels, operand));
    return PyUnicode_FromFormat("device_run: operand %d", operand);
}

/* device_run(gufunc, stream, *operands, labels=(), form=0): a call on arrays of any library, outputs included, on a
 * given stream, in a form beside the gufunc's. The arguments have been checked. False if an output overlaps another
 * operand. */
static PyObject *device_run(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs, PyObject *names) {
    if (nargs < 3 || !PyObject_TypeCheck(args[0], &PyUFunc_Type) || smm_configure_cuda() < 0)
        return PyErr_Occurred() ? NULL
                                : PyErr_Format(PyExc_TypeError, "device_run: expected a gufunc, a stream and operands");
    task t;
    begin(&t, smm_gufunc_of(args[0]));
    const smm_signature *s = t.a.s;
    const intptr_t stream = PyLong_AsSsize_t(args[1]);
    PyObject *const *const operands = args + 2;
    if (PyErr_Occurred()) return NULL;
    if (nargs - 2 != s->operands)
        return PyErr_Format(PyExc_TypeError, "device_run: %zd operands; expected %d", nargs - 2, s->operands);
    PyObject *labels = NULL;
    for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names); i++) {
        if (PyTuple_Check(args[nargs + i]))
            labels = args[nargs + i];
        else
            t.a.call.form |= (unsigned)PyLong_AsLong(args[nargs + i]);
    }
    if (PyErr_Occurred()) return NULL;
    PyObject *result = NULL, *label = NULL;
    bool overlaps = false;
    double _Complex value;
    for (int i = 0; i < s->operands; i++) {
        Py_XSETREF(label, label_of(labels, i));
        if (!label) goto end;
        if (i < s->inputs && s->core[i] == 0 && number(operands[i], SMM_C128, &value))
            take_number(&t, i, value);
        else if (smm_open_buffer(operands[i], label, stream, &t.x[i]) < 0)
            goto end;
        if (i >= s->inputs && !smm_is_writable(&t.x[i], label)) goto end;
    }
    for (int i = 0; i < s->operands; i++) {
        if (i == s->inputs && !take_sizes(&t)) {
            PyErr_Format(PyExc_ValueError, "device_run: no kernel takes %s of m = %zd, k = %zd, n = %zd", t.a.g->name,
                         t.a.call.m, t.a.call.k, t.a.call.n);
            goto end;
        }
        if (t.a.array[i].ndim < 0 || (i < s->inputs ? take_input : take_output)(&t, i)) continue;
        Py_XSETREF(label, label_of(labels, i));
        if (label) explain_misfit(&t, i, label, operands[i]);
        goto end;
    }
    if (!finish(&t)) {
        PyErr_Format(PyExc_ValueError, "device_run: %s of mixed dtypes has %d batch dimensions; expected at most %d",
                     t.a.g->name, t.a.dims, SMM_CUDA_DIMS - 1);
        goto end;
    }
    overlaps = !smm_cuda_may_write(&t.a.call);
    if (overlaps || run(&t, (void *)stream) == 0) result = Py_NewRef(overlaps ? Py_False : Py_True);
end:
    smm_release_buffers(t.x, s->operands, result && !overlaps, t.device, (void *)stream);
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
