/* lu_steps.cuh: LU, what follows from it, and determinants of real matrices, as steps.cuh says. */
#include "determinant.cuh"

/* Exchange rows k and p >= k of N; p is not known when the text is compiled, but of registers each has its name. */
template <int N, int COLS, class A> inline void exchange_rows(A a, int k, int p, int lane) {
    typedef typename A::X X;
    if constexpr (LANES == 1) {
#pragma unroll
        for (int i = 0; i < N; i++) {
            if (i <= k) continue;
#pragma unroll
            for (int j = 0; j < COLS; j++) {
                const X x = a(k, j), y = a(i, j);
                a(k, j) = i == p ? y : x;
                a(i, j) = i == p ? x : y;
            }
        }
    } else {
#pragma unroll 1
        for (int j = lane; j < COLS; j += LANES) {
            const X x = a(k, j);
            a(k, j) = a(p, j);
            a(p, j) = x;
        }
    }
}

struct Factors {
    int info;      /* the first step, from 1, whose pivot is zero or infinite */
    bool singular; /* a pivot is zero, all before are finite */
};

/* P A = L U in place, by partial pivoting; exchange(k, p) is told of every step, of p = k, too. A zero pivot ends it.
 * Each thread has whole rows, and looks for the pivot itself. */
template <int N, class A, class Exchange> inline Factors factor(A a, int lane, Exchange exchange) {
    typedef typename A::X X;
    Factors f = {0, false};
    bool zero = false, finite = true;
#pragma unroll UNROLL
    for (int k = 0; k < N; k++) {
        int p = k;
        X pivot = a(k, k);
#pragma unroll INNER
        for (int i = k + 1; i < N; i++) {
            const X x = a(i, k);
            const bool larger = fabs(x) > fabs(pivot);
            pivot = larger ? x : pivot;
            p = larger ? i : p;
        }
        if (zero) p = k;
        zero |= pivot == 0;
        if (!f.info && (zero || isinf(pivot))) f.info = k + 1;
        finite &= zero || isfinite(pivot);
        SYNC_LANES();
        exchange_rows<N, N>(a, k, p, lane);
        exchange(k, p);
        SYNC_LANES();
        const X r = 1 / pivot;
#pragma unroll UNROLL
        for (int i = lane; i < N; i += LANES) {
            if (i <= k || zero) continue;
            const X l = quotient(a(i, k), pivot, r);
            a(i, k) = l;
#pragma unroll INNER
            for (int j = k + 1; j < N; j++) a(i, j) = multiply_add(-l, a(k, j), a(i, j));
        }
        SYNC_LANES();
    }
    f.singular = zero && finite;
    return f;
}

template <int FORM, int M, int N, int K, class A, class B, class To, class Info, class X>
inline void step_solve(A a, B b, To x, Info info, X *scratch, int lane) {
    const View<X, N, 1> lu = {scratch};
    copy_matrix<N, N>(lu, a, lane);
    copy_matrix<N, K>(x, b, lane);
    SYNC_LANES();
    const Factors f = factor<N>(lu, lane, [&](int k, int p) { exchange_rows<N, K>(x, k, p, lane); });
    substitute<N, K, false, true>(lu, x, lane);
    substitute<N, K, true, false>(lu, x, lane);
    if (f.info) fill<N, K>(x, lane, not_a_number(X()));
    put_info(info, lane, f.info);
}

template <int FORM, int M, int N, int K, class A, class To, class Pivots, class Info, class Scratch>
inline void step_lu(A a, To lu, Pivots pivots, Info info, Scratch, int lane) {
    copy_matrix<N, N>(lu, a, lane);
    SYNC_LANES();
    const Factors f = factor<N>(lu, lane, [&](int k, int p) {
        if (lane == 0) pivots(k) = p;
    });
    if (f.info) {
        fill<N, N>(lu, lane, not_a_number(typename To::X()));
#pragma unroll INNER
        for (int i = 0; i < N; i++)
            if (lane == 0 && i + 1 >= f.info) pivots(i) = i;
    }
    put_info(info, lane, f.info);
}

template <int FORM, int M, int N, int K, class A, class Pivots, class B, class To, class Info, class Scratch>
inline void step_lu_solve(A lu, Pivots pivots, B b, To x, Info info, Scratch, int lane) {
    constexpr bool TRANSPOSED = FORM & TRANSPOSED_FORM;
    int zero = 0, wrong = 0; /* a pivot that is no row, or one above, exchanges nothing */
#pragma unroll INNER
    for (int i = N - 1; i >= 0; i--) {
        if (pivots(i) < i || pivots(i) >= N) wrong = -(i + 1);
        if (lu(i, i) == 0) zero = i + 1;
    }
    const int failed = wrong ? wrong : zero;
    const auto exchange = [&](int i) {
        const int p = pivots(i);
        exchange_rows<N, K>(x, i, p < i || p >= N ? i : p, lane);
    };
    copy_matrix<N, K>(x, b, lane);
    SYNC_LANES();
    if constexpr (TRANSPOSED) {
        substitute<N, K, false, false>(transposed(lu), x, lane);
        substitute<N, K, true, true>(transposed(lu), x, lane);
#pragma unroll UNROLL
        for (int i = N - 1; i >= 0; i--) exchange(i);
    } else {
#pragma unroll UNROLL
        for (int i = 0; i < N; i++) exchange(i);
        SYNC_LANES();
        substitute<N, K, false, true>(lu, x, lane);
        substitute<N, K, true, false>(lu, x, lane);
    }
    SYNC_LANES();
    if (failed) fill<N, K>(x, lane, not_a_number(typename To::X()));
    put_info(info, lane, failed);
}

/* --- determinants --- */

/* Each thread multiplies by itself. */
template <int N, class A, class X> inline Determinant<X> determinant_of(A a, X *scratch, int lane, int &info) {
    const View<X, N, 1> lu = {scratch};
    unsigned exchanged = 0;
    copy_matrix<N, N>(lu, a, lane);
    SYNC_LANES();
    const Factors f = factor<N>(lu, lane, [&](int k, int p) { exchanged |= unsigned(p != k) << k; });
    Determinant<X> determinant;
#pragma unroll UNROLL
    for (int i = 0; i < N; i++) determinant.multiply(exchanged >> i & 1 ? -lu(i, i) : lu(i, i));
    if (!determinant.safe())
#pragma unroll UNROLL
        for (int i = 0; i < N; i++) determinant.multiply_scaled(exchanged >> i & 1 ? -lu(i, i) : lu(i, i));
    determinant.singular = f.singular;
    info = f.info;
    return determinant;
}

template <int FORM, int M, int N, int K, class A, class Det, class Info, class X>
inline void step_det(A a, Det det, Info info, X *scratch, int lane) {
    int failed;
    const Determinant<X> determinant = determinant_of<N>(a, scratch, lane, failed);
    if (lane == 0) det(0) = determinant.value();
    put_info(info, lane, failed);
}

template <int FORM, int M, int N, int K, class A, class Sign, class Log, class Info, class X>
inline void step_slogdet(A a, Sign sign, Log log_magnitude, Info info, X *scratch, int lane) {
    int failed;
    const Determinant<X> determinant = determinant_of<N>(a, scratch, lane, failed);
    if (lane == 0) sign(0) = determinant.sign(), log_magnitude(0) = determinant.log_magnitude();
    put_info(info, lane, failed);
}
