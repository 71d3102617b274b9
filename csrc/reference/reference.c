/* reference.c: the plain kernel of an operation. Of a type that is only stored, the operands are converted to numbers
 * of the type that it is computed in, dense, one matrix at a time, and the outputs back, rounded once. */
#include <stdlib.h>

#include "reference.h"

static void run_reference(const smm_call *call) {
    switch (call->op) {
    case SMM_OP_MATMUL: smm_reference_matmul(call); break;
    case SMM_OP_LU:
    case SMM_OP_LU_SOLVE:
    case SMM_OP_SOLVE:
    case SMM_OP_DET:
    case SMM_OP_SLOGDET: smm_reference_lu(call); break;
    case SMM_OP_INV: smm_reference_inv(call); break;
    case SMM_OP_CHOLESKY:
    case SMM_OP_CHO_SOLVE:
    case SMM_OP_SOLVE_POS:
    case SMM_OP_SOLVE_TRIANGULAR: smm_reference_cholesky(call); break;
    case SMM_OP_QR:
    case SMM_OP_QR_R:
    case SMM_OP_QR_RAW:
    case SMM_OP_LSTSQ: smm_reference_qr(call); break;
    case SMM_OP_EIGH:
    case SMM_OP_EIGVALSH: smm_reference_eigh(call); break;
    case SMM_OP_EIG:
    case SMM_OP_EIGVALS:
    case SMM_OP_SCHUR:
    case SMM_OP_SQRTM: smm_reference_eig(call); break;
    case SMM_OP_EXPM: smm_reference_expm(call); break;
    case SMM_OP_SVD:
    case SMM_OP_SVD_FULL:
    case SMM_OP_SVDVALS: smm_reference_svd(call); break;
    case SMM_OP_LDL:
    case SMM_OP_LDL_SOLVE:
    case SMM_OP_SOLVE_SYM: smm_reference_ldl(call); break;
    case SMM_OP_SOLVE_TRIDIAGONAL:
    case SMM_OP_SOLVE_BANDED:
    case SMM_OP_SOLVEH_BANDED: smm_reference_banded(call); break;
    case SMM_OP_LU_RCOND:
    case SMM_OP_BACKWARD_ERROR:
    case SMM_OP_REFINE: smm_reference_refinement(call); break;
    case SMM_OP_SOLVE_MIXED: smm_reference_mixed(call); break;
    case SMM_OPS: break;
    }
}

/* Operand i of matrix q to x, or back. */
static void copy(const smm_call *call, int i, intptr_t q, const smm_operand *x, bool back) {
    const smm_dtype stored = call->dtype, computed = smm_dtypes[stored].computed;
    intptr_t rows, cols;
    smm_sizes_of(call->op, i, call->m, call->n, call->k, &rows, &cols);
    for (intptr_t r = 0; r < rows; r++)
        for (intptr_t c = 0; c < cols; c++)
            if (back)
                put(&call->operand[i], stored, q, r, c, get(x, computed, 0, r, c));
            else
                put(x, computed, 0, r, c, get(&call->operand[i], stored, q, r, c));
}

static void converted(const smm_call *call, intptr_t q) {
    const smm_operation *operation = &smm_operations[call->op];
    smm_call one = *call;
    bool has_memory = true;
    one.batch = 1;
    one.dtype = smm_dtypes[call->dtype].computed;
    for (int i = 0; i < operation->count; i++) {
        const smm_operand *x = &call->operand[i];
        const intptr_t size = smm_size_of(call->op, one.dtype, i);
        intptr_t rows, cols;
        if (!x->data) continue;
        smm_sizes_of(call->op, i, call->m, call->n, call->k, &rows, &cols);
        if (!smm_is_converted(call->op, call->dtype, i)) {
            one.operand[i].data = (char *)x->data + q * x->batch;
            continue;
        }
        one.operand[i] = (smm_operand){malloc((size_t)(rows * cols * size + 1)), 0, cols * size, size};
        has_memory = has_memory && one.operand[i].data;
        if (has_memory) copy(call, i, q, &one.operand[i], false);
    }
    if (has_memory) run_reference(&one);
    for (int i = 0; i < operation->count; i++) {
        if (!call->operand[i].data || !smm_is_converted(call->op, call->dtype, i)) continue;
        if (operation->operand[i].direction & SMM_WRITTEN && has_memory) copy(call, i, q, &one.operand[i], true);
        free(one.operand[i].data);
    }
}

static void stored(const smm_call *call) {
    for (intptr_t q = 0; q < call->batch; q++) converted(call, q);
}

void smm_reference(const smm_call *call) {
    if (smm_is_in_parts(call)) {
        smm_run_in_parts(call, &smm_reference_parts);
        return;
    }
    for (intptr_t r = 0; r < smm_runs(call); r++) {
        const smm_call one = smm_run_of(call, r);
        (smm_is_stored(one.dtype) ? stored : run_reference)(&one);
    }
}
