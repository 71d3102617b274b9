/* inv_tensor.cuh: C = inverse of A, of doubles, by Gauss-Jordan elimination in place with partial pivoting, tiles in
 * registers, updated by tensor cores.
 *
 * Higham, Accuracy and Stability of Numerical Algorithms, section 14.4, a panel of 4 columns at a time. The threads of
 * a quad exchange, until each has a whole row of the panel, eliminate, and exchange back: what they have then are the
 * factors of the update. The pivot rows pass through shared memory, where a thread for each column finds what the panel
 * does to them. Every element still goes through the steps one by one, so the bits are the plain order's. No row
 * changes its place: rows and columns are exchanged as the inverse is written.
 *
 * What limits this is the bandwidth of shared memory, through which shuffles go as well.
 *
 * Grid: one block per MATRICES matrices, a warp to each. Warps have nothing to do with each other.
 * Shared memory: for each warp pivot rows of a panel, then the image of C; a list.
 * Operands: any that args.h can describe. May be in place: a warp has read its matrix before it writes.
 * Limits: 8 < n <= 32; doubles; LANES 32; MATRICES * LANES = THREADS; sm_90 to be fast. */
#include "common.cuh"
#include "lanes.cuh"
#include "pivots.cuh"

constexpr int N = SMM_N, MATRICES = SMM_MATRICES, THREADS = SMM_THREADS;

#include "tensor.cuh"

/* Shared memory of a warp: a panel's pivot rows as they are at their steps, and in the end; and the panel's own columns
 * of them, of which the diagonal are the pivots' reciprocals, left and right of it the multipliers. Later on the image
 * of C, in the order of A's rows. The pivot row of each step. */
constexpr int IN_THE_END = PANEL * PITCH, OWN = 2 * PANEL * PITCH, OWN_PITCH = PANEL * SIZE;
/* From row to row of the image: an odd number of blocks, so that neighbouring quads write to different banks. */
constexpr int IMAGE_PITCH = 8 * (BLOCKS | 1) * SIZE;
constexpr int LIST = most(OWN + PANEL * OWN_PITCH, N *IMAGE_PITCH), OF_WARP_SHARED = LIST + 32;

/* --- a panel --- */

/* Steps k .. k + PANEL of its columns. The step at which the row became a pivot row, from 1: it is one of the panel's
 * own columns then. */
template <bool BY_ALL_BITS>
__device__ inline unsigned eliminate(Pivots &pivots, Row *pivot_rows, T (&f)[PANEL], int k) {
    unsigned found_at = 0;
    pivots.begin_panel();
    if (BY_ALL_BITS) pivots.list(pivot_rows);
#pragma unroll
    for (int s = 0; s < PANEL; s++) {
        if (!has_step(k, s)) continue;
        if (BY_ALL_BITS)
            pivots.choose_by_all_bits(f[s], k + s, pivot_rows);
        else
            pivots.choose(f[s]);
        if (pivots.found) found_at = s + 1;
        const T inverse = from_lane(pivots.inverse, pivots.thread), l = product(f[s], inverse);
#pragma unroll
        for (int j = s + 1; j < PANEL; j++) {
            const T u = from_lane(f[j], pivots.thread), less = multiply_add(-l, u, f[j]);
            f[j] = pivots.found ? product(u, inverse) : less;
        }
        f[s] = pivots.found ? inverse : l;
    }
    return found_at;
}

/* The pivot rows: as each is at its step, and in the end. In the place of column c of the panel is that of the
 * identity, which step c is the first to change. */
template <int K> __device__ inline void finish(unsigned shared) {
    const int p = threadIdx.x % 32;
    if (p >= 8 * BLOCKS) return;
    const unsigned at = shared + p * SIZE;
    const int first = p / 8 == K / 8 && p % 2 == K / PANEL % 2 ? p % 8 / 2 : 0;
    T x[PANEL], own[PANEL][PANEL];
#pragma unroll
    for (int s = 0; s < PANEL; s++) {
        if (!has_step(K, s)) continue;
        x[s] = get(at + s * PITCH);
#pragma unroll
        for (int t = 0; t < PANEL; t += 2) {
            T v[2];
            get(shared + OWN + s * OWN_PITCH + t * SIZE, v);
            own[s][t] = v[0], own[s][t + 1] = v[1];
        }
    }
#pragma unroll
    for (int s = 1; s < PANEL; s++) {
        if (!has_step(K, s)) continue;
#pragma unroll
        for (int t = 0; t < s; t++)
            if (t >= first) x[s] = multiply_add(-own[s][t], x[t], x[s]);
        put(at + s * PITCH, x[s]);
    }
#pragma unroll
    for (int s = 0; s < PANEL; s++) {
        if (!has_step(K, s)) continue;
        if (s >= first) x[s] = product(x[s], own[s][s]);
#pragma unroll
        for (int t = s + 1; t < PANEL; t++)
            if (has_step(K, t) && t >= first) x[s] = multiply_add(-own[s][t], x[t], x[s]);
        put(at + IN_THE_END + s * PITCH, x[s]);
    }
}

/* What tensor cores multiply by zero: rows that are no pivot rows, in the column of() of the panel of column k, where
 * only steps from of() on count. The factors are those of all columns of the panel, in the threads of the quad. */
__device__ __noinline__ T plain_sum(unsigned right, T factor, int k) {
    T x = 0;
    for (int s = 0; s < PANEL && has_step(k, s); s++) {
        const T f = __shfl_sync(WARP, factor, 4 * quad() + s), u = get(right + s * PITCH);
        if (s >= of()) x = multiply_add(-f, u, x);
    }
    return x;
}

/* Steps K .. K + PANEL. */
template <int K> __device__ inline void take_panel(Tile &tile, unsigned shared, Row *pivot_rows, Pivots &pivots) {
    T f[PANEL];
    const unsigned found_at = rows_of_panel<K>(tile, pivots, pivot_rows, f);
    const unsigned own = shared + OWN + (found_at - 1) * OWN_PITCH;
#pragma unroll
    for (int j = 0; j < PANEL; j += 2) put_if(found_at, own + j * SIZE, {f[j], f[j + 1]});
    const unsigned found = tell_quad(found_at), before = shared + 2 * of() * SIZE - PITCH;
    exchange_in_quad(f);
#pragma unroll
    for (int r = 0; r < BLOCKS; r++) {
        const unsigned step = told(found, r);
        tile.of_panel<K>(r) = step == of() + 1;
#pragma unroll
        for (int c = 0; c < BLOCKS; c++) put_if(step, before + step * PITCH + 8 * c * SIZE, tile.x[r][c]);
    }
    __syncwarp();
    finish<K>(shared);
    __syncwarp();

    /* A step that is missing adds -0. The pivot rows have zeros where a step leaves the panel's own column alone: no
     * different, unless a factor is not finite; it shows. */
    const bool is_step = has_step(K, of());
    bool nan = false;
    T factor[PANEL];
#pragma unroll
    for (int r = 0; r < BLOCKS; r++) factor[r] = is_step ? f[r] : T(0);
#pragma unroll
    for (int c = 0; c < BLOCKS; c++)
        tile.update(c, factor, is_step ? get(shared + of() * PITCH + (8 * c + quad()) * SIZE) : T(0));
#pragma unroll
    for (int r = 0; r < BLOCKS; r++) nan |= isnan(tile.of_panel<K>(r));
    if (__builtin_expect(__any_sync(WARP, nan), 0))
#pragma unroll
        for (int r = 0; r < BLOCKS; r++)
            tile.of_panel<K>(r) = plain_sum(shared + place_of_col(K) + 2 * of() * SIZE, f[r], K);
#pragma unroll
    for (int r = 0; r < BLOCKS; r++) {
        const unsigned step = told(found, r);
#pragma unroll
        for (int c = 0; c < BLOCKS; c++) get_if(step, before + IN_THE_END + step * PITCH + 8 * c * SIZE, tile.x[r][c]);
    }
    __syncwarp();
}

/* All panels from column K on, each in a text of its own. */
template <int K> __device__ inline void eliminate_all(Tile &tile, unsigned shared, Row *pivot_rows, Pivots &pivots) {
    if constexpr (K < N) {
        take_panel<K>(tile, shared, pivot_rows, pivots);
        eliminate_all<K + PANEL>(tile, shared, pivot_rows, pivots);
    }
}

/* --- the kernel --- */

/* Row i of the inverse is the pivot row of step i; what step j made is its column of the number of that step's pivot
 * row. */
__device__ inline void write(const Tile &tile, const smm_cuda_args &args, unsigned shared, const Row *rows, int info,
                             long long matrix) {
    constexpr bool FLAT = SMM_SOURCE_C == SMM_SOURCE_FLAT && SMM_ORDER_C == SMM_ORDER_ROW;
    constexpr int SPAN = power_of_two(N), TOGETHER = 32 / SPAN;
    const smm_cuda_operand &c = args.operand[SMM_C];
    const int j = threadIdx.x % SPAN, begin = threadIdx.x % 32 / SPAN;
#pragma unroll
    for (int r = 0; r < BLOCKS; r++) {
        const int row = quad() + 8 * r;
#pragma unroll
        for (int b = 0; b < BLOCKS; b++)
            put_if(row < N, shared + row * IMAGE_PITCH + (8 * b + 2 * of()) * SIZE, tile.x[r][b]);
    }
    __syncwarp();
    if (j >= N) return;
    T *to = static_cast<T *>(c.data) + (FLAT ? matrix * (N * N) : offset_of(args, c, matrix));
    to += rows[j] * (FLAT ? 1 : c.col);
    const unsigned column = shared + place_of_col(j);
#pragma unroll
    for (int i = begin; i < N; i += TOGETHER) {
        const T x = get(column + rows[i] * IMAGE_PITCH);
        to[i * (FLAT ? N : c.row)] = info ? not_a_number() : x;
    }
}

extern "C" __global__ void BOUNDS SMM_NAME(const __grid_constant__ smm_cuda_args args) {
    extern __shared__ __align__(16) char memory[];
    const long long matrix = static_cast<long long>(blockIdx.x) * MATRICES + threadIdx.x / 32;
    if (matrix >= args.batch) return;
    char *const of_warp = memory + threadIdx.x / 32 * OF_WARP_SHARED;
    Row *const pivot_rows = reinterpret_cast<Row *>(of_warp + LIST);
    const unsigned shared = kept(shared_address(of_warp));

    Tile tile = read_tile(args, matrix);
    Pivots pivots;
    eliminate_all<0>(tile, shared, pivot_rows, pivots);
    fetch_ahead<SMM_SOURCE_A, 1, N * N>(args, args.operand[SMM_A], matrix);
    if (threadIdx.x % 32 == 0 && args.operand[SMM_INFO].data) *beside<int>(args, SMM_INFO, matrix, 1) = pivots.info;
    pivots.list(pivot_rows);
    write(tile, args, shared, pivot_rows, pivots.info, matrix);
}
