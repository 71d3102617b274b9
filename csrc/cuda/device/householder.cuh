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

__device__ inline double power_of_two(int e, double) { return __hiloint2double((1023 + e) << 20, 0); }
__device__ inline float power_of_two(int e, float) { return __uint_as_float((127u + e) << 23); }

/* A power of two that brings the largest of these magnitudes to about 1, if they are far from it. */
__device__ inline T scale_for(T largest) {
    constexpr int FAR = DOUBLE ? 200 : 20, LIMIT = DOUBLE ? 1000 : 120;
    if (!(largest > 0) || !is_finite(largest)) return 1;
    if (largest >= power_of_two(-FAR, T()) && largest <= power_of_two(FAR, T())) return 1;
    const int e = DOUBLE ? (leading(largest) >> 20) - 1023 : (leading(largest) >> 23) - 127;
    return power_of_two(e > LIMIT ? -LIMIT : e < -LIMIT ? LIMIT : -e, T());
}

/* Keeps the largest magnitude; false where it is not finite. */
__device__ inline bool measure(T x, T &largest) {
    if (fabs(x) > largest) largest = fabs(x);
    return is_finite(x);
}

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
};

__device__ inline Reflector reflector_of(T first, T squares) {
    const T norm = root(squares), beta = first < 0 ? norm : -norm;
    return {beta, quotient_of(beta - first, beta), reciprocal(first - beta)};
}

/* From the multiprocessor's tables. What __dsqrt_rn(), __ddiv_rn() and __drcp_rn() put into the low word lets them
 * round right even where the result is almost a tie. */
__device__ inline double first_rsqrt(double x) {
    return __hiloint2double(__double2hiint(table_rsqrt(x)), __double2hiint(x) - 0x3500000);
}
__device__ inline double first_reciprocal(double x, bool divides) {
    return __hiloint2double(__double2hiint(table_reciprocal(x)), divides ? 1 : __double2hiint(x) + 0x300402);
}
__device__ inline float first_rsqrt(float x) { return table_rsqrt(x); }
__device__ inline float first_reciprocal(float x, bool) { return table_reciprocal(x); }
__device__ inline double half(double x) { return __hiloint2double(__double2hiint(x) - (1 << 20), __double2loint(x)); }
__device__ inline float half(float x) { return product(x, 0.5f); }

/* root(), reciprocal() and quotient_of() step by step, less what these do for numbers out of range: the same bits. */
__device__ inline T ordinary_root(T x) {
    T y = first_rsqrt(x);
    if (DOUBLE) {
        const T e = multiply_add(-product(y, y), x, T(1));
        y = multiply_add(multiply_add(e, T(0.375), T(0.5)), product(y, e), y);
    }
    const T near = product(y, x);
    return multiply_add(multiply_add(-near, near, x), half(y), near);
}
__device__ inline T ordinary_reciprocal(T x, bool divides = false) {
    T y = first_reciprocal(x, divides);
    if (DOUBLE) {
        const T e = multiply_add(-x, y, T(1));
        y = multiply_add(y, multiply_add(e, e, e), y);
    }
    return multiply_add(y, multiply_add(-x, y, T(1)), y);
}
__device__ inline T ordinary_quotient(T x, T y) {
    const T r = ordinary_reciprocal(y, true), near = product(x, r);
    return multiply_add(r, multiply_add(-y, near, x), near);
}

/* root(x) and reciprocal(x), whose steps go side by side where x is neither tiny nor huge. */
struct RootAndReciprocal {
    T root, reciprocal;
};
__device__ __noinline__ RootAndReciprocal slow_root_and_reciprocal(T x) { return {root(x), reciprocal(x)}; }
__device__ inline RootAndReciprocal root_and_reciprocal(T x) {
    constexpr unsigned LOW = DOUBLE ? (1023u - 450) << 20 : (127u - 60) << 23;
    constexpr unsigned HIGH = DOUBLE ? (1023u + 450) << 20 : (127u + 60) << 23;
    if (leading(x) - LOW < HIGH - LOW) return {ordinary_root(x), ordinary_reciprocal(x)};
    if (FEW) return {root(x), reciprocal(x)}; /* a call would take registers */
    return slow_root_and_reciprocal(x);
}

/* reflector_of() where is_ordinary() says so. */
__device__ inline Reflector ordinary_reflector_of(T first, T squares) {
    const T norm = ordinary_root(squares), sum = fabs(first) + norm;
    const T tau = ordinary_quotient(sum, norm), r = ordinary_reciprocal(sum);
    return first < 0 ? Reflector{norm, tau, -r} : Reflector{-norm, tau, r};
}

/* The sum of squares of x_1 .. x_count-1 in four parts, to which that of x_0 comes last. */
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
    return (s[0] + s[1]) + (s[2] + s[3]);
}

/* x becomes beta, v_1 .. v_count-1; the result is tau, 0 where there is nothing to annihilate. */
__device__ inline T make_reflector_here(T *x, int step, int count) {
    bool zero = true;
    EACH(int i = 1; i < count && zero; i++) zero = x[i * step] == 0;
    if (zero) return 0;
    T squares = multiply_add(x[0], x[0], sum_of_squares(x, step, count)), back = 1;
    if (squares < SQUARES_LOW || squares > SQUARES_HIGH) {
        const bool small = squares < SQUARES_LOW;
        EACH(int i = 0; i < count; i++) x[i * step] = product(x[i * step], small ? SCALE_UP : SCALE_DOWN);
        squares = multiply_add(x[0], x[0], sum_of_squares(x, step, count));
        back = small ? SCALE_DOWN : SCALE_UP;
    }
    const Reflector h = reflector_of(x[0], squares);
    EACH(int i = 1; i < count; i++) x[i * step] = product(x[i * step], h.r);
    x[0] = product(h.beta, back);
    return h.tau;
}
__device__ __noinline__ T make_reflector(T *x, int step, int count) { return make_reflector_here(x, step, count); }

/* make_reflector() by all lanes of a matrix, of x and tau in shared memory, or ALONE by each of what it has in
 * registers. */
template <bool ALONE = false> __device__ inline void make_reflector_together(T *x, int step, int count, T *tau) {
    const int own = ALONE ? 0 : lane();
    const T first = x[0], rest = sum_of_squares(x, step, count), squares = multiply_add(first, first, rest);
    if (!ALONE) sync_lanes();
    if (is_ordinary(rest, squares)) {
        const Reflector h = ordinary_reflector_of(first, squares);
        EACH(int i = 1 + own; i < count; i += ALONE ? 1 : LANES) x[i * step] = product(x[i * step], h.r);
        if (own == 0) x[0] = h.beta, *tau = h.tau;
    } else if (own == 0) {
        *tau = FEW || ALONE ? make_reflector_here(x, step, count) : make_reflector(x, step, count);
    }
    if (!ALONE) sync_lanes();
}

/* Of a loop over elements that are in memory at a time; all of them, where they are in registers. */
constexpr int TURNS = FEW ? 8 : 4;

/* x = H x in memory, of v_1 .. v_count-1. */
__device__ inline void reflect(const T *v, T tau, T *x, int step_v, int step, int count) {
    T w = x[0];
#pragma unroll TURNS
    for (int i = 1; i < count; i++) w = multiply_add(v[i * step_v], x[i * step], w);
    w = product(tau, w);
    x[0] = x[0] - w;
#pragma unroll TURNS
    for (int i = 1; i < count; i++) x[i * step] = multiply_add(-v[i * step_v], w, x[i * step]);
}

/* x = H x where x_0 is still zero, as column j > k of I when H_k comes: zeros have the signs of csrc/reference/qr.c. */
__device__ inline void reflect_from_zero(const T *v, T tau, T *x, int step_v, long long step, int count) {
    T w = count > 1 ? product(v[step_v], x[step]) : T(0);
#pragma unroll TURNS
    for (int i = 2; i < count; i++) w = multiply_add(v[i * step_v], x[i * step], w);
    w = product(tau, w);
    x[0] = -w;
#pragma unroll TURNS
    for (int i = 1; i < count; i++) x[i * step] = multiply_add(-v[i * step_v], w, x[i * step]);
}

/* Of H e_0 the first element, and that where v is. */
__device__ inline T first_of_unit(T tau) { return 1 - tau; }
__device__ inline T rest_of_unit(T tau, T v) { return product(-tau, v); }

/* A column of M numbers of an operand: it is made in its place or, where memory holds another type, aside, so that it
 * is rounded once. */
template <int M, class X = InMemory> struct ColumnOf {
    X *to;
    long long distance;
    T aside[CONVERTS ? M : 1];

    __device__ ColumnOf(X *first, long long step) : to(first), distance(step) {}
    __device__ auto data() { return either<CONVERTS>(aside, to); }
    __device__ long long step() const { return CONVERTS ? 1 : distance; }
    __device__ void finish() {
        if constexpr (CONVERTS)
            for (int i = 0; i < M; i++) to[i * distance] = aside[i];
    }
};
