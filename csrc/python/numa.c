/* numa.c: the nodes of the machine, and libnuma's calls that query or set the placement of memory. smallmm/numa.py has
 * the rest. */
#include "extension.h"

static PyObject *numa_nodes(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored)) {
    const smm_nodes *x = smm_numa();
    PyObject *nodes = PyList_New(0);
    for (int i = 0; nodes && i < x->count; i++) {
        PyObject *cpus = PyList_New(0), *node = NULL;
        for (int cpu = 0; cpus && cpu < SMM_MAX_CPUS; cpu++)
            if (smm_set_has(&x->node[i].set, cpu)) smm_append(&cpus, PyLong_FromLong(cpu));
        if (cpus) node = Py_BuildValue("iNN", x->node[i].id, cpus, PyBool_FromLong(x->node[i].has_memory));
        smm_append(&nodes, node);
    }
    return nodes ? Py_BuildValue("ziN", x->off, x->count ? x->node[smm_node_here(x)].id : 0, nodes) : NULL;
}

static PyObject *numa_bind(PyObject *Py_UNUSED(module), PyObject *args) {
    Py_buffer memory, ids;
    Py_ssize_t first, last;
    int interleave;
    if (!PyArg_ParseTuple(args, "w*nnpy*", &memory, &first, &last, &interleave, &ids)) return NULL;
    smm_set nodes = {0};
    for (Py_ssize_t i = 0; i < ids.len / (Py_ssize_t)sizeof(int32_t); i++) smm_set_add(&nodes, ((int32_t *)ids.buf)[i]);
    const int error = smm_bind_pages((char *)memory.buf + first, (size_t)(last - first), interleave, &nodes);
    PyBuffer_Release(&memory);
    PyBuffer_Release(&ids);
    return PyLong_FromLong(error);
}

static PyObject *numa_move(PyObject *Py_UNUSED(module), PyObject *args) {
    Py_buffer pages, ids, status;
    if (!PyArg_ParseTuple(args, "y*z*w*", &pages, &ids, &status)) return NULL;
    const int error =
        SMM_WITHOUT_GIL(smm_move_pages((size_t)pages.len / sizeof(void *), pages.buf, ids.buf, status.buf));
    PyBuffer_Release(&pages);
    PyBuffer_Release(&ids);
    PyBuffer_Release(&status);
    return PyLong_FromLong(error);
}

static PyMethodDef methods[] = {
    {"numa_nodes", numa_nodes, METH_NOARGS,
     "numa_nodes()\n--\n\nWhy nodes do not matter, or None, the id of the one of this thread, and of each: id, CPUs, "
     "has memory."},
    {"numa_bind", numa_bind, METH_VARARGS,
     "numa_bind(memory, first, last, interleave, nodes, /)\n--\n\nHave pages of memory come from nodes (int32); an "
     "errno."},
    {"numa_move", numa_move, METH_VARARGS,
     "numa_move(pages, nodes, status, /)\n--\n\nMove pages to nodes (int32), or, if None, look where they are; an "
     "errno."},
    {NULL, NULL, 0, NULL},
};

int smm_add_numa(PyObject *module) { return PyModule_AddFunctions(module, methods); }
