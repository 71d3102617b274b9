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

/* Whether element i beside the diagonal is not negligible; otherwise it becomes zero. */
template <int N> __device__ inline bool counts(Tridiagonal<N> &x, int i) {
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

/* The rotations of a sweep over rows from .. to, which a thread of few rows does at once to the columns of v. Where
 * there are only two rows, they are done. */
template <int N, class V> __device__ inline void find_rotations(Tridiagonal<N> &x, Sweep<N> &sweep, V *v) {
    const int from = sweep.from, to = sweep.to;
    const T above = pick(x.d, to - 1), last = pick(x.d, to), between = apart(above, pick(x.e, to - 1), last);
    const T shift = last - between;
    const bool two = to - from == 1;
    T c = 1, s = 1, p = 0, d = pick(x.d, from), g = d - shift, ahead = FEW ? T(0) : x.e[from];
    EACH_STEP(int i = FEW ? 0 : from; i < (FEW ? N - 1 : to); i++) {
        if (FEW && (i < from || i >= to)) continue;
        const T e = FEW ? x.e[i] : ahead, next = x.d[i + 1], f = product(s, e), b = product(c, e);
        if (!FEW) ahead = x.e[i + 1]; /* nothing waits for it */
        const T squares = multiply_add(g, g, product(f, f));
        const RootAndReciprocal of_squares = root_and_reciprocal(squares);
        const T r = of_squares.root, back = product(r, of_squares.reciprocal);
        const bool rotates = squares > TRIDIAGONAL_FLOOR_SQUARED;
        if (i > 0 && i > from) x.e[i - 1] = r;
        c = rotates ? product(g, back) : T(1);
        s = rotates ? product(f, back) : T(0);
        if (!FEW)
            sweep.c[i] = c, sweep.s[i] = s;
        else if (v)
            rotate_columns<V::PITCH, V::HEIGHT>(v->x + i, c, s);
        const T h = d - p, t = multiply_add(b + b, c, product(next - h, s));
        p = product(s, t);
        x.d[i] = h + p;
        g = multiply_add(c, t, -b);
        d = next;
    }
    if (two) put(x.d, from, above + between);
    put(x.d, to, two ? shift : d - p);
    put(x.e, to - 1, two ? T(0) : g);
}

/* d becomes w, the columns of v, if there are any, are rotated; the result: how many e_i are not negligible when the
 * matrix is given up. */
template <int N, class V> __device__ inline int diagonalise_nearby(Tridiagonal<N> &x, V *v) {
    sweep(x.sweeps, v, [&](Sweep<N> &found, int number) {
        int from = 0, to = 0;
        if (number < TRIDIAGONAL_SWEEPS * N) find_block<N>(from, to, [&](int i) { return counts(x, i); });
        if (lane()) return;
        found.from = from;
        found.to = to;
        if (to) find_rotations(x, found, v);
    });
    int left = 0;
    EACH(int i = 0; i < N - 1; i++) left += x.e[i] != 0;
    return left;
}
template <int N, class V> __device__ inline int diagonalise(Tridiagonal<N> &x, V *v) {
    return run_nearby<N>(x, [&](Tridiagonal<N> &near) { return diagonalise_nearby(near, v); });
}
