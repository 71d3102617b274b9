/* qr_shared.cuh: what qr_columns.cuh does, in shared memory, for any shape: not fast, the same bits.
 *
 * Grid: one block per MATRICES matrices; LANES threads to a matrix, which take its columns by turns.
 * Shared memory: of each matrix A by rows, then tau.
 * Operands: any that args.h can describe; SMM_K is the number of columns of Q.
 * May overwrite A in place, matrix by matrix: a block has read all it needs before it writes.
 * Limits: LANES a power of two <= 32; MATRICES * LANES = THREADS; the shared memory of a block. */
#include "common.cuh"
#include "lanes.cuh"
#include "householder.cuh"

constexpr int M = SMM_M, N = SMM_N, P = least(M, N), K = SMM_K, MATRICES = SMM_MATRICES, THREADS = SMM_THREADS;
constexpr int MATRIX = M * N + P;
static_assert(SMM_SHARED == MATRICES * MATRIX * sizeof(T), "the plan counts otherwise");
constexpr int BESIDE = SMM_OP == SMM_OP_QR_RAW ? SMM_QR_RAW_tau : SMM_OP == SMM_OP_QR ? SMM_QR_r : SMM_QR_R_r;

extern "C" __global__ void __launch_bounds__(THREADS) SMM_NAME(const __grid_constant__ smm_cuda_args args) {
    extern __shared__ __align__(16) T shared[];
    const long long q = static_cast<long long>(blockIdx.x) * MATRICES + threadIdx.x / LANES;
    if (q >= args.batch) return;
    T *a = shared + threadIdx.x / LANES * MATRIX, *tau = a + M * N;
    const smm_cuda_operand &from = args.operand[SMM_A], &c = args.operand[SMM_C], &d = args.operand[BESIDE];
    const InMemory *data = static_cast<const InMemory *>(from.data) + offset_of(args, from, q);

    factor_safely<M, N>(a, tau, data, from.row, from.col);

    InMemory *to_c = static_cast<InMemory *>(c.data) + offset_of(args, c, q),
             *to_d = static_cast<InMemory *>(d.data) + offset_of(args, d, q);
    if (SMM_OP == SMM_OP_QR_RAW) {
        for (int e = lane(); e < M * N; e += LANES) to_c[e / most(N, 1) * c.row + e % most(N, 1) * c.col] = a[e];
        for (int k = lane(); k < P; k += LANES) to_d[k * d.row] = tau[k];
    } else {
        for (int e = lane(); e < K * N; e += LANES) {
            const int i = e / most(N, 1), j = e % most(N, 1);
            to_d[i * d.row + j * d.col] = i <= j ? a[e] : T(0);
        }
    }
    if (SMM_OP == SMM_OP_QR)
        for (int j = lane(); j < K; j += LANES) {
            ColumnOf<M> column(to_c + j * c.col, c.row);
            form_column<M, N>(a, tau, j, column.data(), column.step());
            column.finish();
        }
    const smm_cuda_operand &info = args.operand[SMM_INFO];
    if (info.data && lane() == 0) static_cast<int *>(info.data)[offset_of(args, info, q)] = 0;
}
