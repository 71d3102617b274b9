/* ldl.cuh: P A P^T = L D L^T of symmetric A with the pivoting of Bunch and Kaufman (LDL), X of A X = B by it
 * (SOLVE_SYM), or from what LDL gave (LDL_SOLVE); of Hermitian A, L D L^H.
 *
 * The results are those of kernels/ldl_lanes.h. LANES threads have a matrix, whose lower triangle is in shared memory;
 * in the form UPPER that is A's upper triangle, with rows and columns in reverse order. Which rows a step
 * exchanges and how large its block is differs from matrix to matrix, so the matrices of a warp may be at different
 * columns. Their threads take all steps together, until the last matrix is done. A block of more threads has one.
 *
 * Whoever includes it has Elements (element.cuh). */
constexpr bool HERMITIAN = COMPLEX && !(SMM_FORM & 256); /* SMM_SYMMETRIC */
constexpr int N = SMM_N, TRIANGLE = N * (N + 1) / 2;
constexpr bool UPPER = SMM_FORM & 1, FACTORS = SMM_OP != SMM_OP_LDL_SOLVE, SOLVES = SMM_OP != SMM_OP_LDL;
constexpr int COLUMNS = SOLVES ? min_of(max_of(SMM_K, 1), LANES) : 0; /* of right-hand sides, at a time */

/* The triangle; beside it first the columns of a step, then right-hand sides. An odd number of times LANES elements,
 * with the pivots, so that the matrices of a warp lie in different banks. */
constexpr int OF_STEP = FACTORS ? 2 * N : 0, OF_RHS = N * COLUMNS;
constexpr int BESIDE = max_of(OF_STEP, OF_RHS), OF_PIVOTS = ceil_div(N * sizeof(int), sizeof(Element));
constexpr int ELEMENTS = elements_apart(TRIANGLE + BESIDE + OF_PIVOTS, sizeof(Element)) - OF_PIVOTS;

struct Work {
    Element elements[ELEMENTS];
    int pivots[OF_PIVOTS * sizeof(Element) / sizeof(int)];

    /* i >= j */
    __device__ Element *row(int i) { return elements + (static_cast<unsigned>(i * (i + 1)) >> 1); }
    __device__ Element &a(int i, int j) { return row(i)[j]; }
    /* Column `second` of L of a step's block. */
    __device__ Element &l(int second, int j) { return elements[TRIANGLE + second * N + j]; }
    __device__ Element &x(int i, int column) { return elements[TRIANGLE + i * COLUMNS + column]; }
};

/* All threads of the warp, or of the block. */
__device__ inline void wait_together() {
    if constexpr (BY_BLOCK)
        sync_lanes();
    else
        __syncwarp();
}
__device__ inline bool true_in_any(bool x) { return BY_BLOCK ? x : __any_sync(WARP, x); } /* of a block's one matrix */

/* Element (j, i), from (i, j). */
__device__ inline Element mirrored(Element x) { return HERMITIAN ? conjugate(x) : x; }
__device__ inline Element of_diagonal(Element x) { return HERMITIAN ? element_of(real_of(x)) : x; }

/* Of a block of order 2 that begins at column k: the element below its diagonal and that right of it, the elements of
 * its diagonal divided by the one in their column, and its determinant divided by the two beside its diagonal, negated.
 */
struct Block {
    Element below, right, d0, d1, determinant;

    __device__ Block(Work &w, int k)
        : below(w.a(k + 1, k)), right(mirrored(below)), d0(quotient_of(w.a(k, k), right)),
          d1(quotient_of(w.a(k + 1, k + 1), below)), determinant(multiply_add(d1, d0, negative(element_of(1)))) {}
};

/* The order of the block at step k, 1 or 2, and the row p that comes to its end; 0: the pivot is useless or NaN, or k
 * is beyond the last column. */
__device__ inline int choose(Work &w, int k, int &p) {
    const T alpha = static_cast<T>((1 + 4.1231056256176605498) / 8); /* the square root of 17 */
    T most = 0, row = 0;
    int far = k, order = 1;
#pragma unroll 1
    for (int i = k + 1 + lane(); i < N; i += LANES) {
        const T size = size_of(w.a(i, k));
        if (size > most) most = size, far = i;
    }
#pragma unroll
    for (int bits = LANES_OF_WARP / 2; bits > 0; bits /= 2) {
        const T size = shuffle_xor(most, bits);
        const int i = shuffle_xor(far, bits);
        if (size > most || (size == most && i < far)) most = size, far = i;
    }
    const Sized found = join_warps(Sized{most, far}, larger_of);
    most = found.size, far = found.place;
    const T own = k < N ? size_of(w.a(k, k)) : T(0), bound = product(alpha, most);
    const bool unsure = own == own && !(own >= bound);
    p = k;
    if (true_in_any(unsure)) {
#pragma unroll 1
        for (int j = k + lane(); unsure && j < N; j += LANES) {
            if (j == far) continue;
            const T size = size_of(j < far ? w.a(far, j) : w.a(j, far));
            row = size > row ? size : row;
        }
        const auto larger = [](T x, T y) { return y > x ? y : x; };
#pragma unroll
        for (int bits = LANES_OF_WARP / 2; bits > 0; bits /= 2) row = larger(row, shuffle_xor(row, bits));
        row = join_warps(row, larger);
        if (unsure && !(own >= product(bound, quotient_of(most, row)))) {
            p = far;
            order = size_of(w.a(far, far)) >= product(alpha, row) ? 1 : 2;
        }
    }
    const T pivot = order == 2 ? most : k < N ? size_of(w.a(p, p)) : T(0);
    if (pivot == pivot && !is_useless(pivot)) return order;
    p = k;
    return 0;
}

/* Exchange rows and columns p and `last`, the end of the block at column k. */
__device__ inline void exchange(Work &w, int k, int last, int p) {
#pragma unroll 1
    for (int i = last + lane(); i < N; i += LANES) {
        if (i == p) {
            w.a(p, last) = mirrored(w.a(p, last));
            if (last > k) swap(w.a(last, k), w.a(p, k));
            continue;
        }
        Element &x = w.a(i, last), &y = i == last ? w.a(p, p) : i < p ? w.a(p, i) : w.a(i, p);
        const bool crosses = last < i && i < p;
        const Element was = x;
        x = crosses ? mirrored(y) : y;
        y = crosses ? mirrored(was) : was;
    }
}

/* Rows of L in the columns k .. last of a block, beside the triangle. */
__device__ inline void divide(Work &w, int k, int last) {
    if (last == k) {
        const Element d = w.a(k, k);
#pragma unroll 1
        for (int i = last + 1 + lane(); i < N; i += LANES) w.l(0, i) = quotient_of(w.a(i, k), d);
    } else {
        const Block b(w, k);
        const Element inverse = quotient_of(element_of(1), b.determinant);
        const Element scale = quotient_of(inverse, b.right), other = quotient_of(inverse, b.below);
#pragma unroll 1
        for (int i = last + 1 + lane(); i < N; i += LANES) {
            const Element x = w.a(i, k), y = w.a(i, last);
            w.l(0, i) = product(scale, multiply_add(b.d1, x, negative(y)));
            w.l(1, i) = product(other, multiply_add(b.d0, y, negative(x)));
        }
    }
}

/* What the block gives is subtracted from the rows below, and L takes its place. */
__device__ inline void subtract(Work &w, int k, int last) {
    constexpr int CHUNK = COMPLEX ? 2 : 4; /* elements on their way at a time */
    const bool two = last > k;
#pragma unroll 1
    for (int i = last + 1 + lane(); i < N; i += LANES) {
        Element *const row = w.row(i);
        const Element x = row[k], y = row[last];
#pragma unroll 1
        for (int first = last + 1; first <= i; first += CHUNK) {
            Element z[CHUNK];
#pragma unroll
            for (int e = 0; e < CHUNK; e++)
                if (first + e <= i) z[e] = multiply_subtract(x, mirrored(w.l(0, first + e)), row[first + e]);
            if (two)
#pragma unroll
                for (int e = 0; e < CHUNK; e++)
                    if (first + e <= i) z[e] = multiply_subtract(y, mirrored(w.l(1, first + e)), z[e]);
#pragma unroll
            for (int e = 0; e < CHUNK; e++)
                if (first + e <= i) row[first + e] = z[e];
        }
        row[i] = of_diagonal(row[i]);
        row[k] = w.l(0, i);
        if (two) row[last] = w.l(1, i);
    }
}

/* The triangle becomes L and D. Returns the first step, from 1, whose pivot is useless or NaN; or 0. */
__device__ inline int factor(Work &w) {
    int info = 0, p;
#pragma unroll 1
    for (int k = 0; true_in_any(k < N);) {
        const int order = choose(w, k, p), last = order == 2 ? k + 1 : k;
        wait_together();
        if (p != last) exchange(w, k, last, p);
        if (lane() == 0 && k < N) w.pivots[k] = w.pivots[last] = order == 2 ? -(p + 1) : p + 1;
        if (!order && k < N && !info) info = k + 1;
        wait_together();
        if (order) divide(w, k, last);
        wait_together();
        if (order) subtract(w, k, last);
        wait_together();
        k = last + 1;
    }
    return info;
}

__device__ inline int order_of(int pivot) { return pivot > 0 ? 1 : 2; }
__device__ inline int row_of(int pivot) { return (pivot > 0 ? pivot : -pivot) - 1; }

/* B becomes the conjugate of X if A is Hermitian, else X. */
__device__ inline void solve(Work &w) {
    unsigned ends[ceil_div(N, 32)] = {}; /* bit i: row i ends a block of order 2 */
    const auto word = [](int i) { return N > 32 ? i / 32 : 0; };
    const auto is_end = [&](int i) { return ends[word(i)] >> i % 32 & 1; };
#pragma unroll 1
    for (int k = 0; true_in_any(k < N);) {
        int last = N;
        if (k < N) {
            const int pivot = w.pivots[k];
            last = k + order_of(pivot) - 1;
            for (int c = lane(); c < COLUMNS; c += LANES) swap(w.x(last, c), w.x(row_of(pivot), c));
        }
        wait_together();
#pragma unroll 1
        for (int e = lane(); e < (N - 1 - last) * COLUMNS; e += LANES) {
            const int i = last + 1 + e / COLUMNS, c = e % COLUMNS;
            Element x = multiply_subtract(w.a(i, k), w.x(k, c), w.x(i, c));
            if (last > k) x = multiply_subtract(w.a(i, last), w.x(last, c), x);
            w.x(i, c) = x;
        }
        if (last > k) ends[word(last)] |= 1u << last % 32;
        wait_together();
        k = last + 1;
    }
#pragma unroll 1
    for (int e = lane(); e < N * COLUMNS; e += LANES) {
        const int i = e / COLUMNS, c = e % COLUMNS;
        if (is_end(i)) continue;
        if (i + 1 < N && is_end(i + 1)) {
            const Block b(w, i);
            const Element y0 = quotient_of(w.x(i, c), b.right), y1 = quotient_of(w.x(i + 1, c), b.below);
            w.x(i, c) = quotient_of(multiply_add(b.d1, y0, negative(y1)), b.determinant);
            w.x(i + 1, c) = quotient_of(multiply_add(b.d0, y1, negative(y0)), b.determinant);
        } else {
            w.x(i, c) = quotient_of(w.x(i, c), w.a(i, i));
        }
    }
    wait_together();
    for (int c = lane(); c < COLUMNS; c += LANES) /* each sum waits for the one before: a lane has whole columns */
#pragma unroll 1
        for (int end = N; end > 0;) {
            const int pivot = w.pivots[end - 1], begin = end - order_of(pivot);
            for (int j = begin; j < end; j++) {
                Element sum = mirrored(w.x(j, c)); /* L^T of the conjugate, for L^H */
#pragma unroll 4
                for (int i = end; i < N; i++) sum = multiply_subtract(w.a(i, j), w.x(i, c), sum);
                w.x(j, c) = sum;
            }
            swap(w.x(end - 1, c), w.x(row_of(pivot), c));
            end = begin;
        }
    wait_together();
}

/* A pivot counts from the other end. 0, which is none, if it is no row. */
__device__ inline int reversed(int i) { return UPPER ? N - 1 - i : i; }
__device__ inline int reversed_pivot(int p) {
    if (p > N || p < -N || !p) return 0;
    return !UPPER ? p : p > 0 ? N + 1 - p : -(N + 1) - p;
}

/* The first step, from 1 in A's order, whose pivot LDL does not give; or 0. */
__device__ inline int wrong_pivot(const int *pivots) {
    int order;
    for (int k = 0; k < N; k += order) {
        order = order_of(pivots[k]);
        const int row = row_of(pivots[k]), last = k + order - 1;
        if (last >= N || row < last || row >= N || pivots[last] != pivots[k]) return reversed(k) + 1;
    }
    return 0;
}

/* The triangle, of which some elements are on their way at a time. */
template <class A> __device__ inline void load(Work &w, A a) {
    constexpr int COUNT = COMPLEX ? 4 : 8;
#pragma unroll 1
    for (unsigned first = lane(); first < N * N; first += COUNT * LANES) {
        Element x[COUNT];
#pragma unroll
        for (int t = 0; t < COUNT; t++) {
            const unsigned e = first + t * LANES;
            const int i = e / N, j = e % N;
            if (i < N && j <= i) x[t] = a.at(reversed(i), reversed(j));
        }
#pragma unroll
        for (int t = 0; t < COUNT; t++) {
            const unsigned e = first + t * LANES;
            const int i = e / N, j = e % N;
            if (i < N && j <= i) w.a(i, j) = i == j ? of_diagonal(x[t]) : x[t];
        }
    }
}

/* All of it. A, B and X, the factors, and pivots, have at(i, j); those that the operation lacks are not asked. The
 * result is info. */
template <class A, class Pivots, class B, class To>
__device__ inline int ldl(Work &w, A a, Pivots pivots, B b, To to, long long columns) {
    load(w, a);
    int info = 0;
    if constexpr (FACTORS) {
        wait_together();
        info = factor(w);
        if (info) info = reversed(info - 1) + 1;
    } else {
        for (int i = lane(); i < N; i += LANES) w.pivots[i] = reversed_pivot(pivots.at(reversed(i), 0));
        wait_together();
        info = -wrong_pivot(w.pivots);
        wait_together();
        for (int i = lane(); info && i < N; i += LANES) w.pivots[i] = i + 1; /* rows there are */
    }
    if constexpr (SOLVES) {
#pragma unroll 1
        for (long long column = 0; column < columns; column += COLUMNS) {
            for (int e = lane(); e < N * COLUMNS; e += LANES) {
                const int i = e / COLUMNS, c = e % COLUMNS;
                w.x(i, c) = column + c < columns ? Element(b.at(reversed(i), column + c)) : element_of(0);
            }
            wait_together();
            solve(w);
            for (int e = lane(); e < N * COLUMNS; e += LANES) {
                const int i = e / COLUMNS, c = e % COLUMNS;
                if (column + c < columns)
                    to.at(reversed(i), column + c) = info ? not_an_element() : mirrored(w.x(i, c));
            }
            wait_together();
        }
    } else {
        for (int e = lane(); e < N * N; e += LANES) {
            const int i = e / N, j = e % N;
            to.at(reversed(i), reversed(j)) = info ? not_an_element() : j <= i ? w.a(i, j) : element_of(0);
        }
        for (int i = lane(); i < N; i += LANES) pivots.at(reversed(i), 0) = reversed_pivot(w.pivots[i]);
    }
    return info;
}
