/* lu_lanes_image.cuh: the matrices of a block of lu_lanes.cuh from memory to their images and back. */

/* Visit count * EACH elements in the order of memory, by vectors where they can be: act(is it a vector, offset in
 * memory, place in shared memory), where EACH elements begin every STRIDE. */
template <int EACH, int STRIDE, class Act> __device__ inline void each_vector(int count, Act act) {
    constexpr bool BY_VECTORS = ALIGNED && MATRICES * EACH % WIDEST == 0 && (STRIDE == EACH || EACH % WIDEST == 0);
    constexpr unsigned LENGTH = BY_VECTORS ? WIDEST : 1, TURN = THREADS * LENGTH;
    constexpr bool REGULAR = STRIDE == EACH || TURN % EACH == 0; /* all turns do alike */
    const auto place = [](unsigned e) { return STRIDE == EACH ? e : e + e / EACH * (STRIDE - EACH); };
    const unsigned total = count * EACH, begin = threadIdx.x * LENGTH, there = place(begin);
#pragma unroll 8
    for (unsigned turn = 0; turn < ceil_div(MATRICES * EACH, TURN); turn++) {
        const unsigned e = begin + turn * TURN;
        if (e + LENGTH > total) continue;
        act(BY_VECTORS, e, REGULAR ? there + turn * (TURN / EACH * STRIDE + TURN % EACH) : place(e));
    }
    const unsigned e = total / LENGTH * LENGTH + threadIdx.x; /* the last ones of the last block */
    if (LENGTH > 1 && e < total) act(false, e, place(e));
}

/* Visit the rows x cols elements of matrices with arbitrary strides: act(offset in memory, place of the element). */
template <int ROWS, int COLS, int STRIDE, int ORDER, class Act>
__device__ inline void each_element(const smm_cuda_operand &x, int count, const long long *where, Act act) {
    for (int e = threadIdx.x; e < count * ROWS * COLS; e += THREADS) {
        const int q = e / (ROWS * COLS), rest = e % (ROWS * COLS);
        const int i = ORDER == SMM_ORDER_COL ? rest % ROWS : rest / COLS;
        const int j = ORDER == SMM_ORDER_COL ? rest / ROWS : rest % COLS;
        act(where[q] + i * x.row + j * x.col, q * STRIDE + i * COLS + j);
    }
}

/* Start copying matrices of N rows of COLS elements to shared memory. */
template <bool FLAT, int COLS, int STRIDE, int ORDER>
__device__ inline void stage(Element *to, const smm_cuda_operand &x, long long first, int count,
                             const long long *where) {
    const Stored *from = static_cast<const Stored *>(x.data);
    if constexpr (FLAT) {
        from += first * (N * COLS);
        each_vector<N * COLS, STRIDE>(count, [&](bool vector, unsigned e, unsigned place) {
            vector ? copy<WIDEST>(to + place, from + e) : copy<1>(to + place, from + e);
        });
    } else
        each_element<N, COLS, STRIDE, ORDER>(x, count, where,
                                             [&](long long offset, int place) { copy<1>(to + place, from + offset); });
}

/* Write them back. */
template <bool FLAT, int COLS, int STRIDE, int ORDER>
__device__ inline void unstage(const Element *from, const smm_cuda_operand &x, long long first, int count,
                               const long long *where) {
    Stored *to = static_cast<Stored *>(x.data);
    if constexpr (FLAT) {
        to += first * (N * COLS);
        each_vector<N * COLS, STRIDE>(count, [&](bool vector, unsigned e, unsigned place) {
            if (vector)
                store<WIDEST>(to + e, load<WIDEST>(from + place));
            else
                to[e] = from[place];
        });
    } else
        each_element<N, COLS, STRIDE, ORDER>(x, count, where,
                                             [&](long long offset, int place) { to[offset] = from[place]; });
}
