/* races.h: accesses to the shared memory of a block that no wait puts in order, found as ThreadSanitizer finds them: a
 * thread knows how far each other one had come when it last heard of it (vector clocks; Flanagan and Freund, PLDI
 * 2009).
 *
 * The compiler's -fsanitize=thread calls what is below at each access. __syncthreads and __syncwarp put all accesses in
 * order. Shuffles and votes do so only for reads before and writes after them: a thread has what it read when it takes
 * part, for it exchanges what depends on that. Several may write the same value. */
#pragma once
#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

typedef std::vector<unsigned> Clock; /* of each thread of a block */

static void take_later(Clock &clock, const Clock &other) {
    for (size_t i = 0; i < other.size(); i++) clock[i] = std::max(clock[i], other[i]);
}

struct Access {
    const void *from; /* the instruction */
    unsigned time;
    unsigned short thread;
    unsigned char bytes; /* bit i: byte i of a word, which nobody overwrote since */
};
/* Of one kind, to a word: most are compared with the last one alone, so that one lies beside the word. */
struct Accesses {
    Access last = {};
    std::vector<Access> before;

    void add(const Access &now) {
        if (last.bytes) before.push_back(last);
        last = now;
    }
    /* Removes bytes of each, from the last one on. */
    template <class Bytes> void forget(Bytes bytes_of) {
        last.bytes &= ~bytes_of(last);
        if (before.empty()) return;
        size_t kept = before.size();
        for (size_t i = before.size(); i-- > 0;) {
            Access access = before[i];
            access.bytes &= ~bytes_of(access);
            if (access.bytes) before[--kept] = access;
        }
        before.erase(before.begin(), before.begin() + kept);
    }
};
struct Word {
    Accesses writes, reads;
    unsigned block;
};

static std::vector<Clock> clocks, clocks_of_reads;
struct Arrived {
    Clock known, read;
};
static std::map<const void *, Arrived> arrivals; /* what threads knew when they arrived there */
static std::vector<Word> words;                  /* of the shared memory, and of the arrays */
static unsigned blocks;                          /* that have begun */
static const char *arrays_begin, *arrays_end;    /* shared arrays with a size of their own */

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
    if (!rewritten.word) return;
    const Rewritten it = rewritten;
    rewritten.word = nullptr;
    if (*it.word != it.was) fail(it.first, "writes", it.second, "writes");
}

/* Earlier accesses to the same bytes must be ones that this thread has heard of. */
static void check(const Accesses &earlier, bool wrote, const Access &now, bool writes, const void *word) {
    const Clock &known = (wrote ? clocks : clocks_of_reads)[now.thread];
    const auto check_one = [&](const Access &access) {
        if (!(access.bytes & now.bytes) || known[access.thread] >= access.time) return;
        if (!wrote || !writes) fail(access, wrote ? "writes" : "reads", now, writes ? "writes" : "reads");
        const unsigned *const at = static_cast<const unsigned *>(word);
        if (!rewritten.word) rewritten = {at, *at, access, now};
    };
    for (const Access &access : earlier.before) check_one(access);
    check_one(earlier.last);
}

/* Of a thread the last read of each byte counts. The others are forgotten when there are many: threads often read a
 * word together, and nobody writes to it. */
static void add_read(Accesses &reads, const Access &now) {
    static std::vector<unsigned char> later; /* the bytes that a thread read later */
    if (reads.last.thread == now.thread && !(reads.last.bytes & ~now.bytes)) {
        reads.last = now;
        return;
    }
    reads.add(now);
    if (reads.before.size() < 2 * clocks.size()) return;
    later.assign(clocks.size(), 0);
    reads.forget([](const Access &x) {
        const unsigned char bytes = later[x.thread];
        later[x.thread] |= x.bytes;
        return bytes;
    });
}

/* Whether the last read was this thread's, of these bytes, and it waited for nobody since: whoever wrote to them in
 * between would have had it forgotten. */
static bool is_known(const Access &last, const Access &now) {
    return last.thread == now.thread && last.time == now.time && !(now.bytes & ~last.bytes);
}

/* Of an address in the shared memory or, after it, the arrays. */
static Word *word_of(uintptr_t at) {
    const auto first = reinterpret_cast<uintptr_t>(emulated_shared), begin = reinterpret_cast<uintptr_t>(arrays_begin);
    const bool is_shared = at >= first && at < first + SHARED;
    if (!is_shared && !(at >= begin && at < reinterpret_cast<uintptr_t>(arrays_end))) return nullptr;
    const size_t i = is_shared ? at / 4 - first / 4 : SHARED / 4 + at / 4 - begin / 4;
    if (i >= words.size()) words.resize(i + 1);
    Word &it = words[i];
    if (it.block != blocks) {
        for (Accesses *earlier : {&it.writes, &it.reads}) earlier->last = {}, earlier->before.clear();
        it.block = blocks;
    }
    return &it;
}

static void note(const void *address, int count, bool writes, const void *from) {
    check_rewritten();
    const unsigned thread = threadIdx.x;
    const auto first = reinterpret_cast<uintptr_t>(address), end = first + count;
    for (uintptr_t at = first, next; at < end; at = next) {
        next = at / 4 * 4 + 4;
        Word *const it = word_of(at);
        if (!it) return;
        unsigned char bytes = 0;
        for (uintptr_t i = at; i < next && i < end; i++) bytes |= 1u << i % 4;
        const Access now = {from, clocks[thread][thread], static_cast<unsigned short>(thread), bytes};
        if (!writes && is_known(it->reads.last, now)) continue;
        const void *const word = reinterpret_cast<const void *>(next - 4);
        check(it->writes, true, now, writes, word);
        if (!writes) {
            add_read(it->reads, now);
            continue;
        }
        check(it->reads, false, now, true, word);
        for (Accesses *earlier : {&it->writes, &it->reads}) earlier->forget([bytes](const Access &) { return bytes; });
        it->writes.add(now);
    }
}

static void begin_races(unsigned count) {
    blocks++;
    arrivals.clear();
    clocks.assign(count, Clock(count));
    for (unsigned i = 0; i < count; i++) clocks[i][i] = 1;
    clocks_of_reads = clocks;
}

extern "C" {
/* What a thread wrote before it arrived is seen by those who waited for that. */
void emulated_arrive(const void *at) {
    const unsigned me = threadIdx.x;
    Arrived &it = arrivals[at];
    it.known.resize(clocks.size());
    it.read.resize(clocks.size());
    take_later(it.known, clocks[me]);
    take_later(it.read, clocks_of_reads[me]);
    clocks_of_reads[me][me] = ++clocks[me][me];
}
void emulated_arrived(const void *at) {
    const auto it = arrivals.find(at);
    if (it == arrivals.end()) return;
    take_later(clocks[threadIdx.x], it->second.known);
    take_later(clocks_of_reads[threadIdx.x], it->second.read);
}
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
