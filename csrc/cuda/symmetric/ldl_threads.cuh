/* ldl_threads.cuh: L D L^T of real matrices. The contract is that of ldl_call.cuh. */
#include "common.cuh"
#include "lanes.cuh"
#include "ldl_of_reals.cuh"

typedef InMemory Stored;
#include "ldl_call.cuh"
