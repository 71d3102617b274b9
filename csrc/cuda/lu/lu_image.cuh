/* lu_image.cuh: the matrices of a warp in shared memory, some columns at a time, and moving them there and back.
 *
 * Whoever includes this has defined PER_WARP (matrices of a warp) and MATRIX (elements from image to image). */

/* How a warp walks through its flat matrices of so many rows and columns, rows of whose images are PITCH elements
 * apart: in vectors, one of a lane at each turn. In the order of memory, UNIT matrices after UNIT matrices; or by rows
 * of one or two matrices, a group of lanes to each, where rows are long and not made of whole vectors. All units, and
 * all rows, are alike: what a lane computes are the few places at which they begin. */
template <int HEIGHT, int LENGTH, int PITCH, int WIDTH> struct Walk {
    static constexpr int EACH = LENGTH / WIDTH, OF_MATRIX = HEIGHT * EACH;         /* vectors */
    static constexpr int COMPUTE = 6, MOVE = WIDTH < VECTOR ? 5 : 8, MOVE_ROW = 4; /* what places and turns cost */
    __host__ __device__ static constexpr int places_of(int unit) { return ceil_div(unit * OF_MATRIX, 32); }
    __host__ __device__ static constexpr int cost_of(int unit) {
        return places_of(unit) * (COMPUTE + PER_WARP / unit * MOVE);
    }
    __host__ __device__ static constexpr int best_of(int unit) { /* of it and its multiples */
        return unit == PER_WARP || cost_of(unit) <= cost_of(best_of(2 * unit)) ? unit : best_of(2 * unit);
    }
    static constexpr int GROUP = min_of(power_of_two(EACH), 32), AT_ONCE = 32 / GROUP;
    static constexpr bool LONG = WIDTH < VECTOR && EACH > 8 && EACH <= 32 && AT_ONCE <= PER_WARP;
    static constexpr int UNIT = best_of(1), ROWS = LONG ? HEIGHT * PER_WARP / AT_ONCE : 0;
    static constexpr bool BY_ROWS = LONG && COMPUTE + ROWS * MOVE_ROW < cost_of(UNIT);
    static constexpr int PLACES = BY_ROWS ? 1 : places_of(UNIT), REPEATS = BY_ROWS ? ROWS : PER_WARP / UNIT;

    int memory;          /* a lane's first vector */
    unsigned at[PLACES]; /* of the image, in shared memory */
    bool in_row, in_last;

    __device__ Walk(const T *image) {
        unsigned lane = threadIdx.x % 32;
        /* Of rows of 4 vectors, 8 lanes have two that are 4 apart: in different banks. */
        if (EACH == 4) lane = lane / 8 * 4 + lane / 4 % 2 * 16 + lane % 4;
        const unsigned q = lane / GROUP, col = lane % GROUP;
        memory = BY_ROWS ? q * (HEIGHT * LENGTH) + col * WIDTH : lane * WIDTH;
        in_row = col < EACH, in_last = (PLACES - 1) * 32 + lane < UNIT * OF_MATRIX;
#pragma unroll
        for (int p = 0; p < PLACES; p++) {
            const unsigned v = p * 32 + lane;
            const unsigned gaps = v / EACH * (PITCH - LENGTH) + v / OF_MATRIX * (MATRIX - HEIGHT * PITCH);
            at[p] = opaque(shared_address(image) + (BY_ROWS ? q * MATRIX + col * WIDTH : v * WIDTH + gaps) * sizeof(T));
        }
    }
    __device__ bool has(int p) const { return BY_ROWS ? in_row : p + 1 < PLACES || in_last; }
    /* Where place p of repeat r is: in memory, from a lane's first vector on; and in the image. */
    __device__ static int further(int r, int p) {
        if (BY_ROWS) return (r / HEIGHT * AT_ONCE * HEIGHT + r % HEIGHT) * LENGTH;
        return r * UNIT * HEIGHT * LENGTH + p * 32 * WIDTH;
    }
    __device__ T *image(int r, int p) const {
        const int beyond = BY_ROWS ? r / HEIGHT * AT_ONCE * MATRIX + r % HEIGHT * PITCH : r * UNIT * MATRIX;
        return at_shared_address(at[p] + beyond * sizeof(T));
    }
};

/* Visit `cols` columns of matrices with arbitrary strides: act(offset in memory, element of the images). */
template <int HEIGHT, int PITCH, int ORDER, class Act>
__device__ inline void each_element(const smm_cuda_operand &x, int count, int cols, const long long *where, Act act) {
    for (int e = threadIdx.x % 32; e < count * HEIGHT * cols; e += 32) {
        const int q = e / (HEIGHT * cols), rest = e % (HEIGHT * cols);
        const int i = ORDER == SMM_ORDER_COL ? rest % HEIGHT : rest / cols;
        const int j = ORDER == SMM_ORDER_COL ? rest / HEIGHT : rest % cols;
        act(where[q] + i * x.row + j * x.col, q * MATRIX + i * PITCH + j);
    }
}

/* Visit the elements of a few flat matrices: act(offset in memory, element of the images). */
template <int HEIGHT, int LENGTH, int PITCH, class Act> __device__ inline void each_of_few(int count, Act act) {
#pragma unroll 1
    for (int e = threadIdx.x % 32; e < count * HEIGHT * LENGTH; e += 32) {
        const int row = e / LENGTH;
        act(e, row / HEIGHT * MATRIX + row % HEIGHT * PITCH + e % LENGTH);
    }
}

/* Start copying matrices first .. first + count to their images; of matrices with arbitrary strides `cols` columns. */
template <int HEIGHT, int LENGTH, int PITCH, int SOURCE, int ORDER>
__device__ inline void stage(T *images, const smm_cuda_operand &x, long long first, int count, int cols,
                             const long long *where) {
    const InMemory *from = static_cast<const InMemory *>(x.data);
    if constexpr (SOURCE != SMM_SOURCE_FLAT || ORDER != SMM_ORDER_ROW) {
        each_element<HEIGHT, PITCH, ORDER>(x, count, cols, where,
                                           [&](long long offset, int to) { copy<1>(images + to, from + offset); });
    } else if constexpr (HEIGHT > 1 && PITCH == LENGTH) { /* no gaps: the same as one row */
        stage<1, HEIGHT * LENGTH, HEIGHT * LENGTH, SOURCE, ORDER>(images, x, first, count, HEIGHT * LENGTH, where);
    } else {
        constexpr int WIDTH = ALIGNED ? width_of(LENGTH) : 1;
        from += first * (HEIGHT * LENGTH);
        if (count < PER_WARP)
            return each_of_few<HEIGHT, LENGTH, PITCH>(count, [&](int e, int to) { copy<1>(images + to, from + e); });
        const Walk<HEIGHT, LENGTH, PITCH, WIDTH> walk(images);
        from = opaque(from + walk.memory);
#pragma unroll
        for (int r = 0; r < walk.REPEATS; r++)
#pragma unroll
            for (int p = 0; p < walk.PLACES; p++)
                if (walk.has(p)) copy<WIDTH>(walk.image(r, p), from + walk.further(r, p));
    }
}

/* Write the images to matrices first .. first + count; of matrices with arbitrary strides `cols` columns. */
template <int HEIGHT, int LENGTH, int PITCH, int SOURCE, int ORDER>
__device__ inline void unstage(const T *images, const smm_cuda_operand &x, long long first, int count, int cols,
                               const long long *where) {
    InMemory *to = static_cast<InMemory *>(x.data);
    if constexpr (SOURCE != SMM_SOURCE_FLAT || ORDER != SMM_ORDER_ROW) {
        each_element<HEIGHT, PITCH, ORDER>(x, count, cols, where,
                                           [&](long long offset, int from) { to[offset] = images[from]; });
    } else if constexpr (HEIGHT > 1 && PITCH == LENGTH) {
        unstage<1, HEIGHT * LENGTH, HEIGHT * LENGTH, SOURCE, ORDER>(images, x, first, count, HEIGHT * LENGTH, where);
    } else {
        constexpr int WIDTH = ALIGNED ? width_of(LENGTH) : 1;
        constexpr int TOGETHER = 8; /* reads before the first write waits */
        to += first * (HEIGHT * LENGTH);
        if (count < PER_WARP)
            return each_of_few<HEIGHT, LENGTH, PITCH>(count, [&](int e, int from) { to[e] = images[from]; });
        const Walk<HEIGHT, LENGTH, PITCH, WIDTH> walk(images);
        to = opaque(to + walk.memory);
        constexpr int PLACES = walk.PLACES, TURNS = walk.REPEATS * PLACES;
#pragma unroll
        for (int turn = 0; turn < TURNS; turn += TOGETHER) {
            Vector<WIDTH> x[TOGETHER];
#pragma unroll
            for (int t = 0; t < TOGETHER; t++)
                if (turn + t < TURNS && walk.has((turn + t) % PLACES))
                    x[t] = load<WIDTH>(walk.image((turn + t) / PLACES, (turn + t) % PLACES));
#pragma unroll
            for (int t = 0; t < TOGETHER; t++)
                if (turn + t < TURNS && walk.has((turn + t) % PLACES))
                    store<WIDTH>(to + walk.further((turn + t) / PLACES, (turn + t) % PLACES), x[t]);
        }
    }
}
