/* triangular_lanes.cuh: X of A X = B by substitution: A triangular (SOLVE_TRIANGULAR), A = L L^T (CHO_SOLVE, a is L;
 * SOLVE_POS, a is A, which is factored first), or P A = L U (LU_SOLVE, a and the pivots are what LU gave; of A^T in the
 * form TRANSPOSED).
 *
 * As the reference: once x_j is known, every row below (or above) takes its product with it. A stays in shared memory.
 * The rows of a single right-hand side are spread over the lanes; of several, each lane has OWN to itself, and all lanes
 * of a matrix read the same elements of A.
 *
 * Grid: one block per MATRICES matrices; LANES threads to a matrix.
 * Shared memory: the image of A. Of several right-hand sides, their image, if they lie flat, and the reciprocals of the
 * diagonal. Of LU_SOLVE, N numbers to a matrix: the right-hand side, whose rows change places, or where they come from.
 * Operands: any that args.h can describe.
 * May overwrite A or B in place, matrix by matrix. */
#include "common.cuh"
#include "image.cuh"
#include "lanes.cuh"
#include "substitution.cuh"

constexpr int N = SMM_N, K = SMM_K, MATRICES = SMM_MATRICES, THREADS = SMM_THREADS;
constexpr int ROWS = ceil_div(N, LANES);
constexpr bool SEVERAL = K > 1;
constexpr bool UNIT = SMM_FORM & 2, TRANSPOSED = SMM_FORM & 4, BY_LU = SMM_OP == SMM_OP_LU_SOLVE;
constexpr bool DEFINITE = SMM_OP == SMM_OP_SOLVE_POS;
constexpr bool UPPER = SMM_OP == SMM_OP_SOLVE_TRIANGULAR && SMM_FORM & 1;
typedef Image<N, N, SMM_SOURCE_A, MATRICES, SMM_PAD, SEVERAL> ImageA;
constexpr bool B_BY_ROWS = SMM_ORDER_B == SMM_ORDER_ROW;
typedef Image<B_BY_ROWS ? N : K, B_BY_ROWS ? K : N, SMM_SOURCE_FLAT, MATRICES, 0, 1> ImageB;
constexpr bool THROUGH_IMAGE = SEVERAL && ALIGNED && SMM_SOURCE_B == SMM_SOURCE_FLAT &&
                               SMM_SOURCE_C == SMM_SOURCE_FLAT && SMM_ORDER_B == SMM_ORDER_C;
constexpr int RIGHTS = THROUGH_IMAGE ? ImageB::ELEMENTS : 0, RECIPROCALS = SEVERAL ? MATRICES * N : 0;
static_assert(SMM_SHARED == (ImageA::ELEMENTS + RIGHTS + RECIPROCALS) * sizeof(T) +
                                (BY_LU ? MATRICES * N * (SEVERAL ? sizeof(int) : sizeof(T)) : 0),
              "the plan counts otherwise");

__device__ inline int row_of(int r) { return lane() + LANES * r; }

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
__device__ inline void exchange(T *places, const int (&position)[ROWS], bool back, T (&x)[ROWS]) {
    __syncwarp();
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        if (row_of(r) < N) places[back ? row_of(r) : position[r]] = x[r];
    __syncwarp();
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        if (row_of(r) < N) x[r] = places[back ? position[r] : row_of(r)];
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

/* A single right-hand side, spread over the lanes. */
__device__ inline void solve_one(const T *a, const Divisor *diagonal, const int (&position)[ROWS], T *places,
                                 T (&x)[ROWS]) {
    if (BY_LU) {
        if (!TRANSPOSED) exchange(places, position, false, x);
        substitute<true, TRANSPOSED, !TRANSPOSED>(a, diagonal, x);
        substitute<false, TRANSPOSED, TRANSPOSED>(a, diagonal, x);
        if (TRANSPOSED) exchange(places, position, true, x);
    } else if (DEFINITE || SMM_OP == SMM_OP_CHO_SOLVE) {
        substitute<true, false, false>(a, diagonal, x);
        substitute<false, true, false>(a, diagonal, x);
    } else {
        substitute<!UPPER, false, UNIT>(a, diagonal, x);
    }
}

/* --- several right-hand sides: each lane has OWN at a time --- */

constexpr int OWN = 2;

__device__ __noinline__ T rare_quotient(T x, T y) { return quotient_of(x, y); }

template <bool LOWER, bool OF_TRANSPOSE, bool HAS_UNIT_DIAGONAL>
__device__ inline void substitute(const T *a, const T *reciprocals, Vector<OWN> (&x)[N]) {
    constexpr bool BY_ROWS = (SMM_ORDER_A == SMM_ORDER_ROW) != OF_TRANSPOSE;
    substitute<LOWER, BY_ROWS, ImageA::WIDTH, ImageA::PITCH>(a, x, [&](int i) {
        if (HAS_UNIT_DIAGONAL) return;
        const T r = reciprocals[i];
#pragma unroll
        for (int e = 0; e < OWN; e++)
            x[i].x[e] = __builtin_expect(is_normal(r), 1) ? product(x[i].x[e], r)
                                                          : rare_quotient(x[i].x[e], element(a, i, i));
    });
}

/* from(i, j) is an element of B, which a lane reads before to(i, j, x) writes one of X. */
template <class From, class To>
__device__ inline void solve_several(const T *a, const T *reciprocals, const int *order, long long columns, From from,
                                     To to) {
#pragma unroll 1
    for (long long own = lane() * OWN; own < columns; own += LANES * OWN) {
        Vector<OWN> x[N];
#pragma unroll
        for (int i = 0; i < N; i++)
#pragma unroll
            for (int e = 0; e < OWN; e++)
                x[i].x[e] = own + e < columns ? from(BY_LU && !TRANSPOSED ? order[i] : i, own + e) : T(0);
        if (BY_LU) {
            substitute<true, TRANSPOSED, !TRANSPOSED>(a, reciprocals, x);
            substitute<false, TRANSPOSED, TRANSPOSED>(a, reciprocals, x);
        } else if (DEFINITE || SMM_OP == SMM_OP_CHO_SOLVE) {
            substitute<true, false, false>(a, reciprocals, x);
            forget_memory();
            substitute<false, true, false>(a, reciprocals, x);
        } else {
            substitute<!UPPER, false, UNIT>(a, reciprocals, x);
        }
#pragma unroll
        for (int i = 0; i < N; i++)
#pragma unroll
            for (int e = 0; e < OWN; e++)
                if (own + e < columns) to(BY_LU && TRANSPOSED ? order[i] : i, own + e, x[i].x[e]);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) SMM_NAME(const __grid_constant__ smm_cuda_args args) {
    extern __shared__ __align__(16) T shared[];
    __shared__ long long where[SMM_SOURCE_A == SMM_SOURCE_STRIDED ? MATRICES : 1];
    const smm_cuda_operand &a = args.operand[SMM_A];
    const long long first = static_cast<long long>(blockIdx.x) * MATRICES;
    const int count = static_cast<int>(args.batch - first < MATRICES ? args.batch - first : MATRICES);
    T *rights = shared + ImageA::ELEMENTS;
    if (SMM_SOURCE_A == SMM_SOURCE_STRIDED) {
        for (int q = threadIdx.x; q < count; q += THREADS) where[q] = offset_of(args, a, first + q);
        __syncthreads();
    }
    constexpr bool BY_ROWS = SMM_ORDER_A == SMM_ORDER_ROW;
    const int shift = stage<ImageA, THREADS, SMM_ASYNC>(shared, a, first, count, where, BY_ROWS ? a.row : a.col,
                                                        BY_ROWS ? a.col : a.row);
    if constexpr (THROUGH_IMAGE)
        stage<ImageB, THREADS, SMM_ASYNC>(rights, args.operand[SMM_B], first, count, nullptr, 0, 0);
    copies_done();
    __syncthreads();

    /* Threads beyond the last matrix compute it once more and store nothing. */
    const int q = least(threadIdx.x / LANES, count - 1);
    const bool mine = threadIdx.x / LANES < count;
    const long long matrix = first + q;
    T *image = shared + shift + (SMM_SOURCE_A == SMM_SOURCE_ONE ? 0 : q * ImageA::MATRIX);
    T *numbers = rights + RIGHTS + threadIdx.x / LANES * N;
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
    if constexpr (SEVERAL) {
        int *order = reinterpret_cast<int *>(rights + RIGHTS + RECIPROCALS) + threadIdx.x / LANES * N;
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            if (row_of(r) >= N) continue;
            numbers[row_of(r)] = diagonal[r].r;
            if (BY_LU) order[position[r]] = row_of(r);
        }
        __syncwarp();
        T *own = rights + q * ImageB::MATRIX;
        const auto place = [&](int i, long long j) -> T & { return own[B_BY_ROWS ? i * K + j : j * N + i]; };
        const auto result = [&](T x) { return info ? not_a_number() : x; };
        if constexpr (THROUGH_IMAGE) {
            if (mine)
                solve_several(image, numbers, order, K, [&](int i, long long j) { return place(i, j); },
                              [&](int i, long long j, T x) { place(i, j) = result(x); });
            __syncthreads();
            unstage<ImageB, THREADS>(rights, args.operand[SMM_C], first, count, nullptr);
        } else if (mine) {
            solve_several(image, numbers, order, args.k, [&](int i, long long j) { return T(b.at(i, j)); },
                          [&](int i, long long j, T x) { c.at(i, j) = result(x); });
        }
    } else {
        T x[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; r++) x[r] = row_of(r) < N ? T(b.at(row_of(r), 0)) : T(0);
        solve_one(image, diagonal, position, numbers, x);
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            if (mine && row_of(r) < N) c.at(row_of(r), 0) = info ? not_a_number() : x[r];
    }
}
