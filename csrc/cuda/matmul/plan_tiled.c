/* plan_tiled.c: the kernels of products of any size: whether they can run a problem, and the tile of least time by a
 * model. */
#include <math.h>

#include "../plan.h"

enum { WARP = 32 };

static bool is_power_of_two(int x) { return x > 0 && !(x & (x - 1)); }

static int parts_of(const smm_cuda_problem *p) { return bytes_of(p) / bytes_of_part(p); } /* of an element */

/* Whether tensor cores multiply, as TENSOR of matmul_tiled.cuh. */
static bool takes_tensor_cores(const smm_cuda_problem *p, const smm_cuda_parameters *x) {
    return bytes_of_part(p) == 8 && p->arch >= 90 && x->lanes % WARP == 0 && x->across % 4 == 0 &&
           x->lanes / x->across % 8 == 0 && parts_of(p) * x->cols % 2 == 0 && x->depth % 4 == 0;
}

/* Elements of one panel of so many lines, along which terms lie or not, as Layout::ELEMENTS of matmul_tiled.cuh. */
static int panel_of(const smm_cuda_problem *p, const smm_cuda_parameters *x, int lines, bool along) {
    if (!takes_tensor_cores(p, x)) return x->depth * (round_up_to_vectors(p, lines) + 16 / bytes_of(p));
    const int side = 16 / parts_of(p);
    return along ? lines * (x->depth + 4 / parts_of(p)) : x->depth * (ceil_div(lines, side) * side + 4);
}

bool smm_matmul_tiled_fits(const smm_cuda_problem *p, const smm_cuda_parameters *x, smm_cuda_grid *grid) {
    enum { MAX_SIDE = 16, MAX_LEVELS = 8, MAX_TILE_BYTES = 512, MAX_FETCHED = 32 };
    if (p->op != SMM_OP_MATMUL || p->form & SMM_TENSOR || !is_power_of_two(x->lanes) || !is_power_of_two(x->across) ||
        !is_power_of_two(x->threads) || !is_power_of_two(x->depth) || x->across > x->lanes || x->lanes > x->threads ||
        x->threads < WARP || x->threads > 1024 || x->depth < 2 || x->depth > SMM_CHUNK || x->levels < 0 ||
        x->levels > MAX_LEVELS || x->rows < 1 || x->cols < 1 || x->rows > MAX_SIDE || x->cols > MAX_SIDE ||
        x->blocks < 0 || x->rows * x->cols * bytes_of(p) > MAX_TILE_BYTES)
        return false;
    const int rows = x->lanes / x->across * x->rows, cols = x->across * x->cols, slices = x->threads / x->lanes;
    const int stages = 1 + ceil_div(24, x->depth);
    const int panels =
        stages * slices *
        (panel_of(p, x, rows, p->order_a == SMM_ORDER_ROW) + panel_of(p, x, cols, p->order_b == SMM_ORDER_COL));
    const int sums = slices > 1 ? slices * rows * cols : 0;
    *grid = (smm_cuda_grid){.matrices = 1,
                            .threads = x->threads,
                            .rows = rows,
                            .cols = cols,
                            .slices = slices,
                            .shared = max_of(max_of(panels, sums), x->threads) * bytes_of(p)};
    return (rows + cols) * x->depth <= MAX_FETCHED * x->lanes;
}

/* By the tensor cores of float16 and bfloat16, as the constants of matmul_tensor.cuh. */
bool smm_matmul_tensor_fits(const smm_cuda_problem *p, const smm_cuda_parameters *x, smm_cuda_grid *grid) {
    enum { MAX_SIDE = 16, MAX_LEVELS = 4, MAX_TILE = 128, STORED = 2, GAP = 8 };
    if (p->op != SMM_OP_MATMUL || !(p->form & SMM_TENSOR) || !is_power_of_two(x->lanes) ||
        !is_power_of_two(x->across) || !is_power_of_two(x->threads) || !is_power_of_two(x->depth) ||
        !is_power_of_two(x->rows) || !is_power_of_two(x->cols) || x->across < 4 || x->lanes < 8 * x->across ||
        x->lanes > x->threads || x->threads > 1024 || x->depth < 16 || x->depth > SMM_CHUNK || x->levels < 0 ||
        x->levels > MAX_LEVELS || x->rows < 2 || x->cols < 4 || x->rows > MAX_SIDE || x->cols > MAX_SIDE ||
        x->rows * x->cols > MAX_TILE || x->blocks < 0 || x->stages < 2)
        return false;
    const int rows = x->lanes / x->across * x->rows, cols = x->across * x->cols, slices = x->threads / x->lanes;
    const int of_a = p->order_a == SMM_ORDER_ROW ? rows * (x->depth + GAP) : x->depth * (rows + GAP);
    const int of_b = p->order_b == SMM_ORDER_COL ? cols * (x->depth + GAP) : x->depth * (cols + GAP);
    const int panels = slices * x->stages * (of_a + of_b) * STORED;
    const int sums = max_of(slices * rows * (cols + GAP), x->threads) * bytes_of(p);
    *grid = (smm_cuda_grid){.matrices = 1,
                            .threads = x->threads,
                            .rows = rows,
                            .cols = cols,
                            .slices = slices,
                            .shared = max_of(panels, sums)};
    return true;
}

enum {
#define SMM_TILED_CONSTANT(name, value, meaning) name,
#include "tiled.def"
#undef SMM_TILED_CONSTANT
    TILED_CONSTANTS
};

/* Registers that a thread would have if there were no limit, as those that were timed have on the mean. */
static double wished_registers(const smm_cuda_problem *p, const smm_cuda_parameters *x) {
    const int words = bytes_of(p) / 4;
    const double of_tile = words * 1.15 * x->rows * x->cols,
                 of_factors = words * (words == 1 ? 3.5 : 2.2) * (x->rows + x->cols);
    return 35 + x->depth / 2.0 + of_tile + of_factors + (p->k > SMM_DEEP ? 9 : 0) +
           (p->source_b == SMM_SOURCE_IMAGES ? 40 : 0);
}

/* The time of a product on a device like an H100, in nanoseconds: blocks come in waves. In a wave the threads'
 * instructions run at once, as many as there are lanes, and latency hides behind other threads and other elements of a
 * tile. docs/tuning.md says how well this chooses. */
static double tiled_time(const smm_cuda_problem *p, const smm_cuda_parameters *x, const smm_cuda_grid *grid,
                         const double *c) {
    enum {
        MULTIPROCESSORS = 132,
        LANES = 128,
        THREADS = 2048,
        REGISTERS = 65536,
        SHARED_MEMORY = 227 << 10,
        UNSURE = 16 /* registers, more or less than wished */
    };
    const bool of_images = p->source_b == SMM_SOURCE_IMAGES;
    const int parts = parts_of(p), words = bytes_of_part(p) / 4, tile = x->rows * x->cols;
    const int each = parts * parts; /* products of parts, of a product */
    const bool by_tensor_cores = takes_tensor_cores(p, x);
    const double reads = by_tensor_cores
                             ? (x->rows / 4.0 + parts * x->cols / 8.0) * parts
                             : (double)x->rows / width_of(p, x->rows) + (double)x->cols / width_of(p, x->cols);
    const double of_a = (double)grid->rows / x->lanes, of_b = (double)grid->cols / x->lanes;
    const int in_pairs = (x->rows + x->rows % 2) * x->cols; /* rows of blocks, for tensor cores */
    const double alone = c[latency] / (1 + tile / c[of_hiding]);
    const bool deep = p->k > SMM_DEEP;
    const double wished = wished_registers(p, x);
    const int max_registers = min_of(255, REGISTERS / (max_of(1, x->blocks) * grid->threads));
    const int registers = min_of((int)wished, max_registers);
    const double spilled = fmax(0, wished - registers - UNSURE);
    const int max_blocks = min_of(min_of(THREADS / grid->threads, SHARED_MEMORY / (grid->shared + 1024)),
                                  REGISTERS / (registers * grid->threads));
    if (!max_blocks) return 1e30;
    const double step = (by_tensor_cores ? c[of_tensor_cores] * in_pairs : words * tile) * each + c[of_read] * reads +
                        c[of_fetch] * (of_a + of_b) + (of_images ? c[of_gathering] * of_b : 0) + c[of_spill] * spilled;
    const double tiles = (double)ceil_div(p->m, grid->rows) * ceil_div(p->n, grid->cols) * (1 << min_of(p->load, 24));
    const double chunks = deep ? ceil_div(p->k, SMM_CHUNK) : 1, panels = ceil_div(deep ? SMM_CHUNK : p->k, x->depth);
    double best = 0;
    for (int span = 1; span <= 1 << x->levels; span *= 2) {
        const double blocks = ceil(chunks / (span * grid->slices)), sums = blocks > 1 ? 2 * blocks : 0;
        const double all = tiles * (deep ? blocks : 1.0 / grid->slices);
        const double resident = fmin(max_blocks, ceil(all / MULTIPROCESSORS)),
                     waves = all / (resident * MULTIPROCESSORS);
        const double busy = resident * grid->threads / LANES,
                     panel = x->depth * step * (busy + alone) + c[of_panel] * grid->threads / LANES;
        const double traffic = (p->k * (grid->rows + grid->cols) / 4.0 + (1 + sums) * grid->rows * grid->cols) * tiles;
        const double in_turn = blocks > 1 ? span : ceil(chunks / grid->slices);
        const double cycles = (waves < 8 ? ceil(waves) : waves) * (panels * in_turn * panel + c[of_block]) +
                              traffic * bytes_of(p) / c[bytes_a_cycle] + (blocks > 1 ? c[of_launch] : 0);
        if (best == 0 || cycles < best) best = cycles;
        if (blocks == 1) break;
    }
    return best * c[cycle];
}

const smm_cuda_model smm_matmul_tiled_model = {
    .time = tiled_time,
    .count = TILED_CONSTANTS,
#define SMM_TILED_CONSTANT(name, value, meaning) #name,
    .names =
        (const char *const[]){
#include "tiled.def"
        },
#undef SMM_TILED_CONSTANT
#define SMM_TILED_CONSTANT(name, value, meaning) value,
    .constants =
        (const double[]){
#include "tiled.def"
        },
#undef SMM_TILED_CONSTANT
};

/* Bytes of shared memory that a block of a product of any size may take by its baseline. */
static int usual_shared(const smm_cuda_problem *p) {
    return (p->arch == 80 || p->arch == 90 || p->arch == 100 ? 160 : 96) << 10;
}

/* Of tiles of the kind that was timed, the fastest by the model. Larger ones of doubles and of complex numbers, and
 * more products of a thread in a panel, were slower but for few (one H200, 2026-11-26 and 2026-11-29). */
void smm_matmul_tiled_baseline(const smm_cuda_problem *p, smm_cuda_parameters *best) {
    enum {
        MAX_LINES = 128,
        MAX_ROWS = 16,
        MAX_COLS = 8,
        MAX_FLOATS = 128, /* elements of a tile */
        MAX_DOUBLES = 32,
        MAX_COMPLEX = 16,
        MAX_OF_PANEL = 4096
    };
    const int max_shared = usual_shared(p), max_lanes = bytes_of(p) >= 8 ? 128 : 256;
    const int max_elements = parts_of(p) > 1 ? MAX_COMPLEX : bytes_of(p) == 8 ? MAX_DOUBLES : MAX_FLOATS;
    const bool deep = p->k > SMM_DEEP;
    double min_time = 0;
    *best = (smm_cuda_parameters){.kernel = SMM_CUDA_KERNEL_matmul_tiled};
    smm_cuda_parameters x = *best;
    for (x.lanes = 1; x.lanes <= max_lanes; x.lanes *= 2)
        for (x.across = 1; x.across <= min_of(x.lanes, 16); x.across *= 2)
            for (x.rows = 1; x.rows <= MAX_ROWS; x.rows *= 2)
                for (x.cols = 1; x.cols <= min_of(MAX_COLS, max_elements / x.rows); x.cols *= 2)
                    for (x.depth = 32; x.depth >= 8; x.depth /= 2) {
                        const int rows = x.lanes / x.across * x.rows, cols = x.across * x.cols;
                        smm_cuda_grid grid;
                        if (rows > MAX_LINES || cols > MAX_LINES || rows >= 2 * p->m + 8 || cols >= 2 * p->n + 8)
                            continue;
                        if (x.rows * x.cols * x.depth * bytes_of(p) * parts_of(p) > MAX_OF_PANEL) continue;
                        if (x.rows * x.cols > 32 && x.lanes < 64) continue;  /* of which few were timed, */
                        if (x.rows * x.cols < 16 && x.lanes > 128) continue; /* as of these */
                        for (x.threads = max_of(x.lanes, 64); x.threads <= max_of(x.lanes, 128); x.threads *= 2) {
                            x.levels = deep ? 3 : 0;
                            while (smm_matmul_tiled_fits(p, &x, &grid) && grid.shared > max_shared && x.levels)
                                x.levels--;
                            if (!smm_matmul_tiled_fits(p, &x, &grid) || grid.shared > max_shared) continue;
                            const double time = tiled_time(p, &x, &grid, smm_matmul_tiled_model.constants);
                            if (min_time && time >= min_time) continue;
                            min_time = time;
                            *best = x;
                        }
                    }
}

/* Of tiles of up to 128 x 128 the largest of which a device like an H100 has one for each multiprocessor. Warps have up
 * to 64 x 64 elements of it. */
void smm_matmul_tensor_baseline(const smm_cuda_problem *p, smm_cuda_parameters *x) {
    enum { MULTIPROCESSORS = 132, FEWEST_LINES = 16, LINES = 64, MAX_LINES = 128, MAX_DEPTH = 64, THREADS = 128 };
    const bool deep = p->k > SMM_DEEP;
    smm_cuda_grid grid;
    int rows = max_of(FEWEST_LINES, min_of(power_of_two(p->m), MAX_LINES));
    int cols = max_of(FEWEST_LINES, min_of(power_of_two(p->n), MAX_LINES));
    *x = (smm_cuda_parameters){.kernel = SMM_CUDA_KERNEL_matmul_tensor, .threads = THREADS, .levels = deep ? 4 : 0};
    const double parts = deep ? ceil_div(p->k, SMM_CHUNK << x->levels) : 1;
    while (rows * cols > LINES * LINES &&
           parts * ceil_div(p->m, rows) * ceil_div(p->n, cols) * (1 << min_of(p->load, 24)) < MULTIPROCESSORS) {
        if (rows >= cols)
            rows /= 2;
        else
            cols /= 2;
    }
    const int down = rows > 32 ? rows / 2 : rows, across = cols > 32 ? cols / 2 : cols; /* of a warp */
    x->rows = down / 8;
    x->cols = across / 4;
    x->across = cols / across * 4;
    x->lanes = rows / down * (cols / across) * WARP;
    x->depth = max_of(16, min_of(power_of_two(p->k), MAX_DEPTH));
    x->stages = p->k <= MAX_DEPTH ? 2 : rows * cols > LINES * LINES ? 3 : 4;
    while (smm_matmul_tensor_fits(p, x, &grid) && grid.shared > usual_shared(p) && x->depth > 16) {
        if (x->stages > 2)
            x->stages--;
        else
            x->depth /= 2;
    }
}
