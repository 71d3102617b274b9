/* arrays.c: see arrays.h. */
#include <complex.h>
#include <string.h>

#include "arrays.h"

static unsigned bit_of(char dimension) { return 1u << (dimension - 'a'); }

static bool is_absent(const smm_arrays *x, int i, int d) { return x->absent & bit_of(x->s->dims[i][d]); }

int smm_core_of(const smm_arrays *x, int i) {
    int core = x->s->core[i];
    for (int d = 0; x->absent && d < x->s->core[i]; d++) core -= is_absent(x, i, d);
    return core;
}

void smm_arrays_of(smm_arrays *x, const smm_gufunc *g, int max_dims) {
    x->g = g;
    x->s = smm_signature_of(g);
    memset(&x->call, 0, smm_bytes_of_call(g->op));
    x->call.op = g->op;
    x->call.form = g->form;
    x->call.m = x->call.n = x->call.k = -1;
    x->absent = x->pairs = 0;
    x->dims = 0;
    x->max_dims = max_dims;
}

bool smm_take_mixture(smm_arrays *x, int i, int dtype) {
    if (dtype < 0 || !i || i != x->s->b) return false;
    x->pairs = smm_pairs_of(x->g->op, x->call.dtype, (smm_dtype)dtype);
    if (x->pairs) x->call.dtype = smm_dtypes[dtype].real;
    return x->pairs;
}

bool smm_broadcast(const intptr_t *shape, int own, int *dims, intptr_t extent[]) {
    while (*dims < own) extent[(*dims)++] = 1;
    for (int d = 0; d < own; d++) {
        const intptr_t length = shape[own - 1 - d];
        if (extent[d] == 1)
            extent[d] = length;
        else if (length != 1 && length != extent[d])
            return false;
    }
    return true;
}

bool smm_take_shape(smm_arrays *x, int i) {
    const smm_signature *s = x->s;
    const smm_array *array = &x->array[i];
    for (int d = 0; array->ndim < s->core[i] && d < s->core[i]; d++)
        if (s->optional[i][d]) x->absent |= bit_of(s->dims[i][d]);
    const int batch_dims = array->ndim - smm_core_of(x, i);
    if (batch_dims < 0) return false;
    for (int d = 0, at = batch_dims; d < s->core[i]; d++) {
        if (is_absent(x, i, d)) continue;
        intptr_t *size = smm_size_in(&x->call, s->dims[i][d]);
        if (*size < 0) *size = array->shape[at];
        if (*size != array->shape[at++]) return false;
    }
    return batch_dims <= x->max_dims && smm_broadcast(array->shape, batch_dims, &x->dims, x->extent);
}

void smm_take_number(smm_arrays *x, int i) { x->array[i] = (smm_array){.ndim = -1}; }

void smm_place_numbers(smm_arrays *x, const double _Complex number[], double own[][2]) {
    for (int i = 0; i < x->s->inputs; i++) {
        if (x->array[i].ndim >= 0) continue;
        const int place = x->s->position[i];
        const smm_dtype dtype = smm_type_of(x->call.op, x->call.dtype, place), real = smm_dtypes[dtype].real;
        char *const to = (char *)own[place];
        const int32_t integer = (int32_t)creal(number[place]);
        if (smm_is_integer(x->g, i))
            memcpy(to, &integer, sizeof integer);
        else
            smm_put(to, real, creal(number[place]));
        if (smm_is_complex(dtype)) smm_put(to + smm_size(real), real, cimag(number[place]));
        x->call.operand[place].data = to;
    }
}

int smm_output_shape(const smm_arrays *x, int i, intptr_t shape[NPY_MAXDIMS + 2]) {
    int ndim = 0;
    for (int d = x->dims; d--;) shape[ndim++] = x->extent[d];
    for (int d = 0; d < x->s->core[i]; d++)
        if (!is_absent(x, i, d)) shape[ndim++] = *smm_size_in((smm_call *)&x->call, x->s->dims[i][d]);
    return ndim;
}

bool smm_fits_shape(const smm_arrays *x, int i) {
    intptr_t shape[NPY_MAXDIMS + 2];
    const int ndim = smm_output_shape(x, i, shape);
    const smm_array *array = &x->array[i];
    if (array->ndim != ndim) return false;
    bool empty = false, repeats = false; /* several elements at one address; strides of empty arrays may be anything */
    for (int d = 0; d < ndim; d++) {
        if (array->shape[d] != shape[d]) return false;
        empty |= shape[d] == 0;
        repeats |= shape[d] > 1 && array->strides[d] == 0;
    }
    return empty || !repeats;
}

/* A vector is a column; where the gufunc says so, a row. */
static void describe_matrix(smm_arrays *x, int i, int batch_dims) {
    const smm_array *array = &x->array[i];
    smm_operand *to = &x->call.operand[x->s->position[i]];
    to->data = array->data;
    for (int d = 0, at = batch_dims; d < x->s->core[i]; d++) {
        if (is_absent(x, i, d)) continue;
        const bool is_column = x->s->core[i] == 2 ? d == 1 : x->g->rows >> i & 1;
        *(is_column ? &to->col : &to->row) = array->strides[at++] * array->unit;
    }
}

bool smm_describe(smm_arrays *x) {
    const smm_signature *s = x->s;
    int batch_dims[SMM_MAX_OPERANDS];
    for (int i = 0; i < s->operands; i++) {
        batch_dims[i] = x->array[i].ndim < 0 ? 0 : x->array[i].ndim - smm_core_of(x, i);
        if (x->array[i].ndim >= 0) describe_matrix(x, i, batch_dims[i]);
    }
    x->outer.dims = 0;
    for (int d = 0; d < x->dims; d++) {
        if (x->extent[d] == 1) continue;
        intptr_t stride[SMM_MAX_OPERANDS] = {0};
        for (int i = 0; i < s->operands; i++) {
            const smm_array *array = &x->array[i];
            const int own = batch_dims[i] - 1 - d;
            if (own >= 0 && array->shape[own] != 1) stride[s->position[i]] = array->strides[own] * array->unit;
        }
        if (!smm_add_dimension(&x->outer, x->extent[d], stride)) return false;
    }
    return !x->pairs || smm_as_interleaved_real(&x->call, &x->outer, x->pairs);
}
