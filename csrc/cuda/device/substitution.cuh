/* substitution.cuh: X = T^-1 X, T triangular, of several right-hand sides, OWN of which a lane has to itself at a time.
 *
 * T lies in shared memory by lines of PITCH elements, which are its rows or its columns, and is read by vectors of
 * WIDTH along them. Either way every element of X takes its products in the order of the steps. */

template <bool LOWER, bool BY_ROWS, int WIDTH, int PITCH, int N, int COUNT, class Finish>
__device__ inline void substitute(const T *t, Vector<COUNT> (&x)[N], Finish finish) {
    const auto subtract = [&](T factor, int j, int i) {
#pragma unroll
        for (int e = 0; e < COUNT; e++) x[i].x[e] = multiply_add(-factor, x[j].x[e], x[i].x[e]);
    };
    constexpr int BLOCKS = ceil_div(N, WIDTH);
    if constexpr (BY_ROWS) { /* WIDTH columns of T after the other, in rows that still wait for them */
#pragma unroll
        for (int block = 0; block < BLOCKS; block++) {
            const int k = (LOWER ? block : BLOCKS - 1 - block) * WIDTH;
#pragma unroll
            for (int row = 0; row < N; row++) {
                const int i = LOWER ? row : N - 1 - row;
                if (LOWER ? i < k : i >= k + WIDTH) continue;
                const Vector<WIDTH> v = load<WIDTH>(t + i * PITCH + k);
#pragma unroll
                for (int step = 0; step < WIDTH; step++) {
                    const int s = LOWER ? step : WIDTH - 1 - step, j = k + s;
                    if (j < N && (LOWER ? j < i : j > i)) subtract(v.x[s], j, i);
                }
                if (LOWER ? i < k + WIDTH : i >= k) finish(i);
            }
        }
    } else { /* a column of T after the other */
#pragma unroll
        for (int step = 0; step < N; step++) {
            const int j = LOWER ? step : N - 1 - step;
            finish(j);
#pragma unroll
            for (int k = 0; k < N; k += WIDTH) {
                if (LOWER ? k + WIDTH - 1 <= j : k >= j) continue;
                const Vector<WIDTH> v = load<WIDTH>(t + j * PITCH + k);
#pragma unroll
                for (int s = 0; s < WIDTH; s++) {
                    const int i = k + s;
                    if (i < N && (LOWER ? i > j : i < j)) subtract(v.x[s], j, i);
                }
            }
        }
    }
}

/* --- from the reciprocals of the diagonal --- */

constexpr int OWN = 2;

__device__ __noinline__ T rare_quotient(T x, T y) { return quotient_of(x, y); }

/* x / p, where the reciprocal is known. */
__device__ inline T divide(T x, T reciprocal, const T &p) {
    return __builtin_expect(is_normal(reciprocal), 1) ? product(x, reciprocal) : rare_quotient(x, p);
}

/* T's rows are PITCH elements apart, or its columns. */
template <bool LOWER, bool BY_ROWS, int WIDTH, int PITCH, int N>
__device__ inline void substitute(const T *t, const T *reciprocals, Vector<OWN> (&x)[N]) {
    substitute<LOWER, BY_ROWS, WIDTH, PITCH>(t, x, [&](int i) {
        const T r = reciprocals[i];
#pragma unroll
        for (int e = 0; e < OWN; e++) x[i].x[e] = divide(x[i].x[e], r, t[i * (PITCH + 1)]);
    });
}
