/* lstsq_columns.cuh: lstsq.cuh of real matrices whose columns are in registers.
 *
 * A lane holds whole columns of [A | B], so that sums over rows are its own. A column that comes to another place only
 * takes the number of that place. What the lanes of a matrix exchange is the column of a step and its reflector,
 * through shared memory. The update of a column also sums the squares by which the next one is chosen. The first column
 * that is chosen makes room for the first right-hand side: so N columns and one right-hand side are N columns.
 *
 * R, by rows, goes to shared memory. If its rank is full, which the bound of has_full_rank() tells while R is solved
 * with, or else R^-1, rows are then in registers, and what goes from lane to lane is shuffled. Otherwise lstsq.cuh goes
 * on in shared memory.
 *
 * Grid: one block per MATRICES matrices; LANES threads to a matrix.
 * Shared memory: of each matrix what `Group` names.
 * Operands: any that args.h can describe. May overwrite B in place, matrix by matrix: each has read all of it before it
 * writes.
 * Limits: LANES a power of two <= 32; MATRICES * LANES = THREADS; M * ceil((N + K - 1) / LANES) numbers stay in
 * registers; N up to 32; no matrix is empty, and there is at least one right-hand side. */
#include "common.cuh"
#define SMM_FEW 0
#include "lanes.cuh"
#include "householder.cuh"
#include "element.cuh"
#include "operand_view.cuh"

constexpr int M = SMM_M, N = SMM_N, K = SMM_K, ROWS = min_of(M, N), MATRICES = SMM_MATRICES, THREADS = SMM_THREADS;
#include "lstsq.cuh"

/* So many steps share the text of a loop. The rows that wait move up by one register at each step, so that the next one
 * finds its rows where the last one did. */
constexpr int STEPS = SMM_STEPS, SLOTS = ceil_div(N + K - 1, LANES), OWN = ceil_div(P, LANES);
constexpr int HEIGHT = ceil_div(M, VECTOR) * VECTOR;

struct Lines {
    T raw[HEIGHT], v[HEIGHT]; /* of a step the column, and the reflector, tau in the place of v_0 = 1 */
    Work w;                   /* in w.tau the diagonal of R, which has its other columns in their first places */
    T norms[K];               /* of residuals */
};
/* An odd number of vectors, so that matrices differ in banks. */
union alignas(16) Group {
    Lines x;
    char bytes[(ceil_div(sizeof(Lines), 16) | 1) * 16];
};
static_assert(SMM_SHARED == MATRICES * sizeof(Group), "the plan counts otherwise");

/* The columns of a lane. */
struct Columns {
    T x[SLOTS][M];
    T squares[SLOTS]; /* the sum of those of the rows that wait */
    int place[SLOTS]; /* of a column of A in the order of columns, of right-hand side c N + c, of others more */
};
__device__ inline int column(int slot) { return slot * LANES + lane(); }

/* What a row holds that does not exist where a loop counts it: its square vanishes in any sum, and its product with 0
 * is -0, which is neutral even to -0. */
constexpr T NOTHING = -static_cast<T>(DOUBLE ? 0x1p-1074 : 0x1p-149);

__device__ inline void sum_squares(Columns &a) {
#pragma unroll
    for (int c = 0; c < SLOTS; c++) {
        a.squares[c] = 0;
#pragma unroll
        for (int i = 0; i < M; i++) a.squares[c] = multiply_add(a.x[c][i], a.x[c][i], a.squares[c]);
    }
}

/* By sums of squares: whether scale_for() of A is 1, and A is finite. No is also said of some of which that is true. */
__device__ inline bool needs_no_scaling(const Columns &a) {
    constexpr int FAR = DOUBLE ? 400 : 40;
    bool large = false, not_small = false;
#pragma unroll
    for (int c = 0; c < SLOTS; c++) {
        if (a.place[c] >= N) continue;
        large |= !(a.squares[c] <= power_of_two(FAR, T()));
        not_small |= a.squares[c] >= M * power_of_two(-FAR, T());
    }
    const unsigned any_large = __ballot_sync(WARP, large), any_not_small = __ballot_sync(WARP, not_small);
    return !(any_large & same_matrix()) && any_not_small & same_matrix();
}

/* A to registers. */
template <class A> __device__ inline void load_columns(Columns &a, const A &from) {
    constexpr bool FLAT = SMM_SOURCE_A == SMM_SOURCE_FLAT && SMM_ORDER_A == SMM_ORDER_ROW;
    const long long row = FLAT ? N : from.row(), col = FLAT ? 1 : from.col();
#pragma unroll
    for (int i = 0; i < M; i++)
#pragma unroll
        for (int c = 0; c < SLOTS; c++) {
            const int j = column(c);
            a.x[c][i] = j < N ? computed(from.data[i * row + j * col]) : NOTHING;
        }
}

/* A, scaled, and all but the first right-hand side. The result is what A was scaled by, or NaN where it is not finite.
 */
__device__ inline T scale_columns(Columns &a, const Work &w) {
#pragma unroll
    for (int c = 0; c < SLOTS; c++) {
        const int j = column(c), side = j - N + 1;
        a.place[c] = j < N ? j : N + side;
#pragma unroll
        for (int i = 0; i < M; i++)
            if (K > 1 && side > 0 && side < K) a.x[c][i] = w.x[i * K + side];
    }
    sum_squares(a);
    if (__all_sync(WARP, needs_no_scaling(a))) return 1;
    T largest = 0;
    bool finite = true;
#pragma unroll
    for (int c = 0; c < SLOTS; c++)
#pragma unroll
        for (int i = 0; i < M; i++)
            if (a.place[c] < N) finite &= measure(a.x[c][i], largest);
    finite = meet(largest, finite);
    const T scale = scale_for(largest);
#pragma unroll
    for (int c = 0; c < SLOTS; c++)
#pragma unroll
        for (int i = 0; i < M; i++)
            if (a.place[c] < N) a.x[c][i] = finite ? product(a.x[c][i], scale) : T(0);
    sum_squares(a);
    return finite ? scale : not_a_number();
}

/* The right-hand sides, scaled, to shared memory. */
template <class B> __device__ inline void load_sides_together(Work &w, const B &from) {
    for (int c = 0; c < K; c++) {
        T largest = 0;
        for (int i = lane(); i < M; i += LANES) {
            w.x[i * K + c] = from.get(i, c);
            measure(w.x[i * K + c], largest);
        }
        meet(largest, true);
        w.scale[c] = scale_for(largest);
        for (int i = lane(); i < M; i += LANES) w.x[i * K + c] = product(w.x[i * K + c], w.scale[c]);
    }
    __syncwarp();
}

#include "lstsq_columns_steps.cuh"

/* R x = Q^T b of all right-hand sides, and whether the rank is full, without which x is of no use. w.tail takes the
 * reciprocals of the diagonal. */
__device__ inline bool solve_by_rows(Work &w, T rtol, T (&x)[K][OWN]) {
    const T first = fabs(w.tau[0]);
    T row[OWN][P], reciprocals[OWN], y[OWN], squares = 0;
#pragma unroll
    for (int r = 0; r < OWN; r++) {
        const int i = r * LANES + lane();
#pragma unroll
        for (int k = 0; k < P; k++) row[r][k] = i < k ? w.a[i * PITCH + w.owner[k]] : T(0);
        reciprocals[r] = reciprocal(w.tau[min_of(i, P - 1)]);
        if (i < P) w.tail[i] = reciprocals[r];
        y[r] = first;
#pragma unroll
        for (int c = 0; c < K; c++) x[c][r] = w.x[min_of(i, P - 1) * K + c];
    }
#pragma unroll
    for (int k = P - 1; k >= 0; k--) {
        const int own = k / LANES;
        const T bound = from_lane(product(y[own], fabs(reciprocals[own])), k % LANES);
        squares = multiply_add(bound, bound, squares);
#pragma unroll
        for (int r = 0; r <= own; r++) y[r] = multiply_add(fabs(row[r][k]), bound, y[r]);
#pragma unroll
        for (int c = 0; c < K; c++) {
            const T found = from_lane(product(x[c][own], reciprocals[own]), k % LANES);
#pragma unroll
            for (int r = 0; r <= own; r++) {
                const int i = r * LANES + lane();
                x[c][r] = i < k ? multiply_add(-row[r][k], found, x[c][r]) : i == k ? found : x[c][r];
            }
        }
    }
    return is_full_rank<P>(squares, rtol);
}

/* The same by R^-1 itself, of which has_full_rank() bounds the magnitudes: that bound may grow exponentially with N.
 * Lanes have columns of R^-1, which they find from the last row on. The factor 2 is for errors of rounding: as |R|_F is
 * at most sqrt(P) r_00, the sum of squares is less than 1.5 times too small. */
__device__ inline bool has_full_rank_by_inverse(const Work &w, T rtol) {
    static_assert(P <= 32, "the bound of the errors of rounding");
    T x[OWN][P], squares = 0;
#pragma unroll
    for (int c = 0; c < OWN; c++)
#pragma unroll
        for (int i = 0; i < P; i++) x[c][i] = i == c * LANES + lane() ? fabs(w.tau[0]) : T(0);
#pragma unroll
    for (int k = P - 1; k >= 0; k--) {
        const T r = w.tail[k], *const column = w.a + w.owner[k];
#pragma unroll
        for (int c = 0; c < OWN; c++) {
            x[c][k] = product(x[c][k], r);
            squares = multiply_add(x[c][k], x[c][k], squares);
        }
#pragma unroll
        for (int i = 0; i < k; i++)
#pragma unroll
            for (int c = 0; c < OWN; c++) x[c][i] = multiply_add(-column[i * PITCH], x[c][k], x[c][i]);
    }
#pragma unroll
    for (int bits = LANES / 2; bits > 0; bits /= 2) squares = squares + shuffle_xor(squares, bits);
    return is_full_rank<P>(2 * squares, rtol);
}

/* Where the rank may be less than N. */
__device__ __noinline__ int solve_aside(Lines *g, T rtol) {
    Work &w = g->w;
    for (int i = lane(); i < P; i += LANES) {
        T row[N], *const to = w.a + i * PITCH;
        for (int j = i + 1; j < N; j++) row[j] = to[w.owner[j]];
        to[i] = w.tau[i];
        for (int j = i + 1; j < N; j++) to[j] = row[j];
    }
    sync_lanes();
    const auto size = [&](int i, int j) { return size_of(w.a[i * PITCH + j]); };
    const int rank = settle(w, rtol, has_full_rank<P>(size, rtol, w.row, w.tail));
    solve(w, rank, [&](int c, T norm) { g->norms[c] = norm; });
    return rank;
}

extern "C" __global__ void BOUNDS SMM_NAME(const __grid_constant__ smm_cuda_args args) {
    extern __shared__ __align__(16) char shared[];
    const long long mine = static_cast<long long>(blockIdx.x) * MATRICES + threadIdx.x / LANES;
    const bool exists = mine < args.batch;
    const long long q = exists ? mine : args.batch - 1; /* beyond the batch: the last one, which is not stored again */
    Lines &g = reinterpret_cast<Group *>(shared)[threadIdx.x / LANES].x;
    Work &w = g.w;
    const OperandView<false, Stored> a(args, SMM_A, q), b(args, SMM_B, q), x(args, SMM_C, q);
    const OperandView<true> norms(args, SMM_LSTSQ_residuals, q);
    const T rtol = factor_of(args, SMM_LSTSQ_rtol, q);

    Columns columns;
    load_columns(columns, a);
    load_sides_together(w, b);
    const T scale = scale_columns(columns, w);
    const bool finite = is_finite(scale);
    factor_columns(columns, g);
    int rank = P;
    T found[K][OWN];
    bool full = P == N && solve_by_rows(w, rtol, found);
    __syncwarp();
    if (P == N && __any_sync(WARP, !full)) full |= has_full_rank_by_inverse(w, rtol);
    __syncwarp();
    if (full) {
#pragma unroll
        for (int r = 0; r < OWN; r++)
#pragma unroll
            for (int c = 0; c < K; c++)
                if (r * LANES + lane() < P) w.x[(r * LANES + lane()) * K + c] = found[c][r];
        for (int c = lane(); c < K; c += LANES) g.norms[c] = root(g.norms[c]);
    } else if (finite) {
        rank = solve_aside(&g, rtol);
    }
    __syncwarp();
    if (!exists) return;
    for (int c = lane(); c < K; c += LANES)
        norms.put(0, c, finite ? product(g.norms[c], reciprocal(w.scale[c])) : not_a_number());
    put_solutions(w, x, 0, K, scale, finite);
    put_integer(args, SMM_LSTSQ_rank, q, finite ? rank : 0);
    put_integer(args, SMM_INFO, q, 0);
}
