/* lu_blocked.cuh: P A = L U (LU), X of A X = B (SOLVE), or the determinant (DET, SLOGDET), in shared memory.
 *
 * Blocked right-looking LU (Golub and Van Loan, Matrix Computations, section 3.4.7): a panel of SMM_PANEL columns is
 * factored in registers, its exchanges and its triangle are applied to the columns beside it, the rest is updated.
 * Every element still receives its products one by one in the order of the steps, so the bits are the plain order's.
 *
 * Grid: one block per MATRICES matrices; LANES threads to a matrix. A warp's matrices advance in step, the warps of a
 * block on their own.
 * Shared memory: MATRIX elements for each matrix: its image, [A | B] by rows, and its exchanges, after which may come
 * a single column of B; the offsets of matrices with arbitrary strides.
 * Operands: any that args.h can describe. B and C are taken SMM_K columns at a time.
 * May overwrite A or B in place, matrix by matrix: a warp has read all it needs of its matrices before it writes.
 * Limits: n and SMM_K from 1 to 32; LANES 2, 4, 8, 16 or 32; SMM_PANEL 4 or 8; MATRICES LANES = THREADS. */
#include "common.cuh"
#include "lanes.cuh"
#include "element.cuh"
#include "substitution.cuh"
#include "determinant.cuh"

constexpr bool FACTORS = SMM_OP == SMM_OP_LU, SOLVES = SMM_OP == SMM_OP_SOLVE;
constexpr bool KEEPS = FACTORS || (SOLVES && SMM_SOURCE_B == SMM_SOURCE_STRIDED); /* L */
constexpr bool LISTS = KEEPS || !SOLVES;                                          /* the pivots */
constexpr int N = SMM_N, K = SOLVES ? SMM_K : 0, PANEL = SMM_PANEL, MATRICES = SMM_MATRICES, THREADS = SMM_THREADS;

/* One right-hand side is a column more of every panel, so that it goes with its rows; several are updated as A is. */
constexpr bool IN_PANELS = K == 1;

extern __shared__ __align__(16) T all_images[];

#include "lu_panels.cuh"
static_assert(SMM_SHARED == MATRICES * MATRIX * sizeof(T), "the plan counts otherwise");

constexpr bool ALL_FLAT = SMM_SOURCE_A == SMM_SOURCE_FLAT && SMM_ORDER_A == SMM_ORDER_ROW &&
                          (!SOLVES || (SMM_SOURCE_B == SMM_SOURCE_FLAT && SMM_ORDER_B == SMM_ORDER_ROW)) &&
                          (!(FACTORS || SOLVES) || (SMM_SOURCE_C == SMM_SOURCE_FLAT && SMM_ORDER_C == SMM_ORDER_ROW));

#include "lu_image.cuh"

/* --- what follows from the factors --- */

/* The first step, from 1, whose pivot is of no use, or 0. */
__device__ inline int singular_step(const T *a) {
    int info = 0;
    bool useless = false;
#pragma unroll
    for (int r = 0; r < ROWS; r++) useless |= fails(a[min_of(lane() + LANES * r, N - 1) * (PITCH + 1)]);
    if (!__any_sync(WARP, useless)) return info;
#pragma unroll
    for (int r = ROWS - 1; r >= 0; r--) {
        const int row = lane() + LANES * r;
        const unsigned all = __ballot_sync(WARP, row < N && fails(a[min_of(row, N - 1) * (PITCH + 1)]));
        const unsigned mine = all >> threadIdx.x % 32 / LANES * LANES & (LANES == 32 ? ~0u : (1u << LANES % 32) - 1);
        if (mine) info = LANES * r + __ffs(mine);
    }
    return info;
}

/* Further right-hand sides become P B. */
__device__ inline void exchange_rows(T *y, const unsigned char *pivots) {
#pragma unroll 1
    for (T *b = y + lane(); b < y + K; b += LANES) {
        for (int k = 0; k < N; k++) {
            const T x = b[k * B_PITCH];
            b[k * B_PITCH] = b[pivots[k] * B_PITCH];
            b[pivots[k] * B_PITCH] = x;
        }
    }
    __syncwarp();
}

/* Y becomes U^-1 Y, whose pivots are inverted, or L^-1 Y: a lane has OWN of its columns to itself. */
template <bool LOWER> __device__ inline void solve_triangle(const T *a, T *y, int cols) {
#pragma unroll 1
    for (T *own = y + lane() * OWN; own < y + cols; own += LANES * OWN) {
        Vector<OWN> x[N];
#pragma unroll
        for (int i = 0; i < N; i++) x[i] = load<OWN>(own + i * B_PITCH);
        substitute<LOWER, true, VECTOR, PITCH>(a, x, [&](int i) {
#pragma unroll
            for (int e = 0; e < OWN && !LOWER; e++) x[i].x[e] = product(a[i * (PITCH + 1)], x[i].x[e]);
        });
#pragma unroll
        for (int i = 0; i < N; i++) store<OWN>(own + i * B_PITCH, x[i]);
    }
    __syncwarp();
}

/* U x = y, by plain quotients where there is no exact reciprocal. */
__device__ __noinline__ void solve_carefully(T *a, T *y) {
    for (int j = N - 1; j >= 0; j--) {
        const T x = Divisor(a[j * (PITCH + 1)]).divide(y[j * B_PITCH]);
        __syncwarp();
        if (lane() == 0) y[j * B_PITCH] = x;
        for (int i = lane(); i < j; i += LANES) y[i * B_PITCH] = multiply_add(-a[i * PITCH + j], x, y[i * B_PITCH]);
        __syncwarp();
    }
}

/* The pivots become their reciprocals, and true; unless one of the warp's has no exact one. */
__device__ inline bool invert_pivots(T *a) {
    T inverse[ROWS];
    bool exact = true;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        inverse[r] = reciprocal(a[min_of(lane() + LANES * r, N - 1) * (PITCH + 1)]);
        exact &= is_normal(inverse[r]);
    }
    if (!__all_sync(WARP, exact)) return false; /* who votes has read; racecheck does not know */
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        if (lane() + LANES * r < N) a[(lane() + LANES * r) * (PITCH + 1)] = inverse[r];
    __syncwarp();
    return true;
}

/* U x = y of a single right-hand side: x of a lane's rows. Four rows at a time are solved by all lanes alike, which so
 * have to be told only what those begin with. */
__device__ inline void solve_upper(T (&x)[ROWS], T *a, T *y_of_rows, bool inverted) {
    constexpr int FEW = 4;
    if (__builtin_expect(!inverted, 0)) solve_carefully(a, y_of_rows);
#pragma unroll
    for (int r = 0; r < ROWS; r++) x[r] = y_of_rows[min_of(lane() + LANES * r, N - 1) * B_PITCH];
    if (__builtin_expect(!inverted, 0)) return;
#pragma unroll
    for (int k = (N - 1) / FEW * FEW; k >= 0; k -= FEW) {
        T y[FEW], u[FEW];
#pragma unroll
        for (int e = FEW - 1; e >= 0; e--)
            if (k + e < N) y[e] = from_lane(x[(k + e) / LANES], (k + e) % LANES);
#pragma unroll
        for (int e = FEW - 1; e >= 0; e--) {
            if (k + e >= N) continue;
            load_row<FEW, VECTOR>(u, a + (k + e) * PITCH + k);
#pragma unroll
            for (int t = FEW - 1; t > e; t--)
                if (k + t < N) y[e] = multiply_add(-u[t], y[t], y[e]);
            y[e] = product(u[e], y[e]);
            if (lane() == (k + e) % LANES) x[(k + e) / LANES] = y[e];
        }
#pragma unroll
        for (int r = 0; LANES * r < k; r++) {
            load_row<FEW, VECTOR>(u, a + min_of(lane() + LANES * r, N - 1) * PITCH + k);
#pragma unroll
            for (int t = FEW - 1; t >= 0; t--)
                if (k + t < N && lane() + LANES * r < k) x[r] = multiply_add(-u[t], y[t], x[r]);
        }
    }
}

__device__ inline Determinant<T> determinant_of(const T *a, const unsigned char *pivots) {
    Determinant<T> det;
    const auto factor = [&](int k) { return pivots[k] != k ? -a[k * PITCH + k] : a[k * PITCH + k]; };
#pragma unroll
    for (int k = 0; k < N; k++) det.multiply(factor(k));
    for (int k = 0; k < N && !det.safe(); k++) det.multiply_scaled(factor(k));
    return det;
}

/* --- the kernel --- */

/* Of so many columns of B that are left, those taken now. */
__device__ inline int columns_of(long long left) { return static_cast<int>(left < K ? left : K); }

extern "C" __global__ void BOUNDS SMM_NAME(const __grid_constant__ smm_cuda_args args) {
    __shared__ long long all_where[3][ALL_FLAT ? 1 : MATRICES];
    const smm_cuda_operand &b = args.operand[SMM_B], &c = args.operand[SMM_C];
    const int warp = threadIdx.x / 32, q = matrix_of_lane();
    const long long first = static_cast<long long>(blockIdx.x) * MATRICES + warp * PER_WARP;
    const int count = static_cast<int>(args.batch - first < PER_WARP ? args.batch - first : PER_WARP);
    if (count <= 0) return;
    T *images = images_of_warp(), *a = images + q * MATRIX;
    long long *where[3];
    for (int x = 0; x < 3; x++) {
        where[x] = all_where[x] + (ALL_FLAT ? 0 : warp * PER_WARP);
        if (!ALL_FLAT && threadIdx.x % 32 < count)
            where[x][threadIdx.x % 32] = offset_of(args, args.operand[operand_of_abc(x)], first + threadIdx.x % 32);
    }
    __syncwarp();
    stage<N, N, PITCH, SMM_SOURCE_A, SMM_ORDER_A>(images, args.operand[SMM_A], first, count, N, where[0]);
    if constexpr (SOLVES)
        stage<N, K, B_PITCH, SMM_SOURCE_B, SMM_ORDER_B>(images + B, b, first, count, columns_of(args.k), where[1]);
    copies_done();
    __syncwarp();

    const long long matrix = first + q;
    const bool mine = q < count, leader = mine && lane() == 0;
    factor(a);
    fetch_ahead<SMM_SOURCE_A, PER_WARP, N * N>(args, args.operand[SMM_A], first);
    if (SOLVES) fetch_ahead<SMM_SOURCE_B, PER_WARP, N * K>(args, b, first);
    const int info = singular_step(a), lost = CONTINUES ? 0 : info; /* from that step on */
    const unsigned char *pivots = reinterpret_cast<Exchanges *>(a + N * PITCH)->pivots;
    if (leader && args.operand[SMM_INFO].data) *beside<int>(args, SMM_INFO, matrix, 1) = info;

    if constexpr (FACTORS) {
        if (mine && args.operand[SMM_LU_pivots].data) {
            int *to = beside<int>(args, SMM_LU_pivots, matrix, N);
            for (int k = lane(); k < N; k += LANES)
                to[REST_FLAT ? k : k * args.operand[SMM_LU_pivots].row] =
                    FIRST_ROW + (lost && k >= lost - 1 ? k : pivots[k]);
        }
        __syncwarp();
        if (lost)
            for (int e = lane(); e < N * PITCH; e += LANES) a[e] = not_a_number();
        __syncwarp();
        unstage<N, N, PITCH, SMM_SOURCE_C, SMM_ORDER_C>(images, c, first, count, N, where[2]);
    } else if constexpr (SOLVES) {
        const bool inverted = invert_pivots(a);
        for (long long done = 0;;) {
            const int cols = columns_of(args.k - done);
            if constexpr (IN_PANELS) {
                T x[ROWS], *y = a + B;
                solve_upper(x, a, y, inverted);
                __syncwarp(); /* lanes without a last row have read row N - 1 */
#pragma unroll
                for (int r = 0; r < ROWS; r++)
                    if (lane() + LANES * r < N) y[(lane() + LANES * r) * B_PITCH] = info ? not_a_number() : x[r];
            } else {
                if (__builtin_expect(inverted, 1))
                    solve_triangle<false>(a, a + B, cols);
                else
                    for (int j = 0; j < cols; j++) solve_carefully(a, a + B + j);
                if (__builtin_expect(info, 0))
                    for (int e = lane(); e < N * K; e += LANES) a[B + e / K * B_PITCH + e % K] = not_a_number();
            }
            __syncwarp();
            unstage<N, K, B_PITCH, SMM_SOURCE_C, SMM_ORDER_C>(images + B, c, first, count, cols, where[2]);
            done += K;
            if (!KEEPS || IN_PANELS || done >= args.k) break;
            __syncwarp();
            if (threadIdx.x % 32 < count)
                where[1][threadIdx.x % 32] += K * b.col, where[2][threadIdx.x % 32] += K * c.col;
            __syncwarp();
            stage<N, K, B_PITCH, SMM_SOURCE_B, SMM_ORDER_B>(images + B, b, first, count, columns_of(args.k - done),
                                                            where[1]);
            copies_done();
            __syncwarp();
            exchange_rows(a + B, pivots);
            solve_triangle<true>(a, a + B, K);
        }
    } else {
        const Determinant<T> det = determinant_of(a, pivots);
        InMemory *to =
            static_cast<InMemory *>(c.data) + (SMM_SOURCE_C == SMM_SOURCE_FLAT ? matrix : offset_of(args, c, matrix));
        if (leader) *to = SMM_OP == SMM_OP_DET ? det.value() : det.sign();
        if (leader && SMM_OP == SMM_OP_SLOGDET)
            *beside<InMemory>(args, SMM_SLOGDET_logabsdet, matrix, 1) = det.log_magnitude();
    }
}
