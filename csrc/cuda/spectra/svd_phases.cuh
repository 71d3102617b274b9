/* svd_phases.cuh: svd.cuh of many matrices of a call, in phases (phases.cuh): A = Q B P^H by lanes that have rows of A
 * in registers, beside a copy in shared memory, of which they have columns; then P is rotated, and becomes V; then
 * lanes that have columns in registers make A V = U R. The same bits as svd.cuh's.
 *
 * Operands: as of svd_shared.cuh. May overwrite A in place, matrix by matrix.
 * Limits: more rows and columns than Jacobi's method has, and as many columns of U as A has. */
#include "common.cuh"
#include "lanes.cuh"
#include "householder.cuh"
#include "element.cuh"
#include "operand_view.cuh"

constexpr bool VECTORS = SMM_OP != SMM_OP_SVDVALS, FULL = SMM_OP == SMM_OP_SVD_FULL;
#include "svd.cuh"
#include "phases.cuh"
#include "columns.cuh"

constexpr int TALL_OWN = (M + LANES - 1) / LANES; /* rows of A of a lane */
constexpr int TALL_PITCH = pitch_of(M);           /* of columns of A V */
constexpr int WORK = max_of(M * PITCH, VECTORS ? N * TALL_PITCH : 1);

/* Of column j what a reflector from the left takes off below its row, and the one from the right. */
struct alignas(min_of(2 * sizeof(Element), 16)) Beside {
    Element w, u;
};

/* What the lanes of a matrix work with. */
struct Lines {
    Beside beside[N];
    Element tau[N];
    T s[N]; /* singular values, then the diagonal of R */
    int places[N];
};
union alignas(16) Group {
    struct {
        Lines lines;
        union {
            Element x[WORK]; /* A, then the reflectors from the right in rows; A; A V; its reflectors in rows; U */
            Vectors<N> v;    /* P after these; V before A comes back */
        };
    };
    Staged staged[STAGED];
    __device__ T *vectors() { return v.x; }
};

struct BidiagonalIteration {
    static constexpr int SWEEPS = BIDIAGONAL_SWEEPS;
    T tolerance;
    bool has_zero;
    __device__ void begin(const Chain &x) { tolerance = tolerance_of<N>(x); }
    __device__ bool counts(const Chain &x, int i) { return counts_in(x, tolerance, i); }
    __device__ void enter(const Chain &x, int from, int to) {
        has_zero = false;
        for (int i = from; i <= to; i++) has_zero |= !(fabs(x.d[i]) > tolerance);
    }
    template <class Keep> __device__ bool sweep(const Chain &x, int from, int to, Keep keep) {
        const Left left = find_rotations<N>(x, from, to, has_zero, tolerance, keep);
        has_zero = left.has_zero;
        return left.all_count;
    }
};

/* --- A = Q B P^H --- */

/* Step k, which is FROM .. FROM + STEP: column k's reflector of the rows in shared memory, by columns, and that of the
 * conjugate of row k; both of the rows in registers, which take their place. */
template <int FROM> __device__ inline void reduce_row(Group &own, Element (&a)[TALL_OWN][N], int k, Diagonals &b) {
    Element *const row = own.x + k * PITCH, *const column = own.x + k, *const tau = own.lines.tau + k;
    Beside *const beside = own.lines.beside;
    const Element nothing = element_of(0);
    make_reflector_together(row + k, PITCH, M - k, tau);
    Element w[OWN];
    each_own<OWN, FROM>([&](int r, int j) { w[r] = j < N ? row[j] : nothing; });
#pragma unroll 4
    for (int i = k + 1; i < M; i++) {
        const Element v = conjugate(column[i * PITCH]);
        each_own<OWN, FROM>([&](int r, int j) { w[r] = multiply_add(v, own.x[i * PITCH + min_of(j, N - 1)], w[r]); });
    }
    each_own<OWN, FROM>([&](int r, int j) {
        w[r] = product(conjugate(*tau), w[r]);
        if (j == k) b.d[k] = real_of(row[k]);
        if (j > k && j < N) row[j] = conjugate(difference_of(row[j], w[r]));
        if (j < N) beside[j].w = j > k ? w[r] : nothing;
    });
    sync_lanes();
    if (k + 1 == N) return;
    make_reflector_together(row + k + 1, 1, N - k - 1, tau);
    each_own<OWN, FROM>([&](int, int j) {
        if (j == k + 1) b.e[k] = real_of(row[j]);
        const Element u = j > k + 1 && j < N ? row[j] : element_of(j == k + 1);
        if (j <= k + 1) row[j] = u;
        if (j < N) beside[j].u = u;
    });
    Element v[TALL_OWN], sum[TALL_OWN];
    each_own<TALL_OWN, FROM>([&](int r, int i) {
        v[r] = i > k && i < M ? column[i * PITCH] : nothing;
        sum[r] = nothing;
    });
    sync_lanes();
#pragma unroll
    for (int j = FROM; j < N; j++) {
        const Beside at = beside[j];
        each_own<TALL_OWN, FROM>([&](int r, int) {
            a[r][j] = multiply_subtract(v[r], at.w, a[r][j]);
            sum[r] = multiply_add(at.u, a[r][j], sum[r]);
        });
    }
    each_own<TALL_OWN, FROM>([&](int r, int) { sum[r] = product(*tau, sum[r]); });
#pragma unroll
    for (int j = FROM; j < N; j++) {
        const Element u = conjugate(beside[j].u);
        each_own<TALL_OWN, FROM>([&](int r, int i) {
            a[r][j] = multiply_subtract(u, sum[r], a[r][j]);
            if (i > k && i < M) own.x[i * PITCH + j] = a[r][j];
        });
    }
    sync_lanes();
}
template <int FROM = 0> __device__ inline void reduce_rows(Group &own, Element (&a)[TALL_OWN][N], Diagonals &b) {
#pragma unroll 1
    for (int k = FROM; k < min_of(FROM + STEP, N); k++) reduce_row<FROM>(own, a, k, b);
    if constexpr (FROM + STEP < N) reduce_rows<FROM + STEP>(own, a, b);
}

/* put(i, j, y) has the elements of columns in registers, which come to shared memory. */
template <int HEIGHT, class Put> __device__ inline void put_columns(const Element (&x)[OWN][HEIGHT], Put put) {
    sync_lanes();
    each_own([&](int r, int j) {
#pragma unroll
        for (int i = 0; i < HEIGHT; i++)
            if (j < N) put(i, j, x[r][i]);
    });
    sync_lanes();
}
template <int HEIGHT, class Get> __device__ inline void get_columns(Element (&x)[OWN][HEIGHT], Get get) {
    each_own([&](int r, int j) {
#pragma unroll
        for (int i = 0; i < HEIGHT; i++) x[r][i] = j < N ? get(i, j) : element_of(0);
    });
    sync_lanes();
}

/* B comes to b, and P to own.v. */
template <class A> __device__ inline T bidiagonalise(Group &own, const A &from, Diagonals &b) {
    T scale;
    if (!load_scaled(own.x, from, scale)) return not_a_number();
    Element a[TALL_OWN][N];
    each_own<TALL_OWN>([&](int r, int i) {
#pragma unroll
        for (int j = 0; j < N; j++) a[r][j] = own.x[min_of(i, M - 1) * PITCH + j];
    });
    sync_lanes();
    reduce_rows(own, a, b);
    if constexpr (VECTORS) {
        Element p[OWN][N];
        make_unit(p);
        form_columns<N - 1, 1>(p, [&](int k, int i) { return own.x[k * PITCH + i]; }, own.lines.tau);
        put_columns(p, [&](int i, int j, Element y) { own.v.at(i, j) = y; });
    }
    return reciprocal(scale);
}

/* --- U --- */

/* A V takes the place of A, some rows at a time; lanes have columns of V. */
__device__ inline void multiply(Group &own, const Element (&v)[OWN][N]) {
    constexpr int HEIGHT = 4;
#pragma unroll 1
    for (int first = 0; first < M; first += HEIGHT) {
        Element sum[OWN][HEIGHT];
#pragma unroll
        for (int k = 0; k < N; k++)
#pragma unroll
            for (int i = 0; i < HEIGHT; i++) {
                const Element a = own.x[min_of(first + i, M - 1) * PITCH + k];
                each_own([&](int r, int) {
                    sum[r][i] = k == 0 ? product(a, v[r][k]) : multiply_add(a, v[r][k], sum[r][i]);
                });
            }
        sync_lanes();
        each_own([&](int r, int j) {
#pragma unroll
            for (int i = 0; i < HEIGHT; i++)
                if (first + i < M && j < N) own.x[(first + i) * PITCH + j] = sum[r][i];
        });
    }
}

/* Columns of A V become R; reflectors come to rows of own.x, the diagonal of R to own.lines.s. */
template <int FROM = 0> __device__ inline void factor_columns(Group &own, Element (&x)[OWN][M]) {
#pragma unroll 1
    for (int k = FROM; k < min_of(FROM + STEP, N); k++) {
        Element *const v = own.x + k * TALL_PITCH, *const tau = own.lines.tau + k;
        each_own<OWN, FROM>([&](int r, int j) {
#pragma unroll
            for (int i = FROM; i < M; i++)
                if (j == k) v[i] = i < k ? element_of(0) : x[r][i];
        });
        sync_lanes();
        make_reflector_together(v + k, 1, M - k, tau);
        if (lane() == 0) own.lines.s[k] = real_of(v[k]), v[k] = element_of(1);
        sync_lanes();
        reflect_columns<FROM>(x, [&](int i) { return v[i]; }, conjugate(*tau));
    }
    if constexpr (FROM + STEP < N) factor_columns<FROM + STEP>(own, x);
}

/* The Q of A V = Q R, with the signs that make the diagonal of R positive. */
template <class Large> __device__ inline void give_large(Group &own, const Large &to) {
    Element x[OWN][M];
    get_columns(x, [&](int i, int j) { return own.x[i * PITCH + j]; });
    factor_columns(own, x);
    make_unit(x);
    form_columns<N, 0>(x, [&](int k, int i) { return own.x[k * TALL_PITCH + i]; }, own.lines.tau);
    each_own([&](int r, int j) {
        const bool negated = own.lines.s[min_of(j, N - 1)] < 0;
#pragma unroll
        for (int i = 0; i < M; i++) x[r][i] = sum_of(select(negated, negative(x[r][i]), x[r][i]), element_of(0));
    });
    put_columns(x, [&](int i, int j, Element y) { own.x[i * PITCH + j] = y; });
    for (int e = lane(); e < M * N; e += LANES) to.put(e / N, e % N, own.x[e / N * PITCH + e % N]);
}

/* --- all of it --- */

/* Singular values descend, and columns of V with them, of which lanes have rows; then lanes have columns. The largest
 * element of each, the first of equals, is positive. */
template <class S>
__device__ inline void arrange(Group &own, const Diagonals &b, T back, const T (&rows)[OWN_ROWS][N], const S &to) {
    T *const s = own.lines.s;
    int *const places = own.lines.places;
    for (int j = lane(); j < N; j += LANES) s[j] = fabs(b.d[j]);
    sync_lanes();
    for (int j = lane(); j < N; j += LANES) {
        places[j] = place_of<N>(s, j);
        to.put(0, places[j], product(s[j], back));
    }
    if constexpr (VECTORS) {
        sync_lanes();
        each_element([&](int i, int j, int r) { own.v.x[i * Vectors<N>::PITCH + places[j]] = rows[r][j]; });
        sync_lanes();
        for (int j = lane(); j < N; j += LANES)
            give_normalized([&](int i) { return Element(own.v.at(i, j)); }, N,
                            [&](int i, Element y) { own.v.at(i, j) = y; });
    }
}

extern "C" __global__ void BOUNDS SMM_NAME(const __grid_constant__ smm_cuda_args args) {
    constexpr int S = VECTORS ? int(SMM_SVD_s) : int(SMM_SVDVALS_s);
    constexpr int LARGE = WIDE ? SMM_SVD_vt : SMM_SVD_u, SMALL = WIDE ? SMM_SVD_u : SMM_SVD_vt;
    typedef OperandView<WIDE, Stored> A;
    run_phases<Group, BidiagonalIteration>(
        args, [&](Group &own, Diagonals &b, long long q) { return bidiagonalise(own, A(args, SMM_A, q), b); },
        [&](Group &own, const Diagonals &b, long long q, T back, int left, const T(&rows)[OWN_ROWS][N]) {
            const A a(args, SMM_A, q), large(args, VECTORS ? LARGE : SMM_A, q);
            const OperandView<!WIDE, Stored> small(args, VECTORS ? SMALL : SMM_A, q);
            const OperandView<true> s(args, S, q);
            put_integer(args, SMM_INFO, q, left);
            if (!is_finite(back) || left) return give_nothing(s, large, small);
            arrange(own, b, back, rows, s);
            if constexpr (VECTORS) {
                Element v[OWN][N];
                T scale;
                get_columns(v, [&](int i, int j) { return Element(own.v.at(i, j)); });
                load_scaled(own.x, a, scale);
                each_own([&](int r, int j) {
#pragma unroll
                    for (int i = 0; i < N; i++)
                        if (j < N)
                            small.put(i, j, sum_of(conjugate(v[r][i]), element_of(0))); /* which may be where A was */
                });
                multiply(own, v);
                give_large(own, large);
            }
        });
}
