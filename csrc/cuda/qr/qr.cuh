/* qr.cuh: what qr_columns.cuh does, in shared memory, for any shape: not fast, the same bits. By all lanes of a matrix,
 * which take its columns by turns.
 *
 * Whoever includes it has M, N and K, the number of columns of Q; operands are Places (place.cuh). */
constexpr int P = least(M, N);

struct Work {
    T a[M * N], tau[P]; /* A by rows, then R above the reflectors */
};

/* R above the reflectors, and their tau. */
template <class A, class C, class Tau>
__device__ inline void qr_raw(Work &x, const A &from, const C &c, const Tau &tau) {
    factor_safely<M, N>(x.a, x.tau, from);
    EACH(int e = lane(); e < M * N; e += LANES) c.put(e / N, e % N, x.a[e]);
    EACH(int k = lane(); k < P; k += LANES) tau.put(k, 0, x.tau[k]);
}

template <class A, class R> __device__ inline void qr_r(Work &x, const A &from, const R &r) {
    factor_safely<M, N>(x.a, x.tau, from);
    EACH(int e = lane(); e < K * N; e += LANES) {
        const int i = e / N, j = e % N;
        r.put(i, j, i <= j ? x.a[e] : T(0));
    }
}

template <class A, class Q, class R> __device__ inline void qr(Work &x, const A &from, const Q &q, const R &r) {
    qr_r(x, from, r);
    EACH(int j = lane(); j < K; j += LANES)
        q.template column<M>(j, [&](T *to, long long step) { form_column<M, N>(x.a, x.tau, j, to, step); });
}
