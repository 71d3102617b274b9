/* tridiagonal.cuh: eigenvalues of a symmetric tridiagonal T in shared memory, or of few rows in a thread's registers,
 * and the rotations of what becomes its eigenvectors, as csrc/kernels/spectra/eigh_sweeps.h explains. The first lane of
 * a matrix finds the rotations of a sweep (rotations.cuh). */

/* As in csrc/kernels/eigh_sweeps.h. */
constexpr int TRIDIAGONAL_SWEEPS = 30;
constexpr T TRIDIAGONAL_UNIT = static_cast<T>(DOUBLE ? 0x1p-53 : 0x1p-24);
constexpr T TRIDIAGONAL_FLOOR = static_cast<T>(DOUBLE ? 0x1p-450 : 0x1p-55);
constexpr T TRIDIAGONAL_FLOOR_SQUARED = static_cast<T>(DOUBLE ? 0x1p-900 : 0x1p-110);

template <int N> struct Tridiagonal {
    T d[N], e[N]; /* the diagonal and what is beside it */
    Sweep<N> sweeps[SWEEPS_KEPT];
};

/* Whether element i beside the diagonal of x is not negligible; otherwise it becomes zero. */
template <class X> __device__ inline bool counts_in(X &x, int i) {
    const T small = product(fabs(x.d[i]) + fabs(x.d[i + 1]), TRIDIAGONAL_UNIT);
    const bool is_large = fabs(x.e[i]) > (small > TRIDIAGONAL_FLOOR ? small : TRIDIAGONAL_FLOOR);
    if (!is_large) x.e[i] = 0;
    return is_large;
}

/* t, of (d e; e d_next): d + t and d_next - t, which is Wilkinson's shift, are its eigenvalues. */
__device__ inline T apart(T d, T e, T d_next) {
    const T half = product(d - d_next, T(0.5)), square = product(e, e), size = root(multiply_add(half, half, square));
    return quotient_of(square, half + (half < 0 ? -size : size));
}

/* Whether e beside d and d_next is, for sure, not negligible: by the leading words of a few binary orders more. */
__device__ inline bool counts_by_far(T e, T d, T d_next) {
    constexpr int FAR = DOUBLE ? 50 << 20 : 21 << 23, FLOOR = DOUBLE ? (1023 - 449) << 20 : (127 - 54) << 23;
    const int size = leading(e) & 0x7fffffff;
    const int beside = max_of(leading(d) & 0x7fffffff, leading(d_next) & 0x7fffffff);
    return size >= FLOOR && size >= beside - FAR;
}

/* The rotations of a sweep over rows from .. to; keep(i, c, s) has those of columns i and i + 1. Where there are only
 * two rows, they are done. The result: whether all elements beside the diagonal still count for sure. */
template <int N, class X, class Keep> __device__ inline bool find_rotations(X &x, int from, int to, Keep keep) {
    const T above = pick(x.d, to - 1), last = pick(x.d, to), between = apart(above, pick(x.e, to - 1), last);
    const T shift = last - between;
    const bool two = to - from == 1;
    bool all_count = !two;
    T c = 1, s = 1, p = 0, d = pick(x.d, from), g = d - shift, ahead = FEW ? T(0) : T(x.e[from]);
    T d_above = 0;
    EACH_STEP(int i = FEW ? 0 : from; i < (FEW ? N - 1 : to); i++) {
        if (FEW && (i < from || i >= to)) continue;
        const T e = FEW ? T(x.e[i]) : ahead, next = x.d[i + 1], f = product(s, e), b = product(c, e);
        if (!FEW) ahead = x.e[i + 1]; /* nothing waits for it */
        const T squares = multiply_add(g, g, product(f, f));
        const RootAndReciprocal of_squares = root_and_reciprocal(squares);
        const T r = of_squares.root, back = product(r, of_squares.reciprocal);
        const bool rotates = squares > TRIDIAGONAL_FLOOR_SQUARED;
        if (i > 0 && i > from) x.e[i - 1] = r;
        c = rotates ? product(g, back) : T(1);
        s = rotates ? product(f, back) : T(0);
        keep(i, c, s);
        const T h = d - p, t = multiply_add(b + b, c, product(next - h, s));
        p = product(s, t);
        x.d[i] = h + p;
        if (i > from) all_count &= counts_by_far(r, d_above, h + p);
        d_above = h + p;
        g = multiply_add(c, t, -b);
        d = next;
    }
    const T bottom = d - p;
    all_count &= counts_by_far(g, d_above, bottom);
    if (two) put(x.d, from, above + between);
    put(x.d, to, two ? shift : bottom);
    put(x.e, to - 1, two ? T(0) : g);
    return all_count;
}

/* d becomes w, the columns of v, if there are any, are rotated; the result: how many e_i are not negligible when the
 * matrix is given up. */
template <int N, class V> __device__ inline int diagonalise_nearby(Tridiagonal<N> &x, V *v) {
    sweep(x.sweeps, v, [&](Sweep<N> &found, int number) {
        int from = 0, to = 0;
        if (number < TRIDIAGONAL_SWEEPS * N) find_block<N>(from, to, [&](int i) { return counts_in(x, i); });
        if (lane()) return;
        found.from = from;
        found.to = to;
        if (!to) return;
        find_rotations<N>(x, from, to, [&](int i, T c, T s) {
            if (!FEW)
                found.c[i] = c, found.s[i] = s;
            else if (v)
                rotate_columns<V::PITCH, V::HEIGHT>(v->x + i, c, s);
        });
    });
    int left = 0;
    EACH(int i = 0; i < N - 1; i++) left += x.e[i] != 0;
    return left;
}
template <int N, class V> __device__ inline int diagonalise(Tridiagonal<N> &x, V *v) {
    return run_nearby<N>(x, [&](Tridiagonal<N> &near) { return diagonalise_nearby(near, v); });
}
