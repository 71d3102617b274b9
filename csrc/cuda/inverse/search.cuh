/* search.cuh: the choice of pivot rows of a matrix by a warp, each of whose threads has a row in registers.
 *
 * Whoever includes this has defined N, row() (which row of the matrix the thread has) and is_row() (whether it has
 * one). */

typedef unsigned char Row; /* of a list of rows */

/* Which row is the next pivot row. */
struct Pivots {
    int step = -1;        /* of which the thread's row was the pivot row; or -1 */
    SingularityTest test; /* the size is that of the thread's pivot */
    unsigned number = threadIdx.x % 32;

    bool found;              /* the pivot row is the thread's */
    int thread;              /* whose it is */
    T inverse;               /* of the thread's element: of the pivot, if found */
    unsigned mask;           /* of the leading bits of the thread's row; 0: it is a pivot row already, or no row */
    unsigned range, closest; /* of a panel: how far a chosen word lies above SMALL; the least distance of another one */

    __device__ Pivots() { number = opaque(number); }

    __device__ void begin_panel() {
        range = 0, closest = ~0u;
        mask = is_row() && step < 0 ? MAGNITUDE_BITS : 0;
    }

    /* Choose among the rows with these elements: of words of leading bits and the thread's number, the largest. Each
     * thread inverts its own while they look for it. */
    __device__ void choose(T x) {
        const unsigned key = (leading_bits(x) & mask) | number;
        const unsigned chosen = __reduce_max_sync(WARP, key);
        inverse = quick_reciprocal(x);
        range = max(range, chosen - SMALL);
        closest = min(closest, chosen - key - 1);
        found = key == chosen;
        thread = chosen & ROW_BITS;
        if (found) mask = 0, test.size = fmax(test.size, fabs(x));
    }
    /* Whether leading bits may not have told which pivot rows a panel has; the same for the whole warp. */
    __device__ bool unsure() const { return __any_sync(WARP, range >= LARGE - SMALL || closest < ROW_BITS); }

    /* The largest magnitude, of equals the first in place. NaN is chosen only if it is in place k. */
    __device__ void choose_by_all_bits(T x, int k, Row *pivot_rows) {
        const int place = mask ? position_of(row(), k, [&](int t) { return pivot_rows[t]; }) : N;
        Search search = {mask && !(isnan(x) && place != k) ? magnitude(x) : 0, place};
#pragma unroll 1
        for (int bits = 16; bits > 0; bits /= 2) search.consider_found(bits);
        found = mask && place == search.first;
        thread = __ffs(__ballot_sync(WARP, found)) - 1;
        combine();
        inverse = reciprocal(search.largest == 0 ? test.min_pivot() : x);
        test.singular |= search.largest == 0;
        if (found) mask = 0, pivot_rows[k] = row(), test.size = fmax(test.size, fabs(x));
        __syncwarp(); /* for the next choice, which reads them */
    }

    /* What the threads know of the matrix. */
    __device__ void combine() {
#pragma unroll
        for (int bits = 16; bits > 0; bits /= 2) {
            test.size = fmax(test.size, shuffle_xor(test.size, bits));
            test.squares += shuffle_xor(test.squares, bits);
        }
    }

    __device__ void list(Row *pivot_rows) const {
        if (step >= 0) pivot_rows[step] = row();
        __syncwarp();
    }
};
