/* inv_panels.cuh: the inverse of a real matrix by all threads of a block, panel by panel, as csrc/reference/inv.c:
 * Gauss-Jordan elimination in place, of the transpose. A step changes all other rows, so what a panel does to the
 * columns beside it comes in two parts: the rows of the panel first, by a thread for each column, which also keeps what
 * a step finds in its own row; then the rows above and below.
 *
 * Whoever includes it has systems_panels.cuh. */
#include "inv_singularity.cuh"

/* Beside the matrix: the multipliers of a panel, by rows of the matrix; the rows of its pivots as each step finds them;
 * the reciprocals of the pivots. */
__device__ inline Element *multipliers(const Own &o) { return o.beside; }
__device__ inline Element *pivot_rows(const Own &o) { return o.beside + N * PANEL; }
__device__ inline Element *reciprocals(const Own &o) { return o.beside + N * PANEL + PANEL * PITCH; }

__device__ inline void eliminate_panel(const Own &o, int first, SingularityTest &doubts) {
    Panel panel;
    Element f[ROWS][PANEL];
    panel.fetch(o, first, 0);
#pragma unroll
    for (int t = 0; t < PANEL; t++) {
        const int k = first + t;
#pragma unroll
        for (int r = 0; r < ROWS; r++) f[r][t] = 0;
        if (k >= N) continue;
        Element u[PANEL];
        const int p = panel.find(t, k);
        panel.take_row(u, p, k);
        const T inverse = doubts.invert(u[t]);
        if (threadIdx.x == 0) o.pivot(k) = p, reciprocals(o)[t] = inverse;
        u[t] = 1;
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const bool own = panel.place[r] == k;
            f[r][t] = product(panel.x[r][t], inverse);
            panel.x[r][t] = 0;
#pragma unroll
            for (int s = 0; s < PANEL; s++)
                panel.x[r][s] = own ? product(u[s], inverse) : multiply_subtract(f[r][t], u[s], panel.x[r][s]);
        }
    }
    panel.put(o, first);
    panel.put(f, multipliers(o), PANEL, PANEL);
}

/* The transpose of A becomes that of the inverse of P A, P the product of the exchanges. All lanes know the result. */
__device__ inline SingularityTest eliminate(const Own &o) {
    SingularityTest doubts;
#pragma unroll 1
    for (int first = 0; first < N; first += PANEL) {
        if (threadIdx.x < 32) eliminate_panel(o, first, doubts);
        wait();
        for_columns_beside(first, [&](int j) {
            exchange_in_column(o, first, j);
            Element x[PANEL];
#pragma unroll
            for (int t = 0; t < PANEL; t++) x[t] = first + t < N ? o.a(first + t, j) : T(0);
#pragma unroll
            for (int t = 0; t < PANEL; t++) {
                const Element u = pivot_rows(o)[t * PITCH + j] = x[t];
#pragma unroll
                for (int s = 0; s < PANEL; s++)
                    if (s != t && first + s < N)
                        x[s] = multiply_subtract(multipliers(o)[(first + s) * PANEL + t], u, x[s]);
                x[t] = product(u, reciprocals(o)[t]);
            }
#pragma unroll
            for (int t = 0; t < PANEL; t++)
                if (first + t < N) o.a(first + t, j) = x[t];
        });
        wait();
        const int others = first + most(N - PANEL - first, 0);
        const auto other = [=](int i) { return i < first ? i : i + PANEL; };
        subtract(
            o, others, others, other, other, [&](int i) { return multipliers(o) + i * PANEL; },
            [&](int v, int j, Element(&u)[WIDEST]) {
#pragma unroll
                for (int e = 0; e < WIDEST; e++) u[e] = pivot_rows(o)[(v * WIDEST + e) * PITCH + j];
            },
            [](int, int) { return false; });
        wait();
    }
    doubts.size = from_lane(doubts.size, 0);
    doubts.singular = from_lane(doubts.singular, 0);
    for (int e = lane(); e < N * N; e += LANES) doubts.add(o.a(e / N, e % N));
    for (int bits = 16; bits > 0; bits /= 2) doubts.squares += __shfl_xor_sync(WARP, doubts.squares, bits);
    doubts.squares = join_warps(doubts.squares, [](T x, T y) { return x + y; });
    return doubts;
}

/* The inverse of A, of which load(transposed) fetches a matrix and says whether a thread saw none but finite elements.
 * All lanes know info. */
template <class Load> __device__ inline Outcome work_out(const Own &o, Load load) {
    Outcome outcome;
#pragma unroll 1
    for (bool settled = false;; settled = true) {
        load(true);
        wait();
        const SingularityTest doubts = eliminate(o);
        if (settled || !doubts.any()) {
            find_places(o);
            outcome.is_nan = isinf(doubts.size);
            break;
        }
        const bool finite = load(false);
        wait();
        outcome.info = from_lane(factor(o).info, 0);
        if (true_in_all(finite) && !outcome.info && doubts.overflowed()) outcome.info = N;
        if (outcome.info) break;
    }
    return outcome;
}
/* Element (i, j) of the result. */
__device__ inline Element result(const Own &o, int i, int j) { return o.a(j, o.integers[N + i]); }
