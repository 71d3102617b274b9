/* ldl.cuh: P A P^T = L D L^T of symmetric A with the pivoting of Bunch and Kaufman (LDL), X of A X = B by it
 * (SOLVE_SYM), or from what LDL gave (LDL_SOLVE); of Hermitian A, L D L^H.
 *
 * The results are those of kernels/ldl_lanes.h. Which rows a step exchanges and how large its block is differs from
 * matrix to matrix, so one thread has a matrix. Its lower triangle is in shared memory; in the form UPPER that is A's
 * upper triangle, with the order of rows and columns turned round.
 *
 * Whoever includes it has Elements (element.cuh), and says how far APART those of a matrix are. */
constexpr bool HERMITIAN = COMPLEX && !(SMM_FORM & 256); /* SMM_SYMMETRIC */
constexpr int N = SMM_N, TRIANGLE = N * (N + 1) / 2;
constexpr bool UPPER = SMM_FORM & 1, FACTORS = SMM_OP != SMM_OP_LDL_SOLVE, SOLVES = SMM_OP != SMM_OP_LDL;
constexpr int ELEMENTS = TRIANGLE + (SOLVES ? N : 0);

__host__ __device__ constexpr int turned(int i) { return UPPER ? N - 1 - i : i; }

/* What a matrix has. */
struct Own {
    Element *elements;
    int *pivots;

    /* i >= j */
    __device__ Element &a(int i, int j) const { return elements[(j * (2 * N - 1 - j) / 2 + i) * APART]; }
    __device__ Element &x(int i) const { return elements[(TRIANGLE + i) * APART]; }
    __device__ int &pivot(int i) const { return pivots[i * APART]; }
};

/* Element (j, i), from (i, j). */
__device__ inline Element mirrored(Element x) { return HERMITIAN ? conjugate(x) : x; }
__device__ inline Element of_diagonal(Element x) { return HERMITIAN ? element_of(real_of(x)) : x; }

/* Of a block of order 2 that begins at column k: the element below its diagonal and that right of it, the elements of
 * its diagonal divided by the one in their column, and its determinant divided by the two beside its diagonal, negated.
 */
struct Block {
    Element below, right, d0, d1, determinant;

    __device__ Block(const Own &o, int k)
        : below(o.a(k + 1, k)), right(mirrored(below)), d0(quotient_of(o.a(k, k), right)),
          d1(quotient_of(o.a(k + 1, k + 1), below)), determinant(multiply_add(d1, d0, negative(element_of(1)))) {}
};

/* The order of the block at step k, 1 or 2, and the row p that comes to its end; 0: the pivot is zero or NaN. */
__device__ inline int choose(const Own &o, int k, int &p) {
    const T alpha = static_cast<T>((1 + 4.1231056256176605498) / 8); /* the square root of 17 */
    T most = 0, row = 0;
    int far = k;
    for (int i = k + 1; i < N; i++) {
        const T size = size_of(o.a(i, k));
        if (size > most) most = size, far = i;
    }
    const T own = size_of(o.a(k, k)), bound = product(alpha, most);
    p = k;
    if (!(own > 0 || most > 0) || own != own) return 0;
    if (own >= bound) return 1;
    for (int j = k; j < N; j++) {
        if (j == far) continue;
        const T size = size_of(j < far ? o.a(far, j) : o.a(j, far));
        row = size > row ? size : row;
    }
    if (own >= product(bound, quotient_of(most, row))) return 1;
    p = far;
    return size_of(o.a(far, far)) >= product(alpha, row) ? 1 : 2;
}

/* The triangle becomes L and D. Returns the first step, from 1, whose block is zero or has NaN; or 0. */
__device__ inline int factor(const Own &o) {
    int info = 0, order;
#pragma unroll 1
    for (int k = 0; k < N; k += order) {
        int p;
        const int chosen = choose(o, k, p), last = chosen == 2 ? k + 1 : k;
        order = last - k + 1;
        if (p != last) {
            for (int i = p + 1; i < N; i++) swap(o.a(i, last), o.a(i, p));
            for (int j = last + 1; j < p; j++) {
                swap(o.a(j, last), o.a(p, j));
                o.a(j, last) = mirrored(o.a(j, last));
                o.a(p, j) = mirrored(o.a(p, j));
            }
            o.a(p, last) = mirrored(o.a(p, last));
            swap(o.a(last, last), o.a(p, p));
            if (last > k) swap(o.a(last, k), o.a(p, k));
        }
        o.pivot(k) = o.pivot(last) = order == 1 ? p + 1 : -(p + 1);
        if (!chosen) {
            if (!info) info = k + 1;
        } else if (order == 1) {
            const Element d = o.a(k, k);
            for (int j = k + 1; j < N; j++) { /* column k is of L above row j */
                const Element l = quotient_of(o.a(j, k), d), right = mirrored(l);
                for (int i = j; i < N; i++) o.a(i, j) = multiply_subtract(o.a(i, k), right, o.a(i, j));
                o.a(j, j) = of_diagonal(o.a(j, j));
                o.a(j, k) = l;
            }
        } else {
            const Block b(o, k);
            const Element inverse = quotient_of(element_of(1), b.determinant);
            const Element scale = quotient_of(inverse, b.right), other = quotient_of(inverse, b.below);
            for (int j = k + 2; j < N; j++) {
                const Element x = o.a(j, k), y = o.a(j, last);
                const Element l0 = product(scale, multiply_add(b.d1, x, negative(y)));
                const Element l1 = product(other, multiply_add(b.d0, y, negative(x)));
                const Element right0 = mirrored(l0), right1 = mirrored(l1);
                for (int i = j; i < N; i++)
                    o.a(i, j) =
                        multiply_subtract(o.a(i, last), right1, multiply_subtract(o.a(i, k), right0, o.a(i, j)));
                o.a(j, j) = of_diagonal(o.a(j, j));
                o.a(j, k) = l0;
                o.a(j, last) = l1;
            }
        }
    }
    return info;
}

__device__ inline int order_of(int pivot) { return pivot > 0 ? 1 : 2; }
__device__ inline int row_of(int pivot) { return (pivot > 0 ? pivot : -pivot) - 1; }

/* B becomes X. */
__device__ inline void solve(const Own &o) {
    int order;
#pragma unroll 1
    for (int k = 0; k < N; k += order) {
        order = order_of(o.pivot(k));
        const int last = k + order - 1;
        swap(o.x(last), o.x(row_of(o.pivot(k))));
        for (int s = k; s <= last; s++)
            for (int i = last + 1; i < N; i++) o.x(i) = multiply_subtract(o.a(i, s), o.x(s), o.x(i));
        if (order == 1) {
            o.x(k) = quotient_of(o.x(k), o.a(k, k));
            continue;
        }
        const Block b(o, k);
        const Element y0 = quotient_of(o.x(k), b.right), y1 = quotient_of(o.x(last), b.below);
        o.x(k) = quotient_of(multiply_add(b.d1, y0, negative(y1)), b.determinant);
        o.x(last) = quotient_of(multiply_add(b.d0, y1, negative(y0)), b.determinant);
    }
    for (int i = 0; i < N; i++) o.x(i) = mirrored(o.x(i)); /* L^T of the conjugate, for L^H */
#pragma unroll 1
    for (int end = N; end > 0; end -= order) {
        order = order_of(o.pivot(end - 1));
        for (int j = end - order; j < end; j++)
            for (int i = end; i < N; i++) o.x(j) = multiply_subtract(o.a(i, j), o.x(i), o.x(j));
        swap(o.x(end - 1), o.x(row_of(o.pivot(end - 1))));
    }
    for (int i = 0; i < N; i++) o.x(i) = mirrored(o.x(i));
}

/* A pivot counts from the other end. 0, which is none, if it is no row. */
__device__ inline int turned_pivot(int p) {
    if (p > N || p < -N || !p) return 0;
    return !UPPER ? p : p > 0 ? N + 1 - p : -(N + 1) - p;
}

/* The first step, from 1 in A's order, whose pivot LDL does not give; or 0. */
__device__ inline int wrong_pivot(const Own &o) {
    int order;
    for (int k = 0; k < N; k += order) {
        order = order_of(o.pivot(k));
        const int row = row_of(o.pivot(k)), last = k + order - 1;
        if (last >= N || row < last || row >= N || o.pivot(last) != o.pivot(k)) return turned(k) + 1;
    }
    return 0;
}

/* All of it. A, B and X, the factors, and pivots, have at(i, j); those that the operation lacks are not asked. The
 * result is info. */
template <class A, class Pivots, class B, class To>
__device__ inline int ldl(const Own &o, A a, Pivots pivots, B b, To to, long long columns) {
    for (int i = 0; i < N; i++) {
        for (int j = 0; j <= i; j++) o.a(i, j) = a.at(turned(i), turned(j));
        o.a(i, i) = of_diagonal(o.a(i, i));
    }
    int info = 0;
    if constexpr (FACTORS) {
        info = factor(o);
        if (info) info = turned(info - 1) + 1;
    } else {
        for (int i = 0; i < N; i++) o.pivot(i) = turned_pivot(pivots.at(turned(i), 0));
        info = -wrong_pivot(o);
    }
    if constexpr (SOLVES) {
        for (long long k = 0; k < columns; k++) {
            for (int i = 0; i < N; i++) o.x(i) = b.at(turned(i), k);
            if (!info) solve(o);
            for (int i = 0; i < N; i++) to.at(turned(i), k) = info ? not_an_element() : o.x(i);
        }
    } else {
        for (int i = 0; i < N; i++) {
            for (int j = 0; j < N; j++)
                to.at(turned(i), turned(j)) = info ? not_an_element() : j <= i ? o.a(i, j) : element_of(0);
            pivots.at(turned(i), 0) = turned_pivot(o.pivot(i));
        }
    }
    return info;
}
