/* objects.c: containers that are filled with new objects. Each function takes the reference to the object; if that is
 * NULL, or there is no memory, an exception is set, and the container is released and becomes NULL. */
#include "extension.h"

void smm_append(PyObject **list, PyObject *x) {
    if (!x || PyList_Append(*list, x) < 0) Py_CLEAR(*list);
    Py_XDECREF(x);
}

void smm_set_key(PyObject **dict, const char *key, PyObject *x) {
    if (!x || PyDict_SetItemString(*dict, key, x) < 0) Py_CLEAR(*dict);
    Py_XDECREF(x);
}

PyObject *smm_as_tuple(PyObject *list) {
    PyObject *tuple = list ? PyList_AsTuple(list) : NULL;
    Py_XDECREF(list);
    return tuple;
}

PyObject *smm_pack(PyObject *outputs[], int count) {
    PyObject *results = count == 1 ? outputs[0] : PyTuple_New(count);
    for (int i = 0; i < count && count > 1; i++)
        if (results)
            smm_set_item(&results, i, outputs[i]);
        else
            Py_XDECREF(outputs[i]);
    return results;
}

int smm_add(PyObject *module, const char *name, PyObject *x) {
    const int status = x ? PyModule_AddObjectRef(module, name, x) : -1;
    Py_XDECREF(x);
    return status;
}
