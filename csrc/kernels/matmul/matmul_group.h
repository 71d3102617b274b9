/* matmul_group.h: C = A B of order n, LANES/4 <= n <= LANES/2 or so, with several rows of C in a vector.
 *
 * A vector holds rows i, i+1, ... of C, `width` lanes each (width = the next power of two >= n). For each
 * k, row k of B is loaded once, repeated over the vector, and elements a_ik, a_i+1,k, ... are spread over
 * their rows by a permutation of the vector that holds those rows of A. */

/* Where A's elements are: A of n x n is read as vectors of LANES/width rows (or, transposed, columns). */
INLINE index_vec group_index(const int n, const int width, const bool a_cols, const int i, const int k) {
    int32_t element[LANES];
    const int rows = LANES / width;
    UNROLLED(int l = 0; l < LANES; l++) {
        const int r = i + l / width < n ? l / width : 0; /* lanes past the last row repeat its first */
        element[l] = a_cols ? k % rows * n + i + r : r * n + k;
    }
    return lane_index(element);
}

/* B by columns, in two vectors: row k of B, repeated. In four vectors (two columns of B each): first the rows
 * 4h .. 4h+3 of columns 0-3 and of columns 4-7 are gathered into a vector each (group_half_index), from
 * which row k is then put together. */
INLINE index_vec group_b_index(const int n, const int width, const int k) {
    int32_t element[LANES];
    UNROLLED(int l = 0; l < LANES; l++) {
        const int j = l % width < n ? l % width : 0;
        element[l] = n * n <= 2 * LANES ? j * n + k : j / 4 * LANES + j % 4 * 4 + k % 4;
    }
    return lane_index(element);
}
INLINE index_vec group_half_index(const int n, const int h) {
    int32_t element[LANES];
    UNROLLED(int l = 0; l < LANES; l++) {
        const int j = l / 4 % 4, k = 4 * h + l % 4 < n ? 4 * h + l % 4 : 0;
        element[l] = j / 2 * LANES + j % 2 * n + k;
    }
    return lane_index(element);
}

/* Lanes of row r of a vector. */
INLINE unsigned group_row(const int n, const int width, const int r) { return ((1u << n) - 1) << (r * width); }

INLINE void group_loop(const smm_call *call, intptr_t first, intptr_t last, const bool cold, const int n,
                       const int width, const bool a_cols, const bool b_cols) {
    const strides as = strides_of(&call->matmul.a), bs = strides_of(&call->matmul.b), cs = strides_of(&call->matmul.c);
    const int rows = LANES / width, vectors = (n + rows - 1) / rows;
    const T *a = (const T *)call->matmul.a.data + first * as.batch,
            *b = (const T *)call->matmul.b.data + first * bs.batch;
    T *c = (T *)call->matmul.c.data + first * cs.batch;

    index_vec ai[16][16], bi[16], half[2];
    UNROLLED(int v = 0; v < vectors; v++)
        UNROLLED(int k = 0; k < n; k++) ai[v][k] = group_index(n, width, a_cols, v * rows, k);
    UNROLLED(int k = 0; k < n; k++) bi[k] = group_b_index(n, width, k);
    UNROLLED(int h = 0; h < 2; h++) half[h] = group_half_index(n, h);

    for (intptr_t q = first; q < last; q++, a += as.batch, b += bs.batch, c += cs.batch) {
        vec av[16], acc[16], bt[2][2]; /* bt[h]: what rows 4h .. 4h+3 of a B by columns come from */
        if (cold) prefetch(a + distance(n * n), n * n), prefetch(b + distance(n * n), n * n);
        UNROLLED(int v = 0; v < vectors; v++) {
            const int elements = (v + 1) * rows <= n ? rows * n : (n - v * rows) * n;
            av[v] = lane_load_part(a + v * rows * n, elements);
        }
        if (b_cols && n * n <= 2 * LANES) {
            bt[0][0] = bt[1][0] = lane_load_part(b, n * n < LANES ? n * n : LANES);
            bt[0][1] = bt[1][1] = n * n > LANES ? lane_load_part(b + LANES, n * n - LANES) : bt[0][0];
        } else if (b_cols) {
            vec bc[4];
            UNROLLED(int v = 0; v < 4; v++)
                bc[v] = 2 * v < n ? lane_load_part(b + 2 * v * n, 2 * v + 1 < n ? 2 * n : n) : bc[0];
            UNROLLED(int h = 0; h < 2; h++)
                UNROLLED(int j = 0; j < 2; j++) bt[h][j] = lane_permute2(half[h], bc[2 * j], bc[2 * j + 1]);
        }
        UNROLLED(int k = 0; k < n; k++) {
            /* the last row of B may end the array; the others may be read a little past their end */
            const vec bv = b_cols ? lane_permute2(bi[k], bt[k / 4][0], bt[k / 4][1])
                                  : lane_repeat(width, b + k * bs.row, k < n - 1 ? width : n);
            UNROLLED(int v = 0; v < vectors; v++) {
                const vec x = av[a_cols ? k / rows : v];
                const vec s = width == 4 && LANES == 16 && n == 4 && !a_cols ? lane_permute_quarters(ai[v][k], x)
                                                                             : lane_permute(ai[v][k], x);
                acc[v] = k ? lane_fma(s, bv, acc[v]) : lane_mul(s, bv);
            }
        }
        UNROLLED(int v = 0; v < vectors; v++)
            if (n == width && cs.row == n && (v + 1) * rows <= n)
                lane_store(c + v * rows * n, acc[v]);
            else
                UNROLLED(int r = 0; r < rows; r++)
                    if (v * rows + r < n)
                        lane_store_masked(c + (v * rows + r) * cs.row - r * width, acc[v], group_row(n, width, r));
    }
}

INLINE void group(const smm_call *call, intptr_t first, intptr_t last, bool cold, const int n, const int width) {
    const intptr_t size = sizeof(T);
    const bool a_cols = call->matmul.a.col != size, b_cols = call->matmul.b.col != size;
    if (!a_cols && !b_cols && !cold)
        group_loop(call, first, last, false, n, width, false, false);
    else if (!a_cols && !b_cols)
        group_loop(call, first, last, true, n, width, false, false);
    else if (!b_cols)
        group_loop(call, first, last, cold, n, width, true, false);
    else if (!a_cols)
        group_loop(call, first, last, cold, n, width, false, true);
    else
        group_loop(call, first, last, cold, n, width, true, true);
}

/* A dense (rows or columns); B with contiguous rows a row or more apart, or dense columns;
 * C with contiguous rows. */
static unsigned group_needs(const smm_call *call) {
    const strides a = strides_of(&call->matmul.a), b = strides_of(&call->matmul.b), c = strides_of(&call->matmul.c);
    const intptr_t n = call->n;
    const bool a_fits = (a.col == 1 && a.row == n) || (a.row == 1 && a.col == n);
    const bool b_fits = (b.col == 1 && b.row >= n) || (b.row == 1 && b.col == n);
    return (a_fits ? 0u : SMM_PACK_A) | (b_fits ? 0u : SMM_PACK_B) | (c.col == 1 ? 0u : SMM_STAGE_C);
}
