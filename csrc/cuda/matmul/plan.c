/* plan.c: which of the kernels of products up to order 64 can run a problem, and with which tile, by counting what a
 * tile costs. */
#include "../plan.h"

/* All kernels but the tiled one sum in a row. */
_Static_assert((int)SMM_CUDA_MAX <= (int)SMM_DEEP, "a kernel of deep products would have to sum in chunks");

enum { WARP = 32 };

/* The fewest matrices after which all flat operands are at multiples of 16 bytes again. */
static int group(const smm_cuda_problem *p) {
    int together = 1;
    if (p->source_a == SMM_SOURCE_FLAT) together = max_of(together, group_of(p, p->m * p->k));
    if (p->source_b == SMM_SOURCE_FLAT) together = max_of(together, group_of(p, p->k * p->n));
    if (p->source_c == SMM_SOURCE_FLAT) together = max_of(together, group_of(p, p->m * p->n));
    return together;
}

/* Of a tile in registers: beyond so many bytes it spills; beyond so many numbers, of which a complex one is two, some
 * are the best, but most are not, so that only measuring can choose them. */
enum { MAX_TILE_BYTES = 256, GOOD_TILE_NUMBERS = 32 };

static bool good_tile(const smm_cuda_problem *p, const smm_cuda_parameters *x) {
    return x->rows >= 1 && x->cols >= 1 && x->rows <= p->m && x->cols <= p->n &&
           x->rows * x->cols * bytes_of(p) <= MAX_TILE_BYTES;
}

/* As many matrices as fill the threads asked for, at least one. Whole groups keep blocks aligned, for which lines of
 * vectors give up any matrix, odd lines only few of many. */
static bool fill_block(const smm_cuda_problem *p, const smm_cuda_parameters *x, smm_cuda_grid *grid) {
    const int tiles = ceil_div(p->m, x->rows) * ceil_div(p->n, x->cols), g = group(p);
    int matrices = max_of(1, x->threads / tiles);
    if (matrices >= (width_of(p, p->k) == 1 && width_of(p, p->n) == 1 ? 4 * g : g)) matrices -= matrices % g;
    *grid = (smm_cuda_grid){.matrices = matrices,
                            .threads = ceil_div(matrices * tiles, 32) * 32,
                            .aligned = p->aligned && matrices % g == 0};
    return x->threads >= 32 && grid->threads <= 1024;
}

/* Bytes of shared memory of a block. */
static int staged_bytes(const smm_cuda_problem *p, const smm_cuda_parameters *x, const smm_cuda_grid *grid) {
    const bool a_rows = p->order_a == SMM_ORDER_ROW, b_rows = p->order_b == SMM_ORDER_ROW;
    const int a = smm_cuda_image_bytes(p, x, grid, p->source_a, a_rows ? p->m : p->k, a_rows ? p->k : p->m, 0);
    const int b = smm_cuda_image_bytes(p, x, grid, p->source_b, b_rows ? p->k : p->n, b_rows ? p->n : p->k, 0);
    return max_of(a + b, smm_cuda_image_bytes(p, x, grid, p->source_c, p->m, p->n, 0));
}

bool smm_matmul_staged_fits(const smm_cuda_problem *p, const smm_cuda_parameters *x, smm_cuda_grid *grid) {
    enum { ENOUGH = 24 << 10 }; /* bytes; more would leave too few blocks to a multiprocessor */
    if (p->op != SMM_OP_MATMUL || !good_tile(p, x) || !fill_block(p, x, grid)) return false;
    if (!x->through_shared && (p->source_c != SMM_SOURCE_FLAT || (x->pad && !grid->aligned))) return false;
    const int tiles = ceil_div(p->m, x->rows) * ceil_div(p->n, x->cols), g = group(p);
    while ((grid->shared = staged_bytes(p, x, grid)) > ENOUGH && grid->matrices > g) {
        grid->matrices = max_of(g, grid->matrices / 2 / g * g);
        grid->threads = ceil_div(grid->matrices * tiles, 32) * 32;
        grid->aligned = p->aligned;
    }
    return true;
}

bool smm_matmul_direct_fits(const smm_cuda_problem *p, const smm_cuda_parameters *x, smm_cuda_grid *grid) {
    return p->op == SMM_OP_MATMUL && p->aligned && !p->in_place && p->source_a != SMM_SOURCE_STRIDED &&
           p->source_b != SMM_SOURCE_STRIDED && p->source_c == SMM_SOURCE_FLAT && p->k > 0 && good_tile(p, x) &&
           fill_block(p, x, grid);
}

/* A thread takes `groups` groups, each of as many matrices as make whole vectors. */
bool smm_matmul_whole_fits(const smm_cuda_problem *p, const smm_cuda_parameters *x, smm_cuda_grid *grid) {
    enum { MAX_BYTES = 192 }; /* of a thread's registers */
    const int each = group(p) * x->groups;
    *grid = (smm_cuda_grid){.matrices = x->threads * each, .threads = x->threads, .aligned = true};
    return p->op == SMM_OP_MATMUL && p->aligned && !p->scaled && p->source_a == SMM_SOURCE_FLAT &&
           p->source_b == SMM_SOURCE_FLAT && p->source_c == SMM_SOURCE_FLAT && p->k > 0 && x->threads % 32 == 0 &&
           x->threads >= 32 && x->threads <= 1024 && x->groups >= 1 &&
           each * (p->m * p->k + p->k * p->n + p->m * p->n) * bytes_of(p) <= MAX_BYTES;
}

/* One matrix for all, of which threads hold columns (rows, if it is A), and a stack that meets it line by line. */
typedef struct with_one {
    bool is_b, along;  /* that one is B; the lines of the stack are contiguous */
    int lines, length; /* of C of a matrix */
} with_one;

static with_one with_one_of(const smm_cuda_problem *p) {
    if (p->source_b == SMM_SOURCE_ONE) return (with_one){true, p->order_a == SMM_ORDER_ROW, p->m, p->n};
    return (with_one){false, p->order_b == SMM_ORDER_COL, p->n, p->m};
}

/* `lanes` threads to a matrix, or more where the groups of all blocks of a multiprocessor would not fit it. */
bool smm_matmul_one_fits(const smm_cuda_problem *p, const smm_cuda_parameters *x, smm_cuda_grid *grid) {
    enum { FIRST_ARCH = 90, MAX_HELD = 800, SHARED = 227 << 10, SHARED_OF_SYSTEM = 1 << 10 };
    const with_one w = with_one_of(p);
    const int held = w.is_b ? x->cols : x->rows, g = group(p);
    if (p->op != SMM_OP_MATMUL || p->arch < FIRST_ARCH || !p->aligned || p->scaled || p->k == 0 ||
        p->source_c != SMM_SOURCE_FLAT || p->source_a + p->source_b != SMM_SOURCE_FLAT + SMM_SOURCE_ONE)
        return false;
    if (x->rows < 1 || x->cols < 1 || x->lanes < 1 || x->stages < 2 || x->blocks < 1 || x->threads < 32 ||
        x->threads > 1024 || x->threads % 32 || held * p->k * bytes_of(p) > MAX_HELD || held * 32 < w.length)
        return false;
    const bool in_place = w.along == w.is_b && p->k == w.length;
    const int bytes = w.lines * (p->k + (in_place ? 0 : w.length)) * bytes_of(p);
    const int workspace = SHARED / x->blocks - SHARED_OF_SYSTEM;
    int matrices = max_of(g, x->threads / x->lanes / g * g);
    while (x->stages * matrices * bytes > workspace && matrices > g) matrices = max_of(g, matrices / 2 / g * g);
    *grid = (smm_cuda_grid){.matrices = matrices,
                            .threads = x->threads,
                            .shared = x->stages * matrices * bytes,
                            .resident = x->blocks,
                            .aligned = true};
    return grid->shared <= workspace;
}

/* --- the cost of a tile: passes of the shared memory, and products ---
 *
 * What limits the staged kernel besides the memory is reading its images: the shared memory serves 32 banks of 4 bytes
 * a cycle, so a warp's read takes as many passes as its busiest bank has words, and reads of 8 and 16 bytes are served
 * by halves and quarters of the warp. After that come the products, of which a warp makes 32 whether all its lanes have
 * a tile or not. Of 60 random rectangles with 30 timed kernels each, the one of least cost is within 4 % of the best on
 * the mean, 12 % at worst (one H200, 2026-11-21). */

enum { BANKS = 32, MAX_THREADS_SIMULATED = 2 * WARP };

/* Passes of one read by up to a warp of lanes, of `width` elements from these element addresses. */
static int passes(const smm_cuda_problem *p, const int *address, int lanes, int width) {
    const int words = width * bytes_of(p) / 4, together = BANKS / words;
    int sum = 0;
    for (int first = 0; first < lanes; first += together) {
        int seen[BANKS], count = 0, of_bank[BANKS] = {0}, busiest = 0;
        for (int l = first; l < min_of(lanes, first + together); l++) {
            const int word = address[l] * (bytes_of(p) / 4);
            bool known = false;
            for (int i = 0; i < count && !known; i++) known = seen[i] == word;
            if (known) continue;
            seen[count++] = word;
            for (int w = word; w < word + words; w++) busiest = max_of(busiest, ++of_bank[w % BANKS]);
        }
        sum += busiest;
    }
    return sum;
}

typedef struct lines { /* of an image, as in shared_tile.cuh */
    int pitch, width, matrix;
} lines;

static lines lines_of(const smm_cuda_problem *p, const smm_cuda_parameters *x, const smm_cuda_grid *grid, int source,
                      int count, int length) {
    const int vector = 16 / bytes_of(p);
    const bool pad = x->pad && grid->aligned && length && length % vector == 0 && length / vector % 2 == 0;
    const int pitch = length + (pad ? vector : 0);
    return (lines){pitch, grid->aligned ? width_of(p, length) : 1, source == SMM_SOURCE_ONE ? 0 : count * pitch};
}

/* Passes for one step of k of one matrix, all its threads together, as Tile::add of matmul_tile.cuh reads. */
static double passes_of_step(const smm_cuda_problem *p, const smm_cuda_parameters *x, const smm_cuda_grid *grid) {
    const bool a_rows = p->order_a == SMM_ORDER_ROW, b_rows = p->order_b == SMM_ORDER_ROW;
    const lines a = lines_of(p, x, grid, p->source_a, a_rows ? p->m : p->k, a_rows ? p->k : p->m);
    const lines b = lines_of(p, x, grid, p->source_b, b_rows ? p->k : p->n, b_rows ? p->n : p->k);
    const int row_tiles = ceil_div(p->m, x->rows), col_tiles = ceil_div(p->n, x->cols), tiles = row_tiles * col_tiles;
    const int vr = a_rows ? 1 : min_of(a.width, width_of(p, x->rows));
    const int vc = b_rows ? min_of(b.width, width_of(p, x->cols)) : 1;
    const int threads = min_of(grid->matrices * tiles, MAX_THREADS_SIMULATED);
    double sum = 0;
    for (int first = 0; first < threads; first += WARP) {
        const int lanes = min_of(WARP, threads - first);
        int address[WARP];
        for (int r = 0; r < x->rows; r += vr) {
            for (int l = 0; l < lanes; l++) {
                const int thread = first + l, tile = thread % tiles / col_tiles;
                const int row = min_of((tile + r / vr * row_tiles) * vr, (p->m - 1) / vr * vr);
                address[l] = thread / tiles * a.matrix + row * (a_rows ? a.pitch : 1);
            }
            sum += (double)passes(p, address, lanes, a_rows ? a.width : vr) / (a_rows ? a.width : 1);
        }
        for (int j = 0; j < x->cols; j += vc) {
            for (int l = 0; l < lanes; l++) {
                const int thread = first + l, tile = thread % tiles % col_tiles;
                const int col = min_of((tile + j / vc * col_tiles) * vc, (p->n - 1) / vc * vc);
                address[l] = thread / tiles * b.matrix + col * (b_rows ? 1 : b.pitch);
            }
            sum += (double)passes(p, address, lanes, b_rows ? vc : b.width) / (b_rows ? 1 : b.width);
        }
    }
    return sum * tiles / threads;
}

/* The cycles of both as a share of those that the memory needs; and what else was seen to cost, fitted to the same
 * times: little memory in a block, tiles of many registers, images that are not aligned, more than one warp. */
static double staged_cost(const smm_cuda_problem *p, const smm_cuda_parameters *x, const smm_cuda_grid *grid) {
    const double bytes_a_cycle = 18, products_a_cycle = bytes_of_part(p) == 8 ? 64 : 128, enough = 6 << 10;
    const double bytes = (double)(p->m * p->k + p->k * p->n + p->m * p->n) * bytes_of(p);
    const double passes = passes_of_step(p, x, grid), short_by = enough / (bytes * grid->matrices) - 1;
    const double each = smm_is_complex(p->dtype) ? 4 : 1; /* of parts */
    const double products = (double)grid->threads / grid->matrices * x->rows * x->cols * each;
    const double registers_over = x->rows * x->cols * bytes_of(p) / 128.0 - 1;
    return (passes + 0.5 * products / products_a_cycle) * p->k * bytes_a_cycle / bytes +
           (short_by > 0 ? 0.2 * short_by : 0) + (registers_over > 0 ? 0.1 * registers_over : 0) +
           0.05 * !grid->aligned + 0.05 * (grid->threads > WARP);
}

void smm_matmul_staged_baseline(const smm_cuda_problem *p, smm_cuda_parameters *best) {
    static const int threads[] = {64, 128, 32, 96};
    const int longest = max_of(p->order_a == SMM_ORDER_ROW ? p->k : p->m, p->order_b == SMM_ORDER_ROW ? p->n : p->k);
    const int width = p->aligned && p->order_b == SMM_ORDER_ROW ? width_of(p, p->n) : 1;
    const int parts = bytes_of(p) / bytes_of_part(p);
    double min_cost = 0;
    *best = (smm_cuda_parameters){
        .kernel = SMM_CUDA_KERNEL_matmul_staged, .rows = 1, .cols = 1, .threads = 128, .async = 1, .through_shared = 1};
    smm_cuda_parameters x = *best;
    x.unroll = p->k > 32 ? 16 : 0;
    for (x.pad = 0; x.pad <= (longest * bytes_of(p) >= 96); x.pad++)
        for (x.rows = 1; x.rows <= min_of(12, p->m); x.rows++)
            for (x.cols = width; x.cols <= min_of(12, p->n); x.cols += width)
                for (int i = 0; i < 4; i++) {
                    smm_cuda_grid grid;
                    x.threads = threads[i];
                    if (x.rows * x.cols * parts > GOOD_TILE_NUMBERS || !smm_matmul_staged_fits(p, &x, &grid)) continue;
                    const double cost = staged_cost(p, &x, &grid);
                    if (min_cost && cost >= min_cost) continue;
                    min_cost = cost;
                    *best = x;
                }
}

/* Never without a tuned row: no threads fit nowhere. */
void smm_matmul_direct_baseline(const smm_cuda_problem *p, smm_cuda_parameters *x) {
    (void)p;
    *x = (smm_cuda_parameters){.kernel = SMM_CUDA_KERNEL_matmul_direct};
}

void smm_matmul_whole_baseline(const smm_cuda_problem *p, smm_cuda_parameters *x) {
    (void)p;
    *x = (smm_cuda_parameters){.kernel = SMM_CUDA_KERNEL_matmul_whole, .groups = 1, .threads = 128};
}

/* What a warp does for the lines of one turn, in cycles of a multiprocessor's quarter: products, and the passes of
 * shared memory, as multiply() of matmul_one.cuh reads and writes. */
static double cost_of_turn(const smm_cuda_problem *p, const with_one *w, int held, int lines) {
    const int lanes = ceil_div(w->length, held), teams = WARP / lanes, used = teams * lanes;
    const int deep = w->along ? width_of(p, p->k) : 1, across = min_of(width_of(p, w->lines), width_of(p, lines));
    int x[WARP], c[WARP];
    for (int l = 0; l < used; l++) {
        const int q = w->is_b ? l % lanes : l / teams, line = (w->is_b ? l / lanes : l % teams) * lines;
        const int matrix = line / w->lines, its_line = line % w->lines;
        x[l] = w->along ? line * p->k : matrix * w->lines * p->k + its_line;
        c[l] = w->is_b ? line * w->length + q : matrix * w->lines * w->length + its_line + q * w->lines;
    }
    const int wide = w->along ? 1 : across, out = w->is_b ? 1 : across;
    const double reads = (double)p->k * lines / (deep * wide), writes = (double)held * lines / out;
    return (double)p->k * lines * held + 0.5 * reads * passes(p, x, used, deep * wide) +
           writes * passes(p, c, used, out);
}

/* Of what registers hold, the tile with the least work for a line. Eight warps to a multiprocessor: fewer registers
 * lose more than more warps gain (one H200, 2026-11-22). Too small a matrix is not worth the bulk copies. */
void smm_matmul_one_baseline(const smm_cuda_problem *p, smm_cuda_parameters *best) {
    enum { WARPS = 8, MAX_WORDS = 215, OF_A_TURN = 20, FEWEST_BYTES = 64 };
    const with_one w = with_one_of(p);
    const int words = bytes_of(p) / 4;
    double min_cost = 0;
    *best = (smm_cuda_parameters){.kernel = SMM_CUDA_KERNEL_matmul_one};
    smm_cuda_parameters x = {.kernel = SMM_CUDA_KERNEL_matmul_one, .stages = 4};
    if (p->k * w.lines * bytes_of(p) < FEWEST_BYTES) return;
    for (int held = 1; held <= min_of(8, w.length); held++)
        for (int lines = 1; lines <= 4; lines *= 2)
            for (x.blocks = 4; x.blocks >= 1; x.blocks /= 2) {
                const int deep = w.along ? width_of(p, p->k) : 1;
                smm_cuda_grid grid;
                x.rows = w.is_b ? lines : held;
                x.cols = w.is_b ? held : lines;
                x.threads = WARP * WARPS / x.blocks;
                x.lanes = x.threads / 64;
                if (words * (held * (p->k + lines) + 2 * lines * deep) > MAX_WORDS ||
                    !smm_matmul_one_fits(p, &x, &grid))
                    continue;
                const int at_once = WARPS / x.blocks * (WARP / ceil_div(w.length, held)) * lines;
                const int of_group = grid.matrices * w.lines, turns = ceil_div(of_group, at_once);
                const double cost = turns * (cost_of_turn(p, &w, held, lines) + OF_A_TURN) / x.blocks / of_group;
                if (min_cost && cost >= min_cost) continue;
                min_cost = cost;
                *best = x;
            }
}
