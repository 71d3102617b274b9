/* matmul_vector_numbers.h: C = A B of complex numbers where B is one vector and A lies by rows. As in matmul_vector.h
 * the lanes hold different rows, here with real and imaginary parts apart: a row of A is one of 2 k reals, whose blocks
 * are transposed in registers. Several blocks of rows go side by side, because a sum waits for its last term. */

enum { VECTOR_ROWS = VECTOR_REGISTERS < 32 ? 1 : 2 };
_Static_assert((int)BLOCK % (int)PARTS == 0, "columns of a block");

/* Rows of `blocks` blocks from the row i of C on, `left` of which there are. */
INLINE void vector_numbers_rows(T *c, intptr_t step, const T *a, intptr_t row, const T *b, intptr_t of_b, intptr_t left,
                                intptr_t k, const int blocks) {
    block_row re[VECTOR_ROWS], im[VECTOR_ROWS];
    UNROLLED(int g = 0; g < blocks; g++) re[g] = im[g] = block_set(0);
    for (intptr_t p = 0; p < k; p += BLOCK / PARTS) {
        const intptr_t width = least(BLOCK / PARTS, k - p);
        block_row x[VECTOR_ROWS][BLOCK];
        UNROLLED(int g = 0; g < blocks; g++) {
            UNROLLED(int l = 0; l < BLOCK; l++) {
                const intptr_t i = g * BLOCK + l;
                x[g][l] = block_load(a + (i < left ? i : 0) * row + PARTS * p, PARTS * width);
            }
            block_transpose(x[g]);
        }
        UNROLLED(int j = 0; PARTS * j < BLOCK; j++) {
            if (j >= width) break;
            const T *const z = b + (p + j) * of_b;
            const block_row b_re = block_set(z[0]), b_im = block_set(z[1]), minus = block_set(-z[1]);
            UNROLLED(int g = 0; g < blocks; g++) {
                const block_row a_re = x[g][PARTS * j], a_im = x[g][PARTS * j + 1];
                re[g] = p + j ? block_fma(a_re, b_re, re[g]) : block_mul(a_re, b_re);
                im[g] = p + j ? block_fma(a_re, b_im, im[g]) : block_mul(a_re, b_im);
                re[g] = block_fma(a_im, minus, re[g]);
                im[g] = block_fma(a_im, b_re, im[g]);
            }
        }
    }
    UNROLLED(int g = 0; g < blocks; g++) {
        T part[PARTS][BLOCK];
        block_store(part[0], re[g], BLOCK);
        block_store(part[1], im[g], BLOCK);
        for (intptr_t l = 0; l < least(BLOCK, left - g * BLOCK); l++)
            UNROLLED(int e = 0; e < PARTS; e++) c[(g * BLOCK + l) * step + e] = part[e][l];
    }
}

static void KERNEL(matmul_vector)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) {
    const strides as = strides_of(&call->matmul.a), bs = strides_of(&call->matmul.b), cs = strides_of(&call->matmul.c);
    const T *a = (const T *)call->matmul.a.data + first * as.batch,
            *b = (const T *)call->matmul.b.data + first * bs.batch;
    T *c = (T *)call->matmul.c.data + first * cs.batch;
    const intptr_t m = call->m, k = call->k;
    for (intptr_t q = first; q < last; q++, a += as.batch, b += bs.batch, c += cs.batch)
        for (intptr_t i = 0; i < m; i += VECTOR_ROWS * BLOCK) {
            const intptr_t left = m - i;
            if (cold)
                prefetch(next_a(cold, a, PARTS * m * k) + PARTS * i * k, PARTS * least(VECTOR_ROWS * BLOCK, left) * k);
            if (left > BLOCK)
                vector_numbers_rows(c + i * cs.row, cs.row, a + i * as.row, as.row, b, bs.row, left, k, VECTOR_ROWS);
            else
                vector_numbers_rows(c + i * cs.row, cs.row, a + i * as.row, as.row, b, bs.row, left, k, 1);
        }
}

/* Of small orders too few rows fill a block, and `rows` is better. */
static unsigned vector_needs(const smm_call *call) {
    const bool large = call->k > 4 + (intptr_t)sizeof(T) && 2 * call->m > BLOCK;
    return call->n == 1 && large && call->matmul.a.col == PARTS * sizeof(T) ? 0 : SMM_UNFIT;
}
