/* inv_rows.cuh: C = inverse of A, by Gauss-Jordan elimination in place with partial pivoting, rows in registers.
 *
 * Higham, Accuracy and Stability of Numerical Algorithms, section 14.4. LANES threads share a matrix: row i is the
 * registers i / LANES of lane i % LANES. Every step does the same to columns that rotate by one: a loop whose body is
 * one step, the column that is eliminated in front, so that the text is short enough for the instruction cache.
 * What is called A and C are their transposes (inverse.h).
 *
 * Grid: one block per MATRICES matrices; LANES threads to a matrix. Warps have nothing to do with each other.
 * Shared memory: for each warp its images, MATRIX elements to a matrix, first of A, then of C, and two lists of N rows
 * of each; between A and C, pivot rows are published where the images were.
 * Operands: any that args.h can describe. May be in place: a warp has read its matrices before it writes.
 * Limits: 4 <= n <= 32; 1 < LANES, a power of two; MATRICES * LANES = THREADS, whole warps. */
#include "common.cuh"
#include "lanes.cuh"
#include "pivots.cuh"

constexpr int N = SMM_N, MATRICES = SMM_MATRICES, THREADS = SMM_THREADS;
constexpr int OF_WARP = 32 / LANES; /* matrices */

/* Lines of whole vectors are an odd number of them long. */
constexpr bool WHOLE = N % VECTOR == 0;
constexpr int PITCH = WHOLE && N / VECTOR % 2 == 0 ? N + VECTOR : N;
constexpr int MATRIX = WHOLE ? images_apart(N * PITCH) : N * PITCH;

/* Two rows, an odd number of vectors from those of the next matrix. */
constexpr int ROW = ceil_div(N, VECTOR) * VECTOR, PUBLISHED = 2 * ROW + VECTOR;
constexpr int IMAGES = ceil_div(OF_WARP * max_of(MATRIX, PUBLISHED), VECTOR) * VECTOR;
constexpr int OF_WARP_SHARED = IMAGES + ceil_div(OF_WARP * 2 * N, 16) * VECTOR; /* elements */
static_assert(SMM_SHARED == THREADS / 32 * OF_WARP_SHARED * sizeof(T), "the plan counts otherwise");

#include "inv_singularity.cuh"
#include "inv_image.cuh"

/* --- the choice of pivots --- */

constexpr int ROWS = ceil_div(N, LANES); /* of a lane: lane() + LANES r */

__device__ inline int row_of(int r) { return lane() + LANES * r; }
__device__ inline bool is_row(int r) { return N % LANES == 0 || r < ROWS - 1 || row_of(r) < N; }

typedef unsigned char Row;

/* Which row is the next pivot row. Rows stay where they are: where exchanges would have brought them follows from the
 * pivot rows so far. */
struct Pivots {
    unsigned tag[ROWS];   /* ROW_BITS - row */
    unsigned mask[ROWS];  /* of the leading bits that are compared; 0: has been a pivot row */
    bool found[ROWS];     /* it is the lane's row r */
    T inverse;            /* of the pivot, in the lane that has it */
    SingularityTest test; /* the size is that of the lane's pivots */

    __device__ Pivots() {
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            tag[r] = is_row(r) ? ROW_BITS - row_of(r) : 0;
            mask[r] = is_row(r) ? MAGNITUDE_BITS : 0;
        }
    }

    /* Choose among the rows with these elements in the column of step k; an earlier row is the larger word. Each lane
     * inverts its own largest while they look for it. */
    __device__ void choose(const T (&x)[ROWS], int k, const Row *pivot_rows) {
        unsigned key[ROWS], chosen = 0;
        T candidate = x[0];
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            key[r] = (leading_bits(x[r]) & mask[r]) | tag[r];
            if (r > 0 && key[r] > chosen) candidate = x[r];
            chosen = max(chosen, key[r]);
        }
        chosen = of_matrix(chosen);
        inverse = reciprocal(candidate);
        bool unsure = is_special(chosen);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            found[r] = key[r] == chosen;
            unsure |= (key[r] >= (chosen & ~ROW_BITS)) != found[r];
        }
        if (__builtin_expect(__any_sync(WARP, unsure), 0)) inverse = reciprocal(choose_by_all_bits(x, k, pivot_rows));
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            mask[r] = found[r] ? 0 : mask[r];
            if (found[r]) test.size = fmax(test.size, fabs(x[r]));
        }
    }
    /* What the lanes of a matrix know of it. */
    __device__ void combine() {
#pragma unroll
        for (int bits = LANES / 2; bits > 0; bits /= 2) {
            test.size = fmax(test.size, shuffle_xor(test.size, bits));
            test.squares += shuffle_xor(test.squares, bits);
        }
    }

  private:
    /* The largest x of the lanes of a matrix. */
    __device__ static unsigned of_matrix(unsigned x) {
        if constexpr (LANES == 32) return __reduce_max_sync(WARP, x);
#pragma unroll
        for (int bits = LANES / 2; bits > 0; bits /= 2) x = max(x, shuffle_xor(x, bits));
        return x;
    }

    /* The largest magnitude, of equals the first in place. NaN is chosen only if it is in place k. Returns the element,
     * or what takes its place, in the lane that has it. */
    __device__ T choose_by_all_bits(const T (&x)[ROWS], int k, const Row *pivot_rows) {
        Search search = {0, N};
        int place[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            place[r] = mask[r] ? position_of(row_of(r), k, [&](int t) { return pivot_rows[t]; }) : N;
            if (mask[r]) search.consider(isnan(x[r]) && place[r] != k ? 0 : magnitude(x[r]), place[r]);
        }
#pragma unroll 1
        for (int bits = LANES / 2; bits > 0; bits /= 2) search.consider_found(bits);
        combine();
        T candidate = 1;
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            found[r] = mask[r] && place[r] == search.first;
            if (found[r]) candidate = x[r];
        }
        if (search.largest != 0) return candidate;
        test.singular = true;
        return test.min_pivot();
    }
};

/* COUNT elements of a row in whole vectors, the last of which may hold others. */
template <int COUNT> __device__ inline void load_vectors(T *x, const T *from) {
#pragma unroll
    for (int j = 0; j < COUNT; j += VECTOR) {
        const Vector<VECTOR> v = load<VECTOR>(from + j);
#pragma unroll
        for (int e = 0; e < VECTOR && j + e < COUNT; e++) x[j + e] = v.x[e];
    }
}
template <int COUNT> __device__ inline void store_vectors(T *to, const T *x) {
#pragma unroll
    for (int j = 0; j < COUNT; j += VECTOR) {
        Vector<VECTOR> v;
#pragma unroll
        for (int e = 0; e < VECTOR; e++) v.x[e] = x[min_of(j + e, COUNT - 1)];
        store<VECTOR>(to + j, v);
    }
}

/* --- the elimination --- */

/* A lane's rows; before step k, element j is that of column (k + j) % N. */
struct Rows {
    T x[ROWS][N];

    __device__ explicit Rows(const T *a) { load_rows(x, a, PITCH, row_of); }

    /* Step k. Column k of the identity takes the place of column k of A. */
    __device__ void eliminate(int k, Pivots &pivots, Row *pivot_rows, T *published) {
        T f[ROWS], u[N];
#pragma unroll
        for (int r = 0; r < ROWS; r++) f[r] = x[r][0];
        pivots.choose(f, k, pivot_rows);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            if (!pivots.found[r]) continue;
#pragma unroll
            for (int j = 0; j < N; j++) x[r][j] = j + 1 < N ? x[r][j + 1] : pivots.inverse;
            store_vectors<N>(published, x[r]);
#pragma unroll
            for (int j = 0; j + 1 < N; j++) x[r][j] = product(x[r][j], pivots.inverse);
            pivot_rows[k] = row_of(r);
        }
        __syncwarp();
        load_vectors<N>(u, published);
        const T inverse = u[N - 1];
        u[N - 1] = 1;
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            if (pivots.found[r]) continue;
            f[r] = product(f[r], inverse);
#pragma unroll
            for (int j = 0; j < N; j++) x[r][j] = multiply_add(-f[r], u[j], j + 1 < N ? x[r][j + 1] : T(0));
        }
    }

    /* Row i of the inverse is the pivot row of step i. Its column j is the one that step k made, if j was k's pivot
     * row. */
    __device__ void write(T *c, Pivots &pivots, const Row *pivot_rows, Row *steps) const {
        T *to[ROWS];
        for (int k = lane(); k < N; k += LANES) steps[pivot_rows[k]] = k;
        __syncwarp();
#pragma unroll
        for (int r = 0; r < ROWS; r++) to[r] = c + steps[min_of(row_of(r), N - 1)] * C_ROW;
#pragma unroll
        for (int k = 0; k < N; k++) {
            const int column = pivot_rows[k] * C_COL;
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                if (is_row(r)) to[r][column] = x[r][k], pivots.test.add(x[r][k]);
        }
        pivots.combine();
    }
};

/* --- the kernel --- */

extern "C" __global__ void BOUNDS SMM_NAME(const __grid_constant__ smm_cuda_args args) {
    extern __shared__ __align__(16) T shared[];
    const int of_block = threadIdx.x / 32 * OF_WARP, of_warp = threadIdx.x % 32 / LANES;
    const long long first = static_cast<long long>(blockIdx.x) * MATRICES + of_block;
    const int count = static_cast<int>(args.batch - first < OF_WARP ? args.batch - first : OF_WARP);
    if (count <= 0) return;
    T *images = shared + threadIdx.x / 32 * OF_WARP_SHARED, *image = images + of_warp * MATRIX;
    T *published = images + of_warp * PUBLISHED;
    Row *pivot_rows = reinterpret_cast<Row *>(images + IMAGES) + of_warp * 2 * N;

    read(images, args, first, count);
    Rows rows(image);
    Pivots pivots;
    __syncwarp();
#pragma unroll 1
    for (int k = 0; k < N; k++) rows.eliminate(k, pivots, pivot_rows, published + k % 2 * ROW);

    __syncwarp();
    rows.write(image, pivots, pivot_rows, pivot_rows + N);
    if (__builtin_expect(confirm_singular(args, first, count, of_warp, lane() == 0, pivots.test), 0)) fill_nan(image);
    __syncwarp();
    write(images, args, first, count);
}
