/* steps.cuh: the operations that programs have: step_<operation> for a matrix, by its LANES threads, in the order of
 * operations of csrc/reference, which all kernels follow. Operands are views, in the order of ops.def; `scratch` has
 * the elements that smallmm/_programs/cuda_steps.py says. All threads come to every SYNC_LANES, whatever their matrices
 * are like.
 */

template <class X_, int ROW, int COL> struct View {
    typedef X_ X;
    static constexpr int DOWN = ROW;
    X *first;
    X &operator()(int i, int j = 0) const { return first[i * ROW + j * COL]; }
};
template <class X, int ROW, int COL> inline View<X, COL, ROW> transposed(View<X, ROW, COL> x) { return {x.first}; }
template <bool TRANSPOSED, class A> inline auto transposed_if(A a) {
    if constexpr (TRANSPOSED)
        return transposed(a);
    else
        return a;
}
struct Missing {};               /* an operand that the step does not have */
template <class X> struct Ones { /* one that is not read */
    X operator()(int, int = 0) const { return 1; }
};

enum { UPPER_FORM = 1, UNIT_FORM = 2, TRANSPOSED_FORM = 4 };

inline double multiply_add(double x, double y, double z) { return __fma_rn(x, y, z); }
inline float multiply_add(float x, float y, float z) { return __fmaf_rn(x, y, z); }
inline double not_a_number(double) { return __longlong_as_double(0x7ff8000000000000); }
inline float not_a_number(float) { return __uint_as_float(0x7fc00000); }

inline double product(double x, double y) { return __dmul_rn(x, y); }
inline float product(float x, float y) { return __fmul_rn(x, y); }

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

/* --- the others --- */

#include "triangular_steps.cuh"
#include "lu_steps.cuh"
#include "inv_steps.cuh"
