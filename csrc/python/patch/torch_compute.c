/* torch_compute.c: computes gufuncs of PyTorch's tensors into results. These have the strides that PyTorch's kernels
 * give. */
#include <string.h>

#include "../device/buffers.h"
#include "torch.h"

/* --- Results ----------------------------------------------------------------------------------------- */

static bool has_shape(const operand *x, int ndim, const intptr_t *shape) {
    bool has = x->dim == ndim;
    for (int d = 0; has && d < ndim; d++) has = x->sizes[d] == shape[d];
    return has;
}

/* The next result: the tensor that is given for it, or a new one. A tensor that is given and has no memory yet gets
 * that of a new one in the end. False: there is no memory, or PyTorch raises or resizes the tensor that is given. */
static bool add_result(call *c, int ndim, const intptr_t *shape, const int64_t *strides, int32_t dtype, operand *to) {
    const int i = c->next;
    bool fills = false;
    if (c->given) {
        const tensor given = smm_handle(c->given[i]);
        int64_t bytes;
        if (!smm_read_tensor(given, to) || to->dtype != dtype || to->type != c->x->type || to->device != c->x->device ||
            smm_torch.aoti_torch_get_storage_size(given, &bytes))
            return false;
        fills = has_shape(to, ndim, shape);
        if (!fills && bytes) return false;
        if (fills && smm_torch.aoti_torch_new_tensor_handle(given, &c->results[i])) return false;
    }
    if (!fills && !smm_new_tensor(c->x, ndim, shape, strides, dtype, &c->results[i])) return false;
    c->moves[i] = c->given && !fills;
    c->next = (i + 1) % c->op->results;
    void *data;
    if (!smm_read_tensor(c->results[i], to) || smm_torch.aoti_torch_get_data_ptr(c->results[i], &data)) return false;
    to->data = data;
    return true;
}

/* An empty vector as the next result. */
static bool add_empty(call *c, int32_t dtype) {
    static const intptr_t nothing[1] = {0};
    static const int64_t stride[1] = {1};
    operand x;
    return add_result(c, 1, nothing, stride, dtype, &x);
}

outcome smm_add_empty(call *c, outcome what, int32_t dtype) {
    return what == SERVED && !add_empty(c, dtype) ? REFUSED : what;
}

outcome smm_move_results(call *c) {
    for (int i = 0; i < MAX_RESULTS; i++) {
        if (!c->moves[i]) continue;
        const argument source = (argument)(uintptr_t)c->results[i];
        c->results[i] = smm_apply_torch("aten::set_", "source_Tensor", smm_handle(c->given[i]), source);
        if (!c->results[i]) return REFUSED;
    }
    return SERVED;
}

/* --- A gufunc ---------------------------------------------------------------------------------------- */

/* An output: its shape and strides, memory of its own if it is not written into a result, and the result that gets a
 * copy of that. */
typedef struct output {
    intptr_t shape[NPY_MAXDIMS + 2], steps[MAX_DIM + 2];
    tensor own, copy;
} output;

static int32_t code_of(const smm_gufunc *g, int i, smm_dtype dtype) {
    if (smm_is_integer(g, i)) return smm_torch.integer;
    return smm_torch.number[smm_type_of(g->op, dtype, smm_signature_of(g)->position[i])];
}

/* Strides of row-major or column-major matrices. Columns, or vectors, take the memory of so many rows if these are
 * more. */
static void lay_out(int ndim, const intptr_t *shape, bool by_columns, intptr_t rows, int64_t *strides) {
    intptr_t step = 1;
    for (int i = 0; i < ndim; i++) {
        const int d = by_columns && ndim > 1 && i < 2 ? ndim - 2 + i : ndim - 1 - i;
        const intptr_t length = i || shape[d] > rows ? shape[d] : rows;
        strides[d] = step;
        step *= length > 1 ? length : 1;
    }
}

static void swap_last(intptr_t *x, int ndim) {
    const intptr_t last = x[ndim - 1];
    x[ndim - 1] = x[ndim - 2];
    x[ndim - 2] = last;
}

/* Memory for what nobody reads, and an empty vector as result. */
static bool add_scratch(call *c, int ndim, const intptr_t *shape, int32_t dtype, role what, tensor *own, operand *to) {
    int64_t strides[MAX_DIM + 2];
    lay_out(ndim, shape, false, 0, strides);
    return add_empty(c, what & LONGS ? smm_torch.integer64 : dtype) &&
           smm_new_tensor(c->x, ndim, shape, strides, dtype, own) && smm_read_tensor(*own, to);
}

enum { FEWEST_ROWS_COPIED = 8 };

/* Row-major matrices in place of a result that is not. */
static bool take_rows_instead(call *c, int ndim, tensor result, output *to, operand *out) {
    int64_t strides[MAX_DIM + 2];
    if (out->strides[ndim - 1] == 1) return true;
    to->copy = result;
    lay_out(ndim, to->shape, false, 0, strides);
    return smm_new_tensor(c->x, ndim, to->shape, strides, out->dtype, &to->own) && smm_read_tensor(to->own, out);
}

/* Output i of a gufunc, whose shape and strides it fills in. False: as of add_result, or a tensor that is given has
 * elements in one place. */
static bool take_output(call *c, smm_arrays *x, int i, role what, output *to) {
    const int ndim = smm_output_shape(x, i, to->shape), layout = what & ~(TRANSPOSED | LONGS | COPIED);
    const bool copied = what & COPIED && c->backend == CUDA && c->order >= FEWEST_ROWS_COPIED;
    const bool vectors = layout == VECTORS || layout == ROW_VECTORS;
    const bool by_columns = layout == BY_COLUMNS || layout == VECTORS;
    const int32_t dtype = code_of(x->g, i, c->dtype);
    intptr_t bytes = smm_size_of(x->g->op, c->dtype, x->s->position[i]);
    int64_t strides[MAX_DIM + 2];
    operand out;
    const int at = c->next;
    if (layout == EMPTY) {
        if (!add_scratch(c, ndim, to->shape, dtype, what, &to->own, &out)) return false;
    } else {
        if (what & TRANSPOSED) swap_last(to->shape, ndim);
        if (what & LONGS) bytes = sizeof(int64_t);
        lay_out(ndim - vectors, to->shape, by_columns, layout == BY_ROWS ? 0 : c->rows, strides);
        if (!add_result(c, ndim - vectors, to->shape, strides, what & LONGS ? smm_torch.integer64 : dtype, &out))
            return false;
        if (copied && !take_rows_instead(c, ndim, c->results[at], to, &out)) return false;
    }
    for (int d = 0; d < out.dim; d++) to->steps[d] = out.strides[d];
    if (vectors) to->steps[ndim - 1] = 0;
    if (what & TRANSPOSED) {
        swap_last(to->shape, ndim);
        swap_last(to->steps, ndim);
    }
    x->array[i] = (smm_array){(void *)(uintptr_t)out.data, ndim, to->shape, to->steps, bytes};
    return !c->given || smm_fits_shape(x, i);
}

/* Nothing is done if both are the same. */
static bool copy(tensor to, tensor from) {
    tensor own;
    if (smm_torch.aoti_torch_new_tensor_handle(from, &own)) return false;
    const tensor copied = smm_apply_torch("aten::copy_", "", to, (argument)(uintptr_t)own);
    if (copied) smm_torch.aoti_torch_delete_tensor_object(copied);
    return copied;
}

static bool place_addend(const call *c) { return !c->addend || copy(c->results[0], smm_handle(c->addend)); }

static outcome run_on_device(const call *c, smm_arrays *x) {
    void *stream;
    smm_take_batch(&x->call, &x->outer, 0);
    if (c->given && smm_overlap_of(&x->call) != SMM_APART) return OVERLAP;
    const bool runs = place_addend(c) && !smm_torch.aoti_torch_get_current_cuda_stream(c->x->device, &stream) &&
                      !smm_cuda_run(&x->call, c->number, c->x->device, stream);
    return runs ? SERVED : REFUSED;
}

static outcome run_on_host(const call *c, smm_arrays *x) {
    const smm_op op = x->call.op;
    const bool tells = op != SMM_OP_MATMUL && op != SMM_OP_CHOLESKY && op != SMM_OP_LU && op != SMM_OP_LU_SOLVE;
    bool failed = false, not_finite = false;
    double own_number[SMM_MAX_OPERANDS][2];
    if (op != SMM_OP_MATMUL) x->call.failed = &failed;
    smm_place_numbers(x, c->number, own_number);
    smm_take_batch(&x->call, &x->outer, smm_longest_dimension(&x->outer));
    if (c->given && smm_overlap_of(&x->call) != SMM_APART) return OVERLAP;
    if (!place_addend(c)) return REFUSED;
    smm_is_uninterrupted = true;
    const smm_status status = smm_run_and_tell(&x->call, tells ? &not_finite : NULL);
    smm_is_uninterrupted = false;
    return status ? REFUSED : failed || not_finite ? EXCEPTIONAL : SERVED;
}

outcome smm_compute(call *c, const char *name, int inputs, const smm_array *input, const role *roles) {
    smm_arrays x;
    smm_arrays_of(&x, smm_gufunc_named(name, strlen(name)), c->backend == CUDA ? SMM_CUDA_DIMS : MAX_DIM);
    x.call.dtype = c->dtype;
    if (c->backend == CUDA && (x.call.op == SMM_OP_LU || x.call.op == SMM_OP_LU_SOLVE)) x.call.form |= SMM_LAPACK;
    for (int i = 0; i < inputs; i++) {
        if (input[i].ndim < 0)
            smm_take_number(&x, i);
        else if (!smm_take_input(&x, i, input[i]))
            return OTHER;
    }
    smm_finish_sizes(&x.call, x.g);
    if (c->backend == CUDA && !smm_cuda_takes(x.call.op, x.call.dtype, x.call.m, x.call.k, x.call.n)) return OTHER;
    output outputs[SMM_MAX_OPERANDS];
    bool fits = true;
    for (int i = inputs; i < x.s->operands; i++) {
        outputs[i].own = outputs[i].copy = NULL;
        if (roles[i - inputs] == UNUSED)
            smm_take_number(&x, i);
        else
            fits = fits && take_output(c, &x, i, roles[i - inputs], &outputs[i]);
    }
    outcome what = c->given ? OTHER : REFUSED;
    if (fits && smm_describe(&x)) what = c->backend == CUDA ? run_on_device(c, &x) : run_on_host(c, &x);
    for (int i = inputs; i < x.s->operands; i++) {
        if (what == SERVED && outputs[i].copy && !copy(outputs[i].copy, outputs[i].own)) what = REFUSED;
        if (outputs[i].own) smm_torch.aoti_torch_delete_tensor_object(outputs[i].own);
    }
    return what;
}
