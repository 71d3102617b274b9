/* mixed_lanes.cuh: systems of float64 by factors in float32 (SOLVE_MIXED), as csrc/reference/mixed.c, which says what
 * is computed and from where.
 *
 * LANES threads have a matrix, whose rows are spread over them. Once it is factored, everything is in the order of the
 * rows of the factors: row i of these, of A and of right-hand sides is number i / LANES of the ROWS of lane i % LANES.
 * Columns of B follow each other. All matrices of a warp take as many steps as the one that needs most. One that has
 * not converged is solved by its lanes alone in float64.
 *
 * Grid: one block per MATRICES matrices; LANES threads to a matrix.
 * Shared memory: see Own.
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
            for (int e = 0; e < VECTOR; e++) v.x[e] = j + e < N ? a[r][least(j + e, N - 1)] : T(0);
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
                if (j + e < N) a[r][least(j + e, N - 1)] = v.x[e];
        }
}

/* factor(): the rows of a lane become those of L and U, or of L and L^T, in registers and in the image. Tells which row
 * of A each was. Returns whether that failed. matrix_of_thread(): in the block. */
#if SMM_FORM & 128
#include "systems.cuh"
constexpr int ELEMENTS = ceil_div(most(MATRIX, N *LINE), VECTOR) * VECTOR;
__device__ inline int matrix_of_thread() { return threadIdx.x / LANES; }

__device__ inline bool factor(T *image, T (&a)[ROWS][N], int (&source)[ROWS]) {
    const Own o = {image, nullptr, nullptr, nullptr};
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        source[r] = own(r);
#pragma unroll
        for (int j = 0; j < N; j++)
            if (is_row(r)) o.a(row_of(r), j) = a[r][j];
    }
    wait();
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

struct Own {
    float *factors;
    T *a, *x;

    __device__ Own(T *shared, int q)
        : factors(reinterpret_cast<float *>(shared) + q * narrow::ELEMENTS),
          a(shared + MATRICES * narrow::ELEMENTS / 2 + q * WIDE), x(a + wide::MATRIX) {}
    /* What is solved there has its pivots in the place of the factors. */
    __device__ wide::Own in_double() const { return {a, x, nullptr, reinterpret_cast<int *>(factors)}; }
};

/* --- over the lanes of a matrix --- */

__device__ inline bool any_lane(bool x) { return LANES == 1 ? x : (__ballot_sync(WARP, x) & same_matrix()) != 0; }

/* The larger magnitude, NaN if one is. */
__device__ inline T larger(T x, T y) { return magnitude(y) > magnitude(x) ? y : x; }
__device__ inline T largest(T x) {
#pragma unroll
    for (int bits = LANES / 2; bits > 0; bits /= 2) x = larger(x, across(x, bits));
    return fabs(x);
}

/* --- a matrix --- */

constexpr bool HOLDS = !SMM_REFETCH; /* A, in registers */

/* x / size, narrowed: by the reciprocal, unless the quotient is so close to where float32 rounds to another number that
 * its error tells, or is subnormal there; or the reciprocal is NaN. */
__device__ inline float narrowed_quotient(T x, T size, T inverse) {
    constexpr unsigned HALF = 1u << 28, NEAR = 8; /* of the bits that float32 lacks; units of the last one */
    const T y = product(x, inverse);
    const unsigned rest = static_cast<unsigned>(magnitude(y)) & (2 * HALF - 1);
    const bool is_sure = rest - (HALF - NEAR) > 2 * NEAR && fabs(y) > __longlong_as_double(0x3810000000000000);
    return static_cast<float>(__builtin_expect(is_sure, 1) ? y : quotient_of(x, size));
}

struct System {
    const Own o;
    float lu[ROWS][N];                /* L and U, or L and L^T */
    float pivot[ROWS], inverse[ROWS]; /* the diagonal of U, or of L */
    T held[HOLDS ? ROWS : 1][N];
    int source[ROWS]; /* the rows of A */
    T bound;          /* of residuals, for solutions of size 1 */
    int code;         /* the steps, or why A is to be solved in float64 */
    bool rare;        /* some inverse, of a matrix of the warp, is not as exact as numbers are */

    __device__ System(const Own &own_memory, bool is_needed) : o(own_memory) {
        T norm = 0;
        bool overflowed = false, finite = true;
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            T sum = 0;
#pragma unroll
            for (int j = 0; j < N; j++) {
                const T x = o.in_double().a(own(r), j);
                lu[r][j] = static_cast<float>(x);
                sum = sum + fabs(x);
                overflowed |= isinf(lu[r][j]);
                finite &= isfinite(x);
            }
            norm = larger(norm, sum);
        }
        bound = product(largest(norm), product(UNIT, root(T(N))));
        overflowed = any_lane(overflowed);
        finite = !any_lane(!finite);
        const bool failed = narrow::factor(o.factors, lu, source);
        code = (overflowed && finite) || !is_needed ? OVERFLOWED : failed ? SINGULAR : 0;
        rare = false;
        __syncwarp();
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            pivot[r] = LANES == 1 ? lu[r][least(r, N - 1)] : o.factors[own(r) * (LINE + 1)];
            inverse[r] = narrow::reciprocal(pivot[r]);
            rare |= !narrow::is_normal(inverse[r]);
#pragma unroll
            for (int j = 0; j < (HOLDS ? N : 0); j++) held[r][j] = o.in_double().a(source[r], j);
        }
        if (LANES > 1) {
            rare = __any_sync(WARP, rare);
            __syncwarp();
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                if (is_row(r)) o.factors[row_of(r) * (LINE + 1)] = inverse[r];
            __syncwarp();
        }
        forget_memory(); /* or the compiler would read A anew */
    }

    __device__ T a(int r, int j) const { return HOLDS ? held[HOLDS ? r : 0][j] : o.in_double().a(source[r], j); }

    /* x becomes the solution of a triangular system: FEW elements at a time are solved for by all lanes alike, which so
     * have to be told only what those begin with. */
    template <bool LOWER, bool RARE> __device__ void substitute(float (&x)[ROWS]) const {
        constexpr bool DIVIDES = POSITIVE || !LOWER;
        constexpr int FEW = LANES == 1 ? 1 : 4;
        const auto divided = [](float y, float of_pivot, float p) {
            if (RARE && !narrow::is_normal(of_pivot)) return narrow::rare_quotient(y, p);
            return narrow::product(y, of_pivot);
        };
#pragma unroll
        for (int turn = 0; turn < N; turn += FEW) {
            const int k = LOWER ? turn : (N - 1) / FEW * FEW - turn;
            float y[FEW];
#pragma unroll
            for (int e = 0; e < FEW; e++)
                if (k + e < N) y[e] = from_lane(x[least(k + e, N - 1) / LANES], (k + e) % LANES);
#pragma unroll
            for (int step = 0; step < FEW; step++) {
                const int e = LOWER ? step : FEW - 1 - step, i = least(k + e, N - 1);
                if (k + e >= N) continue;
                narrow::Vector<FEW, float> l;
                if (LANES > 1) l = narrow::load<FEW>(o.factors + i * LINE + k);
#pragma unroll
                for (int before = 0; before < step; before++) {
                    const int t = LOWER ? before : FEW - 1 - before;
                    if (k + t < N) y[e] = narrow::multiply_add(-l.x[t], y[t], y[e]);
                }
                if (DIVIDES && LANES == 1) y[e] = divided(y[e], inverse[i / LANES], pivot[i / LANES]);
                if (DIVIDES && LANES > 1)
                    y[e] = divided(y[e], l.x[e], RARE ? from_lane(pivot[i / LANES], i % LANES) : 0);
#pragma unroll
                for (int r = 0; r < ROWS; r++) {
                    const int nearest = LOWER ? r * LANES + LANES - 1 : r * LANES,
                              farthest = LOWER ? r * LANES : r * LANES + LANES - 1;
                    if (LOWER ? nearest <= i : nearest >= i) continue;
                    const float less = narrow::multiply_add(-lu[r][i], y[e], x[r]);
                    if ((LOWER ? farthest > i : farthest < i) || (LOWER ? row_of(r) > i : row_of(r) < i)) x[r] = less;
                }
            }
        }
#pragma unroll
        for (int r = 0; r < ROWS && DIVIDES; r++) x[r] = divided(x[r], inverse[r], pivot[r]);
    }

    /* x becomes the solution by the factors. */
    __device__ void solve(float (&x)[ROWS]) const {
        if (__builtin_expect(rare, 0)) {
            substitute<true, true>(x);
            substitute<false, true>(x);
        } else {
            substitute<true, false>(x);
            substitute<false, false>(x);
        }
    }

    /* r = b - A x */
    __device__ void find_residual(const T (&b)[ROWS], const T (&x)[ROWS], T (&r)[ROWS]) const {
        T sum[ROWS] = {};
        if (!HOLDS) forget_memory(); /* or the compiler would hold A all the same */
        if (LANES > 1) {
            __syncwarp();
#pragma unroll
            for (int e = 0; e < ROWS; e++)
                if (is_row(e)) o.x[row_of(e)] = x[e];
            __syncwarp();
        }
#pragma unroll(HOLDS || LANES == 1 ? N : 4)
        for (int j = 0; j < N; j++) {
            const T y = LANES == 1 ? x[LANES == 1 ? j : 0] : o.x[j];
#pragma unroll
            for (int e = 0; e < ROWS; e++) sum[e] = multiply_add(a(e, j), y, sum[e]);
        }
#pragma unroll
        for (int e = 0; e < ROWS; e++) r[e] = b[e] - sum[e];
    }

    /* x, the solution of b, unless `code` says that there is none; b is in the order of the factors, x is not. */
    __device__ void refine(const T (&b)[ROWS], T (&x)[ROWS]) {
        T r[ROWS], left = 0;
        bool ended = code < 0;
#pragma unroll
        for (int e = 0; e < ROWS; e++) x[e] = 0, r[e] = b[e], left = larger(left, r[e]);
        left = largest(left);
#pragma unroll 1
        for (int step = 0; step <= STEPS && (LANES == 1 ? !ended : __any_sync(WARP, !ended)); step++) {
            const T size = left > 0 && isfinite(left) ? left : T(1), back = ::reciprocal(size);
            const T inverse = is_normal(back) ? back : not_a_number();
            float d[ROWS];
#pragma unroll
            for (int e = 0; e < ROWS; e++) d[e] = narrowed_quotient(r[e], size, inverse);
            solve(d);
#pragma unroll
            for (int e = 0; e < ROWS; e++) x[e] = ended ? x[e] : x[e] + product(T(d[e]), size);
            find_residual(b, x, r);
            bool small = false; /* below the bound of the largest |x| */
            left = 0;
#pragma unroll
            for (int e = 0; e < ROWS; e++) left = larger(left, r[e]);
            left = largest(left);
#pragma unroll
            for (int e = 0; e < ROWS; e++) small |= is_row(e) && left <= product(fabs(x[e]), bound);
            if (any_lane(small) && !ended) code = most(code, step), ended = true;
            if (!ended && !isfinite(left)) code = NOT_CONVERGED, ended = true;
        }
        if (!ended) code = NOT_CONVERGED;
    }
};

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
        copy<1>(&Own(shared, q).in_double().a(i, j),
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
__device__ inline int fall_back(const Own &o, const View<const T> &b, const View<T> &x, long long columns) {
    const wide::Own a = o.in_double();
    const int info = wide::prepare(a).info;
#pragma unroll 1
    for (long long j = 0; j < columns; j++) {
        for (int i = lane(); i < N; i += LANES) a.x(i, 0) = b.at(i, j);
        wait();
        wide::solve(a);
        for (int i = lane(); i < N; i += LANES) x.at(i, j) = info ? not_a_number() : a.x(i, 0);
        wait();
    }
    return info;
}

extern "C" __global__ void BOUNDS SMM_NAME(const __grid_constant__ smm_cuda_args args) {
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
    System system(Own(shared, q), is_matrix);
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
    wait();
    const int info = system.code < 0 ? fall_back(Own(shared, q), b, x, args.k) : 0;
    if (lane()) return;
    *beside<int>(args, SMM_SOLVE_MIXED_iterations, matrix, 1) = system.code;
    if (args.operand[SMM_INFO].data) *beside<int>(args, SMM_INFO, matrix, 1) = info;
}
