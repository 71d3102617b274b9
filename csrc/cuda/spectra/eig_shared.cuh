/* eig_shared.cuh: eig.cuh of the matrices of a call.
 *
 * Grid: one block per MATRICES matrices; LANES threads to a matrix.
 * Shared memory: of each matrix what `Work` names; none where a thread has it to itself.
 * Operands: any that args.h can describe. Results are complex. */
#include "common.cuh"
#include "lanes.cuh"
#include "householder.cuh"
#include "element.cuh"
#include "place.cuh"

constexpr int N = SMM_N, MATRICES = SMM_MATRICES, THREADS = SMM_THREADS;
#include "eig.cuh"

extern "C" __global__ void __launch_bounds__(THREADS) SMM_NAME(const __grid_constant__ smm_cuda_args args) {
    with_work<Work, MATRICES>(args, [&](Work &x, long long q) {
        const Place<false, Stored> a(args, SMM_A, q);
        run(x, args, q, [&](int i, int j) { return a.get(i, j); });
    });
}
