/* refinement_lanes.cuh: condition numbers (LU_RCOND), backward errors (BACKWARD_ERROR) and refinement (REFINE), as
 * csrc/reference/refinement.c, whose comments say what is computed and from where. How threads share a matrix says
 * condition.cuh.
 *
 * Grid: one block per MATRICES matrices; LANES threads to a matrix. OUTSIDE, blocks stay for the matrices that follow.
 * Shared memory: of each matrix its factors, itself, or both, and a vector; OUTSIDE, they lie in the workspace.
 * Operands: any that args.h can describe.
 * May overwrite B or X in place, matrix by matrix.
 * Limits: LANES a power of two <= 32; MATRICES * LANES = THREADS; the shared memory of a block. */
#include "common.cuh"
#include "lanes.cuh"
#include "element.cuh"
#include "element_vectors.cuh"
#include "view.cuh"
#include "condition.cuh"

constexpr int MATRICES = SMM_MATRICES, THREADS = SMM_THREADS;
constexpr bool NORMWISE = SMM_FORM & 32, EXTRA = SMM_FORM & 64;
constexpr bool A_FLAT = SMM_SOURCE_A == SMM_SOURCE_FLAT, B_FLAT = SMM_SOURCE_B == SMM_SOURCE_FLAT;
constexpr bool CONDITION = SMM_OP == SMM_OP_LU_RCOND;

/* Matrices are an odd number of times LANES apart, for which lanes find them in different banks. */
constexpr int IMAGES = REFINES ? 2 : 1, MATRIX = elements_apart(IMAGES * IMAGE + N, sizeof(Element));
static_assert(SMM_SHARED == (OUTSIDE ? 0 : MATRICES * MATRIX * sizeof(Element)), "the plan counts otherwise");

constexpr T UNIT = sizeof(T) == 4 ? T(1.0 / (1 << 24)) : T(1.0 / (1ll << 53));
__device__ inline T min_size() { return T(N + 1) * smallest_normal(); }
__device__ inline T infinity() { return static_cast<T>(__longlong_as_double(0x7ff0000000000000)); }
__device__ inline T safe_size() { return min_size() / UNIT; }

/* sum - a x without error, so far as it is added to `rest`. */
__device__ inline void subtract_exactly(T &sum, T &rest, T a, T x) {
    const T p = product(a, x), of_product = multiply_add(-a, x, p);
    const T next = sum - p, moved = next - sum;
    const T of_sum = (sum - (next - moved)) - (p + moved);
    rest = rest + (of_sum + of_product);
    sum = next;
}

#if SMM_COMPLEX
__device__ inline void subtract_exactly(Complex &sum, Complex &rest, Complex a, Complex x) {
    subtract_exactly(sum.re, rest.re, a.re, x.re);
    subtract_exactly(sum.re, rest.re, -a.im, x.im);
    subtract_exactly(sum.im, rest.im, a.re, x.im);
    subtract_exactly(sum.im, rest.im, a.im, x.re);
}
#endif

/* The largest x of a lane; NaN is never the largest. */
__device__ inline T max_of_lanes(T x) {
#pragma unroll
    for (int bits = LANES / 2; bits > 0; bits /= 2) {
        const T other = shuffle_xor(x, bits);
        if (!(x >= other)) x = other;
    }
    return x;
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
                const Element f = a[place(own(e), j)];
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
            const T size = size_of(r[e]), small = w[e] > safe_size() ? T(0) : min_size();
            const T ratio = size == 0 ? T(0) : quotient_of(size + small, w[e] + small);
            nan |= isnan(ratio);
            if (ratio > most) most = ratio;
        }
        most = max_of_lanes(most);
        return any_lane(nan) ? not_a_number() : most;
    }

    /* |r| / (|A| |x| + |b|) in infinity norms, NaN if r has one. */
    __device__ T normwise() const {
        T norm = 0, max_x = 0, max_b = 0, max_r = 0;
        bool nan = false;
#pragma unroll
        for (int e = 0; e < ROWS; e++) {
            T sum = 0;
#pragma unroll 4
            for (int j = 0; j < N; j++) sum = sum + modulus_of(a[place(own(e), j)]);
            const T of_x = modulus_of(x[e]), of_b = modulus_of(b[e]), of_r = modulus_of(r[e]);
            if (sum > norm) norm = sum;
            if (of_x > max_x) max_x = of_x;
            if (of_b > max_b) max_b = of_b;
            if (of_r > max_r) max_r = of_r;
            nan |= isnan(of_r);
        }
        norm = max_of_lanes(norm), max_x = max_of_lanes(max_x), max_b = max_of_lanes(max_b),
        max_r = max_of_lanes(max_r);
        if (any_lane(nan)) return not_a_number();
        return max_r == 0 ? T(0) : quotient_of(max_r, multiply_add(norm, max_x, max_b));
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
            inverse.scale[e] = multiply_add(c, w[e], size_of(r[e])) + (w[e] > safe_size() ? T(0) : min_size());
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
        const unsigned q = e / (N * N), line = e % (N * N) / N, along = e % N;
        const unsigned i = ORDER == SMM_ORDER_ROW ? line : along, j = ORDER == SMM_ORDER_ROW ? along : line;
        Element *const image = to + q * MATRIX + place(i, j);
        const Stored *const element = from + (FLAT ? e : where[q] + i * x.row + j * x.col);
        if constexpr (OUTSIDE)
            *image = Element(*element);
        else
            copy<1>(image, element);
    }
}

__device__ inline void put_info(const smm_cuda_args &args, long long matrix, int info) {
    if (lane() == 0 && args.operand[SMM_INFO].data) *beside<int>(args, SMM_INFO, matrix, 1) = info;
}

/* The factors in shared memory, with the pivots of that operand. */
__device__ inline Factors factors_of(const smm_cuda_args &args, int pivots, long long matrix, const Element *lu,
                                     Element *vector) {
    return {lu, beside<int>(args, pivots, matrix, N), REST_FLAT ? 1 : args.operand[pivots].row, vector};
}

__device__ inline void lu_rcond(const smm_cuda_args &args, long long matrix, const Element *lu, Element *vector) {
    const Factors f = factors_of(args, SMM_LU_RCOND_pivots, matrix, lu, vector);
    const bool norms_follow = REST_FLAT && args.operand[SMM_LU_RCOND_norm_a].data;
    const T norm = norms_follow ? T(*beside<InMemory>(args, SMM_LU_RCOND_norm_a, matrix, 1))
                                : factor_of(args, SMM_LU_RCOND_norm_a, matrix);
    const T rcond = rcond_of(f, norm);
    if (lane() == 0) *beside<InMemory>(args, SMM_LU_RCOND_rcond, matrix, 1) = rcond;
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
    const Factors f = factors_of(args, SMM_REFINE_pivots, matrix, lu, vector);
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
    Element *const elements =
        OUTSIDE ? static_cast<Element *>(args.workspace) + static_cast<long long>(blockIdx.x) * (MATRICES * MATRIX)
                : reinterpret_cast<Element *>(shared);
    long long first = static_cast<long long>(blockIdx.x) * MATRICES;
    do {
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
        first += static_cast<long long>(gridDim.x) * MATRICES;
        __syncwarp(); /* for those who still read what is their own */
    } while (OUTSIDE && first < args.batch);
}
