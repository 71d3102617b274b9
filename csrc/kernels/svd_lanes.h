/* svd_lanes.h: singular values and singular vectors of orders up to SVD_JACOBI_MOST, LANES matrices side by side:
 * one-sided Jacobi rotations of a triangular factor (Hestenes, J. SIAM 6, 1958; Demmel and Veselic, SIAM J. Matrix
 * Anal. Appl. 13, 1992; Drmac and Veselic, the same 29, 2008).
 *
 * A matrix that is wider than tall is transposed. The columns of A are sorted by length: A P = Q R. Rotations make the
 * rows of R orthogonal; their lengths are the singular values, and QR of R^T P^T gives V, orthogonal whatever the rank.
 * QR of A V gives U. The columns of V and of A V are in descending order, so both triangular factors are diagonal but
 * for rounding.
 *
 * Each lane's rows converge by themselves: where two rows are orthogonal the rotation is the identity, which changes at
 * most the sign of a zero, and in the end all zeros are positive. Where `unrolled`, the order is a constant and
 * matrices are square; two groups of lanes go side by side, for a rotation takes long before it begins. */

/* LANES matrices under way: m x n, m >= n. */
typedef struct svd_stack {
    vec *a;                   /* A, then A V, then U */
    vec *x;                   /* A P, then R, whose rows are rotated */
    vec *v;                   /* V */
    vec perm[SMM_MOST_ORDER]; /* the column of A that column j of A P was */
    vec s[SMM_MOST_ORDER], tau[SMM_MOST_ORDER];
    vec back, info; /* back undoes the scaling of A, and is NaN where that is not finite */
} svd_stack;

/* One of the three; sizes are arguments, so that they may be constants. */
INLINE lanes_matrix svd_matrix(vec *at, intptr_t m, intptr_t n, const bool unrolled) {
    return (lanes_matrix){at, m, n, unrolled ? n : row_step(n)};
}

/* --- A P = Q R ---------------------------------------------------------------------------------------------------- */

/* Times a power of two that brings it to about 1; zero where it is not finite. */
INLINE void svd_scale_part(vec x, vec *most, vec *nothing) {
    *most = lane_max(lane_abs(x), *most);
    *nothing = lane_fma(x, lane_set(0), *nothing);
}
INLINE void svd_load(const svd_operands *o, intptr_t q, svd_stack *x, intptr_t m, intptr_t n, intptr_t count,
                     const bool unrolled) {
    const intptr_t size = m * n;
    vec *const a = x->a, most = lane_set(0), nothing = lane_set(0);
    lanes_load(a, &o->a, q, m, n, count);
    if (unrolled)
        UNROLLED(intptr_t e = 0; e < size; e++) svd_scale_part(a[e], &most, &nothing);
    else
        ROLLED(intptr_t e = 0; e < size; e++) svd_scale_part(a[e], &most, &nothing);
    const mask finite = lane_equal(nothing, lane_set(0));
    const vec scale = lane_scale_to_one(most);
    x->back = lane_select(finite, lane_div(lane_set(1), scale), lane_set(NAN));
    if (__builtin_expect(lane_any(~(finite & lane_equal(scale, lane_set(1)))), 0))
        ROLLED(intptr_t e = 0; e < size; e++) a[e] = lane_select(finite, lane_mul(a[e], scale), lane_set(0));
    if (!unrolled) spread_rows(svd_matrix(a, m, n, false));
}

/* Columns by length, the longest first. Few: neighbours are exchanged until all are in order. */
INLINE void svd_sort_few(svd_stack *x, const intptr_t n) {
    vec *const to = x->x, squares[SVD_FEW];
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
}

/* Many. */
INLINE void svd_sort(svd_stack *x, intptr_t m, intptr_t n) {
    const intptr_t step = row_step(n);
    int32_t place[SMM_MOST_ORDER][LANES];
    vec squares[SMM_MOST_ORDER];
    for (intptr_t j = 0; j < n; j++) squares[j] = lane_set(0);
    for (intptr_t i = 0; i < m; i++)
        for (intptr_t j = 0; j < n; j++) {
            const vec y = x->a[i * step + j];
            squares[j] = lane_fma(y, y, squares[j]);
        }
    svd_places(place, squares, n);
    for (intptr_t j = 0; j < n; j++) svd_scatter(x->perm, place[j], lane_set((T)j));
    for (intptr_t i = 0; i < m; i++)
        for (intptr_t j = 0; j < n; j++) svd_scatter(x->x + i * step, place[j], x->a[i * step + j]);
}

INLINE void svd_reduce(svd_stack *x, intptr_t m, intptr_t n, const bool unrolled, bool cold, const T *next) {
    const lanes_matrix r = svd_matrix(x->x, m, n, unrolled);
    if (unrolled)
        svd_sort_few(x, n);
    else
        svd_sort(x, m, n);
    qr_factor(r, x->tau, unrolled, cold, next);
    if (unrolled)
        UNROLLED(intptr_t i = 1; i < n; i++)
            UNROLLED(intptr_t j = 0; j < i; j++) r.at[i * r.step + j] = lane_set(0);
    else
        ROLLED(intptr_t i = 1; i < n; i++)
            ROLLED(intptr_t j = 0; j < i; j++) r.at[i * r.step + j] = lane_set(0);
}

/* --- Rotations ---------------------------------------------------------------------------------------------------- */

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

/* |x|, of contiguous elements; scaled where squares are out of range. */
INLINE vec svd_length(const vec *x, intptr_t n, const bool unrolled) {
    const vec one = lane_set(1), low = lane_set(SQUARES_LOW);
    const vec squares = lane_fma(x[0], x[0], sum_of_squares(x, 1, n, unrolled));
    if (__builtin_expect(!lane_any(lane_greater(low, squares)), 1)) return lane_sqrt(squares);
    const mask small = lane_greater(low, squares);
    const vec up = lane_select(small, lane_set(SCALE_UP), one), down = lane_select(small, lane_set(SCALE_DOWN), one);
    vec y[SMM_MOST_ORDER];
    for (intptr_t k = 0; k < n; k++) y[k] = lane_mul(x[k], up);
    return lane_mul(lane_sqrt(lane_fma(y[0], y[0], sum_of_squares(y, 1, n, false))), down);
}

/* --- V, s and U --------------------------------------------------------------------------------------------------- */

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
INLINE void svd_arrange(svd_stack *x, intptr_t n, const bool vectors) {
    const intptr_t step = row_step(n);
    int32_t place[SMM_MOST_ORDER][LANES], row[SMM_MOST_ORDER][LANES];
    vec s[SMM_MOST_ORDER];
    for (intptr_t j = 0; j < n; j++) {
        s[j] = svd_length(x->x + j * step, n, false);
        lane_store_int(row[j], lane_mul(x->perm[j], lane_set((T)step)));
    }
    svd_places(place, s, n);
    for (intptr_t j = 0; j < n; j++) svd_scatter(x->s, place[j], s[j]);
    for (intptr_t j = 0; j < n && vectors; j++)
        for (intptr_t k = 0; k < n; k++) {
            int32_t at[LANES];
            UNROLLED(int l = 0; l < LANES; l++) at[l] = row[k][l] + place[j][l];
            svd_scatter(x->v, at, x->x[j * step + k]);
        }
}

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

/* A = A V, row by row. */
INLINE void svd_multiply_row(vec *row, const vec *v, intptr_t step, intptr_t n, const bool unrolled) {
    vec y[SMM_MOST_ORDER];
    if (unrolled) {
        UNROLLED(intptr_t j = 0; j < n; j++) y[j] = lane_mul(row[0], v[j]);
        UNROLLED(intptr_t k = 1; k < n; k++)
            UNROLLED(intptr_t j = 0; j < n; j++) y[j] = lane_fma(row[k], v[k * step + j], y[j]);
        UNROLLED(intptr_t j = 0; j < n; j++) row[j] = y[j];
        return;
    }
    intptr_t j = 0;
    ROLLED(; j + REFLECTED <= n; j += REFLECTED) {
        vec sum[REFLECTED];
        UNROLLED(int c = 0; c < REFLECTED; c++) sum[c] = lane_mul(row[0], v[j + c]);
        ROLLED(intptr_t k = 1; k < n; k++) add_products(sum, row[k], v + k * step + j, REFLECTED);
        UNROLLED(int c = 0; c < REFLECTED; c++) y[j + c] = sum[c];
    }
    ROLLED(; j < n; j++) {
        vec sum = lane_mul(row[0], v[j]);
        ROLLED(intptr_t k = 1; k < n; k++) sum = lane_fma(row[k], v[k * step + j], sum);
        y[j] = sum;
    }
    ROLLED(j = 0; j < n; j++) row[j] = y[j];
}

/* U of A V = U R, with a sign for each column that makes the diagonal of R positive. */
INLINE void svd_factor_large(svd_stack *x, vec *sign, intptr_t m, intptr_t n, const bool unrolled) {
    const vec one = lane_set(1), zero = lane_set(0);
    const lanes_matrix a = svd_matrix(x->a, m, n, unrolled), v = svd_matrix(x->v, n, n, unrolled);
    if (unrolled)
        UNROLLED(intptr_t i = 0; i < a.m; i++) svd_multiply_row(a.at + i * a.step, v.at, v.step, a.n, true);
    else
        ROLLED(intptr_t i = 0; i < a.m; i++) svd_multiply_row(a.at + i * a.step, v.at, v.step, a.n, false);
    qr_factor(a, x->tau, unrolled, false, NULL);
    if (unrolled)
        UNROLLED(intptr_t j = 0; j < n; j++)
            sign[j] = lane_select(lane_greater(zero, a.at[j * a.step + j]), lane_set(-1), one);
    else
        ROLLED(intptr_t j = 0; j < n; j++)
            sign[j] = lane_select(lane_greater(zero, a.at[j * a.step + j]), lane_set(-1), one);
}
INLINE void svd_form_large(svd_stack *x, const vec *sign, intptr_t m, intptr_t n, const bool unrolled) {
    const lanes_matrix a = svd_matrix(x->a, m, n, unrolled);
    q_form(a, x->tau, unrolled);
    if (unrolled)
        UNROLLED(intptr_t j = 0; j < n; j++) svd_sign_column(a, j, sign[j], true);
    else
        ROLLED(intptr_t j = 0; j < n; j++) svd_sign_column(a, j, sign[j], false);
}

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
            svd_load(&o, at, &x[g], n, n, least(LANES, last - at), true);
            svd_reduce(&x[g], n, n, true, false, NULL);
        }
        svd_iterate_few(x, n);
        UNROLLED(int g = 0; g < SVD_GROUPS; g++) {
            const intptr_t at = q + g * LANES < last ? q + g * LANES : q, count = least(LANES, last - at);
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
            lanes_spoil(&o.small, at, bad, n, n, count);
            lanes_spoil(&o.large, at, bad, n, n, count);
        }
    }
}

typedef struct svd_room {
    vec a[QR_ROOM], x[QR_ROOM], v[QR_ROOM];
} svd_room;
_Static_assert(sizeof(svd_room) <= SMM_KERNEL_ROOM, "room of svd_lanes");

/* V, and U, which is made of A and V; x->x is overwritten. NaN where `bad` is not zero. */
INLINE void svd_store_vectors(const svd_operands *o, intptr_t q, svd_stack *x, vec bad, intptr_t count) {
    const intptr_t m = o->m, n = o->n;
    const lanes_matrix a = svd_matrix(x->a, m, n, false);
    vec sign[SMM_MOST_ORDER];
    svd_factor_large(x, sign, m, n, false);
    gather_rows(svd_matrix(x->v, n, n, false), n);
    lanes_store(&o->small, q, x->v, n, n, count);
    if (o->k > n) q_store_complement(&o->large, o->k, q, a, x->tau, x->x, count);
    svd_form_large(x, sign, m, n, false);
    gather_rows(a, n);
    lanes_store(&o->large, q, x->a, m, n, count);
    lanes_spoil(&o->small, q, bad, n, n, count);
    lanes_spoil(&o->large, q, bad, m, o->k, count);
}

INLINE void svd_lanes_any(const smm_call *call, intptr_t first, intptr_t last, bool cold, const bool vectors) {
    const svd_operands o = svd_operands_of(call, vectors);
    const intptr_t m = o.m, n = o.n;
    svd_room *const room = smm_kernel_room();
    svd_round rounds[SMM_MOST_ORDER];
    svd_stack x = {.a = room->a, .x = room->x, .v = room->v};
    svd_plan_rounds(rounds, n);
    for (intptr_t q = first; q < last; q += LANES) {
        const intptr_t count = least(LANES, last - q);
        svd_load(&o, q, &x, m, n, count, false);
        svd_reduce(&x, m, n, false, cold, ahead_of(&o.a, q, LANES * m * n));
        svd_iterate(&x, rounds, n);
        svd_arrange(&x, n, vectors);
        const vec bad = svd_store_values(&o, q, &x, n, count, false);
        if (!vectors) continue;
        svd_form_small(&x, n, false);
        svd_store_vectors(&o, q, &x, bad, count);
    }
}

static void KERNEL(svd_lanes)(const smm_call *call, intptr_t first, intptr_t last, smm_behind *cold) {
    svd_lanes_any(call, first, last, cold, true);
}
static void KERNEL(svdvals_lanes)(const smm_call *call, intptr_t first, intptr_t last, smm_behind *cold) {
    svd_lanes_any(call, first, last, cold, false);
}
