/* eigh_jacobi.cuh: Jacobi's method for eigh.cuh, as csrc/kernels/spectra/eigh_jacobi.h explains, in registers. Several
 * lanes of a matrix do the same. */

/* As in csrc/kernels/spectra/eigh_jacobi.h. */
constexpr int EIGH_JACOBI_SWEEPS = 30;
constexpr T EIGH_JACOBI_UP = static_cast<T>(DOUBLE ? 0x1p300 : 0x1p36);
constexpr T EIGH_JACOBI_DOWN = static_cast<T>(DOUBLE ? 0x1p-300 : 0x1p-36);
constexpr T EIGH_JACOBI_FLOOR = static_cast<T>(DOUBLE ? 0x1p-1000 : 0x1p-120);
constexpr T EIGH_JACOBI_FAR = static_cast<T>(DOUBLE ? 0x1p100 : 0x1p42);

/* x + Re(conj(y) z) */
__device__ inline T add_dot(T y, T z, T x) { return multiply_add(y, z, x); }
__device__ inline T add_dot(Complex y, Complex z, T x) { return multiply_add(y.im, z.im, multiply_add(y.re, z.re, x)); }

/* Columns p and q, of which these are elements in a row. */
__device__ inline void turn_pair(Element &p, Element &q, T c, Element s) {
    const Element x = p, y = q;
    p = multiply_add(conjugate(s), y, scaled(x, c));
    q = multiply_subtract(s, x, scaled(y, c));
}

template <int N, bool VECTORS> struct Jacobi {
    Element a[N][N], v[VECTORS ? N : 1][N]; /* the upper triangle of A */
    T d[N];

    __device__ Element get(int i, int j) const { return i < j ? a[i][j] : conjugate(a[j][i]); }
    __device__ void put(int i, int j, Element x) {
        if (i < j)
            a[i][j] = x;
        else
            a[j][i] = conjugate(x);
    }

    /* False if a_ij is negligible. */
    __device__ bool rotate(int i, int j) {
        const T above = d[i], below = d[j];
        const Element x = a[i][j], twice = sum_of(x, x);
        const T square = add_dot(twice, twice, T(0));
        if (!(product(square, EIGH_JACOBI_FAR) > fabs(product(above, below)) && square > EIGH_JACOBI_FLOOR))
            return false;
        const T gap = above - below, size = root(multiply_add(gap, gap, square));
        const T outward = gap < 0 ? -size : size;
        T along = multiply_add(T(2.5), outward, product(T(1.5), gap));
        if constexpr (N == 2) {
            const T both = gap + outward, rest = root(multiply_add(both, both, square));
            const T more = quotient_of(square, both + both);
            along = both + (gap < 0 ? -rest : rest);
            d[i] = above + more;
            d[j] = below - more;
            a[i][j] = element_of(0);
        }
        const T back = product(T(2), reciprocal(multiply_add(along, along, square)));
        const T c = multiply_add(-square, back, T(1));
        const Element s = scaled(twice, product(along, back)), two = sum_of(s, s);
        if constexpr (N > 2) {
            const T half = product(T(0.5), gap), l = add_dot(s, x, product(c, half));
            const Element k = multiply_add(-half, s, scaled(x, c));
            d[i] = add_dot(two, k, above);
            d[j] = add_dot(negative(two), k, below);
            a[i][j] = multiply_add(-l, s, scaled(k, c));
        }
#pragma unroll
        for (int r = 0; r < N; r++) {
            if (r != i && r != j) {
                Element p = get(r, i), q = get(r, j);
                turn_pair(p, q, c, s);
                put(r, i, p);
                put(r, j, q);
            }
            if constexpr (VECTORS) turn_pair(v[r][i], v[r][j], c, s);
        }
        return true;
    }

    /* d becomes the eigenvalues; the result: in how many pairs the last sweep had to rotate. */
    __device__ int diagonalise() {
        int rotated = 0;
#pragma unroll 1
        for (int sweep = 0; sweep < EIGH_JACOBI_SWEEPS; sweep++) {
            rotated = 0;
#pragma unroll
            for (int r = 1; r <= N; r++)
#pragma unroll
                for (int i = 0; i < N; i++) {
                    const int j = i < r ? r - i : r + N - i;
                    if (i < j && j < N) rotated += rotate(i, j);
                }
            if (!rotated) break;
        }
        return rotated;
    }
};

/* The upper triangle of A in x, whose diagonal comes to d, becomes V. */
template <int N, bool VECTORS> __device__ inline int diagonalise_by_jacobi(Vectors<N> &x, T (&d)[N]) {
    Jacobi<N, VECTORS> y;
#pragma unroll
    for (int i = 0; i < N; i++) {
#pragma unroll
        for (int j = 0; j < N; j++) {
            if (i <= j) y.a[i][j] = scaled(Element(x.at(i, j)), EIGH_JACOBI_UP);
            if constexpr (VECTORS) y.v[i][j] = element_of(i == j);
        }
        y.d[i] = real_of(y.a[i][i]);
    }
    const int rotated = y.diagonalise();
    sync_lanes(); /* for those who still read A */
#pragma unroll
    for (int j = 0; j < N; j++) {
        if (j % LANES != lane()) continue;
        d[j] = product(y.d[j], EIGH_JACOBI_DOWN);
#pragma unroll
        for (int i = 0; i < N; i++)
            if constexpr (VECTORS) x.at(i, j) = y.v[i][j];
    }
    sync_lanes();
    return rotated;
}
