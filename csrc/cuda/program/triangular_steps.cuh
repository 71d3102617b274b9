/* triangular_steps.cuh: triangular systems and Cholesky of real matrices, as steps.cuh says. */

/* X becomes the solution of A X = X, A lower or upper triangular of order N, X of K columns. */
template <int N, int K, bool UPPER, bool UNIT, class A, class To> inline void substitute(A a, To x, int lane) {
    typedef typename To::X X;
    if constexpr (K >= LANES) { /* columns do not know of each other; each is in registers meanwhile */
#pragma unroll UNROLL
        for (int c = lane; c < K; c += LANES) {
            X y[N];
#pragma unroll
            for (int i = 0; i < N; i++) y[i] = x(i, c);
#pragma unroll
            for (int step = 0; step < N; step++) {
                const int j = UPPER ? N - 1 - step : step;
                if (!UNIT) y[j] = quotient<X>(y[j], a(j, j), 1 / a(j, j));
#pragma unroll
                for (int i = UPPER ? 0 : j + 1; i < (UPPER ? j : N); i++) y[i] = multiply_add(-a(i, j), y[j], y[i]);
            }
#pragma unroll
            for (int i = 0; i < N; i++) x(i, c) = y[i];
        }
        SYNC_LANES();
    } else {
#pragma unroll 1
        for (int step = 0; step < N; step++) {
            const int j = UPPER ? N - 1 - step : step;
            if (!UNIT && lane < K) x(j, lane) = quotient<X>(x(j, lane), a(j, j), 1 / a(j, j));
            SYNC_LANES();
#pragma unroll 2
            for (int e = lane; e < N * K; e += LANES) {
                const int i = e / K, c = e % K;
                if (UPPER ? i < j : i > j) x(i, c) = multiply_add(-a(i, j), x(j, c), x(i, c));
            }
            SYNC_LANES();
        }
    }
}

/* The first zero of the diagonal, from 1; or 0. */
template <int N, class A> inline int zero_of(A a) {
    int zero = 0;
#pragma unroll INNER
    for (int j = N - 1; j >= 0; j--)
        if (a(j, j) == 0) zero = j + 1;
    return zero;
}

template <int FORM, int M, int N, int K, class A, class B, class To, class Info, class Scratch>
inline void step_solve_triangular(A a, B b, To x, Info info, Scratch, int lane) {
    constexpr bool UNIT = FORM & UNIT_FORM;
    const int zero = UNIT ? 0 : zero_of<N>(a);
    copy_matrix<N, K>(x, b, lane);
    SYNC_LANES();
    substitute<N, K, bool(FORM & UPPER_FORM), UNIT>(a, x, lane);
    if (zero) fill<N, K>(x, lane, not_a_number(typename To::X()));
    put_info(info, lane, zero);
}

/* L L^T X = X, L the lower triangle, or the transpose of an upper one. */
template <int N, int K, class L, class To> inline void solve_from_cholesky(L l, To x, int lane) {
    substitute<N, K, false, false>(l, x, lane);
    substitute<N, K, true, false>(transposed(l), x, lane);
}

template <int FORM, int M, int N, int K, class A, class B, class To, class Info, class Scratch>
inline void step_cho_solve(A a, B b, To x, Info info, Scratch, int lane) {
    const int zero = zero_of<N>(a);
    copy_matrix<N, K>(x, b, lane);
    SYNC_LANES();
    solve_from_cholesky<N, K>(transposed_if<bool(FORM & UPPER_FORM)>(a), x, lane);
    if (zero) fill<N, K>(x, lane, not_a_number(typename To::X()));
    put_info(info, lane, zero);
}

/* --- Cholesky --- */

/* L of the lower triangle of A; the step (from 1) whose pivot is not positive, after which L means nothing, or 0. Each
 * thread has whole rows. */
template <int N, class A, class L> inline int cholesky(A a, L l, int lane) {
    typedef typename L::X X;
    int info = 0;
#pragma unroll INNER
    for (int e = lane; e < N * N; e += LANES) l(e / N, e % N) = e / N >= e % N ? a(e / N, e % N) : X(0);
    SYNC_LANES();
#pragma unroll UNROLL
    for (int j = 0; j < N; j++) {
        const X pivot = l(j, j);
        if (!(pivot > 0) && !info) info = j + 1;
        const X diagonal = root(pivot), r = 1 / diagonal;
        SYNC_LANES();
#pragma unroll UNROLL
        for (int i = lane; i < N; i += LANES)
            if (i >= j) l(i, j) = i == j ? diagonal : l(i, j) * r;
        SYNC_LANES();
#pragma unroll UNROLL
        for (int i = lane; i < N; i += LANES)
#pragma unroll INNER
            for (int k = j + 1; k <= i; k++) l(i, k) = multiply_add(-l(i, j), l(k, j), l(i, k));
        SYNC_LANES();
    }
    return info;
}

template <int FORM, int M, int N, int K, class A, class To, class Info, class Scratch>
inline void step_cholesky(A a, To l, Info info, Scratch, int lane) {
    constexpr bool UPPER = FORM & UPPER_FORM;
    const int failed = cholesky<N>(transposed_if<UPPER>(a), transposed_if<UPPER>(l), lane);
    if (failed) fill<N, N>(l, lane, not_a_number(typename To::X()));
    put_info(info, lane, failed);
}

template <int FORM, int M, int N, int K, class A, class B, class To, class Info, class X>
inline void step_solve_pos(A a, B b, To x, Info info, X *scratch, int lane) {
    const View<X, N, 1> l = {scratch};
    copy_matrix<N, K>(x, b, lane);
    const int failed = cholesky<N>(transposed_if<bool(FORM & UPPER_FORM)>(a), l, lane);
    solve_from_cholesky<N, K>(l, x, lane);
    if (failed) fill<N, K>(x, lane, not_a_number(X()));
    put_info(info, lane, failed);
}
