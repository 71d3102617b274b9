/* svd_shared.cuh: svd.cuh of the matrices of a call.
 *
 * Grid: one block per MATRICES matrices; LANES threads to a matrix.
 * Shared memory: of each matrix what `Work` names; none where a thread has it in registers.
 * Operands: any that args.h can describe; A that is wider than tall is transposed, without being
 * conjugated: A^T = U' S V'^H is A = conj(V') S U'^T. May overwrite A in place, matrix by
 * matrix: all of a matrix is read before anything of it is written.
 * Limits: LANES a power of two, THREADS where it is more than a warp; MATRICES * LANES = THREADS. */
#define SMM_FEW (SMM_SHARED == 0 && !SMM_OUTSIDE)
#include "common.cuh"
#include "lanes.cuh"
#include "householder.cuh"
#include "element.cuh"
#include "operand_view.cuh"

constexpr bool VECTORS = SMM_OP != SMM_OP_SVDVALS, FULL = SMM_OP == SMM_OP_SVD_FULL;
constexpr int MATRICES = SMM_MATRICES, THREADS = SMM_THREADS;
#include "svd.cuh"

static_assert(SMM_SHARED == (FEW || OUTSIDE ? 0 : MATRICES * sizeof(Work)), "the plan counts otherwise");

/* Large blocks leave each other room: else the compiler takes registers for one alone. */
extern "C" __global__ void __launch_bounds__(THREADS, THREADS == 256 ? 2 : 1)
    SMM_NAME(const __grid_constant__ smm_cuda_args args) {
    constexpr int S = VECTORS ? int(SMM_SVD_s) : int(SMM_SVDVALS_s);
    constexpr int LARGE = WIDE ? SMM_SVD_vt : SMM_SVD_u, SMALL = WIDE ? SMM_SVD_u : SMM_SVD_vt;
    with_work<Work, MATRICES>(args, [&](Work &w, long long q) {
        const OperandView<WIDE, Stored> a(args, SMM_A, q), large(args, VECTORS ? LARGE : SMM_A, q);
        const OperandView<!WIDE, Stored> small(args, VECTORS ? SMALL : SMM_A, q);
        const OperandView<true> s(args, S, q);
        put_integer(args, SMM_INFO, q, svd(w, a, s, large, small));
    });
}
