/* programs.c: smallmm._core.Program, a program that runs on arrays. smallmm/_programs/compile.py describes the steps;
 * this file checks, broadcasts and allocates arrays.
 *
 * A program is made for the core shapes, core strides and dtypes of its inputs; for others it returns NotImplemented,
 * as direct.c does. It is planned for each set of batch strides that it meets, and the plans are kept. */
#include <string.h>

#include "arrays.h"

enum { MAX_GIVEN = 64, MAX_CORE = 8, MAX_PLANS = 8 };

/* An input or an output: its value, and the arrays that it accepts. */
typedef struct given {
    int value, type, core;
    intptr_t shape[MAX_CORE], stride[MAX_CORE];
} given;

/* A plan for such batch strides, and the kernels that were chosen at the time. */
typedef struct plan {
    struct plan *next;
    smm_planned *planned;
    unsigned choice;
    int carries; /* of a loop; -1: the steps run once */
    intptr_t batch[MAX_GIVEN];
} plan;

/* How a call runs the steps again and again: the first `carries` outputs become the first inputs of the next time. */
typedef struct loop {
    int carries, columns; /* columns: of info, the last output; 0: there is none */
    intptr_t length, every;
    intptr_t stride[MAX_GIVEN]; /* bytes from one time to the next */
} loop;

typedef struct program {
    PyObject_HEAD smm_program program;
    smm_value *value;
    smm_step *step;
    smm_outer *outer; /* of the steps that have one */
    PyObject *constants;
    int inputs, outputs; /* the last output is the info of all steps that have one, unless none has */
    given given[MAX_GIVEN];
    plan *plans; /* only added to, until there are MAX_PLANS */
    int count_of_plans;
    smm_program_info info;
} program;

/* --- from a description --- */

static bool parse_sizes(PyObject *tuple, intptr_t *to, Py_ssize_t most, int *count) {
    if (!PyTuple_Check(tuple) || PyTuple_GET_SIZE(tuple) > most) return false;
    *count = (int)PyTuple_GET_SIZE(tuple);
    for (int i = 0; i < *count; i++) to[i] = PyLong_AsSsize_t(PyTuple_GET_ITEM(tuple, i));
    return !PyErr_Occurred();
}

/* (value, offset, row, column, outer strides), or None where an operand is missing */
static bool parse_operand(PyObject *x, smm_step *step, smm_outer *outer, int i) {
    step->value[i] = -1;
    if (Py_IsNone(x)) return true;
    PyObject *strides;
    intptr_t own[SMM_MAX_DIMS];
    int count;
    smm_operand *to = &step->call.operand[i];
    if (!PyArg_ParseTuple(x, "innnO", &step->value[i], &step->offset[i], &to->row, &to->col, &strides)) return false;
    if (!parse_sizes(strides, own, SMM_MAX_DIMS, &count) || count != outer->dims) return false;
    for (int d = 0; d < count; d++) outer->stride[d][i] = own[d];
    return true;
}

/* (kind, function or operation, form, dtype, to, from, (m, n, k), outer extents, operands) */
static bool parse_step(PyObject *x, smm_step *step, smm_outer *outer) {
    int kind, which, form, dtype, sizes;
    PyObject *shape, *extents, *operands;
    intptr_t size[3];
    if (!PyArg_ParseTuple(x, "iiiiiiOOO!", &kind, &which, &form, &dtype, &step->to, &step->from, &shape, &extents,
                          &PyTuple_Type, &operands))
        return false;
    if (!parse_sizes(shape, size, 3, &sizes) || sizes != 3) return false;
    if (!parse_sizes(extents, outer->extent, SMM_MAX_DIMS, &outer->dims)) return false;
    step->kind = kind;
    step->function = kind == SMM_STEP_MAP ? (smm_function)which : 0;
    step->skips = kind == SMM_STEP_UNLESS ? which : 0;
    step->call = (smm_call){.op = kind == SMM_STEP_CALL ? (smm_op)which : 0,
                            .dtype = (smm_dtype)dtype,
                            .form = (unsigned)form,
                            .m = size[0],
                            .n = size[1],
                            .k = size[2],
                            .outer = outer->dims ? outer : NULL};
    if (PyTuple_GET_SIZE(operands) > SMM_MAX_OPERANDS) return false;
    for (int i = 0; i < SMM_MAX_OPERANDS; i++) step->value[i] = -1;
    for (int i = 0; i < PyTuple_GET_SIZE(operands); i++)
        if (!parse_operand(PyTuple_GET_ITEM(operands, i), step, outer, i)) return false;
    return true;
}

/* (kind, bytes of a matrix, array of a constant or None) */
static bool parse_value(PyObject *x, smm_value *value) {
    int kind;
    PyObject *array;
    if (!PyArg_ParseTuple(x, "inO", &kind, &value->batch, &array)) return false;
    value->kind = kind;
    value->data = PyArray_Check(array) ? PyArray_DATA((PyArrayObject *)array) : NULL;
    return true;
}

/* (value, dtype, core shape, core strides) */
static bool parse_given(PyObject *x, given *to) {
    PyArray_Descr *dtype = NULL;
    PyObject *shape, *strides;
    int count;
    if (!PyArg_ParseTuple(x, "iO&OO", &to->value, PyArray_DescrConverter, &dtype, &shape, &strides)) return false;
    to->type = dtype->type_num;
    Py_DECREF(dtype);
    return parse_sizes(shape, to->shape, MAX_CORE, &to->core) && parse_sizes(strides, to->stride, MAX_CORE, &count);
}

static int fill(program *self, PyObject *values, PyObject *steps, PyObject *inputs, PyObject *outputs) {
    const Py_ssize_t count_of_values = PyTuple_GET_SIZE(values), count_of_steps = PyTuple_GET_SIZE(steps);
    self->inputs = (int)PyTuple_GET_SIZE(inputs);
    self->outputs = (int)PyTuple_GET_SIZE(outputs);
    self->value = PyMem_Calloc((size_t)count_of_values + 1, sizeof *self->value);
    self->step = PyMem_Calloc((size_t)count_of_steps + 1, sizeof *self->step);
    self->outer = PyMem_Calloc((size_t)count_of_steps + 1, sizeof *self->outer);
    if (!self->value || !self->step || !self->outer) {
        PyErr_NoMemory();
        return -1;
    }
    self->program = (smm_program){(int)count_of_values, (int)count_of_steps, self->value, self->step, NULL};
    bool valid = self->inputs + self->outputs <= MAX_GIVEN;
    for (int v = 0; v < count_of_values && valid; v++)
        valid = parse_value(PyTuple_GET_ITEM(values, v), &self->value[v]);
    for (int s = 0; s < count_of_steps && valid; s++)
        valid = parse_step(PyTuple_GET_ITEM(steps, s), &self->step[s], &self->outer[s]);
    for (int i = 0; i < self->inputs && valid; i++) valid = parse_given(PyTuple_GET_ITEM(inputs, i), &self->given[i]);
    for (int i = 0; i < self->outputs && valid; i++)
        valid = parse_given(PyTuple_GET_ITEM(outputs, i), &self->given[self->inputs + i]);
    for (int i = 0; i < self->inputs + self->outputs && valid; i++)
        valid = self->given[i].value >= 0 && self->given[i].value < count_of_values;
    if (!valid && !PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "the description of a program is wrong");
    return valid ? 0 : -1;
}

/* --- plans --- */

static void free_plan(plan *x) {
    if (x) smm_free_program(x->planned);
    PyMem_Free(x);
}

/* The carries and info of a loop over the program, whose values these arrays are. */
static smm_loop loop_of(const program *self, const loop *times, PyArrayObject *const arrays[], smm_carry carry[]) {
    const given *last = &self->given[self->inputs + self->outputs - 1];
    for (int c = 0; c < times->carries; c++) {
        carry[c] = (smm_carry){self->given[self->inputs + c].value, self->given[c].value, PyArray_ITEMSIZE(arrays[c])};
        for (int d = 0; d < self->given[c].core; d++) carry[c].bytes *= self->given[c].shape[d];
    }
    return (smm_loop){times->carries, carry, times->columns ? last->value : -1, times->columns};
}

/* A plan for these batch strides, old or new. *keep: the program owns it, not the caller. NULL: an exception is set. */
static plan *plan_for(program *self, const intptr_t batch[], const loop *times, PyArrayObject *const arrays[],
                      bool *keep) {
    const int count = self->inputs + self->outputs, carries = times ? times->carries : -1;
    const unsigned choice = smm_choice();
    *keep = true;
    for (plan *x = __atomic_load_n(&self->plans, __ATOMIC_ACQUIRE); x; x = x->next)
        if (x->choice == choice && x->carries == carries && !memcmp(x->batch, batch, (size_t)count * sizeof *batch))
            return x;
    plan *x = PyMem_Calloc(1, sizeof *x);
    if (!x) return (plan *)PyErr_NoMemory();
    x->choice = choice;
    x->carries = carries;
    smm_carry carry[MAX_GIVEN];
    const smm_loop own_loop = times ? loop_of(self, times, arrays, carry) : (smm_loop){0};
    smm_value *values = PyMem_Calloc((size_t)self->program.values + 1, sizeof *values);
    smm_status status = SMM_ERR_MEMORY;
    if (values) {
        memcpy(values, self->value, (size_t)self->program.values * sizeof *values);
        for (int i = 0; i < count; i++) values[self->given[i].value].batch = x->batch[i] = batch[i];
        smm_program own = self->program;
        own.value = values;
        own.loop = times ? &own_loop : NULL;
        status = smm_plan_program(&own, &x->planned, &self->info);
    }
    PyMem_Free(values);
    if (status) {
        free_plan(x);
        return (plan *)smm_raise(status, NULL);
    }
    *keep = __atomic_fetch_add(&self->count_of_plans, 1, __ATOMIC_RELAXED) < MAX_PLANS;
    if (!*keep) return x;
    x->next = __atomic_load_n(&self->plans, __ATOMIC_ACQUIRE);
    while (!__atomic_compare_exchange_n(&self->plans, &x->next, x, false, __ATOMIC_RELEASE, __ATOMIC_ACQUIRE));
    return x;
}

/* --- calls --- */

/* Batch dimensions, innermost first, with a stride for each array. */
typedef struct batch {
    int dims;
    intptr_t extent[NPY_MAXDIMS], stride[NPY_MAXDIMS][MAX_GIVEN];
} batch;

static bool is_supported(const given *x, PyObject *object) {
    if (!PyArray_CheckExact(object)) return false;
    PyArrayObject *array = (PyArrayObject *)object;
    const int type = PyArray_TYPE(array); /* long and long long are one type of two names */
    if (type != x->type && !PyArray_EquivTypenums(type, x->type)) return false;
    if (!PyArray_ISALIGNED(array) || !PyArray_ISNOTSWAPPED(array)) return false;
    const int first = PyArray_NDIM(array) - x->core;
    if (first < 0) return false;
    for (int d = 0; d < x->core; d++) {
        if (PyArray_DIM(array, first + d) != x->shape[d]) return false;
        if (x->shape[d] > 1 && PyArray_STRIDE(array, first + d) != x->stride[d]) return false;
    }
    return true;
}

static bool broadcast(const given *x, PyArrayObject *array, int *dims, intptr_t extent[NPY_MAXDIMS]) {
    return smm_broadcast(PyArray_DIMS(array), PyArray_NDIM(array) - x->core, dims, extent);
}

/* Merge dimensions where every array steps evenly through them. */
static void merge(batch *to, int dims, const intptr_t extent[], const program *self, PyArrayObject *const arrays[]) {
    const int count = self->inputs + self->outputs;
    to->dims = 0;
    for (int d = 0; d < dims; d++) {
        if (extent[d] == 1) continue;
        intptr_t *stride = to->stride[to->dims];
        bool merges = to->dims > 0;
        for (int i = 0; i < count; i++) {
            const int own = PyArray_NDIM(arrays[i]) - self->given[i].core - 1 - d;
            const bool moves = own >= 0 && PyArray_DIM(arrays[i], own) != 1 && PyArray_SIZE(arrays[i]);
            stride[i] = moves ? PyArray_STRIDE(arrays[i], own) : 0;
            merges = merges && stride[i] == to->stride[to->dims - 1][i] * to->extent[to->dims - 1];
        }
        if (merges)
            to->extent[to->dims - 1] *= extent[d];
        else
            to->extent[to->dims++] = extent[d];
    }
}

/* The dimension that becomes the batch. */
static int longest(const batch *x) {
    int found = 0;
    for (int d = 1; d < x->dims && x->extent[0] < 32; d++)
        if (x->extent[d] > x->extent[found]) found = d;
    return found;
}

/* Run it. 0: done, -1: an exception is set. */
static int run(program *self, PyArrayObject *const arrays[], int dims, const intptr_t extent[], const loop *times,
               bool *failed) {
    static const intptr_t no_strides[MAX_GIVEN];
    const int count = self->inputs + self->outputs, values = self->program.values, steps = self->program.steps;
    /* behind x: the address of each value, its strides in outer dimensions and in time, and whether each step failed */
    const size_t behind = (size_t)values * (size_t)(dims + 3) * sizeof(intptr_t) + (size_t)steps;
    batch *const x = PyMem_Malloc(sizeof *x + behind);
    if (!x) {
        PyErr_NoMemory();
        return -1;
    }
    void **const data = memset(x + 1, 0, behind);
    intptr_t *strides = (intptr_t *)(void *)(data + values);
    bool *const failures = (bool *)(strides + values * (dims + 2));
    bool keep = true;
    merge(x, dims, extent, self, arrays);
    const int own = longest(x);
    plan *const its = plan_for(self, x->dims ? x->stride[own] : no_strides, times, arrays, &keep);
    smm_status status = SMM_OK;
    if (its) {
        intptr_t extents[NPY_MAXDIMS];
        smm_repeats outer = {.extent = extents, .stride = strides};
        for (int i = 0; i < count; i++) data[self->given[i].value] = PyArray_DATA(arrays[i]);
        for (int d = 0; d < x->dims; d++) {
            if (d == own) continue;
            extents[outer.dims++] = x->extent[d];
            for (int i = 0; i < count; i++) strides[self->given[i].value] = x->stride[d][i];
            strides += values;
        }
        for (int i = 0; i < count && times; i++) strides[self->given[i].value] = times->stride[i];
        const smm_times of_loop = times ? (smm_times){times->length, times->every, strides} : (smm_times){0};
        status = SMM_WITHOUT_GIL(smm_run_program(its->planned, x->dims ? x->extent[own] : 1, data, &outer,
                                                 times ? &of_loop : NULL, times ? NULL : failures));
        if (status) smm_raise(status, NULL);
        for (int s = 0; s < steps; s++) *failed |= failures[s];
    }
    if (!keep) free_plan(its);
    PyMem_Free(x);
    return its && !status ? 0 : -1;
}

/* An array for an output: the given one if it fits, else a new one. NULL: it does not fit, or an exception is set. */
static PyObject *output_for(const given *x, PyObject *own, int dims, const intptr_t extent[]) {
    npy_intp shape[NPY_MAXDIMS + MAX_CORE];
    if (dims + x->core > NPY_MAXDIMS) return NULL;
    for (int d = 0; d < dims; d++) shape[d] = extent[dims - 1 - d];
    for (int d = 0; d < x->core; d++) shape[dims + d] = x->shape[d];
    if (!own) return PyArray_SimpleNew(dims + x->core, shape, x->type);
    if (!is_supported(x, own)) return NULL;
    PyArrayObject *array = (PyArrayObject *)own;
    bool fits = PyArray_NDIM(array) == dims + x->core && PyArray_ISWRITEABLE(array);
    for (int d = 0; d < dims && fits; d++) fits = PyArray_DIM(array, d) == shape[d];
    return fits ? Py_NewRef(own) : NULL;
}

PyObject *smm_call_program(PyObject *object, PyObject *const inputs[], PyObject *const outs[], bool *failed) {
    program *self = (program *)object;
    PyArrayObject *arrays[MAX_GIVEN] = {NULL};
    intptr_t extent[NPY_MAXDIMS];
    int dims = 0;
    for (int i = 0; i < self->inputs; i++) {
        if (!is_supported(&self->given[i], inputs[i])) Py_RETURN_NOTIMPLEMENTED;
        arrays[i] = (PyArrayObject *)inputs[i];
        if (!broadcast(&self->given[i], arrays[i], &dims, extent)) Py_RETURN_NOTIMPLEMENTED;
    }
    bool has_results = false;
    PyObject *outputs = PyTuple_New(self->outputs);
    for (int i = 0; i < self->outputs && outputs; i++) {
        PyObject *output = output_for(&self->given[self->inputs + i], outs ? outs[i] : NULL, dims, extent);
        if (!output) {
            Py_DECREF(outputs);
            return PyErr_Occurred() ? NULL : Py_NewRef(Py_NotImplemented);
        }
        arrays[self->inputs + i] = (PyArrayObject *)output;
        PyTuple_SET_ITEM(outputs, i, output);
        has_results |= PyArray_SIZE(arrays[self->inputs + i]) > 0;
    }
    *failed = false;
    if (outputs && has_results && run(self, arrays, dims, extent, NULL, failed) < 0) Py_CLEAR(outputs);
    for (int i = 0; outputs && dims == 0 && i < self->outputs; i++) /* numbers become scalars */
        if (!self->given[self->inputs + i].core && !(outs && outs[i]))
            PyTuple_SET_ITEM(outputs, i, PyArray_Return(arrays[self->inputs + i]));
    return outputs;
}

PyTypeObject *smm_program_type;

int smm_program_sizes(PyObject *object, int *outputs) {
    *outputs = ((program *)object)->outputs;
    return ((program *)object)->inputs;
}

int smm_number_type(PyObject *object, int i) {
    const given *x = &((program *)object)->given[i];
    return x->core ? -1 : x->type;
}

/* program(*inputs, *outputs): (outputs, whether some info is not 0), or NotImplemented. All outputs or none are given.
 */
static PyObject *call(PyObject *object, PyObject *args, PyObject *kwargs) {
    program *self = (program *)object;
    const Py_ssize_t nargs = PyTuple_GET_SIZE(args);
    PyObject *const *given = &PyTuple_GET_ITEM(args, 0);
    if (kwargs || (nargs != self->inputs && nargs != self->inputs + self->outputs)) Py_RETURN_NOTIMPLEMENTED;
    bool failed;
    PyObject *outputs = smm_call_program(object, given, nargs > self->inputs ? given + self->inputs : NULL, &failed);
    return !outputs || Py_Is(outputs, Py_NotImplemented) ? outputs
                                                         : Py_BuildValue("(NN)", outputs, PyBool_FromLong(failed));
}

/* --- loops --- */

/* Whether an array can be info of a loop, which is three numbers for each matrix. */
static bool is_info(PyObject *object) {
    if (!PyArray_CheckExact(object)) return false;
    PyArrayObject *array = (PyArrayObject *)object;
    const int last = PyArray_NDIM(array) - 1;
    return PyArray_TYPE(array) == NPY_INT32 && last >= 0 && PyArray_DIM(array, last) == 3 &&
           PyArray_IS_C_CONTIGUOUS(array);
}

/* loop(arrays, carries, columns, length, every, strides): whether these arrays, inputs and then outputs, were taken.
 * The steps run `length` times. Each array is that of the first time, of an output that of the first time that is
 * written, and the strides lead to the next; the first `carries` outputs are the inputs of the next time. columns: of
 * info, which is the last output, 0 if there is none. */
static PyObject *run_loop(PyObject *object, PyObject *args) {
    program *self = (program *)object;
    const int count = self->inputs + self->outputs;
    PyObject *given, *strides;
    loop x = {0};
    int steps, dims = 0;
    if (!PyArg_ParseTuple(args, "O!iinnO", &PyTuple_Type, &given, &x.carries, &x.columns, &x.length, &x.every,
                          &strides))
        return NULL;
    PyArrayObject *arrays[MAX_GIVEN];
    intptr_t extent[NPY_MAXDIMS];
    if (PyTuple_GET_SIZE(given) != count || !parse_sizes(strides, x.stride, MAX_GIVEN, &steps) || steps != count ||
        x.carries > self->inputs || x.carries > self->outputs) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "the description of a loop is wrong");
        return NULL;
    }
    for (int i = 0; i < count; i++) {
        PyObject *array = PyTuple_GET_ITEM(given, i);
        const bool taken = x.columns && i == count - 1 ? is_info(array) : is_supported(&self->given[i], array);
        arrays[i] = (PyArrayObject *)array;
        if (!taken || !broadcast(&self->given[i], arrays[i], &dims, extent)) Py_RETURN_FALSE;
    }
    bool any = true, failed = false;
    for (int d = 0; d < dims; d++) any = any && extent[d];
    if (any && run(self, arrays, dims, extent, &x, &failed) < 0) return NULL;
    Py_RETURN_TRUE;
}

/* steps_for_outputs(carries): the steps of a loop with so many carries that need not run where no output is written. */
static PyObject *steps_for_outputs(PyObject *object, PyObject *carries) {
    const program *self = (program *)object;
    const long count = PyLong_AsLong(carries);
    if (count < 0 || count > self->outputs)
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "a program has no %ld carries", count);
    int *carried = PyMem_Calloc((size_t)self->program.values + 1, sizeof *carried);
    bool *for_outputs = PyMem_Calloc((size_t)self->program.steps + 1, sizeof *for_outputs);
    PyObject *found = carried && for_outputs ? PyList_New(0) : PyErr_NoMemory();
    if (found) {
        for (long c = 0; c < count; c++) carried[self->given[self->inputs + c].value] = true;
        smm_find_steps_for_outputs(&self->program, carried, for_outputs);
    }
    for (int s = 0; found && s < self->program.steps; s++)
        if (for_outputs[s]) smm_append(&found, PyLong_FromLong(s));
    PyMem_Free(carried);
    PyMem_Free(for_outputs);
    return smm_as_tuple(found);
}

/* --- the type --- */

static PyObject *new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    PyObject *values, *steps, *inputs, *outputs, *constants;
    static char *names[] = {"values", "steps", "inputs", "outputs", "constants", NULL};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O!O!O!O!", names, &PyTuple_Type, &values, &PyTuple_Type, &steps,
                                     &PyTuple_Type, &inputs, &PyTuple_Type, &outputs, &PyTuple_Type, &constants))
        return NULL;
    program *self = (program *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    self->constants = Py_NewRef(constants);
    if (fill(self, values, steps, inputs, outputs) < 0) Py_CLEAR(self);
    return (PyObject *)self;
}

static void dealloc(PyObject *object) {
    program *self = (program *)object;
    PyTypeObject *type = Py_TYPE(object);
    for (plan *x = self->plans, *next; x; x = next) {
        next = x->next;
        free_plan(x);
    }
    PyMem_Free(self->value);
    PyMem_Free(self->step);
    PyMem_Free(self->outer);
    Py_XDECREF(self->constants);
    type->tp_free(object);
    Py_DECREF(type);
}

/* Properties of the last plan per matrix, and the kernels of the steps, of which some decide about others. */
static PyObject *plan_info(PyObject *object, void *Py_UNUSED(closure)) {
    program *self = (program *)object;
    const smm_program_info *x = &self->info;
    const plan *last = __atomic_load_n(&self->plans, __ATOMIC_ACQUIRE);
    PyObject *kernels = PyList_New(0);
    for (int s = 0; kernels && last && s < self->program.steps; s++) {
        if (self->step[s].kind == SMM_STEP_UNLESS) continue;
        const char *name = smm_kernel_of_step(last->planned, s);
        smm_append(&kernels, name ? PyUnicode_FromString(name) : Py_NewRef(Py_None));
    }
    kernels = smm_as_tuple(kernels);
    if (!kernels) return NULL;
    return Py_BuildValue("{s:n,s:n,s:d,s:d,s:d,s:N}", "tile", (Py_ssize_t)x->tile, "temporaries",
                         (Py_ssize_t)x->temporaries, "flops", x->flops, "bytes", x->bytes, "saved", x->saved, "kernels",
                         kernels);
}

static PyGetSetDef attributes[] = {
    {"plan", plan_info, NULL, "What the last plan says of a matrix; 0 before there is one.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef methods[] = {
    {"loop", run_loop, METH_VARARGS, "Run the steps again and again."},
    {"steps_for_outputs", steps_for_outputs, METH_O, "Steps of a loop that need not run where no output is written."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, (void *)new},
    {Py_tp_methods, methods},
    {Py_tp_dealloc, (void *)dealloc},
    {Py_tp_call, (void *)call},
    {Py_tp_getset, attributes},
    {Py_tp_doc, "Program(values, steps, inputs, outputs, constants)\n--\n\nSteps over values, which run on arrays."},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "smallmm._core.Program",
    .basicsize = sizeof(program),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = slots,
};

/* {name: (number, arguments)} of the element-wise functions. */
static PyObject *functions(void) {
    PyObject *all = PyDict_New();
    static const struct {
        const char *name;
        int arguments;
    } rows[SMM_FUNCTIONS] = {
#define SMM_FUNCTION(NAME, name, arguments, ...) {#name, arguments},
#include "../defs/functions.def"
#undef SMM_FUNCTION
    };
    for (int i = 0; i < SMM_FUNCTIONS && all; i++)
        smm_set_key(&all, rows[i].name, Py_BuildValue("(ii)", i, rows[i].arguments));
    return all;
}

int smm_add_programs(PyObject *module) {
    smm_program_type = (PyTypeObject *)PyType_FromSpec(&spec);
    if (smm_add(module, "Program", Py_XNewRef(smm_program_type)) < 0) return -1;
    return smm_add(module, "functions", functions());
}
