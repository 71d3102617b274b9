/* convolutions.c: smallmm._core.convolve, a convolution of arrays. smallmm/_functions/convolution.py gives them the
 * dimensions that are expected here. */
#include "device/buffers.h"

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

/* Whether the arrays fit each other and filters of this shape: the core reads and writes no more then. */
static bool are_consistent(PyArrayObject *const arrays[3], const int own[3], intptr_t rows, intptr_t columns) {
    const int dims = PyArray_NDIM(arrays[0]) - own[0];
    for (int i = 0; i < 3; i++) {
        if (dims < 0 || PyArray_NDIM(arrays[i]) - own[i] != dims || !PyArray_ISALIGNED(arrays[i])) return false;
        for (int d = 0; d < dims; d++)
            if (PyArray_DIM(arrays[i], d) != PyArray_DIM(arrays[0], d)) return false;
    }
    const npy_intp *x = PyArray_DIMS(arrays[0]) + dims, *w = PyArray_DIMS(arrays[1]) + dims,
                   *y = PyArray_DIMS(arrays[2]) + dims;
    npy_intp taps, terms;
    return x[0] == y[0] && x[1] == w[0] && x[1] == y[1] && w[1] == y[2] &&
           !__builtin_mul_overflow(rows, columns, &taps) && !__builtin_mul_overflow(x[2], taps, &terms) &&
           terms == w[2] && PyArray_ISWRITEABLE(arrays[2]);
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
                       are_consistent(arrays, own, rows.kernel, columns.kernel);
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
    if (smm_current_hook && smm_current_hook->take_convolution) {
        status = smm_current_hook->take_convolution(smm_current_hook, &c);
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

/* --- on a device --- */

/* A convolution of arrays on a device: x and y with the dimensions of a layout, w (K, C, R, S), each behind those of a
 * batch. */
typedef struct device_convolution {
    smm_buffer x[3]; /* x, w, y */
    smm_convolution c;
    smm_outer batch;
    intptr_t size;
} device_convolution;

/* Length and stride in bytes of one of an array's last four dimensions. */
static intptr_t length_of(const smm_buffer *b, int axis) { return (intptr_t)b->x.shape[b->x.ndim - 4 + axis]; }
static intptr_t stride_of(const device_convolution *d, int i, int axis) {
    const DLTensor *x = &d->x[i].x;
    return (intptr_t)x->strides[x->ndim - 4 + axis] * d->size;
}

/* Whether the elements of filters follow each other at one distance, and at which. */
static bool take_terms(device_convolution *d) {
    intptr_t step = d->size, next = 0;
    for (int axis = 3; axis > 0; axis--) {
        const intptr_t length = length_of(&d->x[1], axis), stride = stride_of(d, 1, axis);
        if (length == 1) continue;
        if (!next) step = next = stride;
        if (stride != next) return false;
        next *= length;
    }
    d->c.w_stride.term = step;
    return true;
}

static bool take_device_batch(device_convolution *d) {
    const int dims = d->x[2].x.ndim - 4;
    for (int back = 1; back <= dims; back++) {
        intptr_t stride[SMM_MOST_OPERANDS] = {0};
        const int64_t extent = d->x[2].x.shape[dims - back];
        for (int i = 0; i < 3; i++) {
            const int at = d->x[i].x.ndim - 4 - back;
            const int64_t own = at < 0 ? 1 : d->x[i].x.shape[at];
            if (own != extent && own != 1) return false;
            if (own > 1) stride[i] = (intptr_t)d->x[i].x.strides[at] * d->size;
        }
        if (!smm_add_dimension(&d->batch, (intptr_t)extent, stride)) return false;
    }
    return d->x[0].x.ndim - 4 <= dims && d->x[1].x.ndim - 4 <= dims;
}

/* The convolution of open arrays, whose shapes Python has checked; false if they do not fit each other. */
static bool describe_device(device_convolution *d, const int axis[4], intptr_t groups) {
    enum { N, C, H, W };
    smm_convolution *c = &d->c;
    const smm_buffer *x = &d->x[0], *w = &d->x[1], *y = &d->x[2];
    const DLDataType type = x->x.dtype;
    c->dtype = type.bits == 32 ? SMM_F32 : SMM_F64;
    d->size = type.bits / 8;
    for (int i = 0; i < 3; i++)
        if (d->x[i].x.ndim < 4 || d->x[i].x.dtype.code != kDLFloat || d->x[i].x.dtype.bits != type.bits ||
            (type.bits != 32 && type.bits != 64) || d->x[i].x.device.device_id != x->x.device.device_id ||
            (uintptr_t)d->x[i].x.data % d->size)
            return false;
    c->images = length_of(x, axis[N]);
    c->groups = groups;
    c->channels = length_of(x, axis[C]) / groups;
    c->filters = length_of(y, axis[C]) / groups;
    c->rows.inputs = length_of(x, axis[H]);
    c->columns.inputs = length_of(x, axis[W]);
    c->rows.outputs = length_of(y, axis[H]);
    c->columns.outputs = length_of(y, axis[W]);
    c->rows.kernel = length_of(w, 2);
    c->columns.kernel = length_of(w, 3);
    c->x = x->x.data;
    c->w = w->x.data;
    c->y = y->x.data;
    const intptr_t x_channel = stride_of(d, 0, axis[C]), y_channel = stride_of(d, 2, axis[C]);
    c->x_stride.image = stride_of(d, 0, axis[N]);
    c->x_stride.group = c->channels * x_channel;
    c->x_stride.channel = x_channel;
    c->x_stride.row = stride_of(d, 0, axis[H]);
    c->x_stride.column = stride_of(d, 0, axis[W]);
    c->y_stride.image = stride_of(d, 2, axis[N]);
    c->y_stride.group = c->filters * y_channel;
    c->y_stride.channel = y_channel;
    c->y_stride.row = stride_of(d, 2, axis[H]);
    c->y_stride.column = stride_of(d, 2, axis[W]);
    c->w_stride.filter = stride_of(d, 1, 0);
    c->w_stride.group = c->filters * c->w_stride.filter;
    c->batch = &d->batch;
    return c->images == length_of(y, axis[N]) && c->channels == length_of(w, 1) &&
           length_of(w, 0) == c->filters * groups && take_device_batch(d);
}

/* The bytes from the first to the last of an array, which has elements. */
static void range_of(const DLTensor *x, uintptr_t range[2]) {
    range[0] = range[1] = (uintptr_t)x->data;
    for (int i = 0; i < x->ndim; i++) {
        const intptr_t reach = (intptr_t)(x->shape[i] - 1) * (intptr_t)x->strides[i] * (x->dtype.bits / 8);
        range[reach > 0] += reach;
    }
    range[1] += x->dtype.bits / 8;
}

static bool is_empty(const DLTensor *x) {
    for (int i = 0; i < x->ndim; i++)
        if (!x->shape[i]) return true;
    return false;
}

static bool overlap(const DLTensor *x, const DLTensor *y) {
    uintptr_t range[2], other[2];
    if (is_empty(x) || is_empty(y)) return false;
    range_of(x, range);
    range_of(y, other);
    return range[0] < other[1] && other[0] < range[1];
}

static smm_cuda_status explain_device(smm_hook *hook, const smm_convolution *c, int device) {
    const smm_cuda_device *of;
    smm_cuda_kernel kernel;
    smm_cuda_status status = smm_cuda_get_device(device, &of);
    if (!status) status = smm_cuda_prepare_convolution(c, device, &kernel);
    if (status) return status;
    smm_device_plan plan = {.source = smm_cuda_source_names[kernel.source],
                            .tuned_on = kernel.tuned_on,
                            .matrices = kernel.grid.matrices,
                            .threads = kernel.grid.threads,
                            .convolution = c};
    smm_cuda_name_kernel(&kernel, c->dtype, of, plan.kernel, sizeof plan.kernel);
    hook->take_device(hook, &plan);
    return SMM_CUDA_OK;
}

/* Launch it, or describe the launch to who asks. */
static smm_cuda_status run_device(const device_convolution *d, int device, void *stream) {
    smm_hook *hook = smm_current_hook;
    if (hook && hook->take_device) return explain_device(hook, &d->c, device);
    smm_cuda_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = smm_cuda_convolve(&d->c, device, stream);
    Py_END_ALLOW_THREADS;
    return status;
}

/* device_convolve(stream, x, w, y, axes, groups, stride, dilation, before, labels=()): `axes` are the places of N, C, H
 * and W among the last four dimensions of x and y. Python has checked the shapes. False if y overlaps x or w; None if
 * the elements of a filter do not follow each other at one distance. */
static PyObject *device_convolve(PyObject *Py_UNUSED(module), PyObject *args, PyObject *keywords) {
    static char *words[] = {"stream", "x", "w", "y", "axes", "groups", "stride", "dilation", "before", "labels", NULL};
    device_convolution d = {0};
    smm_axis *rows = &d.c.rows, *columns = &d.c.columns;
    Py_ssize_t stream, groups;
    PyObject *arrays[3], *labels;
    int axis[4];
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "nOOO(iiii)n(nn)(nn)(nn)O!", words, &stream, &arrays[0],
                                     &arrays[1], &arrays[2], &axis[0], &axis[1], &axis[2], &axis[3], &groups,
                                     &rows->stride, &columns->stride, &rows->dilation, &columns->dilation,
                                     &rows->before, &columns->before, &PyTuple_Type, &labels) ||
        smm_configure_cuda() < 0)
        return NULL;
    if (PyTuple_GET_SIZE(labels) != 3 || groups < 1)
        return PyErr_Format(PyExc_ValueError, "device_convolve: expected three labels, and groups");
    PyObject *result = NULL, *type, *raised, *trace;
    bool launched = false;
    for (int i = 0; i < 3; i++)
        if (smm_open_buffer(arrays[i], PyTuple_GET_ITEM(labels, i), stream, &d.x[i]) < 0) goto end;
    if (d.x[2].read_only || d.x[2].copied) {
        PyErr_Format(PyExc_ValueError, "%S is %s; expected an array that can be written to",
                     PyTuple_GET_ITEM(labels, 2),
                     d.x[2].read_only ? "read-only" : "an array that __dlpack__ gives a copy of");
        goto end;
    }
    if (!describe_device(&d, axis, groups)) {
        PyErr_SetString(PyExc_ValueError, "the arrays of a convolution do not fit each other");
        goto end;
    }
    const int device = d.x[0].x.device.device_id;
    if (!take_terms(&d)) {
        result = Py_NewRef(Py_None);
    } else if (overlap(&d.x[2].x, &d.x[0].x) || overlap(&d.x[2].x, &d.x[1].x)) {
        result = Py_NewRef(Py_False);
    } else if (is_empty(&d.x[2].x)) {
        result = Py_NewRef(Py_True);
    } else {
        const smm_cuda_status status = run_device(&d, device, (void *)stream);
        launched = !status;
        if (status)
            smm_raise_cuda(status);
        else
            result = Py_NewRef(Py_True);
    }
end:
    PyErr_Fetch(&type, &raised, &trace); /* a library may run Python when it takes an array back */
    if (launched)
        smm_hold_buffers(d.x, 3, d.x[0].x.device.device_id, (void *)stream);
    else
        for (int i = 0; i < 3; i++) smm_close_buffer(&d.x[i]);
    PyErr_Restore(type, raised, trace);
    return result;
}

/* A new array of this shape for the result of open arrays. NULL: an exception is set. */
static PyObject *new_result(device_convolution *d, PyObject *shape) {
    int64_t sizes[SMM_MOST_AXES];
    const int ndim = (int)PyTuple_GET_SIZE(shape);
    for (int i = 0; i < ndim; i++) sizes[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(shape, i));
    if (PyErr_Occurred()) return NULL;
    const DLTensor wanted = {.device = d->x[0].x.device, .ndim = ndim, .dtype = d->x[0].x.dtype, .shape = sizes};
    return smm_new_array(d->x[0].api, wanted, &d->x[2]);
}

/* device_convolve_new(x, w, shape, axes, groups, stride, dilation, before): the result, of this shape, of arrays with
 * DLPack's C exchange API, on their library's current stream. NotImplemented: Python must look closer. */
static PyObject *device_convolve_new(PyObject *Py_UNUSED(module), PyObject *args) {
    device_convolution d = {0};
    smm_axis *rows = &d.c.rows, *columns = &d.c.columns;
    Py_ssize_t groups;
    PyObject *arrays[2], *shape;
    int axis[4];
    if (!PyArg_ParseTuple(args, "OOO!(iiii)n(nn)(nn)(nn)", &arrays[0], &arrays[1], &PyTuple_Type, &shape, &axis[0],
                          &axis[1], &axis[2], &axis[3], &groups, &rows->stride, &columns->stride, &rows->dilation,
                          &columns->dilation, &rows->before, &columns->before))
        return NULL;
    for (int i = 0; i < 2; i++)
        if (!smm_exchange(arrays[i], &d.x[i]) || d.x[i].api != d.x[0].api || d.x[i].x.ndim < 4 ||
            smm_is_followed(arrays[i]))
            Py_RETURN_NOTIMPLEMENTED;
    const DLTensor *x = &d.x[0].x;
    const bool takes = x->dtype.code == kDLFloat && (x->dtype.bits == 32 || x->dtype.bits == 64);
    d.size = x->dtype.bits / 8;
    if (!takes || groups < 1 || PyTuple_GET_SIZE(shape) > SMM_MOST_AXES || !take_terms(&d)) Py_RETURN_NOTIMPLEMENTED;
    if (smm_configure_cuda() < 0) return NULL;
    PyObject *result = new_result(&d, shape);
    if (!result) return NULL;
    void *stream = NULL;
    const int device = x->device.device_id;
    if (!describe_device(&d, axis, groups)) {
        Py_DECREF(result);
        Py_RETURN_NOTIMPLEMENTED;
    }
    if (is_empty(&d.x[2].x)) return result;
    bool done = !d.x[0].api->current_work_stream(kDLCUDA, device, &stream);
    const smm_cuda_status status = done ? run_device(&d, device, stream) : SMM_CUDA_OK;
    if (status) smm_raise_cuda(status);
    if (status) done = false;
    if (!done) Py_CLEAR(result);
    return result;
}

static PyMethodDef methods[] = {
    {"device_convolve_new", device_convolve_new, METH_VARARGS, NULL},
    {"device_convolve", (PyCFunction)(void (*)(void))device_convolve, METH_VARARGS | METH_KEYWORDS, NULL},
    {"convolve", convolve, METH_VARARGS,
     "convolve(x, w, y, kernel, stride, dilation, before, /)\n--\n\nConvolve x (..., N, G, C, H, W) with w (..., G, K, "
     "CRS) into y (..., N, G, K, P, Q); batch dimensions are those of all three."},
    {NULL, NULL, 0, NULL},
};

int smm_add_convolutions(PyObject *module) { return PyModule_AddFunctions(module, methods); }
