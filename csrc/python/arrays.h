/* arrays.h: from arrays to a call: sizes, broadcasting, optional dimensions, the shapes of outputs, batch dimensions
 * and overlap, decided in one place for arrays of the host and of devices. */
#ifndef SMM_ARRAYS_H
#define SMM_ARRAYS_H

#include "extension.h"

/* What is known of an operand: shape and strides in units of so many bytes. A number that is the same for all matrices
 * is no array: ndim is -1. */
typedef struct smm_array {
    void *data;
    int ndim;
    const intptr_t *shape, *strides;
    intptr_t unit;
} smm_array;

typedef struct smm_arrays {
    const smm_gufunc *g;
    const smm_signature *s;
    smm_call call;
    smm_outer outer; /* of the call */
    smm_array array[SMM_MOST_OPERANDS];
    unsigned absent; /* a bit for each dimension that an input lacks, so that no output has it */
    int dims, most_dims;
    intptr_t extent[NPY_MAXDIMS]; /* of batch dimensions, innermost first */
} smm_arrays;

/* Arrays of a gufunc, none yet, with up to so many batch dimensions. */
void smm_arrays_of(smm_arrays *x, const smm_gufunc *g, int most_dims);
/* Take an input, in the order of operands. False: it does not fit those before. */
bool smm_take_input(smm_arrays *x, int i, smm_array array);
void smm_take_number(smm_arrays *x, int i);
/* All inputs are taken: sizes that none of them has. A matrix has one column, and is square. */
void smm_finish_sizes(smm_arrays *x);
/* The shape of an output; returns its length. */
int smm_output_shape(const smm_arrays *x, int i, intptr_t shape[NPY_MAXDIMS + 2]);
/* Take an output. False: it has another shape, or two of its elements are one. */
bool smm_take_output(smm_arrays *x, int i, smm_array array);
/* Core dimensions that operand i has in this call. */
int smm_core_of(const smm_arrays *x, int i);
/* All are taken: describe the operands and the batch dimensions in x->call. False: too many dimensions do not merge. */
bool smm_describe(smm_arrays *x);

#endif
