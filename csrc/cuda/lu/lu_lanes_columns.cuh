/* lu_lanes_columns.cuh: the factorization of lu_lanes.cuh: a lane's columns of [A | b] in registers. */

/* What a matrix has in shared memory: its image and N elements each of two lists. */
struct Shared {
    Element *image, *rhs; /* of A and, if it has several columns, of B, then X */
    Element *reciprocals; /* of the pivots */
    Element *right;       /* b, then the solution */
    int *pivots;          /* in its place: the pivots, or the order of the rows where B is to follow */
};

/* What is known of the steps done. */
struct Steps {
    int info = 0;
    unsigned exchanged = 0; /* bit k: step k exchanged rows */

    __device__ void add(int k, int pivot, bool useless) {
        if (useless && !info) info = k + 1;
        exchanged |= (pivot != k) << k;
    }
};

/* The elements of column k below the pivot become multipliers. */
template <int COUNT, class Of> __device__ inline void divide(Element pivot, Element inverse, int first, Of of) {
    if (__builtin_expect(!is_exact(inverse), 0)) {
#pragma unroll
        for (int i = first; i < COUNT; i++) of(i) = slow_quotient(of(i), pivot);
    } else {
#pragma unroll
        for (int i = first; i < COUNT; i++) of(i) = product(of(i), inverse);
    }
}

/* The columns lane() + LANES c of [A | b] in the registers of a lane. What a lane holds beyond them does not matter. */
struct Columns {
    static constexpr int RIGHT = N % LANES, RIGHT_SLOT = N / LANES; /* lane that holds b, and where */
    Element a[N][COLUMNS], inverse[COLUMNS];                        /* of the pivots in these columns */
    int pivots[N], order[N];

    __device__ static int column(int c) { return min_of(lane() + LANES * c, N - 1); }

    /* From or to a matrix in rows of N, by vectors if a lane holds all of it. */
    template <int LENGTH, class X> __device__ void read(const X *from) {
        static_assert(LENGTH == 1 || LANES == 1, "");
#pragma unroll
        for (int e = 0; e < (LANES == 1 ? N * N : 0); e += LENGTH) {
            const Vector<LENGTH, Element> v = load<LENGTH>(from + e);
#pragma unroll
            for (int x = 0; x < LENGTH; x++) a[(e + x) / N][(e + x) % N] = v.x[x];
        }
        if (LANES > 1) read(from, N, 1);
    }
    template <int LENGTH, class X> __device__ void write(X *to) const {
#pragma unroll
        for (int e = 0; e < (LANES == 1 ? N * N : 0); e += LENGTH) {
            Vector<LENGTH, Element> v;
#pragma unroll
            for (int x = 0; x < LENGTH; x++) v.x[x] = a[(e + x) / N][(e + x) % N];
            store<LENGTH>(to + e, v);
        }
        if (LANES > 1) write(to, N, 1);
    }
    template <class X> __device__ void read(const X *from, long long row, long long col) {
#pragma unroll
        for (int i = 0; i < N; i++)
#pragma unroll
            for (int c = 0; c < ceil_div(N, LANES); c++) a[i][c] = from[i * row + column(c) * col];
    }
    template <class X> __device__ void write(X *to, long long row, long long col) const {
#pragma unroll
        for (int i = 0; i < N; i++)
#pragma unroll
            for (int c = 0; c < ceil_div(N, LANES); c++)
                if (lane() + LANES * c < N) to[i * row + column(c) * col] = a[i][c];
    }
    __device__ void set_right(const Element (&b)[N]) {
#pragma unroll
        for (int i = 0; i < N; i++)
            if (lane() == RIGHT || LANES * RIGHT_SLOT >= N) a[i][RIGHT_SLOT] = b[i];
    }

    template <class X> __device__ static void exchange_if(bool condition, X &x, X &y) {
        const X old = x;
        x = select(condition, y, x);
        y = select(condition, old, y);
    }

    __device__ void factor(Steps &steps) {
#pragma unroll
        for (int i = 0; i < N; i++) order[i] = i;
#pragma unroll
        for (int k = 0; k < N; k++) {
            const int slot = k / LANES, owner = k % LANES;
            const bool own = lane() == owner;
            int p = k;
            T most = size_of(a[k][slot]);
#pragma unroll
            for (int i = k + 1; i < N; i++) {
                const T size = size_of(a[i][slot]);
                p = size > most ? i : p;
                most = size > most ? size : most;
            }
            if (k < N - 1) p = from_lane(p, owner);
            pivots[k] = p + FIRST_ROW;
#pragma unroll
            for (int i = k + 1; i < N; i++) {
#pragma unroll
                for (int c = KEEPS ? 0 : slot; c < COLUMNS; c++) exchange_if(i == p, a[k][c], a[i][c]);
                if (SOLVES_AFTER) exchange_if(i == p, order[k], order[i]);
            }
            steps.add(k, p, own && fails(a[k][slot]));
            const Element pivot = divisor_of(a[k][slot]), r = inverse_of(pivot);
            inverse[slot] = select(own, r, inverse[slot]);
            Element m[N];
#pragma unroll
            for (int i = k + 1; i < N; i++) m[i] = a[i][slot];
            divide<N>(pivot, select(own, r, element_of(1)), k + 1, [&](int i) -> Element & { return m[i]; });
#pragma unroll
            for (int i = k + 1; i < N; i++) {
                m[i] = from_lane(m[i], owner);
#pragma unroll
                for (int c = slot; c < COLUMNS; c++) {
                    if (KEEPS && c == slot && own) a[i][c] = m[i];
                    if (c == slot && owner == LANES - 1) continue;
                    const Element less = multiply_subtract(m[i], a[k][c], a[i][c]);
                    if (!KEEPS || c > slot || lane() > owner) a[i][c] = less;
                }
            }
        }
#pragma unroll
        for (int bits = LANES / 2; bits > 0; bits /= 2) {
            const int other = shuffle_xor(steps.info, bits);
            steps.info = steps.info && (!other || steps.info < other) ? steps.info : other;
        }
    }

    /* b becomes U^-1 b, in the lane that has it. */
    __device__ void solve_upper(Element (&b)[N]) const {
        bool rare = false;
#pragma unroll
        for (int i = 0; i < N; i++) b[i] = a[i][RIGHT_SLOT];
#pragma unroll
        for (int c = 0; c < COLUMNS; c++) rare |= lane() + LANES * c < N && !is_exact(inverse[c]);
        if (LANES > 1) rare = __any_sync(WARP, rare);
        const auto here = [](Element x, int owner) { return owner == RIGHT ? x : from_lane(x, owner); };
#pragma unroll
        for (int j = N - 1; j >= 0; j--) {
            const int slot = j / LANES, owner = j % LANES;
            const Element r = here(inverse[slot], owner);
            if (__builtin_expect(rare, 0)) {
                const Element u = here(a[j][slot], owner);
                b[j] = is_exact(r) ? product(b[j], r) : slow_quotient(b[j], u);
            } else
                b[j] = product(b[j], r);
#pragma unroll
            for (int i = 0; i < j; i++) b[i] = multiply_subtract(here(a[i][slot], owner), b[j], b[i]);
        }
    }

    /* Several right-hand sides, in their image, become solutions: each lane takes columns of its own. */
    __device__ void solve(const Shared &of, int info) const {
#pragma unroll 1
        for (Element *b = of.rhs + lane(); b < of.rhs + K; b += LANES) {
            Element x[N], row[N];
#pragma unroll
            for (int i = 0; i < N; i++) {
                const int from = SHARES ? of.pivots[i] : order[i];
                x[i] = INVERTS ? element_of(of.rhs + from == b) : b[from * K];
            }
#pragma unroll
            for (int i = 1; i < N; i++) {
                read_factors(row, of, i, 0);
#pragma unroll
                for (int j = 0; j < i; j++) x[i] = multiply_subtract(row[j], x[j], x[i]);
            }
#pragma unroll
            for (int i = N - 1; i >= 0; i--) {
                read_factors(row, of, i, i);
#pragma unroll
                for (int j = N - 1; j > i; j--) x[i] = multiply_subtract(row[j], x[j], x[i]);
                divide<N>(row[i], SHARES ? of.reciprocals[i] : inverse[SHARES ? 0 : i], N - 1,
                          [&](int) -> Element & { return x[i]; });
                b[i * K] = info ? not_an_element() : x[i];
            }
        }
    }
    /* Row i of the factors, from element `first` on. */
    __device__ void read_factors(Element (&row)[N], const Shared &of, int i, int first) const {
        if constexpr (SHARES) {
            load_row<N, WIDTH>(row, of.image + i * N, first);
        } else {
#pragma unroll
            for (int j = 0; j < N; j++) row[j] = a[i][j];
        }
    }
};
