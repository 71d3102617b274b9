/* jacobi.cuh: one-sided Jacobi rotations of the rows of a triangular factor in shared memory, or of few rows in a
 * thread's registers, as csrc/kernels/spectra/svd_sweeps.h explains: the order of a sweep's rotations, and the angle of
 * each.
 */

/* As in csrc/kernels/svd_sweeps.h. */
constexpr int JACOBI_SWEEPS = 30, JACOBI_MAX = 4;
constexpr T JACOBI_FLOOR = static_cast<T>(DOUBLE ? 0x1p-1000 : 0x1p-120);

/* Where key j goes when keys descend and equal ones stay in order. */
template <int N> __device__ inline int place_of(const T *key, int j) {
    int place = 0;
    EACH(int i = 0; i < N; i++) place += key[i] > key[j] || (i < j && key[i] == key[j]);
    return place;
}

/* The rotation that makes x and y orthogonal, and x the longer, of their products. False if |x^T y| <= tolerance |x|
 * |y| already. */
__device__ inline bool find_rotation(T xx, T yy, T xy, T tolerance, T &c, T &s) {
    const bool y_longer = yy > xx;
    const T longer = y_longer ? yy : xx, shorter = y_longer ? xx : yy, back = reciprocal(longer);
    const T g = product(xy, back), gg = product(g, g);
    if (!(gg > product(tolerance * tolerance, product(shorter, back)) && shorter > JACOBI_FLOOR)) return false;
    const T d = product(longer - shorter, product(back, T(0.5)));
    const T along = d + root(multiply_add(d, d, gg)), scale = reciprocal(root(multiply_add(along, along, gg)));
    const T large = product(along, scale), small = product(g, scale);
    c = y_longer ? small : large;
    s = y_longer ? large : small;
    return true;
}

/* The rows become orthogonal, two by rotate(i, j), which says whether it had to; the result: in how many pairs of the
 * last sweep. The pairs i < j of round r are those of which i + j is r or r + N. */
template <int N, class Rotate> __device__ inline int orthogonalise(Rotate rotate) {
    int rotated = 0;
    for (int sweep = 0; sweep < JACOBI_SWEEPS && N > 1; sweep++) {
        rotated = 0;
        EACH(int round = 1; round <= N; round++) {
            const int r = round % N, first = (r + 1) / 2; /* so many have the sum r */
            EACH(int t = lane(); t < (N + 1) / 2; t += LANES) {
                const int i = t < first ? t : r + 1 + t - first, j = t < first ? r - i : r + N - i;
                if (i < j) rotated += rotate(i, j);
            }
            sync_lanes();
        }
        for (int bits = LANES_OF_WARP / 2; bits > 0; bits /= 2)
            rotated += __shfl_xor_sync(same_matrix(), rotated, bits);
        rotated = join_warps(rotated, [](int x, int y) { return x + y; });
        if (!rotated) break;
    }
    return rotated;
}
