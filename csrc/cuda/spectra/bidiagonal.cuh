/* bidiagonal.cuh: singular values of an upper bidiagonal B in shared memory, and the rotations of what becomes its
 * right singular vectors, as csrc/kernels/spectra/bidiagonal_sweeps.h explains. The first lane of a matrix finds the
 * rotations of a sweep (rotations.cuh). */

/* As in csrc/kernels/bidiagonal_sweeps.h. */
constexpr int BIDIAGONAL_SWEEPS = 30;
constexpr T BIDIAGONAL_FLOOR = static_cast<T>(DOUBLE ? 0x1p-900 : 0x1p-110);
constexpr T TWO_UNITS = static_cast<T>(DOUBLE ? 0x1p-52 : 0x1p-23);

template <int N> struct Bidiagonal {
    T d[N], e[N]; /* the diagonal and what is right of it */
    Sweep<N> sweeps[SWEEPS_KEPT];
};

/* What is negligible. */
template <int N, class X> __device__ inline T tolerance_of(const X &b) {
    T largest = fabs(b.d[0]);
    EACH(int i = 1; i < N; i++) {
        if (fabs(b.d[i]) > largest) largest = fabs(b.d[i]);
        if (fabs(b.e[i - 1]) > largest) largest = fabs(b.e[i - 1]);
    }
    return product(largest, TWO_UNITS);
}

/* Whether element i beside the diagonal is not negligible; otherwise it becomes zero. */
template <class X> __device__ inline bool counts_in(X &b, T tolerance, int i) {
    const bool is_large = fabs(b.e[i]) > tolerance;
    if (!is_large) b.e[i] = 0;
    return is_large;
}

/* How a sweep begins: its first rotation turns (f, g) to (r, 0). zero: the shift is zero. */
struct Beginning {
    T f, g;
    bool zero;
};

/* Two rows: along the larger right singular vector of (d e; 0 below). */
__device__ inline Beginning begin_two(T d, T e, T below) {
    const T xx = product(d, d), yy = multiply_add(e, e, product(below, below));
    const bool y_longer = yy > xx;
    const T longer = y_longer ? yy : xx, shorter = y_longer ? xx : yy, back = reciprocal(longer);
    const T small = product(product(d, e), back), half = product(longer - shorter, product(back, T(0.5)));
    const T large = half + root(multiply_add(half, half, product(small, small)));
    return y_longer ? Beginning{small, large, false} : Beginning{large, small, false};
}

/* has_zero: an element of the diagonal is negligible. */
template <class X> __device__ inline Beginning begin_sweep(const X &b, int from, int to, bool has_zero) {
    const T d = pick(b.d, from), e = pick(b.e, from);
    if (to - from == 1) return begin_two(d, e, pick(b.d, to));
    if (has_zero) return {d, e, true};
    const T f = fabs(pick(b.d, to - 1)), g = fabs(pick(b.e, to - 1)), h = fabs(pick(b.d, to)), gg = product(g, g);
    const T sum = f + h, difference = f - h;
    const T twice = root(multiply_add(sum, sum, gg)) + root(multiply_add(difference, difference, gg));
    const T shift = quotient_of(product(f + f, h), twice), ratio = quotient_of(shift, d);
    if (!(product(ratio, ratio) > TWO_UNITS)) return {d, e, true};
    return {product(fabs(d) - shift, (d < 0 ? T(-1) : T(1)) + ratio), e, false};
}

/* The rotation that turns (f, g) to (r, 0). */
__device__ inline T turn(T f, T g, T &c, T &s) {
    const T squares = multiply_add(f, f, product(g, g));
    const RootAndReciprocal of_squares = root_and_reciprocal(squares);
    const T r = of_squares.root, back = product(r, of_squares.reciprocal);
    const bool rotates = squares > BIDIAGONAL_FLOOR;
    c = rotates ? product(f, back) : T(1);
    s = rotates ? product(g, back) : T(0);
    return r;
}

/* (x y) times the rotation. */
__device__ inline void rotate_pair(T &x, T &y, T c, T s) {
    const T here = x, there = y;
    x = multiply_add(s, there, product(c, here));
    y = multiply_add(-s, here, product(c, there));
}

/* What a sweep leaves: whether all elements beside the diagonal still count, and whether one of the diagonal is
 * negligible. */
struct Left {
    bool all_count, has_zero;
};

/* The rotations of a sweep over rows from .. to: of columns i and i + 1, which keep(i, c, s) gets, then of these rows.
 * Where there are only two, they are done. */
template <int N, class X, class Keep>
__device__ inline Left find_rotations(X &b, int from, int to, bool has_zero, T tolerance, Keep keep) {
    const Beginning start = begin_sweep(b, from, to, has_zero);
    T f = start.f, g = start.g, d = pick(b.d, from), left_c = 1, left_s = 0, e = 0, ahead = FEW ? T(0) : T(b.e[from]);
    Left left = {to - from > 1, false};
    EACH_STEP(int i = FEW ? 0 : from; i < (FEW ? N - 1 : to); i++) {
        if (FEW && (i < from || i >= to)) continue;
        T c, s;
        const T beside = FEW ? T(b.e[i]) : ahead, next = b.d[i + 1];
        if (!FEW) ahead = b.e[i + 1]; /* nothing waits for it */
        if (i > from) g = start.zero ? beside : product(left_s, beside);
        const T r = turn(f, g, c, s);
        if (i > 0 && i > from) {
            const T above = start.zero ? product(left_s, r) : r;
            b.e[i - 1] = above;
            left.all_count &= fabs(above) > tolerance;
        }
        e = product(left_c, beside);
        rotate_pair(d, e, c, s);
        if (start.zero) e = 0;
        T below = product(c, next);
        const T straight = below, along = turn(d, product(s, next), left_c, left_s);
        b.d[i] = along;
        left.has_zero |= !(fabs(along) > tolerance);
        rotate_pair(e, below, left_c, left_s);
        f = start.zero ? straight : e;
        d = below;
        keep(i, c, s);
    }
    put(b.d, to, d);
    put(b.e, to - 1, to - from == 1 ? T(0) : e);
    left.all_count &= fabs(e) > tolerance;
    left.has_zero |= !(fabs(d) > tolerance);
    return left;
}

/* The magnitudes of d become the singular values, the columns of v, if there are any, are rotated; the result: how
 * many elements beside the diagonal are not negligible when the matrix is given up. */
template <int N, class V> __device__ inline int diagonalise_nearby(Bidiagonal<N> &b, V *v) {
    const T tolerance = tolerance_of<N>(b);
    sync_lanes();
    sweep(b.sweeps, v, [&](Sweep<N> &found, int number) {
        int from = 0, to = 0;
        bool has_zero = false;
        if (number < BIDIAGONAL_SWEEPS * N) find_block<N>(from, to, [&](int i) { return counts_in(b, tolerance, i); });
        EACH(int i = FEW ? 0 : from + lane(); i <= (FEW ? N - 1 : to); i += LANES_OF_WARP)
            has_zero |= i >= from && i <= to && !(fabs(b.d[i]) > tolerance);
        has_zero = votes(has_zero);
        if (lane()) return;
        found.from = from;
        found.to = to;
        if (!to) return;
        find_rotations<N>(b, from, to, has_zero, tolerance, [&](int i, T c, T s) {
            if (!FEW)
                found.c[i] = c, found.s[i] = s;
            else if (v)
                rotate_columns<V::PITCH, V::HEIGHT>(v->x + i, c, s);
        });
    });
    int left = 0;
    EACH(int i = 0; i < N - 1; i++) left += b.e[i] != 0;
    return left;
}
template <int N, class V> __device__ inline int diagonalise(Bidiagonal<N> &b, V *v) {
    return run_nearby<N>(b, [&](Bidiagonal<N> &near) { return diagonalise_nearby(near, v); });
}
