/* numa.c: the nodes of the machine, which node computes which part of a job, and where memory lies.
 *
 * Linux lists nodes in sysfs. The lists are read once, when a job first uses several threads. If there is one node,
 * nothing else happens. If there are more, libnuma is opened, and makes all calls that move pages and threads; without
 * it everything counts as one node. This file sets no memory policy of a process or thread. The lists are not read by
 * libnuma, because it is not opened on one node, and prints where a list is missing. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "numa.h"

/* --- What is asked of the system --------------------------------------------------------------------- */

#if defined(__linux__)
static bool get_affinity(smm_set *cpus) { return !sched_getaffinity(0, sizeof *cpus, (cpu_set_t *)cpus); }
static int cpu_here(void) { return sched_getcpu(); }
#else
static bool get_affinity(smm_set *cpus) { return (void)cpus, false; }
static int cpu_here(void) { return -1; }
#endif

/* It stays open: workers call it for as long as they exist. */
static const char *open_libnuma(smm_numa_calls *calls) {
    static const struct {
        const char *name;
        size_t offset;
    } functions[] = {
#define FUNCTION(name) {#name, offsetof(smm_numa_calls, name)}
        FUNCTION(numa_available),
        FUNCTION(numa_sched_setaffinity),
        FUNCTION(numa_move_pages),
        FUNCTION(mbind),
#undef FUNCTION
    };
    void *library = dlopen("libnuma.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) return "libnuma.so.1 cannot be opened";
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *function = dlsym(library, functions[i].name);
        if (!function) return "libnuma.so.1 is too old";
        memcpy((char *)calls + functions[i].offset, &function, sizeof function);
    }
    return calls->numa_available() < 0 ? "libnuma finds no NUMA system" : NULL;
}

static const smm_numa_calls of_system = {.get_affinity = get_affinity, .cpu_here = cpu_here, .open = open_libnuma};
static const smm_numa_calls *_Atomic in_use = &of_system; /* tests replace them */

enum { PREFERRED = 1, INTERLEAVE = 3, MOVE = 2 }; /* MPOL_PREFERRED, MPOL_INTERLEAVE, MPOL_MF_MOVE: the kernel's ABI */

void smm_stay_on(const smm_nodes *x, int index) {
    smm_set cpus = x->node[index].set;
    x->calls.numa_sched_setaffinity(0, &(struct bitmask){SMM_MAX_CPUS, cpus.bits});
}

int smm_bind_pages(void *address, size_t bytes, bool interleave, const smm_set *nodes) {
    const smm_nodes *x = smm_numa();
    if (x->off) return ENOSYS;
    const int mode = interleave ? INTERLEAVE : PREFERRED;
    return x->calls.mbind(address, bytes, mode, nodes->bits, SMM_MAX_CPUS, 0) ? errno : 0;
}

int smm_move_pages(size_t count, void **pages, const int *nodes, int *status) {
    const smm_nodes *x = smm_numa();
    if (x->off) return ENOSYS;
    return x->calls.numa_move_pages(0, count, pages, nodes, status, nodes ? MOVE : 0) < 0 ? errno : 0;
}

/* --- Which nodes there are --------------------------------------------------------------------------- */

/* Read a list such as "0-3,8". It stays empty if there is no such file, or if that is no regular one: SMALLMM_NUMA may
 * name a folder with a pipe, which would have to be waited for. */
static void read_list(const char *root, const char *name, smm_set *set) {
    char path[4096 + 64];
    snprintf(path, sizeof path, "%s/%s", root, name);
    memset(set, 0, sizeof *set);
    struct stat about;
    const int descriptor = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (descriptor < 0) return;
    FILE *file = !fstat(descriptor, &about) && S_ISREG(about.st_mode) ? fdopen(descriptor, "r") : NULL;
    if (!file) {
        close(descriptor);
        return;
    }
    long first, last = 0;
    for (int read; (read = fscanf(file, "%ld-%ld", &first, &last)) > 0; fgetc(file))
        for (long i = first < 0 ? 0 : first; i <= (read == 2 ? last : first) && i < SMM_MAX_CPUS; i++)
            smm_set_add(set, (int)i);
    fclose(file);
}

int smm_node_here(const smm_nodes *x) {
    const int cpu = x->calls.cpu_here();
    for (int i = 0; i < x->count && cpu >= 0 && cpu < SMM_MAX_CPUS; i++)
        if (smm_set_has(&x->node[i].set, cpu)) return i;
    return 0;
}

/* Participants are assigned to nodes in turn, so that any number of them spreads over all nodes, as long as a node has
 * CPUs left. Participant 0 is the caller, which stays on its node. */
static void assign_seats(smm_nodes *x) {
    const int here = smm_node_here(x);
    for (int round = 0, seat = 0; seat < SMM_MAX_THREADS; round++) {
        bool full = true;
        for (int i = here; i < here + x->count && seat < SMM_MAX_THREADS; i++)
            if (x->node[i % x->count].cpus > round) x->seat[seat++] = (uint8_t)(i % x->count), full = false;
        if (full) round = -1;
    }
}

static void look(smm_nodes *x) {
    const char *asked = getenv("SMALLMM_NUMA"), *root = asked && *asked == '/' ? asked : "/sys/devices/system/node";
    smm_set allowed, online, memory;
    x->calls = *atomic_load(&in_use);
    if (!x->calls.get_affinity(&allowed)) memset(&allowed, -1, sizeof allowed);
    read_list(root, "online", &online);
    read_list(root, "has_memory", &memory);
    int sharing = 0;
    bool too_many = false;
    for (int id = 0; id < SMM_MAX_CPUS; id++) {
        if (!smm_set_has(&online, id)) continue;
        if ((too_many = x->count == SMM_MAX_NODES)) break;
        smm_node *node = &x->node[x->count++];
        char name[32];
        snprintf(name, sizeof name, "node%d/cpulist", id);
        read_list(root, name, &node->set);
        node->id = id;
        node->has_memory = smm_set_has(&memory, id);
        for (size_t i = 0; i < sizeof allowed.bits / sizeof *allowed.bits; i++)
            node->cpus += __builtin_popcountl(node->set.bits[i] &= allowed.bits[i]);
        sharing += node->cpus > 0;
    }
    x->off = asked && !strcmp(asked, "0") ? "SMALLMM_NUMA=0"
             : x->count < 2               ? ""
             : too_many                   ? "there are more than 64"
                                          : x->calls.open(&x->calls);
    x->sharing = x->off || !sharing ? 1 : sharing;
    if (x->sharing > 1) assign_seats(x);
}

static const smm_nodes nothing = {.off = "there is no memory to list them", .sharing = 1};
static const smm_nodes *_Atomic found;

const smm_nodes *smm_numa(void) {
    const smm_nodes *known = atomic_load_explicit(&found, memory_order_acquire);
    if (known) return known;
    smm_nodes *x = calloc(1, sizeof *x + SMM_MAX_NODES * sizeof *x->node);
    if (!x) return &nothing;
    look(x);
    if (atomic_compare_exchange_strong(&found, &known, x)) return x;
    free(x); /* another thread was faster */
    return known;
}

/* --- Who gets what ----------------------------------------------------------------------------------- */

enum { SAMPLES = 64 };

/* Ask on which nodes a job's memory lies: status[s] is the node of the s-th of SAMPLES stretches. The position of a
 * sample within its stretch varies, because a fixed distance might always meet the same node of interleaved pages.
 * Returns the number of samples. */
static int ask(const smm_home *home, intptr_t indices, int status[SAMPLES]) {
    void *pages[SAMPLES];
    for (int s = 0; s < SAMPLES; s++) {
        const double golden = s * 0.6180339887498949, within = golden - (int)golden; /* spreads evenly */
        const intptr_t i = (intptr_t)((s + within) / SAMPLES * (double)indices);
        pages[s] = (void *)(uintptr_t)home->address(home->context, i);
    }
    return smm_move_pages(SAMPLES, pages, NULL, status) ? 0 : SAMPLES;
}

static int index_of(const smm_nodes *nodes, int id) {
    for (int i = 0; i < nodes->count; i++)
        if (nodes->node[i].id == id) return i;
    return -1;
}

/* Weigh nodes by their members; memory that is known to lie on a node with members goes to that node. */
void smm_share_out(int participants, intptr_t indices, const smm_home *home, smm_shares *x) {
    const smm_nodes *nodes = smm_numa();
    if (nodes->sharing == 1) {
        x->count = x->total = x->weight[0] = 1;
        x->node[0] = 0;
        return;
    }
    int members[SMM_MAX_NODES] = {0}, known[SMM_MAX_NODES] = {0}, sum[SMM_MAX_NODES] = {0}, status[SAMPLES];
    for (int i = 0; i < participants; i++) members[nodes->seat[i]]++;
    const int samples = home && home->address ? ask(home, indices, status) : 0;
    int unknown = samples ? samples : 1;
    for (int s = 0; s < samples; s++) {
        const int i = index_of(nodes, status[s]);
        if (i < 0 || !members[i]) continue;
        known[i]++, sum[i] += s;
        unknown--;
    }
    x->count = x->total = 0;
    int place[SMM_MAX_NODES]; /* coarse, so that interleaved memory keeps the order of nodes */
    for (int i = 0; i < nodes->count; i++) {
        if (!members[i]) continue;
        const int middle = known[i] ? sum[i] / known[i] : SAMPLES / 2, own = (middle + SAMPLES / 8) / (SAMPLES / 4);
        int j = x->count++;
        for (; j > 0 && place[j - 1] > own; j--) {
            place[j] = place[j - 1];
            x->node[j] = x->node[j - 1];
            x->weight[j] = x->weight[j - 1];
        }
        place[j] = own;
        x->node[j] = i;
        x->total += x->weight[j] = known[i] * participants + unknown * members[i];
    }
}

void smm_numa_use(const smm_numa_calls *calls) {
    atomic_store(&in_use, calls ? calls : &of_system);
    atomic_store(&found, NULL);
}
