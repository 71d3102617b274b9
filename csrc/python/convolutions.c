/* convolutions.c: smallmm._core.convolve, a convolution of arrays of the host, and the same on devices. Python has
 * checked the arguments and words the messages; here no more is made sure of than that the core stays within the
 * arrays. */
#include "device/buffers.h"

/* x and y with the dimensions of a layout, and w (K, C, R, S), each behind those of a batch. */
typedef struct convolution {
    smm_array x[3]; /* x, w, y */
    int axis[4];    /* the places of N, C, H and W among the last dimensions of x and y */
    smm_convolution c;
    smm_outer batch;
} convolution;

/* (axes, groups, stride, dilation, before), of which the last three are of rows and columns. */
static int take_words(PyObject *tuple, void *to) {
    convolution *const d = to;
    smm_axis *const rows = &d->c.rows, *const columns = &d->c.columns;
    int *const axis = d->axis;
    return PyArg_ParseTuple(tuple, "(iiii)n(nn)(nn)(nn)", &axis[0], &axis[1], &axis[2], &axis[3], &d->c.groups,
                            &rows->stride, &columns->stride, &rows->dilation, &columns->dilation, &rows->before,
                            &columns->before);
}

/* Length and stride in bytes of one of an array's last four dimensions. */
static intptr_t length_of(const smm_array *x, int axis) { return x->shape[x->ndim - 4 + axis]; }
static intptr_t stride_of(const smm_array *x, int axis) { return x->strides[x->ndim - 4 + axis] * x->unit; }

/* Whether the elements of filters follow each other at one distance, and at which. */
static bool take_terms(convolution *d) {
    intptr_t step = smm_size(smm_dtypes[d->c.dtype].computed), next = 0;
    for (int axis = 3; axis > 0; axis--) {
        const intptr_t length = length_of(&d->x[1], axis), stride = stride_of(&d->x[1], axis);
        if (length <= 1) continue;
        if (!next) step = next = stride;
        if (stride != next) return false;
        next *= length;
    }
    d->c.w_stride.term = step;
    return true;
}

static bool take_batch(convolution *d) {
    const int dims = d->x[2].ndim - 4;
    for (int back = 1; back <= dims; back++) {
        intptr_t stride[SMM_MAX_OPERANDS] = {0};
        const intptr_t extent = d->x[2].shape[dims - back];
        for (int i = 0; i < 3; i++) {
            const smm_array *const x = &d->x[i];
            const int at = x->ndim - 4 - back;
            const intptr_t own = at < 0 ? 1 : x->shape[at];
            if (own != extent && own != 1) return false;
            if (own > 1) stride[i] = x->strides[at] * x->unit;
        }
        if (!smm_add_dimension(&d->batch, extent, stride)) return false;
    }
    return d->x[0].ndim - 4 <= dims && d->x[1].ndim - 4 <= dims;
}

/* The convolution of arrays, whose numbers are of this type; false if they do not fit each other. */
static bool describe(convolution *d, smm_dtype dtype) {
    enum { N, C, H, W };
    smm_convolution *c = &d->c;
    const smm_array *x = &d->x[0], *w = &d->x[1], *y = &d->x[2];
    const int *axis = d->axis;
    if (c->groups < 1) return false;
    for (int i = 0; i < 3; i++)
        if (d->x[i].ndim < 4) return false;
    unsigned seen = 0;
    for (int i = 0; i < 4; i++) seen |= axis[i] >= 0 && axis[i] < 4 ? 1u << axis[i] : 0;
    if (seen != 15) return false;
    c->dtype = dtype;
    c->images = length_of(x, axis[N]);
    c->channels = length_of(x, axis[C]) / c->groups;
    c->filters = length_of(y, axis[C]) / c->groups;
    c->rows.inputs = length_of(x, axis[H]);
    c->columns.inputs = length_of(x, axis[W]);
    c->rows.outputs = length_of(y, axis[H]);
    c->columns.outputs = length_of(y, axis[W]);
    c->rows.kernel = length_of(w, 2);
    c->columns.kernel = length_of(w, 3);
    c->x = x->data;
    c->w = w->data;
    c->y = y->data;
    for (int i = 0; i < 3; i += 2) {
        const intptr_t channel = stride_of(&d->x[i], axis[C]);
        *(i ? &c->y_stride : &c->x_stride) = (smm_image_stride){.image = stride_of(&d->x[i], axis[N]),
                                                                .group = (i ? c->filters : c->channels) * channel,
                                                                .channel = channel,
                                                                .row = stride_of(&d->x[i], axis[H]),
                                                                .column = stride_of(&d->x[i], axis[W])};
    }
    c->w_stride.filter = stride_of(w, 0);
    c->w_stride.group = c->filters * c->w_stride.filter;
    c->batch = &d->batch;
    return c->images == length_of(y, axis[N]) && c->channels == length_of(w, 1) &&
           length_of(w, 0) == c->filters * c->groups && take_batch(d);
}

static PyObject *refuse(void) {
    return PyErr_Format(PyExc_ValueError, "the arrays of a convolution do not fit each other");
}

/* convolve(x, w, y, words): True; None if the elements of a filter do not follow each other at one distance. */
static PyObject *convolve(PyObject *Py_UNUSED(module), PyObject *args) {
    PyArrayObject *arrays[3];
    convolution d = {0};
    if (!PyArg_ParseTuple(args, "O!O!O!O&", &PyArray_Type, &arrays[0], &PyArray_Type, &arrays[1], &PyArray_Type,
                          &arrays[2], take_words, &d))
        return NULL;
    const int dtype = smm_dtype_of_numpy(PyArray_TYPE(arrays[0]));
    bool fits = dtype >= 0 && PyArray_TYPE(arrays[2]) == PyArray_TYPE(arrays[0]) && PyArray_ISWRITEABLE(arrays[2]) &&
                smm_dtype_of_numpy(PyArray_TYPE(arrays[1])) == (int)smm_dtypes[dtype].computed;
    for (int i = 0; i < 3; i++) {
        fits = fits && PyArray_ISALIGNED(arrays[i]);
        d.x[i] = smm_array_of(arrays[i]);
    }
    if (!fits || !describe(&d, (smm_dtype)dtype)) return refuse();
    if (!take_terms(&d)) Py_RETURN_NONE;
    smm_status status;
    if (smm_current_hook && smm_current_hook->take_convolution)
        status = smm_current_hook->take_convolution(smm_current_hook, &d.c);
    else
        status = SMM_WITHOUT_GIL(smm_convolve(&d.c));
    return status ? smm_raise(status, NULL) : Py_NewRef(Py_True);
}

/* --- on a device --- */

/* Take arrays on a device. False: they are not of one type that is computed, or not on one device. */
static bool take_buffers(convolution *d, const smm_buffer b[], int count, smm_dtype *dtype) {
    const int bits = b->x.dtype.bits;
    *dtype = bits == 32 ? SMM_F32 : SMM_F64;
    bool fits = bits == 32 || bits == 64;
    for (int i = 0; i < count; i++) {
        const DLTensor *const x = &b[i].x;
        d->x[i] = smm_array_of_buffer(&b[i]);
        fits = fits && x->dtype.code == kDLFloat && x->dtype.bits == bits &&
               x->device.device_id == b->x.device.device_id && (uintptr_t)x->data % (uintptr_t)d->x[i].unit == 0;
    }
    return fits;
}

static bool is_empty(const smm_array *x) {
    for (int i = 0; i < x->ndim; i++)
        if (!x->shape[i]) return true;
    return false;
}

/* The bytes of an array. */
static smm_span span_of(const smm_array *x) {
    smm_span s = {(intptr_t)x->data, (intptr_t)x->data};
    if (is_empty(x)) return s;
    s.high += x->unit;
    for (int i = 0; i < x->ndim; i++) smm_reach(&s, x->shape[i], x->strides[i] * x->unit);
    return s;
}

static bool is_output_apart(const convolution *d) {
    const smm_span x = span_of(&d->x[0]), w = span_of(&d->x[1]), y = span_of(&d->x[2]);
    return !smm_do_spans_meet(&x, &y) && !smm_do_spans_meet(&w, &y);
}

/* Launch it, or describe the launch to who asks. */
static smm_cuda_status launch(const smm_convolution *c, int device, void *stream) {
    smm_hook *const hook = smm_current_hook;
    const smm_cuda_device *of;
    smm_cuda_kernel kernel;
    smm_cuda_status status;
    if (hook && hook->take_device) {
        status = smm_cuda_get_device(device, &of);
        if (!status) status = smm_cuda_prepare_convolution(c, device, &kernel);
        if (!status) smm_tell_plan(hook, &kernel, c->dtype, of, NULL, c);
    } else {
        status = SMM_WITHOUT_GIL(smm_cuda_convolve(c, device, stream));
    }
    return status;
}

/* device_convolve(stream, x, w, y, words, labels): the same on a stream. False if y overlaps x or w. */
static PyObject *device_convolve(PyObject *Py_UNUSED(module), PyObject *args) {
    convolution d = {0};
    smm_buffer b[3] = {0};
    smm_dtype dtype;
    Py_ssize_t stream;
    PyObject *arrays[3], *labels, *result = NULL;
    bool launched = false;
    if (!PyArg_ParseTuple(args, "nOOOO&O!", &stream, &arrays[0], &arrays[1], &arrays[2], take_words, &d, &PyTuple_Type,
                          &labels) ||
        smm_configure_cuda() < 0)
        return NULL;
    if (PyTuple_GET_SIZE(labels) != 3) return PyErr_Format(PyExc_ValueError, "device_convolve: expected three labels");
    for (int i = 0; i < 3; i++)
        if (smm_open_buffer(arrays[i], PyTuple_GET_ITEM(labels, i), stream, &b[i]) < 0) goto end;
    if (!smm_is_writable(&b[2], PyTuple_GET_ITEM(labels, 2))) goto end;
    if (!take_buffers(&d, b, 3, &dtype) || !describe(&d, dtype)) {
        refuse();
    } else if (!take_terms(&d)) {
        result = Py_NewRef(Py_None);
    } else if (!is_output_apart(&d)) {
        result = Py_NewRef(Py_False);
    } else if (is_empty(&d.x[2])) {
        result = Py_NewRef(Py_True);
    } else {
        const smm_cuda_status status = launch(&d.c, b->x.device.device_id, (void *)stream);
        launched = !status;
        result = status ? smm_raise_cuda(status) : Py_NewRef(Py_True);
    }
end:
    smm_release_buffers(b, 3, launched, b->x.device.device_id, (void *)stream);
    return result;
}

/* A new array of this shape for the result of open arrays. NULL: an exception is set. */
static PyObject *new_result(smm_buffer b[3], PyObject *shape) {
    int64_t sizes[SMM_MAX_AXES];
    const int ndim = (int)PyTuple_GET_SIZE(shape);
    for (int i = 0; i < ndim; i++) sizes[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(shape, i));
    if (PyErr_Occurred()) return NULL;
    const DLTensor wanted = {.device = b->x.device, .ndim = ndim, .dtype = b->x.dtype, .shape = sizes};
    return smm_new_array(b->api, wanted, &b[2]);
}

/* device_convolve_new(x, w, shape, words): the result, of this shape, of arrays with DLPack's C exchange API, on their
 * library's current stream. NotImplemented: Python must look closer. */
static PyObject *device_convolve_new(PyObject *Py_UNUSED(module), PyObject *args) {
    convolution d = {0};
    smm_buffer b[3] = {0};
    PyObject *arrays[2], *shape;
    if (!PyArg_ParseTuple(args, "OOO!O&", &arrays[0], &arrays[1], &PyTuple_Type, &shape, take_words, &d)) return NULL;
    for (int i = 0; i < 2; i++)
        if (!smm_exchange(arrays[i], &b[i]) || b[i].api != b->api || b[i].x.ndim < 4 || smm_is_followed(arrays[i]))
            Py_RETURN_NOTIMPLEMENTED;
    if (!take_buffers(&d, b, 2, &d.c.dtype) || PyTuple_GET_SIZE(shape) > SMM_MAX_AXES || !take_terms(&d))
        Py_RETURN_NOTIMPLEMENTED;
    if (smm_configure_cuda() < 0) return NULL;
    PyObject *result = new_result(b, shape);
    if (!result) return NULL;
    d.x[2] = smm_array_of_buffer(&b[2]);
    void *stream = NULL;
    const int device = b->x.device.device_id;
    if (!describe(&d, d.c.dtype)) {
        Py_DECREF(result);
        Py_RETURN_NOTIMPLEMENTED;
    }
    if (is_empty(&d.x[2])) return result;
    bool done = !b->api->current_work_stream(kDLCUDA, device, &stream);
    const smm_cuda_status status = done ? launch(&d.c, device, stream) : SMM_CUDA_OK;
    if (status) smm_raise_cuda(status);
    if (!done || status) Py_CLEAR(result);
    return result;
}

int smm_add_convolutions(PyObject *module) {
    static PyMethodDef methods[] = {
        {"device_convolve_new", device_convolve_new, METH_VARARGS, NULL},
        {"device_convolve", device_convolve, METH_VARARGS, NULL},
        {"convolve", convolve, METH_VARARGS,
         "convolve(x, w, y, words, /)\n--\n\nConvolve x with w (..., K, C, R, S) into y; words: the places of N, C, H "
         "and W in x and y, groups, stride, dilation, zeros before the first."},
        {NULL, NULL, 0, NULL},
    };
    return PyModule_AddFunctions(module, methods);
}
