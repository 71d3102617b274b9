/* ldl_lanes.cuh: ldl.cuh of the matrices of a call.
 *
 * Grid: one block per MATRICES matrices; LANES threads to a matrix. Where these lie OUTSIDE, as many blocks as fit.
 * Shared memory: of each matrix what `Work` names.
 * Operands: any that args.h can describe. May overwrite A or B in place, matrix by matrix.
 * Limits: LANES a power of two; MATRICES * LANES = THREADS; the shared memory of a block. */
#include "common.cuh"
#include "lanes.cuh"
#include "householder.cuh"
#include "element.cuh"
#include "operand_view.cuh"
#include "view.cuh"
#include "ldl.cuh"

constexpr int MATRICES = SMM_MATRICES, THREADS = SMM_THREADS;

static_assert(SMM_SHARED == (OUTSIDE ? 0 : MATRICES * sizeof(Work)), "the plan counts otherwise");

/* Operands that the operation lacks are some other. */
constexpr int PIVOTS = SMM_OP == SMM_OP_LDL         ? int(SMM_LDL_pivots)
                       : SMM_OP == SMM_OP_LDL_SOLVE ? int(SMM_LDL_SOLVE_pivots)
                                                    : int(SMM_A);

extern "C" __global__ void __launch_bounds__(THREADS) SMM_NAME(const __grid_constant__ smm_cuda_args args) {
    with_work<Work, MATRICES, true>(args, [&](Work &work, long long q) {
        const View<const Stored> a(args, SMM_A, q), b(args, SOLVES ? SMM_B : SMM_A, q);
        const View<Stored> to(args, SMM_C, q);
        put_integer(args, SMM_INFO, q, ldl(work, a, View<int>(args, PIVOTS, q), b, to, args.k));
    });
}
