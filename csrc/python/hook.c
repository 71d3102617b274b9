/* hook.c: where the calls of a thread go instead: to what explains or times them, or through a device. */
#include "extension.h"

_Thread_local smm_hook *smm_current_hook;

PyObject *smm_call_with(smm_hook *hook, PyObject *args, Py_ssize_t first, PyObject *kwargs) {
    PyObject *result = NULL;
    PyObject *rest = PyTuple_GetSlice(args, first + 1, PyTuple_GET_SIZE(args));
    if (PyTuple_GET_SIZE(args) <= first) PyErr_SetString(PyExc_TypeError, "expected a function and its arguments");
    if (rest && !PyErr_Occurred()) {
        smm_hook *outer = smm_current_hook;
        smm_current_hook = hook;
        result = PyObject_Call(PyTuple_GET_ITEM(args, first), rest, kwargs);
        smm_current_hook = outer;
    }
    Py_XDECREF(rest);
    return result;
}

static _Thread_local bool offloading;

PyObject *smm_set_offloading(PyObject *Py_UNUSED(module), PyObject *x) {
    const int is_on = PyObject_IsTrue(x);
    if (is_on < 0) return NULL;
    offloading = is_on;
    Py_RETURN_NONE;
}

bool smm_is_offloading(void) { return offloading; }
