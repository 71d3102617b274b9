/* stdint.h: what functions.h has from it, for NVRTC, which has no headers of its own. */
typedef int int32_t;
typedef unsigned uint32_t;
typedef unsigned long long uint64_t;
