/* inv_panels.cuh: the inverse of a real matrix by all threads of a block, panel by panel, as csrc/reference/inv.c:
 * Gauss-Jordan elimination in place, of the transpose. A step changes all other rows, so what a panel does to the
 * columns beside it comes in two parts: the rows of the panel first, by a thread for each column, which also keeps what
 * a step finds in its own row; then the rows above and below, while the first warp eliminates the next panel.
 *
 * Whoever includes it has panels.cuh, and factor() of systems_columns.cuh. */
#include "inv_singularity.cuh"

/* Beside the matrix: the multipliers of a panel, by rows of the matrix, and those of the panel before; the rows of its
 * pivots as each step finds them; the reciprocals of the pivots. */
__device__ inline Element *multipliers(const MatrixWorkspace &o, int first) {
    return o.beside + first / PANEL % 2 * (N * PANEL);
}
__device__ inline Element *pivot_rows(const MatrixWorkspace &o) { return o.beside + 2 * N * PANEL; }
__device__ inline Element *reciprocals(const MatrixWorkspace &o) { return pivot_rows(o) + PANEL * PITCH; }

__device__ inline void eliminate_panel(const MatrixWorkspace &o, int first, SingularityTest &test) {
    const int before = first - PANEL;
    Panel panel;
    Element f[ROWS][PANEL];
    panel.fetch(o, first, 0);
    if (before >= 0)
        panel.subtract([=](int i) { return i >= before && i < first; },
                       [&](int i) { return multipliers(o, before) + i * PANEL; },
                       [&](int v, Element(&u)[WIDEST][PANEL]) {
#pragma unroll
                           for (int e = 0; e < WIDEST; e++)
                               load_line(u[e], pivot_rows(o) + (v * WIDEST + e) * PITCH + first);
                       });
#pragma unroll
    for (int t = 0; t < PANEL; t++) {
        const int k = first + t;
#pragma unroll
        for (int r = 0; r < ROWS; r++) f[r][t] = 0;
        if (k >= N) continue;
        Element u[PANEL];
        const int p = panel.find(t, k);
        panel.take_row(u, p, k);
        const T inverse = test.invert(u[t]);
        if (threadIdx.x == 0) o.pivot(k) = p, reciprocals(o)[t] = inverse;
        u[t] = 1;
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            f[r][t] = product(panel.x[r][t], inverse);
            panel.x[r][t] = 0;
#pragma unroll
            for (int s = 0; s < PANEL; s++) {
                const Element other = multiply_subtract(f[r][t], u[s], panel.x[r][s]);
                panel.x[r][s] = select(panel.place[r] == k, product(u[s], inverse), other);
            }
        }
    }
    panel.put(o, first);
    panel.put(f, multipliers(o, first), PANEL, PANEL);
}

/* The transpose of A becomes that of the inverse of P A, P the product of the exchanges. All lanes know the result. */
__device__ inline SingularityTest eliminate(const MatrixWorkspace &o) {
    SingularityTest test;
    const bool is_first_warp = threadIdx.x < 32;
    if (is_first_warp) eliminate_panel(o, 0, test);
    sync_lanes();
#pragma unroll 1
    for (int first = 0; first < N; first += PANEL) {
        const Element *const f = multipliers(o, first);
        for_columns_beside(first, [&](int j) {
            Element x[PANEL];
            exchange_in_column(o, first, j, x);
#pragma unroll
            for (int t = 0; t < PANEL; t++) {
                const Element u = pivot_rows(o)[t * PITCH + j] = x[t];
#pragma unroll
                for (int s = 0; s < PANEL; s++)
                    if (s != t && first + s < N) x[s] = multiply_subtract(f[(first + s) * PANEL + t], u, x[s]);
                x[t] = product(u, reciprocals(o)[t]);
            }
            put_in_column(o, first, j, x);
        });
        sync_lanes();
        const int rest = first + PANEL, right = max_of(N - rest, 0), beyond = max_of(right - PANEL, 0);
        if (is_first_warp && right)
            eliminate_panel(o, rest, test);
        else if (!is_first_warp)
            subtract(
                o, first + right, first + beyond, [=](int i) { return i < first ? i : i + PANEL; },
                [=](int j) { return j < first ? j : j + 2 * PANEL; }, [=](int i) { return f + i * PANEL; },
                [&](int v, int j, Element(&u)[WIDEST]) {
#pragma unroll
                    for (int e = 0; e < WIDEST; e++) u[e] = pivot_rows(o)[(v * WIDEST + e) * PITCH + j];
                },
                [](int, int) { return false; });
        sync_lanes();
    }
    test.size = from_lane(test.size, 0);
    test.singular = from_lane(test.singular, 0);
    for (int e = lane(); e < N * N; e += LANES) test.add(o.a(e / N, e % N));
    for (int bits = 16; bits > 0; bits /= 2) test.squares += __shfl_xor_sync(WARP, test.squares, bits);
    test.squares = join_warps(test.squares, [](T x, T y) { return x + y; });
    return test;
}

/* The inverse of A, of which load(transposed) fetches a matrix and says whether a thread saw none but finite elements.
 * All lanes know info. */
template <class Load> __device__ inline Outcome work_out(const MatrixWorkspace &o, Load load) {
    Outcome outcome;
#pragma unroll 1
    for (bool confirmed = false;; confirmed = true) {
        load(true);
        sync_lanes();
        const SingularityTest test = eliminate(o);
        if (confirmed || !test.is_suspect()) {
            find_positions(o);
            outcome.is_nan = isinf(test.size);
            break;
        }
        const bool finite = load(false);
        sync_lanes();
        outcome.info = from_lane(factor(o).info, 0);
        if (true_in_all(finite) && !outcome.info && test.overflowed()) outcome.info = N;
        if (outcome.info) break;
    }
    return outcome;
}
/* Element (i, j) of the result. */
__device__ inline Element result(const MatrixWorkspace &o, int i, int j) { return o.a(j, o.integers[N + i]); }
