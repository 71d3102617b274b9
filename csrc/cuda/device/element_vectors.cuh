/* element_vectors.cuh: elements in vectors of memory, as common.cuh has those of parts. */
#if SMM_COMPLEX
template <int WIDTH> __device__ inline Vector<WIDTH, Complex> load(const Complex *from) {
    const Vector<2 * WIDTH> parts = load<2 * WIDTH>(reinterpret_cast<const T *>(from));
    Vector<WIDTH, Complex> v;
#pragma unroll
    for (int e = 0; e < WIDTH; e++) v.x[e] = {parts.x[2 * e], parts.x[2 * e + 1]};
    return v;
}
template <int WIDTH> __device__ inline Vector<2 * WIDTH> parts_of(const Vector<WIDTH, Complex> &v) {
    Vector<2 * WIDTH> parts;
#pragma unroll
    for (int e = 0; e < WIDTH; e++) parts.x[2 * e] = v.x[e].re, parts.x[2 * e + 1] = v.x[e].im;
    return parts;
}
template <int WIDTH> __device__ inline void store(Complex *to, Vector<WIDTH, Complex> v) {
    store<2 * WIDTH>(reinterpret_cast<T *>(to), parts_of(v));
}
template <int WIDTH> __device__ inline void store_global(Complex *to, Vector<WIDTH, Complex> v) {
    store_global<2 * WIDTH>(reinterpret_cast<T *>(to), parts_of(v));
}
template <int WIDTH, bool SHARED_BY_ALL = false> __device__ inline void copy(Complex *to, const Complex *from) {
    copy<2 * WIDTH, SHARED_BY_ALL>(reinterpret_cast<T *>(to), reinterpret_cast<const T *>(from));
}
#endif

/* As VECTOR and width_of, in elements. */
constexpr int WIDEST = VECTOR * sizeof(T) / sizeof(Element);
__host__ __device__ constexpr int widest_of(int length) {
    return length % WIDEST == 0 ? WIDEST : length % 2 == 0 ? max_of(WIDEST / 2, 1) : 1;
}
/* The same of elements as memory holds them, of which those that are converted are narrower. */
constexpr int WIDEST_STORED = 16 / sizeof(Stored);
__host__ __device__ constexpr int widest_stored_of(int length) {
    return length % WIDEST_STORED == 0 ? WIDEST_STORED : widest_of(length);
}

/* As factor_of: a number that matrix q has of an operand. */
__device__ inline Element coefficient(const smm_cuda_args &args, int which, long long q) {
#if SMM_COMPLEX
    const smm_cuda_operand &x = args.operand[which];
    return x.data ? static_cast<const Complex *>(x.data)[offset_of(args, x, q)]
                  : Complex{static_cast<T>(args.number[which]), static_cast<T>(args.imaginary[which])};
#else
    return factor_of(args, which, q);
#endif
}
