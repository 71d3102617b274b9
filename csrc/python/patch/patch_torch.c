/* patch_torch.c: PyTorch's own operators with kernels of smallmm, on the host and on CUDA devices.
 *
 * Only the kernels under the dispatch keys CPU and CUDA are replaced. Autograd, vmap, torch.compile, autocast, meta and
 * other tensors are handled before PyTorch comes to these, so all of that stays PyTorch's. A kernel looks at its
 * operands, and either computes new tensors of the strides that PyTorch's kernel gives, or hands on to that.
 *
 * There is nothing of PyTorch at build time. Its stable C interface is looked up in its libraries when it is patched,
 * and so are the kernels that calls are handed on to: that interface catches exceptions and forgets their types, while
 * at::cpu::bmm and its like are functions of C++ whose exceptions pass through here. Of C++ this file assumes how a
 * reference (a pointer), a bool, a std::string_view and an optional one are passed, that tensors are returned in memory
 * that the caller gives, and that a tuple of them lies there in reverse. A Tensor is one pointer. setup.py compiles it
 * with -fexceptions, so that what a call owns is released when an exception passes.
 *
 * Kernels are registered once and stay, because PyTorch does not wait for threads that are in a kernel that it drops.
 * When PyTorch is unpatched they hand on everything. */
#include <complex.h>
#include <dlfcn.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "../arrays.h"
#include "../device/buffers.h"
#include "patched.h"

typedef void *tensor;      /* AtenTensorHandle: a new at::Tensor, which belongs to who has the handle */
typedef uint64_t argument; /* StableIValue: a handle, a number, or the address of one (of an optional argument) */
typedef void kernel(argument *stack, uint64_t arguments, uint64_t results);

/* The version of the interface in which its conversions are asked for: 2.10. */
#define INTERFACE ((uint64_t)2 << 56 | (uint64_t)10 << 48)

#define TORCH_FUNCTIONS(F) \
    F(int, torch_get_const_data_ptr, (tensor, const void **)) \
    F(int, aoti_torch_get_data_ptr, (tensor, void **)) \
    F(int, aoti_torch_get_dim, (tensor, int64_t *)) \
    F(int, aoti_torch_get_sizes, (tensor, int64_t **)) \
    F(int, aoti_torch_get_strides, (tensor, int64_t **)) \
    F(int, aoti_torch_get_dtype, (tensor, int32_t *)) \
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
    F(int32_t, aoti_torch_dtype_int32, (void))

enum { CPU, CUDA, PLACES };

static struct {
#define MEMBER(result, name, arguments) result(*name) arguments;
    TORCH_FUNCTIONS(MEMBER)
#undef MEMBER
    int (*aoti_torch_get_current_cuda_stream)(int32_t, void **); /* NULL: this PyTorch has no CUDA */
    void (*delete)(void *);                                      /* C++'s, for values of optional arguments */
} torch;

static struct { /* numbers of PyTorch's */
    int32_t place[PLACES], integer, number[SMM_COMPUTED_TYPES];
} code;

/* PyTorch's kernels; NULL: not found, and ours is not registered. */
typedef void function(void);
static function *former[ROWS - NUMPY_ROWS][PLACES];
static const struct {
    const char *name, *arguments, *function;
    int results;
} operators[ROWS - NUMPY_ROWS] = {
#define SMM_LEAST(...)
#define SMM_PATCHED_TORCH(op, arguments, results, function) {#op, arguments, function, results},
#include "patched_torch.def"
#undef SMM_PATCHED_TORCH
};

static atomic_bool serves;

/* --- Operands ---------------------------------------------------------------------------------------- */

typedef struct operand {
    const void *data;
    int64_t dim, *sizes, *strides;
    int32_t dtype, type, device; /* as PyTorch numbers them */
} operand;

enum { MOST_DIM = 16 };

static bool read_operand(tensor x, operand *to) {
    return !torch.aoti_torch_get_dim(x, &to->dim) && to->dim <= MOST_DIM &&
           !torch.aoti_torch_get_device_type(x, &to->type) && !torch.aoti_torch_get_device_index(x, &to->device) &&
           !torch.aoti_torch_get_dtype(x, &to->dtype) && !torch.aoti_torch_get_sizes(x, &to->sizes) &&
           !torch.aoti_torch_get_strides(x, &to->strides) && !torch.torch_get_const_data_ptr(x, &to->data);
}

static int dtype_of(int32_t number) {
    for (int i = 0; i < SMM_COMPUTED_TYPES; i++)
        if (code.number[i] == number) return i;
    return -1;
}

_Static_assert(sizeof(intptr_t) == sizeof(int64_t), "PyTorch's sizes are those of the core");
static smm_array array_of(const operand *x, smm_dtype dtype) {
    return (smm_array){(void *)(uintptr_t)x->data, (int)x->dim, (const intptr_t *)(const void *)x->sizes,
                       (const intptr_t *)(const void *)x->strides, smm_size(dtype)};
}

static smm_array array_of_integers(const operand *x) {
    smm_array array = array_of(x, SMM_F32);
    array.unit = sizeof(int32_t);
    return array;
}

static operand transposed(const operand *x, int64_t strides[MOST_DIM]) {
    memcpy(strides, x->strides, (size_t)x->dim * sizeof *strides);
    strides[x->dim - 1] = x->strides[x->dim - 2];
    strides[x->dim - 2] = x->strides[x->dim - 1];
    operand y = *x;
    y.strides = strides;
    return y; /* of square matrices, so the sizes stay */
}

static bool is_contiguous(const operand *x) {
    int64_t step = 1;
    for (int64_t d = x->dim; d--; step *= x->sizes[d])
        if (x->sizes[d] != 1 && x->strides[d] != step) return false;
    return true;
}

/* --- A call ------------------------------------------------------------------------------------------ */

typedef struct call {
    int row, place;
    argument *stack;
    operand a, b;
    smm_dtype dtype;
    intptr_t order, matrices;
    int count; /* results that exist so far; they are the call's until it is served */
    tensor results[4];
    tensor given; /* out=, or NULL */
    int drop;     /* outputs that nobody reads */
    tensor dropped[SMM_MOST_OPERANDS];
} call;

static tensor handle(argument x) { return (tensor)(uintptr_t)x; }

static void drop_results(call *c) {
    while (c->count) torch.aoti_torch_delete_tensor_object(c->results[--c->count]);
}

/* A new tensor; `by_columns`: its last two dimensions are column-major. False: there is no memory. */
static bool new_tensor(call *c, int ndim, const intptr_t *shape, int32_t dtype, bool column_major, tensor *x) {
    int64_t sizes[MOST_DIM + 1], strides[MOST_DIM + 1], step = 1;
    for (int d = ndim; d--; step *= sizes[d] > 1 ? sizes[d] : 1) {
        sizes[d] = shape[d];
        strides[d] = step;
    }
    if (column_major && ndim >= 2) {
        strides[ndim - 1] = sizes[ndim - 2];
        strides[ndim - 2] = 1;
    }
    return !torch.aoti_torch_empty_strided(ndim, sizes, strides, dtype, c->a.type, c->a.device, x);
}

/* What PyTorch gives in place of vectors that nobody asked for. */
static bool add_empty(call *c) {
    static const intptr_t nothing[1] = {0};
    if (!new_tensor(c, 1, nothing, c->a.dtype, false, &c->results[c->count])) return false;
    c->count++;
    return true;
}

static int32_t code_of(const smm_gufunc *g, int i, smm_dtype dtype) {
    if (smm_is_integer(g, i)) return code.integer;
    return code.number[smm_type_of(g->op, dtype, smm_signature_of(g)->place[i])];
}

/* What becomes of an output: a result of the call, whose matrices are row-major or column-major; or matrices of one
 * column, whose result lacks that dimension, and is column-major as PyTorch has it; GIVEN: by the caller. UNUSED:
 * nobody reads it. A device's kernel writes it all the same; it is dropped after the launch, and PyTorch gives its
 * memory to later work of the same stream alone. */
typedef enum role { UNUSED, GIVEN, BY_ROWS, BY_COLUMNS, VECTORS } role;

/* Output i of a gufunc, whose shape and strides it fills in. False: there is no memory, or a tensor that is given does
 * not fit. */
static bool take_output(call *c, smm_arrays *x, int i, role what, intptr_t shape[], intptr_t steps[]) {
    const int ndim = smm_output_shape(x, i, shape);
    const int32_t dtype = code_of(x->g, i, c->dtype);
    operand out;
    tensor own = c->given;
    if (what != GIVEN && !new_tensor(c, ndim - (what == VECTORS), shape, dtype, what >= BY_COLUMNS, &own)) return false;
    if (what == UNUSED) {
        c->dropped[c->drop++] = own;
    } else {
        if (what == GIVEN && torch.aoti_torch_new_tensor_handle(c->given, &own)) return false;
        c->results[c->count++] = own;
    }
    void *data;
    if (!read_operand(own, &out) || torch.aoti_torch_get_data_ptr(own, &data)) return false;
    for (int d = 0; d < out.dim; d++) steps[d] = out.strides[d];
    if (what == VECTORS) steps[ndim - 1] = 0;
    x->array[i] = (smm_array){data, ndim, shape, steps, smm_size_of(x->g->op, c->dtype, x->s->place[i])};
    if (what != GIVEN) return true;
    x->array[i].ndim = (int)out.dim;
    x->array[i].shape = (const intptr_t *)(const void *)out.sizes;
    return out.dtype == dtype && out.type == c->a.type && out.device == c->a.device && smm_fits_shape(x, i);
}

static outcome run_on_device(const call *c, smm_arrays *x) {
    double _Complex number[SMM_MOST_OPERANDS] = {0};
    void *stream;
    if (x->call.op == SMM_OP_MATMUL) number[SMM_MATMUL_alpha] = 1;
    smm_take_batch(&x->call, &x->outer, 0);
    if (c->given && !smm_cuda_may_write(&x->call)) return OVERLAP;
    const bool runs = !torch.aoti_torch_get_current_cuda_stream(c->a.device, &stream) &&
                      !smm_cuda_run(&x->call, number, c->a.device, stream);
    return runs ? SERVED : REFUSED;
}

static outcome run_on_host(const call *c, smm_arrays *x) {
    const smm_op op = x->call.op;
    const bool tells = op != SMM_OP_MATMUL && op != SMM_OP_CHOLESKY && op != SMM_OP_LU && op != SMM_OP_LU_SOLVE;
    bool failed = false, not_finite = false;
    if (op != SMM_OP_MATMUL) x->call.failed = &failed;
    smm_take_batch(&x->call, &x->outer, smm_longest_dimension(&x->outer));
    if (c->given && smm_overlap_of(&x->call) != SMM_APART) return OVERLAP;
    smm_is_uninterrupted = true;
    const smm_status status = smm_run_and_tell(&x->call, tells ? &not_finite : NULL);
    smm_is_uninterrupted = false;
    return status ? REFUSED : failed || not_finite ? EXCEPTIONAL : SERVED;
}

/* Run a gufunc on operands; roles[i] is that of output i, info included. */
static outcome compute(call *c, const char *name, int inputs, const smm_array *input, const role *roles) {
    smm_arrays x;
    smm_arrays_of(&x, smm_gufunc_named(name, strlen(name)), c->place == CUDA ? SMM_CUDA_DIMS : MOST_DIM);
    x.call.dtype = c->dtype;
    for (int i = 0; i < inputs; i++)
        if (!smm_take_input(&x, i, input[i])) return OTHER;
    smm_finish_sizes(&x.call, x.g);
    if (c->place == CUDA && !smm_cuda_takes(x.call.op, x.call.dtype, x.call.m, x.call.k, x.call.n)) return OTHER;
    intptr_t shapes[SMM_MOST_OPERANDS][MOST_DIM + 2], steps[SMM_MOST_OPERANDS][MOST_DIM + 2];
    bool fits = true;
    for (int i = inputs; i < x.s->operands && fits; i++) {
        const role what = roles[i - inputs];
        if (what == UNUSED && c->place == CPU)
            smm_take_number(&x, i); /* the operand is missing */
        else
            fits = take_output(c, &x, i, what, shapes[i], steps[i]);
    }
    outcome what = c->given ? OTHER : REFUSED;
    if (fits && smm_describe(&x)) what = c->place == CUDA ? run_on_device(c, &x) : run_on_host(c, &x);
    while (c->drop) torch.aoti_torch_delete_tensor_object(c->dropped[--c->drop]);
    return what;
}

/* As PyTorch has them; smallmm counts from 0. On a device x + 1 is -~x, because PyTorch's interface passes no numbers.
 * False: there is no memory. */
static bool count_pivots_from_one(const call *c, tensor *pivots) {
    operand x;
    if (c->place == CUDA) {
        argument stack[1] = {(argument)(uintptr_t)*pivots};
        const bool done = !torch.torch_call_dispatcher("aten::bitwise_not_", "", stack, INTERFACE) &&
                          !torch.torch_call_dispatcher("aten::neg_", "", stack, INTERFACE);
        *pivots = handle(stack[0]);
        return done;
    }
    intptr_t count = read_operand(*pivots, &x); /* contiguous */
    for (int64_t d = 0; count && d < x.dim; d++) count *= x.sizes[d];
    int32_t *row = count ? (int32_t *)(uintptr_t)x.data : NULL;
    for (intptr_t i = 0; i < count; i++) row[i]++;
    return true;
}

/* Whether the sum of a device's numbers is finite, for which PyTorch waits as its own kernels do. */
static bool is_sum_finite(tensor x, smm_dtype dtype) {
    argument stack[2] = {0, 0};
    tensor own;
    if (torch.aoti_torch_new_tensor_handle(x, &own)) return false;
    stack[0] = (argument)(uintptr_t)own;
    if (smm_is_complex(dtype)) { /* the handle is PyTorch's then, and the result's ours */
        if (torch.torch_call_dispatcher("aten::view_as_real", "", stack, INTERFACE)) return false;
    }
    stack[1] = 0; /* dtype = None */
    if (torch.torch_call_dispatcher("aten::sum", "", stack, INTERFACE)) return false;
    float narrow = 0;
    double wide = 0;
    const bool is_narrow = dtype == SMM_F32 || dtype == SMM_C64;
    const int failed = is_narrow ? torch.aoti_torch_item_float32(handle(stack[0]), &narrow)
                                 : torch.aoti_torch_item_float64(handle(stack[0]), &wide);
    torch.aoti_torch_delete_tensor_object(handle(stack[0]));
    return !failed && isfinite(is_narrow ? (double)narrow : wide);
}

/* PyTorch takes the B of A X = B for vectors if it is one, or has the shape of A without its last dimension. */
static bool is_of_vectors(const operand *a, const operand *b) {
    if (b->dim == 1) return true;
    bool vectors = b->dim == a->dim - 1;
    for (int64_t d = 0; d < b->dim && vectors; d++) vectors = a->sizes[d] == b->sizes[d];
    return vectors;
}

/* --- Operators --------------------------------------------------------------------------------------- */

static bool truth(const call *c, int i) { return c->stack[i] & 0xff; }

static bool is_square(const operand *x) { return x->sizes[x->dim - 1] == x->sizes[x->dim - 2]; }

/* PyTorch leaves conjugation to kernels of bmm, in a bit that its C interface does not show, and that is_conj does not
 * either down here. So: the tensor whose conjugation is resolved, which is a copy or the same; it replaces x, and is
 * kept in `own`. */
static bool resolve(tensor x, operand *to, tensor *own) {
    argument stack[1];
    if (torch.aoti_torch_new_tensor_handle(x, own)) return false;
    stack[0] = (argument)(uintptr_t)*own;
    *own = NULL; /* PyTorch's now */
    if (torch.torch_call_dispatcher("aten::resolve_conj", "", stack, INTERFACE)) return false;
    *own = handle(stack[0]);
    return read_operand(*own, to);
}

static outcome take_bmm(call *c) {
    const operand *a = &c->a, *b = &c->b;
    if (a->dim != 3 || b->dim != 3 || a->sizes[0] != b->sizes[0] || a->sizes[2] != b->sizes[1]) return OTHER;
    if (c->row == ROW_aten_bmm_out) c->given = handle(c->stack[2]);
    tensor own[3] = {NULL, NULL, NULL};
    bool fits = true;
    if (smm_is_complex(c->dtype)) {
        operand out;
        const void *data;
        fits = resolve(handle(c->stack[0]), &c->a, &own[0]) && resolve(handle(c->stack[1]), &c->b, &own[1]);
        if (fits && c->given)
            fits = resolve(c->given, &out, &own[2]) && !torch.torch_get_const_data_ptr(c->given, &data) &&
                   data == out.data;
    }
    outcome what = OTHER;
    if (fits) {
        const smm_array input[] = {array_of(a, c->dtype), array_of(b, c->dtype)};
        what = compute(c, "batched_matmul", 2, input, (const role[]){c->given ? GIVEN : BY_ROWS});
    }
    for (int i = 0; i < 3; i++)
        if (own[i]) torch.aoti_torch_delete_tensor_object(own[i]);
    return what;
}

static outcome take_inverse(call *c) {
    if (!is_square(&c->a) || (c->place == CUDA && truth(c, 1))) return OTHER; /* check_errors */
    const smm_array input[] = {array_of(&c->a, c->dtype)};
    return compute(c, "inv", 1, input, (const role[]){BY_COLUMNS, BY_ROWS});
}

static outcome take_cholesky(call *c) {
    if (!is_square(&c->a) || (c->place == CUDA && truth(c, 2))) return OTHER; /* check_errors */
    const smm_array input[] = {array_of(&c->a, c->dtype)};
    return compute(c, truth(c, 1) ? "cholesky_upper" : "cholesky", 1, input, (const role[]){BY_COLUMNS, BY_ROWS});
}

/* LU and pivots, info if it is wanted: the next results. */
static outcome add_lu(call *c, bool of_transposed, bool with_info) {
    int64_t strides[MOST_DIM];
    const operand a = of_transposed ? transposed(&c->a, strides) : c->a;
    const smm_array input[] = {array_of(&a, c->dtype)};
    return compute(c, "lu_factor", 1, input, (const role[]){BY_COLUMNS, BY_ROWS, with_info ? BY_ROWS : UNUSED});
}

static outcome take_factors(call *c) {
    if (c->place == CUDA || !is_square(&c->a) || !truth(c, 1)) return OTHER; /* pivot */
    const outcome what = add_lu(c, false, true);
    return what == SERVED && !count_pivots_from_one(c, &c->results[1]) ? REFUSED : what;
}

/* PyTorch's derivatives expect LU of A^T where A is contiguous and real. */
static outcome take_determinant(call *c) {
    if (c->place == CUDA || !is_square(&c->a)) return OTHER;
    const smm_array input[] = {array_of(&c->a, c->dtype)};
    const bool signs = c->row == ROW_aten__linalg_slogdet;
    outcome what = compute(c, signs ? "slogdet" : "det", 1, input, (const role[]){BY_ROWS, BY_ROWS});
    if (what == SERVED) what = add_lu(c, is_contiguous(&c->a) && !smm_is_complex(c->dtype), false);
    return what == SERVED && !count_pivots_from_one(c, &c->results[c->count - 1]) ? REFUSED : what;
}

/* LU is of A alone, so B must not have more matrices. */
static outcome take_solve(call *c) {
    const operand *a = &c->a;
    operand b = c->b;
    if (!is_square(a) || !truth(c, 2) || (c->place == CUDA && truth(c, 3))) return OTHER; /* left, check_errors */
    const bool vectors = is_of_vectors(a, &b);
    int64_t sizes[MOST_DIM + 1], strides[MOST_DIM + 1];
    if (vectors) { /* matrices of one column */
        memcpy(sizes, b.sizes, (size_t)b.dim * sizeof *sizes);
        memcpy(strides, b.strides, (size_t)b.dim * sizeof *strides);
        sizes[b.dim] = 1;
        strides[b.dim] = 0;
        b.dim++;
        b.sizes = sizes;
        b.strides = strides;
    }
    if (b.dim > a->dim) return OTHER;
    for (int64_t d = 0; d < b.dim - 2; d++)
        if (b.sizes[d] != 1 && b.sizes[d] != a->sizes[d + a->dim - b.dim]) return OTHER;
    outcome what = add_lu(c, false, true);
    if (what != SERVED) return what;
    operand lu, pivots;
    if (!read_operand(c->results[0], &lu) || !read_operand(c->results[1], &pivots)) return REFUSED;
    const smm_array input[] = {array_of(&lu, c->dtype), array_of_integers(&pivots), array_of(&b, c->dtype)};
    what = compute(c, "lu_solve", 3, input, (const role[]){vectors ? VECTORS : BY_COLUMNS});
    if (what != SERVED) return what;
    if (!count_pivots_from_one(c, &c->results[1])) return REFUSED;
    const tensor x = c->results[3]; /* PyTorch has it first */
    memmove(c->results + 1, c->results, 3 * sizeof *c->results);
    c->results[0] = x;
    return SERVED;
}

/* Values that are not finite tell of a matrix that failed: PyTorch raises then. */
static outcome checked(call *c, outcome what, int values, smm_dtype dtype) {
    if (what != SERVED || c->place == CPU || is_sum_finite(c->results[values], dtype)) return what;
    return EXCEPTIONAL;
}

static outcome take_eigh(call *c) {
    if (!is_square(&c->a)) return OTHER;
    const char *letter;
    if (torch.torch_string_c_str(handle(c->stack[1]), &letter)) return OTHER;
    if (strcmp(letter, "L") && strcmp(letter, "U")) return OTHER;
    const bool upper = *letter == 'U';
    const smm_array input[] = {array_of(&c->a, c->dtype)};
    outcome what;
    if (truth(c, 2)) {
        what = compute(c, upper ? "eigh_upper" : "eigh", 1, input, (const role[]){BY_ROWS, BY_COLUMNS, UNUSED});
    } else {
        what = compute(c, upper ? "eigvalsh_upper" : "eigvalsh", 1, input, (const role[]){BY_ROWS, UNUSED});
        if (what == SERVED && !add_empty(c)) what = REFUSED;
    }
    return checked(c, what, 0, smm_dtypes[c->dtype].real);
}

static outcome take_svd(call *c) {
    if (c->stack[3]) return OTHER; /* driver */
    const bool tall = c->a.sizes[c->a.dim - 2] >= c->a.sizes[c->a.dim - 1], full = truth(c, 1);
    const smm_array input[] = {array_of(&c->a, c->dtype)};
    outcome what;
    if (truth(c, 2)) {
        const char *name = full ? (tall ? "svd_full_tall" : "svd_full_wide") : tall ? "svd_tall" : "svd_wide";
        const role of_v = c->place == CUDA ? BY_ROWS : BY_COLUMNS; /* as cuSOLVER's kernels have it */
        what = compute(c, name, 1, input, (const role[]){BY_COLUMNS, BY_ROWS, of_v, UNUSED});
    } else {
        what = add_empty(c)
                   ? compute(c, tall ? "svdvals_tall" : "svdvals_wide", 1, input, (const role[]){BY_ROWS, UNUSED})
                   : REFUSED;
        if (what == SERVED && !add_empty(c)) what = REFUSED;
    }
    return checked(c, what, 1, smm_dtypes[c->dtype].real);
}

static outcome take_eig(call *c) {
    if (!is_square(&c->a)) return OTHER;
    const smm_array input[] = {array_of(&c->a, c->dtype)};
    const outcome what =
        c->row == ROW_aten_linalg_eig
            ? compute(c, "eig", 1, input, (const role[]){BY_ROWS, c->place == CUDA ? BY_ROWS : BY_COLUMNS, UNUSED})
            : compute(c, "eigvals", 1, input, (const role[]){BY_ROWS, UNUSED});
    return checked(c, what, 0, smm_dtypes[c->dtype].complex_of);
}

static outcome (*const takers[ROWS - NUMPY_ROWS])(call *) = {
#define TAKER(op, taker) [ROW_aten_##op - NUMPY_ROWS] = taker
    TAKER(bmm, take_bmm),
    TAKER(bmm_out, take_bmm),
    TAKER(linalg_inv_ex, take_inverse),
    TAKER(linalg_cholesky_ex, take_cholesky),
    TAKER(linalg_lu_factor_ex, take_factors),
    TAKER(_linalg_solve_ex, take_solve),
    TAKER(_linalg_det, take_determinant),
    TAKER(_linalg_slogdet, take_determinant),
    TAKER(_linalg_eigh, take_eigh),
    TAKER(_linalg_svd, take_svd),
    TAKER(linalg_eig, take_eig),
    TAKER(_linalg_eigvals, take_eig),
#undef TAKER
};

/* Of the matrices of a tensor: their order, and how many there are. */
static void measure(call *c, const operand *x) {
    intptr_t matrices = 1;
    for (int64_t d = 0; d < x->dim; d++) {
        if (d < x->dim - 2)
            matrices *= x->sizes[d];
        else if (x->sizes[d] > c->order && c->order >= 0)
            c->order = x->sizes[d];
        if (!x->sizes[d]) c->order = -1; /* empty */
    }
    if (matrices > c->matrices) c->matrices = matrices;
}

enum { FEWEST_ON_DEVICE = 2 };

/* Products of float32 pay on devices up to order 64: 1.2 times PyTorch's speed there (H100, PyTorch 2.11). */
static intptr_t most_of(const call *c) {
    const bool is_product = c->row == ROW_aten_bmm || c->row == ROW_aten_bmm_out;
    if (c->place != CUDA || !is_product) return SMM_MOST_ORDER;
    return c->dtype == SMM_F32 ? SMM_CUDA_MOST : SMM_CUDA_MOST_ORDER;
}

static outcome take(call *c) {
    const bool two = operators[c->row - NUMPY_ROWS].arguments[1] == 'T';
    if (!read_operand(handle(c->stack[0]), &c->a) || c->a.dim < 2 || c->a.type != code.place[c->place]) return OTHER;
    const int dtype = dtype_of(c->a.dtype);
    if (dtype < 0) return OTHER;
    c->dtype = (smm_dtype)dtype;
    if (two && (!read_operand(handle(c->stack[1]), &c->b) || c->b.dtype != c->a.dtype || c->b.type != c->a.type ||
                c->b.device != c->a.device))
        return OTHER;
    measure(c, &c->a);
    if (two && !(c->row == ROW_aten__linalg_solve_ex && is_of_vectors(&c->a, &c->b))) measure(c, &c->b);
    if (c->order < 1 || c->order > most_of(c) || !c->matrices) return LARGE;
    const intptr_t for_all = smm_fewest_for_all();
    const intptr_t least = c->place == CPU ? smm_fewest(c->row, c->dtype, c->order)
                           : for_all       ? for_all
                                           : FEWEST_ON_DEVICE;
    return c->matrices < least ? FEW : takers[c->row - NUMPY_ROWS](c);
}

/* --- PyTorch's own kernels --------------------------------------------------------------------------- */

/* What C++ passes: a std::string_view, and an optional one. */
typedef struct view {
    size_t length;
    const char *text;
} view;
typedef struct optional_view {
    view value;
    bool has_value;
} optional_view;

/* More than fits registers, so that the address of the result is passed as C++ passes that of a Tensor. */
typedef struct tensors {
    void *at[4 + 1];
} tensors;

static view view_of(argument string) {
    view x = {0, ""};
    torch.torch_string_c_str(handle(string), &x.text);
    torch.torch_string_length(handle(string), &x.length);
    return x;
}

static optional_view optional_view_of(argument optional) {
    if (!optional) return (optional_view){.has_value = false};
    return (optional_view){view_of(*(const argument *)(uintptr_t)optional), true};
}

static void hand_on(int row, int place, argument *stack) {
    function *const f = former[row - NUMPY_ROWS][place];
    const tensor a = handle(stack[0]);
    if (row == ROW_aten_bmm_out) { /* gives the tensor that it is given */
        ((tensor (*)(tensor, tensor, tensor))f)(handle(stack[2]), a, handle(stack[1]));
        if (torch.aoti_torch_new_tensor_handle(handle(stack[2]), (tensor *)&stack[4])) abort();
        return;
    }
    const bool second = stack[1] & 0xff, third = stack[2] & 0xff, fourth = stack[3] & 0xff;
    tensors x;
    switch (row) {
    case ROW_aten_bmm: x = ((tensors (*)(tensor, tensor))f)(a, handle(stack[1])); break;
    case ROW_aten_linalg_inv_ex: x = ((tensors (*)(tensor, bool))f)(a, second); break;
    case ROW_aten_linalg_cholesky_ex:
    case ROW_aten_linalg_lu_factor_ex: x = ((tensors (*)(tensor, bool, bool))f)(a, second, third); break;
    case ROW_aten__linalg_solve_ex:
        x = ((tensors (*)(tensor, tensor, bool, bool))f)(a, handle(stack[1]), third, fourth);
        break;
    case ROW_aten__linalg_eigh: x = ((tensors (*)(tensor, view, bool))f)(a, view_of(stack[1]), third); break;
    case ROW_aten__linalg_svd:
        x = ((tensors (*)(tensor, bool, bool, optional_view))f)(a, second, third, optional_view_of(stack[3]));
        break;
    default: x = ((tensors (*)(tensor))f)(a);
    }
    /* a handle of no tensor becomes one of the result */
    const int results = operators[row - NUMPY_ROWS].results;
    tensor handles[4];
    for (int i = 0; i < results; i++) {
        if (torch.aoti_torch_new_uninitialized_tensor(&handles[i])) abort(); /* no 8 bytes, and no way to say so */
        memcpy(handles[i], &x.at[results - 1 - i], sizeof(void *));
    }
    memcpy(stack + 4, handles, sizeof handles);
}

/* --- Kernels ----------------------------------------------------------------------------------------- */

/* Arguments belong to the kernel, also while an exception passes. */
typedef struct frame {
    int row;
    argument arguments[8]; /* and, of a call that was handed on, results */
} frame;

static void release(frame *f) {
    const char *kinds = operators[f->row - NUMPY_ROWS].arguments;
    for (int i = 0; kinds[i]; i++) {
        argument x = f->arguments[i];
        if (kinds[i] == 'T') torch.aoti_torch_delete_tensor_object(handle(x));
        if (kinds[i] == 's') torch.torch_delete_string(handle(x));
        if (kinds[i] == 'o' && x) {
            torch.torch_delete_string(handle(*(argument *)(uintptr_t)x));
            torch.delete((void *)(uintptr_t)x);
        }
    }
}

static void run(int row, int place, argument *stack, uint64_t arguments, uint64_t results) {
    __attribute__((cleanup(release))) frame own = {.row = row};
    memcpy(own.arguments, stack, arguments * sizeof *stack);
    call c = {.row = row, .place = place, .stack = own.arguments};
    outcome what = OTHER;
    const bool counts = atomic_load_explicit(&serves, memory_order_relaxed);
    if (counts) {
        what = take(&c);
        const intptr_t order = c.order < 1 || c.order > SMM_MOST_ORDER ? ORDERS - 1 : c.order;
        smm_count_call(row, order, what, c.matrices);
    }
    if (what == SERVED) {
        memcpy(stack, c.results, results * sizeof *stack);
        return;
    }
    drop_results(&c);
    hand_on(row, place, own.arguments);
    memcpy(stack, own.arguments + 4, results * sizeof *stack);
}

#define SMM_PATCHED_TORCH(op, ...) \
    static void op##_on_host(argument *stack, uint64_t arguments, uint64_t results) { \
        run(ROW_aten_##op, CPU, stack, arguments, results); \
    } \
    static void op##_on_device(argument *stack, uint64_t arguments, uint64_t results) { \
        run(ROW_aten_##op, CUDA, stack, arguments, results); \
    }
#include "patched_torch.def"
#undef SMM_PATCHED_TORCH

static kernel *const kernels[ROWS - NUMPY_ROWS][PLACES] = {
#define SMM_PATCHED_TORCH(op, ...) {op##_on_host, op##_on_device},
#include "patched_torch.def"
#undef SMM_PATCHED_TORCH
};
#undef SMM_LEAST

/* --- Registration ------------------------------------------------------------------------------------ */

/* Functions of a library that is loaded already. */
static const char *find_functions(void *library) {
#define FIND(result, name, arguments) \
    *(void **)&torch.name = dlsym(library, #name); \
    if (!torch.name) return #name;
    TORCH_FUNCTIONS(FIND)
#undef FIND
    *(void **)&torch.delete = dlsym(RTLD_DEFAULT, "_ZdlPv");
    if (!torch.delete) *(void **)&torch.delete = dlsym(library, "_ZdlPv");
    if (!torch.delete) return "operator delete";
    code.place[CPU] = torch.aoti_torch_device_type_cpu();
    code.place[CUDA] = torch.aoti_torch_device_type_cuda();
    code.integer = torch.aoti_torch_dtype_int32();
    code.number[SMM_F32] = torch.aoti_torch_dtype_float32();
    code.number[SMM_F64] = torch.aoti_torch_dtype_float64();
    code.number[SMM_C64] = torch.aoti_torch_dtype_complex64();
    code.number[SMM_C128] = torch.aoti_torch_dtype_complex128();
    return NULL;
}

/* Register kernels for all operators whose former kernels a library has, and add their names to a list. -1 with an
 * exception. */
static int register_kernels(void *library, int place, PyObject *list) {
    static void *registrations[PLACES]; /* kept */
    const char *const key = place == CPU ? "CPU" : "CUDA";
    if (torch.aoti_torch_library_init_impl("aten", key, __FILE__, __LINE__, &registrations[place])) {
        PyErr_Format(PyExc_RuntimeError, "PyTorch refuses kernels of aten for %s", key);
        return -1;
    }
    for (int i = 0; i < ROWS - NUMPY_ROWS; i++) {
        char symbol[160];
        snprintf(symbol, sizeof symbol, "_ZN2at%s%s", place == CPU ? "3cpu" : "4cuda", operators[i].function);
        *(void **)&former[i][place] = dlsym(library, symbol);
        if (!former[i][place]) continue;
        /* bmm_out is the overload bmm.out */
        char name[64];
        snprintf(name, sizeof name, "%s", operators[i].name);
        char *const out = strstr(name, "_out");
        if (out) *out = '.';
        if (torch.torch_library_impl(registrations[place], name, kernels[i][place], INTERFACE)) {
            PyErr_Format(PyExc_RuntimeError, "PyTorch refuses a kernel of %s for %s", operators[i].name, key);
            return -1;
        }
        PyObject *entry = PyUnicode_FromFormat("%s %s", operators[i].name, key);
        const int failed = entry ? PyList_Append(list, entry) : -1;
        Py_XDECREF(entry);
        if (failed) return -1;
    }
    return 0;
}

/* register_torch(cpu, cuda): register the kernels, of the library for CUDA if that is not None, once: the operators and
 * keys that have one. A string: the function that this PyTorch lacks. */
PyObject *smm_register_torch(PyObject *Py_UNUSED(module), PyObject *args) {
    const char *cpu, *cuda;
    if (!PyArg_ParseTuple(args, "sz", &cpu, &cuda)) return NULL;
    void *const host = dlopen(cpu, RTLD_LAZY | RTLD_NOLOAD);
    if (!host) return PyErr_Format(PyExc_RuntimeError, "%s is not loaded", cpu);
    const char *missing = find_functions(host);
    if (missing) return PyUnicode_FromString(missing);
    void *const device = cuda ? dlopen(cuda, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    if (device)
        *(void **)&torch.aoti_torch_get_current_cuda_stream = dlsym(device, "aoti_torch_get_current_cuda_stream");
    if (torch.aoti_torch_get_current_cuda_stream && smm_configure_cuda() < 0) return NULL;
    PyObject *list = PyList_New(0);
    if (!list || register_kernels(host, CPU, list) < 0 ||
        (torch.aoti_torch_get_current_cuda_stream && register_kernels(device, CUDA, list) < 0))
        Py_CLEAR(list);
    return list;
}

/* serve_torch(on): whether the kernels compute, or hand everything on. */
PyObject *smm_serve_torch(PyObject *Py_UNUSED(module), PyObject *on) {
    const int is_on = PyObject_IsTrue(on);
    if (is_on < 0) return NULL;
    atomic_store(&serves, is_on);
    Py_RETURN_NONE;
}
