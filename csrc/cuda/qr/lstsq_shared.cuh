/* lstsq_shared.cuh: lstsq.cuh of the matrices of a call.
 *
 * Grid: one block per MATRICES matrices; LANES threads to a matrix.
 * Shared memory: of each matrix what `Work` names; none where a thread has few rows in registers.
 * Operands: any that args.h can describe. B and C are taken SMM_K columns at a time.
 * May overwrite B in place, matrix by matrix: as many columns are read as then are written.
 * Limits: LANES a power of two, THREADS where it is more than a warp; MATRICES * LANES = THREADS. */
#include "common.cuh"
#define SMM_FEW (SMM_SHARED == 0 && !SMM_OUTSIDE)
#include "lanes.cuh"
#include "householder.cuh"
#include "element.cuh"
#include "operand_view.cuh"

constexpr int M = SMM_M, N = SMM_N, K = max_of(SMM_K, 1), ROWS = M, MATRICES = SMM_MATRICES, THREADS = SMM_THREADS;
#include "lstsq.cuh"

static_assert(SMM_SHARED == (FEW || OUTSIDE ? 0 : MATRICES * sizeof(Work)), "the plan counts otherwise");

extern "C" __global__ void __launch_bounds__(THREADS) SMM_NAME(const __grid_constant__ smm_cuda_args args) {
    with_work<Work, MATRICES>(args, [&](Work &w, long long q) {
        const OperandView<false, Stored> a(args, SMM_A, q), b(args, SMM_B, q), x(args, SMM_C, q);
        const OperandView<true> norms(args, SMM_LSTSQ_residuals, q);
        const int rank = lstsq(w, a, b, factor_of(args, SMM_LSTSQ_rtol, q), args.k, x, norms);
        put_integer(args, SMM_LSTSQ_rank, q, rank);
        put_integer(args, SMM_INFO, q, 0);
    });
}
