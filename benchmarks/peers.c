/* peers.c: batch loops, in compiled code, around kernels that other libraries hand out as function pointers.
 * The structs describe those libraries' published interfaces. */
#include <stdint.h>

/* LIBXSMM 2: libxsmm_gemm_param holds one "op" argument of 4 pointers and three matrices of 6 each. */
typedef struct gemm_param {
    void *op[4];
    void *a[6], *b[6], *c[6];
} gemm_param;

void run_libxsmm(void (*kernel)(const gemm_param *), char *a, intptr_t a_batch, char *b, intptr_t b_batch, char *c,
                 intptr_t c_batch, intptr_t batch) {
    gemm_param p = {0};
    for (intptr_t q = 0; q < batch; q++) {
        p.a[0] = a + q * a_batch;
        p.b[0] = b + q * b_batch;
        p.c[0] = c + q * c_batch;
        kernel(&p);
    }
}

/* MKL: dgemm_jit_kernel_t and sgemm_jit_kernel_t. */
void run_mkl_jit(void (*kernel)(void *, void *, void *, void *), void *jitter, char *a, intptr_t a_batch, char *b,
                 intptr_t b_batch, char *c, intptr_t c_batch, intptr_t batch) {
    for (intptr_t q = 0; q < batch; q++) kernel(jitter, a + q * a_batch, b + q * b_batch, c + q * c_batch);
}
