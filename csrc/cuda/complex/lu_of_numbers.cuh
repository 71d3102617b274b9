/* lu_of_numbers.cuh: LU of complex matrices with partial pivoting by |re| + |im| (LU), and what follows from it: X of
 * A X = B (SOLVE, or LU_SOLVE from what LU gave), the inverse as that of B = I (INV), and determinants (DET, SLOGDET);
 * as kernels/lu_numbers.h has it, in what own.cuh says, where rows are exchanged. */
constexpr int N = SMM_N;
constexpr bool FACTORS = SMM_OP != SMM_OP_LU_SOLVE, INVERTS = SMM_OP == SMM_OP_INV;
constexpr bool SOLVES = INVERTS || SMM_OP == SMM_OP_SOLVE || !FACTORS, TURNED = SMM_FORM & 4;
constexpr int COLUMNS = INVERTS ? least(N, 16) : SOLVES ? SMM_K : 0;
#include "own.cuh"
#include "determinant_of_numbers.cuh"

struct Outcome {
    int info = 0;
    bool singular = false; /* the first pivot that is of no use is zero */
};

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

/* The info of factors that were given; pivots that are no rows become harmless. */
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
    if constexpr (TURNED) {
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
