/* within.h: a matrix in the lanes of vectors, its columns `ld` elements apart: from and to memory of any strides. */

/* Columns 0 .. cols-1 of a matrix of n rows. What rows beyond n hold does not matter. */
INLINE void within_load(T *w, intptr_t ld, const T *a, strides s, intptr_t n, intptr_t cols) {
    if (s.col == 1)
        for (intptr_t j = 0; j < cols; j += BLOCK)
            for (intptr_t i = 0; i < n; i += BLOCK)
                transpose_block(w + j * ld + i, ld, a + i * s.row + j, s.row, least(BLOCK, cols - j), n - i, BLOCK);
    else
        for (intptr_t j = 0; j < cols; j++)
            for (intptr_t i = 0; i < ld; i++) w[j * ld + i] = a[least(i, n - 1) * s.row + j * s.col];
}

/* The n x n matrix C whose row row[i] is in lanes i, and whose column j is column column[j] of w (any, for j from n up
 * to a multiple of BLOCK); or NaN. */
INLINE void within_store(T *c, strides s, const T *w, intptr_t ld, intptr_t n, const unsigned char *row,
                         const unsigned char *column, bool spoilt) {
    if (spoilt)
        for (intptr_t i = 0; i < n; i++)
            for (intptr_t j = 0; j < n; j++) c[i * s.row + j * s.col] = NAN;
    else if (s.col == 1)
        for (intptr_t j = 0; j < n; j += BLOCK)
            for (intptr_t i = 0; i < n; i += BLOCK) {
                block_row y[BLOCK];
                UNROLLED(int l = 0; l < BLOCK; l++) y[l] = block_load(w + column[j + l] * ld + i, BLOCK);
                block_transpose(y);
                UNROLLED(int l = 0; l < BLOCK; l++)
                    if (i + l < n) block_store(c + row[i + l] * s.row + j, y[l], least(BLOCK, n - j));
            }
    else
        for (intptr_t j = 0; j < n; j++)
            for (intptr_t i = 0; i < n; i++) c[row[i] * s.row + j * s.col] = w[column[j] * ld + i];
}
