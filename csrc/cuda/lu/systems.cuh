/* systems.cuh: factors of complex matrices and solutions of their systems, in shared memory, with the order of
 * operations of kernels/lu/lu_numbers.h, kernels/cholesky/cholesky_numbers.h and kernels/cholesky/triangular_numbers.h:
 *
 * LU with partial pivoting by |re| + |im| (LU), X of A X = B (SOLVE, or LU_SOLVE from what LU gave), the inverse as
 * that of B = I (INV), and determinants (DET, SLOGDET); L of Hermitian A = L L^H, from A's lower triangle (CHOLESKY),
 * and X of A X = B with such A (SOLVE_POS); X of L L^H X = B, in the form UPPER of U^H U X = B (CHO_SOLVE), or of
 * triangular A (SOLVE_TRIANGULAR).
 *
 * A matrix has its N rows in shared memory, those of COLUMNS right-hand sides, and N integers. LANES threads work on
 * it: lane l on rows l, l + LANES, ... */
#include "determinant_of_numbers.cuh"

constexpr int N = SMM_N;
constexpr bool UPPER = SMM_FORM & 1, UNIT = SMM_FORM & 2, TURNED = SMM_FORM & 4;
constexpr bool DEFINITE = SMM_OP == SMM_OP_CHOLESKY || SMM_OP == SMM_OP_SOLVE_POS, INVERTS = SMM_OP == SMM_OP_INV;
constexpr bool FACTORS = SMM_OP == SMM_OP_LU || SMM_OP == SMM_OP_CHOLESKY; /* and no more */
constexpr bool SOLVES = !FACTORS && SMM_OP != SMM_OP_DET && SMM_OP != SMM_OP_SLOGDET;
constexpr bool OF_ADJOINT = SMM_OP == SMM_OP_SOLVE_POS && UPPER; /* A's upper triangle is given */
constexpr int COLUMNS = INVERTS ? least(N, 16) : SOLVES ? SMM_K : 0;
constexpr int PITCH = pitch_of(N), WIDE_PITCH = COLUMNS ? pitch_of(COLUMNS) : 0;
constexpr int NUMBERS = N * (PITCH + WIDE_PITCH);

struct Own {
    Number *numbers;
    int *pivots;

    __device__ Number &a(int i, int j) const { return numbers[i * PITCH + j]; }
    __device__ Number &x(int i, int j) const { return numbers[N * PITCH + i * WIDE_PITCH + j]; }
    /* An element of what is returned as the factors. */
    __device__ Number factor(int i, int j) const { return !DEFINITE || i >= j ? a(i, j) : Number{0, 0}; }
};

/* The first row from k on that is this lane's. */
__device__ inline int own_row(int k) { return k + ((lane() - k) & (LANES - 1)); }

struct Outcome {
    int info = 0;
    bool singular = false; /* the first pivot that is of no use is zero */
};

/* --- factors --- */

/* A becomes L and U. After a pivot that is of no use it goes on: nothing that comes of it is kept. */
__device__ inline Outcome factor(const Own &o) {
    Outcome outcome;
#pragma unroll 1
    for (int k = 0; k < N; k++) {
        T most = -1;
        int p = N;
        for (int i = own_row(k); i < N; i += LANES) {
            T size = size_of(o.a(i, k));
            if (i == k && isnan(size)) size = static_cast<T>(__longlong_as_double(0x7ff0000000000000));
            if (size > most) most = size, p = i;
        }
#pragma unroll
        for (int bits = 1; bits < LANES; bits *= 2) {
            const T size = across(most, bits);
            const int row = across(p, bits);
            if (size > most || (size == most && row < p)) most = size, p = row;
        }
        const Number pivot = o.a(p, k);
        if (!outcome.info && is_useless(pivot)) outcome = {k + 1, is_zero(pivot)};
        __syncwarp();
        if (!lane()) o.pivots[k] = p;
        for (int j = lane(); j < N && p != k; j += LANES) {
            const Number was = o.a(k, j);
            o.a(k, j) = o.a(p, j);
            o.a(p, j) = was;
        }
        __syncwarp();
        const NumberDivisor d(o.a(k, k));
        for (int i = own_row(k + 1); i < N; i += LANES) {
            const Number l = d.divide(o.a(i, k));
            o.a(i, k) = l;
            for (int j = k + 1; j < N; j++) o.a(i, j) = multiply_subtract(l, o.a(k, j), o.a(i, j));
        }
        __syncwarp();
    }
    return outcome;
}

/* The lower triangle of Hermitian A becomes L of A = L L^H. Returns the first step, from 1, whose pivot is not
 * positive; or 0. */
__device__ inline int factor_definite(const Own &o) {
    int info = 0;
#pragma unroll 1
    for (int j = 0; j < N; j++) {
        const T pivot = o.a(j, j).re;
        if (!info && !(pivot > 0)) info = j + 1;
        const T length = root(pivot), r = reciprocal(length);
        __syncwarp();
        if (own_row(j) == j) o.a(j, j) = {length, 0};
        for (int i = own_row(j + 1); i < N; i += LANES) o.a(i, j) = scaled(o.a(i, j), r);
        __syncwarp();
        for (int i = own_row(j + 1); i < N; i += LANES) {
            const Number l = o.a(i, j);
            for (int k = j + 1; k <= i; k++) o.a(i, k) = multiply_subtract(l, conjugate(o.a(k, j)), o.a(i, k));
        }
        __syncwarp();
    }
    return info;
}

/* The info of L and U that were given; pivots that are no rows become harmless. */
__device__ inline int info_of_factors(const Own &o) {
    int info = 0, wrong = 0;
    for (int i = N - 1; i >= 0; i--) {
        const int p = o.pivots[i];
        if (p < i || p >= N) wrong = -(i + 1);
        if (is_zero(o.a(i, i))) info = i + 1;
    }
    __syncwarp();
    for (int i = own_row(0); i < N; i += LANES)
        if (o.pivots[i] < i || o.pivots[i] >= N) o.pivots[i] = i;
    __syncwarp();
    return wrong ? wrong : info;
}

/* The first zero on the diagonal, from 1, by which a triangular solve would divide; or 0. */
__device__ inline int first_zero(const Own &o) {
    for (int j = 0; j < N && !UNIT; j++)
        if (is_zero(o.a(j, j))) return j + 1;
    return 0;
}

/* A becomes what the operation returns or solves with. */
__device__ inline Outcome prepare(const Own &o) {
    if constexpr (DEFINITE)
        return {factor_definite(o)};
    else if constexpr (SMM_OP == SMM_OP_LU_SOLVE)
        return {info_of_factors(o)};
    else if constexpr (SMM_OP == SMM_OP_CHO_SOLVE || SMM_OP == SMM_OP_SOLVE_TRIANGULAR)
        return {first_zero(o)};
    else
        return factor(o);
}

/* --- solutions --- */

/* How a triangle lies in A: as it is, transposed, or transposed and conjugated. */
enum Way { PLAIN, TRANSPOSED, ADJOINT };
template <Way WAY> __device__ inline Number element(const Own &o, int i, int j) {
    return WAY == PLAIN ? o.a(i, j) : WAY == TRANSPOSED ? o.a(j, i) : conjugate(o.a(j, i));
}

/* X becomes the solution of a triangular system. All lanes have arrived, and have when it ends. */
template <Way WAY, bool UPPER, bool UNIT> __device__ inline void solve_triangle(const Own &o) {
#pragma unroll 1
    for (int step = 0; step < N; step++) {
        const int j = UPPER ? N - 1 - step : step;
        if constexpr (!UNIT) {
            const NumberDivisor d(element<WAY>(o, j, j));
            for (int c = lane(); c < COLUMNS; c += LANES) o.x(j, c) = d.divide(o.x(j, c));
            __syncwarp();
        }
        for (int i = own_row(UPPER ? 0 : j + 1); i < (UPPER ? j : N); i += LANES) {
            const Number l = element<WAY>(o, i, j);
            for (int c = 0; c < COLUMNS; c++) o.x(i, c) = multiply_subtract(l, o.x(j, c), o.x(i, c));
        }
        __syncwarp();
    }
}

template <bool BACKWARDS> __device__ inline void exchange_rows(const Own &o) {
    for (int c = lane(); c < COLUMNS; c += LANES)
        for (int step = 0; step < N; step++) {
            const int i = BACKWARDS ? N - 1 - step : step, p = o.pivots[i];
            const Number was = o.x(i, c);
            o.x(i, c) = o.x(p, c);
            o.x(p, c) = was;
        }
    __syncwarp();
}

__device__ inline void solve(const Own &o) {
    if constexpr (SMM_OP == SMM_OP_SOLVE_TRIANGULAR) {
        solve_triangle<PLAIN, UPPER, UNIT>(o);
    } else if constexpr (SMM_OP == SMM_OP_CHO_SOLVE || DEFINITE) {
        constexpr bool OF_U = UPPER && !DEFINITE;
        solve_triangle<OF_U ? ADJOINT : PLAIN, false, false>(o);
        solve_triangle<OF_U ? PLAIN : ADJOINT, true, false>(o);
    } else if constexpr (TURNED) {
        solve_triangle<TRANSPOSED, false, false>(o);
        solve_triangle<TRANSPOSED, true, true>(o);
        exchange_rows<true>(o);
    } else {
        exchange_rows<false>(o);
        solve_triangle<PLAIN, false, true>(o);
        solve_triangle<PLAIN, true, false>(o);
    }
}

template <class Det, class Log>
__device__ inline void give_determinant(const Own &o, bool singular, Det det, Log log_magnitude) {
    bool odd = false;
    for (int i = 0; i < N; i++) odd ^= o.pivots[i] != i;
    give_determinant<1>(odd, singular, [&](int i) { return o.a(i, i); }, det, log_magnitude);
}
