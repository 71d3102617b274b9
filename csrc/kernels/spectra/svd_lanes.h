/* svd_lanes.h: singular values and singular vectors of orders up to SMM_JACOBI_MAX, LANES matrices side by side:
 * one-sided Jacobi rotations of a triangular factor (Hestenes, J. SIAM 6, 1958; Demmel and Veselic, SIAM J. Matrix
 * Anal. Appl. 13, 1992; Drmac and Veselic, the same 29, 2008).
 *
 * A matrix that is wider than tall is transposed. The columns of A are sorted by length: A P = Q R. Of a few rows these
 * are sorted, too, by their largest element, so that QR keeps small ones as exact as large ones (Cox and Higham, BIT
 * 38, 1998). Rotations make the rows of R orthogonal; their lengths are the singular values, and QR of R^H P^T gives V,
 * orthogonal whatever the rank. QR of A V gives U. The columns of V and of A V are in descending order, so both
 * triangular factors are diagonal but for rounding.
 *
 * Each lane's rows converge by themselves: where two rows are orthogonal the rotation is the identity, which changes at
 * most the sign of a zero, and in the end all zeros are positive. Where `unrolled`, the order is a constant and
 * matrices are square and real; two groups of lanes go side by side, for a rotation takes long before it begins.
 *
 * Real and complex matrices share all but the rotations, and what makes U and V of reflectors. */

/* LANES matrices under way: m x n, m >= n. */
typedef struct svd_stack {
    elem *a;                 /* A, then A V, then U */
    elem *x;                 /* A P, then R, whose rows are rotated */
    elem *v;                 /* V */
    vec perm[SMM_MAX_ORDER]; /* the column of A that column j of A P was */
    vec s[SMM_MAX_ORDER];
    elem tau[SMM_MAX_ORDER];
    vec back, info; /* back undoes the scaling of A, and is NaN where that is not finite */
} svd_stack;

/* One of the three; sizes are arguments, so that they may be constants. */
INLINE elem_matrix svd_matrix(elem *at, intptr_t m, intptr_t n, const bool unrolled) {
    return (elem_matrix){at, m, n, unrolled ? n : row_step(n)};
}

/* --- A P = Q R ---------------------------------------------------------------------------------------------------- */

/* Matrices, times a power of two that brings them to about 1; zero where they are not finite. The result undoes that,
 * or is NaN. */
INLINE void elem_measure(elem x, vec *most, vec *nothing) {
    *most = elem_largest(x, *most);
    *nothing = elem_taint(x, *nothing);
}
INLINE vec elem_load_scaled(elem *a, const smm_operand *from, intptr_t q, intptr_t m, intptr_t n, intptr_t count,
                            const bool unrolled) {
    const intptr_t size = m * n;
    vec most = lane_set(0), nothing = lane_set(0);
    KERNEL(elem_load)(a, from, q, m, n, count);
    if (unrolled)
        UNROLLED(intptr_t e = 0; e < size; e++) elem_measure(a[e], &most, &nothing);
    else
        ROLLED(intptr_t e = 0; e < size; e++) elem_measure(a[e], &most, &nothing);
    const mask finite = lane_equal(nothing, lane_set(0));
    const vec scale = lane_scale_to_one(most);
    if (__builtin_expect(lane_any(~(finite & lane_equal(scale, lane_set(1)))), 0))
        ROLLED(intptr_t e = 0; e < size; e++) a[e] = elem_select(finite, elem_scale(a[e], scale), elem_set(0));
    return lane_select(finite, lane_div(lane_set(1), scale), lane_set(NAN));
}
INLINE void svd_load(const svd_operands *o, intptr_t q, svd_stack *x, intptr_t m, intptr_t n, intptr_t count,
                     const bool unrolled) {
    x->back = elem_load_scaled(x->a, &o->a, q, m, n, count, unrolled);
    if (!unrolled) spread_rows(elem_parts(svd_matrix(x->a, m, n, false)));
}

/* Number place_l of `to` gets lane l of x. */
INLINE void elem_scatter(elem *to, const int32_t *place, elem x) {
#if defined(REAL_DTYPE)
    int32_t at[LANES];
    UNROLLED(int l = 0; l < LANES; l++) at[l] = PARTS * place[l];
    svd_scatter((vec *)to, at, x.re);
    svd_scatter((vec *)to + 1, at, x.im);
#else
    svd_scatter(to, place, x);
#endif
}

/* Columns by length, the longest first; and a few rows by their largest element. */
INLINE void svd_sort(svd_stack *x, intptr_t m, intptr_t n) {
    const intptr_t step = row_step(n);
    int32_t place[SMM_JACOBI_MAX][LANES], row[SMM_JACOBI_MAX][LANES];
    vec squares[SMM_JACOBI_MAX];
    for (intptr_t j = 0; j < n; j++) squares[j] = lane_set(0);
    for (intptr_t i = 0; i < m; i++)
        for (intptr_t j = 0; j < n; j++) squares[j] = elem_add_square(x->a[i * step + j], squares[j]);
    lanes_ranks(place, squares, n, true);
    for (intptr_t j = 0; j < n; j++) svd_scatter(x->perm, place[j], lane_set((T)j));
    if (m <= SMM_JACOBI_MAX) {
        vec largest[SMM_JACOBI_MAX];
        for (intptr_t i = 0; i < m; i++) {
            largest[i] = lane_set(0);
            for (intptr_t j = 0; j < n; j++) largest[i] = elem_largest(x->a[i * step + j], largest[i]);
        }
        lanes_ranks(row, largest, m, true);
    }
    for (intptr_t i = 0; i < m; i++)
        for (intptr_t j = 0; j < n; j++) {
            int32_t at[LANES];
            UNROLLED(int l = 0; l < LANES; l++)
                at[l] = (m <= SMM_JACOBI_MAX ? row[i][l] : (int32_t)i) * (int32_t)step + place[j][l];
            elem_scatter(x->x, at, x->a[i * step + j]);
        }
}

INLINE void svd_reduce(svd_stack *x, intptr_t m, intptr_t n, const bool unrolled, bool cold, const T *next) {
    const elem_matrix r = svd_matrix(x->x, m, n, unrolled);
    qr_factor(r, x->tau, unrolled, cold, next);
    if (unrolled)
        UNROLLED(intptr_t i = 1; i < n; i++)
            UNROLLED(intptr_t j = 0; j < i; j++) r.at[i * r.step + j] = elem_set(0);
    else
        ROLLED(intptr_t i = 1; i < n; i++)
            ROLLED(intptr_t j = 0; j < i; j++) r.at[i * r.step + j] = elem_set(0);
}

/* --- Rotations ---------------------------------------------------------------------------------------------------- */

#if defined(REAL_DTYPE)
/* x and y become orthogonal, x the longer, after y is multiplied by a number of magnitude 1: the product x y^H is p |x
 * y^H|, and rows x and p y are rotated. */
INLINE void svd_rotate(elem *x, elem *y, vec *info, vec tolerance_squared, intptr_t n) {
    const vec zero = lane_set(0), one = lane_set(1);
    vec re[2] = {zero, zero}, im[2] = {zero, zero}, xx[2] = {zero, zero}, yy[2] = {zero, zero};
    for (intptr_t k = 0; k < n; k++) {
        xx[0] = lane_fma(x[k].re, x[k].re, xx[0]);
        xx[1] = lane_fma(x[k].im, x[k].im, xx[1]);
        yy[0] = lane_fma(y[k].re, y[k].re, yy[0]);
        yy[1] = lane_fma(y[k].im, y[k].im, yy[1]);
        re[0] = lane_fma(x[k].re, y[k].re, re[0]);
        re[1] = lane_fma(x[k].im, y[k].im, re[1]);
        im[0] = lane_fma(x[k].im, y[k].re, im[0]);
        im[1] = lane_fma(x[k].re, y[k].im, im[1]);
    }
    const elem xy = {lane_add(re[0], re[1]), lane_sub(im[0], im[1])};
    const vec most = lane_max(lane_abs(xy.re), lane_abs(xy.im)); /* squares might underflow */
    const elem unit = {lane_div(xy.re, most), lane_div(xy.im, most)};
    const vec length = lane_sqrt(lane_fma(unit.im, unit.im, lane_mul(unit.re, unit.re)));
    const vec size = lane_select(lane_equal(most, zero), zero, lane_mul(most, length));
    svd_pair p = {.xx = lane_add(xx[0], xx[1]), .yy = lane_add(yy[0], yy[1]), .xy = size};
    svd_turn(&p, tolerance_squared);
    *info = lane_add(*info, lane_select(p.rotates, one, zero));
    if (!lane_any(p.rotates)) return;
    const elem phase = {lane_select(p.rotates, lane_div(unit.re, length), one),
                        lane_select(p.rotates, lane_div(unit.im, length), zero)};
    for (intptr_t k = 0; k < n; k++) {
        y[k] = elem_mul(phase, y[k]);
        eigh_rotate_row(&x[k].re, &y[k].re, p.c, p.s);
        eigh_rotate_row(&x[k].im, &y[k].im, p.c, p.s);
    }
}

/* Info: in how many pairs the last sweep of all had to rotate. */
INLINE void svd_iterate(svd_stack *x, const svd_round *rounds, intptr_t n) {
    const intptr_t step = row_step(n);
    const vec tolerance_squared = svd_tolerance_squared(PARTS * n);
    for (int sweep = 0; sweep < SVD_SWEEPS; sweep++) {
        x->info = lane_set(0);
        for (const svd_round *r = rounds; r < rounds + n; r++)
            for (intptr_t t = 0; t < r->count; t++)
                svd_rotate(x->x + r->i[t] * step, x->x + r->j[t] * step, &x->info, tolerance_squared, n);
        if (!lane_any(~lane_equal(x->info, lane_set(0)))) break;
    }
}
#else
/* Every product has two parts, the even and the odd elements, which need not wait for each other. */
INLINE void svd_measure_part(svd_pair *p, svd_pair *part, intptr_t k, const bool first) {
    const vec x = p->x[k], y = p->y[k];
    part->xx = first ? lane_mul(x, x) : lane_fma(x, x, part->xx);
    part->yy = first ? lane_mul(y, y) : lane_fma(y, y, part->yy);
    part->xy = first ? lane_mul(x, y) : lane_fma(x, y, part->xy);
}
INLINE void svd_measure(svd_pair *p, intptr_t n, const int width, const bool unrolled) {
    svd_pair part[SVD_GROUPS][2];
    UNROLLED(int g = 0; g < width; g++)
        UNROLLED(int k = 0; k < 2; k++) svd_measure_part(&p[g], &part[g][k], k, true);
    if (unrolled) {
        UNROLLED(intptr_t k = 2; k < n; k++)
            UNROLLED(int g = 0; g < width; g++) svd_measure_part(&p[g], &part[g][k % 2], k, false);
    } else {
        ROLLED(intptr_t k = 2; k + 1 < n; k += 2)
            UNROLLED(int g = 0; g < width; g++) {
                svd_measure_part(&p[g], &part[g][0], k, false);
                svd_measure_part(&p[g], &part[g][1], k + 1, false);
            }
        if (n % 2)
            UNROLLED(int g = 0; g < width; g++) svd_measure_part(&p[g], &part[g][0], n - 1, false);
    }
    UNROLLED(int g = 0; g < width; g++) {
        p[g].xx = lane_add(part[g][0].xx, part[g][1].xx);
        p[g].yy = lane_add(part[g][0].yy, part[g][1].yy);
        p[g].xy = lane_add(part[g][0].xy, part[g][1].xy);
    }
}

/* Rotate `width` pairs that have no row in common: while one waits the other goes on. */
INLINE void svd_rotate(svd_pair *p, vec *info[SVD_GROUPS], vec tolerance_squared, intptr_t n, const int width,
                       const bool unrolled) {
    svd_measure(p, n, width, unrolled);
    mask any = lane_greater(lane_set(0), lane_set(0));
    UNROLLED(int g = 0; g < width; g++) {
        svd_turn(&p[g], tolerance_squared);
        *info[g] = lane_add(*info[g], lane_select(p[g].rotates, lane_set(1), lane_set(0)));
        any |= p[g].rotates;
    }
    if (!lane_any(any)) return;
    if (unrolled)
        UNROLLED(intptr_t k = 0; k < n; k++)
            UNROLLED(int g = 0; g < width; g++) eigh_rotate_row(&p[g].x[k], &p[g].y[k], p[g].c, p[g].s);
    else
        ROLLED(intptr_t k = 0; k < n; k++)
            UNROLLED(int g = 0; g < width; g++) eigh_rotate_row(&p[g].x[k], &p[g].y[k], p[g].c, p[g].s);
}

/* Info: in how many pairs the last sweep of all had to rotate. */
INLINE void svd_iterate(svd_stack *x, const svd_round *rounds, intptr_t n) {
    const intptr_t step = row_step(n);
    const vec tolerance_squared = svd_tolerance_squared(n);
    vec *const a = x->x, *info[SVD_GROUPS] = {&x->info, &x->info};
    x->info = lane_set(0);
    for (int sweep = 0; sweep < SVD_SWEEPS && n > 1; sweep++) {
        x->info = lane_set(0);
        for (const svd_round *r = rounds; r < rounds + n; r++) {
            intptr_t t = 0;
            for (; t + 1 < r->count; t += 2) {
                svd_pair p[2] = {{.x = a + r->i[t] * step, .y = a + r->j[t] * step},
                                 {.x = a + r->i[t + 1] * step, .y = a + r->j[t + 1] * step}};
                svd_rotate(p, info, tolerance_squared, n, 2, false);
            }
            if (t < r->count) {
                svd_pair p = {.x = a + r->i[t] * step, .y = a + r->j[t] * step};
                svd_rotate(&p, info, tolerance_squared, n, 1, false);
            }
        }
        if (!lane_any(~lane_equal(x->info, lane_set(0)))) break;
    }
}

/* Of a constant order, of several groups. */
INLINE void svd_iterate_few(svd_stack *x, const intptr_t n) {
    const vec tolerance_squared = svd_tolerance_squared(n);
    vec *info[SVD_GROUPS];
    UNROLLED(int g = 0; g < SVD_GROUPS; g++) {
        info[g] = &x[g].info;
        x[g].info = lane_set(0);
    }
    for (int sweep = 0; sweep < SVD_SWEEPS && n > 1; sweep++) {
        vec all = lane_set(0);
        UNROLLED(int g = 0; g < SVD_GROUPS; g++) x[g].info = lane_set(0);
        UNROLLED(intptr_t r = 1; r <= n; r++)
            UNROLLED(intptr_t i = 0; i < n; i++) {
                const intptr_t j = i < r ? r - i : r + n - i;
                if (i >= j || j >= n) continue;
                svd_pair p[SVD_GROUPS];
                UNROLLED(int g = 0; g < SVD_GROUPS; g++) p[g] = (svd_pair){.x = x[g].x + i * n, .y = x[g].x + j * n};
                svd_rotate(p, info, tolerance_squared, n, SVD_GROUPS, true);
            }
        UNROLLED(int g = 0; g < SVD_GROUPS; g++) all = lane_add(all, x[g].info);
        if (!lane_any(~lane_equal(all, lane_set(0)))) break;
    }
}
#endif

/* |x|, of contiguous elements; scaled where squares are out of range. */
INLINE vec svd_length(const elem *x, intptr_t n, const bool unrolled) {
    const vec one = lane_set(1), low = lane_set(SQUARES_LOW);
    const vec squares = elem_add_square(x[0], sum_of_squares(x, 1, n, unrolled));
    if (__builtin_expect(!lane_any(lane_greater(low, squares)), 1)) return lane_sqrt(squares);
    const mask small = lane_greater(low, squares);
    const vec up = lane_select(small, lane_set(SCALE_UP), one), down = lane_select(small, lane_set(SCALE_DOWN), one);
    elem y[SMM_MAX_ORDER];
    for (intptr_t k = 0; k < n; k++) y[k] = elem_scale(x[k], up);
    return lane_mul(lane_sqrt(elem_add_square(y[0], sum_of_squares(y, 1, n, false))), down);
}

/* --- V, s and U --------------------------------------------------------------------------------------------------- */

/* Columns of V P, which are conjugated rows, in the order of their lengths. */
INLINE void svd_arrange(svd_stack *x, intptr_t n, const bool vectors) {
    const intptr_t step = row_step(n);
    int32_t place[SMM_JACOBI_MAX][LANES], row[SMM_JACOBI_MAX][LANES];
    vec s[SMM_JACOBI_MAX];
    for (intptr_t j = 0; j < n; j++) {
        s[j] = svd_length(x->x + j * step, n, false);
        lane_store_int(row[j], lane_mul(x->perm[j], lane_set((T)step)));
    }
    lanes_ranks(place, s, n, true);
    for (intptr_t j = 0; j < n; j++) svd_scatter(x->s, place[j], s[j]);
    for (intptr_t j = 0; j < n && vectors; j++)
        for (intptr_t k = 0; k < n; k++) {
            int32_t at[LANES];
            UNROLLED(int l = 0; l < LANES; l++) at[l] = row[k][l] + place[j][l];
            elem_scatter(x->v, at, elem_conj(x->x[j * step + k]));
        }
}

/* A = A V, row by row. */
INLINE void svd_multiply_row(elem *row, const elem *v, intptr_t step, intptr_t n, const bool unrolled) {
    elem y[SMM_MAX_ORDER];
    if (unrolled) {
        UNROLLED(intptr_t j = 0; j < n; j++) y[j] = elem_mul(row[0], v[j]);
        UNROLLED(intptr_t k = 1; k < n; k++)
            UNROLLED(intptr_t j = 0; j < n; j++) y[j] = elem_fma(row[k], v[k * step + j], y[j]);
        UNROLLED(intptr_t j = 0; j < n; j++) row[j] = y[j];
        return;
    }
    intptr_t j = 0;
    ROLLED(; j + REFLECTED <= n; j += REFLECTED) {
        elem sum[REFLECTED];
        UNROLLED(int c = 0; c < REFLECTED; c++) sum[c] = elem_mul(row[0], v[j + c]);
        ROLLED(intptr_t k = 1; k < n; k++) add_products(sum, row[k], v + k * step + j, REFLECTED);
        UNROLLED(int c = 0; c < REFLECTED; c++) y[j + c] = sum[c];
    }
    ROLLED(; j < n; j++) {
        elem sum = elem_mul(row[0], v[j]);
        ROLLED(intptr_t k = 1; k < n; k++) sum = elem_fma(row[k], v[k * step + j], sum);
        y[j] = sum;
    }
    ROLLED(j = 0; j < n; j++) row[j] = y[j];
}

/* U of A V = U R, with a sign for each column that makes the diagonal of R positive. */
INLINE void svd_factor_large(svd_stack *x, vec *sign, intptr_t m, intptr_t n, const bool unrolled) {
    const vec one = lane_set(1), zero = lane_set(0);
    const elem_matrix a = svd_matrix(x->a, m, n, unrolled), v = svd_matrix(x->v, n, n, unrolled);
    if (unrolled)
        UNROLLED(intptr_t i = 0; i < a.m; i++) svd_multiply_row(a.at + i * a.step, v.at, v.step, a.n, true);
    else
        ROLLED(intptr_t i = 0; i < a.m; i++) svd_multiply_row(a.at + i * a.step, v.at, v.step, a.n, false);
    qr_factor(a, x->tau, unrolled, false, NULL);
    if (unrolled)
        UNROLLED(intptr_t j = 0; j < n; j++)
            sign[j] = lane_select(lane_greater(zero, elem_re(a.at[j * a.step + j])), lane_set(-1), one);
    else
        ROLLED(intptr_t j = 0; j < n; j++)
            sign[j] = lane_select(lane_greater(zero, elem_re(a.at[j * a.step + j])), lane_set(-1), one);
}

#if defined(REAL_DTYPE)
/* V, instead of its factors; the largest element of each column, the first of equals, is positive. */
INLINE void svd_form_small(svd_stack *x, intptr_t n, const bool unrolled) {
    elem *const at = x->x;
    const elem_matrix v = svd_matrix(x->v, n, n, unrolled);
    qr_factor(v, x->tau, unrolled, false, NULL);
    KERNEL(q_columns)(at, 0, n, v, x->tau);
    for (intptr_t j = 0; j < n; j++) {
        pairs_largest most = {elem_set(1), lane_set(0), lane_set(-1)};
        for (intptr_t i = 0; i < n; i++) pairs_consider(&most, at[i * n + j], i);
        const elem phase = pairs_phase(&most);
        const vec size = lane_sqrt(most.square);
        for (intptr_t i = 0; i < n; i++) v.at[i * v.step + j] = pairs_turn(&most, phase, size, at[i * n + j], i);
    }
}

/* U, as many columns at a time as there is room for in x->x. */
INLINE void svd_store_large(const svd_operands *o, intptr_t q, svd_stack *x, const vec *sign, intptr_t count) {
    const intptr_t m = o->m, n = o->n, most = QR_ELEMENTS / m;
    const elem_matrix a = svd_matrix(x->a, m, n, false);
    for (intptr_t j = 0, width; j < o->k; j += width) {
        width = min_of(most, o->k - j);
        KERNEL(q_columns)(x->x, j, width, a, x->tau);
        for (intptr_t c = 0; c < width && j + c < n; c++)
            for (intptr_t i = 0; i < m; i++) {
                elem *const y = &x->x[i * width + c];
                *y = elem_add(elem_scale(*y, sign[j + c]), elem_set(0));
            }
        const smm_operand columns = elem_columns(o->large, j);
        KERNEL(elem_store)(&columns, q, x->x, m, width, count);
    }
}
#else
/* Column j of a times sign; zeros are positive. */
INLINE void svd_sign_column(lanes_matrix a, intptr_t j, vec sign, const bool unrolled) {
    if (unrolled)
        UNROLLED(intptr_t i = 0; i < a.m; i++) a.at[i * a.step + j] = lane_fma(a.at[i * a.step + j], sign, lane_set(0));
    else
        ROLLED(intptr_t i = 0; i < a.m; i++) a.at[i * a.step + j] = lane_fma(a.at[i * a.step + j], sign, lane_set(0));
}

/* V; the largest element of each column, the first of equals, is positive. */
INLINE void svd_form_small(svd_stack *x, intptr_t n, const bool unrolled) {
    const lanes_matrix v = svd_matrix(x->v, n, n, unrolled);
    qr_factor(v, x->tau, unrolled, false, NULL);
    q_form(v, x->tau, unrolled);
    if (unrolled)
        UNROLLED(intptr_t j = 0; j < v.n; j++) svd_sign_column(v, j, lanes_sign(v, j, true), true);
    else
        ROLLED(intptr_t j = 0; j < v.n; j++) svd_sign_column(v, j, lanes_sign(v, j, false), false);
}

INLINE void svd_form_large(svd_stack *x, const vec *sign, intptr_t m, intptr_t n, const bool unrolled) {
    const lanes_matrix a = svd_matrix(x->a, m, n, unrolled);
    q_form(a, x->tau, unrolled);
    if (unrolled)
        UNROLLED(intptr_t j = 0; j < n; j++) svd_sign_column(a, j, sign[j], true);
    else
        ROLLED(intptr_t j = 0; j < n; j++) svd_sign_column(a, j, sign[j], false);
}

/* U. */
INLINE void svd_store_large(const svd_operands *o, intptr_t q, svd_stack *x, const vec *sign, intptr_t count) {
    const intptr_t m = o->m, n = o->n;
    const lanes_matrix a = svd_matrix(x->a, m, n, false);
    if (o->k > n) q_store_complement(&o->large, o->k, q, a, x->tau, x->x, count);
    svd_form_large(x, sign, m, n, false);
    gather_rows(a, n);
    lanes_store(&o->large, q, x->a, m, n, count);
}
#endif

/* --- Groups of matrices ------------------------------------------------------------------------------------------- */

/* s, scaled back, and info; whether a lane has no result. */
INLINE vec svd_store_values(const svd_operands *o, intptr_t q, svd_stack *x, intptr_t n, intptr_t count,
                            const bool unrolled) {
    const vec zero = lane_set(0), times = lane_select(lane_equal(x->info, zero), x->back, lane_set(NAN));
    if (unrolled)
        UNROLLED(intptr_t j = 0; j < n; j++) x->s[j] = lane_mul(x->s[j], times);
    else
        ROLLED(intptr_t j = 0; j < n; j++) x->s[j] = lane_mul(x->s[j], times);
    lanes_store(&o->s, q, x->s, n, 1, count);
    lanes_store_int(&o->info, q, x->info, count);
    return lane_select(lane_equal(times, times), zero, lane_set(1));
}

#if !defined(REAL_DTYPE)
/* As svd_sort. Few: neighbours are exchanged until all are in order. */
INLINE void svd_sort_few(svd_stack *x, const intptr_t n) {
    vec *const to = x->x, squares[SVD_FEW], largest[SVD_FEW];
    UNROLLED(intptr_t j = 0; j < n; j++) {
        x->perm[j] = lane_set((T)j);
        squares[j] = lane_set(0);
        UNROLLED(intptr_t i = 0; i < n; i++) {
            to[i * n + j] = x->a[i * n + j];
            squares[j] = lane_fma(to[i * n + j], to[i * n + j], squares[j]);
        }
    }
    UNROLLED(intptr_t last = n - 1; last > 0; last--)
        UNROLLED(intptr_t j = 0; j < last; j++) {
            const mask m = lane_greater(squares[j + 1], squares[j]);
            lane_exchange(m, &squares[j], &squares[j + 1]);
            lane_exchange(m, &x->perm[j], &x->perm[j + 1]);
            UNROLLED(intptr_t row = 0; row < n * n; row += n) lane_exchange(m, &to[row + j], &to[row + j + 1]);
        }
    UNROLLED(intptr_t i = 0; i < n; i++) {
        largest[i] = lane_set(0);
        UNROLLED(intptr_t j = 0; j < n; j++) largest[i] = lane_max(lane_abs(to[i * n + j]), largest[i]);
    }
    UNROLLED(intptr_t last = n - 1; last > 0; last--)
        UNROLLED(intptr_t i = 0; i < last; i++) {
            const mask m = lane_greater(largest[i + 1], largest[i]);
            lane_exchange(m, &largest[i], &largest[i + 1]);
            UNROLLED(intptr_t j = 0; j < n; j++) lane_exchange(m, &to[i * n + j], &to[(i + 1) * n + j]);
        }
}

/* Columns of V P in the order of their lengths. */
INLINE void svd_arrange_few(svd_stack *x, const intptr_t n, const bool vectors) {
    vec *const from = x->x;
    UNROLLED(intptr_t j = 0; j < n; j++) x->s[j] = svd_length(from + j * n, n, true);
    UNROLLED(intptr_t last = n - 1; last > 0; last--)
        UNROLLED(intptr_t j = 0; j < last; j++) {
            const mask m = lane_greater(x->s[j + 1], x->s[j]);
            lane_exchange(m, &x->s[j], &x->s[j + 1]);
            if (vectors)
                UNROLLED(intptr_t k = 0; k < n; k++) lane_exchange(m, &from[j * n + k], &from[(j + 1) * n + k]);
        }
    if (!vectors) return;
    UNROLLED(intptr_t i = 0; i < n; i++) {
        UNROLLED(intptr_t j = 0; j < n; j++) x->v[i * n + j] = from[j * n];
        UNROLLED(intptr_t k = 1; k < n; k++) {
            const mask here = lane_equal(x->perm[k], lane_set((T)i));
            UNROLLED(intptr_t j = 0; j < n; j++) x->v[i * n + j] = lane_select(here, from[j * n + k], x->v[i * n + j]);
        }
    }
}

/* A constant order of at most SVD_FEW. Where matrices are left for one group, the other does the same. */
INLINE void svd_lanes_few(const smm_call *call, intptr_t first, intptr_t last, bool cold, const intptr_t n,
                          const bool vectors) {
    const svd_operands o = svd_operands_of(call, vectors);
    for (intptr_t q = first; q < last; q += SVD_GROUPS * LANES) {
        vec a[SVD_GROUPS][SVD_FEW * SVD_FEW], r[SVD_GROUPS][SVD_FEW * SVD_FEW], v[SVD_GROUPS][SVD_FEW * SVD_FEW];
        svd_stack x[SVD_GROUPS];
        UNROLLED(int g = 0; g < SVD_GROUPS; g++) {
            const intptr_t at = q + g * LANES < last ? q + g * LANES : q;
            if (cold) prefetch(ahead_of(&o.a, at, LANES * n * n), LANES * n * n);
            x[g].a = a[g];
            x[g].x = r[g];
            x[g].v = v[g];
            svd_load(&o, at, &x[g], n, n, min_of(LANES, last - at), true);
            svd_sort_few(&x[g], n);
            svd_reduce(&x[g], n, n, true, false, NULL);
        }
        svd_iterate_few(x, n);
        UNROLLED(int g = 0; g < SVD_GROUPS; g++) {
            const intptr_t at = q + g * LANES < last ? q + g * LANES : q, count = min_of(LANES, last - at);
            svd_arrange_few(&x[g], n, vectors);
            const vec bad = svd_store_values(&o, at, &x[g], n, count, true);
            if (!vectors) continue;
            vec sign[SVD_FEW], y[SVD_FEW * SVD_FEW];
            svd_form_small(&x[g], n, true);
            svd_factor_large(&x[g], sign, n, n, true);
            svd_form_large(&x[g], sign, n, n, true);
            UNROLLED(intptr_t i = 0; i < n; i++)
                UNROLLED(intptr_t j = 0; j < n; j++) y[j * n + i] = v[g][i * n + j];
            lanes_store(&call->svd.vt, at, y, n, n, count);
            lanes_store(&o.large, at, a[g], n, n, count);
            lanes_fill_nan(&o.small, at, bad, n, n, count);
            lanes_fill_nan(&o.large, at, bad, n, n, count);
        }
    }
}
#endif

typedef struct svd_workspace {
    elem a[QR_WORKSPACE], x[QR_WORKSPACE], v[QR_WORKSPACE];
} svd_workspace;
static intptr_t KERNEL(svd_lanes_workspace)(const smm_call *call) {
    (void)call;
    return sizeof(svd_workspace);
}

/* V, and U, which is made of A and V; x->x, which may be V, is overwritten. NaN where `bad` is not zero. */
INLINE void svd_store_vectors(const svd_operands *o, intptr_t q, svd_stack *x, vec bad, intptr_t m, intptr_t n,
                              intptr_t count, const bool unrolled) {
    vec sign[SMM_MAX_ORDER];
    svd_factor_large(x, sign, m, n, unrolled);
    gather_rows(elem_parts(svd_matrix(x->v, n, n, false)), PARTS * n);
    for (intptr_t e = 0; e < n * n && PARTS > 1; e++) x->v[e] = elem_add(elem_conj(x->v[e]), elem_set(0));
    KERNEL(elem_store)(&o->small, q, x->v, n, n, count);
    svd_store_large(o, q, x, sign, count);
    KERNEL(elem_fill_nan)(&o->small, q, bad, n, n, count);
    KERNEL(elem_fill_nan)(&o->large, q, bad, m, o->k, count);
}

INLINE void svd_lanes_of(const smm_call *call, intptr_t first, intptr_t last, bool cold, const bool vectors,
                         svd_stack x, intptr_t m, intptr_t n, const bool unrolled) {
    const svd_operands o = svd_operands_of(call, vectors);
    svd_round rounds[SMM_JACOBI_MAX];
    svd_plan_rounds(rounds, n);
    for (intptr_t q = first; q < last; q += LANES) {
        const intptr_t count = min_of(LANES, last - q);
        svd_load(&o, q, &x, m, n, count, unrolled);
        svd_sort(&x, m, n);
        svd_reduce(&x, m, n, unrolled, cold, ahead_of(&o.a, q, PARTS * LANES * m * n));
        svd_iterate(&x, rounds, n);
        svd_arrange(&x, n, vectors);
        const vec bad = svd_store_values(&o, q, &x, n, count, unrolled);
        if (!vectors) continue;
        svd_form_small(&x, n, unrolled);
        svd_store_vectors(&o, q, &x, bad, m, n, count, unrolled);
    }
}

#if defined(REAL_DTYPE)
/* A constant order. */
INLINE void svd_lanes_few(const smm_call *call, intptr_t first, intptr_t last, bool cold, const intptr_t n,
                          const bool vectors) {
    elem a[SVD_FEW * SVD_FEW], x[SVD_FEW * SVD_FEW], v[SVD_FEW * SVD_FEW];
    svd_lanes_of(call, first, last, cold, vectors, (svd_stack){.a = a, .x = x, .v = v}, n, n, true);
}
#endif

static void KERNEL(svd_lanes)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) {
    const bool vectors = call->op != SMM_OP_SVDVALS;
    const svd_operands o = svd_operands_of(call, vectors);
    svd_workspace *const workspace = smm_kernel_workspace();
    const svd_stack x = {.a = workspace->a, .x = workspace->x, .v = workspace->v};
    svd_lanes_of(call, first, last, cold, vectors, x, o.m, o.n, false);
}
