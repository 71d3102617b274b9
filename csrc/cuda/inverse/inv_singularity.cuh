/* inv_singularity.cuh: whether a matrix is singular, where its inverse leaves it open; as singular.c. For warps
 * with several matrices. Whoever includes this has defined N. */
#include "../math/inverse.h"

/* Whether A itself is eliminated, or its transpose. How what is eliminated, and what becomes of it, lies in memory. */
constexpr bool DIRECT = N <= SMM_INV_DIRECT;
constexpr bool A_BY_COLUMNS = SMM_SOURCE_A == SMM_SOURCE_FLAT && (SMM_ORDER_A == SMM_ORDER_ROW) != DIRECT;
constexpr bool C_BY_COLUMNS = SMM_SOURCE_C == SMM_SOURCE_FLAT && (SMM_ORDER_C == SMM_ORDER_ROW) != DIRECT;

/* What is known of the pivots of a matrix, and in the end of its inverse. */
struct SingularityTest {
    T size = 0;            /* the largest magnitude of a pivot */
    T squares = 0;         /* a thread's part of the sum of squares of the inverse */
    bool singular = false; /* a pivot was zero or, of small orders, had no exact reciprocal */

    /* What takes the place of a zero pivot: as small as rounding errors of the largest. */
    __device__ T min_pivot() const { return product(size, T(SMM_ROUNDOFF(T))); }

    /* The reciprocal of the next pivot. */
    __device__ T invert(T pivot) {
        const T inverse = reciprocal(DIRECT || pivot != 0 ? pivot : min_pivot());
        singular |= DIRECT ? !is_normal(inverse) : pivot == 0;
        if (!DIRECT) size = fmax(size, fabs(pivot));
        return inverse;
    }
    __device__ void add(T x) { squares = multiply_add(x, x, squares); }

    /* After all of the matrix's threads have added up their squares. */
    __device__ bool is_suspect() const {
        constexpr T SUSPECT_LIMIT = SMM_SUSPECT_LIMIT(T);
        const bool small = product(product(squares, size), size) < SUSPECT_LIMIT * SUSPECT_LIMIT;
        return singular || (DIRECT ? isnan(squares) : !(small && squares > T(SMM_MIN_SQUARES(T))));
    }
    __device__ bool overflowed() const { return isnan(squares) || isinf(size); }
};

/* info of LU of matrix q, a row of which each thread of the warp has: rare, so it stays out of the kernel's text. -1:
 * it is 0, and all elements are finite. */
__device__ __noinline__ int info_of_lu(const smm_cuda_args &args, long long q) {
    const smm_cuda_operand &a = args.operand[SMM_A];
    const InMemory *from = static_cast<const InMemory *>(a.data) + offset_of(args, a, q);
    const int row = threadIdx.x % 32, place = min_of(row, N - 1);
    T x[N];
    bool finite = true;
#pragma unroll 1
    for (int j = 0; j < N; j++) {
        x[j] = from[place * a.row + j * a.col];
        finite &= isfinite(x[j]);
    }
#pragma unroll 1
    for (int k = 0; k < N; k++) {
        Search search = {row < k || row >= N || (isnan(x[k]) && row != k) ? 0 : magnitude(x[k]),
                         row < k || row >= N ? N : row};
#pragma unroll 1
        for (int bits = 16; bits > 0; bits /= 2) search.consider_found(bits);
        const int from_row = search.first;
        const T pivot = __shfl_sync(WARP, x[k], from_row);
        if (is_useless(pivot)) return k + 1;
        const T left = __shfl_sync(WARP, x[k], k);
        const T l = Divisor(pivot).divide(row == from_row ? left : x[k]);
#pragma unroll 1
        for (int j = k; j < N; j++) {
            const T old = __shfl_sync(WARP, x[j], k), u = __shfl_sync(WARP, x[j], from_row);
            const T mine = row == from_row ? old : x[j];
            x[j] = row == k ? u : row > k ? multiply_add(-l, u, mine) : mine;
        }
    }
    return -__all_sync(WARP, finite);
}

/* Gives the thread's matrix, which is number `mine` of the `count` that the warp has from matrix `first` on, its info:
 * one thread of a matrix writes, and each has the same test. Whether the inverse is to become NaN. */
__device__ inline bool confirm_singular(const smm_cuda_args &args, long long first, int count, int mine, bool writes,
                                        const SingularityTest &test) {
    const bool suspect = test.is_suspect();
    int info = 0;
    if (__builtin_expect(__any_sync(WARP, suspect), 0))
#pragma unroll 1
        for (int m = 0; m < count; m++) {
            if (!__any_sync(WARP, suspect && mine == m)) continue;
            const int its = info_of_lu(args, first + m);
            if (mine == m) info = its >= 0 ? its : test.overflowed() ? N : 0;
        }
    if (writes && mine < count && args.operand[SMM_INFO].data) *beside<int>(args, SMM_INFO, first + mine, 1) = info;
    return info || isinf(test.size);
}
