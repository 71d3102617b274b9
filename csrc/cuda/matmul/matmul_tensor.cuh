/* matmul_tensor.cuh: C (m x n) = alpha A (m x k) B (k x n) + beta C of float16 or bfloat16 by tensor cores, of any
 * sizes, which are known when it runs.
 *
 * LANES threads, a slice of a block, have a tile of C in registers, each warp a part of it. STAGES panels of DEPTH
 * columns of A and rows of B are in shared memory or on their way there, as they lie in memory: by copies of 16 or 4
 * bytes, if strides and addresses allow that, else element by element. Order of operations: tensor cores add 16
 * products at a time, which are exact, to a sum in float32, and round as the device does; up to 2^LEVELS chunks of
 * SUM_CHUNK terms are one such sum. The sums of slices and parts are added in a binary tree. So bits depend on the
 * device and on the plan.
 *
 * Grid: as matmul_tiles.cuh says.
 * Shared memory: for each slice STAGES panels of A and of B; then, in their place, its sums.
 * Operands: any strides; C must overlap neither A nor B. */
#include "common.cuh"
#include "matmul_tiles.cuh"

constexpr int STAGES = SMM_STAGES, WARPS_DOWN = DOWN / 8, WARPS_ACROSS = ACROSS / 4;
static_assert(DOWN % 8 == 0 && ACROSS % 4 == 0 && ROWS % 2 == 0 && COLS % 4 == 0 && DEPTH % 16 == 0, "whole blocks");

typedef unsigned short Bits; /* of an element */

/* A panel of LINES rows of A (columns of B): runs of its lines, if terms lie ALONG them, else of its terms. Eight runs
 * of 16 bytes, which tensor cores take at a time, lie in different banks. */
template <int LINES, bool ALONG> struct Panel {
    static constexpr int RUNS = ALONG ? LINES : DEPTH, RUN = ALONG ? DEPTH : LINES;
    static constexpr int PITCH = RUN + 8, ELEMENTS = RUNS * PITCH;
    __device__ static constexpr int position(int line, int term) {
        return ALONG ? line * PITCH + term : term * PITCH + line;
    }

    const Bits *from;
    long long line_step, term_step, lines;
    int lane, width; /* width: elements of a copy */

    /* Lines from `first` on, of `lines`; terms from k on. */
    __device__ void begin(const void *matrix, long long to_line, long long to_term, long long first, long long count,
                          long long k, int thread) {
        from = static_cast<const Bits *>(matrix) + first * to_line + k * to_term;
        line_step = to_line;
        term_step = to_term;
        lines = min64(count - first, LINES);
        lane = thread;
        const unsigned long long all = reinterpret_cast<unsigned long long>(from) | 2 * run_step();
        width = step() != 1 ? 1 : all % 16 == 0 ? 8 : all % 4 == 0 ? 2 : 1;
    }
    __device__ long long step() const { return ALONG ? term_step : line_step; }
    __device__ long long run_step() const { return ALONG ? line_step : term_step; }

    /* Whether copies of 16 bytes bring whole panels of so many terms. */
    __device__ bool is_even(long long terms) const { return width == 8 && lines == LINES && terms % DEPTH == 0; }

    /* Up to `terms` terms, and zeros after them; the next call reads the next ones. EVEN: all or none of a panel. */
    template <bool EVEN> __device__ void fetch(Bits *panel, long long terms) {
        const int last = static_cast<int>(min64(terms, DEPTH)), count = static_cast<int>(lines);
        const int runs = ALONG ? count : last, run = ALONG ? last : count;
        if (EVEN || width == 8)
            copy_runs<8, EVEN>(panel, runs, run);
        else if (width == 2)
            copy_runs<2, false>(panel, runs, run);
        else
            read_runs(panel, runs, run);
        from += DEPTH * term_step;
    }

    /* Which part of which run a thread takes, of parts of W elements. The address in memory goes from part to part: the
     * compiler would keep all of them in registers. */
    template <int W> struct Part {
        static constexpr int PARTS = RUN / W, TEAM = min_of(PARTS, LANES), TEAMS = LANES / TEAM, EACH = PARTS / TEAM;
        static constexpr int COUNT = ceil_div(RUNS, TEAMS) * EACH;
        const Bits *at;
        int run, element;

        __device__ explicit Part(const Panel &panel)
            : at(panel.from + panel.lane / TEAM * panel.run_step() + panel.lane % TEAM * W * panel.step()),
              run(panel.lane / TEAM), element(panel.lane % TEAM * W) {}
        __device__ void advance(const Panel &panel, int e) {
            const bool beside = e % EACH < EACH - 1;
            element += beside ? TEAM * W : (1 - EACH) * TEAM * W;
            run += beside ? 0 : TEAMS;
            at += (beside ? 0 : TEAMS) * panel.run_step() + (beside ? 1 : 1 - EACH) * TEAM * W * panel.step();
        }
        __device__ bool exists() const { return RUNS % TEAMS == 0 || run < RUNS; }
        __device__ int position() const { return run * PITCH + element; }
    };
    template <int W, bool EVEN> __device__ void copy_runs(Bits *panel, int runs, int length) const {
        Part<W> part(*this);
#pragma unroll(W == 8 ? Part<W>::COUNT : 4)
        for (int e = 0; e < Part<W>::COUNT; e++) {
            const int some = EVEN              ? (runs > 0 && length > 0 ? W : 0)
                             : part.run < runs ? max_of(0, min_of(length - part.element, W))
                                               : 0;
            if (part.exists()) copy_some<2 * W>(panel + part.position(), part.at, 2 * some);
            part.advance(*this, e);
        }
    }
    __device__ void read_runs(Bits *panel, int runs, int length) const {
        constexpr int AT_ONCE = min_of(Part<1>::COUNT, 8);
        static_assert(Part<1>::COUNT % AT_ONCE == 0, "powers of two");
        Part<1> read(*this), write(*this);
#pragma unroll 1
        for (int first = 0; first < Part<1>::COUNT; first += AT_ONCE) {
            Bits x[AT_ONCE];
#pragma unroll
            for (int e = 0; e < AT_ONCE; e++) {
                x[e] = read.run < runs && read.element < length ? *read.at : Bits(0);
                read.advance(*this, first + e);
            }
#pragma unroll
            for (int e = 0; e < AT_ONCE; e++) {
                if (write.exists()) panel[write.position()] = x[e];
                write.advance(*this, first + e);
            }
        }
    }

    /* Blocks 2 x and 2 x + 1 of 8 lines of a warp, which is one of WARPS, and of 16 terms from k on: of 8 terms both,
     * then of the next 8. IN_TURN: of 16 terms one, then the other. So neighbours are what one instruction takes. */
    template <int WARPS, bool IN_TURN>
    __device__ static void blocks(unsigned (&to)[4], const Bits *panel, int warp, int x, int k) {
        const int of = threadIdx.x % 32 / 8, row = threadIdx.x % 8;
        const int which = IN_TURN ? of / 2 : of % 2, half = IN_TURN ? of % 2 : of / 2;
        const int line = ((2 * x + which) * WARPS + warp) * 8, term = k + half * 8;
        load_blocks<!ALONG>(to, panel + (ALONG ? position(line + row, term) : position(line, term + row)));
    }
};

typedef Panel<HEIGHT, SMM_ORDER_A == SMM_ORDER_ROW> PanelA;
typedef Panel<WIDTH, SMM_ORDER_B == SMM_ORDER_COL> PanelB;
constexpr int PANELS = PanelA::ELEMENTS + PanelB::ELEMENTS; /* of a stage of a slice */
constexpr int PITCH = WIDTH + 8;                            /* of the sums of a slice */
constexpr int BYTES =
    max_of(max_of(SLICES * STAGES * PANELS * int(sizeof(Bits)), SLICES * HEIGHT * PITCH * int(sizeof(T))),
           THREADS *int(sizeof(T)));
static_assert(SMM_SHARED == BYTES, "the plan counts otherwise");

/* Where a warp is in the tile. */
struct Warp {
    int down, across;
};

/* What a warp multiplies of 16 terms. */
struct Blocks {
    unsigned a[ROWS / 2][4], b[COLS / 4][4];

    __device__ void load(const Bits *image, const Warp &warp, int k) {
#pragma unroll
        for (int r = 0; r < ROWS / 2; r++) PanelA::blocks<WARPS_DOWN, false>(a[r], image, warp.down, r, k);
#pragma unroll
        for (int c = 0; c < COLS / 4; c++)
            PanelB::blocks<WARPS_ACROSS, true>(b[c], image + PanelA::ELEMENTS, warp.across, c, k);
    }
};

/* A thread's tile of C: of each block of 8 x 8 thread 4 i + j of a warp has elements (i, 2 j) and (i, 2 j + 1). */
struct Tile {
    static constexpr int VC = 2;
    T sum[ROWS][COLS];
    Warp warp;
    int i, j;

    __device__ explicit Tile(int lane)
        : warp{lane / 32 / WARPS_ACROSS, lane / 32 % WARPS_ACROSS}, i(lane % 32 / 4), j(lane % 4) {
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
            for (int c = 0; c < COLS; c++) sum[r][c] = 0;
    }

    __device__ int row(int r) const { return (r * WARPS_DOWN + warp.down) * 8 + i; }
    __device__ int col(int c) const { return (c / 2 * WARPS_ACROSS + warp.across) * 8 + 2 * j + c % 2; }
    __device__ T (&block(int r, int c))[2] { return reinterpret_cast<T(&)[2]>(sum[r][2 * c]); }

    __device__ void add(const Blocks &blocks) {
#pragma unroll
        for (int c = 0; c < COLS / 2; c++)
#pragma unroll
            for (int r = 0; r < ROWS / 2; r++)
                add_by_tensor_cores<InMemory>(block(2 * r, c), block(2 * r + 1, c), blocks.a[r],
                                              blocks.b[c / 2][c % 2 * 2], blocks.b[c / 2][c % 2 * 2 + 1]);
    }

    /* The sums of all terms. */
    template <bool EVEN>
    __device__ void add_panels(PanelA of_a, PanelB of_b, Bits *images, int panels, long long terms) {
        const auto bring = [&](int p) {
            Bits *const to = images + p % STAGES * PANELS;
            const long long left = terms - static_cast<long long>(p) * DEPTH;
            of_a.template fetch<EVEN>(to, left);
            of_b.template fetch<EVEN>(to + PanelA::ELEMENTS, left);
            end_of_copies();
        };
#pragma unroll 1
        for (int p = 0; p < STAGES - 1; p++) bring(p);
#pragma unroll 1
        for (int p = 0; p < panels; p++) {
            const Bits *const image = images + p % STAGES * PANELS;
            Blocks blocks;
            wait_for_copies<STAGES - 2>();
            __syncthreads();
            if (!EVEN) bring(p + STAGES - 1); /* which takes registers */
            blocks.load(image, warp, 0);
            if (EVEN) bring(p + STAGES - 1);
#pragma unroll
            for (int k = 0; k < DEPTH; k += 16) {
                if (k) blocks.load(image, warp, k);
                add(blocks);
            }
        }
    }
};

/* The tile becomes C by way of shared memory, from which threads have neighbours enough for the widest stores. */
__device__ inline void write(const Output &out, const Tile &tile, bool exists, T *shared, int lane) {
    constexpr int EACH = 8;
    __syncthreads();
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int c = 0; c < COLS; c += Tile::VC)
            store<Tile::VC>(shared + tile.row(r) * PITCH + tile.col(c), Vector<2>{tile.sum[r][c], tile.sum[r][c + 1]});
    __syncthreads();
    if (!exists) return;
#pragma unroll 2
    for (int e = lane * EACH; e < AREA; e += LANES * EACH) {
        InMemory *columns[EACH];
#pragma unroll
        for (int i = 0; i < EACH; i++) columns[i] = out.column(e % WIDTH + i);
        out.write<EACH>(columns, e / WIDTH, shared + e / WIDTH * PITCH + e % WIDTH);
    }
}

extern "C" __global__ void BOUNDS SMM_NAME(const __grid_constant__ smm_cuda_args args) {
    extern __shared__ __align__(16) T shared[];
    const smm_cuda_tiles &tiles = args.tiles;
    if (tiles.groups) {
        add_parts(args, shared);
        return;
    }
    const int slice = threadIdx.x / LANES, lane = threadIdx.x % LANES;
    const Share share(args, slice);
    const TilePosition position = share.position(tiles);
    const smm_cuda_operand &a = args.operand[SMM_A], &b = args.operand[SMM_B];
    PanelA panel_a;
    PanelB panel_b;
    panel_a.begin(static_cast<const InMemory *>(a.data) + offset_of(args, a, position.matrix), a.row, a.col,
                  position.row, tiles.m, share.begin, lane);
    panel_b.begin(static_cast<const InMemory *>(b.data) + offset_of(args, b, position.matrix), b.col, b.row,
                  position.col, tiles.n, share.begin, lane);

    Bits *const images = reinterpret_cast<Bits *>(shared) + slice * STAGES * PANELS;
    Tile tile(lane);
    const long long terms = share.end - share.begin;
    if (__syncthreads_and(panel_a.is_even(terms) && panel_b.is_even(terms)))
        tile.add_panels<true>(panel_a, panel_b, images, share.panels, terms);
    else
        tile.add_panels<false>(panel_a, panel_b, images, share.panels, terms);
    if (share.deep)
        finish(args, share, position, slice, tile, shared);
    else
        write(Output(args, position), tile, share.exists, shared + slice * HEIGHT * PITCH, lane);
}
