/* lanes.cuh: LANES threads of a warp share a matrix. Row i is register i / LANES of lane i % LANES. All threads of a
 * warp take part in every exchange, whatever their matrices are. */

constexpr int LANES = SMM_LANES;
constexpr unsigned WARP = 0xffffffff;

__device__ inline int lane() { return threadIdx.x % LANES; }

/* The x of a lane of the same matrix. */
template <class X> __device__ inline X from_lane(X x, int lane) {
    return LANES == 1 ? x : __shfl_sync(WARP, x, lane, LANES);
}
/* The x of the lane whose number differs by these bits. */
template <class X> __device__ inline X across(X x, int bits) { return __shfl_xor_sync(WARP, x, bits, LANES); }

/* Rounded to nearest, subnormal or not. */
__device__ inline double quotient_of(double x, double y) { return __ddiv_rn(x, y); }
__device__ inline float quotient_of(float x, float y) { return __fdiv_rn(x, y); }
__device__ inline double reciprocal(double x) { return __drcp_rn(x); }
__device__ inline float reciprocal(float x) { return __frcp_rn(x); }
__device__ inline double root(double x) { return __dsqrt_rn(x); }
__device__ inline float root(float x) { return __fsqrt_rn(x); }

/* x / p for many x: by the reciprocal where there is one. */
struct Divisor {
    T p, r;
    Divisor() = default;
    __device__ explicit Divisor(T pivot) : p(pivot), r(reciprocal(pivot)) {}
    __device__ T divide(T x) const { return isinf(r) ? quotient_of(x, p) : product(x, r); }
};

/* Magnitudes as integers, in the same order; NaN is above all. */
__device__ inline unsigned long long magnitude(double x) { return __double_as_longlong(x) & 0x7fffffffffffffff; }
__device__ inline unsigned magnitude(float x) { return __float_as_uint(x) & 0x7fffffff; }

__device__ inline T not_a_number() { return static_cast<T>(__longlong_as_double(0x7ff8000000000000)); }

/* Exact partial pivoting where rows never move: an exchange of rows exchanges their positions only. */
template <int ROWS> struct PivotSearch {
    static constexpr unsigned LAST = 31; /* position */
    unsigned tag[ROWS];                  /* LAST - position; 0: has been a pivot row */
    unsigned mask[ROWS];                 /* of the leading bits that are compared; 0: has been a pivot row */
    unsigned key[ROWS], chosen;          /* the pivot row is the one whose key was chosen */

    __device__ explicit PivotSearch(int n) {
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const int row = lane() + LANES * r;
            tag[r] = row < n ? LAST - row : 0;
            mask[r] = row < n ? 0x7fffffff & ~LAST : 0;
        }
    }

    __device__ bool found(int r) const { return key[r] == chosen; }
    __device__ int position() const { return LAST - (chosen & LAST); }

    /* Choose among the rows with these elements in the column of step k. One word holds the leading bits of a magnitude
     * above the tag, so the largest word is the pivot row's, unless another one shares those bits or is not finite. */
    __device__ void choose(const T (&x)[ROWS], int k) {
        constexpr unsigned INFINITE = sizeof(T) == 8 ? 0x7ff00000 : 0x7f800000;
        chosen = 0;
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            key[r] = (leading_bits(x[r]) & mask[r]) | tag[r];
            chosen = max(chosen, key[r]);
        }
        chosen = of_matrix(chosen);
        bool unsure = chosen >= INFINITE;
#pragma unroll
        for (int r = 0; r < ROWS; r++) unsure |= (key[r] ^ chosen) - 1 < LAST;
        if (__builtin_expect(__any_sync(WARP, unsure), 0)) settle(x, k);
    }
    /* Choose the only row that waits. */
    __device__ void choose_last(int k) {
        chosen = LAST + 1 + LAST - k;
#pragma unroll
        for (int r = 0; r < ROWS; r++) key[r] = mask[r] ? chosen : 0;
    }
    /* The pivot row takes position k, where it stays, and the row there takes the pivot row's. */
    __device__ void exchange(int k) {
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            tag[r] = found(r) ? 0 : tag[r] == LAST - k ? chosen & LAST : tag[r];
            mask[r] = found(r) ? 0 : mask[r];
        }
    }

  private:
    __device__ static unsigned leading_bits(double x) { return __double2hiint(x); }
    __device__ static unsigned leading_bits(float x) { return __float_as_uint(x); }

    /* The largest x of the lanes of a matrix. */
    template <class X> __device__ static X of_matrix(X x) {
#pragma unroll
        for (int bits = LANES / 2; bits > 0; bits /= 2) x = max(x, across(x, bits));
        return x;
    }

    /* The largest magnitude, of equals the first; nothing is larger than a NaN in position k, and NaN than nothing. */
    __device__ void settle(const T (&x)[ROWS], int k) {
        typedef decltype(magnitude(T(0))) Size;
        constexpr Size NOTHING_LARGER = ~Size(0);
        Size size[ROWS], largest = 0;
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            size[r] = !mask[r] ? 0 : !isnan(x[r]) ? magnitude(x[r]) + 1 : tag[r] == LAST - k ? NOTHING_LARGER : 0;
            largest = max(largest, size[r]);
        }
        largest = of_matrix(largest);
        chosen = 0;
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            key[r] = mask[r] ? LAST + 1 + tag[r] : 0;
            if (size[r] == largest) chosen = max(chosen, key[r]);
        }
        chosen = of_matrix(chosen);
    }
};
