/* qr_single.h: QR of one matrix at a time: the steps of qr_lanes.h, whose columns are the lanes (single.h). */

/* What a matrix takes: A, then R and what is not zero yet below; the reflectors, each in a row; Q. */
typedef struct qr_single_workspace {
    elem a[SINGLE_ELEMENTS], h[SINGLE_ELEMENTS], q[SINGLE_ELEMENTS], tau[SMM_MAX_ORDER];
    single_workspace workspace;
} qr_single_workspace;
_Static_assert(sizeof(qr_single_workspace) <= SMM_KERNEL_WORKSPACE, "workspace of qr_single");

/* A becomes R, and anything below its diagonal; h gets the reflectors. The update of one step and the sums of the next
 * are one pass. */
SHARED void KERNEL(qr_single_factor)(elem_matrix a, elem_matrix h, elem *tau, single_workspace *x) {
    elem *const conj_v = x->spread[2];
    single_zero(x->row[1], a.step);
    single_zero(h.at, h.m * h.step);
    for (intptr_t k = 0; k < min_of(a.m, a.n); k++) {
        elem *const row = a.at + k * a.step, *const v = x->spread[k % 2], *const w = x->row[k % 2];
        const single_outer last = {x->spread[(k + 1) % 2], x->row[(k + 1) % 2], true};
        const elem last_w = single_get(last.col, k);
        ROLLED(intptr_t i = k; i < a.m; i++) {
            const elem y = single_get(a.at + i * a.step, k);
            v[i] = k ? elem_fnma(last.row[i], last_w, y) : y;
        }
        tau[k] = reflector(v + k, 1, a.m - k, false);
        const elem diagonal = v[k];
        v[k] = elem_set(1);
        single_collect(h.at + k * h.step, v, k, a.m);
        single_conjugate(conj_v, v, k, a.m);
        if (k + 1 < a.n) {
            single_pass(a, k + 1, k, k ? k : a.m, &last, 1, conj_v, SINGLE_BEGIN, w);
            single_multiply_row(w, elem_conj(tau[k]), k + 1, a.n);
            for (intptr_t b = (k + 1) / LANES; b < single_blocks(a.n); b++) row[b] = elem_sub(row[b], w[b]);
        }
        single_put(row, k, diagonal);
    }
}

/* Whether anything overflows: as qr_overflows. */
INLINE bool qr_single_overflows(elem_matrix a) {
    const intptr_t p = min_of(a.m, a.n);
    vec nothing = lane_set(0);
    for (intptr_t k = 0; k < p; k++) nothing = qr_mark(single_get(a.at + k * a.step, k), nothing);
    for (intptr_t j = p; j < a.n; j++) nothing = qr_mark(single_get(a.at + (p - 1) * a.step, j), nothing);
    return lane_any(~lane_equal(nothing, lane_set(0)));
}

/* As qr_load_and_factor. */
INLINE void qr_single_load_and_factor(const smm_call *call, intptr_t q, elem_matrix a, elem_matrix h, elem *tau,
                                      single_workspace *x) {
    for (bool again = false;; again = true) {
        single_load(a, &call->a, q);
        if (again) scale_column(a.at, 1, lane_set((T)0x1p-8), a.m * a.step, false);
        KERNEL(qr_single_factor)(a, h, tau, x);
        if (again) break;
        if (!qr_single_overflows(a)) return;
    }
    scale_column(a.at, 1, lane_set((T)0x1p8), a.m * a.step, false);
}

/* Below the diagonal: the reflectors, or zeros. */
INLINE void qr_single_fill(elem_matrix a, elem_matrix h, bool reflectors) {
    for (intptr_t i = 0; i < a.m; i++)
        for (intptr_t j = 0; j < min_of(i, a.n); j++)
            single_put(a.at + i * a.step, j, reflectors ? single_get(h.at + j * h.step, i) : elem_set(0));
}

/* The first q.n columns of Q. */
INLINE void qr_single_form(elem_matrix q, elem_matrix h, const elem *tau, single_workspace *x) {
    KERNEL(single_form)(q, h, tau, h.m, 0, x, PARTS == 1);
}

/* The lanes took 2.1, 5.4 and 8.8 times as long for one f64 matrix of order 32, 64 and 128. */
static unsigned qr_single_needs(const smm_call *call) {
    return single_fits(call) ? single_needs(call->batch, min_of(call->m, call->n), 128, 128) : SMM_UNFIT;
}

static void KERNEL(qr_single)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) {
    (void)cold;
    qr_single_workspace *const w = smm_kernel_workspace();
    const intptr_t m = call->m, n = call->n, p = min_of(m, n);
    const elem_matrix a = single_matrix(w->a, m, n), h = single_matrix(w->h, p, m);
    for (intptr_t q = first; q < last; q++) {
        qr_single_load_and_factor(call, q, a, h, w->tau, &w->workspace);
        lanes_store_int(smm_info(call), q, lane_set(0), 1);
        qr_single_fill(a, h, call->op == SMM_OP_QR_RAW);
        if (call->op == SMM_OP_QR_RAW) {
            single_store(&call->qr_raw.h, q, a);
            KERNEL(elem_store)(&call->qr_raw.tau, q, w->tau, p, 1, 1);
            continue;
        }
        single_store(call->op == SMM_OP_QR ? &call->qr.r : &call->qr_r.r, q, (elem_matrix){a.at, call->k, n, a.step});
        if (call->op == SMM_OP_QR_R) continue;
        const elem_matrix q_of = single_matrix(w->q, m, call->k);
        qr_single_form(q_of, h, w->tau, &w->workspace);
        single_store(&call->qr.q, q, q_of);
    }
}
