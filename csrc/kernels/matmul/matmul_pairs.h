/* matmul_pairs.h: products of complex matrices by those of their parts: of few columns, and what others do not take.
 *
 * The parts of a row of A lie side by side: it is a row of 2 k reals, as it is. So is a row of C, of 2 n. B becomes the
 * real 2 k x 2 n matrix in which an element is the block (re im; -im re). The product of these has the parts of C, term
 * by term in the order of elements_complex.h: re = fma(a_im, -b_im, fma(a_re, b_re, re)), im = fma(a_im, b_re,
 * fma(a_re, b_im, im)). Any kernel of real products that takes dense rows does the work; which one cannot be seen in
 * the bits. */

#include <string.h>

extern const smm_kernels NAME(kernels, ISA, REAL_DTYPE);

/* Elements of the workspace for A and for B; matrices that share it take about half of L1. */
enum { PAIRS_WORKSPACE = SMM_KERNEL_WORKSPACE / 2 / sizeof(T), PAIRS_GROUP = 12 * 1024 / sizeof(T) };

/* The kernel writes C by rows without gaps. */
static unsigned pairs_needs(const smm_call *call) { return call->matmul.c.col == PARTS * sizeof(T) ? 0 : SMM_STAGE_C; }

/* x (rows x cols) as 2 rows x 2 cols reals. */
INLINE void pairs_expand(T *to, const T *from, strides s, intptr_t rows, intptr_t cols) {
    for (intptr_t i = 0; i < rows; i++) {
        T *upper = to + 2 * i * PARTS * cols, *lower = upper + PARTS * cols;
        for (intptr_t j = 0; j < cols; j++) {
            const T *z = from + i * s.row + j * s.col;
            upper[2 * j] = lower[2 * j + 1] = z[0];
            upper[2 * j + 1] = z[1];
            lower[2 * j] = -z[1];
        }
    }
}

INLINE void pairs_copy(T *to, const T *from, strides s, intptr_t rows, intptr_t cols) {
    for (intptr_t i = 0; i < rows; i++)
        for (intptr_t j = 0; j < cols; j++, to += PARTS) memcpy(to, from + i * s.row + j * s.col, PARTS * sizeof(T));
}

/* The first kernel of real products that takes these operands as they are. */
static smm_kernel_fn *pairs_kernel(const smm_call *real) {
    const smm_kernel *row = NAME(kernels, ISA, REAL_DTYPE).lists[SMM_OP_MATMUL].rows;
    while ((row->m && row->m != real->m) || (row->k && row->k != real->k) || (row->n && row->n != real->n) ||
           row->needs(real))
        row++; /* the last takes any */
    return row->run;
}

static smm_operand pairs_dense(T *x, intptr_t batch, intptr_t rows, intptr_t cols) {
    const intptr_t size = sizeof(T);
    return (smm_operand){x, batch ? rows * cols * size : 0, cols * size, size};
}

static void KERNEL(matmul_pairs)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) {
    (void)cold;
    const intptr_t m = call->m, n = call->n, k = call->k;
    const smm_matmul_operands *x = &call->matmul;
    const strides as = strides_of(&x->a), bs = strides_of(&x->b), cs = strides_of(&x->c);
    const T *const a = x->a.data, *const b = x->b.data;
    T *const c = x->c.data;
    if (!k) {
        for (intptr_t q = first; q < last; q++)
            for (intptr_t i = 0; i < m; i++)
                for (intptr_t j = 0; j < n; j++)
                    UNROLLED(int part = 0; part < PARTS; part++) c[q * cs.batch + i * cs.row + j * cs.col + part] = 0;
        return;
    }
    T *const b_workspace = smm_kernel_workspace(), *const a_workspace = b_workspace + PAIRS_WORKSPACE;
    const bool copies = as.col != PARTS;
    const intptr_t width = min_of(n, PAIRS_WORKSPACE / (4 * k)),
                   height = copies ? min_of(m, PAIRS_WORKSPACE / (2 * k)) : m;
    const intptr_t most = 4 * k * width + (copies ? 2 * k * height : 0);
    const bool some =
        width == n && height == m && 2 * most <= PAIRS_WORKSPACE; /* else one at a time, perhaps in parts */
    const intptr_t group = some ? min_of(PAIRS_WORKSPACE / most, (PAIRS_GROUP + most - 1) / most) : 1;
    smm_call real = {.op = SMM_OP_MATMUL, .k = 2 * k};
    intptr_t ready = -1; /* the column of B from which on the workspace holds all matrices' */
    for (intptr_t q = first; q < last; q += group) {
        const intptr_t count = min_of(group, last - q);
        for (intptr_t j = 0; j < n; j += width) {
            const intptr_t cols = min_of(width, n - j);
            for (intptr_t l = 0; l < (bs.batch ? count : 1) && (bs.batch || ready != j); l++)
                pairs_expand(b_workspace + l * 4 * k * cols, b + (q + l) * bs.batch + j * bs.col, bs, k, cols);
            ready = j;
            for (intptr_t i = 0; i < m; i += height) {
                const intptr_t rows = min_of(height, m - i);
                real.batch = count, real.m = rows, real.n = 2 * cols;
                real.matmul.a = x->a;
                real.matmul.a.data = (T *)a + q * as.batch + i * as.row;
                real.matmul.a.col = sizeof(T);
                for (intptr_t l = 0; l < (as.batch ? count : 1) && copies; l++)
                    pairs_copy(a_workspace + l * 2 * k * rows, a + (q + l) * as.batch + i * as.row, as, rows, k);
                if (copies) real.matmul.a = pairs_dense(a_workspace, as.batch, rows, 2 * k);
                real.matmul.b = pairs_dense(b_workspace, bs.batch, 2 * k, 2 * cols);
                real.matmul.c = x->c;
                real.matmul.c.data = c + q * cs.batch + i * cs.row + j * cs.col;
                real.matmul.c.col = sizeof(T);
                pairs_kernel (&real)(&real, 0, count, NULL);
            }
        }
    }
}
