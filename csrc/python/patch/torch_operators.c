/* torch_operators.c: takes calls of PyTorch's operators apart and computes them with smallmm. Results have the strides
 * that PyTorch's kernels give. */
#include "torch.h"

#include <string.h>

#include "../device/buffers.h"

/* --- Results ----------------------------------------------------------------------------------------- */

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
        const tensor given = smm_handle(c->given[i]);
        int64_t bytes;
        if (!smm_read_tensor(given, to) || to->dtype != dtype || to->type != c->a.type || to->device != c->a.device ||
            smm_torch.aoti_torch_get_storage_size(given, &bytes))
            return false;
        fills = has_shape(to, ndim, shape);
        if (!fills && bytes) return false;
        if (fills && smm_torch.aoti_torch_new_tensor_handle(given, &c->results[i])) return false;
    }
    if (!fills && !smm_new_tensor(&c->a, ndim, shape, dtype, column_major, &c->results[i])) return false;
    c->moves[i] = c->given && !fills;
    c->next = (i + 1) % c->op->results;
    void *data;
    if (!smm_read_tensor(c->results[i], to) || smm_torch.aoti_torch_get_data_ptr(c->results[i], &data)) return false;
    to->data = data;
    return true;
}

/* What PyTorch gives in place of vectors that nobody asked for. */
static outcome add_empty(call *c, outcome what) {
    static const intptr_t nothing[1] = {0};
    operand x;
    return what == SERVED && !add_result(c, 1, nothing, c->a.dtype, false, &x) ? REFUSED : what;
}

/* Tensors that are given get the memory of results that were made for them. */
static outcome move_results(call *c) {
    for (int i = 0; i < MOST_RESULTS; i++) {
        if (!c->moves[i]) continue;
        const argument source = (argument)(uintptr_t)c->results[i];
        c->results[i] = smm_apply_torch("aten::set_", "source_Tensor", smm_handle(c->given[i]), source);
        if (!c->results[i]) return REFUSED;
    }
    return SERVED;
}

/* --- A gufunc ---------------------------------------------------------------------------------------- */

/* What becomes of an output: a result of the call, whose matrices are row-major or column-major; or matrices of one
 * column, whose result lacks that dimension, and is column-major as PyTorch has it. UNUSED: nobody reads it, and the
 * operand is missing. A tensor that is given lies as it lies. */
typedef enum role { UNUSED, BY_ROWS, BY_COLUMNS, VECTORS } role;

static int32_t code_of(const smm_gufunc *g, int i, smm_dtype dtype) {
    if (smm_is_integer(g, i)) return smm_torch.integer;
    return smm_torch.number[smm_type_of(g->op, dtype, smm_signature_of(g)->place[i])];
}

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
    void *stream;
    smm_take_batch(&x->call, &x->outer, 0);
    if (c->given && smm_overlap_of(&x->call) != SMM_APART) return OVERLAP;
    const bool runs = !smm_torch.aoti_torch_get_current_cuda_stream(c->a.device, &stream) &&
                      !smm_launch(&x->call, c->a.device, stream);
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

static smm_array numbers_of(const call *c, const operand *x) { return smm_array_of_tensor(x, smm_size(c->dtype)); }

/* The same of A alone. */
static outcome compute_of_a(call *c, const char *name, const role *roles) {
    const smm_array input[] = {numbers_of(c, &c->a)};
    return compute(c, name, 1, input, roles);
}

/* --- Operators --------------------------------------------------------------------------------------- */

static bool truth(const call *c, int i) { return c->stack[i] & 0xff; }

/* PyTorch leaves conjugation to kernels of bmm, in a bit that its C interface does not show, and that is_conj does not
 * either down here. So: the tensor whose conjugation is resolved, which is a copy or the same; it replaces x, and is
 * kept in `own`. */
static bool resolve(argument x, operand *to, tensor *own) {
    *own = smm_apply_torch("aten::resolve_conj", "", smm_handle(x), 0);
    return *own && smm_read_tensor(*own, to);
}

static outcome take_bmm(call *c) {
    const operand *a = &c->a, *b = &c->b;
    if (a->dim != 3 || b->dim != 3 || a->sizes[0] != b->sizes[0] || a->sizes[2] != b->sizes[1]) return OTHER;
    tensor own[3] = {NULL, NULL, NULL};
    bool fits = true;
    if (smm_is_complex(c->dtype)) {
        operand out;
        const void *data;
        fits = resolve(c->stack[0], &c->a, &own[0]) && resolve(c->stack[1], &c->b, &own[1]);
        if (fits && c->given)
            fits = resolve(*c->given, &out, &own[2]) &&
                   !smm_torch.torch_get_const_data_ptr(smm_handle(*c->given), &data) && data == out.data;
    }
    const smm_array input[] = {numbers_of(c, a), numbers_of(c, b)};
    const outcome what = fits ? compute(c, "batched_matmul", 2, input, (const role[]){BY_ROWS}) : OTHER;
    for (int i = 0; i < 3; i++)
        if (own[i]) smm_torch.aoti_torch_delete_tensor_object(own[i]);
    return what;
}

static outcome take_inverse(call *c) { return compute_of_a(c, "inv", (const role[]){BY_COLUMNS, BY_ROWS}); }

static outcome take_cholesky(call *c) {
    return compute_of_a(c, truth(c, 1) ? "cholesky_upper" : "cholesky", (const role[]){BY_COLUMNS, BY_ROWS});
}

/* Pivots, result i, as PyTorch has them; on the host smallmm counts from 0. */
static outcome count_from_one(const call *c, outcome what, int i) {
    operand x;
    if (what != SERVED || c->place == CUDA || !smm_read_tensor(c->results[i], &x)) return what;
    intptr_t count = 1;
    for (int64_t d = 0; d < x.dim; d++) count *= x.sizes[d];
    int32_t *const row = (int32_t *)(uintptr_t)x.data;
    const bool contiguous = smm_is_contiguous(&x);
    for (intptr_t pivot = 0; pivot < count; pivot++) {
        int64_t at = contiguous ? pivot : 0, rest = pivot;
        for (int64_t d = contiguous ? 0 : x.dim; d--; rest /= x.sizes[d]) at += rest % x.sizes[d] * x.strides[d];
        row[at]++;
    }
    return what;
}

/* LU and pivots, and info: the next results. */
static outcome add_lu(call *c) { return compute_of_a(c, "lu_factor", (const role[]){BY_COLUMNS, BY_ROWS, BY_ROWS}); }

static outcome take_factors(call *c) { return count_from_one(c, add_lu(c), 1); }

/* PyTorch's derivatives expect LU of A^T where A is contiguous and real. */
static outcome take_determinant(call *c) {
    const bool signs = c->op->results == 4;
    const outcome what = compute_of_a(c, signs ? "slogdet" : "det", (const role[]){BY_ROWS, BY_ROWS});
    if (what != SERVED) return what;
    const bool of_transposed = smm_is_contiguous(&c->a) && !smm_is_complex(c->dtype);
    smm_array a = numbers_of(c, &c->a);
    intptr_t strides[MOST_DIM];
    memcpy(strides, a.strides, (size_t)a.ndim * sizeof *strides);
    if (of_transposed) {
        strides[a.ndim - 1] = a.strides[a.ndim - 2];
        strides[a.ndim - 2] = a.strides[a.ndim - 1];
    }
    a.strides = strides;
    const outcome lu = compute(c, "lu_factor", 1, &a, (const role[]){BY_COLUMNS, BY_ROWS, UNUSED});
    return count_from_one(c, lu, signs ? 3 : 2);
}

/* PyTorch takes the B of A X = B for vectors if it is one, or has the shape of A without its last dimension. */
static bool is_of_vectors(const operand *a, const operand *b) {
    bool vectors = b->dim == 1 || b->dim == a->dim - 1;
    for (int64_t d = 0; d < b->dim && b->dim > 1 && vectors; d++) vectors = a->sizes[d] == b->sizes[d];
    return vectors;
}

/* LU is of A alone, so B must not have more matrices. */
static outcome take_solve(call *c) {
    const operand *a = &c->a;
    operand b = c->b;
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
    outcome what = add_lu(c);
    if (what != SERVED) return what;
    operand lu, pivots;
    if (!smm_read_tensor(c->results[1], &lu) || !smm_read_tensor(c->results[2], &pivots)) return REFUSED;
    const smm_array input[] = {numbers_of(c, &lu), smm_array_of_tensor(&pivots, sizeof(int32_t)), numbers_of(c, &b)};
    what = compute(c, "lu_solve", 3, input, (const role[]){vectors ? VECTORS : BY_COLUMNS});
    return count_from_one(c, what, 2);
}

/* Values that are not finite tell of a matrix that failed: PyTorch raises then. */
static outcome checked(const call *c, outcome what, int values, smm_dtype dtype) {
    if (what != SERVED || c->place == CPU || smm_is_sum_finite(c->results[values], dtype)) return what;
    return EXCEPTIONAL;
}

static outcome take_eigh(call *c) {
    static const char *const names[] = {"eigvalsh", "eigvalsh_upper", "eigh", "eigh_upper"};
    const char *letter;
    if (smm_torch.torch_string_c_str(smm_handle(c->stack[1]), &letter)) return OTHER;
    if (strcmp(letter, "L") && strcmp(letter, "U")) return OTHER;
    const bool upper = *letter == 'U', vectors = truth(c, 2);
    const role roles[] = {BY_ROWS, vectors ? BY_COLUMNS : UNUSED, UNUSED};
    outcome what = compute_of_a(c, names[2 * vectors + upper], roles);
    if (!vectors) what = add_empty(c, what);
    return checked(c, what, 0, smm_dtypes[c->dtype].real);
}

static outcome take_svd(call *c) {
    static const char *const names[] = {"svd_wide", "svd_tall", "svd_full_wide", "svd_full_tall"};
    const bool tall = c->a.sizes[c->a.dim - 2] >= c->a.sizes[c->a.dim - 1], full = truth(c, 1);
    outcome what = SERVED;
    if (truth(c, 2)) {
        const role of_v = c->place == CUDA ? BY_ROWS : BY_COLUMNS; /* as cuSOLVER's kernels have it */
        what = compute_of_a(c, names[2 * full + tall], (const role[]){BY_COLUMNS, BY_ROWS, of_v, UNUSED});
    } else {
        what = add_empty(c, what);
        if (what == SERVED)
            what = compute_of_a(c, tall ? "svdvals_tall" : "svdvals_wide", (const role[]){BY_ROWS, UNUSED});
        what = add_empty(c, what);
    }
    return checked(c, what, 1, smm_dtypes[c->dtype].real);
}

static outcome take_eig(call *c) {
    const bool vectors = c->op->results == 2;
    const role of_vectors = !vectors ? UNUSED : c->place == CUDA ? BY_ROWS : BY_COLUMNS;
    const outcome what = compute_of_a(c, vectors ? "eig" : "eigvals", (const role[]){BY_ROWS, of_vectors, UNUSED});
    return checked(c, what, 0, smm_dtypes[c->dtype].complex_of);
}

const torch_operator smm_torch_operators[OPERATORS] = {
#define SMM_LEAST(...)
#define OUT(i) +1
#define IN(kind, ...) #kind
#define SMM_PATCHED_TORCH(op, overload, take, returned, results, a, arguments) \
    {#op, overload, #a arguments, results, take},
#include "patched_torch.def"
#undef SMM_PATCHED_TORCH
#undef IN
#undef OUT
#undef SMM_LEAST
};

/* --- Any operator ------------------------------------------------------------------------------------ */

/* Whether smallmm takes the shape of A and the options. A device's kernels do not wait for info, of which PyTorch is to
 * raise. */
static bool takes_options(const call *c) {
    const operand *a = &c->a;
    for (int i = 0; c->op->arguments[i]; i++) switch (c->op->arguments[i]) {
        case 'S':
            if (a->sizes[a->dim - 1] != a->sizes[a->dim - 2]) return false;
            break;
        case 'm':
            if (!truth(c, i)) return false;
            break;
        case 'c':
            if (c->place == CUDA && truth(c, i)) return false;
            break;
        case 'o':
            if (c->stack[i]) return false;
            break;
        }
    return true;
}

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
    if (c->place != CUDA || c->op->take != take_bmm) return SMM_MOST_ORDER;
    return c->dtype == SMM_F32 ? SMM_CUDA_MOST : SMM_CUDA_MOST_ORDER;
}

outcome smm_take_torch(call *c) {
    const bool two = c->op->arguments[1] == 'T';
    if (!smm_read_tensor(smm_handle(c->stack[0]), &c->a) || c->a.dim < 2 || c->a.type != smm_torch.place[c->place])
        return OTHER;
    const int dtype = smm_dtype_of_torch(c->a.dtype);
    if (dtype < 0) return OTHER;
    c->dtype = (smm_dtype)dtype;
    if (two && (!smm_read_tensor(smm_handle(c->stack[1]), &c->b) || c->b.dtype != c->a.dtype ||
                c->b.type != c->a.type || c->b.device != c->a.device))
        return OTHER;
    measure(c, &c->a);
    if (two && !(c->op->take == take_solve && is_of_vectors(&c->a, &c->b))) measure(c, &c->b);
    if (c->order < 1 || c->order > most_of(c) || !c->matrices) return LARGE;
    const intptr_t for_all = smm_fewest_for_all();
    const intptr_t least = c->place == CPU ? smm_fewest(c->row, c->dtype, c->order)
                           : for_all       ? for_all
                                           : FEWEST_ON_DEVICE;
    if (c->matrices < least) return FEW;
    const outcome what = takes_options(c) ? c->op->take(c) : OTHER;
    return what == SERVED ? move_results(c) : what;
}
