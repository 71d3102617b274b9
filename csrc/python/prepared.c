/* prepared.c: smallmm._core.Prepared, the calls of one function that were met before. A call is a program, which takes
 * the dtypes, core shapes and core strides of its inputs and no others, with the keywords that it was made for. The
 * first program that takes the arguments runs; if there is none the answer is NotImplemented, and Python finds out what
 * to do: it converts, records a program, or explains what is wrong. Arrays of other libraries on the host are seen as
 * NumPy's, and results become theirs. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "device/buffers.h"

#include <structmember.h>

enum { MAX_CALLS = 64, MAX_ARGUMENTS = 64, MAX_ON_DEVICE = 16 };

/* What becomes of the last output. */
typedef enum { NO_INFO, INFO_APART, INFO_AMONG } info_kind;

typedef struct prepared_call {
    PyObject *program; /* a _core.Program, or what is called as one; NULL: on a device */
    smm_device_call *device;
    PyObject *numbers; /* for each input the type of Python's number that it is made of, else None */
    PyObject *keywords;
    PyObject *make, *failed; /* of the list of results; of the list of results and info. None: the results themselves */
    int outputs, inputs;
    info_kind info;
    Py_ssize_t most; /* elements of an input, beyond which fewer threads than these leave it to Python; 0: any */
    int threads;
} prepared_call;

typedef struct prepared {
    PyObject_HEAD vectorcallfunc call;
    prepared_call *calls[MAX_CALLS]; /* only added to, so that a call needs no lock */
    int count;
} prepared;

/* --- arguments --- */

/* The arguments of a call: NumPy's arrays are borrowed, what is made of others and of numbers is owned. */
typedef struct arguments {
    int count;
    PyObject *const *given;
    PyObject *array[MAX_ARGUMENTS]; /* of arrays and NumPy's scalars */
    PyObject *out;
    PyObject *keywords;           /* NULL: none */
    const DLPackExchangeAPI *api; /* of arrays that are not NumPy's; NULL: there are none */
} arguments;

static void forget(arguments *x) {
    for (int i = 0; i < x->count; i++)
        if (x->array[i] != x->given[i]) Py_XDECREF(x->array[i]);
    Py_XDECREF(x->keywords);
}

static bool is_python_number(PyObject *x) {
    return PyFloat_CheckExact(x) || PyLong_CheckExact(x) || PyBool_Check(x) || PyComplex_CheckExact(x);
}

/* The outputs, which are stolen, in the library of the arguments; of the caller's arrays themselves. */
static PyObject *in_library(PyObject *outputs, const arguments *a, int results) {
    for (Py_ssize_t i = 0; outputs && i < PyTuple_GET_SIZE(outputs); i++) {
        PyObject *own = !a->out || i >= results ? Py_None
                        : PyTuple_Check(a->out) ? PyTuple_GET_ITEM(a->out, i)
                                                : a->out;
        PyObject *former = PyTuple_GET_ITEM(outputs, i);
        smm_set_item(&outputs, i, Py_IsNone(own) ? smm_lend(former, a->api) : Py_NewRef(own));
        if (outputs) Py_DECREF(former);
    }
    return outputs;
}

/* 0: done, 1: Python's, -1: an exception is set. */
static int take_arguments(arguments *to, PyObject *const *args, Py_ssize_t nargs) {
    *to = (arguments){.given = args};
    if (nargs > MAX_ARGUMENTS) return 1;
    for (Py_ssize_t i = 0; i < nargs; i++) {
        to->count = (int)i + 1;
        if (PyArray_CheckExact(args[i]))
            to->array[i] = args[i];
        else if (PyArray_IsScalar(args[i], Generic))
            to->array[i] = PyArray_FromScalar(args[i], NULL);
        else if (!is_python_number(args[i]) && !(to->array[i] = smm_view_of(args[i], &to->api)))
            return PyErr_Occurred() ? -1 : 1;
        if (!to->array[i] && PyErr_Occurred()) return -1;
    }
    return 0;
}

static int take_keywords(arguments *to, PyObject *const *values, PyObject *names) {
    for (Py_ssize_t k = 0; names && k < PyTuple_GET_SIZE(names); k++) {
        PyObject *name = PyTuple_GET_ITEM(names, k), *value = values[k];
        if (PyUnicode_CompareWithASCIIString(name, "out") == 0) {
            to->out = Py_IsNone(value) ? NULL : value;
            continue;
        }
        if (!to->keywords && !(to->keywords = PyDict_New())) return -1;
        if (PyDict_SetItem(to->keywords, name, value) < 0) return -1;
    }
    return 0;
}

/* Whether x is y: of one type, since 1, 1.0 and True are equal, and numbers to the bit, since 0.0 and -0.0 are. */
static int is_same(PyObject *x, PyObject *y) {
    if (x == y) return 1;
    if (Py_TYPE(x) != Py_TYPE(y)) return 0;
    if (!PyFloat_CheckExact(x)) return PyObject_RichCompareBool(x, y, Py_EQ);
    const double a = PyFloat_AS_DOUBLE(x), b = PyFloat_AS_DOUBLE(y);
    return !memcmp(&a, &b, sizeof a);
}

/* Whether a call was made for these keywords; -1: an exception is set. */
static int has_keywords(const prepared_call *x, PyObject *given) {
    if (!given || !PyDict_GET_SIZE(x->keywords)) return !given && !PyDict_GET_SIZE(x->keywords);
    if (PyDict_GET_SIZE(given) != PyDict_GET_SIZE(x->keywords)) return 0;
    PyObject *name, *value;
    Py_ssize_t at = 0;
    while (PyDict_Next(given, &at, &name, &value)) {
        PyObject *own = PyDict_GetItemWithError(x->keywords, name);
        if (!own) return PyErr_Occurred() ? -1 : 0;
        const int same = is_same(own, value);
        if (same < 1) return same;
    }
    return 1;
}

/* A number of Python as an array of the input's dtype; NULL without an exception if it is none of them. */
static PyObject *as_array(PyObject *number, int type) {
    PyObject *x = type < 0 ? NULL : PyArray_SimpleNew(0, NULL, type);
    if (x && PyArray_SETITEM((PyArrayObject *)x, PyArray_BYTES((PyArrayObject *)x), number) < 0) Py_CLEAR(x);
    if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_MemoryError)) PyErr_Clear();
    return x;
}

/* Whether an output may be written to while the inputs and other outputs are read: a dense array apart from them. */
static bool is_apart(PyArrayObject *out, PyObject *const *others, int count) {
    if (!PyArray_IS_C_CONTIGUOUS(out)) return false;
    const smm_span own = {(intptr_t)PyArray_DATA(out), (intptr_t)PyArray_DATA(out) + PyArray_NBYTES(out)};
    for (int i = 0; i < count; i++) {
        if (!others[i] || !PyArray_CheckExact(others[i])) continue;
        PyArrayObject *x = (PyArrayObject *)others[i];
        smm_span its = {(intptr_t)PyArray_DATA(x), (intptr_t)PyArray_DATA(x) + PyArray_ITEMSIZE(x)};
        for (int d = 0; d < PyArray_NDIM(x); d++) smm_reach(&its, PyArray_DIM(x, d), PyArray_STRIDE(x, d));
        if (PyArray_SIZE(x) && smm_do_spans_meet(&own, &its)) return false;
    }
    return true;
}

static int results_of(const prepared_call *x) { return x->outputs - (x->info == INFO_APART); }

/* The caller's arrays for the results of a call, NULL for each that is new. False, maybe with an exception: they do not
 * do. */
static bool take_outs(const prepared_call *x, const arguments *a, PyObject *const *inputs, PyObject *outs[]) {
    const int results = results_of(x);
    const bool several = PyTuple_Check(a->out);
    if ((several ? PyTuple_GET_SIZE(a->out) : 1) != results) return false;
    for (int i = 0; i < results; i++) {
        PyObject *own = several ? PyTuple_GET_ITEM(a->out, i) : a->out;
        if (Py_IsNone(own)) continue;
        const DLPackExchangeAPI *api = a->api;
        outs[i] = api ? smm_view_of(own, &api) : PyArray_CheckExact(own) ? Py_NewRef(own) : NULL;
        if (!outs[i] || !is_apart((PyArrayObject *)outs[i], inputs, x->inputs)) return false;
        if (!is_apart((PyArrayObject *)outs[i], outs, i)) return false;
    }
    return true;
}

/* --- calls --- */

/* Whether info is not 0 anywhere; -1: an exception is set. */
static int has_failure(PyObject *info) {
    if (!PyArray_CheckExact(info)) return PyObject_IsTrue(info); /* a scalar */
    PyArrayObject *array = (PyArrayObject *)info;
    const int32_t *const x = PyArray_DATA(array);
    const npy_intp count = PyArray_SIZE(array);
    int32_t any = 0;
    for (npy_intp i = 0; i < count; i++) any |= x[i];
    return any != 0;
}

/* What the function returns, of its outputs, which are stolen. */
static PyObject *answer_of(const prepared_call *x, PyObject *outputs, bool failed) {
    const Py_ssize_t count = PyTuple_GET_SIZE(outputs);
    PyObject *answer = NULL, *make = x->make;
    if (x->info == INFO_APART && failed) make = x->failed;
    if (x->info == INFO_AMONG && !failed) {
        Py_DECREF(PyTuple_GET_ITEM(outputs, count - 1));
        PyTuple_SET_ITEM(outputs, count - 1, Py_NewRef(Py_None));
    }
    const Py_ssize_t results = count - (x->info == INFO_APART && !failed);
    if (!Py_IsNone(make)) {
        PyObject *list = PyList_New(results);
        for (Py_ssize_t i = 0; list && i < results; i++)
            PyList_SET_ITEM(list, i, Py_NewRef(PyTuple_GET_ITEM(outputs, i)));
        if (list) answer = PyObject_CallOneArg(make, list);
        Py_XDECREF(list);
    } else {
        answer = results == 1 ? Py_NewRef(PyTuple_GET_ITEM(outputs, 0)) : PyTuple_GetSlice(outputs, 0, results);
    }
    Py_DECREF(outputs);
    return answer;
}

/* The outputs of what is called as a program, whose last ones are the caller's or all new. */
static PyObject *call_object(const prepared_call *x, PyObject *const inputs[], bool has_outs, bool *failed) {
    PyObject *answer =
        has_outs ? Py_NewRef(Py_NotImplemented) : PyObject_Vectorcall(x->program, inputs, (size_t)x->inputs, NULL);
    if (!answer || Py_Is(answer, Py_NotImplemented)) return answer;
    PyObject *outputs = NULL;
    int any = 0;
    if (!PyTuple_Check(answer))
        PyErr_SetString(PyExc_TypeError, "a program returns a tuple");
    else if (PyArg_ParseTuple(answer, "O!p", &PyTuple_Type, &outputs, &any))
        outputs = PySequence_Tuple(outputs);
    *failed = any;
    Py_DECREF(answer);
    return outputs;
}

/* The call, if it takes these arguments; else NotImplemented. */
static PyObject *try_call(const prepared_call *x, const arguments *a) {
    PyObject *inputs[MAX_ARGUMENTS], *outs[MAX_ARGUMENTS] = {NULL}, *outputs = Py_NotImplemented;
    bool takes = x->inputs == a->count, failed = false;
    int made = 0;
    const bool is_program = Py_IS_TYPE(x->program, smm_program_type);
    for (; made < x->inputs && takes; made++) {
        PyObject *kind = PyTuple_GET_ITEM(x->numbers, made);
        if (Py_IsNone(kind))
            inputs[made] = Py_XNewRef(a->array[made]);
        else
            inputs[made] = is_program && (PyObject *)Py_TYPE(a->given[made]) == kind
                               ? as_array(a->given[made], smm_number_type(x->program, made))
                               : NULL;
        takes = inputs[made] != NULL;
    }
    for (int i = 0; i < made && takes && x->most; i++)
        takes = PyArray_SIZE((PyArrayObject *)inputs[i]) <= x->most || smm_get_num_threads() >= x->threads;
    takes = takes && (!a->out || take_outs(x, a, inputs, outs));
    if (takes && is_program)
        outputs = smm_call_program(x->program, inputs, outs, &failed);
    else if (takes)
        outputs = call_object(x, inputs, a->out != NULL, &failed);
    else
        outputs = PyErr_Occurred() ? NULL : Py_NewRef(Py_NotImplemented);
    while (made--) Py_XDECREF(inputs[made]);
    for (int i = 0; a->out && i < results_of(x); i++) Py_XDECREF(outs[i]);
    if (!outputs || Py_Is(outputs, Py_NotImplemented)) return outputs;
    if (x->info == INFO_AMONG) failed = has_failure(PyTuple_GET_ITEM(outputs, x->outputs - 1));
    if (a->api) outputs = in_library(outputs, a, results_of(x));
    return outputs ? answer_of(x, outputs, failed) : NULL;
}

/* The call of arrays on a device; a device is waited for if info is looked at. */
static PyObject *call_on_device(prepared *self, int count, PyObject *const *args, Py_ssize_t nargs, PyObject *names) {
    smm_buffer b[MAX_ON_DEVICE] = {0};
    arguments a = {0};
    int any = 0;
    if (nargs > MAX_ON_DEVICE || !smm_open_all(args, nargs, b)) Py_RETURN_NOTIMPLEMENTED;
    int status = take_keywords(&a, args + nargs, names);
    const prepared_call *x = NULL;
    for (int i = 0; i < count && !status && !a.out && !x; i++) {
        const prepared_call *own = __atomic_load_n(&self->calls[i], __ATOMIC_ACQUIRE);
        if (!own || !own->device || !smm_takes_on_device(own->device, b, nargs)) continue;
        bool fits = true;
        for (Py_ssize_t n = 0; n < nargs; n++)
            fits &= b[n].api || (PyObject *)Py_TYPE(args[n]) == PyTuple_GET_ITEM(own->numbers, n);
        const int same = fits ? has_keywords(own, a.keywords) : 0;
        if (same < 0) status = -1;
        if (same > 0) x = own;
    }
    forget(&a);
    if (status < 0) return NULL;
    if (!x) Py_RETURN_NOTIMPLEMENTED;
    PyObject *outputs = smm_run_on_device(x->device, args, b);
    if (outputs && x->info != NO_INFO) any = smm_any_on_device(PyTuple_GET_ITEM(outputs, x->outputs - 1));
    if (any < 0) Py_CLEAR(outputs);
    return outputs ? answer_of(x, outputs, any != 0) : NULL; /* what is not looked at here, Python looks at */
}

/* prepared(*inputs, out=None, **keywords) */
static PyObject *call(PyObject *object, PyObject *const *args, size_t nargsf, PyObject *names) {
    prepared *self = (prepared *)object;
    const int known = __atomic_load_n(&self->count, __ATOMIC_ACQUIRE), count = known < MAX_CALLS ? known : MAX_CALLS;
    if (!count || smm_is_offloading()) Py_RETURN_NOTIMPLEMENTED;
    const Py_ssize_t nargs = PyVectorcall_NARGS(nargsf);
    arguments a;
    int status = take_arguments(&a, args, nargs);
    if (status > 0) {
        forget(&a);
        return call_on_device(self, count, args, nargs, names);
    }
    if (!status) status = take_keywords(&a, args + nargs, names);
    PyObject *answer = status < 0 ? NULL : Py_NewRef(Py_NotImplemented);
    for (int i = 0; i < count && !status && answer && Py_Is(answer, Py_NotImplemented); i++) {
        const prepared_call *x = __atomic_load_n(&self->calls[i], __ATOMIC_ACQUIRE);
        const int fits = x && x->program ? has_keywords(x, a.keywords) : 0;
        Py_CLEAR(answer);
        answer = fits < 0 ? NULL : fits ? try_call(x, &a) : Py_NewRef(Py_NotImplemented);
    }
    forget(&a);
    return answer;
}

/* --- the type --- */

static void free_call(prepared_call *x) {
    if (!x) return;
    Py_XDECREF(x->program);
    smm_free_device_call(x->device);
    Py_XDECREF(x->numbers);
    Py_XDECREF(x->keywords);
    Py_XDECREF(x->make);
    Py_XDECREF(x->failed);
    PyMem_Free(x);
}

/* False if there are MAX_CALLS already. The program or launch of *x is stolen. */
static PyObject *added(prepared *self, prepared_call own, PyObject *keywords) {
    prepared_call *x = PyMem_Malloc(sizeof *x);
    int at = MAX_CALLS;
    if (x) {
        *x = own;
        Py_XINCREF(x->program);
        Py_INCREF(x->numbers);
        Py_INCREF(x->make);
        Py_INCREF(x->failed);
        x->keywords = PyDict_Copy(keywords);
        if (x->keywords) at = __atomic_fetch_add(&self->count, 1, __ATOMIC_RELAXED);
    } else {
        smm_free_device_call(own.device);
        PyErr_NoMemory();
    }
    if (at < MAX_CALLS) {
        __atomic_store_n(&self->calls[at], x, __ATOMIC_RELEASE);
        Py_RETURN_TRUE;
    }
    if (x && x->keywords) __atomic_fetch_sub(&self->count, 1, __ATOMIC_RELAXED);
    free_call(x);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_False);
}

/* Whether it can be: so many inputs and outputs, and what becomes of info. */
static bool is_possible(const prepared_call *x) {
    if (x->inputs <= MAX_ARGUMENTS && x->outputs >= 1 && x->outputs <= MAX_ARGUMENTS && x->info <= INFO_AMONG)
        return true;
    PyErr_SetString(PyExc_ValueError, "the program has other inputs or outputs");
    return false;
}

/* prepared.add(program, numbers, keywords, outputs, info, make, failed, most=0, threads=0) */
static PyObject *add(PyObject *object, PyObject *args) {
    prepared_call x = {0};
    PyObject *keywords;
    int info, outputs;
    if (!PyArg_ParseTuple(args, "OO!O!iiOO|ni", &x.program, &PyTuple_Type, &x.numbers, &PyDict_Type, &keywords,
                          &outputs, &info, &x.make, &x.failed, &x.most, &x.threads))
        return NULL;
    x.info = (info_kind)info;
    x.inputs = (int)PyTuple_GET_SIZE(x.numbers);
    x.outputs = outputs;
    if (Py_IS_TYPE(x.program, smm_program_type) && smm_program_sizes(x.program, &x.outputs) != x.inputs) x.outputs = -1;
    if (x.outputs != outputs) x.outputs = -1;
    return is_possible(&x) ? added((prepared *)object, x, keywords) : NULL;
}

/* prepared.add_on_device(launch, inputs, outputs, keywords, info, make, failed): a call of such arrays and numbers.
 * None if it cannot be prepared. */
static PyObject *add_on_device(PyObject *object, PyObject *args) {
    prepared_call x = {0};
    PyObject *launch, *inputs, *outputs, *keywords, *answer = NULL;
    int info;
    if (!PyArg_ParseTuple(args, "O!O!O!O!iOO", &PyTuple_Type, &launch, &PyTuple_Type, &inputs, &PyTuple_Type, &outputs,
                          &PyDict_Type, &keywords, &info, &x.make, &x.failed))
        return NULL;
    x.info = (info_kind)info;
    x.inputs = (int)PyTuple_GET_SIZE(inputs);
    x.outputs = (int)PyTuple_GET_SIZE(outputs);
    if (!is_possible(&x)) return NULL;
    x.numbers = PyTuple_New(x.inputs);
    if (!x.numbers) return NULL;
    for (int i = 0; i < x.inputs; i++)
        PyTuple_SET_ITEM(x.numbers, i, Py_NewRef((PyObject *)Py_TYPE(PyTuple_GET_ITEM(inputs, i))));
    x.device = smm_met_on_device(launch, inputs, outputs);
    if (x.device)
        answer = added((prepared *)object, x, keywords);
    else if (!PyErr_Occurred())
        answer = Py_NewRef(Py_None);
    Py_DECREF(x.numbers);
    return answer;
}

static PyObject *new(PyTypeObject *type, PyObject *Py_UNUSED(args), PyObject *Py_UNUSED(kwargs)) {
    prepared *self = (prepared *)type->tp_alloc(type, 0);
    if (self) self->call = call;
    return (PyObject *)self;
}

static int traverse(PyObject *object, visitproc visit, void *arg) {
    prepared *self = (prepared *)object;
    Py_VISIT(Py_TYPE(object));
    for (int i = 0; i < MAX_CALLS && self->calls[i]; i++) {
        Py_VISIT(self->calls[i]->program);
        Py_VISIT(self->calls[i]->keywords);
        Py_VISIT(self->calls[i]->make);
        Py_VISIT(self->calls[i]->failed);
    }
    return 0;
}

static int clear(PyObject *object) {
    prepared *self = (prepared *)object;
    self->count = 0;
    for (int i = 0; i < MAX_CALLS; i++) {
        prepared_call *x = self->calls[i];
        self->calls[i] = NULL;
        free_call(x);
    }
    return 0;
}

static void dealloc(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    clear(object);
    type->tp_free(object);
    Py_DECREF(type);
}

static PyMethodDef methods[] = {
    {"add", add, METH_VARARGS,
     "add(program, numbers, keywords, outputs, info, make, failed, most=0, threads=0, /)\n--\n\n"
     "A call for the inputs that the program takes. False: there are too many calls."},
    {"add_on_device", add_on_device, METH_VARARGS,
     "add_on_device(launch, inputs, outputs, keywords, info, make, failed, /)\n--\n\n"
     "A call for arrays of a device that lie as these. None: it cannot be prepared. False: as `add`."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(prepared, call), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, (void *)new},
    {Py_tp_dealloc, (void *)dealloc},
    {Py_tp_traverse, (void *)traverse},
    {Py_tp_clear, (void *)clear},
    {Py_tp_call, (void *)PyVectorcall_Call},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {Py_tp_doc, "Prepared()\n--\n\nThe calls of one function that were met before."},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "smallmm._core.Prepared",
    .basicsize = sizeof(prepared),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .slots = slots,
};

/* any_failed(info): whether info is not 0 anywhere; None: it is no array of int32 on the host without more to it. */
static PyObject *any_failed(PyObject *Py_UNUSED(module), PyObject *info) {
    const DLPackExchangeAPI *api = NULL;
    PyObject *view = PyArray_CheckExact(info) ? Py_NewRef(info) : smm_view_of(info, &api);
    if (!view) return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    PyArrayObject *array = (PyArrayObject *)view;
    PyObject *answer = Py_None;
    if (PyArray_TYPE(array) == NPY_INT32 && PyArray_IS_C_CONTIGUOUS(array))
        answer = has_failure(view) ? Py_True : Py_False;
    Py_DECREF(view);
    return Py_NewRef(answer);
}

int smm_add_prepared(PyObject *module) {
    static PyMethodDef functions[] = {
        {"any_failed", any_failed, METH_O, NULL},
        {NULL, NULL, 0, NULL},
    };
    return PyModule_AddFunctions(module, functions) < 0 ? -1 : smm_add(module, "Prepared", PyType_FromSpec(&spec));
}
