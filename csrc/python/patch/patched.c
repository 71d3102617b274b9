/* patched.c: thresholds and counts of patched functions: see patched.h. */
#include <string.h>

#include "patched.h"

const char *const smm_outcomes[OUTCOMES] = {
    "served",
    "few: NumPy or PyTorch is faster for so few matrices of this order and type",
    "large: a dimension is above 128 (on a device 32), or zero",
    "overlap: an output shares memory with an input",
    "exceptional: a matrix failed, a result is not finite, or a floating-point exception was raised",
    "other: shapes, types or options that smallmm does not take",
    "refused: by the core",
};

static const char *const names[ROWS] = {
#define SMM_MIN_BATCH(...)
#define SMM_PATCHED(ufunc, ...) #ufunc,
#define SMM_PATCHED_TORCH(op, overload, ...) "aten." #op, "aten." overload,
#include "patched.def"
#include "patched_torch.def"
#undef SMM_PATCHED_TORCH
#undef SMM_PATCHED
#undef SMM_MIN_BATCH
};

/* --- When to serve ----------------------------------------------------------------------------------- */

enum {
    F32 = 1 << SMM_F32,
    F64 = 1 << SMM_F64,
    C64 = 1 << SMM_C64,
    C128 = 1 << SMM_C128,
    REALS = F32 | F64,
    PAIRS = C64 | C128,
    ALL = REALS | PAIRS,
    NARROW = 1 << SMM_COMPUTED_TYPES,
};

static const struct min_batch_row {
    const char *name;
    int types;
    intptr_t order, matrices;
} min_batch[] = {
#define SMM_PATCHED(...)
#define SMM_PATCHED_TORCH(...)
#define SMM_MIN_BATCH(name, types, order, matrices) {#name, types, order, matrices},
#include "patched.def"
#undef SMM_MIN_BATCH
#define SMM_MIN_BATCH(name, types, order, matrices) {"aten." #name, types, order, matrices},
#include "patched_torch.def"
#undef SMM_MIN_BATCH
#undef SMM_PATCHED_TORCH
#undef SMM_PATCHED
};

static intptr_t fewest[ROWS][SMM_COMPUTED_TYPES][ORDERS], fewest_for_all;

/* From the list, of which the first entry that has a call counts; or so many for all, if that is not 0. */
static void set_fewest(intptr_t for_all) {
    const bool wide = !strcmp(smm_isa(), "avx512");
    __atomic_store_n(&fewest_for_all, for_all, __ATOMIC_RELAXED);
    for (int row = 0; row < ROWS; row++) {
        intptr_t matrices[SMM_COMPUTED_TYPES][ORDERS];
        for (int dtype = 0; dtype < SMM_COMPUTED_TYPES; dtype++)
            for (int order = 1; order < ORDERS; order++) matrices[dtype][order] = for_all ? for_all : INTPTR_MAX;
        for (size_t i = for_all ? 0 : sizeof min_batch / sizeof *min_batch; i-- > 0;) {
            const struct min_batch_row *x = &min_batch[i];
            if (strncmp(names[row], x->name, strlen(x->name)) || (x->types & NARROW && wide)) continue;
            for (int dtype = 0; dtype < SMM_COMPUTED_TYPES; dtype++)
                for (int order = 1; x->types >> dtype & 1 && order < ORDERS && order <= x->order; order++)
                    matrices[dtype][order] = x->matrices;
        }
        for (int dtype = 0; dtype < SMM_COMPUTED_TYPES; dtype++)
            for (int order = 1; order < ORDERS; order++)
                __atomic_store_n(&fewest[row][dtype][order], matrices[dtype][order], __ATOMIC_RELAXED);
    }
}

intptr_t smm_fewest(int row, smm_dtype dtype, intptr_t order) {
    return __atomic_load_n(&fewest[row][dtype][order], __ATOMIC_RELAXED);
}

intptr_t smm_fewest_for_all(void) { return __atomic_load_n(&fewest_for_all, __ATOMIC_RELAXED); }

/* --- Counts ------------------------------------------------------------------------------------------ */

/* Calls of one matrix, and others. */
typedef struct tally {
    intptr_t singles, calls, matrices;
} tally;
static tally tallies[ROWS][ORDERS][OUTCOMES];

void smm_add_to(intptr_t *x, intptr_t number) { __atomic_fetch_add(x, number, __ATOMIC_RELAXED); }

void smm_count_call(int row, intptr_t order, outcome what, intptr_t matrices) {
    tally *x = &tallies[row][order][what];
    if (matrices == 1) {
        smm_add_to(&x->singles, 1);
    } else {
        smm_add_to(&x->calls, 1);
        smm_add_to(&x->matrices, matrices);
    }
}

/* [(function, order or 0 for larger ones, outcome, calls, matrices), ...] of all that is not zero. */
PyObject *smm_loop_counts(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored)) {
    PyObject *list = PyList_New(0);
    for (int row = 0; row < ROWS; row++)
        for (int order = 1; order < ORDERS; order++)
            for (int what = 0; what < OUTCOMES && list; what++) {
                const tally *x = &tallies[row][order][what];
                const intptr_t singles = __atomic_load_n(&x->singles, __ATOMIC_RELAXED);
                const intptr_t calls = singles + __atomic_load_n(&x->calls, __ATOMIC_RELAXED);
                const intptr_t matrices = singles + __atomic_load_n(&x->matrices, __ATOMIC_RELAXED);
                if (!calls) continue;
                smm_append(&list, Py_BuildValue("(sisnn)", names[row], order < ORDERS - 1 ? order : 0,
                                                smm_outcomes[what], (Py_ssize_t)calls, (Py_ssize_t)matrices));
            }
    return list;
}

/* clear_loop_counts(library): "numpy" or "torch". */
PyObject *smm_clear_loop_counts(PyObject *Py_UNUSED(module), PyObject *library) {
    if (!PyUnicode_Check(library)) return PyErr_Format(PyExc_TypeError, "library is no string");
    const bool is_torch = PyUnicode_CompareWithASCIIString(library, "torch") == 0;
    const int end = is_torch ? ROWS : NUMPY_ROWS;
    for (int row = is_torch ? NUMPY_ROWS : 0; row < end; row++)
        for (intptr_t *x = (intptr_t *)tallies[row]; x < (intptr_t *)tallies[row + 1]; x++)
            __atomic_store_n(x, 0, __ATOMIC_RELAXED);
    Py_RETURN_NONE;
}

/* set_fewest(matrices): calls of so many or more are served, whatever the order; 0: as measured. */
PyObject *smm_set_fewest(PyObject *Py_UNUSED(module), PyObject *matrices) {
    const Py_ssize_t least = PyLong_AsSsize_t(matrices);
    if (PyErr_Occurred()) return NULL;
    set_fewest(least);
    Py_RETURN_NONE;
}

/* The names of some functions, without what stands before them. */
static PyObject *names_of(int first, int end, const char *before) {
    PyObject *tuple = PyTuple_New(end - first);
    for (int row = first; row < end && tuple; row++)
        smm_set_item(&tuple, row - first, PyUnicode_FromString(names[row] + strlen(before)));
    return tuple;
}

int smm_add_patched(PyObject *module) {
    set_fewest(0);
    if (smm_add(module, "patched", names_of(0, NUMPY_ROWS, "")) < 0) return -1;
    return smm_add(module, "patched_torch", names_of(NUMPY_ROWS, ROWS, "aten."));
}
