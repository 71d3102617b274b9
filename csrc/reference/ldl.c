/* ldl.c: L D L^T of symmetric matrices and L D L^H of Hermitian ones with the pivoting of Bunch and Kaufman (1977), and
 * solves by them. */
#include "../math/ldl_pivots.h"
#include "reference.h"

/* x y - z */
static number less(smm_dtype t, number x, number y, number z) { return add_product(t, x, y, negated(z)); }

/* A triangle of a matrix: the lower one, and what the other holds. */
typedef struct triangle {
    smm_dtype dtype;
    intptr_t n;
    bool hermitian;
    numbers a;
    int32_t pivots[SMM_MAX_ORDER];
} triangle;

static number mirrored(const triangle *x, number element) { return x->hermitian ? conjugate(element) : element; }
static number element(const triangle *x, intptr_t i, intptr_t j) {
    return i >= j ? x->a[i][j] : mirrored(x, x->a[j][i]);
}
static void set_element(triangle *x, intptr_t i, intptr_t j, number value) {
    if (i >= j)
        x->a[i][j] = value;
    else
        x->a[j][i] = mirrored(x, value);
}
static void set_diagonal(triangle *x, intptr_t i, number value) {
    x->a[i][i] = x->hermitian ? (number){value.re, 0} : value;
}

/* The largest magnitude in column r of the matrix that is left at step k, without the diagonal, and its row. */
static double largest(const triangle *x, intptr_t k, intptr_t r, intptr_t *row) {
    double most = 0;
    for (intptr_t i = k; i < x->n; i++) {
        const double size = size_of(x->dtype, element(x, i, r));
        if (i != r && size > most) most = size, *row = i;
    }
    return most;
}

/* Rows and columns i and j of what is left at step k. */
static void exchange(triangle *x, intptr_t k, intptr_t i, intptr_t j) {
    const number crossing = element(x, i, j), of_i = x->a[i][i];
    for (intptr_t l = k; l < x->n; l++) {
        const number was = element(x, l, i);
        if (l == i || l == j) continue;
        set_element(x, l, i, element(x, l, j));
        set_element(x, l, j, was);
    }
    set_element(x, j, i, crossing);
    x->a[i][i] = x->a[j][j];
    x->a[j][j] = of_i;
}

/* Of a block of order 2 in step k: the element below its diagonal and that right of it, the elements of its diagonal
 * divided by the one in their column, and its determinant divided by the two elements beside it, negated. */
typedef struct block {
    number below, right, d0, d1, determinant;
} block;
static block block_of(const triangle *x, intptr_t k) {
    const smm_dtype t = x->dtype;
    block b = {.below = x->a[k + 1][k], .right = element(x, k, k + 1)};
    b.d0 = over(t, x->a[k][k], b.right);
    b.d1 = over(t, x->a[k + 1][k + 1], b.below);
    b.determinant = less(t, b.d1, b.d0, one);
    return b;
}

/* The lower triangle becomes L and D; returns info. Step k exchanges the last row of its block with that of pivots[k],
 * from 1 (Golub and Van Loan, Matrix Computations, section 4.4; LAPACK's sytf2, hetf2). */
static intptr_t factor(triangle *x) {
    const smm_dtype t = x->dtype;
    const intptr_t n = x->n;
    const double alpha = round_in(t, (1 + 4.1231056256176605498) / 8); /* the square root of 17 */
    intptr_t info = 0;
    for (intptr_t k = 0, order; k < n; k += order) {
        number(*const a)[SMM_MAX_ORDER] = x->a, l[2][SMM_MAX_ORDER];
        intptr_t r = k, p = k, other;
        const double own = size_of(t, a[k][k]), most = largest(x, k, k, &r), bound = round_in(t, alpha * most);
        order = 1;
        if (!isnan(own) && !(own >= bound)) {
            const double of_r = largest(x, k, r, &other);
            if (!(own >= round_in(t, bound * round_in(t, most / of_r)))) {
                p = r;
                order = size_of(t, a[r][r]) >= round_in(t, alpha * of_r) ? 1 : 2;
            }
        }
        const bool none = isnan(own) || is_useless((number){order == 2 ? most : size_of(t, a[p][p]), 0});
        if (none) p = k, order = 1;
        const intptr_t last = k + order - 1;
        if (p != last) exchange(x, k, last, p);
        x->pivots[k] = x->pivots[last] = (int32_t)(order == 1 ? p + 1 : -(p + 1));
        if (none) {
            info = info ? info : k + 1;
            continue;
        }
        if (order == 1) {
            for (intptr_t i = k + 1; i < n; i++) l[0][i] = over(t, a[i][k], a[k][k]);
        } else { /* the inverse of the block, scaled by the elements beside its diagonal */
            const block b = block_of(x, k);
            const number inverse = over(t, one, b.determinant);
            for (intptr_t i = k + 2; i < n; i++) {
                l[0][i] = product(t, over(t, inverse, b.right), less(t, b.d1, a[i][k], a[i][k + 1]));
                l[1][i] = product(t, over(t, inverse, b.below), less(t, b.d0, a[i][k + 1], a[i][k]));
            }
        }
        for (intptr_t i = last + 1; i < n; i++) {
            for (intptr_t j = last + 1; j <= i; j++)
                for (intptr_t s = 0; s < order; s++)
                    a[i][j] = subtract_product(t, a[i][k + s], mirrored(x, l[s][j]), a[i][j]);
            set_diagonal(x, i, a[i][i]);
        }
        for (intptr_t i = last + 1; i < n; i++)
            for (intptr_t s = 0; s < order; s++) a[i][k + s] = l[s][i];
    }
    return info;
}

/* b becomes the solution (LAPACK's sytrs, hetrs). */
static void solve(const triangle *x, number *b) {
    const smm_dtype t = x->dtype;
    const intptr_t n = x->n;
    for (intptr_t k = 0, order; k < n; k += order) {
        order = smm_ldl_order(x->pivots[k]);
        swap(&b[k + order - 1], &b[smm_ldl_row(x->pivots[k])]);
        for (intptr_t i = k + order; i < n; i++)
            for (intptr_t s = 0; s < order; s++) b[i] = subtract_product(t, x->a[i][k + s], b[k + s], b[i]);
        if (order == 1) {
            b[k] = over(t, b[k], x->a[k][k]);
        } else {
            const block d = block_of(x, k);
            const number y0 = over(t, b[k], d.right), y1 = over(t, b[k + 1], d.below);
            b[k] = over(t, less(t, d.d1, y0, y1), d.determinant);
            b[k + 1] = over(t, less(t, d.d0, y1, y0), d.determinant);
        }
    }
    for (intptr_t i = 0; i < n; i++) b[i] = mirrored(x, b[i]); /* L^T of the conjugate, for L^H */
    for (intptr_t end = n, order; end > 0; end -= order) {
        order = smm_ldl_order(x->pivots[end - 1]);
        for (intptr_t j = end - order; j < end; j++)
            for (intptr_t i = end; i < n; i++) b[j] = subtract_product(t, x->a[i][j], b[i], b[j]);
        swap(&b[end - 1], &b[smm_ldl_row(x->pivots[end - 1])]);
    }
    for (intptr_t i = 0; i < n; i++) b[i] = mirrored(x, b[i]);
}

static void get_lower(const smm_call *call, intptr_t q, triangle *x) {
    x->dtype = call->dtype;
    x->n = call->n;
    x->hermitian = smm_is_complex(call->dtype) && !(call->form & SMM_SYMMETRIC);
    for (intptr_t i = 0; i < x->n; i++) {
        for (intptr_t j = 0; j <= i; j++)
            x->a[i][j] = get_number(&call->a, x->dtype, q, smm_ldl_reversed(call, i), smm_ldl_reversed(call, j));
        set_diagonal(x, i, x->a[i][i]);
    }
}

static void factor_one(const smm_call *call, intptr_t q, triangle *x) {
    const intptr_t info = factor(x);
    for (intptr_t i = 0; i < x->n; i++) {
        for (intptr_t j = 0; j < x->n; j++)
            put_number(&call->ldl.ld, x->dtype, q, smm_ldl_reversed(call, i), smm_ldl_reversed(call, j),
                       info     ? not_a_number
                       : j <= i ? x->a[i][j]
                                : zero);
        put_int(&call->ldl.pivots, q, smm_ldl_reversed(call, i), smm_ldl_pivot(call, x->pivots[i]));
    }
    put_int(&call->ldl.info, q, 0, info ? smm_ldl_reversed(call, info - 1) + 1 : 0);
}

/* X; NaN if there is none. */
static void solve_all(const smm_call *call, const smm_operand *b, const smm_operand *to, intptr_t q, const triangle *x,
                      bool none) {
    for (intptr_t k = 0; k < call->k; k++) {
        number y[SMM_MAX_ORDER];
        for (intptr_t i = 0; i < x->n; i++) y[i] = get_number(b, x->dtype, q, smm_ldl_reversed(call, i), k);
        if (!none) solve(x, y);
        for (intptr_t i = 0; i < x->n; i++)
            put_number(to, x->dtype, q, smm_ldl_reversed(call, i), k, none ? not_a_number : y[i]);
    }
}

static void solve_one(const smm_call *call, intptr_t q, triangle *x) {
    const smm_operand *from = &call->ldl_solve.pivots;
    for (intptr_t i = 0; i < x->n; i++)
        x->pivots[i] = smm_ldl_pivot(call, *(const int32_t *)((const char *)from->data + q * from->batch +
                                                              smm_ldl_reversed(call, i) * from->row));
    const intptr_t wrong = smm_ldl_wrong_pivot(call, x->pivots);
    solve_all(call, &call->ldl_solve.b, &call->ldl_solve.x, q, x, wrong);
    put_int(&call->ldl_solve.info, q, 0, -wrong);
}

static void factor_and_solve_one(const smm_call *call, intptr_t q, triangle *x) {
    const intptr_t info = factor(x);
    solve_all(call, &call->solve_sym.b, &call->solve_sym.x, q, x, info);
    put_int(&call->solve_sym.info, q, 0, info ? smm_ldl_reversed(call, info - 1) + 1 : 0);
}

void smm_reference_ldl(const smm_call *call) {
    for (intptr_t q = 0; q < call->batch; q++) {
        triangle x;
        get_lower(call, q, &x);
        (call->op == SMM_OP_LDL         ? factor_one
         : call->op == SMM_OP_SOLVE_SYM ? factor_and_solve_one
                                        : solve_one)(call, q, &x);
    }
}
