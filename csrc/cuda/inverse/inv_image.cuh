/* inv_image.cuh: the square matrices of a warp in shared memory, and moving them there and back. Of flat matrices the
 * lines of an image are rows or columns, whichever are contiguous in memory.
 *
 * Whoever includes this has defined N, LANES, OF_WARP (matrices of a warp), PITCH (elements from line to line of an
 * image) and MATRIX (from image to image). A warp has nothing to do with the others of its block. */

/* From row to row, and from column to column, of an image of C. */
constexpr int C_ROW = C_BY_COLUMNS ? 1 : PITCH, C_COL = C_BY_COLUMNS ? PITCH : 1;

constexpr int WIDTH = ALIGNED ? width_of(N) : 1; /* of the vectors that rows are made of */

/* A lane's rows, row(r), from a matrix whose lines are PITCH apart: by vectors along them, or down the lines; of a
 * matrix in a thread of its own all of it. */
template <int ROWS, class X, class Row>
__device__ inline void load_rows(T (&x)[ROWS][N], const X *a, int pitch, Row row) {
    if constexpr (ROWS == N) {
#pragma unroll
        for (int l = 0; l < N; l++) {
            T line[N];
            load_row<N, WIDTH>(line, a + l * pitch);
#pragma unroll
            for (int e = 0; e < N; e++) x[A_BY_COLUMNS ? e : l][A_BY_COLUMNS ? l : e] = line[e];
        }
        return;
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const int i = row(r);
        if (N % LANES && r == ROWS - 1 && i >= N) continue;
        if (!A_BY_COLUMNS) load_row<N, WIDTH>(x[r], a + i * pitch);
#pragma unroll
        for (int j = 0; j < N && A_BY_COLUMNS; j++) x[r][j] = a[j * pitch + i];
    }
}

/* Visit the flat matrices of a warp in vectors of lines, in the order of memory: act(vector, matrix, line, place). */
template <class Act> __device__ inline void each_vector(int count, Act act) {
    constexpr unsigned EACH = N / WIDTH, TURNS = ceil_div(OF_WARP * N * EACH, 32);
#pragma unroll 16
    for (unsigned turn = 0; turn < TURNS; turn++) {
        const unsigned v = turn * 32 + threadIdx.x % 32, row = v / EACH;
        if (v < count * N * EACH) act(v, row / N, row % N, v % EACH * WIDTH);
    }
}

/* Visit matrices with arbitrary strides: act(matrix, row, column, offset in memory), of the caller's A and C. */
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

/* Images that follow each other as the matrices do in memory move in whole vectors, whatever their rows are. */
constexpr bool AS_IN_MEMORY = ALIGNED && PITCH == N && MATRIX == N * N && OF_WARP * N * N % VECTOR == 0;

/* Matrices first .. first + count of A come to the images. */
__device__ inline void read(T *images, const smm_cuda_args &args, long long first, int count) {
    const smm_cuda_operand &x = args.operand[SMM_A];
    const InMemory *from = static_cast<const InMemory *>(x.data);
    if constexpr (SMM_SOURCE_A != SMM_SOURCE_FLAT) {
        each_element<SMM_ORDER_A>(args, x, first, count, [&](int q, int i, int j, long long offset) {
            copy<1>(images + q * MATRIX + (DIRECT ? i * PITCH + j : j * PITCH + i), from + offset);
        });
    } else if constexpr (AS_IN_MEMORY) {
        from += first * (N * N);
        const int total = count * N * N;
#pragma unroll 16
        for (int e = threadIdx.x % 32 * VECTOR; e < OF_WARP * N * N; e += 32 * VECTOR)
            if (e + VECTOR <= total) copy<VECTOR>(images + e, from + e);
        const int rest = total / VECTOR * VECTOR + threadIdx.x % 32;
        if (rest < total) copy<1>(images + rest, from + rest);
    } else {
        from += first * (N * N);
        each_vector(count, [&](int v, int q, int i, int j) {
            copy<WIDTH>(images + q * MATRIX + i * PITCH + j, from + v * WIDTH);
        });
    }
    copies_done();
    __syncwarp();
}

/* The lanes of a matrix make all of its image NaN. */
__device__ inline void fill_nan(T *image) {
    __syncwarp(same_matrix()); /* until all of them have written to it */
    for (int e = lane(); e < N * PITCH; e += LANES) image[e] = not_a_number();
}

/* The images become matrices first .. first + count of C. */
__device__ inline void write(const T *images, const smm_cuda_args &args, long long first, int count) {
    const smm_cuda_operand &x = args.operand[SMM_C];
    InMemory *to = static_cast<InMemory *>(x.data);
    if constexpr (SMM_SOURCE_C != SMM_SOURCE_FLAT) {
        each_element<SMM_ORDER_C>(args, x, first, count, [&](int q, int i, int j, long long offset) {
            to[offset] = images[q * MATRIX + (DIRECT ? i * PITCH + j : j * PITCH + i)];
        });
    } else if constexpr (AS_IN_MEMORY) {
        to += first * (N * N);
        const int total = count * N * N;
#pragma unroll 16
        for (int e = threadIdx.x % 32 * VECTOR; e < OF_WARP * N * N; e += 32 * VECTOR)
            if (e + VECTOR <= total) store_global<VECTOR>(to + e, load<VECTOR>(images + e));
        const int rest = total / VECTOR * VECTOR + threadIdx.x % 32;
        if (rest < total) to[rest] = images[rest];
    } else {
        to += first * (N * N);
        each_vector(count, [&](int v, int q, int i, int j) {
            store_global<WIDTH>(to + v * WIDTH, load<WIDTH>(images + q * MATRIX + i * PITCH + j));
        });
    }
}
