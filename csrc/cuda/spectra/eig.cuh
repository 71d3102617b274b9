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
constexpr int OWN = ceil_div(N, LANES);                                        /* rows or columns of a lane */
constexpr int AT_ONCE = SPREAD ? ceil_div(N, ceil_div(N, 5)) : min_of(4, OWN); /* those that go together */
constexpr int TOGETHER = min_of(4, N);                                         /* rows of an eigenvector */

/* As in csrc/kernels/spectra/eig_hessenberg.h and eig_lanes.h. */
constexpr int EIG_SWEEPS = 30, EIG_MIN_ROWS = 10, EXCEPTIONAL = 10;
constexpr int MOST_SWEEPS = EIG_SWEEPS * max_of(N, EIG_MIN_ROWS);
constexpr T MIN_DIVISOR = static_cast<T>(DOUBLE ? 0x1p-400 : 0x1p-50);
constexpr T MAX_COMPONENT = static_cast<T>(DOUBLE ? 0x1p100 : 0x1p20);
constexpr T UNIT = static_cast<T>(DOUBLE ? 0x1p-53 : 0x1p-24);
constexpr T MIN_NORMAL = static_cast<T>(DOUBLE ? 0x1p-1022 : 0x1p-126);

template <bool HAS> struct Rotated {};
template <> struct Rotated<true> {
    Complex u[N * ROW]; /* the complex triangle of a real matrix */
    T c[N], s[N];       /* and what rotated the blocks */
};

/* Lanes that have rows of a large Z keep it in memory of the device, by columns: a sweep reaches it when it is over,
 * and shared memory has room for twice as many matrices. */
constexpr int MIN_ASIDE = 1536; /* bytes; smaller ones would take longer (H200, November 2026) */
constexpr bool IS_LARGE = N * N * sizeof(Element) >= MIN_ASIDE && N <= 32;
constexpr bool ASIDE = VECTORS && !SQRTM && LANES > 1 && IS_LARGE && !OUTSIDE;
constexpr int Z_ROW = ASIDE ? 1 : ROW, Z_COL = ASIDE ? N : COL;
struct Bulge {
    Element v[WIDTH], tau; /* v_0 = 1 is left out */
};
struct Work : Rotated<SQRTM && !COMPLEX> {
    Element h[N * ROW], inner_z[VECTORS && !ASIDE ? N * ROW : COL];
    Element balance[N * COL]; /* real, as all that a thread has must be of one size */
    union {
        Element joined[N * COL]; /* not 0: row and column i are balanced */
        Element tau[N * COL];
        Bulge sweep[ASIDE ? N : 1];
    };
};

/* So far apart that neighbouring matrices lie in different banks. */
union WorkApart {
    Work x;
    Element elements[elements_apart(sizeof(Work) / sizeof(Element), sizeof(Element))];
};
constexpr int BYTES = SPREAD ? sizeof(Work) : MATRICES * sizeof(WorkApart);
static_assert(SMM_SHARED == (FEW || OUTSIDE ? 0 : BYTES), "the plan counts otherwise");

/* The last rows that are not yet triangular, or of a real matrix blocks of order 2. All lanes know them. */
struct Window {
    int lo, hi, since; /* sweeps since a row was done */
};

__device__ inline Complex number_of(T x) { return {x, 0}; }
__device__ inline Complex number_of(Complex x) { return x; }
__device__ inline T larger(T x, T y) { return x > y ? x : y; }

#include "hessenberg.cuh"

/* --- QR --- */

/* Whether h_k,k-1 is negligible (Ahues and Tisseur, LAPACK Working Note 122). Where most sweeps were in vain it is so
 * beside what is not on the diagonal, too, which may be as good as zero. */
__device__ inline bool is_negligible(const Work &x, int k, bool in_vain) {
    constexpr T MIN = MIN_NORMAL / UNIT, ULP = 2 * UNIT;
    const Element *const h = x.h + k * (ROW + COL), above = h[-ROW - COL], here = h[0];
    const T below = size_of(h[-COL]), right = size_of(h[-ROW]), d = size_of(here);
    if (!(below > MIN)) return true;
    T beside = size_of(above) + d;
    if (in_vain) {
        beside += right;
        if (k > 1) beside += size_of(h[-ROW - 2 * COL]);
        if (k + 1 < N) beside += size_of(h[ROW]);
    }
    if (below > product(ULP, beside)) return false;
    if (in_vain) return true;
    const T apart = size_of(difference_of(above, here));
    const T ab = below > right ? below : right, ba = below > right ? right : below;
    const T aa = apart > d ? apart : d, bb = apart > d ? d : apart, s = aa + ab;
    const T left = product(ba, quotient_of(ab, s)), limit = product(ULP, product(bb, quotient_of(aa, s)));
    return !(left > larger(limit, MIN));
}

/* False if there is none. Lanes look at rows of their own. */
__device__ inline bool find_window(Work &x, Window &y, bool in_vain) {
#pragma unroll 1
    while (y.hi >= 0) {
        int k = lane() > y.hi ? 0 : y.hi - (y.hi - lane()) % LANES;
#pragma unroll 1
        while (k > 0 && !is_negligible(x, k, in_vain)) k = max_of(k - LANES, 0);
        k = static_cast<int>(largest_of_all({static_cast<T>(k), 0}).size);
        if (in_vain) sync_lanes(); /* others have read neighbours, and are to read this one */
        if (k && lane() == 0) x.h[k * ROW + (k - 1) * COL] = element_of(0);
        if (in_vain) sync_lanes();
        y.lo = k;
        if (y.hi - k >= WIDTH) {
            y.since = (y.since + 1) % (2 * EXCEPTIONAL);
            return true;
        }
        y.hi = k - 1;
        y.since = 0;
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

/* Step k of a sweep, of so many rows. */
__device__ inline void chase_from(Work &x, Element *z, const Window &y, const Element (&start)[BULGE], int k,
                                  int count) {
    const bool starts = k == y.lo;
    Element *const column = x.h + k * ROW + (k - 1) * COL, bulge[BULGE], tau;
    const auto v = [&](int i) { return bulge[i]; };
    for (int i = 0; i < count; i++) bulge[i] = starts ? start[i] : column[i * ROW];
    make_reflector_together<true>(bulge, 1, count, &tau);
    reflect_lines<false, BULGE>(v, conjugate(tau), count, k, VECTORS ? N : y.hi + 1,
                                [&](int j, int i) -> Element & { return x.h[(k + i) * ROW + j * COL]; });
    sync_lanes();
    if (!starts && lane() == 0)
        for (int i = 0; i < count; i++) column[i * ROW] = i ? element_of(0) : bulge[0];
    reflect_lines<true, BULGE>(v, tau, count, VECTORS ? 0 : y.lo, min_of(k + BULGE, y.hi) + 1,
                               [&](int j, int i) -> Element & { return x.h[j * ROW + (k + i) * COL]; });
    if (ASIDE && lane() == 0) {
        for (int i = 0; i < WIDTH; i++) x.sweep[k].v[i] = i + 1 < count ? bulge[i + 1] : element_of(0);
        x.sweep[k].tau = tau;
    }
    if (VECTORS && !ASIDE)
        reflect_lines<true, BULGE>(v, tau, count, 0, N,
                                   [&](int j, int i) -> Element & { return z[j * Z_ROW + (k + i) * Z_COL]; });
    sync_lanes();
}

/* Own rows of Z become those times the reflectors of a sweep: each number is read and written once. */
__device__ inline void reflect_aside(const Work &x, Element *z, const Window &y) {
    const auto is_row = [](int r) { return lane() + r * LANES < N; };
    const auto row = [&](int r) { return is_row(r) ? r * LANES : 0; };
    Element own[OWN][BULGE], *at = z + y.lo * N + min_of(lane(), N - 1);
#pragma unroll
    for (int r = 0; r < OWN; r++)
        for (int i = 0; i < BULGE; i++) own[r][i] = at[row(r) + i * N];
#pragma unroll 1
    for (int k = y.lo; k < y.hi; k++, at += N) {
        const Bulge here = x.sweep[k];
        Element next[OWN];
#pragma unroll
        for (int r = 0; r < OWN; r++) next[r] = k + BULGE <= y.hi ? at[row(r) + BULGE * N] : element_of(0);
#pragma unroll
        for (int r = 0; r < OWN; r++) {
            Element w = own[r][0];
            for (int i = 1; i < BULGE; i++) w = multiply_add(own[r][i], here.v[i - 1], w);
            w = product(w, here.tau);
            if (is_row(r)) at[row(r)] = difference_of(own[r][0], w);
            for (int i = 1; i < BULGE; i++) own[r][i - 1] = multiply_subtract(w, conjugate(here.v[i - 1]), own[r][i]);
            own[r][BULGE - 1] = next[r];
        }
    }
#pragma unroll
    for (int r = 0; r < OWN; r++)
        if (is_row(r)) at[row(r)] = own[r][0];
}

/* How many eigenvalues are not found when the matrix is given up. */
__device__ inline int triangularise(Work &x, Element *z) {
    Window y = {0, N - 1, 0};
    if constexpr (N <= WIDTH) { /* there is no window */
        const bool ends = N > 1 && is_negligible(x, N - 1, false);
        sync_lanes();
        if (ends && lane() == 0) x.h[(N - 1) * ROW + (N - 2) * COL] = element_of(0);
        y.hi = -1;
    }
#pragma unroll 1
    for (int sweep = 0; find_window(x, y, 2 * sweep >= MOST_SWEEPS) && sweep < MOST_SWEEPS; sweep++) {
        Element start[BULGE];
        start_sweep(x, y, start);
        sync_lanes();
#pragma unroll 1
        for (int k = y.lo; k <= y.hi - WIDTH; k++) chase_from(x, z, y, start, k, BULGE);
        if (WIDTH > 1) chase_from(x, z, y, start, y.hi - 1, WIDTH);
        if (ASIDE) reflect_aside(x, z, y);
    }
    const int info = y.hi + 1;
    sync_lanes();
    if (!info) finish(x, z);
    return info;
}

/* --- Eigenvectors --- */

__device__ inline Complex divided(Complex x, Complex d) {
    return scaled(product(x, conjugate(d)), reciprocal(multiply_add(d.im, d.im, product(d.re, d.re))));
}
__device__ inline Complex enough(Complex d, T least) { return size_of(d) < least ? Complex{least, 0} : d; }

/* Rows i and i + 1 are a block of conjugate eigenvalues. */
__device__ inline bool is_block(const Work &x, int i) {
    return !COMPLEX && i >= 0 && i + 1 < N && size_of(x.h[(i + 1) * ROW + i * COL]) != 0;
}

__device__ inline Complex eigenvalue(const Work &x, int j) {
    Complex w = number_of(x.h[j * (ROW + COL)]);
    const bool first = is_block(x, j);
    if (!first && !is_block(x, j - 1)) return w;
    const int top = first ? j : j - 1;
    const T b = real_of(x.h[top * ROW + (top + 1) * COL]), c = real_of(x.h[(top + 1) * ROW + top * COL]);
    const T im = product(root(fabs(b)), root(fabs(c)));
    w.im = first ? im : -im;
    return w;
}

/* (z b; c z) y = r, by elimination with the largest element as the pivot. */
__device__ inline void solve_block(Complex z, T b, T c, T least, Complex *r) {
    const T size = size_of(z);
    const bool wider = fabs(b) > fabs(c), off = larger(fabs(b), fabs(c)) > size;
    const bool by_row = off && !wider, by_column = off && wider;
    const Complex at_b = {b, 0}, at_c = {c, 0};
    const Complex p = enough(by_row ? at_c : by_column ? at_b : z, least), q = off ? z : at_b, s = off ? z : at_c;
    const Complex u = by_row ? at_b : by_column ? at_c : z, r1 = by_row ? r[1] : r[0], r2 = by_row ? r[0] : r[1];
    const Complex l = divided(s, p), left = enough(multiply_subtract(l, q, u), least);
    const Complex y2 = divided(multiply_subtract(l, r1, r2), left);
    const Complex y1 = divided(multiply_subtract(q, y2, r1), p);
    r[0] = by_column ? y2 : y1;
    r[1] = by_column ? y1 : y2;
}

/* Columns k, and unless it is the same, `then`, of rows above. */
__device__ inline void subtract_columns(const Work &x, Complex *y, int k, int then, int rows) {
    const Complex y_k = y[k], y_then = y[then];
    for (int i = 0; i < rows; i++) {
        Complex sum = multiply_subtract(x.h[i * ROW + k * COL], y_k, y[i]);
        if (then != k) sum = multiply_subtract(x.h[i * ROW + then * COL], y_then, sum);
        y[i] = sum;
    }
}

/* Of loops over rows of eigenvectors: all of them, where they are in registers. */
constexpr int STEPS = FEW ? N : 1;

/* (T - w_j I) y = 0, T being H; the result is the last row of y that is not zero. */
__device__ inline int solve_column(const Work &x, int j, Complex w, Complex *y) {
    const T small = larger(product(2 * UNIT, size_of(w)), MIN_DIVISOR);
    const bool first = is_block(x, j), second = is_block(x, j - 1);
    const int top = second ? j - 1 : j, last = first ? j + 1 : j;
    Complex at_top = {1, 0}, next = {0, 0};
    if (first || second) {
        const T b = real_of(x.h[top * ROW + (top + 1) * COL]), c = real_of(x.h[(top + 1) * ROW + top * COL]);
        const T im = fabs(w.im);
        const bool by_b = !(fabs(b) < fabs(c));
        const T q = by_b ? quotient_of(im, b) : T(1);
        at_top = {by_b ? T(1) : quotient_of(-im, c), 0};
        next = {0, w.im < 0 ? -q : q};
    }
#pragma unroll STEPS
    for (int i = 0; i < N; i++) y[i] = i == top ? at_top : i == top + 1 ? next : Complex{0, 0};
#pragma unroll STEPS
    for (int i = N - 1; i >= 0; i--) {       /* lanes together */
        if (FEW && is_block(x, i)) continue; /* it came with the row below */
        const int from = is_block(x, i - 1) ? i - 1 : i;
        if (i == last) {
            subtract_columns(x, y, i, from, from);
        } else if (i < top) {
            const Complex z = difference_of(number_of(x.h[from * (ROW + COL)]), w);
            if (from < i)
                solve_block(z, real_of(x.h[from * ROW + i * COL]), real_of(x.h[i * ROW + from * COL]), small, y + from);
            else
                y[i] = divided(y[i], enough(z, small));
            for (int k = from; k <= i; k++) {
                const T size = size_of(y[k]);
                if (!(size > MAX_COMPONENT)) continue;
                const T back = reciprocal(size);
                for (int s = 0; s <= last; s++) y[s] = scaled(y[s], back);
            }
            subtract_columns(x, y, from, i, from);
        }
        if (!FEW) i = from;
    }
    return last;
}

/* Column j of V = D Z Y, of norm 1, its largest component, the first of equals, real and positive. Zeros are positive.
 */
template <class TO> __device__ inline void give_vector(const Work &x, const Element *z, int j, Complex w, TO to) {
    Complex y[N], v[N];
    const int last = solve_column(x, j, w, y);
    T squares = 0, max_square = 0;
    int largest = 0;
#pragma unroll STEPS
    for (int first = 0; first < N; first += TOGETHER) {
        Complex sum[TOGETHER];
#pragma unroll
        for (int r = 0; r < TOGETHER; r++) sum[r] = {0, 0};
        for (int k = 0; k <= last; k++) {
            const Complex y_k = y[k];
#pragma unroll
            for (int r = 0; r < TOGETHER; r++)
                sum[r] = multiply_add(z[min_of(first + r, N - 1) * Z_ROW + k * Z_COL], y_k, sum[r]);
        }
#pragma unroll
        for (int r = 0; r < TOGETHER; r++) {
            const int i = first + r;
            if (i >= N) break;
            v[i] = scaled(sum[r], real_of(x.balance[i * COL]));
            const T square = multiply_add(v[i].im, v[i].im, product(v[i].re, v[i].re));
            squares = squares + square;
            if (square > max_square) max_square = square, largest = i;
        }
    }
    const T size = root(max_square), back = reciprocal(root(squares));
    const Complex turn = scaled(Complex{quotient_of(v[largest].re, size), quotient_of(-v[largest].im, size)}, back);
    EACH(int i = 0; i < N; i++) {
        const Complex u = i == largest ? Complex{product(size, back), 0} : product(v[i], turn);
        to(i, Complex{u.re + T(0), u.im + T(0)});
    }
}

static_assert(static_cast<int>(SMM_EIG_w) == static_cast<int>(SMM_EIGVALS_w), "EIGVALS has the w of EIG");

__device__ inline void give_eigenvalues(const Work &x, const Element *z, const smm_cuda_args &args, long long q, T back,
                                        bool good) {
    const smm_cuda_operand &d = args.operand[SMM_EIG_w];
    Complex *const to_w = static_cast<Complex *>(d.data) + offset_of(args, d, q);
    for (int j = lane(); j < N; j += LANES) {
        const Complex w = good ? eigenvalue(x, j) : Complex{0, 0}, value = scaled(w, back);
        to_w[j * d.row] = good ? Complex{value.re + T(0), value.im + T(0)} : not_a_complex_number();
        if constexpr (VECTORS) {
            const smm_cuda_operand &v = args.operand[SMM_EIG_v];
            Complex *const to_v = static_cast<Complex *>(v.data) + offset_of(args, v, q) + j * v.col;
            if (good)
                give_vector(x, z, j, w, [&](int i, Complex y) { to_v[i * v.row] = y; });
            else
                EACH(int i = 0; i < N; i++) to_v[i * v.row] = not_a_complex_number();
        }
    }
}

/* A = Z T Z^H, T being H. Zeros are positive. */
__device__ inline void give_factors(const Work &x, const Element *z, const smm_cuda_args &args, long long q, T back,
                                    bool good) {
    const OperandView<false, Stored> to_t(args, SMM_SCHUR_t, q), to_z(args, SMM_SCHUR_z, q);
    EACH(int e = lane(); e < N * N; e += LANES) {
        const int i = e / N, j = e % N;
        to_t.put(i, j, good ? sum_of(scaled(x.h[i * ROW + j * COL], back), element_of(0)) : not_an_element());
        to_z.put(i, j, good ? sum_of(z[i * Z_ROW + j * Z_COL], element_of(0)) : not_an_element());
    }
}

#include "sqrtm.cuh"

/* Matrix q, whose elements `from` gives; z is room for Z. */
template <class FROM>
__device__ inline void run(Work &x, Element *z, const smm_cuda_args &args, long long q, FROM from) {
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
        sync_lanes();
        if constexpr (!SCHUR && !SQRTM) balance(x);
        to_hessenberg(x, z);
        info = triangularise(x, z);
    }
    const bool good = finite && !info;
    if constexpr (SCHUR)
        give_factors(x, z, args, q, back, good);
    else if constexpr (SQRTM)
        info += give_root(x, z, args, q, back, good);
    else
        give_eigenvalues(x, z, args, q, back, good);
    if (lane() == 0 && infos.data) static_cast<int *>(infos.data)[offset_of(args, infos, q)] = info;
}
