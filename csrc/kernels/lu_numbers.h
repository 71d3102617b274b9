/* lu_numbers.h: LU of complex matrices and what follows from it: solutions, the inverse, determinants. LANES matrices
 * side by side, right-looking, any order. Pivots are compared by |re| + |im|. The inverse is the solution of A X = I.
 */

enum { NUMBERS = SMM_MOST_ORDER * SMM_MOST_ORDER, SIDES = 16 };

/* LANES matrices in factors, and some right-hand sides. */
typedef struct lu_room {
    num a[NUMBERS], x[SMM_MOST_ORDER * SIDES];
} lu_room;
_Static_assert(sizeof(lu_room) <= SMM_KERNEL_ROOM, "room of lu_numbers");

typedef struct lu_state {
    divisor d[SMM_MOST_ORDER];
    num r[SMM_MOST_ORDER];   /* reciprocals of the pivots */
    vec row[SMM_MOST_ORDER]; /* with which row each step exchanged its own */
    vec info;
    mask odd, singular; /* an odd number of exchanges; a pivot is zero and all before it are finite */
} lu_state;

/* Exchange rows k and, in each lane, `row` of a matrix with so many columns. */
INLINE void numbers_exchange(num *x, intptr_t cols, intptr_t k, vec row, intptr_t n) {
    for (intptr_t i = k + 1; i < n; i++) {
        const mask here = lane_equal(row, lane_set((T)i));
        if (!lane_any(here)) continue;
        for (intptr_t j = 0; j < cols; j++) {
            const num x_i = x[i * cols + j], x_k = x[k * cols + j];
            x[i * cols + j] = num_select(here, x_k, x_i);
            x[k * cols + j] = num_select(here, x_i, x_k);
        }
    }
}

/* x_ij = x_ij - f y_j */
INLINE void numbers_subtract(num *x, num f, const num *y, intptr_t count) {
    UNROLLED_BY_4(intptr_t j = 0; j < count; j++) x[j] = num_fnma(f, y[j], x[j]);
}
/* The same of two rows. */
INLINE void numbers_subtract_two(num *x, num *z, num f, num g, const num *y, intptr_t count) {
    UNROLLED_BY_2(intptr_t j = 0; j < count; j++) {
        const num y_j = y[j];
        x[j] = num_fnma(f, y_j, x[j]);
        z[j] = num_fnma(g, y_j, z[j]);
    }
}

static void KERNEL(numbers_factor)(num *a, lu_state *s, intptr_t n) {
    const vec zero = lane_set(0), infinite = lane_set(INFINITY);
    s->info = zero;
    s->odd = s->singular = lane_greater(zero, zero);
    for (intptr_t k = 0; k < n; k++) {
        vec most = num_size(a[k * n + k]), row = lane_set((T)k);
        for (intptr_t i = k + 1; i < n; i++) {
            const vec size = num_size(a[i * n + k]);
            const mask more = lane_greater(size, most);
            most = lane_select(more, size, most);
            row = lane_select(more, lane_set((T)i), row);
        }
        const mask is_zero = lane_equal(most, zero), first = lane_equal(s->info, zero);
        s->singular |= is_zero & first;
        s->info = lane_select((is_zero | lane_equal(most, infinite)) & first, lane_set((T)(k + 1)), s->info);
        s->row[k] = row;
        s->odd ^= ~lane_equal(row, lane_set((T)k));
        numbers_exchange(a, n, k, row, n);
        s->d[k] = divisor_of(a[k * n + k]);
        s->r[k] = num_reciprocal(&s->d[k]);
        const num *y = a + k * n + k + 1;
        const intptr_t count = n - k - 1;
        intptr_t i = k + 1;
        for (; i < n; i++) a[i * n + k] = num_quotient(a[i * n + k], &s->d[k], s->r[k]);
        for (i = k + 1; i + 1 < n; i += 2)
            numbers_subtract_two(a + i * n + k + 1, a + (i + 1) * n + k + 1, a[i * n + k], a[(i + 1) * n + k], y,
                                 count);
        if (i < n) numbers_subtract(a + i * n + k + 1, a[i * n + k], y, count);
    }
}

/* x (n x cols) becomes the solution of A x = x; rows are in order. */
static void KERNEL(numbers_solve)(num *x, const num *a, const lu_state *s, intptr_t n, intptr_t cols) {
    for (intptr_t j = 0; j < n; j++)
        for (intptr_t i = j + 1; i < n; i++) numbers_subtract(x + i * cols, a[i * n + j], x + j * cols, cols);
    for (intptr_t j = n - 1; j >= 0; j--) {
        for (intptr_t l = 0; l < cols; l++) x[j * cols + l] = num_quotient(x[j * cols + l], &s->d[j], s->r[j]);
        for (intptr_t i = 0; i < j; i++) numbers_subtract(x + i * cols, a[i * n + j], x + j * cols, cols);
    }
}
/* The same of P y of A^T y = x. */
static void KERNEL(numbers_solve_transposed)(num *x, const num *a, const lu_state *s, intptr_t n, intptr_t cols) {
    for (intptr_t j = 0; j < n; j++) {
        for (intptr_t l = 0; l < cols; l++) x[j * cols + l] = num_quotient(x[j * cols + l], &s->d[j], s->r[j]);
        for (intptr_t i = j + 1; i < n; i++) numbers_subtract(x + i * cols, a[j * n + i], x + j * cols, cols);
    }
    for (intptr_t j = n - 1; j >= 0; j--)
        for (intptr_t i = 0; i < j; i++) numbers_subtract(x + i * cols, a[j * n + i], x + j * cols, cols);
}

/* Solutions for all right-hand sides; b == NULL: those of the identity. */
INLINE void numbers_solve_all(const smm_call *call, const smm_operand *b, const smm_operand *to, intptr_t sides,
                              intptr_t q, lu_room *room, const lu_state *s, intptr_t count) {
    const intptr_t n = call->n, most = SMM_MOST_ORDER * SIDES / n;
    const bool transposed = call->form & SMM_TRANSPOSED;
    for (intptr_t j = 0, width; j < sides; j += width) {
        width = least(most, sides - j);
        if (b) {
            const smm_operand from = numbers_columns(*b, j);
            KERNEL(numbers_load)(room->x, &from, q, n, width, count);
        } else {
            for (intptr_t e = 0; e < n * width; e++) room->x[e] = num_set(e / width == j + e % width);
        }
        for (intptr_t k = 0; k < n && !transposed; k++) numbers_exchange(room->x, width, k, s->row[k], n);
        (transposed ? KERNEL(numbers_solve_transposed) : KERNEL(numbers_solve))(room->x, room->a, s, n, width);
        for (intptr_t k = n - 1; k >= 0 && transposed; k--) numbers_exchange(room->x, width, k, s->row[k], n);
        const smm_operand c = numbers_columns(*to, j);
        KERNEL(numbers_store)(&c, q, room->x, n, width, count);
        KERNEL(numbers_spoil)(&c, q, s->info, n, width, count);
    }
}

static void KERNEL(lu_numbers)(const smm_call *call, intptr_t first, intptr_t last, smm_behind *cold) {
    (void)cold;
    lu_room *const room = smm_kernel_room();
    const intptr_t n = call->n;
    for (intptr_t q = first; q < last; q += LANES) {
        const intptr_t count = least(LANES, last - q);
        lu_state s;
        KERNEL(numbers_load)(room->a, &call->a, q, n, n, count);
        KERNEL(numbers_factor)(room->a, &s, n);
        lanes_store_int(smm_info(call), q, s.info, count);
        if (call->op == SMM_OP_SOLVE) {
            numbers_solve_all(call, &call->solve.b, &call->solve.x, call->k, q, room, &s, count);
        } else if (call->op == SMM_OP_INV) {
            numbers_solve_all(call, NULL, &call->inv.inverse, n, q, room, &s, count);
        } else {
            for (intptr_t k = 0; k < n; k++) { /* from the step that failed on, no row is exchanged */
                const vec step = lane_set((T)k);
                const mask done = lane_greater(s.info, lane_set(0)) & lane_greater(lane_set((T)(k + 2)), s.info);
                s.row[k] = lane_select(done, step, s.row[k]);
            }
            KERNEL(numbers_store)(&call->lu.lu, q, room->a, n, n, count);
            KERNEL(numbers_spoil)(&call->lu.lu, q, s.info, n, n, count);
            KERNEL(lanes_store_ints)(&call->lu.pivots, q, s.row, n, count);
        }
    }
}

/* --- Determinants --- */

/* The power of two that brings a number near 1; 0 where it has none. */
INLINE int numbers_exponent(one x) {
    const double size = fmax(fabs((double)x.re), fabs((double)x.im));
    int e = 0;
    if (size > 0 && size < INFINITY) frexp(size, &e);
    return e;
}
INLINE one one_scaled(one x, int e) { return (one){(T)ldexp((double)x.re, e), (T)ldexp((double)x.im, e)}; }

/* The product of the diagonal of a lane's U, with exponents apart, so that it neither over- nor underflows. */
INLINE one numbers_product(const num *a, int l, bool odd, intptr_t n, intptr_t *exponent) {
    one p = {odd ? -1 : 1, 0};
    *exponent = 0;
    for (intptr_t k = 0; k < n; k++) {
        const T *u = (const T *)(a + k * n + k) + l;
        const one factor = {u[0], u[LANES]};
        const int e = numbers_exponent(factor);
        p = one_mul(p, one_scaled(factor, -e));
        const int f = numbers_exponent(p);
        p = one_scaled(p, -f);
        *exponent += e + f;
    }
    return p;
}

static void KERNEL(det_numbers)(const smm_call *call, intptr_t first, intptr_t last, smm_behind *cold) {
    (void)cold;
    lu_room *const room = smm_kernel_room();
    const intptr_t n = call->n;
    const smm_operand *const to = call->op == SMM_OP_DET ? &call->det.det : &call->slogdet.sign;
    for (intptr_t q = first; q < last; q += LANES) {
        const intptr_t count = least(LANES, last - q);
        lu_state s;
        KERNEL(numbers_load)(room->a, &call->a, q, n, n, count);
        KERNEL(numbers_factor)(room->a, &s, n);
        lanes_store_int(smm_info(call), q, s.info, count);
        for (int l = 0; l < count; l++) {
            intptr_t exponent;
            const bool singular = lane_bits(s.singular) >> l & 1;
            one p = numbers_product(room->a, l, lane_bits(s.odd) >> l & 1, n, &exponent);
            T *const det = (T *)((char *)to->data + (q + l) * to->batch);
            if (call->op == SMM_OP_DET) {
                p = one_scaled(p, (int)exponent);
            } else {
                T *const logarithm =
                    (T *)((char *)call->slogdet.logabsdet.data + (q + l) * call->slogdet.logabsdet.batch);
                const T size = SQRT(scalar_fma(p.im, p.im, p.re * p.re));
                *logarithm = singular ? -INFINITY : (T)(log((double)size) + (double)exponent * M_LN2);
                p = (one){p.re / size, p.im / size};
            }
            det[0] = singular ? 0 : p.re;
            det[1] = singular ? 0 : p.im;
        }
    }
}

/* --- Solutions by factors --- */

/* Pivots of each lane; info: where they are rows, the first zero of U, else the first that is none, negative. */
INLINE void numbers_get_pivots(const smm_call *call, const smm_operand *pivots, intptr_t q, const num *a, lu_state *s,
                               intptr_t count) {
    const intptr_t n = call->n;
    const vec end = lane_set((T)n);
    vec wrong = lane_set(0);
    s->info = lane_set(0);
    for (intptr_t k = n - 1; k >= 0; k--) {
        T lane[LANES];
        const char *p = (const char *)pivots->data + k * pivots->row;
        for (int l = 0; l < LANES; l++) {
            const int32_t row = *(const int32_t *)(p + (q + (l < count ? l : count - 1)) * pivots->batch);
            lane[l] = (T)(row < k || row >= n ? n : row);
        }
        const vec step = lane_set((T)k), row = lane_load(lane);
        const mask none = lane_equal(row, end);
        wrong = lane_select(none, lane_set((T)(-k - 1)), wrong);
        s->row[k] = lane_select(none, step, row);
        s->info = lane_select(num_is_zero(a[k * n + k]), lane_set((T)(k + 1)), s->info);
        s->d[k] = divisor_of(a[k * n + k]);
        s->r[k] = num_reciprocal(&s->d[k]);
    }
    s->info = lane_select(lane_equal(wrong, lane_set(0)), s->info, wrong);
    if (lane_any(~lane_equal(s->info, lane_set(0))) && call->failed)
        __atomic_store_n(call->failed, true, __ATOMIC_RELAXED);
}

static void KERNEL(lu_solve_numbers)(const smm_call *call, intptr_t first, intptr_t last, smm_behind *cold) {
    (void)cold;
    lu_room *const room = smm_kernel_room();
    const intptr_t n = call->n;
    for (intptr_t q = first; q < last; q += LANES) {
        const intptr_t count = least(LANES, last - q);
        lu_state s;
        KERNEL(numbers_load)(room->a, &call->a, q, n, n, count);
        numbers_get_pivots(call, &call->lu_solve.pivots, q, room->a, &s, count);
        lanes_store_int(smm_info(call), q, s.info, count);
        numbers_solve_all(call, &call->lu_solve.b, &call->lu_solve.x, call->k, q, room, &s, count);
    }
}
