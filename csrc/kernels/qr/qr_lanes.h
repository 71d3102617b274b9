/* qr_lanes.h: Householder QR in place, LANES matrices side by side: without pivoting all of them take the same steps.
 * As LAPACK's geqrf and ungqr (Golub and Van Loan, Matrix Computations, algorithm 5.2.1): H = I - tau v v^H, v_0 = 1,
 * and A is multiplied by H^H, so that the diagonal of R is real. One text over the numbers of elements_real.h and those
 * of elements_complex.h, but for the reflector of a vector and the columns of Q. Where `unrolled`, sizes are constants,
 * which those of complex matrices never are. */

enum { QR_ELEMENTS = SMM_MAX_ORDER * SMM_MAX_ORDER, QR_WORKSPACE = QR_ELEMENTS + SMM_MAX_ORDER };

/* Columns that a reflector passes over at a time: they share the loads of v, and so many sums are in flight. */
enum { REFLECTED = VECTOR_REGISTERS >= 32 && PARTS == 1 ? 8 : 4 };

/* x = scale x. */
INLINE void scale_column(elem *x, intptr_t step, vec scale, intptr_t count, const bool unrolled) {
    if (unrolled)
        UNROLLED(intptr_t i = 0; i < count; i++) x[i * step] = elem_scale(x[i * step], scale);
    else
        ROLLED(intptr_t i = 0; i < count; i++) x[i * step] = elem_scale(x[i * step], scale);
}

#if defined(REAL_DTYPE)
/* |x_1|^2 + ... + |x_count-1|^2: squares of real parts and of imaginary parts, each in a row. */
INLINE vec sum_of_squares(const elem *x, intptr_t step, intptr_t count, const bool unrolled) {
    (void)unrolled;
    elem sum = elem_set(0);
    for (intptr_t i = 1; i < count; i++) sum = elem_add_squares(x[i * step], sum);
    return elem_total(sum);
}

/* x_0 becomes beta, which is real, the others v; the result is tau, 0 where x_0 is real and the others are zero. */
INLINE elem reflector(elem *x, intptr_t step, intptr_t count, const bool unrolled) {
    (void)unrolled;
    const vec one = lane_set(1), nothing = lane_set(0), low = lane_set(SQUARES_LOW), high = lane_set(SQUARES_HIGH);
    vec squares = elem_add_square(x[0], sum_of_squares(x, step, count, false)), back = one;
    mask zero = lane_equal(x[0].im, nothing);
    for (intptr_t i = 1; i < count; i++) zero &= elem_is_zero(x[i * step]);
    if (lane_any(~(lane_greater(squares, low) & lane_greater(high, squares)))) {
        const mask small = lane_greater(low, squares) & ~zero, large = lane_greater(squares, high) & ~zero;
        const vec up = lane_set(SCALE_UP), down = lane_set(SCALE_DOWN);
        const vec scale = lane_select(small, up, lane_select(large, down, one));
        for (intptr_t i = 0; i < count; i++) x[i * step] = elem_scale(x[i * step], scale);
        back = lane_select(small, down, lane_select(large, up, one));
        squares = elem_add_square(x[0], sum_of_squares(x, step, count, false));
    }
    const vec norm = lane_sqrt(squares);
    const vec beta = lane_select(lane_greater(nothing, x[0].re), norm, lane_negate(norm));
    const elem tau = elem_unscale((elem){lane_sub(beta, x[0].re), lane_negate(x[0].im)}, beta);
    const divisor d = divisor_of((elem){lane_sub(x[0].re, beta), x[0].im});
    const elem r = elem_reciprocal(&d);
    x[0] = elem_select(zero, x[0], (elem){lane_mul(beta, back), nothing});
    for (intptr_t i = 1; i < count; i++) x[i * step] = elem_select(zero, x[i * step], elem_mul(x[i * step], r));
    return elem_select(zero, elem_set(0), tau);
}
#else
/* The sum of squares of x_1 .. x_count-1, in four parts, which need not wait for each other. */
INLINE vec sum_of_squares(const vec *x, intptr_t step, intptr_t count, const bool unrolled) {
    vec s[4] = {lane_set(0), lane_set(0), lane_set(0), lane_set(0)};
    if (unrolled) {
        UNROLLED(intptr_t i = 1; i < count; i++) s[(i - 1) % 4] = lane_fma(x[i * step], x[i * step], s[(i - 1) % 4]);
    } else {
        intptr_t i = 1;
        ROLLED(; i + 3 < count; i += 4)
            UNROLLED(int part = 0; part < 4; part++) {
                const vec y = x[(i + part) * step];
                s[part] = lane_fma(y, y, s[part]);
            }
        UNROLLED(int part = 0; part < 3; part++)
            if (i + part < count) s[part] = lane_fma(x[(i + part) * step], x[(i + part) * step], s[part]);
    }
    return lane_add(lane_add(s[0], s[1]), lane_add(s[2], s[3]));
}

INLINE mask is_zero(const vec *x, intptr_t step, intptr_t count, const bool unrolled) {
    mask zero = lane_equal(lane_set(0), lane_set(0));
    if (unrolled)
        UNROLLED(intptr_t i = 0; i < count; i++) zero &= lane_equal(x[i * step], lane_set(0));
    else
        ROLLED(intptr_t i = 0; i < count; i++) zero &= lane_equal(x[i * step], lane_set(0));
    return zero;
}

/* H = I - tau v v^T, v_0 = 1, of which H x = (beta, 0, 0, ...): x_0 becomes beta, the others v; the result is tau, 0
 * where there is nothing to annihilate. As LAPACK's larfg. */
INLINE vec reflector(vec *x, intptr_t step, intptr_t count, const bool unrolled) {
    const vec one = lane_set(1), low = lane_set(SQUARES_LOW), high = lane_set(SQUARES_HIGH);
    if (count == 1) return lane_set(0);
    const vec rest = sum_of_squares(x, step, count, unrolled);
    vec squares = lane_fma(x[0], x[0], rest), back = one;
    mask zero = lane_equal(one, lane_set(0));
    if (lane_any(~(lane_greater(rest, lane_set(0)) & lane_greater(squares, low) & lane_greater(high, squares)))) {
        zero = is_zero(x + step, step, count - 1, unrolled);
        const mask small = lane_greater(low, squares) & ~zero, large = lane_greater(squares, high) & ~zero;
        const vec up = lane_set(SCALE_UP), down = lane_set(SCALE_DOWN);
        scale_column(x, step, lane_select(small, up, lane_select(large, down, one)), count, unrolled);
        back = lane_select(small, down, lane_select(large, up, one));
        squares = lane_fma(x[0], x[0], sum_of_squares(x, step, count, unrolled));
    }
    const vec norm = lane_sqrt(squares);
    const vec beta = lane_select(lane_greater(lane_set(0), x[0]), norm, lane_negate(norm));
    const vec tau = lane_div(lane_sub(beta, x[0]), beta), r = lane_div(one, lane_sub(x[0], beta));
    x[0] = lane_select(zero, x[0], lane_mul(beta, back));
    scale_column(x + step, step, lane_select(zero, one, r), count - 1, unrolled);
    return lane_select(zero, lane_set(0), tau);
}
#endif
INLINE elem elem_reflector(elem *x, intptr_t step, intptr_t count) { return reflector(x, step, count, false); }

/* w += v x_i and x_i -= v w, for a row i of a few columns of x. */
INLINE void add_products(elem *w, elem v, const elem *x, const int width) {
    UNROLLED(int j = 0; j < width; j++) w[j] = elem_fma(v, x[j], w[j]);
}
INLINE void subtract_products(elem *x, elem v, const elem *w, const int width) {
    UNROLLED(int j = 0; j < width; j++) x[j] = elem_fnma(v, w[j], x[j]);
}

/* H of the vectors v_0 = 1, v_1 .. v_count-1, which lie `step` vectors apart. */
typedef struct reflection {
    const elem *v;
    intptr_t step, count;
    elem tau;
} reflection;

/* x = H x, for a few columns: w = tau v^H x, x = x - v w. fresh: row 0 of x is zero, whatever it holds. */
INLINE void reflect_columns(reflection h, elem *x, intptr_t step, const int width, const bool fresh,
                            const bool unrolled) {
    elem w[REFLECTED];
    UNROLLED(int j = 0; j < width; j++) w[j] = fresh ? elem_mul(elem_conj(h.v[h.step]), x[step + j]) : x[j];
    if (unrolled)
        UNROLLED(intptr_t i = fresh ? 2 : 1; i < h.count; i++)
            add_products(w, elem_conj(h.v[i * h.step]), x + i * step, width);
    else
        ROLLED(intptr_t i = fresh ? 2 : 1; i < h.count; i++)
            add_products(w, elem_conj(h.v[i * h.step]), x + i * step, width);
    UNROLLED(int j = 0; j < width; j++) {
        w[j] = elem_mul(h.tau, w[j]);
        x[j] = fresh ? elem_negate(w[j]) : elem_sub(x[j], w[j]);
    }
    if (unrolled)
        UNROLLED(intptr_t i = 1; i < h.count; i++) subtract_products(x + i * step, h.v[i * h.step], w, width);
    else
        ROLLED(intptr_t i = 1; i < h.count; i++) subtract_products(x + i * step, h.v[i * h.step], w, width);
}

/* The same for any number of columns. */
INLINE void reflect_blocks(reflection h, elem *x, intptr_t step, intptr_t cols, const bool fresh, const bool unrolled) {
    intptr_t j = 0;
    for (; j + REFLECTED <= cols; j += REFLECTED) reflect_columns(h, x + j, step, REFLECTED, fresh, unrolled);
    switch (cols - j) {
    case 7: reflect_columns(h, x + j, step, REFLECTED - 1, fresh, unrolled); break;
    case 6: reflect_columns(h, x + j, step, REFLECTED - 2, fresh, unrolled); break;
    case 5: reflect_columns(h, x + j, step, REFLECTED - 3, fresh, unrolled); break;
    case 4: reflect_columns(h, x + j, step, 4, fresh, unrolled); break;
    case 3: reflect_columns(h, x + j, step, 3, fresh, unrolled); break;
    case 2: reflect_columns(h, x + j, step, 2, fresh, unrolled); break;
    case 1: reflect_columns(h, x + j, step, 1, fresh, unrolled); break;
    }
}

/* Where sizes are not constants, one copy serves all. */
static __attribute__((noinline)) void KERNEL(reflect)(reflection h, elem *x, intptr_t step, intptr_t cols, bool fresh) {
    if (fresh)
        reflect_blocks(h, x, step, cols, true, false);
    else
        reflect_blocks(h, x, step, cols, false, false);
}

INLINE void reflect(reflection h, elem *x, intptr_t step, intptr_t cols, const bool fresh, const bool unrolled) {
    if (unrolled)
        reflect_blocks(h, x, step, cols, fresh, true);
    else
        KERNEL(reflect)(h, x, step, cols, fresh);
}

/* The same, of separate arguments. */
INLINE void KERNEL(elem_reflect)(const elem *v, intptr_t step_v, elem tau, elem *x, intptr_t step, intptr_t count,
                                 intptr_t cols) {
    KERNEL(reflect)((reflection){v, step_v, count, tau}, x, step, cols, false);
}

/* Step k: column k of A becomes r_kk and v, the columns right of it H^H A. */
INLINE void qr_step(elem_matrix a, elem *tau, intptr_t k, const bool unrolled) {
    elem *x = a.at + k * a.step + k;
    tau[k] = reflector(x, a.step, a.m - k, unrolled);
    reflect((reflection){x, a.step, a.m - k, elem_conj(tau[k])}, x + 1, a.step, a.n - k - 1, false, unrolled);
}

/* A becomes R above the reflectors. */
INLINE void qr_factor(elem_matrix a, elem *tau, const bool unrolled, bool cold, const T *next) {
    const intptr_t p = min_of(a.m, a.n), share = p ? PARTS * LANES * a.m * a.n / p : 0;
    if (unrolled)
        UNROLLED(intptr_t k = 0; k < p; k++) qr_step(a, tau, k, unrolled);
    else
        ROLLED(intptr_t k = 0; k < p; k++) {
            if (cold) prefetch(next + k * share, share);
            qr_step(a, tau, k, unrolled);
        }
}

/* Where anything overflows: that leaves its mark on the diagonal of R or, right of it, in the last row. */
INLINE vec qr_mark(elem x, vec nothing) {
    return lane_fma(PARTS == 1 ? elem_re(x) : elem_size(x), lane_set(0), nothing);
}
INLINE mask qr_overflows(elem_matrix a) {
    const intptr_t p = min_of(a.m, a.n);
    vec nothing = lane_set(0);
    for (intptr_t k = 0; k < p; k++) nothing = qr_mark(a.at[k * a.step + k], nothing);
    for (intptr_t j = p; j < a.n; j++) nothing = qr_mark(a.at[(p - 1) * a.step + j], nothing);
    return ~lane_equal(nothing, lane_set(0));
}

/* Load and factor; once more from a scaled A where products of elements near the largest number overflow. */
INLINE void qr_load_and_factor(const smm_call *call, intptr_t q, elem_matrix a, elem *tau, intptr_t count,
                               const bool unrolled, bool cold) {
    const vec one = lane_set(1);
    mask overflows = lane_equal(one, lane_set(0));
    for (bool again = false;; again = true) {
        KERNEL(elem_load)(a.at, &call->a, q, a.m, a.n, count);
        if (again) scale_column(a.at, 1, lane_select(overflows, lane_set((T)0x1p-8), one), a.m * a.n, unrolled);
        spread_rows(elem_parts(a));
        qr_factor(a, tau, unrolled, cold && !again, ahead_of(&call->a, q, PARTS * LANES * a.m * a.n));
        if (again) break;
        overflows = qr_overflows(a);
        if (!lane_any(overflows)) return;
    }
    const vec back = lane_select(overflows, lane_set((T)0x1p8), one);
    for (intptr_t i = 0; i < min_of(a.m, a.n); i++) scale_column(a.at + i * a.step + i, 1, back, a.n - i, unrolled);
}

#if defined(REAL_DTYPE)
/* Columns j .. j+width-1 of Q = H_0 H_1 ..., of the reflectors in A. */
INLINE void q_columns(elem *x, intptr_t j, intptr_t width, elem_matrix a, const elem *tau, const bool unrolled) {
    for (intptr_t e = 0; e < a.m * width; e++) x[e] = elem_set(e / width == j + e % width);
    for (intptr_t k = min_of(min_of(a.m, a.n), j + width) - 1; k >= 0; k--) {
        const intptr_t first = k > j ? k - j : 0; /* columns before are zero from row k on */
        const reflection h = {a.at + k * a.step + k, a.step, a.m - k, tau[k]};
        reflect(h, x + k * width + first, width, width - first, false, unrolled);
    }
}
static void KERNEL(q_columns)(elem *x, intptr_t j, intptr_t width, elem_matrix a, const elem *tau) {
    q_columns(x, j, width, a, tau, false);
}

/* All columns of Q, as many at a time as there is room for. */
INLINE void q_store(const smm_call *call, intptr_t q, elem_matrix a, const elem *tau, elem *x, intptr_t count,
                    const bool unrolled) {
    const intptr_t most = QR_ELEMENTS / a.m;
    for (intptr_t j = 0, width; j < call->k; j += width) {
        width = unrolled ? a.n : min_of(most, call->k - j);
        if (unrolled)
            q_columns(x, j, a.n, a, tau, true);
        else
            KERNEL(q_columns)(x, j, width, a, tau);
        const smm_operand c = elem_columns(call->qr.q, j);
        KERNEL(elem_store)(&c, q, x, a.m, width, count);
    }
}
#else
/* Column k of the first p columns of Q from k on, which were those of I so far. */
INLINE void q_step(lanes_matrix a, const vec *tau, intptr_t p, intptr_t k, const bool unrolled) {
    vec *x = a.at + k * a.step + k;
    reflect((reflection){x, a.step, a.m - k, tau[k]}, x + 1, a.step, p - k - 1, true, unrolled);
    scale_column(x + a.step, a.step, lane_negate(tau[k]), a.m - k - 1, unrolled);
    x[0] = lane_sub(lane_set(1), tau[k]);
}

/* The reflectors become the first p = min(m, n) columns of Q = H_0 H_1 ..., from the last on: rows above and columns
 * left of step k are those of I until then. */
INLINE void q_form(lanes_matrix a, const vec *tau, const bool unrolled) {
    const intptr_t p = min_of(a.m, a.n);
    if (unrolled)
        UNROLLED(intptr_t k = p - 1; k >= 0; k--) q_step(a, tau, p, k, unrolled);
    else
        ROLLED(intptr_t k = p - 1; k >= 0; k--) q_step(a, tau, p, k, unrolled);
}

/* Columns n .. cols-1 of Q of the tall, as many at a time as there is room for in x. */
INLINE void q_store_complement(const smm_operand *to, intptr_t cols, intptr_t q, lanes_matrix a, const vec *tau, vec *x,
                               intptr_t count) {
    const intptr_t most = QR_ELEMENTS / a.m;
    for (intptr_t j = a.n, width; j < cols; j += width) {
        width = min_of(most, cols - j);
        for (intptr_t i = 0; i < a.m * width; i++) x[i] = lane_set(i / width == j + i % width);
        for (intptr_t k = a.n - 1; k >= 0; k--) {
            const reflection h = {a.at + k * a.step + k, a.step, a.m - k, tau[k]};
            reflect(h, x + k * width, width, width, true, false);
        }
        smm_operand c = *to;
        c.data = (char *)c.data + j * c.col;
        lanes_store(&c, q, x, a.m, width, count);
    }
}

/* The first columns of Q in place of the reflectors, and all others; x is workspace. */
INLINE void q_store(const smm_call *call, intptr_t q, lanes_matrix a, const vec *tau, vec *x, intptr_t count,
                    const bool unrolled) {
    const intptr_t p = min_of(a.m, a.n);
    if (!unrolled && call->k > p) q_store_complement(&call->qr.q, call->k, q, a, tau, x, count);
    q_form(a, tau, unrolled);
    gather_rows(a, p);
    lanes_store(&call->qr.q, q, a.at, a.m, p, count);
}
#endif

/* R, and zeros below its diagonal; r is workspace for it. */
INLINE void r_store(const smm_call *call, intptr_t q, elem *r, elem_matrix a, const intptr_t rows, intptr_t count) {
    for (intptr_t i = 0; i < rows; i++)
        for (intptr_t j = 0; j < a.n; j++) r[i * a.n + j] = i <= j ? a.at[i * a.step + j] : elem_set(0);
    KERNEL(elem_store)(call->op == SMM_OP_QR ? &call->qr.r : &call->qr_r.r, q, r, rows, a.n, count);
}

/* QR, QR_R, QR_RAW of LANES matrices, with room for R. */
INLINE void qr_group(const smm_call *call, intptr_t q, elem_matrix a, elem *r, intptr_t count, const bool unrolled,
                     bool cold) {
    const intptr_t p = min_of(a.m, a.n);
    elem tau[SMM_MAX_ORDER];
    qr_load_and_factor(call, q, a, tau, count, unrolled, cold);
    lanes_store_int(smm_info(call), q, lane_set(0), count);
    if (call->op == SMM_OP_QR_RAW) {
        gather_rows(elem_parts(a), PARTS * a.n);
        KERNEL(elem_store)(&call->qr_raw.h, q, a.at, a.m, a.n, count);
        KERNEL(elem_store)(&call->qr_raw.tau, q, tau, p, 1, count);
        return;
    }
    r_store(call, q, r, a, unrolled ? p : call->k, count);
    if (call->op == SMM_OP_QR_R) return;
    q_store(call, q, a, tau, r, count, unrolled);
}

/* Square matrices of a constant order. */
enum { QR_LANES_MAX = PARTS == 1 ? 10 : 4 };
INLINE void qr_lanes_square(const smm_call *call, intptr_t first, intptr_t last, bool cold, const int n) {
    for (intptr_t q = first; q < last; q += LANES) {
        elem a[QR_LANES_MAX * QR_LANES_MAX], r[QR_LANES_MAX * QR_LANES_MAX];
        if (cold) prefetch(ahead_of(&call->a, q, LANES * n * n), LANES * n * n); /* not at each of short steps */
        qr_group(call, q, (elem_matrix){a, n, n, n}, r, min_of(LANES, last - q), true, false);
    }
}

typedef struct qr_workspace {
    elem a[QR_WORKSPACE], r[QR_ELEMENTS];
} qr_workspace;
_Static_assert(sizeof(qr_workspace) <= SMM_KERNEL_WORKSPACE, "workspace of qr_lanes");

static void KERNEL(qr_lanes)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) {
    qr_workspace *const workspace = smm_kernel_workspace();
    const elem_matrix x = {workspace->a, call->m, call->n, row_step(call->n)};
    for (intptr_t q = first; q < last; q += LANES)
        qr_group(call, q, x, workspace->r, min_of(LANES, last - q), false, cold);
}
