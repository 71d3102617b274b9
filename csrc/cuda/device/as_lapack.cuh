/* as_lapack.cuh: what the form LAPACK of LU and LU_SOLVE changes. Rows count from FIRST_ROW; and LU goes on after a
 * pivot of zero, as LAPACK's getrf does, so that the factors of singular matrices are of use. Whoever includes it has
 * Elements (element.cuh). */

constexpr bool AS_LAPACK = SMM_FORM & 1024; /* SMM_LAPACK */
constexpr int FIRST_ROW = AS_LAPACK;
constexpr bool CONTINUES = AS_LAPACK && SMM_OP == SMM_OP_LU;

/* Whether a step with that pivot is one that info tells. */
__device__ inline bool fails(Element pivot) { return CONTINUES ? is_zero(pivot) : is_useless(pivot); }
/* What divides the column below: all of that is zero if the pivot is. */
__device__ inline Element divisor_of(Element pivot) {
    return CONTINUES ? select(is_zero(pivot), element_of(1), pivot) : pivot;
}
