/* lanes.h: LANES matrices side by side, one in each lane of the vectors: loading them so and storing them back.
 *
 * x[i * cols + j] holds element (i, j) of all of them. The algorithms of the factorizations are then those for one
 * matrix, written over vectors. When fewer than LANES matrices are left the last one fills the other lanes. */

#if !defined(SMM_LANE_PAIRS) /* a block row is a whole vector */
INLINE void lane_transpose(vec x[BLOCK]) { block_transpose(x); }
#endif

/* Where the matrix of lane l begins. */
INLINE intptr_t lane_offset(int l, intptr_t batch, intptr_t count) { return (l < count ? l : count - 1) * batch; }

/* Elements 0 .. width-1 of each lane's run, transposed: x[j] lane l = from[offset of l + j]. */
INLINE void lanes_load_block(vec x[BLOCK], const T *from, intptr_t batch, intptr_t width, intptr_t count) {
    UNROLLED(int l = 0; l < BLOCK; l++) {
        const block_row row = block_load(from + lane_offset(l, batch, count), width);
#if defined(SMM_LANE_PAIRS)
        x[l] = lane_pair(row, block_load(from + lane_offset(l + BLOCK, batch, count), width));
#else
        x[l] = row;
#endif
    }
    lane_transpose(x);
}

INLINE void lanes_store_block(T *to, intptr_t batch, vec x[BLOCK], intptr_t width, intptr_t count) {
    lane_transpose(x);
    UNROLLED(int l = 0; l < BLOCK; l++) {
#if defined(SMM_LANE_PAIRS)
        if (l < count) block_store(to + l * batch, lane_low(x[l]), width);
        if (l + BLOCK < count) block_store(to + (l + BLOCK) * batch, lane_high(x[l]), width);
#else
        if (l < count) block_store(to + l * batch, x[l], width);
#endif
    }
}

/* Runs of a constant length up to this unroll, so that their vectors may stay in registers. */
enum { UNROLLED_RUN = 4 * BLOCK };

/* to[j * step] lane l = element j of lane l's run: `length` contiguous elements. */
INLINE void lanes_load_part(vec *to, intptr_t step, const T *from, intptr_t batch, intptr_t width, intptr_t count) {
    vec x[BLOCK];
    lanes_load_block(x, from, batch, width, count);
    UNROLLED(int l = 0; l < BLOCK; l++)
        if (l < width) to[l * step] = x[l];
}
INLINE void lanes_load_run(vec *to, intptr_t step, const T *from, intptr_t batch, intptr_t length, intptr_t count) {
    const intptr_t whole = length & -BLOCK;
    if (__builtin_constant_p(length) && length <= UNROLLED_RUN)
        UNROLLED(intptr_t j = 0; j < whole; j += BLOCK)
            lanes_load_part(to + j * step, step, from + j, batch, BLOCK, count);
    else
        ROLLED(intptr_t j = 0; j < whole; j += BLOCK)
            lanes_load_part(to + j * step, step, from + j, batch, BLOCK, count);
    if (whole < length) lanes_load_part(to + whole * step, step, from + whole, batch, length - whole, count);
}

/* Element j of lane l's run = from[j * step] lane l. */
INLINE void lanes_store_part(T *to, intptr_t batch, const vec *from, intptr_t step, intptr_t width, intptr_t count) {
    vec x[BLOCK];
    UNROLLED(int l = 0; l < BLOCK; l++) x[l] = from[(l < width ? l : 0) * step];
    lanes_store_block(to, batch, x, width, count);
}
INLINE void lanes_store_run(T *to, intptr_t batch, const vec *from, intptr_t step, intptr_t length, intptr_t count) {
    const intptr_t whole = length & -BLOCK;
    if (__builtin_constant_p(length) && length <= UNROLLED_RUN)
        UNROLLED(intptr_t j = 0; j < whole; j += BLOCK)
            lanes_store_part(to + j, batch, from + j * step, step, BLOCK, count);
    else
        ROLLED(intptr_t j = 0; j < whole; j += BLOCK)
            lanes_store_part(to + j, batch, from + j * step, step, BLOCK, count);
    if (whole < length) lanes_store_part(to + whole, batch, from + whole * step, step, length - whole, count);
}

/* x (rows x cols) from matrices q .. q+count-1 of an operand, any strides. */
INLINE void lanes_load(vec *x, const smm_operand *from, intptr_t q, intptr_t rows, intptr_t cols, intptr_t count) {
    const strides s = strides_of(from);
    const T *p = (const T *)from->data + q * s.batch;
    if (s.col == 1 && s.row == cols)
        lanes_load_run(x, 1, p, s.batch, rows * cols, count);
    else if (s.col == 1)
        for (intptr_t i = 0; i < rows; i++) lanes_load_run(x + i * cols, 1, p + i * s.row, s.batch, cols, count);
    else if (s.row == 1)
        for (intptr_t j = 0; j < cols; j++) lanes_load_run(x + j, cols, p + j * s.col, s.batch, rows, count);
    else
        for (intptr_t i = 0; i < rows; i++)
            for (intptr_t j = 0; j < cols; j++) {
                T lane[LANES];
                for (int l = 0; l < LANES; l++)
                    lane[l] = p[(l < count ? l : count - 1) * s.batch + i * s.row + j * s.col];
                x[i * cols + j] = lane_load(lane);
            }
}

/* Matrices q .. q+count-1 of an operand, any strides, from x (rows x cols). */
INLINE void lanes_store(const smm_operand *to, intptr_t q, const vec *x, intptr_t rows, intptr_t cols, intptr_t count) {
    const strides s = strides_of(to);
    T *p = (T *)to->data + q * s.batch;
    if (s.col == 1 && s.row == cols)
        lanes_store_run(p, s.batch, x, 1, rows * cols, count);
    else if (s.col == 1)
        for (intptr_t i = 0; i < rows; i++) lanes_store_run(p + i * s.row, s.batch, x + i * cols, 1, cols, count);
    else if (s.row == 1)
        for (intptr_t j = 0; j < cols; j++) lanes_store_run(p + j * s.col, s.batch, x + j, cols, rows, count);
    else
        for (intptr_t i = 0; i < rows; i++)
            for (intptr_t j = 0; j < cols; j++) {
                T lane[LANES];
                lane_store(lane, x[i * cols + j]);
                for (int l = 0; l < count; l++) p[l * s.batch + i * s.row + j * s.col] = lane[l];
            }
}

/* Row i of an int32 operand (pivots, info), from vectors of whole numbers. Nothing if nobody wants it. */
INLINE void lanes_store_int(const smm_operand *to, intptr_t q, intptr_t i, vec x, intptr_t count) {
    if (!to->data) return;
    char *p = (char *)to->data + q * to->batch + i * to->row;
    if (to->batch == sizeof(int32_t) && count == LANES) {
        lane_store_int((int32_t *)p, x);
        return;
    }
    T lane[LANES];
    lane_store(lane, x);
    for (intptr_t l = 0; l < count; l++) *(int32_t *)(p + l * to->batch) = (int32_t)lane[l];
}
