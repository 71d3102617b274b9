/* convolution.c: filters times columns of the im2col matrix. The matrix is implicit: a thread gathers a tile of it, all
 * terms of some outputs or a chunk of them, in its workspace, as the operand B of a product that a kernel of MATMUL
 * computes.
 *
 * Outputs are numbered through images, rows and columns, whichever order reads x best. A tile is a stretch of them; it
 * falls into pieces, each within one row of an image, or at one place of several images. */
#include <string.h>

#include "workspace.h"

/* Bytes of a tile of the im2col matrix, which stays in L2 beside the filters, and its most columns. A tile has whole
 * steps of WIDTH vectors, which kernels keep in registers. */
enum { TILE_BYTES = 128 * 1024, MAX_COLUMNS = 512, WIDTH = 3 };

/* Units of work per thread, so that all end together; and the least filters of a unit, which share the gathering. */
enum { UNITS = 4, MIN_FILTERS = 16 };

typedef struct piece {
    intptr_t at, count; /* columns of the tile */
    intptr_t image;     /* of the first: its offset in x, and which row and column of x the filter's first meets */
    intptr_t row, column;
    char *y;
} piece;

/* Where a thread's workspace holds them: pieces, and numbers that are only stored on their way. */
typedef struct program_workspace {
    piece pieces[MAX_COLUMNS];
    alignas(SMM_LINE) char stored[SMM_PROGRAM_WORKSPACE - MAX_COLUMNS * sizeof(piece) - SMM_LINE];
} program_workspace;
_Static_assert(sizeof(program_workspace) <= SMM_PROGRAM_WORKSPACE, "pieces fit");
_Static_assert((intptr_t)WIDTH * 64 * SMM_DEEP <= SMM_CONVERTED, "the narrowest tile fits");

typedef struct job {
    smm_convolution c;
    const smm_kernels *kernels;
    smm_dtype computed;
    bool is_stored, deep;
    intptr_t size, stored;    /* bytes of a number as it is computed, and in x and y */
    intptr_t taps, depth;     /* of a filter: elements of a channel, and terms of a sum */
    bool by_images;           /* images are the innermost dimension of outputs */
    intptr_t runs, pixels;    /* products with filters of their own, and outputs of each */
    intptr_t columns, tiles;  /* of a tile, and how many */
    intptr_t filters, blocks; /* of a unit, and how many */
    intptr_t units;
    int threads;
    double flops, bytes;
    smm_cancel_token watch;
} job;

/* --- Plan ------------------------------------------------------------------------------------------- */

static bool is_valid_axis(const smm_axis *x) {
    return x->inputs >= 0 && x->outputs >= 0 && x->kernel > 0 && x->stride > 0 && x->dilation > 0 && x->before >= 0;
}

static bool is_valid(const smm_convolution *c) {
    return c && c->dtype < SMM_DTYPE_COUNT && c->images >= 0 && c->groups >= 0 && c->filters >= 0 && c->channels >= 0 &&
           is_valid_axis(&c->rows) && is_valid_axis(&c->columns);
}

static void choose_tiles(job *x) {
    const intptr_t step = WIDTH * x->kernels->lanes, terms = max_of(1, x->deep ? SMM_CHUNK : x->depth);
    const intptr_t fitting = min_of(TILE_BYTES / (terms * x->size), MAX_COLUMNS) / step * step;
    const intptr_t most = max_of(step, fitting), even = smm_pieces(x->pixels, smm_pieces(x->pixels, most));
    x->columns = min_of(x->pixels, smm_pieces(even, step) * step);
    x->tiles = smm_pieces(x->pixels, x->columns);
    const intptr_t sums = x->deep ? smm_partial_sums(smm_pieces(x->depth, SMM_CHUNK)) : 1;
    const intptr_t fit = SMM_SUMS / (sums * x->columns * x->size);
    const intptr_t wanted = x->threads > 1 ? smm_pieces(UNITS * x->threads, x->runs * x->tiles) : 1;
    const intptr_t share = max_of(MIN_FILTERS, smm_pieces(x->c.filters, wanted));
    x->blocks = smm_pieces(x->c.filters, min_of(fit, share));
    x->filters = smm_pieces(x->c.filters, x->blocks);
    x->blocks = smm_pieces(x->c.filters, x->filters);
    x->units = x->runs * x->tiles * x->blocks;
}

static smm_status plan(const smm_convolution *c, job *x) {
    if (!is_valid(c)) return SMM_ERR_ARGUMENT;
    *x = (job){.c = *c, .computed = smm_dtypes[c->dtype].computed, .is_stored = smm_is_stored(c->dtype)};
    const smm_status status = smm_kernels_of(x->computed, &x->kernels);
    if (status) return status;
    const int threads = smm_get_num_threads();
    if (!threads) return SMM_ERR_THREADS;
    x->size = smm_size(x->computed);
    x->stored = smm_size(c->dtype);
    x->taps = c->rows.kernel * c->columns.kernel;
    x->depth = x->taps * c->channels;
    x->deep = x->depth > SMM_DEEP;
    x->by_images = c->images > 1 && smm_abs(c->x_stride.image) < smm_abs(c->x_stride.column);
    x->runs = c->groups;
    for (int d = 0; c->batch && d < c->batch->dims; d++) x->runs *= c->batch->extent[d];
    x->pixels = c->images * c->rows.outputs * c->columns.outputs;
    if (!x->runs || !x->pixels || !c->filters) return SMM_OK; /* and no units */
    const double outputs = (double)x->runs * (double)x->pixels * (double)c->filters;
    const double inputs = (double)x->runs * (double)(c->images * c->channels * c->rows.inputs * c->columns.inputs);
    x->flops = (smm_is_complex(c->dtype) ? 8 : 2) * outputs * (double)x->depth;
    x->bytes = (double)x->stored * (outputs + inputs) +
               (double)x->size * (double)x->runs * (double)c->filters * (double)x->depth;
    x->threads = smm_threads_for(x->flops, x->bytes, threads);
    choose_tiles(x);
    return SMM_OK;
}

/* --- A tile ----------------------------------------------------------------------------------------- */

/* What a thread keeps from one unit to the next. */
typedef struct worker {
    job *job;
    smm_workspace *workspace;
    program_workspace *own;
    intptr_t gathered; /* the tile whose columns lie in the workspace, unless they are gathered by chunks; -1: none */
    const char *x, *w; /* of the run */
    char *y;
    intptr_t columns;
    int pieces;
    bool padded;    /* some terms of the tile are in the padding */
    smm_plan plan;  /* of the last product, */
    intptr_t c_row; /* whose C had this distance of rows; 0: there is none, or it is not to be kept */
} worker;

/* `count` elements, so many apart, of a type. Steps of 2, the usual stride, are constant for the compiler, which then
 * takes vectors apart. */
#define COPY(name, type) \
    static void name(char *to, intptr_t to_step, const char *from, intptr_t step, intptr_t count) { \
        typedef type __attribute__((may_alias, aligned(1))) element; \
        if (to_step == sizeof(type) && step == 2 * sizeof(type)) \
            for (intptr_t i = 0; i < count; i++) \
                ((element *)(void *)to)[i] = ((const element *)(const void *)from)[2 * i]; \
        else \
            for (intptr_t i = 0; i < count; i++) \
                *(element *)(void *)(to + i * to_step) = *(const element *)(const void *)(from + i * step); \
    }
COPY(copy_2, uint16_t)
COPY(copy_4, uint32_t)
COPY(copy_8, uint64_t)
#undef COPY

static void copy_16(char *to, intptr_t to_step, const char *from, intptr_t step, intptr_t count) {
    for (intptr_t i = 0; i < count; i++) memcpy(to + i * to_step, from + i * step, 16);
}

/* Runs are too short for the library's memcpy. */
static inline void copy_bytes(char *to, const char *from, intptr_t bytes) {
    enum { STEP = 16 };
    if (bytes < STEP) {
        for (intptr_t i = 0; i < bytes; i += 2) memcpy(to + i, from + i, 2);
        return;
    }
    for (intptr_t i = 0; i + STEP <= bytes; i += STEP) memcpy(to + i, from + i, STEP);
    memcpy(to + bytes - STEP, from + bytes - STEP, STEP);
}

static void copy(char *to, intptr_t to_step, const char *from, intptr_t step, intptr_t count, intptr_t size) {
    if (step == size && to_step == size)
        copy_bytes(to, from, count * size);
    else if (size == 2)
        copy_2(to, to_step, from, step, count);
    else if (size == 4)
        copy_4(to, to_step, from, step, count);
    else if (size == 8)
        copy_8(to, to_step, from, step, count);
    else
        copy_16(to, to_step, from, step, count);
}

/* Whether filters at some outputs meet what is not in an image. */
static bool is_padded(const smm_axis *x, intptr_t first, intptr_t last) {
    return first * x->stride < x->before || last * x->stride - x->before + (x->kernel - 1) * x->dilation >= x->inputs;
}

/* Point the worker at unit's run, and find the pieces of its tile. */
static void find_pieces(worker *t, intptr_t run, intptr_t tile) {
    const job *x = t->job;
    const smm_convolution *c = &x->c;
    const intptr_t group = run % c->groups;
    t->x = (const char *)c->x + group * c->x_stride.group;
    t->w = (const char *)c->w + group * c->w_stride.group;
    t->y = (char *)c->y + group * c->y_stride.group;
    if (c->batch) {
        t->x += smm_offset_of(c->batch, 0, 0, run / c->groups);
        t->w += smm_offset_of(c->batch, 0, 1, run / c->groups);
        t->y += smm_offset_of(c->batch, 0, 2, run / c->groups);
    }
    const intptr_t first = tile * x->columns;
    t->columns = min_of(x->columns, x->pixels - first);
    t->pieces = 0;
    t->padded = false;
    const intptr_t inner = x->by_images ? c->images : c->columns.outputs;
    const intptr_t middle = x->by_images ? c->columns.outputs : c->rows.outputs;
    for (intptr_t at = 0, count; at < t->columns; at += count) {
        const intptr_t pixel = first + at, index[3] = {pixel % inner, pixel / inner % middle, pixel / inner / middle};
        const intptr_t image = index[x->by_images ? 0 : 2], column = index[x->by_images ? 1 : 0];
        const intptr_t row = index[x->by_images ? 2 : 1];
        count = min_of(inner - index[0], t->columns - at);
        t->own->pieces[t->pieces++] = (piece){
            .at = at,
            .count = count,
            .image = image * c->x_stride.image,
            .row = row * c->rows.stride - c->rows.before,
            .column = column * c->columns.stride - c->columns.before,
            .y = t->y + image * c->y_stride.image + row * c->y_stride.row + column * c->y_stride.column,
        };
        t->padded |=
            is_padded(&c->rows, row, row) || is_padded(&c->columns, column, x->by_images ? column : column + count - 1);
    }
}

/* Of a piece, those outputs that meet elements of x at one tap of the filter, and where the first of these lies. */
typedef struct met {
    intptr_t from, to, offset;
} met;

static met meet(const job *x, const piece *p, intptr_t tap) {
    const smm_axis *rows = &x->c.rows, *columns = &x->c.columns;
    const intptr_t row = p->row + tap / columns->kernel * rows->dilation;
    const intptr_t column = p->column + tap % columns->kernel * columns->dilation;
    if (row < 0 || row >= rows->inputs) return (met){0};
    met m = {0, p->count, 0};
    if (x->by_images) {
        if (column < 0 || column >= columns->inputs) return (met){0};
    } else {
        if (column < 0) m.from = min_of(p->count, smm_pieces(-column, columns->stride));
        const intptr_t left = columns->inputs - column;
        m.to = max_of(m.from, left > 0 ? min_of(p->count, smm_pieces(left, columns->stride)) : 0);
    }
    m.offset = p->image + row * x->c.x_stride.row + column * x->c.x_stride.column;
    return m;
}

/* Channels `first` to `last` of a piece at one tap, into rows of the tile, `row` bytes apart; zeros are there. */
static void gather_piece(worker *t, const piece *p, intptr_t tap, intptr_t first, intptr_t last, char *to,
                         intptr_t row) {
    const job *x = t->job;
    const intptr_t size = x->stored, channel = x->c.x_stride.channel;
    const intptr_t step = x->by_images ? x->c.x_stride.image : x->c.columns.stride * x->c.x_stride.column;
    const met m = meet(x, p, tap);
    const intptr_t count = m.to - m.from;
    const char *from = t->x + m.offset + m.from * step;
    if (!count) return;
    to += m.from * size;
    if (channel == size && step != size && !x->is_stored && count > 1) { /* transposed by vectors */
        const intptr_t most = SMM_C_BUFFER / (count * size);
        for (intptr_t i = first, some; i < last; i += some) {
            some = min_of(last - i, most);
            const smm_operand part = {(void *)(uintptr_t)(from + i * channel), 0, channel, step};
            x->kernels->pack(t->workspace->c, &part, some, count, 1, false);
            for (intptr_t j = 0; j < some; j++, to += row)
                copy_bytes(to, t->workspace->c + j * count * size, count * size);
        }
        return;
    }
    for (intptr_t i = first; i < last; i++, to += row) copy(to, size, from + i * channel, step, count, size);
}

/* Some rows of the tile, in the type of x. */
static void gather_rows(worker *t, intptr_t first, intptr_t rows, char *to) {
    const job *x = t->job;
    const intptr_t row = t->columns * x->stored;
    if (t->padded) memset(to, 0, rows * row);
    for (intptr_t tap = 0; tap < x->taps; tap++) {
        const intptr_t from = first > tap ? smm_pieces(first - tap, x->taps) : 0;
        const intptr_t end = first + rows > tap ? smm_pieces(first + rows - tap, x->taps) : 0;
        if (from >= end) continue;
        char *const start = to + (from * x->taps + tap - first) * row;
        for (int i = 0; i < t->pieces; i++) {
            const piece *p = &t->own->pieces[i];
            gather_piece(t, p, tap, from, end, start + p->at * x->stored, x->taps * row);
        }
    }
}

/* The same in the type that is computed. */
static void gather(worker *t, intptr_t first, intptr_t rows, char *to) {
    const job *x = t->job;
    if (!x->is_stored) {
        gather_rows(t, first, rows, to);
        return;
    }
    const intptr_t most = sizeof t->own->stored / (t->columns * x->stored);
    for (intptr_t done = 0, some; done < rows; done += some) {
        some = min_of(most, rows - done);
        gather_rows(t, first + done, some, t->own->stored);
        const smm_grid grid = {t->own->stored, {some * t->columns, 1, 1}, {x->stored}};
        x->kernels->stored[x->c.dtype - SMM_COMPUTED_TYPES].widen(to + done * t->columns * x->size, &grid);
    }
}

/* The tile's sums, a dense matrix of some filters from the first on, to y. */
static void scatter(worker *t, intptr_t first, intptr_t filters, char *sums) {
    const job *x = t->job;
    const intptr_t size = x->size, channel = x->c.y_stride.channel;
    const intptr_t step = x->by_images ? x->c.y_stride.image : x->c.y_stride.column, row = t->columns * size;
    for (int i = 0; i < t->pieces; i++) {
        const piece *p = &t->own->pieces[i];
        char *const y = p->y + first * channel, *const from = sums + p->at * size;
        if (channel == size && step != size && !x->is_stored) { /* transposed by vectors */
            const intptr_t few = min_of(filters, SMM_C_BUFFER / size), most = SMM_C_BUFFER / (few * size);
            for (intptr_t f = 0; f < filters; f += few)
                for (intptr_t j = 0; j < p->count; j += most) {
                    const intptr_t some = min_of(most, p->count - j), wide = min_of(few, filters - f);
                    const smm_operand part = {from + f * row + j * size, 0, size, row};
                    x->kernels->pack(t->workspace->c, &part, some, wide, 1, false);
                    for (intptr_t l = 0; l < some; l++)
                        copy_bytes(y + f * size + (j + l) * step, t->workspace->c + l * wide * size, wide * size);
                }
            continue;
        }
        for (intptr_t f = 0; f < filters; f++) {
            const smm_grid grid = {y + f * channel, {p->count, 1, 1}, {step}};
            if (x->is_stored)
                x->kernels->stored[x->c.dtype - SMM_COMPUTED_TYPES].narrow(&grid, from + f * row, false);
            else
                copy(grid.data, step, from + f * row, size, p->count, size);
        }
    }
}

/* Whether the tile's outputs of a filter lie in y without gaps: kernels write there. */
static bool is_direct(const worker *t) {
    const job *x = t->job;
    const intptr_t size = x->size, step = x->by_images ? x->c.y_stride.image : x->c.y_stride.column;
    bool direct = !x->is_stored && (step == size || t->columns == 1);
    for (int i = 0; i < t->pieces && direct; i++)
        direct = t->own->pieces[i].y == t->own->pieces[0].y + t->own->pieces[i].at * size;
    return direct;
}

/* C = A B, of some filters, terms from one on, and the columns that are gathered. */
static smm_status multiply(worker *t, intptr_t first, intptr_t filters, intptr_t term, intptr_t terms, smm_operand c) {
    const job *x = t->job;
    const char *const a = t->w + first * x->c.w_stride.filter + term * x->c.w_stride.term;
    smm_call call = {.op = SMM_OP_MATMUL,
                     .dtype = x->computed,
                     .batch = 1,
                     .m = filters,
                     .n = t->columns,
                     .k = terms,
                     .matmul = {.a = {(void *)(uintptr_t)a, 0, x->c.w_stride.filter, x->c.w_stride.term},
                                .b = {t->workspace->converted, 0, t->columns * x->size, x->size},
                                .c = c}};
    const smm_call *kept = &t->plan.call;
    if (t->c_row != c.row || kept->m != filters || kept->n != t->columns || kept->k != terms) {
        const smm_status status = smm_plan_call(&call, &t->plan);
        if (status) return status;
        t->c_row = t->plan.swapped ? 0 : c.row;
        if (!t->plan.staged) t->plan.rows = kept->m, t->plan.cols = kept->n; /* this thread does all of it */
    } else {
        t->plan.call.matmul.a.data = call.matmul.a.data;
        t->plan.call.matmul.c.data = c.data;
    }
    smm_run_serial(&t->plan, &t->plan.call, &t->job->watch);
    return SMM_OK;
}

/* All sums of some filters with the tile, to `c`; by chunks at the front of the workspace for sums. */
static smm_status sum(worker *t, intptr_t first, intptr_t filters, smm_operand c) {
    const job *x = t->job;
    if (!x->deep) return multiply(t, first, filters, 0, x->depth, c);
    const intptr_t bytes = filters * t->columns * x->size;
    char *end = t->workspace->sums;
    for (intptr_t term = 0; term < x->depth; term += SMM_CHUNK) {
        const intptr_t terms = min_of(SMM_CHUNK, x->depth - term);
        gather(t, term, terms, t->workspace->converted);
        const smm_operand chunk = {end, 0, t->columns * x->size, x->size};
        const smm_status status = multiply(t, first, filters, term, terms, chunk);
        if (status) return status;
        end = smm_tree_push(x->kernels, end, end, term / SMM_CHUNK, filters * t->columns, bytes);
    }
    smm_tree_sum(x->kernels, t->workspace->sums, end, filters * t->columns, bytes);
    return SMM_OK;
}

static smm_status run_unit(worker *t, intptr_t unit) {
    const job *x = t->job;
    const intptr_t tile = unit / x->blocks, first = unit % x->blocks * x->filters;
    const intptr_t filters = min_of(x->filters, x->c.filters - first);
    if (t->gathered != tile) {
        find_pieces(t, tile / x->tiles, tile % x->tiles);
        if (!x->deep) gather(t, 0, x->depth, t->workspace->converted);
        t->gathered = tile;
    }
    const bool direct = !x->deep && is_direct(t);
    const smm_operand staged = {t->workspace->sums, 0, t->columns * x->size, x->size};
    const smm_operand in_place = {t->own->pieces[0].y + first * x->c.y_stride.channel, 0, x->c.y_stride.channel,
                                  x->size};
    const smm_status status = sum(t, first, filters, direct ? in_place : staged);
    if (!direct && !status) scatter(t, first, filters, t->workspace->sums);
    return status;
}

static bool run_units(void *context, intptr_t first, intptr_t last) {
    job *const shared = context;
    smm_workspace *const workspace = smm_workspace_of_thread(SMM_KERNEL_WORKSPACE);
    if (!workspace) {
        smm_stop(&shared->watch, SMM_ERR_MEMORY);
        return false;
    }
    worker t = {
        .job = shared, .workspace = workspace, .own = (program_workspace *)(void *)workspace->program, .gathered = -1};
    for (intptr_t unit = first; unit < last; unit++) {
        if (!smm_should_continue(&shared->watch)) return false;
        const smm_status status = run_unit(&t, unit);
        if (status) {
            smm_stop(&shared->watch, status);
            return false;
        }
    }
    return true;
}

smm_status smm_convolve(const smm_convolution *convolution) {
    job shared;
    const smm_status status = plan(convolution, &shared);
    if (status || !shared.units) return status;
    shared.watch.caller = pthread_self();
    smm_parallel_for(shared.units, 1, shared.threads, run_units, &shared, NULL);
    return shared.watch.status;
}

smm_status smm_explain_convolution(const smm_convolution *convolution, smm_plan_info *info) {
    job x;
    const smm_status status = plan(convolution, &x);
    *info = (smm_plan_info){.isa = smm_isa(), .threads = 1};
    if (status || !x.units) return status;
    const intptr_t row = x.columns * x.size;
    const smm_call tile = {.op = SMM_OP_MATMUL,
                           .dtype = x.computed,
                           .batch = 1,
                           .m = x.filters,
                           .n = x.columns,
                           .k = x.deep ? SMM_CHUNK : x.depth,
                           .matmul = {.a = {(void *)SMM_LINE, 0, x.c.w_stride.filter, x.c.w_stride.term},
                                      .b = {(void *)SMM_LINE, 0, row, x.size},
                                      .c = {(void *)SMM_LINE, 0, row, x.size}}};
    const smm_status none = smm_explain(&tile, info);
    if (none) return none;
    info->computed = x.is_stored ? smm_dtypes[x.computed].name : NULL;
    info->pack_b = true;
    info->stage_c = x.is_stored || x.deep || (x.by_images ? x.c.y_stride.image : x.c.y_stride.column) != x.size;
    info->nontemporal = false;
    info->threads = x.threads;
    info->nodes = 0;
    info->parts = x.tiles * x.blocks;
    info->group = x.columns;
    info->flops = x.flops;
    info->bytes = x.bytes;
    return SMM_OK;
}
