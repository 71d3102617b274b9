/* table.h: the kernels of this instruction set and dtype, a list per operation, most specialised first. Operations
 * without a list are not for numbers of this type. */

/* Of kernels that take any operands as they are. */
static unsigned any_needs(const smm_call *call) {
    (void)call;
    return 0;
}

#define MATMUL_ROWS(n, height, width) \
    _Static_assert(n >= STRIP_MIN && n <= 32, "orders of MATMUL_ROWS"); \
    static void KERNEL(matmul_rows_##n)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) { \
        rows_square(call, first, last, cold, n, height, width, KERNEL(matmul_rows_##n)); \
    }
#define MATMUL_PERMUTE(n) \
    static void KERNEL(matmul_permute_##n)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) { \
        permute_loop(call, first, last, cold, n, n, n); \
    }
#define MATMUL_VECTOR_LANES(n) \
    static void KERNEL(matmul_vector_lanes_##n)(const smm_call *call, intptr_t first, intptr_t last, \
                                                smm_prefetch *cold) { \
        vector_lanes(call, first, last, cold, n, n, false); \
    }
#define MATMUL_VECTOR_LEFT(n) \
    static void KERNEL(matmul_vector_left_##n)(const smm_call *call, intptr_t first, intptr_t last, \
                                               smm_prefetch *cold) { \
        vector_lanes(call, first, last, cold, n, n, true); \
    }
#define MATMUL_GROUP(n, width) \
    static void KERNEL(matmul_group_##n)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) { \
        group(call, first, last, cold, n, width); \
    }
#define INV_LANES(n, groups) \
    _Static_assert(n <= INV_LANES_MAX && groups <= INV_LANES_GROUPS, "orders and groups of INV_LANES"); \
    static void KERNEL(inv_lanes_##n)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) { \
        inv_lanes(call, first, last, cold, n, groups); \
    }
#define SOLVE_LANES(height, groups) \
    _Static_assert(height <= LU_LANES_MAX && groups <= LU_GROUPS && groups * height * height <= LU_WORKSPACE, \
                   "heights and groups of LU_LANES"); \
    static intptr_t lu_begin_lanes_##height(const smm_call *call, intptr_t q, intptr_t last, bool cold, vec *a, \
                                            lu_group *g) { \
        return lu_begin_lanes(call, q, last, cold, a, g, height, groups); \
    } \
    static void KERNEL(solve_lanes_##height)(const smm_call *call, intptr_t first, intptr_t last, \
                                             smm_prefetch *cold) { \
        solve_lanes(call, first, last, cold, lu_begin_lanes_##height, height); \
    } \
    static void KERNEL(det_lanes_##height)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) { \
        det_lanes(call, first, last, cold, lu_begin_lanes_##height, height); \
    } \
    static unsigned lu_lanes_##height##_needs(const smm_call *call) { \
        return lu_is_square(call) ? lu_lanes_needs(call, height) : SMM_UNFIT; \
    }
#define LU_LANES(height, groups) \
    SOLVE_LANES(height, groups) \
    static void KERNEL(lu_lanes_##height)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) { \
        lu_lanes(call, first, last, cold, lu_begin_lanes_##height, height); \
    }
#define QR_LANES(n) \
    _Static_assert(n <= QR_LANES_MAX, "orders of QR_LANES"); \
    static void KERNEL(qr_lanes_##n)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) { \
        qr_lanes_square(call, first, last, cold, n); \
    }
#define CHOLESKY_LANES(n) \
    _Static_assert(n * n <= CHOLESKY_WORKSPACE, "orders of CHOLESKY_LANES"); \
    static void KERNEL(cholesky_lanes_##n)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) { \
        cholesky_lanes(call, first, last, cold, n); \
    }
#define SVD_LANES(n) \
    _Static_assert(n <= SVD_FEW, "orders of SVD_LANES"); \
    static void KERNEL(svd_lanes_##n)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) { \
        svd_lanes_few(call, first, last, cold, n, true); \
    } \
    static void KERNEL(svdvals_lanes_##n)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) { \
        svd_lanes_few(call, first, last, cold, n, false); \
    }
#include "../defs/tuning.def"

/* In every build, for no other kernels take these orders. */
#define EIGH_JACOBI(n) \
    _Static_assert(n <= SMM_JACOBI_MAX, "orders of EIGH_JACOBI"); \
    static void KERNEL(eigh_jacobi_##n)(const smm_call *call, intptr_t first, intptr_t last, smm_prefetch *cold) { \
        eigh_jacobi(call, first, last, cold, n); \
    }
EIGH_JACOBI(1)
EIGH_JACOBI(2)
EIGH_JACOBI(3)
EIGH_JACOBI(4)

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define GROUPED(group, stem, m, k, n, needs, cold) {TEXT(KERNEL(stem)), m, k, n, KERNEL(stem), needs, cold, group, NULL}
#define ROW(...) GROUPED(0, __VA_ARGS__)
/* A kernel of any order, which says how much workspace it takes. */
#define WITH_WORKSPACE(stem, needs, cold, workspace) \
    {TEXT(KERNEL(stem)), 0, 0, 0, KERNEL(stem), needs, cold, 0, workspace}
/* Lists of one kernel, which takes anything. */
#define ONE(stem, cold) static const smm_kernel stem##_list[] = {WITH_WORKSPACE(stem, any_needs, cold, NULL)}
#define ONE_WITH_WORKSPACE(stem) \
    static const smm_kernel stem##_list[] = {WITH_WORKSPACE(stem, any_needs, COLD, KERNEL(stem##_workspace))}

/* From how many bytes on most kernels prefetch. Those of complex numbers do not, but for what is packed. */
#define COLD (PARTS == 1 ? SMM_BEYOND_L2 : SMM_MEMORY)

#if defined(REAL_DTYPE)
/* Few columns leave most lanes of a row empty. From some depth on blocks of A by columns are better (matmul_vector.h):
 * 1.2 to 2 times as fast at order 24 (AMD EPYC family 25 model 17, November 2026). */
static unsigned complex_rows_needs(const smm_call *call) {
    const bool few = 4 * PARTS * call->n <= LANES && call->k > 4 + (intptr_t)sizeof(T);
    return few ? SMM_UNFIT : rows_needs(call);
}

static const smm_kernel matmul_list[] = {
    GROUPED(SMM_GROUP * 4, matmul_vector, 0, 0, 0, vector_needs, SMM_BEYOND_L2),
    GROUPED(SMM_GROUP * 4, matmul_rows, 0, 0, 0, complex_rows_needs, SMM_MEMORY),
    GROUPED(SMM_GROUP * 4, matmul_pairs, 0, 0, 0, pairs_needs, SMM_MEMORY),
};

static const smm_kernel lu_list[] = {
    /* LU, SOLVE, INV */
    ROW(lu_lanes, 0, 0, 0, lu_complex_needs, SMM_MEMORY),
    WITH_WORKSPACE(lu_panels, any_needs, SMM_MEMORY, KERNEL(lu_panels_workspace)),
};
static const smm_kernel det_list[] = {
    ROW(det_lanes, 0, 0, 0, lu_complex_needs, SMM_MEMORY),
    WITH_WORKSPACE(lu_panels, any_needs, SMM_MEMORY, KERNEL(lu_panels_workspace)),
};
#define inv_list lu_list
#define solve_list lu_list
#else
/* Groups of products, on AVX2 of 2 KB: up to 15 % faster out of cache at f32 than 1 KB, as fast at f64 (AMD Zen 3).
 * Smaller where a call costs nothing, larger where it begins with computing index vectors, or with finding its way
 * through any shape (AMD Zen 5, out of cache, November 2026: up to 1.4 times as fast as in groups of one). */
enum {
    GROUP = VECTOR_REGISTERS < 32 ? 2 * SMM_GROUP : SMM_GROUP,
    SMALL_GROUP = GROUP / 2,
    LARGE_GROUP = GROUP * 3 / 2,
    LARGEST_GROUP = SMM_GROUP * 4
};

/* From how many bytes products of constant order prefetch, and vectors take one matrix at a time. On AVX2 what the last
 * cache holds comes soon enough: prefetching 2 to 4 MB cost 10-25 %, 12 MB nothing from order 12 on, and orders 2 to 4
 * gained 20-30 % by it; vectors took 1.2 to 3 times as long for 3 MB one matrix at a time, half as long for 20 MB. Any
 * shape still lost 10-35 % at 12 MB (AMD Zen 3, November 2026). On AVX-512 any shape lost 5-25 % at 3 to 12 MB, gained
 * as much as it lost at 20, and B by columns gained 10-50 % there (Zen 5); vectors above order 9 are up to 20 % faster
 * one matrix at a time (Xeon, family 6 model 207). */
#define CONSTANT_COLD (VECTOR_REGISTERS < 32 ? 4 * SMM_BEYOND_L2 : SMM_BEYOND_L2)
#define ANY_COLD (VECTOR_REGISTERS < 32 ? SMM_MEMORY : SMM_MEMORY * 2 / 3)

static const smm_kernel matmul_list[] = {
#define MATMUL_VECTOR_LANES(n) ROW(matmul_vector_lanes_##n, n, n, 1, vector_lanes_needs, CONSTANT_COLD),
#define MATMUL_VECTOR_LEFT(n) ROW(matmul_vector_left_##n, 1, n, n, vector_lanes_needs, CONSTANT_COLD),
#define MATMUL_PERMUTE(n) GROUPED(LARGE_GROUP, matmul_permute_##n, n, n, n, permute_needs, SMM_BEYOND_L2),
#define MATMUL_GROUP(n, width) \
    GROUPED(n == 4 ? SMALL_GROUP : GROUP, matmul_group_##n, n, n, n, group_needs, SMM_BEYOND_L2),
#define MATMUL_ROWS(n, height, width) GROUPED(GROUP, matmul_rows_##n, n, n, n, rows_square_needs, CONSTANT_COLD),
#include "../defs/tuning.def"
    GROUPED(GROUP, matmul_scalars, 1, 1, 1, any_needs, SMM_MEMORY),
    ROW(matmul_vector_lanes, 0, 0, 1, vector_lanes_needs, CONSTANT_COLD),
#if defined(SMM_KERNELS_AVX512) || defined(SMM_KERNELS_AVX2)
    GROUPED(LARGE_GROUP, matmul_permute, 0, 0, 0, permute_needs, SMM_BEYOND_L2),
#endif
    GROUPED(LARGEST_GROUP, matmul_vector, 0, 0, 0, vector_needs, SMM_BEYOND_L2),
    GROUPED(LARGEST_GROUP, matmul_rows, 0, 0, 0, rows_needs, ANY_COLD),
    GROUPED(GROUP, matmul_strided, 0, 0, 0, any_needs, SMM_MEMORY),
};

static const smm_kernel inv_list[] = {
#define INV_LANES(n, groups) ROW(inv_lanes_##n, 0, 0, n, any_needs, SMM_BEYOND_L2),
#include "../defs/tuning.def"
    ROW(inv_panels, 0, 0, 0, any_needs, SMM_BEYOND_L2),
};

static const smm_kernel lu_list[] = {
#define LU_LANES(height, groups) ROW(lu_lanes_##height, 0, 0, 0, lu_lanes_##height##_needs, SMM_BEYOND_L2),
#include "../defs/tuning.def"
    WITH_WORKSPACE(lu_panels, any_needs, SMM_BEYOND_L2, KERNEL(lu_panels_workspace)),
};

static const smm_kernel solve_list[] = {
#define SOLVE_LANES(height, groups) ROW(solve_lanes_##height, 0, 0, 0, lu_lanes_##height##_needs, SMM_BEYOND_L2),
#define LU_LANES SOLVE_LANES
#include "../defs/tuning.def"
    WITH_WORKSPACE(lu_panels, any_needs, SMM_BEYOND_L2, KERNEL(lu_panels_workspace)),
};

static const smm_kernel det_list[] = {
#define SOLVE_LANES(height, groups) ROW(det_lanes_##height, 0, 0, 0, lu_lanes_##height##_needs, SMM_BEYOND_L2),
#define LU_LANES SOLVE_LANES
#include "../defs/tuning.def"
    WITH_WORKSPACE(lu_panels, any_needs, SMM_BEYOND_L2, KERNEL(lu_panels_workspace)),
};

#endif

static const smm_kernel qr_list[] = {
/* QR, QR_R, QR_RAW */
#define QR_LANES(n) ROW(qr_lanes_##n, n, n, n, any_needs, COLD),
#include "../defs/tuning.def"
    ROW(qr_single, 0, 0, 0, qr_single_needs, COLD),
    ROW(qr_lanes, 0, 0, 0, any_needs, COLD),
};

static const smm_kernel eigh_list[] = {
    ROW(eigh_jacobi_1, 0, 0, 1, any_needs, COLD),       ROW(eigh_jacobi_2, 0, 0, 2, any_needs, COLD),
    ROW(eigh_jacobi_3, 0, 0, 3, any_needs, COLD),       ROW(eigh_jacobi_4, 0, 0, 4, any_needs, COLD),
    ROW(eigh_single, 0, 0, 0, eigh_single_needs, COLD), ROW(eigh_lanes, 0, 0, 0, eigh_lanes_needs, COLD),
};

static const smm_kernel eigvalsh_list[] = {
    ROW(eigh_jacobi_1, 0, 0, 1, any_needs, COLD),           ROW(eigh_jacobi_2, 0, 0, 2, any_needs, COLD),
    ROW(eigh_jacobi_3, 0, 0, 3, any_needs, COLD),           ROW(eigh_jacobi_4, 0, 0, 4, any_needs, COLD),
    ROW(eigvalsh_single, 0, 0, 0, eigh_single_needs, COLD), ROW(eigvalsh_lanes, 0, 0, 0, eigh_lanes_needs, COLD),
};

static const smm_kernel svd_list[] = {
/* SVD, SVD_FULL */
#define SVD_LANES(n) ROW(svd_lanes_##n, n, 0, n, any_needs, COLD),
#include "../defs/tuning.def"
    WITH_WORKSPACE(svd_lanes, svd_jacobi_needs, COLD, KERNEL(svd_lanes_workspace)),
    ROW(svd_single, 0, 0, 0, svd_single_needs, COLD),
    WITH_WORKSPACE(svd_bidiagonal, svd_bidiagonal_needs, COLD, KERNEL(svd_bidiagonal_workspace)),
};

static const smm_kernel svdvals_list[] = {
#define SVD_LANES(n) ROW(svdvals_lanes_##n, n, 0, n, any_needs, COLD),
#include "../defs/tuning.def"
    WITH_WORKSPACE(svd_lanes, svd_jacobi_needs, COLD, KERNEL(svd_lanes_workspace)),
    ROW(svd_single, 0, 0, 0, svd_single_needs, COLD),
    WITH_WORKSPACE(svdvals_bidiagonal, svd_bidiagonal_needs, COLD, KERNEL(svd_bidiagonal_workspace)),
};

static const smm_kernel cholesky_list[] = {
#define CHOLESKY_LANES(n) ROW(cholesky_lanes_##n, 0, 0, n, any_needs, COLD),
#include "../defs/tuning.def"
    ROW(cholesky_single, 0, 0, 0, cholesky_single_needs, COLD),
    ROW(cholesky_lanes, 0, 0, 0, any_needs, COLD),
};

ONE(lu_solve_lanes, COLD);
ONE(triangular_lanes, COLD); /* CHO_SOLVE, SOLVE_TRIANGULAR */
ONE(solve_pos_lanes, COLD);
ONE(ldl_lanes, SMM_MEMORY);
ONE(ldl_solve_lanes, SMM_MEMORY);
ONE(solve_sym_lanes, SMM_MEMORY);
static const smm_kernel eig_list[] = {
    ROW(eig_single, 0, 0, 0, eig_single_needs, SMM_MEMORY),
    ROW(eig_lanes, 0, 0, 0, any_needs, SMM_MEMORY),
};
static const smm_kernel eigvals_list[] = {
    ROW(eigvals_single, 0, 0, 0, eigvals_single_needs, SMM_MEMORY),
    ROW(eigvals_lanes, 0, 0, 0, any_needs, SMM_MEMORY),
};
static const smm_kernel schur_list[] = {
    ROW(schur_single, 0, 0, 0, eig_single_needs, SMM_MEMORY),
    ROW(schur_lanes, 0, 0, 0, any_needs, SMM_MEMORY),
};
static const smm_kernel sqrtm_list[] = {
    ROW(sqrtm_single, 0, 0, 0, sqrtm_single_needs, SMM_MEMORY),
    ROW(sqrtm_lanes, 0, 0, 0, any_needs, SMM_MEMORY),
};
ONE_WITH_WORKSPACE(tridiagonal_lanes);
ONE_WITH_WORKSPACE(banded_lanes);
ONE_WITH_WORKSPACE(banded_pos_lanes);
ONE_WITH_WORKSPACE(expm_lanes);
ONE_WITH_WORKSPACE(lstsq_lanes);
static const smm_kernel lu_rcond_list[] = {
    WITH_WORKSPACE(lu_rcond_lanes, any_needs, SMM_MEMORY, KERNEL(refinement_workspace))};
static const smm_kernel backward_error_list[] = {
    WITH_WORKSPACE(backward_error_lanes, any_needs, SMM_MEMORY, KERNEL(refinement_workspace))};
static const smm_kernel refine_list[] = {
    WITH_WORKSPACE(refine_lanes, any_needs, SMM_MEMORY, KERNEL(refinement_workspace))};
#if defined(SMM_KERNELS_F64) && !defined(REAL_DTYPE)
ONE_WITH_WORKSPACE(solve_mixed_lanes);
#endif

#define LIST(x) {x, sizeof x / sizeof *x}
const smm_kernels NAME(kernels, ISA, DTYPE) = {
    .lists = {[SMM_OP_MATMUL] = LIST(matmul_list),
              [SMM_OP_CHOLESKY] = LIST(cholesky_list),
              [SMM_OP_CHO_SOLVE] = LIST(triangular_lanes_list),
              [SMM_OP_SOLVE_TRIANGULAR] = LIST(triangular_lanes_list),
              [SMM_OP_INV] = LIST(inv_list),
              [SMM_OP_LU] = LIST(lu_list),
              [SMM_OP_SOLVE] = LIST(solve_list),
              [SMM_OP_DET] = LIST(det_list),
              [SMM_OP_SLOGDET] = LIST(det_list),
              [SMM_OP_LU_SOLVE] = LIST(lu_solve_lanes_list),
              [SMM_OP_QR] = LIST(qr_list),
              [SMM_OP_QR_R] = LIST(qr_list),
              [SMM_OP_QR_RAW] = LIST(qr_list),
              [SMM_OP_LSTSQ] = LIST(lstsq_lanes_list),
              [SMM_OP_EIGH] = LIST(eigh_list),
              [SMM_OP_EIGVALSH] = LIST(eigvalsh_list),
              [SMM_OP_EIG] = LIST(eig_list),
              [SMM_OP_EIGVALS] = LIST(eigvals_list),
              [SMM_OP_SCHUR] = LIST(schur_list),
              [SMM_OP_SQRTM] = LIST(sqrtm_list),
              [SMM_OP_EXPM] = LIST(expm_lanes_list),
              [SMM_OP_SVD] = LIST(svd_list),
              [SMM_OP_SVD_FULL] = LIST(svd_list),
              [SMM_OP_SVDVALS] = LIST(svdvals_list),
              [SMM_OP_SOLVE_POS] = LIST(solve_pos_lanes_list),
              [SMM_OP_SOLVE_TRIDIAGONAL] = LIST(tridiagonal_lanes_list),
              [SMM_OP_SOLVE_BANDED] = LIST(banded_lanes_list),
              [SMM_OP_SOLVEH_BANDED] = LIST(banded_pos_lanes_list),
              [SMM_OP_LDL] = LIST(ldl_lanes_list),
              [SMM_OP_LDL_SOLVE] = LIST(ldl_solve_lanes_list),
              [SMM_OP_SOLVE_SYM] = LIST(solve_sym_lanes_list),
              [SMM_OP_LU_RCOND] = LIST(lu_rcond_list),
              [SMM_OP_BACKWARD_ERROR] = LIST(backward_error_list),
#if defined(SMM_KERNELS_F64) && !defined(REAL_DTYPE)
              [SMM_OP_SOLVE_MIXED] = LIST(solve_mixed_lanes_list),
#endif
              [SMM_OP_REFINE] = LIST(refine_list)},
    .lanes = LANES,
    .pack = KERNEL(pack),
    .unpack = KERNEL(unpack),
    .scale = KERNEL(scale),
    .add = KERNEL(add),
    .stream = KERNEL(stream),
    .map = KERNEL(map),
    .parts = {TEXT(KERNEL(parts_lanes)), KERNEL(parts_reduce), KERNEL(parts_substitute)},
#if defined(SMM_KERNELS_F32) && !defined(REAL_DTYPE)
#define STORED(x, TYPE, type, ...) [SMM_##TYPE - SMM_COMPUTED_TYPES] = {KERNEL(widen_##type), KERNEL(narrow_##type)},
    .stored = {SMM_STORED(STORED, _)},
#endif
};

#if defined(__clang__) && (defined(SMM_KERNELS_AVX2) || defined(SMM_KERNELS_AVX512)) /* as lane_*.h began */
#pragma clang attribute pop
#endif
