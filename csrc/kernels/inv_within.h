/* inv_within.h: the inverse by Gauss-Jordan elimination, one matrix in the lanes: a column is `vectors` vectors, rows
 * are lanes. Rows are never exchanged: a set of bits says which have not been pivots yet, and rows and columns find
 * their places when the result is stored. Two steps are done per pass over the matrix, which halves loads and stores;
 * the searches for the pivots of INV_STREAMS matrices, which are all latency, run side by side. */
#include <stdalign.h>

/* One matrix under way. */
typedef struct inv_stream {
    T *w;          /* columns, each `vectors` vectors */
    T r1, r2;      /* reciprocals of the pivots of steps k and k + 1 */
    uint32_t free; /* rows that have not been pivots */
    int32_t info;
    unsigned char pivot[SMM_MOST_ORDER]; /* the row of each step */
    unsigned char step[SMM_MOST_ORDER];  /* the step of each row */
} inv_stream;

/* The pivot of step k where the largest is not the only one or NaN is about: rows count in the order that the exchanges
 * of the steps before have brought them into. */
SHARED intptr_t KERNEL(inv_first_pivot)(const T *column, const unsigned char *pivot, intptr_t n, intptr_t k) {
    unsigned char order[SMM_MOST_ORDER] = {0}, place[SMM_MOST_ORDER];
    for (intptr_t i = 0; i < n; i++) order[i] = place[i] = (unsigned char)i;
    for (intptr_t i = 0; i < k; i++) {
        const unsigned char here = order[i], p = pivot[i];
        order[place[p]] = here;
        place[here] = place[p];
        order[i] = p;
        place[p] = (unsigned char)i;
    }
    intptr_t p = order[k];
    for (intptr_t i = k + 1; i < n; i++)
        if (fabs((double)column[order[i]]) > fabs((double)column[p])) p = order[i];
    return p;
}

/* Choose the pivot of step k in a column that is both in x and in s->w; 1 / pivot. */
INLINE T inv_search(inv_stream *s, const vec *x, intptr_t n, intptr_t k, const intptr_t vectors) {
    const T *column = s->w + k * vectors * LANES;
    vec size[SMM_MOST_ORDER / LANES], most = lane_set(0);
    for (intptr_t v = 0; v < vectors; v++) {
        size[v] = lane_select(lane_mask(s->free >> (v * LANES)), lane_abs(x[v]), lane_set(0));
        most = lane_max(size[v], most);
    }
    most = lane_largest(most);
    /* NaN is not less than anything. */
    uint32_t less = 0;
    for (intptr_t v = 0; v < vectors; v++) less |= lane_bits(lane_greater(most, size[v])) << (v * LANES);
    const uint32_t largest = ~less & (~(uint32_t)0 >> (32 - vectors * LANES));
    intptr_t p = __builtin_ctz(largest);
    if (__builtin_expect(largest & (largest - 1), 0)) p = KERNEL(inv_first_pivot)(column, s->pivot, n, k);
    if (column[p] == 0 && !s->info) s->info = (int32_t)(k + 1);
    s->pivot[k] = (unsigned char)p;
    s->step[p] = (unsigned char)k;
    s->free &= ~((uint32_t)1 << p);
    return 1 / column[p];
}

/* Lanes of vector v other than that of row p. */
INLINE mask inv_other_rows(intptr_t p, intptr_t v) { return lane_mask(~(((uint32_t)1 << p) >> (v * LANES))); }

/* a_ij - f_i a_pj, and a_pj itself in row p. */
INLINE vec inv_update(mask others, vec f, vec a_pj, vec a) { return lane_select(others, lane_fnma(a_pj, f, a), a_pj); }

/* Find the pivots of steps k and k + 1, doing step k to column k + 1 for that. */
INLINE void inv_begin(inv_stream *s, intptr_t n, intptr_t k, const intptr_t vectors, const int steps) {
    T *column = s->w + k * vectors * LANES, *next = column + vectors * LANES;
    vec x[SMM_MOST_ORDER / LANES];
    for (intptr_t v = 0; v < vectors; v++) x[v] = lane_load(column + v * LANES);
    s->r1 = inv_search(s, x, n, k, vectors);
    if (steps == 1) return;
    const intptr_t p = s->pivot[k];
    const vec a = lane_mul(lane_set(next[p]), lane_set(s->r1));
    for (intptr_t v = 0; v < vectors; v++) {
        x[v] = inv_update(inv_other_rows(p, v), x[v], a, lane_load(next + v * LANES));
        lane_store(next + v * LANES, x[v]);
    }
    s->r2 = inv_search(s, x, n, k + 1, vectors);
}

/* What steps k and k + 1 do to all columns. */
typedef struct inv_steps {
    intptr_t p1, p2;
    vec r1, r2, f; /* f: that of f1 in row p2 */
    mask others1[SMM_MOST_ORDER / LANES], others2[SMM_MOST_ORDER / LANES];
    vec f1[SMM_MOST_ORDER / LANES], f2[SMM_MOST_ORDER / LANES];
} inv_steps;

/* A column, given its vectors and elements p1 and p2. */
INLINE void inv_column(const inv_steps *s, T *column, const vec *x, vec a1, vec a2, const intptr_t vectors,
                       const int steps) {
    a1 = lane_mul(a1, s->r1);
    a2 = lane_mul(lane_fnma(a1, s->f, a2), s->r2);
    for (intptr_t v = 0; v < vectors; v++) {
        vec y = inv_update(s->others1[v], s->f1[v], a1, x[v]);
        if (steps == 2) y = inv_update(s->others2[v], s->f2[v], a2, y);
        lane_store(column + v * LANES, y);
    }
}

INLINE void inv_columns(const inv_steps *s, T *w, intptr_t first, intptr_t last, const intptr_t vectors,
                        const int steps) {
    for (intptr_t j = first; j < last; j++) {
        T *column = w + j * vectors * LANES;
        vec x[SMM_MOST_ORDER / LANES];
        for (intptr_t v = 0; v < vectors; v++) x[v] = lane_load(column + v * LANES);
        inv_column(s, column, x, lane_set(column[s->p1]), lane_set(column[s->p2]), vectors, steps);
    }
}

/* Steps k and, if there are 2, k + 1. */
INLINE void inv_pass(const inv_stream *x, intptr_t n, intptr_t k, const intptr_t vectors, const int steps) {
    T *column = x->w + k * vectors * LANES, *next = column + (steps - 1) * vectors * LANES;
    inv_steps s = {.p1 = x->pivot[k], .p2 = x->pivot[k + steps - 1], .r1 = lane_set(x->r1), .r2 = lane_set(x->r2)};
    s.f = lane_set(column[s.p2]);
    vec zero[SMM_MOST_ORDER / LANES];
    for (intptr_t v = 0; v < vectors; v++) {
        s.others1[v] = inv_other_rows(s.p1, v);
        s.others2[v] = inv_other_rows(s.p2, v);
        s.f1[v] = lane_load(column + v * LANES);
        s.f2[v] = lane_load(next + v * LANES);
        zero[v] = lane_set(0);
    }
    inv_columns(&s, x->w, k + steps, n, vectors, steps);
    inv_columns(&s, x->w, 0, k, vectors, steps);
    inv_column(&s, column, zero, lane_set(1), zero[0], vectors, steps);
    if (steps == 2)
        for (intptr_t v = 0; v < vectors; v++)
            lane_store(next + v * LANES, inv_update(s.others2[v], s.f2[v], s.r2, zero[v]));
}

enum { INV_STREAMS = 4 };

INLINE void inv_within(const smm_call *call, intptr_t first, intptr_t last, bool cold, const intptr_t vectors) {
    const strides a = strides_of(&call->a), c = strides_of(&call->c);
    const intptr_t n = call->n;
    alignas(vec) T w[INV_STREAMS * SMM_MOST_ORDER * SMM_MOST_ORDER];
    inv_stream streams[INV_STREAMS];
    for (intptr_t q = first; q < last; q += INV_STREAMS) {
        const intptr_t count = least(INV_STREAMS, last - q);
        const T *next = ahead_of(&call->a, q, INV_STREAMS * n * n);
        for (intptr_t l = 0; l < count; l++) {
            inv_stream *s = &streams[l];
            *s = (inv_stream){.w = w + l * n * vectors * LANES, .free = ~(uint32_t)0 >> (32 - n)};
            within_load(s->w, vectors * LANES, (const T *)call->a.data + (q + l) * a.batch, a, n, n);
        }
        intptr_t k = 0;
        for (; k + 1 < n; k += 2) {
            for (intptr_t l = 0; l < count; l++) inv_begin(&streams[l], n, k, vectors, 2);
            for (intptr_t l = 0; l < count; l++) {
                if (cold) prefetch(next + l * a.batch + k * n, 2 * n); /* as much as a pass does of its own */
                inv_pass(&streams[l], n, k, vectors, 2);
            }
        }
        for (intptr_t l = 0; k < n && l < count; l++) {
            inv_begin(&streams[l], n, k, vectors, 1);
            inv_pass(&streams[l], n, k, vectors, 1);
        }
        for (intptr_t l = 0; l < count; l++) {
            const inv_stream *s = &streams[l]; /* row i of w is row step[i], and column step[i] of w is column i */
            within_store((T *)call->c.data + (q + l) * c.batch, c, s->w, vectors * LANES, n, s->step, s->step, s->info);
            if (call->info.data) *(int32_t *)((char *)call->info.data + (q + l) * call->info.batch) = s->info;
        }
    }
}

/* For orders that are too large for `vectors` vectors, not for this kernel. */
INLINE unsigned inv_within_needs(const smm_call *call, intptr_t vectors) {
    return call->n <= vectors * LANES ? 0 : SMM_UNFIT;
}

static void KERNEL(inv_within)(const smm_call *call, intptr_t first, intptr_t last, smm_behind *cold) {
    inv_within(call, first, last, cold, (call->n + LANES - 1) / LANES);
}
