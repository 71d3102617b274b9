/* extension.h: what the files of the Python extension know of each other. Include it first. */
#ifndef SMM_EXTENSION_H
#define SMM_EXTENSION_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#define PY_ARRAY_UNIQUE_SYMBOL smm_numpy_array_api
#define PY_UFUNC_UNIQUE_SYMBOL smm_numpy_ufunc_api
#if !defined(SMM_IMPORTS_NUMPY) /* module.c alone defines the two tables that the others use */
#define NO_IMPORT_ARRAY
#define NO_IMPORT_UFUNC
#endif
#include <numpy/arrayobject.h>
#include <numpy/ufuncobject.h>

#include "../core/core.h"

/* The value of an expression that is computed while other threads may run Python. */
#define SMM_WITHOUT_GIL(expression) \
    ({ \
        PyThreadState *const _released = PyEval_SaveThread(); \
        const __typeof__(expression) _value = (expression); \
        PyEval_RestoreThread(_released); \
        _value; \
    })

/* errors.c: raise the exception for a status; `name` is the instruction set or kernel asked for, or NULL. Takes the
 * GIL; returns NULL. */
PyObject *smm_raise(smm_status status, const char *name);
/* isas_available(): names of instruction sets, which errors name. */
PyObject *smm_isas(PyObject *module, PyObject *ignored);

/* objects.c: put a new object into a container: see there. */
static inline void smm_set_item(PyObject **tuple, Py_ssize_t i, PyObject *x) {
    if (x)
        PyTuple_SET_ITEM(*tuple, i, x);
    else
        Py_CLEAR(*tuple);
}
void smm_append(PyObject **list, PyObject *x);
void smm_set_key(PyObject **dict, const char *key, PyObject *x);
/* The list, which may be NULL, becomes a tuple; takes the reference. */
PyObject *smm_as_tuple(PyObject *list);
/* One output, or a tuple of them; takes the references. NULL, with an exception, if there is none or one is NULL. */
PyObject *smm_pack(PyObject *outputs[], int count);
/* module.name = x, whose reference it takes. */
int smm_add(PyObject *module, const char *name, PyObject *x);

/* One gufunc: an operation, in one form. Its operands are those of ops.def, and so are the dimensions of its signature,
 * which are sizes m, n, k of the call (1 if they do not occur). A vector is a column, or where `rows` has a bit for the
 * operand, a row. */
typedef struct smm_gufunc {
    const char *name, *doc;
    smm_op op;
    unsigned form;
    bool whole;            /* with the operands that are optional, too */
    char k;                /* the dimension that k equals; 0: k is one of its own, which vectors lack */
    const char *signature; /* where dimensions are not those of ops.def */
    unsigned rows;
} smm_gufunc;

/* What a signature says, as the loops need it. */
typedef struct smm_signature {
    int inputs, operands, dimensions;
    char dimension[3];                  /* m, n, k in order of first appearance */
    int position[SMM_MAX_OPERANDS];     /* of each operand, that among the operation's; */
    int core[SMM_MAX_OPERANDS];         /* its core dimensions, */
    char dims[SMM_MAX_OPERANDS][2];     /* and which they are; */
    bool optional[SMM_MAX_OPERANDS][2]; /* and whether an operand may lack them ("?") */
    int b;                              /* the right-hand side or second factor; 0: there is none */
    bool updates;                       /* the output is an input, too */
} smm_signature;

/* gufuncs.c */
int smm_add_gufuncs(PyObject *module, PyObject *(*direct_function)(PyObject *ufunc));
PyObject *smm_add_bfloat16(PyObject *module, PyObject *dtype);
const smm_gufunc *smm_gufunc_of(PyObject *ufunc);
const smm_gufunc *smm_gufunc_in(PyObject *x); /* of any object; NULL: it is no gufunc of this module */
const smm_gufunc *smm_gufunc_named(const char *name, size_t length); /* NULL: there is none */
const smm_signature *smm_signature_of(const smm_gufunc *g);
enum { SMM_SIGNATURE_LENGTH = 96 };
smm_signature smm_read_signature(const smm_gufunc *g, char text[SMM_SIGNATURE_LENGTH]); /* which it writes out, too */
/* What a loop of NumPy is given, as a call; the operation and its form are those of the gufunc. sizes = {batch, core
 * dimensions in order of first appearance}, strides = {a batch stride per operand, then the core strides operand by
 * operand}; a core dimension of length 1 has stride 0, and a missing one ("?") has length 1. */
smm_call smm_call_of_loop(const smm_gufunc *g, const smm_signature *s, smm_dtype dtype, char *const *data,
                          const npy_intp *sizes, const npy_intp *strides);
smm_element smm_element_of(const smm_gufunc *g, int i);
/* NumPy's type of operand i of a gufunc in calls of an element type; the element type of NumPy's, -1 if it is none. */
int smm_numpy_type(const smm_gufunc *g, int i, smm_dtype dtype);
int smm_dtype_of_numpy(int type);
bool smm_is_integer(const smm_gufunc *g, int i);
intptr_t *smm_size_in(smm_call *call, char dimension);
/* Set the sizes that no operand has, which are -1. A matrix without a second size has one column, or is square. */
void smm_finish_sizes(smm_call *call, const smm_gufunc *g);
/* Whether pivot i of each matrix, where the call is given those of LU, is one of i .. n-1. */
bool smm_pivots_are_rows(const smm_call *call);
/* Run it, or give it to the hook. A pivot that is no row is SMM_ERR_ARGUMENT, of which the package says more; outputs
 * are written then. */
smm_status smm_dispatch(const smm_call *call);
/* The same of many calls of one operation as one job; each[i] is the status of call i. */
smm_status smm_dispatch_many(const smm_call *calls, size_t count, smm_status *each);

/* programs.c */
int smm_add_programs(PyObject *module);
extern PyTypeObject *smm_program_type;
int smm_program_sizes(PyObject *program, int *outputs); /* how many inputs; and outputs */
int smm_number_type(PyObject *program, int i);          /* NumPy's, of input i if that is a number; else -1 */
/* The outputs of a program for these inputs, as a tuple; NotImplemented if it is not for them. outs: arrays to write to
 * that overlap nothing, NULL in place of new ones; all NULL if outs is. *failed: whether some info is not 0. */
PyObject *smm_call_program(PyObject *program, PyObject *const inputs[], PyObject *const outs[], bool *failed);

/* prepared.c */
int smm_add_prepared(PyObject *module);

/* convolutions.c */
int smm_add_convolutions(PyObject *module);

/* xla.c */
int smm_add_xla(PyObject *module);

/* patch.c */
int smm_add_patch(PyObject *module);
PyObject *smm_exchange_loops(PyObject *module, PyObject *args);
PyObject *smm_loops_in(PyObject *module, PyObject *args);
PyObject *smm_explain_loops(PyObject *module, PyObject *args, PyObject *kwargs);
PyObject *smm_time_loops(PyObject *module, PyObject *on);
/* Whether this thread is in a loop of NumPy's, which ends before an interrupt is heeded. */
extern _Thread_local bool smm_is_uninterrupted;

/* patched.c */
int smm_add_patched(PyObject *module);
PyObject *smm_loop_counts(PyObject *module, PyObject *ignored);
PyObject *smm_clear_loop_counts(PyObject *module, PyObject *library);
PyObject *smm_set_fewest(PyObject *module, PyObject *matrices);

/* patch_torch.c */
PyObject *smm_register_torch(PyObject *module, PyObject *args);
PyObject *smm_serve_torch(PyObject *module, PyObject *on);

/* numa.c */
int smm_add_numa(PyObject *module);

/* direct.c: a gufunc's way past NumPy's machinery, as a function object. */
PyObject *smm_direct_function(PyObject *ufunc);
/* hook.c: set_offloading(x): whether this thread's calls on arrays of the host are declined, since a device is to take
 * them. */
PyObject *smm_set_offloading(PyObject *module, PyObject *x);
bool smm_is_offloading(void);
/* many.c: many(gufunc, *inputs): see there. */
PyObject *smm_many(PyObject *module, PyObject *const *args, Py_ssize_t nargs);

/* buffers.c */
int smm_add_buffers(PyObject *module);

/* While a thread has a hook, its gufunc calls go there instead of to smm_run. So an explanation sees
 * exactly the calls, casts and copies of a real run, and the tests' oracle gets the same operands. */
typedef struct smm_device_plan { /* how a call would run on a device */
    char kernel[64];
    const char *source;    /* of the plan: "baseline" and so on */
    const char *tuned_on;  /* the device whose tuned row it is, if it is one */
    int matrices, threads; /* of a block */
    bool swapped;
    const smm_call *call;               /* as far as its work and traffic go: the addresses are the device's; */
    const smm_convolution *convolution; /* or NULL, and this */
} smm_device_plan;

typedef struct smm_trial smm_trial; /* buffers.h: calls on devices are described, or timed */

typedef struct smm_hook {
    smm_status (*take)(struct smm_hook *hook, const smm_call *call);
    /* After each of many calls was taken; may be NULL. */
    void (*take_many)(struct smm_hook *hook, const smm_call *calls, size_t count);
    void (*take_device)(struct smm_hook *hook, const smm_device_plan *plan);         /* NULL: calls on devices run */
    smm_status (*take_convolution)(struct smm_hook *hook, const smm_convolution *c); /* NULL: convolutions run */
    smm_trial *trial;                                                                /* NULL: none */
    smm_plan_info plan;                                                              /* of the first call, with */
    smm_op op;
    unsigned form;
    char device_kernel[64];
    const char *source, *tuned_on; /* of the kernel of the first call on a device */
    intptr_t calls, matrices;
    double flops, bytes;
} smm_hook;
extern _Thread_local smm_hook *smm_current_hook;
/* hook.c. args[first](*args[first + 1:], **kwargs) with the calls of this thread going to the hook. */
PyObject *smm_call_with(smm_hook *hook, PyObject *args, Py_ssize_t first, PyObject *kwargs);

#endif
