/* systems_shared.cuh: systems.cuh of the matrices of a call.
 *
 * Grid: one block per MATRICES matrices; LANES threads to a matrix. Of matrices OUTSIDE, as many blocks as fit the
 * device, which stay.
 * Shared memory: the elements of all matrices, unless these are OUTSIDE, and what is beside them; then their integers;
 * COLUMNS right-hand sides at a time.
 * Operands: any that args.h can describe. May overwrite A or B in place, matrix by matrix.
 * Limits: LANES a power of two, up to 32 for complex matrices and LU of rectangular ones alone; MATRICES * LANES =
 * THREADS. */
#include "common.cuh"
#include "lanes.cuh"
#include "element.cuh"
#include "operand_elements.cuh"
#include "systems.cuh"
#include "systems_determinant.cuh"
#if SMM_OP == SMM_OP_INV && !SMM_COMPLEX
#include "inv_panels.cuh"
#else
/* A becomes what the operation returns or solves with. */
template <class Load> __device__ inline Outcome work_out(const MatrixWorkspace &o, Load load) {
    load(OF_ADJOINT);
    __syncthreads();
    return prepare(o);
}
__device__ inline Element result(const MatrixWorkspace &o, int i, int j) { return o.factor(i, j); }
#endif

constexpr int MATRICES = SMM_MATRICES, THREADS = SMM_THREADS;
constexpr int INSIDE = OUTSIDE ? 0 : MATRIX, ELEMENTS = INSIDE + BESIDE + RHS;
static_assert(SMM_SHARED == MATRICES * (ELEMENTS * sizeof(Element) + INTEGERS * sizeof(int)),
              "the plan counts otherwise");

__device__ inline MatrixWorkspace workspace_of(const smm_cuda_args &args, T *shared, int matrix) {
    Element *const all = reinterpret_cast<Element *>(shared), *const own = all + matrix * ELEMENTS;
    Element *const outside = static_cast<Element *>(args.workspace) + (blockIdx.x * MATRICES + matrix) * MATRIX;
    return {OUTSIDE ? outside : own, own + INSIDE + BESIDE, own + INSIDE,
            reinterpret_cast<int *>(all + MATRICES * ELEMENTS) + matrix * INTEGERS};
}

/* Whether a thread saw none but finite elements. */
__device__ inline bool load_matrices(const smm_cuda_args &args, T *shared, long long first, int count,
                                     bool transposes) {
    bool finite = true;
    fetch_elements<THREADS, SMM_SOURCE_A, SMM_ORDER_A, M, N, Stored>(
        args, SMM_A, first, count, [&](Element x, int q, int i, int j) {
            workspace_of(args, shared, q).a(transposes ? j : i, transposes ? i : j) = OF_ADJOINT ? conjugate(x) : x;
            if (ELIMINATES) finite &= isfinite(real_of(x));
        });
    return finite;
}

/* Columns of right-hand sides from `column` on, of which there may be fewer than COLUMNS: the rest is zero. */
__device__ inline void load_columns(const smm_cuda_args &args, T *shared, long long first, int count,
                                    long long column) {
    constexpr int WIDTH = max_of(COLUMNS, 1);
    if constexpr (INVERTS)
        for (int e = threadIdx.x; e < MATRICES * N * WIDTH; e += THREADS)
            workspace_of(args, shared, e / (N * WIDTH)).x(e / WIDTH % N, e % WIDTH) =
                element_of(static_cast<T>(e / WIDTH % N == column + e % WIDTH));
    else
        for_elements<THREADS, SMM_SOURCE_B, SMM_ORDER_B, N * WIDTH, N, WIDTH, Stored>(
            args, SMM_B, first, count, 0, column, [&](const Stored *from, int q, int i, int j) {
                workspace_of(args, shared, q).x(i, j) = column + j < args.k ? Element(*from) : element_of(0);
            });
}

/* Matrices first .. first + count - 1. The threads of matrices that the last block lacks work, too, on what is there;
 * nobody stores it. */
__device__ inline void compute(const smm_cuda_args &args, T *shared, int *infos, long long first, int count) {
    const int own = threadIdx.x / LANES;
    const MatrixWorkspace o = workspace_of(args, shared, own);
    if constexpr (SMM_OP == SMM_OP_LU_SOLVE)
        for (int e = threadIdx.x; e < count * N; e += THREADS)
            workspace_of(args, shared, e / N).pivot(e % N) =
                beside<const int>(args, SMM_LU_SOLVE_pivots, first + e / N,
                                  N)[e % N * (REST_FLAT ? 1 : args.operand[SMM_LU_SOLVE_pivots].row)] -
                FIRST_ROW;
    const auto load = [&](bool transposes) { return load_matrices(args, shared, first, count, transposes); };
    const Outcome outcome =
        work_out(o, [&](bool transposes) { return load_matrices(args, shared, first, count, transposes); });
    if (!lane()) {
        infos[own] = CONTINUES ? 0 : outcome.info;
        if (own < count && args.operand[SMM_INFO].data) *beside<int>(args, SMM_INFO, first + own, 1) = outcome.info;
    }
    if constexpr (SOLVES) {
        const long long columns = INVERTS ? N : args.k;
#pragma unroll 1
        for (long long column = 0; column < columns; column += COLUMNS) {
            __syncthreads();
            load_columns(args, shared, first, count, column);
            __syncthreads();
            solve(o);
            __syncthreads();
            for_elements<THREADS, SMM_SOURCE_C, SMM_ORDER_C, INVERTS ? N * N : N * COLUMNS, N, COLUMNS, Stored>(
                args, SMM_C, first, count, 0, column, [&](Stored *to, int q, int i, int j) {
                    if (column + j < columns) *to = infos[q] ? not_an_element() : workspace_of(args, shared, q).x(i, j);
                });
        }
    } else if constexpr (FACTORS || ELIMINATES) {
        __syncthreads();
        for_elements<THREADS, SMM_SOURCE_C, SMM_ORDER_C, M * N, M, N, Stored>(
            args, SMM_C, first, count, 0, 0, [&](Stored *to, int q, int i, int j) {
                *to = infos[q] || outcome.is_nan ? not_an_element() : result(workspace_of(args, shared, q), i, j);
            });
        for (int e = threadIdx.x; SMM_OP == SMM_OP_LU && e < count * STEPS; e += THREADS) {
            const int q = e / STEPS, i = e % STEPS, info = infos[q];
            beside<int>(args, SMM_LU_pivots, first + q, STEPS)[i * (REST_FLAT ? 1 : args.operand[SMM_LU_pivots].row)] =
                FIRST_ROW + (info && i + 1 >= info ? i : workspace_of(args, shared, q).pivot(i));
        }
    } else if (own < count && !lane()) {
        const long long q = first + own;
        const long long at = SMM_SOURCE_C == SMM_SOURCE_FLAT ? q : offset_of(args, args.operand[SMM_C], q);
        give_determinant(
            o, outcome.singular, [&](Element x) { static_cast<Stored *>(args.operand[SMM_C].data)[at] = x; },
            [&](T x) { *beside<InMemory>(args, SMM_SLOGDET_logabsdet, q, 1) = x; });
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) SMM_NAME(const __grid_constant__ smm_cuda_args args) {
    extern __shared__ __align__(16) T shared[];
    __shared__ int infos[MATRICES];
    long long first = static_cast<long long>(blockIdx.x) * MATRICES;
    do {
        const long long left = args.batch - first;
        compute(args, shared, infos, first, left < MATRICES ? static_cast<int>(left) : MATRICES);
        first += static_cast<long long>(gridDim.x) * MATRICES;
        if (OUTSIDE) __syncthreads();
    } while (OUTSIDE && first < args.batch);
}
