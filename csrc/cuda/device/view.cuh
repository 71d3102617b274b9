/* view.cuh: a matrix of an operand where it lies in memory. */

/* Matrix q; where the operand's are `flat`, they follow each other so many elements apart. */
template <class X> struct View {
    X *data;
    long long row, col;
    __device__ View(const smm_cuda_args &args, int which, long long q, bool flat = false, long long elements = 0)
        : data(static_cast<X *>(args.operand[which].data) +
               (flat ? q * elements : offset_of(args, args.operand[which], q))),
          row(args.operand[which].row), col(args.operand[which].col) {}
    __device__ X &at(int i, long long j) const { return data[i * row + j * col]; }
};
