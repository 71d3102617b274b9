/* describe.c: a call, or a convolution, as a problem, for which a kernel is planned, and as the arguments of that. */
#include <complex.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../core/core.h"
#include "launch.h"

bool smm_cuda_takes(smm_op op, smm_dtype dtype, intptr_t m, intptr_t k, intptr_t n) {
    const int most = smm_cuda_max_order(op, dtype);
    if (!most) return false;
    if (smm_cuda_is_of_diagonals(op)) return n > 0 && n <= SMM_LONGEST && (m > 0 || op == SMM_OP_SOLVE_TRIDIAGONAL);
    (void)k; /* products have kernels for any */
    if (op == SMM_OP_MATMUL) return true;
    return m > 0 && n > 0 && smm_cuda_fits_order(m, n, most);
}

_Static_assert((int)SMM_ABSENT == (int)SMM_MAX_OPERANDS, "the place after all operands");

/* A number as an operand of its type holds it. float16 is rounded once, not twice by way of float32: what float32 cuts
 * off leaves its mark in the last bit, which float16 does not have. */
static double as_stored(double x, smm_dtype dtype) {
    float near = (float)x;
    if (dtype == SMM_F16 && isfinite(near) && (double)near != x)
        near = smm_of_bits((smm_bits_of(near) - (fabs((double)near) > fabs(x))) | 1);
    double _Complex stored; /* room for a number of any type */
    smm_put(&stored, dtype, near);
    return smm_get(&stored, dtype);
}

/* Operands in the form that a kernel takes: strides in elements, and batch dimensions, innermost first. */
static void describe_operands(const smm_call *call, const double _Complex number[], smm_cuda_args *args) {
    const smm_outer *outer = call->outer;
    const int own = call->batch != 1, dims = own + (outer ? outer->dims : 0);
    memset(args, 0, sizeof *args);
    for (int i = 0; i < smm_operations[call->op].count; i++) {
        const smm_operand *from = &call->operand[i];
        const intptr_t size = smm_size_of(call->op, call->dtype, i);
        smm_cuda_operand *to = &args->operand[i];
        *to = (smm_cuda_operand){.data = from->data, .row = from->row / size, .col = from->col / size};
        to->batch[0] = from->batch / size;
        for (int d = own; d < dims; d++) to->batch[d] = outer->stride[d - own][i] / size;
        const bool rounded = smm_is_stored(call->dtype) && smm_operations[call->op].operand[i].element != SMM_INT32;
        args->number[i] = rounded ? as_stored(creal(number[i]), call->dtype) : creal(number[i]);
        args->imaginary[i] = cimag(number[i]);
    }
    args->extent[0] = call->batch;
    for (int d = own; d < dims; d++) args->extent[d] = outer->extent[d - own];
    args->dims = dims;
    args->batch = call->batch * smm_runs(call);
    args->k = call->k;
    args->m = call->m;
    args->n = call->n;
}

static bool is_row_major(const smm_cuda_operand *x, intptr_t rows, intptr_t cols) {
    return (cols <= 1 || x->col == 1) && (rows <= 1 || x->row == cols);
}
static bool is_column_major(const smm_cuda_operand *x, intptr_t rows, intptr_t cols) {
    return (rows <= 1 || x->row == 1) && (cols <= 1 || x->col == rows);
}

static uint8_t order_of(const smm_cuda_operand *x, intptr_t rows, intptr_t cols) {
    if (is_row_major(x, rows, cols)) return SMM_ORDER_ROW;
    if (is_column_major(x, rows, cols)) return SMM_ORDER_COL;
    return cols > 1 && (rows <= 1 || llabs(x->col) <= llabs(x->row)) ? SMM_ORDER_ROW : SMM_ORDER_COL;
}

static uint8_t source_of(const smm_cuda_operand *x, const smm_cuda_args *args, intptr_t rows, intptr_t cols) {
    if (!is_row_major(x, rows, cols) && !is_column_major(x, rows, cols)) return SMM_SOURCE_STRIDED;
    if (args->dims == 0 || (args->dims == 1 && x->batch[0] == (long long)rows * cols)) return SMM_SOURCE_FLAT;
    for (int d = 0; d < args->dims; d++)
        if (x->batch[d]) return SMM_SOURCE_STRIDED;
    return SMM_SOURCE_ONE;
}

static smm_cuda_operand transposed(smm_cuda_operand x) {
    const long long row = x.row;
    x.row = x.col;
    x.col = row;
    return x;
}

/* Real matrices that are symmetric have no form of their own. An upper triangle is the lower one of the transpose; but
 * that of complex Cholesky factors is to be conjugated, too. A product whose C is column-major is C^T = B^T A^T: then
 * this returns true. The kernel of any size does not tell the factors of complex products apart. */
static bool normalise(smm_call *c, smm_cuda_operand x[]) {
    if (!smm_is_complex(c->dtype)) c->form &= ~SMM_SYMMETRIC;
    const bool from_factor = c->op == SMM_OP_CHO_SOLVE || c->op == SMM_OP_SOLVE_POS;
    if (c->form & SMM_UPPER && (c->op == SMM_OP_CHOLESKY || (from_factor && !smm_is_complex(c->dtype)))) {
        x[SMM_A] = transposed(x[SMM_A]);
        if (c->op == SMM_OP_CHOLESKY) x[SMM_CHOLESKY_l] = transposed(x[SMM_CHOLESKY_l]);
        c->form &= ~SMM_UPPER;
    }
    if (c->op != SMM_OP_MATMUL || order_of(&x[SMM_MATMUL_c], c->m, c->n) == SMM_ORDER_ROW ||
        (smm_is_complex(c->dtype) && smm_cuda_is_tiled(c->dtype, c->m, c->k, c->n)))
        return false;
    const smm_cuda_operand a = x[SMM_A];
    const intptr_t m = c->m;
    x[SMM_A] = transposed(x[SMM_MATMUL_b]);
    x[SMM_MATMUL_b] = transposed(a);
    x[SMM_MATMUL_c] = transposed(x[SMM_MATMUL_c]);
    c->m = c->n;
    c->n = m;
    return true;
}

/* What the kernel of a tiled product reads of its sizes, and its plan. */
static void take_sizes(smm_cuda_problem *p, smm_cuda_args *args, intptr_t m, intptr_t k, intptr_t n) {
    smm_cuda_set_sizes(p, m, k, n);
    if (!p->tiled) return;
    while ((args->batch - 1) >> p->load) p->load++;
    args->tiles.m = m;
    args->tiles.n = n;
}

bool smm_cuda_may_write(const smm_call *call) {
    const bool tiled = call->op == SMM_OP_MATMUL && smm_cuda_is_tiled(call->dtype, call->m, call->k, call->n);
    const smm_overlap overlap = smm_overlap_of(call);
    return overlap == SMM_APART || (overlap == SMM_IN_PLACE && !tiled); /* whose blocks read what others write */
}

/* Diagonals below the main one, if they are as many in each matrix of a call. */
static uint8_t lower_of(const smm_call *c, const double _Complex number[]) {
    if (c->op != SMM_OP_SOLVE_BANDED) return 0;
    const double lower = creal(number[SMM_SOLVE_BANDED_lower]);
    return c->solve_banded.lower.data || !(lower >= 0 && lower < SMM_CUDA_DIAGONALS) ? SMM_CUDA_DIAGONALS
                                                                                     : (uint8_t)lower;
}

bool smm_cuda_describe(const smm_call *call, const double _Complex number[], smm_cuda_problem *p, smm_cuda_args *args,
                       bool *swapped) {
    enum { FEW = 4096 };
    if (!smm_cuda_takes(call->op, call->dtype, call->m, call->k, call->n)) return false;
    if (call->outer && call->outer->dims >= SMM_CUDA_DIMS) return false; /* and the batch */
    smm_call c = *call;
    smm_cuda_operand *const x = args->operand;
    describe_operands(call, number, args);
    *swapped = normalise(&c, x);

    const smm_roles *roles = &smm_roles_of[c.op];
    const bool product = c.op == SMM_OP_MATMUL, solve = !product && roles->b >= 0;
    const bool in_parts = solve && c.k > SMM_CUDA_COLUMNS;
    memset(p, 0, sizeof *p);
    p->op = c.op;
    p->form = c.form;
    p->dtype = c.dtype;
    p->scaled = product && (x[SMM_MATMUL_alpha].data || x[SMM_MATMUL_beta].data || number[SMM_MATMUL_alpha] != 1 ||
                            number[SMM_MATMUL_beta] != 0);
    p->small = args->batch <= FEW;
    p->lower = lower_of(&c, number);
    uintptr_t bits = 0;
    for (int i = 0; i < smm_operations[c.op].count; i++) {
        const smm_operand_row *row = &smm_operations[c.op].operand[i];
        intptr_t rows, cols;
        smm_sizes_of(c.op, i, c.m, c.n, c.k, &rows, &cols);
        if (!x[i].data || row->direction == SMM_OPTIONAL_IN) continue;
        const uint8_t order = order_of(&x[i], rows, cols);
        uint8_t source = source_of(&x[i], args, rows, cols);
        if (row->direction & SMM_WRITTEN && source == SMM_SOURCE_ONE) source = SMM_SOURCE_STRIDED;
        if (in_parts && (i == roles->b || i == roles->result)) source = SMM_SOURCE_STRIDED;
        if (row->element != SMM_INT32 && source != SMM_SOURCE_STRIDED) bits |= (uintptr_t)x[i].data;
        if (i == SMM_A)
            p->source_a = source, p->order_a = order;
        else if (i == roles->b)
            p->source_b = source, p->order_b = order;
        else if (i == roles->result)
            p->source_c = source, p->order_c = order;
        else if (source != SMM_SOURCE_FLAT || order != SMM_ORDER_ROW)
            p->source_rest = SMM_SOURCE_STRIDED;
    }
    /* Complex products depend on the order of the factors, which kernels must know. */
    if (*swapped && smm_is_complex(c.dtype)) p->order_c = SMM_ORDER_COL;
    p->aligned = bits % 16 == 0;
    take_sizes(p, args, c.m, in_parts ? SMM_CUDA_COLUMNS : c.k, c.n);
    return true;
}

/* Outputs are numbered so that neighbours are neighbours in the images. */
bool smm_cuda_describe_convolution(const smm_convolution *x, smm_cuda_problem *p, smm_cuda_args *args) {
    enum { MAX = SMM_CUDA_PIXELS };
    const intptr_t size = smm_size(x->dtype);
    const smm_axis *axes[2] = {&x->rows, &x->columns};
    const intptr_t strides[2] = {x->x_stride.row, x->x_stride.column}, to[2] = {x->y_stride.row, x->y_stride.column};
    memset(p, 0, sizeof *p);
    memset(args, 0, sizeof *args);
    smm_cuda_images *const images = &args->images;
    images->channel = x->x_stride.channel / size;
    images->row = strides[0] / size;
    images->column = strides[1] / size;
    int order[3] = {1, 0, 2}; /* columns, rows, images */
    if (x->images > 1 && llabs(x->x_stride.image) < llabs(strides[1])) order[0] = 2, order[1] = 1, order[2] = 0;
    intptr_t pixels = x->images;
    for (int i = 0; i < 2; i++) {
        const smm_axis *axis = axes[i];
        if (axis->inputs > MAX || axis->before > MAX || axis->outputs > MAX || axis->stride > MAX ||
            axis->kernel > MAX || axis->dilation > MAX || (axis->outputs && pixels > MAX / axis->outputs))
            return false;
        pixels *= axis->outputs;
        images->kernel[i] = (int)axis->kernel;
        images->dilation[i] = (int)axis->dilation;
        images->inputs[i] = (int)axis->inputs;
        images->first[i] = (int)-axis->before;
    }
    for (int d = 0; d < 3; d++) {
        const int i = order[d];
        images->digit[d].extent = (int)(i == 2 ? x->images : axes[i]->outputs);
        if (i < 2) images->digit[d].step[i] = (int)axes[i]->stride;
        images->digit[d].x = i == 2 ? x->x_stride.image / size : 0;
        images->digit[d].y = (i == 2 ? x->y_stride.image : to[i]) / size;
    }
    smm_cuda_operand *const w = &args->operand[SMM_A], *const from = &args->operand[SMM_MATMUL_b],
                            *const y = &args->operand[SMM_MATMUL_c];
    *w = (smm_cuda_operand){(void *)(uintptr_t)x->w, x->w_stride.filter / size, x->w_stride.term / size, {0}};
    *from = (smm_cuda_operand){(void *)(uintptr_t)x->x, 0, 0, {0}};
    *y = (smm_cuda_operand){x->y, x->y_stride.channel / size, 0, {0}};
    const int dims = 1 + (x->batch ? x->batch->dims : 0);
    if (dims > SMM_CUDA_DIMS) return false;
    args->batch = 1;
    for (int d = 0; d < dims; d++) { /* the groups, then the batch */
        args->extent[d] = d ? x->batch->extent[d - 1] : x->groups;
        from->batch[d] = (d ? x->batch->stride[d - 1][0] : x->x_stride.group) / size;
        w->batch[d] = (d ? x->batch->stride[d - 1][1] : x->w_stride.group) / size;
        y->batch[d] = (d ? x->batch->stride[d - 1][2] : x->y_stride.group) / size;
        args->batch *= args->extent[d];
    }
    args->dims = dims;
    args->k = x->channels * x->rows.kernel * x->columns.kernel;
    p->op = SMM_OP_MATMUL;
    p->dtype = x->dtype;
    p->source_b = SMM_SOURCE_IMAGES;
    p->order_a = order_of(w, x->filters, args->k);
    p->order_b = args->k == x->channels && llabs(images->channel) < llabs(images->digit[0].step[1] * images->column)
                     ? SMM_ORDER_COL
                     : SMM_ORDER_ROW;
    take_sizes(p, args, x->filters, args->k, pixels);
    return true;
}
