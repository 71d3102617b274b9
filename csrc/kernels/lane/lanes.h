/* lanes.h: LANES matrices side by side, one in each lane of the vectors: loading them so and storing them back.
 *
 * x[i * cols + j] holds element (i, j) of all of them. The algorithms of the factorizations are then those for one
 * matrix, written over vectors. When fewer than LANES matrices are left the last one fills the other lanes. */
#include <float.h>

INLINE T smallest_normal(void) { return sizeof(T) == 4 ? (T)FLT_MIN : (T)DBL_MIN; }

/* Where x is neither zero, subnormal, infinite nor NaN. */
INLINE mask lane_normal(vec x) {
    const vec size = lane_abs(x);
    return lane_greater(lane_set(INFINITY), size) & ~lane_greater(lane_set(smallest_normal()), size);
}

/* Sums of squares outside of low .. high have lost digits to underflow, or may overflow; then x is scaled by a power of
 * two, which loses none. */
#if defined(SMM_KERNELS_F64)
#define SQUARES_LOW 0x1p-900
#define SQUARES_HIGH 0x1p1000
#define SCALE_UP 0x1p600
#define SCALE_DOWN 0x1p-600
#else
#define SQUARES_LOW 0x1p-100f
#define SQUARES_HIGH 0x1p120f
#define SCALE_UP 0x1p100f
#define SCALE_DOWN 0x1p-100f
#endif

/* Magnitudes this far from 1 are brought near it before anything is squared. */
#if defined(SMM_KERNELS_F64)
enum { FAR_EXPONENT = 200, MAX_EXPONENT = 1000 };
#define ROUNDOFF ((T)0x1p-53)
#else
enum { FAR_EXPONENT = 20, MAX_EXPONENT = 120 };
#define ROUNDOFF ((T)0x1p-24)
#endif

/* A power of two that brings x to about 1, if it is far from it, finite and not zero. */
static T scale_to_one(T x) {
    const T far = (T)ldexp(1, FAR_EXPONENT);
    if (!(x > 0) || isinf(x) || (x >= 1 / far && x <= far)) return 1;
    const int e = ilogb(x);
    return (T)ldexp(1, e > MAX_EXPONENT ? -MAX_EXPONENT : e < -MAX_EXPONENT ? MAX_EXPONENT : -e);
}

INLINE vec lane_scale_to_one(vec x) {
    const T far = (T)ldexp(1, FAR_EXPONENT);
    if (!lane_any(~(lane_greater(x, lane_set(1 / far)) & lane_greater(lane_set(far), x)))) return lane_set(1);
    T lane[LANES];
    lane_store(lane, x);
    for (int l = 0; l < LANES; l++) lane[l] = scale_to_one(lane[l]);
    return lane_load(lane);
}

/* Pivots of which there is no use: zero, or infinite; what overflowed would be finite again when divided by them. */
INLINE mask useless(vec pivot) {
    return lane_equal(pivot, lane_set(0)) | lane_equal(lane_abs(pivot), lane_set(INFINITY));
}

INLINE vec lane_negate(vec x) { return lane_sub(lane_set(-(T)0), x); }
/* Where m holds, x and y change places. */
INLINE void lane_exchange(mask m, vec *x, vec *y) {
    const vec z = *x;
    *x = lane_select(m, *y, z);
    *y = lane_select(m, z, *y);
}

/* sum - a x without error, so far as it is added to `rest`. */
INLINE void lane_subtract_exactly(vec *sum, vec *rest, vec a, vec x) {
    const vec p = lane_mul(a, x), of_product = lane_fnma_once(a, x, p);
    const vec next = lane_sub(*sum, p), moved = lane_sub(next, *sum);
    const vec of_sum = lane_sub(lane_sub(*sum, lane_sub(next, moved)), lane_add(p, moved));
    *rest = lane_add(*rest, lane_add(of_sum, of_product));
    *sum = next;
}

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
        LOADED(x[l]);
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

/* to[j * step] lane l = element j of lane l's run: `length` contiguous elements. */
INLINE void lanes_load_part(vec *to, intptr_t step, const T *from, intptr_t batch, intptr_t width, intptr_t count) {
    vec x[BLOCK];
    lanes_load_block(x, from, batch, width, count);
    UNROLLED(int l = 0; l < BLOCK; l++)
        if (l < width) to[l * step] = x[l];
}
#if defined(SMM_LANE_PAIRS)
/* Two blocks, whole vectors of each lane's run: matrices of 4 KB share so few places of L1 that a line would be gone
 * before its second block is asked for. */
INLINE void lanes_load_two(vec *to, intptr_t step, const T *from, intptr_t batch, intptr_t count) {
    vec x[LANES], low[BLOCK], high[BLOCK];
    UNROLLED(int l = 0; l < LANES; l++) x[l] = lane_load(from + lane_offset(l, batch, count));
    UNROLLED(int l = 0; l < BLOCK; l++) {
        low[l] = lane_lows(x[l], x[l + BLOCK]);
        high[l] = lane_highs(x[l], x[l + BLOCK]);
    }
    lane_transpose(low);
    UNROLLED(int l = 0; l < BLOCK; l++) to[l * step] = low[l];
    lane_transpose(high);
    UNROLLED(int l = 0; l < BLOCK; l++) to[(l + BLOCK) * step] = high[l];
}
INLINE void lanes_store_two(T *to, intptr_t batch, const vec *from, intptr_t step, intptr_t count) {
    vec low[BLOCK], high[BLOCK];
    UNROLLED(int l = 0; l < BLOCK; l++) low[l] = from[l * step], high[l] = from[(l + BLOCK) * step];
    lane_transpose(low);
    lane_transpose(high);
    UNROLLED(int l = 0; l < BLOCK; l++) {
        if (l < count) lane_store(to + l * batch, lane_lows(low[l], high[l]));
        if (l + BLOCK < count) lane_store(to + (l + BLOCK) * batch, lane_highs(low[l], high[l]));
    }
}
#endif

/* All of a run: where its end is not that of a block, the last block overlaps the one before. */
INLINE void lanes_load_parts(vec *to, intptr_t step, const T *from, intptr_t batch, intptr_t length, intptr_t count) {
    if (length < BLOCK) {
        lanes_load_part(to, step, from, batch, length, count);
        return;
    }
    const intptr_t rest = length % BLOCK;
#if defined(SMM_LANE_PAIRS)
    ROLLED(; length >= LANES; length -= LANES, from += LANES, to += LANES * step) {
        FORGET(from);
        FORGET(to);
        lanes_load_two(to, step, from, batch, count);
    }
#endif
    ROLLED(; length >= BLOCK; length -= BLOCK, from += BLOCK, to += BLOCK * step) {
        FORGET(from);
        FORGET(to);
        lanes_load_part(to, step, from, batch, BLOCK, count);
    }
    if (rest) lanes_load_part(to - (BLOCK - rest) * step, step, from - (BLOCK - rest), batch, BLOCK, count);
}
SHARED void KERNEL(lanes_load_run)(vec *to, intptr_t step, const T *from, intptr_t batch, intptr_t length,
                                   intptr_t count) {
    if (count == LANES && step == 1)
        lanes_load_parts(to, 1, from, batch, length, LANES);
    else if (count == LANES)
        lanes_load_parts(to, step, from, batch, length, LANES);
    else
        lanes_load_parts(to, step, from, batch, length, count);
}

/* Element j of lane l's run = from[j * step] lane l. */
INLINE void lanes_store_part(T *to, intptr_t batch, const vec *from, intptr_t step, intptr_t width, intptr_t count) {
    vec x[BLOCK];
    UNROLLED(int l = 0; l < BLOCK; l++) x[l] = from[(l < width ? l : 0) * step];
    lanes_store_block(to, batch, x, width, count);
}
/* A whole vector of each lane's run. */
INLINE void lanes_store_vector(T *to, intptr_t batch, const vec *from, intptr_t step) {
#if defined(SMM_LANE_PAIRS)
    lanes_store_two(to, batch, from, step, LANES);
#else
    lanes_store_part(to, batch, from, step, LANES, LANES);
#endif
}
INLINE void lanes_store_parts(T *to, intptr_t batch, const vec *from, intptr_t step, intptr_t length, intptr_t count) {
    if (length < BLOCK) {
        lanes_store_part(to, batch, from, step, length, count);
        return;
    }
    const intptr_t rest = length % BLOCK;
#if defined(SMM_LANE_PAIRS)
    ROLLED(; length >= LANES; length -= LANES, to += LANES, from += LANES * step) {
        FORGET(from);
        FORGET(to);
        lanes_store_two(to, batch, from, step, count);
    }
#endif
    ROLLED(; length >= BLOCK; length -= BLOCK, to += BLOCK, from += BLOCK * step) {
        FORGET(from);
        FORGET(to);
        lanes_store_part(to, batch, from, step, BLOCK, count);
    }
    if (rest) lanes_store_part(to - (BLOCK - rest), batch, from - (BLOCK - rest) * step, step, BLOCK, count);
}
SHARED void KERNEL(lanes_store_run)(T *to, intptr_t batch, const vec *from, intptr_t step, intptr_t length,
                                    intptr_t count) {
    if (count == LANES && step == 1)
        lanes_store_parts(to, batch, from, 1, length, LANES);
    else if (count == LANES)
        lanes_store_parts(to, batch, from, step, length, LANES);
    else
        lanes_store_parts(to, batch, from, step, length, count);
}

/* A matrix (rows x cols) as runs: run r begins `from` elements into the operand and `to` vectors into x, its elements
 * `step` vectors apart. No runs where neither rows nor columns are contiguous. */
typedef struct lanes_runs {
    intptr_t count, length, from, to, step;
} lanes_runs;

INLINE lanes_runs runs_of(strides s, intptr_t rows, intptr_t cols) {
    if (s.col == 1 && s.row == cols) return (lanes_runs){1, rows * cols, 0, 0, 1};
    if (s.col == 1) return (lanes_runs){rows, cols, s.row, cols, 1};
    if (s.row == 1) return (lanes_runs){cols, rows, s.col, 1, cols};
    return (lanes_runs){0};
}

/* Columns of an operand from j on. */
INLINE smm_operand elem_columns(smm_operand x, intptr_t j) {
    x.data = (char *)x.data + j * x.col;
    return x;
}

/* x (rows x cols) from matrices q .. q+count-1 of an operand, any strides. */
SHARED void KERNEL(lanes_load)(vec *x, const smm_operand *from, intptr_t q, intptr_t rows, intptr_t cols,
                               intptr_t count) {
    const strides s = strides_of(from);
    const T *p = (const T *)from->data + q * s.batch;
    const lanes_runs runs = runs_of(s, rows, cols);
    for (intptr_t r = 0; r < runs.count; r++)
        KERNEL(lanes_load_run)(x + r * runs.to, runs.step, p + r * runs.from, s.batch, runs.length, count);
    for (intptr_t i = 0; i < rows && !runs.count; i++)
        for (intptr_t j = 0; j < cols; j++) {
            T lane[LANES];
            for (int l = 0; l < LANES; l++) lane[l] = p[lane_offset(l, s.batch, count) + i * s.row + j * s.col];
            x[i * cols + j] = lane_load(lane);
        }
}

/* Matrices q .. q+count-1 of an operand, any strides, from x (rows x cols). */
SHARED void KERNEL(lanes_store)(const smm_operand *to, intptr_t q, const vec *x, intptr_t rows, intptr_t cols,
                                intptr_t count) {
    const strides s = strides_of(to);
    T *p = (T *)to->data + q * s.batch;
    const lanes_runs runs = runs_of(s, rows, cols);
    for (intptr_t r = 0; r < runs.count; r++)
        KERNEL(lanes_store_run)(p + r * runs.from, s.batch, x + r * runs.to, runs.step, runs.length, count);
    for (intptr_t i = 0; i < rows && !runs.count; i++)
        for (intptr_t j = 0; j < cols; j++) {
            T lane[LANES];
            lane_store(lane, x[i * cols + j]);
            for (int l = 0; l < count; l++) p[l * s.batch + i * s.row + j * s.col] = lane[l];
        }
}

/* The same two for sizes that may be constants: then matrices of up to so many elements, one right after the other, are
 * loaded and stored without a call, so that they may stay in registers. */
enum { IN_REGISTERS = 64 };

INLINE bool is_dense(strides s, intptr_t rows, intptr_t cols) {
    return s.col == 1 && s.row == cols && s.batch == rows * cols;
}

/* The last `width` elements of LANES dense matrices of `size`, less than a block: false where a block is best for them.
 * Of all there is, up to four, whole vectors are taken apart; of larger square matrices one or four are left. */
#if defined(SMM_LANE_ZIP)
INLINE bool lanes_load_few(vec *x, const T *p, intptr_t width, intptr_t size) {
    vec y[4];
    if (width == size && size <= 4) {
        UNROLLED(intptr_t i = 0; i < size; i++) y[i] = lane_load(p + i * LANES);
        if (size == 1) {
            x[0] = y[0];
        } else if (size == 2) {
            lane_unzip(&x[0], &x[1], y[0], y[1]);
        } else if (size == 3) {
            lane_unzip_3(x, y);
        } else {
            lane_unzip(&y[0], &y[1], y[0], y[1]);
            lane_unzip(&y[2], &y[3], y[2], y[3]);
            lane_unzip(&x[0], &x[2], y[0], y[2]);
            lane_unzip(&x[1], &x[3], y[1], y[3]);
        }
        return true;
    }
    if (width == 1) x[0] = lane_load_column(p, size);
    if (width == 4) {
        int32_t at[LANES];
        UNROLLED(int l = 0; l < LANES; l++) at[l] = l * (int32_t)size;
        lane_load_rows(x, p, at);
    }
    return width == 1 || width == 4;
}
INLINE bool lanes_store_few(T *p, const vec *x, intptr_t width, intptr_t size) {
    vec y[4];
    if (width == size && size <= 4) {
        if (size == 1) {
            y[0] = x[0];
        } else if (size == 2) {
            lane_zip(&y[0], &y[1], x[0], x[1]);
        } else if (size == 3) {
            lane_zip_3(y, x);
        } else {
            lane_zip(&y[0], &y[2], x[0], x[2]);
            lane_zip(&y[1], &y[3], x[1], x[3]);
            lane_zip(&y[0], &y[1], y[0], y[1]);
            lane_zip(&y[2], &y[3], y[2], y[3]);
        }
        UNROLLED(intptr_t i = 0; i < size; i++) lane_store(p + i * LANES, y[i]);
        return true;
    }
    if (width == 1) lane_store_column(p, x[0], size);
    if (width == 4) {
        int32_t at[LANES];
        UNROLLED(int l = 0; l < LANES; l++) at[l] = l * (int32_t)size;
        lane_store_rows(p, at, x);
    }
    return width == 1 || width == 4;
}
#else
INLINE bool lanes_load_few(vec *x, const T *p, intptr_t width, intptr_t size) {
    (void)x, (void)p, (void)width, (void)size;
    return false;
}
INLINE bool lanes_store_few(T *p, const vec *x, intptr_t width, intptr_t size) {
    (void)x, (void)p, (void)width, (void)size;
    return false;
}
#endif

/* LANES matrices of `size` elements from p on, and to p. */
INLINE void lanes_load_dense(vec *x, const T *p, intptr_t size) {
    const intptr_t rest = size % BLOCK, whole = size - rest;
    UNROLLED(intptr_t j = 0; j < whole; j += BLOCK) lanes_load_part(x + j, 1, p + j, size, BLOCK, LANES);
    if (rest && !lanes_load_few(x + whole, p + whole, rest, size))
        lanes_load_part(x + whole, 1, p + whole, size, rest, LANES);
}
INLINE void lanes_store_dense(T *p, const vec *x, intptr_t size) {
    const intptr_t rest = size % BLOCK, whole = size - rest;
    UNROLLED(intptr_t j = 0; j < whole; j += BLOCK) lanes_store_part(p + j, size, x + j, 1, BLOCK, LANES);
    if (rest && !lanes_store_few(p + whole, x + whole, rest, size))
        lanes_store_part(p + whole, size, x + whole, 1, rest, LANES);
}

INLINE void lanes_load(vec *x, const smm_operand *from, intptr_t q, intptr_t rows, intptr_t cols, intptr_t count) {
    const intptr_t size = rows * cols;
    const strides s = strides_of(from);
    if (!__builtin_constant_p(size) || size > IN_REGISTERS) {
        KERNEL(lanes_load)(x, from, q, rows, cols, count);
    } else if (count == LANES && is_dense(s, rows, cols)) {
        lanes_load_dense(x, (const T *)from->data + q * size, size);
    } else { /* by way of y, or x could not be in registers */
        vec y[IN_REGISTERS];
        KERNEL(lanes_load)(y, from, q, rows, cols, count);
        UNROLLED(intptr_t j = 0; j < size; j++) x[j] = y[j];
    }
}

INLINE void lanes_store(const smm_operand *to, intptr_t q, const vec *x, intptr_t rows, intptr_t cols, intptr_t count) {
    const intptr_t size = rows * cols;
    const strides s = strides_of(to);
    if (!__builtin_constant_p(size) || size > IN_REGISTERS) {
        KERNEL(lanes_store)(to, q, x, rows, cols, count);
    } else if (count == LANES && is_dense(s, rows, cols)) {
        lanes_store_dense((T *)to->data + q * size, x, size);
    } else {
        vec y[IN_REGISTERS];
        UNROLLED(intptr_t j = 0; j < size; j++) y[j] = x[j];
        KERNEL(lanes_store)(to, q, y, rows, cols, count);
    }
}

#if defined(SMM_LANE_ZIP) && !defined(SMM_KERNELS_F64)
/* As lane_store_ints of float64: integers of the size of elements go the way of those. */
INLINE void lane_store_ints(int32_t *p, const vec *x, int n) {
    vec y[8];
    UNROLLED(int i = 0; i < n; i++) y[i] = lane_ints(x + i);
    lanes_store_dense((T *)p, y, n);
}
#endif

/* Rows 0 .. n-1 of an int32 operand, from vectors of whole numbers. Those that lie side by side are stored as elements
 * of their size, or two as one. */
SHARED void KERNEL(lanes_store_ints)(const smm_operand *to, intptr_t q, const vec *x, intptr_t n, intptr_t count) {
    intptr_t i = 0;
#if defined(SMM_LANE_ZIP)
    enum { INTS = sizeof(T) / sizeof(int32_t) };
    const intptr_t size = sizeof(T), whole = n / INTS;
    if (to->data && to->row == sizeof(int32_t) && to->batch % size == 0 && whole > 1 && n <= SMM_MAX_ORDER) {
        vec y[SMM_MAX_ORDER / INTS];
        for (; i < whole * INTS; i += INTS) y[i / INTS] = lane_ints(x + i);
        KERNEL(lanes_store_run)((T *)((char *)to->data + q * to->batch), to->batch / size, y, 1, whole, count);
    }
#endif
    for (; i < n && to->data; i++) {
        char *p = (char *)to->data + q * to->batch + i * to->row;
        int32_t lane[LANES];
        lane_store_int(lane, x[i]);
        if (count == LANES)
            UNROLLED(int l = 0; l < LANES; l++) *(int32_t *)(p + l * to->batch) = lane[l];
        else
            ROLLED(int l = 0; l < count; l++) *(int32_t *)(p + l * to->batch) = lane[l];
    }
}
/* The same for a constant n of at most 8. */
INLINE void lanes_store_ints(const smm_operand *to, intptr_t q, const vec *x, intptr_t n, intptr_t count) {
#if defined(SMM_LANE_ZIP)
    const intptr_t size = sizeof(int32_t);
    if (to->data && count == LANES && (n == 1 || to->row == size) && to->batch == n * size) {
        lane_store_ints((int32_t *)to->data + q * n, x, (int)n);
        return;
    }
#endif
    KERNEL(lanes_store_ints)(to, q, x, n, count);
}
/* The same of a single row (info). Nothing if nobody wants it. */
INLINE void lanes_store_int(const smm_operand *to, intptr_t q, vec x, intptr_t count) {
    if (to->data && to->batch == sizeof(int32_t) && count == LANES)
        lane_store_int((int32_t *)to->data + q, x);
    else
        KERNEL(lanes_store_ints)(to, q, &x, 1, count);
}

/* Matrices q .. q+count-1 of C (rows x cols) become NaN where info is not 0. */
SHARED void KERNEL(lanes_fill_nan)(const smm_operand *c, intptr_t q, uint32_t bad, intptr_t rows, intptr_t cols,
                                   intptr_t count) {
    for (intptr_t l = 0; l < count; l++)
        for (intptr_t i = 0; i < rows && bad >> l & 1; i++)
            for (intptr_t j = 0; j < cols; j++)
                *(T *)((char *)c->data + (q + l) * c->batch + i * c->row + j * c->col) = NAN;
}
INLINE void lanes_fill_nan(const smm_operand *c, intptr_t q, vec info, intptr_t rows, intptr_t cols, intptr_t count) {
    const mask bad = ~lane_equal(info, lane_set(0));
    if (__builtin_expect(lane_any(bad), 0)) KERNEL(lanes_fill_nan)(c, q, lane_bits(bad), rows, cols, count);
}

/* An m x n matrix in each lane; rows begin `step` vectors apart. */
typedef struct lanes_matrix {
    vec *at;
    intptr_t m, n, step;
} lanes_matrix;

/* Rows a multiple of 32 vectors apart would share so few sets of the L1 cache that a column evicts itself: these begin
 * one vector further apart. */
enum { CROWDED_ROW = 32 };
INLINE intptr_t row_step(intptr_t n) { return n % CROWDED_ROW ? n : n + 1; }

/* Rows from dense to `step` apart, and back. */
INLINE void spread_rows(lanes_matrix a) {
    for (intptr_t i = a.m - 1; i > 0 && a.step != a.n; i--)
        for (intptr_t j = a.n - 1; j >= 0; j--) a.at[i * a.step + j] = a.at[i * a.n + j];
}
INLINE void gather_rows(lanes_matrix a, intptr_t n) {
    for (intptr_t i = 1; i < a.m && a.step != n; i++)
        for (intptr_t j = 0; j < n; j++) a.at[i * n + j] = a.at[i * a.step + j];
}

/* Where element (i, j) of a lower triangle lies; those of a row are evenly spaced. */
typedef vec *triangle_element(const vec *l, intptr_t i, intptr_t j);

/* Rows first .. last-1 of the lower triangles of matrices q .. q+count-1, their elements `step` apart; or of upper
 * triangles, if reversed: in reverse order of rows and columns they are lower ones. Best where rows have no
 * gaps. */
INLINE void triangle_load_rows(vec *l, triangle_element *at, intptr_t step, const smm_operand *from, intptr_t q,
                               intptr_t n, bool reversed, intptr_t first, intptr_t last, intptr_t count) {
    const strides s = strides_of(from);
    const intptr_t sign = reversed ? -1 : 1;
    const T *p = (const T *)from->data + q * s.batch + (reversed ? (n - 1) * (s.row + s.col) : 0);
    for (intptr_t i = first; i < last; i++) {
        const T *row = p + i * sign * s.row;
        if (s.col == 1)
            KERNEL(lanes_load_run)(at(l, i, reversed ? i : 0), sign * step, row - (reversed ? i : 0), s.batch, i + 1,
                                   count);
        else
            for (intptr_t j = 0; j <= i; j++) {
                T lane[LANES];
                for (int k = 0; k < LANES; k++) lane[k] = row[j * sign * s.col + lane_offset(k, s.batch, count)];
                *at(l, i, j) = lane_load(lane);
            }
    }
}
/* The same, all of it, by columns that have no gaps. */
INLINE void triangle_load_columns(vec *l, triangle_element *at, const smm_operand *from, intptr_t q, intptr_t n,
                                  bool reversed, intptr_t count) {
    const strides s = strides_of(from);
    const T *p = (const T *)from->data + q * s.batch;
    for (intptr_t j = 0; j < n; j++) {
        vec x[SMM_MAX_ORDER];
        const T *column = p + (reversed ? (n - 1 - j) * s.col : j * s.col + j);
        KERNEL(lanes_load_run)(reversed ? x + n - 1 : x + j, reversed ? -1 : 1, column, s.batch, n - j, count);
        for (intptr_t i = j; i < n; i++) *at(l, i, j) = x[i];
    }
}
