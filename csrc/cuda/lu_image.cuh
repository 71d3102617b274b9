/* lu_image.cuh: the matrices of a warp in shared memory, some columns at a time, and moving them there and back.
 *
 * Whoever includes this has defined N, PER_WARP (matrices of a warp), PITCH (elements from row to row of an image),
 * MATRIX (from image to image) and SKEW (beside the rows of an image). */

__host__ __device__ constexpr int common_divisor(int x, int y) { return y == 0 ? x : common_divisor(y, x % y); }

/* Element of the images in this row, counted through all matrices. */
__device__ inline int place(int row, int col) { return row * PITCH + row / N * SKEW + col; }

/* The vectors of a warp's flat matrices of LENGTH columns: a lane has one of them at each turn. In the order of memory,
 * where the places repeat a constant distance further on every PERIOD turns; else by rows of so many matrices, a group
 * of lanes to each. Either way few places have to be computed. */
template <int LENGTH, int WIDTH> struct Walk {
    static constexpr unsigned EACH = LENGTH / WIDTH, ALL = PER_WARP * N * EACH, TURNS_IN_ORDER = ceil_div(ALL, 32);
    static constexpr unsigned TO_ROWS = EACH / common_divisor(EACH, 32), ROWS_THEN = 32 * TO_ROWS / EACH;
    static constexpr unsigned PERIOD = N % ROWS_THEN == 0 ? TO_ROWS : TO_ROWS * N / common_divisor(N, ROWS_THEN);
    static constexpr unsigned ROWS_A_PERIOD = 32 * PERIOD / EACH;
    static constexpr unsigned GROUP = power_of_two(EACH), GROUPS = 32 / GROUP;
    static constexpr bool BY_ROWS = WIDTH < VECTOR && EACH > 8 && 2 * PERIOD > TURNS_IN_ORDER &&GROUPS <= PER_WARP;
    static constexpr unsigned TURNS = BY_ROWS ? N * PER_WARP / GROUPS : TURNS_IN_ORDER;
    unsigned lane; /* of rows of 4 vectors, 8 lanes have two that are 4 apart: in different banks */
    __device__ Walk() : lane(threadIdx.x % 32) {
        if (EACH == 4) lane = lane / 8 * 4 + lane / 4 % 2 * 16 + lane % 4;
    }
    /* Is there a vector of the first `count` matrices at this turn? */
    __device__ bool within(unsigned turn, int count) const {
        if (BY_ROWS) return lane % GROUP < EACH && turn / N * GROUPS + lane / GROUP < count;
        return turn * 32 + lane < count * N * EACH;
    }
    __device__ long long memory(unsigned turn) const {
        const unsigned mine = BY_ROWS ? lane / GROUP * (N * LENGTH) + lane % GROUP * WIDTH : lane * WIDTH;
        return mine + static_cast<long long>(BY_ROWS ? (turn / N * GROUPS * N + turn % N) * LENGTH : turn * 32 * WIDTH);
    }
    __device__ unsigned place(unsigned turn) const {
        if (BY_ROWS)
            return lane / GROUP * MATRIX + lane % GROUP * WIDTH + turn / N * GROUPS * MATRIX + turn % N * PITCH;
        const unsigned v = turn % PERIOD * 32 + lane, row = v / EACH, later = turn / PERIOD * ROWS_A_PERIOD;
        return row * PITCH + (ROWS_A_PERIOD > N ? row / N * SKEW : 0) + v % EACH * WIDTH + later % N * PITCH +
               later / N * MATRIX;
    }
};

/* Visit `cols` columns of matrices that lie anyhow: act(offset in memory, place of the element). */
template <int ORDER, class Act>
__device__ inline void each_element(const smm_cuda_operand &x, int count, int cols, const long long *where, int col,
                                    Act act) {
    for (int e = threadIdx.x % 32; e < count * N * cols; e += 32) {
        const int q = e / (N * cols), rest = e % (N * cols);
        const int i = ORDER == SMM_ORDER_COL ? rest % N : rest / cols;
        const int j = ORDER == SMM_ORDER_COL ? rest / N : rest % cols;
        act(where[q] + i * x.row + j * x.col, place(q * N + i, col + j));
    }
}

/* Start copying LENGTH columns of matrices first .. first + count to column `col` of their images; of matrices that lie
 * anyhow `cols` columns. */
template <int LENGTH, int SOURCE, int ORDER>
__device__ inline void stage(T *images, const smm_cuda_operand &x, long long first, int count, int cols,
                             const long long *where, int col) {
    const T *from = static_cast<const T *>(x.data);
    if constexpr (SOURCE == SMM_SOURCE_FLAT && ORDER == SMM_ORDER_ROW) {
        constexpr int WIDTH = ALIGNED ? width_of(LENGTH) : 1;
        const Walk<LENGTH, WIDTH> walk;
        from += first * (N * LENGTH);
        if (count == PER_WARP) {
#pragma unroll 128
            for (unsigned turn = 0; turn < walk.TURNS; turn++)
                if (walk.within(turn, PER_WARP)) copy<WIDTH>(images + col + walk.place(turn), from + walk.memory(turn));
        } else {
#pragma unroll 1
            for (unsigned turn = 0; turn < walk.TURNS; turn++)
                if (walk.within(turn, count)) copy<WIDTH>(images + col + walk.place(turn), from + walk.memory(turn));
        }
    } else {
        each_element<ORDER>(x, count, cols, where, col,
                            [&](long long offset, int to) { copy<1>(images + to, from + offset); });
    }
}

/* Write the images to matrices first .. first + count. */
template <int SOURCE, int ORDER>
__device__ inline void unstage(const T *images, const smm_cuda_operand &x, long long first, int count,
                               const long long *where) {
    T *to = static_cast<T *>(x.data);
    if constexpr (SOURCE == SMM_SOURCE_FLAT && ORDER == SMM_ORDER_ROW) {
        constexpr int WIDTH = ALIGNED ? width_of(N) : 1;
        const Walk<N, WIDTH> walk;
        constexpr unsigned TOGETHER = 8; /* reads before the first write waits */
        to += first * (N * N);
#pragma unroll
        for (unsigned turn = 0; turn < walk.TURNS; turn += TOGETHER) {
            Vector<WIDTH> x[TOGETHER];
#pragma unroll
            for (unsigned t = 0; t < TOGETHER && turn + t < walk.TURNS; t++)
                if (walk.within(turn + t, PER_WARP)) x[t] = load<WIDTH>(images + walk.place(turn + t));
#pragma unroll
            for (unsigned t = 0; t < TOGETHER && turn + t < walk.TURNS; t++)
                if (walk.within(turn + t, count)) store<WIDTH>(to + walk.memory(turn + t), x[t]);
        }
    } else {
        each_element<ORDER>(x, count, N, where, 0, [&](long long offset, int from) { to[offset] = images[from]; });
    }
}
