/* matmul_whole.cuh: C (M x N) = A (M x K) B (K x N), whole matrices in a thread's registers.
 *
 * Grid: one block per MATRICES matrices; THREADS threads, each with EACH consecutive matrices, as many as make whole
 * 16-byte vectors of A, of B and of C. No shared memory.
 * Operands: all flat and aligned, C by rows.
 * Limits: EACH (M K + K N + M N) elements must fit the registers, so order 1 and 2 and their like. */
#include "common.cuh"

constexpr int M = SMM_M, K = SMM_K, N = SMM_N;
constexpr bool A_BY_ROWS = SMM_ORDER_A == SMM_ORDER_ROW, B_BY_ROWS = SMM_ORDER_B == SMM_ORDER_ROW;
constexpr int THREADS = SMM_THREADS, EACH = SMM_MATRICES / THREADS;
static_assert(SMM_SHARED == 0, "the plan counts otherwise");

/* Elements of EACH matrices; those of matrices beyond the batch are not touched. */
template <int ELEMENTS> __device__ inline void read(T (&x)[EACH * ELEMENTS], const InMemory *from, int count) {
    static_assert(EACH * ELEMENTS % VECTOR == 0, "whole vectors");
#pragma unroll
    for (int e = 0; e < EACH * ELEMENTS; e += VECTOR) {
        if (count == EACH) {
            const Vector<VECTOR> v = load<VECTOR>(from + e);
#pragma unroll
            for (int j = 0; j < VECTOR; j++) x[e + j] = v.x[j];
        } else {
#pragma unroll
            for (int j = 0; j < VECTOR; j++) x[e + j] = e + j < count * ELEMENTS ? T(from[e + j]) : T(0);
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) SMM_NAME(const __grid_constant__ smm_cuda_args args) {
    const long long first = (static_cast<long long>(blockIdx.x) * THREADS + threadIdx.x) * EACH;
    if (first >= args.batch) return;
    const int count = static_cast<int>(args.batch - first < EACH ? args.batch - first : EACH);
    T a[EACH * M * K], b[EACH * K * N], c[EACH * M * N];
    read<M * K>(a, static_cast<const InMemory *>(args.operand[SMM_A].data) + first * (M * K), count);
    read<K * N>(b, static_cast<const InMemory *>(args.operand[SMM_B].data) + first * (K * N), count);
#pragma unroll
    for (int q = 0; q < EACH; q++)
#pragma unroll
        for (int i = 0; i < M; i++)
#pragma unroll
            for (int j = 0; j < N; j++) {
                T sum = 0;
#pragma unroll
                for (int k = 0; k < K; k++) {
                    const T x = a[q * M * K + (A_BY_ROWS ? i * K + k : k * M + i)];
                    const T y = b[q * K * N + (B_BY_ROWS ? k * N + j : j * K + k)];
                    sum = k == 0 ? product(x, y) : multiply_add(x, y, sum);
                }
                c[q * M * N + i * N + j] = sum;
            }
    InMemory *to = static_cast<InMemory *>(args.operand[SMM_C].data) + first * (M * N);
#pragma unroll
    for (int e = 0; e < EACH * M * N; e += VECTOR) {
        Vector<VECTOR> v;
#pragma unroll
        for (int j = 0; j < VECTOR; j++) v.x[j] = c[e + j];
        if (count == EACH)
            store<VECTOR>(to + e, v);
        else
#pragma unroll
            for (int j = 0; j < VECTOR; j++)
                if (e + j < count * M * N) to[e + j] = v.x[j];
    }
}
