/* eigh_shared.cuh: A = C diag(d) C^T of symmetric A, or d only: Householder tridiagonalisation and implicit QR with
 * Wilkinson's shift (LAPACK's sytrd, orgtr and steqr; Golub and Van Loan, Matrix Computations, section 8.3), in shared
 * memory, or of few rows in a thread's registers.
 *
 * Grid: one block per MATRICES matrices; LANES threads to a matrix, which take its columns and rows by turns. The first
 * finds the rotations of a sweep, all do them.
 * Shared memory: of each matrix what `Work` names; none where a thread has it in registers.
 * Operands: any that args.h can describe. Of A one triangle is read. May overwrite A in place, matrix by matrix.
 * Limits: LANES a power of two <= 32; MATRICES * LANES = THREADS; the shared memory of a block. */
#include "common.cuh"
#include "lanes.cuh"
#include "householder.cuh"
#include "rotations.cuh"
#include "tridiagonal.cuh"

constexpr int N = SMM_N, MATRICES = SMM_MATRICES, THREADS = SMM_THREADS;
constexpr int PITCH = N | 1; /* lanes have rows, or columns: either way in different banks */
constexpr bool VECTORS = SMM_OP == SMM_OP_EIGH, UPPER = SMM_FORM & 1;

struct Work {
    T a[N * PITCH]; /* A above the diagonal, then the reflectors there, then V */
    Tridiagonal<N> t;
    T tau[N], w[N]; /* of the reflectors; room for a column */
};
static_assert(SMM_SHARED == (FEW ? 0 : MATRICES * sizeof(Work)), "the plan counts otherwise");

/* The triangle in question as the upper one. The largest magnitude, and whether all are finite, for all lanes. */
__device__ inline bool load(Work &x, const smm_cuda_args &args, long long q, T &largest) {
    const smm_cuda_operand &a = args.operand[SMM_A];
    const InMemory *from = static_cast<const InMemory *>(a.data) + offset_of(args, a, q);
    const long long row = UPPER ? a.row : a.col, col = UPPER ? a.col : a.row;
    T few[FEW ? N * N : 1];
    if (FEW) move_few<false, FEW ? N : 1, FEW ? N : 1>(few, const_cast<InMemory *>(from), row, col);
    bool finite = true;
    largest = 0;
    EACH(int e = lane(); e < N * N; e += LANES) {
        const int i = e / N, j = e % N;
        if (i > j) continue;
        const T y = FEW ? few[FEW ? e : 0] : T(from[i * row + j * col]);
        finite = finite && is_finite(y);
        if (fabs(y) > largest) largest = fabs(y);
        x.a[i * PITCH + j] = y;
    }
    return meet(largest, finite);
}

/* --- A = Q T Q^T --- */

/* B = H B H, of the rows and columns from k on: w = tau B v, w = w - (tau / 2) (w^T v) v, B = B - v w^T - w v^T. v, of
 * which v_k = 1, is in row k - 1. */
__device__ inline void reflect_both_sides(Work &x, int k) {
    const T *v = x.a + (k - 1) * PITCH, tau = x.tau[k - 1];
    EACH(int i = k + lane(); i < N; i += LANES) {
        T sum = x.a[k * PITCH + i];
        EACH(int j = k + 1; j < N; j++) sum = multiply_add(j < i ? x.a[j * PITCH + i] : x.a[i * PITCH + j], v[j], sum);
        x.w[i] = product(tau, sum);
    }
    wait();
    T dot = x.w[k];
    EACH(int i = k + 1; i < N; i++) dot = multiply_add(x.w[i], v[i], dot);
    const T half = product(product(T(-0.5), tau), dot);
    wait();
    EACH(int i = k + lane(); i < N; i += LANES) x.w[i] = i == k ? x.w[i] + half : multiply_add(half, v[i], x.w[i]);
    wait();
    EACH(int j = k + lane(); j < N; j += LANES)
        EACH(int i = k; i <= j; i++) {
            T &b = x.a[i * PITCH + j];
            b = multiply_add(-(i == k ? T(1) : v[i]), x.w[j], b);
            b = multiply_add(-x.w[i], j == k ? T(1) : v[j], b);
        }
    wait();
}

__device__ inline void tridiagonalise(Work &x) {
    EACH(int k = 0; k < N; k++) {
        T *row = x.a + k * PITCH + k;
        if (k + 1 < N) make_reflector_together(row + 1, 1, N - k - 1, x.tau + k);
        if (lane() == 0) x.t.d[k] = row[0];
        if (lane() == 0 && k + 1 < N) x.t.e[k] = row[1];
        if (k + 2 < N) reflect_both_sides(x, k + 1);
    }
    wait();
}

/* --- the kernel --- */

/* Column j times the sign that makes its largest element, the first of equals, positive; zeros are positive. */
template <class TO> __device__ inline void give_column(const Work &x, int j, TO to) {
    T largest = x.a[j];
    EACH(int i = 1; i < N; i++)
        if (fabs(x.a[i * PITCH + j]) > fabs(largest)) largest = x.a[i * PITCH + j];
    EACH(int i = 0; i < N; i++) to(i, (largest < 0 ? -x.a[i * PITCH + j] : x.a[i * PITCH + j]) + T(0));
}

static_assert(static_cast<int>(SMM_EIGH_w) == static_cast<int>(SMM_EIGVALSH_w), "EIGVALSH has the w of EIGH");

/* Matrix q. */
__device__ inline void run(Work &x, const smm_cuda_args &args, long long q) {
    const smm_cuda_operand &c = args.operand[SMM_C], &d = args.operand[SMM_EIGH_w], &infos = args.operand[SMM_INFO];
    InMemory *to_c = VECTORS ? static_cast<InMemory *>(c.data) + offset_of(args, c, q) : nullptr;
    InMemory *to_d = static_cast<InMemory *>(d.data) + offset_of(args, d, q);

    T largest;
    const bool finite = load(x, args, q, largest);
    const T scale = finite ? scale_for(largest) : T(1), back = reciprocal(scale);
    int info = 0;
    if (finite) {
        EACH(int e = lane(); e < N * N && scale != 1; e += LANES)
            if (e / N <= e % N) x.a[e / N * PITCH + e % N] = product(x.a[e / N * PITCH + e % N], scale);
        wait();
        tridiagonalise(x);
        if (VECTORS) form_vectors<N, PITCH>(x.a, x.tau);
        info = diagonalise<N, PITCH, N>(x.t, VECTORS ? x.a : nullptr);
    }
    const bool good = finite && !info;
    T values[FEW ? N : 1], vectors[FEW ? N * N : 1];
    EACH(int j = lane(); j < N; j += LANES) {
        int place = 0; /* equal ones in the order in which they were found */
        EACH(int i = 0; i < N; i++) place += x.t.d[i] < x.t.d[j] || (i < j && x.t.d[i] == x.t.d[j]);
        if (!good) place = j;
        const T value = good ? product(x.t.d[j], back) + T(0) : not_a_number();
        if (FEW)
            put(values, place, value);
        else
            to_d[place * d.row] = value;
        if (VECTORS)
            give_column(x, j, [&](int i, T y) {
                if (!good) y = not_a_number();
                if (FEW)
                    put(vectors, i * N + place, y, i * N, N);
                else
                    to_c[i * c.row + place * c.col] = y;
            });
    }
    if constexpr (FEW) {
        move_few<true, 1, N>(values, to_d, 0, d.row);
        if (VECTORS) move_few<true, N, N>(vectors, to_c, c.row, c.col);
    }
    if (lane() == 0 && infos.data) static_cast<int *>(infos.data)[offset_of(args, infos, q)] = info;
}

extern "C" __global__ void __launch_bounds__(THREADS) SMM_NAME(const __grid_constant__ smm_cuda_args args) {
    with_work<Work, MATRICES>(args.batch, [&](Work &x, long long q) { run(x, args, q); });
}
