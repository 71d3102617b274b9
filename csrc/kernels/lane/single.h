/* single.h: one matrix at a time, for stacks of too few to fill the lanes: its columns are the lanes.
 *
 * Rows are vectors of numbers, `step` of them apart, zeros behind the last column. Sums keep their order, for none of
 * them runs along a row: a product with a vector from the left adds row after row, and one from the right is taken of
 * the transpose, which is kept beside the matrix. A number that belongs to a whole row is spread: it is in all lanes.
 * What is not vectorized, such as finding a reflector, is done by the texts for LANES matrices, of spread numbers. */

enum {
    SINGLE_STRIP = VECTOR_REGISTERS / 8 >= PARTS ? VECTOR_REGISTERS / 8 / PARTS : 1, /* vectors of a row at a time */
    SINGLE_HEIGHT = 4,                                                               /* rows of a product at a time */
    SINGLE_STEP = (SMM_MAX_ORDER + LANES - 1) / LANES | 1,
    SINGLE_ELEMENTS = SMM_MAX_ORDER * SINGLE_STEP
};

/* So many vectors hold a row; rows begin an odd number of them apart, so that columns do not crowd L1. */
INLINE intptr_t single_blocks(intptr_t n) { return (n + LANES - 1) / LANES; }
INLINE elem_matrix single_matrix(elem *at, intptr_t m, intptr_t n) {
    return (elem_matrix){at, m, n, single_blocks(n) | 1};
}

/* Number j of a row. */
INLINE T *single_element(const elem *row, intptr_t j) { return (T *)row + j / LANES * (PARTS * LANES) + j % LANES; }
INLINE elem single_get(const elem *row, intptr_t j) { return elem_spread(single_element(row, j)); }
INLINE void single_put(elem *row, intptr_t j, elem x) { elem_put(single_element(row, j), x); }

/* Numbers first .. last-1 of a row, spread; and back, with zeros before them in the vector of the first. */
INLINE void single_spread(elem *to, const elem *row, intptr_t first, intptr_t last) {
    ROLLED(intptr_t j = first; j < last; j++) to[j] = single_get(row, j);
}
INLINE void single_collect(elem *row, const elem *from, intptr_t first, intptr_t last) {
    ROLLED(intptr_t j = first & -LANES; j < first; j++) single_put(row, j, elem_set(0));
    ROLLED(intptr_t j = first; j < last; j++) single_put(row, j, from[j]);
}

INLINE void single_zero(elem *x, intptr_t count) {
    ROLLED(intptr_t i = 0; i < count; i++) x[i] = elem_set(0);
}

/* The columns from `first` on, of a vector that begins with column `begin`. */
INLINE mask single_from(intptr_t begin, intptr_t first) {
    const intptr_t before = first - begin;
    return lane_mask(before <= 0 ? ~0u : before >= LANES ? 0 : ~0u << before);
}

/* Whether so few matrices are faster one at a time than in the lanes, which take as long for one as for all. The time
 * of the lanes, in matrices of a single kernel, grows with the order and the lanes: from `first` on it is that of one,
 * and of one more with `each`. These are fitted to orders 8 to 128 (AMD EPYC family 26 model 2, AVX-512, November
 * 2026). */
INLINE unsigned single_needs(intptr_t batch, intptr_t order, intptr_t first, intptr_t each) {
    const intptr_t beyond = order * LANES - first;
    return beyond >= 0 && batch - 1 <= beyond / each ? 0 : SMM_SLOWER;
}
INLINE bool single_fits(const smm_call *call) { return call->m <= SMM_MAX_ORDER && call->n <= SMM_MAX_ORDER; }

/* --- Operands ----------------------------------------------------------------------------------------------------- */

/* From an operand, or to it. */
SHARED void KERNEL(single_move)(elem_matrix a, const smm_operand *x, intptr_t q, bool stores) {
    const strides s = strides_of(x);
    T *const p = (T *)x->data + q * s.batch, *const w = (T *)a.at;
    const intptr_t ld = a.step * (PARTS * LANES);
    if (PARTS == 1 && s.col == 1) {
        for (intptr_t i = 0; i < a.m; i++)
            for (intptr_t j = 0; j < a.n; j += LANES) {
                T *const there = p + i * s.row + j;
                if (stores)
                    lane_store_part(there, lane_load(w + i * ld + j), min_of(LANES, a.n - j));
                else
                    lane_store(w + i * ld + j, lane_load_part(there, min_of(LANES, a.n - j)));
            }
        return;
    }
    if (PARTS == 1 && s.row == 1) {
        for (intptr_t i = 0; i < a.m; i += BLOCK)
            for (intptr_t j = 0; j < a.n; j += BLOCK) {
                const intptr_t rows = min_of(BLOCK, a.m - i), cols = min_of(BLOCK, a.n - j);
                T *const here = w + i * ld + j, *const there = p + j * s.col + i;
                if (stores)
                    transpose_block(there, s.col, here, ld, cols, rows, rows);
                else
                    transpose_block(here, ld, there, s.col, rows, cols, cols);
            }
        return;
    }
    const bool column_major = s.row == PARTS && s.col != PARTS;
    const intptr_t outer = column_major ? a.n : a.m, inner = column_major ? a.m : a.n;
    for (intptr_t o = 0; o < outer; o++)
        for (intptr_t e = 0; e < inner; e++) {
            const intptr_t i = column_major ? e : o, j = column_major ? o : e;
            T *const here = single_element(a.at + i * a.step, j), *const there = p + i * s.row + j * s.col;
            UNROLLED(int part = 0; part < PARTS; part++)
                if (stores)
                    there[part] = here[part * LANES];
                else
                    here[part * LANES] = there[part];
        }
}
INLINE void single_load(elem_matrix a, const smm_operand *from, intptr_t q) {
    single_zero(a.at, a.m * a.step);
    KERNEL(single_move)(a, from, q, false);
}
INLINE void single_store(const smm_operand *to, intptr_t q, elem_matrix a) { KERNEL(single_move)(a, to, q, true); }

/* The largest element of x in all lanes, and their sum. */
INLINE vec single_max(vec x) {
    T most = x[0];
    UNROLLED(int l = 1; l < LANES; l++) most = x[l] > most ? x[l] : most;
    return lane_set(most);
}
INLINE vec single_sum(vec x) {
    T sum = x[0];
    UNROLLED(int l = 1; l < LANES; l++) sum += x[l];
    return lane_set(sum);
}

/* As elem_load_scaled: times a power of two; the result undoes that, or is NaN. */
INLINE vec single_scale(elem_matrix a) {
    vec most = lane_set(0), nothing = lane_set(0);
    for (intptr_t e = 0; e < a.m * a.step; e++) {
        most = elem_largest(a.at[e], most);
        nothing = elem_taint(a.at[e], nothing);
    }
    const mask finite = lane_equal(single_sum(nothing), lane_set(0));
    const vec scale = lane_scale_to_one(single_max(most));
    if (__builtin_expect(lane_any(~(finite & lane_equal(scale, lane_set(1)))), 0))
        for (intptr_t e = 0; e < a.m * a.step; e++)
            a.at[e] = elem_select(finite, elem_scale(a.at[e], scale), elem_set(0));
    return lane_select(finite, lane_div(lane_set(1), scale), lane_set(NAN));
}

/* Elements (i, j) and on of rows of numbers, up to BLOCK x BLOCK of them, to (j, i). */
INLINE void single_transpose_block(elem *to, intptr_t to_step, const elem *from, intptr_t from_step, intptr_t rows,
                                   intptr_t cols) {
    UNROLLED(int part = 0; part < PARTS; part++)
        transpose_block((T *)to + part * LANES, to_step * (PARTS * LANES), (const T *)from + part * LANES,
                        from_step * (PARTS * LANES), cols, rows, rows);
}
SHARED void KERNEL(single_transpose)(elem_matrix to, elem_matrix from) {
    single_zero(to.at, to.m * to.step);
    for (intptr_t i = 0; i < from.m; i += BLOCK)
        for (intptr_t j = 0; j < from.n; j += BLOCK) {
            elem *const there = (elem *)single_element(to.at + j * to.step, i);
            const elem *const here = (const elem *)single_element(from.at + i * from.step, j);
            single_transpose_block(there, to.step, here, from.step, min_of(BLOCK, from.m - i),
                                   min_of(BLOCK, from.n - j));
        }
}

/* --- Sums of rows, and outer products taken off them -------------------------------------------------------------- */

/* An outer product: numbers of rows, spread, and of columns, in vectors. by_row: the number of the row is the first
 * factor, which matters to complex numbers. */
typedef struct single_outer {
    const elem *row, *col;
    bool by_row;
} single_outer;
INLINE elem single_less(const single_outer o, elem row, elem col, elem x) {
    return o.by_row ? elem_fnma(row, col, x) : elem_fnma(col, row, x);
}

/* What a sum of rows does: begins with a row, or with its product; or adds that, the weight being the first factor or
 * the second. */
typedef enum single_sums { SINGLE_NONE, SINGLE_BEGIN, SINGLE_MULTIPLY, SINGLE_ADD, SINGLE_ADD_AFTER } single_sums;

/* Of a strip of rows first .. last-1: x becomes x less outer products, one after the other, and `sum` grows by the rows
 * times their weights. */
INLINE void single_rows(elem_matrix x, intptr_t b, intptr_t first, intptr_t last, const single_outer *o,
                        const int outers, const elem *weight, const single_sums sums, elem *sum, const int width) {
    elem s[SINGLE_STRIP], col[2][SINGLE_STRIP];
    UNROLLED(int j = 0; j < width; j++) {
        if (sums != SINGLE_NONE) s[j] = sum[b + j];
        UNROLLED(int t = 0; t < outers; t++) col[t][j] = o[t].col[b + j];
    }
    ROLLED(intptr_t i = first; i < last; i++) {
        elem *const row = x.at + i * x.step + b;
        UNROLLED(int j = 0; j < width; j++) {
            elem y = row[j];
            UNROLLED(int t = 0; t < outers; t++) y = single_less(o[t], o[t].row[i], col[t][j], y);
            if (outers) row[j] = y;
            if (sums == SINGLE_BEGIN) s[j] = y;
            if (sums == SINGLE_MULTIPLY) s[j] = elem_mul(weight[i], y);
            if (sums == SINGLE_ADD) s[j] = elem_fma(weight[i], y, s[j]);
            if (sums == SINGLE_ADD_AFTER) s[j] = elem_fma(y, weight[i], s[j]);
        }
    }
    if (sums != SINGLE_NONE)
        UNROLLED(int j = 0; j < width; j++) sum[b + j] = s[j];
}

/* Of columns from `from` on. The sum begins with row `first` as `begin` says; rows from `changed` on become less. */
INLINE void single_strip(elem_matrix x, intptr_t b, intptr_t first, intptr_t changed, const single_outer *o,
                         const int outers, const elem *weight, const single_sums begin, elem *sum, const int width) {
    const intptr_t second = min_of(first + 1, x.m);
    if (begin == SINGLE_NONE) {
        single_rows(x, b, first, x.m, o, outers, weight, SINGLE_NONE, sum, width);
    } else if (changed > first) {
        single_rows(x, b, first, second, o, 0, weight, begin, sum, width);
        single_rows(x, b, second, min_of(changed, x.m), o, 0, weight, SINGLE_ADD, sum, width);
        single_rows(x, b, changed, x.m, o, outers, weight, SINGLE_ADD, sum, width);
    } else {
        single_rows(x, b, first, second, o, outers, weight, begin, sum, width);
        single_rows(x, b, second, x.m, o, outers, weight, SINGLE_ADD, sum, width);
    }
}
INLINE void single_pass(elem_matrix x, intptr_t from, intptr_t first, intptr_t changed, const single_outer *o,
                        const int outers, const elem *weight, const single_sums begin, elem *sum) {
    const intptr_t end = single_blocks(x.n);
    intptr_t b = from / LANES;
    for (; b + SINGLE_STRIP <= end; b += SINGLE_STRIP)
        single_strip(x, b, first, changed, o, outers, weight, begin, sum, SINGLE_STRIP);
    for (; b < end; b++) single_strip(x, b, first, changed, o, outers, weight, begin, sum, 1);
}

/* w = factor w, zero before column `from`. */
INLINE void single_multiply_row(elem *w, elem factor, intptr_t from, intptr_t n) {
    for (intptr_t b = from / LANES; b < single_blocks(n); b++)
        w[b] = elem_select(single_from(b * LANES, from), elem_mul(factor, w[b]), elem_set(0));
}

/* --- Reflectors --------------------------------------------------------------------------------------------------- */

/* What steps of reflectors carry along: numbers spread, and rows. */
typedef struct single_workspace {
    elem spread[9][SMM_MAX_ORDER], row[8][SINGLE_STEP];
} single_workspace;

INLINE void single_conjugate(elem *to, const elem *from, intptr_t first, intptr_t last) {
    ROLLED(intptr_t i = first; i < last; i++) to[i] = elem_conj(from[i]);
}

/* Q = H_0 H_1 ..., of reflectors whose numbers from k + shift on are in row k of h, from the last on. The update of one
 * step and the sums of the next are one pass. Columns up to k + shift are those of I until then: column k + shift is
 * formed by itself. Where `fresh`, no sum has a term of row k + shift, which is zero right of it
 * (q_form and eigh_form); else it begins with that (q_columns). */
SHARED void KERNEL(single_form)(elem_matrix q, elem_matrix h, const elem *tau, intptr_t count, intptr_t shift,
                                single_workspace *x, bool fresh) {
    const intptr_t m = q.m, blocks = single_blocks(q.n);
    elem *const conj_v = x->spread[2];
    single_zero(q.at, m * q.step);
    for (intptr_t j = 0; j < min_of(m, q.n); j++)
        if (j < shift || j >= count + shift) single_put(q.at + j * q.step, j, elem_set(1));
    single_zero(x->row[0], blocks);
    single_zero(x->row[1], blocks);
    for (intptr_t k = count - 1; k >= 0; k--) {
        const intptr_t r = k + shift, from = r + 1, changed = k == count - 1 ? m : r + 2;
        elem *const row = q.at + r * q.step, *const v = x->spread[k % 2], *const w = x->row[k % 2];
        const single_outer last = {x->spread[(k + 1) % 2], x->row[(k + 1) % 2], true};
        single_spread(v, h.at + k * h.step, r + 1, m);
        single_conjugate(conj_v, v, r + 1, m);
        if (fresh)
            single_pass(q, from, from, changed, &last, 1, conj_v, SINGLE_MULTIPLY, w);
        else
            single_pass(q, from, r, changed, &last, 1, conj_v, SINGLE_BEGIN, w);
        single_multiply_row(w, tau[k], from, q.n);
        for (intptr_t b = from / LANES; b < blocks; b++) {
            const elem less = fresh ? elem_negate(w[b]) : elem_sub(row[b], w[b]);
            row[b] = elem_select(single_from(b * LANES, from), less, row[b]);
        }
        const elem all = fresh ? tau[k] : elem_mul(tau[k], elem_set(1));
        single_put(row, r, elem_sub(elem_set(1), all));
        for (intptr_t i = r + 1; i < m; i++)
            single_put(q.at + i * q.step, r,
                       fresh ? elem_mul(elem_negate(all), v[i]) : elem_fnma(v[i], all, elem_set(0)));
    }
    const single_outer last = {x->spread[0], x->row[0], true};
    if (count) single_pass(q, 0, shift + 1, 0, &last, 1, NULL, SINGLE_NONE, NULL);
}
