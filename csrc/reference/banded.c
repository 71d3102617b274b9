/* banded.c: solves with matrices of few diagonals, of any order: LAPACK's gttrf, gbtf2, pbtf2 (Golub and Van Loan,
 * Matrix Computations, section 4.3), and what solves by them. */
#include <stdlib.h>

#include "reference.h"

/* All right-hand sides at once: x_i is row i of n x k numbers. x_i = x_i - l x_j */
static void subtract_row(smm_dtype t, number *x_i, number l, const number *x_j, intptr_t k) {
    for (intptr_t c = 0; c < k; c++) x_i[c] = subtract_product(t, l, x_j[c], x_i[c]);
}
static void swap_rows(number *x_i, number *x_j, intptr_t k) {
    for (intptr_t c = 0; c < k && x_i != x_j; c++) swap(&x_i[c], &x_j[c]);
}
static void scale_row(smm_dtype t, number *x_i, double s, intptr_t k) {
    for (intptr_t c = 0; c < k; c++) x_i[c] = scaled(t, x_i[c], s);
}

/* w: dl, d, du, du2 of n each, x. Returns info. */
static intptr_t tridiagonal(const smm_call *call, intptr_t q, number *w, number *x) {
    const smm_dtype t = call->dtype;
    const intptr_t n = call->n, k = call->k;
    const smm_solve_tridiagonal_operands *o = &call->solve_tridiagonal;
    const bool pivoted = !(call->form & SMM_UNPIVOTED);
    number *dl = w, *d = w + n, *du = w + 2 * n, *du2 = w + 3 * n;
    intptr_t info = 0;
    for (intptr_t i = 0; i < n; i++) {
        d[i] = get_number(&o->d, t, q, i, 0);
        if (i + 1 < n) dl[i] = get_number(&o->dl, t, q, i, 0), du[i] = get_number(&o->du, t, q, i, 0);
    }
    for (intptr_t i = 0; i + 1 < n; i++) {
        const bool swaps = pivoted && size_of(t, dl[i]) > size_of(t, d[i]);
        if (swaps) {
            swap(&d[i], &dl[i]);
            swap(&du[i], &d[i + 1]);
            swap_rows(x + i * k, x + (i + 1) * k, k);
            du2[i] = i + 2 < n ? du[i + 1] : zero;
        }
        if (is_useless(d[i]) && !info) info = i + 1;
        const number l = over(t, dl[i], d[i]);
        d[i + 1] = subtract_product(t, l, du[i], d[i + 1]);
        if (swaps && i + 2 < n) du[i + 1] = subtract_product(t, l, du2[i], zero);
        subtract_row(t, x + (i + 1) * k, l, x + i * k, k);
    }
    if (is_useless(d[n - 1]) && !info) info = n;
    for (intptr_t i = n - 1; i >= 0; i--) {
        if (i + 1 < n) subtract_row(t, x + i * k, du[i], x + (i + 1) * k, k);
        if (i + 2 < n && pivoted) subtract_row(t, x + i * k, du2[i], x + (i + 2) * k, k);
        for (intptr_t c = 0; c < k; c++) x[i * k + c] = over(t, x[i * k + c], d[i]);
    }
    return info;
}

/* Element (i, j) of a matrix of `lower` diagonals below the main one and `all` on either side of it at most. */
static number *element(number *w, intptr_t n, intptr_t all, intptr_t i, intptr_t j) {
    return w + (all + i - j) * n + j;
}

static intptr_t banded(const smm_call *call, intptr_t q, number *w, number *x) {
    const smm_dtype t = call->dtype;
    const intptr_t n = call->n, m = call->m, k = call->k, all = m - 1;
    const smm_solve_banded_operands *o = &call->solve_banded;
    const intptr_t lower = smm_lower_of(call, q);
    intptr_t info = 0;
    if (lower < 0) return -1;
    for (intptr_t r = 0; r < m; r++)
        for (intptr_t j = 0; j < n; j++) w[(lower + r) * n + j] = get_number(&o->ab, t, q, r, j);
    for (intptr_t j = 0; j < n; j++) {
        const intptr_t bottom = min_of(j + lower, n - 1), right = min_of(j + all, n - 1);
        intptr_t p = j;
        for (intptr_t i = j + 1; i <= bottom; i++)
            if (size_of(t, *element(w, n, all, i, j)) > size_of(t, *element(w, n, all, p, j))) p = i;
        for (intptr_t c = j; c <= right && p > j; c++) swap(element(w, n, all, j, c), element(w, n, all, p, c));
        swap_rows(x + j * k, x + p * k, k);
        const number pivot = *element(w, n, all, j, j);
        if (is_useless(pivot) && !info) info = j + 1;
        for (intptr_t i = j + 1; i <= bottom; i++) {
            const number l = quotient_of(t, *element(w, n, all, i, j), pivot);
            for (intptr_t c = j + 1; c <= right; c++) {
                number *a = element(w, n, all, i, c);
                *a = subtract_product(t, l, *element(w, n, all, j, c), *a);
            }
            subtract_row(t, x + i * k, l, x + j * k, k);
        }
    }
    for (intptr_t j = n - 1; j >= 0; j--) {
        for (intptr_t c = 0; c < k; c++) x[j * k + c] = quotient_of(t, x[j * k + c], *element(w, n, all, j, j));
        for (intptr_t i = j - 1; i >= 0 && i >= j - all; i--)
            subtract_row(t, x + i * k, *element(w, n, all, i, j), x + j * k, k);
    }
    return info;
}

/* w[(i - j) * n + j]: the lower triangle; the conjugate of the upper one. */
static intptr_t definite(const smm_call *call, intptr_t q, number *w, number *x) {
    const smm_dtype t = call->dtype;
    const intptr_t n = call->n, m = call->m, k = call->k;
    const smm_operand *ab = &call->solveh_banded.ab;
    number *r = w + m * n; /* real */
    intptr_t info = 0;
    for (intptr_t j = 0; j < n; j++)
        for (intptr_t s = 0; s < m && j + s < n; s++)
            w[s * n + j] =
                call->form & SMM_UPPER ? conjugate(get_number(ab, t, q, m - 1 - s, j + s)) : get_number(ab, t, q, s, j);
    for (intptr_t j = 0; j < n && !info; j++) {
        if (!(w[j].re > 0)) info = j + 1;
        r[j].re = round_in(t, 1 / round_in(t, sqrt(w[j].re)));
        const intptr_t below = min_of(m - 1, n - 1 - j);
        for (intptr_t i = 1; i <= below; i++) w[i * n + j] = scaled(t, w[i * n + j], r[j].re);
        for (intptr_t s = 1; s <= below; s++)
            for (intptr_t i = s; i <= below; i++) {
                number *a = &w[(i - s) * n + j + s];
                *a = subtract_product(t, w[i * n + j], conjugate(w[s * n + j]), *a);
            }
    }
    for (intptr_t j = 0; j < n; j++) {
        scale_row(t, x + j * k, r[j].re, k);
        for (intptr_t i = 1; i < m && j + i < n; i++) subtract_row(t, x + (j + i) * k, w[i * n + j], x + j * k, k);
    }
    for (intptr_t j = n - 1; j >= 0; j--) {
        for (intptr_t i = min_of(m - 1, n - 1 - j); i >= 1; i--)
            subtract_row(t, x + j * k, conjugate(w[i * n + j]), x + (j + i) * k, k);
        scale_row(t, x + j * k, r[j].re, k);
    }
    return info;
}

/* Where there is no memory every result is NaN. */
static void solve(const smm_call *call, intptr_t q) {
    const intptr_t n = call->n, k = call->k;
    const bool three = call->op == SMM_OP_SOLVE_TRIDIAGONAL, any = call->op == SMM_OP_SOLVE_BANDED;
    const smm_operand *b = three ? &call->solve_tridiagonal.b : any ? &call->solve_banded.b : &call->solveh_banded.b;
    const smm_operand *to = three ? &call->solve_tridiagonal.x : any ? &call->solve_banded.x : &call->solveh_banded.x;
    const intptr_t size = n * (three ? 4 : 2 * call->m + 4);
    number *w = calloc((size_t)(size + n * k + 1), sizeof(number)), *x = w + size;
    intptr_t info = 0;
    for (intptr_t i = 0; i < n && w; i++)
        for (intptr_t j = 0; j < k; j++) x[i * k + j] = get_number(b, call->dtype, q, i, j);
    if (n && w) info = (three ? tridiagonal : any ? banded : definite)(call, q, w, x);
    for (intptr_t i = 0; i < n; i++)
        for (intptr_t j = 0; j < k; j++) put_number(to, call->dtype, q, i, j, info || !w ? not_a_number : x[i * k + j]);
    put_int(smm_info(call), q, 0, info);
    free(w);
}

void smm_reference_banded(const smm_call *call) {
    for (intptr_t q = 0; q < call->batch; q++) solve(call, q);
}
