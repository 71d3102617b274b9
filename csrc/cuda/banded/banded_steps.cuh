/* banded_steps.cuh: the steps of elimination and substitution of banded_tiles.cuh, which defines the sizes: a thread
 * has the rows that a step changes in registers. */

__device__ inline void exchange_if(bool here, Element &x, Element &y) {
    const Element was = x;
    x = here ? y : x;
    y = here ? was : y;
}

/* An element of the lower triangle, from the diagonals that are given: in the form UPPER those of the conjugate. */
__device__ inline Element of_lower(Element x) { return DEFINITE && UPPER ? conjugate(x) : x; }

/* --- elimination --- */

/* Rows j to j + REACH - 1 before step j, from column j on; of positive definite matrices their lower triangle. */
struct State {
    Element a[max_of(REACH, 1)][max_of(BEYOND, 1)], y[max_of(REACH, 1)][COLUMNS];

    __host__ __device__ static constexpr bool has(int t, int s) { return !DEFINITE || s <= t; }
    __host__ __device__ static constexpr int count() {
        int numbers = REACH * COLUMNS;
        for (int t = 0; t < REACH; t++)
            for (int s = 0; s < BEYOND; s++) numbers += has(t, s);
        return numbers;
    }
    /* Gives `each` all numbers, one after the other. */
    template <class Each> __device__ void for_all(Each each) {
        int place = 0;
#pragma unroll
        for (int t = 0; t < REACH; t++) {
#pragma unroll
            for (int s = 0; s < BEYOND; s++)
                if (has(t, s)) each(place++, a[t][s]);
#pragma unroll
            for (int c = 0; c < COLUMNS; c++) each(place++, y[t][c]);
        }
    }
};

/* What one step has: the state with the row that comes in. */
struct Window {
    Element a[REACH + 1][DIAGONALS], y[REACH + 1][COLUMNS];
};

/* Step j. Row 0 of the window becomes one of U and of L^-1 B; if DEFINITE, a column of L, and the diagonal's
 * reciprocal.
 */
__device__ inline void eliminate(Window &w, int j, int &info) {
    if constexpr (TRIDIAGONAL) { /* as LAPACK's gttrf */
        const Element below = w.a[1][0], next = w.a[1][1], after = w.a[1][2], d = w.a[0][0], du = w.a[0][1];
        const bool swap = PIVOTED && size_of(below) > size_of(d);
        const Element pivot = swap ? below : d, u = swap ? next : du, l = quotient_of(swap ? d : below, pivot);
        if (is_useless(pivot) && !info) info = j + 1;
        w.a[0][0] = pivot;
        w.a[0][1] = u;
        w.a[0][2] = swap ? after : element_of(0);
        w.a[1][1] = multiply_subtract(l, u, swap ? du : next);
        w.a[1][2] = swap ? multiply_subtract(l, after, element_of(0)) : after;
#pragma unroll
        for (int c = 0; c < COLUMNS; c++) {
            if (PIVOTED) exchange_if(swap, w.y[0][c], w.y[1][c]);
            w.y[1][c] = multiply_subtract(l, w.y[0][c], w.y[1][c]);
        }
    } else if constexpr (DEFINITE) { /* pbtf2 */
        const T pivot = real_of(w.a[0][0]), r = reciprocal(root(pivot));
        if (!(pivot > 0) && !info) info = j + 1;
        w.a[0][0] = element_of(r);
#pragma unroll
        for (int c = 0; c < COLUMNS; c++) w.y[0][c] = scaled(w.y[0][c], r);
#pragma unroll
        for (int t = 1; t <= REACH; t++) {
            w.a[t][0] = scaled(w.a[t][0], r);
#pragma unroll
            for (int s = 1; s <= t; s++) w.a[t][s] = multiply_subtract(w.a[t][0], conjugate(w.a[s][0]), w.a[t][s]);
#pragma unroll
            for (int c = 0; c < COLUMNS; c++) w.y[t][c] = multiply_subtract(w.a[t][0], w.y[0][c], w.y[t][c]);
        }
#pragma unroll
        for (int t = 1; t <= REACH; t++) w.a[0][t] = w.a[t][0];
    } else { /* gbtf2 */
        T largest = size_of(w.a[0][0]);
        int pivot = 0;
#pragma unroll
        for (int t = 1; t <= REACH; t++) {
            const T size = size_of(w.a[t][0]);
            if (size > largest) largest = size, pivot = t;
        }
#pragma unroll
        for (int t = 1; t <= REACH; t++) {
#pragma unroll
            for (int s = 0; s < DIAGONALS; s++) exchange_if(pivot == t, w.a[0][s], w.a[t][s]);
#pragma unroll
            for (int c = 0; c < COLUMNS; c++) exchange_if(pivot == t, w.y[0][c], w.y[t][c]);
        }
        const ElementDivisor p(w.a[0][0]);
        if (is_useless(w.a[0][0]) && !info) info = j + 1;
#pragma unroll
        for (int t = 1; t <= REACH; t++) {
            const Element l = p.divide(w.a[t][0]);
#pragma unroll
            for (int s = 1; s < DIAGONALS; s++) w.a[t][s] = multiply_subtract(l, w.a[0][s], w.a[t][s]);
#pragma unroll
            for (int c = 0; c < COLUMNS; c++) w.y[t][c] = multiply_subtract(l, w.y[0][c], w.y[t][c]);
        }
    }
}

/* Take in row j + REACH, and do step j. `numbers`, of that row of A and B, become those that step j gives. */
__device__ inline void advance(State &state, Element (&numbers)[TAKEN], int j, int &info) {
    Window w;
#pragma unroll
    for (int t = 0; t <= REACH; t++) {
#pragma unroll
        for (int s = 0; s < DIAGONALS; s++)
            w.a[t][s] = t == REACH ? numbers[s] : s < BEYOND ? state.a[t][s] : element_of(0);
#pragma unroll
        for (int c = 0; c < COLUMNS; c++) w.y[t][c] = t == REACH ? numbers[DIAGONALS + c] : state.y[t][c];
    }
    eliminate(w, j, info);
#pragma unroll
    for (int s = 0; s < DIAGONALS; s++) numbers[s] = w.a[0][s];
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) numbers[DIAGONALS + c] = w.y[0][c];
#pragma unroll
    for (int t = 1; t <= REACH; t++) {
#pragma unroll
        for (int s = 1; s < DIAGONALS; s++) state.a[t - 1][s - 1] = w.a[t][s];
#pragma unroll
        for (int c = 0; c < COLUMNS; c++) state.y[t - 1][c] = w.y[t][c];
    }
}

/* --- substitution --- */

/* The rows of X that come after the next. */
struct Solution {
    Element x[max_of(BEYOND, 1)][COLUMNS];
};

/* From what step j gave: row j of X, in place of that of L^-1 B. `after`: rows that come after it. */
__device__ inline void substitute(Solution &solution, Element (&numbers)[TAKEN], long long after) {
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) {
        Element y = numbers[DIAGONALS + c];
        if constexpr (TRIDIAGONAL) { /* the nearer one first */
            if (after >= 1) y = multiply_subtract(numbers[1], solution.x[0][c], y);
            if (PIVOTED && after >= 2) y = multiply_subtract(numbers[2], solution.x[1][c], y);
            y = quotient_of(y, numbers[0]);
        } else {
#pragma unroll
            for (int s = BEYOND; s >= 1; s--)
                if (s <= after)
                    y = multiply_subtract(DEFINITE ? conjugate(numbers[s]) : numbers[s], solution.x[s - 1][c], y);
            y = DEFINITE ? scaled(y, real_of(numbers[0])) : ElementDivisor(numbers[0]).divide(y);
        }
        numbers[DIAGONALS + c] = y;
#pragma unroll
        for (int s = BEYOND - 1; s >= 1; s--) solution.x[s][c] = solution.x[s - 1][c];
        if (BEYOND > 0) solution.x[0][c] = y;
    }
}
