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

#include "../../csrc/core.h"
#include "harness.h"

enum { MOST = 3000 };

static int rounds = 2000;

/* What a job did: how often each index came, in how many calls of the body, and by how many threads. Plain
 * counters: if two threads had the same index, ThreadSanitizer would see it. */
struct record {
    unsigned char times[MOST];
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
    for (intptr_t i = 0; i < MOST; i++)
        if (r->times[i] != (i < count)) return false;
    return !r->misplaced;
}

/* One random job, all of it done and nothing twice. */
static bool random_job_is_complete(struct record *r, intptr_t x) {
    const intptr_t count = x % MOST, chunk = 1 + x / 7 % 100;
    clear(r, chunk);
    smm_parallel_for(count, chunk, 1 + (int)(x % 6), note, r);
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
                smm_parallel_for(counts[i], chunks[j], threads[t], note, &r);
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
    smm_parallel_for(100, 1, 1, note_whole, &r);
    smm_parallel_for(100, 1, 0, note_whole, &r);
    smm_parallel_for(100, 100, 8, note_whole, &r);
    smm_parallel_for(100, 200, 8, note_whole, &r);
    CHECK(r.calls == 4, "%d of 4 calls were of the whole range in the caller", r.calls);
}

/* Jobs long enough for `threads` threads to come; how many came to the most popular one. */
static int threads_that_come(int threads) {
    struct record r;
    int most = 0;
    for (int i = 0; i < 20 && most < threads; i++) {
        clear(&r, 1);
        r.nap_us = 2000;
        smm_parallel_for(threads * 4, 1, threads, note, &r);
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
    smm_parallel_for(16, 1, 4, note_rounding, &r);
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
        smm_parallel_for((intptr_t)1 << 60, 1, threads, note_until_enough, &calls);
        CHECK(threads == 1 ? calls == 1 : calls > 100 && calls <= 100 + threads, "%d calls on %d threads", (int)calls,
              threads);
        struct record r;
        CHECK(random_job_is_complete(&r, 1234567), "the job after it, on %d threads", threads);
    }
}

static void test_nested(void) {
    atomic_int wrong = 0;
    for (int i = 0; i < rounds / 50; i++) smm_parallel_for(20, 1, 4, nest, &wrong);
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
        smm_parallel_for(1000, 10, smm_get_num_threads() + i % 2, note, &r);
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

static void test_fork_during_use(void) {
    struct hammer other;
    start(&other);
    for (int i = 0; i < rounds / 100; i++) {
        CHECK(child_succeeds(use_pool_and_exit), "fork %d", i);
        sleep_us((int)random_below(300));
    }
    stop(&other);
}

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
    smm_parallel_for(2000, 10, 64, note, &r);
    _exit(!(two && is_complete(&r, 2000)));
}

static void run_out_of_memory_at_once(void) {
    struct record r;
    const struct rlimit none = {1 << 12, 1 << 12};
    setrlimit(RLIMIT_AS, &none);
    clear(&r, 10);
    smm_parallel_for(2000, 10, 64, note, &r);
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
        /* User-mode qemu 7.2 cannot start a thread in the forked child of a process of several threads. */
        {"fork", test_fork},
        {"fork during use", test_fork_during_use},
        /* Sanitizers and valgrind need memory themselves. */
        {"without memory for workers", test_without_memory_for_workers},
    };
    const int count = sizeof tests / sizeof *tests;
    const bool emulated = argc > 1 && !strcmp(argv[1], "emulated"), quick = argc > 1 && !strcmp(argv[1], "quick");
    if (quick || emulated) rounds = 200;
    return run_tests(tests, emulated ? count - 3 : quick ? count - 1 : count);
}
