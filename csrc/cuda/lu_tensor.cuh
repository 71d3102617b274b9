/* lu_tensor.cuh: P A = L U, of doubles, tiles in registers, updated by tensor cores.
 *
 * Blocked right-looking LU (Golub and Van Loan, Matrix Computations, section 3.4.7), a panel of 4 columns at a time.
 * The threads of a quad exchange, until each has a whole row of the panel, eliminate, and exchange back: what they have
 * then are the factors of the update. Pivot rows go to shared memory, in the order of the steps, and are finished
 * there. No row moves before it is a pivot row. Every element receives its products one by one in the order of the
 * steps, so the bits are the plain order's.
 *
 * What limits this is the bandwidth of shared memory, through which shuffles go as well, and latency.
 *
 * Grid: one block per MATRICES matrices, a warp to each. Warps have nothing to do with each other.
 * Shared memory: for each warp its image; then lists.
 * Operands: any that args.h can describe. May be in place: a warp has read its matrix before it writes.
 * Limits: 8 < n <= 32; doubles; LANES 32; MATRICES * LANES = THREADS; sm_90 to be fast. */
#include "common.cuh"
#include "lanes.cuh"
#include "pivots.cuh"

constexpr int N = SMM_N, MATRICES = SMM_MATRICES, THREADS = SMM_THREADS;

#include "tensor.cuh"

/* Shared memory of a warp: the matrix in the order of its steps; the pivot row of each step; the step of each row. */
constexpr int IMAGE = N * PITCH, OF_WARP_SHARED = IMAGE + 2 * 32;
struct Places {
    unsigned image;
    Row *pivot_rows, *steps;
};

/* --- a panel --- */

/* Steps k .. k + PANEL of its columns. The step at which the row became a pivot row, from 1; then it stays as it is. */
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
        T l = product(f[s], from_lane(pivots.inverse, pivots.thread));
        if (BY_ALL_BITS) l = Divisor(from_lane(f[s], pivots.thread)).divide(f[s]);
#pragma unroll
        for (int j = s + 1; j < PANEL; j++) {
            const T less = multiply_add(-l, from_lane(f[j], pivots.thread), f[j]);
            f[j] = pivots.mask ? less : f[j];
        }
        f[s] = pivots.mask ? l : f[s];
    }
    return found_at;
}

/* Columns of rows K .. K + PANEL behind the panel become U's. */
template <int K> __device__ inline void finish(unsigned image) {
    constexpr int BEGIN = (K + PANEL) / 8 * 8; /* the first of them, or the other panel of its block */
    const int p = BEGIN + threadIdx.x % 32;
    if (p >= 8 * BLOCKS || ((K + PANEL) % 8 && p < BEGIN + 8 && p % 2 == 0)) return;
    const unsigned at = image + K * PITCH + p * SIZE, own = image + K * PITCH + place_of_col(K);
    T x[PANEL], l[PANEL][PANEL];
#pragma unroll
    for (int s = 0; s < PANEL; s++) {
        x[s] = get(at + s * PITCH);
#pragma unroll
        for (int t = 0; t < s; t++) l[s][t] = get(own + s * PITCH + 2 * t * SIZE);
    }
#pragma unroll
    for (int s = 1; s < PANEL; s++) {
#pragma unroll
        for (int t = 0; t < s; t++) x[s] = multiply_add(-l[s][t], x[t], x[s]);
        put(at + s * PITCH, x[s]);
    }
}

/* As LAPACK counts: where exchanges have brought the thread's row, and the pivot of the step of the thread's number,
 * which is where its pivot row was. */
struct Exchanges {
    int position = row(), pivot = 0;

    __device__ void take_panel(int k, unsigned found_at) {
#pragma unroll
        for (int s = 0; s < PANEL; s++) {
            if (!has_step(k, s)) continue;
            const int place = from_lane(position, __ffs(__ballot_sync(WARP, found_at == s + 1)) - 1);
            if (position == k + s) position = place;
            if (threadIdx.x % 32 == k + s) pivot = place;
        }
    }
};

/* Steps K .. K + PANEL. */
template <int K>
__device__ inline void take_panel(Tile &tile, const Places &places, Pivots &pivots, Exchanges &exchanges) {
    T f[PANEL];
    const unsigned found_at = rows_of_panel<K>(tile, pivots, places.pivot_rows, f);
    exchanges.take_panel(K, found_at);
    const unsigned before = places.image + (K - 1) * PITCH; /* row of step 0, counted from 1 */
#pragma unroll
    for (int j = 0; j < PANEL; j++) put_if(found_at, before + found_at * PITCH + place_of_col(K + j), f[j]);
    exchange_in_quad(f);
    if constexpr (K + PANEL < N) {
        const unsigned found = tell_quad(found_at);
#pragma unroll
        for (int r = 0; r < BLOCKS; r++) {
            const unsigned step = told(found, r), to = before + 2 * of() * SIZE + step * PITCH;
            if ((K + PANEL) % 8) put_if(step, to + (K / 8 * 8 + 1) * SIZE, tile.x[r][K / 8][1]);
#pragma unroll
            for (int c = K / 8 + 1; c < BLOCKS; c++) put_if(step, to + 8 * c * SIZE, tile.x[r][c]);
        }
        __syncwarp();
        finish<K>(places.image);
        __syncwarp();
#pragma unroll
        for (int c = (K + PANEL) / 8; c < BLOCKS; c++)
            tile.update(c, f, get(places.image + (K + of()) * PITCH + (8 * c + quad()) * SIZE));
    }
#pragma unroll
    for (int r = 0; r < BLOCKS; r++) tile.of_panel<K>(r) = f[r];
}

/* All panels from column K on, each in a text of its own. */
template <int K> __device__ inline void factor(Tile &tile, const Places &places, Pivots &pivots, Exchanges &exchanges) {
    if constexpr (K < N) {
        take_panel<K>(tile, places, pivots, exchanges);
        factor<K + PANEL>(tile, places, pivots, exchanges);
    }
}

/* --- what comes of it --- */

/* The factors of L that are left in the tile go to the image, of the panels before that of a row's step. */
__device__ inline void write_lower(const Places &places, const Tile &tile, const Pivots &pivots) {
    if (is_row()) places.steps[row()] = pivots.step;
    __syncwarp();
    unsigned step[BLOCKS];
#pragma unroll
    for (int r = 0; r < BLOCKS; r++) step[r] = quad() + 8 * r < N ? places.steps[quad() + 8 * r] : 0;
#pragma unroll
    for (int r = 0; r < BLOCKS; r++) {
        const unsigned to = places.image + 2 * of() * SIZE + step[r] * PITCH;
#pragma unroll
        for (int c = 0; c < BLOCKS; c++) {
            if (8 * c + 2 * PANEL < N) put_if(step[r] >= 8 * c + 2 * PANEL, to + 8 * c * SIZE, tile.x[r][c]);
            put_if(step[r] / PANEL == 2 * c + 1, to + 8 * c * SIZE, tile.x[r][c][0]);
        }
    }
    __syncwarp();
}

/* Each thread that of its step. */
__device__ inline void write_pivots(const smm_cuda_args &args, int pivot, int info, long long matrix) {
    const int k = threadIdx.x % 32;
    int *to = beside<int>(args, SMM_PIVOTS, matrix, N);
    if (k < N) to[REST_FLAT ? k : k * args.operand[SMM_PIVOTS].row] = info && k >= info - 1 ? k : pivot;
}

__device__ inline void write_image(const smm_cuda_args &args, unsigned image, int info, long long matrix) {
    constexpr bool FLAT = SMM_SOURCE_C == SMM_SOURCE_FLAT && SMM_ORDER_C == SMM_ORDER_ROW;
    constexpr int SPAN = power_of_two(N), TOGETHER = 32 / SPAN;
    const smm_cuda_operand &c = args.operand[SMM_C];
    const int j = threadIdx.x % SPAN, i = threadIdx.x % 32 / SPAN;
    T *to = static_cast<T *>(c.data) + (FLAT ? matrix * (N * N) : offset_of(args, c, matrix));
    to += FLAT ? i * N + j : i * c.row + j * c.col;
    const unsigned from = image + i * PITCH + place_of_col(j);
    if (j >= N) return;
#pragma unroll
    for (int r = 0; r < N; r += TOGETHER) {
        if (N % TOGETHER && i + r >= N) continue;
        const T x = get(from + r * PITCH);
        to[r * (FLAT ? N : c.row)] = info ? not_a_number() : x;
    }
}

extern "C" __global__ void BOUNDS SMM_NAME(const __grid_constant__ smm_cuda_args args) {
    extern __shared__ __align__(16) char memory[];
    const long long matrix = static_cast<long long>(blockIdx.x) * MATRICES + threadIdx.x / 32;
    if (matrix >= args.batch) return;
    char *const of_warp = memory + threadIdx.x / 32 * OF_WARP_SHARED;
    Row *const lists = reinterpret_cast<Row *>(of_warp + IMAGE);
    const Places places = {kept(shared_address(of_warp)), lists, lists + 32};

    Tile tile = read_tile(args, matrix);
    Pivots pivots;
    Exchanges exchanges;
    factor<0>(tile, places, pivots, exchanges);
    fetch_ahead<SMM_SOURCE_A, 1, N * N>(args, args.operand[SMM_A], matrix);
    if (threadIdx.x % 32 == 0 && args.operand[SMM_INFO].data) *beside<int>(args, SMM_INFO, matrix, 1) = pivots.info;
    if (args.operand[SMM_PIVOTS].data) write_pivots(args, exchanges.pivot, pivots.info, matrix);
    write_lower(places, tile, pivots);
    write_image(args, places.image, pivots.info, matrix);
}
