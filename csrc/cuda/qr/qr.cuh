/* qr.cuh: A = Q R by Householder reflectors in shared memory, of any shape, as kernels/qr/qr_lanes.h has it: Q and R
 * (QR), R alone (QR_R), or R above the reflectors and their tau (QR_RAW). The diagonal of R is real. By all lanes of a
 * matrix, which take its columns by turns.
 *
 * Whoever includes it has M, N and K, the number of columns of Q; operands are OperandViews (operand_view.cuh). */
#include "reflectors.cuh"

constexpr int P = min_of(M, N), PITCH = COMPLEX ? pitch_of(N) : N;

struct Work {
    Element a[M * PITCH], tau[P]; /* A by rows, then R above the reflectors, then columns of Q */
};

/* Whether something overflowed: that leaves its mark on the diagonal of R or, right of it, in the last row. */
__device__ inline bool has_overflowed(const Work &x) {
    bool finite = true;
    EACH(int k = lane(); k < P; k += LANES) finite &= is_finite(size_of(x.a[k * PITCH + k]));
    EACH(int j = P + lane(); j < N; j += LANES) finite &= is_finite(size_of(x.a[(P - 1) * PITCH + j]));
    return !true_in_all(finite);
}

/* R above the reflectors; once more from scaled elements where products of those near the largest number overflow. */
template <class A> __device__ inline void factor_safely(Work &x, const A &from) {
#pragma unroll 1
    for (T scale = 1;; scale = SCALE_AGAIN) {
        EACH(int e = lane(); e < M * N; e += LANES) x.a[e / N * PITCH + e % N] = scaled(from.get(e / N, e % N), scale);
        sync_lanes();
        factor_in_memory<M, N, PITCH>(x.a, x.tau);
        if (scale != 1) break;
        if (!has_overflowed(x)) return;
    }
    EACH(int e = lane(); e < P * N; e += LANES) {
        const int i = e / N, j = e % N;
        if (i <= j) x.a[i * PITCH + j] = scaled(x.a[i * PITCH + j], SCALE_BACK);
    }
    sync_lanes();
}

/* R above the reflectors, and their tau. */
template <class A, class C, class Tau>
__device__ inline void qr_raw(Work &x, const A &from, const C &c, const Tau &tau) {
    factor_safely(x, from);
    EACH(int e = lane(); e < M * N; e += LANES) c.put(e / N, e % N, x.a[e / N * PITCH + e % N]);
    EACH(int k = lane(); k < P; k += LANES) tau.put(k, 0, x.tau[k]);
}

template <class A, class R> __device__ inline void qr_r(Work &x, const A &from, const R &r) {
    factor_safely(x, from);
    EACH(int e = lane(); e < K * N; e += LANES) {
        const int i = e / N, j = e % N;
        r.put(i, j, i < P && i <= j ? x.a[i * PITCH + j] : element_of(0));
    }
}

/* Columns of Q that no reflector has the place of come first. */
template <class A, class Q, class R> __device__ inline void qr(Work &x, const A &from, const Q &q, const R &r) {
    qr_r(x, from, r);
    EACH(int j = P + lane(); j < K; j += LANES)
        q.template column<M>(j,
                             [&](Element *to, long long step) { form_column<M, N, PITCH>(x.a, x.tau, j, to, step); });
    sync_lanes();
    form_in_place<M, N, PITCH>(x.a, x.tau);
    EACH(int e = lane(); e < M * P; e += LANES) q.put(e / P, e % P, x.a[e / P * PITCH + e % P]);
}
