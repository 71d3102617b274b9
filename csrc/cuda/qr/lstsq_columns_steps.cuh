/* lstsq_columns_steps.cuh: the factorization of lstsq_columns.cuh, which defines the sizes and what holds the columns.
 */

/* The place of the largest of a matrix, of equals the first, by its leading word unless others have that, too. */
__device__ inline int place_of_largest(Sized x) {
    const int word = leading(x.size);
    int largest = word;
#pragma unroll
    for (int bits = LANES / 2; bits > 0; bits /= 2) largest = max_of(largest, shuffle_xor(largest, bits));
    const unsigned found = __ballot_sync(WARP, word == largest) & same_matrix();
    if (__any_sync(WARP, found & (found - 1))) return largest_of_all(x).place;
    return __shfl_sync(WARP, x.place, __ffs(found) - 1);
}

/* The parts of step k of the loop from step `first` on: row k + r is x[r], of which there are M - k, and a few more
 * that do not exist. First the column whose rest is longest is chosen and goes to g.raw. */
__device__ inline void choose_column(Columns &a, Lines &g, int first, int k) {
    Work &w = g.w;
    const int rows = M - first;
    Sized longest = {-1, N};
#pragma unroll
    for (int c = 0; c < SLOTS; c++)
        if (a.place[c] >= k && a.place[c] < N) longest = larger_of(longest, {a.squares[c], a.place[c]});
    const int place = place_of_largest(longest);
#pragma unroll
    for (int c = 0; c < SLOTS; c++) {
        const bool chosen = a.place[c] == place;
        if (chosen) {
#pragma unroll
            for (int i = 0; i < rows; i += VECTOR) {
                Vector<VECTOR> y;
#pragma unroll
                for (int e = 0; e < VECTOR; e++) y.x[e] = i + e < rows ? a.x[c][min_of(i + e, M - 1)] : NOTHING;
                store<VECTOR>(g.raw + i, y);
            }
        }
        a.place[c] = chosen ? k : a.place[c] == k ? place : a.place[c];
        if (first == 0 && k == 0 && chosen) {
            w.owner[0] = column(c);
            a.place[c] = N;
#pragma unroll
            for (int i = 0; i < M; i++) a.x[c][i] = w.x[i * K];
        }
    }
    __syncwarp();
}

/* Its reflector goes to g.v. */
__device__ inline void make_reflector_of_step(Lines &g, int first, int k) {
    const int rows = M - first, count = M - k;
    T s[4] = {0, 0, 0, 0}, top;
#pragma unroll
    for (int i = 0; i < rows; i += VECTOR) {
        const Vector<VECTOR> y = load<VECTOR>(g.raw + i);
#pragma unroll
        for (int e = 0; e < VECTOR; e++) {
            if (i + e == 0) top = y.x[e];
            if (i + e > 0 && i + e < rows) s[(i + e - 1) % 4] = multiply_add(y.x[e], y.x[e], s[(i + e - 1) % 4]);
        }
    }
    const T rest = (s[0] + s[1]) + (s[2] + s[3]), squares = multiply_add(top, top, rest);
    if (is_ordinary(rest, squares)) {
        const Reflector h = ordinary_reflector_of(top, squares);
#pragma unroll
        for (int r = 0; r < ceil_div(rows, LANES); r++) {
            const int i = r * LANES + lane();
            if (i >= rows) continue;
            const T y = product(g.raw[i], h.r);
            g.v[i] = i == 0 ? h.tau : i < count ? y : T(0);
        }
        if (lane() == 0) g.w.tau[k] = h.beta;
    } else if (lane() == 0) {
#pragma unroll 1
        for (int i = 0; i < rows; i++) g.v[i] = i < count ? g.raw[i] : T(0);
        const T tau = count > 1 ? make_reflector(g.v, 1, count) : T(0);
        g.w.tau[k] = g.v[0];
        g.v[0] = tau;
    }
    __syncwarp();
}

/* It changes the other columns, whose row k is final. */
__device__ inline void reflect_columns_of_step(Columns &a, Lines &g, int first, int k) {
    Work &w = g.w;
    const int rows = M - first, count = M - k;
    T dot[SLOTS], tau;
#pragma unroll
    for (int c = 0; c < SLOTS; c++) dot[c] = a.x[c][0];
#pragma unroll
    for (int i = 0; i < rows; i += VECTOR) {
        const Vector<VECTOR> y = load<VECTOR>(g.v + i);
#pragma unroll
        for (int e = 0; e < VECTOR; e++) {
            if (i + e == 0) tau = y.x[e];
#pragma unroll
            for (int c = 0; c < SLOTS; c++)
                if (i + e > 0 && i + e < rows) dot[c] = multiply_add(y.x[e], a.x[c][i + e], dot[c]);
        }
    }
#pragma unroll
    for (int c = 0; c < SLOTS; c++) {
        dot[c] = product(tau, dot[c]);
        a.squares[c] = 0;
        const T y = a.x[c][0] - dot[c];
        if (a.place[c] < N) w.a[k * PITCH + column(c)] = y; /* also of columns that are done, whose rows nobody reads */
        if (a.place[c] >= N && a.place[c] < N + K) w.x[k * K + a.place[c] - N] = y;
    }
#pragma unroll
    for (int i = 0; i < rows; i += VECTOR) { /* again, rather than to keep it meanwhile */
        const Vector<VECTOR> y = load<VECTOR>(g.v + zero_after(dot[SLOTS - 1]) + i);
#pragma unroll
        for (int e = 0; e < VECTOR; e++) {
            const int r = i + e;
#pragma unroll
            for (int c = 0; c < SLOTS; c++) {
                if (r == 0 || r >= rows) continue;
                T &x = a.x[c][r - 1];
                if (r > rows - STEPS && r >= count) {
                    x = NOTHING;
                } else {
                    x = multiply_add(-y.x[e], dot[c], a.x[c][r]);
                    a.squares[c] = multiply_add(x, x, a.squares[c]);
                }
            }
        }
    }
#pragma unroll
    for (int c = 0; c < SLOTS; c++) a.x[c][rows - 1] = NOTHING;
}

/* A P = Q R, and Q^T to the right-hand sides. g.norms takes the squares of the residuals' norms, if the rank is P. */
__device__ inline void factor_columns(Columns &a, Lines &g) {
    Work &w = g.w;
#pragma unroll
    for (int first = 0; first < P; first += STEPS)
#pragma unroll 1
        for (int k = first; k < min_of(first + STEPS, P); k++) {
            choose_column(a, g, first, k);
            make_reflector_of_step(g, first, k);
            reflect_columns_of_step(a, g, first, k);
        }
#pragma unroll
    for (int c = 0; c < SLOTS; c++) {
        if (a.place[c] < N) w.owner[a.place[c]] = column(c);
        const int side = a.place[c] - N;
        if (side < 0 || side >= K) continue;
        g.norms[side] = a.squares[c];
#pragma unroll
        for (int i = P; i < M; i++) w.x[i * K + side] = a.x[c][i - P];
    }
    __syncwarp();
}
