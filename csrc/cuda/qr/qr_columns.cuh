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
#include "image.cuh"
#include "householder.cuh"

constexpr bool RAW = SMM_OP == SMM_OP_QR_RAW, FORMS_Q = SMM_OP == SMM_OP_QR;
constexpr int BESIDE = SMM_OP == SMM_OP_QR_RAW ? SMM_QR_RAW_tau : SMM_OP == SMM_OP_QR ? SMM_QR_r : SMM_QR_R_r;
constexpr int M = SMM_M, N = SMM_N, P = least(M, N), K = RAW ? P : SMM_K, MATRICES = SMM_MATRICES,
              THREADS = SMM_THREADS;
constexpr int WIDE = SMM_WIDE; /* neighbouring columns of a lane */

/* So many steps share the text of a loop; or each has its own, which knows where row k is. In a loop the rows that wait
 * move up by one register at each step, so that the next one finds its rows where the last one did, and what is final
 * of R and V goes to shared memory, to stay there until all is stored. */
constexpr int STEPS = most(SMM_STEPS, 1);
constexpr bool IN_LOOPS = STEPS > 1;

/* Columns in shared memory: tau, in the place of v_k = 1, and the rest of v of some steps. IN_LOOPS: of all steps, and
 * what is above of R; then space for the rows that a loop counts too many and, in the last place, the element of R that
 * belongs where tau is. An odd number of vectors, in order that columns differ in banks, as do matrices. */
constexpr int KEPT = IN_LOOPS ? N : FORMS_Q ? P : LANES > 1 ? 2 : 0;
constexpr int PITCH = (ceil_div(IN_LOOPS ? M + STEPS + VECTOR - 1 : M, VECTOR) | IN_LOOPS) * VECTOR;
constexpr int REFLECTORS = KEPT * PITCH + (KEPT * PITCH / VECTOR % 2 ? 0 : VECTOR);

constexpr bool FLAT_A = SMM_SOURCE_A == SMM_SOURCE_FLAT && SMM_ORDER_A == SMM_ORDER_ROW;
constexpr bool FLAT_C = SMM_SOURCE_C == SMM_SOURCE_FLAT && SMM_ORDER_C == SMM_ORDER_ROW;
typedef Image<1, M * N, SMM_SOURCE_FLAT, MATRICES, SMM_PAD> ImageA;
typedef Image<1, M * K, SMM_SOURCE_FLAT, MATRICES, SMM_PAD> ImageQ;
typedef Image<1, K * N, SMM_SOURCE_FLAT, MATRICES, SMM_PAD> ImageR;
static_assert(SMM_SHARED == sizeof(T) * ((KEPT ? MATRICES * REFLECTORS : 0) +
                                         (SMM_THROUGH_SHARED
                                              ? most(ImageA::ELEMENTS,
                                                     most(FORMS_Q ? ImageQ::ELEMENTS : 0, RAW ? 0 : ImageR::ELEMENTS))
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

/* The matrix of a thread in an operand that lies anyhow, or in an image. */
template <class X> struct Place {
    X *data;
    long long row, col;
};
__device__ inline Place<InMemory> place_of(const smm_cuda_args &args, int operand, long long q, bool flat, int rows,
                                           int cols) {
    const smm_cuda_operand &x = args.operand[operand];
    InMemory *data = static_cast<InMemory *>(x.data);
    if (flat) return {data + q * (rows * cols), cols, 1};
    return {data + offset_of(args, x, q), x.row, x.col};
}

template <class C, int ROWS, bool VECTORS, class X> __device__ inline void load_columns(C &a, Place<X> from) {
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
__device__ inline void store_columns(Place<X> to, Value value) {
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
__host__ __device__ constexpr bool whole(int cols, bool flat) {
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
        store_columns<C, ROWS, whole(C::COLS, true)>(Place<T>{at + mine * I::MATRIX, C::COLS, 1}, value);
        __syncthreads();
        unstage<I, THREADS>(image, x, first, count, nullptr);
    } else if (mine < count) {
        store_columns<C, ROWS, whole(C::COLS, FLAT)>(place_of(args, operand, first + mine, FLAT, ROWS, C::COLS), value);
    }
}

/* --- the factorization --- */

/* Where tau and v of step k are in shared memory, and after how many elements of a vector; and, IN_LOOPS, where element
 * (i, j) of R and V is. The same registers should make a vector at each step: in loops vectors begin at row k,
 * otherwise at rows divisible by VECTOR. */
__device__ inline int reflector_at(int k) {
    return IN_LOOPS ? k * PITCH + ceil_div(k, VECTOR) * VECTOR : KEPT ? k % KEPT * PITCH + k : 0;
}
__device__ inline int skip_of(int k) { return IN_LOOPS ? 0 : k % VECTOR; }
__device__ inline int place(int i, int j) { return reflector_at(j) - j + i; }
__device__ inline int last_place(int j) { return j * PITCH + PITCH - 1; }

/* v of `rows` rows, tau first, to shared memory and back; element(r) is that of row k + r, of a row above k any. */
template <class Element> __device__ inline void publish(T *v, int skip, int rows, Element element) {
#pragma unroll
    for (int i = 0; i < M + VECTOR; i += VECTOR) {
        if (i >= skip + rows) continue;
        Vector<VECTOR> y;
#pragma unroll
        for (int e = 0; e < VECTOR; e++) y.x[e] = i + e < skip + rows ? element(i + e - skip) : T(0);
        store<VECTOR>(v + i - skip, y);
    }
}
template <class Act> __device__ inline void receive(const T *v, int skip, int rows, Act act) {
#pragma unroll
    for (int i = 0; i < M + VECTOR; i += VECTOR) {
        if (i >= skip + rows) continue;
        const Vector<VECTOR> y = load<VECTOR>(v + i - skip);
#pragma unroll
        for (int e = 0; e < VECTOR; e++)
            if (i + e >= skip && i + e < skip + rows) act(i + e - skip, y.x[e]);
    }
}

/* The reflector of `rows` rows from x[top] on, if that is no case for factor_carefully(), of which `good` tells. */
__device__ inline Reflector reflector(const T (&x)[M], int top, int rows, bool &good) {
    T s[4] = {0, 0, 0, 0};
#pragma unroll
    for (int r = 1; r < M; r++)
        if (r < rows) s[(r - 1) % 4] = multiply_add(x[top + r], x[top + r], s[(r - 1) % 4]);
    const T rest = (s[0] + s[1]) + (s[2] + s[3]), squares = multiply_add(x[top], x[top], rest);
    good = good && is_ordinary(rest, squares);
    return ordinary_reflector_of(x[top], squares);
}

/* Step k. */
__device__ inline void step(ColumnsA &a, T (&tau)[ColumnsA::SLOTS], T *reflectors, int k, bool &good) {
    T *v = reflectors + reflector_at(k), (&x)[M] = a.x[slot_of(k)], y[M], w[ColumnsA::SLOTS], t = 0;
    if (lane() == owner_of(k)) {
        const Reflector h = reflector(x, k, M - k, good);
        tau[slot_of(k)] = t = h.tau;
        x[k] = h.beta;
#pragma unroll
        for (int i = 0; i < M; i++)
            if (i > k) x[i] = product(x[i], h.r);
        if (KEPT && (FORMS_Q || k + 1 < N)) publish(v, skip_of(k), M - k, [&](int r) { return r ? x[k + r] : t; });
    }
    if (k + 1 == N) return;
    const auto keep = [&](int r, T element) { y[r] = element; };
    if (LANES > 1) {
        __syncwarp();
        receive(v, skip_of(k), M - k, keep);
        t = y[0];
    } else {
#pragma unroll
        for (int i = 0; i < M; i++)
            if (i > k) y[i - k] = x[i];
    }
#pragma unroll
    for (int c = 0; c < ColumnsA::SLOTS; c++) {
        if (last_column(c) <= k) continue;
        w[c] = a.x[c][k];
#pragma unroll
        for (int i = 0; i < M; i++)
            if (i > k) w[c] = multiply_add(y[i - k], a.x[c][i], w[c]);
        w[c] = product(t, w[c]);
    }
    if (LANES > 1 && SMM_REFETCH) /* again, rather than to keep it meanwhile */
        receive(v + zero_after(w[ColumnsA::SLOTS - 1]), skip_of(k), M - k, keep);
#pragma unroll
    for (int c = 0; c < ColumnsA::SLOTS; c++)
        if (last_column(c) > k && (first_column(c) > k || column(c) > k)) {
            a.x[c][k] = a.x[c][k] - w[c];
#pragma unroll
            for (int i = 0; i < M; i++)
                if (i > k) a.x[c][i] = multiply_add(-y[i - k], w[c], a.x[c][i]);
        }
}

/* What a row that does not exist holds where a loop counts it, the element of v being 0. Its square vanishes in any
 * sum, its product with 0 is -0, which is neutral even to -0, and it never changes. */
constexpr T NOTHING = -static_cast<T>(DOUBLE ? 0x1p-1074 : 0x1p-149);

/* Step k of the loop from step `first` on: row k + r is x[r]. Columns up to k, whose rows have left, are worked on like
 * the others, to no effect: that is no slower, and their slot needs no branch. */
__device__ inline void step_of_loop(ColumnsA &a, T *reflectors, int first, int k, bool &good) {
    const int rows = M - first, own = slot_of(first);
    T *v = reflectors + reflector_at(k), w[ColumnsA::SLOTS], tau = 0;
    if (lane() == owner_of(k)) {
        const T(&x)[M] = a.x[own];
        bool ordinary = true;
        const Reflector h = reflector(x, 0, rows, ordinary);
        good &= ordinary; /* without a branch */
        publish(v, 0, rows, [&](int r) {
            return r == 0 ? h.tau : r > rows - STEPS && r >= M - k ? T(0) : product(x[r], h.r);
        });
        reflectors[last_place(k)] = h.beta;
    }
    if (first + 1 >= N) return;
    __syncwarp();
#pragma unroll
    for (int c = own; c < ColumnsA::SLOTS; c++) w[c] = a.x[c][0];
    receive(v, 0, rows, [&](int r, T element) {
        if (r == 0) tau = element;
#pragma unroll
        for (int c = own; c < ColumnsA::SLOTS && r; c++) w[c] = multiply_add(element, a.x[c][r], w[c]);
    });
#pragma unroll
    for (int c = own; c < ColumnsA::SLOTS; c++) {
        const int j = column(c);
        w[c] = product(tau, w[c]);
        if ((c > own || j > k) && j < N) reflectors[place(k, j)] = a.x[c][0] - w[c];
    }
    receive(v, 0, rows, [&](int r, T element) { /* again, rather than to keep it meanwhile */
#pragma unroll
                                                for (int c = own; c < ColumnsA::SLOTS && r; c++)
                                                    a.x[c][r - 1] = multiply_add(-element, w[c], a.x[c][r]);
    });
#pragma unroll
    for (int c = own; c < ColumnsA::SLOTS; c++) a.x[c][rows - 1] = NOTHING;
}

/* A becomes R above the reflectors; whether that went well. */
__device__ inline bool factor(ColumnsA &a, T (&tau)[ColumnsA::SLOTS], T *reflectors) {
    constexpr int END = least(N, M - 1); /* step M - 1 has nothing to annihilate */
    bool good = true;
#pragma unroll
    for (int first = 0; first < END; first += STEPS) {
        if (!IN_LOOPS) {
            step(a, tau, reflectors, first, good);
            continue;
        }
#pragma unroll 1
        for (int k = first; k < least(first + STEPS, END); k++) step_of_loop(a, reflectors, first, k, good);
    }
    if (IN_LOOPS) __syncwarp();
#pragma unroll
    for (int c = 0; c < ColumnsA::SLOTS; c++) {
        const int j = column(c);
        if (IN_LOOPS && j < END) { /* R and tau change places */
            T &r = reflectors[last_place(j)], &t = reflectors[place(j, j)], kept = t;
            t = r;
            r = kept;
        }
        if (END == P || last_column(c) < END || j < END || j >= N) continue;
        T &x = a.x[c][IN_LOOPS ? 0 : END];
        if (j > END) x = x - product(T(0), x); /* 0 of -0 */
        good = is_finite(x) && good;
        if (IN_LOOPS) reflectors[place(END, j)] = x;
        if (j > END) continue;
        tau[c] = 0;
        if (IN_LOOPS || FORMS_Q) reflectors[IN_LOOPS ? last_place(j) : reflector_at(j)] = 0;
    }
    return good;
}

/* The same for all matrices of a warp, columns in memory, with all that is rare: sums of squares that underflow or
 * overflow, nothing to annihilate; and once more from a scaled matrix where products of elements near the largest
 * number overflow, which leaves its mark on the diagonal of R or, right of it, in the last row. */
template <class X> __device__ __noinline__ void factor_carefully(T (*a)[M], T *tau, T *reflectors, Place<X> from) {
    bool overflows = false;
#pragma unroll 1
    for (int turn = 0; turn < 2; turn++) {
        if (turn && !__any_sync(WARP, overflows)) break;
        bool finite = true;
#pragma unroll 1
        for (int c = 0; c < ColumnsA::SLOTS; c++)
#pragma unroll 1
            for (int i = 0; i < M && column(c) < N; i++)
                a[c][i] = product(from.data[i * from.row + column(c) * from.col], overflows ? SCALE_AGAIN : T(1));
#pragma unroll 1
        for (int k = 0; k < P; k++) {
            T *v = KEPT ? reflectors + reflector_at(k) : a[slot_of(k)] + k;
            __syncwarp();
            if (lane() == owner_of(k)) {
                T *x = a[slot_of(k)];
                tau[slot_of(k)] = make_reflector(x + k, 1, M - k);
                finite = finite && is_finite(x[k]);
                for (int i = k + 1; KEPT && i < M; i++) v[i - k] = x[i];
                if (KEPT) v[0] = tau[slot_of(k)];
            }
            __syncwarp();
            const T t = KEPT ? v[0] : tau[slot_of(k)];
#pragma unroll 1
            for (int c = 0; c < ColumnsA::SLOTS; c++)
                if (column(c) > k && column(c) < N) reflect(v, t, a[c] + k, 1, 1, M - k);
        }
#pragma unroll 1
        for (int c = 0; c < ColumnsA::SLOTS; c++)
            if (column(c) >= P && column(c) < N) finite = finite && is_finite(a[c][P - 1]);
        if (turn) break;
        overflows = __ballot_sync(WARP, !finite) & same_matrix();
    }
    __syncwarp();
#pragma unroll 1
    for (int c = 0; c < ColumnsA::SLOTS; c++) {
        const int j = column(c);
        if (IN_LOOPS && j < P) reflectors[last_place(j)] = tau[c];
#pragma unroll 1
        for (int i = 0; i < P && i <= j && j < N; i++) {
            T &to = IN_LOOPS ? reflectors[place(i, j)] : a[c][i];
            to = product(a[c][i], overflows ? SCALE_BACK : T(1));
        }
    }
}

/* Column j of Q = H_0 H_1 ... e_j, from the last reflector that changes it on. Where that makes column j its own
 * w is tau, the rows below it having been -0, and 1 - tau comes on the diagonal. */
__device__ inline void form(ColumnsQ &q, const T *reflectors) {
#pragma unroll
    for (int c = 0; c < ColumnsQ::SLOTS; c++)
#pragma unroll
        for (int i = 0; i < M; i++) q.x[c][i] = column(c) < P ? -T(0) : T(i == column(c));
#pragma unroll
    for (int k = P - 1; k >= 0; k--) {
        T v[M];
        receive(reflectors + reflector_at(k), skip_of(k), M - k, [&](int r, T element) { v[r] = element; });
        const T tau = IN_LOOPS ? reflectors[last_place(k)] : v[0];
#pragma unroll
        for (int c = 0; c < ColumnsQ::SLOTS; c++) {
            if (last_column(c) < k) continue;
            T(&x)[M] = q.x[c];
            T w = 0;
#pragma unroll
            for (int i = 0; i < M; i++)
                if (i > k) w = i == k + 1 ? product(v[i - k], x[i]) : multiply_add(v[i - k], x[i], w);
            const bool own = column(c) == k;
            w = own ? tau : product(tau, w);
            if (first_column(c) >= k || column(c) >= k) {
                x[k] = own ? 1 - tau : -w;
#pragma unroll
                for (int i = 0; i < M; i++)
                    if (i > k) x[i] = multiply_add(-v[i - k], w, x[i]);
            }
        }
    }
}

template <class X>
__device__ inline void load_and_factor(ColumnsA &a, T (&tau)[ColumnsA::SLOTS], T *reflectors, Place<X> from) {
    load_columns<ColumnsA, M, whole(N, FLAT_A)>(a, from);
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
        load_and_factor(a, tau, reflectors, Place<T>{at + (mine < count ? mine : 0) * ImageA::MATRIX, N, 1});
    } else {
        load_and_factor(a, tau, reflectors, place_of(args, SMM_A, q, FLAT_A, M, N));
    }
    fetch_ahead<SMM_SOURCE_A, 32 / LANES, M * N>(args, args.operand[SMM_A], first + threadIdx.x / 32 * (32 / LANES));

    const auto element = [&](int c, int i) { return IN_LOOPS ? reflectors[place(i, column(c))] : a.x[c][i]; };
    if (RAW) {
        put<ColumnsA, ImageA, M, FLAT_C>(args, SMM_C, first, count, image, element);
        const Place<InMemory> d = place_of(args, BESIDE, q, REST_FLAT, P, 1);
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
