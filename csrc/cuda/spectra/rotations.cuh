/* rotations.cuh: matrices of orthonormal columns in shared memory, of reflectors and of the rotations of a sweep: what
 * eigenvectors and right singular vectors have in common. By all lanes of a matrix. */

/* x_i of a few, whatever i is. */
template <class X, int COUNT> __device__ inline X pick(const X (&x)[COUNT], int i) {
    if (!FEW) return x[i];
    X y = x[0];
    EACH(int k = 1; k < COUNT; k++)
        if (k == i) y = x[k];
    return y;
}
/* x_i = y; i is from .. from + count - 1. */
template <class X, int COUNT> __device__ inline void put(X (&x)[COUNT], int i, X y, int from = 0, int count = COUNT) {
    if (!FEW) x[i] = y;
    EACH(int k = from; k < from + count && FEW; k++)
        if (k == i) x[k] = y;
}

/* The same of what is not an array of a few. */
template <class X> __device__ inline T pick(const X &x, int i) { return x[i]; }
template <class X> __device__ inline void put(const X &x, int i, T y) { x[i] = y; }

/* N x N elements. The parts of complex ones lie apart, so that rotations turn both alike: all real parts by rows, then
 * all imaginary ones. from() is used like a pointer to the elements of a row. */
template <int N> struct Vectors {
    static constexpr int PITCH = FEW ? N : N | 1; /* lanes have rows, or columns: either way in different banks */
    static constexpr int HEIGHT = COMPLEX ? 2 * N : N;
    T x[HEIGHT * PITCH];
#if SMM_COMPLEX
    struct Parts {
        T &re, &im;
        __device__ operator Complex() const { return {re, im}; }
        __device__ void operator=(Complex y) const { re = y.re, im = y.im; }
    };
    struct Pointer {
        T *re, *im;
        __device__ Parts operator[](long long i) const { return {re[i], im[i]}; }
        __device__ Pointer operator+(long long i) const { return {re + i, im + i}; }
    };
    __device__ Parts at(int i, int j) { return {x[i * PITCH + j], x[(N + i) * PITCH + j]}; }
    __device__ Pointer from(int i, int j) { return {x + i * PITCH + j, x + (N + i) * PITCH + j}; }
#else
    __device__ T &at(int i, int j) { return x[i * PITCH + j]; }
    __device__ T *from(int i, int j) { return x + i * PITCH + j; }
#endif
};

/* V = H_0 H_1 ... of reflectors right of the diagonal in rows, from the last on: rows and columns up to k are still
 * those of I when H_k comes. */
template <int N> __device__ inline void form_vectors(Vectors<N> &a, const Element *taus) {
    EACH_STEP(int k = N - 2; k >= 0; k--) {
        const Element tau = taus[k], minus = negative(tau);
        EACH_STEP(int j = k + 2 + lane(); j < N; j += LANES) {
            Element w = product(conjugate(a.at(k, k + 2)), a.at(k + 2, j));
            EACH(int i = k + 3; i < N; i++) w = multiply_add(conjugate(a.at(k, i)), a.at(i, j), w);
            w = product(tau, w);
            a.at(k + 1, j) = negative(w);
            EACH(int i = k + 2; i < N; i++) a.at(i, j) = multiply_subtract(a.at(k, i), w, a.at(i, j));
        }
        EACH(int i = k + 1 + lane(); i < N; i += LANES)
            a.at(i, k + 1) = i == k + 1 ? difference_of(element_of(1), tau) : product(minus, a.at(k, i));
        sync_lanes();
    }
    EACH(int i = lane(); i < N; i += LANES) {
        const Element one = element_of(i == 0);
        a.at(0, i) = one;
        a.at(i, 0) = one;
    }
    sync_lanes();
}

/* Bit l: what lane l of those of a matrix in this warp says. */
__device__ inline unsigned votes(bool x) {
    if (LANES == 1) return x;
    return (__ballot_sync(same_matrix(), x) & same_matrix()) >> (threadIdx.x % 32 / LANES_OF_WARP * LANES_OF_WARP);
}

/* Of the N - 1 elements beside a diagonal the last ones of which none is negligible: from .. to - 1, or `to` is 0.
 * counts(i) says of element i whether it is not, and otherwise makes it zero. By the first warp of a matrix. */
template <int N, class Counts> __device__ inline void find_block(int &from, int &to, Counts counts) {
    bool ended = false;
    from = to = 0;
    EACH(int first = (N - 1) / LANES_OF_WARP * LANES_OF_WARP; first >= 0; first -= LANES_OF_WARP) {
        const int i = first + lane();
        const unsigned these = votes(i < N - 1 && counts(i));
        if (these && !to) to = first + 32 - __clz(these);
        if (!to || ended) continue;
        const int width = min_of(to - first, LANES_OF_WARP);
        const unsigned gaps = ~these & (width < 32 ? (1u << width) - 1 : WARP);
        from = first + 32 - __clz(gaps);
        ended = gaps;
    }
    if (LANES > 1) __syncwarp(same_matrix());
}

/* The rotations of a sweep: of columns i and i + 1, from .. to - 1. None, if `to` is 0. */
template <int N> struct Sweep {
    T c[N], s[N];
    int from, to;
};

/* A rotation of two columns, which begin at a, of so many rows in registers. */
template <int PITCH, int ROWS> __device__ inline void rotate_columns(T *a, T c, T s) {
    EACH(int row = 0; row < ROWS; row++) {
        T *const v = a + row * PITCH, left = v[0], right = v[1];
        v[0] = multiply_add(s, right, product(c, left));
        v[1] = multiply_add(-s, left, product(c, right));
    }
}

/* They turn these columns of N, of so many rows, by lanes first .. LANES. */
template <int N, int PITCH, int ROWS> __device__ inline void rotate_rows(T *a, const Sweep<N> &x, int first) {
    const int from = x.from, to = x.to;
    EACH_STEP(int row = lane() - first; row < ROWS; row += LANES - first) {
        if (row < 0) break;
        T *v = a + row * PITCH, left = v[from];
        EACH(int i = from; i < to; i++) {
            const T right = v[i + 1], c = x.c[i], s = x.s[i];
            v[i] = multiply_add(s, right, product(c, left));
            left = multiply_add(-s, left, product(c, right));
        }
        v[to] = left;
    }
}

/* Sweeps until find(sweep), by the first warp of a matrix, finds none; they rotate the columns of v, if there are any.
 * Where a matrix has more warps, one finds a sweep while the others do the one before. */
constexpr int SWEEPS_KEPT = BY_BLOCK ? 2 : 1;
template <int N, class V, class Find> __device__ inline void sweep(Sweep<N> (&x)[SWEEPS_KEPT], V *v, Find find) {
    if (BY_BLOCK && lane() < LANES_OF_WARP) find(x[0], 0);
    for (int number = 0;; number++) {
        Sweep<N> &here = x[number % SWEEPS_KEPT], &next = x[(number + 1) % SWEEPS_KEPT];
        if (!BY_BLOCK) find(here, number);
        sync_lanes();
        if (here.to == 0) break;
        if (BY_BLOCK && lane() < LANES_OF_WARP) find(next, number + 1);
        if (v && !FEW) rotate_rows<N, V::PITCH, V::HEIGHT>(v->x, here, BY_BLOCK ? LANES_OF_WARP : 0);
        if (!BY_BLOCK) sync_lanes();
    }
}

/* run(x), x being diagonals and sweeps, which a lane works on step by step: in shared memory even where matrices are
 * outside of it. */
template <int N, class Diagonals, class Run> __device__ inline int run_nearby(Diagonals &x, Run run) {
#if SMM_OUTSIDE
    static_assert(SMM_THREADS == LANES, "one matrix of a block");
    __shared__ Diagonals own;
    EACH(int i = lane(); i < N; i += LANES) {
        own.d[i] = x.d[i];
        if (i + 1 < N) own.e[i] = x.e[i];
    }
    sync_lanes();
    const int left = run(own);
    sync_lanes();
    EACH(int i = lane(); i < N; i += LANES) x.d[i] = own.d[i];
    sync_lanes();
    return left;
#else
    return run(x);
#endif
}

/* Gives `to` x_0 .. x_count-1 times the number of magnitude 1 that makes the largest, the first of equals, positive.
 * Zeros are positive. */
template <class X, class TO> __device__ inline void give_normalized(X x, int count, TO to) {
#if SMM_COMPLEX
    Complex largest = {1, 0};
    T most = 0;
    int at = -1;
    EACH(int i = 0; i < count; i++) {
        const Complex y = x(i);
        const T square = multiply_add(y.im, y.im, product(y.re, y.re));
        if (square > most) largest = y, most = square, at = i;
    }
    const T size = root(most);
    const Complex phase = {quotient_of(largest.re, size), quotient_of(-largest.im, size)};
    EACH(int i = 0; i < count; i++) {
        const Complex y = i == at ? Complex{size, 0} : product(x(i), phase);
        to(i, Complex{y.re + T(0), y.im + T(0)});
    }
#else
    T largest = x(0);
    EACH(int i = 1; i < count; i++)
        if (fabs(x(i)) > fabs(largest)) largest = x(i);
    EACH(int i = 0; i < count; i++) to(i, (largest < 0 ? -x(i) : x(i)) + T(0));
#endif
}
