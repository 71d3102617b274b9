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
#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>

#include "../device/buffers.h"
#include "torch.h"

/* By row and place; NULL: not found, and ours is not registered. */
typedef void function(void);
static function *former[ROWS - NUMPY_ROWS][PLACES];

static atomic_bool serves;

/* --- PyTorch's own kernels --------------------------------------------------------------------------- */

/* Arguments belong to the kernel, also while an exception passes. */
typedef struct frame {
    int row, place;
    const torch_operator *op;
    bool handed_on;
    argument arguments[MOST_ARGUMENTS];
    const argument *given;          /* those of out=, or NULL */
    argument results[MOST_RESULTS]; /* of a call that was handed on */
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

#define SMM_LEAST(...)

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
    function *const f = former[x->row - NUMPY_ROWS][x->place];
    const argument *const own = x->arguments, *const given = x->given;
    tensors made;
    switch (x->row) {
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

static void run(int row, int place, argument *stack, uint64_t arguments, uint64_t results) {
    __attribute__((cleanup(release))) frame own = {
        .row = row, .place = place, .op = &smm_torch_operators[(row - NUMPY_ROWS) / 2]};
    memcpy(own.arguments, stack, arguments * sizeof *stack);
    if ((row - NUMPY_ROWS) % 2) own.given = own.arguments + arguments - results;
    call c = {.row = row, .place = place, .op = own.op, .stack = own.arguments, .given = own.given};
    outcome what = OTHER;
    if (!hands_on && atomic_load_explicit(&serves, memory_order_relaxed)) {
        what = smm_take_torch(&c);
        const intptr_t order = c.order < 1 || c.order > SMM_MOST_ORDER ? ORDERS - 1 : c.order;
        smm_count_call(row, order, what, c.matrices);
    }
    if (what == SERVED) {
        memcpy(stack, c.results, results * sizeof *stack);
        return;
    }
    for (int i = 0; i < MOST_RESULTS; i++)
        if (c.results[i]) smm_torch.aoti_torch_delete_tensor_object(c.results[i]);
    own.handed_on = !hands_on;
    hands_on = true;
    hand_on(&own);
    memcpy(stack, own.results, results * sizeof *stack);
}

#define KERNEL(name, row, place) \
    static void name(argument *stack, uint64_t arguments, uint64_t results) { \
        run(row, place, stack, arguments, results); \
    }
#define SMM_PATCHED_TORCH(op, ...) \
    KERNEL(op##_on_host, ROW_aten_##op, CPU) \
    KERNEL(op##_on_device, ROW_aten_##op, CUDA) \
    KERNEL(op##_out_on_host, ROW_aten_##op##_out, CPU) \
    KERNEL(op##_out_on_device, ROW_aten_##op##_out, CUDA)
#include "patched_torch.def"
#undef SMM_PATCHED_TORCH
#undef KERNEL

static kernel *const kernels[ROWS - NUMPY_ROWS][PLACES] = {
#define SMM_PATCHED_TORCH(op, ...) {op##_on_host, op##_on_device}, {op##_out_on_host, op##_out_on_device},
#include "patched_torch.def"
#undef SMM_PATCHED_TORCH
};
#undef SMM_LEAST

/* --- Registration ------------------------------------------------------------------------------------ */

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
static function *find(void *library, void *host, const torch_operator *op, bool out, int place) {
    char symbol[SYMBOL];
    mangle(symbol, op, out, place == CPU ? "cpu" : "cuda");
    function *f;
    *(void **)&f = dlsym(library, symbol);
    if (f) return f;
    mangle(symbol, op, out, "compositeexplicitautograd");
    *(void **)&f = dlsym(host, symbol);
    return f;
}

/* Register kernels for all operators whose former kernels a library has, and add their names to a list. -1 with an
 * exception. */
static int register_kernels(void *library, void *host, int place, PyObject **list) {
    static void *registrations[PLACES]; /* kept */
    const char *const key = place == CPU ? "CPU" : "CUDA";
    if (smm_torch.aoti_torch_library_init_impl("aten", key, __FILE__, __LINE__, &registrations[place])) {
        PyErr_Format(PyExc_RuntimeError, "PyTorch refuses kernels of aten for %s", key);
        return -1;
    }
    for (int i = 0; i < ROWS - NUMPY_ROWS; i++) {
        const torch_operator *const op = &smm_torch_operators[i / 2];
        const bool out = i % 2;
        const char *const name = out ? op->overload : op->name;
        former[i][place] = find(library, host, op, out, place);
        if (!former[i][place]) continue;
        if (smm_torch.torch_library_impl(registrations[place], name, kernels[i][place], SMM_TORCH_INTERFACE)) {
            PyErr_Format(PyExc_RuntimeError, "PyTorch refuses a kernel of %s for %s", name, key);
            return -1;
        }
        smm_append(list, PyUnicode_FromFormat("%s %s", name, key));
        if (!*list) return -1;
    }
    return 0;
}

/* register_torch(cpu, cuda): register the kernels, of the library for CUDA if that is not None, once: the operators and
 * keys that have one. A string: the function that this PyTorch lacks. */
PyObject *smm_register_torch(PyObject *Py_UNUSED(module), PyObject *args) {
    const char *cpu, *cuda;
    if (!PyArg_ParseTuple(args, "sz", &cpu, &cuda)) return NULL;
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
    if (!list || register_kernels(host, host, CPU, &list) < 0 ||
        (has_cuda && register_kernels(device, host, CUDA, &list) < 0))
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
