/* direct.c: calls on plain arrays, past NumPy's machinery: exact ndarrays of the same float dtype, aligned, the output
 * apart from the inputs. Whatever else, even an error, is not for here: the answer is NotImplemented, and the caller
 * asks the gufunc, which gives the same bits.
 *
 * It saves half of the time of a small call, and hands all batch dimensions to the core at once, so that those that do
 * not merge into one still share the threads. */
#include <string.h>

#include "buffers.h"

enum { MOST_BATCH_DIMS = NPY_MAXDIMS, QUICK_ELEMENTS = 1024 };

static bool is_plain(PyObject *x, int type) {
    return PyArray_CheckExact(x) && PyArray_TYPE((PyArrayObject *)x) == type && PyArray_ISALIGNED((PyArrayObject *)x) &&
           PyArray_ISNOTSWAPPED((PyArrayObject *)x);
}

/* The bytes that an array spans. */
static void span(PyArrayObject *x, const char **low, const char **high) {
    *low = PyArray_BYTES(x);
    *high = *low + PyArray_ITEMSIZE(x);
    for (int d = 0; d < PyArray_NDIM(x); d++) {
        const npy_intp reach = (PyArray_DIM(x, d) - 1) * PyArray_STRIDE(x, d);
        if (PyArray_DIM(x, d) == 0) *high = *low;
        if (PyArray_DIM(x, d) == 0) return;
        *(reach < 0 ? low : high) += reach;
    }
}

static bool overlap(PyArrayObject *x, PyArrayObject *y) {
    const char *x_low, *x_high, *y_low, *y_high;
    span(x, &x_low, &x_high);
    span(y, &y_low, &y_high);
    return x_low < y_high && y_low < x_high;
}

/* Set the sizes of the call from the core dimensions of x, or compare them. */
static bool take_sizes(smm_call *call, const smm_signature *s, int operand, PyArrayObject *x) {
    const int batch_dims = PyArray_NDIM(x) - s->core[operand];
    if (batch_dims < 0 || batch_dims > MOST_BATCH_DIMS) return false;
    for (int i = 0; i < s->core[operand]; i++) {
        intptr_t *size = smm_size_in(call, s->dims[operand][i]);
        if (*size < 0) *size = PyArray_DIM(x, batch_dims + i);
        if (*size != PyArray_DIM(x, batch_dims + i)) return false;
    }
    return true;
}

/* Broadcast the batch dimensions of x into shape (outermost first, `dims` of them). */
static bool broadcast(npy_intp shape[], int *dims, const smm_signature *s, int operand, PyArrayObject *x) {
    const int own = PyArray_NDIM(x) - s->core[operand];
    for (; *dims < own; ++*dims) {
        memmove(shape + 1, shape, (size_t)*dims * sizeof *shape);
        shape[0] = 1;
    }
    for (int d = 0; d < own; d++) {
        npy_intp *size = &shape[*dims - own + d];
        if (*size == 1)
            *size = PyArray_DIM(x, d);
        else if (PyArray_DIM(x, d) != 1 && PyArray_DIM(x, d) != *size)
            return false;
    }
    return true;
}

/* Describe the operands. False: they have too many batch dimensions that do not merge. */
static bool describe(smm_call *call, smm_outer *batch, const smm_gufunc *g, const smm_signature *s,
                     PyArrayObject *const arrays[], const npy_intp shape[], int dims) {
    for (int i = 0; i < s->operands; i++) {
        const npy_intp *core = PyArray_STRIDES(arrays[i]) + PyArray_NDIM(arrays[i]) - s->core[i];
        smm_operand *x = &call->operand[s->place[i]];
        x->data = PyArray_DATA(arrays[i]);
        if (s->core[i] > 1)
            x->row = core[0], x->col = core[1];
        else if (s->core[i] == 1)
            *(g->rows ? &x->col : &x->row) = core[0];
    }
    batch->dims = 0;
    for (int d = dims - 1; d >= 0; d--) {
        intptr_t stride[SMM_MOST_OPERANDS] = {0};
        for (int i = 0; i < s->operands; i++) {
            const int own = d - dims + PyArray_NDIM(arrays[i]) - s->core[i];
            if (own >= 0 && PyArray_DIM(arrays[i], own) != 1) stride[s->place[i]] = PyArray_STRIDE(arrays[i], own);
        }
        if (!smm_add_dimension(batch, shape[d], stride)) return false;
    }
    smm_take_batch(call, batch);
    return true;
}

static bool has_elements(PyArrayObject *const arrays[], const smm_signature *s) {
    for (int i = s->inputs; i < s->operands; i++)
        if (PyArray_SIZE(arrays[i])) return true;
    return false;
}

/* Arrays for the outputs: those given, or new ones. 0: done, 1: not for here, -1: an exception is set. */
static int take_outputs(PyArrayObject *arrays[], const smm_gufunc *g, const smm_signature *s, smm_call *call,
                        const npy_intp shape[], int dims, PyObject *const *args, Py_ssize_t nargs) {
    for (int i = s->inputs; i < s->operands; i++) {
        npy_intp whole[MOST_BATCH_DIMS + 2];
        if (dims + s->core[i] > NPY_MAXDIMS) return 1; /* NumPy says so */
        memcpy(whole, shape, (size_t)dims * sizeof *shape);
        for (int d = 0; d < s->core[i]; d++) whole[dims + d] = *smm_size_in(call, s->dims[i][d]);
        if (i >= nargs || Py_IsNone(args[i])) {
            if (s->updates) return 1;
            const int type = smm_numpy_type(g, i, call->dtype);
            arrays[i] = (PyArrayObject *)PyArray_SimpleNew(dims + s->core[i], whole, type);
            if (!arrays[i]) return -1;
            continue;
        }
        if (!is_plain(args[i], smm_numpy_type(g, i, call->dtype))) return 1;
        PyArrayObject *out = (PyArrayObject *)Py_NewRef(args[i]);
        arrays[i] = out;
        if (!PyArray_ISWRITEABLE(out) || PyArray_NDIM(out) != dims + s->core[i] ||
            !PyArray_CompareLists(PyArray_DIMS(out), whole, dims + s->core[i]))
            return 1;
        for (int j = 0; j < i; j++)
            if (overlap(out, arrays[j])) return 1;
    }
    return 0;
}

/* One output, or a tuple of them: those given, and of new ones without dimensions a scalar. Steals the references. */
static PyObject *result_of(PyArrayObject *arrays[], int i, PyObject *const *args, Py_ssize_t nargs) {
    PyArrayObject *x = arrays[i];
    arrays[i] = NULL;
    return i < nargs && args[i] == (PyObject *)x ? args[i] : PyArray_Return(x);
}
static PyObject *results_of(PyArrayObject *arrays[], const smm_signature *s, PyObject *const *args, Py_ssize_t nargs) {
    PyObject *first = result_of(arrays, s->inputs, args, nargs);
    if (!first || s->operands == s->inputs + 1) return first;
    PyObject *results = PyTuple_New(s->operands - s->inputs);
    if (!results) {
        Py_DECREF(first);
        return NULL;
    }
    PyTuple_SET_ITEM(results, 0, first);
    for (int i = s->inputs + 1; i < s->operands; i++) {
        PyObject *result = result_of(arrays, i, args, nargs);
        if (!result) {
            Py_DECREF(results);
            return NULL;
        }
        PyTuple_SET_ITEM(results, i - s->inputs, result);
    }
    return results;
}

/* direct(*inputs, *outputs): outputs may be None or missing. An info that is missing is None if it is 0 everywhere. */
static PyObject *direct(PyObject *ufunc, PyObject *const *args, Py_ssize_t nargs) {
    const smm_gufunc *g = smm_gufunc_of(ufunc);
    const smm_signature *s = smm_signature_of(g);
    if (nargs < s->inputs || nargs > s->operands) Py_RETURN_NOTIMPLEMENTED;
    if (!PyArray_CheckExact(args[0])) return smm_device_direct(ufunc, args, nargs);
    const int dtype = smm_dtype_of_numpy(PyArray_TYPE((PyArrayObject *)args[0]));
    if (dtype < 0) Py_RETURN_NOTIMPLEMENTED;

    PyArrayObject *arrays[SMM_MOST_OPERANDS] = {NULL};
    smm_call call = {.op = g->op, .dtype = dtype, .form = g->form, .m = -1, .n = -1, .k = -1};
    smm_outer batch;
    npy_intp shape[MOST_BATCH_DIMS];
    int dims = 0;
    for (int i = 0; i < s->inputs; i++) {
        arrays[i] = (PyArrayObject *)args[i];
        if (!is_plain(args[i], smm_numpy_type(g, i, dtype)) || !take_sizes(&call, s, i, arrays[i]) ||
            !broadcast(shape, &dims, s, i, arrays[i]))
            Py_RETURN_NOTIMPLEMENTED;
    }

    const int last = s->operands - 1;
    const bool only_failures =
        s->place[last] == smm_roles_of[g->op].info && nargs <= last && !smm_current_detour; /* which do not look */
    bool some_failed = false;
    if (only_failures) call.failed = &some_failed;

    PyObject *results = NULL;
    int failed = take_outputs(arrays, g, s, &call, shape, dims, args, nargs);
    if (failed == 0) {
        if (call.m < 0) call.m = 1;
        if (call.n < 0) call.n = 1;
        if (call.k < 0) call.k = g->k ? *smm_size_in(&call, g->k) : 1;
        failed = !describe(&call, &batch, g, s, arrays, shape, dims);
    }
    if (failed == 0) {
        const bool quick = PyArray_SIZE(arrays[0]) < QUICK_ELEMENTS && PyArray_SIZE(arrays[s->inputs]) < QUICK_ELEMENTS;
        const bool nothing = (!call.m || !call.n || !call.k) && !has_elements(arrays, s);
        PyThreadState *state = quick ? NULL : PyEval_SaveThread();
        const smm_status status = nothing ? SMM_OK : smm_take(&call);
        if (state) PyEval_RestoreThread(state);
        if (status) /* an exception is there after Ctrl-C; what else is wrong the gufunc says */
            failed = PyErr_Occurred() ? -1 : 1;
        else
            results = results_of(arrays, s, args, nargs);
        if (results && only_failures && !some_failed) PyTuple_SetItem(results, last - s->inputs, Py_NewRef(Py_None));
    }
    for (int i = s->inputs; i < s->operands; i++) Py_XDECREF(arrays[i]);
    return failed == 1 ? Py_NewRef(Py_NotImplemented) : results;
}

PyObject *smm_direct_function(PyObject *ufunc) {
    static PyMethodDef definition = {
        "direct", (PyCFunction)(void (*)(void))direct, METH_FASTCALL,
        "direct(*inputs_and_outputs, /)\n--\n\nThe gufunc on plain arrays, or NotImplemented."};
    return PyCFunction_New(&definition, ufunc);
}
