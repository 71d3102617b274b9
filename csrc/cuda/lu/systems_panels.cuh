/* systems_panels.cuh: factors and solutions of systems.cuh by all threads of a block, panel by panel (panels.cuh):
 * after the panel each thread takes columns beside it, exchanges their rows, and of U computes those of the panel. */

/* --- division --- */

__device__ __noinline__ Element rare_quotient(Element x, Element p) { return slow_quotient(x, p); }
__device__ __noinline__ void rare_quotients(Element (&x)[ROWS], Element p) {
    for (int r = 0; r < ROWS; r++) x[r] = slow_quotient(x[r], p);
}

/* x / p for many x. */
struct Pivot {
    Element p, inverse;
    bool exact;
    __device__ Pivot(Element p, Element inverse) : p(p), inverse(inverse), exact(is_exact(inverse)) {}
    __device__ explicit Pivot(Element p) : Pivot(p, inverse_of(p)) {}
    __device__ Element divide(Element x) const { return exact ? product(x, inverse) : rare_quotient(x, p); }
    /* Column t of a panel's rows. */
    __device__ void divide(Element (&quotients)[ROWS], const Panel &panel, int t) const {
#pragma unroll
        for (int r = 0; r < ROWS; r++) quotients[r] = product(panel.x[r][t], inverse);
        if (exact) return;
        Element x[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; r++) x[r] = panel.x[r][t];
        rare_quotients(x, p);
#pragma unroll
        for (int r = 0; r < ROWS; r++) quotients[r] = x[r];
    }
};

/* --- factors --- */

/* The columns of a panel become those of L and U. After a pivot that is of no use it goes on: nothing that comes of it
 * is kept. */
__device__ inline void factor_panel(const MatrixWorkspace &o, int first, Outcome &outcome) {
    const int before = first - PANEL;
    Panel panel;
    panel.fetch(o, first, first);
    if (before >= 0)
        panel.subtract([](int) { return false; }, [&](int i) { return o.row(i) + before; },
                       [&](int v, Element(&u)[WIDEST][PANEL]) {
#pragma unroll
                           for (int e = 0; e < WIDEST; e++) load_line(u[e], o.row(before + v * WIDEST + e) + first);
                       });
#pragma unroll
    for (int t = 0; t < PANEL; t++) {
        const int k = first + t;
        if (k >= STEPS) break;
        Element u[PANEL];
        const int p = panel.find(t, k);
        panel.take_row(u, p, k);
        if (!outcome.info && fails(u[t])) outcome = {k + 1, is_zero(u[t])};
        if (threadIdx.x == 0) o.pivot(k) = p;
        Element quotients[ROWS];
        Pivot(divisor_of(u[t])).divide(quotients, panel, t);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            if (panel.place[r] <= k) continue;
            const Element l = panel.x[r][t] = quotients[r];
#pragma unroll
            for (int s = t + 1; s < PANEL; s++) panel.x[r][s] = multiply_subtract(l, u[s], panel.x[r][s]);
        }
    }
    panel.put(o, first);
}

/* A becomes L and U. The outcome is known to the first warp. */
__device__ inline Outcome factor(const MatrixWorkspace &o) {
    Outcome outcome;
    const bool is_first_warp = threadIdx.x < 32;
    if (is_first_warp) factor_panel(o, 0, outcome);
    sync_lanes();
#pragma unroll 1
    for (int first = 0; first < STEPS; first += PANEL) {
        const int rest = first + PANEL, beyond = rest + PANEL;
        for_columns_beside(first, [&](int j) {
            Element x[PANEL];
            exchange_in_column(o, first, j, x);
#pragma unroll
            for (int t = 1; t < PANEL && j > first; t++) {
                if (M < N && first + t >= M) break; /* else a panel with columns after it has all its rows */
                Element l[PANEL];
                load_line(l, o.row(first + t) + first);
#pragma unroll
                for (int s = 0; s < t; s++) x[t] = multiply_subtract(l[s], x[s], x[t]);
            }
            put_in_column(o, first, j, x);
        });
        sync_lanes();
        if (is_first_warp && rest < STEPS)
            factor_panel(o, rest, outcome);
        else if (!is_first_warp && rest < STEPS && beyond < N)
            subtract(
                o, M - rest, N - beyond, [=](int i) { return rest + i; }, [=](int j) { return beyond + j; },
                [&](int i) { return o.row(i) + first; },
                [&](int v, int j, Element(&u)[WIDEST]) {
#pragma unroll
                    for (int e = 0; e < WIDEST; e++) u[e] = o.a(first + v * WIDEST + e, j);
                },
                [](int, int) { return false; });
        sync_lanes();
    }
    return outcome;
}

/* The columns of a panel become those of L. */
__device__ inline void factor_definite_panel(const MatrixWorkspace &o, int first, int &info) {
    const int before = first - PANEL;
    Panel panel;
    panel.fetch(o, first, first);
    if (before >= 0)
        panel.subtract([](int) { return false; }, [&](int i) { return o.row(i) + before; },
                       [&](int v, Element(&u)[WIDEST][PANEL]) {
#pragma unroll
                           for (int c = 0; c < PANEL; c++) {
                               const auto l = load<WIDEST>(o.row(min_of(first + c, N - 1)) + before + v * WIDEST);
#pragma unroll
                               for (int e = 0; e < WIDEST; e++) u[e][c] = conjugate(l.x[e]);
                           }
                       });
#pragma unroll
    for (int t = 0; t < PANEL; t++) {
        const int k = first + t;
        if (k >= N) break;
        /* Column t of the panel's own rows, which the lanes from `first` on have. */
        Element own = panel.x[0][t];
#pragma unroll
        for (int r = 1; r < ROWS; r++) own = select(r == first / 32, panel.x[r][t], own);
        const T pivot = of_thread(real_of(own), k % 32);
        if (!info && !(pivot > 0)) info = k + 1;
        const T length = root(pivot), inverse = reciprocal(length);
        own = scaled(own, inverse);
        Element u[PANEL];
#pragma unroll
        for (int s = t + 1; s < PANEL; s++) u[s] = conjugate(of_thread(own, (first + s) % 32));
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const Element l = scaled(panel.x[r][t], inverse);
            panel.x[r][t] = panel.place[r] == k ? element_of(length) : l;
#pragma unroll
            for (int s = t + 1; s < PANEL; s++) panel.x[r][s] = multiply_subtract(l, u[s], panel.x[r][s]);
        }
    }
    panel.put(o, first);
}

/* The lower triangle of Hermitian A becomes L of A = L L^H. Returns the first step, from 1, whose pivot is not
 * positive; or 0: to the first warp. */
__device__ inline int factor_definite(const MatrixWorkspace &o) {
    int info = 0;
    const bool is_first_warp = threadIdx.x < 32;
    if (is_first_warp) factor_definite_panel(o, 0, info);
    sync_lanes();
#pragma unroll 1
    for (int first = 0; first + PANEL < N; first += PANEL) {
        const int rest = first + PANEL, beyond = rest + PANEL;
        const auto after = [=](int i) { return beyond + i; };
        if (is_first_warp)
            factor_definite_panel(o, rest, info);
        else if (beyond < N)
            subtract(
                o, N - beyond, N - beyond, after, after, [&](int i) { return o.row(i) + first; },
                [&](int v, int j, Element(&u)[WIDEST]) {
                    const auto l = load<WIDEST>(o.row(j) + first + v * WIDEST);
#pragma unroll
                    for (int e = 0; e < WIDEST; e++) u[e] = conjugate(l.x[e]);
                },
                [](int last_row, int first_column) { return last_row < first_column; });
        sync_lanes();
    }
    return info;
}

/* --- solutions --- */

/* Threads stand side by side along rows of X. */
constexpr int SIDE_BY_SIDE = power_of_two(max_of(COLUMNS, 1)), ROWS_AT_ONCE = LANES / SIDE_BY_SIDE;
constexpr int TURNS = ceil_div(N, ROWS_AT_ONCE);

/* X becomes the solution of a triangular system. All lanes have arrived, and have when it ends. */
template <Way WAY, bool UPPER, bool UNIT> __device__ inline void solve_triangle(const MatrixWorkspace &o) {
    Element *const inverses = o.beside;
    const int c = lane() % SIDE_BY_SIDE, down = lane() / SIDE_BY_SIDE;
    if constexpr (!UNIT) {
        for (int j = lane(); j < N; j += LANES) inverses[j] = inverse_of(o.a(j, j));
        sync_lanes();
    }
#pragma unroll 1
    for (int step = 0; step < N; step += PANEL) {
        const int first = UPPER ? (N - 1 - step) / PANEL * PANEL : step, rest = first + PANEL;
        if (down == 0 && c < COLUMNS) {
            Element x[PANEL];
#pragma unroll
            for (int step = 0; step < PANEL; step++) {
                const int t = UPPER ? PANEL - 1 - step : step, j = first + t;
                if (j >= N) continue;
                Element y = o.x(j, c);
#pragma unroll
                for (int before = 0; before < step; before++) {
                    const int s = UPPER ? PANEL - 1 - before : before;
                    if (first + s < N) y = multiply_subtract(element<WAY>(o, j, first + s), x[s], y);
                }
                if constexpr (!UNIT) {
                    const Element inverse = WAY == ADJOINT ? conjugate(inverses[j]) : inverses[j];
                    y = Pivot(element<WAY>(o, j, j), inverse).divide(y);
                }
                o.x(j, c) = x[t] = y;
            }
        }
        sync_lanes();
        Element x[PANEL];
#pragma unroll
        for (int t = 0; t < PANEL; t++) x[t] = c < COLUMNS && first + t < N ? o.x(first + t, c) : element_of(0);
        const int begin = UPPER ? 0 : rest, end = UPPER ? first : N;
#pragma unroll 1
        for (int i = begin + down; i < end; i += ROWS_AT_ONCE) {
            if (c >= COLUMNS) continue;
            Element y = o.x(i, c);
#pragma unroll
            for (int step = 0; step < PANEL; step++) {
                const int t = UPPER ? PANEL - 1 - step : step;
                if (first + t < N) y = multiply_subtract(element<WAY>(o, i, first + t), x[t], y);
            }
            o.x(i, c) = y;
        }
        sync_lanes();
    }
}

/* Rows of X come to their places, or return from there. */
template <bool BACKWARDS> __device__ inline void exchange_rows(const MatrixWorkspace &o) {
    const int c = min_of(lane() % SIDE_BY_SIDE, max_of(COLUMNS, 1) - 1), down = lane() / SIDE_BY_SIDE;
    const bool mine = lane() % SIDE_BY_SIDE < COLUMNS;
    Element x[TURNS];
    find_positions(o);
#pragma unroll
    for (int turn = 0; turn < TURNS; turn++) {
        const int i = min_of(down + turn * ROWS_AT_ONCE, N - 1);
        x[turn] = o.x(BACKWARDS ? o.integers[N + i] : i, c);
    }
    sync_lanes();
#pragma unroll
    for (int turn = 0; turn < TURNS; turn++) {
        const int i = down + turn * ROWS_AT_ONCE;
        if (mine && i < N) o.x(BACKWARDS ? i : o.integers[N + i], c) = x[turn];
    }
    sync_lanes();
}
