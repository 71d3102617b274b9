/* svd_of_numbers.cuh: A = U diag(s) V^H of complex matrices, or s only, by the methods of svd.cuh, as
 * kernels/svd_numbers.h and svd_bidiagonal_numbers.h have them.
 *
 * Whoever includes it has SMM_M and SMM_N, the sizes, VECTORS, and FULL: U and V are square; operands are Places
 * (place.cuh). */
#include "rotations.cuh"
#include "bidiagonal.cuh"
#include "jacobi.cuh"
#include "vectors.cuh"

constexpr bool WIDE = SMM_M < SMM_N;                           /* A is transposed */
constexpr int M = most(SMM_M, SMM_N), N = least(SMM_M, SMM_N); /* of the tall matrix */
constexpr int COLUMNS = FULL ? M : N;                          /* of its longer vectors */
constexpr int PITCH = pitch_of(N);

constexpr bool BY_JACOBI = N <= JACOBI_MOST;
constexpr T TOLERANCE = static_cast<T>(most(2 * N, 4) * (DOUBLE ? 0x1p-53 : 0x1p-24));

constexpr bool KEEPS_A = BY_JACOBI, KEEPS_R = BY_JACOBI || VECTORS; /* others read A from memory once more */

struct Work {
    Number x[M * PITCH]; /* A P = Q R, or A, then the reflectors of A = Q B P^H; then V P, or V; then A V */
    Number a[KEEPS_A ? M * PITCH : 1];
    Number tau[N];
    Parts<KEEPS_R ? N : 1> r; /* the rows of R, which are rotated, or P; then V; then U of square A */
    Bidiagonal<N> b;
    T s[N];      /* squared lengths of columns, then singular values */
    int perm[N]; /* the column of A that column j of A P was */
};

/* A. The largest magnitude of a part, and whether all are finite, for all lanes. */
template <class A> __device__ inline bool load(Work &w, const A &from, T &largest) {
    Number *const to = KEEPS_A ? w.a : w.x, few[FEW ? M * N : 1];
    if constexpr (FEW) from.template load<M, N>(few);
    bool finite = true;
    largest = 0;
    EACH(int e = lane(); e < M * N; e += LANES) {
        const Number y = FEW ? few[FEW ? e : 0] : from.get(e / N, e % N);
        finite &= measure(y, largest);
        to[e / N * PITCH + e % N] = y;
    }
    return meet(largest, finite);
}

/* A P = Q R: the columns of A P are sorted by length. */
__device__ inline void reduce(Work &w) {
    EACH(int j = lane(); j < N; j += LANES) {
        T squares = 0;
        EACH(int i = 0; i < M; i++) {
            const Number y = w.a[i * PITCH + j];
            squares = multiply_add(y.im, y.im, multiply_add(y.re, y.re, squares));
        }
        w.s[j] = squares;
    }
    wait();
    EACH(int j = lane(); j < N; j += LANES) {
        const int place = place_of<N>(w.s, j);
        put(w.perm, place, j);
        EACH(int i = 0; i < M; i++) put(w.x, i * PITCH + place, w.a[i * PITCH + j], i * PITCH, N);
    }
    wait();
    factor_numbers<M, N, PITCH>(w.x, w.tau);
    EACH(int e = lane(); e < N * N; e += LANES)
        w.r.at(e / N, e % N) = e / N <= e % N ? w.x[e / N * PITCH + e % N] : Number{0, 0};
    wait();
}

/* Make rows x and y of R orthogonal, and x the longer: their product x y^H is p |x y^H|, and x and p y are rotated.
 * False if |x y^H| <= tolerance |x| |y| already. */
__device__ inline bool rotate(Work &w, int row_x, int row_y) {
    T xx[2] = {0, 0}, yy[2] = {0, 0}, re[2] = {0, 0}, im[2] = {0, 0}, c, s;
    EACH(int k = 0; k < N; k++) {
        const Number x = w.r.at(row_x, k), y = w.r.at(row_y, k);
        xx[0] = multiply_add(x.re, x.re, xx[0]);
        xx[1] = multiply_add(x.im, x.im, xx[1]);
        yy[0] = multiply_add(y.re, y.re, yy[0]);
        yy[1] = multiply_add(y.im, y.im, yy[1]);
        re[0] = multiply_add(x.re, y.re, re[0]);
        re[1] = multiply_add(x.im, y.im, re[1]);
        im[0] = multiply_add(x.im, y.re, im[0]);
        im[1] = multiply_add(x.re, y.im, im[1]);
    }
    const Number xy = {re[0] + re[1], im[0] - im[1]};
    const T most = fabs(xy.re) > fabs(xy.im) ? fabs(xy.re) : fabs(xy.im); /* squares might underflow */
    const Number unit = {quotient_of(xy.re, most), quotient_of(xy.im, most)};
    const T length = root(multiply_add(unit.im, unit.im, product(unit.re, unit.re)));
    const T size = most == 0 ? T(0) : product(most, length);
    if (!find_rotation(xx[0] + xx[1], yy[0] + yy[1], size, TOLERANCE, c, s)) return false;
    const Number phase = {quotient_of(unit.re, length), quotient_of(unit.im, length)};
    EACH(int k = 0; k < N; k++) {
        Number x = w.r.at(row_x, k), y = product(phase, w.r.at(row_y, k));
        rotate_pair(x.re, y.re, c, s);
        rotate_pair(x.im, y.im, c, s);
        w.r.at(row_x, k) = x;
        w.r.at(row_y, k) = y;
    }
    return true;
}

/* A = Q B P^H. Step k: a reflector from the left for column k, and one from the right for the conjugate of row k right
 * of its diagonal. */
__device__ inline void bidiagonalise(Work &w) {
    for (int k = 0; k < N; k++) {
        const auto v = [&](int i) -> Number & { return w.x[(k + i) * PITCH + k]; };
        const auto u = [&](int j) -> Number & { return w.x[k * PITCH + k + 1 + j]; };
        make_reflector_of_numbers(v, M - k, w.tau[k]);
        for (int j = k + 1 + lane(); j < N; j += LANES)
            reflect_numbers(v, conjugate(w.tau[k]), [&](int i) -> Number & { return w.x[(k + i) * PITCH + j]; }, M - k);
        wait();
        if (lane() == 0) w.b.d[k] = v(0).re;
        if (k + 1 == N) break;
        for (int j = lane(); j < N - k - 1; j += LANES) u(j) = conjugate(u(j));
        wait();
        make_reflector_of_numbers(u, N - k - 1, w.tau[k]);
        for (int i = k + 1 + lane(); i < M; i += LANES)
            reflect_row_of_numbers(
                u, w.tau[k], [&](int j) -> Number & { return w.x[i * PITCH + k + 1 + j]; }, N - k - 1);
        if (lane() == 0) w.b.e[k] = u(0).re;
        wait();
    }
    if constexpr (VECTORS) {
        for (int e = lane(); e < N * N; e += LANES) w.r.at(e / N, e % N) = w.x[e / N * PITCH + e % N];
        wait();
        form_vectors(w.r, w.tau);
    }
}

/* |x|, scaled where squares are tiny. */
template <class X> __device__ inline T length_of(X x) {
    const T squares = squares_of(x, N, 1);
    return squares < SQUARES_LOW ? product(root(squares_of(x, N, SCALE_UP)), SCALE_DOWN) : root(squares);
}

/* Singular values descend, and columns of V with them; or the rotated rows, conjugated, become columns of V P in that
 * order, whose QR gives V. */
template <class S> __device__ inline void arrange(Work &w, const S &to, T back) {
    T values[FEW ? N : 1];
    EACH(int j = lane(); j < N; j += LANES) {
        if constexpr (BY_JACOBI)
            w.s[j] = length_of([&](int k) { return Number(w.r.at(j, k)); });
        else
            w.s[j] = fabs(w.b.d[j]);
    }
    wait();
    EACH(int j = lane(); j < N; j += LANES) {
        const int place = place_of<N>(w.s, j);
        if constexpr (FEW)
            put(values, place, product(w.s[j], back));
        else
            to.put(0, place, product(w.s[j], back));
        EACH(int i = 0; i < N && VECTORS; i++) {
            const Number y = BY_JACOBI ? conjugate(w.r.at(j, i)) : Number(w.r.at(i, j));
            EACH(int e = 0; e < N * N && FEW; e++) { /* part by part: put() would leave registers at N = 2 */
                const bool here = w.perm[i] == e / N && place == e % N;
                Number &to = w.x[e / N * PITCH + e % N];
                to = {here ? y.re : to.re, here ? y.im : to.im};
            }
            if (!FEW) w.x[(BY_JACOBI ? w.perm[i] : i) * PITCH + place] = y;
        }
    }
    if constexpr (FEW) to.template store<1, N>(values);
    wait();
}

/* V. The largest element of each column, the first of equals, is positive. */
__device__ inline void form_small(Work &w) {
    if constexpr (BY_JACOBI) factor_numbers<N, N, PITCH>(w.x, w.tau);
    EACH(int j = lane(); j < N; j += LANES) {
        const auto v = [&](int i) { return w.r.at(i, j); };
        if constexpr (BY_JACOBI) form_column_of_numbers<N, N, PITCH>(w.x, w.tau, j, v);
        give_turned([&](int i) { return BY_JACOBI ? Number(v(i)) : w.x[i * PITCH + j]; }, N,
                    [&](int i, Number y) { v(i) = y; });
    }
    wait();
}
template <class Small> __device__ inline void write_small(Work &w, const Small &to) {
    Number few[FEW ? N * N : 1];
    EACH(int e = lane(); e < N * N; e += LANES) {
        const Number y = w.r.at(e / N, e % N), other = {y.re + T(0), -y.im + T(0)};
        if constexpr (FEW)
            few[e] = other;
        else
            to.put(e / N, e % N, other);
    }
    if constexpr (FEW) to.template store<N, N>(few);
    wait();
}

/* A V. */
template <class A> __device__ inline void multiply(Work &w, const A &from, T scale) {
    EACH(int e = lane(); e < M * N; e += LANES) {
        const int i = e / N, j = e % N;
        Number sum = {0, 0};
        EACH(int k = 0; k < N; k++) {
            const Number a = KEEPS_A ? w.a[KEEPS_A ? i * PITCH + k : 0] : scaled(from.get(i, k), scale);
            sum = k == 0 ? product(a, w.r.at(0, j)) : multiply_add(a, w.r.at(k, j), sum);
        }
        w.x[i * PITCH + j] = sum;
    }
    wait();
}

/* Column j of the Q of A V = Q R, with the sign that makes the diagonal of R positive. */
template <class X> __device__ inline void form_large_column(Work &w, int j, X x) {
    form_column_of_numbers<M, N, PITCH>(w.x, w.tau, j, x);
    if (j >= N) return;
    const T sign = w.x[j * PITCH + j].re < 0 ? -1 : 1;
    EACH(int i = 0; i < M; i++) {
        const Number y = scaled(x(i), sign);
        x(i) = Number{y.re + T(0), y.im + T(0)};
    }
}
/* Of square A in the room of V, which is written. */
template <class Large> __device__ inline void form_large(Work &w, const Large &to) {
    Number few[FEW ? M * COLUMNS : 1];
    factor_numbers<M, N, PITCH>(w.x, w.tau);
    EACH(int j = lane(); j < COLUMNS; j += LANES) {
        if constexpr (FEW) {
            form_large_column(w, j, [&](int i) -> Number & { return few[i * COLUMNS + j]; });
        } else if constexpr (M == N) {
            form_large_column(w, j, [&](int i) { return w.r.at(i, j); });
            for (int i = 0; i < M; i++) to.put(i, j, w.r.at(i, j));
        } else {
            form_large_column(w, j, [&](int i) -> Number & { return to.at(i, j); });
        }
    }
    if constexpr (FEW) to.template store<M, COLUMNS>(few);
}

/* s is a row; of A that is wide, a and large are turned, else small is. The result is info. */
template <class A, class S, class Large, class Small>
__device__ inline int svd(Work &w, const A &a, const S &s, const Large &large, const Small &small) {
    T largest;
    const bool finite = load(w, a, largest);
    const T scale = finite ? scale_for(largest) : T(1);
    int info = 0;
    if (finite) {
        Number *const x = KEEPS_A ? w.a : w.x;
        EACH(int e = lane(); e < M * N && scale != 1; e += LANES)
            x[e / N * PITCH + e % N] = scaled(x[e / N * PITCH + e % N], scale);
        wait();
        if constexpr (BY_JACOBI) {
            reduce(w);
            info = orthogonalise<N>([&](int i, int j) { return rotate(w, i, j); });
        } else {
            bidiagonalise(w);
            info = diagonalise<N, PITCH, 2 * N>(w.b, VECTORS ? w.r.x : nullptr);
        }
    }
    if (finite && !info) {
        arrange(w, s, reciprocal(scale));
        if constexpr (VECTORS) {
            form_small(w);
            multiply(w, a, scale);
            write_small(w, small); /* which may be where A was */
            form_large(w, large);
        }
    } else {
        for (int j = lane(); j < N; j += LANES) s.put(0, j, not_a_number());
        if constexpr (VECTORS) {
            for (int e = lane(); e < N * N; e += LANES) small.put(e / N, e % N, not_a_complex_number());
            for (int e = lane(); e < M * COLUMNS; e += LANES)
                large.put(e / COLUMNS, e % COLUMNS, not_a_complex_number());
        }
    }
    return info;
}
