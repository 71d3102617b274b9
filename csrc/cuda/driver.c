/* driver.c: opens the CUDA driver and NVRTC when first needed, and keeps the devices' primary contexts. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cuda.h"

static _Thread_local char message[1024];

const char *smm_cuda_message(void) { return message; }

smm_cuda_status smm_cuda_fail(smm_cuda_status status, const char *format, ...) {
    va_list words;
    va_start(words, format);
    vsnprintf(message, sizeof message, format, words);
    va_end(words);
    return status;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static smm_cuda_functions driver;
static smm_nvrtc_functions nvrtc;
static bool driver_open, nvrtc_open;
static char nvrtc_path[4096];

typedef struct symbol {
    const char *name;
    size_t offset;
} symbol;

static const symbol driver_symbols[] = {
#define SMM_CUDA_FUNCTION(symbol, name, parameters) {#symbol, offsetof(smm_cuda_functions, name)},
#include "functions.def"
#undef SMM_CUDA_FUNCTION
    {NULL, 0},
};
static const symbol nvrtc_symbols[] = {
#define SMM_NVRTC_FUNCTION(symbol, name, parameters) {#symbol, offsetof(smm_nvrtc_functions, name)},
#include "functions.def"
#undef SMM_NVRTC_FUNCTION
    {NULL, 0},
};

/* Open the first of the named libraries that is there; dlopen's reason for the first name, if none. */
static void *open_any(const char *const *names, const char **tried) {
    static _Thread_local char reason[512];
    reason[0] = 0;
    for (; *names; names++) {
        void *library = **names ? dlopen(*names, RTLD_NOW | RTLD_LOCAL) : NULL;
        if (library) return library;
        if (**names && !reason[0]) snprintf(reason, sizeof reason, "%s", dlerror());
    }
    *tried = reason;
    return NULL;
}

/* Returns the name of the first symbol that the library lacks, or NULL. */
static const char *resolve(void *library, const symbol *symbols, void *table) {
    for (; symbols->name; symbols++) {
        void *function = dlsym(library, symbols->name);
        if (!function) return symbols->name;
        memcpy((char *)table + symbols->offset, &function, sizeof function);
    }
    return NULL;
}

static smm_cuda_status open_driver(void) {
    const char *reason = "";
    void *library = open_any((const char *const[]){"libcuda.so.1", "libcuda.so", NULL}, &reason);
    if (!library)
        return smm_cuda_fail(SMM_CUDA_UNAVAILABLE, "no CUDA driver (%s); install the NVIDIA driver 525 or newer",
                             reason);
    const char *missing = resolve(library, driver_symbols, &driver);
    if (missing)
        return smm_cuda_fail(SMM_CUDA_UNAVAILABLE,
                             "the CUDA driver has no %s; install the NVIDIA driver 525 or newer (CUDA 12)", missing);
    const int error = driver.init(0);
    if (error) {
        const char *text = "unknown error";
        driver.error_text(error, &text);
        return smm_cuda_fail(
            SMM_CUDA_UNAVAILABLE,
            "the CUDA driver finds no usable GPU (cuInit: %s, error %d); nvidia-smi lists those that are there", text,
            error);
    }
    driver_open = true;
    return SMM_CUDA_OK;
}

smm_cuda_status smm_cuda_driver(const smm_cuda_functions **functions) {
    pthread_mutex_lock(&lock);
    const smm_cuda_status status = driver_open ? SMM_CUDA_OK : open_driver();
    pthread_mutex_unlock(&lock);
    *functions = &driver;
    return status;
}

void smm_cuda_set_nvrtc_path(const char *path) {
    pthread_mutex_lock(&lock);
    const bool fits = path && strlen(path) < sizeof nvrtc_path;
    strcpy(nvrtc_path, fits ? path : "");
    pthread_mutex_unlock(&lock);
}

static smm_cuda_status open_nvrtc(void) {
    const char *reason = "";
    void *library =
        open_any((const char *const[]){nvrtc_path, "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", NULL}, &reason);
    if (!library)
        return smm_cuda_fail(SMM_CUDA_UNAVAILABLE,
                             "no NVRTC, the run-time compiler of CUDA (%s); "
                             "install it with: pip install 'smallmm[cuda]'",
                             reason);
    const char *missing = resolve(library, nvrtc_symbols, &nvrtc);
    if (missing)
        return smm_cuda_fail(SMM_CUDA_UNAVAILABLE,
                             "NVRTC has no %s; install CUDA 12 or newer: pip install "
                             "'smallmm[cuda]'",
                             missing);
    nvrtc_open = true;
    return SMM_CUDA_OK;
}

smm_cuda_status smm_cuda_nvrtc(const smm_nvrtc_functions **functions) {
    pthread_mutex_lock(&lock);
    const smm_cuda_status status = nvrtc_open ? SMM_CUDA_OK : open_nvrtc();
    pthread_mutex_unlock(&lock);
    *functions = &nvrtc;
    return status;
}

smm_cuda_status smm_cuda_check(int error, const char *what) {
    enum { OUT_OF_MEMORY = 2 };
    if (!error) return SMM_CUDA_OK;
    const char *name = "unknown", *text = "";
    driver.error_name(error, &name);
    driver.error_text(error, &text);
    return smm_cuda_fail(error == OUT_OF_MEMORY ? SMM_CUDA_MEMORY : SMM_CUDA_FAILED, "%s: %s (%s)", what, name, text);
}

smm_cuda_status smm_cuda_device_of(const void *address, int *ordinal) {
    enum { DEVICE_ORDINAL = 9 }; /* CUpointer_attribute */
    const smm_cuda_functions *functions;
    const smm_cuda_status status = smm_cuda_driver(&functions);
    if (status) return status;
    return smm_cuda_check(driver.pointer_attribute(ordinal, DEVICE_ORDINAL, (uintptr_t)address),
                          "cuPointerGetAttribute");
}

static smm_cuda_status open_device(int ordinal, smm_cuda_device *device) {
    enum { MULTIPROCESSORS = 16, INTEGRATED = 18, MAJOR = 75, MINOR = 76, SHARED_OPTIN = 97 }; /* CUdevice_attribute */
    int count = 0, handle, major, minor;
    smm_cuda_status status = smm_cuda_check(driver.device_count(&count), "cuDeviceGetCount");
    if (status) return status;
    if (ordinal < 0 || ordinal >= count || ordinal >= SMM_CUDA_DEVICES)
        return smm_cuda_fail(SMM_CUDA_UNAVAILABLE,
                             "no CUDA device %d; the driver sees %d (CUDA_VISIBLE_DEVICES may hide some)", ordinal,
                             count);
    if ((status = smm_cuda_check(driver.device_get(&handle, ordinal), "cuDeviceGet")) ||
        (status = smm_cuda_check(driver.device_attribute(&major, MAJOR, handle), "cuDeviceGetAttribute")) ||
        (status = smm_cuda_check(driver.device_attribute(&minor, MINOR, handle), "cuDeviceGetAttribute")) ||
        (status = smm_cuda_check(driver.device_attribute(&device->shared_memory, SHARED_OPTIN, handle),
                                 "cuDeviceGetAttribute")) ||
        (status = smm_cuda_check(driver.device_attribute(&device->multiprocessors, MULTIPROCESSORS, handle),
                                 "cuDeviceGetAttribute")) ||
        (status = smm_cuda_check(driver.device_attribute(&device->integrated, INTEGRATED, handle),
                                 "cuDeviceGetAttribute")) ||
        (status = smm_cuda_check(driver.device_name(device->name, sizeof device->name, handle), "cuDeviceGetName")))
        return status;
    device->arch = 10 * major + minor;
    if (device->arch < 80)
        return smm_cuda_fail(SMM_CUDA_UNAVAILABLE,
                             "%s has compute capability %d.%d; a GPU of 8.0 or newer (A100 and later) is needed",
                             device->name, major, minor);
    return smm_cuda_check(driver.context_retain(&device->context, handle), "cuDevicePrimaryCtxRetain");
}

smm_cuda_status smm_cuda_get_device(int ordinal, const smm_cuda_device **device) {
    static smm_cuda_device devices[SMM_CUDA_DEVICES];
    static _Atomic bool open[SMM_CUDA_DEVICES];
    const smm_cuda_functions *functions;
    const bool valid = ordinal >= 0 && ordinal < SMM_CUDA_DEVICES;
    if (valid && open[ordinal]) {
        *device = &devices[ordinal];
        return SMM_CUDA_OK;
    }
    smm_cuda_status status = smm_cuda_driver(&functions);
    if (status) return status;
    pthread_mutex_lock(&lock);
    if (!valid || !open[ordinal]) {
        smm_cuda_device opened = {0};
        status = open_device(ordinal, &opened);
        if (!status) {
            devices[ordinal] = opened;
            open[ordinal] = true;
        }
    }
    pthread_mutex_unlock(&lock);
    if (!status) *device = &devices[ordinal];
    return status;
}

smm_cuda_status smm_cuda_enter(int ordinal, smm_cuda_entered *x) {
    void *current = NULL;
    *x = (smm_cuda_entered){.driver = &driver};
    smm_cuda_status status = smm_cuda_get_device(ordinal, &x->device); /* which opens the driver */
    if (status || (!driver.context_current(&current) && current == x->device->context)) return status;
    status = smm_cuda_check(driver.context_push(x->device->context), "cuCtxPushCurrent");
    x->pushed = !status;
    return status;
}

void smm_cuda_leave(const smm_cuda_entered *x) {
    if (x->pushed) driver.context_pop(&(void *){NULL});
}

smm_cuda_status smm_cuda_count(int *count) {
    const smm_cuda_functions *functions;
    const smm_cuda_status status = smm_cuda_driver(&functions);
    return status ? status : smm_cuda_check(functions->device_count(count), "cuDeviceGetCount");
}
