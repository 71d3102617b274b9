/* races.h: accesses to the shared memory of a block that no wait puts in order, found as ThreadSanitizer finds them: a
 * thread knows how far each other one had come when it last heard of it (vector clocks; Flanagan and Freund, PLDI
 * 2009).
 *
 * The compiler's -fsanitize=thread calls what is below at each access. __syncthreads and __syncwarp put all accesses in
 * order. Shuffles and votes do so only for reads before and writes after them: a thread has what it read when it takes
 * part, for it exchanges what depends on that. Several may write the same value. */
#pragma once
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <unordered_map>
#include <vector>

typedef std::vector<unsigned> Clock; /* of each thread of a block */

static void take_later(Clock &clock, const Clock &other) {
    for (size_t i = 0; i < other.size(); i++)
        if (other[i] > clock[i]) clock[i] = other[i];
}

struct Access {
    int thread;
    unsigned time, bytes; /* bit i: byte i of a word */
    const void *from;     /* the instruction */
};
/* What of four bytes was not overwritten since. */
struct Word {
    std::vector<Access> writes, reads;
};

static std::vector<Clock> clocks, clocks_of_reads;
static std::unordered_map<unsigned long long, Word> words;
static const char *arrays_begin, *arrays_end; /* shared arrays with a size of their own */

/* Where in the texts of the kernel, and where that is inlined. */
static void print_line(const void *instruction) {
    Dl_info library;
    if (!dladdr(instruction, &library)) return;
    const long offset = static_cast<const char *>(instruction) - static_cast<const char *>(library.dli_fbase) - 1;
    fflush(stderr);
    char place[32];
    snprintf(place, sizeof place, "%#lx", offset);
    const std::string command = std::string("addr2line -s -i -p -e '") + library.dli_fname + "' " + place + " >&2";
    if (system(command.c_str())) fprintf(stderr, "%s of %s\n", place, library.dli_fname);
}

static void fail(const Access &access, const char *before, const Access &now, const char *after) {
    fprintf(stderr, "a race: thread %d %s, then thread %d %s, and no wait is between them\n", access.thread, before,
            now.thread, after);
    print_line(access.from);
    print_line(now.from);
    emulated_fail("a race");
}

/* Two wrote to a word, the second one just now: what it was to remain. */
static struct Rewritten {
    const unsigned *word = nullptr;
    unsigned was = 0;
    Access first, second;
} rewritten;

static void check_rewritten() {
    const Rewritten it = rewritten;
    rewritten.word = nullptr;
    if (it.word && *it.word != it.was) fail(it.first, "writes", it.second, "writes");
}

/* Earlier accesses to the same bytes must be ones that this thread has heard of. */
static void check(const std::vector<Access> &earlier, bool wrote, const Access &now, bool writes, const void *word) {
    const Clock &known = (wrote ? clocks : clocks_of_reads)[now.thread];
    for (const Access &access : earlier) {
        if (!(access.bytes & now.bytes) || known[access.thread] >= access.time) continue;
        if (!wrote || !writes) fail(access, wrote ? "writes" : "reads", now, writes ? "writes" : "reads");
        const unsigned *const at = static_cast<const unsigned *>(word);
        if (!rewritten.word) rewritten = {at, *at, access, now};
    }
}

/* An access takes the place of others, of these bytes. */
static void replace(std::vector<Access> &earlier, const Access &now, bool all) {
    size_t kept = 0;
    for (Access access : earlier) {
        if (all || access.thread == now.thread) access.bytes &= ~now.bytes;
        if (access.bytes) earlier[kept++] = access;
    }
    earlier.resize(kept);
}

static void note(const void *address, int count, bool writes, const void *from) {
    const char *const at = static_cast<const char *>(address);
    check_rewritten();
    if (!(at >= emulated_shared && at < emulated_shared + SHARED) && !(at >= arrays_begin && at < arrays_end)) return;
    const int thread = static_cast<int>(threadIdx.x);
    const auto first = reinterpret_cast<unsigned long long>(at), end = first + count;
    for (auto word = first / 4; 4 * word < end; word++) {
        unsigned bytes = 0;
        for (int i = 0; i < 4; i++) bytes |= unsigned(4 * word + i >= first && 4 * word + i < end) << i;
        const Access now = {thread, clocks[thread][thread], bytes, from};
        Word &it = words[word];
        const void *const at_word = reinterpret_cast<const void *>(4 * word);
        check(it.writes, true, now, writes, at_word);
        if (writes) check(it.reads, false, now, true, at_word);
        if (writes) replace(it.writes, now, true);
        replace(it.reads, now, writes);
        (writes ? it.writes : it.reads).push_back(now);
    }
}

static void begin_races(unsigned count) {
    words.clear();
    clocks.assign(count, Clock(count));
    for (unsigned i = 0; i < count; i++) clocks[i][i] = 1;
    clocks_of_reads = clocks;
}

extern "C" {
#define EMULATED_ACCESS(bytes) \
    void __tsan_read##bytes(void *at) { note(at, bytes, false, __builtin_return_address(0)); } \
    void __tsan_write##bytes(void *at) { note(at, bytes, true, __builtin_return_address(0)); } \
    void __tsan_unaligned_read##bytes(void *at) { note(at, bytes, false, __builtin_return_address(0)); } \
    void __tsan_unaligned_write##bytes(void *at) { note(at, bytes, true, __builtin_return_address(0)); }
EMULATED_ACCESS(1)
EMULATED_ACCESS(2)
EMULATED_ACCESS(4)
EMULATED_ACCESS(8)
EMULATED_ACCESS(16)
#undef EMULATED_ACCESS
void __tsan_read_range(void *at, long bytes) { note(at, int(bytes), false, __builtin_return_address(0)); }
void __tsan_write_range(void *at, long bytes) { note(at, int(bytes), true, __builtin_return_address(0)); }
void __tsan_init() {}
int __tsan_atomic32_load(const volatile int *at, int) { return __atomic_load_n(at, __ATOMIC_RELAXED); }
int __tsan_atomic32_compare_exchange_strong(volatile int *at, int *was, int x, int, int) {
    return __atomic_compare_exchange_n(at, was, x, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}
}
