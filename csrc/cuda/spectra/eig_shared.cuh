/* eig_shared.cuh: eig.cuh of the matrices of a call.
 *
 * Grid: one block per MATRICES matrices; where a matrix needs memory of the device, blocks stay for those that follow.
 * LANES threads to a matrix.
 * Shared memory: of each matrix, or if a thread has it to itself of all of a block, what `Work` names; none where it is
 * in registers. Workspace: Z, if it is ASIDE, or all of it, if it is OUTSIDE.
 * Operands: any that args.h can describe. Results are complex. */
#include "common.cuh"
#define SMM_SPREAD (SMM_LANES == 1 && SMM_N > 2 - SMM_COMPLEX && SMM_OP != SMM_OP_SQRTM)
#define SMM_FEW (SMM_LANES == 1 && SMM_N <= 4 && !SMM_SPREAD)
#include "lanes.cuh"
#include "householder.cuh"
#include "element.cuh"
#include "operand_view.cuh"

constexpr int N = SMM_N, MATRICES = SMM_MATRICES, THREADS = SMM_THREADS;
#include "eig.cuh"

extern "C" __global__ void __launch_bounds__(THREADS) SMM_NAME(const __grid_constant__ smm_cuda_args args) {
    const auto run_matrix = [&](Work &x, Element *z, long long q) {
        const OperandView<false, Stored> a(args, SMM_A, q);
        run(x, z, args, q, [&](int i, int j) { return a.get(i, j); });
    };
    if constexpr (SPREAD || ASIDE) {
        extern __shared__ __align__(16) T shared[];
        const long long first = static_cast<long long>(blockIdx.x) * MATRICES + threadIdx.x / LANES;
        Work &own = SPREAD ? *reinterpret_cast<Work *>(reinterpret_cast<Element *>(shared) + threadIdx.x)
                           : reinterpret_cast<WorkApart *>(shared)[threadIdx.x / LANES].x;
        Element *const z = SPREAD ? own.inner_z : static_cast<Element *>(args.workspace) + first * (N * N);
        for (long long q = first; q < args.batch; q += static_cast<long long>(gridDim.x) * MATRICES) {
            run_matrix(own, z, q);
            sync_lanes(); /* for those who still read what is their own */
        }
    } else {
        with_work<WorkApart, MATRICES>(args, [&](WorkApart &x, long long q) { run_matrix(x.x, x.x.inner_z, q); });
    }
}
