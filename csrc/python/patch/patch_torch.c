/* patch_torch.c: PyTorch's own operators with kernels of smallmm, on the host and on CUDA devices.
 *
 * Only the kernels under the dispatch keys CPU and CUDA are replaced. Autograd, vmap, torch.compile, autocast, meta and
 * other tensors are handled before PyTorch comes to these, so all of that stays PyTorch's. A kernel looks at its
 * operands, and either computes new tensors of the strides that PyTorch's kernel gives, or hands on to that.
 *
 * PyTorch's kernels are functions of C++ such as at::cpu::bmm, whose exceptions pass through here: its C interface
 * would forget their types. Of C++ this file assumes how a reference (a pointer), a bool, a std::string_view and an
 * optional one are passed, that tensors are returned in memory that the caller gives, that a tuple of them lies there
 * in reverse, and how names are mangled. A Tensor is one pointer. setup.py compiles it with -fexceptions, so that what
 * a call owns is released when an exception passes.
 *
 * Kernels are registered once and stay, because PyTorch does not wait for threads that are in a kernel that it drops.
 * When PyTorch is unpatched they hand on everything. */
#include "torch.h"

#include <dlfcn.h>
#include <stdatomic.h>

#include "../device/buffers.h"

/* By row and place; NULL: not found, and ours is not registered. */
typedef void function(void);
static function *former[ROWS - NUMPY_ROWS][BACKENDS];

static atomic_bool serves;

/* --- PyTorch's own kernels --------------------------------------------------------------------------- */

/* Arguments belong to the kernel, also while an exception passes. */
typedef struct frame {
    int row, backend;
    const torch_operator *op;
    bool handed_on;
    argument arguments[MAX_ARGUMENTS];
    const argument *given;         /* those of out=, or NULL */
    argument results[MAX_RESULTS]; /* of a call that was handed on */
} frame;

/* What C++ passes: a std::string_view, and an optional one. */
typedef struct view {
    size_t length;
    const char *text;
} view;
typedef struct optional_view {
    view value;
    bool has_value;
} optional_view;

typedef struct optional_number {
    double value;
    bool has_value;
} optional_number;

/* More than fits registers, so that the address of the result is passed as C++ passes that of a Tensor. */
typedef struct tensors {
    void *at[4 + 1];
} tensors;

static tensor as_tensor(argument x) { return smm_handle(x); }

static bool as_bool(argument x) { return x & 0xff; }

static view as_view(argument string) {
    view x = {0, ""};
    smm_torch.torch_string_c_str(smm_handle(string), &x.text);
    smm_torch.torch_string_length(smm_handle(string), &x.length);
    return x;
}

static optional_view as_optional_view(argument optional) {
    if (!optional) return (optional_view){.has_value = false};
    return (optional_view){as_view(*(const argument *)(uintptr_t)optional), true};
}

static optional_number as_optional_number(argument optional) {
    optional_number x = {0, optional};
    if (optional) memcpy(&x.value, (const argument *)(uintptr_t)optional, sizeof x.value);
    return x;
}

#define SMM_MIN_BATCH(...)

#define SMM_PATCHED_BOXED(...)
/* The types of PyTorch's kernels, */
#define OUT(i) tensor,
#define IN(kind, type, i) , type
#define SMM_PATCHED_TORCH(op, overload, take, returned, results, a, arguments) \
    typedef tensors op##_type(tensor arguments); \
    typedef returned op##_out_type(results tensor arguments);
#include "patched_torch.def"
#undef SMM_PATCHED_TORCH
#undef IN
#undef OUT

/* and calls of them. */
static void hand_on(frame *x) {
    function *const f = former[x->row - NUMPY_ROWS][x->backend];
    const argument *const own = x->arguments, *const given = x->given;
    tensors made;
    switch (x->row) {
#define SMM_PATCHED_BOXED(...)
#define OUT(i) as_tensor(given[i]),
#define IN(kind, type, i) , as_##type(own[i])
#define SMM_PATCHED_TORCH(op, overload, take, returned, results, a, arguments) \
    case ROW_aten_##op: made = ((op##_type *)f)(as_tensor(*own) arguments); break; \
    case ROW_aten_##op##_out: ((op##_out_type *)f)(results as_tensor(*own) arguments); break;
#include "patched_torch.def"
#undef SMM_PATCHED_TORCH
#undef IN
#undef OUT
    }
    for (int i = 0; i < x->op->results; i++) { /* no 8 bytes, and no way to say so: abort */
        tensor result;
        if (given) {
            if (smm_torch.aoti_torch_new_tensor_handle(as_tensor(given[i]), &result)) abort();
        } else { /* a handle of no tensor becomes one of the result */
            if (smm_torch.aoti_torch_new_uninitialized_tensor(&result)) abort();
            memcpy(result, &made.at[x->op->results - 1 - i], sizeof(void *));
        }
        x->results[i] = (argument)(uintptr_t)result;
    }
}

/* --- Kernels ----------------------------------------------------------------------------------------- */

/* Whether this thread is in a kernel of PyTorch's, whose calls of others PyTorch computes, too: what was handed on once
 * would be tried in vain again. */
static _Thread_local bool hands_on;

static void release(frame *x) {
    const char *const kind = x->op->arguments;
    if (x->handed_on) hands_on = false;
    for (int i = 0; kind[i]; i++) {
        const argument own = x->arguments[i];
        if (smm_is_tensor(kind[i])) smm_torch.aoti_torch_delete_tensor_object(as_tensor(own));
        if (kind[i] == 's') smm_torch.torch_delete_string(smm_handle(own));
        if (kind[i] == 'o' && own) smm_torch.torch_delete_string(smm_handle(*(argument *)(uintptr_t)own));
        if ((kind[i] == 'o' || kind[i] == 'f') && own) smm_torch.delete((void *)(uintptr_t)own);
    }
    for (int i = 0; x->given && i < x->op->results; i++)
        smm_torch.aoti_torch_delete_tensor_object(as_tensor(x->given[i]));
}

/* Whether smallmm computes a call, the arguments of which it takes or not. */
static bool serve(call *c, bool takes) {
    if (hands_on || !atomic_load_explicit(&serves, memory_order_relaxed)) return false;
    const outcome what = takes ? smm_take_torch(c) : OTHER;
    const intptr_t order = c->order < 1 || c->order > SMM_MAX_ORDER ? ORDERS - 1 : c->order;
    smm_count_call(c->row, order, what, c->matrices);
    for (int i = 0; i < MAX_RESULTS && what != SERVED; i++)
        if (c->results[i]) smm_torch.aoti_torch_delete_tensor_object(c->results[i]);
    return what == SERVED;
}

static const torch_operator *operator_of(int row) { return &smm_torch_operators[(row - NUMPY_ROWS) / 2]; }
static bool has_out(int row) { return (row - NUMPY_ROWS) % 2; }

static void run(int row, int backend, argument *stack, uint64_t arguments, uint64_t results) {
    __attribute__((cleanup(release))) frame own = {.row = row, .backend = backend, .op = operator_of(row)};
    memcpy(own.arguments, stack, arguments * sizeof *stack);
    if (has_out(row)) own.given = own.arguments + arguments - results;
    call c = {.row = row, .backend = backend, .op = own.op, .stack = own.arguments, .given = own.given};
    if (serve(&c, true)) {
        memcpy(stack, c.results, results * sizeof *stack);
        return;
    }
    own.handed_on = !hands_on;
    hands_on = true;
    hand_on(&own);
    memcpy(stack, own.results, results * sizeof *stack);
}

/* An operator's kernels: on the host and on a device, without out= and with it. */
#define KERNELS_OF(op) \
    KERNEL(op##_on_host, ROW_aten_##op, CPU) \
    KERNEL(op##_on_device, ROW_aten_##op, CUDA) \
    KERNEL(op##_out_on_host, ROW_aten_##op##_out, CPU) \
    KERNEL(op##_out_on_device, ROW_aten_##op##_out, CUDA)

#define KERNEL(name, row, backend) \
    static void name(argument *stack, uint64_t arguments, uint64_t results) { \
        run(row, backend, stack, arguments, results); \
    }
#define SMM_PATCHED_BOXED(...)
#define SMM_PATCHED_TORCH(op, ...) KERNELS_OF(op)
#include "patched_torch.def"
#undef SMM_PATCHED_TORCH
#undef KERNEL

/* --- Kernels of boxed values ------------------------------------------------------------------------- */

/* PyTorch's own stack of values, for operators with arguments that its C interface does not pass. Of C++ this assumes
 * further how a std::vector, a c10::IValue and a c10::KernelFunction begin, and the tags of three types. A value of
 * another tag is handed on, as all is if one of these was wrong. */
enum { TENSOR = 1, REAL = 3, INTEGER = 5 };
typedef struct value {
    union {
        void *tensor;
        double real;
        int64_t integer;
    } as;
    uint32_t tag;
} value;
typedef struct values {
    value *first, *end, *room;
} values;
typedef void boxed(void *functor, const void *op, uint64_t keys, values *stack);
typedef struct boxed_kernel {
    void *functor;
    boxed *call;
} boxed_kernel;

/* As `former`. */
static const boxed_kernel *former_boxed[ROWS - NUMPY_ROWS][BACKENDS];

/* A value as an argument: a tensor stays the stack's. */
static bool unbox(value *x, bool is_number, argument *to) {
    const double number = x->tag == INTEGER ? (double)x->as.integer : x->as.real;
    if (is_number)
        memcpy(to, &number, sizeof number);
    else
        *to = (argument)(uintptr_t)&x->as.tensor;
    return is_number ? x->tag == INTEGER || x->tag == REAL : x->tag == TENSOR;
}

/* Results take the places of the first arguments, and all arguments are released. */
static void box(values *stack, int arguments, const tensor *results, int count) {
    value *const x = stack->end - arguments;
    for (int i = 0; i < arguments; i++) {
        if (x[i].tag != TENSOR) continue;
        tensor own = i < count ? results[i] : NULL;
        if (!own && smm_torch.aoti_torch_new_uninitialized_tensor(&own)) abort(); /* no 8 bytes */
        void *const before = x[i].as.tensor;
        memcpy(&x[i].as.tensor, own, sizeof before);
        memcpy(own, &before, sizeof before);
        smm_torch.aoti_torch_delete_tensor_object(own);
    }
    stack->end = x + count;
}

static void leave(const bool *entered) {
    if (*entered) hands_on = false;
}

static void run_boxed(int row, int backend, const void *op, uint64_t keys, values *stack) {
    call c = {.row = row, .backend = backend, .op = operator_of(row)};
    const char *const kind = c.op->arguments;
    const int own = (int)strlen(kind), count = own + (has_out(row) ? c.op->results : 0);
    argument arguments[MAX_ARGUMENTS];
    bool takes = stack->end - stack->first >= count;
    for (int i = 0; i < count && takes; i++)
        takes = unbox(stack->end - count + i, i < own && !smm_is_tensor(kind[i]), &arguments[i]);
    c.stack = arguments;
    if (has_out(row)) c.given = arguments + own;
    if (serve(&c, takes)) {
        box(stack, count, c.results, c.op->results);
        return;
    }
    __attribute__((cleanup(leave), unused)) const bool entered = !hands_on;
    hands_on = true;
    const boxed_kernel *const f = former_boxed[row - NUMPY_ROWS][backend];
    f->call(f->functor, op, keys, stack);
}

#define KERNEL(name, row, backend) \
    static void name(void *Py_UNUSED(functor), const void *op, uint64_t keys, values *stack) { \
        run_boxed(row, backend, op, keys, stack); \
    }
#define SMM_PATCHED_TORCH(...)
#define SMM_PATCHED_BOXED(op, ...) KERNELS_OF(op)
#include "patched_torch.def"
#undef SMM_PATCHED_TORCH
#undef KERNEL

/* By row and place: a kernel of one kind or of the other. */
typedef struct kernels {
    kernel *passed[BACKENDS];
    boxed *boxed[BACKENDS];
} kernels;
static const kernels kernels_of[ROWS - NUMPY_ROWS] = {
#define SMM_PATCHED_BOXED(op, ...) \
    {.boxed = {op##_on_host, op##_on_device}}, {.boxed = {op##_out_on_host, op##_out_on_device}},
#define SMM_PATCHED_TORCH(op, ...) \
    {.passed = {op##_on_host, op##_on_device}}, {.passed = {op##_out_on_host, op##_out_on_device}},
#include "patched_torch.def"
#undef SMM_PATCHED_TORCH
};
#undef SMM_MIN_BATCH

/* --- Registration ------------------------------------------------------------------------------------ */

static const char *const keys[BACKENDS] = {"CPU", "CUDA"};
enum { SYMBOL = 200 };

/* The mangled name of <operator>, or <operator>_out, in a namespace of at. It spells the types of all arguments, of
 * which S_, S0_ and so on stand for what is in it before; so where a version of PyTorch has others, it is not found. */
static void mangle(char to[SYMBOL], const torch_operator *op, bool out, const char *namespace) {
    static const char view[] = "St17basic_string_viewIcSt11char_traitsIcEE";
    const char *const name = out ? op->overload : op->name, *input = out ? "RKS1_" : "RKNS_6TensorE";
    const int length = (int)strcspn(name, ".");
    to += sprintf(to, "_ZN2at%d%s%d%.*s%sE", (int)strlen(namespace), namespace, length + 4 * out, length, name,
                  out ? "_out" : "");
    for (int i = 0; out && i < op->results; i++) to += sprintf(to, "%s", i ? "S2_" : "RNS_6TensorE");
    const char *optional = "St8optional";
    for (const char *kind = op->arguments; *kind; kind++) {
        if (smm_is_tensor(*kind)) {
            to += sprintf(to, "%s", input);
            input = out ? "S4_" : "S3_";
        } else if (*kind == 'o' || *kind == 'f') {
            to += sprintf(to, "%sI%sE", optional, *kind == 'f' ? "d" : view);
            optional = out ? "S5_" : "S4_";
        } else {
            to += sprintf(to, "%s", *kind == 's' ? view : "b");
        }
    }
}

/* PyTorch's kernel of an operator, from a library; one that serves all places has the host's library. */
static function *find(void *library, void *host, const torch_operator *op, bool out, int backend) {
    char symbol[SYMBOL];
    mangle(symbol, op, out, backend == CPU ? "cpu" : "cuda");
    function *f;
    *(void **)&f = dlsym(library, symbol);
    if (f) return f;
    mangle(symbol, op, out, "compositeexplicitautograd");
    *(void **)&f = dlsym(host, symbol);
    return f;
}

/* The same as PyTorch's function for this purpose has it: a Python object that pybind11 has made. NULL: it lacks that,
 * or the object or the kernel lies otherwise in memory. */
static const boxed_kernel *find_boxed(const char *name, const char *key) {
    PyObject *library = PyImport_ImportModule("torch.library");
    PyObject *object =
        library ? PyObject_CallMethod(library, "get_kernel", "Ns", PyUnicode_FromFormat("aten::%s", name), key) : NULL;
    Py_XDECREF(library);
    if (!object) {
        PyErr_Clear();
        return NULL;
    }
    const boxed_kernel *const found = *(const boxed_kernel **)(object + 1);
    void *code;
    Dl_info where;
    memcpy(&code, &found->call, sizeof code);
    if (dladdr(code, &where) && where.dli_fname && strstr(where.dli_fname, "libtorch"))
        return found; /* the object is kept */
    Py_DECREF(object);
    return NULL;
}

/* What C++ passes for none. */
typedef struct no_signature {
    void *type;
    bool has_value;
} no_signature;

/* Register a kernel of boxed values. False: PyTorch has other functions for that. */
static bool register_boxed(void *host, void *registrations, const char *name, boxed *f) {
    void (*make)(void *to, void *kernel, no_signature, void *schema);
    void *(*add)(void *registrations, const char *name, void *made, int only_verify);
    *(void **)&make = dlsym(host, "_ZN5torch11CppFunctionC1EN3c1014KernelFunctionESt8optionalINS1_4impl12CppSignature"
                                  "EESt10unique_ptrINS1_14FunctionSchemaESt14default_deleteIS8_EE");
    *(void **)&add = dlsym(host, "_ZNR5torch7Library5_implEPKcONS_11CppFunctionENS_17_RegisterOrVerifyE");
    if (!make || !add) return false;
    union {
        boxed_kernel boxed;
        char room[256];
    } kernel = {.boxed = {NULL, f}};
    _Alignas(16) char made[512] = {0};
    void *schema = NULL;
    make(made, &kernel, (no_signature){NULL, false}, &schema);
    add(registrations, name, made, 0);
    return true;
}

/* Register a row's kernel for a place; boxes: one of boxed values, too. 0: it is left out; -1: PyTorch refuses it. */
static int register_kernel(void *library, void *host, bool boxes, int row, int backend, void *registrations) {
    const torch_operator *const op = operator_of(row);
    const char *const name = has_out(row) ? op->overload : op->name;
    const int i = row - NUMPY_ROWS;
    if (kernels_of[i].boxed[backend]) {
        if (!boxes) return 0;
        former_boxed[i][backend] = find_boxed(name, keys[backend]);
        return former_boxed[i][backend] && register_boxed(host, registrations, name, kernels_of[i].boxed[backend]);
    }
    former[i][backend] = find(library, host, op, has_out(row), backend);
    if (!former[i][backend]) return 0;
    return smm_torch.torch_library_impl(registrations, name, kernels_of[i].passed[backend], SMM_TORCH_INTERFACE) ? -1
                                                                                                                 : 1;
}

/* Register kernels for all operators whose former kernels a library has, and add their names to a list. -1 with an
 * exception. */
static int register_kernels(void *library, void *host, bool boxes, int backend, PyObject **list) {
    static void *registrations[BACKENDS]; /* kept */
    const char *const key = keys[backend];
    if (smm_torch.aoti_torch_library_init_impl("aten", key, __FILE__, __LINE__, &registrations[backend])) {
        PyErr_Format(PyExc_RuntimeError, "PyTorch refuses kernels of aten for %s", key);
        return -1;
    }
    for (int row = NUMPY_ROWS; row < ROWS; row++) {
        const torch_operator *const op = operator_of(row);
        const char *const name = has_out(row) ? op->overload : op->name;
        const int registered = register_kernel(library, host, boxes, row, backend, registrations[backend]);
        if (registered < 0) PyErr_Format(PyExc_RuntimeError, "PyTorch refuses a kernel of %s for %s", name, key);
        if (registered > 0) smm_append(list, PyUnicode_FromFormat("%s %s", name, key));
        if (registered < 0 || !*list) return -1;
    }
    return 0;
}

/* register_torch(cpu, cuda, boxes): register the kernels, of the library for CUDA if that is not None, once: the
 * operators and keys that have one. boxes: PyTorch's values are known to lie in memory as kernels of boxed values take
 * them. A string: the function that this PyTorch lacks. */
PyObject *smm_register_torch(PyObject *Py_UNUSED(module), PyObject *args) {
    const char *cpu, *cuda;
    int boxes;
    if (!PyArg_ParseTuple(args, "szp", &cpu, &cuda, &boxes)) return NULL;
    void *const host = dlopen(cpu, RTLD_LAZY | RTLD_NOLOAD);
    if (!host) return PyErr_Format(PyExc_RuntimeError, "%s is not loaded", cpu);
    const char *missing = smm_find_torch(host);
    if (missing) return PyUnicode_FromString(missing);
    void *const device = cuda ? dlopen(cuda, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    if (device)
        *(void **)&smm_torch.aoti_torch_get_current_cuda_stream = dlsym(device, "aoti_torch_get_current_cuda_stream");
    const bool has_cuda = smm_torch.aoti_torch_get_current_cuda_stream;
    if (has_cuda && smm_configure_cuda() < 0) return NULL;
    PyObject *list = PyList_New(0);
    if (!list || register_kernels(host, host, boxes, CPU, &list) < 0 ||
        (has_cuda && register_kernels(device, host, boxes, CUDA, &list) < 0))
        Py_CLEAR(list);
    return list;
}

/* serve_torch(on): whether the kernels compute, or hand everything on. */
PyObject *smm_serve_torch(PyObject *Py_UNUSED(module), PyObject *on) {
    const int is_on = PyObject_IsTrue(on);
    if (is_on < 0) return NULL;
    atomic_store(&serves, is_on);
    Py_RETURN_NONE;
}
