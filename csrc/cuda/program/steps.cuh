/* steps.cuh: the operations that programs have: step_<operation> for a matrix, by its LANES threads, in the order of
 * operations of csrc/reference, which all kernels follow. Operands are views, in the order of ops.def; `scratch` has
 * the elements that smallmm/_programs/cuda_steps.py says. All threads come to every MEET, whatever their matrices are
 * like.
 */

template <class X_, int ROW, int COL> struct View {
    typedef X_ X;
    static constexpr int DOWN = ROW;
    X *first;
    X &operator()(int i, int j = 0) const { return first[i * ROW + j * COL]; }
};
struct Missing {};               /* an operand that the step does not have */
template <class X> struct Ones { /* one that is not read */
    X operator()(int, int = 0) const { return 1; }
};

inline double multiply_add(double x, double y, double z) { return __fma_rn(x, y, z); }
inline float multiply_add(float x, float y, float z) { return __fmaf_rn(x, y, z); }
inline double not_a_number(double) { return __longlong_as_double(0x7ff8000000000000); }
inline float not_a_number(float) { return __uint_as_float(0x7fc00000); }

inline double product(double x, double y) { return __dmul_rn(x, y); }
inline float product(float x, float y) { return __fmul_rn(x, y); }

#include "determinant.cuh"
#include "../inverse.h"

template <class X> inline bool is_normal(X x) {
    const X a = fabs(x);
    return a >= (sizeof(X) == 8 ? X(0x1p-1022) : X(0x1p-126)) && !isinf(a);
}
/* x / p, r being 1 / p: by the reciprocal where it is as exact as numbers are. */
template <class X> inline X quotient(X x, X p, X r) { return is_normal(r) ? x * r : x / p; }

template <int ROW, int COL> inline void put_info(View<int, ROW, COL> info, int lane, int value) {
    if (lane == 0) info(0) = value;
}
inline void put_info(Missing, int, int) {}

template <int ROWS, int COLS, class To> inline void fill(To to, int lane, typename To::X x) {
#pragma unroll INNER
    for (int e = lane; e < ROWS * COLS; e += LANES) to(e / COLS, e % COLS) = x;
}
template <int ROWS, int COLS, class To, class From> inline void copy_matrix(To to, From from, int lane) {
#pragma unroll INNER
    for (int e = lane; e < ROWS * COLS; e += LANES) to(e / COLS, e % COLS) = from(e / COLS, e % COLS);
}

/* --- products --- */

template <class X> inline X times(Missing, X x) { return x; }
template <class X, class Alpha> inline X times(Alpha alpha, X x) { return product(alpha(0), x); }

/* A tile of ROWS x COLS elements of C = alpha A B from (i, j) on. */
template <int M, int N, int K, int ROWS, int COLS, class A, class B, class Alpha, class C>
inline void product_tile(A a, B b, Alpha alpha, C c, int i, int j) {
    typedef typename C::X X;
    X sum[ROWS][COLS] = {}; /* of no terms: zero */
#pragma unroll INNER
    for (int k = 0; k < K; k++) {
        X x[ROWS], y[COLS];
#pragma unroll
        for (int r = 0; r < ROWS; r++) x[r] = a(M % ROWS && i + r >= M ? M - 1 : i + r, k);
#pragma unroll
        for (int s = 0; s < COLS; s++) y[s] = b(k, N % COLS && j + s >= N ? N - 1 : j + s);
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
            for (int s = 0; s < COLS; s++) sum[r][s] = k ? multiply_add(x[r], y[s], sum[r][s]) : product(x[r], y[s]);
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int s = 0; s < COLS; s++)
            if ((M % ROWS == 0 || i + r < M) && (N % COLS == 0 || j + s < N)) c(i + r, j + s) = times(alpha, sum[r][s]);
}

/* Element i of C = alpha A times a column of ones. Rows of A are whole vectors, in which they are read: the rows of
 * neighbouring threads begin in the same bank of shared memory, where threads wait for each other at each read. */
template <int K, class A, class Alpha, class C> inline void sum_row(A a, Alpha alpha, C c, int i) {
    typedef typename C::X X;
    constexpr int WIDE = 16 / sizeof(X);
    struct alignas(16) Wide {
        X x[WIDE];
    };
    const Wide *const row = reinterpret_cast<const Wide *>(&a(i, 0));
    X sum = 0;
#pragma unroll 4
    for (int k = 0; k < K / WIDE; k++) {
        const Wide wide = row[k];
#pragma unroll
        for (int e = 0; e < WIDE; e++) sum = k || e ? sum + wide.x[e] : wide.x[e];
    }
    c(i) = times(alpha, sum);
}

/* --- triangular systems --- */

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
        MEET();
    } else {
#pragma unroll 1
        for (int step = 0; step < N; step++) {
            const int j = UPPER ? N - 1 - step : step;
            if (!UNIT && lane < K) x(j, lane) = quotient<X>(x(j, lane), a(j, j), 1 / a(j, j));
            MEET();
#pragma unroll 2
            for (int e = lane; e < N * K; e += LANES) {
                const int i = e / K, c = e % K;
                if (UPPER ? i < j : i > j) x(i, c) = multiply_add(-a(i, j), x(j, c), x(i, c));
            }
            MEET();
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

template <class X, int ROW, int COL> inline View<X, COL, ROW> transposed(View<X, ROW, COL> x) { return {x.first}; }

enum { UPPER_FORM = 1, UNIT_FORM = 2, TRANSPOSED_FORM = 4 };

template <int FORM, int M, int N, int K, class A, class B, class To, class Info, class Scratch>
inline void step_solve_triangular(A a, B b, To x, Info info, Scratch, int lane) {
    constexpr bool UNIT = FORM & UNIT_FORM;
    const int zero = UNIT ? 0 : zero_of<N>(a);
    copy_matrix<N, K>(x, b, lane);
    MEET();
    substitute<N, K, bool(FORM & UPPER_FORM), UNIT>(a, x, lane);
    if (zero) fill<N, K>(x, lane, not_a_number(typename To::X()));
    put_info(info, lane, zero);
}

/* L L^T X = X, L the lower triangle, or the transpose of an upper one. */
template <int N, int K, class L, class To> inline void solve_from_cholesky(L l, To x, int lane) {
    substitute<N, K, false, false>(l, x, lane);
    substitute<N, K, true, false>(transposed(l), x, lane);
}

template <bool TRANSPOSED, class A> inline auto transposed_if(A a) {
    if constexpr (TRANSPOSED)
        return transposed(a);
    else
        return a;
}

template <int FORM, int M, int N, int K, class A, class B, class To, class Info, class Scratch>
inline void step_cho_solve(A a, B b, To x, Info info, Scratch, int lane) {
    const int zero = zero_of<N>(a);
    copy_matrix<N, K>(x, b, lane);
    MEET();
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
    MEET();
#pragma unroll UNROLL
    for (int j = 0; j < N; j++) {
        const X pivot = l(j, j);
        if (!(pivot > 0) && !info) info = j + 1;
        const X diagonal = root(pivot), r = 1 / diagonal;
        MEET();
#pragma unroll UNROLL
        for (int i = lane; i < N; i += LANES)
            if (i >= j) l(i, j) = i == j ? diagonal : l(i, j) * r;
        MEET();
#pragma unroll UNROLL
        for (int i = lane; i < N; i += LANES)
#pragma unroll INNER
            for (int k = j + 1; k <= i; k++) l(i, k) = multiply_add(-l(i, j), l(k, j), l(i, k));
        MEET();
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

/* --- LU --- */

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
        MEET();
        exchange_rows<N, N>(a, k, p, lane);
        exchange(k, p);
        MEET();
        const X r = 1 / pivot;
#pragma unroll UNROLL
        for (int i = lane; i < N; i += LANES) {
            if (i <= k || zero) continue;
            const X l = quotient(a(i, k), pivot, r);
            a(i, k) = l;
#pragma unroll INNER
            for (int j = k + 1; j < N; j++) a(i, j) = multiply_add(-l, a(k, j), a(i, j));
        }
        MEET();
    }
    f.singular = zero && finite;
    return f;
}

template <int FORM, int M, int N, int K, class A, class B, class To, class Info, class X>
inline void step_solve(A a, B b, To x, Info info, X *scratch, int lane) {
    const View<X, N, 1> lu = {scratch};
    copy_matrix<N, N>(lu, a, lane);
    copy_matrix<N, K>(x, b, lane);
    MEET();
    const Factors f = factor<N>(lu, lane, [&](int k, int p) { exchange_rows<N, K>(x, k, p, lane); });
    substitute<N, K, false, true>(lu, x, lane);
    substitute<N, K, true, false>(lu, x, lane);
    if (f.info) fill<N, K>(x, lane, not_a_number(X()));
    put_info(info, lane, f.info);
}

template <int FORM, int M, int N, int K, class A, class To, class Pivots, class Info, class Scratch>
inline void step_lu(A a, To lu, Pivots pivots, Info info, Scratch, int lane) {
    copy_matrix<N, N>(lu, a, lane);
    MEET();
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
    MEET();
    if constexpr (TRANSPOSED) {
        substitute<N, K, false, false>(transposed(lu), x, lane);
        substitute<N, K, true, true>(transposed(lu), x, lane);
#pragma unroll UNROLL
        for (int i = N - 1; i >= 0; i--) exchange(i);
    } else {
#pragma unroll UNROLL
        for (int i = 0; i < N; i++) exchange(i);
        MEET();
        substitute<N, K, false, true>(lu, x, lane);
        substitute<N, K, true, false>(lu, x, lane);
    }
    MEET();
    if (failed) fill<N, K>(x, lane, not_a_number(typename To::X()));
    put_info(info, lane, failed);
}

/* --- determinants --- */

/* Each thread multiplies by itself. */
template <int N, class A, class X> inline Determinant<X> determinant_of(A a, X *scratch, int lane, int &info) {
    const View<X, N, 1> lu = {scratch};
    unsigned exchanged = 0;
    copy_matrix<N, N>(lu, a, lane);
    MEET();
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

/* --- the inverse --- */

/* Gauss-Jordan elimination in place, from order 4 on of the transpose (inverse.h); scratch also has the pivots. A zero
 * pivot is taken to be as small as rounding errors are. Where the result may be that of a singular matrix, LU says. */
template <int FORM, int M, int N, int K, class A, class To, class Info, class X>
inline void step_inv(A a, To inverse, Info info, X *scratch, int lane) {
    constexpr bool DIRECT = N <= SMM_INV_DIRECT;
    constexpr X DOUBTFUL = SMM_DOUBTFUL(X), LEAST_SQUARES = SMM_LEAST_SQUARES(X);
    const View<X, N, 1> work = {scratch};
    X *const pivots = scratch + N * N;
    copy_matrix<N, N>(work, transposed_if<!DIRECT>(a), lane);
    MEET();
    X size = 0, largest = 0;
    bool doubt = false, nan = false;
#pragma unroll UNROLL
    for (int k = 0; k < N; k++) {
        int p = k;
        X pivot = work(k, k);
#pragma unroll INNER
        for (int i = k + 1; i < N; i++) {
            const X x = work(i, k);
            const bool larger = fabs(x) > fabs(pivot);
            pivot = larger ? x : pivot;
            p = larger ? i : p;
        }
        const X r = 1 / (pivot == 0 && !DIRECT ? X(size * X(SMM_ROUNDOFF(X))) : pivot);
        doubt |= DIRECT ? !is_normal(r) : pivot == 0;
        size = fmax(size, fabs(pivot));
        if (lane == 0) pivots[k] = p;
        MEET();
        exchange_rows<N, N>(work, k, p, lane);
        MEET();
#pragma unroll UNROLL
        for (int i = lane; i < N; i += LANES) {
            if (i == k) continue;
            const X f = work(i, k) * r;
#pragma unroll INNER
            for (int j = 0; j < N; j++)
                work(i, j) = multiply_add(-f, j == k ? X(1) : work(k, j), j == k ? X(0) : work(i, j));
        }
        MEET();
#pragma unroll INNER
        for (int j = lane; j < N; j += LANES) work(k, j) = (j == k ? X(1) : work(k, j)) * r;
        MEET();
    }
    /* This is the inverse of P A: the inverse of A has its columns exchanged. Each thread has whole rows. */
#pragma unroll UNROLL
    for (int i = lane; i < N; i += LANES)
#pragma unroll UNROLL
        for (int k = N - 1; k >= 0; k--) {
            const int p = static_cast<int>(pivots[k]);
            if constexpr (LANES == 1) {
#pragma unroll
                for (int j = 0; j < N; j++) {
                    if (j <= k) continue;
                    const X x = work(i, k), y = work(i, j);
                    work(i, k) = j == p ? y : x;
                    work(i, j) = j == p ? x : y;
                }
            } else {
                const X x = work(i, k);
                work(i, k) = work(i, p);
                work(i, p) = x;
            }
        }
    MEET();
    const bool overflows = !DIRECT && isinf(size);
#pragma unroll INNER
    for (int e = 0; e < N * N; e++) {
        const X x = scratch[e];
        nan |= overflows || isnan(x);
        largest = fmax(largest, fabs(x));
    }
    doubt |= nan || (!DIRECT && (N * largest * size >= DOUBTFUL || largest * largest <= LEAST_SQUARES));
    MEET();
    copy_matrix<N, N>(transposed_if<!DIRECT>(inverse), work, lane);
    MEET();
    int failed = 0;
    bool any = doubt;
    if constexpr (LANES > 1) any = __any_sync(~0u, doubt);
    if (any) {
        copy_matrix<N, N>(work, a, lane);
        MEET();
        bool finite = true;
#pragma unroll INNER
        for (int e = 0; e < N * N; e++) finite &= (bool)isfinite(scratch[e]);
        MEET();
        const Factors f = factor<N>(work, lane, [](int, int) {});
        if (doubt) failed = f.info ? f.info : nan && finite ? N : 0;
    }
    if (failed || overflows) fill<N, N>(inverse, lane, not_a_number(X()));
    put_info(info, lane, failed);
}
