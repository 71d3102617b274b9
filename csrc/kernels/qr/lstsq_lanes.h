/* lstsq_lanes.h: least squares by QR with column pivoting and a complete orthogonal factorization (LAPACK's gelsy),
 * LANES matrices side by side. Each lane has pivots and a rank of its own: columns are exchanged and tails taken lane
 * by lane, by selection. */

/* What a lane's matrix is, once factored: A P = Q (R; 0), and the first `rank` rows of R = (T 0) H_0 H_1 ... */
typedef struct lstsq_factors {
    lanes_matrix a;                                /* R above the reflectors of Q; and, right of T, of H */
    vec *perm;                                     /* the column of A that column j was */
    vec tau[SMM_MOST_ORDER], tail[SMM_MOST_ORDER]; /* of Q, of H */
    vec scale;                                     /* A was scaled by it */
    vec rank;
    mask finite;     /* A has no NaN and no infinity */
    mask has_tail;   /* rank < n */
    intptr_t before; /* no lane's tail begins before this column */
} lstsq_factors;

/* Lanes whose tail has column j. */
INLINE mask in_tail(const lstsq_factors *f, intptr_t j) { return ~lane_greater(f->rank, lane_set((T)j)); }

/* A, scaled to about 1. */
INLINE void lstsq_load(const smm_call *call, intptr_t q, lstsq_factors *f, intptr_t count) {
    lanes_load(f->a.at, &call->lstsq.a, q, f->a.m, f->a.n, count);
    vec most = lane_set(0), nothing = lane_set(0);
    for (intptr_t i = 0; i < f->a.m * f->a.n; i++) {
        most = lane_max(lane_abs(f->a.at[i]), most);
        nothing = lane_fma(f->a.at[i], lane_set(0), nothing);
    }
    f->finite = lane_equal(nothing, lane_set(0));
    f->scale = lane_scale_to_one(most);
    scale_column(f->a.at, 1, f->scale, f->a.m * f->a.n, false);
    spread_rows(f->a);
}

/* The column whose rest from row k on is longest, the first of equals. */
INLINE vec longest_column(const lstsq_factors *f, intptr_t k) {
    const intptr_t m = f->a.m, n = f->a.n;
    vec longest = lane_set((T)k), most = lane_set(0);
    for (intptr_t j = k, width; j < n; j += width) {
        width = least(REFLECTED, n - j);
        vec s[REFLECTED];
        UNROLLED(int c = 0; c < REFLECTED; c++) s[c] = lane_set(0);
        for (intptr_t i = k; i < m; i++) {
            const vec *row = f->a.at + i * f->a.step + j;
            if (width == REFLECTED)
                UNROLLED(int c = 0; c < REFLECTED; c++) s[c] = lane_fma(row[c], row[c], s[c]);
            else
                ROLLED(int c = 0; c < width; c++) s[c] = lane_fma(row[c], row[c], s[c]);
        }
        if (j == k) most = s[0];
        ROLLED(int c = 0; c < width; c++) {
            const mask longer = lane_greater(s[c], most);
            most = lane_select(longer, s[c], most);
            longest = lane_select(longer, lane_set((T)(j + c)), longest);
        }
    }
    return longest;
}

/* A P = Q R. */
INLINE void factor_pivoting(lstsq_factors *f) {
    const intptr_t m = f->a.m, n = f->a.n, step = f->a.step;
    for (intptr_t j = 0; j < n; j++) f->perm[j] = lane_set((T)j);
    for (intptr_t k = 0; k < least(m, n); k++) {
        const vec longest = longest_column(f, k);
        for (intptr_t j = k + 1; j < n; j++) {
            const mask here = lane_equal(longest, lane_set((T)j));
            if (!lane_any(here)) continue;
            lane_exchange(here, &f->perm[k], &f->perm[j]);
            for (intptr_t i = 0; i < m; i++) lane_exchange(here, &f->a.at[i * step + k], &f->a.at[i * step + j]);
        }
        qr_step(f->a, f->tau, k, false);
    }
}

/* The rank where `counts`, elsewhere 0. x, y: room for min(m, n) each. */
SHARED vec KERNEL(estimate_rank)(const lanes_matrix *a, vec rtol, mask counts, vec *x, vec *y) {
    const vec zero = lane_set(0), one = lane_set(1);
    vec largest = lane_abs(a->at[0]), smallest = largest;
    counts &= lane_greater(largest, zero);
    vec rank = lane_select(counts, one, zero);
    x[0] = y[0] = one;
    for (intptr_t k = 1; k < least(a->m, a->n) && lane_any(counts); k++) {
        vec along_x = zero, along_y = zero;
        for (intptr_t i = 0; i < k; i++) {
            const vec r = a->at[i * a->step + k];
            along_x = lane_fma(x[i], r, along_x);
            along_y = lane_fma(y[i], r, along_y);
        }
        const vec gamma = a->at[k * a->step + k];
        const extension l = largest_extension(largest, along_x, gamma);
        const extension s = smallest_extension(smallest, along_y, gamma);
        counts &= lane_greater(s.sigma, zero) & is_at_most(lane_mul(rtol, l.sigma), s.sigma);
        rank = lane_select(counts, lane_add(rank, one), rank);
        for (intptr_t i = 0; i < k; i++) x[i] = lane_mul(l.s, x[i]), y[i] = lane_mul(s.s, y[i]);
        x[k] = l.c, y[k] = s.c;
        largest = l.sigma, smallest = s.sigma;
    }
    return rank;
}

/* Of the leading blocks of R up to the first whose estimated condition is above 1 / rtol, the largest. x: room for 2
 * min(m, n). */
INLINE void find_rank(const smm_call *call, intptr_t q, lstsq_factors *f, vec *x, intptr_t count) {
    vec rtol = lane_set(0);
    const smm_operand scalars = {call->lstsq.rtol.data, call->lstsq.rtol.batch, sizeof(T), sizeof(T)};
    if (scalars.data) lanes_load(&rtol, &scalars, q, 1, 1, count);
    const intptr_t p = least(f->a.m, f->a.n);
    if (lane_any(f->finite & ~has_full_rank(&f->a, rtol, x)))
        f->rank = KERNEL(estimate_rank)(&f->a, rtol, f->finite, x, x + p);
    else
        f->rank = lane_select(f->finite, lane_set((T)p), lane_set(0));
    f->has_tail = lane_greater(lane_set((T)f->a.n), f->rank);
    T ranks[LANES];
    lane_store(ranks, f->rank);
    f->before = f->a.n;
    for (int l = 0; l < LANES; l++) f->before = least(f->before, (intptr_t)ranks[l]);
}

/* y = H_i y, where m holds: y_i and the tail of y change. Elements of y lie `step` vectors apart. */
INLINE void reflect_tail(const lstsq_factors *f, const vec *v, intptr_t i, mask m, vec *y, intptr_t step) {
    const intptr_t from = f->before > i ? f->before : i + 1;
    vec w = y[i * step];
    for (intptr_t j = from; j < f->a.n; j++) w = lane_select(in_tail(f, j), lane_fma(v[j], y[j * step], w), w);
    w = lane_mul(f->tail[i], w);
    y[i * step] = lane_select(m, lane_sub(y[i * step], w), y[i * step]);
    for (intptr_t j = from; j < f->a.n; j++)
        y[j * step] = lane_select(m & in_tail(f, j), lane_fnma(v[j], w, y[j * step]), y[j * step]);
}

/* The first `rank` rows of R become (T 0): H_i overwrites the tail of row i. As LAPACK's tzrzf. x: room for a row. */
INLINE void annihilate_tails(lstsq_factors *f, vec *x) {
    const intptr_t n = f->a.n;
    for (intptr_t i = least(f->a.m, n) - 1; i >= 0 && lane_any(f->has_tail); i--) {
        const mask here = f->has_tail & lane_greater(f->rank, lane_set((T)i));
        vec *row = f->a.at + i * f->a.step;
        x[i] = row[i];
        for (intptr_t j = i + 1; j < n; j++) x[j] = lane_select(in_tail(f, j), row[j], lane_set(0));
        f->tail[i] = reflector(x + i, 1, n - i, false);
        row[i] = lane_select(here, x[i], row[i]);
        for (intptr_t j = i + 1; j < n; j++) row[j] = lane_select(here & in_tail(f, j), x[j], row[j]);
        for (intptr_t h = 0; h < i; h++) reflect_tail(f, row, i, here, f->a.at + h * f->a.step, 1);
    }
}

/* x = solution of T x = x, zero beyond the rank; `width` columns. */
INLINE void solve_triangle(const lstsq_factors *f, vec *x, intptr_t width) {
    const intptr_t n = f->a.n, step = f->a.step;
    for (intptr_t i = 0; i < n; i++)
        for (intptr_t c = 0; c < width; c++)
            x[i * width + c] = i < f->a.m ? lane_select(in_tail(f, i), lane_set(0), x[i * width + c]) : lane_set(0);
    for (intptr_t j = least(f->a.m, n) - 1; j >= 0; j--) {
        const mask here = lane_greater(f->rank, lane_set((T)j));
        const vec p = f->a.at[j * step + j], r = lane_div(lane_set(1), p);
        for (intptr_t c = 0; c < width; c++) {
            vec *y = x + j * width + c;
            *y = lane_select(here, lu_quotient(*y, p, r), *y);
            for (intptr_t i = 0; i < j; i++)
                x[i * width + c] =
                    lane_select(here, lane_fnma(f->a.at[i * step + j], *y, x[i * width + c]), x[i * width + c]);
        }
    }
}

/* Column c of b is scaled to about 1; by what is the result. */
INLINE vec scale_to_solve(const lstsq_factors *f, vec *b, intptr_t width) {
    vec most = lane_set(0);
    for (intptr_t i = 0; i < f->a.m; i++) most = lane_max(lane_abs(b[i * width]), most);
    const vec scale = lane_scale_to_one(most);
    scale_column(b, width, scale, f->a.m, false);
    return scale;
}

/* What Q^T b has beyond the rank is the residual; its norm. */
INLINE vec residual_norm(const lstsq_factors *f, const vec *b, intptr_t width) {
    vec s = lane_set(0);
    for (intptr_t i = f->before; i < f->a.m; i++)
        s = lane_select(in_tail(f, i), lane_fma(b[i * width], b[i * width], s), s);
    return lane_sqrt(s);
}

/* Column c of C: x, scaled back, its rows where the columns of A were. By both powers of two at once where that is a
 * number: one after the other, opposite ones may overflow on the way. */
INLINE void store_permuted(const smm_call *call, intptr_t q, intptr_t c, const lstsq_factors *f, const vec *x,
                           intptr_t width, vec back, intptr_t count) {
    const vec both = lane_mul(back, f->scale);
    const mask at_once = lane_greater(both, lane_set(0)) & lane_greater(lane_set(INFINITY), both);
    const vec first = lane_select(at_once, both, back), second = lane_select(at_once, lane_set(1), f->scale);
    for (intptr_t j = 0; j < f->a.n; j++) {
        T value[LANES], row[LANES];
        const vec y = lane_mul(lane_mul(x[j * width], first), second);
        lane_store(value, lane_select(f->finite, y, lane_set(NAN)));
        lane_store(row, f->perm[j]);
        for (int l = 0; l < count; l++)
            *(T *)((char *)call->lstsq.x.data + (q + l) * call->lstsq.x.batch + (intptr_t)row[l] * call->lstsq.x.row +
                   c * call->lstsq.x.col) = value[l];
    }
}

/* Right-hand sides first .. first + width - 1, in x. */
INLINE void lstsq_solve(const smm_call *call, intptr_t q, const lstsq_factors *f, vec *x, intptr_t first,
                        intptr_t width, intptr_t count) {
    const intptr_t m = f->a.m, step = f->a.step, p = least(m, f->a.n);
    smm_operand b = call->lstsq.b, d = call->lstsq.residuals;
    b.data = (char *)b.data + first * b.col;
    d.data = (char *)d.data + first * d.row;
    lanes_load(x, &b, q, m, width, count);
    vec back[REFLECTED], norm[REFLECTED];
    for (intptr_t c = 0; c < width; c++) back[c] = lane_div(lane_set(1), scale_to_solve(f, x + c, width));
    for (intptr_t k = 0; k < p; k++)
        reflect((reflection){f->a.at + k * step + k, step, m - k, f->tau[k]}, x + k * width, width, width, false,
                false);
    for (intptr_t c = 0; c < width; c++)
        norm[c] = lane_select(f->finite, lane_mul(residual_norm(f, x + c, width), back[c]), lane_set(NAN));
    lanes_store(&d, q, norm, width, 1, count);
    solve_triangle(f, x, width);
    for (intptr_t i = 0; i < p && lane_any(f->has_tail); i++)
        for (intptr_t c = 0; c < width; c++)
            reflect_tail(f, f->a.at + i * step, i, f->has_tail & lane_greater(f->rank, lane_set((T)i)), x + c, width);
    for (intptr_t c = 0; c < width; c++) store_permuted(call, q, first + c, f, x + c, width, back[c], count);
}

typedef struct lstsq_workspace {
    vec a[QR_WORKSPACE], perm[QR_ELEMENTS], x[QR_ELEMENTS];
} lstsq_workspace;
_Static_assert(sizeof(lstsq_workspace) <= SMM_KERNEL_WORKSPACE, "workspace of lstsq_lanes");

static void KERNEL(lstsq_lanes)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) {
    (void)cold;
    lstsq_workspace *const workspace = smm_kernel_workspace();
    vec *const x = workspace->x;
    const intptr_t m = call->m, n = call->n;
    lstsq_factors f = {.a = {workspace->a, m, n, row_step(n)}, .perm = workspace->perm};
    for (intptr_t q = first; q < last; q += LANES) {
        const intptr_t count = least(LANES, last - q);
        lstsq_load(call, q, &f, count);
        factor_pivoting(&f);
        find_rank(call, q, &f, x, count);
        annihilate_tails(&f, x);
        const intptr_t most = least(REFLECTED, QR_ELEMENTS / (m > n ? m : n));
        for (intptr_t c = 0; c < call->k; c += most) lstsq_solve(call, q, &f, x, c, least(most, call->k - c), count);
        lanes_store_int(&call->lstsq.rank, q, f.rank, count);
        lanes_store_int(&call->lstsq.info, q, lane_set(0), count);
    }
}
