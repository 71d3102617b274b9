/* qr_numbers.cuh: QR of complex matrices by Householder's reflectors: Q and R (QR), R alone (QR_R), or R above the
 * reflectors and their tau (QR_RAW). The diagonal of R is real.
 *
 * The results are those of kernels/qr_numbers.h. A is in shared memory; a lane has columns l, l + LANES, ..., and of Q
 * one column at a time.
 *
 * Grid: one block per MATRICES matrices; LANES threads to a matrix.
 * Shared memory: of each matrix M rows of N numbers and of LANES columns of Q, rows an odd number of numbers apart, and
 * min(M, N) tau.
 * Operands: any that args.h can describe. May overwrite A in place, matrix by matrix. */
#include "common.cuh"
#include "lanes.cuh"
#include "householder.cuh"
#include "reflectors.cuh"
#include "operand_numbers.cuh"

constexpr int M = SMM_M, N = SMM_N, K = SMM_K, MATRICES = SMM_MATRICES, THREADS = SMM_THREADS, STEPS = least(M, N);
constexpr bool FORMS_Q = SMM_OP == SMM_OP_QR;
constexpr int PITCH = pitch_of(N), PITCH_Q = FORMS_Q ? pitch_of(LANES) : 0;
constexpr int NUMBERS = M * (PITCH + PITCH_Q) + STEPS;
static_assert(SMM_SHARED == MATRICES * NUMBERS * sizeof(Number), "the plan counts otherwise");

struct Own {
    Number *numbers;
    __device__ Own(T *shared, int matrix) : numbers(reinterpret_cast<Number *>(shared) + matrix * NUMBERS) {}
    __device__ Number &a(int i, int j) const { return numbers[i * PITCH + j]; }
    __device__ Number &q(int i, int c) const { return numbers[M * PITCH + i * PITCH_Q + c]; }
    __device__ Number &tau(int k) const { return numbers[M * (PITCH + PITCH_Q) + k]; }
};

__device__ inline void factor(const Own &o) { factor_numbers<M, N, PITCH>(o.numbers, &o.tau(0)); }

/* Whether nothing overflowed: that would leave what is not finite on R's diagonal, or in the last row of a wide one. */
__device__ inline bool is_finite(const Own &o) {
    bool finite = true;
    for (int k = 0; k < STEPS; k++) finite &= isfinite(size_of(o.a(k, k)));
    for (int j = STEPS; j < N; j++) finite &= isfinite(size_of(o.a(STEPS - 1, j)));
    return finite;
}

extern "C" __global__ void __launch_bounds__(THREADS) SMM_NAME(const __grid_constant__ smm_cuda_args args) {
    extern __shared__ __align__(16) T shared[];
    const long long first = static_cast<long long>(blockIdx.x) * MATRICES, left = args.batch - first;
    const int count = left < MATRICES ? static_cast<int>(left) : MATRICES, own = threadIdx.x / LANES;
    const Own o(shared, own);
    for_numbers<THREADS, SMM_SOURCE_A, SMM_ORDER_A, M * N, M, N>(
        args, SMM_A, first, count, 0, 0,
        [&](const Number *from, int q, int i, int j) { Own(shared, q).a(i, j) = *from; });
    __syncthreads();
    factor(o);
    /* Once more where it overflowed, by a power of two smaller. The others of the warp come to the same result. */
    const bool again = own < count && !is_finite(o);
    if (__any_sync(WARP, again)) {
        const smm_cuda_operand &a = args.operand[SMM_A];
        const Number *const from =
            static_cast<const Number *>(a.data) + offset_of(args, a, own < count ? first + own : 0);
        const T down = again ? SCALE_AGAIN : 1, up = again ? SCALE_BACK : 1;
        for (int e = lane(); e < M * N; e += LANES)
            o.a(e / N, e % N) = scaled(from[e / N * a.row + e % N * a.col], down);
        __syncwarp();
        factor(o);
        for (int i = 0; i < STEPS; i++)
            for (int j = i + lane(); j < N; j += LANES) o.a(i, j) = scaled(o.a(i, j), up);
    }
    __syncthreads();
    if (own < count && !lane() && args.operand[SMM_INFO].data) *beside<int>(args, SMM_INFO, first + own, 1) = 0;
    if constexpr (SMM_OP == SMM_OP_QR_RAW) {
        for_numbers<THREADS, SMM_SOURCE_C, SMM_ORDER_C, M * N, M, N>(
            args, SMM_C, first, count, 0, 0, [&](Number *to, int q, int i, int j) { *to = Own(shared, q).a(i, j); });
        const long long step = REST_FLAT ? 1 : args.operand[SMM_QR_RAW_tau].row;
        for (int e = threadIdx.x; e < count * STEPS; e += THREADS)
            beside<Number>(args, SMM_QR_RAW_tau, first + e / STEPS, STEPS)[e % STEPS * step] =
                Own(shared, e / STEPS).tau(e % STEPS);
    } else {
        constexpr int R = FORMS_Q ? int(SMM_QR_r) : int(SMM_QR_R_r);
        for_numbers<THREADS, SMM_SOURCE_REST, SMM_ORDER_ROW, K * N, K, N>(
            args, R, first, count, 0, 0, [&](Number *to, int q, int i, int j) {
                *to = i < STEPS && i <= j ? Own(shared, q).a(i, j) : Number{0, 0};
            });
    }
    if constexpr (FORMS_Q) {
#pragma unroll 1
        for (int column = 0; column < K; column += LANES) {
            form_column_of_numbers<M, N, PITCH>(o.numbers, &o.tau(0), column + lane(),
                                                [&](int i) -> Number & { return o.q(i, lane()); });
            __syncthreads();
            for_numbers<THREADS, SMM_SOURCE_C, SMM_ORDER_C, M * K, M, LANES>(args, SMM_C, first, count, 0, column,
                                                                             [&](Number *to, int q, int i, int c) {
                                                                                 if (column + c < K)
                                                                                     *to = Own(shared, q).q(i, c);
                                                                             });
            __syncthreads();
        }
    }
}
