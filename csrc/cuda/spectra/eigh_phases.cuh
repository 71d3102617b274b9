/* eigh_phases.cuh: eigh.cuh of many matrices of a call, in phases (phases.cuh).
 *
 * Operands: any that args.h can describe. Of A one triangle is read. May overwrite A in place, matrix by matrix. */
#include "common.cuh"
#include "lanes.cuh"
#include "householder.cuh"
#include "element.cuh"
#include "operand_view.cuh"

constexpr int N = SMM_N;
constexpr bool VECTORS = SMM_OP == SMM_OP_EIGH, UPPER = SMM_FORM & 1;
#include "eigh.cuh"
#include "phases.cuh"
#include "eigh_rows.cuh"

/* What the lanes of a matrix work with. */
union alignas(16) Group {
    struct {
        union {
            Beside beside[2][N];
            T d[N]; /* eigenvalues */
        };
        Rows rows;
    };
    Staged staged[STAGED];
    __device__ T *vectors() { return rows.a.x; }
};
static_assert(static_cast<int>(SMM_EIGH_w) == static_cast<int>(SMM_EIGVALSH_w), "EIGVALSH has the w of EIGH");

struct TridiagonalIteration {
    static constexpr int SWEEPS = TRIDIAGONAL_SWEEPS;
    __device__ void begin(const Chain &) {}
    __device__ bool counts(const Chain &x, int i) { return counts_in(x, i); }
    __device__ void enter(const Chain &, int, int) {}
    template <class Keep> __device__ bool sweep(const Chain &x, int from, int to, Keep keep) {
        return find_rotations<N>(x, from, to, keep);
    }
};

extern "C" __global__ void BOUNDS SMM_NAME(const __grid_constant__ smm_cuda_args args) {
    run_phases<Group, TridiagonalIteration>(
        args,
        [&](Group &own, Diagonals &t, long long q) {
            return reduce_rows(own.rows, own.beside[0], own.beside[1], t, OperandView<!UPPER, Stored>(args, SMM_A, q));
        },
        [&](Group &own, const Diagonals &t, long long q, T back, int left, const T(&v)[OWN_ROWS][N]) {
            if constexpr (VECTORS)
                each_element([&](int i, int j, int r) { own.rows.a.x[i * Vectors<N>::PITCH + j] = v[r][j]; });
            for (int j = lane(); j < N; j += LANES) own.d[j] = t.d[j];
            sync_lanes();
            const OperandView<true> w(args, SMM_EIGH_w, q);
            const OperandView<false, Stored> to(args, VECTORS ? SMM_C : SMM_A, q);
            const bool good = is_finite(back) && !left;
            for (int j = lane(); j < N; j += LANES)
                give(
                    own.rows.a, own.d, j, good, back, [&](int place, T y) { w.put(0, place, y); },
                    [&](int i, int place, Element y) { to.put(i, place, y); });
            put_integer(args, SMM_INFO, q, left);
        });
}
