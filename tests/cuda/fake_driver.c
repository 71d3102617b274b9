/* A CUDA driver that finds one GPU and runs nothing, for tests of what is said where something is missing.
 * FAKE_INIT is the answer of cuInit, FAKE_CC the compute capability, FAKE_CUDA the driver's version. */
#include <stddef.h>
#include <stdlib.h>

static int setting(const char *name, int otherwise) {
    const char *text = getenv(name);
    return text ? atoi(text) : otherwise;
}

/* Those with an answer of their own, below, get another name in the list of all. */
#define cuInit other_init
#define cuDeviceGetCount other_count
#define cuDeviceGetAttribute other_attribute
#define cuDriverGetVersion other_version
#define cuModuleLoadData other_load
#define SMM_CUDA_FUNCTION(symbol, name, parameters) \
    int symbol parameters { return 0; }
#include "../../csrc/cuda/functions.def"
#undef cuInit
#undef cuDeviceGetCount
#undef cuDeviceGetAttribute
#undef cuDriverGetVersion
#undef cuModuleLoadData

int cuInit(unsigned flags) { return flags + setting("FAKE_INIT", 0); }

int cuDeviceGetCount(int *count) {
    *count = 1;
    return 0;
}

int cuDeviceGetAttribute(int *value, int attribute, __attribute__((unused)) int device) {
    enum { MAJOR = 75, MINOR = 76 };
    const int capability = setting("FAKE_CC", 90);
    *value = attribute == MAJOR ? capability / 10 : attribute == MINOR ? capability % 10 : 200 << 10;
    return 0;
}

int cuDriverGetVersion(int *version) {
    *version = setting("FAKE_CUDA", 99000);
    return 0;
}

int cuModuleLoadData(void **module, const void *image) {
    enum { INVALID_IMAGE = 200 };
    *module = NULL;
    return image ? INVALID_IMAGE : 0;
}
