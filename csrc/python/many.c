/* many.c: a gufunc on stacks of many shapes as one job of the core. Each stack is what direct.c takes: an exact ndarray
 * of a float dtype, aligned. Those that are not are left to the caller, who gives them to the gufunc. */
#include <string.h>

#include "arrays.h"

/* A call of many stacks: input i is the same array for all, or a list with a stack for each. */
typedef struct job {
    const smm_gufunc *g;
    const smm_signature *s;
    PyArrayObject *counts; /* of the members of each stack */
    PyObject *const *inputs;
    PyObject *outputs[SMM_MAX_OPERANDS]; /* a list of a stack for each, or an array of all members' numbers */
    char *next[SMM_MAX_OPERANDS];        /* of such an array: what belongs to the next stack, */
    intptr_t step[SMM_MAX_OPERANDS];     /* and the bytes of a number */
    intptr_t count;                      /* of members of the stack that is described */
    Py_ssize_t stacks, calls;
    smm_call *call;     /* those that the core is given, */
    smm_outer *outer;   /* their dimensions beside the batch, */
    Py_ssize_t *number; /* and the number of each one's stack */
    smm_status *status;
    PyObject *left; /* numbers of the others */
} job;

static PyObject *input_of(const job *x, int i, Py_ssize_t stack) {
    return PyList_CheckExact(x->inputs[i]) ? PyList_GET_ITEM(x->inputs[i], stack) : x->inputs[i];
}

static intptr_t members_of(const job *x, Py_ssize_t stack) {
    return ((const npy_intp *)PyArray_DATA(x->counts))[stack];
}

/* Whether there is as much of everything as there are stacks; otherwise an exception is set. */
static bool is_valid(const job *x) {
    bool valid = PyArray_NDIM(x->counts) == 1 && PyArray_TYPE(x->counts) == NPY_INTP && PyArray_ISCARRAY_RO(x->counts);
    for (int i = 0; i < x->s->inputs && valid; i++)
        valid = !PyList_CheckExact(x->inputs[i]) || PyList_GET_SIZE(x->inputs[i]) == PyArray_DIM(x->counts, 0);
    if (!valid) PyErr_SetString(PyExc_ValueError, "many: expected counts, and lists of as many arrays");
    return valid;
}

/* The element type of a stack of the first input; -1: it is no array of one. */
static int dtype_of(const job *x, Py_ssize_t stack) {
    PyObject *first = input_of(x, 0, stack);
    return PyArray_CheckExact(first) ? smm_dtype_of_numpy(PyArray_TYPE((PyArrayObject *)first)) : -1;
}

/* The element type of all stacks of the first input, and the members of all stacks; -1: types differ, or there is an
 * object that is no array. */
static int common_dtype(const job *x, intptr_t *members) {
    int common = -1;
    *members = 0;
    for (Py_ssize_t q = 0; q < x->stacks; q++) {
        const int dtype = dtype_of(x, q);
        if (dtype < 0 || (q && dtype != common)) return -1;
        common = dtype;
        *members += members_of(x, q);
    }
    return common;
}

/* Lists for outputs; but of numbers, of which each member has one, one array if all have one type. */
static bool make_outputs(job *x) {
    intptr_t members;
    const int dtype = common_dtype(x, &members);
    for (int i = x->s->inputs; i < x->s->operands; i++) {
        const bool is_number = x->s->core[i] == 0 && dtype >= 0;
        x->outputs[i] = is_number ? PyArray_SimpleNew(1, &members, smm_numpy_type(x->g, i, (smm_dtype)dtype))
                                  : PyList_New(x->stacks);
        if (!x->outputs[i]) return false;
        if (is_number) {
            x->next[i] = PyArray_DATA((PyArrayObject *)x->outputs[i]);
            x->step[i] = PyArray_ITEMSIZE((PyArrayObject *)x->outputs[i]);
        }
        for (Py_ssize_t q = 0; q < x->stacks && !is_number; q++) PyList_SET_ITEM(x->outputs[i], q, Py_NewRef(Py_None));
    }
    return true;
}

/* Take the inputs of a stack. False: it is left. */
static bool take_inputs(const job *x, smm_arrays *arrays, Py_ssize_t stack) {
    const int dtype = dtype_of(x, stack);
    if (dtype < 0 || !smm_takes(x->g->op, (smm_dtype)dtype)) return false;
    smm_arrays_of(arrays, x->g, 1);
    arrays->call.dtype = (smm_dtype)dtype;
    for (int i = 0; i < x->s->inputs; i++) {
        PyObject *input = input_of(x, i, stack);
        if (!smm_fits(arrays, i, input) || !smm_take_input(arrays, i, smm_array_of((PyArrayObject *)input)))
            return false;
    }
    smm_finish_sizes(&arrays->call, arrays->g);
    return arrays->dims == 1 && arrays->extent[0] == members_of(x, stack);
}

/* Make outputs for a stack. False: an exception is set. */
static bool take_outputs(job *x, smm_arrays *arrays, Py_ssize_t stack) {
    for (int i = x->s->inputs; i < x->s->operands; i++) {
        if (x->next[i]) {
            smm_take_output(arrays, i, (smm_array){x->next[i], 1, &x->count, &x->step[i], 1});
            continue;
        }
        npy_intp shape[NPY_MAXDIMS + 2];
        const int ndim = smm_output_shape(arrays, i, shape);
        PyObject *output = PyArray_SimpleNew(ndim, shape, smm_numpy_type(x->g, i, smm_dtype_in(arrays, i)));
        if (!output) return false;
        PyList_SetItem(x->outputs[i], stack, output);
        smm_take_output(arrays, i, smm_array_of((PyArrayObject *)output));
    }
    return true;
}

static bool leave(job *x, Py_ssize_t stack) {
    for (int i = x->s->inputs; i < x->s->operands; i++)
        if (!x->next[i]) PyList_SetItem(x->outputs[i], stack, Py_NewRef(Py_None));
    smm_append(&x->left, PyLong_FromSsize_t(stack));
    return x->left;
}

/* Describe all calls. False: an exception is set. */
static bool describe(job *x) {
    smm_arrays arrays;
    for (Py_ssize_t q = 0; q < x->stacks; q++) {
        const bool taken = take_inputs(x, &arrays, q);
        x->count = members_of(x, q);
        if (taken ? !take_outputs(x, &arrays, q) : !leave(x, q)) return false;
        for (int i = x->s->inputs; i < x->s->operands; i++)
            if (x->next[i]) x->next[i] += x->count * x->step[i];
        if (!taken || !x->count) continue;
        smm_describe(&arrays); /* one dimension always fits, and that of parts */
        smm_take_batch(&arrays.call, &arrays.outer, 0);
        x->call[x->calls] = arrays.call;
        x->outer[x->calls] = arrays.outer;
        if (arrays.call.outer) x->call[x->calls].outer = &x->outer[x->calls];
        x->number[x->calls++] = q;
    }
    return true;
}

/* Run them. False: an exception is set. */
static bool run(job *x) {
    if (!x->calls) return true;
    const smm_status status = SMM_WITHOUT_GIL(smm_dispatch_many(x->call, (size_t)x->calls, x->status));
    if (status == SMM_ERR_MEMORY || status == SMM_ERR_STOPPED || status == SMM_ERR_THREADS) smm_raise(status, NULL);
    for (Py_ssize_t i = 0; i < x->calls && !PyErr_Occurred(); i++)
        if (x->status[i]) leave(x, x->number[i]);
    return !PyErr_Occurred();
}

/* many(gufunc, counts, *inputs): an input is a list of stacks, or one array that serves all; stack q has counts[q]
 * matrices. The outputs and the numbers of the stacks that are left to the gufunc. An output is a list of stacks; or
 * where it has a number for each member, and all stacks are of one dtype, an array of all members of the first stack,
 * of the second, and so on. NotImplemented: an output would be updated, or a device is to take the call. */
PyObject *smm_many(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs) {
    const smm_gufunc *g = nargs < 2 ? NULL : smm_gufunc_in(args[0]);
    if (!g || !PyArray_CheckExact(args[1]))
        return PyErr_Format(PyExc_TypeError, "many: expected a gufunc of smallmm, counts and inputs");
    job x = {.g = g, .counts = (PyArrayObject *)args[1], .inputs = args + 2};
    x.s = smm_signature_of(x.g);
    if (nargs - 2 != x.s->inputs || x.s->updates || smm_is_offloading()) Py_RETURN_NOTIMPLEMENTED;
    if (!is_valid(&x)) return NULL;
    x.stacks = PyArray_DIM(x.counts, 0);
    const size_t workspace = (size_t)x.stacks + 1;
    PyObject *result = NULL;
    x.call = PyMem_Calloc(workspace, sizeof *x.call);
    x.outer = PyMem_Calloc(workspace, sizeof *x.outer);
    x.number = PyMem_Calloc(workspace, sizeof *x.number);
    x.status = PyMem_Calloc(workspace, sizeof *x.status);
    x.left = PyList_New(0);
    if (!x.call || !x.outer || !x.number || !x.status || !x.left) {
        PyErr_NoMemory();
    } else if (make_outputs(&x) && describe(&x) && run(&x)) {
        PyObject *outputs = PyTuple_New(x.s->operands - x.s->inputs);
        for (int i = x.s->inputs; i < x.s->operands && outputs; i++)
            PyTuple_SET_ITEM(outputs, i - x.s->inputs, Py_NewRef(x.outputs[i]));
        if (outputs) result = PyTuple_Pack(2, outputs, x.left);
        Py_XDECREF(outputs);
    }
    for (int i = 0; i < SMM_MAX_OPERANDS; i++) Py_XDECREF(x.outputs[i]);
    Py_XDECREF(x.left);
    PyMem_Free(x.call);
    PyMem_Free(x.outer);
    PyMem_Free(x.number);
    PyMem_Free(x.status);
    return result;
}
