/* cholesky_single.h: the Cholesky factorization of one matrix at a time, whose rows are the lanes (single.h): column k
 * of L is a row of numbers here. Left-looking by panels: what all columns before it take off a panel is summed in
 * registers, and then its columns are finished one after the other. */

typedef struct cholesky_single_workspace {
    elem l[SINGLE_ELEMENTS];
} cholesky_single_workspace;
_Static_assert(sizeof(cholesky_single_workspace) <= SMM_KERNEL_WORKSPACE, "workspace of cholesky_single");

/* Columns k .. k+height-1 become less what the first `before` columns take off them: of a strip of rows. */
INLINE void cholesky_single_strip(elem_matrix l, intptr_t before, intptr_t k, intptr_t b, const int height,
                                  const int width) {
    elem c[SINGLE_HEIGHT][SINGLE_STRIP];
    UNROLLED(int t = 0; t < height; t++)
        UNROLLED(int j = 0; j < width; j++) c[t][j] = l.at[(k + t) * l.step + b + j];
    ROLLED(intptr_t s = 0; s < before; s++) {
        const elem *const column = l.at + s * l.step;
        UNROLLED(int t = 0; t < height; t++) {
            const elem factor = elem_conj(single_get(column, k + t));
            UNROLLED(int j = 0; j < width; j++) c[t][j] = elem_fnma(column[b + j], factor, c[t][j]);
        }
    }
    UNROLLED(int t = 0; t < height; t++)
        UNROLLED(int j = 0; j < width; j++) l.at[(k + t) * l.step + b + j] = c[t][j];
}
INLINE void cholesky_single_panel(elem_matrix l, intptr_t before, intptr_t k, const int height) {
    const intptr_t end = single_blocks(l.n);
    intptr_t b = k / LANES;
    for (; b + SINGLE_STRIP <= end; b += SINGLE_STRIP) cholesky_single_strip(l, before, k, b, height, SINGLE_STRIP);
    for (; b < end; b++) cholesky_single_strip(l, before, k, b, height, 1);
}

/* Column k is finished, and taken off those up to `last`. Whether its pivot is positive. */
INLINE bool cholesky_single_column(elem_matrix l, intptr_t k, intptr_t last) {
    const intptr_t first = k / LANES, end = single_blocks(l.n);
    elem *const column = l.at + k * l.step;
    const vec square = elem_re(single_get(column, k)), pivot = lane_sqrt(square), r = lane_div(lane_set(1), pivot);
    single_zero(column, first);
    for (intptr_t b = first; b < end; b++)
        column[b] = elem_select(single_from(b * LANES, k), elem_scale(column[b], r), elem_set(0));
    single_put(column, k, elem_of(pivot));
    for (intptr_t j = k + 1; j < last; j++) {
        elem *const other = l.at + j * l.step;
        const elem factor = elem_conj(single_get(column, j));
        for (intptr_t b = j / LANES; b < end; b++) other[b] = elem_fnma(column[b], factor, other[b]);
    }
    return lane_any(lane_greater(square, lane_set(0)));
}

/* One c128 matrix of order 32, 64 and 128 took 3.2, 5.7 and 9.4 times as long in the lanes, one of f64 1.7, 3 and 4.
 * LANES matrices of more bytes than CHOLESKY_LANES_MAX leave the caches of a core: then one at a time is faster for
 * any number of them (AMD EPYC family 26 model 2, AVX-512, November 2026). */
enum {
    CHOLESKY_SINGLE_FIRST = PARTS == 1 ? 192 : 16 * LANES,
    CHOLESKY_SINGLE_EACH = PARTS == 1 ? 240 : 9 * LANES,
    CHOLESKY_LANES_MAX = 3 << 19
};
static unsigned cholesky_single_needs(const smm_call *call) {
    if (call->n * call->n * (intptr_t)sizeof(elem) > CHOLESKY_LANES_MAX) return 0;
    return single_needs(call->batch, call->n, CHOLESKY_SINGLE_FIRST, CHOLESKY_SINGLE_EACH);
}

static void KERNEL(cholesky_single)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) {
    (void)cold;
    cholesky_single_workspace *const w = smm_kernel_workspace();
    const intptr_t n = call->n;
    const smm_operand a = smm_transposed(call->cholesky.a), to = smm_transposed(call->cholesky.l);
    const elem_matrix l = single_matrix(w->l, n, n);
    for (intptr_t q = first; q < last; q++) {
        intptr_t info = 0;
        single_load(l, &a, q);
        for (intptr_t k = 0, end; k < n; k = end) {
            end = min_of(k + SINGLE_HEIGHT, n);
            if (end - k == SINGLE_HEIGHT)
                cholesky_single_panel(l, k, k, SINGLE_HEIGHT);
            else
                for (intptr_t j = k; j < end; j++) cholesky_single_panel(l, k, j, 1);
            for (intptr_t j = k; j < end; j++)
                if (!cholesky_single_column(l, j, end) && !info) info = j + 1;
        }
        single_store(&to, q, l);
        lanes_store_int(&call->cholesky.info, q, lane_set((T)info), 1);
        KERNEL(elem_fill_nan)(&call->cholesky.l, q, lane_set((T)info), n, n, 1);
    }
}
