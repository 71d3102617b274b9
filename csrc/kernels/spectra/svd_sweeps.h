/* svd_sweeps.h: what singular values of real and complex matrices share: which operand is what, and of Jacobi's method
 * (svd_lanes.h) the order of a sweep's rotations, and the angle of each. */

enum {
    SVD_SWEEPS = 30, /* then a matrix is given up */
    SVD_GROUPS = 2,
    SVD_FEW = 4 /* orders up to it may be unrolled */
};

/* Rows of at most this squared length are not rotated: products with them would lose digits. They are negligible beside
 * the largest element, which is about 1. */
#if defined(SMM_KERNELS_F64)
#define SVD_FLOOR 0x1p-1000
#else
#define SVD_FLOOR 0x1p-120f
#endif

/* What a call's operands are to the tall matrix: A = (large) diag(s) (small)^T. Of complex matrices, too:
 * `small` has the conjugates of what a Hermitian transpose has. */
typedef struct svd_operands {
    smm_operand a, large, small, s, info;
    intptr_t m, n, k; /* A is m x n; the columns of `large` */
} svd_operands;

/* Of which calls the kernels of either method are. */
static unsigned svd_jacobi_needs(const smm_call *call) {
    return min_of(call->m, call->n) <= SMM_JACOBI_MAX ? 0 : SMM_UNFIT;
}
static unsigned svd_bidiagonal_needs(const smm_call *call) { return svd_jacobi_needs(call) ? 0 : SMM_UNFIT; }

/* Of SVD and SVD_FULL, or of SVDVALS, which has no vectors. */
INLINE svd_operands svd_operands_of(const smm_call *call, const bool vectors) {
    const bool wide = call->m < call->n, full = call->op == SMM_OP_SVD_FULL;
    const smm_operand across = smm_transposed(call->a);
    svd_operands o = {.a = wide ? across : call->a, .m = call->m, .n = call->n};
    if (wide) o.m = call->n, o.n = call->m;
    o.k = full ? o.m : o.n;
    o.s = vectors ? call->svd.s : call->svdvals.s;
    o.info = vectors ? call->svd.info : call->svdvals.info;
    if (!vectors) return o;
    const smm_operand u = call->svd.u, v = smm_transposed(call->svd.vt);
    o.large = wide ? v : u;
    o.small = wide ? u : v;
    return o;
}

/* Vector number place_l of `to` gets lane l of x. */
INLINE void svd_scatter(vec *to, const int32_t *place, vec x) {
    T lane[LANES];
    lane_store(lane, x);
    UNROLLED(int l = 0; l < LANES; l++) ((T *)to)[place[l] * LANES + l] = lane[l];
}
/* A product of orthogonal rows is computed with an error of up to n u of their lengths. */
INLINE vec svd_tolerance_squared(intptr_t n) {
    const T tolerance = (T)(n < 4 ? 4 : n) * ROUNDOFF;
    return lane_set(tolerance * tolerance);
}

/* Round r of a sweep rotates the pairs i < j of which i + j is r or r + n: no row is in two of them. Over n rounds all
 * pairs come, as if row by row. */
typedef struct svd_round {
    uint8_t count, i[SMM_JACOBI_MAX / 2], j[SMM_JACOBI_MAX / 2];
} svd_round;
INLINE void svd_plan_rounds(svd_round *rounds, intptr_t n) {
    for (intptr_t r = 1; r <= n; r++) {
        svd_round *round = &rounds[r - 1];
        round->count = 0;
        for (intptr_t i = 0; i < n; i++) {
            const intptr_t j = i < r ? r - i : r + n - i;
            if (i >= j || j >= n) continue;
            round->i[round->count] = (uint8_t)i;
            round->j[round->count++] = (uint8_t)j;
        }
    }
}

/* Two rows of R, and what becomes of them. */
typedef struct svd_pair {
    vec *x, *y;
    vec xx, yy, xy, c, s; /* their products; the rotation */
    mask rotates;
} svd_pair;

/* The rotation that makes x and y orthogonal and x the longer, the identity if |x^T y| <= tolerance |x| |y|. With
 * cosine and sine the unit vector along (|d| + r, g), where g = x^T y and d = (x^T x - y^T y) / 2 over the larger
 * square and r^2 = d^2 + g^2; exchanged where y is longer. */
INLINE void svd_turn(svd_pair *p, vec tolerance_squared) {
    const vec zero = lane_set(0), one = lane_set(1);
    const mask y_longer = lane_greater(p->yy, p->xx);
    const vec longer = lane_select(y_longer, p->yy, p->xx), shorter = lane_select(y_longer, p->xx, p->yy);
    const vec back = lane_div(one, longer), g = lane_mul(p->xy, back), gg = lane_mul(g, g);
    const vec d = lane_mul(lane_sub(longer, shorter), lane_mul(back, lane_set((T)0.5)));
    const vec w = lane_add(d, lane_sqrt(lane_fma(d, d, gg)));
    const vec scale = lane_div(one, lane_sqrt(lane_fma(w, w, gg)));
    const vec large = lane_mul(w, scale), small = lane_mul(g, scale);
    p->rotates = lane_greater(gg, lane_mul(tolerance_squared, lane_mul(shorter, back))) &
                 lane_greater(shorter, lane_set(SVD_FLOOR));
    p->c = lane_select(p->rotates, lane_select(y_longer, small, large), one);
    p->s = lane_select(p->rotates, lane_select(y_longer, large, small), zero);
}
