/* eig_shared.cuh: eig.cuh of the matrices of a call.
 *
 * Grid: one block per MATRICES matrices; LANES threads to a matrix.
 * Shared memory: of each matrix, or if a thread has it to itself of all of a block, what `Work` names; none where it is
 * in registers.
 * Operands: any that args.h can describe. Results are complex. */
#include "common.cuh"
#define SMM_SPREAD (SMM_LANES == 1 && SMM_OP != SMM_OP_SQRTM)
#define SMM_FEW (SMM_LANES == 1 && SMM_N <= 4 && !SMM_SPREAD)
#include "lanes.cuh"
#include "householder.cuh"
#include "element.cuh"
#include "place.cuh"

constexpr int N = SMM_N, MATRICES = SMM_MATRICES, THREADS = SMM_THREADS;
#include "eig.cuh"

extern "C" __global__ void BOUNDS SMM_NAME(const __grid_constant__ smm_cuda_args args) {
    const auto run_matrix = [&](Work &x, long long q) {
        const Place<false, Stored> a(args, SMM_A, q);
        run(x, args, q, [&](int i, int j) { return a.get(i, j); });
    };
    if constexpr (SPREAD) {
        extern __shared__ __align__(16) T shared[];
        const long long q = static_cast<long long>(blockIdx.x) * MATRICES + threadIdx.x;
        if (q < args.batch) run_matrix(*reinterpret_cast<Work *>(reinterpret_cast<Element *>(shared) + threadIdx.x), q);
    } else {
        with_work<WorkApart, MATRICES>(args, [&](WorkApart &x, long long q) { run_matrix(x.x, q); });
    }
}
