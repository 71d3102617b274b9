/* exchanges.cuh: the row exchanges of LU, as its pivots say, of rows that are spread over the lanes of a matrix: row i
 * is number i / LANES of the ROWS of lane i % LANES. Whoever includes it has N and ROWS, and Elements. */
#include "as_lapack.cuh"

__device__ inline int row_of(int r) { return lane() + LANES * r; }

/* The least number that a lane of the matrix has; or 0, if it is N + 1. */
__device__ inline int first_of(int x) {
#pragma unroll
    for (int bits = LANES / 2; bits > 0; bits /= 2) x = min_of(x, shuffle_xor(x, bits));
    return x > N ? 0 : x;
}

/* Where the exchanges bring each row. Returns the first step, from 1, whose pivot is no row, or one above, and
 * exchanges nothing; or 0. */
__device__ inline int follow(const int *pivots, long long step, int (&position)[ROWS]) {
    int pivot[ROWS], wrong = N + 1;
#pragma unroll
    for (int r = ROWS - 1; r >= 0; r--) {
        position[r] = row_of(r);
        pivot[r] = row_of(r) < N ? pivots[row_of(r) * step] - FIRST_ROW : row_of(r);
        if (row_of(r) < N && (pivot[r] < row_of(r) || pivot[r] >= N)) {
            pivot[r] = row_of(r);
            wrong = row_of(r) + 1;
        }
    }
#pragma unroll
    for (int turn = 0; turn < ROWS; turn++)
#pragma unroll(N > 32 ? 8 : 32)
        for (int l = 0; l < min_of(LANES, N - turn * LANES); l++) {
            const int k = turn * LANES + l, p = from_lane(pivot[turn], l);
#pragma unroll
            for (int r = 0; r < ROWS; r++) position[r] = position[r] == k ? p : position[r] == p ? k : position[r];
        }
    return first_of(wrong);
}

/* Bring each row to its position, or back. */
template <class X> __device__ inline void exchange(X *places, const int (&position)[ROWS], bool back, X (&x)[ROWS]) {
    __syncwarp();
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        if (row_of(r) < N) places[back ? row_of(r) : position[r]] = x[r];
    __syncwarp();
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        if (row_of(r) < N) x[r] = places[back ? position[r] : row_of(r)];
}
