/* svd.cuh: A = U diag(s) Vt, or s only: of few rows or columns by one-sided Jacobi rotations of a triangular
 * factor (Hestenes, J. SIAM 6, 1958; Drmac and Veselic, SIAM J. Matrix Anal. Appl. 29, 2008), of others by Householder
 * bidiagonalisation and implicit QR (Golub and Kahan, SIAM J. Numer. Anal. B 2, 1965), in shared memory, or of few
 * rows in a thread's registers, as csrc/kernels/svd_lanes.h and svd_bidiagonal.h explain. By all lanes of a matrix: of
 * Jacobi's method each rotates a pair of rows at a time, and the pairs of a round have no row in common; of the rest
 * they take columns and rows by turns.
 *
 * Whoever includes it has SMM_M and SMM_N, the sizes, VECTORS, and FULL: U and Vt are square; operands are Places
 * (place.cuh). */
#include "rotations.cuh"
#include "bidiagonal.cuh"
#include "jacobi.cuh"

constexpr bool WIDE = SMM_M < SMM_N;                           /* A is transposed */
constexpr int M = most(SMM_M, SMM_N), N = least(SMM_M, SMM_N); /* of the tall matrix */
constexpr int COLUMNS = FULL ? M : N;                          /* of its longer vectors */
constexpr int PITCH = N | 1; /* lanes have rows, or columns: either way in different banks */

constexpr bool BY_JACOBI = N <= JACOBI_MOST;
constexpr T TOLERANCE = static_cast<T>(most(N, 4) * (DOUBLE ? 0x1p-53 : 0x1p-24));

constexpr bool KEEPS_A = BY_JACOBI; /* others read it from memory once more */

struct Work {
    T x[M * N]; /* A P = Q R, or A, then the reflectors of A = Q B P^T; then V P, or V; then A V */
    T a[KEEPS_A ? M * N : 1];
    Vectors<BY_JACOBI || VECTORS ? N : 1> r; /* the rows of R, which are rotated, or P; then V */
    Bidiagonal<N> b;
    T s[N], tau[N]; /* squared lengths of columns, then singular values; of reflectors */
    int perm[N];    /* the column of A that column j of A P was */
};

/* A. The largest magnitude, and whether all are finite, for all lanes. */
template <class A> __device__ inline bool load(Work &w, const A &from, T &largest) {
    T *const to = KEEPS_A ? w.a : w.x;
    if constexpr (FEW) from.template load<M, N>(to);
    bool finite = true;
    largest = 0;
    EACH(int e = lane(); e < M * N; e += LANES) {
        if (!FEW) to[e] = from.get(e / N, e % N);
        finite = finite && is_finite(to[e]);
        if (fabs(to[e]) > largest) largest = fabs(to[e]);
    }
    return meet(largest, finite);
}

/* A P = Q R: the columns of A P are sorted by length. */
__device__ inline void reduce(Work &w) {
    EACH(int j = lane(); j < N; j += LANES) {
        T squares = 0;
        EACH(int i = 0; i < M; i++) squares = multiply_add(w.a[i * N + j], w.a[i * N + j], squares);
        w.s[j] = squares;
    }
    wait();
    EACH(int j = lane(); j < N; j += LANES) {
        const int place = place_of<N>(w.s, j);
        put(w.perm, place, j);
        EACH(int i = 0; i < M; i++) put(w.x, i * N + place, w.a[i * N + j], i * N, N);
    }
    wait();
    factor_in_memory<M, N>(w.x, w.tau);
    EACH(int e = lane(); e < N * N; e += LANES) w.r.x[e / N * PITCH + e % N] = e / N <= e % N ? w.x[e] : T(0);
    wait();
}

/* Make x and y orthogonal, and x the longer. False if |x^T y| <= tolerance |x| |y| already. */
__device__ inline bool rotate(T *x, T *y) {
    T xx[2], yy[2], xy[2];
#pragma unroll
    for (int k = 0; k < 2; k++) xx[k] = product(x[k], x[k]), yy[k] = product(y[k], y[k]), xy[k] = product(x[k], y[k]);
#pragma unroll 4
    for (int k = 2; k < N; k++) {
        xx[k % 2] = multiply_add(x[k], x[k], xx[k % 2]);
        yy[k % 2] = multiply_add(y[k], y[k], yy[k % 2]);
        xy[k % 2] = multiply_add(x[k], y[k], xy[k % 2]);
    }
    T c, s;
    if (!find_rotation(xx[0] + xx[1], yy[0] + yy[1], xy[0] + xy[1], TOLERANCE, c, s)) return false;
#pragma unroll 4
    for (int k = 0; k < N; k++) {
        const T here = x[k], there = y[k];
        x[k] = multiply_add(s, there, product(c, here));
        y[k] = multiply_add(-s, here, product(c, there));
    }
    return true;
}

/* A = Q B P^T. Step k: a reflector from the left for column k, and one from the right for row k right of its diagonal.
 */
__device__ inline void bidiagonalise(Work &w) {
    for (int k = 0; k < N; k++) {
        T *x = w.x + k * N + k;
        make_reflector_together(x, N, M - k, w.tau + k);
        for (int j = 1 + lane(); j < N - k; j += LANES) reflect(x, w.tau[k], x + j, N, N, M - k);
        wait();
        if (lane() == 0) w.b.d[k] = x[0];
        if (k + 1 == N) break;
        make_reflector_together(x + 1, 1, N - k - 1, w.tau + k);
        for (int i = 1 + lane(); i < M - k; i += LANES) reflect(x + 1, w.tau[k], x + i * N + 1, 1, 1, N - k - 1);
        if (lane() == 0) w.b.e[k] = x[1];
        wait();
    }
    for (int e = lane(); e < N * N && VECTORS; e += LANES) w.r.x[e / N * PITCH + e % N] = w.x[e];
    wait();
    if constexpr (VECTORS) form_vectors(w.r, w.tau);
}

/* |x|, scaled where squares are tiny. */
__device__ inline T length_of(T *x) {
    T squares = multiply_add(x[0], x[0], sum_of_squares(x, 1, N));
    if (squares >= SQUARES_LOW) return root(squares);
    EACH(int k = 0; k < N; k++) x[k] = product(x[k], SCALE_UP);
    squares = multiply_add(x[0], x[0], sum_of_squares(x, 1, N));
    EACH(int k = 0; k < N; k++) x[k] = product(x[k], SCALE_DOWN);
    return product(root(squares), SCALE_DOWN);
}

/* Singular values descend, and columns of V with them; or the rotated rows become columns of V P in that order, whose
 * QR gives V. Its largest elements, the first of equals, are positive. */
template <class S> __device__ inline void arrange(Work &w, const S &to, T back) {
    T values[FEW ? N : 1];
    EACH(int j = lane(); j < N; j += LANES) w.s[j] = BY_JACOBI ? length_of(w.r.x + j * PITCH) : fabs(w.b.d[j]);
    wait();
    EACH(int j = lane(); j < N; j += LANES) {
        const int place = place_of<N>(w.s, j);
        if constexpr (FEW)
            put(values, place, product(w.s[j], back));
        else
            to.put(0, place, product(w.s[j], back));
        EACH(int i = 0; i < N && VECTORS; i++) {
            const T y = w.r.x[BY_JACOBI ? j * PITCH + i : i * PITCH + j];
            EACH(int row = 0; row < N && FEW; row++)
                if (w.perm[i] == row) put(w.x, row * N + place, y, row * N, N);
            if (!FEW) w.x[(BY_JACOBI ? w.perm[i] : i) * N + place] = y;
        }
    }
    if constexpr (FEW) to.template store<1, N>(values);
    wait();
}
__device__ inline void form_small(Work &w) {
    if (BY_JACOBI) factor_in_memory<N, N>(w.x, w.tau);
    EACH(int j = lane(); j < N; j += LANES) {
        T *v = w.r.x + j;
        if (BY_JACOBI)
            form_column<N, N>(w.x, w.tau, j, v, PITCH);
        else
            for (int i = 0; i < N; i++) v[i * PITCH] = w.x[i * N + j];
        T largest = v[0];
        EACH(int i = 1; i < N; i++)
            if (fabs(v[i * PITCH]) > fabs(largest)) largest = v[i * PITCH];
        EACH(int i = 0; i < N; i++) v[i * PITCH] = (largest < 0 ? -v[i * PITCH] : v[i * PITCH]) + T(0);
    }
    wait();
}
template <class Small> __device__ inline void write_small(const Work &w, const Small &to) {
    T v[FEW ? N * N : 1];
    EACH(int e = lane(); e < N * N; e += LANES) {
        const T y = w.r.x[e / N * PITCH + e % N];
        if constexpr (FEW)
            v[e] = y;
        else
            to.put(e / N, e % N, y);
    }
    if constexpr (FEW) to.template store<N, N>(v);
}

/* A V. */
template <class A> __device__ inline void multiply(Work &w, const A &from, T scale) {
    EACH(int e = lane(); e < M * N; e += LANES) {
        const T *v = w.r.x + e % N;
        T sum = 0;
        EACH(int k = 0; k < N; k++) {
            const T a = KEEPS_A ? w.a[KEEPS_A ? e / N * N + k : 0] : product(from.get(e / N, k), scale);
            sum = k == 0 ? product(a, v[0]) : multiply_add(a, v[k * PITCH], sum);
        }
        w.x[e] = sum;
    }
    wait();
}

/* Column j of the Q of A V = Q R, with the sign that makes the diagonal of R positive. */
__device__ inline void form_large_column(const Work &w, int j, T *u, long long step) {
    form_column<M, N>(w.x, w.tau, j, u, step);
    const bool negative = j < N && w.x[j * N + j] < 0;
    EACH(int i = 0; i < M && j < N; i++) u[i * step] = (negative ? -u[i * step] : u[i * step]) + T(0);
}
template <class Large> __device__ inline void form_large(Work &w, const Large &to) {
    T few[FEW ? M * COLUMNS : 1];
    factor_in_memory<M, N>(w.x, w.tau);
    EACH(int j = lane(); j < COLUMNS; j += LANES) {
        if constexpr (FEW)
            form_large_column(w, j, few + j, COLUMNS);
        else
            to.template column<M>(j, [&](T *u, long long step) { form_large_column(w, j, u, step); });
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
        T *const x = KEEPS_A ? w.a : w.x;
        EACH(int e = lane(); e < M * N && scale != 1; e += LANES) x[e] = product(x[e], scale);
        wait();
        if constexpr (BY_JACOBI) {
            reduce(w);
            info = orthogonalise<N>([&](int i, int j) { return rotate(w.r.x + i * PITCH, w.r.x + j * PITCH); });
        } else {
            bidiagonalise(w);
            info = diagonalise<N, PITCH, N>(w.b, VECTORS ? w.r.x : nullptr);
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
            for (int e = lane(); e < N * N; e += LANES) small.put(e / N, e % N, not_a_number());
            for (int e = lane(); e < M * COLUMNS; e += LANES) large.put(e / COLUMNS, e % COLUMNS, not_a_number());
        }
    }
    return info;
}
