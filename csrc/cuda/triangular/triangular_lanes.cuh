/* triangular_lanes.cuh: X of A X = B by substitution: A triangular (SOLVE_TRIANGULAR), A = L L^T (CHO_SOLVE, a is L;
 * SOLVE_POS, a is A, which is factored first), or P A = L U (LU_SOLVE, a and the pivots are what LU gave; of A^T in the
 * form TRANSPOSED).
 *
 * Column by column, as the reference: once x_j is known, every row below (or above) takes its product with it. A stays
 * in shared memory, where each element is read once for COLUMNS right-hand sides, whose rows are spread over the lanes.
 *
 * Grid: one block per MATRICES matrices; LANES threads to a matrix.
 * Shared memory: the image of A; of LU_SOLVE, N x COLUMNS elements to a matrix in which rows change places.
 * Operands: any that args.h can describe; B and C are taken COLUMNS columns at a time.
 * May overwrite A or B in place, matrix by matrix. */
#include "common.cuh"
#include "image.cuh"
#include "lanes.cuh"

constexpr int N = SMM_N, K = SMM_K, MATRICES = SMM_MATRICES, THREADS = SMM_THREADS;
constexpr int ROWS = ceil_div(N, LANES), COLUMNS = least(K, 4);
constexpr bool UNIT = SMM_FORM & 2, TRANSPOSED = SMM_FORM & 4, BY_LU = SMM_OP == SMM_OP_LU_SOLVE;
constexpr bool DEFINITE = SMM_OP == SMM_OP_SOLVE_POS;
constexpr bool UPPER = SMM_OP == SMM_OP_SOLVE_TRIANGULAR && SMM_FORM & 1;
typedef Image<N, N, SMM_SOURCE_A, MATRICES, SMM_PAD> ImageA;
static_assert(SMM_SHARED == (ImageA::ELEMENTS + (BY_LU ? MATRICES * N * COLUMNS : 0)) * sizeof(T),
              "the plan counts otherwise");

__device__ inline int row_of(int r) { return lane() + LANES * r; }

/* a_ij of a matrix in its image. */
__device__ inline T element(const T *a, int i, int j) {
    return SMM_ORDER_A == SMM_ORDER_ROW ? a[i * ImageA::PITCH + j] : a[j * ImageA::PITCH + i];
}

/* X = T^-1 X, T the lower or upper triangle of A, or of A^T. */
template <bool LOWER, bool OF_TRANSPOSE, bool HAS_UNIT_DIAGONAL>
__device__ inline void substitute(const T *a, const Divisor *diagonal, T (&x)[ROWS][COLUMNS]) {
#pragma unroll
    for (int step = 0; step < N; step++) {
        const int j = LOWER ? step : N - 1 - step, owner = j / LANES;
        T y[COLUMNS];
#pragma unroll
        for (int c = 0; c < COLUMNS; c++) {
            if (!HAS_UNIT_DIAGONAL && lane() == j % LANES) x[owner][c] = diagonal[owner].divide(x[owner][c]);
            y[c] = from_lane(x[owner][c], j % LANES);
        }
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            if (LOWER ? r < owner : r > owner) continue;
            const int i = row_of(r);
            if (LOWER ? i <= j || i >= N : i >= j) continue;
            const T f = OF_TRANSPOSE ? element(a, j, i) : element(a, i, j);
#pragma unroll
            for (int c = 0; c < COLUMNS; c++) x[r][c] = multiply_add(-f, y[c], x[r][c]);
        }
    }
}

/* The least number that a lane of the matrix has; or 0, if it is N + 1. */
__device__ inline int first_of(int x) {
#pragma unroll
    for (int bits = LANES / 2; bits > 0; bits /= 2) x = least(x, across(x, bits));
    return x > N ? 0 : x;
}

/* Where the exchanges bring each row. Returns the first step, from 1, whose pivot is no row, or one above, and
 * exchanges nothing; or 0. */
__device__ inline int follow(const int *pivots, long long step, int (&position)[ROWS]) {
    int pivot[ROWS], wrong = N + 1;
#pragma unroll
    for (int r = ROWS - 1; r >= 0; r--) {
        position[r] = row_of(r);
        pivot[r] = row_of(r) < N ? pivots[row_of(r) * step] : row_of(r);
        if (row_of(r) < N && (pivot[r] < row_of(r) || pivot[r] >= N)) {
            pivot[r] = row_of(r);
            wrong = row_of(r) + 1;
        }
    }
#pragma unroll
    for (int k = 0; k < N; k++) {
        const int p = from_lane(pivot[k / LANES], k % LANES);
#pragma unroll
        for (int r = 0; r < ROWS; r++) position[r] = position[r] == k ? p : position[r] == p ? k : position[r];
    }
    return first_of(wrong);
}

/* Bring each row to its position, or back. */
__device__ inline void exchange(T *places, const int (&position)[ROWS], bool back, T (&x)[ROWS][COLUMNS]) {
    __syncwarp();
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int c = 0; c < COLUMNS; c++)
            if (row_of(r) < N) places[(back ? row_of(r) : position[r]) * COLUMNS + c] = x[r][c];
    __syncwarp();
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int c = 0; c < COLUMNS; c++)
            if (row_of(r) < N) x[r][c] = places[(back ? position[r] : row_of(r)) * COLUMNS + c];
}

/* The first zero of the diagonal, from 1; or 0. */
__device__ inline int first_zero(const T *a) {
    int first = N + 1;
#pragma unroll
    for (int r = ROWS - 1; r >= 0; r--)
        if (row_of(r) < N && element(a, row_of(r), row_of(r)) == 0) first = row_of(r) + 1;
    return first_of(first);
}

/* A's lower triangle becomes L, in place, by the steps of cholesky_lanes.cuh; rows are spread over the lanes. Returns
 * the first step, from 1, whose pivot is not positive; or 0. `keep`: store nothing. */
__device__ inline int factor(T *a, bool keep) {
    constexpr bool BY_ROWS = SMM_ORDER_A == SMM_ORDER_ROW;
    constexpr int ROW = BY_ROWS ? ImageA::PITCH : 1, COL = BY_ROWS ? 1 : ImageA::PITCH;
    int info = 0;
#pragma unroll 1
    for (int j = 0; j < N; j++) {
        const T pivot = a[j * ROW + j * COL], diagonal = root(pivot), inverse = reciprocal(diagonal);
        T l[ROWS];
        if (!(pivot > 0) && !info) info = j + 1;
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const int i = row_of(r);
            l[r] = i > j && i < N ? product(a[i * ROW + j * COL], inverse) : T(0);
            if (i > j && i < N && !keep) a[i * ROW + j * COL] = l[r];
        }
        __syncwarp(); /* all have read the pivot, and each row's l is there */
        if (lane() == j % LANES && !keep) a[j * ROW + j * COL] = diagonal;
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const int i = row_of(r);
            if (i <= j || i >= N || keep) continue;
            for (int c = j + 1; c <= i; c++)
                a[i * ROW + c * COL] = multiply_add(-l[r], a[c * ROW + j * COL], a[i * ROW + c * COL]);
        }
        __syncwarp();
    }
    return info;
}

/* Of each matrix of a block, or of the one for all, by the first warp. */
__device__ inline int factor_all(T *shared_image, bool mine) {
    if constexpr (SMM_SOURCE_A != SMM_SOURCE_ONE) return factor(shared_image, !mine);
    __shared__ int found;
    if (threadIdx.x < 32) {
        const int info = factor(shared_image, threadIdx.x >= LANES);
        if (threadIdx.x == 0) found = info;
    }
    __syncthreads();
    return found;
}

/* The columns of a matrix of B or C. */
struct Columns {
    InMemory *data;
    long long row, col;
    __device__ InMemory &at(int i, long long j) const { return data[i * row + j * col]; }
};
template <int SOURCE, int ORDER>
__device__ inline Columns columns_of(const smm_cuda_args &args, int which, long long matrix) {
    const smm_cuda_operand &x = args.operand[which];
    InMemory *data = static_cast<InMemory *>(x.data);
    if (SOURCE == SMM_SOURCE_STRIDED) return {data + offset_of(args, x, matrix), x.row, x.col};
    if (SOURCE == SMM_SOURCE_FLAT) data += matrix * (N * K);
    return ORDER == SMM_ORDER_ROW ? Columns{data, K, 1} : Columns{data, 1, N};
}

extern "C" __global__ void __launch_bounds__(THREADS) SMM_NAME(const __grid_constant__ smm_cuda_args args) {
    extern __shared__ __align__(16) T shared[];
    __shared__ long long where[SMM_SOURCE_A == SMM_SOURCE_STRIDED ? MATRICES : 1];
    const smm_cuda_operand &a = args.operand[SMM_A];
    const long long first = static_cast<long long>(blockIdx.x) * MATRICES;
    const int count = static_cast<int>(args.batch - first < MATRICES ? args.batch - first : MATRICES);
    if (SMM_SOURCE_A == SMM_SOURCE_STRIDED) {
        for (int q = threadIdx.x; q < count; q += THREADS) where[q] = offset_of(args, a, first + q);
        __syncthreads();
    }
    constexpr bool BY_ROWS = SMM_ORDER_A == SMM_ORDER_ROW;
    const int shift = stage<ImageA, THREADS, SMM_ASYNC>(shared, a, first, count, where, BY_ROWS ? a.row : a.col,
                                                        BY_ROWS ? a.col : a.row);
    copies_done();
    __syncthreads();

    /* Threads beyond the last matrix compute it once more and store nothing. */
    const int q = least(threadIdx.x / LANES, count - 1);
    const bool mine = threadIdx.x / LANES < count;
    const long long matrix = first + q;
    T *image = shared + shift + (SMM_SOURCE_A == SMM_SOURCE_ONE ? 0 : q * ImageA::MATRIX);
    T *places = shared + ImageA::ELEMENTS + threadIdx.x / LANES * (N * COLUMNS);
    int info = DEFINITE ? factor_all(image, mine) : UNIT ? 0 : first_zero(image);
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

    const Columns b = columns_of<SMM_SOURCE_B, SMM_ORDER_B>(args, SMM_B, matrix);
    const Columns c = columns_of<SMM_SOURCE_C, SMM_ORDER_C>(args, SMM_C, matrix);
    for (long long done = 0; done < args.k; done += COLUMNS) {
        T x[ROWS][COLUMNS];
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
            for (int j = 0; j < COLUMNS; j++)
                x[r][j] = row_of(r) < N && done + j < args.k ? T(b.at(row_of(r), done + j)) : T(0);
        if (BY_LU) {
            if (!TRANSPOSED) exchange(places, position, false, x);
            substitute<true, TRANSPOSED, !TRANSPOSED>(image, diagonal, x);
            substitute<false, TRANSPOSED, TRANSPOSED>(image, diagonal, x);
            if (TRANSPOSED) exchange(places, position, true, x);
        } else if (DEFINITE || SMM_OP == SMM_OP_CHO_SOLVE) {
            substitute<true, false, false>(image, diagonal, x);
            substitute<false, true, false>(image, diagonal, x);
        } else {
            substitute<!UPPER, false, UNIT>(image, diagonal, x);
        }
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
            for (int j = 0; j < COLUMNS; j++)
                if (mine && row_of(r) < N && done + j < args.k)
                    c.at(row_of(r), done + j) = info ? not_a_number() : x[r][j];
    }
}
