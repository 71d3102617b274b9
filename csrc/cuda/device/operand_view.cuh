/* operand_view.cuh: where the matrix of some lanes lies in memory, from where it comes and to where it goes: element by
 * element, or of few rows, which a thread has in registers, in vectors. */

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

/* The same of complex numbers: those of 8 bytes in pairs, if memory allows it. */
template <bool TO_MEMORY, int ROWS, int COLS>
__device__ inline void move_few(Complex *x, Complex *memory, long long row, long long col) {
    if constexpr (sizeof(Complex) == 8 && COLS % 2 == 0) {
        if (reinterpret_cast<unsigned long long>(memory) % 16 == 0 && col == 1 && row % 2 == 0) {
            EACH(int e = 0; e < ROWS * COLS; e += 2) {
                T *const at = reinterpret_cast<T *>(memory + e / COLS * row + e % COLS);
                if (TO_MEMORY) {
                    store_global<4>(at, {x[e].re, x[e].im, x[e + 1].re, x[e + 1].im});
                } else {
                    const Vector<4> v = load<4>(at);
                    x[e] = {v.x[0], v.x[1]};
                    x[e + 1] = {v.x[2], v.x[3]};
                }
            }
            return;
        }
    }
    EACH(int e = 0; e < ROWS * COLS; e++) {
        Complex &at = memory[e / COLS * row + e % COLS * col];
        if (TO_MEMORY)
            at = x[e];
        else
            x[e] = at;
    }
}

/* What lies in memory as this comes to registers as the result. */
__device__ inline T computed(InMemory x) { return x; }
__device__ inline Complex computed(Complex x) { return x; }

/* Matrix q of an operand, of numbers or of elements (Stored), whose rows are its columns if it is TRANSPOSED. A step of
 * a program has another OperandView (function.cuh), for the same algorithms. */
template <bool TRANSPOSED = false, class X = InMemory> struct OperandView {
    typedef decltype(computed(X())) Y;
    const smm_cuda_operand &operand; /* strides stay among the arguments, which cost no registers */
    X *data;
    __device__ OperandView(const smm_cuda_args &args, int which, long long q)
        : operand(args.operand[which]), data(static_cast<X *>(operand.data) + offset_of(args, operand, q)) {}
    __device__ long long row() const { return TRANSPOSED ? operand.col : operand.row; }
    __device__ long long col() const { return TRANSPOSED ? operand.row : operand.col; }
    __device__ Y get(int i, long long j) const { return computed(data[i * row() + j * col()]); }
    __device__ void put(int i, long long j, Y y) const { data[i * row() + j * col()] = y; }
    /* Of few rows. */
    template <int ROWS, int COLS> __device__ void load(Y *y) const {
        move_few<false, ROWS, COLS>(y, data, row(), col());
    }
    template <int ROWS, int COLS> __device__ void store(Y *y) const {
        move_few<true, ROWS, COLS>(y, data, row(), col());
    }
    /* form(y, step) makes the elements of column j. */
    template <int ROWS, class Form> __device__ void column(int j, Form form) const {
        ColumnOf<ROWS, X> column(data + j * col(), row());
        form(column.data(), column.step());
        column.finish();
    }
};

/* Of matrix q an integer beside it, if the call wants it. */
__device__ inline void put_integer(const smm_cuda_args &args, int which, long long q, int x) {
    const smm_cuda_operand &to = args.operand[which];
    if (lane() == 0 && to.data) static_cast<int *>(to.data)[offset_of(args, to, q)] = x;
}

/* What the lanes of a matrix work with, and the number of their matrix: in shared memory, or of few rows in registers
 * unless ALWAYS_SHARED. Where that is OUTSIDE, in memory of the device, blocks stay for the matrices that follow. */
template <class WORK, int MATRICES, bool ALWAYS_SHARED = false, class RUN>
__device__ inline void with_work(const smm_cuda_args &args, RUN run) {
    static_assert(!OUTSIDE || LANES >= 32, "threads of a warp take all steps together");
    const long long q = static_cast<long long>(blockIdx.x) * MATRICES + threadIdx.x / LANES;
    if constexpr (OUTSIDE) {
        WORK &own = static_cast<WORK *>(args.workspace)[q];
        for (long long matrix = q; matrix < args.batch; matrix += static_cast<long long>(gridDim.x) * MATRICES) {
            run(own, matrix);
            sync_lanes(); /* for those who still read what is their own */
        }
    } else {
        extern __shared__ __align__(16) T shared[];
        if (q >= args.batch) return;
        if constexpr (FEW && !ALWAYS_SHARED) {
            WORK w;
            run(w, q);
        } else {
            run(reinterpret_cast<WORK *>(shared)[threadIdx.x / LANES], q);
        }
    }
}
