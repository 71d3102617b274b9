/* expm.cuh: e^A as ../../exponential.h and kernels/expm/expm_lanes.h have it. LANES threads work on a matrix, each on
 * some of its columns, or of a large matrix on rows of some columns. Products may take the place of their right factor.
 *
 * Whoever includes it has Elements (element.cuh). */
#include "exponential.h"

constexpr int N = SMM_N;
constexpr int OF_ROWS = COMPLEX ? N : 2 * N; /* two rows of numbers of type T, in elements */
constexpr int EXPM_ELEMENTS = elements_apart(6 * N * N + OF_ROWS, sizeof(Element));

struct Work {
    Element elements[EXPM_ELEMENTS];
    __device__ Element *matrix(int i) { return elements + i * N * N; }
    __device__ T *row(int i) { return reinterpret_cast<T *>(elements + 6 * N * N) + i * N; }
};

struct Exponential {
    Element *t1, *t2, *t4, *t6, *p, *q;
    double e, g, s;
};

/* C = A B; C may be B. Each lane has whole columns, so that A is read by all, and nothing else is. */
__device__ inline void multiply_columns(Element *c, const Element *a, const Element *b) {
    sync_lanes();
    for (int j = lane(); j < N; j += LANES) {
        Element column[N];
#pragma unroll
        for (int first = 0; first < N; first += 4) {
#pragma unroll
            for (int r = first; r < min_of(first + 4, N); r++) column[r] = product(a[r * N], b[j]);
#pragma unroll 1
            for (int k = 1; k < N; k++) {
                const Element y = b[k * N + j];
#pragma unroll
                for (int r = first; r < min_of(first + 4, N); r++) column[r] = multiply_add(a[r * N + k], y, column[r]);
            }
        }
#pragma unroll
        for (int i = 0; i < N; i++) c[i * N + j] = column[i];
    }
    sync_lanes();
}

/* The same by a block. Each lane has ROWS x COLS elements, spread over all rows of some columns: registers have a part
 * of C before that of B is overwritten. Elements are read in vectors, if these divide a row. */
constexpr int WIDEST_OF_ROW = 16 / sizeof(Element), WIDTH = N % WIDEST_OF_ROW ? 1 : WIDEST_OF_ROW;
constexpr int ACROSS = 16, DOWN = max_of(LANES / ACROSS, 1), ROWS = ceil_div(N, DOWN), COLS = COMPLEX ? 2 : 4;

struct alignas(WIDTH * sizeof(Element)) Run {
    Element x[WIDTH];
};

__device__ inline void multiply_tiles(Element *c, const Element *a, const Element *b) {
    const int down = lane() / ACROSS, side = lane() % ACROSS * WIDTH;
    const Element *line[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++) line[r] = a + min_of(down + r * DOWN, N - 1) * N;
#pragma unroll 1
    for (int first = side; first < N + side; first += ACROSS * COLS) {
        Element sum[ROWS][COLS];
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
            for (int j = 0; j < COLS; j++) sum[r][j] = negative(element_of(0)); /* which changes no first product */
        sync_lanes();
#pragma unroll(WIDTH > 1 ? 1 : 4)
        for (int k = 0; k < N; k += WIDTH) {
            Run x[ROWS];
#pragma unroll
            for (int r = 0; r < ROWS; r++) x[r] = *reinterpret_cast<const Run *>(line[r] + k);
#pragma unroll
            for (int e = 0; e < WIDTH; e++)
#pragma unroll
                for (int j = 0; j < COLS; j += WIDTH) {
                    const int col = min_of(first + j * ACROSS, N - WIDTH);
                    const Run y = *reinterpret_cast<const Run *>(b + (k + e) * N + col);
#pragma unroll
                    for (int r = 0; r < ROWS; r++)
#pragma unroll
                        for (int i = 0; i < WIDTH; i++) sum[r][j + i] = multiply_add(x[r].x[e], y.x[i], sum[r][j + i]);
                }
        }
        sync_lanes();
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
            for (int j = 0; j < COLS; j++) {
                const int row = down + r * DOWN, col = first + j / WIDTH * WIDTH * ACROSS + j % WIDTH;
                if (row < N && col < N) c[row * N + col] = sum[r][j];
            }
    }
    sync_lanes();
}

__device__ inline void multiply(Element *c, const Element *a, const Element *b) {
    if constexpr (BY_BLOCK)
        multiply_tiles(c, a, b);
    else
        multiply_columns(c, a, b);
}

/* The 1-norm; whether it is finite. */
__device__ inline bool measure(const Element *a, T &most) {
    bool finite = true;
    most = 0;
    for (int j = lane(); j < N; j += LANES) {
        T sum = 0;
        for (int i = 0; i < N; i++) sum = sum + size_of(a[i * N + j]);
        if (sum > most) most = sum;
        finite &= is_finite(sum);
    }
    return meet(most, finite);
}
__device__ inline T norm(const Element *a) {
    T most;
    measure(a, most);
    return most;
}

/* |abs(T)^k|, by a row of ones. */
__device__ inline T norm_of_power(Work &w, const Element *a, int k) {
    for (int j = lane(); j < N; j += LANES) w.row(0)[j] = 1;
    sync_lanes();
    for (int step = 0; step < k; step++) {
        const T *const from = w.row(step & 1);
        for (int j = lane(); j < N; j += LANES) {
            T sum = 0;
            for (int i = 0; i < N; i++) sum = multiply_add(from[i], size_of(a[i * N + j]), sum);
            w.row(~step & 1)[j] = sum;
        }
        sync_lanes();
    }
    T most = 0;
    for (int j = lane(); j < N; j += LANES)
        if (w.row(k & 1)[j] > most) most = w.row(k & 1)[j];
    meet(most, true);
    return most;
}

__device__ __noinline__ double squarings_of(double e, const smm_expm_norms &norms) {
    return smm_squarings_of(DOUBLE, e, &norms);
}

__device__ inline double find_squarings(Work &w, const Exponential &x, T size) {
    if (!(smm_max_squarings(DOUBLE, size) > 0)) return 0;
    smm_expm_norms norms = {size, norm(x.t1), norm(x.t6), 0, 0, 0};
    multiply(x.p, x.t4, x.t4);
    norms.t8 = norm(x.p);
    if (DOUBLE) {
        multiply(x.p, x.t6, x.t4);
        norms.t10 = norm(x.p);
    }
    norms.last = norm_of_power(w, x.t1, 2 * smm_pade_of(DOUBLE).degree + 1);
    return squarings_of(x.e, norms);
}

/* Coefficient k, of 2^(power g) T^power. */
__device__ inline T coefficient(const Exponential &x, int k, int power) {
    return static_cast<T>(smm_scaled(smm_pade_coefficient(DOUBLE, k), power * x.g));
}

/* Element (i, j) of b_k T^2 + b_(k + 2) T^4 + b_(k + 4) T^6. */
struct Powers {
    T b2, b4, b6;
    __device__ Powers(const Exponential &x, int k)
        : b2(coefficient(x, k, 2)), b4(coefficient(x, k + 2, 4)), b6(coefficient(x, k + 4, 6)) {}
    __device__ Element at(const Exponential &x, int e) const {
        return multiply_add(b6, x.t6[e], multiply_add(b4, x.t4[e], scaled(x.t2[e], b2)));
    }
};

/* A real number more, without a change of the sign of an imaginary zero. */
__device__ inline T plus(T x, T real) { return x + real; }
__device__ inline Complex plus(Complex x, T real) { return {x.re + real, x.im}; }

/* to = b_k I + b_(k + 2) 2^2g T^2 + ... */
__device__ inline void sum_even_powers(const Exponential &x, int k, Element *to) {
    const T growth = static_cast<T>(smm_scaled(1, 6 * x.g)), own = static_cast<T>(smm_pade_coefficient(DOUBLE, k));
    if (DOUBLE) {
        const Powers high(x, k + 8);
        for (int e = lane(); e < N * N; e += LANES) to[e] = high.at(x, e);
        multiply(to, x.t6, to);
    }
    const Powers low(x, k + 2);
    for (int e = lane(); e < N * N; e += LANES) {
        Element y = low.at(x, e);
        if (DOUBLE) y = multiply_add(growth, to[e], y);
        to[e] = e % (N + 1) ? y : plus(y, own);
    }
}

/* The row of the pivot of column k, which is the first of the largest; that of the diagonal, if that is NaN. */
__device__ inline int find_pivot(const Element *q, int k) {
    if constexpr (BY_BLOCK) {
        Sized found = {-1, N};
        for (int i = k + lane(); i < N; i += LANES) {
            const T size = size_of(q[i * N + k]);
            if (size > found.size) found = {size, i};
        }
        const int pivot = largest_of_all(found).place;
        return isnan(size_of(q[k * N + k])) ? k : pivot;
    } else {
        int pivot = k;
        T most = size_of(q[k * N + k]);
        for (int i = k + 1; i < N; i++) {
            const T size = size_of(q[i * N + k]);
            if (size > most) most = size, pivot = i;
        }
        return pivot;
    }
}

/* P becomes Q^-1 P: elimination with partial pivoting. Of a block each warp has some of the rows; else each lane has
 * all rows of its columns. */
__device__ inline void divide(const Exponential &x) {
    constexpr int BESIDE = LANES_OF_WARP, WARPS = LANES / BESIDE; /* columns at a time, rows at a time */
    Element *const q = x.q, *const p = x.p;
    const int warp = lane() / BESIDE, side = lane() % BESIDE;
#pragma unroll 1
    for (int k = 0; k < N; k++) {
        sync_lanes();
        const int pivot = find_pivot(q, k);
        sync_lanes();
        for (int j = lane(); j < N && pivot != k; j += LANES) {
            swap(q[k * N + j], q[pivot * N + j]);
            swap(p[k * N + j], p[pivot * N + j]);
        }
        sync_lanes();
        const Element back = quotient_of(element_of(1), q[k * N + k]);
        for (int i = k + 1 + warp; i < N; i += WARPS) {
            const Element l = product(q[i * N + k], back);
            for (int j = side; j < N; j += BESIDE) {
                if (j > k) q[i * N + j] = multiply_subtract(l, q[k * N + j], q[i * N + j]);
                p[i * N + j] = multiply_subtract(l, p[k * N + j], p[i * N + j]);
            }
        }
    }
    sync_lanes();
#pragma unroll 1
    for (int k = N - 1; k >= 0; k--) {
        const Element back = quotient_of(element_of(1), q[k * N + k]);
        for (int j = lane(); j < N; j += LANES) p[k * N + j] = product(p[k * N + j], back);
        if (BY_BLOCK) sync_lanes();
        for (int i = warp; i < k; i += WARPS)
            for (int j = side; j < N; j += BESIDE)
                p[i * N + j] = multiply_subtract(q[i * N + k], p[k * N + j], p[i * N + j]);
        if (BY_BLOCK) sync_lanes();
    }
    sync_lanes();
}

/* P = e^(A / 2^s) */
__device__ inline void approximate(const Exponential &x, bool is_small) {
    const T growth = static_cast<T>(smm_scaled(1, x.g));
    sum_even_powers(x, 1, x.q);
    sum_even_powers(x, 0, x.p);
    multiply(x.q, x.t1, x.q);
    for (int e = lane(); e < N * N; e += LANES) {
        const Element u = scaled(x.q[e], growth), v = x.p[e];
        x.q[e] = difference_of(v, u);
        x.p[e] = sum_of(u, is_small ? u : v);
    }
    divide(x);
    for (int j = lane(); j < N && is_small; j += LANES) x.p[j * (N + 1)] = plus(x.p[j * (N + 1)], 1);
}

/* --- triangular matrices --- */

__device__ inline bool is_triangular(const Element *a, bool lower) {
    bool zero = true;
    T nothing = 0;
    for (int j = lane(); j < N; j += LANES)
        for (int i = lower ? 0 : j + 1; i < (lower ? j : N); i++) zero &= is_zero(a[i * N + j]);
    return meet(nothing, zero);
}

__device__ inline smm_parts parts_of(T x) { return {x, 0}; }
__device__ inline smm_parts parts_of(Complex x) { return {x.re, x.im}; }
__device__ inline smm_parts parts_of(Element x, double exponent) {
    const smm_parts y = parts_of(x);
    return {smm_scaled(y.re, exponent), smm_scaled(y.im, exponent)};
}
__device__ inline void put_parts(T &to, smm_parts x) { to = static_cast<T>(x.re); }
__device__ inline void put_parts(Complex &to, smm_parts x) { to = {static_cast<T>(x.re), static_cast<T>(x.im)}; }

/* P, the exponential of a triangular A / 2^left, gets the diagonal and what is beside it exactly, and zeros on the
 * other side: row i, or of a lower triangle column i. */
__device__ __noinline__ void correct(const Element *t1, Element *p, double exponent, bool lower) {
    const int along = lower ? N : 1, across = lower ? 1 : N;
    sync_lanes();
    for (int i = lane(); i < N; i += LANES) {
        const int own = i * (N + 1);
        const smm_parts here = parts_of(t1[own], exponent);
        put_parts(p[own], smm_exp_of_parts(COMPLEX, here));
        for (int j = 0; j < i; j++) p[i * across + j * along] = element_of(0);
        if (i + 1 == N) continue;
        const smm_parts there = parts_of(t1[own + N + 1], exponent), a = parts_of(t1[own + along], exponent);
        put_parts(p[own + along], smm_exp_beside(COMPLEX, a, here, there));
    }
    sync_lanes();
}

/* --- all of it --- */

template <class FROM, class TO> __device__ inline void expm(Work &w, FROM from, TO to) {
    Exponential x = {w.matrix(0), w.matrix(1), w.matrix(2), w.matrix(3), w.matrix(4), w.matrix(5), 0, 0, 0};
    for (int e = lane(); e < N * N; e += LANES) x.t1[e] = from.get(e / N, e % N);
    sync_lanes();
    T size;
    const bool finite = measure(x.t1, size);
    if (finite) {
        x.e = smm_scaling_exponent(DOUBLE, size);
        const T back = static_cast<T>(smm_scaled(1, -x.e));
        sync_lanes();
        for (int e = lane(); e < N * N && x.e > 0; e += LANES) x.t1[e] = scaled(x.t1[e], back);
        multiply(x.t2, x.t1, x.t1);
        multiply(x.t4, x.t2, x.t2);
        multiply(x.t6, x.t4, x.t2);
        x.s = find_squarings(w, x, size);
        x.g = x.e - x.s;
        const bool upper = is_triangular(x.t1, false), lower = is_triangular(x.t1, true);
        approximate(x, !(size > 1));
        Element *p = x.p, *next = x.t2;
        for (double left = x.s;; left--) {
            if (upper) correct(x.t1, p, x.e - left, false);
            if (lower) correct(x.t1, p, x.e - left, true);
            if (!(left > 0)) break;
            multiply(next, p, p);
            Element *const was = p;
            p = next;
            next = was;
        }
        x.p = p;
    }
    sync_lanes();
    for (int e = lane(); e < N * N; e += LANES) to.put(e / N, e % N, finite ? x.p[e] : not_an_element());
}
