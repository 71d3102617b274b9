/* qr_of_numbers.cuh: QR of complex matrices by Householder's reflectors, as kernels/qr_numbers.h has it, in shared
 * memory. The diagonal of R is real. A lane has columns l, l + LANES, ..., and of Q one column at a time. */
#include "reflectors.cuh"

constexpr int M = SMM_M, N = SMM_N, K = SMM_K, STEPS = least(M, N);
constexpr bool FORMS_Q = SMM_OP == SMM_OP_QR;
constexpr int PITCH = pitch_of(N), PITCH_Q = FORMS_Q ? pitch_of(LANES) : 0;
constexpr int NUMBERS = M * (PITCH + PITCH_Q) + STEPS;

struct Own {
    Number *numbers;
    __device__ Number &a(int i, int j) const { return numbers[i * PITCH + j]; }
    __device__ Number &q(int i, int c) const { return numbers[M * PITCH + i * PITCH_Q + c]; }
    __device__ Number &tau(int k) const { return numbers[M * (PITCH + PITCH_Q) + k]; }
};

__device__ inline void factor(const Own &o) { factor_in_memory<M, N, PITCH>(o.numbers, &o.tau(0)); }

/* Whether nothing overflowed: that would leave what is not finite on R's diagonal, or in the last row of a wide one. */
__device__ inline bool is_finite(const Own &o) {
    bool finite = true;
    for (int k = 0; k < STEPS; k++) finite &= isfinite(size_of(o.a(k, k)));
    for (int j = STEPS; j < N; j++) finite &= isfinite(size_of(o.a(STEPS - 1, j)));
    return finite;
}

/* R above the reflectors. Once more where it overflowed, of from(i, j) by a power of two smaller; then the others of
 * the warp come to the same result. */
template <class From> __device__ inline void factor_safely(const Own &o, bool counts, From from) {
    factor(o);
    const bool again = counts && !is_finite(o);
    if (__any_sync(WARP, again)) {
        const T down = again ? SCALE_AGAIN : 1, up = again ? SCALE_BACK : 1;
        for (int e = lane(); e < M * N; e += LANES) o.a(e / N, e % N) = scaled(from(e / N, e % N), down);
        __syncwarp();
        factor(o);
        for (int i = 0; i < STEPS; i++)
            for (int j = i + lane(); j < N; j += LANES) o.a(i, j) = scaled(o.a(i, j), up);
    }
}

/* This lane's column of Q of those from `first` on. */
__device__ inline void form_own_column(const Own &o, int first) {
    form_column<M, N, PITCH>(o.numbers, &o.tau(0), first + lane(), &o.q(0, lane()), PITCH_Q);
}
