/* eig.cuh: eigenvalues, eigenvectors, Schur forms and square roots (sqrtm.cuh) of general matrices, in the order of
 * operations of kernels/spectra/eig_hessenberg.h and kernels/spectra/eig_lanes.h: balancing, which the latter two lack,
 * Hessenberg form by Householder reflectors, QR, back substitution (LAPACK's gebal, gehrd, unghr, lahqr and trevc).
 * LANES threads work on a matrix, which take its columns and rows by turns; each finds eigenvectors of its own. Whoever
 * includes it has N, MATRICES and THREADS. */
#include "reflectors.cuh"

constexpr bool SCHUR = SMM_OP == SMM_OP_SCHUR, SQRTM = SMM_OP == SMM_OP_SQRTM, VECTORS = SMM_OP != SMM_OP_EIGVALS;
constexpr int WIDTH = COMPLEX ? 1 : 2; /* shifts of a sweep */
constexpr int BULGE = WIDTH + 1;

/* From row to row, and from number to number of a vector or row. Lanes have rows, or columns: either way in different
 * banks. Of matrices of a thread each neighbouring threads have neighbouring numbers. */
constexpr bool SPREAD = SMM_SPREAD;
constexpr int COL = SPREAD ? THREADS : 1, ROW = SPREAD ? N * THREADS : N | 1;
constexpr int AT_ONCE = SPREAD ? 4 : least(4, (N + LANES - 1) / LANES); /* rows or columns of a lane */
constexpr int TOGETHER = least(4, N);                                   /* rows of an eigenvector */

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
    Number u[N * ROW]; /* the complex triangle of a real matrix */
    T c[N], s[N];      /* and what turned the blocks */
};
struct Work : Turned<SQRTM && !COMPLEX> {
    Element h[N * ROW], z[VECTORS ? N * ROW : COL];
    Element v[N * COL], tau[N * COL];
    Element balance[N * COL]; /* real, as all that a thread has must be of one size */
    Element marked[N * COL];  /* not 0: row and column i are balanced; then, h_i,i-1 is negligible */
};
static_assert(SMM_SHARED == (FEW || OUTSIDE ? 0 : (SPREAD ? 1 : MATRICES) * sizeof(Work)), "the plan counts otherwise");

/* The last rows that are not yet triangular, or of a real matrix blocks of order 2. All lanes know them. */
struct Window {
    int lo, hi, since; /* sweeps since a row was done */
};

__device__ inline Number number_of(T x) { return {x, 0}; }
__device__ inline Number number_of(Number x) { return x; }
__device__ inline T larger(T x, T y) { return x > y ? x : y; }

/* x = x H, of a row; v_0 = 1. */
template <class X> __device__ inline void reflect_along(const X *v, X tau, X *x, int step_v, int step, int count) {
    X w = x[0];
    for (int j = 1; j < count; j++) w = multiply_add(x[j * step], v[j * step_v], w);
    w = product(w, tau);
    x[0] = difference_of(x[0], w);
    for (int j = 1; j < count; j++) x[j * step] = multiply_subtract(w, conjugate(v[j * step_v]), x[j * step]);
}

/* --- Balanced, in Hessenberg form --- */

/* Not balanced are rows and columns that a permutation would make the first or the last of a triangle. */
__device__ inline void find_joined(Work &x) {
    for (int i = lane(); i < N; i += LANES) x.marked[i * COL] = element_of(1);
    wait();
    for (bool again = true; again;) {
        again = false;
        EACH_STEP(int i = 0; i < N; i++) {
            const bool was = !is_zero(x.marked[i * COL]);
            bool above = true, beside = true; /* nothing is below the diagonal, or beside it */
            for (int j = lane(); j < N; j += LANES) {
                if (j == i || is_zero(x.marked[j * COL])) continue;
                above &= size_of(x.h[j * ROW + i * COL]) == 0;
                beside &= size_of(x.h[i * ROW + j * COL]) == 0;
            }
            above = true_in_all(above);
            beside = true_in_all(beside);
            if (!was || !(above || beside)) continue;
            if (lane() == 0) x.marked[i * COL] = element_of(0);
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
    if (is_zero(x.marked[i * COL]) || c == 0 || r == 0) return 1;
    T ratio = quotient_of(r, c);
    for (int step = 0; step < BALANCE_STEPS && ratio > 4 && product(was, f) < MOST_BALANCE; step++)
        ratio = product(T(0.0625), ratio), f = f + f;
    for (int step = 0; step < BALANCE_STEPS && ratio < T(0.25) && product(was, f) > LEAST_BALANCE; step++)
        ratio = product(T(16), ratio), f = product(T(0.5), f);
    if (f == 1) return 1;
    c = root(c), r = root(r);
    return product(T(0.95), c + r) > product(c, f) + product(r, reciprocal(f)) ? f : T(1);
}

__device__ inline void balance_row(Work &x, int i, T f) {
    const T back = reciprocal(f);
    wait();
    if (lane() == 0) x.balance[i * COL] = scaled(x.balance[i * COL], f);
    for (int j = lane(); j < N; j += LANES) x.h[i * ROW + j * COL] = scaled(x.h[i * ROW + j * COL], back);
    wait();
    for (int j = lane(); j < N; j += LANES) x.h[j * ROW + i * COL] = scaled(x.h[j * ROW + i * COL], f);
    wait();
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
    wait();
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

__device__ inline void to_hessenberg(Work &x) {
    EACH_STEP(int k = 0; k + 2 < N; k++) {
        const int count = N - k - 1;
        Element *const column = x.h + (k + 1) * ROW + k * COL, *const tau = x.tau + k * COL;
        for (int i = lane(); i < count; i += LANES) x.v[i * COL] = column[i * ROW];
        wait();
        make_reflector_together(x.v, COL, count, tau);
        for (int i = lane(); i < count; i += LANES) column[i * ROW] = x.v[i * COL];
        for (int j = lane(); j < count; j += LANES)
            reflect(x.v, conjugate(*tau), column + (1 + j) * COL, COL, ROW, count);
        wait();
        for (int i = lane(); i < N; i += LANES)
            reflect_along(x.v, *tau, x.h + i * ROW + (k + 1) * COL, COL, COL, count);
        wait();
    }
    for (int e = lane(); e < N * N && VECTORS; e += LANES) x.z[e / N * ROW + e % N * COL] = element_of(e / N == e % N);
    wait();
    for (int k = N - 3; k >= 0; k--) {
        const int count = N - k - 1;
        Element *const column = x.h + (k + 1) * ROW + k * COL;
        for (int j = lane(); j < count && VECTORS; j += LANES)
            reflect(column, x.tau[k * COL], x.z + (k + 1) * ROW + (k + 1 + j) * COL, ROW, ROW, count);
        wait();
        for (int i = 1 + lane(); i < count; i += LANES) column[i * ROW] = element_of(0);
    }
    wait();
}

/* --- QR --- */

/* Whether h_k,k-1 is negligible (Ahues and Tisseur, LAPACK Working Note 122). */
__device__ inline bool is_negligible(const Work &x, int k) {
    constexpr T LEAST = LEAST_NORMAL / UNIT, ULP = 2 * UNIT;
    const Element *const h = x.h + k * (ROW + COL), above = h[-ROW - COL], here = h[0];
    const T below = size_of(h[-COL]), right = size_of(h[-ROW]), d = size_of(here);
    if (!(below > LEAST)) return true;
    if (below > product(ULP, size_of(above) + d)) return false;
    const T apart = size_of(difference_of(above, here));
    const T ab = below > right ? below : right, ba = below > right ? right : below;
    const T aa = apart > d ? apart : d, bb = apart > d ? d : apart, s = aa + ab;
    const T left = product(ba, quotient_of(ab, s)), limit = product(ULP, product(bb, quotient_of(aa, s)));
    return !(left > larger(limit, LEAST));
}

/* False if there is none. */
__device__ inline bool find_window(Work &x, Window &y) {
    for (int k = lane(); k <= y.hi; k += LANES) x.marked[k * COL] = element_of(k == 0 || is_negligible(x, k));
    wait();
    EACH_STEP(int k = y.hi; k >= 0; k--) {
        if (is_zero(x.marked[k * COL])) continue;
        if (k && lane() == 0) x.h[k * ROW + (k - 1) * COL] = element_of(0);
        if (y.hi - k < WIDTH) {
            y.hi = k - 1;
            y.since = 0;
        } else {
            y.lo = k;
            y.since = (y.since + 1) % (2 * EXCEPTIONAL);
            return true;
        }
    }
    return false;
}

/* start_sweep(): the shifts of a sweep begin its bulge. finish(): what is left beside triangles, of real matrices two
 * real eigenvalues of a block of order 2. */
#if SMM_COMPLEX
#include "single_shift.cuh"
#else
#include "double_shift.cuh"
#endif

/* Rows begin .. end - 1 become x H, of `count` numbers; or columns H^H x. at(line, i) is number i of a line. */
template <bool ALONG, class At>
__device__ inline void reflect_lines(const Element *v, Element tau, int count, int begin, int end, At at) {
#pragma unroll 1
    for (int first = begin + lane(); first < end; first += AT_ONCE * LANES) {
        Element x[AT_ONCE][BULGE];
        const auto is_line = [&](int r) { return r == 0 || first + r * LANES < end; };
#pragma unroll
        for (int r = 0; r < AT_ONCE; r++)
            for (int i = 0; i < count; i++) x[r][i] = at(is_line(r) ? first + r * LANES : first, i);
#pragma unroll
        for (int r = 0; r < AT_ONCE; r++) {
            if (ALONG)
                reflect_along(v, tau, x[r], 1, 1, count);
            else
                reflect(v, conjugate(tau), x[r], 1, 1, count);
        }
#pragma unroll
        for (int r = 0; r < AT_ONCE; r++)
            for (int i = 0; i < count && is_line(r); i++) at(first + r * LANES, i) = x[r][i];
    }
}

/* Step k of a sweep, of so many rows. */
__device__ inline void chase_from(Work &x, const Window &y, const Element (&start)[BULGE], int k, int count) {
    const bool starts = k == y.lo;
    Element *const column = x.h + k * ROW + (k - 1) * COL, v[BULGE], tau;
    for (int i = 0; i < count; i++) v[i] = starts ? start[i] : column[i * ROW];
    make_reflector_together<true>(v, 1, count, &tau);
    reflect_lines<false>(v, tau, count, k, VECTORS ? N : y.hi + 1,
                         [&](int j, int i) -> Element & { return x.h[(k + i) * ROW + j * COL]; });
    wait();
    if (!starts && lane() == 0)
        for (int i = 0; i < count; i++) column[i * ROW] = i ? element_of(0) : v[0];
    reflect_lines<true>(v, tau, count, VECTORS ? 0 : y.lo, least(k + BULGE, y.hi) + 1,
                        [&](int j, int i) -> Element & { return x.h[j * ROW + (k + i) * COL]; });
    if (VECTORS)
        reflect_lines<true>(v, tau, count, 0, N,
                            [&](int j, int i) -> Element & { return x.z[j * ROW + (k + i) * COL]; });
    wait();
}

/* How many eigenvalues are not found when the matrix is given up. */
__device__ inline int triangularise(Work &x) {
    Window y = {0, N - 1, 0};
#pragma unroll 1
    for (int sweep = 0; find_window(x, y) && sweep < EIG_SWEEPS * most(N, EIG_LEAST_ROWS); sweep++) {
        Element start[BULGE];
        start_sweep(x, y, start);
        wait();
#pragma unroll 1
        for (int k = y.lo; k <= y.hi - WIDTH; k++) chase_from(x, y, start, k, BULGE);
        if (WIDTH > 1) chase_from(x, y, start, y.hi - 1, WIDTH);
    }
    const int info = y.hi + 1;
    wait();
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
    return !COMPLEX && i >= 0 && i + 1 < N && size_of(x.h[(i + 1) * ROW + i * COL]) != 0;
}

__device__ inline Number eigenvalue(const Work &x, int j) {
    Number w = number_of(x.h[j * (ROW + COL)]);
    const bool first = is_block(x, j);
    if (!first && !is_block(x, j - 1)) return w;
    const int top = first ? j : j - 1;
    const T b = real_of(x.h[top * ROW + (top + 1) * COL]), c = real_of(x.h[(top + 1) * ROW + top * COL]);
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
    const Number y_k = y[k];
    for (int i = 0; i < rows; i++) y[i] = multiply_subtract(x.h[i * ROW + k * COL], y_k, y[i]);
}

/* (T - w_j I) y = 0, T being H; the result is the last row of y that is not zero. */
__device__ inline int solve_column(const Work &x, int j, Number w, Number *y) {
    const T small = larger(product(2 * UNIT, size_of(w)), LEAST_DIVISOR);
    const bool first = is_block(x, j), second = is_block(x, j - 1);
    const int top = second ? j - 1 : j, last = first ? j + 1 : j;
    EACH(int i = 0; i < N; i++) y[i] = {0, 0};
    y[top] = {1, 0};
    if (first || second) {
        const T b = real_of(x.h[top * ROW + (top + 1) * COL]), c = real_of(x.h[(top + 1) * ROW + top * COL]),
                im = fabs(w.im);
        const bool by_b = !(fabs(b) < fabs(c));
        const T q = by_b ? quotient_of(im, b) : T(1);
        y[top] = {by_b ? T(1) : quotient_of(-im, c), 0};
        y[top + 1] = {0, w.im < 0 ? -q : q};
    }
    if (last > top) subtract_column(x, y, last, top);
    subtract_column(x, y, top, top);
    EACH_STEP(int i = top - 1; i >= 0; i--) {
        const int from = is_block(x, i - 1) ? i - 1 : i;
        const Number z = difference_of(number_of(x.h[from * (ROW + COL)]), w);
        if (from < i)
            solve_block(z, real_of(x.h[from * ROW + i * COL]), real_of(x.h[i * ROW + from * COL]), small, y + from);
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
#pragma unroll 1
    for (int first = 0; first < N; first += TOGETHER) {
        Number sum[TOGETHER];
#pragma unroll
        for (int r = 0; r < TOGETHER; r++) sum[r] = {0, 0};
        for (int k = 0; k <= last; k++) {
            const Number y_k = y[k];
#pragma unroll
            for (int r = 0; r < TOGETHER; r++)
                sum[r] = multiply_add(x.z[least(first + r, N - 1) * ROW + k * COL], y_k, sum[r]);
        }
#pragma unroll
        for (int r = 0; r < TOGETHER; r++) {
            const int i = first + r;
            if (i >= N) break;
            v[i] = scaled(sum[r], real_of(x.balance[i * COL]));
            const T square = multiply_add(v[i].im, v[i].im, product(v[i].re, v[i].re));
            squares = squares + square;
            if (square > most_square) most_square = square, largest = i;
        }
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
        to_t.put(i, j, good ? sum_of(scaled(x.h[i * ROW + j * COL], back), element_of(0)) : not_an_element());
        to_z.put(i, j, good ? sum_of(x.z[i * ROW + j * COL], element_of(0)) : not_an_element());
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
        x.h[e / N * ROW + e % N * COL] = y;
    }
    finite = meet(largest, finite);
    const T scale = finite ? scale_for(largest) : T(1), back = reciprocal(scale);
    int info = 0;
    if (finite) {
        EACH(int e = lane(); e < N * N && scale != 1; e += LANES)
            x.h[e / N * ROW + e % N * COL] = scaled(x.h[e / N * ROW + e % N * COL], scale);
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
