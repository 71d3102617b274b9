/* peers.c: batch loops, in compiled code, around kernels that other libraries hand out as function pointers.
 * The structs describe those libraries' published interfaces. */
#include <stdint.h>
#include <string.h>

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

/* LAPACKE, and MKL's compact routines, on stacks of order n <= MAX, by columns: of the transposes of stacks by
 * rows. They overwrite their operands, so each matrix is copied first. */
enum { BY_COLUMNS = 102, MAX = 32 };

typedef int lu_routine(int layout, int m, int n, void *a, int lda, int *pivots);
typedef int solve_routine(int layout, int n, int nrhs, void *a, int lda, int *pivots, void *b, int ldb);
typedef int inverse_routine(int layout, int n, void *a, int lda, const int *pivots, void *work, int lwork);
typedef int cholesky_routine(int layout, char triangle, int n, void *a, int lda);
typedef int qr_routine(int layout, int m, int n, void *a, int lda, void *tau, void *work, int lwork);
typedef int form_q_routine(int layout, int m, int n, int k, void *a, int lda, const void *tau, void *work, int lwork);

void run_getrf(lu_routine *getrf, const char *a, char *lu, int *pivots, intptr_t n, intptr_t size, intptr_t batch) {
    const intptr_t matrix = n * n * size;
    for (intptr_t q = 0; q < batch; q++) {
        memcpy(lu + q * matrix, a + q * matrix, matrix);
        getrf(BY_COLUMNS, n, n, lu + q * matrix, n, pivots + q * n);
    }
}

void run_gesv(solve_routine *gesv, const char *a, const char *b, char *x, intptr_t n, intptr_t size, intptr_t batch) {
    const intptr_t matrix = n * n * size, column = n * size;
    double copy[MAX * MAX];
    int pivots[MAX];
    memcpy(x, b, batch * column);
    for (intptr_t q = 0; q < batch; q++) {
        memcpy(copy, a + q * matrix, matrix);
        gesv(BY_COLUMNS, n, 1, copy, n, pivots, x + q * column, n);
    }
}

void run_getri(lu_routine *getrf, inverse_routine *getri, const char *a, char *inverse, intptr_t n, intptr_t size,
               intptr_t batch) {
    const intptr_t matrix = n * n * size;
    double work[MAX * MAX];
    int pivots[MAX];
    for (intptr_t q = 0; q < batch; q++) {
        memcpy(inverse + q * matrix, a + q * matrix, matrix);
        getrf(BY_COLUMNS, n, n, inverse + q * matrix, n, pivots);
        getri(BY_COLUMNS, n, inverse + q * matrix, n, pivots, work, MAX * MAX);
    }
}

void run_det(lu_routine *getrf, const char *a, char *det, intptr_t n, intptr_t size, intptr_t batch) {
    const intptr_t matrix = n * n * size;
    double lu[MAX * MAX];
    int pivots[MAX];
    for (intptr_t q = 0; q < batch; q++) {
        memcpy(lu, a + q * matrix, matrix);
        getrf(BY_COLUMNS, n, n, lu, n, pivots);
        double product = 1;
        for (intptr_t i = 0; i < n; i++) {
            const double pivot = size == 8 ? lu[i * (n + 1)] : ((const float *)lu)[i * (n + 1)];
            product *= pivots[i] == i + 1 ? pivot : -pivot;
        }
        if (size == 8)
            ((double *)det)[q] = product;
        else
            ((float *)det)[q] = (float)product;
    }
}

/* Leaves the other triangle as it was. */
void run_potrf(cholesky_routine *potrf, const char *a, char *l, intptr_t n, intptr_t size, intptr_t batch) {
    const intptr_t matrix = n * n * size;
    for (intptr_t q = 0; q < batch; q++) {
        memcpy(l + q * matrix, a + q * matrix, matrix);
        potrf(BY_COLUMNS, 'L', n, l + q * matrix, n);
    }
}

void run_qr(qr_routine *geqrf, form_q_routine *orgqr, const char *a, char *q, char *r, intptr_t n, intptr_t size,
            intptr_t batch) {
    const intptr_t matrix = n * n * size;
    double tau[MAX], work[MAX * MAX];
    memset(r, 0, batch * matrix);
    for (intptr_t i = 0; i < batch; i++, q += matrix, r += matrix) {
        memcpy(q, a + i * matrix, matrix);
        geqrf(BY_COLUMNS, n, n, q, n, tau, work, MAX * MAX);
        for (intptr_t j = 0; j < n; j++) memcpy(r + j * n * size, q + j * n * size, (j + 1) * size);
        orgqr(BY_COLUMNS, n, n, n, q, n, tau, work, MAX * MAX);
    }
}

/* MKL's compact routines, on so many matrices at a time that they stay in L1: packed, factored, unpacked. Those of
 * the job are not NULL. */
typedef struct compact {
    void (*pack)(int layout, int m, int n, const void *const *a, int lda, void *packed, int ldp, int format, int count);
    void (*unpack)(int layout, int m, int n, void *const *a, int lda, const void *packed, int ldp, int format,
                   int count);
    void (*getrfnp)(int layout, int m, int n, void *a, int lda, int *info, int format, int count);
    void (*getrinp)(int layout, int n, void *a, int lda, void *work, int lwork, int *info, int format, int count);
    void (*potrf)(int layout, int triangle, int n, void *a, int lda, int *info, int format, int count);
    void (*geqrf)(int layout, int m, int n, void *a, int lda, void *tau, void *work, int lwork, int *info, int format,
                  int count);
    int format, at_a_time;
} compact;

/* c: the factor or the inverse of each matrix of a; tau: (batch, n), of geqrf. The buffers hold at_a_time matrices. */
void run_compact(const compact *f, char *a, char *c, char *tau, char *packed, char *packed_tau, char *work,
                 intptr_t work_elements, intptr_t n, intptr_t size, intptr_t batch) {
    enum { MAX_AT_A_TIME = 4096 };
    const void *from[MAX_AT_A_TIME];
    void *to[MAX_AT_A_TIME];
    for (intptr_t first = 0; first < batch; first += f->at_a_time) {
        const int count = batch - first < f->at_a_time ? batch - first : f->at_a_time, lwork = work_elements;
        int info = 0;
        for (int q = 0; q < count; q++) from[q] = a + (first + q) * n * n * size;
        for (int q = 0; q < count; q++) to[q] = c + (first + q) * n * n * size;
        f->pack(BY_COLUMNS, n, n, from, n, packed, n, f->format, count);
        if (f->getrfnp) f->getrfnp(BY_COLUMNS, n, n, packed, n, &info, f->format, count);
        if (f->getrinp) f->getrinp(BY_COLUMNS, n, packed, n, work, lwork, &info, f->format, count);
        if (f->potrf) f->potrf(BY_COLUMNS, 122, n, packed, n, &info, f->format, count); /* CblasLower */
        if (f->geqrf) f->geqrf(BY_COLUMNS, n, n, packed, n, packed_tau, work, lwork, &info, f->format, count);
        f->unpack(BY_COLUMNS, n, n, to, n, packed, n, f->format, count);
        if (!f->geqrf) continue;
        for (int q = 0; q < count; q++) to[q] = tau + (first + q) * n * size;
        f->unpack(BY_COLUMNS, n, 1, to, n, packed_tau, n, f->format, count);
    }
}
