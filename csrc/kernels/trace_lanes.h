/* trace_lanes.h: the trace, LANES matrices side by side. The diagonal is a column whose stride is a row and a column. */
static void KERNEL(trace_lanes)(const smm_call *call, intptr_t first, intptr_t last, smm_behind *cold) {
    const smm_operand a = call->a, diagonal = {a.data, a.batch, a.row + a.col, sizeof(T)};
    (void)cold;
    for (intptr_t q = first; q < last; q += LANES) {
        const intptr_t count = least(LANES, last - q);
        vec x[SMM_MOST_ORDER], sum = lane_set(0);
        lanes_load(x, &diagonal, q, call->n, 1, count);
        for (intptr_t i = 0; i < call->n; i++) sum = lane_add(sum, x[i]);
        lanes_store(&call->trace.trace, q, &sum, 1, 1, count);
    }
}
