/* matmul_tiled.cuh: C (m x n) = alpha A (m x k) B (k x n) + beta C of any sizes, which are known when it runs; and
 * convolutions, whose B is the im2col matrix of images, gathered as it is read.
 *
 * LANES threads, a slice of a block, have a tile of C in registers. DEPTH columns of A and rows of B at a time come
 * through registers to shared memory, the next ones while these are multiplied.
 * Order of operations: a_i0 b_0j, then fma(a_ik, b_kj, sum) for k = 1, 2, ...; of more than SUM_DEEP terms chunks of
 * SUM_CHUNK, added in a binary tree by index. Which block, slice or launch adds which chunks changes no bit, since each
 * has a power of two of them.
 *
 * Grid: as matmul_tiles.cuh says.
 * Shared memory: for each slice two panels of A and of B; then, in their place, the sums of the slices.
 * Operands: any strides; C must overlap neither A nor B. */
#include "common.cuh"
#include "matmul_tiles.cuh"

/* Tensor cores multiply blocks of doubles, if a slice has whole warps of 8 x 4 threads. They round each product and sum
 * as fma does, in the order of k (inverse/inv_tensor.cuh says more). */
constexpr bool TENSOR = sizeof(T) == 8 && __CUDA_ARCH__ >= 900 && LANES % 32 == 0 && ACROSS % 4 == 0 &&
                        LANES / ACROSS % 8 == 0 && COLS % 2 == 0 && DEPTH % 4 == 0;
constexpr int UNROLL = least(DEPTH, 8);

/* What adds nothing to a sum, not even to one of -0: beyond the last term. */
constexpr T NONE_OF_A = -T(0), NONE_OF_B = T(0);

/* Who reads which elements of a panel of LINES rows of A (columns of B): neighbouring lanes read neighbours in memory,
 * which are terms if it lies ALONG them, else lines. */
template <int LINES, bool ALONG> struct Panel {
    /* Vectors are aligned; what tensor cores take of four terms lies in different banks. */
    static constexpr int PITCH = TENSOR ? ceil_div(LINES, 16) * 16 + 4 : ceil_div(LINES, VECTOR) * VECTOR + VECTOR;
    static constexpr int ELEMENTS = DEPTH * PITCH;
    /* Lanes with one term. Beyond 8 terms or 32 lines side by side, what they write would meet in few banks. */
    static constexpr int WISHED = ALONG ? LANES / least(8, least(DEPTH, LANES)) : least(32, LANES);
    static constexpr int TEAM = most(least(WISHED, power_of_two(LINES)), LANES / DEPTH), TEAMS = LANES / TEAM;
    static constexpr int TERMS = DEPTH / TEAMS, COUNT = ceil_div(LINES, TEAM);

    T x[TERMS][COUNT];

    __device__ static int term(int lane, int t) { return (ALONG ? lane % TEAMS : lane / TEAM) + t * TEAMS; }
    __device__ static int line(int lane, int l) { return (ALONG ? lane / TEAMS : lane % TEAM) + l * TEAM; }

    __device__ void put(T *panel, int lane) const {
#pragma unroll
        for (int t = 0; t < TERMS; t++)
#pragma unroll
            for (int l = 0; l < COUNT; l++)
                if (COUNT * TEAM == LINES || line(lane, l) < LINES)
                    panel[term(lane, t) * PITCH + line(lane, l)] = x[t][l];
    }
};

/* Which part of A or B a thread reads first: lines from `first` on, of `lines`, and terms from k on. Lines beyond the
 * last are that one. */
struct Begin {
    const InMemory *from;
    long long line_step, term_step, first, lines, k;
    int lane;

    __device__ long long line(int l) const { return least_of(first + l, lines - 1); }
};

/* A panel of a matrix in memory. */
template <int LINES, bool ALONG> struct Stored : Panel<LINES, ALONG> {
    typedef Panel<LINES, ALONG> P;
    const InMemory *at[P::COUNT];
    long long step; /* from term to term */

    __device__ void begin(const Begin &x, const smm_cuda_images &) {
        step = x.term_step;
#pragma unroll
        for (int l = 0; l < P::COUNT; l++)
            at[l] = x.from + x.line(P::line(x.lane, l)) * x.line_step + (x.k + P::term(x.lane, 0)) * step;
    }
    /* Terms k and on, and what there is in place of those from `end` on; the next call reads the next ones. */
    __device__ void fetch(long long k, long long end, T none, int lane, const smm_cuda_images &) {
#pragma unroll
        for (int t = 0; t < P::TERMS; t++)
#pragma unroll
            for (int l = 0; l < P::COUNT; l++)
                this->x[t][l] = k + P::term(lane, t) < end ? T(at[l][t * P::TEAMS * step]) : none;
#pragma unroll
        for (int l = 0; l < P::COUNT; l++) at[l] += DEPTH * step;
    }
};

/* A panel of the im2col matrix, whose lines are outputs. In the padding are zeros, too. */
template <int LINES, bool ALONG> struct Gathered : Panel<LINES, ALONG> {
    typedef Panel<LINES, ALONG> P;
    const InMemory *at[P::COUNT];
    int row[P::COUNT], column[P::COUNT];
    int tap[P::TERMS][2], step[2]; /* which element of a filter each term is, and how much further the next panel's */
    long long channel[P::TERMS], channels;

    __device__ void begin(const Begin &x, const smm_cuda_images &images) {
#pragma unroll
        for (int l = 0; l < P::COUNT; l++) {
            const Pixel pixel(images, static_cast<unsigned>(x.line(P::line(x.lane, l))));
            at[l] = x.from + pixel.x + pixel.row * images.row + pixel.column * images.column;
            row[l] = pixel.row;
            column[l] = pixel.column;
        }
        const int across = images.kernel[1], down = images.kernel[0];
#pragma unroll
        for (int t = 0; t < P::TERMS; t++) {
            const long long term = x.k + P::term(x.lane, t);
            tap[t][1] = term % across;
            tap[t][0] = term / across % down;
            channel[t] = term / across / down * images.channel;
        }
        step[1] = DEPTH % across;
        step[0] = DEPTH / across % down;
        channels = DEPTH / across / down * images.channel;
    }
    __device__ void fetch(long long k, long long end, T none, int lane, const smm_cuda_images &images) {
#pragma unroll
        for (int t = 0; t < P::TERMS; t++) {
            const int down = tap[t][0] * images.dilation[0], side = tap[t][1] * images.dilation[1];
            const long long on = channel[t] + down * images.row + side * images.column;
            const bool inside = k + P::term(lane, t) < end;
#pragma unroll
            for (int l = 0; l < P::COUNT; l++) {
                const int i = row[l] + down, j = column[l] + side;
                const bool met = inside && static_cast<unsigned>(i) < static_cast<unsigned>(images.inputs[0]) &&
                                 static_cast<unsigned>(j) < static_cast<unsigned>(images.inputs[1]);
                this->x[t][l] = met ? T(at[l][on]) : none;
            }
            tap[t][1] += step[1];
            const bool next_row = tap[t][1] >= images.kernel[1];
            if (next_row) tap[t][1] -= images.kernel[1];
            tap[t][0] += step[0] + next_row;
            const bool next_channel = tap[t][0] >= images.kernel[0];
            if (next_channel) tap[t][0] -= images.kernel[0];
            channel[t] += channels + (next_channel ? images.channel : 0);
        }
    }
};

typedef Stored<HEIGHT, SMM_ORDER_A == SMM_ORDER_ROW> PanelA;
template <bool GATHERED> struct ChooseB {
    typedef Stored<WIDTH, SMM_ORDER_B == SMM_ORDER_COL> Type;
};
template <> struct ChooseB<true> {
    typedef Gathered<WIDTH, SMM_ORDER_B == SMM_ORDER_COL> Type;
};
typedef ChooseB<OF_IMAGES>::Type PanelB;
constexpr int PANELS = 2 * (PanelA::ELEMENTS + PanelB::ELEMENTS); /* of a slice */
constexpr int FRONT = most(most(SLICES * PANELS, SLICES > 1 ? SLICES * AREA : 0), THREADS);
static_assert(SMM_SHARED == FRONT * sizeof(T), "the plan counts otherwise");

/* The partial sums of a thread, of one level of its tree. They are apart from Tile, which must stay in registers. */
struct Partial {
    T sum[ROWS][COLS];
};

/* A thread's tile of C: vectors of rows and columns, spread over that of its slice. A warp's are blocks of 8 x 8 for
 * tensor cores: thread 4 i + j has elements (i, 2 j) and (i, 2 j + 1) of each. */
struct Tile {
    static constexpr int VR = TENSOR ? 1 : width_of(ROWS), VC = TENSOR ? 2 : width_of(COLS);
    T sum[ROWS][COLS];
    int down, side;

    __device__ explicit Tile(int lane) : down(lane / ACROSS), side(lane % ACROSS) {
        if (TENSOR) {
            constexpr int WARPS_ACROSS = most(ACROSS / 4, 1);
            down = lane / 32 / WARPS_ACROSS * 8 + lane % 32 / 4;
            side = lane / 32 % WARPS_ACROSS * 4 + lane % 4;
        }
    }

    __device__ int row(int r) const { return (r / VR * DOWN + down) * VR + r % VR; }
    __device__ int col(int c) const { return (c / VC * ACROSS + side) * VC + c % VC; }

    __device__ void begin(T with) {
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
            for (int c = 0; c < COLS; c++) sum[r][c] = with;
    }

    template <bool BY_BLOCKS = TENSOR> __device__ void add(const T *a, const T *b) {
        if constexpr (BY_BLOCKS)
            add_blocks(a, b);
        else
            add_elements(a, b);
    }

    /* Thread 4 i + j has elements (i, j) of blocks of A, 8 x 4, and (j, i) of those of B. */
    template <class X> __device__ void add_blocks(const X *a, const X *b) {
        const int i = threadIdx.x % 32 / 4, j = threadIdx.x % 4;
        a += j * PanelA::PITCH + down;
        b += j * PanelB::PITCH + (side - j) * 2 + i;
#pragma unroll(UNROLL)
        for (int k = 0; k < DEPTH; k += 4) {
            X x[ROWS], y[COLS / 2];
#pragma unroll
            for (int r = 0; r < ROWS; r++) x[r] = a[k * PanelA::PITCH + r * DOWN];
#pragma unroll
            for (int c = 0; c < COLS / 2; c++) y[c] = b[k * PanelB::PITCH + c * 2 * ACROSS];
#pragma unroll
            for (int c = 0; c < COLS / 2; c++) {
#pragma unroll
                for (int r = 0; r + 1 < ROWS; r += 2)
                    add_by_tensor_cores(block(r, c), block(r + 1, c), x[r], x[r + 1], y[c]);
                if (ROWS % 2) add_by_tensor_cores(block(ROWS - 1, c), x[ROWS - 1], y[c]);
            }
        }
    }
    __device__ T (&block(int r, int c))[2] { return reinterpret_cast<T(&)[2]>(sum[r][2 * c]); }

    __device__ void add_elements(const T *a, const T *b) {
#pragma unroll(UNROLL)
        for (int k = 0; k < DEPTH; k++) {
            T x[ROWS], y[COLS];
#pragma unroll
            for (int r = 0; r < ROWS; r += VR) {
                const Vector<VR> v = load<VR>(a + k * PanelA::PITCH + row(r));
#pragma unroll
                for (int e = 0; e < VR; e++) x[r + e] = v.x[e];
            }
#pragma unroll
            for (int c = 0; c < COLS; c += VC) {
                const Vector<VC> v = load<VC>(b + k * PanelB::PITCH + col(c));
#pragma unroll
                for (int e = 0; e < VC; e++) y[c + e] = v.x[e];
            }
#pragma unroll
            for (int r = 0; r < ROWS; r++)
#pragma unroll
                for (int c = 0; c < COLS; c++) sum[r][c] = multiply_add(x[r], y[c], sum[r][c]);
        }
    }

    /* The sums are those of chunk `number` of the span: equal sums are added, which leaves one at each level whose bit
     * is set in the number of chunks; of the last chunk all are. */
    __device__ void take_up(Partial *kept, int number, bool last) {
        for (int level = 0; level < LEVELS && number >> level; level++) {
            if (!(number >> level & 1)) {
                if (last) continue;
                break;
            }
#pragma unroll
            for (int r = 0; r < ROWS; r++)
#pragma unroll
                for (int c = 0; c < COLS; c++) sum[r][c] = kept[level].sum[r][c] + sum[r][c];
        }
        if (last || LEVELS == 0) return;
        int level = 0;
        while (number >> level & 1) level++;
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
            for (int c = 0; c < COLS; c++) kept[level].sum[r][c] = sum[r][c];
    }
};

extern "C" __global__ void BOUNDS SMM_NAME(const __grid_constant__ smm_cuda_args args) {
    extern __shared__ __align__(16) T shared[];
    const smm_cuda_tiles &tiles = args.tiles;
    if (tiles.groups) {
        add_parts(args, shared);
        return;
    }
    const int slice = threadIdx.x / LANES, lane = threadIdx.x % LANES;
    const Share share(args, slice);
    const Place place = share.place(tiles);
    const int panels_of_chunk = share.deep ? SUM_CHUNK / DEPTH : share.panels;

    const smm_cuda_operand &a = args.operand[SMM_A], &b = args.operand[SMM_B];
    const InMemory *const from_a = static_cast<const InMemory *>(a.data) + offset_in(args, a, place.matrix);
    const InMemory *const from_b = static_cast<const InMemory *>(b.data) + offset_in(args, b, place.matrix);
    PanelA panel_a;
    PanelB panel_b;
    panel_a.begin({from_a, a.row, a.col, place.row, tiles.m, share.begin, lane}, args.images);
    panel_b.begin({from_b, b.col, b.row, place.col, tiles.n, share.begin, lane}, args.images);
    const auto fetch = [&](long long k) {
        panel_a.fetch(k, share.end, NONE_OF_A, lane, args.images);
        panel_b.fetch(k, share.end, NONE_OF_B, lane, args.images);
    };

    Tile tile(lane);
    Partial kept[most(LEVELS, 1)];
    tile.begin(0); /* of no terms */
    if (share.panels) fetch(share.begin);
    for (int p = 0; p < share.panels; p++) {
        const long long k = share.begin + static_cast<long long>(p) * DEPTH;
        T *const image_a = shared + slice * PANELS + p % 2 * (PANELS / 2), *const image_b = image_a + PanelA::ELEMENTS;
        panel_a.put(image_a, lane);
        panel_b.put(image_b, lane);
        __syncthreads();
        if (p + 1 < share.panels) fetch(k + DEPTH);
        if (k >= share.end) continue;
        if (p % panels_of_chunk == 0) tile.begin(-T(0)); /* to which the first product is added without a change */
        tile.add(image_a, image_b);
        if (share.deep && ((p + 1) % panels_of_chunk == 0 || k + DEPTH >= share.end))
            tile.take_up(kept, p / panels_of_chunk, k + DEPTH >= share.end);
    }
    finish(args, share, place, slice, tile, shared);
}
