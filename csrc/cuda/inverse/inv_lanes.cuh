/* inv_lanes.cuh: C = inverse of A, by Gauss-Jordan elimination in place with partial pivoting, in registers.
 *
 * Higham, Accuracy and Stability of Numerical Algorithms, section 14.4. LANES threads share a matrix: row i is the
 * registers i / LANES of lane i % LANES. Which rows are exchanged is not known to the compiler, so they are selected.
 * What is called A and C are their transposes, from order SMM_INV_DIRECT + 1 on.
 *
 * Grid: one block per MATRICES matrices; LANES threads to a matrix. Warps have nothing to do with each other.
 * Shared memory: for each matrix its image of MATRIX elements, of A unless it is read where it lies, then of C.
 * Operands: any that args.h can describe. May be in place: a warp has read its matrices before it writes.
 * Limits: n <= 32; LANES a power of two; MATRICES * LANES = THREADS, whole warps. */
#include "common.cuh"
#include "lanes.cuh"

constexpr int N = SMM_N, MATRICES = SMM_MATRICES, THREADS = SMM_THREADS;
constexpr int OF_WARP = 32 / LANES;      /* matrices */
constexpr int ROWS = ceil_div(N, LANES); /* of a lane */

/* Lines of whole vectors are an odd number of them long, if several lanes read them. Others need nothing. */
constexpr bool WHOLE = N % VECTOR == 0;
constexpr int PITCH = WHOLE && LANES > 1 && N / VECTOR % 2 == 0 ? N + VECTOR : N;
constexpr int MATRIX = WHOLE ? images_apart(N * PITCH) : N * PITCH;
static_assert(SMM_SHARED == ceil_div(MATRICES * MATRIX, VECTOR) * 16, "the plan counts otherwise");

/* A thread with a whole matrix, whose lines are whole vectors, may read it where it lies. */
constexpr bool STAGES = SMM_ASYNC || LANES > 1 || !WHOLE || !ALIGNED || SMM_SOURCE_A != SMM_SOURCE_FLAT;

#include "inv_singularity.cuh"
#include "inv_image.cuh"

/* A lane's part of a matrix. */
struct Rows {
    T x[ROWS][N];
    int origin[ROWS]; /* the row of A that this one was */
    SingularityTest test;

    __device__ bool is_row(int r) const { return N % LANES == 0 || r < ROWS - 1 || lane() + LANES * r < N; }
    __device__ int row(int r) const { return lane() + LANES * r; }

    template <class X> __device__ Rows(const X *a, int pitch) {
#pragma unroll
        for (int r = 0; r < ROWS; r++) origin[r] = row(r);
        load_rows(x, a, pitch, [&](int r) { return row(r); });
    }

    /* The pivot's row of step k: the largest magnitude, of equals the first. NaN is chosen only if it is in row k. */
    __device__ int choose(int k) const {
        T largest = 0;
        int at = N;
#pragma unroll
        for (int r = k / LANES; r < ROWS; r++) {
            const T size = fabs(x[r][k]);
            const bool first = row(r) == k, later = row(r) > k && is_row(r) && size > largest;
            if (first || later || (row(r) > k && is_row(r) && size == largest && at == N)) largest = size, at = row(r);
        }
#pragma unroll
        for (int bits = LANES / 2; bits > 0; bits /= 2) {
            const T size = shuffle_xor(largest, bits);
            const int other = shuffle_xor(at, bits);
            const auto theirs = magnitude(size), ours = magnitude(largest); /* integers: NaN, in row k, is above all */
            if (theirs > ours || (theirs == ours && other < at)) largest = size, at = other;
        }
        return at;
    }

    /* What step k needs to know of the exchange of row k, which is row k / LANES of lane k % LANES, and its pivot's. */
    struct Exchange {
        int k, p;
        bool first, pivot[ROWS]; /* is the lane's row of that number one of the two? */
    };

    /* Exchange elements of one column. Returns the pivot row's; row k's place keeps its old one. */
    template <class X> __device__ static X exchange(const Exchange &e, X (&y)[ROWS]) {
        const int r0 = e.k / LANES;
        X chosen = y[r0], left = from_lane(y[r0], e.k % LANES);
#pragma unroll
        for (int r = r0 + 1; r < ROWS; r++)
            if (e.pivot[r]) chosen = y[r];
        chosen = from_lane(chosen, e.p % LANES);
#pragma unroll
        for (int r = LANES == 1 ? r0 + 1 : r0; r < ROWS; r++)
            if (e.pivot[r]) y[r] = left;
        return chosen;
    }

    /* Step k. Column k of the identity takes the place of column k of A. */
    __device__ void eliminate(int k) {
        const int r0 = k / LANES;
        Exchange e = {k, choose(k), lane() == k % LANES, {}};
#pragma unroll
        for (int r = r0; r < ROWS; r++) e.pivot[r] = row(r) == e.p;
        const int from = exchange(e, origin);
        if (e.first) origin[r0] = from;

        T f[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; r++) f[r] = x[r][k];
        const T inverse = test.invert(exchange(e, f));
#pragma unroll
        for (int r = 0; r < ROWS; r++) f[r] = product(f[r], inverse);
#pragma unroll
        for (int j = 0; j < N; j++) {
            T column[ROWS], u = 1;
#pragma unroll
            for (int r = 0; r < ROWS; r++) column[r] = j == k ? T(0) : x[r][j];
            if (j != k) u = exchange(e, column);
            const T in_the_end = product(u, inverse);
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                const T y = multiply_add(-f[r], u, column[r]);
                x[r][j] = r == r0 && e.first ? in_the_end : y;
            }
        }
    }

    /* Column j of the inverse is the one that step k made, if j was the origin of row k. */
    __device__ void write(T *c) {
#pragma unroll
        for (int k = 0; k < N; k++) {
            const int j = from_lane(origin[k / LANES], k % LANES);
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                if (is_row(r)) c[row(r) * C_ROW + j * C_COL] = x[r][k], test.add(x[r][k]);
        }
#pragma unroll
        for (int bits = LANES / 2; bits > 0; bits /= 2) test.squares += shuffle_xor(test.squares, bits);
    }
};

extern "C" __global__ void BOUNDS SMM_NAME(const __grid_constant__ smm_cuda_args args) {
    extern __shared__ __align__(16) T shared[];
    const int of_block = threadIdx.x / 32 * OF_WARP, of_warp = threadIdx.x % 32 / LANES;
    const long long first = static_cast<long long>(blockIdx.x) * MATRICES + of_block;
    const int count = static_cast<int>(args.batch - first < OF_WARP ? args.batch - first : OF_WARP);
    if (count <= 0) return;
    T *images = shared + of_block * MATRIX, *image = images + of_warp * MATRIX;

    if (STAGES) read(images, args, first, count);
    const InMemory *from =
        static_cast<const InMemory *>(args.operand[SMM_A].data) + (first + min_of(of_warp, count - 1)) * (N * N);
    Rows rows(either<STAGES>(image, from), STAGES ? PITCH : N);
#pragma unroll
    for (int k = 0; k < N; k++) rows.eliminate(k);

    __syncwarp();
    rows.write(image);
    if (__builtin_expect(confirm_singular(args, first, count, of_warp, lane() == 0, rows.test), 0)) fill_nan(image);
    __syncwarp();
    write(images, args, first, count);
}
