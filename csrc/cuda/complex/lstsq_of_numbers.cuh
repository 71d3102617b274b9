/* lstsq_of_numbers.cuh: the X of least norm of those of least |A X - B| of complex matrices, these norms, the rank of
 * A, by the method of lstsq.cuh (LAPACK's gelsy), as kernels/lstsq_numbers.h has it. The diagonals of R and T are real.
 *
 * Whoever includes it has M, N and K, the right-hand sides that are taken at a time; operands are Places (place.cuh).
 */
#include "rank.cuh"
#include "vectors.cuh"

constexpr int P = least(M, N), PITCH = pitch_of(N);

struct Work {
    Number a[M * PITCH];
    Number x[most(M, N) * K];    /* right-hand sides by rows, then solutions, still permuted */
    Number tau[P], tail[P];      /* of the reflectors from the left and from the right */
    Number row[N], along[2 * P]; /* room for a row; of the estimates of the rank */
    T scale[K];                  /* by which right-hand sides were scaled */
    int owner[N];                /* column j was column owner[j] of A */
};

/* The largest magnitude of a part of A, and whether all are finite, for all lanes of the matrix. */
template <class A> __device__ inline bool load(Work &w, const A &from, T &largest) {
    bool finite = true;
    largest = 0;
    for (int e = lane(); e < M * N; e += LANES) {
        const Number y = from.get(e / N, e % N);
        finite &= measure(y, largest);
        w.a[e / N * PITCH + e % N] = y;
    }
    return meet(largest, finite);
}

/* Of rows first .. M - 1 of a column: squares of real parts, and those of imaginary parts. */
template <class X> __device__ inline T square_of_rows(X x, int first) {
    T re = 0, im = 0;
    for (int i = first; i < M; i++) {
        const Number y = x(i);
        re = multiply_add(y.re, y.re, re);
        im = multiply_add(y.im, y.im, im);
    }
    return re + im;
}

/* H_k to the columns of [A | right-hand sides] from `first` on. */
__device__ inline void reflect_columns(Work &w, int k, int first) {
    const auto v = [&](int i) { return w.a[(k + i) * PITCH + k]; };
    for (int j = first + lane(); j < N + K; j += LANES)
        reflect_numbers(
            v, conjugate(w.tau[k]),
            [&](int i) -> Number & { return j < N ? w.a[(k + i) * PITCH + j] : w.x[(k + i) * K + j - N]; }, M - k);
    wait();
}

/* A P = Q R, and Q^H to the right-hand sides. */
__device__ inline void factor(Work &w) {
    for (int j = lane(); j < N; j += LANES) w.owner[j] = j;
    wait();
    for (int k = 0; k < P; k++) {
        const int longest =
            longest_column<N>(k, [&](int j) { return square_of_rows([&](int i) { return w.a[i * PITCH + j]; }, k); });
        wait();
        for (int i = lane(); i <= M && longest != k; i += LANES) {
            if (i == M) {
                const int j = w.owner[k];
                w.owner[k] = w.owner[longest];
                w.owner[longest] = j;
            } else {
                const Number y = w.a[i * PITCH + k];
                w.a[i * PITCH + k] = w.a[i * PITCH + longest];
                w.a[i * PITCH + longest] = y;
            }
        }
        wait();
        make_reflector_of_numbers([&](int i) -> Number & { return w.a[(k + i) * PITCH + k]; }, M - k, w.tau[k]);
        reflect_columns(w, k, k + 1);
    }
}

/* x^H w, of column k of R above its diagonal: its magnitude, and a number of magnitude 1 along it. */
__device__ inline T along_column(const Work &w, const Number *x, int k, Number &direction) {
    Number sum = {0, 0};
    for (int i = 0; i < k; i++) sum = multiply_add(conjugate(x[i]), w.a[i * PITCH + k], sum);
    const T size = root(multiply_add(sum.im, sum.im, product(sum.re, sum.re)));
    direction = size > 0 ? Number{quotient_of(sum.re, size), quotient_of(sum.im, size)} : Number{1, 0};
    return size;
}

/* As of real matrices: x of an estimate is turned so that x^H w is its magnitude. */
__device__ inline int estimate_rank(Work &w, T rtol) {
    Number *const x = w.along, *const y = w.along + P;
    T largest = fabs(w.a[0].re), smallest = largest;
    if (!(largest > 0)) return 0;
    wait();
    if (lane() == 0) x[0] = y[0] = {1, 0};
    for (int k = 1; k < P; k++) {
        wait();
        Number to_x, to_y;
        const T along_x = along_column(w, x, k, to_x), along_y = along_column(w, y, k, to_y);
        const T gamma = w.a[k * PITCH + k].re;
        const Extension l = largest_extension(largest, along_x, gamma);
        const Extension s = smallest_extension(smallest, along_y, gamma);
        if (!(s.sigma > 0 && s.sigma >= product(rtol, l.sigma))) return k;
        wait();
        for (int i = lane(); i < k; i += LANES) {
            x[i] = product(scaled(to_x, l.s), x[i]);
            y[i] = product(scaled(to_y, s.s), y[i]);
        }
        if (lane() == 0) x[k] = {l.c, 0}, y[k] = {s.c, 0};
        largest = l.sigma, smallest = s.sigma;
    }
    return P;
}

/* The first `rank` rows of R become (T 0), T upper triangular: H_i, which overwrites the tail of row i, changes column
 * i and the tails of the rows above. As LAPACK's tzrzf: the reflector is that of the conjugated row. */
__device__ inline void annihilate_tail(Work &w, int rank) {
    for (int i = rank - 1; i >= 0 && rank < N; i--) {
        Number *const row = w.a + i * PITCH;
        for (int j = i + lane(); j < N; j += LANES)
            w.row[j - i] = j == i || j >= rank ? conjugate(row[j]) : Number{0, 0};
        wait();
        make_reflector_of_numbers([&](int j) -> Number & { return w.row[j]; }, N - i, w.tail[i]);
        for (int j = i + lane(); j < N; j += LANES)
            if (j == i || j >= rank) row[j] = w.row[j - i];
        wait();
        for (int h = lane(); h < i; h += LANES)
            reflect_row_of_numbers([&](int j) { return row[rank + j - 1]; }, w.tail[i],
                                   [&](int j) -> Number & { return w.a[h * PITCH + (j ? rank + j - 1 : i)]; },
                                   N - rank + 1);
        wait();
    }
}

/* The right-hand sides, to which Q^H has been applied, become solutions; `norm` takes the residual norms. */
template <class Norm> __device__ inline void solve(Work &w, int rank, Norm norm) {
    for (int c = lane(); c < K; c += LANES) {
        norm(c, root(square_of_rows([&](int i) { return w.x[i * K + c]; }, rank)));
        for (int i = rank; i < N; i++) w.x[i * K + c] = {0, 0};
    }
    for (int j = rank - 1; j >= 0; j--) {
        wait();
        const Divisor pivot(w.a[j * PITCH + j].re);
        for (int c = lane(); c < K; c += LANES) {
            const Number y = w.x[j * K + c];
            w.x[j * K + c] = {pivot.divide(y.re), pivot.divide(y.im)};
        }
        wait();
        for (int e = lane(); e < j * K; e += LANES)
            w.x[e] = multiply_subtract(w.a[e / K * PITCH + j], w.x[j * K + e % K], w.x[e]);
    }
    wait();
    for (int c = lane(); c < K; c += LANES)
        for (int i = 0; i < rank && rank < N; i++)
            reflect_numbers([&](int j) { return w.a[i * PITCH + rank + j - 1]; }, w.tail[i],
                            [&](int j) -> Number & { return w.x[(j ? rank + j - 1 : i) * K + c]; }, N - rank + 1);
    wait();
}

/* Right-hand sides first .. first + cols, scaled. */
template <class B> __device__ inline void load_sides(Work &w, const B &from, long long first, int cols) {
    for (int e = lane(); e < M * K; e += LANES) w.x[e] = e % K < cols ? from.get(e / K, first + e % K) : Number{0, 0};
    wait();
    for (int c = lane(); c < K; c += LANES) {
        T largest = 0;
        for (int i = 0; i < M; i++) measure(w.x[i * K + c], largest);
        w.scale[c] = scale_for(largest);
        for (int i = 0; i < M && w.scale[c] != 1; i++) w.x[i * K + c] = scaled(w.x[i * K + c], w.scale[c]);
    }
    wait();
}

/* Of all right-hand sides, of which there are so many; norms are a row. The result is the rank. */
template <class A, class B, class X, class Norms>
__device__ inline int lstsq(Work &w, const A &a, const B &b, T rtol, long long columns, const X &x,
                            const Norms &norms) {
    T largest;
    const bool finite = load(w, a, largest);
    const T scale = scale_for(largest);
    for (int e = lane(); e < M * N && finite; e += LANES)
        w.a[e / N * PITCH + e % N] = scaled(w.a[e / N * PITCH + e % N], scale);
    int rank = 0;
    for (long long first = 0; first == 0 || first < columns; first += K) {
        const int cols = static_cast<int>(columns - first < K ? columns - first : K);
        load_sides(w, b, first, cols);
        if (finite && first == 0) {
            factor(w);
            T *const room = reinterpret_cast<T *>(w.along);
            const auto size = [&](int i, int j) { return size_of(w.a[i * PITCH + j]); };
            rank = has_full_rank<P>(size, rtol, room, room + P) ? P : estimate_rank(w, rtol);
            wait();
            annihilate_tail(w, rank);
        } else if (finite) {
            for (int k = 0; k < P; k++) reflect_columns(w, k, N);
        }
        if (finite)
            solve(w, rank, [&](int j, T norm) {
                if (j < cols) norms.put(0, first + j, product(norm, reciprocal(w.scale[j])));
            });
        for (int e = lane(); e < N * K; e += LANES) {
            const int i = e / K, j = e % K;
            /* By both powers of two at once where that is a number: opposite ones may overflow on the way. */
            const T back = reciprocal(w.scale[j]), both = product(back, scale);
            const bool at_once = both > 0 && !isinf(both);
            const Number y = scaled(scaled(w.x[e], at_once ? both : back), at_once ? T(1) : scale);
            if (j < cols) x.put(finite ? w.owner[i] : i, first + j, finite ? y : not_a_complex_number());
        }
        for (int j = lane(); j < cols && !finite; j += LANES) norms.put(0, first + j, not_a_number());
        wait();
    }
    return rank;
}
