/* Somebody who writes C: 1000 products and Cholesky factorizations, in dense stacks that malloc gave. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <smallmm.h>

static void check(smm_status status, const char *what) {
    if (status == SMM_OK) return;
    fprintf(stderr, "%s: %s\n", what, smm_status_text(status));
    exit(1);
}

int main(void) {
    const int batch = 1000, n = 3;
    const size_t bytes = sizeof(double) * (size_t)(batch * n * n);
    double *a = malloc(bytes), *c = malloc(bytes), *l = malloc(bytes);
    int32_t *info = malloc(sizeof *info * (size_t)batch);
    if (!a || !c || !l || !info) return 1;
    for (int i = 0; i < batch * n * n; i++) a[i] = sin(i);

    const smm_operand stack = smm_stack(a, sizeof *a, n, n);
    smm_operand transposed = stack;
    transposed.row = stack.col;
    transposed.col = stack.row;

    /* C = A A^T */
    smm_call product = {.op = SMM_OP_MATMUL, .dtype = SMM_F64, .batch = batch, .m = n, .n = n, .k = n};
    product.matmul.a = stack;
    product.matmul.b = transposed;
    product.matmul.c = smm_stack(c, sizeof *c, n, n);
    check(smm_check(&product), "product");
    check(smm_run(&product), "product");

    for (int q = 0; q < batch; q++)
        for (int i = 0; i < n; i++) c[(q * n + i) * n + i] += q == 500 ? -100 : 1; /* one of them is not definite */

    /* C = L L^T */
    bool failed = false;
    smm_call factor = {.op = SMM_OP_CHOLESKY, .dtype = SMM_F64, .batch = batch, .n = n, .failed = &failed};
    factor.cholesky.a = product.matmul.c;
    factor.cholesky.l = smm_stack(l, sizeof *l, n, n);
    factor.cholesky.info = smm_stack(info, sizeof *info, 1, 1);
    check(smm_check(&factor), "factor");
    check(smm_run(&factor), "factor");

    int bad = 0;
    double worst = 0;
    for (int q = 0; q < batch; q++) {
        if (info[q]) {
            bad++;
            printf("matrix %d is not positive definite: the minor of order %d\n", q, (int)info[q]);
            continue;
        }
        const double *x = l + q * n * n, *y = c + q * n * n;
        for (int i = 0; i < n; i++)
            for (int j = 0; j <= i; j++) {
                double sum = 0;
                for (int k = 0; k <= j; k++) sum += x[i * n + k] * x[j * n + k];
                worst = fmax(worst, fabs(sum - y[i * n + j]));
            }
    }
    factor.n = 0; /* a slip of the keyboard */
    printf("%s\n", smm_status_text(smm_check(&factor)));
    free(a), free(c), free(l), free(info);
    return !(failed && bad == 1 && worst < 1e-14);
}
