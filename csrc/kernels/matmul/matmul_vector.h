/* matmul_vector.h: C = A B where B is one vector, or a few (n <= BLOCK / 2), and A lies by rows; or A is a vector.
 *
 * c_ij = a_i0 b_0j + a_i1 b_1j + ... must be summed in this order, so the lanes hold different rows i: blocks of A
 * are transposed in registers and each of their columns meets an element of each column of B. (Lanes that hold
 * different columns, as in matmul_rows.h, would be empty half the time.) */

/* x becomes the columns of a block of A: `height` rows from `a` on, `width` elements of each. */
INLINE void vector_columns(block_row *x, const T *a, intptr_t row, intptr_t height, intptr_t width) {
    UNROLLED(int l = 0; l < BLOCK; l++) x[l] = block_load(a + (l < height ? l : 0) * row, width);
    block_transpose(x);
}

INLINE void vector_loop(const smm_call *call, intptr_t first, intptr_t last, const smm_prefetch *cold, const int n) {
    const strides as = strides_of(&call->matmul.a), bs = strides_of(&call->matmul.b), cs = strides_of(&call->matmul.c);
    const T *a = (const T *)call->matmul.a.data + first * as.batch,
            *b = (const T *)call->matmul.b.data + first * bs.batch;
    T *c = (T *)call->matmul.c.data + first * cs.batch;
    const intptr_t m = call->m, k = call->k;
    for (intptr_t q = first; q < last; q++, a += as.batch, b += bs.batch, c += cs.batch)
        for (intptr_t i = 0; i < m; i += BLOCK) {
            const intptr_t height = min_of(BLOCK, m - i);
            block_row sum[BLOCK];
            UNROLLED(int j = 0; j < BLOCK; j++) sum[j] = block_set(0);
            for (intptr_t p = 0; p < k; p += BLOCK) {
                const intptr_t width = min_of(BLOCK, k - p);
                block_row x[BLOCK];
                if (cold) prefetch(next_a(cold, a, m * k) + i * k + p * height, height * width);
                vector_columns(x, a + i * as.row + p, as.row, height, width);
                if (p == 0)
                    UNROLLED(int j = 0; j < n; j++) sum[j] = block_mul(x[0], block_set(b[j * bs.col]));
                UNROLLED(int l = 0; l < BLOCK; l++)
                    if (l < width && p + l > 0)
                        UNROLLED(int j = 0; j < n; j++)
                            sum[j] = block_fma(x[l], block_set(b[(p + l) * bs.row + j * bs.col]), sum[j]);
            }
            block_transpose(sum);
            UNROLLED(int l = 0; l < BLOCK; l++)
                if (l < height) block_store(c + (i + l) * cs.row, sum[l], n);
        }
}

/* The same of one column: a sum waits for its last term, so several blocks of rows go side by side. */
enum { VECTOR_GROUPS = 2 };
INLINE void vector_rows_loop(const smm_call *call, const T *a, const T *b, T *c, const T *next, intptr_t from,
                             const int groups) {
    const strides as = strides_of(&call->matmul.a), bs = strides_of(&call->matmul.b);
    const intptr_t k = call->k, last = call->m - from - (groups - 1) * BLOCK; /* rows of the last block */
    block_row sum[VECTOR_GROUPS];
    UNROLLED(int g = 0; g < groups; g++) sum[g] = block_set(0);
    for (intptr_t p = 0; p < k; p += BLOCK)
        UNROLLED(int g = 0; g < groups; g++) {
            const intptr_t i = from + g * BLOCK, width = min_of(BLOCK, k - p);
            const intptr_t height = g < groups - 1 ? BLOCK : min_of(BLOCK, last);
            block_row x[BLOCK];
            if (next) prefetch(next + i * k + p * height, height * width);
            vector_columns(x, a + i * as.row + p, as.row, height, width);
            UNROLLED(int l = 0; l < BLOCK; l++) {
                const block_row y = block_set(b[(p + (l < width ? l : 0)) * bs.row]);
                if (l < width) sum[g] = p + l ? block_fma(x[l], y, sum[g]) : block_mul(x[l], y);
            }
        }
    UNROLLED(int g = 0; g < groups; g++)
        block_store(c + from + g * BLOCK, sum[g], g < groups - 1 ? BLOCK : min_of(BLOCK, last));
}

SHARED void KERNEL(one_vector)(const smm_call *call, intptr_t first, intptr_t last, const smm_prefetch *cold) {
    const strides as = strides_of(&call->matmul.a), bs = strides_of(&call->matmul.b), cs = strides_of(&call->matmul.c);
    const intptr_t m = call->m;
    for (intptr_t q = first; q < last; q++) {
        const T *const a = (const T *)call->matmul.a.data + q * as.batch, *const b = (const T *)call->matmul.b.data +
                                                                                     q * bs.batch;
        T *const c = (T *)call->matmul.c.data + q * cs.batch;
        const T *const next = cold ? next_a(cold, a, m * call->k) : NULL;
        intptr_t i = 0;
        for (; i + (VECTOR_GROUPS - 1) * BLOCK < m; i += VECTOR_GROUPS * BLOCK)
            vector_rows_loop(call, a, b, c, next, i, VECTOR_GROUPS);
        if (i < m) vector_rows_loop(call, a, b, c, next, i, 1);
    }
}

/* Inner products, of rows of A and columns of B that are dense: the lanes hold different matrices, so that no sum waits
 * for itself. `one`: the same B for all. */
INLINE void inner_products(const smm_call *call, intptr_t first, intptr_t last, const bool one) {
    const strides as = strides_of(&call->matmul.a), bs = strides_of(&call->matmul.b), cs = strides_of(&call->matmul.c);
    const T *a = (const T *)call->matmul.a.data, *b = (const T *)call->matmul.b.data;
    T *c = (T *)call->matmul.c.data;
    for (intptr_t q = first; q < last; q += BLOCK) {
        const intptr_t height = min_of(BLOCK, last - q);
        block_row sum = block_set(0);
        for (intptr_t p = 0; p < call->k; p += BLOCK) {
            const intptr_t width = min_of(BLOCK, call->k - p);
            block_row x[BLOCK], y[BLOCK];
            UNROLLED(int l = 0; l < BLOCK; l++) {
                const intptr_t matrix = q + (l < height ? l : 0);
                x[l] = block_load(a + matrix * as.batch + p, width);
                y[l] = one ? block_set(b[p + (l < width ? l : 0)]) : block_load(b + matrix * bs.batch + p, width);
            }
            block_transpose(x);
            if (!one) block_transpose(y);
            sum = p ? block_fma(x[0], y[0], sum) : block_mul(x[0], y[0]);
            UNROLLED(int l = 1; l < BLOCK; l++)
                if (l < width) sum = block_fma(x[l], y[l], sum);
        }
        T results[BLOCK];
        block_store(results, sum, height);
        for (intptr_t l = 0; l < height; l++) c[(q + l) * cs.batch] = results[l];
    }
}

static bool is_inner(const smm_call *call) {
    return call->m == 1 && call->n == 1 && call->matmul.b.row == sizeof(T) && call->matmul.a.batch;
}

/* Whether they were computed. */
static bool KERNEL(inner)(const smm_call *call, intptr_t first, intptr_t last) {
    if (!is_inner(call) || last - first < 2) return false;
    if (call->matmul.b.batch)
        inner_products(call, first, last, false);
    else
        inner_products(call, first, last, true);
    return true;
}

static void KERNEL(matmul_vector)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) {
    if (KERNEL(inner)(call, first, last)) return;
    if (call->n == 1) KERNEL(one_vector)(call, first, last, cold);
    UNROLLED(int n = 2; 2 * n <= BLOCK; n++)
        if (call->n == n) vector_loop(call, first, last, cold, n);
}

/* A by rows; C, a column, dense, or by rows. For several columns A must be worth transposing: about two full blocks
 * of float64, one of float32 (C timings on an AMD EPYC, family 26 model 2). */
static unsigned vector_needs(const smm_call *call) {
    const intptr_t size = sizeof(T), n = call->n;
    if (call->matmul.a.col != size || (n > 1 && (2 * n > BLOCK || call->m * call->k * 4 < BLOCK * BLOCK * size)))
        return SMM_UNFIT;
    return (n == 1 ? call->matmul.c.row : call->matmul.c.col) == size ? 0u : SMM_STAGE_C;
}

/* --- one vector and dense matrices: each lane has a matrix, some rows of it at a time --- */

enum {
    VECTOR_WORKSPACE = 256, /* elements of these rows */
    VECTOR_MAX = 64,        /* rows or columns of the matrix */
    VECTOR_LARGE = 256      /* bytes of a matrix that is not worth empty lanes, nor streams from memory in every lane */
};

/* z_i = a_i0 y_0 + a_i1 y_1 + ... of a few rows: element (i, l) of A at i * row + l * col. */
INLINE void vector_rows(vec *z, const vec *a, intptr_t row, intptr_t col, const vec *y, intptr_t k, const int rows) {
    vec sum[4];
    UNROLLED(int i = 0; i < rows; i++) sum[i] = lane_mul(a[i * row], y[0]);
    UNROLLED(intptr_t l = 1; l < k; l++)
        UNROLLED(int i = 0; i < rows; i++) sum[i] = lane_fma(a[i * row + l * col], y[l], sum[i]);
    UNROLLED(int i = 0; i < rows; i++) z[i] = sum[i];
}

/* z = A y, A of m x k; or from the left, z = y A, A of k x m, which must fit the workspace. Vectors lie as rows do.
 * `one`: the same A for all; asked at each step, that would keep what is loaded of A in memory (8 x 8: 1.4 times as
 * long). */
INLINE void vector_lanes_loop(const smm_call *call, intptr_t first, intptr_t last, bool cold, const intptr_t m,
                              const intptr_t k, const bool left, const bool one) {
    const intptr_t size = sizeof(T), workspace = VECTOR_WORKSPACE / k;
    const smm_operand *matrix = left ? &call->matmul.b : &call->matmul.a,
                      *vector = left ? &call->matmul.a : &call->matmul.b, *to = &call->matmul.c;
    vec a[VECTOR_WORKSPACE];
    if (one)
        for (intptr_t e = 0; e < m * k; e++) a[e] = lane_set(((const T *)matrix->data)[e]);
    const smm_operand in = {vector->data, vector->batch, k * size, left ? vector->col : vector->row};
    const smm_operand out = {to->data, to->batch, m * size, left ? to->col : to->row};
    for (intptr_t q = first; q < last; q += LANES) {
        const intptr_t count = min_of(LANES, last - q);
        if (cold && !one) prefetch(ahead_of(matrix, q, LANES * m * k), LANES * m * k);
        vec y[VECTOR_MAX], z[VECTOR_MAX];
        lanes_load(y, &in, q, 1, k, count);
        for (intptr_t from = 0, rows; from < m; from += rows) {
            rows = workspace < m ? min_of(workspace & -4, m - from) : m;
            const smm_operand part = {(char *)matrix->data + from * matrix->row, matrix->batch, matrix->row, size};
            if (!one) lanes_load(a, &part, q, left ? k : rows, left ? m : k, count);
            const intptr_t row = left ? 1 : k, col = left ? m : 1;
            intptr_t i = 0;
            UNROLLED(; i + 4 <= rows; i += 4) vector_rows(z + from + i, a + i * row, row, col, y, k, 4);
            UNROLLED(; i < rows; i++) vector_rows(z + from + i, a + i * row, row, col, y, k, 1);
        }
        lanes_store(&out, q, z, 1, m, count);
    }
}
INLINE void vector_lanes(const smm_call *call, intptr_t first, intptr_t last, const smm_prefetch *cold,
                         const intptr_t m, const intptr_t k, const bool left) {
    const bool one = !(left ? &call->matmul.b : &call->matmul.a)->batch;
    const bool singly = last - first < LANES || (cold && !one);
    if (singly && m * k * (intptr_t)sizeof(T) >= VECTOR_LARGE && !left && call->matmul.c.row == sizeof(T))
        KERNEL(one_vector)(call, first, last, cold);
    else if (one)
        vector_lanes_loop(call, first, last, cold, m, k, left, true);
    else
        vector_lanes_loop(call, first, last, cold, m, k, left, false);
}

static void KERNEL(matmul_vector_lanes)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) {
    if (call->k < 2 * BLOCK || !KERNEL(inner)(call, first, last))
        vector_lanes(call, first, last, cold, call->m, call->k, false);
}

static unsigned vector_lanes_needs(const smm_call *call) {
    const intptr_t size = sizeof(T), k = call->k;
    const bool left = call->m == 1 && call->n > 1; /* only asked for of orders that fit the workspace */
    const intptr_t rows = left ? k : call->m, cols = left ? call->n : k;
    const smm_operand *matrix = left ? &call->matmul.b : &call->matmul.a;
    const bool one = !matrix->batch && rows * cols <= VECTOR_WORKSPACE;
    const bool dense =
        matrix->col == size && matrix->row == cols * size && (one || matrix->batch == rows * cols * size);
    return dense && (left || call->n == 1) && k > 1 && k <= VECTOR_MAX && rows <= VECTOR_MAX ? 0u : SMM_UNFIT;
}
