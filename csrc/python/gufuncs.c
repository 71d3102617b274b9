/* gufuncs.c: the operations as NumPy generalised ufuncs, from one list of descriptors.
 *
 * NumPy broadcasts, casts, aligns, allocates, makes copies where `out` overlaps an input, and releases
 * the GIL; the loop here only describes its operands as an smm_call and runs it. direct.c does the same for plain
 * arrays that need none of this. */
#include <fenv.h>
#include <string.h>

#include "extension.h"

_Thread_local smm_detour *smm_current_detour;

static const smm_gufunc gufuncs[] = {
    {"matmul", "x1 @ x2", .op = SMM_OP_MATMUL, .signature = "(m?,k),(k,n?)->(m?,n?)"},
    {"batched_matmul", "a @ b", .op = SMM_OP_MATMUL, .signature = "(m,k),(k,n)->(m,n)"},
    {"gemm", "alpha a @ b + beta out", .op = SMM_OP_MATMUL, .whole = true, .signature = "(m,k),(k,n),(),()->(m,n)"},
    {"matvec", "a matrix times a column vector", .op = SMM_OP_MATMUL, .signature = "(m,k),(k)->(m)"},
    {"vecmat", "a row vector times a matrix", .op = SMM_OP_MATMUL, .signature = "(k),(k,n)->(n)", .rows = true},
    {"lu_factor", "LU, pivots, info", .op = SMM_OP_LU, .whole = true},
    {"lu_factor_tall", "the same for m >= n", .op = SMM_OP_LU, .form = SMM_RECTANGULAR, .whole = true,
     .signature = "(m,n)->(m,n),(n),()"},
    {"lu_factor_wide", "the same for m <= n", .op = SMM_OP_LU, .form = SMM_RECTANGULAR, .whole = true,
     .signature = "(m,n)->(m,n),(m),()"},
    {"lu_solve", "X of A X = B", .op = SMM_OP_LU_SOLVE},
    {"lu_solve_transposed", "X of A^T X = B", .op = SMM_OP_LU_SOLVE, .form = SMM_TRANSPOSED},
    {"solve", "X of A X = B, info", .op = SMM_OP_SOLVE, .whole = true},
    {"inv", "inverse, info", .op = SMM_OP_INV, .whole = true},
    {"det", "determinant", .op = SMM_OP_DET},
    {"slogdet", "sign, log of the absolute determinant", .op = SMM_OP_SLOGDET},
    {"cholesky", "L of A = L L^T, info", .op = SMM_OP_CHOLESKY, .whole = true},
    {"cholesky_upper", "U of A = U^T U, info", .op = SMM_OP_CHOLESKY, .form = SMM_UPPER, .whole = true},
    {"cho_solve", "X of L L^T X = B", .op = SMM_OP_CHO_SOLVE},
    {"cho_solve_upper", "X of U^T U X = B", .op = SMM_OP_CHO_SOLVE, .form = SMM_UPPER},
    {"solve_lower", "X of L X = B, info", .op = SMM_OP_SOLVE_TRIANGULAR, .whole = true},
    {"solve_upper", "X of U X = B, info", .op = SMM_OP_SOLVE_TRIANGULAR, .form = SMM_UPPER, .whole = true},
    {"solve_unit_lower", "the same, with a diagonal of ones", .op = SMM_OP_SOLVE_TRIANGULAR, .form = SMM_UNIT,
     .whole = true},
    {"solve_unit_upper", "the same, with a diagonal of ones", .op = SMM_OP_SOLVE_TRIANGULAR,
     .form = SMM_UNIT | SMM_UPPER, .whole = true},
    {"qr_tall", "Q, R for m >= n", .op = SMM_OP_QR, .k = 'n'},
    {"qr_complete", "Q, R with a square Q", .op = SMM_OP_QR, .k = 'm'},
    {"qr_r_tall", "R for m >= n", .op = SMM_OP_QR_R, .k = 'n'},
    {"qr_r_wide", "R for m <= n", .op = SMM_OP_QR_R, .k = 'm'},
    {"qr_raw_tall", "R above the reflectors, tau; m >= n", .op = SMM_OP_QR_RAW, .k = 'n'},
    {"qr_raw_wide", "R above the reflectors, tau; m <= n", .op = SMM_OP_QR_RAW, .k = 'm'},
    {"lstsq", "X of least |A X - B|, those norms, rank, info", .op = SMM_OP_LSTSQ, .whole = true},
    {"eigh", "eigenvalues, eigenvectors, info", .op = SMM_OP_EIGH, .whole = true},
    {"eigh_upper", "the same of the upper triangle", .op = SMM_OP_EIGH, .form = SMM_UPPER, .whole = true},
    {"eigvalsh", "eigenvalues, info", .op = SMM_OP_EIGVALSH, .whole = true},
    {"eigvalsh_upper", "the same of the upper triangle", .op = SMM_OP_EIGVALSH, .form = SMM_UPPER, .whole = true},
    {"svd_tall", "U, s, V^T, info for m >= n", .op = SMM_OP_SVD, .k = 'n', .whole = true},
    {"svd_wide", "the same for m <= n", .op = SMM_OP_SVD, .k = 'm', .whole = true},
    {"svd_full_tall", "square U, s, square V^T, info for m >= n", .op = SMM_OP_SVD_FULL, .k = 'n', .whole = true},
    {"svd_full_wide", "the same for m <= n", .op = SMM_OP_SVD_FULL, .k = 'm', .whole = true},
    {"svdvals_tall", "singular values, info for m >= n", .op = SMM_OP_SVDVALS, .k = 'n', .whole = true},
    {"svdvals_wide", "the same for m <= n", .op = SMM_OP_SVDVALS, .k = 'm', .whole = true},
};

enum { GUFUNCS = sizeof gufuncs / sizeof *gufuncs, SIGNATURE_LENGTH = 96 };

/* Filled when the module is made. */
static smm_signature signatures[GUFUNCS];
static char texts[GUFUNCS][SIGNATURE_LENGTH];

/* The dimensions of an operand. */
static size_t write_dimensions(char *to, const smm_gufunc *g, const smm_operand_row *x) {
    const char k[3] = {g->k ? g->k : 'k', g->k ? 0 : '?'};
    const char *const names[SMM_SIZES] = {"", "m", "n", k};
    const char *const rows = names[x->rows], *const cols = names[x->cols];
    return (size_t)sprintf(to, "(%s%s%s)", rows, *rows && *cols ? "," : "", cols);
}

static void write_signature(char *to, const smm_gufunc *g, const smm_signature *s) {
    for (int i = 0; i < s->operands; i++) {
        if (i) to += sprintf(to, "%s", i == s->inputs ? "->" : ",");
        to += write_dimensions(to, g, &smm_operations[g->op].operand[s->place[i]]);
    }
}

static void parse(smm_signature *s, const char *text) {
    int operand = -1;
    for (const char *c = text; *c; c++) {
        if (*c == '(') s->core[++operand] = 0;
        if (*c == '?') s->optional[operand][s->core[operand] - 1] = true;
        if (*c < 'a' || *c > 'z') continue;
        s->dims[operand][s->core[operand]++] = *c;
        if (!memchr(s->dimension, *c, (size_t)s->dimensions)) s->dimension[s->dimensions++] = *c;
    }
}

static smm_signature signature_of(const smm_gufunc *g, char text[SIGNATURE_LENGTH]) {
    const smm_operation *operation = &smm_operations[g->op];
    smm_signature s = {.updates = g->op == SMM_OP_MATMUL && g->whole};
    for (int i = 0; i < operation->count; i++) {
        const int direction = operation->operand[i].direction;
        if (direction & SMM_OPTIONAL && !g->whole) continue;
        s.place[s.operands++] = i;
        if (direction & SMM_READ) s.inputs = s.operands;
    }
    if (g->signature)
        strcpy(text, g->signature);
    else
        write_signature(text, g, &s);
    parse(&s, text);
    return s;
}

/* A gufunc's `data` is for its legacy loops, of which ours have none: it holds the descriptor. */
const smm_gufunc *smm_gufunc_of(PyObject *ufunc) {
    return (const smm_gufunc *)(const void *)((PyUFuncObject *)ufunc)->data;
}

const smm_signature *smm_signature_of(const smm_gufunc *g) { return &signatures[g - gufuncs]; }

static smm_element element_of(const smm_gufunc *g, int i) {
    return smm_operations[g->op].operand[smm_signature_of(g)->place[i]].element;
}

bool smm_is_integer(const smm_gufunc *g, int i) { return element_of(g, i) == SMM_INT32; }

/* That of bfloat16 is set when it is known, and never again: add_bfloat16. */
static int numpy_types[SMM_DTYPE_COUNT] = {
#define ROW(x, NAME, name, in_memory, computed, numpy, ...) numpy,
    SMM_DTYPES(ROW, _)
#undef ROW
};

int smm_numpy_type(const smm_gufunc *g, int i, smm_dtype dtype) {
    switch (element_of(g, i)) {
    case SMM_INT32: return NPY_INT32;
    case SMM_REAL: return numpy_types[smm_dtypes[dtype].real];
    default: return numpy_types[dtype];
    }
}

int smm_dtype_of_numpy(int type) {
    for (int dtype = 0; dtype < SMM_DTYPE_COUNT; dtype++)
        if (numpy_types[dtype] == type) return dtype;
    return -1;
}

intptr_t *smm_size_in(smm_call *call, char dimension) {
    return dimension == 'm' ? &call->m : dimension == 'n' ? &call->n : &call->k;
}

/* Whether pivot i of each matrix is one of i .. n-1. Looked for where something has failed: a zero of U is no error. */
static bool pivots_are_rows(const smm_call *call) {
    for (intptr_t r = 0; r < smm_runs(call); r++) {
        const smm_operand pivots = smm_run_of(call, r).lu_solve.pivots;
        for (intptr_t q = 0; q < call->batch; q++)
            for (intptr_t i = 0; i < call->n; i++) {
                const int32_t pivot = *(const int32_t *)((const char *)pivots.data + q * pivots.batch + i * pivots.row);
                if (pivot < i || pivot >= call->n) return false;
            }
    }
    return true;
}

smm_status smm_take(const smm_call *call) {
    smm_detour *detour = smm_current_detour;
    if (detour) return detour->take(detour, call);
    if (call->op != SMM_OP_LU_SOLVE) return smm_run(call);
    bool failed = false;
    smm_call watched = *call;
    watched.failed = &failed;
    const smm_status status = smm_run(&watched);
    return !status && failed && !pivots_are_rows(call) ? SMM_ERR_ARGUMENT : status;
}

/* sizes = {batch, core dimensions in order of first appearance}, strides = {a batch stride per operand, then the core
 * strides operand by operand}; a core dimension of length 1 has stride 0, and a missing one ("?") has length 1. */
static int loop(PyArrayMethod_Context *context, char *const *data, const npy_intp *sizes, const npy_intp *strides,
                NpyAuxData *Py_UNUSED(auxdata)) {
    const smm_gufunc *g = smm_gufunc_of(context->caller);
    const smm_signature *s = smm_signature_of(g);
    smm_call call = {.op = g->op, .form = g->form, .batch = sizes[0], .m = 1, .n = 1, .k = 1};
    call.dtype = (smm_dtype)smm_dtype_of_numpy(context->descriptors[0]->type_num);
    for (int i = 0; i < s->dimensions; i++) *smm_size_in(&call, s->dimension[i]) = sizes[1 + i];
    if (g->k) call.k = *smm_size_in(&call, g->k);
    const npy_intp *core = strides + s->operands;
    for (int i = 0; i < s->operands; core += s->core[i++]) {
        smm_operand *x = &call.operand[s->place[i]];
        *x = (smm_operand){.data = data[i], .batch = strides[i]};
        if (s->core[i] > 1)
            x->row = core[0], x->col = core[1];
        else if (s->core[i] == 1)
            *(g->rows ? &x->col : &x->row) = core[0];
    }
    const smm_status status = smm_take(&call);

    /* NaN and Inf propagate silently: the flags of worker threads do not reach NumPy, so its warnings
     * would come and go with the number of threads. */
    const int warnings = FE_DIVBYZERO | FE_OVERFLOW | FE_UNDERFLOW | FE_INVALID;
    if (fetestexcept(warnings)) feclearexcept(warnings);
    if (status == SMM_OK) return 0;
    smm_raise(status, NULL);
    return -1;
}

/* NumPy's defaults for an output, without its assumption that a loop works element by element and so
 * may overwrite its own input: an `out` that overlaps an input is computed aside and copied back. */
enum {
    WRITTEN = NPY_ITER_WRITEONLY | NPY_ITER_UPDATEIFCOPY | NPY_ITER_ALIGNED | NPY_ITER_ALLOCATE |
        NPY_ITER_NO_BROADCAST | NPY_ITER_NO_SUBTYPE,
    UPDATED = (WRITTEN & ~NPY_ITER_WRITEONLY) | NPY_ITER_READWRITE,
};

static bool is_abstract(PyArray_DTypeMeta *x) {
    return x == &PyArray_PyFloatDType || x == &PyArray_PyLongDType || x == &PyArray_PyComplexDType;
}

/* Whatever is not of one of our types throughout: integers, bools and mixtures as NumPy mixes them with float64; a
 * dtype asked for by the caller wins. Other dtypes stay as they are, for which NumPy then finds no loop. */
static int promote(PyObject *ufunc, PyArray_DTypeMeta *const dtypes[], PyArray_DTypeMeta *const signature[],
                   PyArray_DTypeMeta *promoted[]) {
    const smm_gufunc *g = smm_gufunc_of(ufunc);
    const smm_signature *s = smm_signature_of(g);
    PyArray_DTypeMeta *given[SMM_MOST_OPERANDS], *common = NULL;
    int count = 0;
    for (int i = 0; i < s->operands; i++) {
        if (smm_is_integer(g, i)) continue;
        /* Python's numbers, beyond the matrices, follow these; with bfloat16 NumPy would make float64 of them. */
        if (i < s->inputs && (!count || !is_abstract(dtypes[i]))) given[count++] = dtypes[i];
        if (i >= s->inputs && !common) common = signature[i];
    }
    if (common)
        Py_INCREF(common);
    else if (!(common = PyArray_PromoteDTypeSequence(count, given)))
        return -1;

    PyArray_DTypeMeta *to = NULL;
    if (smm_dtype_of_numpy(common->type_num) >= 0)
        to = common; /* which NumPy keeps for good */
    else if (common == &PyArray_PyFloatDType || common == &PyArray_BoolDType ||
             PyType_IsSubtype((PyTypeObject *)common, (PyTypeObject *)&PyArray_IntAbstractDType))
        to = &PyArray_DoubleDType;
    Py_DECREF(common);
    for (int i = 0; i < s->operands; i++) {
        PyArray_DTypeMeta *own = smm_is_integer(g, i) ? &PyArray_Int32DType : to;
        promoted[i] = own && !signature[i] ? own : dtypes[i];
        Py_XINCREF(promoted[i]);
    }
    return 0;
}

static int add_loop(PyObject *ufunc, smm_dtype dtype) {
    const smm_gufunc *g = smm_gufunc_of(ufunc);
    const smm_signature *s = smm_signature_of(g);
    PyArray_DTypeMeta *dtypes[SMM_MOST_OPERANDS];
    for (int i = 0; i < s->operands; i++) {
        PyArray_Descr *descriptor = PyArray_DescrFromType(smm_numpy_type(g, i, dtype));
        dtypes[i] = NPY_DTYPE(descriptor); /* which NumPy keeps for good */
        Py_DECREF(descriptor);
    }
    PyType_Slot slots[] = {{NPY_METH_strided_loop, (void *)loop}, {0, NULL}};
    PyArrayMethod_Spec spec = {.name = g->name,
                               .nin = s->inputs,
                               .nout = s->operands - s->inputs,
                               .casting = NPY_NO_CASTING,
                               .dtypes = dtypes,
                               .slots = slots};
    return PyUFunc_AddLoopFromSpec(ufunc, &spec);
}

static int add_promoter(PyObject *ufunc) {
    const int operands = ((PyUFuncObject *)ufunc)->nargs;
    int failed = -1;
    PyObject *any = PyTuple_New(operands), *promoter = PyCapsule_New((void *)promote, "numpy._ufunc_promoter", NULL);
    if (any && promoter) {
        for (int i = 0; i < operands; i++) PyTuple_SET_ITEM(any, i, Py_NewRef(Py_None));
        failed = PyUFunc_AddPromoter(ufunc, any, promoter);
    }
    Py_XDECREF(any);
    Py_XDECREF(promoter);
    return failed;
}

/* add_bfloat16(dtype): loops for the dtype of ml_dtypes, which is one of NumPy's only once that is imported. The caller
 * sees to it that this happens once. */
PyObject *smm_add_bfloat16(PyObject *module, PyObject *dtype) {
    PyObject *direct = PyObject_GetAttrString(module, "direct"), *name, *function;
    bool failed = !direct;
    if (!failed && (!PyArray_DescrCheck(dtype) || !PyTypeNum_ISUSERDEF(((PyArray_Descr *)dtype)->type_num))) {
        PyErr_Format(PyExc_TypeError, "add_bfloat16: dtype is %R; expected ml_dtypes.bfloat16", dtype);
        failed = true;
    }
    if (!failed) numpy_types[SMM_BF16] = ((PyArray_Descr *)dtype)->type_num;
    for (Py_ssize_t at = 0; !failed && PyDict_Next(direct, &at, &name, &function);)
        failed = add_loop(PyCFunction_GET_SELF(function), SMM_BF16) < 0;
    Py_XDECREF(direct);
    return failed ? NULL : Py_NewRef(Py_None);
}

int smm_add_gufuncs(PyObject *module) {
    PyObject *direct = PyDict_New();
    if (!direct || PyModule_AddObjectRef(module, "direct", direct) < 0) {
        Py_XDECREF(direct);
        return -1;
    }
    Py_DECREF(direct); /* the module holds it */
    for (int i = 0; i < GUFUNCS; i++) {
        const smm_gufunc *g = &gufuncs[i];
        const smm_signature *s = &signatures[i];
        signatures[i] = signature_of(g, texts[i]);
        PyObject *ufunc =
            PyUFunc_FromFuncAndDataAndSignature(NULL, (void **)(uintptr_t)g, NULL, 0, s->inputs,
                                                s->operands - s->inputs, PyUFunc_None, g->name, g->doc, 0, texts[i]);
        if (!ufunc) return -1;
        for (int o = s->inputs; o < s->operands; o++) /* beta multiplies what the output holds */
            ((PyUFuncObject *)ufunc)->op_flags[o] = s->updates ? UPDATED : WRITTEN;
        PyObject *function = smm_direct_function(ufunc);
        bool failed = !function || PyDict_SetItemString(direct, g->name, function) < 0;
        for (int dtype = 0; dtype < SMM_DTYPE_COUNT && !failed; dtype++)
            failed = numpy_types[dtype] != NPY_NOTYPE && add_loop(ufunc, dtype) < 0;
        failed = failed || add_promoter(ufunc) < 0 || PyModule_AddObjectRef(module, g->name, ufunc) < 0;
        Py_XDECREF(function);
        Py_DECREF(ufunc);
        if (failed) return -1;
    }
    return 0;
}
