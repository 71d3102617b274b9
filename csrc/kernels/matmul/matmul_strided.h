/* matmul_strided.h: C = A B element by element: any strides, any size, nothing packed.
 * The last resort of every list, for operands too large to pack; also the empty sum, k = 0. */
static void KERNEL(matmul_strided)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) {
    (void)cold;
    const strides as = strides_of(&call->matmul.a), bs = strides_of(&call->matmul.b), cs = strides_of(&call->matmul.c);
    for (intptr_t q = first; q < last; q++)
        for (intptr_t i = 0; i < call->m; i++)
            for (intptr_t j = 0; j < call->n; j++) {
                const T *a = (const T *)call->matmul.a.data + q * as.batch + i * as.row;
                const T *b = (const T *)call->matmul.b.data + q * bs.batch + j * bs.col;
                T sum = call->k ? a[0] * b[0] : 0;
                for (intptr_t p = 1; p < call->k; p++) sum = scalar_fma(a[p * as.col], b[p * bs.row], sum);
                ((T *)call->matmul.c.data)[q * cs.batch + i * cs.row + j * cs.col] = sum;
            }
}
