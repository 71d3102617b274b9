/* lu_complex.h: LU of complex matrices and what follows from it: solutions, the inverse, determinants. LANES matrices
 * side by side, right-looking, any order. Pivots are compared by |re| + |im|. The inverse is the solution of A X = I.
 * Steps of the smallest orders, which are constants, are unrolled, as in lu_solve_lanes.h. */
#include "../map/logarithms.h"

enum { FEW = 4 };

/* As elem_subtract, of two rows. */
INLINE void elem_subtract_two(elem *x, elem *z, elem f, elem g, const elem *y, intptr_t count) {
    UNROLLED_BY_2(intptr_t j = 0; j < count; j++) {
        const elem y_j = y[j];
        x[j] = elem_fnma(f, y_j, x[j]);
        z[j] = elem_fnma(g, y_j, z[j]);
    }
}

INLINE void elem_eliminate(intptr_t k, const intptr_t n, elem *a, lu_state *s) {
    vec most = elem_size(a[k * n + k]), row = lane_set((T)k);
    UNROLLED_BY_4(intptr_t i = k + 1; i < n; i++) {
        const vec size = elem_size(a[i * n + k]);
        const mask more = lane_greater(size, most);
        most = lane_select(more, size, most);
        row = lane_select(more, lane_set((T)i), row);
    }
    s->row[k] = row;
    s->odd ^= ~lane_equal(row, lane_set((T)k));
    elem_exchange_rows(k, n, a, n, s->row);
    const mask is_zero = elem_is_zero(a[k * n + k]), first = lane_equal(s->info, lane_set(0));
    s->singular |= is_zero & first;
    s->info = lane_select(elem_is_useless(a[k * n + k]) & first, lane_set((T)(k + 1)), s->info);
    s->d[k] = divisor_of(a[k * n + k]);
    s->r[k] = elem_reciprocal(&s->d[k]);
    const elem *y = a + k * n + k + 1;
    const intptr_t count = n - k - 1;
    UNROLLED_BY_4(intptr_t i = k + 1; i < n; i++) a[i * n + k] = elem_quotient(a[i * n + k], &s->d[k], s->r[k]);
    intptr_t i = k + 1;
    UNROLLED_BY_4(; i + 1 < n; i += 2)
        elem_subtract_two(a + i * n + k + 1, a + (i + 1) * n + k + 1, a[i * n + k], a[(i + 1) * n + k], y, count);
    if (i < n) elem_subtract(a + i * n + k + 1, a[i * n + k], y, count);
}

INLINE void elem_factor(elem *a, lu_state *s, const intptr_t n) {
    s->info = lane_set(0);
    s->odd = s->singular = lane_greater(s->info, s->info);
    STEPS(n, elem_eliminate, a, s);
}

/* a and x have room for a matrix and so many right-hand sides. */
INLINE void elem_lu(const smm_call *call, intptr_t first, intptr_t last, elem *a, elem *x, const intptr_t n,
                    const intptr_t most) {
    for (intptr_t q = first; q < last; q += LANES) {
        const intptr_t count = min_of(LANES, last - q);
        lu_state s;
        KERNEL(elem_load)(a, &call->a, q, n, n, count);
        elem_factor(a, &s, n);
        lanes_store_int(smm_info(call), q, s.info, count);
        if (call->op == SMM_OP_SOLVE || call->op == SMM_OP_INV) {
            const bool inverts = call->op == SMM_OP_INV;
            const smm_operand *b = inverts ? NULL : &call->solve.b, *to = inverts ? &call->inv.inverse : &call->solve.x;
            elem_solve_all(b, to, inverts ? n : call->k, most, q, a, x, &s, n, false, count);
        } else {
            vec row[SMM_MAX_ORDER];                     /* another array, so that `s` may be in registers */
            UNROLLED_BY_4(intptr_t k = 0; k < n; k++) { /* from the step that failed on, no row is exchanged */
                const vec step = lane_set((T)k);
                const mask done = lane_greater(s.info, lane_set(0)) & lane_greater(lane_set((T)(k + 2)), s.info);
                row[k] = lane_select(done, step, s.row[k]);
            }
            KERNEL(elem_store)(&call->lu.lu, q, a, n, n, count);
            KERNEL(elem_fill_nan)(&call->lu.lu, q, s.info, n, n, count);
            KERNEL(lanes_store_ints)(&call->lu.pivots, q, row, n, count);
        }
    }
}

/* Panels are faster from some order on: 16 for factors and what is solved for in the lanes. Matrix by matrix the time
 * of many right-hand sides does not depend on how many lanes are filled, as it does here (orders 5 to 24, AMD EPYC
 * family 26 model 2, AVX-512, November 2026). */
static unsigned lu_complex_needs(const smm_call *call) {
    if (!lu_is_square(call)) return SMM_UNFIT;
    const bool by_matrix = call->op == SMM_OP_INV || (call->op == SMM_OP_SOLVE && call->k > PANEL);
    const intptr_t filled = min_of(call->batch, LANES) * (intptr_t)sizeof(T);
    return (by_matrix ? filled > 3 * (call->n - 8) : call->n < 16) ? 0 : SMM_SLOWER;
}

static void KERNEL(lu_lanes)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) {
    (void)cold;
    lu_workspace *const workspace = smm_kernel_workspace();
    if (call->n > FEW) elem_lu(call, first, last, workspace->a, workspace->x, call->n, RHS_ELEMENTS / call->n);
    elem a[FEW * FEW], x[FEW * FEW];
    UNROLLED(int n = 1; n <= FEW; n++)
        if (call->n == n) elem_lu(call, first, last, a, x, n, n);
}

/* --- Determinants --- */

/* The power of two that brings a number near 1; 0 where it has none. */
INLINE int elem_exponent(one x) {
    const double size = fmax(fabs((double)x.re), fabs((double)x.im));
    int e = 0;
    if (size > 0 && size < INFINITY) frexp(size, &e);
    return e;
}
INLINE one one_scaled(one x, int e) { return (one){(T)ldexp((double)x.re, e), (T)ldexp((double)x.im, e)}; }

/* The product of a lane's diagonal of U, with exponents apart, so that it neither over- nor underflows. */
INLINE one elem_product(const elem *diagonal, intptr_t step, int l, bool odd, intptr_t n, intptr_t *exponent) {
    one p = {odd ? -1 : 1, 0};
    *exponent = 0;
    for (intptr_t k = 0; k < n; k++) {
        const T *u = (const T *)(diagonal + k * step) + l;
        const one factor = {u[0], u[LANES]};
        const int e = elem_exponent(factor);
        p = one_mul(p, one_scaled(factor, -e));
        const int f = elem_exponent(p);
        p = one_scaled(p, -f);
        *exponent += e + f;
    }
    return p;
}

/* Whether each part is zero or so near to 1 that no part of a product of two such numbers is subnormal or overflows,
 * even where their larger parts become 1. */
INLINE mask elem_mild(elem x) {
    const T bound = sizeof(T) == 8 ? (T)0x1p240 : (T)0x1p25;
    const vec low = lane_set(1 / bound), high = lane_set(bound);
    const vec re = lane_abs(x.re), im = lane_abs(x.im), zero = lane_set(0);
    return (lane_greater(re, low) | lane_equal(re, zero)) & lane_greater(high, re) &
           (lane_greater(im, low) | lane_equal(im, zero)) & lane_greater(high, im);
}
INLINE void elem_multiply(intptr_t k, const intptr_t n, const elem *u, intptr_t step, elem *p, mask *mild) {
    (void)n;
    *p = elem_mul(*p, u[k * step]);
    *mild &= elem_mild(u[k * step]) & elem_mild(*p);
}

/* Determinants of matrices q .. q+count-1 from diagonals of U, whose elements are `step` apart. */
INLINE void lu_determinants(const smm_call *call, intptr_t q, intptr_t count, const elem *u, intptr_t step,
                            const intptr_t n, mask odd, mask singular) {
    const smm_operand *const to = call->op == SMM_OP_DET ? &call->det.det : &call->slogdet.sign;
    /* the bits of elem_product where all is mild, as powers of two change none */
    elem product = {lane_select(odd, lane_set(-1), lane_set(1)), lane_set(0)};
    mask mild = ~singular;
    STEPS(n, elem_multiply, u, step, &product, &mild);
    T parts[2 * LANES];
    T sizes[LANES] = {0};
    double exponents[LANES] = {0};
    lane_store(parts, product.re);
    lane_store(parts + LANES, product.im);
    for (int l = 0; l < count; l++) {
        intptr_t exponent = 0;
        const bool is_singular = lane_bits(singular) >> l & 1;
        one p = {parts[l], parts[LANES + l]};
        if (!(lane_bits(mild) >> l & 1)) {
            p = elem_product(u, step, l, lane_bits(odd) >> l & 1, n, &exponent);
        } else if (call->op == SMM_OP_SLOGDET) {
            exponent = elem_exponent(p);
            p = one_scaled(p, -(int)exponent);
        }
        T *const det = (T *)((char *)to->data + (q + l) * to->batch);
        if (call->op == SMM_OP_DET) {
            if (exponent) p = one_scaled(p, (int)exponent);
        } else {
            const T size = SQRT(scalar_fma(p.im, p.im, p.re * p.re));
            sizes[l] = is_singular ? 0 : size;
            exponents[l] = is_singular ? 0 : (double)exponent;
            p = (one){p.re / size, p.im / size};
        }
        det[0] = is_singular ? 0 : p.re;
        det[1] = is_singular ? 0 : p.im;
    }
    if (call->op == SMM_OP_SLOGDET) KERNEL(lanes_store_log)(&call->slogdet.logabsdet, q, sizes, exponents, count);
}

INLINE void elem_det(const smm_call *call, intptr_t first, intptr_t last, elem *a, const intptr_t n) {
    for (intptr_t q = first; q < last; q += LANES) {
        const intptr_t count = min_of(LANES, last - q);
        lu_state s;
        KERNEL(elem_load)(a, &call->a, q, n, n, count);
        elem_factor(a, &s, n);
        lanes_store_int(smm_info(call), q, s.info, count);
        lu_determinants(call, q, count, a, n + 1, n, s.odd, s.singular);
    }
}

static void KERNEL(det_lanes)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) {
    (void)cold;
    lu_workspace *const workspace = smm_kernel_workspace();
    if (call->n > FEW) elem_det(call, first, last, workspace->a, call->n);
    elem a[FEW * FEW];
    UNROLLED(int n = 1; n <= FEW; n++)
        if (call->n == n) elem_det(call, first, last, a, n);
}
