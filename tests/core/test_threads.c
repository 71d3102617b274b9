/* test_threads.c: smm_parallel_for under load, nested, forked, from several callers at once; the limits.
 * Made to run under ThreadSanitizer as well. First argument "quick": less of each, for sanitizers and
 * valgrind; "emulated": without forks as well. */
#define _GNU_SOURCE
#include <fenv.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../csrc/core/core.h"
#include "harness.h"
#include "machines.h"

enum { MAX = 3000 };

static int rounds = 2000;

/* What a job did: how often each index came, in how many calls of the body, and by how many threads. Plain
 * counters: if two threads had the same index, ThreadSanitizer would see it. */
struct record {
    unsigned char times[MAX];
    intptr_t chunk;
    atomic_int calls, misplaced, threads;
    long job; /* no two jobs have the same */
    pthread_t caller;
    int nap_us; /* time for the others to take part */
};

static atomic_long jobs_so_far;
static _Thread_local long job_of_this_thread;

static void sleep_us(int us) { nanosleep(&(struct timespec){us / 1000000, us % 1000000 * 1000L}, NULL); }

static bool note(void *context, intptr_t first, intptr_t last) {
    struct record *r = context;
    atomic_fetch_add(&r->calls, 1);
    if (first % r->chunk) atomic_fetch_add(&r->misplaced, 1);
    if (job_of_this_thread != r->job) {
        job_of_this_thread = r->job;
        atomic_fetch_add(&r->threads, 1);
    }
    for (intptr_t i = first; i < last; i++) r->times[i]++;
    if (r->nap_us) sleep_us(r->nap_us);
    return true;
}

static void clear(struct record *r, intptr_t chunk) {
    memset(r->times, 0, sizeof r->times);
    r->chunk = chunk;
    r->calls = r->misplaced = r->threads = r->nap_us = 0;
    r->caller = pthread_self();
    r->job = ++jobs_so_far;
}

static bool is_complete(const struct record *r, intptr_t count) {
    for (intptr_t i = 0; i < MAX; i++)
        if (r->times[i] != (i < count)) return false;
    return !r->misplaced;
}

/* One random job, all of it done and nothing twice. */
static bool random_job_is_complete(struct record *r, intptr_t x) {
    const intptr_t count = x % MAX, chunk = 1 + x / 7 % 100;
    clear(r, chunk);
    smm_parallel_for(count, chunk, 1 + (int)(x % 6), note, r, NULL);
    return is_complete(r, count);
}

static void test_every_index_once(void) {
    struct record r;
    static const intptr_t counts[] = {0, 1, 2, 3, 15, 16, 17, 100, 1000, 2999};
    static const intptr_t chunks[] = {1, 2, 3, 16, 64, 1000, 5000};
    static const int threads[] = {-1, 0, 1, 2, 3, 4, 9};
    for (int i = 0; i < 10; i++)
        for (int j = 0; j < 7; j++)
            for (int t = 0; t < 7; t++) {
                clear(&r, chunks[j]);
                smm_parallel_for(counts[i], chunks[j], threads[t], note, &r, NULL);
                CHECK(is_complete(&r, counts[i]), "count %ld chunk %ld threads %d", (long)counts[i], (long)chunks[j],
                      threads[t]);
            }
    for (int i = 0; i < rounds; i++) CHECK(random_job_is_complete(&r, random_below(1 << 20)), "round %d", i);
}

static bool note_whole(void *context, intptr_t first, intptr_t last) {
    struct record *r = context;
    if (first == 0 && last == r->chunk && pthread_equal(pthread_self(), r->caller)) r->calls++;
    return true;
}

static void test_small_jobs_stay_in_the_caller(void) {
    struct record r;
    clear(&r, 100);
    smm_parallel_for(100, 1, 1, note_whole, &r, NULL);
    smm_parallel_for(100, 1, 0, note_whole, &r, NULL);
    smm_parallel_for(100, 100, 8, note_whole, &r, NULL);
    smm_parallel_for(100, 200, 8, note_whole, &r, NULL);
    CHECK(r.calls == 4, "%d of 4 calls were of the whole range in the caller", r.calls);
}

/* Jobs long enough for `threads` threads to come; how many came to the most popular one. */
static int threads_that_come(int threads) {
    struct record r;
    int most = 0;
    for (int i = 0; i < 20 && most < threads; i++) {
        clear(&r, 1);
        r.nap_us = 2000;
        smm_parallel_for(threads * 4, 1, threads, note, &r, NULL);
        if (!is_complete(&r, threads * 4)) return -1;
        most = r.threads > most ? r.threads : most;
    }
    return most;
}

static void test_all_threads_take_part(void) {
    for (int threads = 2; threads <= 8; threads *= 2) {
        const int came = threads_that_come(threads);
        CHECK(came == threads, "%d of %d threads took part", came, threads);
    }
}

static atomic_int rounded_otherwise;
static bool note_rounding(void *context, intptr_t first, intptr_t last) {
    note(context, first, last);
    rounded_otherwise += fegetround() != FE_UPWARD;
    return true;
}

/* Workers compute as the caller does: rounding, and on x86 and ARM whether subnormal numbers are flushed to zero, are
 * part of the same word. */
static void test_floating_point_environment(void) {
    threads_that_come(4); /* they exist before it changes */
    struct record r;
    clear(&r, 1);
    r.nap_us = 2000;
    const int before = fegetround();
    fesetround(FE_UPWARD);
    smm_parallel_for(16, 1, 4, note_rounding, &r, NULL);
    fesetround(before);
    CHECK(!rounded_otherwise, "%d of %d calls rounded another way than the caller", (int)rounded_otherwise,
          (int)r.calls);
}

static bool nest(void *context, intptr_t first, intptr_t last) {
    for (intptr_t i = first; i < last; i++) {
        struct record r;
        if (!random_job_is_complete(&r, 3000 + i * 12345)) atomic_fetch_add((atomic_int *)context, 1);
    }
    return true;
}

/* Where a body returns false the job ends, however much of it is left, and the next one is whole. */
static bool note_until_enough(void *context, intptr_t first, intptr_t last) {
    (void)first, (void)last;
    return atomic_fetch_add((atomic_int *)context, 1) < 100;
}

static void test_given_up(void) {
    for (int threads = 1; threads <= 4; threads++) {
        atomic_int calls = 0;
        smm_parallel_for((intptr_t)1 << 60, 1, threads, note_until_enough, &calls, NULL);
        CHECK(threads == 1 ? calls == 1 : calls > 100 && calls <= 100 + threads, "%d calls on %d threads", (int)calls,
              threads);
        struct record r;
        CHECK(random_job_is_complete(&r, 1234567), "the job after it, on %d threads", threads);
    }
}

static void test_nested(void) {
    atomic_int wrong = 0;
    for (int i = 0; i < rounds / 50; i++) smm_parallel_for(20, 1, 4, nest, &wrong, NULL);
    CHECK(wrong == 0, "%d nested jobs were incomplete", wrong);
}

struct hammer {
    pthread_t thread;
    atomic_bool stop;
    atomic_long jobs, wrong;
};

static void *hammer_main(void *context) {
    struct hammer *h = context;
    struct record r;
    for (intptr_t i = 0; !h->stop; i++) {
        h->wrong += !random_job_is_complete(&r, i * 7919);
        h->jobs++;
    }
    return NULL;
}

static void start(struct hammer *h) {
    h->stop = false;
    h->jobs = h->wrong = 0;
    CHECK(!pthread_create(&h->thread, NULL, hammer_main, h), "pthread_create");
    while (!h->jobs) sleep_us(100);
}

static void stop(struct hammer *h) {
    h->stop = true;
    pthread_join(h->thread, NULL);
    CHECK(h->wrong == 0, "%ld of %ld jobs were incomplete", h->wrong, h->jobs);
}

static void test_concurrent_callers(void) {
    struct hammer other[2];
    struct record r;
    start(&other[0]);
    start(&other[1]);
    for (int i = 0; i < rounds; i++) {
        smm_set_num_threads(i % 5);
        clear(&r, 10);
        smm_parallel_for(1000, 10, smm_get_num_threads() + i % 2, note, &r, NULL);
        CHECK(is_complete(&r, 1000), "round %d", i);
        if (i % 100 == 0) sleep_us(1000); /* let the workers fall asleep */
    }
    stop(&other[0]);
    stop(&other[1]);
    smm_set_num_threads(0);
}

/* Run body() in a forked child; true if it ended by itself with status 0. A child that hangs ends by SIGALRM. */
static bool child_succeeds(void (*body)(void)) {
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        alarm(60);
        body();
        _exit(3); /* body() ends the process */
    }
    int status = -1;
    while (waitpid(child, &status, 0) < 0) {
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void use_pool_and_exit(void) {
    struct record r;
    bool right = threads_that_come(3) == 3;
    for (intptr_t i = 0; i < 50; i++) right = random_job_is_complete(&r, i * 7919) && right;
    _exit(!right);
}

static void use_pool_in_a_grandchild(void) {
    const bool right = threads_that_come(2) == 2 && child_succeeds(use_pool_and_exit);
    _exit(!(right && threads_that_come(4) == 4));
}

static void test_fork(void) {
    CHECK(threads_that_come(3) == 3, "before the fork");
    CHECK(child_succeeds(use_pool_in_a_grandchild), "in the child");
    CHECK(threads_that_come(3) == 3, "after the fork");
}

#ifndef __SANITIZE_ADDRESS__ /* whose own locks are as they were in the child, if another thread had them */
static void test_fork_during_use(void) {
    struct hammer other;
    start(&other);
    for (int i = 0; i < rounds / 100; i++) {
        CHECK(child_succeeds(use_pool_and_exit), "fork %d", i);
        sleep_us((int)random_below(300));
    }
    stop(&other);
}
#endif

static void exit_during_use(void) {
    static struct hammer other;
    start(&other);
    exit(0);
}

static void exit_with_idle_workers(void) { exit(threads_that_come(3) != 3); }

/* First of the tests: a pool that a fork left behind in the child is, rightly, a leak to a leak checker. */
static void test_exit(void) {
    CHECK(child_succeeds(exit_with_idle_workers), "with idle workers");
    for (int i = 0; i < 5; i++) CHECK(child_succeeds(exit_during_use), "during use");
}

static volatile sig_atomic_t signal_was_mine;
static pthread_t main_thread;

static void on_signal(int number) {
    (void)number;
    signal_was_mine = pthread_equal(pthread_self(), main_thread);
}

/* With the caller's signals blocked, no worker may take one. */
static void test_signals_stay_with_the_caller(void) {
    CHECK(threads_that_come(4) == 4, "workers exist");
    main_thread = pthread_self();
    signal(SIGUSR1, on_signal);
    sigset_t one, before, pending;
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &one, &before);
    kill(getpid(), SIGUSR1);
    sleep_us(10000);
    sigpending(&pending);
    CHECK(sigismember(&pending, SIGUSR1) == 1, "a worker took the signal");
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    sleep_us(1000);
    CHECK(signal_was_mine, "the signal did not reach the caller");
    signal(SIGUSR1, SIG_DFL);
}

static double cpu_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void test_idle_workers_sleep(void) {
    CHECK(threads_that_come(8) == 8, "workers exist");
    const double before = cpu_seconds();
    sleep_us(200000);
    const double used = cpu_seconds() - before;
    CHECK(used < 0.05, "8 idle threads used %.0f ms of CPU in 200 ms", used * 1e3);
}

static void run_out_of_memory(void) {
    struct record r;
    const bool two = threads_that_come(2) == 2;
    const struct rlimit none = {1 << 12, 1 << 12};
    setrlimit(RLIMIT_AS, &none); /* no room for another thread's stack */
    clear(&r, 10);
    smm_parallel_for(2000, 10, 64, note, &r, NULL);
    _exit(!(two && is_complete(&r, 2000)));
}

static void run_out_of_memory_at_once(void) {
    struct record r;
    const struct rlimit none = {1 << 12, 1 << 12};
    setrlimit(RLIMIT_AS, &none);
    clear(&r, 10);
    smm_parallel_for(2000, 10, 64, note, &r, NULL);
    _exit(!is_complete(&r, 2000));
}

static void test_without_memory_for_workers(void) {
    CHECK(child_succeeds(run_out_of_memory), "with one worker");
    CHECK(child_succeeds(run_out_of_memory_at_once), "with no worker");
}

static void set_variable(const char *name, const char *value) {
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
}

static void test_limits(void) {
    static const struct {
        const char *ours, *openmp;
        int expected; /* 0: what the machine allows */
    } cases[] = {
        {NULL, NULL, 0}, {"3", NULL, 3},  {"3", "5", 3},    {NULL, "5", 5},      {NULL, "6,2,1", 6},
        {"", "5", 5},    {"+2", NULL, 2}, {" 7 ", NULL, 7}, {NULL, " 4 , 2", 4}, {NULL, "0", 0},
        {NULL, ",4", 0}, {NULL, "", 0},   {NULL, "two", 0}, {NULL, "2.5", 0},
    };
    static const char *const wrong[] = {"x", "0", "-2", "4,2", "3x", "2.5", " "};
    set_variable("SMALLMM_NUM_THREADS", NULL);
    set_variable("OMP_NUM_THREADS", NULL);
    CHECK(smm_set_num_threads(0) == SMM_OK, "set 0");
    const int machine = smm_get_num_threads();
    CHECK(machine >= 1 && machine <= sysconf(_SC_NPROCESSORS_CONF), "the machine allows %d threads", machine);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        set_variable("SMALLMM_NUM_THREADS", cases[i].ours);
        set_variable("OMP_NUM_THREADS", cases[i].openmp);
        CHECK(smm_set_num_threads(0) == SMM_OK, "set 0");
        const int expected = cases[i].expected ? cases[i].expected : machine, found = smm_get_num_threads();
        CHECK(found == expected, "SMALLMM_NUM_THREADS=%s OMP_NUM_THREADS=%s: %d threads, not %d",
              cases[i].ours ? cases[i].ours : "(none)", cases[i].openmp ? cases[i].openmp : "(none)", found, expected);
    }
    CHECK(smm_set_num_threads(12) == SMM_OK && smm_get_num_threads() == 12, "set 12");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        set_variable("SMALLMM_NUM_THREADS", wrong[i]);
        CHECK(smm_set_num_threads(0) == SMM_ERR_THREADS && smm_get_num_threads() == 12, "SMALLMM_NUM_THREADS=%s",
              wrong[i]);
    }
    set_variable("SMALLMM_NUM_THREADS", NULL);
    CHECK(smm_set_num_threads(-1) == SMM_ERR_ARGUMENT && smm_get_num_threads() == 12, "set -1");
    CHECK(smm_set_num_threads(1 << 30) == SMM_OK && smm_get_num_threads() > 100, "set 2^30");
    smm_set_num_threads(0);
}

/* --- Several nodes ----------------------------------------------------------------------------------- */

static const struct machine *const two_nodes = &machines[1];

static void test_nodes(void) {
    for (int i = 0; i < MACHINES; i++) {
        const struct machine *m = &machines[i];
        opened = 0;
        become(m);
        const smm_nodes *x = smm_numa();
        CHECK(x->count == m->nodes && x->sharing == m->sharing, "%s: %d nodes, %d share", m->name, x->count,
              x->sharing);
        CHECK(m->nodes > 1 ? !x->off : x->off && !*x->off, "%s: off, %s", m->name, x->off);
        CHECK(opened == (m->nodes > 1), "%s: libnuma was opened %d times", m->name, (int)opened);
        int members[NODES_LISTED] = {0};
        for (int seat = 0; seat < 6; seat++) members[x->seat[seat]]++;
        for (int node = 0; node < NODES_LISTED; node++)
            CHECK(members[node] == m->members[node], "%s: %d of 6 participants on node %d", m->name, members[node],
                  node);
        if (x->sharing > 1)
            CHECK(smm_set_has(&x->node[x->seat[0]].set, (int)m->here), "%s: the caller's node", m->name);
        for (int node = 0; node < x->count; node++) {
            int cpus = 0;
            for (int cpu = 0; cpu < SMM_MAX_CPUS; cpu++) cpus += smm_set_has(&x->node[node].set, cpu);
            CHECK(cpus == x->node[node].cpus, "%s: node %d has %d CPUs", m->name, node, cpus);
        }
    }
    set_variable("SMALLMM_NUMA", "0");
    nodes_seen[machines_seen++] = smm_numa();
    smm_numa_use(&pretended);
    CHECK(!strcmp(smm_numa()->off, "SMALLMM_NUMA=0") && smm_numa()->sharing == 1, "SMALLMM_NUMA=0");
    set_variable("SMALLMM_NUMA", NULL);
    become(NULL);
    const smm_nodes *real = smm_numa();
    CHECK(real->sharing >= 1 && (!real->count || smm_node_here(real) < real->count), "this machine: %d nodes share",
          real->sharing);
}

/* Memory of a job: index i lies at byte i of nowhere. */
enum { INDICES = 64000 };
static const void *byte_of(const void *context, intptr_t i) { return (const char *)context + i; }
static intptr_t number_of(const void *page) { return (intptr_t)page - 4096; }
static const smm_home somewhere = {byte_of, (const void *)4096};

static int in_halves(const void *page) { return number_of(page) >= INDICES / 2; }
static int in_halves_backwards(const void *page) { return !in_halves(page); }
static int in_quarters(const void *page) { return number_of(page) >= INDICES / 4; }
static int interleaved(const void *page) { return number_of(page) / 100 % 2; }
static int interleaved_backwards(const void *page) { return !interleaved(page); }
static int on_first(const void *page) { return (void)page, 0; }
static int on_third(const void *page) { return (void)page, 2; }
static int nowhere(const void *page) { return (void)page, -ENOENT; }
static int first_half_of_first(const void *page) { return in_halves(page) ? -ENOENT : 0; }

static void test_shares(void) {
    static const struct {
        const char *name;
        int (*node_of_page)(const void *);
        int machine, refuses, participants;
        int first;          /* the node whose matrices come first */
        double least, most; /* its share */
    } cases[] = {
        {"halves", in_halves, 1, 0, 6, 0, 0.5, 0.5},
        {"backwards", in_halves_backwards, 1, 0, 6, 1, 0.5, 0.5},
        {"quarters", in_quarters, 1, 0, 6, 0, 0.25, 0.25},
        {"interleaved", interleaved, 1, 0, 6, 0, 0.3, 0.7},
        {"interleaved from the other node on", interleaved_backwards, 1, 0, 6, 0, 0.3, 0.7},
        {"on one node", on_first, 1, 0, 6, 0, 1, 1},
        {"not written", nowhere, 1, 0, 6, 0, 0.5, 0.5},
        {"half of it not written", first_half_of_first, 1, 0, 6, 0, 0.75, 0.75},
        {"refused", in_quarters, 1, EPERM, 6, 0, 0.5, 0.5},
        {"more for a larger node", nowhere, 4, 0, 6, 0, 1.0 / 6, 1.0 / 6},
        {"on a node without CPUs", on_third, 7, 0, 6, 0, 0.5, 0.5},
        {"on a node where nobody sits", on_first, 1, 0, 1, 1, 1, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        become(&machines[cases[i].machine]);
        node_of_page = cases[i].node_of_page;
        refuses = cases[i].refuses;
        smm_shares x;
        smm_share_out(cases[i].participants, INDICES, &somewhere, &x);
        refuses = 0;
        int sum = 0;
        for (int j = 0; j < x.count; j++) sum += x.weight[j];
        const double share = (double)x.weight[0] / x.total;
        CHECK(sum == x.total && x.node[0] == cases[i].first && share >= cases[i].least && share <= cases[i].most,
              "%s: node %d gets %g, all %d of %d", cases[i].name, x.node[0], share, sum, x.total);
    }
}

static void test_one_node_makes_no_call(void) {
    become(&machines[0]);
    const int before = calls_made;
    struct record r;
    for (int i = 0; i < 10; i++) {
        clear(&r, 10);
        smm_parallel_for(MAX, 10, 4, note, &r, &somewhere);
        CHECK(is_complete(&r, MAX), "round %d", i);
    }
    CHECK(calls_made == before, "%d calls", calls_made - before);
    become(NULL);
}

static void test_pages(void) {
    become(two_nodes);
    node_of_page = in_halves;
    char memory[1];
    void *pages[] = {(void *)4096, (void *)(4096 + INDICES - 1)};
    int to[] = {1, 0}, status[2];
    smm_set nodes = {0};
    smm_set_add(&nodes, 1);
    CHECK(!smm_bind_pages(memory, 1, false, &nodes) && bound.address == memory && bound.bytes == 1 && bound.mode == 1 &&
              bound.nodes == 2,
          "bound to node 1");
    smm_set_add(&nodes, 3);
    CHECK(!smm_bind_pages(memory, 1, true, &nodes) && bound.mode == 3 && bound.nodes == 10, "interleaved");
    CHECK(!smm_move_pages(2, pages, NULL, status) && status[0] == 0 && status[1] == 1, "where they are");
    CHECK(!smm_move_pages(2, pages, to, status) && status[0] == 1 && status[1] == 0, "moved");
    refuses = EPERM;
    CHECK(smm_bind_pages(memory, 1, false, &nodes) == EPERM && smm_move_pages(2, pages, to, status) == EPERM,
          "refused");
    refuses = 0;
    become(NULL);
}

static void test_without_libnuma(void) {
    no_libnuma = "it is missing";
    become(two_nodes);
    const int before = calls_made;
    const smm_nodes *x = smm_numa();
    CHECK(x->count == 2 && x->sharing == 1 && x->off == no_libnuma, "%d nodes share", x->sharing);
    smm_set nodes = {0};
    int status;
    CHECK(smm_bind_pages(NULL, 1, false, &nodes) == ENOSYS && smm_move_pages(1, NULL, NULL, &status) == ENOSYS,
          "calls");
    CHECK(threads_that_come(4) == 4 && calls_made == before, "%d calls", calls_made - before);
    no_libnuma = NULL;
    become(NULL);
}

/* A list that is a pipe, which nobody writes to, and one of numbers beyond those of CPUs: neither is waited for. */
static void test_odd_lists(void) {
    static const char beyond[] = "-9223372036854775807-1,3-9223372036854775807\n";
    const struct machine m = {"odd", "0-1\n", "0-1\n", {beyond, "0\n"}, 0xff, 0, 2, 2, {3, 3}};
    become(&m);
    CHECK(smm_numa()->count == 2 && smm_numa()->node[0].cpus == 7, "%d CPUs", smm_numa()->node[0].cpus);
    char folder[] = "/tmp/nodes-XXXXXX", path[64];
    if (!CHECK(mkdtemp(folder) != NULL, "no folder")) return;
    snprintf(path, sizeof path, "%s/online", folder);
    CHECK(!mkfifo(path, 0600), "no pipe");
    set_variable("SMALLMM_NUMA", folder);
    nodes_seen[machines_seen++] = smm_numa();
    smm_numa_use(&pretended);
    CHECK(!smm_numa()->count, "a pipe");
    set_variable("SMALLMM_NUMA", NULL);
    unlink(path);
    rmdir(folder);
    become(NULL);
}

/* On every machine each index comes once, wherever the memory is said to lie; few and many participants, more than
 * there are CPUs. */
static void test_every_index_once_on_nodes(void) {
    static int (*const places[])(const void *) = {
        in_halves, in_halves_backwards, in_quarters, interleaved, on_first, on_third, nowhere, first_half_of_first};
    struct record r;
    for (int m = 0; m < MACHINES; m++) {
        become(&machines[m]);
        for (int i = 0; i < rounds / 10; i++) {
            node_of_page = places[i % 8];
            const intptr_t count = random_below(MAX);
            clear(&r, 1 + random_below(50));
            smm_parallel_for(count, r.chunk, (int)random_below(20), note, &r, i % 3 ? &somewhere : NULL);
            CHECK(is_complete(&r, count), "%s, round %d", machines[m].name, i);
        }
        CHECK(threads_that_come(4) == 4, "%s: 4 threads take part", machines[m].name);
        test_given_up();
        test_nested();
    }
    become(NULL);
}

/* The caller is on node 1, whose stretch is the second half. The claims of other threads may not be counted yet. */
enum { HALF = MAX / 2, IN_FLIGHT = 5 * 4 };
static atomic_int homeless, early, by_sleepers, claimed[2], came[2];
static bool note_home(void *context, intptr_t first, intptr_t last) {
    struct record *r = context;
    const bool caller = pthread_equal(pthread_self(), r->caller);
    const int home = caller || cpus_of_thread == 0xf0;
    homeless += cpus_of_thread != (caller ? 0 : home ? 0xf0 : 0x0f);
    if (home != (first >= HALF)) early += claimed[home] < HALF - IN_FLIGHT;
    claimed[first >= HALF] += (int)(last - first);
    static _Thread_local bool slow;
    slow |= !came[home]++;
    if (slow) sleep_us(500);
    return note(context, first, last);
}

/* Workers stay on the CPUs of a node, the caller where it was. One participant of each node is slow: others of the node
 * help it before they help the other node. */
static void test_workers_stay_on_their_node(void) {
    become(two_nodes);
    struct record r;
    clear(&r, 1);
    smm_parallel_for(MAX, 1, 6, note_home, &r, NULL);
    CHECK(is_complete(&r, MAX), "complete");
    CHECK(!homeless, "%d calls on other CPUs", (int)homeless);
    CHECK(!early, "%d claims of the other node's before its own were taken", (int)early);
    become(NULL);
}

static bool sleep_on_first(void *context, intptr_t first, intptr_t last) {
    if (cpus_of_thread == 0x0f) {
        by_sleepers += (int)(last - first);
        sleep_us(20000);
    }
    return note(context, first, last);
}

/* The workers of one node sleep; the caller, who is on the other, and its workers do the rest. */
static void test_other_nodes_help(void) {
    become(two_nodes);
    struct record r;
    clear(&r, 1);
    by_sleepers = 0;
    smm_parallel_for(MAX, 1, 6, sleep_on_first, &r, NULL);
    CHECK(is_complete(&r, MAX), "complete");
    CHECK(by_sleepers < MAX / 4, "%d of %d by those who sleep", (int)by_sleepers, MAX);
    become(NULL);
}

static void test_fork_on_nodes(void) {
    become(two_nodes);
    test_fork();
    become(NULL);
}

int main(int argc, char **argv) {
    static const struct test tests[] = {
        {"exit", test_exit},
        {"every index once", test_every_index_once},
        {"small jobs stay in the caller", test_small_jobs_stay_in_the_caller},
        {"all threads take part", test_all_threads_take_part},
        {"floating-point environment", test_floating_point_environment},
        {"given up", test_given_up},
        {"nested", test_nested},
        {"concurrent callers", test_concurrent_callers},
        {"signals stay with the caller", test_signals_stay_with_the_caller},
        {"idle workers sleep", test_idle_workers_sleep},
        {"limits", test_limits},
        {"nodes", test_nodes},
        {"shares", test_shares},
        {"pages", test_pages},
        {"without libnuma", test_without_libnuma},
        {"odd lists", test_odd_lists},
        {"one node makes no call", test_one_node_makes_no_call},
        {"every index once on nodes", test_every_index_once_on_nodes},
        {"workers stay on their node", test_workers_stay_on_their_node},
        {"other nodes help", test_other_nodes_help},
        /* User-mode qemu 7.2 cannot start a thread in the forked child of a process of several threads. */
        {"fork", test_fork},
#ifndef __SANITIZE_ADDRESS__
        {"fork during use", test_fork_during_use},
#endif
        {"fork on nodes", test_fork_on_nodes},
        /* Sanitizers and valgrind need memory themselves. */
        {"without memory for workers", test_without_memory_for_workers},
    };
    const int count = sizeof tests / sizeof *tests;
    const bool emulated = argc > 1 && !strcmp(argv[1], "emulated"), quick = argc > 1 && !strcmp(argv[1], "quick");
    if (quick || emulated) rounds = 200;
    return run_tests(tests, emulated ? count - 4 : quick ? count - 1 : count);
}
