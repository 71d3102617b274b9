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
#define SMM_PATCHED_TORCH(op, name, arguments, results, function) {name, arguments, function, results},
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

enum { MOST_ARGUMENTS = 8, MOST_RESULTS = 4 };

typedef struct call {
    int row, place;
    argument *stack;
    const argument *given; /* out=: a tensor for each result; or NULL */
    operand a, b;
    smm_dtype dtype;
    intptr_t order, matrices;
    int next;                     /* the result that is made next */
    tensor results[MOST_RESULTS]; /* the call's until it is served; NULL: not made yet */
    bool moves[MOST_RESULTS];     /* a new one, whose memory the tensor that is given is to have */
} call;

static tensor handle(argument x) { return (tensor)(uintptr_t)x; }

static void drop_results(call *c) {
    for (int i = 0; i < MOST_RESULTS; i++)
        if (c->results[i]) torch.aoti_torch_delete_tensor_object(c->results[i]);
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

static bool has_shape(const operand *x, int ndim, const intptr_t *shape) {
    bool has = x->dim == ndim;
    for (int d = 0; has && d < ndim; d++) has = x->sizes[d] == shape[d];
    return has;
}

/* The next result: the tensor that is given for it, or a new one. A tensor that is given and has no memory yet gets
 * that of a new one in the end. False: there is no memory, or PyTorch raises or resizes the tensor that is given. */
static bool add_result(call *c, int ndim, const intptr_t *shape, int32_t dtype, bool column_major, operand *to) {
    const int i = c->next;
    bool fills = false;
    if (c->given) {
        const tensor given = handle(c->given[i]);
        int64_t bytes;
        if (!read_operand(given, to) || to->dtype != dtype || to->type != c->a.type || to->device != c->a.device ||
            torch.aoti_torch_get_storage_size(given, &bytes))
            return false;
        fills = has_shape(to, ndim, shape);
        if (!fills && bytes) return false;
        if (fills && torch.aoti_torch_new_tensor_handle(given, &c->results[i])) return false;
    }
    if (!fills && !new_tensor(c, ndim, shape, dtype, column_major, &c->results[i])) return false;
    c->moves[i] = c->given && !fills;
    c->next = (i + 1) % operators[c->row - NUMPY_ROWS].results;
    void *data;
    if (!read_operand(c->results[i], to) || torch.aoti_torch_get_data_ptr(c->results[i], &data)) return false;
    to->data = data;
    return true;
}

/* What PyTorch gives in place of vectors that nobody asked for. */
static bool add_empty(call *c) {
    static const intptr_t nothing[1] = {0};
    operand x;
    return add_result(c, 1, nothing, c->a.dtype, false, &x);
}

/* Tensors that are given get the memory of results that were made for them. False: there is no memory. */
static bool move_results(call *c) {
    for (int i = 0; i < MOST_RESULTS; i++) {
        if (!c->moves[i]) continue;
        tensor given;
        if (torch.aoti_torch_new_tensor_handle(handle(c->given[i]), &given)) return false;
        argument stack[2] = {(argument)(uintptr_t)given, (argument)(uintptr_t)c->results[i]};
        c->results[i] = NULL; /* PyTorch's now */
        if (torch.torch_call_dispatcher("aten::set_", "source_Tensor", stack, INTERFACE)) return false;
        c->results[i] = handle(stack[0]);
    }
    return true;
}

static int32_t code_of(const smm_gufunc *g, int i, smm_dtype dtype) {
    if (smm_is_integer(g, i)) return code.integer;
    return code.number[smm_type_of(g->op, dtype, smm_signature_of(g)->place[i])];
}

/* What becomes of an output: a result of the call, whose matrices are row-major or column-major; or matrices of one
 * column, whose result lacks that dimension, and is column-major as PyTorch has it. UNUSED: nobody reads it, and the
 * operand is missing. A tensor that is given lies as it lies. */
typedef enum role { UNUSED, BY_ROWS, BY_COLUMNS, VECTORS } role;

/* Output i of a gufunc, whose shape and strides it fills in. False: as of add_result, or a tensor that is given has
 * elements in one place. */
static bool take_output(call *c, smm_arrays *x, int i, role what, intptr_t shape[], intptr_t steps[]) {
    const int ndim = smm_output_shape(x, i, shape);
    operand out;
    if (!add_result(c, ndim - (what == VECTORS), shape, code_of(x->g, i, c->dtype), what >= BY_COLUMNS, &out))
        return false;
    for (int d = 0; d < out.dim; d++) steps[d] = out.strides[d];
    if (what == VECTORS) steps[ndim - 1] = 0;
    x->array[i] =
        (smm_array){(void *)(uintptr_t)out.data, ndim, shape, steps, smm_size_of(x->g->op, c->dtype, x->s->place[i])};
    return !c->given || smm_fits_shape(x, i);
}

static outcome run_on_device(const call *c, smm_arrays *x) {
    double _Complex number[SMM_MOST_OPERANDS] = {0};
    void *stream;
    if (x->call.op == SMM_OP_MATMUL) number[SMM_MATMUL_alpha] = 1;
    smm_take_batch(&x->call, &x->outer, 0);
    if (c->given && smm_overlap_of(&x->call) != SMM_APART) return OVERLAP;
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
    if (c->place == CUDA && (x.call.op == SMM_OP_LU || x.call.op == SMM_OP_LU_SOLVE)) x.call.form |= SMM_LAPACK;
    for (int i = 0; i < inputs; i++)
        if (!smm_take_input(&x, i, input[i])) return OTHER;
    smm_finish_sizes(&x.call, x.g);
    if (c->place == CUDA && !smm_cuda_takes(x.call.op, x.call.dtype, x.call.m, x.call.k, x.call.n)) return OTHER;
    intptr_t shapes[SMM_MOST_OPERANDS][MOST_DIM + 2], steps[SMM_MOST_OPERANDS][MOST_DIM + 2];
    bool fits = true;
    for (int i = inputs; i < x.s->operands && fits; i++) {
        const role what = roles[i - inputs];
        if (what == UNUSED)
            smm_take_number(&x, i);
        else
            fits = take_output(c, &x, i, what, shapes[i], steps[i]);
    }
    outcome what = c->given ? OTHER : REFUSED;
    if (fits && smm_describe(&x)) what = c->place == CUDA ? run_on_device(c, &x) : run_on_host(c, &x);
    return what;
}

/* As PyTorch has them; on the host smallmm counts from 0. */
static void count_pivots_from_one(const call *c, tensor pivots) {
    operand x;
    if (c->place == CUDA || !read_operand(pivots, &x)) return;
    intptr_t count = 1;
    for (int64_t d = 0; d < x.dim; d++) count *= x.sizes[d];
    int32_t *const row = (int32_t *)(uintptr_t)x.data;
    const bool contiguous = is_contiguous(&x);
    for (intptr_t i = 0; i < count; i++) {
        int64_t at = contiguous ? i : 0, rest = i;
        for (int64_t d = contiguous ? 0 : x.dim; d--; rest /= x.sizes[d]) at += rest % x.sizes[d] * x.strides[d];
        row[at]++;
    }
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
    tensor own[3] = {NULL, NULL, NULL};
    bool fits = true;
    if (smm_is_complex(c->dtype)) {
        operand out;
        const void *data;
        fits = resolve(handle(c->stack[0]), &c->a, &own[0]) && resolve(handle(c->stack[1]), &c->b, &own[1]);
        if (fits && c->given)
            fits = resolve(handle(*c->given), &out, &own[2]) &&
                   !torch.torch_get_const_data_ptr(handle(*c->given), &data) && data == out.data;
    }
    outcome what = OTHER;
    if (fits) {
        const smm_array input[] = {array_of(a, c->dtype), array_of(b, c->dtype)};
        what = compute(c, "batched_matmul", 2, input, (const role[]){BY_ROWS});
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
    if (!is_square(&c->a) || !truth(c, 1) || (c->place == CUDA && truth(c, 2))) return OTHER; /* pivot, check_errors */
    const outcome what = add_lu(c, false, true);
    if (what == SERVED) count_pivots_from_one(c, c->results[1]);
    return what;
}

/* PyTorch's derivatives expect LU of A^T where A is contiguous and real. */
static outcome take_determinant(call *c) {
    if (!is_square(&c->a)) return OTHER;
    const smm_array input[] = {array_of(&c->a, c->dtype)};
    const bool signs = operators[c->row - NUMPY_ROWS].results == 4;
    outcome what = compute(c, signs ? "slogdet" : "det", 1, input, (const role[]){BY_ROWS, BY_ROWS});
    if (what == SERVED) what = add_lu(c, is_contiguous(&c->a) && !smm_is_complex(c->dtype), false);
    if (what == SERVED) count_pivots_from_one(c, c->results[signs ? 3 : 2]);
    return what;
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
    c->next = 1; /* X is the first result */
    outcome what = add_lu(c, false, true);
    if (what != SERVED) return what;
    operand lu, pivots;
    if (!read_operand(c->results[1], &lu) || !read_operand(c->results[2], &pivots)) return REFUSED;
    const smm_array input[] = {array_of(&lu, c->dtype), array_of_integers(&pivots), array_of(&b, c->dtype)};
    what = compute(c, "lu_solve", 3, input, (const role[]){vectors ? VECTORS : BY_COLUMNS});
    if (what == SERVED) count_pivots_from_one(c, c->results[2]);
    return what;
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
        operators[c->row - NUMPY_ROWS].results == 2
            ? compute(c, "eig", 1, input, (const role[]){BY_ROWS, c->place == CUDA ? BY_ROWS : BY_COLUMNS, UNUSED})
            : compute(c, "eigvals", 1, input, (const role[]){BY_ROWS, UNUSED});
    return checked(c, what, 0, smm_dtypes[c->dtype].complex_of);
}

static outcome (*const takers[ROWS - NUMPY_ROWS])(call *) = {
#define TAKER(op, taker) [ROW_aten_##op - NUMPY_ROWS] = taker
    TAKER(bmm, take_bmm),
    TAKER(bmm_out, take_bmm),
    TAKER(linalg_inv_ex, take_inverse),
    TAKER(linalg_inv_ex_out, take_inverse),
    TAKER(linalg_cholesky_ex, take_cholesky),
    TAKER(linalg_cholesky_ex_out, take_cholesky),
    TAKER(linalg_lu_factor_ex, take_factors),
    TAKER(linalg_lu_factor_ex_out, take_factors),
    TAKER(_linalg_solve_ex, take_solve),
    TAKER(_linalg_solve_ex_out, take_solve),
    TAKER(_linalg_det, take_determinant),
    TAKER(_linalg_det_out, take_determinant),
    TAKER(_linalg_slogdet, take_determinant),
    TAKER(_linalg_slogdet_out, take_determinant),
    TAKER(_linalg_eigh, take_eigh),
    TAKER(_linalg_eigh_out, take_eigh),
    TAKER(_linalg_svd, take_svd),
    TAKER(_linalg_svd_out, take_svd),
    TAKER(linalg_eig, take_eig),
    TAKER(linalg_eig_out, take_eig),
    TAKER(_linalg_eigvals, take_eig),
    TAKER(linalg_eigvals_out, take_eig),
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
    if (c->place != CUDA || takers[c->row - NUMPY_ROWS] != take_bmm) return SMM_MOST_ORDER;
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
    if (two && !(takers[c->row - NUMPY_ROWS] == take_solve && is_of_vectors(&c->a, &c->b))) measure(c, &c->b);
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

/* By address alone. */
#define F(...) ((tensors (*)(__VA_ARGS__))f)
static void hand_on(int row, int place, argument *stack, const argument *given) {
    function *const f = former[row - NUMPY_ROWS][place];
    const tensor a = handle(stack[0]), b = handle(stack[1]);
    const bool second = stack[1] & 0xff, third = stack[2] & 0xff, fourth = stack[3] & 0xff;
    const int results = operators[row - NUMPY_ROWS].results;
    tensor o[MOST_RESULTS];
    for (int i = 0; given && i < results; i++) o[i] = handle(given[i]);
    tensors x;
    switch (row) {
    case ROW_aten_bmm: x = F(tensor, tensor)(a, b); break;
    case ROW_aten_bmm_out: ((tensor (*)(tensor, tensor, tensor))f)(o[0], a, b); break;
    case ROW_aten_linalg_inv_ex: x = F(tensor, bool)(a, second); break;
    case ROW_aten_linalg_inv_ex_out: F(tensor, tensor, tensor, bool)(o[0], o[1], a, second); break;
    case ROW_aten_linalg_cholesky_ex:
    case ROW_aten_linalg_lu_factor_ex: x = F(tensor, bool, bool)(a, second, third); break;
    case ROW_aten_linalg_cholesky_ex_out: F(tensor, tensor, tensor, bool, bool)(o[0], o[1], a, second, third); break;
    case ROW_aten_linalg_lu_factor_ex_out:
        F(tensor, tensor, tensor, tensor, bool, bool)(o[0], o[1], o[2], a, second, third);
        break;
    case ROW_aten__linalg_solve_ex: x = F(tensor, tensor, bool, bool)(a, b, third, fourth); break;
    case ROW_aten__linalg_solve_ex_out:
        F(tensor, tensor, tensor, tensor, tensor, tensor, bool, bool)(o[0], o[1], o[2], o[3], a, b, third, fourth);
        break;
    case ROW_aten__linalg_det_out: F(tensor, tensor, tensor, tensor)(o[0], o[1], o[2], a); break;
    case ROW_aten__linalg_slogdet_out: F(tensor, tensor, tensor, tensor, tensor)(o[0], o[1], o[2], o[3], a); break;
    case ROW_aten__linalg_eigh: x = F(tensor, view, bool)(a, view_of(stack[1]), third); break;
    case ROW_aten__linalg_eigh_out:
        F(tensor, tensor, tensor, view, bool)(o[0], o[1], a, view_of(stack[1]), third);
        break;
    case ROW_aten__linalg_svd:
        x = F(tensor, bool, bool, optional_view)(a, second, third, optional_view_of(stack[3]));
        break;
    case ROW_aten__linalg_svd_out:
        F(tensor, tensor, tensor, tensor, bool, bool, optional_view)(o[0], o[1], o[2], a, second, third,
                                                                     optional_view_of(stack[3]));
        break;
    case ROW_aten_linalg_eig_out: F(tensor, tensor, tensor)(o[0], o[1], a); break;
    case ROW_aten_linalg_eigvals_out: ((tensor (*)(tensor, tensor))f)(o[0], a); break;
    default: x = F(tensor)(a);
    }
    for (int i = 0; i < results; i++) { /* no 8 bytes, and no way to say so: abort */
        tensor own;
        if (given) {
            if (torch.aoti_torch_new_tensor_handle(o[i], &own)) abort();
        } else { /* a handle of no tensor becomes one of the result */
            if (torch.aoti_torch_new_uninitialized_tensor(&own)) abort();
            memcpy(own, &x.at[results - 1 - i], sizeof(void *));
        }
        stack[MOST_ARGUMENTS + i] = (argument)(uintptr_t)own;
    }
}
#undef F

/* --- Kernels ----------------------------------------------------------------------------------------- */

/* Whether this thread is in a kernel of PyTorch's, whose calls of others PyTorch computes, too: what was handed on once
 * would be tried in vain again. */
static _Thread_local bool hands_on;

/* Arguments belong to the kernel, also while an exception passes. */
typedef struct frame {
    int row;
    bool handed_on;
    argument arguments[MOST_ARGUMENTS + MOST_RESULTS]; /* the results are those of a call that was handed on */
} frame;

static void release(frame *f) {
    const char *kinds = operators[f->row - NUMPY_ROWS].arguments;
    if (f->handed_on) hands_on = false;
    for (int i = 0; kinds[i]; i++) {
        argument x = f->arguments[i];
        if (kinds[i] == 'T' || kinds[i] == 'G') torch.aoti_torch_delete_tensor_object(handle(x));
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
    const char *const kinds = operators[row - NUMPY_ROWS].arguments, *const given = strchr(kinds, 'G');
    call c = {
        .row = row, .place = place, .stack = own.arguments, .given = given ? own.arguments + (given - kinds) : NULL};
    outcome what = OTHER;
    if (!hands_on && atomic_load_explicit(&serves, memory_order_relaxed)) {
        what = take(&c);
        if (what == SERVED && !move_results(&c)) what = REFUSED;
        const intptr_t order = c.order < 1 || c.order > SMM_MOST_ORDER ? ORDERS - 1 : c.order;
        smm_count_call(row, order, what, c.matrices);
    }
    if (what == SERVED) {
        memcpy(stack, c.results, results * sizeof *stack);
        return;
    }
    drop_results(&c);
    own.handed_on = !hands_on;
    hands_on = true;
    hand_on(row, place, own.arguments, c.given);
    memcpy(stack, own.arguments + MOST_ARGUMENTS, results * sizeof *stack);
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
        if (torch.torch_library_impl(registrations[place], operators[i].name, kernels[i][place], INTERFACE)) {
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
