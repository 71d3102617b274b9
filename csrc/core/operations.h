/* operations.h: the rows of ops.def and dtypes.def as tables, for code that turns calls into operands. */
#ifndef SMM_OPERATIONS_H
#define SMM_OPERATIONS_H

#include <math.h>

#include "../math/half.h"
#include "../smallmm.h"

/* Directions; they can be added. */
enum { SMM_READ = 1, SMM_WRITTEN = 2, SMM_OPTIONAL = 4, SMM_LARGE = 8, SMM_LONG = 16, SMM_FURTHER = 32 };
enum {
    SMM_IN = SMM_READ,
    SMM_FURTHER_IN = SMM_READ | SMM_FURTHER,
    SMM_DIAGONALS = SMM_READ | SMM_LONG,
    SMM_OUT = SMM_WRITTEN,
    SMM_RESULT = SMM_WRITTEN | SMM_LARGE,
    SMM_OPTIONAL_IN = SMM_READ | SMM_OPTIONAL,
    SMM_OPTIONAL_OUT = SMM_WRITTEN | SMM_OPTIONAL,
};

typedef enum smm_element { SMM_NUMBER, SMM_REAL, SMM_COMPLEX, SMM_INT32, SMM_ELEMENTS } smm_element;

/* Rows and columns, as indices into the sizes {1, m, n, k} of a call. */
enum { SMM_SIZE_ONE, SMM_SIZE_M, SMM_SIZE_N, SMM_SIZE_K, SMM_SIZES };

typedef struct smm_operand_row {
    const char *name;
    uint8_t direction, element, rows, cols;
} smm_operand_row;

typedef struct smm_operation {
    const char *name, *what;
    int count; /* of operands */
    smm_operand_row operand[SMM_MAX_OPERANDS];
} smm_operation;

extern const smm_operation smm_operations[SMM_OPS];

/* The place of each operation's right-hand side or second factor, of its RESULT, and of its info; -1: none. */
typedef struct smm_roles {
    int8_t b, result, info;
} smm_roles;
extern const smm_roles smm_roles_of[SMM_OPS];

/* Types that have kernels come first, then those that are only stored. */
#define ROW(...) +1
enum { SMM_COMPUTED_TYPES = 0 SMM_COMPUTED(ROW, _), SMM_STORED_TYPES = 0 SMM_STORED(ROW, _) };
#undef ROW

typedef struct smm_dtype_row {
    const char *name, *c_type;
    smm_dtype real, complex_of, computed; /* of its real results, of its complex ones, and of its kernels */
    uint8_t size[SMM_ELEMENTS];           /* bytes of an element of an operand */
} smm_dtype_row;

extern const smm_dtype_row smm_dtypes[SMM_DTYPE_COUNT];

static inline bool smm_is_complex(smm_dtype dtype) { return smm_dtypes[dtype].real != dtype; }

static inline intptr_t smm_size(smm_dtype dtype) { return smm_dtypes[dtype].size[SMM_NUMBER]; }

/* Bytes of an element of operand i of a call. */
static inline intptr_t smm_size_of(smm_op op, smm_dtype dtype, int i) {
    return smm_dtypes[dtype].size[smm_operations[op].operand[i].element];
}

/* The type of an element of operand i that is not an integer. */
static inline smm_dtype smm_type_of(smm_op op, smm_dtype dtype, int i) {
    switch (smm_operations[op].operand[i].element) {
    case SMM_REAL: return smm_dtypes[dtype].real;
    case SMM_COMPLEX: return smm_dtypes[dtype].complex_of;
    default: return dtype;
    }
}

/* Whether the kernels of a type that is only stored see operand i in another type. */
static inline bool smm_is_converted(smm_op op, smm_dtype dtype, int i) {
    return smm_size_of(op, dtype, i) != smm_size_of(op, smm_dtypes[dtype].computed, i);
}

/* A number in memory; of a complex one its real part, the other being zero. */
static inline double smm_get(const void *p, smm_dtype dtype) {
    switch (dtype) {
#define ROW(x, NAME, name, in_memory, ...) \
    case SMM_##NAME: return (double)*(const in_memory *)p;
        SMM_COMPUTED(ROW, _)
#undef ROW
#define ROW(x, NAME, name, in_memory, ...) \
    case SMM_##NAME: return (double)smm_##name##_to_f32(*(const in_memory *)p);
        SMM_STORED(ROW, _)
#undef ROW
    case SMM_DTYPE_COUNT: break;
    }
    return 0;
}
static inline void smm_put(void *p, smm_dtype dtype, double value) {
    switch (dtype) {
#define ROW(x, NAME, name, in_memory, ...) \
    case SMM_##NAME: *(in_memory *)p = (in_memory)value; break;
        SMM_COMPUTED(ROW, _)
#undef ROW
#define ROW(x, NAME, name, in_memory, ...) \
    case SMM_##NAME: *(in_memory *)p = smm_f32_to_##name((float)value); break;
        SMM_STORED(ROW, _)
#undef ROW
    case SMM_DTYPE_COUNT: break;
    }
}

/* All elements of matrix q become NaN, both parts of complex ones. */
static inline void smm_fill_nan(const smm_operand *x, intptr_t q, smm_dtype dtype, intptr_t rows, intptr_t cols) {
    const smm_dtype real = smm_dtypes[dtype].real;
    for (intptr_t i = 0; i < rows; i++)
        for (intptr_t j = 0; j < cols; j++)
            for (intptr_t part = 0; part < smm_size(dtype); part += smm_size(real))
                smm_put((char *)x->data + q * x->batch + i * x->row + j * x->col + part, real, NAN);
}

/* SOLVE_BANDED: how many diagonals of matrix q are below the main one; -1: what `lower` says is none of 0 .. m-1. */
static inline intptr_t smm_lower_of(const smm_call *call, intptr_t q) {
    const smm_operand *x = &call->solve_banded.lower;
    const intptr_t lower = x->data ? *(const int32_t *)((const char *)x->data + q * x->batch) : 0;
    return lower >= 0 && lower < call->m ? lower : -1;
}

/* Rows and columns of operand i of a call with such sizes. */
static inline void smm_sizes_of(smm_op op, int i, intptr_t m, intptr_t n, intptr_t k, intptr_t *rows, intptr_t *cols) {
    const intptr_t sizes[SMM_SIZES] = {1, m, n, k};
    const smm_operand_row *row = &smm_operations[op].operand[i];
    *rows = sizes[row->rows];
    *cols = sizes[row->cols];
}

#endif
