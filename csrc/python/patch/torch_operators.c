/* torch_operators.c: takes calls of PyTorch's operators apart and computes them with smallmm. */
#include "torch.h"

#include <float.h>
#include <math.h>

#include "../device/buffers.h"

static smm_array numbers_of(const call *c, const operand *x) { return smm_array_of_tensor(x, smm_size(c->dtype)); }
static smm_array pivots_of(const operand *x) { return smm_array_of_tensor(x, sizeof(int32_t)); }

/* A gufunc of A alone. */
static outcome compute_of_a(call *c, const char *name, const role *roles) {
    const smm_array input[] = {numbers_of(c, c->x)};
    return smm_compute(c, name, 1, input, roles);
}

static bool truth(const call *c, int i) { return c->stack[i] & 0xff; }

static double number(const call *c, int i) {
    double x;
    memcpy(&x, &c->stack[i], sizeof x);
    return x;
}

static bool is_square(const operand *x) { return x->sizes[x->dim - 1] == x->sizes[x->dim - 2]; }

/* An operand with sizes and strides of its own. */
typedef struct reshaped {
    operand x;
    int64_t sizes[MAX_DIM + 1], strides[MAX_DIM + 1];
} reshaped;

static void copy_shape(const operand *from, reshaped *to) {
    memcpy(to->sizes, from->sizes, (size_t)from->dim * sizeof *to->sizes);
    memcpy(to->strides, from->strides, (size_t)from->dim * sizeof *to->strides);
    to->x = *from;
    to->x.sizes = to->sizes;
    to->x.strides = to->strides;
}

static const operand *transpose(const operand *a, reshaped *to) {
    copy_shape(a, to);
    const int64_t row = a->dim - 2, col = a->dim - 1;
    to->sizes[row] = a->sizes[col];
    to->sizes[col] = a->sizes[row];
    to->strides[row] = a->strides[col];
    to->strides[col] = a->strides[row];
    return &to->x;
}

/* Vectors as matrices of one column. */
static const operand *as_matrices(const operand *b, bool vectors, reshaped *to) {
    copy_shape(b, to);
    if (!vectors) return &to->x;
    to->sizes[b->dim] = 1;
    to->strides[b->dim] = 0;
    to->x.dim++;
    return &to->x;
}

/* --- Conjugates and negatives ------------------------------------------------------------------------ */

/* PyTorch leaves conjugation, or a sign, to kernels of some operators, in bits that its C interface does not show, and
 * that is_conj does not either down here. So: tensors whose conjugation or sign is resolved, which are copies or the
 * same. */
typedef struct resolved {
    tensor own[MAX_TENSORS + 1];
} resolved;

static bool resolve(const char *operator, argument x, operand *to, tensor *own) {
    const tensor before = *own;
    *own = smm_apply_torch(operator, "", before ? before : smm_handle(x), 0);
    if (before) smm_torch.aoti_torch_delete_tensor_object(before);
    return *own && smm_read_tensor(*own, to);
}

/* They replace all tensors of a call, and are kept. False: one that is given has such a bit. */
static bool resolve_all(call *c, const char *operator, resolved *x) {
    const void *data;
    operand out;
    for (int i = 0; smm_is_tensor(c->op->arguments[i]); i++)
        if (!resolve(operator, c->stack[i], &c->x[i], &x->own[i])) return false;
    return !c->given || (resolve(operator, *c->given, &out, &x->own[MAX_TENSORS]) &&
                         !smm_torch.torch_get_const_data_ptr(smm_handle(*c->given), &data) && data == out.data);
}

static bool resolve_conjugates(call *c, resolved *x) {
    return !smm_is_complex(c->dtype) || resolve_all(c, "aten::resolve_conj", x);
}

static void release(resolved *x) {
    for (int i = 0; i <= MAX_TENSORS; i++)
        if (x->own[i]) smm_torch.aoti_torch_delete_tensor_object(x->own[i]);
}

/* --- Products ---------------------------------------------------------------------------------------- */

static bool are_factors(const operand *a, const operand *b) {
    return a->dim == 3 && b->dim == 3 && a->sizes[0] == b->sizes[0] && a->sizes[2] == b->sizes[1];
}

static outcome take_bmm(call *c) {
    const operand *a = &c->x[0], *b = &c->x[1];
    if (!are_factors(a, b)) return OTHER;
    __attribute__((cleanup(release))) resolved own = {{NULL}};
    if (!resolve_conjugates(c, &own)) return OTHER;
    const smm_array input[] = {numbers_of(c, a), numbers_of(c, b)};
    c->number[SMM_MATMUL_alpha] = 1;
    return smm_compute(c, "batched_matmul", 2, input, (const role[]){BY_ROWS});
}

/* PyTorch refuses numbers that overflow in float32. */
static bool overflows(const call *c, double x) {
    return smm_dtypes[c->dtype].real == SMM_F32 && isfinite(x) && fabs(x) > (double)FLT_MAX;
}

static outcome take_baddbmm(call *c) {
    const operand *x = &c->x[0], *a = &c->x[1], *b = &c->x[2];
    if (!are_factors(a, b) || x->dim > 3) return OTHER;
    const int64_t shape[] = {a->sizes[0], a->sizes[1], b->sizes[2]};
    for (int64_t d = 1; d <= x->dim; d++)
        if (x->sizes[x->dim - d] != 1 && x->sizes[x->dim - d] != shape[3 - d]) return OTHER;
    __attribute__((cleanup(release))) resolved own = {{NULL}};
    if (!resolve_conjugates(c, &own)) return OTHER;
    const double beta = number(c, 3), alpha = number(c, 4);
    if (overflows(c, beta) || overflows(c, alpha)) return OTHER;
    if (beta != 0) c->addend = c->stack[0];
    c->number[SMM_MATMUL_alpha] = alpha;
    c->number[SMM_MATMUL_beta] = beta;
    const smm_array input[] = {numbers_of(c, a), numbers_of(c, b), {.ndim = -1}, {.ndim = -1}};
    return smm_compute(c, "gemm", 4, input, (const role[]){BY_ROWS});
}

/* --- Inverses and factors ---------------------------------------------------------------------------- */

static outcome take_inverse(call *c) { return compute_of_a(c, "inv", (const role[]){BY_COLUMNS, BY_ROWS}); }

static outcome take_cholesky(call *c) {
    return compute_of_a(c, truth(c, 1) ? "cholesky_upper" : "cholesky", (const role[]){BY_COLUMNS, BY_ROWS});
}

/* Where an element is, counted in the order of a contiguous tensor. */
static int64_t offset_of(const operand *x, bool contiguous, int64_t element) {
    if (contiguous) return element;
    int64_t at = 0;
    for (int64_t d = x->dim; d--; element /= x->sizes[d]) at += element % x->sizes[d] * x->strides[d];
    return at;
}

static int64_t length_of(const operand *x) {
    int64_t count = 1;
    for (int64_t d = 0; d < x->dim; d++) count *= x->sizes[d];
    return count;
}

/* Pivots, result i, as PyTorch has them; on the host smallmm counts from 0. */
static outcome count_from_one(const call *c, outcome what, int i) {
    operand x;
    if (what != SERVED || c->backend == CUDA || !smm_read_tensor(c->results[i], &x)) return what;
    int32_t *const row = (int32_t *)(uintptr_t)x.data;
    const bool contiguous = smm_is_contiguous(&x);
    for (int64_t k = length_of(&x); k--;) row[offset_of(&x, contiguous, k)]++;
    return what;
}

/* PyTorch's pivots as the host's kernels count them: a new tensor. */
static bool count_from_zero(const operand *pivots, operand *to, tensor *own) {
    int64_t strides[MAX_DIM], step = 1;
    for (int64_t d = pivots->dim; d--; step *= pivots->sizes[d]) strides[d] = step;
    void *data;
    if (!smm_new_tensor(pivots, (int)pivots->dim, (const intptr_t *)(const void *)pivots->sizes, strides, pivots->dtype,
                        own) ||
        !smm_read_tensor(*own, to) || smm_torch.aoti_torch_get_data_ptr(*own, &data))
        return false;
    const int32_t *const from = pivots->data;
    const bool contiguous = smm_is_contiguous(pivots);
    for (int64_t k = length_of(pivots); k--;) ((int32_t *)data)[k] = from[offset_of(pivots, contiguous, k)] - 1;
    return true;
}

/* LU and pivots, and info: the next results. */
static outcome add_lu(call *c) { return compute_of_a(c, "lu_factor", (const role[]){BY_COLUMNS, BY_ROWS, BY_ROWS}); }

static outcome take_factors(call *c) { return count_from_one(c, add_lu(c), 1); }

/* PyTorch's derivatives expect LU of A^T where A is contiguous and real. */
static outcome take_determinant(call *c) {
    const bool signs = c->op->results == 4;
    const outcome what = compute_of_a(c, signs ? "slogdet" : "det", (const role[]){BY_ROWS, BY_ROWS});
    if (what != SERVED) return what;
    const bool of_transposed = smm_is_contiguous(c->x) && !smm_is_complex(c->dtype);
    reshaped turned;
    const smm_array a = numbers_of(c, of_transposed ? transpose(c->x, &turned) : c->x);
    const outcome lu = smm_compute(c, "lu_factor", 1, &a, (const role[]){BY_COLUMNS, BY_ROWS, UNUSED});
    return count_from_one(c, lu, signs ? 3 : 2);
}

/* PyTorch takes the B of A X = B for vectors if it is one, or has the shape of A without its last dimension. */
static bool is_of_vectors(const operand *a, const operand *b) {
    bool vectors = b->dim == 1 || b->dim == a->dim - 1;
    for (int64_t d = 0; d < b->dim && b->dim > 1 && vectors; d++) vectors = a->sizes[d] == b->sizes[d];
    return vectors;
}

/* What is of A alone, as LU, has the batch dimensions of A: those of B must add none. */
static bool has_batches_of(const operand *a, const operand *b) {
    bool has = b->dim <= a->dim;
    for (int64_t d = 0; has && d < b->dim - 2; d++)
        has = b->sizes[d] == 1 || b->sizes[d] == a->sizes[d + a->dim - b->dim];
    return has;
}

static outcome take_solve(call *c) {
    const operand *a = &c->x[0];
    const bool vectors = is_of_vectors(a, &c->x[1]);
    reshaped own;
    const operand *b = as_matrices(&c->x[1], vectors, &own);
    if (!has_batches_of(a, b)) return OTHER;
    c->next = 1; /* X is the first result */
    outcome what = add_lu(c);
    if (what != SERVED) return what;
    operand lu, pivots;
    if (!smm_read_tensor(c->results[1], &lu) || !smm_read_tensor(c->results[2], &pivots)) return REFUSED;
    const smm_array input[] = {numbers_of(c, &lu), pivots_of(&pivots), numbers_of(c, b)};
    what = smm_compute(c, "lu_solve", 3, input, (const role[]){vectors ? VECTORS : BY_COLUMNS});
    return count_from_one(c, what, 2);
}

/* Whether pivots are those of A's matrices. */
static bool are_pivots_of(const operand *a, const operand *pivots) {
    bool are = pivots->dim == a->dim - 1;
    for (int64_t d = 0; are && d < pivots->dim; d++) are = pivots->sizes[d] == a->sizes[d];
    return are;
}

/* X A = B is A^T X^T = B^T. */
static outcome take_lu_solve(call *c) {
    const operand *lu = &c->x[0];
    const bool left = truth(c, 3), adjoint = truth(c, 4);
    if ((adjoint && smm_is_complex(c->dtype)) || !are_pivots_of(lu, &c->x[1])) return OTHER;
    reshaped turned;
    tensor own = NULL;
    operand pivots = c->x[1];
    const smm_array b = numbers_of(c, left ? &c->x[2] : transpose(&c->x[2], &turned));
    outcome what = REFUSED;
    if (c->backend == CUDA || count_from_zero(&c->x[1], &pivots, &own)) {
        const smm_array input[] = {numbers_of(c, lu), pivots_of(&pivots), b};
        const char *const name = left == adjoint ? "lu_solve_transposed" : "lu_solve";
        what = smm_compute(c, name, 3, input, (const role[]){left ? BY_COLUMNS : BY_ROWS | TRANSPOSED});
    }
    if (own) smm_torch.aoti_torch_delete_tensor_object(own);
    return what;
}

static outcome take_cholesky_solve(call *c) {
    const operand *b = &c->x[0], *a = &c->x[1];
    if (a->dim != b->dim || !has_batches_of(a, b) || !has_batches_of(b, a)) return OTHER;
    const smm_array input[] = {numbers_of(c, a), numbers_of(c, b)};
    return smm_compute(c, truth(c, 2) ? "cho_solve_upper" : "cho_solve", 2, input, (const role[]){BY_COLUMNS | COPIED});
}

static outcome take_triangular(call *c) {
    static const char *const names[] = {"solve_lower", "solve_upper", "solve_unit_lower", "solve_unit_upper"};
    const bool left = truth(c, 3);
    const operand given = c->x[0];
    __attribute__((cleanup(release))) resolved own = {{NULL}};
    if (!resolve_conjugates(c, &own)) return OTHER;
    const bool is_conjugated = c->x[0].data != given.data;
    if (!resolve_all(c, "aten::resolve_neg", &own)) return OTHER;
    const operand *a = &c->x[0], *b = &c->x[1];
    reshaped x, y;
    /* beside an A that it passes to BLAS as it lies, to be conjugated, PyTorch has X row-major */
    const bool by_rows = is_conjugated && smm_is_contiguous(transpose(&given, &x)) && has_batches_of(a, b);
    if (!left) {
        a = transpose(a, &x);
        b = transpose(b, &y);
    }
    const smm_array input[] = {numbers_of(c, a), numbers_of(c, b)};
    const int layout = (by_rows ? BY_ROWS : BY_COLUMNS) | (left ? COPIED : TRANSPOSED);
    return smm_compute(c, names[(truth(c, 2) == left) + 2 * truth(c, 4)], 2, input, (const role[]){layout, UNUSED});
}

/* PyTorch's own for Hermitian matrices is that for symmetric ones, if they are real. */
static outcome take_ldl(call *c) {
    const bool symmetric = smm_is_complex(c->dtype) && !truth(c, 1);
    return compute_of_a(c, symmetric ? "ldl_factor_symmetric" : "ldl_factor",
                        (const role[]){BY_COLUMNS | COPIED, BY_ROWS, BY_ROWS});
}

static outcome take_ldl_solve(call *c) {
    const bool symmetric = smm_is_complex(c->dtype) && !truth(c, 3);
    if (!are_pivots_of(&c->x[0], &c->x[1])) return OTHER;
    const smm_array input[] = {numbers_of(c, &c->x[0]), pivots_of(&c->x[1]), numbers_of(c, &c->x[2])};
    return smm_compute(c, symmetric ? "ldl_solve_symmetric" : "ldl_solve", 3, input,
                       (const role[]){BY_COLUMNS, UNUSED});
}

/* --- Orthogonal factors ------------------------------------------------------------------------------ */

static outcome take_qr(call *c) {
    const int64_t *const sizes = c->x->sizes + c->x->dim - 2;
    const bool tall = sizes[0] >= sizes[1];
    const char *mode;
    if (smm_torch.torch_string_c_str(smm_handle(c->stack[1]), &mode)) return OTHER;
    if (!strcmp(mode, "r")) {
        const outcome what = smm_add_empty(c, SERVED, c->x->dtype);
        return what == SERVED ? compute_of_a(c, tall ? "qr_r_tall" : "qr_r_wide", (const role[]){BY_COLUMNS | COPIED})
                              : what;
    }
    const bool complete = !strcmp(mode, "complete");
    if (!complete && strcmp(mode, "reduced")) return OTHER;
    return compute_of_a(c, complete || !tall ? "qr_complete" : "qr_tall",
                        (const role[]){BY_COLUMNS | COPIED, BY_COLUMNS | COPIED});
}

/* Ranks, which the host's kernels wrote in the lower halves. False: one is not full. */
static bool widen(const call *c, int i, int64_t full) {
    operand x;
    if (!smm_read_tensor(c->results[i], &x)) return false;
    const bool contiguous = smm_is_contiguous(&x);
    bool are_full = true;
    for (int64_t k = length_of(&x); k--;) {
        int64_t *const rank = (int64_t *)(uintptr_t)x.data + offset_of(&x, contiguous, k);
        *rank = (int32_t)*rank;
        are_full &= *rank == full;
    }
    return are_full;
}

/* PyTorch's driver is gelsy on the host, which gives ranks, and on a device gels, which takes them to be full and gives
 * residuals if A is tall. X is in the memory of B. */
static outcome take_lstsq(call *c) {
    const operand *a = &c->x[0];
    const bool vectors = is_of_vectors(a, &c->x[1]), ranks = c->backend == CPU;
    reshaped own;
    const operand *b = as_matrices(&c->x[1], vectors, &own);
    if (b->dim != a->dim || !has_batches_of(a, b)) return OTHER;
    const int64_t m = a->sizes[a->dim - 2], n = a->sizes[a->dim - 1], full = m < n ? m : n;
    const smm_dtype real = smm_dtypes[c->dtype].real;
    c->rows = m > n ? m : n;
    if (ranks) c->number[SMM_LSTSQ_rtol] = (real == SMM_F32 ? FLT_EPSILON : DBL_EPSILON) * (double)c->rows;
    const smm_array input[] = {numbers_of(c, a), numbers_of(c, b), {.ndim = -1}};
    const role roles[] = {vectors ? ROW_VECTORS : BY_COLUMNS, !ranks && m > n ? BY_ROWS : EMPTY,
                          LONGS | (ranks ? BY_ROWS : EMPTY), UNUSED};
    outcome what = smm_compute(c, "lstsq", 3, input, roles);
    if (what == SERVED && roles[1] != EMPTY) { /* residuals are squares of norms */
        const tensor squares = smm_apply_torch("aten::square_", "", c->results[1], 0);
        if (!squares) return REFUSED;
        smm_torch.aoti_torch_delete_tensor_object(squares);
    }
    what = smm_add_empty(c, what, smm_torch.number[real]);
    return what == SERVED && ranks && !widen(c, 2, full) ? EXCEPTIONAL : what;
}

/* --- Spectra, and functions of matrices -------------------------------------------------------------- */

/* Of order 1 PyTorch has the strides of A. */
static outcome take_exponential(call *c) {
    if (c->order == 1 && !smm_is_contiguous(c->x)) return OTHER;
    return compute_of_a(c, "expm", (const role[]){BY_ROWS});
}

/* Values that are not finite tell of a matrix that failed: PyTorch raises then. */
static outcome checked(const call *c, outcome what, int values, smm_dtype dtype) {
    if (what != SERVED || c->backend == CPU || smm_is_sum_finite(c->results[values], dtype)) return what;
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
    if (!vectors) what = smm_add_empty(c, what, c->x->dtype);
    return checked(c, what, 0, smm_dtypes[c->dtype].real);
}

static outcome take_svd(call *c) {
    static const char *const names[] = {"svd_wide", "svd_tall", "svd_full_wide", "svd_full_tall"};
    const bool tall = c->x->sizes[c->x->dim - 2] >= c->x->sizes[c->x->dim - 1], full = truth(c, 1);
    outcome what = SERVED;
    if (truth(c, 2)) {
        const role of_v = c->backend == CUDA ? BY_ROWS : BY_COLUMNS; /* as cuSOLVER's kernels have it */
        what = compute_of_a(c, names[2 * full + tall], (const role[]){BY_COLUMNS, BY_ROWS, of_v, UNUSED});
    } else {
        what = smm_add_empty(c, what, c->x->dtype);
        if (what == SERVED)
            what = compute_of_a(c, tall ? "svdvals_tall" : "svdvals_wide", (const role[]){BY_ROWS, UNUSED});
        what = smm_add_empty(c, what, c->x->dtype);
    }
    return checked(c, what, 1, smm_dtypes[c->dtype].real);
}

static outcome take_eig(call *c) {
    const bool vectors = c->op->results == 2;
    const role of_vectors = !vectors ? UNUSED : c->backend == CUDA ? BY_ROWS : BY_COLUMNS;
    const outcome what = compute_of_a(c, vectors ? "eig" : "eigvals", (const role[]){BY_ROWS, of_vectors, UNUSED});
    return checked(c, what, 0, smm_dtypes[c->dtype].complex_of);
}

const torch_operator smm_torch_operators[OPERATORS] = {
#define SMM_MIN_BATCH(...)
#define OUT(i) +1
#define IN(kind, ...) #kind
#define SMM_PATCHED_TORCH(op, overload, take, returned, results, a, arguments) \
    {#op, overload, #a arguments, results, take},
#include "patched_torch.def"
#undef SMM_PATCHED_TORCH
#undef IN
#undef OUT
#undef SMM_MIN_BATCH
};

/* --- Any operator ------------------------------------------------------------------------------------ */

/* Whether smallmm takes the shapes and the options. A device's kernels do not wait for info, of which PyTorch is to
 * raise. */
static bool takes_options(const call *c) {
    for (int i = 0; c->op->arguments[i]; i++) switch (c->op->arguments[i]) {
        case 'S':
            if (!is_square(&c->x[i])) return false;
            break;
        case 'm':
            if (!truth(c, i)) return false;
            break;
        case 'c':
            if (c->backend == CUDA && truth(c, i)) return false;
            break;
        case 'o':
        case 'f':
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
static intptr_t max_order_of(const call *c) {
    if (c->backend != CUDA || (c->op->take != take_bmm && c->op->take != take_baddbmm)) return SMM_MAX_ORDER;
    return c->dtype == SMM_F32 ? SMM_CUDA_MAX : SMM_CUDA_MAX_ORDER;
}

/* Read tensor i, whose letter says what it is beside the first. */
static bool take_tensor(call *c, int i) {
    const char kind = c->op->arguments[i];
    operand *const x = &c->x[i];
    return smm_read_tensor(smm_handle(c->stack[i]), x) && (x->dim >= 2 || strchr("ABI", kind)) &&
           x->dtype == (kind == 'I' ? smm_torch.integer : c->x->dtype) && x->type == c->x->type &&
           x->device == c->x->device;
}

outcome smm_take_torch(call *c) {
    const char *const kind = c->op->arguments;
    for (int i = 0; smm_is_tensor(kind[i]); i++)
        if (!take_tensor(c, i)) return OTHER;
    const int dtype = smm_dtype_of_torch(c->x->dtype);
    if (dtype < 0 || c->x->type != smm_torch.device_type[c->backend]) return OTHER;
    c->dtype = (smm_dtype)dtype;
    for (int i = 0; smm_is_tensor(kind[i]); i++)
        if (!strchr("AI", kind[i]) && !(kind[i] == 'B' && is_of_vectors(c->x, &c->x[i]))) measure(c, &c->x[i]);
    if (c->order < 1 || c->order > max_order_of(c) || !c->matrices) return LARGE;
    const intptr_t for_all = smm_fewest_for_all();
    const intptr_t least = c->backend == CPU ? smm_fewest(c->row, c->dtype, c->order)
                           : for_all         ? for_all
                                             : FEWEST_ON_DEVICE;
    if (c->matrices < least) return FEW;
    const outcome what = takes_options(c) ? c->op->take(c) : OTHER;
    return what == SERVED ? smm_move_results(c) : what;
}
