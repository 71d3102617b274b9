/* banded_thread.cuh: X of A X = B where A has any number of diagonals (SOLVE_BANDED, SOLVEH_BANDED), and is of any
 * order: where banded_tiles.cuh has no registers for what a step changes, or the number of diagonals below the main one
 * is each matrix's own.
 *
 * The text is that of kernels/banded/banded_lanes.h, with a thread for a lane.
 *
 * Grid: as many blocks as fit the device and its memory, of THREADS threads; a thread to a system.
 * Shared memory: none.
 * Memory of the device: of each thread, 2 M + 1 lines of N elements, or M + 2 if A is positive definite: the diagonals
 * with what elimination fills in, pivots, or reciprocals, and a column of B. Those of all threads stand side by side.
 * Operands: any that args.h can describe. May overwrite B in place, matrix by matrix. */
#include "common.cuh"
#include "lanes.cuh"
#include "element.cuh"

constexpr bool DEFINITE = SMM_OP == SMM_OP_SOLVEH_BANDED, UPPER = SMM_FORM & 1;
constexpr int THREADS = SMM_THREADS;
static_assert(SMM_SHARED == 0 && LANES == 1, "the plan counts otherwise");

__device__ inline long long less(long long x, long long y) { return x < y ? x : y; }

/* The lines of elements that a thread has. */
struct ThreadLines {
    Element *data;
    long long n, apart;
    __device__ Element &at(long long line, long long i) const { return data[(line * n + i) * apart]; }
};

/* An operand's matrix where it lies. */
struct View {
    Stored *data;
    long long row, col;
    __device__ Stored &at(long long i, long long j) const { return data[i * row + j * col]; }
};
__device__ inline View view_of(const smm_cuda_args &args, int which, long long matrix) {
    const smm_cuda_operand &x = args.operand[which];
    return {static_cast<Stored *>(x.data) + offset_apart(args, which, matrix), x.row, x.col};
}

/* --- any matrices: lines X, pivots; then element (i, j) is in line first + all + i - j, place j --- */

struct Banded {
    enum { X, PIVOT, FIRST };
    ThreadLines own;
    long long n, lower, all;

    __device__ Element &a(long long i, long long j) const { return own.at(FIRST + all + i - j, j); }
    __device__ Element &x(long long i) const { return own.at(X, i); }

    __device__ int factor() const {
        int info = 0;
        for (long long j = 0; j < n; j++) {
            const long long below = less(lower, n - 1 - j), right = less(all, n - 1 - j);
            T largest = size_of(a(j, j));
            long long pivot = 0;
            for (long long t = 1; t <= below; t++) {
                const T size = size_of(a(j + t, j));
                if (size > largest) largest = size, pivot = t;
            }
            own.at(PIVOT, j) = element_of(static_cast<T>(pivot));
            for (long long s = 0; s <= right && pivot; s++) swap(a(j, j + s), a(j + pivot, j + s));
            const ElementDivisor p(a(j, j));
            if (is_useless(a(j, j)) && !info) info = static_cast<int>(j) + 1;
            for (long long t = 1; t <= below; t++) {
                const Element l = a(j + t, j) = p.divide(a(j + t, j));
                for (long long s = 1; s <= right; s++)
                    a(j + t, j + s) = multiply_subtract(l, a(j, j + s), a(j + t, j + s));
            }
        }
        return info;
    }
    __device__ void solve() const {
        for (long long j = 0; j < n; j++) {
            const long long below = less(lower, n - 1 - j), pivot = static_cast<long long>(real_of(own.at(PIVOT, j)));
            if (pivot) swap(x(j), x(j + pivot));
            const Element y = x(j);
            for (long long t = 1; t <= below; t++) x(j + t) = multiply_subtract(a(j + t, j), y, x(j + t));
        }
        for (long long j = n - 1; j >= 0; j--) {
            const Element y = x(j) = ElementDivisor(a(j, j)).divide(x(j));
            for (long long s = 1; s <= less(all, j); s++) x(j - s) = multiply_subtract(a(j - s, j), y, x(j - s));
        }
    }
};

/* --- positive definite ones: lines X, reciprocals; then element (j + t, j) of L is in line FIRST + t, place j --- */

struct Definite {
    enum { X, RECIPROCAL, FIRST };
    ThreadLines own;
    long long n, beyond;

    __device__ Element &l(long long j, long long t) const { return own.at(FIRST + t, j); }
    __device__ Element &x(long long i) const { return own.at(X, i); }

    __device__ int factor() const {
        int info = 0;
        for (long long j = 0; j < n; j++) {
            const long long below = less(beyond, n - 1 - j);
            const T pivot = real_of(l(j, 0)), r = reciprocal(root(pivot));
            if (!(pivot > 0) && !info) info = static_cast<int>(j) + 1;
            own.at(RECIPROCAL, j) = element_of(r);
            for (long long t = 1; t <= below; t++) l(j, t) = scaled(l(j, t), r);
            for (long long s = 1; s <= below; s++)
                for (long long t = s; t <= below; t++)
                    l(j + s, t - s) = multiply_subtract(l(j, t), conjugate(l(j, s)), l(j + s, t - s));
        }
        return info;
    }
    __device__ void solve() const {
        for (long long j = 0; j < n; j++) {
            const Element y = x(j) = scaled(x(j), real_of(own.at(RECIPROCAL, j)));
            for (long long t = 1; t <= less(beyond, n - 1 - j); t++) x(j + t) = multiply_subtract(l(j, t), y, x(j + t));
        }
        for (long long j = n - 1; j >= 0; j--) {
            Element y = x(j);
            for (long long t = less(beyond, n - 1 - j); t >= 1; t--)
                y = multiply_subtract(conjugate(l(j, t)), x(j + t), y);
            x(j) = scaled(y, real_of(own.at(RECIPROCAL, j)));
        }
    }
};

/* Factors a matrix and solves with it, column by column; returns info. */
template <class Method>
__device__ inline int solve_all(const Method &method, const smm_cuda_args &args, long long matrix) {
    const View b = view_of(args, SMM_B, matrix), x = view_of(args, SMM_C, matrix);
    const int info = method.factor();
    for (long long k = 0; k < args.k; k++) {
        for (long long i = 0; i < args.n && !info; i++) method.x(i) = b.at(i, k);
        if (!info) method.solve();
        for (long long i = 0; i < args.n; i++) x.at(i, k) = info ? not_an_element() : method.x(i);
    }
    return info;
}

__device__ inline int solve(const smm_cuda_args &args, const ThreadLines &own, long long matrix) {
    const View ab = view_of(args, SMM_A, matrix);
    const long long n = args.n, m = args.m;
    if constexpr (DEFINITE) {
        const Definite method = {own, n, m - 1};
        for (long long t = 0; t < m; t++)
            for (long long j = 0; j < n; j++)
                if (j + t < n) method.l(j, t) = UPPER ? conjugate(ab.at(m - 1 - t, j + t)) : Element(ab.at(t, j));
        return solve_all(method, args, matrix);
    } else {
        const smm_cuda_operand &given = args.operand[SMM_SOLVE_BANDED_lower];
        const int lower = given.data ? static_cast<const int *>(given.data)[offset_of(args, given, matrix)]
                                     : static_cast<int>(args.number[SMM_SOLVE_BANDED_lower]);
        const Banded method = {own, n, lower, m - 1};
        if (lower < 0 || lower >= m) { /* nothing tells which diagonals these are */
            const View x = view_of(args, SMM_C, matrix);
            for (long long i = 0; i < n; i++)
                for (long long k = 0; k < args.k; k++) x.at(i, k) = not_an_element();
            return -1;
        }
        for (long long line = 0; line < lower + m; line++) /* line 0 has element (i, i + all) */
            for (long long j = 0; j < n; j++) {
                const long long i = j + line - (m - 1);
                own.at(Banded::FIRST + line, j) =
                    line >= lower && i >= 0 && i < n ? Element(ab.at(line - lower, j)) : element_of(0);
            }
        return solve_all(method, args, matrix);
    }
}

extern "C" __global__ void BOUNDS SMM_NAME(const __grid_constant__ smm_cuda_args args) {
    const long long all = static_cast<long long>(gridDim.x) * THREADS;
    const long long me = static_cast<long long>(blockIdx.x) * THREADS + threadIdx.x;
    const ThreadLines own = {static_cast<Element *>(args.workspace) + me, args.n, all < args.batch ? all : args.batch};
    for (long long q = me; q < args.batch; q += all) {
        const int info = solve(args, own, q);
        if (args.operand[SMM_INFO].data) *beside<int>(args, SMM_INFO, q, 1) = info;
    }
}
