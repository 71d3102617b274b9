/* convolutions.c: smallmm._core.convolve, a convolution of arrays. smallmm/_convolution.py gives them the dimensions
 * that are expected here. */
#include "extension.h"

/* Batch dimensions in front, whose strides need not fit each other. */
static bool take_batch(PyArrayObject *const arrays[3], const int own[3], smm_outer *batch) {
    const int dims = PyArray_NDIM(arrays[0]) - own[0];
    batch->dims = 0;
    for (int d = dims - 1; d >= 0; d--) {
        intptr_t stride[SMM_MOST_OPERANDS] = {0};
        for (int i = 0; i < 3; i++) stride[i] = PyArray_STRIDE(arrays[i], d);
        if (!smm_add_dimension(batch, PyArray_DIM(arrays[0], d), stride)) return false;
    }
    return true;
}

static bool are_consistent(PyArrayObject *const arrays[3], const int own[3]) {
    const int dims = PyArray_NDIM(arrays[0]) - own[0];
    for (int i = 0; i < 3; i++) {
        if (dims < 0 || PyArray_NDIM(arrays[i]) - own[i] != dims || !PyArray_ISALIGNED(arrays[i])) return false;
        for (int d = 0; d < dims; d++)
            if (PyArray_DIM(arrays[i], d) != PyArray_DIM(arrays[0], d)) return false;
    }
    const npy_intp *x = PyArray_DIMS(arrays[0]) + dims, *w = PyArray_DIMS(arrays[1]) + dims,
                   *y = PyArray_DIMS(arrays[2]) + dims;
    return x[0] == y[0] && x[1] == w[0] && x[1] == y[1] && w[1] == y[2] && PyArray_ISWRITEABLE(arrays[2]);
}

static PyObject *convolve(PyObject *Py_UNUSED(module), PyObject *args) {
    static const int own[3] = {5, 3, 5};
    PyArrayObject *arrays[3];
    smm_axis rows = {0}, columns = {0};
    if (!PyArg_ParseTuple(args, "O!O!O!(nn)(nn)(nn)(nn)", &PyArray_Type, &arrays[0], &PyArray_Type, &arrays[1],
                          &PyArray_Type, &arrays[2], &rows.kernel, &columns.kernel, &rows.stride, &columns.stride,
                          &rows.dilation, &columns.dilation, &rows.before, &columns.before))
        return NULL;
    smm_outer batch;
    const int dtype = smm_dtype_of_numpy(PyArray_TYPE(arrays[0]));
    const bool valid = dtype >= 0 && PyArray_TYPE(arrays[2]) == PyArray_TYPE(arrays[0]) &&
                       smm_dtype_of_numpy(PyArray_TYPE(arrays[1])) == (int)smm_dtypes[dtype].computed &&
                       are_consistent(arrays, own);
    if (!valid || !take_batch(arrays, own, &batch)) {
        PyErr_SetString(PyExc_ValueError, "the arrays of a convolution do not fit each other");
        return NULL;
    }
    const int dims = PyArray_NDIM(arrays[0]) - own[0];
    const npy_intp *x = PyArray_DIMS(arrays[0]) + dims, *y = PyArray_DIMS(arrays[2]) + dims;
    const npy_intp *xs = PyArray_STRIDES(arrays[0]) + dims, *ws = PyArray_STRIDES(arrays[1]) + dims,
                   *ys = PyArray_STRIDES(arrays[2]) + dims;
    rows.inputs = x[3], columns.inputs = x[4];
    rows.outputs = y[3], columns.outputs = y[4];
    const smm_convolution c = {
        .dtype = (smm_dtype)dtype,
        .images = x[0],
        .groups = x[1],
        .filters = y[2],
        .channels = x[2],
        .rows = rows,
        .columns = columns,
        .x = PyArray_DATA(arrays[0]),
        .w = PyArray_DATA(arrays[1]),
        .y = PyArray_DATA(arrays[2]),
        .x_stride = {xs[0], xs[1], xs[2], xs[3], xs[4]},
        .y_stride = {ys[0], ys[1], ys[2], ys[3], ys[4]},
        .w_stride = {ws[0], ws[1], ws[2]},
        .batch = &batch,
    };
    smm_status status;
    if (smm_current_detour && smm_current_detour->take_convolution) {
        status = smm_current_detour->take_convolution(smm_current_detour, &c);
    } else {
        Py_BEGIN_ALLOW_THREADS;
        status = smm_convolve(&c);
        Py_END_ALLOW_THREADS;
    }
    if (status != SMM_OK) {
        smm_raise(status, NULL);
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"convolve", convolve, METH_VARARGS,
     "convolve(x, w, y, kernel, stride, dilation, before, /)\n--\n\nConvolve x (..., N, G, C, H, W) with w (..., G, K, "
     "CRS) into y (..., N, G, K, P, Q); batch dimensions are those of all three."},
    {NULL, NULL, 0, NULL},
};

int smm_add_convolutions(PyObject *module) { return PyModule_AddFunctions(module, methods); }
