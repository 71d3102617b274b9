/* xla.c: gufuncs within programs that JAX has compiled, for the host or for CUDA devices. XLA calls the handlers below
 * through its foreign function interface, without Python.
 *
 * The structures are those of version 0 of that interface (XLA's xla/ffi/api/c_api.h). Each begins with its size, and
 * newer ones may have more at their ends. Where one contains another, only the size that is known here will do. */
#include <string.h>

#include "arrays.h"
#include "device/buffers.h"

typedef struct xla_extension {
    size_t size;
    int type;
    struct xla_extension *next;
} xla_extension;

#define XLA_HEAD \
    size_t size; \
    xla_extension *extensions

typedef struct xla_version {
    XLA_HEAD;
    int major, minor;
} xla_version;

typedef struct xla_error {
    XLA_HEAD;
    const char *message;
    int code;
} xla_error;

typedef struct xla_stream {
    XLA_HEAD;
    void *context, *stream;
} xla_stream;

typedef struct xla_api {
    XLA_HEAD;
    xla_version version;
    const void *internal;
    void *(*create_error)(xla_error *error);
    const void *of_errors[2], *of_handlers;
    void *(*get_stream)(xla_stream *stream);
} xla_api;

typedef struct xla_buffer {
    XLA_HEAD;
    int type;
    void *data;
    int64_t dims;
    const int64_t *shape;
} xla_buffer;

typedef struct xla_buffers {
    XLA_HEAD;
    int64_t count;
    const int *kinds;
    xla_buffer *const *buffer;
} xla_buffers;

typedef struct xla_text {
    const char *text;
    size_t length;
} xla_text;

typedef struct xla_attributes {
    XLA_HEAD;
    int64_t count;
    const int *kinds;
    xla_text *const *names;
    void *const *values;
} xla_attributes;

typedef struct xla_call {
    XLA_HEAD;
    const xla_api *api;
    void *context;
    int stage;
    xla_buffers operands, results;
    xla_attributes attributes;
} xla_call;

/* An extension of a call: XLA asks for what the handler is. */
typedef struct xla_question {
    xla_extension head;
    struct {
        size_t size;
        xla_version version;
        uint32_t traits;
    } *answer;
} xla_question;

enum { XLA_QUESTION = 1, XLA_EXECUTION = 3, XLA_BUFFER = 1, XLA_TEXT = 4, XLA_INVALID_ARGUMENT = 3, XLA_INT32 = 4 };
_Static_assert(sizeof(intptr_t) == sizeof(int64_t), "shapes are XLA's");

static void *refuse(const xla_call *from, const char *why) {
    xla_error error = {sizeof error, NULL, why, XLA_INVALID_ARGUMENT};
    return from->api->create_error(&error);
}

static int xla_type(const smm_gufunc *g, int i, smm_dtype dtype) {
    static const int types[SMM_DTYPE_COUNT] = {
#define ROW(x, NAME, name, in_memory, computed, numpy, dlpack, xla, ...) xla,
        SMM_DTYPES(ROW, _)
#undef ROW
    };
    if (smm_is_integer(g, i)) return XLA_INT32;
    return types[smm_type_of(g->op, dtype, smm_signature_of(g)->position[i])];
}

/* The element type of a gufunc's call whose operand i, a number, is x; -1: it has none such. */
static int dtype_of(const smm_gufunc *g, int i, const xla_buffer *x) {
    for (int dtype = 0; dtype < SMM_DTYPE_COUNT; dtype++)
        if (smm_takes(g->op, (smm_dtype)dtype) && xla_type(g, i, (smm_dtype)dtype) == x->type) return dtype;
    return -1;
}

/* A dense array, whose strides are written to `strides`. */
static smm_array array_of(const xla_buffer *x, intptr_t unit, intptr_t *strides) {
    intptr_t length = 1;
    for (int64_t d = x->dims; d--; length *= (intptr_t)x->shape[d]) strides[d] = length;
    return (smm_array){x->data, (int)x->dims, (const intptr_t *)x->shape, strides, unit};
}

static bool is_empty(const xla_buffer *x) {
    for (int64_t d = 0; d < x->dims; d++)
        if (!x->shape[d]) return true;
    return false;
}

static bool take(smm_arrays *x, int i, const xla_buffer *buffer, intptr_t *strides) {
    if (buffer->dims > NPY_MAXDIMS) return false;
    if (buffer->type != xla_type(x->g, i, smm_dtype_in(x, i)) && !smm_take_mixture(x, i, dtype_of(x->g, i, buffer)))
        return false;
    const intptr_t unit = smm_dtypes[smm_dtype_in(x, i)].size[smm_element_of(x->g, i)];
    const smm_array array = array_of(buffer, unit, strides);
    return i < x->s->inputs ? smm_take_input(x, i, array) : smm_take_output(x, i, array);
}

static void *run_on_host(const xla_call *from, smm_arrays *x) {
    smm_take_batch(&x->call, &x->outer, smm_longest_dimension(&x->outer));
    const smm_status status = smm_dispatch(&x->call);
    if (status == SMM_ERR_STOPPED) { /* Python raises the exception once XLA has returned to it */
        const PyGILState_STATE gil = PyGILState_Ensure();
        PyErr_Clear();
        PyErr_SetInterrupt();
        PyGILState_Release(gil);
    }
    return status ? refuse(from, smm_status_text(status)) : NULL;
}

static void *run_on_device(const xla_call *from, smm_arrays *x) {
    xla_stream of = {sizeof of, NULL, from->context, NULL};
    void *error = from->api->get_stream(&of);
    if (error) return error;
    smm_take_batch(&x->call, &x->outer, 0);
    int device;
    smm_cuda_status status = smm_cuda_device_of(from->operands.buffer[0]->data, &device);
    if (!status) status = smm_launch(&x->call, device, of.stream);
    return status ? refuse(from, smm_cuda_message()) : NULL;
}

static void *run(const xla_call *from, const smm_gufunc *g, void *run_on(const xla_call *, smm_arrays *)) {
    const smm_signature *s = smm_signature_of(g);
    const xla_buffers *in = &from->operands, *out = &from->results;
    const int dtype =
        in->count == s->inputs && out->count == s->operands - s->inputs ? dtype_of(g, 0, in->buffer[0]) : -1;
    if (dtype < 0 || s->updates) return refuse(from, "smallmm: operands of another gufunc");
    intptr_t strides[SMM_MAX_OPERANDS][NPY_MAXDIMS];
    smm_arrays x;
    smm_arrays_of(&x, g, NPY_MAXDIMS);
    x.call.dtype = (smm_dtype)dtype;
    bool fits = true, empty = true;
    for (int i = 0; i < s->inputs; i++) fits = fits && take(&x, i, in->buffer[i], strides[i]);
    if (fits) smm_finish_sizes(&x.call, x.g);
    for (int i = s->inputs; i < s->operands; i++) {
        fits = fits && take(&x, i, out->buffer[i - s->inputs], strides[i]);
        empty = empty && is_empty(out->buffer[i - s->inputs]);
    }
    if (!fits || !smm_describe(&x)) return refuse(from, "smallmm: operands do not fit each other");
    return empty ? NULL : run_on(from, &x);
}

static const xla_text *attribute(const xla_attributes *all, const char *name) {
    for (int64_t i = 0; i < all->count; i++)
        if (all->kinds[i] == XLA_TEXT && all->names[i]->length == strlen(name) &&
            !memcmp(all->names[i]->text, name, strlen(name)))
            return all->values[i];
    return NULL;
}

static void *handle(const xla_call *from, void *run_on(const xla_call *, smm_arrays *)) {
    const bool known = from->api->version.major == 0 && from->operands.size == sizeof from->operands &&
                       from->results.size == sizeof from->results && from->attributes.size == sizeof from->attributes;
    if (!known) return refuse(from, "smallmm: this version of XLA's foreign function interface is not known");
    if (from->extensions && from->extensions->type == XLA_QUESTION) {
        const xla_question *question = (const void *)from->extensions;
        question->answer->version = from->api->version;
        question->answer->traits = 0;
        return NULL;
    }
    if (from->stage != XLA_EXECUTION) return NULL;
    const xla_text *name = attribute(&from->attributes, "gufunc");
    const smm_gufunc *g = name ? smm_gufunc_named(name->text, name->length) : NULL;
    return g ? run(from, g, run_on) : refuse(from, "smallmm: no such gufunc");
}

static void *handle_on_host(const xla_call *from) { return handle(from, run_on_host); }
static void *handle_on_device(const xla_call *from) { return handle(from, run_on_device); }

/* xla_handlers: capsules by the names that XLA gives the platforms. */
int smm_add_xla(PyObject *module) {
    static const struct {
        const char *platform;
        void *(*handler)(const xla_call *);
    } rows[] = {{"cpu", handle_on_host}, {"CUDA", handle_on_device}};
    PyObject *handlers = PyDict_New();
    for (size_t i = 0; handlers && i < sizeof rows / sizeof *rows; i++)
        smm_set_key(&handlers, rows[i].platform,
                    PyCapsule_New((void *)rows[i].handler, "xla._CUSTOM_CALL_TARGET", NULL));
    return smm_add(module, "xla_handlers", handlers);
}
