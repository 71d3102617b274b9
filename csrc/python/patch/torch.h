/* torch.h: what the files that patch PyTorch know of each other: its tensors, by way of its stable C interface, and
 * calls of its operators.
 *
 * There is nothing of PyTorch at build time. Functions are looked up in its libraries when it is patched. They catch
 * exceptions and forget their types. */
#ifndef SMM_TORCH_H
#define SMM_TORCH_H

#include "../arrays.h"
#include "patched.h"

/* --- tensors.c: tensors as arrays ---------------------------------------------------------------------- */

typedef void *tensor;      /* AtenTensorHandle: a new at::Tensor, which belongs to who has the handle */
typedef uint64_t argument; /* StableIValue: a handle, a number, or the address of one (of an optional argument) */
typedef void kernel(argument *stack, uint64_t arguments, uint64_t results);

/* The version of the interface in which its conversions are asked for: 2.10. */
#define SMM_TORCH_INTERFACE ((uint64_t)2 << 56 | (uint64_t)10 << 48)

#define SMM_TORCH_FUNCTIONS(F) \
    F(int, torch_get_const_data_ptr, (tensor, const void **)) \
    F(int, aoti_torch_get_data_ptr, (tensor, void **)) \
    F(int, aoti_torch_get_dim, (tensor, int64_t *)) \
    F(int, aoti_torch_get_sizes, (tensor, int64_t **)) \
    F(int, aoti_torch_get_strides, (tensor, int64_t **)) \
    F(int, aoti_torch_get_dtype, (tensor, int32_t *)) \
    F(int, aoti_torch_get_storage_size, (tensor, int64_t *)) \
    F(int, aoti_torch_get_device_type, (tensor, int32_t *)) \
    F(int, aoti_torch_get_device_index, (tensor, int32_t *)) \
    F(int, aoti_torch_empty_strided, (int64_t, const int64_t *, const int64_t *, int32_t, int32_t, int32_t, tensor *)) \
    F(int, aoti_torch_new_uninitialized_tensor, (tensor *)) \
    F(int, aoti_torch_new_tensor_handle, (tensor, tensor *)) \
    F(int, aoti_torch_delete_tensor_object, (tensor)) \
    F(int, aoti_torch_item_float32, (tensor, float *)) \
    F(int, aoti_torch_item_float64, (tensor, double *)) \
    F(int, torch_string_c_str, (void *, const char **)) \
    F(int, torch_string_length, (void *, size_t *)) \
    F(int, torch_delete_string, (void *)) \
    F(int, torch_call_dispatcher, (const char *, const char *, argument *, uint64_t)) \
    F(int, aoti_torch_library_init_impl, (const char *, const char *, const char *, uint32_t, void **)) \
    F(int, torch_library_impl, (void *, const char *, kernel *, uint64_t)) \
    F(int32_t, aoti_torch_device_type_cpu, (void)) \
    F(int32_t, aoti_torch_device_type_cuda, (void)) \
    F(int32_t, aoti_torch_dtype_float32, (void)) \
    F(int32_t, aoti_torch_dtype_float64, (void)) \
    F(int32_t, aoti_torch_dtype_complex64, (void)) \
    F(int32_t, aoti_torch_dtype_complex128, (void)) \
    F(int32_t, aoti_torch_dtype_int32, (void)) \
    F(int32_t, aoti_torch_dtype_int64, (void))

enum { CPU, CUDA, BACKENDS };

typedef struct smm_torch_functions {
#define MEMBER(result, name, arguments) result(*name) arguments;
    SMM_TORCH_FUNCTIONS(MEMBER)
#undef MEMBER
    int (*aoti_torch_get_current_cuda_stream)(int32_t, void **); /* NULL: this PyTorch has no CUDA */
    void (*delete)(void *);                                      /* C++'s, for values of optional arguments */
    /* PyTorch's numbers of devices and types */
    int32_t device_type[BACKENDS], integer, integer64, number[SMM_COMPUTED_TYPES];
} smm_torch_functions;
extern smm_torch_functions smm_torch;

/* Find the functions in a library that is loaded; the name of the one that it lacks, or NULL. */
const char *smm_find_torch(void *library);

enum { MAX_DIM = 16 };

/* A tensor as it lies in memory; dtype, type and device are PyTorch's numbers. */
typedef struct operand {
    const void *data;
    int64_t dim, *sizes, *strides;
    int32_t dtype, type, device;
} operand;

static inline tensor smm_handle(argument x) { return (tensor)(uintptr_t)x; }
bool smm_read_tensor(tensor x, operand *to);
int smm_dtype_of_torch(int32_t number); /* -1: none that kernels take */
_Static_assert(sizeof(intptr_t) == sizeof(int64_t), "PyTorch's sizes are those of the core");
static inline smm_array smm_array_of_tensor(const operand *x, intptr_t bytes) {
    return (smm_array){(void *)(uintptr_t)x->data, (int)x->dim, (const intptr_t *)(const void *)x->sizes,
                       (const intptr_t *)(const void *)x->strides, bytes};
}
bool smm_is_contiguous(const operand *x);
/* A new tensor on the device of another. False: there is no memory. */
bool smm_new_tensor(const operand *like, int ndim, const intptr_t *shape, const int64_t *strides, int32_t dtype,
                    tensor *x);
/* What an operator of PyTorch makes of a tensor and a second argument, if it has one, which then is PyTorch's. NULL: it
 * has raised. */
tensor smm_apply_torch(const char *name, const char *overload, tensor x, argument second);
/* Whether the sum of a device's numbers is finite, for which PyTorch waits as its own kernels do. */
bool smm_is_sum_finite(tensor x, smm_dtype dtype);

/* --- torch_compute.c: gufuncs of tensors ----------------------------------------------------------------- */

enum { MAX_ARGUMENTS = 8, MAX_TENSORS = 3, MAX_RESULTS = 4 };

/* A call of an operator. */
typedef struct call {
    int row, backend;
    const struct torch_operator *op;
    const argument *stack;
    const argument *given;  /* out=: a tensor for each result; or NULL */
    operand x[MAX_TENSORS]; /* the tensors among the arguments, which come first */
    smm_dtype dtype;
    intptr_t order, matrices;
    argument addend;                          /* 0, or a tensor that the first result is before a gufunc adds to it */
    intptr_t rows;                            /* of memory that columns of results take, if they have fewer */
    double _Complex number[SMM_MAX_OPERANDS]; /* by place: operands of a gufunc that are numbers */
    int next;                                 /* the result that is made next */
    tensor results[MAX_RESULTS];              /* the call's until it is served; NULL: not made yet */
    bool moves[MAX_RESULTS];                  /* a new one, whose memory the tensor that is given is to have */
} call;

/* What becomes of an output: a result of the call, whose matrices are row-major or column-major; or matrices of one
 * column, whose result lacks that dimension: ROW_VECTORS, or VECTORS if it is column-major as a matrix. EMPTY: nobody
 * reads it, and PyTorch gives an empty vector. UNUSED: it is no result. A tensor that is given lies as it lies.
 * TRANSPOSED: the result is of A^T if the output is A. LONGS: int64, of which the host's kernels write the lower half.
 * COPIED: a device's kernels write columns so slowly that they write rows, which are copied. */
typedef enum role {
    UNUSED,
    EMPTY,
    BY_ROWS,
    BY_COLUMNS,
    VECTORS,
    ROW_VECTORS,
    TRANSPOSED = 8,
    LONGS = 16,
    COPIED = 32
} role;

/* Run a gufunc on operands; roles[i] is that of output i, info included. */
outcome smm_compute(call *c, const char *name, int inputs, const smm_array *input, const role *roles);
/* What PyTorch gives in place of a further result that nobody asked for. */
outcome smm_add_empty(call *c, outcome what, int32_t dtype);
/* Tensors that are given get the memory of results that were made for them. */
outcome smm_move_results(call *c);

/* --- torch_operators.c: what smallmm computes of operators --------------------------------------------- */

/* A row of patched_torch.def, which says what the letters of `arguments` mean. The operator has two of the rows that
 * are counted: without out= and, by the name of `overload`, with it. */
typedef struct torch_operator {
    const char *name, *overload, *arguments;
    int results;
    outcome (*take)(call *c);
} torch_operator;
enum { OPERATORS = (ROWS - NUMPY_ROWS) / 2 };
extern const torch_operator smm_torch_operators[OPERATORS];

/* Whether an argument of that letter is a tensor. */
static inline bool smm_is_tensor(char kind) { return kind && strchr("STBIA", kind); }

/* Compute the results, all of them if the outcome is SERVED. */
outcome smm_take_torch(call *c);

#endif
