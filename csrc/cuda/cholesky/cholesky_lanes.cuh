/* cholesky_lanes.cuh: A = L L^T, L with zeros above its diagonal (CHOLESKY), or X of A X = B (SOLVE_POS); of A only the
 * lower triangle is read.
 *
 * Right-looking Cholesky (Golub and Van Loan, Matrix Computations, section 4.2.5) in registers. The lanes of a matrix
 * are a grid over which rows and columns are dealt out by turns, so that a column of L is passed on in two ways: each
 * lane needs its elements of the lane's rows and of the lane's columns. A grid one lane wide has whole rows in lanes.
 * A single right-hand side is dealt out like a row, and becomes L^-1 b on the way; the rest is solved from L's image.
 *
 * Grid: one block per MATRICES matrices; LANES threads to a matrix, SMM_ACROSS of them across.
 * Shared memory: the image of A, later that of L in its place; none if SMM_THROUGH_SHARED is 0: then a thread has a
 * matrix of its own, and both operands are flat. SOLVE_POS: the image of several right-hand sides, the reciprocals of
 * the pivots, and a single right-hand side.
 * Operands: any that args.h can describe. May overwrite A in place, matrix by matrix.
 * Limits: LANES and SMM_ACROSS powers of two, SMM_ACROSS^2 <= LANES <= 32; MATRICES * LANES = THREADS. */
#include "common.cuh"
#include "lanes.cuh"
#include "element.cuh"
#include "element_vectors.cuh"
#include "shared_tile.cuh"

constexpr bool SOLVES = SMM_OP == SMM_OP_SOLVE_POS;
constexpr int N = SMM_N, K = SOLVES ? SMM_K : 0, MATRICES = SMM_MATRICES, THREADS = SMM_THREADS;
#include "rhs.cuh"

constexpr bool CARRIES = K == 1, ALONE = CARRIES && LANES == 1;
constexpr bool A_BY_ROWS = SMM_ORDER_A == SMM_ORDER_ROW;
constexpr int SOURCE_L = SOLVES ? SMM_SOURCE_FLAT : SMM_SOURCE_C;
constexpr bool L_BY_ROWS = SOLVES || SMM_ORDER_C == SMM_ORDER_ROW || SMM_SOURCE_C == SMM_SOURCE_STRIDED;

/* --- which elements a lane has --- */

constexpr int ACROSS = SMM_ACROSS, DOWN = LANES / ACROSS;

/* Neighbouring columns that one lane has. Those of a row of lanes must not go beyond a turn of the rows. */
__host__ __device__ constexpr bool fits_turn(int wide) {
    return N % wide == 0 && (ACROSS == 1 || DOWN % (ACROSS * wide) == 0);
}
constexpr int WIDE = !ALIGNED ? 1 : fits_turn(VECTOR) ? VECTOR : fits_turn(2) ? 2 : 1;
constexpr int TURN = ACROSS * WIDE;
constexpr int ROWS = ceil_div(N, DOWN), COLS = ceil_div(N, TURN) * WIDE;

__device__ inline int down() { return lane() / ACROSS; }
__device__ inline int shuffle_xor() { return lane() % ACROSS; }
__device__ inline int row_of(int r) { return DOWN * r + down(); }
__device__ inline int col_of(int c) { return c / WIDE * TURN + shuffle_xor() * WIDE + c % WIDE; }

/* The first and the last column of slot c in any lane; the slots of row slot r that are not all above the diagonal. */
__device__ constexpr int first_col(int c) { return c / WIDE * TURN + c % WIDE; }
__device__ constexpr int last_col(int c) { return first_col(c) + (ACROSS - 1) * WIDE; }
__device__ constexpr int depth(int r) { return min_of(ceil_div(min_of(DOWN * (r + 1), N), TURN) * WIDE, COLS); }

struct Triangle {
    T x[ROWS][COLS];
};

/* --- images --- */

/* Lines are padded, and matrices skewed, so that the lanes that are served at once meet different banks: by rows they
 * read WIDE elements each, by columns one. */
template <bool BY_ROWS, int SOURCE> struct Lay {
    static constexpr int EACH = BY_ROWS ? WIDE : 1, TOGETHER = 128 / (EACH * sizeof(T));
    static constexpr int PAD = SMM_PAD ? max_of(TURN / VECTOR, 1) : 0;
    typedef SharedTile<N, N, SOURCE, MATRICES, PAD> Plain;
    static constexpr int WANTED = BY_ROWS ? DOWN * (Plain::PITCH / EACH) : LANES; /* distance of matrices, in EACH */
    static constexpr int DISTANCE = (WANTED - N * Plain::PITCH / EACH) & (TOGETHER - 1);
    static constexpr int SKEW = SMM_PAD && LANES < TOGETHER ? ceil_div(DISTANCE * EACH, VECTOR) : 0;

    /* Of A no vector is read that lies above the diagonal. */
    struct I : SharedTile<N, N, SOURCE, MATRICES, PAD, SKEW> {
        static constexpr bool QUICK = true;
        __device__ static bool wanted(int line, int place) {
            return place + VECTOR > N || (BY_ROWS ? place <= line : place + VECTOR > line);
        }
    };
};
typedef typename Lay<A_BY_ROWS, SMM_SOURCE_A>::I ImageA;
typedef typename Lay<L_BY_ROWS, SOURCE_L>::I ImageL;
constexpr int IMAGES = SMM_THROUGH_SHARED ? max_of(ImageA::ELEMENTS, ImageL::ELEMENTS) : 0;
static_assert(SMM_SHARED == (IMAGES + (SOLVES ? RHS + MATRICES * N * (CARRIES ? 2 : 1) : 0)) * sizeof(T),
              "the plan counts otherwise");

__device__ inline void read(Triangle &a, const T *image) {
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const int i = N % DOWN ? min_of(row_of(r), N - 1) : row_of(r);
#pragma unroll
        for (int c = 0; c < depth(r); c += WIDE) {
            if (last_col(c) >= N && col_of(c) >= N) continue;
            if constexpr (A_BY_ROWS) {
                const Vector<WIDE> v = load<WIDE>(image + i * ImageA::PITCH + col_of(c));
#pragma unroll
                for (int e = 0; e < WIDE; e++) a.x[r][c + e] = v.x[e];
            } else {
#pragma unroll
                for (int e = 0; e < WIDE; e++) a.x[r][c + e] = image[col_of(c + e) * ImageA::PITCH + i];
            }
        }
    }
}

__device__ inline T of_l(const Triangle &a, int r, int c) {
    if (c >= depth(r)) return 0;
    return last_col(c) <= DOWN * r || col_of(c) <= row_of(r) ? a.x[r][c] : T(0);
}

__device__ inline void write(T *image, const Triangle &a) {
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const int i = row_of(r);
        if (DOWN * (r + 1) > N && i >= N) continue;
#pragma unroll
        for (int c = 0; c < COLS; c += WIDE) {
            if (last_col(c) >= N && col_of(c) >= N) continue;
            if constexpr (L_BY_ROWS) {
                Vector<WIDE> v;
#pragma unroll
                for (int e = 0; e < WIDE; e++) v.x[e] = of_l(a, r, c + e);
                store<WIDE>(image + i * ImageL::PITCH + col_of(c), v);
            } else {
#pragma unroll
                for (int e = 0; e < WIDE; e++) image[col_of(c + e) * ImageL::PITCH + i] = of_l(a, r, c + e);
            }
        }
    }
}

/* --- the factorization --- */

/* What else becomes of a step: nothing. */
struct Nothing {
    __device__ void begin(int j, int slot, int owner, T diagonal, T inverse) {}
    __device__ void update(int c, T u) {}
};

/* The reciprocals of the pivots are kept. A right-hand side, in columns as a row of A is, becomes L^-1 b. */
struct Right {
    T y[COLS], y_of_step, own[ALONE ? N : 1], *reciprocals;
    __device__ void begin(int j, int slot, int owner, T diagonal, T inverse) {
        if (ALONE)
            own[ALONE ? j : 0] = inverse;
        else if (lane() == 0)
            reciprocals[j] = inverse;
        if (!CARRIES) return;
        y[slot] = shuffle_xor() == owner ? divide(y[slot], inverse, diagonal) : y[slot];
        y_of_step = ACROSS == 1 ? y[slot] : from_lane(y[slot], down() * ACROSS + owner);
    }
    __device__ void update(int c, T u) {
        if (CARRIES) y[c] = multiply_add(-u, y_of_step, y[c]);
    }
};

/* Returns the first step, from 1, whose pivot is not positive; or 0. Elements above the diagonal are anything. */
template <class Also> __device__ inline int factor(Triangle &a, Also &also) {
    int info = 0;
#pragma unroll
    for (int j = 0; j < N; j++) {
        const int slot = j / TURN * WIDE + j % WIDE, owner = j % TURN / WIDE; /* of column j */
        const T pivot = from_lane(a.x[j / DOWN][slot], j % DOWN * ACROSS + owner);
        T l[ROWS];
#pragma unroll
        for (int r = j / DOWN; r < ROWS; r++)
            l[r] = ACROSS == 1 ? a.x[r][slot] : from_lane(a.x[r][slot], down() * ACROSS + owner);
        const T diagonal = root(pivot), inverse = reciprocal(diagonal);
        if (!(pivot > 0) && !info) info = j + 1;
        also.begin(j, slot, owner, diagonal, inverse);
#pragma unroll
        for (int r = j / DOWN; r < ROWS; r++) {
            l[r] = product(l[r], inverse);
            if (ACROSS == 1 || shuffle_xor() == owner) a.x[r][slot] = DOWN * r <= j && row_of(r) == j ? diagonal : l[r];
        }
#pragma unroll
        for (int c = j / TURN * WIDE; c < COLS; c++) {
            if (last_col(c) <= j || first_col(c) >= N) continue;
            const T u = from_lane(l[first_col(c) / DOWN],
                                  (first_col(c) % DOWN + shuffle_xor() * WIDE) * ACROSS + shuffle_xor());
            if (first_col(c) > j || col_of(c) > j) also.update(c, u);
#pragma unroll
            for (int r = first_col(c) / DOWN; r < ROWS; r++)
                if (first_col(c) > j || col_of(c) > j) a.x[r][c] = multiply_add(-l[r], u, a.x[r][c]);
        }
    }
    return info;
}

/* --- what follows from L in its image --- */

/* The same by a thread that has all of L, whose reciprocals it kept. */
__device__ inline void solve_alone(const smm_cuda_args &args, const Triangle &l, Right &b, long long matrix, bool mine,
                                   int info) {
    const Columns c = columns_of<SMM_SOURCE_C, SMM_ORDER_C>(args, SMM_C, matrix);
#pragma unroll
    for (int j = N - 1; j >= 0; j--) {
        b.y[j] = divide(b.y[j], b.own[j], l.x[j][j]);
#pragma unroll
        for (int i = 0; i < j; i++) b.y[i] = multiply_add(-l.x[j][i], b.y[j], b.y[i]);
    }
    if (!mine) return;
#pragma unroll
    for (int i = 0; i < N; i++) c.at(i, 0) = info ? not_a_number() : b.y[i];
}

/* X, of a single right-hand side from L^-1 b; rows are spread over the lanes. */
__device__ inline void solve_adjoint(const smm_cuda_args &args, const T *l, const T *reciprocals, const T *y,
                                     long long matrix, bool mine, int info) {
    constexpr int PITCH = ImageL::PITCH, OF_LANE = ceil_div(N, LANES);
    const Columns c = columns_of<SMM_SOURCE_C, SMM_ORDER_C>(args, SMM_C, matrix);
    const auto row = [](int r) { return lane() + LANES * r; };
    T x[OF_LANE];
#pragma unroll
    for (int r = 0; r < OF_LANE; r++) x[r] = y[min_of(row(r), N - 1)];
#pragma unroll
    for (int j = N - 1; j >= 0; j--) {
        const int owner = j / LANES;
        if (lane() == j % LANES) x[owner] = divide(x[owner], reciprocals[j], l[j * (PITCH + 1)]);
        const T x_j = from_lane(x[owner], j % LANES);
#pragma unroll
        for (int r = 0; r <= owner; r++)
            if (row(r) < j) x[r] = multiply_add(-l[j * PITCH + row(r)], x_j, x[r]);
    }
#pragma unroll
    for (int r = 0; r < OF_LANE; r++)
        if (mine && row(r) < N) c.at(row(r), 0) = info ? not_a_number() : x[r];
}

__device__ inline void solve_several(const T *l, const T *reciprocals, Vector<OWN> (&x)[N]) {
    substitute<true, true, ImageL::WIDTH, ImageL::PITCH>(l, reciprocals, x);
    compiler_barrier();
    substitute<false, false, ImageL::WIDTH, ImageL::PITCH>(l, reciprocals, x);
}

/* --- the kernel --- */

/* A thread has all of a matrix, in whole vectors from memory. */
__device__ inline void factor_flat(const InMemory *from, InMemory *to, int &info, bool mine) {
    constexpr int WIDTH = ALIGNED ? width_of(N * N) : 1;
    T x[N][N];
    Triangle a;
    if (!mine) return;
#pragma unroll
    for (int e = 0; e < N * N; e += WIDTH) {
        const Vector<WIDTH> v = load<WIDTH>(from + e);
#pragma unroll
        for (int i = 0; i < WIDTH; i++) x[(e + i) / N][(e + i) % N] = v.x[i];
    }
#pragma unroll
    for (int i = 0; i < N; i++)
#pragma unroll
        for (int j = 0; j <= i; j++) a.x[i][j] = A_BY_ROWS ? x[i][j] : x[j][i];
    Nothing nothing;
    info = factor(a, nothing);
#pragma unroll
    for (int e = 0; e < N * N; e += WIDTH) {
        Vector<WIDTH> v;
#pragma unroll
        for (int i = 0; i < WIDTH; i++) {
            const int line = (e + i) / N, place = (e + i) % N;
            v.x[i] = info ? not_a_number() : L_BY_ROWS ? of_l(a, line, place) : of_l(a, place, line);
        }
        store<WIDTH>(to + e, v);
    }
}

extern "C" __global__ void BOUNDS SMM_NAME(const __grid_constant__ smm_cuda_args args) {
    extern __shared__ __align__(16) T shared[];
    constexpr bool STRIDED = SMM_SOURCE_A == SMM_SOURCE_STRIDED || SOURCE_L == SMM_SOURCE_STRIDED;
    __shared__ long long where[2][STRIDED ? MATRICES : 1];
    const smm_cuda_operand &a = args.operand[SMM_A], &c = args.operand[SMM_C];
    const long long first = static_cast<long long>(blockIdx.x) * MATRICES;
    const int count = static_cast<int>(args.batch - first < MATRICES ? args.batch - first : MATRICES);
    const int q = threadIdx.x / LANES;
    const long long matrix = first + q;
    int info = 0;
    if constexpr (SMM_THROUGH_SHARED) {
        if (STRIDED) {
            for (int q = threadIdx.x; q < count; q += THREADS) {
                where[0][q] = offset_of(args, a, first + q);
                where[1][q] = offset_of(args, c, first + q);
            }
            __syncthreads();
        }
        const int shift = stage<ImageA, THREADS, SMM_ASYNC>(shared, a, first, count, where[0],
                                                            A_BY_ROWS ? a.row : a.col, A_BY_ROWS ? a.col : a.row);
        T *rhs = shared + IMAGES, *numbers = rhs + RHS + q * N, *right = numbers + MATRICES * N;
        if constexpr (SOLVES) stage_rhs<SMM_ASYNC>(args, rhs, first, count);
        copies_done();
        __syncthreads();
        Triangle l;
        read(l, shared + shift + (SMM_SOURCE_A == SMM_SOURCE_ONE ? 0 : q * ImageA::MATRIX));
        if constexpr (SOLVES) {
            Right b;
            b.reciprocals = numbers;
            const long long read = q < count ? matrix : first;
            const Columns from = columns_of<SMM_SOURCE_B, SMM_ORDER_B>(args, SMM_B, read);
#pragma unroll
            for (int c = 0; c < COLS && CARRIES; c++) b.y[c] = from.at(min_of(col_of(c), N - 1), 0);
            info = factor(l, b);
            if (q < count && lane() == 0 && args.operand[SMM_INFO].data) *beside<int>(args, SMM_INFO, matrix, 1) = info;
            if constexpr (ALONE) {
                solve_alone(args, l, b, read, q < count, info);
                return;
            }
            __syncthreads();
            T *image = shared + q * ImageL::MATRIX;
            write(image, l);
#pragma unroll
            for (int c = 0; c < COLS && CARRIES; c++)
                if (down() == 0 && col_of(c) < N) right[col_of(c)] = b.y[c];
            __syncwarp();
            if constexpr (CARRIES)
                solve_adjoint(args, image, numbers, right, read, q < count, info);
            else
                solve_rhs(
                    args, rhs, first, count, info, [](int i) { return i; },
                    [&](Vector<OWN>(&x)[N]) { solve_several(image, numbers, x); }, [](int i) { return i; });
            return;
        }
        Nothing nothing;
        info = factor(l, nothing);
        T *image = shared;
        if (SMM_SOURCE_C == SMM_SOURCE_FLAT)
            image += ImageL::shift_of(static_cast<const InMemory *>(c.data) + first * (N * N));
        __syncthreads();
        image += q * ImageL::MATRIX;
        if (q < count) write(image, l);
        __syncwarp();
        if (q < count && info)
            for (int e = lane(); e < N * ImageL::PITCH; e += LANES) image[e] = not_a_number();
        __syncthreads();
        unstage<ImageL, THREADS>(shared, c, first, count, where[1]);
    } else {
        factor_flat(static_cast<const InMemory *>(a.data) + matrix * (N * N),
                    static_cast<InMemory *>(c.data) + matrix * (N * N), info, q < count);
    }
    if (q < count && lane() == 0 && args.operand[SMM_INFO].data) *beside<int>(args, SMM_INFO, matrix, 1) = info;
}
