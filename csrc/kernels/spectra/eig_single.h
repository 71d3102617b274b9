/* eig_single.h: the steps of eig_hessenberg.h and eig_windows.h that take n^3 operations, of one matrix that is alone:
 * its columns are the lanes (single.h). */

/* --- Hessenberg form ----------------------------------------------------------------------------------------------
 *
 * Step k sums columns of H weighted by v, on the left, and rows, on the right; so that no sum runs along a row, the
 * latter are taken of H^T, which is kept beside H. Of H only what is left to reduce is kept up to date; H^T has all.
 * What is taken off by one step is taken off in the pass that sums for the next. */

/* H^T, from row `first` on: less the outer products of this step on the left and the last one on the right; w = H v. */
INLINE void eig_single_sums(elem_matrix t, intptr_t first, const single_outer o[2], const elem *v, elem *w) {
    const intptr_t end = single_blocks(t.n);
    intptr_t b = 0;
    single_zero(w, end);
    for (; b + SINGLE_STRIP <= end; b += SINGLE_STRIP)
        single_rows(t, b, first, t.m, o, 2, v, SINGLE_ADD_AFTER, w, SINGLE_STRIP);
    for (; b < end; b++) single_rows(t, b, first, t.m, o, 2, v, SINGLE_ADD_AFTER, w, 1);
}

/* A row of H^T has all that this step takes off it on the right, before the next one begins with it. */
INLINE void eig_single_finish_row(elem_matrix t, intptr_t i, const single_outer o) {
    elem *const row = t.at + i * t.step;
    ROLLED(intptr_t b = 0; b < single_blocks(t.n); b++) row[b] = single_less(o, o.row[i], o.col[b], row[b]);
}

/* H = Q^H A Q; its reflectors stay in rows of H^T until Q is formed, whose place is that of H meanwhile. */
static void KERNEL(eig_single_reduce)(eig_stack *x) {
    const intptr_t n = x->n, blocks = single_blocks(n);
    eig_single *const own = x->single;
    const elem_matrix h = {x->h, n, n, x->step}, t = {own->transposed, n, n, x->step}, z = {x->z, n, n, x->step};
    single_workspace *const work = &own->workspace;
    elem *const v = work->spread[0], *const w = work->spread[1], *const s = work->spread[2],
                *const conj_v = work->spread[3], *const last_v = work->spread[4], *const last_conj = work->spread[5];
    elem *const v_row = work->row[0], *const conj_row = work->row[1], *const w_row = work->row[2],
                *const s_row = work->row[3], *const last_s = work->row[4], *const last_w = work->row[5];
    elem tau[SMM_MAX_ORDER];
    KERNEL(single_transpose)(t, h);
    single_zero(work->spread[0], sizeof work->spread / sizeof(elem));
    single_zero(work->row[0], sizeof work->row / sizeof(elem));
    for (intptr_t k = 0; k + 2 < n; k++) {
        const intptr_t from = k + 1;
        elem *const column = t.at + k * t.step;
        single_spread(v, column, from, n);
        tau[k] = elem_reflector(v + from, 1, n - from);
        ROLLED(intptr_t i = from; i < n; i++) single_put(column, i, v[i]);
        v[from] = elem_set(1);
        single_conjugate(conj_v, v, from, n);

        const single_outer before[2] = {{last_v, last_s, true}, {w, conj_row, true}};
        single_pass(h, from, from, 0, before, 2, conj_v, SINGLE_BEGIN, s_row);
        single_multiply_row(s_row, elem_conj(tau[k]), from, n);
        single_spread(s, s_row, from, n);

        single_zero(v_row, blocks);
        single_collect(v_row, v, from, n);
        const single_outer now[2] = {{last_conj, last_w, false}, {s, v_row, false}};
        eig_single_sums(t, from, now, v, w_row);
        for (intptr_t b = 0; b < blocks; b++) w_row[b] = elem_mul(w_row[b], tau[k]);
        single_spread(w, w_row, from, n);
        single_collect(conj_row, conj_v, from, n);
        eig_single_finish_row(t, from, (single_outer){conj_v, w_row, false});

        ROLLED(intptr_t i = from; i < n; i++) last_v[i] = v[i], last_conj[i] = conj_v[i];
        ROLLED(intptr_t b = 0; b < blocks; b++) last_s[b] = s_row[b], last_w[b] = w_row[b];
    }
    if (n > 2) eig_single_finish_row(t, n - 1, (single_outer){last_conj, last_w, false});
    if (x->vectors) {
        KERNEL(single_form)(h, t, tau, n > 2 ? n - 2 : 0, 1, work, false);
        KERNEL(single_transpose)(z, h);
    }
    for (intptr_t k = 0; k + 2 < n; k++)
        ROLLED(intptr_t i = k + 2; i < n; i++) single_put(t.at + k * t.step, i, elem_set(0));
    KERNEL(single_transpose)(h, t);
}

/* --- A sweep ------------------------------------------------------------------------------------------------------ */

/* A reflector of the sweep, of rows and columns k to k + count - 1: of columns, only as far as the rest of the sweep
 * needs them. The rows above wait for eig_single_finish_sweep. */
INLINE void eig_single_turn_rows(const eig_stack *x, const elem *v, elem tau, intptr_t k, const int count) {
    const intptr_t n = x->n, step = x->step, end = x->vectors ? single_blocks(n) : x->to / LANES + 1;
    const elem back = elem_conj(tau);
    elem *const rows = x->h + k * step;
    const eig_matrix h = {x->h, step, true};
    for (intptr_t b = k / LANES; b < end; b++) {
        const mask on = single_from(b * LANES, k);
        elem s = rows[b];
        UNROLLED(int i = 1; i < count; i++) s = elem_fma(elem_conj(v[i]), rows[i * step + b], s);
        s = elem_mul(back, s);
        rows[b] = elem_select(on, elem_sub(rows[b], s), rows[b]);
        UNROLLED(int i = 1; i < count; i++) {
            elem *const y = &rows[i * step + b];
            *y = elem_select(on, elem_fnma(v[i], s, *y), *y);
        }
    }
    for (intptr_t i = k + 1; i <= min_of(k + count, n - 1); i++) {
        elem y[EIG_BULGE];
        UNROLLED(int j = 0; j < count; j++) y[j] = eig_get(h, i, k + j);
        eig_reflect_rows(v, tau, y, 1, count, 1);
        UNROLLED(int j = 0; j < count; j++) eig_put(h, i, k + j, y[j]);
    }
}
INLINE void eig_single_reflect(const eig_stack *x, const elem *v, elem tau, intptr_t k) {
    single_put(x->single->turns[0], k, tau);
    UNROLLED(int i = 1; i < EIG_BULGE; i++) single_put(x->single->turns[i], k, v[i]);
    if (k + EIG_BULGE <= x->n)
        eig_single_turn_rows(x, v, tau, k, EIG_BULGE);
    else
        eig_single_turn_rows(x, v, tau, k, EIG_BULGE - 1);
}

/* The reflectors of the sweep from `first` on turn columns y, of `width` vectors each and `step` apart: all rows of
 * them, or, from row `top` on, those up to the reflector's. */
INLINE void eig_single_turn(const eig_stack *x, elem *y, intptr_t step, intptr_t first, intptr_t top, bool triangle,
                            const int width) {
    const intptr_t n = x->n;
    const eig_single *const own = x->single;
    elem c[EIG_BULGE][SINGLE_STRIP];
    UNROLLED(int j = 0; j < EIG_BULGE - 1; j++)
        UNROLLED(int i = 0; i < width; i++) c[j][i] = y[(first + j) * step + i];
    for (intptr_t k = first; k < x->to; k++) {
        elem v[EIG_BULGE];
        UNROLLED(int j = 0; j < EIG_BULGE; j++) v[j] = single_get(own->turns[j], k);
        const bool inside = k + EIG_BULGE <= n, all = !triangle || k + 1 >= top + width * LANES;
        UNROLLED(int i = 0; i < width; i++) {
            c[EIG_BULGE - 1][i] = inside ? y[(k + EIG_BULGE - 1) * step + i] : elem_set(0);
            elem turned[EIG_BULGE];
            UNROLLED(int j = 0; j < EIG_BULGE; j++) turned[j] = c[j][i];
            eig_reflect_rows(v, v[0], turned, 1, EIG_BULGE, 1);
            const mask on = all ? ~eig_nowhere() : ~single_from(top + i * LANES, k + 1);
            y[k * step + i] = elem_select(on, turned[0], c[0][i]);
            UNROLLED(int j = 1; j < EIG_BULGE; j++) c[j - 1][i] = elem_select(on, turned[j], c[j][i]);
        }
    }
    for (int j = 0; j < EIG_BULGE - 1 && x->to + j < n; j++)
        UNROLLED(int i = 0; i < width; i++) y[(x->to + j) * step + i] = c[j][i];
}

SHARED void KERNEL(eig_single_turn)(const eig_stack *x, elem *y, intptr_t step, intptr_t first, intptr_t top,
                                    bool triangle) {
    eig_single_turn(x, y, step, first, top, triangle, 1);
}
SHARED void KERNEL(eig_single_turn_some)(const eig_stack *x, elem *y, intptr_t step, intptr_t first, intptr_t top,
                                         bool triangle) {
    eig_single_turn(x, y, step, first, top, triangle, SINGLE_STRIP);
}

/* LANES rows of H, from column block `from` to the one before `end`, to columns of a strip, or back. */
INLINE void eig_single_move_strip(const eig_stack *x, elem *strip, intptr_t top, intptr_t from, intptr_t end,
                                  bool back) {
    for (intptr_t i = 0; i < LANES; i += BLOCK)
        for (intptr_t j = from * LANES; j < end * LANES; j += BLOCK) {
            elem *const here = (elem *)single_element(x->h + (top + i) * x->step, j);
            elem *const there = (elem *)((T *)(strip + j * SINGLE_STRIP) + i);
            if (back)
                single_transpose_block(here, x->step, there, SINGLE_STRIP, BLOCK, BLOCK);
            else
                single_transpose_block(there, SINGLE_STRIP, here, x->step, BLOCK, BLOCK);
        }
}

INLINE void eig_single_turn_strip(const eig_stack *x, intptr_t top, intptr_t width) {
    elem *const strip = x->single->strip;
    const intptr_t first = x->from > top ? x->from : top;
    const intptr_t from = first / LANES, end = single_blocks(min_of(x->to + EIG_BULGE - 1, x->n));
    for (intptr_t i = 0; i < width; i++) eig_single_move_strip(x, strip + i, top + i * LANES, from, end, false);
    if (width > 1)
        KERNEL(eig_single_turn_some)(x, strip, SINGLE_STRIP, first, top, true);
    else
        KERNEL(eig_single_turn)(x, strip, SINGLE_STRIP, first, top, true);
    for (intptr_t i = 0; i < width; i++) eig_single_move_strip(x, strip + i, top + i * LANES, from, end, true);
}

/* Columns of H above the diagonal, and of Z. */
static void KERNEL(eig_single_finish_sweep)(const eig_stack *x) {
    for (intptr_t top = x->vectors ? 0 : x->from & -LANES, width; top < x->to; top += width * LANES) {
        width = top + (SINGLE_STRIP - 1) * LANES < x->to ? SINGLE_STRIP : 1;
        eig_single_turn_strip(x, top, width);
    }
    if (!x->vectors) return;
    const intptr_t blocks = single_blocks(x->n);
    intptr_t b = 0;
    for (; b + SINGLE_STRIP <= blocks; b += SINGLE_STRIP)
        KERNEL(eig_single_turn_some)(x, x->z + b, x->step, x->from, 0, false);
    for (; b < blocks; b++) KERNEL(eig_single_turn)(x, x->z + b, x->step, x->from, 0, false);
}

/* The rotation of rows and columns k and k + 1 that makes a block standard, but for the block. */
INLINE void eig_single_rotate(const eig_stack *x, intptr_t k, vec c, vec s) {
#if defined(REAL_DTYPE)
    (void)x, (void)k, (void)c, (void)s;
#else
    const intptr_t blocks = single_blocks(x->n);
    const eig_matrix h = {x->h, x->step, true};
    elem *const here = x->h + k * x->step, *const z = x->z + k * x->step;
    for (intptr_t b = (k + 2) / LANES; b < blocks; b++) {
        const mask on = single_from(b * LANES, k + 2);
        vec above = here[b], below = here[x->step + b];
        eigh_rotate_row(&above, &below, c, s);
        here[b] = lane_select(on, above, here[b]);
        here[x->step + b] = lane_select(on, below, here[x->step + b]);
    }
    for (intptr_t i = 0; i < k; i++) {
        vec left = eig_get(h, i, k), right = eig_get(h, i, k + 1);
        eigh_rotate_row(&left, &right, c, s);
        eig_put(h, i, k, left), eig_put(h, i, k + 1, right);
    }
    for (intptr_t b = 0; b < blocks; b++) eigh_rotate_row(&z[b], &z[x->step + b], c, s);
#endif
}
