/* errors.c: what the core refuses, as exceptions of Python. */
#include "extension.h"

PyObject *smm_isas(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored)) {
    PyObject *names = PyList_New(0);
    for (const char *const *isa = smm_isas_available(); names && *isa; isa++)
        smm_append(&names, PyUnicode_FromString(*isa));
    return smm_as_tuple(names);
}

PyObject *smm_raise(smm_status status, const char *name) {
    const PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *isas = status == SMM_ERR_ISA ? smm_isas(NULL, NULL) : NULL;
    const char *isa = isas && !name ? getenv("SMALLMM_ISA") : name;
    const char *kernel = status == SMM_ERR_KERNEL ? name ? name : getenv("SMALLMM_KERNEL") : NULL;
    const char *threads = status == SMM_ERR_THREADS ? getenv("SMALLMM_NUM_THREADS") : NULL;
    if (isas)
        PyErr_Format(PyExc_ValueError,
                     "instruction set '%s' (from SMALLMM_ISA or select_isa) is unknown or not available; "
                     "this build has on this CPU: %S",
                     isa ? isa : "", isas);
    else if (kernel)
        PyErr_Format(PyExc_ValueError,
                     "kernel '%s' (from SMALLMM_KERNEL or select_kernel) is unknown; expected an operation and a "
                     "strategy, such as inv_panels",
                     kernel);
    else if (threads)
        PyErr_Format(PyExc_ValueError, "SMALLMM_NUM_THREADS is '%s'; expected an integer of at least 1", threads);
    else if (!PyErr_Occurred())
        PyErr_SetString(status == SMM_ERR_MEMORY ? PyExc_MemoryError : PyExc_ValueError, smm_status_text(status));
    Py_XDECREF(isas);
    PyGILState_Release(gil);
    return NULL;
}
