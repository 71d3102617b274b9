/* qr_shared.cuh: qr.cuh of the matrices of a call.
 *
 * Grid: one block per MATRICES matrices; LANES threads to a matrix.
 * Shared memory: of each matrix what `Work` names.
 * Operands: any that args.h can describe.
 * May overwrite A in place, matrix by matrix: a block has read all it needs before it writes.
 * Limits: LANES a power of two, THREADS where it is more than a warp; MATRICES * LANES = THREADS. */
#include "common.cuh"
#include "lanes.cuh"
#include "householder.cuh"
#include "element.cuh"
#include "operand_view.cuh"

constexpr int M = SMM_M, N = SMM_N, K = SMM_K, MATRICES = SMM_MATRICES, THREADS = SMM_THREADS;
#include "qr.cuh"

static_assert(SMM_SHARED == (OUTSIDE ? 0 : MATRICES * sizeof(Work)), "the plan counts otherwise");

extern "C" __global__ void __launch_bounds__(THREADS) SMM_NAME(const __grid_constant__ smm_cuda_args args) {
    constexpr int BESIDE = SMM_OP == SMM_OP_QR_RAW ? SMM_QR_RAW_tau : SMM_OP == SMM_OP_QR ? SMM_QR_r : SMM_QR_R_r;
    with_work<Work, MATRICES, true>(args, [&](Work &x, long long q) {
        const OperandView<false, Stored> a(args, SMM_A, q), c(args, SMM_OP == SMM_OP_QR_R ? SMM_A : SMM_C, q);
        const OperandView<false, Stored> beside(args, BESIDE, q);
        if constexpr (SMM_OP == SMM_OP_QR_RAW)
            qr_raw(x, a, c, beside);
        else if constexpr (SMM_OP == SMM_OP_QR)
            qr(x, a, c, beside);
        else
            qr_r(x, a, beside);
        put_integer(args, SMM_INFO, q, 0);
    });
}
