/* gufuncs.c: the operations as NumPy generalised ufuncs, from one list of descriptors.
 *
 * NumPy broadcasts, casts, aligns, allocates, copies where `out` overlaps an input, and releases the GIL; the loop here
 * describes its operands as an smm_call and runs it. direct.c does the same for plain arrays that need none of this. */
#include <fenv.h>
#include <string.h>

#include "extension.h"

/* With all operands of the operation, of which info is the last. */
#define WHOLE(OP, the_form) .op = SMM_OP_##OP, .form = the_form, .whole = true
static const smm_gufunc gufuncs[] = {
    {"matmul", "x1 @ x2", .op = SMM_OP_MATMUL, .signature = "(m?,k),(k,n?)->(m?,n?)"},
    {"batched_matmul", "a @ b", .op = SMM_OP_MATMUL, .signature = "(m,k),(k,n)->(m,n)"},
    {"gemm", "alpha a @ b + beta out", .op = SMM_OP_MATMUL, .whole = true, .signature = "(m,k),(k,n),(),()->(m,n)"},
    {"matmul_tensor", "x1 @ x2 by tensor cores", .op = SMM_OP_MATMUL, .form = SMM_TENSOR,
     .signature = "(m?,k),(k,n?)->(m?,n?)"},
    {"batched_matmul_tensor", "a @ b by tensor cores", .op = SMM_OP_MATMUL, .form = SMM_TENSOR,
     .signature = "(m,k),(k,n)->(m,n)"},
    {"gemm_tensor", "alpha a @ b + beta out by tensor cores", .op = SMM_OP_MATMUL, .form = SMM_TENSOR, .whole = true,
     .signature = "(m,k),(k,n),(),()->(m,n)"},
    {"matvec", "a matrix times a column vector", .op = SMM_OP_MATMUL, .signature = "(m,k),(k)->(m)"},
    {"vecmat", "a row vector times a matrix", .op = SMM_OP_MATMUL, .signature = "(k),(k,n)->(n)", .rows = 5},
    {"lu_factor", "LU, pivots, info", .op = SMM_OP_LU, .k = 'n', .whole = true, .signature = "(n,n)->(n,n),(n),()"},
    {"lu_factor_tall", "the same for m >= n", .op = SMM_OP_LU, .k = 'n', .whole = true},
    {"lu_factor_wide", "the same for m <= n", .op = SMM_OP_LU, .k = 'm', .whole = true},
    {"lu_solve", "X of A X = B", .op = SMM_OP_LU_SOLVE},
    {"lu_solve_transposed", "X of A^T X = B", .op = SMM_OP_LU_SOLVE, .form = SMM_TRANSPOSED},
    {"solve", "X of A X = B, info", WHOLE(SOLVE, 0)},
    {"inv", "inverse, info", WHOLE(INV, 0)},
    {"det", "determinant", .op = SMM_OP_DET},
    {"slogdet", "sign, log of the absolute determinant", .op = SMM_OP_SLOGDET},
    {"cholesky", "L of A = L L^T, info", WHOLE(CHOLESKY, 0)},
    {"cholesky_upper", "U of A = U^T U, info", WHOLE(CHOLESKY, SMM_UPPER)},
    {"cho_solve", "X of L L^T X = B", .op = SMM_OP_CHO_SOLVE},
    {"cho_solve_upper", "X of U^T U X = B", .op = SMM_OP_CHO_SOLVE, .form = SMM_UPPER},
    {"solve_lower", "X of L X = B, info", WHOLE(SOLVE_TRIANGULAR, 0)},
    {"solve_upper", "X of U X = B, info", WHOLE(SOLVE_TRIANGULAR, SMM_UPPER)},
    {"solve_unit_lower", "the same, with a diagonal of ones", WHOLE(SOLVE_TRIANGULAR, SMM_UNIT)},
    {"solve_unit_upper", "the same, with a diagonal of ones", WHOLE(SOLVE_TRIANGULAR, SMM_UNIT | SMM_UPPER)},
    {"qr_tall", "Q, R for m >= n", .op = SMM_OP_QR, .k = 'n'},
    {"qr_complete", "Q, R with a square Q", .op = SMM_OP_QR, .k = 'm'},
    {"qr_r_tall", "R for m >= n", .op = SMM_OP_QR_R, .k = 'n'},
    {"qr_r_wide", "R for m <= n", .op = SMM_OP_QR_R, .k = 'm'},
    {"qr_raw_tall", "R above the reflectors, tau; m >= n", .op = SMM_OP_QR_RAW, .k = 'n'},
    {"qr_raw_wide", "R above the reflectors, tau; m <= n", .op = SMM_OP_QR_RAW, .k = 'm'},
    {"lstsq", "X of least |A X - B|, those norms, rank, info", WHOLE(LSTSQ, 0)},
    {"eigh", "eigenvalues, eigenvectors, info", WHOLE(EIGH, 0)},
    {"eigh_upper", "the same of the upper triangle", WHOLE(EIGH, SMM_UPPER)},
    {"eigvalsh", "eigenvalues, info", WHOLE(EIGVALSH, 0)},
    {"eigvalsh_upper", "the same of the upper triangle", WHOLE(EIGVALSH, SMM_UPPER)},
    {"eig", "eigenvalues, eigenvectors, info", WHOLE(EIG, 0)},
    {"eigvals", "eigenvalues, info", WHOLE(EIGVALS, 0)},
    {"schur", "T, Z of A = Z T Z^H, info", WHOLE(SCHUR, 0)},
    {"sqrtm", "X of X X = A, negative eigenvalues, info", WHOLE(SQRTM, 0)},
    {"expm", "e^A", .op = SMM_OP_EXPM},
    {"svd_tall", "U, s, V^T, info for m >= n", .op = SMM_OP_SVD, .k = 'n', .whole = true},
    {"svd_wide", "the same for m <= n", .op = SMM_OP_SVD, .k = 'm', .whole = true},
    {"svd_full_tall", "square U, s, square V^T, info for m >= n", .op = SMM_OP_SVD_FULL, .k = 'n', .whole = true},
    {"svd_full_wide", "the same for m <= n", .op = SMM_OP_SVD_FULL, .k = 'm', .whole = true},
    {"svdvals_tall", "singular values, info for m >= n", .op = SMM_OP_SVDVALS, .k = 'n', .whole = true},
    {"svdvals_wide", "the same for m <= n", .op = SMM_OP_SVDVALS, .k = 'm', .whole = true},
    {"solve_pos", "X of A X = B by Cholesky, info", WHOLE(SOLVE_POS, 0)},
    {"solve_pos_upper", "the same of the upper triangle", WHOLE(SOLVE_POS, SMM_UPPER)},
    {"solve_her", "X of A X = B by L D L^H, info", WHOLE(SOLVE_SYM, 0)},
    {"solve_her_upper", "the same of the upper triangle", WHOLE(SOLVE_SYM, SMM_UPPER)},
    {"solve_sym", "X of A X = B by L D L^T, info", WHOLE(SOLVE_SYM, SMM_SYMMETRIC)},
    {"solve_sym_upper", "the same of the upper triangle", WHOLE(SOLVE_SYM, SMM_SYMMETRIC | SMM_UPPER)},
    {"ldl_factor", "L D L^H, pivots, info", WHOLE(LDL, 0)},
    {"ldl_factor_upper", "the same of the upper triangle", WHOLE(LDL, SMM_UPPER)},
    {"ldl_factor_symmetric", "L D L^T, pivots, info", WHOLE(LDL, SMM_SYMMETRIC)},
    {"ldl_factor_symmetric_upper", "the same of the upper triangle", WHOLE(LDL, SMM_SYMMETRIC | SMM_UPPER)},
    {"ldl_solve", "X of A X = B, info", WHOLE(LDL_SOLVE, 0)},
    {"ldl_solve_upper", "the same of the upper triangle", WHOLE(LDL_SOLVE, SMM_UPPER)},
    {"ldl_solve_symmetric", "X of A X = B, L D L^T, info", WHOLE(LDL_SOLVE, SMM_SYMMETRIC)},
    {"ldl_solve_symmetric_upper", "the same of the upper triangle", WHOLE(LDL_SOLVE, SMM_SYMMETRIC | SMM_UPPER)},
    {"solve_tridiagonal", "X of A X = B, info", WHOLE(SOLVE_TRIDIAGONAL, 0)},
    {"solve_tridiagonal_unpivoted", "the same, rows in place", WHOLE(SOLVE_TRIDIAGONAL, SMM_UNPIVOTED)},
    {"solve_banded", "X of A X = B, info", WHOLE(SOLVE_BANDED, 0)},
    {"solveh_banded", "X of A X = B, ab lower, info", WHOLE(SOLVEH_BANDED, 0)},
    {"solveh_banded_upper", "the same, ab upper", WHOLE(SOLVEH_BANDED, SMM_UPPER)},
    {"lu_rcond", "1 / (|A| |A^-1|) in 1-norms", .op = SMM_OP_LU_RCOND},
    {"lu_rcond_inf", "the same in infinity norms", .op = SMM_OP_LU_RCOND, .form = SMM_TRANSPOSED},
    {"backward_error", "max |B - A X| / (|A| |X| + |B|)", .op = SMM_OP_BACKWARD_ERROR},
    {"backward_error_extra", "the same, accurately", .op = SMM_OP_BACKWARD_ERROR, .form = SMM_EXTRA},
    {"backward_error_norm", "the same in norms", .op = SMM_OP_BACKWARD_ERROR, .form = SMM_NORMWISE},
    {"backward_error_norm_extra", "the same in norms, accurately", .op = SMM_OP_BACKWARD_ERROR,
     .form = SMM_NORMWISE | SMM_EXTRA},
    {"refine", "a better X, ferr, berr", .op = SMM_OP_REFINE},
    {"refine_extra", "the same, with accurate residuals", .op = SMM_OP_REFINE, .form = SMM_EXTRA},
    {"solve_mixed", "X of A X = B, iterations, info", WHOLE(SOLVE_MIXED, 0)},
    {"solve_mixed_pos", "the same by Cholesky", WHOLE(SOLVE_MIXED, SMM_POSITIVE)},
};
#undef WHOLE

enum { GUFUNCS = sizeof gufuncs / sizeof *gufuncs };

/* Filled when the module is made. */
static smm_signature signatures[GUFUNCS];
static char texts[GUFUNCS][SMM_SIGNATURE_LENGTH];

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
        to += write_dimensions(to, g, &smm_operations[g->op].operand[s->position[i]]);
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

smm_signature smm_read_signature(const smm_gufunc *g, char text[SMM_SIGNATURE_LENGTH]) {
    const smm_operation *operation = &smm_operations[g->op];
    smm_signature s = {.updates = g->op == SMM_OP_MATMUL && g->whole};
    for (int i = 0; i < operation->count; i++) {
        const int direction = operation->operand[i].direction;
        if (direction & SMM_OPTIONAL && !g->whole) continue;
        if (i == smm_roles_of[g->op].b) s.b = s.operands;
        s.position[s.operands++] = i;
        if (direction & SMM_READ) s.inputs = s.operands;
    }
    if (g->signature)
        strcpy(text, g->signature);
    else
        write_signature(text, g, &s);
    parse(&s, text);
    return s;
}

/* A gufunc's `data` belongs to its legacy loops; ours has none, so it holds the descriptor. */
const smm_gufunc *smm_gufunc_of(PyObject *ufunc) {
    return (const smm_gufunc *)(const void *)((PyUFuncObject *)ufunc)->data;
}

const smm_gufunc *smm_gufunc_in(PyObject *x) {
    if (!PyObject_TypeCheck(x, &PyUFunc_Type)) return NULL;
    for (int i = 0; i < GUFUNCS; i++)
        if (smm_gufunc_of(x) == &gufuncs[i]) return &gufuncs[i];
    return NULL;
}

const smm_gufunc *smm_gufunc_named(const char *name, size_t length) {
    for (int i = 0; i < GUFUNCS; i++)
        if (*gufuncs[i].name == *name && strlen(gufuncs[i].name) == length && !memcmp(gufuncs[i].name, name, length))
            return &gufuncs[i];
    return NULL;
}

const smm_signature *smm_signature_of(const smm_gufunc *g) { return &signatures[g - gufuncs]; }

smm_element smm_element_of(const smm_gufunc *g, int i) {
    return smm_operations[g->op].operand[smm_signature_of(g)->position[i]].element;
}

bool smm_is_integer(const smm_gufunc *g, int i) { return smm_element_of(g, i) == SMM_INT32; }

/* The number of bfloat16 is set once, when it is known: add_bfloat16. */
static int numpy_types[SMM_DTYPE_COUNT] = {
#define ROW(x, NAME, name, in_memory, computed, numpy, ...) numpy,
    SMM_DTYPES(ROW, _)
#undef ROW
};

int smm_numpy_type(const smm_gufunc *g, int i, smm_dtype dtype) {
    if (smm_is_integer(g, i)) return NPY_INT32;
    return numpy_types[smm_type_of(g->op, dtype, smm_signature_of(g)->position[i])];
}

int smm_dtype_of_numpy(int type) {
    for (int dtype = 0; dtype < SMM_DTYPE_COUNT; dtype++)
        if (numpy_types[dtype] == type) return dtype;
    return -1;
}

intptr_t *smm_size_in(smm_call *call, char dimension) {
    return dimension == 'm' ? &call->m : dimension == 'n' ? &call->n : &call->k;
}

/* The pivots of LU that a call is given, NULL if none. */
static const smm_operand *pivots_of_lu(const smm_call *call) {
    switch (call->op) {
    case SMM_OP_LU_SOLVE: return &call->lu_solve.pivots;
    case SMM_OP_LU_RCOND: return &call->lu_rcond.pivots;
    case SMM_OP_REFINE: return &call->refine.pivots;
    default: return NULL;
    }
}

bool smm_pivots_are_rows(const smm_call *call) {
    if (!pivots_of_lu(call)) return true;
    for (intptr_t r = 0; r < smm_runs(call); r++) {
        const smm_call run = smm_run_of(call, r);
        const smm_operand pivots = *pivots_of_lu(&run);
        for (intptr_t q = 0; q < (pivots.batch ? call->batch : min_of(1, call->batch)); q++)
            for (intptr_t i = 0; i < call->n; i++) {
                const int32_t pivot = *(const int32_t *)((const char *)pivots.data + q * pivots.batch + i * pivots.row);
                if (pivot < i || pivot >= call->n) return false;
            }
    }
    return true;
}

smm_status smm_dispatch(const smm_call *call) {
    smm_hook *hook = smm_current_hook;
    if (hook) return hook->take(hook, call);
    if (!pivots_of_lu(call)) return smm_run(call);
    bool failed = false;
    smm_call watched = *call;
    watched.failed = &failed;
    const smm_status status = smm_run(&watched);
    /* only after a failure, to tell bad pivots from a zero of U */
    return !status && failed && !smm_pivots_are_rows(call) ? SMM_ERR_ARGUMENT : status;
}

smm_status smm_dispatch_many(const smm_call *calls, size_t count, smm_status *each) {
    smm_hook *hook = smm_current_hook;
    if (!hook && !pivots_of_lu(calls)) return smm_run_many(calls, count, each);
    smm_status first = SMM_OK;
    for (size_t i = 0; i < count; i++) {
        each[i] = smm_dispatch(&calls[i]);
        if (!first) first = each[i];
    }
    if (hook && hook->take_many) hook->take_many(hook, calls, count);
    return first;
}

void smm_finish_sizes(smm_call *call, const smm_gufunc *g) {
    if (call->n < 0) call->n = 1;
    if (call->m < 0) call->m = g->op == SMM_OP_MATMUL ? 1 : call->n;
    if (call->k < 0) call->k = g->k ? *smm_size_in(call, g->k) : 1;
}

smm_call smm_call_of_loop(const smm_gufunc *g, const smm_signature *s, smm_dtype dtype, char *const *data,
                          const npy_intp *sizes, const npy_intp *strides) {
    smm_call call = {.op = g->op, .dtype = dtype, .form = g->form, .batch = sizes[0], .m = -1, .n = -1, .k = -1};
    for (int i = 0; i < s->dimensions; i++) *smm_size_in(&call, s->dimension[i]) = sizes[1 + i];
    smm_finish_sizes(&call, g);
    const npy_intp *core = strides + s->operands;
    for (int i = 0; i < s->operands; core += s->core[i++]) {
        smm_operand *x = &call.operand[s->position[i]];
        *x = (smm_operand){.data = data[i], .batch = strides[i]};
        if (s->core[i] > 1)
            x->row = core[0], x->col = core[1];
        else if (s->core[i] == 1)
            *(g->rows >> i & 1 ? &x->col : &x->row) = core[0];
    }
    return call;
}

static int loop(PyArrayMethod_Context *context, char *const *data, const npy_intp *sizes, const npy_intp *strides,
                NpyAuxData *Py_UNUSED(auxdata)) {
    const smm_gufunc *g = smm_gufunc_of(context->caller);
    const smm_signature *s = smm_signature_of(g);
    smm_dtype dtype = (smm_dtype)smm_dtype_of_numpy(context->descriptors[0]->type_num);
    unsigned pairs = 0;
    if (s->b > 0 && context->descriptors[s->b]->type_num != context->descriptors[0]->type_num) {
        pairs = smm_pairs_of(g->op, dtype, (smm_dtype)smm_dtype_of_numpy(context->descriptors[s->b]->type_num));
        dtype = smm_dtypes[dtype].real;
    }
    smm_call call = smm_call_of_loop(g, s, dtype, data, sizes, strides);
    smm_outer outer = {0};
    if (pairs && smm_as_interleaved_real(&call, &outer, pairs) && outer.dims) call.outer = &outer;
    const smm_status status = smm_dispatch(&call);

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

/* NumPy's class of a dtype, kept for good. */
static PyArray_DTypeMeta *dtype_meta(int type) {
    PyArray_Descr *descriptor = PyArray_DescrFromType(type);
    PyArray_DTypeMeta *meta = NPY_DTYPE(descriptor);
    Py_DECREF(descriptor);
    return meta;
}

/* The element type of a common dtype: integers and bools are computed in float64. -1: none. */
static int dtype_of_common(const PyArray_DTypeMeta *common) {
    const int own = smm_dtype_of_numpy(common->type_num);
    if (own >= 0) return own;
    if (common == &PyArray_PyComplexDType) return SMM_C128;
    const bool is_double = common == &PyArray_PyFloatDType || common == &PyArray_BoolDType ||
                           PyType_IsSubtype((PyTypeObject *)common, (PyTypeObject *)&PyArray_IntAbstractDType);
    return is_double ? SMM_F64 : -1;
}

static PyArray_DTypeMeta *meta_of(const smm_gufunc *g, int i, smm_dtype dtype, unsigned pairs) {
    const bool is_pair = pairs >> smm_signature_of(g)->position[i] & 1;
    return dtype_meta(smm_numpy_type(g, i, is_pair ? smm_dtypes[dtype].complex_of : dtype));
}

static bool is_complex(PyArray_DTypeMeta *x) {
    return x == &PyArray_PyComplexDType || PyTypeNum_ISCOMPLEX(x->type_num);
}

/* Of operands of these dtypes, which are computed in a complex type: those that stay complex where the others are real.
 * Any other complex operand, such as alpha, makes all of them complex. */
static unsigned pairs_among(const smm_gufunc *g, smm_dtype dtype, PyArray_DTypeMeta *const dtypes[]) {
    const smm_signature *s = smm_signature_of(g);
    const smm_dtype real = smm_dtypes[dtype].real;
    for (int i = 1; i < s->inputs; i++)
        if (i != s->b && is_complex(dtypes[i])) return 0;
    return smm_pairs_of(g->op, is_complex(dtypes[0]) ? dtype : real, is_complex(dtypes[s->b]) ? dtype : real);
}

static bool is_real_number(PyArray_DTypeMeta *x) { return x == &PyArray_PyFloatDType || x == &PyArray_PyLongDType; }

/* For operands that do not all have one of our types: integers, bools and mixtures are combined with float64 by NumPy's
 * rules; a dtype that the caller asks for wins. Other dtypes stay, and NumPy then finds no loop for them. */
static int promote(PyObject *ufunc, PyArray_DTypeMeta *const dtypes[], PyArray_DTypeMeta *const signature[],
                   PyArray_DTypeMeta *promoted[]) {
    const smm_gufunc *g = smm_gufunc_of(ufunc);
    const smm_signature *s = smm_signature_of(g);
    PyArray_DTypeMeta *given[SMM_MAX_OPERANDS], *common = NULL;
    int count = 0;
    for (int i = 0; i < s->operands; i++) {
        const smm_element element = smm_element_of(g, i);
        if (element == SMM_INT32) continue;
        /* Python's numbers after the matrices take their dtype; with bfloat16 NumPy would make float64 of them. */
        if (i < s->inputs && (!count || !is_real_number(dtypes[i]))) given[count++] = dtypes[i];
        if (i >= s->inputs && !common && element == SMM_NUMBER) common = signature[i];
    }
    if (common)
        Py_INCREF(common);
    else if (!(common = PyArray_PromoteDTypeSequence(count, given)))
        return -1;

    int dtype = dtype_of_common(common);
    const bool takes = dtype >= 0 && smm_takes(g->op, (smm_dtype)dtype);
    Py_DECREF(common);
    const unsigned pairs = takes ? pairs_among(g, (smm_dtype)dtype, dtypes) : 0;
    if (pairs) dtype = smm_dtypes[dtype].real;
    for (int i = 0; i < s->operands; i++) {
        promoted[i] = dtypes[i];
        if (!signature[i] && smm_is_integer(g, i)) promoted[i] = &PyArray_Int32DType;
        if (!signature[i] && takes && !smm_is_integer(g, i)) promoted[i] = meta_of(g, i, (smm_dtype)dtype, pairs);
        Py_XINCREF(promoted[i]);
    }
    return 0;
}

/* A loop for numbers of that type; but operands that have a bit in `pairs`, by place, are complex. */
static int add_loop(PyObject *ufunc, smm_dtype dtype, unsigned pairs) {
    const smm_gufunc *g = smm_gufunc_of(ufunc);
    const smm_signature *s = smm_signature_of(g);
    PyArray_DTypeMeta *dtypes[SMM_MAX_OPERANDS];
    for (int i = 0; i < s->operands; i++) dtypes[i] = meta_of(g, i, dtype, pairs);
    PyType_Slot slots[] = {{NPY_METH_strided_loop, (void *)loop}, {0, NULL}};
    PyArrayMethod_Spec spec = {.name = g->name,
                               .nin = s->inputs,
                               .nout = s->operands - s->inputs,
                               .casting = NPY_NO_CASTING,
                               .dtypes = dtypes,
                               .slots = slots};
    return PyUFunc_AddLoopFromSpec(ufunc, &spec);
}

/* A loop for operands of one type, and those for a real and a complex matrix. */
static int add_loops(PyObject *ufunc, smm_dtype dtype) {
    const smm_op op = smm_gufunc_of(ufunc)->op;
    const smm_dtype pair = smm_dtypes[dtype].complex_of;
    const unsigned both[] = {smm_pairs_of(op, dtype, pair), smm_pairs_of(op, pair, dtype)};
    int failed = add_loop(ufunc, dtype, 0);
    for (int i = 0; i < 2 && !failed; i++) failed = both[i] ? add_loop(ufunc, dtype, both[i]) : 0;
    return failed;
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

/* add_bfloat16(dtype): loops for the dtype of ml_dtypes, which NumPy knows only once that is imported. The caller makes
 * sure that this happens once. */
PyObject *smm_add_bfloat16(PyObject *module, PyObject *dtype) {
    PyObject *direct = PyObject_GetAttrString(module, "direct"), *name, *function;
    bool failed = !direct;
    if (!failed && (!PyArray_DescrCheck(dtype) || !PyTypeNum_ISUSERDEF(((PyArray_Descr *)dtype)->type_num))) {
        PyErr_Format(PyExc_TypeError, "add_bfloat16: dtype is %R; expected ml_dtypes.bfloat16", dtype);
        failed = true;
    }
    if (!failed) numpy_types[SMM_BF16] = ((PyArray_Descr *)dtype)->type_num;
    for (Py_ssize_t at = 0; !failed && PyDict_Next(direct, &at, &name, &function);)
        failed = add_loop(PyCFunction_GET_SELF(function), SMM_BF16, 0) < 0;
    Py_XDECREF(direct);
    return failed ? NULL : Py_NewRef(Py_None);
}

int smm_add_gufuncs(PyObject *module, PyObject *(*direct_function)(PyObject *ufunc)) {
    PyObject *const direct = PyDict_New();
    if (smm_add(module, "direct", direct) < 0) return -1; /* which holds it */
    for (int i = 0; i < GUFUNCS; i++) {
        const smm_gufunc *g = &gufuncs[i];
        const smm_signature *s = &signatures[i];
        signatures[i] = smm_read_signature(g, texts[i]);
        PyObject *ufunc =
            PyUFunc_FromFuncAndDataAndSignature(NULL, (void **)(uintptr_t)g, NULL, 0, s->inputs,
                                                s->operands - s->inputs, PyUFunc_None, g->name, g->doc, 0, texts[i]);
        if (!ufunc) return -1;
        for (int o = s->inputs; o < s->operands; o++) /* beta multiplies what the output holds */
            ((PyUFuncObject *)ufunc)->op_flags[o] = s->updates ? UPDATED : WRITTEN;
        PyObject *function = direct_function(ufunc);
        bool failed = !function || PyDict_SetItemString(direct, g->name, function) < 0;
        for (int dtype = 0; dtype < SMM_DTYPE_COUNT && !failed; dtype++)
            failed = numpy_types[dtype] != NPY_NOTYPE && smm_takes(g->op, dtype) && add_loops(ufunc, dtype) < 0;
        failed = failed || add_promoter(ufunc) < 0 || PyModule_AddObjectRef(module, g->name, ufunc) < 0;
        Py_XDECREF(function);
        Py_DECREF(ufunc);
        if (failed) return -1;
    }
    return 0;
}
