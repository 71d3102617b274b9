/* few.cuh: matrices of few rows, which a thread has in registers, to memory and back; and where larger ones are, in
 * shared memory. */

/* WIDTH elements of a thread that lie there at this step, to memory where they lie side by side, or from it. */
template <bool TO_MEMORY, int WIDTH> __device__ inline void move_line(T *x, int step, InMemory *memory) {
    Vector<WIDTH> v;
    if (!TO_MEMORY) v = load<WIDTH>(memory);
    EACH(int i = 0; i < WIDTH; i++) {
        if (TO_MEMORY)
            v.x[i] = x[i * step];
        else
            x[i * step] = v.x[i];
    }
    if (TO_MEMORY) store_global<WIDTH>(memory, v);
}

/* ROWS x COLS elements of a thread, by rows, to memory or from it: in vectors along rows or columns, if memory allows
 * it. Threads have matrices of their own, so each access meets as many lines of memory as there are threads. */
template <bool TO_MEMORY, int ROWS, int COLS>
__device__ inline void move_few(T *x, InMemory *memory, long long row, long long col) {
    constexpr int WIDTH = width_of(COLS), HEIGHT = width_of(ROWS);
    const bool begins_well = reinterpret_cast<unsigned long long>(memory) % 16 == 0;
    if (WIDTH > 1 && begins_well && col == 1 && row % WIDTH == 0) {
        EACH(int e = 0; e < ROWS * COLS; e += WIDTH)
            move_line<TO_MEMORY, WIDTH>(x + e, 1, memory + e / COLS * row + e % COLS);
    } else if (HEIGHT > 1 && begins_well && row == 1 && col % HEIGHT == 0) {
        EACH(int e = 0; e < ROWS * COLS; e += HEIGHT)
            move_line<TO_MEMORY, HEIGHT>(x + e % ROWS * COLS + e / ROWS, COLS, memory + e % ROWS + e / ROWS * col);
    } else {
        EACH(int e = 0; e < ROWS * COLS; e++)
            move_line<TO_MEMORY, 1>(x + e, 1, memory + e / COLS * row + e % COLS * col);
    }
}

/* What the lanes of a matrix work with, in registers or in shared memory, and the number of their matrix. */
template <class WORK, int MATRICES, class RUN> __device__ inline void with_work(long long batch, RUN run) {
    extern __shared__ __align__(16) T shared[];
    const long long q = static_cast<long long>(blockIdx.x) * MATRICES + threadIdx.x / LANES;
    if (q >= batch) return;
    if constexpr (FEW) {
        WORK w;
        run(w, q);
    } else {
        run(reinterpret_cast<WORK *>(shared)[threadIdx.x / LANES], q);
    }
}
