/* inv_steps.cuh: the inverse of real matrices, as steps.cuh says. */
#include "../math/inverse.h"

/* Gauss-Jordan elimination in place, from order 4 on of the transpose (inverse.h); scratch also has the pivots. A zero
 * pivot is taken to be as small as rounding errors are. Where the result may be that of a singular matrix, LU says. */
template <int FORM, int M, int N, int K, class A, class To, class Info, class X>
inline void step_inv(A a, To inverse, Info info, X *scratch, int lane) {
    constexpr bool DIRECT = N <= SMM_INV_DIRECT;
    constexpr X SUSPECT_LIMIT = SMM_SUSPECT_LIMIT(X), MIN_SQUARES = SMM_MIN_SQUARES(X);
    const View<X, N, 1> work = {scratch};
    X *const pivots = scratch + N * N;
    copy_matrix<N, N>(work, transposed_if<!DIRECT>(a), lane);
    SYNC_LANES();
    X size = 0, largest = 0;
    bool suspect = false, nan = false;
#pragma unroll UNROLL
    for (int k = 0; k < N; k++) {
        int p = k;
        X pivot = work(k, k);
#pragma unroll INNER
        for (int i = k + 1; i < N; i++) {
            const X x = work(i, k);
            const bool larger = fabs(x) > fabs(pivot);
            pivot = larger ? x : pivot;
            p = larger ? i : p;
        }
        const X r = 1 / (pivot == 0 && !DIRECT ? X(size * X(SMM_ROUNDOFF(X))) : pivot);
        suspect |= DIRECT ? !is_normal(r) : pivot == 0;
        size = fmax(size, fabs(pivot));
        if (lane == 0) pivots[k] = p;
        SYNC_LANES();
        exchange_rows<N, N>(work, k, p, lane);
        SYNC_LANES();
#pragma unroll UNROLL
        for (int i = lane; i < N; i += LANES) {
            if (i == k) continue;
            const X f = work(i, k) * r;
#pragma unroll INNER
            for (int j = 0; j < N; j++)
                work(i, j) = multiply_add(-f, j == k ? X(1) : work(k, j), j == k ? X(0) : work(i, j));
        }
        SYNC_LANES();
#pragma unroll INNER
        for (int j = lane; j < N; j += LANES) work(k, j) = (j == k ? X(1) : work(k, j)) * r;
        SYNC_LANES();
    }
    /* This is the inverse of P A: the inverse of A has its columns exchanged. Each thread has whole rows. */
#pragma unroll UNROLL
    for (int i = lane; i < N; i += LANES)
#pragma unroll UNROLL
        for (int k = N - 1; k >= 0; k--) {
            const int p = static_cast<int>(pivots[k]);
            if constexpr (LANES == 1) {
#pragma unroll
                for (int j = 0; j < N; j++) {
                    if (j <= k) continue;
                    const X x = work(i, k), y = work(i, j);
                    work(i, k) = j == p ? y : x;
                    work(i, j) = j == p ? x : y;
                }
            } else {
                const X x = work(i, k);
                work(i, k) = work(i, p);
                work(i, p) = x;
            }
        }
    SYNC_LANES();
    const bool overflows = !DIRECT && isinf(size);
#pragma unroll INNER
    for (int e = 0; e < N * N; e++) {
        const X x = scratch[e];
        nan |= overflows || isnan(x);
        largest = fmax(largest, fabs(x));
    }
    suspect |= nan || (!DIRECT && (N * largest * size >= SUSPECT_LIMIT || largest * largest <= MIN_SQUARES));
    SYNC_LANES();
    copy_matrix<N, N>(transposed_if<!DIRECT>(inverse), work, lane);
    SYNC_LANES();
    int failed = 0;
    bool any = suspect;
    if constexpr (LANES > 1) any = __any_sync(~0u, suspect);
    if (any) {
        copy_matrix<N, N>(work, a, lane);
        SYNC_LANES();
        bool finite = true;
#pragma unroll INNER
        for (int e = 0; e < N * N; e++) finite &= (bool)isfinite(scratch[e]);
        SYNC_LANES();
        const Factors f = factor<N>(work, lane, [](int, int) {});
        if (suspect) failed = f.info ? f.info : nan && finite ? N : 0;
    }
    if (failed || overflows) fill<N, N>(inverse, lane, not_a_number(X()));
    put_info(info, lane, failed);
}
