/* gufuncs.c: the operations as NumPy generalised ufuncs, from one list of descriptors.
 *
 * NumPy broadcasts, casts, aligns, allocates, makes copies where `out` overlaps an input, and releases
 * the GIL; a loop here only describes its operands as an smm_call and runs it. A loop sees
 * sizes = {batch, core dimensions in order of first appearance in the signature} and
 * strides = {a batch stride per operand, then the core strides operand by operand}; a core dimension of
 * length 1 has stride 0, and one that is missing ("?") has length 1. */
#include <fenv.h>

#include "extension.h"

_Thread_local smm_detour *smm_current_detour;

static int run(const PyArrayMethod_Context *context, smm_call call) {
    call.op = SMM_OP_MATMUL;
    call.dtype = context->descriptors[0]->type_num == NPY_FLOAT ? SMM_F32 : SMM_F64;
    smm_detour *detour = smm_current_detour;
    const smm_status status = detour ? detour->take(detour, &call) : smm_run(&call);

    /* NaN and Inf propagate silently: the flags of worker threads do not reach NumPy, so its warnings
     * would come and go with the number of threads. */
    const int warnings = FE_DIVBYZERO | FE_OVERFLOW | FE_UNDERFLOW | FE_INVALID;
    if (fetestexcept(warnings)) feclearexcept(warnings);
    if (status == SMM_OK) return 0;
    smm_raise(status, NULL);
    return -1;
}

/* (m,k),(k,n)->(m,n) */
static int matmul_loop(PyArrayMethod_Context *context, char *const *data, const npy_intp *sizes,
                       const npy_intp *strides, NpyAuxData *Py_UNUSED(auxdata)) {
    return run(context, (smm_call){
                            .batch = sizes[0],
                            .m = sizes[1],
                            .k = sizes[2],
                            .n = sizes[3],
                            .a = {data[0], strides[0], strides[3], strides[4]},
                            .b = {data[1], strides[1], strides[5], strides[6]},
                            .c = {data[2], strides[2], strides[7], strides[8]},
                        });
}

/* (m,k),(k,n),(),()->(m,n) */
static int gemm_loop(PyArrayMethod_Context *context, char *const *data, const npy_intp *sizes, const npy_intp *strides,
                     NpyAuxData *Py_UNUSED(auxdata)) {
    return run(context, (smm_call){
                            .batch = sizes[0],
                            .m = sizes[1],
                            .k = sizes[2],
                            .n = sizes[3],
                            .a = {data[0], strides[0], strides[5], strides[6]},
                            .b = {data[1], strides[1], strides[7], strides[8]},
                            .alpha = {.data = data[2], .batch = strides[2]},
                            .beta = {.data = data[3], .batch = strides[3]},
                            .c = {data[4], strides[4], strides[9], strides[10]},
                        });
}

/* (m,n),(n)->(m): the vectors are columns */
static int matvec_loop(PyArrayMethod_Context *context, char *const *data, const npy_intp *sizes,
                       const npy_intp *strides, NpyAuxData *Py_UNUSED(auxdata)) {
    return run(context, (smm_call){
                            .batch = sizes[0],
                            .m = sizes[1],
                            .k = sizes[2],
                            .n = 1,
                            .a = {data[0], strides[0], strides[3], strides[4]},
                            .b = {data[1], strides[1], strides[5], 0},
                            .c = {data[2], strides[2], strides[6], 0},
                        });
}

/* (n),(n,m)->(m): the vectors are rows */
static int vecmat_loop(PyArrayMethod_Context *context, char *const *data, const npy_intp *sizes,
                       const npy_intp *strides, NpyAuxData *Py_UNUSED(auxdata)) {
    return run(context, (smm_call){
                            .batch = sizes[0],
                            .m = 1,
                            .k = sizes[1],
                            .n = sizes[2],
                            .a = {data[0], strides[0], 0, strides[3]},
                            .b = {data[1], strides[1], strides[4], strides[5]},
                            .c = {data[2], strides[2], 0, strides[6]},
                        });
}

/* NumPy's defaults for an output, without its assumption that a loop works element by element and so
 * may overwrite its own input: an `out` that overlaps an input is computed aside and copied back. */
enum {
    WRITTEN = NPY_ITER_WRITEONLY | NPY_ITER_UPDATEIFCOPY | NPY_ITER_ALIGNED | NPY_ITER_ALLOCATE |
        NPY_ITER_NO_BROADCAST | NPY_ITER_NO_SUBTYPE,
    UPDATED = (WRITTEN & ~NPY_ITER_WRITEONLY) | NPY_ITER_READWRITE,
};

static const struct {
    const char *name, *signature, *doc;
    int inputs;
    npy_uint32 output; /* flags of the iterator operand */
    PyArrayMethod_StridedLoop *loop;
} descriptors[] = {
    {"matmul", "(m?,k),(k,n?)->(m?,n?)", "x1 @ x2", 2, WRITTEN, matmul_loop},
    {"batched_matmul", "(m,k),(k,n)->(m,n)", "a @ b", 2, WRITTEN, matmul_loop},
    {"gemm", "(m,k),(k,n),(),()->(m,n)", "alpha a @ b + beta out", 4, UPDATED, gemm_loop},
    {"matvec", "(m,n),(n)->(m)", "a matrix times a column vector", 2, WRITTEN, matvec_loop},
    {"vecmat", "(n),(n,m)->(m)", "a row vector times a matrix", 2, WRITTEN, vecmat_loop},
};
enum { MOST_OPERANDS = 5 };

/* Whatever is not float32 or float64 throughout: float16 is computed in float32, integers, bools and
 * mixtures as NumPy mixes them with float64; a dtype asked for by the caller wins. Other dtypes stay as
 * they are, for which NumPy then finds no loop. */
static int promote(PyObject *ufunc, PyArray_DTypeMeta *const dtypes[], PyArray_DTypeMeta *const signature[],
                   PyArray_DTypeMeta *promoted[]) {
    const int inputs = ((PyUFuncObject *)ufunc)->nin;
    PyArray_DTypeMeta *common = signature[inputs];
    if (common)
        Py_INCREF(common);
    else if (!(common = PyArray_PromoteDTypeSequence(inputs, (PyArray_DTypeMeta **)dtypes)))
        return -1;

    PyArray_DTypeMeta *to = NULL;
    if (common == &PyArray_HalfDType || common == &PyArray_FloatDType)
        to = &PyArray_FloatDType;
    else if (common == &PyArray_DoubleDType || common == &PyArray_PyFloatDType || common == &PyArray_BoolDType ||
             PyType_IsSubtype((PyTypeObject *)common, (PyTypeObject *)&PyArray_IntAbstractDType))
        to = &PyArray_DoubleDType;
    Py_DECREF(common);
    for (int i = 0; i <= inputs; i++) {
        promoted[i] = to && !signature[i] ? to : dtypes[i];
        Py_XINCREF(promoted[i]);
    }
    return 0;
}

static int add_loop(PyObject *ufunc, int inputs, PyArray_DTypeMeta *dtype, PyArrayMethod_StridedLoop *loop) {
    PyArray_DTypeMeta *dtypes[MOST_OPERANDS];
    for (int i = 0; i <= inputs; i++) dtypes[i] = dtype;
    PyType_Slot slots[] = {{NPY_METH_strided_loop, (void *)loop}, {0, NULL}};
    PyArrayMethod_Spec spec = {.name = ((PyUFuncObject *)ufunc)->name,
                               .nin = inputs,
                               .nout = 1,
                               .casting = NPY_NO_CASTING,
                               .dtypes = dtypes,
                               .slots = slots};
    return PyUFunc_AddLoopFromSpec(ufunc, &spec);
}

static int add_promoter(PyObject *ufunc, int inputs) {
    int failed = -1;
    PyObject *any = PyTuple_New(inputs + 1), *promoter = PyCapsule_New((void *)promote, "numpy._ufunc_promoter", NULL);
    if (any && promoter) {
        for (int i = 0; i <= inputs; i++) PyTuple_SET_ITEM(any, i, Py_NewRef(Py_None));
        failed = PyUFunc_AddPromoter(ufunc, any, promoter);
    }
    Py_XDECREF(any);
    Py_XDECREF(promoter);
    return failed;
}

int smm_add_gufuncs(PyObject *module) {
    for (size_t i = 0; i < sizeof descriptors / sizeof *descriptors; i++) {
        const int inputs = descriptors[i].inputs;
        PyObject *ufunc =
            PyUFunc_FromFuncAndDataAndSignature(NULL, NULL, NULL, 0, inputs, 1, PyUFunc_None, descriptors[i].name,
                                                descriptors[i].doc, 0, descriptors[i].signature);
        if (!ufunc) return -1;
        ((PyUFuncObject *)ufunc)->op_flags[inputs] = descriptors[i].output;
        const int failed = add_loop(ufunc, inputs, &PyArray_FloatDType, descriptors[i].loop) < 0 ||
                           add_loop(ufunc, inputs, &PyArray_DoubleDType, descriptors[i].loop) < 0 ||
                           add_promoter(ufunc, inputs) < 0 ||
                           PyModule_AddObjectRef(module, descriptors[i].name, ufunc) < 0;
        Py_DECREF(ufunc);
        if (failed) return -1;
    }
    return 0;
}
