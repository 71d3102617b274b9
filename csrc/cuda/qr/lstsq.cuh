/* lstsq.cuh: the X of least norm of those of least |A X - B|, these norms, the rank of A: QR with column pivoting, the
 * rank by estimates of R's condition, the rest of its rows annihilated from the right (LAPACK's gelsy; Golub and Van
 * Loan, Matrix Computations, sections 5.4.2 and 5.5.4), in shared memory, or of few rows in registers. By all lanes of
 * a matrix, which take its columns and rows by turns. Of complex matrices the diagonals of R and T are real.
 *
 * Whoever includes it has M, N and K, the right-hand sides that are taken at a time, and ROWS, those of A that are
 * kept: M or, where it is factored elsewhere (lstsq_columns.cuh), those of R. Operands are OperandViews
 * (operand_view.cuh).
 */
#include "rank.cuh"
#include "reflectors.cuh"

constexpr int P = min_of(M, N), PITCH = FEW ? N : pitch_of(N);

/* In elements: what a matrix needs, and what lies between matrices, so that the lanes of several find theirs in
 * different banks. */
constexpr int OF_SCALES = K * sizeof(T), OF_OWNERS = (N + 1 + N % 2) * sizeof(int);
constexpr int NEEDED =
    ROWS * PITCH + 1 + max_of(M, N) * K + 1 + 2 * (P + 1) + N + 1 + ceil_div(OF_SCALES + OF_OWNERS, sizeof(Element));
constexpr int BETWEEN = elements_apart(NEEDED, sizeof(Element)) - NEEDED;

struct Work {
    Element a[ROWS * PITCH + 1 + BETWEEN]; /* by rows; the one element more keeps it from being empty */
    Element x[max_of(M, N) * K + 1];       /* right-hand sides by rows, then solutions, still permuted */
    Element tau[P + 1], tail[P + 1];       /* of the reflectors from the left and from the right */
    Element row[N + 1];                    /* room for a row */
    T scale[K];                            /* by which right-hand sides were scaled */
    int owner[N + 1 + N % 2];              /* column j was column owner[j] of A */
};

/* The largest magnitude of a part of A, and whether all are finite, for all lanes of the matrix. */
template <class A> __device__ inline bool load(Work &w, const A &from, T &largest) {
    bool finite = true;
    Element all[FEW ? M * N : 1];
    largest = 0;
    if constexpr (FEW) from.template load<M, N>(all);
    EACH(int e = lane(); e < M * N; e += LANES) {
        const Element y = FEW ? all[FEW ? e : 0] : from.get(e / N, e % N);
        finite &= measure(y, largest);
        w.a[e / N * PITCH + e % N] = y;
    }
    return meet(largest, finite);
}

/* H_k to the columns of [A | right-hand sides] from `first` on. */
__device__ inline void reflect_columns(Work &w, int k, int first) {
    const Element *v = w.a + k * PITCH + k, tau = conjugate(w.tau[k]);
    EACH_STEP(int j = first + lane(); j < N + K; j += LANES)
        reflect(v, tau, j < N ? w.a + k * PITCH + j : w.x + k * K + j - N, PITCH, j < N ? PITCH : K, M - k);
    sync_lanes();
}

__device__ inline T square_of_column(const Work &w, int k, int j) {
    Squares s;
#pragma unroll TURNS
    for (int i = k; i < M; i++) s.add(w.a[i * PITCH + j]);
    return s.sum();
}

/* Columns k and j change places if `truly`. */
__device__ inline void exchange_columns(Work &w, int k, int j, bool truly) {
    EACH(int i = lane(); i <= M && (FEW || truly); i += LANES) {
        if (i == M) {
            const int was = w.owner[k];
            w.owner[k] = truly ? w.owner[j] : was;
            w.owner[j] = truly ? was : w.owner[j];
        } else {
            Element &x = w.a[i * PITCH + k], &y = w.a[i * PITCH + j];
            const Element was = x;
            x = select(truly, y, was);
            y = select(truly, was, y);
        }
    }
}

/* A P = Q R, and Q^H to the right-hand sides. */
__device__ inline void factor(Work &w) {
    EACH(int j = lane(); j < N; j += LANES) w.owner[j] = j;
    sync_lanes();
    EACH_STEP(int k = 0; k < P; k++) {
        const int longest = longest_column<N>(k, [&](int j) { return square_of_column(w, k, j); });
        sync_lanes();
        if (FEW)
            EACH(int j = k + 1; j < N; j++) exchange_columns(w, k, j, longest == j);
        else
            exchange_columns(w, k, longest, longest != k);
        sync_lanes();
        make_reflector_together(w.a + k * PITCH + k, PITCH, M - k, w.tau + k);
        reflect_columns(w, k, k + 1);
    }
}

/* Of the leading blocks of R up to the first whose estimated condition is above 1 / rtol, the largest. x, y: room for P
 * elements each. */
__device__ inline int estimate_rank(const Element *a, T rtol, Element *x, Element *y) {
    T largest = fabs(real_of(a[0])), smallest = largest;
    if (!(largest > 0)) return 0;
    sync_lanes();
    if (lane() == 0) x[0] = y[0] = element_of(1);
    EACH_STEP(int k = 1; k < P; k++) {
        sync_lanes();
        Element sum_x = element_of(0), sum_y = element_of(0);
        for (int i = 0; i < k; i++) {
            sum_x = multiply_add(conjugate(x[i]), a[i * PITCH + k], sum_x);
            sum_y = multiply_add(conjugate(y[i]), a[i * PITCH + k], sum_y);
        }
        const Along along_x(sum_x), along_y(sum_y);
        const T gamma = real_of(a[k * PITCH + k]);
        const Extension l = largest_extension(largest, along_x.size, gamma);
        const Extension s = smallest_extension(smallest, along_y.size, gamma);
        if (!(s.sigma > 0 && s.sigma >= product(rtol, l.sigma))) return k;
        sync_lanes();
        for (int i = lane(); i < k; i += LANES) x[i] = along_x.times(l.s, x[i]), y[i] = along_y.times(s.s, y[i]);
        if (lane() == 0) x[k] = element_of(l.c), y[k] = element_of(s.c);
        largest = l.sigma, smallest = s.sigma;
    }
    return P;
}

/* y_0 and the tail of y, from column `rank` on, by the reflector in the tail of v; of a row from the right. */
template <bool ROW>
__device__ inline void reflect_tail(const Element *v, Element tau, Element &first, Element *y, int step, int rank) {
    Element s = first;
    EACH(int j = FEW ? 0 : rank; j < N; j++)
        if (j >= rank) s = multiply_add(ROW ? v[j] : conjugate(v[j]), y[j * step], s);
    s = product(tau, s);
    first = difference_of(first, s);
    EACH(int j = FEW ? 0 : rank; j < N; j++)
        if (j >= rank) y[j * step] = multiply_subtract(ROW ? conjugate(v[j]) : v[j], s, y[j * step]);
}

/* The first `rank` rows of R become (T 0), T upper triangular: H_i, which overwrites the tail of row i, changes column
 * i and the tails of the rows above. As LAPACK's tzrzf: the reflector is that of the conjugated row. */
__device__ inline void annihilate_tail(Work &w, int rank) {
    EACH_STEP(int i = rank - 1; i >= 0 && rank < N; i--) {
        Element *row = w.a + i * PITCH;
        for (int j = i + lane(); j < N; j += LANES)
            w.row[j - i] = j == i || j >= rank ? conjugate(row[j]) : element_of(0);
        sync_lanes();
        make_reflector_together(w.row, 1, N - i, w.tail + i);
        for (int j = i + lane(); j < N; j += LANES)
            if (j == i || j >= rank) row[j] = w.row[j - i];
        sync_lanes();
        EACH_STEP(int h = lane(); h < i; h += LANES)
            reflect_tail<true>(row, w.tail[i], w.a[h * PITCH + i], w.a + h * PITCH, 1, rank);
        sync_lanes();
    }
}

/* The rank of R where it may not be P, and the tail is annihilated. Of few rows in memory, not in registers: it is
 * rare. */
__device__ inline int settle_here(Work &w, T rtol, bool full) {
    const int rank = full ? P : estimate_rank(w.a, rtol, w.row, w.tail);
    sync_lanes();
    annihilate_tail(w, rank);
    return rank;
}
__device__ __noinline__ int settle_aside(Work *w, T rtol, bool full) { return settle_here(*w, rtol, full); }
__device__ inline int settle(Work &w, T rtol, bool full) {
    if constexpr (!FEW) return settle_here(w, rtol, full);
    if (full && P == N) return N;
    Work aside = w;
    const int rank = settle_aside(&aside, rtol, full);
    w = aside;
    return rank;
}

/* The right-hand sides, to which Q^H has been applied, become solutions; `norm` takes the residual norms. */
template <class Norm> __device__ inline void solve(Work &w, int rank, Norm norm) {
    EACH_STEP(int c = lane(); c < K; c += LANES) {
        Squares s;
        EACH(int i = FEW ? 0 : rank; i < M; i++)
            if (i >= rank) s.add(w.x[i * K + c]);
        norm(c, root(s.sum()));
        EACH(int i = FEW ? 0 : rank; i < N; i++)
            if (i >= rank) w.x[i * K + c] = element_of(0);
    }
    EACH_STEP(int j = (FEW ? P : rank) - 1; j >= 0; j--) {
        if (j >= rank) continue;
        sync_lanes();
        const Divisor pivot(real_of(w.a[j * PITCH + j]));
        EACH(int c = lane(); c < K; c += LANES) w.x[j * K + c] = quotient_of(w.x[j * K + c], pivot);
        sync_lanes();
        EACH(int e = lane(); e < j * K; e += LANES)
            w.x[e] = multiply_subtract(w.a[e / K * PITCH + j], w.x[j * K + e % K], w.x[e]);
    }
    sync_lanes();
    EACH_STEP(int c = lane(); c < K; c += LANES)
        EACH_STEP(int i = 0; i < (FEW ? P : rank); i++)
            if (i < rank && rank < N) reflect_tail<false>(w.a + i * PITCH, w.tail[i], w.x[i * K + c], w.x + c, K, rank);
    sync_lanes();
}

/* Right-hand sides first .. first + cols, scaled. */
template <class B> __device__ inline void load_sides(Work &w, const B &from, long long first, int cols) {
    EACH(int e = lane(); e < M * K; e += LANES) w.x[e] = e % K < cols ? from.get(e / K, first + e % K) : element_of(0);
    sync_lanes();
    EACH_STEP(int c = lane(); c < K; c += LANES) {
        T largest = 0;
        EACH(int i = 0; i < M; i++) measure(w.x[i * K + c], largest);
        w.scale[c] = scale_for(largest);
        EACH(int i = 0; i < M && w.scale[c] != 1; i++) w.x[i * K + c] = scaled(w.x[i * K + c], w.scale[c]);
    }
    sync_lanes();
}

/* The solutions of right-hand sides first .. first + cols, with the scale of A. */
template <class X>
__device__ inline void put_solutions(const Work &w, const X &x, long long first, int cols, T scale, bool finite) {
    EACH(int e = lane(); e < N * K; e += LANES) {
        const int i = e / K, j = e % K;
        /* By both powers of two at once where that is a number: opposite ones may overflow on the way. */
        const T back = reciprocal(w.scale[j]), both = product(back, scale);
        const bool at_once = both > 0 && !isinf(both);
        const Element y = scaled(scaled(w.x[e], at_once ? both : back), at_once ? T(1) : scale);
        if (j < cols) x.put(finite ? w.owner[i] : i, first + j, finite ? y : not_an_element());
    }
}

/* Of all right-hand sides, of which there are so many; norms are a row. The result is the rank. */
template <class A, class B, class X, class Norms>
__device__ inline int lstsq(Work &w, const A &a, const B &b, T rtol, long long columns, const X &x,
                            const Norms &norms) {
    T largest;
    const bool finite = load(w, a, largest);
    const T scale = scale_for(largest);
    if (scale != 1)
        EACH(int e = lane(); e < M * N; e += LANES) {
            Element &y = w.a[e / N * PITCH + e % N];
            y = scaled(y, scale);
        }
    int rank = 0;
    for (long long first = 0; first == 0 || (!FEW && first < columns); first += K) {
        const int cols = static_cast<int>(columns - first < K ? columns - first : K);
        load_sides(w, b, first, cols);
        if (finite && first == 0) {
            factor(w);
            const auto size = [&](int i, int j) { return size_of(w.a[i * PITCH + j]); };
            T *const r = reinterpret_cast<T *>(w.row), *const y = reinterpret_cast<T *>(w.tail);
            rank = settle(w, rtol, P == 0 || has_full_rank<P>(size, rtol, r, y));
        } else if (finite) {
            EACH_STEP(int k = 0; k < P; k++) reflect_columns(w, k, N);
        }
        if (finite)
            solve(w, rank, [&](int j, T norm) {
                if (j < cols) norms.put(0, first + j, product(norm, reciprocal(w.scale[j])));
            });
        put_solutions(w, x, first, cols, scale, finite);
        for (int j = lane(); j < cols && !finite; j += LANES) norms.put(0, first + j, not_a_number());
        sync_lanes();
    }
    return rank;
}
