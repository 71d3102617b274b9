/* eigh_jacobi.h: eigenvalues and eigenvectors of symmetric and Hermitian matrices of orders up to SMM_JACOBI_MAX, a
 * constant, LANES of them side by side: two-sided Jacobi rotations, which keep the relative accuracy of small
 * eigenvalues of graded definite matrices (Demmel and Veselic, SIAM J. Matrix Anal. Appl. 13, 1992). One text over the
 * numbers of elements_real.h and those of elements_complex.h.
 *
 * The rotation of rows and columns i and j has the angle of which tan 2 phi = 2 |a_ij| / (a_ii - a_jj). Of the tangent
 * t = p / q of half of phi cosine and sine are (q^2 - p^2) / (q^2 + p^2) and 2 p q / (q^2 + p^2): orthogonal whatever
 * t is. With d = a_ii - a_jj, p = 2 a_ij and r^2 = d^2 + |p|^2, q = 1.5 d + 2.5 r is t up to terms of the fifth order,
 * and takes one square root less than t itself. What is left of a_ij is computed, not set to zero. At order 2 q is
 * exact, and one rotation does; the eigenvalues are those of LAPACK's laev2.
 *
 * Each lane converges by itself: where a_ij is negligible, the rotation is the identity, which changes at most the sign
 * of a zero, and in the end all zeros are positive. Groups of lanes go side by side, for a rotation takes long before
 * it begins. */

/* Matrices are scaled so far up that squares of small elements keep their digits; an element whose doubled square is up
 * to the floor is not rotated. Where |a_ij| <= 4 u sqrt|a_ii a_jj| it is negligible: JACOBI_FAR is (8 u)^-2. */
#if defined(SMM_KERNELS_F64)
#define JACOBI_UP 0x1p300
#define JACOBI_FLOOR 0x1p-1000
#define JACOBI_FAR 0x1p100
#else
#define JACOBI_UP 0x1p36f
#define JACOBI_FLOOR 0x1p-120f
#define JACOBI_FAR 0x1p42f
#endif

enum {
    JACOBI_SWEEPS = 30, /* then a matrix is given up */
    JACOBI_GROUPS = PARTS > 1 ? 1 : 2,
    JACOBI_SIZE = SMM_JACOBI_MAX * SMM_JACOBI_MAX
};

/* LANES matrices under way. */
typedef struct jacobi_stack {
    eigh_stack of; /* A in the upper triangle of a; d, which becomes w, back and info */
    elem a[JACOBI_SIZE], v[JACOBI_SIZE];
} jacobi_stack;

/* Columns p and q, of which these are elements in a row. */
INLINE void jacobi_turn(elem *p, elem *q, vec c, elem s) {
    const elem x = *p, y = *q;
    *p = elem_fma(elem_conj(s), y, elem_scale(x, c));
    *q = elem_fnma(s, x, elem_scale(y, c));
}

/* Element (i, j) of A. */
INLINE elem jacobi_get(const elem *a, intptr_t n, intptr_t i, intptr_t j) {
    return i < j ? a[i * n + j] : elem_conj(a[j * n + i]);
}
INLINE void jacobi_put(elem *a, intptr_t n, intptr_t i, intptr_t j, elem x) {
    if (i < j)
        a[i * n + j] = x;
    else
        a[j * n + i] = elem_conj(x);
}

/* Rows and columns i and j, where |2 a_ij|^2 = square and a_ij is not negligible. */
INLINE void jacobi_rotate(jacobi_stack *x, const intptr_t n, intptr_t i, intptr_t j, elem twice, vec square,
                          mask rotates, const bool vectors) {
    const vec zero = lane_set(0), above = x->of.d[i], below = x->of.d[j], gap = lane_sub(above, below);
    const mask down = lane_greater(zero, gap);
    const vec root = lane_sqrt(lane_fma(gap, gap, square));
    const vec outward = lane_select(down, lane_negate(root), root);
    vec along = lane_fma(lane_set((T)2.5), outward, lane_mul(lane_set((T)1.5), gap));
    if (n == 2) {
        const vec both = lane_add(gap, outward), rest = lane_sqrt(lane_fma(both, both, square));
        const vec more = lane_select(rotates, lane_div(square, lane_add(both, both)), zero);
        along = lane_add(both, lane_select(down, lane_negate(rest), rest));
        x->of.d[i] = lane_add(above, more);
        x->of.d[j] = lane_sub(below, more);
        x->a[i * n + j] = elem_set(0);
    }
    const vec back = lane_div(lane_set(2), lane_fma(along, along, square));
    const vec c = lane_select(rotates, lane_fnma(square, back, lane_set(1)), lane_set(1));
    const elem s = elem_select(rotates, elem_scale(twice, lane_mul(along, back)), elem_set(0)), two = elem_add(s, s);
    if (n > 2) {
        const elem a = x->a[i * n + j];
        const vec half = lane_mul(lane_set((T)0.5), gap), l = elem_add_dot(s, a, lane_mul(c, half));
        const elem k = elem_add_scaled(s, lane_negate(half), elem_scale(a, c));
        x->of.d[i] = elem_add_dot(two, k, above);
        x->of.d[j] = elem_add_dot(elem_negate(two), k, below);
        x->a[i * n + j] = elem_add_scaled(s, lane_negate(l), elem_scale(k, c));
    }
    UNROLLED(intptr_t r = 0; r < n; r++) {
        if (r != i && r != j) {
            elem p = jacobi_get(x->a, n, r, i), q = jacobi_get(x->a, n, r, j);
            jacobi_turn(&p, &q, c, s);
            jacobi_put(x->a, n, r, i, p);
            jacobi_put(x->a, n, r, j, q);
        }
        if (vectors) jacobi_turn(&x->v[r * n + i], &x->v[r * n + j], c, s);
    }
}
INLINE void jacobi_rotate_all(jacobi_stack *x, const intptr_t n, intptr_t i, intptr_t j, const bool vectors) {
    mask rotates[JACOBI_GROUPS], any = lane_greater(lane_set(0), lane_set(0));
    elem twice[JACOBI_GROUPS];
    vec square[JACOBI_GROUPS];
    UNROLLED(int g = 0; g < JACOBI_GROUPS; g++) {
        const vec diagonal = lane_abs(lane_mul(x[g].of.d[i], x[g].of.d[j]));
        twice[g] = elem_add(x[g].a[i * n + j], x[g].a[i * n + j]);
        square[g] = elem_add_dot(twice[g], twice[g], lane_set(0));
        rotates[g] = lane_greater(lane_mul(square[g], lane_set(JACOBI_FAR)), diagonal) &
                     lane_greater(square[g], lane_set(JACOBI_FLOOR));
        x[g].of.info = lane_add(x[g].of.info, lane_select(rotates[g], lane_set(1), lane_set(0)));
        any |= rotates[g];
    }
    if (!lane_any(any)) return;
    UNROLLED(int g = 0; g < JACOBI_GROUPS; g++) jacobi_rotate(&x[g], n, i, j, twice[g], square[g], rotates[g], vectors);
}

/* A becomes diagonal, in the rounds of svd_plan_rounds; info: in how many pairs the last sweep had to rotate. */
INLINE void jacobi_iterate(jacobi_stack *x, const intptr_t n, const bool vectors) {
    for (int sweep = 0; sweep < JACOBI_SWEEPS; sweep++) {
        vec all = lane_set(0);
        UNROLLED(int g = 0; g < JACOBI_GROUPS; g++) x[g].of.info = lane_set(0);
        UNROLLED(intptr_t r = 1; r <= n; r++)
            UNROLLED(intptr_t i = 0; i < n; i++) {
                const intptr_t j = i < r ? r - i : r + n - i;
                if (i < j && j < n) jacobi_rotate_all(x, n, i, j, vectors);
            }
        UNROLLED(int g = 0; g < JACOBI_GROUPS; g++) all = lane_add(all, x[g].of.info);
        if (!lane_any(lane_greater(all, lane_set(0)))) break;
    }
}

/* The triangle in question, as the upper one; by registers, where one reads dense rows of real numbers across. */
INLINE void jacobi_load(const smm_call *call, intptr_t q, jacobi_stack *x, const intptr_t n, intptr_t count) {
    const intptr_t size = n * n;
    const smm_operand from = eigh_columns(call);
    const strides s = strides_of(&from);
    if (count < LANES || s.row != 1 || s.col != n || s.batch != size) {
        KERNEL(elem_load)(x->a, &from, q, n, n, count);
        return;
    }
    vec y[JACOBI_SIZE], *const a = x->of.a;
    lanes_load_dense(y, (const T *)from.data + q * size, size);
    UNROLLED(intptr_t i = 0; i < n; i++)
        UNROLLED(intptr_t j = i; j < n; j++) a[i * n + j] = y[j * n + i];
}

INLINE void jacobi_begin(const smm_call *call, intptr_t q, jacobi_stack *x, const intptr_t n, intptr_t count, bool cold,
                         const bool vectors) {
    const intptr_t size = PARTS * LANES * n * n;
    const bool lower = !(call->form & SMM_UPPER);
    vec most = lane_set(0), nothing = lane_set(0);
    if (cold) prefetch(ahead_of(&call->a, q, size), size);
    x->of.a = (vec *)x->a;
    jacobi_load(call, q, x, n, count);
    UNROLLED(intptr_t i = 0; i < n; i++)
        UNROLLED(intptr_t j = i; j < n; j++) eigh_measure(&x->a[i * n + j], lower, i == j, &most, &nothing);
    eigh_scale_measured(&x->of, n, n, most, nothing);
    UNROLLED(intptr_t i = 0; i < n; i++)
        UNROLLED(intptr_t j = i; j < n; j++) x->a[i * n + j] = elem_scale(x->a[i * n + j], lane_set(JACOBI_UP));
    UNROLLED(intptr_t i = 0; i < n; i++) x->of.d[i] = elem_re(x->a[i * n + i]);
    if (vectors)
        UNROLLED(intptr_t i = 0; i < n; i++)
            UNROLLED(intptr_t j = 0; j < n; j++) x->v[i * n + j] = elem_set(i == j);
}

/* Ascending eigenvalues, and columns of V with them: neighbours are exchanged until all are in order. */
INLINE void jacobi_sort(jacobi_stack *x, const intptr_t n, const bool vectors) {
    UNROLLED(intptr_t last = n - 1; last > 0; last--)
        UNROLLED(intptr_t j = 0; j < last; j++) {
            const mask m = lane_greater(x->of.d[j], x->of.d[j + 1]);
            lane_exchange(m, &x->of.d[j], &x->of.d[j + 1]);
            if (vectors)
                UNROLLED(intptr_t row = 0; row < n * n; row += n) elem_exchange(m, &x->v[row + j], &x->v[row + j + 1]);
        }
}

/* The largest element of column j of V, the first of equals, becomes positive. */
INLINE void jacobi_turn_largest(elem *v, const intptr_t n, intptr_t j) {
    elem largest = v[j];
    vec rank = elem_rank(largest), at = lane_set(0);
    UNROLLED(intptr_t i = 1; i < n; i++) {
        const vec other = elem_rank(v[i * n + j]);
        const mask more = lane_greater(other, rank);
        largest = elem_select(more, v[i * n + j], largest);
        rank = lane_select(more, other, rank);
        at = lane_select(more, lane_set((T)i), at);
    }
    const vec size = elem_size_of_rank(rank);
    const elem turn = elem_turn(largest, size);
    UNROLLED(intptr_t i = 0; i < n; i++) {
        const elem y = elem_add(elem_mul(v[i * n + j], turn), elem_set(0));
        v[i * n + j] = elem_select(lane_equal(at, lane_set((T)i)), elem_of(size), y);
    }
}

INLINE void jacobi_end(const smm_call *call, intptr_t q, jacobi_stack *x, const intptr_t n, intptr_t count,
                       const bool vectors) {
    UNROLLED(intptr_t j = 0; j < n; j++) x->of.d[j] = lane_mul(x->of.d[j], lane_set(1 / JACOBI_UP));
    jacobi_sort(x, n, vectors);
    const vec bad = eigh_store_values(call, q, &x->of, n, count, vectors);
    if (!vectors) return;
    UNROLLED(intptr_t j = 0; j < n; j++) jacobi_turn_largest(x->v, n, j);
    KERNEL(elem_store)(&call->eigh.v, q, x->v, n, n, count);
    KERNEL(elem_fill_nan)(&call->eigh.v, q, bad, n, n, count);
}

/* Where matrices are left for one group, the other does the same. */
INLINE void jacobi_all(const smm_call *call, intptr_t first, intptr_t last, bool cold, const int n,
                       const bool vectors) {
    for (intptr_t q = first; q < last; q += JACOBI_GROUPS * LANES) {
        jacobi_stack x[JACOBI_GROUPS];
        UNROLLED(int g = 0; g < JACOBI_GROUPS; g++) {
            const intptr_t at = q + g * LANES < last ? q + g * LANES : q;
            jacobi_begin(call, at, &x[g], n, min_of(LANES, last - at), cold, vectors);
        }
        jacobi_iterate(x, n, vectors);
        UNROLLED(int g = 0; g < JACOBI_GROUPS; g++) {
            const intptr_t at = q + g * LANES < last ? q + g * LANES : q;
            jacobi_end(call, at, &x[g], n, min_of(LANES, last - at), vectors);
        }
    }
}

/* `portable`, which need not be fast, has one text with vectors and without, but of the least orders. */
INLINE void eigh_jacobi(const smm_call *call, intptr_t first, intptr_t last, bool cold, const int n) {
    const bool vectors = call->op == SMM_OP_EIGH;
#if defined(SMM_KERNELS_PORTABLE)
    if (n > 2) {
        jacobi_all(call, first, last, cold, n, vectors);
        return;
    }
#endif
    if (vectors)
        jacobi_all(call, first, last, cold, n, true);
    else
        jacobi_all(call, first, last, cold, n, false);
}
