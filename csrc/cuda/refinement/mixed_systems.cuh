/* mixed_systems.cuh: systems.cuh in one of the two precisions of mixed_lanes.cuh: what that includes once in a namespace
 * for each, with its type SMM_T. Of right-hand sides there is one at a time. */
#undef EACH
#undef EACH_STEP
#include "arithmetic.cuh"
typedef T InMemory;
#include "lanes.cuh"
#include "element.cuh"
#include "systems.cuh"
