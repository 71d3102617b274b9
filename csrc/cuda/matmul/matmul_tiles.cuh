/* matmul_tiles.cuh: how a product of any size, or a convolution, is shared among blocks and launches, and where its
 * results go. How a slice of a block computes its sums, the texts of kernels say.
 *
 * Grid: of sums in a row, one block per SLICES tiles. Of deep ones, `parts` blocks per tile, whose slices each have
 * `span` chunks of it, up to 2^LEVELS. The second launch has a block for THREADS / groups elements of tiles. */
#include "lanes.cuh"
#include "element.cuh"
#include "element_vectors.cuh"

constexpr int ROWS = SMM_ROWS, COLS = SMM_COLS, ACROSS = SMM_ACROSS, DOWN = LANES / ACROSS;
constexpr int THREADS = SMM_THREADS, SLICES = THREADS / LANES, DEPTH = SMM_DEPTH, LEVELS = SMM_LEVELS;
constexpr int HEIGHT = DOWN * ROWS, WIDTH = ACROSS * COLS, AREA = HEIGHT * WIDTH;
constexpr bool OF_IMAGES = SMM_SOURCE_B == SMM_SOURCE_IMAGES;
constexpr int SUM_DEEP = 1024, SUM_CHUNK = 256;
static_assert(SUM_CHUNK % DEPTH == 0 && THREADS % LANES == 0 && LANES % ACROSS == 0, "whole panels and slices");

__device__ inline long long min64(long long x, long long y) { return x < y ? x : y; }

/* x / y of numbers that are not negative: of 64 bits it takes a hundred instructions. */
__device__ inline long long quotient(long long x, long long y) {
    return (x | y) >> 32 ? x / y : static_cast<unsigned>(x) / static_cast<unsigned>(y);
}

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

/* The sum of some elements, so far apart: level by level neighbours are added, and an odd last one goes up as it is. */
__device__ inline Element sum_of(Element *x, int apart, int count) {
    for (int half = 1; half < count; half *= 2)
        for (int i = 0; i + half < count; i += 2 * half) x[i * apart] = sum_of(x[i * apart], x[(i + half) * apart]);
    return x[0];
}

/* Tile `number` of the call. */
struct TilePosition {
    long long matrix, row, col;

    __device__ TilePosition(const smm_cuda_tiles &tiles, long long number) {
        const long long across = (tiles.n + WIDTH - 1) / WIDTH, down = (tiles.m + HEIGHT - 1) / HEIGHT;
        matrix = quotient(number, across * down);
        number -= matrix * across * down;
        const long long below = quotient(number, across);
        row = below * HEIGHT;
        col = (number - below * across) * WIDTH;
    }
};

/* A tile's sums become C. */
struct Output {
    const smm_cuda_args &args;
    const TilePosition &position;
    Stored *c;
    Element alpha, beta;

    __device__ Output(const smm_cuda_args &args, const TilePosition &position) : args(args), position(position) {
        const smm_cuda_operand &to = args.operand[SMM_C];
        c = static_cast<Stored *>(to.data) + offset_of(args, to, position.matrix);
        if (SMM_SCALED) {
            alpha = coefficient(args, SMM_MATMUL_alpha, position.matrix);
            beta = coefficient(args, SMM_MATMUL_beta, position.matrix);
        }
    }
    /* Where column j of the tile begins; NULL: beyond the matrix. */
    __device__ Stored *column(int j) const {
        const long long col = position.col + j;
        if (col >= args.tiles.n) return nullptr;
        if constexpr (OF_IMAGES)
            return c + Pixel(args.images, static_cast<unsigned>(col)).y;
        else
            return c + col * args.operand[SMM_C].col;
    }
    /* What C becomes where there is `before`. */
    __device__ Element value(Element sum, const Stored *before) const {
        if constexpr (!SMM_SCALED)
            return sum;
        else
            return is_zero(beta) ? product(alpha, sum) : multiply_add(alpha, sum, product(beta, Element(*before)));
    }
    /* Neighbours in row i of the tile: as a vector where they lie so. */
    template <int WIDTH> __device__ void write(Stored *const (&columns)[WIDTH], int i, const Element *sum) const {
        const long long row = position.row + i;
        if (row >= args.tiles.m) return;
        const long long down = row * args.operand[SMM_C].row;
        Stored *const to = columns[0] + down;
        const bool together = columns[WIDTH - 1] && columns[WIDTH - 1] - columns[0] == WIDTH - 1 &&
                              reinterpret_cast<unsigned long long>(to) % sizeof(Vector<WIDTH, Stored>) == 0;
        if (together) {
            Vector<WIDTH, Element> v;
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

/* What a slice of a block computes: of tiles in a row each slice has its own; of a deep one its own terms, behind those
 * that the block begins with. */
struct Share {
    bool deep, exists;
    int panels; /* of the slice of the block that has most: its first */
    long long number, first = 0, begin = 0, end;

    __device__ Share(const smm_cuda_args &args, int slice) : deep(args.k > SUM_DEEP), number(blockIdx.x), end(args.k) {
        const smm_cuda_tiles &tiles = args.tiles;
        if (deep) {
            const long long terms = static_cast<long long>(tiles.span) * SUM_CHUNK;
            const long long part = quotient(number, tiles.count);
            first = part * SLICES * terms;
            number -= part * tiles.count;
            begin = first + slice * terms;
            end = min64(begin + terms, args.k);
        } else
            number = number * SLICES + slice;
        exists = number < tiles.count;
        const long long max_terms = deep ? tiles.span * SUM_CHUNK : args.k;
        panels = static_cast<int>((min64(max_terms, args.k - first) + DEPTH - 1) / DEPTH);
    }
    __device__ TilePosition position(const smm_cuda_tiles &tiles) const {
        return TilePosition(tiles, tiles.first + (exists ? number : tiles.count - 1));
    }
};

/* The tile of a slice becomes C, or one of the parts whose sum that will be. */
template <class Tile>
__device__ inline void finish(const smm_cuda_args &args, const Share &share, const TilePosition &position, int slice,
                              const Tile &tile, Element *shared) {
    const smm_cuda_tiles &tiles = args.tiles;
    Element *const sums = static_cast<Element *>(tiles.sums);
    const long long part = share.deep ? (blockIdx.x / tiles.count * tiles.count + share.number) * AREA : 0;
    const Output out(args, position);
    if (SLICES > 1 && share.deep) {
        __syncthreads();
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
            for (int c = 0; c < COLS; c++) shared[slice * AREA + tile.row(r) * WIDTH + tile.col(c)] = tile.sum[r][c];
        __syncthreads();
        const long long terms = static_cast<long long>(tiles.span) * SUM_CHUNK,
                        left = (args.k - share.first + terms - 1) / terms;
        for (int e = threadIdx.x; e < AREA; e += THREADS) {
            const Element sum = sum_of(shared + e, AREA, static_cast<int>(min64(left, SLICES)));
            if (tiles.parts > 1)
                sums[part + e] = sum;
            else
                out.write<1>({out.column(e % WIDTH)}, e / WIDTH, &sum);
        }
        return;
    }
    if (!share.exists) return;
#pragma unroll
    for (int c = 0; c < COLS; c += Tile::VC) {
        Stored *columns[Tile::VC];
#pragma unroll
        for (int e = 0; e < Tile::VC; e++) columns[e] = out.column(tile.col(c) + e);
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            if (tiles.parts > 1)
                *reinterpret_cast<Vector<Tile::VC, Element> *>(sums + part + tile.row(r) * WIDTH + tile.col(c)) =
                    *reinterpret_cast<const Vector<Tile::VC, Element> *>(&tile.sum[r][c]);
            else
                out.write<Tile::VC>(columns, tile.row(r), &tile.sum[r][c]);
    }
}

/* The second launch: `groups` threads to an element each add up a power of two of its parts. */
__device__ inline void add_parts(const smm_cuda_args &args, Element *shared) {
    enum { AT_ONCE = 8, MAX_LEVELS = 16 };
    const smm_cuda_tiles &tiles = args.tiles;
    const int elements = THREADS / tiles.groups, group = threadIdx.x / elements;
    const long long number = static_cast<long long>(blockIdx.x) * elements + threadIdx.x % elements;
    const long long all = tiles.count * AREA;
    long long share = AT_ONCE;
    while (share * tiles.groups < tiles.parts) share *= 2;
    const long long begin = group * share, end = min64(begin + share, tiles.parts);
    Element sum = element_of(0);
    if (number < all && begin < end) {
        const Element *const from = static_cast<const Element *>(tiles.sums) + number;
        Element levels[MAX_LEVELS];
        for (long long i = begin; i < end; i += AT_ONCE) {
            Element x[AT_ONCE];
#pragma unroll
            for (int e = 0; e < AT_ONCE; e++)
                if (i + e < end) x[e] = from[(i + e) * all];
#pragma unroll
            for (int half = 1; half < AT_ONCE; half *= 2)
#pragma unroll
                for (int e = 0; e < AT_ONCE; e += 2 * half)
                    if (i + e + half < end) x[e] = sum_of(x[e], x[e + half]);
            sum = x[0];
            const long long taken = (i - begin) / AT_ONCE;
            const bool last = i + AT_ONCE >= end;
            int level = 0;
            for (; taken >> level; level++) {
                if (taken >> level & 1)
                    sum = sum_of(levels[level], sum);
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
    const TilePosition position(tiles, tiles.first + number / AREA);
    const Output out(args, position);
    const int element = static_cast<int>(number % AREA);
    out.write<1>({out.column(element % WIDTH)}, element / WIDTH, &sum);
}
