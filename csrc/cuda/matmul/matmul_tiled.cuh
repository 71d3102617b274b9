/* matmul_tiled.cuh: C (m x n) = alpha A (m x k) B (k x n) + beta C of any sizes, which are known when it runs; and
 * convolutions, whose B is the im2col matrix of images, gathered as it is read.
 *
 * LANES threads, a slice of a block, have a tile of C in registers. DEPTH columns of A and rows of B at a time come
 * through registers to shared memory, the next ones while these are multiplied.
 * Order of operations: a_i0 b_0j, then fma(a_ik, b_kj, sum) for k = 1, 2, ...; of more than SUM_DEEP terms chunks of
 * SUM_CHUNK, added in a binary tree by index. Which block, slice or launch adds which chunks changes no bit, since each
 * has a power of two of them.
 *
 * Grid: of sums in a row, one block per SLICES tiles. Of deep ones, `parts` blocks per tile, whose slices each have
 * `span` chunks of it, up to 2^LEVELS. The second launch has a block for THREADS / groups elements of tiles.
 * Shared memory: for each slice two panels of A and of B; then, in their place, the sums of the slices.
 * Operands: any strides; C must overlap neither A nor B. */
#include "common.cuh"

constexpr int ROWS = SMM_ROWS, COLS = SMM_COLS, LANES = SMM_LANES, ACROSS = SMM_ACROSS, DOWN = LANES / ACROSS;
constexpr int THREADS = SMM_THREADS, SLICES = THREADS / LANES, DEPTH = SMM_DEPTH, LEVELS = SMM_LEVELS;
constexpr int HEIGHT = DOWN * ROWS, WIDTH = ACROSS * COLS, AREA = HEIGHT * WIDTH;
constexpr bool OF_IMAGES = SMM_SOURCE_B == SMM_SOURCE_IMAGES;
/* Tensor cores multiply blocks of doubles, if a slice has whole warps of 8 x 4 threads. They round each product and sum
 * as fma does, in the order of k (inverse/inv_tensor.cuh says more). */
constexpr bool TENSOR = sizeof(T) == 8 && __CUDA_ARCH__ >= 900 && LANES % 32 == 0 && ACROSS % 4 == 0 &&
                        LANES / ACROSS % 8 == 0 && COLS % 2 == 0 && DEPTH % 4 == 0;
constexpr int SUM_DEEP = 1024, SUM_CHUNK = 256, UNROLL = least(DEPTH, 8);
static_assert(SUM_CHUNK % DEPTH == 0 && THREADS % LANES == 0 && LANES % ACROSS == 0, "whole panels and slices");

__device__ inline long long least_of(long long x, long long y) { return x < y ? x : y; }

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

/* The place of an output, or of column j of the im2col matrix. */
struct Pixel {
    int row, column; /* where its filter begins in an image */
    long long x, y;

    __device__ Pixel(const smm_cuda_images &images, unsigned j)
        : row(images.first[0]), column(images.first[1]), x(0), y(0) {
#pragma unroll
        for (int d = 0; d < 3; d++) {
            const unsigned extent = images.digit[d].extent, index = d < 2 ? j % extent : j;
            j /= extent;
            row += index * images.digit[d].step[0];
            column += index * images.digit[d].step[1];
            x += index * images.digit[d].x;
            y += index * images.digit[d].y;
        }
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

/* The sum of some numbers, so far apart: level by level neighbours are added, and an odd last one goes up as it is. */
__device__ inline T sum_of(T *x, int apart, int count) {
    for (int half = 1; half < count; half *= 2)
        for (int i = 0; i + half < count; i += 2 * half) x[i * apart] = x[i * apart] + x[(i + half) * apart];
    return x[0];
}

/* Tile `number` of the call. */
struct Place {
    long long matrix, row, col;

    __device__ Place(const smm_cuda_tiles &tiles, long long number) {
        const long long across = (tiles.n + WIDTH - 1) / WIDTH, down = (tiles.m + HEIGHT - 1) / HEIGHT;
        matrix = number / (across * down);
        row = number / across % down * HEIGHT;
        col = number % across * WIDTH;
    }
};

/* A tile's sums become C. */
struct Output {
    const smm_cuda_args &args;
    const Place &place;
    InMemory *c;
    T alpha, beta;

    __device__ Output(const smm_cuda_args &args, const Place &place) : args(args), place(place) {
        const smm_cuda_operand &to = args.operand[SMM_C];
        c = static_cast<InMemory *>(to.data) + offset_of(args, to, place.matrix);
        if (SMM_SCALED) {
            alpha = factor_of(args, SMM_MATMUL_alpha, place.matrix);
            beta = factor_of(args, SMM_MATMUL_beta, place.matrix);
        }
    }
    /* Where column j of the tile begins; NULL: beyond the matrix. */
    __device__ InMemory *column(int j) const {
        const long long col = place.col + j;
        if (col >= args.tiles.n) return nullptr;
        if constexpr (OF_IMAGES)
            return c + Pixel(args.images, static_cast<unsigned>(col)).y;
        else
            return c + col * args.operand[SMM_C].col;
    }
    /* What C becomes where there is `before`. */
    __device__ T value(T sum, const InMemory *before) const {
        return !SMM_SCALED ? sum : beta == 0 ? product(alpha, sum) : multiply_add(alpha, sum, product(beta, *before));
    }
    /* Neighbours in row i of the tile: as a vector where they lie so. */
    template <int WIDTH> __device__ void write(InMemory *const (&columns)[WIDTH], int i, const T *sum) const {
        const long long row = place.row + i;
        if (row >= args.tiles.m) return;
        const long long down = row * args.operand[SMM_C].row;
        InMemory *const to = columns[0] + down;
        const bool together = columns[WIDTH - 1] && columns[WIDTH - 1] - columns[0] == WIDTH - 1 &&
                              reinterpret_cast<unsigned long long>(to) % sizeof(Vector<WIDTH, InMemory>) == 0;
        if (together) {
            Vector<WIDTH> v;
#pragma unroll
            for (int e = 0; e < WIDTH; e++) v.x[e] = value(sum[e], to + e);
            store_global<WIDTH>(to, v);
            return;
        }
#pragma unroll
        for (int e = 0; e < WIDTH; e++)
            if (columns[e]) columns[e][down] = value(sum[e], columns[e] + down);
    }
};

/* The second launch: `groups` threads to an element each add up a power of two of its parts. */
__device__ inline void add_parts(const smm_cuda_args &args, T *shared) {
    enum { AT_ONCE = 8, MOST_LEVELS = 16 };
    const smm_cuda_tiles &tiles = args.tiles;
    const int elements = THREADS / tiles.groups, group = threadIdx.x / elements;
    const long long number = static_cast<long long>(blockIdx.x) * elements + threadIdx.x % elements;
    const long long all = tiles.count * AREA;
    long long share = AT_ONCE;
    while (share * tiles.groups < tiles.parts) share *= 2;
    const long long begin = group * share, end = least_of(begin + share, tiles.parts);
    T sum = 0;
    if (number < all && begin < end) {
        const T *const from = static_cast<const T *>(tiles.sums) + number;
        T levels[MOST_LEVELS];
        for (long long i = begin; i < end; i += AT_ONCE) {
            T x[AT_ONCE];
#pragma unroll
            for (int e = 0; e < AT_ONCE; e++)
                if (i + e < end) x[e] = from[(i + e) * all];
#pragma unroll
            for (int half = 1; half < AT_ONCE; half *= 2)
#pragma unroll
                for (int e = 0; e < AT_ONCE; e += 2 * half)
                    if (i + e + half < end) x[e] = x[e] + x[e + half];
            sum = x[0];
            const long long taken = (i - begin) / AT_ONCE;
            const bool last = i + AT_ONCE >= end;
            int level = 0;
            for (; taken >> level; level++) {
                if (taken >> level & 1)
                    sum = levels[level] + sum;
                else if (!last)
                    break;
            }
            levels[level] = sum;
        }
    }
    shared[threadIdx.x] = sum;
    __syncthreads();
    if (group || number >= all) return;
    const long long used = (tiles.parts + share - 1) / share;
    sum = sum_of(shared + threadIdx.x, elements, static_cast<int>(used));
    const Place place(tiles, tiles.first + number / AREA);
    const Output out(args, place);
    const int element = static_cast<int>(number % AREA);
    out.write<1>({out.column(element % WIDTH)}, element / WIDTH, &sum);
}

extern "C" __global__ void BOUNDS SMM_NAME(const __grid_constant__ smm_cuda_args args) {
    extern __shared__ __align__(16) T shared[];
    const smm_cuda_tiles &tiles = args.tiles;
    if (tiles.groups) {
        add_parts(args, shared);
        return;
    }
    const int slice = threadIdx.x / LANES, lane = threadIdx.x % LANES;
    const bool deep = args.k > SUM_DEEP;
    /* Of tiles in a row each slice has its own; of a deep one its own terms, behind those that the block begins with.
     */
    long long number = blockIdx.x, first = 0, begin = 0, end = args.k;
    if (deep) {
        const long long terms = static_cast<long long>(tiles.span) * SUM_CHUNK;
        first = number / tiles.count * SLICES * terms;
        number %= tiles.count;
        begin = first + slice * terms;
        end = least_of(begin + terms, args.k);
    } else
        number = number * SLICES + slice;
    const bool exists = number < tiles.count;
    const Place place(tiles, tiles.first + (exists ? number : tiles.count - 1));
    const long long most_terms = deep ? tiles.span * SUM_CHUNK : args.k; /* of a slice of the block: its first */
    const int panels = static_cast<int>((least_of(most_terms, args.k - first) + DEPTH - 1) / DEPTH);
    const int panels_of_chunk = deep ? SUM_CHUNK / DEPTH : panels;

    const smm_cuda_operand &a = args.operand[SMM_A], &b = args.operand[SMM_B];
    const InMemory *const from_a = static_cast<const InMemory *>(a.data) + offset_of(args, a, place.matrix);
    const InMemory *const from_b = static_cast<const InMemory *>(b.data) + offset_of(args, b, place.matrix);
    PanelA panel_a;
    PanelB panel_b;
    panel_a.begin({from_a, a.row, a.col, place.row, tiles.m, begin, lane}, args.images);
    panel_b.begin({from_b, b.col, b.row, place.col, tiles.n, begin, lane}, args.images);
    const auto fetch = [&](long long k) {
        panel_a.fetch(k, end, NONE_OF_A, lane, args.images);
        panel_b.fetch(k, end, NONE_OF_B, lane, args.images);
    };

    Tile tile(lane);
    Partial kept[most(LEVELS, 1)];
    tile.begin(0); /* of no terms */
    if (panels) fetch(begin);
    for (int p = 0; p < panels; p++) {
        const long long k = begin + static_cast<long long>(p) * DEPTH;
        T *const image_a = shared + slice * PANELS + p % 2 * (PANELS / 2), *const image_b = image_a + PanelA::ELEMENTS;
        panel_a.put(image_a, lane);
        panel_b.put(image_b, lane);
        __syncthreads();
        if (p + 1 < panels) fetch(k + DEPTH);
        if (k >= end) continue;
        if (p % panels_of_chunk == 0) tile.begin(-T(0)); /* to which the first product is added without a change */
        tile.add(image_a, image_b);
        if (deep && ((p + 1) % panels_of_chunk == 0 || k + DEPTH >= end))
            tile.take_up(kept, p / panels_of_chunk, k + DEPTH >= end);
    }

    T *const sums = static_cast<T *>(tiles.sums);
    const long long part = deep ? (blockIdx.x / tiles.count * tiles.count + number) * AREA : 0;
    const Output out(args, place);
    if (SLICES > 1 && deep) {
        __syncthreads();
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
            for (int c = 0; c < COLS; c++) shared[slice * AREA + tile.row(r) * WIDTH + tile.col(c)] = tile.sum[r][c];
        __syncthreads();
        const long long terms = static_cast<long long>(tiles.span) * SUM_CHUNK,
                        left = (args.k - first + terms - 1) / terms;
        for (int e = threadIdx.x; e < AREA; e += THREADS) {
            const T sum = sum_of(shared + e, AREA, static_cast<int>(least_of(left, SLICES)));
            if (tiles.parts > 1)
                sums[part + e] = sum;
            else
                out.write<1>({out.column(e % WIDTH)}, e / WIDTH, &sum);
        }
        return;
    }
    if (!exists) return;
#pragma unroll
    for (int c = 0; c < COLS; c += Tile::VC) {
        InMemory *columns[Tile::VC];
#pragma unroll
        for (int e = 0; e < Tile::VC; e++) columns[e] = out.column(tile.col(c) + e);
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            if (tiles.parts > 1)
                *reinterpret_cast<Vector<Tile::VC> *>(sums + part + tile.row(r) * WIDTH + tile.col(c)) =
                    *reinterpret_cast<const Vector<Tile::VC> *>(&tile.sum[r][c]);
            else
                out.write<Tile::VC>(columns, tile.row(r), &tile.sum[r][c]);
    }
}
