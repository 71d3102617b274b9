/* numa.h: nodes of a machine of non-uniform memory access: some CPUs, and the memory next to them. */
#ifndef SMM_NUMA_H
#define SMM_NUMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../smallmm.h"

enum { SMM_MAX_THREADS = 512, SMM_MAX_CPUS = 16384, SMM_SET_WORD = 8 * sizeof(long) };

/* A set of CPUs or nodes, as the kernel writes it. */
typedef struct smm_set {
    unsigned long bits[SMM_MAX_CPUS / SMM_SET_WORD];
} smm_set;

static inline bool smm_set_has(const smm_set *set, int i) {
    return set->bits[i / SMM_SET_WORD] >> i % SMM_SET_WORD & 1;
}
static inline void smm_set_add(smm_set *set, int i) { set->bits[i / SMM_SET_WORD] |= 1ul << i % SMM_SET_WORD; }

typedef struct smm_node {
    int id;
    bool has_memory;
    int cpus; /* the CPUs of the node that this process may use, and their number */
    smm_set set;
} smm_node;

/* libnuma's type, of whose functions numa.c declares those that it calls. */
struct bitmask {
    unsigned long size; /* in bits */
    unsigned long *maskp;
};

/* What is asked of the system: two questions to libc, then functions of libnuma by their names there, which are set by
 * `open`. That returns NULL, or why they are of no use. */
typedef struct smm_numa_calls smm_numa_calls;
struct smm_numa_calls {
    bool (*get_affinity)(smm_set *cpus);
    int (*cpu_here)(void); /* -1: unknown */
    const char *(*open)(smm_numa_calls *calls);
    int (*numa_available)(void);
    int (*numa_sched_setaffinity)(int pid, struct bitmask *cpus);
    int (*numa_move_pages)(int pid, unsigned long count, void **pages, const int *nodes, int *status, int flags);
    long (*mbind)(void *address, unsigned long bytes, int mode, const unsigned long *nodes, unsigned long bits,
                  unsigned flags);
};

typedef struct smm_nodes {
    const char *off; /* NULL; or why everything counts as one node, which is "" if there is no other */
    int sharing;     /* number of nodes that share jobs, which are those with CPUs; 1 if off */
    int count;
    smm_numa_calls calls;
    uint8_t seat[SMM_MAX_THREADS]; /* the node of each participant of a job, an index into: */
    smm_node node[];
} smm_nodes;

/* The nodes, looked up at the first call and kept. */
const smm_nodes *smm_numa(void);

/* The index of the node that this thread runs on, of those that there are. */
int smm_node_here(const smm_nodes *x);

/* Bind this thread to the CPUs of a node, given by its index; the nodes must not be off. */
void smm_stay_on(const smm_nodes *x, int index);

/* The node that holds most of the memory of index i of a job. */
typedef struct smm_home {
    const void *(*address)(const void *context, intptr_t i); /* NULL: anywhere */
    const void *context;
} smm_home;

/* Below this, caches hold much of it, and asking where it lies would take too long. */
enum { SMM_ASK_BYTES = 8 << 20 };

/* Divide a job of that many participants and indices among the nodes: node[j], an index, gets weight[j] of `total`.
 * Nodes whose memory comes first come first. home may be NULL. */
typedef struct smm_shares {
    int count, total;
    int node[SMM_MAX_NODES], weight[SMM_MAX_NODES];
} smm_shares;
void smm_share_out(int participants, intptr_t indices, const smm_home *home, smm_shares *x);

/* Let pages that are not yet written come from a node, or from several in turn. Returns 0 or errno, which is ENOSYS if
 * the nodes are off. */
int smm_bind_pages(void *address, size_t bytes, bool interleave, const smm_set *nodes);

/* Move pages to nodes, given by their ids; if these are NULL, just look. status becomes the id of each page's node, or
 * minus an errno. Returns as smm_bind_pages does. */
int smm_move_pages(size_t count, void **pages, const int *nodes, int *status);

/* For tests: set all calls (NULL: the system's), and look everything up again. The old result stays where it is,
 * because a pool may point to it: see smm_forget_pool. */
void smm_numa_use(const smm_numa_calls *calls);

#endif
