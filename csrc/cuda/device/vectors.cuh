/* vectors.cuh: numbers in vectors of registers and of shared memory, in one access. */

template <int WIDTH, class X = T> struct alignas(WIDTH * sizeof(X)) Vector {
    X x[WIDTH];
};

template <int WIDTH> __device__ inline Vector<WIDTH> load(const T *from) {
    return *reinterpret_cast<const Vector<WIDTH> *>(from);
}
template <int WIDTH> __device__ inline void store(T *to, Vector<WIDTH> x) {
    *reinterpret_cast<Vector<WIDTH> *>(to) = x;
}

/* Elements first .. COUNT of a line in vectors of WIDTH, from the start of first's vector on: x[j] is to[j]. */
template <int COUNT, int WIDTH, class To, class X> __device__ inline void load_row(To *to, const X *x, int first = 0) {
#pragma unroll
    for (int j = first / WIDTH * WIDTH; j < COUNT; j += WIDTH) {
        const auto v = load<WIDTH>(x + j);
#pragma unroll
        for (int e = 0; e < WIDTH; e++) to[j + e] = v.x[e];
    }
}
template <int COUNT, int WIDTH, class To, class X> __device__ inline void store_row(To *to, const X *x, int first = 0) {
#pragma unroll
    for (int j = first / WIDTH * WIDTH; j < COUNT; j += WIDTH) {
        Vector<WIDTH, X> v;
#pragma unroll
        for (int e = 0; e < WIDTH; e++) v.x[e] = x[j + e];
        store<WIDTH>(to + j, v);
    }
}
