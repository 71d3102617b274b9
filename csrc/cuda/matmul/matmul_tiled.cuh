/* matmul_tiled.cuh: C (m x n) = alpha A (m x k) B (k x n) + beta C of any sizes, which are known when it runs; and
 * convolutions, whose B is the im2col matrix of images, gathered as it is read.
 *
 * LANES threads, a slice of a block, have a tile of C in registers. STAGES panels of DEPTH columns of A and rows of B
 * are in shared memory or on their way there: those of at least 24 terms, which more did not make faster. Copies are of
 * vectors where strides and addresses allow that, else of elements; numbers that are converted pass through registers.
 * Order of operations: a_i0 b_0j, then fma(a_ik, b_kj, sum) for k = 1, 2, ...; of more than SUM_DEEP terms chunks of
 * SUM_CHUNK, added in a binary tree by index. Which block, slice or launch adds which chunks changes no bit, since each
 * has a power of two of them.
 *
 * Grid: as matmul_tiles.cuh says.
 * Shared memory: for each slice STAGES panels of A and of B; then, in their place, the sums of the slices.
 * Operands: any strides; C must overlap neither A nor B. */
#include "common.cuh"
#include "matmul_tiles.cuh"

/* Tensor cores multiply blocks of doubles, if a slice has whole warps of 8 x 4 threads. They round each product and sum
 * as fma does, in the order of k (inverse/inv_tensor.cuh says more). */
constexpr int PARTS = COMPLEX ? 2 : 1; /* of an element */
constexpr bool TENSOR = sizeof(T) == 8 && __CUDA_ARCH__ >= 900 && LANES % 32 == 0 && ACROSS % 4 == 0 &&
                        LANES / ACROSS % 8 == 0 && PARTS * COLS % 2 == 0 && DEPTH % 4 == 0;
constexpr bool COPIES = !CONVERTS;
constexpr int STAGES = 1 + ceil_div(24, DEPTH);
constexpr int UNROLL = min_of(DEPTH, max_of(8, 1024 / (ROWS * COLS * PARTS * PARTS)));

#include "matmul_panels.cuh"

constexpr bool A_ALONG = SMM_ORDER_A == SMM_ORDER_ROW, B_ALONG = SMM_ORDER_B == SMM_ORDER_COL;
typedef Layout<HEIGHT, A_ALONG> LayoutA;
typedef Layout<WIDTH, B_ALONG> LayoutB;
template <bool EVEN> using PanelA = Given<HEIGHT, A_ALONG, EVEN>;
template <bool GATHERED, bool EVEN> struct ChooseB {
    typedef Given<WIDTH, B_ALONG, EVEN> Type;
};
template <bool EVEN> struct ChooseB<true, EVEN> {
    typedef Gathered<WIDTH, B_ALONG> Type;
};
template <bool EVEN> using PanelB = typename ChooseB<OF_IMAGES, EVEN>::Type;
constexpr int PANELS = LayoutA::ELEMENTS + LayoutB::ELEMENTS; /* of a stage of a slice */
constexpr int FRONT = max_of(max_of(SLICES * STAGES * PANELS, SLICES > 1 ? SLICES * AREA : 0), THREADS);
static_assert(SMM_SHARED == FRONT * sizeof(Element), "the plan counts otherwise");

/* The partial sums of a thread, of one level of its tree. They are apart from Tile, which must stay in registers. */
struct Partial {
    Element sum[ROWS][COLS];
};

/* A thread's tile of C: vectors of rows and columns, spread over that of its slice. A warp's are blocks of 8 x 8 for
 * tensor cores: thread 4 i + j has elements (i, 2 j) and (i, 2 j + 1) of each, which are the parts of a complex one.
 * Else it stands in rows of 8 threads, if it can: those that differ in bit 0 alone read the same columns, in bit 1 the
 * same rows, so that two groups of 8 are served at a time. */
struct Tile {
    static constexpr int VR = TENSOR ? 1 : widest_of(ROWS), VC = TENSOR ? 2 / PARTS : widest_of(COLS);
    static constexpr int ABREAST = TENSOR ? 4 : min_of(8, ACROSS); /* threads of a warp */
    static constexpr bool BY_WARPS = LANES % 32 == 0 && ABREAST >= 4 && DOWN % (32 / ABREAST) == 0;
    Element sum[ROWS][COLS];
    int first_row, first_col; /* behind which the others are at constant distances */

    __device__ explicit Tile(int lane) {
        int down = lane / ACROSS, side = lane % ACROSS;
        if (BY_WARPS) {
            constexpr int WARPS_ACROSS = max_of(ACROSS / ABREAST, 1);
            const int warp = lane / 32, thread = lane % 32;
            down =
                warp / WARPS_ACROSS * (32 / ABREAST) + (TENSOR ? thread / 4 : thread / (2 * ABREAST) * 2 + thread % 2);
            side = warp % WARPS_ACROSS * ABREAST + (TENSOR ? thread % 4 : thread / 2 % ABREAST);
        }
        first_row = down * VR;
        first_col = side * VC;
    }

    __device__ static constexpr int below(int r) { return r / VR * DOWN * VR + r % VR; }
    __device__ static constexpr int beside(int c) { return c / VC * ACROSS * VC + c % VC; }
    __device__ int row(int r) const { return first_row + below(r); }
    __device__ int col(int c) const { return first_col + beside(c); }

    __device__ void begin(Element with) {
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
            for (int c = 0; c < COLS; c++) sum[r][c] = with;
    }

    /* A whole panel; `meanwhile` is called as early as nothing waits for it, and begins copies. */
    template <class Call> __device__ void add_all(const Element *a, const Element *b, const Call &meanwhile) {
        if constexpr (TENSOR)
            add_blocks(reinterpret_cast<const T *>(a), reinterpret_cast<const T *>(b), meanwhile);
        else {
            a = base(a + LayoutA::position(first_row, 0));
            b = base(b + LayoutB::position(first_col, 0));
            Factors factors[2]; /* those of the next term are on their way while a term's are multiplied */
            factors[0].read(a, b, 0);
            factors[1].read(a, b, 1);
            meanwhile(); /* not in the loop, where NVRTC 13.0 left out a wait for factors */
#pragma unroll(UNROLL)
            for (int k = 0; k < DEPTH; k++) {
                add(factors[k % 2]);
                if (k + 2 < DEPTH) factors[k % 2].read(a, b, k + 2);
            }
        }
    }
    /* The first terms of a panel. Others are not multiplied: of what is added to a sum of -0, only -0 changes nothing.
     */
    __device__ void add_some(const Element *a, const Element *b, int terms) {
        a = base(a + LayoutA::position(first_row, 0));
        b = base(b + LayoutB::position(first_col, 0));
#pragma unroll 1
        for (int k = 0; k < terms; k++) {
            Factors factors;
            factors.read(a, b, k);
            add(factors);
        }
    }

    /* Thread 4 i + j has elements (i, j) of blocks of A, 8 x 4, and (j, i) of those of B. The parts of a complex A are
     * twice as many real columns; each element of B is then two rows and columns, {{re, im}, {-im, re}}. */
    template <class X, class Call> __device__ void add_blocks(const X *a, const X *b, const Call &meanwhile) {
        const int i = threadIdx.x % 32 / 4, j = threadIdx.x % 4;
        const unsigned sign = COMPLEX && j % 2 && i % 2 == 0 ? 0x80000000 : 0;
        a = base(a + PARTS * LayoutA::position(first_row, j / PARTS) + j % PARTS);
        b = base(b + PARTS * LayoutB::position(first_col - VC * j + i / PARTS, j / PARTS) + (i ^ j) % PARTS);
#pragma unroll(UNROLL)
        for (int k = 0; k < DEPTH; k += 4 / PARTS) {
            X x[ROWS], y[COLS / VC];
#pragma unroll
            for (int r = 0; r < ROWS; r++) x[r] = a[PARTS * LayoutA::position(below(r), k)];
#pragma unroll
            for (int c = 0; c < COLS / VC; c++) y[c] = b[PARTS * LayoutB::position(beside(VC * c), k)];
#pragma unroll
            for (int c = 0; c < COLS / VC; c++) {
                if (COMPLEX) y[c] = __hiloint2double(__double2hiint(y[c]) ^ sign, __double2loint(y[c]));
#pragma unroll
                for (int r = 0; r + 1 < ROWS; r += 2)
                    add_by_tensor_cores(block(r, c), block(r + 1, c), x[r], x[r + 1], y[c]);
                if (ROWS % 2) add_by_tensor_cores(block(ROWS - 1, c), x[ROWS - 1], y[c]);
            }
            if (k == 0) meanwhile();
        }
    }
    __device__ T (&block(int r, int c))[2] { return reinterpret_cast<T(&)[2]>(sum[r][VC * c]); }

    /* What a thread multiplies of one term. */
    struct Factors {
        Element x[ROWS], y[COLS];

        __device__ void read(const Element *a, const Element *b, int k) {
            constexpr int WA = LayoutA::AS_IT_LIES ? 1 : VR, WB = LayoutB::AS_IT_LIES ? 1 : VC;
#pragma unroll
            for (int r = 0; r < ROWS; r += WA) {
                const Vector<WA, Element> v = load<WA>(a + LayoutA::position(below(r), k));
#pragma unroll
                for (int e = 0; e < WA; e++) x[r + e] = v.x[e];
            }
#pragma unroll
            for (int c = 0; c < COLS; c += WB) {
                const Vector<WB, Element> v = load<WB>(b + LayoutB::position(beside(c), k));
#pragma unroll
                for (int e = 0; e < WB; e++) y[c + e] = v.x[e];
            }
        }
    };
    /* To and fro, so that each product has a factor of the one before: an instruction reads two numbers at a time from
     * registers, and may take a third from the last one. */
    __device__ void add(const Factors &f) {
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
            for (int i = 0; i < COLS; i++) {
                const int c = r % 2 ? COLS - 1 - i : i;
                sum[r][c] = multiply_add(f.x[r], f.y[c], sum[r][c]);
            }
    }

    /* The sums are those of chunk `number` of the span: equal sums are added, which leaves one at each level whose bit
     * is set in the number of chunks; of the last chunk all are. */
    __device__ void add_to_tree(Partial *kept, int number, bool last) {
        for (int level = 0; level < LEVELS && number >> level; level++) {
            if (!(number >> level & 1)) {
                if (last) continue;
                break;
            }
#pragma unroll
            for (int r = 0; r < ROWS; r++)
#pragma unroll
                for (int c = 0; c < COLS; c++) sum[r][c] = sum_of(kept[level].sum[r][c], sum[r][c]);
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

/* The sums of a slice's terms. */
template <class PanelA, class PanelB>
__device__ inline void add_panels(const smm_cuda_args &args, const Share &share, const Begin &begin_a,
                                  const Begin &begin_b, Tile &tile, Element *images) {
    const int panels_of_chunk = share.deep ? SUM_CHUNK / DEPTH : share.panels, lane = begin_a.lane;
    PanelA of_a;
    PanelB of_b;
    of_a.begin(begin_a, args.images);
    of_b.begin(begin_b, args.images);
    int left = static_cast<int>(share.end - share.begin); /* terms from the present panel on, or none */
    const auto terms_of = [&](int panels_ahead) { return max_of(0, min_of(left - panels_ahead * DEPTH, DEPTH)); };
    const auto fetch = [&](Element *image, int terms) {
        of_a.fetch(image, terms, lane, args.images);
        of_b.fetch(image + LayoutA::ELEMENTS, terms, lane, args.images);
        if (COPIES) end_of_copies();
    };
    const auto put = [&](Element *image) {
        of_a.put(image, lane);
        of_b.put(image + LayoutA::ELEMENTS, lane);
    };
    const auto next = [](int stage) { return stage == (STAGES - 1) * PANELS ? 0 : stage + PANELS; };

    Partial kept[max_of(LEVELS, 1)];
#pragma unroll 1
    for (int p = 0; p < STAGES - 1; p++) {
        fetch(images + p * PANELS, terms_of(p));
        put(images + p * PANELS);
    }
    const Element nothing = negative(element_of(0)); /* to which the first product is added without a change */
    tile.begin(left > 0 ? nothing : element_of(0));
    int stage = 0, free = (STAGES - 1) * PANELS; /* where the present panel is, and where the next one comes */
    int chunk = 0, of_chunk = 0;                 /* panels */
#pragma unroll 1
    for (int p = 0; p < share.panels; p++) {
        if (COPIES) wait_for_copies<STAGES - 2>();
        __syncthreads();
        const Element *const a = images + stage, *const b = a + LayoutA::ELEMENTS;
        const int later = terms_of(STAGES - 1);
        if (left >= DEPTH) /* NVRTC 13.0 compiles terms_of(0) == DEPTH to what is true of the last panel alone */
            tile.add_all(a, b, [&] { fetch(images + free, later); });
        else {
            fetch(images + free, later);
            tile.add_some(a, b, left);
        }
        put(images + free);
        stage = next(stage);
        free = next(free);
        const bool any = left > 0, last = left <= DEPTH;
        left -= DEPTH;
        if (!share.deep || !any) continue;
        if (++of_chunk < panels_of_chunk && !last) continue;
        tile.add_to_tree(kept, chunk++, last);
        if (!last) tile.begin(nothing);
        of_chunk = 0;
    }
    if (COPIES) wait_for_copies<0>();
}

extern "C" __global__ void BOUNDS SMM_NAME(const __grid_constant__ smm_cuda_args args) {
    extern __shared__ __align__(16) Element shared[];
    const smm_cuda_tiles &tiles = args.tiles;
    if (tiles.groups) {
        add_parts(args, shared);
        return;
    }
    const int slice = threadIdx.x / LANES, lane = threadIdx.x % LANES;
    const Share share(args, slice);
    const TilePosition position = share.position(tiles);
    const smm_cuda_operand &a = args.operand[SMM_A], &b = args.operand[SMM_B];
    const Stored *const from_a = static_cast<const Stored *>(a.data) + offset_of(args, a, position.matrix);
    const Stored *const from_b = static_cast<const Stored *>(b.data) + offset_of(args, b, position.matrix);
    const Begin begin_a = {from_a, a.row, a.col, position.row, tiles.m, share.begin, lane};
    const Begin begin_b = {from_b, b.col, b.row, position.col, tiles.n, share.begin, lane};

    Element *const images = shared + slice * STAGES * PANELS;
    Tile tile(lane);
    if (__syncthreads_and(PanelA<true>::is_even(begin_a) && PanelB<true>::is_even(begin_b)))
        add_panels<PanelA<true>, PanelB<true>>(args, share, begin_a, begin_b, tile, images);
    else
        add_panels<PanelA<false>, PanelB<false>>(args, share, begin_a, begin_b, tile, images);
    finish(args, share, position, slice, tile, shared);
}
