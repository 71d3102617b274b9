/* rhs.cuh: the right-hand sides of a block's systems, K to a matrix; several of them, if they lie flat, in an image
 * in shared memory. Whoever includes this has shared_tile.cuh and lanes.cuh, and has defined N, K, MATRICES and
 * THREADS. */
#include "substitution.cuh"

constexpr bool SEVERAL = K > 1, B_BY_ROWS = SMM_ORDER_B == SMM_ORDER_ROW;
constexpr bool THROUGH_IMAGE = SEVERAL && ALIGNED && SMM_SOURCE_B == SMM_SOURCE_FLAT &&
                               SMM_SOURCE_C == SMM_SOURCE_FLAT && SMM_ORDER_B == SMM_ORDER_C;
typedef SharedTile<B_BY_ROWS ? N : K, B_BY_ROWS ? K : N, SMM_SOURCE_FLAT, MATRICES, 0, 1> ImageB;
constexpr int RHS = THROUGH_IMAGE ? ImageB::ELEMENTS : 0;

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

/* Each lane takes columns: from(i, j) is an element of B, which it reads before to(i, j, x) writes one of X. */
template <class From, class Solve, class To>
__device__ inline void solve_columns(long long columns, From from, Solve solve, To to) {
#pragma unroll 1
    for (long long own = lane() * OWN; own < columns; own += LANES * OWN) {
        Vector<OWN> x[N];
#pragma unroll
        for (int i = 0; i < N; i++)
#pragma unroll
            for (int e = 0; e < OWN; e++) x[i].x[e] = own + e < columns ? from(i, own + e) : T(0);
        solve(x);
#pragma unroll
        for (int i = 0; i < N; i++)
#pragma unroll
            for (int e = 0; e < OWN; e++)
                if (own + e < columns) to(i, own + e, x[i].x[e]);
    }
}

/* Start copying them to their image. */
template <bool ASYNC>
__device__ inline void stage_rhs(const smm_cuda_args &args, T *image, long long first, int count) {
    if constexpr (THROUGH_IMAGE) stage<ImageB, THREADS, ASYNC>(image, args.operand[SMM_B], first, count, nullptr, 0, 0);
}

/* Row i of what is solved is row source(i) of B, and becomes row target(i) of X. All threads of the block take part;
 * those without a matrix store nothing. */
template <class Source, class Solve, class Target>
__device__ inline void solve_rhs(const smm_cuda_args &args, T *image, long long first, int count, int info,
                                 Source source, Solve solve, Target target) {
    const int q = threadIdx.x / LANES;
    const auto result = [&](T x) { return info ? not_a_number() : x; };
    if constexpr (THROUGH_IMAGE) {
        T *own = image + q * ImageB::MATRIX;
        const auto place = [&](int i, long long j) -> T & { return own[B_BY_ROWS ? i * K + j : j * N + i]; };
        if (q < count)
            solve_columns(
                K, [&](int i, long long j) { return place(source(i), j); }, solve,
                [&](int i, long long j, T x) { place(target(i), j) = result(x); });
        __syncthreads();
        unstage<ImageB, THREADS>(image, args.operand[SMM_C], first, count, nullptr);
    } else if (q < count) {
        const Columns b = columns_of<SMM_SOURCE_B, SMM_ORDER_B>(args, SMM_B, first + q);
        const Columns c = columns_of<SMM_SOURCE_C, SMM_ORDER_C>(args, SMM_C, first + q);
        solve_columns(
            args.k, [&](int i, long long j) { return T(b.at(source(i), j)); }, solve,
            [&](int i, long long j, T x) { c.at(target(i), j) = result(x); });
    }
}
