/* qr_numbers.h: Householder QR of complex matrices in place, LANES matrices side by side. As LAPACK's geqrf and ungqr:
 * H = I - tau v v^H, v_0 = 1, and A is multiplied by H^H, so that the diagonal of R is real. */

/* Beside the factors there is room for as many columns of Q or R. */
typedef struct qr_numbers_room {
    num a[NUMBERS], x[NUMBERS];
} qr_numbers_room;
_Static_assert(sizeof(qr_numbers_room) <= SMM_KERNEL_ROOM, "room of qr_numbers");

/* |x_1|^2 + ... + |x_count-1|^2: squares of real parts and of imaginary parts, each in a row. */
INLINE vec numbers_squares(const num *x, intptr_t step, intptr_t count) {
    vec re = lane_set(0), im = lane_set(0);
    for (intptr_t i = 1; i < count; i++) {
        const num y = x[i * step];
        re = lane_fma(y.re, y.re, re);
        im = lane_fma(y.im, y.im, im);
    }
    return lane_add(re, im);
}
INLINE vec numbers_add_square(num x, vec squares) { return lane_fma(x.im, x.im, lane_fma(x.re, x.re, squares)); }

/* x_0 becomes beta, which is real, the others v; the result is tau, 0 where x_0 is real and the others are zero. */
INLINE num numbers_reflector(num *x, intptr_t step, intptr_t count) {
    const vec one = lane_set(1), nothing = lane_set(0), low = lane_set(SQUARES_LOW), high = lane_set(SQUARES_HIGH);
    vec squares = numbers_add_square(x[0], numbers_squares(x, step, count)), back = one;
    mask zero = lane_equal(x[0].im, nothing);
    for (intptr_t i = 1; i < count; i++) zero &= num_is_zero(x[i * step]);
    if (lane_any(~(lane_greater(squares, low) & lane_greater(high, squares)))) {
        const mask small = lane_greater(low, squares) & ~zero, large = lane_greater(squares, high) & ~zero;
        const vec up = lane_set(SCALE_UP), down = lane_set(SCALE_DOWN);
        const vec scale = lane_select(small, up, lane_select(large, down, one));
        for (intptr_t i = 0; i < count; i++) x[i * step] = num_scale(x[i * step], scale);
        back = lane_select(small, down, lane_select(large, up, one));
        squares = numbers_add_square(x[0], numbers_squares(x, step, count));
    }
    const vec norm = lane_sqrt(squares);
    const vec beta = lane_select(lane_greater(nothing, x[0].re), norm, lane_negate(norm));
    const num tau = {lane_div(lane_sub(beta, x[0].re), beta), lane_div(lane_negate(x[0].im), beta)};
    const divisor d = divisor_of((num){lane_sub(x[0].re, beta), x[0].im});
    const num r = num_reciprocal(&d);
    x[0] = num_select(zero, x[0], (num){lane_mul(beta, back), nothing});
    for (intptr_t i = 1; i < count; i++) x[i * step] = num_select(zero, x[i * step], num_mul(x[i * step], r));
    return num_select(zero, num_set(0), tau);
}

/* x = x - v t (v^H x), for a column of `count` numbers, `step` apart like those of v. */
enum { REFLECTED_NUMBERS = 4 };
INLINE void numbers_reflect_columns(const num *v, intptr_t step_v, num t, num *x, intptr_t step, intptr_t count,
                                    const int width) {
    num w[REFLECTED_NUMBERS];
    UNROLLED(int j = 0; j < width; j++) w[j] = x[j];
    ROLLED(intptr_t i = 1; i < count; i++) {
        const num v_i = num_conj(v[i * step_v]);
        UNROLLED(int j = 0; j < width; j++) w[j] = num_fma(v_i, x[i * step + j], w[j]);
    }
    UNROLLED(int j = 0; j < width; j++) {
        w[j] = num_mul(t, w[j]);
        x[j] = num_sub(x[j], w[j]);
    }
    ROLLED(intptr_t i = 1; i < count; i++) {
        const num v_i = v[i * step_v];
        UNROLLED(int j = 0; j < width; j++) x[i * step + j] = num_fnma(v_i, w[j], x[i * step + j]);
    }
}
static void KERNEL(numbers_reflect)(const num *v, intptr_t step_v, num t, num *x, intptr_t step, intptr_t count,
                                    intptr_t cols) {
    intptr_t j = 0;
    for (; j + REFLECTED_NUMBERS <= cols; j += REFLECTED_NUMBERS)
        numbers_reflect_columns(v, step_v, t, x + j, step, count, REFLECTED_NUMBERS);
    for (; j < cols; j++) numbers_reflect_columns(v, step_v, t, x + j, step, count, 1);
}

/* A (m x n) becomes R above the reflectors. */
static void KERNEL(numbers_qr)(num *a, num *tau, intptr_t m, intptr_t n) {
    for (intptr_t k = 0; k < least(m, n); k++) {
        num *const x = a + k * n + k;
        tau[k] = numbers_reflector(x, n, m - k);
        KERNEL(numbers_reflect)(x, n, num_conj(tau[k]), x + 1, n, m - k, n - k - 1);
    }
}

/* Where anything overflows: that leaves its mark on the diagonal of R or, right of it, in the last row. */
INLINE mask numbers_overflow(const num *a, intptr_t m, intptr_t n) {
    const vec nothing = lane_set(0);
    const intptr_t p = least(m, n);
    vec sum = nothing;
    for (intptr_t k = 0; k < p; k++) sum = lane_fma(num_size(a[k * n + k]), nothing, sum);
    for (intptr_t j = p; j < n; j++) sum = lane_fma(num_size(a[(p - 1) * n + j]), nothing, sum);
    return ~lane_equal(sum, nothing);
}

/* Load and factor; once more from a scaled A where products of elements near the largest number overflow. */
INLINE void numbers_load_and_factor(const smm_call *call, intptr_t q, num *a, num *tau, intptr_t count) {
    const intptr_t m = call->m, n = call->n;
    const vec one = lane_set(1);
    KERNEL(numbers_load)(a, &call->a, q, m, n, count);
    KERNEL(numbers_qr)(a, tau, m, n);
    const mask overflows = numbers_overflow(a, m, n);
    if (!lane_any(overflows)) return;
    const vec scale = lane_select(overflows, lane_set((T)0x1p-8), one);
    const vec back = lane_select(overflows, lane_set((T)0x1p8), one);
    KERNEL(numbers_load)(a, &call->a, q, m, n, count);
    for (intptr_t e = 0; e < m * n; e++) a[e] = num_scale(a[e], scale);
    KERNEL(numbers_qr)(a, tau, m, n);
    for (intptr_t i = 0; i < least(m, n); i++)
        for (intptr_t j = i; j < n; j++) a[i * n + j] = num_scale(a[i * n + j], back);
}

/* Columns j .. j+width-1 of Q = H_0 H_1 ..., of the factors of an m x n matrix. */
static void KERNEL(numbers_form_q)(num *x, intptr_t j, intptr_t width, const num *a, const num *tau, intptr_t m,
                                   intptr_t n) {
    for (intptr_t e = 0; e < m * width; e++) x[e] = num_set(e / width == j + e % width);
    for (intptr_t k = least(least(m, n), j + width) - 1; k >= 0; k--) {
        const intptr_t first = k > j ? k - j : 0; /* columns before are zero from row k on */
        KERNEL(numbers_reflect)(a + k * n + k, n, tau[k], x + k * width + first, width, m - k, width - first);
    }
}

/* All columns of Q, as many at a time as there is room for. */
INLINE void numbers_store_q(const smm_call *call, intptr_t q, const num *a, const num *tau, num *x, intptr_t count) {
    const intptr_t m = call->m, n = call->n, most = NUMBERS / m;
    for (intptr_t j = 0, width; j < call->k; j += width) {
        width = least(most, call->k - j);
        KERNEL(numbers_form_q)(x, j, width, a, tau, m, n);
        const smm_operand c = numbers_columns(call->qr.q, j);
        KERNEL(numbers_store)(&c, q, x, m, width, count);
    }
}

/* R, and zeros below its diagonal; x is room for it. */
INLINE void numbers_store_r(const smm_call *call, intptr_t q, const num *a, num *x, intptr_t count) {
    const intptr_t n = call->n, p = least(call->m, n);
    smm_operand r = call->op == SMM_OP_QR ? call->qr.r : call->qr_r.r;
    for (intptr_t i = 0; i < call->k; i++)
        for (intptr_t j = 0; j < n; j++) x[i * n + j] = i < p && i <= j ? a[i * n + j] : num_set(0);
    KERNEL(numbers_store)(&r, q, x, call->k, n, count);
}

static void KERNEL(qr_lanes)(const smm_call *call, intptr_t first, intptr_t last, smm_behind *cold) {
    (void)cold;
    qr_numbers_room *const room = smm_kernel_room();
    for (intptr_t q = first; q < last; q += LANES) {
        const intptr_t count = least(LANES, last - q);
        num tau[SMM_MOST_ORDER];
        numbers_load_and_factor(call, q, room->a, tau, count);
        lanes_store_int(smm_info(call), q, lane_set(0), count);
        if (call->op == SMM_OP_QR_RAW) {
            KERNEL(numbers_store)(&call->qr_raw.h, q, room->a, call->m, call->n, count);
            KERNEL(numbers_store)(&call->qr_raw.tau, q, tau, least(call->m, call->n), 1, count);
            continue;
        }
        numbers_store_r(call, q, room->a, room->x, count);
        if (call->op == SMM_OP_QR) numbers_store_q(call, q, room->a, tau, room->x, count);
    }
}
