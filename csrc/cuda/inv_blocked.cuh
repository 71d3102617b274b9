/* inv_blocked.cuh: C = inverse of A, by blocked Gauss-Jordan elimination in place, with partial pivoting.
 *
 * Higham, Accuracy and Stability of Numerical Algorithms, section 14.4, by panels of SMM_PANEL columns: a panel is
 * eliminated in registers, with all its rows; its steps are then applied to the other columns, in shared memory. Every
 * element still receives its products one by one in the order of the steps, so the bits are the plain order's. No row
 * changes its place: pivot rows are found by index, and rows and columns are exchanged as the inverse is written.
 *
 * Grid: one block per MATRICES matrices; LANES threads to a matrix. Warps have nothing to do with each other.
 * Shared memory: for each matrix MATRIX elements: its image by rows, then the order of its pivots.
 * Operands: any that args.h can describe. May be in place: a warp has read its matrices before it writes.
 * Limits: n <= 32; SMM_PANEL 4 or 8; LANES a power of two; MATRICES * LANES = THREADS, whole warps. */
#include "common.cuh"
#include "lanes.cuh"

constexpr int N = SMM_N, PANEL = SMM_PANEL, MATRICES = SMM_MATRICES, THREADS = SMM_THREADS;
constexpr int OF_WARP = 32 / LANES;           /* matrices */
constexpr int ROWS = ceil_div(N, LANES);      /* of a lane: lane() + LANES r */
constexpr int SLOTS = ceil_div(PANEL, LANES); /* of a lane, for pivot rows: that of step lane() + LANES s of a panel */
constexpr int BATCH = most(SMM_COLS, 1);      /* vectors of a row that are updated at a time */
constexpr int UNROLL = SMM_UNROLL ? SMM_UNROLL : 32, PANELS_UNROLLED = SMM_UNROLL ? 1 : 8;

/* Rows are an odd number of vectors long, so that equal columns of 8 rows lie in different banks; where less than 8
 * lanes share a matrix, so do those of the matrices beside each other. */
constexpr int RIGHT = ceil_div(N, VECTOR) * VECTOR;
constexpr int PITCH = SMM_PAD && RIGHT / VECTOR % 2 == 0 ? RIGHT + VECTOR : RIGHT;
constexpr int ORDER = ceil_div(2 * sizeof(T) + 3 * N + 1, 16); /* vectors */
constexpr int SKEW = LANES < 8 ? (LANES + 8 - (N * PITCH / VECTOR + ORDER) % 8) % 8 : 0;
constexpr int MATRIX = N * PITCH + (ORDER + SKEW) * VECTOR;

/* The pivot row of each step; and, as of step `known`, where exchanges have brought each row, and the row that they
 * have brought to each place. */
struct Order {
    T inverse[2]; /* of the pivots of the last two steps */
    unsigned char row[N], place[N], row_at[N], known;
};

/* --- memory to image and back --- */

template <int WIDTH> __device__ inline void copy(T *to, const T *from) {
    const unsigned place = static_cast<unsigned>(__cvta_generic_to_shared(to));
    if constexpr (WIDTH * sizeof(T) == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(place), "l"(from));
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(place), "l"(from), "n"(WIDTH * sizeof(T)));
}

/* A warp visits flat matrices, some rows at a time, in vectors: act(matrix, row, column). */
template <int WIDTH, class Act> __device__ inline void each_vector(int count, Act act) {
    constexpr int EACH = N / WIDTH, AT_ONCE = 32 / EACH;
    const int thread = threadIdx.x % 32, first = thread / EACH, j = thread % EACH * WIDTH;
#pragma unroll
    for (int q = 0; q < OF_WARP; q++)
#pragma unroll
        for (int i = 0; i < N; i += AT_ONCE)
            if (q < count && first < least(AT_ONCE, N - i)) act(q, i + first, j);
}

/* A warp visits matrices that lie anyhow: act(matrix, row, column, offset in memory). */
template <int CONTIGUOUS, class Act>
__device__ inline void each_element(const smm_cuda_args &args, const smm_cuda_operand &x, long long first, int count,
                                    Act act) {
    for (int q = 0; q < count; q++) {
        const long long offset = offset_of(args, x, first + q);
        for (int e = threadIdx.x % 32; e < N * N; e += 32) {
            const int i = CONTIGUOUS == SMM_ORDER_COL ? e % N : e / N, j = CONTIGUOUS == SMM_ORDER_COL ? e / N : e % N;
            act(q, i, j, offset + i * x.row + j * x.col);
        }
    }
}

__device__ inline void read(T *images, const smm_cuda_args &args, long long first, int count) {
    const smm_cuda_operand &x = args.operand[SMM_A];
    const T *from = static_cast<const T *>(x.data);
    if constexpr (SMM_SOURCE_A == SMM_SOURCE_FLAT && SMM_ORDER_A == SMM_ORDER_ROW) {
        constexpr int WIDTH = ALIGNED ? width_of(N) : 1;
        from += first * (N * N);
        each_vector<WIDTH>(count, [&](int q, int i, int j) {
            copy<WIDTH>(images + q * MATRIX + i * PITCH + j, from + (q * N + i) * N + j);
        });
    } else {
        each_element<SMM_ORDER_A>(args, x, first, count, [&](int q, int i, int j, long long offset) {
            copy<1>(images + q * MATRIX + i * PITCH + j, from + offset);
        });
    }
    copies_done();
    __syncwarp();
}

__device__ inline Order *order_of(T *a) { return reinterpret_cast<Order *>(a + N * PITCH); }

/* Row i of the inverse is the pivot row of step i. Its column j is the one that step k made, if j was k's pivot row. */
__device__ inline void write(T *images, const smm_cuda_args &args, long long first, int count) {
    const smm_cuda_operand &x = args.operand[SMM_C];
    T *to = static_cast<T *>(x.data);
    const auto row_of = [&](int q, int i) {
        T *a = images + q * MATRIX;
        return a + order_of(a)->row[i] * PITCH;
    };
    const auto step_of = [&](int q, int j) -> int { return order_of(images + q * MATRIX)->place[j]; };
    if constexpr (SMM_SOURCE_C == SMM_SOURCE_FLAT && SMM_ORDER_C == SMM_ORDER_ROW) {
        constexpr int WIDTH = ALIGNED ? width_of(N) : 1;
        to += first * (N * N);
        int step[WIDTH], matrix = -1;
        each_vector<WIDTH>(count, [&](int q, int i, int j) {
#pragma unroll
            for (int e = 0; e < WIDTH && q != matrix; e++) step[e] = step_of(q, j + e);
            matrix = q;
            const T *row = row_of(q, i);
            Vector<WIDTH> v;
#pragma unroll
            for (int e = 0; e < WIDTH; e++) v.x[e] = row[step[e]];
            store_global<WIDTH>(to + (q * N + i) * N + j, v);
        });
    } else {
        each_element<SMM_ORDER_C>(args, x, first, count, [&](int q, int i, int j, long long offset) {
            to[offset] = row_of(q, i)[step_of(q, j)];
        });
    }
}

template <int WIDTH> __device__ inline void load_row(T *x, const T *from) {
#pragma unroll
    for (int j = 0; j < WIDTH; j += VECTOR) {
        const Vector<VECTOR> v = load<VECTOR>(from + j);
#pragma unroll
        for (int e = 0; e < VECTOR; e++) x[j + e] = v.x[e];
    }
}
template <int WIDTH> __device__ inline void store_row(T *to, const T *x) {
#pragma unroll
    for (int j = 0; j < WIDTH; j += VECTOR) {
        Vector<VECTOR> v;
#pragma unroll
        for (int e = 0; e < VECTOR; e++) v.x[e] = x[j + e];
        store<VECTOR>(to + j, v);
    }
}

/* --- the choice of pivots --- */

/* What a lane's rows bring to the choice. */
struct Candidates {
    unsigned tag[ROWS];  /* 31 - row */
    unsigned mask[ROWS]; /* of the leading bits that are compared; 0: the row was chosen already */
    int info;            /* the first step, from 1, whose pivot is zero */
};

__device__ inline bool is_row(int r) { return N % LANES == 0 || r < ROWS - 1 || lane() + LANES * r < N; }

constexpr unsigned TAG = 31, INFINITE = sizeof(T) == 8 ? 0x7ff00000 : 0x7f800000;

__device__ inline unsigned leading_bits(double x) { return __double2hiint(x); }
__device__ inline unsigned leading_bits(float x) { return __float_as_uint(x); }

/* The maximum over the lanes of a matrix. */
__device__ inline unsigned maximum(unsigned x) {
    if constexpr (OF_WARP <= 2) {
        unsigned most = 0;
#pragma unroll
        for (int q = 0; q < OF_WARP; q++) {
            const bool mine = threadIdx.x % 32 / LANES == q;
            const unsigned of_matrix = __reduce_max_sync(WARP, mine ? x : 0);
            if (mine) most = of_matrix;
        }
        return most;
    }
#pragma unroll
    for (int bits = LANES / 2; bits > 0; bits /= 2) x = max(x, across(x, bits));
    return x;
}

/* The exact choice, where leading bits do not tell: the largest magnitude, of equals the one in the first place. NaN is
 * chosen only if it is in place k already. */
__device__ inline int settle(Candidates &rows, const T (&x)[ROWS][PANEL], int column, Order *order, int k) {
    if (lane() == 0) {
#pragma unroll 1
        for (int t = order->known; t < k; t++) {
            const int place = order->place[order->row[t]], row = order->row_at[t];
            order->place[row] = place;
            order->row_at[place] = row;
        }
        order->known = k;
    }
    __syncwarp();
    auto largest = magnitude(T(0));
    int at = N;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        if (!rows.mask[r]) continue;
        const int place = order->place[TAG - rows.tag[r]];
        const auto size = isnan(x[r][column]) && place != k ? magnitude(T(0)) : magnitude(x[r][column]);
        if (size > largest || (size == largest && place < at)) largest = size, at = place;
    }
#pragma unroll 1
    for (int bits = LANES / 2; bits > 0; bits /= 2) {
        const auto size = across(largest, bits);
        const int place = across(at, bits);
        if (size > largest || (size == largest && place < at)) largest = size, at = place;
    }
    if (largest == 0 && !rows.info) rows.info = k + 1;
    return order->row_at[at];
}

/* What the lanes of a matrix agree on. */
struct Choice {
    int row;
    bool mine[ROWS]; /* it is the lane's row r */
    T inverse;       /* of the pivot, where it is one of the lane's */
};

/* The pivot of step k, in this column. Magnitude above row in one word: the maximum is it, unless another row shares
 * the leading bits of its magnitude, or it is not finite. Each lane inverts its largest while they look for it. */
__device__ inline Choice choose(Candidates &rows, const T (&x)[ROWS][PANEL], int column, Order *order, int k) {
    Choice choice;
    unsigned key[ROWS], best = TAG;
    T candidate = 1;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        key[r] = (leading_bits(x[r][column]) & rows.mask[r]) | rows.tag[r];
        if (key[r] > best) candidate = x[r][column];
        best = max(best, key[r]);
    }
    best = maximum(best);
    choice.inverse = reciprocal(candidate);
    choice.row = TAG - (best & TAG);
    const unsigned leading = best & ~TAG;
    bool unsure = leading - 1 >= INFINITE - 1;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        choice.mine[r] = key[r] == best;
        unsure |= (key[r] >= leading) != choice.mine[r];
    }
    if (__builtin_expect(__any_sync(WARP, unsure), 0)) {
        choice.row = settle(rows, x, column, order, k);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            choice.mine[r] = is_row(r) && lane() + LANES * r == choice.row;
            if (choice.mine[r]) candidate = x[r][column];
        }
        choice.inverse = reciprocal(candidate);
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        if (choice.mine[r]) rows.mask[r] = 0;
    if (lane() == 0) order->row[k] = choice.row;
    return choice;
}

/* --- one panel --- */

/* What the WIDTH steps of a panel need and leave behind. */
struct Panel {
    T x[ROWS][PANEL], f[ROWS][PANEL];   /* of the lane's rows: elements in the panel's columns, factor of each step */
    T u[SLOTS][PANEL], g[SLOTS][PANEL]; /* the same of pivot rows, since they are; g of its own step: 1 / the pivot */
    unsigned gone;                      /* bit r: it is a pivot row of this panel */
    int row[PANEL];                     /* where the pivot row of each step begins in the image */
};

__device__ inline bool is_other(const Panel &panel, int r) { return is_row(r) && !(panel.gone >> r & 1); }

/* Steps k .. k + WIDTH of the elimination on columns k .. k + WIDTH. Pivot rows pass through the image. */
template <int WIDTH> __device__ inline void eliminate(Panel &panel, Candidates &rows, T *a, int k) {
    constexpr int WHOLE = ceil_div(WIDTH, VECTOR) * VECTOR;
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        if (is_row(r)) load_row<WHOLE>(panel.x[r], a + (lane() + LANES * r) * PITCH + k);
#pragma unroll
    for (int s = 0; s < SLOTS; s++)
#pragma unroll
        for (int i = 0; i < WIDTH; i++) panel.u[s][i] = -T(0);
    panel.gone = 0;
    __syncwarp();
#pragma unroll
    for (int j = 0; j < WIDTH; j++) {
        Order *order = order_of(a);
        const Choice choice = choose(rows, panel.x, j, order, k + j);
        panel.row[j] = choice.row * PITCH;
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            if (!choice.mine[r]) continue;
            store_row<WHOLE>(a + (lane() + LANES * r) * PITCH + k, panel.x[r]);
            order->inverse[j % 2] = choice.inverse;
            panel.gone |= 1 << r;
        }
        __syncwarp();
        T u[PANEL];
        load_row<WHOLE>(u, a + panel.row[j] + k);
        const T inverse = order->inverse[j % 2];
#pragma unroll
        for (int i = 0; i < WIDTH; i++) u[i] = i == j ? inverse : product(u[i], inverse);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const T f = panel.f[r][j] = panel.x[r][j];
            panel.x[r][j] = 0;
#pragma unroll
            for (int i = 0; i < WIDTH; i++) panel.x[r][i] = multiply_add(-f, u[i], panel.x[r][i]);
        }
        /* The pivot row moves to its slot, full of -0: 1 u - 0 = u, whatever u is. */
#pragma unroll
        for (int s = 0; s * LANES <= j; s++) {
            const bool here = lane() + LANES * s == j;
            const T f = here ? T(-1) : panel.u[s][j];
            panel.g[s][j] = here ? inverse : f;
            if (lane() + LANES * s > j) continue;
            if (!here) panel.u[s][j] = 0;
#pragma unroll
            for (int i = 0; i < WIDTH; i++) panel.u[s][i] = multiply_add(-f, u[i], panel.u[s][i]);
        }
    }
}

/* Where the panel was in the image, leave the factors of pivot rows: element (j, i) is that of row[i] in step j. Those
 * before its own step are still with the lane that had the row. */
template <int WIDTH> __device__ inline void leave_factors(const Panel &panel, T *a, int k) {
    constexpr int WHOLE = ceil_div(WIDTH, VECTOR) * VECTOR;
    T f[SLOTS][PANEL];
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        if (is_row(r)) store_row<WHOLE>(a + (lane() + LANES * r) * PITCH + k, panel.f[r]);
    __syncwarp();
#pragma unroll
    for (int s = 0; s < SLOTS; s++) {
        const int i = lane() + LANES * s;
        if (i < WIDTH) load_row<WHOLE>(f[s], a + order_of(a)->row[k + i] * PITCH + k);
    }
    __syncwarp();
#pragma unroll
    for (int s = 0; s < SLOTS; s++) {
        const int i = lane() + LANES * s;
#pragma unroll
        for (int j = 0; j < WIDTH; j++)
            if (i < WIDTH) a[panel.row[j] + k + i] = j < i ? f[s][j] : panel.g[s][j];
    }
    __syncwarp();
}

/* All steps of the panel on the pivot rows' elements in a vector of columns. In the image each is left as its own step
 * makes it, for the other rows; the final ones are y. */
template <int WIDTH>
__device__ inline void eliminate_pivot_rows(const Panel &panel, T *a, int k, int col, Vector<VECTOR> (&y)[PANEL]) {
    constexpr int WHOLE = ceil_div(WIDTH, VECTOR) * VECTOR;
#pragma unroll
    for (int i = 0; i < WIDTH; i++) y[i] = load<VECTOR>(a + panel.row[i] + col);
#pragma unroll
    for (int j = 0; j < WIDTH; j++) {
        T f[PANEL];
        load_row<WHOLE>(f, a + panel.row[j] + k);
#pragma unroll
        for (int e = 0; e < VECTOR; e++) y[j].x[e] = product(y[j].x[e], f[j]);
        store<VECTOR>(a + panel.row[j] + col, y[j]);
#pragma unroll
        for (int i = 0; i < WIDTH; i++)
#pragma unroll
            for (int e = 0; e < VECTOR; e++)
                if (i != j) y[i].x[e] = multiply_add(-f[i], y[j].x[e], y[i].x[e]);
    }
}

/* All steps of the panel on the other rows' elements in `count` vectors of columns. */
template <int WIDTH, int COUNT>
__device__ inline void eliminate_other_rows(const Panel &panel, T *a, const int (&col)[COUNT]) {
    T *mine = a + lane() * PITCH;
    Vector<VECTOR> x[COUNT][ROWS];
#pragma unroll
    for (int c = 0; c < COUNT; c++)
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            if (is_row(r)) x[c][r] = load<VECTOR>(mine + LANES * r * PITCH + col[c]);
#pragma unroll
    for (int j = 0; j < WIDTH; j++)
#pragma unroll
        for (int c = 0; c < COUNT; c++) {
            const Vector<VECTOR> u = load<VECTOR>(a + panel.row[j] + col[c]);
#pragma unroll
            for (int r = 0; r < ROWS; r++)
#pragma unroll
                for (int e = 0; e < VECTOR; e++) x[c][r].x[e] = multiply_add(-panel.f[r][j], u.x[e], x[c][r].x[e]);
        }
#pragma unroll
    for (int c = 0; c < COUNT; c++)
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            if (is_other(panel, r)) store<VECTOR>(mine + LANES * r * PITCH + col[c], x[c][r]);
}

/* The columns of the panel, as its steps leave them, to where they were. What is there comes to f. */
template <int WIDTH> __device__ inline void put_back(Panel &panel, T *a, int k) {
    constexpr int WHOLE = ceil_div(WIDTH, VECTOR) * VECTOR;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        T *row = a + (lane() + LANES * r) * PITCH + k;
        if (WHOLE < RIGHT && is_other(panel, r)) load_row<WHOLE>(panel.f[r], row);
        if (is_other(panel, r)) store_row<WHOLE>(row, panel.x[r]);
    }
#pragma unroll
    for (int s = 0; s < SLOTS; s++) {
        const int i = lane() + LANES * s;
        if (i < WIDTH) store_row<WHOLE>(a + order_of(a)->row[k + i] * PITCH + k, panel.u[s]);
    }
}

/* Steps k .. k + WIDTH of the elimination. */
template <int WIDTH> __device__ inline void steps(Candidates &rows, T *a, int k) {
    constexpr int WHOLE = ceil_div(WIDTH, VECTOR) * VECTOR;
    constexpr int VECTORS = (RIGHT - WHOLE) / VECTOR; /* of a row, outside the panel */
    constexpr int TURNS = ceil_div(VECTORS, LANES);
    Panel panel;
    eliminate<WIDTH>(panel, rows, a, k);
    __syncwarp();
    if constexpr (TURNS > 0) {
        const auto column = [&](int v) { return v * VECTOR + (v * VECTOR < k ? 0 : WHOLE); };
        Vector<VECTOR> y[TURNS][PANEL];
        leave_factors<WIDTH>(panel, a, k);
#pragma unroll
        for (int turn = 0; turn < TURNS; turn++) {
            const int v = turn * LANES + lane();
            if (v < VECTORS) eliminate_pivot_rows<WIDTH>(panel, a, k, column(v), y[turn]);
        }
        __syncwarp();
        put_back<WIDTH>(panel, a, k);
#pragma unroll UNROLL
        for (int v = 0; v + BATCH <= VECTORS; v += BATCH) {
            int col[BATCH];
#pragma unroll
            for (int c = 0; c < BATCH; c++) col[c] = column(v + c);
            eliminate_other_rows<WIDTH>(panel, a, col);
        }
#pragma unroll
        for (int v = VECTORS / BATCH * BATCH; v < VECTORS; v++) {
            const int col[1] = {column(v)};
            eliminate_other_rows<WIDTH>(panel, a, col);
        }
        __syncwarp();
#pragma unroll
        for (int turn = 0; turn < TURNS; turn++) {
            const int v = turn * LANES + lane();
#pragma unroll
            for (int i = 0; i < WIDTH; i++)
                if (v < VECTORS) store<VECTOR>(a + panel.row[i] + column(v), y[turn][i]);
        }
    } else {
        put_back<WIDTH>(panel, a, k);
    }
    __syncwarp();
}

/* --- the kernel --- */

#if SMM_BLOCKS > 0
#define BOUNDS __launch_bounds__(THREADS, SMM_BLOCKS)
#else
#define BOUNDS __launch_bounds__(THREADS)
#endif

extern "C" __global__ void BOUNDS SMM_NAME(const __grid_constant__ smm_cuda_args args) {
    extern __shared__ __align__(16) T shared[];
    const int of_block = threadIdx.x / 32 * OF_WARP, of_warp = threadIdx.x % 32 / LANES;
    const long long first = static_cast<long long>(blockIdx.x) * MATRICES + of_block;
    const int count = static_cast<int>(args.batch - first < OF_WARP ? args.batch - first : OF_WARP);
    if (count <= 0) return;
    T *images = shared + of_block * MATRIX, *a = images + of_warp * MATRIX;

    Order *order = order_of(a);
    Candidates rows;
    rows.info = 0;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const int row = lane() + LANES * r;
        rows.tag[r] = is_row(r) ? TAG - row : 0;
        rows.mask[r] = is_row(r) ? 0x7fffffff & ~TAG : 0;
        if (is_row(r)) order->place[row] = order->row_at[row] = row;
    }
    if (lane() == 0) order->known = 0;
    read(images, args, first, count);

#pragma unroll PANELS_UNROLLED
    for (int k = 0; k + PANEL <= N; k += PANEL) steps<PANEL>(rows, a, k);
    if constexpr (N % PANEL) steps<N % PANEL>(rows, a, N - N % PANEL);

    for (int k = lane(); k < N; k += LANES) order->place[order->row[k]] = k;
    if (rows.info)
        for (int e = lane(); e < N * PITCH; e += LANES) a[e] = not_a_number();
    const smm_cuda_operand &to = args.operand[SMM_INFO];
    if (lane() == 0 && of_warp < count && to.data) {
        const long long q = first + of_warp;
        static_cast<int *>(to.data)[SMM_SOURCE_REST == SMM_SOURCE_FLAT ? q : offset_of(args, to, q)] = rows.info;
    }
    __syncwarp();
    write(images, args, first, count);
}
