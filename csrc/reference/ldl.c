/* ldl.c: L D L^T of symmetric matrices with the pivoting of Bunch and Kaufman (1977), and solves by it. */
#include "reference.h"

#define ABS(x) fabs(x)
#define MUL(x, y) round_in(dtype, (x) * (y))
#define DIV(x, y) round_in(dtype, (x) / (y))
#define FMA_(x, y, z) fma_in(dtype, x, y, z)
#define FNMA_(x, y, z) fma_in(dtype, -(x), y, z)
#define SWAP(x, y) do { const double was = (x); (x) = (y); (y) = was; } while (0)

/* The lower triangle of a (row-major, n x n) becomes L and D; returns info. Row and column k + s - 1 are exchanged with
 * those of pivot[k], s the order of the block at k (Golub and Van Loan, section 4.4; LAPACK's sytf2). */
static intptr_t ldl_factor(smm_dtype dtype, double *a, intptr_t n, int32_t *pivots) {
    const double alpha = round_in(dtype, (1 + 4.1231056256176605498) / 8); /* the square root of 17 */
    intptr_t info = 0;
    for (intptr_t k = 0, step; k < n; k += step) {
        intptr_t far = k, p = k;
        double most = 0;
        for (intptr_t i = k + 1; i < n; i++)
            if (ABS(a[i * n + k]) > most) most = ABS(a[i * n + k]), far = i;
        const double own = ABS(a[k * n + k]), bound = MUL(alpha, most);
        step = 1;
        if (!(own > 0 || most > 0) || own != own) {
            if (!info) info = k + 1;
        } else if (!(own >= bound)) {
            double row = 0;
            for (intptr_t j = k; j < far; j++) row = ABS(a[far * n + j]) > row ? ABS(a[far * n + j]) : row;
            for (intptr_t i = far + 1; i < n; i++) row = ABS(a[i * n + far]) > row ? ABS(a[i * n + far]) : row;
            if (!(own >= MUL(bound, DIV(most, row)))) {
                p = far;
                if (!(ABS(a[far * n + far]) >= MUL(alpha, row))) step = 2;
            }
        }
        const intptr_t last = k + step - 1;
        if (p != last) {
            for (intptr_t i = p + 1; i < n; i++) SWAP(a[i * n + last], a[i * n + p]);
            for (intptr_t j = last + 1; j < p; j++) SWAP(a[j * n + last], a[p * n + j]);
            SWAP(a[last * n + last], a[p * n + p]);
            if (step == 2) SWAP(a[last * n + k], a[p * n + k]);
        }
        if (step == 1) {
            pivots[k] = (int32_t)(p + 1);
            if (info == k + 1) continue;
            const double d = a[k * n + k];
            for (intptr_t j = k + 1; j < n; j++) {
                const double l = DIV(a[j * n + k], d); /* rows above are already those of L */
                for (intptr_t i = j; i < n; i++) a[i * n + j] = FNMA_(a[i * n + k], l, a[i * n + j]);
                a[j * n + k] = l;
            }
        } else {
            pivots[k] = pivots[k + 1] = -(int32_t)(p + 1);
            const double e = a[(k + 1) * n + k], d1 = DIV(a[(k + 1) * n + k + 1], e), d0 = DIV(a[k * n + k], e);
            const double scale = DIV(DIV(1, FMA_(d1, d0, -1)), e);
            for (intptr_t j = k + 2; j < n; j++) {
                const double x = a[j * n + k], y = a[j * n + k + 1];
                const double l0 = MUL(scale, FMA_(d1, x, -y)), l1 = MUL(scale, FMA_(d0, y, -x));
                for (intptr_t i = j; i < n; i++)
                    a[i * n + j] = FNMA_(a[i * n + k + 1], l1, FNMA_(a[i * n + k], l0, a[i * n + j]));
                a[j * n + k] = l0;
                a[j * n + k + 1] = l1;
            }
        }
    }
    return info;
}

/* x becomes the solution by the factors of which a holds the lower triangle (LAPACK's sytrs). */
static void ldl_solve(smm_dtype dtype, const double *a, const int32_t *pivots, intptr_t n, double *x) {
    for (intptr_t k = 0, step; k < n; k += step) {
        step = pivots[k] > 0 ? 1 : 2;
        const intptr_t p = (pivots[k] > 0 ? pivots[k] : -pivots[k]) - 1;
        SWAP(x[k + step - 1], x[p]);
        for (intptr_t i = k + step; i < n; i++)
            for (intptr_t s = 0; s < step; s++) x[i] = FNMA_(a[i * n + k + s], x[k + s], x[i]);
        if (step == 1) {
            x[k] = DIV(x[k], a[k * n + k]);
        } else {
            const double e = a[(k + 1) * n + k], d0 = DIV(a[k * n + k], e), d1 = DIV(a[(k + 1) * n + k + 1], e);
            const double det = FMA_(d0, d1, -1), y0 = DIV(x[k], e), y1 = DIV(x[k + 1], e);
            x[k] = DIV(FMA_(d1, y0, -y1), det);
            x[k + 1] = DIV(FMA_(d0, y1, -y0), det);
        }
    }
    for (intptr_t end = n, step; end > 0; end -= step) {
        step = pivots[end - 1] > 0 ? 1 : 2;
        const intptr_t k = end - step, p = (pivots[k] > 0 ? pivots[k] : -pivots[k]) - 1;
        for (intptr_t s = 0; s < step; s++)
            for (intptr_t i = end; i < n; i++) x[k + s] = FNMA_(a[i * n + k + s], x[i], x[k + s]);
        SWAP(x[end - 1], x[p]);
    }
}

/* Which row or column k of the lower triangle is A's: the upper triangle is the lower one with the order of both turned
 * round, and a pivot is counted from the other end. */
static intptr_t ldl_turned(const smm_call *call, intptr_t k) { return call->form & SMM_UPPER ? call->n - 1 - k : k; }

static int32_t ldl_pivot(const smm_call *call, int32_t p) {
    return !(call->form & SMM_UPPER) ? p : p > 0 ? (int32_t)call->n + 1 - p : -((int32_t)call->n + 1 + p);
}

/* 0, or the first pivot, from 1 in A's order, that is none. */
static intptr_t ldl_wrong_pivot(const smm_call *call, const int32_t *pivots) {
    const intptr_t n = call->n;
    for (intptr_t k = 0, step; k < n; k += step) {
        step = pivots[k] > 0 ? 1 : 2;
        const intptr_t p = pivots[k] > 0 ? pivots[k] : -(intptr_t)pivots[k];
        if (p < k + step || p > n || k + step > n || pivots[k + step - 1] != pivots[k])
            return ldl_turned(call, k) + 1;
    }
    return 0;
}

#define TURN(k) ldl_turned(call, k)
#define GET(x, q, i, j) get(x, call->dtype, q, i, j)
#define PUT(x, q, i, j, value) put(x, call->dtype, q, i, j, value)
#define PUT_INT(x, q, i, value) put_int(x, q, i, value)
#define LDL_FACTOR(a, n, pivots) ldl_factor(call->dtype, a, n, pivots)
#define LDL_SOLVE(a, pivots, n, x) ldl_solve(call->dtype, a, pivots, n, x)

static void factor_all(const smm_call *call) {
    const intptr_t n = call->n;
    for (intptr_t q = 0; q < call->batch; q++) {
        double a[SMM_MOST_ORDER * SMM_MOST_ORDER];
        int32_t pivots[SMM_MOST_ORDER];
        for (intptr_t i = 0; i < n; i++)
            for (intptr_t j = 0; j <= i; j++) a[i * n + j] = GET(&call->ldl.a, q, TURN(i), TURN(j));
        const intptr_t info = LDL_FACTOR(a, n, pivots);
        for (intptr_t i = 0; i < n; i++) {
            for (intptr_t j = 0; j < n; j++)
                PUT(&call->ldl.ld, q, TURN(i), TURN(j), info ? NAN : j <= i ? a[i * n + j] : 0);
            PUT_INT(&call->ldl.pivots, q, TURN(i), ldl_pivot(call, pivots[i]));
        }
        PUT_INT(&call->ldl.info, q, 0, info ? ldl_turned(call, info - 1) + 1 : 0);
    }
}

static void solve_all(const smm_call *call) {
    const intptr_t n = call->n;
    for (intptr_t q = 0; q < call->batch; q++) {
        double a[SMM_MOST_ORDER * SMM_MOST_ORDER], x[SMM_MOST_ORDER];
        int32_t pivots[SMM_MOST_ORDER];
        for (intptr_t i = 0; i < n; i++) {
            for (intptr_t j = 0; j <= i; j++) a[i * n + j] = GET(&call->ldl_solve.a, q, TURN(i), TURN(j));
            const smm_operand *p = &call->ldl_solve.pivots;
            const char *at = (const char *)p->data + q * p->batch + TURN(i) * p->row;
            pivots[i] = ldl_pivot(call, *(const int32_t *)at);
        }
        const intptr_t wrong = ldl_wrong_pivot(call, pivots);
        for (intptr_t k = 0; k < call->k; k++) {
            for (intptr_t i = 0; i < n; i++) x[i] = GET(&call->ldl_solve.b, q, TURN(i), k);
            if (!wrong) LDL_SOLVE(a, pivots, n, x);
            for (intptr_t i = 0; i < n; i++) PUT(&call->ldl_solve.x, q, TURN(i), k, wrong ? NAN : x[i]);
        }
        PUT_INT(&call->ldl_solve.info, q, 0, -wrong);
    }
}

void smm_reference_ldl(const smm_call *call) { (call->op == SMM_OP_LDL ? factor_all : solve_all)(call); }
