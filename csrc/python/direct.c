/* direct.c: calls on plain arrays, without NumPy's machinery. They are exact ndarrays of one float dtype, or a real and
 * a complex factor of one precision, aligned, with outputs that do not overlap inputs. For anything else, errors
 * included, it returns NotImplemented, and the caller uses the gufunc, which gives the same bits.
 *
 * This saves half of the time of a small call. It also passes all batch dimensions to the core at once, so that those
 * that do not merge into one still share the threads. */
#include <string.h>

#include "arrays.h"
#include "device/buffers.h"

enum { QUICK_ELEMENTS = 1024 };

/* Of the outputs; the info of a single matrix has no object. */
static bool has_elements(PyArrayObject *const objects[], const smm_signature *s) {
    for (int i = s->inputs; i < s->operands; i++)
        if (!objects[i] || PyArray_SIZE(objects[i])) return true;
    return false;
}

static bool is_single(const smm_arrays *x) {
    for (int d = 0; d < x->dims; d++)
        if (x->extent[d] != 1) return false;
    return true;
}

/* The info of a single matrix as an array. */
static PyArrayObject *array_of_info(const smm_arrays *x, int32_t info) {
    PyArrayObject *array = (PyArrayObject *)PyArray_SimpleNew(x->dims, x->extent, NPY_INT32);
    if (array) *(int32_t *)PyArray_DATA(array) = info;
    return array;
}

/* Whether outputs are given; new ones overlap nothing. */
static bool are_some_given(const smm_signature *s, PyObject *const *args, Py_ssize_t nargs) {
    for (Py_ssize_t i = s->inputs; i < nargs; i++)
        if (!Py_IsNone(args[i])) return true;
    return false;
}

/* Arrays for the outputs before number `end`: those given, or new ones. 0: done, 1: not for this path, -1: an exception
 * is set. */
static int take_outputs(smm_arrays *x, PyArrayObject *objects[], int end, PyObject *const *args, Py_ssize_t nargs) {
    const smm_signature *s = x->s;
    for (int i = s->inputs; i < end; i++) {
        const int type = smm_numpy_type(x->g, i, smm_dtype_in(x, i));
        if (i < nargs && !Py_IsNone(args[i])) {
            if (!smm_is_plain(args[i], type) || !PyArray_ISWRITEABLE((PyArrayObject *)args[i])) return 1;
            objects[i] = (PyArrayObject *)Py_NewRef(args[i]);
            if (!smm_take_output(x, i, smm_array_of(objects[i]))) return 1;
        } else {
            npy_intp shape[NPY_MAXDIMS + 2];
            const int ndim = smm_output_shape(x, i, shape);
            if (s->updates || ndim > NPY_MAXDIMS) return 1; /* NumPy says so */
            objects[i] = (PyArrayObject *)PyArray_SimpleNew(ndim, shape, type);
            if (!objects[i]) return -1;
            x->array[i] = smm_array_of(objects[i]);
        }
    }
    return 0;
}

/* The outputs: those given; new ones without dimensions become scalars; those that are missing, None. Steals the
 * references. */
static PyObject *results_of(PyArrayObject *objects[], const smm_signature *s, PyObject *const *args, Py_ssize_t nargs) {
    PyObject *outputs[SMM_MAX_OPERANDS];
    for (int i = s->inputs; i < s->operands; i++) {
        PyArrayObject *x = objects[i];
        objects[i] = NULL;
        const bool given = i < nargs && args[i] == (PyObject *)x;
        outputs[i] = !x ? Py_NewRef(Py_None) : given ? args[i] : PyArray_Return(x);
    }
    return smm_pack(outputs + s->inputs, s->operands - s->inputs);
}

/* direct(*inputs, *outputs): outputs may be None or missing. An info that is missing is None if it is 0 everywhere. */
static PyObject *direct(PyObject *ufunc, PyObject *const *args, Py_ssize_t nargs) {
    const smm_gufunc *g = smm_gufunc_of(ufunc);
    const smm_signature *s = smm_signature_of(g);
    if (nargs < s->inputs || nargs > s->operands) Py_RETURN_NOTIMPLEMENTED;
    if (!PyArray_CheckExact(args[0])) return smm_device_direct(ufunc, args, nargs);
    if (smm_is_offloading()) Py_RETURN_NOTIMPLEMENTED;
    const int dtype = smm_dtype_of_numpy(PyArray_TYPE((PyArrayObject *)args[0]));
    if (dtype < 0 || !smm_takes(g->op, (smm_dtype)dtype)) Py_RETURN_NOTIMPLEMENTED;

    PyArrayObject *objects[SMM_MAX_OPERANDS] = {NULL};
    smm_arrays x;
    smm_arrays_of(&x, g, NPY_MAXDIMS);
    x.call.dtype = dtype;
    for (int i = 0; i < s->inputs; i++) {
        objects[i] = (PyArrayObject *)args[i];
        if (!smm_fits(&x, i, args[i]) || !smm_take_input(&x, i, smm_array_of(objects[i]))) Py_RETURN_NOTIMPLEMENTED;
    }
    smm_finish_sizes(&x.call, x.g);

    smm_call *const call = &x.call;
    const int last = s->operands - 1;
    const bool only_failures =
        s->position[last] == smm_roles_of[g->op].info && nargs <= last && !smm_current_hook; /* which do not look */
    bool some_failed = false;
    if (only_failures) call->failed = &some_failed;
    const bool aside = only_failures && is_single(&x); /* info is no array unless the matrix failed */
    int32_t info = 0;

    PyObject *results = NULL;
    const bool given = are_some_given(s, args, nargs);
    int failed = take_outputs(&x, objects, s->operands - aside, args, nargs);
    if (aside) x.array[last] = (smm_array){&info, x.dims, x.extent, x.extent, 1}; /* strides are not used */
    if (failed == 0) {
        failed = !smm_describe(&x);
        smm_take_batch(call, &x.outer, smm_longest_dimension(&x.outer));
        failed = failed || (given && smm_overlap_of(call) != SMM_APART);
    }
    if (failed == 0) {
        const bool quick =
            PyArray_SIZE(objects[0]) < QUICK_ELEMENTS && PyArray_SIZE(objects[s->inputs]) < QUICK_ELEMENTS;
        const bool nothing =
            !call->batch || !smm_runs(call) || ((!call->m || !call->n || !call->k) && !has_elements(objects, s));
        PyThreadState *state = quick ? NULL : PyEval_SaveThread();
        const bool wrong = given && !nothing && !smm_pivots_are_rows(call); /* whose outputs are left as they are */
        const smm_status status = wrong ? SMM_ERR_ARGUMENT : nothing ? SMM_OK : smm_dispatch(call);
        if (state) PyEval_RestoreThread(state);
        if (status) /* after Ctrl-C an exception is set; the gufunc reports all other errors */
            failed = PyErr_Occurred() ? -1 : 1;
        else if (some_failed && aside && !(objects[last] = array_of_info(&x, info)))
            failed = -1;
        else {
            if (only_failures && !some_failed) Py_CLEAR(objects[last]);
            results = results_of(objects, s, args, nargs);
        }
    }
    for (int i = s->inputs; i < s->operands; i++) Py_XDECREF(objects[i]);
    return failed == 1 ? Py_NewRef(Py_NotImplemented) : results;
}

PyObject *smm_direct_function(PyObject *ufunc) {
    static PyMethodDef definition = {
        "direct", (PyCFunction)(void (*)(void))direct, METH_FASTCALL,
        "direct(*inputs_and_outputs, /)\n--\n\nThe gufunc on plain arrays, or NotImplemented."};
    return PyCFunction_New(&definition, ufunc);
}
