/* machines.h: machines that the tests pretend to have: nodes in a folder like that of sysfs, and a libnuma that answers
 * for them. */
#ifndef SMM_TESTS_MACHINES_H
#define SMM_TESTS_MACHINES_H

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../csrc/core/core.h"

enum { NODES_LISTED = 4 };

struct machine {
    const char *name, *online, *has_memory;
    const char *cpulist[NODES_LISTED]; /* of node 0, 1, ... */
    unsigned long allowed;             /* the CPUs that this process may use, a bit each */
    unsigned here;                     /* the CPU of callers */
    int nodes, sharing;                /* what is to be found */
    int members[NODES_LISTED];         /* of six participants */
};

static const struct machine machines[] = {
    {"one node", "0\n", "0\n", {"0-3\n"}, 0xf, 1, 1, 1, {6}},
    {"two nodes", "0-1\n", "0-1\n", {"0-3\n", "4-7\n"}, 0xff, 5, 2, 2, {3, 3}},
    {"two nodes, CPUs out of order", "0-1\n", "0-1\n", {"0,2,4,6\n", "1,3,5,7\n"}, 0xff, 2, 2, 2, {3, 3}},
    {"two nodes, one of them not allowed", "0-1\n", "0-1\n", {"0-3\n", "4-7\n"}, 0xf0, 5, 2, 1, {6}},
    {"a large node and a small one", "0-1\n", "0-1\n", {"0\n", "1-5\n"}, 0x3f, 1, 2, 2, {1, 5}},
    {"three nodes, none 1", "0,2-3\n", "0,2-3\n", {"0-1,6-7\n", "", "2-3\n", "4-5\n"}, 0xff, 4, 3, 3, {2, 2, 2}},
    {"three nodes, one without memory", "0-2\n", "0,2\n", {"0-1\n", "2-3\n", "4-5\n"}, 0x3f, 0, 3, 3, {2, 2, 2}},
    {"three nodes, one without CPUs", "0-2\n", "0-2\n", {"0-1\n", "2-3\n", "\n"}, 0xf, 3, 3, 2, {3, 3}},
    {"no node is listed", "", "", {""}, 0xf, 1, 0, 1, {6}},
};
enum { MACHINES = sizeof machines / sizeof *machines };

static const struct machine *machine_now;
static int (*node_of_page)(const void *page);      /* minus an errno: none */
static _Atomic int refuses;                        /* an errno for every call; 0: none */
static const char *no_libnuma;                     /* why it is of no use */
static _Thread_local unsigned long cpus_of_thread; /* that it was told to stay on */
static const smm_nodes *nodes_seen[1000];          /* for leak checkers */
static int machines_seen;
static atomic_int calls_made, opened;
static struct {
    void *address;
    size_t bytes;
    long mode;
    unsigned long nodes;
} bound; /* by the last call that bound memory */

static bool pretended_affinity(smm_set *cpus) {
    memset(cpus, 0, sizeof *cpus);
    cpus->bits[0] = machine_now->allowed;
    return true;
}

static int pretended_cpu(void) { return (int)machine_now->here; }

static int answer(void) {
    calls_made++;
    errno = refuses;
    return refuses ? -1 : 0;
}

static int pretended_setaffinity(int pid, struct bitmask *cpus) {
    if (!pid && cpus->size == SMM_MAX_CPUS && !refuses) cpus_of_thread = *cpus->maskp;
    return answer();
}

static int pretended_move_pages(int pid, unsigned long count, void **pages, const int *nodes, int *status, int flags) {
    for (size_t i = 0; i < count && !refuses && !pid && flags == (nodes ? 2 : 0); i++)
        status[i] = nodes ? nodes[i] : node_of_page(pages[i]);
    return answer();
}

static long pretended_mbind(void *address, unsigned long bytes, int mode, const unsigned long *nodes,
                            unsigned long bits, unsigned flags) {
    if (bits == SMM_MAX_CPUS && !flags && !refuses)
        bound.address = address, bound.bytes = bytes, bound.mode = mode, bound.nodes = *nodes;
    return answer();
}

static const char *pretended_open(smm_numa_calls *calls) {
    opened++;
    calls->numa_sched_setaffinity = pretended_setaffinity;
    calls->numa_move_pages = pretended_move_pages;
    calls->mbind = pretended_mbind;
    return no_libnuma;
}

static const smm_numa_calls pretended = {
    .get_affinity = pretended_affinity, .cpu_here = pretended_cpu, .open = pretended_open};

static void write_file(const char *folder, const char *name, const char *text) {
    char path[200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (!text) {
        unlink(path);
        return;
    }
    FILE *file = fopen(path, "w");
    if (file) fputs(text, file), fclose(file);
}

/* Run on this machine from now on; NULL: on the real one. */
static void become(const struct machine *m) {
    nodes_seen[machines_seen++ % 1000] = smm_numa();
    machine_now = m;
    smm_forget_pool();
    smm_numa_use(m ? &pretended : NULL);
    if (!m) return;
    char folder[] = "/tmp/nodes-XXXXXX", name[32];
    if (!mkdtemp(folder)) return;
    for (int created = 1; created >= 0; created--) {
        write_file(folder, "online", created && *m->online ? m->online : NULL);
        write_file(folder, "has_memory", created && *m->online ? m->has_memory : NULL);
        for (int i = 0; i < NODES_LISTED; i++) {
            if (!m->cpulist[i]) continue;
            snprintf(name, sizeof name, "%s/node%d", folder, i);
            if (created) mkdir(name, 0700);
            write_file(name, "cpulist", created ? m->cpulist[i] : NULL);
            if (!created) rmdir(name);
        }
        if (!created) break;
        setenv("SMALLMM_NUMA", folder, 1);
        smm_numa(); /* reads it */
        unsetenv("SMALLMM_NUMA");
    }
    rmdir(folder);
}

#endif
