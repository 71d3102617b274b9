/* systems.cuh: factors of matrices and solutions of their systems, with the order of operations of csrc/reference/lu.c,
 * cholesky.c and inv.c:
 *
 * LU of M x N matrices with partial pivoting by |re| + |im| (LU); of square ones X of A X = B (SOLVE, or LU_SOLVE from
 * what LU gave), the inverse of complex A as X of A X = I and that of real A by elimination (INV); L of Hermitian
 * A = L L^H, from A's lower triangle (CHOLESKY), and X of A X = B with such A (SOLVE_POS); X of L L^H X = B, in the
 * form UPPER of U^H U X = B (CHO_SOLVE), or of triangular A (SOLVE_TRIANGULAR).
 *
 * LANES threads have a matrix: as many as a warp or fewer go through it column by column, those of a block panel by
 * panel. It has M rows of its own, those of COLUMNS right-hand sides, and what MatrixWorkspace names beside them.
 *
 * Whoever includes it has Elements (element.cuh). */
#if SMM_LANES > 32
#include "element_vectors.cuh"
#endif

#include "as_lapack.cuh"

constexpr int N = SMM_N, M = SMM_OP == SMM_OP_LU ? int(SMM_M) : N, STEPS = min_of(M, N);
constexpr bool UPPER = SMM_FORM & 1, UNIT = SMM_FORM & 2, OF_TRANSPOSE = SMM_FORM & 4;
constexpr bool DEFINITE = SMM_OP == SMM_OP_CHOLESKY || SMM_OP == SMM_OP_SOLVE_POS, INVERTS = SMM_OP == SMM_OP_INV;
constexpr bool FACTORS = SMM_OP == SMM_OP_LU || SMM_OP == SMM_OP_CHOLESKY; /* and no more */
constexpr bool ELIMINATES = INVERTS && !COMPLEX;
constexpr bool SOLVES = !FACTORS && !ELIMINATES && SMM_OP != SMM_OP_DET && SMM_OP != SMM_OP_SLOGDET;
constexpr bool OF_ADJOINT = SMM_OP == SMM_OP_SOLVE_POS && UPPER; /* A's upper triangle is given */
constexpr int COLUMNS = !SOLVES ? 0 : INVERTS ? min_of(N, 16) : int(SMM_K);
constexpr int WIDE_PITCH = COLUMNS ? pitch_of(COLUMNS) : 0;

/* Elements of a matrix, of its right-hand sides, and beside them; integers. Rows that are read in vectors are an odd
 * number of these apart. */
#if SMM_LANES > 32
constexpr int PANEL = SMM_PANEL; /* columns that are factored at a time */
constexpr int PITCH = (ceil_div(N, WIDEST) | 1) * WIDEST;
constexpr int OF_PANEL = ELIMINATES ? (2 * N + 1) * PANEL + PANEL * PITCH : 0;
constexpr int BESIDE = OF_PANEL + (SOLVES ? ceil_div(N, WIDEST) * WIDEST : 0), INTEGERS = 2 * STEPS;
#else
constexpr int PITCH = pitch_of(N), BESIDE = 0, INTEGERS = STEPS;
#endif
constexpr int MATRIX = M * PITCH, RHS = N * WIDE_PITCH;

struct MatrixWorkspace {
    Element *elements, *rhs, *beside;
    int *integers;

    __device__ Element *row(int i) const { return elements + i * PITCH; }
    __device__ Element &a(int i, int j) const { return elements[i * PITCH + j]; }
    __device__ Element &x(int i, int j) const { return rhs[i * WIDE_PITCH + j]; }
    /* The row with which a step exchanges its own. */
    __device__ int &pivot(int k) const { return integers[k]; }
    /* An element of what is returned as the factors. */
    __device__ Element factor(int i, int j) const { return !DEFINITE || i >= j ? a(i, j) : element_of(0); }
};

/* The first row from k on that is this lane's. */
__device__ inline int own_row(int k) { return k + ((lane() - k) & (LANES - 1)); }

struct Outcome {
    int info = 0;
    bool singular = false; /* the first pivot that is of no use is zero */
    bool is_nan = false;   /* all of the result, though info is 0 */
};

/* How a triangle lies in A: as it is, transposed, or transposed and conjugated. */
enum Way { PLAIN, TRANSPOSED, ADJOINT };
template <Way WAY> __device__ inline Element element(const MatrixWorkspace &o, int i, int j) {
    return WAY == PLAIN ? o.a(i, j) : WAY == TRANSPOSED ? o.a(j, i) : conjugate(o.a(j, i));
}

/* factor(), factor_definite(), exchange_rows() and solve_triangle(). Of a matrix that is eliminated the rare LU goes
 * column by column, too: it need not be quick, but is compiled. */
#if SMM_LANES > 32
#include "panels.cuh"
#endif
#if SMM_LANES > 32 && (SMM_COMPLEX || SMM_OP != SMM_OP_INV)
#include "systems_panels.cuh"
#else
#include "systems_columns.cuh"
#endif

/* The info of L and U that were given; pivots that are no rows become harmless. */
__device__ inline int info_of_factors(const MatrixWorkspace &o) {
    int info = 0, wrong = 0;
    for (int i = N - 1; i >= 0; i--) {
        const int p = o.pivot(i);
        if (p < i || p >= N) wrong = -(i + 1);
        if (is_zero(o.a(i, i))) info = i + 1;
    }
    sync_lanes();
    for (int i = own_row(0); i < N; i += LANES)
        if (o.pivot(i) < i || o.pivot(i) >= N) o.pivot(i) = i;
    sync_lanes();
    return wrong ? wrong : info;
}

/* The first zero on the diagonal, from 1, by which a triangular solve would divide; or 0. */
__device__ inline int first_zero(const MatrixWorkspace &o) {
    for (int j = 0; j < N && !UNIT; j++)
        if (is_zero(o.a(j, j))) return j + 1;
    return 0;
}

/* A becomes what the operation returns or solves with. */
__device__ inline Outcome prepare(const MatrixWorkspace &o) {
    if constexpr (DEFINITE)
        return {factor_definite(o)};
    else if constexpr (SMM_OP == SMM_OP_LU_SOLVE)
        return {info_of_factors(o)};
    else if constexpr (SMM_OP == SMM_OP_CHO_SOLVE || SMM_OP == SMM_OP_SOLVE_TRIANGULAR)
        return {first_zero(o)};
    else
        return factor(o);
}

__device__ inline void solve(const MatrixWorkspace &o) {
    if constexpr (SMM_OP == SMM_OP_SOLVE_TRIANGULAR) {
        solve_triangle<PLAIN, UPPER, UNIT>(o);
    } else if constexpr (SMM_OP == SMM_OP_CHO_SOLVE || DEFINITE) {
        constexpr bool OF_U = UPPER && !DEFINITE;
        solve_triangle<OF_U ? ADJOINT : PLAIN, false, false>(o);
        solve_triangle<OF_U ? PLAIN : ADJOINT, true, false>(o);
    } else if constexpr (OF_TRANSPOSE) {
        solve_triangle<TRANSPOSED, false, false>(o);
        solve_triangle<TRANSPOSED, true, true>(o);
        exchange_rows<true>(o);
    } else {
        exchange_rows<false>(o);
        solve_triangle<PLAIN, false, true>(o);
        solve_triangle<PLAIN, true, false>(o);
    }
}
