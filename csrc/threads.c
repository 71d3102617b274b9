/* threads.c: the thread pool behind smm_parallel_for, and how many threads a call may use.
 *
 * One pool per process and one job at a time. Whoever finds the pool in use, another thread or a nested
 * call, runs its whole range alone: nobody ever waits for a pool. Workers are created when first needed,
 * spin for some microseconds after a job, then sleep; they are never joined. A forked child starts with
 * no pool. It is not a task scheduler, it binds no thread to a CPU, and results never depend on it.
 * The library must not be unloaded while workers exist.
 *
 * A worker and the caller speak through one word, the worker's state:
 *
 *     IDLE or ASLEEP --caller--> CALLED --worker--> WORKING --worker--> IDLE
 *     CALLED --caller--> IDLE        all work is taken: do not wait for a worker that has yet to come
 *     IDLE --worker--> ASLEEP        asleep until the state changes
 *     WORKING --caller--> AWAITED    the caller, asleep until the state changes
 */
#define _GNU_SOURCE
#include <fenv.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#if defined(__linux__)
#include <math.h>
#include <sched.h>
#endif

#include "core.h"

enum {
    MAX_THREADS = 512,
    LINE = 128,          /* bytes: two cache lines, which x86 prefetchers fetch as one */
    STACK = 1 << 20,     /* bytes of stack of a worker; 128 KB of buffers and kernels' frames of up to 210 KB */
    SPIN_NS = 30000,     /* longer than the gap between back-to-back calls, too short to be felt by others */
    SPINS_PER_LOOK = 32, /* pauses between two looks at the clock */
    MOST_CHUNKS = 8,     /* of a claim */
};

enum { IDLE, ASLEEP, CALLED, WORKING, AWAITED };

/* Participant 0 is the caller, the others are workers. Each starts with its own part of the job. */
struct participant {
    _Alignas(LINE) atomic_int state;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct pool *pool;
    _Alignas(LINE) atomic_intptr_t next; /* the part's first matrix that nobody has claimed */
    intptr_t end;
};

struct pool {
    int workers; /* that exist: participants 1 .. workers */
    /* the job */
    smm_body_fn *body;
    void *context;
    fenv_t environment; /* of the caller: rounding, and whether subnormal numbers are flushed to zero */
    intptr_t chunk;
    int participants;
    struct participant participant[MAX_THREADS];
};

/* Only the holder of `in_use` touches the pool. */
static atomic_bool in_use;
static struct pool *_Atomic the_pool;

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void pause_cpu(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb"); /* a pause about as long as x86's; YIELD is a no-op on most cores */
#endif
}

/* Change the state; wake whoever sleeps on the old one. Taking the mutex makes sure the sleeper has come
 * as far as its cond_wait. Release: what was written before is seen by who acts on the new state. */
static void change(struct participant *p, int state) {
    const int old = atomic_exchange_explicit(&p->state, state, memory_order_acq_rel);
    if (old == ASLEEP || old == AWAITED) {
        pthread_mutex_lock(&p->mutex);
        pthread_mutex_unlock(&p->mutex);
        pthread_cond_signal(&p->changed);
    }
}

/* Change the state if it is `from`. */
static bool change_from(struct participant *p, int from, int to) {
    return atomic_compare_exchange_strong_explicit(&p->state, &from, to, memory_order_acq_rel, memory_order_acquire);
}

/* Return when the state is no longer `state`: spin a while, then mark it `asleep` and sleep. Acquire: the
 * counterpart of change(). */
static void wait_while(struct participant *p, int state, int asleep) {
    const int64_t end = now_ns() + SPIN_NS;
    do {
        for (int i = 0; i < SPINS_PER_LOOK; i++) {
            if (atomic_load_explicit(&p->state, memory_order_acquire) != state) return;
            pause_cpu();
        }
    } while (now_ns() < end);
    pthread_mutex_lock(&p->mutex);
    if (change_from(p, state, asleep))
        while (atomic_load_explicit(&p->state, memory_order_acquire) == asleep)
            pthread_cond_wait(&p->changed, &p->mutex);
    pthread_mutex_unlock(&p->mutex);
}

/* Claim matrices first .. end-1 of a part, of which some are left at `first`: half of what is left, so that claims are
 * few and yet the last ones small; but no more than makes others wait if this thread is held up. If another thread was
 * faster, `first` is where it left the part. */
static bool claim(const struct pool *pool, struct participant *part, intptr_t *first, intptr_t *end) {
    const intptr_t chunks = (part->end - *first) / pool->chunk / 2;
    *end = *first + pool->chunk * (chunks < 1 ? 1 : chunks > MOST_CHUNKS ? MOST_CHUNKS : chunks);
    /* Relaxed: a claim orders nothing but itself; the job came, and its results go, with the state. */
    return atomic_compare_exchange_strong_explicit(&part->next, first, *end, memory_order_relaxed,
                                                   memory_order_relaxed);
}

/* Work through one's own part, then help with the others'. */
static void work(struct pool *pool, int self) {
    for (int i = 0; i < pool->participants; i++) {
        struct participant *part = &pool->participant[(self + i) % pool->participants];
        intptr_t first = atomic_load_explicit(&part->next, memory_order_relaxed), end;
        while (first < part->end) {
            if (!claim(pool, part, &first, &end)) continue;
            pool->body(pool->context, first, end < part->end ? end : part->end);
            first = atomic_load_explicit(&part->next, memory_order_relaxed);
        }
    }
}

static void *worker_main(void *argument) {
    struct participant *self = argument;
    for (;;) {
        wait_while(self, IDLE, ASLEEP);
        if (change_from(self, CALLED, WORKING)) {
            fesetenv(&self->pool->environment);
            work(self->pool, (int)(self - self->pool->participant));
            change(self, IDLE);
        }
    }
    return NULL;
}

static bool create_worker(struct participant *p) {
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes)) return false;
    pthread_attr_setstacksize(&attributes, STACK);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    /* A new thread inherits the mask: leave every signal but its own faults to the threads of the program. */
    sigset_t all, before;
    sigfillset(&all);
    sigdelset(&all, SIGSEGV);
    sigdelset(&all, SIGBUS);
    sigdelset(&all, SIGFPE);
    sigdelset(&all, SIGILL);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    const bool created = !pthread_create(&thread, &attributes, worker_main, p);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return created;
}

/* The pool with as many of `workers` workers as can be had, or NULL. */
static struct pool *pool_with(int workers) {
    struct pool *pool = atomic_load_explicit(&the_pool, memory_order_relaxed);
    if (!pool) {
        pool = aligned_alloc(LINE, sizeof *pool);
        if (!pool) return NULL;
        pool->workers = 0;
        atomic_store_explicit(&the_pool, pool, memory_order_relaxed);
    }
    while (pool->workers < workers) {
        struct participant *p = &pool->participant[pool->workers + 1];
        atomic_init(&p->state, IDLE);
        pthread_mutex_init(&p->mutex, NULL);
        pthread_cond_init(&p->changed, NULL);
        p->pool = pool;
        if (!create_worker(p)) break;
        pool->workers++;
    }
    return pool;
}

/* In a forked child no worker exists, and the thread that held the pool may not either. Forget the pool:
 * its memory may be in any state, so it is neither used again nor freed. */
static void forget_pool(void) {
    atomic_store_explicit(&the_pool, NULL, memory_order_relaxed);
    atomic_store_explicit(&in_use, false, memory_order_relaxed);
}

__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(NULL, NULL, forget_pool); }

static void run_job(struct pool *pool, intptr_t chunks, intptr_t count) {
    const intptr_t share = chunks / pool->participants, rest = chunks % pool->participants;
    for (intptr_t i = 0, first = 0; i < pool->participants; i++) {
        struct participant *p = &pool->participant[i];
        atomic_store_explicit(&p->next, first * pool->chunk, memory_order_relaxed);
        first += share + (i < rest);
        p->end = first == chunks ? count : first * pool->chunk;
    }
    for (int i = 1; i < pool->participants; i++) change(&pool->participant[i], CALLED);
    work(pool, 0);
    for (int i = 1; i < pool->participants; i++)
        if (!change_from(&pool->participant[i], CALLED, IDLE)) wait_while(&pool->participant[i], WORKING, AWAITED);
}

void smm_parallel_for(intptr_t count, intptr_t chunk, int threads, smm_body_fn *body, void *context) {
    const intptr_t chunks = count / chunk + (count % chunk > 0);
    if (threads > MAX_THREADS) threads = MAX_THREADS;
    if (threads > chunks) threads = (int)chunks;
    /* Acquire and release of `in_use`: the pool's fields go from one holder to the next. */
    if (threads <= 1 || atomic_exchange_explicit(&in_use, true, memory_order_acquire)) {
        body(context, 0, count);
        return;
    }
    struct pool *pool = pool_with(threads - 1);
    if (pool && pool->workers) {
        pool->body = body;
        pool->context = context;
        fegetenv(&pool->environment);
        pool->chunk = chunk;
        pool->participants = threads - 1 < pool->workers ? threads : pool->workers + 1;
        run_job(pool, chunks, count);
    } else {
        body(context, 0, count);
    }
    atomic_store_explicit(&in_use, false, memory_order_release);
}

/* --- How many threads ------------------------------------------------------------------------------- */

static int at_most(int limit, double cpus) { return cpus < limit ? (int)cpus : limit; }

#if defined(__linux__)
/* The first numbers of a file: "quota period" in cgroup v2's cpu.max, one number in v1's files; how many. */
static int read_numbers(const char *root, const char *path, const char *name, double *x, double *y) {
    char file[4096 + 64];
    snprintf(file, sizeof file, "%s%s/%s", root, path, name);
    FILE *stream = fopen(file, "r");
    const int read = stream ? fscanf(stream, "%lf %lf", x, y) : 0;
    if (stream) fclose(stream);
    return read;
}

/* The CPUs that the cgroup `path` and the cgroups above it allow. Inside a container the path may be the
 * host's and only the root, its last ancestor, be visible. Shortens `path`. */
static double quota_of(const char *root, char *path, bool v2) {
    for (double cpus = HUGE_VAL;;) {
        double quota = -1, period = -1, none;
        if (v2)
            read_numbers(root, path, "cpu.max", &quota, &period);
        else if (read_numbers(root, path, "cpu.cfs_quota_us", &quota, &none))
            read_numbers(root, path, "cpu.cfs_period_us", &period, &none);
        if (quota > 0 && period > 0) cpus = fmin(cpus, ceil(quota / period));
        char *slash = strrchr(path, '/');
        if (!slash) return cpus;
        *slash = 0;
    }
}

/* /proc/self/cgroup has a line "id:controllers:path" per hierarchy; cgroup v2's has no controllers. */
static double cgroup_cpus(void) {
    double cpus = HUGE_VAL;
    char line[4096];
    FILE *groups = fopen("/proc/self/cgroup", "r");
    while (groups && fgets(line, sizeof line, groups)) {
        char *controllers = strchr(line, ':'), *path = controllers ? strchr(controllers + 1, ':') : NULL, *rest;
        if (!path) continue;
        *controllers++ = *path++ = 0;
        path[strcspn(path, "\n")] = 0;
        if (!*controllers) cpus = fmin(cpus, quota_of("/sys/fs/cgroup", path, true));
        for (char *c = strtok_r(controllers, ",", &rest); c; c = strtok_r(NULL, ",", &rest))
            if (!strcmp(c, "cpu")) cpus = fmin(cpus, quota_of("/sys/fs/cgroup/cpu", path, false));
    }
    if (groups) fclose(groups);
    return cpus;
}
#endif

static int cpus_allowed(void) {
#if defined(__linux__)
    cpu_set_t cpus[16]; /* room for 16 x 1024 CPUs */
    const double available = sched_getaffinity(0, sizeof cpus, cpus) ? 1 : CPU_COUNT_S(sizeof cpus, cpus);
    const int limit = at_most(MAX_THREADS, fmin(available, cgroup_cpus()));
#else
    const int limit = at_most(MAX_THREADS, (double)sysconf(_SC_NPROCESSORS_ONLN));
#endif
    return limit > 1 ? limit : 1;
}

/* The positive integer that an environment variable begins with, 0 if it is none. Blanks, or one of `ends`
 * and anything, may follow. */
static int positive(const char *name, const char *ends) {
    const char *text = getenv(name);
    if (!text) return 0;
    char *end;
    const long value = strtol(text, &end, 10);
    end += strspn(end, " \t\r\n");
    return end == text || value <= 0 || (*end && !strchr(ends, *end)) ? 0 : at_most(MAX_THREADS, (double)value);
}

static int default_threads(void) {
    int threads = positive("SMALLMM_NUM_THREADS", "");
    if (!threads) threads = positive("OMP_NUM_THREADS", ","); /* a list has one entry per level of nesting */
    return threads ? threads : cpus_allowed();
}

static atomic_int limit_in_use; /* 0: not yet looked up. Relaxed: a number on its own. */

int smm_get_num_threads(void) {
    int threads = atomic_load_explicit(&limit_in_use, memory_order_relaxed);
    if (!threads) {
        int unset = 0;
        threads = default_threads();
        if (!atomic_compare_exchange_strong_explicit(&limit_in_use, &unset, threads, memory_order_relaxed,
                                                     memory_order_relaxed))
            threads = unset; /* another thread was faster */
    }
    return threads;
}

smm_status smm_set_num_threads(int threads) {
    if (threads < 0) return SMM_ERR_ARGUMENT;
    atomic_store_explicit(&limit_in_use, threads ? at_most(MAX_THREADS, threads) : default_threads(),
                          memory_order_relaxed);
    return SMM_OK;
}
