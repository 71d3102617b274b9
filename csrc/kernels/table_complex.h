/* table_complex.h: the kernels of this instruction set and complex type, a list per operation. Operations without a
 * list are not for complex numbers. */

static unsigned any_needs(const smm_call *call) {
    (void)call;
    return 0;
}

/* Few columns leave most lanes of a row empty. From some depth on blocks of A by columns are better (matmul_vector.h):
 * 1.2 to 2 times as fast at order 24 (AMD EPYC family 25 model 17, November 2026). */
static unsigned numbers_rows_needs(const smm_call *call) {
    const bool few = 4 * PARTS * call->n <= LANES && call->k > 4 + (intptr_t)sizeof(T);
    return few ? SMM_UNFIT : rows_needs(call);
}

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define ROW(stem, needs, group) {TEXT(KERNEL(stem)), 0, 0, 0, KERNEL(stem), needs, SMM_MEMORY, group, NULL}
#define LIST(stem) static const smm_kernel stem##_list[] = {ROW(stem, any_needs, 0)}

static const smm_kernel matmul_list[] = {
    ROW(matmul_rows, numbers_rows_needs, SMM_GROUP * 4),
    ROW(matmul_pairs, pairs_needs, SMM_GROUP * 4),
};
LIST(lu_numbers);
LIST(det_numbers);
LIST(lu_solve_numbers);
LIST(triangular_numbers);
LIST(cholesky_numbers);
LIST(solve_pos_numbers);
LIST(ldl_lanes);
LIST(ldl_solve_lanes);
LIST(solve_sym_lanes);
LIST(qr_numbers);
LIST(eigh_numbers);
LIST(eigvalsh_numbers);
LIST(eig_lanes);
LIST(eigvals_lanes);
#undef LIST

/* Kernels that say how much room they take. */
#define ROOMY(stem, needs, room) {TEXT(KERNEL(stem)), 0, 0, 0, KERNEL(stem), needs, SMM_MEMORY, 0, KERNEL(room)}
static const smm_kernel svd_list[] = {
    ROOMY(svd_numbers, svd_jacobi_needs, svd_numbers_room),
    ROOMY(svd_bidiagonal, svd_bidiagonal_needs, svd_bidiagonal_room),
};
static const smm_kernel svdvals_list[] = {
    ROOMY(svdvals_numbers, svd_jacobi_needs, svd_numbers_room),
    ROOMY(svdvals_bidiagonal, svd_bidiagonal_needs, svd_bidiagonal_room),
};
#define LIST(stem) static const smm_kernel stem##_list[] = {ROOMY(stem, any_needs, refinement_room)}
LIST(lu_rcond_lanes);
LIST(backward_error_lanes);
LIST(refine_lanes);
#undef LIST
static const smm_kernel lstsq_list[] = {ROOMY(lstsq_numbers, any_needs, lstsq_numbers_room)};
static const smm_kernel tridiagonal_list[] = {ROOMY(tridiagonal_numbers, any_needs, tridiagonal_numbers_room)};
static const smm_kernel banded_list[] = {ROOMY(banded_numbers, any_needs, banded_numbers_room)};
static const smm_kernel banded_pos_list[] = {ROOMY(banded_pos_numbers, any_needs, banded_pos_numbers_room)};
static const smm_kernel expm_list[] = {ROOMY(expm_lanes, any_needs, expm_lanes_room)};

#define LIST(stem) {stem##_list, sizeof stem##_list / sizeof *stem##_list}
const smm_kernels NAME(kernels, ISA, DTYPE) = {
    .lists = {[SMM_OP_MATMUL] = LIST(matmul),
              [SMM_OP_LU] = LIST(lu_numbers),
              [SMM_OP_SOLVE] = LIST(lu_numbers),
              [SMM_OP_INV] = LIST(lu_numbers),
              [SMM_OP_DET] = LIST(det_numbers),
              [SMM_OP_SLOGDET] = LIST(det_numbers),
              [SMM_OP_LU_SOLVE] = LIST(lu_solve_numbers),
              [SMM_OP_CHO_SOLVE] = LIST(triangular_numbers),
              [SMM_OP_SOLVE_TRIANGULAR] = LIST(triangular_numbers),
              [SMM_OP_CHOLESKY] = LIST(cholesky_numbers),
              [SMM_OP_SOLVE_POS] = LIST(solve_pos_numbers),
              [SMM_OP_SOLVE_TRIDIAGONAL] = LIST(tridiagonal),
              [SMM_OP_SOLVE_BANDED] = LIST(banded),
              [SMM_OP_SOLVEH_BANDED] = LIST(banded_pos),
              [SMM_OP_LDL] = LIST(ldl_lanes),
              [SMM_OP_LDL_SOLVE] = LIST(ldl_solve_lanes),
              [SMM_OP_SOLVE_SYM] = LIST(solve_sym_lanes),
              [SMM_OP_QR] = LIST(qr_numbers),
              [SMM_OP_QR_R] = LIST(qr_numbers),
              [SMM_OP_QR_RAW] = LIST(qr_numbers),
              [SMM_OP_LSTSQ] = LIST(lstsq),
              [SMM_OP_EIGH] = LIST(eigh_numbers),
              [SMM_OP_EIGVALSH] = LIST(eigvalsh_numbers),
              [SMM_OP_EIG] = LIST(eig_lanes),
              [SMM_OP_EIGVALS] = LIST(eigvals_lanes),
              [SMM_OP_EXPM] = LIST(expm),
              [SMM_OP_SVD] = LIST(svd),
              [SMM_OP_SVD_FULL] = LIST(svd),
              [SMM_OP_SVDVALS] = LIST(svdvals),
              [SMM_OP_LU_RCOND] = LIST(lu_rcond_lanes),
              [SMM_OP_BACKWARD_ERROR] = LIST(backward_error_lanes),
              [SMM_OP_REFINE] = LIST(refine_lanes)},
    .lanes = LANES,
    .pack = KERNEL(pack),
    .unpack = KERNEL(unpack),
    .scale = KERNEL(scale),
    .add = KERNEL(add),
    .stream = KERNEL(stream),
    .map = KERNEL(map),
    .parts = {TEXT(KERNEL(parts_lanes)), KERNEL(parts_reduce), KERNEL(parts_substitute)},
};

#if defined(__clang__) && (defined(SMM_KERNELS_AVX2) || defined(SMM_KERNELS_AVX512)) /* as lane_*.h began */
#pragma clang attribute pop
#endif
