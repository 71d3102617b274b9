/* lu_rows_numbers.cuh: LU of complex matrices with partial pivoting by |re| + |im| (LU), and what follows from it: X of
 * A X = B (SOLVE), the inverse as that of B = I (INV), and determinants (DET, SLOGDET); the bits of
 * kernels/lu_numbers.h.
 *
 * lu_rows.cuh says how LANES threads factor a matrix. X follows from the factors: of one right-hand side, which took
 * part in the elimination, row by row; of several, each by a lane.
 *
 * Grid: one block per MATRICES matrices; LANES threads to a matrix; MATRICES * LANES = THREADS.
 * Shared memory: see Own; of right-hand sides there are SMM_K at a time.
 * Operands: any that args.h can describe. May overwrite A or B in place, matrix by matrix.
 * Limits: n <= 32; LANES a power of two. */
#include "common.cuh"
#include "lanes.cuh"
#include "element.cuh"
#include "element_vectors.cuh"
#include "operand_numbers.cuh"
#include "determinant_of_numbers.cuh"

constexpr int N = SMM_N, MATRICES = SMM_MATRICES, THREADS = SMM_THREADS;
constexpr bool FACTORS = SMM_OP == SMM_OP_LU, INVERTS = SMM_OP == SMM_OP_INV, SOLVES = SMM_OP == SMM_OP_SOLVE;
constexpr bool CARRIES = SOLVES && SMM_K == 1, SOLVES_AFTER = INVERTS || (SOLVES && !CARRIES);
constexpr int K = INVERTS ? N : SOLVES ? SMM_K : 0;
#include "lu_rows.cuh"
static_assert(SMM_SHARED == MATRICES * (NUMBERS * sizeof(Number) + 2 * N * sizeof(int)), "the plan counts otherwise");

/* x becomes L^-1 x, or U^-1 x: UPPER, from its last element on; WIDTH steps at a time, whose columns are a vector of
 * each row. As in Rows::factor, the steps of a panel share a text, in which its registers move on. BEGIN elements are
 * done. */
template <bool UPPER, int BEGIN = 0> __device__ inline void substitute(Number (&x)[N], const Own &o) {
    constexpr int COUNT = least(PANEL, N - BEGIN), REST = BEGIN + COUNT;
    const auto place = [](int step) { return UPPER ? N - 1 - step : step; };
#pragma unroll TURNS
    for (int t = 0; t < COUNT; t += WIDTH) {
        const int k = place(BEGIN + t), first = UPPER ? k - (WIDTH - 1) : k;
        Number now[WIDTH];
#pragma unroll
        for (int e = 0; e < WIDTH; e++) {
            const int row = place(BEGIN + t + e);
            now[e] = x[place(BEGIN + e)];
#pragma unroll
            for (int d = 0; d < e; d++) now[e] = multiply_subtract(o.a(row, place(BEGIN + t + d)), now[d], now[e]);
            if (UPPER) now[e] = by_pivot(now[e], o.inverse(row), o.a(row, row));
        }
        const auto less = [&](int row, Number y) {
            const Vector<WIDTH, Number> l = load<WIDTH>(&o.a(row, first));
#pragma unroll
            for (int e = 0; e < WIDTH; e++) y = multiply_subtract(l.x[UPPER ? WIDTH - 1 - e : e], now[e], y);
            return y;
        };
#pragma unroll
        for (int s = WIDTH; s < COUNT; s++) {
            const Number was = x[place(BEGIN + s)], y = less(place(BEGIN + least(t + s, COUNT - 1)), was);
            x[place(BEGIN + s - WIDTH)] = select(t + s < COUNT, y, was);
        }
#pragma unroll
        for (int e = 0; e < WIDTH; e++) x[place(REST - WIDTH + e)] = now[e];
#pragma unroll
        for (int s = REST; s < N; s++) x[place(s)] = less(place(s), x[place(s)]);
    }
    if constexpr (REST < N) substitute<UPPER, REST>(x, o);
}

/* Several right-hand sides become solutions, of which each lane takes some. */
__device__ inline void solve(const Own &o) {
#pragma unroll 1
    for (int c = lane(); c < ceil_div(K, LANES) * LANES; c += LANES) {
        Number x[N];
#pragma unroll
        for (int i = 0; i < N; i++) x[i] = INVERTS ? element_of(o.order(i) == c) : o.x(o.order(i), least(c, K - 1));
        substitute<false>(x, o);
        substitute<true>(x, o);
        __syncwarp();
#pragma unroll
        for (int i = 0; i < N; i++)
            if (c < K) o.x(i, c) = x[i];
    }
}

/* Start copying numbers of the block's matrices, COLS columns from `column` on, to place(q, i, j). */
template <int SOURCE, int ORDER, int COLS, class Place>
__device__ inline void stage(const smm_cuda_args &args, int which, long long first, int count, long long column,
                             long long columns, Place place) {
    if constexpr (ALIGNED && SOURCE == SMM_SOURCE_FLAT && ORDER == SMM_ORDER_ROW && COLS % WIDEST == 0) {
        const Number *from = static_cast<const Number *>(args.operand[which].data) + first * (N * COLS);
        for (int e = threadIdx.x * WIDEST; e < count * (N * COLS); e += THREADS * WIDEST)
            copy<WIDEST>(&place(e / (N * COLS), e / COLS % N, e % COLS), from + e);
    } else
        for_numbers<THREADS, SOURCE, ORDER, N * COLS, N, COLS>(args, which, first, count, 0, column,
                                                               [&](const Number *from, int q, int i, int j) {
                                                                   if (column + j < columns)
                                                                       copy<1>(&place(q, i, j), from);
                                                               });
}
/* Write them back; infos: of each matrix of the block. */
template <int COLS, class Place>
__device__ inline void unstage(const smm_cuda_args &args, long long first, int count, long long column,
                               long long columns, const int *infos, Place place) {
    if constexpr (ALIGNED && SMM_SOURCE_C == SMM_SOURCE_FLAT && SMM_ORDER_C == SMM_ORDER_ROW && COLS % WIDEST == 0) {
        Number *to = static_cast<Number *>(args.operand[SMM_C].data) + first * (N * COLS);
        for (int e = threadIdx.x * WIDEST; e < count * (N * COLS); e += THREADS * WIDEST) {
            const int q = e / (N * COLS);
            Vector<WIDEST, Number> v = load<WIDEST>(&place(q, e / COLS % N, e % COLS));
#pragma unroll
            for (int x = 0; x < WIDEST; x++) v.x[x] = select(infos[q], not_an_element(), v.x[x]);
            store<WIDEST>(to + e, v);
        }
    } else
        for_numbers<THREADS, SMM_SOURCE_C, SMM_ORDER_C, N * COLS, N, COLS>(
            args, SMM_C, first, count, 0, column, [&](Number *to, int q, int i, int j) {
                if (column + j < columns) *to = infos[q] ? not_an_element() : place(q, i, j);
            });
}

extern "C" __global__ void __launch_bounds__(THREADS) SMM_NAME(const __grid_constant__ smm_cuda_args args) {
    extern __shared__ __align__(16) Number shared[];
    __shared__ int infos[MATRICES];
    const long long first = static_cast<long long>(blockIdx.x) * MATRICES, left = args.batch - first;
    const int count = left < MATRICES ? static_cast<int>(left) : MATRICES, own = threadIdx.x / LANES;
    const bool leads = own < count && lane() == 0;
    const Own o(shared, own);
    const auto a = [&](int q, int i, int j) -> Number & { return Own(shared, q).a(i, j); };
    const auto x = [&](int q, int i, int j) -> Number & { return Own(shared, q).x(i, j); };

    stage<SMM_SOURCE_A, SMM_ORDER_A, N>(args, SMM_A, first, count, 0, N, a);
    if constexpr (CARRIES) stage<SMM_SOURCE_B, SMM_ORDER_B, 1>(args, SMM_B, first, count, 0, 1, x);
    copies_done();
    __syncthreads();
    /* The threads of matrices that the last block lacks work, too, on what is there; nobody stores it. */
    Rows rows;
    rows.read(o);
    __syncwarp();
    rows.factor(o);
    if (lane() == 0) infos[own] = GOES_ON ? 0 : rows.info;
    if (leads && args.operand[SMM_INFO].data) *beside<int>(args, SMM_INFO, first + own, 1) = rows.info;

    if constexpr (CARRIES) {
        rows.solve_upper(o);
        __syncthreads();
        unstage<1>(args, first, count, 0, 1, infos, x);
    } else if constexpr (SOLVES_AFTER) {
        const long long columns = INVERTS ? N : args.k;
#pragma unroll 1
        for (long long column = 0; column < columns; column += K) {
            if constexpr (SOLVES) {
                stage<SMM_SOURCE_B, SMM_ORDER_B, K>(args, SMM_B, first, count, column, columns, x);
                copies_done();
            }
            __syncthreads();
            solve(o);
            __syncthreads();
            unstage<K>(args, first, count, column, columns, infos, x);
            __syncthreads();
        }
    } else if constexpr (FACTORS) {
        __syncthreads();
        unstage<N>(args, first, count, 0, N, infos, a);
        for (int e = threadIdx.x; e < count * N; e += THREADS) {
            const int q = e / N, i = e % N, info = infos[q];
            beside<int>(args, SMM_LU_pivots, first + q, N)[i * (REST_FLAT ? 1 : args.operand[SMM_LU_pivots].row)] =
                FIRST_ROW + (info && i + 1 >= info ? i : Own(shared, q).pivots[i]);
        }
    } else if (leads) {
        const long long q = first + own;
        const long long at = SMM_SOURCE_C == SMM_SOURCE_FLAT ? q : offset_of(args, args.operand[SMM_C], q);
        give_determinant<1>(
            rows.odd, rows.singular, [&](int i) { return o.a(i, i); },
            [&](Number d) { static_cast<Number *>(args.operand[SMM_C].data)[at] = d; },
            [&](T d) { *beside<T>(args, SMM_SLOGDET_logabsdet, q, 1) = d; });
    }
}
