/* rotations.cuh: matrices of orthonormal columns in shared memory, of reflectors and of the rotations of a sweep: what
 * eigenvectors and right singular vectors have in common. By all lanes of a matrix. */

/* V = H_0 H_1 ... of order N, of reflectors right of the diagonal in rows, from the last on: rows and columns up to k
 * are still those of I when H_k comes. */
template <int N, int PITCH> __device__ inline void form_vectors(T *a, const T *taus) {
    for (int k = N - 2; k >= 0; k--) {
        const T *v = a + k * PITCH, tau = taus[k];
        for (int j = k + 2 + lane(); j < N; j += LANES) {
            T w = product(v[k + 2], a[(k + 2) * PITCH + j]);
            for (int i = k + 3; i < N; i++) w = multiply_add(v[i], a[i * PITCH + j], w);
            w = product(tau, w);
            a[(k + 1) * PITCH + j] = -w;
            for (int i = k + 2; i < N; i++) a[i * PITCH + j] = multiply_add(-v[i], w, a[i * PITCH + j]);
        }
        for (int i = k + 1 + lane(); i < N; i += LANES)
            a[i * PITCH + k + 1] = i == k + 1 ? 1 - tau : product(-tau, v[i]);
        wait();
    }
    for (int i = lane(); i < N; i += LANES) a[i] = a[i * PITCH] = i == 0;
    wait();
}

/* Columns from .. to of N rows: i and i + 1 by the rotation (c_i, s_i). */
template <int N, int PITCH> __device__ inline void rotate_rows(T *a, const T *cs, const T *ss, int from, int to) {
    for (int row = lane(); row < N; row += LANES) {
        T *v = a + row * PITCH, left = v[from];
        for (int i = from; i < to; i++) {
            const T right = v[i + 1], c = cs[i], s = ss[i];
            v[i] = multiply_add(s, right, product(c, left));
            left = multiply_add(-s, left, product(c, right));
        }
        v[to] = left;
    }
}
