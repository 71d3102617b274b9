/* lstsq_lanes.h: least squares by QR with column pivoting and a complete orthogonal factorization (LAPACK's gelsy),
 * LANES matrices side by side: one text over the numbers of elements_real.h and those of elements_complex.h. Each lane
 * has pivots and a rank of its own: columns are exchanged and tails taken lane by lane, by selection. The diagonals of
 * R and T are real.
 */

/* What a lane's matrix is, once factored: A P = Q (R; 0), and the first `rank` rows of R = (T 0) H_0 H_1 ... */
typedef struct lstsq_factors {
    elem_matrix a;                                /* R above the reflectors of Q; and, right of T, of H */
    vec *perm;                                    /* the column of A that column j was */
    elem tau[SMM_MAX_ORDER], tail[SMM_MAX_ORDER]; /* of Q, of H */
    vec scale;                                    /* A was scaled by it */
    vec rank;
    mask finite;     /* A has no NaN and no infinity */
    mask has_tail;   /* rank < n */
    intptr_t before; /* no lane's tail begins before this column */
} lstsq_factors;

/* Lanes whose tail has column j. */
INLINE mask in_tail(const lstsq_factors *f, intptr_t j) { return ~lane_greater(f->rank, lane_set((T)j)); }

/* A, scaled to about 1. */
INLINE void lstsq_load(const smm_call *call, intptr_t q, lstsq_factors *f, intptr_t count) {
    const vec back = elem_load_scaled(f->a.at, &call->lstsq.a, q, f->a.m, f->a.n, count, false);
    f->finite = lane_equal(back, back);
    f->scale = lane_div(lane_set(1), back);
    spread_rows(elem_parts(f->a));
}

/* The squares of the lengths of a few columns from j on, their rests from row k on. */
INLINE void squares_of_columns(vec *squares, const lstsq_factors *f, intptr_t k, intptr_t j, const int width) {
    elem s[REFLECTED];
    UNROLLED(int c = 0; c < width; c++) s[c] = elem_set(0);
    for (intptr_t i = k; i < f->a.m; i++)
        UNROLLED(int c = 0; c < width; c++) s[c] = elem_add_squares(f->a.at[i * f->a.step + j + c], s[c]);
    UNROLLED(int c = 0; c < width; c++) squares[c] = elem_total(s[c]);
}

/* The column whose rest from row k on is longest, the first of equals. */
INLINE vec longest_column(const lstsq_factors *f, intptr_t k) {
    const intptr_t n = f->a.n;
    vec longest = lane_set((T)k), most = lane_set(0);
    for (intptr_t j = k, width; j < n; j += width) {
        vec squares[REFLECTED];
        width = n - j >= REFLECTED ? REFLECTED : n - j >= 4 ? 4 : n - j >= 2 ? 2 : 1;
        switch (width) {
        case 1: squares_of_columns(squares, f, k, j, 1); break;
        case 2: squares_of_columns(squares, f, k, j, 2); break;
        case 4: squares_of_columns(squares, f, k, j, 4); break;
        default: squares_of_columns(squares, f, k, j, REFLECTED);
        }
        if (j == k) most = squares[0];
        ROLLED(int c = 0; c < width; c++) {
            const mask longer = lane_greater(squares[c], most);
            most = lane_select(longer, squares[c], most);
            longest = lane_select(longer, lane_set((T)(j + c)), longest);
        }
    }
    return longest;
}

/* A P = Q R. */
INLINE void factor_pivoting(lstsq_factors *f) {
    const intptr_t m = f->a.m, n = f->a.n, step = f->a.step;
    for (intptr_t j = 0; j < n; j++) f->perm[j] = lane_set((T)j);
    for (intptr_t k = 0; k < min_of(m, n); k++) {
        const vec longest = longest_column(f, k);
        for (intptr_t j = k + 1; j < n; j++) {
            const mask here = lane_equal(longest, lane_set((T)j));
            if (!lane_any(here)) continue;
            lane_exchange(here, &f->perm[k], &f->perm[j]);
            for (intptr_t i = 0; i < m; i++) elem_exchange(here, &f->a.at[i * step + k], &f->a.at[i * step + j]);
        }
        qr_step(f->a, f->tau, k, false);
    }
}

/* x^H w, of column k of R above its diagonal: its magnitude, and a number of magnitude 1 along it. */
INLINE vec estimate_along(elem_matrix a, const elem *x, intptr_t k, elem *direction) {
    elem sum = elem_set(0);
    for (intptr_t i = 0; i < k; i++) sum = elem_fma(elem_conj(x[i]), a.at[i * a.step + k], sum);
    const vec size = elem_size_of_rank(elem_rank(sum));
    const mask some = lane_greater(size, lane_set(0));
    *direction = elem_select(some, elem_conj(elem_turn(sum, size)), elem_set(1));
    return size;
}
INLINE void estimate_extend(elem *x, intptr_t k, extension by, elem direction) {
    const elem factor = elem_scale(direction, by.s);
    for (intptr_t i = 0; i < k; i++) x[i] = elem_mul(factor, x[i]);
    x[k] = elem_of(by.c);
}

/* The rank where `counts`, elsewhere 0. x of an estimate is turned so that x^H w is its magnitude. x, y: workspace for
 * min(m, n) each. */
SHARED vec KERNEL(estimate_rank)(const elem_matrix *a, vec rtol, mask counts, elem *x, elem *y) {
    const vec zero = lane_set(0), one = lane_set(1);
    vec largest = lane_abs(elem_re(a->at[0])), smallest = largest;
    counts &= lane_greater(largest, zero);
    vec rank = lane_select(counts, one, zero);
    x[0] = y[0] = elem_set(1);
    for (intptr_t k = 1; k < min_of(a->m, a->n) && lane_any(counts); k++) {
        elem to_x, to_y;
        const vec along_x = estimate_along(*a, x, k, &to_x), along_y = estimate_along(*a, y, k, &to_y);
        const vec gamma = elem_re(a->at[k * a->step + k]);
        const extension l = largest_extension(largest, along_x, gamma);
        const extension s = smallest_extension(smallest, along_y, gamma);
        counts &= lane_greater(s.sigma, zero) & is_at_most(lane_mul(rtol, l.sigma), s.sigma);
        rank = lane_select(counts, lane_add(rank, one), rank);
        estimate_extend(x, k, l, to_x);
        estimate_extend(y, k, s, to_y);
        largest = l.sigma, smallest = s.sigma;
    }
    return rank;
}

/* Of the leading blocks of R up to the first whose estimated condition is above 1 / rtol, the largest. x: workspace for
 * 2 min(m, n). */
INLINE void find_rank(const smm_call *call, intptr_t q, lstsq_factors *f, elem *x, intptr_t count) {
    vec rtol = lane_set(0);
    const smm_operand scalars = {call->lstsq.rtol.data, call->lstsq.rtol.batch, sizeof(T), sizeof(T)};
    if (scalars.data) lanes_load(&rtol, &scalars, q, 1, 1, count);
    const intptr_t p = min_of(f->a.m, f->a.n);
    if (lane_any(f->finite & ~has_full_rank(&f->a, rtol, (vec *)x)))
        f->rank = KERNEL(estimate_rank)(&f->a, rtol, f->finite, x, x + p);
    else
        f->rank = lane_select(f->finite, lane_set((T)p), lane_set(0));
    f->has_tail = lane_greater(lane_set((T)f->a.n), f->rank);
    T ranks[LANES];
    lane_store(ranks, f->rank);
    f->before = f->a.n;
    for (int l = 0; l < LANES; l++) f->before = min_of(f->before, (intptr_t)ranks[l]);
}

/* y = H_i y, where m holds: y_i and the tail of y change; or, of a row, y = y H_i. Elements of y lie `step` numbers
 * apart. */
INLINE void reflect_tail(const lstsq_factors *f, const elem *v, intptr_t i, mask m, elem *y, intptr_t step,
                         const bool is_row) {
    const intptr_t from = f->before > i ? f->before : i + 1;
    elem w = y[i * step];
    for (intptr_t j = from; j < f->a.n; j++)
        w = elem_select(in_tail(f, j), elem_fma(is_row ? v[j] : elem_conj(v[j]), y[j * step], w), w);
    w = elem_mul(f->tail[i], w);
    y[i * step] = elem_select(m, elem_sub(y[i * step], w), y[i * step]);
    for (intptr_t j = from; j < f->a.n; j++) {
        const elem less = elem_fnma(is_row ? elem_conj(v[j]) : v[j], w, y[j * step]);
        y[j * step] = elem_select(m & in_tail(f, j), less, y[j * step]);
    }
}

/* The first `rank` rows of R become (T 0): H_i overwrites the tail of row i. As LAPACK's tzrzf: the reflector is that
 * of the conjugated row. x: workspace for a row. */
INLINE void annihilate_tails(lstsq_factors *f, elem *x) {
    const intptr_t n = f->a.n;
    for (intptr_t i = min_of(f->a.m, n) - 1; i >= 0 && lane_any(f->has_tail); i--) {
        const mask here = f->has_tail & lane_greater(f->rank, lane_set((T)i));
        elem *row = f->a.at + i * f->a.step;
        x[i] = elem_conj(row[i]);
        for (intptr_t j = i + 1; j < n; j++) x[j] = elem_select(in_tail(f, j), elem_conj(row[j]), elem_set(0));
        f->tail[i] = reflector(x + i, 1, n - i, false);
        row[i] = elem_select(here, x[i], row[i]);
        for (intptr_t j = i + 1; j < n; j++) row[j] = elem_select(here & in_tail(f, j), x[j], row[j]);
        for (intptr_t h = 0; h < i; h++) reflect_tail(f, row, i, here, f->a.at + h * f->a.step, 1, true);
    }
}

/* x = solution of T x = x, zero beyond the rank; `width` columns. */
INLINE void solve_triangle(const lstsq_factors *f, elem *x, intptr_t width) {
    const intptr_t n = f->a.n, step = f->a.step;
    for (intptr_t i = 0; i < n; i++)
        for (intptr_t c = 0; c < width; c++)
            x[i * width + c] = i < f->a.m ? elem_select(in_tail(f, i), elem_set(0), x[i * width + c]) : elem_set(0);
    for (intptr_t j = min_of(f->a.m, n) - 1; j >= 0; j--) {
        const mask here = lane_greater(f->rank, lane_set((T)j));
        const vec p = elem_re(f->a.at[j * step + j]), r = lane_div(lane_set(1), p);
        for (intptr_t c = 0; c < width; c++) {
            const elem y = x[j * width + c];
            const elem quotient = elem_select(lane_normal(r), elem_scale(y, r), elem_unscale(y, p));
            const elem x_j = x[j * width + c] = elem_select(here, quotient, y);
            for (intptr_t i = 0; i < j; i++)
                x[i * width + c] =
                    elem_select(here, elem_fnma(f->a.at[i * step + j], x_j, x[i * width + c]), x[i * width + c]);
        }
    }
}

/* Column c of b is scaled to about 1; by what is the result. */
INLINE vec scale_to_solve(const lstsq_factors *f, elem *b, intptr_t width) {
    vec most = lane_set(0);
    for (intptr_t i = 0; i < f->a.m; i++) most = elem_largest(b[i * width], most);
    const vec scale = lane_scale_to_one(most);
    scale_column(b, width, scale, f->a.m, false);
    return scale;
}

/* What Q^H b has beyond the rank is the residual; its norm. */
INLINE vec residual_norm(const lstsq_factors *f, const elem *b, intptr_t width) {
    elem s = elem_set(0);
    for (intptr_t i = f->before; i < f->a.m; i++) s = elem_select(in_tail(f, i), elem_add_squares(b[i * width], s), s);
    return lane_sqrt(elem_total(s));
}

/* Column c of C: x, scaled back, its rows where the columns of A were. By both powers of two at once where that is a
 * number: one after the other, opposite ones may overflow on the way. */
INLINE void store_permuted(const smm_operand *to, intptr_t q, intptr_t c, const lstsq_factors *f, const elem *x,
                           intptr_t width, vec back, intptr_t count) {
    const vec both = lane_mul(back, f->scale);
    const mask at_once = lane_greater(both, lane_set(0)) & lane_greater(lane_set(INFINITY), both);
    const vec first = lane_select(at_once, both, back), second = lane_select(at_once, lane_set(1), f->scale);
    for (intptr_t j = 0; j < f->a.n; j++) {
        T value[PARTS][LANES], row[LANES];
        const elem y = elem_scale(elem_scale(x[j * width], first), second);
        UNROLLED(int part = 0; part < PARTS; part++)
            lane_store(value[part], lane_select(f->finite, ((const vec *)&y)[part], lane_set(NAN)));
        lane_store(row, f->perm[j]);
        for (int l = 0; l < count; l++) {
            T *const z = (T *)((char *)to->data + (q + l) * to->batch + (intptr_t)row[l] * to->row + c * to->col);
            UNROLLED(int part = 0; part < PARTS; part++) z[part] = value[part][l];
        }
    }
}

/* Right-hand sides first .. first + width - 1, in x. */
INLINE void lstsq_solve(const smm_call *call, intptr_t q, const lstsq_factors *f, elem *x, intptr_t first,
                        intptr_t width, intptr_t count) {
    const intptr_t m = f->a.m, step = f->a.step, p = min_of(m, f->a.n);
    const smm_operand b = elem_columns(call->lstsq.b, first);
    smm_operand d = call->lstsq.residuals;
    d.data = (char *)d.data + first * d.row;
    KERNEL(elem_load)(x, &b, q, m, width, count);
    vec back[RHS_BLOCK], norm[RHS_BLOCK];
    for (intptr_t c = 0; c < width; c++) back[c] = lane_div(lane_set(1), scale_to_solve(f, x + c, width));
    for (intptr_t k = 0; k < p; k++)
        reflect((reflection){f->a.at + k * step + k, step, m - k, elem_conj(f->tau[k])}, x + k * width, width, width,
                false, false);
    for (intptr_t c = 0; c < width; c++)
        norm[c] = lane_select(f->finite, lane_mul(residual_norm(f, x + c, width), back[c]), lane_set(NAN));
    lanes_store(&d, q, norm, width, 1, count);
    solve_triangle(f, x, width);
    for (intptr_t i = 0; i < p && lane_any(f->has_tail); i++) {
        const mask here = f->has_tail & lane_greater(f->rank, lane_set((T)i));
        for (intptr_t c = 0; c < width; c++) reflect_tail(f, f->a.at + i * step, i, here, x + c, width, false);
    }
    for (intptr_t c = 0; c < width; c++) store_permuted(&call->lstsq.x, q, first + c, f, x + c, width, back[c], count);
}

typedef struct lstsq_workspace {
    elem a[QR_WORKSPACE], x[QR_ELEMENTS];
    vec perm[QR_ELEMENTS];
} lstsq_workspace;
static intptr_t KERNEL(lstsq_lanes_workspace)(const smm_call *call) {
    (void)call;
    return sizeof(lstsq_workspace);
}

static void KERNEL(lstsq_lanes)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) {
    (void)cold;
    lstsq_workspace *const workspace = smm_kernel_workspace();
    elem *const x = workspace->x;
    const intptr_t m = call->m, n = call->n;
    lstsq_factors f = {.a = {workspace->a, m, n, row_step(n)}, .perm = workspace->perm};
    for (intptr_t q = first; q < last; q += LANES) {
        const intptr_t count = min_of(LANES, last - q);
        lstsq_load(call, q, &f, count);
        factor_pivoting(&f);
        find_rank(call, q, &f, x, count);
        annihilate_tails(&f, x);
        const intptr_t most = min_of(RHS_BLOCK, QR_ELEMENTS / (m > n ? m : n));
        for (intptr_t c = 0; c < call->k; c += most) lstsq_solve(call, q, &f, x, c, min_of(most, call->k - c), count);
        lanes_store_int(&call->lstsq.rank, q, f.rank, count);
        lanes_store_int(&call->lstsq.info, q, lane_set(0), count);
    }
}
