/* matmul_vector.h: C = A B where B is a vector (n = 1) and A lies by rows.
 *
 * c_i = a_i0 b_0 + a_i1 b_1 + ... must be summed in this order, so the lanes hold different rows i: blocks of A
 * are transposed in registers and each of their columns meets one element of B. */
static void KERNEL(matmul_vector)(const smm_call *call, intptr_t first, intptr_t last, bool cold) {
    const strides as = strides_of(&call->a), bs = strides_of(&call->b), cs = strides_of(&call->c);
    const T *a = (const T *)call->a.data + first * as.batch, *b = (const T *)call->b.data + first * bs.batch;
    T *c = (T *)call->c.data + first * cs.batch;
    const intptr_t m = call->m, k = call->k;
    for (intptr_t q = first; q < last; q++, a += as.batch, b += bs.batch, c += cs.batch)
        for (intptr_t i = 0; i < m; i += BLOCK) {
            const intptr_t height = least(BLOCK, m - i);
            block_row sum = block_set(0);
            for (intptr_t p = 0; p < k; p += BLOCK) {
                const intptr_t width = least(BLOCK, k - p);
                const T *ap = a + i * as.row + p;
                block_row x[BLOCK];
                if (cold) prefetch(a + distance(m * k) + i * k + p * height, height * width);
                UNROLLED(int l = 0; l < BLOCK; l++) x[l] = block_load(ap + (l < height ? l : 0) * as.row, width);
                block_transpose(x);
                if (p == 0) sum = block_mul(x[0], block_set(b[0]));
                UNROLLED(int l = 0; l < BLOCK; l++)
                    if (l < width && p + l > 0) sum = block_fma(x[l], block_set(b[(p + l) * bs.row]), sum);
            }
            block_store(c + i, sum, height);
        }
}

/* A by rows, C dense. */
static unsigned vector_needs(const smm_call *call) {
    const intptr_t size = sizeof(T);
    if (call->n != 1 || call->a.col != size) return SMM_UNFIT;
    return call->c.row == size ? 0u : SMM_STAGE_C;
}
