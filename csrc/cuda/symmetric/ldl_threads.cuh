/* ldl_threads.cuh: ldl.cuh of the matrices of a call.
 *
 * Grid: one block per MATRICES matrices; LANES threads to a matrix, of which the first works: the others are idle where
 * shared memory would not hold a matrix for each.
 * Shared memory: of each matrix N (N + 1) / 2 elements of the triangle, N of X unless of LDL, and N pivots, each beside
 * those of the other matrices.
 * Operands: any that args.h can describe. May overwrite A or B in place, matrix by matrix. */
#include "common.cuh"
#include "lanes.cuh"
#include "element.cuh"

constexpr int MATRICES = SMM_MATRICES, THREADS = SMM_THREADS, APART = MATRICES;
#include "ldl.cuh"

static_assert(SMM_SHARED == MATRICES * (ELEMENTS * sizeof(Element) + N * sizeof(int)), "the plan counts otherwise");

/* A matrix of an operand, by its strides. */
template <class X> struct Matrix {
    X *data;
    long long row, col;
    __device__ Matrix(const smm_cuda_args &args, int which, long long q)
        : data(static_cast<X *>(args.operand[which].data) + offset_of(args, args.operand[which], q)),
          row(args.operand[which].row), col(args.operand[which].col) {}
    __device__ X &at(int i, long long j) const { return data[i * row + j * col]; }
};

/* Operands that the operation lacks are some other. */
constexpr int PIVOTS = SMM_OP == SMM_OP_LDL         ? int(SMM_LDL_pivots)
                       : SMM_OP == SMM_OP_LDL_SOLVE ? int(SMM_LDL_SOLVE_pivots)
                                                    : int(SMM_A);

extern "C" __global__ void __launch_bounds__(THREADS) SMM_NAME(const __grid_constant__ smm_cuda_args args) {
    extern __shared__ __align__(16) T shared[];
    const long long q = static_cast<long long>(blockIdx.x) * MATRICES + threadIdx.x / LANES;
    if (q >= args.batch || lane()) return;
    Element *const elements = reinterpret_cast<Element *>(shared);
    const int own = threadIdx.x / LANES;
    const Own o = {elements + own, reinterpret_cast<int *>(elements + ELEMENTS * MATRICES) + own};
    const Matrix<const Stored> a(args, SMM_A, q), b(args, SOLVES ? SMM_B : SMM_A, q);
    const Matrix<Stored> to(args, SMM_C, q);
    const int info = ldl(o, a, Matrix<int>(args, PIVOTS, q), b, to, args.k);
    if (args.operand[SMM_INFO].data) *beside<int>(args, SMM_INFO, q, 1) = info;
}
