/* matmul_staged.cuh: C (M x N) = alpha A (M x K) B (K x N) + beta C, through shared memory.
 *
 * Grid: one block per MATRICES matrices; THREADS threads, TILES of them to a matrix, each with a tile of C.
 * Shared memory: the images of A and B, later that of C in their place; the offsets of matrices with arbitrary strides.
 * Operands: any that args.h can describe; C by rows (a C by columns is computed as C^T = B^T A^T).
 * May overwrite A or B in place, matrix by matrix: a block has read all it needs before it writes.
 * Limits: the shared memory of a block; tiles of up to 256 bytes, which stay in registers. */
#include "common.cuh"
#include "matmul_elements.cuh"
#include "shared_tile.cuh"
#include "matmul_tile.cuh"

constexpr int THREADS = SMM_THREADS, MATRICES = SMM_MATRICES;
typedef SharedTile<A_BY_ROWS ? M : K, A_BY_ROWS ? K : M, SMM_SOURCE_A, MATRICES, SMM_PAD> ImageA;
typedef SharedTile<B_BY_ROWS ? K : N, B_BY_ROWS ? N : K, SMM_SOURCE_B, MATRICES, SMM_PAD> ImageB;
typedef SharedTile<M, N, SMM_SOURCE_C, MATRICES, SMM_PAD> ImageC;
static_assert(SMM_SHARED == max_of(ImageA::ELEMENTS + ImageB::ELEMENTS, ImageC::ELEMENTS) * sizeof(Element),
              "the plan counts otherwise");
typedef Tile<ImageA::WIDTH, ImageA::PITCH, ImageB::WIDTH, ImageB::PITCH, ImageC::WIDTH> TileC;
constexpr bool STRIDED =
    SMM_SOURCE_A == SMM_SOURCE_STRIDED || SMM_SOURCE_B == SMM_SOURCE_STRIDED || SMM_SOURCE_C == SMM_SOURCE_STRIDED;

extern "C" __global__ void BOUNDS SMM_NAME(const __grid_constant__ smm_cuda_args args) {
    extern __shared__ __align__(16) Element shared[];
    __shared__ long long where[3][STRIDED ? MATRICES : 1];
    const smm_cuda_operand &a = args.operand[SMM_A], &b = args.operand[SMM_B], &c = args.operand[SMM_C];
    const long long first = static_cast<long long>(blockIdx.x) * MATRICES;
    const int count = static_cast<int>(args.batch - first < MATRICES ? args.batch - first : MATRICES);

    if (STRIDED) {
        for (int q = threadIdx.x; q < count; q += THREADS)
            for (int x = 0; x < 3; x++) where[x][q] = offset_of(args, args.operand[operand_of_abc(x)], first + q);
        __syncthreads();
    }
    Element *image_a = shared, *image_b = shared + ImageA::ELEMENTS;
    image_a += stage<ImageA, THREADS, SMM_ASYNC>(image_a, a, first, count, where[0], A_BY_ROWS ? a.row : a.col,
                                                 A_BY_ROWS ? a.col : a.row);
    image_b += stage<ImageB, THREADS, SMM_ASYNC>(image_b, b, first, count, where[1], B_BY_ROWS ? b.row : b.col,
                                                 B_BY_ROWS ? b.col : b.row);
    copies_done();
    __syncthreads();

    const int q = threadIdx.x / TILES;
    TileC tile;
    tile.row_tile = threadIdx.x % TILES / COL_TILES;
    tile.col_tile = threadIdx.x % COL_TILES;
    if (q < count) {
        tile.multiply(image_a + (SMM_SOURCE_A == SMM_SOURCE_ONE ? 0 : q * ImageA::MATRIX),
                      image_b + (SMM_SOURCE_B == SMM_SOURCE_ONE ? 0 : q * ImageB::MATRIX));
        if (SMM_SCALED) {
            const bool is_strided = SMM_SOURCE_C == SMM_SOURCE_STRIDED;
            tile.scale(args, first + q,
                       static_cast<const Stored *>(c.data) + (is_strided ? where[2][q] : (first + q) * (M * N)),
                       is_strided ? c.row : N, is_strided ? c.col : 1);
        }
    }
    if (SMM_THROUGH_SHARED) {
        Element *image_c = shared;
        if (SMM_SOURCE_C == SMM_SOURCE_FLAT)
            image_c += ImageC::shift_of(static_cast<const Stored *>(c.data) + first * (M * N));
        __syncthreads();
        if (q < count) tile.write(image_c + q * ImageC::MATRIX, ImageC::PITCH);
        __syncthreads();
        unstage<ImageC, THREADS>(SMM_SOURCE_C == SMM_SOURCE_FLAT ? shared : image_c, c, first, count, where[2]);
    } else if (q < count)
        tile.write(static_cast<Stored *>(c.data) + (first + q) * (M * N), N);
}
