/* lu_within.h: LU, solves and determinants, one matrix in the lanes: a column is `vectors` vectors, rows are lanes.
 * Rows are never exchanged: sets of bits say which have been pivots, and rows find their places when the result is
 * stored. Two steps are done per pass over the matrix, and the search for the pivots of one matrix, which is all
 * latency, overlaps with that of others. Right-hand sides are further columns. */
#include <stdalign.h>

enum { LU_STREAMS = 4, LU_SIDES = 8 };

/* One matrix under way. */
typedef struct lu_stream {
    T *w;                                /* columns of A, which become L and U, and right-hand sides */
    T r[SMM_MOST_ORDER];                 /* reciprocals of the pivots */
    uint32_t free[SMM_MOST_ORDER + 1];   /* rows that have not been pivots before each step */
    unsigned char pivot[SMM_MOST_ORDER], /* the row that is the pivot of each step, */
        swap[SMM_MOST_ORDER],            /* where it stood: each step's exchange; */
        order[SMM_MOST_ORDER],           /* the rows as the exchanges have ordered them, */
        place[SMM_MOST_ORDER];           /* and where each stands */
    int32_t info;
} lu_stream;

/* Lanes of vector v in a set of rows. */
INLINE mask lu_rows(uint32_t rows, intptr_t v) { return lane_mask(rows >> (v * LANES)); }

/* The pivot of step k in a column, where several are the largest or that in the first row is NaN. */
SHARED intptr_t KERNEL(lu_first)(const lu_stream *s, const T *column, uint32_t largest, intptr_t k) {
    if (isnan(column[s->order[k]])) return s->order[k];
    while (!(largest >> s->order[k] & 1)) k++;
    return s->order[k];
}

/* Step k on column k, which is in x: find the pivot and divide by it. */
INLINE void lu_within_pivot(lu_stream *s, vec *x, intptr_t k, const intptr_t vectors) {
    T *const column = s->w + k * vectors * LANES;
    const vec none = lane_set(-1);
    vec size[SMM_MOST_ORDER / LANES], most = none;
    for (intptr_t v = 0; v < vectors; v++) {
        size[v] = lane_select(lu_rows(s->free[k], v), lane_abs(x[v]), none);
        most = lane_max(size[v], most);
    }
    most = lane_largest(most);
    uint32_t largest = 0;
    for (intptr_t v = 0; v < vectors; v++) largest |= lane_bits(lane_equal(size[v], most)) << (v * LANES);
    const intptr_t first = s->order[k];
    intptr_t p = __builtin_ctz(largest | (uint32_t)1 << 31); /* where all are NaN there is none */
    if (__builtin_expect((largest & (largest - 1)) || isnan(column[first]), 0))
        p = KERNEL(lu_first)(s, column, largest, k);

    const intptr_t place = s->place[p];
    s->order[place] = (unsigned char)first;
    s->place[first] = (unsigned char)place;
    s->pivot[k] = (unsigned char)p;
    s->swap[k] = (unsigned char)place;
    s->free[k + 1] = s->free[k] & ~((uint32_t)1 << p);
    const T u = column[p], r = 1 / u;
    s->r[k] = r;
    if (u == 0 && !s->info) s->info = (int32_t)(k + 1);
    for (intptr_t v = 0; v < vectors; v++) {
        const vec l = __builtin_expect(isinf(r), 0) ? lane_div(x[v], lane_set(u)) : lane_mul(x[v], lane_set(r));
        x[v] = lane_select(lu_rows(s->free[k + 1], v), l, x[v]);
        lane_store(column + v * LANES, x[v]);
    }
}

/* x - l u in rows that are free after step k. */
INLINE vec lu_update(const lu_stream *s, intptr_t k, intptr_t v, vec l, vec u, vec x) {
    return lane_select(lu_rows(s->free[k + 1], v), lane_fnma(l, u, x), x);
}

/* Steps k and, of two, k + 1 on columns k and k + 1. */
INLINE void lu_begin(lu_stream *s, intptr_t k, const intptr_t vectors, const int steps) {
    T *const column = s->w + k * vectors * LANES, *const next = column + vectors * LANES;
    vec x[SMM_MOST_ORDER / LANES];
    for (intptr_t v = 0; v < vectors; v++) x[v] = lane_load(column + v * LANES);
    lu_within_pivot(s, x, k, vectors);
    if (steps == 1) return;
    const vec u = lane_set(next[s->pivot[k]]);
    for (intptr_t v = 0; v < vectors; v++) {
        x[v] = lu_update(s, k, v, x[v], u, lane_load(next + v * LANES));
        lane_store(next + v * LANES, x[v]);
    }
    lu_within_pivot(s, x, k + 1, vectors);
}

/* Steps k and, of two, k + 1 on columns first .. last-1. */
INLINE void lu_pass(const lu_stream *s, intptr_t first, intptr_t last, intptr_t k, const intptr_t vectors,
                    const int steps) {
    const intptr_t ld = vectors * LANES, p1 = s->pivot[k], p2 = s->pivot[k + steps - 1];
    const T *const l1 = s->w + k * ld, *const l2 = l1 + ld;
    const vec f = lane_set(l1[p2]);
    for (intptr_t j = first; j < last; j++) {
        T *const column = s->w + j * ld;
        const vec u1 = lane_set(column[p1]), u2 = lane_fnma(f, u1, lane_set(column[p2]));
        for (intptr_t v = 0; v < vectors; v++) {
            vec x = lu_update(s, k, v, lane_load(l1 + v * LANES), u1, lane_load(column + v * LANES));
            if (steps == 2) x = lu_update(s, k + 1, v, lane_load(l2 + v * LANES), u2, x);
            lane_store(column + v * LANES, x);
        }
    }
}

/* From L y = b in columns first .. first+width-1 to U x = y, whose x goes to c. */
INLINE void lu_back(const lu_stream *s, intptr_t n, intptr_t width, T *c, strides t, const intptr_t vectors) {
    const intptr_t ld = vectors * LANES;
    T *const sides = s->w + n * ld;
    for (intptr_t j = n - 1; j >= 0; j--) {
        const T *const u = s->w + j * ld;
        const intptr_t p = s->pivot[j];
        const uint32_t above = s->free[0] & ~s->free[j];
        for (intptr_t l = 0; l < width; l++) {
            T *const column = sides + l * ld;
            const T x = __builtin_expect(isinf(s->r[j]), 0) ? column[p] / u[p] : column[p] * s->r[j];
            c[j * t.row + l * t.col] = s->info ? (T)NAN : x;
            for (intptr_t v = 0; v < vectors; v++) {
                const vec y = lane_load(column + v * LANES);
                const vec z = lane_fnma(lane_load(u + v * LANES), lane_set(x), y);
                lane_store(column + v * LANES, lane_select(lu_rows(above, v), z, y));
            }
        }
    }
}

/* Rows of w in the order of the steps. */
INLINE void lu_store(T *c, strides s, const lu_stream *x, intptr_t n, const intptr_t vectors) {
    unsigned char step[SMM_MOST_ORDER], column[SMM_MOST_ORDER];
    for (intptr_t k = 0; k < n; k++) step[x->pivot[k]] = (unsigned char)k;
    for (intptr_t j = 0; j < SMM_MOST_ORDER; j++) column[j] = (unsigned char)j;
    within_store(c, s, x->w, vectors * LANES, n, step, column, x->info);
}

INLINE void lu_put_int(const smm_operand *to, intptr_t q, intptr_t i, intptr_t x) {
    if (to->data) *(int32_t *)((char *)to->data + q * to->batch + i * to->row) = (int32_t)x;
}

/* det A from the diagonal of U. */
INLINE void lu_det(const smm_call *call, intptr_t q, const lu_stream *s, intptr_t n, const intptr_t vectors) {
    T u[SMM_MOST_ORDER], p = 1;
    const T least_normal = sizeof(T) == 4 ? (T)FLT_MIN : (T)DBL_MIN;
    bool safe = true, odd = false;
    for (intptr_t k = 0; k < n; k++) {
        u[k] = s->w[k * vectors * LANES + s->pivot[k]];
        p *= u[k];
        const T size = p < 0 ? -p : p;
        safe &= size >= least_normal && size < (T)INFINITY;
        odd ^= s->swap[k] != k;
    }
    KERNEL(det_put)(call, q, odd ? -p : p, safe, odd, u, 1, n);
}

/* The right-hand sides j .. of the matrices, `width` of them. */
INLINE void lu_load_sides(const smm_call *call, intptr_t q, lu_stream *s, intptr_t j, intptr_t width,
                          const intptr_t vectors) {
    const strides b = strides_of(&call->b);
    within_load(s->w + call->n * vectors * LANES, vectors * LANES, (const T *)call->b.data + q * b.batch + j * b.col, b,
                call->n, width);
}

INLINE void lu_store_sides(const smm_call *call, intptr_t q, lu_stream *s, intptr_t j, intptr_t width,
                           const intptr_t vectors) {
    const strides c = strides_of(&call->c);
    lu_back(s, call->n, width, (T *)call->c.data + q * c.batch + j * c.col, c, vectors);
}

/* LU, SOLVE, DET or SLOGDET. */
INLINE void lu_within(const smm_call *call, intptr_t first, intptr_t last, bool cold, const intptr_t vectors) {
    const strides a = strides_of(&call->a), c = strides_of(&call->c);
    const intptr_t n = call->n, sides = call->op == SMM_OP_SOLVE ? call->k : 0;
    const intptr_t width = least(LU_SIDES, sides), cols = n + width;
    alignas(vec) T w[LU_STREAMS * (SMM_MOST_ORDER + LU_SIDES) * SMM_MOST_ORDER];
    lu_stream streams[LU_STREAMS];
    for (intptr_t q = first; q < last; q += LU_STREAMS) {
        const intptr_t count = least(LU_STREAMS, last - q);
        const T *next = ahead_of(&call->a, q, LU_STREAMS * n * n);
        for (intptr_t l = 0; l < count; l++) {
            lu_stream *const s = &streams[l];
            s->w = w + l * cols * vectors * LANES;
            s->info = 0;
            s->free[0] = ~(uint32_t)0 >> (32 - n);
            for (intptr_t i = 0; i < n; i++) s->order[i] = s->place[i] = (unsigned char)i;
            within_load(s->w, vectors * LANES, (const T *)call->a.data + (q + l) * a.batch, a, n, n);
            if (width) lu_load_sides(call, q + l, s, 0, width, vectors);
        }
        intptr_t k = 0;
        for (; k + 1 < n; k += 2) {
            for (intptr_t l = 0; l < count; l++) lu_begin(&streams[l], k, vectors, 2);
            for (intptr_t l = 0; l < count; l++) {
                if (cold) prefetch(next + l * a.batch + k * n, 2 * n);
                lu_pass(&streams[l], k + 2, cols, k, vectors, 2);
            }
        }
        for (intptr_t l = 0; k < n && l < count; l++) {
            lu_begin(&streams[l], k, vectors, 1);
            lu_pass(&streams[l], n, cols, k, vectors, 1);
        }
        for (intptr_t l = 0; l < count; l++) {
            lu_stream *const s = &streams[l];
            lu_put_int(&call->info, q + l, 0, s->info);
            if (call->op == SMM_OP_LU) {
                lu_store((T *)call->c.data + (q + l) * c.batch, c, s, n, vectors);
                for (k = 0; k < n; k++)
                    lu_put_int(&call->pivots, q + l, k, s->info && k + 1 >= s->info ? k : s->swap[k]);
            } else if (call->op != SMM_OP_SOLVE) {
                lu_det(call, q + l, s, n, vectors);
            } else {
                lu_store_sides(call, q + l, s, 0, width, vectors);
            }
            for (intptr_t j = width; j < sides;
                 j += width) { /* more right-hand sides: the same steps for these alone */
                const intptr_t some = least(width, sides - j);
                lu_load_sides(call, q + l, s, j, some, vectors);
                for (k = 0; k < n; k++) lu_pass(s, n, n + some, k, vectors, 1);
                lu_store_sides(call, q + l, s, j, some, vectors);
            }
        }
    }
}

/* For orders that are too large for `vectors` vectors, not for this kernel. */
INLINE unsigned lu_within_needs(const smm_call *call, intptr_t vectors) {
    return call->n <= vectors * LANES ? 0 : SMM_UNFIT;
}

static void KERNEL(lu_within)(const smm_call *call, intptr_t first, intptr_t last, smm_behind *cold) {
    lu_within(call, first, last, cold, (call->n + LANES - 1) / LANES);
}
