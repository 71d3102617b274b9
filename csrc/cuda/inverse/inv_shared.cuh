/* inv_shared.cuh: C = inverse of A, by Gauss-Jordan elimination in place with partial pivoting, in shared memory.
 *
 * Higham, Accuracy and Stability of Numerical Algorithms, section 14.4, a panel of columns at a time: those are
 * eliminated first, in registers; what that does to all others follows in one pass over them. Every element still goes
 * through the steps one by one, so the bits are the plain order's.
 *
 * What limits this is the bandwidth of shared memory, and after it the number of instructions. So a matrix has as few
 * threads as will do, down to one, which share its rows: what they do not share they need not tell each other.
 * Neighbouring threads have neighbouring matrices, at the same place of each, which is in different banks. No row
 * changes its place: pivot rows are found by index, and rows and columns are exchanged as the inverse is written.
 * What is called A and C are their transposes (inverse.h).
 *
 * Grid: one block per MATRICES matrices; LANES threads to a matrix. Warps have nothing to do with each other.
 * Shared memory: for each warp its matrices, and their Lists.
 * Operands: any that args.h can describe. May be in place: a warp has read its matrices before it writes.
 * Limits: 4 <= n <= 32; LANES 1, 2, 4 or 8; SMM_PANEL a multiple of STRIDE; MATRICES * LANES = THREADS, whole warps. */
#include "common.cuh"
#include "lanes.cuh"
#include "pivots.cuh"

constexpr int N = SMM_N, PANEL = SMM_PANEL, MATRICES = SMM_MATRICES, THREADS = SMM_THREADS;
constexpr int OF_WARP = 32 / LANES;      /* matrices */
constexpr int ROWS = ceil_div(N, LANES); /* of a thread: part() + LANES r */

__device__ inline int matrix() { return threadIdx.x % OF_WARP; }    /* of the warp */
__device__ inline int part() { return threadIdx.x % 32 / OF_WARP; } /* of the matrix */
__device__ inline int row_of(int r) { return part() + LANES * r; }
__device__ inline bool is_row(int r) { return N % LANES == 0 || r < ROWS - 1 || row_of(r) < N; }
__device__ inline void sync_parts() {
    if (LANES > 1) __syncwarp();
}

/* --- the matrices of a warp --- */

/* An image is a matrix by rows, in vectors of STRIDE elements, which divide them; the next one begins an odd number of
 * vectors further. */
constexpr int STRIDE = width_of(N), PITCH = N, MATRIX = (N * N / STRIDE | 1) * STRIDE;
constexpr int IMAGES = ceil_div(OF_WARP * MATRIX, VECTOR) * VECTOR; /* elements */

#include "inv_singularity.cuh"
#include "inv_image.cuh"

/* Flat matrices first .. first + count of A, by columns, come to the images. The threads of a warp copy ACROSS columns
 * of so few rows at a time that most of them lie in different banks. */
__device__ inline void read_columns(T *images, const smm_cuda_args &args, long long first, int count) {
    constexpr int DOWN = sizeof(T) == 4 ? 4 : 2, ACROSS = 32 / DOWN;
    const InMemory *from = static_cast<const InMemory *>(args.operand[SMM_A].data) + first * (N * N);
    const int down = threadIdx.x % DOWN, along = threadIdx.x % 32 / DOWN;
#pragma unroll 1
    for (int q = 0; q < count; q++) {
#pragma unroll
        for (int j = 0; j < N; j += ACROSS)
#pragma unroll
            for (int i = 0; i < N; i += DOWN)
                if ((N % DOWN == 0 || i + down < N) && (N % ACROSS == 0 || j + along < N))
                    copy<1>(images + q * MATRIX + (i + down) * N + j + along,
                            from + q * (N * N) + (j + along) * N + i + down);
    }
    copies_done();
    __syncwarp();
}

struct Lists {
    Arrival arrival;                   /* of the images */
    unsigned short pivot[N][OF_WARP];  /* where in its image the pivot row of step k begins */
    unsigned short column[OF_WARP][N]; /* which step has made column j of the inverse: the one with pivot row j */
};
constexpr int OF_WARP_SHARED = IMAGES + ceil_div(sizeof(Lists), 16) * VECTOR; /* elements */
static_assert(SMM_SHARED == THREADS / 32 * OF_WARP_SHARED * sizeof(T), "the plan counts otherwise");

/* The images become matrices first .. first + count of C. Row i of the inverse is the pivot row of step i. Of flat
 * matrices, 8 threads write the same one: they reach memory together, and banks apart from those of the others. */
__device__ inline void write(const T *images, const Lists &lists, const smm_cuda_args &args, long long first,
                             int count) {
    constexpr int PIECES = N * N / WIDTH, TURNS = ceil_div(PIECES, 8), TOGETHER = max_of(16 / TURNS, 1);
    const smm_cuda_operand &x = args.operand[SMM_C];
    InMemory *to = static_cast<InMemory *>(x.data);
    const auto element = [&](int q, int i, int j) {
        return images[q * MATRIX + lists.pivot[i][q] + lists.column[q][j]];
    };
    if constexpr (SMM_SOURCE_C != SMM_SOURCE_FLAT) {
        each_element<SMM_ORDER_C>(args, x, first, count,
                                  [&](int q, int i, int j, long long offset) { to[offset] = element(q, j, i); });
    } else {
        to += first * (N * N);
#pragma unroll TOGETHER
        for (int q = threadIdx.x % 32 / 8; q < count; q += 4) {
#pragma unroll 16
            for (unsigned turn = 0; turn < TURNS; turn++) {
                const unsigned p = turn * 8 + threadIdx.x % 8;
                if (p >= PIECES) continue;
                Vector<WIDTH> v;
#pragma unroll
                for (int e = 0; e < WIDTH; e++) {
                    const int line = p / (N / WIDTH), place = p % (N / WIDTH) * WIDTH + e;
                    v.x[e] = C_BY_COLUMNS ? element(q, place, line) : element(q, line, place);
                }
                store_global<WIDTH>(to + q * (N * N) + p * WIDTH, v);
            }
        }
    }
}

/* --- the steps of a panel --- */

/* A panel of STEPS columns, as the threads of a matrix know it. */
template <int STEPS> struct Panel {
    T *image;            /* of its first column */
    T f[ROWS][STEPS];    /* a thread's rows: their multipliers */
    int pivot[STEPS];    /* where the pivot rows begin */
    T own[STEPS][STEPS]; /* their multipliers, right and left of the pivot */
    T u[STEPS][STEPS];   /* they themselves as their steps find them, right of the pivot */
    T inverse[STEPS];    /* of the pivots */

    /* What step s finds in the row that begins here. */
    __device__ void find(T (&x)[STEPS], int begin, int s) const {
        load_row<STEPS, STRIDE>(x, image + begin);
#pragma unroll
        for (int t = 0; t < s; t++) {
            x[t] = product(x[t], inverse[t]);
#pragma unroll
            for (int j = t + 1; j < STEPS; j++) x[j] = multiply_add(-x[t], u[t][j], x[j]);
        }
    }

    __device__ void take_step(int s, int pivot_row, SingularityTest &test) {
        pivot[s] = pivot_row * N;
        find(own[s], pivot[s], s);
        inverse[s] = test.invert(own[s][s]);
#pragma unroll
        for (int t = 0; t < s; t++) own[t][s] = product(own[t][s], inverse[s]);
#pragma unroll
        for (int r = 0; r < ROWS; r++) f[r][s] = product(f[r][s], inverse[s]);
#pragma unroll
        for (int j = s + 1; j < STEPS; j++) {
            u[s][j] = own[s][j];
            own[s][j] = product(own[s][j], inverse[s]);
#pragma unroll
            for (int t = 0; t < s; t++) own[t][j] = multiply_add(-own[t][s], u[s][j], own[t][j]);
#pragma unroll
            for (int r = 0; r < ROWS; r++) f[r][j] = multiply_add(-f[r][s], u[s][j], f[r][j]);
        }
    }

    /* Elements x of the pivot rows in a column, from step `first` on: at their own steps, and in the end. */
    __device__ void at_steps(T (&x)[STEPS], int first) const {
#pragma unroll
        for (int s = first; s < STEPS; s++) {
#pragma unroll
            for (int t = first; t < s; t++) x[s] = multiply_add(-own[s][t], x[t], x[s]);
        }
    }
    __device__ T in_the_end(const T (&x)[STEPS], int s, int first) const {
        T y = s < first ? T(0) : product(x[s], inverse[s]);
#pragma unroll
        for (int t = max_of(s + 1, first); t < STEPS; t++) y = multiply_add(-own[s][t], x[t], y);
        return y;
    }
};

/* --- the choice of pivots --- */

/* Which row is the next pivot row. */
struct Pivots {
    unsigned short *begin;                                 /* of Lists::pivot, of this matrix */
    unsigned waiting = N == 32 ? ~0u : (1u << N % 32) - 1; /* bit i: row i has not been a pivot row */

    /* That of step k + s. */
    template <int STEPS> __device__ int choose(const Panel<STEPS> &panel, int k, int s) {
        unsigned largest = 0, second = 0;
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            if (!is_row(r)) continue;
            const unsigned word = (leading_bits(panel.f[r][s]) & MAGNITUDE_BITS) | LANES * r;
            const unsigned key = waiting >> part() >> LANES * r & 1 ? word : 0;
            second = max(second, min(largest, key));
            largest = max(largest, key);
        }
        if (LANES > 1) largest |= part();
#pragma unroll
        for (int bits = OF_WARP; bits < 32; bits *= 2) {
            const unsigned one = __shfl_xor_sync(WARP, largest, bits), other = __shfl_xor_sync(WARP, second, bits);
            second = max(max(second, other), min(largest, one));
            largest = max(largest, one);
        }
        int row = largest & ROW_BITS;
        if (__builtin_expect(is_special(largest) || (largest ^ second) <= ROW_BITS, 0))
            row = choose_by_all_bits(panel, k, s);
        waiting &= ~(1u << row);
        begin[(k + s) * OF_WARP] = row * N; /* every part does; choose_by_all_bits() may read what another one wrote */
        sync_parts();
        return row;
    }

  private:
    /* The largest magnitude, of equals the first in place. NaN is chosen only if it is in place k + s. */
    template <int STEPS> __device__ int choose_by_all_bits(const Panel<STEPS> &panel, int k, int s) {
        decltype(magnitude(T(0))) largest = 0;
        int chosen = 0, first = N;
#pragma unroll 1
        for (int row = 0; row < N; row++) {
            if (!(waiting >> row & 1)) continue;
            T x[STEPS];
            panel.find(x, row * N, s);
            const int place = position_of(row, k + s, [&](int t) { return begin[t * OF_WARP] / N; });
            const auto size = isnan(x[s]) && place != k + s ? 0 : magnitude(x[s]);
            if (size > largest || (size == largest && place < first)) largest = size, chosen = row, first = place;
        }
        return chosen;
    }
};

/* --- what they do to the matrix --- */

/* In the place of the panel: its column c becomes that of the identity, which step c is the first to change. */
template <int STEPS> __device__ inline void replace(const Panel<STEPS> &panel) {
    T u[STEPS][STEPS]; /* of column c: the elements of the pivot rows */
#pragma unroll
    for (int c = 0; c < STEPS; c++) {
#pragma unroll
        for (int s = 0; s < STEPS; s++) u[c][s] = s == c;
        panel.at_steps(u[c], c);
    }
#pragma unroll
    for (int j = 0; j < STEPS; j += STRIDE) {
        Vector<STRIDE> x;
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            if (!is_row(r)) continue;
#pragma unroll
            for (int e = 0; e < STRIDE; e++) {
                x.x[e] = 0;
#pragma unroll
                for (int s = j + e; s < STEPS; s++) x.x[e] = multiply_add(-panel.f[r][s], u[j + e][s], x.x[e]);
            }
            store<STRIDE>(panel.image + row_of(r) * N + j, x);
        }
        sync_parts();
#pragma unroll
        for (int s = 0; s < STEPS; s++) {
#pragma unroll
            for (int e = 0; e < STRIDE; e++) x.x[e] = panel.in_the_end(u[j + e], s, j + e);
            if (s % LANES == part()) store<STRIDE>(panel.image + panel.pivot[s] + j, x);
        }
    }
}

/* A vector of columns beside the panel, which begins here. The pivot rows' own elements are put right in the end. */
template <int STEPS> __device__ inline void update(const Panel<STEPS> &panel, T *column) {
    T u[STRIDE][STEPS];
#pragma unroll
    for (int s = 0; s < STEPS; s++) {
        const Vector<STRIDE> x = load<STRIDE>(column + panel.pivot[s]);
#pragma unroll
        for (int e = 0; e < STRIDE; e++) u[e][s] = x.x[e];
    }
    sync_parts();
#pragma unroll
    for (int e = 0; e < STRIDE; e++) panel.at_steps(u[e], 0);
    constexpr int TOGETHER = 4; /* rows: reads before the first one is waited for */
#pragma unroll
    for (int r = 0; r < ROWS; r += TOGETHER) {
        Vector<STRIDE> x[TOGETHER];
#pragma unroll
        for (int t = 0; t < TOGETHER && r + t < ROWS; t++)
            if (is_row(r + t)) x[t] = load<STRIDE>(column + row_of(r + t) * N);
#pragma unroll
        for (int t = 0; t < TOGETHER && r + t < ROWS; t++) {
            if (!is_row(r + t)) continue;
#pragma unroll
            for (int s = 0; s < STEPS; s++)
#pragma unroll
                for (int e = 0; e < STRIDE; e++) x[t].x[e] = multiply_add(-panel.f[r + t][s], u[e][s], x[t].x[e]);
        }
#pragma unroll
        for (int t = 0; t < TOGETHER && r + t < ROWS; t++)
            if (is_row(r + t)) store<STRIDE>(column + row_of(r + t) * N, x[t]);
    }
    sync_parts();
#pragma unroll
    for (int s = 0; s < STEPS; s++) {
        Vector<STRIDE> x;
#pragma unroll
        for (int e = 0; e < STRIDE; e++) x.x[e] = panel.in_the_end(u[e], s, 0);
        if (s % LANES == part()) store<STRIDE>(column + panel.pivot[s], x);
    }
}

/* Steps k .. k + STEPS. */
template <int STEPS> __device__ inline void eliminate(T *image, Pivots &pivots, SingularityTest &test, int k) {
    Panel<STEPS> panel;
    panel.image = image + k;
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        if (is_row(r)) load_row<STEPS, STRIDE>(panel.f[r], panel.image + row_of(r) * N);
#pragma unroll
    for (int s = 0; s < STEPS; s++) panel.take_step(s, pivots.choose(panel, k, s), test);
    sync_parts();
    replace(panel);
#pragma unroll 1
    for (int j = 0; j < N - STEPS; j += STRIDE) update(panel, image + (j < k ? j : j + STEPS));
    sync_parts();
}

/* --- the kernel --- */

extern "C" __global__ void BOUNDS SMM_NAME(const __grid_constant__ smm_cuda_args args) {
    extern __shared__ __align__(16) T shared[];
    const long long first = static_cast<long long>(blockIdx.x) * MATRICES + threadIdx.x / 32 * OF_WARP;
    const int count = static_cast<int>(args.batch - first < OF_WARP ? args.batch - first : OF_WARP);
    if (count <= 0) return;
    T *images = shared + threadIdx.x / 32 * OF_WARP_SHARED, *image = images + matrix() * MATRIX;
    Lists &lists = *reinterpret_cast<Lists *>(images + IMAGES);

    if constexpr (SMM_SOURCE_A == SMM_SOURCE_FLAT && A_BY_COLUMNS)
        read_columns(images, args, first, count);
    else
        read(images, args, first, count, &lists.arrival);
    Pivots pivots{&lists.pivot[0][matrix()]};
    SingularityTest test;
#pragma unroll 1
    for (int k = 0; k + PANEL <= N; k += PANEL) eliminate<PANEL>(image, pivots, test, k);
    if constexpr (N % PANEL > 0) eliminate<max_of(N % PANEL, 1)>(image, pivots, test, N - N % PANEL);

    for (int k = part(); k < N; k += LANES) lists.column[matrix()][lists.pivot[k][matrix()] / N] = k;
#pragma unroll 8
    for (int e = part() * STRIDE; e < N * N; e += LANES * STRIDE) {
        const Vector<STRIDE> x = load<STRIDE>(image + e);
#pragma unroll
        for (int v = 0; v < STRIDE; v++) test.add(x.x[v]);
    }
#pragma unroll
    for (int bits = OF_WARP; bits < 32; bits *= 2) test.squares += __shfl_xor_sync(WARP, test.squares, bits);
    if (__builtin_expect(confirm_singular(args, first, count, matrix(), part() == 0, test), 0))
        for (int e = part(); e < N * N; e += LANES) image[e] = not_a_number();
    __syncwarp();
    write(images, lists, args, first, count);
}
