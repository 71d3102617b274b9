/* refinement_thread.cuh: condition numbers (LU_RCOND), backward errors (BACKWARD_ERROR) and refinement (REFINE), as
 * csrc/reference/refinement.c, whose comments say what is computed and from where; of complex matrices as
 * csrc/reference/refinement_numbers.c.
 *
 * Grid: a block per THREADS matrices; a thread to a matrix.
 * Shared memory: none. Matrices are read where they lie, again and again; vectors are local arrays.
 * Operands: any that args.h can describe.
 * Each element of B and X is read before the element of an output is written that has its place. */
#include "common.cuh"
#include "lanes.cuh"
#include "element.cuh"

constexpr int N = SMM_N, THREADS = SMM_THREADS;
constexpr bool ADJOINT = SMM_FORM & 4, NORMWISE = SMM_FORM & 32, EXTRA = SMM_FORM & 64;
static_assert(LANES == 1 && SMM_SHARED == 0, "the plan counts otherwise");

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
__device__ inline T modulus_of(Number x) {
    const T re = fabs(x.re), im = fabs(x.im), large = im > re ? im : re, small = im > re ? re : im;
    const T ratio = quotient_of(small, large);
    return large == 0 ? large : product(large, root(multiply_add(ratio, ratio, T(1))));
}
__device__ inline Number phase_of(Number x) {
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

/* --- matrices and factors --- */

/* A matrix where it lies. */
template <class X> struct View {
    X *data;
    long long row, col;
    __device__ X &at(int i, long long j) const { return data[i * row + j * col]; }
};
template <class X = Stored> __device__ inline View<X> view_of(const smm_cuda_args &args, int which, long long matrix) {
    const smm_cuda_operand &x = args.operand[which];
    return {static_cast<X *>(x.data) + offset_of(args, x, matrix), x.row, x.col};
}

struct Factors {
    View<Stored> lu;
    const int *pivots;
    long long step;
    int info; /* as LU_SOLVE's */

    __device__ Factors(const smm_cuda_args &args, int of_lu, int of_pivots, long long matrix)
        : lu(view_of(args, of_lu, matrix)), pivots(static_cast<const int *>(args.operand[of_pivots].data) +
                                                   offset_of(args, args.operand[of_pivots], matrix)),
          step(args.operand[of_pivots].row), info(0) {
        int wrong = 0;
#pragma unroll 1
        for (int i = N - 1; i >= 0; i--) {
            const int p = pivots[i * step];
            if (is_zero(lu.at(i, i))) info = i + 1;
            if (p < i || p >= N) wrong = -(i + 1);
        }
        if (wrong) info = wrong;
    }

    __device__ void exchange(Element *x, int i) const {
        const int p = pivots[i * step];
        if (p >= i && p < N) swap(x[i], x[p]);
    }

    __device__ Element divided(Element x, int j) const { return ElementDivisor(lu.at(j, j)).divide(x); }

    /* x = A^-1 x, or A^-H x by the conjugate of A^T. */
    __device__ __noinline__ void apply(Element *x, bool adjoint) const {
#pragma unroll 1
        for (int i = 0; i < N && COMPLEX && adjoint; i++) x[i] = conjugate(x[i]);
#pragma unroll 1
        for (int i = 0; i < N && !adjoint; i++) exchange(x, i);
#pragma unroll 1
        for (int j = 0; j < N; j++) {
            if (adjoint) x[j] = divided(x[j], j);
#pragma unroll 1
            for (int i = j + 1; i < N; i++) x[i] = multiply_subtract(adjoint ? lu.at(j, i) : lu.at(i, j), x[j], x[i]);
        }
#pragma unroll 1
        for (int j = N - 1; j >= 0; j--) {
            if (!adjoint) x[j] = divided(x[j], j);
#pragma unroll 1
            for (int i = 0; i < j; i++) x[i] = multiply_subtract(adjoint ? lu.at(j, i) : lu.at(i, j), x[j], x[i]);
        }
#pragma unroll 1
        for (int i = N - 1; i >= 0 && adjoint; i--) exchange(x, i);
#pragma unroll 1
        for (int i = 0; i < N && COMPLEX && adjoint; i++) x[i] = conjugate(x[i]);
    }
};

/* diag(scale) A^-1, or of A^H; scale NULL: of ones. */
struct Inverse {
    const Factors &factors;
    bool adjoint;
    const T *scale;

    __device__ void multiply(Element *x) const {
        factors.apply(x, adjoint);
#pragma unroll 1
        for (int i = 0; i < N && scale; i++) x[i] = scaled(x[i], scale[i]);
    }
    __device__ void multiply_adjoint(Element *x) const {
#pragma unroll 1
        for (int i = 0; i < N && scale; i++) x[i] = scaled(x[i], scale[i]);
        factors.apply(x, !adjoint);
    }
};

__device__ inline T norm_1(const Element *x) {
    T sum = 0;
#pragma unroll 1
    for (int i = 0; i < N; i++) sum = sum + modulus_of(x[i]);
    return sum;
}

/* The largest magnitude; NaN is never the largest. */
__device__ inline T largest(const Element *x, int &at) {
    T most = modulus_of(x[0]);
    at = 0;
#pragma unroll 1
    for (int i = 1; i < N; i++) {
        const T size = modulus_of(x[i]);
        if (size > most) most = size, at = i;
    }
    return most;
}

/* x becomes its phases. Whether those are the signs that there were before, which real ones may be, and become. */
__device__ inline bool take_phases(T *signs, Element *x) {
    bool same = !COMPLEX;
#pragma unroll 1
    for (int i = 0; i < N; i++) {
        x[i] = phase_of(x[i]);
        if (COMPLEX) continue;
        same &= signs[i] == real_of(x[i]);
        signs[i] = real_of(x[i]);
    }
    return same;
}

/* |B|_1, from below. */
__device__ inline T estimate(const Inverse &b) {
    constexpr int STEPS = 4;
    Element x[N];
    T signs[N];
    int j;
#pragma unroll 1
    for (int i = 0; i < N; i++) x[i] = element_of(quotient_of(T(1), T(N))), signs[i] = 0;
    b.multiply(x);
    T found = norm_1(x);
    if (N == 1) return found;
    take_phases(signs, x);
    b.multiply_adjoint(x);
    largest(x, j);
#pragma unroll 1
    for (int step = 0; step < STEPS; step++) {
#pragma unroll 1
        for (int i = 0; i < N; i++) x[i] = element_of(i == j);
        b.multiply(x);
        const T next = norm_1(x);
        const bool grew = next > found, same = take_phases(signs, x);
        if (grew) found = next;
        if (same || !grew) break;
        b.multiply_adjoint(x);
        const T last = modulus_of(x[j]);
        if (!(largest(x, j) > last)) break;
    }
#pragma unroll 1
    for (int i = 0; i < N; i++) {
        const T size = 1 + quotient_of(T(i), T(most(N - 1, 1)));
        x[i] = element_of(i % 2 ? -size : size);
    }
    b.multiply(x);
    const T next = quotient_of(product(T(2), norm_1(x)), T(3 * N));
    return next > found ? next : found;
}

/* A column of B with its solution x; r = b - A x, w = |b| + |A| |x|. */
struct Column {
    Element x[N], b[N], r[N];
    T w[N];

    __device__ void load(const View<Stored> &of_x, const View<Stored> &of_b, long long j) {
#pragma unroll 1
        for (int i = 0; i < N; i++) x[i] = of_x.at(i, j), b[i] = of_b.at(i, j);
    }

    __device__ void find_residual(const View<Stored> &a) {
#pragma unroll 1
        for (int i = 0; i < N; i++) {
            Element sum = b[i], rest = element_of(0);
            T size = size_of(b[i]);
#pragma unroll 1
            for (int j = 0; j < N; j++) {
                const Element f = a.at(i, j);
                size = multiply_add(size_of(f), size_of(x[j]), size);
                if (EXTRA)
                    subtract_exactly(sum, rest, f, x[j]);
                else
                    sum = multiply_subtract(f, x[j], sum);
            }
            r[i] = EXTRA ? sum_of(sum, rest) : sum;
            w[i] = size;
        }
    }

    /* The largest |r|_i / w_i, where 0 / 0 is 0; NaN if one is. */
    __device__ T componentwise() const {
        T most = 0;
        bool nan = false;
#pragma unroll 1
        for (int i = 0; i < N; i++) {
            const T size = size_of(r[i]), small = w[i] > safe_size() ? T(0) : least_size();
            const T ratio = size == 0 ? T(0) : quotient_of(size + small, w[i] + small);
            nan |= isnan(ratio);
            if (ratio > most) most = ratio;
        }
        return nan ? not_a_number() : most;
    }

    /* |r| / (|A| |x| + |b|) in infinity norms, NaN if r has one. */
    __device__ T normwise(const View<Stored> &a) const {
        T norm = 0, most_x = 0, most_b = 0, most_r = 0;
        bool nan = false;
#pragma unroll 1
        for (int i = 0; i < N; i++) {
            T sum = 0;
#pragma unroll 1
            for (int j = 0; j < N; j++) sum = sum + modulus_of(a.at(i, j));
            const T of_x = modulus_of(x[i]), of_b = modulus_of(b[i]), of_r = modulus_of(r[i]);
            if (sum > norm) norm = sum;
            if (of_x > most_x) most_x = of_x;
            if (of_b > most_b) most_b = of_b;
            if (of_r > most_r) most_r = of_r;
            nan |= isnan(of_r);
        }
        if (nan) return not_a_number();
        return most_r == 0 ? T(0) : quotient_of(most_r, multiply_add(norm, most_x, most_b));
    }

    /* x becomes better; returns its backward error. */
    __device__ T improve(const View<Stored> &a, const Factors &f) {
        constexpr int STEPS = EXTRA ? 10 : 5;
        T last = EXTRA ? infinity() : T(3);
#pragma unroll 1
        for (int step = 0;; step++) {
            find_residual(a);
            const T berr = componentwise();
            if (step == STEPS) return berr;
            Element d[N];
            T size = berr, least = UNIT;
            int at;
            if (EXTRA || (size > least && 2 * size <= last)) {
#pragma unroll 1
                for (int i = 0; i < N; i++) d[i] = r[i];
                f.apply(d, false);
            }
            if (EXTRA) size = largest(d, at), least = product(UNIT, largest(x, at));
            if (!(size > least && 2 * size <= last)) return berr;
#pragma unroll 1
            for (int i = 0; i < N; i++) x[i] = sum_of(x[i], d[i]);
            last = size;
        }
    }

    /* A bound of |x - A^-1 b| / |x| in infinity norms. Each part of a complex r has twice as many terms. */
    __device__ T forward_error(const Factors &f) const {
        const T of_sum = T((COMPLEX ? 2 : 1) * (N + 1)) * UNIT, c = EXTRA ? of_sum * of_sum : of_sum;
        T scale[N];
        int at;
#pragma unroll 1
        for (int i = 0; i < N; i++)
            scale[i] = multiply_add(c, w[i], size_of(r[i])) + (w[i] > safe_size() ? T(0) : least_size());
        const T found = estimate({f, true, scale}), size = largest(x, at);
        return size == 0 ? found : quotient_of(found, size);
    }
};

__device__ inline void put_info(const smm_cuda_args &args, int which, long long matrix, int info) {
    const smm_cuda_operand &x = args.operand[which];
    if (x.data) static_cast<int *>(x.data)[offset_of(args, x, matrix)] = info;
}

__device__ inline void lu_rcond(const smm_cuda_args &args, long long matrix) {
    const Factors f(args, SMM_LU_RCOND_a, SMM_LU_RCOND_pivots, matrix);
    const T norm = factor_of(args, SMM_LU_RCOND_norm, matrix);
    bool nan = isnan(norm) || f.info < 0;
#pragma unroll 1
    for (int i = 0; i < N; i++)
#pragma unroll 1
        for (int j = 0; j < N; j++) nan |= is_nan(f.lu.at(i, j));
    T rcond = 0;
    if (!f.info && norm != 0) {
        const T found = estimate({f, ADJOINT, nullptr});
        rcond = isnan(found) ? T(0) : quotient_of(quotient_of(T(1), found), norm);
    }
    view_of<InMemory>(args, SMM_LU_RCOND_rcond, matrix).at(0, 0) = nan ? not_a_number() : rcond;
    put_info(args, SMM_LU_RCOND_info, matrix, f.info);
}

__device__ inline void backward_error(const smm_cuda_args &args, long long matrix) {
    const View<Stored> a = view_of(args, SMM_BACKWARD_ERROR_a, matrix), x = view_of(args, SMM_BACKWARD_ERROR_x, matrix);
    const View<Stored> b = view_of(args, SMM_BACKWARD_ERROR_b, matrix);
    const View<InMemory> berr = view_of<InMemory>(args, SMM_BACKWARD_ERROR_berr, matrix);
    Column column;
    put_info(args, SMM_BACKWARD_ERROR_info, matrix, 0);
#pragma unroll 1
    for (long long j = 0; j < args.k; j++) {
        column.load(x, b, j);
        column.find_residual(a);
        berr.data[j * berr.row] = NORMWISE ? column.normwise(a) : column.componentwise();
    }
}

__device__ inline void refine(const smm_cuda_args &args, long long matrix) {
    const Factors f(args, SMM_REFINE_lu, SMM_REFINE_pivots, matrix);
    const View<Stored> a = view_of(args, SMM_REFINE_a, matrix), b = view_of(args, SMM_REFINE_b, matrix);
    const View<Stored> x = view_of(args, SMM_REFINE_x, matrix), refined = view_of(args, SMM_REFINE_refined, matrix);
    const View<InMemory> ferr = view_of<InMemory>(args, SMM_REFINE_ferr, matrix);
    const View<InMemory> berr = view_of<InMemory>(args, SMM_REFINE_berr, matrix);
    Column column;
    put_info(args, SMM_REFINE_info, matrix, f.info);
#pragma unroll 1
    for (long long j = 0; j < args.k; j++) {
        column.load(x, b, j);
        const T backward = column.improve(a, f), forward = column.forward_error(f);
#pragma unroll 1
        for (int i = 0; i < N; i++) refined.at(i, j) = f.info ? not_an_element() : column.x[i];
        berr.data[j * berr.row] = f.info ? not_a_number() : backward;
        ferr.data[j * ferr.row] = f.info ? not_a_number() : forward;
    }
}

/* One block to a multiprocessor is enough: of more the compiler makes room by spilling registers. */
extern "C" __global__ void __launch_bounds__(THREADS, 1) SMM_NAME(const __grid_constant__ smm_cuda_args args) {
    const long long matrix = static_cast<long long>(blockIdx.x) * THREADS + threadIdx.x;
    if (matrix >= args.batch) return;
    if (SMM_OP == SMM_OP_LU_RCOND)
        lu_rcond(args, matrix);
    else if (SMM_OP == SMM_OP_BACKWARD_ERROR)
        backward_error(args, matrix);
    else
        refine(args, matrix);
}
