/* patch.c: NumPy's own ufuncs with inner loops of smallmm: np.matmul and its like, and the gufuncs behind numpy.linalg.
 *
 * Only the innermost function changes, so broadcasting, casts, out=, overlaps, subclasses and errors stay NumPy's. A
 * loop describes what it is given as an smm_call and runs it. It hands on to NumPy's former loop what that does faster,
 * and whatever might end otherwise than in NumPy: a matrix that failed, a NaN, a floating-point exception. Such a call
 * is computed anew as a whole, so its values, warnings and LinAlgError are NumPy's.
 *
 * NumPy exchanges the function of a loop, but not its `data`, which stays that of the former loop: hence a function for
 * each ufunc and type. */
#include <fenv.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "patched.h"

/* What NumPy's loops do with floating-point flags. A PRODUCT leaves them as arithmetic does. A DETERMINANT, too, whose
 * pivots of zero are no exception. FACTORS raise FE_INVALID if a matrix failed or it was raised before, and no other.
 */
typedef enum kind { PRODUCT, DETERMINANT, FACTORS } kind;

typedef struct patched {
    smm_gufunc g;
    kind kind;
    bool is_real; /* complex loops stay NumPy's */
} patched;

#define ANY false
#define REAL true
static const patched rows[] = {
#define SMM_MIN_BATCH(...)
#define SMM_PATCHED(ufunc, OP, the_form, the_kind, numbers, the_signature, the_k, the_rows) \
    {{.name = #ufunc, .op = SMM_OP_##OP, .form = the_form, .signature = the_signature, .k = the_k, .rows = the_rows}, \
     the_kind, \
     numbers},
#include "patched.def"
#undef SMM_PATCHED
};
#undef ANY
#undef REAL

#undef SMM_MIN_BATCH

static smm_signature signatures[NUMPY_ROWS];

/* NumPy's loops, known from the first exchange on and never forgotten, since a thread may still be in one of ours. */
static PyUFuncGenericFunction former[NUMPY_ROWS][SMM_COMPUTED_TYPES];

/* --- Explanations ------------------------------------------------------------------------------------ */

/* What calls of a loop, alike but for their numbers of matrices, would come to. */
typedef struct expectation {
    int row;
    smm_dtype dtype;
    npy_intp order, calls, matrices, fewest;
    outcome what;
} expectation;

typedef struct explanation {
    expectation of[64];
    int count;
} explanation;

/* While a thread has one, its loops tell it what they would do, and compute nothing. */
static _Thread_local explanation *current_explanation;

/* Explanations under way, and one more while loops are timed: else a loop looks for neither, which takes time. */
static npy_intp watchers;

static void expect(expectation e) {
    explanation *x = current_explanation;
    for (int i = 0; i < x->count; i++) {
        expectation *y = &x->of[i];
        if (y->row != e.row || y->dtype != e.dtype || y->order != e.order || y->what != e.what) continue;
        y->calls++;
        y->matrices += e.matrices;
        return;
    }
    if (x->count < (int)(sizeof x->of / sizeof *x->of)) x->of[x->count++] = e;
}

/* --- Loops ------------------------------------------------------------------------------------------- */

enum { FLAGS = FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW | FE_UNDERFLOW };

_Thread_local bool smm_is_uninterrupted;

/* NumPy's qr_r_raw has one output, tau: R and the reflectors replace A. */
static bool replaces_a(const patched *p) { return p->g.op == SMM_OP_QR_RAW; }

static bool is_compact(const smm_operand *x, const smm_call *call) {
    const intptr_t size = smm_size(call->dtype);
    return (call->n == 1 || x->col == size) && (call->m == 1 || x->row == call->n * size) &&
           (call->batch == 1 || x->batch == call->m * call->n * size);
}

/* a = h, both m x n; h is compact. */
static void copy_back(const smm_call *call, const smm_operand *a, const char *h) {
    const intptr_t size = smm_size(call->dtype), matrices = call->batch, m = call->m, n = call->n;
    if (is_compact(a, call)) {
        memcpy(a->data, h, (size_t)(matrices * m * n * size));
        return;
    }
    for (intptr_t q = 0; q < matrices; q++)
        for (intptr_t i = 0; i < m; i++)
            for (intptr_t j = 0; j < n; j++, h += size)
                memcpy((char *)a->data + q * a->batch + i * a->row + j * a->col, h, (size_t)size);
}

/* Run a call and leave the flags of NumPy's loop. Of CHOLESKY info tells of every NaN. Flags that were raised before,
 * by the loop's call on other matrices of the same arrays, stay. */
static outcome run(const patched *p, smm_call *call) {
    if (smm_overlap_of(call) != SMM_APART) return OVERLAP;
    bool failed = false, not_finite = false;
    if (p->kind == FACTORS) call->failed = &failed;
    const int before = fetestexcept(FLAGS);
    if (before) feclearexcept(FLAGS);
    smm_is_uninterrupted = true;
    const smm_status status =
        smm_run_and_tell(call, p->kind == PRODUCT || call->op == SMM_OP_CHOLESKY ? NULL : &not_finite);
    smm_is_uninterrupted = false;
    const int raised = fetestexcept(FLAGS);
    if (raised) feclearexcept(FLAGS);
    const int telling = p->kind == PRODUCT ? FLAGS : p->kind == DETERMINANT ? FE_OVERFLOW | FE_UNDERFLOW : 0;
    const outcome what = status ? REFUSED : failed || not_finite || raised & telling ? EXCEPTIONAL : SERVED;
    const int kept = what == SERVED && p->kind == FACTORS ? before & FE_INVALID : before;
    if (kept) feraiseexcept(kept);
    return what;
}

/* The same of a call whose result replaces A, which must be whole if NumPy is to compute it anew: hence a copy. */
static outcome run_aside(const patched *p, smm_call *call) {
    const smm_operand a = call->a;
    const intptr_t size = smm_size(call->dtype);
    if (call->batch > 1 && !a.batch) return OVERLAP;
    char *const h = malloc((size_t)(call->batch * call->m * call->n * size));
    if (!h) return REFUSED;
    call->qr_raw.h = (smm_operand){.data = h, .batch = call->m * call->n * size, .row = call->n * size, .col = size};
    const outcome what = run(p, call);
    if (what == SERVED) copy_back(call, &a, h);
    free(h);
    return what;
}

static npy_intp order_of(const smm_signature *s, const npy_intp *sizes) {
    npy_intp order = 0;
    for (int i = 1; i <= s->dimensions; i++) {
        if (sizes[i] < 1 || sizes[i] > SMM_MAX_ORDER) return ORDERS - 1;
        if (sizes[i] > order) order = sizes[i];
    }
    return order;
}

/* The ufunc by whose list the count is judged: matrices of one row or column are vectors. */
static int judge_of(int row, const npy_intp *sizes) {
    if (row != ROW_matmul || (sizes[1] > 1 && sizes[3] > 1)) return row;
    return sizes[1] == sizes[3] ? ROW_vecdot : ROW_matvec;
}

/* Nanoseconds in loops, the former ones included, while benchmarks/host/clients.py asks for them. */
static bool is_timed;
static npy_intp nanoseconds;

static npy_intp now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (npy_intp)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void serve(int row, smm_dtype dtype, char **data, const npy_intp *sizes, const npy_intp *strides, void *own) {
    const bool watched = __atomic_load_n(&watchers, __ATOMIC_RELAXED) != 0;
    const bool explained = watched && current_explanation;
    const bool timed = watched && __atomic_load_n(&is_timed, __ATOMIC_RELAXED);
    const npy_intp start = timed ? now() : 0;
    const npy_intp order = order_of(&signatures[row], sizes);
    const npy_intp least = smm_fewest(judge_of(row, sizes), dtype, order);
    outcome what = order == ORDERS - 1 ? LARGE : FEW;
    if (what == FEW && sizes[0] >= least) {
        smm_call call = smm_call_of_loop(&rows[row].g, &signatures[row], dtype, data, sizes, strides);
        if (rows[row].g.k) call.k = call.m < call.n ? call.m : call.n;
        if (explained)
            what = smm_overlap_of(&call) == SMM_APART ? SERVED : OVERLAP;
        else
            what = replaces_a(&rows[row]) ? run_aside(&rows[row], &call) : run(&rows[row], &call);
    }
    if (explained) {
        expect((expectation){row, dtype, order, 1, sizes[0], least, what});
        return;
    }
    smm_count_call(row, order, what, sizes[0]);
    if (what != SERVED) former[row][dtype](data, sizes, strides, own);
    if (timed) smm_add_to(&nanoseconds, now() - start);
}

#define LOOP(ufunc, NAME, name, ...) \
    static void ufunc##_##name(char **data, const npy_intp *sizes, const npy_intp *strides, void *own) { \
        serve(ROW_##ufunc, SMM_##NAME, data, sizes, strides, own); \
    }
#define SMM_MIN_BATCH(...)
#define SMM_PATCHED(ufunc, ...) SMM_COMPUTED(LOOP, ufunc)
#include "patched.def"
#undef SMM_PATCHED
#undef LOOP

static const PyUFuncGenericFunction loops[NUMPY_ROWS][SMM_COMPUTED_TYPES] = {
#define LOOP(ufunc, NAME, name, ...) ufunc##_##name,
#define SMM_PATCHED(ufunc, ...) {SMM_COMPUTED(LOOP, ufunc)},
#include "patched.def"
#undef SMM_PATCHED
#undef LOOP
#undef SMM_MIN_BATCH
};

/* --- Exchange ---------------------------------------------------------------------------------------- */

static int row_named(const char *name) {
    for (int row = 0; row < NUMPY_ROWS; row++)
        if (!strcmp(rows[row].g.name, name)) return row;
    return -1;
}

static bool has_signature(const PyUFuncObject *ufunc, const smm_signature *s) {
    bool same = ufunc->core_enabled && ufunc->nin == s->inputs && ufunc->nargs == s->operands &&
                ufunc->core_num_dim_ix == s->dimensions;
    for (int i = 0; same && i < s->operands; i++) same = ufunc->core_num_dims[i] == s->core[i];
    return same;
}

/* The element type of loop number i of a ufunc if patch.c has one for it, else -1. */
static int dtype_of_loop(const PyUFuncObject *ufunc, int row, int i) {
    const char *types = ufunc->types + i * ufunc->nargs;
    const int dtype = smm_dtype_of_numpy(types[0]);
    if (dtype < 0 || dtype >= SMM_COMPUTED_TYPES || (rows[row].is_real && smm_is_complex((smm_dtype)dtype))) return -1;
    for (int j = 0; j < ufunc->nargs; j++) {
        const smm_dtype its = smm_type_of(rows[row].g.op, (smm_dtype)dtype, signatures[row].position[j]);
        if (smm_dtype_of_numpy(types[j]) != (int)its) return -1;
    }
    return dtype;
}

/* Which loops are ours, or were put in and then replaced by someone else. */
static bool is_in[NUMPY_ROWS][SMM_COMPUTED_TYPES];

static int exchange_loops(PyUFuncObject *ufunc, int row, bool in) {
    int count = 0;
    for (int i = 0; i < ufunc->ntypes; i++) {
        const int dtype = dtype_of_loop(ufunc, row, i);
        if (dtype < 0 || is_in[row][dtype] == in) continue;
        int types[NPY_MAXARGS];
        for (int j = 0; j < ufunc->nargs; j++) types[j] = ufunc->types[i * ufunc->nargs + j];
        if (in) former[row][dtype] = ufunc->functions[i]; /* before a thread can be in ours */
        PyUFuncGenericFunction replaced;
        if (PyUFunc_ReplaceLoopBySignature(ufunc, in ? loops[row][dtype] : former[row][dtype], types, &replaced) < 0)
            return -1;
        is_in[row][dtype] = in;
        count++;
    }
    return count;
}

/* (name, ufunc, ...): its row, or -1 with an exception. */
static int parse_ufunc(PyObject *args, const char *format, PyUFuncObject **ufunc, int *in) {
    const char *name;
    if (!PyArg_ParseTuple(args, format, &name, &PyUFunc_Type, ufunc, in)) return -1;
    const int row = row_named(name);
    if (row < 0) PyErr_Format(PyExc_ValueError, "name is '%s', which no row of patched.def has", name);
    return row;
}

/* exchange_loops(name, ufunc, in): the number of loops that were put in, or of NumPy's that were put back. */
PyObject *smm_exchange_loops(PyObject *Py_UNUSED(module), PyObject *args) {
    PyUFuncObject *ufunc;
    int in;
    const int row = parse_ufunc(args, "sO!p", &ufunc, &in);
    if (row < 0) return NULL;
    const int count = has_signature(ufunc, &signatures[row]) ? exchange_loops(ufunc, row, in) : 0;
    if (count < 0 && !PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, "NumPy does not know its own loop");
    return count < 0 ? NULL : PyLong_FromLong(count);
}

/* loops_in(name, ufunc): how many are in, and how many of these someone else has replaced since. */
PyObject *smm_loops_in(PyObject *Py_UNUSED(module), PyObject *args) {
    PyUFuncObject *ufunc;
    const int row = parse_ufunc(args, "sO!", &ufunc, NULL);
    if (row < 0) return NULL;
    int in = 0, replaced = 0;
    for (int i = 0; i < ufunc->ntypes && has_signature(ufunc, &signatures[row]); i++) {
        const int dtype = dtype_of_loop(ufunc, row, i);
        if (dtype < 0 || !is_in[row][dtype]) continue;
        in++;
        replaced += ufunc->functions[i] != loops[row][dtype];
    }
    return Py_BuildValue("(ii)", in, replaced);
}

/* explain_loops(function, *args, **kwargs): [(ufunc, dtype, order or 0, calls, matrices, fewest or None, outcome), ...]
 * of the loops that a call of it enters. They compute nothing, so what it makes of their results means nothing, errors
 * included. */
PyObject *smm_explain_loops(PyObject *Py_UNUSED(module), PyObject *args, PyObject *kwargs) {
    explanation x = {.count = 0}, *const outer = current_explanation;
    current_explanation = &x;
    smm_add_to(&watchers, 1);
    PyObject *result = smm_call_with(smm_current_hook, args, 0, kwargs);
    smm_add_to(&watchers, -1);
    current_explanation = outer;
    Py_XDECREF(result);
    if (!result) {
        if (!x.count || !PyErr_ExceptionMatches(PyExc_Exception)) return NULL;
        PyErr_Clear();
    }
    PyObject *list = PyList_New(0);
    for (int i = 0; i < x.count && list; i++) {
        const expectation *e = &x.of[i];
        const bool never = e->order == ORDERS - 1 || e->fewest == INTPTR_MAX;
        PyObject *least = never ? Py_NewRef(Py_None) : PyLong_FromSsize_t(e->fewest);
        smm_append(&list, Py_BuildValue("(ssnnnNs)", rows[e->row].g.name, smm_dtypes[e->dtype].name,
                                        (Py_ssize_t)(e->order < ORDERS - 1 ? e->order : 0), (Py_ssize_t)e->calls,
                                        (Py_ssize_t)e->matrices, least, smm_outcomes[e->what]));
    }
    return list;
}

/* time_loops(on): seconds in loops since timing began, which ends, or begins anew. */
PyObject *smm_time_loops(PyObject *Py_UNUSED(module), PyObject *on) {
    const int is_on = PyObject_IsTrue(on);
    if (is_on < 0) return NULL;
    const npy_intp spent = __atomic_exchange_n(&nanoseconds, 0, __ATOMIC_RELAXED);
    const bool was_on = __atomic_exchange_n(&is_timed, is_on != 0, __ATOMIC_RELAXED);
    smm_add_to(&watchers, is_on - was_on);
    return PyFloat_FromDouble((double)spent / 1e9);
}

int smm_add_patch(PyObject *Py_UNUSED(module)) {
    for (int row = 0; row < NUMPY_ROWS; row++) {
        char text[SMM_SIGNATURE_LENGTH];
        signatures[row] = smm_read_signature(&rows[row].g, text);
        if (replaces_a(&rows[row])) { /* its operands are a, h and tau */
            signatures[row].position[1] = signatures[row].position[2];
            signatures[row].operands = 2;
        }
    }
    return 0;
}
