/* eigh_rows.cuh: what eigh.cuh does to make A tridiagonal, and to form Q, by lanes of a part of a warp that have rows
 * of A, and then columns of Q, in registers: with the same bits, but for signs of zeros. Loops over columns have
 * constant ends, STEP of them for each text. */
#include "columns.cuh"

/* Elements of a row of a reflector v, which is zero above its 1, and of w = tau B v. */
struct alignas(sizeof(Element) < 16 ? 2 * sizeof(Element) : 16) Beside {
    Element v, w;
};
struct Rows {
    Vectors<N> a; /* the triangle in question of A, then reflectors in rows, then Q */
    Element tau[N];
};

/* Row and column k: a reflector, and B = H^H B H of what is right of it and below, k being FROM .. FROM + STEP. */
template <int FROM, class D>
__device__ inline void reduce_column(Rows &x, Element (&a)[OWN][N], Beside *first, Beside *then, int k, D &t) {
    each_own<OWN, FROM>([&](int r, int i) {
        Element mine = a[r][FROM];
#pragma unroll
        for (int j = FROM + 1; j < min_of(FROM + STEP, N); j++) mine = select(j == k, a[r][j], mine);
        if (i >= k && i < N) x.a.at(k, i) = mine;
        if (i == k) t.d[k] = real_of(mine);
    });
    sync_lanes();
    if (k + 1 < N) make_reflector_together(x.a.from(k, k + 1), 1, N - k - 1, x.tau + k);
    Element v[OWN], w[OWN];
    each_own<OWN, FROM>([&](int r, int i) {
        v[r] = i > k + 1 && i < N ? Element(x.a.at(k, i)) : element_of(i == k + 1);
        w[r] = element_of(0);
        if (i == k + 1 && i < N) t.e[k] = real_of(x.a.at(k, i));
        if (i <= k + 1 && i < N) x.a.at(k, i) = v[r];
    });
    sync_lanes();
    if (k + 2 >= N) return;
#pragma unroll
    for (int j = FROM; j < N; j++) {
        const Element other = x.a.at(k, j);
        each_own<OWN, FROM>(
            [&](int r, int i) { w[r] = multiply_add(j > i ? conjugate(a[r][j]) : a[r][j], other, w[r]); });
    }
    const Element tau = x.tau[k];
    each_own<OWN, FROM>([&](int r, int i) {
        w[r] = i > k ? product(tau, w[r]) : element_of(0);
        if (i < N) first[i] = {v[r], w[r]};
    });
    sync_lanes();
    Element dot = element_of(0);
#pragma unroll
    for (int j = FROM; j < N; j++) dot = multiply_add(conjugate(first[j].v), first[j].w, dot);
    const T half = minus_half_of(tau, dot);
    each_own<OWN, FROM>([&](int r, int i) {
        w[r] = multiply_add(half, v[r], w[r]);
        if (i < N) then[i] = {v[r], w[r]};
    });
    sync_lanes();
#pragma unroll
    for (int j = FROM; j < N; j++) {
        const Beside at = then[j];
        each_own<OWN, FROM>([&](int r, int i) {
            Element &b = a[r][j];
            /* Of two elements the one above the diagonal is here, whose v_i w_j comes first. Whether that is row r's v
             * is the same in all lanes, or v is zero in some. */
            const bool above = r * LANES + LANES - 1 <= j, below = r * LANES > j, mirrored = COMPLEX && i > j;
            const Element zero = element_of(0);
            if (!below) b = multiply_subtract(conjugate(above ? v[r] : select(i <= j, v[r], zero)), at.w, b);
            b = multiply_subtract(conjugate(select(mirrored, at.v, w[r])), select(mirrored, w[r], at.v), b);
            if (!above) b = multiply_subtract(conjugate(at.w), below ? v[r] : select(i > j, v[r], zero), b);
            if (i == j) b = element_of(real_of(b));
        });
    }
}
template <int FROM, class D>
__device__ inline void reduce_columns(Rows &x, Element (&a)[OWN][N], Beside *first, Beside *then, D &t) {
#pragma unroll 1
    for (int k = FROM; k < min_of(FROM + STEP, N); k++) reduce_column<FROM>(x, a, first, then, k, t);
    if constexpr (FROM + STEP < N) reduce_columns<FROM + STEP>(x, a, first, then, t);
}

/* T comes to t, and Q takes the place of A. The result undoes the scaling of A, or is NaN where A is not finite. */
template <class D, class A> __device__ inline T reduce_rows(Rows &x, Beside *first, Beside *then, D &t, const A &from) {
    T largest;
    const bool finite = load(x.a, from, largest);
    const T scale = finite ? scale_for(largest) : T(1);
    sync_lanes();
    if (!finite) return not_a_number();
    Element a[OWN][N];
    each_own([&](int r, int i) {
#pragma unroll
        for (int j = 0; j < N; j++) {
            a[r][j] = i < N ? Element(x.a.at(min_of(i, j), max_of(i, j))) : element_of(0);
            if (scale != 1) a[r][j] = scaled(a[r][j], scale);
        }
    });
    sync_lanes();
    reduce_columns<0>(x, a, first, then, t);
    if constexpr (VECTORS) {
        make_unit(a);
        form_columns<N - 1, 1>(a, [&](int k, int i) { return Element(x.a.at(k, i)); }, x.tau);
        sync_lanes();
        each_own([&](int r, int j) {
#pragma unroll
            for (int i = 0; i < N; i++)
                if (j < N) x.a.at(i, j) = a[r][i];
        });
    }
    sync_lanes();
    return reciprocal(scale);
}
