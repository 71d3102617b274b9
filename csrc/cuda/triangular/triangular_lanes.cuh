/* triangular_lanes.cuh: X of A X = B by substitution: A triangular (SOLVE_TRIANGULAR), A = L L^T (CHO_SOLVE, a is L),
 * or P A = L U (LU_SOLVE, a and the pivots are what LU gave; of A^T in the form TRANSPOSED).
 *
 * As the reference: once x_j is known, every row below (or above) takes its product with it. A stays in shared memory.
 * The rows of a single right-hand side are spread over the lanes; of several, each lane has OWN to itself, and all
 * lanes of a matrix read the same elements of A.
 *
 * Grid: one block per MATRICES matrices; LANES threads to a matrix.
 * Shared memory: the image of A. Of several right-hand sides, their image, if they lie flat, and the reciprocals of the
 * diagonal. Of LU_SOLVE, N numbers to a matrix: the right-hand side, whose rows change places, or where they come from.
 * Operands: any that args.h can describe.
 * May overwrite A or B in place, matrix by matrix. */
#include "common.cuh"
#include "lanes.cuh"
#include "element.cuh"
#include "element_vectors.cuh"
#include "shared_tile.cuh"

constexpr int N = SMM_N, K = SMM_K, MATRICES = SMM_MATRICES, THREADS = SMM_THREADS;
constexpr int ROWS = ceil_div(N, LANES);
#include "exchanges.cuh"
#include "rhs.cuh"

constexpr bool UNIT = SMM_FORM & 2, TRANSPOSED = SMM_FORM & 4, BY_LU = SMM_OP == SMM_OP_LU_SOLVE;
constexpr bool UPPER = SMM_OP == SMM_OP_SOLVE_TRIANGULAR && SMM_FORM & 1;
typedef SharedTile<N, N, SMM_SOURCE_A, MATRICES, SMM_PAD, SEVERAL> ImageA;
constexpr int RECIPROCALS = SEVERAL ? MATRICES * N : 0;
static_assert(SMM_SHARED == (ImageA::ELEMENTS + RHS + RECIPROCALS) * sizeof(T) +
                                (BY_LU ? MATRICES * N * (SEVERAL ? sizeof(int) : sizeof(T)) : 0),
              "the plan counts otherwise");

/* a_ij of a matrix in its image. */
__device__ inline T element(const T *a, int i, int j) {
    return SMM_ORDER_A == SMM_ORDER_ROW ? a[i * ImageA::PITCH + j] : a[j * ImageA::PITCH + i];
}

/* x = T^-1 x, T the lower or upper triangle of A, or of A^T. */
template <bool LOWER, bool OF_TRANSPOSE, bool HAS_UNIT_DIAGONAL>
__device__ inline void substitute(const T *a, const Divisor *diagonal, T (&x)[ROWS]) {
#pragma unroll
    for (int step = 0; step < N; step++) {
        const int j = LOWER ? step : N - 1 - step, owner = j / LANES;
        if (!HAS_UNIT_DIAGONAL && lane() == j % LANES) x[owner] = diagonal[owner].divide(x[owner]);
        const T y = from_lane(x[owner], j % LANES);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            if (LOWER ? r < owner : r > owner) continue;
            const int i = row_of(r);
            if (LOWER ? i <= j || i >= N : i >= j) continue;
            x[r] = multiply_add(-(OF_TRANSPOSE ? element(a, j, i) : element(a, i, j)), y, x[r]);
        }
    }
}

/* The first zero of the diagonal, from 1; or 0. */
__device__ inline int first_zero(const T *a) {
    int first = N + 1;
#pragma unroll
    for (int r = ROWS - 1; r >= 0; r--)
        if (row_of(r) < N && element(a, row_of(r), row_of(r)) == 0) first = row_of(r) + 1;
    return first_of(first);
}

/* A single right-hand side, spread over the lanes. */
__device__ inline void solve_one(const T *a, const Divisor *diagonal, const int (&position)[ROWS], T *places,
                                 T (&x)[ROWS]) {
    if (BY_LU) {
        if (!TRANSPOSED) exchange(places, position, false, x);
        substitute<true, TRANSPOSED, !TRANSPOSED>(a, diagonal, x);
        substitute<false, TRANSPOSED, TRANSPOSED>(a, diagonal, x);
        if (TRANSPOSED) exchange(places, position, true, x);
    } else if (SMM_OP == SMM_OP_CHO_SOLVE) {
        substitute<true, false, false>(a, diagonal, x);
        substitute<false, true, false>(a, diagonal, x);
    } else {
        substitute<!UPPER, false, UNIT>(a, diagonal, x);
    }
}

/* --- several right-hand sides --- */

template <bool LOWER, bool OF_TRANSPOSE, bool HAS_UNIT_DIAGONAL>
__device__ inline void substitute(const T *a, const T *reciprocals, Vector<OWN> (&x)[N]) {
    constexpr bool BY_ROWS = (SMM_ORDER_A == SMM_ORDER_ROW) != OF_TRANSPOSE;
    if constexpr (HAS_UNIT_DIAGONAL)
        substitute<LOWER, BY_ROWS, ImageA::WIDTH, ImageA::PITCH>(a, x, [](int) {});
    else
        substitute<LOWER, BY_ROWS, ImageA::WIDTH, ImageA::PITCH>(a, reciprocals, x);
}

__device__ inline void solve_several(const T *a, const T *reciprocals, Vector<OWN> (&x)[N]) {
    if (BY_LU) {
        substitute<true, TRANSPOSED, !TRANSPOSED>(a, reciprocals, x);
        substitute<false, TRANSPOSED, TRANSPOSED>(a, reciprocals, x);
    } else if (SMM_OP == SMM_OP_CHO_SOLVE) {
        substitute<true, false, false>(a, reciprocals, x);
        compiler_barrier();
        substitute<false, true, false>(a, reciprocals, x);
    } else {
        substitute<!UPPER, false, UNIT>(a, reciprocals, x);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) SMM_NAME(const __grid_constant__ smm_cuda_args args) {
    extern __shared__ __align__(16) T shared[];
    __shared__ long long where[SMM_SOURCE_A == SMM_SOURCE_STRIDED ? MATRICES : 1];
    const smm_cuda_operand &a = args.operand[SMM_A];
    const long long first = static_cast<long long>(blockIdx.x) * MATRICES;
    const int count = static_cast<int>(args.batch - first < MATRICES ? args.batch - first : MATRICES);
    T *rhs = shared + ImageA::ELEMENTS;
    if (SMM_SOURCE_A == SMM_SOURCE_STRIDED) {
        for (int q = threadIdx.x; q < count; q += THREADS) where[q] = offset_of(args, a, first + q);
        __syncthreads();
    }
    constexpr bool BY_ROWS = SMM_ORDER_A == SMM_ORDER_ROW;
    const int shift = stage<ImageA, THREADS, SMM_ASYNC>(shared, a, first, count, where, BY_ROWS ? a.row : a.col,
                                                        BY_ROWS ? a.col : a.row);
    stage_rhs<SMM_ASYNC>(args, rhs, first, count);
    copies_done();
    __syncthreads();

    /* Threads beyond the last matrix compute it once more and store nothing. */
    const int q = min_of(threadIdx.x / LANES, count - 1);
    const bool mine = threadIdx.x / LANES < count;
    const long long matrix = first + q;
    T *image = shared + shift + (SMM_SOURCE_A == SMM_SOURCE_ONE ? 0 : q * ImageA::MATRIX);
    T *numbers = rhs + RHS + threadIdx.x / LANES * N;
    int info = UNIT ? 0 : first_zero(image);
    Divisor diagonal[ROWS];
    int position[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        diagonal[r] = Divisor(UNIT || row_of(r) >= N ? T(1) : element(image, row_of(r), row_of(r)));
    if (BY_LU) {
        const int *pivots = beside<int>(args, SMM_LU_SOLVE_pivots, matrix, N);
        const int wrong = follow(pivots, REST_FLAT ? 1 : args.operand[SMM_LU_SOLVE_pivots].row, position);
        info = wrong ? -wrong : info;
    }
    if (args.operand[SMM_INFO].data && mine && lane() == 0) *beside<int>(args, SMM_INFO, matrix, 1) = info;

    if constexpr (SEVERAL) {
        int *order = reinterpret_cast<int *>(rhs + RHS + RECIPROCALS) + threadIdx.x / LANES * N;
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            if (row_of(r) >= N) continue;
            numbers[row_of(r)] = diagonal[r].r;
            if (BY_LU) order[position[r]] = row_of(r);
        }
        __syncwarp();
        solve_rhs(
            args, rhs, first, count, info, [&](int i) { return BY_LU && !TRANSPOSED ? order[i] : i; },
            [&](Vector<OWN>(&x)[N]) { solve_several(image, numbers, x); },
            [&](int i) { return BY_LU && TRANSPOSED ? order[i] : i; });
    } else {
        const Columns b = columns_of<SMM_SOURCE_B, SMM_ORDER_B>(args, SMM_B, matrix);
        const Columns c = columns_of<SMM_SOURCE_C, SMM_ORDER_C>(args, SMM_C, matrix);
        T x[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; r++) x[r] = row_of(r) < N ? T(b.at(row_of(r), 0)) : T(0);
        solve_one(image, diagonal, position, numbers, x);
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            if (mine && row_of(r) < N) c.at(row_of(r), 0) = info ? not_a_number() : x[r];
    }
}
