/* gpu.cpp: a CUDA driver and an NVRTC that compile kernels for the CPU and run them there, for tests without a GPU.
 *
 * What runs is the texts of csrc/cuda with ptx.cuh exchanged, by plans and launches as on a GPU: its memory is the
 * CPU's. Each thread of a block is a context with a stack of its own; blocks run one after the other, the threads of a
 * block in turns. What a GPU does not forgive ends the process and says why: addresses that are not aligned, copies
 * that nobody waited for, writes beyond a block's shared memory, races (races.h), exchanges in different lines of the
 * text, and threads that wait for ever. EMULATED_HEADERS is this folder, EMULATED_COMPILER what compiles a kernel, with
 * its options, EMULATED_LINKER what makes a library of it, EMULATED_FOLDER a folder for that, EMULATED_KERNELS one for
 * libraries that other processes use, too, EMULATED_CC the compute capability, EMULATED_NAME what the device is called,
 * EMULATED_DEVICES how many there are, EMULATED_MEMORY the bytes that each has, EMULATED_BROKEN one whose launches
 * fail. The kernels of all streams run when they are launched; those of a graph when it is captured, and a launch of
 * the graph only takes their time. By the clock of events a block takes a microsecond, and more the further its number
 * of threads is from EMULATED_BEST.
 */
#undef _FORTIFY_SOURCE /* which takes jumps to another stack for errors */
#include <dlfcn.h>
#include <setjmp.h>
#include <sys/stat.h>
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

#include "../../../../csrc/cuda/args.h"

static const char *setting(const char *name, const char *otherwise) {
    const char *text = getenv(name);
    return text ? text : otherwise;
}

/* --- a block of threads --- */

enum { SHARED = 227 << 10, STACK = 256 << 10, EMPTY = 0xff };

struct Index {
    unsigned x;
};
extern "C" {
Index threadIdx, blockIdx, gridDim;
alignas(1024) char emulated_shared[SHARED];
void emulated_fail(const char *what);
}
#include "races.h"

struct Copy {
    void *to;
    const void *from;
    int bytes, set;
};
/* Threads that wait for each other: a block, a warp, or a part of one. What they exchange comes in turns to one of two
 * places, since of the last exchange somebody may still read. */
struct Group {
    int alive = 0, waiting = 0, line = 0;
    unsigned times = 0;
    char exchanged[2][32 * 8];
    Clock known[2], read[2]; /* how far each had come, who waits this time and who did the last time (races.h) */
    std::map<unsigned, int> against; /* by the time: how many vote so */
};
struct Thread {
    ucontext_t context; /* where it begins; later it is where it jumped away: swapcontext takes two system calls */
    jmp_buf place;
    bool begun = false;
    std::vector<char> stack = std::vector<char>(STACK);
    bool done = true;
    const Group *awaited = nullptr;
    unsigned times = 0; /* of the group when it began to wait */
    std::vector<Copy> copies;
    int sets = 0; /* of copies, that have ended */
};
static std::vector<Thread> threads;
static std::vector<std::map<unsigned, Group>> warps; /* by which threads of the warp */
static Group block;
constexpr unsigned WARP = 0xffffffff;
static jmp_buf scheduler;
/* Kernels take a structure of their own, by value: one that is as large as any may be, of which they know the first
 * bytes. */
struct Arguments {
    long long words[4096 / 8];
};
static void (*kernel)(Arguments);
static Arguments arguments;

static Thread &current() { return threads[threadIdx.x]; }

extern "C" {
void emulated_fail(const char *what) {
    fprintf(stderr, "emulated GPU, block %u, thread %u: %s\n", blockIdx.x, threadIdx.x, what);
    abort();
}
void emulated_yield() {
    if (!_setjmp(current().place)) _longjmp(scheduler, 1);
}
/* With `orders`, what was written to shared memory before is seen after. */
static void wait(Group &group, int line, bool orders) {
    check_rewritten();
    const unsigned me = threadIdx.x, now = group.times % 2;
    if (!group.waiting) group.known[now].assign(clocks.size(), 0), group.read[now].assign(clocks.size(), 0);
    if (orders) take_later(group.known[now], clocks[me]);
    take_later(group.read[now], clocks_of_reads[me]);
    clocks_of_reads[me][me] = ++clocks[me][me];
    if (group.waiting && group.line != line) emulated_fail("threads wait in different lines");
    group.line = line;
    if (++group.waiting == group.alive) {
        group.waiting = 0;
        group.times++;
    } else {
        Thread &thread = current();
        thread.times = group.times;
        thread.awaited = &group;
        emulated_yield();
        thread.awaited = nullptr;
    }
    if (orders) take_later(clocks[me], group.known[now]);
    take_later(clocks_of_reads[me], group.read[now]);
}
void emulated_wait_for_block(int line) { wait(block, line, true); }
bool emulated_all_of_block(bool x, int line) {
    const unsigned time = block.times;
    block.against[time] += !x;
    wait(block, line, true);
    return !block.against[time];
}
const char *emulated_exchange(unsigned mask, const void *bytes, int count, int line) {
    const bool orders = !count; /* __syncwarp */
    Group &group = warps[threadIdx.x / 32][mask];
    if (!(mask >> threadIdx.x % 32 & 1)) emulated_fail("it takes part in what is not for it");
    if (mask != WARP) group.alive = __builtin_popcount(mask);
    char *all = group.exchanged[group.times % 2];
    memcpy(all + threadIdx.x % 32 * 8, bytes, count);
    wait(group, line, orders);
    return all;
}
void emulated_copy_later(void *to, const void *from, int bytes) {
    note(to, bytes, true, __builtin_return_address(0)); /* it may begin at once, */
    current().copies.push_back({to, from, bytes, current().sets});
}
void emulated_end_of_copies() { current().sets++; }
void emulated_copies_done(int sets_left) {
    std::vector<Copy> &copies = current().copies;
    auto copy = copies.begin();
    for (; copy != copies.end() && copy->set < current().sets - sets_left; ++copy) {
        note(copy->to, copy->bytes, true, __builtin_return_address(0)); /* and end as late as now */
        memcpy(copy->to, copy->from, copy->bytes);
    }
    copies.erase(copies.begin(), copy);
}
}

static void leave(Group &group) {
    group.alive--;
    if (group.waiting && group.waiting == group.alive) group.waiting = 0, group.times++;
}
static void run_thread() {
    kernel(arguments);
    check_rewritten();
    if (!current().copies.empty()) emulated_fail("copies that nobody waited for");
    current().done = true;
    leave(warps[threadIdx.x / 32][WARP]);
    leave(block);
    _longjmp(scheduler, 1);
}
/* A function of its own: no variable of the caller changes between the two returns. */
__attribute__((noinline)) static void run_on(Thread &thread) {
    if (_setjmp(scheduler)) return;
    if (thread.begun) _longjmp(thread.place, 1);
    thread.begun = true;
    setcontext(&thread.context);
}

static void run_block(unsigned count, unsigned shared) {
    enum { PATIENCE = 1000000 };
    memset(emulated_shared, EMPTY, sizeof emulated_shared);
    if (threads.size() < count) threads.resize(count);
    warps.assign((count + 31) / 32, {});
    block = Group();
    block.alive = count;
    begin_races(count);
    for (unsigned i = 0; i < count; i++) {
        Thread &thread = threads[i];
        warps[i / 32][WARP].alive++;
        thread.done = thread.begun = false;
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
            threadIdx.x = i;
            Thread &thread = current();
            if (thread.done || (thread.awaited && thread.awaited->times == thread.times)) continue;
            runs = true;
            run_on(thread);
        }
        if (!runs || ++rounds > PATIENCE) emulated_fail("threads wait for ever");
    }
    for (unsigned i = shared; i < SHARED; i++)
        if (static_cast<unsigned char>(emulated_shared[i]) != EMPTY) emulated_fail("a write beyond the shared memory");
}

/* --- the driver --- */

/* What exists, by address, and the call that fails, if one shall: counted are those that may. */
struct Memory {
    size_t bytes;
    int device;
    bool pinned;
};
static std::mutex guard;
static std::map<unsigned long long, Memory> memories;
static int streams;
static long calls, fails_at = -1;
static int fails_with;
static thread_local std::vector<void *> contexts;
/* The time of all that was launched, and of what is being captured, in milliseconds; and the clock at each event. */
static double now, captured;
static bool capturing;
static std::map<void *, double> events, graphs;
static std::map<void *, int> argument_bytes; /* of each kernel */
static std::map<void *, std::pair<char *, char *>> shared_arrays;

extern "C" {
/* Have call number `at` from now on fail with an error; -1: none. */
void emulated_fail_at(long at, int error) {
    const std::lock_guard<std::mutex> held(guard);
    calls = 0, fails_at = at, fails_with = error;
}
long emulated_calls() { return calls; }
/* Memories, streams and graphs that were not released. */
long emulated_live() { return long(memories.size()) + streams + long(graphs.size()); }
}
static int failing() {
    const std::lock_guard<std::mutex> held(guard);
    return calls++ == fails_at ? fails_with : 0;
}
static const Memory *memory_at(unsigned long long address) {
    auto next = memories.upper_bound(address);
    if (next == memories.begin()) return nullptr;
    --next;
    return address < next->first + next->second.bytes ? &next->second : nullptr;
}
/* Of the memory that this address is in; 0: there is none. */
extern "C" long emulated_bytes_of(unsigned long long address) {
    const Memory *memory = memory_at(address);
    return memory ? long(memory->bytes) : 0;
}
static int current_device() { return contexts.empty() ? 0 : int(reinterpret_cast<intptr_t>(contexts.back())) - 1; }
static int add_memory(void *memory, size_t bytes, bool pinned) {
    if (!memory) return 2;
    memories[reinterpret_cast<unsigned long long>(memory)] = {bytes, current_device(), pinned};
    return 0;
}
static void *new_memory(size_t bytes) { return aligned_alloc(256, (bytes + 255) / 256 * 256); }

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
#define cuMemPoolCreate other_pool
#define cuMemAllocFromPoolAsync other_allocate_from
#define cuDeviceGet other_cuDeviceGet
#define cuDevicePrimaryCtxRetain other_cuDevicePrimaryCtxRetain
#define cuCtxGetCurrent other_cuCtxGetCurrent
#define cuCtxPushCurrent_v2 other_cuCtxPushCurrent_v2
#define cuCtxPopCurrent_v2 other_cuCtxPopCurrent_v2
#define cuMemHostAlloc other_cuMemHostAlloc
#define cuMemFreeHost other_cuMemFreeHost
#define cuMemHostRegister_v2 other_cuMemHostRegister_v2
#define cuMemHostUnregister other_cuMemHostUnregister
#define cuMemHostGetDevicePointer_v2 other_cuMemHostGetDevicePointer_v2
#define cuMemcpyAsync other_cuMemcpyAsync
#define cuMemsetD2D32Async other_cuMemsetD2D32Async
#define cuStreamCreate other_cuStreamCreate
#define cuStreamDestroy_v2 other_cuStreamDestroy_v2
#define cuEventCreate other_cuEventCreate
#define cuEventRecord other_cuEventRecord
#define cuEventElapsedTime other_cuEventElapsedTime
#define cuEventDestroy_v2 other_cuEventDestroy_v2
#define cuStreamBeginCapture_v2 other_cuStreamBeginCapture_v2
#define cuStreamEndCapture other_cuStreamEndCapture
#define cuStreamIsCapturing other_cuStreamIsCapturing
#define cuGraphInstantiateWithFlags other_cuGraphInstantiateWithFlags
#define cuGraphLaunch other_cuGraphLaunch
#define cuGraphDestroy other_cuGraphDestroy
#define SMM_CUDA_FUNCTION(symbol, name, parameters) \
    extern "C" int symbol parameters { return failing(); }
#include "../../../../csrc/cuda/functions.def"
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
#undef cuMemPoolCreate
#undef cuMemAllocFromPoolAsync
#undef cuDeviceGet
#undef cuDevicePrimaryCtxRetain
#undef cuCtxGetCurrent
#undef cuCtxPushCurrent_v2
#undef cuCtxPopCurrent_v2
#undef cuMemHostAlloc
#undef cuMemFreeHost
#undef cuMemHostRegister_v2
#undef cuMemHostUnregister
#undef cuMemHostGetDevicePointer_v2
#undef cuMemcpyAsync
#undef cuMemsetD2D32Async
#undef cuStreamCreate
#undef cuStreamDestroy_v2
#undef cuEventCreate
#undef cuEventRecord
#undef cuEventElapsedTime
#undef cuEventDestroy_v2
#undef cuStreamBeginCapture_v2
#undef cuStreamEndCapture
#undef cuStreamIsCapturing
#undef cuGraphInstantiateWithFlags
#undef cuGraphLaunch
#undef cuGraphDestroy

static int compute_capability() { return atoi(setting("EMULATED_CC", "90")); }

extern "C" {
int cuDriverGetVersion(int *version) {
    *version = 13000;
    return 0;
}
int cuDeviceGetCount(int *count) {
    *count = atoi(setting("EMULATED_DEVICES", "1"));
    return failing();
}
int cuDeviceGetName(char *name, int length, int) {
    snprintf(name, length, "%s", setting("EMULATED_NAME", "emulated GPU"));
    return failing();
}
int cuDeviceGetAttribute(int *value, int attribute, int) {
    enum { MULTIPROCESSORS = 16, INTEGRATED = 18, MAJOR = 75, MINOR = 76 };
    const int capability = compute_capability();
    *value = attribute == MULTIPROCESSORS ? 2
             : attribute == INTEGRATED    ? atoi(setting("EMULATED_INTEGRATED", "0"))
             : attribute == MAJOR         ? capability / 10
             : attribute == MINOR         ? capability % 10
                                          : int{SHARED};
    return failing();
}
int cuDeviceGet(int *device, int ordinal) {
    *device = ordinal;
    return failing();
}
int cuDevicePrimaryCtxRetain(void **context, int device) {
    *context = reinterpret_cast<void *>(static_cast<intptr_t>(device) + 1);
    return failing();
}
int cuCtxGetCurrent(void **context) {
    *context = contexts.empty() ? nullptr : contexts.back();
    return failing();
}
int cuCtxPushCurrent_v2(void *context) {
    if (const int error = failing()) return error;
    contexts.push_back(context);
    return 0;
}
int cuCtxPopCurrent_v2(void **context) {
    *context = contexts.back();
    contexts.pop_back();
    return 0;
}
/* Of memory that nobody allocated, which tests pass as a device's, all but its kind is known. */
int cuPointerGetAttribute(void *value, int attribute, unsigned long long pointer) {
    enum { MEMORY_TYPE = 2, HOST = 1, DEVICE = 2 };
    if (const int error = failing()) return error;
    const std::lock_guard<std::mutex> held(guard);
    const Memory *memory = memory_at(pointer);
    if (attribute == MEMORY_TYPE && !memory) return 1;
    *static_cast<int *>(value) = attribute == MEMORY_TYPE ? (memory->pinned ? HOST : DEVICE)
                                 : memory                 ? memory->device
                                                          : 0;
    return 0;
}
/* An image is the path of a library. */
int cuModuleLoadData(void **module, const void *image) {
    if (const int error = failing()) return error;
    *module = dlopen(static_cast<const char *>(image), RTLD_NOW | RTLD_LOCAL);
    if (!*module) fprintf(stderr, "%s\n", dlerror());
    return *module ? 0 : 200;
}
int cuModuleGetFunction(void **function, void *module, const char *name) {
    *function = dlsym(module, name);
    const void *const bytes = dlsym(module, "emulated_argument_bytes");
    if (!*function || !bytes) return 500;
    const std::lock_guard<std::mutex> held(guard);
    argument_bytes[*function] = *static_cast<const int *>(bytes);
    char **const arrays = static_cast<char **>(dlsym(module, "emulated_arrays"));
    shared_arrays[*function] = {arrays[0], arrays[1]};
    return calls++ == fails_at ? fails_with : 0;
}
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *, int, size_t) {
    *blocks = 1;
    return failing();
}
int cuLaunchKernel(void *function, unsigned grid, unsigned, unsigned, unsigned count, unsigned, unsigned,
                   unsigned shared, void *, void **given, void **) {
    enum { LAUNCH_FAILED = 719 };
    static std::mutex one_at_a_time;
    if (const int error = failing()) return error;
    if (current_device() == atoi(setting("EMULATED_BROKEN", "-1"))) return LAUNCH_FAILED;
    const std::lock_guard<std::mutex> held(one_at_a_time);
    kernel = reinterpret_cast<void (*)(Arguments)>(function);
    const auto arrays = shared_arrays[function];
    arrays_begin = arrays.first, arrays_end = arrays.second;
    memcpy(&arguments, given[0], argument_bytes[function]);
    (capturing ? captured : now) +=
        grid * (1 + std::abs(double(count) - atoi(setting("EMULATED_BEST", "64"))) / 64) / 1e3;
    gridDim.x = grid;
    for (blockIdx.x = 0; blockIdx.x < grid; blockIdx.x++) run_block(count, shared);
    return 0;
}
int cuEventCreate(void **event, unsigned) {
    static intptr_t number;
    if (const int error = failing()) return error;
    const std::lock_guard<std::mutex> held(guard);
    events[ *event = reinterpret_cast<void *>(++number)] = 0;
    return 0;
}
int cuEventRecord(void *event, void *) {
    if (const int error = failing()) return error;
    const std::lock_guard<std::mutex> held(guard);
    events[event] = now;
    return 0;
}
int cuEventElapsedTime(float *milliseconds, void *begin, void *end) {
    *milliseconds = float(events[end] - events[begin]);
    return failing();
}
int cuEventDestroy_v2(void *event) {
    const std::lock_guard<std::mutex> held(guard);
    events.erase(event);
    return 0;
}
int cuStreamBeginCapture_v2(void *, int) {
    if (const int error = failing()) return error;
    capturing = true;
    captured = 0;
    return 0;
}
int cuStreamIsCapturing(void *, int *state) {
    if (const int error = failing()) return error;
    *state = capturing;
    return 0;
}
int cuStreamEndCapture(void *, void **graph) {
    static intptr_t number;
    capturing = false;
    if (const int error = failing()) return error;
    const std::lock_guard<std::mutex> held(guard);
    graphs[ *graph = reinterpret_cast<void *>(++number)] = captured;
    return 0;
}
/* A graph is its own executable. */
int cuGraphInstantiateWithFlags(void **executable, void *graph, unsigned long long) {
    if (const int error = failing()) return error;
    *executable = graph;
    return 0;
}
int cuGraphLaunch(void *graph, void *) {
    if (const int error = failing()) return error;
    now += graphs.at(graph);
    return 0;
}
int cuGraphDestroy(void *graph) {
    const std::lock_guard<std::mutex> held(guard);
    graphs.erase(graph);
    return 0;
}
/* A device has EMULATED_MEMORY bytes. */
int cuMemAllocAsync(unsigned long long *pointer, size_t bytes, void *) {
    if (const int error = failing()) return error;
    const std::lock_guard<std::mutex> held(guard);
    size_t used = bytes;
    for (const auto &memory : memories)
        if (!memory.second.pinned && memory.second.device == current_device()) used += memory.second.bytes;
    if (used > strtoull(setting("EMULATED_MEMORY", "99000000000"), nullptr, 10)) return 2;
    void *const memory = new_memory(bytes);
    *pointer = reinterpret_cast<unsigned long long>(memory);
    return add_memory(memory, bytes, false);
}
int cuMemPoolCreate(void **pool, const void *) {
    *pool = pool;
    return failing();
}
int cuMemAllocFromPoolAsync(unsigned long long *pointer, size_t bytes, void *, void *stream) {
    return cuMemAllocAsync(pointer, bytes, stream);
}
static int forget(unsigned long long pointer) {
    const std::lock_guard<std::mutex> held(guard);
    if (!memories.erase(pointer)) emulated_fail("memory is released that does not exist");
    return 0;
}
int cuMemFreeAsync(unsigned long long pointer, void *) {
    forget(pointer);
    free(reinterpret_cast<void *>(pointer));
    return 0;
}
int cuMemHostAlloc(void **pointer, size_t bytes, unsigned) {
    if (const int error = failing()) return error;
    const std::lock_guard<std::mutex> held(guard);
    return add_memory(*pointer = new_memory(bytes), bytes, true);
}
int cuMemFreeHost(void *pointer) {
    forget(reinterpret_cast<unsigned long long>(pointer));
    free(pointer);
    return 0;
}
int cuMemHostRegister_v2(void *pointer, size_t bytes, unsigned) {
    enum { ALREADY_REGISTERED = 712 };
    if (const int error = failing()) return error;
    const std::lock_guard<std::mutex> held(guard);
    return memory_at(reinterpret_cast<unsigned long long>(pointer)) ? int{ALREADY_REGISTERED}
                                                                    : add_memory(pointer, bytes, true);
}
int cuMemHostUnregister(void *pointer) { return forget(reinterpret_cast<unsigned long long>(pointer)); }
int cuMemHostGetDevicePointer_v2(unsigned long long *address, void *pointer, unsigned) {
    *address = reinterpret_cast<unsigned long long>(pointer);
    return failing();
}
int cuMemcpyAsync(unsigned long long to, unsigned long long from, size_t bytes, void *) {
    if (const int error = failing()) return error;
    memcpy(reinterpret_cast<void *>(to), reinterpret_cast<void *>(from), bytes);
    return 0;
}
int cuMemsetD2D32Async(unsigned long long to, size_t pitch, unsigned value, size_t width, size_t height, void *) {
    if (const int error = failing()) return error;
    if (height > 1 && (pitch % 4 || pitch < 4 * width)) emulated_fail("rows to be filled overlap");
    for (size_t i = 0; i < height; i++) std::fill_n(reinterpret_cast<unsigned *>(to + i * pitch), width, value);
    return 0;
}
int cuStreamCreate(void **stream, unsigned) {
    static intptr_t number = 1000;
    if (const int error = failing()) return error;
    const std::lock_guard<std::mutex> held(guard);
    *stream = reinterpret_cast<void *>(++number);
    streams++;
    return 0;
}
int cuStreamDestroy_v2(void *) {
    const std::lock_guard<std::mutex> held(guard);
    streams--;
    return 0;
}
}

/* --- NVRTC: what it gives for a cubin is the path of a library --- */

struct Program {
    std::string folder, text, log, path;
};

/* NVRTC compiles no array without elements: `double v3[0];`. */
static void refuse_empty_arrays(const std::string &text) {
    for (size_t at = 0; (at = text.find("[0];", at)) != std::string::npos; at++) {
        const size_t begin = text.find_last_of(";{}\n", at) + 1;
        std::istringstream statement(text.substr(begin, at - begin));
        std::string type, name, more;
        if (statement >> type >> name && !(statement >> more) && type != "return")
            emulated_fail("an array without elements, which NVRTC does not compile");
    }
}

/* Shared memory of a size that the launch says is all there is; other shared arrays are one for all blocks. */
static std::string for_cpu(std::string text) {
    static const std::string begin = "extern __shared__ __align__(16) ", end = "[];";
    for (size_t at = 0; (at = text.find(begin, at)) != std::string::npos;) {
        const size_t type = at + begin.size(), name = text.find(' ', type) + 1, last = text.find(end, name);
        const std::string pointer = text.substr(type, name - type) + "*";
        const std::string is = "const " + text.substr(name, last - name) + " = reinterpret_cast<" + pointer + ">";
        text.replace(at, last + end.size() - at, pointer + is + "(emulated_shared);");
    }
    return "#include \"device.h\"\n" + text;
}

/* A kernel's argument is a structure: the launch is to know its size, and where arrays of shared memory are. */
static std::string for_launch(const std::string &text) {
    static const std::string before = "__grid_constant__ ";
    const size_t at = text.find(before), type = at + before.size();
    return std::string("\nextern \"C\" const int emulated_argument_bytes = sizeof(") +
           (at == std::string::npos ? "smm_cuda_args" : text.substr(type, text.find(' ', type) - type)) +
           ");\nextern __attribute__((weak)) char __start_shared_arrays[], __stop_shared_arrays[];\n"
           "extern \"C\" char *const emulated_arrays[] = {__start_shared_arrays, __stop_shared_arrays};\n";
}

/* One word of a shell's command, whatever is in it. */
static std::string in_quotes(const std::string &word) {
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
    static std::map<std::string, std::string> written; /* the headers of all programs, which are in one folder */
    static int number;
    const std::lock_guard<std::mutex> held(guard);
    const std::string all = setting("EMULATED_FOLDER", "."), folder = all + "/" + std::to_string(number++) + "-" + name;
    for (int i = 0; i < headers; i++) {
        const std::filesystem::path header = all + "/headers/" + header_names[i];
        const auto found = written.emplace(header, header_texts[i]);
        if (found.first->second != header_texts[i]) emulated_fail("a header with another text than before");
        if (!found.second || !strcmp(header_names[i], "ptx.cuh")) continue;
        std::filesystem::create_directories(header.parent_path());
        std::ofstream(header) << for_cpu(header_texts[i]);
    }
    mkdir(folder.c_str(), 0755);
    refuse_empty_arrays(text);
    Program *const p = new Program{folder, for_cpu(text) + for_launch(text), "", ""};
    std::ofstream(folder + "/kernel.cpp") << p->text;
    *program = p;
    return 0;
}
int nvrtcCompileProgram(void *program, int count, const char *const *options) {
    Program &p = *static_cast<Program *>(program);
    Dl_info self;
    dladdr(reinterpret_cast<void *>(&emulated_fail), &self);
    std::string words = " -D__CUDA_ARCH__=" + std::to_string(10 * compute_capability());
    for (int i = 0; i < count; i++)
        if (!strncmp(options[i], "-D", 2)) words += " " + in_quotes(options[i]);
    p.path = std::string(setting("EMULATED_KERNELS", p.folder.c_str())) + "/" +
             std::to_string(std::hash<std::string>()(words + p.text)) + ".so";
    if (std::filesystem::exists(p.path)) return 0;
    const std::string log = p.folder + "/log", object = p.folder + "/kernel.o", library = p.folder + "/kernel.so";
    std::string command = setting("EMULATED_COMPILER", "c++") + words + " -I";
    command += in_quotes(setting("EMULATED_HEADERS", ".")) + " -iquote " +
               in_quotes(std::string(setting("EMULATED_FOLDER", ".")) + "/headers") + " -c " +
               in_quotes(p.folder + "/kernel.cpp") + " -o " + in_quotes(object) + " 2> " + in_quotes(log) + " && " +
               setting("EMULATED_LINKER", "c++") + " -shared " + in_quotes(object) + " " + in_quotes(self.dli_fname) +
               " -o " + in_quotes(library) + " 2>> " + in_quotes(log);
    const int error = system(command.c_str());
    if (!error) std::filesystem::rename(library, p.path); /* at once, for those who look */
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
