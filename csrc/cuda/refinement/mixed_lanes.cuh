/* mixed_lanes.cuh: systems of float64 by factors in float32 (SOLVE_MIXED), as csrc/reference/mixed.c, which says what
 * is computed and from where.
 *
 * LANES threads have a matrix, whose rows are spread over them. Once it is factored, everything is in the order of the
 * rows of the factors: row i of these, of A and of right-hand sides is number i / LANES of the ROWS of lane i % LANES.
 * Columns of B follow each other. All matrices of a warp take as many steps as the one that needs most. One that has
 * not converged is solved by its lanes alone in float64.
 *
 * Grid: one block per MATRICES matrices; LANES threads to a matrix.
 * Shared memory: see MixedWorkspace.
 * Operands: any that args.h can describe; the solution takes the place of none.
 * Limits: n <= 32; LANES a power of two <= 32; MATRICES * LANES = THREADS. */
#include "common.cuh"
#include "lanes.cuh"
#include "element.cuh"
#include "view.cuh"

constexpr int N = SMM_N, ROWS = ceil_div(N, LANES), MATRICES = SMM_MATRICES, THREADS = SMM_THREADS;
constexpr bool POSITIVE = SMM_FORM & 128; /* SMM_POSITIVE */
constexpr int STEPS = 30, OVERFLOWED = -2, SINGULAR = -3, NOT_CONVERGED = -STEPS - 1;
constexpr T UNIT = T(1) / (1ll << 53);
constexpr bool B_FLAT = SMM_SOURCE_B == SMM_SOURCE_FLAT;

__device__ inline int row_of(int r) { return lane() + LANES * r; }
__device__ inline bool is_row(int r) { return N % LANES == 0 || r < ROWS - 1 || row_of(r) < N; }
/* Row r of this lane; a lane that has none there does with the last one what is not used. */
__device__ inline int own(int r) { return is_row(r) ? row_of(r) : N - 1; }

/* --- in float64 and in float32 --- */

/* SOLVE and SOLVE_POS, of one right-hand side at a time. */
#undef SMM_OP
#undef SMM_K
#if SMM_FORM & 128
#define SMM_OP SMM_OP_SOLVE_POS
#else
#define SMM_OP SMM_OP_SOLVE
#endif
#define SMM_K 1
namespace wide {
#include "systems.cuh"
} // namespace wide

/* Rows of the factors in shared memory are an odd number of vectors long. */
constexpr int LINE = (ceil_div(N, 4) | 1) * 4;

#undef SMM_T
#define SMM_T float
namespace narrow {
#include "arithmetic.cuh"
typedef T InMemory;
#undef EACH
#undef EACH_STEP
#include "lanes.cuh"
#include "element.cuh"
#include "vectors.cuh"

/* The rows of a lane to the image of the factors, or from there. */
__device__ inline void write_rows(T *image, const T (&a)[ROWS][N]) {
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int j = 0; j < N; j += VECTOR) {
            Vector<VECTOR> v;
#pragma unroll
            for (int e = 0; e < VECTOR; e++) v.x[e] = j + e < N ? a[r][min_of(j + e, N - 1)] : T(0);
            if (is_row(r)) store<VECTOR>(image + row_of(r) * LINE + j, v);
        }
}
__device__ inline void read_rows(T (&a)[ROWS][N], const T *image) {
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int j = 0; j < N; j += VECTOR) {
            const Vector<VECTOR> v = load<VECTOR>(image + own(r) * LINE + j);
#pragma unroll
            for (int e = 0; e < VECTOR; e++)
                if (j + e < N) a[r][min_of(j + e, N - 1)] = v.x[e];
        }
}

/* factor(): the rows of a lane become those of L and U, or of L and L^T, in registers and in the image. Tells which row
 * of A each was. Returns whether that failed. matrix_of_thread(): in the block. */
#if SMM_FORM & 128
#include "systems.cuh"
constexpr int ELEMENTS = ceil_div(max_of(MATRIX, N *LINE), VECTOR) * VECTOR;
__device__ inline int matrix_of_thread() { return threadIdx.x / LANES; }

__device__ inline bool factor(T *image, T (&a)[ROWS][N], int (&source)[ROWS]) {
    const MatrixWorkspace o = {image, nullptr, nullptr, nullptr};
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        source[r] = own(r);
#pragma unroll
        for (int j = 0; j < N; j++)
            if (is_row(r)) o.a(row_of(r), j) = a[r][j];
    }
    sync_lanes();
    const int info = factor_definite(o);
    __syncwarp();
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int j = 0; j < N; j++) a[r][j] = j > own(r) ? o.a(j, own(r)) : o.a(own(r), j);
    __syncwarp();
    write_rows(image, a);
    return info;
}
#else
#include "element_vectors.cuh"
constexpr int K = 0;
#if SMM_LANES == 1
#include "as_lapack.cuh"
constexpr bool FACTORS = false, INVERTS = false, CARRIES = false, SOLVES_AFTER = true, KEEPS = true, SHARES = false;
constexpr int COLUMNS = N, WIDTH = widest_of(N);
#include "lu_lanes_columns.cuh"
constexpr int ELEMENTS = N; /* room for pivots */
__device__ inline int matrix_of_thread() { return threadIdx.x; }

__device__ inline bool factor(T *, T (&a)[ROWS][N], int (&source)[ROWS]) {
    ::narrow::Columns x;
    Steps steps;
#pragma unroll
    for (int e = 0; e < N * N; e++) x.a[e / N][e % N] = a[e / N][e % N];
    x.factor(steps);
#pragma unroll
    for (int e = 0; e < N * N; e++) a[e / N][e % N] = x.a[e / N][e % N];
#pragma unroll
    for (int i = 0; i < N; i++) source[i] = x.order[i];
    return steps.info;
}
#else
constexpr bool IN_PANELS = false, KEEPS = true, LISTS = true;
constexpr int PANEL = SMM_PANEL;
extern __shared__ __align__(16) T all_images[];
#include "lu_panels.cuh"
constexpr int ELEMENTS = MATRIX;
static_assert(PITCH == LINE, "");
__device__ inline int matrix_of_thread() { return threadIdx.x / 32 * PER_WARP + matrix_of_lane(); }

__device__ inline bool factor(T *image, T (&a)[ROWS][N], int (&source)[ROWS]) {
    bool failed = false;
    write_rows(image, a);
    __syncwarp();
    factor(image);
    read_rows(a, image);
#pragma unroll
    for (int r = 0; r < ROWS; r++) failed |= fails(image[own(r) * (LINE + 1)]), source[r] = own(r);
    const unsigned *const pivots =
        reinterpret_cast<const unsigned *>(reinterpret_cast<Exchanges *>(image + N * PITCH)->pivots);
#pragma unroll
    for (int k = N - 1; k >= 0; k--) {
        const int p = pivots[k / 4] >> k % 4 * 8 & 255;
#pragma unroll
        for (int r = 0; r < ROWS; r++) source[r] = source[r] == k ? p : source[r] == p ? k : source[r];
    }
    return (__ballot_sync(WARP, failed) & same_matrix()) != 0;
}
#endif
#endif

__device__ __noinline__ T rare_quotient(T x, T y) { return quotient_of(x, y); }
} // namespace narrow

/* What a matrix has in shared memory: its factors in float32, which those of all matrices follow; A and a column of X,
 * an odd number of times LANES apart. */
constexpr int WIDE = elements_apart(wide::MATRIX + N, sizeof(T));
static_assert(SMM_SHARED == MATRICES * (narrow::ELEMENTS * sizeof(float) + WIDE * sizeof(T)),
              "the plan counts otherwise");

struct MixedWorkspace {
    float *factors;
    T *a, *x;

    __device__ MixedWorkspace(T *shared, int q)
        : factors(reinterpret_cast<float *>(shared) + q * narrow::ELEMENTS),
          a(shared + MATRICES * narrow::ELEMENTS / 2 + q * WIDE), x(a + wide::MATRIX) {}
    /* What is solved there has its pivots in the place of the factors. */
    __device__ wide::MatrixWorkspace in_double() const { return {a, x, nullptr, reinterpret_cast<int *>(factors)}; }
};

#include "mixed.cuh"

/* Start copying A to shared memory: of few lanes by all threads in the order of memory, of more by their own. */
__device__ inline void stage(const smm_cuda_args &args, T *shared, long long first, int count) {
    constexpr bool FLAT = SMM_SOURCE_A == SMM_SOURCE_FLAT, BY_ROWS = SMM_ORDER_A == SMM_ORDER_ROW;
    constexpr bool TOGETHER = LANES < 8;
    constexpr unsigned EACH = N * N, STEP = TOGETHER ? THREADS : LANES;
    const smm_cuda_operand &a = args.operand[SMM_A];
    const T *const from = static_cast<const T *>(a.data) + (FLAT ? first * EACH : 0);
    const unsigned own = narrow::matrix_of_thread();
    const auto move = [&](unsigned e) {
        const unsigned q = TOGETHER ? e / EACH : own, place = e - q * EACH;
        const unsigned i = BY_ROWS ? place / N : place % N, j = BY_ROWS ? place % N : place / N;
        copy<1>(&MixedWorkspace(shared, q).in_double().a(i, j),
                from + (FLAT ? e : offset_of(args, a, first + q) + i * a.row + j * a.col));
    };
    const unsigned begin = TOGETHER ? threadIdx.x : own * EACH + lane();
    if (count == MATRICES && EACH % LANES == 0) { /* all threads copy as many elements */
#pragma unroll 16
        for (unsigned turn = 0; turn < EACH / LANES; turn++) move(begin + turn * STEP);
        return;
    }
    const unsigned end = TOGETHER ? count * EACH : own < count ? (own + 1) * EACH : 0;
#pragma unroll 1
    for (unsigned e = begin; e < end; e += STEP) move(e);
}

/* X of a matrix by its lanes, in float64, column by column. Returns info. */
__device__ inline int fall_back(const MixedWorkspace &o, const View<const T> &b, const View<T> &x, long long columns) {
    const wide::MatrixWorkspace a = o.in_double();
    const int info = wide::prepare(a).info;
#pragma unroll 1
    for (long long j = 0; j < columns; j++) {
        for (int i = lane(); i < N; i += LANES) a.x(i, 0) = b.at(i, j);
        sync_lanes();
        wide::solve(a);
        for (int i = lane(); i < N; i += LANES) x.at(i, j) = info ? not_a_number() : a.x(i, 0);
        sync_lanes();
    }
    return info;
}

extern "C" __global__ void __launch_bounds__(THREADS) SMM_NAME(const __grid_constant__ smm_cuda_args args) {
    extern __shared__ __align__(16) T shared[];
    const long long first = static_cast<long long>(blockIdx.x) * MATRICES, rest = args.batch - first;
    const int count = rest < MATRICES ? static_cast<int>(rest) : MATRICES, q = narrow::matrix_of_thread();
    stage(args, shared, first, count);
    copies_done();
    __syncthreads();
    /* Those that the last block lacks have no steps, but their lanes take part in those of the warp. */
    const bool is_matrix = q < count;
    const long long matrix = is_matrix ? first + q : args.batch - 1;
    const View<const T> b(args, SMM_B, matrix, B_FLAT, N * args.k);
    const View<T> x(args, SMM_SOLVE_MIXED_x, matrix, REST_FLAT, N * args.k);
    System system(MixedWorkspace(shared, q), is_matrix);
    if (!args.k) system.code = 0; /* nothing to solve, so nothing fails */
#pragma unroll 1
    for (long long j = 0; j < args.k; j++) {
        T right[ROWS], solution[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; r++) right[r] = b.at(system.source[r], j);
        system.refine(right, solution);
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            if (is_row(r) && system.code >= 0) x.at(row_of(r), j) = solution[r];
    }
    if (!is_matrix) return;
    sync_lanes();
    const int info = system.code < 0 ? fall_back(MixedWorkspace(shared, q), b, x, args.k) : 0;
    if (lane()) return;
    *beside<int>(args, SMM_SOLVE_MIXED_iterations, matrix, 1) = system.code;
    if (args.operand[SMM_INFO].data) *beside<int>(args, SMM_INFO, matrix, 1) = info;
}
