/* householder.cuh: reflectors H = I - tau v v^T, v_0 = 1 (LAPACK's larfg; Golub and Van Loan, Matrix Computations,
 * algorithm 5.1.1), in the order of operations of the CPU's. */

constexpr bool DOUBLE = sizeof(T) == 8;

/* Sums of squares outside of LOW .. HIGH have lost digits to underflow, or may overflow; then x is scaled by a power of
 * two, which loses none. */
constexpr T SQUARES_LOW = static_cast<T>(DOUBLE ? 0x1p-900 : 0x1p-100);
constexpr T SQUARES_HIGH = static_cast<T>(DOUBLE ? 0x1p1000 : 0x1p120);
constexpr T SCALE_UP = static_cast<T>(DOUBLE ? 0x1p600 : 0x1p100);
constexpr T SCALE_DOWN = static_cast<T>(DOUBLE ? 0x1p-600 : 0x1p-100);

/* Where products of elements near the largest number overflow, a matrix is factored once more, scaled by this. */
constexpr T SCALE_AGAIN = static_cast<T>(0x1p-8), SCALE_BACK = static_cast<T>(0x1p8);

/* The high word of a number, or all of it. */
__device__ inline unsigned leading(double x) { return __double2hiint(x); }
__device__ inline unsigned leading(float x) { return __float_as_uint(x); }

__device__ inline bool is_finite(T x) { return (leading(x) & 0x7fffffff) < (DOUBLE ? 0x7ff00000 : 0x7f800000); }

/* Whether a reflector needs neither scaling nor a closer look at zeros, of x_0 and the rest with these sums of squares.
 * What is said of a few that do not is no. */
__device__ inline bool is_ordinary(T rest, T squares) {
    constexpr unsigned LOW = DOUBLE ? (1023u - 900) << 20 : (127u - 100) << 23;
    constexpr unsigned HIGH = DOUBLE ? (1023u + 1000) << 20 : (127u + 120) << 23;
    return leading(rest) != 0 && leading(squares) - LOW < HIGH - LOW;
}

/* H x = (beta, 0, 0, ...), of which v_i = r x_i. */
struct Reflector {
    T beta, tau, r;
    __device__ Reflector(T first, T squares) {
        const T norm = root(squares);
        beta = first < 0 ? norm : -norm;
        tau = quotient_of(beta - first, beta);
        r = reciprocal(first - beta);
    }
};

/* The sum of squares of x_1 .. x_count-1 in four parts, and that of x_0. */
__device__ inline T sum_of_squares(const T *x, int step, int count) {
    T s[4] = {0, 0, 0, 0};
    int i = 1;
#pragma unroll 1
    for (; i + 3 < count; i += 4)
#pragma unroll
        for (int part = 0; part < 4; part++) {
            const T y = x[(i + part) * step];
            s[part] = multiply_add(y, y, s[part]);
        }
#pragma unroll
    for (int part = 0; part < 3; part++)
        if (i + part < count) s[part] = multiply_add(x[(i + part) * step], x[(i + part) * step], s[part]);
    return multiply_add(x[0], x[0], (s[0] + s[1]) + (s[2] + s[3]));
}

/* x in memory becomes beta, v_1 .. v_count-1; the result is tau, 0 where there is nothing to annihilate. */
__device__ __noinline__ T make_reflector(T *x, int step, int count) {
    int zeros = 1;
    while (zeros < count && x[zeros * step] == 0) zeros++;
    if (zeros >= count) return 0;
    T squares = sum_of_squares(x, step, count), back = 1;
    if (squares < SQUARES_LOW || squares > SQUARES_HIGH) {
        const bool small = squares < SQUARES_LOW;
        for (int i = 0; i < count; i++) x[i * step] = product(x[i * step], small ? SCALE_UP : SCALE_DOWN);
        squares = sum_of_squares(x, step, count);
        back = small ? SCALE_DOWN : SCALE_UP;
    }
    const Reflector h(x[0], squares);
    for (int i = 1; i < count; i++) x[i * step] = product(x[i * step], h.r);
    x[0] = product(h.beta, back);
    return h.tau;
}

/* x = H x in memory, of v_1 .. v_count-1. */
__device__ inline void reflect(const T *v, T tau, T *x, int step_v, int step, int count) {
    T w = x[0];
#pragma unroll 4
    for (int i = 1; i < count; i++) w = multiply_add(v[i * step_v], x[i * step], w);
    w = product(tau, w);
    x[0] = x[0] - w;
#pragma unroll 4
    for (int i = 1; i < count; i++) x[i * step] = multiply_add(-v[i * step_v], w, x[i * step]);
}
