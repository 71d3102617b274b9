/* module.c: the extension module smallmm._core: the gufuncs of gufuncs.c and a few functions around them. The Python
 * package checks arguments and words messages. */
#define SMM_IMPORTS_NUMPY
#include "device/buffers.h"

#include <string.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/syscall.h>
#endif

static PyObject *isa(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored)) {
    return PyUnicode_FromString(smm_isa());
}

/* Whether a signal handler has raised an exception, which is then set. Python runs handlers in its main thread only. A
 * loop of NumPy's could not say so. */
static bool interrupted(void) {
    if (smm_is_uninterrupted) return false;
#if defined(__linux__)
    if (getpid() != (pid_t)syscall(SYS_gettid)) return false;
#endif
    const PyGILState_STATE gil = PyGILState_Ensure();
    const bool raised = PyErr_CheckSignals() < 0;
    PyGILState_Release(gil);
    return raised;
}

static PyObject *select_by(smm_status select(const char *name), PyObject *name) {
    const char *text = Py_IsNone(name) ? NULL : PyUnicode_AsUTF8(name);
    if (PyErr_Occurred()) return NULL;
    const smm_status status = select(text);
    return status ? smm_raise(status, text) : Py_NewRef(Py_None);
}

static PyObject *select_isa(PyObject *Py_UNUSED(module), PyObject *name) { return select_by(smm_select_isa, name); }

static PyObject *select_kernel(PyObject *Py_UNUSED(module), PyObject *name) {
    return select_by(smm_select_kernel, name);
}

static PyObject *get_num_threads(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored)) {
    const int threads = smm_get_num_threads();
    return threads ? PyLong_FromLong(threads) : smm_raise(SMM_ERR_THREADS, NULL);
}

static PyObject *set_num_threads(PyObject *Py_UNUSED(module), PyObject *number) {
    const long threads = PyLong_AsLong(number);
    if (threads == -1 && PyErr_Occurred()) return NULL;
    const smm_status status = threads == (int)threads ? smm_set_num_threads((int)threads) : SMM_ERR_ARGUMENT;
    if (status == SMM_ERR_ARGUMENT)
        return PyErr_Format(PyExc_ValueError,
                            "set_num_threads: threads is %ld; expected a number >= 0 (0: the default)", threads);
    return status ? smm_raise(status, NULL) : Py_NewRef(Py_None);
}

static smm_status take_plan(smm_hook *hook, const smm_call *call) {
    smm_plan_info plan;
    const smm_status status = smm_explain(call, &plan);
    if (status && status != SMM_ERR_ORDER) return status; /* the package handles this: no kernel */
    if (!hook->calls++) hook->plan = plan, hook->op = call->op, hook->form = call->form;
    hook->matrices += call->batch * smm_runs(call);
    hook->flops += plan.flops;
    hook->bytes += plan.bytes;
    return SMM_OK;
}

static void take_plan_of_many(smm_hook *hook, const smm_call *calls, size_t count) {
    if ((size_t)hook->calls == count) smm_explain_many(calls, count, &hook->plan);
}

static intptr_t products_of(const smm_convolution *c) {
    intptr_t count = c->groups;
    for (int d = 0; d < c->batch->dims; d++) count *= c->batch->extent[d];
    return count;
}

static smm_status take_convolution(smm_hook *hook, const smm_convolution *c) {
    smm_plan_info plan;
    const smm_status status = smm_explain_convolution(c, &plan);
    if (status) return status;
    if (!hook->calls++) hook->plan = plan, hook->op = SMM_OP_MATMUL;
    hook->matrices += plan.kernel ? products_of(c) : 0;
    hook->flops += plan.flops;
    hook->bytes += plan.bytes;
    return SMM_OK;
}

/* isa stays NULL: the kernel's name has the architecture. */
static void take_device_plan(smm_hook *hook, const smm_device_plan *plan) {
    smm_plan_info work = {0};
    if (plan->convolution)
        smm_explain_convolution(plan->convolution, &work);
    else
        smm_explain(plan->call, &work);
    if (!hook->calls++) {
        hook->op = plan->convolution ? SMM_OP_MATMUL : plan->call->op;
        hook->form = plan->convolution ? 0 : plan->call->form;
        memcpy(hook->device_kernel, plan->kernel, sizeof hook->device_kernel);
        hook->source = plan->source;
        hook->tuned_on = plan->tuned_on;
        hook->plan = (smm_plan_info){.kernel = hook->device_kernel,
                                     .computed = work.computed,
                                     .swapped = plan->swapped,
                                     .threads = plan->threads,
                                     .parts = work.rows ? work.parts : 1,
                                     .rows = work.rows,
                                     .group = plan->matrices};
    }
    hook->matrices += plan->convolution ? products_of(plan->convolution) : plan->call->batch * smm_runs(plan->call);
    hook->flops += work.flops;
    hook->bytes += work.bytes;
}

/* ((id of a node, its share of the matrices), ...); empty: there is but one, or one thread. */
static PyObject *shares_of(const smm_plan_info *plan) {
    const int count = plan->nodes > 1 ? plan->nodes : 0;
    PyObject *shares = PyTuple_New(count);
    for (int i = 0; shares && i < count; i++)
        smm_set_item(&shares, i, Py_BuildValue("(id)", plan->node[i], plan->share[i]));
    return shares;
}

static PyObject *flag(bool x) { return x ? Py_True : Py_False; }

static PyObject *explain(PyObject *Py_UNUSED(module), PyObject *args, PyObject *kwargs) {
    smm_hook hook = {.take = take_plan,
                     .take_many = take_plan_of_many,
                     .take_device = take_device_plan,
                     .take_convolution = take_convolution};
    PyObject *result = smm_call_with(&hook, args, 0, kwargs);
    if (!result) return NULL;
    Py_DECREF(result);
    const smm_plan_info *plan = &hook.plan;
    return Py_BuildValue(
        "{s:s,s:I,s:z,s:z,s:z,s:O,s:O,s:O,s:O,s:O,s:i,s:n,s:n,s:n,s:n,s:n,s:d,s:d,s:z,s:z,s:N}", "operation",
        smm_operations[hook.op].name, "form", hook.form, "kernel", plan->kernel, "isa", plan->isa, "computed",
        plan->computed, "swapped", flag(plan->swapped), "pack_a", flag(plan->pack_a), "pack_b", flag(plan->pack_b),
        "stage_c", flag(plan->stage_c), "nontemporal", flag(plan->nontemporal), "threads", plan->threads, "parts",
        (Py_ssize_t)plan->parts, "rows", (Py_ssize_t)plan->rows, "group", (Py_ssize_t)plan->group, "calls",
        (Py_ssize_t)hook.calls, "matrices", (Py_ssize_t)hook.matrices, "flops", hook.flops, "bytes", hook.bytes,
        "source", hook.source, "tuned_on", hook.tuned_on, "nodes", shares_of(plan));
}

static smm_status take_reference(smm_hook *Py_UNUSED(hook), const smm_call *call) {
    smm_reference(call);
    return SMM_OK;
}

static PyObject *reference(PyObject *Py_UNUSED(module), PyObject *args, PyObject *kwargs) {
    smm_hook hook = {.take = take_reference};
    return smm_call_with(&hook, args, 0, kwargs);
}

/* ((operand, "in" or "out", whether it is optional, element, rows, columns), ...) */
static PyObject *operands_of(const smm_operation *operation) {
    static const char *const elements[SMM_ELEMENTS] = {"number", "real", "complex", "int32"};
    static const char *const sizes[SMM_SIZES] = {"1", "m", "n", "k"};
    PyObject *rows = PyTuple_New(operation->count);
    for (int i = 0; rows && i < operation->count; i++) {
        const smm_operand_row *x = &operation->operand[i];
        smm_set_item(&rows, i,
                     Py_BuildValue("(ssOsss)", x->name, x->direction & SMM_READ ? "in" : "out",
                                   flag(x->direction & SMM_OPTIONAL), elements[x->element], sizes[x->rows],
                                   sizes[x->cols]));
    }
    return rows;
}

/* {name: its operands} of the operations, in the order of the C enumeration. */
static PyObject *operations(void) {
    PyObject *all = PyDict_New();
    for (int op = 0; all && op < SMM_OPS; op++)
        smm_set_key(&all, smm_operations[op].name, operands_of(&smm_operations[op]));
    return all;
}

/* The names of what elements in memory may be, in the order of the C enumerations: `count` of them. */
static PyObject *elements(int count) {
    static const char *const all[SMM_TYPES] = {
#define ROW(x, NAME, name, ...) #name,
        SMM_DTYPES(ROW, _) SMM_INTEGERS(ROW, _)
#undef ROW
            "bool"};
    PyObject *names = PyTuple_New(count);
    for (int type = 0; names && type < count; type++) smm_set_item(&names, type, PyUnicode_FromString(all[type]));
    return names;
}

/* The names of the operations that take complex numbers, here or on a device. */
static PyObject *complex_operations(bool takes(smm_op, smm_dtype)) {
    PyObject *names = PyList_New(0);
    for (int op = 0; names && op < SMM_OPS; op++)
        if (takes((smm_op)op, SMM_C128)) smm_append(&names, PyUnicode_FromString(smm_operations[op].name));
    return smm_as_tuple(names);
}

/* {name: (operation, form)} of the gufuncs. */
static PyObject *gufunc_rows(PyObject *module) {
    PyObject *direct = PyObject_GetAttrString(module, "direct"), *rows = direct ? PyDict_New() : NULL, *name, *function;
    for (Py_ssize_t at = 0; rows && PyDict_Next(direct, &at, &name, &function);) {
        const smm_gufunc *g = smm_gufunc_of(PyCFunction_GET_SELF(function));
        smm_set_key(&rows, g->name, Py_BuildValue("(sI)", smm_operations[g->op].name, g->form));
    }
    Py_XDECREF(direct);
    return rows;
}

/* Constants of the C side that the package needs. */
static int add_lists(PyObject *module) {
    const bool failed =
        smm_add(module, "operations", operations()) < 0 || smm_add(module, "dtypes", elements(SMM_DTYPE_COUNT)) < 0 ||
        smm_add(module, "elements", elements(SMM_TYPES)) < 0 ||
        smm_add(module, "complex_operations", complex_operations(smm_takes)) < 0 ||
        smm_add(module, "cuda_complex_operations", complex_operations(smm_cuda_takes_dtype)) < 0 ||
        smm_add(module, "gufunc_rows", gufunc_rows(module)) < 0 ||
        smm_add(module, "forms",
                Py_BuildValue("{s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i}", "upper", SMM_UPPER, "unit", SMM_UNIT,
                              "transposed", SMM_TRANSPOSED, "unpivoted", SMM_UNPIVOTED, "normwise", SMM_NORMWISE,
                              "extra", SMM_EXTRA, "positive", SMM_POSITIVE, "symmetric", SMM_SYMMETRIC, "tensor",
                              SMM_TENSOR, "lapack", SMM_LAPACK)) < 0 ||
        smm_add(module, "limits",
                Py_BuildValue("{s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i}", "operands", SMM_MAX_OPERANDS, "order", SMM_MAX_ORDER,
                              "longest", SMM_LONGEST, "deep", SMM_DEEP, "cuda_order", SMM_CUDA_MAX_ORDER,
                              "cuda_product_order", SMM_CUDA_MAX, "cuda_columns", SMM_CUDA_COLUMNS, "cuda_dimensions",
                              SMM_MAX_AXES)) < 0;
    if (failed) return -1;
    return PyModule_AddIntConstant(module, "source_strided", SMM_SOURCE_STRIDED);
}

static PyMethodDef methods[] = {
    {"isa", isa, METH_NOARGS, "isa()\n--\n\nName of the instruction set in use."},
    {"isas_available", smm_isas, METH_NOARGS,
     "isas_available()\n--\n\nNames of the instruction sets of this build that this CPU has, best last."},
    {"select_isa", select_isa, METH_O,
     "select_isa(name, /)\n--\n\nForce an instruction set; None: SMALLMM_ISA if set, else the best."},
    {"select_kernel", select_kernel, METH_O,
     "select_kernel(name, /)\n--\n\nForce a kernel of the CPU wherever it can run; None: SMALLMM_KERNEL if set, else "
     "none."},
    {"get_num_threads", get_num_threads, METH_NOARGS,
     "get_num_threads()\n--\n\nNumber of threads that a call may use."},
    {"set_num_threads", set_num_threads, METH_O,
     "set_num_threads(threads, /)\n--\n\nSet the number of threads that a call may use; 0: the default."},
    {"explain", (PyCFunction)(void (*)(void))explain, METH_VARARGS | METH_KEYWORDS,
     "explain(function, /, *args, **kwargs)\n--\n\nHow the gufunc calls within function(*args, **kwargs) would run; "
     "nothing is computed, and outputs are left undefined."},
    {"reference", (PyCFunction)(void (*)(void))reference, METH_VARARGS | METH_KEYWORDS,
     "reference(function, /, *args, **kwargs)\n--\n\n"
     "function(*args, **kwargs) computed by the plain reference kernels."},
    {"set_offloading", smm_set_offloading, METH_O,
     "set_offloading(x, /)\n--\n\nWhether this thread's direct paths decline arrays of the host."},
    {"many", (PyCFunction)(void (*)(void))smm_many, METH_FASTCALL,
     "many(gufunc, counts, /, *inputs)\n--\n\nA gufunc on stacks of many shapes, as one job."},
    {"add_bfloat16", smm_add_bfloat16, METH_O,
     "add_bfloat16(dtype, /)\n--\n\nHave the gufuncs take ml_dtypes.bfloat16; to be called once."},
    {"exchange_loops", smm_exchange_loops, METH_VARARGS,
     "exchange_loops(name, ufunc, put_in, /)\n--\n\nPut loops of smallmm into a ufunc of NumPy, or NumPy's back: how "
     "many were exchanged."},
    {"loops_in", smm_loops_in, METH_VARARGS,
     "loops_in(name, ufunc, /)\n--\n\nHow many are in, and how many of these another library has replaced since."},
    {"loop_counts", smm_loop_counts, METH_NOARGS,
     "loop_counts()\n--\n\n(ufunc, order, outcome, calls, matrices) of the loops' calls; order 0: above the limit."},
    {"explain_loops", (PyCFunction)(void (*)(void))smm_explain_loops, METH_VARARGS | METH_KEYWORDS,
     "explain_loops(function, /, *args, **kwargs)\n--\n\n(ufunc, dtype, order, calls, matrices, fewest, outcome) of "
     "the "
     "loops that a call enters, which compute nothing."},
    {"time_loops", smm_time_loops, METH_O,
     "time_loops(on, /)\n--\n\nSeconds in NumPy's exchanged loops since timing began, which ends, or begins anew."},
    {"clear_loop_counts", smm_clear_loop_counts, METH_O,
     "clear_loop_counts(library, /)\n--\n\nSet the counts of 'numpy' or 'torch' to zero."},
    {"register_torch", smm_register_torch, METH_VARARGS,
     "register_torch(cpu, cuda, boxes, /)\n--\n\nRegister kernels of aten: their operators and keys; or what PyTorch "
     "lacks."},
    {"serve_torch", smm_serve_torch, METH_O,
     "serve_torch(on, /)\n--\n\nWhether registered kernels of aten compute, or hand everything on."},
    {"set_fewest", smm_set_fewest, METH_O,
     "set_fewest(matrices, /)\n--\n\nHave the loops serve calls of so many matrices or more; 0: as measured."},
    {NULL, NULL, 0, NULL},
};

/* A wrong SMALLMM_ISA, SMALLMM_KERNEL or SMALLMM_NUM_THREADS is an error at import, because no call could succeed. */
static int exec_module(PyObject *module) {
    if (PyArray_ImportNumPyAPI() < 0 || PyUFunc_ImportUFuncAPI() < 0) return -1;
    smm_status status = smm_select_isa(NULL);
    if (!status) status = smm_select_kernel(NULL);
    if (!status && !smm_default_threads()) status = SMM_ERR_THREADS;
    if (status) smm_raise(status, NULL);
    if (status) return -1;
    smm_set_interrupt(interrupted);
    if (PyModule_AddStringConstant(module, "__version__", SMM_VERSION) < 0) return -1;
    if (PyModule_AddStringConstant(module, "compiler", __VERSION__) < 0) return -1;
    if (smm_add_buffers(module) < 0 || smm_add_opening(module) < 0 || smm_add_device_calls(module) < 0 ||
        smm_add_device_memory(module) < 0 || smm_add_device_programs(module) < 0 || smm_add_transfers(module) < 0 ||
        smm_add_device_kernels(module) < 0 || smm_add_programs(module) < 0 || smm_add_prepared(module) < 0 ||
        smm_add_numa(module) < 0 || smm_add_convolutions(module) < 0 || smm_add_xla(module) < 0 ||
        smm_add_patch(module) < 0 || smm_add_patched(module) < 0)
        return -1;
    return smm_add_gufuncs(module, smm_direct_function) < 0 ? -1 : add_lists(module);
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, (void *)exec_module},
#if defined(Py_mod_gil)
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "smallmm._core",
    .m_doc = "The C core of smallmm as NumPy generalised ufuncs.",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__core(void) { return PyModuleDef_Init(&definition); }
