/* inv_lanes.cuh: C = inverse of A, by Gauss-Jordan elimination in place with partial pivoting, in registers.
 *
 * Higham, Accuracy and Stability of Numerical Algorithms, section 14.4. LANES threads share a matrix, each with some of
 * its rows. No row is moved: each knows the place where the exchanges so far would have brought it.
 *
 * Grid: one block per MATRICES matrices; LANES threads to a matrix.
 * Shared memory: with SMM_THROUGH_SHARED the image of A, later that of C in its place; else none.
 * Operands: any that args.h can describe; without SMM_THROUGH_SHARED flat ones by rows. May be in place: a block has
 * read its matrices before it writes.
 * Limits: n <= 32; LANES a power of two; MATRICES * LANES = THREADS, whole warps. */
#include "common.cuh"
#include "image.cuh"
#include "lanes.cuh"

constexpr int N = SMM_N, MATRICES = SMM_MATRICES, THREADS = SMM_THREADS;
constexpr int ROWS = ceil_div(N, LANES); /* of a lane: lane() + LANES r */
constexpr bool BY_ROWS_A = SMM_SOURCE_A == SMM_SOURCE_STRIDED || SMM_ORDER_A == SMM_ORDER_ROW;
constexpr bool BY_ROWS_C = SMM_SOURCE_C == SMM_SOURCE_STRIDED || SMM_ORDER_C == SMM_ORDER_ROW;
constexpr bool LIE_ANYHOW = SMM_SOURCE_A == SMM_SOURCE_STRIDED || SMM_SOURCE_C == SMM_SOURCE_STRIDED;
typedef Image<N, N, SMM_SOURCE_A, MATRICES, SMM_PAD> ImageA;
typedef Image<N, N, SMM_SOURCE_C, MATRICES, SMM_PAD> ImageC;

constexpr int NOWHERE = -1;

/* A lane's part of a matrix. */
struct Rows {
    T x[ROWS][N];
    int place[ROWS];              /* before step k at least k, if the row is to be chosen yet */
    unsigned pivots[ceil_div(N, 4)]; /* byte k: the row that step k chose */
    int info;

    __device__ Rows() : pivots(), info(0) {
#pragma unroll
        for (int r = 0; r < ROWS; r++) place[r] = lane() + LANES * r < N ? lane() + LANES * r : NOWHERE;
    }
    __device__ int pivot(int k) const { return pivots[k / 4] >> k % 4 * 8 & 0xff; }

    /* Where the row of step k's pivot is: the largest magnitude, of equals the one in the first place. NaN is chosen
     * only if it is in place k. The row is left in the last byte, its place in the others. */
    __device__ int choose(int k) const {
        auto largest = magnitude(T(0));
        int at = N << 8;
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const int candidate = place[r] << 8 | (lane() + LANES * r);
            const auto size = isnan(x[r][k]) && place[r] != k ? magnitude(T(0)) : magnitude(x[r][k]);
            if (place[r] >= k && (size > largest || (size == largest && candidate < at))) largest = size, at = candidate;
        }
#pragma unroll
        for (int bits = LANES / 2; bits > 0; bits /= 2) {
            const auto size = across(largest, bits);
            const int candidate = across(at, bits);
            if (size > largest || (size == largest && candidate < at)) largest = size, at = candidate;
        }
        return at;
    }

    /* Step k. Column k of the identity takes the place of column k of A. */
    __device__ void eliminate(int k) {
        const int chosen = choose(k), from = chosen >> 8, row = chosen & 0xff;
        T f[ROWS], pivot = x[0][k];
        bool is_pivot[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            is_pivot[r] = place[r] == from;
            if (is_pivot[r])
                place[r] = k;
            else if (place[r] == k)
                place[r] = from;
            f[r] = x[r][k];
            if (is_pivot[r]) pivot = f[r];
            x[r][k] = 0;
        }
        pivot = from_lane(pivot, row % LANES);
        pivots[k / 4] |= row << k % 4 * 8;
        if (pivot == 0 && !info) info = k + 1;
        const T inverse = reciprocal(pivot);
#pragma unroll
        for (int j = 0; j < N; j++) {
            T u = x[0][j];
#pragma unroll
            for (int r = 1; r < ROWS; r++)
                if (is_pivot[r]) u = x[r][j];
            u = j == k ? inverse : product(from_lane(u, row % LANES), inverse);
#pragma unroll
            for (int r = 0; r < ROWS; r++) x[r][j] = is_pivot[r] ? u : multiply_add(-f[r], u, x[r][j]);
        }
    }

    /* The row that a lane's row is of the inverse, and the column that column j is. */
    __device__ T element(int r, int j) const { return info ? not_a_number() : x[r][j]; }

    /* Row r with its columns in order. */
    __device__ void ordered(int r, T (&y)[N]) const {
#pragma unroll
        for (int j = 0; j < N; j++)
#pragma unroll
            for (int k = 0; k < N; k++)
                if (k == 0 || pivot(k) == j) y[j] = element(r, k);
    }
};

template <int WIDTH> __device__ inline void load_row(T *x, const T *from) {
#pragma unroll
    for (int j = 0; j < N; j += WIDTH) {
        const Vector<WIDTH> v = load<WIDTH>(from + j);
#pragma unroll
        for (int e = 0; e < WIDTH; e++) x[j + e] = v.x[e];
    }
}

/* --- memory to registers and back, without shared memory --- */

constexpr int WIDTH = ALIGNED ? width_of(N) : 1;

__device__ inline void read(Rows &rows, const T *a) {
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        if (rows.place[r] != NOWHERE) load_row<WIDTH>(rows.x[r], a + (lane() + LANES * r) * N);
}

__device__ inline void write(const Rows &rows, T *c) {
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        if (rows.place[r] == NOWHERE) continue;
        T y[N];
        rows.ordered(r, y);
#pragma unroll
        for (int j = 0; j < N; j += WIDTH) {
            Vector<WIDTH> v;
#pragma unroll
            for (int e = 0; e < WIDTH; e++) v.x[e] = y[j + e];
            store_global<WIDTH>(c + rows.place[r] * N + j, v);
        }
    }
}

/* --- the same through the image --- */

__device__ inline void read_image(Rows &rows, const T *a) {
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const int row = lane() + LANES * r;
        if (row >= N) continue;
        if constexpr (BY_ROWS_A) {
            load_row<ImageA::WIDTH>(rows.x[r], a + row * ImageA::PITCH);
        } else {
#pragma unroll
            for (int j = 0; j < N; j++) rows.x[r][j] = a[j * ImageA::PITCH + row];
        }
    }
}

__device__ inline void write_image(const Rows &rows, T *c) {
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int j = 0; j < N; j++)
            if (rows.place[r] != NOWHERE) {
                const int line = BY_ROWS_C ? rows.place[r] : rows.pivot(j), e = BY_ROWS_C ? rows.pivot(j) : rows.place[r];
                c[line * ImageC::PITCH + e] = rows.element(r, j);
            }
}

#if SMM_BLOCKS > 0
#define BOUNDS __launch_bounds__(THREADS, SMM_BLOCKS)
#else
#define BOUNDS __launch_bounds__(THREADS)
#endif

extern "C" __global__ void BOUNDS SMM_NAME(const __grid_constant__ smm_cuda_args args) {
    extern __shared__ __align__(16) T shared[];
    __shared__ long long where[2][LIE_ANYHOW ? MATRICES : 1];
    const smm_cuda_operand &a = args.operand[SMM_A], &c = args.operand[SMM_C], &to = args.operand[SMM_INFO];
    const long long first = static_cast<long long>(blockIdx.x) * MATRICES;
    const int count = static_cast<int>(args.batch - first < MATRICES ? args.batch - first : MATRICES);
    const int q = threadIdx.x / LANES;
    const long long matrix = first + q;

    Rows rows;
    T *image = shared;
    if constexpr (SMM_THROUGH_SHARED) {
        if (LIE_ANYHOW) {
            for (int e = threadIdx.x; e < count; e += THREADS) {
                where[0][e] = offset_of(args, a, first + e);
                where[1][e] = offset_of(args, c, first + e);
            }
            __syncthreads();
        }
        image += stage<ImageA, THREADS, SMM_ASYNC>(shared, a, first, count, where[0], a.row, a.col);
        copies_done();
        __syncthreads();
        read_image(rows, image + (SMM_SOURCE_A == SMM_SOURCE_ONE ? 0 : q * ImageA::MATRIX));
    } else if (q < count) {
        read(rows, static_cast<const T *>(a.data) + matrix * (N * N));
    }

#pragma unroll
    for (int k = 0; k < N; k++) rows.eliminate(k);

    if constexpr (SMM_THROUGH_SHARED) {
        image = shared;
        if (SMM_SOURCE_C == SMM_SOURCE_FLAT) image += ImageC::shift_of(static_cast<const T *>(c.data) + first * (N * N));
        __syncthreads();
        if (q < count) write_image(rows, image + q * ImageC::MATRIX);
        __syncthreads();
        unstage<ImageC, THREADS>(SMM_SOURCE_C == SMM_SOURCE_FLAT ? shared : image, c, first, count, where[1]);
    } else if (q < count) {
        write(rows, static_cast<T *>(c.data) + matrix * (N * N));
    }
    if (lane() == 0 && q < count && to.data)
        static_cast<int *>(to.data)[SMM_SOURCE_REST == SMM_SOURCE_FLAT ? matrix : offset_of(args, to, matrix)] = rows.info;
}
