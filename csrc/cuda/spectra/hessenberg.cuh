/* hessenberg.cuh: what eig.cuh does before QR, in the order of operations of kernels/spectra/eig_hessenberg.h:
 * balancing and Householder's reduction to Hessenberg form (LAPACK's gebal, gehrd and unghr). */

/* As there. */
constexpr int BALANCE_PASSES = 20, BALANCE_STEPS = 64;
constexpr T MAX_BALANCE = static_cast<T>(DOUBLE ? 0x1p300 : 0x1p30);
constexpr T MIN_BALANCE = static_cast<T>(DOUBLE ? 0x1p-300 : 0x1p-30);
constexpr T BALANCE_UNIT = static_cast<T>(DOUBLE ? 0x1p300 : 0x1p35);

/* Lines begin .. end - 1 of `count` elements at(line, i): columns become H x, H = I - v factor v^H, or rows ALONG which
 * v lies become x H. v_0 = 1. The first KEPT elements stay in registers meanwhile. */
template <bool ALONG, int KEPT, class V, class At>
__device__ inline void reflect_lines(V v, Element factor, int count, int begin, int end, At at) {
#pragma unroll 1
    for (int first = begin + lane(); first < end; first += AT_ONCE * LANES) {
        const auto is_line = [&](int r) { return r == 0 || first + r * LANES < end; };
        const auto line = [&](int r) { return is_line(r) ? first + r * LANES : first; };
        Element w[AT_ONCE], x[AT_ONCE][KEPT];
#pragma unroll
        for (int r = 0; r < AT_ONCE; r++) {
            for (int i = 0; i < KEPT && i < count; i++) x[r][i] = at(line(r), i);
            w[r] = x[r][0];
        }
        for (int i = 1; i < count; i++) {
            const Element y = v(i);
#pragma unroll
            for (int r = 0; r < AT_ONCE; r++) {
                const Element here = i < KEPT ? x[r][i] : at(line(r), i);
                w[r] = ALONG ? multiply_add(here, y, w[r]) : multiply_add(conjugate(y), here, w[r]);
            }
        }
#pragma unroll
        for (int r = 0; r < AT_ONCE; r++) {
            w[r] = ALONG ? product(w[r], factor) : product(factor, w[r]);
            if (is_line(r)) at(line(r), 0) = difference_of(x[r][0], w[r]);
        }
        for (int i = 1; i < count; i++) {
            const Element y = v(i);
#pragma unroll
            for (int r = 0; r < AT_ONCE; r++) {
                const Element here = i < KEPT ? x[r][i] : at(line(r), i);
                if (!is_line(r)) continue;
                at(line(r), i) = ALONG ? multiply_subtract(w[r], conjugate(y), here) : multiply_subtract(y, w[r], here);
            }
        }
    }
}

/* Not balanced are rows and columns that a permutation would make the first or the last of a triangle. */
__device__ inline void find_joined(Work &x) {
    for (int i = lane(); i < N; i += LANES) x.joined[i * COL] = element_of(1);
    sync_lanes();
    for (bool again = true; again;) {
        again = false;
        EACH_STEP(int i = 0; i < N; i++) {
            const bool was = !is_zero(x.joined[i * COL]);
            bool above = true, beside = true; /* nothing is below the diagonal, or beside it */
            for (int j = lane(); j < N; j += LANES) {
                if (j == i || is_zero(x.joined[j * COL])) continue;
                above &= size_of(x.h[j * ROW + i * COL]) == 0;
                beside &= size_of(x.h[i * ROW + j * COL]) == 0;
            }
            above = true_in_all(above);
            beside = true_in_all(beside);
            if (!was || !(above || beside)) continue;
            if (lane() == 0) x.joined[i * COL] = element_of(0);
            sync_lanes();
            again = true;
        }
    }
}

__device__ inline T add_squares(T x, T sum) {
    const T y = product(x, BALANCE_UNIT);
    return multiply_add(y, y, sum);
}
__device__ inline T add_squares(Complex x, T sum) { return add_squares(x.im, add_squares(x.re, sum)); }

/* The power of two that makes the 2-norms of row i and of column i about equal, or 1 where there is no need. Diagonals
 * count, and rows that are not joined (James, Langou and Lowery, On Matrix Balancing and Eigenvector Computation,
 * 2014). */
__device__ inline T factor_of_row(const Work &x, int i) {
    T c = 0, r = 0, f = 1;
    EACH(int j = 0; j < N; j++) {
        c = add_squares(x.h[j * ROW + i * COL], c);
        r = add_squares(x.h[i * ROW + j * COL], r);
    }
    const T was = real_of(x.balance[i * COL]);
    if (is_zero(x.joined[i * COL]) || c == 0 || r == 0) return 1;
    T ratio = quotient_of(r, c);
    for (int step = 0; step < BALANCE_STEPS && ratio > 4 && product(was, f) < MAX_BALANCE; step++)
        ratio = product(T(0.0625), ratio), f = f + f;
    for (int step = 0; step < BALANCE_STEPS && ratio < T(0.25) && product(was, f) > MIN_BALANCE; step++)
        ratio = product(T(16), ratio), f = product(T(0.5), f);
    if (f == 1) return 1;
    c = root(c), r = root(r);
    return product(T(0.95), c + r) > product(c, f) + product(r, reciprocal(f)) ? f : T(1);
}

__device__ inline void balance_row(Work &x, int i, T f) {
    const T back = reciprocal(f);
    sync_lanes();
    if (lane() == 0) x.balance[i * COL] = scaled(x.balance[i * COL], f);
    for (int j = lane(); j < N; j += LANES) x.h[i * ROW + j * COL] = scaled(x.h[i * ROW + j * COL], back);
    sync_lanes();
    for (int j = lane(); j < N; j += LANES) x.h[j * ROW + i * COL] = scaled(x.h[j * ROW + i * COL], f);
    sync_lanes();
}

/* Of rows `from` .. N - 1 the first that needs a factor, or N. Lanes have rows. */
__device__ inline int next_to_balance(const Work &x, int from) {
    Sized next = {0, N};
    for (int i = lane(); i < N && next.place == N; i += LANES)
        if (i >= from && factor_of_row(x, i) != 1) next = {1, i};
    return largest_of_all(next).place;
}

__device__ inline void balance(Work &x) {
    for (int i = lane(); i < N; i += LANES) x.balance[i * COL] = element_of(1);
    sync_lanes();
    find_joined(x);
    bool again = true;
    for (int pass = 0; pass < BALANCE_PASSES && again; pass++) {
        again = false;
        EACH_STEP(int i = 0; i < N; i++) {
            if (LANES > 1) i = next_to_balance(x, i);
            const T f = i < N ? factor_of_row(x, i) : T(1);
            if (f == 1) continue;
            balance_row(x, i, f);
            again = true;
        }
    }
}

/* Z = H_0 H_1 ..., of reflectors in columns of H, by lanes that have columns. */
__device__ inline void form_z(const Work &x, Element *z) {
    constexpr int DOWN = ASIDE ? N : ROW, RIGHT = ASIDE ? 1 : COL;
    for (int e = lane(); e < N * N; e += LANES) z[e / N * DOWN + e % N * RIGHT] = element_of(e / N == e % N);
    sync_lanes();
    for (int k = N - 3; k >= 0; k--) {
        const Element *const column = x.h + (k + 1) * ROW + k * COL;
        reflect_lines<false, 1>([&](int i) { return column[i * ROW]; }, x.tau[k * COL], N - k - 1, k + 1, N,
                                [&](int j, int i) -> Element & { return z[(k + 1 + i) * DOWN + j * RIGHT]; });
        sync_lanes();
    }
    for (int e = lane(); e < N * N && ASIDE; e += LANES)
        if (e / N < e % N) swap(z[e], z[e % N * N + e / N]);
}

__device__ inline void to_hessenberg(Work &x, Element *z) {
    EACH_STEP(int k = 0; k + 2 < N; k++) {
        const int count = N - k - 1;
        Element *const corner = x.h + (k + 1) * (ROW + COL), *const column = corner - COL, *const tau = x.tau + k * COL;
        const auto v = [&](int i) { return column[i * ROW]; };
        make_reflector_together(column, ROW, count, tau);
        reflect_lines<false, 1>(v, conjugate(*tau), count, 0, count,
                                [&](int j, int i) -> Element & { return corner[i * ROW + j * COL]; });
        sync_lanes();
        reflect_lines<true, 1>(v, *tau, count, 0, N,
                               [&](int j, int i) -> Element & { return x.h[j * ROW + (k + 1 + i) * COL]; });
        sync_lanes();
    }
    if (VECTORS) form_z(x, z);
    sync_lanes();
    for (int i = 2 + lane(); i < N; i += LANES)
        for (int j = 0; j < i - 1; j++) x.h[i * ROW + j * COL] = element_of(0);
    sync_lanes();
}
