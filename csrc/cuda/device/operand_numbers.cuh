/* operand_numbers.cuh: the numbers of operands: complex ones (number.cuh), or of type X. */

/* Gives `each` the numbers (i, j) of a part of matrices first .. first + count - 1 of an operand: ROWS x COLS numbers
 * from (row, col) on, and their place in the part. All threads of a block take part, and neighbours find theirs side
 * by side in memory. A flat operand has ELEMENTS numbers per matrix. */
template <int THREADS, int SOURCE, int ORDER, int ELEMENTS, int ROWS, int COLS, class X = Number, class Each>
__device__ inline void for_numbers(const smm_cuda_args &args, int which, long long first, int count, int row,
                                   long long col, Each each) {
    const smm_cuda_operand &x = args.operand[which];
    X *const data = static_cast<X *>(x.data);
    for (int e = threadIdx.x; e < count * (ROWS * COLS); e += THREADS) {
        const int q = e / (ROWS * COLS), place = e % (ROWS * COLS);
        const int i = ORDER == SMM_ORDER_ROW ? place / COLS : place % ROWS;
        const int j = ORDER == SMM_ORDER_ROW ? place % COLS : place / ROWS;
        const long long matrix = SOURCE == SMM_SOURCE_FLAT  ? (first + q) * ELEMENTS
                                 : SOURCE == SMM_SOURCE_ONE ? 0
                                                            : offset_of(args, x, first + q);
        each(data + matrix + (row + i) * x.row + (col + j) * x.col, q, i, j);
    }
}
