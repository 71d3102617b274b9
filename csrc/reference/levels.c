/* levels.c: a level of a long tridiagonal system in parts (../parts.c), part by part. */
#include "reference.h"

enum { PART = SMM_PART, WINDOW = 2 * PART };

/* Element i of a line that has those from low to high - 1; others are `beyond`. */
static number at(const smm_level *x, const smm_operand *line, intptr_t i, intptr_t low, intptr_t high, double beyond) {
    return i >= low && i < high ? get_number(line, x->dtype, 0, i, 0) : (number){beyond, 0};
}

static smm_operand column(smm_operand x, intptr_t k) {
    x.data = (char *)x.data + k * x.col;
    return x;
}

/* Rows of the matrix from `first` on. */
typedef struct rows {
    intptr_t first, first_useless;
    number dl[WINDOW], d[WINDOW], du[WINDOW];
} rows;

static rows rows_of(const smm_level *x, intptr_t first, intptr_t count) {
    rows w = {.first = first, .first_useless = SMM_NO_ROW};
    for (intptr_t t = 0; t < count; t++) {
        w.dl[t] = at(x, &x->dl, first + t, 1, x->n, 0);
        w.d[t] = at(x, &x->d, first + t, 0, x->n, 1);
        w.du[t] = at(x, &x->du, first + t, 0, x->n - 1, 0);
    }
    return w;
}

/* Eliminate row t from the one below it, whose multiplier takes the place of dl. */
static void go_down(const smm_level *x, rows *w, intptr_t t) {
    if (is_useless(w->d[t])) w->first_useless = min_of(w->first_useless, 1 + (w->first + t) * x->apart);
    w->dl[t + 1] = over(x->dtype, w->dl[t + 1], w->d[t]);
    w->d[t + 1] = subtract_product(x->dtype, w->dl[t + 1], w->du[t], w->d[t + 1]);
}
static void go_up(const smm_level *x, rows *w, intptr_t t) {
    if (is_useless(w->d[t])) w->first_useless = min_of(w->first_useless, 1 + (w->first + t) * x->apart);
    w->du[t - 1] = over(x->dtype, w->du[t - 1], w->d[t]);
    w->d[t - 1] = subtract_product(x->dtype, w->du[t - 1], w->dl[t], w->d[t - 1]);
}

static int32_t reduce(const smm_level *x, const smm_level *to, intptr_t first, intptr_t last) {
    const smm_dtype type = x->dtype;
    intptr_t row = SMM_NO_ROW;
    for (intptr_t q = first; q < last; q++) {
        rows w = rows_of(x, (q - 1) * PART, WINDOW);
        number dl = w.dl[1], du = w.du[WINDOW - 1];
        for (intptr_t t = 1; t < PART; t++) {
            go_down(x, &w, t);
            dl = subtract_product(type, w.dl[t + 1], dl, zero);
        }
        for (intptr_t t = WINDOW - 1; t > PART; t--) {
            go_up(x, &w, t);
            du = subtract_product(type, w.du[t - 1], du, zero);
        }
        put_number(&to->dl, type, 0, q, 0, dl);
        put_number(&to->d, type, 0, q, 0, w.d[PART]);
        put_number(&to->du, type, 0, q, 0, du);
        row = min_of(row, w.first_useless);
        for (intptr_t k = 0; k < x->k; k++) {
            const smm_operand from = column(x->b, k);
            number b[WINDOW];
            for (intptr_t t = 0; t < WINDOW; t++) b[t] = at(x, &from, w.first + t, 0, x->n, 0);
            for (intptr_t t = 1; t < PART; t++) b[t + 1] = subtract_product(type, w.dl[t + 1], b[t], b[t + 1]);
            for (intptr_t t = WINDOW - 1; t > PART; t--) b[t - 1] = subtract_product(type, w.du[t - 1], b[t], b[t - 1]);
            put_number(&to->b, type, 0, q, k, b[PART]);
        }
    }
    return (int32_t)row;
}

/* The last level has no separators: all its rows are one part's, behind one that is zero. */
static int32_t substitute(const smm_level *x, const smm_level *separators, intptr_t first, intptr_t last) {
    const smm_dtype type = x->dtype;
    intptr_t row = SMM_NO_ROW;
    for (intptr_t q = first; q < last; q++) {
        rows w = rows_of(x, separators->n ? q * PART : -1, PART);
        for (intptr_t t = 1; t < PART - 1; t++) go_down(x, &w, t);
        if (is_useless(w.d[PART - 1])) w.first_useless = min_of(w.first_useless, 1 + (w.first + PART - 1) * x->apart);
        row = min_of(row, w.first_useless);
        for (intptr_t k = 0; k < x->k; k++) {
            const smm_operand from = column(x->b, k), known = column(separators->x, k);
            number b[PART + 1];
            for (intptr_t t = 1; t < PART; t++) b[t] = at(x, &from, w.first + t, 0, x->n, 0);
            b[0] = at(x, &known, q, 0, separators->n, 0);
            b[PART] = at(x, &known, q + 1, 0, separators->n, 0);
            for (intptr_t t = 1; t < PART; t++) b[t] = subtract_product(type, w.dl[t], b[t - 1], b[t]);
            for (intptr_t t = PART - 1; t > 0; t--)
                b[t] = over(type, subtract_product(type, w.du[t], b[t + 1], b[t]), w.d[t]);
            for (intptr_t t = 0; t < PART; t++)
                if (w.first + t >= 0 && w.first + t < x->n) put_number(&x->x, type, 0, w.first + t, k, b[t]);
        }
    }
    return (int32_t)row;
}

const smm_parts_kernels smm_reference_parts = {"reference", reduce, substitute};
