/* sizes.c: the sizes for which a kernel is compiled: those of the matrices, or the class that they are of. */
#include "../core/core.h"
#include "cuda.h"

/* From the least order on tensor cores multiply doubles faster than the kernels of matrices that a block holds: 20,001
 * of order 56, 64 of f64 take 0.84, 0.72 of the time, c128 0.71, 0.53; f64 60 1.11 (H200, 2026-11-29). Complex products
 * are tiled, too, whose factors take more shared memory than the smaller devices have: 99 KB. */
bool smm_cuda_is_tiled(smm_dtype dtype, intptr_t m, intptr_t k, intptr_t n) {
    enum { MIN_F64 = 53, MIN_C128 = 49, MAX_C128 = (96 << 10) / 16 };
    const intptr_t smallest = min_of(m, min_of(k, n));
    if (m > SMM_CUDA_MAX || k > SMM_CUDA_MAX || n > SMM_CUDA_MAX) return true;
    return (dtype == SMM_F64 && smallest >= MIN_F64) ||
           (dtype == SMM_C128 && (smallest >= MIN_C128 || (m + n) * k > MAX_C128));
}

bool smm_cuda_is_of_diagonals(smm_op op) { return smm_operations[op].operand[0].direction & SMM_LONG; }

/* The size that stands for others up to it: it has four digits in base 2. */
static int class_of(intptr_t size) {
    intptr_t unit = 1;
    while (size > 16 * unit) unit *= 2;
    return (int)(size > SMM_CUDA_LARGEST ? SMM_CUDA_LARGEST : smm_pieces(size, unit) * unit);
}

/* Classes of matrices of diagonals. */
static void set_diagonals(smm_cuda_problem *p, intptr_t m, intptr_t k, intptr_t n) {
    enum { MIN = 4 };
    p->n = MIN;
    while (p->n < n && p->n < SMM_CUDA_ORDERS) p->n *= 2;
    const bool in_parts = smm_is_in_parts(&(smm_call){.op = p->op, .form = p->form, .dtype = p->dtype, .n = n});
    if (in_parts) p->n = SMM_MIN_IN_PARTS;
    p->k = in_parts ? 1 : k;
    p->m = p->op == SMM_OP_SOLVE_TRIDIAGONAL ? 3 : min_of(m, SMM_CUDA_DIAGONALS);
    p->lower = p->op == SMM_OP_SOLVE_TRIDIAGONAL ? 1 : p->lower;
    p->aligned = 0;
    p->source_a = p->source_b = p->source_c = p->source_rest = SMM_SOURCE_STRIDED;
    p->order_a = p->order_b = p->order_c = SMM_ORDER_ROW;
}

/* Whether tensor cores are faster, where a call asks for them: not for few rows or columns, nor for matrices of which
 * the memory takes longer than products. Of 100,000 matrices of order 16 they take 1.5 times as long as other
 * kernels, of order 32 0.88 times (one H200, 2026-11-26). */
static bool are_for_tensor_cores(smm_dtype dtype, intptr_t m, intptr_t k, intptr_t n) {
    enum { FEW = 4, SMALL = 32 };
    const bool small = m < SMALL || k < SMALL || n < SMALL;
    return smm_is_stored(dtype) && m >= FEW && n >= FEW && (!small || smm_cuda_is_tiled(dtype, m, k, n));
}

void smm_cuda_set_sizes(smm_cuda_problem *p, intptr_t m, intptr_t k, intptr_t n) {
    if (smm_cuda_is_of_diagonals(p->op)) {
        set_diagonals(p, m, k, n);
        return;
    }
    if (p->op == SMM_OP_LU) k = m < n ? m : n; /* its pivots */
    const bool images = p->source_b == SMM_SOURCE_IMAGES;
    if (p->op == SMM_OP_MATMUL && !are_for_tensor_cores(p->dtype, m, k, n)) p->form &= ~SMM_TENSOR;
    p->tiled = p->op == SMM_OP_MATMUL && (images || smm_cuda_is_tiled(p->dtype, m, k, n) || p->form & SMM_TENSOR);
    p->m = p->tiled ? class_of(m) : m;
    p->k = p->tiled ? class_of(k) : k;
    p->n = p->tiled ? class_of(n) : n;
    if (!p->tiled) return;
    p->small = p->aligned = p->in_place = 0;
    p->source_a = p->source_c = SMM_SOURCE_STRIDED;
    if (!images) p->source_b = SMM_SOURCE_STRIDED;
    p->order_c = SMM_ORDER_ROW;
}
