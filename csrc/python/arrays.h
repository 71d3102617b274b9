/* arrays.h: turns arrays into a call: sizes, broadcasting, optional dimensions, shapes of outputs, batch dimensions and
 * overlap are decided here, for arrays of the host and of devices. */
#ifndef SMM_ARRAYS_H
#define SMM_ARRAYS_H

#include "extension.h"

/* An operand: its shape, and its strides in units of that many bytes. ndim is -1 if it is not an array but one number
 * for all matrices. */
typedef struct smm_array {
    void *data;
    int ndim;
    const intptr_t *shape, *strides;
    intptr_t unit;
} smm_array;

/* A NumPy array that kernels take as it is: an exact ndarray of that type, aligned; and how arrays.h sees it. */
static inline bool smm_is_plain(PyObject *x, int type) {
    return PyArray_CheckExact(x) && PyArray_TYPE((PyArrayObject *)x) == type && PyArray_ISALIGNED((PyArrayObject *)x) &&
           PyArray_ISNOTSWAPPED((PyArrayObject *)x);
}
static inline smm_array smm_array_of(PyArrayObject *x) {
    return (smm_array){PyArray_DATA(x), PyArray_NDIM(x), PyArray_DIMS(x), PyArray_STRIDES(x), 1};
}

typedef struct smm_arrays {
    const smm_gufunc *g;
    const smm_signature *s;
    smm_call call;
    smm_outer outer; /* of the call */
    smm_array array[SMM_MAX_OPERANDS];
    unsigned absent; /* a bit for each dimension that an input lacks, and outputs therefore lack too */
    unsigned pairs;  /* and for each operand, by place, that is complex though the call is real */
    int dims, max_dims;
    intptr_t extent[NPY_MAXDIMS]; /* of batch dimensions, innermost first */
} smm_arrays;

/* Batch dimensions of so many arrays, innermost first, with `own` more of this shape. False: they do not fit. */
bool smm_broadcast(const intptr_t *shape, int own, int *dims, intptr_t extent[]);

/* Start with the arrays of a gufunc: none yet, and at most that many batch dimensions. */
void smm_arrays_of(smm_arrays *x, const smm_gufunc *g, int max_dims);
/* Input i has numbers of that type, not of the call's. True: it is B beside a real A, or a real B, and there is a call
 * of such matrices (smm_pairs_of), whose type from here on is the real one. */
bool smm_take_mixture(smm_arrays *x, int i, int dtype);
/* Of which type the numbers of operand i are. */
static inline smm_dtype smm_dtype_in(const smm_arrays *x, int i) {
    const smm_dtype dtype = x->call.dtype;
    return x->pairs >> x->s->position[i] & 1 ? smm_dtypes[dtype].complex_of : dtype;
}
/* Whether a Python object is a NumPy array for input i. */
static inline bool smm_fits(smm_arrays *x, int i, PyObject *array) {
    return smm_is_plain(array, smm_numpy_type(x->g, i, smm_dtype_in(x, i))) ||
           (PyArray_CheckExact(array) &&
            smm_take_mixture(x, i, smm_dtype_of_numpy(PyArray_TYPE((PyArrayObject *)array))) &&
            smm_is_plain(array, smm_numpy_type(x->g, i, smm_dtype_in(x, i))));
}
/* Take sizes and batch dimensions from x->array[i], an input. False: they do not fit those of the inputs before. */
bool smm_take_shape(smm_arrays *x, int i);
/* Add an input, in the order of operands. False: it does not fit those before. */
static inline bool smm_take_input(smm_arrays *x, int i, smm_array array) {
    x->array[i] = array;
    return smm_take_shape(x, i);
}
void smm_take_number(smm_arrays *x, int i);
/* On the host, where the core reads numbers from memory: put them there. number, own: by place; own: in their own
 * element type. */
void smm_place_numbers(smm_arrays *x, const double _Complex number[], double own[][2]);
/* The shape of an output; returns its length. */
int smm_output_shape(const smm_arrays *x, int i, intptr_t shape[NPY_MAXDIMS + 2]);
/* Whether x->array[i], an output, has the shape of one, and no two of its elements share memory. */
bool smm_fits_shape(const smm_arrays *x, int i);
/* Add an output. False: it does not fit. */
static inline bool smm_take_output(smm_arrays *x, int i, smm_array array) {
    x->array[i] = array;
    return smm_fits_shape(x, i);
}
/* Core dimensions that operand i has in this call. */
int smm_core_of(const smm_arrays *x, int i);
/* All are added: describe the operands and batch dimensions in x->call. False: too many dimensions do not merge. */
bool smm_describe(smm_arrays *x);

#endif
