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
    {"matmul", "(m?,k),(k,n?)->(m?,n?)", "abc", "x1 @ x2", SMM_OP_MATMUL, 0, 0},
    {"batched_matmul", "(m,k),(k,n)->(m,n)", "abc", "a @ b", SMM_OP_MATMUL, 0, 0},
    {"gemm", "(m,k),(k,n),(),()->(m,n)", "abstc", "alpha a @ b + beta out", SMM_OP_MATMUL, 0, 0},
    {"matvec", "(m,k),(k)->(m)", "abc", "a matrix times a column vector", SMM_OP_MATMUL, 0, 0},
    {"vecmat", "(k),(k,n)->(n)", "AbC", "a row vector times a matrix", SMM_OP_MATMUL, 0, 0},
    {"lu_factor", "(n,n)->(n,n),(n),()", "acpi", "LU, pivots, info", SMM_OP_LU, 0, 0},
    {"lu_factor_tall", "(m,n)->(m,n),(n),()", "acpi", "the same for m >= n", SMM_OP_LU, SMM_RECTANGULAR, 0},
    {"lu_factor_wide", "(m,n)->(m,n),(m),()", "acpi", "the same for m <= n", SMM_OP_LU, SMM_RECTANGULAR, 0},
    {"lu_solve", "(n,n),(n),(n,k?)->(n,k?)", "apbc", "X of A X = B", SMM_OP_LU_SOLVE, 0, 0},
    {"lu_solve_transposed", "(n,n),(n),(n,k?)->(n,k?)", "apbc", "X of A^T X = B", SMM_OP_LU_SOLVE, SMM_TRANSPOSED, 0},
    {"solve", "(n,n),(n,k?)->(n,k?),()", "abci", "X of A X = B, info", SMM_OP_SOLVE, 0, 0},
    {"inv", "(n,n)->(n,n),()", "aci", "inverse, info", SMM_OP_INV, 0, 0},
    {"det", "(n,n)->()", "ac", "determinant", SMM_OP_DET, 0, 0},
    {"slogdet", "(n,n)->(),()", "acd", "sign, log of the absolute determinant", SMM_OP_SLOGDET, 0, 0},
    {"cholesky", "(n,n)->(n,n),()", "aci", "L of A = L L^T, info", SMM_OP_CHOLESKY, 0, 0},
    {"cholesky_upper", "(n,n)->(n,n),()", "aci", "U of A = U^T U, info", SMM_OP_CHOLESKY, SMM_UPPER, 0},
    {"cho_solve", "(n,n),(n,k?)->(n,k?)", "abc", "X of L L^T X = B", SMM_OP_CHO_SOLVE, 0, 0},
    {"cho_solve_upper", "(n,n),(n,k?)->(n,k?)", "abc", "X of U^T U X = B", SMM_OP_CHO_SOLVE, SMM_UPPER, 0},
    {"solve_lower", "(n,n),(n,k?)->(n,k?),()", "abci", "X of L X = B, info", SMM_OP_SOLVE_TRIANGULAR, 0, 0},
    {"solve_upper", "(n,n),(n,k?)->(n,k?),()", "abci", "X of U X = B, info", SMM_OP_SOLVE_TRIANGULAR, SMM_UPPER, 0},
    {"solve_unit_lower", "(n,n),(n,k?)->(n,k?),()", "abci", "the same, with a diagonal of ones",
     SMM_OP_SOLVE_TRIANGULAR, SMM_UNIT, 0},
    {"solve_unit_upper", "(n,n),(n,k?)->(n,k?),()", "abci", "the same, with a diagonal of ones",
     SMM_OP_SOLVE_TRIANGULAR, SMM_UNIT | SMM_UPPER, 0},
    {"qr_tall", "(m,n)->(m,n),(n,n)", "acd", "Q, R for m >= n", SMM_OP_QR, 0, 'n'},
    {"qr_complete", "(m,n)->(m,m),(m,n)", "acd", "Q, R with a square Q", SMM_OP_QR, 0, 'm'},
    {"qr_r_tall", "(m,n)->(n,n)", "ad", "R for m >= n", SMM_OP_QR_R, 0, 'n'},
    {"qr_r_wide", "(m,n)->(m,n)", "ad", "R for m <= n", SMM_OP_QR_R, 0, 'm'},
    {"qr_raw_tall", "(m,n)->(m,n),(n)", "acd", "R above the reflectors, tau; m >= n", SMM_OP_QR_RAW, 0, 'n'},
    {"qr_raw_wide", "(m,n)->(m,n),(m)", "acd", "R above the reflectors, tau; m <= n", SMM_OP_QR_RAW, 0, 'm'},
    {"lstsq", "(m,n),(m,k?),()->(n,k?),(k?),(),()", "abscdpi", "X of least |A X - B|, those norms, rank, info",
     SMM_OP_LSTSQ, 0, 0},
    {"eigh", "(n,n)->(n),(n,n),()", "adci", "eigenvalues, eigenvectors, info", SMM_OP_EIGH, 0, 0},
    {"eigh_upper", "(n,n)->(n),(n,n),()", "adci", "the same of the upper triangle", SMM_OP_EIGH, SMM_UPPER, 0},
    {"eigvalsh", "(n,n)->(n),()", "adi", "eigenvalues, info", SMM_OP_EIGVALSH, 0, 0},
    {"eigvalsh_upper", "(n,n)->(n),()", "adi", "the same of the upper triangle", SMM_OP_EIGVALSH, SMM_UPPER, 0},
};

enum { GUFUNCS = sizeof gufuncs / sizeof *gufuncs };

static smm_signature signatures[GUFUNCS]; /* filled when the module is made */

static smm_signature parse(const char *signature) {
    smm_signature s = {.operands = 0};
    for (const char *c = signature; *c; c++) {
        if (*c == '(') s.core[s.operands++] = 0;
        if (*c == '>') s.inputs = s.operands;
        const int operand = s.operands - 1;
        if (*c == '?') s.optional[operand][s.core[operand] - 1] = true;
        if (*c < 'a' || *c > 'z') continue;
        s.dims[operand][s.core[operand]++] = *c;
        if (!memchr(s.dimension, *c, (size_t)s.dimensions)) s.dimension[s.dimensions++] = *c;
    }
    return s;
}

/* A gufunc's `data` is for its legacy loops, of which ours have none: it holds the descriptor. */
const smm_gufunc *smm_gufunc_of(PyObject *ufunc) {
    return (const smm_gufunc *)(const void *)((PyUFuncObject *)ufunc)->data;
}

const smm_signature *smm_signature_of(const smm_gufunc *g) { return &signatures[g - gufuncs]; }

bool smm_is_integer(char field) { return field == 'p' || field == 'i'; }

intptr_t *smm_size_in(smm_call *call, char dimension) {
    return dimension == 'm' ? &call->m : dimension == 'n' ? &call->n : &call->k;
}

smm_operand *smm_operand_in(smm_call *call, char field) {
    switch (field | 0x20) { /* lower case */
    case 'a': return &call->a;
    case 'b': return &call->b;
    case 'c': return &call->c;
    case 'd': return &call->d;
    case 'p': return &call->pivots;
    case 'i': return &call->info;
    case 's': return &call->alpha;
    default: return &call->beta;
    }
}

/* Whether pivot i of each matrix is one of i .. n-1. Looked for where something has failed: a zero of U is no error. */
static bool pivots_are_rows(const smm_call *call) {
    for (intptr_t r = 0; r < (call->runs > 1 ? call->runs : 1); r++)
        for (intptr_t q = 0; q < call->batch; q++)
            for (intptr_t i = 0; i < call->n; i++) {
                const intptr_t at = r * call->run.pivots + q * call->pivots.batch + i * call->pivots.row;
                const int32_t pivot = *(const int32_t *)((const char *)call->pivots.data + at);
                if (pivot < i || pivot >= call->n) return false;
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
    call.dtype = context->descriptors[0]->type_num == NPY_FLOAT ? SMM_F32 : SMM_F64;
    for (int i = 0; i < s->dimensions; i++) *smm_size_in(&call, s->dimension[i]) = sizes[1 + i];
    if (g->k) call.k = *smm_size_in(&call, g->k);
    const npy_intp *core = strides + s->operands;
    for (int i = 0; i < s->operands; core += s->core[i++]) {
        const bool row = g->fields[i] < 'a';
        *smm_operand_in(&call, g->fields[i]) = (smm_operand){
            .data = data[i],
            .batch = strides[i],
            .row = s->core[i] > 0 && !row ? core[0] : 0,
            .col = row              ? core[0]
                   : s->core[i] > 1 ? core[1]
                                    : 0,
        };
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

/* Whatever is not float32 or float64 throughout: float16 is computed in float32, integers, bools and
 * mixtures as NumPy mixes them with float64; a dtype asked for by the caller wins. Other dtypes stay as
 * they are, for which NumPy then finds no loop. */
static int promote(PyObject *ufunc, PyArray_DTypeMeta *const dtypes[], PyArray_DTypeMeta *const signature[],
                   PyArray_DTypeMeta *promoted[]) {
    const smm_gufunc *g = smm_gufunc_of(ufunc);
    const smm_signature *s = smm_signature_of(g);
    PyArray_DTypeMeta *given[SMM_MOST_OPERANDS], *common = NULL;
    int count = 0;
    for (int i = 0; i < s->operands; i++) {
        if (smm_is_integer(g->fields[i])) continue;
        if (i < s->inputs) given[count++] = dtypes[i];
        if (i >= s->inputs && !common) common = signature[i];
    }
    if (common)
        Py_INCREF(common);
    else if (!(common = PyArray_PromoteDTypeSequence(count, given)))
        return -1;

    PyArray_DTypeMeta *to = NULL;
    if (common == &PyArray_HalfDType || common == &PyArray_FloatDType)
        to = &PyArray_FloatDType;
    else if (common == &PyArray_DoubleDType || common == &PyArray_PyFloatDType || common == &PyArray_BoolDType ||
             PyType_IsSubtype((PyTypeObject *)common, (PyTypeObject *)&PyArray_IntAbstractDType))
        to = &PyArray_DoubleDType;
    Py_DECREF(common);
    for (int i = 0; i < s->operands; i++) {
        PyArray_DTypeMeta *own = smm_is_integer(g->fields[i]) ? &PyArray_Int32DType : to;
        promoted[i] = own && !signature[i] ? own : dtypes[i];
        Py_XINCREF(promoted[i]);
    }
    return 0;
}

static int add_loop(PyObject *ufunc, PyArray_DTypeMeta *dtype) {
    const smm_gufunc *g = smm_gufunc_of(ufunc);
    const smm_signature *s = smm_signature_of(g);
    PyArray_DTypeMeta *dtypes[SMM_MOST_OPERANDS];
    for (int i = 0; i < s->operands; i++) dtypes[i] = smm_is_integer(g->fields[i]) ? &PyArray_Int32DType : dtype;
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
        signatures[i] = parse(g->signature);
        PyObject *ufunc = PyUFunc_FromFuncAndDataAndSignature(NULL, (void **)(uintptr_t)g, NULL, 0, s->inputs,
                                                              s->operands - s->inputs, PyUFunc_None, g->name, g->doc, 0,
                                                              g->signature);
        if (!ufunc) return -1;
        for (int o = s->inputs; o < s->operands; o++) /* beta multiplies what the output holds */
            ((PyUFuncObject *)ufunc)->op_flags[o] = strchr(g->fields, 't') ? UPDATED : WRITTEN;
        PyObject *function = smm_direct_function(ufunc);
        const int failed = !function || PyDict_SetItemString(direct, g->name, function) < 0 ||
                           add_loop(ufunc, &PyArray_FloatDType) < 0 || add_loop(ufunc, &PyArray_DoubleDType) < 0 ||
                           add_promoter(ufunc) < 0 || PyModule_AddObjectRef(module, g->name, ufunc) < 0;
        Py_XDECREF(function);
        Py_DECREF(ufunc);
        if (failed) return -1;
    }
    return 0;
}
