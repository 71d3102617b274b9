/* lu_lanes.cuh: P A = L U (LU), X of A X = B (SOLVE), or the determinant (DET, SLOGDET), in registers; of complex
 * matrices also the inverse (INV), as X of A X = I.
 *
 * Right-looking LU, one step after the other (Golub and Van Loan, Matrix Computations, algorithm 3.4.1). LANES threads
 * share a matrix: column j is the registers j / LANES of lane j % LANES, so that each looks for pivots by itself, and
 * exchanges rows by selecting. A single right-hand side is one more column; more of them are solved from the factors,
 * which are a thread's own registers or, where lanes share a matrix, its image, each by a lane.
 *
 * Grid: one block per MATRICES matrices; LANES threads to a matrix; MATRICES * LANES = THREADS.
 * Shared memory: the images of the matrices (MATRIX elements each; none with LANES = 1 and THROUGH_SHARED = 0, where
 * threads use vectors of the memory themselves); where several right-hand sides follow, their images (RHS elements
 * each) and, if lanes share a matrix, RECIPROCALS of the pivots; LU: the pivots, SOLVE: the right-hand side, or the
 * order of the rows, N to a matrix; the offsets of matrices with arbitrary strides.
 * Operands: any that args.h can describe; of right-hand sides there are SMM_K.
 * May overwrite A or B in place, matrix by matrix: a block has read all it needs before it writes.
 * Limits: n <= 32; LANES a power of two. */
#include "common.cuh"
#include "lanes.cuh"
#include "element.cuh"
#include "element_vectors.cuh"
#include "as_lapack.cuh"
#include "determinant.cuh"
#if SMM_COMPLEX
#include "determinant_complex.cuh"
#endif

constexpr bool FACTORS = SMM_OP == SMM_OP_LU, SOLVES = SMM_OP == SMM_OP_SOLVE, INVERTS = SMM_OP == SMM_OP_INV;
constexpr bool CARRIES = SOLVES && SMM_K == 1, SOLVES_AFTER = (SOLVES && !CARRIES) || INVERTS;
constexpr bool KEEPS = FACTORS || SOLVES_AFTER;        /* L */
constexpr bool SHARES = SOLVES_AFTER && SMM_LANES > 1; /* the factors among lanes */
constexpr int N = SMM_N, K = INVERTS ? SMM_N : SOLVES ? SMM_K : 0, MATRICES = SMM_MATRICES, THREADS = SMM_THREADS;
constexpr int COLUMNS = ceil_div(N + CARRIES, LANES); /* of a lane */
constexpr bool STAGES = SMM_ASYNC, UNSTAGES = (FACTORS || CARRIES) && (LANES > 1 || SMM_THROUGH_SHARED);

constexpr bool A_FLAT = SMM_SOURCE_A == SMM_SOURCE_FLAT && SMM_ORDER_A == SMM_ORDER_ROW;
constexpr bool B_FLAT = SMM_SOURCE_B == SMM_SOURCE_FLAT && (SMM_ORDER_B == SMM_ORDER_ROW || CARRIES);
constexpr bool C_FLAT = SMM_SOURCE_C == SMM_SOURCE_FLAT && (SMM_ORDER_C == SMM_ORDER_ROW || !(FACTORS || SOLVES_AFTER));
constexpr bool ALL_FLAT = (!STAGES || (A_FLAT && (!CARRIES || B_FLAT))) && (!UNSTAGES || C_FLAT) &&
                          (!SOLVES_AFTER || ((INVERTS || B_FLAT) && C_FLAT));

/* Images follow each other at an odd number of vectors, so that equal elements of 8 of them lie in different banks;
 * where a matrix is no whole number of vectors, n is odd and so is that of elements. */
__host__ __device__ constexpr int apart(int elements) {
    return elements % WIDEST == 0 ? (elements / WIDEST | 1) * WIDEST : elements;
}
constexpr bool WHOLE = N * N % WIDEST == 0; /* matrices are whole vectors */
constexpr int MATRIX = apart(N * N), RHS = apart(N * K);
constexpr int WIDTH = widest_of(N); /* of a row's vectors in the image */
constexpr bool HAS_IMAGES = STAGES || SHARES || (FACTORS && UNSTAGES);
__host__ __device__ constexpr int round_up_to_vectors(int elements) { return ceil_div(elements, WIDEST) * WIDEST; }
constexpr int IMAGES = HAS_IMAGES ? round_up_to_vectors(MATRICES * MATRIX) : 0;
constexpr int ALL_RHS = SOLVES_AFTER ? round_up_to_vectors(MATRICES * RHS) : 0;
constexpr int RECIPROCALS = SHARES ? round_up_to_vectors(MATRICES * N) : 0;
/* After them come of each row an integer, or the right-hand side. */
constexpr int OF_ROW = SHARES || (FACTORS && UNSTAGES)   ? sizeof(int)
                       : CARRIES && (STAGES || UNSTAGES) ? sizeof(Element)
                                                         : 0;
static_assert(SMM_SHARED == (IMAGES + ALL_RHS + RECIPROCALS) * sizeof(Element) + MATRICES * N * OF_ROW,
              "the plan counts otherwise");

#include "lu_lanes_columns.cuh"
#include "lu_lanes_image.cuh"

/* Where a matrix of so many elements begins. */
template <bool FLAT>
__device__ inline Stored *begin_of(const smm_cuda_args &args, const smm_cuda_operand &x, long long matrix,
                                   int elements) {
    return static_cast<Stored *>(x.data) + (FLAT ? matrix * elements : offset_of(args, x, matrix));
}

/* Integers of a matrix, by the widest vectors that they allow. */
__device__ inline void store_integers(int *to, const int (&x)[N]) {
    constexpr int LENGTH = N % 4 == 0 ? 4 : N % 2 == 0 ? 2 : 1;
    struct alignas(LENGTH * sizeof(int)) Integers {
        int x[LENGTH];
    };
    const bool aligned = reinterpret_cast<unsigned long long>(to) % sizeof(Integers) == 0;
#pragma unroll
    for (int i = 0; i < N; i += LENGTH) {
        Integers v;
#pragma unroll
        for (int e = 0; e < LENGTH; e++) {
            v.x[e] = x[i + e];
            if (!aligned) to[i + e] = x[i + e];
        }
        if (aligned) *reinterpret_cast<Integers *>(to + i) = v;
    }
}

/* --- what follows from the factors --- */

/* The determinant, or its sign and logarithm, from the diagonal of U: to their places. */
__device__ inline void write_determinant(const smm_cuda_args &args, long long matrix, const Steps &steps,
                                         const Element (&diagonal)[N]) {
    const smm_cuda_operand &c = args.operand[SMM_C];
    Stored &to =
        *(static_cast<Stored *>(c.data) + (SMM_SOURCE_C == SMM_SOURCE_FLAT ? matrix : offset_of(args, c, matrix)));
#if SMM_COMPLEX
    bool singular = false;
#pragma unroll
    for (int k = 0; k < N; k++) singular |= steps.info == k + 1 && is_zero(diagonal[k]);
    give_determinant<N>(
        __popc(steps.exchanged) % 2, singular, [&](int k) { return diagonal[k]; }, [&](Complex x) { to = x; },
        [&](T x) { *beside<T>(args, SMM_SLOGDET_logabsdet, matrix, 1) = x; });
#else
    Determinant<T> det;
    const auto factor = [&](int k) { return steps.exchanged >> k & 1 ? -diagonal[k] : diagonal[k]; };
#pragma unroll
    for (int k = 0; k < N; k++) det.multiply(factor(k));
    if (!det.safe()) {
#pragma unroll
        for (int k = 0; k < N; k++) det.multiply_scaled(factor(k));
    }
    to = SMM_OP == SMM_OP_DET ? det.value() : det.sign();
    if (SMM_OP == SMM_OP_SLOGDET) *beside<InMemory>(args, SMM_SLOGDET_logabsdet, matrix, 1) = det.log_magnitude();
#endif
}

/* --- the kernel --- */

/* All that is done to a matrix in registers. Of those beyond the batch, lanes work on the last one. */
__device__ inline void run(const smm_cuda_args &args, const Shared &of, long long matrix, bool mine, Steps &steps) {
    const smm_cuda_operand &a = args.operand[SMM_A], &b = args.operand[SMM_B], &c = args.operand[SMM_C];
    const long long read = mine ? matrix : args.batch - 1;
    Columns x;
    Element right[N];
    if constexpr (STAGES || A_FLAT)
        x.read<LANES == 1 && WHOLE && (STAGES || ALIGNED) ? WIDEST : 1>(
            either<STAGES>(of.image, begin_of<A_FLAT>(args, a, read, N * N)));
    else
        x.read(begin_of<A_FLAT>(args, a, read, N * N), a.row, a.col);
    if constexpr (CARRIES) {
        if constexpr (STAGES || B_FLAT)
            load_row<N, STAGES || ALIGNED ? WIDTH : 1>(right,
                                                       either<STAGES>(of.right, begin_of<B_FLAT>(args, b, read, N)));
        else {
            const Stored *from = begin_of<B_FLAT>(args, b, read, N);
#pragma unroll
            for (int i = 0; i < N; i++) right[i] = from[i * b.row];
        }
        x.set_right(right);
    }
    if (LANES > 1) __syncwarp();
    x.factor(steps);

    if constexpr (SOLVES_AFTER) {
        if constexpr (SHARES) {
            x.write<1>(of.image);
#pragma unroll
            for (int slot = 0; slot < COLUMNS; slot++)
                if (lane() + LANES * slot < N) of.reciprocals[lane() + LANES * slot] = x.inverse[slot];
            if (lane() == 0) store_integers(of.pivots, x.order);
            __syncwarp();
        }
        if (mine) x.solve(of, steps.info);
    } else if constexpr (CARRIES) {
        x.solve_upper(right);
#pragma unroll
        for (int i = 0; i < N; i++) right[i] = steps.info ? not_an_element() : right[i];
        if (!mine || lane() != x.RIGHT) return;
        if constexpr (UNSTAGES || C_FLAT)
            store_row<N, UNSTAGES || ALIGNED ? WIDTH : 1>(
                either<UNSTAGES>(of.right, begin_of<C_FLAT>(args, c, matrix, N)), right);
        else {
            Stored *to = begin_of<C_FLAT>(args, c, matrix, N);
#pragma unroll
            for (int i = 0; i < N; i++) to[i * c.row] = right[i];
        }
    } else if constexpr (FACTORS) {
        if (!CONTINUES && __builtin_expect(steps.info, 0)) {
#pragma unroll
            for (int k = 0; k < N; k++) {
                if (k + 1 >= steps.info) x.pivots[k] = k;
#pragma unroll
                for (int slot = 0; slot < COLUMNS; slot++) x.a[k][slot] = not_an_element();
            }
        }
        if (!mine) return;
        if constexpr (UNSTAGES || C_FLAT)
            x.write<LANES == 1 && WHOLE && (UNSTAGES || ALIGNED) ? WIDEST : 1>(
                either<UNSTAGES>(of.image, begin_of<C_FLAT>(args, c, matrix, N * N)));
        else
            x.write(begin_of<C_FLAT>(args, c, matrix, N * N), c.row, c.col);
        if (lane() != 0) return;
        if constexpr (UNSTAGES)
            store_integers(of.pivots, x.pivots);
        else if (args.operand[SMM_LU_pivots].data) {
            int *to = beside<int>(args, SMM_LU_pivots, matrix, N);
            if constexpr (REST_FLAT)
                store_integers(to, x.pivots);
            else {
#pragma unroll
                for (int k = 0; k < N; k++) to[k * args.operand[SMM_LU_pivots].row] = x.pivots[k];
            }
        }
    } else {
        Element diagonal[N];
#pragma unroll
        for (int k = 0; k < N; k++) diagonal[k] = from_lane(x.a[k][k / LANES], k % LANES);
        if (mine && lane() == 0) write_determinant(args, matrix, steps, diagonal);
    }
}

extern "C" __global__ void BOUNDS SMM_NAME(const __grid_constant__ smm_cuda_args args) {
    extern __shared__ __align__(16) Element shared[];
    __shared__ long long where[3][ALL_FLAT ? 1 : MATRICES];
    const long long first = static_cast<long long>(blockIdx.x) * MATRICES;
    const int count = static_cast<int>(args.batch - first < MATRICES ? args.batch - first : MATRICES);
    Element *rhs = shared + IMAGES, *reciprocals = rhs + ALL_RHS, *list = reciprocals + RECIPROCALS;

    if constexpr (!ALL_FLAT) {
        for (int q = threadIdx.x; q < count; q += THREADS)
            for (int x = 0; x < 3; x++) where[x][q] = offset_of(args, args.operand[operand_of_abc(x)], first + q);
        __syncthreads();
    }
    if constexpr (STAGES) {
        stage<A_FLAT, N, MATRIX, SMM_ORDER_A>(shared, args.operand[SMM_A], first, count, where[0]);
        if constexpr (CARRIES) stage<B_FLAT, 1, N, SMM_ORDER_ROW>(list, args.operand[SMM_B], first, count, where[1]);
    }
    if constexpr (SOLVES_AFTER && !INVERTS)
        stage<B_FLAT, K, RHS, SMM_ORDER_B>(rhs, args.operand[SMM_B], first, count, where[1]);
    if constexpr (STAGES || SOLVES_AFTER) {
        copies_done();
        __syncthreads();
    }

    const int q = threadIdx.x / LANES;
    const long long matrix = first + q;
    const bool mine = q < count;
    const Shared of = {shared + q * MATRIX, rhs + q * RHS, reciprocals + q * N, list + q * N,
                       reinterpret_cast<int *>(list) + q * N};
    Steps steps;
    run(args, of, matrix, mine, steps);
    if (mine && lane() == 0 && args.operand[SMM_INFO].data) *beside<int>(args, SMM_INFO, matrix, 1) = steps.info;

    if constexpr (UNSTAGES || SOLVES_AFTER) __syncthreads();
    if constexpr (SOLVES_AFTER) unstage<C_FLAT, K, RHS, SMM_ORDER_C>(rhs, args.operand[SMM_C], first, count, where[2]);
    if constexpr (UNSTAGES && CARRIES)
        unstage<C_FLAT, 1, N, SMM_ORDER_ROW>(list, args.operand[SMM_C], first, count, where[2]);
    if constexpr (UNSTAGES && FACTORS) {
        unstage<C_FLAT, N, MATRIX, SMM_ORDER_C>(shared, args.operand[SMM_C], first, count, where[2]);
        const smm_cuda_operand &x = args.operand[SMM_LU_pivots];
        const int *pivots = reinterpret_cast<const int *>(list);
        int *to = static_cast<int *>(x.data);
        for (int e = threadIdx.x; to && e < count * N; e += THREADS)
            to[REST_FLAT ? first * N + e : offset_of(args, x, first + e / N) + e % N * x.row] = pivots[e];
    }
}
