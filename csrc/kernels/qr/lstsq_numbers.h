/* lstsq_numbers.h: least squares of complex matrices, LANES of them side by side, by the method of lstsq_lanes.h: QR
 * with column pivoting and a complete orthogonal factorization (LAPACK's gelsy). The diagonals of R and T are real. */

typedef struct squares_work {
    num a[NUMBERS];                                /* R above the reflectors of Q; and, right of T, those of H */
    num x[NUMBERS];                                /* right-hand sides; a row; sizes of R's elements */
    vec perm[NUMBERS];                             /* the column of A that column j was */
    num tau[SMM_MOST_ORDER], tail[SMM_MOST_ORDER]; /* of Q, of H */
    num along[2][SMM_MOST_ORDER];                  /* of the estimates of the rank */
    intptr_t m, n;
    vec scale, rank; /* A was scaled by it */
    mask finite;     /* A has no NaN and no infinity */
    mask has_tail;   /* rank < n */
} squares_work;
static intptr_t KERNEL(lstsq_lanes_workspace)(const smm_call *call) {
    (void)call;
    return sizeof(squares_work);
}

/* Lanes whose tail has column j. */
INLINE mask squares_in_tail(const squares_work *w, intptr_t j) { return ~lane_greater(w->rank, lane_set((T)j)); }

/* The column whose rest from row k on is longest, the first of equals. */
static vec KERNEL(squares_longest)(const squares_work *w, intptr_t k) {
    vec longest = lane_set((T)k), most = lane_set(0);
    for (intptr_t j = k; j < w->n; j++) {
        vec re = lane_set(0), im = lane_set(0);
        for (intptr_t i = k; i < w->m; i++) {
            const num x = w->a[i * w->n + j];
            re = lane_fma(x.re, x.re, re);
            im = lane_fma(x.im, x.im, im);
        }
        const vec length = lane_add(re, im);
        const mask longer = lane_greater(length, most);
        longest = j == k ? longest : lane_select(longer, lane_set((T)j), longest);
        most = j == k ? length : lane_select(longer, length, most);
    }
    return longest;
}

/* A P = Q R. */
static void KERNEL(squares_factor)(squares_work *w) {
    const intptr_t m = w->m, n = w->n;
    for (intptr_t j = 0; j < n; j++) w->perm[j] = lane_set((T)j);
    for (intptr_t k = 0; k < least(m, n); k++) {
        const vec longest = KERNEL(squares_longest)(w, k);
        for (intptr_t j = k + 1; j < n; j++) {
            const mask here = lane_equal(longest, lane_set((T)j));
            if (!lane_any(here)) continue;
            const vec perm = w->perm[k];
            w->perm[k] = lane_select(here, w->perm[j], perm);
            w->perm[j] = lane_select(here, perm, w->perm[j]);
            for (intptr_t i = 0; i < m; i++) {
                num *const x = w->a + i * n + k, *const y = w->a + i * n + j, old = *x;
                *x = num_select(here, *y, old);
                *y = num_select(here, old, *y);
            }
        }
        num *const x = w->a + k * n + k;
        w->tau[k] = numbers_reflector(x, n, m - k);
        KERNEL(numbers_reflect)(x, n, num_conj(w->tau[k]), x + 1, n, m - k, n - k - 1);
    }
}

/* x^H w, of column k of R above its diagonal: its magnitude, and a number of magnitude 1 along it. */
INLINE vec squares_along(const squares_work *w, const num *x, intptr_t k, num *direction) {
    num sum = num_set(0);
    for (intptr_t i = 0; i < k; i++) sum = num_fma(num_conj(x[i]), w->a[i * w->n + k], sum);
    const vec size = lane_sqrt(lane_fma(sum.im, sum.im, lane_mul(sum.re, sum.re)));
    const mask some = lane_greater(size, lane_set(0));
    *direction = num_select(some, (num){lane_div(sum.re, size), lane_div(sum.im, size)}, num_set(1));
    return size;
}
INLINE void squares_extend(num *x, intptr_t k, extension by, num direction) {
    const num factor = num_scale(direction, by.s);
    for (intptr_t i = 0; i < k; i++) x[i] = num_mul(factor, x[i]);
    x[k] = (num){by.c, lane_set(0)};
}

/* The rank of finite matrices; of others 0. x of an estimate is turned so that x^H w is its magnitude. */
static vec KERNEL(squares_estimate)(squares_work *w, vec rtol) {
    const vec zero = lane_set(0), one = lane_set(1);
    vec largest = lane_abs(w->a[0].re), smallest = largest;
    mask counts = w->finite & lane_greater(largest, zero);
    vec rank = lane_select(counts, one, zero);
    w->along[0][0] = w->along[1][0] = num_set(1);
    for (intptr_t k = 1; k < least(w->m, w->n) && lane_any(counts); k++) {
        num to_x, to_y;
        const vec along_x = squares_along(w, w->along[0], k, &to_x), along_y = squares_along(w, w->along[1], k, &to_y);
        const vec gamma = w->a[k * w->n + k].re;
        const extension l = largest_extension(largest, along_x, gamma);
        const extension s = smallest_extension(smallest, along_y, gamma);
        counts &= lane_greater(s.sigma, zero) & is_at_most(lane_mul(rtol, l.sigma), s.sigma);
        rank = lane_select(counts, lane_add(rank, one), rank);
        squares_extend(w->along[0], k, l, to_x);
        squares_extend(w->along[1], k, s, to_y);
        largest = l.sigma, smallest = s.sigma;
    }
    return rank;
}

static void KERNEL(squares_find_rank)(const smm_call *call, intptr_t q, squares_work *w, intptr_t count) {
    const intptr_t n = w->n, p = least(w->m, n);
    vec rtol = lane_set(0), *const sizes = (vec *)w->x;
    const smm_operand scalars = {call->lstsq.rtol.data, call->lstsq.rtol.batch, sizeof(T), sizeof(T)};
    if (scalars.data) lanes_load(&rtol, &scalars, q, 1, 1, count);
    for (intptr_t i = 0; i < p; i++)
        for (intptr_t j = i; j < p; j++) sizes[i * p + j] = num_size(w->a[i * n + j]);
    const lanes_matrix r = {sizes, p, p, p};
    if (lane_any(w->finite & ~has_full_rank(&r, rtol, (vec *)w->along)))
        w->rank = KERNEL(squares_estimate)(w, rtol);
    else
        w->rank = lane_select(w->finite, lane_set((T)p), lane_set(0));
    w->has_tail = lane_greater(lane_set((T)n), w->rank);
}

/* The first `rank` rows of R become (T 0): H_i overwrites the tail of row i. As LAPACK's tzrzf: the reflector is that
 * of the conjugated row. */
static void KERNEL(squares_annihilate)(squares_work *w) {
    const intptr_t n = w->n;
    num *const x = w->x;
    for (intptr_t i = least(w->m, n) - 1; i >= 0 && lane_any(w->has_tail); i--) {
        const mask here = w->has_tail & lane_greater(w->rank, lane_set((T)i));
        num *const row = w->a + i * n;
        x[i] = num_conj(row[i]);
        for (intptr_t j = i + 1; j < n; j++) x[j] = num_select(squares_in_tail(w, j), num_conj(row[j]), num_set(0));
        w->tail[i] = numbers_reflector(x + i, 1, n - i);
        row[i] = num_select(here, x[i], row[i]);
        for (intptr_t j = i + 1; j < n; j++) row[j] = num_select(here & squares_in_tail(w, j), x[j], row[j]);
        for (intptr_t h = 0; h < i; h++) {
            num *const y = w->a + h * n;
            num sum = y[i];
            for (intptr_t j = i + 1; j < n; j++)
                sum = num_select(squares_in_tail(w, j), num_fma(row[j], y[j], sum), sum);
            sum = num_mul(w->tail[i], sum);
            y[i] = num_select(here, num_sub(y[i], sum), y[i]);
            for (intptr_t j = i + 1; j < n; j++)
                y[j] = num_select(here & squares_in_tail(w, j), num_fnma(num_conj(row[j]), sum, y[j]), y[j]);
        }
    }
}

/* x = H_i x, of a column of so many numbers to a row. */
INLINE void squares_reflect_tail(const squares_work *w, intptr_t i, num *x, intptr_t width) {
    const num *const v = w->a + i * w->n;
    const mask here = w->has_tail & lane_greater(w->rank, lane_set((T)i));
    num sum = x[i * width];
    for (intptr_t j = i + 1; j < w->n; j++)
        sum = num_select(squares_in_tail(w, j), num_fma(num_conj(v[j]), x[j * width], sum), sum);
    sum = num_mul(w->tail[i], sum);
    x[i * width] = num_select(here, num_sub(x[i * width], sum), x[i * width]);
    for (intptr_t j = i + 1; j < w->n; j++)
        x[j * width] = num_select(here & squares_in_tail(w, j), num_fnma(v[j], sum, x[j * width]), x[j * width]);
}

/* x = solution of T x = x, zero beyond the rank. */
INLINE void squares_solve_triangle(const squares_work *w, num *x, intptr_t width) {
    const intptr_t n = w->n, p = least(w->m, n);
    for (intptr_t i = 0; i < n; i++)
        x[i * width] = i < p ? num_select(squares_in_tail(w, i), num_set(0), x[i * width]) : num_set(0);
    for (intptr_t j = p - 1; j >= 0; j--) {
        const mask here = lane_greater(w->rank, lane_set((T)j));
        const vec pivot = w->a[j * n + j].re, r = lane_div(lane_set(1), pivot);
        const mask exact = lane_normal(r);
        num *const y = x + j * width;
        const num by_r = num_scale(*y, r), by_pivot = {lane_div(y->re, pivot), lane_div(y->im, pivot)};
        *y = num_select(here, num_select(exact, by_r, by_pivot), *y);
        for (intptr_t i = 0; i < j; i++)
            x[i * width] = num_select(here, num_fnma(w->a[i * n + j], *y, x[i * width]), x[i * width]);
    }
}

/* What Q^H b has beyond the rank is the residual; its norm. */
INLINE vec squares_residual(const squares_work *w, const num *b, intptr_t width) {
    vec re = lane_set(0), im = lane_set(0);
    for (intptr_t i = 0; i < w->m; i++) {
        const num x = num_select(squares_in_tail(w, i), b[i * width], num_set(0));
        re = lane_fma(x.re, x.re, re);
        im = lane_fma(x.im, x.im, im);
    }
    return lane_sqrt(lane_add(re, im));
}

/* Column c of X, scaled back, its rows where the columns of A were; as store_permuted of lstsq_lanes.h. */
INLINE void squares_store(const smm_call *call, intptr_t q, intptr_t c, const squares_work *w, const num *x,
                          intptr_t width, vec back, intptr_t count) {
    const smm_operand *const to = &call->lstsq.x;
    const vec both = lane_mul(back, w->scale);
    const mask at_once = lane_greater(both, lane_set(0)) & lane_greater(lane_set(INFINITY), both);
    const vec first = lane_select(at_once, both, back), second = lane_select(at_once, lane_set(1), w->scale);
    for (intptr_t j = 0; j < w->n; j++) {
        T re[LANES], im[LANES], row[LANES];
        const num y = num_scale(num_scale(x[j * width], first), second);
        lane_store(re, lane_select(w->finite, y.re, lane_set(NAN)));
        lane_store(im, lane_select(w->finite, y.im, lane_set(NAN)));
        lane_store(row, w->perm[j]);
        for (int l = 0; l < count; l++) {
            T *const z = (T *)((char *)to->data + (q + l) * to->batch + (intptr_t)row[l] * to->row + c * to->col);
            z[0] = re[l], z[1] = im[l];
        }
    }
}

/* Right-hand sides first .. first+width-1. */
static void KERNEL(squares_solve)(const smm_call *call, intptr_t q, squares_work *w, intptr_t first, intptr_t width,
                                  intptr_t count) {
    const intptr_t m = w->m, n = w->n, p = least(m, n);
    const vec zero = lane_set(0), one = lane_set(1);
    const smm_operand b = numbers_columns(call->lstsq.b, first);
    smm_operand d = call->lstsq.residuals;
    d.data = (char *)d.data + first * d.row;
    num *const x = w->x;
    vec back[SIDES], norm[SIDES];
    KERNEL(numbers_load)(x, &b, q, m, width, count);
    for (intptr_t c = 0; c < width; c++) {
        vec most = zero;
        for (intptr_t i = 0; i < m; i++)
            most = lane_max(lane_abs(x[i * width + c].im), lane_max(lane_abs(x[i * width + c].re), most));
        const vec scale = lane_scale_to_one(most);
        for (intptr_t i = 0; i < m; i++) x[i * width + c] = num_scale(x[i * width + c], scale);
        back[c] = lane_div(one, scale);
    }
    for (intptr_t k = 0; k < p; k++)
        KERNEL(numbers_reflect)(w->a + k * n + k, n, num_conj(w->tau[k]), x + k * width, width, m - k, width);
    for (intptr_t c = 0; c < width; c++) {
        norm[c] = lane_select(w->finite, lane_mul(squares_residual(w, x + c, width), back[c]), lane_set(NAN));
        squares_solve_triangle(w, x + c, width);
        for (intptr_t i = 0; i < p && lane_any(w->has_tail); i++) squares_reflect_tail(w, i, x + c, width);
        squares_store(call, q, first + c, w, x + c, width, back[c], count);
    }
    lanes_store(&d, q, norm, width, 1, count);
}

static void KERNEL(lstsq_lanes)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) {
    (void)cold;
    squares_work *const w = smm_kernel_workspace();
    w->m = call->m, w->n = call->n;
    const intptr_t most = least(SIDES, NUMBERS / (call->m > call->n ? call->m : call->n));
    for (intptr_t q = first; q < last; q += LANES) {
        const intptr_t count = least(LANES, last - q);
        const vec back = numbers_load_scaled(w->a, &call->lstsq.a, q, w->m, w->n, count, false);
        w->finite = lane_equal(back, back);
        w->scale = lane_div(lane_set(1), back);
        KERNEL(squares_factor)(w);
        KERNEL(squares_find_rank)(call, q, w, count);
        KERNEL(squares_annihilate)(w);
        for (intptr_t c = 0; c < call->k; c += most)
            KERNEL(squares_solve)(call, q, w, c, least(most, call->k - c), count);
        lanes_store_int(&call->lstsq.rank, q, w->rank, count);
        lanes_store_int(&call->lstsq.info, q, lane_set(0), count);
    }
}
