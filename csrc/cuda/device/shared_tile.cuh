/* shared_tile.cuh: the matrices of a block in shared memory, and moving them there and back in 16-byte vectors. Their
 * elements are those of element.cuh, in the vectors of element_vectors.cuh.
 *
 * An image holds COUNT matrices of LINES lines of LENGTH elements; a line is a row or a column, whichever is
 * contiguous. Flat matrices keep their order in memory, so any number of bytes moves in whole vectors. Lines that are
 * an even number of vectors long are padded to an odd one where PAD asks for it (to an odd multiple of PAD): then equal
 * columns of neighbouring lines lie in different banks. All other lengths are free of conflicts by themselves. SKEW
 * vectors lie between padded matrices. Where the memory is not aligned, the image is shifted by as many elements, so
 * that vectors of the image are still vectors of the memory. */

template <int LINES_, int LENGTH_, int SOURCE_, int MATRICES, int PAD, int SKEW = 0> struct SharedTile {
    static constexpr int LINES = LINES_, LENGTH = LENGTH_, SOURCE = SOURCE_;
    static constexpr bool WHOLE = ALIGNED && LENGTH > 0 && LENGTH % WIDEST == 0; /* lines are whole vectors */
    static constexpr int PITCH =
        PAD && WHOLE ? LENGTH + WIDEST * ((3 * PAD - LENGTH / WIDEST % max_of(2 * PAD, 1)) % max_of(2 * PAD, 1))
                     : LENGTH;
    static constexpr int MATRIX = LINES * PITCH + (WHOLE ? SKEW * WIDEST : 0);
    static constexpr int COUNT = SOURCE == SMM_SOURCE_ONE ? 1 : MATRICES;
    static constexpr int WIDTH = ALIGNED ? widest_of(LENGTH) : 1; /* of vectors along a line */
    static constexpr int ELEMENTS = ceil_div(COUNT * MATRIX + (ALIGNED ? 0 : WIDEST - 1), WIDEST) * WIDEST;
    static constexpr int VECTORS = ceil_div(COUNT * LINES * LENGTH + (ALIGNED ? 0 : WIDEST - 1), WIDEST);

    /* Where vector v of the memory lies in the image. */
    __device__ static int place(int v) {
        constexpr int each = WHOLE ? LENGTH / WIDEST : 1, skew = MATRIX - LINES * PITCH;
        const int skewed = skew ? v / (each * LINES) * skew : 0;
        return skewed + (PITCH == LENGTH ? v * WIDEST : v / each * PITCH + v % each * WIDEST);
    }
    /* Whether anything is read of the vector that begins at this place of a line. */
    __device__ static bool wanted(int line, int place) { return true; }
    /* Whether blocks with all their matrices, of aligned memory, move by a text of their own, without any checks. */
    static constexpr bool QUICK = false;

    /* The vectors of a thread, one at each turn. Where a turn is a whole number of lines that divides a matrix, or a
     * whole number of matrices, the places of the turns are a constant apart. */
    template <int THREADS> struct Walk {
        static constexpr int EACH = WHOLE ? LENGTH / WIDEST : 1, AT_ONCE = max_of(THREADS / EACH, 1);
        static constexpr int TURNS = ceil_div(VECTORS, THREADS);
        static constexpr bool EVEN = WHOLE && THREADS % EACH == 0 && (LINES % AT_ONCE == 0 || AT_ONCE % LINES == 0);
        __device__ static bool has(int turn) {
            return VECTORS % THREADS == 0 || turn + 1 < TURNS || turn * THREADS + threadIdx.x < VECTORS;
        }
        __device__ static int place(int turn) {
            if (!EVEN) return SharedTile::place(turn * THREADS + threadIdx.x);
            return SharedTile::place(threadIdx.x) + turn * AT_ONCE % LINES * PITCH + turn * AT_ONCE / LINES * MATRIX;
        }
        template <class I> __device__ static bool wanted(int turn) {
            const unsigned v = EVEN ? threadIdx.x : turn * THREADS + threadIdx.x, e = v * WIDEST;
            return I::wanted(e / LENGTH % LINES + (EVEN ? turn * AT_ONCE % LINES : 0), e % LENGTH);
        }
    };
    __device__ static int shift_of(const Stored *memory) {
        return ALIGNED ? 0 : static_cast<int>(reinterpret_cast<unsigned long long>(memory) / sizeof(Stored) % WIDEST);
    }
};

/* Start filling the image with matrices first .. first + count. Returns the shift. `where` are the matrices' offsets
 * if their strides are arbitrary; line and step are then the strides of lines and within a line. */
template <class I, int THREADS, bool ASYNC>
__device__ inline int stage(Element *image, const smm_cuda_operand &x, long long first, int count,
                            const long long *where, long long line, long long step) {
    const Stored *from = static_cast<const Stored *>(x.data);
    if constexpr (I::SOURCE == SMM_SOURCE_STRIDED) {
        constexpr int each = max_of(I::LINES * I::LENGTH, 1), length = max_of(I::LENGTH, 1);
        for (int e = threadIdx.x; e < count * I::LINES * I::LENGTH; e += THREADS) {
            const int q = e / each, l = e % each / length, j = e % length;
            copy<1>(image + q * I::MATRIX + l * I::PITCH + j, from + where[q] + l * line + j * step);
        }
        return 0;
    }
    if (I::SOURCE == SMM_SOURCE_FLAT) from += first * (I::LINES * I::LENGTH);
    const int total = (I::SOURCE == SMM_SOURCE_ONE ? 1 : count) * I::LINES * I::LENGTH;
    const int shift = I::shift_of(from);
    constexpr int TURNS = ceil_div(I::VECTORS, THREADS);
    typedef typename I::template Walk<THREADS> Walk;
    if constexpr (I::QUICK && ASYNC && ALIGNED && I::SOURCE == SMM_SOURCE_FLAT) {
        if (count == I::COUNT) {
            from += threadIdx.x * WIDEST;
#pragma unroll 16
            for (int turn = 0; turn < TURNS; turn++)
                if (Walk::has(turn) && Walk::template wanted<I>(turn))
                    copy<WIDEST>(image + Walk::place(turn), from + turn * (THREADS * WIDEST));
            return 0;
        }
    }
    constexpr int TOGETHER = min_of(TURNS, 8); /* reads before the first write waits */
    if constexpr ((CONVERTS || (!ASYNC && TURNS <= TOGETHER)) && ALIGNED) {
#pragma unroll
        for (int begin = 0; begin < TURNS; begin += TOGETHER) {
            Vector<WIDEST, Element> x[TOGETHER];
            const auto moves = [&](int turn) {
                const int v = turn * THREADS + threadIdx.x;
                return turn < TURNS && v * WIDEST + WIDEST <= total && Walk::template wanted<I>(turn);
            };
#pragma unroll
            for (int t = 0; t < TOGETHER; t++)
                if (moves(begin + t)) x[t] = load<WIDEST>(from + ((begin + t) * THREADS + threadIdx.x) * WIDEST);
#pragma unroll
            for (int t = 0; t < TOGETHER; t++)
                if (moves(begin + t)) store<WIDEST>(image + I::place((begin + t) * THREADS + threadIdx.x), x[t]);
        }
        const int e = total / WIDEST * WIDEST + threadIdx.x; /* the last elements of the last block */
        if (e < total) copy<1>(image + e, from + e);
        return 0;
    }
#pragma unroll 8
    for (int turn = 0; turn < TURNS; turn++) {
        const int v = turn * THREADS + threadIdx.x, e = v * WIDEST - shift;
        if (v >= I::VECTORS) break;
        if (e >= 0 && e + WIDEST <= total)
            copy<WIDEST, I::SOURCE == SMM_SOURCE_ONE>(image + I::place(v), from + e);
        else
            for (int j = 0; j < WIDEST; j++)
                if (e + j >= 0 && e + j < total) copy<1>(image + I::place(v) + j, from + e + j);
    }
    return shift;
}

/* Write the image, which begins `shift` elements into the buffer, to matrices first .. first + count. */
template <class I, int THREADS>
__device__ inline void unstage(const Element *image, const smm_cuda_operand &x, long long first, int count,
                               const long long *where) {
    Stored *to = static_cast<Stored *>(x.data);
    if constexpr (I::SOURCE == SMM_SOURCE_STRIDED) {
        for (int e = threadIdx.x; e < count * I::LINES * I::LENGTH; e += THREADS) {
            const int q = e / (I::LINES * I::LENGTH), i = e / I::LENGTH % I::LINES, j = e % I::LENGTH;
            to[where[q] + i * x.row + j * x.col] = image[q * I::MATRIX + i * I::PITCH + j];
        }
        return;
    }
    to += first * (I::LINES * I::LENGTH);
    const int total = count * I::LINES * I::LENGTH;
    const int shift = I::shift_of(to);
    if constexpr (I::QUICK && ALIGNED) {
        typedef typename I::template Walk<THREADS> Walk;
        constexpr int TOGETHER = 8; /* reads before the first write waits */
        if (count == I::COUNT) {
            to += threadIdx.x * WIDEST;
#pragma unroll 2
            for (int turn = 0; turn < Walk::TURNS; turn += TOGETHER) {
                Vector<WIDEST, Element> x[TOGETHER];
#pragma unroll
                for (int t = turn; t < turn + TOGETHER; t++)
                    if (t < Walk::TURNS && Walk::has(t)) x[t - turn] = load<WIDEST>(image + Walk::place(t));
#pragma unroll
                for (int t = turn; t < turn + TOGETHER; t++)
                    if (t < Walk::TURNS && Walk::has(t)) store<WIDEST>(to + t * (THREADS * WIDEST), x[t - turn]);
            }
            return;
        }
    }
#pragma unroll 8
    for (int turn = 0; turn < ceil_div(I::VECTORS, THREADS); turn++) {
        const int v = turn * THREADS + threadIdx.x, e = v * WIDEST - shift;
        if (v >= I::VECTORS) break;
        if (e >= 0 && e + WIDEST <= total)
            store<WIDEST>(to + e, load<WIDEST>(image + I::place(v)));
        else
            for (int j = 0; j < WIDEST; j++)
                if (e + j >= 0 && e + j < total) to[e + j] = image[I::place(v) + j];
    }
}
