/* matmul_scalars.h: matrices of order 1: the batch is the vector. */
static void KERNEL(matmul_scalars)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) {
    (void)cold; /* two even streams: the hardware prefetches them */
    const intptr_t as = strides_of(&call->matmul.a).batch, bs = strides_of(&call->matmul.b).batch,
                   cs = strides_of(&call->matmul.c).batch;
    const T *a = call->matmul.a.data, *b = call->matmul.b.data;
    T *c = call->matmul.c.data;
    intptr_t q = first;
    if (as == 1 && bs == 1 && cs == 1)
        for (; q + LANES <= last; q += LANES) lane_store(c + q, lane_mul(lane_load(a + q), lane_load(b + q)));
    for (; q < last; q++) c[q * cs] = a[q * as] * b[q * bs];
}
