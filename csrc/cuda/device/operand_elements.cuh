/* operand_elements.cuh: the numbers of operands: complex ones (complex.cuh), or of type X. */

/* Of a part of matrices first .. of an operand, ROWS x COLS numbers from (row, col) on, number e: neighbours lie side
 * by side in memory. A flat operand has ELEMENTS numbers per matrix. */
template <int SOURCE, int ORDER, int ELEMENTS, int ROWS, int COLS> struct ElementPlace {
    int q, i, j; /* in the part */
    long long offset;
    __device__ ElementPlace(const smm_cuda_args &args, const smm_cuda_operand &x, long long first, int row,
                            long long col, int e) {
        const int place = e % (ROWS * COLS);
        q = e / (ROWS * COLS);
        i = ORDER == SMM_ORDER_ROW ? place / COLS : place % ROWS;
        j = ORDER == SMM_ORDER_ROW ? place % COLS : place / ROWS;
        const long long matrix = SOURCE == SMM_SOURCE_FLAT  ? (first + q) * ELEMENTS
                                 : SOURCE == SMM_SOURCE_ONE ? 0
                                                            : offset_of(args, x, first + q);
        offset = matrix + (row + i) * x.row + (col + j) * x.col;
    }
};

/* Gives `each` where the numbers of such a part of `count` matrices lie, and their place in the part. All threads of a
 * block take part. */
template <int THREADS, int SOURCE, int ORDER, int ELEMENTS, int ROWS, int COLS, class X = Complex, class Each>
__device__ inline void for_elements(const smm_cuda_args &args, int which, long long first, int count, int row,
                                    long long col, Each each) {
    const smm_cuda_operand &x = args.operand[which];
    for (int e = threadIdx.x; e < count * (ROWS * COLS); e += THREADS) {
        const ElementPlace<SOURCE, ORDER, ELEMENTS, ROWS, COLS> at(args, x, first, row, col, e);
        each(static_cast<X *>(x.data) + at.offset, at.q, at.i, at.j);
    }
}

/* Gives `each` the numbers of whole matrices, several of which are on their way at a time. */
template <int THREADS, int SOURCE, int ORDER, int ROWS, int COLS, class X, class Each>
__device__ inline void fetch_elements(const smm_cuda_args &args, int which, long long first, int count, Each each) {
    constexpr int AT_ONCE = 8;
    typedef ElementPlace<SOURCE, ORDER, ROWS * COLS, ROWS, COLS> At;
    const smm_cuda_operand &x = args.operand[which];
    const int all = count * (ROWS * COLS);
#pragma unroll 1
    for (int begin = threadIdx.x; begin < all; begin += AT_ONCE * THREADS) {
        X y[AT_ONCE];
#pragma unroll
        for (int t = 0; t < AT_ONCE; t++) {
            const int e = begin + t * THREADS;
            if (e < all) y[t] = static_cast<const X *>(x.data)[At(args, x, first, 0, 0, e).offset];
        }
#pragma unroll
        for (int t = 0; t < AT_ONCE; t++) {
            const int e = begin + t * THREADS;
            const At at(args, x, first, 0, 0, e);
            if (e < all) each(y[t], at.q, at.i, at.j);
        }
    }
}
