/* gpu.cpp: a CUDA driver and an NVRTC that compile kernels for the CPU and run them there, for tests without a GPU.
 *
 * What runs is the texts of csrc/cuda with ptx.cuh exchanged, by plans and launches as on a GPU: its memory is the
 * CPU's. Each thread of a block is a context with a stack of its own; blocks run one after the other, the threads of a
 * block in turns, in descending order if EMULATED_ORDER says so. What a GPU does not forgive ends the process and says
 * why: addresses that are not aligned, copies that nobody waited for, writes beyond a block's shared memory, exchanges
 * in different lines of the text, and threads that wait for ever. EMULATED_HEADERS is this folder, EMULATED_FOLDER one
 * for what is compiled, EMULATED_CC the compute capability, EMULATED_NAME what the device is called. */
#include <dlfcn.h>
#include <sys/stat.h>
#include <ucontext.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "../../../csrc/cuda/args.h"

static const char *setting(const char *name, const char *otherwise) {
    const char *text = getenv(name);
    return text ? text : otherwise;
}

/* --- a block of threads --- */

enum { SHARED = 227 << 10, STACK = 256 << 10, EMPTY = 0xff };

struct Index {
    unsigned x;
};
struct Copy {
    void *to;
    const void *from;
    int bytes;
};
/* Threads that wait for each other: a block, a warp, or a part of one. What they exchange comes in turns to one of two
 * places, since of the last exchange somebody may still read. */
struct Group {
    int alive = 0, waiting = 0, line = 0;
    unsigned times = 0;
    char exchanged[2][32 * 8];
};
struct Thread {
    ucontext_t context;
    std::vector<char> stack = std::vector<char>(STACK);
    bool done = true;
    const Group *awaited = nullptr;
    unsigned times = 0; /* of the group when it began to wait */
    std::vector<Copy> copies;
};
extern "C" {
Index threadIdx, blockIdx, gridDim;
alignas(1024) char emulated_shared[SHARED];
void emulated_fail(const char *what);
}
static std::vector<Thread> threads;
static std::vector<std::map<unsigned, Group>> warps; /* by which threads of the warp */
static Group block;
constexpr unsigned WARP = 0xffffffff;
static ucontext_t scheduler;
static void (*kernel)(smm_cuda_args);
static const smm_cuda_args *arguments;

static Thread &current() { return threads[threadIdx.x]; }

extern "C" {
void emulated_fail(const char *what) {
    fprintf(stderr, "emulated GPU, block %u, thread %u: %s\n", blockIdx.x, threadIdx.x, what);
    abort();
}
void emulated_yield() { swapcontext(&current().context, &scheduler); }
static void wait(Group &group, int line) {
    if (group.waiting && group.line != line) emulated_fail("threads wait in different lines");
    group.line = line;
    if (++group.waiting == group.alive) {
        group.waiting = 0;
        group.times++;
        return;
    }
    Thread &thread = current();
    thread.times = group.times;
    thread.awaited = &group;
    emulated_yield();
    thread.awaited = nullptr;
}
void emulated_wait_for_block(int line) { wait(block, line); }
const char *emulated_exchange(unsigned mask, const void *bytes, int count, int line) {
    Group &group = warps[threadIdx.x / 32][mask];
    if (!(mask >> threadIdx.x % 32 & 1)) emulated_fail("it takes part in what is not for it");
    if (mask != WARP) group.alive = __builtin_popcount(mask);
    char *all = group.exchanged[group.times % 2];
    memcpy(all + threadIdx.x % 32 * 8, bytes, count);
    wait(group, line);
    return all;
}
void emulated_copy_later(void *to, const void *from, int bytes) { current().copies.push_back({to, from, bytes}); }
void emulated_copies_done() {
    for (const Copy &copy : current().copies) memcpy(copy.to, copy.from, copy.bytes);
    current().copies.clear();
}
}

static void leave(Group &group) {
    group.alive--;
    if (group.waiting && group.waiting == group.alive) group.waiting = 0, group.times++;
}
static void run_thread() {
    kernel(*arguments);
    if (!current().copies.empty()) emulated_fail("copies that nobody waited for");
    current().done = true;
    leave(warps[threadIdx.x / 32][WARP]);
    leave(block);
    setcontext(&scheduler);
}

static void run_block(unsigned count, unsigned shared) {
    enum { PATIENCE = 1000000 };
    const bool descending = !strcmp(setting("EMULATED_ORDER", ""), "descending");
    memset(emulated_shared, EMPTY, sizeof emulated_shared);
    if (threads.size() < count) threads.resize(count);
    warps.assign((count + 31) / 32, {});
    block = Group();
    block.alive = count;
    for (unsigned i = 0; i < count; i++) {
        Thread &thread = threads[i];
        warps[i / 32][WARP].alive++;
        thread.done = false;
        thread.awaited = nullptr;
        getcontext(&thread.context);
        thread.context.uc_stack = {thread.stack.data(), 0, thread.stack.size()};
        thread.context.uc_link = nullptr;
        makecontext(&thread.context, run_thread, 0);
    }
    int rounds = 0;
    while (block.alive) {
        bool runs = false;
        for (unsigned i = 0; i < count; i++) {
            threadIdx.x = descending ? count - 1 - i : i;
            Thread &thread = current();
            if (thread.done || (thread.awaited && thread.awaited->times == thread.times)) continue;
            runs = true;
            swapcontext(&scheduler, &thread.context);
        }
        if (!runs || ++rounds > PATIENCE) emulated_fail("threads wait for ever");
    }
    for (unsigned i = shared; i < SHARED; i++)
        if (static_cast<unsigned char>(emulated_shared[i]) != EMPTY) emulated_fail("a write beyond the shared memory");
}

/* --- the driver --- */

/* Those with an answer of their own, below, get another name in the list of all. */
#define cuDriverGetVersion other_version
#define cuDeviceGetCount other_count
#define cuDeviceGetName other_name
#define cuDeviceGetAttribute other_attribute
#define cuPointerGetAttribute other_pointer_attribute
#define cuModuleLoadData other_load
#define cuModuleGetFunction other_function
#define cuOccupancyMaxActiveBlocksPerMultiprocessor other_occupancy
#define cuLaunchKernel other_launch
#define cuMemAllocAsync other_allocate
#define cuMemFreeAsync other_release
#define SMM_CUDA_FUNCTION(symbol, name, parameters) \
    extern "C" int symbol parameters { return 0; }
#include "../../../csrc/cuda/functions.def"
#undef SMM_CUDA_FUNCTION
#undef cuDriverGetVersion
#undef cuDeviceGetCount
#undef cuDeviceGetName
#undef cuDeviceGetAttribute
#undef cuPointerGetAttribute
#undef cuModuleLoadData
#undef cuModuleGetFunction
#undef cuOccupancyMaxActiveBlocksPerMultiprocessor
#undef cuLaunchKernel
#undef cuMemAllocAsync
#undef cuMemFreeAsync

static int compute_capability() { return atoi(setting("EMULATED_CC", "90")); }

extern "C" {
int cuDriverGetVersion(int *version) {
    *version = 13000;
    return 0;
}
int cuDeviceGetCount(int *count) {
    *count = 1;
    return 0;
}
int cuDeviceGetName(char *name, int length, int) {
    snprintf(name, length, "%s", setting("EMULATED_NAME", "emulated GPU"));
    return 0;
}
int cuDeviceGetAttribute(int *value, int attribute, int) {
    enum { MULTIPROCESSORS = 16, MAJOR = 75, MINOR = 76 };
    const int capability = compute_capability();
    *value = attribute == MULTIPROCESSORS ? 2
             : attribute == MAJOR         ? capability / 10
             : attribute == MINOR         ? capability % 10
                                          : int{SHARED};
    return 0;
}
int cuPointerGetAttribute(void *value, int, unsigned long long) {
    *static_cast<int *>(value) = 0;
    return 0;
}
/* An image is the path of a library. */
int cuModuleLoadData(void **module, const void *image) {
    *module = dlopen(static_cast<const char *>(image), RTLD_NOW | RTLD_LOCAL);
    if (!*module) fprintf(stderr, "%s\n", dlerror());
    return *module ? 0 : 200;
}
int cuModuleGetFunction(void **function, void *module, const char *name) {
    *function = dlsym(module, name);
    return *function ? 0 : 500;
}
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *, int, size_t) {
    *blocks = 1;
    return 0;
}
int cuLaunchKernel(void *function, unsigned grid, unsigned, unsigned, unsigned count, unsigned, unsigned,
                   unsigned shared, void *, void **given, void **) {
    kernel = reinterpret_cast<void (*)(smm_cuda_args)>(function);
    arguments = static_cast<const smm_cuda_args *>(given[0]);
    gridDim.x = grid;
    for (blockIdx.x = 0; blockIdx.x < grid; blockIdx.x++) run_block(count, shared);
    return 0;
}
int cuMemAllocAsync(unsigned long long *pointer, size_t bytes, void *) {
    void *const memory = aligned_alloc(256, (bytes + 255) / 256 * 256);
    *pointer = reinterpret_cast<unsigned long long>(memory);
    return memory ? 0 : 2;
}
int cuMemFreeAsync(unsigned long long pointer, void *) {
    free(reinterpret_cast<void *>(pointer));
    return 0;
}
}

/* --- NVRTC: what it gives for a cubin is the path of a library --- */

struct Program {
    std::string folder, log, path;
};

/* Shared memory of a size that the launch says is all there is; other shared arrays are one for all blocks. */
static std::string for_cpu(const std::string &text) {
    static const std::regex dynamic(R"(extern __shared__ __align__\(16\) (\w+) (\w+)\[\];)"), other("__shared__");
    const std::string once =
        std::regex_replace(text, dynamic, "$1 *const $2 = reinterpret_cast<$1 *>(emulated_shared);");
    return "#include \"device.h\"\n" + std::regex_replace(once, other, "static");
}

/* One word of a shell's command, whatever is in it. */
static std::string quoted(const std::string &word) {
    std::string all = "'";
    for (const char c : word) all += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return all + "'";
}

static std::string contents_of(const std::string &path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
}

extern "C" {
int nvrtcVersion(int *major, int *minor) {
    *major = 13, *minor = 0;
    return 0;
}
int nvrtcGetNumSupportedArchs(int *count) {
    *count = 1;
    return 0;
}
int nvrtcGetSupportedArchs(int *archs) {
    archs[0] = compute_capability();
    return 0;
}
int nvrtcCreateProgram(void **program, const char *text, const char *name, int headers, const char *const *header_texts,
                       const char *const *header_names) {
    static std::atomic<int> number;
    const std::string folder = setting("EMULATED_FOLDER", ".") + ("/" + std::to_string(number++) + "-" + name);
    mkdir(folder.c_str(), 0755);
    for (int i = 0; i < headers; i++)
        if (strcmp(header_names[i], "ptx.cuh"))
            std::ofstream(folder + "/" + header_names[i]) << for_cpu(header_texts[i]);
    std::ofstream(folder + "/kernel.cpp") << for_cpu(text);
    *program = new Program{folder, "", folder + "/kernel.so"};
    return 0;
}
int nvrtcCompileProgram(void *program, int count, const char *const *options) {
    Program &p = *static_cast<Program *>(program);
    Dl_info self;
    dladdr(reinterpret_cast<void *>(&emulated_fail), &self);
    std::string command = setting("CXX", "c++");
    command += " -shared -fPIC -O1 -w -std=gnu++17 -ffp-contract=off -fno-strict-aliasing -D__CUDA_ARCH__=" +
               std::to_string(10 * compute_capability()) + " -I" + quoted(setting("EMULATED_HEADERS", "."));
#if defined(__x86_64__)
    if (__builtin_cpu_supports("fma")) command += " -mfma";
#endif
    for (int i = 0; i < count; i++)
        if (!strncmp(options[i], "-D", 2)) command += " " + quoted(options[i]);
    const std::string log = p.folder + "/log";
    command += " " + quoted(p.folder + "/kernel.cpp") + " " + quoted(self.dli_fname) + " -o " + quoted(p.path) +
               " 2> " + quoted(log);
    const int error = system(command.c_str());
    p.log = contents_of(log);
    return error ? 6 : 0;
}
int nvrtcGetProgramLogSize(void *program, size_t *bytes) {
    *bytes = static_cast<Program *>(program)->log.size() + 1;
    return 0;
}
int nvrtcGetProgramLog(void *program, char *log) {
    strcpy(log, static_cast<Program *>(program)->log.c_str());
    return 0;
}
int nvrtcGetCUBINSize(void *program, size_t *bytes) {
    *bytes = static_cast<Program *>(program)->path.size() + 1;
    return 0;
}
int nvrtcGetCUBIN(void *program, char *cubin) {
    strcpy(cubin, static_cast<Program *>(program)->path.c_str());
    return 0;
}
int nvrtcGetPTXSize(void *, size_t *) { return 1; }
int nvrtcGetPTX(void *, char *) { return 1; }
int nvrtcDestroyProgram(void **program) {
    delete static_cast<Program *>(*program);
    return 0;
}
}
