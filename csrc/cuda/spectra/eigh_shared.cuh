/* eigh_shared.cuh: eigh.cuh of the matrices of a call.
 *
 * Grid: one block per MATRICES matrices; LANES threads to a matrix.
 * Shared memory: of each matrix what `Work` names; none where a thread has it in registers.
 * Operands: any that args.h can describe. Of A one triangle is read. May overwrite A in place, matrix by matrix.
 * Limits: LANES a power of two <= 32; MATRICES * LANES = THREADS; the shared memory of a block. */
#include "common.cuh"
#include "lanes.cuh"
#include "householder.cuh"
#include "few.cuh"

constexpr int N = SMM_N, MATRICES = SMM_MATRICES, THREADS = SMM_THREADS;
constexpr bool VECTORS = SMM_OP == SMM_OP_EIGH, UPPER = SMM_FORM & 1;
#include "eigh.cuh"

static_assert(SMM_SHARED == (FEW ? 0 : MATRICES * sizeof(Work)), "the plan counts otherwise");
static_assert(static_cast<int>(SMM_EIGH_w) == static_cast<int>(SMM_EIGVALSH_w), "EIGVALSH has the w of EIGH");

/* Matrix q. */
__device__ inline void run(Work &x, const smm_cuda_args &args, long long q) {
    const smm_cuda_operand &a = args.operand[SMM_A], &c = args.operand[SMM_C], &d = args.operand[SMM_EIGH_w];
    const smm_cuda_operand &infos = args.operand[SMM_INFO];
    const InMemory *from = static_cast<const InMemory *>(a.data) + offset_of(args, a, q);
    const long long row = UPPER ? a.row : a.col, col = UPPER ? a.col : a.row;
    InMemory *to_c = VECTORS ? static_cast<InMemory *>(c.data) + offset_of(args, c, q) : nullptr;
    InMemory *to_d = static_cast<InMemory *>(d.data) + offset_of(args, d, q);
    T few[FEW ? N * N : 1], values[FEW ? N : 1], vectors[FEW ? N * N : 1];
    if (FEW) move_few<false, FEW ? N : 1, FEW ? N : 1>(few, const_cast<InMemory *>(from), row, col);
    const int info = eigh(
        x, [&](int i, int j) { return FEW ? few[FEW ? i * N + j : 0] : T(from[i * row + j * col]); },
        [&](int place, T value) {
            if (FEW)
                put(values, place, value);
            else
                to_d[place * d.row] = value;
        },
        [&](int i, int place, T y) {
            if (FEW)
                put(vectors, i * N + place, y, i * N, N);
            else
                to_c[i * c.row + place * c.col] = y;
        });
    if constexpr (FEW) {
        move_few<true, 1, N>(values, to_d, 0, d.row);
        if (VECTORS) move_few<true, N, N>(vectors, to_c, c.row, c.col);
    }
    if (lane() == 0 && infos.data) static_cast<int *>(infos.data)[offset_of(args, infos, q)] = info;
}

extern "C" __global__ void __launch_bounds__(THREADS) SMM_NAME(const __grid_constant__ smm_cuda_args args) {
    with_work<Work, MATRICES>(args.batch, [&](Work &x, long long q) { run(x, args, q); });
}
