/* eigh_shared.cuh: eigh.cuh of the matrices of a call.
 *
 * Grid: one block per MATRICES matrices; LANES threads to a matrix.
 * Shared memory: of each matrix what `Work` names; none where a thread has it in registers.
 * Operands: any that args.h can describe. Of A one triangle is read. May overwrite A in place, matrix by matrix.
 * Limits: LANES a power of two, THREADS where it is more than a warp; MATRICES * LANES = THREADS. */
#include "common.cuh"
#define SMM_FEW (SMM_SHARED == 0 && !SMM_OUTSIDE)
#include "lanes.cuh"
#include "householder.cuh"
#include "element.cuh"
#include "operand_view.cuh"

constexpr int N = SMM_N, MATRICES = SMM_MATRICES, THREADS = SMM_THREADS;
constexpr bool VECTORS = SMM_OP == SMM_OP_EIGH, UPPER = SMM_FORM & 1;
#include "eigh.cuh"

static_assert(SMM_SHARED == (FEW || OUTSIDE ? 0 : MATRICES * sizeof(Work)), "the plan counts otherwise");
static_assert(static_cast<int>(SMM_EIGH_w) == static_cast<int>(SMM_EIGVALSH_w), "EIGVALSH has the w of EIGH");

extern "C" __global__ void __launch_bounds__(THREADS) SMM_NAME(const __grid_constant__ smm_cuda_args args) {
    with_work<Work, MATRICES>(args, [&](Work &x, long long q) {
        const OperandView<!UPPER, Stored> a(args, SMM_A, q);
        const OperandView<true> w(args, SMM_EIGH_w, q);
        const OperandView<false, Stored> v(args, VECTORS ? SMM_C : SMM_A, q);
        put_integer(args, SMM_INFO, q, eigh(x, a, w, v));
    });
}
