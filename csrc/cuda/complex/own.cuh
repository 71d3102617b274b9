/* own.cuh: what a matrix of complex numbers has in shared memory: its N rows, those of COLUMNS right-hand sides, and
 * N integers. LANES threads work on it: lane l on rows l, l + LANES, ... The texts define N and COLUMNS first. */

constexpr int PITCH = pitch_of(N), WIDE_PITCH = COLUMNS ? pitch_of(COLUMNS) : 0;
constexpr int NUMBERS = N * (PITCH + WIDE_PITCH);

struct Own {
    Number *numbers;
    int *pivots;

    __device__ Number &a(int i, int j) const { return numbers[i * PITCH + j]; }
    __device__ Number &x(int i, int j) const { return numbers[N * PITCH + i * WIDE_PITCH + j]; }
};

/* The first row from k on that is this lane's. */
__device__ inline int own_row(int k) { return k + ((lane() - k) & (LANES - 1)); }

/* The lower triangle of Hermitian A becomes L of A = L L^H. Returns the first step, from 1, whose pivot is not
 * positive; or 0. */
__device__ inline int factor_definite(const Own &o) {
    int info = 0;
#pragma unroll 1
    for (int j = 0; j < N; j++) {
        const T pivot = o.a(j, j).re;
        if (!info && !(pivot > 0)) info = j + 1;
        const T length = root(pivot), r = reciprocal(length);
        __syncwarp();
        if (own_row(j) == j) o.a(j, j) = {length, 0};
        for (int i = own_row(j + 1); i < N; i += LANES) o.a(i, j) = scaled(o.a(i, j), r);
        __syncwarp();
        for (int i = own_row(j + 1); i < N; i += LANES) {
            const Number l = o.a(i, j);
            for (int k = j + 1; k <= i; k++) o.a(i, k) = multiply_subtract(l, conjugate(o.a(k, j)), o.a(i, k));
        }
        __syncwarp();
    }
    return info;
}

/* How a triangle lies in A: as it is, transposed, or transposed and conjugated. */
enum Way { PLAIN, TRANSPOSED, ADJOINT };
template <Way WAY> __device__ inline Number element(const Own &o, int i, int j) {
    return WAY == PLAIN ? o.a(i, j) : WAY == TRANSPOSED ? o.a(j, i) : conjugate(o.a(j, i));
}

/* X becomes the solution of a triangular system. All lanes have arrived, and have when it ends. */
template <Way WAY, bool UPPER, bool UNIT> __device__ inline void solve_triangle(const Own &o) {
#pragma unroll 1
    for (int step = 0; step < N; step++) {
        const int j = UPPER ? N - 1 - step : step;
        if constexpr (!UNIT) {
            const NumberDivisor d(element<WAY>(o, j, j));
            for (int c = lane(); c < COLUMNS; c += LANES) o.x(j, c) = d.divide(o.x(j, c));
            __syncwarp();
        }
        for (int i = own_row(UPPER ? 0 : j + 1); i < (UPPER ? j : N); i += LANES) {
            const Number l = element<WAY>(o, i, j);
            for (int c = 0; c < COLUMNS; c++) o.x(i, c) = multiply_subtract(l, o.x(j, c), o.x(i, c));
        }
        __syncwarp();
    }
}
