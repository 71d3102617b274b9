/* eig.cuh: eigenvalues, eigenvectors, Schur forms and square roots (sqrtm.cuh) of general matrices, in the order of
 * operations of kernels/spectra/eig_hessenberg.h and kernels/spectra/eig_lanes.h: balancing, which the latter two lack,
 * Hessenberg form by Householder reflectors, QR, back substitution (LAPACK's gebal, gehrd, unghr, lahqr and trevc).
 * LANES threads work on a matrix, which take its columns and rows by turns; each finds eigenvectors of its own. Whoever
 * includes it has N, MATRICES and THREADS. */
#include "reflectors.cuh"

constexpr bool SCHUR = SMM_OP == SMM_OP_SCHUR, SQRTM = SMM_OP == SMM_OP_SQRTM, VECTORS = SMM_OP != SMM_OP_EIGVALS;
constexpr int PITCH = N | 1;           /* lanes have rows, or columns: either way in different banks */
constexpr int WIDTH = COMPLEX ? 1 : 2; /* shifts of a sweep */
constexpr int BULGE = WIDTH + 1;

/* As in csrc/kernels/spectra/eig_hessenberg.h and eig_lanes.h. */
constexpr int BALANCE_PASSES = 20, BALANCE_STEPS = 64, EIG_SWEEPS = 30, EIG_LEAST_ROWS = 10, EXCEPTIONAL = 10;
constexpr T MOST_BALANCE = static_cast<T>(DOUBLE ? 0x1p300 : 0x1p30);
constexpr T LEAST_BALANCE = static_cast<T>(DOUBLE ? 0x1p-300 : 0x1p-30);
constexpr T BALANCE_UNIT = static_cast<T>(DOUBLE ? 0x1p300 : 0x1p35);
constexpr T LEAST_DIVISOR = static_cast<T>(DOUBLE ? 0x1p-400 : 0x1p-50);
constexpr T MOST_COMPONENT = static_cast<T>(DOUBLE ? 0x1p100 : 0x1p20);
constexpr T UNIT = static_cast<T>(DOUBLE ? 0x1p-53 : 0x1p-24);
constexpr T LEAST_NORMAL = static_cast<T>(DOUBLE ? 0x1p-1022 : 0x1p-126);

template <bool HAS> struct Turned {};
template <> struct Turned<true> {
    Number u[N * PITCH]; /* the complex triangle of a real matrix */
    T c[N], s[N];        /* and what turned the blocks */
};
struct Work : Turned<SQRTM && !COMPLEX> {
    Element h[N * PITCH], z[N * PITCH];
    Element v[most(N, 3)], tau[N];
    T balance[N];
    int joined[N];            /* whether row and column i are balanced */
    int lo, hi, since, found; /* the window at work; sweeps since a row was done; whether there is a window */
};
static_assert(SMM_SHARED == (FEW || OUTSIDE ? 0 : MATRICES * sizeof(Work)), "the plan counts otherwise");

__device__ inline Number number_of(T x) { return {x, 0}; }
__device__ inline Number number_of(Number x) { return x; }
__device__ inline T larger(T x, T y) { return x > y ? x : y; }

/* x = x H, of a row; v_0 = 1. */
template <class X> __device__ inline void reflect_along(const X *v, X tau, X *x, int count) {
    X w = x[0];
    for (int j = 1; j < count; j++) w = multiply_add(x[j], v[j], w);
    w = product(w, tau);
    x[0] = difference_of(x[0], w);
    for (int j = 1; j < count; j++) x[j] = multiply_subtract(w, conjugate(v[j]), x[j]);
}

/* --- Balanced, in Hessenberg form --- */

/* Not balanced are rows and columns that a permutation would make the first or the last of a triangle. */
__device__ inline void find_joined(Work &x) {
    for (int i = lane(); i < N; i += LANES) x.joined[i] = true;
    wait();
    for (bool again = true; again;) {
        again = false;
        EACH_STEP(int i = 0; i < N; i++) {
            const bool was = x.joined[i];
            bool above = true, beside = true; /* nothing is below the diagonal, or beside it */
            for (int j = lane(); j < N; j += LANES) {
                if (j == i || !x.joined[j]) continue;
                above &= size_of(x.h[j * PITCH + i]) == 0;
                beside &= size_of(x.h[i * PITCH + j]) == 0;
            }
            above = true_in_all(above);
            beside = true_in_all(beside);
            if (!was || !(above || beside)) continue;
            if (lane() == 0) x.joined[i] = false;
            wait();
            again = true;
        }
    }
}

__device__ inline T add_squares(T x, T sum) {
    const T y = product(x, BALANCE_UNIT);
    return multiply_add(y, y, sum);
}
__device__ inline T add_squares(Number x, T sum) { return add_squares(x.im, add_squares(x.re, sum)); }

/* A power of two that makes the 2-norms of row i and of column i about equal; whether there is need. Diagonals count,
 * and rows that are not joined (James, Langou and Lowery, On Matrix Balancing and Eigenvector Computation, 2014). */
__device__ inline bool balance_row(Work &x, int i) {
    T c = 0, r = 0, f = 1;
    EACH(int j = 0; j < N; j++) {
        c = add_squares(x.h[j * PITCH + i], c);
        r = add_squares(x.h[i * PITCH + j], r);
    }
    const T was = x.balance[i];
    wait();
    if (!x.joined[i] || c == 0 || r == 0) return false;
    T ratio = quotient_of(r, c);
    for (int step = 0; step < BALANCE_STEPS && ratio > 4 && product(was, f) < MOST_BALANCE; step++)
        ratio = product(T(0.0625), ratio), f = f + f;
    for (int step = 0; step < BALANCE_STEPS && ratio < T(0.25) && product(was, f) > LEAST_BALANCE; step++)
        ratio = product(T(16), ratio), f = product(T(0.5), f);
    if (f == 1) return false;
    const T back = reciprocal(f);
    c = root(c), r = root(r);
    if (!(product(T(0.95), c + r) > product(c, f) + product(r, back))) return false;
    if (lane() == 0) x.balance[i] = product(was, f);
    for (int j = lane(); j < N; j += LANES) x.h[i * PITCH + j] = scaled(x.h[i * PITCH + j], back);
    wait();
    for (int j = lane(); j < N; j += LANES) x.h[j * PITCH + i] = scaled(x.h[j * PITCH + i], f);
    wait();
    return true;
}

__device__ inline void balance(Work &x) {
    for (int i = lane(); i < N; i += LANES) x.balance[i] = 1;
    wait();
    find_joined(x);
    bool again = true;
    for (int pass = 0; pass < BALANCE_PASSES && again; pass++) {
        again = false;
        EACH_STEP(int i = 0; i < N; i++) again |= balance_row(x, i);
    }
}

__device__ inline void to_hessenberg(Work &x) {
    EACH_STEP(int k = 0; k + 2 < N; k++) {
        const int count = N - k - 1;
        Element *const column = x.h + (k + 1) * PITCH + k;
        for (int i = lane(); i < count; i += LANES) x.v[i] = column[i * PITCH];
        wait();
        make_reflector_together(x.v, 1, count, x.tau + k);
        for (int i = lane(); i < count; i += LANES) column[i * PITCH] = x.v[i];
        for (int j = lane(); j < count; j += LANES) reflect(x.v, conjugate(x.tau[k]), column + 1 + j, 1, PITCH, count);
        wait();
        for (int i = lane(); i < N; i += LANES) reflect_along(x.v, x.tau[k], x.h + i * PITCH + k + 1, count);
        wait();
    }
    for (int e = lane(); e < N * N && VECTORS; e += LANES) x.z[e / N * PITCH + e % N] = element_of(e / N == e % N);
    wait();
    for (int k = N - 3; k >= 0; k--) {
        const int count = N - k - 1;
        Element *const column = x.h + (k + 1) * PITCH + k;
        for (int j = lane(); j < count && VECTORS; j += LANES)
            reflect(column, x.tau[k], x.z + (k + 1) * PITCH + k + 1 + j, PITCH, PITCH, count);
        wait();
        for (int i = 1 + lane(); i < count; i += LANES) column[i * PITCH] = element_of(0);
    }
    wait();
}

/* --- QR --- */

/* Whether h_k,k-1 is negligible (Ahues and Tisseur, LAPACK Working Note 122). */
__device__ inline bool is_negligible(const Work &x, int k) {
    constexpr T LEAST = LEAST_NORMAL / UNIT, ULP = 2 * UNIT;
    const Element *const h = x.h + k * PITCH + k, above = h[-PITCH - 1], here = h[0];
    const T below = size_of(h[-1]), right = size_of(h[-PITCH]), d = size_of(here);
    if (!(below > LEAST)) return true;
    if (below > product(ULP, size_of(above) + d)) return false;
    const T apart = size_of(difference_of(above, here));
    const T ab = below > right ? below : right, ba = below > right ? right : below;
    const T aa = apart > d ? apart : d, bb = apart > d ? d : apart, s = aa + ab;
    const T left = product(ba, quotient_of(ab, s)), limit = product(ULP, product(bb, quotient_of(aa, s)));
    return !(left > larger(limit, LEAST));
}

/* By one thread: the last rows that are not yet triangular, or of a real matrix blocks of order 2. */
__device__ inline bool find_window(Work &x) {
    EACH_STEP(int k = x.hi; k >= 0; k--) {
        if (k && !is_negligible(x, k)) continue;
        if (k) x.h[k * PITCH + k - 1] = element_of(0);
        if (x.hi - k < WIDTH) {
            x.hi = k - 1;
            x.since = 0;
        } else {
            x.lo = k;
            x.since = (x.since + 1) % (2 * EXCEPTIONAL);
            return true;
        }
    }
    return false;
}

/* start_sweep(), by one thread: the shifts of a sweep begin its bulge in v. finish(): what is left beside triangles, of
 * real matrices two real eigenvalues of a block of order 2. */
#if SMM_COMPLEX
#include "single_shift.cuh"
#else
#include "double_shift.cuh"
#endif

__device__ inline void chase(Work &x) {
    const int lo = x.lo, hi = x.hi;
    EACH_STEP(int k = lo; k < hi; k++) {
        const int count = least(BULGE, hi - k + 1);
        if (k > lo && lane() == 0)
            for (int i = 0; i < count; i++) x.v[i] = x.h[(k + i) * PITCH + k - 1];
        wait();
        make_reflector_together(x.v, 1, count, x.tau);
        const Element tau = x.tau[0];
        if (k > lo && lane() == 0)
            for (int i = 0; i < count; i++) x.h[(k + i) * PITCH + k - 1] = i ? element_of(0) : x.v[0];
        EACH_STEP(int j = k + lane(); j < N; j += LANES)
            reflect(x.v, conjugate(tau), x.h + k * PITCH + j, 1, PITCH, count);
        wait();
        EACH_STEP(int i = lane(); i <= least(k + BULGE, hi); i += LANES)
            reflect_along(x.v, tau, x.h + i * PITCH + k, count);
        EACH_STEP(int i = lane(); i < N && VECTORS; i += LANES) reflect_along(x.v, tau, x.z + i * PITCH + k, count);
        wait();
    }
}

/* How many eigenvalues are not found when the matrix is given up. */
__device__ inline int triangularise(Work &x) {
    if (lane() == 0) x.hi = N - 1, x.since = 0;
    for (int sweep = 0;; sweep++) {
        if (lane() == 0) {
            x.found = find_window(x) && sweep < EIG_SWEEPS * most(N, EIG_LEAST_ROWS);
            if (x.found) start_sweep(x);
        }
        wait();
        if (!x.found) break;
        chase(x);
    }
    const int info = x.hi + 1;
    if (!info) finish(x);
    return info;
}

/* --- Eigenvectors --- */

__device__ inline Number divided(Number x, Number d) {
    return scaled(product(x, conjugate(d)), reciprocal(multiply_add(d.im, d.im, product(d.re, d.re))));
}
__device__ inline Number enough(Number d, T least) { return size_of(d) < least ? Number{least, 0} : d; }

/* Rows i and i + 1 are a block of conjugate eigenvalues. */
__device__ inline bool is_block(const Work &x, int i) {
    return !COMPLEX && i >= 0 && i + 1 < N && size_of(x.h[(i + 1) * PITCH + i]) != 0;
}

__device__ inline Number eigenvalue(const Work &x, int j) {
    Number w = number_of(x.h[j * PITCH + j]);
    const bool first = is_block(x, j);
    if (!first && !is_block(x, j - 1)) return w;
    const int top = first ? j : j - 1;
    const T b = real_of(x.h[top * PITCH + top + 1]), c = real_of(x.h[(top + 1) * PITCH + top]);
    const T im = product(root(fabs(b)), root(fabs(c)));
    w.im = first ? im : -im;
    return w;
}

/* (z b; c z) y = r, by elimination with the largest element as the pivot. */
__device__ inline void solve_block(Number z, T b, T c, T least, Number *r) {
    const T size = size_of(z);
    const bool wider = fabs(b) > fabs(c), off = larger(fabs(b), fabs(c)) > size;
    const bool by_row = off && !wider, by_column = off && wider;
    const Number at_b = {b, 0}, at_c = {c, 0};
    const Number p = enough(by_row ? at_c : by_column ? at_b : z, least), q = off ? z : at_b, s = off ? z : at_c;
    const Number u = by_row ? at_b : by_column ? at_c : z, r1 = by_row ? r[1] : r[0], r2 = by_row ? r[0] : r[1];
    const Number l = divided(s, p), left = enough(multiply_subtract(l, q, u), least);
    const Number y2 = divided(multiply_subtract(l, r1, r2), left);
    const Number y1 = divided(multiply_subtract(q, y2, r1), p);
    r[0] = by_column ? y2 : y1;
    r[1] = by_column ? y1 : y2;
}

__device__ inline void subtract_column(const Work &x, Number *y, int k, int rows) {
    for (int i = 0; i < rows; i++) y[i] = multiply_subtract(x.h[i * PITCH + k], y[k], y[i]);
}

/* (T - w_j I) y = 0, T being H; the result is the last row of y that is not zero. */
__device__ inline int solve_column(const Work &x, int j, Number w, Number *y) {
    const T small = larger(product(2 * UNIT, size_of(w)), LEAST_DIVISOR);
    const bool first = is_block(x, j), second = is_block(x, j - 1);
    const int top = second ? j - 1 : j, last = first ? j + 1 : j;
    EACH(int i = 0; i < N; i++) y[i] = {0, 0};
    y[top] = {1, 0};
    if (first || second) {
        const T b = real_of(x.h[top * PITCH + top + 1]), c = real_of(x.h[(top + 1) * PITCH + top]), im = fabs(w.im);
        const bool by_b = !(fabs(b) < fabs(c));
        const T q = by_b ? quotient_of(im, b) : T(1);
        y[top] = {by_b ? T(1) : quotient_of(-im, c), 0};
        y[top + 1] = {0, w.im < 0 ? -q : q};
    }
    if (last > top) subtract_column(x, y, last, top);
    subtract_column(x, y, top, top);
    EACH_STEP(int i = top - 1; i >= 0; i--) {
        const int from = is_block(x, i - 1) ? i - 1 : i;
        const Number z = difference_of(number_of(x.h[from * PITCH + from]), w);
        if (from < i)
            solve_block(z, real_of(x.h[from * PITCH + i]), real_of(x.h[i * PITCH + from]), small, y + from);
        else
            y[i] = divided(y[i], enough(z, small));
        for (int k = from; k <= i; k++) {
            const T size = size_of(y[k]);
            if (!(size > MOST_COMPONENT)) continue;
            const T back = reciprocal(size);
            for (int s = 0; s <= last; s++) y[s] = scaled(y[s], back);
        }
        for (int k = from; k <= i; k++) subtract_column(x, y, k, from);
        i = from;
    }
    return last;
}

/* Column j of V = D Z Y, of norm 1, its largest component, the first of equals, real and positive. Zeros are positive.
 */
template <class TO> __device__ inline void give_vector(const Work &x, int j, Number w, TO to) {
    Number y[N], v[N];
    const int last = solve_column(x, j, w, y);
    T squares = 0, most_square = 0;
    int largest = 0;
    EACH_STEP(int i = 0; i < N; i++) {
        Number sum = {0, 0};
        for (int k = 0; k <= last; k++) sum = multiply_add(x.z[i * PITCH + k], y[k], sum);
        v[i] = scaled(sum, x.balance[i]);
        const T square = multiply_add(v[i].im, v[i].im, product(v[i].re, v[i].re));
        squares = squares + square;
        if (square > most_square) most_square = square, largest = i;
    }
    const T size = root(most_square), back = reciprocal(root(squares));
    const Number turn = scaled(Number{quotient_of(v[largest].re, size), quotient_of(-v[largest].im, size)}, back);
    EACH(int i = 0; i < N; i++) {
        const Number u = i == largest ? Number{product(size, back), 0} : product(v[i], turn);
        to(i, Number{u.re + T(0), u.im + T(0)});
    }
}

static_assert(static_cast<int>(SMM_EIG_w) == static_cast<int>(SMM_EIGVALS_w), "EIGVALS has the w of EIG");

__device__ inline void give_eigenvalues(const Work &x, const smm_cuda_args &args, long long q, T back, bool good) {
    const smm_cuda_operand &d = args.operand[SMM_EIG_w];
    Number *const to_w = static_cast<Number *>(d.data) + offset_of(args, d, q);
    for (int j = lane(); j < N; j += LANES) {
        const Number w = good ? eigenvalue(x, j) : Number{0, 0}, value = scaled(w, back);
        to_w[j * d.row] = good ? Number{value.re + T(0), value.im + T(0)} : not_a_complex_number();
        if constexpr (VECTORS) {
            const smm_cuda_operand &v = args.operand[SMM_EIG_v];
            Number *const to_v = static_cast<Number *>(v.data) + offset_of(args, v, q) + j * v.col;
            if (good)
                give_vector(x, j, w, [&](int i, Number y) { to_v[i * v.row] = y; });
            else
                EACH(int i = 0; i < N; i++) to_v[i * v.row] = not_a_complex_number();
        }
    }
}

/* A = Z T Z^H, T being H. Zeros are positive. */
__device__ inline void give_factors(const Work &x, const smm_cuda_args &args, long long q, T back, bool good) {
    const Place<false, Stored> to_t(args, SMM_SCHUR_t, q), to_z(args, SMM_SCHUR_z, q);
    EACH(int e = lane(); e < N * N; e += LANES) {
        const int i = e / N, j = e % N;
        to_t.put(i, j, good ? sum_of(scaled(x.h[i * PITCH + j], back), element_of(0)) : not_an_element());
        to_z.put(i, j, good ? sum_of(x.z[i * PITCH + j], element_of(0)) : not_an_element());
    }
}

#include "sqrtm.cuh"

/* Matrix q, whose elements `from` gives. */
template <class FROM> __device__ inline void run(Work &x, const smm_cuda_args &args, long long q, FROM from) {
    const smm_cuda_operand &infos = args.operand[SMM_INFO];
    T largest = 0;
    bool finite = true;
    EACH(int e = lane(); e < N * N; e += LANES) {
        const Element y = from(e / N, e % N);
        finite &= measure(y, largest);
        x.h[e / N * PITCH + e % N] = y;
    }
    finite = meet(largest, finite);
    const T scale = finite ? scale_for(largest) : T(1), back = reciprocal(scale);
    int info = 0;
    if (finite) {
        EACH(int e = lane(); e < N * N && scale != 1; e += LANES)
            x.h[e / N * PITCH + e % N] = scaled(x.h[e / N * PITCH + e % N], scale);
        wait();
        if constexpr (!SCHUR && !SQRTM) balance(x);
        to_hessenberg(x);
        info = triangularise(x);
    }
    const bool good = finite && !info;
    if constexpr (SCHUR)
        give_factors(x, args, q, back, good);
    else if constexpr (SQRTM)
        info += give_root(x, args, q, back, good);
    else
        give_eigenvalues(x, args, q, back, good);
    if (lane() == 0 && infos.data) static_cast<int *>(infos.data)[offset_of(args, infos, q)] = info;
}
