/* columns.cuh: reflectors of columns that lanes of a part of a warp have in registers, as eigh_rows.cuh and
 * svd_phases.cuh do. Loops over elements have constant ends, STEP reflectors for each text: so v is zero before its 1.
 */

constexpr int OWN = (N + LANES - 1) / LANES, STEP = 8;

/* Of own column r, which is j; or row. None that comes before FROM in every lane. */
template <int COUNT = OWN, int FROM = 0, class RUN> __device__ inline void each_own(RUN run) {
#pragma unroll
    for (int r = FROM / LANES; r < COUNT; r++) run(r, lane() + r * LANES);
}

/* Columns of I. */
template <int COUNT, int ROWS> __device__ inline void make_unit(Element (&q)[COUNT][ROWS]) {
    each_own<COUNT>([&](int r, int j) {
#pragma unroll
        for (int i = 0; i < ROWS; i++) q[r][i] = element_of(i == j);
    });
}

/* Own columns become H q, of v(i), which is 1 at some place, and zero up to FROM; columns up to FROM have zeros
 * elsewhere, or are not used any more. Column `unit` is that of I with a 1 there, where it is no sum. */
template <int FROM, int COUNT, int ROWS, class V>
__device__ inline void reflect_columns(Element (&q)[COUNT][ROWS], V v, Element tau, int unit = -1) {
    Element w[COUNT];
    each_own<COUNT, FROM>([&](int r, int) { w[r] = element_of(0); });
#pragma unroll
    for (int i = FROM; i < ROWS; i++) {
        const Element y = v(i);
        each_own<COUNT, FROM>([&](int r, int) { w[r] = multiply_add(conjugate(y), q[r][i], w[r]); });
    }
    each_own<COUNT, FROM>([&](int r, int) { w[r] = product(tau, w[r]); });
#pragma unroll
    for (int i = FROM; i < ROWS; i++) {
        const Element y = v(i);
        each_own<COUNT, FROM>([&](int r, int j) {
            if (COMPLEX && j == unit && i > j)
                q[r][i] = product(negative(tau), y);
            else
                q[r][i] = multiply_subtract(y, w[r], q[r][i]);
        });
    }
}

/* I becomes H_0 H_1 ..., LAST reflectors v(k, i) with their 1 at k + SHIFT, from the last on: as form_vectors() of
 * rotations.cuh does, or, without a SHIFT, form_in_place() of reflectors.cuh, whose columns are sums. */
template <int LAST, int SHIFT, int FROM = 0, int COUNT, int ROWS, class V>
__device__ inline void form_columns(Element (&q)[COUNT][ROWS], V v, const Element *tau) {
    if constexpr (FROM + STEP < LAST) form_columns<LAST, SHIFT, FROM + STEP>(q, v, tau);
#pragma unroll 1
    for (int k = min_of(FROM + STEP, LAST) - 1; k >= FROM; k--)
        reflect_columns<FROM>(q, [&](int i) { return Element(v(k, i)); }, tau[k], SHIFT ? k + SHIFT : -1);
}
