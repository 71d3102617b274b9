/* parts_lanes.h: a level of a long tridiagonal system (../parts.c), LANES parts of it side by side: one text over the
 * numbers of elements_real.h and those of elements_complex.h. */

enum { PART_ROWS = SMM_PART, WINDOW_ROWS = 2 * PART_ROWS };

/* Rows of a line, `apart` from one lane to the next: x[t], lane l is row first + l apart + t. */
typedef struct parts_range {
    intptr_t first, apart, rows, count;
} parts_range;

INLINE smm_operand parts_line(const smm_operand *line, const parts_range *at) {
    return (smm_operand){(char *)line->data + at->first * line->row, at->apart * line->row, line->row, 0};
}
INLINE intptr_t parts_end(const parts_range *at) { return at->first + (at->count - 1) * at->apart + at->rows; }

/* The same in memory of its own, for rows of which some lie outside of the line. */
typedef struct parts_copy {
    T x[(LANES + 1) * PART_ROWS][PARTS];
} parts_copy;
INLINE smm_operand parts_line_of_copy(parts_copy *copy, const parts_range *at) {
    return (smm_operand){copy, at->apart * (intptr_t)sizeof *copy->x, sizeof *copy->x, 0};
}

/* The line has rows low to high - 1; others are `beyond`. */
SHARED void KERNEL(parts_load)(elem *x, const smm_operand *line, intptr_t low, intptr_t high, T beyond,
                               parts_range at) {
    parts_copy copy;
    smm_operand from = parts_line(line, &at);
    if (at.first < low || parts_end(&at) > high) {
        for (intptr_t i = at.first; i < parts_end(&at); i++)
            for (int part = 0; part < PARTS; part++) {
                const T *number = (const T *)((const char *)line->data + i * line->row);
                copy.x[i - at.first][part] = i >= low && i < high ? number[part] : part ? 0 : beyond;
            }
        from = parts_line_of_copy(&copy, &at);
    } else {
        const char *next = (const char *)line->data + parts_end(&at) * line->row; /* rows of the next lanes */
        for (intptr_t i = 0; i < at.count * at.apart * line->row; i += SMM_LINE) __builtin_prefetch(next + i);
    }
    KERNEL(elem_load)(x, &from, 0, at.rows, 1, at.count);
}

SHARED void KERNEL(parts_store)(const smm_operand *line, intptr_t high, const elem *x, parts_range at) {
    parts_copy copy;
    const bool inside = at.first >= 0 && parts_end(&at) <= high;
    const smm_operand to = inside ? parts_line(line, &at) : parts_line_of_copy(&copy, &at);
    KERNEL(elem_store)(&to, 0, x, at.rows, 1, at.count);
    for (intptr_t i = at.first < 0 ? 0 : at.first; i < min_of(parts_end(&at), high) && !inside; i++)
        memcpy((char *)line->data + i * line->row, copy.x[i - at.first], sizeof *copy.x);
}

/* Where a level has no rows they are those of the identity. */
typedef struct parts_rows {
    elem dl[WINDOW_ROWS], d[WINDOW_ROWS], du[WINDOW_ROWS];
} parts_rows;
INLINE void parts_load_matrix(parts_rows *w, const smm_level *x, parts_range at) {
    KERNEL(parts_load)(w->dl, &x->dl, 1, x->n, 0, at);
    KERNEL(parts_load)(w->d, &x->d, 0, x->n, 1, at);
    KERNEL(parts_load)(w->du, &x->du, 0, x->n - 1, 0, at);
}

/* The least row but separators, counted from 1 in the whole system, whose pivot is useless. */
SHARED int32_t KERNEL(parts_first_useless)(const smm_level *x, const elem *d, parts_range at) {
    intptr_t row = SMM_NO_ROW;
    for (intptr_t t = 0; t < at.rows; t++) {
        const uint32_t bad = lane_bits(elem_is_useless(d[t]));
        for (intptr_t l = 0; l < at.count && t % PART_ROWS; l++)
            if (bad >> l & 1) row = min_of(row, 1 + (at.first + l * at.apart + t) * x->apart);
    }
    return (int32_t)row;
}

static int32_t KERNEL(parts_reduce)(const smm_level *x, const smm_level *to, intptr_t begin, intptr_t end) {
    parts_rows w;
    elem b[WINDOW_ROWS];
    int32_t row = SMM_NO_ROW;
    for (intptr_t q = begin; q < end; q += LANES) {
        const intptr_t count = min_of(LANES, end - q);
        const parts_range at = {(q - 1) * PART_ROWS, PART_ROWS, WINDOW_ROWS, count}, separators = {q, 1, 1, count};
        mask bad = lane_equal(lane_set(0), lane_set(1));
        parts_load_matrix(&w, x, at);
        elem dl = w.dl[1], du = w.du[WINDOW_ROWS - 1];
        ROLLED(intptr_t t = 2; t <= PART_ROWS; t++) {
            const intptr_t s = WINDOW_ROWS - t;
            bad |= elem_is_useless(w.d[t - 1]) | elem_is_useless(w.d[s + 1]);
            w.dl[t] = elem_div(w.dl[t], w.d[t - 1]);
            w.d[t] = elem_fnma(w.dl[t], w.du[t - 1], w.d[t]);
            dl = elem_fnma(w.dl[t], dl, elem_set(0));
            w.du[s] = elem_div(w.du[s], w.d[s + 1]);
            w.d[s] = elem_fnma(w.du[s], w.dl[s + 1], w.d[s]);
            du = elem_fnma(w.du[s], du, elem_set(0));
        }
        KERNEL(parts_store)(&to->dl, to->n, &dl, separators);
        KERNEL(parts_store)(&to->d, to->n, &w.d[PART_ROWS], separators);
        KERNEL(parts_store)(&to->du, to->n, &du, separators);
        if (lane_any(bad)) row = (int32_t)min_of(row, KERNEL(parts_first_useless)(x, w.d, at));
        for (intptr_t k = 0; k < x->k; k++) {
            const smm_operand from = elem_columns(x->b, k), rhs = elem_columns(to->b, k);
            KERNEL(parts_load)(b, &from, 0, x->n, 0, at);
            ROLLED(intptr_t t = 2; t <= PART_ROWS; t++) {
                const intptr_t s = WINDOW_ROWS - t;
                b[t] = elem_fnma(w.dl[t], b[t - 1], b[t]);
                b[s] = elem_fnma(w.du[s], b[s + 1], b[s]);
            }
            KERNEL(parts_store)(&rhs, to->n, &b[PART_ROWS], separators);
        }
    }
    return row;
}

static int32_t KERNEL(parts_substitute)(const smm_level *x, const smm_level *from, intptr_t begin, intptr_t end) {
    parts_rows w;
    elem b[PART_ROWS + 1];
    int32_t row = SMM_NO_ROW;
    for (intptr_t q = begin; q < end; q += LANES) {
        const intptr_t count = min_of(LANES, end - q);
        const parts_range at = {q * PART_ROWS - !from->n, PART_ROWS, PART_ROWS, count}, left = {q, 1, 1, count};
        const parts_range right = {q + 1, 1, 1, count};
        parts_load_matrix(&w, x, at); /* of the last level, which has no separators, from row -1 on */
        mask bad = elem_is_useless(w.d[1]);
        ROLLED(intptr_t t = 2; t < PART_ROWS; t++) {
            w.dl[t] = elem_div(w.dl[t], w.d[t - 1]);
            w.d[t] = elem_fnma(w.dl[t], w.du[t - 1], w.d[t]);
            bad |= elem_is_useless(w.d[t]);
        }
        if (lane_any(bad)) row = (int32_t)min_of(row, KERNEL(parts_first_useless)(x, w.d, at));
        for (intptr_t k = 0; k < x->k; k++) {
            const smm_operand rhs = elem_columns(x->b, k), to = elem_columns(x->x, k);
            const smm_operand separators = elem_columns(from->x, k);
            KERNEL(parts_load)(b, &rhs, 0, x->n, 0, at);
            KERNEL(parts_load)(&b[0], &separators, 0, from->n, 0, left);
            KERNEL(parts_load)(&b[PART_ROWS], &separators, 0, from->n, 0, right);
            ROLLED(intptr_t t = 1; t < PART_ROWS; t++) b[t] = elem_fnma(w.dl[t], b[t - 1], b[t]);
            ROLLED(intptr_t t = PART_ROWS - 1; t > 0; t--) b[t] = elem_div(elem_fnma(w.du[t], b[t + 1], b[t]), w.d[t]);
            KERNEL(parts_store)(&to, x->n, b, at);
        }
    }
    return row;
}
