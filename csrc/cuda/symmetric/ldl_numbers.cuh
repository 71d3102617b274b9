/* ldl_numbers.cuh: L D L^H of Hermitian matrices of complex numbers, L D L^T of symmetric ones. The contract is that of
 * ldl_call.cuh. */
#include "common.cuh"
#include "lanes.cuh"
#include "ldl_of_numbers.cuh"

typedef Number Stored;
#include "ldl_call.cuh"
