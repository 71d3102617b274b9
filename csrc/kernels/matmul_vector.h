/* matmul_vector.h: C = A B where B is one vector, or a few (n <= BLOCK / 2), and A lies by rows.
 *
 * c_ij = a_i0 b_0j + a_i1 b_1j + ... must be summed in this order, so the lanes hold different rows i: blocks of A
 * are transposed in registers and each of their columns meets an element of each column of B. (Lanes that hold
 * different columns, as in matmul_rows.h, would be empty half the time.) */

INLINE void vector_loop(const smm_call *call, intptr_t first, intptr_t last, bool cold, const int n) {
    const strides as = strides_of(&call->a), bs = strides_of(&call->b), cs = strides_of(&call->c);
    const T *a = (const T *)call->a.data + first * as.batch, *b = (const T *)call->b.data + first * bs.batch;
    T *c = (T *)call->c.data + first * cs.batch;
    const intptr_t m = call->m, k = call->k;
    for (intptr_t q = first; q < last; q++, a += as.batch, b += bs.batch, c += cs.batch)
        for (intptr_t i = 0; i < m; i += BLOCK) {
            const intptr_t height = least(BLOCK, m - i);
            block_row sum[BLOCK];
            UNROLLED(int j = 0; j < BLOCK; j++) sum[j] = block_set(0);
            for (intptr_t p = 0; p < k; p += BLOCK) {
                const intptr_t width = least(BLOCK, k - p);
                const T *ap = a + i * as.row + p;
                block_row x[BLOCK];
                if (cold) prefetch(a + distance(m * k) + i * k + p * height, height * width);
                UNROLLED(int l = 0; l < BLOCK; l++) x[l] = block_load(ap + (l < height ? l : 0) * as.row, width);
                block_transpose(x);
                if (p == 0)
                    UNROLLED(int j = 0; j < n; j++) sum[j] = block_mul(x[0], block_set(b[j * bs.col]));
                UNROLLED(int l = 0; l < BLOCK; l++)
                    if (l < width && p + l > 0)
                        UNROLLED(int j = 0; j < n; j++)
                            sum[j] = block_fma(x[l], block_set(b[(p + l) * bs.row + j * bs.col]), sum[j]);
            }
            if (n == 1) {
                block_store(c + i, sum[0], height);
                continue;
            }
            block_transpose(sum);
            UNROLLED(int l = 0; l < BLOCK; l++)
                if (l < height) block_store(c + (i + l) * cs.row, sum[l], n);
        }
}

static void KERNEL(matmul_vector)(const smm_call *call, intptr_t first, intptr_t last, smm_behind *cold) {
    if (call->n == 1) vector_loop(call, first, last, cold, 1);
    UNROLLED(int n = 2; 2 * n <= BLOCK; n++)
        if (call->n == n) vector_loop(call, first, last, cold, n);
}

/* A by rows; C, a column, dense, or by rows. For several columns A must be worth transposing: about two full blocks
 * of float64, one of float32 (C timings on an AMD EPYC, family 26 model 2). */
static unsigned vector_needs(const smm_call *call) {
    const intptr_t size = sizeof(T), n = call->n;
    if (call->a.col != size || (n > 1 && (2 * n > BLOCK || call->m * call->k * 4 < BLOCK * BLOCK * size)))
        return SMM_UNFIT;
    return (n == 1 ? call->c.row : call->c.col) == size ? 0u : SMM_STAGE_C;
}
