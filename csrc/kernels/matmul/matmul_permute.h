/* matmul_permute.h: C = A B for matrices so small that whole ones, or several, fit a vector.
 *
 * Lane l of the result is element (i, j) of some matrix q, and
 *     c[l] = a[q, i, 0] b[q, 0, j] + a[q, i, 1] b[q, 1, j] + ...
 * so each k takes one permutation of the vector that holds A, one of the vector that holds B, and one
 * FMA. The strides only enter the index vectors, computed once per call: transposed, padded and broadcast
 * operands cost the same. */

enum { PERMUTE_MAX_K = 4 };

/* Matrices per vector; 0 if not even one fits. */
INLINE intptr_t permute_matrices(intptr_t m, intptr_t k, intptr_t n) {
    const intptr_t mk = m * k, kn = k * n, mn = m * n;
    const intptr_t most = mk > kn ? (mk > mn ? mk : mn) : (kn > mn ? kn : mn);
    return LANES / most;
}

/* Elements from the first to the last of `count` rows x cols matrices; over LANES if a stride is negative. */
INLINE intptr_t extent(strides s, intptr_t count, intptr_t rows, intptr_t cols) {
    if (s.batch < 0 || s.row < 0 || s.col < 0) return LANES + 1;
    return (count - 1) * s.batch + (rows - 1) * s.row + (cols - 1) * s.col + 1;
}

static unsigned permute_needs(const smm_call *call) {
    const intptr_t m = call->m, k = call->k, n = call->n;
    if (k < 1 || k > PERMUTE_MAX_K || m > LANES || n > LANES || !permute_matrices(m, k, n)) return SMM_UNFIT;
    const intptr_t count = permute_matrices(m, k, n);
    const strides c = strides_of(&call->matmul.c);
    const bool packed_c = c.col == 1 && c.row == n && (c.batch == m * n || call->batch == 1);
    return (extent(strides_of(&call->matmul.a), count, m, k) <= LANES ? 0u : SMM_PACK_A) |
           (extent(strides_of(&call->matmul.b), count, k, n) <= LANES ? 0u : SMM_PACK_B) |
           (packed_c ? 0u : SMM_STAGE_C);
}

INLINE vec permute_product(const int k, const index_vec *ia, const index_vec *ib, vec a, vec b) {
    vec c = lane_mul(lane_permute(ia[0], a), lane_permute(ib[0], b));
    UNROLLED(int p = 1; p < k; p++) c = lane_fma(lane_permute(ia[p], a), lane_permute(ib[p], b), c);
    return c;
}

INLINE void permute_loop(const smm_call *call, intptr_t first, intptr_t last, const bool cold, const int k,
                         const intptr_t m, const intptr_t n) {
    const intptr_t step = permute_matrices(m, k, n);
    const strides as = strides_of(&call->matmul.a), bs = strides_of(&call->matmul.b);
    index_vec ia[PERMUTE_MAX_K], ib[PERMUTE_MAX_K];
    UNROLLED(int p = 0; p < k; p++) {
        int32_t a[LANES] = {0}, b[LANES] = {0};
        intptr_t l = 0;
        for (intptr_t q = 0; q < step; q++)
            for (intptr_t i = 0; i < m; i++)
                for (intptr_t j = 0; j < n; j++, l++) {
                    a[l] = (int32_t)(q * as.batch + i * as.row + p * as.col);
                    b[l] = (int32_t)(q * bs.batch + p * bs.row + j * bs.col);
                }
        ia[p] = lane_index(a);
        ib[p] = lane_index(b);
    }

    const T *a = (const T *)call->matmul.a.data + first * as.batch,
            *b = (const T *)call->matmul.b.data + first * bs.batch;
    T *c = (T *)call->matmul.c.data + first * m * n;
    const intptr_t a_count = extent(as, step, m, k), b_count = extent(bs, step, k, n);
    intptr_t q = first;
    if (a_count == LANES && b_count == LANES && step * m * n == LANES)
        for (; q + step <= last; q += step, a += step * as.batch, b += step * bs.batch, c += step * m * n) {
            if (cold) prefetch(a + distance(LANES), LANES), prefetch(b + distance(LANES), LANES);
            lane_store(c, permute_product(k, ia, ib, lane_load(a), lane_load(b)));
        }
    else
        for (; q + step <= last; q += step, a += step * as.batch, b += step * bs.batch, c += step * m * n) {
            if (cold) prefetch(a + distance(LANES), LANES), prefetch(b + distance(LANES), LANES);
            const vec x = permute_product(k, ia, ib, lane_load_part(a, a_count), lane_load_part(b, b_count));
            lane_store_part(c, x, step * m * n);
        }
    if (q < last) {
        const vec av = lane_load_part(a, extent(as, last - q, m, k)),
                  bv = lane_load_part(b, extent(bs, last - q, k, n));
        lane_store_part(c, permute_product(k, ia, ib, av, bv), (last - q) * m * n);
    }
}

static void KERNEL(matmul_permute)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) {
    const intptr_t m = call->m, n = call->n;
    switch (call->k) {
    case 1: permute_loop(call, first, last, cold, 1, m, n); break;
    case 2: permute_loop(call, first, last, cold, 2, m, n); break;
    case 3: permute_loop(call, first, last, cold, 3, m, n); break;
    case 4: permute_loop(call, first, last, cold, 4, m, n); break;
    }
}
