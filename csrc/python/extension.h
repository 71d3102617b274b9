/* extension.h: what the files of the Python extension know of each other. Include it first. */
#ifndef SMM_EXTENSION_H
#define SMM_EXTENSION_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#define PY_ARRAY_UNIQUE_SYMBOL smm_numpy_array_api
#define PY_UFUNC_UNIQUE_SYMBOL smm_numpy_ufunc_api
#if !defined(SMM_IMPORTS_NUMPY) /* module.c alone defines the two tables that the others use */
#define NO_IMPORT_ARRAY
#define NO_IMPORT_UFUNC
#endif
#include <numpy/arrayobject.h>
#include <numpy/ufuncobject.h>

#include "../smallmm.h"

/* module.c: raise the exception for a status; `name` is the instruction set asked for, or NULL. Takes the GIL. */
void smm_raise(smm_status status, const char *name);

/* gufuncs.c */
int smm_add_gufuncs(PyObject *module);

/* While a thread has a detour, its gufunc calls go there instead of to smm_run. So an explanation sees
 * exactly the calls, casts and copies of a real run, and the tests' oracle gets the same operands. */
typedef struct smm_detour {
    smm_status (*take)(struct smm_detour *detour, const smm_call *call);
    smm_plan_info plan; /* of the first call */
    intptr_t calls, matrices;
    double flops, bytes;
} smm_detour;
extern _Thread_local smm_detour *smm_current_detour;

#endif
