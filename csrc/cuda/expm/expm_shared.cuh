/* expm_shared.cuh: expm.cuh of the matrices of a call.
 *
 * Grid: one block per MATRICES matrices; LANES threads to a matrix. OUTSIDE, blocks stay for the matrices that follow.
 * Shared memory: of each matrix what `Work` names; OUTSIDE, that lies in the workspace.
 * Operands: any that args.h can describe. May overwrite A in place, matrix by matrix.
 * Limits: LANES a power of two, above 32 of matrices above order 32; MATRICES * LANES = THREADS. */
#include "common.cuh"
#include "functions.cuh"
#include "lanes.cuh"
#include "householder.cuh"
#include "element.cuh"
#include "operand_view.cuh"
#include "expm.cuh"

constexpr int MATRICES = SMM_MATRICES, THREADS = SMM_THREADS;

static_assert(SMM_SHARED == (OUTSIDE ? 0 : MATRICES * sizeof(Work)), "the plan counts otherwise");

extern "C" __global__ void __launch_bounds__(THREADS) SMM_NAME(const __grid_constant__ smm_cuda_args args) {
    with_work<Work, MATRICES, true>(args, [&](Work &w, long long q) {
        expm(w, OperandView<false, Stored>(args, SMM_A, q), OperandView<false, Stored>(args, SMM_C, q));
    });
}
