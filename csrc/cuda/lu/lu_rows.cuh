/* lu_rows.cuh: LU with partial pivoting by |re| + |im|, the bits of csrc/reference/lu.c. Rows are in registers and are
 * not exchanged.
 *
 * LANES threads share a matrix: row i of A is the registers i / LANES of lane i % LANES. A row knows to which position
 * exchanges would have brought it. The pivot row of step k becomes row k of the matrix's image in shared memory, where
 * the others read it. So the image has the factors in the end. Steps share texts by panels: all of them, each with a
 * text of its own, would be fetched more slowly than they run.
 *
 * Whoever includes it has Elements (element_vectors.cuh), and has defined N, K, MATRICES, and whether it FACTORS,
 * SOLVES or INVERTS, CARRIES a right-hand side, or SOLVES_AFTER the elimination. */
#include "pivots.cuh"
#include "as_lapack.cuh"

constexpr int ROWS = ceil_div(N, LANES); /* of a lane */

/* Rows of whole vectors are an odd number of them apart, so that lanes find theirs in different banks. */
constexpr int WIDTH = widest_of(N), PANEL = SMM_STEPS ? SMM_STEPS : WIDTH;
constexpr int TURNS = SMM_STEPS ? 1 : PANEL; /* steps of a panel in a row in the text */
constexpr int PITCH = N % WIDEST ? N : (N / WIDEST | 1) * WIDEST;
/* The inverse takes the place of the factors, if every lane has at most one of its columns. */
constexpr bool OVER = INVERTS && N <= LANES;
constexpr int IMAGE = ceil_div(N * PITCH, WIDEST) * WIDEST; /* in whole vectors */
constexpr int WIDE_PITCH = OVER ? PITCH : K, RIGHTS = OVER ? 0 : N * K;
constexpr int NUMBERS = ceil_div(IMAGE + RIGHTS + N, WIDEST) * WIDEST; /* of a matrix */

/* What a matrix has in shared memory: A, then its factors; right-hand sides, then X; the inverses of the pivots; and
 * integers: the pivots, and which row of A exchanges would have brought to each position. */
struct Own {
    Element *elements;
    int *pivots;

    __device__ Own(Element *shared, int q)
        : elements(shared + q * NUMBERS), pivots(reinterpret_cast<int *>(shared + MATRICES * NUMBERS) + q * 2 * N) {}
    __device__ Element &a(int i, int j) const { return elements[i * PITCH + j]; }
    __device__ Element &x(int i, int j) const { return elements[(OVER ? 0 : IMAGE) + i * WIDE_PITCH + j]; }
    __device__ Element &inverse(int i) const { return elements[IMAGE + RIGHTS + i]; }
    __device__ int &order(int i) const { return pivots[N + i]; }
};

/* Elements BEGIN .. END of row i of the image. */
template <int BEGIN, int END> __device__ inline void store_in_image(const Element (&x)[N], const Own &o, int i) {
#pragma unroll
    for (int j = BEGIN; j < END; j += WIDTH) {
        Vector<WIDTH, Element> v;
#pragma unroll
        for (int e = 0; e < WIDTH; e++) v.x[e] = x[j + e];
        store<WIDTH>(&o.a(i, j), v);
    }
}

__device__ inline Element by_pivot(Element x, Element inverse, Element pivot) {
    return __builtin_expect(is_exact(inverse), 1) ? product(x, inverse) : slow_quotient(x, pivot);
}

struct Rows {
    Element a[ROWS][N], b[ROWS];
    int position[ROWS];
    int info = 0;
    bool odd = false, singular = false; /* so many exchanges; the first pivot that is of no use is zero */

    __device__ static int row(int r) { return lane() + LANES * r; }
    /* Whether it may be the pivot row of step k. */
    __device__ bool waits(int r, int k) const { return position[r] >= k && position[r] < N; }

    __device__ void read(const Own &o) {
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const int i = least(row(r), N - 1);
            position[r] = row(r);
            load_row<N, WIDTH>(a[r], &o.a(i, 0));
            if (CARRIES) b[r] = o.x(i, 0);
        }
    }

    /* The position of the pivot of step k, among elements x of a column: of the largest magnitude, of equals the first.
     */
    __device__ int choose(int k, const Element (&x)[ROWS]) const {
        /* The leading bits of magnitudes tell, as a rule. */
        unsigned word[ROWS], chosen = 0;
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            word[r] = waits(r, k) ? (leading_bits(size_of(x[r])) & MAGNITUDE_BITS) | (ROW_BITS - position[r]) : 0;
            chosen = max(chosen, word[r]);
        }
        if constexpr (LANES == 32) {
            chosen = __reduce_max_sync(WARP, chosen);
        } else {
#pragma unroll
            for (int bits = 1; bits < LANES; bits *= 2) chosen = max(chosen, across(chosen, bits));
        }
        bool unsure = is_special(chosen);
#pragma unroll
        for (int r = 0; r < ROWS; r++) unsure |= word[r] != chosen && (word[r] | ROW_BITS) == (chosen | ROW_BITS);
        if (__builtin_expect(!__any_sync(WARP, unsure), 1)) return ROW_BITS - (chosen & ROW_BITS);
        T most = -1;
        int p = N;
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            T size = size_of(x[r]);
            if (position[r] == k && isnan(size)) size = static_cast<T>(__longlong_as_double(0x7ff0000000000000));
            if (waits(r, k) && (size > most || (size == most && position[r] < p))) most = size, p = position[r];
        }
#pragma unroll
        for (int bits = 1; bits < LANES; bits *= 2) {
            const T size = across(most, bits);
            const int other = across(p, bits);
            if (size > most || (size == most && other < p)) most = size, p = other;
        }
        return p;
    }

    /* Rows become those of the factors, in the image: from column BEGIN on. The steps of a panel share a text: in each,
     * the registers of the panel move on by one column, so that the pivots' column is the first. */
    template <int BEGIN = 0> __device__ void factor(const Own &o) {
        constexpr int COUNT = least(PANEL, N - BEGIN), REST = BEGIN + COUNT;
        constexpr bool KEEPS = FACTORS || SOLVES_AFTER; /* L */
#pragma unroll TURNS
        for (int t = 0; t < COUNT; t++) {
            const int k = BEGIN + t;
            Element multiplier[ROWS];
#pragma unroll
            for (int r = 0; r < ROWS; r++) multiplier[r] = a[r][BEGIN];
            const int p = choose(k, multiplier);
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                const bool is_pivot = position[r] == p;
                if (is_pivot) {
                    if (KEEPS) store_in_image<0, BEGIN>(a[r], o, k);
#pragma unroll
                    for (int s = 0; s < COUNT; s++)
                        o.a(k, BEGIN + (t + s < COUNT ? t + s : t + s - COUNT)) = a[r][BEGIN + s];
                    store_in_image<REST, N>(a[r], o, k);
                    if (CARRIES) o.x(k, 0) = b[r];
                    if (FACTORS) o.pivots[k] = p;
                    if (SOLVES_AFTER) o.order(k) = row(r);
                }
                position[r] = is_pivot ? k : position[r] == k ? p : position[r];
            }
            odd ^= p != k;
            __syncwarp();
            const Element found = o.a(k, k), pivot = divisor_of(found), inverse = inverse_of(pivot);
            if (!info && fails(found)) info = k + 1, singular = is_zero(found);
            if ((SOLVES || INVERTS) && lane() == 0) o.inverse(k) = inverse;
            /* Rows that have been pivot rows are changed, too, but nobody reads them. */
#pragma unroll
            for (int r = 0; r < ROWS; r++) multiplier[r] = by_pivot(multiplier[r], inverse, pivot);
            forget_memory(); /* or the compiler would hold the whole pivot row in registers */
#pragma unroll
            for (int s = 1; s < COUNT; s++) {
                const bool is_left = t + s < COUNT; /* else of L */
                const Element u = o.a(k, BEGIN + least(t + s, COUNT - 1));
#pragma unroll
                for (int r = 0; r < ROWS; r++) {
                    const Element x = a[r][BEGIN + s];
                    a[r][BEGIN + s - 1] = select(is_left, multiply_subtract(multiplier[r], u, x), x);
                }
            }
#pragma unroll
            for (int r = 0; r < ROWS; r++) a[r][REST - 1] = multiplier[r];
#pragma unroll
            for (int first = REST; first < N; first += WIDTH) {
                const Vector<WIDTH, Element> u = load<WIDTH>(&o.a(k, first));
#pragma unroll
                for (int r = 0; r < ROWS; r++)
#pragma unroll
                    for (int e = 0; e < WIDTH; e++)
                        a[r][first + e] = multiply_subtract(multiplier[r], u.x[e], a[r][first + e]);
            }
#pragma unroll
            for (int r = 0; r < ROWS && CARRIES; r++) b[r] = multiply_subtract(multiplier[r], o.x(k, 0), b[r]);
        }
        if constexpr (REST < N)
            factor<REST>(o);
        else
            __syncwarp();
    }

    /* b becomes U^-1 b. Now row i is that of U. */
    __device__ void solve_upper(const Own &o) {
        Element inverse[ROWS];
        bool rare = false;
        read(o);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            inverse[r] = o.inverse(least(row(r), N - 1));
            rare |= !is_exact(inverse[r]);
        }
        rare = __any_sync(WARP, rare);
#pragma unroll
        for (int j = N - 1; j >= 0; j--) {
            const int slot = j / LANES, owner = j % LANES;
            Element x = product(b[slot], inverse[slot]);
            if (__builtin_expect(rare, 0)) x = by_pivot(b[slot], inverse[slot], o.a(j, j));
            x = from_lane(x, owner);
#pragma unroll
            for (int r = 0; r <= slot; r++) {
                const Element less = multiply_subtract(a[r][j], x, b[r]);
                b[r] = r < slot || lane() < owner ? less : b[r];
            }
            b[slot] = select(lane() == owner, x, b[slot]);
        }
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            if (row(r) < N) o.x(row(r), 0) = b[r];
    }
};
