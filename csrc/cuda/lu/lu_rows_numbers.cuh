/* lu_rows_numbers.cuh: LU of complex matrices with partial pivoting by |re| + |im| (LU), and what follows from it: X of
 * A X = B (SOLVE), the inverse as that of B = I (INV), and determinants (DET, SLOGDET); the bits of
 * kernels/lu_complex.h. Rows are in registers and are not exchanged.
 *
 * LANES threads share a matrix: row i of A is the registers i / LANES of lane i % LANES. A row knows to which position
 * exchanges would have brought it. The pivot row of step k becomes row k of the matrix's image in shared memory, where
 * the others read it. So the image has the factors in the end, and X follows from them: of one right-hand side, which
 * took part in the elimination, row by row; of several, each by a lane. Steps share texts by panels: all of them, each
 * with a text of its own, would be fetched more slowly than they run.
 *
 * Grid: one block per MATRICES matrices; LANES threads to a matrix; MATRICES * LANES = THREADS.
 * Shared memory: see SharedMatrix; of right-hand sides there are SMM_K at a time.
 * Operands: any that args.h can describe. May overwrite A or B in place, matrix by matrix.
 * Limits: n <= 32; LANES a power of two. */
#include "common.cuh"
#include "lanes.cuh"
#include "element.cuh"
#include "element_vectors.cuh"
#include "pivots.cuh"
#include "as_lapack.cuh"
#include "operand_elements.cuh"
#include "determinant_complex.cuh"

constexpr int N = SMM_N, MATRICES = SMM_MATRICES, THREADS = SMM_THREADS;
constexpr bool FACTORS = SMM_OP == SMM_OP_LU, INVERTS = SMM_OP == SMM_OP_INV, SOLVES = SMM_OP == SMM_OP_SOLVE;
constexpr bool CARRIES = SOLVES && SMM_K == 1, SOLVES_AFTER = INVERTS || (SOLVES && !CARRIES);
constexpr int ROWS = ceil_div(N, LANES); /* of a lane */
constexpr int K = INVERTS ? N : SOLVES ? SMM_K : 0;

/* Rows of whole vectors are an odd number of them apart, so that lanes find theirs in different banks. */
constexpr int WIDTH = widest_of(N), PANEL = SMM_STEPS ? SMM_STEPS : WIDTH;
constexpr int TURNS = SMM_STEPS ? 1 : PANEL; /* steps of a panel in a row in the text */
constexpr int PITCH = N % WIDEST ? N : (N / WIDEST | 1) * WIDEST;
/* The inverse takes the place of the factors, if every lane has at most one of its columns. */
constexpr bool OVER = INVERTS && N <= LANES;
constexpr int IMAGE = ceil_div(N * PITCH, WIDEST) * WIDEST; /* in whole vectors */
constexpr int WIDE_PITCH = OVER ? PITCH : K, RHS = OVER ? 0 : N * K;
constexpr int NUMBERS = ceil_div(IMAGE + RHS + N, WIDEST) * WIDEST; /* of a matrix */
static_assert(SMM_SHARED == MATRICES * (NUMBERS * sizeof(Complex) + 2 * N * sizeof(int)), "the plan counts otherwise");

/* What a matrix has in shared memory: A, then its factors; right-hand sides, then X; the inverses of the pivots; and
 * integers: the pivots, and which row of A exchanges would have brought to each position. */
struct SharedMatrix {
    Complex *numbers;
    int *pivots;

    __device__ SharedMatrix(Complex *shared, int q)
        : numbers(shared + q * NUMBERS), pivots(reinterpret_cast<int *>(shared + MATRICES * NUMBERS) + q * 2 * N) {}
    __device__ Complex &a(int i, int j) const { return numbers[i * PITCH + j]; }
    __device__ Complex &x(int i, int j) const { return numbers[(OVER ? 0 : IMAGE) + i * WIDE_PITCH + j]; }
    __device__ Complex &inverse(int i) const { return numbers[IMAGE + RHS + i]; }
    __device__ int &order(int i) const { return pivots[N + i]; }
};

/* Elements BEGIN .. END of row i of the image. */
template <int BEGIN, int END>
__device__ inline void store_in_image(const Complex (&x)[N], const SharedMatrix &o, int i) {
#pragma unroll
    for (int j = BEGIN; j < END; j += WIDTH) {
        Vector<WIDTH, Complex> v;
#pragma unroll
        for (int e = 0; e < WIDTH; e++) v.x[e] = x[j + e];
        store<WIDTH>(&o.a(i, j), v);
    }
}

__device__ inline Complex by_pivot(Complex x, Complex inverse, Complex pivot) {
    return __builtin_expect(is_exact(inverse), 1) ? product(x, inverse) : slow_quotient(x, pivot);
}

struct Rows {
    Complex a[ROWS][N], b[ROWS];
    int position[ROWS];
    int info = 0;
    bool odd = false, singular = false; /* so many exchanges; the first pivot that is of no use is zero */

    __device__ static int row(int r) { return lane() + LANES * r; }
    /* Whether it may be the pivot row of step k. */
    __device__ bool waits(int r, int k) const { return position[r] >= k && position[r] < N; }

    __device__ void load(const SharedMatrix &o) {
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const int i = min_of(row(r), N - 1);
            position[r] = row(r);
            load_row<N, WIDTH>(a[r], &o.a(i, 0));
            if (CARRIES) b[r] = o.x(i, 0);
        }
    }

    /* The position of the pivot of step k, among elements x of a column: of the largest magnitude, of equals the first.
     */
    __device__ int choose(int k, const Complex (&x)[ROWS]) const {
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
            for (int bits = 1; bits < LANES; bits *= 2) chosen = max(chosen, shuffle_xor(chosen, bits));
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
            const T size = shuffle_xor(most, bits);
            const int other = shuffle_xor(p, bits);
            if (size > most || (size == most && other < p)) most = size, p = other;
        }
        return p;
    }

    /* Rows become those of the factors, in the image: from column BEGIN on. The steps of a panel share a text: in each,
     * the registers of the panel move on by one column, so that the pivots' column is the first. */
    template <int BEGIN = 0> __device__ void factor(const SharedMatrix &o) {
        constexpr int COUNT = min_of(PANEL, N - BEGIN), REST = BEGIN + COUNT;
        constexpr bool KEEPS = FACTORS || SOLVES_AFTER; /* L */
#pragma unroll TURNS
        for (int t = 0; t < COUNT; t++) {
            const int k = BEGIN + t;
            Complex multiplier[ROWS];
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
            const Complex found = o.a(k, k), pivot = divisor_of(found), inverse = inverse_of(pivot);
            if (!info && fails(found)) info = k + 1, singular = is_zero(found);
            if ((SOLVES || INVERTS) && lane() == 0) o.inverse(k) = inverse;
            /* Rows that have been pivot rows are changed, too, but nobody reads them. */
#pragma unroll
            for (int r = 0; r < ROWS; r++) multiplier[r] = by_pivot(multiplier[r], inverse, pivot);
            compiler_barrier(); /* or the compiler would hold the whole pivot row in registers */
#pragma unroll
            for (int s = 1; s < COUNT; s++) {
                const bool is_left = t + s < COUNT; /* else of L */
                const Complex u = o.a(k, BEGIN + min_of(t + s, COUNT - 1));
#pragma unroll
                for (int r = 0; r < ROWS; r++) {
                    const Complex x = a[r][BEGIN + s];
                    a[r][BEGIN + s - 1] = select(is_left, multiply_subtract(multiplier[r], u, x), x);
                }
            }
#pragma unroll
            for (int r = 0; r < ROWS; r++) a[r][REST - 1] = multiplier[r];
#pragma unroll
            for (int first = REST; first < N; first += WIDTH) {
                const Vector<WIDTH, Complex> u = ::load<WIDTH>(&o.a(k, first));
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
    __device__ void solve_upper(const SharedMatrix &o) {
        Complex inverse[ROWS];
        bool rare = false;
        load(o);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            inverse[r] = o.inverse(min_of(row(r), N - 1));
            rare |= !is_exact(inverse[r]);
        }
        rare = __any_sync(WARP, rare);
#pragma unroll
        for (int j = N - 1; j >= 0; j--) {
            const int slot = j / LANES, owner = j % LANES;
            Complex x = product(b[slot], inverse[slot]);
            if (__builtin_expect(rare, 0)) x = by_pivot(b[slot], inverse[slot], o.a(j, j));
            x = from_lane(x, owner);
#pragma unroll
            for (int r = 0; r <= slot; r++) {
                const Complex less = multiply_subtract(a[r][j], x, b[r]);
                b[r] = r < slot || lane() < owner ? less : b[r];
            }
            b[slot] = select(lane() == owner, x, b[slot]);
        }
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            if (row(r) < N) o.x(row(r), 0) = b[r];
    }
};

/* x becomes L^-1 x, or U^-1 x: UPPER, from its last element on; WIDTH steps at a time, whose columns are a vector of
 * each row. As in Rows::factor, the steps of a panel share a text, in which its registers move on. BEGIN elements are
 * done. */
template <bool UPPER, int BEGIN = 0> __device__ inline void substitute(Complex (&x)[N], const SharedMatrix &o) {
    constexpr int COUNT = min_of(PANEL, N - BEGIN), REST = BEGIN + COUNT;
    const auto index = [](int step) { return UPPER ? N - 1 - step : step; };
#pragma unroll TURNS
    for (int t = 0; t < COUNT; t += WIDTH) {
        const int k = index(BEGIN + t), first = UPPER ? k - (WIDTH - 1) : k;
        Complex now[WIDTH];
#pragma unroll
        for (int e = 0; e < WIDTH; e++) {
            const int row = index(BEGIN + t + e);
            now[e] = x[index(BEGIN + e)];
#pragma unroll
            for (int d = 0; d < e; d++) now[e] = multiply_subtract(o.a(row, index(BEGIN + t + d)), now[d], now[e]);
            if (UPPER) now[e] = by_pivot(now[e], o.inverse(row), o.a(row, row));
        }
        const auto less = [&](int row, Complex y) {
            const Vector<WIDTH, Complex> l = load<WIDTH>(&o.a(row, first));
#pragma unroll
            for (int e = 0; e < WIDTH; e++) y = multiply_subtract(l.x[UPPER ? WIDTH - 1 - e : e], now[e], y);
            return y;
        };
#pragma unroll
        for (int s = WIDTH; s < COUNT; s++) {
            const Complex was = x[index(BEGIN + s)], y = less(index(BEGIN + min_of(t + s, COUNT - 1)), was);
            x[index(BEGIN + s - WIDTH)] = select(t + s < COUNT, y, was);
        }
#pragma unroll
        for (int e = 0; e < WIDTH; e++) x[index(REST - WIDTH + e)] = now[e];
#pragma unroll
        for (int s = REST; s < N; s++) x[index(s)] = less(index(s), x[index(s)]);
    }
    if constexpr (REST < N) substitute<UPPER, REST>(x, o);
}

/* Several right-hand sides become solutions, of which each lane takes some. */
__device__ inline void solve(const SharedMatrix &o) {
#pragma unroll 1
    for (int c = lane(); c < ceil_div(K, LANES) * LANES; c += LANES) {
        Complex x[N];
#pragma unroll
        for (int i = 0; i < N; i++) x[i] = INVERTS ? element_of(o.order(i) == c) : o.x(o.order(i), min_of(c, K - 1));
        substitute<false>(x, o);
        substitute<true>(x, o);
        __syncwarp();
#pragma unroll
        for (int i = 0; i < N; i++)
            if (c < K) o.x(i, c) = x[i];
    }
}

/* Start copying numbers of the block's matrices, COLS columns from `column` on, to place(q, i, j). */
template <int SOURCE, int ORDER, int COLS, class Address>
__device__ inline void stage(const smm_cuda_args &args, int which, long long first, int count, long long column,
                             long long columns, Address address) {
    if constexpr (ALIGNED && SOURCE == SMM_SOURCE_FLAT && ORDER == SMM_ORDER_ROW && COLS % WIDEST == 0) {
        const Complex *from = static_cast<const Complex *>(args.operand[which].data) + first * (N * COLS);
        for (int e = threadIdx.x * WIDEST; e < count * (N * COLS); e += THREADS * WIDEST)
            copy<WIDEST>(&address(e / (N * COLS), e / COLS % N, e % COLS), from + e);
    } else
        for_elements<THREADS, SOURCE, ORDER, N * COLS, N, COLS>(args, which, first, count, 0, column,
                                                                [&](const Complex *from, int q, int i, int j) {
                                                                    if (column + j < columns)
                                                                        copy<1>(&address(q, i, j), from);
                                                                });
}
/* Write them back; infos: of each matrix of the block. */
template <int COLS, class Address>
__device__ inline void unstage(const smm_cuda_args &args, long long first, int count, long long column,
                               long long columns, const int *infos, Address address) {
    if constexpr (ALIGNED && SMM_SOURCE_C == SMM_SOURCE_FLAT && SMM_ORDER_C == SMM_ORDER_ROW && COLS % WIDEST == 0) {
        Complex *to = static_cast<Complex *>(args.operand[SMM_C].data) + first * (N * COLS);
        for (int e = threadIdx.x * WIDEST; e < count * (N * COLS); e += THREADS * WIDEST) {
            const int q = e / (N * COLS);
            Vector<WIDEST, Complex> v = load<WIDEST>(&address(q, e / COLS % N, e % COLS));
#pragma unroll
            for (int x = 0; x < WIDEST; x++) v.x[x] = select(infos[q], not_an_element(), v.x[x]);
            store<WIDEST>(to + e, v);
        }
    } else
        for_elements<THREADS, SMM_SOURCE_C, SMM_ORDER_C, N * COLS, N, COLS>(
            args, SMM_C, first, count, 0, column, [&](Complex *to, int q, int i, int j) {
                if (column + j < columns) *to = infos[q] ? not_an_element() : address(q, i, j);
            });
}

extern "C" __global__ void __launch_bounds__(THREADS) SMM_NAME(const __grid_constant__ smm_cuda_args args) {
    extern __shared__ __align__(16) Complex shared[];
    __shared__ int infos[MATRICES];
    const long long first = static_cast<long long>(blockIdx.x) * MATRICES, left = args.batch - first;
    const int count = left < MATRICES ? static_cast<int>(left) : MATRICES, own = threadIdx.x / LANES;
    const bool leads = own < count && lane() == 0;
    const SharedMatrix o(shared, own);
    const auto a = [&](int q, int i, int j) -> Complex & { return SharedMatrix(shared, q).a(i, j); };
    const auto x = [&](int q, int i, int j) -> Complex & { return SharedMatrix(shared, q).x(i, j); };

    stage<SMM_SOURCE_A, SMM_ORDER_A, N>(args, SMM_A, first, count, 0, N, a);
    if constexpr (CARRIES) stage<SMM_SOURCE_B, SMM_ORDER_B, 1>(args, SMM_B, first, count, 0, 1, x);
    copies_done();
    __syncthreads();
    /* The threads of matrices that the last block lacks work, too, on what is there; nobody stores it. */
    Rows rows;
    rows.load(o);
    __syncwarp();
    rows.factor(o);
    if (lane() == 0) infos[own] = CONTINUES ? 0 : rows.info;
    if (leads && args.operand[SMM_INFO].data) *beside<int>(args, SMM_INFO, first + own, 1) = rows.info;

    if constexpr (CARRIES) {
        rows.solve_upper(o);
        __syncthreads();
        unstage<1>(args, first, count, 0, 1, infos, x);
    } else if constexpr (SOLVES_AFTER) {
        const long long columns = INVERTS ? N : args.k;
#pragma unroll 1
        for (long long column = 0; column < columns; column += K) {
            if constexpr (SOLVES) {
                stage<SMM_SOURCE_B, SMM_ORDER_B, K>(args, SMM_B, first, count, column, columns, x);
                copies_done();
            }
            __syncthreads();
            solve(o);
            __syncthreads();
            unstage<K>(args, first, count, column, columns, infos, x);
            __syncthreads();
        }
    } else if constexpr (FACTORS) {
        __syncthreads();
        unstage<N>(args, first, count, 0, N, infos, a);
        for (int e = threadIdx.x; e < count * N; e += THREADS) {
            const int q = e / N, i = e % N, info = infos[q];
            beside<int>(args, SMM_LU_pivots, first + q, N)[i * (REST_FLAT ? 1 : args.operand[SMM_LU_pivots].row)] =
                FIRST_ROW + (info && i + 1 >= info ? i : SharedMatrix(shared, q).pivots[i]);
        }
    } else if (leads) {
        const long long q = first + own;
        const long long at = SMM_SOURCE_C == SMM_SOURCE_FLAT ? q : offset_of(args, args.operand[SMM_C], q);
        give_determinant<1>(
            rows.odd, rows.singular, [&](int i) { return o.a(i, i); },
            [&](Complex d) { static_cast<Complex *>(args.operand[SMM_C].data)[at] = d; },
            [&](T d) { *beside<T>(args, SMM_SLOGDET_logabsdet, q, 1) = d; });
    }
}
