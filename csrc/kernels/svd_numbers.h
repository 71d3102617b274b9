/* svd_numbers.h: singular values and singular vectors of complex matrices of orders up to SVD_JACOBI_MOST, LANES of
 * them side by side, by the method of svd_lanes.h. Before two rows of R are rotated, one is multiplied by a number of
 * magnitude 1 that makes their product real. */

typedef struct svd_numbers_work {
    num a[NUMBERS]; /* A, then A V, then the factors of U */
    /* A P, R, whose rows are rotated, then V; where bidiagonalised A, P, then V, rows `row_step` apart */
    num x[SMM_MOST_ORDER * (SMM_MOST_ORDER + 1)];
    num v[NUMBERS]; /* the factors of V; columns of U */
    num tau[SMM_MOST_ORDER], y[SMM_MOST_ORDER];
    vec perm[SMM_MOST_ORDER], s[SMM_MOST_ORDER];
} svd_numbers_work;
static intptr_t KERNEL(svd_lanes_room)(const smm_call *call) {
    (void)call;
    return sizeof(svd_numbers_work);
}

/* Times a power of two that brings it to about 1; zero where it is not finite. The result undoes that, or is NaN. */
INLINE vec numbers_load_scaled(num *a, const smm_operand *from, intptr_t q, intptr_t m, intptr_t n, intptr_t count) {
    const vec zero = lane_set(0);
    vec most = zero, nothing = zero;
    KERNEL(numbers_load)(a, from, q, m, n, count);
    for (intptr_t e = 0; e < m * n; e++) {
        most = lane_max(lane_abs(a[e].im), lane_max(lane_abs(a[e].re), most));
        nothing = lane_fma(a[e].im, zero, lane_fma(a[e].re, zero, nothing));
    }
    const mask finite = lane_equal(nothing, zero);
    const vec scale = lane_scale_to_one(most);
    if (lane_any(~(finite & lane_equal(scale, lane_set(1)))))
        for (intptr_t e = 0; e < m * n; e++) a[e] = num_select(finite, num_scale(a[e], scale), num_set(0));
    return lane_select(finite, lane_div(lane_set(1), scale), lane_set(NAN));
}

/* Number place_l of `to` gets lane l of x. */
INLINE void numbers_scatter(num *to, const int32_t *place, num x) {
    int32_t at[LANES];
    UNROLLED(int l = 0; l < LANES; l++) at[l] = PARTS * place[l];
    svd_scatter((vec *)to, at, x.re);
    svd_scatter((vec *)to + 1, at, x.im);
}

/* A P = Q R, the columns of A P sorted by length. */
static void KERNEL(svd_numbers_reduce)(svd_numbers_work *w, intptr_t m, intptr_t n) {
    int32_t place[SMM_MOST_ORDER][LANES];
    for (intptr_t j = 0; j < n; j++) w->s[j] = lane_set(0);
    for (intptr_t i = 0; i < m; i++)
        for (intptr_t j = 0; j < n; j++) w->s[j] = numbers_add_square(w->a[i * n + j], w->s[j]);
    svd_places(place, w->s, n);
    for (intptr_t j = 0; j < n; j++) svd_scatter(w->perm, place[j], lane_set((T)j));
    for (intptr_t i = 0; i < m; i++)
        for (intptr_t j = 0; j < n; j++) numbers_scatter(w->x + i * n, place[j], w->a[i * n + j]);
    KERNEL(numbers_qr)(w->x, w->tau, m, n);
    for (intptr_t i = 1; i < n; i++)
        for (intptr_t j = 0; j < i; j++) w->x[i * n + j] = num_set(0);
}

/* x and y become orthogonal, x the longer: the product x y^H is p |x y^H|, and rows x and p y are rotated. */
static void KERNEL(svd_numbers_rotate)(num *x, num *y, vec *info, vec tolerance_squared, intptr_t n) {
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
    const num xy = {lane_add(re[0], re[1]), lane_sub(im[0], im[1])};
    const vec most = lane_max(lane_abs(xy.re), lane_abs(xy.im)); /* squares might underflow */
    const num unit = {lane_div(xy.re, most), lane_div(xy.im, most)};
    const vec length = lane_sqrt(lane_fma(unit.im, unit.im, lane_mul(unit.re, unit.re)));
    const vec size = lane_select(lane_equal(most, zero), zero, lane_mul(most, length));
    svd_pair p = {.xx = lane_add(xx[0], xx[1]), .yy = lane_add(yy[0], yy[1]), .xy = size};
    svd_turn(&p, tolerance_squared);
    *info = lane_add(*info, lane_select(p.rotates, one, zero));
    if (!lane_any(p.rotates)) return;
    const num phase = {lane_select(p.rotates, lane_div(unit.re, length), one),
                       lane_select(p.rotates, lane_div(unit.im, length), zero)};
    for (intptr_t k = 0; k < n; k++) {
        y[k] = num_mul(phase, y[k]);
        eigh_rotate_row(&x[k].re, &y[k].re, p.c, p.s);
        eigh_rotate_row(&x[k].im, &y[k].im, p.c, p.s);
    }
}

/* Info: in how many pairs the last sweep of all had to rotate. */
static vec KERNEL(svd_numbers_iterate)(num *x, const svd_round *rounds, intptr_t n) {
    const vec tolerance_squared = svd_tolerance_squared(PARTS * n);
    vec info = lane_set(0);
    for (int sweep = 0; sweep < SVD_SWEEPS; sweep++) {
        info = lane_set(0);
        for (const svd_round *r = rounds; r < rounds + n; r++)
            for (intptr_t t = 0; t < r->count; t++)
                KERNEL(svd_numbers_rotate)(x + r->i[t] * n, x + r->j[t] * n, &info, tolerance_squared, n);
        if (!lane_any(~lane_equal(info, lane_set(0)))) break;
    }
    return info;
}

/* |x|; scaled where squares are out of range. */
INLINE vec numbers_length(num *y, const num *x, intptr_t n) {
    const vec one = lane_set(1), squares = numbers_add_square(x[0], numbers_squares(x, 1, n));
    const mask small = lane_greater(lane_set(SQUARES_LOW), squares);
    if (!lane_any(small)) return lane_sqrt(squares);
    const vec up = lane_select(small, lane_set(SCALE_UP), one), down = lane_select(small, lane_set(SCALE_DOWN), one);
    for (intptr_t k = 0; k < n; k++) y[k] = num_scale(x[k], up);
    return lane_mul(lane_sqrt(numbers_add_square(y[0], numbers_squares(y, 1, n))), down);
}

/* Columns of V P, which are conjugated rows, in the order of their lengths. */
static void KERNEL(svd_numbers_arrange)(svd_numbers_work *w, intptr_t n, bool vectors) {
    int32_t place[SMM_MOST_ORDER][LANES], row[SMM_MOST_ORDER][LANES];
    vec s[SMM_MOST_ORDER];
    for (intptr_t j = 0; j < n; j++) {
        s[j] = numbers_length(w->y, w->x + j * n, n);
        lane_store_int(row[j], lane_mul(w->perm[j], lane_set((T)n)));
    }
    svd_places(place, s, n);
    for (intptr_t j = 0; j < n; j++) svd_scatter(w->s, place[j], s[j]);
    for (intptr_t j = 0; j < n && vectors; j++)
        for (intptr_t k = 0; k < n; k++) {
            int32_t at[LANES];
            UNROLLED(int l = 0; l < LANES; l++) at[l] = row[k][l] + place[j][l];
            numbers_scatter(w->v, at, num_conj(w->x[j * n + k]));
        }
}

/* V; the largest element of each column, the first of equals, is positive. */
static void KERNEL(svd_numbers_small)(svd_numbers_work *w, intptr_t n) {
    KERNEL(numbers_qr)(w->v, w->tau, n, n);
    KERNEL(numbers_form_q)(w->x, 0, n, w->v, w->tau, n, n);
    for (intptr_t j = 0; j < n; j++) {
        pairs_largest most = {num_set(1), lane_set(0), lane_set(-1)};
        for (intptr_t i = 0; i < n; i++) pairs_consider(&most, w->x[i * n + j], i);
        const num phase = pairs_phase(&most);
        const vec size = lane_sqrt(most.square);
        for (intptr_t i = 0; i < n; i++) w->x[i * n + j] = pairs_turn(&most, phase, size, w->x[i * n + j], i);
    }
}

/* The factors of A V. */
static void KERNEL(svd_numbers_large)(svd_numbers_work *w, intptr_t m, intptr_t n) {
    for (intptr_t i = 0; i < m; i++) {
        num *const row = w->a + i * n;
        for (intptr_t k = 0; k < n; k++)
            for (intptr_t j = 0; j < n; j++)
                w->y[j] = k ? num_fma(row[k], w->x[k * n + j], w->y[j]) : num_mul(row[0], w->x[j]);
        for (intptr_t j = 0; j < n; j++) row[j] = w->y[j];
    }
    KERNEL(numbers_qr)(w->a, w->tau, m, n);
}

/* U, with signs that make the diagonal of A V = U R positive, as many columns at a time as there is room for. */
static void KERNEL(svd_numbers_store_large)(const svd_operands *o, intptr_t q, svd_numbers_work *w, intptr_t count) {
    const intptr_t m = o->m, n = o->n, most = NUMBERS / m;
    const vec zero = lane_set(0);
    for (intptr_t j = 0, width; j < o->k; j += width) {
        width = least(most, o->k - j);
        KERNEL(numbers_form_q)(w->v, j, width, w->a, w->tau, m, n);
        for (intptr_t c = 0; c < width && j + c < n; c++) {
            const mask negative = lane_greater(zero, w->a[(j + c) * n + j + c].re);
            const vec sign = lane_select(negative, lane_set(-1), lane_set(1));
            for (intptr_t i = 0; i < m; i++) {
                num *const x = &w->v[i * width + c];
                *x = num_add(num_scale(*x, sign), num_set(0));
            }
        }
        const smm_operand columns = numbers_columns(o->large, j);
        KERNEL(numbers_store)(&columns, q, w->v, m, width, count);
    }
}

/* s, scaled back, and info; V, and U, which is made of A and V. */
INLINE void svd_numbers_end(const svd_operands *o, intptr_t q, svd_numbers_work *w, vec info, vec back, intptr_t count,
                            const bool vectors) {
    const intptr_t m = o->m, n = o->n;
    const vec zero = lane_set(0), times = lane_select(lane_equal(info, zero), back, lane_set(NAN));
    for (intptr_t j = 0; j < n; j++) w->s[j] = lane_mul(w->s[j], times);
    lanes_store(&o->s, q, w->s, n, 1, count);
    lanes_store_int(&o->info, q, info, count);
    if (!vectors) return;
    const vec bad = lane_select(lane_equal(times, times), zero, lane_set(1));
    KERNEL(svd_numbers_large)(w, m, n);
    for (intptr_t e = 0; e < n * n; e++) w->x[e] = num_add(num_conj(w->x[e]), num_set(0));
    KERNEL(numbers_store)(&o->small, q, w->x, n, n, count);
    KERNEL(svd_numbers_store_large)(o, q, w, count);
    KERNEL(numbers_spoil)(&o->small, q, bad, n, n, count);
    KERNEL(numbers_spoil)(&o->large, q, bad, m, o->k, count);
}

INLINE void svd_numbers_any(const smm_call *call, intptr_t first, intptr_t last, const bool vectors) {
    const svd_operands o = svd_operands_of(call, vectors);
    const intptr_t m = o.m, n = o.n;
    svd_numbers_work *const w = smm_kernel_room();
    svd_round rounds[SMM_MOST_ORDER];
    svd_plan_rounds(rounds, n);
    for (intptr_t q = first; q < last; q += LANES) {
        const intptr_t count = least(LANES, last - q);
        const vec back = numbers_load_scaled(w->a, &o.a, q, m, n, count);
        KERNEL(svd_numbers_reduce)(w, m, n);
        const vec info = KERNEL(svd_numbers_iterate)(w->x, rounds, n);
        KERNEL(svd_numbers_arrange)(w, n, vectors);
        if (vectors) KERNEL(svd_numbers_small)(w, n);
        svd_numbers_end(&o, q, w, info, back, count, vectors);
    }
}

static void KERNEL(svd_lanes)(const smm_call *call, intptr_t first, intptr_t last, smm_behind *cold) {
    (void)cold;
    svd_numbers_any(call, first, last, true);
}
static void KERNEL(svdvals_lanes)(const smm_call *call, intptr_t first, intptr_t last, smm_behind *cold) {
    (void)cold;
    svd_numbers_any(call, first, last, false);
}
