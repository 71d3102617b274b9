/* condition.cuh: condition numbers from LU, as csrc/reference/refinement.c, whose comments say what is computed and
 * from where. The estimate of norms of inverses serves bounds of errors (REFINE), too.
 *
 * LANES threads have a matrix, whose rows, and those of vectors, are spread over them: vectors are in registers, the
 * factors in shared memory, or OUTSIDE of it. A sum over the columns of a row is in one lane; one over the rows of a
 * vector, as the order of additions is that of the rows, in all lanes. How often something is repeated differs from
 * matrix to matrix: those of a warp take all turns together, until the last is done.
 *
 * Whoever includes it has Elements (element.cuh). */
constexpr int N = SMM_N, ROWS = ceil_div(N, LANES);
#include "exchanges.cuh"

constexpr bool ADJOINT = SMM_FORM & 4, REFINES = SMM_OP == SMM_OP_REFINE;

/* Columns are an odd number of elements apart: lanes find those of a column, and those of a row, in different banks.
 * Outside of shared memory lanes find those of a column side by side. */
constexpr int PITCH = N | 1, IMAGE = N * PITCH;
__device__ constexpr int place(int i, int j) { return j * PITCH + i; }

__device__ inline T smallest_normal() {
    return static_cast<T>(sizeof(T) == 4 ? __longlong_as_double(0x3810000000000000)
                                         : __longlong_as_double(0x0010000000000000));
}

/* --- of elements --- */

/* The magnitude in norms; the number of magnitude 1 that an element of a vector becomes in estimates. */
#if SMM_COMPLEX
__device__ __noinline__ T modulus_of(Complex x) {
    const T re = fabs(x.re), im = fabs(x.im), large = im > re ? im : re, small = im > re ? re : im;
    const T ratio = quotient_of(small, large);
    return large == 0 ? large : product(large, root(multiply_add(ratio, ratio, T(1))));
}
__device__ __noinline__ Complex phase_of(Complex x) {
    const T size = modulus_of(x);
    return size > smallest_normal() ? Complex{quotient_of(x.re, size), quotient_of(x.im, size)} : Complex{1, 0};
}
__device__ inline bool is_nan(Complex x) { return isnan(x.re) || isnan(x.im); }
#else
__device__ inline T modulus_of(T x) { return fabs(x); }
__device__ inline T phase_of(T x) { return x < 0 ? T(-1) : T(1); }
__device__ inline bool is_nan(T x) { return isnan(x); }
#endif

/* --- over the lanes of a matrix --- */

__device__ inline bool is_row(int r) { return N % LANES == 0 || r < ROWS - 1 || row_of(r) < N; }
/* Row r of this lane; a lane that has none there does with the last one what is not used. */
__device__ inline int own(int r) { return is_row(r) ? row_of(r) : N - 1; }

__device__ inline bool any_lane(bool x) { return LANES == 1 ? x : (__ballot_sync(WARP, x) & same_matrix()) != 0; }

/* The largest magnitude, and where it is first; NaN is never the largest, but of row 0. */
__device__ inline T largest(const Element (&x)[ROWS], int &at) {
    T most = -1;
    at = N;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const T size = modulus_of(x[r]);
        if (is_row(r) && size > most) most = size, at = row_of(r);
    }
#pragma unroll
    for (int bits = LANES / 2; bits > 0; bits /= 2) {
        const T size = shuffle_xor(most, bits);
        const int i = shuffle_xor(at, bits);
        if (size > most || (size == most && i < at)) most = size, at = i;
    }
    const T first = from_lane(modulus_of(x[0]), 0);
    if (!isnan(first)) return most;
    at = 0;
    return first;
}

/* The vector in shared memory, for all lanes. */
template <class X> __device__ inline void publish(X *vector, const X (&x)[ROWS]) {
    __syncwarp();
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        if (is_row(r)) vector[row_of(r)] = x[r];
    __syncwarp();
}

/* --- factors --- */

/* x = U^-1 L^-1 x, or that of their transposes, in memory, by one lane: where a pivot's reciprocal is not as exact as
 * numbers are. */
template <bool OF_TRANSPOSE> __device__ __noinline__ void substitute_alone(const Element *lu, Element *x) {
    const auto a = [&](int i, int j) { return lu[OF_TRANSPOSE ? place(j, i) : place(i, j)]; };
#pragma unroll 1
    for (int j = 0; j < N; j++) {
        if (OF_TRANSPOSE) x[j] = ElementDivisor(a(j, j)).divide(x[j]);
#pragma unroll 1
        for (int i = j + 1; i < N; i++) x[i] = multiply_subtract(a(i, j), x[j], x[i]);
    }
#pragma unroll 1
    for (int j = N - 1; j >= 0; j--) {
        if (!OF_TRANSPOSE) x[j] = ElementDivisor(a(j, j)).divide(x[j]);
#pragma unroll 1
        for (int i = 0; i < j; i++) x[i] = multiply_subtract(a(i, j), x[j], x[i]);
    }
}

struct Factors {
    const Element *lu;
    Element *vector;
    Element inverse[ROWS]; /* of the pivots */
    int position[ROWS];
    int info;  /* as LU_SOLVE's; unless it is 0, nobody looks at what is solved */
    bool rare; /* of a matrix of the warp the inverses do not do */

    /* The pivots are so many integers apart. `vector`: room for N elements in shared memory. */
    __device__ Factors(const Element *of_lu, const int *pivots, long long step, Element *of_vector)
        : lu(of_lu), vector(of_vector) {
        int zero = N + 1;
        bool exact = true;
#pragma unroll
        for (int r = ROWS - 1; r >= 0; r--) {
            const Element pivot = lu[place(own(r), own(r))];
            inverse[r] = inverse_of(pivot);
            exact = exact && (is_exact(inverse[r]) || is_nan(pivot));
            if (is_row(r) && is_zero(pivot)) zero = row_of(r) + 1;
        }
        const int wrong = follow(pivots, step, position);
        info = first_of(zero);
        if (wrong) info = -wrong;
        rare = __any_sync(WARP, !exact && !info);
    }

    /* x = T^-1 x, T the lower or upper triangle of L and U, or of their transpose. */
    template <bool LOWER, bool OF_TRANSPOSE, bool HAS_UNIT_DIAGONAL>
    __device__ void substitute(Element (&x)[ROWS]) const {
#pragma unroll
        for (int turn = 0; turn < ROWS; turn++) {
            const int owner = LOWER ? turn : ROWS - 1 - turn, count = min_of(LANES, N - owner * LANES);
#pragma unroll 4
            for (int step = 0; step < count; step++) {
                const int l = LOWER ? step : count - 1 - step, j = owner * LANES + l;
                const Element y = from_lane(HAS_UNIT_DIAGONAL ? x[owner] : product(x[owner], inverse[owner]), l);
#pragma unroll
                for (int r = LOWER ? owner : 0; r <= (LOWER ? ROWS - 1 : owner); r++) {
                    const Element z =
                        multiply_subtract(lu[OF_TRANSPOSE ? place(j, own(r)) : place(own(r), j)], y, x[r]);
                    if (r != owner || (LOWER ? lane() > l : lane() < l)) x[r] = z;
                }
            }
            if (!HAS_UNIT_DIAGONAL) x[owner] = product(x[owner], inverse[owner]);
        }
    }

    /* x = A^-1 x, or A^-H x by the conjugate of A^T. */
    template <bool OF_ADJOINT> __device__ void apply(Element (&x)[ROWS]) const {
        if (!OF_ADJOINT) exchange(vector, position, false, x);
#pragma unroll
        for (int r = 0; r < ROWS && OF_ADJOINT; r++) x[r] = conjugate(x[r]);
        if (__builtin_expect(rare, 0)) {
            publish(vector, x);
            if (lane() == 0) substitute_alone<OF_ADJOINT>(lu, vector);
            __syncwarp();
#pragma unroll
            for (int r = 0; r < ROWS; r++) x[r] = vector[own(r)];
        } else {
            substitute<true, OF_ADJOINT, !OF_ADJOINT>(x);
            substitute<false, OF_ADJOINT, OF_ADJOINT>(x);
        }
#pragma unroll
        for (int r = 0; r < ROWS && OF_ADJOINT; r++) x[r] = conjugate(x[r]);
        if (OF_ADJOINT) exchange(vector, position, true, x);
    }
};

/* diag(scale) A^-H of REFINE; of LU_RCOND A^-1, or A^-H. */
struct Inverse {
    const Factors &factors;
    T scale[REFINES ? ROWS : 1];

    __device__ void rescale(Element (&x)[ROWS]) const {
#pragma unroll
        for (int r = 0; r < ROWS && REFINES; r++) x[r] = scaled(x[r], scale[r]);
    }
    __device__ void multiply(Element (&x)[ROWS]) const {
        factors.apply<REFINES || ADJOINT>(x);
        rescale(x);
    }
    __device__ void multiply_adjoint(Element (&x)[ROWS]) const {
        rescale(x);
        factors.apply<!(REFINES || ADJOINT)>(x);
    }
};

__device__ inline T norm_1(Element *vector, const Element (&x)[ROWS]) {
    T sizes[ROWS], sum = 0;
#pragma unroll
    for (int r = 0; r < ROWS; r++) sizes[r] = modulus_of(x[r]);
    if constexpr (LANES == 1) {
#pragma unroll
        for (int i = 0; i < N; i++) sum = sum + sizes[i];
    } else {
        T *const all = reinterpret_cast<T *>(vector);
        publish(all, sizes);
#pragma unroll 8
        for (int i = 0; i < N; i++) sum = sum + all[i];
    }
    return sum;
}

/* x becomes its phases. Whether those are the signs that there were before, which real ones may be, and become. */
__device__ inline bool take_phases(unsigned &signs, Element (&x)[ROWS]) {
    unsigned negative = 0;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        x[r] = phase_of(x[r]);
        if (!COMPLEX && is_row(r) && real_of(x[r]) < 0) negative |= 1u << r;
    }
    const bool same = !COMPLEX && !any_lane(negative != signs);
    signs = negative;
    return same;
}

/* Vectors from which |B|_1 is estimated. The operator rounds as quotient_of(), but to constants where it can. */
constexpr T EQUAL = T(1) / N;
__device__ inline T ending(int i) {
    const T size = 1 + T(i) / max_of(N - 1, 1);
    return i % 2 ? -size : size;
}

/* |B|_1, from below; of matrices that are done from the beginning, something. */
__device__ inline T estimate(const Inverse &b, bool done) {
    constexpr int STEPS = 4;
    Element *const vector = b.factors.vector;
    Element x[ROWS];
    unsigned signs = 0;
    T found = 0;
    int j = 0;
#pragma unroll 1
    for (int step = 0;; step++) { /* of equal numbers, then of columns of I, at last of numbers of both signs */
        const bool last = step > STEPS || !__any_sync(WARP, !done);
#pragma unroll
        for (int r = 0; r < ROWS; r++) x[r] = element_of(last ? ending(row_of(r)) : step ? T(row_of(r) == j) : EQUAL);
        b.multiply(x);
        const T norm = norm_1(vector, x);
        if (last) {
            const T next = quotient_of(product(T(2), norm), T(3 * N));
            return next > found ? next : found;
        }
        const bool grew = step == 0 || norm > found, same = take_phases(signs, x) && step > 0;
        if (!done && grew) found = norm;
        if (N == 1) return found;
        done |= same || !grew || step == STEPS;
        if (!__any_sync(WARP, !done)) continue;
        b.multiply_adjoint(x);
        T before = -1;
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            if (row_of(r) == j) before = modulus_of(x[r]);
        before = from_lane(before, j % LANES);
        int at;
        const T size = largest(x, at);
        done |= step > 0 && !(size > before);
        j = at;
    }
}

/* 1 / (|A| |A^-1|), from the factors and the norm of A. */
__device__ inline T rcond_of(const Factors &f, T norm) {
    bool nan = false;
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll 8
        for (int j = 0; j < N; j++) nan |= is_nan(f.lu[place(own(r), j)]);
    nan = any_lane(nan) || isnan(norm) || f.info < 0;
    const bool known = f.info || norm == 0;
    const T found = estimate({f}, known);
    const T rcond = known || isnan(found) ? T(0) : quotient_of(quotient_of(T(1), found), norm);
    return nan ? not_a_number() : rcond;
}
