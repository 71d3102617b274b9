/* matmul_vector_complex.h: products of complex matrices and vectors. Where what is summed lies side by side, as rows of
 * A in C = A B, the lanes hold different rows, as in matmul_vector.h, here with real and imaginary parts apart: a row
 * of A is one of 2 k reals, whose blocks are transposed in registers. Several blocks of rows go side by side, because a
 * sum waits for its last term. Where columns of A have no gaps the lanes hold rows as they are. Those of B in C = A B,
 * A being the vector, are for matmul_rows.h. */

enum { VECTOR_ROWS = VECTOR_REGISTERS < 32 ? 1 : 2, VECTOR_WIDTH = VECTOR_REGISTERS / 4 };
_Static_assert((int)BLOCK % (int)PARTS == 0, "columns of a block");
_Static_assert((int)VECTOR_WIDTH <= (int)MAX_WIDTH, "vectors of a column");

/* z = M y of a stack, M of m rows of k numbers; or, if `left`, z = y M^T. */
typedef struct vector_complex {
    const smm_operand *matrix, *y, *z;
    intptr_t m, k, row, col, of_y, of_z; /* strides in parts: of M, y and z */
    bool left;
} vector_complex;

INLINE vector_complex vector_complex_of(const smm_call *call) {
    const smm_matmul_operands *x = &call->matmul;
    const strides as = strides_of(&x->a), bs = strides_of(&x->b), cs = strides_of(&x->c);
    if (call->m == 1 && call->n > 1)
        return (vector_complex){&x->b, &x->a, &x->c, call->n, call->k, bs.col, bs.row, as.col, cs.col, true};
    return (vector_complex){&x->a, &x->b, &x->c, call->m, call->k, as.row, as.col, bs.row, cs.row, false};
}

/* --- rows without gaps --- */

/* `groups` of LANES rows of M from a on, `left` of which there are. */
INLINE void vector_complex_rows(const vector_complex *x, T *c, const T *a, const T *b, const T *next, intptr_t left,
                                const int groups, const bool y_first) {
    vec re[VECTOR_ROWS], im[VECTOR_ROWS];
    UNROLLED(int g = 0; g < groups; g++) re[g] = im[g] = lane_set(0);
    for (intptr_t p = 0; p < x->k; p += BLOCK / PARTS) {
        const intptr_t width = min_of(BLOCK / PARTS, x->k - p), height = min_of(groups * LANES, left);
        vec of_a[VECTOR_ROWS][BLOCK];
        if (next) prefetch(next + PARTS * p * height, PARTS * width * height);
        UNROLLED(int g = 0; g < groups; g++)
            lanes_load_block(of_a[g], a + g * LANES * x->row + PARTS * p, x->row, PARTS * width, left - g * LANES);
        UNROLLED(int j = 0; PARTS * j < BLOCK; j++) {
            if (j >= width) break;
            const T *const z = b + (p + j) * x->of_y;
            const vec b_re = lane_set(z[0]), b_im = lane_set(z[1]);
            UNROLLED(int g = 0; g < groups; g++) {
                const vec a_re = of_a[g][PARTS * j], a_im = of_a[g][PARTS * j + 1];
                const vec one = y_first ? a_im : a_re, two = y_first ? a_re : a_im;
                const vec by_one = y_first ? b_re : b_im, by_two = y_first ? b_im : b_re;
                re[g] = p + j ? lane_fma(a_re, b_re, re[g]) : lane_mul(a_re, b_re);
                im[g] = p + j ? lane_fma(one, by_one, im[g]) : lane_mul(one, by_one);
                re[g] = lane_fnma(a_im, b_im, re[g]);
                im[g] = lane_fma(two, by_two, im[g]);
            }
        }
    }
    UNROLLED(int g = 0; g < groups; g++) {
        T part[PARTS][LANES];
        lane_store(part[0], re[g]);
        lane_store(part[1], im[g]);
        for (intptr_t l = 0; l < min_of(LANES, left - g * LANES); l++)
            UNROLLED(int e = 0; e < PARTS; e++) c[(g * LANES + l) * x->of_z + e] = part[e][l];
    }
}

INLINE void vector_complex_by_rows(const vector_complex *x, T *c, const T *a, const T *b, const T *next,
                                   const bool y_first) {
    for (intptr_t i = 0; i < x->m; i += VECTOR_ROWS * LANES) {
        const intptr_t left = x->m - i;
        const T *const ahead = next ? next + PARTS * i * x->k : NULL;
        if (left > LANES)
            vector_complex_rows(x, c + i * x->of_z, a + i * x->row, b, ahead, left, VECTOR_ROWS, y_first);
        else
            vector_complex_rows(x, c + i * x->of_z, a + i * x->row, b, ahead, left, 1, y_first);
    }
}

/* --- columns without gaps --- */

/* Some vectors of rows. */
INLINE void vector_complex_columns(const vector_complex *x, const columns j, T *c, const T *a, const T *b,
                                   const T *next) {
    vec sum[MAX_WIDTH];
    UNROLLED(int v = 0; v < vectors_of(j); v++) sum[v] = lane_set(0);
    ROLLED(intptr_t p = 0; p < x->k; p++, a += x->col, b += x->of_y) {
        const vec y = row_of(b[0], b[1]), rotated = lane_turn(y);
        if (next) prefetch(next + p * vectors_of(j) * LANES, vectors_of(j) * LANES);
        UNROLLED(int v = 0; v < vectors_of(j); v++) {
            const vec z = load_columns(j, v, a), by_re = lane_re(z);
            sum[v] = lane_fma(lane_im(z), rotated, p ? lane_fma(by_re, y, sum[v]) : lane_mul(by_re, y));
        }
    }
    UNROLLED(int v = 0; v < vectors_of(j); v++) store_columns(j, v, c, sum[v]);
}

INLINE void vector_complex_by_columns(const vector_complex *x, T *c, const T *a, const T *b, const T *next) {
    const intptr_t length = PARTS * x->m, vectors = (length + LANES - 1) / LANES;
    const int most = (int)largest_part(vectors, VECTOR_WIDTH);
    for (intptr_t v = 0; v < vectors; v += most) {
        const columns j = columns_from(v, most, length);
        const T *const ahead = next ? next + v * LANES * x->k : NULL;
        UNROLLED(int width = 0; width <= VECTOR_WIDTH; width++)
            if (j.width == width)
                vector_complex_columns(x, (columns){width, j.last}, c + v * LANES, a + v * LANES, b, ahead);
    }
}

static void KERNEL(matmul_vector)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) {
    const vector_complex x = vector_complex_of(call);
    const intptr_t of_matrix = strides_of(x.matrix).batch, of_y = strides_of(x.y).batch, of_z = strides_of(x.z).batch;
    const T *a = (const T *)x.matrix->data + first * of_matrix, *y = (const T *)x.y->data + first * of_y;
    T *z = (T *)x.z->data + first * of_z;
    for (intptr_t q = first; q < last; q++, a += of_matrix, y += of_y, z += of_z) {
        const T *const next = !cold    ? NULL
                              : x.left ? a + distance(PARTS * x.m * x.k)
                                       : next_a(cold, a, PARTS * x.m * x.k);
        if (x.col != PARTS)
            vector_complex_by_columns(&x, z, a, y, next);
        else if (x.left)
            vector_complex_by_rows(&x, z, a, y, next, true);
        else
            vector_complex_by_rows(&x, z, a, y, next, false);
    }
}

/* Of small orders too few numbers fill a block or a vector, and `rows` is better; but columns of B it must pack. */
static unsigned vector_needs(const smm_call *call) {
    const vector_complex x = vector_complex_of(call);
    const bool large = x.k > 4 + (intptr_t)sizeof(T) && 2 * x.m > BLOCK;
    if (call->m > 1 && call->n > 1) return SMM_UNFIT;
    if (x.col == PARTS) return large || (x.left && PARTS * x.m > LANES) ? 0 : SMM_UNFIT;
    return x.row == PARTS && !x.left && x.m > 4 ? (x.of_z == PARTS ? 0u : SMM_STAGE_C) : SMM_UNFIT;
}
