/* matmul_direct.cuh: C (M x N) = alpha A (M x K) B (K x N) + beta C, straight from global memory.
 *
 * Grid: one block per MATRICES matrices; THREADS threads, TILES of them to a matrix, each with a tile of C, which it
 * reads A and B for by vectors; what several threads read, L1 holds. No shared memory.
 * Operands: A and B flat or one for all, C flat by rows, all aligned. C must not overlap A or B.
 * Limits: worth it while a matrix is a few cache lines. */
#include "common.cuh"
#include "matmul_elements.cuh"
#include "matmul_tile.cuh"

constexpr int THREADS = SMM_THREADS, MATRICES = SMM_MATRICES;
static_assert(SMM_SHARED == 0, "the plan counts otherwise");
constexpr int LENGTH_A = A_BY_ROWS ? K : M, LENGTH_B = B_BY_ROWS ? N : K;
typedef Tile<widest_stored_of(LENGTH_A), LENGTH_A, widest_stored_of(LENGTH_B), LENGTH_B, widest_stored_of(N)> TileC;

extern "C" __global__ void __launch_bounds__(THREADS) SMM_NAME(const __grid_constant__ smm_cuda_args args) {
    const long long first = static_cast<long long>(blockIdx.x) * MATRICES, q = first + threadIdx.x / TILES;
    if (threadIdx.x < 32) {
        fetch_ahead<SMM_SOURCE_A, MATRICES, M * K>(args, args.operand[SMM_A], first);
        fetch_ahead<SMM_SOURCE_B, MATRICES, K * N>(args, args.operand[SMM_B], first);
    }
    if (threadIdx.x >= MATRICES * TILES || q >= args.batch) return;
    TileC tile;
    tile.row_tile = threadIdx.x % TILES / COL_TILES;
    tile.col_tile = threadIdx.x % COL_TILES;
    Stored *c = static_cast<Stored *>(args.operand[SMM_C].data) + q * (M * N);
    tile.multiply(
        static_cast<const Stored *>(args.operand[SMM_A].data) + (SMM_SOURCE_A == SMM_SOURCE_ONE ? 0 : q * (M * K)),
        static_cast<const Stored *>(args.operand[SMM_B].data) + (SMM_SOURCE_B == SMM_SOURCE_ONE ? 0 : q * (K * N)));
    if (SMM_SCALED) tile.scale(args, q, c, N, 1);
    tile.write(c, N);
}
