/* mixed.cuh: a matrix of mixed_lanes.cuh: its factors in float32, corrections by them, and residuals in float64; the
 * algorithm and its order of operations are those of csrc/reference/mixed.c. */

/* --- over the lanes of a matrix --- */

__device__ inline bool any_lane(bool x) { return LANES == 1 ? x : (__ballot_sync(WARP, x) & same_matrix()) != 0; }

/* The larger magnitude, NaN if one is. */
__device__ inline T larger(T x, T y) { return magnitude(y) > magnitude(x) ? y : x; }
__device__ inline T largest(T x) {
#pragma unroll
    for (int bits = LANES / 2; bits > 0; bits /= 2) x = larger(x, shuffle_xor(x, bits));
    return fabs(x);
}

/* --- a matrix --- */

constexpr bool HOLDS = !SMM_REFETCH; /* A, in registers */

/* x / size, narrowed: by the reciprocal, unless the quotient is so close to where float32 rounds to another number that
 * its error tells, or is subnormal there; or the reciprocal is NaN. */
__device__ inline float narrowed_quotient(T x, T size, T inverse) {
    constexpr unsigned HALF = 1u << 28, NEAR = 8; /* of the bits that float32 lacks; units of the last one */
    const T y = product(x, inverse);
    const unsigned rest = static_cast<unsigned>(magnitude(y)) & (2 * HALF - 1);
    const bool is_sure = rest - (HALF - NEAR) > 2 * NEAR && fabs(y) > __longlong_as_double(0x3810000000000000);
    return static_cast<float>(__builtin_expect(is_sure, 1) ? y : quotient_of(x, size));
}

struct System {
    const MixedWorkspace o;
    float lu[ROWS][N];                /* L and U, or L and L^T */
    float pivot[ROWS], inverse[ROWS]; /* the diagonal of U, or of L */
    T held[HOLDS ? ROWS : 1][N];
    int source[ROWS]; /* the rows of A */
    T bound;          /* of residuals, for solutions of size 1 */
    int code;         /* the steps, or why A is to be solved in float64 */
    bool rare;        /* some inverse, of a matrix of the warp, is not as exact as numbers are */

    __device__ System(const MixedWorkspace &own_memory, bool is_needed) : o(own_memory) {
        T norm = 0;
        bool overflowed = false, finite = true;
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            T sum = 0;
#pragma unroll
            for (int j = 0; j < N; j++) {
                const T x = o.in_double().a(own(r), j);
                lu[r][j] = static_cast<float>(x);
                sum = sum + fabs(x);
                overflowed |= isinf(lu[r][j]);
                finite &= isfinite(x);
            }
            norm = larger(norm, sum);
        }
        bound = product(largest(norm), product(UNIT, root(T(N))));
        overflowed = any_lane(overflowed);
        finite = !any_lane(!finite);
        const bool failed = narrow::factor(o.factors, lu, source);
        code = (overflowed && finite) || !is_needed ? OVERFLOWED : failed ? SINGULAR : 0;
        rare = false;
        __syncwarp();
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            pivot[r] = LANES == 1 ? lu[r][min_of(r, N - 1)] : o.factors[own(r) * (LINE + 1)];
            inverse[r] = narrow::reciprocal(pivot[r]);
            rare |= !narrow::is_normal(inverse[r]);
#pragma unroll
            for (int j = 0; j < (HOLDS ? N : 0); j++) held[r][j] = o.in_double().a(source[r], j);
        }
        if (LANES > 1) {
            rare = __any_sync(WARP, rare);
            __syncwarp();
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                if (is_row(r)) o.factors[row_of(r) * (LINE + 1)] = inverse[r];
            __syncwarp();
        }
        compiler_barrier(); /* or the compiler would read A anew */
    }

    __device__ T a(int r, int j) const { return HOLDS ? held[HOLDS ? r : 0][j] : o.in_double().a(source[r], j); }

    /* x becomes the solution of a triangular system: FEW elements at a time are solved for by all lanes alike, which so
     * have to be told only what those begin with. */
    template <bool LOWER, bool RARE> __device__ void substitute(float (&x)[ROWS]) const {
        constexpr bool DIVIDES = POSITIVE || !LOWER;
        constexpr int FEW = LANES == 1 ? 1 : 4;
        const auto divided = [](float y, float of_pivot, float p) {
            if (RARE && !narrow::is_normal(of_pivot)) return narrow::rare_quotient(y, p);
            return narrow::product(y, of_pivot);
        };
#pragma unroll
        for (int turn = 0; turn < N; turn += FEW) {
            const int k = LOWER ? turn : (N - 1) / FEW * FEW - turn;
            float y[FEW];
#pragma unroll
            for (int e = 0; e < FEW; e++)
                if (k + e < N) y[e] = from_lane(x[min_of(k + e, N - 1) / LANES], (k + e) % LANES);
#pragma unroll
            for (int step = 0; step < FEW; step++) {
                const int e = LOWER ? step : FEW - 1 - step, i = min_of(k + e, N - 1);
                if (k + e >= N) continue;
                narrow::Vector<FEW, float> l;
                if (LANES > 1) l = narrow::load<FEW>(o.factors + i * LINE + k);
#pragma unroll
                for (int before = 0; before < step; before++) {
                    const int t = LOWER ? before : FEW - 1 - before;
                    if (k + t < N) y[e] = narrow::multiply_add(-l.x[t], y[t], y[e]);
                }
                if (DIVIDES && LANES == 1) y[e] = divided(y[e], inverse[i / LANES], pivot[i / LANES]);
                if (DIVIDES && LANES > 1)
                    y[e] = divided(y[e], l.x[e], RARE ? from_lane(pivot[i / LANES], i % LANES) : 0);
#pragma unroll
                for (int r = 0; r < ROWS; r++) {
                    const int nearest = LOWER ? r * LANES + LANES - 1 : r * LANES,
                              farthest = LOWER ? r * LANES : r * LANES + LANES - 1;
                    if (LOWER ? nearest <= i : nearest >= i) continue;
                    const float less = narrow::multiply_add(-lu[r][i], y[e], x[r]);
                    if ((LOWER ? farthest > i : farthest < i) || (LOWER ? row_of(r) > i : row_of(r) < i)) x[r] = less;
                }
            }
        }
#pragma unroll
        for (int r = 0; r < ROWS && DIVIDES; r++) x[r] = divided(x[r], inverse[r], pivot[r]);
    }

    /* x becomes the solution by the factors. */
    __device__ void solve(float (&x)[ROWS]) const {
        if (__builtin_expect(rare, 0)) {
            substitute<true, true>(x);
            substitute<false, true>(x);
        } else {
            substitute<true, false>(x);
            substitute<false, false>(x);
        }
    }

    /* r = b - A x */
    __device__ void find_residual(const T (&b)[ROWS], const T (&x)[ROWS], T (&r)[ROWS]) const {
        T sum[ROWS] = {};
        if (!HOLDS) compiler_barrier(); /* or the compiler would hold A all the same */
        if (LANES > 1) {
            __syncwarp();
#pragma unroll
            for (int e = 0; e < ROWS; e++)
                if (is_row(e)) o.x[row_of(e)] = x[e];
            __syncwarp();
        }
#pragma unroll(HOLDS || LANES == 1 ? N : 4)
        for (int j = 0; j < N; j++) {
            const T y = LANES == 1 ? x[LANES == 1 ? j : 0] : o.x[j];
#pragma unroll
            for (int e = 0; e < ROWS; e++) sum[e] = multiply_add(a(e, j), y, sum[e]);
        }
#pragma unroll
        for (int e = 0; e < ROWS; e++) r[e] = b[e] - sum[e];
    }

    /* x, the solution of b, unless `code` says that there is none; b is in the order of the factors, x is not. */
    __device__ void refine(const T (&b)[ROWS], T (&x)[ROWS]) {
        T r[ROWS], left = 0;
        bool ended = code < 0;
#pragma unroll
        for (int e = 0; e < ROWS; e++) x[e] = 0, r[e] = b[e], left = larger(left, r[e]);
        left = largest(left);
#pragma unroll 1
        for (int step = 0; step <= STEPS && (LANES == 1 ? !ended : __any_sync(WARP, !ended)); step++) {
            const T size = left > 0 && isfinite(left) ? left : T(1), back = ::reciprocal(size);
            const T inverse = is_normal(back) ? back : not_a_number();
            float d[ROWS];
#pragma unroll
            for (int e = 0; e < ROWS; e++) d[e] = narrowed_quotient(r[e], size, inverse);
            solve(d);
#pragma unroll
            for (int e = 0; e < ROWS; e++) x[e] = ended ? x[e] : x[e] + product(T(d[e]), size);
            find_residual(b, x, r);
            bool small = false; /* below the bound of the largest |x| */
            left = 0;
#pragma unroll
            for (int e = 0; e < ROWS; e++) left = larger(left, r[e]);
            left = largest(left);
#pragma unroll
            for (int e = 0; e < ROWS; e++) small |= is_row(e) && left <= product(fabs(x[e]), bound);
            if (any_lane(small) && !ended) code = max_of(code, step), ended = true;
            if (!ended && !isfinite(left)) code = NOT_CONVERGED, ended = true;
        }
        if (!ended) code = NOT_CONVERGED;
    }
};
