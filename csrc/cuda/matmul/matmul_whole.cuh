/* matmul_whole.cuh: C (M x N) = A (M x K) B (K x N), whole matrices in a thread's registers.
 *
 * Grid: one block per MATRICES matrices; THREADS threads, each with EACH consecutive matrices, as many as make whole
 * 16-byte vectors of A, of B and of C. No shared memory.
 * Operands: all flat and aligned, C by rows.
 * Limits: EACH (M K + K N + M N) elements must fit the registers, so order 1 and 2 and their like. */
#include "common.cuh"
#include "matmul_elements.cuh"

constexpr int THREADS = SMM_THREADS, EACH = SMM_MATRICES / THREADS;
static_assert(SMM_SHARED == 0, "the plan counts otherwise");

/* Elements of EACH matrices; those of matrices beyond the batch are not touched. */
template <int ELEMENTS> __device__ inline void read(Element (&x)[EACH * ELEMENTS], const Stored *from, int count) {
    constexpr int WIDTH = widest_stored_of(EACH * ELEMENTS);
    static_assert(WIDTH >= WIDEST, "whole vectors");
#pragma unroll
    for (int e = 0; e < EACH * ELEMENTS; e += WIDTH) {
        if (count == EACH) {
            const Vector<WIDTH, Element> v = load<WIDTH>(from + e);
#pragma unroll
            for (int j = 0; j < WIDTH; j++) x[e + j] = v.x[j];
        } else {
#pragma unroll
            for (int j = 0; j < WIDTH; j++) x[e + j] = e + j < count * ELEMENTS ? Element(from[e + j]) : element_of(0);
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) SMM_NAME(const __grid_constant__ smm_cuda_args args) {
    const long long first = (static_cast<long long>(blockIdx.x) * THREADS + threadIdx.x) * EACH;
    if (first >= args.batch) return;
    const int count = static_cast<int>(args.batch - first < EACH ? args.batch - first : EACH);
    Element a[EACH * M * K], b[EACH * K * N], c[EACH * M * N];
    read<M * K>(a, static_cast<const Stored *>(args.operand[SMM_A].data) + first * (M * K), count);
    read<K * N>(b, static_cast<const Stored *>(args.operand[SMM_B].data) + first * (K * N), count);
#pragma unroll
    for (int q = 0; q < EACH; q++)
#pragma unroll
        for (int i = 0; i < M; i++)
#pragma unroll
            for (int j = 0; j < N; j++) {
                Element sum = element_of(0);
#pragma unroll
                for (int k = 0; k < K; k++) {
                    const Element x = a[q * M * K + (A_BY_ROWS ? i * K + k : k * M + i)];
                    const Element y = b[q * K * N + (B_BY_ROWS ? k * N + j : j * K + k)];
                    sum = k == 0 ? term(x, y) : add_term(x, y, sum);
                }
                c[q * M * N + i * N + j] = sum;
            }
    Stored *to = static_cast<Stored *>(args.operand[SMM_C].data) + first * (M * N);
    constexpr int WIDTH = widest_stored_of(EACH * M * N);
#pragma unroll
    for (int e = 0; e < EACH * M * N; e += WIDTH) {
        Vector<WIDTH, Element> v;
#pragma unroll
        for (int j = 0; j < WIDTH; j++) v.x[j] = c[e + j];
        if (count == EACH)
            store<WIDTH>(to + e, v);
        else
#pragma unroll
            for (int j = 0; j < WIDTH; j++)
                if (e + j < count * M * N) to[e + j] = v.x[j];
    }
}
