/* reference.c: the plain kernel of an operation. */
#include "reference.h"

void smm_reference_whole(const smm_call *call) {
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
    case SMM_OP_EIGVALS: smm_reference_eig(call); break;
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

void smm_reference(const smm_call *call) {
    if (smm_is_in_parts(call)) {
        smm_run_in_parts(call, &smm_reference_parts);
        return;
    }
    for (intptr_t r = 0; r < smm_runs(call); r++) {
        const smm_call one = smm_run_of(call, r);
        (smm_is_stored(one.dtype) ? smm_reference_stored : smm_reference_whole)(&one);
    }
}
