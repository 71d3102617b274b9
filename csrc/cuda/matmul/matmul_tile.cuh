/* matmul_tile.cuh: one thread's tile of C, wherever the matrices are: c_ij = sum over k of a_ik b_kj.
 *
 * The tile has ROWS x COLS elements, spread over the matrix so that neighbouring lanes take neighbouring vectors:
 * its columns are VC wide groups COL_TILES groups apart, its rows likewise (VR is 1 unless A lies by columns). BLOCKED,
 * they follow each other: of scalars, neighbouring matrices of a warp are then in banks apart. */

constexpr int ROWS = SMM_ROWS, COLS = SMM_COLS, UNROLL = SMM_UNROLL ? SMM_UNROLL : K;
constexpr int ROW_TILES = ceil_div(M, ROWS), COL_TILES = ceil_div(N, COLS), TILES = ROW_TILES * COL_TILES;

/* WA, WB, WC: widths of vectors along the lines of A, B and C; PA, PB: elements from line to line. */
template <int WA, int PA, int WB, int PB, int WC> struct Tile {
    static constexpr int VR = A_BY_ROWS ? 1 : min_of(WA, widest_stored_of(ROWS));
    static constexpr int VC = B_BY_ROWS ? min_of(WB, widest_stored_of(COLS)) : 1;
    static constexpr int VO = min_of(VC, WC); /* of vectors of the output */
    static constexpr int KA = A_BY_ROWS ? WA : 1, KB = B_BY_ROWS ? 1 : WB, STEP = max_of(KA, KB);

    Element c[ROWS][COLS];
    int row_tile, col_tile;

    __device__ int row(int r) const {
        return SMM_BLOCKED ? row_tile * ROWS + r : (row_tile + r / VR * ROW_TILES) * VR + r % VR;
    }
    __device__ int col(int j) const {
        return SMM_BLOCKED ? col_tile * COLS + j : (col_tile + j / VC * COL_TILES) * VC + j % VC;
    }
    __device__ bool has(int r, int j) const {
        return (ROW_TILES * ROWS == M || row(r) < M) && (COL_TILES * COLS == N || col(j) < N);
    }

    /* Rows and columns beyond the matrix are computed from the last ones, and never stored. */
    template <class X> __device__ void multiply(const X *a, const X *b) {
        int a_row[ROWS], b_col[COLS];
#pragma unroll
        for (int r = 0; r < ROWS; r += VR)
            a_row[r] = ROW_TILES * ROWS == M ? row(r) : min_of(row(r), (M - 1) / VR * VR);
#pragma unroll
        for (int j = 0; j < COLS; j += VC)
            b_col[j] = COL_TILES * COLS == N ? col(j) : min_of(col(j), (N - 1) / VC * VC);
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
            for (int j = 0; j < COLS; j++) c[r][j] = element_of(0);
        if (K == 0) return;
        add<true>(a, b, 0, a_row, b_col);
#pragma unroll(max_of(1, UNROLL / STEP))
        for (int k = STEP; k < K; k += STEP) add<false>(a, b, k, a_row, b_col);
    }

  private:
    /* c (first ? = : +=) A(:, k .. k + STEP) B(k .. k + STEP, :) */
    template <bool FIRST, class X>
    __device__ void add(const X *a, const X *b, int k, const int (&a_row)[ROWS], const int (&b_col)[COLS]) {
        Element x[ROWS][STEP], y[STEP][COLS];
        if (A_BY_ROWS) {
#pragma unroll
            for (int r = 0; r < ROWS; r++)
#pragma unroll
                for (int s = 0; s < STEP; s += KA) {
                    const Vector<KA, Element> v = load<KA>(a + a_row[r] * PA + k + s);
#pragma unroll
                    for (int e = 0; e < KA; e++) x[r][s + e] = v.x[e];
                }
        } else {
#pragma unroll
            for (int s = 0; s < STEP; s++)
#pragma unroll
                for (int r = 0; r < ROWS; r += VR) {
                    const Vector<VR, Element> v = load<VR>(a + (k + s) * PA + a_row[r]);
#pragma unroll
                    for (int e = 0; e < VR; e++) x[r + e][s] = v.x[e];
                }
        }
        if (B_BY_ROWS) {
#pragma unroll
            for (int s = 0; s < STEP; s++)
#pragma unroll
                for (int j = 0; j < COLS; j += VC) {
                    const Vector<VC, Element> v = load<VC>(b + (k + s) * PB + b_col[j]);
#pragma unroll
                    for (int e = 0; e < VC; e++) y[s][j + e] = v.x[e];
                }
        } else {
#pragma unroll
            for (int j = 0; j < COLS; j++)
#pragma unroll
                for (int s = 0; s < STEP; s += KB) {
                    const Vector<KB, Element> v = load<KB>(b + b_col[j] * PB + k + s);
#pragma unroll
                    for (int e = 0; e < KB; e++) y[s + e][j] = v.x[e];
                }
        }
#pragma unroll
        for (int s = 0; s < STEP; s++)
#pragma unroll
            for (int r = 0; r < ROWS; r++)
#pragma unroll
                for (int j = 0; j < COLS; j++)
                    c[r][j] = FIRST && s == 0 ? term(x[r][s], y[s][j]) : add_term(x[r][s], y[s][j], c[r][j]);
    }

  public:
    /* c = fma(alpha, c, beta c_old); where beta is 0, c_old is not read. */
    __device__ void scale(const smm_cuda_args &args, long long q, const Stored *old, long long old_row,
                          long long old_col) {
        const Element alpha = coefficient(args, SMM_MATMUL_alpha, q);
        const Element beta = coefficient(args, SMM_MATMUL_beta, q);
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
            for (int j = 0; j < COLS; j++)
                if (has(r, j))
                    c[r][j] = is_zero(beta) ? product(alpha, c[r][j])
                                            : multiply_add(alpha, c[r][j],
                                                           product(beta, old[row(r) * old_row + col(j) * old_col]));
    }

    template <class X> __device__ void write(X *to, int pitch) const {
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
            for (int j = 0; j < COLS; j += VO) {
                Vector<VO, Element> v;
#pragma unroll
                for (int e = 0; e < VO; e++) v.x[e] = c[r][j + e];
                if (has(r, j)) store<VO>(to + row(r) * pitch + col(j), v);
            }
    }
};
