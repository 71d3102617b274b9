/* rotations.cuh: matrices of orthonormal columns in shared memory, of reflectors and of the rotations of a sweep: what
 * eigenvectors and right singular vectors have in common. By all lanes of a matrix. */

/* x_i of a few, whatever i is. */
template <class X, int COUNT> __device__ inline X pick(const X (&x)[COUNT], int i) {
    if (!FEW) return x[i];
    X y = x[0];
    EACH(int k = 1; k < COUNT; k++)
        if (k == i) y = x[k];
    return y;
}
/* x_i = y; i is from .. from + count - 1. */
template <class X, int COUNT> __device__ inline void put(X (&x)[COUNT], int i, X y, int from = 0, int count = COUNT) {
    if (!FEW) x[i] = y;
    EACH(int k = from; k < from + count && FEW; k++)
        if (k == i) x[k] = y;
}

/* V = H_0 H_1 ... of order N, of reflectors right of the diagonal in rows, from the last on: rows and columns up to k
 * are still those of I when H_k comes. */
template <int N, int PITCH> __device__ inline void form_vectors(T *a, const T *taus) {
    EACH(int k = N - 2; k >= 0; k--) {
        const T *v = a + k * PITCH, tau = taus[k];
        EACH(int j = k + 2 + lane(); j < N; j += LANES) {
            T w = product(v[k + 2], a[(k + 2) * PITCH + j]);
            EACH(int i = k + 3; i < N; i++) w = multiply_add(v[i], a[i * PITCH + j], w);
            w = product(tau, w);
            a[(k + 1) * PITCH + j] = -w;
            EACH(int i = k + 2; i < N; i++) a[i * PITCH + j] = multiply_add(-v[i], w, a[i * PITCH + j]);
        }
        EACH(int i = k + 1 + lane(); i < N; i += LANES)
            a[i * PITCH + k + 1] = i == k + 1 ? 1 - tau : product(-tau, v[i]);
        wait();
    }
    EACH(int i = lane(); i < N; i += LANES) a[i] = a[i * PITCH] = i == 0;
    wait();
}

/* Columns from .. to of N, of so many rows: i and i + 1 by the rotation (c_i, s_i). */
template <int N, int PITCH, int ROWS>
__device__ inline void rotate_rows(T *a, const T *cs, const T *ss, int from, int to) {
    EACH(int row = lane(); row < ROWS; row += LANES) {
        T *v = a + row * PITCH, left = FEW ? T(0) : v[from];
        EACH(int i = FEW ? 0 : from; i < (FEW ? N - 1 : to); i++) {
            if (FEW && (i < from || i >= to)) continue;
            if (FEW) left = v[i];
            const T right = v[i + 1], c = cs[i], s = ss[i];
            v[i] = multiply_add(s, right, product(c, left));
            left = multiply_add(-s, left, product(c, right));
            if (FEW) v[i + 1] = left;
        }
        if (!FEW) v[to] = left;
    }
}
