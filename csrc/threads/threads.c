/* threads.c: the thread pool behind smm_parallel_for, and how many threads a call may use.
 *
 * One pool per process and one job at a time. A caller that finds the pool in use (by another thread, or
 * by the call that it is nested in) runs its whole range alone, so nobody waits for the pool. Workers are created when
 * first needed, spin for some microseconds after a job, then sleep; they are never joined. A forked child starts with
 * no pool. It is not a task scheduler, and results never depend on it.
 * The library must not be unloaded while workers exist.
 *
 * Each participant belongs to a node (numa.h). Where there are several, a worker runs on the CPUs of its node, a node
 * gets one stretch of the matrices, and its participants help each other before they help others.
 *
 * The caller opens a job by one store to a word that all workers look at, and closes it when all work is taken, so that
 * nobody waits for a worker who has yet to come. What a worker does is its state, which it writes itself: speaking to
 * each of 15 workers in turn would take the caller longer than a small job.
 *
 *     IDLE --> ASLEEP       the job's word did not call it for a while: whoever opens a job that does must wake it
 *     IDLE, ASLEEP --> WORKING --> IDLE
 *     WORKING --caller--> AWAITED --> IDLE    the caller sleeps until the worker is done
 *
 * A worker says WORKING, then looks once more whether the job is open; the caller closes it, then looks who is WORKING.
 * Both are sequentially consistent, so at least one of them sees the other. ASLEEP and opening a job meet in the same
 * way.
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

#include "../core/core.h"

enum {
    LINE = 128,          /* bytes: two cache lines, which x86 prefetchers fetch together */
    STACK = 1 << 20,     /* bytes of stack of a worker; up to 100 KB are used, more in builds for debugging */
    SPIN_NS = 30000,     /* longer than the gap between back-to-back calls, too short to disturb others */
    SPINS_PER_LOOK = 32, /* pauses between two looks at the clock */
    MAX_CHUNKS = 4,      /* of a claim */
    JOB = 1024,          /* from one job's number to the next */
};

_Static_assert((int)JOB > (int)SMM_MAX_THREADS, "a job's word says how many take part");

enum { IDLE, ASLEEP, WORKING, AWAITED };

/* Participant 0 is the caller, the others are workers. Each starts with its own part of the job. */
struct participant {
    _Alignas(LINE) atomic_int state;
    pthread_mutex_t mutex;
    pthread_cond_t changed; /* the state, or the job */
    struct pool *pool;
    _Alignas(LINE) atomic_intptr_t next; /* the first matrix of the part that nobody has claimed */
    intptr_t end;
};

struct pool {
    int workers;            /* that exist: participants 1 .. workers */
    const smm_nodes *nodes; /* and where each participant belongs */
    /* the job, while it is open */
    smm_body_fn *body;
    void *context;
    fenv_t environment; /* the caller's rounding mode, and whether it flushes subnormal numbers to zero */
    atomic_int raised;  /* floating-point exceptions in workers, which become the caller's */
    intptr_t chunk;
    _Alignas(LINE) atomic_uint job; /* a multiple of JOB plus the number of participants, 0 while the job is closed */
    struct participant participant[SMM_MAX_THREADS];
};

/* Only the holder of `in_use` touches the pool. */
static atomic_bool in_use;
static struct pool *_Atomic the_pool;

int64_t smm_now_ns(void) {
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

struct spin {
    int looks;
    int64_t end; /* 0: not yet known */
};

/* Pause. True until SPIN_NS have passed: look once more. */
static bool spin(struct spin *s) {
    pause_cpu();
    if (++s->looks % SPINS_PER_LOOK) return true;
    const int64_t now = smm_now_ns();
    if (!s->end) s->end = now + SPIN_NS;
    return now < s->end;
}

/* Wake the threads that sleep on a participant. Taking the mutex makes sure that they have reached their cond_wait. */
static void wake(struct participant *p) {
    pthread_mutex_lock(&p->mutex);
    pthread_mutex_unlock(&p->mutex);
    pthread_cond_signal(&p->changed);
}

/* The open job if worker `number` takes part in it and it is not `seen`; otherwise 0. */
static unsigned called(struct pool *pool, unsigned number, unsigned seen) {
    const unsigned job = atomic_load(&pool->job);
    return number < job % JOB && job != seen ? job : 0;
}

static unsigned wait_for_job(struct participant *self, unsigned number, unsigned seen) {
    unsigned job;
    struct spin s = {0};
    do {
        if ((job = called(self->pool, number, seen))) return job;
    } while (spin(&s));
    pthread_mutex_lock(&self->mutex);
    atomic_store(&self->state, ASLEEP);
    while (!(job = called(self->pool, number, seen))) pthread_cond_wait(&self->changed, &self->mutex);
    pthread_mutex_unlock(&self->mutex);
    return job;
}

static void wait_until_done(struct participant *worker) {
    struct spin s = {0};
    do {
        if (atomic_load(&worker->state) != WORKING) return;
    } while (spin(&s));
    int working = WORKING;
    pthread_mutex_lock(&worker->mutex);
    if (atomic_compare_exchange_strong(&worker->state, &working, AWAITED))
        while (atomic_load(&worker->state) == AWAITED) pthread_cond_wait(&worker->changed, &worker->mutex);
    pthread_mutex_unlock(&worker->mutex);
}

/* Claim matrices first .. end-1 of a part in which unclaimed matrices begin at `first`. A claim is half of what is
 * left, so claims are few and the last ones are small. It is limited, so that a delayed thread does not make the others
 * wait. If another thread was faster, `first` becomes the place where that thread left the part. */
static bool claim(const struct pool *pool, struct participant *part, intptr_t *first, intptr_t *end) {
    const intptr_t chunks = (part->end - *first) / pool->chunk / 2;
    *end = *first + pool->chunk * (chunks < 1 ? 1 : chunks > MAX_CHUNKS ? MAX_CHUNKS : chunks);
    /* Relaxed: a claim orders nothing else. The job is published by its word, its results by the state. */
    return atomic_compare_exchange_strong_explicit(&part->next, first, *end, memory_order_relaxed,
                                                   memory_order_relaxed);
}

/* Leave nothing to claim. */
static void give_up(struct pool *pool, unsigned participants) {
    for (unsigned i = 0; i < participants; i++) atomic_store(&pool->participant[i].next, pool->participant[i].end);
}

/* Work through the parts of this node's participants, or of the other nodes'; first the participant's own part. */
static void work_on(struct pool *pool, unsigned self, unsigned participants, bool near) {
    const uint8_t *node = pool->nodes->seat;
    for (unsigned i = 0; i < participants; i++) {
        const unsigned other = (self + i) % participants;
        if ((node[other] == node[self]) != near) continue;
        struct participant *part = &pool->participant[other];
        intptr_t first = atomic_load_explicit(&part->next, memory_order_relaxed), end;
        while (first < part->end) {
            if (!claim(pool, part, &first, &end)) continue;
            if (!pool->body(pool->context, first, end < part->end ? end : part->end)) give_up(pool, participants);
            first = atomic_load_explicit(&part->next, memory_order_relaxed);
        }
    }
}

static void work(struct pool *pool, unsigned self, unsigned participants) {
    work_on(pool, self, participants, true);
    if (pool->nodes->sharing > 1) work_on(pool, self, participants, false);
}

static void *worker_main(void *argument) {
    struct participant *self = argument;
    struct pool *pool = self->pool;
    const unsigned number = (unsigned)(self - pool->participant);
    if (pool->nodes->sharing > 1) smm_stay_on(pool->nodes, pool->nodes->seat[number]);
    for (unsigned job = 0;;) {
        job = wait_for_job(self, number, job);
        atomic_store(&self->state, WORKING);
        if (atomic_load(&pool->job) == job) {
            fesetenv(&pool->environment);
            work(pool, number, job % JOB);
            const int raised = fetestexcept(FE_ALL_EXCEPT & ~FE_INEXACT);
            if (raised) atomic_fetch_or(&pool->raised, raised);
        }
        if (atomic_exchange(&self->state, IDLE) == AWAITED) wake(self);
    }
    return NULL;
}

static bool create_worker(struct participant *p) {
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes)) return false;
    pthread_attr_setstacksize(&attributes, STACK);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    /* A new thread inherits the signal mask: leave all signals but the thread's own faults to the threads of the
     * program. */
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

/* The pool with `workers` workers, or as many as can be created. NULL: there is no memory for a pool. */
static struct pool *pool_with(int workers) {
    struct pool *pool = atomic_load_explicit(&the_pool, memory_order_relaxed);
    if (!pool) {
        pool = aligned_alloc(LINE, sizeof *pool);
        if (!pool) return NULL;
        pool->workers = 0;
        pool->nodes = smm_numa();
        atomic_init(&pool->job, 0);
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
void smm_forget_pool(void) {
    atomic_store_explicit(&the_pool, NULL, memory_order_relaxed);
    atomic_store_explicit(&in_use, false, memory_order_relaxed);
}

__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(NULL, NULL, smm_forget_pool); }

/* Divide chunks first .. last-1, which end at matrix `end`, among a node's participants. */
static void deal(struct pool *pool, unsigned participants, int node, intptr_t first, intptr_t last, intptr_t end) {
    const uint8_t *seat = pool->nodes->seat;
    intptr_t members = 0, dealt = 0;
    for (unsigned i = 0; i < participants; i++) members += seat[i] == node;
    const intptr_t share = (last - first) / members, rest = (last - first) % members;
    for (unsigned i = 0; i < participants; i++) {
        if (seat[i] != node) continue;
        struct participant *p = &pool->participant[i];
        atomic_store_explicit(&p->next, first * pool->chunk, memory_order_relaxed);
        first += share + (dealt++ < rest);
        p->end = first == last ? end : first * pool->chunk;
    }
}

/* Divide the job among all participants: a stretch for each node. */
static void deal_all(struct pool *pool, unsigned participants, intptr_t chunks, intptr_t count, const smm_home *home) {
    smm_shares shares;
    smm_share_out((int)participants, count, home, &shares);
    intptr_t first = 0, last;
    for (int i = 0, sum = 0; i < shares.count; i++, first = last) {
        sum += shares.weight[i];
        last = chunks / shares.total * sum + chunks % shares.total * sum / shares.total;
        deal(pool, participants, shares.node[i], first, last, last == chunks ? count : last * pool->chunk);
    }
}

static void run_job(struct pool *pool, unsigned participants) {
    const unsigned job = atomic_load_explicit(&pool->job, memory_order_relaxed) + JOB;
    atomic_store(&pool->job, job + participants);
    for (unsigned i = 1; i < participants; i++)
        if (atomic_load(&pool->participant[i].state) == ASLEEP) wake(&pool->participant[i]);
    work(pool, 0, participants);
    atomic_store(&pool->job, job);
    for (unsigned i = 1; i < participants; i++) wait_until_done(&pool->participant[i]);
}

void smm_parallel_for(intptr_t count, intptr_t chunk, int threads, smm_body_fn *body, void *context,
                      const smm_home *home) {
    const intptr_t chunks = count / chunk + (count % chunk > 0);
    if (threads > SMM_MAX_THREADS) threads = SMM_MAX_THREADS;
    if (threads > chunks) threads = (int)chunks;
    /* Acquire and release of `in_use` hand the pool's fields from one holder to the next. */
    if (threads <= 1 || atomic_exchange_explicit(&in_use, true, memory_order_acquire)) {
        body(context, 0, count);
        return;
    }
    struct pool *pool = pool_with(threads - 1);
    if (pool && pool->workers) {
        pool->body = body;
        pool->context = context;
        fegetenv(&pool->environment);
        atomic_store_explicit(&pool->raised, 0, memory_order_relaxed);
        pool->chunk = chunk;
        const int participants = threads - 1 < pool->workers ? threads : pool->workers + 1;
        deal_all(pool, participants, chunks, count, home);
        run_job(pool, participants);
        const int raised = atomic_load_explicit(&pool->raised, memory_order_relaxed);
        if (raised) feraiseexcept(raised);
    } else {
        body(context, 0, count);
    }
    atomic_store_explicit(&in_use, false, memory_order_release);
}

/* --- How many threads ------------------------------------------------------------------------------- */

static int at_most(int limit, double cpus) { return cpus < limit ? (int)cpus : limit; }

#if defined(__linux__)
/* Read the first numbers of a file: "quota period" in cgroup v2's cpu.max, one number in v1's files. Returns how many
 * it read. */
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
    const int limit = at_most(SMM_MAX_THREADS, fmin(available, cgroup_cpus()));
#else
    const int limit = at_most(SMM_MAX_THREADS, (double)sysconf(_SC_NPROCESSORS_ONLN));
#endif
    return limit > 1 ? limit : 1;
}

/* The positive integer at the beginning of a text, which may be followed by blanks, or by one of `ends` and then
 * anything. 0: the text is something else. */
static int positive(const char *text, const char *ends) {
    char *end;
    const long value = strtol(text, &end, 10);
    end += strspn(end, " \t\r\n");
    return end == text || value <= 0 || (*end && !strchr(ends, *end)) ? 0 : at_most(SMM_MAX_THREADS, (double)value);
}

/* OpenMP itself checks OMP_NUM_THREADS. It may be a list with an entry per level of nesting; the first counts. */
int smm_default_threads(void) {
    const char *ours = getenv("SMALLMM_NUM_THREADS"), *openmp = getenv("OMP_NUM_THREADS");
    if (ours && *ours) return positive(ours, "");
    const int threads = openmp ? positive(openmp, ",") : 0;
    return threads ? threads : cpus_allowed();
}

static atomic_int limit_in_use; /* 0: not yet looked up. Relaxed: it orders nothing else. */

int smm_get_num_threads(void) {
    int threads = atomic_load_explicit(&limit_in_use, memory_order_relaxed);
    if (!threads) {
        int unset = 0;
        threads = smm_default_threads();
        if (!atomic_compare_exchange_strong_explicit(&limit_in_use, &unset, threads, memory_order_relaxed,
                                                     memory_order_relaxed))
            threads = unset; /* another thread was faster */
    }
    return threads;
}

smm_status smm_set_num_threads(int threads) {
    if (threads < 0) return SMM_ERR_ARGUMENT;
    const int limit = threads ? at_most(SMM_MAX_THREADS, threads) : smm_default_threads();
    if (!limit) return SMM_ERR_THREADS;
    atomic_store_explicit(&limit_in_use, limit, memory_order_relaxed);
    return SMM_OK;
}
