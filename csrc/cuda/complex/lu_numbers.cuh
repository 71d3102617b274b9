/* lu_numbers.cuh: LU of complex matrices with partial pivoting by |re| + |im| (LU), and what follows from it: X of
 * A X = B (SOLVE, or LU_SOLVE from what LU gave), the inverse as that of B = I (INV), and determinants (DET, SLOGDET).
 *
 * The results are those of kernels/lu_numbers.h. Rows are exchanged in shared memory.
 *
 * Grid: one block per MATRICES matrices; LANES threads to a matrix.
 * Shared memory: see own.cuh. COLUMNS right-hand sides at a time.
 * Operands: any that args.h can describe. May overwrite A or B in place, matrix by matrix. */
#include "common.cuh"
#include "lanes.cuh"

constexpr int N = SMM_N, MATRICES = SMM_MATRICES, THREADS = SMM_THREADS;
constexpr bool FACTORS = SMM_OP != SMM_OP_LU_SOLVE, INVERTS = SMM_OP == SMM_OP_INV;
constexpr bool SOLVES = INVERTS || SMM_OP == SMM_OP_SOLVE || !FACTORS, TURNED = SMM_FORM & 4;
constexpr int COLUMNS = INVERTS ? least(N, 16) : SOLVES ? SMM_K : 0;
#include "own.cuh"

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
        const T size = size_of(o.a(p, k));
        if (!outcome.info && is_useless(size)) outcome = {k + 1, size == 0};
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

/* --- determinants: products whose exponents are apart --- */

__device__ inline int exponent_of(Number x) {
    const T re = fabs(x.re), im = fabs(x.im), size = re > im || isnan(im) ? re : im;
    int e = 0;
    if (size > 0 && !isinf(size)) frexp(size, &e);
    return e;
}
__device__ inline Number shifted(Number x, int e) { return {ldexp(x.re, e), ldexp(x.im, e)}; }

__device__ inline void put_determinant(const smm_cuda_args &args, const Own &o, long long q, bool singular) {
    Number p = {1, 0};
    int exponent = 0;
    for (int i = 0; i < N; i++)
        if (o.pivots[i] != i) p.re = -p.re;
    for (int i = 0; i < N; i++) {
        const int e = exponent_of(o.a(i, i));
        p = product(p, shifted(o.a(i, i), -e));
        const int g = exponent_of(p);
        p = shifted(p, -g);
        exponent += e + g;
    }
    const long long at = SMM_SOURCE_C == SMM_SOURCE_FLAT ? q : offset_of(args, args.operand[SMM_C], q);
    Number *const to = static_cast<Number *>(args.operand[SMM_C].data) + at;
    if constexpr (SMM_OP == SMM_OP_DET) {
        *to = singular ? Number{0, 0} : shifted(p, exponent);
    } else {
        constexpr double LN2 = 0.693147180559945309417;
        const T size = root(multiply_add(p.im, p.im, product(p.re, p.re)));
        const T log_size = static_cast<T>(__dadd_rn(log(static_cast<double>(size)), __dmul_rn(exponent, LN2)));
        *to = singular ? Number{0, 0} : Number{quotient_of(p.re, size), quotient_of(p.im, size)};
        *beside<T>(args, SMM_SLOGDET_logabsdet, q, 1) =
            singular ? -static_cast<T>(__longlong_as_double(0x7ff0000000000000)) : log_size;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) SMM_NAME(const __grid_constant__ smm_cuda_args args) {
    extern __shared__ __align__(16) T shared[];
    __shared__ int infos[MATRICES];
    const long long first = static_cast<long long>(blockIdx.x) * MATRICES, left = args.batch - first;
    const int count = left < MATRICES ? static_cast<int>(left) : MATRICES, own = threadIdx.x / LANES;
    const Own o(shared, own);
    load_matrices(args, shared, first, count);
    if constexpr (!FACTORS)
        for (int e = threadIdx.x; e < count * N; e += THREADS)
            Own(shared, e / N).pivots[e % N] =
                beside<const int>(args, SMM_LU_SOLVE_pivots, first + e / N,
                                  N)[e % N * (REST_FLAT ? 1 : args.operand[SMM_LU_SOLVE_pivots].row)];
    __syncthreads();
    /* The threads of matrices that the last block lacks work, too, on what is there; nobody stores it. */
    Outcome outcome;
    if constexpr (FACTORS)
        outcome = factor(o);
    else
        outcome.info = info_of_factors(o);
    if (!lane()) {
        infos[own] = outcome.info;
        if (own < count && args.operand[SMM_INFO].data) *beside<int>(args, SMM_INFO, first + own, 1) = outcome.info;
    }
    if constexpr (SOLVES) {
        const long long columns = INVERTS ? N : args.k;
#pragma unroll 1
        for (long long column = 0; column < columns; column += COLUMNS) {
            __syncthreads();
            if constexpr (INVERTS)
                for (int e = threadIdx.x; e < MATRICES * N * COLUMNS; e += THREADS)
                    Own(shared, e / (N * COLUMNS)).x(e / COLUMNS % N, e % COLUMNS) =
                        Number{static_cast<T>(e / COLUMNS % N == column + e % COLUMNS), 0};
            else
                load_columns(args, shared, first, count, column);
            __syncthreads();
            solve(o);
            __syncthreads();
            store_columns(args, shared, first, count, column, columns, infos);
        }
    } else if constexpr (SMM_OP == SMM_OP_LU) {
        __syncthreads();
        for_numbers<THREADS, SMM_SOURCE_C, SMM_ORDER_C, N * N, N, N>(
            args, SMM_C, first, count, 0, 0,
            [&](Number *to, int q, int i, int j) { *to = infos[q] ? not_a_complex_number() : Own(shared, q).a(i, j); });
        for (int e = threadIdx.x; e < count * N; e += THREADS) {
            const int q = e / N, i = e % N, info = infos[q];
            beside<int>(args, SMM_LU_pivots, first + q, N)[i * (REST_FLAT ? 1 : args.operand[SMM_LU_pivots].row)] =
                info && i + 1 >= info ? i : Own(shared, q).pivots[i];
        }
    } else if (own < count && !lane()) {
        put_determinant(args, o, first + own, outcome.singular);
    }
}
