/* svd.cuh: A = U diag(s) V^H, or s only: of few rows or columns by one-sided Jacobi rotations of a triangular
 * factor (Hestenes, J. SIAM 6, 1958; Drmac and Veselic, SIAM J. Matrix Anal. Appl. 29, 2008), of others by Householder
 * bidiagonalisation, which leaves a real B, and implicit QR (Golub and Kahan, SIAM J. Numer. Anal. B 2, 1965), in
 * shared memory, or of few rows in a thread's registers, as csrc/kernels/spectra/svd_lanes.h and svd_bidiagonal.h
 * explain, and of complex matrices svd_lanes.h. By all lanes of a matrix: of Jacobi's method each rotates a pair of
 * rows at a time, and the pairs of a round have no row in common; of the rest they take columns and rows by turns.
 *
 * Whoever includes it has SMM_M and SMM_N, the sizes, VECTORS, and FULL: U and V are square; operands are OperandViews
 * (operand_view.cuh). */
#include "reflectors.cuh"
#include "rotations.cuh"
#include "bidiagonal.cuh"
#include "jacobi.cuh"

constexpr bool WIDE = SMM_M < SMM_N;                              /* A is transposed */
constexpr int M = max_of(SMM_M, SMM_N), N = min_of(SMM_M, SMM_N); /* of the tall matrix */
constexpr int COLUMNS = FULL ? M : N;                             /* of its longer vectors */
constexpr int PITCH = FEW ? N : pitch_of(N); /* lanes have rows, or columns: either way in different banks */

constexpr bool BY_JACOBI = N <= JACOBI_MAX;
constexpr T TOLERANCE = static_cast<T>(max_of(COMPLEX ? 2 * N : N, 4) * (DOUBLE ? 0x1p-53 : 0x1p-24));

constexpr bool KEEPS_A = BY_JACOBI, KEEPS_R = BY_JACOBI || VECTORS; /* others read A from memory once more */

typedef Vectors<KEEPS_R ? N : 1> Rows;

struct Work {
    Element x[M * PITCH]; /* A P = Q R, or A, then the reflectors of A = Q B P^H; then V P, or V; then A V */
    Element a[KEEPS_A ? M * PITCH : 1];
    Element tau[N];
    Rows r; /* the rows of R, which are rotated, or P; then V */
    Bidiagonal<N> b;
    T s[N];      /* squared lengths of columns, then singular values, then the diagonal of R of A V = Q R */
    int perm[N]; /* the column of A that column j of A P was */
};

/* A. The largest magnitude of a part, and whether all are finite, for all lanes. */
template <class A> __device__ inline bool load(Element *to, const A &from, T &largest) {
    if constexpr (FEW) from.template load<M, N>(to);
    bool finite = true;
    largest = 0;
    EACH(int e = lane(); e < M * N; e += LANES) {
        Element &y = to[e / N * PITCH + e % N];
        if (!FEW) y = from.get(e / N, e % N);
        finite &= measure(y, largest);
    }
    return meet(largest, finite);
}

/* The same, times a power of two that brings the largest to about 1. */
template <class A> __device__ inline bool load_scaled(Element *to, const A &from, T &scale) {
    T largest;
    const bool finite = load(to, from, largest);
    scale = finite ? scale_for(largest) : T(1);
    EACH(int e = lane(); e < M * N && scale != 1; e += LANES)
        to[e / N * PITCH + e % N] = scaled(to[e / N * PITCH + e % N], scale);
    sync_lanes();
    return finite;
}

/* sum + |x|^2 */
__device__ inline T add_square(T x, T sum) { return multiply_add(x, x, sum); }

template <class X> __device__ inline void exchange_if(bool condition, X &x, X &y) {
    const X was = x;
    x = select(condition, y, x);
    y = select(condition, was, y);
}

/* Rows by their largest element, the largest first: neighbours are exchanged until all are in order. */
__device__ inline void sort_rows(Work &w) {
    T largest[M];
#pragma unroll
    for (int i = 0; i < M; i++) {
        largest[i] = 0;
#pragma unroll
        for (int j = 0; j < N; j++) measure(w.x[i * PITCH + j], largest[i]);
    }
    sync_lanes();
    EACH(int j = lane(); j < N; j += LANES) {
        T key[M];
#pragma unroll
        for (int i = 0; i < M; i++) key[i] = largest[i];
#pragma unroll
        for (int last = M - 1; last > 0; last--)
#pragma unroll
            for (int i = 0; i < last; i++) {
                const bool later = key[i + 1] > key[i];
                exchange_if(later, key[i], key[i + 1]);
                exchange_if(later, w.x[i * PITCH + j], w.x[(i + 1) * PITCH + j]);
            }
    }
    sync_lanes();
}

/* A P = Q R: the columns of A P are sorted by length, and a few rows, too. */
__device__ inline void reduce(Work &w) {
    EACH(int j = lane(); j < N; j += LANES) {
        T squares = 0;
        EACH(int i = 0; i < M; i++) squares = add_square(w.a[i * PITCH + j], squares);
        w.s[j] = squares;
    }
    sync_lanes();
    EACH(int j = lane(); j < N; j += LANES) {
        const int place = place_of<N>(w.s, j);
        put(w.perm, place, j);
        EACH(int i = 0; i < M; i++) put(w.x, i * PITCH + place, w.a[i * PITCH + j], i * PITCH, N);
    }
    sync_lanes();
    if constexpr (M <= JACOBI_MAX) sort_rows(w);
    factor_in_memory<M, N, PITCH>(w.x, w.tau);
    EACH(int e = lane(); e < N * N; e += LANES)
        w.r.at(e / N, e % N) = e / N <= e % N ? w.x[e / N * PITCH + e % N] : element_of(0);
    sync_lanes();
}

/* Make rows x and y of R orthogonal, and x the longer. False if |x^T y| <= tolerance |x| |y| already. */
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
/* Of complex rows, whose product x y^H is p |x y^H|, x and p y are rotated. */
template <class X> __device__ inline bool rotate(X row_x, X row_y) {
    T xx[2] = {0, 0}, yy[2] = {0, 0}, re[2] = {0, 0}, im[2] = {0, 0}, c, s;
    EACH(int k = 0; k < N; k++) {
        const Complex x = row_x[k], y = row_y[k];
        xx[0] = multiply_add(x.re, x.re, xx[0]);
        xx[1] = multiply_add(x.im, x.im, xx[1]);
        yy[0] = multiply_add(y.re, y.re, yy[0]);
        yy[1] = multiply_add(y.im, y.im, yy[1]);
        re[0] = multiply_add(x.re, y.re, re[0]);
        re[1] = multiply_add(x.im, y.im, re[1]);
        im[0] = multiply_add(x.im, y.re, im[0]);
        im[1] = multiply_add(x.re, y.im, im[1]);
    }
    const Complex xy = {re[0] + re[1], im[0] - im[1]};
    const T most = fabs(xy.re) > fabs(xy.im) ? fabs(xy.re) : fabs(xy.im); /* squares might underflow */
    const Complex unit = {quotient_of(xy.re, most), quotient_of(xy.im, most)};
    const T length = root(multiply_add(unit.im, unit.im, product(unit.re, unit.re)));
    const T size = most == 0 ? T(0) : product(most, length);
    if (!find_rotation(xx[0] + xx[1], yy[0] + yy[1], size, TOLERANCE, c, s)) return false;
    const Complex phase = {quotient_of(unit.re, length), quotient_of(unit.im, length)};
    EACH(int k = 0; k < N; k++) {
        Complex x = row_x[k], y = product(phase, row_y[k]);
        rotate_pair(x.re, y.re, c, s);
        rotate_pair(x.im, y.im, c, s);
        row_x[k] = x;
        row_y[k] = y;
    }
    return true;
}

/* A = Q B P^H. Step k: a reflector from the left for column k, and one from the right for the conjugate of row k right
 * of its diagonal. */
__device__ inline void bidiagonalise(Work &w) {
    EACH_STEP(int k = 0; k < N; k++) {
        Element *x = w.x + k * PITCH + k;
        make_reflector_together(x, PITCH, M - k, w.tau + k);
        EACH_STEP(int j = 1 + lane(); j < N - k; j += LANES)
            reflect(x, conjugate(w.tau[k]), x + j, PITCH, PITCH, M - k);
        sync_lanes();
        if (lane() == 0) w.b.d[k] = real_of(x[0]);
        if (k + 1 == N) break;
        EACH(int j = 1 + lane(); COMPLEX && j < N - k; j += LANES) x[j] = conjugate(x[j]);
        if (COMPLEX) sync_lanes();
        make_reflector_together(x + 1, 1, N - k - 1, w.tau + k);
        EACH_STEP(int i = 1 + lane(); i < M - k; i += LANES) reflect_row(x + 1, w.tau[k], x + i * PITCH + 1, N - k - 1);
        if (lane() == 0) w.b.e[k] = real_of(x[1]);
        sync_lanes();
    }
    sync_lanes(); /* for the last element of the diagonal */
    if constexpr (VECTORS) {
        EACH(int e = lane(); e < N * N; e += LANES) w.r.at(e / N, e % N) = w.x[e / N * PITCH + e % N];
        sync_lanes();
        form_vectors(w.r, w.tau);
    }
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
template <class X> __device__ inline T length_of(X x) {
    const T squares = squares_of(x, 1, N, 1);
    return squares < SQUARES_LOW ? product(root(squares_of(x, 1, N, SCALE_UP)), SCALE_DOWN) : root(squares);
}

/* Part by part: else numbers would leave registers at N = 2. */
__device__ inline T chosen(bool first, T x, T y) { return first ? x : y; }
__device__ inline Complex chosen(bool first, Complex x, Complex y) {
    return {chosen(first, x.re, y.re), chosen(first, x.im, y.im)};
}

/* Singular values descend, and columns of V with them; or the rotated rows, conjugated, become columns of V P in that
 * order, whose QR gives V. */
template <class S> __device__ inline void arrange(Work &w, const S &to, T back) {
    T values[FEW ? N : 1];
    EACH(int j = lane(); j < N; j += LANES) {
        if constexpr (BY_JACOBI)
            w.s[j] = length_of(w.r.from(j, 0));
        else
            w.s[j] = fabs(w.b.d[j]);
    }
    sync_lanes();
    EACH(int j = lane(); j < N; j += LANES) {
        const int place = place_of<N>(w.s, j);
        if constexpr (FEW)
            put(values, place, product(w.s[j], back));
        else
            to.put(0, place, product(w.s[j], back));
        EACH(int i = 0; i < N && VECTORS; i++) {
            const Element y = BY_JACOBI ? conjugate(w.r.at(j, i)) : Element(w.r.at(i, j));
            EACH(int e = 0; e < N * N && FEW; e++) {
                Element &to = w.x[e / N * PITCH + e % N];
                to = chosen(w.perm[i] == e / N && place == e % N, y, to);
            }
            if (!FEW) w.x[(BY_JACOBI ? w.perm[i] : i) * PITCH + place] = y;
        }
    }
    if constexpr (FEW) to.template store<1, N>(values);
    sync_lanes();
}

/* The same by a thread that has columns of V in registers, where they stay. */
template <class S> __device__ inline void arrange_few(Work &w, const S &to, T back) {
    EACH(int j = 0; j < N; j++) w.s[j] = fabs(w.b.d[j]);
    EACH(int last = N - 1; last > 0; last--)
        EACH(int j = 0; j < last; j++) {
            const T here = w.s[j], next = w.s[j + 1];
            const bool swapped = next > here;
            w.s[j] = swapped ? next : here;
            w.s[j + 1] = swapped ? here : next;
            EACH(int i = 0; i < N && VECTORS; i++) {
                const Element x = w.r.at(i, j), y = w.r.at(i, j + 1);
                w.r.at(i, j) = chosen(swapped, y, x);
                w.r.at(i, j + 1) = chosen(swapped, x, y);
            }
        }
    EACH(int j = 0; j < N; j++) w.s[j] = product(w.s[j], back);
    to.template store<1, N>(w.s);
}

/* V. The largest element of each column, the first of equals, is positive. */
__device__ inline void form_small(Work &w) {
    if constexpr (BY_JACOBI) factor_in_memory<N, N, PITCH>(w.x, w.tau);
    EACH(int j = lane(); j < N; j += LANES) {
        const auto v = w.r.from(0, j);
        if constexpr (BY_JACOBI) form_column<N, N, PITCH>(w.x, w.tau, j, v, Rows::PITCH);
        give_normalized([&](int i) { return BY_JACOBI || FEW ? Element(v[i * Rows::PITCH]) : w.x[i * PITCH + j]; }, N,
                        [&](int i, Element y) { v[i * Rows::PITCH] = y; });
    }
    sync_lanes();
}
template <class Small> __device__ inline void write_small(Work &w, const Small &to) {
    Element few[FEW ? N * N : 1];
    EACH(int e = lane(); e < N * N; e += LANES) {
        Element y = w.r.at(e / N, e % N);
        if (COMPLEX) y = sum_of(conjugate(y), element_of(0));
        if constexpr (FEW)
            few[e] = y;
        else
            to.put(e / N, e % N, y);
    }
    if constexpr (FEW) to.template store<N, N>(few);
}

/* A V. */
template <class A> __device__ inline void multiply(Work &w, const A &from, T scale) {
    EACH(int e = lane(); e < M * N; e += LANES) {
        const int i = e / N, j = e % N;
        Element sum = element_of(0);
        EACH(int k = 0; k < N; k++) {
            const Element a = KEEPS_A ? w.a[KEEPS_A ? i * PITCH + k : 0] : scaled(from.get(i, k), scale);
            sum = k == 0 ? product(a, w.r.at(0, j)) : multiply_add(a, w.r.at(k, j), sum);
        }
        w.x[i * PITCH + j] = sum;
    }
    sync_lanes();
}

/* The Q of A V = Q R, with the signs that make the diagonal of R positive; columns that no reflector has the place of
 * come first. */
template <class Large> __device__ inline void form_large(Work &w, const Large &to) {
    Element few[FEW ? M * COLUMNS : 1];
    factor_in_memory<M, N, PITCH>(w.x, w.tau);
    EACH(int j = lane(); j < N; j += LANES) w.s[j] = real_of(w.x[j * PITCH + j]);
    EACH(int j = N + lane(); j < COLUMNS; j += LANES) {
        const auto form = [&](Element *u, long long step) { form_column<M, N, PITCH>(w.x, w.tau, j, u, step); };
        if constexpr (FEW)
            form(few + j, COLUMNS);
        else
            to.template column<M>(j, form);
    }
    sync_lanes();
    form_in_place<M, N, PITCH>(w.x, w.tau);
    EACH(int e = lane(); e < M * N; e += LANES) {
        const Element y = w.x[e / N * PITCH + e % N];
        const Element u = sum_of(w.s[e % N] < 0 ? negative(y) : y, element_of(0));
        if constexpr (FEW)
            few[e / N * COLUMNS + e % N] = u;
        else
            to.put(e / N, e % N, u);
    }
    if constexpr (FEW) to.template store<M, COLUMNS>(few);
}

/* The results of a matrix that is not finite, or was given up. */
template <class S, class Large, class Small>
__device__ inline void give_nothing(const S &s, const Large &large, const Small &small) {
    for (int j = lane(); j < N; j += LANES) s.put(0, j, not_a_number());
    if constexpr (VECTORS) {
        for (int e = lane(); e < N * N; e += LANES) small.put(e / N, e % N, not_an_element());
        for (int e = lane(); e < M * COLUMNS; e += LANES) large.put(e / COLUMNS, e % COLUMNS, not_an_element());
    }
}

/* s is a row; of A that is wide, a and large are transposed, else small is. The result is info. */
template <class A, class S, class Large, class Small>
__device__ inline int svd(Work &w, const A &a, const S &s, const Large &large, const Small &small) {
    T scale;
    const bool finite = load_scaled(KEEPS_A ? w.a : w.x, a, scale);
    int info = 0;
    if (finite) {
        if constexpr (BY_JACOBI) {
            reduce(w);
            info = orthogonalise<N>([&](int i, int j) { return rotate(w.r.from(i, 0), w.r.from(j, 0)); });
        } else {
            bidiagonalise(w);
            info = diagonalise(w.b, VECTORS ? &w.r : nullptr);
        }
    }
    if (finite && !info) {
        if constexpr (FEW && !BY_JACOBI)
            arrange_few(w, s, reciprocal(scale));
        else
            arrange(w, s, reciprocal(scale));
        if constexpr (VECTORS) {
            form_small(w);
            multiply(w, a, scale);
            write_small(w, small); /* which may be where A was */
            form_large(w, large);
        }
    } else {
        give_nothing(s, large, small);
    }
    return info;
}
