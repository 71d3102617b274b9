/* place_numbers.cuh: as place.cuh, of complex numbers. */

/* ROWS x COLS numbers of a thread, by rows, to memory or from it: those of 8 bytes in pairs, if memory allows it. */
template <bool TO_MEMORY, int ROWS, int COLS>
__device__ inline void move_few_numbers(Number *x, Number *memory, long long row, long long col) {
    if constexpr (sizeof(Number) == 8 && COLS % 2 == 0) {
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
        Number &at = memory[e / COLS * row + e % COLS * col];
        if (TO_MEMORY)
            at = x[e];
        else
            x[e] = at;
    }
}

template <bool TURNED = false> struct PlaceOfNumbers {
    const smm_cuda_operand &operand;
    Number *data;
    __device__ PlaceOfNumbers(const smm_cuda_args &args, int which, long long q)
        : operand(args.operand[which]), data(static_cast<Number *>(operand.data) + offset_of(args, operand, q)) {}
    __device__ long long row() const { return TURNED ? operand.col : operand.row; }
    __device__ long long col() const { return TURNED ? operand.row : operand.col; }
    __device__ Number &at(int i, long long j) const { return data[i * row() + j * col()]; }
    __device__ Number get(int i, long long j) const { return at(i, j); }
    __device__ void put(int i, long long j, Number x) const { at(i, j) = x; }
    template <int ROWS, int COLS> __device__ void load(Number *x) const {
        move_few_numbers<false, ROWS, COLS>(x, data, row(), col());
    }
    template <int ROWS, int COLS> __device__ void store(Number *x) const {
        move_few_numbers<true, ROWS, COLS>(x, data, row(), col());
    }
};
