/* qr_columns.cuh: A = Q R by Householder reflectors, in registers: R above the reflectors in C and tau in D (QR_RAW);
 * Q in C and R in D (QR); R in D (QR_R). LAPACK's geqrf and orgqr (Golub and Van Loan, Matrix Computations, 5.2.1).
 *
 * A lane holds whole columns, so that v^T x is a sum within the lane, in the promised order of rows. What the lanes of
 * a matrix exchange is v alone, through shared memory. Small orders have a text for each step; larger ones, where that
 * would not fit the registers or the instruction cache, may go through loops of SMM_STEPS steps.
 *
 * Grid: one block per MATRICES matrices; LANES threads to a matrix.
 * Shared memory: of each matrix the vectors v, two by turns or, to form Q, all, or in loops R and V; then the image of
 * A, later those of the results, where SMM_THROUGH_SHARED moves flat matrices in whole vectors.
 * Operands: any that args.h can describe; SMM_K is the number of columns of Q.
 * May overwrite A in place, matrix by matrix: a block has read all it needs before it writes.
 * Limits: LANES a power of two <= 32; MATRICES * LANES = THREADS; M * ceil(N / LANES) elements stay in registers;
 * SMM_STEPS > 1 divides LANES, and SMM_WIDE is then 1. */
#include "common.cuh"
#include "lanes.cuh"
#include "element.cuh"
#include "element_vectors.cuh"
#include "shared_tile.cuh"
#include "householder.cuh"

constexpr bool RAW = SMM_OP == SMM_OP_QR_RAW, FORMS_Q = SMM_OP == SMM_OP_QR;
constexpr int BESIDE = SMM_OP == SMM_OP_QR_RAW ? SMM_QR_RAW_tau : SMM_OP == SMM_OP_QR ? SMM_QR_r : SMM_QR_R_r;
constexpr int M = SMM_M, N = SMM_N, P = min_of(M, N), K = RAW ? P : SMM_K, MATRICES = SMM_MATRICES,
              THREADS = SMM_THREADS;
constexpr int WIDE = SMM_WIDE; /* neighbouring columns of a lane */

/* So many steps share the text of a loop; or each has its own, which knows where row k is. In a loop the rows that wait
 * move up by one register at each step, so that the next one finds its rows where the last one did, and what is final
 * of R and V goes to shared memory, to stay there until all is stored. */
constexpr int STEPS = max_of(SMM_STEPS, 1);
constexpr bool IN_LOOPS = STEPS > 1;

/* Columns in shared memory: tau, in the place of v_k = 1, and the rest of v of some steps. IN_LOOPS: of all steps, and
 * what is above of R; then space for the rows that a loop counts too many and, in the last place, the element of R that
 * belongs where tau is. An odd number of vectors, in order that columns differ in banks, as do matrices. */
constexpr int KEPT = IN_LOOPS ? N : FORMS_Q ? P : LANES > 1 ? 2 : 0;
constexpr int PITCH = (ceil_div(IN_LOOPS ? M + STEPS + VECTOR - 1 : M, VECTOR) | IN_LOOPS) * VECTOR;
constexpr int REFLECTORS = KEPT * PITCH + (KEPT * PITCH / VECTOR % 2 ? 0 : VECTOR);

constexpr bool FLAT_A = SMM_SOURCE_A == SMM_SOURCE_FLAT && SMM_ORDER_A == SMM_ORDER_ROW;
constexpr bool FLAT_C = SMM_SOURCE_C == SMM_SOURCE_FLAT && SMM_ORDER_C == SMM_ORDER_ROW;
typedef SharedTile<1, M * N, SMM_SOURCE_FLAT, MATRICES, SMM_PAD> ImageA;
typedef SharedTile<1, M * K, SMM_SOURCE_FLAT, MATRICES, SMM_PAD> ImageQ;
typedef SharedTile<1, K * N, SMM_SOURCE_FLAT, MATRICES, SMM_PAD> ImageR;
static_assert(SMM_SHARED ==
                  sizeof(T) * ((KEPT ? MATRICES * REFLECTORS : 0) +
                               (SMM_THROUGH_SHARED ? max_of(ImageA::ELEMENTS, max_of(FORMS_Q ? ImageQ::ELEMENTS : 0,
                                                                                     RAW ? 0 : ImageR::ELEMENTS))
                                                   : 0)),
              "the plan counts otherwise");

/* Column of slot c of this lane, and which columns slot c of all lanes is: the first .. last. */
__device__ inline int column(int c) { return (c / WIDE * LANES + lane()) * WIDE + c % WIDE; }
__device__ constexpr int first_column(int c) { return c / WIDE * LANES * WIDE + c % WIDE; }
__device__ constexpr int last_column(int c) { return (c / WIDE * LANES + LANES - 1) * WIDE + c % WIDE; }
/* Where column k is. */
__device__ constexpr int slot_of(int k) { return k / (LANES * WIDE) * WIDE + k % WIDE; }
__device__ constexpr int owner_of(int k) { return k % (LANES * WIDE) / WIDE; }

__host__ __device__ constexpr int slots(int cols) { return ceil_div(ceil_div(cols, LANES), WIDE) * WIDE; }

/* COLS columns of ROWS rows. */
template <int COLS_> struct Columns {
    static constexpr int COLS = COLS_, SLOTS = slots(COLS_);
    T x[SLOTS][M];
};
typedef Columns<N> ColumnsA;
typedef Columns<K> ColumnsQ;

/* --- memory to registers and back --- */

/* The matrix of a thread in an operand with arbitrary strides, or in an image. */
template <class X> struct MatrixView {
    X *data;
    long long row, col;
};
__device__ inline MatrixView<InMemory> view_of(const smm_cuda_args &args, int operand, long long q, bool flat, int rows,
                                               int cols) {
    const smm_cuda_operand &x = args.operand[operand];
    InMemory *data = static_cast<InMemory *>(x.data);
    if (flat) return {data + q * (rows * cols), cols, 1};
    return {data + offset_of(args, x, q), x.row, x.col};
}

template <class C, int ROWS, bool VECTORS, class X> __device__ inline void load_columns(C &a, MatrixView<X> from) {
#pragma unroll
    for (int i = 0; i < ROWS; i++)
#pragma unroll
        for (int c = 0; c < C::SLOTS; c += WIDE) {
            const int j = column(c);
            const X *at = from.data + i * from.row + j * from.col;
            if constexpr (VECTORS) {
                Vector<WIDE> v = {};
                if (C::COLS > last_column(c) || j < C::COLS) v = load<WIDE>(at);
#pragma unroll
                for (int e = 0; e < WIDE; e++) a.x[c + e][i] = v.x[e];
            } else {
#pragma unroll
                for (int e = 0; e < WIDE; e++) a.x[c + e][i] = j + e < C::COLS ? T(at[e * from.col]) : T(0);
            }
        }
}

/* Rows 0 .. ROWS - 1, of which value(slot, row) is the element. */
template <class C, int ROWS, bool VECTORS, class X, class Value>
__device__ inline void store_columns(MatrixView<X> to, Value value) {
#pragma unroll
    for (int i = 0; i < ROWS; i++)
#pragma unroll
        for (int c = 0; c < C::SLOTS; c += WIDE) {
            const int j = column(c);
            X *at = to.data + i * to.row + j * to.col;
            if constexpr (VECTORS) {
                Vector<WIDE> v;
#pragma unroll
                for (int e = 0; e < WIDE; e++) v.x[e] = value(c + e, i);
                if (C::COLS > last_column(c) || j < C::COLS) store<WIDE>(at, v);
            } else {
#pragma unroll
                for (int e = 0; e < WIDE; e++)
                    if (j + e < C::COLS) at[e * to.col] = value(c + e, i);
            }
        }
}

/* Whether rows of an operand or image are whole vectors of WIDE elements. */
__host__ __device__ constexpr bool has_whole_vectors(int cols, bool flat) {
    return WIDE > 1 && flat && ALIGNED && cols % WIDE == 0;
}

/* One result: through its image, or straight from registers. */
template <class C, class I, int ROWS, bool FLAT, class Value>
__device__ inline void put(const smm_cuda_args &args, int operand, long long first, int count, T *image, Value value) {
    const int mine = threadIdx.x / LANES;
    if constexpr (SMM_THROUGH_SHARED && FLAT) {
        const smm_cuda_operand &x = args.operand[operand];
        T *at = image + I::shift_of(static_cast<InMemory *>(x.data) + first * (ROWS * C::COLS));
        __syncthreads();
        store_columns<C, ROWS, has_whole_vectors(C::COLS, true)>(MatrixView<T>{at + mine * I::MATRIX, C::COLS, 1},
                                                                 value);
        __syncthreads();
        unstage<I, THREADS>(image, x, first, count, nullptr);
    } else if (mine < count) {
        store_columns<C, ROWS, has_whole_vectors(C::COLS, FLAT)>(
            view_of(args, operand, first + mine, FLAT, ROWS, C::COLS), value);
    }
}

#include "qr_columns_steps.cuh"

template <class X>
__device__ inline void load_and_factor(ColumnsA &a, T (&tau)[ColumnsA::SLOTS], T *reflectors, MatrixView<X> from) {
    load_columns<ColumnsA, M, has_whole_vectors(N, FLAT_A)>(a, from);
    if (__builtin_expect(!__any_sync(WARP, !factor(a, tau, reflectors)), 1)) return;
    ColumnsA b;
    T t[ColumnsA::SLOTS];
    factor_carefully(b.x, t, reflectors, from);
    if (IN_LOOPS) return;
#pragma unroll
    for (int c = 0; c < ColumnsA::SLOTS; c++) {
        tau[c] = t[c];
#pragma unroll
        for (int i = 0; i < M; i++) a.x[c][i] = b.x[c][i];
    }
}

extern "C" __global__ void BOUNDS SMM_NAME(const __grid_constant__ smm_cuda_args args) {
    extern __shared__ __align__(16) T shared[];
    const long long first = static_cast<long long>(blockIdx.x) * MATRICES;
    const int count = static_cast<int>(args.batch - first < MATRICES ? args.batch - first : MATRICES);
    const int mine = threadIdx.x / LANES;
    const long long q = first + (mine < count ? mine : 0); /* beyond the batch: some matrix, which is not stored */
    T *reflectors = shared + (KEPT ? mine * REFLECTORS : 0), *image = shared + (KEPT ? MATRICES * REFLECTORS : 0);

    ColumnsA a;
    T tau[ColumnsA::SLOTS];
    if constexpr (SMM_THROUGH_SHARED && FLAT_A) {
        T *at = image + stage<ImageA, THREADS, SMM_ASYNC>(image, args.operand[SMM_A], first, count, nullptr, 0, 0);
        copies_done();
        __syncthreads();
        load_and_factor(a, tau, reflectors, MatrixView<T>{at + (mine < count ? mine : 0) * ImageA::MATRIX, N, 1});
    } else {
        load_and_factor(a, tau, reflectors, view_of(args, SMM_A, q, FLAT_A, M, N));
    }
    fetch_ahead<SMM_SOURCE_A, 32 / LANES, M * N>(args, args.operand[SMM_A], first + threadIdx.x / 32 * (32 / LANES));

    const auto element = [&](int c, int i) { return IN_LOOPS ? reflectors[place(i, column(c))] : a.x[c][i]; };
    if (RAW) {
        put<ColumnsA, ImageA, M, FLAT_C>(args, SMM_C, first, count, image, element);
        const MatrixView<InMemory> d = view_of(args, BESIDE, q, REST_FLAT, P, 1);
#pragma unroll
        for (int c = 0; c < ColumnsA::SLOTS; c++)
            if (mine < count && column(c) < P)
                d.data[column(c) * d.row] = IN_LOOPS ? reflectors[last_place(column(c))] : tau[c];
    } else {
        put<ColumnsA, ImageR, K, REST_FLAT>(args, BESIDE, first, count, image, [&](int c, int i) {
            return i < P && i <= column(c) ? element(c, i < P ? i : 0) : T(0);
        });
    }
    if constexpr (FORMS_Q) {
        ColumnsQ x;
        __syncwarp();
        form(x, reflectors);
        put<ColumnsQ, ImageQ, M, FLAT_C>(args, SMM_C, first, count, image, [&](int c, int i) { return x.x[c][i]; });
    }
    if (args.operand[SMM_INFO].data && lane() == 0 && mine < count) *beside<int>(args, SMM_INFO, first + mine, 1) = 0;
}
