/* qr_columns_steps.cuh: the factorization of qr_columns.cuh, which defines the sizes, and Q from its reflectors, in
 * registers. */

/* Where tau and v of step k are in shared memory, and after how many elements of a vector; and, IN_LOOPS, where element
 * (i, j) of R and V is. The same registers should make a vector at each step: in loops vectors begin at row k,
 * otherwise at rows divisible by VECTOR. */
__device__ inline int reflector_at(int k) {
    return IN_LOOPS ? k * PITCH + ceil_div(k, VECTOR) * VECTOR : KEPT ? k % KEPT * PITCH + k : 0;
}
__device__ inline int skip_of(int k) { return IN_LOOPS ? 0 : k % VECTOR; }
__device__ inline int place(int i, int j) { return reflector_at(j) - j + i; }
__device__ inline int last_place(int j) { return j * PITCH + PITCH - 1; }

/* v of `rows` rows, tau first, to shared memory and back; element(r) is that of row k + r, of a row above k any. */
template <class Element> __device__ inline void publish(T *v, int skip, int rows, Element element) {
#pragma unroll
    for (int i = 0; i < M + VECTOR; i += VECTOR) {
        if (i >= skip + rows) continue;
        Vector<VECTOR> y;
#pragma unroll
        for (int e = 0; e < VECTOR; e++) y.x[e] = i + e < skip + rows ? element(i + e - skip) : T(0);
        store<VECTOR>(v + i - skip, y);
    }
}
template <class Act> __device__ inline void receive(const T *v, int skip, int rows, Act act) {
#pragma unroll
    for (int i = 0; i < M + VECTOR; i += VECTOR) {
        if (i >= skip + rows) continue;
        const Vector<VECTOR> y = load<VECTOR>(v + i - skip);
#pragma unroll
        for (int e = 0; e < VECTOR; e++)
            if (i + e >= skip && i + e < skip + rows) act(i + e - skip, y.x[e]);
    }
}

/* The reflector of `rows` rows from x[top] on, if that is no case for factor_carefully(), of which `good` tells. */
__device__ inline Reflector reflector(const T (&x)[M], int top, int rows, bool &good) {
    T s[4] = {0, 0, 0, 0};
#pragma unroll
    for (int r = 1; r < M; r++)
        if (r < rows) s[(r - 1) % 4] = multiply_add(x[top + r], x[top + r], s[(r - 1) % 4]);
    const T rest = (s[0] + s[1]) + (s[2] + s[3]), squares = multiply_add(x[top], x[top], rest);
    good = good && is_ordinary(rest, squares);
    return ordinary_reflector_of(x[top], squares);
}

/* Step k. */
__device__ inline void step(ColumnsA &a, T (&tau)[ColumnsA::SLOTS], T *reflectors, int k, bool &good) {
    T *v = reflectors + reflector_at(k), (&x)[M] = a.x[slot_of(k)], y[M], w[ColumnsA::SLOTS], t = 0;
    if (lane() == owner_of(k)) {
        const Reflector h = reflector(x, k, M - k, good);
        tau[slot_of(k)] = t = h.tau;
        x[k] = h.beta;
#pragma unroll
        for (int i = 0; i < M; i++)
            if (i > k) x[i] = product(x[i], h.r);
        if (KEPT && (FORMS_Q || k + 1 < N)) publish(v, skip_of(k), M - k, [&](int r) { return r ? x[k + r] : t; });
    }
    if (k + 1 == N) return;
    const auto keep = [&](int r, T element) { y[r] = element; };
    if (LANES > 1) {
        __syncwarp();
        receive(v, skip_of(k), M - k, keep);
        t = y[0];
    } else {
#pragma unroll
        for (int i = 0; i < M; i++)
            if (i > k) y[i - k] = x[i];
    }
#pragma unroll
    for (int c = 0; c < ColumnsA::SLOTS; c++) {
        if (last_column(c) <= k) continue;
        w[c] = a.x[c][k];
#pragma unroll
        for (int i = 0; i < M; i++)
            if (i > k) w[c] = multiply_add(y[i - k], a.x[c][i], w[c]);
        w[c] = product(t, w[c]);
    }
    if (LANES > 1 && SMM_REFETCH) /* again, rather than to keep it meanwhile */
        receive(v + zero_after(w[ColumnsA::SLOTS - 1]), skip_of(k), M - k, keep);
#pragma unroll
    for (int c = 0; c < ColumnsA::SLOTS; c++)
        if (last_column(c) > k && (first_column(c) > k || column(c) > k)) {
            a.x[c][k] = a.x[c][k] - w[c];
#pragma unroll
            for (int i = 0; i < M; i++)
                if (i > k) a.x[c][i] = multiply_add(-y[i - k], w[c], a.x[c][i]);
        }
}

/* What a row that does not exist holds where a loop counts it, the element of v being 0. Its square vanishes in any
 * sum, its product with 0 is -0, which is neutral even to -0, and it never changes. */
constexpr T NOTHING = -static_cast<T>(DOUBLE ? 0x1p-1074 : 0x1p-149);

/* Step k of the loop from step `first` on: row k + r is x[r]. Columns up to k, whose rows have left, are worked on like
 * the others, to no effect: that is no slower, and their slot needs no branch. */
__device__ inline void step_of_loop(ColumnsA &a, T *reflectors, int first, int k, bool &good) {
    const int rows = M - first, own = slot_of(first);
    T *v = reflectors + reflector_at(k), w[ColumnsA::SLOTS], tau = 0;
    if (lane() == owner_of(k)) {
        const T(&x)[M] = a.x[own];
        bool ordinary = true;
        const Reflector h = reflector(x, 0, rows, ordinary);
        good &= ordinary; /* without a branch */
        publish(v, 0, rows, [&](int r) {
            return r == 0 ? h.tau : r > rows - STEPS && r >= M - k ? T(0) : product(x[r], h.r);
        });
        reflectors[last_place(k)] = h.beta;
    }
    if (first + 1 >= N) return;
    __syncwarp();
#pragma unroll
    for (int c = own; c < ColumnsA::SLOTS; c++) w[c] = a.x[c][0];
    receive(v, 0, rows, [&](int r, T element) {
        if (r == 0) tau = element;
#pragma unroll
        for (int c = own; c < ColumnsA::SLOTS && r; c++) w[c] = multiply_add(element, a.x[c][r], w[c]);
    });
#pragma unroll
    for (int c = own; c < ColumnsA::SLOTS; c++) {
        const int j = column(c);
        w[c] = product(tau, w[c]);
        if ((c > own || j > k) && j < N) reflectors[place(k, j)] = a.x[c][0] - w[c];
    }
    receive(v, 0, rows, [&](int r, T element) { /* again, rather than to keep it meanwhile */
#pragma unroll
                                                for (int c = own; c < ColumnsA::SLOTS && r; c++)
                                                    a.x[c][r - 1] = multiply_add(-element, w[c], a.x[c][r]);
    });
#pragma unroll
    for (int c = own; c < ColumnsA::SLOTS; c++) a.x[c][rows - 1] = NOTHING;
}

/* A becomes R above the reflectors; whether that went well. */
__device__ inline bool factor(ColumnsA &a, T (&tau)[ColumnsA::SLOTS], T *reflectors) {
    constexpr int END = min_of(N, M - 1); /* step M - 1 has nothing to annihilate */
    bool good = true;
#pragma unroll
    for (int first = 0; first < END; first += STEPS) {
        if (!IN_LOOPS) {
            step(a, tau, reflectors, first, good);
            continue;
        }
#pragma unroll 1
        for (int k = first; k < min_of(first + STEPS, END); k++) step_of_loop(a, reflectors, first, k, good);
    }
    if (IN_LOOPS) __syncwarp();
#pragma unroll
    for (int c = 0; c < ColumnsA::SLOTS; c++) {
        const int j = column(c);
        if (IN_LOOPS && j < END) { /* R and tau change places */
            T &r = reflectors[last_place(j)], &t = reflectors[place(j, j)], kept = t;
            t = r;
            r = kept;
        }
        if (END == P || last_column(c) < END || j < END || j >= N) continue;
        T &x = a.x[c][IN_LOOPS ? 0 : END];
        if (j > END) x = x - product(T(0), x); /* 0 of -0 */
        good = is_finite(x) && good;
        if (IN_LOOPS) reflectors[place(END, j)] = x;
        if (j > END) continue;
        tau[c] = 0;
        if (IN_LOOPS || FORMS_Q) reflectors[IN_LOOPS ? last_place(j) : reflector_at(j)] = 0;
    }
    return good;
}

/* The same for all matrices of a warp, columns in memory, with all that is rare: sums of squares that underflow or
 * overflow, nothing to annihilate; and once more from a scaled matrix where products of elements near the largest
 * number overflow, which leaves its mark on the diagonal of R or, right of it, in the last row. */
template <class X> __device__ __noinline__ void factor_carefully(T (*a)[M], T *tau, T *reflectors, MatrixView<X> from) {
    bool overflows = false;
#pragma unroll 1
    for (int turn = 0; turn < 2; turn++) {
        if (turn && !__any_sync(WARP, overflows)) break;
        bool finite = true;
#pragma unroll 1
        for (int c = 0; c < ColumnsA::SLOTS; c++)
#pragma unroll 1
            for (int i = 0; i < M && column(c) < N; i++)
                a[c][i] = product(from.data[i * from.row + column(c) * from.col], overflows ? SCALE_AGAIN : T(1));
#pragma unroll 1
        for (int k = 0; k < P; k++) {
            T *v = KEPT ? reflectors + reflector_at(k) : a[slot_of(k)] + k;
            __syncwarp();
            if (lane() == owner_of(k)) {
                T *x = a[slot_of(k)];
                tau[slot_of(k)] = make_reflector(x + k, 1, M - k);
                finite = finite && is_finite(x[k]);
                for (int i = k + 1; KEPT && i < M; i++) v[i - k] = x[i];
                if (KEPT) v[0] = tau[slot_of(k)];
            }
            __syncwarp();
            const T t = KEPT ? v[0] : tau[slot_of(k)];
#pragma unroll 1
            for (int c = 0; c < ColumnsA::SLOTS; c++)
                if (column(c) > k && column(c) < N) reflect(v, t, a[c] + k, 1, 1, M - k);
        }
#pragma unroll 1
        for (int c = 0; c < ColumnsA::SLOTS; c++)
            if (column(c) >= P && column(c) < N) finite = finite && is_finite(a[c][P - 1]);
        if (turn) break;
        overflows = __ballot_sync(WARP, !finite) & same_matrix();
    }
    __syncwarp();
#pragma unroll 1
    for (int c = 0; c < ColumnsA::SLOTS; c++) {
        const int j = column(c);
        if (IN_LOOPS && j < P) reflectors[last_place(j)] = tau[c];
#pragma unroll 1
        for (int i = 0; i < P && i <= j && j < N; i++) {
            T &to = IN_LOOPS ? reflectors[place(i, j)] : a[c][i];
            to = product(a[c][i], overflows ? SCALE_BACK : T(1));
        }
    }
}

/* Column j of Q = H_0 H_1 ... e_j, from the last reflector that changes it on. Where that makes column j its own
 * w is tau, the rows below it having been -0, and 1 - tau comes on the diagonal. */
__device__ inline void form(ColumnsQ &q, const T *reflectors) {
#pragma unroll
    for (int c = 0; c < ColumnsQ::SLOTS; c++)
#pragma unroll
        for (int i = 0; i < M; i++) q.x[c][i] = column(c) < P ? -T(0) : T(i == column(c));
#pragma unroll
    for (int k = P - 1; k >= 0; k--) {
        T v[M];
        receive(reflectors + reflector_at(k), skip_of(k), M - k, [&](int r, T element) { v[r] = element; });
        const T tau = IN_LOOPS ? reflectors[last_place(k)] : v[0];
#pragma unroll
        for (int c = 0; c < ColumnsQ::SLOTS; c++) {
            if (last_column(c) < k) continue;
            T(&x)[M] = q.x[c];
            T w = 0;
#pragma unroll
            for (int i = 0; i < M; i++)
                if (i > k) w = i == k + 1 ? product(v[i - k], x[i]) : multiply_add(v[i - k], x[i], w);
            const bool own = column(c) == k;
            w = own ? tau : product(tau, w);
            if (first_column(c) >= k || column(c) >= k) {
                x[k] = own ? 1 - tau : -w;
#pragma unroll
                for (int i = 0; i < M; i++)
                    if (i > k) x[i] = multiply_add(-v[i - k], w, x[i]);
            }
        }
    }
}
