/* matmul_one.cuh: C (M x N) = A (M x K) B (K x N) where A or B is one matrix for all, which stays in registers.
 *
 * With X the stack and ONE the other, C = X ONE, or C^T = X^T ONE^T: for each matrix P lines of C, each a line of X
 * times ONE. LANES threads take ROWS lines at a time, each thread COLS columns of ONE, which it has read once. So all
 * that is read of shared memory is X, each element for COLS products.
 * Grid: blocks that stay, each with every gridDim.x-th group of MATRICES matrices; THREADS threads.
 * Shared memory: STAGES groups, being read, multiplied and written, by bulk copies, so that threads do nothing but
 * multiply. C takes the place of X, line by line, where the two lie alike, else a place beside it.
 * Operands: X and C flat and aligned, ONE flat; C by rows. C may be X.
 * Limits: K COLS elements must fit the registers. Bulk copies: sm_90 and newer. */
#include "common.cuh"

constexpr int M = SMM_M, K = SMM_K, N = SMM_N;
constexpr int THREADS = SMM_THREADS, MATRICES = SMM_MATRICES, STAGES = SMM_STAGES, WARP = 32;
constexpr bool ONE_IS_B = SMM_SOURCE_B == SMM_SOURCE_ONE;
constexpr int P = ONE_IS_B ? M : N, Q = ONE_IS_B ? N : M; /* lines of C of a matrix, and their length */
constexpr int ROWS = ONE_IS_B ? SMM_ROWS : SMM_COLS, COLS = ONE_IS_B ? SMM_COLS : SMM_ROWS;
constexpr int LINES = MATRICES * P, LANES = ceil_div(Q, COLS), TEAMS = WARP / LANES; /* of a group; of a warp */

/* A group of matrices with P lines of DEPTH elements, which are neighbours in memory if it lies ALONG them; else a row
 * of the memory has an element of each line. */
template <bool ALONG, int DEPTH> struct Stack {
    static constexpr int MATRIX = P * DEPTH, STEP = ALONG ? 1 : P; /* from one element of a line to the next */
    static constexpr int DEEP = ALONG ? width_of(DEPTH) : 1, WIDE = ALONG ? 1 : min_of(width_of(P), width_of(ROWS));

    __device__ static int begin(int line) { return ALONG ? line * DEPTH : line / P * MATRIX + line % P; }

    /* By one thread, which moves by itself what is less than a vector, at the end of all. */
    __device__ static void fetch(T *image, const T *from, int matrices, Arrival *arrival) {
        const int elements = matrices * MATRIX, whole = elements / VECTOR * VECTOR;
        for (int e = whole; e < elements; e++) image[e] = from[e];
        expect(arrival, whole * sizeof(T));
        if (whole) copy_bulk(image, from, whole * sizeof(T), arrival);
    }
    __device__ static void send(T *to, const T *image, int matrices) {
        const int elements = matrices * MATRIX, whole = elements / VECTOR * VECTOR;
        for (int e = whole; e < elements; e++) to[e] = image[e];
        if (whole) store_bulk(to, image, whole * sizeof(T));
    }
};
constexpr bool X_ALONG = ONE_IS_B ? SMM_ORDER_A == SMM_ORDER_ROW : SMM_ORDER_B == SMM_ORDER_COL, C_ALONG = ONE_IS_B;
constexpr bool ONE_ALONG_K = ONE_IS_B ? SMM_ORDER_B == SMM_ORDER_COL : SMM_ORDER_A == SMM_ORDER_ROW;
typedef Stack<X_ALONG, K> StackX;
typedef Stack<C_ALONG, Q> StackC;
constexpr bool IN_PLACE = X_ALONG == C_ALONG && K == Q;
constexpr int PLACE_C = IN_PLACE ? 0 : MATRICES * StackX::MATRIX, STAGE = PLACE_C + MATRICES * StackC::MATRIX;
static_assert(SMM_SHARED == STAGES * STAGE * sizeof(T), "the plan counts otherwise");

/* Neighbouring lanes are of one team where C lies along its lines, else of one column: they write neighbours. */
constexpr int APART = C_ALONG ? 1 : TEAMS;
__host__ __device__ constexpr unsigned mates(int lane = 0) {
    return lane < LANES ? 1u << lane * APART | mates(lane + 1) : 0;
}

/* A thread's part of the lines of a group. */
__device__ inline void multiply(const T *x, T *c, const T (&one)[K][COLS]) {
    constexpr int DEEP = StackX::DEEP, WIDE = StackX::WIDE;
    const int lane = threadIdx.x % WARP, q = lane / APART % LANES, mate = C_ALONG ? lane / LANES : lane % TEAMS;
    const int team = threadIdx.x / WARP * TEAMS + mate;
    if (lane >= TEAMS * LANES) return;
    for (int line = team * ROWS; line < LINES; line += THREADS / WARP * TEAMS * ROWS) {
        T sum[ROWS][COLS];
        int at[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; r += WIDE) at[r] = StackX::begin(min_of(line + r, LINES - WIDE));
#pragma unroll
        for (int k = 0; k < K; k += DEEP) {
            T y[ROWS][DEEP];
#pragma unroll
            for (int r = 0; r < ROWS; r += WIDE) {
                const Vector<WIDE * DEEP> v = load<WIDE * DEEP>(x + at[r] + k * StackX::STEP);
#pragma unroll
                for (int e = 0; e < WIDE * DEEP; e++) y[r + e / DEEP][e % DEEP] = v.x[e];
            }
#pragma unroll
            for (int e = 0; e < DEEP; e++)
#pragma unroll
                for (int r = 0; r < ROWS; r++)
#pragma unroll
                    for (int j = 0; j < COLS; j++)
                        sum[r][j] = k + e == 0 ? product(y[r][e], one[k + e][j])
                                               : multiply_add(y[r][e], one[k + e][j], sum[r][j]);
        }
        if (IN_PLACE) __syncwarp(mates() << (lane - q * APART)); /* all have read what they overwrite */
#pragma unroll
        for (int r = 0; r < ROWS; r += StackC::WIDE)
#pragma unroll
            for (int j = 0; j < COLS; j++) {
                Vector<StackC::WIDE> v;
#pragma unroll
                for (int e = 0; e < StackC::WIDE; e++) v.x[e] = sum[r + e][j];
                const int col = q + j * LANES;
                if (line + r < LINES && (LANES * COLS == Q || col < Q))
                    store<StackC::WIDE>(c + StackC::begin(line + r) + col * StackC::STEP, v);
            }
    }
}

extern "C" __global__ void BOUNDS SMM_NAME(const __grid_constant__ smm_cuda_args args) {
    extern __shared__ __align__(16) T shared[];
    __shared__ Arrival arrived[STAGES];
    const T *x = static_cast<const T *>(args.operand[ONE_IS_B ? SMM_A : SMM_B].data);
    const T *from = static_cast<const T *>(args.operand[ONE_IS_B ? SMM_B : SMM_A].data);
    T *c = static_cast<T *>(args.operand[SMM_C].data);
    const auto count = [&](long long first) {
        return static_cast<int>(args.batch - first < MATRICES ? args.batch - first : MATRICES);
    };
    const auto fetch = [&](long long first, int stage) {
        if (first < args.batch)
            StackX::fetch(shared + stage * STAGE, x + first * (P * K), count(first), &arrived[stage]);
    };
    const long long next = static_cast<long long>(gridDim.x) * MATRICES; /* from a block's group to its next */
    const long long begin = static_cast<long long>(blockIdx.x) * MATRICES;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) begin_arrivals(&arrived[s]);
        for (int s = 0; s < STAGES - 1; s++) fetch(begin + s * next, s);
    }
    T one[K][COLS];
#pragma unroll
    for (int k = 0; k < K; k++)
#pragma unroll
        for (int j = 0; j < COLS; j++) {
            const int col = min_of(threadIdx.x % WARP / APART % LANES + j * LANES, Q - 1);
            one[k][j] = from[ONE_ALONG_K ? col * K + k : k * Q + col];
        }
    __syncthreads();

    int stage = 0, parity = 0;
    for (long long first = begin; first < args.batch; first += next) {
        T *image = shared + stage * STAGE;
        wait_for(&arrived[stage], parity);
        multiply(image, image + PLACE_C, one);
        written_for_bulk();
        __syncthreads();
        if (threadIdx.x == 0) {
            StackC::send(c + first * (P * Q), image + PLACE_C, count(first));
            stores_have_read<1>(); /* of the group before: its place is free */
            fetch(first + (STAGES - 1) * next, (stage + STAGES - 1) % STAGES);
        }
        stage = (stage + 1) % STAGES;
        parity ^= stage == 0;
    }
    if (threadIdx.x == 0) stores_have_read<0>();
}
