/* plan.c: decides how a call runs. It is a pure look-up: nothing is searched or timed here, and no operand is read.
 * Better rows for its lists are searched for offline.
 *
 * The steps of smm_plan_call(): is_valid(), normalise(), weigh() (cost and traffic), share_out() (threads),
 * choose_stores(), choose_kernel(), divide() (among threads). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core.h"

/* The output is streamed around the caches if all operands together, or the output alone, are larger than this. Beyond
 * the last-level cache streaming is 1.2 to 2.5 times as fast; within it, 1.3 to 2.1 times as slow (AMD Zen 3 and 5,
 * November 2026). The output has a limit of its own because a plain store costs two transfers, a streamed one costs
 * one: products whose output is a third of their bytes gain from 22 MB on, those where it is two thirds from 11 MB.
 * With many threads, the cache of each adds another megabyte. */
static const double STREAM_BYTES = SMM_MEMORY, STREAM_OUTPUT = SMM_MEMORY / 3, STREAM_OUTPUT_EACH = 1 << 20;

/* Waking another thread pays only if it has this much to do (about 10 us of either; factorizations reach about a
 * quarter of the flops that products do). */
static const double THREAD_BYTES = 512.0 * 1024, THREAD_FLOPS = 1e6;

/* The least that a thread claims, in bytes: long enough to hide the cost of a claim, short enough for all threads to
 * end together. */
static const double CHUNK_BYTES = 32.0 * 1024;

/* Parts per thread, where matrices are computed in parts. */
static const intptr_t PARTS = 4;

/* Flops of a large product's block, a millisecond's work. Its rows may lie in as many new pages, which the system
 * clears meanwhile: that must not delay an interrupt. */
static const double BLOCK_FLOPS = 2.5e7;

/* Weighted flops after which a thread looks whether the call goes on: at most a few hundredths of a second. */
static const double PIECE_FLOPS = 1e8;

/* --- Operands ------------------------------------------------------------------------------------ */

static double operations_of(const smm_call *c) {
    const double m = (double)c->m, n = (double)c->n, k = (double)c->k;
    switch (c->op) {
#define SMM_OPERATION(NAME, name, what, flops, operands) \
    case SMM_OP_##NAME: return flops;
#include "../defs/ops.def"
#undef SMM_OPERATION
    case SMM_OPS: break;
    }
    return m * n * k;
}

/* The same for complex numbers, of which one product is four real ones. */
static double flops_of(const smm_call *c) { return (smm_is_complex(c->dtype) ? 4 : 1) * operations_of(c); }

/* One operand of a call: its description, its shape, the size of its elements and the alignment of its addresses. */
typedef struct view {
    smm_operand *x;
    const smm_operand_row *row;
    intptr_t rows, cols, size, align;
} view;

static view view_of(smm_call *c, int i) {
    view v = {.x = &c->operand[i], .row = &smm_operations[c->op].operand[i], .size = smm_size_of(c->op, c->dtype, i)};
    v.align = v.row->element == SMM_INT32 ? v.size : smm_dtypes[c->dtype].size[SMM_REAL]; /* parts of complex ones */
    smm_sizes_of(c->op, i, c->m, c->n, c->k, &v.rows, &v.cols);
    return v;
}

/* The operands of a call. */
typedef struct views {
    int count;
    view of[SMM_MAX_OPERANDS];
    const view *result; /* NULL: it has none */
} views;

static void look(views *x, smm_call *c) {
    x->count = smm_operations[c->op].count;
    for (int i = 0; i < x->count; i++) x->of[i] = view_of(c, i);
    const int result = smm_roles_of[c->op].result;
    x->result = result < 0 ? NULL : &x->of[result];
}

static bool has_elements(const view *v) { return v->rows && v->cols; }

/* Strides that are never used may have any value: those of axes with one element, and of operands that are empty or
 * missing. */
static bool is_valid_view(const view *v, const smm_call *c, int i) {
    if (!c->batch || !has_elements(v)) return true;
    if (!v->x->data) return v->row->direction & SMM_OPTIONAL;
    intptr_t used = (c->batch > 1 ? v->x->batch : 0) | (v->rows > 1 ? v->x->row : 0) | (v->cols > 1 ? v->x->col : 0) |
                    (intptr_t)v->x->data;
    for (int d = 0; c->outer && d < c->outer->dims; d++)
        if (c->outer->extent[d] > 1) used |= c->outer->stride[d][i];
    return !(used & (v->align - 1));
}

/* Q has min(m, n) columns, or all m. There are min(m, n) pivots of LU and singular values. Two of the three diagonals
 * of a tridiagonal matrix are shorter by one. A band has at least one diagonal. */
static bool are_sizes_valid(const smm_call *c) {
    switch (c->op) {
    case SMM_OP_QR:
    case SMM_OP_QR_R: return c->k == min_of(c->m, c->n) || c->k == c->m;
    case SMM_OP_LU:
    case SMM_OP_QR_RAW:
    case SMM_OP_SVD:
    case SMM_OP_SVD_FULL:
    case SMM_OP_SVDVALS: return c->k == min_of(c->m, c->n);
    case SMM_OP_SOLVE_TRIDIAGONAL: return c->m == (c->n ? c->n - 1 : 0);
    case SMM_OP_SOLVE_BANDED:
    case SMM_OP_SOLVEH_BANDED: return c->m || !c->n;
    default: return true;
    }
}

static bool is_valid(const smm_call *c, const views *x) {
    if (c->batch < 0 || c->m < 0 || c->n < 0 || c->k < 0) return false;
    if (c->outer && (c->outer->dims < 0 || c->outer->dims > SMM_MAX_DIMS)) return false;
    double matrices = (double)c->batch;
    for (int d = 0; c->outer && d < c->outer->dims; d++) {
        if (c->outer->extent[d] < 0) return false;
        matrices *= (double)c->outer->extent[d];
    }
    if (matrices > SMM_MAX_MATRICES) return false;
    for (int i = 0; i < x->count; i++)
        if (!is_valid_view(&x->of[i], c, i)) return false;
    return are_sizes_valid(c);
}

static bool is_too_large(const smm_call *c, const view *a) {
    if (c->form & SMM_LAPACK) return true;
    if (a->row->direction & SMM_LONG) return c->n > SMM_LONGEST;
    return c->op != SMM_OP_MATMUL &&
           (min_of(a->rows, a->cols) > SMM_MAX_ORDER || (a->cols && a->rows > SMM_MAX_ORDER * SMM_MAX_ORDER / a->cols));
}

/* The stride of an axis of length 1 is never used: set it to what kernels handle best. An operand without elements has
 * no address; any will do, since nothing is computed. */
static void normalise_view(const view *v) {
    if (!has_elements(v)) *v->x = (smm_operand){0};
    if (v->cols == 1) v->x->col = v->size;
    if (v->rows == 1) v->x->row = v->cols * v->size;
}

/* --- Matmul ---------------------------------------------------------------------------------------- */

/* C^T = B^T A^T: the same sums in the same order, hence the same bits. */
static void swap(smm_call *c, smm_outer *outer) {
    smm_matmul_operands *const x = &c->matmul;
    const smm_operand a = x->a;
    const intptr_t m = c->m;
    const int b = smm_roles_of[SMM_OP_MATMUL].b;
    for (int d = 0; c->outer && d < outer->dims; d++) {
        const intptr_t step = outer->stride[d][0];
        outer->stride[d][0] = outer->stride[d][b];
        outer->stride[d][b] = step;
    }
    x->a = smm_transposed(x->b);
    x->b = smm_transposed(a);
    x->c = smm_transposed(x->c);
    c->m = c->n;
    c->n = m;
}

/* As in A^T A: the same matrix is read twice. */
static bool is_gram(const smm_call *c) {
    const int b = smm_roles_of[SMM_OP_MATMUL].b;
    bool same = c->matmul.a.data == c->matmul.b.data && c->matmul.a.batch == c->matmul.b.batch;
    for (int d = 0; c->outer && d < c->outer->dims; d++) same &= c->outer->stride[d][0] == c->outer->stride[d][b];
    return same;
}

/* Whether kernels prefer C^T = B^T A^T: they want contiguous rows of C and of B. A C of one row or column is contiguous
 * both ways, so the larger operand decides. Never for complex numbers: the terms of the imaginary part would come in
 * another order. */
static bool column_major(const smm_call *c, intptr_t size) {
    const smm_matmul_operands *x = &c->matmul;
    if (smm_is_complex(c->dtype)) return false;
    if (c->n == 1) return x->a.row == size && x->a.col != size;
    if (c->m == 1) return x->b.row == size && x->b.col != size;
    return x->c.row == size && x->c.col != size;
}

/* How many matrices fill the lanes of a kernel: of those whose lanes hold matrices, some keep two vectors in flight. */
static intptr_t full_lanes(const smm_plan *plan) {
    return plan->call.op == SMM_OP_MATMUL ? 1 : 2 * plan->kernels->lanes;
}

/* The group of a kernel whose lanes hold matrices: full vectors, several of them where matrices are small. */
static intptr_t group_of_lanes(const smm_plan *plan, intptr_t bytes) {
    const intptr_t lanes = plan->kernels->lanes, pair = 2 * lanes * bytes;
    return pair <= 8 * SMM_GROUP ? 2 * lanes * max_of(1, 2 * SMM_GROUP / pair) : lanes;
}

/* Nothing is staged: the block of C is as large as the limit of time allows. It is tall, because kernels go through all
 * rows with a few columns of B. */
static void block(smm_plan *plan) {
    const smm_call *c = &plan->call;
    const intptr_t elements = (intptr_t)(BLOCK_FLOPS / 2) / c->k;
    plan->rows = min_of(c->m, max_of(64, elements / 64 & -16));
    plan->cols = min_of(c->n, max_of(64, elements / plan->rows & -64));
    plan->group = 1;
}

/* Size the tile: `group` whole matrices, or, where a staged operand of one matrix is larger than its buffer, blocks of
 * rows x cols (k stays whole). False if not even a block of a quarter of a cache line of columns fits, which happens to
 * deep sums only. */
static bool tile(smm_plan *plan, intptr_t size) {
    const smm_call *c = &plan->call;
    plan->rows = c->m;
    plan->cols = c->n;
    plan->group = 1;
    intptr_t elements = 1;
    if (plan->staged & SMM_PACK_A) elements = max_of(elements, c->m * c->k);
    if (plan->staged & SMM_PACK_B) elements = max_of(elements, c->k * c->n);
    if (plan->staged & SMM_STAGE_C) elements = max_of(elements, c->m * c->n);
    if (elements * size <= SMM_BUFFER) {
        const intptr_t bytes = max_of(1, elements) * size;
        const intptr_t group = plan->kernel->group;
        plan->group = group ? min_of(SMM_BUFFER / bytes, (group + bytes - 1) / bytes) : group_of_lanes(plan, bytes);
        if (!plan->staged && flops_of(c) > BLOCK_FLOPS) block(plan);
        return true;
    }
    if (plan->staged & SMM_PACK_A) return false;
    if (plan->staged & SMM_PACK_B) plan->cols = min_of(c->n, SMM_BUFFER / (c->k * size));
    if (plan->staged & SMM_STAGE_C) plan->cols = min_of(plan->cols, 64);
    if (plan->cols < min_of(c->n, 16 / size)) return false;
    plan->rows = min_of(c->m, SMM_BUFFER / (plan->cols * size));
    return true;
}

/* The largest block of C of a deep product: a chunk of A and one of B stay in L2. */
enum { DEEP_ROWS = 64, DEEP_COLS = 256 };

/* Size the block of C of a deep product. All its partial sums must fit their buffer, and packed chunks of A and B
 * theirs. B has at least the columns of a kernel's tile. Small blocks run several chunks per call, to share its cost.
 * Chunks are ordered so that the hardware prefetches them best (5 to 25 % less time from memory), except where many
 * rows are short: there the kernel prefetches the next matrix, chunk by chunk (up to a third less time; of A y up to
 * shorter ones. AMD Zen 5, not quiet, November 2026). */
static void deep_tile(smm_plan *plan, const smm_call *chunks, intptr_t size) {
    const intptr_t workspace = SMM_SUMS / size / smm_partial_sums(chunks->batch), lines = SMM_BUFFER / SMM_CHUNK / size;
    const intptr_t most = plan->staged & SMM_PACK_A ? lines : DEEP_ROWS;
    const intptr_t cols =
        plan->staged & SMM_PACK_B ? lines : max_of(64, min_of(DEEP_COLS, workspace / min_of(chunks->m, most)) & -64);
    const smm_call *c = &plan->call;
    const smm_operand *a = &c->matmul.a;
    const bool dense = a->col == size && a->row == c->k * size && a->batch == c->m * a->row;
    plan->cold &= dense && c->m > 1 && c->batch > 1 && a->row <= (c->n > 1 ? 24 : 12) << 10;
    plan->staged |= SMM_STAGE_C;
    plan->cols = min_of(c->n, cols);
    plan->rows = min_of(c->m, min_of(most, workspace / plan->cols));
    plan->group = SMM_SUMS / size / (plan->rows * plan->cols) - smm_partial_sums(chunks->batch) + 1;
    plan->group = min_of(plan->group, plan->cold ? 1 : 16);
    if (plan->staged & SMM_PACK_A) plan->group = min_of(plan->group, lines / plan->rows);
    if (plan->staged & SMM_PACK_B) plan->group = min_of(plan->group, lines / plan->cols);
}

/* --- Any operation ---------------------------------------------------------------------------------- */

/* The upper triangle is the lower one of the transpose. Where this is the only difference, kernels know lower triangles
 * only. The transpose of a Hermitian matrix is its conjugate: its factor is conjugated too, but not the solution of a
 * system. */
static void take_lower(smm_call *c) {
    const bool solves = (c->op == SMM_OP_CHO_SOLVE || c->op == SMM_OP_SOLVE_POS) && !smm_is_complex(c->dtype);
    if (!(c->form & SMM_UPPER) || !(c->op == SMM_OP_CHOLESKY || solves)) return;
    c->form &= ~(unsigned)SMM_UPPER;
    c->a = smm_transposed(c->a);
    if (c->op == SMM_OP_CHOLESKY) c->cholesky.l = smm_transposed(c->cholesky.l);
}

/* Whether the matrices of C follow each other without gaps. */
static bool is_packed(const view *v) {
    const bool row_major = v->x->col == v->size && v->x->row == v->cols * v->size;
    const bool column_major = v->x->row == v->size && v->x->col == v->rows * v->size;
    return (row_major || column_major) && v->x->batch == v->rows * v->cols * v->size;
}

static bool fits(const smm_kernel *kernel, const smm_call *c) {
    return (!kernel->m || kernel->m == c->m) && (!kernel->k || kernel->k == c->k) && (!kernel->n || kernel->n == c->n);
}

/* Bytes of memory that a stack occupies: all of it, one matrix if it is broadcast, or less where matrices overlap. */
static double distinct_bytes(const view *v, intptr_t batch) {
    const intptr_t matrix = v->rows * v->cols * v->size;
    return (double)min_of(smm_abs(v->x->batch), matrix) * (double)max_of(batch - 1, 0) + (double)matrix;
}

/* How often the outer dimensions move operand i to other matrices. */
static double repetitions(const smm_call *c, int i) {
    double count = 1;
    for (int d = 0; c->outer && d < c->outer->dims; d++)
        if (c->outer->stride[d][i]) count *= (double)c->outer->extent[d];
    return count;
}

/* Kernels of factorizations take any strides. If streamed, they compute one group at a time. */
static bool group_for_streaming(smm_plan *plan, const view *out) {
    const intptr_t matrix = out->rows * out->cols * out->size;
    plan->group = group_of_lanes(plan, matrix);
    return plan->group * matrix <= SMM_C_BUFFER;
}

/* Bring plan->call into the form that kernels handle best. */
static void normalise(smm_plan *plan, views *x) {
    smm_call *c = &plan->call;
    if (c->outer) {
        plan->outer = *c->outer;
        c->outer = &plan->outer;
    }
    take_lower(c);
    for (int i = 0; i < x->count; i++) normalise_view(&x->of[i]);
    plan->swapped = c->op == SMM_OP_MATMUL && column_major(c, smm_size(c->dtype));
    if (!plan->swapped) return;
    swap(c, &plan->outer);
    look(x, c);
}

/* Work, traffic, and what there is to do. */
static void count_work(smm_plan *plan, const views *x) {
    const smm_call *c = &plan->call;
    const bool matmul = c->op == SMM_OP_MATMUL, gram = matmul && is_gram(c);
    bool writes = false;
    double most = SMM_ASK_BYTES;
    plan->largest = -1;
    plan->runs = smm_runs(c);
    plan->per_matrix = 1;
    for (int i = 0; i < x->count; i++) {
        const view *v = &x->of[i];
        if (!v->x->data) continue;
        if (v->row->direction & SMM_WRITTEN) writes = true;
        if (v->row->direction & SMM_OPTIONAL) continue; /* a number per matrix */
        const double bytes = distinct_bytes(v, c->batch) * repetitions(c, i);
        if (!gram || i != smm_roles_of[c->op].b) plan->bytes += bytes;
        if (bytes > most && (v->x->batch || repetitions(c, i) > 1)) most = bytes, plan->largest = i;
        plan->per_matrix += (double)(v->rows * v->cols * v->size);
    }
    plan->flops = (double)plan->runs * (double)c->batch * flops_of(c);
    plan->nothing = !c->batch || !plan->runs || !writes;
    plan->empty = matmul ? !has_elements(x->result) : !c->n || !has_elements(&x->of[0]);
    plan->no_terms = matmul && (plan->empty || !c->batch || !c->k);
    plan->deep = matmul && !plan->no_terms && c->k > SMM_DEEP;
    plan->scaled = matmul && (c->matmul.alpha.data || c->matmul.beta.data);
}

static double work_of(double flops, double bytes) { return bytes / THREAD_BYTES + flops / THREAD_FLOPS; }

int smm_threads_for(double flops, double bytes, int threads) {
    const double share = work_of(flops, bytes);
    return (int)max_of(1, min_of(threads, share < 1e6 ? (intptr_t)share : 1000000));
}

/* Factorizations take longer for a flop than products. */
static double weight_of(const smm_plan *plan) { return plan->call.op == SMM_OP_MATMUL ? 1 : 4; }

static double weighted_flops(const smm_plan *plan) { return weight_of(plan) * plan->flops; }

double smm_work_of(const smm_plan *plan) { return work_of(weighted_flops(plan), plan->bytes); }

static void choose_threads(smm_plan *plan, int threads) {
    plan->threads = smm_threads_for(weighted_flops(plan), plan->bytes, threads);
}

static bool is_large(const smm_plan *plan, const view *out) {
    const smm_call *c = &plan->call;
    if (!out || !out->x->data || !is_packed(out)) return false;
    const double written = (double)(out->rows * out->cols * out->size) * (double)c->batch * (double)plan->runs;
    return plan->bytes > STREAM_BYTES || (written > STREAM_OUTPUT && written > STREAM_OUTPUT_EACH * plan->threads);
}

/* Whether the result goes around the caches. */
static void choose_stores(smm_plan *plan, const view *out) {
    const smm_call *c = &plan->call;
    if (plan->deep || !is_large(plan, out)) return;
    const intptr_t matrix = out->rows * out->cols * out->size;
    plan->nontemporal =
        c->op == SMM_OP_MATMUL ? !c->matmul.beta.data && matrix <= SMM_BUFFER : group_for_streaming(plan, out);
}

/* Make it the plan's kernel if it needs nothing that `unless` has and its operands can be packed; `asked` is the call
 * that it would be given. */
static bool take_kernel(smm_plan *plan, const smm_kernel *kernel, const smm_call *asked, unsigned unless) {
    if (!fits(kernel, asked)) return false;
    const unsigned needs = kernel->needs(asked);
    if (needs & unless) return false;
    plan->kernel = kernel;
    plan->staged = (needs & ~(unsigned)SMM_SLOWER) | (plan->scaled || plan->nontemporal ? SMM_STAGE_C : 0u);
    if (plan->deep || asked->op != SMM_OP_MATMUL) return true;
    const bool fits_buffer = tile(plan, smm_size(asked->dtype));
    if (!plan->nontemporal || (plan->rows == asked->m && plan->cols == asked->n)) return fits_buffer;
    plan->nontemporal = false; /* blocks of C do not follow each other: only whole matrices go around the caches */
    return take_kernel(plan, kernel, asked, unless);
}

/* The kernel that SMALLMM_KERNEL names, if it can run the call, or else the first of the list that can; chunk by chunk
 * if the sums are deep. The last of the list takes any operands. It also handles products with nothing to sum or to
 * write, so the others need not. */
static void choose_kernel(smm_plan *plan) {
    smm_call chunks;
    const smm_call *c = &plan->call, *asked = c;
    if (plan->deep) {
        chunks = smm_chunks_of(c, 0);
        asked = &chunks;
    }
    const smm_kernel *rows = plan->kernels->lists[c->op].rows;
    const size_t count = plan->kernels->lists[c->op].count;
    bool found = false;
    if (smm_is_kernel_forced() && !plan->no_terms)
        for (size_t i = 0; i < count && !found; i++)
            found = smm_is_forced(&rows[i], c->dtype) && take_kernel(plan, &rows[i], asked, SMM_UNFIT);
    for (size_t i = plan->no_terms ? count - 1 : 0; i < count && !found; i++)
        found = take_kernel(plan, &rows[i], asked, SMM_UNFIT | SMM_SLOWER);
    if (c->op != SMM_OP_MATMUL) plan->rows = c->m, plan->cols = c->n;
    plan->cold = plan->bytes > plan->kernel->cold;
    if (plan->deep) deep_tile(plan, asked, smm_size(c->dtype));
}

/* A product of few matrices is shared in parts, several for each thread so that all end together. Parts are blocks of
 * C, which become smaller for that but stay worth their packing, and, of deep sums, a power of two of chunks. */
static void divide_matrices(smm_plan *plan) {
    const smm_call *c = &plan->call;
    plan->parts = 1;
    if (plan->threads == 1 || c->op != SMM_OP_MATMUL || !plan->kernel || plan->nontemporal || plan->no_terms) return;
    const intptr_t matrices = plan->runs * c->batch, parts = smm_pieces(PARTS * plan->threads, max_of(1, matrices));
    if (parts <= 1) return;
    const intptr_t by_rows = smm_pieces(c->m, plan->rows);
    plan->cols = min_of(plan->cols, (smm_pieces(c->n, smm_pieces(parts, by_rows)) + 63) & -64);
    const intptr_t by_cols = smm_pieces(c->n, plan->cols);
    plan->rows = min_of(plan->rows, (smm_pieces(c->m, smm_pieces(parts, by_cols)) + 15) & -16);
    const intptr_t blocks = smm_pieces(c->m, plan->rows) * by_cols;
    plan->span = smm_pieces(c->k, SMM_CHUNK);
    if (plan->deep && blocks < parts) {
        plan->span = 1;
        while (blocks * smm_pieces(smm_pieces(c->k, SMM_CHUNK), plan->span) > 2 * parts) plan->span *= 2;
    }
    plan->parts = blocks * smm_pieces(smm_pieces(c->k, SMM_CHUNK), plan->span);
}

/* How much a thread claims at a time, and how much it computes at most before it checks for an interrupt. Kernels whose
 * lanes hold matrices get what fills them. */
static void divide(smm_plan *plan) {
    divide_matrices(plan);
    if (plan->parts > 1) {
        plan->chunk = plan->piece = 1;
        return;
    }
    const double flops = weight_of(plan) * flops_of(&plan->call);
    const intptr_t lanes = full_lanes(plan);
    plan->chunk = max_of(16, (intptr_t)(CHUNK_BYTES / plan->per_matrix) & -16);
    plan->piece = max_of(lanes, min_of(16 * plan->chunk, (intptr_t)(PIECE_FLOPS / (1 + flops))) & -lanes);
    plan->chunk = min_of(plan->chunk, plan->piece);
}

/* --- SMALLMM_VERBOSE -------------------------------------------------------------------------------- */

static bool is_verbose;
__attribute__((constructor)) static void look_whether_verbose(void) {
    const char *text = getenv("SMALLMM_VERBOSE");
    is_verbose = text && *text && strcmp(text, "0") != 0;
}

static void print_plan(const smm_plan *plan) {
    const smm_call *c = &plan->call;
    fprintf(stderr,
            "smallmm: %s %s m=%lld n=%lld k=%lld batch=%lld: %s, threads=%d%s%s%s%s%s%s, flops=%.4g, bytes=%.4g\n",
            smm_operations[c->op].name, smm_dtypes[c->dtype].name, (long long)c->m, (long long)c->n, (long long)c->k,
            (long long)(c->batch * plan->runs),
            plan->nothing  ? "nothing to do"
            : plan->kernel ? plan->kernel->name
                           : "in tiles",
            plan->threads, plan->swapped ? ", swapped" : "", plan->staged & SMM_PACK_A ? ", packs a" : "",
            plan->staged & SMM_PACK_B ? ", packs b" : "", plan->staged & SMM_STAGE_C ? ", stages c" : "",
            plan->nontemporal ? ", nontemporal" : "", plan->deep ? ", in chunks" : "", plan->flops, plan->bytes);
}

smm_status smm_plan_call(const smm_call *call, smm_plan *plan) {
    if (!call) return SMM_ERR_ARGUMENT;
    if (call->op >= SMM_OPS || call->dtype >= SMM_DTYPE_COUNT) return SMM_ERR_OPERATION;
    if (!smm_takes(call->op, call->dtype)) return SMM_ERR_DTYPE;
    memset(plan, 0, offsetof(smm_plan, call));
    memcpy(&plan->call, call, smm_bytes_of_call(call->op));
    views x;
    look(&x, &plan->call);
    if (!is_valid(&plan->call, &x)) return SMM_ERR_ARGUMENT;
    smm_status status = smm_kernels_of(call->dtype, &plan->kernels);
    if (status) return status;
    const int threads = smm_get_num_threads();
    if (!threads) return SMM_ERR_THREADS;

    normalise(plan, &x);
    count_work(plan, &x);
    if (is_too_large(&plan->call, &x.of[0]) && !plan->nothing) return SMM_ERR_ORDER;
    choose_threads(plan, threads);
    if (smm_is_stored(plan->call.dtype)) { /* the kernel of a tile */
        plan->nontemporal = is_large(plan, x.result);
        plan->cold = plan->bytes > SMM_BEYOND_L2;
    } else {
        choose_stores(plan, x.result);
        choose_kernel(plan);
    }
    divide(plan);
    if (is_verbose) print_plan(plan);
    return SMM_OK;
}

/* --- Tiles of types that are only stored ------------------------------------------------------------ */

/* Bytes of a tile's operands in the computed type. They should stay in L1 together with the stored ones; a tile is
 * larger where one vector of matrices is. From memory 16 to 28 KB took up to 10 % less time than 48 or 96, in cache all
 * took the same (AMD EPYC family 25 model 17, November 2026). */
static const intptr_t TILE_BYTES = 20 << 10;

static intptr_t matrices_of_tile(const smm_plan *whole, double bytes) {
    const smm_call *c = &whole->call;
    const intptr_t lanes = full_lanes(whole);
    const intptr_t count = (intptr_t)((double)TILE_BYTES / bytes) & -lanes;
    return max_of(1, min_of(c->batch, max_of(count, lanes / 2)));
}

/* Dense matrices, row-major or column-major as v is, so that both are read in the same order. */
static smm_operand dense(const view *v, char *data, intptr_t size) {
    const bool column_major = smm_is_column_major(v->x, v->rows, v->cols);
    return (smm_operand){.data = data,
                         .batch = v->x->batch ? v->rows * v->cols * size : 0,
                         .row = column_major ? size : v->cols * size,
                         .col = column_major ? v->rows * size : size};
}

smm_status smm_plan_tiles(const smm_plan *whole, smm_tiles *tiles) {
    smm_call tile = whole->call;
    views x;
    look(&x, &tile);
    tile.dtype = smm_dtypes[tile.dtype].computed;
    tile.outer = NULL;
    tile.failed = NULL;
    double bytes = 1; /* of a matrix's operands; products may be of any size */
    for (int i = 0; i < x.count; i++)
        if (smm_is_converted(tile.op, whole->call.dtype, i))
            bytes += (double)x.of[i].rows * (double)x.of[i].cols * (double)smm_size_of(tile.op, tile.dtype, i);
    if (bytes > (double)(PTRDIFF_MAX / 2)) return SMM_ERR_MEMORY;
    tiles->batch = tile.batch = matrices_of_tile(whole, bytes);
    tiles->bytes = 0;
    for (int i = 0; i < x.count; i++) {
        const view *v = &x.of[i];
        const intptr_t size = smm_size_of(tile.op, tile.dtype, i);
        tiles->address[i] = NULL;
        if (!smm_is_converted(tile.op, whole->call.dtype, i) || !v->x->data) continue;
        tiles->address[i] = (char *)SMM_LINE + tiles->bytes;
        *v->x = dense(v, tiles->address[i], size);
        const intptr_t count = v->x->batch ? tiles->batch : 1;
        tiles->bytes += (count * v->rows * v->cols * size + SMM_LINE - 1) & -SMM_LINE;
    }
    return smm_plan_call(&tile, &tiles->plan);
}
