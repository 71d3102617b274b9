/* systems_columns.cuh: factors and solutions of systems.cuh, column by column: by LANES threads of a warp, lane l of
 * which works on rows l, l + LANES, ... */

/* A becomes L and U. After a pivot that is of no use it goes on: nothing that comes of it is kept. */
__device__ inline Outcome factor(const MatrixWorkspace &o) {
    Outcome outcome;
#pragma unroll 1
    for (int k = 0; k < STEPS; k++) {
        Sized found = {-1, M};
        for (int i = own_row(k); i < M; i += LANES) {
            T size = size_of(o.a(i, k));
            if (i == k && isnan(size)) size = static_cast<T>(__longlong_as_double(0x7ff0000000000000));
            if (size > found.size) found = {size, i};
        }
        const int p = largest_of_all(found).place;
        const Element pivot = o.a(p, k);
        if (!outcome.info && fails(pivot)) outcome = {k + 1, is_zero(pivot)};
        sync_lanes();
        if (!lane()) o.pivot(k) = p;
        for (int j = lane(); j < N && p != k; j += LANES) {
            const Element was = o.a(k, j);
            o.a(k, j) = o.a(p, j);
            o.a(p, j) = was;
        }
        sync_lanes();
        const ElementDivisor d(divisor_of(o.a(k, k)));
        for (int i = own_row(k + 1); i < M; i += LANES) {
            const Element l = d.divide(o.a(i, k));
            o.a(i, k) = l;
            for (int j = k + 1; j < N; j++) o.a(i, j) = multiply_subtract(l, o.a(k, j), o.a(i, j));
        }
        sync_lanes();
    }
    return outcome;
}

/* The lower triangle of Hermitian A becomes L of A = L L^H. Returns the first step, from 1, whose pivot is not
 * positive; or 0. */
__device__ inline int factor_definite(const MatrixWorkspace &o) {
    int info = 0;
#pragma unroll 1
    for (int j = 0; j < N; j++) {
        const T pivot = real_of(o.a(j, j));
        if (!info && !(pivot > 0)) info = j + 1;
        const T length = root(pivot), r = reciprocal(length);
        sync_lanes();
        if (own_row(j) == j) o.a(j, j) = element_of(length);
        for (int i = own_row(j + 1); i < N; i += LANES) o.a(i, j) = scaled(o.a(i, j), r);
        sync_lanes();
        for (int i = own_row(j + 1); i < N; i += LANES) {
            const Element l = o.a(i, j);
            for (int k = j + 1; k <= i; k++) o.a(i, k) = multiply_subtract(l, conjugate(o.a(k, j)), o.a(i, k));
        }
        sync_lanes();
    }
    return info;
}

/* X becomes the solution of a triangular system. All lanes have arrived, and have when it ends. */
template <Way WAY, bool UPPER, bool UNIT> __device__ inline void solve_triangle(const MatrixWorkspace &o) {
#pragma unroll 1
    for (int step = 0; step < N; step++) {
        const int j = UPPER ? N - 1 - step : step;
        if constexpr (!UNIT) {
            const ElementDivisor d(element<WAY>(o, j, j));
            for (int c = lane(); c < COLUMNS; c += LANES) o.x(j, c) = d.divide(o.x(j, c));
            sync_lanes();
        }
        for (int i = own_row(UPPER ? 0 : j + 1); i < (UPPER ? j : N); i += LANES) {
            const Element l = element<WAY>(o, i, j);
            for (int c = 0; c < COLUMNS; c++) o.x(i, c) = multiply_subtract(l, o.x(j, c), o.x(i, c));
        }
        sync_lanes();
    }
}

template <bool BACKWARDS> __device__ inline void exchange_rows(const MatrixWorkspace &o) {
    for (int c = lane(); c < COLUMNS; c += LANES)
        for (int step = 0; step < N; step++) {
            const int i = BACKWARDS ? N - 1 - step : step, p = o.pivot(i);
            const Element was = o.x(i, c);
            o.x(i, c) = o.x(p, c);
            o.x(p, c) = was;
        }
    sync_lanes();
}
