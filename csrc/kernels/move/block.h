/* block.h: transposing square blocks in registers, and whole matrices by them. An instruction set with
 * shuffles of its own brings block_load, block_store and block_transpose in its lane header. */
#if !defined(SMM_LANE_BLOCKS)
enum { BLOCK = LANES };
typedef vec block_row;
INLINE block_row block_load(const T *p, intptr_t count) { return lane_load_part(p, count); }
INLINE void block_store(T *p, block_row x, intptr_t count) { lane_store_part(p, x, count); }
INLINE void block_transpose(block_row x[BLOCK]) {
    T y[BLOCK][BLOCK];
    UNROLLED(int i = 0; i < BLOCK; i++)
        UNROLLED(int j = 0; j < BLOCK; j++) y[i][j] = x[j][i];
    UNROLLED(int i = 0; i < BLOCK; i++) x[i] = lane_load(y[i]);
}
INLINE block_row block_set(T x) { return lane_set(x); }
INLINE block_row block_mul(block_row x, block_row y) { return lane_mul(x, y); }
INLINE block_row block_fma(block_row x, block_row y, block_row z) { return lane_fma(x, y, z); }
#endif

/* x[i] lane j = p[j * n + i]: STRIP rows of n or LANES columns. */
#if !defined(SMM_LANE_STRIPS)
enum { STRIP = LANES, STRIP_MIN = 1 };
INLINE void lane_load_strip(vec x[STRIP], const T *p, const int n) {
    const int width = n < LANES ? n : LANES;
    UNROLLED(int j = 0; j < LANES; j++) x[j] = block_load(p + (j < width ? j : 0) * n, width);
    block_transpose(x);
}
#endif

/* Four elements of LANES rows, row l at w + at[l]: x[j] has element j of each in its lane; and back. */
#if !defined(SMM_LANE_ROWS)
INLINE void lane_load_rows(vec x[4], const T *w, const int32_t *at) {
    enum { SOME = (int)LANES < 4 ? (int)LANES : 4 };
    UNROLLED(int j = 0; j < 4; j += SOME) {
        block_row y[BLOCK];
        UNROLLED(int l = 0; l < BLOCK; l++) y[l] = block_load(w + at[l] + j, SOME);
        block_transpose(y);
        UNROLLED(int e = 0; e < SOME; e++) x[j + e] = y[e];
    }
}
INLINE void lane_store_rows(T *w, const int32_t *at, const vec x[4]) {
    enum { SOME = (int)LANES < 4 ? (int)LANES : 4 };
    UNROLLED(int j = 0; j < 4; j += SOME) {
        block_row y[BLOCK];
        UNROLLED(int e = 0; e < BLOCK; e++) y[e] = x[j + (e < SOME ? e : 0)];
        block_transpose(y);
        UNROLLED(int l = 0; l < BLOCK; l++) block_store(w + at[l] + j, y[l], SOME);
    }
}
#endif

/* One block: to[i * to_ld + j] = from[j * from_ld + i] for i < height, j < width; `store` >= width elements of
 * each row of `to` are written. */
INLINE void transpose_block(T *to, intptr_t to_ld, const T *from, intptr_t from_ld, intptr_t height, intptr_t width,
                            intptr_t store) {
    block_row x[BLOCK];
    UNROLLED(int l = 0; l < BLOCK; l++) x[l] = block_load(from + (l < width ? l : 0) * from_ld, height);
    block_transpose(x);
    UNROLLED(int l = 0; l < BLOCK; l++)
        if (l < height) block_store(to + l * to_ld, x[l], store);
}

/* to (rows x cols, dense) from columns that are contiguous and `ld` elements apart. With each row of blocks as many
 * elements are prefetched from `next` on, if that is not NULL. */
INLINE void transpose(T *to, const T *from, intptr_t ld, intptr_t rows, intptr_t cols, const T *next) {
    for (intptr_t i = 0; i < rows; i += BLOCK) {
        const intptr_t height = min_of(BLOCK, rows - i);
        if (next) prefetch(next + i * cols, height * cols);
        for (intptr_t j = 0; j < cols; j += BLOCK) {
            const intptr_t width = min_of(BLOCK, cols - j);
            transpose_block(to + i * cols + j, cols, from + j * ld + i, ld, height, width, width);
        }
    }
}
