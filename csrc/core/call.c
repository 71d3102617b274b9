/* call.c: merges the batch dimensions of a call where all operands step evenly through them, sees complex matrices
 * beside real ones as real, and finds operands that overlap. */
#include <string.h>

#include "core.h"

bool smm_add_dimension(smm_outer *to, intptr_t extent, const intptr_t stride[SMM_MAX_OPERANDS]) {
    if (extent == 1) return true;
    const int last = to->dims - 1;
    bool merges = last >= 0;
    for (int i = 0; i < SMM_MAX_OPERANDS && merges; i++) merges = stride[i] == to->stride[last][i] * to->extent[last];
    if (merges) {
        to->extent[last] *= extent;
        return true;
    }
    if (to->dims == SMM_MAX_DIMS) return false;
    memcpy(to->stride[to->dims], stride, sizeof to->stride[0]);
    to->extent[to->dims++] = extent;
    return true;
}

int smm_longest_dimension(const smm_outer *x) {
    enum { FEW = 32 }; /* matrices from which on starting a kernel pays */
    int longest = 0;
    for (int d = 1; d < x->dims && x->extent[0] < FEW; d++)
        if (x->extent[d] > x->extent[longest]) longest = d;
    return longest;
}

void smm_take_batch(smm_call *call, smm_outer *from, int own) {
    call->batch = from->dims ? from->extent[own] : 1;
    for (int i = 0; i < SMM_MAX_OPERANDS; i++) call->operand[i].batch = from->dims ? from->stride[own][i] : 0;
    for (int d = own + 1; d < from->dims; d++) {
        from->extent[d - 1] = from->extent[d];
        memcpy(from->stride[d - 1], from->stride[d], sizeof from->stride[d]);
    }
    from->dims -= from->dims > 0;
    call->outer = from->dims ? from : NULL;
}

intptr_t smm_runs(const smm_call *call) {
    intptr_t runs = 1;
    for (int d = 0; call->outer && d < call->outer->dims; d++) runs *= call->outer->extent[d];
    return runs;
}

smm_call smm_run_of(const smm_call *call, intptr_t r) {
    smm_call run = *call;
    run.outer = NULL;
    intptr_t offset[SMM_MAX_OPERANDS] = {0};
    for (int d = 0; call->outer && d < call->outer->dims; d++) {
        const intptr_t index = r % call->outer->extent[d];
        for (int i = 0; i < SMM_MAX_OPERANDS; i++) offset[i] += index * call->outer->stride[d][i];
        r /= call->outer->extent[d];
    }
    for (int i = 0; i < smm_operations[call->op].count; i++)
        if (run.operand[i].data) run.operand[i].data = (char *)run.operand[i].data + offset[i];
    return run;
}

/* --- real matrices beside complex ones --- */

/* The size that doubles where A, or B, and the result are seen as real: that of their rows, or columns, if nothing else
 * has it. SMM_SIZE_ONE: there is none. */
static int doubled(smm_op op, bool by_rows) {
    const smm_operand_row *row = smm_operations[op].operand;
    const int b = smm_roles_of[op].b, result = smm_roles_of[op].result, seen = by_rows ? 0 : b;
    if (b < 0 || result < 0) return SMM_SIZE_ONE;
    const int size = by_rows ? row[result].rows : row[result].cols;
    for (int i = 0; i < smm_operations[op].count; i++) {
        const bool doubles = i == seen || i == result, by_both = row[i].rows == size && row[i].cols == size;
        const bool has = row[i].rows == size || row[i].cols == size;
        if (doubles ? (by_rows ? row[i].rows : row[i].cols) != size || by_both : has) return SMM_SIZE_ONE;
    }
    return size;
}

unsigned smm_pairs_of(smm_op op, smm_dtype a, smm_dtype b) {
    if (a == b || smm_dtypes[a].real != smm_dtypes[b].real || !doubled(op, smm_is_complex(a))) return 0;
    return 1u << (smm_is_complex(a) ? 0 : smm_roles_of[op].b) | 1u << smm_roles_of[op].result;
}

bool smm_as_interleaved_real(smm_call *call, smm_outer *outer, unsigned pairs) {
    const bool by_rows = pairs & 1; /* A is complex */
    const intptr_t part = smm_size(call->dtype);
    intptr_t one = 1, *const sizes[SMM_SIZES] = {&one, &call->m, &call->n, &call->k};
    intptr_t *const size = sizes[doubled(call->op, by_rows)], stride[SMM_MAX_OPERANDS] = {0};
    bool even = true;
    for (int i = 0; i < smm_operations[call->op].count; i++) {
        if (!(pairs >> i & 1)) continue;
        stride[i] = part;
        even = even && (*size == 1 || (by_rows ? call->operand[i].row : call->operand[i].col) == 2 * part);
    }
    if (!even) return smm_add_dimension(outer, 2, stride); /* info is written twice, the same */
    for (int i = 0; i < smm_operations[call->op].count; i++)
        if (pairs >> i & 1) *(by_rows ? &call->operand[i].row : &call->operand[i].col) = part;
    *size *= 2;
    return true;
}

/* --- operands that overlap --- */

smm_span smm_span_of(const smm_call *call, int i) {
    const smm_operand *x = &call->operand[i];
    smm_span s = {(intptr_t)x->data, (intptr_t)x->data};
    if (!x->data) return s;
    intptr_t rows, cols;
    smm_sizes_of(call->op, i, call->m, call->n, call->k, &rows, &cols);
    if (!rows || !cols) return s;
    s.high += smm_size_of(call->op, call->dtype, i);
    smm_reach(&s, rows, x->row);
    smm_reach(&s, cols, x->col);
    smm_reach(&s, call->batch, x->batch);
    for (int d = 0; call->outer && d < call->outer->dims; d++)
        smm_reach(&s, call->outer->extent[d], call->outer->stride[d][i]);
    return s;
}

/* Whether every matrix of operand i occupies the memory of that of j. A transpose counts too, where `transposed` allows
 * it. */
static bool are_same_places(const smm_call *call, int i, int j) {
    const smm_operand *x = &call->operand[i], *y = &call->operand[j];
    intptr_t rows, cols, other_rows, other_cols;
    smm_sizes_of(call->op, i, call->m, call->n, call->k, &rows, &cols);
    smm_sizes_of(call->op, j, call->m, call->n, call->k, &other_rows, &other_cols);
    if (x->data != y->data || rows != other_rows || cols != other_cols) return false;
    if (call->batch > 1 && x->batch != y->batch) return false;
    for (int d = 0; call->outer && d < call->outer->dims; d++)
        if (call->outer->extent[d] > 1 && call->outer->stride[d][i] != call->outer->stride[d][j]) return false;
    const bool transposed_fits = j == 0 || call->op == SMM_OP_MATMUL; /* B is read column by column */
    return (x->row == y->row && x->col == y->col) ||
           (transposed_fits && rows == cols && x->row == y->col && x->col == y->row);
}

smm_overlap smm_overlap_of(const smm_call *call) {
    const smm_operation *operation = &smm_operations[call->op];
    const smm_roles *roles = &smm_roles_of[call->op];
    smm_overlap found = SMM_APART;
    if (!call->batch || !smm_runs(call)) return found;
    smm_span spans[SMM_MAX_OPERANDS];
    for (int i = 0; i < operation->count; i++) spans[i] = smm_span_of(call, i);
    for (int i = 0; i < operation->count; i++) {
        if (!(operation->operand[i].direction & SMM_WRITTEN)) continue;
        for (int j = 0; j < operation->count; j++) {
            if (i == j || !smm_do_spans_meet(&spans[i], &spans[j])) continue;
            const bool of_diagonals = operation->operand[j].direction & SMM_LONG;
            const bool may_be_replaced = i == roles->result && ((j == 0 && !of_diagonals) || j == roles->b);
            if (!may_be_replaced || !are_same_places(call, i, j)) return SMM_OVERLAPPING;
            found = SMM_IN_PLACE;
        }
    }
    return found;
}

smm_call smm_chunks_of(const smm_call *call, intptr_t q) {
    smm_call chunks = *call;
    chunks.batch = (call->k - 1) / SMM_CHUNK + 1;
    chunks.k = SMM_CHUNK;
    const smm_matmul_operands *x = &call->matmul;
    chunks.matmul = (smm_matmul_operands){
        .a = {smm_at(&x->a, q, 0, 0), SMM_CHUNK * x->a.col, x->a.row, x->a.col},
        .b = {smm_at(&x->b, q, 0, 0), SMM_CHUNK * x->b.row, x->b.row, x->b.col},
        .alpha = {.data = smm_at(&x->alpha, q, 0, 0)},
        .beta = {.data = smm_at(&x->beta, q, 0, 0)},
        .c = {smm_at(&x->c, q, 0, 0), 0, x->c.row, x->c.col},
    };
    return chunks;
}

/* Repetition x / batch of a call, whose matrix x % batch becomes its only one. */
smm_call smm_matrix_of(const smm_call *call, intptr_t x) {
    smm_call one = smm_run_of(call, x / call->batch);
    for (int i = 0; i < smm_operations[call->op].count; i++)
        one.operand[i].data = smm_at(&one.operand[i], x % call->batch, 0, 0);
    one.batch = 1;
    return one;
}
