/* eigh_numbers.h: eigenvalues and eigenvectors of Hermitian matrices, LANES of them side by side, by the method of
 * eigh_lanes.h: Householder reflectors leave a T that is real (LAPACK's hetrd and ungtr), and rotations of T turn real
 * and imaginary parts of V alike (eigh_sweeps.h). */

/* A^T above the diagonal, that is, columns of A in rows; then the reflectors, then Q, in rows `row_step` apart. */
typedef struct hermitian_room {
    num a[SMM_MOST_ORDER * (SMM_MOST_ORDER + 1)];
    num tau[SMM_MOST_ORDER], v[SMM_MOST_ORDER], w[SMM_MOST_ORDER];
} hermitian_room;
_Static_assert(sizeof(hermitian_room) <= SMM_KERNEL_ROOM, "room of eigh_numbers");

INLINE lanes_matrix hermitian_parts(num *a, intptr_t n) {
    return (lanes_matrix){(vec *)a, n, PARTS * n, PARTS * row_step(n)};
}

/* Of the triangle in question, times a power of two that brings it to about 1; zero where it is not finite. Imaginary
 * parts of the diagonal are not read. The result undoes the scaling, and is NaN where A is not finite. */
INLINE vec hermitian_load(const smm_call *call, intptr_t q, num *a, intptr_t n, intptr_t count) {
    const bool upper = call->form & SMM_UPPER;
    const intptr_t step = row_step(n);
    const vec zero = lane_set(0);
    smm_operand from = call->a;
    if (!upper) from.row = call->a.col, from.col = call->a.row;
    KERNEL(numbers_load)(a, &from, q, n, n, count);
    spread_rows(hermitian_parts(a, n));
    vec most = zero, nothing = zero;
    for (intptr_t i = 0; i < n; i++)
        for (intptr_t j = i; j < n; j++) {
            num *const x = &a[i * step + j];
            if (upper) *x = num_conj(*x);
            if (i == j) x->im = zero;
            most = lane_max(lane_abs(x->im), lane_max(lane_abs(x->re), most));
            nothing = lane_fma(x->im, zero, lane_fma(x->re, zero, nothing));
        }
    const mask finite = lane_equal(nothing, zero);
    const vec scale = lane_scale_to_one(most);
    if (lane_any(~(finite & lane_equal(scale, lane_set(1)))))
        for (intptr_t i = 0; i < n; i++)
            for (intptr_t j = i; j < n; j++)
                a[i * step + j] = num_select(finite, num_scale(a[i * step + j], scale), num_set(0));
    return lane_select(finite, lane_div(lane_set(1), scale), lane_set(NAN));
}

/* B = H^H B H, of order `count`, H = I - tau v v^H: w = tau B v, w = w - |tau|^2 (v^H B v) / 2 v, B = B - v w^H - w
 * v^H. v_0 = 1. */
static void KERNEL(hermitian_reflect)(num *b, intptr_t step, const num *v, num *w, num tau, intptr_t count) {
    num sum = b[0];
    for (intptr_t j = 1; j < count; j++) {
        sum = num_fma(num_conj(b[j]), v[j], sum);
        w[j] = b[j];
    }
    w[0] = sum;
    for (intptr_t i = 1; i < count; i++) {
        const num *row = b + i * step, v_i = v[i];
        sum = num_fma(row[i], v_i, w[i]);
        for (intptr_t j = i + 1; j < count; j++) {
            sum = num_fma(num_conj(row[j]), v[j], sum);
            w[j] = num_fma(row[j], v_i, w[j]);
        }
        w[i] = sum;
    }
    num dot = w[0] = num_mul(tau, w[0]);
    for (intptr_t i = 1; i < count; i++) dot = num_fma(num_conj(v[i]), w[i] = num_mul(tau, w[i]), dot);
    const vec half = lane_mul(lane_set((T)-0.5), lane_fma(tau.im, dot.im, lane_mul(tau.re, dot.re)));
    for (intptr_t i = 0; i < count; i++)
        w[i] = (num){lane_fma(half, v[i].re, w[i].re), lane_fma(half, v[i].im, w[i].im)};
    for (intptr_t i = 0; i < count; i++) {
        const num v_i = num_conj(v[i]), w_i = num_conj(w[i]);
        num *const row = b + i * step;
        for (intptr_t j = i; j < count; j++) row[j] = num_fnma(w_i, v[j], num_fnma(v_i, w[j], row[j]));
        row[i].im = lane_set(0);
    }
}

static void KERNEL(hermitian_reduce)(hermitian_room *room, eigh_stack *x, intptr_t n) {
    const intptr_t step = row_step(n);
    for (intptr_t k = 0; k < n; k++) {
        const intptr_t count = n - k - 1;
        num *const row = room->a + k * step + k;
        x->d[k] = row[0].re;
        if (!count) break;
        room->tau[k] = numbers_reflector(row + 1, 1, count);
        x->e[k] = row[1].re;
        room->v[0] = num_set(1);
        for (intptr_t i = 1; i < count; i++) room->v[i] = row[1 + i];
        if (count > 1) KERNEL(hermitian_reflect)(row + step + 1, step, room->v, room->w, room->tau[k], count);
    }
}

/* Q = H_0 H_1 ..., from the last on: rows and columns up to k are still those of I when H_k comes. */
static void KERNEL(hermitian_form)(num *a, const num *taus, num *w, intptr_t n) {
    const intptr_t step = row_step(n);
    for (intptr_t k = n - 2; k >= 0; k--) {
        const intptr_t count = n - k - 1;
        const num *v = a + k * step + k + 1, tau = taus[k], minus = num_negate(tau);
        num *const q = a + (k + 1) * (step + 1);
        for (intptr_t i = 1; i < count; i++) {
            const num v_i = num_conj(v[i]), *row = q + i * step;
            for (intptr_t j = 1; j < count; j++) w[j] = i == 1 ? num_mul(v_i, row[j]) : num_fma(v_i, row[j], w[j]);
        }
        for (intptr_t j = 1; j < count; j++) q[j] = num_negate(w[j] = num_mul(tau, w[j]));
        for (intptr_t i = 1; i < count; i++) {
            numbers_subtract(q + i * step + 1, v[i], w + 1, count - 1);
            q[i * step] = num_mul(minus, v[i]);
        }
        q[0] = num_sub(num_set(1), tau);
    }
    for (intptr_t i = 1; i < n; i++) a[i] = a[i * step] = num_set(0);
    a[0] = num_set(1);
}

/* The numbers of each row as its real parts, and `row_step` further its imaginary parts; and back. */
INLINE void hermitian_part(num *a, num *w, intptr_t n) {
    const intptr_t step = row_step(n);
    for (intptr_t i = 0; i < n; i++) {
        num *const row = a + i * step;
        vec *const re = (vec *)row, *const im = re + step;
        for (intptr_t j = 0; j < n; j++) w[j] = row[j];
        for (intptr_t j = 0; j < n; j++) re[j] = w[j].re, im[j] = w[j].im;
    }
}
INLINE void hermitian_join(num *a, num *w, intptr_t n) {
    const intptr_t step = row_step(n);
    for (intptr_t i = 0; i < n; i++) {
        num *const row = a + i * step;
        const vec *const re = (vec *)row, *const im = re + step;
        for (intptr_t j = 0; j < n; j++) w[j] = (num){re[j], im[j]};
        for (intptr_t j = 0; j < n; j++) row[j] = w[j];
    }
}

/* The largest element of each column of V becomes positive, and the column goes to its place. */
INLINE void hermitian_place(vec *a, intptr_t n, int32_t place[SMM_MOST_ORDER][LANES]) {
    const intptr_t step = row_step(n);
    vec ones[SMM_MOST_ORDER];
    for (intptr_t j = 0; j < n; j++) {
        vec *const re = a + j, *const im = re + step;
        pairs_largest most = {num_set(1), lane_set(0), lane_set(-1)};
        for (intptr_t i = 0; i < n; i++) pairs_consider(&most, (num){re[PARTS * i * step], im[PARTS * i * step]}, i);
        const num phase = pairs_phase(&most);
        const vec size = lane_sqrt(most.square);
        for (intptr_t i = 0; i < n; i++) {
            const num y = pairs_turn(&most, phase, size, (num){re[PARTS * i * step], im[PARTS * i * step]}, i);
            re[PARTS * i * step] = y.re, im[PARTS * i * step] = y.im;
        }
        ones[j] = lane_set(1);
    }
    for (intptr_t i = 0; i < PARTS * n; i++) eigh_arrange_row(a + i * step, n, place, ones);
}

/* Ascending eigenvalues, and columns of V with them. */
static void KERNEL(hermitian_arrange)(eigh_stack *x, intptr_t n, bool vectors) {
    int32_t place[SMM_MOST_ORDER][LANES];
    vec ones[SMM_MOST_ORDER];
    eigh_places(place, x->d, n);
    for (intptr_t j = 0; j < n; j++) ones[j] = lane_set(1);
    eigh_arrange_row(x->d, n, place, ones);
    if (vectors) hermitian_place(x->a, n, place);
}

INLINE void hermitian_group(const smm_call *call, intptr_t q, intptr_t count, const bool vectors) {
    const intptr_t n = call->n;
    hermitian_room *const room = smm_kernel_room();
    eigh_stack x = {.a = (vec *)room->a};
    eigh_turns turns[2];
    const vec zero = lane_set(0);
    x.back = hermitian_load(call, q, room->a, n, count);
    KERNEL(hermitian_reduce)(room, &x, n);
    if (vectors) {
        KERNEL(hermitian_form)(room->a, room->tau, room->w, n);
        hermitian_part(room->a, room->w, n);
    }
    eigh_iterate(&x, turns, n, PARTS * n, 1, vectors, false);
    KERNEL(hermitian_arrange)(&x, n, vectors);
    const vec times = lane_select(lane_equal(x.info, zero), x.back, lane_set(NAN));
    for (intptr_t j = 0; j < n; j++) x.d[j] = eigh_value(x.d[j], times);
    lanes_store(vectors ? &call->eigh.w : &call->eigvalsh.w, q, x.d, n, 1, count);
    lanes_store_int(smm_info(call), q, x.info, count);
    if (!vectors) return;
    hermitian_join(room->a, room->w, n);
    gather_rows(hermitian_parts(room->a, n), PARTS * n);
    KERNEL(numbers_store)(&call->eigh.v, q, room->a, n, n, count);
    KERNEL(numbers_spoil)(&call->eigh.v, q, lane_select(lane_equal(times, times), zero, lane_set(1)), n, n, count);
}

static void KERNEL(eigh_lanes)(const smm_call *call, intptr_t first, intptr_t last, smm_behind *cold) {
    (void)cold;
    for (intptr_t q = first; q < last; q += LANES) hermitian_group(call, q, least(LANES, last - q), true);
}
static void KERNEL(eigvalsh_lanes)(const smm_call *call, intptr_t first, intptr_t last, smm_behind *cold) {
    (void)cold;
    for (intptr_t q = first; q < last; q += LANES) hermitian_group(call, q, least(LANES, last - q), false);
}
