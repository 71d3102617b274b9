/* matmul_rows.h: C = A B with rows of B and C in vectors and elements of A broadcast.
 *
 * c_i* = a_i0 b_0* + a_i1 b_1* + ...: a tile of C, `height` rows by `width` vectors of columns, stays in
 * registers while k runs; each vector of B is used for `height` rows, each element of A for `width`
 * vectors. A may have any strides; rows of B and C are contiguous.
 *
 * When n is not a multiple of LANES the last vector of a row overlaps the one before it: the columns in
 * both are computed twice, with the same bits, and no masks are needed. n < LANES is one partial vector. At constant
 * orders, B by columns is transposed in strips: small ones in registers, the others to panels of a few matrices.
 * (Loop order and register blocking after Masliah et al., Euro-Par 2016.) */

/* Where the columns of a tile lie. width > 0: that many vectors, adjacent but for the last, which begins
 * at column `last`; width = 0: one partial vector of `last` columns. */
typedef struct columns {
    int width;
    intptr_t last;
} columns;

INLINE int vectors_of(columns j) { return j.width ? j.width : 1; }
INLINE intptr_t column(columns j, int v) { return v < j.width - 1 ? v * LANES : j.last; }
INLINE vec load_columns(columns j, int v, const T *p) {
    return j.width ? lane_load(p + column(j, v)) : lane_load_part(p, j.last);
}
INLINE void store_columns(columns j, int v, T *p, vec x) {
    if (j.width)
        lane_store(p + column(j, v), x);
    else
        lane_store_part(p, x, j.last);
}

/* The tile that begins at vector v of rows of n elements. */
INLINE columns columns_from(intptr_t v, const int max_width, const intptr_t n) {
    if (n < LANES) return (columns){0, n};
    const intptr_t vectors = (n + LANES - 1) / LANES;
    const int width = (int)min_of(vectors - v, max_width);
    return (columns){width, v + width < vectors ? (width - 1) * LANES : n - LANES - v * LANES};
}

enum { MAX_HEIGHT = 16, MAX_WIDTH = 8 };

/* What tiles prefetch of dense stacks that come from memory: as much of a later A as they read of their own and, for
 * each element of that, `ratio` / 2^16 of a later B. a == NULL: nothing. */
typedef struct ahead {
    const T *a, *b;
    intptr_t ratio;
} ahead;
INLINE ahead ahead_by(ahead next, intptr_t count) {
    if (next.a) next.a += count, next.b += count * next.ratio >> 16;
    return next;
}
/* At each k, in a tile of `height` rows. */
INLINE void prefetch_next(const ahead next, intptr_t p, const int height) {
    const intptr_t step = (height * next.ratio + 0xffff) >> 16;
    prefetch(next.a + p * height, height);
    prefetch(next.b + p * step, step);
}

/* Step p of a tile's sums: a column of A by a row of B. Of complex numbers the second part of A's elements meets i
 * times that row. `begins`: there is nothing to add to yet. */
INLINE void rows_step(const int height, const columns j, const bool begins, const T *const *fours, intptr_t row,
                      intptr_t at, const T *b, vec acc[MAX_HEIGHT][MAX_WIDTH]) {
    vec bv[MAX_WIDTH];
    UNROLLED(int v = 0; v < vectors_of(j); v++) bv[v] = load_columns(j, v, b);
    UNROLLED(int part = 0; part < PARTS; part++) {
        if (part)
            UNROLLED(int v = 0; v < vectors_of(j); v++) bv[v] = lane_turn(bv[v]);
        UNROLLED(int i = 0; i < height; i++) {
            const vec x = lane_set(fours[i / 4][i % 4 * row + at + part]);
            UNROLLED(int v = 0; v < vectors_of(j); v++)
                acc[i][v] = begins && !part ? lane_mul(x, bv[v]) : lane_fma(x, bv[v], acc[i][v]);
        }
    }
}

/* One tile of one matrix: c (height x columns) = a (height x k) b (k x columns). At each k it streams a line of what is
 * behind, if that is not NULL. */
INLINE void rows_tile(const int height, const columns j, const intptr_t k, const T *a, const strides as, const T *b,
                      const strides bs, T *c, const strides cs, const ahead next, smm_prefetch *behind) {
    vec acc[MAX_HEIGHT][MAX_WIDTH];
    const T *fours[MAX_HEIGHT / 4]; /* of rows of A: three run-time distances for all, or registers would not do */
    UNROLLED(int i = 0; i < height; i += 4) {
        fours[i / 4] = a + i * as.row;
        if (!__builtin_constant_p(as.row)) FORGET(fours[i / 4]);
    }
    rows_step(height, j, true, fours, as.row, 0, b, acc);
    UNROLLED_BY_2(intptr_t p = 1; p < k; p++) {
        if (next.a) {
            prefetch_next(next, p, PARTS * height);
            if (behind && behind->lines) stream_line(behind);
        }
        rows_step(height, j, false, fours, as.row, p * as.col, b + p * bs.row, acc);
    }

    UNROLLED(int i = 0; i < height; i++, c += cs.row) {
        if (!__builtin_constant_p(cs.row)) FORGET(c); /* or each row has a pointer, in memory */
        UNROLLED(int v = 0; v < vectors_of(j); v++) store_columns(j, v, c, acc[i][v]);
    }
}

/* Above this order results of square matrices are streamed in between. Below, that gained nothing. Of any shape they
 * are: up to 29 % less from memory, small ones up to 8 % more (AMD Zen 5, November 2026). */
enum { ROWS_STREAM = 16 };

/* From memory, up to this order, constant strides save address arithmetic that does not hide behind the sums (EPYC,
 * November 2026: above it at most 5 % on AVX2, 3 % at f64 on AVX-512). */
enum { ROWS_STRIDES = VECTOR_REGISTERS < 32 ? 8 : sizeof(T) == 8 ? 16 : 32 };

/* Tiles of `height` rows, from one row to another. */
INLINE void rows_tiles(const int height, const columns j, intptr_t from, intptr_t to, const intptr_t k, const T *a,
                       const strides as, const T *b, const strides bs, T *c, const strides cs, const ahead next,
                       smm_prefetch *behind) {
    ROLLED(intptr_t i = from; i < to; i += height)
        rows_tile(height, j, k, a + i * as.row, as, b, bs, c + i * cs.row, cs, ahead_by(next, PARTS * i * k), behind);
}

/* The largest of as few parts as can be, none above `most` and all as equal as can be. */
INLINE intptr_t largest_part(intptr_t count, intptr_t most) {
    const intptr_t parts = (count + most - 1) / most;
    return (count + parts - 1) / parts;
}
/* How many of m rows are in tiles of the greatest height; the others are in those of one row less. */
INLINE intptr_t tall_of(intptr_t m, intptr_t height) {
    const intptr_t tiles = (m + height - 1) / height;
    return (m - tiles * (height - 1)) * height;
}

/* A vector's width of columns of a dense matrix; what would pass the end of rows or columns overlaps. And all of them.
 */
INLINE void transpose_columns(T *to, const T *from, const int n, int v) {
    const int j = v + LANES <= n ? v : n - LANES;
    UNROLLED_BY_4(int k = 0; k < n; k += STRIP) {
        const int i = k + STRIP <= n ? k : n - STRIP;
        vec strip[STRIP];
        lane_load_strip(strip, from + j * n + i, n);
        UNROLLED(int l = 0; l < STRIP; l++) lane_store(to + (i + l) * n + j, strip[l]);
    }
}
INLINE void transpose_square(T *to, const T *from, const int n) {
    if (n <= 3 * LANES)
        UNROLLED(int v = 0; v < n; v += LANES) transpose_columns(to, from, n, v);
    else
        ROLLED(int v = 0; v < n; v += LANES) transpose_columns(to, from, n, v);
}

/* One n x n matrix, max_width vectors of columns at a time and then the rest. */
INLINE void rows_matrix(const int n, const intptr_t k, const int max_height, const int max_width, const T *a,
                        const strides as, const T *b, const strides bs, T *c, const strides cs, const ahead next,
                        smm_prefetch *behind) {
    const int step = max_width * LANES, whole = n / step * step, height = largest_part(n, max_height);
    const int tall = tall_of(n, height);
    const columns full = {max_width, step - LANES}, rest = columns_from(whole / LANES, max_width, n);
    ROLLED(int v = 0; v < whole; v += step) {
        rows_tiles(height, full, 0, tall, k, a, as, b + v, bs, c + v, cs, next, behind);
        if (tall < n) rows_tiles(height - 1, full, tall, n, k, a, as, b + v, bs, c + v, cs, next, behind);
    }
    if (whole == n) return;
    rows_tiles(height, rest, 0, tall, k, a, as, b + whole, bs, c + whole, cs, next, behind);
    if (tall < n) rows_tiles(height - 1, rest, tall, n, k, a, as, b + whole, bs, c + whole, cs, next, behind);
}

/* n x n matrices; n, heights, widths and, by inlining, k and the strides within a matrix are constants where the
 * caller's are. b_cols: B is dense by columns, and bs what it becomes by transposing it, one matrix ahead. */
INLINE void rows_square_loop(const smm_call *call, intptr_t first, intptr_t last, const bool cold, const int n,
                             const intptr_t k, const int max_height, const int max_width, const strides as,
                             const strides bs, const bool b_cols, const strides cs, smm_prefetch *known) {
    /* a copy, which no store to C can change, so that it may stay in registers */
    smm_prefetch behind = known ? *known : (smm_prefetch){0}, *const to_stream = known ? &behind : NULL;
    const T *a = (const T *)call->matmul.a.data + first * as.batch,
            *b = (const T *)call->matmul.b.data + first * bs.batch;
    T *c = (T *)call->matmul.c.data + first * cs.batch;
    T panels[2][32 * 32] __attribute__((aligned(64)));
    if (b_cols) transpose_square(panels[first & 1], b, n);
    for (intptr_t q = first; q < last; q++, a += as.batch, b += bs.batch, c += cs.batch) {
        const T *panel = panels[q & 1];
        if (b_cols && q + 1 < last) transpose_square(panels[~q & 1], b + bs.batch, n);
        const ahead next = {cold ? a + distance(n * n) : NULL, b + distance(n * n), 1 << 16};
        rows_matrix(n, k, max_height, max_width, a, as, b_cols ? panel : b, bs, c, cs, next, to_stream);
    }
    if (known) *known = behind;
}

/* Of a larger order: B is transposed, a few matrices at a time, and the kernel called as with a B by rows. By then most
 * of the stores have left the store queue. */
INLINE void rows_square_transposed(const smm_call *call, intptr_t first, intptr_t last, const int n,
                                   smm_kernel_fn *kernel) {
    enum { ELEMENTS = 8192 / sizeof(T) };
    T panels[ELEMENTS] __attribute__((aligned(64)));
    const intptr_t square = n * n, group = call->matmul.b.batch ? ELEMENTS / square : last - first;
    smm_call part = *call;
    part.matmul.b = (smm_operand){panels, call->matmul.b.batch ? square * sizeof(T) : 0, n * sizeof(T), sizeof(T)};
    for (intptr_t q = first; q < last; q += group) {
        const intptr_t count = min_of(group, last - q);
        part.matmul.a.data = (char *)call->matmul.a.data + q * call->matmul.a.batch;
        part.matmul.c.data = (char *)call->matmul.c.data + q * call->matmul.c.batch;
        for (intptr_t i = 0; i < (call->matmul.b.batch ? count : 1); i++)
            transpose_square(panels + i * square,
                             (const T *)((char *)call->matmul.b.data + (q + i) * call->matmul.b.batch), n);
        kernel(&part, 0, count, NULL);
    }
}

/* One tile of a small order, B by columns: rows of B are transposed a strip at a time, in registers and for each tile
 * anew. */
INLINE void rows_tile_columns(const int height, const columns j, const int n, const T *a, const strides as, const T *b,
                              const strides bs, T *c, const strides cs) {
    vec acc[MAX_HEIGHT][MAX_WIDTH], strip[MAX_WIDTH][STRIP];
    UNROLLED(int p = 0; p < n; p++) {
        const int begun = p / STRIP * STRIP, from = begun + STRIP <= n || n < STRIP ? begun : n - STRIP;
        if (p == begun)
            UNROLLED(int v = 0; v < vectors_of(j); v++)
                lane_load_strip(strip[v], b + (j.width ? column(j, v) : 0) * bs.col + from, bs.col);
        UNROLLED(int i = 0; i < height; i++) {
            const vec x = lane_set(a[i * as.row + p * as.col]);
            UNROLLED(int v = 0; v < vectors_of(j); v++) {
                const vec y = strip[v][p - from];
                acc[i][v] = p ? lane_fma(x, y, acc[i][v]) : lane_mul(x, y);
            }
        }
    }
    UNROLLED(int i = 0; i < height; i++)
        UNROLLED(int v = 0; v < vectors_of(j); v++) store_columns(j, v, c + i * cs.row, acc[i][v]);
}

/* Dense matrices of a small order, B by columns. */
INLINE void rows_square_columns(const smm_call *call, intptr_t first, intptr_t last, const bool cold, const int n,
                                const int max_height, const strides as, const strides bs, const strides cs) {
    const T *a = (const T *)call->matmul.a.data + first * as.batch,
            *b = (const T *)call->matmul.b.data + first * bs.batch;
    T *c = (T *)call->matmul.c.data + first * cs.batch;
    const columns j = columns_from(0, MAX_WIDTH, n);
    const int tiles = (n + max_height - 1) / max_height, height = n / tiles, taller = n % tiles * (height + 1);
    for (intptr_t q = first; q < last; q++, a += as.batch, b += bs.batch, c += cs.batch) {
        if (cold) prefetch(a + distance(n * n), n * n), prefetch(b + distance(n * n), n * n);
        UNROLLED(int i = 0; i < taller; i += height + 1)
            rows_tile_columns(height + 1, j, n, a + i * as.row, as, b, bs, c + i * cs.row, cs);
        UNROLLED(int i = taller; i < n; i += height)
            rows_tile_columns(height, j, n, a + i * as.row, as, b, bs, c + i * cs.row, cs);
    }
}

/* Up to this order B by columns stays in registers: on AVX-512 while a matrix is one tile, which transposes it once. */
enum { ROWS_COLUMNS = sizeof(vec) < 64 ? 8 : sizeof(T) == 8 ? 12 : 16 };

/* Above this order matrices with gaps are left to the kernel of any shape: in cache it is up to 10 % slower (13 % at
 * f64 on AVX-512), from memory 15 % faster (AMD Zen 3 and a Xeon, family 6 model 207, November 2026). */
enum { ROWS_GAPS = 16 };

/* Square matrices of constant order, with code of their own for dense operands by rows or by columns. `kernel` is what
 * this becomes. Small A by columns prefetches in cache, too, with 32 registers: AVX-512 is 5-15 % faster (Xeon, family
 * 6 model 207, November 2026). */
INLINE void rows_square(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold, const int n,
                        const int height, const int width, smm_kernel_fn *kernel) {
    const strides as = strides_of(&call->matmul.a), bs = strides_of(&call->matmul.b), cs = strides_of(&call->matmul.c);
    const strides a_rows = {as.batch, n, 1}, a_cols = {as.batch, 1, n}, b_rows = {bs.batch, n, 1},
                  b_cols = {bs.batch, 1, n}, c_rows = {cs.batch, n, 1};
    const bool small = n <= ROWS_STRIDES, dense = cs.row == n;
    const bool a_is_rows = dense && as.row == n && as.col == 1, b_is_rows = bs.row == n && bs.col == 1;
    const bool a_is_cols = dense && as.row == 1 && as.col == n, b_is_cols = bs.row == 1 && bs.col == n;
    smm_prefetch *const behind = n > ROWS_STREAM ? cold : NULL;
    if (a_is_rows && b_is_rows && !cold)
        rows_square_loop(call, first, last, false, n, n, height, width, a_rows, b_rows, false, c_rows, NULL);
    else if (a_is_cols && b_is_rows && !cold && !(small && VECTOR_REGISTERS == 32))
        rows_square_loop(call, first, last, false, n, n, height, width, a_cols, b_rows, false, c_rows, NULL);
    else if (small && a_is_rows && b_is_rows)
        rows_square_loop(call, first, last, true, n, n, height, width, a_rows, b_rows, false, c_rows, behind);
    else if (small && a_is_cols && b_is_rows)
        rows_square_loop(call, first, last, true, n, n, height, width, a_cols, b_rows, false, c_rows, behind);
    else if (n <= ROWS_COLUMNS && a_is_rows && b_is_cols)
        rows_square_columns(call, first, last, cold, n, height, a_rows, b_cols, c_rows);
    else if (n <= ROWS_COLUMNS && a_is_cols && b_is_cols)
        rows_square_columns(call, first, last, cold, n, height, a_cols, b_cols, c_rows);
    else if (n > ROWS_COLUMNS && cold && (a_is_rows || a_is_cols) && (b_is_rows || b_is_cols))
        /* a few panels at a time would leave the memory idle in turns */
        rows_square_loop(call, first, last, true, n, n, height, width, as, b_rows, b_is_cols, c_rows, behind);
    else if (n > ROWS_COLUMNS && b_is_cols)
        rows_square_transposed(call, first, last, n, kernel);
    else if (n <= ROWS_GAPS) /* above, rows_square_needs lets nothing else through */
        /* k at run time: unrolled, every a_ik would want an address register of its own */
        rows_square_loop(call, first, last, false, n, call->k, height, width, as, bs, false, cs, NULL);
}

/* Dense B by rows or by columns, or any B by rows; C by rows. */
static inline unsigned rows_square_needs(const smm_call *call) {
    const intptr_t size = sizeof(T), n = call->n, row = n * size;
    const smm_operand *a = &call->matmul.a, *b = &call->matmul.b, *c = &call->matmul.c;
    const bool dense_a = (a->col == size && a->row == row) || (a->row == size && a->col == row);
    const bool dense_columns = dense_a && b->row == size && b->col == row && c->row == row;
    const bool gaps = !dense_a || (b->col == size && b->row != row) || (c->col == size && c->row != row);
    if (n > ROWS_GAPS && gaps) return SMM_UNFIT;
    return (b->col == size || dense_columns ? 0u : SMM_PACK_B) | (c->col == size ? 0u : SMM_STAGE_C);
}

/* Any shape: the same tiles with run-time sizes and strides, those of some rows and columns of a few matrices. One
 * function per height and width, wide ones for a vector times matrices. */
typedef struct rows_shape {
    intptr_t from, to; /* rows */
    intptr_t k, last;
    strides a, b, c;
} rows_shape;

typedef void rows_fn(const rows_shape *shape, const T *a, const T *b, T *c, intptr_t count, ahead next,
                     smm_prefetch *behind);

INLINE void rows_some(const int height, const int width, const rows_shape *shape, const T *a, const T *b, T *c,
                      intptr_t count, ahead next, smm_prefetch *known) {
    const rows_shape s = *shape;
    const strides as = s.a, bs = {s.b.batch, s.b.row, 1}, cs = {s.c.batch, s.c.row, 1};
    const columns j = {width, s.last};
    if (!next.a)
        for (; count--; a += as.batch, b += bs.batch, c += cs.batch)
            rows_tiles(height, j, s.from, s.to, s.k, a, as, b, bs, c, cs, (ahead){0}, NULL);
    else {
        smm_prefetch behind = *known; /* a copy, as in rows_square_loop */
        for (; count--; a += as.batch, b += bs.batch, c += cs.batch, next.a += as.batch, next.b += bs.batch)
            rows_tiles(height, j, s.from, s.to, s.k, a, as, b, bs, c, cs, next, &behind);
        *known = behind;
    }
}

#define HEIGHTS(X, width) \
    X(1, width) X(2, width) X(3, width) X(4, width) X(5, width) X(6, width) X(7, width) X(8, width)
#define TALL(X, width) \
    HEIGHTS(X, width) \
    X(9, width) X(10, width) X(11, width) X(12, width) X(13, width) X(14, width) X(15, width) X(16, width)
#define TILES(X) TALL(X, 0) TALL(X, 1) HEIGHTS(X, 2) HEIGHTS(X, 3) HEIGHTS(X, 4) X(1, 5) X(1, 6) X(1, 7) X(1, 8)
/* Vectors of C that leave registers for B and for the broadcast of A (of `portable`, which is there to be right, what
 * is soon compiled); the compiler drops larger tiles. */
#if defined(SMM_KERNELS_PORTABLE)
enum { TILE_VECTORS = 8 };
#else
enum { TILE_VECTORS = VECTOR_REGISTERS == 32 ? 24 : PARTS == 2 ? 8 : 12 };
#endif
/* Of rows of several vectors; of complex numbers both less with few registers, which turned rows of B take, too. */
enum { TILE_WIDTH = VECTOR_REGISTERS == 32 ? 4 : PARTS == 2 ? 2 : 3 };
/* The most rows of a tile; and of one whose rows are one vector each. */
enum { TILE_ROWS = 8, TALL_ROWS = VECTOR_REGISTERS == 32 ? MAX_HEIGHT : TILE_ROWS };
#define FUNCTION(height, width) \
    static rows_fn rows_##height##x##width; \
    static void rows_##height##x##width(const rows_shape *s, const T *a, const T *b, T *c, intptr_t count, ahead next, \
                                        smm_prefetch *behind) { \
        rows_some(height, width, s, a, b, c, count, next, behind); \
    }
TILES(FUNCTION)
#define ENTRY(height, width) \
    [width][height] = height <= TALL_ROWS && height * width <= TILE_VECTORS ? rows_##height##x##width : NULL,
static rows_fn *const rows_table[MAX_WIDTH + 1][MAX_HEIGHT + 1] = {TILES(ENTRY)};
#undef ENTRY
#undef FUNCTION
#undef TILES
#undef TALL
#undef HEIGHTS

/* Some columns of a call: tiles of `run[0]` in its first rows, then those of `run[1]`, one row less. */
typedef struct rows_part {
    rows_fn *run[2];
    rows_shape shape[2];
} rows_part;
INLINE rows_part rows_part_of(const smm_call *call, columns j) {
    const intptr_t most = j.width > 1 ? min_of(TILE_ROWS, TILE_VECTORS / j.width) : TALL_ROWS;
    const intptr_t m = call->m, height = largest_part(m, most), tall = tall_of(m, height);
    const strides as = strides_of(&call->matmul.a), bs = strides_of(&call->matmul.b), cs = strides_of(&call->matmul.c);
    rows_fn *const *of = rows_table[j.width];
    return (rows_part){{of[height], of[height - 1]},
                       {{0, tall, call->k, j.last, as, bs, cs}, {tall, m, call->k, j.last, as, bs, cs}}};
}

/* Columns by columns, each time of a few matrices: enough to hide the call, few enough to stay in L1. */
static void KERNEL(matmul_rows)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) {
    enum { L1_BYTES = 16384 };
    const strides as = strides_of(&call->matmul.a), bs = strides_of(&call->matmul.b), cs = strides_of(&call->matmul.c);
    const intptr_t m = call->m, k = call->k, n = PARTS * call->n, of_a = PARTS * m * k;
    const intptr_t bytes = (of_a + k * n + m * n) * (intptr_t)sizeof(T);
    const intptr_t group = bytes < L1_BYTES ? L1_BYTES / bytes : 1, ratio = k * (n << 16) / of_a;
    /* vectors: the wider, the fewer times B is walked through (25 to 32 columns of 8 lanes as 4 instead of 2 and 2: 15
     * to 37 % less from memory, 0 to 25 in cache; Zen 5); one row leaves registers for more */
    const int width = (int)largest_part((n + LANES - 1) / LANES, m == 1 ? MAX_WIDTH : TILE_WIDTH);
    const intptr_t step = width * LANES, whole = n / step * step;
    const rows_part parts[] = {rows_part_of(call, (columns){width, step - LANES}),
                               rows_part_of(call, columns_from(whole / LANES, width, n))};
    for (intptr_t q = first; q < last; q += group) {
        const T *a = (const T *)call->matmul.a.data + q * as.batch, *b = (const T *)call->matmul.b.data + q * bs.batch;
        T *c = (T *)call->matmul.c.data + q * cs.batch;
        for (intptr_t v = 0; v < n; v += step) {
            const rows_part *part = &parts[v == whole];
            const ahead next = {cold && !v ? next_a(cold, a, group * of_a) : NULL, b + distance(group * k * n), ratio};
            for (int i = 0; i < 2; i++)
                if (part->shape[i].from < part->shape[i].to)
                    part->run[i](&part->shape[i], a, b + v, c + v, min_of(group, last - q), next, cold);
        }
    }
}

static unsigned rows_needs(const smm_call *call) {
    const intptr_t size = PARTS * sizeof(T);
    return (call->matmul.b.col == size ? 0u : SMM_PACK_B) | (call->matmul.c.col == size ? 0u : SMM_STAGE_C);
}
