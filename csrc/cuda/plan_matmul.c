/* plan_matmul.c: which of the product's kernels can run a problem, and with which tile, by counting what a tile costs.
 */
#include "plan.h"

/* The fewest matrices after which all flat operands are at multiples of 16 bytes again. */
static int group(const smm_cuda_problem *p) {
    int together = 1;
    if (p->source_a == SMM_SOURCE_FLAT) together = most(together, group_of(p, p->m * p->k));
    if (p->source_b == SMM_SOURCE_FLAT) together = most(together, group_of(p, p->k * p->n));
    if (p->source_c == SMM_SOURCE_FLAT) together = most(together, group_of(p, p->m * p->n));
    return together;
}

/* Of a tile in registers: beyond so many bytes it spills; beyond so many elements some are the best, but most are not,
 * so that only measuring can choose them. */
enum { MOST_TILE_BYTES = 256, GOOD_TILE_ELEMENTS = 32 };

static bool good_tile(const smm_cuda_problem *p, const smm_cuda_parameters *x) {
    return x->rows >= 1 && x->cols >= 1 && x->rows <= p->m && x->cols <= p->n &&
           x->rows * x->cols * bytes_of(p) <= MOST_TILE_BYTES;
}

/* As many matrices as fill the threads asked for, at least one. Whole groups keep blocks aligned, for which lines of
 * vectors give up any matrix, odd lines only few of many. */
static bool fill_block(const smm_cuda_problem *p, const smm_cuda_parameters *x, smm_cuda_grid *grid) {
    const int tiles = ceil_div(p->m, x->rows) * ceil_div(p->n, x->cols), g = group(p);
    int matrices = most(1, x->threads / tiles);
    if (matrices >= (width_of(p, p->k) == 1 && width_of(p, p->n) == 1 ? 4 * g : g)) matrices -= matrices % g;
    *grid = (smm_cuda_grid){.matrices = matrices,
                            .threads = ceil_div(matrices * tiles, 32) * 32,
                            .aligned = p->aligned && matrices % g == 0};
    return x->threads >= 32 && grid->threads <= 1024;
}

/* Bytes of an image, as Image::ELEMENTS of image.cuh. */
int smm_cuda_image_bytes(const smm_cuda_problem *p, const smm_cuda_parameters *x, const smm_cuda_grid *grid, int source,
                         int lines, int length) {
    const int vector = 16 / bytes_of(p);
    const bool pad = x->pad && grid->aligned && length && length % vector == 0 && length / vector % 2 == 0;
    const int elements = (source == SMM_SOURCE_ONE ? 1 : grid->matrices) * lines * (length + (pad ? vector : 0)) +
                         (grid->aligned ? 0 : vector - 1);
    return ceil_div(elements, vector) * 16;
}

/* In the images: one matrix for all is turned so that a tile reads vectors. */
static bool a_by_rows(const smm_cuda_problem *p) {
    return p->order_a == SMM_ORDER_ROW && p->source_a != SMM_SOURCE_ONE;
}
static bool b_by_rows(const smm_cuda_problem *p) {
    return p->order_b == SMM_ORDER_ROW || p->source_b == SMM_SOURCE_ONE;
}

/* Elements from line to line of the image of one matrix for all, as OneImage of image.cuh. */
static int pitch_of_one(const smm_cuda_problem *p, int length) {
    const int vector = 16 / bytes_of(p);
    return (ceil_div(length, vector) | 1) * vector;
}

static int operand_bytes(const smm_cuda_problem *p, const smm_cuda_parameters *x, const smm_cuda_grid *grid, int source,
                         int lines, int length) {
    if (source == SMM_SOURCE_ONE) return lines * pitch_of_one(p, length) * bytes_of(p);
    return smm_cuda_image_bytes(p, x, grid, source, lines, length);
}

/* Bytes of shared memory of a block. */
static int staged_bytes(const smm_cuda_problem *p, const smm_cuda_parameters *x, const smm_cuda_grid *grid) {
    const bool a_rows = a_by_rows(p), b_rows = b_by_rows(p);
    const int a = operand_bytes(p, x, grid, p->source_a, a_rows ? p->m : p->k, a_rows ? p->k : p->m);
    const int b = operand_bytes(p, x, grid, p->source_b, b_rows ? p->k : p->n, b_rows ? p->n : p->k);
    return most(a + b, smm_cuda_image_bytes(p, x, grid, p->source_c, p->m, p->n));
}

bool smm_matmul_staged_fits(const smm_cuda_problem *p, const smm_cuda_parameters *x, smm_cuda_grid *grid) {
    enum { ENOUGH = 24 << 10 }; /* bytes; more would leave too few blocks to a multiprocessor */
    if (p->op != SMM_OP_MATMUL || !good_tile(p, x) || !fill_block(p, x, grid)) return false;
    if (!x->through_shared && (p->source_c != SMM_SOURCE_FLAT || (x->pad && !grid->aligned))) return false;
    const int tiles = ceil_div(p->m, x->rows) * ceil_div(p->n, x->cols), g = group(p);
    while ((grid->shared = staged_bytes(p, x, grid)) > ENOUGH && grid->matrices > g) {
        grid->matrices = most(g, grid->matrices / 2 / g * g);
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

/* rows counts groups of matrices here: a thread takes as many as make whole vectors, that many times. */
bool smm_matmul_whole_fits(const smm_cuda_problem *p, const smm_cuda_parameters *x, smm_cuda_grid *grid) {
    enum { MOST_BYTES = 192 }; /* of a thread's registers */
    const int each = group(p) * x->rows;
    *grid = (smm_cuda_grid){.matrices = x->threads * each, .threads = x->threads, .aligned = true};
    return p->op == SMM_OP_MATMUL && p->aligned && !p->scaled && p->source_a == SMM_SOURCE_FLAT &&
           p->source_b == SMM_SOURCE_FLAT && p->source_c == SMM_SOURCE_FLAT && p->k > 0 && x->threads % 32 == 0 &&
           x->threads >= 32 && x->threads <= 1024 && x->rows >= 1 && x->cols == 1 &&
           each * (p->m * p->k + p->k * p->n + p->m * p->n) * bytes_of(p) <= MOST_BYTES;
}

/* --- the cost of a tile: passes of the shared memory, and products ---
 *
 * What limits the staged kernel besides the memory is reading its images: the shared memory serves 32 banks of 4 bytes
 * a cycle, so a warp's read takes as many passes as its busiest bank has words, and reads of 8 and 16 bytes are served
 * by halves and quarters of the warp. After that come the products, of which a warp makes 32 whether all its lanes have
 * a tile or not. Of 60 random rectangles with 30 timed kernels each, the one of least cost is within 4 % of the best on
 * the mean, 12 % at worst (one H200, 2026-11-21). */

enum { WARP = 32, BANKS = 32, MOST_THREADS_SIMULATED = 2 * WARP };

/* Passes of one read by up to a warp of lanes, of `width` elements from these element addresses. */
static int passes(const smm_cuda_problem *p, const int *address, int lanes, int width) {
    const int words = width * bytes_of(p) / 4, together = BANKS / words;
    int sum = 0;
    for (int first = 0; first < lanes; first += together) {
        int seen[BANKS], count = 0, of_bank[BANKS] = {0}, busiest = 0;
        for (int l = first; l < least(lanes, first + together); l++) {
            const int word = address[l] * (bytes_of(p) / 4);
            bool known = false;
            for (int i = 0; i < count && !known; i++) known = seen[i] == word;
            if (known) continue;
            seen[count++] = word;
            for (int w = word; w < word + words; w++) busiest = most(busiest, ++of_bank[w % BANKS]);
        }
        sum += busiest;
    }
    return sum;
}

typedef struct lines { /* of an image, as in image.cuh */
    int pitch, width, matrix;
} lines;

static lines lines_of(const smm_cuda_problem *p, const smm_cuda_parameters *x, const smm_cuda_grid *grid, int source,
                      int count, int length) {
    const int vector = 16 / bytes_of(p);
    if (source == SMM_SOURCE_ONE) return (lines){pitch_of_one(p, length), vector, 0};
    const bool pad = x->pad && grid->aligned && length && length % vector == 0 && length / vector % 2 == 0;
    const int pitch = length + (pad ? vector : 0);
    return (lines){pitch, grid->aligned ? width_of(p, length) : 1, count * pitch};
}

/* Passes for one step of k of one matrix, all its threads together, as Tile::add of matmul_tile.cuh reads. */
static double passes_of_step(const smm_cuda_problem *p, const smm_cuda_parameters *x, const smm_cuda_grid *grid) {
    const bool a_rows = a_by_rows(p), b_rows = b_by_rows(p);
    const lines a = lines_of(p, x, grid, p->source_a, a_rows ? p->m : p->k, a_rows ? p->k : p->m);
    const lines b = lines_of(p, x, grid, p->source_b, b_rows ? p->k : p->n, b_rows ? p->n : p->k);
    const int row_tiles = ceil_div(p->m, x->rows), col_tiles = ceil_div(p->n, x->cols), tiles = row_tiles * col_tiles;
    const int vr = a_rows ? 1 : least(a.width, width_of(p, x->rows));
    const int vc = b_rows ? least(b.width, width_of(p, x->cols)) : 1;
    const int threads = least(grid->matrices * tiles, MOST_THREADS_SIMULATED);
    double sum = 0;
    for (int first = 0; first < threads; first += WARP) {
        const int lanes = least(WARP, threads - first);
        int address[WARP];
        for (int r = 0; r < x->rows; r += vr) {
            for (int l = 0; l < lanes; l++) {
                const int thread = first + l, tile = thread % tiles / col_tiles;
                const int row = least((tile + r / vr * row_tiles) * vr, (p->m - 1) / vr * vr);
                address[l] = thread / tiles * a.matrix + row * (a_rows ? a.pitch : 1);
            }
            sum += (double)passes(p, address, lanes, a_rows ? a.width : vr) / (a_rows ? a.width : 1);
        }
        for (int j = 0; j < x->cols; j += vc) {
            for (int l = 0; l < lanes; l++) {
                const int thread = first + l, tile = thread % tiles % col_tiles;
                const int col = least((tile + j / vc * col_tiles) * vc, (p->n - 1) / vc * vc);
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
    const double bytes_a_cycle = 18, products_a_cycle = p->dtype == SMM_F64 ? 64 : 128, enough = 6 << 10;
    const double bytes = (double)(p->m * p->k + p->k * p->n + p->m * p->n) * bytes_of(p);
    const double passes = passes_of_step(p, x, grid), short_by = enough / (bytes * grid->matrices) - 1;
    const double products = (double)grid->threads / grid->matrices * x->rows * x->cols;
    const double registers_over = x->rows * x->cols * bytes_of(p) / 128.0 - 1;
    return (passes + 0.5 * products / products_a_cycle) * p->k * bytes_a_cycle / bytes +
           (short_by > 0 ? 0.2 * short_by : 0) + (registers_over > 0 ? 0.1 * registers_over : 0) +
           0.05 * !grid->aligned + 0.05 * (grid->threads > WARP);
}

void smm_matmul_staged_baseline(const smm_cuda_problem *p, smm_cuda_parameters *best) {
    static const int threads[] = {64, 128, 32, 96};
    const int longest = most(p->order_a == SMM_ORDER_ROW ? p->k : p->m, p->order_b == SMM_ORDER_ROW ? p->n : p->k);
    const int width = p->aligned && p->order_b == SMM_ORDER_ROW ? width_of(p, p->n) : 1;
    double least_cost = 0;
    *best = (smm_cuda_parameters){
        .kernel = SMM_CUDA_KERNEL_matmul_staged, .rows = 1, .cols = 1, .threads = 128, .async = 1, .through_shared = 1};
    smm_cuda_parameters x = *best;
    x.unroll = p->k > 32 ? 16 : 0;
    for (x.pad = 0; x.pad <= (longest * bytes_of(p) >= 96); x.pad++)
        for (x.rows = 1; x.rows <= least(12, p->m); x.rows++)
            for (x.cols = width; x.cols <= least(12, p->n); x.cols += width)
                for (int i = 0; i < 4; i++) {
                    smm_cuda_grid grid;
                    x.threads = threads[i];
                    if (x.rows * x.cols > GOOD_TILE_ELEMENTS || !smm_matmul_staged_fits(p, &x, &grid)) continue;
                    const double cost = staged_cost(p, &x, &grid);
                    if (least_cost && cost >= least_cost) continue;
                    least_cost = cost;
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
    *x = (smm_cuda_parameters){.kernel = SMM_CUDA_KERNEL_matmul_whole, .rows = 1, .cols = 1, .threads = 128};
}
