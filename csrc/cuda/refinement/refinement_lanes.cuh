/* refinement_lanes.cuh: condition numbers (LU_RCOND), backward errors (BACKWARD_ERROR) and refinement (REFINE), as
 * csrc/reference/refinement.c, whose comments say what is computed and from where; of complex matrices as
 * csrc/reference/refinement_numbers.c.
 *
 * LANES threads have a matrix, whose rows, and those of vectors, are spread over them: vectors are in registers, the
 * matrix and its factors in shared memory. A sum over the columns of a row is in one lane; one over the rows of a
 * vector, as the order of additions is that of the rows, in all lanes. How often something is repeated differs from
 * matrix to matrix: those of a warp take all turns together, until the last is done.
 *
 * Grid: one block per MATRICES matrices; LANES threads to a matrix.
 * Shared memory: of each matrix its factors, itself, or both, and a vector.
 * Operands: any that args.h can describe.
 * May overwrite B or X in place, matrix by matrix.
 * Limits: LANES a power of two <= 32; MATRICES * LANES = THREADS; the shared memory of a block. */
#include "common.cuh"
#include "lanes.cuh"
#include "element.cuh"
#include "element_vectors.cuh"
#include "view.cuh"

constexpr int N = SMM_N, MATRICES = SMM_MATRICES, THREADS = SMM_THREADS, ROWS = ceil_div(N, LANES);
#include "exchanges.cuh"

constexpr bool ADJOINT = SMM_FORM & 4, NORMWISE = SMM_FORM & 32, EXTRA = SMM_FORM & 64;
constexpr bool A_FLAT = SMM_SOURCE_A == SMM_SOURCE_FLAT, B_FLAT = SMM_SOURCE_B == SMM_SOURCE_FLAT;
constexpr bool CONDITION = SMM_OP == SMM_OP_LU_RCOND, REFINES = SMM_OP == SMM_OP_REFINE;

/* Rows are an odd number of elements apart, and matrices an odd number of times LANES: lanes find those of a column,
 * and those of a row, in different banks. */
constexpr int PITCH = N | 1, IMAGE = N * PITCH, IMAGES = REFINES ? 2 : 1;
constexpr int MATRIX = elements_apart(IMAGES * IMAGE + N, sizeof(Element));
static_assert(SMM_SHARED == MATRICES * MATRIX * sizeof(Element), "the plan counts otherwise");

constexpr T UNIT = sizeof(T) == 4 ? T(1.0 / (1 << 24)) : T(1.0 / (1ll << 53));
__device__ inline T least_normal() {
    return static_cast<T>(sizeof(T) == 4 ? __longlong_as_double(0x3810000000000000)
                                         : __longlong_as_double(0x0010000000000000));
}
__device__ inline T least_size() { return T(N + 1) * least_normal(); }
__device__ inline T infinity() { return static_cast<T>(__longlong_as_double(0x7ff0000000000000)); }
__device__ inline T safe_size() { return least_size() / UNIT; }

/* --- of elements --- */

/* sum - a x without error, so far as it is added to `rest`. */
__device__ inline void subtract_exactly(T &sum, T &rest, T a, T x) {
    const T p = product(a, x), of_product = multiply_add(-a, x, p);
    const T next = sum - p, moved = next - sum;
    const T of_sum = (sum - (next - moved)) - (p + moved);
    rest = rest + (of_sum + of_product);
    sum = next;
}

/* The magnitude in norms; the number of magnitude 1 that an element of a vector becomes in estimates. */
#if SMM_COMPLEX
__device__ __noinline__ T modulus_of(Number x) {
    const T re = fabs(x.re), im = fabs(x.im), large = im > re ? im : re, small = im > re ? re : im;
    const T ratio = quotient_of(small, large);
    return large == 0 ? large : product(large, root(multiply_add(ratio, ratio, T(1))));
}
__device__ __noinline__ Number phase_of(Number x) {
    const T size = modulus_of(x);
    return size > least_normal() ? Number{quotient_of(x.re, size), quotient_of(x.im, size)} : Number{1, 0};
}
__device__ inline bool is_nan(Number x) { return isnan(x.re) || isnan(x.im); }
__device__ inline void subtract_exactly(Number &sum, Number &rest, Number a, Number x) {
    subtract_exactly(sum.re, rest.re, a.re, x.re);
    subtract_exactly(sum.re, rest.re, -a.im, x.im);
    subtract_exactly(sum.im, rest.im, a.re, x.im);
    subtract_exactly(sum.im, rest.im, a.im, x.re);
}
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

/* The largest x of a lane; NaN is never the largest. */
__device__ inline T most_of(T x) {
#pragma unroll
    for (int bits = LANES / 2; bits > 0; bits /= 2) {
        const T other = across(x, bits);
        if (!(x >= other)) x = other;
    }
    return x;
}

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
        const T size = across(most, bits);
        const int i = across(at, bits);
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
    const auto a = [&](int i, int j) { return lu[OF_TRANSPOSE ? j * PITCH + i : i * PITCH + j]; };
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

    __device__ Factors(const smm_cuda_args &args, int pivots, long long matrix, const Element *of_lu,
                       Element *of_vector)
        : lu(of_lu), vector(of_vector) {
        int zero = N + 1;
        bool exact = true;
#pragma unroll
        for (int r = ROWS - 1; r >= 0; r--) {
            const Element pivot = lu[own(r) * (PITCH + 1)];
            inverse[r] = inverse_of(pivot);
            exact = exact && (is_exact(inverse[r]) || is_nan(pivot));
            if (is_row(r) && is_zero(pivot)) zero = row_of(r) + 1;
        }
        const int wrong =
            follow(beside<int>(args, pivots, matrix, N), REST_FLAT ? 1 : args.operand[pivots].row, position);
        info = first_of(zero);
        if (wrong) info = -wrong;
        rare = __any_sync(WARP, !exact && !info);
    }

    /* x = T^-1 x, T the lower or upper triangle of L and U, or of their transpose. */
    template <bool LOWER, bool OF_TRANSPOSE, bool HAS_UNIT_DIAGONAL>
    __device__ void substitute(Element (&x)[ROWS]) const {
#pragma unroll
        for (int turn = 0; turn < ROWS; turn++) {
            const int owner = LOWER ? turn : ROWS - 1 - turn, count = least(LANES, N - owner * LANES);
#pragma unroll 4
            for (int step = 0; step < count; step++) {
                const int l = LOWER ? step : count - 1 - step, j = owner * LANES + l;
                const Element y = from_lane(HAS_UNIT_DIAGONAL ? x[owner] : product(x[owner], inverse[owner]), l);
#pragma unroll
                for (int r = LOWER ? owner : 0; r <= (LOWER ? ROWS - 1 : owner); r++) {
                    const Element z =
                        multiply_subtract(lu[OF_TRANSPOSE ? j * PITCH + own(r) : own(r) * PITCH + j], y, x[r]);
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
    const T size = 1 + T(i) / most(N - 1, 1);
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

/* --- columns of B with their solutions --- */

/* r = b - A x, w = |b| + |A| |x|. */
struct Column {
    const Element *a;
    Element *vector;
    Element x[ROWS], b[ROWS], r[ROWS];
    T w[ROWS];

    __device__ Column(const Element *of_a, Element *of_vector) : a(of_a), vector(of_vector) {}

    __device__ void load(const View<const Stored> &of_x, const View<const Stored> &of_b, long long j) {
#pragma unroll
        for (int e = 0; e < ROWS; e++) x[e] = of_x.at(own(e), j), b[e] = of_b.at(own(e), j);
    }

    __device__ void find_residual() {
        Element rest[ROWS];
#pragma unroll
        for (int e = 0; e < ROWS; e++) r[e] = b[e], rest[e] = element_of(0), w[e] = size_of(b[e]);
        publish(vector, x);
#pragma unroll 4
        for (int j = 0; j < N; j++) {
            const Element y = vector[j];
            const T size = size_of(y);
#pragma unroll
            for (int e = 0; e < ROWS; e++) {
                const Element f = a[own(e) * PITCH + j];
                w[e] = multiply_add(size_of(f), size, w[e]);
                if (EXTRA)
                    subtract_exactly(r[e], rest[e], f, y);
                else
                    r[e] = multiply_subtract(f, y, r[e]);
            }
        }
#pragma unroll
        for (int e = 0; e < ROWS && EXTRA; e++) r[e] = sum_of(r[e], rest[e]);
    }

    /* The largest |r|_i / w_i, where 0 / 0 is 0; NaN if one is. */
    __device__ T componentwise() const {
        T most = 0;
        bool nan = false;
#pragma unroll
        for (int e = 0; e < ROWS; e++) {
            const T size = size_of(r[e]), small = w[e] > safe_size() ? T(0) : least_size();
            const T ratio = size == 0 ? T(0) : quotient_of(size + small, w[e] + small);
            nan |= isnan(ratio);
            if (ratio > most) most = ratio;
        }
        most = most_of(most);
        return any_lane(nan) ? not_a_number() : most;
    }

    /* |r| / (|A| |x| + |b|) in infinity norms, NaN if r has one. */
    __device__ T normwise() const {
        T norm = 0, most_x = 0, most_b = 0, most_r = 0;
        bool nan = false;
#pragma unroll
        for (int e = 0; e < ROWS; e++) {
            T sum = 0;
#pragma unroll 4
            for (int j = 0; j < N; j++) sum = sum + modulus_of(a[own(e) * PITCH + j]);
            const T of_x = modulus_of(x[e]), of_b = modulus_of(b[e]), of_r = modulus_of(r[e]);
            if (sum > norm) norm = sum;
            if (of_x > most_x) most_x = of_x;
            if (of_b > most_b) most_b = of_b;
            if (of_r > most_r) most_r = of_r;
            nan |= isnan(of_r);
        }
        norm = most_of(norm), most_x = most_of(most_x), most_b = most_of(most_b), most_r = most_of(most_r);
        if (any_lane(nan)) return not_a_number();
        return most_r == 0 ? T(0) : quotient_of(most_r, multiply_add(norm, most_x, most_b));
    }

    /* x becomes better; returns its backward error. */
    __device__ T improve(const Factors &f) {
        constexpr int STEPS = EXTRA ? 10 : 5;
        T last = EXTRA ? infinity() : T(3);
        bool done = false;
#pragma unroll 1
        for (int step = 0;; step++) {
            find_residual();
            const T berr = componentwise();
            T size = berr, least = UNIT;
            done |= !EXTRA && !(size > least && 2 * size <= last);
            if (step == STEPS || !__any_sync(WARP, !done)) return berr;
            Element d[ROWS];
#pragma unroll
            for (int e = 0; e < ROWS; e++) d[e] = r[e];
            f.apply<false>(d);
            if (EXTRA) {
                int at;
                size = largest(d, at), least = product(UNIT, largest(x, at));
                done |= !(size > least && 2 * size <= last);
                if (!__any_sync(WARP, !done)) return berr;
            }
#pragma unroll
            for (int e = 0; e < ROWS; e++) x[e] = done ? x[e] : sum_of(x[e], d[e]);
            last = size;
        }
    }

    /* A bound of |x - A^-1 b| / |x| in infinity norms. Each part of a complex r has twice as many terms. */
    __device__ T forward_error(const Factors &f) const {
        const T of_sum = T((COMPLEX ? 2 : 1) * (N + 1)) * UNIT, c = EXTRA ? of_sum * of_sum : of_sum;
        Inverse inverse = {f};
        int at;
#pragma unroll
        for (int e = 0; e < (REFINES ? ROWS : 0); e++)
            inverse.scale[e] = multiply_add(c, w[e], size_of(r[e])) + (w[e] > safe_size() ? T(0) : least_size());
        const T size = largest(x, at), found = estimate(inverse, f.info != 0);
        const T ferr = size == 0 ? found : quotient_of(found, size);
        return EXTRA ? ferr + T(COMPLEX ? 2 : 1) * UNIT : ferr;
    }
};

/* --- operations --- */

/* Matrices first .. first + count of an operand come to their images, the first of which is at `to`. `where`: room for
 * their places, of this operand alone. */
template <bool FLAT, int ORDER>
__device__ inline void stage(Element *to, const smm_cuda_args &args, int which, long long first, int count,
                             long long *where) {
    const smm_cuda_operand &x = args.operand[which];
    const Stored *from = static_cast<const Stored *>(x.data) + (FLAT ? first * (N * N) : 0);
    if (!FLAT) {
        for (int q = threadIdx.x; q < count; q += THREADS) where[q] = offset_of(args, x, first + q);
        __syncthreads();
    }
#pragma unroll 8
    for (unsigned e = threadIdx.x; e < count * (N * N); e += THREADS) {
        const unsigned q = e / (N * N), line = e % (N * N) / N, place = e % N;
        const unsigned i = ORDER == SMM_ORDER_ROW ? line : place, j = ORDER == SMM_ORDER_ROW ? place : line;
        copy<1>(to + q * MATRIX + i * PITCH + j, from + (FLAT ? e : where[q] + i * x.row + j * x.col));
    }
}

__device__ inline void put_info(const smm_cuda_args &args, long long matrix, int info) {
    if (lane() == 0 && args.operand[SMM_INFO].data) *beside<int>(args, SMM_INFO, matrix, 1) = info;
}

__device__ inline void lu_rcond(const smm_cuda_args &args, long long matrix, const Element *lu, Element *vector) {
    const Factors f(args, SMM_LU_RCOND_pivots, matrix, lu, vector);
    const bool norms_follow = REST_FLAT && args.operand[SMM_LU_RCOND_norm].data;
    const T norm = norms_follow ? T(*beside<InMemory>(args, SMM_LU_RCOND_norm, matrix, 1))
                                : factor_of(args, SMM_LU_RCOND_norm, matrix);
    bool nan = false;
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll 8
        for (int j = 0; j < N; j++) nan |= is_nan(lu[own(r) * PITCH + j]);
    nan = any_lane(nan) || isnan(norm) || f.info < 0;
    const bool known = f.info || norm == 0;
    const T found = estimate({f}, known);
    const T rcond = known || isnan(found) ? T(0) : quotient_of(quotient_of(T(1), found), norm);
    if (lane() == 0) *beside<InMemory>(args, SMM_LU_RCOND_rcond, matrix, 1) = nan ? not_a_number() : rcond;
    put_info(args, matrix, f.info);
}

__device__ inline void backward_error(const smm_cuda_args &args, long long matrix, const Element *a, Element *vector) {
    const View<const Stored> x(args, SMM_BACKWARD_ERROR_x, matrix, REST_FLAT, N * args.k);
    const View<const Stored> b(args, SMM_BACKWARD_ERROR_b, matrix, B_FLAT, N * args.k);
    const View<InMemory> berr(args, SMM_BACKWARD_ERROR_berr, matrix, REST_FLAT, args.k);
    Column column(a, vector);
    put_info(args, matrix, 0);
#pragma unroll 1
    for (long long j = 0; j < args.k; j++) {
        column.load(x, b, j);
        column.find_residual();
        const T found = NORMWISE ? column.normwise() : column.componentwise();
        if (lane() == 0) berr.at(j, 0) = found;
    }
}

__device__ inline void refine(const smm_cuda_args &args, long long matrix, const Element *lu, const Element *a,
                              Element *vector) {
    const Factors f(args, SMM_REFINE_pivots, matrix, lu, vector);
    const View<const Stored> b(args, SMM_REFINE_b, matrix, B_FLAT, N * args.k);
    const View<const Stored> x(args, SMM_REFINE_x, matrix, REST_FLAT, N * args.k);
    const View<Stored> refined(args, SMM_REFINE_refined, matrix, REST_FLAT, N * args.k);
    const View<InMemory> ferr(args, SMM_REFINE_ferr, matrix, REST_FLAT, args.k);
    const View<InMemory> berr(args, SMM_REFINE_berr, matrix, REST_FLAT, args.k);
    Column column(a, vector);
    put_info(args, matrix, f.info);
#pragma unroll 1
    for (long long j = 0; j < args.k; j++) {
        column.load(x, b, j);
        const T backward = column.improve(f);
#pragma unroll
        for (int e = 0; e < ROWS; e++)
            if (is_row(e)) refined.at(row_of(e), j) = f.info ? not_an_element() : column.x[e];
        const T forward = column.forward_error(f);
        if (lane() != 0) continue;
        berr.at(j, 0) = f.info ? not_a_number() : backward;
        ferr.at(j, 0) = f.info ? not_a_number() : forward;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) SMM_NAME(const __grid_constant__ smm_cuda_args args) {
    extern __shared__ __align__(16) T shared[];
    __shared__ long long where[2][A_FLAT && REST_FLAT ? 1 : MATRICES];
    Element *const elements = reinterpret_cast<Element *>(shared);
    const long long first = static_cast<long long>(blockIdx.x) * MATRICES;
    const int count = static_cast<int>(args.batch - first < MATRICES ? args.batch - first : MATRICES);
    stage<A_FLAT, SMM_ORDER_A>(elements, args, SMM_A, first, count, where[0]);
    if (REFINES) stage<REST_FLAT, SMM_ORDER_ROW>(elements + IMAGE, args, SMM_REFINE_lu, first, count, where[1]);
    copies_done();
    __syncthreads();
    const int q = threadIdx.x / LANES;
    if (q >= count) return;
    Element *const image = elements + q * MATRIX, *const vector = image + IMAGES * IMAGE;
    if constexpr (CONDITION)
        lu_rcond(args, first + q, image, vector);
    else if constexpr (REFINES)
        refine(args, first + q, image + IMAGE, image, vector);
    else
        backward_error(args, first + q, image, vector);
}
